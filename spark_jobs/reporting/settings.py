"""Source settings that the records betray as harmful: what they show, and what to set instead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable
from spark_jobs.landing.kafka_offsets import WHAT_COMPACTION_COSTS
from spark_jobs.landing.shapes import unknown_type
from spark_jobs.places import Places
from spark_jobs.reporting.bronze_contents import ROW_KINDS, Content
from spark_jobs.reporting.connectors import Connector, connector_named
from spark_jobs.reporting.measures import Measures
from spark_jobs.reporting.schema_changes import SchemaChange, because
from spark_jobs.reporting.signs import Sign

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
    """What the embedded schemas of a table say.

    Columns that are nullable with a default; columns of times in whole milliseconds; semantic types that aren't known;
    columns declared binary that come as text, where no declaration says of which encoding. Without a schema
    (`is_described` false) any column may be nullable and have a default.
    """

    defaulted: tuple[str, ...] = ()
    connect_times: tuple[str, ...] = ()
    unknown_types: tuple[str, ...] = ()
    binary_texts: tuple[str, ...] = ()
    is_described: bool = True


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
        F.sort_array(F.collect_set(unknown_type(one.encoding))).alias("unknown"),
        F.sort_array(F.collect_set(F.when(one.encoding.isNull(), one["name"]))).alias("undescribed"),
        F.collect_set(F.when(F.coalesce(one.encoding, F.lit("string")) == "string", one["name"])).alias("texts"),
    )
    by_feed = {row["feed"]: row for row in rows.collect()}
    return {table.name: _fields(table, by_feed[table.feed]) for table in tables if table.feed in by_feed}


def _fields(table: CapturedTable, seen: Row) -> Fields:
    undescribed = set(seen["undescribed"])
    defaulted = {*seen["defaulted"], *undescribed} - {
        spec["field"] for spec in table.columns if spec["name"] in table.key
    }
    binary = {spec["field"] for spec in table.columns if spec["type"] == "binary" and not spec["encoding"]}
    return Fields(
        _columns(table, defaulted),
        _columns(table, set(seen["times"])),
        tuple(seen["unknown"]),
        _columns(table, binary & set(seen["texts"])),
        not undescribed,
    )


def _columns(table: CapturedTable, fields_there: set[str]) -> tuple[str, ...]:
    return tuple(spec["name"] for spec in table.columns if spec["field"] in fields_there)


def findings(
    tables: Sequence[CapturedTable],
    found: Sequence[Content],
    measured: Mapping[str, Measures],
    described: Mapping[str, Fields],
    gaps: Mapping[str, int],
    told: Mapping[str, Mapping[str, Sign]],
    changed: Mapping[str, Sequence[SchemaChange]] | None = None,
    compacted: Mapping[str, str] | None = None,
) -> list[SettingFinding]:
    """The harmful settings of all sources.

    Args:
        tables: The captured tables.
        found: What bronze holds.
        measured: Table → what its layers say.
        described: Table → what the embedded schemas say of its columns.
        gaps: Table → how many gaps there are in the offsets of its topics.
        told: Table → its signs.
        changed: Table → the statements that changed it.
        compacted: Topic → its cleanup policy, of the topics that lose states by it.
    """
    every = [*_of_sources(tables, found, measured)]
    for table in tables:
        one = measured[table.name]
        every += _of_table(
            table, one, described.get(table.name, Fields()), _connectors(table, found), told.get(table.name, {}),
            (changed or {}).get(table.name, ()),
        )  # fmt: skip
        if shows := [*_of_topics(table, found, gaps.get(table.name, 0), compacted or {})]:
            every.append(
                SettingFinding(
                    "cleanup.policy (topic)",
                    table.name,
                    " ".join(shows),
                    "cleanup.policy=delete with a retention longer than any stop of landing",
                    "warning",
                )
            )
    return every


def _of_topics(
    table: CapturedTable, found: Sequence[Content], gaps: int, compacted: Mapping[str, str]
) -> Iterator[str]:
    topics = sorted({one.topic for one in found if one.feed == table.feed and one.topic in compacted})
    if topics:
        policies = ", ".join(sorted({compacted[topic] for topic in topics}))
        yield f"The broker says {policies} of {_named(topics)}: {WHAT_COMPACTION_COSTS}"
    if gaps:
        yield (
            f"{gaps} gaps in the offsets of its topics: records that were never landed. A compacted topic loses old"
            " states; a topic of a transactional producer has gaps by nature."
        )


def _connectors(table: CapturedTable, found: Sequence[Content]) -> list[Connector]:
    names = {one.connector for one in found if one.feed == table.feed and one.kind in ROW_KINDS}
    return [connector_named(name) for name in sorted(names)]


def _of_sources(
    tables: Sequence[CapturedTable], found: Sequence[Content], measured: Mapping[str, Measures]
) -> Iterator[SettingFinding]:
    sources = {one.source_name: one.connector for one in found if one.kind in ROW_KINDS}
    for source, connector in sorted(sources.items()):
        own = {one.feed for one in found if one.kind in ROW_KINDS and one.source_name == source}
        its_tables = [table for table in tables if table.feed in own]
        of_source = [measured[table.name] for table in its_tables]
        declared = {table.transaction_topic for table in its_tables if table.transaction_topic}
        # `topic.delimiter` and `topic.transaction` are the connector's own: a mark and a word behind the prefix.
        usual = re.compile(rf"{re.escape(source)}[^A-Za-z0-9][\w-]+")
        topics = [
            one
            for one in found
            if one.kind == "transaction" and (one.topic in declared if declared else usual.fullmatch(one.topic))
        ]
        streamed = sum(one.streamed for one in of_source)
        unknown = sum(one.without_transaction for one in of_source)
        if streamed and not topics:
            yield SettingFinding(
                "provide.transaction.metadata",
                source,
                f"{streamed} streamed changes, and no BEGIN or END of a transaction"
                + (f"; {unknown} changes name no transaction at all, so each stands alone (R11)." if unknown else ".")
                + " A cut on which all tables agree (G7) can't be made, and repeated equal rows of tables without a key"
                " can't be told from redeliveries. Where BEGIN and END come on a topic of another name, declare"
                " `transaction_topic`.",
                "provide.transaction.metadata=true",
                "warning",
            )
        if connector_named(connector).tells_truncates and not any(
            one.kind == "truncate" and one.feed in own for one in found
        ):
            yield SettingFinding(
                "skipped.operations",
                source,
                "No truncate ever arrived. The default skips them, and what is skipped can't be seen: after a TRUNCATE"
                " the rows would stay open here.",
                "skipped.operations=none",
                "info",
            )


def _of_table(
    table: CapturedTable,
    one: Measures,
    described: Fields,
    connectors: Sequence[Connector],
    told: Mapping[str, Sign],
    changed: Sequence[SchemaChange],
) -> Iterator[SettingFinding]:
    for connector in connectors:
        if connector.before and one.updates_without_before:
            yield SettingFinding(
                connector.before,
                table.name,
                f"{one.updates_without_before} of {one.updates} updates came without the row before them. Unchanged"
                " large values then come as placeholders, and a missed change can't be seen.",
                connector.set_before,
                "warning",
            )
    never_null = [name for name in described.defaulted if one.nulls.get(name) == 0]
    if never_null:
        what = "Nullable columns with a default" if described.is_described else "Columns that no schema describes"
        yield SettingFinding(
            "replace.null.with.default",
            table.name,
            f"{what} never held NULL in {one.changes} changes: {_named(never_null)}. The converter writes a column's"
            " default in place of NULL unless told not to, and an update to NULL can vanish.",
            "key.converter.replace.null.with.default=false and value.converter.replace.null.with.default=false",
            "warning" if described.is_described else "info",
        )
    if one.unavailable:
        unresolved = told["unresolved_columns"].count if "unresolved_columns" in told else 0
        yield SettingFinding(
            "unavailable.value.placeholder",
            table.name,
            f"{one.unavailable} changes leave a value out as unchanged (R7); {unresolved} versions have a column that"
            " no earlier state fills. A row that really holds the placeholder's text can't be told from them.",
            ", or ".join(connector.set_values for connector in connectors),
            "warning" if unresolved else "info",
        )
    if one.one_sided:
        yield SettingFinding(
            "column.exclude.list",
            table.name,
            f"Columns that of snapshot and stream only one carries: {_named(one.one_sided)}. Generated columns are in"
            " the snapshot alone; a column that was added or dropped looks alike. Their values are those last carried."
            + because(changed, one.one_sided),
            "the columns that the source computes itself",
            "info",
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
    if described.binary_texts:
        yield SettingFinding(
            "binary.handling.mode",
            table.name,
            f"Binary columns that come as text: {_named(described.binary_texts)}. Hexadecimal digits could be base64,"
            " too: such values are NULL with their text in exact_values, and make versions where others came as bytes.",
            "binary.handling.mode=bytes, or the columns' encoding (hex, base64) in their _changes model",
            "info",
        )
    if described.unknown_types:
        yield SettingFinding(
            "converters",
            table.name,
            f"Semantic types that Tidemark doesn't know: {_named(described.unknown_types)}. Their values are kept as"
            " their literal types have them." + because(changed),
            "a column's type and encoding in its _changes model, where the literal value isn't what is meant",
            "info",
        )


def _named(names: Sequence[str]) -> str:
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in names)
