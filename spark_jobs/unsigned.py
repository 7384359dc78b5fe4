"""What schema-change events say of columns that are, or were, BIGINT UNSIGNED or INTEGER UNSIGNED.

Records of MySQL and MariaDB show no sign of it but their upper half as negative values: of BIGINT in the mode `long`,
the default, of INTEGER before Debezium 3.6.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.landing.shapes import INT_UNSIGNED, IS_INT_UNSIGNED, IS_UNSIGNED, UNSIGNED, UNSIGNED_TYPES
from spark_jobs.places import Places
from spark_jobs.record import JSON_LIMITS

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
    names: dict[tuple[str, str, str], str] = {}
    fields: dict[str, set[str]] = {}
    for shape in shapes:
        if shape["connector"] in _CONNECTORS:
            names[shape["source_name"], shape["db"], shape["table"]] = shape["feed"]
            fields.setdefault(shape["feed"], set()).update(field["name"] for field in shape["fields"] or ())
    if not names:
        return {}
    column = "struct<name: string, `typeName`: string>"
    table = f"struct<id: string, `table`: struct<columns: array<{column}>>>"
    block = f"source struct<name: string, db: string>, `databaseName` string, `tableChanges` array<{table}>"
    value = F.from_json(bronze.record_text(), f"payload struct<{block}>, {block}", JSON_LIMITS)
    columns_of_events = (
        bronze.read(spark, places, "records")
        .where("kind = 'schema_change'")
        .select(bronze.written().alias("at"), value.alias("v"))
        .selectExpr("at", "if(v.payload is null, struct(v.source, v.databaseName, v.tableChanges), v.payload) as e")
        .selectExpr("at", "e.source.name as source_name", "e.databaseName as db", "inline(e.tableChanges)")
        .selectExpr("*", "inline(table.columns)")
        .where("typeName is not null")
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
        table_id = ".".join('"' + (part or "").replace('"', '""') + '"' for part in (db, name))
        for row in found:
            if (row["source_name"], row["db"], row["id"]) == (source_name, db, table_id):
                field = next((one for one in _spellings(row["name"]) if one in fields[feed]), row["name"])
                columns.setdefault(feed, {})[field] = Unsigned(row["encoding"], row["is_now"], row["is_always"])
    return columns


def _spellings(column: str) -> tuple[str, str, str]:
    """How rows may spell a column of a statement: as it is, or adjusted by `field.name.adjustment.mode`.

    Of its modes `avro` puts `_` for what Avro has in no name, and `avro_unicode` the character's number.
    """

    def numbered(found: re.Match[str]) -> str:
        digits = f"{ord(found[0]):x}"
        return f"_u{digits if len(digits) > 2 else '00' + digits}"

    underscored = re.sub("^(?=[0-9])|[^A-Za-z0-9_]", "_", column)
    return column, underscored, re.sub("^[0-9]|[^A-Za-z0-9]", numbered, column)
