"""Source settings that the records betray as harmful: what they show, and what to set instead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs import bronze
from spark_jobs.connectors import Connector, connector_named
from spark_jobs.declarations import CapturedTable
from spark_jobs.landing.kafka_offsets import WHAT_COMPACTION_COSTS
from spark_jobs.landing.shapes import UNSIGNED_TYPES
from spark_jobs.reporting.bronze_contents import Content
from spark_jobs.reporting.described import Fields
from spark_jobs.reporting.measures import Measures
from spark_jobs.reporting.schema_changes import SchemaChange, because
from spark_jobs.reporting.signs import Sign
from spark_jobs.texts import literal, quantity

# Names stand in models between these.
_MARK = "'"


@dataclass(frozen=True, slots=True)
class SettingFinding:
    """A setting of a source; `where` is the source or the table, `severity` is `warning` or `info`."""

    setting: str
    where: str
    shows: str
    set_instead: str
    severity: str


def findings(
    tables: Sequence[CapturedTable],
    contents: Sequence[Content],
    measured: Mapping[str, Measures],
    *,
    described: Mapping[str, Fields],
    gaps: Mapping[str, int],
    signs: Mapping[str, Mapping[str, Sign]],
    changed: Mapping[str, Sequence[SchemaChange]],
    compacted: Mapping[str, str],
) -> list[SettingFinding]:
    """The harmful settings of all sources.

    Args:
        tables: The captured tables.
        contents: What bronze holds.
        measured: Table → what its layers say.
        described: Table → what the embedded schemas say of its columns.
        gaps: Table → how many gaps there are in the offsets of its topics.
        signs: Table → its signs.
        changed: Table → the statements that changed it.
        compacted: Topic → its cleanup policy, of the topics that lose states by it.
    """
    every = [*_of_sources(tables, contents, measured)]
    for table in tables:
        measures = measured[table.name]
        every += _of_table(
            table, measures, described.get(table.name, Fields()), _connectors(table, contents),
            signs.get(table.name, {}), changed.get(table.name, ()),
        )  # fmt: skip
        if shows := [*_of_topics(table, contents, gaps.get(table.name, 0), compacted)]:
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
    table: CapturedTable, contents: Sequence[Content], gaps: int, compacted: Mapping[str, str]
) -> Iterator[str]:
    topics = sorted({one.topic for one in contents if one.feed == table.feed and one.topic in compacted})
    if topics:
        policies = ", ".join(sorted({compacted[topic] for topic in topics}))
        yield f"The broker says {policies} of {_named(topics)}: {WHAT_COMPACTION_COSTS}"
    if gaps:
        yield (
            f"{gaps} gaps in the offsets of its topics: records that were never landed. A compacted topic loses old"
            " states; a topic of a transactional producer has gaps by nature."
        )


def _connectors(table: CapturedTable, contents: Sequence[Content]) -> list[Connector]:
    names = {one.connector for one in contents if one.feed == table.feed and one.kind in bronze.ROW_KINDS}
    return [connector_named(name) for name in sorted(names)]


def _of_sources(
    tables: Sequence[CapturedTable], contents: Sequence[Content], measured: Mapping[str, Measures]
) -> Iterator[SettingFinding]:
    sources = {one.source_name: one.connector for one in contents if one.kind in bronze.ROW_KINDS}
    for source, connector in sorted(sources.items()):
        own = {one.feed for one in contents if one.kind in bronze.ROW_KINDS and one.source_name == source}
        its_tables = [table for table in tables if table.feed in own]
        of_source = [measured[table.name] for table in its_tables]
        declared = {table.transaction_topic for table in its_tables if table.transaction_topic}
        # `topic.delimiter` and `topic.transaction` are the connector's own: a mark and a word behind the prefix.
        usual = re.compile(rf"{re.escape(source)}[^A-Za-z0-9][\w-]+")
        topics = [
            one
            for one in contents
            if one.kind == "transaction" and (one.topic in declared if declared else usual.fullmatch(one.topic))
        ]
        streamed = sum(one.streamed for one in of_source)
        unknown = sum(one.without_transaction for one in of_source)
        alone = quantity(unknown, "change names", "changes name")
        # Of an operation on one document MongoDB names no transaction, and most are such.
        if streamed and not topics and not connector_named(connector).has_documents:
            yield SettingFinding(
                "provide.transaction.metadata",
                source,
                f"{quantity(streamed, 'streamed change')}, and no BEGIN or END of a transaction"
                + (f"; {alone} no transaction at all, so each stands alone (R11)." if unknown else ".")
                + " A cut on which all tables agree (G7) can't be made, and repeated equal rows of tables without a key"
                " can't be told from redeliveries. Where BEGIN and END come on a topic of another name, declare"
                " `transaction_topic`; CloudEventsConverter makes tombstones of them.",
                "provide.transaction.metadata=true",
                "warning",
            )
        if connector_named(connector).tells_truncates and not any(
            one.kind == "truncate" and one.feed in own for one in contents
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
    measures: Measures,
    described: Fields,
    connectors: Sequence[Connector],
    signs: Mapping[str, Sign],
    changed: Sequence[SchemaChange],
) -> Iterator[SettingFinding]:
    yield from _of_before(table, measures, described, connectors)
    yield from _of_nulls(table, measures, described)
    yield from _of_left_out(table, measures, connectors, signs)
    yield from _of_left_as_null(table, measures)
    yield from _of_computed(table, measures, changed)
    yield from _of_cut_times(table, described, connectors)
    yield from _of_binary_texts(table, described)
    yield from _of_untold(table, described)
    yield from _of_spelled(table, described)
    yield from _of_unsigned(table, described, changed)
    yield from _of_signed(table, described, changed)
    yield from _of_unknown_types(table, described, changed)
    yield from _of_own_key(table, described)
    yield from _of_undeclared(table, measures, changed)


def _of_before(
    table: CapturedTable, measures: Measures, described: Fields, connectors: Sequence[Connector]
) -> Iterator[SettingFinding]:
    for connector in connectors:
        if connector.before and measures.is_before_missing and described.is_flattened:
            yield SettingFinding(
                "transforms",
                table.name,
                f"{measures.updates_without_before} of {measures.updates} updates came without the row before them, the"
                " newest too: their rows are flattened (ExtractNewRecordState), which leaves it out, whatever the"
                " source sends. A missed change can't be seen.",
                "whole envelopes, without that transform, where missed changes are to be seen",
                "info",
            )
        elif connector.before and measures.is_before_missing:
            yield SettingFinding(
                connector.before,
                table.name,
                f"{measures.updates_without_before} of {measures.updates} updates came without the row before them, the"
                f" newest too. {connector.without_before}, and a missed change can't be seen.",
                connector.set_before,
                "warning",
            )


def _of_nulls(table: CapturedTable, measures: Measures, described: Fields) -> Iterator[SettingFinding]:
    never_null = [name for name in described.asked.defaulted if measures.nulls.get(name) == 0]
    if never_null:
        what = "Nullable columns with a default" if described.is_described else "Columns that no schema describes"
        yield SettingFinding(
            "replace.null.with.default",
            table.name,
            f"{what} never held NULL in {measures.changes} changes: {_named(never_null)}. The converter writes a"
            " column's default in place of NULL unless told not to, and an update to NULL can vanish."
            + (" So does the transform that flattened these rows." if described.is_flattened else "")
            + (" So does ByLogicalTableRouter before Debezium 3.6." if described.is_rerouted else ""),
            "key.converter.replace.null.with.default=false and value.converter.replace.null.with.default=false; of"
            " CloudEventsConverter value.converter.json.replace.null.with.default=false, of Confluent's AvroConverter"
            " ignore.default.for.nullables=true, from its 7.3 on"
            + (
                "; and transforms.unwrap.replace.null.with.default=false, as the transform is called there; before"
                " Debezium 3 it has no such option, and whole envelopes alone tell NULL"
                if described.is_flattened
                else ""
            )
            + ("; nothing keeps NULL behind a router before Debezium 3.6" if described.is_rerouted else ""),
            "warning" if described.is_described else "info",
        )


def _of_left_out(
    table: CapturedTable, measures: Measures, connectors: Sequence[Connector], signs: Mapping[str, Sign]
) -> Iterator[SettingFinding]:
    unresolved = signs["unresolved_columns"].count if "unresolved_columns" in signs else 0
    or_later = ", or one whose value may be later than its change" if table.history_options.get("reselected") else ""
    if any(connector.has_documents for connector in connectors):
        if unresolved:
            yield SettingFinding(
                "capture.mode",
                table.name,
                f"{quantity(unresolved, 'version has', 'versions have')} a column that no earlier state fills: an"
                " update tells what it changed alone (R7).",
                ", or ".join(connector.set_values for connector in connectors),
                "warning",
            )
    elif (measures.never_streamed or measures.inserted_as_null) and (
        switch := next((one.large_values for one in connectors if one.large_values), "")
    ):
        shows = []
        if measures.never_streamed:
            shows.append(
                f"Columns of which the stream has placeholders, and never a value: {_named(measures.never_streamed)}."
                " Without this setting a changed value comes as an unchanged one does, and versions go on with what was"
                " known before (R7): unless none has changed, they are out of date."
            )
        if measures.inserted_as_null:
            shows.append(
                "Inserts with NULL, or an empty value, in columns of large ones:"
                f" {_counted(measures.inserted_as_null)}. Without this setting each large value is inserted so, and no"
                " later event has it: versions say NULL where the row may have a value."
            )
        yield SettingFinding(switch, table.name, " ".join(shows), f"{switch}=true", "warning")
    elif measures.unavailable:
        yield SettingFinding(
            "unavailable.value.placeholder",
            table.name,
            f"{quantity(measures.unavailable, 'change leaves', 'changes leave')} a value out as unchanged (R7);"
            f" {quantity(unresolved, 'version has', 'versions have')} a column that no earlier state fills{or_later}."
            " A row that really holds the placeholder's text can't be told from them.",
            ", or ".join(connector.set_values for connector in connectors),
            "warning" if unresolved else "info",
        )


def _of_left_as_null(table: CapturedTable, measures: Measures) -> Iterator[SettingFinding]:
    if measures.left_as_null:
        yield SettingFinding(
            "null_is_unchanged (model)",
            table.name,
            "Updates that came without the row before them have NULL in columns that have had values:"
            f" {_counted(measures.left_as_null)}. The connector leaves unchanged large values of such types out as"
            " NULL, and no event tells that from an update to NULL (R7).",
            f"REPLICA IDENTITY FULL, which tells them apart; for what came without it 'null_is_unchanged': true in"
            f" {table.changes.name}, where values are large (from some 2 kB) and seldom updated to NULL",
            "warning",
        )


def _of_computed(table: CapturedTable, measures: Measures, changed: Sequence[SchemaChange]) -> Iterator[SettingFinding]:
    if measures.read_alone or measures.null_in_stream or measures.empty_arrays:
        shows = []
        if measures.read_alone:
            shows.append(
                f"Columns that snapshots have and no streamed change: {_named(measures.read_alone)}. So come generated"
                " columns; one that was dropped looks alike. An update of a row makes a version in which they are"
                " NULL; `ignore` keeps their last values."
            )
        if measures.null_in_stream:
            shows.append(
                "Columns with values in the snapshot, and NULL in every streamed change:"
                f" {_named(measures.null_in_stream)}. So come columns that the source computes, PostgreSQL's of the"
                " type `name`, and Db2's large ones; an update of a row then makes a version without their values."
            )
        if measures.empty_arrays:
            shows.append(
                "Arrays that hold nothing but NULLs wherever they hold anything:"
                f" {_named(measures.empty_arrays)}. So come arrays of arrays: no event has their values."
            )
        yield SettingFinding(
            "column.exclude.list",
            table.name,
            " ".join(shows) + because(changed, (*measures.read_alone, *measures.null_in_stream)),
            "the columns of which events don't tell the values",
            "info",
        )


def _of_cut_times(table: CapturedTable, described: Fields, connectors: Sequence[Connector]) -> Iterator[SettingFinding]:
    if described.connect_times:
        keys = [name for name in described.connect_times if name in table.key]
        yield SettingFinding(
            "time.precision.mode",
            table.name,
            "Times come cut to milliseconds, and Oracle's DATE to days, whatever the source holds:"
            f" {_named(described.connect_times)}."
            + (f" Rows whose key differs by less become one: {_named(keys)}." if keys else ""),
            ", or ".join(f"time.precision.mode={one}" for one in sorted({one.set_times for one in connectors})),
            "warning" if keys else "info",
        )


def _of_binary_texts(table: CapturedTable, described: Fields) -> Iterator[SettingFinding]:
    if described.binary_texts:
        yield SettingFinding(
            "binary.handling.mode",
            table.name,
            f"Binary columns that come, or came, as text: {_named(described.binary_texts)}. Hexadecimal digits could be"
            " base64, too: such values are NULL with their text in exact_values, make versions where others came as"
            " bytes, and in a key hold their records back.",
            "binary.handling.mode=bytes, or the columns' encoding (hex, base64) in their _changes model",
            "info",
        )


def _of_untold(table: CapturedTable, described: Fields) -> Iterator[SettingFinding]:
    if described.untold:
        yield SettingFinding(
            "encoding (model)",
            table.name,
            "Some records come without a schema, and no declaration says how they encode what schemas of others tell:"
            f" {_named([name for name, _, _ in described.untold])}. Such values are NULL with their text in"
            " exact_values, or that text in a column of text, and in a key hold their records back.",
            ", ".join(
                f"{literal(name, _MARK)}: {{'type': '{kind}', 'encoding': '{encoding}'}}"
                for name, kind, encoding in described.untold
            )
            + f" in {table.changes.name}",
            "warning",
        )


def _of_spelled(table: CapturedTable, described: Fields) -> Iterator[SettingFinding]:
    if described.spelled:
        keys = [name for name, _ in described.spelled if name in table.key]
        yield SettingFinding(
            "type (model)",
            table.name,
            f"Columns declared `string` that came in encodings which spell one value in several ways:"
            f" {_named([name for name, _ in described.spelled])}. Where a mode of the connector changed, an update"
            " makes versions in which the spelling alone is another."
            + (f" Rows whose key it is go on as others, and the old ones stay open: {_named(keys)}." if keys else ""),
            ", ".join(f"{literal(name, _MARK)}: '{kind}'" for name, kind in described.spelled)
            + f" in {table.changes.name}, which reads all of them, where they are one type in several modes; of"
            " hexadecimal digits with 'encoding': 'hex'",
            "warning" if keys else "info",
        )


def _of_unsigned(table: CapturedTable, described: Fields, changed: Sequence[SchemaChange]) -> Iterator[SettingFinding]:
    if described.unsigned:
        yield SettingFinding(
            "encoding (model)",
            table.name,
            f"The source's newest statement makes columns unsigned, and no declaration says so:"
            f" {_named(described.unsigned)}. The upper half of their values comes as negative numbers, and is read as"
            " such." + because(changed, described.unsigned),
            " or ".join(f"{{'type': '{kind}', 'encoding': '{one}'}}" for one, kind in UNSIGNED_TYPES.items())
            + f", by the statement, in {table.changes.name}, where none of their values was ever negative",
            "warning",
        )


def _of_signed(table: CapturedTable, described: Fields, changed: Sequence[SchemaChange]) -> Iterator[SettingFinding]:
    if described.signed:
        yield SettingFinding(
            "encoding (model)",
            table.name,
            f"Columns declared as unsigned that the source's newest statement makes signed:"
            f" {_named(described.signed)}. Their negative values are read as the upper half of unsigned ones."
            + because(changed, described.signed),
            f"no such encoding in {table.changes.name}, where none of their values was ever of that half",
            "warning",
        )


def _of_unknown_types(
    table: CapturedTable, described: Fields, changed: Sequence[SchemaChange]
) -> Iterator[SettingFinding]:
    if described.unknown_types:
        yield SettingFinding(
            "converters",
            table.name,
            f"Semantic types that Tidemark doesn't know: {_named(described.unknown_types)}. Their values are kept as"
            " their literal types have them." + because(changed),
            "a column's type and encoding in its _changes model, where the literal value isn't what is meant",
            "info",
        )


def _of_own_key(table: CapturedTable, described: Fields) -> Iterator[SettingFinding]:
    if described.own_key:
        yield SettingFinding(
            "key (model)",
            table.name,
            f"Its newest records have a key, {_named(described.own_key)}, and {table.changes.name} declares none: it"
            " has changes and no history (R18).",
            f"key={json.dumps(described.own_key, ensure_ascii=False)} in {table.changes.name}, and then tidemark"
            " scaffold, which writes the models of its history",
            "info",
        )


def _of_undeclared(
    table: CapturedTable, measures: Measures, changed: Sequence[SchemaChange]
) -> Iterator[SettingFinding]:
    if measures.undeclared:
        yield SettingFinding(
            "columns (model)",
            table.name,
            f"Columns that {table.changes.name} doesn't declare: {_named(measures.undeclared)}. They are carried with"
            " the types that their schemas give (R8)." + because(changed, measures.undeclared),
            "the lines that tidemark scaffold --diff prints for them",
            "info",
        )


def _named(names: Sequence[str]) -> str:
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in names)


def _counted(columns: Mapping[str, int]) -> str:
    return ", ".join(f"{json.dumps(name, ensure_ascii=False)} ({count})" for name, count in columns.items())
