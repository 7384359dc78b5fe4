"""What is declared sensitive is shown by no command but `sql`, and stands in no log, report or artefact."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.declarations import captured_tables
from spark_jobs.places import Places
from spark_jobs.quarantine import is_shown
from spark_jobs.reporting.check import check
from spark_jobs.reporting.run import RunSummary
from tests.jobs.conftest import BAD, PLANTED, CommandLine
from tests.jobs.lines import TOPIC

SUITE = "expectations/suites/bad__public__people.py"
MODEL = "models/silver/changes/bad__public__people_changes.sql"
PLAIN = 'return suite(TABLE, "silver_current")'
FAILING = """return suite(TABLE, "silver_current", [
        gx.expectations.ExpectColumnValuesToMatchRegex(column="email", regex="@", severity="warning")
    ])"""


def declare(project: Path) -> None:
    """Make `email` sensitive, and add an expectation that its planted value fails."""
    for path in project.rglob("bad__public__places*"):
        path.unlink()
    model = (project / MODEL).read_text()
    assert "'email': 'string'" in model
    (project / MODEL).write_text(model.replace("'email': 'string'", "'email': {'type': 'string', 'sensitive': true}"))
    suite = (project / SUITE).read_text()
    assert PLAIN in suite
    (project / SUITE).write_text(suite.replace(PLAIN, FAILING))


def files_of(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in folder.rglob("*") if path.is_file())


def test_a_sensitive_value_is_shown_nowhere(tidemark: CommandLine, spark: SparkSession, landed: int) -> None:
    said = [tidemark("scaffold")]
    declare(tidemark.project)
    said += [tidemark(*command) for command in (["build"], ["check"], ["status"], ["tables"], ["tables", "--json"])]
    listed = tidemark("quarantine", "list", "--json")
    entries = [
        entry["quarantine_id"]
        for entry in map(json.loads, listed.out.splitlines())
        if entry["origin"].endswith("mixed.jsonl")
    ]
    shown = [tidemark("quarantine", "show", entry) for entry in entries]
    said += [listed, *shown, tidemark("quarantine", "release")]
    files = [
        *files_of(tidemark.project / "logs", tidemark.project / "target"),
        *files_of(tidemark.lakehouse / "logs", tidemark.lakehouse / "reports"),
    ]

    assert [one for one in said if one.status] == []
    assert [path for path in files if PLANTED.encode() in path.read_bytes()] == []
    assert [one for one in said if PLANTED in one.out + one.err] == []
    # It was there to be shown.
    assert {"run_results.json", "dbt.log", "report.json", "report.html"} <= {path.name for path in files}
    assert len([one for one in shown if "Values are hashes" in one.out]) == len(BAD)
    report = json.loads((tidemark.lakehouse / "reports/latest/report.json").read_text())
    assert [one["unexpected_count"] for one in report["expectations"] if "match_regex" in one["expectation"]] == [2]
    assert PLANTED in tidemark("sql", "select email from bad__public__people_current").out

    # What no model declares is hidden as if it were declared so.
    places = Places.of(tidemark.project)
    [table] = captured_tables(places)
    plain = replace(table, columns=tuple({**one, "sensitive": False} for one in table.columns))
    bare = replace(plain, columns=tuple(one for one in plain.columns if one["name"] != "email"))
    assert [is_shown(spark, places, [one], TOPIC) for one in (table, plain, bare)] == [False, True, False]
    found = check(spark, places, [bare], RunSummary("bare", "tidemark check", datetime.now(UTC))).evidence
    assert found.quarantine
    assert PLANTED not in str(found)
