"""A simulated PostgreSQL database with its connector: statements go in, the records that Debezium writes come out.

It knows nothing of histories. What it writes follows real captures: positions and the last commit's position, the
transaction block, keys and their headers, tombstones, unavailable large values, redelivery after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
UNAVAILABLE = "__debezium_unavailable_value"
START = 1_700_000_000_000_000


@dataclass(frozen=True)
class Column:
    """A column and how the connector describes it; values are given as they stand in the JSON."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    is_large: bool = False

    def described(self, *, optional: bool) -> dict[str, Any]:
        """The column in an embedded schema."""
        return {**self.schema, "optional": optional, "field": self.name}


@dataclass
class Table:
    """A table as the source has it now."""

    name: str
    columns: list[Column]
    key: tuple[str, ...]
    is_full: bool = False
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """The row's key, as values that can be looked up."""
        return tuple(json.dumps(row[name]) for name in self.key)

    def fields(self) -> list[dict[str, Any]]:
        """The row in an embedded schema."""
        return [column.described(optional=column.name not in self.key) for column in self.columns]


@dataclass
class Source:
    """A server and its connector: one log, one topic a table, one partition a topic."""

    prefix: str
    has_schemas: bool = True
    has_tombstones: bool = True
    records: list[dict[str, Any]] = field(default_factory=list)
    now: int = START
    lsn: int = 1000
    last_commit: int | None = None
    transaction: int = 500
    _order: int = 0
    _open: bool = False

    def tick(self, microseconds: int = 1_000_000) -> None:
        """Let time pass; a negative step is a clock that is set back."""
        self.now += microseconds

    @contextmanager
    def commit(self) -> Iterator[None]:
        """One transaction: its changes have one id and one time."""
        self.transaction += 1
        self._order, self._open = 0, True
        self.tick()
        yield
        self._open = False
        self.lsn += 8
        self.last_commit = self.lsn

    def insert(self, table: Table, row: Row) -> None:
        """INSERT of a row."""
        table.rows[table.key_of(row)] = row
        self._change(table, "c", None, row)

    def update(self, table: Table, old: Row, changes: Row) -> None:
        """UPDATE of a row; one of its key is a delete and an insert to the connector."""
        new = {**old, **changes}
        if table.key_of(old) == table.key_of(new):
            table.rows[table.key_of(new)] = new
            self._change(table, "u", old, self._seen(table, old, new))
            return
        del table.rows[table.key_of(old)]
        table.rows[table.key_of(new)] = new
        newkey, oldkey = ({name: row[name] for name in table.key} for row in (new, old))
        self._change(table, "d", old, None, {"__debezium.newkey": newkey})
        self._change(table, "c", None, self._seen(table, old, new), {"__debezium.oldkey": oldkey})

    def delete(self, table: Table, row: Row) -> None:
        """DELETE of a row."""
        del table.rows[table.key_of(row)]
        self._change(table, "d", row, None)

    def truncate(self, table: Table) -> None:
        """TRUNCATE of the table."""
        table.rows.clear()
        self._change(table, "t", None, None)

    def snapshot(self, table: Table) -> None:
        """A blocking snapshot of the table."""
        rows = list(table.rows.values())
        self.lsn += 8
        for number, row in enumerate(rows):
            self.tick(1_000)
            self._change(table, "r", None, row, snapshot="last" if number == len(rows) - 1 else "true")

    def redeliver(self, count: int) -> None:
        """A restart: the connector sends its last records again, under new offsets."""
        again = self.records[-count:] if count else []
        for record in again:
            self.records.append({**record, "offset": self._next_offset(record["topic"])})

    def lines(self, records: Sequence[Mapping[str, Any]] | None = None) -> str:
        """Records as lines of a record file."""
        return "".join(json.dumps(record) + "\n" for record in (self.records if records is None else records))

    def _seen(self, table: Table, old: Row, new: Row) -> Row:
        """The new row as the log has it: a large value that did not change is left out."""
        large = {column.name for column in table.columns if column.is_large} if not table.is_full else set()
        return {
            name: UNAVAILABLE if name in large and value == old[name] and value is not None else value
            for name, value in new.items()
        }

    def _change(
        self,
        table: Table,
        op: str,
        before: Row | None,
        after: Row | None,
        headers: Mapping[str, Row] | None = None,
        snapshot: str | None = None,
    ) -> None:
        self.lsn += 0 if op == "r" else 8
        self._order += 1
        if before is not None and not table.is_full:
            # REPLICA IDENTITY DEFAULT knows the key alone
            before = {
                column.name: before[column.name] if column.name in table.key else None for column in table.columns
            }
            before = before if op == "d" else None
        source = {
            "version": "3.5.0.Final", "connector": "postgresql", "name": self.prefix,
            "ts_ms": self.now // 1000, "snapshot": snapshot or "false", "db": "db",
            "sequence": json.dumps([self.last_commit and str(self.last_commit), str(self.lsn)]),
            "ts_us": self.now, "ts_ns": self.now * 1000, "schema": "public", "table": table.name,
            "txId": self.transaction, "lsn": self.lsn, "xmin": None,
        }  # fmt: skip
        block = {
            "id": f"{self.transaction}:{self.lsn}",
            "total_order": self._order,
            "data_collection_order": self._order,
        }
        payload = {
            "before": before, "after": after, "source": source, "transaction": None if op == "r" else block, "op": op,
            "ts_ms": self.now // 1000 + 7, "ts_us": self.now + 7000, "ts_ns": (self.now + 7000) * 1000,
        }  # fmt: skip
        row = before if after is None else after
        key = None if row is None or op == "t" else {name: row[name] for name in table.key}
        self._write(table, key, self._value(table, payload), headers or {})
        if op == "d" and self.has_tombstones:
            self._write(table, key, None, headers or {})

    def _write(self, table: Table, key: Row | None, value: str | None, headers: Mapping[str, Row]) -> None:
        topic = f"{self.prefix}.public.{table.name}"
        self.records.append(
            {
                "topic": topic,
                "partition": 0,
                "offset": self._next_offset(topic),
                "timestamp": self.now // 1000 + 9,
                "key": None if key is None or not table.key else self._key(table, key),
                "value": value,
                "headers": [{"key": name, "value": self._key(table, named)} for name, named in headers.items()],
            }
        )

    def _next_offset(self, topic: str) -> int:
        return sum(1 for record in self.records if record["topic"] == topic)

    def _key(self, table: Table, key: Row) -> str:
        fields = [column for column in table.fields() if column["field"] in table.key]
        return self._enveloped({"type": "struct", "fields": fields, "optional": False}, key)

    def _value(self, table: Table, payload: Row) -> str:
        images = [
            {"type": "struct", "fields": table.fields(), "optional": True, "field": name}
            for name in ("before", "after")
        ]
        return self._enveloped({"type": "struct", "fields": images, "optional": False, "name": "Envelope"}, payload)

    def _enveloped(self, schema: Row, payload: Row) -> str:
        return json.dumps({"schema": schema, "payload": payload} if self.has_schemas else payload)
