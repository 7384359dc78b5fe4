"""The laws of the changes log: each change once, with a key, a place in the order and a time (R3, R4, R7, R11).

That a change is there once (`unique` of `change_id`) is a dbt test too, which stops a build before history is made of a
bad log; these are what the report shows, with the keys.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from expectations.rules.findings import Frames, as_json, breaking, broken_rows, lacks
from expectations.rules.law import WARNING, Law
from spark_jobs.bronze import LINEAGE


class ExpectChangesToHaveTheirKey(Law):
    """The row's identity; a truncate is of the whole table and has none."""

    description: str = "Every change of a row that is understood has a key that is not NULL."
    broken = "op <> 't' and problem is null and lacks_key"


class ExpectChangesToHaveAPosition(Law):
    """R4: the order needs a position."""

    description: str = "Every change has its position in the source's log (R4)."
    broken = "position is null and problem is null"


class ExpectChangeOpsToBeKnown(Law):
    """R2: an unknown op is quarantined before it comes here."""

    description: str = "Every change is a c, u, d, r or t (R2)."
    broken = "coalesce(op, '') not in ('c', 'u', 'd', 'r', 't')"


class ExpectStatesAfterChanges(Law):
    """R2: a state without a row is quarantined before it comes here, or named as a problem here."""

    description: str = "Every insert, update and read that is understood has the row's state after it (R2)."
    broken = "op in ('c', 'u', 'r') and problem is null and not has_after"


class ExpectChangesToBeThereOnce(Law):
    """R3: a redelivery is the same change."""

    description: str = "Every change has a change_id, and is there once however often it was delivered (R3)."


class ExpectChangeTimesToBePlausible(Law):
    """R10: a time later than the landing is a clock gone wrong; a minute is left for clocks that differ."""

    usual_severity = WARNING
    description: str = "Every change has a time, not later than a minute after it was landed (R10)."
    broken = "changed_at is null or changed_at > landed_at + interval 1 minute"


class ExpectStreamedChangesToNameTheirTransaction(Law):
    """R11: without a transaction each change stands alone. MongoDB names none of an operation on one document."""

    usual_severity = WARNING
    description: str = "Every streamed change names its transaction, so that only committed states are versions (R11)."
    broken = "op <> 'r' and transaction_id is null and not has_documents"


class ExpectValuesToBeAvailable(Law):
    """R7: filled from earlier states, at the price of needing them. An update of a document tells its changes alone."""

    usual_severity = WARNING
    description: str = "No change leaves a value out as unchanged (the placeholder of R7)."
    broken = "size(unavailable_columns) > 0 and not has_documents"


LAWS = (
    ExpectChangesToHaveTheirKey,
    ExpectChangesToHaveAPosition,
    ExpectChangeOpsToBeKnown,
    ExpectStatesAfterChanges,
    ExpectChangesToBeThereOnce,
    ExpectChangeTimesToBePlausible,
    ExpectStreamedChangesToNameTheirTransaction,
    ExpectValuesToBeAvailable,
)


def findings(frames: Frames) -> list[DataFrame]:
    """`law` and `key` of every change that breaks a law; where it has no key, `key` is its topic, partition, offset."""
    if frames.changes is None:
        return []
    is_keyed = bool(frames.table.key)
    judged = frames.changes.withColumns(
        {
            "lacks_key": lacks(F.col("key"), frames.table.key) if is_keyed else F.lit(False),
            "has_after": F.col("after").isNotNull(),
            "has_documents": F.lit("document" in frames.changes.columns),
        }
    )
    place = as_json({name: F.col(name) for name in LINEAGE})
    key = F.when(F.col("lacks_key"), place).otherwise(frames.key_text(F.col("key"))) if is_keyed else place
    counted = judged.groupBy("change_id").agg(
        F.count("*").alias("count"),
        *[F.min(name).alias(name) for name in (*LINEAGE, "lacks_key", "key")],
    )
    repeated = counted.where("count > 1 or change_id is null")
    return [broken_rows(judged, LAWS, key), breaking(ExpectChangesToBeThereOnce, repeated, key)]
