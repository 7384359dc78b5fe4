"""`tidemark sql`: a look at the tables by their locations, without the catalog."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import Beside, CapturedTable
from spark_jobs.delta import table_if_made
from spark_jobs.errors import UsageError
from spark_jobs.places import Places
from spark_jobs.reporting import accounting
from spark_jobs.texts import on_one_line

# Every row of a table is as wide as its widest: one value of 50 MB would make gigabytes of spaces.
_WIDEST = 200
# Tables of Tidemark's own that people look at.
OPS = ("kafka_offsets", "kafka_gaps")


def show_tables(
    spark: SparkSession, places: Places, tables: Sequence[CapturedTable], beside: Sequence[Beside] = ()
) -> None:
    """Make every table of the lakehouse a view under its own name, without its layer."""
    locations = {name: places.table("bronze", name) for name in bronze.TABLES}
    locations |= {name: places.table("ops", name) for name in OPS}
    for table in tables:
        for model in (table.changes, table.current, table.history):
            if model is not None:
                locations[model.name] = model.location
    locations |= {one.model.name: one.model.location for one in beside}
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


def rows_of(spark: SparkSession, statement: str) -> list[Row]:
    """The rows of one SQL statement; raises UsageError where Spark can't read it."""
    try:
        rows: list[Row] = spark.sql(statement).collect()
    except PySparkException as error:
        raise UsageError(f"The statement can't be run: {str(error).splitlines()[0]}") from error
    return rows


def as_json(row: Row) -> str:
    """A row as one line of JSON: decimals, times and intervals as text, so that nothing is rounded."""
    return on_one_line(json.dumps(row.asDict(recursive=True), default=_plain, ensure_ascii=False))


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, (date, timedelta, Decimal)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    raise TypeError(type(value).__name__)


def as_table(rows: Sequence[Row], names: Sequence[str]) -> str:
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
    text = value if isinstance(value, str) else json.dumps(value, default=_plain, ensure_ascii=False)
    text = text.strip('"') if isinstance(value, (date, timedelta, Decimal)) else text
    shown = on_one_line(text[: _WIDEST + 1])
    return shown if len(shown) <= _WIDEST else f"{shown[:_WIDEST]}… (--json shows all)"
