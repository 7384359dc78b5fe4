"""What was counted beside the dispositions: signs that events were lost, late or not whole, with sample keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from spark_jobs.bronze import LINEAGE
from spark_jobs.declarations import CapturedTable
from spark_jobs.masking import Mask
from spark_jobs.names import exact_json, quoted
from spark_jobs.reporting.accounting import EventTable
from spark_jobs.reporting.measures import Measures
from spark_jobs.reporting.schema_changes import SchemaChange, reason_of
from spark_jobs.texts import quantity

# What each sign of macros/accounting/signs.sql, of `key_shapes` and of `dropped_tables` means to people. Those that
# tell of something lost come first.
MEANINGS = {
    "missed_changes": "reads that differ from the open version: changes that no event told (R16)",
    "missed_deletes": "keys that a complete later snapshot lacks: deletes untold, unless it was filtered (R16)",
    "dropped_rows": "rows of a table that was dropped are still open, since no event ends them: a complete snapshot"
    " tells which are gone, and closes them with snapshot_deletes='close' (R16)",
    "broken_chains": "changes that found the row in another state than the last one known (R19)",
    "unknown_updates": "histories that begin with an update: the insert was never captured (R9)",
    "unknown_deletes": "deletes of keys that no event has shown (R9)",
    "old_key_shapes": "open versions under a key of an old shape: their end may never be told (R8)",
    "other_key_shapes": "changes whose own key has other columns than the declared one (R8)",
    "found_states": "states that a key's first event found: their beginning was never captured (R19)",
    "unresolved_columns": "versions with a value that was left out and that no earlier state tells, or, of a column"
    " declared `reselected`, that may be later than its change (R7)",
    "exact_values": "rows with a value that its type can't hold, kept as text in exact_values (R6)",
    "held_back_times": "boundaries held at the one before them, since the source's clock went back (R10)",
    "position_regressions": "changes that arrived behind later ones of their partition (R4, R5)",
    "new_logs": "borders behind which the source's log is another one (R5)",
}
LOST = (
    "missed_changes", "missed_deletes", "dropped_rows", "broken_chains", "unknown_updates", "unknown_deletes",
    "old_key_shapes",
)  # fmt: skip

_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class Sign:
    """How often a table met a sign; `sample_keys` are some of its keys as JSON, sensitive values as short hashes.

    `because` names the columns whose declarations to change, and statements that changed the table, where they explain
    it.
    """

    table: str
    sign: str
    meaning: str
    count: int
    sample_keys: tuple[str, ...]
    because: str = ""


def signs(
    tables: Sequence[CapturedTable],
    counted: Mapping[str, Sequence[Row]],
    changed: Mapping[str, Sequence[SchemaChange]],
    measured: Mapping[str, Measures],
    mask: Mask,
    *,
    sample_rows: bool,
) -> dict[str, dict[str, Sign]]:
    """Table → sign → what was counted, in the order of MEANINGS.

    Args:
        tables: The captured tables.
        counted: What `accounting.counted`, `signs_of_logs`, `signs_of_key_shapes` and `signs_of_drops` gave.
        changed: Table → the statements that changed it.
        measured: Table → what its layers say.
        mask: What hides sensitive values of keys.
        sample_rows: Whether keys may be shown.
    """
    signs_of: dict[str, dict[str, Sign]] = {table.name: {} for table in tables}
    for table in tables:
        rows = {row["name"]: row for row in counted.get(table.name, ()) if row["kind"] == "sign"}
        for name, meaning in MEANINGS.items():
            if name in rows:
                keys = tuple(shown_key(table, key, mask) for key in rows[name]["sample_keys"]) if sample_rows else ()
                because = reason_of(name, changed, table.name)
                if name == "exact_values":
                    because = _by_column(table, measured[table.name].exact_values) + because
                because = because.strip()
                signs_of[table.name][name] = Sign(table.name, name, meaning, rows[name]["records"], keys, because)
    return signs_of


def signs_of_logs(tables: Sequence[CapturedTable], measured: Mapping[str, Measures]) -> dict[str, list[Row]]:
    """Table → rows as the accounting has them (kind, name, records, sample_keys), where no accounting has any."""
    told = {
        table.name: {"exact_values": measured[table.name].inexact, "new_logs": measured[table.name].new_logs}
        for table in tables
        if table.accounting is None
    }
    return {
        table: [Row(kind="sign", name=name, records=count, sample_keys=[]) for name, count in counts.items() if count]
        for table, counts in told.items()
    }


def sign_of(name: str, met: DataFrame) -> list[Row]:
    """A sign as the accounting has it, of rows with the `key` that met it; nothing where none has."""
    keys = met.select(exact_json(F.col("key")).alias("key"))
    sign = keys.agg(
        F.lit("sign").alias("kind"),
        F.lit(name).alias("name"),
        F.count("*").alias("records"),
        F.slice(F.array_sort(F.collect_set("key")), 1, _SAMPLES).alias("sample_keys"),
    )
    return list(sign.where("records > 0").collect())


def open_versions(table: CapturedTable, history: DataFrame) -> DataFrame:
    """The places and positions of the changes that opened the open versions."""
    opening = [_own(table, name).alias(name) for name in (*LINEAGE, "position")]
    return history.where(_own(table, "is_current")).select(*opening)


def _own(table: CapturedTable, name: str) -> Column:
    return F.col(quoted(table.column_names.get(name, name)))


def signs_of_events(kept: Iterable[EventTable]) -> dict[str, dict[str, Sign]]:
    """Table of events → sign → what was counted; without those that met none."""
    name = "exact_values"
    return {
        one.model: {
            name: Sign(
                one.model, name, MEANINGS[name], one.inexact, (),
                f"Declare types that hold them, or their `encoding`, in {one.model}.",
            )
        }
        for one in kept
        if one.inexact
    }  # fmt: skip


def _by_column(table: CapturedTable, rows: Mapping[str, int]) -> str:
    """A sentence that says which declarations to change; empty where no row of now has such a value."""
    types = {spec["name"]: spec["type"] for spec in table.columns}
    row = "change" if table.accounting is None else "version"
    columns = [f"`{name}` ({types.get(name, 'not declared')}): {quantity(count, row)}" for name, count in rows.items()]
    if not columns:
        return ""
    return (
        f"{'; '.join(columns)}. Declare a type that holds them or, where records have no schema, their `encoding` in"
        f" {table.changes.name}."
    )


def shown_key(table: CapturedTable, key: str, mask: Mask) -> str:
    """A key as JSON, numbers with all their digits, sensitive values as short hashes."""
    said = json.loads(key, parse_float=_Number, parse_int=_Number)
    return _as_json({name: mask.value(table, name, value) for name, value in said.items()})


class _Number(str):
    """A number as it is written: Python's own types round what a decimal holds."""


def _as_json(value: Any) -> str:
    if isinstance(value, _Number):
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_as_json(name)}: {_as_json(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_json, value))}]"
    return json.dumps(value, ensure_ascii=False)
