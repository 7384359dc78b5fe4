"""Any split, order, delay and repetition of what connectors write gives the oracle's history (G1, G2).

`TIDEMARK_TAPES` says how many tapes are drawn (2,000), `TIDEMARK_SEED` which. A tape that gold tells
otherwise is made smaller on Spark and printed, to become a readable case in `tests/tapes/`.
"""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from tests.generated.lakehouse import Difference, TapedTable, differences, smallest, tables_of
from tests.generated.machine import WHOLE, Kind, Rows, Script, Tables, counters, scripts
from tests.generated.script import BATCHES, LEAST_CHANGES, LEAST_KEYS, Player, Step, table_named

TAPES = int(os.environ.get("TIDEMARK_TAPES") or 2000)
WHOLE_TABLES = TAPES // 20
# How many tapes meet every hazard.
ENOUGH = 500
SEED = int(os.environ.get("TIDEMARK_SEED") or secrets.randbits(32))
HAZARDS = (
    "insert", "update", "large", "delete", "move", "move in letter case", "swap", "silent", "truncate",
    "rollback", "interleaved", "several changes in a transaction", "snapshot true", "snapshot incremental",
    "redelivered", "clock set back", "failover", "column gained or lost", "late", "landed again",
    "tie", "no-op", "A-B-A", "re-insert", "chain of key changes", "tombstone",
)  # fmt: skip
# One of them each tape of a whole table meets.
OF_WHOLE_TABLES = ("truncate", "column gained or lost")


@pytest.mark.long
@pytest.mark.timeout(0)
def test_gold_tells_every_generated_tape(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, told_at_end: list[str]
) -> None:
    drawn = scripts(Rows, TAPES - WHOLE_TABLES, SEED), scripts(Tables, WHOLE_TABLES, SEED)
    tables = tables_of(drawn[0], "gen", apart=True) + tables_of(drawn[1], "gen", apart=False)
    players = [player for table in tables for player in table.players]
    met = counters(players)
    told_at_end.append(
        f"TIDEMARK_SEED={SEED}: {len(players)} tapes, " + ", ".join(f"{name} {met[name]}" for name in HAZARDS)
    )

    assert len(players) >= TAPES
    # Of few tapes none may have met the rarest.
    assert TAPES < ENOUGH or [name for name in HAZARDS if not met[name]] == []
    whole = [player for table in tables if table.kind in WHOLE for player in table.players]
    assert len(whole) >= WHOLE_TABLES
    assert [player.prefix for player in whole if not any(player.met[name] for name in OF_WHOLE_TABLES)] == []
    assert min(player.changes for player in players) >= LEAST_CHANGES
    assert min(len({batch for batch, _ in player.deliveries}) for player in players) >= BATCHES
    assert min(len(keys_of(table, tape)) for table in tables for tape in range(len(table.players))) >= LEAST_KEYS
    found = differences(spark, tmp_path_factory.mktemp("tapes"), tables)
    assert not found, story(spark, tmp_path_factory, found, drawn)


def keys_of(table: TapedTable, tape: int) -> set[str]:
    """The keys that a tape's records have."""
    return {record["key"] for _, record in table.players[tape].deliveries if record["key"]}


def story(
    spark: SparkSession,
    folders: pytest.TempPathFactory,
    found: list[Difference],
    drawn: tuple[list[Script], list[Script]],
) -> str:
    """What went wrong, of the first tape that did, made as small as it gets."""
    first = found[0]
    steps = [
        script.steps for part in drawn for script in part if script.kind.name == first.table.kind.name
    ][first.tape]  # fmt: skip
    is_shared = first.table.players[0].source.partition != first.table.players[-1].source.partition

    def run(candidates: list[list[Step]]) -> list[Difference]:
        home = folders.mktemp("smaller")
        tables = [TapedTable(first.table.kind, "smaller", home.name)] if is_shared else []
        for number, candidate in enumerate(candidates):
            if not is_shared:
                tables.append(TapedTable(first.table.kind, f"smaller_{number}", home.name))
            tables[-1].add(candidate, apart=is_shared, whole=False)
        return differences(spark, home, tables)

    def fails(candidates: list[list[Step]]) -> list[bool]:
        names = {(one.table.name, one.tape) for one in run(candidates)}
        return [
            (("smaller", number) if is_shared else (f"smaller_{number}", 0)) in names
            for number in range(len(candidates))
        ]

    lines = [
        f"TIDEMARK_SEED={SEED}: {len(found)} tapes differ after {first.after}, first {first.table.name}:{first.tape}."
    ]
    if fails([list(steps)])[0]:
        steps = tuple(smallest(fails, steps))
        first = run([list(steps)])[0]
    lines += [f"kind: {first.table.kind}", f"steps: {list(steps)}"]
    lines += [f"batch {batch}: {json.dumps(record)}" for batch, record in first.table.players[first.tape].deliveries]
    lines += [f"oracle: {row}" for row in first.oracle] + [f"gold:   {row}" for row in first.gold]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("met", "steps"),
    [
        ({"tie": 1}, [("commit",), ("clock", -1), ("update", 0, "y"), ("commit",)]),
        ({}, [("commit",), ("update", 0, "y"), ("commit",)]),
        ({"no-op": 1}, [("commit",), ("update", 0, "y"), ("update", 0, "x"), ("commit",)]),
        ({"A-B-A": 1}, [("commit",), ("update", 0, "y"), ("commit",), ("update", 0, "x"), ("commit",)]),
        ({"tombstone": 1, "re-insert": 1}, [("commit",), ("delete", 0, "x"), ("commit",), ("insert", 0, "z")]),
        ({"re-insert": 1}, [("commit",), ("truncate",), ("insert", 0, "z")]),
        ({"tombstone": 2}, [("commit",), ("move", 0, 2), ("commit",), ("delete", 2, "x")]),
        ({"tombstone": 2, "chain of key changes": 1}, [("commit",), ("move", 0, 2), ("commit",), ("move", 2, 3)]),
        ({"tombstone": 1}, [("commit",), ("move", 0, 2), ("commit",), ("move", 2, 3), ("rollback",)]),
    ],
)
def test_what_a_key_met_in_transactions_one_after_the_other_is_counted(met: dict[str, int], steps: list[Step]) -> None:
    player = Player(Kind("pg").source(0), table_named("pg", is_full=False), "0")

    player.play([("insert", 0, "x"), *steps], whole=False)

    names = {"tie", "no-op", "A-B-A", "re-insert", "chain of key changes", "tombstone"}
    assert {name: count for name, count in player.met.items() if name in names and count} == met


def test_a_script_is_made_as_small_as_its_failure_allows() -> None:
    def fails(candidates: list[list[Step]]) -> list[bool]:
        counted = [Counter(step[0] for step in steps) for steps in candidates]
        return [count["move"] >= 1 and count["restart"] >= 1 for count in counted]

    steps: list[Step] = [("insert", 0, "x"), ("move", 0, 1), ("commit",), ("land", 0), ("restart", 3), ("commit",)]

    assert smallest(fails, steps) == [("move", 0, 1), ("restart", 3)]
