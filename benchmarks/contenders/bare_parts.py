"""No contender: the parts that no initial load can do without, bare. Parse, raw append, and an append for each layer.

It knows snapshots alone, whose rows are the history; what it is timed for is as right as its history is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.contenders.lake import Lake, changes, export
from benchmarks.workload import COLUMNS

_LINE = "topic string, partition int, offset bigint, timestamp bigint, key string, value string"


class BareParts(Lake):
    """Delta tables of bronze, changes, current and history, appended to."""

    def initial(self, files: Sequence[str]) -> Mapping[str, float]:
        """Each part by itself, from what the one before it wrote."""
        spark = self.spark

        def appended(frame: DataFrame, name: str) -> Callable[[], None]:
            return lambda: frame.write.format("delta").mode("append").save(str(self.home / name))

        parsed = changes(spark, files)
        parts: dict[str, Callable[[], None]] = {
            "parse": lambda: parsed.write.format("noop").mode("overwrite").save(),
            "raw append": appended(spark.read.schema(_LINE).json(list(files)), "bronze"),
        }
        seconds = {name: _seconds(part) for name, part in parts.items()}
        # Parsed once more, untimed: what an append of a layer costs is not its parsing.
        parsed.write.format("parquet").save(str(self.home / "parsed"))
        read = spark.read.parquet(str(self.home / "parsed"))
        rows = read.select(*COLUMNS, F.col("changed_at").alias("valid_from"))
        ended = rows.withColumn("valid_to", F.lit(None).cast("timestamp"))
        for name, frame in {"changes": read, "current": rows, "history": ended}.items():
            seconds[f"append {name}"] = _seconds(appended(frame, name))
        return seconds

    def increment(self, files: Sequence[str]) -> None:
        """It has none."""
        raise NotImplementedError(f"bare parts are of an initial load: {files}")

    def history(self, table: str, folder: Path) -> list[Path]:
        """The last layer as Parquet."""
        del table
        return export(self.spark.read.format("delta").load(self.table), folder)


def _seconds(action: Callable[[], None]) -> float:
    before = monotonic()
    action()
    return monotonic() - before


open_contender = BareParts
