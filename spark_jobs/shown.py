"""What histories show of their logs, as their last builds wrote it down."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.declarations import CapturedTable
from spark_jobs.delta import is_table, progress
from spark_jobs.names import table_at
from spark_jobs.places import Places


@dataclass(frozen=True, slots=True)
class Shown:
    """Up to which landing and cut (G7) a history shows its log, and the source's columns, by type, that it has.

    `late` are the columns that its log had not from the beginning, each with the first landing that carried it (R8).
    """

    batch_id: int
    cut: str | None
    columns: dict[str, str]
    late: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """As macros take it."""
        return asdict(self)


def shown(spark: SparkSession, places: Places, tables: Iterable[CapturedTable]) -> dict[str, Shown]:
    """Table → what its history shows; without those of which that isn't known, or whose log was made anew since."""
    histories = {table.history.name: table for table in tables if table.history is not None}
    read = progress(spark, places)
    if read is None:
        return {}
    logs = {table.changes.name for table in histories.values()}
    rows = read.where(F.col("name").isin(*histories, *logs)).select("name", "batch_id", "state").collect()
    states = {row["name"]: json.loads(row["state"]) for row in rows}
    found = {}
    for row in rows:
        if row["name"] not in histories:
            continue
        table, state = histories[row["name"]], states[row["name"]]
        if state.get("log_made_in", "") == _made_in(spark, table.changes.location):
            columns = {column[0]: column[1] for column in state.get("columns", ())}
            late = states.get(table.changes.name, {}).get("late") or {}
            found[table.name] = Shown(row["batch_id"], state.get("cut"), columns, late)
    return found


def _made_in(spark: SparkSession, location: str) -> str | None:
    if not is_table(spark, location):
        return None
    properties = spark.sql(f"show tblproperties {table_at(location)}").collect()
    return next((row["value"] for row in properties if row["key"] == "tidemark.made_in"), "")
