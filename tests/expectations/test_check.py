"""A check from end to end: the accounting, the report in its place, and what fails it. Owns G6."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from pyspark.sql import SparkSession

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable, Channel, Declared, Model
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.query import show_tables
from spark_jobs.reporting.accounting import Account
from spark_jobs.reporting.check import CheckOutcome, check
from spark_jobs.reporting.dropped_tables import signs_of_drops
from spark_jobs.reporting.evidence import RunSummary
from spark_jobs.reporting.key_shapes import signs_of_key_shapes
from spark_jobs.reporting.measures import Asked, Measures, measure
from spark_jobs.reporting.quarantine import held_by_reason
from tests.expectations.lakehouses import CHANGE, Story, write_account, write_bronze, write_table
from tests.projects import PROJECT

PRIVATE = "ada@example.org"
# A table that gh-ost makes beside `orders`, of which no model is written.
HELPER = "src___orders_gho"


@dataclass
class Lakehouse:
    """Two captured tables, one without a key, what came beside them, and a record that no build has read."""

    spark: SparkSession
    places: Places
    orders: Story = field(default_factory=lambda: Story("orders", outcomes={"opened": 2, "no_op": 1}))
    notes: Story = field(default_factory=lambda: Story("notes", is_keyed=False, sensitive=("v",)))
    beside: Story = field(default_factory=lambda: Story("beside"))
    events: list[Channel] = field(default_factory=list)
    tables: list[CapturedTable] = field(default_factory=list)

    def build(self) -> None:
        """Write all layers."""
        self.orders.version("one", 0, 5, closed_by="update")
        self.orders.version("one", 5, opened_by="update")
        self.orders.change("one", op="u", after={"id": "one", "v": "value of one from 5"})
        self.orders.signs.append(
            {"kind": "sign", "name": "missed_changes", "records": 1, "sample_keys": ['{"id":"one"}']}
        )
        self.notes.change("a", exact_values={"v": "infinity"})
        self.notes.change("b", problem="position_unknown", log_number=1)
        for offset in (0, 1, 2, 4):
            self.orders.record(offset)
        self.orders.record(6, batch_id=2)
        self.orders.record(3, kind="tombstone", feed="topic__orders")
        self.orders.quarantined.append({"offset": 5, "quarantine_id": "q1", "value": b"half"})
        self.notes.record(0)
        self.notes.record(2)
        self.notes.quarantined.append({"offset": 1, "quarantine_id": "q2", "value": f"{{{PRIVATE}".encode()})
        self.notes.quarantined.append({"offset": 3, "quarantine_id": "q3", "released_in": 1})
        for offset in (0, 1):
            self.beside.record(offset, feed=HELPER, topic="src._orders_gho", table="_orders_gho", shape_id=1)
        # What xxhash64 makes of NULL.
        self.beside.record(0, feed="src__gone", topic="src.gone", table="gone", op="d", shape_id=42)
        self.beside.record(0, feed="topic__src_transaction", topic="src.transaction", kind="transaction", op=None)
        for offset, batch in enumerate((1, 1, 1, 2)):
            self.beside.record(
                offset, feed="topic__order", topic="outbox.event.order", kind="outbox", op=None, batch_id=batch
            )
        self.beside.record(0, feed="topic__refund", topic="outbox.event.refund", kind="outbox", op=None)
        for topic in ("src.message", "mirror.src.message"):
            self.beside.record(0, feed="topic__message", topic=topic, kind="message", op=None)
        write_bronze(self.spark, self.places, [self.orders, self.notes, self.beside])
        orders, messages = (
            Model(name, f"silver.{name}", self.places.table("silver", name))
            for name in ("order_events", "src_messages")
        )
        self.events = [
            Channel("outbox", "", orders, topics=frozenset(["outbox.event.order"])),
            Channel("messages", "src", messages),
        ]
        rows = [
            {"topic": "outbox.event.order", "batch_id": 1, "exact_values": exact} for exact in ({}, {"n": "3000000000"})
        ]
        columns = "topic string, batch_id bigint, exact_values map<string, string>"
        write_table(self.spark, self.events[0].model, columns, rows)
        write_table(self.spark, self.events[1].model, "topic string, batch_id bigint", [
            {"topic": "src.message", "batch_id": 1}
        ])  # fmt: skip
        self.tables = [story.write(self.spark, self.places) for story in (self.orders, self.notes)]

    def check(self, run_id: str) -> CheckOutcome:
        """Run the check."""
        run = RunSummary(run_id, "tidemark check", datetime.now(UTC))
        return check(self.spark, self.places, Declared(self.tables, self.events), run)


@dataclass(frozen=True)
class Checked:
    """Two checks: of a good lakehouse, and with an outcome and a record of bronze lost."""

    good: CheckOutcome
    lost: CheckOutcome
    reports: Path
    places: Places
    tables: list[CapturedTable]


@pytest.fixture(scope="module")
def checked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Checked:
    home = tmp_path_factory.mktemp("check")
    lakehouse = Lakehouse(spark, Places(home / "project", str(home / "lakehouse"), str(home / "catalog")))
    lakehouse.build()
    shutil.copy(PROJECT / "profiles.yml", lakehouse.places.project)
    good = lakehouse.check("run-1")
    outcomes = [{"kind": "disposition", "name": "opened", "records": 2, "sample_keys": []}]
    write_account(spark, lakehouse.places, lakehouse.tables[0], outcomes)
    bronze_records = table_at(lakehouse.places.table("bronze", "records"))
    spark.sql(f"delete from {bronze_records} where feed = '{HELPER}' and `offset` = 1")
    write_table(spark, lakehouse.events[0].model, "topic string, batch_id bigint", [
        {"topic": "outbox.event.order", "batch_id": 1}
    ])  # fmt: skip
    # Of the deliveries by two topics another one counts.
    write_table(spark, lakehouse.events[1].model, "topic string, batch_id bigint", [
        {"topic": "mirror.src.message", "batch_id": 1}
    ])  # fmt: skip
    spark.sql(f"insert into {bronze_records} select * from {bronze_records} where topic = 'src.transaction'")
    quarantine = table_at(lakehouse.places.table("bronze", "quarantine"))
    spark.sql(f"insert into {quarantine} select * from {quarantine} where quarantine_id = 'q3'")
    # A clock that was ahead meanwhile: what it says of later was before all others.
    accounts = table_at(lakehouse.places.table("ops", "accounting"))
    spark.sql(
        f"insert into {accounts} select 'run-0', subject, `table`, disposition, 0, recorded_at + interval 1 day"
        f" from {accounts}"
    )
    lost = lakehouse.check("run-2")
    return Checked(good, lost, home / "lakehouse" / "reports", lakehouse.places, lakehouse.tables)


def _account(outcome: CheckOutcome, name: str) -> Account:
    [account] = [one for one in outcome.evidence.accounts if one.name == name]
    return account


def _some(account: Account) -> dict[str, int]:
    return {name: count for name, count in account.dispositions.items() if count}


def test_every_record_is_accounted_for(checked: Checked) -> None:
    orders = _account(checked.good, "orders")
    assert orders.records == 7
    assert _some(orders) == {
        "opened": 2, "no_op": 1, "duplicates": 1, "tombstones": 1, "quarantined": 1, "pending": 1,
    }  # fmt: skip
    assert _some(_account(checked.good, "notes")) == {"unkeyed": 1, "quarantined": 2}
    assert _some(_account(checked.good, HELPER)) == {"no_model": 2}
    assert _some(_account(checked.good, "src.transaction")) == {"transaction": 1}
    assert _some(_account(checked.good, "outbox.event.order")) == {"in_table": 2, "duplicates": 1, "pending": 1}
    assert _some(_account(checked.good, "src.message")) == {"in_table": 1}
    assert _some(_account(checked.good, "mirror.src.message")) == {"duplicates": 1}
    assert _some(_account(checked.good, "outbox.event.refund")) == {"no_model": 1}
    assert [one.difference for one in checked.good.evidence.accounts] == [0] * 9
    assert checked.good.passed


def test_events_that_no_model_has_are_a_warning(checked: Checked) -> None:
    [warning] = [one for one in checked.good.warnings if "outbox.event" in one]
    assert warning.startswith("outbox.event.refund: 1 landed record is in no table")


def test_deletes_of_a_table_of_which_no_row_has_landed_wait_for_one(checked: Checked) -> None:
    [warning] = [one for one in checked.good.warnings if "src__gone" in one]
    assert warning.startswith("src__gone: 1 landed delete or truncate is in no table.")
    [warning] = [one for one in checked.good.warnings if HELPER in one]
    assert warning.startswith(f"{HELPER}: 2 landed records are in no table")


def test_an_event_whose_delivery_by_another_topic_counts_is_not_lost(checked: Checked) -> None:
    names = ("src.message", "mirror.src.message")
    assert [_account(checked.lost, name).lost for name in names] == [0, 0]
    assert _some(_account(checked.lost, "mirror.src.message")) == {"in_table": 1}


def test_events_that_their_table_has_no_more_fail_the_run(checked: Checked) -> None:
    [failure] = [one for one in checked.lost.failures if "outbox.event.order" in one]
    assert "order_events had 1 more of its events" in failure
    assert failure.endswith("`tidemark rebuild order_events` makes it anew from bronze.")


def test_signs_of_what_no_event_told_are_warnings_with_their_keys(checked: Checked) -> None:
    [warning] = [one for one in checked.good.warnings if "no event told" in one]
    assert warning.startswith("orders: 1 reads that differ")
    assert '{"id": "one"}' in warning


def test_signs_of_a_table_that_nothing_accounts_for_are_counted_in_its_log(checked: Checked) -> None:
    found = checked.good.evidence.signs
    assert {name: sign.count for name, sign in found["notes"].items()} == {"exact_values": 1, "new_logs": 1}
    assert {name: sign.count for name, sign in found["order_events"].items()} == {"exact_values": 1}
    warned = [one for one in checked.good.warnings if "exact_values" in one]
    assert [one.partition(":")[0] for one in warned] == ["notes", "order_events"]


def test_what_is_held_is_a_warning_of_every_check(checked: Checked) -> None:
    for outcome in (checked.good, checked.lost):
        [warning] = [one for one in outcome.warnings if "held" in one]
        assert warning.startswith("2 records of notes.topic and 1 more topic are held in the quarantine (no-envelope)")


def test_what_a_run_changed_is_told(checked: Checked) -> None:
    assert _account(checked.good, "orders").changed == _some(_account(checked.good, "orders"))
    assert _account(checked.lost, "orders").changed == {"no_op": -1}
    assert _account(checked.lost, "notes").changed == {}


def test_records_not_built_yet_are_pending_and_no_difference(checked: Checked) -> None:
    assert checked.good.passed
    report = json.loads((checked.reports / "run-1" / "report.json").read_text())
    assert "tidemark build" in [step["command"] for step in report["next"]]


def test_a_difference_fails_the_run(checked: Checked) -> None:
    assert _account(checked.lost, "orders").difference == 1
    assert "of 7 records 6 are accounted for" in checked.lost.failures[0]


def test_records_that_bronze_has_no_more_fail_the_run(checked: Checked) -> None:
    assert [_account(checked.good, name).lost for name in ("orders", "notes", HELPER)] == [0, 0, 0]
    assert [_account(checked.lost, name).lost for name in ("orders", "notes", HELPER)] == [0, 0, 1]
    assert f"{HELPER}: bronze had 1 more records" in checked.lost.failures[1]
    assert len(checked.lost.failures) == 5


def test_what_is_in_bronze_more_than_once_fails_the_run(checked: Checked) -> None:
    assert checked.good.evidence.repeated == {}
    assert checked.lost.evidence.repeated == {"bronze.quarantine": 1, "src.transaction": 1}
    assert "src.transaction: 1 record is in bronze more than once (R1)." in " ".join(checked.lost.failures)


def test_results_of_tests_are_kept_of_each_check(spark: SparkSession, checked: Checked) -> None:
    kept = spark.table(table_at(checked.places.table("ops", "test_results")))
    assert {row["run_id"] for row in kept.collect() if row["kind"] == "expectation"} >= {"run-1", "run-2"}
    of_run = kept.where("run_id = 'run-1'").collect()
    assert len(of_run) == len(checked.good.evidence.expectations)
    told = {(row["table"], row["layer"], row["name"], row["severity"], row["status"]) for row in of_run}
    assert told == {
        (one.table, one.layer, one.expectation, one.severity, "pass" if one.passed else "warn")
        for one in checked.good.evidence.expectations
    }


def test_the_report_stands_in_its_run_and_in_latest(checked: Checked) -> None:
    assert Path(checked.lost.report) == checked.reports / "run-2" / "report.html"
    latest = checked.reports / "latest"
    for name in ("report.html", "report.json", "report.schema.json", "data_docs/index.html"):
        assert (latest / name).read_bytes() == (checked.reports / "run-2" / name).read_bytes()
    assert sorted(one.name for one in checked.reports.iterdir()) == ["latest", "run-1", "run-2"]
    said = json.loads((latest / "report.json").read_text())
    jsonschema.Draft202012Validator(json.loads((latest / "report.schema.json").read_text())).validate(said)
    assert [(one["run_id"], one["status"]) for one in said["trend"]] == [
        ("run-1", "passed"), ("run-2", "failed"),
    ]  # fmt: skip
    assert {one["stage"] for one in said["stages"]} == {"accounting", "expectations"}
    assert said["tables"][0]["lag_ms"]["all"] == {"p50": 600, "p95": 600, "max": 600}


def test_quarantined_values_of_sensitive_tables_are_hashed(checked: Checked) -> None:
    samples = {one.topic: one.samples for one in checked.good.evidence.quarantine}
    assert samples["orders.topic"] == ("orders.topic/0/5: half",)
    assert "#" in samples["notes.topic"][0]
    assert not any(
        PRIVATE in page.read_text() for page in checked.reports.rglob("*") if page.suffix in (".html", ".json")
    )


def test_messages_of_dbt_quote_values_where_sample_rows_are_shown(
    spark: SparkSession, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.reporting.check.write_report", lambda *_, **__: "nowhere")
    failed = {"unique_id": "test.tidemark.t", "status": "fail", "failures": 1, "message": "got 'a value'"}
    metadata = {"generated_at": datetime.now(UTC).isoformat(), "invocation_id": "run-of-dbt"}
    said = {"metadata": metadata, "args": {"which": "build"}}
    results = checked.places.project / "target/run_results.json"
    results.parent.mkdir()
    results.write_text(json.dumps({**said, "results": [failed]}))
    run = RunSummary("run-3", "tidemark check", datetime.now(UTC))
    messages = []
    for sample_rows in (True, False):
        found = check(
            spark, checked.places, Declared(checked.tables[:1], []), run, sample_rows=sample_rows
        ).evidence.dbt
        assert found is not None
        messages += [one.message for one in found.results]
    assert messages == ["got 'a value'", "got …"]
    kept = spark.table(table_at(checked.places.table("ops", "test_results"))).where("kind = 'dbt'").collect()
    assert [(row["run_id"], row["name"], row["status"], row["failures"]) for row in kept] == [
        ("run-of-dbt", "t", "fail", 1),
    ], "once, however often it is checked"  # fmt: skip


def test_sql_knows_the_tables_that_no_captured_table_is_alone_with(spark: SparkSession, checked: Checked) -> None:
    location = checked.places.table("ops", "src_transactions")
    spark.range(1).write.format("delta").save(location)
    transactions = Model("src_transactions", "ops.src_transactions", location)
    show_tables(
        spark, checked.places, Declared([replace(one, transactions=transactions) for one in checked.tables], [])
    )
    for name in ("src_transactions", "progress", "accounting", "test_results"):
        assert not spark.table(name).isEmpty()
        spark.catalog.dropTempView(name)


def test_each_reason_has_samples(spark: SparkSession, tmp_path: Path) -> None:
    places = Places(tmp_path / "project", str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))
    entries = [
        {"code": "c", "reason": reason, "topic": "t", "partition": 0, "offset": offset, "occurrences": 1, "line": "x"}
        for offset, reason in enumerate(["first"] * 4 + ["second"])
    ]
    there = Model("quarantine", "bronze.quarantine", places.table("bronze", "quarantine"))
    write_table(spark, there, bronze.QUARANTINE, entries)
    found = held_by_reason(spark, places, [], None, sample_rows=True)

    assert [(one.reason, one.records, len(one.samples)) for one in found] == [("first", 4, 3), ("second", 1, 1)]


def test_keys_of_two_lives_of_a_topic_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    places = Places(tmp_path / "project", str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))
    story = Story("anew")
    for batch, (field_name, key) in enumerate([("old", "a"), ("id", "b")], start=1):
        story.record(0, batch_id=batch, content_hash=key, key=json.dumps({field_name: key}).encode())
        story.change(key, offset=0, batch_id=batch, position=f"{batch:020}")
        story.version(key, batch, traced=False, offset=0, position=f"{batch:020}")
        story.shapes.append({"key_fields": json.dumps([field_name])})
    write_bronze(spark, places, [story])
    signs = signs_of_key_shapes(spark, places, [story.write(spark, places)])["anew"]

    assert [(one["name"], one["records"]) for one in signs] == [("other_key_shapes", 1), ("old_key_shapes", 1)]
    assert {json.loads(key)["id"] for one in signs for key in one["sample_keys"]} == {"a"}


def test_nulls_are_counted_of_columns_that_a_state_has(spark: SparkSession, tmp_path: Path) -> None:
    places = Places(tmp_path / "project", str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))
    story = Story("defaulted")
    table = story.table(places)
    changes = CHANGE.format(row="struct<id: string, v: string>", key="struct<id: string>")

    def nulls() -> Mapping[str, int]:
        write_table(spark, table.changes, changes, story.changes)
        return measure(spark, places, [table], {table.name: Asked(defaulted=["v"])})[table.name].nulls

    story.change("a", op="d", after=None)
    story.change("a", op="u", unavailable_columns=["v"])
    assert nulls() == {}, "that it was never NULL would be said of nothing"
    story.change("a", op="u")
    assert nulls() == {"v": 0}


def test_values_and_logs_of_a_table_without_accounting_are_measured(spark: SparkSession, tmp_path: Path) -> None:
    places = Places(tmp_path / "project", str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))
    story = Story("unaccounted", is_keyed=False)
    table = story.table(places)
    large = {"exact_values": {"n": "3000000000"}, "after": {"id": "a", "n": None}}
    story.change("a", **large)
    # A border, beside a partition that begins behind it and has none.
    for partition, log_number in ((0, 1), (0, 1), (1, 1), (1, None)):
        story.change("a", after={"id": "a", "n": 1}, partition=partition, log_number=log_number)
    columns = CHANGE.format(row="struct<id: string, n: int>", key="struct<id: string>")
    write_table(spark, table.changes, columns, [one | {"before": None} for one in story.changes])
    found = measure(spark, places, [table], {})[table.name]

    assert (found.exact_values, found.inexact, found.new_logs) == ({"n": 1}, 1, 1)


def test_nulls_are_counted_that_may_be_values_an_update_left_out(spark: SparkSession, tmp_path: Path) -> None:
    places = Places(tmp_path / "project", str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))
    story = Story("left_out")
    table = story.table(places)
    changes = CHANGE.format(row="struct<id: string, v: string>", key="struct<id: string>")

    def left() -> Mapping[str, int]:
        write_table(spark, table.changes, changes, story.changes)
        return measure(spark, places, [table], {table.name: Asked(left_as_null=["v"])})[table.name].left_as_null

    row = {"id": "a", "v": None}
    story.change("a", op="u", after=row, before=row)
    story.change("a", op="u", after=row)
    assert left() == {}, "a column that never had a value has lost none"
    story.change("a", op="c")
    assert left() == {"v": 1}


def test_a_key_with_a_column_that_no_model_declares_has_the_declared_shape(spark: SparkSession, tmp_path: Path) -> None:
    places = Places(tmp_path / "project", str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))
    story = Story("wide", wide_key=True)
    story.record(0, key=json.dumps({"id": "a", "v": "value of a"}).encode())
    story.version("a", 1)
    story.shapes.append({"key_fields": json.dumps(["id", "v"])})
    write_bronze(spark, places, [story])
    table = story.write(spark, places)
    undeclared = replace(table, columns=tuple(one for one in table.columns if one["name"] == "id"))

    assert signs_of_key_shapes(spark, places, [undeclared]).get("wide", []) == []


@pytest.mark.parametrize(("kind", "told"), [("DROP", "DROP TABLE t"), ("CREATE", "create or replace table t (id int)")])
def test_rows_of_a_table_that_was_dropped_are_told_until_something_comes_of_them(
    spark: SparkSession, tmp_path: Path, kind: str, told: str
) -> None:
    places = Places(tmp_path / "project", str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))
    story, ddl = Story("made_again"), Model("src_schema_versions", "", places.table("silver", "src_schema_versions"))
    story.shapes.append({"source_name": "src", "db": "shop", "table": story.name})
    for key in ("gone", "back", "new"):
        story.version(key, 1)
    # It stands between "back" and "new"; "back" is inserted into the new table as it was in the old one.
    story.change("back")
    statement = {"db": "shop", "table": story.name, "kind": kind, "ddl": told, "is_snapshot": False}
    statements = [
        statement | {"position": f"{1:020} DROP"},
        # A snapshot of the table says so, too.
        statement | {"position": f"{9:020}", "is_snapshot": True},
        statement | {"position": f"{8:020}", "kind": "CREATE", "ddl": "create table t (id int)"},
    ]
    columns = "db string, schema string, table string, kind string, position string, is_snapshot boolean, ddl string"
    write_table(spark, ddl, columns, statements)
    write_bronze(spark, places, [story])
    table, channel = story.write(spark, places), Channel("schema_versions", "src", ddl)
    [sign] = signs_of_drops(spark, places, Declared([table], [channel]))[table.name]

    assert (sign["name"], sign["records"], sign["sample_keys"]) == ("dropped_rows", 1, ['{"id":"gone"}'])


def test_what_the_newest_update_lacks_and_what_only_reads_have_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    places = Places(tmp_path / "project", str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))
    story = Story("computed")
    table = story.table(places)
    changes = CHANGE.format(row="struct<id: string, v: string>", key="struct<id: string>")

    def measured() -> Measures:
        write_table(spark, table.changes, changes, story.changes)
        return measure(spark, places, [table], {table.name: Asked(null_in_stream=["v"])})[table.name]

    def seen(one: Measures) -> tuple[int, bool, tuple[str, ...]]:
        return one.updates_without_before, one.is_before_missing, one.null_in_stream

    row = {"id": "a", "v": None}
    story.change("a", op="r", before=None)
    for _ in range(4):
        story.change("a", op="u", after=row, before=row)
    assert seen(measured()) == (0, False, ()), "so few may be so by chance"
    story.change("a", op="u", after=row)
    assert seen(measured()) == (1, True, ("v",))
    # one that landed first, and another that the source wrote once it was mended
    story.changes[1] |= {"position": f"{9:020}"}
    assert seen(measured()) == (1, False, ("v",))
    story.change("b", op="c")
    assert seen(measured()) == (1, False, ())


def test_arrays_that_hold_nothing_but_null_are_measured(spark: SparkSession, tmp_path: Path) -> None:
    places = Places(tmp_path / "project", str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))
    story = Story("arrays")
    table = story.table(places)
    changes = CHANGE.format(row="struct<id: string, v: array<int>>", key="struct<id: string>")

    def empty(*values: list[int | None] | None) -> tuple[str, ...]:
        for value in values:
            story.change("a", after={"id": "a", "v": value})
        write_table(spark, table.changes, changes, story.changes)
        return measure(spark, places, [table], {})[table.name].empty_arrays

    assert empty(None, []) == ()
    assert empty([None, None]) == ("v",)
    assert empty([None, 1]) == ()


def test_columns_of_which_the_stream_has_placeholders_alone_are_measured(spark: SparkSession, tmp_path: Path) -> None:
    places = Places(tmp_path / "project", str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))
    story = Story("left_out")
    table = story.table(places)
    changes = CHANGE.format(row="struct<id: string, v: string>", key="struct<id: string>")

    def seen(**asked: Sequence[str]) -> tuple[tuple[str, ...], Mapping[str, int]]:
        write_table(spark, table.changes, changes, story.changes)
        found = measure(spark, places, [table], {table.name: Asked(**asked)})[table.name]
        return found.never_streamed, found.inserted_as_null

    story.change("a", op="r")
    story.change("b", op="c", after={"id": "b", "v": None})
    story.change("b", op="c", after={"id": "b", "v": ""}, previous_key='{"id":"a"}')
    assert seen(may_be_large=["v"]) == ((), {}), "neither a placeholder nor a statement"
    assert seen(may_be_large=["v"], large=["v"]) == ((), {"v": 1}), "a change of key goes on from another row"
    story.change("a", op="u", after={"id": "a", "v": None}, unavailable_columns=["v"])
    assert (seen(may_be_large=["v"]), seen()) == ((("v",), {"v": 1}), ((), {}))
    story.change("c", op="c")
    story.change("d", op="c", after={"id": "d", "v": ""})
    assert seen(may_be_large=["v"]) == ((), {"v": 2}), "a small value was streamed"
    story.change("e", op="c", after={"id": "e", "v": "long" * 2001})
    assert seen(may_be_large=["v"]) == ((), {}), "and a large one"
