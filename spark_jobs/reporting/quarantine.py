"""What the quarantine holds (R2), by reason and topic, with a few samples that people may see."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from spark_jobs import quarantine
from spark_jobs.declarations import CapturedTable
from spark_jobs.delta import is_table
from spark_jobs.masking import Mask
from spark_jobs.places import Places

_SAMPLES = 3
_LETTERS = 300


@dataclass(frozen=True, slots=True)
class Held:
    """Entries of the quarantine that are held: how many on a topic (empty where a line had none) for a reason."""

    code: str
    reason: str
    topic: str
    records: int
    samples: tuple[str, ...] = ()


def held_by_reason(
    spark: SparkSession,
    places: Places,
    tables: Sequence[CapturedTable],
    shown_topics: Collection[str] | None,
    *,
    sample_rows: bool,
) -> list[Held]:
    """The held entries, counted by code, reason and topic.

    Args:
        spark: The session.
        places: Where bronze is.
        tables: The captured tables, whose logs can hold some.
        shown_topics: The topics whose values people may see, None for all; other samples are hashes and lengths.
        sample_rows: Whether to give samples at all.
    """
    if not is_table(spark, places.table("bronze", "quarantine")):
        return []
    entries = quarantine.held_entries(spark, places, tables)
    # A value that is no UTF-8 can be why it is here, so it isn't decoded but shown with replacement characters.
    text = F.make_valid_utf8(F.coalesce(F.col("line"), F.col("value").cast("string")))
    may_see = F.lit(True) if shown_topics is None else F.coalesce(F.col("topic").isin(*shown_topics), F.lit(False))
    shown = F.when(may_see, F.substring(text, 1, _LETTERS)).otherwise(
        F.concat(Mask.of(spark, places).column(text), F.lit(" ("), F.length(text), F.lit(" letters)"))
    )
    place = F.when(F.col("topic").isNotNull(), F.concat_ws("/", "topic", "partition", "offset"))
    sample = F.concat_ws(": ", place, shown)
    by_place = Window.partitionBy("code", "reason", "topic").orderBy("partition", "offset", "quarantine_id")
    ranked = entries.withColumn("rank", F.row_number().over(by_place))
    wanted = F.col("rank") <= (_SAMPLES if sample_rows else 0)
    counted = ranked.groupBy("code", "reason", F.coalesce("topic", F.lit("")).alias("topic")).agg(
        F.sum("occurrences").alias("records"), F.sort_array(F.collect_list(F.when(wanted, sample))).alias("samples")
    )
    rows = [row.asDict() for row in counted.orderBy("code", "topic", "reason").collect()]
    return [Held(**{**row, "samples": tuple(row["samples"])}) for row in rows]
