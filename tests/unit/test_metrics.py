"""Metrics as Prometheus reads them: names of topics escaped, what can't be told left out. No Spark in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spark_jobs.metrics import write_metrics

HOSTILE = 'a"b\\c\nd'


def summary(**own: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "status": 0, "failed_runs": 0, "seconds": 1.5, "finished_at": "2026-11-21T08:00:00+00:00", "last_success": None,
        "failures": [], "warnings": ["one"], "stages": {"land": 1.0}, "landed": {"read": 5}, "skipped": ["build"],
        "lag": [], "gaps": [], "report": None,
    }  # fmt: skip
    return usual | own


def samples(file: Path) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(file.read_text())
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


def lag(topic: str, records: int, seconds: float | None, **own: Any) -> dict[str, Any]:
    return {
        "source_label": "default", "topic": topic, "records": records, "seconds": seconds, "is_gone": False,
        "looked_at": "2026-11-21 07:59:00.5",
    } | own  # fmt: skip


def gap(records: int | None, reason: str) -> dict[str, Any]:
    return {
        "source_label": "default", "topic": "t", "records": records, "reason": reason, "from_offset": 7, "to_offset": 7
    }  # fmt: skip


def test_a_run_and_its_topics(tmp_path: Path) -> None:
    file = tmp_path / "new" / "tidemark.prom"
    old = {"looked_at": "2026-11-21 06:58:00"}
    lags = [lag(HOSTILE, 5, 61.5), lag("never", 3, None), lag("gone", 0, 0, is_gone=True)]
    lags += [lag("asked for no more", 5, 5.0, **old), lag("of a dead landing", 7, 5.0, source_label="other", **old)]
    write_metrics(file, summary(lag=lags, gaps=[gap(4, "retention"), gap(2, "retention"), gap(None, "topic_gone")]))

    found = samples(file)
    assert found[("tidemark_run_timestamp_seconds",)] == 1795248000
    assert ("tidemark_run_success_timestamp_seconds",) not in found, "no run was good yet"
    assert found[("tidemark_run_skipped", "build")] == 1
    assert found[("tidemark_run_skipped", "land")] == 0
    assert found[("tidemark_topic_lag_records", "default", HOSTILE)] == 5
    assert found[("tidemark_topic_lag_seconds", "default", HOSTILE)] == 61.5
    assert ("tidemark_topic_lag_seconds", "default", "never") not in found
    looked_at = {labels[-1]: at for (name, *labels), at in found.items() if "topic_looked_at" in name}
    assert looked_at == {HOSTILE: 1795247940.5, "never": 1795247940.5, "of a dead landing": 1795244280}
    assert not [name for name, *labels in found if {"gone", "asked for no more"} & {*labels}], "nobody waits for them"
    assert found[("tidemark_topic_gap_records", "retention", "default", "t")] == 6
    assert found[("tidemark_topic_gap_records", "topic_gone", "default", "t")] == 1, "how many is not known"
    assert [one.name for one in file.parent.iterdir()] == ["tidemark.prom"], "written in one step"


def test_what_the_last_check_found_held(tmp_path: Path) -> None:
    file, latest = tmp_path / "tidemark.prom", tmp_path / "reports/latest/report.json"
    run = summary(report=str(tmp_path / "reports/r1/report.html"))
    held = [
        {"code": "no-envelope", "topic": HOSTILE, "records": 2},
        {"code": "line-not-json", "topic": "", "records": 1},
    ]
    latest.parent.mkdir(parents=True)
    latest.write_text(json.dumps({"quarantine": [*held, {**held[0], "reason": "another", "records": 3}]}))
    write_metrics(file, run)
    assert samples(file)[("tidemark_quarantine_held", "no-envelope", HOSTILE)] == 5
    assert samples(file)[("tidemark_quarantine_held", "line-not-json", "")] == 1

    # A kill came while it was put there, and the run's own is whole.
    latest.parent.rename(own := latest.parent.with_name("r1"))
    write_metrics(file, run)
    assert samples(file)[("tidemark_quarantine_held", "line-not-json", "")] == 1
    own.rename(latest.parent)

    for text in (json.dumps({"quarantine": []}), "[]", "half a fi"):
        latest.write_text(text)
        write_metrics(file, run)
        assert not any("held" in name for name, *_ in samples(file))


def test_a_place_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OSError, match="file"):
        write_metrics(tmp_path / "file" / "tidemark.prom", summary())
