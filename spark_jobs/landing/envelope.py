"""What a record is: the routing columns of bronze, and the reasons for which a record is quarantined (R2). Owns R17.

Pure: frames in, frames out. Only what routes a record is read here; values are decoded once, in silver.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.names import feed

ROW_OPS = ("c", "u", "r")
OPS = (*ROW_OPS, "d", "t")

_BLOCKS = (
    "op string, after string, source struct<connector: string, name: string, db: string, schema: string,"
    " `table`: string, collection: string, version: string>, message string, status string, id string, ddl string,"
    " tableChanges string, aggregate_type string, ts_ms string"
)
_VALUE = f"`schema` string, payload struct<{_BLOCKS}>, {_BLOCKS}, _malformed string"

REASONS = {
    "line-not-json": "the line is not one JSON object",
    "line-without-position": "the line has no topic, partition or offset, so it is no record",
    "value-not-json": "the value is not one JSON object",
    "key-not-json": "the key is not JSON",
    "schema-without-payload": "the value has a schema and no payload",
    "no-envelope": "the value is no Debezium envelope and none of the events beside them",
    "no-source": "the envelope's source names no table",
    "unknown-op": "the envelope's op is none of c, u, d, r, t, m",
    "no-after": "an insert, update or read without the row's state after it",
}


def routed(records: DataFrame) -> DataFrame:
    """Add to each record what it is and which feed it belongs to.

    Args:
        records: `topic`, `key`, `value` and any other columns; rows whose `reason` is set keep it.

    Returns:
        The same rows with `reason`, `kind` (change, truncate, tombstone, transaction, heartbeat, message,
        schema_change, notification; NULL when quarantined), `op`, `connector`, `source_name`, `db`, `schema`,
        `table`, `feed`, `shape_id` and `shape` (of a change with a state: its schema, or the names of its fields).
    """
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_malformed"}
    value = F.decode("value", "utf-8")
    known = [name for name in records.columns if name != "reason"]
    parsed = records.withColumn("v", F.from_json(value, _VALUE, options))
    # JsonConverter writes {"schema": …, "payload": …}, or the payload alone where schemas are off.
    envelope = F.when(F.col("v.payload").isNotNull(), F.col("v.payload")).otherwise(
        F.struct(*[F.col(f"v.{name}").alias(name) for name in _block_names()])
    )
    parsed = parsed.withColumn("e", envelope).withColumn("key_text", F.decode("key", "utf-8"))
    parsed = parsed.withColumn("reason", F.coalesce("reason", _reason())).withColumn(
        "kind", F.when(F.col("reason").isNull(), _kind())
    )
    table = F.coalesce("e.source.table", "e.source.collection")
    is_row = F.col("kind").isin("change", "truncate")
    shape = F.when(
        F.col("kind") == "change",
        F.coalesce("v.schema", F.to_json(F.array_sort(F.json_object_keys("e.after")))),
    )
    return parsed.select(
        *known,
        "reason",
        "kind",
        F.col("e.op").alias("op"),
        F.col("e.source.connector").alias("connector"),
        F.when(is_row, F.col("e.source.name")).alias("source_name"),
        F.when(is_row, F.col("e.source.db")).alias("db"),
        F.when(is_row, F.col("e.source.schema")).alias("schema"),
        F.when(is_row, table).alias("table"),
        F.when(is_row, feed(F.col("e.source.name"), F.col("e.source.db"), F.col("e.source.schema"), table))
        .otherwise(feed(F.lit("topic"), F.col("topic")))
        .alias("feed"),
        F.xxhash64(shape).alias("shape_id"),
        shape.alias("shape"),
    )


def _block_names() -> list[str]:
    return ["op", "after", "source", "message", "status", "id", "ddl", "tableChanges", "aggregate_type", "ts_ms"]


def _is_tombstone() -> Column:
    # With schemas on, JsonConverter can write a null value as {"schema": null, "payload": null}.
    nothing = F.decode("value", "utf-8").rlike(r'^\s*\{\s*"schema"\s*:\s*null\s*,\s*"payload"\s*:\s*null\s*\}\s*$')
    return F.col("value").isNull() | nothing


def _reason() -> Column:
    op, source, table = F.col("e.op"), F.col("e.source"), F.coalesce("e.source.table", "e.source.collection")
    is_other = (_other_kind()).isNotNull()
    key_is_json = F.col("key_text").isNull() | F.json_object_keys("key_text").isNotNull()
    return (
        F.when(_is_tombstone(), F.lit(None))
        .when(F.col("v").isNull() | F.col("v._malformed").isNotNull(), "value-not-json")
        .when(F.col("v.schema").isNotNull() & F.col("v.payload").isNull(), "schema-without-payload")
        .when(is_other, F.lit(None))
        .when(op.isNull() | source.isNull(), "no-envelope")
        .when(op == "m", F.lit(None))
        .when(~op.isin(*OPS), "unknown-op")
        .when(F.coalesce(table, F.lit("")) == "", "no-source")
        .when(F.col("e.source.name").isNull(), "no-source")
        .when(~key_is_json, "key-not-json")
        .when(op.isin(*ROW_OPS) & ~F.coalesce(F.col("e.after").startswith("{"), F.lit(False)), "no-after")
    )


def _other_kind() -> Column:
    return (
        F.when(F.col("e.op").isNotNull(), F.lit(None))
        .when(F.col("e.status").isin("BEGIN", "END") & F.col("e.id").isNotNull(), "transaction")
        .when(F.col("e.ddl").isNotNull() | F.col("e.tableChanges").isNotNull(), "schema_change")
        .when(F.col("e.aggregate_type").isNotNull(), "notification")
        .when(F.col("topic").contains("heartbeat") & F.col("e.ts_ms").isNotNull(), "heartbeat")
    )


def _kind() -> Column:
    return (
        F.when(_is_tombstone(), "tombstone")
        .when(F.col("e.op") == "m", "message")
        .when(F.col("e.op") == "t", "truncate")
        .when(F.col("e.op").isNotNull(), "change")
        .otherwise(_other_kind())
    )
