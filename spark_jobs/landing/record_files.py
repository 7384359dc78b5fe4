"""Record files to rows: JSON lines as in a capture, and what `kcat -J` prints. Pure: frames in, frames out."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.names import text_array
from spark_jobs.record import HEADERS, JSON_LIMITS, LAST_MILLIS, goes_on, has_half_letters

_LINE = (
    "topic string, partition int, offset bigint, timestamp bigint, key string, value string, headers string,"
    " key_base64 string, value_base64 string, payload string, ts bigint, tstype string, key_error string,"
    " payload_error string, _malformed string"
)
# Field → its type; and the same line read as texts alone.
_KINDS = dict(field.split() for field in _LINE.split(", "))
_LINE_OF_TEXTS = ", ".join(f"{name} string" for name in _KINDS)
_TIMES = ("timestamp", "ts")
_WHOLE = "^[0-9]+$"
_ISO_8601 = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$"
_OF_VALUES = ("value", "payload", "value_base64")
# `broker` is kcat's.
_FIELDS = (*(name for name in _KINDS if name != "_malformed"), "broker")
_PARSED_HEADERS = "array<struct<key: string, value: string, value_base64: string>>"


def records_of(lines: DataFrame) -> DataFrame:
    """One row per line: the record it holds, and `reason` where it holds none.

    Args:
        lines: `value` (a line of text) and `origin` (the file it is from).

    Returns:
        `line` (where that has a `reason`), `origin`, `reason` (a code of R2 or NULL), `topic`, `partition`, `offset`,
        `timestamp`, `key`, `value` (binary, given as text or as `key_base64` and `value_base64`; of a line that is no
        UTF-8 its bytes), `headers` (array of key and binary value), `key_text` and `value_text` (where given as text).
    """
    options = {**JSON_LIMITS, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_malformed"}
    is_kcat = F.col("r.tstype").isNotNull() | F.col("r.ts").isNotNull() | F.col("r.payload").isNotNull()
    of_texts = F.struct(*[_number(name, kind).alias(name) for name, kind in _KINDS.items()])
    # A column each: what stands in an expression twice is computed twice.
    parsed = (
        lines.withColumn("is_utf8", F.is_valid_utf8("value"))
        .withColumn("line", _line(F.when(F.col("is_utf8"), F.col("value")).otherwise(F.make_valid_utf8("value"))))
        .withColumn("is_text", F.col("is_utf8") & ~has_half_letters(F.col("line")))
        .withColumn("bytes", F.when(~F.col("is_utf8"), F.col("value").cast("binary")))
        .withColumn("r", F.when(F.col("is_text"), F.from_json("line", _LINE, options)))
        # Read once more where a number is spelled otherwise, or something is no JSON: few lines are.
        .withColumn("texts", F.when(F.col("r._malformed").isNotNull(), F.from_json("line", _LINE_OF_TEXTS, options)))
        .withColumn("r", F.when(F.col("texts").isNull(), F.col("r")).otherwise(of_texts))
        .withColumn("parsed_headers", F.when(F.col("r.headers").isNotNull(), _parsed_headers(is_kcat)))
    )
    # kcat has other names for the value and the time; a line can have the names of both.
    value = F.coalesce("r.payload", "r.value")
    millis = F.coalesce("r.ts", "r.timestamp")
    return parsed.withColumn("reason", _reason()).select(
        F.when(F.col("reason").isNotNull(), F.col("line")).alias("line"),
        "origin",
        "reason",
        F.col("r.topic").alias("topic"),
        F.col("r.partition").alias("partition"),
        F.col("r.offset").alias("offset"),
        F.when(millis.between(0, LAST_MILLIS), F.timestamp_millis(millis)).alias("timestamp"),
        _bytes(F.col("r.key"), F.col("r.key_base64")).alias("key"),
        F.coalesce("bytes", _bytes(value, F.col("r.value_base64"))).alias("value"),
        _headers().alias("headers"),
        F.col("r.key").alias("key_text"),
        value.alias("value_text"),
    )


def _number(name: str, kind: str) -> Column:
    """A field of the reading as texts; of a number NULL where the text is none."""
    text = F.col(f"texts.{name}")
    if kind == "string":
        return text
    number = F.when(text.rlike(_WHOLE), text.try_cast(kind))
    if name not in _TIMES:
        return number
    return F.coalesce(number, F.when(text.rlike(_ISO_8601), F.unix_millis(F.try_to_timestamp(text))))


def _has_bad_number() -> Column:
    numbers = [name for name, kind in _KINDS.items() if kind != "string"]
    return reduce(or_, [F.col(f"texts.{name}").isNotNull() & F.col(f"r.{name}").isNull() for name in numbers])


def _line(text: Column) -> Column:
    """A line without what editors put before the first one and at the end of each."""
    has_ends = text.startswith("\ufeff") | text.endswith("\r")
    return F.when(has_ends, F.regexp_replace(text, "^\ufeff|\r$", "")).otherwise(text)


def _bytes(text: Column, base64: Column) -> Column:
    """Bytes that a line gives as text, or in base64 where they are none."""
    return F.coalesce(text.cast("binary"), F.try_to_binary(base64, F.lit("base64")))


def _line_goes_on(line: Column) -> Column:
    """Whether something stands behind a line's object (`goes_on`): since values are texts, few look as if it did."""
    # By bytes: to find the second letter of a text, Spark counts all of them.
    rest = F.substring(line.cast("binary"), 2, 2**31 - 1)
    looks_so = ~line.startswith('{"') | ~line.endswith("}") | F.contains(rest, F.lit(b'{"'))
    return F.when(looks_so, goes_on(line)).otherwise(F.lit(False))


# The reasons that a line has, whatever its record's value may be: what can't be read of it is in the line alone.
OF_LINES = (
    "line-not-json", "line-bad-number", "line-not-decoded", "line-without-offset", "line-without-value",
    "base64-not-understood", "headers-not-understood",
)  # fmt: skip


def _reason() -> Column:
    is_record = F.col("r.topic").isNotNull() & F.col("r.partition").isNotNull() & F.col("r.offset").isNotNull()
    return (
        F.when(~F.col("is_text"), "not-unicode")
        .when(F.col("r").isNull() | F.col("r._malformed").isNotNull() | _line_goes_on(F.col("line")), "line-not-json")
        .when(F.col("texts").isNotNull() & _has_bad_number(), "line-bad-number")
        .when(~is_record, "line-without-offset")
        .when(F.coalesce("r.key_error", "r.payload_error").isNotNull(), "line-not-decoded")
        .when(_has_its_value_elsewhere(), "line-without-value")
        .when(~_is_base64("r.key_base64") | ~_is_base64("r.value_base64"), "base64-not-understood")
        .when(F.col("r.headers").isNotNull() & ~_are_headers(F.col("parsed_headers")), "headers-not-understood")
    )


def _has_its_value_elsewhere() -> Column:
    """Whether a line has no field for a value, and others that no reader knows: one of them may be the value.

    Who leaves NULLs out writes a tombstone without it, and nothing that isn't known.
    """
    has_value = F.coalesce("r.value", "r.payload", "r.value_base64").isNotNull()
    names = F.json_object_keys("line")
    has_field = F.arrays_overlap(names, text_array(_OF_VALUES))
    has_more = F.size(F.array_except(names, text_array(_FIELDS))) > 0
    return F.when(~has_value, ~has_field & has_more).otherwise(F.lit(False))


def _is_base64(name: str) -> Column:
    return F.col(name).isNull() | F.try_to_binary(name, F.lit("base64")).isNotNull()


def _headers() -> Column:
    binary = F.transform(
        "parsed_headers",
        lambda h: F.struct(h["key"].alias("key"), _bytes(h["value"], h["value_base64"]).alias("value")),
    )
    return F.coalesce(binary, F.array().cast(HEADERS))


def _are_headers(headers: Column) -> Column:
    return headers.isNotNull() & ~F.exists(
        headers,
        lambda header: (
            header["key"].isNull()
            | (header["value_base64"].isNotNull() & F.try_to_binary(header["value_base64"], F.lit("base64")).isNull())
        ),
    )


def _parsed_headers(is_kcat: Column) -> Column:
    pairs = F.from_json("r.headers", _PARSED_HEADERS, JSON_LIMITS)
    flat = F.from_json("r.headers", "array<string>", JSON_LIMITS)
    # kcat prints key, value, key, value …
    paired = F.transform(
        F.sequence(F.lit(1), F.size(flat), F.lit(2)),
        lambda i: F.struct(
            F.try_element_at(flat, i).alias("key"),
            F.try_element_at(flat, i + F.lit(1)).alias("value"),
            F.lit(None).cast("string").alias("value_base64"),
        ),
    )
    empty = F.array().cast(_PARSED_HEADERS)
    none = F.col("r.headers") == "[]"
    is_flat = is_kcat & ~F.col("r.headers").startswith("[{")
    return F.when(none, empty).when(~is_flat, pairs).when(F.size(flat) == 0, empty).when(F.size(flat) > 0, paired)
