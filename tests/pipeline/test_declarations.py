"""What changes of tables that are there: a key's type, a border that events don't show, a column that comes late."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession

from spark_jobs import steps
from spark_jobs.declarations import captured_tables, declared_tables, run_dbt
from spark_jobs.errors import UsageError
from spark_jobs.places import Places
from spark_jobs.quarantine import entry, held_entries, release
from spark_jobs.reporting.check import check
from spark_jobs.reporting.evidence import RunSummary
from spark_jobs.reporting.measures import Asked, measure
from spark_jobs.trace import traced
from tests.projects import accounts_of, empty_project, land, rows_of, run_models

NAME = "shop__public__orders"
FAR = 5_000_000_000


def line(offset: int, op: str, order: int, state: str, lsn: int) -> str:
    """A change of an order, as a line of a record file."""
    source = {
        "connector": "postgresql", "name": "shop", "db": "shop", "schema": "public", "table": "orders",
        "ts_ms": 1_704_067_200_000, "snapshot": "false", "lsn": lsn, "txId": lsn, "sequence": f'["{lsn}","{lsn}"]',
    }  # fmt: skip
    payload = {"before": None, "after": {"id": order, "state": state}, "source": source, "op": op, "ts_ms": offset}
    record = {
        "topic": "shop.public.orders", "partition": 0, "offset": offset, "key": json.dumps({"id": order}),
        "value": json.dumps(payload),
    }  # fmt: skip
    return json.dumps(record) + "\n"


@contextmanager
def declared_otherwise(places: Places, file: str, was: str, now: str) -> Iterator[None]:
    """Have a file of the project declare something otherwise, for a while."""
    path = places.project / file
    before = path.read_text()
    assert was in before
    path.write_text(before.replace(was, now, 1))
    try:
        yield
    finally:
        path.write_text(before)


@pytest.fixture(scope="module")
def places(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Orders whose ids were declared too small, and two logs at one time: the second begins at offset 3."""
    places = Places.of(empty_project(tmp_path_factory.mktemp("declarations") / "project"))
    changes = [
        (0, "c", 1, "new", 10), (1, "u", 1, "paid", 30), (2, "c", FAR, "new", 40), (3, "u", 1, "sent", 20),
        (4, "u", FAR, "paid", 25),
    ]  # fmt: skip
    land(spark, places, "orders", "".join(line(*change) for change in changes), {"shop"}, tested=True)
    declare(places, "int")
    run_models(places, accounting=True)
    return places


def declare(places: Places, now: str) -> None:
    """Declare the type of the order's id."""
    model = places.project / f"models/silver/changes/{NAME}_changes.sql"
    model.write_text(
        model.read_text().replace("'id': 'bigint'", f"'id': '{now}'").replace("'id': 'int'", f"'id': '{now}'")
    )


def states(places: Places) -> dict[int, list[str]]:
    """Order → its states, in order."""
    [table] = captured_tables(places)
    assert table.history is not None
    rows = sorted(DeltaTable(table.history.location).to_pyarrow_table().to_pylist(), key=lambda row: row["position"])
    found: dict[int, list[str]] = {}
    for row in rows:
        found.setdefault(row["id"], []).append(row["state"])
    return found


def entries_of(spark: SparkSession, places: Places) -> list[Row]:
    """The quarantine's entries of the orders; other tests have some of their own in this lakehouse."""
    return held_entries(spark, places, captured_tables(places)).where("topic = 'shop.public.orders'").collect()


def checked(spark: SparkSession, places: Places) -> Any:
    run = RunSummary("declarations", "check", datetime.now(UTC), {})
    [account] = [
        one for one in check(spark, places, declared_tables(places), run).evidence.accounts if one.subject == "table"
    ]
    return account


def test_a_key_that_its_declaration_can_not_hold_is_in_quarantine_until_another_does(
    spark: SparkSession, places: Places
) -> None:
    assert set(states(places)) == {1}
    entries = entries_of(spark, places)
    assert [(row["code"], row["offset"]) for row in sorted(entries, key=lambda row: row["offset"])] == [
        ("key_not_decoded", 2),
        ("key_not_decoded", 4),
    ]
    # as where landing held it first, for want of a registry
    name = entries[0]["quarantine_id"]
    quarantine = places.table("bronze", "quarantine")
    spark.sql(f"insert into delta.`{quarantine}` (quarantine_id, topic, released_in) values ('{name}', 'released', 1)")
    # Another model of the table holds the same record.
    shown = entry(spark, places, captured_tables(places) * 2, name)
    assert str(FAR) in shown["key"].decode()  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"no release mends.*then `tidemark build`"):
        release(spark, places, [name], "release", datetime.now(UTC))
    account = checked(spark, places)
    assert (account.dispositions["quarantined"], account.fault("")) == (2, None)

    declare(places, "bigint")
    run_models(places, accounting=True)

    assert set(states(places)) == {1, FAR}
    assert entries_of(spark, places) == []
    assert entry(spark, places, captured_tables(places), name)["topic"] == "released"
    assert checked(spark, places).dispositions["quarantined"] == 0


def test_a_border_that_no_event_shows_can_be_declared(spark: SparkSession, places: Places) -> None:
    assert states(places)[1] == ["new", "sent", "paid"]

    settings = places.project / "dbt_project.yml"
    nothing_declared = settings.read_text()
    border = "{topic: shop.public.orders, partition: 0, offset: 3}"
    not_yet = border.replace("orders", "ordres")
    for wrong, says in (
        (border.replace("topic", "label: eu, topic"), "under the label 'eu'. Did you mean 'default'? Landed: default."),
        (border.replace("partition: 0", "partition: 7"), "landed of that partition of the topic. Landed: 0."),
    ):
        borders = f"sources: {{shop: {{new_logs: [{not_yet}, {wrong}]}}}}"
        settings.write_text(nothing_declared.replace("sources: {}", borders))
        refused = run_dbt(places, ["--quiet", "--no-write-json", "run", "--select", f"{NAME}_changes"])
        assert says in "".join(one.message or "" for one in refused.result.results)
    assert "did you mean 'shop.public.orders'?" in (places.project / "logs/dbt.log").read_text()

    settings.write_text(nothing_declared.replace("sources: {}", f"sources: {{shop: {{new_logs: [{border}]}}}}"))
    run_models(places, accounting=True)

    assert states(places) == {1: ["new", "paid", "sent"], FAR: ["new", "paid"]}
    [table] = captured_tables(places)
    log = DeltaTable(table.changes.location).to_pyarrow_table(columns=["offset", "log_number"]).to_pylist()
    assert {row["offset"]: row["log_number"] for row in log} == {0: 0, 1: 0, 2: 0, 3: 1, 4: 1}


@pytest.mark.parametrize(
    ("file", "was", "now"),
    [
        (f"models/silver/changes/{NAME}_changes.sql", "key=['id']", "key=['state', 'id']"),
        (f"models/silver/changes/{NAME}_changes.sql", "key=['id']", "key=[]"),
        (f"models/gold/history/{NAME}_history.sql", "_changes'", "_changes', column_names={'valid_from': 'since'}"),
        (f"models/gold/history/{NAME}_history.sql", "{{ history", "{{ config(alias='lives') }}{{ history"),
    ],
)
def test_what_is_declared_otherwise_than_it_was_built_is_to_be_built_first(
    spark: SparkSession, places: Places, file: str, was: str, now: str
) -> None:
    with declared_otherwise(places, file, was, now):
        says = f"^{NAME}: not built as declared: .* Run `tidemark build` first"
        with pytest.raises(UsageError, match=says):
            steps.check_and_report(steps.Run(places, "check"), spark)
        with pytest.raises(UsageError, match=says):
            traced(spark, places, NAME, ["id=1"])


def test_tables_that_were_made_anew_for_a_declaration_are_left_alone_by_the_next_run(places: Places) -> None:
    def versions() -> list[int]:
        folders = [Path(table.history.location) for table in captured_tables(places) if table.history is not None]
        folders += [Path(table.changes.location) for table in captured_tables(places)]
        folders.append(Path(places.table("ops", "progress")))
        return [DeltaTable(str(folder)).version() for folder in folders]

    before = versions()
    run_models(places, accounting=True)

    assert versions() == before


@pytest.mark.parametrize(
    ("file", "was", "now", "says"),
    [
        ("dbt_project.yml", "+materialized: current", "+materialized: view", "current: it is materialized as 'view'"),
        (
            f"models/gold/history/{NAME}_history.yml", "config:", "config:\n      materialized: table",
            "history: it is materialized as 'table'",
        ),
        (
            f"models/gold/history/{NAME}_history.yml", "config:",
            f"latest_version: 1\n    versions: [{{v: 1, defined_in: {NAME}_history}}]\n    config:",
            "history: its yml has `versions`",
        ),
    ],
)  # fmt: skip
def test_a_model_that_is_materialized_otherwise_is_refused_before_anything_is_built(
    places: Places, file: str, was: str, now: str, says: str
) -> None:
    with declared_otherwise(places, file, was, now):
        result = run_dbt(places, ["--quiet", "--no-write-json", "run"])

    assert f"{NAME}_{says}, " in str(result.exception)
    assert result.result is None


@pytest.mark.parametrize(
    ("hooks", "says"),
    [
        ('["select there_is_none()", "{{ tidemark_start() }}"]', "there_is_none"),
        ('"select 1"', "`tidemark_start`, of dbt_project.yml's on-run-start, has not run"),
    ],
)
def test_no_model_is_built_where_tidemark_s_own_hook_has_not_run(places: Places, hooks: str, says: str) -> None:
    with declared_otherwise(places, "dbt_project.yml", '"{{ tidemark_start() }}"', hooks):
        result = run_dbt(places, ["--quiet", "--no-write-json", "run"])

    built = {one.status for one in result.result if one.node.resource_type == "model"}
    assert built <= {"error", "skipped"}
    assert any(says in str(one.message) for one in result.result)


def test_current_state_that_is_built_alone_takes_up_later_what_its_history_had_not(
    spark: SparkSession, places: Places
) -> None:
    land(spark, places, "orders-later", line(5, "u", 1, "back", 90), {"shop"})

    run_models(places, "--select", f"{NAME}_changes", f"{NAME}_current")
    run_models(places)

    [table] = captured_tables(places)
    assert table.current is not None
    now = DeltaTable(table.current.location).to_pyarrow_table().to_pylist()
    assert {row["id"]: row["state"] for row in now} == {1: "back", FAR: "paid"}


def test_a_log_that_is_ahead_of_what_was_written_down_of_it_takes_nothing_twice(
    spark: SparkSession, places: Places
) -> None:
    progress = f"delta.`{places.table('ops', 'progress')}`"
    before = spark.sql(f"describe history {progress} limit 1").collect()[0]["version"]
    land(spark, places, "orders-last", line(6, "u", 1, "kept", 95), {"shop"})
    run_models(places, accounting=True)
    spark.sql(f"restore table {progress} to version as of {before}")

    run_models(places, accounting=True)

    [table] = captured_tables(places)
    assert accounts_of([table])[NAME] == [("disposition", "opened", 7), ("sign", "new_logs", 1)]
    log = DeltaTable(table.changes.location).to_pyarrow_table(columns=["offset"]).to_pylist()
    assert sorted(row["offset"] for row in log) == list(range(7))
    assert states(places)[1][-1] == "kept"

    # Bronze that was put back to an older version numbers its landings anew.
    land(spark, places, "orders-lost", line(7, "u", 1, "lost", 99), {"shop"})
    run_models(places, accounting=True)
    records = f"delta.`{places.table('bronze', 'records')}`"
    [written] = spark.sql(f"describe history {records} limit 1").collect()
    spark.sql(f"restore table {records} to version as of {written['version'] - 1}")
    with pytest.raises(AssertionError, match="it was put back to an older version"):
        run_models(places, accounting=True)
    run_models(places, "--full-refresh", accounting=True)
    assert states(places)[1][-1] == "kept"


def test_a_column_that_comes_late_is_added_where_versions_go_on(spark: SparkSession, tmp_path: Path) -> None:
    places = Places.of(empty_project(tmp_path / "project"))

    def with_column(name: str, change: str) -> str:
        return change.replace('\\"state\\"', f'\\"{name}\\": \\"it came\\", \\"state\\"')

    def build(batch: str, *changes: str) -> list[tuple[Any, ...]]:
        land(spark, places, batch, "".join(changes).replace("shop", "late"), {"late"})
        run_models(places, accounting=True)
        [table] = captured_tables(places)
        assert table.history is not None
        versions = sorted(rows_of(table.history.location), key=lambda row: row["offset"])
        return [tuple(row.get(name) for name in ("offset", "state", "note", "tip", "is_current")) for row in versions]

    build("late-1", line(0, "c", 1, "new", 10), line(1, "c", 2, "new", 20))
    assert build("late-2", with_column("note", line(2, "u", 1, "paid", 30))) == [
        (0, "new", None, None, False), (1, "new", None, None, True), (2, "paid", "it came", None, True),
    ]  # fmt: skip

    # a run that was killed has added the next one already (G4)
    spark.sql("alter table silver.late__public__orders_changes add columns (after.tip string, before.tip string)")
    spark.sql("alter table gold.late__public__orders_history add columns (tip string after note)")
    assert build("late-3", with_column("tip", line(3, "u", 2, "sent", 40))) == [
        (0, "new", None, None, False), (1, "new", None, None, False), (2, "paid", "it came", None, True),
        (3, "sent", None, "it came", True),
    ]  # fmt: skip
    # rows that were written before a column came lack it: there is no NULL of it
    tables = captured_tables(places)
    [measured] = measure(spark, places, tables, {tables[0].name: Asked(defaulted=["note", "tip"])}).values()
    assert (measured.nulls, measured.undeclared) == ({"note": 0, "tip": 0}, ("note", "tip"))
