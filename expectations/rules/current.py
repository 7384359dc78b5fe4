"""The laws of current state: one row per living key, and nothing that history doesn't say.

dbt tests guard both while building; here they are for the report, which names the keys.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from expectations.rules.findings import Frames, broken_rows
from expectations.rules.law import Law
from spark_jobs.names import exact_json, quoted


class ExpectOneRowPerLivingKey(Law):
    """The grain of current state."""

    description: str = "Current state has one row per living key."
    broken = "rows > 1"


class ExpectCurrentToEqualOpenVersions(Law):
    """Current state and history are folds of one log."""

    description: str = "Current state has the keys and the values of history's open versions."
    broken = "rows = 0 or open_versions = 0 or first_state <> last_state"


LAWS = (ExpectOneRowPerLivingKey, ExpectCurrentToEqualOpenVersions)


def findings(frames: Frames) -> list[DataFrame]:
    """`law` and `key` of every key whose current state breaks a law."""
    if frames.current is None or frames.history is None:
        return []
    valid_to = frames.table.column_names.get("valid_to", "valid_to")
    living = frames.history.where(F.col(quoted(valid_to)).isNull())
    shared = [name for name in frames.current.columns if name in living.columns]
    sides = _states(frames, frames.current, shared, "row").unionByName(_states(frames, living, shared, "version"))
    judged = sides.groupBy("identity").agg(
        F.count_if(F.col("side") == "row").alias("rows"),
        F.count_if(F.col("side") == "version").alias("open_versions"),
        F.min("state").alias("first_state"),
        F.max("state").alias("last_state"),
    )
    return [broken_rows(judged, LAWS, frames.key_text(F.col("identity")))]


def _states(frames: Frames, rows: DataFrame, columns: list[str], side: str) -> DataFrame:
    state = F.md5(exact_json(F.struct(*[F.col(quoted(name)) for name in columns])))
    return rows.select(frames.identity().alias("identity"), state.alias("state"), F.lit(side).alias("side"))
