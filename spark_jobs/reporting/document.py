"""The report as data: `report.json`, whose schema is `report.schema.json` beside this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from spark_jobs import __version__
from spark_jobs.declarations import CapturedTable
from spark_jobs.reporting.accounting import Account
from spark_jobs.reporting.advice import next_steps
from spark_jobs.reporting.evidence import Evidence, RunSummary
from spark_jobs.reporting.liveness import Pulse
from spark_jobs.reporting.measures import Measures
from spark_jobs.reporting.schema_changes import SchemaChange

LAYOUT = 1
SCHEMA_FILE = "report.schema.json"
_RUNS = 20


def document(
    run: RunSummary,
    evidence: Evidence,
    finished_at: datetime,
    previous: Mapping[str, Any] | None,
    data_docs: str | None,
) -> dict[str, Any]:
    """The report of a run.

    Args:
        run: The run.
        evidence: What was found out about it.
        finished_at: When the check ended, with its zone.
        previous: The report before this one, whose trend goes on here.
        data_docs: Where Data Docs are, as a path beside the report.
    """
    report: dict[str, Any] = {
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
        "accounting": [_account(one) for one in evidence.accounts],
        "not_accounted": list(evidence.uncounted),
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
    report["trend"] = [*others, _point(report, evidence, others[-1] if others else None)][-_RUNS:]
    return report


def _account(account: Account) -> dict[str, Any]:
    inner = ("otherwise", "is_moving")
    values = {name: value for name, value in asdict(account).items() if name not in inner}
    return {**values, "difference": account.difference}


def _table(table: CapturedTable, measures: Measures) -> dict[str, Any]:
    return {
        "name": table.name,
        "source": f"{table.source_name}.{table.source_table}",
        "key": list(table.key),
        "rows": {"changes": measures.changes, "current": measures.current, "history": measures.history},
        "empty_intervals": measures.empty_intervals,
        "lag_ms": {
            "all": asdict(measures.lag) if measures.lag else None,
            "last_batch": asdict(measures.lag_of_last_batch) if measures.lag_of_last_batch else None,
        },
    }


def _connector(pulse: Pulse) -> dict[str, Any]:
    return {
        "source": pulse.source, "state": pulse.state, "told": pulse.line, "last_heartbeat": _iso(pulse.last_heartbeat),
        "last_change": _iso(pulse.last_change), "seen_at": _iso(pulse.seen_at),
        "limit_minutes": pulse.limit / timedelta(minutes=1) if pulse.limit else None,
    }  # fmt: skip


def _schema_change(change: SchemaChange) -> dict[str, Any]:
    return {
        "table": change.table, "at": _iso(change.at), "statement": change.statement, "columns": list(change.columns),
        "is_key_changed": change.is_key_changed,
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


def _point(report: Mapping[str, Any], evidence: Evidence, last: Mapping[str, Any] | None) -> dict[str, Any]:
    """A run as one point of the trend, behind the last one.

    Records that only go from a topic's account to that of a table, which has models now, are none that are new.
    """
    records = sum(one.records for one in evidence.accounts)
    changed = sum(sum(one.changed.values()) for one in evidence.accounts)
    lags = [one.lag_of_last_batch.p95 for one in evidence.measures.values() if one.lag_of_last_batch]
    return {
        "run_id": report["run_id"],
        "started_at": report["started_at"],
        "status": report["status"],
        "records": records,
        "new_records": changed if last is None else records - int(last["records"]),
        "quarantined": sum(one.records for one in evidence.quarantine),
        "failures": len(report["failures"]),
        "warnings": len(report["warnings"]),
        "lag_p95_ms": max(lags, default=None),
        "seconds": round(sum(one["seconds"] for one in report["stages"]), 3),
    }
