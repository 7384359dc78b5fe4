"""Small tables of every layer, written as their columns are, with sane defaults: a test shows only what it is about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_jobs import bronze
from spark_jobs.columns import CURRENT_COLUMNS, OWN_COLUMNS
from spark_jobs.declarations import CapturedTable, Model
from spark_jobs.delta import is_table
from spark_jobs.names import quoted
from spark_jobs.places import Places
from spark_jobs.scaffolding.write import suites_of, write

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
CHANGE = (
    "change_id string, op string, key {key}, previous_key string, next_key string, position string,"
    " transaction_id string, changed_at timestamp, processed_at timestamp, is_read boolean, after {row}, before {row},"
    " is_before_whole boolean, unavailable_columns array<string>, exact_values map<string,string>, log_number int,"
    " absent_columns array<string>, source_label string, topic string, `partition` int, `offset` bigint,"
    " batch_id bigint, landed_at timestamp, problem string"
)

PROGRESS = (
    "model string, batch_id bigint, state string, recorded_at timestamp,"
    " account array<struct<kind: string, name: string, records: bigint, sample_keys: array<string>>>"
)

# Stories are written side by side.
_PROGRESS = Lock()


def at(minute: float | None) -> datetime | None:
    """A minute after the start of every test's story."""
    return None if minute is None else START + timedelta(minutes=minute)


@dataclass
class Story:
    """What one captured table holds, layer by layer: columns `key` and `value`, both text, under the names given.

    The key of a `wide_key` has both of them; the log of `documents` says so by its column `document`. A history whose
    `outcomes` are known was built up to the first landing, with the columns `built_with`, by type. Its current state
    lacks the columns of `history_alone`.
    """

    name: str
    key: str = "id"
    is_keyed: bool = True
    wide_key: bool = False
    documents: bool = False
    value: str = "v"
    names: Mapping[str, str] = field(default_factory=dict)
    sensitive: Sequence[str] = ()
    records: list[dict[str, Any]] = field(default_factory=list)
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    shapes: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    versions: list[dict[str, Any]] = field(default_factory=list)
    current: list[dict[str, Any]] = field(default_factory=list)
    outcomes: Mapping[str, int] | None = None
    built_with: Mapping[str, str] = field(default_factory=dict)
    history_alone: Sequence[str] = ()
    signs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def topic(self) -> str:
        """The table's one topic."""
        return f"{self.name}.topic"

    def record(self, offset: int | None, **own: Any) -> None:
        """Bronze gets a record."""
        usual: dict[str, Any] = {
            "feed": self.name,
            "source_label": "default",
            "topic": self.topic,
            "partition": 0,
            "offset": offset,
            "content_hash": f"h{offset}",
            "kind": "change",
            "op": "c",
            "connector": "postgresql",
            "source_name": "src",
            "table": self.name,
            "batch_id": 1,
        }
        self.records.append(usual | own)

    def change(self, key: str | None, **own: Any) -> int:
        """The log gets a change, and bronze its record; returns the offset."""
        offset = len(self.changes)
        row = None if key is None else {self.key: key, self.value: f"value of {key}"}
        usual: dict[str, Any] = {
            "change_id": f"{self.name}-{offset}",
            "op": "c",
            "key": row and self._key_of(row),
            "position": f"{offset:020}",
            "transaction_id": str(offset),
            "changed_at": at(offset),
            "processed_at": at(offset + 0.01),
            "is_read": False,
            "after": row,
            "unavailable_columns": [],
            "exact_values": {},
            "absent_columns": [],
            "log_number": 0,
            "source_label": "default",
            "topic": self.topic,
            "partition": 0,
            "offset": offset,
            "batch_id": 1,
            "landed_at": at(10_000),
        }
        self.changes.append(usual | own)
        return offset

    def version(self, key: str | None, begin: float | None, end: float | None = None, **own: Any) -> None:
        """History gets a version, the log its change, current its row where it is open.

        `change` is what the change says otherwise than the version, `ended` what the one says otherwise that ended it,
        None where none did. A key's versions have values of their own.
        """
        traced, change = own.pop("traced", True), own.pop("change", {})
        in_current = own.pop("in_current", end is None)
        offset = own.get("offset", len(self.changes) if traced else 900_000)
        is_open = end is None
        by_change = not is_open and own.get("closed_by", "delete") in ("delete", "key_change")
        ended = own.pop("ended", {} if by_change else None)
        opened_by = own.get("opened_by", "insert")
        is_next = not self.wide_key and any(row[self.key] == key for row in self.versions)
        usual: dict[str, Any] = {
            self.key: key,
            self.value: f"value of {key} from {begin}" if is_next else f"value of {key}",
            "valid_from": at(begin),
            "valid_to": at(end),
            "is_current": is_open,
            "opened_by": opened_by,
            "closed_by": None if is_open else "delete",
            "is_start_known": opened_by not in ("snapshot", "before"),
            "unresolved_columns": [],
            "exact_values": {},
            "position": f"{offset:020}",
            "transaction_id": str(offset),
            "topic": self.topic,
            "partition": 0,
            "offset": offset,
        }
        row = usual | own
        row = {"version_id": self._hash_of(row)} | row
        self.versions.append(row)
        if traced:
            after = {name: row[name] for name in (self.key, self.value)}
            shared = ("position", "transaction_id", "offset", "previous_key")
            same: dict[str, Any] = {name: row[name] for name in shared if name in row}
            said = {
                "key": self._key_of(after),
                "after": after,
                "unavailable_columns": row["unresolved_columns"],
                "exact_values": row["exact_values"],
                **same,
            }
            self.change(key)
            self.changes[-1] |= said | {"changed_at": row["valid_from"] or at(0)} | change
        if in_current:
            self.current.append({name: row.get(name) for name in (self.key, self.value, *CURRENT_COLUMNS)})
        if ended is not None:
            last = self.change(key, op="d", after=None, next_key=row.get("next_key"), changed_at=row["valid_to"])
            self.changes[last] |= {"key": self._key_of(row)} | ended

    def _key_of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: row[name] for name in (self.key, *([self.value] if self.wide_key else []))}

    def _hash_of(self, row: Mapping[str, Any]) -> str:
        """R3: of table, key, opening position and `opened_by`."""
        named = {"table": f"src.{self.name}", "key": self._key_of(row)}
        named |= {name: row[name] for name in ("position", "opened_by")}
        return hashlib.sha256(json.dumps(named, separators=(",", ":")).encode()).hexdigest()

    def table(self, places: Places) -> CapturedTable:
        """The captured table as the project's models would declare it."""
        columns = ({"name": name, "type": "string", "field": name} for name in (self.key, self.value))
        return CapturedTable(
            name=self.name,
            source_name="src",
            source_table=self.name,
            feed=self.name,
            key=(self.key, *([self.value] if self.wide_key else [])) if self.is_keyed else (),
            columns=tuple({**one, "sensitive": one["name"] in self.sensitive} for one in columns),
            column_names=dict(self.names),
            changes=self._model(places, "silver", "changes"),
            current=self._model(places, "silver", "current") if self.is_keyed else None,
            history=self._model(places, "gold", "history") if self.is_keyed else None,
            accounting=self._model(places, "ops", "accounting") if self.outcomes is not None else None,
            transactions=None,
        )

    def _model(self, places: Places, layer: str, kind: str) -> Model:
        name = f"{self.name}_{kind}"
        return Model(name, f"{layer}.{name}", places.table(layer, name))

    def write(self, spark: SparkSession, places: Places) -> CapturedTable:
        """Write silver, gold, the outcomes and the suite; bronze is written for all stories together."""
        table = self.table(places)
        row = f"struct<{quoted(self.key)}: string, {quoted(self.value)}: string>"
        renamed = {name: self.names.get(name, name) for name in OWN_COLUMNS}
        source = f"{quoted(self.key)} string, {quoted(self.value)} string, "
        history = source + "".join(f"{quoted(name)} string, " for name in self.history_alone)
        history += ", ".join(f"{quoted(renamed[name])} {kind}" for name, kind in OWN_COLUMNS.items())
        current = source + ", ".join(f"{quoted(renamed[name])} {OWN_COLUMNS[name]}" for name in CURRENT_COLUMNS)
        key = row if self.wide_key else f"struct<{quoted(self.key)}: string>"
        changes = CHANGE.format(row=row, key=key) + (", document string" if self.documents else "")
        write_table(spark, table.changes, changes, self.changes)
        write_table(spark, table.current, current, [_renamed(one, renamed) for one in self.current])
        write_table(spark, table.history, history, [_renamed(one, renamed) for one in self.versions])
        outcomes = [
            {"kind": "disposition", "name": name, "records": count, "sample_keys": []}
            for name, count in (self.outcomes or {}).items()
        ]
        write_account(spark, places, table, [*outcomes, *self.signs], self.built_with)
        write(places.project, suites_of([table]), "w")
        return table


def write_bronze(spark: SparkSession, places: Places, stories: Iterable[Story]) -> None:
    """Write bronze as all stories have it."""
    stories = list(stories)
    _write(
        spark, places.table("bronze", "records"), bronze.RECORDS, [one for story in stories for one in story.records]
    )
    held = [{"source_label": "default", "code": "no-envelope", "reason": "no envelope", "topic": story.topic,
             "partition": 0, "occurrences": 1} | one for story in stories for one in story.quarantined]  # fmt: skip
    _write(spark, places.table("bronze", "quarantine"), bronze.QUARANTINE, held)
    shapes = [{"feed": story.name} | one for story in stories for one in story.shapes]
    _write(spark, places.table("bronze", "shapes"), bronze.SHAPES, shapes)


def _renamed(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in row.items()}


def write_table(spark: SparkSession, model: Model | None, columns: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table anew in one commit; nothing where the story has no such model."""
    if model is not None:
        _write(spark, model.location, columns, rows)


def write_account(
    spark: SparkSession,
    places: Places,
    table: CapturedTable,
    account: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str] | None = None,
) -> None:
    """Write down what builds have counted of a table's changes; nothing where the story has no accounting."""
    if table.accounting is None or table.history is None:
        return
    location = places.table("ops", "progress")
    model = f"model.tidemark.{table.history.name}"
    rows = [tuple(one.get(name) for name in ("kind", "name", "records", "sample_keys")) for one in account]
    state = json.dumps({"columns": [[name, kind, name] for name, kind in (columns or {}).items()]})
    frame = spark.createDataFrame([(model, 1, state, at(0), rows)], PROGRESS)
    with _PROGRESS:
        if is_table(spark, location):
            spark.sql(f"delete from delta.`{location}` where model = '{model}'")
        frame.coalesce(1).write.format("delta").mode("append").save(location)


def _write(spark: SparkSession, location: str, columns: str, rows: Sequence[Mapping[str, Any]]) -> None:
    schema = StructType.fromDDL(columns)
    data = [tuple(one.get(name) for name in schema.names) for one in rows]
    frame = spark.createDataFrame(data, schema).coalesce(1).write.format("delta").mode("overwrite")
    frame.option("delta.columnMapping.mode", "name").save(location)
