"""What a scheduled run does before and behind its work: it waits, is told to stop, and tells machines. No Spark."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark_jobs import bronze, logs, notify, schedule, steps
from spark_jobs.catalog import require_free_catalog
from spark_jobs.cli import main
from spark_jobs.delta import has_log
from spark_jobs.errors import Busy, Fault, Stopped, UsageError
from spark_jobs.files import Files, write_named
from spark_jobs.fingerprint import fingerprint_of, project_hash, version_of
from spark_jobs.landing import kafka
from spark_jobs.landing.kafka import Streamed
from spark_jobs.landing.land import Landed, Landing
from spark_jobs.lock import LAYOUT, MARKER, leased, writing
from spark_jobs.outcomes import say_run
from spark_jobs.places import Places
from spark_jobs.reporting.check import CheckOutcome, _folder_aside
from spark_jobs.reporting.evidence import Evidence
from spark_jobs.run_memory import Memory
from spark_jobs.schedule import Outcome, Task, run_every, run_once
from spark_jobs.session import _java_noise_aside, _private_folder
from tests.projects import PROJECT

# Nobody waits so long in these tests: who did has not been told to stop.
LONG = 60


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Places that commands find, too: a session that other tests have begun leaves its own in the environment."""
    for name in ("dbt_project.yml", "profiles.yml"):
        shutil.copy(PROJECT / name, tmp_path)
    places = Places(tmp_path, str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))
    for name, place in places.environment().items():
        monkeypatch.setenv(name, place)
    return places


@contextmanager
def soon(do: Callable[[], Any]) -> Iterator[None]:
    """Do something in a moment; what is within must end long before others would let it."""
    timer = threading.Timer(0.3, do)
    began = time.monotonic()
    timer.start()
    yield
    assert time.monotonic() - began < LONG / 2
    timer.join()


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def session(*_: Any, **__: Any) -> SparkSession:
        raise AssertionError("it was told to stop, and began")

    monkeypatch.setattr(steps.Run, "session", session)


@pytest.mark.usefixtures("no_spark")
def test_a_run_that_waits_for_another_writer_ends_where_it_is_told_to(places: Places) -> None:
    stop, seen = threading.Event(), list[Outcome]()
    with writing(places, "other", "land"), soon(stop.set):
        assert run_every(Task(places, wait=LONG), LONG, stop, seen.append) == 0
    assert [(one.status, one.error) for one in seen] == [(0, None)]


@pytest.mark.usefixtures("no_spark")
def test_a_run_that_is_told_to_stop_while_it_gets_the_lock_does_nothing(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, seen = threading.Event(), list[Outcome]()

    @contextmanager
    def at_last(*arguments: Any) -> Iterator[None]:
        with writing(*arguments):
            stop.set()
            yield

    monkeypatch.setattr(steps, "writing", at_last)
    assert run_every(Task(places), LONG, stop, seen.append) == 0
    assert [(one.status, one.error) for one in seen] == [(0, None)]


def test_a_run_that_is_told_to_stop_while_spark_starts_lands_nothing(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, seen = threading.Event(), list[Outcome]()
    (places.project / "records.jsonl").write_text("{}\n")
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(steps, "build_session", lambda *_, **__: stop.set())
    monkeypatch.setattr(steps, "take_catalog", lambda *_: None)
    monkeypatch.setattr(steps, "land", None)

    assert run_every(Task(places, [str(places.project / "records.jsonl")]), LONG, stop, seen.append) == 0
    assert [(one.status, one.error) for one in seen] == [(0, None)]


@pytest.mark.parametrize(("more", "status"), [([], 143), (["--continuous"], 0)])
def test_a_landing_of_topics_that_was_stopped_has_done_its_work_if_it_was_to_go_on(
    places: Places, monkeypatch: pytest.MonkeyPatch, more: list[str], status: int
) -> None:
    monkeypatch.setattr(steps.Run, "session", lambda *_: None)
    monkeypatch.setattr(steps, "land_kafka", lambda *_: Streamed(is_stopped=True))

    topics = ["--kafka", "broker:9092", "--topics", "all"]
    assert main(["land", *topics, *more, "--project-dir", str(places.project)]) == status


def test_waiting_for_a_lease_ends_where_it_is_told_to(tmp_path: Path) -> None:
    stop = threading.Event()

    def lease(wait: float) -> Any:
        return leased(str(tmp_path), "writer", {}, wait, lambda _: Busy("held"), stop)

    with lease(0), soon(stop.set), pytest.raises(Stopped), lease(LONG):
        pass


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_lakehouse_that_another_brings_to_a_newer_layout_meanwhile_is_not_written(
    places: Places, monkeypatch: pytest.MonkeyPatch, is_folder: bool
) -> None:
    monkeypatch.setattr(Places, "is_folder", is_folder)
    other = ExitStack()
    other.enter_context(writing(places, "other", "upgrade"))

    def upgraded() -> None:
        Files.of(places).write(MARKER, json.dumps({"layout": LAYOUT + 1}))
        other.close()

    with soon(upgraded), pytest.raises(UsageError, match="layout"), writing(places, "run", "land", math.inf):
        pass


def test_who_holds_the_catalog_is_waited_for(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr("spark_jobs.catalog._MOMENT_SECONDS", 0)
    lock = Path(places.catalog) / "metastore/dbex.lck"
    lock.parent.mkdir(parents=True)
    lock.touch()
    is_free = threading.Event()
    # The system's lock is this process's own, which it would get twice.
    monkeypatch.setattr(fcntl, "lockf", lambda *_: None if is_free.is_set() else _taken())

    for until in (None, time.monotonic()):
        with pytest.raises(Busy, match=r"`tidemark run --every`\), .* or give --wait TIME"):
            require_free_catalog(places, until)
    stop = threading.Event()
    with soon(stop.set), pytest.raises(Stopped):
        require_free_catalog(places, time.monotonic() + LONG, stop)
    with soon(is_free.set):
        require_free_catalog(places, time.monotonic() + LONG)


@pytest.mark.parametrize("command", [["build"], ["rebuild", "orders"], ["catalog"], ["run"]])
def test_nobody_waits_for_the_catalog_with_the_lock_in_hand(
    command: list[str], places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who holds it can be a `run --every`, which would find the lakehouse taken in each of its runs."""

    def begun(*_: Any, **__: Any) -> None:
        raise Fault("Spark starts")

    def lockf(*_: Any) -> None:
        asked.set()
        if not is_free.is_set():
            _taken()

    def write() -> None:
        if not asked.wait(LONG):
            return
        with suppress(Busy), writing(places, "other", "run", 5):
            written.set()
        is_free.set()

    asked, written, is_free = threading.Event(), threading.Event(), threading.Event()
    lock = Path(places.catalog) / "metastore/dbex.lck"
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(steps, "build_session", begun)
    monkeypatch.setattr(fcntl, "lockf", lockf)
    with soon(write):
        assert main([*command, "--wait", str(LONG), "--project-dir", str(places.project)]) == Fault.status
    assert (written.is_set(), is_free.is_set()) == (True, True)


def test_a_catalog_that_can_not_be_written_is_told_before_spark_starts(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    require_free_catalog(places)
    Path(places.catalog).mkdir()
    may = os.access
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, *of, **how: path != Path(places.catalog) and may(path, *of, **how))
    with pytest.raises(Fault, match=r"catalog can't be written \(Permission denied\)\. Give this user"):
        require_free_catalog(places)


@pytest.mark.parametrize("option", ["--summary", "--metrics"])
def test_what_can_be_no_file_is_refused_before_any_work(
    option: str, places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, said in (("", "empty"), (" ", "empty"), (".", "a folder"), ("/", "a folder"), ("new/", "a folder")):
        assert main(["run", option, name, "--project-dir", str(places.project)]) == 2
        assert f"{option} {name or chr(39)}".strip() in (errors := capsys.readouterr().err)
        assert said in errors


def test_what_can_not_be_written_keeps_nothing_else_from_being_told(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    def out(_: str) -> None:
        raise UnicodeEncodeError("ascii", "ü", 0, 1, "no such letter")

    metrics, heard = places.project / "run.prom", places.project / "heard"
    task = Task(places, ["nowhere"], summary="-", metrics=str(metrics), hook=f"cp /dev/stdin {heard}", out=out)
    assert run_once(task).status == 2
    assert "--summary -: can't be written (UnicodeEncodeError" in capsys.readouterr().err
    assert "tidemark_run_status 2.0" in metrics.read_text()
    heard.unlink()

    run_once(replace(task, summary=str(metrics / "below"), metrics=str(metrics / "below")))
    said = capsys.readouterr().err
    assert "--summary" in said
    assert "--metrics" in said
    assert heard.exists()


def test_a_run_whose_project_or_topics_are_wrong_is_told_to_machines(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", places.lakehouse)
    monkeypatch.setenv("TIDEMARK_KAFKA_FILE", str(places.project / "nowhere.properties"))
    Memory(failed_runs=1).store(places)
    machines = [places.project / name for name in ("summary", "metrics.prom", "heard")]
    summary, metrics, heard = map(str, machines)
    whom = ["--summary", summary, "--metrics", metrics, "--on-failure", f"cp /dev/stdin {heard}"]
    topics = ["--kafka", "broker:9092", "--topics", "all"]
    for project, failed_runs, error in ((places.project, 2, "TIDEMARK_KAFKA_FILE"), (places.project / "no", 0, "no ")):
        assert main(["run", *topics, *whom, "--project-dir", str(project)]) == 2
        said = [json.loads(Path(one).read_text()) for one in (summary, heard)]
        assert [(one["status"], one["failed_runs"]) for one in said] == [(2, failed_runs)] * 2
        assert error in said[0]["error"]
        assert "tidemark_run_status 2.0" in Path(metrics).read_text()
        for one in machines:
            one.unlink()


def test_a_run_that_fails_before_it_has_the_lock_is_counted_in_what_others_left_meanwhile(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def taken(*_: Any) -> Iterator[None]:
        Memory(fingerprint="new", files={"default": {"new.jsonl": [1, 2]}}, last_success="now").store(places)
        raise Fault("the store was away")
        yield

    monkeypatch.setattr(steps.Run, "as_writer", taken)
    Memory(fingerprint="old", failed_runs=3).store(places)
    summary = places.project / "summary"
    assert run_once(Task(places, summary=str(summary))).status == 3
    left = Memory.of(places)
    assert (left.fingerprint, left.files, left.failed_runs) == ("new", {"default": {"new.jsonl": [1, 2]}}, 1)
    said = json.loads(summary.read_text())
    assert (said["failed_runs"], said["last_success"]) == (1, "now")


def test_runs_between_two_checks_build_alone(
    places: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done, is_good = list[str](), True

    def build(*_: Any, has_tests: bool) -> None:
        done.append("tested" if has_tests else "built")

    def check(*_: Any, **__: Any) -> CheckOutcome:
        done.append("checked")
        return CheckOutcome(
            () if is_good else ("bad",), (), "", cast(Evidence, SimpleNamespace(pulses=[], lags=[], gaps=[]))
        )

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(steps.Run, "session", lambda *_, **__: None)
    monkeypatch.setattr(steps, "build", build)
    monkeypatch.setattr(steps, "check_and_report", check)
    Path(places.catalog, "metastore").mkdir(parents=True)
    (places.project / "models").mkdir()
    summary = places.project / "summary"

    def after_run(news: str = "", check_every: float | None = 3600) -> list[str]:
        """What a run does, and what it says of checks."""
        done.clear()
        if news:
            (places.project / f"models/{news}.sql").write_text("select 1")
        say_run(run_once(Task(places, skips=True, check_every=check_every, summary=str(summary))))
        assert json.loads(summary.read_text())["checked_at"] == Memory.of(places).checked_at
        return list(done)

    def an_hour_ago() -> None:
        memory = Memory.of(places)
        memory.checked_at = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        memory.store(places)

    assert after_run() == ["tested", "checked"], "none was before"
    capsys.readouterr()
    assert after_run() == []
    assert "due" not in capsys.readouterr().out, "all that was built was checked"
    assert after_run("one") == ["built"]
    due = f"{datetime.fromisoformat(str(Memory.of(places).checked_at)) + timedelta(hours=1):%Y-%m-%d %H:%M:%S}"
    assert capsys.readouterr().out == f"built, and not checked; the next check is due at {due} UTC.\n"
    assert after_run() == []
    said = capsys.readouterr().out
    assert (
        said
        == f"Nothing is new since the last good run: nothing to build or check; the next check is due at {due} UTC.\n"
    )

    an_hour_ago()
    assert after_run() == ["tested", "checked"], "of what was built in between"
    an_hour_ago()
    assert after_run() == [], "nothing was built since"
    assert after_run("two", check_every=None) == ["tested", "checked"]
    assert after_run("three") == ["built"]
    assert after_run(check_every=None) == ["tested", "checked"], "who checks in each run has not checked that"

    an_hour_ago()
    is_good = False
    assert after_run("four") == ["tested", "checked"]
    assert json.loads(summary.read_text())["status"] == 1
    is_good = True
    assert after_run("five") == ["tested", "checked"], "until one is good"
    assert after_run("six") == ["built"]
    monkeypatch.setattr(steps, "build", lambda *_, **__: _raise(Fault("a model could not be built")))
    assert after_run("seven") == []
    assert (json.loads(summary.read_text())["status"], Memory.of(places).failed_runs) == (3, 1)


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("commits", [0, 1, 2, 3, 8, 49, 50, 99])
def test_a_long_log_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: int) -> None:
    places = Places(tmp_path, str(tmp_path), "")
    log = tmp_path / "bronze/records/_delta_log"
    log.mkdir(parents=True)
    for version in range(30, 51 + commits):
        (log / f"{version:020}.json").touch()
    (log / f".{200:020}.json.tmp").touch()
    newest = 50 + commits
    assert version_of(places, "bronze/records") == newest
    assert version_of(places, "bronze/nothing") == -1

    def told(text: str) -> int:
        (log / "_last_checkpoint").write_text(text)
        return version_of(places, "bronze/records")

    for damaged in ("", "{", "[]", '{"version": "50"}', '{"version": 10}', '{"version": 500}'):
        assert told(damaged) == newest, "no more than a hint"
    monkeypatch.setattr(Files, "names", None)
    assert told('{"version": 40, "size": 3, "parts": 2}') == told('{"version": 50}') == newest
    assert has_log(Files(str(tmp_path)), "bronze/records")
    assert has_log(Files(str(tmp_path / "bronze/records")))


def test_an_object_store_tells_one_file_from_none() -> None:
    files = Files("memory:///")
    files.write("a/_delta_log/_last_checkpoint", "{}")
    assert [files.exists(f"a/_delta_log/{one}") for one in ("_last_checkpoint", "0.json")] == [True, False]
    assert has_log(files, "a")
    assert not has_log(files, "b")


def test_a_name_that_is_no_text_keeps_nothing_from_being_told(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a test logs goes from process to process as UTF-8, which such a name ends.
    monkeypatch.setattr(logging.getLogger("tidemark"), "disabled", True)
    summary, heard = (places.project / name for name in ("summary", "heard"))
    task = Task(places, [os.fsdecode(b"\xff.jsonl")], summary=str(summary), hook=f"cp /dev/stdin {heard}")
    assert run_once(task).status == 2
    for file in (summary, heard):
        assert "\udcff.jsonl" in json.loads(file.read_text())["error"]


def test_links_and_fifos_stay_what_they_are(tmp_path: Path) -> None:
    real, link, fifo = tmp_path / "there/real", tmp_path / "link", tmp_path / "fifo"
    link.symlink_to("there/real")
    os.mkfifo(fifo)
    for text in ("one", "two"):
        write_named(link, text)
        assert (link.is_symlink(), real.read_text()) == (True, text)
    assert [one.name for one in real.parent.iterdir()] == ["real"]

    with pytest.raises(OSError, match="No such device"):
        write_named(fifo, "nobody reads")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write_named(fifo, "heard")
    assert os.read(reader, 10) == b"heard"
    os.close(reader)
    assert fifo.is_fifo()
    write_named(Path(os.devnull), "nothing")
    assert Path(os.devnull).is_char_device()


def test_a_file_of_the_project_that_can_not_be_read_is_a_fault_and_one_that_is_gone_is_none(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = project_hash(places)
    file, read = places.project / "models/new.sql", Path.read_bytes
    file.parent.mkdir()
    file.touch()

    def failing(error: OSError) -> Callable[[Path], bytes]:
        def read_bytes(path: Path) -> bytes:
            if path == file:
                raise error
            return read(path)

        return read_bytes

    monkeypatch.setattr(Path, "read_bytes", failing(PermissionError(errno.EACCES, "Permission denied")))
    with pytest.raises(Fault, match=r"models/new\.sql can't be read \(Permission denied\).* Give this user"):
        project_hash(places)
    monkeypatch.setattr(Path, "read_bytes", failing(FileNotFoundError(errno.ENOENT, "No such file")))
    assert project_hash(places) == before


def test_what_a_check_writes_is_no_news(places: Places) -> None:
    def commit(table: str) -> str:
        log = Path(places.lakehouse) / table / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        (log / f"{len(list(log.iterdir())):020}.json").touch()
        return fingerprint_of(places, "")

    before = commit("ops/progress")
    assert commit("ops/accounting") == commit("ops/test_results") == before
    assert commit("silver/accounting") != before

    # What landing has lost stands with its bronze, and is read by the models of others, too.
    places = replace(places, prefix="dev_")
    before = commit("ops/progress")
    assert commit("ops/kafka_offsets") == before
    assert commit("ops/kafka_gaps") != before


def test_a_run_that_knows_no_such_layout_leaves_what_a_newer_version_remembers(places: Places) -> None:
    Memory(failed_runs=7).store(places)
    (Path(places.lakehouse) / "tidemark.json").write_text('{"layout": 99}')
    [file] = Path(places.lakehouse).glob("**/run.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"of a newer version": 1}))
    before = file.read_bytes()

    outcome = run_once(Task(places))
    assert (outcome.status, "layout 99" in str(outcome.error)) == (2, True)
    assert file.read_bytes() == before


def test_an_error_that_no_one_foresaw_is_told_to_machines_without_values(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files(*_: Any) -> list[str]:
        raise ValueError("no such thing: 'ada'")

    monkeypatch.setattr(schedule, "_files", files)
    summary = places.project / "run.json"
    with pytest.raises(ValueError, match="ada"):
        run_once(Task(places, summary=str(summary)))
    assert json.loads(summary.read_text())["error"] == "ValueError: no such thing: …"


def test_a_process_that_ends_behind_three_faults_says_so(
    places: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schedule, "run_once", lambda *_: Outcome("run", datetime.now(UTC), status=3))
    assert run_every(Task(places), 0.01, threading.Event(), lambda _: None) == 3
    assert "3 runs in a row failed; this process ends with status 3" in capsys.readouterr().err


def test_a_process_goes_on_behind_two_errors_that_no_one_foresaw(
    places: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, stop, ran = Outcome("run", datetime.now(UTC)), threading.Event(), list[int]()

    def run(*_: Any) -> Outcome:
        ran.append(len(ran))
        if len(ran) in (2, 3, 5, 6, 7):
            raise ValueError("no such thing: 'ada'")
        return good

    monkeypatch.setattr(schedule, "run_once", run)
    with pytest.raises(ValueError, match="ada"):
        run_every(Task(places), 0.01, stop, lambda _: None)
    assert len(ran) == 7
    said = capsys.readouterr().err
    assert said.count("tidemark: unforeseen: ValueError: no such thing: … The next run follows.") == 4
    assert said.count("3 runs in a row failed") == 1


def test_a_temporary_folder_without_room_is_a_fault_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/dev/full")
    said = r"prepared in /dev/full \(Not a directory\): make room there, or set TMPDIR"
    with pytest.raises(Fault, match=said), _folder_aside():
        pass
    for needs_room in (_java_noise_aside().__enter__, _private_folder):
        with pytest.raises(Fault, match=said.replace("prepared", "started")):
            needs_room()
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError), _folder_aside():
        Path("/of/another/folder").read_text()
    with pytest.raises(Fault, match=r"\(No space left on device\): make room"), _folder_aside():
        Path("/dev/full").write_text("a page")


def test_an_engine_that_fails_before_a_build_is_told_as_a_fault(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ensure(*_: Any) -> None:
        raise Py4JError("java.io.IOException: No space left on device")

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: object())
    monkeypatch.setattr(bronze, "ensure", ensure)
    monkeypatch.setattr(steps, "explained", lambda *_: None)
    with pytest.raises(Fault, match=r"Spark could not see that bronze is there: .*No space left on device\. Nothing"):
        steps.build(steps.Run(places, "build"), [])


@pytest.mark.parametrize("is_of_tidemark", [False, True])
@pytest.mark.parametrize("of_topics", [False, True])
def test_damage_that_landing_meets_is_named(
    places: Places, monkeypatch: pytest.MonkeyPatch, of_topics: bool, is_of_tidemark: bool
) -> None:
    def land(*_: Any) -> None:
        error = Py4JError("records/part-0.parquet does not exist")
        if is_of_tidemark:
            raise Fault("Spark could not land the records.") from error
        raise error

    def explained(*about: Any) -> Fault:
        assert about[-1] == "records/part-0.parquet does not exist"
        return Fault("bronze.records is damaged")

    monkeypatch.setattr(kafka, "land_topics", land)
    monkeypatch.setattr(steps, "land_files", land)
    monkeypatch.setattr("spark_jobs.damage.explained", explained)
    run, nothing = steps.Run(places, "run"), SparkSession.__new__(SparkSession)
    step: Any = steps.land_kafka if of_topics else steps.land
    more = (nullcontext, threading.Event(), Streamed()) if of_topics else ()
    with pytest.raises(Fault, match=r"bronze\.records is damaged"):
        step(run, nothing, (), "default", *more)


def test_files_are_landed_at_the_time_at_which_they_are_read(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def land(_: Any, __: Places, ___: Any, landing: Landing) -> Landed:
        landed.append(landing.at)
        return Landed()

    landed = list[datetime]()
    monkeypatch.setattr(steps, "land_files", land)
    began = datetime.now(UTC)
    # It was started, and waited for another writer.
    run = steps.Run(places, "land", began - timedelta(minutes=30))
    steps.land(run, SparkSession.__new__(SparkSession), [], "default")
    assert began <= landed[0] <= datetime.now(UTC)


def test_upkeep_is_due_where_the_clock_was_set_back() -> None:
    now = datetime.now(UTC)
    lasts = [now - timedelta(seconds=one) for one in (70, 30, -30)]
    assert [schedule._is_due(60, one.isoformat()) for one in lasts] == [True, False, True]
    assert [schedule._is_due(60, None), schedule._is_due(None, now.isoformat())] == [True, False]


def test_a_hook_whose_time_is_over_ends_with_all_that_it_has_started(
    places: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = places.project / "started"
    os.mkfifo(places.project / "never")
    monkeypatch.setattr(notify, "_HOOK_SECONDS", 1)
    hook = f"sh -c 'cat {places.project}/never & echo $! > {started}; wait'"
    assert run_once(Task(places, ["nowhere"], hook=hook)).status == 2
    assert "TimeoutExpired" in capsys.readouterr().err
    state = Path("/proc", started.read_text().strip(), "stat")
    until = time.monotonic() + LONG / 2
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z" and time.monotonic() < until:
        time.sleep(0.05)
    assert time.monotonic() < until


def test_logs_have_one_zone(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        path = logs.start(places.project, "run", False)
        logs.log.info("a line")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert path is not None
    at = path.read_text().partition(" run ")[0]
    assert timedelta(0) <= datetime.now(UTC) - datetime.strptime(at, "%Y-%m-%d %H:%M:%S.%f%z") < timedelta(minutes=5)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("form", ["text", "json"])
def test_each_line_of_a_log_has_its_run_s_id_frames_of_errors_too(places: Places, form: str) -> None:
    assert main(["scaffold", "--log-format", form, "--project-dir", str(places.project)]) == 3

    [file] = Path(places.lakehouse, "logs").glob("*.log")
    lines = file.read_text().splitlines()
    assert {json.loads(line)["run_id"] if form == "json" else line.split()[2] for line in lines} == {file.stem}
    assert "in session" in "".join(lines)


def test_a_terminal_that_is_closed_is_heard_unless_it_is_ignored() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with steps.stop_event() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.wait(5)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with steps.stop_event() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.wait(0.1)
    finally:
        signal.signal(signal.SIGHUP, before)
    # It ends as behind SIGTERM, though nobody can be told.
    words = "import os, spark_jobs.cli as c; held = c.listening(c._end); held.__enter__(); os.kill(os.getpid(), 1)"
    command = ["env", "--default-signal=HUP", sys.executable, "-c", words]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stderr=full, cwd=PROJECT, check=False, timeout=LONG)
    assert ended.returncode == 143


def _taken() -> None:
    raise BlockingIOError
