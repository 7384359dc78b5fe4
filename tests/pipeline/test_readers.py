"""Readers of a table see it before or after a batch, never between, whatever they read with. Owns G8."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.declarations import captured_tables
from spark_jobs.names import table_at
from spark_jobs.places import Places
from tests.projects import empty_project, land, run_models
from tests.readers import reading
from tests.source import Column, Source, Table

KEYS, BATCHES = 40, 2


def test_a_reader_sees_whole_batches(spark: SparkSession, tmp_path: Path) -> None:
    places = Places.of(empty_project(tmp_path / "project"))
    source, table = Source("read"), Table("orders", [Column("id"), Column("state")], ("id",))

    def batch(number: int) -> None:
        """Every order gets the same new state."""
        first = len(source.records)
        for key in range(KEYS):
            row = {"id": str(key), "state": f"state {number}"}
            with source.commit():
                if number:
                    source.update(table, table.rows[table.key_of(row)], row)
                else:
                    source.insert(table, row)
        land(spark, places, f"batch-{number}", source.lines(source.records[first:]), {"read"})
        run_models(places)

    batch(0)
    [captured] = captured_tables(places)
    assert captured.current is not None
    assert captured.history is not None
    current, history = captured.current.location, captured.history.location

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
