"""Real captures, landed in batches, from records to gold, judged by what the databases recorded. Owns G2, G3 and G5."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.places import Places
from tests.judge import Disagreement, PlainVersion, disagreements, load_exceptions
from tests.projects import cut, empty_project, land, renamed, run_models

CAPTURES = Path(__file__).parents[1] / "captures"
JUDGED = {
    "c1": "postgres-2.5.4-core-default",
    "c2": "postgres-2.5.4-core-full",
    "c3": "postgres-2.5.4-bulk",
    "c4": "postgres-2.5.4-restart",
    "c5": "postgres-3.5.0-core-default",
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# Each capture is landed and built in so many batches: that the whole agrees is G1 on real events.
BATCHES = 2
# Current state is read from history, and is looked at once, at the end.
BUT_CURRENT = ("--exclude", "tag:layer:ops", "config.materialized:current")


@dataclass(frozen=True)
class Built:
    """A lakehouse with every judged capture in it, each under a prefix of its own."""

    places: Places
    tables: list[CapturedTable]


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Built:
    home = tmp_path_factory.mktemp("captures")
    places = Places.of(empty_project(home / "project"))
    records = {prefix: renamed(CAPTURES / capture, prefix) for prefix, capture in JUDGED.items()}
    for part in range(BATCHES):
        lines = "".join(cut(lines, BATCHES, part) for lines in records.values())
        land(spark, places, f"captures-{part}", lines, JUDGED)
        run_models(places, *(BUT_CURRENT if part < BATCHES - 1 else ()))
    return Built(places, captured_tables(places))


def locations(built: Built) -> list[str]:
    """Where the tables of silver and gold are."""
    models = [model for table in built.tables for model in (table.changes, table.current, table.history)]
    return [model.location for model in models if model is not None]


def contents(location: str) -> list[str]:
    """A table's rows, each as text, in the order of their text."""
    return sorted(map(repr, rows_of(location)))


def rows_of(location: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(location).to_pyarrow_table().to_pylist()
    return rows


def microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - EPOCH) // timedelta(microseconds=1)


def versions_of(table: CapturedTable) -> list[PlainVersion]:
    assert table.history is not None
    return [
        PlainVersion(
            tuple(row[column] for column in table.key),
            {column: row[column] for column in table.row},
            microseconds(row["valid_from"]) or 0,
            microseconds(row["valid_to"]),
            row["closed_by"],
        )
        for row in sorted(
            rows_of(table.history.location), key=lambda row: (row["position"], row["partition"], row["offset"])
        )
    ]


def judged(built: Built, prefix: str) -> list[Disagreement]:
    tables = {
        table.source_table.replace("__", ".", 1): table
        for table in built.tables
        if table.source_name == prefix and table.history is not None
    }
    assert tables
    return disagreements(
        CAPTURES / JUDGED[prefix],
        {name: versions_of(table) for name, table in tables.items()},
        {name: table.key for name, table in tables.items()},
    )


@pytest.mark.parametrize("prefix", JUDGED)
def test_gold_is_what_the_triggers_recorded(built: Built, prefix: str) -> None:
    capture = JUDGED[prefix]
    facts = [fact for fact in load_exceptions(CAPTURES / "exceptions.csv") if fact.capture == capture]
    found = judged(built, prefix)

    assert [one for one in found if not any(fact.covers(capture, one) for fact in facts)] == []
    assert [fact for fact in facts if not any(fact.covers(capture, one) for one in found)] == [], "no longer needed"


def test_building_again_writes_no_new_version_of_any_table(built: Built) -> None:
    before = {location: DeltaTable(location).version() for location in locations(built)}

    run_models(built.places)

    assert {location: DeltaTable(location).version() for location in locations(built)} == before


def test_a_full_refresh_equals_the_batches(built: Built) -> None:
    before = {location: contents(location) for location in locations(built)}

    run_models(built.places, "--full-refresh", *BUT_CURRENT)

    assert [location for location in before if contents(location) != before[location]] == []


def test_current_state_is_the_open_versions(built: Built) -> None:
    for table in built.tables:
        if table.current is not None and table.history is not None:
            current = rows_of(table.current.location)
            shown = current[0].keys() if current else ()
            versions = [row for row in rows_of(table.history.location) if row["is_current"]]
            assert sorted(map(repr, current)) == sorted(repr({name: row[name] for name in shown}) for row in versions)
