"""A simulated database with its connector: statements go in, the records that Debezium writes come out.

It knows nothing of histories. What it writes follows real captures of PostgreSQL and MariaDB, and what is documented of
Oracle, SQL Server and Db2: positions and the last commit's position, the transaction block, keys and their headers,
tombstones, unavailable large values, snapshots, redelivery after a restart.
"""

from __future__ import annotations

import json
import zlib
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
class Event:
    """A statement's effect on a row, not yet written to the topic."""

    table: Table
    op: str
    before: Row | None
    after: Row | None
    headers: Mapping[str, Row] = field(default_factory=dict)
    lsn: int = 0


_BEYOND_BIGINT = 1 << 63


def sqlserver_lsn(place: int) -> str:
    """A place in SQL Server's log."""
    return f"00000025:{place:08x}:0001"


@dataclass
class Source:
    """A server and its connector: one log, one topic a table, of one partition or, by the record's key, of several."""

    prefix: str
    has_schemas: bool = True
    has_tombstones: bool = True
    connector: str = "postgresql"
    partition: int = 0
    partitions: int = 1
    records: list[dict[str, Any]] = field(default_factory=list)
    now: int = START
    lsn: int = 1000
    last_commit: int | None = None
    transaction: int = 500
    server: int = 1
    named: str = ""
    _offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)

    def tick(self, microseconds: int = 1_000_000) -> None:
        """Let time pass; a negative step is a clock that is set back."""
        self.now += microseconds

    @contextmanager
    def commit(self) -> Iterator[None]:
        """One transaction: its changes have one id and one time."""
        yield
        self.write(self.taken())

    def taken(self) -> list[Event]:
        """The events of the statements so far, for a session to commit or to roll back."""
        events, self._events = self._events, []
        return events

    def write(self, events: Sequence[Event]) -> None:
        """Commit a transaction's events, and let the connector write them."""
        self.transaction += 1
        self.tick()
        for order, event in enumerate(events, 1):
            self._change(event, order)
        self.lsn += 8
        self.last_commit = self.lsn

    def tell(self, **counts: int) -> None:
        """BEGIN and END of the last transaction, which counts so many changes of each table."""
        begun = {"status": "BEGIN", "id": self.named, "ts_ms": self.now // 1000}
        counted = [{"data_collection": f"{self._schema}.{name}", "event_count": one} for name, one in counts.items()]
        ended = begun | {"status": "END", "event_count": sum(counts.values()), "data_collections": counted}
        topic = f"{self.prefix}.transaction"
        for boundary in (begun, ended):
            self.records.append(
                {"topic": topic, "partition": 0, "offset": self._next_offset(topic, 0), "timestamp": None, "key": None}
                | {"value": json.dumps(boundary), "headers": []}
            )

    def insert(self, table: Table, row: Row, *, same_place: bool = False) -> None:
        """INSERT of a row; the rows of a COPY have the same place."""
        table.rows[table.key_of(row)] = row
        self._add(table, "c", None, row, same_place=same_place)

    def update(self, table: Table, old: Row, changes: Row) -> None:
        """UPDATE of a row; one of its key is a delete and an insert to the connector."""
        new = {**old, **changes}
        if table.key_of(old) == table.key_of(new):
            table.rows[table.key_of(new)] = new
            if old != new or self.connector == "postgresql":
                self._add(table, "u", old, self._seen(table, old, new))
            return
        del table.rows[table.key_of(old)]
        table.rows[table.key_of(new)] = new
        self._move(table, old, new)

    def swap(self, table: Table, one: Row, other: Row) -> None:
        """An UPDATE that gives two rows each other's key, where doubled keys are looked for when it ends."""
        for old, to in ((one, other), (other, one)):
            new = {**old, **{name: to[name] for name in table.key}}
            table.rows[table.key_of(new)] = new
            self._move(table, old, new)

    def delete(self, table: Table, row: Row) -> None:
        """DELETE of a row."""
        del table.rows[table.key_of(row)]
        self._add(table, "d", row, None)

    def truncate(self, table: Table) -> None:
        """TRUNCATE of the table."""
        table.rows.clear()
        self._add(table, "t", None, None)

    def snapshot(self, table: Table, marker: str = "true") -> None:
        """A snapshot of the table: a blocking one, whose last read says so, or an `incremental` one."""
        if self._events:
            self.write(self.taken())
        rows = list(table.rows.values())
        self.lsn += 8
        for number, row in enumerate(rows):
            self.tick(1_000)
            is_last = marker == "true" and number == len(rows) - 1
            self._change(Event(table, "r", None, row, lsn=self.lsn), 0, "last" if is_last else marker)

    def redeliver(self, count: int) -> None:
        """A restart: the connector sends its last records again, under new offsets and counted anew."""
        for order, record in enumerate(self.records[-count:] if count else [], 1):
            again = {**record, "offset": self._next_offset(record["topic"], record["partition"])}
            if record["value"] and '"total_order"' in record["value"]:
                value = json.loads(record["value"])
                value.get("payload", value)["transaction"]["total_order"] = order
                value.get("payload", value)["ts_ms"] = self.now // 1000 + 11
                again["value"] = json.dumps(value)
            self.records.append(again)

    def fail_over(self) -> None:
        """Another server takes over: the same rows, another log, at lower positions."""
        self.server += 1
        self.lsn = 8 * self.server
        self.last_commit = None if self.connector == "postgresql" else self.last_commit
        self.tick()

    def written(self) -> list[dict[str, Any]]:
        """The records since this was asked last; the source keeps none of them."""
        records, self.records = self.records, []
        return records

    def lines(self, records: Sequence[Mapping[str, Any]] | None = None) -> str:
        """Records as lines of a record file."""
        return "".join(json.dumps(record) + "\n" for record in (self.records if records is None else records))

    def _move(self, table: Table, old: Row, new: Row) -> None:
        newkey, oldkey = ({name: row[name] for name in table.key} for row in (new, old))
        self._add(table, "d", old, None, {"__debezium.newkey": newkey})
        self._add(table, "c", None, self._seen(table, old, new), {"__debezium.oldkey": oldkey}, same_place=True)

    def _seen(self, table: Table, old: Row, new: Row) -> Row:
        """The new row as the log has it: a large value that did not change is left out."""
        is_whole = table.is_full or self.connector != "postgresql"
        large = set() if is_whole else {column.name for column in table.columns if column.is_large}
        return {
            name: UNAVAILABLE if name in large and value == old[name] and value is not None else value
            for name, value in new.items()
        }

    def _add(
        self,
        table: Table,
        op: str,
        before: Row | None,
        after: Row | None,
        headers: Mapping[str, Row] | None = None,
        *,
        same_place: bool = False,
    ) -> None:
        self.lsn += 0 if same_place else 8
        self._events.append(Event(table, op, before, after, headers or {}, self.lsn))

    def _change(self, event: Event, order: int, snapshot: str = "false") -> None:
        table, op, before = event.table, event.op, event.before
        if before is not None and not table.is_full and self.connector == "postgresql":
            # REPLICA IDENTITY DEFAULT knows the key alone
            before = {
                column.name: before[column.name] if column.name in table.key else None for column in table.columns
            }
            before = before if op == "d" else None
        blocks = {"postgresql": self._postgresql, "oracle": self._oracle} | dict.fromkeys(
            ("mysql", "mariadb"), self._binlog
        )
        source = blocks.get(self.connector, self._with_lsns)(event, snapshot)
        source = {
            "version": "3.5.0.Final", "connector": self.connector, "name": self.prefix, "snapshot": snapshot,
            "db": "db", "table": table.name, **source,
        }  # fmt: skip
        block: Row = {"total_order": order, "data_collection_order": order}
        names = [source.get(name) for name in ("gtid", "txId", "commit_lsn")]
        block["id"] = (
            f"{self.transaction}:{event.lsn}" if self.connector == "postgresql" else next(filter(None, names), "")
        )
        self.named = block["id"]
        payload = {
            "before": before, "after": event.after, "source": source, "transaction": None if op == "r" else block,
            "op": op, "ts_ms": self.now // 1000 + 7, "ts_us": self.now + 7000, "ts_ns": (self.now + 7000) * 1000,
        }  # fmt: skip
        row = before if event.after is None else event.after
        key = None if row is None or op == "t" else {name: row[name] for name in table.key}
        self._write(table, key, self._value(table, payload), event.headers)
        if op == "d" and self.has_tombstones:
            self._write(table, key, None, event.headers)

    def _postgresql(self, event: Event, snapshot: str) -> Row:
        """An incremental read has no place and no transaction of its own, only those before it.

        A snapshot's read has the end of the log and names no commit, or as from Debezium 3.3 on the place up to which
        the connector has streamed: the last commit's.
        """
        is_placed = snapshot != "incremental"
        place, last = event.lsn, self.last_commit
        if event.op == "r" and is_placed:
            last = None if self.transaction % 2 else last
            place = last or place
        return {
            "ts_ms": self.now // 1000, "ts_us": self.now, "ts_ns": self.now * 1000, "schema": "public",
            "sequence": json.dumps([last and str(last), str(place)]),
            "txId": self.transaction if is_placed else None, "lsn": place if is_placed else None, "xmin": None,
        }  # fmt: skip

    def _oracle(self, event: Event, _: str) -> Row:
        """Numbers beyond a bigint; a commit's is that of the log's end, and a read has none."""
        is_read = event.op == "r"
        return {
            "ts_ms": self.now // 1000, "schema": "db", "scn": str(_BEYOND_BIGINT + event.lsn),
            "commit_scn": None if is_read else str(_BEYOND_BIGINT + self.lsn + 8), "rs_id": None, "ssn": 0,
            "txId": None if is_read else f"0a00{self.transaction:012x}",
        }  # fmt: skip

    def _with_lsns(self, event: Event, _: str) -> Row:
        """SQL Server and Db2; a read has its snapshot's number alone."""
        is_read = event.op == "r"
        return {
            "ts_ms": self.now // 1000, "schema": "db",
            "commit_lsn": sqlserver_lsn(event.lsn if is_read else self.lsn + 8),
            "change_lsn": None if is_read else sqlserver_lsn(event.lsn),
            **({"event_serial_no": 2 if event.op == "u" else 1} if self.connector == "sqlserver" else {}),
        }  # fmt: skip

    def _binlog(self, event: Event, _: str) -> Row:
        """MariaDB's and MySQL's times are whole seconds; a read has no server and no transaction."""
        is_read = event.op == "r"
        return {
            "ts_ms": self.now // 1_000_000 * 1000, "server_id": 0 if is_read else self.server,
            "file": f"binlog.{self.server:06}", "pos": event.lsn, "row": 0,
            "gtid": None if is_read else f"0-{self.server}-{self.transaction}",
        }  # fmt: skip

    def _write(self, table: Table, key: Row | None, value: str | None, headers: Mapping[str, Row]) -> None:
        topic = f"{self.prefix}.{self._schema}.{table.name}"
        written = None if key is None or not table.key else self._key(table, key)
        partition = self.partition + zlib.crc32((written or "").encode()) % self.partitions
        self.records.append(
            {
                "topic": topic,
                "partition": partition,
                "offset": self._next_offset(topic, partition),
                "timestamp": self.now // 1000 + 9,
                "key": written,
                "value": value,
                "headers": [{"key": name, "value": self._key(table, named)} for name, named in headers.items()],
            }
        )

    @property
    def _schema(self) -> str:
        return "public" if self.connector == "postgresql" else "db"

    def _next_offset(self, topic: str, partition: int) -> int:
        place = topic, partition
        self._offsets[place] = self._offsets.get(place, -1) + 1
        return self._offsets[place]

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
