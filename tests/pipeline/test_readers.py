"""Readers of a table see it before or after a batch, never between, whatever they read with. Owns G8."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.names import table_at
from spark_jobs.places import Places
from tests.projects import declare_history, empty_project, land, rows_of, run_models
from tests.readers import reading
from tests.source import Column, Source, Table

KEYS, BATCHES = 40, 2
# A table of whose living rows those that change are marked, as of many.
MARKED = "marked"


def versions(location: str, number: int | None = None) -> list[str]:
    """A history's rows, at one of the table's versions, or at the last."""
    return sorted(map(repr, rows_of(location, version=number)))


def test_a_reader_sees_whole_batches(spark: SparkSession, tmp_path: Path) -> None:
    places = Places.of(empty_project(tmp_path / "project"))
    source = Source("read")
    tables = [Table(name, [Column("id"), Column("state")], ("id",)) for name in ("orders", MARKED)]
    histories = [places.table("gold", f"read__public__{table.name}_history") for table in tables]
    told: list[list[list[str]]] = []

    def batch(number: int) -> None:
        """Every order gets the same new state."""
        first = len(source.records)
        for key in range(KEYS):
            row = {"id": str(key), "state": f"state {number}"}
            for table in tables:
                with source.commit():
                    if number:
                        source.update(table, table.rows[table.key_of(row)], row)
                    else:
                        source.insert(table, row)
        land(spark, places, f"batch-{number}", source.lines(source.records[first:]), {"read"})
        declare_history(places.project, f"read__public__{MARKED}", {"rewritten_rows": 1})
        run_models(places)
        told.append([versions(location) for location in histories])

    batch(0)
    history, current = histories[0], places.table("silver", "read__public__orders_current")

    def of_history() -> set[str]:
        rows = DeltaTable(history).to_pyarrow_table(columns=["state", "is_current"]).to_pylist()
        return {row["state"] for row in rows if row["is_current"]}

    def of_history_in_spark() -> set[str]:
        return {
            row[0] for row in spark.table(table_at(history)).where("is_current").select("state").distinct().collect()
        }

    def of_current() -> set[str]:
        return set(DeltaTable(current).to_pyarrow_table(columns=["state"])["state"].to_pylist())

    with reading(of_history, of_history_in_spark, of_current) as readers:
        for number in range(1, BATCHES + 1):
            batch(number)

    for reader in readers:
        seen = reader.result()
        assert [states for states in seen if len(states) != 1] == []
        assert {"state 0", f"state {BATCHES}"} <= {state for states in seen for state in states}
    # What a reader can have seen, whenever it came.
    for location, *states in zip(histories, *told, strict=True):
        shown = (versions(location, number) for number in range(DeltaTable(location).version() + 1))
        assert [state for state, _ in groupby(shown) if state] == states
