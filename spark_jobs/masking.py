"""How values that people may not see are shown: as short hashes, equal where the values of one lakehouse are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from spark_jobs.declarations import CapturedTable, Declared
from spark_jobs.delta import id_of, table_if_made
from spark_jobs.names import exact_json
from spark_jobs.places import Places

_DIGITS = 10


def hidden(spark: SparkSession, places: Places, declared: Declared) -> frozenset[str]:
    """The feeds of captured tables with a column that is declared sensitive, or was seen and is not declared (R8).

    With them the topics of outboxes that have a field which is declared so.
    """
    shapes = table_if_made(spark, places.table("bronze", "shapes"))
    seen: dict[str, set[str]] = {}
    for row in () if shapes is None else shapes.select("feed", F.col("fields.name").alias("names")).collect():
        seen.setdefault(row["feed"], set()).update(row["names"] or ())
    return frozenset(
        table.feed
        for table in declared.tables
        if table.sensitive or seen.get(table.feed, set()) - {column["field"] for column in table.columns}
    ).union(*[one.topics for one in declared.channels if one.is_hidden])


@dataclass(frozen=True, slots=True)
class Mask:
    """What hides values: a short hash is `#` and ten hexadecimal digits of the SHA-256 of the salt and the value.

    A column of few values could be read by hashing all that it may have. The salt is random, the same for all reports
    of a lakehouse, and known to those alone who can read its tables.
    """

    salt: str

    @classmethod
    def of(cls, spark: SparkSession, places: Places) -> Mask:
        """The mask of a lakehouse, whose salt is the id that Delta drew for bronze's records."""
        return cls(id_of(spark, places.table("bronze", "records")) or "")

    def column(self, value: Column) -> Column:
        """A column's values as short hashes of what JSON says of them, without its quotation marks; NULL stays NULL."""
        # Casts would say moments, bytes and some numbers otherwise than the keys that are kept as JSON.
        said = F.regexp_extract(exact_json(F.struct(value.alias("v"))), '^[{]"v":"?(.*?)"?[}]$', 1)
        said = F.when(F.typeof(value) == "string", value.cast("string")).when(value.isNotNull(), said)
        return F.concat(F.lit("#"), F.substring(F.sha2(F.concat(F.lit(self.salt), said), 256), 1, _DIGITS))

    def text(self, value: str | bytes) -> str:
        """A value as a short hash."""
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        return "#" + hashlib.sha256(self.salt.encode() + data).hexdigest()[:_DIGITS]

    def value(self, table: CapturedTable, name: str, value: Any) -> Any:
        """A value of a table's column as people may see it: as it is, or a short hash where that is sensitive."""
        if name not in table.sensitive or value is None:
            return value
        return self.text(str(value).lower() if isinstance(value, bool) else str(value))
