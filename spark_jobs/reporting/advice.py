"""What to run next, in the order in which it helps."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.reporting.evidence import Evidence
from spark_jobs.texts import quantity


@dataclass(frozen=True, slots=True)
class Step:
    """A command to run next, and why; `command` is empty where a person has to decide."""

    why: str
    command: str


def next_steps(evidence: Evidence) -> list[Step]:
    """What to run next after a check."""
    steps = [Step(fault, "") for one in evidence.accounts if (fault := one.fault(evidence.option))]
    steps += [Step(fault, "") for fault in evidence.faults_of_bronze]
    stopped = [one for one in evidence.expectations if one.stops]
    if stopped:
        names = sorted({one.table for one in stopped})
        why = f"{quantity(len(stopped), 'critical expectation')} failed, in {_listed(names)}: see the keys below."
        built = sorted({one.table for one in stopped if one.layer != "bronze"})
        steps.append(
            Step(
                f"{why} A table that was changed by hand is made anew from bronze by",
                f"tidemark rebuild{evidence.option} {' '.join(built)}",
            )
            if built
            else Step(why, "")
        )
    if evidence.dbt and evidence.dbt.failed:
        why = f"{quantity(evidence.dbt.failed, 'node')} of dbt failed; once the cause is gone:"
        steps.append(Step(why, f"tidemark build{evidence.option}"))
    pending = sum(one.pending for one in evidence.accounts)
    if pending:
        landed = quantity(pending, "landed record is", "landed records are")
        steps.append(Step(f"{landed} in no table yet.", f"tidemark build{evidence.option}"))
    unknown = [one for one in evidence.accounts if one.lacks_model]
    unchecked = [one.table for one in evidence.expectations if one.expectation == "suite_to_be_there"]
    if unknown:
        if all(one.subject == "feed" for one in unknown):
            have = quantity(len(unknown), "captured table has", "captured tables have")
        else:
            have = quantity(len(unknown), "topic of events has", "tables and topics of events have")
        names = [one.name for one in unknown]
        steps.append(Step(f"{have} no models: {_listed(names)}.", "tidemark scaffold"))
    elif unchecked:
        of_tables = quantity(len(unchecked), "table has", "tables have")
        steps.append(Step(f"{of_tables} no suite: {_listed(unchecked)}.", "tidemark scaffold"))
    held = sum(one.records for one in evidence.quarantine)
    if held:
        records = quantity(held, "record is", "records are")
        steps.append(Step(f"{records} held in quarantine.", f"tidemark quarantine list{evidence.option}"))
    harmful = [one for one in evidence.settings if one.severity == "warning"]
    if harmful:
        of_source = quantity(len(harmful), "setting of the source does", "settings of the source do")
        steps.append(Step(f"{of_source} harm: see what to set instead below.", ""))
    if not any(one.records for one in evidence.accounts):
        steps.append(Step("Nothing has landed yet.", f"tidemark land{evidence.bronze_option} FILES"))
    there = {name for name, measured in evidence.measures.items() if measured.history is not None}
    histories = [table.history for table in evidence.tables if table.history is not None and table.name in there]
    if not steps and histories:
        steps.append(
            Step("Look at a history.", f'tidemark sql{evidence.option} "select * from {histories[0].name} limit 20"')
        )
    return steps


def _listed(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
