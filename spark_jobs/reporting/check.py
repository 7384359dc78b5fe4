"""The check of a lakehouse: accounting, expectations, report. `tidemark check` is this, and so is the end of a run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from expectations.validate import validate
from spark_jobs.declarations import CapturedTable, Declared
from spark_jobs.errors import DataError
from spark_jobs.expectation_result import ExpectationResult
from spark_jobs.files import no_room
from spark_jobs.masking import Mask, hidden
from spark_jobs.places import Places
from spark_jobs.reporting import accounting, bronze_contents, cuts, kafka, measures, quarantine, settings, signs, tested
from spark_jobs.reporting.dbt_results import dbt_run
from spark_jobs.reporting.described import fields
from spark_jobs.reporting.dropped_tables import signs_of_drops
from spark_jobs.reporting.evidence import Evidence, RunSummary
from spark_jobs.reporting.key_shapes import signs_of_key_shapes
from spark_jobs.reporting.liveness import pulses
from spark_jobs.reporting.report import write_report
from spark_jobs.reporting.schema_changes import schema_changes

_GAPS = "expect_no_gap_in_offsets"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What a check came to. `failures` are sentences, one for each thing that fails the run; `report` is its page."""

    failures: tuple[str, ...]
    warnings: tuple[str, ...]
    report: str
    evidence: Evidence

    @property
    def passed(self) -> bool:
        """Whether nothing critical failed: the exit status is 1 otherwise."""
        return not self.failures

    def require_passed(self) -> None:
        """Raise DataError where something critical failed."""
        if not self.passed:
            raise DataError("A check of severity critical failed; the report's first screen says which and what to do.")


def check(
    spark: SparkSession,
    places: Places,
    declared: Declared,
    run: RunSummary,
    *,
    sample_rows: bool = True,
) -> CheckOutcome:
    """Check all layers of the captured tables, and write the report.

    Args:
        spark: The session; tables are read by location.
        places: The project and its lakehouse.
        declared: What the models declare, as `declared_tables` gives it.
        run: The run that the check ends. Its dbt results count where they are later than its beginning.
        sample_rows: Whether keys and quarantined records are shown.

    Raises:
        UsageError: A suite can't be loaded.
        Fault: The report can't be prepared or written.
    """
    stages, tables = dict(run.stages), declared.tables
    with _timed(stages, "accounting"):
        described = fields(spark, places, tables)
        measured = measures.measure(spark, places, tables, {name: one.asked for name, one in described.items()})
        through = accounting.built_through(spark, places, tables, measured)
        kept = accounting.event_tables(spark, places, declared.channels)
        contents = bronze_contents.contents(spark, places, through, {name: one.through for name, one in kept.items()})
        hides = hidden(spark, places, declared)
        quarantined = quarantine.held_by_reason(
            spark, places, tables, _shown_topics(tables, contents, hides), sample_rows=sample_rows
        )
        counted = accounting.counted(spark, places, tables)
        for more in (
            signs.signs_of_logs(tables, measured),
            signs_of_key_shapes(spark, places, tables),
            signs_of_drops(spark, places, declared),
        ):
            for name, rows in more.items():
                counted.setdefault(name, []).extend(rows)
        accounts = accounting.account(tables, contents, quarantined, measured, counted, kept)
        accounts = accounting.compared(spark, places, accounts, run.run_id)
    with _folder_aside() as folder:
        with _timed(stages, "expectations"):
            topics = bronze_contents.topics_of(contents)
            of_tables = {topic for table in tables for topic in topics.get(table.feed, ())}
            repeated = bronze_contents.repeated(spark, places, of_tables)
            expected = validate(spark, places, tables, folder, topics, sample_rows=sample_rows)
        changed = schema_changes(spark, places, declared, hides, sample_rows=sample_rows)
        table_signs = signs.signs(tables, counted, changed, measured, Mask.of(spark, places), sample_rows=sample_rows)
        table_signs |= signs.signs_of_events(kept.values())
        lags = kafka.lags(spark, places)
        # The clock of a machine that landed can have been ahead: a later look at a broker mends that, bronze keeps it.
        now = datetime.now(UTC)
        looks = [min(one.landed_at, now) for one in contents if one.landed_at]
        looks += [one.asked_at for one in lags if not one.is_gone]
        looks += [run.started_at] if run.landed else []
        evidence = Evidence(
            tables=tables,
            accounts=accounts,
            expectations=expected,
            measures=measured,
            signs=table_signs,
            quarantine=quarantined,
            settings=settings.findings(
                tables,
                contents,
                measured,
                described=described,
                gaps=_gaps(expected),
                signs=table_signs,
                changed=changed,
                compacted=kafka.compacted(spark, places),
            ),
            cuts=cuts.cuts(spark, tables),
            lags=lags,
            gaps=kafka.gaps(spark, places),
            pulses=pulses(spark, places, tables, contents, measured, max(looks, default=None), lags, quarantined),
            schema_changes=changed,
            repeated=repeated,
            option=places.option,
            bronze_option=places.bronze_option,
            dbt=dbt_run(places, run.started_at, redact=bool(hides) or not sample_rows),
        )
        report = write_report(
            spark, places, replace(run, stages=stages), evidence, folder, finished_at=datetime.now(UTC)
        )
    # Behind the report: what bronze has lost is told by comparison with the last that somebody could read.
    accounting.record(spark, places, accounts, run.run_id, datetime.now(UTC))
    tested.record(spark, places, expected, run.run_id, datetime.now(UTC))
    return CheckOutcome(tuple(evidence.failures), tuple(evidence.warnings), report, evidence)


@contextmanager
def _folder_aside() -> Iterator[Path]:
    """A temporary folder for the report; raises Fault where it can't be made or written."""
    told = "The report can't be prepared"
    try:
        temporary = tempfile.TemporaryDirectory(prefix="tidemark-")
    except OSError as error:
        raise no_room(told, error) from error
    with temporary as aside:
        try:
            folder = Path(aside) / "report"  # made with people's rights, where a temporary folder is private
            folder.mkdir()
            yield folder
        except OSError as error:
            if error.filename is not None and not str(error.filename).startswith(aside):
                raise  # it is of another folder
            raise no_room(told, error) from error


@contextmanager
def _timed(stages: dict[str, float], name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    stages[name] = time.monotonic() - began


def _shown_topics(
    tables: Sequence[CapturedTable], contents: Sequence[bronze_contents.Content], hides: frozenset[str]
) -> frozenset[str] | None:
    """The topics whose values people may see; None for all, where nothing is hidden."""
    if not hides:
        return None
    plain = {table.feed for table in tables} - hides
    return frozenset(topic for topic, feed in bronze_contents.owners(contents).items() if feed in plain) - hides


def _gaps(expected: Sequence[ExpectationResult]) -> dict[str, int]:
    return {one.table: one.unexpected_count or 0 for one in expected if one.expectation == _GAPS}
