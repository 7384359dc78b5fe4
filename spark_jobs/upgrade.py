"""Lakehouses of older versions, brought to this version's layout one number after the other.

What records say is in bronze, so a step need not carry over what a build makes anew. A step that was interrupted is
begun again; the number moves when it is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import SparkSession

from spark_jobs.delta import is_table, remove, table_if_made
from spark_jobs.files import Files
from spark_jobs.lock import LAYOUT, MARKER, layout_of
from spark_jobs.names import table_at
from spark_jobs.places import Places


def environments(places: Places) -> list[str]:
    """The prefixes of the environments that share a lakehouse; that of the plain one is empty, and always there."""
    return ["", *(one.removesuffix("ops") for one in Files.of(places).folders() if one.endswith("_ops"))]


def upgrade(spark: SparkSession, places: Places) -> int | None:
    """Bring a lakehouse to this version's layout; the one that it had, None where there was nothing to do."""
    found = layout_of(places)
    if found is None or found == LAYOUT:
        return None
    for layout in range(found, LAYOUT):
        _STEPS[layout](spark, places)
        Files.of(places).write(MARKER, json.dumps({"layout": layout + 1}) + "\n")
    return found


def _accounts_in_progress(spark: SparkSession, places: Places) -> None:
    """An account was a table of its own, and is part of its history's progress; the next build counts anew."""
    files = Files.of(places)
    for schema in [f"{prefix}ops" for prefix in environments(places)]:
        progress = f"{places.lakehouse}/{schema}/progress"
        there = table_if_made(spark, progress)
        if there is not None and "account" not in there.columns:
            spark.sql(f"alter table {table_at(progress)} add columns (account {_ACCOUNT})")
        for name in files.folders(schema):
            location = f"{places.lakehouse}/{schema}/{name}"
            if name.endswith("_accounting") and _is_account(spark, location):
                remove(spark, location)


def _is_account(spark: SparkSession, location: str) -> bool:
    if not is_table(spark, location):
        return False
    detail = spark.sql(f"describe detail {table_at(location)}").head()
    return detail is not None and "tidemark.counts" in detail["properties"]


# As it was in layout 3, whatever macros/project/progress.sql makes of it later.
_ACCOUNT = "array<struct<kind: string, name: string, records: bigint, sample_keys: array<string>>>"
_STEPS: dict[int, Callable[[SparkSession, Places], None]] = {2: _accounts_in_progress}
