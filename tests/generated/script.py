"""Scripts: what happens to a few rows of a simulated database, step by step, and how its records are delivered.

A script is a list of steps, each a tuple that begins with the step's name. It can be played whatever steps are left
out: a statement on a row that isn't there does nothing. So a script that shows a fault can be made smaller.

    insert, update, delete   row, value          one statement in the open transaction
    large                    row, value          an update of the large column
    move                     row, row            a change of key, in letter case too
    swap                     row, row            two rows take each other's key in one statement
    silent                   row, value          an update that the connector never sees: it lost its offset
    commit, rollback                             the end of the open transaction
    switch                   number              the statements that follow are another session's
    snapshot                 marker              `true` is a whole one, `incremental` one that goes on beside
    restart                  records             the connector sends its last records again
    clock                    seconds             the source's clock is set
    failover                                     another server takes over, at lower positions
    truncate
    column                   name                the table gains a column, or loses it
    land                     mask                a batch; with a mask some records are late, and some come twice
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.source import Column, Event, Row, Source, Table

Step: TypeAlias = tuple[Any, ...]
Key: TypeAlias = tuple[Any, ...]
LEAST_KEYS, LEAST_CHANGES, BATCHES = 3, 20, 3
NAMES = ("a", "A", "b", "c")


def table_named(name: str, *, is_full: bool) -> Table:
    """A table as scripts know it."""
    large = Column("note", is_large=True)
    return Table(name, [Column("id"), Column("name"), large], ("id",), is_full=is_full)


@dataclass
class Session:
    """A session with its open transaction: its events, and what its rows were before."""

    events: list[Event] = field(default_factory=list)
    before: dict[Key, Row | None] = field(default_factory=dict)


class Player:
    """Plays a script on a table of a source. `met` counts what happened, by name."""

    def __init__(self, source: Source, table: Table, prefix: str) -> None:
        self.source, self.table, self.prefix = source, table, prefix
        self.met: Counter[str] = Counter()
        self.deliveries: list[tuple[int, dict[str, Any]]] = []
        self.changes = 0
        self.is_told_whole = True
        self._lost = False
        self._first_of_log = len(source.records)
        self._sessions = [Session(), Session()]
        self._session = self._sessions[0]
        self._batch = 0
        self._pending: list[dict[str, Any]] = []
        self._taken = len(source.records)
        self._landed: list[dict[str, Any]] = []
        # Of each key, the rows that transactions left it with, none before the first, and when the last one was.
        self._lives: defaultdict[Key, list[Row | None]] = defaultdict(lambda: [None])
        self._changed_at: dict[Key, int] = {}
        # Where a change of key brought the row that is there.
        self._moved: set[Key] = set()

    def play(self, steps: Iterable[Step], *, whole: bool = True) -> Player:
        """Play every step, end what is open, and land what is left; a `whole` tape is long enough to count as one."""
        for name, *arguments in steps:
            getattr(self, f"_{name}")(*arguments)
        for session in self._sessions:
            self._session = session
            self._commit()
        if whole:
            self._lengthen()
        self._take()
        self.deliveries += [(BATCHES - 1, record) for record in self._pending]
        return self

    def _lengthen(self) -> None:
        for row in range(LEAST_KEYS):
            self._insert(row, "first")
            self._commit()
        for number in range(100):
            if number % 5 == 4 and self._batch < BATCHES - 1:
                self._land(number)
            if self.changes >= LEAST_CHANGES and self._batch >= BATCHES - 1:
                break
            self._update(number % LEAST_KEYS, f"more {number}")
            self._commit()
        self._update(0, "last")
        self._commit()

    def _row(self, row: int) -> Row | None:
        """A row that this session may write: another session's are locked until it ends."""
        return None if self._is_locked(row) else self.table.rows.get(self.table.key_of({"id": self._id(row)}))

    def _id(self, row: int) -> str:
        return f"{self.prefix}:{NAMES[row % len(NAMES)]}"

    def _is_locked(self, row: int) -> bool:
        key = self.table.key_of({"id": self._id(row)})
        return any(key in session.before for session in self._sessions if session is not self._session)

    def _did(self, name: str) -> None:
        self.met[name] += 1
        self._session.events += self.source.taken()

    def _remember(self, *rows: Row) -> None:
        for row in rows:
            key = self.table.key_of(row)
            self._session.before.setdefault(key, self.table.rows.get(key))

    def _insert(self, row: int, value: str | None) -> None:
        new: Row = {column.name: None for column in self.table.columns}
        new |= {"id": self._id(row), "name": value, "note": f"{value} at length"}
        if not self._is_locked(row) and self.table.key_of(new) not in self.table.rows:
            self._remember(new)
            self.source.insert(self.table, new)
            self._did("insert")

    def _update(self, row: int, value: str | None, column: str = "name", step: str = "update") -> None:
        old = self._row(row)
        if old is not None:
            self._remember(old)
            extra = {name: value for name in ("extra",) if name in old and column == "name"}
            self.source.update(self.table, old, {column: value, **extra})
            self._did(step)

    def _large(self, row: int, value: str | None) -> None:
        self._update(row, None if value is None else f"{value} in full", "note", "large")

    def _delete(self, row: int, value: str | None) -> None:
        old = self._row(row)
        if old is not None:
            self._remember(old)
            self.source.delete(self.table, old)
            self._did("delete")

    def _move(self, row: int, to: int) -> None:
        old = self._row(row)
        new = {"id": self._id(to)}
        if old is not None and not self._is_locked(to) and self.table.key_of(new) not in self.table.rows:
            self._remember(old, new)
            self.source.update(self.table, old, new)
            self._did("move in letter case" if {row % 4, to % 4} == {0, 1} else "move")

    def _swap(self, row: int, to: int) -> None:
        one, other = self._row(row), self._row(to)
        if one is not None and other is not None:
            self._remember(one, other)
            self.source.swap(self.table, one, other)
            self._did("swap")

    def _silent(self, row: int, value: str | None) -> None:
        old = self._row(row)
        if old is not None and not self._session.events and old["name"] != value:
            self.table.rows[self.table.key_of(old)] = {**old, "name": value}
            self.is_told_whole = False
            self.met["silent"] += 1

    def _truncate(self) -> None:
        if not any(session.events for session in self._sessions):
            self.source.truncate(self.table)
            self._did("truncate")
            self._commit()

    def _commit(self) -> None:
        session = self._session
        if session.events:
            keys = [self.table.key_of(event.after or event.before or {"id": ""}) for event in session.events]
            self.met["several changes in a transaction"] += len(keys) > len(set(keys))
            others = [other for other in self._sessions if other is not session and other.events]
            self.met["interleaved"] += any(other.events[0].lsn < session.events[-1].lsn for other in others)
            if self.source.connector == "mariadb":
                for event in session.events:
                    self.source.lsn += 8
                    event.lsn = self.source.lsn
            written = len(self.source.records)
            self.source.write(session.events)
            self.met["tombstone"] += sum(record["value"] is None for record in self.source.records[written:])
            self.changes += len(session.events)
            self._count(session.events)
        session.events, session.before = [], {}

    def _count(self, events: list[Event]) -> None:
        """Count what shows in transactions of a key one after the other."""
        if events[0].op == "t":
            self._moved.clear()
            for states in self._lives.values():
                states.append(None)
            return
        changed = {self.table.key_of(event.after or event.before or {}) for event in events}
        came = {
            self.table.key_of(event.after): self.table.key_of(event.headers["__debezium.oldkey"])
            for event in events
            if event.after and event.headers
        }
        self.met["chain of key changes"] += sum(old in self._moved for old in came.values())
        self._moved = (self._moved - changed) | (came.keys() & self.table.rows.keys())
        for key in changed:
            self.met["tie"] += self._changed_at.get(key) == self.source.now
            self._changed_at[key] = self.source.now
            states, row = self._lives[key], self.table.rows.get(key)
            self.met["no-op"] += row is not None and states[-1] == row
            self.met["re-insert"] += row is not None and states[-1] is None and len(states) > 1 and key not in came
            if states[-1] != row:
                states.append(row)
                self.met["A-B-A"] += None not in states[-3:] and states[-3] == row

    def _rollback(self) -> None:
        for key, row in self._session.before.items():
            self.table.rows.pop(key, None)
            if row is not None:
                self.table.rows[key] = row
        self.met["rollback"] += bool(self._session.events)
        self._session.events, self._session.before = [], {}

    def _switch(self, number: int) -> None:
        self._session = self._sessions[number % 2]

    def _snapshot(self, marker: str) -> None:
        if not any(session.before for session in self._sessions) and self.table.rows:
            self.met[f"snapshot {marker}"] += 1
            self.source.snapshot(self.table, marker)

    def _restart(self, records: int) -> None:
        count = min(records, len(self.source.records) - self._first_of_log)
        self.met["redelivered"] += count
        self.source.redeliver(count)

    def _clock(self, seconds: int) -> None:
        self.met["clock set back"] += seconds < 0
        self.source.tick(seconds * 1_000_000)

    def _failover(self) -> None:
        if not any(session.before for session in self._sessions):
            self.met["failover"] += 1
            self.source.fail_over()
            self._first_of_log = len(self.source.records)

    def _column(self, name: str) -> None:
        if any(session.before for session in self._sessions):
            return
        self.met["column gained or lost"] += 1
        known = [column.name for column in self.table.columns]
        if name in known:
            self._lost |= any(row.get(name) is not None for row in self.table.rows.values())
            self.table.columns = [column for column in self.table.columns if column.name != name]
        else:
            # Rows come to have NULL where they had values, and no event says so.
            self.is_told_whole &= not self._lost
            self.table.columns = [*self.table.columns, Column(name)]
        for key, row in self.table.rows.items():
            self.table.rows[key] = {column.name: row.get(column.name) for column in self.table.columns}

    def _take(self) -> None:
        self._pending += self.source.records[self._taken :]
        self._taken = len(self.source.records)

    def _land(self, mask: int) -> None:
        self._take()
        if self._batch == BATCHES - 1 or not self._pending:
            return
        late = [record for record in self._pending if mask and (record["offset"] * 7919 + mask) % 3 == 0]
        again = [record for record in self._landed if mask and (record["offset"] * 104_729 + mask) % 5 == 0]
        landed = [record for record in self._pending if record not in late]
        if not landed:
            return
        self.met["late"] += len(late)
        self.met["landed again"] += len(again)
        self.deliveries += [(self._batch, record) for record in landed + again]
        self._landed += landed
        self._pending = late
        self._batch += 1
