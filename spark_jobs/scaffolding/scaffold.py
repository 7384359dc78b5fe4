"""What bronze has seen, and what of its models, YAML and expectations the project lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.delta import is_table
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import SeenTable, as_declared, seen_channels, seen_events, seen_tables
from spark_jobs.scaffolding.write import (
    differences,
    files_of,
    files_of_channels,
    files_of_events,
    missing,
    not_there,
    outdated,
    suites_of,
    write,
)
from spark_jobs.texts import on_one_line


@dataclass(frozen=True)
class Scaffold:
    """What a project gets of what bronze has seen.

    Attributes:
        places: The project, and the lakehouse whose bronze it is.
        tables: The tables seen, under the names that they are declared by.
        beside: Path in the project → text, of the files of no table.
        declared: The tables that have models.
    """

    places: Places
    tables: list[SeenTable]
    beside: dict[str, str]
    declared: list[CapturedTable]

    @classmethod
    def of(cls, spark: SparkSession, places: Places) -> Scaffold:
        """Look at bronze and at the project.

        Raises:
            UsageError: Nothing was landed.
        """
        if not is_table(spark, places.table("bronze", "shapes")):
            raise bronze.nothing_landed(places)
        declared = captured_tables(places)
        by_feed = {table.feed: table for table in declared}
        tables = [
            as_declared(table, by_feed[table.feed]) if table.feed in by_feed else table
            for table in seen_tables(spark, places)
        ]
        beside = files_of_events(seen_events(spark, places)) | files_of_channels(seen_channels(spark, places))
        return cls(places, tables, beside, declared)

    @property
    def differences(self) -> str:
        """What would be written now against what is there, as a unified diff."""
        return differences(self.places.project, self.tables, self.beside, self.declared)

    def write(self) -> list[str]:
        """Write the files that are missing; what is to be said of that, in lines."""
        project, feeds = self.places.project, {table.feed for table in self.declared}
        fresh = [table for table in self.tables if table.feed not in feeds]
        files = missing(project, fresh, self.tables)
        files |= not_there(project, self.beside | suites_of(self.declared))
        write(project, files)
        lists = outdated(project, self.tables)
        write(project, lists, "w")
        seen, written = f"{len(self.tables)} tables seen, {len(fresh)} new", f"{len(files) + len(lists)} files written"
        said = [line for table in fresh for line in _said_of(table, files)]
        return [*said, f"{seen}, {written}. Read them, then `tidemark build`."]


def _said_of(table: SeenTable, files: Mapping[str, str]) -> list[str]:
    """What is to be known of a new table, of which these files were written."""
    said = [*table.notes, *(f"{one.name}: {one.type}, guessed: {one.note}" for one in table.columns if one.note)]
    if not any(path.startswith("models/") for path in files_of(table).keys() & files.keys()):
        said.insert(0, f"its models are there, and none that is enabled reads {table.feed}")
    if not table.key:
        said.append("no key, so changes only; declare a business key for a history (R18)")
    return [f"  {table.name}: {on_one_line(one)}" for one in said]
