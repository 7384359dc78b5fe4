"""Delta tables by their locations: whether one is there, what it holds, and how what is at a location is removed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark_jobs.files import LAST_CHECKPOINT, Files, commit_file
from spark_jobs.names import table_at
from spark_jobs.places import Places


def is_table(spark: SparkSession, location: str) -> bool:
    """Whether a Delta table is at the location: one that was written to its end at least once (G4)."""
    files, log = files_at(spark, f"{location}/_delta_log")
    if files.exists(files_at(spark, f"{location}/_delta_log/{LAST_CHECKPOINT}")[1]):
        return True
    if not files.exists(log):
        return False
    found = files.listFiles(log, False)
    while found.hasNext():
        if is_of_log(found.next().getPath().getName()):
            return True
    return False


def has_log(files: Files, table: str = "") -> bool:
    """The same of a table that stands in a folder of `files`, without Spark."""
    log = f"{table}/_delta_log".lstrip("/")
    # The log of a table that is written often is long.
    return files.exists(f"{log}/{LAST_CHECKPOINT}") or any(map(is_of_log, files.names(log)))


def is_of_log(name: str) -> bool:
    """Whether a file of a Delta log has been committed: what a killed writer leaves there begins with a dot."""
    return not name.startswith(".")


def empty_commit(spark: SparkSession, location: str) -> str | None:
    """The newest commit of a Delta table where its file is empty, as a power cut leaves one: Delta tells nothing."""
    # A log can have very many commits: Delta knows the newest without a look at all of them.
    newest = commit_file(snapshot(spark, location).version())
    files, commit = files_at(spark, f"{location}/_delta_log/{newest}")
    return newest if files.exists(commit) and files.getFileStatus(commit).getLen() == 0 else None


def id_of(spark: SparkSession, location: str) -> str | None:
    """The id that a Delta table got when it was made, 122 random bits; None where there is no table."""
    if not is_table(spark, location):
        return None
    return str(snapshot(spark, location).metadata().id())


def snapshot(spark: SparkSession, location: str) -> Any:
    """What Delta itself knows of a table as it is now."""
    return spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTableWithSnapshot(spark._jsparkSession, location)._2()


def table_if_made(spark: SparkSession, location: str) -> DataFrame | None:
    """The Delta table at the location; None where there is none."""
    return spark.table(table_at(location)) if is_table(spark, location) else None


def progress(spark: SparkSession, places: Places) -> DataFrame | None:
    """What builds write down of each model, with its name alone in `name`; None before the first build.

    Where the project was renamed, its models are there under both names: the newest counts.
    """
    there = table_if_made(spark, places.table("ops", "progress"))
    if there is None:
        return None
    named = there.withColumn("name", F.substring_index("model", ".", -1))
    newest = Window.partitionBy("name").orderBy(F.col("recorded_at").desc(), "model")
    return named.withColumn("nth", F.row_number().over(newest)).where("nth = 1").drop("nth")


def states(spark: SparkSession, places: Places) -> dict[str, dict[str, Any]]:
    """Model → what its last build wrote down (`say`), with the last landing that it read as `batch_id`."""
    read = progress(spark, places)
    rows = [] if read is None else read.select("name", "state", "batch_id").collect()
    return {row["name"]: json.loads(row["state"]) | {"batch_id": row["batch_id"]} for row in rows}


def frame_of(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> DataFrame:
    """A few rows as a frame, by way of Arrow: given as Python objects they would start Python workers."""
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema))


def append_rows(spark: SparkSession, location: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> None:
    """Append a few rows in one commit; the table is made where there is none."""
    if not is_table(spark, location):
        clear(spark, location)
        frame_of(spark, [], schema).write.format("delta").save(location)
    frame_of(spark, rows, schema).coalesce(1).write.format("delta").mode("append").save(location)


def clear(spark: SparkSession, location: str) -> None:
    """Remove what a making left that was killed before its first commit: no other could follow (G4)."""
    files, folder = files_at(spark, location)
    if files.exists(folder) and not is_table(spark, location) and not has_files(spark, location):
        remove(spark, location)


def has_files(spark: SparkSession, location: str) -> bool:
    """Whether there are files of rows at the location, whatever a log says of them."""
    files, folder = files_at(spark, location)
    if not files.exists(folder):
        return False
    found = files.listFiles(folder, True)
    while found.hasNext():
        if found.next().getPath().getName().endswith(".parquet"):
            return True
    return False


def remove(spark: SparkSession, location: str) -> None:
    """Remove what is at a location, if anything is."""
    files, place = files_at(spark, location)
    files.delete(place, True)


def files_at(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """Hadoop's file system of a location, and the location as it names it."""
    path = spark._jvm.org.apache.hadoop.fs.Path(location)
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path
