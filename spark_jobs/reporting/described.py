"""What the shapes in bronze, and statements of the source, say of a captured table's columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.connectors import connector_named
from spark_jobs.declarations import CapturedTable
from spark_jobs.delta import is_table
from spark_jobs.landing.shapes import UNSIGNED_TYPES, bytes_as_text, unknown_type
from spark_jobs.places import Places
from spark_jobs.reporting.measures import NOTHING, Asked
from spark_jobs.scaffolding.types import encoding_to_declare, type_of_all
from spark_jobs.statements import large_columns
from spark_jobs.unsigned import Unsigned, unsigned_columns

# What the schema of a flattened row begins with, as landing writes it.
_FLATTENED = '{"flattened":true'
_BASE64 = ("base64", "base64-url-safe")


@dataclass(frozen=True, slots=True)
class Fields:
    """What the embedded schemas of a table say, and statements of its source.

    What is to be asked of its columns: nullable ones with a default, and those whose large values are left out as NULL,
    where no declaration says so. Columns of times that may have been cut; semantic types that aren't known; columns
    declared binary that come as text, where no declaration says of which encoding. `untold` are columns of which some
    records have no schema, and no declaration says how they are encoded, each with its type and encoding; `spelled` are
    columns declared `string` whose encodings spell one value in several ways, each with a type that reads all of them.
    Columns that the newest statement makes unsigned or signed, and the declarations don't; the records' own key, where
    the model declares none. Without a schema (`is_described` false) any column may be nullable and have a default. What
    counts is the newest shape that has the column, since settings can have been mended, and every one where a
    declaration has to tell what records don't. `is_flattened` is whether a transform has flattened the rows,
    `is_rerouted` whether keys have what a router of topics adds.
    """

    asked: Asked = NOTHING
    connect_times: tuple[str, ...] = ()
    unknown_types: tuple[str, ...] = ()
    binary_texts: tuple[str, ...] = ()
    untold: tuple[tuple[str, str, str], ...] = ()
    spelled: tuple[tuple[str, str], ...] = ()
    is_described: bool = True
    is_flattened: bool = False
    unsigned: tuple[str, ...] = ()
    signed: tuple[str, ...] = ()
    own_key: tuple[str, ...] = ()
    is_rerouted: bool = False


def fields(spark: SparkSession, places: Places, tables: Sequence[CapturedTable]) -> dict[str, Fields]:
    """What the shapes in bronze say of each captured table's columns."""
    if not is_table(spark, places.table("bronze", "shapes")):
        return {}
    encoding = F.col("one.encoding")
    fields_seen = bronze.read(spark, places, "shapes").select(F.explode("fields").alias("one"))
    unknown = fields_seen.select(encoding.alias("encoding"), unknown_type(encoding).alias("type")).distinct()
    unknown_types = {row["encoding"]: row["type"] for row in unknown.where("type is not null").collect()}
    every = _by_age(spark, places)
    shapes = bronze.by_feed(every)
    bare = [feed for feed, seen in shapes.items() if (seen[-1]["shape"] or "").startswith("[")]
    flattened = _flattened(spark, places, bare)
    unsigned = unsigned_columns(spark, places, every)
    of_bytes = bytes_as_text(spark, places, every)
    large = large_columns(spark, places, every)
    return {
        table.name: _fields(
            table,
            shapes[table.feed],
            unknown_types,
            unsigned.get(table.feed, {}),
            large=large.get(table.feed, set()),
            of_bytes={name for feed, name in of_bytes if feed == table.feed},
            is_flattened=table.feed in flattened,
        )
        for table in tables
        if table.feed in shapes
    }


def _by_age(spark: SparkSession, places: Places) -> list[Row]:
    """All shapes. Those of a feed that differ in what counts here come in the order of their age, which takes long."""
    shapes = bronze.read(spark, places, "shapes").collect()
    ways: dict[tuple[str, str], set[object]] = {}
    for shape in shapes:
        ways.setdefault((shape["feed"], ""), set()).add(_is_flattened(shape))
        for field in shape["fields"] or ():
            ways.setdefault((shape["feed"], field["name"]), set()).add(field)
    several = {feed for (feed, _), fields in ways.items() if len(fields) > 1}
    alike = [shape for shape in shapes if shape["feed"] not in several]
    return [*alike, *(bronze.shapes_by_age(spark, places, several) if several else ())]


def _is_flattened(shape: Row) -> bool:
    return (shape["shape"] or "").startswith(_FLATTENED)


def _flattened(spark: SparkSession, places: Places, feeds: Sequence[str]) -> set[str]:
    """Those of the feeds of records without schemas whose rows a transform has flattened."""
    if not feeds:
        return set()
    is_update = F.col("feed").isin(*feeds) & (F.col("kind") == "change") & (F.col("op") == "u")
    is_event = F.col("value").cast("string").contains('"specversion"')
    records = bronze.read(spark, places, "records").where(is_update & F.col("plain_value").isNotNull() & ~is_event)
    return {row["feed"] for row in records.select("feed").distinct().collect()}


def _fields(
    table: CapturedTable,
    shapes: Sequence[Row],
    unknown: Mapping[str, str],
    unsigned: Mapping[str, Unsigned],
    *,
    large: Set[str] = frozenset(),
    of_bytes: Set[str] = frozenset(),
    is_flattened: bool,
) -> Fields:
    connector = connector_named(shapes[-1]["connector"] or "")
    seen = bronze.fields_by_name(shapes)
    newest = {name: of_field[-1] for name, of_field in seen.items()}
    encodings = {name: field["encoding"] for name, field in newest.items()}
    undescribed = {name for name, encoding in encodings.items() if encoding is None}
    defaulted = {name for name, field in newest.items() if field["is_optional"] and field["default_value"] is not None}
    keys = {spec["field"] for spec in table.columns if spec["name"] in table.key}
    binary = {spec["field"] for spec in table.columns if spec["type"] == "binary" and not spec["encoding"]}
    as_declared = {spec["field"] for spec in table.columns if spec["encoding"] in UNSIGNED_TYPES}
    # Without an encoding, bare records of bytes look the same in the mode that has a placeholder.
    of_bytes = of_bytes | {
        spec["field"]
        for spec in table.columns
        if spec["type"] == "binary"
        and (spec["encoding"] in _BASE64 or (not spec["encoding"] and encodings.get(spec["field"])))
    }
    as_null = {name for name, one in encodings.items() if connector.leaves_as_null(one, is_bytes=name in of_bytes)}
    as_unchanged = {spec["field"] for spec in table.columns if spec.get("null_is_unchanged")}
    never_null = {name for name, field in newest.items() if field["is_optional"] is False}
    null_in_stream = {name for name, one in encodings.items() if connector.may_be_null_in_stream(one)} - never_null
    may_be_large = {name for name, one in encodings.items() if connector.may_be_large(one)}
    is_unsigned = {name: one.is_now for name, one in unsigned.items() if one.is_hidden(seen.get(name, ()))}
    of_keys = [json.loads(shape["key_fields"]) for shape in shapes if shape["key_fields"]]
    key_fields = {*of_keys[-1]} if of_keys else set()
    return Fields(
        asked=Asked(
            defaulted=_columns(table, (defaulted | undescribed) - keys),
            null_in_stream=_named_here(table, null_in_stream),
            may_be_large=_named_here(table, may_be_large),
            large=_named_here(table, may_be_large & large),
            left_as_null=_columns(table, as_null - as_unchanged),
        ),
        connect_times=_columns(table, {name for name, one in encodings.items() if one in connector.cut_times}),
        unknown_types=tuple(sorted({unknown[one] for one in encodings.values() if one in unknown})),
        binary_texts=_columns(
            table, {name for name in binary if any(one["encoding"] in (None, "string") for one in seen.get(name, ()))}
        ),
        untold=tuple(
            (spec["name"], spec["type"], encoding)
            for spec in table.columns
            if not spec["encoding"] and (encoding := encoding_to_declare(seen.get(spec["field"], ()), spec["type"]))
        ),
        spelled=tuple(
            (spec["name"], kind)
            for spec in table.columns
            if spec["type"] == "string"
            and (kind := type_of_all([one for one in seen.get(spec["field"], ()) if one["encoding"]]))
        ),
        is_described=not undescribed,
        is_flattened=is_flattened or _is_flattened(shapes[-1]),
        unsigned=_named_here(table, {name for name, is_now in is_unsigned.items() if is_now} - as_declared),
        signed=_named_here(table, {name for name, is_now in is_unsigned.items() if not is_now} & as_declared),
        own_key=() if table.key else _named_here(table, key_fields - {*bronze.ROUTER_FIELDS}),
        is_rerouted=not key_fields.isdisjoint(bronze.ROUTER_FIELDS),
    )


def _columns(table: CapturedTable, fields_there: set[str]) -> tuple[str, ...]:
    return tuple(spec["name"] for spec in table.columns if spec["field"] in fields_there)


def _named_here(table: CapturedTable, fields_there: set[str]) -> tuple[str, ...]:
    """The same with those that no model declares, under their own names."""
    undeclared = fields_there - {spec["field"] for spec in table.columns}
    return (*_columns(table, fields_there), *sorted(undeclared))
