"""What a record is: the routing columns of bronze. Owns R17.

Pure: frames in, frames out. Only what routes a record is read here; values are decoded once, in silver.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.bronze import record_text
from spark_jobs.landing.forms import is_suspect
from spark_jobs.names import feed, text_array
from spark_jobs.record import (
    JSON_LIMITS,
    LAST_MILLIS,
    goes_on,
    has_half_letters,
    is_beside_schema,
    object_of_key,
    text_of,
)

ROW_OPS = ("c", "u", "r")
OPS = (*ROW_OPS, "d", "t")
# The connector whose rows are documents; what else is its own is in macros/connectors/mongodb.sql.
DOCUMENTS = "mongodb"

# What a record is routed by: its parts as text, beside its bytes.
TEXTS = ("key_text", "value_text")

_SOURCE_TYPE = (
    "struct<connector: string, name: string, db: string, schema: string, `table`: string, collection: string,"
    " ts_ms: string, ts_us: string, ts_ns: string, lsn: string, sequence: string, server_id: string, pos: string,"
    " `row`: string>"
)
_BLOCK_NAMES = (
    "op", "after", "source", "updateDescription", "message", "status", "id", "ddl", "tableChanges", "aggregate_type",
    "ts_ms", "ts_us", "ts_ns", "additional_data", "type",
)  # fmt: skip
# Fields of events that have no op, which an application's rows may look like.
_BOUNDARY = ("status", "id", "ts_ms", "event_count", "data_collections")
_NOTIFICATION = ("id", "aggregate_type", "type", "timestamp", "additional_data")
_BLOCKS = ", ".join(f"{name}: {_SOURCE_TYPE if name == 'source' else 'string'}" for name in _BLOCK_NAMES)
_KEY = "serverName string"
_VALUE = f"v struct<`schema`: string, payload: struct<{_BLOCKS}>, {_BLOCKS}>, length int, _malformed string"

_SIGNALS = ("log", "schema-changes", *(f"{what}-snapshot" for what in ("execute", "stop", "pause", "resume")))
_NUMBERS_OF_PLACE = ("lsn", "server_id", "pos", "row")
_SEQUENCE = r'^\[\s*(null|"[0-9]{1,18}")\s*,\s*(null|"[0-9]{1,18}")\s*\]$'
_FIRST_MILLIS = -62135596800000  # the beginning of the year 1
_CLOCKS = ("e", "e.source")
_UNITS_OF_TIME = {"ts_ms": 1, "ts_us": 1_000, "ts_ns": 1_000_000}  # units in a millisecond


def routed(records: DataFrame) -> DataFrame:
    """Add to each record what it is and which feed it belongs to, as its bytes say.

    Args:
        records: `topic`, `key`, `value`, `headers` and any other columns; rows whose `reason` is set keep it. Where
            they were taken from valid text, `key_text` and `value_text` have it.

    Returns:
        The same rows with `reason`, `kind` (one of `bronze.KINDS`; NULL when quarantined), `op`, `connector`,
        `source_name`, `db`, `schema`, `table`, `feed`, `shape_id` (of `shape`), `has_shape`, `key_fields` (the names of
        its key's fields, as a JSON list; NULL where a record has no state) and `is_suspect`: whether it can be of a
        form that JSON alone doesn't show (`forms`).
    """
    texts = {f"{part}_text": text_of(F.col(part)) for part in ("key", "value")}
    known = {name: F.coalesce(name, text) if name in records.columns else text for name, text in texts.items()}
    routed = records.withColumns(known).transform(_routed)
    return routed.withColumn("is_suspect", is_suspect(F.col("reason"), F.col("kind")))


def routed_by_plain_form(records: DataFrame) -> DataFrame:
    """The same for records whose plain form stands beside their bytes, as `forms.in_plain_form` gives it."""
    wrapped = F.concat(F.lit('{"schema":'), "plain_schema", F.lit(',"payload":'), "plain_value", F.lit("}"))
    # An application decides what the bytes of its events are.
    value = F.when(F.col("is_outbox"), "{}").otherwise(F.coalesce(wrapped, "plain_value", text_of(F.col("value"))))
    key = F.when(F.col("is_outbox"), "{}").otherwise(F.coalesce("plain_key", text_of(F.col("key"))))
    rows = records.withColumn("value_text", value).withColumn("key_text", key).transform(_routed)
    is_event = F.col("is_outbox") & (F.col("reason").isNull() | (F.col("reason") == "no-envelope"))
    return (
        rows.withColumn("kind", F.when(is_event, "outbox").otherwise(F.col("kind")))
        .withColumn("reason", F.when(is_event, None).otherwise(F.col("reason")))
        .drop("is_outbox")
    )


def _routed(records: DataFrame) -> DataFrame:
    """Route records by their `TEXTS`, which the result has no more."""
    options = {**JSON_LIMITS, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_malformed"}
    columns = [name for name in records.columns if name not in ("reason", *TEXTS)]
    # JsonConverter writes {"schema": …, "payload": …}, or the payload alone where schemas are off.
    envelope = F.when(F.col("v.payload").isNotNull(), F.col("v.payload")).otherwise(
        F.struct(*[F.col(f"v.{name}").alias(name) for name in _BLOCK_NAMES])
    )
    # Spark's reader ends behind an object, and says nothing of what follows: within another object it has to go on.
    length = F.octet_length("value_text")
    wrapped = F.concat(F.lit('{"v":'), "value_text", F.lit(',"length":'), length, F.lit("}"))
    ends_there = F.coalesce(F.col("read.length") == length, F.lit(False))
    # A column each: what stands in an expression twice is computed twice.
    parsed = (
        records.withColumn("read", F.from_json(wrapped, _VALUE, options))
        .withColumns({"v": F.col("read.v"), "is_whole": F.col("read._malformed").isNull() & ends_there})
        .withColumn("e", envelope)
        .withColumn("key_names", F.json_object_keys("key_text"))
        .withColumn("is_tombstone", _is_tombstone())
        .withColumn("other_kind", _other_kind())
        .withColumn("reason", F.coalesce("reason", _reason()))
        .withColumn("kind", F.when(F.col("reason").isNull(), _kind()))
    )
    table = F.coalesce("e.source.table", "e.source.collection")
    is_row = F.col("kind").isin("change", "truncate")
    shape = F.when(F.col("kind") == "change", _shape(F.col("v.schema"), F.col("e.after"), "e.source.connector"))
    key_payload = F.when(F.array_contains("key_names", "payload"), F.get_json_object("key_text", "$.payload"))
    # A plain value beside its schema (ExtractField) has no names, as it has none where it stands alone.
    is_plain = F.array_contains("key_names", "payload") & is_beside_schema(F.col("key_text"))
    key_names = (
        F.when(F.col("key_payload").startswith("{"), F.json_object_keys("key_payload"))
        .when(is_plain, None)
        .otherwise(F.col("key_names"))
    )
    key_fields = F.when(F.size("key_names") > 1, F.array_distinct("key_names")).otherwise(F.col("key_names"))
    return (
        parsed.withColumn("shape", shape)
        .withColumn("key_payload", key_payload)
        .withColumn("key_names", key_names)
        .select(
            *columns,
            "reason",
            "kind",
            F.col("e.op").alias("op"),
            F.col("e.source.connector").alias("connector"),
            _source_name().alias("source_name"),
            F.when(is_row, F.col("e.source.db")).alias("db"),
            F.when(is_row, F.col("e.source.schema")).alias("schema"),
            F.when(is_row, table).alias("table"),
            F.when(is_row, feed(F.col("e.source.name"), F.col("e.source.db"), F.col("e.source.schema"), table))
            .otherwise(feed(F.lit("topic"), F.col("topic")))
            .alias("feed"),
            F.xxhash64("shape").alias("shape_id"),
            F.col("shape").isNotNull().alias("has_shape"),
            F.when(F.col("shape").isNotNull(), F.to_json(key_fields)).alias("key_fields"),
        )
    )


def shape() -> Column:
    """The shape of a change with a state: its schema, which a plain form has beside it, or the names of its fields."""
    value = F.from_json(record_text(), "`schema` string, payload struct<after string>, after string", JSON_LIMITS)
    after = F.when(value["payload"].isNotNull(), value["payload"]["after"]).otherwise(value["after"])
    return _shape(F.coalesce("plain_schema", value["schema"]), after, "connector")


def _shape(schema: Column, after: Column, connector: str) -> Column:
    # Each document can have fields of its own: they are no columns.
    fields = F.when(F.col(connector) == DOCUMENTS, F.array().cast("array<string>")).otherwise(F.json_object_keys(after))
    # A schema of something else, as of the row alone in a file that people have cut, describes no column of the state.
    is_its = schema.startswith("[") | schema.contains('"field":"after"') | schema.contains('"field": "after"')
    return F.coalesce(F.when(is_its, schema), F.to_json(F.sort_array(fields)))


def _source_name() -> Column:
    """The topic prefix of the connector that a record is of; NULL for tombstones and boundaries of transactions."""
    parsed_key = F.from_json("key_text", f"payload struct<{_KEY}>, {_KEY}", JSON_LIMITS)
    # Topics have the prefix at their end, whatever `topic.heartbeat.prefix` says.
    of_heartbeat = F.coalesce(
        parsed_key["payload"]["serverName"],
        parsed_key["serverName"],
        F.nullif(F.regexp_extract("topic", "heartbeat[.](.+)$", 1), F.lit("")),
    )
    return (
        F.when(F.col("kind").isin("change", "truncate", "message", "schema_change"), F.col("e.source.name"))
        .when(F.col("kind") == "notification", F.get_json_object("e.additional_data", "$.connector_name"))
        .when(F.col("kind") == "signal", F.btrim("key_text", F.lit('"')))
        .when(F.col("kind") == "heartbeat", of_heartbeat)
    )


def _is_unicode(part: str) -> Column:
    text = F.col(f"{part}_text")
    return F.col(part).isNull() | (text.isNotNull() & ~has_half_letters(text))


def _no_text(part: str) -> Column:
    """The reason of bytes that are no text. AWS Glue's begin with 3, 0 or 5 for how they are packed, and a UUID."""
    is_of_glue = F.substring(part, 1, 2).isin(F.lit(b"\3\0"), F.lit(b"\3\5")) & (F.length(part) > 18)
    return F.when(is_of_glue, "schema-of-glue").otherwise("not-unicode")


def _is_tombstone() -> Column:
    # What JsonConverter makes of a null that has a schema, or whose schema it lost: alone, or behind that.
    null = r'(?s)^\s*(null|\{\s*"schema"\s*:\s*(null|\{.*\})\s*,\s*"payload"\s*:\s*null\s*\})\s*$'
    nothing = F.col("v.payload").isNull() & F.col("e.op").isNull() & F.col("is_whole") & F.col("value_text").rlike(null)
    return (F.col("value").isNull() & F.col("value_text").isNull()) | F.coalesce(nothing, F.lit(False))


def _reason() -> Column:
    op, source, table = F.col("e.op"), F.col("e.source"), F.coalesce("e.source.table", "e.source.collection")
    is_other = F.col("other_kind").isNotNull()
    is_schema_change = F.coalesce(F.col("other_kind") == "schema_change", F.lit(False))
    has_no_name = F.coalesce("e.source.name", F.lit("")) == ""
    key = F.col("key_text")
    # A plain value (ExtractField) is of no column that is known; the row tells the key then.
    is_plain = F.size(F.json_object_keys(F.concat(F.lit('{"key":'), key, F.lit("}")))) == 1
    key_is_json = key.isNull() | F.col("key_names").isNotNull() | F.coalesce(is_plain, F.lit(False))
    is_object = F.json_object_keys("value_text").isNotNull()
    has_message = F.coalesce(F.col("e.message").startswith("{"), F.lit(False))
    has_row = F.coalesce(F.col("e.after").startswith("{"), F.lit(False))
    return (
        F.when(~_is_unicode("key"), _no_text("key"))
        .when(F.col("is_tombstone"), F.lit(None))
        .when(~_is_unicode("value"), _no_text("value"))
        .when(
            F.col("v").isNull() | ~F.col("is_whole"),
            F.when(is_object & ~goes_on(F.col("value_text")), "no-envelope").otherwise("value-not-json"),
        )
        .when(F.col("v.schema").isNotNull() & F.col("v.payload").isNull(), "schema-without-payload")
        .when(is_other & ~is_schema_change, F.lit(None))
        .when(~is_schema_change & (op.isNull() | source.isNull()), "no-envelope")
        .when(~op.isin(*OPS, "m"), "unknown-op")
        .when(has_no_name | (op.isin(*OPS) & (F.coalesce(table, F.lit("")) == "")), "no-source")
        .when(op.isin(*OPS) & ~_has_time(), "no-time")
        .when(~_is_all_numbers(), F.when(_names_types(), "avro-as-text").otherwise("bad-number"))
        .when(is_schema_change, F.lit(None))
        .when(op == "m", F.when(~has_message, "no-message"))
        .when(~key_is_json, "key-not-json")
        .when(op.isin(*ROW_OPS) & ~has_row & ~_is_described(), "no-after")
    )


def _is_described() -> Column:
    """Whether it tells what an update did to a document, which then needn't be there."""
    return (F.col("e.op") == "u") & F.coalesce(F.col("e.updateDescription").startswith("{"), F.lit(False))


def _has_time() -> Column:
    """Whether a time is told; 0 is none (R10)."""
    times = [F.col(f"{block}.{name}") for block in _CLOCKS for name in _UNITS_OF_TIME]
    return reduce(or_, [F.coalesce(time != "0", F.lit(False)) for time in times])


def _is_all_numbers() -> Column:
    """Whether the times and the places in the log that are told are whole numbers that there can be."""
    times = {f"{block}.{name}": units for block in _CLOCKS for name, units in _UNITS_OF_TIME.items()}
    are_whole = [_is_whole(name, _FIRST_MILLIS * units, (LAST_MILLIS + 1) * units - 1) for name, units in times.items()]
    are_whole += [_is_whole(f"e.source.{name}", 0, 10**18 - 1) for name in _NUMBERS_OF_PLACE]
    sequence = F.col("e.source.sequence")
    is_listed = (F.col("e.source.connector") != "postgresql") | sequence.rlike(_SEQUENCE)
    return reduce(and_, [*are_whole, sequence.isNull() | F.coalesce(is_listed, F.lit(True))])


def _names_types() -> Column:
    """Whether a time or place has Avro's type around it, as Avro's own form in JSON has of a union."""
    names = [f"{block}.{name}" for block in _CLOCKS for name in _UNITS_OF_TIME]
    names += [f"e.source.{name}" for name in _NUMBERS_OF_PLACE]
    return reduce(or_, [F.coalesce(F.col(name).startswith('{"long":'), F.lit(False)) for name in names])


def _is_whole(name: str, lowest: int, highest: int) -> Column:
    as_bigint = F.col(name).try_cast("bigint")
    # A cast reads more than digits; only where it does is there anything to look for.
    number = F.when((as_bigint.cast("string") == F.col(name)) | F.col(name).rlike("^-?[0-9]{1,19}$"), as_bigint)
    within = number.between(max(lowest, -(2**63)), min(highest, 2**63 - 1))
    return F.col(name).isNull() | F.coalesce(within, F.lit(False))


def _other_kind() -> Column:
    """What a record without an op is: by its schema's name where it has one, else by its fields."""
    return (
        F.when(F.col("e.op").isNotNull(), F.lit(None))
        .when(
            F.col("e.status").isin("BEGIN", "END") & F.col("e.id").isNotNull() & _has_fields_of(_BOUNDARY),
            "transaction",
        )
        .when(F.col("e.ddl").isNotNull() | F.col("e.tableChanges").isNotNull(), "schema_change")
        .when(
            F.col("e.aggregate_type").isNotNull() & F.col("e.type").isNotNull() & _has_fields_of(_NOTIFICATION),
            "notification",
        )
        .when(F.col("e.ts_ms").isNotNull() & F.col("e.source").isNull() & _is_heartbeat(), "heartbeat")
        .when(F.col("e.type").isNotNull() & _is_signal(), "signal")
    )


def _has_fields_of(names: Sequence[str]) -> Column:
    """Whether its fields are an event's: the last of them, which no row of an application has, or none but these."""
    own = F.json_object_keys("value_text")
    of_payload = F.json_object_keys(F.get_json_object("value_text", "$.payload"))
    fields = F.when(F.size(F.array_except(own, text_array(["schema", "payload"]))) == 0, of_payload).otherwise(own)
    return F.coalesce(
        F.array_contains(fields, names[-1]) | (F.size(F.array_except(fields, text_array(names))) == 0), F.lit(False)
    )


def _is_heartbeat() -> Column:
    """Whether a value with a time alone is a heartbeat, whatever its topic's name is."""
    keys = F.json_object_keys(object_of_key(F.col("key_text")))
    return F.coalesce(
        F.col("v.schema").contains("io.debezium.connector.common.Heartbeat")
        | F.col("topic").contains("heartbeat")
        | (keys == F.array(F.lit("serverName"))),
        F.lit(False),
    )


def _is_signal() -> Column:
    """Whether it is what the connector reads as a signal: the topic prefix as key, a type, data, and nothing else.

    An application's event can look so too: the type is one of the connector's, or the topic says what it is.
    """
    others = F.array_except(F.json_object_keys("value_text"), text_array(["id", "type", "data"]))
    is_prefix = ~F.col("key_text").rlike(r"^\s*([{\[]|$)")
    is_known = F.col("e.type").isin(*_SIGNALS) | F.col("topic").rlike("(?i)signals?$")
    return F.coalesce((F.size(others) == 0) & is_prefix & is_known, F.lit(False))


def _kind() -> Column:
    return (
        F.when(F.col("is_tombstone"), "tombstone")
        .when(F.col("e.op") == "m", "message")
        .when(F.col("e.op") == "t", "truncate")
        .when(F.col("e.op").isNotNull(), "change")
        .otherwise(F.col("other_kind"))
    )
