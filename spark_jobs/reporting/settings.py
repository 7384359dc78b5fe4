"""Source settings that the records betray as harmful: what they show, and what to set instead."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable
from spark_jobs.places import Places
from spark_jobs.reporting.bronze_contents import ROW_KINDS, Content
from spark_jobs.reporting.measures import Measures
from spark_jobs.reporting.signs import Sign

# Connectors that can tell of a truncate, and don't by default (change-events.md, section 2).
_TRUNCATING = ("postgresql", "mysql", "mariadb", "oracle")
_CONNECT_TIMES = ("org.apache.kafka.connect.data.Timestamp", "org.apache.kafka.connect.data.Time")


@dataclass(frozen=True, slots=True)
class SettingFinding:
    """A setting of a source; `where` is the source or the table, `severity` is `warning` or `info`."""

    setting: str
    where: str
    shows: str
    set_instead: str
    severity: str


@dataclass(frozen=True, slots=True)
class Fields:
    """Columns of a table by what their embedded schema says: nullable with a default; times in whole milliseconds."""

    defaulted: tuple[str, ...] = ()
    connect_times: tuple[str, ...] = ()


def fields(spark: SparkSession, places: Places, tables: Sequence[CapturedTable]) -> dict[str, Fields]:
    """What the shapes in bronze say of each captured table's columns."""
    if not bronze.is_table(spark, places.table("bronze", "shapes")):
        return {}
    one = F.col("one")
    seen = bronze.read(spark, places, "shapes").select("feed", F.explode("fields").alias("one"))
    rows = seen.groupBy("feed").agg(
        F.sort_array(F.collect_set(F.when(one.is_optional & one.default_value.isNotNull(), one["name"]))).alias(
            "defaulted"
        ),
        F.sort_array(F.collect_set(F.when(one.encoding.isin(*_CONNECT_TIMES), one["name"]))).alias("times"),
    )
    by_feed = {row["feed"]: (set(row["defaulted"]), set(row["times"])) for row in rows.collect()}
    found = {}
    for table in tables:
        defaulted, times = by_feed.get(table.feed, (set(), set()))
        found[table.name] = Fields(_columns(table, defaulted), _columns(table, times))
    return found


def _columns(table: CapturedTable, fields_there: set[str]) -> tuple[str, ...]:
    return tuple(spec["name"] for spec in table.columns if spec["field"] in fields_there)


def findings(
    tables: Sequence[CapturedTable],
    found: Sequence[Content],
    measured: Mapping[str, Measures],
    described: Mapping[str, Fields],
    gaps: Mapping[str, int],
    told: Mapping[str, Mapping[str, Sign]],
) -> list[SettingFinding]:
    """The harmful settings of all sources.

    Args:
        tables: The captured tables.
        found: What bronze holds.
        measured: Table → what its layers say.
        described: Table → what the embedded schemas say of its columns.
        gaps: Table → how many gaps there are in the offsets of its topics.
        told: Table → its signs.
    """
    every = [*_of_sources(tables, found, measured)]
    for table in tables:
        one = measured[table.name]
        every += _of_table(
            table, one, described.get(table.name, Fields()), _connectors(table, found), told.get(table.name, {})
        )
        if gaps.get(table.name):
            every.append(
                SettingFinding(
                    "cleanup.policy (topic)",
                    table.name,
                    f"{gaps[table.name]} gaps in the offsets of its topics: records that were never landed. A compacted"
                    " topic loses old states; a topic of a transactional producer has gaps by nature.",
                    "cleanup.policy=delete with a retention longer than any stop of landing",
                    "warning",
                )
            )
    return every


def _connectors(table: CapturedTable, found: Sequence[Content]) -> set[str]:
    return {one.connector for one in found if one.feed == table.feed and one.kind in ROW_KINDS}


def _of_sources(
    tables: Sequence[CapturedTable], found: Sequence[Content], measured: Mapping[str, Measures]
) -> Iterator[SettingFinding]:
    sources = {one.source_name: one.connector for one in found if one.kind in ROW_KINDS}
    for source, connector in sorted(sources.items()):
        own = {one.feed for one in found if one.kind in ROW_KINDS and one.source_name == source}
        of_source = [measured[table.name] for table in tables if table.feed in own]
        topics = [one for one in found if one.kind == "transaction" and one.topic.startswith(f"{source}.")]
        streamed = sum(one.streamed for one in of_source)
        unknown = sum(one.without_transaction for one in of_source)
        if streamed and not topics:
            yield SettingFinding(
                "provide.transaction.metadata",
                source,
                f"{streamed} streamed changes, and no BEGIN or END of a transaction"
                + (f"; {unknown} changes name no transaction at all, so each stands alone (R11)." if unknown else ".")
                + " A cut on which all tables agree (G7) can't be made, and repeated equal rows of tables without a key"
                " can't be told from redeliveries.",
                "provide.transaction.metadata=true",
                "warning",
            )
        if connector in _TRUNCATING and not any(one.kind == "truncate" and one.feed in own for one in found):
            yield SettingFinding(
                "skipped.operations",
                source,
                "No truncate ever arrived. The default skips them, and what is skipped can't be seen: after a TRUNCATE"
                " the rows would stay open here.",
                "skipped.operations=none",
                "info",
            )


def _of_table(
    table: CapturedTable, one: Measures, described: Fields, connectors: set[str], told: Mapping[str, Sign]
) -> Iterator[SettingFinding]:
    if "postgresql" in connectors and one.updates_without_before:
        yield SettingFinding(
            "REPLICA IDENTITY",
            table.name,
            f"{one.updates_without_before} of {one.updates} updates came without the row before them. Unchanged large"
            " values then come as placeholders, and a missed change can't be seen.",
            "alter table … replica identity full",
            "warning",
        )
    never_null = [name for name in described.defaulted if one.nulls.get(name) == 0]
    if never_null:
        yield SettingFinding(
            "replace.null.with.default",
            table.name,
            f"Nullable columns with a default never held NULL in {one.changes} changes: {_named(never_null)}. The"
            " converter writes the default in place of NULL unless told not to, and an update to NULL can vanish.",
            "key.converter.replace.null.with.default=false and value.converter.replace.null.with.default=false",
            "warning",
        )
    if one.unavailable:
        unresolved = told["unresolved_columns"].count if "unresolved_columns" in told else 0
        yield SettingFinding(
            "unavailable.value.placeholder",
            table.name,
            f"{one.unavailable} changes leave a value out as unchanged (R7); {unresolved} versions have a column that"
            " no earlier state fills.",
            "replica identity full (PostgreSQL), or the supplemental log of all columns and lob.enabled=true (Oracle)",
            "warning" if unresolved else "info",
        )
    if described.connect_times:
        keys = [name for name in described.connect_times if name in table.key]
        yield SettingFinding(
            "time.precision.mode",
            table.name,
            f"Times come in whole milliseconds, whatever the source holds: {_named(described.connect_times)}."
            + (f" Rows whose key differs by less become one: {_named(keys)}." if keys else ""),
            "time.precision.mode=adaptive_time_microseconds",
            "warning" if keys else "info",
        )


def _named(columns: Sequence[str]) -> str:
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in columns)
