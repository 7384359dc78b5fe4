"""The machine that writes scripts: a Hypothesis state machine over a simulated database.

Every rule adds steps and plays them; at the end of a script the plain-Python oracle has to tell the rows that the
database has. What Hypothesis makes smaller on a failure is the script.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests import oracle
from tests.generated.script import NAMES, Player, Step, table_named
from tests.source import Source

ROWS, VALUES = range(len(NAMES)), ("x", "y", None)
STATEMENTS: list[Step] = [
    *[(name, row, value) for name in ("insert", "update", "large", "delete") for row in ROWS for value in VALUES],
    *[("move", row, to) for row in ROWS for to in ROWS if row != to],
    *[("swap", row, to) for row in ROWS for to in ROWS if row != to],
]


@dataclass(frozen=True)
class Kind:
    """What tapes of one table have in common: their source, and what the table's history declares."""

    name: str
    connector: str = "postgresql"
    is_full: bool = False
    granularity: str = "transaction"
    ignore: tuple[str, ...] = ()
    snapshot_deletes: str = "report"
    # One living row is many: what large tables do is done to these.
    is_large: bool = False
    # Where no row's key ever changes, histories go on from their open versions.
    moves: bool = True
    # Of one tape's records, which stand where their keys say.
    partitions: int = 1

    @property
    def sends_whole_rows(self) -> bool:
        """Whether no value is left out: which one a swapped row brings rests on both halves of the moves before it."""
        return self.is_full or self.connector != "postgresql"

    @property
    def history_options(self) -> dict[str, Any]:
        """The options of the history model that are not the defaults."""
        options: dict[str, Any] = {}
        if self.granularity != "transaction":
            options["granularity"] = self.granularity
        if self.ignore:
            options["ignore"] = list(self.ignore)
        if self.snapshot_deletes != "report":
            options["snapshot_deletes"] = self.snapshot_deletes
        if self.is_large:
            options |= {"rewritten_rows": 1, "sorted_changes": 1}
        return options

    @property
    def changes_options(self) -> dict[str, Any]:
        """The same of the changes model."""
        options: dict[str, Any] = {}
        if self.is_full:
            options["before_is_whole"] = True
        if self.is_large:
            options["sorted_records"] = 1
        return options

    @property
    def oracle_options(self) -> oracle.TableOptions:
        """The same for the oracle."""
        return oracle.TableOptions(
            key=("id",), granularity=self.granularity, ignore=self.ignore, snapshot_deletes=self.snapshot_deletes,
            before_is_whole=True if self.is_full else None,
        )  # fmt: skip

    def source(self, tape: int, prefix: str = "gen") -> Source:
        """A server for one tape, by its number, whose records are in partitions of their own."""
        first = tape * self.partitions
        return Source(prefix, has_schemas=False, connector=self.connector, partition=first, partitions=self.partitions)


SHARED = (
    Kind("pg", is_large=True),
    Kind("pg_full", is_full=True),
    Kind("pg_event", granularity="event", is_large=True),
    Kind("pg_ignore", ignore=("note",)),
    Kind("maria", connector="mariadb", is_large=True),
    Kind("ora", connector="oracle"),
    Kind("mssql", connector="sqlserver"),
    Kind("db2", connector="db2"),
    Kind("pg_still", is_large=True, moves=False),
    Kind("maria_still", connector="mariadb", moves=False),
    Kind("pg_parts", partitions=3, is_large=True),
    Kind("pg_full_parts", is_full=True, partitions=2),
    Kind("maria_parts", connector="mariadb", partitions=2),
    Kind("mssql_parts", connector="sqlserver", partitions=2),
)
WHOLE = (
    Kind("pg_whole"),
    Kind("maria_whole", connector="mariadb"),
    Kind("pg_closing", snapshot_deletes="close", is_large=True),
    Kind("pg_full_closing", is_full=True, snapshot_deletes="close"),
    Kind("pg_whole_parts", partitions=2),
    Kind("maria_closing_parts", connector="mariadb", snapshot_deletes="close", partitions=2, is_large=True),
)


@dataclass(frozen=True)
class Script:
    """A script and the kind of table that it is for."""

    kind: Kind
    steps: tuple[Step, ...]


class Rows(RuleBasedStateMachine):
    """Hazards of rows: what one key meets doesn't touch the keys of another tape in the same table."""

    kinds: ClassVar[tuple[Kind, ...]] = SHARED
    written: ClassVar[list[Script]] = []

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.kind = self.kinds[0]

    @initialize(number=st.integers(0, 1000), first=st.sampled_from([None, "true", "incremental"]))
    def begin(self, number: int, first: str | None) -> None:
        """A table with rows, which a snapshot may have read, or none."""
        self.kind = self.kinds[number % len(self.kinds)]
        if first:
            self.steps += [("insert", row, "x") for row in ROWS[:3]] + [("commit",), ("snapshot", first)]

    @rule(statements=st.lists(st.sampled_from(STATEMENTS), min_size=2, max_size=6), ends=st.booleans())
    def transaction(self, statements: list[Step], ends: bool) -> None:
        """A transaction, mostly committed."""
        self.steps += [*self._fit(statements), ("commit",) if ends or len(statements) % 3 else ("rollback",)]

    @rule(one=st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=3),
          other=st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=3))  # fmt: skip
    def interleaved(self, one: list[Step], other: list[Step]) -> None:
        """Two transactions at once; the one that began first commits last."""
        self.steps += [*self._fit(one), ("switch", 1), *self._fit(other), ("commit",), ("switch", 0), ("commit",)]

    def _fit(self, statements: list[Step]) -> list[Step]:
        left_out = {"move", "swap"} if not self.kind.moves else set() if self.kind.sends_whole_rows else {"swap"}
        return [("update", step[1], "x") if step[0] in left_out else step for step in statements]

    @rule(marker=st.sampled_from(["true", "incremental"]))
    def snapshot(self, marker: str) -> None:
        """A later snapshot."""
        self.steps.append(("snapshot", marker))

    @rule(records=st.integers(1, 12))
    def restart(self, records: int) -> None:
        """The connector restarts and repeats itself."""
        self.steps.append(("restart", records))

    @rule(seconds=st.sampled_from([-5, -1, 3600]))
    def clock(self, seconds: int) -> None:
        """The clock is set, mostly back."""
        self.steps.append(("clock", seconds))

    @rule(step=st.sampled_from([*[("silent", row, value) for row in ROWS for value in VALUES], ("failover",)]))
    def misfortune(self, step: Step) -> None:
        """A change without an event, or another server."""
        self.steps.append(step)

    @rule(mask=st.integers(0, 5))
    def land(self, mask: int) -> None:
        """The end of a batch."""
        self.steps.append(("land", mask))

    def teardown(self) -> None:
        """Play the script, and let the oracle tell what the database has."""
        if self.steps:
            player = Player(self.kind.source(0), table_named(self.kind.name, is_full=self.kind.is_full), "0")
            player.play(self.steps)
            if is_told(player):
                assert told_by_oracle(self.kind, player) == rows_of(player), self.steps
            self.written.append(Script(self.kind, tuple(self.steps)))


class Tables(Rows):
    """Hazards of whole tables: what every key of a table meets."""

    kinds = WHOLE

    @rule(truncates=st.booleans())
    def whole_table(self, truncates: bool) -> None:
        """A truncate, or a column more or less."""
        self.steps.append(("truncate",) if truncates else ("column", "extra"))

    def teardown(self) -> None:
        """Have a table that met neither meet one before it ends."""
        if self.steps and not {("truncate",), ("column", "extra")} & {*self.steps}:
            self.whole_table(truncates=len(self.steps) % 2 == 0)
        super().teardown()


def is_told(player: Player) -> bool:
    """Whether the events say all there is: no change without one, and no other log that looks like the old one.

    Each partition sees another log by itself, and what crosses partitions meanwhile is compared by numbers of both.
    """
    is_unseen = player.met["clock set back"] or player.source.partitions > 1
    return player.is_told_whole and not (player.met["failover"] and is_unseen)


def rows_of(player: Player) -> dict[str, Any]:
    """The rows that the database has at the end."""
    return {row["id"]: row for row in player.table.rows.values()}


def told_by_oracle(kind: Kind, player: Player) -> dict[str, Any]:
    """The rows that are open in the oracle's history."""
    records = {id(record): record for _, record in player.deliveries}
    history = oracle.build(map(as_record, records.values()), {name_of(kind): kind.oracle_options})
    return {
        key[0]: {column.name: versions[-1].state.get(column.name) for column in player.table.columns}
        for key, versions in (history[name_of(kind)].versions if history else {}).items()
        if versions[-1].valid_to is None
    }


def name_of(kind: Kind) -> str:
    """A kind's table as the oracle names it."""
    return f"{'public' if kind.connector == 'postgresql' else 'db'}.{kind.name}"


def as_record(record: dict[str, Any]) -> oracle.Record:
    """A delivery as the oracle takes it."""
    headers = tuple((header["key"], header["value"]) for header in record["headers"])
    return oracle.Record(**{**record, "headers": headers})


def scripts(machine: type[Rows], count: int, number: int) -> list[Script]:
    """So many scripts, drawn with a seed; fails with the smallest that the oracle tells otherwise than the database."""
    machine.written = []
    run_state_machine_as_test(
        seed(number)(machine),
        settings=settings(
            # Of these some few have no steps.
            max_examples=count + count // 10 + 2,
            stateful_step_count=16,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )
    return machine.written[:count]


def counters(players: list[Player]) -> Counter[str]:
    """How often each hazard occurred."""
    return sum((player.met for player in players), Counter())
