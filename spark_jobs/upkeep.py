"""Upkeep of the tables' layout: small files are joined, rows that are marked as gone are removed, old files too.

What is done follows from Delta's logs alone, and costs what is small or gone, whatever else a table holds. Each step is
one commit, or none, and changes no row: readers, builds (`written_by`) and a kill meet whole tables (G3, G4, G8).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.damage import delta_tables
from spark_jobs.delta import remove, snapshot
from spark_jobs.engine_errors import ENGINE_ERRORS
from spark_jobs.files import Entry, Files
from spark_jobs.logs import log, log_file
from spark_jobs.names import quoted, table_at, text_literal
from spark_jobs.places import BRONZE, LATEST, STAGED, Places
from spark_jobs.session import with_settings
from spark_jobs.texts import quantity

HOUR = 3600
DAY = 24 * HOUR
KEEP = 7 * DAY
KEEP_REPORTS = 90 * DAY
# Of less somebody has to say that he means it: a long query, or dbt by hand, may still read what was replaced.
SHORTEST = 12 * HOUR
# Hours for which Delta keeps a table's log, unless the table has a time of its own.
_LOG_HOURS = 30 * 24
# Bytes of a joined file. One of half of them stays: of a partition no more than that is written again in each upkeep.
TARGET = 128 << 20
SMALL = TARGET // 2
# From so many small files on in a partition, joining them costs less than reading them one by one.
FEW = 8
# Rows that are marked as gone are removed where they are so many of those in files with marks: five bytes are written
# for each that goes, at most.
GONE = 0.2

_SETTINGS = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALL),
    "spark.databricks.delta.optimize.maxFileSize": str(TARGET),
    # A file alone would be chosen by its marks and not be written: REORG sees to those.
    "spark.databricks.delta.optimize.maxDeletedRowsRatio": "1.0",
    # The start and end of each vacuum would be versions in which nothing is new.
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    # Delta takes a table's own time, unless it is told to take the command's.
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Into so many parts VACUUM divides its list of files, whatever there is: the default of 10,000 takes a minute.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What upkeep is to do.

    Attributes:
        keep: Seconds for which files that no table needs any more are kept, and so what was left by killed runs.
        keep_reports: Seconds for which reports and logs are kept.
        few: From how many small files on in a partition they are joined.
    """

    keep: float = KEEP
    keep_reports: float = KEEP_REPORTS
    few: int = FEW


@dataclass(frozen=True, slots=True)
class Upkept:
    """What became of a table, or of a folder of ops or reports: files that its rows are in, and files removed."""

    name: str
    files_before: int = 0
    files_after: int = 0
    removed: int = 0
    freed: int = 0

    @property
    def line(self) -> str:
        """What was done, in words."""
        joined = (
            f"{quantity(self.files_before, 'file is', 'files are')} {self.files_after:,} now"
            if self.is_rewritten
            else ""
        )
        removed = f"{quantity(self.removed, 'old file')} removed, {size(self.freed)} freed" if self.removed else ""
        return f"{self.name}: {'; '.join(filter(None, (joined, removed)))}."

    @property
    def is_rewritten(self) -> bool:
        """Whether its files were joined, or lost marked rows."""
        return self.files_before > 0


@dataclass(frozen=True, slots=True)
class _Layout:
    """What a table's log tells of it: `joined` and `purged` are the values of the partitions where that pays."""

    partitioned_by: Sequence[str]
    files: int
    joined: list[list[str | None]]
    purged: list[list[str | None]]
    small: int
    old: int
    marks: int


def keep_up(
    spark: SparkSession, places: Places, wanted: Wanted, say: Callable[[str], None]
) -> tuple[list[Upkept], dict[str, Exception]]:
    """Keep up every table of an environment, and its folders: what was done, and what went wrong by table.

    What is old goes first, so that a full disk has room for what is joined. An environment that reads another's bronze
    leaves that alone.
    """
    upkept: list[Upkept] = []
    errors: dict[str, Exception] = {}

    @contextmanager
    def noted(name: str) -> Iterator[None]:
        try:
            yield
        except ENGINE_ERRORS as error:
            errors[name] = error

    for folder, keep, spared in (
        (f"{places.schema('ops')}/{STAGED}", wanted.keep, ()),
        (places.schema("reports"), wanted.keep_reports, (LATEST,)),
    ):
        with noted(folder):
            upkept += _removed(spark, places, folder, keep, spared)
    upkept += _removed_logs(wanted.keep_reports)
    with with_settings(spark, _SETTINGS):
        tables = [one for one in delta_tables(places) if not (places.reads_only and one[0] == BRONZE)]
        for layer, name in tables:
            with noted(f"{places.schema(layer)}.{name}"):
                for done in _kept_up(spark, places, layer, name, wanted, say):
                    upkept.append(done)
    for one in upkept:
        log.info("upkeep: %s", one.line)
    say(f"{quantity(len(tables), 'table')} looked at.")
    return upkept, errors


def in_sum(done: Sequence[Upkept]) -> str:
    """What was done, in one sentence."""
    joined = [one for one in done if one.is_rewritten]
    before, after = sum(one.files_before for one in joined), sum(one.files_after for one in joined)
    removed, freed = sum(one.removed for one in done), sum(one.freed for one in done)
    parts = [f"{quantity(len(joined), 'table')} joined, {before:,} files to {after:,}"] if joined else []
    parts += [f"{quantity(removed, 'old file')} removed, {size(freed)} freed"] if removed else []
    return f"upkeep: {'; '.join(parts) or 'nothing to join or to remove'}."


def size(count: int) -> str:
    """Bytes as people say them."""
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}" if unit != "bytes" else f"{count} bytes"


def _kept_up(
    spark: SparkSession, places: Places, layer: str, name: str, wanted: Wanted, say: Callable[[str], None]
) -> Iterator[Upkept]:
    """Keep up a table; what each step of it came to, where it was one."""
    location, schema = places.table(layer, name), places.schema(layer)
    table, folder = f"{schema}.{name}", f"{schema}/{name}"
    before = time.time() - wanted.keep
    if wanted.keep > KEEP:
        _remember(spark, location, ceil(wanted.keep / HOUR))
    layout = _layout(spark, location, wanted.few, before)

    def vacuumed(there: Sequence[Entry]) -> Iterator[Upkept]:
        say(f"{table}: looking for old ones of {quantity(len(there), 'file')} …")
        with _aside(spark):
            spark.sql(f"vacuum {table_at(location)} retain {ceil(wanted.keep / HOUR)} hours").collect()
        left = _data_files(places, folder)
        if removed := len(there) - len(left):
            yield Upkept(table, removed=removed, freed=sum(one.size for one in there) - sum(one.size for one in left))

    there = _data_files(places, folder)
    old = [one.name for one in there if one.modified < before]
    # What is there and not in the log is to go, or was replaced within the time: only VACUUM knows.
    if any(
        sum(one.endswith(ending) for one in old) > known
        for ending, known in ((".parquet", layout.old), (".bin", layout.marks))
    ):
        yield from vacuumed(there)
    if not layout.joined and not layout.purged:
        return
    after = layout.files
    for statement, values in (
        ("reorg table {} {} apply (purge)", layout.purged),
        ("optimize {} {}", layout.joined),
    ):
        if values:
            say(f"{table}: {quantity(layout.small, 'small file')}, {quantity(layout.marks, 'file')} of marks …")
            partitions = _where(layout.partitioned_by, values)
            done = spark.sql(statement.format(table_at(location), partitions)).head().metrics
            after += done.numFilesAdded - done.numFilesRemoved
    yield Upkept(table, layout.files, after)
    if not wanted.keep:
        yield from vacuumed(_data_files(places, folder))


def _remember(spark: SparkSession, location: str, hours: int) -> None:
    """Have a table remember for at least so long which files it has replaced, in one commit where it does not.

    Delta forgets them after a week: VACUUM then removes them, and no query takes an older version. The log has to last
    as long; one that someone has shortened ends that as well.
    """
    metadata = snapshot(spark, location).metadata()
    configs = spark._jvm.org.apache.spark.sql.delta.DeltaConfigs
    files, log_files = (
        configs.getMilliSeconds(config.fromMetaData(metadata)) // (1000 * HOUR)
        for config in (configs.TOMBSTONE_RETENTION(), configs.LOG_RETENTION())
    )
    hours = min(hours, log_files) if log_files < _LOG_HOURS else hours
    wanted = {"deletedFileRetentionDuration": files, "logRetentionDuration": log_files}
    lacking = ", ".join(f"'delta.{name}' = 'interval {hours} hours'" for name, has in wanted.items() if has < hours)
    if lacking:
        spark.sql(f"alter table {table_at(location)} set tblproperties ({lacking})")


def _layout(spark: SparkSession, location: str, few: int, before: float) -> _Layout:
    """What the log of a table tells, in one query over it."""
    files = DataFrame(snapshot(spark, location).allFiles().toDF(), spark)
    is_marked = F.col("deletionVector").isNotNull()
    marks = F.when(F.col("deletionVector.storageType") != "i", F.col("deletionVector.pathOrInlineDv"))
    partitions = (
        files.groupBy(F.map_values("partitionValues").alias("values"))
        .agg(
            F.count("*").alias("files"),
            F.count_if(F.col("size") < SMALL).alias("small"),
            F.sum("deletionVector.cardinality").alias("gone"),
            F.sum(F.when(is_marked, F.get_json_object("stats", "$.numRecords").cast("bigint"))).alias("rows"),
            F.count_if(F.col("modificationTime") < int(before * 1000)).alias("old"),
            F.size(F.collect_set(marks)).alias("marks"),
        )
        .collect()
    )
    return _Layout(
        partitioned_by=spark.sql(f"describe detail {table_at(location)}").head().partitionColumns,
        files=sum(one["files"] for one in partitions),
        joined=[one["values"] for one in partitions if one["small"] >= few],
        purged=[one["values"] for one in partitions if (one["gone"] or 0) > GONE * (one["rows"] or 0)],
        small=sum(one["small"] for one in partitions),
        old=sum(one["old"] for one in partitions),
        marks=sum(one["marks"] for one in partitions),
    )


def _where(partitioned_by: Sequence[str], values: Sequence[Sequence[str | None]]) -> str:
    """Clause: only these partitions. Nothing for a table without, or by more columns than any of ours is."""
    if len(partitioned_by) != 1:
        return ""
    column = quoted(partitioned_by[0])
    named = ", ".join(text_literal(value) for [value] in values if value is not None)
    conditions = [f"cast({column} as string) in ({named})"] if named else []
    return "where " + " or ".join(conditions + [f"{column} is null"] * ([None] in values))


def _data_files(places: Places, folder: str) -> list[Entry]:
    """The files of a table but those of its log, and checksums, which go with theirs."""
    return [
        one
        for one in Files.of(places).entries(folder)
        if not one.name.startswith("_delta_log/") and not one.name.rpartition("/")[2].startswith(".")
    ]


def _removed(spark: SparkSession, places: Places, folder: str, keep: float, spared: Sequence[str]) -> list[Upkept]:
    """Remove what is in a folder and was last written before; as one entry, where there was something."""
    by_name: dict[str, list[Entry]] = {}
    for one in Files.of(places).entries(folder):
        by_name.setdefault(one.name.partition("/")[0], []).append(one)
    before = time.time() - keep
    old = {
        name: files
        for name, files in by_name.items()
        if name not in spared and max(one.modified for one in files) < before
    }
    for name in old:
        remove(spark, f"{places.lakehouse}/{folder}/{name}")
    gone = [one for files in old.values() for one in files]
    return [Upkept(folder, removed=len(gone), freed=sum(one.size for one in gone))] if gone else []


def _removed_logs(keep: float) -> list[Upkept]:
    """Remove logs of runs that are older; they are files beside this run's, wherever the lakehouse is."""
    ours = log_file()
    if ours is None:
        return []
    before = time.time() - keep
    old = []
    for one in Path(ours).parent.glob("*.log"):
        with suppress(FileNotFoundError):  # another's upkeep was faster
            there = one.stat()
            if there.st_mtime < before:
                one.unlink()
                old.append(there.st_size)
    return [Upkept("logs", removed=len(old), freed=sum(old))] if old else []


@contextmanager
def _aside(spark: SparkSession) -> Iterator[None]:
    """Have VACUUM's line of its own not on standard output, which can be a run's summary."""
    console = getattr(getattr(spark._jvm.scala, "Console$"), "MODULE$")
    before = console.out()
    console.setOutDirect(spark._jvm.java.lang.System.err)
    try:
        yield
    finally:
        console.setOutDirect(before)
