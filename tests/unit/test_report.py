"""The report: what it says, that it is one page, and that nothing from an event gets out of its place."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import great_expectations.expectations as gxe
import jsonschema
import pandas as pd
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import spark_jobs.reporting
from expectations.checkpoint import new_context, run_checkpoint, write_docs
from expectations.results import OF_RECORDS, _is_shown
from spark_jobs import listing
from spark_jobs.connectors import connector_named
from spark_jobs.declarations import CapturedTable, Model, by_name
from spark_jobs.engine_errors import first_cause, redacted
from spark_jobs.errors import Fault
from spark_jobs.expectation_result import ExpectationResult
from spark_jobs.landing.shapes import INT_UNSIGNED, UNSIGNED
from spark_jobs.listing import _last_check, _newest
from spark_jobs.masking import Mask
from spark_jobs.names import exact_json
from spark_jobs.places import Places
from spark_jobs.reporting.accounting import Account, account
from spark_jobs.reporting.bronze_contents import Content
from spark_jobs.reporting.cuts import Cut
from spark_jobs.reporting.dbt_results import DbtResult, DbtRun, dbt_run
from spark_jobs.reporting.document import SCHEMA_FILE, document
from spark_jobs.reporting.kafka import TopicGap, TopicLag
from spark_jobs.reporting.liveness import Pulse, pulses
from spark_jobs.reporting.measures import Asked, Lag, Measures
from spark_jobs.reporting.page import compact, duration, page
from spark_jobs.reporting.quarantine import Held
from spark_jobs.reporting.report import _publish, last_report, reports_of
from spark_jobs.reporting.run import Evidence, RunSummary
from spark_jobs.reporting.schema_changes import SchemaChange
from spark_jobs.reporting.settings import Fields, SettingFinding, _fields, findings
from spark_jobs.reporting.signs import Sign, shown_key, signs
from spark_jobs.run_memory import Memory
from spark_jobs.scaffolding.write import suites_of
from spark_jobs.texts import visible
from spark_jobs.trace import Trace, _has_values
from spark_jobs.unsigned import Unsigned
from tests.projects import PROJECT

AT = datetime(2024, 5, 1, 12, tzinfo=UTC)
HOSTILE = "<script>alert('x')</script>\u202e{{ 7 * 7 }}\"><img src=x>"
SCHEMA = json.loads(Path(spark_jobs.reporting.__path__[0], SCHEMA_FILE).read_text())


def captured(name: str = "src__t", key: tuple[str, ...] = ("id",), **own: Any) -> CapturedTable:
    columns = tuple({"name": one, "type": "string", "field": one, "sensitive": False} for one in (*key, "v"))
    changes = Model(f"{name}_changes", f"silver.{name}_changes", "nowhere")
    usual: dict[str, Any] = {"name": name, "source_name": "src", "source_table": "t", "feed": name, "key": key,
                             "columns": columns, "column_names": {}, "changes": changes, "current": None,
                             "history": None, "accounting": None, "transactions": None}  # fmt: skip
    return CapturedTable(**(usual | own))


def evidence(**own: Any) -> Evidence:
    usual: dict[str, Any] = {
        "tables": [captured()],
        "accounts": [Account("table", "src__t", 10, {"opened": 7, "tombstones": 3}, {"opened": 7})],
        "expectations": [ExpectationResult("src__t", "bronze", "expect_it", "It is so.", "critical", True, 0, ())],
        "measures": {"src__t": Measures(10, 5, 7, lag=Lag(80, 250, 90_000))},
        "signs": {
            "src__t": {"missed_changes": Sign("src__t", "missed_changes", "reads that differ", 2, ('{"id":1}',))}
        },
        "quarantine": [],
        "settings": [],
        "cuts": [
            Cut(
                "src",
                {"571": {"src__t_changes": 3}, "572": {}, "573": None, "574": {"src__t_changes": 2**63 - 9}},
                16,
                4,
                17,
            )
        ],
        "lags": [
            TopicLag("default", "src.public.t", 5, 61.5, "2026-11-21 08:00:00.5", is_gone=False),
            TopicLag("default", "src.public.u", 0, None, "2026-11-21 08:00:00", is_gone=True),
        ],
        "gaps": [TopicGap("default", "src.public.t", 0, 5, 9, 4, "retention", "2026-11-21 08:00:00")],
        "dbt": None,
    }
    return Evidence(**(usual | own))


def report(found: Evidence, previous: dict[str, Any] | None = None, run_id: str = "r1", **own: Any) -> dict[str, Any]:
    run = RunSummary(run_id, "tidemark check", AT, {"land": 1.5, "build": 12.0}, **own)
    said = document(run, found, AT + timedelta(seconds=20), previous)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(said)))
    return said


def hostile() -> Evidence:
    one = ExpectationResult(HOSTILE, "gold_history", HOSTILE, HOSTILE, "critical", False, 3, (HOSTILE,))
    dbt = DbtRun("build", AT, True, 4, 0, 1, 0, 4, (DbtResult("test", HOSTILE, "fail", 3, HOSTILE),))
    return evidence(
        tables=[captured(HOSTILE, key=(HOSTILE,))],
        accounts=[Account("topic", HOSTILE, 4, {HOSTILE: 3})],
        expectations=[one],
        quarantine=[Held("no-envelope", HOSTILE, HOSTILE, 1, (HOSTILE,))],
        settings=[SettingFinding(HOSTILE, HOSTILE, HOSTILE, HOSTILE, "warning")],
        signs={HOSTILE: {HOSTILE: Sign(HOSTILE, HOSTILE, HOSTILE, 1, (HOSTILE,), HOSTILE)}},
        pulses=[Pulse(HOSTILE, AT, None, AT)],
        schema_changes={HOSTILE: [SchemaChange(HOSTILE, AT, HOSTILE, (HOSTILE,), (HOSTILE,), is_key_changed=True)]},
        dbt=dbt,
    )


class Tags(HTMLParser):
    """The tags of a page, and whatever would be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each tag."""
        self.seen.add(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href") or name.startswith("on")]


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_versions_are_told_by_as_many_changes_as_opened_some() -> None:
    one = Account("table", "src__t", 10, {"opened": 10}, versions=10, found_versions=2, found_states=2)
    assert report(evidence(accounts=[one]))["status"] == "passed"


def test_a_good_run_says_good_and_what_to_run_next() -> None:
    said = report(evidence())
    assert said["status"] == "passed"
    assert "Good:" in page(said)
    history = Model("src__t_history", "gold.src__t_history", "nowhere")
    unbuilt = captured("src__a", history=Model("src__a_history", "gold.src__a_history", "nowhere"))
    measured = {"src__a": Measures(10), "src__t": Measures(10, history=7)}
    [step] = report(evidence(tables=[unbuilt, captured(history=history)], measures=measured))["next"]
    assert " from src__t_history " in step["command"], "one that is there"


@pytest.mark.parametrize(
    "bad",
    [
        {"accounts": [Account("table", "src__t", 10, {"opened": 9})]},
        {"accounts": [Account("table", "src__t", 10, {"opened": 12, "duplicates": -2})]},
        {"accounts": [Account("table", "src__t", 10, {"opened": 10}, versions=0)]},
        {"accounts": [Account("table", "src__t", 10, {"opened": 10}, versions=11)]},
        {"accounts": [Account("table", "src__t", 10, {"opened": 10}, versions=11, found_versions=2, found_states=2)]},
        {"accounts": [Account("table", "src__t", 10, {"opened": 10}, versions=11, found_versions=1, found_states=2)]},
        {
            "expectations": [
                ExpectationResult("src__t", "bronze", "expect_it", "It is so.", "critical", False, 1, ("k",))
            ]
        },
        {"dbt": DbtRun("build", AT, True, 1, 0, 1, 0, 2, (DbtResult("test", "t", "fail", 1, ""),))},
    ],
)
def test_what_is_critical_fails_the_run(bad: dict[str, Any]) -> None:
    said = report(evidence(**bad, target=" --target other"))
    assert said["status"] == "failed"
    assert len(said["failures"]) == 1
    assert said["next"]
    assert "Bad:" in page(said)
    named = [words for words in said["failures"] if "`tidemark" in words]
    assert all("build --target other" in words for words in named)


MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("heartbeat", "change", "limit", "state", "words"),
    [
        (
            1, 40, 30, "nothing_new",
            "src: nothing new since 2024-05-01 11:20:00 UTC: heartbeats go on, the last at 2024-05-01 11:59:00 UTC,"
            " 1 min before records were last looked for.",
        ),
        (None, 1, 30, "changing", "No heartbeats came, so that silence tells nothing (CloudEventsConverter"),
        (40, 50, 30, "dead", "neither a heartbeat nor a change since 2024-05-01 11:20:00 UTC, 40 min before"),
        (None, 40, 30, "dead", "No heartbeats came: with heartbeat.interval.ms it would tell (CloudEventsConverter"),
        (
            4320, 4325, None, "nothing_new",
            "src: nothing new since 2024-04-28 11:55:00 UTC: heartbeats came until 2024-04-28 12:00:00 UTC,"
            " 72.0 h before records were last looked for; `silent_after_minutes` would warn.",
        ),
        (60, 70, None, "nothing_new", "heartbeats go on, the last at 2024-05-01 11:00:00 UTC, 60 min before"),
        (95, 500, 100, "nothing_new", "heartbeats go on, the last at 2024-05-01 10:25:00 UTC, 95 min before"),
        (500, 400, None, "changing", "6.7 h before records were last looked for; `silent_after_minutes` would warn."),
        (
            None, 400, None, "changing",
            "the last change is of 2024-05-01 05:20:00 UTC, 6.7 h before records were last looked for. No heartbeats",
        ),
        (30, None, 30, "nothing_new", "src: nothing new: heartbeats go on"),
        (50, 2, 30, "changing", "src: the last change is of 2024-05-01 11:58:00 UTC, 2 min before records"),
    ],
)  # fmt: skip
def test_a_quiet_source_is_not_a_dead_connector(
    heartbeat: int | None, change: int | None, limit: int | None, state: str, words: str
) -> None:
    def ago(minutes: int | None) -> datetime | None:
        return None if minutes is None else AT - minutes * MINUTE

    one = Pulse("src", ago(heartbeat), ago(change), AT, None if limit is None else limit * MINUTE)
    said = report(evidence(pulses=[one]))

    assert (said["connectors"][0]["state"], said["connectors"][0]["told"]) == (state, one.line)
    assert words in one.line
    assert words in page(said)
    assert (one.line in said["warnings"]) == (state == "dead")
    assert said["status"] == "passed"

    waits = replace(one, waiting=1200)
    assert waits.state == (state if state != "dead" else "nothing_new" if heartbeat else "changing")
    told = " 1,200 of its records are not landed yet, and tell more."
    assert (told in waits.line) == (state == "dead")
    assert "1 of its records is not landed yet, and tells more." in replace(waits, waiting=1, limit=MINUTE / 9).line
    assert ("heartbeats came until" in waits.line) == (heartbeat in (40, 4320))


def test_records_of_topics_that_nobody_asks_for_any_more_speak_for_no_connector() -> None:
    table, nowhere = captured(silent_after_minutes=30), Places(Path(), "", "")
    landed = [Content("src__t", "src.t", "change", "postgresql", "src", 1, 0, AT)]
    measured = {"src__t": Measures(1, last_processed_at=AT - 40 * MINUTE)}
    no_session: Any = None

    def state(minutes: int) -> str:
        lag = TopicLag("default", "src.t", 5, None, f"{AT - minutes * MINUTE:%Y-%m-%d %H:%M:%S}", is_gone=False)
        [one] = pulses(no_session, nowhere, [table], landed, measured, AT, [lag])
        return one.state

    assert [state(minutes) for minutes in (0, 59, 61)] == ["changing", "changing", "dead"]


def test_what_was_lost_is_told_with_the_label_that_it_was_landed_under() -> None:
    lost = TopicGap("eu", "src.public.t", 0, 5, 9, 4, "retention", "2026-11-21 08:00:00")
    said = report(evidence(gaps=[lost, replace(lost, source_label="default")]))

    found = [words.partition(": ")[0] for words in said["warnings"] if "removed by retention" in words]
    assert found == ["src.public.t (label eu), partition 0", "src.public.t, partition 0"]
    assert "<td><bdi>src.public.t</bdi></td><td><bdi>eu</bdi></td>" in page(said)


def test_nothing_is_said_to_be_whole_that_was_lost_or_not_looked_at() -> None:
    built, lost = (
        {"src__t": Measures(10, history=7)},
        TopicGap("eu", "src.t", 0, 5, 9, 4, "retention", "2026-11-21 08:00:00"),
    )
    whole, beside = "Nothing was lost, late or not whole.", "None beside the records that were lost before"
    accounted = captured(accounting=Model("src__t_accounting", "ops.src__t_accounting", "nowhere"))
    uncounted = captured(history=Model("src__t_history", "gold.src__t_history", "nowhere"))

    def said(measures: dict[str, Measures], *gaps: TopicGap, table: CapturedTable = accounted) -> str:
        return page(report(evidence(tables=[table], signs={}, measures=measures, gaps=list(gaps))))

    assert whole in said(built)
    assert whole in said(built, replace(lost, reason="skipped"))
    assert beside in (text := said(built, lost))
    assert whole not in text
    text, counted = said(built, table=uncounted), "every record is accounted for"
    assert "None was counted of <bdi>src__t</bdi>" in text
    assert (whole in text, counted in text, counted in said(built)) == (False, False, True)
    for changes, is_looked_for in ((None, False), (10, True)):
        text = said({"src__t": Measures(changes)})
        assert "None was counted: no history is built." in text
        assert ("None was looked for: nothing is built." not in text) == is_looked_for
        assert ("betray no harmful setting" in text) == is_looked_for
        assert whole not in text


def test_status_tells_whose_topics_are_gone_and_which_target_to_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def gap(label: str, records: int | None) -> TopicGap:
        return TopicGap(label, "src.t", 0, 5, 9, records, "retention", "2026-11-21 08:00:00")

    no_session: Any = None
    labels = ("default", "eu")
    lags = [TopicLag(one, "src.t", 0, None, "2026-11-21 08:00:00", is_gone=True) for one in labels]
    monkeypatch.setattr(listing, "lags", lambda *_: lags)
    monkeypatch.setattr(listing, "gaps", lambda *_: [gap("default", 4), gap("eu", None), gap("default", 3)])
    monkeypatch.setattr(listing, "captured_tables", lambda _: [captured()])
    monkeypatch.setattr(listing, "table_if_made", lambda *_: None)
    places = Places.of(PROJECT, {"TIDEMARK_TARGET": "local_dev", "TIDEMARK_LAKEHOUSE": str(tmp_path)})

    lines = listing.status_lines(no_session, places)

    assert lines[-5:] == [
        "topic      src.t: gone (asked 2026-11-21 08:00:00 UTC)",
        "topic      src.t (label eu): gone (asked 2026-11-21 08:00:00 UTC)",
        "gaps       7 records of topics were lost before landing: see the report",
        "gaps       an unknown number of records of topics (label eu) were lost before landing: see the report",
        "src__t  not built yet: run `tidemark build --target local_dev`",
    ]

    monkeypatch.setattr(listing, "table_if_made", lambda *_: "a log of no changes")
    monkeypatch.setattr(listing, "_newest", lambda _: {"changes": 0, "changed_at": None, "lag": None})
    assert listing.status_lines(no_session, places)[-1] == "src__t  0 changes"

    # A connector whose clock is behind, and records behind an open transaction.
    monkeypatch.setattr(listing, "lags", lambda *_: [replace(lags[0], seconds=90.0, is_gone=False)])
    monkeypatch.setattr(
        listing, "_newest", lambda _: {"changes": 1, "changed_at": None, "lag": timedelta(seconds=-0.05)}
    )
    lines = listing.status_lines(no_session, places)
    assert "topic      src.t: 0 records to land, waiting for 1.5 min at most (asked 2026-11-21 08:00:00 UTC)" in lines
    assert lines[-1] == "src__t  1 change, lag -50 ms"


def test_a_topic_without_models_is_accounted_for_in_whatever_order_its_records_are_counted() -> None:
    counted = [
        Content("topic__src_u", "src.u", "tombstone", "", "", 2, 0, AT),
        Content("src__u", "src.u", "change", "postgresql", "src", 5, 0, AT),
    ]
    held = [Held("no-after", "no state", "src.u", 1)]

    accounts = account([], counted, held, {}, {})

    assert accounts == account([], counted[::-1], held, {}, {})
    assert [(one.subject, one.name, one.records) for one in accounts] == [("feed", "src__u", 8)]


def test_warnings_and_an_older_dbt_run_fail_nothing() -> None:
    warned = ExpectationResult("src__t", "bronze", "expect_it", "It is so.", "warning", False, 1, ())
    older = DbtRun("build", AT, False, 1, 0, 1, 0, 2, (DbtResult("test", "t", "fail", 1, ""),))
    said = report(evidence(expectations=[warned], dbt=older))
    assert said["status"] == "passed"
    assert len(said["warnings"]) == 5


def test_what_warned_in_dbt_is_a_warning_of_the_run() -> None:
    results = (DbtResult("test", "few", "warn", 3, ""), DbtResult("source", "late", "warn", None, ""))
    run = DbtRun("build", AT, True, 1, 2, 0, 0, 3, results)
    for one, said in (
        (run, "dbt build: 2 warned: few (3), late."),
        (
            replace(run, is_of_this_run=False),
            "dbt build at 2024-05-01 12:00 UTC, before this run: 2 warned: few (3), late.",
        ),
    ):
        found = report(evidence(dbt=one))
        assert [words for words in found["warnings"] if "dbt" in words] == [said]
        assert found["status"] == "passed"


def test_what_is_held_is_a_warning_of_each_run_that_says_what_helps() -> None:
    entries = [Held("line-not-json", "no object", "", 2), Held("connector_unknown", "declare it", "t", 3)]
    entries += [Held("registry-unknown", "no registry", topic, 4) for topic in ("t", "u", "v")]
    entries += [Held("no-after", "no state", "w", 1)]
    said = report(evidence(quarantine=entries, target=" --target other", bronze_target=" --target its"))

    assert said["status"] == "passed"
    assert [words for words in said["warnings"] if "quarantine" in words] == [
        "2 lines are held in the quarantine (line-not-json): no object. `tidemark quarantine list --target other` names"
        " them; mend them or take them out, and land their files again.",
        "3 records of t are held in the quarantine (connector_unknown): declare it. `tidemark quarantine list --target"
        " other` names them.",
        "12 records of t and 2 more topics are held in the quarantine (registry-unknown): no registry. `tidemark"
        " quarantine list --target other` names them; once the cause is gone, `tidemark quarantine release --target"
        " its` tries them again.",
        "1 record of w is held in the quarantine (no-after): no state. `tidemark quarantine list --target other` names"
        " them; once the cause is gone, `tidemark quarantine release --target its` tries them again.",
    ]


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([1], "src__0: 1 landed record is"),
        ([1, 2], "src__0 and 1 more captured table: 3 landed records are"),
        ([0, 4, 3], "src__0 and 2 more captured tables: 7 landed records are"),
    ],
)
def test_what_was_landed_of_tables_without_models_is_a_warning_of_each_run(counts: list[int], words: str) -> None:
    feeds = [Account("feed", f"src__{number}", one, {"no_model": one}) for number, one in enumerate(counts)]
    found = report(evidence(accounts=feeds, target=" --target other"))
    warnings = [one for one in found["warnings"] if "no model" in one]

    assert warnings == [
        f"{words} in no table, since no model is there, or none that is enabled. `tidemark scaffold` writes the models,"
        " and `tidemark build --target other` fills them."
    ]


def test_a_table_of_which_no_row_has_landed_waits_for_one() -> None:
    found = report(evidence(accounts=[Account("feed", "src__new", 3, {"no_model": 3}, landed=3, has_rows=False)]))

    assert found["next"] == []
    assert [one for one in found["warnings"] if "src__new" in one] == [
        "src__new: 3 landed deletes or truncates are in no table. `tidemark scaffold` writes its models once a row of"
        " it has landed."
    ]


def test_a_history_that_is_not_accounted_for_is_a_warning() -> None:
    history = Model("src__t_history", "gold.src__t_history", "nowhere")
    uncounted, measured = captured(history=history), {"src__t": Measures(changes=5, history=4, problems=1)}
    contents = [Content("src__t", "src.t", "change", "postgresql", "src", 5, 0, AT)]
    [one] = account([uncounted], contents, [], measured, {})

    assert {name: count for name, count in one.dispositions.items() if count} == {"not_accounted": 4, "quarantined": 1}
    assert [
        words
        for words in report(evidence(tables=[uncounted], measures=measured))["warnings"]
        if "is not counted" in words
    ] == [
        "src__t: what became of its changes is not counted. `{{ accounting('src__t_history') }}` does it: write that to"
        " models/ops/src__t_accounting.sql, or enable it there."
    ]


def test_a_cut_tells_what_it_waits_for() -> None:
    (warning,) = [words for words in report(evidence())["warnings"] if "571" in words]
    assert warning.startswith("src: 17 changes of 4 transactions are held back")
    assert "571 waits for 3 of src__t_changes; 572 waits for its END, which may come with the source's next" in warning
    assert "573 waits for its BEGIN" in warning
    assert "as MySQL's of XA, for the landing after a later one; 574 waits" in warning
    assert "574 waits for a count of src__t_changes that can be read; 12 more wait." in warning


def broken(table: str, layer: str) -> ExpectationResult:
    return ExpectationResult(table, layer, "expect_it", "It is so.", "critical", False, 1, ())


@pytest.mark.parametrize(
    ("found", "command"),
    [
        (
            evidence(expectations=[broken(one, "gold_history") for one in "dcba"], target=" --target local_dev"),
            "tidemark rebuild --target local_dev a b c d",
        ),
        (evidence(expectations=[broken("a", "bronze"), broken("b", "silver_changes")]), "tidemark rebuild b"),
        (evidence(expectations=[broken("a", "bronze")]), ""),
        (evidence(accounts=[Account("table", "src__t", 3, {"pending": 3})]), "tidemark build"),
        (
            evidence(accounts=[Account("table", "src__t", 3, {"pending": 3})], target=" --target local_dev"),
            "tidemark build --target local_dev",
        ),
        (evidence(accounts=[Account("feed", "src__new", 3, {"no_model": 3})]), "tidemark scaffold"),
        (evidence(accounts=[Account("topic", "outbox.event.new", 3, {"no_model": 3})]), "tidemark scaffold"),
        (evidence(accounts=[], tables=[], bronze_target=" --target local"), "tidemark land --target local FILES"),
        (
            evidence(
                accounts=[Account("table", "src__t", 0, {"pending": 0})],
                tables=[captured(history=Model("src__t_history", "gold.src__t_history", "nowhere"))],
                measures={"src__t": Measures()},
            ),
            "tidemark land FILES",
        ),
        (
            evidence(quarantine=[Held("no-envelope", "no envelope", "t", 2)], target=" --target local_dev"),
            "tidemark quarantine list --target local_dev",
        ),
    ],
)
def test_the_first_screen_names_the_command_that_helps(found: Evidence, command: str) -> None:
    assert [step["command"] for step in report(found)["next"]] == [command]


def test_nothing_from_an_event_gets_out_of_its_place() -> None:
    said = report(hostile(), landed={HOSTILE: 1})
    text = page(said)
    tags = Tags(text)
    assert not tags.seen & {"script", "img", "iframe", "link", "object"}
    assert tags.fetched == ["report.json", "report.schema.json"]
    assert "\u202e" not in text
    assert "\\u202e" in text
    assert "{{ 7 * 7 }}" in text
    assert json.loads(json.dumps(said))["accounting"][0]["name"] == HOSTILE


def test_what_keeps_a_report_from_being_written_is_said_once(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("one", "another"):
        os.mkfifo(folder / name)

    with pytest.raises(Fault, match=r"can't be written to .*/latest: `.*` is a named pipe\. The check itself ran"):
        _publish(None, Places(tmp_path, str(tmp_path), ""), folder, f"{tmp_path}/reports/latest")


def test_the_lag_of_a_table_is_that_of_its_last_streamed_change(spark: SparkSession) -> None:
    log = "op string, landed_at timestamp, changed_at timestamp, offset bigint, processed_at timestamp"
    stored = "timestamp'2024-05-01 12:00:00'"
    rows = [("c", 0, 0, 5), ("u", 9, 2, 7), ("r", 0, 3, 600), ("u", 1, 1, 90)]
    values = [
        f"('{op}', {stored}, {stored} + interval {changed} second, {offset},"
        f" {stored} + interval {changed + lag} second)"
        for op, offset, changed, lag in rows
    ]
    names = ", ".join(part.split()[0] for part in log.split(", "))
    changes = spark.sql(f"select * from values {', '.join(values)} as changes ({names})")
    found = [_newest(changes.where(where))["lag"] for where in ("true", "offset < 9", "op = 'r'")]
    assert found == [timedelta(seconds=7), timedelta(seconds=90), None]


def test_the_page_needs_no_network() -> None:
    text = page(report(evidence()))
    assert "default-src 'none'" in text
    assert not any(word in text for word in ("http://", "https://", "@import", "url("))


def test_times_on_the_page_have_their_zone() -> None:
    changed = {"src__t": [SchemaChange("src__t", AT, "alter it", ("v: a → b",), ("v",), is_key_changed=False)]}
    said = report(evidence(schema_changes=changed))
    assert said["schema_changes"][0]["at"] == AT.isoformat()
    assert page(said).count("<td>2024-05-01 12:00:00 UTC</td>") == 2, "of the statement, and of the run in the trend"


def test_a_report_is_the_last_one_where_no_latest_was_left(tmp_path: Path) -> None:
    reports = reports_of(places := Places(tmp_path, str(tmp_path), ""))
    assert last_report(reports) is None
    assert _last_check(places, Memory()) == "none yet"
    for name in ("20240501T120000-a", "20240502T120000-b", ".aside"):
        (tmp_path / "reports" / name).mkdir(parents=True)
        (tmp_path / "reports" / name / "report.json").write_text(json.dumps({"run_id": name, "status": "passed"}))
    # What a kill leaves on a store, where files come one by one.
    for name in ("20240503T120000-c", "latest"):
        (tmp_path / "reports" / name).mkdir()
    assert (last_report(reports) or {})["run_id"] == "20240502T120000-b"
    ended = Memory(checked_at="2024-05-02T12:01:00.5+00:00")
    assert _last_check(places, ended) == "20240502T120000-b: passed"
    ended.is_unchecked = True
    said = "20240502T120000-b: passed; runs have built since it ended, 2024-05-02T12:01:00 UTC"
    assert _last_check(places, ended) == said
    assert _last_check(places, Memory(is_unchecked=True)) == "20240502T120000-b: passed"


def test_the_trend_goes_on_and_is_bounded() -> None:
    said: dict[str, Any] | None = None
    for number in range(25):
        said = report(evidence(), said, run_id=f"r{number}")
    assert said is not None
    assert [one["run_id"] for one in said["trend"]] == [f"r{number}" for number in range(5, 25)]
    again = report(evidence(), said, run_id="r24")
    assert [one["run_id"] for one in again["trend"]].count("r24") == 1


def test_the_trend_is_told_in_numbers_that_have_room_and_by_what_runs_came_to() -> None:
    said = report(evidence(accounts=[Account("table", "src__t", 12_345_678, {"opened": 7}, {"opened": 12_345_678})]))
    text = page(said)

    assert said["status"] == "failed"
    assert "<title>r1: 12,345,678</title>" in text
    assert ">12.3 M</text>" in text
    assert '<td><span class="bad">failed</span></td>' in text
    numbers = (0, -17, 9_999, 10_000, 999_499, 999_900, 12_345_678, 10**12, 10**13)
    assert [compact(one) for one in numbers] == [
        "0", "-17", "9,999", "10 k", "999 k", "1 M", "12.3 M", "1,000 G", "10,000 G",
    ]  # fmt: skip


def test_one_is_not_told_as_many_and_thousands_are_told_apart() -> None:
    broken = ExpectationResult("src__t", "gold_history", "expect_it", "It is so.", "critical", False, 12_345, ())
    setting = SettingFinding("s", "src", "it", "else", "warning")
    dbt = DbtRun("build", AT, True, 1, 0, 1, 0, 2, (DbtResult("test", "t", "fail", 1, ""),))
    one = evidence(
        accounts=[
            Account("table", "src__t", 1, {"pending": 1}),
            Account("feed", "src__u", 1, {"no_model": 1}, landed=1),
            Account("feed", "src__v", 1, {"no_model": 1}, landed=1, has_rows=False),
        ],
        expectations=[broken], settings=[setting], dbt=dbt,
        quarantine=[Held("no-after", "no state", topic, 1) for topic in ("t", "u")],
        cuts=[Cut("src", {"571": {}}, 2, 1, 1)],
        gaps=[
            TopicGap("default", "src.t", 0, 5, 6, 1, "retention", "2026-11-21 08:00:00"),
            TopicGap("default", "src.t", 1, 5, 6, None, "topic_gone", "2026-11-21 08:00:00"),
        ],
        signs={},
    )  # fmt: skip
    said = report(one)
    told = " ".join([*said["failures"], *said["warnings"], *(step["why"] for step in said["next"])])
    for words in (
        "1 critical expectation failed", "1 node of dbt failed", "1 landed record is in", "1 captured table has no",
        "and 1 more topic are held", "1 setting of the source does harm", "2 records are held",
        "1 landed delete or truncate is in no table", "Rows that break it: 12,345",
        "1 change of 1 transaction is held back", "; 1 more waits.", "1 record (offset 5) was removed by retention",
        "records from offset 5 on, of which 1 was seen, were not landed",
    ):  # fmt: skip
        assert words in told
    quiet = page(report(evidence(gaps=[], cuts=[])))
    assert "<details open><summary>1 warning</summary>" in quiet, "as it is printed"
    assert ", 1 warning</h1>" in quiet


def test_each_harmful_setting_is_named_with_what_to_set() -> None:
    table = captured()
    found = [Content("src__t", "src.t", "change", "postgresql", "src", 10, 0)]
    measured = {"src__t": Measures(10, streamed=8, updates=4, updates_without_before=4, is_before_missing=True,
                                   unavailable=1, nulls={"v": 0}, left_as_null={"v": 2}, one_sided=("v",),
                                   undeclared=("w",))}  # fmt: skip
    unresolved = {"src__t": {"unresolved_columns": Sign("src__t", "unresolved_columns", "", 1, ())}}
    found_settings = findings(
        [table], found, measured, {"src__t": Fields(Asked(("v",)), ("id",), (), ("v",))}, {"src__t": 2}, unresolved
    )
    assert {one.setting: one.severity for one in found_settings} == {
        "provide.transaction.metadata": "warning",
        "skipped.operations": "info",
        "REPLICA IDENTITY": "warning",
        "replace.null.with.default": "warning",
        "unavailable.value.placeholder": "warning",
        "null_is_unchanged (model)": "warning",
        "time.precision.mode": "warning",
        "binary.handling.mode": "info",
        "cleanup.policy (topic)": "warning",
        "column.exclude.list": "info",
        "columns (model)": "info",
    }
    assert all(one.set_instead and one.shows for one in found_settings)


@pytest.mark.parametrize(
    ("encoding", "is_left"),
    [
        ("io.debezium.data.DoubleVector", True),
        ("io.debezium.data.SparseDoubleVector", True),
        ("io.debezium.data.geometry.Geography", True),
        ("io.debezium.data.geometry.Point", False),
        ("array:org.apache.kafka.connect.data.Decimal:2", True),
        ("array:io.debezium.data.Enum", True),
        ("array:int16", True),
        ("array:int32", False),
        ("array:io.debezium.time.Date", False),
        ("array:bytes", False),
        ("string", False),
        (None, False),
    ],
)
def test_an_encoding_tells_whether_its_large_values_are_left_out_as_null(encoding: str | None, is_left: bool) -> None:
    assert connector_named("postgresql").leaves_as_null(encoding) is is_left
    assert not connector_named("mysql").leaves_as_null(encoding)


def test_bytes_that_come_as_text_are_left_out_as_null() -> None:
    postgresql = connector_named("postgresql")
    told = [postgresql.leaves_as_null(encoding, is_bytes=True) for encoding in ("string", None, "bytes")]
    assert told == [True, True, False]
    assert not connector_named("mysql").leaves_as_null("string", is_bytes=True)


def test_declarations_that_statements_or_records_contradict_are_named() -> None:
    disputed = Fields(unsigned=("v",), signed=("w",), own_key=("a", "b"))
    found = findings([captured()], [], {"src__t": Measures(10)}, {"src__t": disputed}, {}, {})

    assert [(one.setting, one.severity) for one in found] == [
        ("encoding (model)", "warning"), ("encoding (model)", "warning"), ("key (model)", "info"),
    ]  # fmt: skip
    for one, words in zip(
        found,
        ("""no declaration says so: "v".""", """makes signed: "w".""", """have a key, "a", "b", and"""),
        strict=True,
    ):
        assert words in one.shows
    assert found[2].set_instead.startswith("""key=["a", "b"] in src__t_changes, and then tidemark scaffold""")


def test_a_compacted_topic_is_named_before_it_has_gaps() -> None:
    found = [Content("src__t", "src.t", "change", "postgresql", "src", 10, 0)]
    policies = {"src.t": "compact,delete", "src.other": "compact"}
    one = {"src__t": Measures(10)}
    [finding] = [
        finding
        for finding in findings([captured()], found, one, {}, {}, {}, compacted=policies)
        if finding.setting == "cleanup.policy (topic)"
    ]
    assert finding.severity == "warning"
    assert finding.shows.startswith('The broker says compact,delete of "src.t": it removes every record but the newest')
    assert "gaps" not in finding.shows


@pytest.mark.parametrize(
    ("connector", "settings"),
    [
        ("postgresql", {"skipped.operations", "REPLICA IDENTITY"}),
        ("mariadb", {"skipped.operations", "binlog_row_image"}),
        ("oracle", {"skipped.operations", "supplemental logging"}),
        ("sqlserver", set()),
        ("db2", {"CHG_UPD_TO_DEL_INS"}),
        ("quux", set()),
    ],
)
def test_settings_are_those_of_the_connector(connector: str, settings: set[str]) -> None:
    found = [Content("src__t", "src.t", "change", connector, "src", 10, 0)]
    measured = {"src__t": Measures(10, updates=4, updates_without_before=4, is_before_missing=True)}
    assert {one.setting for one in findings([captured()], found, measured, {}, {}, {})} == settings


def test_a_setting_that_was_mended_is_told_no_more() -> None:
    found = [Content("src__t", "src.t", "truncate", "mysql", "src", 10, 0)]
    measured = {"src__t": Measures(10, updates=5, updates_without_before=4)}
    assert findings([captured()], found, measured, {}, {}, {}) == []


def test_rows_that_a_transform_flattened_blame_no_setting_of_the_source() -> None:
    found = [Content("src__t", "src.t", "truncate", "mysql", "src", 10, 0)]
    measured = {"src__t": Measures(10, updates=4, updates_without_before=4, is_before_missing=True)}
    [finding] = findings([captured()], found, measured, {"src__t": Fields(is_flattened=True)}, {}, {})
    assert (finding.setting, finding.severity) == ("transforms", "info")
    assert "ExtractNewRecordState" in finding.shows


@pytest.mark.parametrize(("unresolved", "settings"), [(0, []), (3, ["capture.mode"])])
def test_documents_are_told_what_helps_them(unresolved: int, settings: list[str]) -> None:
    found = [Content("src__t", "src.t", "change", "mongodb", "src", 10, 0)]
    measured = {"src__t": Measures(10, streamed=8, updates=4, without_transaction=8, unavailable=4)}
    met = {"unresolved_columns": Sign("src__t", "unresolved_columns", "", unresolved, ())} if unresolved else {}
    assert [one.setting for one in findings([captured()], found, measured, {}, {}, {"src__t": met})] == settings


def test_a_source_that_streams_no_large_value_is_told_though_every_version_is_filled() -> None:
    found = [Content("src__t", "src.t", "truncate", "oracle", "src", 10, 0)]

    def told(**marks: Any) -> list[tuple[str, str]]:
        measured = {"src__t": Measures(10, unavailable=4, **marks)}
        return [(one.setting, one.severity) for one in findings([captured()], found, measured, {}, {}, {})]

    assert told(never_streamed=("v",)) == [("lob.enabled", "warning")]
    assert told() == [("unavailable.value.placeholder", "info")]


def test_columns_that_only_reads_have_values_of_are_told_beside_those_that_one_side_lacks() -> None:
    measured = {"src__t": Measures(10, null_in_stream=("v",))}
    [finding] = findings([captured()], [], measured, {}, {}, {})
    assert finding.setting == "column.exclude.list"
    assert finding.shows.startswith('Columns with values in the snapshot, and NULL in every streamed change: "v".')


def test_values_that_do_not_fit_name_the_declaration_to_change() -> None:
    rows = [Row(kind="sign", name="exact_values", records=13, sample_keys=[])]
    changed = {"src__t": [SchemaChange("src__t", None, "alter it", ("v: a → b",), ("v",), is_key_changed=False)]}
    measured = {"src__t": Measures(10, exact_values={"v": 12, "w": 1})}
    [sign] = signs([captured()], {"src__t": rows}, changed, measured, Mask(""), sample_rows=False)["src__t"].values()
    assert sign.because == (
        "`v` (string): 12 versions; `w` (not declared): 1 version. Declare a type that holds them or, where"
        " records have no schema, their `encoding` in src__t_changes. Its schema was changed by: alter it."
    )


def test_what_no_schema_describes_may_hide_null() -> None:
    measured = {"src__t": Measures(10, nulls={"v": 0})}
    [finding] = findings([captured()], [], measured, {"src__t": Fields(Asked(("v",)), is_described=False)}, {}, {})
    assert (finding.setting, finding.severity) == ("replace.null.with.default", "info")
    assert 'that no schema describes never held NULL in 10 changes: "v"' in finding.shows


def test_rows_that_a_transform_flattened_need_its_own_option_for_null() -> None:
    measured = {"src__t": Measures(10, nulls={"v": 0})}
    [finding] = findings([captured()], [], measured, {"src__t": Fields(Asked(("v",)), is_flattened=True)}, {}, {})
    assert "transforms.unwrap.replace.null.with.default=false" in finding.set_instead
    [finding] = findings([captured()], [], measured, {"src__t": Fields(Asked(("v",)))}, {}, {})
    assert "transforms" not in finding.set_instead
    assert "router" not in finding.set_instead


def test_each_converter_has_its_own_option_for_null_and_old_routers_have_none() -> None:
    measured = {"src__t": Measures(10, nulls={"v": 0})}
    [finding] = findings([captured()], [], measured, {"src__t": Fields(Asked(("v",)), is_rerouted=True)}, {}, {})
    for option in ("value.converter.json.replace.null.with.default=false", "ignore.default.for.nullables=true"):
        assert option in finding.set_instead
    assert finding.set_instead.endswith("nothing keeps NULL behind a router before Debezium 3.6")


@pytest.mark.parametrize(
    ("connector", "mode"),
    [("postgresql", "adaptive"), ("mysql", "adaptive_time_microseconds"), ("sqlserver", "adaptive")],
)
def test_the_mode_that_cuts_no_time_is_one_of_the_connector_s(connector: str, mode: str) -> None:
    found = [Content("src__t", "src.t", "change", connector, "src", 10, 0)]
    [finding] = [
        one
        for one in findings(
            [captured()], found, {"src__t": Measures(10)}, {"src__t": Fields(connect_times=("v",))}, {}, {}
        )
        if one.setting == "time.precision.mode"
    ]
    assert finding.set_instead == f"time.precision.mode={mode}"


@pytest.mark.parametrize(("connector", "cut"), [("oracle", ("v",)), ("mysql", ())])
def test_a_date_in_days_has_lost_its_time_where_the_source_has_one(connector: str, cut: tuple[str, ...]) -> None:
    days = Row(name="v", encoding="org.apache.kafka.connect.data.Date", is_optional=True, default_value=None)
    keys = json.dumps(["id", "__dbz__sourceIdentifier"])
    shape = Row(fields=[days], connector=connector, key_fields=keys, shape="{}")
    columns = ({"name": "v", "type": "date", "field": "v", "encoding": ""},)
    described = _fields(captured(columns=columns), [shape], {}, {}, is_flattened=False)

    assert described.connect_times == cut
    assert described.is_rerouted


def test_what_came_in_an_earlier_mode_is_asked_of_too() -> None:
    """The mode can have been mended since: what a record of then means is for a declaration to tell."""

    def shape(**encodings: str) -> Row:
        of_fields = [
            Row(name=name, encoding=one, is_optional=True, default_value=None) for name, one in encodings.items()
        ]
        return Row(fields=of_fields, connector="postgresql", key_fields=None, shape="{}")

    columns = tuple(
        {"name": name, "type": kind, "field": name, "encoding": encoding}
        for name, kind, encoding in (
            ("n", "decimal(20,0)", ""), ("m", "bigint", ""), ("b", "binary", ""), ("h", "binary", "hex"),
            ("s", "string", ""),
        )
    )  # fmt: skip
    shapes = [
        shape(n="int64", m="int32", b="string", h="string", s="string"),
        shape(n="org.apache.kafka.connect.data.Decimal:0", m="int64", b="bytes", h="bytes", s="string"),
    ]
    unsigned = {"n": Unsigned(UNSIGNED, True, True), "m": Unsigned(INT_UNSIGNED, True, True)}

    described = _fields(captured(columns=columns), shapes, {}, unsigned, is_flattened=False)
    assert (described.unsigned, described.binary_texts, described.asked.left_as_null) == (("n", "m"), ("b",), ())
    described = _fields(captured(columns=columns), shapes[:1], {}, {}, of_bytes={"s"}, is_flattened=False)
    assert described.asked.left_as_null == ("b", "s"), "of hexadecimal digits there is a placeholder"


DECIMAL = "org.apache.kafka.connect.data.Decimal"


def columns_v(kind: str) -> tuple[dict[str, str], ...]:
    return ({"name": "v", "type": kind, "field": "v", "encoding": ""},)


def shapes_of_v(encodings: Sequence[str | None], types: Mapping[str, str] | None = None) -> list[Row]:
    """Shapes of a table that differ in how its column comes."""
    return [
        Row(
            fields=[Row(name="v", encoding=one, spark_type=(types or {}).get(one or "", "string"), is_optional=True,
                        default_value=None)],
            connector="postgresql", key_fields=None, shape="{}" if one else "[]",
        )
        for one in encodings
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "encodings", "wanted"),
    [
        ("decimal(10,2)", [f"{DECIMAL}:2", None], f"{DECIMAL}:2"),
        ("decimal(38,18)", [None, f"{DECIMAL}:30:wide"], f"{DECIMAL}:30"),
        ("string", [f"{DECIMAL}:2", None], f"{DECIMAL}:2"),
        ("array<decimal(10,2)>", [f"array:{DECIMAL}:2", None], f"{DECIMAL}:2"),
        ("timestamp_ntz", ["io.debezium.time.MicroTimestamp", None], "io.debezium.time.MicroTimestamp"),
        ("timestamp_ntz", ["io.debezium.time.Date", None], "io.debezium.time.Date"),
        ("bigint", ["io.debezium.time.Interval", None], "io.debezium.time.Interval"),
        # What the value itself tells, or what is read by what schemas tell of it.
        ("date", ["io.debezium.time.Date", None], ""),
        ("string", ["io.debezium.time.MicroTime", None], ""),
        ("string", ["io.debezium.time.Interval", None], ""),
        ("decimal(38,18)", ["io.debezium.data.VariableScaleDecimal", None], ""),
        ("int", ["int32", None], ""),
        # Nothing tells which of two it is; and where every record has a schema, or none, nothing is asked.
        ("decimal(12,4)", [f"{DECIMAL}:2", f"{DECIMAL}:4", None], ""),
        ("decimal(10,2)", [f"{DECIMAL}:2", "double", None], ""),
        ("decimal(10,2)", [f"{DECIMAL}:2"], ""),
        ("decimal(10,2)", [None], ""),
        ("decimal(10,2)", [f"{DECIMAL}:unknown", None], ""),
    ],
)
def test_what_schemas_told_is_to_be_declared_for_records_without_one(
    kind: str, encodings: list[str | None], wanted: str
) -> None:
    described = _fields(captured(columns=columns_v(kind)), shapes_of_v(encodings), {}, {}, is_flattened=False)
    assert described.untold == ((("v", kind, wanted),) if wanted else ())

    found = [one for one in findings([captured()], [], {"src__t": Measures(1)}, {"src__t": described}, {}, {})
             if one.setting == "encoding (model)"]  # fmt: skip
    assert [(one.set_instead, one.severity) for one in found] == (
        [(f"'v': {{'type': '{kind}', 'encoding': '{wanted}'}} in src__t_changes", "warning")] if wanted else []
    )


@pytest.mark.parametrize(
    ("encodings", "wanted"),
    [
        ({"bytes": "binary", "string": "string"}, "binary"),
        ({"io.debezium.time.Interval": "string", "io.debezium.time.MicroDuration": "bigint"}, "bigint"),
        ({"string": "string", "double": "double"}, "decimal(38,18)"),
        ({f"{DECIMAL}:2": "decimal(10,2)", "double": "double"}, "decimal(10,2)"),
        ({f"{DECIMAL}:2": "decimal(10,2)", f"{DECIMAL}:4": "decimal(12,4)"}, "decimal(12,4)"),
        # Spelled alike, or nothing but text holds both.
        ({f"{DECIMAL}:2": "decimal(10,2)", "string": "string"}, ""),
        ({"int32": "int", "int64": "bigint"}, ""),
        ({"io.debezium.time.NanoTimestamp": "timestamp_ntz", "io.debezium.time.MicroTimestamp": "timestamp_ntz"}, ""),
        ({"io.debezium.time.Time": "string", "io.debezium.time.IsoTime": "string"}, ""),
        ({"string": "string", "int32": "int"}, ""),
        ({"string": "string", "io.debezium.data.Uuid": "string"}, ""),
    ],
)
def test_a_column_of_text_that_came_in_several_spellings_names_the_type_that_reads_all(
    encodings: dict[str, str], wanted: str
) -> None:
    shapes = shapes_of_v(list(encodings), encodings)
    described = _fields(captured(columns=columns_v("string")), shapes, {}, {}, is_flattened=False)
    assert described.spelled == ((("v", wanted),) if wanted else ())

    def told(key: str) -> list[tuple[str, str]]:
        found = findings([captured(key=(key,))], [], {"src__t": Measures(1)}, {"src__t": described}, {}, {})
        return [(one.set_instead.partition(" in ")[0], one.severity) for one in found if one.setting == "type (model)"]

    said = f"'v': '{wanted}'"
    assert [told("v"), told("id")] == ([[(said, "warning")], [(said, "info")]] if wanted else [[], []])


def test_a_healthy_source_is_told_nothing() -> None:
    found = [
        Content("src__t", "src.t", "change", "postgresql", "src", 10, 0),
        Content("src__t", "src.t", "truncate", "postgresql", "src", 1, 0),
        Content("topic__x", "src.transaction", "transaction", "", "", 4, 0),
    ]
    measured = {"src__t": Measures(10, streamed=8, updates=4, nulls={"v": 3})}
    assert findings([captured()], found, measured, {"src__t": Fields(Asked(("v",)))}, {}, {}) == []


def test_dbt_results_are_read_and_told_from_older_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(tmp_path, "", "", "thrift")
    assert dbt_run(places, AT, redact=False) is None
    target = tmp_path / "target"
    target.mkdir()
    nodes = [
        {"unique_id": "model.tidemark.m", "status": "success"},
        {"unique_id": "test.tidemark.t.abc", "status": "fail", "failures": 2, "message": "got 'secret'"},
        {"unique_id": "operation.tidemark.hook", "status": "success"},
    ]
    said = {"metadata": {"generated_at": AT.isoformat()}, "args": {"which": "build"}, "results": nodes}
    (target / "run_results.json").write_text(json.dumps(said))
    run = dbt_run(places, AT - timedelta(minutes=1), redact=True)
    assert run is not None
    assert (run.passed, run.failed, run.tests, run.is_of_this_run) == (1, 1, 1, True)
    assert run.results[0].message == "got …"
    older = dbt_run(places, AT + timedelta(minutes=1), redact=False)
    assert older is not None
    assert not older.is_of_this_run
    for typed, is_ours in ((None, True), ("thrift", True), ("thrift_dev", False)):
        by_target = said | {"args": {"which": "build", "target": typed}}
        (target / "run_results.json").write_text(json.dumps(by_target))
        assert (dbt_run(places, AT, redact=False) is not None) == is_ours
    for which, is_kept in (("retry", True), ("generate", False), ("compile", False)):
        (target / "run_results.json").write_text(json.dumps(said | {"args": {"which": which}}))
        assert (dbt_run(places, AT, redact=False) is not None) == is_kept
    (target / "run_results.json").write_text("half a fi")
    assert dbt_run(places, AT, redact=False) is None

    # Where dbt leaves them elsewhere.
    for named, folder in (("out", tmp_path / "out"), (str(tmp_path / "elsewhere"), tmp_path / "elsewhere")):
        folder.mkdir()
        (folder / "run_results.json").write_text(json.dumps(said))
        (tmp_path / "dbt_project.yml").write_text(f"target-path: {named}\n")
        assert dbt_run(places, AT, redact=False) is not None
    (tmp_path / "aside").mkdir()
    monkeypatch.setenv("DBT_TARGET_PATH", "aside")
    assert dbt_run(places, AT, redact=False) is None
    (tmp_path / "aside/run_results.json").write_text(json.dumps(said))
    assert dbt_run(places, AT, redact=False) is not None


def test_values_are_masked_alike_wherever_they_stand() -> None:
    one, other = Mask("one"), Mask("other")
    assert one.text("ada") == one.text(b"ada")
    assert len({one.text("ada"), one.text("bob"), other.text("ada")}) == 3
    assert redacted("Cast of 'ada' to \"int\" failed") == "Cast of … to … failed"
    assert redacted("The value 'O\\'Brien, 12 Elm St' can't be cast") == "The value … can't be cast"
    assert redacted("It ends in 'the middle") == "It ends in …"
    assert redacted("It ends in 'the middle\\") == "It ends in …"
    assert redacted("Of X'73656372' and CAN'T") == "Of … and CAN'T"
    overflow = '[CAST_OVERFLOW] The value 123456789 of the type "INT" can\'t be cast.\nUse more. SQLSTATE: 22003'
    range_ = "[NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION] The 123456.78 rounded half up. SQLSTATE: 22003"
    no_column = "[NO_COLUMN] No such. SQLSTATE: 42703"
    assert redacted(f"{no_column}\n{overflow} == it") == f"{no_column}\n[CAST_OVERFLOW] … SQLSTATE: 22003 == it"
    assert redacted(range_) == "[NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION] … SQLSTATE: 22003"
    assert first_cause(f"a.SparkError: {overflow}") == "a.SparkError: [CAST_OVERFLOW] … SQLSTATE: 22003"
    assert (
        first_cause("Job: 'Project ['id)\nCaused by: java.IOException: No space left")
        == "java.IOException: No space left"
    )
    # As dbt nests them; what came behind a full disk is not what it came from.
    nested = "Runtime Error in model m (m.sql)\n  Runtime Error\n    "
    full = "  Caused by: a.FSError: java.io.IOException: No space left on device\n"
    assert first_cause(f"{nested}[NO_COLUMN] No such. SQLSTATE: 42703") == "[NO_COLUMN] No such. SQLSTATE: 42703"
    assert (
        first_cause(f"{nested}: a.B.WriteException: [FAILED]\n{full}  Caused by: a.B.WriteException: [FAILED]")
        == "java.io.IOException: No space left on device"
    )
    assert first_cause(f"The value 'one\ntwo' and '{'x' * 600}'\n at x") == "The value … and …"


@pytest.mark.parametrize(
    "key",
    [
        '{"id": 9007199254740993.000000000000000000, "v": 0E-18}',
        '{"id": -1, "v": {"a": [true, null, 12345678901234567890, "ü"]}}',
    ],
)
def test_keys_are_shown_with_all_their_digits(key: str) -> None:
    table = captured(key=("id", "v"))
    compact = key.replace(", ", ",").replace(": ", ":")
    assert [shown_key(table, one, Mask("")) for one in (key, compact)] == [key, key]


def test_trace_finds_a_key_as_it_is_shown(spark: SparkSession) -> None:
    log = spark.sql("select struct(X'ff00' as id, cast('9007199254740993' as decimal(38, 18)) as v) as key")
    table = captured(key=("id", "v"))
    [[key]] = log.select(exact_json(F.col("key"))).collect()
    shown = json.loads(shown_key(table, key, Mask("")), parse_float=str)
    pairs = [f"{name}={value}" for name, value in shown.items()]
    assert pairs == ["id=/wA=", "v=9007199254740993.000000000000000000"]
    assert log.where(_has_values(spark, log, table, pairs)).count() == 1


@pytest.mark.parametrize(
    ("options", "differs", "words"),
    [
        ({}, [], "equals the version before it (R12)"),
        ({"ignore": ["seen"]}, ["seen"], "differs in ignored columns alone, whose newest value the version has (R12)"),
        ({"track": ["v"]}, ["seen"], "differs in ignored columns alone, whose newest value the version has (R12)"),
        # A read of a rounded value.
        ({"ignore": ["seen"]}, ["v"], "equals the version before it (R12)"),
    ],
)
def test_a_change_without_a_version_is_told_with_what_it_differs_in(
    options: dict[str, Any], differs: list[str], words: str
) -> None:
    row = Row(became="no_op", is_end=False, columns=[Row(name=name, value="1") for name in differs])

    assert Trace(captured(history_options=options), [], Mask(""), "")._became(row) == words


def test_a_trace_says_where_gold_says_otherwise() -> None:
    def row(**own: Any) -> Row:
        usual = dict.fromkeys(("transaction_id", "valid_to", "closed_by", "previous_key", "next_key", "otherwise"))
        usual |= {"key": '{"id":"a"}', "changed_at": "2024-05-01 12:00:00", "op": "c", "topic": "t", "partition": 0}
        usual |= {"offset": 7, "columns": [], "signs": [], "is_end": False, "valid_from": "2024-05-01 12:00:00"}
        usual |= {"opened_by": "insert", "unresolved_columns": [], "became": "opened", "version_id": "v"}
        return Row(**usual | own)

    rows = [
        row(change_id="1", is_stored=False),
        row(change_id="2", is_stored=True, otherwise=["v", "valid_to"]),
        row(change_id="3", is_stored=True, otherwise=[]),
        row(change_id="4", is_stored=None, became="waiting", version_id=None),
        row(change_id=None, is_stored=True, became=None, opened_by="update"),
    ]
    lines = list(Trace(captured(), rows, Mask(""), " --target other").lines)
    mend = "`tidemark rebuild --target other src__t` makes it anew"

    assert lines[0] == 'src__t {"id": "a"}: 4 changes, 3 versions'
    assert [line for line in lines if "gold" in line] == [
        f"    gold has no such version: {mend}",
        f"    gold says otherwise of v, valid_to: {mend}",
        f"    gold has a version from 2024-05-01 12:00:00 (update), is current, and no change opened it: {mend}",
    ]
    assert lines.index(f"    gold has no such version: {mend}") == 3


def test_a_table_s_own_name_counts_before_that_of_another_s_model() -> None:
    history = Model("orders_history", "gold.orders_history", "nowhere")
    orders, beside = captured("orders", history=history), captured("orders_history")

    for tables in ([orders, beside], [beside, orders]):
        found = by_name(tables)
        assert (found["orders"], found["orders_changes"]) == (orders, orders)
        assert (found["orders_history"], found["orders_history_changes"]) == (beside, beside)


@pytest.mark.parametrize(("layer", "is_shown"), [("gold_history", True), *((layer, False) for layer in OF_RECORDS)])
def test_a_column_of_records_is_not_the_source_s_that_has_its_name(layer: str, is_shown: bool) -> None:
    columns = ({"name": "value", "type": "string", "field": "value", "sensitive": False},)

    assert (
        _is_shown(captured(columns=columns, key=("value",)), layer, gxe.ExpectColumnValuesToBeNull(column="value"))
        == is_shown
    )


@pytest.mark.parametrize("samples", [3, 0])
def test_data_docs_are_plain_pages_and_show_no_values_where_no_rows_are_shown(tmp_path: Path, samples: int) -> None:
    table, rows = captured(), pd.DataFrame({"id": ["17", "secret", None], "v": ["a", "secret", "secret"]})
    expected = [
        gxe.ExpectColumnMostCommonValueToBeInSet(column="v", value_set=["z"]),
        gxe.ExpectColumnValuesToBeInSet(column="id", value_set=["z"]),
        gxe.ExpectColumnValuesToNotBeNull(column="v"),
    ]
    context = new_context(tmp_path)
    found = run_checkpoint(context, table, "gold_history", expected, rows, samples, Mask("salt"))
    others = [gxe.ExpectColumnValuesToNotBeNull(column="v")]
    run_checkpoint(context, table, "silver_current", others, rows, samples, Mask("salt"))
    write_docs(context, tmp_path)

    index = Tags((tmp_path / "data_docs/index.html").read_text())
    pages = [tmp_path / "data_docs" / unquote(link) for link in index.fetched]
    assert [page.parts[-5:-3] for page in pages] == [("src__t", "gold_history"), ("src__t", "silver_current")]
    assert {page for page in tmp_path.rglob("*") if page.is_file()} == {tmp_path / "data_docs/index.html", *pages}
    for page_at in pages:
        tags = Tags(text := page_at.read_text())
        assert "Content-Security-Policy" in text
        assert not tags.seen & {"script", "link", "img"}
        there = [link for link in tags.fetched if not link.startswith("#")]
        assert [(page_at.parent / link).resolve() for link in there] == [tmp_path / "data_docs/index.html"]
    assert {one.expectation.partition("values_to_")[2]: one.unexpected_count for one in found if not one.passed} == {
        "": None, "be_in_set": 2,
    }  # fmt: skip
    text = pages[0].read_text()
    assert ("secret" in text) == bool(samples)
    assert not any(one.sample_keys for one in found if not samples)
    assert "2 unexpected values found" in text


@pytest.mark.parametrize(("is_sensitive", "hidden"), [(True, {"v", "document"}), (False, set())])
def test_a_document_is_as_sensitive_as_its_fields(is_sensitive: bool, hidden: set[str]) -> None:
    fields = {"id": "id", "v": "v", "document": "$"}
    columns = tuple(
        {"name": name, "type": "string", "field": one, "sensitive": is_sensitive and name == "v"}
        for name, one in fields.items()
    )

    assert captured(columns=columns).sensitive == hidden


def test_a_column_of_the_key_that_no_model_declares_is_hidden() -> None:
    declared = captured()
    table, mask = replace(declared, key=("id", "region")), Mask("salt")

    assert json.loads(shown_key(table, '{"id": "a", "region": "eu"}', mask)) == {"id": "a", "region": mask.text("eu")}
    assert table.sensitive - declared.sensitive == {"region"}


def test_a_sensitive_value_has_one_hash_wherever_it_stands(spark: SparkSession) -> None:
    values = {
        "text": """'say "ü"'""", "number": "9007199254740993", "flag": "true", "nothing": "cast(null as int)",
        "exact": "cast(0 as decimal(38, 18))", "precise": "cast('9007199254740993.1' as decimal(38, 18))",
        "day": "date'2024-05-01'", "moment": "timestamp'2024-05-01 12:00:00.5'", "bytes": "X'ff00'", "real": "1e10D",
    }  # fmt: skip
    columns = tuple({"name": one, "type": "string", "field": one, "sensitive": True} for one in values)
    table, mask = captured(key=tuple(values), columns=columns), Mask("salt")
    row = spark.range(1).select(*[F.expr(value).alias(name) for name, value in values.items()])
    [hashed] = row.select(*[mask.column(F.col(name)).alias(name) for name in values]).collect()
    [key] = row.select(exact_json(F.struct(*values))).collect()
    assert json.loads(shown_key(table, key[0], mask)) == hashed.asDict()
    assert (hashed["text"], hashed["nothing"]) == (mask.text('say "ü"'), None)
    assert [mask.value(table, "flag", one) for one in (True, None)] == [hashed["flag"], None]


def test_hidden_letters_and_lengths_of_time_are_spelled() -> None:
    assert visible("a\u200fb\x00\n") == "a\\u200fb\\u0000\n"
    assert [duration(one) for one in (-50, 7, 999.6, 1_500, 59_999, 90_000, 7_200_000, 864_000_000)] == [
        "-50 ms", "7 ms", "1 s", "1.5 s", "1 min", "1.5 min", "2 h", "10 d",
    ]  # fmt: skip


@pytest.mark.parametrize("column", ["name", "a.b", "select", "Odd Name", "ü", 'quo"te', "back\\slash", '"""', "\u202e"])
@pytest.mark.parametrize("key", [("id",), ()])
def test_a_suite_is_python_whatever_the_names_are(column: str, key: tuple[str, ...]) -> None:
    columns = tuple({"name": one, "type": "string", "field": one, "sensitive": False} for one in (*key, column))
    [source] = suites_of([captured(key=key, columns=columns)]).values()
    names = compile(source, "suite", "exec").co_names
    assert ("gold_history" in names) == bool(key)
    assert 'TABLE = "src__t"' in source
