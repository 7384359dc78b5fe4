"""How far Kafka's topics are landed, and which records were lost before they were."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.delta import table_if_made
from spark_jobs.landing.kafka_offsets import HEARTBEATS, gap_in_words, loses_states
from spark_jobs.places import DEFAULT_LABEL, Places

# A landing asks for all of its topics in one look: what it asked for so much earlier it asks for no more. Runs that
# take turns at the topics of one label may lie between.
ASKED_NO_MORE = timedelta(hours=1)
# Records that someone chose to pass over were not lost.
_CHOSEN = "skipped"


@dataclass(frozen=True, slots=True)
class TopicLag:
    """A topic's records that were not landed when the broker was last asked.

    `records` counts them; the oldest has waited for `seconds` at most, None where that can't be told. `looked_at` is
    when that was, as text (UTC); `is_gone` says that the broker no longer shows the topic.
    """

    source_label: str
    topic: str
    records: int
    seconds: float | None
    looked_at: str
    is_gone: bool

    @property
    def asked_at(self) -> datetime:
        """`looked_at`, with its zone."""
        return datetime.fromisoformat(self.looked_at).replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TopicGap:
    """Records of a partition that were never landed: the offsets from `from_offset` up to and without `to_offset`.

    `records` is None where a topic ended, and how far it went is not known.
    """

    source_label: str
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    records: int | None
    reason: str
    found_at: str

    @property
    def line(self) -> str:
        """What is missing, why, and where history can't tell it."""
        topic = labelled(self.topic, self.source_label)
        gap = gap_in_words(topic, self.partition, self.from_offset, self.to_offset, self.records, self.reason)
        return (
            f"{gap} (found {self.found_at[:16]} UTC). What they said is in no table; a new snapshot of its tables"
            " tells the present state."
        )

    @property
    def is_loss(self) -> bool:
        """Whether no one chose it, and the newest record of the topic doesn't tell all."""
        return self.reason != _CHOSEN and not self.topic.startswith(HEARTBEATS)


def labelled(topic: str, source_label: str) -> str:
    """A topic as people read it: with the label that it was landed under, where that was given."""
    return topic if source_label == DEFAULT_LABEL else f"{topic} (label {source_label})"


def lags(spark: SparkSession, places: Places) -> list[TopicLag]:
    """The lag of every topic that was ever landed from Kafka."""
    offsets = table_if_made(spark, places.table("ops", "kafka_offsets"))
    if offsets is None:
        return []
    by_topic = offsets.where("topic is not null").groupBy("source_label", "topic").agg(
        F.coalesce(F.sum("lag_records"), F.lit(0)).alias("records"),
        F.when(F.count_if((F.col("lag_records") > 0) & F.col("lag_seconds").isNull()) == 0, F.max("lag_seconds")).alias(
            "seconds"
        ),
        F.max("looked_at").cast("string").alias("looked_at"),
        F.every("is_gone").alias("is_gone"),
    )  # fmt: skip
    return [TopicLag(**row.asDict()) for row in by_topic.orderBy("source_label", "topic").collect()]


def compacted(spark: SparkSession, places: Places) -> dict[str, str]:
    """Topic → its cleanup policy, of the topics that lose states by it, as the broker last told."""
    offsets = table_if_made(spark, places.table("ops", "kafka_offsets"))
    if offsets is None or "cleanup_policy" not in offsets.columns:
        return {}
    rows = offsets.where("not is_gone and cleanup_policy is not null").select("topic", "cleanup_policy").distinct()
    return {row["topic"]: row["cleanup_policy"] for row in rows.collect() if loses_states(row["cleanup_policy"])}


def gaps(spark: SparkSession, places: Places) -> list[TopicGap]:
    """The records that were never landed."""
    there = table_if_made(spark, places.table("ops", "kafka_gaps"))
    if there is None:
        return []
    found = there.withColumn("found_at", F.col("found_at").cast("string"))
    names = list(TopicGap.__dataclass_fields__)
    return [TopicGap(**row.asDict()) for row in found.select(*names).orderBy(*names[:4]).collect()]
