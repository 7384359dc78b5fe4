"""What landings, checks and runs came to, in words for who typed the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spark_jobs.landing.codes import REASONS
from spark_jobs.texts import on_one_line, quantity, visible

if TYPE_CHECKING:
    from spark_jobs.landing.kafka import Streamed
    from spark_jobs.landing.land import Landed
    from spark_jobs.reporting.check import CheckOutcome
    from spark_jobs.schedule import Outcome


def say_landed(landed: Landed) -> None:
    """Say how many records were landed, and what became of the others."""
    in_bronze = landed.known - landed.held
    known = f", {in_bronze:,} known already" if in_bronze else ""
    held = f", {landed.held:,} still held" if landed.held else ""
    new = f", {landed.quarantined:,} quarantined" if landed.quarantined else ""
    where = " (`tidemark quarantine list`)" if held or new else ""
    click.echo(f"{quantity(landed.read, 'record')} read: {landed.landed:,} landed{known}{held}{new}{where}.")
    for code, count in landed.codes.most_common():
        click.echo(f"    {count:,} {code}: {REASONS[code]}.")
    for table in landed.rekeyed:
        click.echo(
            on_one_line(f"{table.table}: its key was ({', '.join(table.before)}) and is ({', '.join(table.now)}) now.")
            + " The key that its model declares stays (R8). Under one with more columns older deletes end nothing where"
            " `before` isn't the whole row: declare it with snapshot_deletes='close', and take a complete snapshot."
        )
    for one in landed.doubled:
        some = "1 offset has" if one.offsets == 1 else f"{one.offsets} offsets have"
        click.echo(
            on_one_line(
                f"{one.topic}, partition {one.partition}: {some} several contents, the first {one.first_offset}"
                f" ({one.file}), as of a topic that was deleted and recreated (R1, R5)."
            )
            + " If it was not, histories come out wrong: land the mended files into a lakehouse that never had these."
        )
    if in_bronze and not landed.landed and not landed.quarantined:
        click.echo("Nothing was added: bronze holds these deliveries (R1).")


def say_streamed(streamed: Streamed) -> None:
    """Say the same of topics, and what was lost of them."""
    say_landed(streamed.landed)
    for gap in streamed.gaps:
        click.echo(f"gap: {on_one_line(gap.line)}")
    for line in streamed.compacted:
        click.echo(f"compacted: {on_one_line(line)}")
    if streamed.is_stopped:
        click.echo(
            f"stopped: {quantity(streamed.waiting, 'record waits', 'records wait')}; the next run goes on from there."
        )


def say_run(outcome: Outcome) -> None:
    """Say what a run came to, step by step."""
    if outcome.streamed is not None:
        say_streamed(outcome.streamed)
    elif "land" not in outcome.skipped and outcome.landed.read:
        say_landed(outcome.landed)
    if outcome.checked is not None:
        say_report(outcome.checked)
    due = f"the next check is due at {outcome.next_check:%Y-%m-%d %H:%M:%S} UTC" if outcome.next_check else ""
    if "build" in outcome.skipped:
        click.echo(f"Nothing is new since the last good run: nothing to build or check{f'; {due}' if due else ''}.")
    elif "check" in outcome.skipped:
        click.echo(f"built, and not checked; {due}.")
    if outcome.upkept is not None:
        from spark_jobs.upkeep import in_sum

        click.echo(in_sum(outcome.upkept))
    if outcome.error is not None:
        click.echo(f"tidemark: {visible(outcome.error)}", err=True)


def say_report(outcome: CheckOutcome) -> None:
    """Say what a check found, and where its report is."""
    for sentence in outcome.failures:
        click.echo(f"failed: {on_one_line(sentence)}")
    for sentence in outcome.warnings:
        click.echo(f"warning: {on_one_line(sentence)}")
    click.echo("good: every critical check passed." if outcome.passed else "BAD: a critical check failed.")
    click.echo(f"report: {outcome.report}")
