"""What a scheduled run does before and behind its work: it waits, is told to stop, and tells machines. No Spark."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs import steps
from spark_jobs.errors import Busy, Stopped
from spark_jobs.lock import leased, writing
from spark_jobs.places import Places
from spark_jobs.schedule import Outcome, Task, run_every
from spark_jobs.session import require_free_catalog

# Nobody waits so long in these tests: who did has not been told to stop.
LONG = 60


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path, str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))


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
    monkeypatch.setattr(steps, "_take_catalog", lambda *_: None)
    monkeypatch.setattr(steps, "land", None)

    assert run_every(Task(places, [str(places.project / "records.jsonl")]), LONG, stop, seen.append) == 0
    assert [(one.status, one.error) for one in seen] == [(0, None)]


def test_waiting_for_a_lease_ends_where_it_is_told_to(tmp_path: Path) -> None:
    stop = threading.Event()

    def lease(wait: float) -> Any:
        return leased(str(tmp_path), "writer", {}, wait, lambda _: Busy("held"), stop)

    with lease(0), soon(stop.set), pytest.raises(Stopped), lease(LONG):
        pass


def test_who_holds_the_catalog_is_waited_for(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr("spark_jobs.session._MOMENT_SECONDS", 0)
    lock = Path(places.catalog) / "metastore/dbex.lck"
    lock.parent.mkdir(parents=True)
    lock.touch()
    is_free = threading.Event()
    # The system's lock is this process's own, which it would get twice.
    monkeypatch.setattr(fcntl, "lockf", lambda *_: None if is_free.is_set() else _taken())

    with pytest.raises(Busy, match="--wait"):
        require_free_catalog(places)
    stop = threading.Event()
    with soon(stop.set), pytest.raises(Stopped):
        require_free_catalog(places, time.monotonic() + LONG, stop)
    with soon(is_free.set):
        require_free_catalog(places, time.monotonic() + LONG)


def _taken() -> None:
    raise BlockingIOError
