"""The report: what it says, that it is one page, and that nothing from an event gets out of its place."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import great_expectations.expectations as gxe
import jsonschema
import pandas as pd
import pytest
from pyspark.sql import Row, SparkSession

import spark_jobs.reporting
from expectations.checkpoint import new_context, run_checkpoint, write_docs
from spark_jobs import listing
from spark_jobs.declarations import CapturedTable, Model, by_name
from spark_jobs.errors import Fault
from spark_jobs.expectation_result import ExpectationResult
from spark_jobs.listing import _last_check, _newest
from spark_jobs.masking import Mask
from spark_jobs.places import Places
from spark_jobs.reporting.accounting import Account, EventTable, account
from spark_jobs.reporting.bronze_contents import Content
from spark_jobs.reporting.cuts import Cut
from spark_jobs.reporting.dbt_results import DbtResult, DbtRun
from spark_jobs.reporting.document import SCHEMA_FILE, document
from spark_jobs.reporting.evidence import Evidence, RunSummary
from spark_jobs.reporting.kafka import TopicGap, TopicLag
from spark_jobs.reporting.liveness import Pulse, pulses
from spark_jobs.reporting.measures import Lag, Measures
from spark_jobs.reporting.page import compact, duration, page
from spark_jobs.reporting.quarantine import Held
from spark_jobs.reporting.report import _publish, last_report, reports_of
from spark_jobs.reporting.schema_changes import SchemaChange
from spark_jobs.reporting.settings import SettingFinding
from spark_jobs.reporting.signs import Sign, signs, signs_of_events, signs_of_logs
from spark_jobs.run_memory import Memory
from spark_jobs.texts import visible
from tests.evidence import AT, captured, evidence
from tests.projects import PROJECT

HOSTILE = "<script>alert('x')</script>\u202e{{ 7 * 7 }}\"><img src=x>"
SCHEMA = json.loads(Path(spark_jobs.reporting.__path__[0], SCHEMA_FILE).read_text())


def report(found: Evidence, previous: dict[str, Any] | None = None, run_id: str = "r1", **own: Any) -> dict[str, Any]:
    run = RunSummary(run_id, "tidemark check", AT, {"land": 1.5, "build": 12.0}, **own)
    said = document(run, found, AT + timedelta(seconds=20), previous, None)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(said)))
    return said


def everything(text: str) -> Evidence:
    """Evidence for each part of a report, with `text` wherever it takes any."""
    one = ExpectationResult(text, "gold_history", text, text, "critical", False, 3, (text,))
    dbt = DbtRun("build", AT, True, 4, 0, 1, 0, 4, (DbtResult("test", text, "fail", 3, text),))
    lag = Lag(80, 250, 900)
    return evidence(
        tables=[captured(text, key=(text,), history=Model(text, text, text))],
        accounts=[Account("topic", text, 4, {text: 3}, {text: 3})],
        expectations=[one],
        measures={text: Measures(10, history=7, current=5, empty_intervals=1, lag=lag, lag_of_last_batch=lag)},
        quarantine=[Held("no-envelope", text, text, 1, (text,))],
        settings=[SettingFinding(text, text, text, text, "warning")],
        signs={text: {text: Sign(text, text, text, 1, (text,), text)}},
        pulses=[Pulse(text, AT, None, AT)],
        schema_changes={text: [SchemaChange(text, AT, text, (text,), (text,), is_key_changed=True)]},
        dbt=dbt,
    )


# Heading → part of the report → its fields that the page shows there.
SHOWN = {
    "": {"": "status command run_id started_at failures", "next": "why command", "landed": "n"},
    "1 warning": {"": "warnings"},
    "What became of the records": {"accounting": "name subject records dispositions.n changed.n difference"},
    "Tables and lag": {
        "tables": "name key rows.changes rows.current rows.history empty_intervals",
        "tables.lag_ms.last_batch": "p50 p95 max",
        "tables.lag_ms.all": "p50 p95 max",
    },
    "Topics": {
        "lags": "topic source_label records seconds looked_at",
        "gaps": "topic source_label partition from_offset to_offset records reason found_at",
    },
    "Connectors": {"connectors": "told"},
    "Changes of schema": {"schema_changes": "table at statement columns"},
    "Signs": {"signs": "table count meaning because sample_keys", "": "not_accounted"},
    "Settings of the source": {"settings": "setting where shows set_instead severity"},
    "Quarantine": {"quarantine": "reason code topic records samples"},
    "Expectations": {
        "": "data_docs",
        "expectations": "table layer description unexpected_count sample_keys severity",
    },
    "Every expectation": {"expectations": "table layer description severity"},
    "dbt": {
        "dbt": "command at passed warned failed skipped tests",
        "dbt.results": "kind name status message",
    },
    "Time": {"stages": "stage seconds"},
    "The last runs": {
        "trend": "run_id started_at records new_records quarantined warnings lag_p95_ms seconds",
        "": "tidemark $schema",
    },
}


def marked(value: Any, path: str, numbers: dict[str, str]) -> Any:
    """A part of a report, each text of it as its path, each number as one of its own; of lists the first alone.

    Args:
        value: The part.
        path: Where it is in the report.
        numbers: Number as the page shows it → path; it is filled in.
    """
    if isinstance(value, dict):
        return {name: marked(one, f"{path}.{name}".lstrip("."), numbers) for name, one in value.items()}
    if isinstance(value, list):
        return [marked(one, path, numbers) for one in value[:1]]
    if isinstance(value, str):
        return f"[{path}]"
    if value is None or isinstance(value, bool):
        return value
    number = 201 + 2 * len(numbers)
    numbers[str(number)] = path
    # The page shows the last offset before it, and the lag in milliseconds.
    return {"gaps.to_offset": number + 1, "lags.seconds": number / 1000}.get(path, number)


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
        {"accounts": [Account("table", "src__t", 10, {"opened": 10}, versions=10, otherwise={"exact_values": (2, 1)})]},
        {
            "expectations": [
                ExpectationResult("src__t", "bronze", "expect_it", "It is so.", "critical", False, 1, ("k",))
            ]
        },
        {"dbt": DbtRun("build", AT, True, 1, 0, 1, 0, 2, (DbtResult("test", "t", "fail", 1, ""),))},
    ],
)
def test_what_is_critical_fails_the_run(bad: dict[str, Any]) -> None:
    said = report(evidence(**bad, option=" --target other"))
    assert said["status"] == "failed"
    assert len(said["failures"]) == 1
    assert said["next"]
    assert "Bad:" in page(said)
    assert ["build --target other" in words for words in said["failures"]] == ["accounts" in bad]


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
        [one] = pulses(no_session, nowhere, [table], landed, measured, AT, [lag], [])
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
    beats = replace(gap("default", 5), topic="__debezium-heartbeat.src")
    monkeypatch.setattr(listing, "gaps", lambda *_: [gap("default", 4), gap("eu", None), gap("default", 3), beats])
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

    accounts = account([], counted, held, {}, {}, {})

    assert accounts == account([], counted[::-1], held, {}, {}, {})
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
    said = report(evidence(quarantine=entries, option=" --target other", bronze_option=" --target its"))

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
    found = report(evidence(accounts=feeds, option=" --target other"))
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
    [one] = account([uncounted], contents, [], measured, {}, {})

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
            evidence(expectations=[broken(one, "gold_history") for one in "dcba"], option=" --target local_dev"),
            "tidemark rebuild --target local_dev a b c d",
        ),
        (evidence(expectations=[broken("a", "bronze"), broken("b", "silver_changes")]), "tidemark rebuild b"),
        (evidence(expectations=[broken("a", "bronze")]), ""),
        (evidence(accounts=[Account("table", "src__t", 3, {"pending": 3})]), "tidemark build"),
        (
            evidence(accounts=[Account("table", "src__t", 3, {"pending": 3})], option=" --target local_dev"),
            "tidemark build --target local_dev",
        ),
        (evidence(accounts=[Account("feed", "src__new", 3, {"no_model": 3})]), "tidemark scaffold"),
        (evidence(accounts=[Account("topic", "outbox.event.new", 3, {"no_model": 3})]), "tidemark scaffold"),
        (evidence(accounts=[], tables=[], bronze_option=" --target local"), "tidemark land --target local FILES"),
        (
            evidence(
                accounts=[Account("table", "src__t", 0, {"pending": 0})],
                tables=[captured(history=Model("src__t_history", "gold.src__t_history", "nowhere"))],
                measures={"src__t": Measures()},
            ),
            "tidemark land FILES",
        ),
        (
            evidence(quarantine=[Held("no-envelope", "no envelope", "t", 2)], option=" --target local_dev"),
            "tidemark quarantine list --target local_dev",
        ),
    ],
)
def test_the_first_screen_names_the_command_that_helps(found: Evidence, command: str) -> None:
    assert [step["command"] for step in report(found)["next"]] == [command]


def test_nothing_from_an_event_gets_out_of_its_place() -> None:
    said = report(everything(HOSTILE), landed={HOSTILE: 1})
    text = page(said)
    tags = Tags(text)
    assert not tags.seen & {"script", "img", "iframe", "link", "object"}
    assert tags.fetched == ["report.json", "report.schema.json"]
    assert "\u202e" not in text
    assert "\\u202e" in text
    assert "{{ 7 * 7 }}" in text
    assert json.loads(json.dumps(said))["accounting"][0]["name"] == HOSTILE


def test_each_field_is_shown_under_its_heading() -> None:
    said, numbers = report(everything("n"), landed={"n": 1}) | {"data_docs": "docs"}, dict[str, str]()

    # The chart has a test of its own.
    text = re.sub("<head>.*?</head>|<svg.*?</svg>", "", page(marked(said, "", numbers)), flags=re.DOTALL)
    banner, *parts = re.split("<(?:h2|summary)>(.*?)</(?:h2|summary)>", text)

    shown = {
        heading: {*re.findall(r"\[([\w.$]+)\]", part)}
        | {numbers[one] for one in re.findall(r"\b\d+\b", part) if one in numbers}
        for heading, part in zip(["", *parts[::2]], [banner, *parts[1::2]], strict=True)
    }
    assert shown == {
        heading: {f"{part}.{name}".lstrip(".") for part, names in fields.items() for name in names.split()}
        for heading, fields in SHOWN.items()
    }


def test_flags_and_counts_are_told_in_words() -> None:
    found = everything("n")
    assert found.dbt is not None
    text = page(report(replace(found, dbt=replace(found.dbt, is_of_this_run=False))))
    for words in (" another key</td>", ">gone</td>", ">before this run</span>", "<p>0 of 1 passed."):
        assert words in text


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
        "1 landed delete or truncate is in no table",
        "src__t, gold_history, has 12,345 rows that break what is expected: It is so.",
        "1 change of 1 transaction is held back", "; 1 more waits.", "1 record (offset 5) was removed by retention",
        "records from offset 5 on, of which 1 was seen, were not landed",
    ):  # fmt: skip
        assert words in told
    quiet = page(report(evidence(gaps=[], cuts=[])))
    assert "<details open><summary>1 warning</summary>" in quiet, "as it is printed"
    assert ", 1 warning</h1>" in quiet


def test_records_that_are_twice_in_bronze_are_the_next_thing_to_mend() -> None:
    said = report(evidence(repeated={"src.transaction": 1}))
    assert said["failures"] == [said["next"][0]["why"]]
    assert "Restore bronze" in said["failures"][0]


def test_values_that_do_not_fit_name_the_declaration_to_change() -> None:
    rows = [Row(kind="sign", name="exact_values", records=13, sample_keys=[])]
    changed = {"src__t": [SchemaChange("src__t", None, "alter it", ("v: a → b",), ("v",), is_key_changed=False)]}
    measured = {"src__t": Measures(10, exact_values={"v": 12, "w": 1})}
    table = captured(accounting=Model("src__t_accounting", "", ""))
    [sign] = signs([table], {"src__t": rows}, changed, measured, Mask(""), sample_rows=False)["src__t"].values()
    assert sign.because == (
        "`v` (string): 12 versions; `w` (not declared): 1 version. Declare a type that holds them or, where"
        " records have no schema, their `encoding` in src__t_changes. Its schema was changed by: alter it."
    )


def test_of_a_table_without_accounting_the_marks_of_its_log_are_told() -> None:
    measured = {"src__t": Measures(10, exact_values={"v": 2}, inexact=2, new_logs=1)}
    alone, model = captured(), Model("src__t_history", "", "")
    assert signs_of_logs([captured(accounting=model)], measured) == {}, "its account has them"
    told = signs([alone], signs_of_logs([alone], measured), {}, measured, Mask(""), sample_rows=True)
    assert {name: sign.count for name, sign in told["src__t"].items()} == {"exact_values": 2, "new_logs": 1}
    assert told["src__t"]["exact_values"].because.startswith("`v` (string): 2 changes. Declare a type that holds them")
    of_events = signs_of_events([EventTable("e", {}, 1, 3), EventTable("f", {}, 1)])
    assert [sign.count for sign in of_events["e"].values()] == [3]
    assert len(of_events) == 1

    found = evidence(signs=told | of_events)
    assert [one.partition(" with a value")[0] for one in found.warnings[-2:]] == ["src__t: 2 rows", "e: 3 rows"]
    found = evidence(tables=[captured(history=model)], signs=told)
    assert not any("with a value" in one for one in found.warnings), "a law of histories says it"


def test_a_table_s_own_name_counts_before_that_of_another_s_model() -> None:
    history = Model("orders_history", "gold.orders_history", "nowhere")
    orders, beside = captured("orders", history=history), captured("orders_history")

    for tables in ([orders, beside], [beside, orders]):
        found = by_name(tables)
        assert (found["orders"], found["orders_changes"]) == (orders, orders)
        assert (found["orders_history"], found["orders_history_changes"]) == (beside, beside)


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


def test_hidden_letters_and_lengths_of_time_are_spelled() -> None:
    assert visible("a\u200fb\x00\n") == "a\\u200fb\\u0000\n"
    assert [duration(one) for one in (-50, 7, 999.6, 1_500, 59_999, 90_000, 7_200_000, 864_000_000)] == [
        "-50 ms", "7 ms", "1 s", "1.5 s", "1 min", "1.5 min", "2 h", "10 d",
    ]  # fmt: skip
