"""What bronze holds, counted in one pass: of which feed, on which topic, of which kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.bronze import DELIVERY, ROW_KINDS, has_shape
from spark_jobs.delta import table_if_made
from spark_jobs.names import literal_map, table_at
from spark_jobs.places import Places

# What has a table of its own, with a row for each, by kind: the column of bronze that says in which.
EVENT_KINDS = {"message": "source_name", "outbox": "topic"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Content:
    """Records of one feed, topic and kind; `pending` of them came in landings that their table hasn't read.

    `landed_at` is when the last of them was landed, `last_pending_at` when the last of the pending ones was sent: by
    Kafka's timestamp, and no later than it was landed. `has_rows` is whether any of them shows a table's row.
    """

    feed: str
    topic: str
    kind: str
    connector: str
    source_name: str
    records: int
    pending: int
    landed_at: datetime | None = None
    last_pending_at: datetime | None = None
    has_rows: bool = True

    @property
    def events(self) -> tuple[str, str] | None:
        """What says in which table they are, where each record is a row of a channel's: its kind, and a name."""
        column = EVENT_KINDS.get(self.kind)
        return (self.kind, getattr(self, column)) if column else None


def contents(
    spark: SparkSession,
    places: Places,
    built_through: Mapping[str, int],
    events_through: Mapping[tuple[str, str], int],
) -> list[Content]:
    """Bronze's records, counted.

    Args:
        spark: The session.
        places: Where bronze is.
        built_through: Feed → number of the last landing that its changes table has read.
        events_through: The same of tables of channels, by `Content.events`.
    """
    records = table_if_made(spark, places.table("bronze", "records"))
    if records is None:
        return []
    # No feed has a colon in its name.
    events = {f"{kind}:{name}": batch for (kind, name), batch in events_through.items()}
    through = literal_map({"": -1, **built_through, **events})
    named = [F.when(F.col("kind") == kind, F.concat(F.lit(f"{kind}:"), column)) for kind, column in EVENT_KINDS.items()]
    is_pending = F.col("batch_id") > F.coalesce(
        *[F.try_element_at(through, name) for name in (F.coalesce(*named), F.col("feed"))], F.lit(-1)
    )
    names = ["feed", "topic", "kind", "connector", "source_name"]
    counted = records.groupBy(*[F.coalesce(F.col(name), F.lit("")).alias(name) for name in names]).agg(
        F.count("*").alias("records"),
        F.count_if(is_pending).alias("pending"),
        F.unix_micros(F.max("landed_at")).alias("landed_at"),
        F.unix_micros(F.max(F.when(is_pending, F.least("timestamp", "landed_at")))).alias("last_pending_at"),
        F.coalesce(F.bool_or(has_shape()), F.lit(False)).alias("has_rows"),
    )
    return sorted(
        (
            Content(**{**row.asDict(), **{name: moment(row[name]) for name in ("landed_at", "last_pending_at")}})
            for row in counted.collect()
        ),
        key=lambda one: (one.feed, one.topic, one.kind),
    )


def repeated(spark: SparkSession, places: Places, judged: Collection[str]) -> dict[str, int]:
    """What is in bronze more than once, and how often (R1): topics by deliveries, the quarantine by entries.

    Args:
        spark: The session.
        places: Where bronze is.
        judged: The topics whose deliveries the suites of tables judge.
    """
    if (records := table_if_made(spark, places.table("bronze", "records"))) is None:
        return {}
    others = records.where(~F.coalesce(F.col("topic").isin(*judged), F.lit(False)))
    deliveries = others.groupBy(*DELIVERY).count().where("count > 1").select("topic")
    entries = spark.table(table_at(places.table("bronze", "quarantine"))).groupBy("quarantine_id").count()
    held = entries.where("count > 1").select(F.lit("bronze.quarantine").alias("topic"))
    counted = deliveries.unionByName(held).groupBy("topic").count().orderBy("topic").collect()
    return {row["topic"]: row["count"] for row in counted}


def moment(microseconds: int | None) -> datetime | None:
    """Microseconds since 1970 as a time with its zone; rows of Spark bring times without one."""
    return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)


def owners(contents: Sequence[Content]) -> dict[str, str]:
    """Topic → the feed whose records alone are on it, so that its tombstones and its like are the feed's."""
    feeds: dict[str, set[str]] = {}
    for one in contents:
        if one.kind in ROW_KINDS:
            feeds.setdefault(one.topic, set()).add(one.feed)
    return {topic: next(iter(those)) for topic, those in feeds.items() if len(those) == 1}


def topics_of(contents: Sequence[Content]) -> dict[str, list[str]]:
    """Feed → the topics that its changes and truncates came by."""
    topics: dict[str, set[str]] = {}
    for one in contents:
        if one.kind in ROW_KINDS and one.topic:
            topics.setdefault(one.feed, set()).add(one.topic)
    return {feed: sorted(those) for feed, those in topics.items()}
