"""Whether connectors live: a source in which nothing happens, and a connector that has died, send no changes alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable
from spark_jobs.landing.kafka_offsets import HEARTBEATS
from spark_jobs.places import Places
from spark_jobs.record import JSON_LIMITS, LAST_MILLIS
from spark_jobs.reporting.bronze_contents import Content, moment
from spark_jobs.reporting.kafka import ASKED_NO_MORE, TopicLag
from spark_jobs.reporting.measures import Measures
from spark_jobs.reporting.quarantine import Held
from spark_jobs.texts import quantity

CHANGING, NOTHING_NEW, DEAD = "changing", "nothing_new", "dead"
_LOST = " (CloudEventsConverter makes tombstones of them)."
# Connectors beat every few seconds or minutes: where nobody has declared a limit, no silence as long is usual.
_LONG = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pulse:
    """The last signs of life of a connector, by its topic prefix; times are its own clock's, UTC.

    What is ahead of the landing's clock counts as of when it was landed. `seen_at` is when records were last looked
    for, `limit` after how long a silence the source is declared to be dead. `waiting` counts its records that a broker
    has and that are not landed, of topics that are still asked for: what they tell is not known.
    """

    source: str
    last_heartbeat: datetime | None
    last_change: datetime | None
    seen_at: datetime
    limit: timedelta | None = None
    waiting: int = 0

    @property
    def last_sign(self) -> datetime:
        """The last of both."""
        return max(at for at in (self.last_heartbeat, self.last_change) if at is not None)

    @property
    def is_silent(self) -> bool:
        """Whether what was landed has no sign for too long."""
        return self.limit is not None and self.seen_at - self.last_sign > self.limit

    @property
    def state(self) -> str:
        """`changing`, `nothing_new` (heartbeats came behind the last change) or `dead` (neither, for too long)."""
        if self.is_silent and not self.waiting:
            return DEAD
        return NOTHING_NEW if self.last_sign != self.last_change else CHANGING

    @property
    def line(self) -> str:
        """The same in words."""
        silence = self.seen_at - self.last_sign
        looked = f"{_spelled(silence)} before records were last looked for"
        if self.state == DEAD:
            advice = f" No heartbeats came: with heartbeat.interval.ms it would tell{_LOST}"
            return (
                f"{self.source}: the connector seems dead: neither a heartbeat nor a change since"
                f" {_at(self.last_sign)}, {looked}; `silent_after_minutes` allows {_spelled(self.limit)}."
                f"{'' if self.last_heartbeat else advice}"
            )
        is_long = silence > (self.limit or _LONG)
        more = "; `silent_after_minutes` would warn." if is_long and self.last_heartbeat and not self.limit else "."
        if self.is_silent:
            more += f" {quantity(self.waiting, 'of its records is', 'of its records are')} not landed yet, and"
            more += " tells more." if self.waiting == 1 else " tell more."
        if self.state == NOTHING_NEW:
            since = f" since {_at(self.last_change)}" if self.last_change else ""
            beats = "heartbeats came until" if is_long else "heartbeats go on, the last at"
            return f"{self.source}: nothing new{since}: {beats} {_at(self.last_sign)}, {looked}{more}"
        unknown = "" if self.last_heartbeat else f" No heartbeats came, so that silence tells nothing{_LOST}"
        return f"{self.source}: the last change is of {_at(self.last_sign)}, {looked}{more}{unknown}"


def pulses(
    spark: SparkSession,
    places: Places,
    tables: Sequence[CapturedTable],
    contents: Sequence[Content],
    measured: Mapping[str, Measures],
    looked_at: datetime | None,
    lags: Sequence[TopicLag],
    quarantined: Sequence[Held],
) -> list[Pulse]:
    """The pulse of every topic prefix that has shown any sign of life, in the order of names.

    Args:
        spark: The session.
        places: Where bronze is.
        tables: The captured tables.
        contents: What bronze holds.
        measured: Table → what its layers say.
        looked_at: When records were last looked for; None where nothing tells.
        lags: The topics' records that are not landed.
        quarantined: What the quarantine holds.
    """
    if looked_at is None:
        return []
    of_rows = [one for one in contents if one.kind in bronze.ROW_KINDS and one.source_name]
    sources = {one.feed: one.source_name for one in of_rows}
    # What no table has, or not yet, shows that its connector lives, too.
    signs = [(one.source_name, one.last_pending_at) for one in of_rows]
    signs += [(sources.get(table.feed, ""), measured[table.name].last_processed_at) for table in tables]
    changes: dict[str, datetime] = {}
    for source, last in signs:
        if source and last:
            changes[source] = max(last, changes.get(source, last))
    limits: dict[str, timedelta] = {}
    for table in tables:
        if table.feed in sources and table.silent_after_minutes:
            limits[sources[table.feed]] = timedelta(minutes=table.silent_after_minutes)
    beats = _heartbeats(spark, places) if any(one.kind == "heartbeat" for one in contents) else {}
    named: dict[str, set[str]] = {}
    for one in contents:
        if one.source_name:
            named.setdefault(one.topic, set()).add(one.source_name)

    def is_of(source: str, topic: str) -> bool:
        # Of a topic that no record here is of, its name tells.
        names = (source, f"{HEARTBEATS}.{source}")
        return source in named[topic] if topic in named else topic in names or topic.startswith(f"{source}.")

    # What can't be read shows that its connector lives, too.
    with_signs = sorted({*beats, *changes})
    for topic, last in (_last_held(spark, places) if any(one.topic for one in quarantined) else {}).items():
        for source in with_signs:
            if is_of(source, topic):
                changes[source] = max(last, changes.get(source, last))
    # What nobody has asked of a topic since tells nothing of the records that it has now.
    asked = [one for one in lags if not one.is_gone and looked_at - one.asked_at <= ASKED_NO_MORE]
    waiting = {source: sum(one.records for one in asked if is_of(source, one.topic)) for source in with_signs}
    return [
        Pulse(source, beats.get(source), changes.get(source), looked_at, limits.get(source), waiting[source])
        for source in with_signs
    ]


def _last_held(spark: SparkSession, places: Places) -> dict[str, datetime]:
    """Topic → when the last of its records in the quarantine was sent, no later than that was landed."""
    last = (
        bronze.read(spark, places, "quarantine")
        .where("released_in is null and topic is not null")
        .groupBy("topic")
        .agg(F.unix_micros(F.max(F.least("timestamp", "landed_at"))).alias("at"))
    )
    return {row["topic"]: at for row in last.collect() if (at := moment(row["at"])) is not None}


def _heartbeats(spark: SparkSession, places: Places) -> dict[str, datetime]:
    """Topic prefix → when its connector last sent a heartbeat, no later than that was landed."""
    text = bronze.record_text()
    heartbeat = F.from_json(text, "ts_ms bigint, payload struct<ts_ms bigint>", JSON_LIMITS)
    millis = F.coalesce(heartbeat["payload"]["ts_ms"], heartbeat["ts_ms"])
    sent_at = F.when(millis.between(1, LAST_MILLIS), F.least(F.timestamp_millis(millis), "landed_at"))
    last = (
        bronze.read(spark, places, "records")
        .where("kind = 'heartbeat' and source_name is not null")
        .groupBy("source_name")
        .agg(F.unix_micros(F.max(sent_at)).alias("at"))
    )
    return {row["source_name"]: at for row in last.collect() if (at := moment(row["at"])) is not None}


def _at(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _spelled(span: timedelta | None) -> str:
    minutes = (span or timedelta()) / timedelta(minutes=1)
    return f"{minutes:,.0f} min" if minutes < 120 else f"{minutes / 60:,.1f} h"
