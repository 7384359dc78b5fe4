"""The parts of a record as Spark has them, and how JSON in them is read."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

# Spark's JSON reader gives a record up for one longer text (20 million letters) or number (1,000 digits), and takes a
# field `_corrupt_record` for its own unless another name is that of its column.
JSON_LIMITS = {
    "maxStringLen": "2147483647",
    "maxNumLen": "200000",
    "columnNameOfCorruptRecord": "tidemark_name_of_no_field",
}
HEADERS = "array<struct<key: string, value: binary>>"
LAST_MILLIS = 253402300799999  # the end of 9999, which Spark and its readers agree on


def text_of(data: Column) -> Column:
    """The text that bytes are in UTF-8; NULL where they are none."""
    return F.try_validate_utf8(data.cast("string"))


def object_of_key(key: Column) -> Column:
    """A key's JSON as that of its fields, without the schema that may stand beside them; a plain value as it is."""
    payload = F.get_json_object(key, "$.payload")
    return F.when(payload.startswith("{") | is_beside_schema(key), payload).otherwise(key)


def is_beside_schema(key: Column) -> Column:
    """Whether a key's JSON begins with a schema, as JsonConverter writes it: no column's value is an object."""
    return key.rlike(r'^\s*\{\s*"schema"\s*:\s*(\{|null\b)')


def has_half_letters(text: Column) -> Column:
    """Whether JSON text spells half a letter, a surrogate without its other half: no encoding can hold that."""
    # Most texts spell no surrogate at all, which is soon seen.
    spells = text.contains(r"\u") & (text.contains(r"\ud") | text.contains(r"\uD"))
    half = r"\\u[dD][89a-fA-F]"
    escapes = F.regexp_replace(text, r"\\\\", "")
    unpaired = F.regexp_replace(escapes, r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}", "")
    return F.coalesce(F.when(spells, unpaired.rlike(half)), F.lit(False))


def goes_on(text: Column) -> Column:
    """Whether something stands behind a text's JSON object: Spark's reader ends there, and says nothing of it."""
    # The list ends with another item: a text that closes it by itself has not both.
    listed = F.concat(F.lit("["), text, F.lit(",0]"))
    is_one = F.json_array_length(listed) == 2
    # What only counts items is fast, and gives long numbers up.
    is_large_one = F.size(F.from_json(listed, "array<string>", JSON_LIMITS)) == 2
    return text.isNotNull() & ~F.coalesce(is_one, F.lit(False)) & ~F.coalesce(is_large_one, F.lit(False))
