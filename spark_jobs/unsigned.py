"""What schema-change events say of columns that are, or were, BIGINT UNSIGNED or INTEGER UNSIGNED.

Records of MySQL and MariaDB show no sign of it but their upper half as negative values: of BIGINT in the mode `long`,
the default, of INTEGER before Debezium 3.6.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.landing.shapes import INT_UNSIGNED, IS_INT_UNSIGNED, IS_UNSIGNED, UNSIGNED, UNSIGNED_TYPES
from spark_jobs.places import Places
from spark_jobs.statements import columns_told, field_of, table_id

# Encoding → how a schema, or none, describes a column that may want it; another mode's schema tells it.
_MAY_BE_UNSIGNED = {UNSIGNED: ("int64", None), INT_UNSIGNED: ("int32", None)}
# Encoding → the least of the values that come as negative ones.
_HALF = {UNSIGNED: "2^63", INT_UNSIGNED: "2^31"}
_CONNECTORS = ("mysql", "mariadb")
_NEVER_NEGATIVE = "(?i) unsigned"


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A column that some event calls unsigned: its encoding, and whether the newest and all give it such types."""

    encoding: str
    is_now: bool
    is_always: bool

    @property
    def type(self) -> str:
        """The type that holds its values."""
        return UNSIGNED_TYPES[self.encoding]

    @property
    def half(self) -> str:
        """The least of its values that come as negative ones."""
        return _HALF[self.encoding]

    def is_hidden(self, seen: Iterable[Row]) -> bool:
        """Whether records of the column don't tell, among them those of before its mode changed.

        Args:
            seen: What shapes say of it: rows with `encoding`.
        """
        return any(one["encoding"] in _MAY_BE_UNSIGNED[self.encoding] for one in seen)


def unsigned_columns(spark: SparkSession, places: Places, shapes: Iterable[Row]) -> dict[str, dict[str, Unsigned]]:
    """Feed → field → what the schema-change events in bronze say of it, if any has called it so.

    Args:
        spark: The session.
        places: Where bronze is.
        shapes: Those of bronze. Where none is of such a connector, nothing is asked.
    """
    shapes = [shape for shape in shapes if shape["connector"] in _CONNECTORS]
    if not shapes:
        return {}
    names = {(one["source_name"], one["db"], one["table"]): one["feed"] for one in shapes}
    fields = {feed: bronze.fields_by_name(seen) for feed, seen in bronze.by_feed(shapes).items()}
    columns_of_events = (
        columns_told(spark, places)
        .withColumn("is_big", F.col("typeName").rlike(IS_UNSIGNED))
        .withColumn("is_unsigned", F.col("typeName").rlike(_NEVER_NEGATIVE))
    )
    is_big = F.bool_or("is_big")
    found = (
        columns_of_events.groupBy("source_name", "db", "id", "name")
        .agg(
            F.when(is_big, UNSIGNED)
            .when(F.bool_or(F.col("typeName").rlike(IS_INT_UNSIGNED)), INT_UNSIGNED)
            .alias("encoding"),
            F.when(is_big, F.max_by("is_big", "at")).otherwise(F.max_by("is_unsigned", "at")).alias("is_now"),
            F.bool_and("is_unsigned").alias("is_always"),
        )
        .where("encoding is not null")
        .collect()
    )
    columns: dict[str, dict[str, Unsigned]] = {}
    for (source_name, db, name), feed in names.items():
        for row in found:
            if (row["source_name"], row["db"], row["id"]) == (source_name, db, table_id(db, name)):
                field = field_of(row["name"], fields[feed])
                columns.setdefault(feed, {})[field] = Unsigned(row["encoding"], row["is_now"], row["is_always"])
    return columns
