"""What is built in parts, or behind another declaration, ends as if all had been built at once (G2)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.places import Places
from tests.projects import empty_project, forget_tables, land, microseconds, rows_of, run_models

# A column's schema, where it has one, and a value as JSON has it.
Encoded: TypeAlias = tuple[dict[str, Any] | None, Any]
PLACEHOLDER = "__debezium_unavailable_value"
HUGE = "9" * 30


@dataclass
class Orders:
    """A table of a source of its own, and what PostgreSQL's connector sends of it."""

    spark: SparkSession
    places: Places
    source: str
    sent: int = 0

    def send(self, *changes: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
        """Land changes: each with its operation, its row and the headers that name keys."""
        self.land(*[self.record(*change) for change in changes])

    def land(self, *records: dict[str, Any]) -> None:
        """Land records as one batch."""
        lines = "".join(json.dumps(record) + "\n" for record in records)
        land(self.spark, self.places, f"{self.source}-{self.sent}", lines, {self.source})

    def record(
        self,
        op: str,
        row: dict[str, Any],
        headers: dict[str, Any] | None = None,
        partition: int = 0,
        place: int | None = None,
        sequence: str | None = None,
    ) -> dict[str, Any]:
        """A change as the connector sends it, at the next offset; `place` is its own in the log."""
        self.sent += 1
        place = place or (10 if op == "r" else self.sent * 10)
        source = {
            "connector": "postgresql", "name": self.source, "db": "shop", "schema": "public", "table": "orders",
            "ts_ms": 1_704_067_200_000 + place, "lsn": place, "txId": place,
            "snapshot": "true" if op == "r" else "false", "sequence": sequence or f'["{place}","{place}"]',
        }  # fmt: skip
        image = {"before": {"id": row["id"]}, "after": None} if op == "d" else {"before": None, "after": row}
        return {
            "topic": f"{self.source}.public.orders", "partition": partition, "offset": self.sent,
            "key": json.dumps({"id": row["id"]}),
            "value": json.dumps(image | {"source": source, "op": op, "ts_ms": place}),
            "headers": [{"key": name, "value": json.dumps(key)} for name, key in (headers or {}).items()],
        }  # fmt: skip

    def described(self, op: str, row: dict[str, Any], schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """A change whose schema says of columns how they are encoded."""
        record = self.record(op, row)
        fields = [{"field": name, "optional": True, "type": "string", **schema} for name, schema in schemas.items()]
        fields = [{"field": "id", "type": "int32", "optional": False}, *fields]
        envelope = [{"field": image, "type": "struct", "fields": fields} for image in ("before", "after")]
        schema = {"type": "struct", "fields": envelope}
        return record | {"value": json.dumps({"schema": schema, "payload": json.loads(record["value"])})}

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Have nothing written down of how far it came, as if the run within had been killed at its end."""
        progress = f"delta.`{self.places.lakehouse}/ops/progress`"
        [written, *_] = self.spark.sql(f"describe history {progress}").collect()
        yield
        self.spark.sql(f"restore table {progress} to version as of {written['version']}")

    def declare(self, was: str, now: str, file: str = "models/silver/changes/{}_changes.sql") -> None:
        """Declare something otherwise."""
        path = self.places.project / file.format(f"{self.source}__public__orders")
        assert was in path.read_text()
        path.write_text(path.read_text().replace(was, now))

    def build(self, *selected: str, only: str = "tag:source:{}") -> None:
        """Build the source's models, or some of them; of `only` and dbt's arguments each `{}` is the source."""
        arguments = [argument.format(self.source) for argument in (*selected, "--select", only)]
        run_models(self.places, *arguments, accounting=True)

    @property
    def table(self) -> CapturedTable:
        """The table's models."""
        [table] = [table for table in captured_tables(self.places) if table.source_name == self.source]
        return table

    def versions(self, *columns: str) -> list[tuple[Any, ...]]:
        """Of each version some columns, in the order of the log."""
        assert self.table.history is not None
        rows = sorted(rows_of(self.table.history.location), key=lambda row: row["offset"])
        return [tuple(row[name] for name in columns) for row in rows]

    def positions(self) -> dict[int, str]:
        """Order → where its change stands in the log."""
        assert self.table.changes is not None
        rows = rows_of(self.table.changes.location, "key", "position")
        return {row["key"]["id"]: row["position"] for row in rows}

    def now(self, *columns: str) -> list[tuple[Any, ...]]:
        """Of each living row some columns."""
        assert self.table.current is not None
        return [tuple(row[name] for name in columns) for row in rows_of(self.table.current.location)]

    def living(self) -> dict[int, Any]:
        """Order → its present state."""
        assert self.table.current is not None
        return {row["id"]: row["state"] for row in rows_of(self.table.current.location)}


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """The lakehouse that most tests have a table in."""
    forget_tables(spark)
    yield Places.of(empty_project(tmp_path_factory.mktemp("parts") / "project"))
    forget_tables(spark)


@pytest.fixture
def orders(spark: SparkSession, shared: Places, request: pytest.FixtureRequest) -> Orders:
    return Orders(spark, shared, f"parts{crc32(request.node.name.encode())}")


@pytest.fixture
def alone(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Orders]:
    """A table in a lakehouse of its own, for what is of all tables; tests that share one come before."""
    forget_tables(spark)
    yield Orders(spark, Places.of(empty_project(tmp_path / "project")), f"parts{crc32(request.node.name.encode())}")
    forget_tables(spark)


def test_a_value_that_was_left_out_keeps_its_exact_text(orders: Orders) -> None:
    orders.send(
        ("c", {"id": 1, "state": HUGE, "spot": "[1,2]"}, {}),
        ("c", {"id": 2, "state": "5", "spot": None}, {}),
        ("c", {"id": 4, "state": "5", "spot": "[3,4]"}, {}),
    )
    orders.declare("'state': 'string'", "'state': 'decimal(10,0)'")
    orders.declare("'spot': 'string'", "'spot': {'type': 'string', 'null_is_unchanged': true}")
    orders.build()
    orders.send(
        ("u", {"id": 1, "state": PLACEHOLDER, "spot": None}, {}),
        ("d", {"id": 1}, {"__debezium.newkey": {"id": 3}}),
        ("c", {"id": 3, "state": PLACEHOLDER, "spot": None}, {"__debezium.oldkey": {"id": 1}}),
        ("u", {"id": 2, "state": "6", "spot": None}, {}),
        ("c", {"id": 4, "state": "5", "spot": None}, {}),
    )
    orders.build()

    exact = [("state", HUGE)]
    assert orders.versions("id", "state", "spot", "exact_values", "unresolved_columns") == [
        (1, None, "[1,2]", exact, []), (2, Decimal(5), None, [], []), (4, Decimal(5), "[3,4]", [], []),
        (3, None, "[1,2]", exact, []), (2, Decimal(6), None, [], []), (4, Decimal(5), None, [], []),
    ]  # fmt: skip


def test_a_run_that_ended_behind_its_history_leaves_the_current_state_to_the_next(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    orders.build()

    with orders.killed():
        orders.send(("u", {"id": 1, "state": "paid"}, {}))
        orders.build("--exclude", "*_current")
        assert orders.living() == {1: "new"}

    orders.build()
    assert orders.versions("state") == [("new",), ("paid",)]
    assert orders.living() == {1: "paid"}


def test_what_a_killed_run_has_built_is_placed_again_behind_reads_that_come_late(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    orders.build()

    with orders.killed():
        orders.land(orders.record("u", {"id": 1, "state": "paid"}, place=40, sequence='[null,"40"]') | {"offset": 5})
        orders.build()

    orders.land(orders.record("r", {"id": 1, "state": "new"}, place=50) | {"offset": 3})
    orders.build()
    assert orders.living() == {1: "paid"}


def test_a_border_that_a_killed_run_has_found_is_found_again(orders: Orders) -> None:
    def at(offset: int, second: int, op: str, row: dict[str, Any], place: int) -> dict[str, Any]:
        record = orders.record(op, row, place=place)
        value = json.loads(record["value"])
        value["source"]["ts_ms"] = 1_704_067_200_000 + second * 1000
        return record | {"offset": offset, "value": json.dumps(value)}

    orders.land(at(11, 100, "c", {"id": 1, "state": "new"}, 10))
    orders.build()

    with orders.killed():
        # Another log begins behind it: what came before is of the new one, and has its number since.
        orders.land(at(5, 50, "c", {"id": 2, "state": "new"}, 90))
        orders.build()

    orders.land(at(12, 200, "u", {"id": 1, "state": "paid"}, 95))
    orders.build()
    assert orders.living() == {1: "paid", 2: "new"}


def test_a_column_that_a_killed_run_has_added_gets_the_type_that_it_has_now(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    orders.build()

    with orders.killed():
        orders.land(orders.described("c", {"id": 2, "state": "new", "n": 5}, {"state": {}, "n": {"type": "int32"}}))
        orders.build()

    orders.land(orders.described("c", {"id": 3, "state": "new", "n": "few"}, {"state": {}, "n": {}}))
    orders.build()
    assert orders.versions("id", "n") == [(1, None), (2, "5"), (3, "few")]


def test_news_without_effect_write_neither_history_nor_current_state(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    orders.build()
    tables = [model for model in (orders.table.history, orders.table.current) if model is not None]
    before = [sorted(Path(model.location).rglob("*.json")) for model in tables]

    orders.send(("d", {"id": 2}, {}))
    orders.build()
    assert [sorted(Path(model.location).rglob("*.json")) for model in tables] == before


def test_what_a_declaration_makes_of_the_log_reaches_its_history_in_the_same_run(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "new"}, {}), ("u", {"id": 1, "state": "n/a"}, {}))
    orders.build()
    assert orders.versions("state") == [("new",), ("n/a",)]

    orders.declare("sources: {}", f"sources: {{{orders.source}: {{placeholder: n/a}}}}", "dbt_project.yml")
    orders.build()
    assert orders.versions("state") == [("new",)]
    assert orders.living() == {1: "new"}


def test_a_value_that_was_left_out_is_known_however_its_type_spells_it(orders: Orders) -> None:
    text = "__debezium_unavailable_value"
    encoded = base64.b64encode(text.encode()).decode()
    named = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"  # of uuid[], as PostgreSQL's connector has it
    spelled = [text, encoded, text.encode().hex(), [text], [encoded], [named], list(text.encode()), {text: text}]
    orders.send(
        ("c", {"id": 1, "state": "new"}, {}),
        *[("u", {"id": 1, "state": one}, {}) for one in spelled],
        ("u", {"id": 1, "state": [named, named]}, {}),
    )
    orders.build()
    assert orders.versions("state") == [("new",), (f'["{named}","{named}"]',)]


def test_an_encoding_that_is_declared_later_is_read_from_all_records(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "AQ=="}, {}))
    orders.declare("'state': 'string'", "'state': {'type': 'decimal(10,2)'}")
    orders.build()
    assert orders.versions("state", "exact_values") == [(None, [("state", "AQ==")])]

    orders.declare("'decimal(10,2)'", "'decimal(10,2)', 'encoding': 'org.apache.kafka.connect.data.Decimal:2'")
    orders.build()
    assert orders.versions("state", "exact_values") == [(Decimal("0.01"), [])]


def test_a_number_that_its_type_can_not_hold_is_compared_as_a_number(orders: Orders) -> None:
    states = ["1.255", "1.2550", "001.255", "1.256", "1.256000", "n/a", "n/a0"]
    orders.send(*[("u", {"id": 1, "state": state}, {}) for state in states])
    orders.declare("'state': 'string'", "'state': 'decimal(10,2)'")
    orders.build()
    assert [dict(exact)["state"] for [exact] in orders.versions("exact_values")] == ["1.255", "1.256", "n/a", "n/a0"]


def test_an_envelope_s_time_has_microseconds_where_the_source_tells_none(orders: Orders) -> None:
    record = orders.record("c", {"id": 1, "state": "new"})
    value = json.loads(record["value"])
    value["source"]["ts_ms"] = 0
    value |= {"ts_ms": 1_704_067_200_123, "ts_us": 1_704_067_200_123_456, "ts_ns": 1_704_067_200_123_456_789}
    orders.land(record | {"value": json.dumps(value)})
    orders.build()
    assert [microseconds(moment) for [moment] in orders.versions("valid_from")] == [1_704_067_200_123_456]


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_DATE = {"type": "int32", "name": "io.debezium.time.Date"}
_MICROSECONDS = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
# Two encodings of a column in turn, a value in each; the type of the column, and what it holds of both values.
UNDECLARED: dict[str, tuple[Encoded, Encoded, str, list[Any]]] = {
    "narrower": (({"type": "int64"}, 1 << 40), ({"type": "int32"}, 2), "bigint", [1 << 40, 2]),
    "wider": (({"type": "int16"}, 1), ({"type": "int64"}, 1 << 40), "bigint", [1, 1 << 40]),
    "flag": (({"type": "int16"}, 0), ({"type": "boolean"}, True), "smallint", [0, 1]),
    "scale": ((_decimal(10, 2), "AQ=="), (_decimal(12, 6), "AQ=="), "decimal(14,6)",
              [Decimal("0.01"), Decimal("0.000001")]),
    "whole": (({"type": "int64"}, 1 << 60), (_decimal(5, 2), "AQ=="), "decimal(21,2)",
              [Decimal(1 << 60), Decimal("0.01")]),
    "too_wide": ((_decimal(38, 0), "AQ=="), (_decimal(38, 10), "AQ=="), "string", ["1", "0.0000000001"]),
    "floating": (({"type": "double"}, 0.5), ({"type": "float"}, 0.25), "double", [0.5, 0.25]),
    "counted": (({"type": "double"}, 0.5), ({"type": "int32"}, 3), "double", [0.5, 3.0]),
    "large": (({"type": "double"}, 0.5), ({"type": "int64"}, 3), "decimal(38,18)", [Decimal("0.5"), Decimal(3)]),
    "mode": ((_decimal(10, 2), "AQ=="), ({"type": "double"}, 0.01), "decimal(38,18)", [Decimal("0.01")] * 2),
    "list": ((_array(_decimal(5, 2)), ["AQ=="]), (_array(_decimal(7, 4)), ["AQ=="]), "array<decimal(7,4)>",
             [[Decimal("0.01")], [Decimal("0.0001")]]),
    "no_list": ((_array(_DATE), [1]), ({"type": "string"}, "one"), "string", ['["1970-01-02"]', "one"]),
    "moment": ((_MICROSECONDS, 1_000_001), (_DATE, 1), "timestamp_ntz",
               [datetime(1970, 1, 1, 0, 0, 1, 1), datetime(1970, 1, 2)]),
    "renamed": (({"type": "int32"}, 1), ({"type": "string"}, "one"), "string", ["1", "one"]),
    "untold": (({"type": "int32"}, 1), (None, 2), "int", [1, 2]),
}  # fmt: skip


def test_a_key_that_no_type_of_the_model_holds_is_no_one_s(orders: Orders) -> None:
    orders.land(orders.record("c", {"id": 1, "state": "new"}))
    without_key = [orders.record("c", {"id": text, "state": "?"}) | {"key": None} for text in ("x", "y")]
    plain = orders.record("u", {"id": "z", "state": "?"}) | {"key": '"z"'}
    text = orders.record("u", {"id": 1, "state": "lost"})
    value = json.loads(text["value"])
    value["after"] = json.dumps(value["after"])
    # Its key was renamed: rows at one place are not one row that comes twice.
    renamed = [orders.record("c", {"id": key, "state": "?"}, place=900) for key in (2, 3)]
    for record in renamed:
        record |= {part: record[part].replace('"id"', '"uid"') for part in ("key", "value")}
    renamed.append(renamed[0] | {"key": None, "offset": renamed[1]["offset"] + 1})
    orders.sent += 1
    orders.land(*without_key, plain, text | {"value": json.dumps(value)}, *renamed)
    orders.build()

    assert orders.versions("id", "state") == [(1, "new")]
    log = rows_of(orders.table.changes.location, "problem", "offset")
    assert [row["problem"] for row in sorted(log, key=lambda row: row["offset"])] == [
        None, "key_not_decoded", "key_not_decoded", "key_not_decoded", "row_not_read", *["key_not_told"] * 3,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["payload", "Payload"])
def test_a_key_can_be_named_as_what_stands_beside_a_schema(orders: Orders, name: str) -> None:
    records = [orders.record(op, {"id": key, "state": "new"}) for key, op in ((1, "c"), (2, "c"), (1, "d"))]
    for record in records:
        value, key = (json.loads(record[part].replace('"id"', f'"{name}"')) for part in ("value", "key"))
        schema = {"type": "struct", "fields": [{"field": name, "type": "int64", "optional": False}]}
        told = {"schema": schema, "payload": key} if name == "payload" else key
        record |= {"value": json.dumps(value), "key": json.dumps(told)}
    orders.land(*records)
    orders.build()
    assert orders.versions(name, "closed_by") == [(1, "delete"), (2, None)]


def test_names_that_spark_takes_for_one_are_told_apart(orders: Orders) -> None:
    orders.land(orders.record("c", {"id": 1, "state": "new"}))
    orders.land(orders.record("c", {"id": 2, "state": "new", "\u0130D": "x"}))
    deletes = [orders.record("d", {"id": key}) for key in (1, 2)]
    for record in deletes:
        record["value"] = json.dumps(json.loads(record["value"]) | {"before": None})
    deletes[1]["key"] = json.dumps({"schema": {"type": "struct"}, "payload": json.loads(deletes[1]["key"])})
    orders.land(*deletes)
    orders.build()
    assert orders.versions("id", "state", "closed_by") == [(1, "new", "delete"), (2, "new", "delete")]


# A column's declared type, a value and what is held of it; NULL where its text is kept.
EXACT: dict[str, tuple[str, Encoded, Any]] = {
    "d": ("double", ({"type": "int64"}, (1 << 53) + 1), None),
    "f": ("float", ({"type": "int32"}, (1 << 24) + 1), None),
    "pi": ("float", ({"type": "double"}, 3.141592653589793), None),
    "half": ("float", ({"type": "double"}, 0.5), 0.5),
    "five": ("double", ({"type": "string"}, "5d"), None),
    "local": ("timestamp_ntz", ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
                                "2024-02-29T12:34:56+02:00"), datetime(2024, 2, 29, 10, 34, 56)),
    "month": ("timestamp", ({"type": "string"}, "2024-02"), None),
    "gr\u00f6\u00dfe": ("decimal(38,18)", ({"type": "double"}, 12345.5), Decimal("12345.5")),
}  # fmt: skip


def test_a_value_that_its_type_would_round_or_guess_is_kept_as_text(orders: Orders) -> None:
    orders.land(orders.record("c", {"id": 1, "state": "new"}))
    columns = ", ".join(f"{name!r}: {kind!r}" for name, (kind, _, _) in EXACT.items())
    orders.declare("'state': 'string'", f"'state': 'string', {columns}")
    row = {"id": 2, "state": "new"} | {name: value for name, (_, (_, value), _) in EXACT.items()}
    schemas = {name: schema for name, (_, (schema, _), _) in EXACT.items() if schema is not None}
    told = orders.described("c", row, {"state": {}} | schemas)
    plain = orders.record("c", {"id": 3, "state": "new", "gr\u00f6\u00dfe": 0.5})
    long = "1.2345678901234567890e5"
    orders.land(told, plain | {"value": plain["value"].replace("0.5", long)})
    orders.build()

    [_, (*values, exact), (*_, longest, _)] = orders.versions(*EXACT, "exact_values")
    assert values == [held for *_, held in EXACT.values()]
    assert dict(exact) == {name: str(value) for name, (_, (_, value), held) in EXACT.items() if held is None}
    assert longest == Decimal(long)


def test_a_column_that_no_model_declares_has_a_type_that_holds_all_that_came(orders: Orders) -> None:
    orders.land(orders.record("c", {"id": 0, "state": "new"}))
    for number in (0, 1):
        columns = {name: case[:2][number] for name, case in UNDECLARED.items()}
        row = {"id": 1, "state": str(number)} | {name: value for name, (_, value) in columns.items()}
        schemas = {name: schema for name, (schema, _) in columns.items() if schema is not None}
        orders.land(orders.described("u", row, {"state": {}} | schemas))
        orders.build()

    types = dict(orders.spark.table(f"gold.{orders.source}__public__orders_history").dtypes)
    assert {name: types[name] for name in UNDECLARED} == {name: case[2] for name, case in UNDECLARED.items()}
    assert orders.versions(*UNDECLARED)[1:] == list(zip(*(case[3] for case in UNDECLARED.values()), strict=True))


def test_what_other_encodings_say_of_a_column_is_said_of_its_past_too(orders: Orders) -> None:
    as_json = {"state": {"name": "io.debezium.data.Json"}}
    orders.land(
        orders.described("c", {"id": 2, "state": "AQ==", "n": "AQ=="}, {"state": _decimal(10, 2), "n": _decimal(9, 0)}),
        orders.described("c", {"id": 1, "state": '{"b": "2", "a": "1"}', "n": "one"}, as_json | {"n": {}}),
        orders.record("c", {"id": 3, "state": "new", "n": "1234"}),
    )
    orders.declare("'n': 'decimal(9,0)'", "'n': 'string'")
    orders.build()
    orders.land(orders.described("u", {"id": 1, "state": {"a": "1", "b": "2"}}, {"state": {"type": "map"}}))
    orders.build()
    assert orders.versions("id", "state", "n") == [
        (2, "0.01", "1"), (1, '{"a":"1","b":"2"}', "one"), (3, "new", "1234"),
    ]  # fmt: skip


def test_a_column_that_is_declared_later_has_what_records_told_before(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "new"}, {}), ("u", {"id": 1, "state": "paid"}, {}))
    orders.build()

    orders.declare("'state': 'string'", "'state': 'string', 'told': {'type': 'string', 'field': 'state'}")
    orders.build()
    assert orders.versions("state", "told") == [("new", "new"), ("paid", "paid")]


def test_a_column_can_be_declared_before_any_record_has_it(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    orders.build()

    orders.declare("'state': 'string'", "'state': 'string', 'seen': 'timestamp'")
    orders.declare("_changes'", "_changes', ignore=['seen']", "models/gold/history/{}_history.sql")
    orders.build()
    assert orders.versions("state", "seen") == [("new", None)]

    orders.send(("u", {"id": 1, "state": "paid", "seen": "2024-02-29T00:00:00Z"}, {}))
    orders.build()
    assert [(state, seen and seen.year) for state, seen in orders.versions("state", "seen")] == [
        ("new", None), ("paid", 2024)
    ]  # fmt: skip


def test_a_snapshot_closes_nothing_while_one_of_its_reads_is_not_understood(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "new"}, {}), ("c", {"id": 2, "state": "new"}, {}))
    orders.declare("_changes'", "_changes', snapshot_deletes='close'", "models/gold/history/{}_history.sql")
    orders.build()
    broken, last = (orders.record("r", {"id": key, "state": "new"}, place=50) for key in (1, 3))
    value = json.loads(broken["value"])
    broken["value"] = json.dumps(value | {"after": json.dumps(value["after"])})
    last["value"] = last["value"].replace('"snapshot": "true"', '"snapshot": "last"')
    orders.land(broken, last)
    orders.build()
    assert orders.versions("id", "closed_by") == [(1, None), (2, None), (3, None)]


def test_a_read_that_comes_again_behind_a_new_column_is_the_same_read(orders: Orders) -> None:
    orders.send(("r", {"id": 1, "state": "new"}, {}))
    orders.build()
    orders.send(("u", {"id": 1, "state": "paid", "note": "late"}, {}), ("r", {"id": 1, "state": "new"}, {}))
    orders.build()

    log = rows_of(orders.table.changes.location)
    assert sorted((row["op"], row["offset"]) for row in log) == [("r", 1), ("u", 2)]


def test_a_current_state_follows_a_history_that_was_made_anew_without_it(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    orders.build()
    name = f"{orders.source}__public__orders"
    orders.spark.sql(f"update silver.{name}_current set state = 'of an older version of Tidemark'")
    orders.build("--full-refresh", only="{}__public__orders_history")

    orders.build()
    assert orders.living() == {1: "new"}


def test_current_states_alone_wait_with_a_new_column_for_their_history(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    orders.build()
    orders.send(("u", {"id": 1, "state": "paid", "note": "late"}, {}))
    orders.build("--full-refresh", only="tag:source:{},tag:layer:silver")
    assert orders.living() == {1: "new"}

    orders.build()
    assert orders.versions("state", "note") == [("new", None), ("paid", "late")]
    assert orders.living() == {1: "paid"}


def test_what_is_built_alone_follows_what_was_declared_meanwhile_with_the_rest(orders: Orders) -> None:
    history = "models/gold/history/{}_history.sql"
    orders.send(("c", {"id": 1, "state": "new", "qty": 1}, {}))
    orders.build()

    orders.declare("'qty': 'bigint'", "'qty': 'decimal(12,4)'")
    orders.build(only="{}__public__orders_history")
    orders.build()
    orders.send(("u", {"id": 1, "state": "paid", "qty": 1.2345}, {}))
    orders.build()
    assert orders.versions("qty") == [(Decimal(1),), (Decimal("1.2345"),)]

    orders.declare("decimal(12,4)", "decimal(20,8)")
    orders.build(only="tag:source:{},tag:layer:silver")
    orders.build()
    orders.send(("u", {"id": 1, "state": "sent", "qty": 1.00000001}, {}))
    orders.build()
    assert orders.now("qty") == [(Decimal("1.00000001"),)]

    orders.declare("_changes'", "_changes', ignore=['state', 'qty']", history)
    orders.build(only="tag:source:{},tag:layer:silver")
    orders.build()
    assert orders.now("version_id", "state") == orders.versions("version_id", "state")

    orders.declare("'state': 'string'", "'state': 'string', 'seen': 'timestamp'")
    orders.build()
    assert orders.now("state", "seen") == orders.versions("state", "seen") == [("sent", None)]

    orders.declare("{{ history", "{{ config(alias='orders_versions') }}{{ history", history)
    orders.build()
    assert orders.table.history is not None
    assert orders.table.history.location.endswith("/orders_versions")
    assert orders.versions("state") == [("sent",)]


def test_a_run_reads_what_had_landed_when_it_began(orders: Orders) -> None:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    begins = 'on-run-start: "{{ tidemark_start() }}"'
    lands = (
        "insert into bronze.records by name select * except (batch_id, `offset`, value), batch_id + 1 as batch_id,"
        " `offset` + 1 as `offset`,"
        " cast(replace(replace(cast(value as string), '10', '20'), 'new', 'paid') as binary) as value"
        " from bronze.records"
    )
    orders.declare(begins, f'{begins.replace(" ", " [", 1)}, "{lands}"]', "dbt_project.yml")
    orders.build()
    assert orders.versions("state") == [("new",)]

    orders.declare(f', "{lands}"', "", "dbt_project.yml")
    orders.build()
    assert orders.versions("state") == [("new",), ("paid",)]


def test_a_position_begins_with_the_commit_that_sequence_tells(orders: Orders) -> None:
    told = {
        1: (95, '["90","95"]', (90, 95)),
        2: (96, '[ "90" , "96" ]', (90, 96)),
        3: (97, '[null,"97"]', (97, 97)),  # no commit is known: the change's own place
        4: (98, '[ null , "98" ]', (98, 98)),
        5: (100, '["99",null]', (99, 100)),
    }
    orders.land(
        *[
            orders.record("c", {"id": key, "state": "new"}, place=place, sequence=text)
            for key, (place, text, _) in told.items()
        ]
    )
    orders.build()

    assert orders.positions() == {key: f"{commit:020} {own:020}" for key, (_, _, (commit, own)) in told.items()}


@pytest.mark.parametrize("times", [1, 2])
def test_a_change_rests_on_the_reads_before_it_that_count(orders: Orders, times: int) -> None:
    orders.land(
        *[orders.record("r", {"id": 1, "state": "new"}, place=100, partition=number) for number in range(times)],
        orders.record("c", {"id": 2, "state": "new"}, place=90, partition=1, sequence='[null,"90"]'),
        orders.record("r", {"id": 3, "state": "new"}, place=80),
        orders.record("c", {"id": 4, "state": "new"}, place=70, sequence='[null,"70"]'),
    )
    orders.declare("key=['id'],", "key=['id'],\n        sorted_records=1,")
    orders.build()

    assert orders.positions() == {
        1: f"{100:020} {0:020}",
        2: f"{90:020} {90:020}",  # the read of its partition repeats the one of the other
        3: f"{80:020} {0:020}",
        4: f"{100:020} {70:020}",
    }


def test_an_empty_run_with_a_new_catalog_leaves_what_is_stored(alone: Orders) -> None:
    alone.send(("c", {"id": 1, "state": "new", "unit price": 1}, {}))
    alone.build("--empty")
    alone.build()
    forget_tables(alone.spark)

    alone.build("--empty")
    alone.build()
    assert alone.living() == {1: "new"}
    assert alone.versions("state") == [("new",)]


def test_queries_are_left_uncompiled_where_all_tables_are_small(alone: Orders) -> None:
    begins = 'on-run-start: "{{ tidemark_start() }}"'
    asks = "set `test.is_small` = {{ is_of_small_tables() if execute }}"
    alone.declare(begins, f'{begins.replace(" ", " [", 1)}, "{asks}"]', "dbt_project.yml")

    def told() -> str | None:
        run_models(alone.places, accounting=True)
        return alone.spark.conf.get("test.is_small")

    alone.send(("c", {"id": 1, "state": "new"}, {}))
    assert told() == "True"

    progress = f"delta.`{alone.places.lakehouse}/ops/progress`"
    of_log = f"where model like '%{alone.source}%changes'"

    def state_with(old: str, new: str) -> None:
        alone.spark.sql(f"update {progress} set state = replace(state, '{old}', '{new}') {of_log}")

    state_with('"records": 1,', '"records": 100000,')
    assert told() == "False"

    state_with('"records": 100000,', "")
    alone.send(*[("u", {"id": 1, "state": "paid"}, {})] * 3)
    assert told() == "False"
    assert json.loads(alone.spark.sql(f"select state from {progress} {of_log}").collect()[0]["state"])["records"] == 4
    assert told() == "True"

    (alone.places.project / "models" / "mine.sql").write_text("{{ config(materialized='table') }} select 1 as one")
    assert told() == "False"
