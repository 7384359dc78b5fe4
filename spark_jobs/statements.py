"""What schema-change events in bronze say of columns, and which of them they call large (R7)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.places import Places
from spark_jobs.record import JSON_LIMITS

# What Oracle keeps aside of a row: LOBs, XML and, with `max_string_size=EXTENDED`, texts and bytes declared as long.
_LARGE = (
    "upper(`typeName`) rlike '^(N?CLOB|BLOB|(SYS[.])?XMLTYPE)$' or try_cast(length as bigint) > case"
    " when upper(`typeName`) = 'VARCHAR2' then 4000 when upper(`typeName`) in ('NVARCHAR2', 'RAW') then 2000 end"
)
_CONNECTORS = ("oracle",)


def columns_told(spark: SparkSession, places: Places) -> DataFrame:
    """Each column of each table that a statement tells of, once for each.

    Returns:
        `at`, the place of the statement's record, `source_name`, `db`, `id`, the table in quotation marks, and of the
        column `name`, `typeName` and `length`.
    """
    column = "struct<name: string, `typeName`: string, length: string>"
    table = f"struct<id: string, `table`: struct<columns: array<{column}>>>"
    block = f"source struct<name: string, db: string>, `databaseName` string, `tableChanges` array<{table}>"
    value = F.from_json(bronze.record_text(), f"payload struct<{block}>, {block}", JSON_LIMITS)
    return (
        bronze.read(spark, places, "records")
        .where("kind = 'schema_change'")
        .select(bronze.written().alias("at"), value.alias("v"))
        .selectExpr("at", "if(v.payload is null, struct(v.source, v.databaseName, v.tableChanges), v.payload) as e")
        .selectExpr("at", "e.source.name as source_name", "e.databaseName as db", "inline(e.tableChanges)")
        .selectExpr("*", "inline(table.columns)")
        .where("typeName is not null")
    )


def table_id(*parts: str | None) -> str:
    """A table's name as such events write it."""
    return ".".join('"' + (part or "").replace('"', '""') + '"' for part in parts)


def field_of(column: str, fields: Collection[str]) -> str:
    """The field that a column of a statement is in rows: named as it is, or adjusted by `field.name.adjustment.mode`.

    Of its modes `avro` puts `_` for what Avro has in no name, and `avro_unicode` the character's number.
    """

    def numbered(found: re.Match[str]) -> str:
        digits = f"{ord(found[0]):x}"
        return f"_u{digits if len(digits) > 2 else '00' + digits}"

    underscored = re.sub("^(?=[0-9])|[^A-Za-z0-9_]", "_", column)
    spellings = column, underscored, re.sub("^[0-9]|[^A-Za-z0-9]", numbered, column)
    return next((one for one in spellings if one in fields), column)


def large_columns(spark: SparkSession, places: Places, shapes: Iterable[Row]) -> dict[str, set[str]]:
    """Feed → its fields that some statement in bronze gives a large type.

    Args:
        spark: The session.
        places: Where bronze is.
        shapes: Those of bronze. Where none is of a connector that may stream no large values, nothing is asked.
    """
    shapes = [shape for shape in shapes if shape["connector"] in _CONNECTORS]
    if not shapes:
        return {}
    feeds = {(one["source_name"], table_id(one["db"], one["schema"], one["table"])): one["feed"] for one in shapes}
    fields = {feed: bronze.fields_by_name(seen) for feed, seen in bronze.by_feed(shapes).items()}
    large: dict[str, set[str]] = {}
    for row in columns_told(spark, places).where(_LARGE).select("source_name", "id", "name").distinct().collect():
        if feed := feeds.get((row["source_name"], row["id"])):
            large.setdefault(feed, set()).add(field_of(row["name"], fields[feed]))
    return large
