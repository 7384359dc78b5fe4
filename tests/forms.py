"""The forms in which records can come, made of a connector's plain records as converters and transforms would.

They are written from Debezium's documents and Confluent's; nothing here is shared with what reads them.
"""

from __future__ import annotations

import base64
import io
import json
import re
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

import fastavro

from tests.registry import StandIn

Record: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]

_AVRO = {
    "boolean": "boolean", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double",
    "string": "string", "bytes": "bytes",
}  # fmt: skip
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def parts_of(text: str | None) -> tuple[Row | None, Any]:
    """Schema and payload of a key or a value."""
    if text is None:
        return None, None
    value = json.loads(text)
    return (value["schema"], value["payload"]) if "schema" in value else (None, value)


def decimal(digits: str) -> str:
    """A decimal as `decimal.format=NUMERIC` writes it, until `numeric` takes the marks off: no float holds it."""
    return f"<{digits}>"


def to_bytes(unscaled: int) -> bytes:
    """A decimal's digits as `decimal.format=BASE64` and Avro write them."""
    return unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)


def numeric(text: str) -> str:
    """JSON with the numbers of `decimal`."""
    return re.sub(r'"<([-0-9.]+)>"', r"\1", text)


# --- Avro ---------------------------------------------------------------------------------------------------------


def avro_type(described: Mapping[str, Any]) -> Any:
    """A type of Connect's schema as AvroData writes it, with Connect's name and parameters beside it."""
    if described["type"] == "struct":
        return avro_record(described["name"], described["fields"])
    if described["type"] == "array":
        return {"type": "array", "items": _nullable(described["items"])}
    if described["type"] == "map":
        return {"type": "map", "values": _nullable(described["values"])}
    kind = _AVRO[described["type"]]
    beside: Row = {}
    if described["type"] == "int16":
        beside["connect.type"] = "int16"
    if "name" in described:
        beside["connect.name"] = described["name"]
    if "parameters" in described:
        beside["connect.parameters"] = described["parameters"]
    if described.get("name") == _DECIMAL:
        beside |= {"logicalType": "decimal", "precision": 64, "scale": int(described["parameters"]["scale"])}
    return {"type": kind, **beside} if beside else kind


def _nullable(described: Mapping[str, Any]) -> Any:
    return ["null", avro_type(described)] if described.get("optional") else avro_type(described)


def avro_field(described: Mapping[str, Any]) -> Row:
    """A field of Connect's schema as AvroData writes it."""
    default = {"default": None} if described.get("optional") else {}
    return {"name": described["field"], "type": _nullable(described), **default}


def avro_record(name: str, fields: list[Mapping[str, Any]]) -> Row:
    """A struct as an Avro record."""
    space, _, last = name.rpartition(".")
    return {
        "type": "record", "name": last, "namespace": space, "connect.name": name,
        "fields": [avro_field(one) for one in fields],
    }  # fmt: skip


def _loose(name: str, values: Mapping[str, Any]) -> Row:
    numbers = {"ts_ms", "ts_us", "ts_ns", "lsn", "xmin", "pos", "row", "server_id", "total_order", "ssn"}
    is_number = {one: isinstance(value, int) or one in numbers for one, value in values.items()}
    is_number |= {"txId": values.get("connector") == "postgresql"} if "txId" in values else {}
    return avro_record(
        name,
        [
            {"field": one, "type": "int64" if number else "string", "optional": True}
            for one, number in is_number.items()
        ],
    )


def avro_envelope(topic: str, schema: Mapping[str, Any], payload: Mapping[str, Any]) -> Row:
    """The Avro schema of an envelope; before and after share a type, which is described once."""
    row = next(one["fields"] for one in schema["fields"] if one["field"] == "after")
    fields: list[Row] = []
    for name, value in payload.items():
        kind: Any = "string" if name == "op" else "long"
        if name == "before":
            kind = avro_record(f"{topic}.Value", row)
        elif name == "after":
            kind = f"{topic}.Value"
        elif name == "source":
            kind = _loose("io.debezium.connector.Source", value)
        elif name == "transaction":
            kind = _loose("event.block", {"id": "", "total_order": 1, "data_collection_order": 1})
        fields.append({"name": name, "type": kind if name in ("op", "source") else ["null", kind]})
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": topic,
        "connect.name": f"{topic}.Envelope",
        "fields": fields,
    }


def _bare(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _bare(value) for name, value in schema.items() if name != "logicalType"}
    return [_bare(one) for one in schema] if isinstance(schema, list) else schema


def _native(schema: Any, value: Any) -> Any:
    """A value of JSON as Avro has it: base64 is bytes."""
    if isinstance(schema, list):
        return None if value is None else _native(next(one for one in schema if one != "null"), value)
    if isinstance(schema, dict) and schema["type"] == "record":
        return {one["name"]: _native(one["type"], value.get(one["name"])) for one in schema["fields"]}
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "bytes" and value is not None and value.startswith("<"):
        return to_bytes(int(re.sub("[<>.]", "", value)))
    return base64.b64decode(value) if kind == "bytes" and value is not None else value


def avro_bytes(schema: Row, value: Any) -> bytes:
    """A value in Avro's binary form, without the id of its schema."""
    out = io.BytesIO()
    named: dict[str, Any] = {}
    _collect(schema, named)
    fastavro.schemaless_writer(out, fastavro.parse_schema(_bare(schema)), _resolved(schema, value, named))
    return out.getvalue()


def _collect(schema: Any, named: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for one in schema:
            _collect(one, named)
    elif isinstance(schema, dict) and schema["type"] == "record":
        named[f"{schema['namespace']}.{schema['name']}".strip(".")] = schema
        for one in schema["fields"]:
            _collect(one["type"], named)


def _resolved(schema: Any, value: Any, named: Mapping[str, Any]) -> Any:
    if isinstance(schema, str) and schema in named:
        return _resolved(named[schema], value, named)
    if isinstance(schema, list):
        return None if value is None else _resolved(next(one for one in schema if one != "null"), value, named)
    if isinstance(schema, dict) and schema["type"] == "record":
        return {one["name"]: _resolved(one["type"], value.get(one["name"]), named) for one in schema["fields"]}
    return _native(schema, value)


def wire(number: int, data: bytes, kind: str = "confluent") -> bytes:
    """Bytes with the id of their schema in front, of four bytes or of Apicurio's eight; none where headers have it."""
    fronts = {"confluent": struct.pack(">bI", 0, number), "apicurio": struct.pack(">bQ", 0, number), "headers": b""}
    return fronts[kind] + data


def avro(record: Record, registry: StandIn, kind: str = "confluent") -> Record:
    """A record by an Avro converter."""
    made = {name: value for name, value in record.items() if name not in ("key", "value")}
    made["headers"] = list(record["headers"])
    for part in ("key", "value"):
        schema, payload = parts_of(record[part])
        if payload is None or schema is None:
            made[part] = None
            continue
        name = f"{record['topic']}.Key"
        avro_schema = (
            avro_record(name, schema["fields"]) if part == "key" else avro_envelope(record["topic"], schema, payload)
        )
        number = registry.register(avro_schema)
        made[f"{part}_base64"] = base64.b64encode(wire(number, avro_bytes(avro_schema, payload), kind)).decode()
        if kind == "headers":
            header = base64.b64encode(struct.pack(">Q", number)).decode()
            made["headers"].append({"key": f"apicurio.{part}.globalId", "value_base64": header})
    return made


# --- JSON Schema --------------------------------------------------------------------------------------------------

_JSON_TYPES = {"boolean": "boolean", "int16": "integer", "int32": "integer", "int64": "integer", "string": "string"}


def json_type(described: Mapping[str, Any], index: int | None = None) -> Row:
    """A type of Connect's schema as JsonSchemaData writes it; of a field also its place among others."""
    kind = described["type"]
    made: Row = {}
    if kind == "struct":
        fields = {one["field"]: json_type(one, place) for place, one in enumerate(described["fields"])}
        made |= {"type": "object", "properties": dict(sorted(fields.items()))}
    elif kind == "map":
        made |= {"type": "object", "connect.type": "map", "additionalProperties": json_type(described["values"])}
    elif kind == "array":
        made |= {"type": "array", "items": json_type(described["items"])}
    elif kind == "bytes":
        made |= {"type": "number" if described.get("name") == _DECIMAL else "string", "connect.type": "bytes"}
    elif kind in ("float", "double"):
        made |= {"type": "number", "connect.type": {"float": "float32", "double": "float64"}[kind]}
    else:
        made["type"] = _JSON_TYPES[kind]
        if made["type"] == "integer":
            made["connect.type"] = kind
    stands = {"name": "title", "version": "connect.version", "parameters": "connect.parameters", "default": "default"}
    made |= {theirs: described[ours] for ours, theirs in stands.items() if ours in described}
    made = {"oneOf": [{"type": "null"}, made]} if described.get("optional") else made
    return made if index is None else made | {"connect.index": index}


def json_schema(record: Record, registry: StandIn) -> Record:
    """A record by Confluent's JsonSchemaConverter: JSON behind the id of its schema."""
    made = {name: value for name, value in record.items() if name not in ("key", "value")}
    for part in ("key", "value"):
        schema, payload = parts_of(record[part])
        if schema is None:
            made[part] = record[part]
            continue
        number = registry.register({"$schema": "http://json-schema.org/draft-07/schema#", **json_type(schema)}, "JSON")
        data = numeric(json.dumps(payload)).encode()
        made[f"{part}_base64"] = base64.b64encode(wire(number, data)).decode()
    return made


def schema_id(record: Record, registry: StandIn, *, is_compact: bool = False) -> Record:
    """A record by Apicurio's converter to JSON, with the id of Connect's own schema: around it, or in front of it."""
    made = dict(record)
    for part in ("key", "value"):
        schema, payload = parts_of(record[part])
        if schema is not None:
            number = registry.register(schema)
            made[part] = json.dumps({"schemaId": number, "payload": payload})
            if is_compact:
                del made[part]
                made[f"{part}_base64"] = base64.b64encode(
                    wire(number, numeric(json.dumps(payload)).encode(), "apicurio")
                ).decode()
    return made


# --- CloudEvents --------------------------------------------------------------------------------------------------


def cloud_event(record: Record, *, with_schema: bool = False, registry: StandIn | None = None) -> Record:
    """A record by CloudEventsConverter: JSON around data in JSON, or, with a registry, in Avro."""
    schema, payload = parts_of(record["value"])
    if payload is None or "op" not in payload:
        return record
    source = payload["source"]
    event: Row = {
        "id": f"name:{source['name']};lsn:{source.get('lsn')};txId:{source.get('txId')}",
        "source": f"/debezium/{source['connector']}/{source['name']}",
        "specversion": "1.0",
        "type": f"io.debezium.{source['connector']}.datachangeevent",
        "time": datetime.fromtimestamp(source["ts_ms"] / 1000, UTC).isoformat(),
        "datacontenttype": "application/avro" if registry else "application/json",
        "iodebeziumop": payload["op"],
    }
    for name, value in source.items():
        event[f"iodebezium{name.replace('_', '')}"] = None if value is None else str(value)
    if payload["transaction"]:
        event["iodebeziumtxid"] = payload["transaction"]["id"]
        event["iodebeziumtxtotalorder"] = str(payload["transaction"]["total_order"])
    data = {name: payload[name] for name in ("before", "after", "updateDescription") if name in payload}
    if registry:
        assert schema is not None
        row = next(one["fields"] for one in schema["fields"] if one["field"] == "after")
        avro_schema = {
            "type": "record", "name": "Data", "namespace": record["topic"], "fields": [
                {"name": "before", "type": ["null", avro_record(f"{record['topic']}.Value", row)]},
                {"name": "after", "type": ["null", f"{record['topic']}.Value"]},
            ],
        }  # fmt: skip
        number = registry.register(avro_schema)
        event["dataschema"] = f"{registry.url}/schemas/ids/{number}"
        event["data"] = base64.b64encode(wire(number, avro_bytes(avro_schema, data))).decode()
    else:
        event["data"] = {"schema": schema, "payload": data} if with_schema else data
    return record | {"value": json.dumps(event)}


# --- ExtractNewRecordState ----------------------------------------------------------------------------------------

WANTED = {
    "postgresql": ("schema", "lsn", "sequence", "txId"),
    "mariadb": ("file", "pos", "row", "server_id", "gtid"),
    "oracle": ("schema", "scn", "commit_scn", "rs_id", "ssn", "txId"),
    "sqlserver": ("schema", "commit_lsn", "change_lsn", "event_serial_no"),
    "db2": ("schema", "commit_lsn", "change_lsn"),
}


def added(payload: Mapping[str, Any], *, is_qualified: bool = True) -> Row:
    """What `add.fields` with every field that history needs makes of an envelope; times have qualified names always."""
    source = payload["source"]
    named = ("connector", "name", "db", "table", "ts_ms", "ts_us", "ts_ns", "snapshot", *WANTED[source["connector"]])
    return {"__op": payload["op"], "__ts_ms": payload["ts_ms"]} | {
        f"__source_{name}" if is_qualified or name.startswith("ts_") else f"__{name}": source[name]
        for name in named
        if name in source
    }


def flattened(
    record: Record,
    *,
    deletes: str = "rewrite",
    with_schema: bool = True,
    without: tuple[str, ...] = (),
    is_qualified: bool = True,
) -> Record | None:
    """A record by ExtractNewRecordState; None where it drops it.

    Args:
        record: The plain record.
        deletes: `rewrite`, `rewrite-with-tombstone`, to whose tombstones the transform adds `__op` where it adds
            headers, or `tombstone`, with what history needs as headers too: its null value keeps its schema, and where
            schemas are off JsonConverter writes the headers, too; or `headers`, as `tombstone`, and rows have nothing
            added.
        with_schema: Whether JsonConverter embeds schemas.
        without: Fields that are not added.
        is_qualified: Whether names of added fields say that they are of the source.
    """
    schema, payload = parts_of(record["value"])
    if payload is None:
        marked = record | {"headers": [*record["headers"], {"key": "__op", "value": "d"}]}
        return marked if deletes == "rewrite-with-tombstone" else None
    beside = {name: value for name, value in added(payload, is_qualified=is_qualified).items() if name not in without}
    key = record["key"] if with_schema else record["key"] and json.dumps(parts_of(record["key"])[1])
    made = record | {"key": key}
    if deletes in ("tombstone", "headers"):
        made["headers"] = record["headers"] + [
            {"key": name, "value": None if value is None else str(value) if with_schema else json.dumps(value)}
            for name, value in beside.items()
        ]
        if payload["op"] == "d":
            return made | {"value": json.dumps({"schema": schema, "payload": None} if with_schema else None)}
    is_delete = payload["op"] == "d"
    row = {**(payload["before"] if is_delete else payload["after"]), **({} if deletes == "headers" else beside)}
    if deletes not in ("tombstone", "headers"):
        row["__deleted"] = "true" if is_delete else "false"
    if not with_schema or schema is None:
        return made | {"value": json.dumps(row)}
    fields = list(next(one["fields"] for one in schema["fields"] if one["field"] == "after"))
    for name in row:
        if name in beside or name == "__deleted":
            number = isinstance(beside.get(name), int) or name.endswith(("ts_ms", "ts_us", "ts_ns", "lsn", "txId"))
            fields.append({"field": name, "type": "int64" if number else "string", "optional": True})
    return made | {"value": json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": row})}
