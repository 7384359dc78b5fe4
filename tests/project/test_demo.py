"""The demo's lakehouse, built once: dbt by itself on it, the analysts' questions, and what readers and scripts see."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from dbt.selected_resources import set_selected_resources
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.cli import main
from spark_jobs.declarations import Declared, run_dbt
from spark_jobs.names import table_at
from spark_jobs.query import as_json, rows_of, show_tables
from spark_jobs.scaffolding.tables import seen_channels, seen_tables
from spark_jobs.scaffolding.write import differences, files_of_channels
from spark_jobs.trace import traced
from tests.demo import PROJECT, Demo, built_demo
from tests.projects import forget_tables

QUERIES = sorted((PROJECT / "examples/queries").glob("*.sql"))
KEYED = ("customers", "order_lines", "scratch2")
VIEWS = {
    "inv__public__customers_as_of",
    "inv__public__customers_changes_between",
    "inv__public__customers_with_past",
    "inv__public__order_lines_with_customers",
}
HISTORIES = {f"inv__public__{table}_history" for table in KEYED}


@pytest.fixture(scope="module")
def demo(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    forget_tables(spark)
    yield built_demo(spark, tmp_path_factory.mktemp("demo"))
    forget_tables(spark)


@pytest.fixture(scope="module")
def manifest(demo: Demo) -> dict[str, Any]:
    assert run_dbt(demo.places, ["--quiet", "docs", "generate"]).success
    return artifact(demo, "manifest")


def artifact(demo: Demo, name: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((demo.places.project / "target" / f"{name}.json").read_text())
    return said


def models_of(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {key: node for key, node in manifest["nodes"].items() if node["resource_type"] == "model"}


def versions_of(demo: Demo) -> dict[str, int]:
    return {
        model.location: DeltaTable(model.location).version()
        for table in demo.tables
        for model in (table.changes, table.current, table.history)
        if model is not None
    }


# dbt by itself


def test_every_model_is_built_with_four_threads(demo: Demo) -> None:
    assert demo.built == dict.fromkeys(demo.names("--resource-type", "model"), "success")
    assert len(demo.built) == 4 * len(KEYED) + len({"inv__public__notes_changes", "inv_messages"}) + len(VIEWS)


def test_laws_and_unit_tests_hold(demo: Demo) -> None:
    names = ("versions_do_not_overlap", "gaps_follow_a_close", "order_agrees_with_position")
    laws = demo.dbt("test", "--select", *(f"inv__public__customers_history,test_name:{name}" for name in names))
    units = demo.dbt("test", "--selector", "unit_tests")

    assert len(laws) == len(names)
    assert len(units) == 6
    assert set((laws | units).values()) == {"pass"}


def test_laws_hold_for_a_model_of_one_s_own(demo: Demo) -> None:
    """What its history declares counts for it, too: balances change without a version there."""
    gold = demo.places.project / "models/gold"
    scaffolded = gold / "history/inv__public__customers_history.yml"
    laws = next(iter(yaml.safe_load(scaffolded.read_text())["models"]))["data_tests"]
    files = {
        gold / "history/kept_customers.sql": (
            "{{ history('inv__public__customers_changes', ignore=['balance', 'updated_at']) }}"
        ),
        gold / "views/all_customers.sql": "select *, upper(name) as shouted from {{ ref('kept_customers') }}",
        gold / "views/later_customers.sql": "select * from {{ ref('all_customers') }} where id > 11",
        gold / "views/later_customers.yml": yaml.safe_dump(
            {"models": [{"name": "later_customers", "data_tests": laws}]}
        ),
    }
    try:
        for file, text in files.items():
            file.write_text(text)
        built = demo.dbt("run", "--select", "kept_customers+")
        held = demo.dbt("test", "--select", "later_customers")
    finally:
        for file in files:
            file.unlink(missing_ok=True)

    assert built == dict.fromkeys(("kept_customers", "all_customers", "later_customers"), "success")
    assert len(held) == len(laws) == 5
    assert set(held.values()) == {"pass"}


def test_the_docs_have_every_column_with_its_type(demo: Demo, manifest: dict[str, Any]) -> None:
    catalog = artifact(demo, "catalog")

    assert catalog["errors"] is None
    for key, model in models_of(manifest).items():
        described = {name: spelled(column["data_type"]) for name, column in model["columns"].items()}
        there = {name: spelled(column["type"]) for name, column in catalog["nodes"][key]["columns"].items()}
        # dbt-spark reads a view's types from a listing that shortens them (integer, array).
        is_view = model["config"]["materialized"] in ("view", "accounting")
        assert there.keys() == described.keys() if is_view else there == described, key


def spelled(data_type: str) -> str:
    return re.sub("[` ]", "", data_type)


def test_every_column_is_typed_and_described_and_every_model_tagged(manifest: dict[str, Any]) -> None:
    for key, model in models_of(manifest).items():
        assert model["description"], key
        assert model["columns"], key
        assert [name for name, column in model["columns"].items() if not column["data_type"]] == []
        assert [name for name, column in model["columns"].items() if not column["description"].strip()] == []
        assert {tag.partition(":")[0] for tag in model["tags"]} == {"layer", "source"}, key


def test_every_captured_table_has_one_source(demo: Demo, manifest: dict[str, Any]) -> None:
    read = {
        model["name"]: model["depends_on"]["nodes"]
        for model in models_of(manifest).values()
        if model["name"].endswith("_changes")
    }

    assert sorted(node for nodes in read.values() for node in nodes) == sorted(manifest["sources"])
    assert {len(nodes) for nodes in read.values()} == {1}
    assert {source["config"]["meta"]["feed"] for source in manifest["sources"].values()} == {
        table.feed for table in demo.tables
    }


def test_the_exposures_name_what_the_report_and_the_queries_read(manifest: dict[str, Any]) -> None:
    read = {
        exposure["name"]: {node.rpartition(".")[2] for node in exposure["depends_on"]["nodes"]}
        for exposure in manifest["exposures"].values()
    }
    asked = {name for query in QUERIES for name in re.findall(r"\binv__\w+", query.read_text())}

    assert read["inv__questions"] == asked
    assert read["inv__quality_report"] == {model["name"] for model in models_of(manifest).values()} - VIEWS - {
        "inv_messages"
    }


def test_every_selector_selects(demo: Demo) -> None:
    selected = {
        name: demo.names("--selector", name)
        for name in ("silver", "gold", "ops", "views", "histories", "source_inv", "laws", "unit_tests")
    }

    assert all(selected.values())
    assert selected["views"] & demo.built.keys() == VIEWS
    assert selected["gold"] & demo.built.keys() == HISTORIES | VIEWS


def test_sources_are_fresh(demo: Demo) -> None:
    assert set(demo.dbt("source", "freshness").values()) == {"pass"}


def test_a_layer_alone_builds_nothing_anew(demo: Demo) -> None:
    before = versions_of(demo)

    assert demo.dbt("run", "--select", "tag:layer:gold") == dict.fromkeys(HISTORIES | VIEWS, "success")

    assert versions_of(demo) == before


def test_a_source_s_tag_selects_all_that_is_built_of_it(demo: Demo) -> None:
    assert demo.names("--select", "tag:source:inv", "--resource-type", "model") == set(demo.built)
    assert len(demo.names("--select", "tag:source:inv", "--resource-type", "source")) == len(demo.tables)


def test_state_modified_is_the_edited_model_and_what_is_built_of_it(demo: Demo, tmp_path: Path) -> None:
    state = ("--state", str(tmp_path), "--resource-type", "model")
    demo.names("--target-path", str(tmp_path))
    assert demo.names("--selector", "modified", *state) == set()

    model = demo.places.project / "models/silver/changes/inv__public__scratch2_changes.sql"
    before = model.read_text()
    model.write_text(before.replace("'v': 'string'", "'v': {'type': 'string', 'sensitive': true}"))
    try:
        selected = demo.names("--selector", "modified", *state)
    finally:
        model.write_text(before)

    kinds = ("changes", "current", "history", "accounting")
    assert selected == {f"inv__public__scratch2_{kind}" for kind in kinds}


def test_retry_goes_on_where_a_model_failed(demo: Demo) -> None:
    model = demo.places.project / "models/silver/changes/inv__public__scratch2_changes.sql"
    before = model.read_text()
    with_more = before.replace("'v': 'string',", "'v': 'string',\n            'more': 'string',")
    selected = ("--select", "inv__public__scratch2_changes+")
    try:
        model.write_text("{{ exceptions.raise_compiler_error('planted') if execute }}" + with_more)
        failed = demo.dbt("run", *selected, "inv__public__notes_changes", is_kept=True)
        model.write_text(with_more)
        # As in a process of its own: to it dbt says nothing of what a retry selects.
        set_selected_resources(set())
        retried = demo.dbt("retry", is_kept=True)
        built = {
            kind: [
                field.name
                for field in DeltaTable(demo.places.table(layer, f"inv__public__scratch2_{kind}")).schema().fields
            ]
            for layer, kind in (("gold", "history"), ("silver", "current"))
        }
    finally:
        model.write_text(before)
        demo.dbt("run", *selected)

    assert all("more" in names for names in built.values())
    skipped = {f"inv__public__scratch2_{kind}" for kind in ("current", "history", "accounting")}
    assert failed == {
        "inv__public__notes_changes": "success",
        "inv__public__scratch2_changes": "error",
        **dict.fromkeys(skipped, "skipped"),
    }
    assert retried == dict.fromkeys({"inv__public__scratch2_changes", *skipped}, "success")


# The source's own column has the name of one of Tidemark's; types that Spark spells otherwise.
_MORE_COLUMNS = {
    "id": "integer",
    "valid_to": {"type": "timestamp", "field": "due"},
    "price": "decimal",
    "count": "decimal(10)",
    "place": "struct<`x`: integer, y: array<decimal>>",
    "wide": f"struct<{', '.join(f'f{number}: integer' for number in range(30))}>",
}
_CURRENT, _HISTORY = (f"ref('inv__public__scratch2_{kind}')" for kind in ("current", "history"))
_ALWAYS = "\"timestamp'0001-01-01'\", \"timestamp'9999-01-01'\""
_OF_SCRATCH2 = {
    "scratch2_then": f"select * from {{{{ as_of({_HISTORY}, \"timestamp'9999-01-01'\") }}}} as then",
    "scratch2_past": f"{{{{ with_past({_CURRENT}, {_HISTORY}, ['v']) }}}}",
    "scratch2_changed": f"{{{{ changes_between({_HISTORY}, ['v'], ['id'], {_ALWAYS}) }}}}",
    "scratch2_of_own": f"select id, v, valid_from as since, ends_at as until from {{{{ {_HISTORY} }}}}",
    "scratch2_joined": "{{ point_in_time_join(ref('scratch2_of_own'), ref('scratch2_of_own'),"
    " 'left_version.v = right_version.v', ['v', 'id', 'since'], ['id'], right_prefix='then_',"
    " left_names={'valid_from': 'since'}, right_names={'valid_from': 'since', 'valid_to': 'until'}) }}",
    "scratch2_followed": f"{{{{ point_in_time_join({_HISTORY}, {_HISTORY}, 'left_version.v = right_version.v',"
    " ['v', 'id'], ['id'], right_prefix='then_', at='left_version.ends_at') }}",
}
_WRONG = {
    "scratch2_part": (_OF_SCRATCH2["scratch2_past"].replace("['v']", "['id']"), 'key is ["id"], and the key of '),
    "scratch2_case": (
        _OF_SCRATCH2["scratch2_changed"].replace("['id']", "['ID']"),
        "columns names 'ID', and the table",
    ),
    "scratch2_bare": (_OF_SCRATCH2["scratch2_changed"].replace("['id']", "[]"), "has no columns to compare"),
}


def id_then(versions: list[dict[str, Any]], v: str, instant: datetime | None) -> int | None:
    """The id of the version of a key that was valid at a time."""
    ids = [
        row["id"]
        for row in versions
        if instant is not None
        and row["v"] == v
        and row["valid_from"] <= instant
        and (row["ends_at"] is None or instant < row["ends_at"])
    ]
    assert len(ids) <= 1
    return ids[0] if ids else None


def test_a_key_names_and_types_that_are_declared_otherwise_are_those_of_tests_and_of_queries(
    demo: Demo, spark: SparkSession
) -> None:
    models = demo.places.project / "models"
    log, history = (next(models.rglob(f"inv__public__scratch2_{kind}.sql")) for kind in ("changes", "history"))
    before = {file: file.read_text() for file in (log, history)}
    selected = ("--select", "inv__public__scratch2_changes+")
    views = {models / f"gold/views/{name}.sql": text for name, text in _OF_SCRATCH2.items()}
    wrong = {models / f"gold/views/{name}.sql": text for name, (text, _) in _WRONG.items()}
    names = {"opened_by": "began_by", "is_current": "is_open", "valid_to": "ends_at", "version_id": "id_of_version"}
    try:
        columns = "".join(f"            {name!r}: {declared!r},\n" for name, declared in _MORE_COLUMNS.items())
        log.write_text(before[log].replace("key=['id']", "key=['v']").replace("            'id': 'int',\n", columns))
        history.write_text(before[history].replace("_changes'", f"_changes', column_names={names}"))
        for file, text in views.items():
            file.write_text(text)
        # They name columns: what is unique, and the rows that a unit test expects.
        flags = ("--exclude", "test_name:unique", "test_type:unit", "--store-failures")
        statuses = demo.dbt("build", *selected, *flags)
        apart = demo.dbt("build", "--select", "inv__public__scratch2_history", *flags)
        versions = demo.rows("gold", "inv__public__scratch2_history")
        asked = {name: spark.table(f"gold.{name}").collect() for name in _OF_SCRATCH2}

        for file, text in wrong.items():
            file.write_text(text)
        refused = run_dbt(demo.places, ["--quiet", "--no-write-json", "run", "--select", *_WRONG]).result.results

        stored = table_at(demo.places.table("gold", "inv__public__scratch2_history"))
        spark.sql(f"update {stored} set id = id + 1")
        traced_rows = traced(spark, demo.places, "inv__public__scratch2", []).rows
    finally:
        for file in (*views, *wrong):
            file.unlink(missing_ok=True)
            spark.sql(f"drop view if exists gold.{file.stem}")
        for file, text in before.items():
            file.write_text(text)
        demo.dbt("run", *selected)

    said = {one.node.name: one.message for one in refused if one.node.name in _WRONG}
    assert {name: message in said[name] for name, (_, message) in _WRONG.items()} == dict.fromkeys(_WRONG, True)
    assert {tuple(row["otherwise"]) for row in traced_rows if row["is_stored"]} == {("id",)}
    living = {row["id_of_version"] for row in versions if row["is_open"]}
    assert {row["id_of_version"] for row in asked["scratch2_then"]} == living
    assert sorted(row["versions"] for row in asked["scratch2_past"]) == sorted(
        sum(row["v"] == one["v"] for row in versions) for one in versions if one["is_open"]
    )
    assert {row["change"] for row in asked["scratch2_changed"]} == {
        how for row in versions for how in (row["began_by"], row["closed_by"]) if how not in (None, "update")
    } | {row["began_by"] for row in versions}
    for name, instant in (("scratch2_joined", "valid_from"), ("scratch2_followed", "ends_at")):
        assert sorted(((row["v"], row["id"], row["then_id"]) for row in asked[name]), key=str) == sorted(
            ((row["v"], row["id"], id_then(versions, row["v"], row[instant])) for row in versions), key=str
        )
    assert any(row["then_id"] not in (row["id"], None) for row in asked["scratch2_followed"])
    assert set((statuses | apart).values()) == {"success", "pass", "no-op"}, "an exposure has nothing to do"
    assert len({row["v"] for row in versions}) < len({row["id"] for row in versions}) <= len(versions)
    assert all(row["began_by"] for row in versions)


def test_a_full_refresh_gives_equal_rows(demo: Demo) -> None:
    tables = [
        ("silver", "inv__public__order_lines_changes"),
        ("silver", "inv__public__order_lines_current"),
        ("gold", "inv__public__order_lines_history"),
    ]
    before = [demo.rows(*table) for table in tables]

    demo.dbt("run", "--full-refresh", "--select", "+inv__public__order_lines_current")

    assert [demo.rows(*table) for table in tables] == before
    assert all(before)


def test_empty_compiles_against_the_engine_and_takes_no_row_away(demo: Demo) -> None:
    before = demo.rows("gold", "inv__public__scratch2_history")

    # Of the tests the law that asks when a log was made, and one that gives rows of its own.
    asked = ("resource_type:model", "test_name:versions_are_traceable", "unit_test:a_log_becomes_versions")
    statuses = demo.dbt("build", "--empty", "--indirect-selection", "empty", "--select", *asked)

    assert Counter(statuses.values()) == {"success": len(demo.built), "pass": len(KEYED) + 1}
    assert demo.rows("gold", "inv__public__scratch2_history") == before


def test_dbt_works_alone_from_the_project_s_root(demo: Demo, tmp_path: Path) -> None:
    before = demo.rows("silver", "inv__public__notes_changes")
    dbt = Path(sys.executable).with_name("dbt")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("TIDEMARK_", "DBT_"))},
        "TIDEMARK_LAKEHOUSE": demo.places.lakehouse,
        "TIDEMARK_CATALOG": str(tmp_path / "catalog"),
    }

    said = subprocess.run(
        [dbt, "run", "--select", "inv__public__notes_changes"],
        cwd=demo.places.project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 0, said.stdout + said.stderr
    assert "Completed successfully" in said.stdout
    assert demo.rows("silver", "inv__public__notes_changes") == before


# The analysts' questions


def rows_as_text(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[as_text(value) for value in row] for row in rows]


def as_text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, (date, timedelta, Decimal, str, int)):
        return str(value)
    raise TypeError(f"{value!r}: give the query a type that both engines spell alike")


def expected(query: Path) -> tuple[list[str], list[list[str]]]:
    with query.with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    return names, rows


@pytest.fixture(scope="module")
def duck(demo: Demo) -> duckdb.DuckDBPyConnection:
    """DuckDB over the same tables, each under its own name, without Spark, on a machine whose time is not UTC."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'Asia/Kolkata'")
    [told] = re.findall(r"in DuckDB say\s+`([^`]*)` first", (PROJECT / "README.md").read_text())
    connection.execute(told)
    for table in demo.tables:
        for model in (table.changes, table.current, table.history):
            if model is not None:
                connection.register(model.name, DeltaTable(model.location).to_pyarrow_table())
    return connection


def test_there_are_ten_questions_each_with_its_rows() -> None:
    assert len(QUERIES) == 10
    assert all(query.with_suffix(".csv").is_file() for query in QUERIES)
    assert all(query.read_text().startswith("-- ") for query in QUERIES)


@pytest.fixture(scope="module")
def shown(demo: Demo, spark: SparkSession) -> None:
    """The tables under the names that questions have for them, as `tidemark sql` shows them."""
    show_tables(spark, demo.places, Declared(demo.tables, []))


@pytest.fixture
def elsewhere() -> Iterator[None]:
    """A machine whose time is not UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        yield
    time.tzset()


def test_tidemark_sql_answers(
    demo: Demo, elsewhere: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", demo.places.lakehouse)
    query = QUERIES[0]

    assert main(["sql", "--json", "--file", str(query), "--project-dir", str(demo.places.project)]) == 0

    require_answer(query, capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.stem)
def test_each_question_has_its_answer(shown: None, elsewhere: None, spark: SparkSession, query: Path) -> None:
    require_answer(query, [as_json(row) for row in rows_of(spark, query.read_text().strip().rstrip(";"))])


def require_answer(query: Path, lines: Sequence[str]) -> None:
    """See that lines of JSON are the rows that a question has."""
    names, rows = expected(query)
    answered = [json.loads(line) for line in lines]
    assert [list(row) for row in answered] == [names] * len(rows)
    assert rows_as_text([list(row.values()) for row in answered]) == rows


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.stem)
def test_duckdb_answers_the_same(duck: duckdb.DuckDBPyConnection, query: Path) -> None:
    answer = duck.execute(query.read_text())
    names, rows = expected(query)

    assert [column[0] for column in answer.description] == names
    assert rows_as_text(answer.fetchall()) == rows


# Key, how it was opened and closed, from and to in milliseconds behind the first, position, tier and balance; where
# the row came from and went to, and the transaction. The first changes of 1 and 2 found a state (R19); a snapshot read
# another state of 1, and lacked 5, whose next row made room for one in a transaction, as that did for a new one. 7
# changed and changed back, 8 came without values. At 23 one row died and another came and went on. From 31 and 32 rows
# go to the next key, twice. The row of 41 came again and left again. Where the first row of 51 went it died in the
# same transaction. Rows 9 and 10 passed through keys that row 8 had had.
HARD = """
    (1, 'update', 'snapshot', 0, 2, 'a', 'gold', 2, null, null, '1'),
    (1, 'before', 'update', 0, 0, 'a', 'basic', 1, null, null, '1'),
    (1, 'snapshot', null, 2, null, 'b', 'gold', 3, null, null, null),
    (2, 'update', 'delete', 0, 1, 'a', 'gold', 2, null, null, '1'),
    (2, 'before', 'update', 0, 0, 'a', 'basic', 1, null, null, '1'),
    (5, 'snapshot', 'snapshot', 0, 1, 'a', 'basic', 1, null, null, null),
    (5, 'insert', 'update', 3, 4, 'c', 'basic', 1, null, null, '3'),
    (5, 'key_change', 'update', 4, 5, 'd', 'basic', 1, 11, null, '4'),
    (5, 'insert', null, 5, null, 'e', 'basic', 1, null, null, '5'),
    (7, 'insert', 'update', 0, 150, 'a', 'gold', 1, null, null, '1'),
    (7, 'update', 'update', 150, 180, 'b', 'basic', 1, null, null, '2'),
    (7, 'update', null, 180, null, 'c', 'gold', 1, null, null, '3'),
    (8, 'insert', null, 150, null, 'a', null, null, null, null, '2'),
    (21, 'insert', 'key_change', 0, 2, 'e', 'row 1', 1, null, 23, '1'),
    (22, 'insert', 'key_change', 1, 4, 'f', 'row 2', 1, null, 23, '2'),
    (23, 'key_change', 'delete', 2, 3, 'g', 'row 1', 1, 21, null, '3'),
    (23, 'key_change', 'key_change', 4, 5, 'h', 'row 2', 1, 22, 24, '5'),
    (24, 'key_change', null, 5, null, 'i', 'row 2', 1, 23, null, '6'),
    (31, 'insert', 'key_change', 0, 6, 'j', 'row 3', 1, null, 32, '1'),
    (32, 'insert', 'update', 0, 6, 'k', 'row 4', 1, null, null, '1'),
    (32, 'key_change', 'key_change', 6, 7, 'l', 'row 3', 1, 31, 33, '7'),
    (33, 'key_change', 'update', 6, 6, 'm', 'row 4', 1, 32, null, '7'),
    (33, 'update', 'update', 6, 7, 'mm', 'row 4', 2, null, null, '9'),
    (33, 'key_change', null, 7, null, 'n', 'row 3', 1, 32, null, '8'),
    (34, 'key_change', null, 7, null, 'o', 'row 4', 1, 33, null, '8'),
    (41, 'insert', 'key_change', 0, 1, 'p', 'row 5', 1, null, 42, '1'),
    (42, 'key_change', 'key_change', 1, 2, 'q', 'row 5', 1, 41, 41, '2'),
    (41, 'key_change', 'key_change', 2, 3, 'r', 'row 5', 1, 42, 42, '3'),
    (42, 'key_change', null, 3, null, 's', 'row 5', 1, 41, null, '4'),
    (51, 'insert', 'key_change', 0, 1, 't', 'row 6', 1, null, 52, '1'),
    (51, 'insert', 'key_change', 2, 3, 'u', 'row 7', 1, null, 52, '3'),
    (52, 'key_change', null, 3, null, 'v', 'row 7', 1, 51, null, '4'),
    (62, 'key_change', 'key_change', 0, 1, 'w', 'row 8', 1, 61, 63, '1'),
    (63, 'key_change', 'delete', 1, 2, 'x', 'row 8', 1, 62, null, '2'),
    (64, 'key_change', null, 3, null, 'y', 'row 9', 1, 63, null, '4'),
    (63, 'key_change', null, 4, null, 'z', 'row 10', 1, 62, null, '5')
"""
HARD_ANSWERS: dict[str, list[list[Any]]] = {
    "02": [["8", "added", None, None, None, None]],
    "04": [
        ["1", "basic", "1", 0, 0, "0:00:00"], ["1", "gold", "2", 0, None, "0:00:00.300000"],
        ["5", "basic", "1", 0, 1, "0:00:00.001000"], ["5", "basic", "1", 3, 4, "0:00:00.001000"],
        ["5", "basic", "1", 4, 5, "0:00:00.001000"], ["5", "basic", "1", 5, None, "0:00:00.295000"],
    ],
    "06": [
        ['{"id":11}', 4, '{"id":5}', None, None, "basic"],
        ['{"id":21}', 2, '{"id":23}', None, None, "row 1"],
        ['{"id":22}', 4, '{"id":23}', 5, '{"id":24}', "row 2"],
        ['{"id":31}', 6, '{"id":32}', 7, '{"id":33}', "row 3"],
        ['{"id":32}', 6, '{"id":33}', 7, '{"id":34}', "row 4"],
        ['{"id":41}', 1, '{"id":42}', 2, '{"id":41}', "row 5"],
        ['{"id":51}', 3, '{"id":52}', None, None, "row 7"],
        ['{"id":61}', 0, '{"id":62}', 1, '{"id":63}', "row 8"],
        ['{"id":63}', 3, '{"id":64}', None, None, "row 9"],
        ['{"id":62}', 4, '{"id":63}', None, None, "row 10"],
    ],
    "08": [
        ["5", "snapshot", 1, 3, "basic", "basic"],
        ["23", "delete", 3, 4, "row 1", "row 2"],
        ["41", "key_change", 1, 2, "row 5", "row 5"],
        ["42", "key_change", 2, 3, "row 5", "row 5"],
        ["51", "key_change", 1, 2, "row 6", "row 7"],
        ["63", "delete", 2, 4, "row 8", "row 10"],
    ],
    "09": [["1", "gold", 0, "3", 2], ["5", "basic", 5, "1", 5]],
}  # fmt: skip


@pytest.mark.parametrize("number", HARD_ANSWERS)
def test_rows_are_told_apart_where_positions_tie_snapshots_lack_rows_and_keys_change_hands(number: str) -> None:
    connection = duckdb.connect()
    first = datetime(2026, 11, 21, 1, 42, 6)
    connection.execute(
        'create table inv__public__customers_history as select *, tier as name, 0 as partition, 0 as "offset",'
        " valid_to is null as is_current, concat_ws(' ', id, position, opened_by) as version_id"
        " from (select id, opened_by, closed_by, position, tier, balance, transaction_id,"
        """ '{"id":' || came_from || '}' as previous_key, '{"id":' || went_to || '}' as next_key,"""
        f" timestamp '{first}' + to_milliseconds(since) as valid_from,"
        f" timestamp '{first}' + to_milliseconds(until) as valid_to"
        f" from (values {HARD}) as rows(id, opened_by, closed_by, since, until, position, tier, balance,"
        " came_from, went_to, transaction_id))"
    )
    [query] = [one for one in QUERIES if one.stem.startswith(number)]

    assert rows_as_text(connection.execute(query.read_text()).fetchall()) == [
        [as_text(first + timedelta(milliseconds=value)) if isinstance(value, int) else as_text(value) for value in row]
        for row in HARD_ANSWERS[number]
    ]


# What readers and scripts see


def test_scaffolding_again_finds_no_difference(demo: Demo, spark: SparkSession) -> None:
    beside = files_of_channels(seen_channels(spark, demo.places))

    assert list(beside) == [f"models/silver/messages/inv_messages.{kind}" for kind in ("sql", "yml")]
    assert differences(demo.places.project, seen_tables(spark, demo.places), beside) == ""


def test_a_model_in_a_folder_of_one_s_own_is_compared_where_it_stands(
    demo: Demo, spark: SparkSession, tmp_path: Path
) -> None:
    for folder in ("models", "expectations/suites"):
        shutil.copytree(demo.places.project / folder, tmp_path / folder)
    model = tmp_path / "models/silver/changes/inv__public__customers_changes.sql"
    moved = tmp_path / "models/shop" / model.name
    moved.parent.mkdir()
    moved.write_text(model.read_text().replace("            'tier': 'string',\n", ""))
    model.unlink()
    path = f"models/shop/{model.name}"

    said = differences(tmp_path, seen_tables(spark, demo.places), {}, demo.tables).splitlines()

    assert [line for line in said if line.startswith(("-", "+"))] == [
        f"--- {path}", f"+++ {path} (seen)", "+            'tier': 'string',",
    ]  # fmt: skip


def test_deltalake_reads_every_gold_table(demo: Demo, spark: SparkSession) -> None:
    histories = [table.history for table in demo.tables if table.history is not None]

    assert {model.name for model in histories} == HISTORIES
    for model in histories:
        there = DeltaTable(model.location).to_pyarrow_table()
        in_spark = spark.table(model.relation)
        assert there.column_names == in_spark.columns
        assert sorted(there["version_id"].to_pylist()) == sorted(row["version_id"] for row in in_spark.collect())


def test_tables_lists_what_there_is_for_scripts(
    demo: Demo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", demo.places.lakehouse)

    assert main(["tables", "--json", "--project-dir", str(demo.places.project)]) == 0

    listed = {table["source"]["table"]: table for table in json.loads(capsys.readouterr().out)}
    location = f"{demo.places.lakehouse}/silver/inv__public__notes_changes"
    assert listed.keys() == {*KEYED, "notes"}
    assert listed["notes"] == {
        "source": {
            "name": "inv",
            "topics": ["inv.public.notes"],
            "connector": "postgresql",
            "db": "shop",
            "schema": "public",
            "table": "notes",
        },
        "key": [],
        "changes": {"relation": "silver.inv__public__notes_changes", "location": location, "rows": 6},
        "current": None,
        "history": None,
    }
    for name in KEYED:
        table = listed[name]
        assert table["key"] == (["order_id", "line_no"] if name == "order_lines" else ["id"])
        for kind, layer in (("changes", "silver"), ("current", "silver"), ("history", "gold")):
            built = table[kind]
            assert built.keys() == {"relation", "location", "rows"}
            assert built["relation"] == f"{layer}.inv__public__{name}_{kind}"
            assert built["rows"] == len(demo.rows(layer, f"inv__public__{name}_{kind}"))


def test_trace_tells_what_became_of_the_changes_of_a_key(
    demo: Demo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", demo.places.lakehouse)

    assert main(["trace", "inv__public__customers", "id=101", "--project-dir", str(demo.places.project)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'inv__public__customers {"id": 101}: 8 changes, 6 versions'
    assert lines[4:7] == [
        "2026-11-21 01:42:06.028000  update  inv.public.customers[0]@20  transaction 746",
        "    tier=gold",
        "    version from 2026-11-21 01:42:06.028000 (update), until 2026-11-21 01:42:06.028000, closed by update",
    ]
    assert lines.count("    closed the version before it") == 2
    assert lines[-1] == "    version from 2026-11-21 01:42:06.030000 (insert), is current"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inv__public__customer", "id=101"], "there is no such table. Did you mean inv__public__customers?"),
        (["inv__public__notes", "id=101"], "it has no history, so that no change became a version (R18)."),
        (["inv__public__customers", "name=Ann"], "it takes COLUMN=VALUE, of the key's columns: id."),
        (["inv__public__customers", "id=Ann"], "the key's column id is int, and the value can't be read as one."),
        (["inv__public__customers", "id=999"], 'select key from inv__public__customers_changes limit 5".'),
    ],
)
def test_trace_says_what_it_takes(
    demo: Demo,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", demo.places.lakehouse)

    assert main(["trace", *arguments, "--project-dir", str(demo.places.project)]) == 2

    assert capsys.readouterr().err.strip().endswith(message)
