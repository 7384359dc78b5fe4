"""What is built in parts, or behind another declaration, ends as if all had been built at once (G2).

Most of these tests are stories, which are told beside each other: each `yield` in one is a build, or a full refresh, of
all that wait for one then. Those that build by themselves, or longest, have a project of their own, which dbt sooner
reads.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import md5
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4
from zlib import crc32

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.damage import forget_progress
from spark_jobs.declarations import captured_tables, declared_tables, run_dbt
from spark_jobs.errors import UsageError
from spark_jobs.landing.kafka_gaps import put_parts, store_gaps
from spark_jobs.landing.kafka_offsets import Gap, Offsets, store
from spark_jobs.places import Places
from spark_jobs.query import show_tables
from spark_jobs.reporting.described import fields
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.trace import traced
from tests.gold import untold
from tests.projects import (
    account_of,
    decided_by,
    empty_project,
    forget_tables,
    land,
    microseconds,
    rows_of,
    run_models,
    tables_of,
)

# The first of these tests waits for all stories.
pytestmark = pytest.mark.timeout(3000)
# A column's schema, where it has one, and a value as JSON has it.
Encoded: TypeAlias = tuple[dict[str, Any] | None, Any]
# It yields nothing for a build, and FULL_REFRESH for one.
Story: TypeAlias = Iterator[Any]
FULL_REFRESH = "--full-refresh"
PLACEHOLDER = "__debezium_unavailable_value"
HUGE = "9" * 30
_FLOAT = {"type": "float"}


@dataclass(frozen=True)
class Told:
    """A story, which kinds of models are built in it, and whether it is one of those apart."""

    story: Callable[[Orders], Story]
    kinds: tuple[str, ...]
    apart: bool


# By the names of their tests.
STORIES: dict[str, Told] = {}


@dataclass
class Orders:
    """A table of a source of its own, and what PostgreSQL's connector sends of it."""

    spark: SparkSession
    places: Places
    source: str
    kinds: tuple[str, ...]
    sent: int = 0
    batches: list[str] = field(default_factory=list)
    declarations: list[tuple[str, str, str]] = field(default_factory=list)

    def send(self, *changes: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
        """Land changes: each with its operation, its row and the headers that name keys."""
        self.land(*[self.record(*change) for change in changes])

    def land(self, *records: dict[str, Any]) -> None:
        """Land records as one batch, before the next build."""
        self.batches.append("".join(json.dumps(record) + "\n" for record in records))

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
        last = "null" if op == "r" else f'"{place}"'
        source = {
            "connector": "postgresql", "name": self.source, "db": "shop", "schema": "public", "table": "orders",
            "ts_ms": 1_704_067_200_000 + place, "lsn": place, "txId": place,
            "snapshot": "true" if op == "r" else "false", "sequence": sequence or f'[{last},"{place}"]',
        }  # fmt: skip
        image = {"before": {"id": row["id"]}, "after": None} if op == "d" else {"before": None, "after": row}
        return {
            "topic": f"{self.source}.public.orders", "partition": partition, "offset": self.sent,
            "key": json.dumps({"id": row["id"]}),
            "value": json.dumps(image | {"source": source, "op": op, "ts_ms": place}),
            "headers": [{"key": name, "value": json.dumps(key)} for name, key in (headers or {}).items()],
        }  # fmt: skip

    def updated(
        self, before: dict[str, Any], after: dict[str, Any], left_out: str = "", place: int | None = None
    ) -> dict[str, Any]:
        """An update with the whole row before it; its rows leave a column out that its key has."""
        rows = [{name: value for name, value in row.items() if name != left_out} for row in (before, after)]
        record = self.record("u", after, place=place)
        value = json.loads(record["value"]) | {"before": rows[0], "after": rows[1]}
        key = {name: after[name] for name in (left_out, "id") if name}
        return record | {"key": json.dumps(key), "value": json.dumps(value)}

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
        progress, ours = f"delta.`{self.places.lakehouse}/ops/progress`", f"where model like '%{self.source}%'"
        [written, *_] = self.spark.sql(f"describe history {progress}").collect()
        yield
        self.spark.sql(f"delete from {progress} {ours}")
        self.spark.sql(f"insert into {progress} select * from {progress} version as of {written['version']} {ours}")

    def declare(self, was: str, now: str, file: str = "models/silver/changes/{}_changes.sql") -> None:
        """Declare something otherwise, behind what is landed before the next build."""
        self.declarations.append((was, now, file.format(f"{self.source}__public__orders")))

    @property
    def models(self) -> list[str]:
        """What dbt selects the table's models by."""
        return [f"{self.source}__*,config.materialized:{kind}" for kind in self.kinds]

    def build(self, *arguments: str, only: str | None = None) -> None:
        """Build the table's models, or some of them; of `only` and dbt's arguments each `{}` is the source."""
        land_and_declare([self])
        selected = self.models if only is None else [only.format(self.source)]
        run_models(self.places, *(one.format(self.source) for one in arguments), "--select", *selected, accounting=True)

    def refolded(self) -> int:
        """How many keys the history's last build folded from their whole log, where it went on from open versions."""
        return int(decided_by(self.places, f"{self.source}__public__orders_history")["carried"]["refolded"])

    def at(self, kind: str) -> str:
        """Where the table's `changes`, `current` or `history` is, as far as nothing was declared of that."""
        return self.places.table("gold" if kind == "history" else "silver", f"{self.source}__public__orders_{kind}")

    def outcomes(self, kind: str = "disposition") -> dict[str, int]:
        """Disposition, or sign → how many changes, as builds have counted them."""
        [table] = [one for one in tables_of(self.places) if one.source_name == self.source]
        return {row["name"]: row["records"] for row in account_of(table) if row["kind"] == kind}

    def untold(self) -> list[str]:
        """What of the history the changes don't say."""
        tables = [one for one in tables_of(self.places) if one.source_name == self.source]
        return untold(self.spark, self.places, tables)

    def traced(self, *pairs: str) -> list[str]:
        """What `tidemark trace` tells of the keys that have these values."""
        return list(traced(self.spark, self.places, f"{self.source}__public__orders", pairs).lines)

    def versions(self, *columns: str) -> list[tuple[Any, ...]]:
        """Of each version some columns, in the order of the log."""
        rows = sorted(rows_of(self.at("history")), key=lambda row: row["offset"])
        return [tuple(row[name] for name in columns) for row in rows]

    def asked_of_doubts(self) -> int:
        """How often builds have asked the log which of its snapshots are in doubt, as dbt's own log says."""
        question = rf"from \S*{self.source}__public__orders_changes\S*\s+\),\s+unread as \("
        return sum(len(re.findall(question, log.read_text())) for log in self.places.project.glob("logs/dbt.log*"))

    def asked_of_news(self) -> int:
        """How often builds of history and current state have asked the log what is new to them."""
        question = (
            rf"On model\.tidemark\.{self.source}__public__orders_(?:history|current): .*\s+"
            r"select\s+max\(batch_id\) as last_batch,"
        )
        return sum(len(re.findall(question, log.read_text())) for log in self.places.project.glob("logs/dbt.log*"))

    def positions(self) -> dict[int, str]:
        """Order → where its change stands in the log."""
        rows = rows_of(self.at("changes"), "key", "position")
        return {row["key"]["id"]: row["position"] for row in rows}

    def now(self, *columns: str) -> list[tuple[Any, ...]]:
        """Of each living row some columns."""
        return [tuple(row[name] for name in columns) for row in rows_of(self.at("current"))]

    def living(self) -> dict[int, Any]:
        """Order → its present state."""
        return {row["id"]: row["state"] for row in rows_of(self.at("current"))}


def source_of(test: str) -> str:
    """The source that a test has its table in."""
    return f"parts{crc32(test.encode())}"


def land_and_declare(waiting: list[Orders]) -> None:
    """Land what waits, the first batches of all together, then the second ones, and declare what is to be."""
    for batches in zip_longest(*(orders.batches for orders in waiting), fillvalue=""):
        first = waiting[0]
        name = f"{first.source}-{uuid4()}"
        land(first.spark, first.places, name, "".join(batches), {orders.source for orders in waiting})
    for orders in waiting:
        orders.batches.clear()
        for was, now, file in orders.declarations:
            path = orders.places.project / file
            assert was in path.read_text()
            path.write_text(path.read_text().replace(was, now))
        orders.declarations.clear()


def beside_others(
    *more: str, kinds: tuple[str, ...] = ("changes", "history"), apart: bool = False
) -> Callable[..., Any]:
    """Make a test of a story in which models of these kinds are built, and of more."""

    def test_of(story: Callable[[Orders], Story]) -> Callable[..., None]:
        STORIES[story.__name__] = Told(story, (*kinds, *more), apart)

        def ends(ended: dict[str, Exception | None]) -> None:
            failure = ended[story.__name__]
            if failure is not None:
                raise failure

        def test(ended_beside: dict[str, Exception | None]) -> None:
            ends(ended_beside)

        def test_apart(ended_apart: dict[str, Exception | None]) -> None:
            ends(ended_apart)

        return test_apart if apart else test

    return test_of


def ends_of(
    spark: SparkSession, project: Path, request: pytest.FixtureRequest, *, apart: bool
) -> dict[str, Exception | None]:
    """Story → what it failed with, if it did: those whose tests are asked for, told beside each other."""
    forget_tables(spark)
    places = Places.of(empty_project(project))
    items = [item.name for item in request.session.items if item.path == request.path]
    asked = {name: STORIES[name] for name in items if name in STORIES and STORIES[name].apart == apart}
    tables = {name: Orders(spark, places, source_of(name), told.kinds) for name, told in asked.items()}
    stories = {name: told.story(tables[name]) for name, told in asked.items()}
    ended: dict[str, Exception | None] = {}
    while len(ended) < len(stories):
        waiting: dict[str | None, list[Orders]] = {None: [], FULL_REFRESH: []}
        for name, story in stories.items():
            if name not in ended:
                try:
                    waiting[next(story)].append(tables[name])
                except StopIteration:
                    ended[name] = None
                except Exception as failure:
                    ended[name] = failure
        if any(waiting.values()):
            land_and_declare([orders for some in waiting.values() for orders in some])
        for argument, some in waiting.items():
            if some:
                models = [model for orders in some for model in orders.models]
                run_models(places, *filter(None, [argument]), "--select", *models, accounting=True)
    forget_tables(spark)
    return ended


@pytest.fixture(scope="module")
def ended_beside(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, Exception | None]:
    return ends_of(spark, tmp_path_factory.mktemp("parts") / "project", request, apart=False)


@pytest.fixture(scope="module")
def ended_apart(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, Exception | None]:
    return ends_of(spark, tmp_path_factory.mktemp("apart") / "project", request, apart=True)


@pytest.fixture(scope="module")
def places_alone(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A project for what is of all its tables: its tests come behind each other."""
    forget_tables(spark)
    yield Places.of(empty_project(tmp_path_factory.mktemp("alone") / "project"))
    forget_tables(spark)


@pytest.fixture
def alone(spark: SparkSession, places_alone: Places, request: pytest.FixtureRequest) -> Orders:
    return Orders(spark, places_alone, source_of(request.node.name), ("changes", "history", "current"))


@beside_others()
def test_a_value_that_was_left_out_keeps_its_exact_text(orders: Orders) -> Story:
    orders.send(
        ("c", {"id": 1, "state": HUGE, "spot": "[1,2]"}, {}),
        ("c", {"id": 2, "state": "5", "spot": None}, {}),
        ("c", {"id": 4, "state": "5", "spot": "[3,4]"}, {}),
        ("c", {"id": 5, "state": "5", "spot": "[5,6]"}, {}),
        ("c", {"id": 6, "state": "5", "spot": "[7,8]"}, {}),
    )
    orders.declare("'state': 'string'", "'state': 'decimal(10,0)'")
    orders.declare("'spot': 'string'", "'spot': {'type': 'string', 'null_is_unchanged': true}")
    yield
    orders.send(
        ("u", {"id": 1, "state": PLACEHOLDER, "spot": None}, {}),
        ("d", {"id": 1}, {"__debezium.newkey": {"id": 3}}),
        ("c", {"id": 3, "state": PLACEHOLDER, "spot": None}, {"__debezium.oldkey": {"id": 1}}),
        ("u", {"id": 2, "state": "6", "spot": None}, {}),
        ("c", {"id": 4, "state": "5", "spot": None}, {}),
    )
    # A whole row before it has the value where the connector had it: then NULL is what the row was updated to.
    [after, other] = [{"id": number, "state": "5", "spot": None} for number in (5, 6)]
    orders.land(orders.updated(after | {"spot": "[5,6]"}, after), orders.updated(other, other | {"state": "6"}))
    yield

    exact = [("state", HUGE)]
    assert orders.versions("id", "state", "spot", "exact_values", "unresolved_columns") == [
        (1, None, "[1,2]", exact, []), (2, Decimal(5), None, [], []), (4, Decimal(5), "[3,4]", [], []),
        (5, Decimal(5), "[5,6]", [], []), (6, Decimal(5), "[7,8]", [], []),
        (3, None, "[1,2]", exact, []), (2, Decimal(6), None, [], []), (4, Decimal(5), None, [], []),
        (5, Decimal(5), None, [], []), (6, Decimal(6), "[7,8]", [], []),
    ]  # fmt: skip


@beside_others()
def test_a_vector_that_an_update_leaves_out_stays_as_scaffolding_declares_it(orders: Orders) -> Story:
    vector = {"type": "array", "name": "io.debezium.data.DoubleVector", "items": {"type": "double"}}
    schemas = {"near": vector, "spread": _array({"type": "double"}), "tags": _array({"type": "string"})}
    schemas["scan"] = {"parameters": {"__debezium.source.column.type": "BYTEA"}}
    row = {"id": 1, "near": [1.5, 2.0], "spread": [0.5], "tags": ["a"], "scan": "AP8Q"}
    orders.land(orders.described("c", row, schemas))
    yield
    orders.land(orders.described("u", dict.fromkeys(row) | {"id": 1}, schemas))
    yield

    assert orders.versions("near", "spread", "tags") == [([1.5, 2.0], [0.5], ["a"]), ([1.5, 2.0], None, None)]
    [seen] = [table for table in seen_tables(orders.spark, orders.places) if table.source == orders.source]
    assert [note.partition(":")[0] for note in seen.notes] == ["near", "spread, scan"]
    [table] = [one for one in captured_tables(orders.places) if one.source_name == orders.source]
    asked = fields(orders.spark, orders.places, [table])[table.name].asked
    assert asked.left_as_null == ("spread", "scan")


@beside_others()
def test_values_that_were_left_out_are_found_along_a_list_that_was_shifted(orders: Orders) -> Story:
    """`update orders set id = id + 1`: each row is linked with the next, and what meets one of them needs them all."""
    numbers = range(64, 0, -1)

    def moved(number: int) -> Iterator[dict[str, Any]]:
        old, new, place = {"id": number}, {"id": number + 1}, (orders.sent + 2) * 10
        yield orders.record("d", old, {"__debezium.newkey": new}, place=place)
        yield orders.record("c", new | {"state": PLACEHOLDER, "note": "new"}, {"__debezium.oldkey": old}, place=place)

    orders.send(*[("c", {"id": number, "state": f"of {number}", "note": "new"}, {}) for number in numbers])
    orders.land(*[half for number in numbers for half in moved(number)])
    yield
    orders.send(("u", {"id": 65, "state": PLACEHOLDER, "note": "last"}, {}))
    yield
    living = {row["id"]: (row["state"], row["note"]) for row in rows_of(orders.at("history")) if row["is_current"]}
    assert living == {number + 1: (f"of {number}", "last" if number == 64 else "new") for number in numbers}
    assert {tuple(names) for [names] in orders.versions("unresolved_columns")} == {()}
    rounds = Path(orders.places.table("ops", "_staged")).glob(f"touched_*_{orders.source}__public__orders_history")
    assert 0 < len(list(rounds)) < 10
    said = orders.traced("id=65")
    assert said[0].endswith(": 2 changes, 2 versions"), said
    assert not [line for line in said if "unresolved" in line]
    forget_progress(orders.spark, orders.places, [f"{orders.source}__public__orders_history"])
    with pytest.raises(UsageError, match="it is not built to its end yet: run `tidemark build`"):
        orders.traced("id=65")


@beside_others("accounting", "current", apart=True)
def test_a_run_that_ended_behind_its_history_leaves_the_current_state_to_the_next(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    yield

    with orders.killed():
        orders.send(("u", {"id": 1, "state": "paid"}, {}))
        orders.build("--exclude", "*_current")
        assert orders.living() == {1: "new"}

    yield
    assert orders.versions("state") == [("new",), ("paid",)]
    assert orders.living() == {1: "paid"}


@beside_others("accounting", "current")
def test_what_a_killed_run_has_built_is_placed_again_behind_reads_that_come_late(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    yield

    with orders.killed():
        orders.land(orders.record("u", {"id": 1, "state": "paid"}, place=40, sequence='[null,"40"]') | {"offset": 5})
        yield

    orders.land(orders.record("r", {"id": 1, "state": "new"}, place=50) | {"offset": 3})
    yield
    assert orders.living() == {1: "paid"}


@beside_others("accounting", "current")
def test_a_border_that_a_killed_run_has_found_is_found_again(orders: Orders) -> Story:
    def at(offset: int, second: int, op: str, row: dict[str, Any], place: int) -> dict[str, Any]:
        record = orders.record(op, row, place=place)
        value = json.loads(record["value"])
        value["source"]["ts_ms"] = 1_704_067_200_000 + second * 1000
        return record | {"offset": offset, "value": json.dumps(value)}

    orders.land(at(11, 100, "c", {"id": 1, "state": "new"}, 10))
    yield

    with orders.killed():
        # Another log begins behind it: what came before is of the new one, and has its number since.
        orders.land(at(5, 50, "c", {"id": 2, "state": "new"}, 90))
        yield

    orders.land(at(12, 200, "u", {"id": 1, "state": "paid"}, 95))
    yield
    assert orders.living() == {1: "paid", 2: "new"}


@beside_others("accounting", "current")
def test_a_column_that_a_killed_run_has_added_gets_the_type_that_it_has_now(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    yield

    with orders.killed():
        # The first times without zone of tables that are there.
        schemas = {"state": {}, "n": {"type": "int32"}, "at": _array(_MICROSECONDS)}
        orders.land(orders.described("c", {"id": 2, "state": "new", "n": 5, "at": [1_000_001]}, schemas))
        yield

    orders.land(orders.described("c", {"id": 3, "state": "new", "n": "few"}, {"state": {}, "n": {}}))
    yield
    times = [datetime(1970, 1, 1, 0, 0, 1, 1)]
    assert orders.versions("id", "n", "at") == [(1, None, None), (2, "5", times), (3, "few", None)]


@beside_others()
def test_deletes_without_a_schema_are_read_by_all_schemas_that_have_landed(orders: Orders) -> Story:
    cents, mills = {"id": _decimal(10, 2)}, {"id": _decimal(10, 3)}
    orders.land(
        orders.described("c", {"id": "AeJA"}, cents),
        orders.described("c", {"id": "AQ=="}, cents),
        orders.record("d", {"id": "AeJA"}),
    )
    yield
    # That its converter writes no schemas from now on says nothing else of the delete.
    orders.send(("u", {"id": "AQ==", "state": "paid"}, {}))
    yield
    versions = [(Decimal("1234.56"), "delete"), (Decimal("0.01"), None)]
    assert orders.versions("id", "closed_by") == versions
    yield FULL_REFRESH
    assert orders.versions("id", "closed_by") == versions

    orders.land(orders.described("c", {"id": "A+g="}, mills))
    yield
    # Two schemas: nothing tells which of them the delete was written by.
    versions = [(Decimal("1234.56"), None), (Decimal("0.01"), None), (Decimal(1), None)]
    assert orders.versions("id", "closed_by") == versions
    yield FULL_REFRESH
    assert orders.versions("id", "closed_by") == versions


@beside_others()
def test_deletes_without_a_schema_are_read_with_columns_that_came_behind_them(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['id'], before_is_whole=true")
    orders.send(("c", {"id": 1, "a": "1"}, {}))
    yield
    delete = orders.record("d", {"id": 9})
    value = json.loads(delete["value"]) | {"before": {"id": 9, "a": "1", "b": "5"}}
    orders.land(delete | {"value": json.dumps(value)})
    yield
    orders.send(("c", {"id": 10, "a": "1", "b": "7"}, {}))
    yield

    found = orders.versions("id", "b", "opened_by", "version_id")
    assert [row[:3] for row in found] == [(1, None, "insert"), (9, "5", "before"), (10, "7", "insert")]
    yield FULL_REFRESH
    assert orders.versions("id", "b", "opened_by", "version_id") == found


@beside_others("current")
def test_news_without_effect_write_neither_history_nor_current_state(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    yield
    tables = [Path(orders.at(kind)) for kind in ("history", "current")]
    before = [sorted(table.rglob("*.json")) for table in tables]

    orders.send(("d", {"id": 2}, {}))
    yield
    assert [sorted(table.rglob("*.json")) for table in tables] == before


@beside_others("accounting", "current")
def test_what_a_run_found_to_be_no_news_the_next_one_does_not_look_for(orders: Orders) -> Story:
    orders.declare("_changes'", "_changes', snapshot_deletes='close'", "models/gold/history/{}_history.sql")
    first = orders.record("c", {"id": 1, "state": "new"})
    last_read = orders.record("r", {"id": 1, "state": "new"}, place=50)
    orders.land(first, last_read | {"value": last_read["value"].replace('"snapshot": "true"', '"snapshot": "last"')})
    yield
    versions = [DeltaTable(orders.at(kind)).version() for kind in ("history", "current")]

    def lose() -> None:
        orders.sent += 1
        gap = Gap(f"{orders.source}.public.orders", 0, "life", orders.sent, orders.sent + 1, 1, "skipped")
        store_gaps(orders.spark, orders.places, "default", "a run", [gap])

    # A change that comes again, and what says nothing else of the snapshot.
    lose()
    orders.sent += 1
    orders.land(first | {"offset": orders.sent})
    yield
    asked = orders.asked_of_news(), orders.asked_of_doubts()
    assert min(asked) > 0
    yield
    assert (orders.asked_of_news(), orders.asked_of_doubts()) == asked

    lose()
    yield
    assert orders.asked_of_doubts() == asked[1] + 1
    yield
    assert (orders.asked_of_news(), orders.asked_of_doubts()) == (asked[0], asked[1] + 1)

    orders.send(("u", {"id": 1, "state": "paid"}, {}))
    assert [DeltaTable(orders.at(kind)).version() for kind in ("history", "current")] == versions
    yield
    history = decided_by(orders.places, f"{orders.source}__public__orders_history")
    assert history["fresh"].startswith("`staged_"), "what the log's build still holds"
    assert orders.asked_of_doubts() == asked[1] + 1, "no place that isn't read is behind it"
    assert orders.versions("state", "closed_by") == [("new", "update"), ("paid", None)]
    assert orders.outcomes() == {"opened": 2, "no_op": 1}


@beside_others(kinds=("changes",))
def test_a_delivery_of_a_known_change_that_lands_late_leaves_a_log_with_later_reads(orders: Orders) -> Story:
    first = orders.record("c", {"id": 1, "state": "new"})
    again = {**first, "offset": first["offset"] + 1}
    orders.sent += 1
    orders.land(first, orders.record("r", {"id": 2, "state": "read"}, place=50))
    yield
    version = DeltaTable(orders.at("changes")).version()
    orders.land(again)
    yield

    assert DeltaTable(orders.at("changes")).version() == version


@beside_others("current", apart=True)
def test_what_a_declaration_makes_of_the_log_reaches_its_history_in_the_same_run(orders: Orders) -> Story:
    text = '<"n\\ä">'
    codes = [byte - 256 if byte > 127 else byte for byte in text.encode()]
    spelled = [[text], {text: text}, codes, text]
    # Before another was set, the connector wrote Debezium's own.
    every = [PLACEHOLDER, base64.b64encode(PLACEHOLDER.encode()).decode(), *spelled]
    orders.send(("c", {"id": 1, "state": "new"}, {}), *[("u", {"id": 1, "state": one}, {}) for one in every])
    yield
    assert orders.versions("state")[1:] == [
        *[(json.dumps(one, separators=(",", ":"), ensure_ascii=False),) for one in spelled[:3]], (text,)
    ]  # fmt: skip

    orders.declare("sources: {}", f"sources: {{{orders.source}: {{placeholder: '{text}'}}}}", "dbt_project.yml")
    yield
    assert orders.versions("state") == [("new",)]
    assert orders.living() == {1: "new"}


@beside_others()
def test_a_value_that_was_left_out_is_known_however_its_type_spells_it(orders: Orders) -> Story:
    text = "__debezium_unavailable_value"
    encoded = base64.b64encode(text.encode()).decode()
    named = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"  # of uuid[], as PostgreSQL's connector has it
    spelled = [text, encoded, text.encode().hex(), [text], [encoded], [named], list(text.encode()), {text: text}]
    orders.send(
        ("c", {"id": 1, "state": "new"}, {}),
        *[("u", {"id": 1, "state": one}, {}) for one in spelled],
        ("u", {"id": 1, "state": [named, named]}, {}),
    )
    yield
    assert orders.versions("state") == [("new",), (f'["{named}","{named}"]',)]


@beside_others()
def test_an_encoding_that_is_declared_later_is_read_from_all_records(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "AQ=="}, {}))
    orders.declare("'state': 'string'", "'state': {'type': 'decimal(10,2)'}")
    yield
    assert orders.versions("state", "exact_values") == [(None, [("state", "AQ==")])]

    orders.declare("'decimal(10,2)'", "'decimal(10,2)', 'encoding': 'org.apache.kafka.connect.data.Decimal:2'")
    yield
    assert orders.versions("state", "exact_values") == [(Decimal("0.01"), [])]


@beside_others("accounting")
def test_a_read_that_rounds_a_number_says_nothing_new_of_it(orders: Orders) -> Story:
    """MariaDB's server sends a FLOAT as text with six digits, and its binary log has all of them."""

    def change(op: str, number: int, price: float, before: float | None = None, state: str = "new") -> dict[str, Any]:
        place = (orders.sent + 1) * 10
        record = orders.described(op, {"id": number, "state": state, "price": price}, {"state": {}, "price": _FLOAT})
        event = json.loads(record["value"])
        source = event["payload"]["source"] | {"connector": "mariadb", "server_id": int(op != "r")}
        source |= {"file": "binlog.000001", "pos": place, "row": 0, "ts_ms": 1_704_067_200_000 + place}
        event["payload"] |= {"source": source | {"gtid": None if op == "r" else f"0-1-{place}"}}
        if before is not None:
            event["payload"]["before"] = {"id": number, "state": "new", "price": before}
        return record | {"value": json.dumps(event)}

    exact = {2: 99999.99, 3: 0.12345678, 4: 16777216, 5: 1234565, 6: 2.5}
    orders.land(change("r", 1, 100000), *(change("c", number, price) for number, price in exact.items()))
    yield
    rounded = {2: 100000, 3: 0.123457, 4: 16777200, 5: 1234560, 6: 2.6}
    orders.land(
        change("u", 1, 99999.99, 99999.99, "paid"),
        *(change("r", number, price) for number, price in rounded.items()),
        change("u", 2, 100000, 99999.99),
        change("u", 3, 0.12345678, 0.12345678, "paid"),
    )
    yield

    def told() -> tuple[Any, ...]:
        versions = sorted(orders.versions("id", "offset", "price", "closed_by"))
        return [(one, float(f"{price:.7g}"), end) for one, _, price, end in versions], orders.outcomes("sign")

    ended = told()
    assert ended == (
        [
            (1, 100000, "update"), (1, 99999.99, None), (2, 99999.99, "update"), (2, 100000, None),
            (3, 0.1234568, "update"), (3, 0.1234568, None), (4, 16777220, None), (5, 1234565, None),
            (6, 2.5, "snapshot"), (6, 2.6, None),
        ],
        {"missed_changes": 1},
    )  # fmt: skip
    assert orders.untold() == []
    yield FULL_REFRESH
    assert told() == ended


@beside_others()
def test_a_number_that_its_type_can_not_hold_is_compared_as_a_number(orders: Orders) -> Story:
    states = ["1.255", "1.2550", "001.255", "1.256", "1.256000", "n/a", "n/a0"]
    orders.send(*[("u", {"id": 1, "state": state}, {}) for state in states])
    orders.declare("'state': 'string'", "'state': 'decimal(10,2)'")
    yield
    assert [dict(exact)["state"] for [exact] in orders.versions("exact_values")] == ["1.255", "1.256", "n/a", "n/a0"]


@beside_others()
def test_an_envelope_s_time_has_microseconds_where_the_source_tells_none(orders: Orders) -> Story:
    record = orders.record("c", {"id": 1, "state": "new"})
    value = json.loads(record["value"])
    value["source"]["ts_ms"] = 0
    value |= {"ts_ms": 1_704_067_200_123, "ts_us": 1_704_067_200_123_456, "ts_ns": 1_704_067_200_123_456_789}
    orders.land(record | {"value": json.dumps(value)})
    yield
    assert [microseconds(moment) for [moment] in orders.versions("valid_from")] == [1_704_067_200_123_456]


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_DATE = {"type": "int32", "name": "io.debezium.time.Date"}
_MICROSECONDS = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
_MICROTIME = {"type": "int64", "name": "io.debezium.time.MicroTime"}
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
    "moment": ((_DATE, 1), (_MICROSECONDS, 1_000_001), "timestamp_ntz",
               [datetime(1970, 1, 2), datetime(1970, 1, 1, 0, 0, 1, 1)]),
    "renamed": (({"type": "int32"}, 1), ({"type": "string"}, "one"), "string", ["1", "one"]),
    "untold": (({"type": "int32"}, 1), (None, 2), "int", [1, 2]),
}  # fmt: skip


@beside_others()
def test_a_key_that_no_type_of_the_model_holds_is_no_one_s(orders: Orders) -> Story:
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
    linked = [
        orders.record("d", {"id": 1}, {"__debezium.newkey": {"id": "x"}}),
        orders.record("c", {"id": 4, "state": "new"}, {"__debezium.oldkey": {"id": "y"}}),
    ]
    orders.land(*without_key, plain, text | {"value": json.dumps(value)}, *renamed, *linked)
    yield

    assert orders.versions("id", "opened_by", "closed_by", "previous_key", "next_key") == [
        (1, "insert", "delete", None, None), (4, "insert", None, None, None),
    ]  # fmt: skip
    log = rows_of(orders.at("changes"), "problem", "offset")
    assert [row["problem"] for row in sorted(log, key=lambda row: row["offset"])] == [
        None, *["key_not_decoded"] * 3, "row_not_read", *["key_not_told"] * 3, None, None
    ]  # fmt: skip


@beside_others()
def test_a_before_that_may_be_invented_tells_no_key_unless_it_is_declared_as_the_row(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['code']")
    rows = [{"id": 1, "code": 0}, {"id": 2, "code": 5}, {"id": 3, "code": 6}]
    orders.send(*(("c", row, {}) for row in rows))
    deleted = [orders.record("d", row) for row in (rows[1], rows[1], rows[2])]
    # What REPLICA IDENTITY DEFAULT invents, and what a table without a key sends: its before is all that names a row.
    invented = {"id": 2, "code": 0}
    for record, before in zip(deleted, (invented, invented, rows[2]), strict=True):
        record["value"] = json.dumps(json.loads(record["value"]) | {"before": before})
    deleted[1]["key"], deleted[2]["key"] = "2", None
    without_code = orders.record("c", {"id": 4, "code": None})
    orders.land(*deleted, without_code)
    yield

    def problems() -> list[str | None]:
        log = rows_of(orders.at("changes"), "problem", "offset")
        return [row["problem"] for row in sorted(log, key=lambda row: row["offset"]) if row["offset"] in held]

    held = {deleted[0]["offset"], deleted[1]["offset"], without_code["offset"]}
    assert sorted(orders.versions("code", "closed_by")) == [(0, None), (5, None), (6, "delete")]
    assert problems() == ["key_not_told"] * 3

    orders.declare("key=['code'],", "key=['code'],\n        before_is_whole=true,")
    yield
    assert sorted(orders.versions("code", "closed_by")) == [(0, "delete"), (5, None), (6, "delete")]
    assert problems() == [None, None, "key_not_told"]


@beside_others("accounting", "current")
def test_a_placeholder_in_a_record_s_key_is_no_key(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['state']")
    orders.send(*(("c", {"id": key, "state": state}, {}) for key, state in ((1, "a"), (2, "b"))))
    left_out = {"key": json.dumps({"state": PLACEHOLDER})}
    unchanged = [orders.record("u", {"id": key, "state": PLACEHOLDER}) | left_out for key in (1, 2)]
    # A row before the change tells what the source has left out of its key.
    unchanged[1]["value"] = json.dumps(json.loads(unchanged[1]["value"]) | {"before": {"id": 2, "state": "b"}})
    orders.land(*unchanged)
    yield

    def told() -> tuple[Any, ...]:
        return sorted(orders.versions("id", "state", "closed_by")), orders.outcomes(), orders.untold()

    assert told() == ([(1, "a", None), (2, "b", None)], {"opened": 2, "quarantined": 2}, [])
    orders.declare("key=['state'],", "key=['state'],\n        before_is_whole=true,")
    yield
    assert told() == ([(1, "a", None), (2, "b", None)], {"opened": 2, "quarantined": 1, "no_op": 1}, [])


@beside_others()
def test_a_placeholder_in_a_part_of_a_record_s_key_is_no_value_of_it(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['id', 'state']")
    orders.send(*(("c", {"id": 1, "state": state, "note": "new"}, {}) for state in ("a", "b")))
    left_out = {"id": 1, "state": PLACEHOLDER}
    orders.land(orders.record("u", left_out | {"note": "paid"}) | {"key": json.dumps(left_out)})
    nameless = orders.record("d", {"id": 1})
    deleted = json.loads(nameless["value"]) | {"before": left_out | {"note": "paid"}}
    orders.land(nameless | {"key": None, "value": json.dumps(deleted)})
    yield

    assert sorted(orders.versions("id", "state", "note", "closed_by")) == [
        (1, "a", "new", None), (1, "b", "new", None)
    ]  # fmt: skip
    log = rows_of(orders.at("changes"), "problem", "offset")
    problems = [row["problem"] for row in sorted(log, key=lambda row: row["offset"])]
    assert problems[:3] == [None, None, "key_not_told"]


@beside_others("accounting", "current")
def test_a_row_that_had_no_key_comes_to_one_from_none(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['email'], before_is_whole=true")
    nameless, named = {"id": 1, "email": None}, {"id": 1, "email": "a"}
    orders.send(("c", {"id": 2, "email": "b"}, {}), ("c", nameless, {}))
    yield
    orders.land(orders.updated(nameless, named))
    yield

    links = [(row["previous_key"], row["problem"]) for row in rows_of(orders.at("changes"))]
    assert Counter(links) == {(None, None): 2, (None, "key_not_told"): 1}
    columns = ("id", "email", "opened_by", "closed_by")
    assert orders.versions(*columns) == [(2, "b", "insert", None), (1, "a", "update", None)]
    assert (orders.outcomes(), orders.untold()) == ({"opened": 2, "quarantined": 1}, [])


@beside_others("accounting")
def test_a_change_that_comes_again_and_tells_its_commit_then_is_there_once(orders: Orders) -> Story:
    first = [orders.record("c", {"id": key, "state": "new"}, place=place) for key, place in ((2, 105), (1, 110))]
    for record in first:
        value = json.loads(record["value"])
        del value["source"]["sequence"]
        record["value"] = json.dumps(value)
    orders.land(*first)
    yield
    # The transaction of the first, which wrote before the second's, has committed at 115.
    orders.land(orders.record("c", {"id": 1, "state": "new"}, place=110, sequence='["115","110"]'))
    yield

    assert sorted(orders.versions("id", "opened_by", "offset")) == [(1, "insert", 2), (2, "insert", 1)]
    assert orders.outcomes() == {"opened": 2}


@beside_others(kinds=("changes",))
def test_the_first_delivery_of_a_change_counts_though_it_lands_last_and_names_a_later_commit(orders: Orders) -> Story:
    """From a connector that has gone back: what it sends again names the last commit that it knew then."""
    paid = {"id": 1, "state": "paid"}
    first = orders.record("u", paid, place=100, sequence='["90","100"]')
    orders.land(
        orders.record("c", {"id": 2, "state": "new"}, place=50, sequence='["40","50"]'),
        orders.record("u", paid, place=100, sequence='["60","100"]'),
    )
    yield
    orders.land(first)
    yield

    assert sorted(row["offset"] for row in rows_of(orders.at("changes"))) == [1, 2]
    assert orders.positions()[1].split()[0].endswith("90")


@beside_others(kinds=("changes",))
def test_of_other_bytes_at_one_offset_the_same_count_in_whatever_order_they_land(orders: Orders) -> Story:
    """Written at one time, as in a file that leaves headers out or spells values otherwise."""
    ones = [orders.record("c", {"id": key, "state": "new"}) for key in range(1, 9)]
    told = [(one, {**one, "value": one["value"].replace('"new"', '"neu"')}) for one in ones]
    orders.land(*(both[number % 2] for number, both in enumerate(told)))
    yield
    orders.land(*(both[1 - number % 2] for number, both in enumerate(told)))
    yield
    in_parts = sorted((row["key"]["id"], row["after"]["state"]) for row in rows_of(orders.at("changes")))
    yield FULL_REFRESH

    assert sorted((row["key"]["id"], row["after"]["state"]) for row in rows_of(orders.at("changes"))) == in_parts
    assert len(in_parts) == len(told)


@beside_others("accounting", "current")
def test_a_before_beside_no_key_tells_which_row_an_update_is_about(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['code']")
    row = {"id": 1, "code": 5}
    orders.land(orders.record("c", row) | {"key": None}, orders.record("c", {"id": 2, "code": 6}))
    yield
    # The second says whose row it was, and not that key's state before: nobody has declared it as the row (R19).
    moved = orders.updated(row, row | {"code": 7}), orders.updated({"id": 8, "code": 8}, {"id": 8, "code": 9})
    orders.land(*(record | {"key": None} for record in moved))
    yield
    deleted = orders.record("d", row) | {"key": None}
    deleted["value"] = json.dumps(json.loads(deleted["value"]) | {"before": row | {"code": 7}})
    orders.land(deleted)
    yield

    links = ("code", "opened_by", "closed_by", "previous_key", "next_key")
    assert sorted(orders.versions(*links)) == [
        (5, "insert", "key_change", None, '{"code":7}'), (6, "insert", None, None, None),
        (7, "key_change", "delete", '{"code":5}', None), (9, "key_change", None, '{"code":8}', None),
    ]  # fmt: skip
    assert orders.untold() == []


@beside_others("accounting", "current")
def test_a_row_that_has_no_key_any_more_leaves_the_one_that_it_had(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['email'], before_is_whole=true")
    rows = {name: {"id": number, "email": name} for number, name in enumerate("abcd")}
    orders.send(*(("c", row, {}) for name, row in rows.items() if name != "c"))
    yield
    # One leaves a key that no event has told of, and one where another has taken its key in the same transaction.
    left = [orders.updated(rows[name], rows[name] | {"email": None}) for name in "ac"]
    taken = orders.updated(rows["b"], rows["b"] | {"email": "d"}, place=100)
    given = orders.updated(rows["d"], rows["d"] | {"email": None}, place=100)
    orders.land(*left, taken, given)
    yield
    orders.send(("c", {"id": 9, "email": "a"}, {}))
    yield

    def told() -> tuple[Any, ...]:
        columns = ("id", "email", "opened_by", "closed_by", "next_key")
        return sorted(orders.versions(*columns)), sorted(orders.now("id", "email")), orders.outcomes(), orders.untold()

    ended = told()
    assert ended == (
        [
            (0, "a", "insert", "key_change", None), (1, "b", "insert", "key_change", '{"email":"d"}'),
            (1, "d", "key_change", None, None), (2, "c", "before", "key_change", None),
            (3, "d", "insert", "update", None), (9, "a", "insert", None, None),
        ],
        [(1, "d"), (9, "a")],
        {"opened": 6, "closed_only": 1, "collapsed": 1},
        [],
    )  # fmt: skip
    problems = [row["problem"] for row in rows_of(orders.at("changes")) if row["problem"]]
    assert problems == ["key_not_told"] * 3
    yield FULL_REFRESH
    assert told() == ended


@beside_others("accounting")
def test_a_column_of_the_key_that_rows_leave_out_is_the_key_s_where_the_rest_of_it_changes(orders: Orders) -> Story:
    orders.declare("key=['tenant', 'id']", "key=['tenant', 'email'], before_is_whole=true")
    rows = [{"tenant": 1, "id": 1, "email": email, "state": "new"} for email in "ab"]
    orders.land(orders.record("c", rows[0]), orders.updated(rows[0], rows[1], "tenant"))
    yield

    columns = ("tenant", "email", "opened_by", "closed_by", "previous_key", "next_key")
    one, other = (f'{{"email":"{email}","tenant":1}}' for email in "ab")
    assert orders.versions(*columns) == [
        (1, "a", "insert", "key_change", None, other), (1, "b", "key_change", None, one, None),
    ]  # fmt: skip
    assert orders.untold() == []


@beside_others()
def test_a_row_that_comes_to_another_key_by_one_update_keeps_what_that_leaves_out(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['k']")
    orders.declare("'x': 'string'", "'x': {'type': 'string', 'null_is_unchanged': true}")
    rows = [{"id": number, "k": f"A{number}", "x": str(number)} for number in range(8)]
    orders.send(*(("c", row, {}) for row in rows))
    yield
    # With REPLICA IDENTITY USING INDEX `before` has the columns of the index alone.
    moved = [
        orders.updated({"id": None, "k": row["k"], "x": None}, row | {"k": f"B{row['id']}", "x": None}) for row in rows
    ]
    orders.land(*(record | {"key": None} for record in moved))
    yield

    found = [(row["k"], row["x"], row["unresolved_columns"]) for row in rows_of(orders.at("history"))]
    assert sorted(found) == sorted((f"{key}{number}", str(number), []) for key in "AB" for number in range(8))


def key_named(orders: Orders, name: str) -> Story:
    """Tell of changes whose key column has a name."""
    changes = [("c", 1, {}), ("c", 2, {}), ("d", 1, {}), ("d", 2, {"newkey": 3}), ("c", 3, {"oldkey": 2})]
    records = [
        orders.record(op, {"id": key, "state": "new"}, {f"__debezium.{link}": {name: of} for link, of in links.items()})
        for op, key, links in changes
    ]
    for record in records:
        value, key = (json.loads(record[part].replace('"id"', f'"{name}"')) for part in ("value", "key"))
        schema = {"type": "struct", "fields": [{"field": name, "type": "int64", "optional": False}]}
        key_value = {"schema": schema, "payload": key} if name == "payload" and not record["headers"] else key
        record |= {"value": json.dumps(value), "key": json.dumps(key_value)}
    orders.land(*records)
    yield
    assert orders.versions(name, "closed_by", "previous_key", "next_key") == [
        (1, "delete", None, None), (2, "key_change", None, f'{{"{name}":3}}'), (3, None, f'{{"{name}":2}}', None),
    ]  # fmt: skip


@beside_others()
def test_a_trace_tells_what_changes_of_other_rows_did_to_a_key(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['id'], before_is_whole=true")
    orders.declare("_changes'", "_changes', snapshot_deletes='close'", "models/gold/history/{}_history.sql")
    moved, left = ({"id": key, "state": "new"} for key in (7, 3))
    orders.land(orders.updated(moved, moved | {"id": 8}))
    orders.send(*(("c", {"id": key, "state": "new"}, {}) for key in (1, 2, 3)), ("d", {"id": 3}, {}))
    orders.land(orders.updated(left, left | {"id": 4}))
    reads = [orders.record("r", {"id": key, "state": "read"}, place=90) for key in (8, 4, 2)]
    reads[-1]["value"] = reads[-1]["value"].replace('"snapshot": "true"', '"snapshot": "last"')
    again, truncate, at_last = (orders.record(op, {"id": 1, "state": "new"}) for op in "ctc")
    truncate |= {"key": None, "value": json.dumps(json.loads(truncate["value"]) | {"after": None})}
    orders.land(*reads, again, truncate, at_last)
    yield

    name, topic = f"{orders.source}__public__orders", f"{orders.source}.public.orders[0]"
    of_keys = re.split(rf"\n(?={name} )", "\n".join(orders.traced()))
    told = {lines[: lines.index("}")].rpartition(" ")[2]: lines.splitlines() for lines in of_keys}
    assert told["1"] == [
        f'{name} {{"id": 1}}: 5 changes, 3 versions',
        f"2024-01-01 00:00:00.020000  create  {topic}@2  transaction 20",
        "    state=new",
        "    version from 2024-01-01 00:00:00.020000 (insert), until 2024-01-01 00:00:00.090000, closed by snapshot",
        "    sign: missed_deletes: keys that a complete later snapshot lacks: deletes untold, unless it was filtered"
        " (R16)",
        f"2024-01-01 00:00:00.090000  read  {topic}@9",
        "    closed the version before it",
        # A row that comes after such an end is told whole.
        f"2024-01-01 00:00:00.100000  create  {topic}@10  transaction 100",
        "    state=new",
        "    version from 2024-01-01 00:00:00.100000 (insert), until 2024-01-01 00:00:00.110000, closed by truncate",
        f"2024-01-01 00:00:00.110000  truncate  {topic}@11  transaction 110",
        "    closed the version before it",
        f"2024-01-01 00:00:00.120000  create  {topic}@12  transaction 120",
        "    state=new",
        "    version from 2024-01-01 00:00:00.120000 (insert), is current",
    ]
    # A key that a row has left, and no event is of.
    moment = "2024-01-01 00:00:00.010000"
    found = (
        f"    version from {moment} (found a state that no event had told (R19)), until {moment},"
        ' closed by key_change into {"id": 8}'
    )
    of_left = told["7"]
    assert of_left[0] == f'{name} {{"id": 7}}: 1 change, 1 version'
    assert of_left.index(found) < of_left.index("    closed the version before it")
    assert "    ended no version (R9, R14)" in told["3"]


@beside_others()
def test_a_key_can_be_named_as_what_stands_beside_a_schema(orders: Orders) -> Story:
    yield from key_named(orders, "payload")


@beside_others()
def test_a_key_can_be_named_so_in_other_letters(orders: Orders) -> Story:
    yield from key_named(orders, "Payload")


@beside_others()
def test_a_change_of_key_names_both_digit_by_digit(orders: Orders) -> Story:
    orders.land(orders.record("c", {"id": 1, "state": "new"}))
    orders.declare("'id': 'bigint'", "'id': 'decimal(19,2)'")
    keys = ["12345678901234567.89", "12345678901234567.88"]
    links = [{"schema": {"type": "struct"}, "payload": {"id": f"@{number}"}} for number in (0, 1)]
    records = [
        orders.record("c", {"id": "@0", "state": "new"}),
        orders.record("d", {"id": "@0"}, {"__debezium.newkey": links[1]}),
        orders.record("c", {"id": "@1", "state": "new"}, {"__debezium.oldkey": links[0]}),
    ]
    for number, key in enumerate(keys):
        for part in [*records, *(header for record in records for header in record["headers"])]:
            part |= {name: text.replace(f'"@{number}"', key) for name, text in part.items() if isinstance(text, str)}
    orders.land(*records)
    yield
    one, other = ([Decimal(key), f'{{"id":{key}}}'] for key in keys)
    assert orders.versions("id", "previous_key", "next_key")[1:] == [(one[0], None, other[1]), (other[0], one[1], None)]


@beside_others()
def test_names_that_spark_takes_for_one_are_told_apart(orders: Orders) -> Story:
    state = {"b": 1, "a": 2.0}
    orders.land(orders.record("c", {"id": 1, "state": state}))
    yield
    orders.land(
        orders.record("u", {"id": 1, "state": state, "\u0130D": None}), orders.record("c", {"id": 2, "state": "new"})
    )
    deletes = [orders.record("d", {"id": key}) for key in (1, 2)]
    for record in deletes:
        record["value"] = json.dumps(json.loads(record["value"]) | {"before": None})
    deletes[1]["key"] = json.dumps({"schema": {"type": "struct"}, "payload": json.loads(deletes[1]["key"])})
    orders.land(*deletes)
    yield
    assert orders.versions("id", "state", "closed_by") == [(1, '{"a":2,"b":1}', "delete"), (2, "new", "delete")]


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
    "parts": ("struct<`a b`:int,`c,d`:array<struct<`e;`:int>>>", ({"type": "string"}, '{"a b":1,"c,d":[{"e;":2}]}'),
              {"a b": 1, "c,d": [{"e;": 2}]}),
    "gr\u00f6\u00dfe": ("decimal(38,18)", ({"type": "double"}, 12345.5), Decimal("12345.5")),
}  # fmt: skip


@beside_others()
def test_a_value_that_its_type_would_round_or_guess_is_kept_as_text(orders: Orders) -> Story:
    orders.land(orders.record("c", {"id": 1, "state": "new"}))
    columns = ", ".join(f"{name!r}: {kind!r}" for name, (kind, _, _) in EXACT.items())
    orders.declare("'state': 'string'", f"'state': 'string', {columns}")
    row = {"id": 2, "state": "new"} | {name: value for name, (_, (_, value), _) in EXACT.items()}
    schemas = {name: schema for name, (_, (schema, _), _) in EXACT.items() if schema is not None}
    described = orders.described("c", row, {"state": {}} | schemas)
    plain = orders.record("c", {"id": 3, "state": "new", "gr\u00f6\u00dfe": 0.5})
    long = "1.2345678901234567890e5"
    orders.land(described, plain | {"value": plain["value"].replace("0.5", long)})
    yield

    [_, (*values, exact), (*_, longest, _)] = orders.versions(*EXACT, "exact_values")
    assert values == [held for *_, held in EXACT.values()]
    assert dict(exact) == {name: str(value) for name, (_, (_, value), held) in EXACT.items() if held is None}
    assert longest == Decimal(long)


@beside_others()
def test_a_column_that_no_model_declares_has_a_type_that_holds_all_that_came(orders: Orders) -> Story:
    orders.land(orders.record("c", {"id": 0, "state": "new"}))
    named = "_changes', column_names={'opened_by': 'opened by'}"
    orders.declare("_changes'", named, "models/gold/history/{}_history.sql")
    for number in (0, 1):
        columns = {name: case[:2][number] for name, case in UNDECLARED.items()}
        row = {"id": 1, "state": str(number)} | {name: value for name, (_, value) in columns.items()}
        schemas = {name: schema for name, (schema, _) in columns.items() if schema is not None}
        orders.land(orders.described("u", row, {"state": {}} | schemas))
        yield

    types = dict(orders.spark.table(f"gold.{orders.source}__public__orders_history").dtypes)
    assert {name: types[name] for name in UNDECLARED} == {name: case[2] for name, case in UNDECLARED.items()}
    assert orders.versions(*UNDECLARED)[1:] == list(zip(*(case[3] for case in UNDECLARED.values()), strict=True))


@beside_others()
def test_what_other_encodings_say_of_a_column_is_said_of_its_past_too(orders: Orders) -> Story:
    as_json = {"state": {"name": "io.debezium.data.Json"}}
    orders.land(
        orders.described("c", {"id": 2, "state": "AQ==", "n": "AQ=="}, {"state": _decimal(10, 2), "n": _decimal(9, 0)}),
        orders.described("c", {"id": 1, "state": '{"b": "2", "a": "1"}', "n": "one"}, as_json | {"n": {}}),
        orders.record("c", {"id": 3, "state": "new", "n": "1234"}),
    )
    orders.declare("'n': 'decimal(9,0)'", "'n': 'string'")
    yield
    orders.land(orders.described("u", {"id": 1, "state": {"a": "1", "b": "2"}}, {"state": {"type": "map"}}))
    yield
    assert orders.versions("id", "state", "n") == [
        (2, "0.01", "1"), (1, '{"a":"1","b":"2"}', "one"), (3, "new", "1234"),
    ]  # fmt: skip


@beside_others("current")
def test_digits_without_a_schema_count_the_time_that_schemas_tell_of_other_records(orders: Orders) -> Story:
    eight, seconds = 28_800_000_000, {"id": {"type": "int32", "name": "io.debezium.time.Time"}}
    orders.send(("c", {"id": eight, "state": "new"}, {}))
    orders.declare("'id': 'bigint'", "'id': 'string'")
    yield
    assert orders.versions("id", "state") == [(str(eight), "new")]

    orders.land(
        orders.described("u", {"id": eight, "state": "paid"}, {"id": _MICROTIME, "state": {}}),
        orders.record("u", {"id": eight, "state": "sent"}),
    )
    yield
    assert orders.versions("id", "state") == [("08:00:00.000000", state) for state in ("new", "paid", "sent")]
    assert orders.now("id", "state") == [("08:00:00.000000", "sent")]

    orders.land(orders.described("c", {"id": 3_600_000, "state": "new"}, seconds | {"state": {}}))
    yield
    # Two units: nothing tells which of them the others have.
    versions = [(str(eight), "new"), ("08:00:00.000000", "paid"), (str(eight), "sent"), ("01:00:00.000000", "new")]
    assert orders.versions("id", "state") == versions
    yield FULL_REFRESH
    assert orders.versions("id", "state") == versions


@beside_others()
def test_a_column_that_is_declared_later_has_what_records_told_before(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}), ("u", {"id": 1, "state": "paid"}, {}))
    yield

    orders.declare("'state': 'string'", "'state': 'string', 'told': {'type': 'string', 'field': 'state'}")
    yield
    assert orders.versions("state", "told") == [("new", "new"), ("paid", "paid")]


@beside_others("accounting")
def test_keys_go_on_from_their_open_versions_once_their_changes_carry_a_new_column(orders: Orders) -> Story:
    """Of a table that got a column, or has values left out, only the keys that lack one are read from their start."""
    orders.send(*(("c", {"id": number, "state": "new"}, {}) for number in (1, 2)))
    orders.declare("key=['id']", "key=['id'], before_is_whole=true")
    yield

    def change(number: int, *states: tuple[str, str | None]) -> dict[str, Any]:
        before, after = ({"id": number, "state": state, "note": note} for state, note in states)
        return orders.updated(before, after)

    orders.land(orders.updated({"id": 1, "state": "new"}, {"id": 1, "state": "paid", "note": "a"}))
    yield
    assert orders.refolded() == 1, "nothing had told of the note"

    orders.land(change(1, ("paid", "a"), ("sent", "a")), change(2, ("new", None), ("paid", "b")))
    yield
    assert orders.refolded() == 1, "of the other alone"

    orders.land(change(1, ("sent", "a"), ("back", PLACEHOLDER)), change(2, ("paid", "b"), ("paid", "c")))
    yield
    assert orders.refolded() == 0
    orders.land(change(1, ("back", "a"), ("lost", PLACEHOLDER)), change(2, ("another", "c"), ("sent", None)))
    yield
    assert orders.refolded() == 1, "what tells the value that was left out is an older change"

    for is_again in (False, True):
        if is_again:
            yield FULL_REFRESH
        versions = orders.versions("id", "state", "note", "unresolved_columns")
        assert [version[:3] for version in versions] == [
            (1, "new", None), (2, "new", None), (1, "paid", "a"), (1, "sent", "a"), (2, "paid", "b"), (1, "back", "a"),
            (2, "paid", "c"), (1, "lost", "a"), (2, "sent", None),
        ]  # fmt: skip
        assert not any(version[3] for version in versions)
        assert orders.outcomes() == {"opened": 9}
        assert orders.outcomes("sign").get("broken_chains") == 1, "the other row was another one"


@beside_others("accounting")
def test_keys_go_on_from_their_open_versions_once_a_column_was_dropped(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['id'], before_is_whole=true")
    orders.send(*(("c", {"id": number, "state": "new", "note": "a"}, {}) for number in (1, 2)))
    yield

    def change(number: int, *states: str, **more: str) -> dict[str, Any]:
        before, after = ({"id": number, "state": state} | more for state in states)
        return orders.updated(before, after)

    orders.land(change(1, "new", "paid"))
    yield
    assert orders.refolded() == 0
    orders.land(change(1, "paid", "sent"), change(2, "lost", "paid"))
    yield
    assert orders.refolded() == 0, "what the change before lacked, the news lack too"
    orders.land(change(1, "sent", "back"), change(2, "paid", "sent", note="b"))
    yield
    assert orders.refolded() == 1, "nothing had told of the note"

    for is_again in (False, True):
        if is_again:
            yield FULL_REFRESH
        assert orders.versions("id", "state", "note") == [
            (1, "new", "a"), (2, "new", "a"), (1, "paid", None), (1, "sent", None), (2, "paid", None),
            (1, "back", None), (2, "sent", "b"),
        ]  # fmt: skip
        assert orders.outcomes() == {"opened": 7}
        assert orders.outcomes("sign") == {"broken_chains": 1}


@beside_others()
def test_keys_go_on_from_their_open_versions_with_values_that_were_left_out(orders: Orders) -> Story:
    orders.send(*(("c", {"id": number, "state": "new"}, {}) for number in (1, 2)))
    yield
    orders.send(("u", {"id": 1, "state": PLACEHOLDER, "note": "a"}, {}))
    yield
    assert orders.refolded() == 1, "a note could have been left out"
    orders.send(
        ("u", {"id": 1, "state": PLACEHOLDER, "note": "b"}, {}),
        ("u", {"id": 2, "state": "paid", "note": PLACEHOLDER}, {}),
    )
    yield
    assert orders.refolded() == 1, "nothing had told of the other's note"
    orders.send(
        ("u", {"id": 1, "state": "sent", "note": PLACEHOLDER}, {}),
        ("u", {"id": 2, "state": PLACEHOLDER, "note": PLACEHOLDER}, {}),
    )
    yield
    assert orders.refolded() == 0
    orders.send(("u", {"id": 2, "state": PLACEHOLDER, "note": "c"}, {}))
    yield
    assert orders.refolded() == 0

    for is_again in (False, True):
        if is_again:
            yield FULL_REFRESH
        assert orders.versions("id", "state", "note", "unresolved_columns") == [
            (1, "new", None, []), (2, "new", None, []), (1, "new", "a", []), (1, "new", "b", []),
            (2, "paid", None, ["note"]), (1, "sent", "b", []), (2, "paid", "c", []),
        ]  # fmt: skip


@beside_others("accounting", "current")
def test_keys_go_on_from_their_open_versions_unless_a_change_of_key_names_them(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['email'], before_is_whole=true")
    rows: dict[str, dict[str, Any]] = {
        name: {"id": number, "email": name, "state": "new"} for number, name in enumerate("abcd")
    }
    orders.send(*(("c", row, {}) for row in rows.values()))
    yield

    def update(name: str, **values: Any) -> dict[str, Any]:
        before, after = rows[name], rows[name] | values
        rows[name] = {column: before[column] if value == PLACEHOLDER else value for column, value in after.items()}
        return orders.updated(before, after)

    orders.land(update("a", email="z", state=PLACEHOLDER), update("b", state="paid"))
    yield
    assert orders.refolded() == 2, "the key that the row came to and the one that it left"
    orders.land(update("b", state="sent"))
    yield
    assert orders.refolded() == 0
    orders.land(update("a", state="paid"), update("b", id=7), update("c", email=None))
    yield
    assert orders.refolded() == 3, "that row's two keys, and one that a row has left for none"
    orders.send(("c", {"id": 9, "email": "e", "state": "new"}, {}))
    orders.land(update("b", state="done"), update("d", state="paid"))
    yield
    assert orders.refolded() == 0

    def told() -> tuple[Any, ...]:
        columns = ("email", "state", "opened_by", "closed_by", "previous_key", "next_key", "version_id")
        return sorted(orders.versions(*columns)), sorted(orders.now("email", "state")), orders.outcomes()

    ended = told()
    assert [version[:4] for version in ended[0]] == [
        ("a", "new", "insert", "key_change"), ("b", "done", "update", None), ("b", "new", "insert", "update"),
        ("b", "paid", "update", "update"), ("b", "sent", "update", "update"), ("b", "sent", "update", "update"),
        ("c", "new", "insert", "key_change"), ("d", "new", "insert", "update"), ("d", "paid", "update", None),
        ("e", "new", "insert", None), ("z", "new", "key_change", "update"), ("z", "paid", "update", None),
    ]  # fmt: skip
    assert ended[1] == [("b", "done"), ("d", "paid"), ("e", "new"), ("z", "paid")]
    assert orders.untold() == []
    yield FULL_REFRESH
    assert told() == ended


@beside_others()
def test_a_column_can_be_declared_before_any_record_has_it(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    yield

    orders.declare("'state': 'string'", "'state': 'string', 'seen': 'timestamp'")
    orders.declare("_changes'", "_changes', ignore=['seen']", "models/gold/history/{}_history.sql")
    yield
    assert orders.versions("state", "seen") == [("new", None)]

    orders.send(("u", {"id": 1, "state": "paid", "seen": "2024-02-29T00:00:00Z"}, {}))
    yield
    assert [(state, seen and seen.year) for state, seen in orders.versions("state", "seen")] == [
        ("new", None), ("paid", 2024)
    ]  # fmt: skip


@beside_others()
def test_a_snapshot_closes_nothing_while_one_of_its_reads_is_not_understood(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}), ("c", {"id": 2, "state": "new"}, {}))
    orders.declare("_changes'", "_changes', snapshot_deletes='close'", "models/gold/history/{}_history.sql")
    yield
    broken, last = (orders.record("r", {"id": key, "state": "new"}, place=50) for key in (1, 3))
    value = json.loads(broken["value"])
    broken["value"] = json.dumps(value | {"after": json.dumps(value["after"])})
    last["value"] = last["value"].replace('"snapshot": "true"', '"snapshot": "last"')
    orders.land(broken, last)
    yield
    assert orders.versions("id", "closed_by") == [(1, None), (2, None), (3, None)]


@beside_others("accounting", "current", apart=True)
def test_a_snapshot_closes_nothing_while_one_of_its_reads_can_have_been_lost_on_the_way(orders: Orders) -> Story:
    quarantine, topic = orders.places.table("bronze", "quarantine"), f"{orders.source}.public.orders"

    def last_read(key: int, place: int) -> dict[str, Any]:
        record = orders.record("r", {"id": key, "state": "new"}, place=place)
        return record | {"value": record["value"].replace('"snapshot": "true"', '"snapshot": "last"')}

    def lose() -> Gap:
        orders.sent += 1
        gap = Gap(topic, 0, "life", orders.sent, orders.sent + 1, 1, "skipped")
        store_gaps(orders.spark, orders.places, "default", "a run", [gap])
        return gap

    orders.send(*(("c", {"id": key, "state": "new"}, {}) for key in (1, 2)))
    orders.declare("_changes'", "_changes', snapshot_deletes='close'", "models/gold/history/{}_history.sql")
    yield
    held = orders.record("r", {"id": 1, "state": "new"}, place=50)
    value = json.loads(held["value"])
    orders.land(held | {"value": json.dumps(value | {"after": None})}, last_read(3, 50))
    yield
    assert orders.versions("id", "closed_by") == [(1, None), (2, None), (3, None)]

    # What a run that was killed had closed is open, now that a read can have been lost once more.
    with orders.killed():
        orders.spark.sql(f"update delta.`{quarantine}` set released_in = 0 where topic = '{topic}'")
        yield
        assert orders.living() == {3: "new"}
    orders.spark.sql(f"update delta.`{quarantine}` set released_in = null where topic = '{topic}'")
    yield
    assert orders.versions("id", "closed_by") == [(1, None), (2, None), (3, None)]
    assert orders.living() == {1: "new", 2: "new", 3: "new"}

    # What is no news of the table says otherwise of its snapshot.
    orders.spark.sql(f"update delta.`{quarantine}` set released_in = 0 where topic = '{topic}'")
    lost = lose()
    orders.land(last_read(4, 90))
    yield
    assert orders.versions("id", "closed_by") == [(1, "snapshot"), (2, "snapshot"), (3, None), (4, None)]

    # No read was lost in front of a change that was streamed before it.
    put_parts(orders.spark, orders.places, "default", {lost: []})
    yield
    assert orders.living() == {4: "new"}
    lose()
    orders.land(orders.record("u", {"id": 4, "state": "paid"}, place=95), last_read(5, 100))
    # One between reads was, though what is streamed behind them was written before them.
    inserts = [orders.record("c", {"id": key, "state": "new"}, place=place) for key, place in ((6, 110), (7, 120))]
    read = orders.record("r", {"id": 7, "state": "paid"}, place=200)
    lose()
    late = last_read(5, 200), orders.record("u", {"id": 7, "state": "paid"}, place=180, sequence='["170","180"]')
    orders.land(*inserts, read, *late)
    yield
    assert orders.versions("id", "closed_by")[2:6] == [(3, "snapshot"), (4, "update"), (4, "snapshot"), (5, None)]
    assert orders.living() == {5: "new", 6: "new", 7: "paid"}
    assert orders.untold() == []

    # The log is looked through for that only where something of it, or of what isn't read, is new.
    asked = orders.asked_of_doubts()
    assert asked > 0
    yield
    assert orders.asked_of_doubts() == asked
    put_parts(orders.spark, orders.places, "default", {lose(): []})
    lose()
    yield
    assert orders.asked_of_doubts() > asked
    assert orders.living() == {5: "new", 6: "new", 7: "paid"}


@beside_others()
def test_a_snapshot_closes_nothing_while_the_only_read_of_a_partition_can_have_been_lost(orders: Orders) -> Story:
    orders.declare("_changes'", "_changes', snapshot_deletes='close'", "models/gold/history/{}_history.sql")
    first, second = ({"id": key, "state": "new"} for key in (1, 2))
    orders.land(orders.record("c", first, place=450), orders.record("c", second, partition=1, place=455))
    yield
    orders.sent += 1
    gap = Gap(f"{orders.source}.public.orders", 1, "life", orders.sent, orders.sent + 1, 1, "skipped")
    store_gaps(orders.spark, orders.places, "default", "a run", [gap])
    read = orders.record("r", first, place=500)
    read["value"] = read["value"].replace('"snapshot": "true"', '"snapshot": "last"')
    # It was written before the reads, and streamed behind them.
    backlog = orders.record("u", second | {"state": "paid"}, partition=1, place=470)
    backlog["value"] = json.dumps(json.loads(backlog["value"]) | {"ts_ms": 600})
    orders.land(read, backlog)
    yield
    assert orders.versions("id", "closed_by") == [(1, None), (2, "update"), (2, None)]


@beside_others()
def test_a_read_that_comes_again_counts_for_no_change_where_it_doesn_t_count(orders: Orders) -> Story:
    orders.land(_read_at_100(orders, 0))
    yield
    orders.land(_read_at_100(orders, 1))
    yield
    orders.land(_without_commit(orders, "before", 1, 95))
    yield
    states = [("before", "snapshot"), ("read", None)]
    assert sorted(orders.versions("state", "closed_by")) == states
    orders.land(_read_at_100(orders, 2), _without_commit(orders, "then", 2, 96))
    yield
    increments = sorted(orders.versions("state", "closed_by", "version_id"))
    assert [row[:2] for row in increments] == [("before", "update"), ("read", None), ("then", "snapshot")]
    yield FULL_REFRESH
    assert sorted(orders.versions("state", "closed_by", "version_id")) == increments


@beside_others()
def test_a_read_that_counts_elsewhere_from_then_on_leaves_the_changes_behind_it(orders: Orders) -> Story:
    orders.land(_read_at_100(orders, 1), _without_commit(orders, "before", 1, 95))
    yield
    assert orders.versions("state", "closed_by") == [("read", "update"), ("before", None)]
    orders.land(_read_at_100(orders, 0))
    yield
    increments = orders.versions("state", "closed_by", "version_id")
    assert [row[:2] for row in increments] == [("before", "snapshot"), ("read", None)]
    yield FULL_REFRESH
    assert orders.versions("state", "closed_by", "version_id") == increments


def _read_at_100(orders: Orders, partition: int) -> dict[str, Any]:
    return orders.record("r", {"id": 1, "state": "read"}, partition=partition, place=100)


def _without_commit(orders: Orders, state: str, partition: int, place: int) -> dict[str, Any]:
    return orders.record("u", {"id": 1, "state": state}, None, partition, place, f'[null,"{place}"]')


@beside_others("current")
def test_deliveries_that_tell_different_commits_are_one_change(orders: Orders) -> Story:
    def change(state: str, place: int, commit: int) -> dict[str, Any]:
        return orders.record("u", {"id": 1, "state": state}, None, 0, place, f'["{commit}","{place}"]')

    orders.land(change("new", 90, 80), change("paid", 96, 94))
    yield
    orders.land(change("paid", 96, 95))
    yield
    orders.land(change("sent", 200, 190))
    yield

    def told() -> list[Any]:
        log = rows_of(orders.at("changes"), "change_id", "position", "offset")
        return [sorted(orders.versions("state", "version_id", "offset")), sorted(tuple(row.values()) for row in log)]

    increments = told()
    assert [len(rows) for rows in increments] == [3, 3]
    yield FULL_REFRESH
    assert told() == increments


@beside_others("current")
def test_a_read_that_comes_again_with_a_later_commit_and_time_is_one(orders: Orders) -> Story:
    first = _read_at_100(orders, 0)
    orders.land(first)
    yield
    orders.land(orders.record("u", {"id": 1, "state": "paid"}, place=110))
    yield
    again = orders.record("r", {"id": 1, "state": "read"}, place=100, sequence='["120","100"]')
    value = json.loads(again["value"])
    value["source"]["ts_ms"] += 100
    orders.land(again | {"value": json.dumps(value)})
    yield
    assert orders.versions("state", "closed_by") == [("read", "update"), ("paid", None)]


@beside_others("current")
def test_a_read_without_a_place_follows_what_counts_before_it(orders: Orders) -> Story:
    def of_mysql(op: str, state: str, place: int | None, partition: int = 1) -> dict[str, Any]:
        record = orders.record(op, {"id": 1, "state": state}, None, partition)
        value = json.loads(record["value"])
        value["source"] |= {
            "connector": "mysql",
            "lsn": None,
            "txId": None,
            "sequence": None,
            "ts_ms": 1_704_067_200_000,
        }
        if place is not None:
            value["source"] |= {"file": "binlog.000001", "pos": place, "row": 0}
        return record | {"value": json.dumps(value)}

    orders.land(of_mysql("c", "new", 10), of_mysql("u", "paid", 90), of_mysql("r", "read", None))
    yield
    orders.land(of_mysql("u", "paid", 90, partition=0))
    yield
    orders.land(of_mysql("u", "sent", 120))
    yield

    def told() -> list[Any]:
        return orders.versions("position", "state", "version_id", "offset")

    increments = sorted(told())
    assert [row[1] for row in increments] == ["new", "read", "paid", "sent"]
    yield FULL_REFRESH
    assert sorted(told()) == increments


@beside_others()
def test_a_snapshot_is_not_in_doubt_for_what_an_earlier_life_of_its_topic_has_lost(orders: Orders) -> Story:
    orders.declare("_changes'", "_changes', snapshot_deletes='close'", "models/gold/history/{}_history.sql")
    topic = f"{orders.source}.public.orders"

    def reads(place: int, *keys: int) -> list[dict[str, Any]]:
        records = [orders.record("r", {"id": key, "state": "new"}, place=place) for key in keys]
        records[-1]["value"] = records[-1]["value"].replace('"snapshot": "true"', '"snapshot": "last"')
        return [record | {"offset": offset} for offset, record in enumerate(records)]

    def ends() -> dict[int, str | None]:
        return dict(orders.versions("id", "closed_by"))

    orders.land(orders.record("c", {"id": 9, "state": "new"}, partition=1, place=50), *reads(100, 1, 2, 3))
    yield
    assert ends() == {9: "snapshot", 1: None, 2: None, 3: None}

    gaps = [Gap(topic, number, "first", end, end, None, "topic_made_anew") for number, end in ((0, 3), (1, 2))]
    store_gaps(orders.spark, orders.places, "default", "a run", gaps)
    for life in ("first", "second"):
        known = Offsets(topic, 0, life, 0, 5, looked_at=datetime.now(UTC))
        store(orders.spark, orders.places, "default", "a cluster", {(topic, 0): known})
        yield
        assert ends() == {9: None, 1: None, 2: None, 3: None}, "one of the other partition's can have been read"

    orders.land(*reads(200, 1, 3, 4, 5, 6))
    yield
    assert ends() == {9: "snapshot", 1: None, 2: "snapshot", 3: None, 4: None, 5: None, 6: None}


@beside_others()
def test_a_snapshot_that_tells_a_commit_alone_closes_nothing_while_one_of_its_reads_can_have_been_lost(
    orders: Orders,
) -> Story:
    orders.declare("_changes'", "_changes', snapshot_deletes='close'", "models/gold/history/{}_history.sql")

    def of_server(op: str, key: int, commit: str, change: str | None) -> dict[str, Any]:
        record = orders.record(op, {"id": key, "state": "new"})
        value = json.loads(record["value"])
        value["source"] |= {
            "connector": "sqlserver", "lsn": None, "sequence": None, "txId": None, "commit_lsn": commit,
            "change_lsn": change, "event_serial_no": change and 1, "snapshot": "false" if change else "last",
        }  # fmt: skip
        return record | {"value": json.dumps(value)}

    orders.land(
        of_server("c", 1, "00000027:00000010:0003", "00000027:00000010:0002"),
        of_server("c", 2, "00000027:00000020:0003", "00000027:00000020:0002"),
    )
    yield
    orders.sent += 1
    gap = Gap(f"{orders.source}.public.orders", 0, "life", orders.sent, orders.sent + 1, 1, "skipped")
    store_gaps(orders.spark, orders.places, "default", "a run", [gap])
    orders.land(of_server("r", 2, "00000027:00000020:0003", None))
    yield
    assert orders.versions("id", "closed_by")[0] == (1, None)
    assert {row["id"] for row in rows_of(orders.at("history")) if row["is_current"]} == {1, 2}


@beside_others()
def test_versions_that_open_at_one_position_have_ids_of_their_own_in_whatever_builds_they_came(orders: Orders) -> Story:
    def of_oracle(op: str, state: str, scn: str, transaction: str) -> dict[str, Any]:
        record = orders.record(op, {"id": 1, "state": state})
        value = json.loads(record["value"])
        value["source"] |= {
            "connector": "oracle", "lsn": None, "sequence": None, "scn": scn, "commit_scn": scn, "txId": transaction,
        }  # fmt: skip
        return record | {"value": json.dumps(value)}

    orders.land(
        of_oracle("c", "new", "100", "t1"), of_oracle("u", "paid", "200", "t2"), of_oracle("d", "", "200", "t3"),
        of_oracle("c", "again", "200", "t4"),
    )  # fmt: skip
    yield
    orders.land(of_oracle("u", "sent", "200", "t5"))
    yield
    orders.land(of_oracle("u", "lost", "100", "t0"))
    yield
    ids = [version for [version] in orders.versions("version_id")]
    assert len(ids) == len(set(ids))
    built = sorted(ids)
    yield FULL_REFRESH
    assert sorted(version for [version] in orders.versions("version_id")) == built


@beside_others("accounting")
def test_a_snapshot_is_complete_with_reads_of_rows_that_have_no_key(orders: Orders) -> Story:
    orders.declare("key=['id']", "key=['email']")
    orders.declare("_changes'", "_changes', snapshot_deletes='close'", "models/gold/history/{}_history.sql")
    orders.send(*(("c", {"id": number, "email": email}, {}) for number, email in ((1, "a"), (2, "b"))))
    yield
    first, last = (orders.record("r", row, place=50) for row in ({"id": 1, "email": "a"}, {"id": 3, "email": None}))
    last["value"] = last["value"].replace('"snapshot": "true"', '"snapshot": "last"')
    orders.land(first, last)
    yield
    assert orders.versions("email", "closed_by") == [("a", None), ("b", "snapshot")]
    assert (orders.outcomes(), orders.untold()) == ({"opened": 2, "closed_only": 1, "quarantined": 1}, [])

    # What a later one lacks the column of can be any row.
    later = [orders.record("r", row, place=90) for row in ({"id": 3}, {"id": 4, "email": "c"})]
    later[1]["value"] = later[1]["value"].replace('"snapshot": "true"', '"snapshot": "last"')
    orders.land(*later)
    yield
    assert orders.versions("email", "closed_by") == [("a", None), ("b", "snapshot"), ("c", None)]


@beside_others(kinds=("changes",))
def test_a_read_that_comes_again_behind_a_new_column_is_the_same_read(orders: Orders) -> Story:
    orders.send(("r", {"id": 1, "state": "new"}, {}))
    yield
    orders.send(("u", {"id": 1, "state": "paid", "note": "late"}, {}), ("r", {"id": 1, "state": "new"}, {}))
    yield

    log = rows_of(orders.at("changes"))
    assert sorted((row["op"], row["offset"]) for row in log) == [("r", 1), ("u", 2)]


@beside_others("current", apart=True)
def test_a_current_state_follows_a_history_that_was_made_anew_without_it(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    yield
    name = f"{orders.source}__public__orders"
    orders.spark.sql(f"update silver.{name}_current set state = 'of an older version of Tidemark'")
    orders.build("--full-refresh", only="{}__public__orders_history")

    yield
    assert orders.living() == {1: "new"}


@beside_others("current", apart=True)
def test_what_stands_in_the_place_of_tables_makes_way_for_them(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    yield
    name = f"{orders.source}__public__orders"
    tables = [f"silver.{name}_changes", f"gold.{name}_history", f"silver.{name}_current"]
    states = [orders.spark.table(table).schema for table in tables]

    for arguments in (["--empty"], [], ["--full-refresh"]):
        log, history, current = tables
        for table, other in {
            log: f"view {log} as", current: f"view {current} as", history: f"table {history} using parquet as",
        }.items():  # fmt: skip
            orders.spark.sql(f"drop table {table}")
            orders.spark.sql(f"create {other} select 1 as one")
        orders.build(*arguments)

        assert [orders.spark.table(table).schema for table in tables] == states
        assert orders.living() == {1: "new"}
    # What would have been removed with its files has another name.
    asides = orders.spark.sql(f"show tables in gold like '{name}_history_aside_*'").collect()
    assert [orders.spark.table(f"gold.{one['tableName']}").first() for one in asides] == [(1,)] * 3


@beside_others("accounting", apart=True)
def test_an_account_follows_its_history_to_another_name(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    yield
    name = f"{orders.source}__public__orders"
    for file in [*orders.places.project.glob(f"models/**/{name}_*")]:
        file.write_text(file.read_text().replace(f"{name}_history", f"{name}_versions"))
        file.rename(file.with_name(file.name.replace("_history", "_versions")))
    orders.send(("u", {"id": 1, "state": "paid"}, {}))
    yield

    [(opened,)] = orders.spark.sql(f"select records from ops.{name}_accounting where name = 'opened'").collect()
    assert opened == 2
    again = run_dbt(orders.places, ["--quiet", "--no-write-json", "run", "--select", f"{name}_accounting"])
    assert [one.message for one in again.result if one.node.resource_type == "model"] == ["nothing new"]


@beside_others("current", apart=True)
def test_current_states_alone_wait_with_a_new_column_for_their_history(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    yield
    orders.send(("u", {"id": 1, "state": "paid", "note": "late"}, {}))
    orders.build("--full-refresh", only="{}__*,tag:layer:silver")
    assert orders.living() == {1: "new"}

    yield
    assert orders.versions("state", "note") == [("new", None), ("paid", "late")]
    assert orders.living() == {1: "paid"}


@beside_others("current", apart=True)
def test_what_is_built_alone_follows_what_was_declared_meanwhile_with_the_rest(orders: Orders) -> Story:
    history = "models/gold/history/{}_history.sql"
    orders.send(("c", {"id": 1, "state": "new", "qty": 1}, {}))
    yield

    orders.declare("'qty': 'bigint'", "'qty': 'decimal(12,4)'")
    orders.build(only="{}__public__orders_history")
    yield
    orders.send(("u", {"id": 1, "state": "paid", "qty": 1.2345}, {}))
    yield
    assert orders.versions("qty") == [(Decimal(1),), (Decimal("1.2345"),)]

    orders.declare("decimal(12,4)", "decimal(20,8)")
    orders.build(only="{}__*,tag:layer:silver")
    yield
    orders.send(("u", {"id": 1, "state": "sent", "qty": 1.00000001}, {}))
    yield
    assert orders.now("qty") == [(Decimal("1.00000001"),)]

    orders.declare("_changes'", "_changes', ignore=['state', 'qty']", history)
    orders.build(only="{}__*,tag:layer:silver")
    yield
    assert orders.now("version_id", "state") == orders.versions("version_id", "state")

    orders.declare("'state': 'string'", "'state': 'string', 'seen': 'timestamp'")
    yield
    assert orders.now("state", "seen") == orders.versions("state", "seen") == [("sent", None)]

    orders.declare("{{ history", "{{ config(alias='orders_versions') }}{{ history", history)
    yield
    assert rows_of(orders.places.table("gold", "orders_versions"), "state") == [{"state": "sent"}]
    show_tables(orders.spark, orders.places, declared_tables(orders.places))
    for name in ("orders_versions", f"{orders.source}__public__orders_history"):
        assert [row["state"] for row in orders.spark.table(name).collect()] == ["sent"]


@beside_others(apart=True)
def test_a_run_reads_what_had_landed_when_it_began(orders: Orders) -> Story:
    orders.send(("c", {"id": 1, "state": "new"}, {}))
    begins = 'on-run-start: "{{ tidemark_start() }}"'
    lands = (
        "insert into bronze.records by name select * except (batch_id, `offset`, value),"
        " (select max(batch_id) from bronze.records) + 1 as batch_id, `offset` + 1 as `offset`,"
        " cast(replace(replace(cast(value as string), '10', '20'), 'new', 'paid') as binary) as value"
        f" from bronze.records where source_name = '{orders.source}'"
    )
    orders.declare(begins, f'{begins.replace(" ", " [", 1)}, "{lands}"]', "dbt_project.yml")
    yield
    assert orders.versions("state") == [("new",)]

    orders.declare(f', "{lands}"', "", "dbt_project.yml")
    yield
    assert orders.versions("state") == [("new",), ("paid",)]


@beside_others(kinds=("changes",))
def test_a_position_begins_with_the_commit_that_sequence_tells(orders: Orders) -> Story:
    places = {
        1: (95, '["90","95"]', (90, 95)),
        2: (96, '[ "90" , "96" ]', (90, 96)),
        3: (97, '[null,"97"]', (97, 97)),  # no commit is known: the change's own place
        4: (98, '[ null , "98" ]', (98, 98)),
        5: (100, '["99",null]', (99, 100)),
    }
    orders.land(
        *[
            orders.record("c", {"id": key, "state": "new"}, place=place, sequence=text)
            for key, (place, text, _) in places.items()
        ]
    )
    yield

    assert orders.positions() == {key: f"{commit:020} {own:020}" for key, (_, _, (commit, own)) in places.items()}


def read_in_partitions(orders: Orders, times: int) -> Story:
    """Tell of a read that so many partitions have, with changes before and behind it."""
    orders.land(
        *[orders.record("r", {"id": 1, "state": "new"}, place=100, partition=number) for number in range(times)],
        orders.record("c", {"id": 2, "state": "new"}, place=90, partition=1, sequence='[null,"90"]'),
        orders.record("r", {"id": 3, "state": "new"}, place=80),
        orders.record("c", {"id": 4, "state": "new"}, place=70, sequence='[null,"70"]'),
    )
    orders.declare("key=['id'],", "key=['id'],\n        sorted_records=1,")
    yield

    assert orders.positions() == {
        1: f"{100:020} {0:020}",
        2: f"{90:020} {90:020}",  # the read of its partition repeats the one of the other
        3: f"{80:020} {0:020}",
        4: f"{100:020} {70:020}",
    }


@beside_others(kinds=("changes",))
def test_a_change_rests_on_the_reads_before_it(orders: Orders) -> Story:
    yield from read_in_partitions(orders, 1)


@beside_others(kinds=("changes",))
def test_a_change_rests_on_the_reads_before_it_that_count(orders: Orders) -> Story:
    yield from read_in_partitions(orders, 2)


@beside_others(kinds=("changes",))
def test_a_change_that_tells_no_commit_is_looked_for_in_the_log_whatever_a_column_is_called(orders: Orders) -> Story:
    row = {"id": 1, "state": "new", "sequence": "ACGT"}
    record = orders.record("c", row, place=40)
    value = json.loads(record["value"])
    del value["source"]["sequence"]
    record["value"] = json.dumps(value)
    orders.land(record)
    yield
    orders.land(orders.record("r", row, place=50))
    yield
    orders.land(record | {"offset": 9})
    yield

    assert sorted(row["op"] for row in rows_of(orders.at("changes"), "op")) == ["c", "r"]


@beside_others(kinds=("changes",))
def test_a_log_of_an_older_form_is_made_anew(orders: Orders) -> Story:
    orders.send(("r", {"id": 1, "state": "new"}, {}))
    yield
    declared = {
        "key": ["id"], "placeholder": PLACEHOLDER, "before_is_whole": None, "new_logs": [], "connector": None,
        "identity": 4,
    }  # fmt: skip
    progress, place = f"delta.`{orders.places.lakehouse}/ops/progress`", f"{10:020} {0:020}"
    of_log = f"where model like '%{orders.source}%changes'"
    state = json.loads(orders.spark.sql(f"select state from {progress} {of_log}").collect()[0]["state"])
    [watermark] = state.pop("watermarks")
    assert (watermark["position"], watermark["snapshot_lsn"]) == (place, 10)
    # As it was written down before what is known of a partition had names.
    state["tops"] = [list(watermark.values())]
    state["declared"] = md5(json.dumps(declared).encode(), usedforsecurity=False).hexdigest()
    orders.spark.sql(f"update {progress} set state = '{json.dumps(state)}' {of_log}")
    orders.land(orders.record("c", {"id": 2, "state": "new"}, place=5, sequence='[null,"5"]'))
    yield

    assert orders.positions() == {1: place, 2: f"{10:020} {5:020}"}


def test_an_empty_run_with_a_new_catalog_leaves_what_is_stored(alone: Orders) -> None:
    alone.send(("c", {"id": 1, "state": "new", "unit price": 1}, {}))
    alone.build("--empty")
    alone.build()
    forget_tables(alone.spark)

    alone.build("--empty")
    alone.build()
    assert alone.living() == {1: "new"}
    assert alone.versions("state") == [("new",)]

    # nor does one that nothing was written down of
    forget_tables(alone.spark)
    alone.spark.sql(f"delete from delta.`{alone.places.table('ops', 'progress')}`")
    alone.build("--empty")
    assert alone.versions("state") == [("new",)]

    # a table that is to be elsewhere isn't there yet
    alone.build()
    alone.declare("{{ history", "{{ config(alias='lives') }}{{ history", "models/gold/history/{}_history.sql")
    alone.build("--empty")
    lives = alone.places.table("gold", "lives")
    assert rows_of(lives, "state") == []
    alone.build()
    assert rows_of(lives, "state") == [{"state": "new"}]


def test_queries_are_left_uncompiled_where_all_tables_are_small(alone: Orders) -> None:
    begins = 'on-run-start: "{{ tidemark_start() }}"'
    asks = "set `test.is_small` = {{ is_of_small_tables() if execute }}"
    alone.declare(begins, f'{begins.replace(" ", " [", 1)}, "{asks}"]', "dbt_project.yml")

    def is_small() -> str | None:
        land_and_declare([alone])
        run_models(alone.places, "--select", "config.materialized:changes", "path:models/mine.sql")
        return alone.spark.conf.get("test.is_small")

    alone.send(("c", {"id": 1, "state": "new"}, {}))
    assert is_small() == "True"

    progress = f"delta.`{alone.places.lakehouse}/ops/progress`"
    of_log = f"where model like '%{alone.source}%changes'"

    def state_with(old: str, new: str) -> None:
        alone.spark.sql(f"update {progress} set state = replace(state, '{old}', '{new}') {of_log}")

    state_with('"records": 1,', '"records": 100000,')
    assert is_small() == "False"

    state_with('"records": 100000,', "")
    alone.send(*[("u", {"id": 1, "state": "paid"}, {})] * 3)
    assert is_small() == "False"
    assert json.loads(alone.spark.sql(f"select state from {progress} {of_log}").collect()[0]["state"])["records"] == 4
    assert is_small() == "True"

    # Nothing lands of a table for long: it is asked about with all others nevertheless, and few runs write that down.
    lands = (
        "insert into bronze.records by name select * except (batch_id, feed, `offset`), 'topic__other' as feed,"
        " (select max(batch_id) from bronze.records) + {0} as batch_id, -{0} as `offset` from bronze.records limit 1"
    )
    for landings, writes in ((40, 0), (50, 1), (70, 1), (40, 0)):
        alone.spark.sql(lands.format(landings))
        before = DeltaTable(alone.places.table("ops", "progress")).version()
        assert is_small() == "True"
        assert DeltaTable(alone.places.table("ops", "progress")).version() == before + writes

    (alone.places.project / "models" / "mine.sql").write_text("{{ config(materialized='table') }} select 1 as one")
    assert is_small() == "False"
