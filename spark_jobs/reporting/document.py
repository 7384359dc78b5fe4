"""The report as data: `report.json`, whose schema is `report.schema.json` beside this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from spark_jobs import __version__
from spark_jobs.declarations import CapturedTable
from spark_jobs.reporting.advice import next_steps
from spark_jobs.reporting.liveness import Pulse
from spark_jobs.reporting.measures import Measures
from spark_jobs.reporting.run import Evidence, RunSummary
from spark_jobs.reporting.schema_changes import SchemaChange

LAYOUT = 1
SCHEMA_FILE = "report.schema.json"
_RUNS = 20


def document(
    run: RunSummary,
    evidence: Evidence,
    finished_at: datetime,
    previous: Mapping[str, Any] | None = None,
    data_docs: str | None = None,
) -> dict[str, Any]:
    """The report of a run.

    Args:
        run: The run.
        evidence: What was found out about it.
        finished_at: When the check ended, with its zone.
        previous: The report before this one, whose trend goes on here.
        data_docs: Where Data Docs are, as a path beside the report.
    """
    said: dict[str, Any] = {
        "$schema": SCHEMA_FILE,
        "layout": LAYOUT,
        "tidemark": __version__,
        "run_id": run.run_id,
        "command": run.command,
        "started_at": run.started_at.isoformat(),
        "finished_at": finished_at.isoformat(),
        "status": "failed" if evidence.failures else "passed",
        "failures": evidence.failures,
        "warnings": evidence.warnings,
        "next": [asdict(step) for step in next_steps(evidence)],
        "landed": dict(run.landed),
        "stages": [{"stage": name, "seconds": round(seconds, 3)} for name, seconds in run.stages.items()],
        "accounting": [{**asdict(one), "difference": one.difference} for one in evidence.accounts],
        "tables": [_table(table, evidence.measures.get(table.name, Measures())) for table in evidence.tables],
        "signs": [
            {**asdict(one), "sample_keys": list(one.sample_keys)}
            for met in evidence.signs.values()
            for one in met.values()
        ],
        "cuts": [asdict(one) for one in evidence.cuts],
        "lags": [asdict(one) for one in evidence.lags],
        "gaps": [asdict(one) for one in evidence.gaps],
        "connectors": [_connector(one) for one in evidence.pulses],
        "schema_changes": [_schema_change(one) for changes in evidence.schema_changes.values() for one in changes],
        "dbt": _dbt(evidence),
        "expectations": [{**asdict(one), "sample_keys": list(one.sample_keys)} for one in evidence.expectations],
        "quarantine": [{**asdict(one), "samples": list(one.samples)} for one in evidence.quarantine],
        "settings": [asdict(one) for one in evidence.settings],
        "data_docs": data_docs,
    }
    earlier: Sequence[Mapping[str, Any]] = (previous or {}).get("trend", [])
    others = [one for one in earlier if one.get("run_id") != run.run_id]
    said["trend"] = [*others, _point(said, evidence, others[-1] if others else None)][-_RUNS:]
    return said


def _table(table: CapturedTable, one: Measures) -> dict[str, Any]:
    return {
        "name": table.name,
        "source": f"{table.source_name}.{table.source_table}",
        "key": list(table.key),
        "rows": {"changes": one.changes, "current": one.current, "history": one.history},
        "empty_intervals": one.empty_intervals,
        "lag_ms": {
            "all": asdict(one.lag) if one.lag else None,
            "last_batch": asdict(one.lag_of_last_batch) if one.lag_of_last_batch else None,
        },
    }


def _connector(one: Pulse) -> dict[str, Any]:
    return {
        "source": one.source, "state": one.state, "told": one.told, "last_heartbeat": _iso(one.last_heartbeat),
        "last_change": _iso(one.last_change), "seen_at": _iso(one.seen_at),
        "limit_minutes": one.limit / timedelta(minutes=1) if one.limit else None,
    }  # fmt: skip


def _schema_change(one: SchemaChange) -> dict[str, Any]:
    return {
        "table": one.table, "at": _iso(one.at), "statement": one.statement, "columns": list(one.columns),
        "is_key_changed": one.is_key_changed,
    }  # fmt: skip


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _dbt(evidence: Evidence) -> dict[str, Any] | None:
    if evidence.dbt is None:
        return None
    return {
        **asdict(evidence.dbt),
        "at": evidence.dbt.at.isoformat(),
        "results": [asdict(one) for one in evidence.dbt.results],
    }


def _point(said: Mapping[str, Any], evidence: Evidence, last: Mapping[str, Any] | None) -> dict[str, Any]:
    """A run as one point of the trend, behind the last one.

    Records that only go from a topic's account to that of a table, which has models now, are none that are new.
    """
    records = sum(one.records for one in evidence.accounts)
    changed = sum(sum(one.changed.values()) for one in evidence.accounts)
    lags = [one.lag_of_last_batch.p95 for one in evidence.measures.values() if one.lag_of_last_batch]
    return {
        "run_id": said["run_id"],
        "started_at": said["started_at"],
        "status": said["status"],
        "records": records,
        "new_records": changed if last is None else records - int(last["records"]),
        "quarantined": sum(one.records for one in evidence.quarantine),
        "failures": len(said["failures"]),
        "warnings": len(said["warnings"]),
        "lag_p95_ms": max(lags, default=None),
        "seconds": round(sum(one["seconds"] for one in said["stages"]), 3),
    }
