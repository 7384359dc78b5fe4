"""Gold's versions and the oracle's in one form, to compare."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import time, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from expectations.rules.findings import Frames
from expectations.rules.history import (
    ExpectColumnsToBeThere,
    ExpectVersionsToBeTraceable,
    ExpectVersionsToEndAsChangesSay,
    findings,
)
from spark_jobs.declarations import CapturedTable
from spark_jobs.macro_queries import query
from spark_jobs.masking import Mask
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.shown import shown
from tests import oracle
from tests.projects import EPOCH, account_of, rows_of

_TOLD = [
    law.expectation_type
    for law in (ExpectVersionsToBeTraceable, ExpectVersionsToEndAsChangesSay, ExpectColumnsToBeThere)
]


def as_gold(value: Any) -> Any:
    """A value of the oracle as gold holds it: times of day are text."""
    return f"{value:%H:%M:%S.%f}" if isinstance(value, time) else value


def versions_of(table: CapturedTable) -> dict[Any, list[dict[str, Any]]]:
    """Gold's versions by key in their order, read as users without Spark read them; columns by the events' names."""
    assert table.history is not None
    own = {name: table.column_names.get(name, name) for name in ("position", "partition", "offset")}
    fields = {column["name"]: column["field"] for column in table.columns}
    key = [name for name in fields if name in table.key]
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in sorted(rows_of(table.history.location), key=lambda row: [row[name] for name in own.values()]):
        state = {field: row[name] for name, field in fields.items()}
        times = [row[table.column_names.get(name, name)] for name in ("valid_from", "valid_to")]
        ends = [row[table.column_names.get(name, name)] for name in ("opened_by", "closed_by")]
        unresolved = [fields[name] for name in row[table.column_names.get("unresolved_columns", "unresolved_columns")]]
        found.setdefault(tuple((fields[name], row[name]) for name in key), []).append(
            {"state": state, "times": times, "ends": ends, "unresolved": sorted(unresolved)}
        )
    return found


def expected_versions(history: oracle.History, key: list[str]) -> dict[Any, list[dict[str, Any]]]:
    """The oracle's versions in the same form."""
    columns = {name for versions in history.versions.values() for version in versions for name in version.state}
    return {
        tuple((name, as_gold(version[history.key_columns.index(name)])) for name in key): [
            {
                "state": {name: as_gold(one.state.get(name)) for name in columns},
                "times": [
                    None if at is None else EPOCH + timedelta(microseconds=at) for at in (one.valid_from, one.valid_to)
                ],
                "ends": [one.opened_by, one.closed_by],
                "unresolved": sorted(one.unresolved_columns),
            }
            for one in versions
        ]
        for version, versions in history.versions.items()
    }


def untold(spark: SparkSession, places: Places, tables: Sequence[CapturedTable]) -> list[str]:
    """Keys of versions that don't say what the changes say that opened and ended them, and columns that gold lacks."""
    keys = []
    known = shown(spark, places, tables)
    for table in tables:
        if table.history is not None:
            changes, history = (spark.table(table_at(one.location)) for one in (table.changes, table.history))
            assert table.name in known
            frames = Frames(table, Mask.of(spark, places), changes=changes, history=history, shown=known[table.name])
            broken = reduce(DataFrame.unionByName, findings(frames)).where(F.col("law").isin(_TOLD)).limit(20)
            keys += [f"{table.name}: {row['law']}: {row['key']}" for row in broken.collect()]
    return keys


def miscounted(spark: SparkSession, tables: Sequence[CapturedTable]) -> list[str]:
    """Tables whose history has versions of another number of changes, or with other signs, than its account says."""
    names = []
    for table in tables:
        if table.history is not None and (account := account_of(table)):
            counted = {row["name"]: row["records"] for row in account}
            asked = query("changes_of_versions", table_at(table.history.location), table.column_names)
            [in_gold] = spark.sql(asked).collect()
            told = ("opened", "found_states", "unresolved_columns", "exact_values")
            if tuple(in_gold) != tuple(counted.get(name, 0) for name in told):
                names.append(f"{table.name}: {in_gold}, {counted}")
    return names
