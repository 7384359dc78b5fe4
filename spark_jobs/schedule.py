"""A run that people or a scheduler start, or that starts itself again: land, build, check; or only what has news.

What the last run came to stands in the lakehouse (`run.json`), so that the next one, in whatever process, knows what is
unchanged: the files that were landed, the tables, and the project that they were built by.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs import steps
from spark_jobs.catalog import lacks_catalog, let_catalog_go
from spark_jobs.engine_errors import ENGINE_ERRORS, unforeseen
from spark_jobs.errors import TERMINATED, Busy, CatalogBusy, DataError, Fault, Stopped, TidemarkError, UsageError
from spark_jobs.fingerprint import fingerprint_of, moving_bronze, project_hash, version_of
from spark_jobs.landing.input_files import files_named
from spark_jobs.landing.land import Landed
from spark_jobs.lock import LAYOUT, layout_of
from spark_jobs.logs import log
from spark_jobs.notify import say_unforeseen, tell_machines, warn
from spark_jobs.places import DEFAULT_LABEL, Places
from spark_jobs.run_memory import Memory
from spark_jobs.upkeep import Upkept, Wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.landing.kafka import Streamed, Topics
    from spark_jobs.reporting.check import CheckOutcome

_OFFSETS = "ops/kafka_offsets"
# A process whose runs fail so often in a row may be what is wrong: whoever started it can start another.
_FAULTS = 3
_ENOUGH = (
    f"{_FAULTS} runs in a row failed; this process ends with status {Fault.status}, so that another can be started."
    " Lines of theirs, and the runs' logs, say what to mend."
)


@dataclass(frozen=True, slots=True)
class Task:
    """What a run is to do, and whom to tell.

    Attributes:
        places: The project and its lakehouse; of one that can't be read its folder alone.
        files: Record files, folders and patterns.
        topics: Topics to land instead.
        skips: Whether files, and builds and checks, are left out that have no news.
        source_label: The cluster's name in bronze.
        sample_rows: Whether the report shows sample rows.
        wait: Seconds to wait for another writer.
        log_format: `text` or `json`.
        summary: File for the summary, `-` for standard output.
        metrics: File for Prometheus' textfile collector.
        hook: A command for runs that fail; it gets the summary on its standard input.
        out: Where a summary goes whose file is `-`.
        upkeep_every: Seconds from one upkeep of the tables to the next; None for never.
        check_every: Seconds from one good check to the next; runs in between only build. None for one in each run.
    """

    places: Places
    files: Sequence[str] = ()
    topics: Topics | None = None
    skips: bool = False
    source_label: str = DEFAULT_LABEL
    sample_rows: bool = True
    wait: float = 0
    log_format: str = "text"
    summary: str | None = None
    metrics: str | None = None
    hook: str | None = None
    out: Callable[[str], Any] = print
    upkeep_every: float | None = None
    check_every: float | None = None


@dataclass(slots=True)
class Outcome:
    """What a run came to.

    `status` is its exit status, `error` what ended it, `skipped` the steps without news, or that were not due; `upkept`
    is None where an upkeep was not due, and `next_check` where nothing waits for one.
    """

    run_id: str
    started_at: datetime
    status: int = 0
    error: str | None = None
    landed: Landed = field(default_factory=Landed)
    streamed: Streamed | None = None
    checked: CheckOutcome | None = None
    skipped: list[str] = field(default_factory=list)
    stages: Mapping[str, float] = field(default_factory=dict)
    lag: list[dict[str, Any]] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    upkept: list[Upkept] | None = None
    next_check: datetime | None = None

    def summary(self, memory: Memory, finished_at: datetime) -> dict[str, Any]:
        """The run for machines; docs/scheduling.md says what is in it."""
        checked = self.checked
        return {
            "run_id": self.run_id,
            "started_at": self.started_at.isoformat(),
            "finished_at": finished_at.isoformat(),
            "seconds": round((finished_at - self.started_at).total_seconds(), 3),
            "status": self.status,
            "error": self.error,
            "skipped": self.skipped,
            "landed": self.landed.counts,
            "stages": {name: round(seconds, 3) for name, seconds in self.stages.items()},
            "failures": list(checked.failures) if checked else memory.failures,
            "warnings": list(checked.warnings) if checked else memory.warnings,
            "report": checked.report if checked else memory.report,
            "lag": self.lag,
            "gaps": self.gaps,
            "upkeep": None if self.upkept is None else {
                "tables": sum(one.is_rewritten for one in self.upkept),
                "removed_files": sum(one.removed for one in self.upkept),
                "freed_bytes": sum(one.freed for one in self.upkept),
            },
            "checked_at": memory.checked_at,
            "failed_runs": memory.failed_runs,
            "last_success": memory.last_success,
        }  # fmt: skip


def run_once(task: Task, stop: threading.Event | None = None) -> Outcome:
    """Land, build and check what has news, in one session, and tell of it.

    Args:
        task: What to do.
        stop: Set where the run is to end behind the step it is at.

    Returns:
        What it came to; an error of the family is in it, any other is raised once it is told of.
    """
    run = steps.Run(task.places, "run")
    outcome = Outcome(run.run_id, run.started_at, stages=run.stages)
    memory = Memory.of(task.places)
    outcome.lag, outcome.gaps = memory.lag, memory.gaps
    is_counted = False

    def work() -> None:
        nonlocal memory, is_counted
        memory = Memory.of(task.places)  # another run may have ended meanwhile
        outcome.lag, outcome.gaps = memory.lag, memory.gaps
        outcome.skipped.clear()
        is_counted = True
        try:
            if _run(task, run, outcome, memory):
                if _is_due(task.upkeep_every, memory.upkept_at) and not run.is_to_end:
                    outcome.upkept = _keep_up(run, run.session(catalog=True), Wanted(), memory)
                memory.failed_runs, memory.last_success = 0, datetime.now(UTC).isoformat()
        except (Stopped, CatalogBusy):
            raise  # nothing was begun
        except BaseException as error:
            # A run that met another writer has not failed.
            memory.failed_runs += not isinstance(error, Busy)
            with suppress(Fault, OSError):  # what keeps it from being written may be why the run failed
                memory.store(task.places, outcome)
            raise
        memory.store(task.places, outcome)

    try:
        _files(task, memory)  # what is wrong with them is said before the lock is waited for
        run.as_builder(task.log_format, task.wait, work, stop)
    except Stopped:
        log.info("stopped before it began")
    except TidemarkError as error:
        outcome.status, outcome.error = error.status, str(error)
        log.error("%s", error)
        if not is_counted and not isinstance(error, Busy):
            memory = _count_failed(task, outcome)
    except BaseException as error:
        outcome.status, outcome.error = Fault.status, unforeseen(error)
        raise
    finally:
        tell_machines(task, outcome, memory)
    return outcome


def tell_of_refusal(task: Task, error: TidemarkError) -> None:
    """Tell machines of a run that doesn't begin, since its project or its topics are not what it takes."""
    run = steps.Run(task.places, "run")
    outcome = Outcome(run.run_id, run.started_at, error.status, str(error))
    tell_machines(task, outcome, _count_failed(task, outcome) if task.places.lakehouse else Memory())


def _count_failed(task: Task, outcome: Outcome) -> Memory:
    """Count a run that failed before it had the lock; the memory as others have left it by now, with that run in it."""
    memory = Memory.of(task.places)
    is_kept = memory != Memory()
    memory.failed_runs += 1
    outcome.lag, outcome.gaps = memory.lag, memory.gaps
    if is_kept:
        with suppress(Fault, OSError):  # of the store, which may be why the run failed
            if (layout_of(task.places) or 0) <= LAYOUT:  # what a newer version remembers is not known here
                memory.store(task.places)
    return memory


def _run(task: Task, run: steps.Run, outcome: Outcome, memory: Memory) -> bool:
    """Do what is to be done. True if it came to its end, False if it was told to stop between two steps."""
    if lacks_catalog(task.places):
        memory.fingerprint = None  # a build makes it anew
    if not _land(task, run, outcome, memory):
        return False
    project = project_hash(task.places)
    bronze = moving_bronze(task.places)
    offsets = version_of(task.places, _OFFSETS)
    checks = task.check_every is None or _is_due(task.check_every, memory.checked_at)
    is_unchanged = task.skips and memory.fingerprint == fingerprint_of(task.places, project, bronze)
    if is_unchanged and not (checks and (memory.is_unchecked or memory.is_due(offsets, datetime.now(UTC)))):
        outcome.skipped += ["build", "check"]
        outcome.next_check = _next_check(task, memory)
        return True
    if run.is_to_end:
        return False
    memory.fingerprint = None
    memory.is_unchecked = True
    spark = run.session(catalog=True)
    failed: DataError | None = None
    try:
        steps.build(run, [], has_tests=checks)
    except DataError as error:
        failed = error
    if failed is None and run.is_to_end:
        return False
    if not checks:
        outcome.skipped.append("check")
        outcome.next_check = _next_check(task, memory)
        memory.fingerprint = fingerprint_of(task.places, project, bronze)
        return True
    memory.checked_at = None
    outcome.checked = steps.check_and_report(run, spark, sample_rows=task.sample_rows)
    memory.report, found = outcome.checked.report, outcome.checked.evidence
    memory.failures, memory.warnings = list(outcome.checked.failures), list(outcome.checked.warnings)
    memory.watch(found.pulses, found.lags, offsets, datetime.now(UTC))
    # Topics can be landed by another process.
    outcome.lag, outcome.gaps = [asdict(one) for one in found.lags], [asdict(one) for one in found.gaps]
    if failed is not None:
        raise failed
    outcome.checked.require_passed()
    memory.fingerprint = fingerprint_of(task.places, project, bronze)
    memory.checked_at, memory.is_unchecked = datetime.now(UTC).isoformat(), False
    return True


def _next_check(task: Task, memory: Memory) -> datetime | None:
    """When what was built since the last good check is checked; None where nothing was."""
    if task.check_every is None or memory.checked_at is None or not memory.is_unchecked:
        return None
    return datetime.fromisoformat(memory.checked_at) + timedelta(seconds=task.check_every)


def upkeep(run: steps.Run, spark: SparkSession, wanted: Wanted) -> list[Upkept]:
    """Keep up the tables in a command of its own: the next scheduled run finds nothing new because of it."""
    memory = Memory.of(run.places)
    try:
        return _keep_up(run, spark, wanted, memory)
    finally:
        memory.store(run.places)


def _keep_up(run: steps.Run, spark: SparkSession, wanted: Wanted, memory: Memory) -> list[Upkept]:
    project = project_hash(run.places)
    bronze = moving_bronze(run.places)
    is_unchanged = memory.fingerprint == fingerprint_of(run.places, project, bronze)
    try:
        done = steps.upkeep(run, spark, wanted, lambda words: print(words, file=sys.stderr, flush=True))
    finally:
        if is_unchanged:  # where a table failed, others were kept up
            memory.fingerprint = fingerprint_of(run.places, project, bronze)
    memory.upkept_at = datetime.now(UTC).isoformat()
    return done


def _is_due(seconds: float | None, last: str | None) -> bool:
    """Whether so many seconds have passed; a last time that is to come is of a clock that has been set back since."""
    if seconds is None or last is None:
        return seconds is not None
    return not timedelta(0) <= datetime.now(UTC) - datetime.fromisoformat(last) < timedelta(seconds=seconds)


def _land(task: Task, run: steps.Run, outcome: Outcome, memory: Memory) -> bool:
    """Land files that changed, or topics. True if that came to its end, False if it was told to stop."""
    stamps = memory.files.get(task.source_label, {})
    fresh = {file: stamp for file in _files(task, memory) if (stamp := _stamp(file)) is not None}
    changed = [file for file, stamp in fresh.items() if not task.skips or stamps.get(file) != stamp]
    if changed:
        # Spark takes seconds to start, in which somebody can take files away.
        spark = run.session(catalog=True)
        changed = [file for file in changed if os.access(file, os.F_OK)]
    if changed:
        outcome.landed = steps.land(run, spark, changed, task.source_label)
        still = {file: stamp for file, stamp in stamps.items() if os.access(file, os.F_OK)}
        memory.files[task.source_label] = still | {file: fresh[file] for file in changed}
    elif task.topics is not None:
        if _land_topics(task, run, outcome, task.topics).is_stopped:
            outcome.status = 0 if run.stop is not None else TERMINATED
            return False
    else:
        outcome.skipped.append("land")
        if task.files:
            run.landed = outcome.landed  # they were looked for
    return True


def _land_topics(task: Task, run: steps.Run, outcome: Outcome, topics: Topics) -> Streamed:
    """Land topics; the outcome has what a landing that fails did before, too."""
    from spark_jobs.landing.kafka import Streamed

    spark, streamed = run.session(catalog=True), Streamed()
    try:
        with nullcontext(run.stop) if run.stop is not None else steps.stop_event() as stop:
            steps.land_kafka(run, spark, topics, task.source_label, nullcontext, stop, streamed)
    except TidemarkError:
        if streamed.is_begun:
            outcome.streamed, outcome.landed = streamed, streamed.landed
            with suppress(*ENGINE_ERRORS):  # Spark may be why it failed
                _look_at_topics(task, outcome)
        raise
    outcome.streamed, outcome.landed = streamed, streamed.landed
    _look_at_topics(task, outcome)
    return streamed


def _look_at_topics(task: Task, outcome: Outcome) -> None:
    from pyspark.sql import SparkSession

    from spark_jobs.reporting import kafka

    spark = SparkSession.getActiveSession()
    outcome.lag = [asdict(one) for one in kafka.lags(spark, task.places)]
    outcome.gaps = [asdict(one) for one in kafka.gaps(spark, task.places)]


def _files(task: Task, memory: Memory) -> list[str]:
    """The files to land; where some were landed before, somebody may take them away, and there is nothing new."""
    may_be_gone = task.skips and bool(memory.files.get(task.source_label))
    return files_named(task.files, may_be_gone=may_be_gone) if task.files else []


def _stamp(file: str) -> list[int] | None:
    """What tells that a file has changed; None where it is gone."""
    try:
        found = Path(file).stat()
    except FileNotFoundError:
        return None
    return [found.st_size, found.st_mtime_ns]


def run_every(task: Task, seconds: float, stop: threading.Event, tell: Callable[[Outcome], None]) -> int:
    """Run again and again, until stopped; the exit status.

    A run that fails on data, or meets another writer, is followed by the next. After three faults in a row, errors that
    no one foresaw among them, the process ends, so that whoever started it can start another; so it does at once where
    the first run finds the command itself wrong. Of a later one a file is wrong, or something else that comes and goes.

    Args:
        task: What each run is to do.
        seconds: From the beginning of one to the beginning of the next; a longer run is followed at once.
        stop: Set to end behind the step that a run is at.
        tell: Called with what each run came to, unless no one foresaw what ended it.
    """
    faults, has_begun = 0, False
    while not stop.is_set():
        began = time.monotonic()
        try:
            outcome = run_once(task, stop)
        except Exception as error:
            if faults + 1 == _FAULTS:
                warn(_ENOUGH)
                raise
            say_unforeseen(error, "The next run follows.")
            outcome = Outcome("", datetime.now(UTC), Fault.status)
        else:
            tell(outcome)
        let_catalog_go(task.places)
        if task.topics is not None and outcome.streamed is not None:
            # Offsets are asked for once: they would move every later run back to them.
            task = replace(task, topics=replace(task.topics, starting="earliest"))
        is_wrong = outcome.status == UsageError.status
        faults = faults + 1 if is_wrong or outcome.status == Fault.status else 0
        if is_wrong and not has_begun:
            return outcome.status
        if faults == _FAULTS:
            warn(_ENOUGH)
            return Fault.status
        has_begun = True
        stop.wait(max(seconds - (time.monotonic() - began), 0))
    return 0
