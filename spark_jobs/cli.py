"""What people and schedulers type. docs/operating.md says what the exit statuses mean."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from spark_jobs import __version__
from spark_jobs.ending import ENDING, end_at_once, listening
from spark_jobs.errors import TERMINATED, Fault, TidemarkError, UsageError
from spark_jobs.logs import log
from spark_jobs.outcomes import say_landed, say_report, say_run, say_streamed
from spark_jobs.places import DEFAULT_LABEL, Places
from spark_jobs.texts import on_one_line, quantity, visible

if TYPE_CHECKING:
    from spark_jobs.landing.kafka import Topics


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def naming_damage(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except Exception as error:
            # Without the engine none of its errors is there, and what looks for damage is as long to import as it is.
            if "pyspark" in sys.modules and not isinstance(error, Fault):  # whoever raised a Fault has looked
                from spark_jobs.damage import damage_behind

                if (fault := damage_behind(Places.of(options["project_dir"]), error)) is not None:
                    raise fault from error
            raise

    with_project = click.option(
        "--project-dir", default=".", metavar="DIR", help="The project to act on; the current folder by default."
    )(naming_damage)
    return click.option(
        "--target", metavar="NAME", expose_value=False, callback=_take_target,
        help="The target of profiles.yml: local, local_dev, thrift, thrift_dev. TIDEMARK_TARGET by default.",
    )(with_project)  # fmt: skip


# Where `quarantine list` is not told how many: what a terminal can show, and a driver hold.
_ENTRIES_OF_A_TABLE = 1000
_log_format_option = functools.partial(
    click.option, "--log-format", type=click.Choice(["text", "json"]), default="text",
    help="Form of the log file's lines.",
)  # fmt: skip


def _reader(command: Callable[..., Any]) -> Callable[..., Any]:
    # It writes no log. The option is taken all the same: scripts give every command the same ones.
    return _log_format_option(hidden=True, expose_value=False)(_common(command))


def _logged(command: Callable[..., Any]) -> Callable[..., Any]:
    return _log_format_option()(_common(command))


def _take_target(context: Any, parameter: Any, value: str | None) -> None:
    # One place tells every part of the command, dbt too.
    if value is not None:
        os.environ["TIDEMARK_TARGET"] = value


class _Duration(click.ParamType):
    """A time such as 30s, 5m, 1h or 7d, in seconds; a number alone is seconds. 0 is taken only with `or_nothing`."""

    name = "duration"
    _units: ClassVar = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600, "d": 86400}

    def __init__(self, *, or_nothing: bool = False) -> None:
        self.or_nothing = or_nothing

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|)", str(value))
        if found is None or (float(found[1]) == 0 and not self.or_nothing):
            raise click.BadParameter(f"{value}: it takes a time such as 30s, 5m, 1h or 7d.", ctx, param)
        return float(found[1]) * self._units[found[2]]


def _writer(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--wait",
        type=_Duration(or_nothing=True),
        default=0,
        metavar="TIME",
        help="How long to wait for another writer, or for whoever holds the catalog, to end.",
    )(_logged(command))


class _Commands(click.Group):
    """Commands that are named back where they are misspelled."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if not getattr(error, "possibilities", None):  # else Click names them
                error.message += f" There are {', '.join(sorted(self.commands))}."
            raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="tidemark %(version)s")
def tidemark() -> None:
    """Turn a database's change stream into history that analysts can trust."""


def _from_kafka(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((
        click.option("--kafka", metavar="HOST:PORT,…", help="Land topics of this cluster instead of files. User and"
                     " password are set in the environment: docs/kafka.md."),
        click.option("--topics", metavar="REGEX", help="Which topics: the whole name matches, by Java's rules."),
        click.option("--starting", default="earliest", metavar="WHERE", help="Where the first landing begins: earliest"
                     " (default), latest, a time, or offsets as JSON. Offsets also move a landing that has begun."),
        click.option(
            "--max-records",
            type=click.IntRange(1),
            default=500_000,
            show_default=True,
            help="Records in a batch at most.",
        ),
        click.option("--patience", type=_Duration(), metavar="TIME", help="How long a broker that is away is asked"
                     " again: 1m by default, 10m with --continuous."),
    )):  # fmt: skip
        command = option(command)
    return command


def _label(context: Any, parameter: Any, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("it takes a name, and this one is empty.", context, parameter)
    return value


_labelled = click.option(
    "--source-label", default=DEFAULT_LABEL, metavar="NAME", callback=_label,
    help="Name of the Kafka cluster, or of the set of files, that records come from (R1).",
)  # fmt: skip


def _topics_of(
    files: tuple[str, ...], kafka: str | None, topics: str | None, *, starting: str, max_records: int,
    patience: float | None, every: float | None,
) -> Topics | None:  # fmt: skip
    """The topics to land; None where files are. Raises UsageError where it isn't one of both."""
    from spark_jobs.landing import kafka_offsets
    from spark_jobs.landing.kafka import Topics
    from spark_jobs.landing.kafka_settings import Settings

    if kafka is None:
        if topics is not None:
            raise UsageError(f"--topics {topics}: say of which cluster, with --kafka HOST:PORT.")
        return None
    if files:
        raise UsageError("FILES and --kafka: a landing takes one of both. Land them one after the other.")
    if strange := next((one for one in kafka.split(",") if not re.fullmatch(r"[^\s@/]+:\d{1,5}", one)), None):
        shown = strange if "@" not in strange else "…"
        raise UsageError(f"--kafka {shown}: it takes addresses as host:port, and several with commas.")
    if topics is None:
        raise UsageError(f"--kafka {kafka}: say which topics, with --topics 'REGEX'.")
    kafka_offsets.starting(starting)
    patience = patience or (60 if every is None else 600)
    return Topics(kafka, topics, Settings.of(), starting, every, max_records, patience)


@tidemark.command()
@click.argument("files", nargs=-1)
@_from_kafka
@click.option("--continuous", is_flag=True, help="Go on landing topics until stopped (SIGTERM, Ctrl-C).")
@click.option("--every", type=_Duration(), metavar="TIME", help="With --continuous: from a batch to the next; 10s.")
@_labelled
@_writer
def land(
    files: tuple[str, ...], kafka: str | None, topics: str | None, starting: str, max_records: int,
    patience: float | None, continuous: bool, every: float | None, source_label: str, project_dir: str,
    log_format: str, wait: float,
) -> int:  # fmt: skip
    """Land records in bronze: of FILES (files, folders or patterns; plain, gzip or bzip2), or of topics with --kafka.

    Each line of a file is a record as JSON (topic, partition, offset, timestamp, key, value, headers), or what
    `kcat -J` prints. The same records again add nothing, wherever they are read from.
    """
    from spark_jobs import steps
    from spark_jobs.landing.input_files import files_named

    if every is not None and not continuous:
        raise UsageError("--every goes with --continuous; without it, topics are landed once.")
    pace = every or 10 if continuous else None
    wanted = _topics_of(files, kafka, topics, starting=starting, max_records=max_records, patience=patience, every=pace)
    run = steps.Run(Places.of(project_dir), "land")
    run.places.require_bronze("land")
    if wanted is not None:
        from spark_jobs.landing.kafka import Streamed
        from spark_jobs.lock import writing

        run.begin(log_format)
        spark, limit = run.session(), math.inf if continuous else wait
        with steps.stop_event() as stop:
            # For each batch: a build comes between two of them, instead of waiting for a landing that has no end. No
            # batch means anything (G1), so it doesn't matter which.
            lock = functools.partial(writing, run.places, run.run_id, run.command, limit, stop=stop)
            streamed = steps.land_kafka(run, spark, wanted, source_label, lock, stop, Streamed())
        say_streamed(streamed)
        # What was to end by itself and was stopped has not done its work.
        return TERMINATED if streamed.is_stopped and not continuous else 0
    if continuous or not files:
        raise UsageError(
            "land takes FILES, or --kafka HOST:PORT --topics 'REGEX', with --continuous if it is to go on."
        )
    files_named(files)  # what is wrong with them is said before the lock is waited for
    with run.as_writer(log_format, wait):
        landed = steps.land(run, run.session(), files, source_label)
    say_landed(landed)
    return 0


@tidemark.command()
@click.option("--diff", is_flag=True, help="Print what would be written now against what is there, and write nothing.")
@_logged
def scaffold(diff: bool, project_dir: str, log_format: str) -> None:
    """Write models, YAML and expectations for the tables seen in bronze; files that are there stay as they are."""
    from spark_jobs import steps
    from spark_jobs.scaffolding.scaffold import Scaffold

    run = steps.Run(Places.of(project_dir), "scaffold")
    run.begin(log_format)
    wanted = Scaffold.of(run.session(), run.places)
    if diff:
        click.echo(visible(wanted.differences), nl=False)
        return
    for line in wanted.write():
        click.echo(line)


# What dbt would take for itself, and build elsewhere than where the command looks and holds the lock.
_PLACING = re.compile(r"-[dfqx]*t.*|--(target|project-dir|profile|profiles-dir)(=.*)?", re.DOTALL)


@tidemark.command(context_settings={"ignore_unknown_options": True})
@click.argument("dbt_arguments", nargs=-1, type=click.UNPROCESSED)
@_writer
def build(dbt_arguments: tuple[str, ...], project_dir: str, log_format: str, wait: float) -> None:
    """Build and test every model: `dbt build` in this process. Further arguments are dbt's (`--select`)."""
    from spark_jobs import steps

    if strange := next((one for one in dbt_arguments if _PLACING.fullmatch(one)), None):
        raise UsageError(
            f"build {strange}: Tidemark itself passes the target and the folders to dbt. Put --target NAME or"
            " --project-dir DIR before `--`; the profile is that of profiles.yml."
        )
    run = steps.Run(Places.of(project_dir), "build")

    def work() -> None:
        # A Thrift Server needs no session of ours.
        if run.places.is_local:
            run.session(catalog=True)
        steps.build(run, dbt_arguments)

    run.as_builder(log_format, wait, work)


@tidemark.command()
@click.argument("names", nargs=-1, required=True, metavar="TABLE...")
@_writer
def rebuild(names: tuple[str, ...], project_dir: str, log_format: str, wait: float) -> None:
    """Make the tables of captured TABLEs anew from bronze, damaged or not; readers see the old ones until then.

    A table whose log can't be read is moved aside first. Tidemark's own tables in ops (`progress`, `accounting`,
    `test_results`, `kafka_offsets`, `kafka_gaps`) begin empty where they are damaged.
    """
    from spark_jobs import steps
    from spark_jobs.rebuild import rebuild

    run = steps.Run(Places.of(project_dir), "rebuild")
    run.as_builder(log_format, wait, lambda: rebuild(run, run.session(catalog=True), names))


@tidemark.command()
@_writer
def catalog(project_dir: str, log_format: str, wait: float) -> None:
    """Give the target's catalog every table of the lakehouse: one that is new, was lost, or knew them elsewhere.

    Nothing is built. Views come with the next build.
    """
    from spark_jobs import steps

    run = steps.Run(Places.of(project_dir), "catalog")

    def work() -> None:
        if run.places.is_local:
            run.session(catalog=True)
        count = steps.fill_catalog(run)
        click.echo(f"{quantity(count, 'table is', 'tables are')} in the catalog of target {run.places.target}.")

    run.as_builder(log_format, wait, work)


@tidemark.command()
@_writer
def upgrade(project_dir: str, log_format: str, wait: float) -> None:
    """Bring the lakehouse of an older version to this one's layout.

    Bronze and what is in the tables stay; what a build has to make anew the next one makes.
    """
    from spark_jobs import steps
    from spark_jobs.lock import LAYOUT, OLDEST

    run = steps.Run(Places.of(project_dir), "upgrade", oldest=OLDEST)
    with run.as_writer(log_format, wait):
        had = steps.upgrade(run, run.session())
    click.echo(
        f"The lakehouse has layout {LAYOUT}, this version's: nothing to do."
        if had is None
        else f"The lakehouse had layout {had} and has {LAYOUT} now. Run `tidemark build{run.places.option}`."
    )


@tidemark.command()
@click.option(
    "--keep",
    type=_Duration(or_nothing=True),
    default="168h",
    show_default=True,
    metavar="TIME",
    help="How long to keep files that no table needs any more; a reader that began earlier than that can't go on.",
)
@click.option(
    "--keep-reports",
    type=_Duration(),
    default="90d",
    show_default=True,
    metavar="TIME",
    help="Keep reports and logs of runs so long.",
)
@click.option(
    "--few",
    type=click.IntRange(2),
    default=8,
    show_default=True,
    metavar="FILES",
    help="How many small files a partition must have before they are joined.",
)
@click.option("--force", is_flag=True, help="Take a --keep of less than 12h.")
@_writer
def upkeep(
    keep: float, keep_reports: float, few: int, force: bool, project_dir: str, log_format: str, wait: float
) -> None:  # fmt: skip
    """Join small files, remove rows that are marked as gone, and files that no table has needed for a while.

    No row changes: readers and builds go on as they would have.
    """
    from spark_jobs import schedule, steps
    from spark_jobs.upkeep import HOUR, SHORTEST, Wanted, in_sum

    if keep < SHORTEST and not force:
        raise UsageError(
            f"--keep {keep / HOUR:g}h: a reader or a build by hand that began before that would lose files that it"
            f" reads. Give {SHORTEST // HOUR}h or more, or --force where there are none."
        )
    run = steps.Run(Places.of(project_dir), "upkeep")
    with run.as_writer(log_format, wait):
        done = schedule.upkeep(run, run.session(), Wanted(keep, keep_reports, few))
    for one in done:
        click.echo(one.line)
    click.echo(in_sum(done))


@tidemark.command()
@click.option("--sample-rows/--no-sample-rows", default=True, help="Show sample rows in the report.")
@_writer
def check(sample_rows: bool, project_dir: str, log_format: str, wait: float) -> None:
    """Check expectations and the accounting, and write the report. Exit status 1 where a critical one fails."""
    from spark_jobs import steps

    run = steps.Run(Places.of(project_dir), "check")
    with run.as_writer(log_format, wait):
        outcome = steps.check_and_report(run, run.session(), sample_rows=sample_rows)
        say_report(outcome)
        outcome.require_passed()


@tidemark.command()
@click.argument("files", nargs=-1)
@_from_kafka
@click.option(
    "--every",
    type=_Duration(),
    metavar="TIME",
    help="Repeat the run at this interval, until stopped (SIGTERM, Ctrl-C).",
)
@click.option(
    "--skip-unchanged",
    is_flag=True,
    help="Leave out what has not changed since the last good run: files of the"
    " same size and time, and build and check where neither a table nor the project is another. So does --every.",
)
@click.option(
    "--upkeep-every",
    type=_Duration(),
    metavar="TIME",
    help="Join small files and remove old ones behind a"
    " good run, where that was last done so long ago (`tidemark upkeep`).",
)
@click.option(
    "--check-every",
    type=_Duration(),
    metavar="TIME",
    help="Check, and run dbt's tests, only where the last good check was so long ago; runs in between build alone. By"
    " default each run checks.",
)
@click.option("--summary", metavar="FILE", help="Write what the run came to as JSON; - is standard output.")
@click.option("--metrics", metavar="FILE", help="Write metrics for Prometheus' textfile collector (….prom).")
@click.option("--on-failure", metavar="COMMAND", help="Command to start when a run fails; it reads the summary.")
@_labelled
@click.option("--sample-rows/--no-sample-rows", default=True, help="Show sample rows in the report.")
@_writer
def run(
    files: tuple[str, ...], kafka: str | None, topics: str | None, starting: str, max_records: int,
    patience: float | None, every: float | None, skip_unchanged: bool, upkeep_every: float | None,
    check_every: float | None, summary: str | None, metrics: str | None, on_failure: str | None, source_label: str,
    sample_rows: bool, project_dir: str, log_format: str, wait: float,
) -> int:  # fmt: skip
    """Land FILES or topics, build and check, in one session; without either, build and check what was landed."""
    from spark_jobs import notify, schedule, steps

    notify.require_command(on_failure)
    notify.require_files(summary, metrics)
    out = functools.partial(print, file=sys.stdout, flush=True)
    task = schedule.Task(
        # A project that can't be read is told to machines, too.
        Places(Path(project_dir), "", ""), files, skips=skip_unchanged or every is not None, source_label=source_label,
        sample_rows=sample_rows, wait=wait, log_format=log_format, summary=summary, metrics=metrics, hook=on_failure,
        out=out, upkeep_every=upkeep_every, check_every=check_every,
    )  # fmt: skip
    # Where standard output is the summary's, words for people, dbt's too, go beside it.
    with contextlib.redirect_stdout(sys.stderr) if summary == "-" else contextlib.nullcontext():
        try:
            task = dataclasses.replace(task, places=Places.of(project_dir))
            wanted = _topics_of(
                files, kafka, topics, starting=starting, max_records=max_records, patience=patience, every=None
            )
            task = dataclasses.replace(task, topics=wanted)
        except TidemarkError as error:
            schedule.tell_of_refusal(task, error)
            raise
        if every is None:
            outcome = schedule.run_once(task)
            say_run(outcome)
            return outcome.status
        with steps.stop_event() as stop:
            return schedule.run_every(task, every, stop, say_run)


@tidemark.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_reader
def tables(as_json: bool, project_dir: str) -> None:
    """List the captured tables: relations, file locations and row counts."""
    from spark_jobs import steps
    from spark_jobs.listing import listed

    run = steps.Run(Places.of(project_dir), "tables")
    found = listed(run.session(), run.places)
    if as_json:
        click.echo(visible(json.dumps(found, indent=2, ensure_ascii=False)))
        return
    for table in found:
        source = table["source"]
        parts = [source["name"], source["schema"] or source["db"], source["table"]]
        click.echo(on_one_line(".".join(part for part in parts if part)))
        for kind in ("changes", "current", "history"):
            if table[kind]:
                rows = "not built" if table[kind]["rows"] is None else f"{table[kind]['rows']} rows"
                click.echo(f"  {table[kind]['relation']}  {rows}  {table[kind]['location']}")


@tidemark.command()
@click.argument("statement", required=False)
@click.option("--file", "file", type=click.Path(exists=True, dir_okay=False), help="Read the statement from a file.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON a row.")
@_reader
def sql(statement: str | None, file: str | None, as_json: bool, project_dir: str) -> None:
    """Run a SQL query over the tables, and print what it gives; show, describe and explain, too.

    Tables are named without their layer: inv__public__customers_history.
    """
    from spark_jobs import steps
    from spark_jobs.declarations import declared_tables
    from spark_jobs.query import as_json as to_json
    from spark_jobs.query import as_table, rows_of, show_tables

    try:
        text = (statement or "") if file is None else Path(file).read_text(encoding="utf-8")
    except ValueError as error:
        raise UsageError(f"--file {file}: it isn't text in UTF-8. Save it so.") from error
    text = text.strip().rstrip(";").rstrip()
    if not text or (statement is not None and file is not None):
        raise UsageError("tidemark sql takes one statement: as an argument, or in a file with --file.")
    run = steps.Run(Places.of(project_dir), "sql")
    spark = run.session()
    show_tables(spark, run.places, declared_tables(run.places))
    rows = rows_of(spark, text)
    if as_json:
        for row in rows:
            click.echo(to_json(row))
    elif rows:
        click.echo(as_table(rows, rows[0].__fields__))
    else:
        click.echo("no rows")


@tidemark.command()
@click.argument("table")
@click.argument("key", nargs=-1, required=True, metavar="COLUMN=VALUE...")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON a change and version; it hides no values.")
@_reader
def trace(table: str, key: tuple[str, ...], as_json: bool, project_dir: str) -> None:
    """Show what became of each change of a key: the versions that it opened, or why it opened none.

    TABLE is a captured table as `tidemark tables` names its models, and COLUMN=VALUE is said of its key: of all its
    columns, or of some for every key that has them. Values that reports hide are hashes here, too.
    """
    from spark_jobs import steps
    from spark_jobs.query import as_json as to_json
    from spark_jobs.trace import traced

    run = steps.Run(Places.of(project_dir), "trace")
    found = traced(run.session(), run.places, table, key)
    for line in map(to_json, found.rows) if as_json else found.lines:
        click.echo(line)


@tidemark.command()
@_reader
def status(project_dir: str) -> None:
    """Show the tables, their lag, the last check, the last run, and who holds the lock."""
    from spark_jobs import steps
    from spark_jobs.listing import status_lines

    run = steps.Run(Places.of(project_dir), "status")
    for line in status_lines(run.session(), run.places):
        click.echo(line)


@tidemark.command()
@_reader
def settings(project_dir: str) -> None:
    """Print Spark's settings of the target, as `spark-submit --properties-file` takes them."""
    from spark_jobs.session import settings as settings_of

    for name, value in settings_of(Places.of(project_dir)).items():
        click.echo(f"{name} {value.replace(chr(92), chr(92) * 2)}")


@tidemark.group(cls=_Commands)
def quarantine() -> None:
    """Look at what could not be understood, and release it after a fix (R2)."""


@quarantine.command("list")
@click.option("--code", help="Entries with this code alone.")
@click.option("--topic", help="Entries of this topic alone.")
@click.option(
    "--limit", type=click.IntRange(min=1), help="At most so many entries; a table has 1,000 at most unless it is given."
)
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON an entry.")
@_reader
def list_(code: str | None, topic: str | None, limit: int | None, as_json: bool, project_dir: str) -> None:
    """List what is held: id, code, where it was."""
    from spark_jobs import bronze, steps
    from spark_jobs.declarations import captured_tables
    from spark_jobs.quarantine import held_entries, listed
    from spark_jobs.query import as_json as to_json
    from spark_jobs.query import as_table

    run = steps.Run(Places.of(project_dir), "quarantine list")
    spark = run.session()
    if not bronze.is_ready(spark, run.places):
        if not as_json:
            click.echo("The quarantine is empty.")
        return
    entries = listed(held_entries(spark, run.places, captured_tables(run.places)), code, topic)
    if as_json:
        for row in (entries.limit(limit) if limit else entries).toLocalIterator():
            click.echo(to_json(row))
        return
    limit = limit or _ENTRIES_OF_A_TABLE
    found = entries.limit(limit + 1).collect()
    rows = found[:limit]
    has_labels = any(row["source_label"] != DEFAULT_LABEL for row in rows)
    shown = [name for name in entries.columns if name != "source_label" or has_labels]
    nothing = "The quarantine has no such entry." if code or topic else "The quarantine is empty."
    click.echo(as_table([[row[name] for name in shown] for row in rows], shown) if rows else nothing)
    if len(found) > limit:
        click.echo(f"{entries.count() - limit} more are held: choose with --code and --topic, or raise --limit.")


@quarantine.command()
@click.argument("quarantine_id")
@_reader
def show(quarantine_id: str, project_dir: str) -> None:
    """Show one entry whole; QUARANTINE_ID is its id or the beginning of it."""
    from spark_jobs import bronze, steps
    from spark_jobs.declarations import declared_tables
    from spark_jobs.masking import Mask
    from spark_jobs.quarantine import VALUES, entry, is_shown

    run = steps.Run(Places.of(project_dir), "quarantine show")
    spark = run.session()
    if not bronze.is_ready(spark, run.places):
        raise UsageError(f"quarantine show {quarantine_id}: nothing was landed in {run.places.lakehouse} yet.")
    declared = declared_tables(run.places)
    found = entry(spark, run.places, declared.tables, quarantine_id)
    hidden = () if is_shown(spark, run.places, declared, found["topic"]) else VALUES
    mask = Mask.of(spark, run.places)
    for name, value in found.items():
        text = bytes(value).decode(errors="backslashreplace") if isinstance(value, (bytes, bytearray)) else str(value)
        shown = text if value is None or name not in hidden else f"{mask.text(text)} ({len(text)} letters)"
        click.echo(f"{name}: {visible(shown)}")
    if hidden:
        click.echo(
            "Values are hashes, since a table has columns that are sensitive or not declared; `tidemark sql` shows"
            " bronze's quarantine."
        )


@quarantine.command()
@click.argument("quarantine_ids", nargs=-1)
@_writer
def release(quarantine_ids: tuple[str, ...], project_dir: str, log_format: str, wait: float) -> None:
    """Try entries again, all or those named: what is understood now goes to bronze, the rest stays.

    Lines of files are not tried: mend their file or take them out of it, and land it again.
    """
    from spark_jobs import bronze, steps
    from spark_jobs.quarantine import release as release_entries

    if "" in quarantine_ids:
        raise UsageError("quarantine release '': an empty id, as of a variable that isn't set. Name none to try all.")
    run = steps.Run(Places.of(project_dir), "quarantine release")
    run.places.require_bronze("quarantine release")
    with run.as_writer(log_format, wait):
        spark = run.session()
        bronze.ensure(spark, run.places)
        found = release_entries(spark, run.places, quarantine_ids, run.run_id, datetime.now(UTC))
    click.echo(
        f"{quantity(found.tried, 'entry', 'entries')} tried, {found.released:,} released,"
        f" {found.tried - found.released:,} still held."
    )
    if found.lines:
        click.echo(
            f"{quantity(found.lines, 'line')} of files not tried: mend them or take them out, and land their files"
            " again; then they are held no longer."
        )


def _end(number: int, _: Any) -> None:
    """End Spark before this process, so that nothing of it writes once the lock is free."""
    # Where another signal comes meanwhile, this is entered again.
    by, status = ENDING[number]
    with contextlib.suppress(OSError):  # a terminal that is closed takes no words
        os.write(2, f"tidemark: stopped by {by}; run again.\n".encode())
    end_at_once(status)


@listening(_end)
def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    target = os.environ.get("TIDEMARK_TARGET", "")
    try:
        status = tidemark.main(
            args=None if arguments is None else list(arguments), standalone_mode=False, prog_name="tidemark"
        )
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        error.show()
        return UsageError.status
    except TidemarkError as error:
        log.error("%s", error)
        click.echo(f"tidemark: {visible(error)}", err=True)
        return error.status
    except Exception as error:
        from spark_jobs.notify import say_unforeseen

        say_unforeseen(error)
        return Fault.status
    finally:
        os.environ["TIDEMARK_TARGET"] = target  # a process may run several commands


if __name__ == "__main__":
    sys.exit(main())
