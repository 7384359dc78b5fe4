"""Upkeep joins files and removes old ones, and neither readers nor builds notice but by their speed (G3)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.cli import main
from spark_jobs.damage import delta_tables
from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.errors import Fault
from spark_jobs.names import table_at
from spark_jobs.places import Places
from tests import oracle
from tests.generated.lakehouse import current_is_open, told_by_gold, told_by_oracle
from tests.generated.machine import as_record
from tests.projects import (
    accounts_of,
    decided_by,
    declare_history,
    empty_project,
    forget_tables,
    land,
    rows_of,
    run_models,
)
from tests.source import Column, Source, Table

PREFIX = "upk"
NAME = f"{PREFIX}__public__orders"
KEYS, BATCHES = 12, 3
DAY = 86400


@dataclass
class Lake:
    """A lakehouse of many small landings, each built: orders whose state changes, marked as gone in place."""

    spark: SparkSession
    home: Path
    source: Source = field(default_factory=lambda: Source(PREFIX, has_schemas=False))
    table: Table = field(default_factory=lambda: Table("orders", [Column("id"), Column("state")], ("id",)))
    batches: int = 0

    def __post_init__(self) -> None:
        """Make its project."""
        self.places = Places.of(empty_project(self.home / "project"))

    @cached_property
    def captured(self) -> CapturedTable:
        """Its one table."""
        [one] = captured_tables(self.places)
        return one

    def batch(self, changes: dict[str, str]) -> None:
        """Land the new states of orders, and build."""
        first = len(self.source.records)
        for key, state in changes.items():
            row = {"id": key, "state": state}
            with self.source.commit():
                if (known := self.table.rows.get(self.table.key_of(row))) is None:
                    self.source.insert(self.table, row)
                else:
                    self.source.update(self.table, known, row)
        land(self.spark, self.places, f"batch-{self.batches}", self.source.lines(self.source.records[first:]), {PREFIX})
        if not self.batches:
            # So few are merged in place: what a large table does.
            declare_history(self.places.project, NAME, {"rewritten_rows": 1})
        self.batches += 1
        run_models(self.places, accounting=True)

    def upkeep(self, *options: str) -> int:
        """The command; its exit status."""
        return main(["upkeep", *options, "--project-dir", str(self.places.project)])

    def versions(self) -> dict[str, int]:
        """The versions of its tables."""
        return {
            f"{layer}.{name}": DeltaTable(self.places.table(layer, name)).version()
            for layer, name in delta_tables(self.places)
        }

    def is_right(self) -> bool:
        """Whether the history is the oracle's, and everything else agrees with it."""
        history = oracle.build(
            map(as_record, self.source.records), {"public.orders": oracle.TableOptions(key=("id",))}
        )["public.orders"]
        account = {name: count for kind, name, count in accounts_of([self.captured])[NAME] if kind != "sign"}
        return (
            told_by_gold(self.captured) == told_by_oracle(history)
            and current_is_open(self.captured)
            and sum(account.values()) == len(self.source.records)
        )


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    home = tmp_path_factory.mktemp("upkeep")
    forget_tables(spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMARK_LAKEHOUSE", str(home / "lakehouse"))
        one = Lake(spark, home)
        for number in range(BATCHES):
            # One part is changed each time, the rest once.
            one.batch({str(key): f"{number}" for key in range(KEYS) if not number or key % BATCHES in (0, number)})
        yield one
    forget_tables(spark)


def files_of(location: str) -> int:
    """How many files the rows of a table are in."""
    return len(DeltaTable(location).file_uris())


def marked(spark: SparkSession, location: str) -> int:
    """How many files of a table have rows that are marked as gone."""
    log = "".join(path.read_text() for path in sorted(Path(location, "_delta_log").glob("*.json")))
    marks = [one for one in map(json.loads, log.splitlines()) if (one.get("add") or {}).get("deletionVector")]
    added = {one["add"]["path"] for one in marks}
    live = {Path(path).name for path in spark.table(table_at(location)).inputFiles()}
    return len({Path(path).name for path in added} & live)


def aged(path: Path, days: float) -> Path:
    """A file that was written so many days ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (time.time() - days * DAY,) * 2)
    return path


def test_files_are_joined_and_old_ones_removed(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert lake.captured.history is not None
    assert lake.captured.current is not None
    history, current = lake.captured.history.location, lake.captured.current.location
    records = Path(lake.places.table("bronze", "records"))
    home = Path(lake.places.lakehouse)
    assert files_of(str(records)) >= BATCHES
    assert marked(lake.spark, history)
    before = {name: sorted(map(repr, rows_of(name))) for name in (str(records), history, current)}
    versions = lake.versions()
    # What killed runs leave: a file that no commit names, rows that a fold held. And what checks leave.
    old = [
        aged(next(records.glob("feed=*")) / "part-00000-old.parquet", 8),
        aged(home / "ops/_staged/staged_gone/part-0.parquet", 8),
        aged(home / "reports/20260101T000000-abcdef/report.html", 91),
        aged(home / "logs/20260101T000000-abcdef.log", 91),
    ]
    young = [
        aged(next(records.glob("feed=*")) / "part-00000-young.parquet", 6),
        aged(home / "reports/20260201T000000-abcdef/report.html", 89),
        aged(home / "reports/latest/report.html", 91),
    ]

    assert lake.upkeep("--keep", "2h") == 2
    assert "--force" in capsys.readouterr().err
    assert lake.versions() == versions
    assert lake.upkeep("--few", "2") == 0

    said = capsys.readouterr().out
    assert f"gold.{NAME}_history: " in said
    assert "bronze.records: " in said
    assert [path for path in old if path.exists()] == []
    assert [path for path in young if not path.exists()] == []
    assert files_of(str(records)) == 1
    assert files_of(history) == 2, "the open versions and the closed ones"
    assert not marked(lake.spark, history)
    assert {name: sorted(map(repr, rows_of(name))) for name in before} == before
    was = lake.spark.read.format("delta").option("versionAsOf", versions[f"gold.{NAME}_history"]).load(history)
    assert was.count() == len(before[history]), "who began to read before goes on"

    versions = lake.versions()
    assert lake.upkeep("--few", "2") == 0
    assert "nothing to join or to remove" in capsys.readouterr().out
    assert lake.versions() == versions


def test_builds_go_on_behind_it(lake: Lake) -> None:
    versions = lake.versions()
    run_models(lake.places, accounting=True)
    assert lake.versions() == versions, "nothing is new"

    lake.batch({"1": lake.table.rows[lake.table.key_of({"id": "1"})]["state"]})
    decided = decided_by(lake.places, f"{NAME}_history")
    assert decided["case"] == "keys"
    assert decided["carried"]["refolded"] == 0, "the history goes on from its open versions"
    assert not decided["account"]["is_whole"]
    moved = {name for name, version in lake.versions().items() if version != versions[name]}
    assert f"gold.{NAME}_history" not in moved, "a change that says nothing new"
    assert f"silver.{NAME}_current" not in moved, "the history is what it was made of"
    assert lake.is_right()

    assert lake.upkeep("--few", "2") == 0
    lake.batch({"1": "changed behind it", "new": "behind it"})
    assert decided_by(lake.places, f"{NAME}_history")["carried"]["refolded"] == 0
    assert lake.is_right()


def test_what_is_kept_for_longer_than_delta_remembers_it_stays_and_costs_no_build(lake: Lake) -> None:
    names = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")

    def told(location: str) -> list[str]:
        rows = lake.spark.sql(f"show tblproperties {table_at(location)}").collect()
        return [row["value"] for name in names for row in rows if row["key"] == name]

    assert lake.captured.history is not None
    history, progress = lake.captured.history.location, lake.places.table("ops", "progress")
    lake.spark.sql(f"alter table {table_at(progress)} set tblproperties ('{names[1]}' = 'interval 10 days')")
    assert lake.upkeep("--keep", "40d") == 0
    versions = lake.versions()
    for keep in ("20d", "40d"):
        assert lake.upkeep("--keep", keep) == 0
        assert told(history) == ["interval 960 hours"] * 2
        assert told(progress) == ["interval 240 hours", "interval 10 days"]
    assert lake.versions() == versions

    lake.batch({"1": "kept for long"})
    assert decided_by(lake.places, f"{NAME}_history")["carried"]["refolded"] == 0, "it goes on from open versions"


def test_what_another_writer_did_is_no_upkeep(lake: Lake) -> None:
    assert lake.captured.history is not None
    history = lake.captured.history.location
    lake.spark.sql(f"update {table_at(history)} set state = 'by hand' where id = '2'")
    lake.spark.sql(f"optimize {table_at(history)}")
    lake.batch({"2": "changed since"})
    assert decided_by(lake.places, f"{NAME}_history")["carried"] is None, "keys with news are folded whole"
    assert lake.is_right()


def test_a_table_that_can_not_be_joined_keeps_nothing_else_from_it(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    records, changes = (Path(lake.places.table(*one)) for one in (("bronze", "records"), ("silver", f"{NAME}_changes")))
    old = [
        aged(next(records.glob("feed=*")) / "part-00000-old.parquet", 8),
        aged(Path(lake.places.lakehouse) / "ops/_staged/staged_gone/part-0.parquet", 8),
    ]
    lost = Path(lake.spark.table(table_at(str(records))).inputFiles()[0].removeprefix("file:"))
    lost.rename(lake.home / "lost")
    assert files_of(str(changes)) > 1

    status = lake.upkeep("--few", "2")
    (lake.home / "lost").rename(lost)

    assert status == Fault.status
    assert "bronze.records is damaged: 1 of its files is missing" in capsys.readouterr().err
    assert [path for path in old if path.exists()] == []
    assert files_of(str(changes)) == 1


def test_without_a_time_to_keep_only_what_is_now_stays(lake: Lake) -> None:
    assert lake.captured.history is not None
    history = lake.captured.history.location
    before = sorted(map(repr, rows_of(history)))
    assert lake.upkeep("--keep", "0h", "--force") == 0
    assert sorted(map(repr, rows_of(history))) == before
    assert len(list(Path(history).rglob("part-*.parquet"))) == files_of(history)
    assert not list(Path(history).rglob("deletion_vector*.bin")) or marked(lake.spark, history)
    with pytest.raises((PySparkException, Py4JError), match="FILE_NOT_EXIST"):
        lake.spark.read.format("delta").option("versionAsOf", 1).load(history).collect()
