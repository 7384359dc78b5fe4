"""The laws of bronze: what arrived is there once and whole (R1, R17), and so is what its values are read by."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from expectations.rules.findings import as_json, breaking, broken_rows
from expectations.rules.law import WARNING, Law
from spark_jobs.bronze import KINDS, LINEAGE, PLACE, has_shape


class ExpectRecordsToHaveAPlace(Law):
    """R1: topic, partition and offset."""

    description: str = "Every record has its topic, partition and offset (R1)."
    broken = "topic is null or `partition` is null or `offset` is null"


class ExpectRecordKindsToBeKnown(Law):
    """R17: the kinds of records."""

    description: str = "Every record is of a known kind (R17)."
    broken = f"coalesce(kind, '') not in {KINDS}"


class ExpectRowChangesToNameTheirTable(Law):
    """R1: what is read per table names its table."""

    description: str = "Every change and truncate names its source, its table and its op (R1)."
    broken = "kind in ('change', 'truncate') and (source_name is null or `table` is null or op is null)"


class ExpectDeliveriesToBeThereOnce(Law):
    """R1: one delivery, one record."""

    description: str = "One delivery (source, topic, partition, offset and equal bytes) is there once (R1)."


class ExpectShapesToBeThere(Law):
    """R8: what is built anew by older shapes lacks columns, or reads their encodings otherwise."""

    description: str = (
        "The shape of every record is in bronze.shapes (R8). Both tables have to be of one moment: restore the one"
        " as the other was restored."
    )


class ExpectNoGapInOffsets(Law):
    """Offsets that nobody delivered: a compacted topic, records not landed yet, or a transactional producer's marks."""

    usual_severity = WARNING
    description: str = "The offsets of a partition follow each other without a gap: no sign of log compaction."


LAWS = (
    ExpectRecordsToHaveAPlace,
    ExpectRecordKindsToBeKnown,
    ExpectRowChangesToNameTheirTable,
    ExpectDeliveriesToBeThereOnce,
    ExpectShapesToBeThere,
    ExpectNoGapInOffsets,
)


def findings(records: DataFrame, quarantined: DataFrame, shapes: DataFrame) -> list[DataFrame]:
    """`topic` (its feed for a record that has none), `law` and `key` of every record that breaks a law.

    Args:
        records: Bronze's records, all that are on the topics in question; the tables are judged together.
        quarantined: The quarantined records of the same topics: no gap is where one of them is.
        shapes: Bronze's shapes.
    """
    place = as_json({name: F.col(name) for name in LINEAGE})
    records = records.withColumn("subject", F.coalesce("topic", "feed"))
    repeated = records.groupBy("subject", *PLACE, "content_hash").count().where("count > 1")
    places = records.select("subject", *PLACE).unionByName(quarantined.select(F.col("topic").alias("subject"), *PLACE))
    by_offset = Window.partitionBy(*PLACE[:3]).orderBy("offset")
    gaps = places.withColumn("next", F.lead("offset").over(by_offset)).where("next > `offset` + 1")
    unread = records.where(has_shape()).join(
        F.broadcast(shapes.select("feed", "shape_id").distinct()), on=["feed", "shape_id"], how="left_anti"
    )
    subject = F.col("subject").alias("topic")
    return [
        broken_rows(records, LAWS, place, subject),
        breaking(ExpectDeliveriesToBeThereOnce, repeated, place, subject),
        breaking(ExpectShapesToBeThere, unread, place, subject),
        breaking(ExpectNoGapInOffsets, gaps, place, subject),
    ]
