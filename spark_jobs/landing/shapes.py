"""Shapes: which columns a value's row has, how each is encoded, and the Spark type it is given (R6, R8).

How each encoding is decoded is spelled in `macros/types`.

An encoding is written as the semantic type, or the literal one where a column has none. Behind a colon follow a
decimal's scale, with `:wide` where its precision isn't known to be within Spark's 38 digits, an array's elements, and
that what nobody here knows comes as bytes: `org.apache.kafka.connect.data.Decimal:2`, `array:io.debezium.time.Date`,
`com.example.Opaque:bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.landing.forms import is_added
from spark_jobs.names import literal_map
from spark_jobs.places import Places
from spark_jobs.record import JSON_LIMITS

# The most digits that a Spark decimal holds.
_DIGITS = 38
# The most that a database lets a column declare.
_MOST_DECLARED = 1000
# What a decimal is given whose column has no scale: of numbers with more digits in front or behind the text is kept.
_ANY_SCALE = 18
_OF_ANY_SCALE = f"decimal({_DIGITS},{_ANY_SCALE})"

_TYPE = "type: string, name: string, parameters: map<string,string>"
_COLUMN = (
    f"`field`: string, optional: boolean, `default`: string, {_TYPE}, items: struct<{_TYPE}>,"
    " fields: array<struct<`field`: string>>"
)
_VALUE_SCHEMA = (
    "struct<flattened: boolean, qualified: boolean,"
    f" fields: array<struct<`field`: string, fields: array<struct<{_COLUMN}>>>>>"
)

DECIMAL = "org.apache.kafka.connect.data.Decimal"
# MySQL's, where the record's schema has the source's own types: its values from 2^63 come as negative ones. Those of a
# table that is made while the connector runs are spelled as in its statement.
UNSIGNED = "bigint unsigned"
IS_UNSIGNED = "^(?i)(bigint|int8) unsigned"
# The same in 32 bits: before Debezium 3.6.1 a statement's INTEGER UNSIGNED, which it doesn't take for INT UNSIGNED.
INT_UNSIGNED = "int unsigned"
IS_INT_UNSIGNED = "^(?i)integer unsigned"
UNSIGNED_TYPES = {UNSIGNED: "decimal(20,0)", INT_UNSIGNED: "bigint"}
# What `column.propagate.source.type` adds to a column's schema: its type in the source, length and scale. A type of the
# user's own can begin with these words, too.
_SOURCE_COLUMN = "__debezium.source.column."
_BYTEA = "BYTEA"
_IS_DECIMAL = r"^(?i)(numeric|decimal|number)(\(\))?( (unsigned|signed|zerofill|identity))*$"
_POINT = "struct<x:double,y:double,wkb:binary,srid:int>"
_GEOMETRY = "struct<wkb:binary,srid:int>"
# From Debezium 3.7 on a geometry says what WKB can't, such as whether PostgreSQL's path is closed.
_EXTENSIONS = "extensions"
_EXTENDED = f"{_GEOMETRY[:-1]},{_EXTENSIONS}:map<string,string>>"

# Semantic type → Spark type. Times of day have no Spark type in 4.0: they are text, HH:MM:SS.ffffff. None stands for
# the literal type's.
SEMANTIC_TYPES = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.IsoDate": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.Time": "string",
    "io.debezium.time.MicroTime": "string",
    "io.debezium.time.NanoTime": "string",
    "io.debezium.time.IsoTime": "string",
    "io.debezium.time.ZonedTime": "string",
    "org.apache.kafka.connect.data.Time": "string",
    "io.debezium.time.Timestamp": "timestamp_ntz",
    "io.debezium.time.MicroTimestamp": "timestamp_ntz",
    "io.debezium.time.NanoTimestamp": "timestamp_ntz",
    "io.debezium.time.IsoTimestamp": "timestamp_ntz",
    "org.apache.kafka.connect.data.Timestamp": "timestamp_ntz",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.MicroDuration": None,
    "io.debezium.time.NanoDuration": None,
    "io.debezium.time.Interval": "string",
    "io.debezium.time.Year": "int",
    DECIMAL: None,
    **UNSIGNED_TYPES,
    "io.debezium.data.VariableScaleDecimal": _OF_ANY_SCALE,
    "io.debezium.data.Bits": "binary",
    "io.debezium.data.Json": "string",
    "io.debezium.data.Xml": "string",
    "io.debezium.data.Uuid": "string",
    "io.debezium.data.Ltree": "string",
    "io.debezium.data.Enum": "string",
    "io.debezium.data.EnumSet": "string",
    "io.debezium.data.TsVector": "string",
    "io.debezium.data.Tsvector": "string",
    "io.debezium.data.FloatVector": "array<float>",
    "io.debezium.data.DoubleVector": "array<double>",
    "io.debezium.data.SparseVector": "string",
    "io.debezium.data.SparseDoubleVector": "string",
    "io.debezium.data.geometry.Point": _POINT,
    "io.debezium.data.geometry.Geometry": _GEOMETRY,
    "io.debezium.data.geometry.Geography": _GEOMETRY,
}
LITERAL_TYPES = {
    "boolean": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "string": "string",
    "bytes": "binary",
    "map": "map<string,string>",
    "struct": "string",
}


def fields_of(shape: Column) -> Column:
    """The fields of a shape: from an embedded schema, or by name alone, as text, where there is none."""
    schema = F.from_json(shape, _VALUE_SCHEMA, JSON_LIMITS)
    is_flattened, is_qualified = (F.coalesce(schema[name], F.lit(False)) for name in ("flattened", "qualified"))
    image = _row_of(schema)
    # Of a name that a schema has twice the last counts, as in the row itself; a field without a name is none.
    described = F.transform(
        F.filter(
            image,
            lambda c, i: (
                c["field"].isNotNull()
                # What a flattened row was given beside its columns is none of them.
                & ~(is_flattened & is_added(c["field"], is_qualified))
                & ~F.exists(F.slice(image, i + 2, F.size(image)), lambda later: later["field"] == c["field"])
            ),
        ),
        lambda c: F.struct(
            c["field"].alias("name"),
            F.when(_is_array(c) & c["name"].isNull(), F.concat(F.lit("array:"), _encoding(c["items"])))
            .otherwise(_encoding(c))
            .alias("encoding"),
            F.when(_is_array(c), F.concat(F.lit("array<"), _spark_type(c["items"]), F.lit(">")))
            .when(_is_extended(c), _EXTENDED)
            .otherwise(_spark_type(c))
            .alias("spark_type"),
            F.coalesce(c["optional"], F.lit(False)).alias("is_optional"),
            c["default"].alias("default_value"),
        ),
    )
    named = F.transform(
        F.array_distinct(F.array_compact(F.from_json(shape, "array<string>", JSON_LIMITS))),
        lambda name: F.struct(
            name.alias("name"),
            F.lit(None).cast("string").alias("encoding"),
            F.lit("string").alias("spark_type"),
            F.lit(True).alias("is_optional"),
            F.lit(None).cast("string").alias("default_value"),
        ),
    )
    return F.when(shape.startswith("["), named).otherwise(described)


def bytes_as_text(spark: SparkSession, places: Places, shapes: Iterable[Row]) -> set[tuple[str, str]]:
    """The feeds and fields that are text, and PostgreSQL's `bytea` where a schema tells the source's types.

    Args:
        spark: The session.
        places: Where bronze is.
        shapes: Those of bronze. Where none names that type, nothing is asked.
    """
    feeds = {shape["feed"] for shape in shapes if _BYTEA in (shape["shape"] or "")}
    if not feeds:
        return set()
    told = bronze.read(spark, places, "shapes").where(F.col("feed").isin(*feeds) & F.col("shape").contains(_BYTEA))
    row = _row_of(F.from_json("shape", _VALUE_SCHEMA, JSON_LIMITS))
    is_text = F.expr(f"one.type = 'string' and one.parameters['{_SOURCE_COLUMN}type'] = '{_BYTEA}'")
    names = told.select("feed", F.explode(row).alias("one")).where(is_text).select("feed", "one.field").distinct()
    return {(one["feed"], one["field"]) for one in names.collect()}


def _row_of(schema: Column) -> Column:
    """The columns of the row that a value's schema describes."""
    return F.get(F.filter(schema["fields"], lambda part: part["field"].isin("after")), F.lit(0))["fields"]


def unknown_type(encoding: Column) -> Column:
    """The semantic type that an encoding names, where this version doesn't know it and reads its literal type."""
    name = F.split_part(F.regexp_replace(encoding, "^array:", ""), F.lit(":"), F.lit(1))
    return F.when(~name.isin(*SEMANTIC_TYPES, *LITERAL_TYPES, "array"), name)


def _is_array(column: Column) -> Column:
    """Whether the elements say the column's type: no known semantic type does."""
    return (column["type"] == "array") & _lookup(SEMANTIC_TYPES, column["name"]).isNull()


def _is_extended(column: Column) -> Column:
    """Whether a schema gives a geometry a field beside those that all have."""
    has_extensions = F.exists(column["fields"], lambda part: part["field"] == _EXTENSIONS)
    return F.coalesce((_lookup(SEMANTIC_TYPES, column["name"]) == _GEOMETRY) & has_extensions, F.lit(False))


def _encoding(described: Column) -> Column:
    name = F.coalesce(described["name"], described["type"])
    precision = described["parameters"]["connect.decimal.precision"].try_cast("int")
    source_type = described["parameters"][f"{_SOURCE_COLUMN}type"]
    is_unsigned = (described["type"] == "int64") & source_type.rlike(IS_UNSIGNED)
    is_int_unsigned = (described["type"] == "int32") & source_type.rlike(IS_INT_UNSIGNED)
    scale = F.coalesce(described["parameters"]["scale"], F.lit("unknown"))
    scaled = F.concat_ws(":", name, scale, F.when(~_fits(precision), "wide"))
    is_opaque = (described["type"] == "bytes") & ~described["name"].isin(*SEMANTIC_TYPES)
    return (
        F.when(described["name"] == DECIMAL, scaled)
        .when(is_unsigned, UNSIGNED)
        .when(is_int_unsigned, INT_UNSIGNED)
        .when(is_opaque, F.concat(name, F.lit(":bytes")))
        .otherwise(name)
    )


def _fits(precision: Column) -> Column:
    return F.coalesce(precision <= _DIGITS, F.lit(False))


def _spark_type(described: Column) -> Column:
    parameters = described["parameters"]
    source_scale = parameters[f"{_SOURCE_COLUMN}scale"].try_cast("int")
    source_length = parameters[f"{_SOURCE_COLUMN}length"].try_cast("int")
    # In the modes `string` and `double` of decimals only the source's type tells of them.
    is_source_decimal = (
        described["type"].isin("string", "double")
        & described["name"].isNull()
        & parameters[f"{_SOURCE_COLUMN}type"].rlike(_IS_DECIMAL)
        & source_scale.isNotNull()
    )
    # What has no scale of its own is told with another: PostgreSQL's `numeric` as one of 131089 digits without a
    # fraction, Oracle's `number` with the scale -127.
    has_scale = (source_scale >= 0) & F.coalesce(source_length <= _MOST_DECLARED, F.lit(True))
    scale = F.coalesce(parameters["scale"].try_cast("int"), source_scale, F.lit(0))
    precision = F.coalesce(parameters["connect.decimal.precision"].try_cast("int"), source_length, F.lit(_DIGITS))
    # Of NUMBER(2,5) and numeric(2,5) the digits begin behind the point; MySQL's length of a whole number is that of its
    # display.
    digits = F.least(F.greatest(precision, scale, F.lit(1)), F.lit(_DIGITS))
    # Of DECIMAL(65,30) most numbers have digits in front of the point, and few use all behind it.
    kept = F.greatest(F.lit(_ANY_SCALE), F.lit(_DIGITS) - (precision - scale))
    scale = F.when(precision > _DIGITS, F.least(scale, kept)).otherwise(scale)
    decimal = (
        F.when(
            F.coalesce(parameters[f"{_SOURCE_COLUMN}type"].rlike(IS_UNSIGNED), F.lit(False)), UNSIGNED_TYPES[UNSIGNED]
        )
        .when(scale.between(0, _DIGITS), F.concat(F.lit("decimal("), digits, F.lit(","), scale, F.lit(")")))
        .when(scale > _DIGITS, _OF_ANY_SCALE)
        .otherwise(f"decimal({_DIGITS},0)")
    )
    semantic = _lookup(SEMANTIC_TYPES, F.split_part(_encoding(described), F.lit(":"), F.lit(1)))
    return (
        F.when((described["name"] == DECIMAL) | (is_source_decimal & has_scale), decimal)
        .when(is_source_decimal, _OF_ANY_SCALE)
        .otherwise(F.coalesce(semantic, _lookup(LITERAL_TYPES, described["type"]), F.lit("string")))
    )


def _lookup(table: Mapping[str, str | None], name: Column) -> Column:
    return literal_map({one: kind for one, kind in table.items() if kind})[name]
