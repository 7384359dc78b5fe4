"""Full rebuild in Spark: append the parsed changes to a Delta table, and overwrite the history with what they tell.

One sort by key and position; redeliveries and changes of nothing are dropped, a delete ends a version.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from benchmarks.contenders.lake import ROW, Lake, changes
from benchmarks.workload import COLUMNS

_HISTORY = f"""
    with placed as (
        select *, lag(lsn) over by_position as previous_lsn from {{changes}}
        window by_position as (partition by id order by lsn)
    ),
    followed as (
        select *,
            lag(op) over by_position as previous_op,
            lag(struct({", ".join(ROW)})) over by_position as previous_row
        from placed where lsn is distinct from previous_lsn
        window by_position as (partition by id order by lsn)
    ),
    told as (
        select *, lead(changed_at) over (partition by id order by lsn) as valid_to
        from followed
        where if(op = 'd', previous_op <> 'd', coalesce(previous_op, 'd') = 'd'
            or previous_row is distinct from struct({", ".join(ROW)}))
    )
    select {", ".join(COLUMNS)}, changed_at as valid_from, valid_to from told where op <> 'd'
"""


class RebuildSpark(Lake):
    """The history is made anew from every change, each time."""

    def initial(self, files: Sequence[str]) -> None:
        """Both tables from nothing."""
        self.increment(files)

    def increment(self, files: Sequence[str]) -> None:
        """More changes, then the history anew."""
        log = str(self.home / "changes")
        if files:
            changes(self.spark, files).write.format("delta").mode("append").save(log)
        told: DataFrame = self.spark.sql(_HISTORY, changes=self.spark.read.format("delta").load(log))
        told.write.format("delta").mode("overwrite").save(self.table)


open_contender = RebuildSpark
