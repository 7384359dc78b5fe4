"""The lock on an object store: numbers that one process alone can take, and a silence that says that one has died."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.errors import Busy, UsageError
from spark_jobs.lock import leased

SECONDS = 3
HOLD = """
import sys, time
from spark_jobs.lock import leased
with leased(sys.argv[1], "writer", {"pid": 1}, 0, lambda _: SystemExit(4)):
    print("held", flush=True)
    time.sleep(60)
"""
# Behind its first word the store takes what is written, and never answers.
HANG = "from spark_jobs.lock import _Lease; import time; _Lease.say = lambda *_: time.sleep(60)\n" + HOLD
# Once it holds the lock its machine is suspended for an hour.
SUSPENDED = """
import time
of_clock, sleep, suspended = time.clock_gettime, time.sleep, []
time.clock_gettime = lambda clock: of_clock(clock) + (3600 * len(suspended) if clock == time.CLOCK_BOOTTIME else 0)
time.sleep = lambda seconds: suspended.append(seconds) or sleep(seconds)
"""
# A process whose Spark would write on.
WITH_SPARK = """
import sys, types
from pathlib import Path
sys.modules["spark_jobs.session"] = types.SimpleNamespace(end_java=(Path(sys.argv[1]) / "spark has ended").touch)
"""


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LEASE_SECONDS", str(SECONDS))


def lock(folder: Path, who: str, wait: float = 0) -> Any:
    return leased(str(folder), "writer", {"pid": who}, wait, lambda holder: Busy(f"held by {holder['pid']}"))


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", WITH_SPARK + HOLD, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def numbers(folder: Path) -> list[str]:
    return sorted(one.name for one in (folder / "_locks/writer").iterdir())


def test_a_second_holder_waits_for_the_first_and_is_busy_where_it_may_not(tmp_path: Path) -> None:
    events: list[str] = []

    def first() -> None:
        with lock(tmp_path, "first"):
            events.append("first begins")
            has_begun.set()
            time.sleep(SECONDS)
            events.append("first ends")

    has_begun = threading.Event()
    thread = threading.Thread(target=first)
    thread.start()
    has_begun.wait()

    with pytest.raises(Busy, match="held by first"), lock(tmp_path, "hasty"):
        events.append("both write")
    with lock(tmp_path, "second", wait=60):
        events.append("second begins")

    thread.join()
    assert events == ["first begins", "first ends", "second begins"]
    assert len(numbers(tmp_path)) == 1


def test_many_at_once_hold_it_one_after_the_other(tmp_path: Path) -> None:
    inside, most, done = 0, 0, 0

    def hold(who: int) -> None:
        nonlocal inside, most, done
        with lock(tmp_path, str(who), wait=60):
            inside += 1
            most = max(most, inside)
            time.sleep(0.05)
            inside -= 1
            done += 1

    threads = [threading.Thread(target=hold, args=(who,)) for who in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert (most, done) == (1, 6)


def test_a_dead_holder_is_followed_once_it_was_silent_for_long_enough(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    other.kill()
    began = time.monotonic()

    with lock(tmp_path, "next"):
        assert time.monotonic() - began >= SECONDS - 0.5


def test_a_holder_that_lost_the_lock_ends_at_once(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    [number] = numbers(tmp_path)
    follower = tmp_path / f"_locks/writer/{int(number) + 1:012d}"
    follower.write_text(json.dumps({"beat": 0, "seconds": 60, "holder": {"pid": 2}}))

    _, said = other.communicate(timeout=30)

    assert other.returncode == 3
    assert "The lock on the lakehouse is lost" in said
    assert (tmp_path / "spark has ended").exists(), "it would write while the follower does"


def test_a_holder_whose_store_does_not_answer_ends_before_another_may_begin(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HANG, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with lock(tmp_path, "next", wait=60):
            assert other.poll() == 3
        _, said = other.communicate()
    assert "the store did not answer" in said


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="No clock of this system tells of a suspension.")
def test_a_holder_whose_machine_was_suspended_ends_before_it_writes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_LEASE_SECONDS", "600")
    command = [sys.executable, "-c", SUSPENDED + HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as other:
        try:
            _, said = other.communicate(timeout=20)
        finally:
            other.kill()
    assert other.returncode == 3
    assert "The lock on the lakehouse is lost" in said


def test_a_number_that_was_taken_and_followed_long_ago_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that slept between its look and its taking finds its number free: later holders have removed it."""
    from spark_jobs.lock import _Lease

    with lock(tmp_path, "first"):
        pass
    before = _Lease.take

    def take(self: Any, number: int, claim: dict[str, Any]) -> bool:
        monkeypatch.setattr(_Lease, "take", before)
        for who in ("second", "third"):
            with lock(tmp_path, who):
                pass
        return before(self, number, claim)

    monkeypatch.setattr(_Lease, "take", take)
    with lock(tmp_path, "sleeper"):
        assert [int(one) for one in numbers(tmp_path)] == [4]


def test_what_the_lease_may_be_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LEASE_SECONDS", "soon")
    with pytest.raises(UsageError, match="TIDEMARK_LEASE_SECONDS=soon"), lock(tmp_path, "anyone"):
        pass
