"""The landing job: records into bronze, each delivery once, what can't be understood aside. Owns R1 and R2.

Record files are read here, topics by `kafka.py`; both go the same way behind that.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatch
from functools import reduce
from itertools import takewhile
from math import ceil
from operator import and_
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.engine import ENGINE_ERRORS, first_cause
from spark_jobs.errors import Fault, UsageError
from spark_jobs.landing.envelope import REASONS, TEXTS, routed, routed_by_plain_form, shape
from spark_jobs.landing.forms import in_plain_form
from spark_jobs.landing.record_files import records_of
from spark_jobs.landing.registry import Registries
from spark_jobs.landing.shapes import fields_of
from spark_jobs.names import literal_map, table_at
from spark_jobs.places import Places

# More ranges than this make a filter that costs more than it prunes.
_MOST_RANGES = 500
# From how many records on, on average, a file or partition of a topic is left in files of its own.
_LARGE = 50_000
# How the names of files and folders begin that writers put there for a while, Spark's own among them.
_ASIDE = (".", "_")
# How files are packed, by the ending of their names: a name for it, what unpacks it here, and how it begins.
_PACKED: dict[str, tuple[str, Callable[[str], gzip.GzipFile | bz2.BZ2File], bytes]] = {
    ".gz": ("gzip", gzip.GzipFile, b"\x1f\x8b"),
    ".bz2": ("bzip2", bz2.BZ2File, b"BZh"),
}
# Of what others pack, Hadoop's readers take some for empty, and need libraries for the rest.
_NOT_UNPACKED = (".deflate", ".lz4", ".snappy", ".zst")
_PLAIN = ("plain_key", "plain_value", "plain_schema")
_NAMED = ("connector", "source_name", "db", "schema", "table")


@dataclass(frozen=True, slots=True)
class Landing:
    """One landing: what to call it and where its records come from."""

    run_id: str
    at: datetime
    source_label: str = "default"


@dataclass(slots=True)
class Landed:
    """What became of the records of one landing; `rekeyed` has the tables whose key has another shape now (R8)."""

    read: int = 0
    landed: int = 0
    known: int = 0
    quarantined: int = 0
    batch_id: int | None = None
    feeds: dict[str, int] = field(default_factory=dict)
    rekeyed: list[Rekeyed] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """How many records were read, and what became of them, by name."""
        return {name: getattr(self, name) for name in ("read", "landed", "known", "quarantined")}

    def add(self, more: Landed) -> None:
        """Count another batch of the same landing."""
        for name, count in more.counts.items():
            setattr(self, name, getattr(self, name) + count)
        self.batch_id = self.batch_id if more.batch_id is None else more.batch_id
        for feed, count in more.feeds.items():
            self.feeds[feed] = self.feeds.get(feed, 0) + count
        self.rekeyed += more.rekeyed


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """A captured table whose records came with keys of another shape than before."""

    table: str
    before: tuple[str, ...]
    now: tuple[str, ...]


def record_files(arguments: Sequence[str], *, may_be_gone: bool = False) -> list[str]:
    """The files that files, folders and globs name; raises UsageError for one that names none.

    With `may_be_gone`, a folder without files, or where a glob begins, is right as long as it is there.
    """
    files: list[Path] = []
    for argument in arguments:
        if not argument:
            raise UsageError("An empty name, as of a variable that isn't set. Name files, folders or patterns.")
        try:
            wanted = _files_of(argument)
            for file in wanted:
                _require_unpacked_by_hadoop(file)
                _require_named_for_hadoop(file)
        except OSError as error:
            raise UsageError(
                f"{error.filename}: can't be read ({error.strerror}). Nothing was landed; give this user the right to"
                " read it, or leave it out."
            ) from error
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{os.fsencode(error.object)!r}: a name that is no UTF-8, which Spark can't open. Nothing was landed;"
                " give the file another name."
            ) from error
        if not wanted and not (may_be_gone and _is_place(argument)):
            raise UsageError(_not_taken(argument))
        files += wanted
    return list(dict.fromkeys(str(file.resolve()) for file in files))


def _not_taken(argument: str) -> str:
    """Why an argument names no file that is landed."""
    named = Path(argument)
    if not named.exists() or named.is_dir():
        return f"{argument}: no such file, and no folder or pattern with files in it."
    if named.is_file():
        return (
            f"{argument}: names with {named.name[0]} in front are of files that aren't finished. Rename it once it is."
        )
    return f"{argument}: a pipe or a device, and files are read more than once. Write it to a file, and land that."


def _require_named_for_hadoop(file: Path) -> None:
    """Raise UsageError for a name that Hadoop's readers can't open, and UnicodeEncodeError for one that is no text."""
    os.fspath(file).encode()
    # Which they take for the end of a URL's scheme.
    if ":" in file.resolve().name:
        raise UsageError(
            f"{file}: a name with a colon, which Spark can't open. Nothing was landed; give the file another name."
        )


def _require_unpacked_by_hadoop(file: Path) -> None:
    """Raise UsageError for a file that Hadoop's readers would take for empty, and OSError where it can't be read.

    They unpack by the ending of a file's name, in whichever letters.
    """
    with file.open("rb") as content:
        begins = content.read(4)
    ending = file.suffix.lower()
    if begins and ending in _NOT_UNPACKED:
        raise UsageError(
            f"{file}: files whose names end with {ending} aren't unpacked here. Nothing was landed; give it plain,"
            " packed by gzip (.gz) or by bzip2 (.bz2), or leave it out."
        )
    if begins and ending in _PACKED:
        name, _, beginning = _PACKED[ending]
        if not begins.startswith(beginning):
            raise UsageError(
                f"{file}: not a whole {name} file (it doesn't begin like one). Nothing was landed; give it the name of"
                " what it is, or leave it out."
            )


def _is_place(argument: str) -> bool:
    """Whether a folder, or that in which a glob looks, is there."""
    return Path(*takewhile(lambda part: not glob.has_magic(part), Path(argument).parts)).is_dir()


def _files_of(argument: str) -> list[Path]:
    paths = [named := Path(argument)]
    if not named.exists():
        found = map(Path, glob.glob(argument, recursive=True))  # noqa: PTH207 - absolute patterns too
        paths = [path for path in found if not any(_is_aside(part, named.parts) for part in path.parts)]
    inside = [file for path in paths for file in (_inside(path) if path.is_dir() else [path])]
    return [file for file in inside if file.is_file() and not file.name.startswith(_ASIDE)]


def _is_aside(folder: str, named: Sequence[str] = ()) -> bool:
    """Whether a folder is one for what isn't finished, by its name; those that a pattern's parts `named` are meant."""
    return folder.startswith(_ASIDE) and not any(one[0] == folder[0] and fnmatch(folder, one) for one in named)


def _inside(folder: Path) -> list[Path]:
    """The files in a folder and in those within it, linked ones too; raises OSError where one can't be looked into."""

    def refuse(error: OSError) -> None:
        raise error

    files: list[Path] = []
    # A link can lead back.
    seen = set(folder.resolve().parents)
    for path, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        is_new = (real := Path(path).resolve()) not in seen
        seen.add(real)
        folders[:] = [name for name in folders if is_new and not _is_aside(name)]
        files += [Path(path) / name for name in names if is_new]
    return sorted(files)


def land_files(spark: SparkSession, places: Places, arguments: Sequence[str], landing: Landing) -> Landed:
    """Land record files; the same records again, from the same or another file, add nothing.

    Raises:
        UsageError: A file is missing, unreadable or holds no records at all; then nothing was landed.
        Fault: Spark could not read or write.
    """
    files = record_files(arguments)
    try:
        lines = spark.read.text([_escaped(file) for file in files]).select(
            "value", F.col("_metadata.file_path").alias("origin")
        )
        rows = (
            records_of(lines.where("trim(value) <> ''"))
            .withColumn("source_label", F.lit(landing.source_label))
            .withColumn("content_hash", bronze.content_hash())
        )
        with in_even_parts(spark, files):
            return land_rows(spark, places, rows, landing, check=_refuse_other_files, files=files)
    except Fault:
        _refuse_damaged_files(files)
        raise
    except (*ENGINE_ERRORS, FileNotFoundError) as error:
        raise Fault(
            f"Spark could not read the files: {first_cause(str(error))}. Nothing was landed; where one was taken away"
            " meanwhile, run again."
        ) from error


@contextmanager
def in_even_parts(spark: SparkSession, files: Sequence[str]) -> Iterator[None]:
    """Have files read in parts of one size that all cores take in whole rounds.

    Spark cuts them into parts of the largest size and a rest, for which one core works while others wait: here, and in
    every later reading of what the parts were written as.
    """
    name = "spark.sql.files.maxPartitionBytes"
    largest = spark._jsparkSession.sessionState().conf().filesMaxPartitionBytes()
    cores = spark.sparkContext.defaultParallelism
    size = sum(Path(file).stat().st_size for file in files)
    rounds = ceil(size / (largest * cores))
    if rounds < 2:
        # Of less than that for each core, Spark's parts are even.
        yield
        return
    spark.conf.set(name, ceil(size / (rounds * cores)))
    try:
        yield
    finally:
        spark.conf.set(name, largest)


def land_rows(
    spark: SparkSession,
    places: Places,
    rows: DataFrame,
    landing: Landing,
    check: Callable[[Sequence[Row]], None] = lambda survey: None,
    files: Sequence[str] = (),
) -> Landed:
    """Land rows that `records_of` gave, whatever they were read from.

    Args:
        spark: The session.
        places: Whose bronze.
        rows: The rows.
        landing: What to call it.
        check: May refuse them before a write.
        files: The files that they are all lines of, where they are.

    Raises:
        Fault: Spark could not read or write.
    """
    told = [name for name in rows.columns if name not in ("reason", *TEXTS)]
    nothing = F.lit(None).cast("string")
    as_bytes = rows.transform(routed).persist(StorageLevel.MEMORY_AND_DISK)
    held = [as_bytes]
    try:
        survey = _survey(as_bytes)
        check(survey)
        if not survey and not (files and bronze.is_ready(spark, places)):
            return Landed()
        rows = as_bytes.withColumns(dict.fromkeys((*_PLAIN, "detail"), nothing))
        if any(part["suspects"] for part in survey):
            suspects = in_plain_form(
                spark, as_bytes.where("is_suspect").select(*told).localCheckpoint(), Registries.of()
            )
            again = suspects.transform(routed_by_plain_form).persist(StorageLevel.MEMORY_AND_DISK)
            held.append(again)
            rows = rows.where("not is_suspect").drop("is_suspect").unionByName(again)
            survey = _survey(rows.withColumn("is_suspect", F.lit(False)))
        bronze.ensure(spark, places)
        return _land(spark, places, rows, survey, landing, frozenset(files))
    except ENGINE_ERRORS as error:
        raise Fault(f"Spark could not land the records: {first_cause(str(error))}.") from error
    finally:
        for frame in held:
            frame.unpersist()


def _survey(rows: DataFrame) -> list[Row]:
    """What the rows are, by file and partition, from the one pass in which they are read and parsed."""
    understood = F.when(F.col("reason").isNull(), F.col("offset"))
    return rows.groupBy("origin", "topic", "partition").agg(
        F.count("*").alias("lines"),
        F.count("reason").alias("held"),
        F.count_if("is_suspect").alias("suspects"),
        F.min(understood).alias("low"),
        F.max(understood).alias("high"),
        F.min("offset").alias("first"),
        F.max("timestamp").alias("newest"),
        F.count_if(F.col("line").startswith("{")).alias("begun"),
    ).collect()  # fmt: skip


def _land(
    spark: SparkSession,
    places: Places,
    rows: DataFrame,
    survey: Sequence[Row],
    landing: Landing,
    files: Collection[str],
) -> Landed:
    batch_id = bronze.last_batch(spark, places) + 1
    rows = (
        rows.withColumn("batch_id", F.lit(batch_id).cast("bigint"))
        .withColumn("run_id", F.lit(landing.run_id))
        .withColumn("landed_at", F.lit(landing.at).cast("timestamp"))
    )
    rejected = rows.where("reason is not null")
    result = Landed(read=sum(part["lines"] for part in survey))
    if any(part["held"] for part in survey):
        # Aside first: were landing killed here, the next one finds these known and the others still to come.
        result.quarantined = _set_aside(spark, places, rejected)
    result.feeds, has_shapes = _append_unknown(spark, places, rows.where("reason is null"), survey, batch_id)
    if has_shapes:
        result.rekeyed = _rekeyed(spark, places, batch_id)
    if files:
        # Last: were landing killed before, the next one of these files does it.
        _settle(spark, places, rejected, files, landing.source_label, batch_id)
    result.landed = sum(result.feeds.values())
    result.known = result.read - result.landed - result.quarantined
    result.batch_id = batch_id if result.landed or result.quarantined else None
    return result


def _append_unknown(
    spark: SparkSession, places: Places, rows: DataFrame, survey: Sequence[Row], batch_id: int
) -> tuple[dict[str, int], bool]:
    """Append the records that bronze does not hold, and before them their shapes.

    Returns:
        How many, by feed, and whether a shape was new.
    """
    records = rows.where("topic is not null and partition is not null and offset is not null")
    unknown = _unknown(records, _stored(spark, places, survey))
    if unknown is not records:
        unknown.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        of_shape = F.count("*").alias("records"), F.min("offset").alias("first_offset")
        seen = unknown.groupBy(*bronze.SHAPE, "has_shape").agg(*of_shape).collect()
        has_new = bool(seen) and _append_unknown_shapes(spark, places, unknown, seen, batch_id)
        if seen:
            # Gathered by feed, its partition: a file or two each, however many tasks wrote. Large parts of one feed are
            # files by themselves.
            is_one = len({one["feed"] for one in seen}) == 1
            is_large = is_one and sum(one["records"] for one in seen) >= _LARGE * len(survey)
            bronze.append(spark, places, "records", unknown if is_large else unknown.hint("rebalance", "feed"))
    finally:
        if unknown is not records:
            unknown.unpersist()
    feeds: dict[str, int] = {}
    for one in sorted(seen, key=lambda one: str(one["feed"])):
        feeds[one["feed"]] = feeds.get(one["feed"], 0) + one["records"]
    return feeds, has_new


def _unknown(records: DataFrame, stored: DataFrame) -> DataFrame:
    """The records whose delivery is not stored, each once: those given where that is all of them."""
    delivery = list(bronze.DELIVERY)
    # What of the usual is not so is seen in a few narrow columns, before whole records are moved.
    told = records.select(*delivery)
    is_stored = not stored.isEmpty()
    if is_stored and told.join(stored, on=delivery, how="left_anti").isEmpty():
        return records.limit(0)
    unknown = records.dropDuplicates(delivery) if _is_told_twice(told) else records
    return unknown.join(stored, on=delivery, how="left_anti") if is_stored else unknown


def _is_told_twice(deliveries: DataFrame) -> bool:
    """Whether two of them have one offset: seen in a bit for each, without moving them."""
    bucket = F.bitmap_bucket_number("offset").alias("bucket")
    offsets = F.bitmap_count(F.bitmap_construct_agg(F.bitmap_bit_position("offset"))).alias("offsets")
    counted = deliveries.groupBy("topic", "partition", bucket).agg(F.count("*").alias("deliveries"), offsets)
    return not counted.where("deliveries > offsets").isEmpty()


def _stored(spark: SparkSession, places: Places, survey: Sequence[Row]) -> DataFrame:
    """The deliveries that bronze holds within the offsets of the survey; files without any are not read."""
    stored = bronze.read(spark, places, "records")
    for parts in (("topic", "partition"), ("topic",)):
        ranges: dict[tuple[str | int, ...], tuple[int, int]] = {}
        for one in survey:
            place = tuple(one[part] for part in parts)
            if one["low"] is not None and None not in place:
                low, high = ranges.get(place, (one["low"], one["high"]))
                ranges[place] = (min(low, one["low"]), max(high, one["high"]))
        if len(ranges) <= _MOST_RANGES:
            within = [_within(dict(zip(parts, place, strict=True)), *ends) for place, ends in sorted(ranges.items())]
            stored = stored.where(_any_of(within) if within else F.lit(False))
            break
    return stored.select(*bronze.DELIVERY)


def _within(place: Mapping[str, str | int], low: int, high: int) -> Column:
    here = [F.col(part) == value for part, value in place.items()]
    return reduce(and_, here) & F.col("offset").between(low, high)


def _any_of(conditions: Sequence[Column]) -> Column:
    """One of many conditions, as a balanced tree: Spark takes a minute to plan a chain of 200."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return _any_of(conditions[:half]) | _any_of(conditions[half:])


def _append_unknown_shapes(
    spark: SparkSession, places: Places, records: DataFrame, seen: Sequence[Row], batch_id: int
) -> bool:
    """Append the shapes that no earlier landing has seen, in one commit if any (G3); whether there were any.

    Args:
        spark: The session.
        places: Where bronze is.
        records: The records that are landed.
        seen: The shapes of these records, and the first offset of each.
        batch_id: The number of this landing.
    """
    stored = bronze.read(spark, places, "shapes").where(F.col("feed").isin(sorted({one["feed"] for one in seen})))
    known = {tuple(row) for row in stored.select(*bronze.SHAPE).collect()}
    unknown = [one for one in seen if one["has_shape"] and tuple(one[name] for name in bronze.SHAPE) not in known]
    if unknown:
        numbers = ("shape_id", "first_offset")
        columns = [(name, pa.int64() if name in numbers else pa.string()) for name in (*bronze.SHAPE, "first_offset")]
        # By way of Arrow: rows given as Python objects would start Python workers.
        rows = spark.createDataFrame(pa.Table.from_pylist([one.asDict() for one in unknown], pa.schema(columns)))
        is_its = [records[name].eqNullSafe(rows[name]) for name in bronze.SHAPE]
        shapes = (
            records.where("has_shape")
            # Of each shape a record or two: to pick one, whole records are sorted.
            .join(F.broadcast(rows), on=[*is_its, records["offset"] == rows["first_offset"]], how="left_semi")
            .groupBy(*bronze.SHAPE)
            .agg(*[F.first(name).alias(name) for name in (*_NAMED, "value", "plain_value", "plain_schema")])
            .withColumn("shape", shape())
            .withColumn("fields", fields_of(F.col("shape")))
        )
        bronze.append(spark, places, "shapes", shapes.withColumn("batch_id", F.lit(batch_id).cast("bigint")))
    return bool(unknown)


def _set_aside(spark: SparkSession, places: Places, rows: DataFrame) -> int:
    """Append what can't be understood to the quarantine, in one commit if any is new (G3); the number of entries.

    What bronze holds as a record was understood by an earlier landing. A line that was settled and is there again is
    held again.
    """
    was_held = F.col("released_in").isNotNull().alias("was_held")
    known = bronze.read(spark, places, "quarantine").select("quarantine_id", was_held)
    entries = _rejects(rows).join(known, on="quarantine_id", how="left").where("coalesce(was_held, true)")
    entries = entries.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        offsets = F.min("offset").alias("low"), F.max("offset").alias("high")
        parts = entries.groupBy("topic", "partition").agg(*offsets).collect()
        if not parts:
            return 0
        unknown = entries.join(_stored(spark, places, parts), on=list(bronze.DELIVERY), how="left_anti")
        [counted] = unknown.agg(F.count("*").alias("entries"), F.count("was_held").alias("again")).collect()
        if counted["again"]:
            both = "when matched then update set * when not matched then insert *"
            _merge(spark, places, unknown.select(*bronze.read(spark, places, "quarantine").columns), both)
        elif counted["entries"]:
            bronze.append(spark, places, "quarantine", unknown)
        return int(counted["entries"])
    finally:
        entries.unpersist()


def _settle(
    spark: SparkSession, places: Places, rows: DataFrame, files: Collection[str], source_label: str, batch_id: int
) -> None:
    """Release the held lines of files that are in them no more, in one commit if there are any (G3).

    A line that was cut where its writer had got to is whole by the next landing; a bad one was mended, or taken out.

    Args:
        spark: The session.
        places: Whose bronze.
        rows: The lines of the files that can't be understood.
        files: The files, each of them read to its end.
        source_label: What they were landed as.
        batch_id: The number of this landing.
    """
    lines = bronze.read(spark, places, "quarantine").where(
        F.col("released_in").isNull() & F.col("line").isNotNull() & (F.col("source_label") == source_label)
    )
    origins = [row["origin"] for row in lines.select("origin").distinct().collect()]
    if read := [origin for origin in origins if _path_of(origin) in files]:
        held = lines.where(F.col("origin").isin(read)).select("quarantine_id")
        settled = held.join(_rejects(rows).select("quarantine_id"), on="quarantine_id", how="left_anti")
        if not settled.isEmpty():
            settled = settled.withColumn("batch_id", F.lit(batch_id).cast("bigint"))
            _merge(spark, places, settled, "when matched then update set entries.released_in = told.batch_id")


def _merge(spark: SparkSession, places: Places, rows: DataFrame, clauses: str) -> None:
    """Change the entries that `told`, the rows, name by their ids."""
    rows.createOrReplaceTempView("told")
    spark.sql(
        f"merge into {table_at(places.table('bronze', 'quarantine'))} as entries using told"
        f" on entries.quarantine_id = told.quarantine_id {clauses}"
    )
    spark.catalog.dropTempView("told")


def _rejects(rows: DataFrame) -> DataFrame:
    """One quarantine entry per thing that can't be understood: a record, or a line that holds none."""
    is_record = F.col("topic").isNotNull() & F.col("partition").isNotNull() & F.col("offset").isNotNull()
    # Lines that differ in bytes that are no text are one as texts.
    no_text = F.when(F.col("reason") == "not-unicode", F.col("value"))
    entry_id = F.when(is_record, bronze.entry_id(F.struct(*bronze.DELIVERY))).otherwise(
        bronze.entry_id(F.struct("source_label", "origin", "line", no_text.alias("value")))
    )
    entries = rows.withColumn("quarantine_id", entry_id)
    copied = ["source_label", "topic", "partition", "offset", "timestamp", "key", "value", "headers", "content_hash"]
    copied += ["line", "origin", "batch_id", "run_id", "landed_at"]
    return (
        entries.groupBy("quarantine_id")
        .agg(
            *[F.first(name).alias(name) for name in copied],
            F.when(F.first("line").isNull(), 1).otherwise(F.count("*")).alias("occurrences"),
            F.first("reason").alias("code"),
            F.first("detail").alias("detail"),
        )
        .withColumn("reason", F.coalesce("detail", literal_map(REASONS)[F.col("code")]))
        .withColumn("released_in", F.lit(None).cast("bigint"))
    )


def _rekeyed(spark: SparkSession, places: Places, batch_id: int) -> list[Rekeyed]:
    """The tables for which this landing brought another shape of keys than other records have."""
    keyed = bronze.read(spark, places, "shapes").where("key_fields is not null")
    by_feed = keyed.groupBy("feed").agg(F.count_distinct("key_fields").alias("keys"), F.max("batch_id").alias("last"))
    feeds = [row["feed"] for row in by_feed.where((F.col("keys") > 1) & (F.col("last") == batch_id)).collect()]
    shapes: dict[str, list[Row]] = {}
    for one in bronze.shapes_by_age(spark, places, feeds) if feeds else ():
        if one["key_fields"]:
            shapes.setdefault(one["feed"], []).append(one)
    rekeyed = []
    for seen in shapes.values():
        before, now = (tuple(json.loads(one["key_fields"])) for one in (seen[0], seen[-1]))
        if before != now:
            rekeyed.append(Rekeyed(".".join(bronze.full_name(seen[-1])), before, now))
    return sorted(rekeyed, key=lambda one: one.table)


def _refuse_damaged_files(files: Sequence[str]) -> None:
    """Raise UsageError for a file that can't be unpacked; looked for only after Spark has failed on one."""
    for file in files:
        if (ending := Path(file).suffix.lower()) in _PACKED:
            name, unpack, _ = _PACKED[ending]
            try:
                with unpack(file) as content:
                    while content.read(1 << 20):
                        pass
                _require_nothing_behind(file, ending)
            except (OSError, EOFError, zlib.error) as error:
                raise UsageError(
                    f"{file}: not a whole {name} file ({str(error).split(' (')[0]}). Nothing was landed; copy or pack"
                    " it again, or leave it out."
                ) from error


def _require_nothing_behind(file: str, ending: str) -> None:
    """Raise OSError where zeros stand behind the end of a gzip file: Python's reader takes them, Hadoop's doesn't."""
    if ending != ".gz":
        return
    with Path(file).open("rb") as content:
        member, rest = zlib.decompressobj(wbits=31), b""
        while rest := rest or content.read(1 << 16):
            if member.eof:
                if rest.startswith(b"\0"):
                    raise OSError("zeros stand behind its end")
                member = zlib.decompressobj(wbits=31)
            member.decompress(rest)
            rest = member.unused_data


def _refuse_other_files(survey: Sequence[Row]) -> None:
    """Raise UsageError for a file that has no record, and few lines that even begin like one: those of any zip do."""
    lines, begun = Counter[str](), Counter[str]()
    for part in survey:
        lines[part["origin"]] += part["lines"]
        begun[part["origin"]] += part["begun"]
    records = {part["origin"] for part in survey if part["topic"] is not None}
    strangers = sorted(origin for origin in {*lines} - records if 2 * begun[origin] < lines[origin])
    if strangers:
        raise UsageError(
            f"{_path_of(strangers[0])}: not a file of records. Expected JSON lines with topic, partition,"
            " offset, key and value (or what `kcat -J` prints), and most lines of it don't begin with {. Nothing was"
            " landed."
        )


def _path_of(origin: str) -> str:
    return unquote(urlsplit(origin).path)


def _escaped(file: str) -> str:
    # Spark expands globs once more: a file's own brackets are meant literally.
    return "".join(f"\\{letter}" if letter in "*?[]{}\\" else letter for letter in file)
