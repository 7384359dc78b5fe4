"""What the tables themselves say, measured in one pass over each: rows, lag, and the marks that settings leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable, Model
from spark_jobs.names import quoted, table_at
from spark_jobs.places import Places
from spark_jobs.reporting.bronze_contents import moment

# Tables are measured side by side: while one is planned on the driver another has the executors.
_THREADS = 4


@dataclass(frozen=True, slots=True)
class Lag:
    """Milliseconds from a change in the source to the connector's work on it, of streamed changes."""

    p50: int
    p95: int
    max: int


@dataclass(frozen=True, slots=True)
class Measures:
    """What one captured table's layers say.

    `nulls` counts NULLs in nullable columns that have a default (by column). `empty_intervals` are versions that begin
    and end at one time, as a source with coarse clocks gives them (R10). `one_sided` are the columns that of snapshot
    reads and streamed changes only one ever carries.

    `last_batch` is the last landing that the changes table shows; `lag_of_last_batch` is of bronze's last landing.
    `last_processed_at` is when the connector worked on the last of the changes.
    Rows are None where a layer isn't there.
    """

    changes: int | None = None
    current: int | None = None
    history: int | None = None
    empty_intervals: int = 0
    last_batch: int = -1
    streamed: int = 0
    updates: int = 0
    updates_without_before: int = 0
    without_transaction: int = 0
    unavailable: int = 0
    lag: Lag | None = None
    lag_of_last_batch: Lag | None = None
    nulls: Mapping[str, int] = field(default_factory=dict)
    one_sided: tuple[str, ...] = ()
    last_processed_at: datetime | None = None


def measure(
    spark: SparkSession, places: Places, tables: Sequence[CapturedTable], defaulted: Mapping[str, Sequence[str]]
) -> dict[str, Measures]:
    """Measure every captured table, each layer in one pass.

    Args:
        spark: The session.
        places: Whose tables; read by location.
        tables: The captured tables.
        defaulted: Table → its nullable columns that have a default in the embedded schema.
    """
    last_batch = _last_batch(spark, places)
    parts = [part for table in tables for part in _parts(spark, table, defaulted.get(table.name, ()), last_batch)]
    found: dict[str, dict[str, dict[str, Any]]] = {table.name: {} for table in tables}
    with ThreadPoolExecutor(_THREADS) as pool:
        rows = pool.map(lambda part: part[2].collect()[0].asDict(), parts)
        for (name, layer, _), numbers in zip(parts, rows, strict=True):
            found[name][layer] = numbers
    return {name: _measures(layers) for name, layers in found.items()}


def _last_batch(spark: SparkSession, places: Places) -> int:
    if not bronze.is_table(spark, places.table("bronze", "records")):
        return -1
    return int(bronze.read(spark, places, "records").agg(F.coalesce(F.max("batch_id"), F.lit(-1))).collect()[0][0])


def _parts(
    spark: SparkSession, table: CapturedTable, defaulted: Sequence[str], last_batch: int
) -> list[tuple[str, str, DataFrame]]:
    """Table, layer and one row of numbers, for each layer that is there."""
    changes, current, history = (_read(spark, model) for model in (table.changes, table.current, table.history))
    parts = []
    if changes is not None:
        parts.append((table.name, "changes", _of_changes(changes, defaulted, last_batch)))
    if current is not None:
        parts.append((table.name, "current", current.agg(F.count("*").alias("rows"))))
    if history is not None:
        begin, end = (F.col(quoted(table.column_names.get(name, name))) for name in ("valid_from", "valid_to"))
        parts.append(
            (
                table.name,
                "history",
                history.agg(F.count("*").alias("rows"), F.count_if(begin == end).alias("empty_intervals")),
            )
        )
    return parts


def _read(spark: SparkSession, model: Model | None) -> DataFrame | None:
    is_there = model is not None and bronze.is_table(spark, model.location)
    return spark.table(table_at(model.location)) if model is not None and is_there else None


def _of_changes(changes: DataFrame, defaulted: Sequence[str], last_batch: int) -> DataFrame:
    is_streamed = F.col("op") != "r"
    lag = F.when(is_streamed, F.unix_millis("processed_at") - F.unix_millis("changed_at"))
    lag_of_last = F.when(F.col("batch_id") == last_batch, lag)
    known = {field.name for field in changes.schema["after"].dataType.fields}
    nulls = [_nulls(name) for name in defaulted if name in known]
    return changes.agg(
        F.count("*").alias("rows"),
        F.max("batch_id").alias("last_batch"),
        F.unix_micros(F.max("processed_at")).alias("last_processed_at"),
        F.count_if(is_streamed).alias("streamed"),
        F.count_if(F.col("op") == "u").alias("updates"),
        F.count_if((F.col("op") == "u") & F.col("before").isNull()).alias("updates_without_before"),
        F.count_if(is_streamed & F.col("transaction_id").isNull()).alias("without_transaction"),
        F.count_if(F.size("unavailable_columns") > 0).alias("unavailable"),
        *_percentiles("lag", lag),
        *_percentiles("lag_of_last_batch", lag_of_last),
        _absent_from("r").alias("absent_from_reads"),
        _absent_from("c", "u").alias("absent_from_stream"),
        *nulls,
    )


def _absent_from(*ops: str) -> Column:
    """The different sets of columns that changes of these kinds don't carry."""
    return F.collect_set(F.when(F.col("op").isin(*ops), F.array_sort("absent_columns")))


def _percentiles(name: str, value: Column) -> list[Column]:
    return [
        F.percentile_approx(value, 0.5).alias(f"{name}.p50"),
        F.percentile_approx(value, 0.95).alias(f"{name}.p95"),
        F.max(value).alias(f"{name}.max"),
    ]


def _nulls(name: str) -> Column:
    is_state = F.col("op").isin("c", "u", "r") & ~F.array_contains("unavailable_columns", name)
    is_there = ~F.array_contains("absent_columns", name)
    return F.count_if(is_state & is_there & F.col("after").getField(name).isNull()).alias(f"null.{name}")


def _measures(layers: Mapping[str, Mapping[str, Any]]) -> Measures:
    changes = layers.get("changes", {})
    history = layers.get("history", {})
    plain = ("last_batch", "streamed", "updates", "updates_without_before", "without_transaction", "unavailable")
    return Measures(
        changes=changes.get("rows"),
        current=layers.get("current", {}).get("rows"),
        history=history.get("rows"),
        empty_intervals=history.get("empty_intervals") or 0,
        one_sided=_one_sided(changes.get("absent_from_reads"), changes.get("absent_from_stream")),
        lag=_lag(changes, "lag"),
        lag_of_last_batch=_lag(changes, "lag_of_last_batch"),
        nulls=_named(changes, "null."),
        last_processed_at=moment(changes.get("last_processed_at")),
        **{name: value for name in plain if (value := changes.get(name)) is not None},
    )


def _one_sided(of_reads: Sequence[Sequence[str]] | None, of_stream: Sequence[Sequence[str]] | None) -> tuple[str, ...]:
    if not of_reads or not of_stream:
        return ()  # without changes of both kinds nothing is missing from one
    never_read, never_streamed = (set.intersection(*map(set, sets)) for sets in (of_reads, of_stream))
    return tuple(sorted(never_read ^ never_streamed))


def _lag(numbers: Mapping[str, Any], name: str) -> Lag | None:
    found = [numbers.get(f"{name}.{part}") for part in ("p50", "p95", "max")]
    return Lag(*[int(value or 0) for value in found]) if found[0] is not None else None


def _named(numbers: Mapping[str, Any], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): value or 0 for name, value in numbers.items() if name.startswith(prefix)}
