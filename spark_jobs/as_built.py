"""Whether tables are built as they are declared: between a changed declaration and the next build they are not."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from spark_jobs.columns import OWN_COLUMNS
from spark_jobs.declarations import CapturedTable
from spark_jobs.delta import states, table_if_made
from spark_jobs.errors import UsageError
from spark_jobs.places import Places

# What the key has in a log that was built without one.
_NO_KEY = ("none",)


def require_built_as_declared(spark: SparkSession, places: Places, tables: Sequence[CapturedTable]) -> None:
    """Raise UsageError where tables have another key, other names or another place than they are declared with.

    Whoever looks at them by their declaration would miss columns, or take them for damaged. What was never built is not
    built otherwise.
    """
    built_as = {name: state["identifier"] for name, state in states(spark, places).items() if "identifier" in state}
    if otherwise := [table.name for table in tables if _is_built_otherwise(spark, table, built_as)]:
        raise UsageError(
            f"{', '.join(otherwise)}: not built as declared: the key or a name was changed after the last build."
            f" Run `tidemark build{places.option}` first."
        )


def _is_built_otherwise(spark: SparkSession, table: CapturedTable, built_as: dict[str, str]) -> bool:
    for model in table.models:
        place = model.location.rpartition("/")[2]
        if built_as.get(model.name, place) != place:
            return True
    log = table_if_made(spark, table.changes.location)
    if log is not None and set(log.schema["key"].dataType.fieldNames()) != set(table.key or _NO_KEY):
        return True
    history = None if table.history is None else table_if_made(spark, table.history.location)
    names = {table.column_names.get(name, name) for name in OWN_COLUMNS}
    return history is not None and not names <= set(history.columns)
