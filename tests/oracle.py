"""The reference history builder: the history contract as one sequential program.

It shares no code with the product and knows no batches. It sorts the records of a table, walks them once and emits
versions. R3 to R19 and G6 are the contract's.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeAlias

State: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[Any, ...]
Position: TypeAlias = tuple[Any, ...]
Schema: TypeAlias = Mapping[str, Any]

PLACEHOLDER: Final = "__debezium_unavailable_value"
_EFFECTS: Final = ("opened", "closed_only", "collapsed", "no_op")
DISPOSITIONS: Final = (*_EFFECTS, "duplicate", "tombstone", "other", "unkeyed", "quarantined")


@dataclass(frozen=True)
class Record:
    """One Kafka record as delivered."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...] = ()

    @property
    def place(self) -> tuple[str, int, int]:
        """What decides which of two deliveries came first."""
        return (self.topic, self.partition, self.offset)


@dataclass(frozen=True)
class TableOptions:
    """What a model declares about its table."""

    key: tuple[str, ...] | None = None
    granularity: str = "transaction"
    track: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    placeholder: str = PLACEHOLDER
    null_is_unchanged: tuple[str, ...] = ()
    before_is_whole: bool | None = None
    snapshot_deletes: str = "report"
    reselected: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)

    def watches(self, column: str) -> bool:
        """R12: whether a change of this column makes a version."""
        return (column in self.track or not self.track) and column not in self.ignore


@dataclass
class Version:
    """One half-open interval in which a key had one committed state."""

    key: Key
    state: State
    valid_from: int
    opened_by: str
    position: Position
    transaction_id: str | None
    topic: str
    partition: int
    offset: int
    previous_key: Key | None = None
    valid_to: int | None = None
    closed_by: str | None = None
    closed_at: tuple[str, int, int] | None = None
    next_key: Key | None = None
    unresolved_columns: tuple[str, ...] = ()

    @property
    def boundary(self) -> int:
        """R10: the last time that this version holds."""
        return self.valid_from if self.valid_to is None else self.valid_to

    @property
    def is_start_known(self) -> bool:
        """R16, R19: a read and a `before` tell what the row was, not since when."""
        return self.opened_by not in ("snapshot", "before")


@dataclass
class History:
    """The versions of one table, and what became of its records."""

    key_columns: tuple[str, ...] = ()
    versions: dict[Key, list[Version]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DISPOSITIONS, 0))
    clamped: int = 0
    missed_changes: int = 0
    missed_deletes: int = 0
    unknown_deletes: int = 0
    broken_chains: int = 0
    unresolved: int = 0


def read_records(path: Path) -> list[Record]:
    """Read the records of a capture, `.jsonl` or `.jsonl.gz`."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = map(json.loads, content.splitlines())
    return [
        Record(**{**line, "headers": tuple((header["key"], header["value"]) for header in line["headers"])})
        for line in lines
    ]


# Decoding (R2, R6, R7)


class _Unavailable:
    """R7: differs from every known value, equals itself."""

    def __repr__(self) -> str:
        return "<unavailable>"


UNAVAILABLE: Final = _Unavailable()


@dataclass(frozen=True)
class Later:
    """R7: a value that may be later than its change: differs from every known one, equals itself."""

    value: Any


def _known(value: Any) -> Any:
    return value.value if isinstance(value, Later) else value


class Single(float):
    """R6: a number of single precision."""


def _six_digits(value: Any) -> Any:
    """R12: what a read tells of a number where its source rounds it."""
    return Single(f"{value:.6g}") if isinstance(value, Single) else value


_MIDNIGHT: Final = datetime(1970, 1, 1)


def _bytes(raw: str) -> bytes:
    return base64.b64decode(raw, validate=True)


def _decimal(raw: Any, scale: int) -> Decimal:
    if not isinstance(raw, str):
        return Decimal(raw)
    sign, digits, _ = Decimal(int.from_bytes(_bytes(raw), "big", signed=True)).as_tuple()
    return Decimal((sign, digits, -scale))


def _moment(raw: int, per_second: int) -> datetime:
    return _MIDNIGHT + timedelta(microseconds=raw * 1_000_000 // per_second)


def _instant(raw: str) -> datetime | str:
    try:
        return datetime.fromisoformat(raw).astimezone(UTC)
    except ValueError:
        return raw


def _time(raw: int, per_second: int) -> time:
    moment = _moment(raw, per_second)
    if moment.date() != _MIDNIGHT.date():
        raise OverflowError(raw)
    return moment.time()


_LOGICAL: Final[dict[str, Callable[[Any, Schema], Any]]] = {
    "io.debezium.time.Date": lambda raw, _: date(1970, 1, 1) + timedelta(days=raw),
    "io.debezium.time.Time": lambda raw, _: _time(raw, 1_000),
    "io.debezium.time.MicroTime": lambda raw, _: _time(raw, 1_000_000),
    "io.debezium.time.NanoTime": lambda raw, _: _time(raw, 1_000_000_000),
    "io.debezium.time.Timestamp": lambda raw, _: _moment(raw, 1_000),
    "io.debezium.time.MicroTimestamp": lambda raw, _: _moment(raw, 1_000_000),
    "io.debezium.time.NanoTimestamp": lambda raw, _: _moment(raw, 1_000_000_000),
    "io.debezium.time.ZonedTimestamp": lambda raw, _: _instant(raw),
    "io.debezium.data.Bits": lambda raw, _: _bytes(raw),
    "io.debezium.data.VariableScaleDecimal": lambda raw, _: _decimal(raw["value"], raw["scale"]),
    "org.apache.kafka.connect.data.Date": lambda raw, _: date(1970, 1, 1) + timedelta(days=raw),
    "org.apache.kafka.connect.data.Time": lambda raw, _: _time(raw, 1_000),
    "org.apache.kafka.connect.data.Timestamp": lambda raw, _: _moment(raw, 1_000),
    "org.apache.kafka.connect.data.Decimal": lambda raw, schema: _decimal(raw, int(schema["parameters"]["scale"])),
}
_JSON_TYPES: Final = {"string": str, "boolean": bool, "int8": int, "int16": int, "int32": int, "int64": int}


def decode(raw: Any, schema: Schema) -> Any:
    """R6: the exact Python value. A time that Python can't hold stays the literal that arrived."""
    name, kind = schema.get("name", ""), schema.get("type", "")
    if raw is None:
        return None
    if kind in _JSON_TYPES and type(raw) is not _JSON_TYPES[kind]:
        raise ValueError(f"{raw!r} is no {kind}")
    if name in _LOGICAL:
        with suppress(OverflowError):
            return _LOGICAL[name](raw, schema)
    if kind == "bytes":
        return _bytes(raw)
    if kind in ("float", "double"):
        return Single(raw) if kind == "float" else float(raw)
    if kind == "array":
        return [decode(item, schema["items"]) for item in raw]
    if kind == "struct":
        return {column["field"]: decode(raw.get(column["field"]), column) for column in schema["fields"]}
    return raw


def _declared(name: str) -> Schema:
    """A schema from `TableOptions.types`: `bytes`, a semantic type, or `...Decimal(2)` with its scale."""
    name, _, scale = name.removesuffix(")").partition("(")
    return {"type": name, "name": name, "parameters": {"scale": scale or "0"}}


def _spellings(placeholder: str) -> list[Any]:
    """R7: a placeholder as each type writes it."""
    blob = bytes.fromhex(placeholder[4:]) if placeholder.startswith("hex:") else placeholder.encode()
    signed = [byte - 256 if byte > 127 else byte for byte in blob]  # as Java has bytes
    text = blob.decode(errors="replace")
    encoded = base64.b64encode(blob).decode()
    texts = [text, encoded, base64.urlsafe_b64encode(blob).decode(), blob.hex()]
    hstore = {text: text}
    named = str(uuid.UUID(bytes=hashlib.md5(blob).digest(), version=3))  # noqa: S324 - as Java names it
    lists = [[one] for one in (*texts, named)]
    return [*texts, *lists, signed, hstore, json.dumps(hstore), json.dumps(hstore, separators=(",", ":"))]


class Decoder:
    """Decodes the rows of one table."""

    def __init__(self, options: TableOptions) -> None:
        # What came before another was set has Debezium's own.
        self._placeholders = [*_spellings(options.placeholder), *_spellings(PLACEHOLDER)]
        self._types = {column: _declared(name) for column, name in options.types.items()}

    def row(self, raw: Mapping[str, Any] | None, schema: Schema | None) -> State | None:
        """Decode `before`, `after` or a key."""
        if raw is None:
            return None
        types = self._types if schema is None else {column["field"]: column for column in schema["fields"]}
        return {
            name: UNAVAILABLE if value in self._placeholders else decode(value, types.get(name, {}))
            for name, value in raw.items()
        }


# Parsing (R2, R17)

NOT_UNDERSTOOD: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


@dataclass
class Change:
    """One row-level event, or a truncate, of one table."""

    record: Record
    op: str
    source: Mapping[str, Any]
    transaction: str | None
    total_order: str | int | None
    time: int
    processed: int
    before: State | None
    after: State | None
    content: str
    record_key: State | None = None
    old_key: State | None = None
    new_key: State | None = None
    log: int = 0
    position: Position = ()
    disposition: str = "no_op"

    @property
    def connector(self) -> Connector:
        """What is known of its connector."""
        return CONNECTORS[self.source["connector"]]

    @property
    def is_snapshot(self) -> bool:
        """R16: whether this read belongs to a snapshot that can be complete."""
        return self.op == "r" and self.source.get("snapshot") != "incremental"

    def column(self, name: str) -> Any:
        """A key column: from the record's key, else from the row, where they tell it."""
        images = (self.record_key, self.after, self.before)
        return next(
            (image[name] for image in images if image and image.get(name, UNAVAILABLE) is not UNAVAILABLE), None
        )

    def count_as(self, effect: str) -> None:
        """G6: one disposition for each record, that of its greatest effect."""
        self.disposition = min(self.disposition, effect, key=_EFFECTS.index)


def _load(text: str | None) -> tuple[Any, Schema | None]:
    """The payload of a JSON key or value, and its schema when it brings one."""
    loaded = json.loads(text or "null", parse_float=Decimal)
    if isinstance(loaded, dict) and loaded.keys() == {"schema", "payload"}:
        return loaded["payload"], loaded["schema"]
    return loaded, None


def _image(schema: Schema | None, name: str) -> Schema | None:
    return next((image for image in schema["fields"] if image["field"] == name), None) if schema else None


def _is_other(payload: Mapping[str, Any]) -> bool:
    """R17: heartbeats, transaction and schema-change events, logical messages."""
    if "op" in payload:
        return bool(payload["op"] == "m")
    return payload.keys() == {"ts_ms"} or "ddl" in payload or payload.keys() >= {"status", "id"}


def _table(source: Mapping[str, Any]) -> str:
    return f"{source.get('schema') or source['db']}.{source['table']}"


def _microseconds(*clocks: Mapping[str, Any]) -> int:
    """R10: the source's time, else the envelope's; 0 is no time."""
    for clock in clocks:
        for name, nanoseconds in (("ts_ns", 1), ("ts_us", 1_000), ("ts_ms", 1_000_000)):
            if int(clock.get(name) or 0):
                return int(clock[name]) * nanoseconds // 1_000
    raise ValueError("no time")


def _transaction(payload: Mapping[str, Any], connector: Connector) -> str | None:
    """R11: the transaction that a streamed change was committed in; a read is in none."""
    if payload["op"] == "r":
        return None
    name = payload["source"].get(connector.transaction) or (payload.get("transaction") or {}).get("id")
    return str(name).partition(":")[0] if name and connector is _POSTGRESQL else name


def _with_nulls(after: State | None, before: State | None, options: TableOptions) -> State | None:
    """R7: NULL that stands for an unchanged value, which a `before` that has the value rules out."""
    left_out = {name for name in options.null_is_unchanged if (before or {}).get(name) is None}
    return after and {
        name: UNAVAILABLE if value is None and name in left_out else value for name, value in after.items()
    }


def parse(record: Record, options: Mapping[str, TableOptions]) -> tuple[str, Change] | None:
    """Read a record as a change of a table; None is one of the other kinds, an error of `NOT_UNDERSTOOD` is R2."""
    payload, schema = _load(record.value)
    if _is_other(payload):
        return None
    op, source = payload["op"], payload["source"]
    connector = CONNECTORS[source["connector"]]
    if op == "t":
        # What the last row of the binary log left behind.
        source = {**source, "row": None}
    if op not in ("c", "r", "u", "d", "t") or (op in ("c", "r", "u") and payload.get("after") is None):
        raise ValueError(f"op {op} is unknown, or lacks its `after`")
    if op != "r" and connector.place(source) is None:
        raise ValueError("a streamed change without a position")
    table = _table(source)
    declared = options.get(table, TableOptions())
    decoder = Decoder(declared)
    headers = dict(record.headers)
    before, after = (decoder.row(payload.get(name), _image(schema, name)) for name in ("before", "after"))
    key, key_schema = _load(record.key)
    old_key, old_schema = _load(headers.get("__debezium.oldkey"))
    new_key, new_schema = _load(headers.get("__debezium.newkey"))
    return table, Change(
        record=record,
        op=op,
        source=source,
        transaction=_transaction(payload, connector),
        total_order=(payload.get("transaction") or {}).get("total_order"),
        time=_microseconds(source, payload),
        processed=int(payload.get("ts_ms") or 0),
        before=before,
        after=_with_nulls(after, before, declared) if op == "u" or (op == "c" and old_key) else after,
        content=json.dumps([payload.get("before"), payload.get("after")], default=str, sort_keys=True),
        record_key=decoder.row(key, key_schema),
        old_key=decoder.row(old_key, old_schema or key_schema),
        new_key=decoder.row(new_key, new_schema or key_schema),
    )


# Identity and order (R3, R4, R5)


def _sequence(source: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """PostgreSQL's last commit and own position."""
    last, own = json.loads(source.get("sequence") or "[null, null]")
    return last and int(last), own and int(own)


def _binlog_file(source: Mapping[str, Any]) -> tuple[str, int]:
    base, _, number = source["file"].rpartition(".")
    return base, int(number)


def _nulls_first(*parts: Any) -> Position:
    return tuple((part is not None, part or type(part)()) for part in parts)


def _wal_place(source: Mapping[str, Any]) -> Position | None:
    lsn, (last, own) = source.get("lsn"), _sequence(source)
    place = next((known for known in (lsn, own, last) if known is not None), None)
    return None if place is None else (last or place, place)


def _binlog_place(source: Mapping[str, Any]) -> Position | None:
    if source.get("file") is None or source.get("pos") is None:
        return None
    return (_binlog_file(source)[1], source["pos"], source.get("row") or 0)


def _oracle_place(source: Mapping[str, Any]) -> Position | None:
    names = ("scn", "commit_scn", "ssn", "txSeq")
    scn, commit, ssn, in_transaction = (source.get(name) and int(source[name]) for name in names)
    commit = max((number for number in (scn, commit) if number is not None), default=None)
    serial = in_transaction if in_transaction is not None and source.get("rs_id") is None else ssn
    place = source.get("rs_id") or source.get("lcr_position")
    return None if commit is None else (commit, *_nulls_first(scn, place, serial))


def _lsn_place(source: Mapping[str, Any]) -> Position | None:
    lsns = (source.get("commit_lsn"), source.get("change_lsn"))
    serial = source.get("event_serial_no")
    return None if lsns == (None, None) else _nulls_first(*lsns, serial and int(serial))


@dataclass(frozen=True)
class Connector:
    """R3, R4, R11, R19: what differs between connectors.

    `place` is the part of a position that a change's own event tells; `identity` names the fields of the source block
    that are equal in each delivery; `untying` those of which one tells changes of one number apart, where content
    doesn't have to; `transaction` the one that names the transaction; `row` the one that numbers the rows of one place.
    `rounds_floats` is whether a read has six digits of a number of single precision (R12).
    """

    place: Callable[[Mapping[str, Any]], Position | None]
    identity: tuple[str, ...]
    transaction: str
    is_tied: bool = False
    is_before_whole: bool = True
    untying: tuple[str, ...] = ()
    row: str = ""
    rounds_floats: bool = False


_POSTGRESQL: Final = Connector(_wal_place, ("lsn",), "txId", is_before_whole=False)
_MYSQL: Final = Connector(_binlog_place, ("server_id", "file", "pos", "row"), "gtid", row="row", rounds_floats=True)
_ORACLE: Final = Connector(
    _oracle_place,
    ("commit_scn", "scn", "rs_id", "lcr_position", "ssn", "txSeq"),
    "txId",
    is_before_whole=False,
    untying=("rs_id", "lcr_position", "txSeq"),
)
CONNECTORS: Final = {
    "postgresql": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "oracle": _ORACLE,
    "sqlserver": Connector(_lsn_place, ("commit_lsn", "change_lsn", "event_serial_no"), "commit_lsn"),
    "db2": Connector(_lsn_place, ("commit_lsn", "change_lsn"), "commit_lsn", is_tied=True),
}


def _place_in_log(change: Change) -> tuple[Any, ...]:
    """R3: the position as the event gives it, the same in each delivery."""
    # XStream names a change by its position, and has told the commit's number since 3.3 alone.
    left_out = "commit_scn" if change.source.get("lcr_position") else None
    place = tuple(change.source.get(name) for name in change.connector.identity if name != left_out)
    return _sequence(change.source) if place == (None,) else place


def _by_log(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """The changes of each log of each partition, by offset; `changes` come by place."""
    for _, partition in groupby(changes, lambda change: change.record.place[:2]):
        for _, log in groupby(sorted(partition, key=lambda change: change.log), lambda change: change.log):
            yield list(log)


def _told(change: Change) -> Position:
    """R4: the part of a position that the change's own event tells."""
    return change.connector.place(change.source) or ()


def _falls_back(change: Change, previous: Change) -> bool:
    """R3: whether a run of deliveries ended before this change of an unkeyed table."""
    now, then = _told(change), _told(previous)
    if now != then or change.transaction != previous.transaction:
        return now < then
    return previous.total_order is not None and int(change.total_order or 0) <= int(previous.total_order)


def _occurrences(changes: Iterable[Change]) -> Iterator[tuple[Change, int]]:
    """R3: number the equal changes of an unkeyed table within their run of deliveries."""
    for log in _by_log(changes):
        previous: Change | None = None
        met: Counter[tuple[Any, ...]] = Counter()
        for change in log:
            if change.op != "r" and _told(change):
                if previous is not None and _falls_back(change, previous):
                    met.clear()
                previous = change
            equal = (_place_in_log(change), change.op, change.content)
            met[equal] += change.op != "r" and change.source.get(change.connector.row) is None
            yield change, met[equal]


def counted_deliveries(changes: list[Change], key_columns: tuple[str, ...]) -> list[Change]:
    """R3: the first delivery of each change, by offset."""
    numbered = ((change, 0) for change in changes) if key_columns else _occurrences(changes)
    known: set[tuple[Any, ...]] = set()
    counted = []
    for change, occurrence in numbered:
        key = tuple(change.column(name) for name in key_columns)
        untying = change.connector.untying
        is_tied = change.connector.is_tied or (untying and all(change.source.get(name) is None for name in untying))
        is_told = all((change.record_key or {}).get(name) is not None for name in key_columns)
        counts = change.op == "r" or is_tied or not key_columns or not is_told
        content = change.content if counts else ""
        # A read is in no transaction (R11), but PostgreSQL's tells the one that its snapshot was taken in.
        transaction = change.source.get("txId") if change.connector is _POSTGRESQL else change.transaction
        read_at = change.processed if key_columns and change.op == "r" and not _told(change) else None
        identity = (key, change.log, _place_in_log(change), change.op, transaction, content, read_at, occurrence)
        change.disposition = "duplicate" if identity in known else change.disposition
        if identity not in known:
            counted.append(change)
        known.add(identity)
    return counted


@dataclass
class Log:
    """R4: gives the changes of one log of one partition, by offset, their positions.

    `places` are those of the log's snapshot reads that tell S, in all partitions.
    """

    places: set[int]
    snapshot_lsn: int = 0
    greatest: Position = ()

    def position(self, change: Change) -> Position:
        """Where the source's own log has the change."""
        place = self._behind_snapshot(change) if change.connector is _POSTGRESQL else _told(change)
        place = place or self.greatest
        self.greatest = max(self.greatest, place)
        return (change.log, *place)

    def _behind_snapshot(self, change: Change) -> Position:
        lsn, place = change.source.get("lsn"), _told(change)
        if not place:
            return place
        self.snapshot_lsn = max(_tells_s(change) or 0, self.snapshot_lsn)
        if change.op == "r" and lsn is not None:
            first = max(lsn, place[0])
        elif _sequence(change.source)[0] is None:
            first = max(place[0], self.snapshot_lsn)
        else:
            # What was written behind a snapshot's place was committed behind it, whatever commit the event knows of.
            first = max([place[0], *(one for one in self.places if one <= place[1])])
        return (first, 0 if change.op == "r" and first == place[1] else place[1])


def _tells_s(change: Change) -> int | None:
    """R4: the place of a snapshot read where that is the log's end; that of one which names a commit was streamed."""
    is_told = change.connector is _POSTGRESQL and change.is_snapshot and _sequence(change.source)[0] is None
    return change.source.get("lsn") if is_told else None


def in_order(changes: list[Change]) -> list[Change]:
    """R4: by position, then by place; `changes` come by place."""
    places: defaultdict[int, set[int]] = defaultdict(set)
    for change in changes:
        if (told := _tells_s(change)) is not None:
            places[change.log].add(told)
    for of_log in _by_log(changes):
        log = Log(places[of_log[0].log])
        for change in of_log:
            change.position = log.position(change)
    return sorted(changes, key=lambda change: (change.position, change.record.place))


def _server(change: Change) -> tuple[Any, ...] | None:
    """R5: the server and the name of its log, where a streamed event tells."""
    server = change.source.get("server_id") if change.connector is _MYSQL and change.op != "r" else None
    return None if server is None else (server, _binlog_file(change.source)[0])


def _tells_commit(change: Change) -> bool:
    """R5: whether a place that falls back says anything: own places do with every second transaction."""
    source = change.source
    if change.op == "r":
        return True
    if change.connector is _ORACLE:
        commit = source.get("commit_scn")
        is_told = any(source.get(name) for name in ("rs_id", "lcr_position"))
        return not is_told if commit is None else int(commit) >= int(source["scn"])
    return change.connector is not _POSTGRESQL or source.get("sequence") is not None


def _is_at_end(read: Change, highest: Change | None) -> bool:
    """R5: whether a read was sent at a heartbeat of a server that had written nothing since the highest place.

    It stands before the log's end by the heartbeat's length, which has a checksum or none.
    """
    if highest is None or read.op != "r" or read.connector is not _MYSQL or not _told(read):
        return False
    (log, file, place, *_), (of_log, of_file, end, *_) = read.position, highest.position
    return (log, file) == (of_log, of_file) and end - place - len(read.source["file"]) in (19, 19 + 4)


def _is_beginning(position: Position, of: Position) -> bool:
    """R5: whether a position is another one but for parts at its end that are null, and so tells less of one place."""
    told = len(position)
    while isinstance(part := position[told - 1], tuple) and not part[0]:
        told -= 1
    return told < len(position) and position[:told] == of[:told]


@dataclass
class Reach:
    """R5: how far some of a log's changes go: the highest, and the latest time."""

    highest: Change | None = None
    latest: int = 0

    def take(self, change: Change) -> None:
        """Go on with one more change."""
        self.latest = max(self.latest, change.time)
        if self.highest is None or change.position >= self.highest.position:
            self.highest = change

    def is_beyond(self, change: Change) -> bool:
        """Whether the change falls back behind these."""
        if self.highest is None or _is_beginning(change.position, self.highest.position):
            return False
        return change.position < self.highest.position


def _new_log(changes: list[Change]) -> Change | None:
    """R5: the change that begins a new log; None where there is one log.

    Somewhere behind it the position falls back, and time or server say that the change isn't late. The new log begins
    with the first change behind the old one's highest position. Of time streamed changes tell: a snapshot's reads
    stand ahead of the stream, by a clock of their own, and are asked only where there is nothing else. A read at a
    place that its partition has reached tells nothing: a blocking snapshot that is taken again has that of the first
    time. Nor does one that was sent at a heartbeat at the highest place.
    """
    streamed, all_changes, servers = Reach(), Reach(), Reach()
    reached: set[Position] = set()
    # Records of one offset tell nothing of each other.
    for _, of_offset in groupby(changes, lambda change: change.record.offset):
        beside = list(of_offset)
        for change in beside:
            known = all_changes if streamed.highest is None else streamed
            others = {_server(change), servers.highest and _server(servers.highest)} - {None}
            is_later = change.time > known.latest and _tells_commit(change)
            is_again = (change.op == "r" and change.position in reached) or _is_at_end(change, all_changes.highest)
            is_border = (known.is_beyond(change) and is_later) or (all_changes.is_beyond(change) and len(others) > 1)
            if is_border and not is_again:
                end = max(reach.highest.record.offset for reach in (streamed, all_changes) if reach.highest)
                return next(one for one in changes if one.record.offset > end)
        for change in beside:
            reached.add(change.position)
            all_changes.take(change)
            if change.op != "r":
                streamed.take(change)
            if _server(change):
                servers.take(change)
    return None


def _topic_made_anew(changes: list[Change]) -> int | None:
    """R1: when the connector wrote the first record of a topic's second life; None where it had one life."""
    by_offset = groupby(changes, lambda change: change.record.offset)
    written = {offset: sorted(change.processed for change in doubled) for offset, doubled in by_offset}
    doubled = {offset: times[0] for offset, times in written.items() if times[0] < times[-1]}
    if not doubled:
        return None
    first_later = min(written[offset][-1] for offset in doubled)
    ended = max(time for time in doubled.values() if time < first_later)
    # What was landed of the first life may begin at any offset.
    return min(time for offset, times in written.items() for time in times if offset <= min(doubled) and time > ended)


def find_logs(changes: list[Change], key_columns: tuple[str, ...]) -> list[Change]:
    """R5: number the logs that the changes are from; the counted deliveries, in order. `changes` come by place."""
    partitions = {place: list(group) for place, group in groupby(changes, lambda change: change.record.place[:2])}
    while True:
        for change in changes:
            change.disposition = "no_op"
        counted = in_order(counted_deliveries(changes, key_columns))
        found: set[tuple[str, int]] = set()
        for log in _by_log(sorted(counted, key=lambda change: change.record.place)):
            place, began = log[0].record.place[:2], _topic_made_anew(log)
            first = _new_log(log) if began is None else None
            if place not in found and (first is not None or began is not None):
                found.add(place)
                _begin_log(partitions[place], log[0].log, first, began)
        if not found and not _begin_behind_borders(partitions, counted):
            return counted


def _begin(changes: list[Change]) -> int:
    """R5: when the connector wrote the first of the records."""
    return min((change.log, change.record.offset, change.processed) for change in changes)[2]


def _begun(logs: Mapping[int, list[Change]], log: int) -> int:
    """R5: when a log of a partition began: no clock moves it before those that it follows."""
    return max(_begin(changes) for number, changes in logs.items() if number <= log)


def _begin_behind_borders(partitions: Mapping[Any, list[Change]], counted: list[Change]) -> bool:
    """R5: let partitions that began when all that were there had met borders begin in the log that these had reached.

    Returns whether there was one that didn't yet.
    """
    logs: defaultdict[Any, defaultdict[int, list[Change]]] = defaultdict(lambda: defaultdict(list))
    for change in counted:
        logs[change.record.place[:2]][change.log].append(change)
    more: dict[Any, int] = {}
    for place, changes in partitions.items():
        began = _begin(changes)
        before = [
            {log for log in of_log if _begun(of_log, log) < began} for other, of_log in logs.items() if other != place
        ]
        reached = min((max(met) for met in before if met), default=0)
        if place in logs and reached > min(logs[place]):
            more[place] = reached - min(logs[place])
    for place, number in more.items():
        for change in partitions[place]:
            change.log += number
    return bool(more)


def _begin_log(changes: list[Change], log: int, first: Change | None, began: int | None) -> None:
    """Number the logs of a partition anew, now that one begins with a change, or when the connector wrote it."""
    for change in changes:
        is_behind = change.record.place >= first.record.place if first else change.processed >= (began or 0)
        change.log += change.log > log or (change.log == log and is_behind)


# What happened to each key (R7, R9, R14, R15, R16, R19)


@dataclass(frozen=True)
class Step:
    """A change as one key saw it: a state, or its end."""

    change: Change
    label: str
    state: State | None = None
    link: Key | None = None
    found_state: State | None = None

    @property
    def is_read(self) -> bool:
        """R10: whether the time is a clock's, not a commit's."""
        return self.change.op == "r"


def _complete_snapshots(ordered: Iterable[Change], key_of: Callable[[Change], Key]) -> dict[int, set[Key]]:
    """R16: the keys that each complete snapshot read, by its last read."""
    reads = defaultdict(list)
    for change in ordered:
        if change.is_snapshot:
            reads[change.position].append(change)
    return {
        id(snapshot[-1]): {key_of(read) for read in snapshot}
        for snapshot in reads.values()
        if any(read.source["snapshot"] in ("last", "last_in_data_collection") for read in snapshot)
    }


class Walk:
    """Walks the changes of a table in order, keeping its living rows, and notes each key's steps."""

    def __init__(self, history: History, options: TableOptions) -> None:
        self.history = history
        self.options = options
        self.steps: defaultdict[Key, list[Step]] = defaultdict(list)
        self.rows: dict[Key, State] = {}
        self.last_known: dict[Key, State] = {}
        self.relieved: dict[tuple[int, Key], Change] = {}
        self.left: set[tuple[int, Key]] = set()
        self.taken_along: dict[tuple[str | None, Key, Key | None], State] = {}
        self.to_leave: set[tuple[Position, str | None, Key, Key | None]] = set()

    def key_of(self, change: Change) -> Key:
        """The key of the row that the change is about."""
        return tuple(change.column(name) for name in self.history.key_columns)

    def _named(self, image: State | None) -> Key | None:
        """The key that a header or a `before` names, if it has all its columns."""
        columns = self.history.key_columns
        return tuple(image[name] for name in columns) if image and image.keys() >= set(columns) else None

    def run(self, ordered: list[Change]) -> None:
        """Take every change of the table in order."""
        snapshots = _complete_snapshots(ordered, self.key_of)
        self._pair(ordered)
        for change in ordered:
            if change.op == "t":
                for key in list(self.rows):
                    self._note(key, Step(change, "truncate"))
            else:
                self._take(change)
            if id(change) in snapshots:
                self._missing(change, self.rows.keys() - snapshots[id(change)])

    def _moves(self, change: Change) -> tuple[Key | None, Key | None]:
        """R14: the key that the change takes a row from, and the one that it brings a row to, where it does."""
        key, old, new = self.key_of(change), self._named(change.old_key), self._named(change.new_key)
        moved = self._named(self._left_image(change)) if change.op == "u" else None
        if moved is not None and moved != key:
            return moved, key
        return (
            key if change.op == "d" and new is not None and new != key else None,
            key if change.op in ("c", "u", "r") and old is not None and old != key else None,
        )

    def _left_for(self, change: Change) -> Key | None:
        """R14: the key for which a change takes a row from another."""
        return self.key_of(change) if change.op == "u" else self._named(change.new_key)

    def _pair(self, ordered: list[Change]) -> None:
        """R14: find what takes a row from a key, and what of it follows, in its transaction, what brings one there."""
        last: dict[Key, Change | None] = {}
        for change in ordered:
            taken, brought = self._moves(change)
            if change.op == "t":
                last.clear()
            elif taken is not None:
                self.to_leave.add((change.position, change.transaction, taken, self._left_for(change)))
                arrival = last.get(taken)
                if arrival and arrival.transaction is not None and arrival.transaction == change.transaction:
                    self.relieved[id(arrival), taken] = change
                last[taken] = None
            if brought is not None:
                last[brought] = change
            elif change.op != "t" and taken is None:
                last[self.key_of(change)] = None

    def _take(self, change: Change) -> None:
        """R9, R14: insert, update and read give a state, delete ends it; a key change does both, each half alone."""
        key, old = self.key_of(change), self._named(change.old_key)
        taken, brought = self._moves(change)
        if taken is not None:
            self._leave(change, taken)
        if brought is not None and brought in self.rows:
            leaving = self.relieved.get((id(change), brought))
            if leaving is not None and not self._passes(change, leaving, brought):
                self._leave(leaving, brought)
        if change.op == "u" and taken is not None:
            self._note(key, Step(change, "key_change", self._filled(change, key, taken), taken))
        elif change.op == "d" and taken is None and self._named(change.new_key) != key:
            self._note(key, Step(change, "delete", found_state=self._found(change, key)))
        elif change.op != "d":
            found = self._found(change, key) if change.op == "u" else None
            label, link = self._label(change, key, old), old if old != key else None
            self._note(key, Step(change, label, self._filled(change, key, old), link, found))

    def _passes(self, arrival: Change, leaving: Change, key: Key) -> bool:
        """R14: whether the row that arrived leaves the key, by its `before`, and not the one that was left there."""
        before = self._whole_before(leaving)
        return before is not None and self._agree(before, arrival.after) and not self._agree(before, self.rows[key])

    def _agree(self, before: State, row: State | None) -> bool:
        """Whether a whole `before` can be of a row, by the columns that both carry."""
        names = row.keys() & before.keys() - {*self.options.reselected} if row is not None else set()
        return row is not None and all(row[name] is UNAVAILABLE or same(row[name], before[name]) for name in names)

    def _leave(self, change: Change, key: Key) -> None:
        """R14: a row leaves a key for another, once: a row that came before it left is the next one."""
        if (id(change), key) not in self.left:
            self.left.add((id(change), key))
            link, found = self._left_for(change), self._found(change, key)
            self.taken_along[change.transaction, key, link] = self.rows.get(key, {})
            self.to_leave.discard((change.position, change.transaction, key, link))
            self._note(key, Step(change, "key_change", link=link, found_state=found))

    def _label(self, change: Change, key: Key, old: Key | None) -> str:
        if change.op == "r":
            return "snapshot"
        if old is not None and old != key:
            return "key_change"
        return "insert" if change.op == "c" and key not in self.rows and old is None else "update"

    def _whole_before(self, change: Change) -> State | None:
        whole = self.options.before_is_whole
        if not (change.connector.is_before_whole if whole is None else whole):
            return None
        has_all = change.before is not None and UNAVAILABLE not in change.before.values()
        return change.before if has_all else None

    def _left_image(self, change: Change) -> State | None:
        """R19: the `before` that tells which key an update's row had: without a key of its own nothing else does."""
        if change.record_key is None and change.before and UNAVAILABLE not in change.before.values():
            return change.before
        return self._whole_before(change)

    def _found(self, change: Change, key: Key) -> State | None:
        """R19: the state that a key's first change found; a later one can only reveal a broken chain."""
        before = self._whole_before(change)
        if before is None:
            return None
        if key not in self.steps:
            self.rows[key] = before
            return before
        row = self.rows.get(key)
        names = row.keys() & before.keys() - {*self.options.reselected} if row is not None else set()
        pairs = [(row[name], before[name]) for name in names] if row is not None else []
        if change.connector.rounds_floats:
            pairs = [(_six_digits(one), _six_digits(other)) for one, other in pairs]
        if row is None or not all(same(one, other) for one, other in pairs):
            self.history.broken_chains += 1
        return None

    def _filled(self, change: Change, key: Key, old: Key | None) -> State:
        """R7: unavailable values are those of the row before."""
        row = self.rows.get(key, {})
        if old is not None:
            move = (change.transaction, old, key)
            # The half that takes the row away stands at the same position, and can be of a later partition.
            is_left = change.transaction and (change.position, *move) not in self.to_leave
            known = self.taken_along.get(move) if is_left else None
            row = (self.last_known.get(old) if known is None else known) or self.rows.get(key, {})
        after = change.after or {}
        filled = {name: row.get(name, UNAVAILABLE) if value is UNAVAILABLE else value for name, value in after.items()}
        for name in self.options.reselected:
            is_of_change = name in filled and (after[name] is not UNAVAILABLE or old is not None)
            if change.op != "r" and is_of_change and filled[name] is not UNAVAILABLE:
                filled[name] = Later(_known(filled[name]))
        return filled

    def _note(self, key: Key, step: Step) -> None:
        if step.state is not None:
            self.rows[key] = self.last_known[key] = step.state
        else:
            self.history.unknown_deletes += self.rows.pop(key, None) is None
            if step.link is None:
                self.last_known.pop(key, None)
        self.steps[key].append(step)

    def _missing(self, last_read: Change, keys: Iterable[Key]) -> None:
        """R16: living keys that a complete snapshot did not read; a filtered one proves nothing."""
        if self.options.snapshot_deletes == "ignore":
            return
        for key in keys:
            self.history.missed_deletes += 1
            if self.options.snapshot_deletes == "close":
                self._note(key, Step(last_read, "snapshot"))


# Versions (R9 to R14)


def same(one: Any, other: Any) -> bool:
    """R12: equal by logical value; NULL is NULL, and NaN is NaN."""
    return bool(one == other or (one != one and other != other))


class Life:
    """The versions of one key, unit by unit."""

    def __init__(self, key: Key, history: History, options: TableOptions) -> None:
        self.key = key
        self.history = history
        self.options = options
        self.versions: list[Version] = []

    @property
    def current(self) -> Version | None:
        """The open version."""
        return self.versions[-1] if self.versions and self.versions[-1].valid_to is None else None

    def take(self, unit: list[Step]) -> None:
        """R11: the changes of one transaction, of which the last state counts."""
        last = unit[-1]
        for step in unit[:-1]:
            step.change.count_as("collapsed")
        if unit[0].found_state is not None:
            self._open(last, unit[0].found_state, "before", last.change.time)
        if last.state is not None and (self.current is None or self._differs(self.current.state, last)):
            self._replace(last, last.state, self._opener(unit))
        elif last.state is not None:
            self._confirm(last, last.state)
        elif self.current is not None:
            self._close(last, self._boundary(last), last.label, last.link)
            last.change.count_as("closed_only")

    def _opener(self, unit: list[Step]) -> Step:
        """R11: the step that began the stay of the row, or of another that came to its key (R14), else the last."""
        is_alive, opener = self.current is not None, unit[-1]
        for step in unit:
            if step.state is not None and (not is_alive or step.link is not None):
                opener = step
            is_alive = step.state is not None
        return opener

    def _differs(self, old: State, new: Step) -> bool:
        """R12: a column that one of them lacks counts if the newer has it and not NULL; a read may round."""
        is_rounded = new.is_read and new.change.connector.rounds_floats
        return any(
            not (same(old[name], value) or (is_rounded and same(_six_digits(old[name]), value)))
            if name in old
            else value is not None
            for name, value in (new.state or {}).items()
            if self.options.watches(name)
        )

    def _confirm(self, step: Step, state: State) -> None:
        """R12: no version, though ignored columns take their newest value; R10: and a read's clock gives way."""
        version = self.versions[-1]
        version.state |= {name: value for name, value in state.items() if not self.options.watches(name)}
        if not step.is_read:
            self._move_read_back(step.change.time)

    def _replace(self, step: Step, state: State, opener: Step) -> None:
        moment = self._boundary(step)
        if self.current is not None:
            self._close(step, moment, "snapshot" if step.is_read else "update")
            self.history.missed_changes += step.is_read
        self._open(step, state, opener.label, moment, opener.link)

    def _close(self, step: Step, moment: int, closed_by: str, next_key: Key | None = None) -> None:
        version = self.versions[-1]
        version.valid_to, version.closed_by, version.next_key = moment, closed_by, next_key
        version.closed_at = step.change.record.place

    def _open(self, step: Step, state: State, opened_by: str, moment: int, previous_key: Key | None = None) -> None:
        change, record = step.change, step.change.record
        lineage = (change.position, change.transaction, *record.place)
        self.versions.append(Version(self.key, {**state}, moment, opened_by, *lineage, previous_key))
        change.count_as("opened")

    def _boundary(self, step: Step) -> int:
        """R10: the time of a change, which may not lie before the key's last boundary."""
        moment = step.change.time
        if not self.versions:
            return moment
        if not step.is_read:
            self._move_read_back(moment)
            self.history.clamped += moment < self.versions[-1].boundary
        return max(moment, self.versions[-1].boundary)

    def _move_read_back(self, moment: int) -> None:
        """R10: a read's clock gives way to a commit, though not past the boundary before."""
        last, before = self.versions[-1], self.versions[-2] if len(self.versions) > 1 else None
        moment = min(moment, last.boundary)
        if last.closed_by == "snapshot":
            last.valid_to = max(moment, last.valid_from)
        elif last.valid_to is None and last.opened_by == "snapshot":
            if before is not None and before.closed_at == (last.topic, last.partition, last.offset):
                moment = before.valid_to = max(moment, before.valid_from)
            last.valid_from = moment if before is None else max(moment, before.boundary)


def units(steps: list[Step], granularity: str) -> Iterator[list[Step]]:
    """R11: steps of one transaction stand together; a step of none stands alone. A log's numbers are its own (R5)."""
    unit: list[Step] = []
    for step in steps:
        change = step.change
        transaction = change.transaction if granularity == "transaction" else None
        last = unit[-1].change if unit else None
        if last and (transaction is None or (transaction, change.log) != (last.transaction, last.log)):
            yield unit
            unit = []
        unit.append(step)
    if unit:
        yield unit


def _settle(version: Version) -> bool:
    """R7: what stayed unavailable is NULL and listed, what may be later than its change is listed."""
    unknown = [name for name, value in version.state.items() if value is UNAVAILABLE or isinstance(value, Later)]
    version.state = {name: None if value is UNAVAILABLE else _known(value) for name, value in version.state.items()}
    version.unresolved_columns = tuple(unknown)
    return bool(unknown)


def _fold(changes: list[Change], options: TableOptions) -> History:
    keyed = (tuple(change.record_key) for change in changes if change.record_key)
    history = History(options.key or next(keyed, ()))
    counted = find_logs(changes, history.key_columns)
    if history.key_columns:
        walk = Walk(history, options)
        walk.run(counted)
        for key, steps in walk.steps.items():
            life = Life(key, history, options)
            for unit in units(steps, options.granularity):
                life.take(unit)
            if life.versions:
                history.versions[key] = life.versions
                history.unresolved += sum(map(_settle, life.versions))
    else:
        for change in counted:
            change.disposition = "unkeyed"
    for change in changes:
        history.counts[change.disposition] += 1
    return history


def build(records: Iterable[Record], options_by_table: Mapping[str, TableOptions] | None = None) -> dict[str, History]:
    """Build the history of each table; what belongs to none is counted under its topic (G6)."""
    options = options_by_table or {}
    changes: defaultdict[str, list[Change]] = defaultdict(list)
    tables: defaultdict[str, set[str]] = defaultdict(set)
    others: list[tuple[str, str]] = []
    for record in sorted(set(records), key=lambda record: (record.place, record.value or "")):
        try:
            parsed = parse(record, options) if record.value is not None else None
        except NOT_UNDERSTOOD:
            others.append((record.topic, "quarantined"))
            continue
        if parsed is None:
            others.append((record.topic, "tombstone" if record.value is None else "other"))
        else:
            changes[parsed[0]].append(parsed[1])
            tables[record.topic].add(parsed[0])
    for changes_of_table in changes.values():
        # R3: of one change at one offset of two lives of a topic, that which was written first counts.
        changes_of_table.sort(key=lambda change: (change.record.place, change.processed))
    histories = {
        table: _fold(changes_of_table, options.get(table, TableOptions()))
        for table, changes_of_table in changes.items()
    }
    for topic, disposition in others:
        name = next(iter(tables[topic])) if len(tables[topic]) == 1 else topic
        histories.setdefault(name, History()).counts[disposition] += 1
    return histories
