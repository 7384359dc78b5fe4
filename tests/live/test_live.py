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
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.landing.kafka import Topics, land_topics
from spark_jobs.landing.kafka_client import Settings
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import missing, write
from tests.captured import HISTORIES, Lakehouse, judged
from tests.judge import load_exceptions
from tests.live.load import TABLES
from tests.live.pipeline import TOPICS, Pipeline, running
from tests.live.servers import VERSIONS
from tests.projects import forget_tables, rows_of, run_models

OLD, NEW = VERSIONS


@dataclass(frozen=True)
class Size:
    """How long a load is: seconds between a writer's transactions, and changes of each database from act to act."""

    pause: float
    step: int
    rounds: int


SHORT = Size(pause=0.6, step=50, rounds=1)
LONG = Size(pause=0.12, step=2_500, rounds=2)


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
        pipeline.kill_landing()
        pipeline.go_on(size.step)
        if number:
            pipeline.kill_connectors()
            pipeline.go_on(size.step)
    pipeline.end_load()
    pipeline.end_landing()
    assert len(pipeline.kills) >= 5


def land_the_rest(spark: SparkSession, pipeline: Pipeline) -> None:
    """Land what the continuous landing left."""
    topics = Topics(servers=pipeline.broker.address, pattern=TOPICS, settings=Settings.of({}), patience=30.0)
    streamed = land_topics(spark, pipeline.places, topics, "rest", "default", nullcontext, threading.Event())
    assert (streamed.waiting, streamed.gaps) == (0, [])


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


def ask(lakehouse: Lakehouse) -> None:
    """Ask the databases: of each key its history, of a table without a key each of its changes."""
    facts = load_exceptions(Path(__file__).with_name("exceptions.csv"))
    for prefix, capture in lakehouse.captures.items():
        found = judged(lakehouse, prefix)
        assert [one for one in found if not any(fact.covers(capture, one) for fact in facts)] == []
        tables = {lakehouse.names[table.name]: table for table in lakehouse.tables if table.source_name == prefix}
        [line] = [name for name in tables if name.endswith(".line")]
        told = lines_of(lakehouse.folder / capture / "history.jsonl.gz")
        of_line = (one for one in told if one["table"] == line and one["phase"] == "stream")
        changes = (one for one in rows_of(tables[line].changes.location) if not one["is_read"])
        there, here = (
            Counter((one["op"], *images(one["before"], one["after"])) for one in ones) for ones in (of_line, changes)
        )
        assert (there - here, here - there) == (Counter(), Counter()), "changes of a table without a key"
        held = lakehouse.places.table("bronze", "quarantine")
        if DeltaTable.is_deltatable(held):
            assert [one for one in rows_of(held) if one["topic"].startswith(prefix)] == []


def ask_current(lakehouse: Lakehouse) -> None:
    """Whether the current state of each table is its open versions."""
    for table in lakehouse.tables:
        if table.current is not None and table.history is not None:
            of_history = [one["version_id"] for one in rows_of(table.history.location) if one["is_current"]]
            assert sorted(one["version_id"] for one in rows_of(table.current.location)) == sorted(of_history)


def test_gold_is_what_the_databases_recorded(spark: SparkSession) -> None:
    with running({"postgres": OLD, "mariadb": NEW}, seed=1, pause=SHORT.pause) as pipeline:
        live(pipeline, SHORT, lambda: None)
        land_the_rest(spark, pipeline)
        forget_tables(spark)
        names = scaffold(spark, pipeline)
        captures, folder = pipeline.account()
        run_models(pipeline.places, "--select", *HISTORIES)
        ask(Lakehouse(spark, pipeline.places, captures, folder, names))
        forget_tables(spark)


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

    with running(versions, seed=2, pause=LONG.pause) as pipeline:
        live(pipeline, LONG, build)
        land_the_rest(spark, pipeline)
        captures, folder = pipeline.account()
        build()
        tidemark("check")
        assert sum(load.changes for load in pipeline.loads) >= 50_000
        lakehouse = Lakehouse(spark, pipeline.places, captures, folder, names)
        ask(lakehouse)
        ask_current(lakehouse)
