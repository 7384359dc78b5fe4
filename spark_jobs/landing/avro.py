"""Avro as Kafka Connect's converters write it: bytes with the id of their schema to JSON, as JsonConverter has it.

Names and parameters of Connect's types travel in Avro schemas (`connect.name`, `connect.parameters`). A schema is
brought back into Connect's own form, so that one reader of semantic types (`shapes`) serves every form, and values stay
what they are in JSON: times as numbers, decimals as base64 of their bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import DataType, StructType

from spark_jobs.landing import json_schema
from spark_jobs.landing.json_schema import UnreadableError
from spark_jobs.landing.registry import CONTENT, GLOBAL, GUID, LONG, SHORT, Registries, parsed
from spark_jobs.record import text_of
from spark_jobs.session import with_settings

# More schemas than a landing of thousands of tables has; random bytes can name any number of them.
MOST_SCHEMAS = 1000

_PRIMITIVES = {
    "boolean": "boolean", "int": "int32", "long": "int64", "float": "float", "double": "double", "string": "string",
    "bytes": "bytes",
}  # fmt: skip
_CONNECT = {*_PRIMITIVES.values(), "int8", "int16", "float32", "float64", "struct", "array", "map"}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
# What other writers of Avro say instead of a Connect name.
_LOGICAL = {
    "decimal": _DECIMAL,
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
}
# Behind every value, so that bytes that are too many or too few for their schema show.
_END = "tidemark"
_WHOLE = {"ignoreNullFields": "false"}
# The names of fields that Avro surely takes.
_FIELD = re.compile("[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Schema:
    """A registry's answer to one id: Connect's schema as JSON, and Avro's to decode with, or the code of why not.

    `avro` is empty where the registry has Connect's own schema, or JSON Schema: then the bytes behind the id are JSON.
    `named` is what Spark reads by it, with the names of fields that Avro would refuse; None where it has them already.
    """

    connect: str = ""
    avro: str = ""
    code: str | None = None
    named: DataType | None = None


def wire_format(column: Column, headers: Column, part: str) -> Column:
    """What a converter wrote around a key or a value: its schema's id and the bytes; NULL where there is no id.

    Args:
        column: The bytes.
        headers: The record's headers, which can hold Apicurio's ids, and Confluent's GUIDs.
        part: `key` or `value`.

    Returns:
        A struct of `kind` (`registry.SHORT`, `LONG`, `GLOBAL`, `CONTENT` or `GUID`), `id` and `data`.
    """
    by_header = F.coalesce(
        *[
            F.when(F.length(value) == 8, _id_struct(kind, F.hex(value), column))
            for kind, name in ((GLOBAL, "globalId"), (CONTENT, "contentId"))
            for value in [header(headers, f"apicurio.{part}.{name}")]
        ]
    )
    guid = header(headers, f"__{part}_schema_id")
    by_guid = F.when(F.length(guid) == 17, _id_struct(GUID, F.lit(None).cast("string"), column))
    # No registry gives the id 0: four zeros are the first half of an id of eight bytes.
    is_short = F.substring(column, 2, 4) != F.lit(b"\0\0\0\0")
    by_bytes = F.when(
        is_short, _id_struct(SHORT, F.hex(F.substring(column, 2, 4)), F.substring(column, 6, 2**31 - 1))
    ).otherwise(_id_struct(LONG, F.hex(F.substring(column, 2, 8)), F.substring(column, 10, 2**31 - 1)))
    return F.when(column.isNull(), None).otherwise(
        F.coalesce(
            by_header,
            by_guid,
            F.when(has_magic(column) & (F.length(column) >= F.when(is_short, 5).otherwise(9)), by_bytes),
        )
    )


def has_magic(column: Column) -> Column:
    """Whether bytes begin as converters with a registry write them; no text does."""
    return F.substring(column, 1, 1) == F.lit(b"\0")


def header(headers: Column, name: str) -> Column:
    """The bytes of a record's last header of a name."""
    return F.try_element_at(F.filter(headers, lambda one: one["key"] == name), F.lit(-1))["value"]


def names_in_their_case(spark: SparkSession) -> AbstractContextManager[None]:
    """Have what `decoded` gives computed here: of fields whose names differ in case alone Spark would find none."""
    return with_settings(spark, {"spark.sql.caseSensitive": "true"})


def decoded(spark: SparkSession, rows: DataFrame, columns: Mapping[str, Column], registries: Registries) -> DataFrame:
    """Add to each row the JSON text of columns that hold an id and bytes.

    Args:
        spark: The session.
        rows: Any rows, cut off from their lineage: they are read twice.
        columns: Name → struct as `wire_format` gives it.
        registries: Where to ask.

    Returns:
        The rows with `<name>_json`, `<name>_schema` (Connect's, as JSON) and `<name>_code` (of R2) for each name; all
        are NULL where the struct is.
    """
    rows = rows.select("*", *[column.alias(f"_{name}") for name, column in columns.items()])
    ids = reduce(DataFrame.unionAll, [rows.select(f"_{name}.kind", f"_{name}.id") for name in columns])
    counted = ids.where("kind is not null").groupBy("kind", "id").count()
    wanted = counted.orderBy(F.desc("count"), "kind", "id").limit(MOST_SCHEMAS).collect()
    schemas = {(row["kind"], row["id"]): _schema(spark, registries, row["kind"], row["id"]) for row in wanted}
    added = []
    for name in columns:
        text, connect, code = _cases(F.col(f"_{name}"), schemas)
        added += [text.alias(f"{name}_json"), connect.alias(f"{name}_schema"), code.alias(f"{name}_code")]
    out = rows.select("*", *added).drop(*[f"_{name}" for name in columns])
    for name in columns:
        is_left = F.col(f"{name}_code").isNull() & F.col(f"{name}_schema").isNotNull() & F.col(f"{name}_json").isNull()
        out = out.withColumn(f"{name}_code", F.when(is_left, "avro-not-decoded").otherwise(F.col(f"{name}_code")))
    return out


def _cases(wire: Column, schemas: Mapping[tuple[str, int], Schema]) -> tuple[Column, Column, Column]:
    """The JSON text, Connect's schema and the code of a struct with an id, by its id."""
    never = F.lit(False)
    text, connect, code = (F.when(never, F.lit(None).cast("string")) for _ in range(3))
    for (kind, schema_id), schema in schemas.items():
        is_its = (wire["kind"] == kind) & wire["id"].eqNullSafe(schema_id)
        code = code.when(is_its, F.lit(schema.code).cast("string"))
        if schema.code is None:
            connect = connect.when(is_its, F.lit(schema.connect))
            text = text.when(is_its, _json(wire["data"], schema))
    return text, connect, code.when(wire.isNotNull(), "schema-not-asked")


def _json(data: Column, schema: Schema) -> Column:
    if not schema.avro:
        return text_of(data)
    read = _read(F.concat(data, F.lit(_END.encode())), schema.avro)
    value = read["v"] if schema.named is None else read["v"].cast(schema.named)
    # The one field of an object, cut out of its text: the value may be no object itself.
    text = F.to_json(F.struct(value.alias("v")), _WHOLE)
    return F.when(read["end"] == F.lit(_END.encode()), inside(text))


def _read(data: Column, avro: str) -> Column:
    return from_avro(data, avro, {"mode": "PERMISSIVE"})


def inside(text: Column) -> Column:
    """The value of an object's one field `v`, cut out of its JSON text."""
    return F.substr(text, F.lit(6), F.length(text) - F.lit(6))


def _id_struct(kind: str, digits: Column, data: Column) -> Column:
    number = F.conv(digits, 16, 10).try_cast("bigint")
    return F.struct(F.lit(kind).alias("kind"), number.alias("id"), data.alias("data"))


def _schema(spark: SparkSession, registries: Registries, kind: str, schema_id: int | None) -> Schema:
    if kind == GUID:
        return Schema(code="schema-by-guid")
    if schema_id is None:
        return Schema(code="schema-unknown")
    registered = registries.schema(kind, schema_id)
    if registered.code is not None:
        return Schema(code=registered.code)
    schema = parsed(registered.text)
    if registered.is_json_schema:
        return _of_json_schema(schema)
    if (
        isinstance(schema, dict)
        and isinstance(schema.get("type"), str)
        and schema["type"] in _CONNECT
        and ("optional" in schema or schema["type"] == "struct")
    ):
        return Schema(connect=registered.text)
    fields: dict[str, str] = {}
    try:
        connect = json.dumps(connect_schema(schema))
        end = {"type": "fixed", "name": "TidemarkEnd", "size": len(_END)}
        parts = [{"name": "v", "type": _bare(schema, {}, fields)}, {"name": "end", "type": end}]
        avro = json.dumps({"type": "record", "name": "TidemarkValue", "fields": parts})
        read = spark.range(0).select(_read(F.lit(b""), avro)["v"].alias("v"))
    except (UnreadableError, AnalysisException, Py4JJavaError, RecursionError, LookupError, TypeError, ValueError):
        # Avro's parser and Spark's have exceptions of their own, which PySpark passes on as Java's.
        return Schema(code="schema-not-read")
    return Schema(connect, avro, named=_named(read.schema, fields)["v"].dataType if fields else None)


def _of_json_schema(schema: Any) -> Schema:
    try:
        return Schema(json.dumps(json_schema.connect_schema(schema)))
    except (UnreadableError, RecursionError, LookupError, AttributeError, TypeError, ValueError):
        return Schema(code="schema-not-read")


def _named(struct: StructType, fields: Mapping[str, str]) -> StructType:
    """A type with some of its fields' names replaced, at any depth."""

    def renamed(node: dict[str, Any]) -> dict[str, Any]:
        return node | {"name": fields.get(node["name"], node["name"])} if "name" in node else node

    return StructType.fromJson(json.loads(struct.json(), object_hook=renamed))


def _bare(schema: Any, types: dict[str, str], fields: dict[str, str], space: str = "") -> Any:
    """An Avro schema as Spark decodes by it.

    It has no logical types: Spark would read values as its own types, and refuse wide decimals. Bytes hold no names,
    and Avro refuses some that older ones wrote, such as namespaces with a hyphen: types have others here, and so do
    fields where need be.

    Args:
        schema: The Avro schema, parsed.
        types: Full name → its name here, of the types met before.
        fields: A name that is given to a field here → its own.
        space: The namespace that names without one are in.
    """
    if isinstance(schema, list):
        return [_bare(one, types, fields, space) for one in schema]
    if isinstance(schema, str):
        return schema if schema == "null" or schema in _PRIMITIVES else _meant(schema, types, space)
    kind = schema["type"]
    if kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        return {"type": kind, part: _bare(schema[part], types, fields, space)}
    if kind not in ("record", "enum", "fixed"):
        return _bare(kind, types, fields, space)
    full = _full_name(schema, space)
    bare = {"type": kind, "name": types.setdefault(full, f"T{len(types)}")}
    if kind != "record":
        return bare | {part: schema[part] for part in ("symbols", "size") if part in schema}
    bare["fields"] = []
    for field in schema["fields"]:
        name = field["name"]
        if not _FIELD.fullmatch(name):
            name = f"tidemark_{len(fields)}"
            fields[name] = field["name"]
        bare["fields"].append({"name": name, "type": _bare(field["type"], types, fields, full.rpartition(".")[0])})
    return bare


def _full_name(schema: Mapping[str, Any], space: str) -> str:
    """The name by which a type is known that is described in a namespace."""
    name: str = schema["name"]
    return name if "." in name else f"{schema.get('namespace', space)}.{name}".strip(".")


def _meant(name: str, named_types: Mapping[str, Any], space: str) -> Any:
    """What is known by a name: Avro looks in the namespace in which the name stands, then in none."""
    return named_types[full if (full := f"{space}.{name}") in named_types else name]


def connect_schema(schema: Any, named_types: dict[str, Any] | None = None, space: str = "") -> dict[str, Any]:
    """An Avro schema as Kafka Connect's, in the form in which JsonConverter embeds it.

    Args:
        schema: The Avro schema, parsed.
        named_types: Full name → the named types met before.
        space: The namespace that names without one are in.

    Raises:
        UnreadableError: It has a type of which Connect has none, such as a union of several.
    """
    named_types = {} if named_types is None else named_types
    if isinstance(schema, list):
        rest = [one for one in schema if one != "null"]
        if len(rest) != 1:
            raise UnreadableError
        return {**connect_schema(rest[0], named_types, space), "optional": "null" in schema}
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return {"type": _PRIMITIVES[schema], "optional": False}
        return _meant(schema, named_types, space)
    if isinstance(schema["type"], (dict, list)):
        return connect_schema(schema["type"], named_types, space)
    described = _described(schema, named_types, space)
    described |= {"optional": False} | {
        ours: schema[theirs]
        for theirs, ours in (("connect.name", "name"), ("connect.version", "version"), ("connect.default", "default"))
        if theirs in schema
    }
    parameters = dict(schema.get("connect.parameters") or {})
    logical = _LOGICAL.get(schema.get("logicalType", ""))
    if logical is not None:
        described.setdefault("name", logical)
    if described.get("name") == _DECIMAL and "scale" not in parameters:
        parameters["scale"] = str(schema.get("scale", 0))
    if parameters:
        described["parameters"] = parameters
    return described


def _described(schema: Mapping[str, Any], named_types: dict[str, Any], space: str) -> dict[str, Any]:
    kind = schema["type"]
    if kind in _PRIMITIVES:
        return {"type": schema.get("connect.type", _PRIMITIVES[kind])}
    if kind == "array":
        items = connect_schema(schema["items"], named_types, space)
        return {"type": schema.get("connect.type", "array"), "items": items}
    if kind == "map":
        return {"type": "map", "values": connect_schema(schema["values"], named_types, space)}
    if kind not in ("record", "enum", "fixed"):
        return connect_schema(kind, named_types, space)
    full = _full_name(schema, space)
    described = named_types[full] = {"type": {"record": "struct", "enum": "string", "fixed": "bytes"}[kind]}
    if kind == "record":
        described |= {"fields": [], "name": schema.get("connect.name", full), "optional": False}
        for one in schema["fields"]:
            field = {**connect_schema(one["type"], named_types, full.rpartition(".")[0]), "field": one["name"]}
            if one.get("default") is not None:
                field.setdefault("default", one["default"])
            described["fields"].append(field)
    return described
