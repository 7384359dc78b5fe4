"""The path that users run: databases under load, Debezium in Kafka Connect, a broker, a continuous landing, gold.

Everything is real and on the loopback. Connectors, broker and landing are killed on the way. At the end gold is what
the databases' own triggers recorded (G5). `make live` runs a longer load, with each database on each Debezium version.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.landing.kafka import Streamed, Topics, land_topics
from spark_jobs.landing.kafka_settings import Settings
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import write
from tests.captured import HISTORIES, Lakehouse, judged
from tests.generated.lakehouse import current_is_open
from tests.judge import load_exceptions, unlike_rows
from tests.live.load import TABLES
from tests.live.pipeline import TOPICS, Pipeline, running
from tests.live.servers import VERSIONS
from tests.projects import forget_tables, missing, rows_of, run_models

OLD, NEW = VERSIONS


@dataclass(frozen=True)
class Size:
    """A load: seconds between a writer's transactions, changes of each database from act to act, the least in sum.

    `every` is how often topics are landed; `is_long` says whether the landing is killed in each round, too.
    """

    pause: float
    step: int
    rounds: int
    least: int
    every: str
    is_long: bool


SHORT = Size(pause=0.6, step=50, rounds=1, least=0, every="5s", is_long=False)
LONG = Size(pause=0.12, step=2_500, rounds=2, least=50_000, every="1s", is_long=True)
# What a load is made of, as its databases' own accounts tell it: the table, and what became of a row.
MET = {
    *(("account", what) for what in ("c", "u", "d", "key change", "large")), *(("item", op) for op in "cud"),
    *(("line", op) for op in "cud"), ("scratch", "c"), ("scratch", "t"), ("grown", "u"),
}  # fmt: skip


def live(pipeline: Pipeline, size: Size, build: Callable[[], None]) -> None:
    """Kill what can be killed while the databases are written; `build` is called between rounds."""
    pipeline.start_landing()
    pipeline.begin()
    pipeline.lands()
    pipeline.kill_landing()
    pipeline.grow()
    pipeline.go_on(size.step)
    pipeline.kill_connectors()
    pipeline.grow()
    pipeline.snapshot()
    pipeline.go_on(size.step)
    pipeline.kill_connectors()
    pipeline.go_on(size.step)
    pipeline.snapshotted()
    pipeline.lands()
    for number in range(size.rounds):
        if number:
            build()
        pipeline.kill_broker(seconds=2)
        pipeline.go_on(size.step)
        if size.is_long:
            pipeline.kill_landing()
            pipeline.go_on(size.step)
        if number:
            pipeline.kill_connectors()
            pipeline.go_on(size.step)
    while sum(load.changes for load in pipeline.loads) < size.least:
        pipeline.go_on(size.step)
    pipeline.end_load()
    pipeline.end_landing()
    assert Counter(pipeline.kills) >= Counter({"landing": 1 + size.is_long, "connectors": 2, "broker": 1})
    assert [load.shape for load in pipeline.loads] == [2, 2]


def land_the_rest(spark: SparkSession, pipeline: Pipeline) -> None:
    """Land what the continuous landing left: then each record is there once."""
    topics = Topics(servers=pipeline.broker.address, pattern=TOPICS, settings=Settings.of({}), patience=30.0)
    streamed = land_topics(
        spark, pipeline.places, topics, "rest", "default", nullcontext, threading.Event(), Streamed()
    )
    assert (streamed.waiting, streamed.gaps) == (0, [])
    assert not DeltaTable.is_deltatable(pipeline.places.table("ops", "kafka_gaps"))
    landed = rows_of(pipeline.places.table("bronze", "records"), "topic", "partition", "offset")
    assert Counter((one["topic"], one["partition"], one["offset"]) for one in landed) == pipeline.sent()


def scaffold(spark: SparkSession, pipeline: Pipeline) -> dict[str, str]:
    """Write the models of the tables that are written and have none; names of tables here → names there."""
    names = {}
    for table in seen_tables(spark, pipeline.places):
        if table.full_name.rpartition(".")[2] in TABLES[:-1]:
            write(pipeline.places.project, missing(pipeline.places.project, [table]))
            names[table.name] = table.full_name
    return names


def lines_of(path: Path) -> Iterable[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def images(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> tuple[Any, ...]:
    return tuple(None if one is None else tuple(sorted(one.items())) for one in (before, after))


def kinds_of(change: Mapping[str, Any]) -> set[tuple[str, str]]:
    """What a change of an account is, in the words of `MET`."""
    table, before, after = change["table"].rpartition(".")[2], change["before"] or {}, change["after"] or {}
    kinds = {(table, change["op"])}
    if before and after and table == "account":
        kinds |= {(table, "key change")} if before["id"] != after["id"] else set()
        kinds |= {(table, "large")} if before["body"] != after["body"] else set()
    return kinds


def ask(lakehouse: Lakehouse) -> None:
    """Ask the databases: of each key its history and its row, of a table without a key its changes and its rows."""
    facts = load_exceptions(Path(__file__).with_name("exceptions.csv"))
    for prefix, capture in lakehouse.captures.items():
        found = judged(lakehouse, prefix) + judged(lakehouse, prefix, unlike_rows)
        unlike = [one for one in found if not any(fact.covers(capture, one) for fact in facts)]
        assert (len(unlike), unlike[:5]) == (0, []), lakehouse.folder
        tables = {lakehouse.names[table.name]: table for table in lakehouse.tables if table.source_name == prefix}
        streamed = [
            one for one in lines_of(lakehouse.folder / capture / "history.jsonl.gz") if one["phase"] == "stream"
        ]
        assert MET - set().union(*map(kinds_of, streamed)) == set()
        [line] = [name for name in tables if name.endswith(".line")]
        changes = rows_of(tables[line].changes.location)
        there, here = (
            Counter((one["op"], *images(one["before"], one["after"])) for one in ones)
            for ones in (
                (one for one in streamed if one["table"] == line),
                (one for one in changes if not one["is_read"]),
            )
        )
        assert (there - here, here - there) == (Counter(), Counter()), "changes of a table without a key"
        truth = (one["row"] for one in lines_of(lakehouse.folder / capture / "truth.jsonl.gz") if one["table"] == line)
        rows = Counter(images(None, one) for one in truth)
        rows.subtract(images(None, one["after"]) for one in changes if one["op"] in "cu")
        rows.update(images(None, one["before"]) for one in changes if one["op"] in "ud")
        # equal rows that a snapshot has read are one change (R3)
        read = {images(None, one["after"]) for one in changes if one["is_read"]}
        assert {row: more for row, more in rows.items() if more and row not in read} == {}, "rows of such a table"
        held = lakehouse.places.table("bronze", "quarantine")
        if DeltaTable.is_deltatable(held):
            assert [one for one in rows_of(held) if one["topic"].startswith(prefix)] == []
    assert all(current_is_open(table) for table in lakehouse.tables if table.history is not None)


@pytest.fixture
def forgotten(spark: SparkSession) -> Iterator[None]:
    """A catalog without tables before and behind a test, whose lakehouse is gone then, however it ended."""
    forget_tables(spark)
    yield
    forget_tables(spark)


@pytest.mark.usefixtures("forgotten")
def test_gold_is_what_the_databases_recorded(spark: SparkSession) -> None:
    with running({"postgres": OLD, "mariadb": NEW}, seed=1, pause=SHORT.pause, every=SHORT.every) as pipeline:
        live(pipeline, SHORT, lambda: None)
        land_the_rest(spark, pipeline)
        names = scaffold(spark, pipeline)
        captures, folder = pipeline.account()
        run_models(pipeline.places, "--select", *HISTORIES, "config.materialized:current")
        ask(Lakehouse(spark, pipeline.places, captures, folder, names))


@pytest.mark.long
@pytest.mark.parametrize("versions", [{"postgres": OLD, "mariadb": NEW}, {"postgres": NEW, "mariadb": OLD}])
def test_gold_is_what_the_databases_recorded_of_a_long_load(spark: SparkSession, versions: dict[str, str]) -> None:
    def tidemark(*command: str) -> None:
        """Run a command as people do, beside the landing that goes on."""
        program = str(Path(sys.executable).with_name("tidemark"))
        subprocess.run(
            [program, *command, "--project-dir", str(pipeline.places.project)],
            env=os.environ | pipeline.places.environment() | {"TIDEMARK_DRIVER_MEMORY": "3g"}, check=True,
        )  # fmt: skip

    names: dict[str, str] = {}

    def build() -> None:
        names.update(scaffold(spark, pipeline))
        tidemark("build", "--wait", "600")
        print(f"{[load.changes for load in pipeline.loads]} changes, {len(pipeline.kills)} kills")

    with running(versions, seed=2, pause=LONG.pause, every=LONG.every) as pipeline:
        live(pipeline, LONG, build)
        land_the_rest(spark, pipeline)
        captures, folder = pipeline.account()
        build()
        tidemark("check")
        ask(Lakehouse(spark, pipeline.places, captures, folder, names))
