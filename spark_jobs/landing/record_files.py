"""Record files to rows: JSON lines as in a capture, and what `kcat -J` prints. Pure: frames in, frames out."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_LINE = (
    "topic string, partition int, offset bigint, timestamp bigint, key string, value string, headers string,"
    " payload string, ts bigint, tstype string, _malformed string"
)
_HEADERS = "array<struct<key: string, value: string>>"
_LAST_MILLIS = 253402300799999  # the end of 9999, which Spark and its readers agree on


def records_of(lines: DataFrame) -> DataFrame:
    """One row per line: the record it holds, and `reason` where it holds none.

    Args:
        lines: `value` (a line of text) and `origin` (the file it is from).

    Returns:
        `line`, `origin`, `reason` (a code of R2 or NULL), `topic`, `partition`, `offset`, `timestamp`,
        `key`, `value` (binary), `headers` (array of key and binary value).
    """
    line = F.regexp_replace("value", "^\ufeff|\r$", "")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_malformed"}
    parsed = lines.select(line.alias("line"), "origin", F.from_json(line, _LINE, options).alias("r"))
    is_kcat = F.col("r.tstype").isNotNull() | F.col("r.ts").isNotNull() | F.col("r.payload").isNotNull()
    value = F.when(is_kcat, F.col("r.payload")).otherwise(F.col("r.value"))
    millis = F.when(is_kcat, F.col("r.ts")).otherwise(F.col("r.timestamp"))
    return parsed.select(
        "line",
        "origin",
        _reason().alias("reason"),
        F.col("r.topic").alias("topic"),
        F.col("r.partition").alias("partition"),
        F.col("r.offset").alias("offset"),
        F.when(millis.between(0, _LAST_MILLIS), F.timestamp_millis(millis)).alias("timestamp"),
        F.encode("r.key", "utf-8").alias("key"),
        F.encode(value, "utf-8").alias("value"),
        _headers(is_kcat).alias("headers"),
    )


def _reason() -> Column:
    is_record = F.col("r.topic").isNotNull() & F.col("r.partition").isNotNull() & F.col("r.offset").isNotNull()
    return F.when(F.col("r").isNull() | F.col("r._malformed").isNotNull(), "line-not-json").when(
        ~is_record, "line-without-position"
    )


def _headers(is_kcat: Column) -> Column:
    pairs = F.from_json("r.headers", _HEADERS)
    flat = F.from_json("r.headers", "array<string>")
    # kcat prints key, value, key, value …
    paired = F.when(
        F.size(flat) > 0,
        F.transform(
            F.sequence(F.lit(1), F.size(flat), F.lit(2)),
            lambda i: F.struct(
                F.try_element_at(flat, i).alias("key"), F.try_element_at(flat, i + F.lit(1)).alias("value")
            ),
        ),
    )
    chosen = F.when(is_kcat, paired).otherwise(pairs)
    binary = F.transform(
        chosen, lambda h: F.struct(h["key"].alias("key"), F.encode(h["value"], "utf-8").alias("value"))
    )
    return F.coalesce(binary, F.array().cast("array<struct<key: string, value: binary>>"))
