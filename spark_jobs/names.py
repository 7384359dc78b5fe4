"""Names of feeds, files and SQL identifiers. The only place that turns a name from an event into one of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import ascii_lowercase, ascii_uppercase

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

_LONGEST = 100
# Spark's own formats say milliseconds and leave NULLs out.
_EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}


def quoted(identifier: str) -> str:
    """An identifier as Spark SQL takes it, whatever is in it."""
    return "`" + identifier.replace("`", "``") + "`"


def text_literal(value: str) -> str:
    """A text as a Spark SQL literal, whatever is in it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def escaped(path: str) -> str:
    """A path for Spark where that takes patterns, of which the path's own letters are none."""
    return "".join(f"\\{letter}" if letter in "*?[]{}\\" else letter for letter in path)


def table_at(location: str) -> str:
    """A Delta table addressed by its location."""
    return f"delta.{quoted(location)}"


def literal_map(values: Mapping[str, object]) -> Column:
    """A mapping as a map of Spark's; its values are literals or columns."""
    return F.create_map(*[F.lit(one) for pair in values.items() for one in pair])


def text_array(texts: Iterable[str]) -> Column:
    """Texts as an array of Spark's."""
    return F.array(*map(F.lit, texts)).cast("array<string>")


def exact_json(value: Column) -> Column:
    """A value as JSON text that says all of it, as the macro of this name writes it."""
    return F.to_json(value, _EXACT)


def from_exact_json(text: Column, type_: StructType) -> Column:
    """The value of that type that such a text says."""
    return F.from_json(text, type_, _EXACT)


def feed(*parts: Column) -> Column:
    """A folder-safe name of a feed: readable first, then eight digits of the hash of the full name.

    Args:
        parts: The columns that name the feed, NULL where a part doesn't apply; compared by exact text.
    """
    readable = F.regexp_replace(_lower(F.concat_ws("__", *parts)), "[^a-z0-9_]", "_")
    exact = F.to_json(F.array(*parts))
    return F.concat_ws("_", F.substring(readable, 1, _LONGEST), F.substring(F.md5(exact), 1, 8))


def _lower(text: Column) -> Column:
    """A text with its Latin letters in lower case, as English has them: Spark's own function asks Java's locale."""
    # In English two letters beyond ASCII have one of ASCII as their small one: İ and the sign of kelvin.
    return F.translate(
        F.replace(text, F.lit("\u0130"), F.lit("i\u0307")), f"{ascii_uppercase}\u212a", f"{ascii_lowercase}k"
    )
