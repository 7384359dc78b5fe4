"""What of Kafka's topics was never read, `ops.kafka_gaps`, and what is left of it where some was read after all.

It can't be made anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime

from pyspark.sql import Row, SparkSession, Window
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.delta import is_table, table_if_made
from spark_jobs.landing.kafka_client import NO_ID, Partition
from spark_jobs.landing.kafka_offsets import Gap, PartitionOffsets, frame_for, lives_of, stored
from spark_jobs.names import table_at, text_literal
from spark_jobs.places import Places

GAPS = (
    "source_label string comment 'The cluster, as the landing named it',"
    " topic string comment 'Kafka topic',"
    " topic_id string comment 'The id of the life of the topic that had them',"
    " `partition` int comment 'Kafka partition',"
    " from_offset bigint comment 'The first offset that was not landed',"
    " to_offset bigint comment 'The offset behind the last one that was seen',"
    " records bigint comment 'How many there were at most: offsets also count what compaction removed; NULL where a"
    " topic ended, and how far it went is not known',"
    " reason string comment 'retention, topic_gone, topic_made_anew, skipped (as --starting asked)',"
    " run_id string comment 'The run that noticed',"
    " found_at timestamp comment 'When it noticed, UTC'"
)
_LAST_OFFSET = (1 << 63) - 1
# Offsets in more runs than this would be as many gaps.
_MOST_RUNS = 1000


def store_gaps(spark: SparkSession, places: Places, label: str, run_id: str, gaps: Sequence[Gap]) -> None:
    """Store gaps: a run that was killed behind this finds them again, some of them longer meanwhile."""
    if not gaps:
        return
    at = datetime.now(UTC)
    rows = [asdict(one) | {"source_label": label, "run_id": run_id, "found_at": at} for one in gaps]
    location = places.table("ops", "kafka_gaps")
    frame_for(spark, location, GAPS, rows).coalesce(1).createOrReplaceTempView("found_gaps")
    same = ["source_label", "topic", "topic_id", "`partition`", "from_offset"]
    spark.sql(
        f"merge into {table_at(location)} as gaps using found_gaps as found"
        f" on {' and '.join(f'gaps.{name} = found.{name}' for name in same)}"
        " when matched and found.to_offset > gaps.to_offset then update set * when not matched then insert *"
    )
    spark.catalog.dropTempView("found_gaps")


def stored_gaps(spark: SparkSession, places: Places, label: str) -> list[Gap]:
    """The gaps of a label's partitions."""
    there = table_if_made(spark, places.table("ops", "kafka_gaps"))
    if there is None:
        return []
    rows = there.where(F.col("source_label") == label).select(*Gap.__dataclass_fields__).collect()
    return [Gap(**row.asDict()) for row in rows]


def gaps_ahead(gaps: Sequence[Gap], before: PartitionOffsets, begin: PartitionOffsets) -> list[Gap]:
    """The gaps that reach behind where landing goes on: what they have there is read after all.

    A topic is shown again, `--starting` goes back, or a run was killed between storing a gap and passing over it. What
    retention took, and what another life of the topic had, stays missing.

    Args:
        gaps: The gaps that are stored.
        before: How far partitions were landed.
        begin: From where they go on.
    """
    found = []
    for gap in gaps:
        one, was = (offsets.get((gap.topic, gap.partition)) for offsets in (begin, before))
        if one is None or one.is_gone or gap.reason not in ("topic_gone", "skipped"):
            continue
        # Where no id tells the lives of a topic apart, only what is seen to come again is known to be of this one.
        is_again = (
            was is not None and one.end_offset >= was.next_offset and (was.is_gone or one.next_offset < was.next_offset)
        )
        is_its = gap.topic_id == one.topic_id if gap.topic_id != NO_ID else is_again
        if is_its and (gap.from_offset >= one.next_offset or gap.to_offset > one.next_offset):
            found.append(gap)
    return found


def still_stored(gaps: Sequence[Gap], stored: Sequence[Gap]) -> list[Gap]:
    """What is stored of gaps that were read before: files that were landed meanwhile can have taken parts of them."""
    return [
        one
        for one in stored
        if any(
            _life(one) == _life(gap)
            and one.reason == gap.reason
            and gap.from_offset <= one.from_offset
            and (gap.records is None or one.to_offset <= gap.to_offset)
            for gap in gaps
        )
    ]


def unread_parts(
    gaps: Sequence[Gap], before: PartitionOffsets, after: PartitionOffsets, lost: Sequence[Gap]
) -> dict[Gap, list[Gap]]:
    """What is left of the gaps of which a batch has read something: the parts before and behind it, and what it lacked.

    Args:
        gaps: The gaps that reach behind where landing went on.
        before: How far partitions were landed before the batch.
        after: How far they are now.
        lost: What the batch should have had.
    """
    parts = {}
    for gap in gaps:
        partition = (gap.topic, gap.partition)
        begin, end = before[partition].next_offset, after[partition].next_offset
        if end <= begin:
            continue
        lacked = [(one.from_offset, one.to_offset) for one in lost if (one.topic, one.partition) == partition]
        ranges = [
            (max(gap.from_offset, low), min(gap.to_offset, high))
            for low, high in ((gap.from_offset, begin), *lacked, (end, gap.to_offset))
        ]
        left = [_part(gap, low, high) for low, high in ranges if low < high]
        if left != [gap]:
            parts[gap] = left
    return parts


def less_landed(spark: SparkSession, places: Places, label: str, gaps: Sequence[Gap]) -> dict[Gap, list[Gap]]:
    """What is left of gaps of which bronze or the quarantine has something: the parts that neither has.

    A file can have brought it under the label, or a landing that ended between bronze and its offsets. Of a topic of
    which landing has met several lives, or of which no id tells them apart, nothing is known to be of the gap's own.
    """
    if not gaps or not is_table(spark, places.table("bronze", "records")):
        return {}
    lives = lives_of(stored(spark, places, label)[0])
    for gap in (*gaps, *stored_gaps(spark, places, label)):
        lives.setdefault(gap.topic, set()).add(gap.topic_id)
    found = [one for one in gaps if one.topic_id != NO_ID and lives[one.topic] == {one.topic_id}]
    held = _held(spark, places, label, found) if found else {}
    parts = {gap: _without(gap, held.get((gap.topic, gap.partition), ())) for gap in found}
    # All of a partition's: a part can begin where another gap does that is as it was, and ends later (`put_parts`).
    changed = {(gap.topic, gap.partition) for gap, left in parts.items() if left != [gap]}
    return {gap: left for gap, left in parts.items() if (gap.topic, gap.partition) in changed}


def _held(
    spark: SparkSession, places: Places, label: str, gaps: Sequence[Gap]
) -> dict[Partition, list[tuple[int, int]]]:
    """The runs of offsets, each up to and without its end, that bronze or the quarantine has of partitions, in order.

    Of each partition they are from the first of its gaps on, to the last unless that is open; none where they are many.
    """
    ends = [
        Row(
            topic=one.topic, partition=one.partition, low=one.from_offset,
            high=_LAST_OFFSET if one.records is None else one.to_offset - 1,
        )
        for one in gaps
    ]  # fmt: skip
    is_its = F.col("topic").isin(sorted({one.topic for one in gaps})) & (F.col("source_label") == label)
    offsets = bronze.deliveries_within(spark, places, ends).where(is_its).select(*bronze.LINEAGE)
    # A line that is held is not its record: that is still to come.
    quarantined = bronze.read(spark, places, "quarantine").where(is_its & F.col("line").isNull())
    offsets = offsets.union(quarantined.select(*bronze.LINEAGE)).distinct()
    by_offset = Window.partitionBy("topic", "partition").orderBy("offset")
    runs = (
        offsets.withColumn("run", F.col("offset") - F.row_number().over(by_offset))
        .groupBy("topic", "partition", "run")
        .agg(F.min("offset").alias("low"), (F.max("offset") + 1).alias("high"))
        .orderBy("low")
        .limit(_MOST_RUNS + 1)
        .collect()
    )
    held: dict[Partition, list[tuple[int, int]]] = {}
    for one in runs if len(runs) <= _MOST_RUNS else ():
        held.setdefault((one["topic"], one["partition"]), []).append((one["low"], one["high"]))
    return held


def _without(gap: Gap, held: Sequence[tuple[int, int]]) -> list[Gap]:
    """The parts of a gap that are in none of these runs of offsets, which are in order.

    One that is open had what is held behind it, too, and may have had more behind that.
    """
    is_open = gap.records is None
    end = max([gap.to_offset, *(high for _, high in held if is_open)])
    whole, left, begin = replace(gap, to_offset=end), [], gap.from_offset
    for low, high in held:
        if low < end and high > begin:
            left += [_part(whole, begin, low)] if low > begin else []
            begin = min(high, end)
    return [*left, _part(whole, begin, end)] if begin < end or is_open else left


def _part(gap: Gap, begin: int, end: int) -> Gap:
    is_open = gap.records is None and end == gap.to_offset
    records = end - begin if gap.records is None else min(gap.records, end - begin)
    return replace(gap, from_offset=begin, to_offset=end, records=None if is_open else records)


def close_gaps(spark: SparkSession, places: Places, label: str, partitions: Collection[Partition]) -> None:
    """Take from the gaps of partitions what was landed of them since."""
    gaps = [one for one in stored_gaps(spark, places, label) if (one.topic, one.partition) in partitions]
    if parts := less_landed(spark, places, label, gaps):
        put_parts(spark, places, label, parts)


def put_parts(spark: SparkSession, places: Places, label: str, parts: Mapping[Gap, Sequence[Gap]]) -> None:
    """Put parts in the places of gaps, in one commit; a gap of which nothing is left is removed."""
    rows = {(*_life(gap), gap.from_offset): (gap, replace(gap, to_offset=gap.from_offset)) for gap in parts}
    for gap, left in parts.items():
        for one in left:
            start = (*_life(one), one.from_offset)
            # Gaps that overlap have parts that begin at one offset.
            if start not in rows or rows[start][1].to_offset < one.to_offset:
                rows[start] = gap, one
    values = ", ".join(
        f"({text_literal(gap.topic)}, {text_literal(gap.topic_id)}, {gap.partition}, {gap.from_offset},"
        f" {one.from_offset}, {one.to_offset}, cast({'null' if one.records is None else one.records} as bigint))"
        for gap, one in rows.values()
    )
    gaps = table_at(places.table("ops", "kafka_gaps"))
    life = ["topic", "topic_id", "`partition`"]
    columns = ", ".join([*life, "was_from", "from_offset", "to_offset", "records"])
    is_its = [f"gaps.{name} = parts.{name}" for name in ("source_label", *life, "from_offset")]
    spark.sql(
        f"merge into {gaps} as gaps using ("
        "select was.* except (from_offset, to_offset, records), parts.from_offset, parts.to_offset, parts.records"
        f" from {gaps} as was join (values {values} as parts({columns})) as parts"
        f" on was.source_label = {text_literal(label)} and was.from_offset = parts.was_from"
        f" and {' and '.join(f'was.{name} = parts.{name}' for name in life)}"
        f") as parts on {' and '.join(is_its)}"
        " when matched and parts.to_offset = parts.from_offset then delete"
        " when matched then update set to_offset = parts.to_offset, records = parts.records"
        " when not matched then insert *"
    )


def _life(gap: Gap) -> tuple[str, str, int]:
    return gap.topic, gap.topic_id, gap.partition
