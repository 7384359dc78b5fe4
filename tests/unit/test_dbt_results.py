"""What the report reads of dbt's results."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from spark_jobs.places import Places
from spark_jobs.reporting.dbt_results import DbtTest, dbt_run, dbt_tests
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


def test_each_test_of_dbt_is_read_with_what_the_manifest_says_of_it(tmp_path: Path) -> None:
    places, name = Places(tmp_path, "", "", "thrift"), "test.tidemark.unique_m_id.abc"
    nodes = [
        {"unique_id": "model.tidemark.m", "status": "success"},
        {"unique_id": name, "status": "fail", "failures": 2, "message": "got 'secret'"},
        {"unique_id": "unit_test.tidemark.m.u", "status": "pass"},
    ]
    metadata = {"generated_at": AT.isoformat(), "invocation_id": "run-of-dbt"}
    said = {"metadata": metadata, "args": {"which": "build"}, "results": nodes}
    target = tmp_path / "target"
    target.mkdir()
    assert dbt_tests(places) is None
    (target / "run_results.json").write_text(json.dumps(said))
    ran = dbt_tests(places)
    assert ran is not None
    assert ran.tests[0] == DbtTest(None, "unique_m_id.abc", None, "fail", 2), "no manifest"
    described = {"name": "unique_m_id", "attached_node": "model.tidemark.m", "config": {"severity": "ERROR"}}
    of_unit = {"unit_test.tidemark.m.u": {"name": "u", "model": "m", "config": {}}}
    (target / "manifest.json").write_text(json.dumps({"nodes": {name: described}, "unit_tests": of_unit}))
    ran = dbt_tests(places)
    assert ran is not None
    assert (ran.invocation_id, ran.at) == ("run-of-dbt", AT)
    assert ran.tests == (
        DbtTest("m", "unique_m_id", "error", "fail", 2), DbtTest("m", "u", None, "pass", None),
    )  # fmt: skip
    (target / "run_results.json").write_text(json.dumps(said | {"results": nodes[:1]}))
    assert dbt_tests(places) is None, "no test"
