"""What dbt said of its last run: `run_results.json`, read and not asked of dbt again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from spark_jobs.declarations import dbt_variable
from spark_jobs.engine_errors import redacted
from spark_jobs.places import Places

_GOOD = ("success", "pass", "no-op", "reused")
_SKIPPED = ("skipped",)
_WARNED = ("warn",)
_TESTS = ("test", "unit_test")
# The commands that build or test: what others leave (`dbt docs generate`) tells nothing of the tables.
_COMMANDS = ("build", "run", "test", "retry", "seed", "snapshot")


@dataclass(frozen=True, slots=True)
class DbtResult:
    """One node of a dbt run that did not just succeed; `kind` is `model`, `test`, `unit_test` and so on."""

    kind: str
    name: str
    status: str
    failures: int | None
    message: str


@dataclass(frozen=True, slots=True)
class DbtRun:
    """A run of dbt: counts of nodes by outcome, and those that did not succeed."""

    command: str
    at: datetime
    is_of_this_run: bool
    passed: int
    warned: int
    failed: int
    skipped: int
    tests: int
    results: tuple[DbtResult, ...]


@dataclass(frozen=True, slots=True)
class DbtTest:
    """What became of one test; `model` is the model that it is of, `severity` as declared, each None if not known."""

    model: str | None
    name: str
    severity: str | None
    status: str
    failures: int | None


@dataclass(frozen=True, slots=True)
class DbtTests:
    """The tests of a run of dbt."""

    invocation_id: str
    at: datetime
    tests: tuple[DbtTest, ...]


def dbt_run(places: Places, since: datetime, *, redact: bool) -> DbtRun | None:
    """The project's last run of dbt; None where there is none that can be read.

    None, too, where that run was another environment's, or of a command that neither builds nor tests.

    Args:
        places: The project and its target.
        since: When our run began, with its zone: a later dbt run is of this run.
        redact: Whether to leave out what messages quote, because something is hidden (`masking.hidden`), or no sample
            rows are shown.
    """
    if (said := _last_run(places)) is None:
        return None
    at = datetime.fromisoformat(said["metadata"]["generated_at"])
    nodes = [one for said_of in said["results"] if (one := _result(said_of, redact=redact)).kind != "operation"]
    statuses = [one.status for one in nodes]
    good, warned, skipped = (sum(status in those for status in statuses) for those in (_GOOD, _WARNED, _SKIPPED))
    return DbtRun(
        command=str(said["args"]["which"]),
        at=at,
        is_of_this_run=at >= since,
        passed=good,
        warned=warned,
        failed=len(nodes) - good - warned - skipped,
        skipped=skipped,
        tests=sum(one.kind in _TESTS for one in nodes),
        results=tuple(one for one in nodes if one.status not in _GOOD),
    )


def dbt_tests(places: Places) -> DbtTests | None:
    """The tests of the same run; None where it ran none."""
    said = _last_run(places) or {"metadata": {}, "results": []}
    invocation_id = said["metadata"].get("invocation_id")
    results = {str(told.get("unique_id", "")): _result(told, redact=True) for told in said["results"]}
    results = {unique_id: one for unique_id, one in results.items() if one.kind in _TESTS}
    if not invocation_id or not results:
        return None
    try:
        manifest = json.loads((_target_folder(places.project) / "manifest.json").read_text())
    except (OSError, ValueError):
        manifest = {}
    nodes = {**manifest.get("nodes", {}), **manifest.get("unit_tests", {})}
    at = datetime.fromisoformat(said["metadata"]["generated_at"])
    return DbtTests(invocation_id, at, tuple(_test(one, nodes.get(name, {})) for name, one in results.items()))


def _test(result: DbtResult, node: Mapping[str, Any]) -> DbtTest:
    of = node.get("attached_node") or node.get("model") or ""
    severity = node.get("config", {}).get("severity")
    return DbtTest(
        model=of.rpartition(".")[2] or None,
        name=node.get("name", result.name),
        severity=severity and severity.lower(),
        status=result.status,
        failures=result.failures,
    )


def _last_run(places: Places) -> dict[str, Any] | None:
    """What dbt wrote down of its last run; None as `dbt_run` has it."""
    try:
        said: dict[str, Any] = json.loads((_target_folder(places.project) / "run_results.json").read_text())
        datetime.fromisoformat(said["metadata"]["generated_at"])
        arguments = said.setdefault("args", {})
        _ = said["results"]
    except (OSError, ValueError, KeyError):
        return None
    # Where none was typed, as dbt by hand takes it, none is told.
    is_ours = arguments.get("target") in (None, places.target) and arguments.get("which") in _COMMANDS
    return said if is_ours else None


def _target_folder(project: Path) -> Path:
    """Where dbt leaves what it made: as its variables say, else as dbt_project.yml says in plain text."""
    import yaml

    named: object = dbt_variable("TARGET_PATH")
    with suppress(OSError, ValueError, yaml.YAMLError, AttributeError):
        named = named or yaml.safe_load((project / "dbt_project.yml").read_text()).get("target-path")
    return project / (named if isinstance(named, str) and "{{" not in named else "target")


def _result(result: dict[str, object], *, redact: bool) -> DbtResult:
    kind, _, name = str(result.get("unique_id", "")).partition(".")
    message = str(result.get("message") or "").strip()
    failures = result.get("failures")
    return DbtResult(
        kind=kind,
        name=name.partition(".")[2],
        status=str(result.get("status", "")),
        failures=failures if isinstance(failures, int) else None,
        message=redacted(message) if redact else message,
    )
