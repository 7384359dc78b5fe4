"""Names and values made to break SQL, Jinja, YAML, paths, pages and terminals: one landing and one build of them all.

Nothing of them is run, nothing stops the run, and no value goes missing: what the type can't hold is in
`exact_values` (R6), what can't be understood in the quarantine (R2), and every record is accounted for (G6).
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import unicodedata
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import Row, SparkSession

from spark_jobs.cli import main
from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import as_declared, seen_tables
from spark_jobs.texts import folded
from tests.network import Network
from tests.projects import PROJECT, empty_project, forget_tables, run_models
from tests.source import Column, Source, Table

# What people set to switch statistics off, and these tests do without.
SWITCHES = ("DBT_SEND_ANONYMOUS_USAGE_STATS", "DO_NOT_TRACK")
PREFIX = "h`{{ 7 * 7 }}'\"\x1b[2J"
NAMES = [
    "'; drop table gold.x; --", 'quo"te`tick\\', "{{ 7 * 7 }}", "{{{ 7 * 7 }}}", "{# note #}",
    "{% endraw %}{{ 7 * 7 }}{% raw %}", "ref('x')", "env_var('HOME')", "${system:user.name}", "../../../etc/passwd",
    "${user.home}", "${env.PATH} `${java.version}`",
    "<script>alert(7)</script>", "line\nbreak: [x", "return\rfeed", "tab\there", "\u202eevil\u2066", "nul\x00l",
    "\x1b[2J\x1b]0;owned\x07", "\x85\u2028\x9b", "x" * 10_000, "", "%s %(x)s {0}", "select", "*", ".", "a.b", "😀", " ",
    "valid_from", "tidemark_valid_from", "POSITION", "op", "key", "exact_values", "1", "None", "-- {", "/*", "*/", "\\",
    "# note", "#", "_corrupt_record",
]  # fmt: skip
KEY = ("_corrupt_record", "ref('x')", "{% endraw %}{{ 7 * 7 }}{% raw %}", 'quo"te`tick\\')
# Of each group Spark takes the names for one, whatever its letters are told apart by elsewhere.
ALIKE = ["id", "ID", "ı d", "i d", "s", "ſ", "K", "\u212a", "σ", "ς", "Valid_To", "valid_to", "maß", "maẞ"]
ALIKE += ["straße", "strasse"]  # These two it tells apart.
LATE = [
    "position", "valid_to", "# late", "", "Ref('x')", "late\x1b[2J{{ 7 * 7 }}${env:HOME}`", "${java.io.tmpdir}",
    "tidemark_position",  # as gold's own column is named, since the table has a POSITION
]  # fmt: skip
# What asks gold's rows and current ones by a source's own names has names of its own beside them.
ASKING = [
    *(f"macros/{folder}/*.sql" for folder in ("laws", "analysis", "current", "accounting")),
    *(f"macros/history/{name}.sql" for name in ("rewrite", "materialization", "carry")), "tests/dbt/generic/*.sql",
]  # fmt: skip
TABLE = "{{ 7 * 7 }}'; drop table x; --/../../x\n\x1b[2J\u202e<b>"
LONG_TABLE = "t" * 10_000
CONNECTOR = "{{ 7 * 7 }}\n- evil: <script>"
DEEP = "[" * 500 + "]" * 500
DEBEZIUM, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
BIG = 50_000_000


def base64_of(number: int, size: int) -> str:
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "whole": {"type": "int16"},
    "long": {"type": "int64"},
    "yes": {"type": "boolean"},
    "single": {"type": "float"},
    "twice": {"type": "double"},
    "money": {
        "type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "2", "connect.decimal.precision": "12"}
    },
    "odd": {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "x"}},
    "any": {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
    "day": {"type": "int32", "name": DEBEZIUM + "Date"},
    "iso_day": {"type": "string", "name": DEBEZIUM + "IsoDate"},
    "millis": {"type": "int64", "name": DEBEZIUM + "Timestamp"},
    "nanos": {"type": "int64", "name": DEBEZIUM + "NanoTimestamp"},
    "zoned": {"type": "string", "name": DEBEZIUM + "ZonedTimestamp"},
    "clock": {"type": "int64", "name": DEBEZIUM + "MicroTime"},
    "fine": {"type": "int64", "name": DEBEZIUM + "NanoTime"},
    "bytes": {"type": "bytes"},
    "numbers": {"type": "array", "items": {"type": "int32"}},
    "wide": {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "1"}},
    "days": {"type": "array", "items": {"type": "int32", "name": DEBEZIUM + "Date"}},
    "big": {"type": "int64", "parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}},
    "pairs": {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
    "versions": {"type": "int32"},
}  # fmt: skip
# Column, value as it stands in the JSON, and the text that is kept: in its column, or exactly.
VALUES: list[tuple[str, Any, str]] = [
    *[("text", name, name) for name in NAMES],
    ("text", "'); select 1; -- ${env:HOME}", "'); select 1; -- ${env:HOME}"),
    ("text", "NULL", "NULL"),
    ("text", {"a": {"b": [1]}}, '{"a":{"b":[1]}}'),
    ("text", json.loads(DEEP), DEEP),
    ("text", '\uffff a "\uffffb" c: "\uffff12"', '\uffff a "\uffffb" c: "\uffff12"'),
    ("whole", "x\uffff", "x\uffff"),
    ("whole", 32_768, "32768"),
    ("whole", 1.5, "1.5"),
    ("whole", "1; drop", "1; drop"),
    ("whole", [1], "[1]"),
    ("long", 10**400, str(10**400)),
    ("long", 10**4000, str(10**4000)),
    ("long", True, "true"),
    ("yes", "perhaps", "perhaps"),
    ("single", 1e300, "1.0E300"),
    ("twice", "many", "many"),
    ("money", base64_of(10**40, 17), f"base64:{base64_of(10**40, 17)}"),
    ("money", base64_of(2**126, 16), f"{2**126 // 100}.{2**126 % 100:02}"),
    ("money", base64_of(10**12, 6), "10000000000.00"),
    ("money", "not base64!", "not base64!"),
    ("odd", "AQ==", "base64:AQ=="),
    ("any", {"scale": -2_000_000_000, "value": "AQ=="}, '{"scale":-2000000000,"value":"AQ=="}'),
    ("any", {"scale": 2_000_000_000, "value": "AQ=="}, '{"scale":2000000000,"value":"AQ=="}'),
    ("any", {"scale": "y"}, '{"scale":"y"}'),
    ("day", 10**9, "+2739877-01-03"),
    ("day", -(10**30), str(-(10**30))),
    ("day", "12024-01-01", "12024-01-01"),
    ("millis", 2**63 - 1, str(2**63 - 1)),
    ("nanos", 1, "1970-01-01T00:00:00.000000001"),
    ("zoned", "0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
    ("zoned", "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59-14:00"),
    ("zoned", "+12024-01-01T00:00:00Z", "+12024-01-01T00:00:00Z"),
    ("zoned", "2024-13-45T00:00:00Z", "2024-13-45T00:00:00Z"),
    ("clock", -(2**63), str(-(2**63))),
    ("clock", 3_020_399_000_000, "838:59:59.000000"),
    ("wide", base64_of(-(10**60), 26), f"-{10**59}.0"),
    ("wide", "1" * 2000, f"base64:{'1' * 2000}"),
    ("nanos", "soon", "soon"),
    ("days", [1, "x"], '["1","x"]'),
    ("days", "no list", "no list"),
    ("big", "-many", "-many"),
    ("clock", "noon", "noon"),
    ("clock", 86_400_000_000, "24:00:00.000000"),
    ("fine", 1_000_000_001, "00:00:01.000000001"),
    ("bytes", "no base64!", "no base64!"),
    ("numbers", [1, "x", 3], '[1,"x",3]'),
    ("numbers", [1, 2**40], f"[1,{2**40}]"),
    ("numbers", [[{"a": 1, "b": [2]}]], '[[{"a":1,"b":[2]}]]'),
    ("pairs", "[]", "[]"),
]  # fmt: skip


@dataclass
class Bad:
    """A line that can't be understood: the code that it is quarantined with, and what makes it so."""

    code: str
    value: dict[str, Any] | str | None = None
    line: dict[str, Any] = field(default_factory=dict)
    raw: bytes | None = None
    key: str | None = None


def damaged(**own: Any) -> dict[str, Any]:
    """A change whose envelope, or with a dict its source block, says something else."""
    origin = {"connector": "postgresql", "name": PREFIX, "db": "db", "schema": "public", "table": "values", "lsn": 1,
              "txId": 1, "ts_ms": 1_700_000_000_000, "sequence": '["1","1"]'}  # fmt: skip
    own_source = own.pop("source", {})
    block = {
        "source": origin | own_source if isinstance(own_source, dict) else own_source,
        "op": "c",
        "ts_ms": 1_700_000_000_000,
        "before": None,
    }
    return block | {"after": {"id": 1}} | own


def place(**own: Any) -> dict[str, Any]:
    return damaged(source=own)


BAD = [
    Bad("not-unicode", raw=b'{"topic":"h","partition":0,"offset":1,"value":"caf\xe9"}'),
    Bad("not-unicode", raw=b'{"topic":"h","partition":0,"offset":1,"value":"caf\xe8"}'),
    Bad("not-unicode", raw=b'{"topic":"h","partition":0,"offset":2,"value":"half \\ud83d a letter"}'),
    Bad("not-unicode", json.dumps(damaged(after={"id": 1, "text": "\ud800"}))),
    Bad("not-unicode", json.dumps(damaged(after={"id": 1, "\udc00\\": 1}))),
    Bad("not-unicode", damaged(), key='{"id":"\\ude00"}'),
    Bad("line-not-json", raw=b"\x00\x1b[2J{{ 7 * 7 }}<script>"),
    Bad("line-not-json", raw=b'{"topic":"h","partition":"0","offset":"1","value":"cut'),
    Bad("line-bad-number", damaged(), line={"offset": 10**30}),
    Bad("line-bad-number", damaged(), line={"partition": "zero"}),
    Bad("line-bad-number", damaged(), line={"partition": 2**31}),
    Bad("line-bad-number", damaged(), line={"offset": 1.5}),
    Bad("line-bad-number", damaged(), line={"timestamp": "yesterday"}),
    Bad("line-without-offset", damaged(), line={"topic": None}),
    Bad("headers-not-understood", damaged(), line={"headers": "{{ 7 * 7 }}"}),
    Bad("headers-not-understood", damaged(), line={"headers": [5]}),
    Bad("value-not-json", "[" * 2000 + "]" * 2000),
    Bad("value-not-json", "\x00"),
    Bad("value-not-json", '{"schema":{"a":[{"b":1}],"payload":null}'),
    Bad("value-not-json", json.dumps(damaged()) + "x"),
    Bad("value-not-json", json.dumps(damaged()) * 2),
    Bad("value-not-json", json.dumps([damaged()])),
    Bad("no-envelope", json.dumps(damaged()) + ",0]"),
    Bad("no-envelope", damaged(source="text")),
    Bad("no-envelope", {"payload": "text"}),
    Bad("key-not-json", damaged(), key="'; --"),
    Bad("no-envelope", {"a": json.loads(DEEP)}),
    Bad("no-source", place(table="")),
    Bad("no-source", place(name="")),
    Bad("no-source", place(name=None)),
    Bad("unknown-op", damaged(op="{{ 7 * 7 }}\x1b[2J<script>")),
    Bad("no-after", damaged(after=[1])),
    Bad("no-time", damaged(source={"ts_ms": 0}, ts_ms=None)),
    Bad("bad-number", place(ts_ms="soon")),
    Bad("bad-number", place(ts_us=2**63)),
    Bad("bad-number", place(ts_ms=253_402_300_800_000)),
    Bad("bad-number", damaged(ts_ms=1e300)),
    Bad("bad-number", damaged(ts_us="soon")),
    Bad("bad-number", damaged(ts_ns=2**63)),
    Bad("bad-number", place(lsn="0/16B3748")),
    Bad("bad-number", place(lsn=-1)),
    Bad("bad-number", place(lsn=10**30)),
    Bad("bad-number", place(sequence='["x"]')),
    Bad("bad-number", place(connector="mariadb", pos=[1])),
    Bad("position_unknown", place(lsn=None, sequence=None)),
    Bad("position_unknown", place(connector="mysql", file="binlog.000001")),
    Bad("position_unknown", place(connector="sqlserver", commit_lsn="98784247808")),
    Bad("key_not_decoded", damaged(after={"id": "x'; --"}), key='{"id":"x\'; --"}'),
]  # fmt: skip


def bad_line(number: int, bad: Bad) -> bytes:
    if bad.raw is not None:
        return bad.raw
    value = bad.value if isinstance(bad.value, str) else json.dumps(bad.value)
    record = {"topic": "h.bad", "partition": 1, "offset": number, "timestamp": 10**18, "key": bad.key or '{"id":1}'}
    return json.dumps({**record, "value": value, "headers": [], **bad.line}).encode()


def source_records() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The records from which models are written, and those that come later, with columns that no model declares."""
    source = Source(PREFIX)
    columns = Table("columns", [Column(name) for name in NAMES], KEY)
    alike = Table("alike", [Column(name) for name in ALIKE], ())
    values = Table("values", [Column("id", {"type": "int32"}), *(Column(name, kind) for name, kind in TYPES.items())],
                   ("id",))  # fmt: skip
    empty = dict.fromkeys(TYPES)
    for number in (1, 2):
        with source.commit():
            source.insert(columns, {name: f"{number} {name[:40]}" for name in NAMES})
            source.insert(alike, {name: f"{number} {name}" for name in ALIKE})
            source.insert(values, {**empty, "id": 0}) if number == 1 else None
    old = columns.rows[next(iter(columns.rows))]
    with source.commit():
        source.update(columns, old, {"select": "updated"})
    for name in (TABLE, LONG_TABLE):
        unkeyed = Table(name, [Column("v")], ())
        with source.commit():
            source.insert(unkeyed, {"v": name[:100]})
    first, source.records = source.records, []
    columns.columns += [Column(name) for name in LATE if name not in NAMES]
    with source.commit():
        source.insert(columns, {name: f"3 {name[:40]}" for name in {*NAMES, *LATE}})
        for number, (column, value, _) in enumerate(VALUES, 1):
            source.insert(values, {**empty, "id": number, column: value})
    # A row without a key comes again, behind one whose place is not told.
    again = next(record for record in first if json.loads(record["value"])["payload"]["source"]["table"] == "alike")
    placeless = json.loads(again["value"])
    placeless["payload"]["source"] |= {"lsn": None, "sequence": None}
    source.records += [again | {"value": json.dumps(placeless)}, {**again}]
    # A topic of its own name, on which tables are mixed: `source` says which table a record is of.
    for number, record in enumerate([*first, *source.records]):
        record.update(topic="mixed'{{ 7 * 7 }}\x1b[2J", offset=number)
    return first, source.records


def twice_named() -> list[dict[str, Any]]:
    """Objects that have a name twice: the last counts, in the envelope, the row, the key and the schema."""
    fields = [{"field": "id", "type": "int32"}, {"field": "text", "type": "int32"}, {"field": "text", "type": "string"}]
    schema = json.dumps({"type": "struct", "fields": [{"field": "after", "fields": [*fields, {"type": "string"}]}]})
    row = '{"id":8,"text":"lost","text":"kept","id":1000,"TEXT":"other"}'
    values = []
    for table in ("values", "bare"):
        origin = json.dumps(place(table=table, lsn=10**6)["source"])
        values.append(f'{{"op":"d","source":{origin},"ts_ms":1,"after":null,"after":{row},"op":"c"}}')
    values[0] = f'{{"schema":{schema},"payload":{values[0]}}}'
    return [
        {"topic": "h.twice", "partition": 0, "offset": number, "key": key, "value": value}
        for number, (key, value) in enumerate(zip(['{"id":9,"id":1000}', None], values, strict=True))
    ]


def odd_records() -> list[dict[str, Any]]:
    """A value of 50 MB without a schema, and a connector that no one knows."""
    big = damaged(source={"table": "big", "lsn": 10**6 + 1}, after={"id": 1, "v": "x" * BIG})
    unknown = place(table="unknown", connector=CONNECTOR)
    return [
        {"topic": "h.odd", "partition": 0, "offset": number, "key": None, "value": json.dumps(value)}
        for number, value in enumerate((big, unknown))
    ]


def named_as_queries() -> tuple[list[dict[str, Any]], list[dict[str, Any]], Table]:
    """A table whose columns are named as what queries name: the records of two landings, and what is there in the end.

    Where a name stands before a dot its column is a struct of what is asked of it.
    """
    files = [path for pattern in ASKING for path in sorted(PROJECT.glob(pattern))]
    text = "".join(re.sub(r"{#.*?#}", "", path.read_text(), flags=re.S) for path in files)
    words = {*re.findall(r"\bas ([a-z_]+)\b", text), *re.findall(r"\b([a-z_]+) (?:as \(|->)", text)}
    asked: dict[str, set[str]] = {}
    for name, of_it in re.findall(r"(?<![\w.])([a-z_]+)\.([a-z_]+)\b", text):
        asked.setdefault(name, set()).add(of_it)
    structs = {word: sorted(asked[word]) for word in sorted(words & {*asked})}
    assert len(words) > 100
    assert len(structs) > 20
    key = ("key", "place")
    columns = [
        Column(word, {"type": "struct", "fields": [{"field": one, "type": "string"} for one in fields]})
        for word, fields in structs.items()
    ]
    table = Table("structs", [*map(Column, key), *columns], key, is_full=True)
    source = Source("named", connector="mariadb")

    def row(number: int, of_key: int) -> dict[str, Any]:
        values = {word: {one: f"{number} {word} {one}" for one in fields} for word, fields in structs.items()}
        return {**dict.fromkeys(key, str(of_key)), **values}

    with source.commit():
        for number in (1, 2, 3):
            source.insert(table, row(number, number))
    # The connector began behind these.
    source.records = []
    _, two, three = table.rows.values()
    with source.commit():
        source.update(table, row(1, 1), row(4, 1))
        source.insert(table, row(5, 5))
    with source.commit():
        source.delete(table, two)
    first, source.records = source.records, []
    with source.commit():
        source.update(table, row(4, 1), row(4, 6))
        source.update(table, row(5, 5), row(7, 5))
    with source.commit():
        source.delete(table, three)
    return first, source.records, table


@dataclass
class Built:
    """The lakehouse of hostile records, everything that its commands said, and whom they tried to reach."""

    spark: SparkSession
    places: Places
    outputs: dict[str, str]
    tables: dict[str, CapturedTable]
    named: Table
    attempts: list[str]

    def rows(self, table: str, layer: str = "history") -> list[Row]:
        """The rows of a table's model."""
        model = getattr(self.tables[table], layer)
        rows: list[Row] = self.spark.table(table_at(model.location)).collect()
        return rows


def with_past_of_values(project: Path) -> None:
    """A view of the table that has a column of the query's own names."""
    [history] = project.glob("models/gold/history/*__values_history.sql")
    current, names = history.stem.replace("_history", "_current"), {"versions": "tidemark_versions"}
    view = project / "models/gold/views/with_past.sql"
    view.parent.mkdir()
    view.write_text(f"{{{{ with_past(ref('{current}'), ref('{history.stem}'), ['id'], column_names={names}) }}}}")


def views_of_named(project: Path, named: Table) -> None:
    """What analysts ask, of the table whose columns are named as what those queries name."""
    [model] = project.glob("models/gold/history/named__*_history.sql")
    history, current = f"ref('{model.stem}')", f"ref('{model.stem.replace('_history', '_current')}')"
    key, others = [*named.key], [column.name for column in named.columns if column.name not in named.key]
    on = " and ".join(f"left_version.{name} = right_version.{name}" for name in key)
    names = {name: f"own_{name}" for name in ("versions", "removals", "first_valid_from", "is_first_start_known")}
    ever = "\"timestamp'0001-01-01'\", \"timestamp'9999-01-01'\""
    views = {
        "then": f"select * from {{{{ as_of({history}, \"timestamp'9999-01-01'\") }}}} as then",
        "past": f"{{{{ with_past({current}, {history}, {key}, {names}) }}}}",
        "changed": f"{{{{ changes_between({history}, {key}, {others}, {ever}) }}}}",
        "joined": f"{{{{ point_in_time_join({history}, {history}, '{on}', {[*key, *others]}, {others}, 'then_') }}}}",
    }
    for name, text in views.items():
        (project / f"models/gold/views/named_{name}.sql").write_text(text)


@pytest.fixture(scope="module")
def built(spark: SparkSession, network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    assert not [name for name in SWITCHES if name in os.environ], "what is shipped has to switch statistics off"
    before = len(network.attempts)
    home = tmp_path_factory.mktemp("hostile")
    project = empty_project(home / "project")
    outputs: dict[str, str] = {}

    def tidemark(*arguments: str, status: int = 0) -> None:
        output = io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            ended = main([*arguments, "--project-dir", str(project)])
        outputs[" ".join(arguments[:2])] = output.getvalue()
        assert ended == status, output.getvalue()[-3000:]

    def file(name: str, records: list[dict[str, Any]], *lines: bytes) -> str:
        path = home / name
        path.write_bytes(b"\n".join([*(json.dumps(record).encode() for record in records), *lines]))
        return str(path)

    first, later = source_records()
    of_named, later_of_named, named = named_as_queries()
    forget_tables(spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMARK_LAKEHOUSE", str(home / "lakehouse"))
        tidemark("land", file("first.jsonl", [*first, *twice_named(), *odd_records(), *of_named]))
        tidemark("scaffold")
        places = Places.of(project)
        run_models(places, "--select", "named__*", accounting=True)
        bad_lines = (bad_line(number, bad) for number, bad in enumerate(BAD))
        tidemark("land", file("later.jsonl", [*later, *later_of_named], *bad_lines))
        tidemark("scaffold", "--diff")
        with_past_of_values(project)
        views_of_named(project, named)
        tidemark("build")
        tidemark("check")
        [values] = project.glob("models/gold/history/*__values_history.sql")
        number = 1 + VALUES.index(("long", 10**400, str(10**400)))
        tidemark("trace", values.stem, f"id={number}")
        tidemark("tables")
        tidemark("tables", "--json")
        tidemark("status")
        tidemark("quarantine", "list")
        tidemark("sql", "select * from records")
        tidemark("sql", "select 1 as `\x1b[2J\x1b]0;owned\x07`, 2 as `line\nbreak\u202e`")
        shapes = spark.table(table_at(places.table("bronze", "shapes"))).select("feed", "table").distinct().collect()
        names = {row["feed"]: row["table"] for row in shapes}
        tables = {names[table.feed]: table for table in captured_tables(places) if table.feed in names}
        yield Built(spark, places, outputs, tables, named, network.attempts[before:])
    forget_tables(spark)


def by_field(table: CapturedTable, row: Row) -> dict[str, Any]:
    return {column["field"]: row[column["name"]] for column in table.columns}


def test_landing_scaffolding_building_and_checking_call_nobody(built: Built) -> None:
    """`tests/jobs/test_network.py` shows that a call would be seen."""
    assert built.attempts == []


def test_columns_have_their_values_whatever_their_names_are(built: Built) -> None:
    table = built.tables["columns"]
    rows = [by_field(table, row) for row in built.rows("columns", "current")]
    expected = [{name: f"{number} {name[:40]}" for name in NAMES} for number in (1, 2, 3)]
    expected[0]["select"] = "updated"
    assert sorted(rows, key=lambda row: str(row["1"])) == expected
    assert {*NAMES} - {*table.row} == {"", "nul\x00l", *(name for name in NAMES if "${" in name)}
    assert {column["field"] for column in table.columns if column["name"] in table.key} == set(KEY)


def test_columns_that_no_model_declares_are_there(built: Built) -> None:
    row = next(one for one in built.rows("columns") if one["1"] == "3 1").asDict()
    values = [value for name, value in row.items() if name not in built.tables["columns"].column_names.values()]
    assert {f"3 {name}" for name in LATE} <= {str(value) for value in values}


def test_columns_that_spark_takes_for_one_are_told_apart(built: Built) -> None:
    rows = [
        by_field(built.tables["alike"], row["after"]) for row in built.rows("alike", "changes") if not row["problem"]
    ]
    assert sorted(rows, key=lambda row: str(row["id"])) == [{name: f"{n} {name}" for name in ALIKE} for n in (1, 2)]


def test_scaffolding_again_names_columns_as_they_are(built: Built) -> None:
    seen = {table.feed: table for table in seen_tables(built.spark, built.places)}
    for name in ("columns", "alike", "values"):
        table = as_declared(seen[built.tables[name].feed], built.tables[name])
        assert {*table.row} == {*built.rows(name, "changes")[0]["after"].asDict()}, name
        assert table.key == built.tables[name].key, name


def test_no_value_goes_missing(built: Built) -> None:
    rows = {row["id"]: row for row in built.rows("values", "current")}
    assert set(rows) == {*range(len(VALUES) + 1), 1000}
    for number, (column, _, expected) in enumerate(VALUES, 1):
        held = rows[number][column]
        assert (held if held is not None else rows[number]["exact_values"].get(column)) == expected, column


def test_a_row_with_its_past_keeps_a_column_of_that_query_s_names(built: Built) -> None:
    [row] = built.spark.table("gold.with_past").where("id = 0").collect()
    assert (row["versions"], row["tidemark_versions"], row["is_first_start_known"]) == (None, 1, True)


def test_a_trace_shows_what_a_type_can_not_hold(built: Built) -> None:
    [shown] = [text for command, text in built.outputs.items() if command.startswith("trace ")]
    assert f" long={10**400}," in shown


def test_columns_are_told_from_what_queries_name(built: Built) -> None:
    captured = built.tables[built.named.name]
    structs = [column.name for column in built.named.columns if column.name not in built.named.key]
    found = {
        row["key"]: {name: json.loads(row[name]) for name in structs}
        for row in (one.asDict() for one in built.rows(built.named.name, "current"))
    }
    assert found == {row["key"]: {name: row[name] for name in structs} for row in built.named.rows.values()}
    own = [captured.column_names.get(name, name) for name in ("opened_by", "closed_by")]
    versions = [tuple(row[name] for name in ("key", *own)) for row in built.rows(built.named.name)]
    assert sorted(versions, key=str) == [
        ("1", "before", "update"),
        ("1", "update", "key_change"),
        ("2", "before", "delete"),
        ("3", "before", "delete"),
        ("5", "insert", "update"),
        ("5", "update", None),
        ("6", "key_change", None),
    ]


def test_what_analysts_ask_is_told_from_columns_named_as_their_queries_name(built: Built) -> None:
    captured = built.tables[built.named.name]
    others = [column.name for column in built.named.columns if column.name not in built.named.key]
    since, until, opened_by, closed_by, is_current = (
        captured.column_names.get(name, name)
        for name in ("valid_from", "valid_to", "opened_by", "closed_by", "is_current")
    )

    def asked(name: str) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in built.spark.table(f"gold.named_{name}").collect()]

    def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=str)

    def state(row: dict[str, Any] | None, prefix: str = "") -> dict[str, Any] | None:
        return row and {name: row[prefix + name] for name in others}

    versions = [row.asDict(recursive=True) for row in built.rows(built.named.name)]
    of_key = {key: [row for row in versions if row["key"] == key] for key in {row["key"] for row in versions}}
    assert in_order(asked("then")) == in_order([row for row in versions if row[is_current]])
    living = [row.asDict(recursive=True) for row in built.rows(built.named.name, "current")]
    assert in_order(asked("past")) == in_order(
        [
            {
                **row, "own_versions": len(of_key[row["key"]]), "own_removals": 0,
                "own_first_valid_from": min(one[since] for one in of_key[row["key"]]), "own_is_first_start_known": True,
            }
            for row in living
        ]
    )  # fmt: skip
    changes = []
    for row in versions:
        former = next((one for one in of_key[row["key"]] if one[closed_by] == "update" and one is not row), None)
        changes.append((row["key"], row[opened_by], state(former), state(row)))
        if row[closed_by] not in (None, "update"):
            changes.append((row["key"], row[closed_by], state(row), None))
    told = [(row["key"], row["change"], row["before"], row["after"]) for row in asked("changed")]
    assert sorted(told, key=str) == sorted(changes, key=str)
    found = []
    for row in versions:
        at = row[since]
        [then] = [
            one for one in of_key[row["key"]] if one[since] <= at and (one[until] is None or at < one[until])
        ] or [dict.fromkeys(others)]
        found.append((row["key"], state(row), state(then)))
    joined = [(row["key"], state(row), state(row, "then_")) for row in asked("joined")]
    assert sorted(joined, key=str) == sorted(found, key=str)


def test_letters_are_one_where_java_says_so(spark: SparkSession) -> None:
    """Spark asks `equalsIgnoreCase`, which compares letters in lower case behind upper case."""
    asked = "reflect('java.lang.Character', '{}', cast({} as int))"
    folded_by_java = asked.format("toLowerCase", asked.format("toUpperCase", "id"))
    rows = spark.range(0x10000).where(f"{asked.format('isDefined', 'id')} = 'true'")
    alike = {
        (folded(chr(code)), chr(int(of_java)))
        for code, of_java in rows.selectExpr("id", folded_by_java).collect()
        # Python can know a later Unicode than Java, or an earlier one.
        if unicodedata.category(chr(code)) not in ("Cn", "Cs")
    }
    assert len(alike) > 50_000
    assert len(alike) == len({ours for ours, _ in alike}) == len({of_java for _, of_java in alike})


def test_of_a_name_that_an_object_has_twice_the_last_counts(built: Built) -> None:
    assert [row["text"] for row in built.rows("values", "current") if row["id"] == 1000] == ["kept"]
    [row] = [by_field(built.tables["bare"], row["after"]) for row in built.rows("bare", "changes")]
    assert row == {"id": 1000, "text": "kept", "TEXT": "other"}


def test_a_value_of_50_megabytes_is_whole(built: Built) -> None:
    location = table_at(built.tables["big"].changes.location)
    assert built.spark.sql(f"select length(after.v) from {location}").collect() == [(BIG,)]


def test_what_can_not_be_understood_is_quarantined_with_its_code(built: Built) -> None:
    found = re.findall(r"^[0-9a-f]{16}  (\S+) ", built.outputs["quarantine list"], re.MULTILINE)
    assert sorted(found) == sorted(["connector_unknown", "position_unknown", *(bad.code for bad in BAD)])


def test_every_record_is_accounted_for(built: Built) -> None:
    report = json.loads(next(Path(built.places.lakehouse).glob("reports/latest/report.json")).read_text())
    assert [one for one in report["accounting"] if one["difference"]] == []
    lines = sum(len(path.read_bytes().splitlines()) for path in built.places.project.parent.glob("*.jsonl"))
    assert sum(one["records"] for one in report["accounting"]) == lines


def test_nothing_commands_a_terminal(built: Built) -> None:
    for command, text in built.outputs.items():
        hidden = {letter for letter in text if not letter.isprintable() and letter not in "\n\t"}
        # dbt colours its own words; the colours of a record are not among them
        shown = re.sub(r"\x1b\[[0-9;]*m", "", text) if command == "build" else text
        assert "\x1b" not in shown, command
        assert command == "build" or not hidden, (command, hidden)


def test_a_terminal_gets_the_beginning_of_what_is_long(built: Built) -> None:
    shown = built.outputs["sql select * from records"]
    assert "--json shows all" in shown
    assert max(map(len, shown.splitlines())) < 10_000


class Tags(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each tag."""
        self.seen.add(tag)


def test_the_report_shows_and_runs_nothing(built: Built) -> None:
    page = next(Path(built.places.lakehouse).glob("reports/latest/*.html")).read_text()
    assert not Tags(page).seen & {"script", "img", "iframe", "object"}
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_scaffolded_files_stay_in_their_place_and_run_nothing(built: Built) -> None:
    folders = [built.places.project / name for name in ("models", "expectations")]
    files = [path for folder in folders for path in folder.rglob("h____7*")]
    assert len(files) > 40
    for path in files:
        text = path.read_text()
        assert not {letter for letter in text if not letter.isprintable() and letter != "\n"}, path.name
        assert path.suffix != ".yml" or yaml.safe_load(text)
    manifest = json.loads((built.places.project / "target/manifest.json").read_text())
    descriptions = [node["description"] for node in [*manifest["nodes"].values(), *manifest["sources"].values()]]
    assert any("{ { 7 * 7 }}" in words for words in descriptions)
    assert not any(re.search(r"\b49\b", words) for words in descriptions)
