"""The demo in a folder of a test's own: the committed project, with its real events landed and every model built."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable, captured_tables, run_dbt
from spark_jobs.landing.land import Landing, land_files
from spark_jobs.places import Places
from tests.projects import share

PROJECT = Path(__file__).parents[1]
RECORDS = PROJECT / "examples/records"
_SHARED = ("macros", "conf", "expectations", "tests/dbt", "profiles.yml", "selectors.yml", ".jars")


@dataclass(frozen=True)
class Demo:
    """The built demo, and dbt on it in this process."""

    places: Places
    built: dict[str, str]

    @property
    def tables(self) -> list[CapturedTable]:
        """The captured tables."""
        return captured_tables(self.places)

    def dbt(self, *arguments: str, is_kept: bool = False) -> dict[str, str]:
        """Run dbt; status by node. Its files of results are written where they are `is_kept` for another command."""
        return dbt(self.places, *arguments, is_kept=is_kept)

    def names(self, *arguments: str) -> set[str]:
        """What `dbt ls` lists, by the last part of its names."""
        result = run_dbt(self.places, ["--quiet", "ls", "--output", "name", *arguments])
        assert result.success, result.exception
        return set(result.result)

    def rows(self, layer: str, name: str) -> list[dict[str, Any]]:
        """The rows of a table, read without Spark, in an order that depends on nothing but them."""
        table = DeltaTable(self.places.table(layer, name)).to_pyarrow_table()
        return sorted(table.to_pylist(), key=str)


def demo_project(folder: Path) -> Path:
    """The committed project; its models are a copy, for tests that edit them."""
    share(folder, _SHARED)
    shutil.copytree(PROJECT / "models", folder / "models")
    return folder


def built_demo(spark: SparkSession, home: Path) -> Demo:
    """Land the demo's records and run every model, four at a time."""
    project = demo_project(home / "project")
    places = Places.of(project, {**os.environ, "TIDEMARK_LAKEHOUSE": str(home / "lakehouse")})
    land_files(spark, places, [str(RECORDS)], Landing("demo", datetime.now(UTC)))
    return Demo(places, dbt(places, "run", "--threads", "4"))


def dbt(places: Places, *arguments: str, is_kept: bool = False) -> dict[str, str]:
    """Run dbt in this process; node → status. Hooks have no place in it."""
    result = run_dbt(places, ["--quiet", *([] if is_kept else ["--no-write-json"]), *arguments])
    if result.result is None:
        raise result.exception
    return {
        one.node.name: str(one.status) for one in result.result.results if str(one.node.resource_type) != "operation"
    }
