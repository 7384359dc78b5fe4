"""How far Kafka's topics are landed: the landing's checkpoint, the lag, and the records that were lost before (R1).

`ops.kafka_offsets` is committed behind bronze, never before it: where a kill comes between the two, records are read
again, and bronze holds them already. Lost or removed, all is read again, to the same end.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_jobs.delta import clear, frame_of, is_table, table_if_made
from spark_jobs.errors import UsageError
from spark_jobs.landing.kafka_client import NO_ID, Broker, Ends, Look, Partition
from spark_jobs.names import table_at, text_literal
from spark_jobs.places import Places
from spark_jobs.texts import quantity

# How the topics of heartbeats begin, unless a connector names them otherwise. Of them the newest record tells all.
HEARTBEATS = "__debezium-heartbeat"
WHAT_COMPACTION_COSTS = (
    "it removes every record but the newest of its key, and a state that is gone before it was landed is in no history."
)

OFFSETS = (
    "source_label string comment 'The cluster, as the landing named it (--source-label)',"
    " cluster_id string comment 'The cluster, as it names itself',"
    " topic string comment 'Kafka topic; NULL in the one row of a landing that has met none yet',"
    " topic_id string comment 'The id of this life of the topic: one made anew has another',"
    " `partition` int comment 'Kafka partition',"
    " next_offset bigint comment 'Every record before it is landed, or in kafka_gaps; landing goes on with it',"
    " end_offset bigint comment 'The offset behind the last committed record when the broker was last asked',"
    " lag_records bigint comment 'Offsets from next_offset to end_offset; NULL where the topic is gone',"
    " lag_seconds double comment 'For how long at most the oldest of them waits, or a transaction was seen open;"
    " 0 where neither is, NULL where it is not known',"
    " newest_at timestamp comment 'Greatest Kafka timestamp that was landed; if a clock is ahead, when that was, UTC',"
    " caught_up_at timestamp comment 'When there was last nothing to land, UTC',"
    " looked_at timestamp comment 'When the broker was last asked, UTC',"
    " is_gone boolean comment 'Whether the broker no longer shows the topic',"
    " cleanup_policy string comment 'What the broker does with old records of the topic: delete, compact or both; NULL"
    " where it does not tell this user',"
    " open_since timestamp comment 'When the open transaction was first seen that keeps what is behind end_offset from"
    " being read, UTC; NULL where none is open'"
)
GAP_REASONS = {
    "retention": "removed by retention before landing",
    "topic_gone": "not landed when the topic was deleted, or no longer shown to this user",
    "topic_made_anew": "not landed when the topic was deleted and made anew",
    "skipped": "skipped, as --starting asked",
}
_TYPES = {"partition": pa.int32(), "lag_seconds": pa.float64(), "is_gone": pa.bool_()}
_TYPES |= dict.fromkeys(("next_offset", "end_offset", "lag_records", "from_offset", "to_offset", "records"), pa.int64())
_TIMES = ("newest_at", "caught_up_at", "looked_at", "open_since")
_TYPES |= dict.fromkeys((*_TIMES, "found_at"), pa.timestamp("us", "UTC"))


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far a partition is landed; as in `ops.kafka_offsets`."""

    topic: str
    partition: int
    topic_id: str
    next_offset: int
    end_offset: int
    newest_at: datetime | None = None
    caught_up_at: datetime | None = None
    looked_at: datetime | None = None
    is_gone: bool = False
    cleanup_policy: str | None = None
    open_since: datetime | None = None

    @property
    def lag_records(self) -> int | None:
        """Offsets that are still to land."""
        return None if self.is_gone else max(self.end_offset - self.next_offset, 0)

    @property
    def lag_seconds(self) -> float | None:
        """How long the oldest of them waits at most.

        It came after the newest record that was landed, and after the broker last had nothing to land. Of what is
        behind an open transaction only the time is told. A time behind the last look was told by a clock that was
        ahead then: it says nothing.
        """
        if self.is_gone:
            return None
        times = [self.newest_at, self.caught_up_at] if self.lag_records else [self.open_since]
        if not self.lag_records and self.open_since is None:
            return 0.0
        at = self.looked_at
        since = max((one for one in times if at is not None and one is not None and one <= at), default=None)
        return None if since is None or at is None else (at - since).total_seconds()

    def seen(self, ends: Ends, at: datetime) -> Offsets:
        """The same as the broker has it now."""
        # Transactions come and go: one that hangs keeps the end where it is.
        is_held = ends.is_open and self.open_since is not None and self.open_since <= at and ends.end == self.end_offset
        is_done = ends.end <= self.next_offset and not is_held
        return replace(
            self,
            topic_id=self.topic_id if ends.topic_id == NO_ID else ends.topic_id,
            end_offset=ends.end,
            looked_at=at,
            is_gone=False,
            caught_up_at=at if is_done else self.caught_up_at,
            open_since=self.open_since if is_held else at if ends.is_open else None,
        )


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that were never read; as in `ops.kafka_gaps`."""

    topic: str
    partition: int
    topic_id: str
    from_offset: int
    to_offset: int
    records: int | None
    reason: str

    @property
    def line(self) -> str:
        """What is missing, in a sentence."""
        return (
            f"{gap_in_words(self.topic, self.partition, self.from_offset, self.to_offset, self.records, self.reason)}."
        )


PartitionOffsets = Mapping[Partition, Offsets]


def _are_one(topic_id: str, other: str) -> bool:
    """Whether two ids can be of one life of a topic: a broker before 2.8 tells none, and can be upgraded, and back."""
    return topic_id == other or NO_ID in (topic_id, other)


def lives_of(offsets: PartitionOffsets) -> dict[str, set[str]]:
    """The ids of each topic that is landed."""
    lives: dict[str, set[str]] = {}
    for one in offsets.values():
        lives.setdefault(one.topic, set()).add(one.topic_id)
    return lives


def _met(partition: Partition, ends: Ends, lives: Mapping[str, set[str]], first: int) -> Offsets:
    """A partition that was not known, which begins with `first`.

    One that a topic was given while it is landed has lost what retention took of it: it begins with 0.
    """
    is_followed = any(_are_one(one, ends.topic_id) for one in lives.get(partition[0], ()))
    return Offsets(*partition, ends.topic_id, 0 if is_followed else first, ends.end)


def gap_in_words(topic: str, partition: int, begin: int, end: int, records: int | None, reason: str) -> str:
    """What a gap is, in words: offsets from `begin` up to and without `end`; `records` None where there may be more."""
    if records is None:
        which = f"records from offset {begin} on, of which {quantity(end - begin, 'was', 'were')} seen,"
    else:
        offsets = f"offset {begin}" if end - begin == 1 else f"offsets {begin} to {end - 1}"
        which = f"{quantity(records, 'record')} ({offsets})"
    return f"{topic}, partition {partition}: {which} {'was' if records == 1 else 'were'} {GAP_REASONS[reason]}"


def starting(option: str) -> str | datetime | dict[Partition, int]:
    """What `--starting` says: `earliest`, `latest`, a time, or offsets by topic and partition.

    Raises:
        UsageError: It says none of them.
    """
    if option in ("earliest", "latest"):
        return option
    try:
        if option.lstrip().startswith("{"):
            return {
                (topic, int(number)): _offset(offset)
                for topic, parts in json.loads(option).items()
                for number, offset in parts.items()
            }
        moment = datetime.fromisoformat(option)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, AttributeError, TypeError):
        raise UsageError(
            f"--starting {option}: it takes earliest, latest, a time such as 2026-11-21T08:00:00Z (UTC where no zone is"
            ' told), or offsets such as {"shop.public.orders": {"0": 500}}.'
        ) from None


def _offset(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value


def first_offsets(broker: Broker, look: Look, start: str | datetime | dict[Partition, int]) -> dict[Partition, int]:
    """Where a landing begins in partitions that it meets for the first time."""
    if isinstance(start, datetime):
        return broker.offsets_at(start, look)
    return {partition: ends.end if start == "latest" else ends.first for partition, ends in look.partitions.items()}


@dataclass(frozen=True, slots=True)
class Beginnings:
    """Where landing begins in each partition of the pattern, and what has been lost since the last landing."""

    offsets: dict[Partition, Offsets]
    gaps: list[Gap]


def beginnings(
    look: Look, offsets: PartitionOffsets, first: Mapping[Partition, int], start_offsets: Mapping[Partition, int]
) -> Beginnings:
    """Where landing begins: it goes on where it stopped.

    Args:
        look: The broker as it is.
        offsets: How far partitions are landed.
        first: Where partitions begin that are not known.
        start_offsets: Where partitions shall begin, known or not.

    Raises:
        UsageError: An offset is asked for that isn't there.
    """
    if strange := sorted(set(start_offsets) - set(look.partitions)):
        raise UsageError(
            f"--starting: there is no partition {strange[0][1]} of a topic {strange[0][0]} among those of --topics."
        )
    begin, gaps = {}, []
    lives = lives_of(offsets)
    ended = {one for one, ends in look.partitions.items() if one in offsets and _has_ended(offsets[one], ends)}
    for partition, ends in look.partitions.items():
        was, start = offsets.get(partition), start_offsets.get(partition)
        if was is None:
            landed = _met(partition, ends, lives, first[partition])
            landed = landed if start is None else replace(landed, next_offset=start)
        else:
            landed = _as_known(was, ends, ended)
            gaps += [_unseen(was, "topic_made_anew")] if partition in ended and not was.is_gone else []
        landed, lost = _moved(landed, ends, start)
        begin[partition] = landed.seen(ends, look.at)
        gaps += lost
    for partition, landed in offsets.items():
        if partition not in begin:
            if look.is_without(partition) and not landed.is_gone:
                gaps.append(_unseen(landed, "topic_gone"))
                landed = replace(landed, is_gone=True, looked_at=look.at)
            begin[partition] = landed
    return Beginnings(begin, gaps)


def _has_ended(was: Offsets, ends: Ends) -> bool:
    """Whether a topic was made anew; where no two ids of it are told, fewer records show that."""
    is_shorter = NO_ID in (ends.topic_id, was.topic_id) and ends.end < was.next_offset
    return is_shorter or not _are_one(was.topic_id, ends.topic_id)


def _as_known(was: Offsets, ends: Ends, ended: Collection[Partition]) -> Offsets:
    """A known partition in the life that its topic has now; `ended` are those of which it is another."""
    if (was.topic, was.partition) in ended:
        return replace(was, topic_id=ends.topic_id, next_offset=0, end_offset=0, newest_at=None, open_since=None)
    if any(topic == was.topic for topic, _ in ended):
        # It may be another life, too, and bronze knows what it has.
        return replace(was, topic_id=ends.topic_id, next_offset=ends.first)
    return was


def _moved(landed: Offsets, ends: Ends, start: int | None) -> tuple[Offsets, list[Gap]]:
    """Where landing goes on, which `--starting` may say, and what it passes over: first what retention took anyway."""
    if start is not None and start > ends.end:
        raise UsageError(
            f"--starting: partition {landed.partition} of {landed.topic} ends at offset {ends.end}, and {start} is"
            " behind that."
        )
    start = landed.next_offset if start is None else start
    gaps = _gap(landed, landed.next_offset, ends.first, "retention")
    gaps += _gap(landed, max(landed.next_offset, ends.first), start, "skipped")
    # A broker that lost the end of a log, and tells by an id that the topic is the same, writes these offsets anew;
    # bronze then has both (R5).
    return replace(landed, next_offset=min(max(start, ends.first), ends.end)), gaps


def _unseen(landed: Offsets, reason: str) -> Gap:
    """The gap behind which a topic's life ended: it may have had records that nobody saw."""
    return Gap(
        landed.topic,
        landed.partition,
        landed.topic_id,
        landed.next_offset,
        max(landed.end_offset, landed.next_offset),
        None,
        reason,
    )


def _gap(landed: Offsets, begin: int, end: int, reason: str) -> list[Gap]:
    if end <= begin:
        return []
    return [Gap(landed.topic, landed.partition, landed.topic_id, begin, end, end - begin, reason)]


def seen(offsets: PartitionOffsets, look: Look) -> dict[Partition, Offsets]:
    """The same as the broker has it now, with no record landed since."""
    return {
        partition: one.seen(look.partitions[partition], look.at) if partition in look.partitions else one
        for partition, one in offsets.items()
    }


def with_policies(offsets: PartitionOffsets, policies: Mapping[str, str | None]) -> dict[Partition, Offsets]:
    """The same, with the cleanup policies that the broker told of topics."""
    return {
        partition: replace(one, cleanup_policy=policies.get(one.topic) or one.cleanup_policy)
        for partition, one in offsets.items()
    }


def loses_states(policy: str | None) -> bool:
    """Whether the broker removes records of a topic because there is a newer one of their key."""
    return "compact" in (policy or "")


def has_moved(offsets: PartitionOffsets, look: Look) -> bool:
    """Whether a topic was made anew, is gone or back, or has lost records: then a running query can't just go on."""
    return any(
        one.is_gone or not _are_one(one.topic_id, ends.topic_id) or ends.end < one.next_offset
        if (ends := look.partitions.get(partition))
        else not one.is_gone and look.is_without(partition)
        for partition, one in offsets.items()
    )


def landed_until(
    offsets: PartitionOffsets, until: Mapping[Partition, int], survey: Sequence[Row], look: Look
) -> tuple[dict[Partition, Offsets], list[Gap]]:
    """How far partitions are landed with a batch, and what retention had taken out of it.

    Args:
        offsets: How far they were before.
        until: Where the batch ends, by partition.
        survey: What came, by partition: `lines`, `first` and `newest`.
        look: The broker as it was after the batch was read: what it had lost by then, and only that, retention took.
    """
    came = {(row["topic"], row["partition"]): row for row in survey}
    after, gaps, lives = dict(offsets), [], lives_of(offsets)
    for partition, ends in look.partitions.items():
        first = min(ends.first, until.get(partition, ends.first))
        landed = offsets.get(partition) or _met(partition, ends, lives, first)
        if not _are_one(landed.topic_id, ends.topic_id):
            continue  # `beginnings` tells what that means
        end, row = until.get(partition, landed.next_offset), came.get(partition)
        missing = end - landed.next_offset - (row["lines"] if row else 0)
        if missing > 0 and ends.first > landed.next_offset:
            lost = min(ends.first, end)
            if row and row["first"] - landed.next_offset == missing:
                lost = min(lost, row["first"])
            gaps += [
                replace(gap, records=min(missing, lost - landed.next_offset))
                for gap in _gap(landed, landed.next_offset, lost, "retention")
            ]
        # A producer's clock may be ahead: what has come came before the look.
        times = (landed.newest_at, _utc(row["newest"] if row else None))
        newest = max((min(t, look.at) for t in times if t is not None), default=None)
        landed = replace(landed, next_offset=max(end, landed.next_offset), newest_at=newest)
        after[partition] = landed.seen(ends, look.at)
    for partition in set(until) & set(offsets) - set(look.partitions):  # deleted behind the batch, which is landed
        landed = offsets[partition]
        after[partition] = replace(landed, next_offset=max(until[partition], landed.next_offset))
    return after, gaps


def _utc(moment: datetime | None) -> datetime | None:
    # The process is in UTC, and so is what Spark hands to it without a zone.
    return moment.replace(tzinfo=UTC) if moment is not None else None


def stored(spark: SparkSession, places: Places, label: str) -> tuple[dict[Partition, Offsets], str | None]:
    """How far the partitions of a label are landed, and of which cluster they are; None where no landing has begun."""
    there = table_if_made(spark, places.table("ops", "kafka_offsets"))
    if there is None:
        return {}, None
    rows = there.where(F.col("source_label") == label).collect()
    names = list(Offsets.__dataclass_fields__)
    offsets = {}
    for row in (one for one in rows if one["topic"] is not None):
        values = {name: row[name] for name in names if name in row}
        values |= {name: _utc(row[name]) for name in _TIMES if name in row}
        offsets[(row["topic"], row["partition"])] = Offsets(**values)
    return offsets, rows[0]["cluster_id"] if rows else None


def store(spark: SparkSession, places: Places, label: str, cluster_id: str, offsets: PartitionOffsets) -> None:
    """Put in one commit how far the partitions of a label are landed; where it has none, that landing has begun."""
    of_label: dict[str, Any] = {"source_label": label, "cluster_id": cluster_id}
    rows = [
        asdict(one) | of_label | {"lag_records": one.lag_records, "lag_seconds": one.lag_seconds}
        for one in offsets.values()
    ] or [of_label]
    location = places.table("ops", "kafka_offsets")
    frame, is_its = frame_for(spark, location, OFFSETS, rows).coalesce(1), f"source_label = {text_literal(label)}"
    frame.write.format("delta").mode("overwrite").option("replaceWhere", is_its).save(location)


def frame_for(spark: SparkSession, location: str, columns: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Rows for a table, which is made where it is missing, and given the columns that it lacks."""
    if not is_table(spark, location):
        clear(spark, location)
        spark.sql(f"create table {table_at(location)} ({columns}) using delta")
    there = spark.table(table_at(location)).columns
    if lacking := [column for column in rows[0] if column not in there] if rows else []:
        there = [*there, *lacking]
        declared = StructType.fromDDL(columns)
        added = ", ".join(f"{one} {declared[one].dataType.simpleString()}" for one in lacking)
        spark.sql(f"alter table {table_at(location)} add columns ({added})")
    return frame_of(spark, rows, pa.schema([(column, _TYPES.get(column, pa.string())) for column in there]))
