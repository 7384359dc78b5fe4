"""Captures landed as badly as can be, twice and in any order, and judged by what their databases recorded."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.landing.land import Landing, land_files
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import SeenTable, seen_tables
from spark_jobs.scaffolding.write import files_of, write
from tests.judge import Disagreement, PlainVersion, disagreements
from tests.projects import (
    declare_more,
    empty_project,
    forget_tables,
    microseconds,
    renamed,
    rows_of,
    run_models,
    without_tests,
)

CAPTURES = Path(__file__).parent / "captures"

# What records can't tell and people declare: the key that one column joined later, and how bare JSON encodes a decimal.
KEYS = {"products": ("id",)}
ENCODED = ("balance", "decimal(12,2)", "org.apache.kafka.connect.data.Decimal:2")
IN_BASE64 = ("random", "plain")
# Current state is read from history: it is built where it is looked at.
HISTORIES = ("config.materialized:changes", "config.materialized:history")


@dataclass(frozen=True)
class Lakehouse:
    """Captures in a lakehouse, each under a topic prefix of its own.

    `captures` is prefix → capture, `folder` where they are, `names` a captured table's name → its name in the source.
    """

    spark: SparkSession
    places: Places
    captures: Mapping[str, str]
    folder: Path
    names: dict[str, str] = field(default_factory=dict)

    def land(self, name: str, lines: Sequence[str]) -> None:
        """Land lines of records as one batch."""
        file = self.places.project.parent / f"{name}.jsonl"
        file.write_text("".join(lines))
        land_files(self.spark, self.places, [str(file)], Landing(name, datetime.now(UTC)))

    @cached_property
    def tables(self) -> list[CapturedTable]:
        """The captured tables that have models."""
        return captured_tables(self.places)


def ordered(
    spark: SparkSession,
    home: Path,
    captures: Mapping[str, str],
    folder: Path,
    is_wanted: Callable[[SeenTable], bool],
    *,
    tested: bool,
) -> Lakehouse:
    """A lakehouse with the captures as they were written, and the models that were made of it; none is built.

    With `tested` they have data tests and suites.
    """
    forget_tables(spark)
    project = empty_project(home / "project")
    lakehouse = Lakehouse(spark, replace(Places.of(project), lakehouse=str(home / "ordered")), captures, folder)
    lines = [line for prefix, capture in captures.items() for line in renamed(folder / capture, prefix)]
    lakehouse.land("ordered", lines)
    for table in seen_tables(spark, lakehouse.places):
        if table.source in captures and is_wanted(table):
            files = declared(table, captures[table.source])
            write(project, files if tested else without_tests(files))
            lakehouse.names[table.name] = table.full_name
    return lakehouse


def declared(table: SeenTable, capture: str) -> dict[str, str]:
    """Path → text, of the models of a table, with what people have to declare."""
    types = dict([ENCODED[:2]]) if any(part in capture for part in IN_BASE64) else {}
    columns = tuple(replace(column, type=types.get(column.name, column.type)) for column in table.columns)
    files = files_of(replace(table, key=KEYS.get(name_of(table), table.key), columns=columns))
    plain, encoded = "'{}': '{}'".format(*ENCODED), "'{}': {{'type': '{}', 'encoding': '{}'}}".format(*ENCODED)
    return {path: text.replace(plain, encoded) for path, text in files.items()}


def name_of(table: SeenTable | CapturedTable) -> str:
    """A table's name in its source, without its schema."""
    return table.source_table.rpartition("__")[2]


def scattered(lines: Sequence[str], batches: int, seed: str) -> list[list[str]]:
    """Records twice, in any order, cut into batches anywhere."""
    draw = random.Random(seed)
    twice = [*lines, *lines]
    draw.shuffle(twice)
    cuts = [0, *sorted(draw.sample(range(1, len(twice)), batches - 1)), len(twice)]
    return [twice[start:end] for start, end in pairwise(cuts)]


def scatter(lakehouse: Lakehouse, batches: int, seed: int, early: Sequence[str], late: Sequence[str]) -> Lakehouse:
    """Another lakehouse with the same records and models, landed in scattered batches.

    The models named `early` are built after each batch, the others of logs and histories, and those named `late`, after
    the last. Logs and histories are built as those of many records are.
    """
    forget_tables(lakehouse.spark)
    home = lakehouse.places.project.parent
    other = replace(lakehouse, places=replace(lakehouse.places, lakehouse=str(home / "scattered")))
    parts = [
        scattered(renamed(lakehouse.folder / capture, prefix), batches, f"{seed} {capture}")
        for prefix, capture in lakehouse.captures.items()
    ]
    for changes in other.places.project.glob("models/silver/changes/*.sql"):
        declare_more(changes, {"sorted_records": 1})
    for history in other.places.project.glob("models/gold/history/*.sql"):
        declare_more(history, {"sorted_changes": 1})
    for number, batch in enumerate(zip(*parts, strict=True)):
        other.land(f"scattered-{number}", [line for part in batch for line in part])
        selected = early if number < batches - 1 else (*HISTORIES, *late)
        run_models(other.places, "--select", *selected, accounting=True)
    return other


def digest(location: str) -> str:
    """One value for a table's rows, whatever their order."""
    return hashlib.sha256("\n".join(sorted(map(repr, rows_of(location)))).encode()).hexdigest()


def versions_of(table: CapturedTable) -> list[PlainVersion]:
    """A gold table's versions, in the order of their positions."""
    assert table.history is not None
    return [
        PlainVersion(
            tuple(row[column] for column in table.key),
            {column: row[column] for column in table.row} | dict(row["exact_values"]),
            microseconds(row["valid_from"]) or 0,
            microseconds(row["valid_to"]),
            row["closed_by"],
        )
        for row in sorted(
            rows_of(table.history.location),
            key=lambda row: (row["position"], row["partition"], row["offset"], row["opened_by"] != "before"),
        )
    ]


def histories(lakehouse: Lakehouse, prefix: str) -> dict[str, CapturedTable]:
    """The tables of a capture that have a history, by their names in the source."""
    return {
        lakehouse.names[table.name]: table
        for table in lakehouse.tables
        if table.source_name == prefix and table.history is not None
    }


def judged(
    lakehouse: Lakehouse, prefix: str, judge: Callable[..., list[Disagreement]] = disagreements
) -> list[Disagreement]:
    """What a capture's database doesn't confirm of its tables."""
    tables = histories(lakehouse, prefix)
    assert tables
    return judge(
        lakehouse.folder / lakehouse.captures[prefix],
        {name: versions_of(table) for name, table in tables.items()},
        {name: table.key for name, table in tables.items()},
    )
