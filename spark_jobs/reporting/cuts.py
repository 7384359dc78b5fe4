"""Where the histories of a source end before its changes do, because a transaction is not complete (G7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable
from spark_jobs.delta import table_if_made

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Cut:
    """The consistent cut of a source that holds something back.

    `blocking` are the first transactions, in their order, that are not known to be complete, each with what it lacks
    by changes model (nothing: its END has not come, or its count can't be trusted); `transactions` and `changes` are
    all that stands behind the cut.
    """

    source: str
    blocking: Mapping[str, Mapping[str, int]]
    transactions: int
    changes: int

    @property
    def told(self) -> str:
        """What is held back, why, and what would set it free."""
        waits = "; ".join(f"{name} {_waits_for(lacking)}" for name, lacking in self.blocking.items())
        return (
            f"{self.source}: {self.changes} changes of {self.transactions} transactions are held back, so that no"
            f" table shows half of one (G7). Transaction {waits}. They come with a later run; where they never will,"
            f" name the transaction in `vars: tidemark: sources: {self.source}: given_up`."
        )


def cuts(spark: SparkSession, tables: Sequence[CapturedTable]) -> list[Cut]:
    """The cuts of the sources that are declared consistent and not complete."""
    models = {table.source_name: table.transactions for table in tables if table.transactions is not None}
    found = []
    for source, model in sorted(models.items()):
        if (held := table_if_made(spark, model.location)) is not None:
            count, changes = held.selectExpr("count(*)", "coalesce(sum(changes), 0)").collect()[0]
            rows = held.where("is_blocking").orderBy("began_at_offset").limit(_SHOWN).collect()
            if count:
                blocking = {row["transaction_id"]: row["lacking"] for row in rows}
                found.append(Cut(source, blocking, count, changes))
    return found


def _waits_for(lacking: Mapping[str, int]) -> str:
    if not lacking:
        return "waits for its END, or for the landing after"
    return "waits for " + ", ".join(f"{count} of {model}" for model, count in sorted(lacking.items()))
