"""Bronze's tables: what arrived (R1), what could not be understood (R2), and the shapes that values came in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.delta import clear, empty_commit, frame_of, has_files, is_table
from spark_jobs.errors import Fault, UsageError
from spark_jobs.names import table_at
from spark_jobs.places import LANDED, Places
from spark_jobs.record import HEADERS, object_of_key, text_of

# Where a record is in Kafka, and beside those of other sources.
LINEAGE = ("topic", "partition", "offset")
PLACE = ("source_label", *LINEAGE)
DELIVERY = (*PLACE, "content_hash")
# What a record is (R17).
KINDS = (
    "change", "truncate", "tombstone", "transaction", "heartbeat", "message", "schema_change", "notification", "signal",
    "outbox",
)  # fmt: skip
# Those that say what became of a table's rows.
ROW_KINDS = ("change", "truncate")
# What tells one shape of a table's values from its others.
SHAPE = ("feed", "topic", "shape_id", "key_fields")

RECORDS = (
    "feed string comment 'Folder-safe name of the captured table, or of the topic for records of no table; partition',"
    " source_label string comment 'The Kafka cluster or set of files that the record was delivered by',"
    " topic string comment 'Kafka topic',"
    " `partition` int comment 'Kafka partition',"
    " `offset` bigint comment 'Kafka offset',"
    " timestamp timestamp comment 'Kafka timestamp, UTC; NULL where the record has none',"
    " key binary comment 'The key, byte for byte',"
    " value binary comment 'The value, byte for byte; NULL for a tombstone',"
    f" headers {HEADERS} comment 'The headers in their order, values byte for byte',"
    " plain_key string comment 'The key as JSON, where its bytes are of another form; else NULL',"
    " plain_value string comment 'The value as an envelope in JSON, where its bytes are of another form; else NULL',"
    " content_hash string comment 'SHA-256 of key, value and headers; with its place one delivery (R1)',"
    f" kind string comment '{', '.join(KINDS)}',"
    " op string comment 'op of the envelope',"
    " connector string comment 'source.connector',"
    " source_name string comment 'The topic prefix: source.name, or what stands for it beside changes',"
    " db string comment 'source.db',"
    " schema string comment 'source.schema',"
    " `table` string comment 'source.table, or source.collection',"
    " shape_id bigint comment 'Which of the shapes in bronze the value has',"
    " origin string comment 'File or cluster that it was read from',"
    " batch_id bigint comment 'Number of the landing that brought it; rises by one',"
    " run_id string comment 'The run that landed it',"
    " landed_at timestamp comment 'When it was landed, UTC'"
)

QUARANTINE = (
    "quarantine_id string comment 'Stable name of the entry: a hash of where it was and what it held',"
    " code string comment 'Stable error code',"
    " reason string comment 'The code in words',"
    " source_label string, topic string, `partition` int, `offset` bigint, timestamp timestamp,"
    f" key binary, value binary, headers {HEADERS}, content_hash string,"
    " line string comment 'The line itself where it could not be read, or not all of it',"
    " occurrences bigint comment 'How often the same line stood in the file',"
    " origin string, batch_id bigint, run_id string, landed_at timestamp,"
    " released_in bigint comment 'The landing that released it, or if that had no record the last one before it that"
    " had; NULL while it is held'"
)

SHAPES = (
    "feed string, shape_id bigint comment 'Hash of the shape',"
    " shape string comment 'The embedded schema as JSON, or a JSON list of field names where there is none',"
    " fields array<struct<name: string, encoding: string, spark_type: string, is_optional: boolean,"
    " default_value: string>> comment 'The columns of the row in it, how they are encoded, their types',"
    " connector string, source_name string, db string, schema string, `table` string, topic string,"
    " key_fields string comment 'JSON list of the field names of the key; NULL where the records have no key',"
    " batch_id bigint comment 'The landing that saw it first'"
)

# Columns, partitions, and the columns by whose bounds files are left unread: others would cost every look at the log.
# Records are made last: where they are, all of bronze is.
TABLES = {
    "quarantine": (QUARANTINE, [], "batch_id, topic, `partition`, `offset`"),
    "shapes": (SHAPES, [], "feed, batch_id"),
    "records": (RECORDS, ["feed"], "batch_id, topic, `partition`, `offset`"),
}
# What is wrong with another table of bronze that isn't there.
GONE = "it is gone, and bronze.records is there"
# What ByLogicalTableRouter, and ToLogicalTopicRouter, add to the keys of rows from several tables; no row has it.
ROUTER_FIELDS = ("__dbz__physicalTableIdentifier", "__dbz__sourceIdentifier")
# More ranges than this make a filter that costs more than it prunes.
_MOST_RANGES = 500
# Tables in ops that no model builds; the next run begins them anew.
UNMODELLED = ("progress", "accounting", "test_results", "kafka_offsets", "kafka_gaps")


def ensure(spark: SparkSession, places: Places) -> None:
    """Make bronze's tables where they are missing, and clear the way for UNMODELLED ones; touches nothing else.

    It is for who holds the lock. An environment that reads another's bronze makes none, and leaves what landing knows
    of topics to who lands.

    Raises:
        UsageError: It is another's, and not there yet.
        Fault: A table has files and no log, or is gone from beside the records: made anew, it would hide that.
    """
    for name in UNMODELLED:
        if not (places.reads_only and name in LANDED):
            clear(spark, places.table("ops", name))
    made = _made(spark, places)
    if places.reads_only:
        return
    for name, (columns, partitions, pruned_by) in TABLES.items():
        if name not in made:
            location = places.table("bronze", name)
            clear(spark, location)
            partitioned = f"partitioned by ({', '.join(partitions)})" if partitions else ""
            spark.sql(
                f"create or replace table {table_at(location)} ({columns}) using delta {partitioned}"
                f" tblproperties ('delta.dataSkippingStatsColumns' = '{pruned_by}')"
            )


def nothing_landed(places: Places) -> UsageError:
    """The error of what needs records, where there are none yet."""
    return UsageError(f"Nothing was landed in {places.lakehouse} yet. Land records first: `tidemark land FILES`.")


def is_ready(spark: SparkSession, places: Places) -> bool:
    """Whether all of bronze's tables are there; it makes none. Raises what `ensure` does."""
    return len(_made(spark, places)) == len(TABLES)


def _made(spark: SparkSession, places: Places) -> list[str]:
    if places.reads_only and not is_table(spark, places.table("bronze", "records")):
        raise UsageError(f"Nothing was landed in {places.lakehouse} yet, and target {places.target} only reads it.")
    made = [name for name in TABLES if _is_made(spark, places, name)]
    if gone := [name for name in TABLES if name not in made and "records" in made]:
        raise Fault(f"bronze.{gone[0]} is damaged: {GONE}. {remedy(places.table('bronze', gone[0]))}")
    return made


def _is_made(spark: SparkSession, places: Places, name: str) -> bool:
    location = places.table("bronze", name)
    if not is_table(spark, location):
        if has_files(spark, location):
            raise Fault(f"bronze.{name} is damaged: it has files and no log. {remedy(location)}")
        return False
    # A build before the first landing gives the catalog a table that has no columns yet.
    if not spark.table(table_at(location)).columns:
        return False
    if (commit := empty_commit(spark, location)) is not None:
        raise Fault(f"bronze.{name} is damaged: its newest commit, {commit}, is empty. {remedy(location)}")
    return True


def remedy(location: str) -> str:
    """What can be done about a damaged table of bronze, in words."""
    return (
        f"Bronze is what arrived, so nothing is written to it before it is whole: restore {location} from a backup,"
        " with bronze.records and bronze.shapes of one moment, or land the topics again into another lakehouse."
    )


def read(spark: SparkSession, places: Places, name: str) -> DataFrame:
    """A table of bronze."""
    return spark.table(table_at(places.table("bronze", name)))


def append(spark: SparkSession, places: Places, name: str, rows: DataFrame) -> None:
    """Append rows in one commit, columns by name."""
    columns = read(spark, places, name).columns
    rows.select(*columns).write.format("delta").mode("append").save(places.table("bronze", name))


def last_batch(spark: SparkSession, places: Places, *among: str) -> int:
    """The number of the last landing, or of the last that has brought something to some tables; 0 before the first."""
    # Each table is asked alone: that Delta answers from its log, without opening a file.
    asked = [read(spark, places, name).agg(F.max("batch_id")) for name in among or ("records", "quarantine")]
    return max(int(one.collect()[0][0] or 0) for one in asked)


def deliveries_within(spark: SparkSession, places: Places, survey: Sequence[Row]) -> DataFrame:
    """The deliveries that bronze holds within some ranges of offsets; files without any are not read.

    Args:
        spark: The session.
        places: Where bronze is.
        survey: Rows with `topic`, `partition`, and the `low` and `high` ends of a range of offsets.
    """
    stored = read(spark, places, "records")
    exact = _ranges(LINEAGE[:2], survey)
    are_many = len(exact) > _MOST_RANGES
    parts = LINEAGE[: 1 if are_many else 2]
    ranges = _ranges(parts, survey) if are_many else exact
    if len(ranges) <= _MOST_RANGES:
        within = [_within(dict(zip(parts, place, strict=True)), *ends) for place, ends in sorted(ranges.items())]
        stored = stored.where(any_of(within) if within else F.lit(False))
    stored = stored.select(*DELIVERY)
    if not are_many:
        return stored
    # The range of a topic is that of all its partitions, and holds much of one that others are ahead of or behind.
    columns = [("topic", pa.string()), ("partition", pa.int32()), ("low", pa.int64()), ("high", pa.int64())]
    rows = [dict(zip(dict(columns), (*place, *ends), strict=True)) for place, ends in exact.items()]
    places_within = frame_of(spark, rows, pa.schema(columns))
    is_within = [stored[name] == places_within[name] for name in ("topic", "partition")]
    is_within.append(stored["offset"].between(places_within["low"], places_within["high"]))
    return stored.join(F.broadcast(places_within), on=is_within, how="left_semi")


def _ranges(parts: Sequence[str], survey: Sequence[Row]) -> dict[tuple[str | int, ...], tuple[int, int]]:
    """The ranges of offsets of a survey, by some parts of their place."""
    ranges: dict[tuple[str | int, ...], tuple[int, int]] = {}
    for one in survey:
        place = tuple(one[part] for part in parts)
        if one["low"] is not None and None not in place:
            low, high = ranges.get(place, (one["low"], one["high"]))
            ranges[place] = (min(low, one["low"]), max(high, one["high"]))
    return ranges


def _within(place: Mapping[str, str | int], low: int, high: int) -> Column:
    here = [F.col(part) == value for part, value in place.items()]
    return reduce(and_, here) & F.col("offset").between(low, high)


def any_of(conditions: Sequence[Column]) -> Column:
    """One of many conditions, as a balanced tree: Spark takes a minute to plan a chain of 200."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return any_of(conditions[:half]) | any_of(conditions[half:])


def shapes_by_age(spark: SparkSession, places: Places, feeds: Collection[str] | None = None) -> list[Row]:
    """The shapes of tables' values, or of some tables', in the order in which their newest records were written.

    Landings don't tell: one can bring several shapes, and landings come in any order.
    """
    shapes = read(spark, places, "shapes")
    rows = (shapes if feeds is None else shapes.where(F.col("feed").isin(*feeds))).collect()
    several = [feed for feed, count in Counter(row["feed"] for row in rows).items() if count > 1]
    newest: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    if several:
        records = read(spark, places, "records").where(F.col("feed").isin(*several) & (F.col("kind") == "change"))
        found = (
            records.withColumn("key_fields", F.to_json(key_names()))
            .groupBy(*SHAPE)
            .agg(F.max(written()).alias("newest"))
        )
        newest = {tuple(row[part] for part in SHAPE): tuple(row["newest"]) for row in found.collect()}
    return sorted(rows, key=lambda row: (newest.get(tuple(row[part] for part in SHAPE), ()), row["batch_id"]))


def by_feed(shapes: Iterable[Row]) -> dict[str, list[Row]]:
    """Feed → its shapes, in the order in which they are given."""
    of_feeds: dict[str, list[Row]] = {}
    for shape in shapes:
        of_feeds.setdefault(shape["feed"], []).append(shape)
    return of_feeds


def fields_by_name(shapes: Iterable[Row]) -> dict[str, list[Row]]:
    """What each shape says of each field, by the field's name."""
    by_name: dict[str, list[Row]] = {}
    for shape in shapes:
        for one in shape["fields"] or ():
            by_name.setdefault(one["name"], []).append(one)
    return by_name


def has_shape() -> Column:
    """Whether a record's value has a shape: a delete without a schema, or a truncate, shows no row."""
    return F.col("shape_id") != F.xxhash64(F.lit(None).cast("string"))


def written() -> Column:
    """What tells, of two records of a topic, which was written later."""
    return F.struct(F.coalesce(F.unix_micros("timestamp"), F.lit(-1)), "offset")


def full_name(shape: Row) -> list[str]:
    """The parts of a table's full name: topic prefix, schema or database, table."""
    return [part for part in (shape["source_name"], shape["schema"] or shape["db"], shape["table"]) if part]


def key_object() -> Column:
    """A record's key as the JSON of its fields, without the schema that may stand beside them."""
    return object_of_key(record_text("key"))


def key_names() -> Column:
    """The names of the fields of a record's key, each once; NULL where it is no object."""
    return F.array_distinct(F.json_object_keys(key_object()))


def content_hash() -> Column:
    """SHA-256 of a record's key, value and headers, taken from a structure so that parts can't run together."""
    headers = F.transform("headers", lambda h: F.struct(h["key"].alias("key"), F.sha2(h["value"], 256).alias("value")))
    return F.sha2(F.to_json(F.struct(F.sha2("key", 256), F.sha2("value", 256), headers)), 256)


def record_text(part: str = "value") -> Column:
    """A record's key or value as JSON; NULL where it is no text, as an outbox's event can be."""
    return F.coalesce(f"plain_{part}", text_of(F.col(part)))


def entry_id(place: Column) -> Column:
    """The id of a quarantine entry, from what names it: a delivery, or a line of a file."""
    return F.substring(F.sha2(F.to_json(place), 256), 1, 16)
