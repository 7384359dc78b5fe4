"""Every type of the documents, from its encoding to gold, and a real database's column of each type. Proves R6.

The tables in `tests/types` have a line for each case: the lines of the facts that say so, how a value is encoded, the
Spark type, and the value it becomes or, where the type can't hold it, its exact text. Names of semantic types are
short: `time.` and `data.` stand for io.debezium's, `connect.` for org.apache.kafka.connect.data; `Decimal(2,10)` has
scale and precision. The type in `described` is what scaffolding declares; behind `>` stand a type and an encoding that
people declare instead, as they may in `modes`, of which a line can end with the type that scaffolding declares.
`guessed` has values without a schema, and the type that it takes them for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.landing.shapes import SEMANTIC_TYPES, UNSIGNED_TYPES
from spark_jobs.macro_queries import returned
from spark_jobs.places import Places
from spark_jobs.reporting.described import fields
from spark_jobs.reporting.measures import measure
from spark_jobs.scaffolding.tables import SeenColumn, SeenTable, seen_tables
from spark_jobs.scaffolding.write import files_of, write
from tests.captured import versions_of
from tests.judge import disagreements, keyed_tables, load_exceptions
from tests.projects import empty_project, land, missing, renamed, rows_of, run_models
from tests.source import Column, Source, Table

CAPTURES = Path(__file__).parents[1] / "captures"
TYPES = Path(__file__).parents[1] / "types"
JUDGED = {
    "tp": "postgres-2.5.4-types-precise",  # Observed 21, 22, 23, 24
    "tm": "mariadb-2.5.4-types-precise",  # Observed 21, 23, 24, 25
}
# A column that no database has: 2.5.4 misspells `über` so in the stream, and gold has what came under the name that it
# came under (R8). The list of exceptions has `über`, whose values are missing for it.
MISSPELLED = "\uffc3\uffbcber"
PACKAGES = {"time": "io.debezium.time", "data": "io.debezium.data", "connect": "org.apache.kafka.connect.data"}


def lines(name: str) -> list[list[str]]:
    """The lines of a table of text."""
    text = (TYPES / f"{name}.txt").read_text(encoding="utf-8")
    return [[cell.strip() for cell in line.split("|")] for line in text.splitlines()[1:]]


def full_name(short: str) -> str:
    """`time.Date` as records name it."""
    package, _, name = short.partition(".")
    return f"{PACKAGES[package]}.{name}" if package in PACKAGES else short


def schema_of(literal: str, semantic: str) -> dict[str, Any]:
    """A column's schema as a converter writes it."""
    if semantic.startswith("items "):
        item = semantic.removeprefix("items ")
        plain = item in ("int32", "string", "bytes", "double")
        of_item = (
            "bytes" if "Decimal" in item else "int64" if "Micro" in item else "int32" if "Date" in item else "string"
        )
        return {"type": literal, "items": schema_of(item if plain else of_item, "" if plain else item)}
    if " source " in semantic:
        name, _, of_source = semantic.partition(" source ")
        shape, more = schema_of(literal, name), schema_of(literal, f"source {of_source}")
        return shape | {"parameters": shape["parameters"] | more["parameters"]}
    if source := re.fullmatch(r"source ([A-Z0-9_ ]+)(?:\((\d+),(-?\d+)\))?", semantic):
        shape = dict(zip(("type", "length", "scale"), source.groups(), strict=True))
        parameters = {f"__debezium.source.column.{name}": text for name, text in shape.items() if text}
        return {"type": literal, "parameters": parameters}
    if vector := re.fullmatch(r"(.*) of (\w+)", semantic):
        return {"type": literal, "name": vector[1], "items": {"type": vector[2]}}
    if semantic.endswith(" extended"):
        fields = [{"field": name, "type": kind} for name, kind in (("wkb", "bytes"), ("extensions", "map"))]
        return schema_of(literal, semantic.removesuffix(" extended")) | {"fields": fields}
    if decimal := re.fullmatch(r"(.*Decimal)\((-?\d+)(?:,(\d+))?\)", semantic):
        precision = {"connect.decimal.precision": decimal[3]} if decimal[3] else {}
        return {"type": literal, "name": full_name(decimal[1]), "parameters": {"scale": decimal[2], **precision}}
    of_map = {"keys": {"type": "string"}, "values": {"type": "string"}} if literal == "map" else {}
    return {"type": literal, **({"name": full_name(semantic)} if semantic else {}), **of_map}


def spelled(value: Any) -> str:
    """A value of gold as the tables write it."""
    match value:
        case None:
            return ""
        case bytes():
            return value.hex()
        case Decimal():
            text = f"{value:f}"
            return text.rstrip("0").rstrip(".") if "." in text else text
        case datetime() | date():
            return value.isoformat()
        case [(_, _), *_]:
            return json.dumps(dict(value))
        case list() | dict():
            return json.dumps(value, default=spelled)
    return str(value)


@dataclass(frozen=True)
class Case:
    """One encoded value in a column that cases of the same type and encoding share, in the row of a number."""

    line: str
    column: str
    row: int
    encoded: str
    value: str
    exact: str

    @property
    def mark(self) -> str:
        """What stands in the record until the encoded value takes its place, byte for byte."""
        return f"@{self.column}:{self.row}@"


def cases(name: str, of_column: slice, value: int) -> list[Case]:
    """A table's cases; `of_column` are the cells that name a column, `value` is the cell of the value."""
    columns: dict[tuple[str, ...], list[Case]] = {}
    for cells in lines(name):
        of_type = columns.setdefault(tuple(cells[of_column] + ([cells[4]] if name == "described" else [])), [])
        column = of_type[0].column if of_type else f"c{len(columns)}"
        of_type.append(Case(" | ".join(cells[:value]), column, len(of_type), cells[3], cells[value], cells[value + 1]))
    return [case for of_type in columns.values() for case in of_type]


DESCRIBED = cases("described", slice(1, 3), 5)
UNDESCRIBED = cases("undescribed", slice(1, 3), 4)
# Column → the type that scaffolding declares, and what is declared.
OF_DESCRIBED = {
    case.column: (kind.split(" > ")[0], kind.split(" > ")[-1])
    for case in DESCRIBED
    for kind in [case.line.split(" | ")[4]]
}
MODES = lines("modes")
GUESSED = lines("guessed")


def written(source: Source, cases: Iterable[Case]) -> str:
    """A source's records with the encoded values in their places."""
    encoded = {json.dumps(case.mark): case.encoded for case in cases}
    for record in source.records:
        if record["value"]:
            record["value"] = re.sub('"@[^"]*@"', lambda mark: encoded[mark[0]], record["value"])
    return source.lines()


def rows_with(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The rows that hold the cases, NULL where a column has no more."""
    most = max(case.row for case in cases)
    rows = [{"id": number, **dict.fromkeys(case.column for case in cases)} for number in range(most + 1)]
    for case in cases:
        rows[case.row][case.column] = case.mark
    return [row for row in rows if any(value is not None for name, value in row.items() if name != "id")]


ID = Column("id", {"type": "int32"})


def described() -> str:
    """Records with schemas."""
    source = Source("ty")
    schemas = {case.column: schema_of(*case.line.split(" | ")[1:3]) for case in DESCRIBED}
    table = Table("described", [ID, *[Column(name, schema) for name, schema in schemas.items()]], ("id",))
    for row in rows_with(DESCRIBED):
        with source.commit():
            source.insert(table, row)
    return written(source, DESCRIBED)


def undescribed() -> str:
    """Records without schemas."""
    source = Source("tu", has_schemas=False)
    table = Table("undescribed", [ID, *[Column(case.column) for case in UNDESCRIBED]], ("id",))
    for row in rows_with(UNDESCRIBED):
        with source.commit():
            source.insert(table, row)
    return written(source, UNDESCRIBED)


def modes() -> str:
    """A row that is written in one mode, and read again in another."""
    source = Source("to")
    cases = [
        Case("", f"c{number}", half, cells[4 + 3 * half], "", "")
        for number, cells in enumerate(MODES)
        for half in (0, 1)
    ]
    for half in (0, 1):
        columns = [
            Column(f"c{number}", schema_of(*cells[2 + 3 * half : 4 + 3 * half])) for number, cells in enumerate(MODES)
        ]
        table = Table("modes", [ID, *columns], ("id",))
        row = {"id": 1, **{case.column: case.mark for case in cases if case.row == half}}
        with source.commit():
            source.insert(table, row)
    source.records[-1]["value"] = source.records[-1]["value"].replace('"op": "c"', '"op": "u"')
    return written(source, cases)


# How a column is described first, and then: the pairs have each kind of common type.
RETYPED = [
    ("bytes connect.Decimal(4,12)", "bytes connect.Decimal(2,10)"), ("string", "int32"), ("boolean", "int32"),
    ("int16", "int64"), ("float", "double"), ("int32", "double"), ("int64", "double"),
    ("int32 time.Date", "int64 time.Timestamp"), ("string time.ZonedTimestamp", "int64 time.Timestamp"),
    ("array items int32", "array items double"), ("array items string", "string"), ("map", "string data.Json"),
    ("bytes connect.Decimal(18,38)", "bytes connect.Decimal(0,38)"), ("int64", "bytes connect.Decimal(4,10)"),
    ("float", "bytes connect.Decimal(4,10)"), ("float", "bytes connect.Decimal(20,38)"),
    ("int64", "int64 time.Timestamp"), ("struct data.geometry.Geometry", "struct data.geometry.Geometry extended"),
]  # fmt: skip


def retyped() -> str:
    """A table that nobody declares columns of: they get other types, and one comes without a schema."""
    source = Source("tr")
    for number in (0, 1):
        of_pair = [pair[number].partition(" ") for pair in RETYPED]
        columns = [Column(f"c{place}", schema_of(kind, more)) for place, (kind, _, more) in enumerate(of_pair)]
        with source.commit():
            source.insert(Table("retyped", [ID, *columns], ("id",)), {"id": number})
    source.has_schemas = False
    with source.commit():
        source.insert(Table("retyped", [ID, Column("bare")], ("id",)), {"id": 3, "bare": 5})
    return source.lines()


def guessed() -> str:
    """Records without schemas, of a table that nothing is built of."""
    source = Source("tg", has_schemas=False)
    cases = [
        Case("", f"c{number}", row, value, "", "")
        for number, cells in enumerate(GUESSED)
        for row, value in enumerate(cells[1].split(", "))
    ]
    table = Table("guessed", [ID, *[Column(f"c{number}") for number in range(len(GUESSED))]], ("id",))
    for row in rows_with(cases):
        with source.commit():
            source.insert(table, row)
    return written(source, cases)


# Columns, and the encoding that scaffolding declares of each where records come with schemas and without.
TURNED = {
    "price": ("bytes connect.Decimal(2,10)", "AeJA", "org.apache.kafka.connect.data.Decimal:2"),
    "prices": ("array items connect.Decimal(2,10)", ["AeJA"], "org.apache.kafka.connect.data.Decimal:2"),
    "made": ("int64 time.MicroTimestamp", 1_709_210_096_123_456, "io.debezium.time.MicroTimestamp"),
    "day": ("int32 time.Date", 19_782, ""),
    "opens": ("int64 time.MicroTime", 28_800_000_000, ""),
}  # fmt: skip


def turned() -> str:
    """A row that comes with its schema, and then without: of a converter that was told so."""
    source = Source("tt")
    columns = [Column(name, schema_of(*kind.split(" ", 1))) for name, (kind, _, _) in TURNED.items()]
    table = Table("turned", [*columns, Column("name")], ("opens",))
    row = {name: value for name, (_, value, _) in TURNED.items()} | {"name": "one"}
    with source.commit():
        source.insert(table, row)
    source.has_schemas = False
    with source.commit():
        source.update(table, row, {"name": "two"})
    return source.lines()


# Keys that no type for rows holds all of: 100 ns, a number of 30 digits.
KEYS = {
    "at": ("int64 time.NanoTimestamp", 1_700_000_000_123_456_700, "2023-11-14T22:13:20.1234567"),
    "number": (
        "struct data.VariableScaleDecimal", {"scale": 0, "value": "DJ8ss4NxLyvkKQAB"},
        Decimal(3906250418738705678769651713),
    ),
}  # fmt: skip


# The same of SQL Server in the mode `isostring`.
FINE_KEYS = {
    "at": ("string time.IsoTimestamp", "2023-11-14T22:13:20.1234567Z", "2023-11-14T22:13:20.1234567"),
    "there": ("string time.ZonedTimestamp", "2023-11-14T22:13:20.1234567+01:00", "2023-11-14T22:13:20.1234567+01:00"),
}
# Beside them, and what gold has of them: one that is finer, one that may be, and one of text that is.
FINE = {
    "made": ("int64 time.NanoTimestamp", 1_700_000_000_123_456_700, "2023-11-14T22:13:20.1234567"),
    "seen": ("int64 time.NanoTimestamp", 1_700_000_000_123_456_000, "2023-11-14T22:13:20.123456"),
    "sent": ("string time.ZonedTimestamp", "2023-11-14T22:13:20.1234567+01:00", "2023-11-14T22:13:20.1234567+01:00"),
}  # fmt: skip


def keyed() -> str:
    """A row that is written twice, and tables whose keys no schema tells."""
    source, bare, fine = Source("tk"), Source("tkb", has_schemas=False), Source("tkf", connector="sqlserver")
    columns, fine_columns = (
        [Column(name, schema_of(*kind.split())) for name, (kind, _, _) in keys.items()]
        for keys in (KEYS, FINE_KEYS | FINE)
    )
    row, fine_row = (
        {name: value for name, (_, value, _) in keys.items()} | {"name": "one"} for keys in (KEYS, FINE_KEYS | FINE)
    )
    for of, table in (
        (source, Table("keyed", [*columns, Column("name")], tuple(KEYS))),
        (bare, Table("keyed", [Column("number"), Column("name")], ("number",))),
    ):
        kept = {column.name: row[column.name] for column in table.columns}
        with of.commit():
            of.insert(table, kept)
        with of.commit():
            of.update(table, kept, {"name": "two"})
    with fine.commit():
        fine.insert(Table("keyed", [*fine_columns, Column("name")], tuple(FINE_KEYS)), fine_row)
    return source.lines() + bare.lines() + fine.lines()


def signed() -> str:
    """A row whose key is both zeros, which the source has as one: to the connector that changes the key."""
    source = Source("tz")
    table = Table("zeros", [Column("n", {"type": "double"}), Column("name")], ("n",))
    rows = [{"n": n, "name": name} for n, name in ((-0.0, "one"), (0.0, "two"), (5.0, "three"), (-0.0, "four"))]
    with source.commit():
        source.insert(table, rows[0])
    for old, new in pairwise(rows):
        with source.commit():
            source.update(table, old, new)
    return source.lines()


def declared(table: SeenTable) -> SeenTable:
    """A table's models as people declare them, where records don't tell."""
    types = {"id": ["int", ""]}
    if table.source == "ty":
        types |= {name: f"{kind}, ".split(", ")[:2] for name, (_, kind) in OF_DESCRIBED.items()}
    types |= {case.column: case.line.split(" | ")[1:3] for case in UNDESCRIBED if table.source == "tu"}
    if table.source == "to":
        types |= {f"c{number}": f"{cells[1]}, ".split(", ")[:2] for number, cells in enumerate(MODES)}

    def of(column: SeenColumn) -> SeenColumn:
        kind, encoding = types[column.name]
        return replace(column, type=kind, encoding=full_name(encoding))

    return replace(table, columns=tuple(map(of, table.columns)))


@dataclass(frozen=True)
class Built:
    """A lakehouse with the cases and the captures in it."""

    places: Places
    seen: dict[str, SeenTable]
    tables: dict[str, CapturedTable]

    def history(self, name: str) -> list[dict[str, Any]]:
        """A table's versions, with exact texts as a mapping."""
        model = self.tables[name].history
        assert model is not None
        return [{**row, "exact_values": dict(row["exact_values"])} for row in rows_of(model.location)]


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Built:
    places = Places.of(empty_project(tmp_path_factory.mktemp("types") / "project"))
    captured = [
        line
        for prefix, capture in JUDGED.items()
        for line in renamed(CAPTURES / capture, prefix)
        if "sync_marker" not in line
    ]
    land(
        spark,
        places,
        "types",
        "".join([described(), undescribed(), modes(), retyped(), guessed(), keyed(), signed(), turned(), *captured]),
        {"ty", "tz", "tk", "tkb", "tkf", "tt", *JUDGED},
    )
    seen = {table.name: table for table in seen_tables(spark, places)}
    for table in seen.values():
        if table.source in ("ty", "tu", "to"):
            write(places.project, missing(places.project, [table]) | files_of(declared(table)), "w")
        if table.source == "tr":
            files = files_of(replace(table, columns=table.columns[:1]))
            kept = {path: text for path, text in files.items() if "/bronze/" in path or "/changes/" in path}
            write(places.project, kept)
    run_models(places, "--exclude", "tag:layer:ops", "config.materialized:current")
    return Built(places, seen, {table.name: table for table in captured_tables(places)})


def test_scaffolding_declares_the_type_that_holds_every_encoding(built: Built) -> None:
    types = {column.name: column.type for column in built.seen["ty__public__described"].columns}

    assert types == {"id": "int", **{name: kind for name, (kind, _) in OF_DESCRIBED.items()}}


def test_scaffolding_declares_the_type_that_reads_both_modes(built: Built) -> None:
    modes = built.seen["to__public__modes"]
    types = {column.name: column.type for column in modes.columns}
    declared = [(number, cells) for number, cells in enumerate(MODES) if cells[8]]
    plain = {f"c{number}" for number, cells in declared if ["string", ""] in (cells[2:4], cells[5:7])}

    assert [(cells, types[f"c{number}"]) for number, cells in declared] == [(cells, cells[8]) for _, cells in declared]
    # A column that was text and became a number looks the same: in one of decimals "007" would be 7.
    assert {note.split()[0] for note in modes.notes if "came as text" in note} == plain
    assert (
        "c1 came as text, too, which decimal(10,2) takes for digits (`decimal.handling.mode=string`)."
        " If it was a column of text then, declare it `string`."
    ) in modes.notes
    assert any(note.endswith("If it was hexadecimal, declare its encoding, `hex`.") for note in modes.notes)


def test_scaffolding_declares_the_type_that_a_build_carries(spark: SparkSession, built: Built) -> None:
    table = built.tables["tr__public__retyped"]
    log = spark.read.format("delta").load(table.changes.location).schema["after"].dataType
    carried = {field.name: field.dataType.simpleString() for field in log.fields}
    seen = {column.name: column for column in built.seen[table.name].columns}

    # what no schema describes is carried as text, and declared by its values
    assert (carried.pop("bare"), seen["bare"].type) == ("string", "bigint")
    assert {name: seen[name].type for name in carried} == carried
    assert {carried["c0"], carried["c1"], carried["c6"]} == {"decimal(12,4)", "string", "decimal(38,18)"}
    assert carried[f"c{len(RETYPED) - 1}"] == "struct<wkb:binary,srid:int,extensions:map<string,string>>"
    measured = measure(spark, built.places, [table], {})[table.name]
    assert set(measured.undeclared) == {*seen} - {"id"}


def test_scaffolding_guesses_a_type_that_holds_more_than_was_seen(built: Built) -> None:
    types = {column.name: column.type for column in built.seen["tg__public__guessed"].columns}

    assert [f"{cells[1]}: {types[f'c{number}']}" for number, cells in enumerate(GUESSED)] == [
        f"{cells[1]}: {cells[2]}" for cells in GUESSED
    ]


def test_scaffolding_declares_for_a_key_the_type_that_holds_it(built: Built) -> None:
    seen = built.seen["tk__public__keyed"]
    types = {column.name: column.type for column in seen.columns}
    versions = sorted(built.history(seen.name), key=lambda one: one["valid_from"])

    assert types == {"at": "string", "number": "decimal(38,0)", "name": "string"}
    assert [note.split()[0] for note in seen.notes] == ["at", "number"]
    assert [(one["at"], one["number"], one["name"], one["closed_by"]) for one in versions] == [
        (KEYS["at"][2], KEYS["number"][2], "one", "update"), (KEYS["at"][2], KEYS["number"][2], "two", None),
    ]  # fmt: skip
    assert [(one["number"], one["name"]) for one in built.history("tkb__public__keyed") if one["is_current"]] == [
        (KEYS["number"][2], "two")
    ]
    assert [(one["at"], one["there"]) for one in built.history("tkf__db__keyed")] == [
        tuple(held for _, _, held in FINE_KEYS.values())
    ]


def test_a_key_of_either_zero_is_one(built: Built) -> None:
    versions = sorted(built.history("tz__public__zeros"), key=lambda one: one["valid_from"])
    told = ("n", "name", "opened_by", "closed_by", "previous_key", "next_key")

    assert [[str(one[name]) for name in told] for one in versions] == [
        ["0.0", "one", "insert", "update", "None", "None"],
        ["0.0", "two", "update", "key_change", "None", '{"n":5.0}'],
        ["5.0", "three", "key_change", "key_change", '{"n":0.0}', '{"n":0.0}'],
        ["0.0", "four", "key_change", "None", '{"n":5.0}', "None"],
    ]


def test_scaffolding_declares_text_for_times_that_came_finer_than_microseconds(built: Built) -> None:
    seen = built.seen["tkf__db__keyed"]
    [version] = built.history(seen.name)

    assert {name: spelled(version[name]) for name in FINE} == {name: held for name, (_, _, held) in FINE.items()}
    assert version["exact_values"] == {}
    said = {note.split()[0]: note for note in seen.notes}
    for name, kind in (("made", "timestamp_ntz"), ("sent", "timestamp")):
        assert said[name].startswith(
            f"{name} is string: times finer than microseconds have come, for which a {kind} has"
        )
    assert said["seen"].startswith("seen may be finer than microseconds")


def test_scaffolding_declares_the_encoding_that_schemas_have_told_where_they_come_no_more(built: Built) -> None:
    seen = built.seen["tt__public__turned"]
    versions = sorted(built.history(seen.name), key=lambda one: one["valid_from"])
    held = [[spelled(one[name]) for name in TURNED] + [one["exact_values"]] for one in versions]

    assert {column.name: column.encoding for column in seen.columns if column.name in TURNED} == {
        name: encoding for name, (_, _, encoding) in TURNED.items()
    }
    assert [one["name"] for one in versions] == ["one", "two"]
    assert held == [
        ["1234.56", '["1234.56"]', "2024-02-29T12:34:56.123456", "2024-02-29", "08:00:00.000000", {}]
    ] * 2  # fmt: skip


@pytest.mark.parametrize(
    ("name", "cases"), [("ty__public__described", DESCRIBED), ("tu__public__undescribed", UNDESCRIBED)]
)
def test_a_value_is_exact_or_its_text_is(built: Built, name: str, cases: Sequence[Case]) -> None:
    rows = {row["id"]: row for row in built.history(name)}
    held = [
        f"{case.line} | {spelled(rows[case.row][case.column])} | {rows[case.row]['exact_values'].get(case.column, '')}"
        for case in cases
    ]

    assert held == [f"{case.line} | {case.value} | {case.exact}" for case in cases]


def test_a_mode_that_changes_in_the_middle_of_a_topic_makes_no_version(built: Built) -> None:
    versions = built.history("to__public__modes")
    lines = [" | ".join(cells) for cells in MODES]
    held = [
        {line: version["exact_values"].get(f"c{number}", version[f"c{number}"]) for number, line in enumerate(lines)}
        for version in versions
    ]

    assert [line for line in lines if held[0][line] is None] == []
    assert [{line: value for line, value in one.items() if value != held[0][line]} for one in held[1:]] == []


def test_decoding_knows_the_semantic_types_that_landing_knows() -> None:
    encodings = "macros/types/encodings.sql"
    known = {*returned(encodings, "plain_encodings")}
    for kind in ("number", "text", "moment", "date", "binary"):
        known |= {*returned(encodings, "readings", kind)}

    assert {name for name in known if "." in name} == {*SEMANTIC_TYPES} - {*UNSIGNED_TYPES}


def test_an_unknown_semantic_type_is_reported(spark: SparkSession, built: Built) -> None:
    described = fields(spark, built.places, list(built.tables.values()))

    assert {name: one.unknown_types for name, one in described.items() if one.unknown_types} == {
        "ty__public__described": (
            "com.example.Colour", "com.example.DecimalText", "com.example.Opaque", "com.example.Ticks",
            "com.example.Vector",
        )
    }  # fmt: skip


def test_times_in_milliseconds_are_reported_where_they_still_come_so(spark: SparkSession, built: Built) -> None:
    described = fields(spark, built.places, [built.tables["to__public__modes"]])["to__public__modes"]
    of_modes = [f"c{number}" for number, cells in enumerate(MODES) if cells[6] in ("connect.Timestamp", "connect.Time")]

    assert list(described.connect_times) == of_modes
    assert any(cells[3] == "connect.Timestamp" for cells in MODES)


def test_values_that_do_not_fit_are_counted_by_column(spark: SparkSession, built: Built) -> None:
    name = "ty__public__described"
    measured = measure(spark, built.places, [built.tables[name]], {})[name]
    inexact = {case.column for case in DESCRIBED if case.exact}

    assert {*measured.exact_values} == inexact - {"id"}
    assert sum(measured.exact_values.values()) == sum(len(row["exact_values"]) for row in built.history(name))


# Observed 22
def test_columns_of_which_events_tell_no_values_are_reported(spark: SparkSession, built: Built) -> None:
    tables = [table for table in built.tables.values() if table.source_name in JUDGED]
    asked = {name: one.asked for name, one in fields(spark, built.places, tables).items()}
    measured = measure(spark, built.places, tables, asked)

    assert {name: one.null_in_stream for name, one in measured.items() if one.null_in_stream} == {
        "tp__public__types": ("c_name",)
    }
    assert {name: one.empty_arrays for name, one in measured.items() if one.empty_arrays} == {
        "tp__public__types": ("c_int_matrix",)
    }
    assert "c_generated" in measured["tp__public__types"].read_alone


def test_binary_that_comes_as_text_of_an_encoding_that_nothing_tells_is_reported(
    spark: SparkSession, built: Built
) -> None:
    described = fields(spark, built.places, list(built.tables.values()))
    of_modes = {f"c{number}" for number, cells in enumerate(MODES) if cells[1] == "binary"}
    of_undescribed = {case.column for case in UNDESCRIBED if case.line.split(" | ")[1:3] == ["binary", ""]}

    assert {name: set(one.binary_texts) for name, one in described.items() if one.binary_texts} == {
        "to__public__modes": of_modes, "tu__public__undescribed": of_undescribed,
    }  # fmt: skip
    # PostgreSQL's connector has no placeholder for them, where they still come so (R7).
    of_modes = {f"c{number}" for number, cells in enumerate(MODES) if cells[1] == "binary" and cells[5] == "string"}
    left = {name: {*one.asked.left_as_null} for name, one in described.items()}
    assert left["to__public__modes"] & {f"c{n}" for n, cells in enumerate(MODES) if "binary" in cells[1]} == of_modes
    assert not left["tu__public__undescribed"] & of_undescribed


def spelled_right(state: Mapping[str, Any]) -> dict[str, Any]:
    """A row without the column that only the connector knows."""
    return {name: value for name, value in state.items() if name != MISSPELLED}


@pytest.mark.parametrize("prefix", JUDGED)
def test_gold_holds_what_the_database_held(built: Built, prefix: str) -> None:
    capture = JUDGED[prefix]
    facts = [fact for fact in load_exceptions(CAPTURES / "exceptions.csv") if fact.capture == capture]
    tables = {
        table.source_table.replace("__", ".", 1).replace("odd_name", "Odd Name"): table
        for table in built.tables.values()
        if table.source_name == prefix and table.history is not None
    }
    assert tables.keys() == {name for name in keyed_tables(CAPTURES / capture) if "sync_marker" not in name}
    found = disagreements(
        CAPTURES / capture,
        {
            name: [replace(one, state=spelled_right(one.state)) for one in versions_of(table)]
            for name, table in tables.items()
        },
        {name: table.key for name, table in tables.items()},
    )

    assert [one for one in found if not any(fact.covers(capture, one) for fact in facts)] == []
    assert [fact for fact in facts if not any(fact.covers(capture, one) for one in found)] == [], "no longer needed"
