"""What there is: the captured tables for scripts, and the state of the lakehouse for people."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable, Model, captured_tables
from spark_jobs.delta import table_if_made
from spark_jobs.lock import holder_of
from spark_jobs.places import Places
from spark_jobs.reporting.kafka import gaps, labelled, lags
from spark_jobs.reporting.page import duration
from spark_jobs.reporting.report import last_report, reports_of
from spark_jobs.run_memory import Memory
from spark_jobs.texts import quantity


def listed(spark: SparkSession, places: Places) -> list[dict[str, Any]]:
    """The captured tables as `tidemark tables --json` prints them; rows are None where a table is not built yet."""
    seen = _feeds(spark, places) if bronze.is_ready(spark, places) else {}
    return [_listed(spark, table, seen.get(table.feed)) for table in captured_tables(places)]


def _feeds(spark: SparkSession, places: Places) -> dict[str, Any]:
    found = (
        bronze.read(spark, places, "shapes")
        .groupBy("feed")
        .agg(
            F.array_sort(F.collect_set("topic")).alias("topics"),
            *[F.max_by(name, "batch_id").alias(name) for name in ("connector", "source_name", "db", "schema", "table")],
        )
    )
    return {row["feed"]: row for row in found.collect()}


def _listed(spark: SparkSession, table: CapturedTable, seen: Any) -> dict[str, Any]:
    return {
        "source": {
            "name": seen["source_name"] if seen else table.source_name,
            "topics": seen["topics"] if seen else [],
            **{name: seen[name] if seen else None for name in ("connector", "db", "schema")},
            "table": seen["table"] if seen else table.source_table,
        },
        "key": list(table.key),
        "changes": _model(spark, table.changes),
        "current": _model(spark, table.current),
        "history": _model(spark, table.history),
    }


def _model(spark: SparkSession, model: Model | None) -> dict[str, Any] | None:
    if model is None:
        return None
    built = table_if_made(spark, model.location)
    rows = None if built is None else built.count()
    return {"relation": model.relation, "location": model.location, "rows": rows}


def status_lines(spark: SparkSession, places: Places) -> list[str]:
    """The state of the lakehouse in a few lines: lock, last check and run, and each table's rows and newest change."""
    memory = Memory.of(places)
    checked = _last_check(places, memory)
    lines = [f"lakehouse  {places.lakehouse}", f"lock       {_lock(places)}"]
    lines += [f"last check {checked}", f"last run   {_last_run(memory)}"]
    for lag in lags(spark, places):
        # Behind an open transaction records wait that can't be counted yet.
        waits = f", waiting for {duration(lag.seconds * 1000)} at most" if lag.seconds else ""
        what = "gone" if lag.is_gone else f"{quantity(lag.records, 'record')} to land{waits}"
        lines.append(f"topic      {labelled(lag.topic, lag.source_label)}: {what} (asked {lag.looked_at[:19]} UTC)")
    lost: dict[str, list[int | None]] = {}
    for gap in gaps(spark, places):
        if gap.is_loss:
            lost.setdefault(gap.source_label, []).append(gap.records)
    for label, records in lost.items():
        of = labelled("topics", label)
        known = quantity(sum(one or 0 for one in records), f"record of {of} was", f"records of {of} were")
        what = f"an unknown number of records of {of} were" if None in records else known
        lines.append(f"gaps       {what} lost before landing: see the report")
    for table in captured_tables(places):
        changes = table_if_made(spark, table.changes.location)
        if changes is None:
            lines.append(f"{table.name}  not built yet: run `tidemark build{places.option}`")
            continue
        newest = _newest(changes)
        when = "" if newest["changed_at"] is None else f", newest {newest['changed_at']} UTC"
        late = "" if newest["lag"] is None else f", lag {duration(newest['lag'] / timedelta(milliseconds=1))}"
        lines.append(f"{table.name}  {quantity(newest['changes'], 'change')}{when}{late}")
    return lines


def _newest(changes: DataFrame) -> Row:
    """How many changes a log has, when the newest was, and the lag of the last streamed one: a read's tells nothing."""
    last = F.when(F.col("op") != "r", F.struct("landed_at", "changed_at", "offset"))
    [found] = changes.agg(
        F.count("*").alias("changes"),
        F.max("changed_at").alias("changed_at"),
        F.max_by(F.expr("processed_at - changed_at"), last).alias("lag"),
    ).collect()
    return found


def _lock(places: Places) -> str:
    holder = holder_of(places)
    if holder is None:
        return "free"
    # A store keeps the last word of one that was killed.
    may_be_dead = "" if places.is_folder else "; or it was killed, and the next writer waits a minute for it"
    return (
        f"process {holder.get('pid')} on {holder.get('host')} (tidemark {holder.get('command')}, since"
        f" {holder.get('since')}{may_be_dead})"
    )


def _last_run(memory: Memory) -> str:
    """What the last `tidemark run` came to: other commands are none."""
    ended = f"ended {memory.last_success[:19]} UTC" if memory.last_success else ""
    if memory.failed_runs:
        in_a_row = f"failed, {memory.failed_runs} in a row" if memory.failed_runs > 1 else "failed"
        return f"{in_a_row}; {f'the last good one {ended}' if ended else 'there was no good one'}"
    return f"good, {ended}" if ended else "none yet"


def _last_check(places: Places, memory: Memory) -> str:
    said = last_report(reports_of(places))
    # A check that failed is followed by one in each run.
    is_behind = memory.is_unchecked and memory.checked_at is not None
    since = f"; runs have built since it ended, {str(memory.checked_at)[:19]} UTC" if is_behind else ""
    return f"{said['run_id']}: {said['status']}{since}" if said else "none yet"
