"""The tables that bronze has seen, with names and types for what will be built of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.columns import EVENT_COLUMNS, OWN_COLUMNS
from spark_jobs.connectors import VECTOR, connector_named
from spark_jobs.declarations import CapturedTable
from spark_jobs.landing.envelope import DOCUMENTS
from spark_jobs.landing.forms import OUTBOX_TOPIC
from spark_jobs.landing.shapes import bytes_as_text
from spark_jobs.names import text_literal
from spark_jobs.places import Places
from spark_jobs.record import JSON_LIMITS
from spark_jobs.scaffolding.types import carried_type, encoding_to_declare, note_on_text
from spark_jobs.texts import folded
from spark_jobs.unsigned import Unsigned, unsigned_columns

# Connector → the fields of its source block that the log of each of its tables is scaffolded with.
_SOURCE_FIELDS = {"oracle": ("user_name",)}

# What is to be known of columns that a connector leaves large values of out as NULL: of vectors, which are large by
# nature, and of others.
_ON_LARGE = {
    True: "NULL in an update is declared to mean unchanged, as the connector leaves unchanged large vectors out (R7). A"
    " real update to NULL is told by REPLICA IDENTITY FULL alone.",
    False: "unchanged values from some 2 kB on come as NULL in updates without `before` (R7). Where values are that"
    " large, set REPLICA IDENTITY FULL, or declare `null_is_unchanged`.",
}

# Kind of record → the macro, and the folder, of the channel's table in which a topic prefix has such records.
CHANNELS = {
    "message": "messages", "schema_change": "schema_versions", "notification": "snapshots", "signal": "snapshots",
}  # fmt: skip

_VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
_GUESSED_SCALE = "numbers with a scale of their own, as Oracle's NUMBER"
# Why a type of times is `string` in a key.
_NO_NANOSECONDS = (
    "a timestamp has no room for nanoseconds, and a key has to be whole. If its times are never so fine, declare it"
    " `{}`."
)
# Encoding and type of a column of rows → its type in a key, and why: rows keep the text of what their type can't hold,
# and a change whose key it is has no place in a history.
_OF_KEYS = {
    ("io.debezium.time.NanoTimestamp", "timestamp_ntz"): ("string", _NO_NANOSECONDS.format("timestamp_ntz")),
    (_VARIABLE_SCALE, "decimal(38,18)"): (
        "decimal(38,0)",
        "it has room for all digits of a whole number, and a key has to be whole. If it can have a fraction, declare a"
        " decimal with room for that.",
    ),
}

# The same of connectors whose sources have times finer than microseconds, in text, of which no schema tells the digits.
_FINE = ("oracle", "sqlserver", "db2")
_OF_FINE_KEYS = {
    (encoding, kind): ("string", _NO_NANOSECONDS.format(kind))
    for encoding, kind in (
        ("io.debezium.time.IsoTimestamp", "timestamp_ntz"),
        ("io.debezium.time.ZonedTimestamp", "timestamp"),
        ("", "timestamp"),
    )
}

# Their encodings of rows that may be finer, which a column declares as text where values are.
_FINE_TIMES = ("io.debezium.time.NanoTimestamp", "io.debezium.time.IsoTimestamp", "io.debezium.time.ZonedTimestamp")
_FINER = (
    "times finer than microseconds have come, for which a {} has no room: they would be NULL there, their text in"
    " `exact_values` alone."
)
_MAY_BE_FINER = (
    "may be finer than microseconds at its source, though none that came is: such a time would be NULL, its text in"
    " `exact_values` alone. Set `time.precision.mode=microseconds` (Debezium 3.1 on), or declare it `string`."
)
# A count of nanoseconds, and a time in text, with digits behind those of microseconds.
_IS_FINER = (
    "value rlike '^-?[0-9]+$' and value != '0' and not endswith(value, '000') or value rlike '[.][0-9]{6}0*[1-9]'"
)

# Encodings whose values stand in schemas as people write them, and the zeros of their types.
_PLAIN = ("string", "boolean", "int8", "int16", "int32", "int64")
_ZEROS = ("", "false", "0")

_NUL = "\0"
_VARIABLE = "${"
_LONGEST = 64  # letters of a source's, a schema's or a table's name in a file's

# A number that is longer than a floating type's, of which the longest is -0.00 and 17 digits, or has an exponent and no
# point, as none of those is written; and its field's name.
_LONG_NUMBER = r":\s*(?:[-0-9.]{23}|-?[0-9]+[eE])"
_FIELD_OF_LONG_NUMBER = rf'"([^"\\]*)"\s*{_LONG_NUMBER}'
_INSTANT = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6}0*)?(Z|[-+][0-9]{2}:?[0-9]{2})$"


@dataclass(frozen=True, slots=True)
class SeenColumn:
    """A column of a captured table: its name with us, in the events, its type, and how sure that is.

    `is_optional` is None where no schema says it; `default` is one that the source itself has, as far as schemas tell;
    `encoding` is how records encode it, where it has to be declared; `null_is_unchanged` whether NULL in an update is
    taken for an unchanged value.
    """

    name: str
    field: str
    type: str
    note: str = ""
    is_optional: bool | None = True
    default: str | None = None
    encoding: str = ""
    null_is_unchanged: bool = False

    @property
    def options(self) -> dict[str, str | bool]:
        """What is declared beside the type: the name in the events where it is another, how it comes, what NULL is."""
        options: dict[str, str | bool] = {} if self.field == self.name else {"field": self.field}
        options |= {"encoding": self.encoding} if self.encoding else {}
        return options | ({"null_is_unchanged": True} if self.null_is_unchanged else {})


# What a collection is scaffolded with: no two documents need have the same fields.
_DOCUMENT_COLUMNS = (
    SeenColumn("id", "id", "string", is_optional=False),
    SeenColumn("document", "$", "string"),
)


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
    documents: bool = False
    notes: tuple[str, ...] = ()
    column_names: dict[str, str] = field(default_factory=dict)

    @property
    def row(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(column.name for column in self.columns)

    @property
    def source_fields(self) -> tuple[str, ...]:
        """What the log has of the source block beside what the rules read."""
        return _SOURCE_FIELDS.get(self.connector, ())

    @property
    def names(self) -> dict[str, str]:
        """Gold's own columns → their names in this table."""
        return {own: self.column_names.get(own, own) for own in OWN_COLUMNS}


@dataclass(frozen=True, slots=True)
class SeenEvents:
    """An outbox topic as bronze has seen it; `columns` are the fields of its payloads, with guessed types."""

    name: str
    topic: str
    columns: tuple[SeenColumn, ...]


@dataclass(frozen=True, slots=True)
class SeenChannel:
    """Records beside changes that bronze has seen of a topic prefix; `kind` is the macro of their table."""

    name: str
    source: str
    prefix: str
    kind: str


def seen_channels(spark: SparkSession, places: Places) -> list[SeenChannel]:
    """What bronze has seen beside changes that has a table of its own, in the order of names."""
    records = bronze.read(spark, places, "records").where(
        F.col("kind").isin(*CHANNELS) & F.col("source_name").isNotNull()
    )
    seen = {
        (row["source_name"], CHANNELS[row["kind"]])
        for row in records.select("kind", "source_name").distinct().collect()
    }
    sources = _apart({prefix: _slug(prefix) for prefix, _ in seen})
    found = [SeenChannel(f"{sources[prefix]}_{kind}", sources[prefix], prefix, kind) for prefix, kind in seen]
    return sorted(found, key=lambda one: one.name)


def seen_events(spark: SparkSession, places: Places) -> list[SeenEvents]:
    """Every outbox topic of bronze, in the order of names; fields named as the table's own columns are left out."""
    text_of = bronze.record_text()
    strings = F.from_json(F.concat(F.lit("["), text_of, F.lit("]")), "array<string>", JSON_LIMITS)
    plain = F.when(text_of.startswith('"') & (F.size(strings) == 1), strings[0])
    events = bronze.read(spark, places, "records").where("kind = 'outbox'")
    values = events.select("topic", F.try_parse_json(F.coalesce(plain, text_of)).alias("image"), _long_numbers())
    values.createOrReplaceTempView("tidemark_events")
    topics = [row["topic"] for row in events.select("topic").distinct().orderBy("topic").collect()]
    columns_of: dict[str, list[SeenColumn]] = {topic: [] for topic in topics}
    for value in _guessable(spark, "topic", "tidemark_events"):
        if _is_name(value["field"]) and folded(value["field"]) not in EVENT_COLUMNS:
            kind, note = _guess(value)
            columns_of[value["topic"]].append(SeenColumn(value["field"], value["field"], kind, note))
    names = _apart({topic: f"outbox__{_slug(topic.removeprefix(OUTBOX_TOPIC))}" for topic in topics})
    return [SeenEvents(names[topic], topic, _distinct(columns)) for topic, columns in columns_of.items()]


def _distinct(columns: Iterable[SeenColumn]) -> tuple[SeenColumn, ...]:
    """The columns that Spark takes for different ones, in the order of names."""
    distinct: dict[str, SeenColumn] = {}
    for column in sorted(columns, key=lambda one: one.name):
        distinct.setdefault(folded(column.name), column)
    return tuple(distinct.values())


def seen_tables(spark: SparkSession, places: Places) -> list[SeenTable]:
    """Every captured table of bronze, in the order of names; names that would clash carry a hash."""
    shapes = bronze.shapes_by_age(spark, places)
    feeds = bronze.by_feed(shapes)
    guesses = _guessed_types(
        spark, places, [feed for feed, rows in feeds.items() if _lacks_types(rows) and not _has_documents(rows)]
    )
    of_keys = _guessed_key_types(spark, places, [feed for feed, rows in feeds.items() if _key_alone(rows)])
    unsigned = unsigned_columns(spark, places, shapes)
    of_bytes = bytes_as_text(spark, places, shapes)
    finer = _finer_times(spark, places, feeds)
    # By the feed: tables of two databases can have one full name.
    names = _apart({feed: table_slug(bronze.full_name(rows[-1])) for feed, rows in feeds.items()})
    tables = [
        _seen_table(
            feed, rows, names[feed], guesses.get(feed, {}), unsigned.get(feed, {}), of_keys.get(feed, {}),
            {name for of, name in of_bytes if of == feed}, {name for of, name in finer if of == feed},
        )
        for feed, rows in feeds.items()
    ]  # fmt: skip
    return sorted(tables, key=lambda table: table.name)


def as_declared(table: SeenTable, declared: CapturedTable) -> SeenTable:
    """A table with the names and the key that its models have, and the names that a build gives undeclared columns."""
    names = {column["field"]: column["name"] for column in declared.columns}
    taken = {*OWN_COLUMNS, *map(folded, [*declared.names_of_own, *names.values()])}
    for column in table.columns:
        if column.field not in names:
            # No record names the whole of a document: scaffolding does.
            name = column.name if table.documents else column.field
            is_free = _is_name(name) and folded(name) not in taken
            names[column.field] = name if is_free else _hashed(name)
            taken.add(folded(names[column.field]))
    of_field = {column.name: names[column.field] for column in table.columns}
    return replace(
        table,
        name=declared.name,
        source=declared.source_name,
        source_table=declared.source_table,
        key=declared.key or tuple(of_field[name] for name in table.key),
        columns=tuple(replace(column, name=of_field[column.name]) for column in table.columns),
        column_names=declared.column_names if declared.history else table.column_names,
    )


def typed_as_declared(table: SeenTable, declared: CapturedTable) -> SeenTable:
    """A table `as_declared` with the declared types, and the declared columns that no record has."""
    of_name = {column.name: column for column in table.columns}
    columns = tuple(
        replace(of_name[column["name"]], type=column["type"], note="")
        if column["name"] in of_name
        else SeenColumn(column["name"], column["field"], column["type"])
        for column in declared.columns
    )
    undeclared = tuple(column for column in table.columns if column.name not in declared.row)
    return replace(table, columns=columns + undeclared)


def table_slug(parts: Sequence[str]) -> str:
    """`<source>__<schema or database>__<table>`: lower case, other characters `_`."""
    return "__".join(map(_slug, parts))


def _slug(part: str) -> str:
    """A part of a name of files; one that a folder could not hold carries a hash instead of its end."""
    slug = re.sub("[^a-z0-9_]", "_", part.lower())
    return slug if len(slug) <= _LONGEST else f"{slug[:_LONGEST]}_{digest(part)}"


def _apart(slugs: Mapping[str, str]) -> dict[str, str]:
    """Names for what has these slugs: one that is another's slug too, or could be its name, carries a hash."""
    hashed = {one: f"{slug}_{digest(one)}" for one, slug in slugs.items()}
    taken = Counter([*slugs.values(), *hashed.values()])
    return {one: hashed[one] if taken[slug] > 1 else slug for one, slug in slugs.items()}


def digest(*parts: str) -> str:
    """Eight digits of the hash of a name, of its parts and not of joined text."""
    return hashlib.md5(json.dumps(parts).encode(), usedforsecurity=False).hexdigest()[:8]


def _lacks_types(shapes: Iterable[Row]) -> bool:
    """Whether there is a field that no schema describes."""
    return any(not _described(seen) for seen in bronze.fields_by_name(shapes).values())


def _has_documents(shapes: Sequence[Row]) -> bool:
    return bool(shapes[-1]["connector"] == DOCUMENTS)


def _seen_table(
    feed: str,
    shapes: list[Row],
    name: str,
    guesses: dict[str, tuple[str, str]],
    unsigned: Mapping[str, Unsigned],
    of_keys: dict[str, tuple[str, str]],
    of_bytes: set[str],
    finer: set[str],
) -> SeenTable:
    newest, fields, keys = shapes[-1], bronze.fields_by_name(shapes), _keys(shapes)
    connector = newest["connector"] or ""
    large = _left_as_null(connector, fields, of_bytes)
    columns = _columns(shapes, fields, guesses, unsigned, of_keys, large)
    as_others = {one.field: ("string", _FINER.format(one.type)) for one in columns if one.field in finer} | {
        column.field: found
        for column in columns
        if keys and column.field in keys[-1] and (found := _of_key(column, fields.get(column.field, []), connector))
    }
    columns = tuple(replace(one, type=as_others.get(one.field, (one.type,))[0]) for one in columns)
    by_field = {column.field: column.name for column in columns}
    source, *parts = bronze.full_name(newest)
    taken = {folded(column.name) for column in columns}
    return SeenTable(
        name=name,
        source=_slug(source),
        source_table=name.removeprefix(f"{_slug(source)}__"),
        full_name=".".join(parts),
        connector=connector,
        feed=feed,
        key=tuple(by_field[field] for field in keys[-1] if field in by_field) if keys else (),
        columns=columns,
        documents=_has_documents(shapes),
        notes=tuple(_notes(connector, by_field, fields, keys, unsigned, as_others, large)),
        column_names={own: _free(own, taken) for own in OWN_COLUMNS if own in taken},
    )


def _left_as_null(connector: str, fields: Mapping[str, Sequence[Row]], of_bytes: set[str]) -> dict[str, bool]:
    """The fields whose large values a connector leaves out as NULL, and whether they are vectors."""
    leaves_as_null = connector_named(connector).leaves_as_null
    of_bytes = of_bytes | {
        field for field, seen in fields.items() if _described(seen) and carried_type(_described(seen)) == "binary"
    }
    return {
        field: bool(re.fullmatch(VECTOR, _newest(seen)["encoding"] or ""))
        for field, seen in fields.items()
        if leaves_as_null(_newest(seen)["encoding"], is_bytes=field in of_bytes) and _newest(seen)["is_optional"]
    }


def _columns(
    shapes: Sequence[Row],
    fields: Mapping[str, Sequence[Row]],
    guesses: Mapping[str, tuple[str, str]],
    unsigned: Mapping[str, Unsigned],
    of_keys: Mapping[str, tuple[str, str]],
    large: Mapping[str, bool],
) -> tuple[SeenColumn, ...]:
    """The columns of rows, and behind them those that the key alone has."""
    if _has_documents(shapes):
        return _DOCUMENT_COLUMNS
    key_alone = _key_alone(shapes)
    alike = Counter(folded(name) for field in (*fields, *key_alone) for name in {field, _hashed(field)})
    of_rows = [
        replace(
            _column(seen, _name(field, alike), guesses.get(field), unsigned.get(field)),
            null_is_unchanged=large.get(field, False),
        )
        for field, seen in fields.items()
    ]
    return *of_rows, *[
        SeenColumn(_name(field, alike), field, *of_keys.get(field, ("string", "no value seen yet")), is_optional=False)
        for field in key_alone
    ]


def _notes(
    connector: str,
    by_field: Mapping[str, str],
    fields: Mapping[str, Sequence[Row]],
    keys: Sequence[tuple[str, ...]],
    unsigned: Mapping[str, Unsigned],
    as_others: Mapping[str, tuple[str, str]],
    large: Mapping[str, bool],
) -> Iterator[str]:
    """What is to be known of a table's key and its columns.

    `by_field` has the columns' names, `as_others` those of other types than rows have, and why.
    """
    others = dict.fromkeys(", ".join(one) for one in keys if one != keys[-1])
    if others:
        yield f"Keys of another shape were seen ({'; '.join(others)}): the newest is declared (R8)."
    for name, one in unsigned.items():
        if not (one.is_now and one.is_always) and one.is_hidden(fields.get(name, ())):
            yield (
                f"{by_field[name]} is {one.encoding} to some of the source's statements and signed to others, and no"
                f" record tells which it is of: read as they are, values from {one.half} on are negative. If no value"
                f" ever was, declare its encoding, `{one.encoding}`."
            )
    for name, seen in fields.items():
        if name in by_field and (note := note_on_text(_described(seen))):
            yield f"{by_field[name]} {note}"
        may_be_finer = connector in _FINE and _newest(seen)["encoding"] == _FINE_TIMES[0]
        if may_be_finer and name in by_field and name not in as_others:
            yield f"{by_field[name]} {_MAY_BE_FINER}"
    for name, (kind, why) in as_others.items():
        yield f"{by_field[name]} is {kind}: {why}"
    for is_vector, note in _ON_LARGE.items():
        if is_vector in large.values():
            of_kind = (by_field[name] for name in large if large[name] is is_vector and name in by_field)
            yield f"{', '.join(of_kind)}: {note}"


def _described(seen: Iterable[Row]) -> list[Row]:
    """What schemas say of a field; records without one tell its name alone."""
    return [one for one in seen if one["encoding"]]


def _newest(seen: Sequence[Row]) -> Row:
    """What the newest shape says of a field; one with a schema, where any has."""
    return (_described(seen) or seen)[-1]


def _free(own: str, taken: Container[str]) -> str:
    """A name for one of gold's own columns that the source has none of."""
    name = f"tidemark_{own}"
    return name if name not in taken else _free(name, taken)


def _keys(shapes: Iterable[Row]) -> list[tuple[str, ...]]:
    """The fields of the keys that were seen, the newest last."""
    return [tuple(json.loads(shape["key_fields"])) for shape in shapes if shape["key_fields"]]


def _key_alone(shapes: Sequence[Row]) -> list[str]:
    """The fields of the newest key that no row has: the connector was told to leave them out of rows."""
    if _has_documents(shapes):
        return []
    keys = _keys(shapes)
    of_rows = {field["name"] for shape in shapes for field in shape["fields"] or ()} | {*bronze.ROUTER_FIELDS}
    return [field for field in keys[-1] if field not in of_rows] if keys else []


def _name(field: str, alike: Counter[str]) -> str:
    return _hashed(field) if alike[folded(field)] > 1 or not _is_name(field) else field


def _column(seen: Sequence[Row], name: str, guess: tuple[str, str] | None, unsigned: Unsigned | None) -> SeenColumn:
    described = _described(seen)
    field = _newest(seen)
    kind, note = (carried_type(described), "") if described else guess or ("string", "no value seen yet")
    encoding = encoding_to_declare(seen, kind)
    if unsigned and unsigned.is_now and unsigned.is_always and unsigned.is_hidden(seen):
        encoding, kind, note = unsigned.encoding, unsigned.type, ""
    is_optional = field["is_optional"] if described else None
    return SeenColumn(name, field["name"], kind, note, is_optional, _default(field), encoding)


def _default(field: Row) -> str | None:
    """A default that the source has as it is told: in place of what a function gives, connectors tell a type's zero."""
    is_plain = field["encoding"] in _PLAIN
    return field["default_value"] if is_plain and field["default_value"] not in _ZEROS else None


def _of_key(column: SeenColumn, seen: Sequence[Row], connector: str | None) -> tuple[str, str] | None:
    """The type of a column in a key, and why it is that; None where it is that of rows."""
    of_keys = _OF_KEYS | _OF_FINE_KEYS if connector in _FINE else _OF_KEYS
    encoding = seen and _newest(seen)["encoding"]
    is_guessed = column.note.endswith(_GUESSED_SCALE)
    return of_keys.get((_VARIABLE_SCALE if is_guessed else encoding or "", column.type))


def _is_name(field: str) -> bool:
    """Whether a column can have the name, as `is_name` in macros/changes/columns.sql says."""
    return field != "" and _NUL not in field and _VARIABLE not in field


def _hashed(field: str) -> str:
    """The name of a column that can't have its own, as `columns_of` in macros/changes/columns.sql makes it."""
    digits = hashlib.md5(field.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{field.replace(_NUL, '').replace(_VARIABLE, '{')}_{digits}"


def _guessed_types(spark: SparkSession, places: Places, feeds: list[str]) -> dict[str, dict[str, tuple[str, str]]]:
    """Types for fields without schemas, from every value: feed → field → (type, note)."""
    if not feeds:
        return {}
    row = "struct<after: variant, payload: struct<after: variant>>"
    values = (
        bronze.read(spark, places, "records")
        .where(F.col("feed").isin(feeds) & (F.col("kind") == "change") & (F.col("op") != "d"))
        .select("feed", F.from_json(bronze.record_text(), row, JSON_LIMITS).alias("v"), _long_numbers())
        .selectExpr("feed", "coalesce(v.after, v.payload.after) as image", "long_numbers")
    )
    values.createOrReplaceTempView("tidemark_images")
    guesses: dict[str, dict[str, tuple[str, str]]] = {}
    for value in _guessable(spark, "feed", "tidemark_images"):
        guesses.setdefault(value["feed"], {})[value["field"]] = _guess(value)
    return guesses


def _guessed_key_types(spark: SparkSession, places: Places, feeds: list[str]) -> dict[str, dict[str, tuple[str, str]]]:
    """The same for the fields of keys, whose schemas shapes don't have."""
    if not feeds:
        return {}
    image = F.try_parse_json(bronze.key_object()).alias("image")
    keys = bronze.read(spark, places, "records").where(F.col("feed").isin(feeds) & (F.col("kind") == "change"))
    keys.select("feed", image, _long_numbers()).createOrReplaceTempView("tidemark_keys")
    guesses: dict[str, dict[str, tuple[str, str]]] = {}
    for value in _guessable(spark, "feed", "tidemark_keys"):
        kind, note = _guess(value)
        guesses.setdefault(value["feed"], {})[value["field"]] = (kind, f"of the key alone; {note}")
    return guesses


def _finer_times(spark: SparkSession, places: Places, feeds: Mapping[str, list[Row]]) -> set[tuple[str, str]]:
    """The fields, with their feeds, that have times which microseconds don't hold, where the source may have such."""
    may_be = {
        (feed, field)
        for feed, rows in feeds.items()
        if rows[-1]["connector"] in _FINE
        for field, seen in bronze.fields_by_name(rows).items()
        if _described(seen) and all(one["encoding"] in _FINE_TIMES for one in _described(seen))
    }
    if not may_be:
        return set()
    row = "struct<after: map<string, string>, payload: struct<after: map<string, string>>>"
    found = (
        bronze.read(spark, places, "records")
        .where(F.col("feed").isin({feed for feed, _ in may_be}) & (F.col("kind") == "change") & (F.col("op") != "d"))
        .select("feed", F.from_json(bronze.record_text(), row, JSON_LIMITS).alias("v"))
        .selectExpr("feed", "explode(coalesce(v.payload.after, v.after)) as (field, value)")
        .where(F.col("field").isin({field for _, field in may_be}) & F.expr(_IS_FINER))
        .select("feed", "field")
        .distinct()
    )
    return {(row["feed"], row["field"]) for row in found.collect()} & may_be


def _long_numbers() -> Column:
    """The fields of a record that have more digits than a variant or a floating type keeps; NULL where none has."""
    record = bronze.record_text()
    # Names begin at every quotation mark: records are asked for such a number before they are for its name.
    names = F.regexp_extract_all(record, F.lit(_FIELD_OF_LONG_NUMBER))
    return F.when(record.rlike(_LONG_NUMBER), names).alias("long_numbers")


def _guessable(spark: SparkSession, owner: str, view: str) -> list[Row]:
    """What the values of each field look like, by a view's columns `owner`, `image`, a variant, and `long_numbers`."""
    rows: list[Row] = spark.sql(
        f"""
        select
            {owner},
            field,
            schema_of_variant_agg(value) as kind,
            count_if(as_text rlike {text_literal(_INSTANT)}) = count(as_text) as is_instant,
            count_if(kind = 'BOOLEAN' or kind = 'BIGINT' and as_text in ('0', '1')) = count(as_text)
                and max(kind = 'BOOLEAN') as is_boolean,
            max(array_contains(long_numbers, field)) as has_long_numbers,
            count(as_text) as values_seen
        from (
            select
                {owner},
                key as field,
                value,
                cast(value as string) as as_text,
                schema_of_variant(value) as kind,
                long_numbers
            from {view}, lateral variant_explode(image)
            -- the items of an array have no names
            where key is not null
        ) as seen
        group by {owner}, field
        """
    ).collect()
    return rows


def _guess(seen: Row) -> tuple[str, str]:
    kind = seen["kind"].upper()
    decimal = re.match(r"DECIMAL\((\d+),\s*(\d+)\)", kind)
    if not seen["values_seen"]:
        return "string", "no value but NULL was seen"
    if kind == "STRING" and seen["is_instant"]:
        return "timestamp", "every value is an instant in ISO 8601"
    if kind == "BIGINT":
        return "bigint", "whole numbers; a date (days) or a time (microseconds) looks the same"
    if decimal:
        whole, scale = int(decimal[1]) - int(decimal[2]), int(decimal[2])
        return f"decimal(38,{max(scale, min(18, 38 - whole))})", "room for more digits than were seen"
    if kind == "OBJECT<SCALE: BIGINT, VALUE: STRING>":
        return "decimal(38,18)", _GUESSED_SCALE
    if kind == "DOUBLE" and seen["has_long_numbers"]:
        return "decimal(38,18)", "numbers were seen as no floating type writes them"
    if seen["is_boolean"]:
        return "boolean", "0 and 1 were seen with true and false"
    if kind in ("BOOLEAN", "DOUBLE", "STRING"):
        return kind.lower(), "from the values"
    if re.fullmatch(r"ARRAY<(BIGINT|STRING|BOOLEAN|DOUBLE)>", kind):
        return kind.lower(), "from the values"
    return "string", "values of several forms, kept as JSON text"
