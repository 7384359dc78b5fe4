"""What statements changed of captured tables, as `schema_versions` has it: why types and keys are others now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import Declared
from spark_jobs.delta import is_table
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.reporting.bronze_contents import moment
from spark_jobs.texts import on_one_line

# A snapshot drops each table that it reads in words alone.
_IS_CHANGE = "size(changes) > 0 or is_key_changed or previous_table is not null or (kind = 'DROP' and not is_snapshot)"
_DROPPED = "table dropped"
_SHOWN = 5
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A statement that changed the columns or the key of a captured table, or dropped or renamed it.

    `columns` has a text for each column that differs, and for the table itself; `names` are the columns' names.
    `statement` is None where the connector tells none, or where the table is hidden (`masking.hidden`): a statement can
    hold values.
    """

    table: str
    at: datetime | None
    statement: str | None
    columns: tuple[str, ...]
    names: tuple[str, ...]
    is_key_changed: bool

    @property
    def line(self) -> str:
        """The statement, or what it did, and when."""
        what = self.statement or "; ".join([*self.columns, *(["another key"] if self.is_key_changed else [])])
        when = f" ({self.at:%Y-%m-%d %H:%M:%S} UTC)" if self.at else ""
        return f"{on_one_line(' '.join(what.split()))[:_LONGEST]}{when}"


def schema_changes(
    spark: SparkSession, places: Places, declared: Declared, hidden: Collection[str], *, sample_rows: bool
) -> dict[str, list[SchemaChange]]:
    """Captured table → the last statements that changed it, the newest last; nothing where no model has them.

    Args:
        spark: The session.
        places: Where bronze is.
        declared: The captured tables, and those of channels.
        hidden: The feeds of tables whose values people may not see.
        sample_rows: Whether statements may be shown at all.
    """
    wanted = [one for one in declared.channels if one.kind == "schema_versions" and is_table(spark, one.model.location)]
    if not wanted:
        return {}
    by_feed = {table.feed: table for table in declared.tables}
    changes_of: dict[str, list[SchemaChange]] = {}
    for one in wanted:
        versions = (
            spark.table(table_at(one.model.location))
            .where(_IS_CHANGE)
            .withColumn("of_table", F.explode(F.array_distinct(F.array_compact(F.array("previous_table", "table")))))
        )
        newest = Window.partitionBy("db", "schema", "of_table").orderBy(
            F.desc_nulls_last("position"), F.desc("topic"), F.desc("partition"), F.desc("offset")
        )
        last = versions.withColumn("rank", F.row_number().over(newest)).where(F.col("rank") <= _SHOWN)
        with_times = with_feeds(spark, places, one.prefix, last, "of_table").withColumn(
            "at", F.unix_micros("changed_at")
        )
        rows = with_times.orderBy(F.desc("rank")).collect()
        for row in rows:
            if (table := by_feed.get(row["feed"])) is not None:
                shows = sample_rows and table.feed not in hidden
                changes_of.setdefault(table.name, []).append(_change(table.name, row, shows=shows))
    return changes_of


def with_feeds(
    spark: SparkSession, places: Places, prefix: str, statements: DataFrame, named: str = "table"
) -> DataFrame:
    """What is told of tables by `db`, `schema` and the column `named`, with the feeds of those that bronze has seen."""
    seen = bronze.read(spark, places, "shapes").where(F.col("source_name") == prefix)
    of_tables = seen.select("feed", "db", "schema", "table").distinct().alias("seen")
    names = {"db": "db", "schema": "schema", "table": named}
    is_its = [F.col(f"seen.{name}").eqNullSafe(F.col(f"told.{column}")) for name, column in names.items()]
    return of_tables.join(statements.alias("told"), is_its).select("feed", "told.*")


def _change(table: str, row: Any, *, shows: bool) -> SchemaChange:
    return SchemaChange(
        table,
        moment(row["at"]),
        row["ddl"] if shows else None,
        (*_of_table(row), *[_difference(one) for one in row["changes"]]),
        tuple(one["name"] for one in row["changes"]),
        row["is_key_changed"],
    )


def _of_table(row: Any) -> list[str]:
    if row["kind"] == "DROP":
        return [_DROPPED]
    return [f"table {row['previous_table']} renamed to {row['table']}"] if row["previous_table"] else []


def _difference(row: Any) -> str:
    if row["type_before"] is None:
        return f"{row['name']} added ({row['type']})"
    return f"{row['name']} dropped" if row["type"] is None else f"{row['name']}: {row['type_before']} → {row['type']}"


def because(changed: Iterable[SchemaChange], names: Iterable[str] | None = None) -> str:
    """A sentence that names the statements which changed some columns, any where `names` is None; empty without one."""
    wanted = None if names is None else set(names)
    lines = [one.line for one in changed if (one.columns if wanted is None else wanted & set(one.names))]
    return f" Its schema was changed by: {'; '.join(lines)}." if lines else ""


def because_of_key(changed: Iterable[SchemaChange]) -> str:
    """The same of statements that changed the key."""
    lines = [one.line for one in changed if one.is_key_changed]
    return f" Its key was changed by: {'; '.join(lines)}." if lines else ""


def reason_of(sign: str, changed: Mapping[str, Sequence[SchemaChange]], table: str) -> str:
    """What explains a sign of a table; empty where no statement does."""
    if sign in ("old_key_shapes", "other_key_shapes"):
        return because_of_key(changed.get(table, ()))
    if sign == "dropped_rows":
        return because(one for one in changed.get(table, ()) if _DROPPED in one.columns)
    return because(changed.get(table, ())) if sign in ("exact_values", "unresolved_columns") else ""
