"""Where the histories of a source end before its changes do, because a transaction is not complete (G7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.declarations import CapturedTable
from spark_jobs.delta import table_if_made
from spark_jobs.texts import quantity

_SHOWN = 3
# What lacks more has a count in its END that is no number (`unknown_count` in macros/transactions).
_UNREADABLE = 2**62


@dataclass(frozen=True, slots=True)
class Cut:
    """The consistent cut of a source that holds something back.

    `blocking` are the first transactions, in their order, that are not known to be complete, each with what it lacks
    by changes model (nothing: its END has not come, or its count can't be trusted; None: its BEGIN has not come);
    `all_blocking` is how many there are. `transactions` are those with changes that stand behind the cut, `changes` are
    theirs.
    """

    source: str
    blocking: Mapping[str, Mapping[str, int] | None]
    all_blocking: int
    transactions: int
    changes: int

    @property
    def line(self) -> str:
        """What is held back, why, and what would set it free."""
        waits = "; ".join(f"{name} {_waits_for(lacking)}" for name, lacking in self.blocking.items())
        if more := self.all_blocking - len(self.blocking):
            waits += f"; {quantity(more, 'more waits', 'more wait')}"
        return (
            f"{self.source}: {quantity(self.changes, 'change')} of {quantity(self.transactions, 'transaction')}"
            f" {'is' if self.changes == 1 else 'are'} held back, so that no table shows half of one (G7). Transaction"
            f" {waits}. They come with a later run; where they never will, name the transaction in"
            f" `vars: tidemark: sources: {self.source}: given_up`, as a text in quotes."
        )


def cuts(spark: SparkSession, tables: Sequence[CapturedTable]) -> list[Cut]:
    """The cuts of the sources that are declared consistent and not complete."""
    models = {table.source_name: table.transactions for table in tables if table.transactions is not None}
    held_back = []
    for source, model in sorted(models.items()):
        if (transactions := table_if_made(spark, model.location)) is not None:
            all_blocking, with_changes, changes = transactions.selectExpr(
                "count_if(is_blocking)", "count_if(changes > 0)", "coalesce(sum(changes), 0)"
            ).collect()[0]
            rows = (
                transactions.where("is_blocking").orderBy(F.asc_nulls_last("began_at_offset")).limit(_SHOWN).collect()
            )
            # The last transaction, of tables that no model has, can wait for the landing behind it and hold nothing.
            if changes:
                blocking = {
                    row["transaction_id"]: None if row["began_at_offset"] is None else row["lacking"] for row in rows
                }
                held_back.append(Cut(source, blocking, all_blocking, with_changes, changes))
    return held_back


def _waits_for(lacking: Mapping[str, int] | None) -> str:
    if lacking is None:
        return (
            "waits for its BEGIN (see that `provide.transaction.metadata` is on, and its topic landed), or where the"
            " connector tells none, as MySQL's of XA, for the landing after a later one"
        )
    if not lacking:
        # Db2, MongoDB, SQL Server before Debezium 3.5
        return "waits for its END, which may come with the source's next change alone, or for the landing after"
    return "waits for " + ", ".join(
        f"{count:,} of {model}" if count < _UNREADABLE else f"a count of {model} that can be read"
        for model, count in sorted(lacking.items())
    )
