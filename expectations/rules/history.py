"""The laws of a history (R9 to R16).

dbt's generic tests guard the same laws of the transformation, and of users' own models: they stop a build. Here the
laws judge what is stored, whoever wrote it, and the report shows them with the keys. Both take them from macros/laws.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from expectations.rules.findings import Frames, breaking, broken_rows, lacks, lost_columns
from expectations.rules.law import WARNING, Law
from spark_jobs.columns import OWN_COLUMNS
from spark_jobs.declarations import CapturedTable, Model
from spark_jobs.macro_queries import query
from spark_jobs.names import table_at
from spark_jobs.texts import folded


class ExpectVersionsToHaveKeyAndStart(Law):
    """The grain of history."""

    description: str = "Every version has a key that is not NULL, and a time from which it is valid."
    broken = "lacks_key or valid_from is null"


class ExpectVersionsNotToEndBeforeTheyBegin(Law):
    """R10: boundaries never run backwards. Empty intervals are common."""

    description: str = "No version ends before it begins (R10)."
    broken = query("ends_before_it_begins")


class ExpectVersionsNotToOverlap(Law):
    """Half-open intervals."""

    description: str = "Two versions of one key never cover the same instant."
    broken = query("overlaps_next")


class ExpectOneOpenVersionAtMost(Law):
    """The open version is the key's last."""

    description: str = "A key has one open version at most, and it is the last by position."
    broken = query("is_open_before_next")


class ExpectOpenVersionsToBeMarkedSo(Law):
    """`is_current`, `valid_to` and `closed_by` tell one thing."""

    description: str = "is_current is true, and closed_by NULL, for open versions and for them alone."
    broken = query("is_marked_otherwise")


class ExpectNoGapButAfterAClose(Law):
    """R13: a gap comes after a delete, truncate or key change, or a missed delete that a snapshot closed (R16)."""

    description: str = "A version that an update closed is followed at once; gaps come after closes alone (R9, R13)."
    broken = query("has_unexplained_gap")


class ExpectTimeToAgreeWithPosition(Law):
    """R4, R10: the order of times is the order of positions."""

    description: str = "In the order of positions, a key's versions never begin earlier than the one before (R4, R10)."
    broken = query("runs_back")


class ExpectOpenedAndClosedByToBeKnown(Law):
    """R9: the words of opened_by and closed_by."""

    description: str = "opened_by and closed_by hold the words that R9 lists."
    broken = (
        "coalesce(opened_by, '') not in ('insert', 'update', 'snapshot', 'key_change', 'before')"
        " or closed_by not in ('update', 'delete', 'truncate', 'key_change', 'snapshot')"
    )


class ExpectKeyChangesToNameTheOtherKey(Law):
    """R14: a row's life can be followed across keys."""

    description: str = "Versions that a key change opened or closed name the other key, and no others do (R14)."
    # A row can leave its key for none: what closed a version, the law of its end asks of the changes.
    broken = (
        "(opened_by <=> 'key_change') <> (previous_key is not null)"
        " or (next_key is not null and not closed_by <=> 'key_change')"
    )


class ExpectVersionIdsToBeUnique(Law):
    """R3: version_id is a stable name."""

    description: str = "Every version has a version_id of its own (R3)."


class ExpectVersionsToBeTraceable(Law):
    """Lineage: a version says what the change says that opened it."""

    description: str = "The change that opened a version is in the changes log, and says what the version says."


class ExpectVersionsToEndAsChangesSay(Law):
    """R9 to R16: what closed a version, and when; that no end or state was passed over; what began one."""

    description: str = (
        "A change ended each closed version, as closed_by, valid_to and next_key say, and none ended one that is open"
        " or that an update or a read closed. What a read opened begins no earlier than the read, but for an earlier"
        " change behind it (R10). An insert follows an update only where its transaction ended the row (R11). The last"
        " state of a transaction is that of the version in effect, no other is a version, and each version differs from"
        " the one that it updates (R11, R12)."
    )


class ExpectColumnsToBeThere(Law):
    """R8: a dropped column stays. One that is stored with another type no law compares with what changes say."""

    description: str = "A history has the source's columns that it was built with, and their types (R8)."


class ExpectValuesToBeResolved(Law):
    """R7: no earlier state had the value, or the connector may have read it later."""

    usual_severity = WARNING
    description: str = (
        "No version lacks a value that its change left out as unchanged, or has one that may be later than its change"
        " (unresolved_columns, R7)."
    )
    broken = "size(unresolved_columns) > 0"


class ExpectValuesToFitTheirTypes(Law):
    """R6: the value is in exact_values as text."""

    usual_severity = WARNING
    description: str = "No version has a value that its column's type can't hold (exact_values, R6)."
    broken = "size(exact_values) > 0"


LAWS = (
    ExpectVersionsToHaveKeyAndStart,
    ExpectVersionsNotToEndBeforeTheyBegin,
    ExpectVersionsNotToOverlap,
    ExpectOneOpenVersionAtMost,
    ExpectOpenVersionsToBeMarkedSo,
    ExpectNoGapButAfterAClose,
    ExpectTimeToAgreeWithPosition,
    ExpectOpenedAndClosedByToBeKnown,
    ExpectKeyChangesToNameTheOtherKey,
    ExpectVersionIdsToBeUnique,
    ExpectVersionsToBeTraceable,
    ExpectVersionsToEndAsChangesSay,
    ExpectColumnsToBeThere,
    ExpectValuesToBeResolved,
    ExpectValuesToFitTheirTypes,
)


def findings(frames: Frames) -> list[DataFrame]:
    """`law` and `key` of every version that breaks a law."""
    if frames.history is None or frames.table.history is None:
        return []
    spark = frames.history.sparkSession
    identity = F.col("identity")
    stored = (table_at(frames.table.history.location), frames.table.key, frames.table.column_names)
    judged = spark.sql(query("versions_with_next", *stored)).withColumn("lacks_key", lacks(identity, frames.table.key))
    key = frames.key_text(identity)
    repeated = judged.groupBy("version_id").agg(F.count("*").alias("count"), F.min("identity").alias("identity"))
    broken = [
        broken_rows(judged, LAWS, key),
        breaking(ExpectVersionIdsToBeUnique, repeated.where("count > 1 or version_id is null"), key),
    ]
    if frames.changes is not None:
        arguments = _arguments(frames.table, frames.table.history, frames.history, frames.changes)
        shown = frames.shown and frames.shown.as_dict()
        for law, text in (
            (ExpectVersionsToBeTraceable, query("unexplained_versions", *arguments)),
            (ExpectVersionsToBeTraceable, query("unexplained_found", *arguments, shown)),
            (ExpectVersionsToEndAsChangesSay, query("unexplained_ends", *arguments, shown)),
        ):
            broken.append(breaking(law, spark.sql(text), frames.key_text(F.col("key"))))
    there = {folded(name): kind for name, kind in frames.history.dtypes}
    built_with = frames.shown.columns if frames.shown else {}
    lacking = [name for name, kind in built_with.items() if not _is_of_type(there.get(folded(name)), kind)]
    return [*broken, *lost_columns(ExpectColumnsToBeThere, spark, lacking)]


def _is_of_type(stored: str | None, kind: str) -> bool:
    """Whether a column is stored with a type, however that is spelled."""
    return stored == kind or stored == DataType.fromDDL(kind).simpleString()


def _arguments(table: CapturedTable, model: Model, history: DataFrame, changes: DataFrame) -> tuple[Any, ...]:
    """What the queries of versions against their changes take."""
    types = {field.name: field.dataType.simpleString() for field in changes.schema["after"].dataType.fields}
    return (
        table_at(model.location),
        table_at(table.changes.location),
        [{"name": name, "type": kind} for name, kind in history.dtypes if name in table.key or types.get(name) == kind],
        {name: table.column_names.get(name, name) for name in OWN_COLUMNS},
        {
            "source": f"{table.source_name}.{table.source_table}",
            "key": table.key,
            "documents": "document" in changes.columns,
        },
        table.history_options,
    )
