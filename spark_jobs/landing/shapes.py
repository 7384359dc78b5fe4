"""Shapes: which columns a value's row has, how each is encoded, and the Spark type it is given (R6, R8).

The table of encodings is change-events.md, section 17. How each is decoded is spelled in `macros/types`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

FIELD = "array<struct<name: string, encoding: string, spark_type: string, is_optional: boolean, default_value: string>>"

_COLUMN = (
    "`field`: string, type: string, name: string, optional: boolean, `default`: string,"
    " parameters: map<string,string>, items: struct<type: string, name: string, parameters: map<string,string>>,"
    " keys: struct<type: string>, `values`: struct<type: string>"
)
_VALUE_SCHEMA = f"struct<fields: array<struct<`field`: string, fields: array<struct<{_COLUMN}>>>>>"

SEMANTIC_TYPES = {
    "io.debezium.time.Date": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.Timestamp": "timestamp_ntz",
    "io.debezium.time.MicroTimestamp": "timestamp_ntz",
    "io.debezium.time.NanoTimestamp": "timestamp_ntz",
    "org.apache.kafka.connect.data.Timestamp": "timestamp_ntz",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.MicroDuration": "bigint",
    "io.debezium.time.Year": "int",
    "io.debezium.data.VariableScaleDecimal": "decimal(38,18)",
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
}
# Times of day have no Spark type in 4.0: they are text, HH:MM:SS.ffffff.
_TEXT = ("io.debezium.time.Time", "io.debezium.time.MicroTime", "io.debezium.time.NanoTime",
         "org.apache.kafka.connect.data.Time")  # fmt: skip
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def fields_of(shape: Column) -> Column:
    """The fields of a shape: from an embedded schema, or by name alone, as text, where there is none."""
    schema = F.from_json(shape, _VALUE_SCHEMA)
    image = F.filter(schema["fields"], lambda part: part["field"].isin("after"))[0]["fields"]
    described = F.transform(
        image,
        lambda c: F.struct(
            c["field"].alias("name"),
            _encoding(c).alias("encoding"),
            _spark_type(c).alias("spark_type"),
            F.coalesce(c["optional"], F.lit(False)).alias("is_optional"),
            c["default"].alias("default_value"),
        ),
    )
    named = F.transform(
        F.from_json(shape, "array<string>"),
        lambda name: F.struct(
            name.alias("name"),
            F.lit(None).cast("string").alias("encoding"),
            F.lit("string").alias("spark_type"),
            F.lit(True).alias("is_optional"),
            F.lit(None).cast("string").alias("default_value"),
        ),
    )
    return F.when(shape.startswith("["), named).otherwise(described)


def _encoding(column: Column) -> Column:
    """The semantic type, or the literal one; a decimal's scale and an array's elements follow a colon."""
    name = F.coalesce(column["name"], column["type"])
    items = F.coalesce(column["items"]["name"], column["items"]["type"])
    return (
        F.when(column["name"] == DECIMAL, F.concat_ws(":", name, column["parameters"]["scale"]))
        .when(
            column["type"] == "array", F.concat_ws(":", F.lit("array"), items, column["items"]["parameters"]["scale"])
        )
        .otherwise(name)
    )


def _spark_type(column: Column) -> Column:
    scale = F.coalesce(column["parameters"]["scale"].try_cast("int"), F.lit(0))
    precision = F.coalesce(column["parameters"]["connect.decimal.precision"].try_cast("int"), F.lit(38))
    fits = (scale >= 0) & (scale <= 38) & (precision >= scale)
    decimal = F.when(
        fits,
        F.concat(F.lit("decimal("), F.least(precision, F.lit(38)), F.lit(","), scale, F.lit(")")),
    ).otherwise("decimal(38,0)")
    items = _lookup(LITERAL_TYPES, column["items"]["type"])
    is_plain_array = (column["type"] == "array") & column["items"]["name"].isNull() & items.isNotNull()
    return (
        F.when(column["name"] == DECIMAL, decimal)
        .when(column["name"].isin(*_TEXT), "string")
        .when(is_plain_array, F.concat(F.lit("array<"), items, F.lit(">")))
        .otherwise(
            F.coalesce(_lookup(SEMANTIC_TYPES, column["name"]), _lookup(LITERAL_TYPES, column["type"]), F.lit("string"))
        )
    )


def _lookup(table: dict[str, str], name: Column) -> Column:
    return F.create_map(*[F.lit(word) for pair in table.items() for word in pair])[name]
