"""Real records, mutated: the run goes on, each record is accounted for, and other rows have their history.

Each run mutates anew; `TIDEMARK_SEED` repeats a run that failed, `TIDEMARK_FUZZ_SECONDS` says how long landing is fed
(60).
"""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.landing.envelope import routed
from spark_jobs.landing.land import Landing, land_files
from spark_jobs.landing.record_files import records_of
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import write
from tests import oracle
from tests.gold import expected_versions, versions_of
from tests.projects import account_of, empty_project, missing, renamed, run_models

pytestmark = pytest.mark.long

SEED = int(os.environ.get("TIDEMARK_SEED") or secrets.randbits(32))
SECONDS = float(os.environ.get("TIDEMARK_FUZZ_SECONDS") or 60)
CAPTURES = Path(__file__).parents[1] / "captures"
FUZZED = {"f1": "postgres-3.5.0-core-default", "f2": "mariadb-2.5.4-core"}
# Mutations of `customers` stay with their rows; those of `order_lines` can be of place, time and op.
TABLES = ("customers", "order_lines")
HELD_ASIDE = 0.4  # of the rows, which no mutation names
LITTLE = [
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    1e308,
    "",
    "x",
    "\x00",
    "{{ 7 * 7 }}",
    "'; --",
    [],
    {},
    [None],
    {"a": {"a": 1}},
]
MIDWAY = {1: ["tag:layer:ops"], 2: []}  # what a build leaves out, besides current states
IDS = re.compile(r'"id"\s*:\s*"?\s*(-?\d+)')
TRANSACTION = re.compile(r'"transaction"\s*:\s*\{[^}]*\}')  # which has an id of its own

Record = dict[str, Any]
Mutation = Callable[[random.Random, Record, Sequence[Record]], Record]


def places_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where there is something in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for name, one in inner for place in [(*path, name), *places_of(one, (*path, name))]]


def changed(draw: random.Random, record: Record, change: Callable[[Any, Any], None]) -> Record:
    """A record with something changed at a place of its key or value."""
    part = draw.choice([name for name in ("value", "value", "value", "key") if record[name]] or ["value"])
    if not record[part]:
        return record
    value = json.loads(record[part])
    *outer, last = draw.choice(places_of(value))
    holder = value
    for name in outer:
        holder = holder[name]
    change(holder, last)
    return {**record, part: json.dumps(value)}


def flipped(draw: random.Random, record: Record, _others: Sequence[Record]) -> Record:
    part = draw.choice([name for name in ("key", "value") if record[name]] or ["topic"])
    data = bytearray(record[part].encode())
    for _ in range(draw.choice([1, 1, 1, 5, 50])):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return {**record, part: data.decode("utf-8", "surrogateescape")}


def shortened(draw: random.Random, record: Record, _: Sequence[Record]) -> Record:
    part = draw.choice([name for name in ("key", "value") if record[name]] or ["topic"])
    return {**record, part: record[part][: draw.randrange(len(record[part]))]}


def removed(draw: random.Random, record: Record, _: Sequence[Record]) -> Record:
    return changed(draw, record, lambda holder, name: holder.__delitem__(name))


def retyped(draw: random.Random, record: Record, _: Sequence[Record]) -> Record:
    return changed(draw, record, lambda holder, name: holder.__setitem__(name, draw.choice(LITTLE)))


def nested(draw: random.Random, record: Record, _: Sequence[Record]) -> Record:
    def nest(holder: Any, name: Any) -> None:
        for _ in range(draw.choice([1, 2, 200])):
            holder[name] = draw.choice([[holder[name]], {"payload": holder[name]}])

    return changed(draw, record, nest)


def doubled(draw: random.Random, record: Record, others: Sequence[Record]) -> Record:
    """A name twice in an object: once as it is, once as another record has it."""
    if not record["value"]:
        return record
    value, other = json.loads(record["value"])["payload"], draw.choice(others)
    name = draw.choice(list(value))
    again = json.loads(other["value"])["payload"].get(name) if other["value"] else None
    text = json.dumps(value)
    return {**record, "value": f"{text[:-1]}, {json.dumps(name)}: {json.dumps(again)}}}"}


def swapped(draw: random.Random, record: Record, others: Sequence[Record]) -> Record:
    part = draw.choice(["key", "value", "headers"])
    return {**record, part: draw.choice(others)[part]}


def swapped_in_part(draw: random.Random, record: Record, others: Sequence[Record]) -> Record:
    other = draw.choice([one for one in others if one["value"]])

    def swap(holder: Any, name: Any) -> None:
        theirs = [place for place in places_of(json.loads(other["value"])) if place[-1] == name]
        value = json.loads(other["value"])
        for step in draw.choice(theirs) if theirs else ():
            value = value[step]
        holder[name] = value

    return changed(draw, record, swap)


MUTATIONS: list[Mutation] = [
    flipped, flipped, shortened, removed, removed, retyped, retyped, nested, doubled, swapped, swapped_in_part,
]  # fmt: skip


def ids_of(record: Record) -> set[int]:
    """The ids that a record's key, headers and images name, whatever is left of them."""
    texts = [record["key"], record["value"], *(header["value"] for header in record["headers"])]
    return {int(found) for text in texts if text for found in IDS.findall(TRANSACTION.sub("", text))}


def reach(record: Record) -> Any:
    """What of a record counts for other rows too: op, and where and when it was."""
    try:
        value = json.loads(record["value"])
        payload = value.get("payload", value)
        return payload["op"], payload["source"]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def line_of(record: Record) -> bytes:
    """A record as a line; bytes that a flip has made no UTF-8 are there as they are."""
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogateescape")


@dataclass
class Fuzzed:
    """A capture's records, those that were mutated, and the rows that no mutation names."""

    lines: list[bytes]
    whole: dict[str, set[int]]
    counts: Counter[str]


def table_of(record: Record) -> str:
    return str(record["topic"].rpartition(".")[2])


def families(records: Sequence[Record]) -> dict[int, set[int]]:
    """Id → the ids that are of one life with it, since a change of key named both."""
    found: dict[int, set[int]] = {}
    for record in records:
        together = set().union(*(found.get(one, {one}) for one in ids_of(record))) if ids_of(record) else set()
        for one in together:
            found[one] = together
    return found


def fuzzed(draw: random.Random, records: list[Record], kept: int) -> Fuzzed:
    """Mutate the records of some rows, from the record `kept` on; others are left as they are."""
    whole: dict[str, set[int]] = {}
    counts: Counter[str] = Counter()
    for table in TABLES:
        lives = families([record for record in records if table_of(record) == table])
        whole[table] = set()
        for family in {min(one): one for one in lives.values()}.values():
            if draw.random() < HELD_ASIDE:
                whole[table] |= family
    lines = []
    for number, record in enumerate(records):
        table = table_of(record)
        peers = [one for one in records if table_of(one) == table and not ids_of(one) & whole[table]]
        mutated = record
        for mutation in draw.choices(MUTATIONS, k=5) if record in peers and number >= kept else ():
            mutated = mutation(draw, record, peers)
            is_other = table == "customers" and reach(mutated) not in (reach(record), None)
            if mutated != record and not is_other and not ids_of(mutated) & whole[table]:
                counts[mutation.__name__] += 1
                break
            mutated = record
        lines.append(line_of(mutated))
    return Fuzzed(lines, whole, counts)


def records_of_capture(prefix: str) -> list[Record]:
    lines = map(json.loads, renamed(CAPTURES / FUZZED[prefix], prefix))
    return [record for record in lines if table_of(record) in TABLES]


def test_landing_takes_whatever_comes(spark: SparkSession, tmp_path: Path) -> None:
    """Round upon round for a bounded time: each line is a record of a kind, or has one reason not to be."""
    print(f"TIDEMARK_SEED={SEED}")
    draw = random.Random(SEED)
    records = {prefix: records_of_capture(prefix) for prefix in FUZZED}
    ends, rounds, reasons = time.monotonic() + SECONDS, 0, Counter[str]()
    while time.monotonic() < ends:
        file = tmp_path / f"round-{rounds}.jsonl"
        mutated = [line for prefix in FUZZED for line in fuzzed(draw, records[prefix], 0).lines]
        cut = [line[: draw.randrange(1, len(line))] if draw.random() < 0.05 else line for line in mutated]
        file.write_bytes(b"\n".join(line.replace(b"\n", b" ") for line in cut))
        lines = spark.read.text(str(file)).select("value", F.lit(str(file)).alias("origin"))
        rows = routed(records_of(lines)).groupBy("reason").agg(
            F.count("*").alias("lines"), F.count("kind").alias("kinds"), F.count("feed").alias("feeds")
        ).collect()  # fmt: skip
        seed = f"TIDEMARK_SEED={SEED}, round {rounds}"
        assert sum(row["lines"] for row in rows) == len(mutated), seed
        assert all(row["kinds"] == (0 if row["reason"] else row["lines"]) for row in rows), seed
        reasons.update({row["reason"] or "understood": row["lines"] for row in rows})
        rounds += 1
    print(rounds, "rounds:", dict(reasons))
    assert reasons["understood"]


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Places, dict[str, Fuzzed]]:
    print(f"TIDEMARK_SEED={SEED}")
    home = tmp_path_factory.mktemp("fuzz")
    places = Places.of(empty_project(home / "project"))
    draw = random.Random(SEED)
    found = {}
    for prefix in FUZZED:
        records = records_of_capture(prefix)
        found[prefix] = fuzzed(draw, records, len(records) // 4)
        print(prefix, dict(found[prefix].counts))
    for number, (start, end) in enumerate([(0, 0.25), (0.25, 0.6), (0.6, 1)]):
        lines = [
            line
            for one in found.values()
            for line in one.lines[int(start * len(one.lines)) : int(end * len(one.lines))]
        ]
        file = home / f"fuzz-{number}.jsonl"
        file.write_bytes(b"\n".join(lines))
        land_files(spark, places, [str(file)], Landing(f"fuzz-{SEED}-{number}", datetime.now(UTC)))
        if number == 0:
            seen = [one for one in seen_tables(spark, places) if one.source in FUZZED]
            write(places.project, missing(places.project, seen))
        else:
            run_models(places, "--exclude", "config.materialized:current", *MIDWAY[number], accounting=True)
    return places, found


def tables_of(places: Places) -> dict[tuple[str, str], CapturedTable]:
    return {(one.source_name, one.source_table.rpartition("__")[2]): one for one in captured_tables(places)}


def test_each_record_is_in_bronze_or_in_quarantine_once(
    spark: SparkSession, built: tuple[Places, dict[str, Fuzzed]]
) -> None:
    places, found = built
    mine = F.col("run_id").startswith(f"fuzz-{SEED}-")
    landed = bronze.read(spark, places, "records").where(mine).count()
    held = bronze.read(spark, places, "quarantine").where(mine).agg(F.sum("occurrences")).collect()[0][0] or 0
    assert landed + held == sum(len(one.lines) for one in found.values()), f"TIDEMARK_SEED={SEED}"
    assert held, f"TIDEMARK_SEED={SEED}"


def test_each_change_is_accounted_for(spark: SparkSession, built: tuple[Places, dict[str, Fuzzed]]) -> None:
    for name, table in tables_of(built[0]).items():
        counted = sum(row["records"] for row in account_of(table) if row["kind"] == "disposition")
        assert counted == spark.table(table_at(table.changes.location)).count(), f"TIDEMARK_SEED={SEED}, {name}"


def test_rows_that_no_mutation_names_have_their_history(
    built: tuple[Places, dict[str, Fuzzed]], tmp_path: Path
) -> None:
    places, found = built
    for prefix in FUZZED:
        file = tmp_path / f"{prefix}.jsonl"
        file.write_bytes(b"\n".join(map(line_of, records_of_capture(prefix))))
        [history] = [one for name, one in oracle.build(oracle.read_records(file)).items() if name.endswith("customers")]
        table = tables_of(places)[prefix, "customers"]
        wanted, held = expected_versions(history, list(table.key)), versions_of(table)
        whole = found[prefix].whole["customers"]
        names = {key for key in {*wanted, *held} if key[0][1] in whole}
        assert names, f"TIDEMARK_SEED={SEED}"
        for key in names:
            got = [
                {**one, "state": {name: one["state"][name] for name in wanted[key][0]["state"]}}
                for one in held.get(key, [])
            ]
            assert got == wanted.get(key), f"TIDEMARK_SEED={SEED}, {prefix}, key {key}"
