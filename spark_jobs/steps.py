"""The steps that commands are made of, in one process and one Spark session: land, build, check.

dbt and Great Expectations take seconds to import, so a step imports what it alone needs.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from spark_jobs import bronze
from spark_jobs.catalog import hold_catalog, require_free_catalog, take_catalog
from spark_jobs.damage import (
    damage_behind,
    delta_tables,
    explained,
    require_built,
)
from spark_jobs.ending import listening
from spark_jobs.engine_errors import ENGINE_ERRORS, first_cause
from spark_jobs.errors import CatalogBusy, Fault, Stopped
from spark_jobs.failed_builds import ended, failed
from spark_jobs.landing.land import Landed, Landing, land_files
from spark_jobs.lock import LAYOUT, check_layout, layout_of, open_lakehouse, writing
from spark_jobs.logs import log, start
from spark_jobs.places import Places
from spark_jobs.session import build_session, require_thrift_server

if TYPE_CHECKING:
    from spark_jobs.landing.kafka import Streamed, Topics
    from spark_jobs.reporting.check import CheckOutcome
    from spark_jobs.upkeep import Upkept, Wanted


@dataclass(slots=True)
class Run:
    """One run of a command: its id, its places, what its stages took, and the oldest layout that it takes.

    `waits_until` is the time of the monotonic clock until which it waits for others; `stop` is set to end it before.
    """

    places: Places
    command: str
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    stages: dict[str, float] = field(default_factory=dict)
    landed: Landed | None = None
    run_id: str = ""
    oldest: int = LAYOUT
    waits_until: float = 0
    stop: threading.Event | None = None

    def __post_init__(self) -> None:
        """Name the run after its start: ids sort as runs do."""
        self.run_id = self.run_id or f"{self.started_at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"

    def begin(self, log_format: str) -> Path | None:
        """Open the lakehouse and the run's log."""
        path = start(open_lakehouse(self.places, self.oldest), self.run_id, log_format == "json")
        log.info("%s started", self.command)
        return path

    @contextmanager
    def as_writer(self, log_format: str, wait: float, stop: threading.Event | None = None) -> Iterator[None]:
        """Begin the run, and hold the lakehouse as its one writer.

        Args:
            log_format: `text` or `json`.
            wait: Seconds to wait for another writer; then Busy is raised.
            stop: Set to end that, and the start of Spark behind it, with Stopped.
        """
        self.begin(log_format)
        self.waits_until, self.stop = time.monotonic() + wait, stop
        with writing(self.places, self.run_id, self.command, wait, self.oldest, stop):
            self._go_on()
            yield

    def as_builder(
        self, log_format: str, wait: float, work: Callable[[], None], stop: threading.Event | None = None
    ) -> None:
        """Begin the run, and do `work` as the one writer, which asks for the catalog before it changes anything.

        Nobody waits for the catalog with the lock in hand, since who holds it may need the lock: where it is taken,
        the lock is let go, and `work` begins again once the catalog is free.

        Args:
            log_format: `text` or `json`.
            wait: Seconds to wait for another writer and for who holds the catalog, together; then Busy is raised.
            work: What to do.
            stop: Set to end the waiting, and the start of Spark behind it, with Stopped.
        """
        until = time.monotonic() + wait
        while True:
            try:
                with self.as_writer(log_format, max(0, until - time.monotonic()), stop):
                    work()
                    return
            except CatalogBusy:
                require_free_catalog(self.places, until, stop)

    @property
    def is_to_end(self) -> bool:
        """Whether the run was told to end behind the step that it is at."""
        return self.stop is not None and self.stop.is_set()

    def _go_on(self) -> None:
        """Raise Stopped where the run is to end."""
        if self.is_to_end:
            raise Stopped

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage, and tell its beginning to people and its end to the log."""
        before = time.monotonic()
        print(f"{name} …", file=sys.stderr, flush=True)
        log.info("%s begins", name)
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0) + time.monotonic() - before
            log.info("%s took %.1f s", name, self.stages[name])

    def session(self, *, catalog: bool = False) -> SparkSession:
        """The Spark session; with `catalog`, one that holds the metastore, or CatalogBusy where another process does.

        Stopped is raised where Spark had to be started, and the run was told to end meanwhile. Where dbt asks a Thrift
        Server, that one holds the metastore, and no session here needs it.
        """
        check_layout(self.places, self.oldest)
        catalog = catalog and self.places.is_local
        if SparkSession.getActiveSession() is not None:
            spark = build_session(self.places, catalog=catalog)
            if catalog:
                hold_catalog(spark, self.places)
            return spark
        if catalog:
            require_free_catalog(self.places)
        with self.stage("start Spark"):
            spark = build_session(self.places, catalog=catalog)
            if catalog:
                take_catalog(spark, self.places)
        self._go_on()
        return spark


def land(run: Run, spark: SparkSession, files: Sequence[str], source_label: str) -> Landed:
    """Land record files."""
    run.places.require_bronze(run.command)
    with run.stage("land"):
        # Not when the run began: what a source did while it waited for another writer would look as if it were to come.
        landing = Landing(run.run_id, datetime.now(UTC), source_label)
        with _naming_damage(run.places):
            run.landed = land_files(spark, run.places, files, landing)
    log.info("landed %s", run.landed)
    return run.landed


def land_kafka(
    run: Run,
    spark: SparkSession,
    topics: Topics,
    source_label: str,
    lock: Callable[[], AbstractContextManager[None]],
    stop: threading.Event,
    result: Streamed,
) -> Streamed:
    """Land topics, until all is landed or `stop` is set.

    Args:
        run: The run.
        spark: The session.
        topics: What to land, and how.
        source_label: The cluster's name in bronze.
        lock: Holds the lakehouse for a batch; nothing where the run holds it already.
        stop: Set to end the landing behind the batch that it is at.
        result: What is filled in and given back, for who wants it of a landing that fails, too.
    """
    from spark_jobs.landing.kafka import land_topics

    run.places.require_bronze(run.command)
    with run.stage("land"), _naming_damage(run.places):
        streamed = land_topics(spark, run.places, topics, run.run_id, source_label, lock, stop, result)
    run.landed = streamed.landed
    log.info("landed %s", run.landed)
    return streamed


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """An event that SIGTERM, Ctrl-C and a terminal that is closed set, instead of ending the process where it is."""
    stop = threading.Event()
    with listening(lambda *_: stop.set()):
        yield stop


def build(run: Run, arguments: Sequence[str], *, has_tests: bool = True) -> None:
    """Run `dbt build` with more of dbt's arguments.

    Args:
        run: The run.
        arguments: The arguments.
        has_tests: Whether the data's tests are run, too.

    Raises:
        DataError: A test failed.
        UsageError: A model declares what can't be.
        Fault: A table is damaged, or Spark failed on a model.
    """
    from spark_jobs.declarations import run_dbt

    with run.stage("build"):
        require_thrift_server(run.places)
        if (spark := SparkSession.getActiveSession()) is not None:
            with _told_as_fault(spark, run.places, "see that bronze is there", "Nothing was built."):
                bronze.ensure(spark, run.places)
        # Unit tests are of the models, not of the data: dbt runs them when asked to.
        left_out = ["unit_test"] if has_tests else ["unit_test", "test"]
        result = run_dbt(run.places, ["build", "--exclude-resource-type", *left_out, *arguments])
    if result.exception is not None:
        raise ended(run.places, result.exception)
    if not result.success:
        raise failed(run.places, result.result or [])


def fill_catalog(run: Run) -> int:
    """Give the target's catalog every table of the lakehouse, at the places where they are now; how many there are.

    Raises:
        UsageError: Nothing was landed yet.
        Fault: The catalog can't be asked.
    """
    from spark_jobs.declarations import beginning_of, run_dbt

    tables = delta_tables(run.places)
    if ("bronze", "records") not in tables:
        raise bronze.nothing_landed(run.places)
    with run.stage("catalog"):
        require_thrift_server(run.places)
        arguments = json.dumps({"tables": tables})
        # What dbt said of the last build stays.
        quietly = ["--quiet", "--no-write-json"]
        result = run_dbt(run.places, [*quietly, "run-operation", "tidemark_catalog", "--args", arguments])
    if not result.success:
        message = result.exception or next((one.message for one in result.result or []), "")
        raise Fault(f"The catalog of target {run.places.target} could not be filled: {beginning_of(message)}")
    return len(tables)


def upgrade(run: Run, spark: SparkSession) -> int | None:
    """Bring the lakehouse to this version's layout; the one that it had, None where there was nothing to do.

    Raises:
        Busy: Another writes an environment that shares the lakehouse.
        Fault: A table can't be read or written.
    """
    from spark_jobs.upgrade import environments, upgrade

    if layout_of(run.places) in (None, LAYOUT):
        return None  # without waiting for anyone
    others = [replace(run.places, prefix=one) for one in environments(run.places) if one != run.places.prefix]
    with ExitStack() as held, run.stage("upgrade"):
        for one in others:
            wait = max(0, run.waits_until - time.monotonic())
            held.enter_context(writing(one, run.run_id, run.command, wait, run.oldest, run.stop))
        with _told_as_fault(spark, run.places, "upgrade", "It can be begun again."):
            return upgrade(spark, run.places)


def upkeep(run: Run, spark: SparkSession, wanted: Wanted, say: Callable[[str], None]) -> list[Upkept]:
    """Join files and remove old ones; of each table with which something was done, what.

    Args:
        run: The run.
        spark: The session.
        wanted: From when on files are joined, and how long they are kept.
        say: Takes a sentence about each table before and after it is worked on.

    Raises:
        Fault: A table is damaged, or Spark failed on it; the others are kept up all the same.
    """
    from spark_jobs.upkeep import in_sum, keep_up

    left = "What was done is whole."
    with run.stage("upkeep"), _told_as_fault(spark, run.places, "keep the tables up", left):
        done, errors = keep_up(spark, run.places, wanted, say)
    if errors:
        say(in_sum(done))
        said = [str(error) for error in errors.values()]
        raise explained(spark, run.places, *said) or Fault(
            f"Spark could not keep up {', '.join(errors)}: {first_cause(said[0])}. {left}"
        )
    return done


def check_and_report(run: Run, spark: SparkSession, *, sample_rows: bool = True) -> CheckOutcome:
    """Accounting, expectations and the report of this run.

    Raises:
        UsageError: A suite can't be loaded, models can't be read or are built otherwise than they are declared, or
            another's bronze isn't there yet.
        Fault: A table is damaged, Spark failed on one, or the report can't be written.
    """
    from spark_jobs.as_built import require_built_as_declared
    from spark_jobs.declarations import declared_tables
    from spark_jobs.reporting.check import check
    from spark_jobs.reporting.evidence import RunSummary

    summary = RunSummary(
        run_id=run.run_id,
        started_at=run.started_at,
        stages=run.stages,
        command=run.command,
        landed={} if run.landed is None else run.landed.counts,
    )
    with run.stage("check"):
        declared = declared_tables(run.places)
        with _told_as_fault(spark, run.places, "check the tables", "Nothing in them was changed."):
            bronze.is_ready(spark, run.places)  # what is gone would count as empty
            require_built(spark, run.places, declared)
            require_built_as_declared(spark, run.places, declared.tables)
            return check(spark, run.places, declared, summary, sample_rows=sample_rows)


@contextmanager
def _told_as_fault(spark: SparkSession, places: Places, what: str, left: str) -> Iterator[None]:
    """Raise a Fault where Spark fails: the damage that explains it, else what it could not do, and how all is left."""
    try:
        yield
    except ENGINE_ERRORS as error:
        raise (
            explained(spark, places, str(error)) or Fault(f"Spark could not {what}: {first_cause(str(error))}. {left}")
        ) from error


@contextmanager
def _naming_damage(places: Places) -> Iterator[None]:
    """Raise the damage that explains an engine's error, or a Fault that came of one; any other as it is."""
    try:
        yield
    except (*ENGINE_ERRORS, Fault) as error:
        if (fault := damage_behind(places, error)) is not None:
            raise fault from error
        raise
