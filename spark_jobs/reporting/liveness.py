"""Whether connectors live: a source in which nothing happens, and a connector that has died, send no changes alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable
from spark_jobs.landing.record_files import JSON_LIMITS, LAST_MILLIS
from spark_jobs.places import Places
from spark_jobs.reporting.bronze_contents import ROW_KINDS, Content
from spark_jobs.reporting.measures import Measures

CHANGING, NOTHING_NEW, DEAD = "changing", "nothing_new", "dead"


@dataclass(frozen=True, slots=True)
class Pulse:
    """The last signs of life of a connector, by its topic prefix; times are its own clock's, UTC.

    `seen_at` is when records were last looked for, `limit` after how long a silence the source is declared to be dead.
    """

    source: str
    last_heartbeat: datetime | None
    last_change: datetime | None
    seen_at: datetime
    limit: timedelta | None = None

    @property
    def last_sign(self) -> datetime:
        """The last of both."""
        return max(at for at in (self.last_heartbeat, self.last_change) if at is not None)

    @property
    def state(self) -> str:
        """`changing`, `nothing_new` (heartbeats go on behind the last change) or `dead` (neither, for too long)."""
        if self.limit is not None and self.seen_at - self.last_sign > self.limit:
            return DEAD
        return NOTHING_NEW if self.last_sign != self.last_change else CHANGING

    @property
    def told(self) -> str:
        """The same in words."""
        silence = _spelled(self.seen_at - self.last_sign)
        if self.state == DEAD:
            return (
                f"{self.source}: the connector seems dead: neither a heartbeat nor a change since"
                f" {_at(self.last_sign)}, {silence} before records were last looked for; `silent_after_minutes`"
                f" allows {_spelled(self.limit)}."
                + ("" if self.last_heartbeat else " It sends no heartbeats: with heartbeat.interval.ms it would tell.")
            )
        if self.state == NOTHING_NEW:
            since = f" since {_at(self.last_change)}" if self.last_change else ""
            return f"{self.source}: nothing new{since}: heartbeats go on, the last at {_at(self.last_sign)}."
        unknown = "" if self.last_heartbeat else " It sends no heartbeats, so that silence tells nothing."
        return f"{self.source}: the last change is of {_at(self.last_sign)}.{unknown}"


def pulses(
    spark: SparkSession,
    places: Places,
    tables: Sequence[CapturedTable],
    found: Sequence[Content],
    measured: Mapping[str, Measures],
    looked_at: datetime | None,
) -> list[Pulse]:
    """The pulse of every topic prefix that has shown any sign of life, in the order of names.

    Args:
        spark: The session.
        places: Where bronze is.
        tables: The captured tables.
        found: What bronze holds.
        measured: Table → what its layers say.
        looked_at: When this run looked for records; None where it didn't, and the last landing did.
    """
    landings = [one.landed_at for one in found if one.landed_at is not None]
    seen_at = looked_at or max(landings, default=None)
    if seen_at is None:
        return []
    sources = {one.feed: one.source_name for one in found if one.kind in ROW_KINDS}
    changes: dict[str, datetime] = {}
    limits: dict[str, timedelta] = {}
    for table in tables:
        source, last = sources.get(table.feed), measured[table.name].last_processed_at
        if source and last:
            changes[source] = max(last, changes.get(source, last))
        if source and table.silent_after_minutes:
            limits[source] = timedelta(minutes=table.silent_after_minutes)
    beats = _heartbeats(spark, places) if any(one.kind == "heartbeat" for one in found) else {}
    return [
        Pulse(source, beats.get(source), changes.get(source), seen_at, limits.get(source))
        for source in sorted({*beats, *changes})
    ]


def _heartbeats(spark: SparkSession, places: Places) -> dict[str, datetime]:
    """Topic prefix → when its connector last sent a heartbeat."""
    text = bronze.record_text()
    told = F.from_json(text, "ts_ms bigint, payload struct<ts_ms bigint>", JSON_LIMITS)
    millis = F.coalesce(told["payload"]["ts_ms"], told["ts_ms"])
    last = (
        bronze.read(spark, places, "records")
        .where("kind = 'heartbeat' and source_name is not null")
        .groupBy("source_name")
        .agg(F.max(F.when(millis.between(1, LAST_MILLIS), millis)).alias("at"))
    )
    return {row["source_name"]: datetime.fromtimestamp(row["at"] / 1000, UTC) for row in last.collect() if row["at"]}


def _at(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _spelled(span: timedelta | None) -> str:
    minutes = (span or timedelta()) / timedelta(minutes=1)
    return f"{minutes:,.0f} min" if minutes < 120 else f"{minutes / 60:,.1f} h"
