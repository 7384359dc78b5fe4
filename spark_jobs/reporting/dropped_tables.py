"""Rows that were there when their table was dropped: no event says that they are gone (R16)."""

from __future__ import annotations

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from spark_jobs.bronze import LINEAGE
from spark_jobs.declarations import CapturedTable, Declared
from spark_jobs.delta import table_if_made
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.reporting.schema_changes import with_feeds
from spark_jobs.reporting.signs import open_versions, sign_of

# MariaDB's statement that drops a table and makes it anew is told as the latter alone.
_DROPS = r"kind = 'DROP' or kind = 'CREATE' and ddl rlike r'(?i)^\s*create\s+or\s+replace\s'"


def signs_of_drops(spark: SparkSession, places: Places, declared: Declared) -> dict[str, list[Row]]:
    """Table → rows as the accounting has them (kind, name, records, sample_keys); none where no model has statements.

    Args:
        spark: The session.
        places: Where bronze is.
        declared: The captured tables, and those of channels.
    """
    kept = {table.feed: (table, table.history.location) for table in declared.tables if table.history is not None}
    signs: dict[str, list[Row]] = {}
    for one in declared.channels:
        versions = table_if_made(spark, one.model.location) if one.kind == "schema_versions" else None
        if versions is None:
            continue
        # A snapshot drops each table that it reads in words alone.
        drops = versions.where(f"({_DROPS}) and not is_snapshot")
        newest = drops.groupBy("db", "schema", "table").agg(F.max("position").alias("dropped_at"))
        for row in with_feeds(spark, places, one.prefix, newest).collect():
            table, location = kept.get(row["feed"], (None, ""))
            if table is not None and (history := table_if_made(spark, location)) is not None:
                signs[table.name] = _still_open(spark, table, history, row["dropped_at"])
    return signs


def _still_open(spark: SparkSession, table: CapturedTable, history: DataFrame, dropped_at: str) -> list[Row]:
    """The sign of the open versions of keys of which nothing came after a position."""
    newest = F.max("position").over(Window.partitionBy("key"))
    changes = spark.table(table_at(table.changes.location)).select(*LINEAGE, "position", "key", newest.alias("newest"))
    left = open_versions(table, history).join(changes, on=[*LINEAGE, "position"]).where(F.col("newest") < dropped_at)
    return sign_of("dropped_rows", left)
