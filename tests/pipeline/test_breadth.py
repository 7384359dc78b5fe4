"""What few sources do and the documents tell of: names that look alike, chosen keys, partitions, columns left out.

One lakehouse, one landing, one build; `docs/checklist.md` names each test.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.places import Places
from tests.projects import declare_history, empty_project, land, rows_of, run_models
from tests.source import Column, Source, Table

Row = dict[str, Any]
NUMBER = Column("id", {"type": "int32"})
SOURCES = {
    "ck_alike", "ck_chosen", "ck_parts", "ck_left_out", "ck_left_out_whole", "ck_cut", "ck_reshaped", "ck_plain",
    "ck_text", "ck_own", "ck_keyless", "ck_shards",
}  # fmt: skip


def alike() -> str:
    """Db2 writes tables whose names differ in case to one topic."""
    source = Source("ck_alike", connector="db2")
    for name, value in (("ORDERS", "upper"), ("orders", "lower")):
        with source.commit():
            source.insert(Table(name, [NUMBER, Column("name")], ("id",)), {"id": 1, "name": value})
    return moved(source, "ck_alike.db.ORDERS")


def chosen() -> str:
    """A key of `message.key.columns`: another than the primary one, which may change under it."""
    source, table = Source("ck_chosen"), Table("people", [NUMBER, Column("email")], ("email",), is_full=True)
    with source.commit():
        source.insert(table, {"id": 1, "email": "a@x"})
    with source.commit():
        source.update(table, {"id": 1, "email": "a@x"}, {"id": 2})
    return source.lines()


def parts() -> str:
    """Partitions of one table, brought to one topic by ByLogicalTableRouter; a row moves from one to the other."""
    source = Source("ck_parts")
    old, new = (Table(f"sales_{year}", [NUMBER, Column("name")], ("id",)) for year in (2023, 2024))
    for id_ in (1, 2):
        with source.commit():
            source.insert(old, {"id": id_, "name": str(id_)})
    with source.commit():
        source.delete(old, {"id": 1, "name": "1"})
        source.insert(new, {"id": 1, "name": "1"})
    return moved(source, "ck_parts.sales", {"__dbz__sourceIdentifier": "ck_parts.public.sales"})


def shards() -> str:
    """The router with a `key.field.name` of its own, whose field no row and no header has; a row's key changes."""
    source = Source("ck_shards")
    table = Table("orders", [NUMBER, Column("name"), Column("doc", is_large=True)], ("id",))
    old = {"id": 1, "name": "a", "doc": "long"}
    with source.commit():
        source.insert(table, old)
    with source.commit():
        source.update(table, old, {"id": 2})
    return moved(source, "ck_shards.orders", {"shard_id": "north"})


def left_out(prefix: str, connector: str) -> str:
    """`column.exclude.list` takes a key's column out of the row, and the key keeps it."""
    source = Source(prefix, connector=connector)
    table = Table("people", [Column("tenant", {"type": "int32"}), NUMBER, Column("name")], ("tenant", "id"))
    with source.commit():
        source.insert(table, {"tenant": 1, "id": 1, "name": "a"})
        source.insert(table, {"tenant": 2, "id": 1, "name": "c"})
    with source.commit():
        source.update(table, {"tenant": 1, "id": 1, "name": "a"}, {"name": "b"})
    lines = []
    for record in source.records:
        value = json.loads(record["value"])
        for row in filter(None, (value["payload"]["before"], value["payload"]["after"])):
            row.pop("tenant")
        for image in value["schema"]["fields"]:
            image["fields"] = [column for column in image["fields"] if column["field"] != "tenant"]
        lines.append(json.dumps(record | {"value": json.dumps(value)}) + "\n")
    return "".join(lines)


def cut() -> str:
    """`column.truncate.to.2.chars` cuts a key's column in the row, and the key keeps all of it."""
    source, table = Source("ck_cut", connector="mariadb"), Table("people", [Column("code"), Column("name")], ("code",))
    for code in ("ab", "abc"):
        with source.commit():
            source.insert(table, {"code": code, "name": code})
    with source.commit():
        source.update(table, {"code": "abc", "name": "abc"}, {"name": "b"})
    return "".join(
        json.dumps(record | {"value": record["value"].replace('"code": "abc"', '"code": "ab"')}) + "\n"
        for record in source.records
    )


def reshaped() -> str:
    """A column that is widened time and again, and a primary key that gains one, all of it landed at once."""
    source, table = Source("ck_reshaped"), Table("goods", [], ("id",))
    for number in range(4, 16):
        kind = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "2", "connect.decimal.precision": str(number)}}  # fmt: skip
        table.columns = [NUMBER, Column("region"), Column("price", kind)]
        table.key = ("id",) if number < 9 else ("id", "region")
        with source.commit():
            source.insert(table, {"id": number, "region": "north", "price": "AfQ="})
    return source.lines()


def plain_keys(prefix: str, *values: Any) -> str:
    """Keys of one plain value (ExtractField), with a schema and without: they don't say of which column they are."""
    kind = {"type": "int64" if isinstance(values[0], int) else "string"}
    source, table = Source(prefix), Table("people", [Column("id", kind), Column("name")], ("id",))
    rows = [{"id": value, "name": "abc"[number]} for number, value in enumerate(values)]
    with source.commit():
        for row in rows:
            source.insert(table, row)
    with source.commit():
        for row in rows[:2]:
            source.delete(table, row)
    lines = []
    for number, record in enumerate(source.records):
        value = json.loads(record["key"])["payload"]["id"]
        key = {"schema": kind | {"optional": False}, "payload": value} if number % 2 else value
        lines.append(record | {"key": json.dumps(key)})
    return source.lines(lines)


def own_keys() -> str:
    """A business key that the source doesn't have as one: it becomes NULL, and a COPY brings two states of a row."""
    source, table = Source("ck_own"), Table("orders", [NUMBER, Column("region"), Column("code")], ("id",), is_full=True)
    with source.commit():
        source.insert(table, {"id": 1, "region": "north", "code": "A"})
    with source.commit():
        source.update(table, {"id": 1, "region": "north", "code": "A"}, {"code": None})
    with source.commit():
        source.delete(table, {"id": 1, "region": "north", "code": None})
    with source.commit():
        source.insert(table, {"id": 2, "region": "south", "code": "B"})
        source.insert(table, {"id": 3, "region": "south", "code": "B"}, same_place=True)
    return source.lines()


def sent_again() -> str:
    """Two equal rows of a table without a key; a restart sends the last one again, and no transaction tells of it."""
    source, table = Source("ck_keyless", connector="mariadb"), Table("notes", [Column("text")], ())
    for _ in range(2):
        with source.commit():
            source.insert(table, {"text": "a"})
    source.redeliver(1)
    lines = []
    for record in source.records:
        value = json.loads(record["value"])
        value["payload"]["transaction"] = None
        lines.append(record | {"value": json.dumps(value)})
    return source.lines(lines)


def moved(source: Source, topic: str, more: Row | None = None) -> str:
    """A source's records on one topic, in the order in which they were written, their keys with more fields."""
    lines = []
    for offset, record in enumerate(source.records):
        key = json.loads(record["key"])
        key["payload"] |= more or {}
        lines.append(json.dumps(record | {"topic": topic, "offset": offset, "key": json.dumps(key)}) + "\n")
    return "".join(lines)


@dataclass(frozen=True)
class Built:
    """One landing and one build.

    Attributes:
        scaffolded: A table without a model of its own making → the changes model that was written for it.
    """

    tables: dict[str, CapturedTable]
    scaffolded: dict[str, str]

    def versions(self, name: str) -> list[Row]:
        """A table's history, in order; `name` is its full one."""
        history = self.tables[name].history
        assert history is not None
        return sorted(rows_of(history.location), key=lambda row: (row["position"], row["offset"]))


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Built:
    project = empty_project(tmp_path_factory.mktemp("breadth") / "project")
    places = Places.of(project)
    of_keys = left_out("ck_left_out", "postgresql") + left_out("ck_left_out_whole", "mariadb") + cut()
    plain = plain_keys("ck_plain", 1, 2, 3) + plain_keys("ck_text", "a b", "2", "c")
    lines = alike() + chosen() + parts() + shards() + of_keys + plain + own_keys() + sent_again() + reshaped()
    land(spark, places, "breadth", lines, SOURCES)
    scaffolded = {}
    for prefix, table, declared in (
        ("ck_plain", "public__people", "key=['id'], columns={'id': 'int', 'name': 'string'}"),
        ("ck_text", "public__people", "key=['id'], columns={'id': 'string', 'name': 'string'}"),
        ("ck_own", "public__orders", "key=['region', 'code'], before_is_whole=true,"
                                     " columns={'id': 'int', 'region': 'string', 'code': 'string'}"),
    ):  # fmt: skip
        model = project / f"models/silver/changes/{prefix}__{table}_changes.sql"
        scaffolded[prefix] = model.read_text()
        model.write_text(f"{{{{ changes('{prefix}', '{table}', {declared}) }}}}\n")
        declare_history(project, f"{prefix}__{table}", {})
    run_models(places, "--select", "config.materialized:changes", "config.materialized:history")
    return Built({table.name: table for table in captured_tables(places)}, scaffolded)


def test_tables_whose_names_look_alike_are_told_apart_on_one_topic(built: Built) -> None:
    names = [name for name in built.tables if name.startswith("ck_alike")]
    found = Counter(version["name"] for name in names for version in built.versions(name))

    assert len(names) == 2
    assert found == {"upper": 1, "lower": 1}


def test_a_row_is_known_by_the_key_that_was_chosen(built: Built) -> None:
    found = [(row["id"], row["email"], row["closed_by"]) for row in built.versions("ck_chosen__public__people")]

    assert found == [(1, "a@x", "update"), (2, "a@x", None)]


def test_each_partition_of_a_table_has_its_history_and_together_they_are_the_table_s(built: Built) -> None:
    rows = [row for year in (2023, 2024) for row in built.versions(f"ck_parts__public__sales_{year}")]
    found = [(row["id"], row["opened_by"], row["closed_by"]) for row in rows]
    first, second = (row for row in rows if row["id"] == 1)

    assert found == [(1, "insert", "delete"), (2, "insert", None), (1, "insert", None)]
    assert (first["valid_to"], first["transaction_id"]) == (second["valid_from"], "501")
    assert built.tables["ck_parts__public__sales_2023"].key == ("id",)


def test_a_row_is_followed_to_another_key_of_which_a_router_has_told_the_rest(built: Built) -> None:
    columns = ("id", "shard_id", "doc", "closed_by", "previous_key", "next_key")
    found = [tuple(map(row.get, columns)) for row in built.versions("ck_shards__public__orders")]

    assert found == [
        (1, "north", "long", "key_change", None, '{"id":2,"shard_id":"north"}'),
        (2, "north", "long", None, '{"id":1,"shard_id":"north"}', None),
    ]


@pytest.mark.parametrize("table", ["ck_left_out__public__people", "ck_left_out_whole__db__people"])
def test_a_column_of_the_key_that_the_row_leaves_out_is_the_keys(built: Built, table: str) -> None:
    columns = ("tenant", "id", "name", "closed_by")
    found = [tuple(map(row.get, columns)) for row in built.versions(table)]

    assert found == [(1, 1, "a", "update"), (2, 1, "c", None), (1, 1, "b", None)]


def test_a_column_of_the_key_that_the_row_has_cut_is_the_keys(built: Built) -> None:
    found = [(row["code"], row["name"], row["opened_by"]) for row in built.versions("ck_cut__db__people")]

    assert found == [("ab", "ab", "insert"), ("abc", "abc", "insert"), ("abc", "b", "update")]


def test_models_are_written_as_the_newest_records_are(built: Built) -> None:
    table = built.tables["ck_reshaped__public__goods"]

    assert table.key == ("id", "region")
    assert {column["name"]: column["type"] for column in table.columns}["price"] == "decimal(15,2)"
    assert {row["price"] for row in built.versions(table.name)} == {Decimal("5.00")}


@pytest.mark.parametrize(("source", "ids"), [("ck_plain", [1, 2, 3]), ("ck_text", ["a b", "2", "c"])])
def test_a_key_of_one_plain_value_leaves_the_declared_key_to_the_row(built: Built, source: str, ids: list[Any]) -> None:
    found = {row["id"]: (row["name"], row["closed_by"]) for row in built.versions(f"{source}__public__people")}

    assert found == dict(zip(ids, [("a", "delete"), ("b", "delete"), ("c", None)], strict=True))


@pytest.mark.parametrize("source", ["ck_plain", "ck_text"])
def test_a_plain_value_beside_its_schema_names_no_columns_of_a_key(built: Built, source: str) -> None:
    assert "key=" not in built.scaffolded[source]
    assert "payload" not in built.scaffolded[source]


def test_a_key_that_the_source_does_not_have_is_the_row_s(built: Built) -> None:
    columns = ("id", "region", "code", "opened_by", "closed_by")
    found = [tuple(map(row.get, columns)) for row in built.versions("ck_own__public__orders")]

    assert found == [
        (1, "north", "A", "insert", "key_change"), (1, "north", None, "key_change", "delete"),
        (3, "south", "B", "insert", None),
    ]  # fmt: skip


def test_what_is_sent_again_is_no_second_row_of_a_table_without_a_key(built: Built) -> None:
    rows = rows_of(built.tables["ck_keyless__db__notes"].changes.location, "after", "offset")

    assert sorted((row["after"]["text"], row["offset"]) for row in rows) == [("a", 0), ("a", 1)]
