"""What is declared sensitive is shown by no command but `sql`, and stands in no log, report or artefact."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.cli import main
from spark_jobs.declarations import Declared, declared_tables
from spark_jobs.places import Places
from spark_jobs.quarantine import is_shown
from spark_jobs.reporting.check import check
from spark_jobs.reporting.evidence import RunSummary
from tests.jobs.conftest import BAD, GOOD, PLANTED, CommandLine
from tests.jobs.lines import TOPIC, line

SUITE = "expectations/suites/bad__public__people.py"
MODEL = "models/silver/changes/bad__public__people_changes.sql"
EVENTS = "models/silver/outbox/outbox__person_events.sql"
OUTBOX = "outbox.event.Person"
PLAIN = 'return suite(TABLE, "silver_current")'
FAILING = """return suite(TABLE, "silver_current", [
        gx.expectations.ExpectColumnValuesToMatchRegex(column="email", regex="@", severity="warning")
    ])"""


@pytest.fixture(scope="module")
def landed(home: CommandLine) -> int:
    """The exit status of landing those of all these tests, and an outbox's: an event, and one without its id."""
    events = [
        line(place, None, {"email": PLANTED}, topic=OUTBOX, headers=headers)
        for place, headers in enumerate(([{"key": "id", "value": "e-1"}], []))
    ]
    return main(["land", home.write("mixed.jsonl", *GOOD, *BAD.values(), *events), "--project-dir", str(home.project)])


def declare(project: Path) -> None:
    """Make `email` sensitive wherever it is, and add an expectation that its planted value fails."""
    for path in project.rglob("bad__public__places*"):
        path.unlink()
    for name in (MODEL, EVENTS):
        model = (project / name).read_text()
        assert "'email': 'string'" in model
        (project / name).write_text(
            model.replace("'email': 'string'", "'email': {'type': 'string', 'sensitive': true}")
        )
    suite = (project / SUITE).read_text()
    assert PLAIN in suite
    (project / SUITE).write_text(suite.replace(PLAIN, FAILING))


def files_of(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in folder.rglob("*") if path.is_file())


def test_a_sensitive_value_is_shown_nowhere(tidemark: CommandLine, spark: SparkSession, landed: int) -> None:
    said = [tidemark("scaffold")]
    declare(tidemark.project)
    commands = (
        ["build"], ["check"], ["status"], ["tables"], ["tables", "--json"], ["trace", "bad__public__people", "id=1"],
        ["catalog"],
    )  # fmt: skip
    said += [tidemark(*command) for command in commands]
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
    assert len([one for one in shown if "Values are hashes" in one.out]) == len([*BAD, OUTBOX])
    # And who only asks dbt left what it had said of the build.
    assert json.loads((tidemark.project / "target/run_results.json").read_text())["args"]["which"] == "build"
    report = json.loads((tidemark.lakehouse / "reports/latest/report.json").read_text())
    assert [one["unexpected_count"] for one in report["expectations"] if "match_regex" in one["expectation"]] == [2]
    assert PLANTED in tidemark("sql", "select email from bad__public__people_current").out

    # What no model declares is hidden as if it were declared so, and a field of an outbox hides its topics.
    places = Places.of(tidemark.project)
    declared = declared_tables(places)
    [table] = declared.tables
    plain = replace(table, columns=tuple({**one, "sensitive": False} for one in table.columns))
    bare = replace(plain, columns=tuple(one for one in plain.columns if one["name"] != "email"))
    plainly = [replace(one, is_hidden=False) for one in declared.channels]
    shown_topics = [
        [topic for topic in (TOPIC, OUTBOX) if is_shown(spark, places, Declared([one], channels), topic)]
        for one, channels in ((table, plainly), (plain, plainly), (bare, plainly), (plain, declared.channels))
    ]
    assert shown_topics == [[], [TOPIC, OUTBOX], [], [TOPIC]]
    summary = RunSummary("outbox", "tidemark check", datetime.now(UTC))
    held = check(spark, places, Declared([plain], declared.channels), summary).evidence.quarantine
    assert {one.topic for one in held} >= {TOPIC, OUTBOX}
    assert {one.topic for one in held if PLANTED in str(one.samples)} == {TOPIC}
