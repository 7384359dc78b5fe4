"""`tidemark trace`: what became of each change that a key has met, which versions it opened, and if gold has them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.as_built import require_built_as_declared
from spark_jobs.declarations import CapturedTable, Model, beginning_of, by_name, captured_tables, reading, run_dbt
from spark_jobs.delta import is_table, table_if_made
from spark_jobs.errors import Fault, UsageError
from spark_jobs.macro_queries import query
from spark_jobs.masking import Mask
from spark_jobs.names import exact_json, from_exact_json, quoted, table_at
from spark_jobs.places import Places
from spark_jobs.quarantine import PROBLEMS
from spark_jobs.query import rows_of
from spark_jobs.reporting.signs import MEANINGS, shown_key
from spark_jobs.texts import literal, on_one_line, quantity

_OPS = {"c": "create", "u": "update", "d": "delete", "r": "read", "t": "truncate"}
# What became of a change that opened no version, in words; `quarantined` says why by its problem.
_BECAME = {
    "closed_only": "closed the version before it",
    "collapsed": "was followed by another in its transaction, so that nobody else saw it (R11)",
    "held_back": "waits until all of its transaction has arrived (G7)",
    "waiting": "landed behind the last build of the history: run `tidemark build{option}`",
}


@dataclass(frozen=True, slots=True)
class Trace:
    """What some keys of a captured table have met: rows of the macro `traced`, in the order of keys and positions.

    `option` is the one of the target that it was asked of (`Places.option`).
    """

    table: CapturedTable
    rows: Sequence[Row]
    mask: Mask
    option: str

    @property
    def lines(self) -> Iterator[str]:
        """The rows as lines for people, without the values of sensitive columns."""
        for key, of_key in groupby(self.rows, key=lambda row: row["key"]):
            groups = [(change, list(rows)) for change, rows in groupby(of_key, key=lambda row: row["change_id"])]
            changes = [rows for change, rows in groups if change is not None]
            versions = sum(row["version_id"] is not None for rows in changes for row in rows)
            counts = f"{quantity(len(changes), 'change')}, {quantity(versions, 'version')}"
            yield f"{self.table.name} {self._key(key)}: {counts}"
            for rows in changes:
                yield from self._change(rows)
            for row in (row for change, rows in groups if change is None for row in rows):
                yield on_one_line(f"    gold has a {self._version(row)}, and no change opened it: {self._mend}")

    def _change(self, rows: Sequence[Row]) -> Iterator[str]:
        change = rows[0]
        transaction = f"  transaction {change['transaction_id']}" if change["transaction_id"] is not None else ""
        yield on_one_line(
            f"{change['changed_at']}  {_OPS[change['op']]}  {change['topic']}[{change['partition']}]@{change['offset']}"
            f"{transaction}"
        )
        values = [f"{one['name']}={self._value(one)}" for one in change["columns"]]
        if values:
            yield on_one_line(f"    {', '.join(values)}")
        for row in rows:
            yield on_one_line(f"    {self._became(row)}")
            if row["is_stored"] is False:
                yield f"    gold has no such version: {self._mend}"
            elif row["otherwise"]:
                yield on_one_line(f"    gold says otherwise of {', '.join(row['otherwise'])}: {self._mend}")
        for sign in sorted({sign for row in rows for sign in row["signs"]}):
            yield f"    sign: {sign}: {MEANINGS[sign]}"

    def _became(self, row: Row) -> str:
        if row["became"] == "quarantined":
            return f"is in the quarantine, and no part of the history: {row['problem']}: {PROBLEMS[row['problem']]}"
        if row["became"] == "no_op":
            if row["is_end"]:
                return "ended no version (R9, R14)"
            differs = bool(row["columns"]) and all(self._is_ignored(one["name"]) for one in row["columns"])
            newest = "differs in ignored columns alone, whose newest value the version has (R12)"
            return newest if differs else "equals the version before it (R12)"
        if row["version_id"] is None:
            return _BECAME[row["became"]].format(option=self.option)
        return self._version(row)

    @property
    def _mend(self) -> str:
        return f"`tidemark rebuild{self.option} {self.table.name}` makes it anew"

    def _version(self, row: Row) -> str:
        what = "found a state that no event had told (R19)" if row["opened_by"] == "before" else row["opened_by"]
        until = "is current" if row["valid_to"] is None else f"until {row['valid_to']}, closed by {row['closed_by']}"
        came = f" from {self._key(row['previous_key'])}" if row["previous_key"] else ""
        went = f" into {self._key(row['next_key'])}" if row["next_key"] else ""
        lacks = f"; unresolved: {', '.join(row['unresolved_columns'])} (R7)" if row["unresolved_columns"] else ""
        return f"version from {row['valid_from']} ({what}{came}), {until}{went}{lacks}"

    def _is_ignored(self, column: str) -> bool:
        track, ignore = (self.table.history_options.get(name) for name in ("track", "ignore"))
        return (track is not None and column not in track) or column in (ignore or ())

    def _key(self, key: str) -> str:
        return on_one_line(shown_key(self.table, key, self.mask))

    def _value(self, column: Row) -> str:
        if column["value"] is None:
            return "NULL"
        is_declared = column["name"] in self.table.row
        is_hidden = not is_declared or column["name"] in self.table.sensitive
        return self.mask.text(column["value"]) if is_hidden else str(column["value"])


def traced(spark: SparkSession, places: Places, name: str, pairs: Sequence[str]) -> Trace:
    """What became of each change of the keys that have these values.

    Args:
        spark: A session; it needs no catalog.
        places: Where the project's tables are.
        name: A captured table, or a model of it.
        pairs: `COLUMN=VALUE` for columns of its key, values as Spark casts them from text, bytes in base64 as
            keys are shown; of all keys without any.

    Raises:
        UsageError: There is no such table, history, column, value or key, or the table is to be built first.
        Fault: dbt can't write the query.
    """
    table = _table(captured_tables(places), name)
    if table.history is None:
        raise UsageError(f"trace {name}: it has no history, so that no change became a version (R18).")
    require_built_as_declared(spark, places, [table])
    unbuilt = UsageError(f"trace {name}: it is not built to its end yet: run `tidemark build{places.option}`.")
    log = table_if_made(spark, table.changes.location)
    if log is None or not all(is_table(spark, at) for at in (table.history.location, places.table("ops", "progress"))):
        raise unbuilt
    has_values = _has_values(spark, log, table, pairs)
    keys = _keys(log).union(_keys_of_versions(spark, table.history, log))
    asked = keys.where(has_values).select(F.col("text").alias("key")).distinct().localCheckpoint()
    unknown = UsageError(
        f"trace {name} {' '.join(pairs)}: no change of this table has such a key. Some that are there:"
        f' tidemark sql "select key from {name}_changes limit 5".'
    )
    if asked.isEmpty():
        raise unknown
    asked.createOrReplaceTempView("tidemark_asked_keys")
    _with_linked(asked, log).createOrReplaceTempView("tidemark_traced_keys")
    statement = _statement(places, table.history, table.changes, "tidemark_traced_keys")
    if not statement:
        raise unbuilt
    rows = rows_of(
        spark,
        f"select * from ({statement}) where key in (select key from tidemark_asked_keys)"
        " order by key, place nulls last, valid_from",
    )
    if not rows:
        raise unknown
    return Trace(table, rows, Mask.of(spark, places), places.option)


def _table(tables: Sequence[CapturedTable], name: str) -> CapturedTable:
    known = by_name(tables)
    if name not in known:
        near = get_close_matches(name, known, n=1, cutoff=0)
        raise UsageError(f"trace {name}: there is no such table." + (f" Did you mean {near[0]}?" if near else ""))
    return known[name]


def _keys(log: DataFrame) -> DataFrame:
    """The keys that changes tell of, and their JSON texts: their own, and those that rows left by one `u` (R14)."""
    own = log.where("key is not null").select("key", exact_json(F.col("key")).alias("text"))
    left = log.where("op = 'u' and previous_key is not null and (problem is null or problem = 'key_not_told')")
    key = from_exact_json(F.col("previous_key"), log.schema["key"].dataType)
    return own.union(left.select(key.alias("key"), F.col("previous_key").alias("text")))


def _keys_of_versions(spark: SparkSession, history: Model, log: DataFrame) -> DataFrame:
    """The same of the keys that the history has: someone may have written it of which no change tells."""
    kind = log.schema["key"].dataType
    key = F.struct(*[F.col(quoted(name)).alias(name) for name in kind.fieldNames()]).cast(kind)
    versions = spark.table(table_at(history.location)).select(key.alias("key"))
    return versions.select("key", exact_json(F.col("key")).alias("text"))


def _has_values(spark: SparkSession, log: DataFrame, table: CapturedTable, pairs: Sequence[str]) -> Column:
    """Condition: whether a change's key has these values."""
    types = {field.name: field.dataType.simpleString() for field in log.schema["key"].dataType.fields}
    condition = F.lit(True)
    for pair in pairs:
        column = max((one for one in table.key if pair.startswith(f"{one}=")), key=len, default=None)
        if column is None:
            raise UsageError(f"trace {pair}: it takes COLUMN=VALUE, of the key's columns: {', '.join(table.key)}.")
        text = F.lit(pair.removeprefix(f"{column}="))
        kind = types[column]
        value = F.try_to_binary(text, F.lit("base64")) if kind == "binary" else text.try_cast(kind)
        if spark.range(1).where(value.isNull()).count():
            raise UsageError(f"trace {pair}: the key's column {column} is {kind}, and the value can't be read as one.")
        condition = condition & F.col(f"key.{quoted(column)}").eqNullSafe(value)
    return condition


def _with_linked(keys: DataFrame, log: DataFrame) -> DataFrame:
    """Keys as JSON texts, and all that changes of key link with them: what is left out comes from there (R7).

    As the macro `touched_with_linked` does for a build: each round but the first walks along links that were shortened.
    Each round's plan is cut, since those of all before it would stand in it.
    """
    moves = log.where("previous_key is not null").select(exact_json(F.col("key")).alias("key"), "previous_key")
    greater, lesser = F.greatest("key", "previous_key").alias("one"), F.least("key", "previous_key").alias("other")
    links = moves.where("key <> previous_key").select(greater, lesser).distinct().localCheckpoint()
    ask = keys.sparkSession.sql
    while True:
        beside = ask(query("linked_with", "{keys}", "{links}"), keys=keys, links=links).distinct().localCheckpoint()
        if beside.isEmpty():
            return keys
        keys = keys.union(beside).localCheckpoint()
        links = ask(query("shortened", "{links}"), links=links).localCheckpoint()


def _statement(places: Places, history: Model, log: Model, keys: str) -> str:
    """The query of the macro `traced`, as dbt writes it; empty where no build came to its end."""
    given = ", ".join(map(literal, (history.name, table_at(history.location), table_at(log.location), keys)))
    quietly = ["--quiet", "--no-populate-cache", "--no-write-json"]  # what dbt said of the last build stays
    with redirect_stdout(io.StringIO()) as said, reading(places) as options:
        result = run_dbt(places, [*quietly, "compile", *options, "--inline", f"{{{{ traced({given}) }}}}"])
    if not result.success:
        raise Fault(
            f"trace {history.name}: dbt can't write the query: {beginning_of(result.exception or said.getvalue())}"
        )
    return str(result.result.results[0].node.compiled_code).strip()
