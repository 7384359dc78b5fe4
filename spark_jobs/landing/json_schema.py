"""JSON Schema as Confluent's converter writes it, brought back into Kafka Connect's own.

The bytes behind the schema's id are JSON as JsonConverter writes it: bytes in base64, times as whole numbers, decimals
in base64 or as numbers. A type's name is its schema's `title`; what else JSON Schema has no word for stands beside it
(`connect.type`, `connect.parameters`, `connect.version`, and of a property its place, `connect.index`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_TYPES = {"boolean": "boolean", "integer": "int64", "number": "double", "string": "string"}
# Connect's names of these, as JsonConverter embeds them.
_EMBEDDED = {"float32": "float", "float64": "double"}
_NULL = "null"


class UnreadableError(Exception):
    """A schema that says what Kafka Connect has no word for."""


def connect_schema(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A JSON Schema as Kafka Connect's, in the form in which JsonConverter embeds it.

    Args:
        schema: The JSON Schema, parsed.
        root: The document that it is a part of, in which references are looked up.

    Raises:
        UnreadableError: It is of several types, or of none, or refers to another document.
        RecursionError: It is within itself.
    """
    root = schema if root is None else root
    if "$ref" in schema:
        return connect_schema(_referred(schema["$ref"], root), root)
    for name in ("oneOf", "anyOf"):
        if name in schema:
            parts = schema[name]
            return _of_one([one for one in parts if one.get("type") != _NULL], len(parts), root)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _of_one([{**schema, "type": one} for one in kind if one != _NULL], len(kind), root)
    described = _described(schema, kind, root) | {"optional": False}
    stands = {"name": "title", "version": "connect.version", "parameters": "connect.parameters", "default": "default"}
    return described | {ours: schema[theirs] for ours, theirs in stands.items() if theirs in schema}


def _of_one(parts: list[Mapping[str, Any]], of: int, root: Mapping[str, Any]) -> dict[str, Any]:
    """What is one thing or, where others are left out, NULL."""
    if len(parts) != 1:
        raise UnreadableError
    return connect_schema(parts[0], root) | {"optional": of > 1}


def _described(schema: Mapping[str, Any], kind: str | None, root: Mapping[str, Any]) -> dict[str, Any]:
    of_connect = schema.get("connect.type")
    if kind == "object" and of_connect == "map":
        values = connect_schema(schema["additionalProperties"], root)
        return {"type": "map", "keys": {"type": "string", "optional": False}, "values": values}
    if kind == "object":
        properties = list(schema.get("properties", {}).items())
        indexes = {name: one.get("connect.index", index) for index, (name, one) in enumerate(properties)}
        in_order = sorted(properties, key=lambda one: indexes[one[0]])
        return {"type": "struct", "fields": [connect_schema(one, root) | {"field": name} for name, one in in_order]}
    if kind == "array":
        # A map whose keys are no texts is an array of objects of key and value.
        return {"type": "array", "items": connect_schema(schema["items"], root)}
    if kind is None and "enum" in schema:
        kind = "string"
    if kind not in _TYPES:
        raise UnreadableError
    return {"type": _EMBEDDED.get(of_connect, of_connect) if of_connect else _TYPES[kind]}


def _referred(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    document, _, path = reference.partition("#")
    if document:
        raise UnreadableError
    found: Any = root
    for step in path.split("/")[1:]:
        found = found[step.replace("~1", "/").replace("~0", "~")]
    return cast("Mapping[str, Any]", found)
