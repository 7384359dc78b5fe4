"""Real captures, landed twice and in any order, judged by what their databases recorded. Owns G2, G3 and G5.

`make captures` judges every table of every capture in the folder `CAPTURES`; the usual run takes a sample, and where
its time is limited one more, another each day.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable, Declared
from spark_jobs.reporting.check import check
from spark_jobs.reporting.evidence import RunSummary
from spark_jobs.scaffolding.tables import SeenTable
from tests.captured import CAPTURES, Lakehouse, digest, histories, judged, name_of, ordered, scatter
from tests.gold import untold
from tests.judge import KnownFact, keyed_tables, load_exceptions
from tests.projects import forget_tables, renamed, rows_of, run_models
from tests.time_limit import day_of_limit

EVERY = os.environ.get("CAPTURES")
FOLDER = Path(EVERY or CAPTURES).resolve()
SAMPLE = (
    "mariadb-2.5.4-core-plain",  # Observed 5
    "mariadb-2.5.4-random-4",  # Observed 3, 6, 9, 28
    "mariadb-2.5.4-schema",  # Observed 16
    "postgres-2.5.4-identity",  # Observed 10, 11, 13, 19
    "postgres-2.5.4-incremental",  # Observed 7
    "postgres-2.5.4-random-1",  # Observed 2, 27
    "postgres-2.5.4-restart",  # Observed 6
    "postgres-3.5.0-core-default",  # Observed 4, 8, 12, 14, 15, 26
)
JUDGED = [
    folder.name
    for folder in sorted(FOLDER.iterdir())
    if (folder / "truth.jsonl.gz").exists() and "-types-" not in folder.name
]


def taken(day: int | None) -> list[str]:
    """The captures of a run: all, or a sample, with one of the others where a day says which."""
    if EVERY:
        return JUDGED
    others = [name for name in JUDGED if name not in SAMPLE]
    return [*SAMPLE] if day is None else [*SAMPLE, others[day % len(others)]]


CASES = {f"c{JUDGED.index(name)}": name for name in taken(day_of_limit())}
PREFIXES = {capture: prefix for prefix, capture in CASES.items()}
FACTS = [fact for fact in load_exceptions(CAPTURES / "exceptions.csv") if fact.capture in PREFIXES]
SHOWN = 10
BATCHES = 2
SEED = 4
# Of a sample, the tables that are built in order too, after each batch, anew, and as current state. Each model costs
# seconds; the connector's own tables are left out.
COMPARED = ("accounts", "doc", "products")
OWN = ("sync_marker", "debezium_signal")


def is_wanted(table: SeenTable) -> bool:
    return bool(EVERY) or name_of(table) == "line" or (bool(table.key) and name_of(table) not in OWN)


@dataclass(frozen=True)
class Built:
    """The captures, scattered, and digests of gold as it was when their records came in order."""

    lakehouse: Lakehouse
    in_order: dict[str, str]

    @property
    def compared(self) -> list[CapturedTable]:
        """The tables of which more is asked than what the database says."""
        return compared(self.lakehouse)

    def table(self, capture: str, name: str) -> CapturedTable:
        """A table by its name in the source."""
        require(capture)
        [found] = [
            table
            for table in self.lakehouse.tables
            if table.source_name == PREFIXES[capture] and self.lakehouse.names[table.name] == name
        ]
        return found


def require(capture: str) -> None:
    """Leave the test out that asks for a capture which a folder of one's own has not."""
    if EVERY and capture not in PREFIXES:
        pytest.skip(f"{EVERY} has no {capture}")


def compared(lakehouse: Lakehouse) -> list[CapturedTable]:
    tables = [table for table in lakehouse.tables if table.history is not None]
    return [table for table in tables if EVERY or name_of(table) in COMPARED]


def reported(lakehouse: Lakehouse) -> list[CapturedTable]:
    """The tables of which something is known to be lost, and those whose keys change their shape."""
    lost = {(PREFIXES[fact.capture], fact.table) for fact in FACTS}
    return [
        table
        for table in lakehouse.tables
        if (table.source_name, lakehouse.names[table.name]) in lost or name_of(table) == "products"
    ]


def models_of(tables: list[CapturedTable], *layers: str) -> list[str]:
    return [f"{table.name}_{layer}" for table in tables for layer in layers]


def digests(lakehouse: Lakehouse) -> dict[str, str]:
    return {table.name: digest(table.history.location) for table in compared(lakehouse) if table.history is not None}


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    whole = ordered(spark, tmp_path_factory.mktemp("captures"), CASES, FOLDER, is_wanted, tested=bool(EVERY))
    models = models_of(compared(whole), "changes", "history")
    run_models(whole.places, "--select", *models)
    in_order = digests(whole)
    late = [*models_of(compared(whole), "current"), *models_of(reported(whole), "accounting")]
    yield Built(scatter(whole, BATCHES, SEED, models, late), in_order)
    forget_tables(spark)


def test_each_capture_has_its_day() -> None:
    assert {name for day in range(len(JUDGED)) for name in taken(day)} == {*JUDGED}


@pytest.mark.parametrize("capture", PREFIXES)
def test_gold_is_what_the_triggers_recorded(built: Built, capture: str) -> None:
    found = judged(built.lakehouse, PREFIXES[capture])
    wanted = {name for name in keyed_tables(FOLDER / capture) if EVERY or name.rpartition(".")[2] not in OWN}

    assert histories(built.lakehouse, PREFIXES[capture]).keys() == wanted
    assert [one for one in found if not any(fact.covers(capture, one) for fact in FACTS)] == []
    facts = [fact for fact in FACTS if fact.capture == capture]
    assert [fact for fact in facts if not any(fact.covers(capture, one) for one in found)] == [], "no longer needed"


def test_gold_is_equal_however_the_records_came(built: Built) -> None:
    assert built.in_order
    assert digests(built.lakehouse) == built.in_order


def test_building_again_writes_no_new_version_of_any_table(built: Built) -> None:
    models = models_of(built.compared, "changes", "current", "history")
    layers = [(table.changes, table.current, table.history) for table in built.compared]
    locations = [model.location for table in layers for model in table if model is not None]
    locations += [built.lakehouse.places.table("bronze", name) for name in bronze.TABLES]
    before = {location: DeltaTable(location).version() for location in locations}

    built.lakehouse.land("again", [line for prefix, one in CASES.items() for line in renamed(FOLDER / one, prefix)])
    run_models(built.lakehouse.places, "--select", *models)

    assert {location: DeltaTable(location).version() for location in locations} == before


def test_current_state_is_the_open_versions(built: Built) -> None:
    for table in built.compared:
        assert table.current is not None
        assert table.history is not None
        current = rows_of(table.current.location)
        shown = current[0].keys() if current else ()
        versions = [row for row in rows_of(table.history.location) if row["is_current"]]
        assert sorted(map(repr, current)) == sorted(repr({name: row[name] for name in shown}) for row in versions)


def test_a_full_refresh_equals_the_batches(built: Built) -> None:
    models = models_of(built.compared, "changes", "history")

    run_models(built.lakehouse.places, "--full-refresh", "--select", *models)

    assert digests(built.lakehouse) == built.in_order


def test_versions_say_what_their_changes_say(spark: SparkSession, built: Built) -> None:
    assert untold(spark, built.lakehouse.places, built.lakehouse.tables) == []


# Observed 27
@pytest.mark.parametrize(
    ("capture", "table", "recorded"),
    [("postgres-2.5.4-random-1", "public.line", 780), ("mariadb-2.5.4-random-4", "shop.line", 578)],
)
def test_equal_rows_of_one_statement_are_different_changes(
    built: Built, capture: str, table: str, recorded: int
) -> None:
    changes = rows_of(built.table(capture, table).changes.location)

    assert len([change for change in changes if not change["is_read"]]) == recorded


# What events don't carry, the report tells


@dataclass(frozen=True)
class Report:
    """A report, by table."""

    content: dict[str, Any]

    def sign(self, table: CapturedTable, *names: str) -> list[dict[str, Any]]:
        """Those of the signs that the table met."""
        return [one for one in self.content["signs"] if one["table"] == table.name and one["sign"] in names]

    def setting(self, table: CapturedTable, name: str) -> str:
        """What the records show of a setting; nothing where it does no harm."""
        found = [one for one in self.content["settings"] if (one["where"], one["setting"]) == (table.name, name)]
        return found[0]["shows"] if found else ""

    def account(self, name: str) -> dict[str, int]:
        """What became of the records of a topic, or of a table without models; names of those end in a hash."""
        [found] = [one for one in self.content["accounting"] if re.fullmatch(f"{name}(_[0-9a-f]{{8}})?", one["name"])]
        return {disposition: count for disposition, count in found["dispositions"].items() if count}


@pytest.fixture(scope="module")
def report(built: Built, spark: SparkSession) -> Report:
    """The report of those tables."""
    places = built.lakehouse.places
    run = RunSummary("captures", "tidemark check", datetime.now(UTC))
    check(spark, places, Declared(reported(built.lakehouse), []), run)
    return Report(json.loads((Path(places.lakehouse) / "reports" / "latest" / "report.json").read_text()))


def shows(report: Report, table: CapturedTable, fact: KnownFact, *signs: str) -> bool:
    """Whether the report has one of the signs for the key; of many keys it shows ten, and counts them all."""
    found = report.sign(table, *signs)
    shown = [list(json.loads(key).values()) for one in found for key in one["sample_keys"]]
    alike = [one for one in FACTS if (one.capture, one.table) == (fact.capture, fact.table)]
    return json.loads(fact.key) in shown or (len(alike) > SHOWN and sum(one["count"] for one in found) == len(alike))


def is_mentioned(report: Report, table: CapturedTable, fact: KnownFact) -> bool:
    """Whether the report tells what events of a table don't carry, as the contract's last table asks."""
    match fact.what.partition(":")[0]:
        case "NULL shown as the column's default":
            named = report.setting(table, "replace.null.with.default")
            return bool(named) and all(f'"{column}"' in named for column in fact.columns - {"*"})
        case "the snapshot shows what committed after its position":
            return shows(report, table, fact, "broken_chains")
        case "the row really holds the placeholder's text":
            return bool(report.setting(table, "unavailable.value.placeholder"))
        case "REPLICA IDENTITY INDEX" if "*" in fact.columns:
            return bool(report.sign(table, "unknown_deletes"))  # their keys are lost: they come as {"id":0}
        case "REPLICA IDENTITY INDEX":
            return shows(report, table, fact, "unresolved_columns")
        case "no snapshot before the first event":
            return shows(report, table, fact, "unknown_updates", "unknown_deletes")
    return False


# Observed 11, 12, 13, 28
def test_the_report_mentions_what_events_do_not_carry(built: Built, report: Report) -> None:
    assert [fact for fact in FACTS if not is_mentioned(report, built.table(fact.capture, fact.table), fact)] == []


# Observed 16
def test_the_report_mentions_rows_under_keys_of_an_old_shape(built: Built, report: Report) -> None:
    [left_open] = report.sign(built.table("mariadb-2.5.4-schema", "shop.products"), "old_key_shapes")

    assert left_open["sample_keys"] == ['{"id": 1}', '{"id": 2}', '{"id": 7}']
    assert any("of an old shape" in warning for warning in report.content["warnings"])


# Observed 8, 14
def test_what_is_no_row_change_is_counted(report: Report) -> None:
    require("postgres-3.5.0-core-default")
    core = PREFIXES["postgres-3.5.0-core-default"]

    assert report.account(f"{core}.message") == {"no_model": 5}, "its messages have a table in another test"
    assert report.account(f"{core}__.*__notes")["tombstones"] == 1
