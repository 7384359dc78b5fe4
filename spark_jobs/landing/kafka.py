"""Topics into bronze, by Structured Streaming: once, or continuously. Each batch goes the way of record files.

How far a topic is landed stands in `ops.kafka_offsets` (`kafka_offsets.py`), and each query begins there. A query's own
checkpoint lives as long as the query, in the lakehouse: kept for longer, it would go on behind the records of a topic
made anew, pass over what retention took, and refuse another `--topics`.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from spark_jobs import bronze
from spark_jobs.delta import files_at, remove
from spark_jobs.engine_errors import ENGINE_ERRORS, first_cause, unforeseen
from spark_jobs.errors import Busy, Fault, Stopped, TidemarkError, UsageError
from spark_jobs.landing import kafka_gaps, kafka_offsets
from spark_jobs.landing.kafka_client import Away, Broker, Look, Partition, patiently
from spark_jobs.landing.kafka_offsets import Gap, Offsets
from spark_jobs.landing.kafka_settings import Settings
from spark_jobs.landing.land import Landed, Landing, land_rows
from spark_jobs.lock import alone
from spark_jobs.logs import log
from spark_jobs.places import Places
from spark_jobs.record import HEADERS, LAST_MILLIS

# A query that fails so often, without a batch between, fails for a reason that time doesn't cure.
_TRIES = 3
_KEEP_RECORDS = "Set cleanup.policy=delete, with a retention longer than any stop of landing."
# A landing that waits says so this often, in seconds: one that has died is known by when it last asked the broker.
_SIGN_OF_LIFE = 240
# However far batches lie apart, the broker is asked at least this often, in seconds, whether topics are what they were.
_LOOKS = 30
# What Spark says where a query that begins finds other partitions than the look before it did.
_OTHER_PARTITIONS = "you must specify all TopicPartitions"
# What Spark says, without a place, of a record whose time has more digits than milliseconds have.
_TOO_LATE = "long overflow"
# What it and Kafka's client say of a record that time doesn't mend.
_UNREADABLE = re.compile(rf"at offset \d+ is invalid|fetching the next record|corrupt message|{_TOO_LATE}")
_PASSED_OVER = (
    "What was landed is whole; the next run goes on from there. A record that can never be read is passed over by"
    ' --starting \'{"TOPIC": {"PARTITION": OFFSET}}\' with the offset behind it, and counted as a gap.'
)
_POLL = 0.2


@dataclass(frozen=True, slots=True)
class Topics:
    """What to land, and how.

    Attributes:
        servers: Addresses of brokers, `host:port`, with commas.
        pattern: A regular expression (Java's) that the whole name of a topic matches.
        settings: How the client connects.
        starting: Where the first landing begins; see `kafka_offsets.starting`.
        every: Seconds from a batch to the next, and so on until stopped; None to end with what there is now.
        most: Records in a batch at most.
        patience: Seconds for which a broker that is away is asked again.
    """

    servers: str
    pattern: str
    settings: Settings
    starting: str = "earliest"
    every: float | None = None
    most: int = 500_000
    patience: float = 60


@dataclass(slots=True)
class Streamed:
    """What became of a landing: its records, those that were lost before, and the topics that lose states.

    `is_begun` says that where it begins is stored.
    """

    landed: Landed = field(default_factory=Landed)
    gaps: list[Gap] = field(default_factory=list)
    compacted: list[str] = field(default_factory=list)
    waiting: int = 0
    is_begun: bool = False
    is_stopped: bool = False


@dataclass
class _Stream:
    """One run of a landing; its queries follow one another where a topic's life does."""

    spark: SparkSession
    places: Places
    topics: Topics
    run_id: str
    label: str
    writing: Callable[[], AbstractContextManager[None]]
    stop: threading.Event
    broker: Broker
    cluster_id: str = ""
    offsets: dict[Partition, Offsets] = field(default_factory=dict)
    ahead: list[Gap] = field(default_factory=list)
    until: Mapping[Partition, int] = field(default_factory=dict)
    has_begun: bool = False
    stored_at: float = 0
    policies: dict[str, str | None] = field(default_factory=dict)
    result: Streamed = field(default_factory=Streamed)
    queries: int = 0
    folder: str = ""
    batches: int = 0
    is_moved: bool = False
    in_batch: threading.Lock = field(default_factory=threading.Lock)
    failed: BaseException | None = None

    def run(self) -> None:
        """Query after query, until all is landed or the landing is stopped."""
        tries, answered, start = 0, time.monotonic(), kafka_offsets.starting(self.topics.starting)
        while not self.stop.is_set():
            self.begin(start)
            start = "earliest"  # what was asked for is stored now
            before = self.batches
            try:
                self.stream()
            except TidemarkError as error:
                if self.stop.is_set():
                    break
                if self.batches > before:
                    tries, answered = 0, time.monotonic()
                tries += 1
                is_awaited = isinstance(error, Away) and time.monotonic() - answered < self.topics.patience
                if isinstance(error, (UsageError, Busy)) or (tries >= _TRIES and not is_awaited):
                    raise
                log.warning("a batch failed and is tried again: %s", error)
                self.stop.wait(tries)
                continue
            if not self.is_moved and self.topics.every is None:
                break

    def begin(self, start: str | datetime | dict[Partition, int]) -> None:
        """Say and store where the next query begins.

        Args:
            start: For the first landing of the label: what comes to be later is read from its beginning, or a topic
                made between two runs would be passed over. Offsets alone count in any.
        """
        start_offsets = start if isinstance(start, dict) else {}
        where = "earliest" if start_offsets or self.has_begun else start

        def looked() -> tuple[Look, dict[Partition, int]]:
            look = self.broker.look()
            return look, kafka_offsets.first_offsets(self.broker, look, where)

        look, first = patiently(looked, self.topics.patience, self.stop.is_set)
        is_followed = any(self.broker.has(topic) for topic, _ in self.offsets)
        if not look.partitions and not is_followed and self.topics.every is None:
            some = ", ".join(sorted(look.topics)[:3])
            raise UsageError(
                f"--topics {self.topics.pattern}: none of the {len(look.topics)} topics at {self.topics.servers} has"
                f" such a name{f' (there are {some}, …)' if some else ''}. The whole name has to match."
            )
        with self.writing():
            begin = kafka_offsets.beginnings(look, self.offsets, first, start_offsets)
            offsets = self.with_policies(begin.offsets, look)
            gaps = kafka_gaps.stored_gaps(self.spark, self.places, self.label)
            self.ahead = kafka_gaps.gaps_ahead(gaps, self.offsets, offsets)
            self.put_parts({gap: [] for gap in self.ahead if gap.from_offset == gap.to_offset})
            self.keep(offsets, begin.gaps)
        self.is_moved, self.has_begun, self.result.is_begun = False, True, True

    def with_policies(self, offsets: dict[Partition, Offsets], look: Look) -> dict[Partition, Offsets]:
        """Ask once for what the broker does with old records of each topic, and say where that loses states.

        A user who may read topics need not be allowed to see their settings: then nothing is known of them.
        """
        asked = sorted({topic for topic, _ in look.partitions} - set(self.policies))
        try:
            new = self.broker.cleanup_policies(asked) if asked else {}
        except Away as error:
            log.info("cleanup policies of topics are not known yet: %s", error)
            return offsets
        self.policies |= new
        for topic, policy in new.items():
            if kafka_offsets.loses_states(policy) and not topic.startswith(kafka_offsets.HEARTBEATS):
                line = f"{topic}: its cleanup.policy is {policy}: {kafka_offsets.WHAT_COMPACTION_COSTS} {_KEEP_RECORDS}"
                log.warning("compacted: %s", line)
                self.result.compacted.append(line)
        return kafka_offsets.with_policies(offsets, self.policies)

    def put_parts(self, parts: Mapping[Gap, Sequence[Gap]]) -> None:
        """Store what is left of gaps of which something is landed now, and go on with that."""
        if parts:
            kafka_gaps.put_parts(self.spark, self.places, self.label, parts)
            self.ahead = [one for gap in self.ahead for one in parts.get(gap, [gap])]

    def keep(self, offsets: dict[Partition, Offsets], gaps: list[Gap]) -> None:
        """Store what is lost, then how far the rest is landed."""
        # A run that was killed behind its batch has landed what retention took since.
        parts = kafka_gaps.less_landed(self.spark, self.places, self.label, gaps)
        gaps = [one for gap in gaps for one in parts.get(gap, [gap])]
        kafka_gaps.store_gaps(self.spark, self.places, self.label, self.run_id, gaps)
        kafka_offsets.store(self.spark, self.places, self.label, self.cluster_id, offsets)
        # Only now: where either fails, the next try goes on from before the gaps, and finds them again.
        self.offsets = offsets
        for gap in gaps:
            log.warning("gap: %s", gap.line)
        self.stored_at = time.monotonic()
        self.result.gaps += gaps
        self.result.waiting = sum(one.lag_records or 0 for one in self.offsets.values())

    def stream(self) -> None:
        """One query, until it ends, is stopped, or a topic isn't what it was."""
        with self.checkpoint() as self.folder:
            self.failed = None
            query = self.query(self.folder)
            looked = time.monotonic()
            try:
                while not query.awaitTermination(_POLL):
                    if self.stop.is_set() or self.is_moved:
                        self.end(query)
                        return
                    every = self.topics.every
                    if every is not None and time.monotonic() - looked > min(max(every, 1), _LOOKS):
                        looked = time.monotonic()
                        self.watch()
            except (*ENGINE_ERRORS, OSError) as error:
                if self.stop.is_set() or self.is_moved:
                    return
                if isinstance(self.failed, TidemarkError):
                    raise self.with_hint(self.failed) from self.failed.__cause__
                cause = first_cause(self.topics.settings.redacted(str(error)))
                if _OTHER_PARTITIONS in cause:
                    self.is_moved = True  # a topic came or went behind the look: it is looked at again
                    return
                raise self.fault_of(cause) from (self.failed if isinstance(self.failed, ENGINE_ERRORS) else None)
            finally:
                with suppress(*ENGINE_ERRORS, OSError):  # where Spark is gone its query is too
                    if query.isActive:
                        self.end(query)

    def with_hint(self, failed: TidemarkError) -> TidemarkError:
        """What a batch failed with, and what to do where a record can't be read."""
        cause = str(failed)
        if failed.__cause__ is not None:  # words of another's are in it
            cause = self.topics.settings.redacted(cause)
        hint = f" {_PASSED_OVER}" if _UNREADABLE.search(cause) else ""
        if _TOO_LATE in cause:
            hint = f" The time of a record is later than the year 9999; {self.batch_in_words()}{hint}"
        return type(failed)(f"{cause}{hint}")

    def fault_of(self, cause: str) -> Fault:
        """What could not be done where the query ended by another error: write how far it is, land records, or read."""
        if isinstance(self.failed, ENGINE_ERRORS):
            return Fault(
                f"How far {self.topics.servers} is landed could not be written: {cause}. What is landed is whole; when"
                " the cause is gone, the next landing goes on behind it."
            )
        if self.failed is not None and not _UNREADABLE.search(str(self.failed)):
            cause = self.topics.settings.redacted(unforeseen(self.failed))
            return Fault(
                f"Records of {self.topics.servers} could not be landed: {cause}. What was landed is whole; the next run"
                " goes on from there, once the cause is gone."
            )
        return Fault(f"Records of {self.topics.servers} could not be read: {cause}. {_PASSED_OVER}")

    def batch_in_words(self) -> str:
        """Where the records of the newest batch are."""
        parts = [
            f"{topic} {partition}: {self.offsets[topic, partition].next_offset} to {until - 1}"
            for (topic, partition), until in sorted(self.until.items())
            if (topic, partition) in self.offsets and self.offsets[topic, partition].next_offset < until
        ]
        return f"the batch has offsets {'; '.join(parts)}, and --max-records makes a smaller one."

    def watch(self) -> None:
        """See between batches whether the query can go on."""
        try:
            offsets = self.offsets  # before the look: a batch can end meanwhile
            look = self.broker.look()
        except Away as error:
            log.warning("%s", error)
            self.is_moved = True  # the next query begins when it answers again
            return
        self.is_moved = kafka_offsets.has_moved(offsets, look)
        if not self.is_moved and time.monotonic() - self.stored_at > _SIGN_OF_LIFE:
            with suppress(Busy), self.writing():  # no batch ends meanwhile
                self.keep(kafka_offsets.seen(self.offsets, look), [])

    def end(self, query: StreamingQuery) -> None:
        """Stop a query behind the batch that it is at."""
        with self.in_batch:
            query.stop()

    def query(self, folder: str) -> StreamingQuery:
        """Begin to stream from where partitions are landed to."""
        begin: dict[str, dict[str, int]] = {}
        for (topic, partition), one in self.offsets.items():
            if not one.is_gone and self.broker.has(topic):
                begin.setdefault(topic, {})[str(partition)] = one.next_offset
        options = {f"kafka.{name}": value for name, value in self.topics.settings.properties.items()} | {
            "kafka.bootstrap.servers": self.topics.servers,
            # Spark takes a name of which any part matches.
            "subscribePattern": rf"\A(?:{self.topics.pattern})\z",
            "startingOffsets": json.dumps(begin),
            "includeHeaders": "true",
            # What is lost is found by `kafka_offsets`, stored and told, and the rest landed.
            "failOnDataLoss": "false",
            "maxOffsetsPerTrigger": str(self.topics.most),
            "kafkaConsumer.pollTimeoutMs": str(int(min(max(self.topics.patience, 10), 120) * 1000)),
        }
        stream = self.spark.readStream.format("kafka").options(**options).load().writeStream
        pace: dict[str, Any] = {"availableNow": True}
        if self.topics.every is not None:
            pace = {"processingTime": f"{int(self.topics.every * 1000)} milliseconds"}
        return (
            stream.foreachBatch(lambda rows, number: self.land(rows, number, folder))
            .option("checkpointLocation", folder)
            .trigger(**pace)
            .start()
        )

    def land(self, rows: DataFrame, number: int, folder: str) -> None:
        """Land a batch of a query, and store that it is."""
        # Whoever ends the query has it, and waits for this batch: waiting in turn would be for ever.
        if not self.in_batch.acquire(blocking=False):
            raise Stopped
        try:
            # A query that didn't end in time when it was stopped may still come with a batch.
            if self.stop.is_set() or self.is_moved or folder != self.folder:
                raise Stopped
            spark = rows.sparkSession
            # Streams turn it off for the sake of state, which this query has none of.
            spark.conf.set("spark.sql.adaptive.enabled", "true")
            records = _as_records(rows, self.topics.servers, self.label)
            survey: list[Row] = []
            self.until = _planned(spark, folder, number)
            with self.writing():
                landing = Landing(self.run_id, datetime.now(UTC), self.label)
                landed = land_rows(spark, self.places, records, landing, check=survey.extend)
                self.result.landed.add(landed)  # bronze has them, whatever fails behind this
                look = self.broker.look()
                offsets, gaps = kafka_offsets.landed_until(self.offsets, self.until, survey, look)
                if self.ahead:
                    stored = kafka_gaps.stored_gaps(self.spark, self.places, self.label)
                    self.ahead = kafka_gaps.still_stored(self.ahead, stored)
                # Not before: until a gap is landed, what it has can be a read of a snapshot (R16).
                self.put_parts(kafka_gaps.unread_parts(self.ahead, self.offsets, offsets, gaps))
                self.keep(self.with_policies(offsets, look), gaps)
            self.is_moved = kafka_offsets.has_moved(self.offsets, look)
            self.batches += 1
            log.info("batch %s: %s, %s records wait", number, landed, self.result.waiting)
        except BaseException as error:
            self.failed = error
            raise
        finally:
            self.in_batch.release()

    @contextmanager
    def checkpoint(self) -> Iterator[str]:
        """A folder for a query's own checkpoint; those that killed runs left are removed."""
        self.queries += 1
        base = f"{self.places.lakehouse}/ops/_kafka/{hashlib.sha256(self.label.encode()).hexdigest()[:12]}"
        remove(self.spark, base)
        try:
            yield f"{base}/{self.run_id}-{self.queries}"
        finally:
            with suppress(*ENGINE_ERRORS, OSError):
                remove(self.spark, base)


def land_topics(
    spark: SparkSession,
    places: Places,
    topics: Topics,
    run_id: str,
    label: str,
    writing: Callable[[], AbstractContextManager[None]],
    stop: threading.Event,
    result: Streamed,
) -> Streamed:
    """Land topics; what bronze holds already adds nothing.

    Args:
        spark: The session.
        places: Whose bronze.
        topics: What to land, and how.
        run_id: The run.
        label: The cluster's name in bronze (R1).
        writing: Holds the lakehouse while a batch is written, so that builds come between batches.
        stop: Set to end the landing behind the batch that it is at.
        result: What is filled in and given back, for who wants it of a landing that fails, too.

    Raises:
        UsageError: An option or setting can't be.
        Busy: Another process lands the same label.
        Fault: The broker was away for too long, refuses who asks, or Spark could not read or write.
    """
    with alone(places, f"kafka-{hashlib.sha256(label.encode()).hexdigest()[:12]}", f"the topics of {label}"):
        broker = patiently(
            lambda: Broker(spark, topics.servers, topics.pattern, topics.settings, topics.patience),
            topics.patience,
            stop.is_set,
        )
        stream = _Stream(spark, places, topics, run_id, label, writing, stop, broker, result=result)
        try:
            stream.cluster_id = patiently(broker.cluster_id, topics.patience, stop.is_set)
            stream.offsets, before = kafka_offsets.stored(spark, places, label)
            if before not in (None, stream.cluster_id):
                raise UsageError(
                    f"--kafka {topics.servers} is cluster {stream.cluster_id}; the records of {label} came from"
                    f" cluster {before}. Give the new one a name of its own: --source-label NAME."
                )
            stream.has_begun = before is not None
            stream.run()
        except Stopped:
            pass
        finally:
            broker.close()
    stream.result.is_stopped = stop.is_set()
    return stream.result


def _as_records(rows: DataFrame, servers: str, label: str) -> DataFrame:
    """Records as `records_of` gives those of a file."""
    nothing = F.lit(None).cast("string")
    millis = F.unix_millis("timestamp")
    return rows.select(
        nothing.alias("line"),
        F.lit(f"kafka://{servers}").alias("origin"),
        nothing.alias("reason"),
        "topic",
        "partition",
        "offset",
        F.when(millis.between(0, LAST_MILLIS), F.col("timestamp")).alias("timestamp"),
        "key",
        "value",
        F.coalesce("headers", F.array().cast(HEADERS)).alias("headers"),
        F.lit(label).alias("source_label"),
    ).withColumn("content_hash", bronze.content_hash())


def _planned(spark: SparkSession, folder: str, number: int) -> Mapping[Partition, int]:
    """Where a batch ends in each partition, as the query wrote down before it began the batch."""
    files, path = files_at(spark, f"{folder}/offsets/{number}")
    opened = files.open(path)
    try:
        lines = spark._jvm.org.apache.commons.io.IOUtils.toString(opened, "UTF-8").splitlines()
    finally:
        opened.close()
    return {
        (topic, int(partition)): int(offset)
        for topic, parts in json.loads(lines[2]).items()
        for partition, offset in parts.items()
    }
