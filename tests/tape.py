"""Tapes: what arrives and the history it makes, as tables that an analyst can read, in `tests/tapes/*.yml`.

A tape has `changes` and `history`, each a table of text: one line a change in the order of offsets, one line a version.
Columns of `changes` that can be left out:

    at       seconds of the source's clock; the number of the line
    written  seconds of the connector's clock; the source's
    lsn      position in the log; ten times the number of the line; `none` for a read that tells none
    txn      transaction; the number of the line, but none for a read of MariaDB's
    batch    the landing that brings it; 1
    before   the row's name before, where the tape's connector writes whole rows (MariaDB)
    snapshot the source's marker of a read
    server   the server (MariaDB); 1; `-` where the event tells neither server nor transaction, as flattened rows may
    file     the file of its binary log (MariaDB); binlog.000001
    row      the row of its event in the binary log (MariaDB); 0
    last     the last commit before the change, as PostgreSQL's `sequence` has it; `null` before the first, `-` where
             the event has no `sequence`
    own      the second part of `sequence`; the position in the log
    commit   the commit's position (Oracle, SQL Server, Db2); the change's own; `none` where the event tells none
    rs       Oracle's `rs_id`
    lcr, seq Oracle's `lcr_position` (XStream) and `txSeq` (LogMiner)
    serial   SQL Server's `event_serial_no`
    partition, offset   where the record is; 0, the number of the line
    oldkey, newkey   the headers of a change of key

An empty cell is NULL, `?` a large value that the event leaves out, `-` a column that the event has not. Times in
`history` are seconds of the same clock. `signs` says what the accounting counts beside the versions, and of which keys.
Tapes of the same `connector` and `group` share a table, told apart by the beginning of their keys and by their
partitions; those of Oracle, SQL Server and Db2 share one. One with a truncate or with options has its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.source import sqlserver_lsn

CLOCK = 1_704_067_200
ROOM = 10_000
PARTITIONS = 10
_HEADERS = {"oldkey": "__debezium.oldkey", "newkey": "__debezium.newkey"}
COLUMNS = ("id", "name", "note")
UNAVAILABLE = "__debezium_unavailable_value"
_OF_CHANGES = {
    "op", "at", "written", "lsn", "txn", "batch", "before", "snapshot", "server", "file", "row", "last", "own",
    "commit", "rs", "lcr", "seq", "serial", "oldkey", "newkey", "partition", "offset", *COLUMNS,
}  # fmt: skip
# What tells Oracle's changes of one number apart, by connection.
_ORACLE_ORDER = {"rs_id": "rs", "lcr_position": "lcr", "txSeq": "seq"}
# Their events tell a commit's position beside the change's own.
_OF_COMMITS = ("oracle", "sqlserver", "db2")


@dataclass(frozen=True)
class Tape:
    """One story: changes in, versions out."""

    number: int
    name: str
    changes: list[dict[str, str]]
    history: list[dict[str, str]]
    connector: str = "postgresql"
    options: dict[str, Any] = field(default_factory=dict)
    group: str = ""
    signs: list[dict[str, str]] = field(default_factory=list)
    source: str = "tape"

    @property
    def table(self) -> str:
        """The table that the tape's records are of."""
        if self.options or any(line["op"] == "t" for line in self.changes):
            return f"tape_{self.number}"
        connector = "commits" if self.connector in _OF_COMMITS else self.connector
        return f"tapes_{connector}{self.group and '_'}{self.group}"

    @property
    def schema(self) -> str:
        """The schema, or the database, that the table is in."""
        return "public" if self.connector == "postgresql" else "db"

    def key(self, text: str) -> str:
        """A key as the records have it: no other tape's is equal."""
        return f"{self.number}:{text}"

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each record and the batch that lands it."""
        for number, line in enumerate(self.changes, 1):
            yield int(line.get("batch") or 1), self._record(number, line)

    def _record(self, number: int, line: dict[str, str]) -> dict[str, Any]:
        op, row = line["op"], self._row(line)
        key = None if op == "t" else json.dumps({"id": self.key(line["id"])})
        headers = [
            {"key": name, "value": json.dumps({"id": self.key(line[column])})}
            for column, name in _HEADERS.items()
            if line.get(column)
        ]
        return {
            "topic": f"{self.source}.{self.table}",
            "partition": self.number * PARTITIONS + int(line.get("partition") or 0),
            "offset": self.number * ROOM + int(line.get("offset") or number),
            "timestamp": None,
            "key": key,
            "value": None if op == "tombstone" else json.dumps(self._payload(number, line, row)),
            "headers": headers,
        }

    def _row(self, line: dict[str, str]) -> dict[str, Any]:
        values = {
            "id": self.key(line["id"]) if line.get("id") else None,
            **{name: line.get(name, "") for name in COLUMNS[1:]},
        }
        return {
            name: {"": None, "?": UNAVAILABLE}.get(value or "", value) for name, value in values.items() if value != "-"
        }

    def _payload(self, number: int, line: dict[str, str], row: dict[str, Any]) -> dict[str, Any]:
        op = line["op"]
        before = {**row, "name": line["before"] or None} if line.get("before") else None
        source = self._source(number, line)
        return {
            "before": before if before is not None or op != "d" else {**dict.fromkeys(row), "id": row["id"]},
            "after": row if op in ("c", "u", "r") else None,
            "source": source,
            "op": op,
            "ts_ms": (CLOCK + int(line["written"])) * 1000 if line.get("written") else source["ts_ms"] + 5,
            "transaction": None,
        }

    def _source(self, number: int, line: dict[str, str]) -> dict[str, Any]:
        place = None if line.get("lsn") == "none" else int(line.get("lsn") or number * 10)
        transaction = self.number * ROOM + int(line.get("txn") or number)
        common = {
            "connector": self.connector,
            "name": self.source,
            "db": "db",
            "table": self.table,
            "ts_ms": (CLOCK + int(line.get("at") or number)) * 1000,
            "snapshot": line.get("snapshot") or ("true" if line["op"] == "r" else "false"),
        }
        if self.connector == "postgresql":
            own = line.get("own") or (None if place is None else str(place))
            if own is None:
                return common | {"schema": "public", "lsn": None, "txId": None, "sequence": None}
            last = line.get("last") or own
            sequence = [None if last == "null" else last, own]
            sequence_field = {} if last == "-" else {"sequence": json.dumps(sequence)}
            told: dict[str, Any] = {"lsn": place, "txId": None if place is None else transaction}
            return common | {"schema": "public"} | told | sequence_field
        if self.connector in _OF_COMMITS:
            return common | {"schema": "db"} | self._committed(line, place, transaction)
        is_read = line["op"] == "r"
        told = {"file": line.get("file") or "binlog.000001", "pos": place, "row": int(line.get("row") or 0)}
        if line.get("server") != "-":
            told["server_id"] = 0 if is_read else int(line.get("server") or 1)
            told["gtid"] = None if is_read and not line.get("txn") else f"0-1-{transaction}"
        return common | told

    def _committed(self, line: dict[str, str], place: int | None, transaction: int) -> dict[str, Any]:
        number = line.get("commit")
        commit = None if number == "none" else int(number) if number else place
        if self.connector == "oracle":
            is_read = line["op"] == "r"
            order = {name: line.get(column) or None for name, column in _ORACLE_ORDER.items()}
            return order | {
                "scn": place and str(place), "commit_scn": None if is_read else commit and str(commit),
                "txId": None if is_read else f"0a00{transaction:012}",
                "ssn": None if order["lcr_position"] or order["txSeq"] else 0,
            }  # fmt: skip
        lsns = {"commit_lsn": commit and sqlserver_lsn(commit), "change_lsn": place and sqlserver_lsn(place)}
        return lsns if self.connector == "db2" else lsns | {"event_serial_no": line.get("serial") or None}

    def as_history(self, versions: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
        """Versions in their order, of this tape's keys, in the form of `history` and with its columns.

        Times are microseconds, keys of other rows lists of values.
        """
        columns = self.history[0] if self.history else {}
        return [
            {name: self._text(name, version.get(name)) for name in columns}
            for version in versions
            if version["id"].startswith(f"{self.number}:")
        ]

    def _text(self, name: str, value: Any) -> str:
        if value is None:
            return ""
        if name in ("valid_from", "valid_to"):
            return str(value // 1_000_000 - CLOCK)
        if name in ("previous_key", "next_key"):
            value = value[0]
        if name == "offset":
            value -= self.number * ROOM
        if name == "unresolved_columns":
            return " ".join(value)
        return str(value).removeprefix(f"{self.number}:")


def changes_of(table: str) -> list[dict[str, str]]:
    """The changes of a drawn table; ValueError where a column is one that nothing reads."""
    lines = lines_of(table)
    if unread := set().union(*lines) - _OF_CHANGES:
        raise ValueError(f"a tape has columns that nothing reads: {sorted(unread)}")
    return lines


def lines_of(table: str) -> list[dict[str, str]]:
    """The lines of a drawn table, by the names in its first one."""
    rows = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def tapes(folder: Path) -> list[Tape]:
    """Every tape of the folder's files."""
    drawn = [tape for file in sorted(folder.glob("*.yml")) for tape in yaml.safe_load(file.read_text(encoding="utf-8"))]
    return [
        Tape(
            number,
            one["tape"],
            changes_of(one["changes"]),
            lines_of(one["history"]),
            one.get("connector", "postgresql"),
            one.get("options", {}),
            one.get("group", ""),
            lines_of(one["signs"]) if "signs" in one else [],
        )
        for number, one in enumerate(drawn, 1)
    ]
