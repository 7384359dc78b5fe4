"""The quarantine: what could not be understood, to look at and to release after a fix (R2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable, Declared, captured_tables
from spark_jobs.delta import states
from spark_jobs.errors import UsageError
from spark_jobs.landing.land import Landing, land_rows
from spark_jobs.landing.record_files import OF_LINES
from spark_jobs.masking import hidden
from spark_jobs.names import literal_map, table_at
from spark_jobs.places import Places

# Codes of `problem` in a changes log, in words: those of macros/changes/changes.sql and, of documents, documents.sql.
PROBLEMS = {
    "connector_unknown": "no rules for its connector: declare one whose rules hold, `vars: tidemark: sources: <source>:"
    " connector`, and build again",
    "position_unknown": "the source block of this streamed change lacks the connector's position in the log",
    "document_undeclared": "a document, and its model declares rows: declare `documents=true`, or write the model"
    " anew with `tidemark scaffold`, and build again",
    "row_not_document": "a row, and its model declares documents: leave `documents` out, and build again",
    "row_not_read": "its row after the change is no JSON object",
    "document_not_read": "its document, or what an update did to it, is no JSON object",
    "document_without_id": "its record's key has no field `id`",
    "key_not_told": "no value of the declared key is in the record's key or its row, or one is only in a `before` that"
    " may not be the whole row: declare the key that the source has now, or `before_is_whole` where that is so, and"
    " build again",
    "key_not_decoded": "the declared type of a key column can't hold its value: declare another or, where records have"
    " no schema, its `encoding`, and build again; or it is the id of a document and no one value of JSON",
}
VALUES = ("key", "value", "headers", "line")


@dataclass(frozen=True, slots=True)
class Released:
    """What became of entries: how many were tried and released, and how many lines were not tried."""

    tried: int
    released: int
    lines: int


def held_entries(spark: SparkSession, places: Places, tables: Sequence[CapturedTable]) -> DataFrame:
    """The entries that are not released: what landing put there, and changes that a declaration doesn't understand."""
    entries = bronze.read(spark, places, "quarantine").where("released_in is null")
    return reduce(
        DataFrame.unionByName, [_problems(spark, places, table) for table in _troubled(spark, places, tables)], entries
    )


def listed(entries: DataFrame, code: str | None = None, topic: str | None = None) -> DataFrame:
    """What a list shows of entries, in its order: all, or those of a code or of a topic."""
    names = ["quarantine_id", "code", "reason", "source_label", "topic", "partition", "offset", "occurrences", "origin"]
    for name, value in (("code", code), ("topic", topic)):
        if value is not None:
            entries = entries.where(F.col(name) == value)
    return entries.select(*names).orderBy("code", "topic", "partition", "offset")


def _troubled(spark: SparkSession, places: Places, tables: Sequence[CapturedTable]) -> list[CapturedTable]:
    """The tables whose changes log has changes with a `problem`, as their last build has counted them."""
    built = states(spark, places)
    return [table for table in tables if built.get(table.changes.name, {}).get("hazards", {}).get("problems")]


def _problems(spark: SparkSession, places: Places, table: CapturedTable) -> DataFrame:
    """The changes of a log that no history has, as entries of the quarantine."""
    log = spark.table(table_at(table.changes.location)).where("problem is not null")
    place = [*bronze.PLACE, "batch_id"]
    records = bronze.read(spark, places, "records").where(F.col("feed") == table.feed)
    found = records.join(log.select(*place, F.col("problem").alias("code")), on=place)
    return found.select(
        bronze.entry_id(F.struct(*bronze.DELIVERY)).alias("quarantine_id"),
        "code",
        literal_map(PROBLEMS)[F.col("code")].alias("reason"),
        *bronze.DELIVERY,
        *("timestamp", "key", "value", "headers", "origin", "batch_id", "run_id", "landed_at"),
        F.lit(None).cast("string").alias("line"),
        F.lit(1).cast("bigint").alias("occurrences"),
        F.lit(None).cast("bigint").alias("released_in"),
    )


def entry(
    spark: SparkSession, places: Places, tables: Sequence[CapturedTable], quarantine_id: str
) -> dict[str, object]:
    """One entry by its id or the beginning of it, a released one where none is held.

    Raises:
        UsageError: None or several match.
    """
    is_it = F.col("quarantine_id").startswith(quarantine_id)
    released = bronze.read(spark, places, "quarantine").where("released_in is not null")
    # Several models can hold one record, each in its own log.
    held = held_entries(spark, places, tables).where(is_it).dropDuplicates(["quarantine_id"])
    rows = held.take(2) or released.where(is_it).take(2)
    if len(rows) != 1:
        raise UsageError(
            f"quarantine show {quarantine_id}: {'no entry' if not rows else 'several entries'} with that id."
            " `tidemark quarantine list` names them."
        )
    values: dict[str, object] = rows[0].asDict(recursive=True)
    return values


def is_shown(spark: SparkSession, places: Places, declared: Declared, topic: object) -> bool:
    """Whether people may see the values of a topic's entries.

    Where any captured table or outbox is hidden, only those of topics whose every table is declared and none is.
    """
    hides = hidden(spark, places, declared)
    if not hides:
        return True
    shapes = bronze.read(spark, places, "shapes").where(F.col("topic") == F.lit(topic))
    feeds = {row["feed"] for row in shapes.select("feed").distinct().collect()}
    return topic not in hides and bool(feeds) and feeds <= {table.feed for table in declared.tables} - hides


def _without_entry(entries: DataFrame, ids: Collection[str]) -> list[str]:
    """The ids, or beginnings of them, that none of the entries has."""
    if not ids:
        return []
    [found] = entries.agg(*[F.count_if(F.col("quarantine_id").startswith(one)) for one in ids]).collect()
    return [one for one, count in zip(ids, found, strict=True) if not count]


def release(spark: SparkSession, places: Places, ids: Sequence[str], run_id: str, at: datetime) -> Released:
    """Try the entries again, all of them or those named: what is understood now goes to bronze's records.

    An entry that is still not understood stays. So do lines: what could not be read of them is in no record, and the
    next landing of their file settles those that are no more in it.

    Raises:
        UsageError: An id is of no entry that can be or was released; then none was.
        Fault: Spark could not read or write.
    """
    quarantined = bronze.read(spark, places, "quarantine")
    entries = quarantined.where("released_in is null")
    if ids:
        if unheld := _without_entry(entries, ids):
            # What was released can be held again, by its table's log.
            problems = held_entries(spark, places, captured_tables(places)).where(F.col("code").isin(*PROBLEMS))
            others = _without_entry(problems, unheld)
            unknown = _without_entry(quarantined, others)
            if refused := [one for one in unheld if one in unknown or one not in others]:
                raise UsageError(
                    f"quarantine release {refused[0]}: "
                    + (
                        "no entry has that id. `tidemark quarantine list` names them."
                        if refused[0] in unknown
                        else "a change that its table's log has and its model doesn't understand, which no release"
                        f" mends. Change the declaration as `tidemark quarantine show {refused[0]}` says, then"
                        " `tidemark build`."
                    )
                    + " Nothing was released."
                )
        entries = entries.where(bronze.any_of([F.col("quarantine_id").startswith(one) for one in ids]))
    is_line = F.col("topic").isNull() | F.col("line").isNotNull() | F.col("code").isin(*OF_LINES)
    records = entries.where(~is_line)
    rows = records.select(
        F.lit(None).cast("string").alias("line"), "origin", F.lit(None).cast("string").alias("reason"), "topic",
        "partition", "offset", "timestamp", "key", "value", "headers", "source_label", "content_hash",
    )  # fmt: skip
    lines = entries.where(is_line).count()
    tried = land_rows(spark, places, rows, Landing(run_id, at)).read
    # What bronze has may have come by another way: a release that was killed, or its file landed again.
    found = bronze.read(spark, places, "records").join(records, on=list(bronze.DELIVERY), how="left_semi")
    found = found.select(*bronze.DELIVERY, "batch_id").localCheckpoint()
    released = found.count()
    if released:
        found.createOrReplaceTempView("released")
        same = " and ".join(f"released.`{name}` <=> entries.`{name}`" for name in bronze.DELIVERY)
        spark.sql(
            f"merge into {table_at(places.table('bronze', 'quarantine'))} as entries using released"
            f" on {same} and entries.released_in is null"
            " when matched then update set entries.released_in = released.batch_id"
        )
        spark.catalog.dropTempView("released")
    return Released(tried, released, lines)
