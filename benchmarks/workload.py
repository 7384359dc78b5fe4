"""The workload: a PostgreSQL database under load, simulated, with the records that Debezium writes, and the answer.

`generate` (or `python -m benchmarks.workload FOLDER`) writes into a folder

- `initial.jsonl` and `batch_<n>.jsonl`: records in the lines that `tidemark land` takes, envelopes without schemas;
- `answer/<table>.parquet`: the history of every key, `[valid_from, valid_to)` in microseconds, as the simulated
  database lived it, and `answer/<table>.initial.parquet`, as it stood when the initial load ended;
- `keys/<table>.parquet`: each key, whether the stream changed it, and the hazards that it met;
- `workload.json`: the sizes, the columns, and how often each hazard was met.

The answer is kept while the database is simulated: what the files hold is never read for it. The same options and
seed give the same files.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import pyarrow
from pyarrow import parquet

START_US: Final = 1_735_689_600_000_000  # 2025-01-01
PLACEHOLDER: Final = "__debezium_unavailable_value"
COLUMNS: Final = {
    "id": "bigint", "account_no": "string", "name": "string", "email": "string", "phone": "string",
    "street": "string", "city": "string", "postcode": "string", "country": "string", "language": "string",
    "tier": "string", "status": "string", "is_verified": "boolean", "balance": "string", "credit_limit": "string",
    "score": "double", "visits": "bigint", "note": "string", "created_at": "bigint", "consented_at": "bigint",
}  # fmt: skip
HAZARDS: Final = (
    "redelivered", "late", "tie", "a_b_a", "no_op", "tombstone", "unavailable", "key_change", "reinsert", "to_null",
    "from_null",
)  # fmt: skip
# How many of a hundred transactions are each hazard; the others are ordinary ones of three changes on average. The last
# batch can't be late: the others make up for it. In the hostile set each delete has its tombstone.
SETS: Final[dict[str, dict[str, float]]] = {
    "clean": {},
    "hostile": {name: 4.6 for name in HAZARDS if name != "tombstone"} | {"late": 7.0},
    "truncate": {},
    "late": {"late": 3.0},  # of the records: one in a hundred
}

_MORE: Final = ("bigint", "string", "double")
_ARROW: Final = {
    "bigint": pyarrow.int64(), "string": pyarrow.string(), "double": pyarrow.float64(), "boolean": pyarrow.bool_(),
}  # fmt: skip
_TIERS = ("basic", "silver", "gold", "platinum")
_CITIES = ("Aachen", "Bergen", "Cádiz", "Dublin", "Évora", "Freiburg", "Gdańsk", "Helsinki")
_OPS = ("c", "u", "d")
_MIX = (20, 90, 100)
_MOST_IN_TRANSACTION = 5
_LONGEST_DELAY = 3
_CHUNK = 100_000


class State(NamedTuple):
    """What of a row its key doesn't tell. Rows of one key are equal where these are."""

    version: int
    note: int
    has_email: bool


class Version(NamedTuple):
    """A key's state in `[valid_from, valid_to)`, microseconds; None while it is open."""

    key: int
    state: State
    valid_from: int
    valid_to: int | None


def columns_of(count: int) -> dict[str, str]:
    """COLUMNS, and behind them `more_001` and so on, up to this many."""
    more = range(1, count - len(COLUMNS) + 1)
    return COLUMNS | {f"more_{number:03d}": _MORE[number % len(_MORE)] for number in more}


def row(key: int, state: State, sizes: Sizes) -> tuple[Any, ...]:
    """The values of the columns."""
    mixed = (key * 2_654_435_761 + state.version * 40_503) & 0xFFFFFFFF
    is_german = key % 3 > 0
    return (
        key,
        f"DE{key:012d}",
        f"Customer {key}",
        f"customer{key}@example.org" if state.has_email else None,
        f"+49 151 {key % 10_000_000:07d}",
        f"Long Street {key % 500}",
        _CITIES[key % len(_CITIES)],
        f"{key % 100_000:05d}",
        "DE" if is_german else "NO",
        "de" if is_german else "nb",
        _TIERS[mixed % len(_TIERS)],
        "active" if mixed % 10 else "blocked",
        mixed % 4 > 0,
        f"{mixed % 1_000_000 / 100:.2f}",
        f"{key % 50 * 100}.00",
        mixed % 1000 / 8,
        state.version,
        _note(state.note, sizes.note_bytes) if state.note else None,
        START_US - key * 1_000_000,
        START_US + mixed % 1_000_000,
        *(_more(mixed, number) for number in range(1, sizes.columns - len(COLUMNS) + 1)),
    )


def _note(note: int, size: int | None) -> str:
    """Where a size is wanted, text that can be packed to half of it, and no further."""
    if size is None:
        return f"{note}: has asked for paper, and for a call before each visit. " * 3
    return random.Random(note).randbytes((size + 1) // 2).hex()[:size]


def _more(mixed: int, number: int) -> int | str | float:
    value = (mixed + number * 7_919) % 1000
    return (value, f"{number} is {value}", value / 8)[number % len(_MORE)]


def _as_json(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)  # no text here has quotes or backslashes


def _row_as_json(names: Iterable[str], values: Iterable[Any]) -> str:
    return "{" + ",".join([f'"{name}":{_as_json(value)}' for name, value in zip(names, values, strict=True)]) + "}"


def _as_text(raw: str) -> str:
    return '"' + raw.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a workload is made of.

    Attributes:
        keys: Rows of the snapshot, in each table.
        batches: How many increments there are.
        changes: Changes of one increment, in each table.
        kind: A name of SETS.
        versions: Stored versions of each key when the initial load ends: the snapshot's and updates after it.
        tables: How many captured tables there are.
        hot: Share of the ordinary updates that are of one key, from 0 to 1.
        columns: How many columns each table has: COLUMNS, and others behind them (`columns_of`).
        note_bytes: How long the `note` of a row that has one is, as a fifth of them have; None is two lines of text.
        seed: What the choices of the stream follow.
    """

    keys: int = 200_000
    batches: int = 5
    changes: int = 20_000
    kind: str = "clean"
    versions: int = 1
    tables: int = 1
    hot: float = 0.0
    columns: int = len(COLUMNS)
    note_bytes: int | None = None
    seed: int = 1

    def names(self) -> list[str]:
        """The tables' names."""
        return ["customers"] if self.tables == 1 else [f"customers_{number:03d}" for number in range(self.tables)]


@dataclass(slots=True)
class Source:
    """A database of one table and its connector: rows, log and clock. Records come in the order of the log.

    Attributes:
        table: The table's name.
        sizes: What to make.
    """

    table: str
    sizes: Sizes
    versions: list[Version] = field(default_factory=list)
    met: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    changed: set[int] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    _rows: dict[int, tuple[State, int]] = field(default_factory=dict)
    _dead: list[int] = field(default_factory=list)
    _living: list[int] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)
    _pending: dict[int, State | None] = field(default_factory=dict)
    _lines: list[str] = field(default_factory=list)
    _held: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    _columns: dict[str, str] = field(init=False)
    _random: random.Random = field(init=False)
    _last_key: int = 0
    _last_version: int = 0
    _batch: int = 0
    _made: int = 0
    _offset: int = 0
    _lsn: int = 30_000_000
    _committed: int = 30_000_000
    _transaction: int = 800
    _order: int = 0
    _at_us: int = START_US

    def __post_init__(self) -> None:
        """Begin with an empty table."""
        self._columns = columns_of(self.sizes.columns)
        self._random = random.Random(f"{self.sizes.seed} {self.table}")
        self.counts = dict.fromkeys(HAZARDS, 0)

    @property
    def topic(self) -> str:
        """The topic that the connector writes the table's changes to."""
        return f"bench.public.{self.table}"

    # What the connector delivers

    def initial(self) -> Iterator[str]:
        """The snapshot, and the updates that make as many versions of each key as are wanted."""
        for key in range(1, self.sizes.keys + 1):
            self._live(key)
            self._rows[key] = (State(0, key if key % 5 == 0 else 0, key % 20 != 7), self._at_us)
            self._record("r", key, self._rows[key][0], snapshot="last" if key == self.sizes.keys else "true")
            if len(self._lines) == _CHUNK:
                yield from self._taken()
        for _ in range(1, self.sizes.versions):
            for key in self._living:
                self._begin()
                self._update(key)
                self._commit()
                if len(self._lines) == _CHUNK:
                    yield from self._taken()
        yield from self._taken()
        self._last_key = self.sizes.keys
        self.changed.clear()

    def batch(self) -> Iterator[str]:
        """The next increment: changes of the log up to its size, and what earlier ones held back."""
        self._batch += 1
        self._made = 0
        self._lines = self._held.pop(self._batch, [])
        hazards = SETS[self.sizes.kind]
        names, bounds, bound = list(hazards), [], 0.0
        for share in hazards.values():
            bound += share
            bounds.append(bound)
        is_cut = self.sizes.kind == "truncate" and self._batch == (self.sizes.batches + 1) // 2
        while self._made < self.sizes.changes:
            if is_cut and self._made >= self.sizes.changes // 2:
                self._truncate()
                is_cut = False
            drawn = self._random.random() * 100
            name = next((name for name, limit in zip(names, bounds, strict=True) if drawn < limit), None)
            if name is None or len(self._living) < 2:
                self._transact()
            else:
                getattr(self, f"_{name}")()
        yield from self._taken()

    def _taken(self) -> list[str]:
        lines, self._lines = self._lines, []
        return lines

    def close(self) -> None:
        """End the simulation: what lives becomes open versions of the answer."""
        self.versions.extend(self._open())

    def _open(self) -> Iterator[Version]:
        return (Version(key, state, since, None) for key, (state, since) in self._rows.items())

    def so_far(self) -> Iterator[Version]:
        """The answer as it stands now."""
        yield from self.versions
        yield from self._open()

    # Transactions

    def _begin(self, after_us: int = 2_000) -> None:
        self._transaction += 1
        self._at_us += after_us
        self._committed = self._lsn
        self._order = 0

    def _commit(self) -> None:
        """Of several changes of a key in a transaction, the last alone was ever seen by anyone."""
        for key, state in self._pending.items():
            was, since = self._rows.get(key, (None, 0))
            if state == was:
                continue
            if was is not None:
                self.versions.append(Version(key, was, since, self._at_us))
                del self._rows[key]
            if state is not None:
                self._rows[key] = (state, self._at_us)
        self._pending.clear()

    def _now(self, key: int) -> State:
        """The row as its own transaction sees it."""
        return self._pending.get(key) or self._rows[key][0]

    def _insert(self, key: int) -> str:
        self._last_version += 1
        self._live(key)
        return self._change("c", key, State(self._last_version, self._last_version if key % 5 == 0 else 0, True))

    def _update(self, key: int, state: State | None = None, unsent: tuple[str, ...] = ()) -> str:
        if state is None:
            self._last_version += 1
            was = self._now(key)
            is_noted = was.note and self._random.random() < 0.1
            state = was._replace(version=self._last_version, note=self._last_version if is_noted else was.note)
        return self._change("u", key, state, unsent)

    def _delete(self, key: int) -> str:
        self._die(key)
        line = self._change("d", key, None)
        self._tombstone(key)
        return line

    def _change(
        self, op: str, key: int, state: State | None, unsent: tuple[str, ...] = (), header: str = "", at: int = 56
    ) -> str:
        self._pending[key] = state
        self.changed.add(key)
        self._made += 1
        self._lsn += at
        return self._record(op, key, state, unsent=unsent, header=header)

    def _meet(self, hazard: str, *keys: int) -> None:
        self.counts[hazard] += 1
        for key in keys:
            self.met[key].add(hazard)

    # Choices

    def _live(self, key: int) -> None:
        self._places[key] = len(self._living)
        self._living.append(key)

    def _die(self, key: int) -> None:
        place, last = self._places.pop(key), self._living.pop()
        if last != key:
            self._living[place] = last
            self._places[last] = place
        self._dead.append(key)

    def _draw(self) -> int:
        return self._living[int(self._random.random() * len(self._living))]

    def _draw_where(self, is_wanted: Callable[[State], object]) -> int | None:
        """A living key whose state is wanted; None where a hundred draws found none."""
        for _ in range(100):
            key = self._draw()
            if is_wanted(self._rows[key][0]):
                return key
        return None

    def _fresh(self) -> int:
        self._last_key += 1
        return self._last_key

    def _transact(self) -> None:
        """An ordinary transaction of a few changes: 20 % inserts, 70 % updates, 10 % deletes."""
        self._begin()
        for _ in range(min(self._random.randint(1, _MOST_IN_TRANSACTION), self.sizes.changes - self._made)):
            self._ordinary()
        self._commit()

    def _ordinary(self) -> tuple[int, str]:
        drawn = self._random.random() * 100
        op = next(op for op, limit in zip(_OPS, _MIX, strict=True) if drawn < limit)
        if op == "c" or not self._living:
            key = self._fresh()
            return key, self._insert(key)
        key = self._draw()
        if self.sizes.hot and op == "u" and 1 in self._places and self._random.random() < self.sizes.hot:
            return 1, self._update(1)
        return key, self._update(key) if op == "u" else self._delete(key)

    def _truncate(self) -> None:
        self._begin()
        self._lsn += 56
        self._record("t", None, None)
        self._pending = dict.fromkeys(self._rows)
        self.changed.update(self._rows)
        self._living.clear()
        self._places.clear()
        self._commit()

    # Hazards

    def _late(self) -> None:
        """A record that comes one to three batches later than its place in the log."""
        self._begin()
        key, _ = self._ordinary()
        self._commit()
        delay = min(self._random.randint(1, _LONGEST_DELAY), self.sizes.batches - self._batch)
        if delay:
            tail = 1 + (self._lines[-1].find('"value":null') > 0)  # a delete comes with its tombstone
            self._held[self._batch + delay].extend(self._lines[-tail:])
            del self._lines[-tail:]
            self._meet("late", key)

    def _redelivered(self) -> None:
        """A record that comes twice, at another offset, at once or up to two batches later."""
        self._begin()
        key, line = self._ordinary()
        self._commit()
        again = self._again(line)
        delay = min(self._random.randint(0, 2), self.sizes.batches - self._batch)
        (self._held[self._batch + delay] if delay else self._lines).append(again)
        self._meet("redelivered", key)

    def _again(self, line: str) -> str:
        """A record as the connector writes it once more: the same change, later, at the next offset."""
        now = (self._at_us + 80_000) // 1000
        change, _, written = line.rpartition('\\"transaction\\"')
        offset = change.partition('"offset":')[2].partition(",")[0]
        change = change.replace(f'"offset":{offset},', f'"offset":{self._offset},', 1)
        self._offset += 1
        return change + '\\"transaction\\"' + written.replace(str(now), str(now + 5_000))

    def _tie(self) -> None:
        """Changes of a key that its commit time does not order: in one transaction, or in two of one microsecond."""
        key = self._draw()
        self._begin()
        self._update(key)
        if self._random.random() < 0.5:
            self._commit()
            self._begin(0)
        self._update(key)
        self._commit()
        self._meet("tie", key)

    def _a_b_a(self) -> None:
        key = self._draw()
        state = self._rows[key][0]
        self._begin()
        self._update(key, state._replace(version=self._last_version + 1))
        self._last_version += 1
        self._commit()
        self._begin()
        self._update(key, state)
        self._commit()
        self._meet("a_b_a", key)

    def _no_op(self) -> None:
        key = self._draw()
        self._begin()
        self._update(key, self._rows[key][0])
        self._commit()
        self._meet("no_op", key)

    def _tombstone(self, key: int, header: str = "") -> None:
        if self.sizes.kind == "hostile":
            self._write(key, "null", header)
            self._meet("tombstone", key)

    def _unavailable(self) -> None:
        """An update that leaves a large value out; half of the time the value was new a moment ago."""
        key = self._draw_where(lambda state: state.note)
        if key is None:
            return
        if self._random.random() < 0.5:
            self._begin()
            self._last_version += 1
            self._update(key, State(self._last_version, self._last_version, self._rows[key][0].has_email))
            self._commit()
        self._begin()
        self._last_version += 1
        self._update(key, self._rows[key][0]._replace(version=self._last_version), ("note",))
        self._commit()
        self._meet("unavailable", key)

    def _key_change(self) -> None:
        """An update of the key: delete and insert at one place of the log, linked by headers."""
        old, new = self._draw(), self._fresh()
        state = self._rows[old][0]
        self._begin()
        self._die(old)
        self._live(new)
        there, back = (f'[{{"key":"__debezium.{name}","value":{_key(key)}}}]' for name, key in
                       (("newkey", new), ("oldkey", old)))  # fmt: skip
        self._change("d", old, None, header=there)
        self._tombstone(old, there)
        self._change("c", new, state, ("note",) if state.note else (), back, at=0)
        self._commit()
        self._meet("key_change", old, new)

    def _reinsert(self) -> None:
        """A key that comes back: at once, or long after its delete."""
        if self._dead and self._random.random() < 0.5:
            place = int(self._random.random() * len(self._dead))
            key = self._dead[place]
            self._dead[place] = self._dead[-1]
            self._dead.pop()
        else:
            key = self._draw()
            self._begin()
            self._delete(key)
            self._commit()
            self._dead.pop()
        self._begin()
        self._insert(key)
        self._commit()
        self._meet("reinsert", key)

    def _to_null(self) -> None:
        self._email(has_email=False, hazard="to_null")

    def _from_null(self) -> None:
        self._email(has_email=True, hazard="from_null")

    def _email(self, *, has_email: bool, hazard: str) -> None:
        key = self._draw_where(lambda state: state.has_email is not has_email)
        if key is not None:
            self._begin()
            self._update(key, self._rows[key][0]._replace(has_email=has_email))
            self._commit()
            self._meet(hazard, key)

    # Records

    def _record(
        self,
        op: str,
        key: int | None,
        state: State | None,
        *,
        snapshot: str = "false",
        unsent: tuple[str, ...] = (),
        header: str = "",
    ) -> str:
        at, seen = self._at_us, self._at_us + 80_000
        after = "null"
        if state is not None and key is not None:
            values = row(key, state, self.sizes)
            if unsent:
                values = tuple(
                    PLACEHOLDER if name in unsent else value for name, value in zip(self._columns, values, strict=True)
                )
            after = _row_as_json(self._columns, values)
        commit, transaction = "null", "null"
        if op != "r":
            self._order += 1
            commit = f'\\"{self._committed}\\"'
            transaction = (
                f'{{"id":"{self._transaction}:{self._lsn}","total_order":{self._order},'
                f'"data_collection_order":{self._order}}}'
            )
        value = (
            f'{{"before":{f"""{{"id":{key}}}""" if op == "d" else "null"},"after":{after},"source":{{'
            f'"version":"3.5.0.Final","connector":"postgresql","name":"bench","ts_ms":{at // 1000},'
            f'"snapshot":"{snapshot}","db":"bench","sequence":"[{commit},\\"{self._lsn}\\"]","ts_us":{at},'
            f'"ts_ns":{at}000,"schema":"public","table":"{self.table}","txId":{self._transaction},"lsn":{self._lsn},'
            f'"xmin":null}},"transaction":{transaction},"op":"{op}","ts_ms":{seen // 1000},"ts_us":{seen},'
            f'"ts_ns":{seen}000}}'
        )
        return self._write(key, _as_text(value), header)

    def _write(self, key: int | None, value: str, header: str) -> str:
        line = (
            f'{{"topic":"{self.topic}","partition":0,"offset":{self._offset},'
            f'"timestamp":{(self._at_us + 80_000) // 1000},"key":{"null" if key is None else _key(key)},'
            f'"value":{value},"headers":{header or "[]"}}}\n'
        )
        self._offset += 1
        self._lines.append(line)
        return line


def _key(key: int) -> str:
    return f'"{{\\"id\\":{key}}}"'


# Files


def _write_answer(versions: Iterable[Version], sizes: Sizes, path: Path) -> None:
    schema = pyarrow.schema(
        [(name, _ARROW[kind]) for name, kind in columns_of(sizes.columns).items()]
        + [("valid_from", pyarrow.int64()), ("valid_to", pyarrow.int64())]
    )
    left = iter(versions)
    with parquet.ParquetWriter(path, schema) as writer:
        while chunk := [(*row(at.key, at.state, sizes), at.valid_from, at.valid_to) for at in islice(left, _CHUNK)]:
            columns = zip(*chunk, strict=True)
            arrays = [pyarrow.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
            writer.write_table(pyarrow.table(arrays, schema=schema))


def _write_keys(source: Source, path: Path) -> None:
    keys = range(1, source._last_key + 1)
    parquet.write_table(
        pyarrow.table({
            "id": pyarrow.array(keys, pyarrow.int64()),
            "is_changed": pyarrow.array([key in source.changed for key in keys], pyarrow.bool_()),
            "hazards": pyarrow.array(
                [sorted(source.met[key]) if key in source.met else [] for key in keys],
                pyarrow.list_(pyarrow.string()),
            ),
        }),
        path,
    )  # fmt: skip


def generate(folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Write a workload into a folder, and return what `workload.json` holds."""
    for name in ("answer", "keys"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    sources = [Source(name, sizes) for name in sizes.names()]
    with (folder / "initial.jsonl").open("w", encoding="utf-8") as file:
        for source in sources:
            file.writelines(source.initial())
            _write_answer(source.so_far(), sizes, folder / f"answer/{source.table}.initial.parquet")
    for batch in range(1, sizes.batches + 1):
        with (folder / f"batch_{batch}.jsonl").open("w", encoding="utf-8") as file:
            for source in sources:
                file.writelines(source.batch())
    counts: dict[str, int] = dict.fromkeys(HAZARDS, 0)
    for source in sources:
        source.close()
        _write_answer(source.versions, sizes, folder / f"answer/{source.table}.parquet")
        _write_keys(source, folder / f"keys/{source.table}.parquet")
        for hazard, count in source.counts.items():
            counts[hazard] += count
    made = {**asdict(sizes), "columns": columns_of(sizes.columns), "names": sizes.names(), "hazards": counts}
    (folder / "workload.json").write_text(json.dumps(made, indent=1))
    return made


def files_of(made: Mapping[str, Any], folder: Path) -> tuple[str, list[str]]:
    """The file of the initial load, and those of the increments."""
    return str(folder / "initial.jsonl"), [str(folder / f"batch_{n}.jsonl") for n in range(1, made["batches"] + 1)]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--keys", default=200_000, show_default=True, help="Rows of the snapshot.")
@click.option("--batches", default=5, show_default=True, help="How many increments there are.")
@click.option("--changes", default=20_000, show_default=True, help="Changes of one increment.")
@click.option("--set", "kind", type=click.Choice(list(SETS)), default="clean", show_default=True)
@click.option("--versions", default=1, show_default=True, help="Versions of each key in the initial load.")
@click.option("--tables", default=1, show_default=True, help="Captured tables, each of these sizes.")
@click.option("--hot", default=0.0, show_default=True, help="Share of the updates that are of one key, 0 to 1.")
@click.option(
    "--columns", type=click.IntRange(min=len(COLUMNS)), default=len(COLUMNS), show_default=True,
    help="Columns of each table.",
)  # fmt: skip
@click.option("--note-bytes", type=click.IntRange(min=1), help="How long a note is; two lines of text unless given.")
@click.option("--seed", default=1, show_default=True)
def main(folder: Path, **sizes: Any) -> None:
    """Write a workload and its answer into FOLDER."""
    click.echo(json.dumps(generate(folder, Sizes(**sizes))["hazards"]))


if __name__ == "__main__":
    main()
