"""The landing job: records into bronze, each delivery once, what can't be understood into the quarantine. Owns R1.

Record files are read here (`input_files.py` finds them), topics by `kafka.py`; both go the same way behind that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import unquote

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.delta import frame_of
from spark_jobs.engine_errors import ENGINE_ERRORS, IN_THE_WAY, first_cause
from spark_jobs.errors import Fault
from spark_jobs.landing.envelope import TEXTS, routed, routed_by_plain_form, shape
from spark_jobs.landing.forms import in_plain_form
from spark_jobs.landing.input_files import files_named, in_even_parts, path_of, refuse_damaged, refuse_others
from spark_jobs.landing.kafka_gaps import close_gaps
from spark_jobs.landing.record_files import records_of
from spark_jobs.landing.registry import Registries
from spark_jobs.landing.rejects import quarantine_rows, settle
from spark_jobs.landing.shapes import fields_of
from spark_jobs.names import escaped
from spark_jobs.places import DEFAULT_LABEL, Places

# From how many records on, on average, a file or partition of a topic is left in files of its own.
_LARGE = 50_000
_PLAIN = ("plain_key", "plain_value", "plain_schema")
_NAMED = ("connector", "source_name", "db", "schema", "table")


@dataclass(frozen=True, slots=True)
class Landing:
    """One landing: what to call it and where its records come from."""

    run_id: str
    at: datetime
    source_label: str = DEFAULT_LABEL


@dataclass(slots=True)
class Landed:
    """What became of the records of one landing.

    Of those that were `known`, so many were `held` already; `feeds` has how many were landed of each feed, `codes` how
    many were quarantined for each reason. `rekeyed` has the tables whose key has another shape now (R8), `doubled` the
    partitions of which offsets came with several contents.
    """

    read: int = 0
    held: int = 0
    batch_id: int | None = None
    feeds: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    rekeyed: list[Rekeyed] = field(default_factory=list)
    doubled: list[Doubled] = field(default_factory=list)

    @property
    def landed(self) -> int:
        """How many records bronze has got."""
        return self.feeds.total()

    @property
    def quarantined(self) -> int:
        """How many records and lines the quarantine has got."""
        return self.codes.total()

    @property
    def known(self) -> int:
        """How many were there already, in bronze or in the quarantine."""
        return self.read - self.landed - self.quarantined

    @property
    def counts(self) -> dict[str, int]:
        """How many records were read, and what became of them, by name."""
        return {name: getattr(self, name) for name in ("read", "landed", "known", "quarantined")}

    def add(self, more: Landed) -> None:
        """Count another batch of the same landing."""
        self.read += more.read
        self.held += more.held
        self.batch_id = self.batch_id if more.batch_id is None else more.batch_id
        self.feeds += more.feeds
        self.codes += more.codes
        self.rekeyed += more.rekeyed
        doubled = {(one.topic, one.partition): one for one in self.doubled}
        for one in more.doubled:
            first = doubled.get((one.topic, one.partition))
            doubled[one.topic, one.partition] = (
                one if first is None else replace(first, offsets=first.offsets + one.offsets)
            )
        self.doubled = list(doubled.values())


@dataclass(frozen=True, slots=True)
class Doubled:
    """A partition of which a batch brought some offsets with several contents, or with others than bronze has (R1).

    `file` is one that brought the first.
    """

    topic: str
    partition: int
    offsets: int
    first_offset: int
    file: str


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """A captured table whose records came with keys of another shape than before."""

    table: str
    before: tuple[str, ...]
    now: tuple[str, ...]


def land_files(spark: SparkSession, places: Places, arguments: Sequence[str], landing: Landing) -> Landed:
    """Land record files; the same records again, from the same or another file, add nothing.

    Raises:
        UsageError: A file is missing, unreadable or holds no records at all; then nothing was landed.
        Fault: Spark could not read or write.
    """
    files = files_named(arguments)
    try:
        lines = spark.read.text([escaped(file) for file in files]).select(
            "value", F.col("_metadata.file_path").alias("origin")
        )
        rows = (
            records_of(lines.where("trim(value) <> ''"))
            .withColumn("source_label", F.lit(landing.source_label))
            .withColumn("content_hash", bronze.content_hash())
        )
        with in_even_parts(spark, files):
            return land_rows(spark, places, rows, landing, check=refuse_others, files=files)
    except (*ENGINE_ERRORS, FileNotFoundError) as error:
        raise Fault(
            f"Spark could not read the files: {first_cause(str(error))}. Nothing was landed; where one was taken away"
            " meanwhile, run again."
        ) from error


def land_rows(
    spark: SparkSession,
    places: Places,
    rows: DataFrame,
    landing: Landing,
    check: Callable[[Sequence[Row]], None] = lambda survey: None,
    files: Sequence[str] = (),
) -> Landed:
    """Land rows that `records_of` gave, whatever they were read from.

    Args:
        spark: The session.
        places: Whose bronze.
        rows: The rows.
        landing: What to call it.
        check: May refuse them before a write.
        files: The files that they are all lines of, where they are.

    Raises:
        UsageError: A file can't be unpacked.
        Fault: Spark could not read or write.
    """
    columns = [name for name in rows.columns if name not in ("reason", *TEXTS)]
    nothing = F.lit(None).cast("string")
    as_bytes = rows.transform(routed).persist(StorageLevel.MEMORY_AND_DISK)
    persisted = [as_bytes]
    try:
        try:
            survey = _survey(as_bytes)
        except ENGINE_ERRORS as error:
            if not IN_THE_WAY.search(said := str(error)):
                # Spark names the file that it failed on, most often, and to unpack all of them can take hours.
                refuse_damaged([file for file in files if file in f"{said}\n{unquote(said)}"] or files)
            raise
        check(survey)
        if not survey and not (files and bronze.is_ready(spark, places)):
            return Landed()
        rows = as_bytes.withColumns(dict.fromkeys((*_PLAIN, "detail"), nothing))
        if any(part["suspects"] for part in survey):
            suspects = in_plain_form(
                spark, as_bytes.where("is_suspect").select(*columns).localCheckpoint(), Registries.of()
            )
            again = suspects.transform(routed_by_plain_form).persist(StorageLevel.MEMORY_AND_DISK)
            persisted.append(again)
            rows = rows.where("not is_suspect").drop("is_suspect").unionByName(again)
            survey = _survey(rows.withColumn("is_suspect", F.lit(False)))
        bronze.ensure(spark, places)
        return _land(spark, places, rows, survey, landing, frozenset(files))
    except ENGINE_ERRORS as error:
        raise Fault(
            f"Spark could not land the records: {first_cause(str(error))}. Take the cause away and land again: nothing"
            " is landed twice."
        ) from error
    finally:
        for frame in persisted:
            frame.unpersist()


def _survey(rows: DataFrame) -> list[Row]:
    """What the rows are, by file and partition, from the one pass in which they are read and parsed."""
    understood = F.when(F.col("reason").isNull(), F.col("offset"))
    return rows.groupBy("origin", "topic", "partition").agg(
        F.count("*").alias("lines"),
        F.count("reason").alias("rejected"),
        F.count_if("is_suspect").alias("suspects"),
        F.min(understood).alias("low"),
        F.max(understood).alias("high"),
        F.min("offset").alias("first"),
        F.max("timestamp").alias("newest"),
        F.count_if(F.col("line").startswith("{")).alias("begun"),
    ).collect()  # fmt: skip


def _land(
    spark: SparkSession,
    places: Places,
    rows: DataFrame,
    survey: Sequence[Row],
    landing: Landing,
    files: Collection[str],
) -> Landed:
    batch_id = bronze.last_batch(spark, places) + 1
    rows = (
        rows.withColumn("batch_id", F.lit(batch_id).cast("bigint"))
        .withColumn("run_id", F.lit(landing.run_id))
        .withColumn("landed_at", F.lit(landing.at).cast("timestamp"))
    )
    rejected = rows.where("reason is not null")
    result = Landed(read=sum(part["lines"] for part in survey))
    if any(part["rejected"] for part in survey):
        # The quarantine first: were landing killed here, the next one finds these known and the others still to come.
        result.codes, result.held = quarantine_rows(spark, places, rejected)
    understood = rows.where("reason is null and topic is not null and partition is not null and offset is not null")
    stored = bronze.deliveries_within(spark, places, survey)
    result.feeds, has_shapes, is_told_twice = _append_unknown(spark, places, understood, survey, batch_id, stored)
    if is_told_twice:
        result.doubled = _doubled(understood, stored)
    if has_shapes:
        result.rekeyed = _rekeyed(spark, places, batch_id)
    if files:
        # Last: were landing killed before, the next one of these files does it. Builds count landings by records.
        released_in = batch_id if result.feeds else bronze.last_batch(spark, places, "records")
        settle(spark, places, rejected, files, landing.source_label, released_in)
        close_gaps(spark, places, landing.source_label, {(part["topic"], part["partition"]) for part in survey})
    result.batch_id = batch_id if result.landed or result.quarantined else None
    return result


def _append_unknown(
    spark: SparkSession, places: Places, records: DataFrame, survey: Sequence[Row], batch_id: int, stored: DataFrame
) -> tuple[Counter[str], bool, bool]:
    """Append the records that bronze does not hold, and before them their shapes.

    Returns:
        How many, by feed, whether a shape was new, and whether two records had one offset, or one that is stored.
    """
    unknown, is_told_twice = _unknown(records, stored)
    if unknown is not records:
        unknown.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        if unknown is not records and not is_told_twice:
            is_told_twice = not unknown.join(stored, on=list(bronze.PLACE), how="left_semi").isEmpty()
        of_shape = F.count("*").alias("records"), F.min("offset").alias("first_offset")
        seen = unknown.groupBy(*bronze.SHAPE, "has_shape").agg(*of_shape).collect()
        has_new = bool(seen) and _append_unknown_shapes(spark, places, unknown, seen, batch_id)
        if seen:
            # Gathered by feed, its partition: a file or two each, however many tasks wrote. Large parts of one feed are
            # files by themselves.
            is_one = len({one["feed"] for one in seen}) == 1
            is_large = is_one and sum(one["records"] for one in seen) >= _LARGE * len(survey)
            bronze.append(spark, places, "records", unknown if is_large else unknown.hint("rebalance", "feed"))
    finally:
        if unknown is not records:
            unknown.unpersist()
    feeds: Counter[str] = Counter()
    for one in sorted(seen, key=lambda one: str(one["feed"])):
        feeds[one["feed"]] += one["records"]
    return feeds, has_new, is_told_twice


def _unknown(records: DataFrame, stored: DataFrame) -> tuple[DataFrame, bool]:
    """The records whose delivery is not stored, each once: those given where that is all of them.

    Beside them whether two had one offset; false where all are stored.
    """
    delivery = list(bronze.DELIVERY)
    # What of the usual is not so is seen in a few narrow columns, before whole records are moved.
    deliveries = records.select(*delivery)
    is_stored = not stored.isEmpty()
    if is_stored and deliveries.join(stored, on=delivery, how="left_anti").isEmpty():
        return records.limit(0), False
    is_told_twice = _is_told_twice(deliveries)
    unknown = records.dropDuplicates(delivery) if is_told_twice else records
    return unknown.join(stored, on=delivery, how="left_anti") if is_stored else unknown, is_told_twice


def _is_told_twice(deliveries: DataFrame) -> bool:
    """Whether two of them have one offset: seen in a bit for each, without moving them."""
    bucket = F.bitmap_bucket_number("offset").alias("bucket")
    offsets = F.bitmap_count(F.bitmap_construct_agg(F.bitmap_bit_position("offset"))).alias("offsets")
    counted = deliveries.groupBy("topic", "partition", bucket).agg(F.count("*").alias("deliveries"), offsets)
    return not counted.where("deliveries > offsets").isEmpty()


def _doubled(records: DataFrame, stored: DataFrame) -> list[Doubled]:
    """The partitions of which records have offsets with several contents, those that were stored before included."""
    names = (*bronze.DELIVERY, "origin")
    deliveries = records.select(*names).unionByName(stored, allowMissingColumns=True)
    contents = deliveries.groupBy(*bronze.PLACE).agg(
        F.count_distinct("content_hash").alias("contents"), F.min("origin").alias("origin")
    )
    parts = contents.where("contents > 1 and origin is not null").groupBy("topic", "partition")
    found = parts.agg(
        F.count("*").alias("offsets"),
        F.min("offset").alias("first_offset"),
        F.min_by("origin", "offset").alias("origin"),
    ).orderBy("topic", "partition")
    return [
        Doubled(one["topic"], one["partition"], one["offsets"], one["first_offset"], path_of(one["origin"]))
        for one in found.collect()
    ]


def _append_unknown_shapes(
    spark: SparkSession, places: Places, records: DataFrame, seen: Sequence[Row], batch_id: int
) -> bool:
    """Append the shapes that no earlier landing has seen, in one commit if any (G3); whether there were any.

    Args:
        spark: The session.
        places: Where bronze is.
        records: The records that are landed.
        seen: The shapes of these records, and the first offset of each.
        batch_id: The number of this landing.
    """
    stored = bronze.read(spark, places, "shapes").where(F.col("feed").isin(sorted({one["feed"] for one in seen})))
    known = {tuple(row) for row in stored.select(*bronze.SHAPE).collect()}
    unknown = [one for one in seen if one["has_shape"] and tuple(one[name] for name in bronze.SHAPE) not in known]
    if unknown:
        numbers = ("shape_id", "first_offset")
        columns = [(name, pa.int64() if name in numbers else pa.string()) for name in (*bronze.SHAPE, "first_offset")]
        rows = frame_of(spark, unknown, pa.schema(columns))
        is_its = [records[name].eqNullSafe(rows[name]) for name in bronze.SHAPE]
        shapes = (
            records.where("has_shape")
            # Of each shape a record or two: to pick one, whole records are sorted.
            .join(F.broadcast(rows), on=[*is_its, records["offset"] == rows["first_offset"]], how="left_semi")
            .groupBy(*bronze.SHAPE)
            .agg(*[F.first(name).alias(name) for name in (*_NAMED, "value", "plain_value", "plain_schema")])
            .withColumn("shape", shape())
            .withColumn("fields", fields_of(F.col("shape")))
        )
        bronze.append(spark, places, "shapes", shapes.withColumn("batch_id", F.lit(batch_id).cast("bigint")))
    return bool(unknown)


def _rekeyed(spark: SparkSession, places: Places, batch_id: int) -> list[Rekeyed]:
    """The tables of which this landing is the first with some shape of keys, and that have others."""
    keyed = bronze.read(spark, places, "shapes").where("key_fields is not null")
    # A shape of values that is new can come with a key that is not.
    keys = keyed.groupBy("feed", "key_fields").agg(F.min("batch_id").alias("since"))
    by_feed = keys.groupBy("feed").agg(F.count("*").alias("keys"), F.max("since").alias("last"))
    feeds = [row["feed"] for row in by_feed.where((F.col("keys") > 1) & (F.col("last") == batch_id)).collect()]
    shapes = bronze.shapes_by_age(spark, places, feeds) if feeds else []
    rekeyed = []
    for seen in bronze.by_feed(one for one in shapes if one["key_fields"]).values():
        before, now = (tuple(json.loads(one["key_fields"])) for one in (seen[0], seen[-1]))
        if before != now:
            rekeyed.append(Rekeyed(".".join(bronze.full_name(seen[-1])), before, now))
    return sorted(rekeyed, key=lambda one: one.table)
