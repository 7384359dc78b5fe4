"""What the tables themselves say, measured in one pass over each: rows, lag, and the marks that settings leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from spark_jobs.declarations import CapturedTable, Model
from spark_jobs.delta import states, table_if_made
from spark_jobs.macro_queries import query
from spark_jobs.names import quoted, table_at
from spark_jobs.places import Places
from spark_jobs.reporting.bronze_contents import moment

# Tables are measured side by side: while one is planned on the driver another has the executors.
_THREADS = 4
# Values to be expected in the stream, by their share in reads, from which on it is no chance that there are none.
_EXPECTED = 5
# The most bytes of a large value that Oracle keeps in its row, and so streams whatever is set.
_IN_ROW = 8000


@dataclass(frozen=True, slots=True)
class Lag:
    """Milliseconds from a change in the source to the connector's work on it, of streamed changes."""

    p50: int
    p95: int
    max: int


@dataclass(frozen=True, slots=True)
class Measures:
    """What one captured table's layers say.

    `problems` counts the changes that no history takes (R2), `opened` those that it has versions of, `found_versions`
    the versions that a first change found (R19), `unresolved_versions` and `inexact_versions` those that have
    `unresolved_columns` and `exact_values`, `nulls` NULLs in nullable columns that have a default, by column, of
    those that any state carries. `left_as_null` counts the updates without the row before them that have NULL in a
    column whose large values are left out so, by column, of those that have had a value.
    `empty_intervals` are versions that begin and end at one time, as a source with coarse clocks gives them (R10).
    `read_alone` are the columns that snapshot reads carry and no streamed change does, `null_in_stream` those in which
    reads have values and streamed changes none where some were to be expected, `empty_arrays` those that hold nothing
    but NULLs wherever they hold anything. `never_streamed` are the columns of which streamed changes have placeholders
    (R7) and no value; `inserted_as_null` counts inserts without a value in a column of large ones, by column, where
    nothing shows that the connector streams those. `is_before_missing` is whether the newest update by
    position came without the row before it. `undeclared` are the columns of the log that no model declares,
    `exact_values` counts versions by the column whose value is in their `exact_values`; of a table that has no
    accounting changes, all of which are `inexact`, and `new_logs` is how many borders its log has (R5).

    `last_batch` is the last landing that the changes table shows; `lag_of_last_batch` is of bronze's last landing.
    `last_processed_at` is when the connector worked on the last of the changes, no later than that was landed.
    Rows are None where a layer isn't there.
    """

    changes: int | None = None
    problems: int = 0
    current: int | None = None
    history: int | None = None
    opened: int = 0
    found_versions: int = 0
    unresolved_versions: int = 0
    inexact_versions: int = 0
    empty_intervals: int = 0
    last_batch: int = -1
    streamed: int = 0
    updates: int = 0
    updates_without_before: int = 0
    is_before_missing: bool = False
    without_transaction: int = 0
    unavailable: int = 0
    lag: Lag | None = None
    lag_of_last_batch: Lag | None = None
    nulls: Mapping[str, int] = field(default_factory=dict)
    left_as_null: Mapping[str, int] = field(default_factory=dict)
    read_alone: tuple[str, ...] = ()
    null_in_stream: tuple[str, ...] = ()
    empty_arrays: tuple[str, ...] = ()
    never_streamed: tuple[str, ...] = ()
    inserted_as_null: Mapping[str, int] = field(default_factory=dict)
    undeclared: tuple[str, ...] = ()
    exact_values: Mapping[str, int] = field(default_factory=dict)
    inexact: int = 0
    new_logs: int = 0
    last_processed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a table's columns, by what its events say of them.

    `defaulted` are its nullable columns that have a default, `null_in_stream` those of which its connector may stream
    NULL alone, though a snapshot has their values. `may_be_large` are columns that can have large values which the
    connector may not stream, `large` those of them that statements of the source say so of; `left_as_null` are the
    columns whose large values it leaves out as NULL.
    """

    defaulted: Sequence[str] = ()
    null_in_stream: Sequence[str] = ()
    may_be_large: Sequence[str] = ()
    large: Sequence[str] = ()
    left_as_null: Sequence[str] = ()


NOTHING = Asked()


def measure(
    spark: SparkSession, places: Places, tables: Sequence[CapturedTable], asked: Mapping[str, Asked]
) -> dict[str, Measures]:
    """Measure every captured table, each layer in one pass.

    Args:
        spark: The session.
        places: Whose tables; read by location.
        tables: The captured tables.
        asked: Table → what is asked of its columns; nothing of those that are not named.
    """
    last_batch = _last_batch(spark, places)
    built = states(spark, places)
    parts = []
    for table in tables:
        changes = _read(spark, table.changes)
        if changes is not None:
            # As histories read it: its rows name those too among the columns that they lack that came late (R8).
            late = built.get(table.changes.name, {}).get("late")
            shown = query("with_late_columns", table_at(table.changes.location), late)
            log = spark.sql(f"select * from {shown}")
            alone = _of_log_alone(log) if table.accounting is None else []
            numbers = _of_changes(log, table.key, asked.get(table.name, NOTHING), last_batch, alone)
            parts.append((table.name, "changes", numbers))
        parts += _of_built(spark, table, _columns(changes))
    layers_of: dict[str, dict[str, dict[str, Any]]] = {table.name: {} for table in tables}
    with ThreadPoolExecutor(_THREADS) as pool:
        rows = pool.map(lambda part: part[2].collect()[0].asDict(), parts)
        for (name, layer, _), numbers in zip(parts, rows, strict=True):
            layers_of[name][layer] = numbers
        # Elsewhere each version has a change of its own.
        with_found = {
            one.name: query("changes_of_versions", table_at(one.history.location), one.column_names)
            for one in tables
            if one.history is not None and layers_of[one.name].get("history", {}).get("found_versions")
        }
        counted = pool.map(lambda statement: spark.sql(statement).collect()[0].asDict(), with_found.values())
        for name, numbers in zip(with_found, counted, strict=True):
            layers_of[name]["history"] |= numbers
    return {table.name: _measures(table, layers_of[table.name], asked.get(table.name, NOTHING)) for table in tables}


def _last_batch(spark: SparkSession, places: Places) -> int:
    records = table_if_made(spark, places.table("bronze", "records"))
    return -1 if records is None else int(records.agg(F.coalesce(F.max("batch_id"), F.lit(-1))).collect()[0][0])


def _columns(changes: DataFrame | None) -> list[str]:
    """The source's columns that a log has, those that no model declares too."""
    return [] if changes is None else [field.name for field in changes.schema["after"].dataType.fields]


def _of_built(spark: SparkSession, table: CapturedTable, columns: Sequence[str]) -> list[tuple[str, str, DataFrame]]:
    """Table, layer and one row of numbers, for current state and history where they are there."""
    current, history = (_read(spark, model) for model in (table.current, table.history))
    parts = []
    if current is not None:
        parts.append((table.name, "current", current.agg(F.count("*").alias("rows"))))
    if history is not None:
        begin, end, opened_by, unresolved_columns, exact_values = (
            F.col(quoted(table.column_names.get(name, name)))
            for name in ("valid_from", "valid_to", "opened_by", "unresolved_columns", "exact_values")
        )
        # A text holds whatever came.
        inexact = [name for name, kind in history.dtypes if name in columns and kind != "string"]
        parts.append(
            (
                table.name,
                "history",
                history.agg(
                    F.count("*").alias("rows"),
                    F.count_if(opened_by == "before").alias("found_versions"),
                    F.count_if(F.size(unresolved_columns) > 0).alias("unresolved_versions"),
                    F.count_if(F.size(exact_values) > 0).alias("inexact_versions"),
                    F.count_if(begin == end).alias("empty_intervals"),
                    *[F.count_if(exact_values.getItem(name).isNotNull()).alias(f"exact.{name}") for name in inexact],
                ),
            )
        )
    return parts


def _read(spark: SparkSession, model: Model | None) -> DataFrame | None:
    return None if model is None else table_if_made(spark, model.location)


def _of_log_alone(changes: DataFrame) -> list[Column]:
    """What the account of a history tells of others: values that their types can't hold (R6), and logs (R5)."""
    exact_values = F.col("exact_values")
    log = F.struct("source_label", "topic", "partition", "log_number")
    columns = [one.name for one in changes.schema["after"].dataType.fields if one.dataType.simpleString() != "string"]
    return [
        F.count_if(F.size(exact_values) > 0).alias("inexact"),
        F.collect_set(F.when(F.col("log_number").isNotNull(), log)).alias("logs"),
        *[F.count_if(exact_values.getItem(name).isNotNull()).alias(f"exact.{name}") for name in columns],
    ]


def _of_changes(
    changes: DataFrame, key: Sequence[str], asked: Asked, last_batch: int, more: Sequence[Column]
) -> DataFrame:
    is_streamed = F.col("op") != "r"
    is_update = F.col("op") == "u"
    is_state = F.col("op").isin("c", "u", "r")
    lacks_before = F.col("before").isNull()
    place = F.when(is_update, F.struct("log_number", "position", "partition", "offset"))
    lag = F.when(is_streamed, F.unix_millis("processed_at") - F.unix_millis("changed_at"))
    lag_of_last = F.when(F.col("batch_id") == last_batch, lag)
    columns = _columns(changes)
    nulls = [_nulls(name, is_state).alias(f"null.{name}") for name in asked.defaulted if name in columns]
    of_rows = [name for name in columns if name not in key]
    read = [name for name in of_rows if name in asked.null_in_stream]
    may_be_large = [name for name in of_rows if name in asked.may_be_large]
    left_as_null = [name for name in asked.left_as_null if name in columns]
    is_insert = (F.col("op") == "c") & F.col("previous_key").isNull()
    return changes.agg(
        F.count("*").alias("rows"),
        F.count_if(F.col("problem").isNotNull()).alias("problems"),
        F.array(*map(F.lit, columns)).alias("columns"),
        F.max("batch_id").alias("last_batch"),
        # A clock that is ahead would speak for a connector that is dead.
        F.unix_micros(F.max(F.least("processed_at", "landed_at"))).alias("last_processed_at"),
        F.count_if(is_streamed).alias("streamed"),
        F.count_if(is_state & is_streamed).alias("streamed_states"),
        F.count_if(is_update).alias("updates"),
        F.count_if(is_update & lacks_before).alias("updates_without_before"),
        F.max_by(lacks_before, place).alias("is_before_missing"),
        F.count_if(is_streamed & F.col("transaction_id").isNull()).alias("without_transaction"),
        F.count_if(F.size("unavailable_columns") > 0).alias("unavailable"),
        *_percentiles("lag", lag),
        *_percentiles("lag_of_last_batch", lag_of_last),
        _sets_of("absent_columns", "r").alias("absent_from_reads"),
        _sets_of("absent_columns", "c", "u").alias("absent_from_stream"),
        _sets_of("unavailable_columns", "c", "u").alias("unavailable_in_stream"),
        _sets_of("unavailable_columns", "r").alias("unavailable_in_reads"),
        *nulls,
        *[F.avg(_is_value(name, "r").cast("int")).alias(f"read.{name}") for name in read],
        *[_has_value(name, "c", "u").alias(f"streamed.{name}") for name in read],
        *[F.count_if(is_insert & _is_empty(name)).alias(f"inserted.{name}") for name in may_be_large],
        *[_longest(name, "c", "u").alias(f"longest.{name}") for name in may_be_large],
        *[_nulls(name, is_update & lacks_before).alias(f"left.{name}") for name in left_as_null],
        *[_has_value(name, "c", "u", "r").alias(f"had.{name}") for name in left_as_null],
        *[_holds_nulls_alone(name).alias(f"array.{name}") for name in _arrays(changes)],
        *more,
    )


def _sets_of(columns: str, *ops: str) -> Column:
    """The different sets of columns that changes of these kinds don't carry, or leave out."""
    return F.collect_set(F.when(F.col("op").isin(*ops), F.array_sort(columns)))


def _percentiles(name: str, value: Column) -> list[Column]:
    return [
        F.percentile_approx(value, 0.5).alias(f"{name}.p50"),
        F.percentile_approx(value, 0.95).alias(f"{name}.p95"),
        F.max(value).alias(f"{name}.max"),
    ]


def _nulls(name: str, is_asked: Column) -> Column:
    """How many of some changes have NULL in a column; NULL where none carries it."""
    is_known = is_asked & ~F.array_contains("unavailable_columns", name)
    is_carried = is_known & ~F.array_contains("absent_columns", name)
    is_null = F.col("after").getField(name).isNull()
    return F.sum(F.when(is_carried, is_null.cast("int")))


def _has_value(name: str, *ops: str) -> Column:
    """Whether any change of these kinds has a value in a column; NULL where there are none."""
    return F.bool_or(_is_value(name, *ops))


def _is_value(name: str, *ops: str) -> Column:
    """Whether a change has a value in a column; NULL where it is of another kind, or leaves it out as unchanged."""
    is_known = F.col("op").isin(*ops) & ~F.array_contains("unavailable_columns", name)
    return F.when(is_known, F.col("after").getField(name).isNotNull())


def _is_empty(name: str) -> Column:
    """Whether a change has NULL in a column, or the empty value that stands for it where the column can't be NULL."""
    text = F.coalesce(F.col("after").getField(name).cast("string"), F.lit(""))
    is_inexact = F.col("exact_values").getItem(name).isNotNull()
    is_left_out = F.array_contains("unavailable_columns", name) | F.array_contains("absent_columns", name)
    return (text == "") & ~is_inexact & ~is_left_out


def _longest(name: str, *ops: str) -> Column:
    """The most bytes that a value of a column has in changes of these kinds."""
    is_known = F.col("op").isin(*ops) & ~F.array_contains("unavailable_columns", name)
    return F.max(F.when(is_known, F.octet_length(F.col("after").getField(name).cast("string"))))


def _arrays(changes: DataFrame) -> list[str]:
    """The source's columns that the log has as arrays."""
    return [field.name for field in changes.schema["after"].dataType.fields if isinstance(field.dataType, ArrayType)]


def _holds_nulls_alone(name: str) -> Column:
    """Whether a column's arrays have no item that is a value; NULL where none that its type holds has items."""
    items = F.col("after").getField(name)
    is_whole = (F.size(items) > 0) & F.col("exact_values").getItem(name).isNull()
    return F.bool_and(F.when(is_whole, F.forall(items, lambda item: item.isNull())))


def _measures(table: CapturedTable, layers: Mapping[str, Mapping[str, Any]], asked: Asked) -> Measures:
    changes = layers.get("changes", {})
    history = layers.get("history", {})
    plain = (
        "problems", "last_batch", "streamed", "updates", "updates_without_before", "is_before_missing",
        "without_transaction", "unavailable", "inexact",
    )  # fmt: skip
    streamed = _named(changes, "streamed.")
    read = _named(changes, "read.")
    left_out, of_reads = (set().union(*changes.get(f"unavailable_in_{one}", ())) for one in ("stream", "reads"))
    longest = _named(changes, "longest.")
    never_streamed = {name for name, length in longest.items() if name in left_out and not length}
    large = {*left_out, *of_reads, *asked.large}
    inserted = {name: count for name, count in _named(changes, "inserted.").items() if count and name in large}
    if any((length or 0) > _IN_ROW for name, length in longest.items() if name in large):
        inserted = {}  # the connector streams what is large: these are NULL in the source
    read_alone = _read_alone(changes.get("absent_from_reads"), changes.get("absent_from_stream"))
    told = {*never_streamed, *inserted, *read_alone}
    states = changes.get("streamed_states") or 0
    had = _named(changes, "had.")
    logs = changes.get("logs", ())
    inexact = _named(history, "exact.") | _named(changes, "exact.")
    return Measures(
        changes=changes.get("rows"),
        current=layers.get("current", {}).get("rows"),
        history=history.get("rows"),
        opened=history.get("opened", history.get("rows")) or 0,
        found_versions=history.get("found_versions") or 0,
        unresolved_versions=history.get("unresolved_versions") or 0,
        inexact_versions=history.get("inexact_versions") or 0,
        empty_intervals=history.get("empty_intervals") or 0,
        read_alone=read_alone,
        lag=_lag(changes, "lag"),
        lag_of_last_batch=_lag(changes, "lag_of_last_batch"),
        nulls={name: count for name, count in _named(changes, "null.").items() if count is not None},
        null_in_stream=tuple(
            sorted(
                name
                for name, share in read.items()
                if name not in told and streamed[name] is False and (share or 0) * states >= _EXPECTED
            )
        ),
        empty_arrays=tuple(sorted(name for name, is_empty in _named(changes, "array.").items() if is_empty)),
        never_streamed=tuple(sorted(never_streamed)),
        inserted_as_null=inserted,
        left_as_null={name: count for name, count in _named(changes, "left.").items() if count and had[name]},
        undeclared=tuple(name for name in changes.get("columns", ()) if name not in table.row),
        exact_values={name: count for name, count in inexact.items() if count},
        new_logs=len(logs) - len({log[:-1] for log in logs}),
        last_processed_at=moment(changes.get("last_processed_at")),
        **{name: value for name in plain if (value := changes.get(name)) is not None},
    )


def _read_alone(of_reads: Sequence[Sequence[str]] | None, of_stream: Sequence[Sequence[str]] | None) -> tuple[str, ...]:
    if not of_reads or not of_stream:
        return ()  # without changes of both kinds nothing is missing from one
    never_read, never_streamed = (set.intersection(*map(set, sets)) for sets in (of_reads, of_stream))
    return tuple(sorted(never_streamed - never_read))


def _lag(numbers: Mapping[str, Any], name: str) -> Lag | None:
    found = [numbers.get(f"{name}.{part}") for part in ("p50", "p95", "max")]
    return Lag(*[int(value or 0) for value in found]) if found[0] is not None else None


def _named(numbers: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in numbers.items() if name.startswith(prefix)}
