"""`tidemark sql`: a look at the tables by their locations, without the catalog."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType, VariantVal

from spark_jobs import bronze
from spark_jobs.declarations import Declared, Model
from spark_jobs.delta import table_if_made
from spark_jobs.errors import UsageError
from spark_jobs.places import Places
from spark_jobs.reporting import accounting
from spark_jobs.texts import on_one_line

# Every row of a table is as wide as its widest: one value of 50 MB would make gigabytes of spaces.
_WIDEST = 200
# How Spark names the commands that only look.
_LOOKING = ("Show", "Describe", "Explain")


def show_tables(spark: SparkSession, places: Places, declared: Declared) -> None:
    """Make every table of the lakehouse a view under its own name, and that of its model, without its layer."""
    tables = declared.tables
    models = [model for one in tables for model in (one.changes, one.current, one.history) if model is not None]
    models += [one.model for one in declared.channels]
    models += dict.fromkeys(one.transactions for one in tables if one.transactions is not None)  # of a source's tables
    # dbt and other readers know one that has an alias by that, with its layer: without that two can have the same.
    aliases = Counter(_alias(model) for model in models)
    locations = {_alias(model): model.location for model in models if aliases[_alias(model)] == 1}
    locations |= {name: places.table("bronze", name) for name in bronze.TABLES}
    locations |= {name: places.table("ops", name) for name in bronze.UNMODELLED}
    locations |= {model.name: model.location for model in models}
    for name, location in locations.items():
        if (there := table_if_made(spark, location)) is not None:
            there.createOrReplaceTempView(name)
        else:
            spark.catalog.dropTempView(name)  # a session may have looked at another lakehouse before
    accounts = accounting.stored(spark, places)
    for table in tables:
        if table.accounting is None or table.history is None:
            continue
        if accounts is not None:
            of_table = accounts.where(F.col("history") == table.history.name).drop("history")
            of_table.createOrReplaceTempView(table.accounting.name)
        else:
            spark.catalog.dropTempView(table.accounting.name)


def _alias(model: Model) -> str:
    return model.relation.rpartition(".")[2]


def rows_of(spark: SparkSession, statement: str) -> list[Row]:
    """The rows of one SQL statement, its moments in UTC.

    Raises UsageError where Spark can't read it, where it does more than read, and where Python can't hold a value.
    """
    try:
        _require_reading(spark, statement)
        found = spark.sql(statement)
        fields = found.schema.fields
        # Two columns may have one name. PySpark makes no moment with a zone on the first day of the year 1.
        by_place = found.toDF(*map(str, range(len(fields))))
        columns = [
            (F.col(name).cast("timestamp_ntz") if isinstance(field.dataType, TimestampType) else F.col(name)).alias(
                field.name
            )
            for name, field in zip(by_place.columns, fields, strict=True)
        ]
        rows: list[Row] = by_place.select(*columns).collect()
    except PySparkException as error:
        hint = ""
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            hint = " Name tables without their layer (inv__public__customers_history); `tidemark tables` lists them."
        raise UsageError(f"The statement can't be run: {str(error).strip().splitlines()[0]}{hint}") from error
    except (ValueError, OverflowError, TypeError) as error:
        raise UsageError(
            f"The statement gives a value that Python can't hold ({error}): cast the column to string."
        ) from error
    return rows


def _require_reading(spark: SparkSession, statement: str) -> None:
    """Raise UsageError where a statement is a command of Spark's that does more than look: no lock is held here."""
    java, state = spark._jvm, spark._jsparkSession.sessionState()
    skipped = java.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    plan = state.executePlan(state.sqlParser().parsePlan(statement), skipped).analyzed()
    is_command = plan.containsPattern(java.org.apache.spark.sql.catalyst.trees.TreePattern.COMMAND())
    if is_command and not plan.nodeName().startswith(_LOOKING):
        raise UsageError(
            f"tidemark sql only reads, and this statement does more ({plan.nodeName()}): ask with select, show,"
            " describe or explain."
        )


def as_json(row: Row) -> str:
    """A row as one line of JSON: what JSON has no type for as text, decimals too, so that nothing is rounded.

    Raises UsageError where two columns have one name.
    """
    return on_one_line(json.dumps(_plain(row), ensure_ascii=False, allow_nan=False))


def _plain(value: Any, *, is_named: bool = True) -> Any:
    """A value in JSON's own types; a struct by the names of its fields, or as a list."""
    if isinstance(value, VariantVal):
        value = value.toPython()
    if isinstance(value, Row) and is_named:
        names = value.__fields__
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"--json: two columns are named {twice}. Give one another name, with `as`.")
        value = value.asDict()
    if isinstance(value, dict):
        return {_name(key): _plain(one, is_named=is_named) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one, is_named=is_named) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, (date, timedelta, Decimal)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    return value


def _name(key: Any) -> str:
    """A map's key as a name of JSON's."""
    plain = _plain(key)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def as_table(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> str:
    """Rows as a table for a terminal: control characters are shown as escapes, and of long texts the beginning."""
    heads = [_cell(name) for name in names]
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [
        max(len(head), *(len(row[i]) for row in cells), 0) if cells else len(head) for i, head in enumerate(heads)
    ]
    lines = ["  ".join(head.ljust(width) for head, width in zip(heads, widths, strict=True))]
    lines.append("  ".join("-" * width for width in widths))
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    text = value if isinstance(value, str) else json.dumps(_plain(value, is_named=False), ensure_ascii=False)
    text = text.strip('"') if isinstance(value, (date, timedelta, Decimal, float)) else text
    shown = on_one_line(text[: _WIDEST + 1])
    return shown if len(shown) <= _WIDEST else f"{shown[:_WIDEST]}… (--json shows all)"
