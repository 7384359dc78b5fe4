"""Compares a history with the database's own account of it (G5).

The account is a capture's `history.jsonl.gz`, written by triggers, and `truth.jsonl.gz`, its rows at the end. A history
is a list of plain versions of each table, from wherever: the oracle, or rows of a gold table.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeAlias

Row: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[Any, ...]

_GAPS: Final = ("delete", "truncate", "key_change")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000
_MILLISECOND: Final = 1_000
_LARGEST_SINGLE: Final = 3.5e38
# A capture without triggers, the one whose history is its own but for the times, and the column that is one.
_TOLD_BY: Final = {"mariadb-2.5.4-core-plain": "mariadb-2.5.4-core"}
_CLOCK: Final = "updated_at"
_LONGEST_WAIT: Final = 5 * _SECOND  # a statement that waits for a lock has its event's time before its trigger's


@dataclass(frozen=True)
class PlainVersion:
    """A version as any history has it; times are microseconds, UTC."""

    key: Key
    state: Row
    valid_from: int
    valid_to: int | None
    closed_by: str | None


@dataclass(frozen=True)
class Disagreement:
    """A key whose history is not the database's, and the columns that tell.

    `*` are its versions or times; `*first` is its first version, which is missing, while all others are the database's.
    """

    table: str
    key: Key
    columns: frozenset[str]
    what: str


@dataclass(frozen=True)
class KnownFact:
    """A line of the exceptions: something that the events of a capture don't carry."""

    capture: str
    table: str
    key: str
    columns: frozenset[str]
    what: str

    def covers(self, capture: str, found: Disagreement) -> bool:
        """Whether this fact explains the disagreement."""
        key = json.dumps([int(part) if isinstance(part, Decimal) else part for part in found.key], default=str)
        is_same_key = (self.capture, self.table, self.key) == (capture, found.table, key)
        return is_same_key and ("*" in self.columns or found.columns <= self.columns)


@dataclass
class Interval:
    """A state that was committed, as the database tells it; times are those of commits, or else of statements."""

    state: Row
    start: int | None
    is_commit: bool
    end: int | None = None
    is_gap_next: bool = False


def load_exceptions(path: Path) -> list[KnownFact]:
    """Read the known facts: capture, table, key (JSON), columns (`*`, `*first` or names), and what it is."""
    with path.open(newline="", encoding="utf-8") as lines:
        return [
            KnownFact(line["capture"], line["table"], line["key"], frozenset(line["columns"].split(", ")), line["fact"])
            for line in csv.DictReader(lines)
        ]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from (json.loads(line, parse_float=Decimal) for line in lines)


# Values: what the database spells as text, number or hexadecimal, and a history holds as a value


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)


def _microseconds(text: str) -> int:
    return (_moment(text) - _EPOCH) // timedelta(microseconds=1)


def _blob(recorded: Any, length: int) -> bytes:
    if isinstance(recorded, int):
        return recorded.to_bytes(length, "little")
    return bytes.fromhex(str(recorded).removeprefix("\\x"))


def _read_as(recorded: Any, like: Any) -> Any:
    """The recorded value in the type of the value that a history holds."""
    if recorded is None or like is None:
        return recorded
    if isinstance(like, bool | int | Decimal):
        return Decimal(str(int(recorded) if isinstance(recorded, bool) else recorded))
    if isinstance(like, float):
        return float(recorded)
    if isinstance(like, datetime):
        return _moment(recorded) if like.tzinfo else _moment(recorded).replace(tzinfo=None)
    if isinstance(like, date):
        return date.fromisoformat(recorded)
    if isinstance(like, time):
        return time.fromisoformat(recorded)
    if isinstance(like, bytes):
        return _blob(recorded, len(like))
    return recorded


def _is_float(stored: float, recorded: Any) -> bool:
    """MariaDB shows six digits of a single float; NaN is itself."""
    value = float(recorded)
    is_single = abs(stored) < _LARGEST_SINGLE and struct.unpack("f", struct.pack("f", stored))[0] == stored
    return (math.isnan(stored) and math.isnan(value)) or (is_single and f"{stored:.6g}" == f"{value:.6g}")


def _is_json(stored: str, recorded: Any) -> bool:
    return bool(json.loads(stored, parse_float=Decimal) == recorded)


def _far_moment(text: str) -> tuple[int, str, str | None] | None:
    """A date or moment of any year, in ISO 8601 or as PostgreSQL has it."""
    parts = re.fullmatch(r"([-+]?\d{4,})(-\d\d-\d\d)(?:T([\d:]+)(?:\.0+)?(?:Z|\+00:00)?)?( BC)?", text)
    return parts and (1 - int(parts[1]) if parts[4] else int(parts[1]), parts[2], parts[3])


def _of_day(text: str) -> int | None:
    """Microseconds of a time of day or an interval in hours; with a zone, of the day in UTC."""
    parts = re.fullmatch(r"(-?)(\d+):(\d\d):(\d\d(?:\.\d+)?)(Z|[-+]\d\d(?::\d\d)?)?", text)
    if parts is None:
        return None
    time = int((int(parts[2]) * 3600 + int(parts[3]) * 60 + Decimal(parts[4])) * _SECOND)
    if parts[5] is None:
        return -time if parts[1] else time
    hours, _, minutes = parts[5].replace("Z", "+00").partition(":")
    offset = int(hours) * 3600 + int(hours[0] + (minutes or "0")) * 60
    return (time - offset * _SECOND) % (86_400 * _SECOND)


def _is_text_of_time(stored: str, recorded: str) -> bool:
    if _of_day(stored) is not None:
        return _of_day(stored) == _of_day(recorded)
    return (_far_moment(stored) is not None and _far_moment(stored) == _far_moment(recorded)) or (
        _moment(stored) == _moment(recorded)
    )


def _is_geometry(stored: Row, recorded: str) -> bool:
    """The numbers of a text such as POINT(1.5 2.5) end the shape's binary form."""
    numbers = [float(number) for number in re.findall(r"-?[0-9.]+", recorded)]
    return list(struct.unpack(f"<{len(numbers)}d", stored["wkb"][-8 * len(numbers) :])) == numbers


# Ways in which a value held is the one recorded, by the type held; besides being equal when read as that type.
_SPELLINGS: Final[dict[type, Callable[[Any, Any], bool]]] = {
    bytes: lambda stored, recorded: int.from_bytes(stored, "little") == int(recorded, 2),
    int: lambda stored, recorded: stored == _of_day(recorded),
    float: _is_float,
    str: lambda stored, recorded: (_is_text_of_time if isinstance(recorded, str) else _is_json)(stored, recorded),
    dict: _is_geometry,
    list: lambda stored, recorded: len(stored) == len(recorded) and all(map(_agree, stored, recorded)),
}


def _understood(compare: Callable[[], Any]) -> bool:
    try:
        return bool(compare())
    except (ValueError, TypeError, ArithmeticError, AttributeError, struct.error):
        return False


def _agree(stored: Any, recorded: Any) -> bool:
    """Whether both are one logical value."""
    if stored is None or recorded is None:
        return stored is recorded
    spelling = _SPELLINGS.get(type(stored))
    return _understood(lambda: stored == _read_as(recorded, stored)) or (
        spelling is not None and _understood(lambda: spelling(stored, recorded))
    )


def _differing(stored: Row, recorded: Row) -> frozenset[str]:
    """The columns that disagree; a column that one of them lacks is NULL there."""
    columns = stored.keys() | recorded.keys()
    return frozenset(name for name in columns if not _agree(stored.get(name), recorded.get(name)))


# The account: committed states of each key (R11, R12)


class Account:
    """What the triggers recorded of one table."""

    def __init__(self, key_columns: Sequence[str], samples: Key | None) -> None:
        self.key_columns = key_columns
        self.samples = samples or (None,) * len(key_columns)
        self.intervals: defaultdict[Key, list[Interval]] = defaultdict(list)

    def key_of(self, row: Row) -> Key:
        """The key, in the types of the history that is judged."""
        values = (row.get(name) for name in self.key_columns)
        return tuple(_read_as(value, like) for value, like in zip(values, self.samples, strict=True))

    def living(self) -> set[Key]:
        """The keys that have a row now."""
        return {key for key, intervals in self.intervals.items() if intervals and intervals[-1].end is None}

    def take(self, transaction: Iterable[Row]) -> None:
        """Add what a transaction left of each key that it touched."""
        left: dict[Key, tuple[Row, Row | None]] = {}
        for change in transaction:
            if change["op"] == "t":
                left.update(dict.fromkeys(self.living() | left.keys(), (change, None)))
            if change["before"] is not None:
                left[self.key_of(change["before"])] = (change, None)
            if change["after"] is not None:
                left[self.key_of(change["after"])] = (change, change["after"])
        for key, (change, state) in left.items():
            self._note(self.intervals[key], change, state)

    def _note(self, intervals: list[Interval], change: Row, state: Row | None) -> None:
        is_commit = change["commit_ts"] is not None
        moment = _microseconds(change["commit_ts" if is_commit else "clock_ts"])
        current = intervals[-1] if intervals and intervals[-1].end is None else None
        if intervals:
            moment = max(moment, intervals[-1].end or intervals[-1].start or moment)
        if change["phase"] == "before_start":
            intervals[:] = [Interval(state, None, is_commit)] if state is not None else []
            return
        if current is not None and (state is None or _changed(current.state, state)):
            current.end, current.is_gap_next = moment, state is None
        if state is not None and (current is None or current.end is not None):
            intervals.append(Interval(state, moment, is_commit))


def _changed(old: Row, new: Row) -> bool:
    return any(old[name] != value if name in old else value is not None for name, value in new.items())


# The comparison


def _is_time(stored: int | None, recorded: int | None, is_commit: bool) -> bool:
    """Whether an event shows the recorded time, a commit's in micro- or milliseconds, a statement's in seconds."""
    if stored is None or recorded is None:
        return stored is recorded
    if is_commit:
        return stored in (recorded, recorded - recorded % _MILLISECOND)
    return stored % _SECOND == 0 and recorded - _LONGEST_WAIT <= stored <= recorded


def _whole(table: str, key: Key, what: str, columns: str = "*") -> Disagreement:
    return Disagreement(table, key, frozenset([columns]), what)


def _compare(
    table: str, key: Key, stored: Sequence[PlainVersion], recorded: Sequence[Interval], *, has_times: bool
) -> Disagreement | None:
    """Compare states, then their order, gaps and times (G5)."""
    if len(stored) != len(recorded):
        is_one_less = len(stored) == len(recorded) - 1
        is_first = is_one_less and _compare(table, key, stored, recorded[1:], has_times=has_times) is None
        what = f"{len(stored)} versions, recorded {len(recorded)}"
        return _whole(table, key, what, "*first" if is_first else "*")
    pairs = list(zip(stored, recorded, strict=True))
    columns = frozenset[str]().union(*(_differing(version.state, interval.state) for version, interval in pairs))
    if not has_times:
        columns -= {_CLOCK}
    if columns:
        return Disagreement(table, key, columns, "values")
    for version, interval in pairs:
        if (version.valid_to is None) != (interval.end is None) or (version.closed_by in _GAPS) != interval.is_gap_next:
            return _whole(table, key, f"closed by {version.closed_by}, recorded {interval}")
        if not has_times:
            continue
        starts = interval.start is None or _is_time(version.valid_from, interval.start, interval.is_commit)
        if not (starts and _is_time(version.valid_to, interval.end, interval.is_commit)):
            return _whole(table, key, f"[{version.valid_from}, {version.valid_to}), recorded {interval}")
    return None


def keyed_tables(capture: Path) -> set[str]:
    """The tables of the database's account whose records have a key: others have no history (R18)."""
    account = _lines(capture.with_name(_TOLD_BY.get(capture.name, capture.name)) / "history.jsonl.gz")
    topics = {record["topic"] for record in _lines(capture / "records.jsonl.gz") if record["key"] is not None}
    # A topic has no letters but these: the connector writes others as `_`.
    named = {table: re.sub(r"[^\w.-]", "_", table, flags=re.ASCII) for table in {change["table"] for change in account}}
    return {table for table, name in named.items() if any(topic.endswith(f".{name}") for topic in topics)}


def disagreements(
    capture: Path, versions_by_table: Mapping[str, Iterable[PlainVersion]], keys: Mapping[str, Sequence[str]]
) -> list[Disagreement]:
    """What the database does not confirm, of the tables that `keys` names with their key columns."""
    teller = _TOLD_BY.get(capture.name, capture.name)
    history = list(_lines(capture.with_name(teller) / "history.jsonl.gz"))
    truth = list(_lines(capture / "truth.jsonl.gz"))
    found = []
    for table, key_columns in keys.items():
        stored: defaultdict[Key, list[PlainVersion]] = defaultdict(list)
        for version in versions_by_table.get(table, ()):
            stored[version.key].append(version)
        account = Account(key_columns, next(iter(stored), None))
        of_table = (change for change in history if change["table"] == table)
        for _, transaction in groupby(of_table, lambda change: change["commit_seq"]):
            account.take(transaction)
        compared = (
            _compare(table, key, stored[key], account.intervals[key], has_times=teller == capture.name)
            for key in stored | account.intervals
        )
        found += [one for one in compared if one is not None]
        living = {key for key, versions in stored.items() if versions and versions[-1].valid_to is None}
        rows = {account.key_of(line["row"]) for line in truth if line["table"] == table}
        found += [_whole(table, key, "living, or not, against the truth") for key in living ^ rows]
    return found


def unlike_rows(
    capture: Path, versions_by_table: Mapping[str, Iterable[PlainVersion]], keys: Mapping[str, Sequence[str]]
) -> list[Disagreement]:
    """Living keys whose open version is not the row at the end.

    Rows differ too where a column was added with a default, which fills old rows without an event (Observed 16).
    """
    truth = list(_lines(capture / "truth.jsonl.gz"))
    found = []
    for table, key_columns in keys.items():
        living = {version.key: version.state for version in versions_by_table[table] if version.valid_to is None}
        account = Account(key_columns, next(iter(living), None))
        rows = {account.key_of(line["row"]): line["row"] for line in truth if line["table"] == table}
        differing = ((key, _differing(living[key], rows[key])) for key in living.keys() & rows.keys())
        found += [Disagreement(table, key, columns, "against the row") for key, columns in differing if columns]
    return found
