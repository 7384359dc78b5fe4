"""The path that users run: databases under load, Debezium in Kafka Connect, a broker, a continuous landing, gold.

Everything is real and on the loopback. Connectors, broker and landing are killed on the way. At the end gold is what the
databases' own triggers recorded (G5). `make live` runs a longer load, with each database on each Debezium version.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.landing.kafka import Streamed, Topics, land_topics
from spark_jobs.landing.kafka_client import Settings
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import files_of, write
from tests.captured import Lakehouse, judged
from tests.live.connectors import name_of
from tests.live.load import CONNECTOR
from tests.live.pipeline import TOPICS, Pipeline, running
from tests.live.servers import VERSIONS
from tests.projects import forget_tables, rows_of, run_models

OLD, NEW = VERSIONS


def land_the_rest(spark: SparkSession, pipeline: Pipeline) -> Streamed:
    """Land what the continuous landing left."""
    topics = Topics(servers=pipeline.broker.address, pattern=TOPICS, settings=Settings.of({}), patience=30.0)
    return land_topics(spark, pipeline.places, topics, "the-rest", "default", nullcontext, threading.Event())


def lakehouse_of(spark: SparkSession, pipeline: Pipeline) -> Lakehouse:
    """What was landed, with models of the loads' tables, and what the databases say of themselves."""
    forget_tables(spark)
    accounts = pipeline.home / "accounts"
    captures = {name: f"{name}-{version}-live" for name, version in pipeline.versions.items()}
    for load in pipeline.loads:
        folder = accounts / captures[name_of(load)]
        folder.mkdir(parents=True)
        load.account(folder)
    lakehouse = Lakehouse(spark, pipeline.places, captures, accounts)
    for table in seen_tables(spark, pipeline.places):
        if table.source_table.rpartition('__')[2] not in ("marker", "debezium_signal"):
            write(pipeline.places.project, files_of(table))
            lakehouse.names[table.name] = table.full_name
    return lakehouse


def test_it(spark: SparkSession) -> None:
    with running({"postgres": OLD, "mariadb": NEW}, seed=1, pause=0.3) as pipeline:
        pipeline.start_landing()
        pipeline.begin(); import time; print('begin()', time.strftime('%X'), [x.changes for x in pipeline.loads], flush=True)
        pipeline.lands(); import time; print('lands()', time.strftime('%X'), [x.changes for x in pipeline.loads], flush=True)
        pipeline.kill_landing(); import time; print('kill_landing()', time.strftime('%X'), [x.changes for x in pipeline.loads], flush=True)
        for load in pipeline.loads:
            load.grow()
        pipeline.go_on(100)
        pipeline.kill_connectors(); import time; print('kill_connectors()', time.strftime('%X'), [x.changes for x in pipeline.loads], flush=True)
        pipeline.snapshot(); import time; print('snapshot()', time.strftime('%X'), [x.changes for x in pipeline.loads], flush=True)
        pipeline.go_on(100)
        pipeline.kill_connectors(); import time; print('kill_connectors()', time.strftime('%X'), [x.changes for x in pipeline.loads], flush=True)
        pipeline.lands(); import time; print('lands()', time.strftime('%X'), [x.changes for x in pipeline.loads], flush=True)
        for load in pipeline.loads:
            load.grow()
        pipeline.kill_broker(2); import time; print('kill_broker(2)', time.strftime('%X'), [x.changes for x in pipeline.loads], flush=True)
        pipeline.go_on(100)
        pipeline.kill_landing(); import time; print('kill_landing()', time.strftime('%X'), [x.changes for x in pipeline.loads], flush=True)
        pipeline.go_on(100)
        pipeline.end_load(); import time; print('end_load()', time.strftime('%X'), [x.changes for x in pipeline.loads], flush=True)
        pipeline.end_landing(); import time; print('end_landing()', time.strftime('%X'), [x.changes for x in pipeline.loads], flush=True)
        print(land_the_rest(spark, pipeline), time.strftime('%X'), flush=True)
        lakehouse = lakehouse_of(spark, pipeline)
        run_models(lakehouse.places); print(time.strftime('%X'), flush=True)
        import shutil
        shutil.copytree(pipeline.home, "/tmp/w/hl/home", dirs_exist_ok=True, ignore_dangling_symlinks=True)
        for name in pipeline.versions:
            print(name, [len([x for x in judged(lakehouse, name)])], judged(lakehouse, name)[:5])
