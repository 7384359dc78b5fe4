"""Runs on a schedule: only what has news is done, and machines are told what a run came to."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from spark_jobs import schedule, steps
from spark_jobs.catalog import lacks_catalog
from spark_jobs.cli import main
from spark_jobs.declarations import captured_tables
from spark_jobs.fingerprint import files_in, project_hash, version_of
from spark_jobs.landing.kafka_offsets import Offsets, store
from spark_jobs.lock import holder_of, writing
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.reporting.kafka import TopicLag
from spark_jobs.reporting.liveness import Pulse
from spark_jobs.run_memory import Memory
from spark_jobs.schedule import Outcome, Task, run_every, run_once
from spark_jobs.upkeep import Wanted
from tests.projects import PROJECT, empty_project, forget_tables, rows_of
from tests.source import Column, Source, Table
from tests.unit.test_schedule_examples import EXAMPLES, settings

# Greatest time that Debezium's clock can tell: the source's is ahead.
LATEST = 253_402_300_799_999
SERVICE = settings(EXAMPLES / "tidemark-run.service")["Service"]


@dataclass
class Runs:
    """A project whose runs are looked at through what machines are told."""

    home: Path
    source: Source = field(default_factory=lambda: Source("sched", has_schemas=False))
    table: Table = field(default_factory=lambda: Table("orders", [Column("id"), Column("name")], ("id",)))

    def give(self, name: str, count: int, **own: Any) -> None:
        """Write another record file; `own` is what all values have otherwise."""
        first = len(self.source.records)
        with self.source.commit():
            for number in range(count):
                self.source.insert(self.table, {"id": f"{name}-{number}", "name": "x"})
        for record in self.source.records[first:]:
            record["value"] = json.dumps(json.loads(record["value"]) | own)
        (self.home / "records").mkdir(exist_ok=True)
        (self.home / "records" / name).write_text(self.source.lines(self.source.records[first:]))

    def __call__(self, *arguments: str) -> tuple[int, dict[str, Any], dict[str, float]]:
        """Run; its exit status, summary and metrics."""
        summary, metrics = self.home / "run.json", self.home / "tidemark.prom"
        outputs = ["--summary", str(summary), "--metrics", str(metrics), "--project-dir", str(self.home / "project")]
        status = main(["run", "--skip-unchanged", *arguments, *outputs])
        families = text_string_to_metric_families(metrics.read_text())
        samples = {
            ",".join([one.name.removeprefix("tidemark_"), *one.labels.values()]): one.value
            for family in families
            for one in family.samples
        }
        return status, json.loads(summary.read_text()), samples


def units_command(runs: Runs) -> list[str]:
    """The arguments of the command that systemd starts, with the project's folder for the places in it."""
    command = SERVICE["ExecStart"]
    for place in ("/srv/tidemark", "/var/lib/prometheus/node-exporter"):
        assert place in command
        command = command.replace(place, f"{runs.home}/project")
    [program, *arguments] = shlex.split(command)
    assert program == f"{runs.home}/project/.venv/bin/tidemark"
    return arguments


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    one = Runs(tmp_path_factory.mktemp("schedüle"))
    empty_project(one.home / "project")
    forget_tables(spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMARK_LAKEHOUSE", str(one.home / "lakehouse"))
        settings = one.home / "project/dbt_project.yml"
        settings.write_text(settings.read_text().replace("sources: {}", "sources: {sched: {silent_after_minutes: 30}}"))
        one.give("first.jsonl", 3, ts_ms=LATEST)
        assert main(["land", str(one.home / "records"), "--project-dir", str(one.home / "project")]) == 0
        assert main(["scaffold", "--project-dir", str(one.home / "project")]) == 0
        # Runs are told apart here by their steps, and what a table's own tests and suites say is told elsewhere.
        written = [*one.home.glob("project/models/*/*/*.yml"), *one.home.glob("project/models/ops/*.yml")]
        suites = [*one.home.glob("project/expectations/suites/*.py")]
        assert [len(written), len(suites)] == [5, 1]
        for file in (*written, *suites):
            file.unlink()
        yield one
    forget_tables(spark)


def test_a_run_does_what_has_news_and_says_so(runs: Runs, spark: SparkSession) -> None:
    records = str(runs.home / "records")
    status, said, metrics = runs(records)
    assert (status, said["status"], said["error"], said["skipped"]) == (0, 0, None, [])
    assert said["landed"] == {"read": 3, "landed": 0, "known": 3, "quarantined": 0}
    assert Path(said["report"]).is_file()
    assert {"build", "check"} <= set(said["stages"])
    assert metrics["run_status"] == 0 == metrics["run_failed_runs"]
    assert metrics["run_records,known"] == 3
    assert metrics["run_success_timestamp_seconds"] > 1.7e9

    memory = runs.home / "lakehouse/run.json"
    memory.write_text(json.dumps(json.loads(memory.read_text()) | {"failures": ["of the last check"]}))
    status, said, metrics = runs(records)
    assert (status, said["skipped"], said["stages"]) == (0, ["land", "build", "check"], {})
    assert metrics["run_skipped,build"] == 1
    assert Path(said["report"]).is_file()
    assert (said["failures"], metrics["run_failures"]) == (["of the last check"], 1), "as long as the report has it"

    kept = json.loads(memory.read_text())
    until_check = datetime.fromisoformat(kept["check_by"]) - datetime.now(UTC)
    assert timedelta(minutes=20) < until_check < timedelta(minutes=30), (
        "of what was landed just now, whatever its clock says"
    )
    memory.write_text(json.dumps(kept | {"check_by": "2026-01-01T00:00:00+00:00"}))
    status, said, _ = runs(records)
    assert (status, said["skipped"]) == (0, ["land"]), "a connector may have died in silence"
    assert (said["failures"], Memory.of(Places.of(runs.home / "project")).failures) == ([], [])

    runs.give("second.jsonl", 2)
    with (runs.home / "records/second.jsonl").open("a") as second:
        second.write('{"topic": "sched.public.ord')
    status, said, metrics = runs(records)
    assert (status, said["skipped"]) == (0, [])
    assert said["landed"]["read"] == 3, "the first file is not read again"
    assert metrics["quarantine_held,line-not-json,"] == 1
    assert [words for words in said["warnings"] if words.startswith("1 line is held in the quarantine")]

    model = next((runs.home / "project/models").rglob("*_current.sql"))
    model.write_text(f"{model.read_text()}\n")
    places = Places.of(runs.home / "project")
    look = Offsets("t", 0, "id", 5, 5, looked_at=datetime.now(UTC) + timedelta(hours=2))
    store(spark, places, "default", "cluster", {("t", 0): look})
    status, said, metrics = runs()
    assert (status, said["skipped"]) == (0, ["land"]), "a model is another"
    assert [one for one in said["warnings"] if "sched: the connector seems dead" in one], "a landing beside has looked"
    shutil.rmtree(places.table("ops", "kafka_offsets"))
    assert metrics["quarantine_held,line-not-json,"] == 1, "as long as it is held"


def test_a_silence_and_a_look_after_it_are_news() -> None:
    now, limit = datetime.now(UTC), timedelta(minutes=30)

    def watched(silent: int, *looked: int, is_gone: bool = False) -> Memory:
        looks = [f"{now - timedelta(minutes=one):%Y-%m-%d %H:%M:%S}" for one in looked]
        memory = Memory()
        pulse = Pulse("src", None, now - timedelta(minutes=silent), now - timedelta(minutes=max(looked)), limit)
        memory.watch([pulse], [TopicLag("l", "t", 0, 0, one, is_gone) for one in looks], 7, now)
        return memory

    fresh, stale = watched(10, 5, 60), watched(40, 60)
    assert (fresh.offsets, stale.check_by, stale.offsets) == (None, None, 7), "of a silence that goes on nothing is new"
    assert [fresh.is_due(8, now + timedelta(minutes=one)) for one in (9, 11)] == [False, True], "no look came since"
    assert [stale.is_due(one, now) for one in (7, 8)] == [False, True], "the landing looks again"
    assert watched(40, 60, is_gone=True).offsets is None
    assert Memory().is_due(8, now) is False


def test_a_project_is_what_its_folders_hold(tmp_path: Path) -> None:
    project = tmp_path / "project"
    places = Places(project, str(project / "macros/lakehouse"), "")
    project.mkdir()
    (project / "dbt_project.yml").write_text("model-paths: [marts, ../beside]\nseed-paths: data\n")
    (project / "dbt_packages").mkdir()
    for linked in (project / "package", project / "marts"):
        linked.mkdir()
    (project / "dbt_packages/one").symlink_to(project / "package")
    (project / "dbt_packages/up").symlink_to(tmp_path)
    seen = {project_hash(places)}

    added = (
        "marts/a.sql", "data/a.csv", "macros/a.sql", "snapshots/a.sql", "packages.yml", "package/macros/a.sql",
        "../macros/a.sql",
    )  # fmt: skip
    for file in added:
        (project / file).parent.mkdir(exist_ok=True, parents=True)
        (project / file).write_text("select 1")
        seen.add(project_hash(places))
    assert len(seen) == 8

    (project / "macros/round").symlink_to(project)
    (project / "macros/round/macros/again").symlink_to(project / "macros")
    assert len(files_in(project / "macros", places)) == len({*map(Path.resolve, files_in(project / "macros", places))})
    (project / "macros/round").unlink()
    seen = {project_hash(places)}
    for file in ("models/a.sql", "../records/a.jsonl", "macros/lakehouse/run.json"):
        (project / file).parent.mkdir(exist_ok=True, parents=True)
        (project / file).write_text("select 1")
        seen.add(project_hash(places))
    assert len(seen) == 1, "models are in other folders, and the rest is no project's"


def test_a_catalog_is_lost_where_its_metastore_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(tmp_path, "", str(tmp_path / "catalog"))
    assert not lacks_catalog(places), "a running session has one"
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    (tmp_path / "catalog").mkdir()
    assert lacks_catalog(places)
    (tmp_path / "catalog/metastore").mkdir()
    assert not lacks_catalog(places)


def test_files_are_landed_again_where_bronze_is_not_the_table_that_had_them(
    runs: Runs, spark: SparkSession, tmp_path: Path
) -> None:
    places, memory = Places.of(runs.home / "project"), runs.home / "lakehouse/run.json"
    known = Memory.of(places)
    assert len(known.files["default"]) == 2

    # As many commits, and the last of them another one.
    last = runs.home / f"lakehouse/bronze/records/_delta_log/{known.records:020}.json"
    said, memory_values = last.read_text(), json.loads(memory.read_text())
    last.write_text(said.replace('"timestamp":1', '"timestamp":2', 1))
    assert Memory.of(places).files == {}
    del memory_values["commit"], memory_values["failures"]
    memory.write_text(json.dumps(memory_values))
    assert Memory.of(places).files == known.files, "an older version kept none"
    last.write_text(said)

    for statement, is_whole in (
        ("restore table {} to version as of 0", False),
        ("delete from {} where `offset` = 1", False),
        ("optimize {}", True),
    ):
        copy = replace(places, lakehouse=str(tmp_path / statement.partition(" ")[0]))
        shutil.copytree(runs.home / "lakehouse/bronze/records", copy.table("bronze", "records"))
        shutil.copy(memory, copy.lakehouse)
        spark.sql(statement.format(table_at(copy.table("bronze", "records"))))
        assert version_of(copy, "bronze/records") > known.records
        assert Memory.of(copy).files == (known.files if is_whole else {}), statement


def test_a_run_keeps_the_tables_up_and_finds_nothing_new_because_of_it(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "Wanted", lambda: Wanted(few=2))
    records = str(runs.home / "records")
    status, said, _ = runs(records, "--upkeep-every", "24h")
    assert (status, said["skipped"]) == (0, ["land", "build", "check"])
    assert said["upkeep"]["tables"] >= 2, "bronze and the log have a file of each landing"
    assert list(said["stages"]) == ["upkeep"]

    for given in (["--upkeep-every", "24h"], []):
        status, said, _ = runs(records, *given)
        assert (status, said["skipped"], said["upkeep"]) == (0, ["land", "build", "check"], None)


def test_a_run_between_two_checks_builds_without_tests(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    tested = runs.home / "project/models/tested.yml"
    tested.write_text(
        "models: [{name: sched__public__orders_current, columns: [{name: id, data_tests: [not_null]}]}]\n"
    )
    records, results = str(runs.home / "records"), runs.home / "project/target/run_results.json"

    def built(kind: str) -> list[str]:
        named = [one["unique_id"] for one in json.loads(results.read_text())["results"]]
        return [one for one in named if one.startswith(f"{kind}.")]

    capsys.readouterr()
    status, said, metrics = runs(records, "--check-every", "6h")
    assert (status, said["skipped"], metrics["run_skipped,check"]) == (0, ["land", "check"], 1)
    assert "built, and not checked; the next check is due at 2" in capsys.readouterr().out
    assert (len(built("model")) > 2, built("test"), built("unit_test")) == (True, [], [])
    assert said["checked_at"] < said["started_at"]
    assert main(["status", "--project-dir", str(runs.home / "project")]) == 0
    assert f"; runs have built since it ended, {said['checked_at'][:19]} UTC" in capsys.readouterr().out
    status, said, _ = runs(records, "--check-every", "6h")
    assert (status, said["skipped"]) == (0, ["land", "build", "check"])

    status, said, _ = runs(records)
    assert (status, said["skipped"], len(built("test"))) == (0, ["land"], 1)
    assert said["checked_at"] > said["started_at"]
    tested.unlink()
    assert runs(records, "--check-every", "6h")[1]["skipped"] == ["land", "check"]
    assert runs(records)[1]["skipped"] == ["land"]


def test_another_writer_is_no_failure_to_systemd(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = units_command(runs)
    arguments[arguments.index("--wait") + 1] = "0"
    monkeypatch.chdir(runs.home / "project")
    with writing(Places.of("."), "another", "land", 0):
        assert str(main(arguments)) == SERVICE["SuccessExitStatus"]


def test_a_run_that_fails_is_told_to_a_command_and_counted(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    heard = runs.home / "heard.json"
    hook = f"cp /dev/stdin {heard}"
    status, said, metrics = runs(str(runs.home / "nowhere"), "--on-failure", hook)
    assert status == 2 == metrics["run_status"]
    assert json.loads(heard.read_text()) == said
    assert "no such file" in said["error"]
    assert metrics["run_failed_runs"] == 1 == said["failed_runs"]
    assert metrics["run_success_timestamp_seconds"] > 1.7e9, "of the last good one"
    capsys.readouterr()
    with writing(Places.of(runs.home / "project"), "another", "land", 0):
        assert main(["status", "--project-dir", str(runs.home / "project")]) == 0
    status_lines = capsys.readouterr().out
    assert "last run   failed; the last good one ended 2" in status_lines
    assert f"process {os.getpid()} on {socket.gethostname()} (tidemark land" in status_lines

    heard.unlink()
    assert main(["run", "--on-failure", "no-such-command", "--project-dir", str(runs.home / "project")]) == 2
    status, said, _ = runs("--on-failure", hook)
    assert (status, said["failed_runs"], heard.exists()) == (0, 0, False)
    capsys.readouterr()
    assert main(["run", "--skip-unchanged", "--summary", "-", "--project-dir", str(runs.home / "project")]) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == ["land", "build", "check"], "nothing but the summary"


def test_runs_follow_one_another_until_they_are_stopped(runs: Runs) -> None:
    stop = threading.Event()
    seen: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        seen.append(outcome)
        if len(seen) == 1:
            runs.give("third.jsonl", 1)
        if len(seen) == 3:
            stop.set()

    task = Task(Places.of(runs.home / "project"), files=[str(runs.home / "records")], skips=True)
    assert run_every(task, 0.1, stop, tell) == 0
    assert [(one.status, one.landed.read) for one in seen] == [(0, 0), (0, 1), (0, 0)]
    assert not Path(task.places.catalog, "metastore/dbex.lck").exists(), "others may have the catalog between runs"

    # Somebody takes away what was landed, and then brings what is no whole file.
    for file in (runs.home / "records").iterdir():
        file.unlink()
    stop.clear()
    seen.clear()

    def bring(outcome: Outcome) -> None:
        seen.append(outcome)
        half = runs.home / "records/half.jsonl.gz"
        if len(seen) == 1:
            half.write_bytes(b"\x1f\x8b half")
        if len(seen) == 2:
            half.unlink()
        if len(seen) == 3:
            stop.set()

    assert run_every(task, 0.1, stop, bring) == 0
    assert [(one.status, one.skipped) for one in seen] == [
        (0, ["land", "build", "check"]), (2, []), (0, ["land", "build", "check"]),
    ]  # fmt: skip

    def bring_and_leave(outcome: Outcome) -> None:
        bring(outcome) if len(seen) == 0 else seen.append(outcome)

    seen.clear()
    stop.clear()
    assert run_every(task, 0.1, stop, bring_and_leave) == 3
    assert [one.status for one in seen] == [0, 2, 2, 2]
    (runs.home / "records/half.jsonl.gz").unlink()
    assert run_every(Task(task.places, files=["nowhere"]), 0.1, threading.Event(), seen.append) == 2


def test_a_file_that_is_taken_away_while_spark_starts_is_nothing_new(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, session = runs.home / "records/gone.jsonl", steps.Run.session

    def start(run: steps.Run, *, catalog: bool = False) -> SparkSession:
        gone.unlink(missing_ok=True)
        return session(run, catalog=catalog)

    gone.write_text("{}")
    monkeypatch.setattr(steps.Run, "session", start)
    task = Task(Places.of(runs.home / "project"), files=[str(runs.home / "records")], skips=True)
    outcome = run_once(task)

    assert (outcome.status, outcome.skipped) == (0, ["land", "build", "check"])
    assert str(gone) not in Memory.of(task.places).files["default"], "it may come back as it was"


def test_a_process_whose_runs_fail_again_and_again_ends(runs: Runs) -> None:
    seen: list[Outcome] = []
    records = runs.home / "lakehouse/bronze/records"
    log = sorted((records / "_delta_log").glob("*.json"))[0]
    runs.give("fourth.jsonl", 1)
    aside = runs.home / "aside"
    (records / "_delta_log").rename(aside)
    task = Task(Places.of(runs.home / "project"), files=[str(runs.home / "records")], skips=True)
    assert run_every(task, 0.1, threading.Event(), seen.append) == 3
    assert len(seen) == 3
    assert "bronze.records is damaged" in str(seen[0].error)

    aside.rename(records / "_delta_log")
    assert log.exists()
    assert run_once(task).landed.landed == 1
    [kept] = Memory.of(task.places).files["default"]
    assert Path(kept).name == "fourth.jsonl", "others were taken away"


@contextmanager
def process(runs: Runs, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that runs in the project, as cron starts one, with what it says; ended whatever comes."""
    places = Places.of(runs.home / "project")
    (temporary := runs.home / "temporary").mkdir(exist_ok=True)
    ours = os.environ | places.environment() | {"TIDEMARK_CATALOG": str(runs.home / "catalog"), "LC_ALL": "C"}
    ours["TMPDIR"] = str(temporary)
    # Who starts tests behind `&` or nohup has them, and what they start, ignore these signals.
    program = ["env", "--default-signal=INT,HUP", str(Path(sys.executable).with_name("tidemark"))]
    command = [*program, "run", *arguments, "--project-dir", str(places.project)]
    with subprocess.Popen(
        command, env=ours, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as one:
        try:
            yield one
        finally:
            one.kill()


def until_it_says(one: subprocess.Popen[str], words: str) -> None:
    """Wait until a process has said something."""
    assert one.stdout is not None
    said = []
    for line in one.stdout:
        said.append(line)
        if words in line:
            return
    raise AssertionError("".join(said))


def test_a_process_is_ended_by_signals_at_once_or_behind_its_step_and_the_next_run_is_right(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.give("fifth.jsonl", 1)
    summary = runs.home / "every.json"
    places = Places.of(runs.home / "project")
    last_success = Memory.of(places).last_success

    with process(runs, str(runs.home / "records"), "--every", "1s", "--summary", str(summary)) as every:
        until_it_says(every, "land …")
        java = java_of(every)
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.killpg(every.pid, one)  # as a terminal does, which tells Spark's Java as well
        output, _ = every.communicate(timeout=120)
        assert "Traceback" not in output
        assert not Path("/proc", java).exists(), "Spark holds the catalog against the next command"
        assert not list((runs.home / "temporary").iterdir())
    said = json.loads(summary.read_text())
    assert (every.returncode, said["status"], said["landed"]["landed"]) == (0, 0, 1)
    assert list(said["stages"]) == ["start Spark", "land"], "a step ends, and none begins"
    assert holder_of(places) is None
    assert said["last_success"] == last_success, "a run that was stopped is no good one"

    with process(runs, str(runs.home / "records")) as once:
        until_it_says(once, "START sql")
        java = java_of(once)
        [held] = (runs.home / "temporary").iterdir()
        assert list(held.glob("blockmgr-*")), "Spark's, which hold what records do"
        once.send_signal(signal.SIGINT)
        time.sleep(0.02)
        once.send_signal(signal.SIGINT)  # as people do who see nothing happen
        output, _ = once.communicate(timeout=120)
        assert not Path("/proc", java).exists(), "Spark writes behind a lock that is free"
        assert not held.exists()
    assert once.returncode == 130
    assert "tidemark: stopped by Ctrl-C; run again." in output
    assert "Traceback" not in output
    assert holder_of(places) is None

    monkeypatch.chdir(places.project)
    assert main(units_command(runs)) == 0
    assert json.loads(Path("run.json").read_text())["skipped"] == ["land"]
    assert "tidemark_run_status 0.0" in Path("tidemark.prom").read_text()
    [table] = captured_tables(places)
    assert table.history is not None
    ids = [row["id"] for row in rows_of(table.history.location)]
    assert sorted(ids) == sorted({json.loads(one["key"])["id"] for one in runs.source.records})


def test_sigterm_ends_a_command_and_is_named() -> None:
    words = "import os, spark_jobs.cli as c; held = c.listening(c._end); held.__enter__(); os.kill(os.getpid(), 15)"
    ended = subprocess.run([sys.executable, "-c", words], cwd=PROJECT, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (143, "tidemark: stopped by SIGTERM; run again.\n")


def java_of(one: subprocess.Popen[str]) -> str:
    """The id of the process in which a process has Spark."""
    children = Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()
    [java] = [child for child in children if Path("/proc", child, "comm").read_text() == "java\n"]
    return java
