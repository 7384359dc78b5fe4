"""Keys of another shape than the source's newest (R8): signs that bronze alone shows, for the log has declared keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.bronze import LINEAGE
from spark_jobs.declarations import CapturedTable
from spark_jobs.delta import table_if_made
from spark_jobs.names import table_at, text_array
from spark_jobs.places import Places
from spark_jobs.reporting.signs import open_versions, sign_of


def signs_of_key_shapes(spark: SparkSession, places: Places, tables: Sequence[CapturedTable]) -> dict[str, list[Row]]:
    """Table → rows as the accounting has them (kind, name, records, sample_keys); none where keys are as declared.

    Args:
        spark: The session.
        places: Where bronze is.
        tables: The captured tables.
    """
    there = table_if_made(spark, places.table("bronze", "shapes"))
    if there is None:
        return {}
    shapes = there.groupBy("feed").agg(F.collect_set("key_fields").alias("shapes"))
    seen = {row["feed"]: [_fields(json.loads(shape)) for shape in row["shapes"]] for row in shapes.collect()}
    return {
        table.name: _signs(spark, places, table, history)
        for table in tables
        if any(shape != _declared(table) for shape in seen.get(table.feed, []))
        and table.history is not None
        and (history := table_if_made(spark, table.history.location)) is not None
    }


def _declared(table: CapturedTable) -> list[str]:
    # A column that is not declared has its field's name (R8).
    fields = {spec["name"]: spec["field"] for spec in table.columns}
    return _fields(fields.get(name, name) for name in table.key)


def _fields(names: Iterable[str]) -> list[str]:
    return sorted({*names} - {*bronze.ROUTER_FIELDS})


def _signs(spark: SparkSession, places: Places, table: CapturedTable, history: DataFrame) -> list[Row]:
    changes = _with_shapes(spark, places, table)
    newest = F.max_by("shape", F.struct("log_number", "position", *LINEAGE))
    declared = text_array(_declared(table))
    signs = {
        "other_key_shapes": changes.where(F.array_sort(declared) != F.col("shape")),
        "old_key_shapes": (
            open_versions(table, history)
            .join(changes, on=[*LINEAGE, "position"])
            .crossJoin(changes.agg(newest.alias("newest")))
            .where("shape != newest")
        ),
    }
    return [row for name, met in signs.items() for row in sign_of(name, met)]


def _with_shapes(spark: SparkSession, places: Places, table: CapturedTable) -> DataFrame:
    """The log with the field names of each record's own key; without changes that had no key."""
    records = bronze.read(spark, places, "records").where((F.col("feed") == table.feed) & (F.col("kind") == "change"))
    fields = F.array_except(bronze.key_names(), text_array(bronze.ROUTER_FIELDS))
    # A topic that was made anew has other records at the places of its first life.
    delivery = [*bronze.PLACE, "batch_id"]
    shapes = records.select(*delivery, F.array_sort(fields).alias("shape")).dropDuplicates(delivery)
    changes = spark.table(table_at(table.changes.location)).select(*delivery, "log_number", "position", "key")
    return changes.join(shapes, on=delivery).where("shape is not null")
