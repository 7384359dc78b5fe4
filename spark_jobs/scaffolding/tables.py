"""The tables that bronze has seen, with names and types for what will be built of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.names import text
from spark_jobs.places import Places

# What gold adds to a source's columns; macros/history/version_rows.sql owns the list, a test holds them together.
OWN_COLUMNS = (
    "valid_from", "valid_to", "is_current", "opened_by", "closed_by", "previous_key", "next_key", "is_start_known",
    "unresolved_columns", "exact_values", "position", "transaction_id", "topic", "partition", "offset", "version_id",
)  # fmt: skip

_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[-+][0-9]{2}:?[0-9]{2})$"


@dataclass(frozen=True, slots=True)
class SeenColumn:
    """A column of a captured table: its name with us, in the events, its type, and how sure that is."""

    name: str
    field: str
    type: str
    note: str = ""
    is_optional: bool = True
    default: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether type alone says it: the column has the field's own name."""
        return self.name == self.field


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A captured table as bronze has seen it."""

    name: str
    source: str
    source_table: str
    full_name: str
    connector: str
    feed: str
    key: tuple[str, ...]
    columns: tuple[SeenColumn, ...]
    notes: tuple[str, ...] = ()
    column_names: dict[str, str] = field(default_factory=dict)

    @property
    def row(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(column.name for column in self.columns)

    @property
    def names(self) -> dict[str, str]:
        """Gold's own columns → their names in this table."""
        return {own: self.column_names.get(own, own) for own in OWN_COLUMNS}


def seen_tables(spark: SparkSession, places: Places) -> list[SeenTable]:
    """Every captured table of bronze, in the order of names; names that would clash carry a hash."""
    shapes = bronze.read(spark, places, "shapes").orderBy("batch_id").collect()
    feeds: dict[str, list[Row]] = {}
    for shape in shapes:
        feeds.setdefault(shape["feed"], []).append(shape)
    guesses = _guessed_types(spark, places, [feed for feed, rows in feeds.items() if not _has_schema(rows)])
    slugs = {feed: table_slug(_parts(rows[-1])) for feed, rows in feeds.items()}
    taken = Counter(slugs.values())
    tables = []
    for feed, rows in feeds.items():
        hashed = f"_{digest(*_parts(rows[-1]))}" if taken[slugs[feed]] > 1 else ""
        tables.append(_seen_table(feed, rows, slugs[feed] + hashed, guesses.get(feed, {})))
    return sorted(tables, key=lambda table: table.name)


def table_slug(parts: Sequence[str]) -> str:
    """`<source>__<schema or database>__<table>`: lower case, other characters `_`."""
    return "__".join(re.sub("[^a-z0-9_]", "_", part.lower()) for part in parts)


def digest(*parts: str) -> str:
    """Eight digits of the hash of a full name, of its parts and not of joined text."""
    return hashlib.md5(json.dumps(parts).encode(), usedforsecurity=False).hexdigest()[:8]


def _parts(shape: Row) -> list[str]:
    return [part for part in (shape["source_name"], shape["schema"] or shape["db"], shape["table"]) if part]


def _has_schema(shapes: Iterable[Row]) -> bool:
    return any(field["encoding"] for shape in shapes for field in shape["fields"] or ())


def _seen_table(feed: str, shapes: list[Row], name: str, guesses: dict[str, tuple[str, str]]) -> SeenTable:
    newest = shapes[-1]
    fields: dict[str, Row] = {}
    for shape in shapes:
        # A described field says more than a named one, whichever came last.
        fields |= {
            field["name"]: field for field in shape["fields"] or () if field["encoding"] or field["name"] not in fields
        }
    lowered = Counter(field.lower() for field in fields)
    columns = tuple(
        _column(field, lowered[field["name"].lower()] > 1, guesses.get(field["name"])) for field in fields.values()
    )
    keys = [tuple(json.loads(shape["key_fields"])) for shape in shapes if shape["key_fields"]]
    by_field = {column.field: column.name for column in columns}
    key = tuple(by_field[field] for field in keys[-1] if field in by_field) if keys else ()
    notes = (
        [f"Keys of another shape were seen ({', '.join(keys[0])}): the newest is declared (R8)."]
        if len(set(keys)) > 1
        else []
    )
    parts = _parts(newest)
    taken = {column.name.lower() for column in columns}
    return SeenTable(
        name=name,
        source=re.sub("[^a-z0-9_]", "_", parts[0].lower()),
        source_table=name.removeprefix(re.sub("[^a-z0-9_]", "_", parts[0].lower()) + "__"),
        full_name=".".join(parts[1:]),
        connector=newest["connector"] or "",
        feed=feed,
        key=key,
        columns=columns,
        notes=tuple(notes),
        column_names={own: f"tidemark_{own}" for own in OWN_COLUMNS if own in taken},
    )


def _column(field: Row, clashes: bool, guess: tuple[str, str] | None) -> SeenColumn:
    name = f"{field['name']}_{digest(field['name'])}" if clashes else field["name"]
    kind, note = (field["spark_type"], "") if field["encoding"] else guess or ("string", "no value seen yet")
    return SeenColumn(name, field["name"], kind, note, field["is_optional"], field["default_value"])


def _guessed_types(spark: SparkSession, places: Places, feeds: list[str]) -> dict[str, dict[str, tuple[str, str]]]:
    """Types for records without schemas, from every value: feed → field → (type, note)."""
    if not feeds:
        return {}
    row = "struct<after: variant, payload: struct<after: variant>>"
    values = (
        bronze.read(spark, places, "records")
        .where(F.col("feed").isin(feeds) & (F.col("kind") == "change") & (F.col("op") != "d"))
        .select("feed", F.from_json(F.decode("value", "utf-8"), row).alias("v"))
        .selectExpr("feed", "coalesce(v.after, v.payload.after) as image")
    )
    values.createOrReplaceTempView("tidemark_images")
    seen = spark.sql(
        f"""
        select
            feed,
            key as field,
            schema_of_variant_agg(value) as kind,
            count_if(cast(value as string) rlike {text(_INSTANT)}) = count(cast(value as string)) as is_instant,
            count(cast(value as string)) as known
        from tidemark_images, lateral variant_explode(image)
        group by feed, key
        """
    ).collect()
    guesses: dict[str, dict[str, tuple[str, str]]] = {}
    for value in seen:
        guesses.setdefault(value["feed"], {})[value["field"]] = _guess(value)
    return guesses


def _guess(seen: Row) -> tuple[str, str]:
    kind = seen["kind"].upper()
    scale = re.match(r"DECIMAL\(\d+,\s*(\d+)\)", kind)
    if not seen["known"]:
        return "string", "no value but NULL was seen"
    if kind == "STRING" and seen["is_instant"]:
        return "timestamp", "every value is an instant in ISO 8601"
    if kind == "BIGINT":
        return "bigint", "whole numbers; a date (days) or a time (microseconds) looks the same"
    if scale:
        return f"decimal(38,{scale[1]})", "from the most digits seen after the point"
    if kind in ("BOOLEAN", "DOUBLE", "STRING"):
        return kind.lower(), "from the values"
    if re.fullmatch(r"ARRAY<(BIGINT|STRING|BOOLEAN|DOUBLE)>", kind):
        return kind.lower(), "from the values"
    return "string", "values of several forms, kept as JSON text"
