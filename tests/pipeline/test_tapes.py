"""Each tape, from records to gold, landed in its batches: the readable cases of the contract's rules. Owns G1."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs import trace
from spark_jobs.declarations import CapturedTable, captured_tables, run_dbt
from spark_jobs.names import quoted, table_at
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import seen_tables
from tests.captured import name_of
from tests.generated.lakehouse import current_is_open
from tests.gold import miscounted, untold
from tests.projects import (
    account_of,
    accounts_of,
    declare_history,
    empty_project,
    land,
    microseconds,
    rows_of,
    run_models,
    write_tests,
)
from tests.tape import Tape, tapes

TAPES = tapes(Path(__file__).parents[1] / "tapes")
# The tables whose accounting is built: each costs every batch, and of others no tape tells.
WITH_SIGNS = {tape.table for tape in TAPES if tape.signs}
# A current state is one query over the history, which has to go on from batch to batch: it is built where a table with
# options or signs comes in three, of the two that most tapes share, and of one that has dbt's tests.
IN_THREE = {tape.table for tape in TAPES if any(batch > 2 for batch, _ in tape.records())}
WITH_CURRENT = {tape.table for tape in TAPES if tape.options or tape.signs} & IN_THREE | {
    "tapes_mariadb", "tapes_mariadb_grown", "tapes_postgresql",
}  # fmt: skip
# Tables that are traced whole, with signs of many kinds, and a change's weights in their accounts.
TRACED = ("tapes_mariadb_grown", "tapes_mariadb_logs", "tapes_postgresql_logs")
WEIGHT = ["no_op", "collapsed", "closed_only", "opened", "held_back", "quarantined"]
Rows = dict[str, list[dict[str, Any]]]


def write_models(project: Path) -> None:
    """One set of models for each table of the tapes, with its options."""
    for tape in {tape.table: tape for tape in TAPES}.values():
        declare_history(project, f"tape__{tape.schema}__{tape.table}", tape.options)


def models_of(tape: Tape) -> set[str]:
    """The models that are built for a tape's table."""
    kinds = {"current": WITH_CURRENT, "accounting": WITH_SIGNS}
    built = ["changes", "history", *(kind for kind, tables in kinds.items() if tape.table in tables)]
    return {f"tape__{tape.schema}__{tape.table}_{kind}" for kind in built}


def tape_versions(table: CapturedTable) -> list[dict[str, Any]]:
    """The versions of a gold table as tapes tell them."""
    assert table.history is not None
    rows = rows_of(table.history.location)
    rows.sort(key=lambda row: (row["position"], row["offset"], row["opened_by"] != "before"))
    return [
        row
        | {name: microseconds(row[name]) for name in ("valid_from", "valid_to")}
        | {name: row[name] and list(json.loads(row[name]).values()) for name in ("previous_key", "next_key")}
        for row in rows
    ]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    return Places.of(empty_project(tmp_path_factory.mktemp("tapes") / "project"))


@pytest.fixture(scope="module")
def built(spark: SparkSession, places: Places) -> list[CapturedTable]:
    batches, with_news = defaultdict(list), defaultdict[int, set[str]](set)
    for tape in TAPES:
        for batch, record in tape.records():
            batches[batch].append(json.dumps(record) + "\n")
            with_news[batch] |= models_of(tape)
    for batch, lines in sorted(batches.items()):
        land(spark, places, f"tapes-{batch}", "".join(lines), {"tape"})
        write_models(places.project)
        run_models(places, "--select", *with_news[batch], accounting=True)
    return captured_tables(places)


@pytest.fixture(scope="module")
def tested(spark: SparkSession, places: Places, built: list[CapturedTable]) -> dict[str, CapturedTable]:
    """The tables that have dbt's tests, by their names in the source."""
    tables = {table.name: table for table in built if name_of(table) in ("tapes_mariadb_grown", "tapes_postgresql")}
    seen = [table for table in seen_tables(spark, places) if table.name in tables]
    write_tests(places.project, seen)
    return {name_of(table): table for table in tables.values()}


@pytest.fixture(scope="module")
def gold(built: list[CapturedTable]) -> Rows:
    return {name_of(table): tape_versions(table) for table in built}


@pytest.fixture(scope="module")
def signs(built: list[CapturedTable]) -> set[tuple[str, str]]:
    """Each sign that the accounting has, with the key that met it."""
    found = set()
    for table in built:
        found |= {(row["name"], json.loads(key)["id"]) for row in account_of(table) for key in row["sample_keys"]}
    return found


@pytest.mark.parametrize("tape", [tape for tape in TAPES if tape.signs], ids=lambda tape: tape.name)
def test_the_accounting_counts_the_signs(signs: set[tuple[str, str]], tape: Tape) -> None:
    told_of = {(sign, key) for sign, key in signs if key.startswith(f"{tape.number}:")}

    assert told_of == {(line["sign"], tape.key(line["id"])) for line in tape.signs}


def test_a_history_has_versions_of_as_many_changes_as_its_account_says(
    spark: SparkSession, built: list[CapturedTable]
) -> None:
    assert miscounted(spark, built) == []


@pytest.mark.parametrize("tape", TAPES, ids=lambda tape: tape.name)
def test_gold_tells_the_tape(gold: Rows, tape: Tape) -> None:
    assert tape.as_history(gold[tape.table]) == tape.history


def test_versions_say_what_their_changes_say(spark: SparkSession, places: Places, built: list[CapturedTable]) -> None:
    assert untold(spark, places, built) == []


def test_a_lineage_that_moves_leaves_its_version_the_id_that_it_had(built: list[CapturedTable]) -> None:
    [table] = [table for table in built if name_of(table) == "tapes_postgresql_goes_on"]
    assert table.history is not None
    names, told = ("id", "name", "version_id", "offset"), defaultdict(set)
    for version in range(DeltaTable(table.history.location).version() + 1):
        for row in rows_of(table.history.location, *names, version=version):
            told[row["id"], row["name"]].add((row["version_id"], row["offset"]))

    ids, offsets = ([{place[part] for place in places} for places in told.values()] for part in (0, 1))
    assert [len(one) for one in ids] == [1, 1, 1, 1]
    assert sorted(len(one) for one in offsets) == [1, 2, 2, 2], "of all but one an earlier delivery came later"


def test_a_truncate_that_came_twice_is_one_change(built: list[CapturedTable]) -> None:
    """Its event bears the row number that the last row before it has left behind."""
    [tape] = [tape for tape in TAPES if any(line["op"] == "t" and line.get("row") for line in tape.changes)]
    [table] = [table for table in built if name_of(table) == tape.table]

    assert [row["op"] for row in rows_of(table.changes.location, "op")].count("t") == 1


def test_current_states_are_the_open_versions(built: list[CapturedTable]) -> None:
    with_state = [table for table in built if name_of(table) in WITH_CURRENT]

    assert len(with_state) == len(WITH_CURRENT)
    assert [table.name for table in with_state if not current_is_open(table)] == []


@pytest.fixture
def strict(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A session that dbt has set nothing in when a trace asks it, as where dbt asks a Thrift Server: `ansi` is on."""
    write, name = trace._statement, "spark.sql.ansi.enabled"
    was = spark.conf.get(name)

    def written(*asked: Any) -> str:
        query = write(*asked)
        spark.conf.set(name, "true")
        return query

    monkeypatch.setattr(trace, "_statement", written)
    yield
    spark.conf.set(name, was)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", TRACED)
def test_a_trace_tells_the_versions_of_gold_and_what_was_accounted_for(
    spark: SparkSession, places: Places, built: list[CapturedTable], name: str
) -> None:
    [table] = [one for one in built if name_of(one) == name]
    assert table.history is not None
    traced = trace.traced(spark, places, table.name, [])
    traced_rows = [row.asDict() for row in traced.rows]
    assert len([line for line in traced.lines if line.startswith("    version from ")]) == len(
        [row for row in traced_rows if row["version_id"] is not None]
    )

    names = ("version_id", "opened_by", "closed_by", "previous_key", "next_key", "valid_from", "valid_to")
    versions = [[row[name] for name in names[:5]] + [str(row[name]) for name in names[5:]] for row in traced_rows]
    gold = rows_of(table.history.location, *names)
    assert sorted(map(str, (one for one in versions if one[0] is not None))) == sorted(
        str([row[name] for name in names[:5]] + [str(row[name]).removesuffix("+00:00") for name in names[5:]])
        for row in gold
    )

    # Gold says what it says: none differs, and none is one too many.
    assert {row["is_stored"] for row in traced_rows if row["version_id"] is not None} == {True}
    assert {tuple(row["otherwise"] or ()) for row in traced_rows} == {()}
    assert not [line for line in traced.lines if " gold " in line]

    # A change that met several keys counts once, as the most that it did; a truncate that met none changed nothing.
    became = {row["change_id"]: "no_op" for row in rows_of(table.changes.location, "change_id")}
    for row in traced_rows:
        became[row["change_id"]] = max(became[row["change_id"]], row["became"], key=WEIGHT.index)
    counted = {row["name"]: row["records"] for row in account_of(table) if row["kind"] == "disposition"}
    assert Counter(became.values()) == counted


def test_a_trace_shows_no_version_of_what_landed_behind_the_last_build(
    spark: SparkSession, places: Places, built: list[CapturedTable]
) -> None:
    [table] = [one for one in built if name_of(one) == "tapes_mariadb_grown"]
    assert table.history is not None
    progress = table_at(places.table("ops", "progress"))
    [made] = spark.sql(f"describe history {progress} limit 1").collect()
    spark.sql(f"update {progress} set batch_id = 1 where endswith(model, '.{table.history.name}')")

    rows = trace.traced(spark, places, table.name, []).rows

    spark.sql(f"restore table {progress} to version as of {made['version']}")
    landed = {row["change_id"]: row["batch_id"] for row in rows_of(table.changes.location, "change_id", "batch_id")}
    late = [row for row in rows if landed[row["change_id"]] > 1]
    assert late
    assert {(row["became"], row["version_id"]) for row in late} == {("waiting", None)}
    assert {(row["is_stored"], row["otherwise"]) for row in rows} == {(None, None)}, (
        "it has more than it is known to have"
    )


def test_a_full_refresh_equals_the_batches(gold: Rows, places: Places, built: list[CapturedTable]) -> None:
    """Behind all tests that look at what the batches made; those that plant faults come after it."""
    in_batches = {tape.table for tape in TAPES if any(batch > 1 for batch, _ in tape.records())}
    grown = accounts_of(table for table in built if name_of(table) in in_batches)
    names = [f"{name}_history" for name in grown]

    run_models(places, "--full-refresh", "--select", *names, accounting=True)

    assert grown
    assert {name: account for name, account in accounts_of(built).items() if name in grown} == grown
    anew = {name_of(table): tape_versions(table) for table in built if table.name in grown}
    assert anew == {table: gold[table] for table in anew}


def failures(places: Places, *selected: str) -> dict[str, int]:
    """Of the tests of dbt that are selected those that fail, each with how many rows."""
    said = run_dbt(places, ["--quiet", "--no-write-json", "test", "--select", *selected])
    return {one.node.test_metadata.name: one.failures for one in said.result if one.status == "fail"}


def test_dbt_tests_notice_what_no_change_said(
    spark: SparkSession, places: Places, tested: dict[str, CapturedTable]
) -> None:
    table = tested["tapes_mariadb_grown"]
    assert table.history is not None
    assert table.current is not None
    laws = {
        "at_most_one_open_version", "equals_open_versions", "every_change_is_accounted_for", "versions_are_traceable",
    }  # fmt: skip
    lost = rows_of(table.history.location, "id")[0]["id"]

    assert failures(places, f"{table.name}_*") == {}
    spark.sql(f"update {table_at(table.history.location)} set is_current = null, name = 'x' where not is_current")
    spark.sql(f"update {table_at(table.current.location)} set name = null")
    spark.sql(f"delete from {table_at(table.history.location)} where id = '{lost}'")
    assert laws <= failures(places, f"{table.name}_*").keys()

    history = table_at(table.history.location)
    whole = rows_of(table.history.location, "id", "version_id", "is_current")
    doubled = whole[0]
    for name in (doubled["id"], "nobody"):
        spark.sql(
            f"insert into {history} by name select * except (id), '{name}' as id from {history}"
            f" where version_id = '{doubled['version_id']}' limit 1"
        )
    rows = trace.traced(spark, places, table.name, []).rows
    kept = {
        row["version_id"]: "is_current" in row["otherwise"] for row in rows if row["is_stored"] and row["change_id"]
    }
    assert kept == {row["version_id"]: not row["is_current"] for row in whole}
    assert {json.loads(row["key"])["id"] for row in rows if row["is_stored"] is False} == {lost}
    assert {json.loads(row["key"])["id"] for row in rows if row["change_id"] is None} == {doubled["id"], "nobody"}
    lines = list(trace.traced(spark, places, table.name, [f"id={lost}"]).lines)
    assert f"    gold has no such version: `tidemark rebuild{places.option} {table.name}` makes it anew" in lines
    lines = list(trace.traced(spark, places, table.name, ["id=nobody"]).lines)
    assert lines[0] == f'{table.name} {{"id": "nobody"}}: 0 changes, 0 versions'
    assert [line.partition(" from ")[0] for line in lines[1:]] == ["    gold has a version"]


def test_dbt_tests_notice_ends_that_no_change_told_and_lost_columns(
    spark: SparkSession, places: Places, tested: dict[str, CapturedTable]
) -> None:
    table = tested["tapes_postgresql"]
    assert table.history is not None
    assert table.current is not None
    history, current = (table_at(one.location) for one in (table.history, table.current))
    rows = rows_of(table.history.location)
    living = {row["id"] for row in rows if row["is_current"]}
    gone = [row["version_id"] for row in rows if row["closed_by"] == "delete" and row["id"] not in living]
    first = {row["closed_by"]: row["version_id"] for row in reversed(rows) if row["version_id"] not in gone}

    def plant(version: str, *faults: str) -> None:
        spark.sql(f"update {history} set {', '.join(faults)} where version_id = '{version}'")

    plant(first[None], "is_current = false", "valid_to = valid_from", "closed_by = 'delete'")
    spark.sql(f"delete from {current} where version_id = '{first[None]}'")
    plant(gone[0], "is_current = true", "valid_to = null", "closed_by = null")
    shown = ", ".join(map(quoted, spark.table(current).columns))
    spark.sql(f"insert into {current} by name select {shown} from {history} where version_id = '{gone[0]}'")
    plant(gone[1], "valid_to = valid_to + interval 1 day")
    plant(gone[2], "closed_by = 'truncate'")
    plant(first["update"], "closed_by = 'snapshot'")
    plant(first["key_change"], "next_key = '{}'")
    closed = [row["version_id"] for row in rows if row["opened_by"] == "insert" and not row["is_current"]]
    plant(next(one for one in closed if one not in (*gone, *first.values())), "exact_values = null")
    assert failures(places, f"{table.name}_*") == {"versions_are_traceable": 7}
    assert len(untold(spark, places, [table])) == 7

    spark.sql(f"create or replace table {history} using delta as select * except (note) from {history}")
    assert failures(places, f"{table.name}_*") == {"versions_are_traceable": 8}
    assert len(untold(spark, places, [table])) == 8

    spark.sql(f"create or replace table {current} using delta as select * except (name) from {current}")
    assert failures(places, f"{table.name}_*") == {"versions_are_traceable": 8, "equals_open_versions": 1}


def test_dbt_tests_notice_versions_out_of_order(
    spark: SparkSession, places: Places, tested: dict[str, CapturedTable]
) -> None:
    """Behind the test that sees these laws hold."""
    history = tested["tapes_postgresql"].history
    assert history is not None
    lives = defaultdict(list)
    for version in tape_versions(tested["tapes_postgresql"]):
        lives[version["id"]].append(version)
    alone = [life[0] for life in lives.values() if len(life) == 1]
    twice = [life for life in lives.values() if len(life) == 2]
    too_long, (_, runs_back), *_ = [life for life in twice if life[0]["closed_by"] != "update"]
    faults = {
        "valid_to = valid_to + interval 1 day": too_long[0],
        "valid_to = valid_from - interval 1 day": next(one for one in alone if not one["is_current"]),
        "valid_from = null": next(one for one in alone if one["is_current"]),
        "valid_to = valid_from": next(
            one for one, _ in twice if one["closed_by"] == "update" and one["valid_from"] < one["valid_to"]
        ),
        "valid_from = valid_from - interval 1 day": runs_back,
    }
    for fault, version in faults.items():
        spark.sql(f"update {table_at(history.location)} set {fault} where version_id = '{version['version_id']}'")

    found = {"versions_do_not_overlap": 3, "gaps_follow_a_close": 1, "order_agrees_with_position": 1}
    assert failures(places, *(f"{history.name},test_name:{law}" for law in found)) == found
