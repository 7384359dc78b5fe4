"""What histories show of their logs, as their last builds wrote it down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable
from spark_jobs.delta import is_table, states
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
    built = states(spark, places)
    found = {}
    for table in tables:
        state = None if table.history is None else built.get(table.history.name)
        if state is not None and state.get("log_made_in", "") == _made_in(spark, table.changes.location):
            columns = {column[0]: column[1] for column in state.get("columns", ())}
            late = built.get(table.changes.name, {}).get("late") or {}
            found[table.name] = Shown(state["batch_id"], state.get("cut"), columns, late)
    return found


def _made_in(spark: SparkSession, location: str) -> str | None:
    if not is_table(spark, location):
        return None
    properties = spark.sql(f"show tblproperties {table_at(location)}").collect()
    return next((row["value"] for row in properties if row["key"] == "tidemark.made_in"), "")
