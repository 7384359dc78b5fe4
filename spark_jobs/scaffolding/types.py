"""The type that a column is declared with: the one that a build carries it with where no model declares it (R8)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pyspark.sql import Row

# Type → the encodings that it reads too, of records in their connector's other mode of decimals, of binary or of
# intervals. Their own type would hold less, or make a version of what only changed its form.
_READS_TOO = {
    "decimal": ("string", "double", "float64"),
    "binary": ("string",),
    "bigint": ("io.debezium.time.Interval",),
}
# Of these the form that plain text is in, and the mode that writes it: a column that was text once looks the same.
_AS_TEXT = {
    "decimal": ("digits", "decimal.handling.mode=string"),
    "binary": ("base64", "binary.handling.mode=base64"),
}
_WHOLE = {"boolean": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_NUMBERS = {"decimal", "floating", "integral"}
_ARRAY = "array<"
_STRUCT = "struct<"


def carried_type(described: Sequence[Row]) -> str:
    """The type of a column that schemas describe, one or more times.

    Args:
        described: What they say of it: rows with `encoding` and `spark_type`.
    """
    kinds = {_base(field["spark_type"]) for field in described}

    def is_read(field: Row) -> bool:
        return any(field["encoding"] in _READS_TOO.get(kind, ()) for kind in kinds - {_base(field["spark_type"])})

    return common_type({field["spark_type"] for field in described if not is_read(field)})


def note_on_text(described: Sequence[Row]) -> str:
    """What is to be known of a column whose `carried_type` reads plain text, too; empty of any other."""
    if not any((field["encoding"], field["spark_type"]) == ("string", "string") for field in described):
        return ""
    kind = carried_type(described)
    if _base(kind) not in _AS_TEXT:
        return ""
    form, mode = _AS_TEXT[_base(kind)]
    return (
        f"came as text, too, which {kind} takes for {form} (`{mode}`). If it was a column of text then, declare it"
        " `string`." + (" If it was hexadecimal, declare its encoding, `hex`." if kind == "binary" else "")
    )


def common_type(types: Collection[str]) -> str:
    """The one type that holds all values of some, as `common_type` in macros/changes/columns.sql has it.

    A test holds them together.
    """
    if len(types) == 1:
        return next(iter(types))
    if all(one.startswith(_ARRAY) for one in types):
        return f"{_ARRAY}{common_type({one[len(_ARRAY) : -1].strip() for one in types})}>"
    # Of structs that go on with each other's fields the one with the most: a comma sorts before the closing bracket.
    widest = min(types)
    if widest.startswith(_STRUCT) and all(widest.startswith(f"{one[:-1]},") for one in types if one != widest):
        return widest
    kinds = {_kind(one) for one in types}
    whole, fraction = (max(sizes) for sizes in zip(*map(_size, types), strict=True))
    if kinds == {"integral"}:
        return max(types, key=_WHOLE.__getitem__)
    if kinds in ({"decimal"}, {"decimal", "integral"}) and whole + fraction <= 38:
        return f"decimal({whole + fraction},{fraction})"
    if kinds == {"floating"} or (kinds == {"floating", "integral"} and whole <= _WHOLE["int"]):
        return "double"
    if "floating" in kinds and kinds <= _NUMBERS and whole <= 20 and fraction <= 18:
        return "decimal(38,18)"
    return "timestamp_ntz" if kinds == {"date", "timestamp_ntz"} else "string"


def _base(kind: str) -> str:
    return kind.partition("(")[0]


def _kind(kind: str) -> str:
    if kind in _WHOLE:
        return "integral"
    return "floating" if kind in ("float", "double") else _base(kind)


def _size(kind: str) -> tuple[int, int]:
    """How many digits a type has in front of the point, and how many behind."""
    if _base(kind) == "decimal":
        digits, fraction = map(int, re.findall("[0-9]+", kind))
        return digits - fraction, fraction
    return _WHOLE.get(kind, 0), 0
