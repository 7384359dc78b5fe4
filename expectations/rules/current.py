"""The laws of current state: one row per living key, and nothing that history doesn't say.

A dbt test guards both while building, by the same query; here they are for the report, which names the keys.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from expectations.rules.findings import Frames, broken_rows
from expectations.rules.law import Law
from expectations.rules.shared import query
from spark_jobs.names import quoted, table_at


class ExpectOneRowPerLivingKey(Law):
    """The grain of current state."""

    description: str = "Current state has one row per living key."
    broken = "in_current > 1"


class ExpectCurrentToEqualOpenVersions(Law):
    """Current state and history are folds of one log."""

    description: str = "Current state has the keys and the values of history's open versions."
    broken = query("is_not_as_open")


LAWS = (ExpectOneRowPerLivingKey, ExpectCurrentToEqualOpenVersions)


def findings(frames: Frames) -> list[DataFrame]:
    """`law` and `key` of every key whose current state breaks a law."""
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
    return [broken_rows(frames.current.sparkSession.sql(judged), LAWS, frames.key_text(F.col("identity")))]
