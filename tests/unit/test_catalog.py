"""The embedded catalog, held by one process at a time."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from spark_jobs.catalog import hold_catalog, let_catalog_go, require_free_catalog
from spark_jobs.errors import CatalogBusy
from spark_jobs.places import Places
from tests.projects import PROJECT

# As Derby holds a database: what counts is the lock, where both files are there and the first is not empty.
HOLDER = """
import fcntl, pathlib, sys
catalog = pathlib.Path(sys.argv[1])
held = (catalog / "dbex.lck").open("w")
held.write("x")
held.flush()
fcntl.lockf(held, fcntl.LOCK_EX)
(catalog / "db.lck").touch()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_catalog_that_spark_let_go_of_can_be_another_s_until_it_is_wanted_again(spark: SparkSession) -> None:
    places = Places.of(PROJECT)
    hold_catalog(spark, places)
    with pytest.raises(CatalogBusy):
        require_free_catalog(places)
    for _ in range(2):
        let_catalog_go(places)
    require_free_catalog(places)

    command = [sys.executable, "-c", HOLDER, f"{places.catalog}/metastore"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(CatalogBusy, match="held by another process"):
            hold_catalog(spark, places)
        holder.communicate()

    hold_catalog(spark, places)
    assert "default" in [row[0] for row in spark.sql("show databases").collect()]
