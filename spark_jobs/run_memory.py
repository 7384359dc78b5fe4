"""What the last runs left in the lakehouse, so that the next one, in whatever process, knows what is new."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from spark_jobs.errors import Fault
from spark_jobs.files import Files, commit_file
from spark_jobs.fingerprint import version_of
from spark_jobs.places import Places

if TYPE_CHECKING:
    from spark_jobs.reporting.kafka import TopicLag
    from spark_jobs.reporting.liveness import Pulse
    from spark_jobs.schedule import Outcome

MEMORY = "run.json"
_RECORDS = "bronze/records"
# A landing that goes on asks the broker more often than that.
_LANDING_IS_SILENT = timedelta(minutes=15)


@dataclass(slots=True)
class Memory:
    """What the last runs left in the lakehouse; lost or damaged, the next run does everything.

    `check_by` is the time from which silence alone is news: a connector, or a landing of topics, can be dead by then.
    `records` is the version that `bronze.records` had, and `commit` tells it from another of that number. `offsets` is
    the version that `ops.kafka_offsets` had where every look in `lag` was old, so that the next is news; else None.
    `checked_at` is when the last check ended; None where that failed, or there was none. `is_unchecked` says whether
    a run has built since.
    """

    fingerprint: str | None = None
    check_by: str | None = None
    failures: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    records: int = -1
    commit: str | None = None
    files: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    failed_runs: int = 0
    last_success: str | None = None
    report: str | None = None
    lag: list[dict[str, Any]] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    upkept_at: str | None = None
    offsets: int | None = None
    checked_at: str | None = None
    is_unchecked: bool = False

    @classmethod
    def of(cls, places: Places) -> Memory:
        """The memory of a lakehouse."""
        try:
            # Older ones have none of these.
            said = json.loads(Files.of(places).read(memory_file(places)) or "")
            said = {"commit": None, "offsets": None, "failures": [], "checked_at": None, "is_unchecked": False} | said
            memory = cls(**{name: said[name] for name in cls.__dataclass_fields__})
            last = version_of(places, _RECORDS)
            is_it = memory.commit in (None, _commit(places, memory.records))
            is_whole = is_it and last >= memory.records and not _is_taken_out(places, memory.records + 1, last)
        except (OSError, ValueError, LookupError, TypeError, Fault):
            return cls()  # what keeps a store from being read stops the run where it is told of
        # Bronze that was put back to an earlier state or begun anew, or from which somebody deleted, lacks records of
        # files that were landed.
        return memory if is_whole else cls()

    def watch(self, pulses: Sequence[Pulse], lags: Sequence[TopicLag], offsets: int, now: datetime) -> None:
        """Note what will be news though no table changes: a silence that grows too long, or the next look after it.

        Args:
            pulses: The pulses that the check found.
            lags: The topics' lags that it found.
            offsets: The version that `ops.kafka_offsets` had before the check.
            now: The time, with its zone.
        """
        looks = [one.asked_at + _LANDING_IS_SILENT for one in lags if not one.is_gone]
        ends = [one.last_sign + one.limit for one in pulses if one.limit is not None]
        # A silence that was too long already says no more by going on.
        ahead = [end for end in (*ends, *looks) if end > now]
        self.check_by = min(ahead).isoformat() if ahead else None
        self.offsets = offsets if looks and max(looks) <= now else None

    def is_due(self, offsets: int, now: datetime) -> bool:
        """Whether what `watch` kept has come."""
        is_late = self.check_by is not None and now > datetime.fromisoformat(self.check_by)
        return is_late or self.offsets not in (None, offsets)

    def store(self, places: Places, outcome: Outcome | None = None) -> None:
        """Keep it for the next run, with what this one saw; raises Fault where it can't be written."""
        if outcome is not None:
            self.lag, self.gaps = outcome.lag, outcome.gaps
        self.records = version_of(places, _RECORDS)
        self.commit = _commit(places, self.records)
        try:
            Files.of(places).write(memory_file(places), json.dumps(asdict(self)))
        except OSError as error:
            raise Fault(
                f"{places.lakehouse}/{memory_file(places)} can't be written ({error.strerror}). What was landed and"
                " built is whole; make room, or give this user the right to write there."
            ) from error


def memory_file(places: Places) -> str:
    """The name of its file in the lakehouse."""
    return f"{places.prefix}{MEMORY}"


def _commit(places: Places, version: int) -> str | None:
    """What tells a commit of bronze's records from another of its number; None where its file isn't there."""
    said = _said(places, version)
    return None if said is None else hashlib.sha256(said.encode()).hexdigest()


def _is_taken_out(places: Places, first: int, last: int) -> bool:
    """Whether one of these commits took records out of bronze, as RESTORE and DELETE do, and upkeep does not."""
    return any(
        '"remove"' in action and json.loads(action).get("remove", {}).get("dataChange", False)
        for version in range(first, last + 1)
        for action in (_said(places, version) or "").splitlines()
    )


def _said(places: Places, version: int) -> str | None:
    return Files.of(places).read(f"{_RECORDS}/_delta_log/{commit_file(version)}")
