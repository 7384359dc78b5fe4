"""What tests share: one Spark session for the whole run, in folders of its own and with the network cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.places import Places
from spark_jobs.session import build_session
from tests.network import Network

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    """The network, cut for the rest of the run."""
    return Network(tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, network: Network) -> Iterator[SparkSession]:
    """The session that every test uses; dbt in this process uses it too."""
    home = tmp_path_factory.mktemp("spark")
    os.environ["TIDEMARK_LAKEHOUSE"] = str(home / "lakehouse")
    os.environ["TIDEMARK_CATALOG"] = str(home / "catalog")
    os.environ["SPARK_SUBMIT_OPTS"] = network.java_options
    # Tests are many small queries: the JVM's second compiler costs them more than it gives.
    os.environ["TIDEMARK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1"
    session = build_session(Places.of(PROJECT), catalog=True)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()
