"""The laws of current state: one row per living key, and nothing that history doesn't say.

A dbt test guards both while building, by the same query; here they are for the report, which names the keys.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from expectations.rules.findings import Frames, broken_rows, lost_columns
from expectations.rules.law import Law
from spark_jobs.columns import CURRENT_COLUMNS, OWN_COLUMNS
from spark_jobs.macro_queries import query
from spark_jobs.names import quoted, table_at
from spark_jobs.texts import folded


class ExpectOneRowPerLivingKey(Law):
    """The grain of current state."""

    description: str = "Current state has one row per living key."
    broken = "in_current > 1"


class ExpectCurrentToEqualOpenVersions(Law):
    """Current state and history are folds of one log."""

    description: str = "Current state has the keys, the columns and the values of history's open versions."
    broken = query("is_not_as_open")


LAWS = (ExpectOneRowPerLivingKey, ExpectCurrentToEqualOpenVersions)


def findings(frames: Frames) -> list[DataFrame]:
    """`law` and `key` of every key whose current state breaks a law, and of every column that it lacks."""
    table = frames.table
    if frames.current is None or frames.history is None or table.current is None or table.history is None:
        return []
    judged = query(
        "current_beside_history",
        table_at(table.current.location),
        table_at(table.history.location),
        table.key,
        [name for name in frames.current.columns if name in frames.history.columns],
        f"{quoted(table.column_names.get('valid_to', 'valid_to'))} is null",
    )
    spark = frames.current.sparkSession
    broken = [broken_rows(spark.sql(judged), LAWS, frames.key_text(F.col("identity")))]
    of_versions = [table.column_names.get(name, name) for name in OWN_COLUMNS if name not in CURRENT_COLUMNS]
    there = {folded(name) for name in (*frames.current.columns, *of_versions)}
    lacking = [name for name in frames.history.columns if folded(name) not in there]
    return [*broken, *lost_columns(ExpectCurrentToEqualOpenVersions, spark, lacking)]
