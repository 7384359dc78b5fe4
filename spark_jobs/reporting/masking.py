"""How values that people may not see are shown: as short hashes, equal where the values are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from spark_jobs.declarations import Beside, CapturedTable
from spark_jobs.delta import table_if_made
from spark_jobs.places import Places

_DIGITS = 10


def hidden(
    spark: SparkSession, places: Places, tables: Sequence[CapturedTable], beside: Sequence[Beside]
) -> frozenset[str]:
    """The feeds of captured tables with a column that is declared sensitive, or was seen and is not declared (R8).

    With them the topics of outboxes that have a field which is declared so.
    """
    shapes = table_if_made(spark, places.table("bronze", "shapes"))
    seen: dict[str, set[str]] = {}
    for row in () if shapes is None else shapes.select("feed", F.col("fields.name").alias("names")).collect():
        seen.setdefault(row["feed"], set()).update(row["names"] or ())
    return frozenset(
        table.feed
        for table in tables
        if table.sensitive or seen.get(table.feed, set()) - {column["field"] for column in table.columns}
    ).union(*[one.hidden_topics for one in beside])


def hashed(value: Column) -> Column:
    """A column's values as short hashes of their text; NULL stays NULL."""
    return F.concat(F.lit("#"), F.substring(F.sha2(value.cast("string"), 256), 1, _DIGITS))


def short_hash(value: str | bytes) -> str:
    """A value as a short hash: `#` and ten hexadecimal digits of its SHA-256."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return "#" + hashlib.sha256(data).hexdigest()[:_DIGITS]
