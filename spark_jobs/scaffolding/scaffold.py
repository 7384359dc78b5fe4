"""What bronze has seen, and what of its models, YAML and expectations the project lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable, declared_tables
from spark_jobs.delta import is_table
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import (
    SeenTable,
    as_declared,
    seen_channels,
    seen_events,
    seen_tables,
    typed_as_declared,
)
from spark_jobs.scaffolding.write import (
    differences,
    files_of,
    files_of_channels,
    files_of_events,
    files_of_history,
    files_of_sources,
    model_files,
    not_there,
    outdated,
    placed,
    suites_of,
    with_key,
    write,
)
from spark_jobs.texts import on_one_line


@dataclass(frozen=True)
class Scaffold:
    """What a project gets of what bronze has seen.

    Attributes:
        places: The project, and the lakehouse whose bronze it is.
        tables: The tables seen, under the names that they are declared by.
        beside: Path in the project → text, of the files of no table; of those that a model reads already, under any
            name, the files that are there.
        declared: The tables that have models.
        rowless: The feeds without models of which only deletes or truncates have landed, that show no row.
    """

    places: Places
    tables: list[SeenTable]
    beside: dict[str, str]
    declared: list[CapturedTable]
    rowless: list[str]

    @classmethod
    def of(cls, spark: SparkSession, places: Places) -> Scaffold:
        """Look at bronze and at the project.

        Raises:
            UsageError: Nothing was landed.
        """
        if not is_table(spark, places.table("bronze", "shapes")):
            raise bronze.nothing_landed(places)
        declared = declared_tables(places)
        by_feed = {table.feed: table for table in declared.tables}
        tables = [
            as_declared(table, by_feed[table.feed]) if table.feed in by_feed else table
            for table in seen_tables(spark, places)
        ]
        topics = frozenset[str]().union(*(one.topics for one in declared.channels))
        channels = {(one.kind, one.prefix) for one in declared.channels}
        beside: dict[str, str] = {}
        there = model_files(places.project)
        for one in seen_events(spark, places):
            beside |= _unless_there(places, files_of_events([one]), there, is_read=one.topic in topics)
        for channel in seen_channels(spark, places):
            is_read = (channel.kind, channel.prefix) in channels
            beside |= _unless_there(places, files_of_channels([channel]), there, is_read=is_read)
        records = bronze.read(spark, places, "records").where(F.col("kind").isin(*bronze.ROW_KINDS))
        feeds = {row["feed"] for row in records.select("feed").distinct().collect()}
        rowless = sorted(feeds - {table.feed for table in tables} - {*by_feed})
        return cls(places, tables, beside, declared.tables, rowless)

    @property
    def differences(self) -> str:
        """What would be written now against what is there, as a unified diff."""
        return differences(self.places.project, self.tables, self.beside, self.declared)

    def write(self) -> list[str]:
        """Write the files that are missing, and anew those that a new table or key changes and nobody has edited.

        Returns:
            What is to be said of that, in lines.
        """
        project, of_feed = self.places.project, {table.feed: table for table in self.declared}
        fresh = [table for table in self.tables if table.feed not in of_feed]
        files = not_there(project, {path: text for table in fresh for path, text in files_of(table).items()})
        # What a source's other files name has to be enabled: models that are there and don't read the feed are not.
        read = [
            table
            for table in self.tables
            if table.feed in of_feed or f"models/silver/changes/{table.name}_changes.sql" in files
        ]
        # A history that is there is disabled: nothing can be built of it.
        histories = {
            table.name: (table, new)
            for table in self.tables
            if (declared := of_feed.get(table.feed)) and declared.key and declared.history is None
            for new in [not_there(project, files_of_history(typed_as_declared(table, declared)))]
            if f"models/gold/history/{table.name}_history.sql" in new
        }
        for _, new in histories.values():
            files |= new
        files |= not_there(project, files_of_sources(read) | self.beside | suites_of(self.declared))
        write(project, files)
        again = outdated(project, [table for table in read if table.feed not in of_feed])
        for table, _ in histories.values():
            again |= with_key(project, table)
        write(project, again, "w")
        seen, count = f"{len(self.tables)} tables seen, {len(fresh)} new", f"{len(files) + len(again)} files written"
        said = [line for table in fresh for line in _said_of(table, files)]
        said += [f"  {name}: it declares a key, and has a history now (R18)" for name in histories]
        said += [
            f"  {feed}: only deletes or truncates yet; it has models once a row has landed" for feed in self.rowless
        ]
        if not (self.tables or self.beside or self.rowless):
            return ["No captured table was seen: what was landed has no row of one. `tidemark quarantine list` says"
                    " what could not be understood."]  # fmt: skip
        return [
            *said,
            f"{seen}, {count}. {'Read them, then' if files or again else 'Nothing is missing: now'} `tidemark build`.",
        ]


def _unless_there(
    places: Places, files: Mapping[str, str], there: Mapping[str, str], *, is_read: bool
) -> dict[str, str]:
    """Files of models; where others read what they are of, only those that are there (`model_files`)."""
    files = placed(places.project, files, there)
    return {path: text for path, text in files.items() if not is_read or (places.project / path).exists()}


def _said_of(table: SeenTable, files: Mapping[str, str]) -> list[str]:
    """What is to be known of a new table, of which these files were written."""
    said = [*table.notes, *(f"{one.name}: {one.type}, guessed: {one.note}" for one in table.columns if one.note)]
    if not any(path.startswith("models/") for path in files_of(table).keys() & files.keys()):
        said.insert(0, f"its models are there, and none that is enabled reads {table.feed}")
    if not table.key:
        said.append(
            f"its records have no key, so it has no history: declare key=[…] in models/silver/changes/{table.name}"
            "_changes.sql, and scaffold again (R18)"
        )
    return [f"  {table.name}: {on_one_line(one)}" for one in said]
