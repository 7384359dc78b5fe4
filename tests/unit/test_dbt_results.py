"""What the report reads of dbt's results."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from spark_jobs.places import Places
from spark_jobs.reporting.dbt_results import dbt_run
from tests.evidence import AT


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
