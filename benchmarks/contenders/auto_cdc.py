"""AUTO CDC of Spark 4.3's Declarative Pipelines, stored as SCD type 2 in Iceberg: Delta 4.4.0 is refused as a target.

Runs in .venv-bench-autocdc, in one Spark Connect server. Changes are ordered by commit time and position, as one
structure. Iceberg has no build for Spark 4.3: `iceberg/TablesOnly.java` adapts the one for 4.1.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
from pyspark import pipelines as dp
from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, handle_pipeline_events, start_run
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.workload import COLUMNS

_PROJECT = Path(__file__).parents[2]
_JAR = _PROJECT / ".jars/bench/iceberg-spark-runtime-4.1_2.13-1.12.0.jar"
_ADAPTER = Path(__file__).parent / "iceberg/TablesOnly.java"
_ROW = [name for name in COLUMNS if name != "id"]
_STRUCT = ", ".join(f"{name}: {kind}" for name, kind in COLUMNS.items())
_ENVELOPE = f"before struct<id: bigint>, after struct<{_STRUCT}>, source struct<ts_us: bigint, lsn: bigint>, op string"


def _adapter(home: Path) -> Path:
    """Compile the adapter against this Spark."""
    classes = home / "classes"
    spark_jars = Path(pyspark.__file__).parent / "jars"
    subprocess.run(
        ["javac", "-nowarn", "-cp", f"{spark_jars}/*:{_JAR}", "-d", str(classes), str(_ADAPTER)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    jar = home / "tables-only"
    return Path(shutil.make_archive(str(jar), "zip", classes)).rename(jar.with_suffix(".jar"))


def _session(home: Path) -> SparkSession:
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if not _JAR.exists():
        raise FileNotFoundError(f"{_JAR.name} is not there: `make .venv-bench-autocdc/ready` fetches it")
    options = {
        "spark.driver.memory": "8g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": f"{_JAR},{_adapter(home)}",
        "spark.sql.catalog.lake": "bench.TablesOnly",
        "spark.sql.catalog.lake.warehouse": str(home.parent / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
    }
    builder: Any = SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    session: SparkSession = builder.remote("local[*]").getOrCreate()
    return session


class AutoCdc:
    """A pipeline of one stream of files into one table."""

    def __init__(self, home: Path, made: Mapping[str, Any]) -> None:
        del made
        self._home = home
        self._arrived = home / "arrived"
        self._arrived.mkdir()
        self._spark = _session(home)
        self._table = f"history_{home.name}"
        self._spark.sql("create namespace if not exists lake.bench")

    def initial(self, files: Sequence[str]) -> None:
        """The same as ever."""
        self.increment(files)

    def increment(self, files: Sequence[str]) -> None:
        """One update of the pipeline."""
        for file in files:
            # A stream takes a name once: a batch that comes again is another file.
            (self._arrived / f"{len(list(self._arrived.iterdir()))}.jsonl").symlink_to(file)
        spark = self._spark
        graph = create_dataflow_graph(spark, "lake", "bench", {})
        with (
            graph_element_registration_context(SparkConnectGraphElementRegistry(spark, graph)),
            add_pipeline_analysis_context(spark, graph, None),
        ):
            self._define()
        handle_pipeline_events(
            start_run(
                spark, graph, [], full_refresh_all=False, refresh=[], dry=False, storage=f"file://{self._home}/storage"
            )
        )

    def _define(self) -> None:
        @dp.temporary_view(name="changes")
        def changes() -> Any:
            return (
                self._spark.readStream.schema("value string")
                .json(str(self._arrived))
                .where("value is not null")
                .select(F.from_json("value", _ENVELOPE).alias("envelope"))
                .select(
                    F.expr("coalesce(envelope.after.id, envelope.before.id)").alias("id"),
                    "envelope.op",
                    F.expr("struct(envelope.source.ts_us as ts_us, envelope.source.lsn as lsn)").alias("place"),
                    *(f"envelope.after.{name}" for name in _ROW),
                )
                .where("id is not null")
            )

        dp.create_streaming_table(self._table)
        dp.create_auto_cdc_flow(
            target=self._table,
            source="changes",
            keys=["id"],
            sequence_by="place",
            apply_as_deletes="op = 'd'",
            except_column_list=["op", "place"],
            stored_as_scd_type=2,
        )

    def history(self, table: str, folder: Path) -> list[Path]:
        """The target as Parquet."""
        del table
        told = self._spark.table(f"lake.bench.{self._table}").select(
            *COLUMNS, F.expr("__START_AT.ts_us").alias("valid_from"), F.expr("__END_AT.ts_us").alias("valid_to")
        )
        told.write.mode("overwrite").parquet(str(folder))
        return sorted(folder.glob("*.parquet"))

    def extras(self) -> Mapping[str, float]:
        """Nothing else belongs to it."""
        return {}

    def close(self) -> None:
        """Its table has a name of its own."""


open_contender = AutoCdc
