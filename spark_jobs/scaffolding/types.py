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
# The encodings that a schema can tell and a column declare, as `declarable_encodings` in macros/types/encodings.sql has
# them: a test holds them together.
_DECLARABLE = re.compile(
    r"org\.apache\.kafka\.connect\.data\.(Decimal:-?[0-9]+|Date|Time|Timestamp)|(bigint|int) unsigned"
    r"|io\.debezium\.(data\.(VariableScaleDecimal|Bits)|time\.(Date|(Micro|Nano)?Time(stamp)?|Interval))"
)
# Encodings of what counts time, and the one kind of time that each of a group spells alike as text.
_TIME = re.compile(
    r"(?:io\.debezium\.time|org\.apache\.kafka\.connect\.data)\.(?:Iso|Micro|Nano)?(Date|Time|Timestamp)"
)
_WIDE = ":wide"
_WHOLE = {"boolean": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_NUMBERS = {"decimal", "floating", "integral"}
_DECIMAL = "org.apache.kafka.connect.data.Decimal:"
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


def encoding_to_declare(seen: Sequence[Row], kind: str) -> str:
    """The encoding that a column has to declare for its records without a schema; empty where it needs none.

    It is the one that the schemas of others tell, where the values don't tell it themselves.

    Args:
        seen: What shapes say of the column: rows with `encoding`, None without a schema.
        kind: Its type.
    """
    told = {(one["encoding"] or "").removeprefix("array:").removesuffix(_WIDE) for one in seen}
    encoding = max(told, default="")
    is_told = told == {"", encoding} and _DECLARABLE.fullmatch(encoding)
    return encoding if is_told and not _tells_itself(encoding, kind) else ""


def _tells_itself(encoding: str, kind: str) -> bool:
    """Whether a value without a schema is read as one of the encoding, which others of its column have."""
    kind = _base(kind.removeprefix(_ARRAY).removesuffix(">"))
    time = _TIME.fullmatch(encoding)
    return (
        (kind == "string" and time is not None)
        or (kind == "date" and time is not None and time[1] == "Date")
        or (kind != "bigint" and encoding.endswith("Interval"))
        or (kind == "decimal" and encoding.endswith("VariableScaleDecimal"))
    )


def type_of_all(described: Sequence[Row]) -> str:
    """The type that reads every encoding of a column declared `string`, where they spell one value in several ways.

    Empty where they don't, or nothing but text holds them.

    Args:
        described: What schemas say of it: rows with `encoding` and `spark_type`.
    """
    encodings = {one["encoding"] for one in described}
    spellings = {_spelling(one) for one in encodings}
    # Decimals as text have the digits that they have as bytes.
    if len(spellings - {"string"}) == 1 and all(one.startswith(_DECIMAL) for one in spellings - {"string"}):
        return ""
    if len(spellings) < 2:
        return ""
    # Decimals in the modes `string` and `double`.
    if encodings in ({"string", "double"}, {"string", "float64"}):
        return "decimal(38,18)"
    carried = carried_type(described)
    return "" if carried == "string" else carried


def _spelling(encoding: str) -> str:
    """What encodings have in common that spell one value alike."""
    time = _TIME.fullmatch(encoding)
    if time is not None:
        return time[1]
    if re.fullmatch("int[0-9]+|(bigint|int) unsigned", encoding):
        return "whole"
    return encoding.removesuffix(_WIDE)


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
