"""A run, and all that was found out about it: what the report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from spark_jobs.declarations import CapturedTable
from spark_jobs.expectation_result import ExpectationResult
from spark_jobs.landing.record_files import OF_LINES
from spark_jobs.quarantine import PROBLEMS
from spark_jobs.reporting.accounting import Account
from spark_jobs.reporting.cuts import Cut
from spark_jobs.reporting.dbt_results import DbtRun
from spark_jobs.reporting.kafka import TopicGap, TopicLag
from spark_jobs.reporting.liveness import DEAD, Pulse
from spark_jobs.reporting.measures import Measures
from spark_jobs.reporting.quarantine import Held
from spark_jobs.reporting.schema_changes import SchemaChange
from spark_jobs.reporting.settings import SettingFinding
from spark_jobs.reporting.signs import LOST, Sign
from spark_jobs.texts import quantity


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run as its command saw it.

    `command` is what was typed, `started_at` has its zone, `stages` are seconds by stage, and `landed` what became of
    the records of a landing in it: `read`, `landed`, `known`, `quarantined`.
    """

    run_id: str
    command: str
    started_at: datetime
    stages: Mapping[str, float] = field(default_factory=dict)
    landed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a check found out.

    `option` is the option by which a command acts where it looked, or nothing; `bronze_option` that for what writes to
    bronze, which can be another environment's. `repeated` is what bronze has more than once, and how often: what of the
    topics of no table, and of the quarantine.
    """

    tables: Sequence[CapturedTable]
    accounts: Sequence[Account]
    expectations: Sequence[ExpectationResult]
    measures: Mapping[str, Measures]
    signs: Mapping[str, Mapping[str, Sign]]
    quarantine: Sequence[Held]
    settings: Sequence[SettingFinding]
    dbt: DbtRun | None
    cuts: Sequence[Cut] = ()
    lags: Sequence[TopicLag] = ()
    gaps: Sequence[TopicGap] = ()
    pulses: Sequence[Pulse] = ()
    schema_changes: Mapping[str, Sequence[SchemaChange]] = field(default_factory=dict)
    repeated: Mapping[str, int] = field(default_factory=dict)
    option: str = ""
    bronze_option: str = ""

    @property
    def uncounted(self) -> dict[str, str]:
        """Table → its history, where that is built and nobody counts what became of the table's changes (G6)."""
        return {
            table.name: table.history.name
            for table in self.tables
            if table.history and not table.accounting and self.measures.get(table.name, Measures()).history is not None
        }

    @property
    def faults_of_bronze(self) -> list[str]:
        """What was written to bronze by others than landing, each in a sentence with what to do."""
        return [
            f"{name}: {quantity(count, 'record is', 'records are')} in bronze more than once (R1). Was it written by"
            " others? Restore bronze, all of its tables of one moment."
            for name, count in self.repeated.items()
        ]

    @property
    def failures(self) -> list[str]:
        """What fails the run, each in a sentence: the accounting, critical expectations, this run's dbt."""
        lines = [fault for one in self.accounts if (fault := one.fault(self.option))]
        lines += self.faults_of_bronze
        lines += [_broken(one) for one in self.expectations if one.stops]
        if self.dbt and self.dbt.is_of_this_run and self.dbt.failed:
            failed = [one.name for one in self.dbt.results if one.status not in ("warn", "skipped")]
            lines.append(f"dbt {self.dbt.command}: {self.dbt.failed:,} failed: {', '.join(failed)}.")
        return lines

    @property
    def warnings(self) -> list[str]:
        """What a person should know and the run doesn't fail by."""
        lines = [_broken(one) for one in self.expectations if not one.passed and not one.stops]
        if self.dbt:
            lines += _of_dbt(self.dbt)
        lines += [one.line for one in self.cuts]
        lines += [one.line for one in self.gaps if one.is_loss]
        lines += _without_models(self.accounts, self.option)
        lines += [
            f"{table}: what became of its changes is not counted. `{{{{ accounting('{history}') }}}}` does it: write"
            f" that to models/ops/{table}_accounting.sql, or enable it there."
            for table, history in self.uncounted.items()
        ]
        lines += _held(self.quarantine, self.option, self.bronze_option)
        lines += [one.line for one in self.pulses if one.state == DEAD]
        # A law of histories says it of theirs.
        judged = {table.name for table in self.tables if table.history is not None}
        lines += [
            f"{table}: {one.count:,} {one.meaning}{_examples(one.sample_keys)}.{one.because and ' '}{one.because}"
            for table, met in self.signs.items()
            for one in met.values()
            if one.sign in LOST or (one.sign == "exact_values" and table not in judged)
        ]
        return lines


def _of_dbt(run: DbtRun) -> list[str]:
    """What failed in a run of dbt before this one, and what warned in any."""
    said = f"dbt {run.command}"
    lines = []
    if not run.is_of_this_run:
        said += f" at {run.at:%Y-%m-%d %H:%M} UTC, before this run"
        lines += [f"{said}: {run.failed:,} failed."] if run.failed else []
    warned = [one for one in run.results if one.status == "warn"]
    if warned:
        names = [one.name if one.failures is None else f"{one.name} ({one.failures:,})" for one in warned]
        lines.append(f"{said}: {run.warned:,} warned: {', '.join(names)}.")
    return lines


def _without_models(accounts: Sequence[Account], option: str) -> list[str]:
    """What was landed of tables and of topics of events that no model has; what of tables that can't have any yet."""
    lines = [
        f"{one.name}: {quantity(one.landed, 'landed delete or truncate is', 'landed deletes or truncates are')} in no"
        " table. `tidemark scaffold` writes its models once a row of it has landed."
        for one in accounts
        if one.subject == "feed" and not one.has_rows
    ]
    for subject, noun in (("feed", "captured table"), ("topic", "topic")):
        alike = [one for one in accounts if one.subject == subject and one.lacks_model]
        if not alike:
            continue
        records = sum(one.dispositions.get("no_model", 0) for one in alike)
        others = f" and {quantity(len(alike) - 1, f'more {noun}')}" if alike[1:] else ""
        landed = quantity(records, "landed record is", "landed records are")
        lines.append(
            f"{alike[0].name}{others}: {landed} in no table, since no model is there, or none that is enabled."
            f" `tidemark scaffold` writes the models, and `tidemark build{option}` fills them."
        )
    return lines


def _held(entries: Sequence[Held], option: str, bronze_option: str) -> list[str]:
    """What is held, in a sentence for each code, and what releases it."""
    by_code: dict[tuple[str, bool], list[Held]] = {}
    for entry in entries:
        by_code.setdefault((entry.code, entry.code in OF_LINES or not entry.topic), []).append(entry)
    lines = []
    for (code, is_line), alike in by_code.items():
        topics = list(dict.fromkeys(one.topic for one in alike if one.topic))
        of = f" of {topics[0]}" if topics else ""
        others = f" and {quantity(len(topics) - 1, 'more topic')}" if topics[1:] else ""
        release = "" if code in PROBLEMS else (
            "; mend them or take them out, and land their files again" if is_line
            else f"; once the cause is gone, `tidemark quarantine release{bronze_option}` tries them again"
        )  # fmt: skip
        records, noun = sum(one.records for one in alike), "line" if is_line else "record"
        lines.append(
            f"{quantity(records, noun)}{of}{others} {'is' if records == 1 else 'are'} held in the quarantine ({code}):"
            f" {alike[0].reason}."
            f" `tidemark quarantine list{option}` names them{release}."
        )
    return lines


def _broken(result: ExpectationResult) -> str:
    count = result.unexpected_count
    breaks = "breaks" if count is None else f"has {quantity(count, 'row')} that {'breaks' if count == 1 else 'break'}"
    told = f"{result.table}, {result.layer}, {breaks} what is expected"
    return f"{told}{_examples(result.sample_keys)}: {result.description}"


def _examples(keys: Sequence[str]) -> str:
    return f", for example {', '.join(keys[:3])}" if keys else ""
