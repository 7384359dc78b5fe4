"""A run that is killed anywhere leaves nothing that the next run doesn't put right by itself. Owns G4.

`TIDEMARK_KILLS` says how many runs are killed (40), `TIDEMARK_SEED` where. Of fewer kills than kinds it is the day, so
that a few days' runs are killed at all of them.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.declarations import captured_tables
from spark_jobs.landing.land import Landing, land_files
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import write
from tests import oracle
from tests.faults.victim import SOURCE, Victim, later
from tests.generated.lakehouse import current_is_open, told_by_gold, told_by_oracle
from tests.generated.machine import as_record
from tests.projects import account_of, missing

TABLE = f"{SOURCE}__public__orders"

KILLS = int(os.environ.get("TIDEMARK_KILLS") or 40)
# Each kill costs a process its start, which uses one core.
CHAINS = 2


@dataclass(frozen=True)
class Kill:
    """A command that is killed when a file of `appears` comes, or at a random time within so many seconds after it.

    Behind a `last` one the run may have nothing more to commit.
    """

    name: str
    command: tuple[str, ...]
    appears: str
    within: float = 0
    last: bool = False


LAND = ("land",)
# Tests write nothing, and take most of a build's time.
BUILD = ("build", "--exclude-resource-type", "test")
CHECK = ("check", "--no-sample-rows")
# All that can be joined or removed: the next one meets files of the run before.
UPKEEP = ("upkeep", "--few", "2", "--keep", "0h", "--force")
KINDS = [
    Kill("landing, any time", LAND, ".lock", 12),
    Kill("landing: quarantine committed", LAND, "bronze/quarantine/_delta_log/*.json"),
    Kill("landing: shapes committed", LAND, "bronze/shapes/_delta_log/*.json"),
    Kill("landing: records written", LAND, "bronze/records/feed=*/*.parquet"),
    Kill("landing: records committed", LAND, "bronze/records/_delta_log/*.json", last=True),
    Kill("changes: rows written", BUILD, f"silver/{TABLE}_changes/*.parquet"),
    Kill("changes: committed", BUILD, f"silver/{TABLE}_changes/_delta_log/*.json"),
    Kill("changes: progress committed", BUILD, "ops/progress/_delta_log/*.json"),
    Kill("history: keys or rows held", BUILD, f"ops/_staged/*_{TABLE}_history/_SUCCESS"),
    Kill("history: rows written", BUILD, f"gold/{TABLE}_history/*/*.parquet"),
    Kill("history: committed", BUILD, f"gold/{TABLE}_history/_delta_log/*.json"),
    Kill("current: rows written", BUILD, f"silver/{TABLE}_current/*.parquet"),
    Kill("current: committed", BUILD, f"silver/{TABLE}_current/_delta_log/*.json"),
    Kill("building, any time", BUILD, f"silver/{TABLE}_changes/_delta_log/*.json", 12),
    Kill("building, any time", BUILD, ".lock", 25),
    Kill("check: accounts stored", CHECK, "ops/accounting/_delta_log/*.json", last=True),
    Kill("check: report written", CHECK, "reports/*/report.html", last=True),
    Kill("checking, any time", CHECK, ".lock", 25, last=True),
    Kill("upkeep: joined rows written", UPKEEP, "bronze/records/feed=*/*.parquet", last=True),
    Kill("upkeep: joined files committed", UPKEEP, "bronze/records/_delta_log/*.json"),
    Kill("upkeep, any time", UPKEEP, ".lock", 25, last=True),
    Kill("a whole run, any time", ("run",), "bronze/records/_delta_log/*.json", 25),
]
DAY = int(time.time() // 86_400)
SEED = int(os.environ.get("TIDEMARK_SEED") or (DAY if len(KINDS) > KILLS else secrets.randbits(32)))


def drawn(count: int, seed: int) -> list[Kill]:
    """So many kills, each kind as often as another or once more; the next seed begins where this one ends."""
    kinds = random.Random(len(KINDS)).sample(KINDS, len(KINDS))
    kills = [kinds[(seed * count + number) % len(kinds)] for number in range(count)]
    random.Random(seed).shuffle(kills)
    return kills


@pytest.mark.parametrize("count", [4, 11])
def test_a_few_kills_a_day_are_soon_of_every_kind(count: int) -> None:
    days = -(-len(KINDS) // count)

    assert {kill for day in range(DAY, DAY + days) for kill in drawn(count, day)} == {*KINDS}


@pytest.mark.long
@pytest.mark.timeout(0)
def test_what_a_kill_leaves_the_next_run_puts_right(
    spark: SparkSession, tmp_path: Path, told_at_end: list[str]
) -> None:
    victims = [Victim(tmp_path / f"victim-{number}") for number in range(CHAINS)]
    for victim in victims:
        land(spark, victim)
        write(victim.places.project, missing(victim.places.project, seen_tables(spark, victim.places)))

    kills = drawn(KILLS, SEED)
    kinds = Counter(kill.name for kill in kills)
    told_at_end.append(
        f"TIDEMARK_SEED={SEED} TIDEMARK_KILLS={KILLS}: "
        + ", ".join(f"{name} {count}" for name, count in sorted(kinds.items()))
    )
    with ThreadPoolExecutor(CHAINS) as beside:
        chains = list(
            beside.map(
                lambda number: chain(spark, victims[number], kills[number::CHAINS], random.Random(f"{SEED}-{number}")),
                range(CHAINS),
            )
        )

    killed = sum((chain.killed for chain in chains), Counter[str]())
    between = sum(chain.between for chain in chains)
    told_at_end.append(f"TIDEMARK_SEED={SEED}: {between} of them between a run's first and last commit")
    assert [victim.home.name for victim in victims if not tables_are_right(victim)] == [], (SEED, killed)
    assert killed.total() == KILLS
    assert len(KINDS) > KILLS or set(killed) == {kind.name for kind in KINDS}
    assert len(KINDS) > KILLS or between >= killed.total() / 2


@dataclass
class Chain:
    """What became of a chain of kills."""

    killed: Counter[str] = field(default_factory=Counter)
    between: int = 0


def chain(spark: SparkSession, victim: Victim, kills: Iterable[Kill], chance: random.Random) -> Chain:
    """Kill one run after the other, look at bronze after each, and at last let a run end."""
    done = Chain()
    for kill in kills:
        done.between += die(spark, victim, kill, chance)
        done.killed[kill.name] += 1
        assert bronze_is_whole(victim), (SEED, kill.name, victim.output())
    assert victim.run("run", str(victim.inbox)) == 0, (SEED, victim.output())
    return done


def land(spark: SparkSession, victim: Victim) -> None:
    """Give the victim another file, and land it beside the processes that are killed: it takes a tenth of the time."""
    victim.give()
    land_files(spark, victim.places, [str(victim.inbox)], Landing(f"{victim.files}", datetime.now(UTC)))


def die(spark: SparkSession, victim: Victim, kill: Kill, chance: random.Random) -> bool:
    """Kill a command at its point; whether that was between the first and the last commit of the run."""
    within = kill.within
    files = [str(victim.inbox)] if kill.command[0] in ("land", "run") else []
    while True:
        victim.give() if files else land(spark, victim)
        commits, victim.landed = victim.commits(), len(victim.rows("bronze", "records"))
        point = victim.appears(kill.appears)
        if victim.killed(later(point, chance.uniform(0, within)) if within else point, *kill.command, *files):
            return victim.commits() > commits and not kill.last
        assert within, (kill.name, victim.output())
        within /= 2


def bronze_is_whole(victim: Victim) -> bool:
    """Whether bronze has each record of the first so many files once, byte for byte, no other, and none less."""
    found = [
        (row["topic"], row["partition"], row["offset"], row["key"], row["value"])
        for row in victim.rows("bronze", "records")
    ]
    sent = [
        (record["topic"], record["partition"], record["offset"], as_bytes(record["key"]), as_bytes(record["value"]))
        for record in victim.source.records
    ]
    held = [row["offset"] for row in victim.rows("bronze", "quarantine")]
    is_there = len(found) >= victim.landed and Counter(found) == Counter(sent[: len(found)])
    return is_there and len(held) == len(set(held))


def as_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def tables_are_right(victim: Victim) -> bool:
    """Whether the log has each change once, the history is the oracle's, and its account adds up."""
    [table] = captured_tables(victim.places)
    changes = [record["offset"] for record in victim.source.records if record["value"]]
    history = oracle.build(map(as_record, victim.source.records), {"public.orders": oracle.TableOptions(key=("id",))})
    account = {row["name"]: row["records"] for row in account_of(table) if row["kind"] != "sign"}
    return (
        Counter(row["offset"] for row in victim.rows("silver", f"{TABLE}_changes")) == Counter(changes)
        and told_by_gold(table) == told_by_oracle(history["public.orders"])
        and current_is_open(table)
        and sum(account.values()) == len(changes)
        and account["opened"] == len(victim.rows("gold", f"{TABLE}_history"))
        and len(victim.rows("bronze", "quarantine")) == victim.files
    )
