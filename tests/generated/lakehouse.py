"""Many tapes in one lakehouse: landed and built in batches, and compared with the oracle after each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.places import Places
from tests import oracle
from tests.generated.machine import Kind, Script, as_record
from tests.generated.script import BATCHES, Player, Step, table_named
from tests.gold import miscounted, untold
from tests.projects import (
    accounts_of,
    declare_history,
    declare_more,
    empty_project,
    forget_tables,
    land,
    microseconds,
    rows_of,
    run_models,
)
from tests.source import Source

Versions: TypeAlias = dict[str, list[dict[str, Any]]]
# What a version tells of the change that opened it, but its position, which the oracle has as numbers.
LINEAGE = ("transaction_id", "topic", "partition", "offset")


@dataclass
class TapedTable:
    """A table with its tapes: each in a partition of its own, or one after another where they meet as a whole."""

    kind: Kind
    name: str
    source: str
    players: list[Player] = field(default_factory=list)

    def add(self, steps: Sequence[Step], *, apart: bool, whole: bool = True) -> None:
        """Play one more tape."""
        number = len(self.players)
        first = self.players[0] if self.players else None
        source, table = (first.source, first.table) if first and not apart else self._new(number)
        self.players.append(Player(source, table, str(number)).play(steps, whole=whole))

    def _new(self, partition: int) -> tuple[Source, Any]:
        return self.kind.source(partition, self.source), table_named(self.name, is_full=self.kind.is_full)

    def records(self, batch: int) -> Iterator[dict[str, Any]]:
        """The records that a batch lands."""
        return (record for player in self.players for at, record in player.deliveries if at == batch)


@dataclass(frozen=True)
class Difference:
    """A tape of which gold and oracle tell different histories."""

    table: TapedTable
    tape: int
    after: str
    gold: list[dict[str, Any]]
    oracle: list[dict[str, Any]]


def tables_of(scripts: Sequence[Script], source: str, *, apart: bool) -> list[TapedTable]:
    """The tables of scripts, by kind; `source` is the topic prefix, one for each lakehouse."""
    tables: dict[str, TapedTable] = {}
    for script in scripts:
        table = tables.setdefault(script.kind.name, TapedTable(script.kind, script.kind.name, source))
        table.add(script.steps, apart=apart)
    return list(tables.values())


def differences(spark: SparkSession, home: Path, tables: Sequence[TapedTable]) -> list[Difference]:
    """Land and build in batches; what differs after the first batch that differs, or after a full refresh."""
    forget_tables(spark)
    places = Places.of(empty_project(home / "project"))
    records: dict[str, list[oracle.Record]] = {table.name: [] for table in tables}
    for batch in range(BATCHES):
        lines = []
        for table in tables:
            landed = list(table.records(batch))
            lines += [json.dumps(record) + "\n" for record in landed]
            records[table.name] += map(as_record, landed)
        if not lines:
            continue
        land(spark, places, f"{home.name}-{batch}", "".join(lines), {table.source for table in tables})
        _declare(places, tables)
        run_models(places, accounting=True)
        assert all(map(current_is_open, captured_tables(places)))
        found = list(_compared(places, tables, records, f"batch {batch}"))
        if found:
            return found
    assert strays(places, tables, records) == []
    assert untold(spark, places, captured_tables(places)) == miscounted(spark, captured_tables(places)) == []
    grown = accounts_of(captured_tables(places))
    run_models(places, "--full-refresh", accounting=True)
    assert strays(places, tables, records) == []
    assert all(map(current_is_open, captured_tables(places)))
    assert untold(spark, places, captured_tables(places)) == miscounted(spark, captured_tables(places)) == []
    assert grown == accounts_of(captured_tables(places))
    return list(_compared(places, tables, records, "a full refresh"))


def _declare(places: Places, tables: Sequence[TapedTable]) -> None:
    for table in tables:
        name = f"{table.source}__{'public' if table.kind.connector == 'postgresql' else 'db'}__{table.name}"
        if not (places.project / f"models/gold/history/{name}_history.sql").exists():
            continue
        declare_history(places.project, name, table.kind.history_options)
        declare_more(places.project / f"models/silver/changes/{name}_changes.sql", table.kind.changes_options)


def _compared(
    places: Places, tables: Sequence[TapedTable], records: dict[str, list[oracle.Record]], after: str
) -> Iterator[Difference]:
    captured = captured_by_name(places)
    for table in tables:
        if table.name not in captured:
            continue
        history = oracle.build(records[table.name], {_name(table): table.kind.oracle_options}).get(_name(table))
        wanted = told_by_oracle(history) if history else {}
        found = told_by_gold(captured[table.name])
        for tape in range(len(table.players)):
            keys = sorted({key for key in (*wanted, *found) if key.startswith(f"{tape}:")})
            gold, right = ([row for key in keys for row in versions.get(key, [])] for versions in (found, wanted))
            if gold != right:
                yield Difference(table, tape, after, gold, right)


def captured_by_name(places: Places) -> dict[str, CapturedTable]:
    """The captured tables, by their names in the source."""
    return {table.source_table.partition("__")[2]: table for table in captured_tables(places)}


def strays(
    places: Places, tables: Sequence[TapedTable], records: dict[str, list[oracle.Record]]
) -> list[tuple[str, str]]:
    """Tables that have records and no history, and keys in histories that are of no tape."""
    captured = captured_by_name(places)
    return [
        *((table.name, "no history") for table in tables if records[table.name] and table.name not in captured),
        *(
            (table.name, key)
            for table in tables
            if table.name in captured
            for key in told_by_gold(captured[table.name])
            if key.partition(":")[0] not in map(str, range(len(table.players)))
        ),
    ]


def _name(table: TapedTable) -> str:
    return f"{'public' if table.kind.connector == 'postgresql' else 'db'}.{table.name}"


def told_by_gold(table: CapturedTable) -> Versions:
    """Key → its versions in gold."""
    assert table.history is not None
    rows = rows_of(table.history.location)
    rows.sort(key=lambda row: (row["position"], row["partition"], row["offset"], row["opened_by"] != "before"))
    versions: Versions = {}
    for row in rows:
        versions.setdefault(row["id"], []).append(
            {name: row.get(name) for name in ("id", "name", "note", "extra")}
            | {name: microseconds(row[name]) for name in ("valid_from", "valid_to")}
            | {name: row[name] and list(json.loads(row[name]).values()) for name in ("previous_key", "next_key")}
            | {name: row[name] for name in ("opened_by", "closed_by", "is_start_known", *LINEAGE)}
            | {"unresolved_columns": sorted(row["unresolved_columns"])}
        )
    return versions


def current_is_open(table: CapturedTable) -> bool:
    """Whether the current state is the history's open versions."""
    assert table.history is not None
    assert table.current is not None
    columns = [*table.row, "version_id", "valid_from", "position", "offset"]
    open_versions = [row for row in rows_of(table.history.location, *columns, "is_current") if row.pop("is_current")]
    return sorted(map(repr, open_versions)) == sorted(map(repr, rows_of(table.current.location, *columns)))


def told_by_oracle(history: oracle.History) -> Versions:
    """Key → its versions as the oracle has them, in the same form."""
    return {
        key[0]: [
            {name: version.state.get(name) for name in ("id", "name", "note", "extra")}
            | {name: getattr(version, name) for name in ("valid_from", "valid_to", "opened_by", "closed_by")}
            | {name: getattr(version, name) for name in ("is_start_known", *LINEAGE)}
            | {name: value and list(value) for name, value in
               (("previous_key", version.previous_key), ("next_key", version.next_key))}
            | {"unresolved_columns": sorted(version.unresolved_columns)}
            for version in versions
        ]
        for key, versions in history.versions.items()
    }  # fmt: skip


def smallest(fails: Callable[[list[list[Step]]], list[bool]], steps: Sequence[Step]) -> list[Step]:
    """The steps without those that a failure doesn't need; `fails` says of many scripts at once whether they do."""
    left, size = list(steps), max(1, len(steps) // 2)
    for _ in range(12):
        candidates = [left[:start] + left[start + size :] for start in range(0, len(left), size)]
        failed = [one for one, is_failed in zip(candidates, fails(candidates), strict=True) if is_failed]
        if failed:
            left, size = failed[0], max(1, min(size, len(failed[0]) // 2))
        elif size == 1:
            break
        else:
            size //= 2
    return left
