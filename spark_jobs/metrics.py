"""What a run came to, as metrics that Prometheus' textfile collector scrapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from spark_jobs.errors import Fault
from spark_jobs.files import Files, write_named
from spark_jobs.reporting.kafka import ASKED_NO_MORE
from spark_jobs.reporting.report import last_report

# A store that is away is why a run failed, and was waited for.
_PATIENCE = 2.0
_OUTCOME = {
    "status": ("run_status", "Exit status of the last run: 0 right, 1 data failed, 2 usage, 3 fault, 4 busy"),
    "failed_runs": ("run_failed_runs", "Runs that failed since the last good one"),
    "seconds": ("run_seconds", "Seconds that the last run took"),
}
_TIMES = {
    "finished_at": ("run_timestamp_seconds", "When the last run ended"),
    "last_success": ("run_success_timestamp_seconds", "When the last good run ended"),
}


def write_metrics(file: Path, summary: Mapping[str, Any]) -> None:
    """Write a run's summary (`schedule.Outcome.summary`) as a metrics file, in one step: a scrape sees a whole one.

    Raises:
        OSError: The file can't be written.
    """
    registry = CollectorRegistry()
    for name, (metric, about) in _OUTCOME.items():
        _gauge(registry, metric, about).set(summary[name])
    for name, (metric, about) in _TIMES.items():
        if summary[name] is not None:
            _gauge(registry, metric, about).set(datetime.fromisoformat(summary[name]).timestamp())
    for name, values in (("failures", summary["failures"]), ("warnings", summary["warnings"])):
        _gauge(registry, f"run_{name}", f"Sentences under {name} in the last run's report").set(len(values))
    stages = _gauge(registry, "run_stage_seconds", "Seconds of the last run by stage", "stage")
    for stage, seconds in summary["stages"].items():
        stages.labels(stage).set(seconds)
    records = _gauge(registry, "run_records", "Records of the last run by what became of them", "became")
    for became, count in summary["landed"].items():
        records.labels(became).set(count)
    skipped = _gauge(
        registry, "run_skipped", "Steps that the last run left out: nothing had changed, or none was due", "step"
    )
    for step in ("land", "build", "check"):
        skipped.labels(step).set(step in summary["skipped"])
    of_topic = ("source_label", "topic")
    lags = _gauge(registry, "topic_lag_records", "Records of a Kafka topic that are still to land", *of_topic)
    waits = _gauge(registry, "topic_lag_seconds", "For how long at most the oldest of them has waited", *of_topic)
    looks = _gauge(registry, "topic_looked_at_timestamp_seconds", "When the broker was last asked of it", *of_topic)
    for one, looked_at in _asked_for(summary["lag"]):
        looks.labels(one["source_label"], one["topic"]).set(looked_at.timestamp())
        lags.labels(one["source_label"], one["topic"]).set(one["records"])
        if one["seconds"] is not None:
            waits.labels(one["source_label"], one["topic"]).set(one["seconds"])
    gaps = _gauge(registry, "topic_gap_records", "At least so many records were never landed", *of_topic, "reason")
    for gap in summary["gaps"]:
        at_least = max(gap["to_offset"] - gap["from_offset"], 1) if gap["records"] is None else gap["records"]
        gaps.labels(gap["source_label"], gap["topic"], gap["reason"]).inc(at_least)
    held = _gauge(registry, "quarantine_held", "Records and lines that the last check found held", "code", "topic")
    for entry in _held(summary["report"]):
        held.labels(entry["code"], entry["topic"]).inc(entry["records"])
    write_named(file, generate_latest(registry).decode())


def _asked_for(lags: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], datetime]]:
    """The topics that landings still ask for, and when they last did."""
    looks = [(one, datetime.fromisoformat(one["looked_at"]).replace(tzinfo=UTC)) for one in lags]
    newest: dict[str, datetime] = {}
    for one, looked_at in looks:
        newest[one["source_label"]] = max(looked_at, newest.get(one["source_label"], looked_at))
    return [
        (one, looked_at)
        for one, looked_at in looks
        if not one["is_gone"] and newest[one["source_label"]] - looked_at <= ASKED_NO_MORE
    ]


def _held(report: str | None) -> list[dict[str, Any]]:
    """The quarantine as the report of the last check has it; nothing where that can't be read."""
    with suppress(OSError, LookupError, TypeError, Fault):
        said = last_report(Files(report.rsplit("/", 2)[0], _PATIENCE)) if report else None
        return list(said["quarantine"]) if said else []
    return []


def _gauge(registry: CollectorRegistry, name: str, about: str, *labels: str) -> Gauge:
    return Gauge(f"tidemark_{name}", about, labels, registry=registry)
