"""A call out is seen: that the pipeline makes none, `tests/faults/test_hostile.py` asserts of all that it does."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_jobs.declarations import run_dbt
from spark_jobs.places import Places
from tests.network import Network
from tests.projects import empty_project


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
