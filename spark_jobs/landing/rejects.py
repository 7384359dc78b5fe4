"""What can't be understood goes to the quarantine, and is released where its file has it no more. Owns R2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.landing.codes import REASONS
from spark_jobs.landing.input_files import path_of
from spark_jobs.names import literal_map, table_at
from spark_jobs.places import Places


def quarantine_rows(spark: SparkSession, places: Places, rows: DataFrame) -> tuple[Counter[str], int]:
    """Append what can't be understood to the quarantine, in one commit if any is new (G3).

    What bronze holds as a record was understood by an earlier landing. A line that was settled and is there again is
    held again.

    Returns:
        How many are held newly, by code, a line as often as it is there and a record once, as the report counts them;
        and the number of rows that were held already.
    """
    was_held = F.col("released_in").isNotNull().alias("was_held")
    known = bronze.read(spark, places, "quarantine").select("quarantine_id", was_held)
    found = _rejects(rows).join(known, on="quarantine_id", how="left").persist(StorageLevel.MEMORY_AND_DISK)
    is_entry = F.coalesce("was_held", F.lit(True))
    entries = found.where(is_entry)
    try:
        offset = F.when(is_entry, F.col("offset"))
        parts = found.groupBy("topic", "partition").agg(
            F.sum(F.when(~is_entry, F.col("rows")).otherwise(0)).alias("held"),
            F.bool_or(is_entry).alias("has_entries"),
            F.min(offset).alias("low"),
            F.max(offset).alias("high"),
        ).collect()  # fmt: skip
        held = sum(part["held"] for part in parts)
        with_entries = [part for part in parts if part["has_entries"]]
        if not with_entries:
            return Counter(), held
        stored = bronze.deliveries_within(spark, places, with_entries).alias("stored")
        # Not of a line: what could be read of it can be all of another record.
        is_stored = [F.col(f"entries.{name}") == F.col(f"stored.{name}") for name in bronze.DELIVERY]
        is_stored.append(F.col("entries.line").isNull())
        unknown = entries.alias("entries").join(stored, on=is_stored, how="left_anti")
        counted = unknown.groupBy("code").agg(
            F.sum("occurrences").alias("new"), F.count("was_held").alias("again")
        ).collect()  # fmt: skip
        if any(one["again"] for one in counted):
            both = "when matched then update set * when not matched then insert *"
            _merge(spark, places, unknown.select(*bronze.read(spark, places, "quarantine").columns), both)
        elif counted:
            bronze.append(spark, places, "quarantine", unknown)
        return Counter({one["code"]: one["new"] for one in counted}), held
    finally:
        found.unpersist()


def settle(
    spark: SparkSession, places: Places, rows: DataFrame, files: Collection[str], source_label: str, released_in: int
) -> None:
    """Release the held lines of files that are in them no more, in one commit if there are any (G3).

    A line that was cut where its writer had got to is whole by the next landing; a bad one was mended, or taken out.

    Args:
        spark: The session.
        places: Whose bronze.
        rows: The lines of the files that can't be understood.
        files: The files, each of them read to its end.
        source_label: What they were landed as.
        released_in: The newest landing that records have: what is released behind it waits for the next.
    """
    lines = bronze.read(spark, places, "quarantine").where(
        F.col("released_in").isNull() & F.col("line").isNotNull() & (F.col("source_label") == source_label)
    )
    origins = [row["origin"] for row in lines.select("origin").distinct().collect()]
    if read := [origin for origin in origins if path_of(origin) in files]:
        held = lines.where(F.col("origin").isin(read)).select("quarantine_id")
        settled = held.join(_rejects(rows).select("quarantine_id"), on="quarantine_id", how="left_anti")
        if not settled.isEmpty():
            settled = settled.withColumn("released_in", F.lit(released_in).cast("bigint"))
            _merge(spark, places, settled, "when matched then update set entries.released_in = updates.released_in")


def _merge(spark: SparkSession, places: Places, rows: DataFrame, clauses: str) -> None:
    """Change the entries that `updates`, the rows, name by their ids."""
    rows.createOrReplaceTempView("updates")
    spark.sql(
        f"merge into {table_at(places.table('bronze', 'quarantine'))} as entries using updates"
        f" on entries.quarantine_id = updates.quarantine_id {clauses}"
    )
    spark.catalog.dropTempView("updates")


def _rejects(rows: DataFrame) -> DataFrame:
    """One quarantine entry per thing that can't be understood: a record, or a line that holds none, or not all of it.

    A line is named by all of it: lines of which other parts can't be read can be one in those that can.
    """
    is_record = F.col("topic").isNotNull() & F.col("partition").isNotNull() & F.col("offset").isNotNull()
    # Lines that differ in bytes that are no text are one as texts.
    no_text = F.when(F.col("reason") == "not-unicode", F.col("value"))
    entry_id = (
        F.when(is_record & F.col("line").isNull(), bronze.entry_id(F.struct(*bronze.DELIVERY)))
        .when(is_record, bronze.entry_id(F.struct(*bronze.PLACE, "line")))
        .otherwise(bronze.entry_id(F.struct("source_label", "origin", "line", no_text.alias("value"))))
    )
    entries = rows.withColumn("quarantine_id", entry_id)
    copied = [*bronze.PLACE, "timestamp", "key", "value", "headers", "content_hash"]
    copied += ["line", "origin", "batch_id", "run_id", "landed_at"]
    return (
        entries.groupBy("quarantine_id")
        .agg(
            *[F.first(name).alias(name) for name in copied],
            F.count("*").alias("rows"),
            F.when(F.first("line").isNull(), 1).otherwise(F.count("*")).alias("occurrences"),
            F.first("reason").alias("code"),
            F.first("detail").alias("detail"),
        )
        .withColumn("reason", F.coalesce("detail", literal_map(REASONS)[F.col("code")]))
        .withColumn("released_in", F.lit(None).cast("bigint"))
    )
