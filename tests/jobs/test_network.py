"""Nothing calls out: the pipeline works with the network cut, and doesn't even try to reach it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_jobs import steps
from spark_jobs.declarations import run_dbt
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import missing, write
from tests.network import Network
from tests.projects import empty_project, renamed

CAPTURE = Path(__file__).parents[1] / "captures" / "postgres-2.5.4-core-default"
SWITCHES = ("DBT_SEND_ANONYMOUS_USAGE_STATS", "DO_NOT_TRACK")


def test_landing_building_and_checking_call_nobody(spark: SparkSession, network: Network, tmp_path: Path) -> None:
    assert not [name for name in SWITCHES if name in os.environ], "what is shipped has to switch statistics off"
    before = len(network.attempts)
    run = steps.Run(Places.of(empty_project(tmp_path / "project")), "network")
    few = tmp_path / "few.jsonl"
    few.write_text("".join(line for line in renamed(CAPTURE, "net") if '"topic":"net.public.notes"' in line))

    steps.land(run, spark, [str(few)], "default")
    tables = [table for table in seen_tables(spark, run.places) if table.name.startswith("net__")]
    write(run.places.project, missing(run.places.project, tables))
    steps.build(run, ["--quiet"])
    steps.check_and_report(run, spark)

    assert tables
    assert network.attempts[before:] == []


def test_a_call_out_is_seen(
    spark: SparkSession, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(network.attempts)
    with pytest.raises(OSError, match="cut"):
        socket.create_connection(("192.0.2.1", 80))
    assert spark._jvm is not None
    with pytest.raises(Py4JJavaError):
        spark._jvm.java.net.URL("http://jvm.example/").openStream()
    monkeypatch.setenv("DBT_SEND_ANONYMOUS_USAGE_STATS", "true")
    run_dbt(Places.of(empty_project(tmp_path / "project")), ["--quiet", "parse"])

    assert network.attempts[before : before + 2] == ["192.0.2.1", "jvm.example"]
    assert network.attempts[before + 2 :], "dbt's own statistics"
