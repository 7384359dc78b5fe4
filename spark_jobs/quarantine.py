"""The quarantine: what could not be understood, to look at and to release after a fix (R2)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable
from spark_jobs.errors import UsageError
from spark_jobs.landing.land import Landed, Landing, land_rows
from spark_jobs.names import table_at
from spark_jobs.places import Places

VALUES = ("key", "value", "headers", "line")


def held(spark: SparkSession, places: Places) -> DataFrame:
    """The entries that are not released."""
    return bronze.read(spark, places, "quarantine").where("released_in is null")


def entry(spark: SparkSession, places: Places, quarantine_id: str) -> dict[str, object]:
    """One entry by its id or the beginning of it; raises UsageError where none or several match."""
    rows = bronze.read(spark, places, "quarantine").where(F.col("quarantine_id").startswith(quarantine_id)).take(2)
    if len(rows) != 1:
        raise UsageError(
            f"quarantine show {quarantine_id}: {'no entry' if not rows else 'several entries'} with that id."
            " `tidemark quarantine list` names them."
        )
    found: dict[str, object] = rows[0].asDict(recursive=True)
    return found


def is_shown(spark: SparkSession, places: Places, tables: Sequence[CapturedTable], topic: object) -> bool:
    """Whether people may see the values of a topic's entries.

    Where any captured table has a sensitive column, only those of topics whose every table is declared without one.
    """
    if not any(table.sensitive for table in tables):
        return True
    shapes = bronze.read(spark, places, "shapes").where(F.col("topic") == F.lit(topic))
    feeds = {row["feed"] for row in shapes.select("feed").distinct().collect()}
    return bool(feeds) and feeds <= {table.feed for table in tables if not table.sensitive}


def release(spark: SparkSession, places: Places, ids: Sequence[str], run_id: str, at: datetime) -> Landed:
    """Try the entries again, all of them or those named: what is understood now goes to bronze's records.

    An entry that is still not understood stays, with the reason it has now.
    """
    entries = held(spark, places).where("topic is not null")
    if ids:
        wanted = F.lit(False)
        for quarantine_id in ids:
            wanted = wanted | F.col("quarantine_id").startswith(quarantine_id)
        entries = entries.where(wanted)
    rows = entries.select(
        F.lit(None).cast("string").alias("line"), "origin", F.lit(None).cast("string").alias("reason"), "topic",
        "partition", "offset", "timestamp", "key", "value", "headers", "source_label", "content_hash",
    )  # fmt: skip
    result = land_rows(spark, places, rows, Landing(run_id, at))
    if result.landed:
        location = table_at(places.table("bronze", "quarantine"))
        records = table_at(places.table("bronze", "records"))
        same = " and ".join(f"records.`{name}` <=> entries.`{name}`" for name in bronze.DELIVERY)
        spark.sql(
            f"merge into {location} as entries using (select * from {records} where batch_id = {result.batch_id})"
            f" as records on {same} and entries.released_in is null"
            f" when matched then update set entries.released_in = {result.batch_id}"
        )
    return result
