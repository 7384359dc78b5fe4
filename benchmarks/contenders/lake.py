"""What the contenders in Spark share: the session, with the settings that Tidemark has, and the reading of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.workload import COLUMNS
from spark_jobs.places import Places
from spark_jobs.session import build_session

PROJECT = Path(__file__).parents[2]
ROW = [name for name in COLUMNS if name != "id"]
_LINE = "key string, value string"
_STRUCT = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
_ENVELOPE = (
    f"before struct<id: bigint>, after struct<{_STRUCT.replace('` ', '`: ')}>,"
    " source struct<ts_us: bigint, lsn: bigint>, op string"
)


def session(home: Path, *, catalog: bool = False) -> SparkSession:
    """The process's session: the first call says where its catalog is, if it has one."""
    return build_session(Places(PROJECT, str(home / "lakehouse"), str(home / "catalog")), catalog=catalog)


def changes(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """The changes of rows in files of records: id, op, lsn, changed_at and the row; tombstones and truncates aside."""
    envelope = F.from_json("value", _ENVELOPE).alias("envelope")
    return (
        spark.read.schema(_LINE)
        .json(list(files))
        .where("value is not null")
        .select(envelope)
        .select(
            F.expr("coalesce(envelope.after.id, envelope.before.id)").alias("id"),
            "envelope.op",
            "envelope.source.lsn",
            F.expr("timestamp_micros(envelope.source.ts_us)").alias("changed_at"),
            *(f"envelope.after.{name}" for name in ROW),
        )
        .where("id is not null")
    )


class Lake:
    """A contender in Spark that keeps one history table in Delta, at `self.table`."""

    catalog = False

    def __init__(self, home: Path, made: Mapping[str, Any]) -> None:
        del made
        self.home = home
        self.spark = session(home, catalog=self.catalog)
        self.table = str(home / "history")

    def history(self, table: str, folder: Path) -> list[Path]:
        """The history as Parquet."""
        del table
        exported = self.spark.read.format("delta").load(self.table).select(*COLUMNS, "valid_from", "valid_to")
        return export(exported, folder)

    def extras(self) -> Mapping[str, float]:
        """Nothing else belongs to it."""
        return {}

    def close(self) -> None:
        """All of it is in its home."""


class Merging(Lake):
    """A contender whose history is merged into.

    Attributes:
        own: Its own columns, behind the row's.
        staged: What is merged, as a query of `{history}` and `{changes}`.
        merge: The MERGE, of `{table}` and `{staged}`.
    """

    own = ""
    staged = ""
    merge = ""

    def initial(self, files: Sequence[str]) -> None:
        """An empty table, then the same as ever."""
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        self.spark.sql(f"create table delta.`{self.table}` ({columns}, {self.own}) using delta")
        self.increment(files)

    def increment(self, files: Sequence[str]) -> None:
        """One MERGE."""
        if files:
            history = self.spark.read.format("delta").load(self.table)
            staged = self.spark.sql(self.staged, history=history, changes=changes(self.spark, files))
            staged.createOrReplaceTempView("staged_changes")
            self.spark.sql(self.merge.format(table=self.table, staged="staged_changes"))


def export(table: DataFrame, folder: Path) -> list[Path]:
    """Write a DataFrame as Parquet, and name the files."""
    table.write.mode("overwrite").parquet(str(folder))
    return sorted(folder.glob("*.parquet"))
