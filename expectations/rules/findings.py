"""From judged rows to findings: every row is looked at, and no more than a few keys leave Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from expectations.rules.law import Law
from spark_jobs.declarations import CapturedTable
from spark_jobs.delta import frame_of
from spark_jobs.masking import Mask
from spark_jobs.names import exact_json
from spark_jobs.shown import Shown

SAMPLES = 20


@dataclass(frozen=True, slots=True)
class Frames:
    """The silver and gold frames of one captured table that laws look at; None where the table isn't there.

    `shown` is what the history shows of the log, or None where that isn't known.
    """

    table: CapturedTable
    mask: Mask
    changes: DataFrame | None = None
    current: DataFrame | None = None
    history: DataFrame | None = None
    shown: Shown | None = None

    def key_text(self, identity: Column) -> Column:
        """A key as JSON text for people: columns declared sensitive as short hashes."""
        fields = [identity.getField(name) for name in self.table.key]
        shown = [
            self.mask.column(field) if name in self.table.sensitive else field
            for name, field in zip(self.table.key, fields, strict=True)
        ]
        return as_json(dict(zip(self.table.key, shown, strict=True)))


def as_json(fields: dict[str, Column]) -> Column:
    """A struct as JSON text for people."""
    pairs = [part for name, value in fields.items() for part in (F.lit(name), value)]
    return exact_json(F.named_struct(*pairs))


def lacks(identity: Column, names: Iterable[str]) -> Column:
    """Whether a key has no value at all. One column of several can be NULL, as in a key of an old shape (R8)."""
    return identity.isNull() | reduce(Column.__and__, [identity.getField(name).isNull() for name in names])


def broken_rows(judged: DataFrame, laws: Sequence[type[Law]], key: Column, *more: Column) -> DataFrame:
    """`law`, `key` and `more` of every judged row that breaks a law that is a condition on a row."""
    named = [F.when(F.expr(law.broken), F.lit(law.expectation_type)) for law in laws if law.broken is not None]
    return judged.select(F.explode(F.array_compact(F.array(*named))).alias("law"), key.alias("key"), *more)


def breaking(law: type[Law], rows: DataFrame, key: Column, *more: Column) -> DataFrame:
    """`law`, `key` and `more` of rows that were found to break one law."""
    return rows.select(F.lit(law.expectation_type).alias("law"), key.alias("key"), *more)


def lost_columns(law: type[Law], spark: SparkSession, names: Sequence[str]) -> list[DataFrame]:
    """The same of columns whose loss breaks one law; nothing where none is lost."""
    if not names:
        return []
    lost = frame_of(spark, [{"name": name} for name in names], pa.schema([("name", pa.string())]))
    return [breaking(law, lost, as_json({"column": F.col("name")}))]


def summary(broken: Sequence[DataFrame], samples: int = SAMPLES, by: Sequence[str] = ("law",)) -> DataFrame:
    """One row per broken law, or per `by`: `broken` (how many rows) and `keys` (the first few, in order)."""
    by_key = Window.partitionBy(*by).orderBy("key")
    ranked = reduce(DataFrame.unionByName, broken).withColumn("rank", F.dense_rank().over(by_key))
    first = F.collect_set(F.when(F.col("rank") <= samples, F.col("key")))
    return ranked.groupBy(*by).agg(F.count("*").alias("broken"), F.sort_array(first).alias("keys"))
