"""Topics of a real broker into bronze: each record once, what is lost told, whatever happens to broker and landing.

One broker and one lakehouse for all; each test has its own topics, and its own label where it needs a first landing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs import run_memory
from spark_jobs.cli import main
from spark_jobs.errors import Busy, Fault, UsageError
from spark_jobs.landing import kafka_gaps, kafka_offsets
from spark_jobs.landing.kafka import Streamed, Topics, land_topics
from spark_jobs.landing.kafka_client import Broker as Client
from spark_jobs.landing.kafka_client import Look
from spark_jobs.landing.kafka_offsets import Gap, Offsets
from spark_jobs.landing.kafka_settings import Settings
from spark_jobs.landing.land import Landing, land_files
from spark_jobs.lock import writing
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.reporting import kafka as reporting
from spark_jobs.schedule import Outcome, Task, run_every
from tests.broker import PASSWORD, STORE_PASSWORD, USER, Broker
from tests.pipeline.test_readme import blocks, commands_of
from tests.projects import PROJECT, empty_project, forget_tables, rows_of
from tests.servers import program
from tests.source import Column, Source, Table
from tests.unit.test_schedule_examples import EXAMPLES

# A landing whose broker is away ends when Spark's own readers give up: in two minutes, beside other tests in more.
# A process of its own lands its first batch after 50 seconds of a machine that has nothing else to do.
PATIENCE = 500
POISON = {"key": b"\xff\xfe", "value": b"{poison", "headers": [("trace", b"\x00\xff"), ("none", None)]}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    one = Broker(tmp_path_factory.mktemp("kafka") / "broker")
    one.start()
    yield one
    one.stop()


@dataclass
class Lake:
    """A lakehouse of its own that topics are landed in."""

    spark: SparkSession
    places: Places
    broker: Broker
    stop: threading.Event = field(default_factory=threading.Event)

    def land(
        self, pattern: str, label: str = "default", settings: Mapping[str, str] | None = None, **more: Any
    ) -> Streamed:
        """Land topics once, or with `every` until stopped."""
        arguments: dict[str, Any] = {"servers": self.broker.address, "patience": 30.0} | more
        topics = Topics(pattern=pattern, settings=Settings.of(settings or {}), **arguments)
        run_id = datetime.now(UTC).isoformat()

        def alone() -> AbstractContextManager[None]:
            return writing(self.places, run_id, "land", PATIENCE)

        return land_topics(self.spark, self.places, topics, run_id, label, alone, self.stop, Streamed())

    def rows(self, name: str, topic: str, label: str = "default") -> list[dict[str, Any]]:
        """A topic's rows of `bronze.records`, `bronze.quarantine`, `ops.kafka_offsets` or `ops.kafka_gaps`."""
        location = self.places.table("ops" if name.startswith("kafka") else "bronze", name)
        if not DeltaTable.is_deltatable(location):
            return []
        found = [one for one in rows_of(location) if one["topic"] == topic and one["source_label"] == label]
        return sorted(found, key=lambda one: (one["partition"], one.get("offset", 0)))

    def offsets(self, topic: str, label: str = "default") -> list[tuple[int, int]]:
        """Where a topic's records in bronze are."""
        return [(one["partition"], one["offset"]) for one in self.rows("records", topic, label)]

    def gaps(self, topic: str, label: str = "default") -> list[tuple[int, int, int | None, str]]:
        """A topic's gaps: first offset, the one behind the last, records, why."""
        found = self.rows("kafka_gaps", topic, label)
        return sorted((one["from_offset"], one["to_offset"], one["records"], one["reason"]) for one in found)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    home = tmp_path_factory.mktemp("kafka-lake")
    places = Places(empty_project(home / "project"), str(home / "lakehouse"), str(home / "catalog"))
    return Lake(spark, places, broker)


@pytest.fixture
def sooner(lake: Lake) -> Iterator[None]:
    """Let a query that is stopped wait for its broker no longer than a test can."""
    name = "spark.sql.streaming.stopTimeout"
    before = lake.spark.conf.get(name)
    lake.spark.conf.set(name, "5s")
    yield
    lake.spark.conf.set(name, before)


def changes(topic: str, begin: int, end: int, **more: Any) -> list[dict[str, Any]]:
    """Changes of a table; their log's positions follow their numbers."""
    prefix, _, table = topic.split(".")
    source = {"connector": "postgresql", "name": prefix, "db": "d", "schema": "public", "table": table, "txId": 1}
    return [
        {
            "topic": topic,
            "key": json.dumps({"id": number}).encode(),
            "value": json.dumps(
                {"op": "c", "after": {"id": number}, "source": {**source, "lsn": number, "ts_ms": 1000}, "ts_ms": 2000}
            ).encode(),
            **more,
        }
        for number in range(begin, end)
    ]


def eventually(is_so: Callable[[], bool]) -> bool:
    """Whether something comes to be so."""
    deadline = time.monotonic() + PATIENCE
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.1)
    return is_so()


@contextmanager
def meanwhile(lake: Lake, pattern: str, label: str, **more: Any) -> Iterator[list[Any]]:
    """Land in a thread of its own; the list has what it came to, or its error, once it ends, at last with the block."""
    ended: list[Any] = []

    def land() -> None:
        try:
            ended.append(lake.land(pattern, label, **more))
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=land)
    thread.start()
    try:
        yield ended
    finally:
        lake.stop.set()
        thread.join(PATIENCE)
        lake.stop.clear()


def test_a_topic_landed_from_kafka_and_from_files_has_each_record_once(
    lake: Lake, broker: Broker, tmp_path: Path
) -> None:
    source, table = Source("once"), Table("orders", [Column("id"), Column("name")], ("id",))
    for number in range(20):
        with source.commit():
            source.insert(table, {"id": str(number), "name": "é"})
    with source.commit():
        source.delete(table, next(iter(table.rows.values())))
    [topic] = {one["topic"] for one in source.records}
    broker.make(topic)
    broker.produce(
        {
            "topic": topic,
            "timestamp": one["timestamp"],
            **{part: None if one[part] is None else one[part].encode() for part in ("key", "value")},
            "headers": [(header["key"], header["value"].encode()) for header in one["headers"]],
        }
        for one in source.records
    )
    broker.produce([{"topic": topic, **POISON}])

    streamed = lake.land(r"once\..*")
    known = len(source.records)
    assert (streamed.landed.read, streamed.landed.landed, streamed.landed.quarantined) == (known + 1, known, 1)
    [held] = lake.rows("quarantine", topic)
    assert (held["code"], held["key"], held["value"]) == ("not-unicode", POISON["key"], POISON["value"])
    landed = lake.rows("records", topic)
    written = broker.consumed(topic)[:known]
    assert [(one["key"], one["value"]) for one in landed] == [(one.key(), one.value()) for one in written]
    assert [[(h["key"], h["value"]) for h in one["headers"]] for one in landed] == [
        one.headers() or [] for one in written
    ]
    assert [round(one["timestamp"].timestamp() * 1000) for one in landed] == [one.timestamp()[1] for one in written]
    assert landed[-1]["value"] is None, "a tombstone"

    file = tmp_path / "same.jsonl"
    file.write_text(source.lines())
    again = land_files(lake.spark, lake.places, [str(file)], Landing("files", datetime.now(UTC)))
    assert (again.read, again.landed, again.known) == (known, 0, known)
    commits = len(list(Path(lake.places.table("bronze", "records")).glob("_delta_log/*.json")))
    nothing = lake.land(r"once\..*")
    assert nothing.landed.read == 0
    assert len(list(Path(lake.places.table("bronze", "records")).glob("_delta_log/*.json"))) == commits


def test_a_lost_checkpoint_costs_time_and_nothing_else(lake: Lake, broker: Broker) -> None:
    broker.make("cp.public.t")
    broker.produce(changes("cp.public.t", 0, 5))
    lake.land(r"cp\..*", "cp")
    lake.spark.sql(f"delete from delta.`{lake.places.table('ops', 'kafka_offsets')}` where source_label = 'cp'")

    streamed = lake.land(r"cp\..*", "cp")
    assert (streamed.landed.read, streamed.landed.known) == (5, 5)
    assert lake.offsets("cp.public.t", "cp") == [(0, number) for number in range(5)]


def test_batches_are_as_large_as_allowed_and_new_topics_and_partitions_are_read_whole(
    lake: Lake, broker: Broker
) -> None:
    broker.make("new.public.a")
    broker.produce(changes("new.public.a", 0, 10))
    streamed = lake.land(r"new\..*", "new", most=4, starting="latest")
    assert streamed.landed.read == 0, "what was there before is not asked for"

    broker.produce(changes("new.public.a", 10, 20))
    broker.widen("new.public.a", 2)
    broker.make("new.public.b")
    broker.produce(changes("new.public.a", 20, 23, partition=1) + changes("new.public.b", 0, 3))
    lake.land(r"new\..*", "new", most=4, starting="latest")
    assert lake.offsets("new.public.a", "new") == [(0, n) for n in range(10, 20)] + [(1, n) for n in range(3)]
    assert lake.offsets("new.public.b", "new") == [(0, n) for n in range(3)]
    batches = {one["batch_id"] for one in lake.rows("records", "new.public.a", "new")}
    assert len(batches) >= 3


POLICIES = {"comp.public.t": "compact", "comp.public.both": "compact,delete", "comp.public.whole": "delete"}


@pytest.fixture(scope="module")
def together(lake: Lake, broker: Broker) -> Streamed:
    """One landing, labelled so, of topics whose names look alike, that are compacted, or that have transactions."""
    for topic in ("whole.public.t", "un-whole.public.t", "whole.public.t-too"):
        broker.make(topic)
        broker.produce(changes(topic, 0, 3))
    for topic, policy in POLICIES.items():
        broker.make(topic, 1, **{"cleanup.policy": policy})
        broker.produce(changes(topic, 0, 2))
    broker.make("tx.public.t")
    broker.produce(changes("tx.public.t", 0, 3), transaction="tx")
    broker.produce(changes("tx.public.t", 3, 6), transaction="tx", commit=False)
    broker.produce(changes("tx.public.t", 6, 8), transaction="tx")
    broker.produce(changes("tx.public.t", 8, 9), transaction="hangs", commit=None)
    return lake.land(r"whole\..*t|comp\..*|tx\..*|no", "together")


def test_the_pattern_names_topics_whole(together: Streamed, lake: Lake) -> None:
    assert lake.offsets("whole.public.t", "together") == [(0, 0), (0, 1), (0, 2)]
    assert together.landed.read == 3 + 2 * len(POLICIES) + 5


def test_a_topic_that_is_made_while_a_landing_begins_is_landed(
    lake: Lake, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.make("begin.public.a")
    broker.produce(changes("begin.public.a", 0, 3))
    looked = Client.look

    def look(self: Client) -> Look:
        found = looked(self)
        if "begin.public.b" not in found.topics:
            broker.make("begin.public.b")
            broker.produce(changes("begin.public.b", 0, 2))
        return found

    monkeypatch.setattr(Client, "look", look)
    streamed = lake.land(r"begin\..*", "begin")
    assert streamed.landed.read == 5
    assert lake.offsets("begin.public.b", "begin") == [(0, 0), (0, 1)]


def test_the_first_landing_begins_at_a_time_or_at_offsets(lake: Lake, broker: Broker) -> None:
    broker.make("at.public.t")
    for number in range(6):
        broker.produce(changes("at.public.t", number, number + 1, timestamp=1_700_000_000_000 + number * 1000))

    lake.land(r"at\..*", "time", starting="2023-11-14T22:13:23Z")
    assert lake.offsets("at.public.t", "time") == [(0, 3), (0, 4), (0, 5)]
    lake.land(r"at\..*", "offsets", starting='{"at.public.t": {"0": 4}}')
    assert lake.offsets("at.public.t", "offsets") == [(0, 4), (0, 5)]

    broker.produce(changes("at.public.t", 6, 9))
    streamed = lake.land(r"at\..*", "offsets", starting='{"at.public.t": {"0": 8}}')
    assert lake.offsets("at.public.t", "offsets") == [(0, 4), (0, 5), (0, 8)]
    assert [one.line for one in streamed.gaps] == [
        "at.public.t, partition 0: 2 records (offsets 6 to 7) were skipped, as --starting asked."
    ]


def test_a_landing_that_began_before_there_was_a_topic_misses_nothing_of_it(lake: Lake, broker: Broker) -> None:
    broker.make("cluster.public.t")
    lake.land(r"cluster\..*", "cluster")
    _, cluster = kafka_offsets.stored(lake.spark, lake.places, "cluster")
    assert cluster is not None
    kafka_offsets.store(lake.spark, lake.places, "early", cluster, {})
    assert kafka_offsets.stored(lake.spark, lake.places, "early") == ({}, cluster)
    assert "early" not in {one.source_label for one in reporting.lags(lake.spark, lake.places)}
    broker.make("early.public.t")
    broker.produce(changes("early.public.t", 0, 3))

    lake.land(r"early\..*", "early", starting="latest")
    assert lake.offsets("early.public.t", "early") == [(0, 0), (0, 1), (0, 2)]


def test_a_gap_of_what_is_read_after_all_is_one_no_more(lake: Lake, broker: Broker) -> None:
    topic = "again.public.t"
    broker.make(topic)
    broker.produce(changes(topic, 0, 14))
    lake.land(r"again\..*", "again", starting='{"again.public.t": {"0": 13}}')
    [known] = kafka_offsets.stored(lake.spark, lake.places, "again")[0].values()
    skipped = Gap(topic, 0, known.topic_id, 10, 13, 3, "skipped")
    kafka_gaps.store_gaps(lake.spark, lake.places, "again", "skips", [skipped])
    assert lake.gaps(topic, "again") == [(10, 13, 3, "skipped")]
    lake.land(r"again\..*", "again", starting='{"again.public.t": {"0": 12}}')
    assert lake.gaps(topic, "again") == [(10, 12, 2, "skipped")]

    # Runs that were killed behind a gap, before they passed over it, left the second.
    kafka_gaps.store_gaps(lake.spark, lake.places, "again", "killed", [replace(skipped, from_offset=13, to_offset=14)])
    lake.land(r"again\..*", "again", starting='{"again.public.t": {"0": 10}}')
    assert lake.offsets(topic, "again") == [(0, n) for n in range(10, 14)]
    assert lake.gaps(topic, "again") == [], "those from where it goes on are none"


def loses_four_of_twenty(lake: Lake, broker: Broker, topic: str, label: str) -> None:
    """Land ten records of a new topic, send ten more, and have retention take the first four of those."""
    broker.make(topic)
    broker.produce(changes(topic, 0, 10))
    lake.land(re.escape(topic), label)
    broker.produce(changes(topic, 10, 20))
    broker.lose(topic, 14)


def test_what_retention_took_is_a_gap_and_a_topic_made_anew_is_read_from_its_beginning(
    lake: Lake, broker: Broker
) -> None:
    topic = "lost.public.t"
    loses_four_of_twenty(lake, broker, topic, "lost")
    [known] = lake.rows("kafka_offsets", topic, "lost")
    # A run that was killed behind this saw less of it.
    begun = Gap(topic, 0, known["topic_id"], 10, 12, 2, "retention")
    kafka_gaps.store_gaps(lake.spark, lake.places, "lost", "killed", [begun])

    streamed = lake.land(r"lost\..*", "lost")
    assert lake.offsets(topic, "lost") == [(0, n) for n in [*range(10), *range(14, 20)]]
    assert lake.gaps(topic, "lost") == [(10, 14, 4, "retention")]
    assert [one.records for one in streamed.gaps] == [4]
    [lag] = [one for one in reporting.lags(lake.spark, lake.places) if one.topic == topic]
    assert (lag.records, lag.seconds, lag.is_gone) == (0, 0, False)
    [gap] = [one for one in reporting.gaps(lake.spark, lake.places) if one.topic == topic]
    assert gap.is_loss
    assert f"{topic} (label lost), partition 0: 4 records (offsets 10 to 13) were removed by retention" in gap.line

    broker.produce(changes(topic, 20, 23))
    broker.remove(topic)
    broker.make(topic)
    broker.produce(changes(topic, 100, 125))
    lake.land(r"lost\..*", "lost")
    unseen = (20, 20, None, "topic_made_anew")
    assert lake.gaps(topic, "lost") == [(10, 14, 4, "retention"), unseen], "how far it went is not known"
    assert sorted(json.loads(one["key"])["id"] for one in lake.rows("records", topic, "lost"))[-25:] == [
        *range(100, 125)
    ]
    assert lake.land(r"lost\..*", "lost").landed.read == 0


def test_what_bronze_has_is_in_no_gap(lake: Lake, broker: Broker, tmp_path: Path) -> None:
    topic = "held.public.t"

    def land_file(offset: int, value: str | None = None, behind: str = "") -> None:
        [change] = changes(topic, offset, offset + 1)
        text = {name: change[name].decode() for name in ("key", "value")} | ({} if value is None else {"value": value})
        file = tmp_path / f"{offset}.jsonl"
        file.write_text(json.dumps({"topic": topic, "partition": 0, "offset": offset, **text}) + behind + "\n")
        land_files(lake.spark, lake.places, [str(file)], Landing("files", datetime.now(UTC), "held"))

    broker.make(topic)
    broker.produce(changes(topic, 0, 10))
    lake.land(re.escape(topic), "held")
    broker.produce(changes(topic, 10, 20))
    land_file(10)  # as by a landing that was killed behind its batch
    broker.lose(topic, 14)
    assert [one.records for one in lake.land(re.escape(topic), "held").gaps] == [3]
    assert lake.gaps(topic, "held") == [(11, 14, 3, "retention")]

    land_file(13, behind=" and more")
    assert lake.gaps(topic, "held") == [(11, 14, 3, "retention")], "a line that is held is not its record"
    land_file(12, "no JSON")
    assert lake.gaps(topic, "held") == [(11, 12, 1, "retention"), (13, 14, 1, "retention")]
    for offset in (11, 13):
        land_file(offset)
    assert lake.gaps(topic, "held") == []


@dataclass
class Ran:
    """A run over TLS: what it came to, what it wrote for machines, and what it printed."""

    topic: str
    status: int
    summary: dict[str, Any]
    metrics: str
    printed: str


@pytest.fixture(scope="module")
def ran(lake: Lake, broker: Broker) -> Ran:
    """A run over a gap, by who has a password and a certificate; more records come while its batch is landed."""
    topic, home = "run.public.t", lake.places.project.parent
    loses_four_of_twenty(lake, broker, topic, "run")
    looked, looks = Client.look, 0

    def look(self: Client) -> Look:
        nonlocal looks
        looks += 1
        if looks == 2:  # behind the batch, whose end was known before it
            broker.produce(changes(topic, 20, 25))
        return looked(self)

    forget_tables(lake.spark)
    summary, metrics = home / "run.json", home / "tidemark.prom"
    command = ["run", "--kafka", broker.secured, "--topics", r"run\..*", "--source-label", "run", "--project-dir",
               str(lake.places.project), "--summary", str(summary), "--metrics", str(metrics)]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, StringIO() as printed:
        patch.setattr(Client, "look", look)
        for name, value in (who(broker) | {"TIDEMARK_LAKEHOUSE": lake.places.lakehouse}).items():
            patch.setenv(name, value)
        with redirect_stdout(printed), redirect_stderr(printed):
            status = main(command)
        ran = Ran(topic, status, json.loads(summary.read_text()), metrics.read_text(), printed.getvalue())
    forget_tables(lake.spark)
    return ran


def who(broker: Broker, password: str = PASSWORD, store_password: str = STORE_PASSWORD) -> dict[str, str]:
    """Who asks the broker over TLS: a password in the environment, a certificate's store in a file."""
    file = broker.folder / "who.properties"
    file.write_text(
        f"ssl.keystore.type=PKCS12\nssl.keystore.location={broker.client}\nssl.keystore.password={store_password}\n"
    )
    return {
        "TIDEMARK_KAFKA_USER": USER, "TIDEMARK_KAFKA_PASSWORD": password,
        "TIDEMARK_KAFKA_CA": str(broker.authority), "TIDEMARK_KAFKA_FILE": str(file),
    }  # fmt: skip


def test_a_run_lands_topics_and_tells_machines_of_gaps_and_lag(ran: Ran, lake: Lake) -> None:
    assert (ran.status, ran.summary["landed"]["landed"]) == (0, 6), ran.printed
    [gap] = [one for one in ran.summary["gaps"] if one["topic"] == ran.topic]
    assert (gap["from_offset"], gap["records"]) == (10, 4)
    assert f'tidemark_topic_gap_records{{reason="retention",source_label="run",topic="{ran.topic}"}} 4.0' in ran.metrics
    assert f'tidemark_topic_looked_at_timestamp_seconds{{source_label="run",topic="{ran.topic}"}} 1.7' in ran.metrics

    [waiting] = lake.rows("kafka_offsets", ran.topic, "run")
    assert (waiting["next_offset"], waiting["end_offset"], waiting["lag_records"]) == (20, 25, 5)
    assert waiting["lag_seconds"] == (waiting["looked_at"] - waiting["newest_at"]).total_seconds() > 0
    report = Path(ran.summary["report"])
    for lags in (ran.summary["lag"], json.loads(report.with_name("report.json").read_text())["lags"]):
        [lag] = [one for one in lags if one["topic"] == ran.topic]
        assert (lag["records"], lag["seconds"]) == (5, waiting["lag_seconds"])
    assert f'tidemark_topic_lag_records{{source_label="run",topic="{ran.topic}"}} 5.0' in ran.metrics
    assert re.search(rf"<td><bdi>{ran.topic}</bdi></td><td><bdi>run</bdi></td>\n *<td .*>5</td>", report.read_text())


def test_no_secret_is_in_what_runs_write_or_print(
    ran: Ran,
    lake: Lake,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(properties(broker, f"not {PASSWORD}"))
    wrong: list[Callable[[], dict[str, str]]] = [
        lambda: who(broker, password=f"not {PASSWORD}"),
        lambda: who(broker, store_password=f"not {STORE_PASSWORD}"),
        lambda: {"TIDEMARK_KAFKA_FILE": str(file)},
        lambda: {
            "TIDEMARK_KAFKA_CERTIFICATE": str(broker.client.with_suffix(".pem")),
            "TIDEMARK_KAFKA_KEY_PASSWORD": STORE_PASSWORD,
        },
    ]
    refused = []
    for settings in wrong:
        with monkeypatch.context() as patch:
            for name, value in (settings() | {"TIDEMARK_LAKEHOUSE": lake.places.lakehouse}).items():
                patch.setenv(name, value)
            refused.append(main(["land", "--kafka", broker.secured, "--topics", ".*", "--source-label", "refused",
                                 "--project-dir", str(lake.places.project)]))  # fmt: skip
    assert refused == [3, 2, 3, 2]

    printed = ran.printed + "".join(capfd.readouterr())
    assert "openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES" in printed, "what Java reads of keys with a password"
    found = {"printed": printed.encode()} | said_below(lake.places.project.parent)
    places_that_tell = [name for name, said in found.items() if ran.topic.encode() in said]
    places = ("printed", "run.json", "tidemark.prom", "report.html", "ops/kafka_offsets", "bronze/records")
    assert all(any(name.endswith(place) for name in places_that_tell) for place in places), (
        f"no search that finds: {places_that_tell}"
    )
    assert {"project/logs/dbt.log", "project/target/run_results.json", "project/target/manifest.json"} <= found.keys()
    logged = b"".join(said for name, said in found.items() if re.search(r"lakehouse/logs/[^/]*\.log$", name))
    assert logged.count(b"land started") == 4
    secrets = [PASSWORD[:4].encode(), STORE_PASSWORD.encode(), b"LoginModule"]
    assert [(name, one) for name, said in found.items() for one in secrets if one in said] == []


def properties(broker: Broker, password: str) -> str:
    """A file of settings as Kafka's own tools take it."""
    escaped = password.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
    return (
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={broker.authority}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        f'  username="{USER}" password="{escaped}";\n'
    )


def said_below(folder: Path) -> dict[str, bytes]:
    """What stands below a folder: the bytes of its files, and the rows of its Delta tables, which are compressed."""
    files = {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    tables = {log.parent for log in folder.rglob("_delta_log")}
    return files | {str(one.relative_to(folder)): repr(rows_of(str(one))).encode() for one in tables}


def test_a_topic_that_the_broker_compacts_is_told(together: Streamed, lake: Lake) -> None:
    assert [one.split(": it removes")[0] for one in together.compacted] == [
        "comp.public.both: its cleanup.policy is compact,delete", "comp.public.t: its cleanup.policy is compact",
    ]  # fmt: skip
    stored = {name: lake.rows("kafka_offsets", name, "together")[0]["cleanup_policy"] for name in POLICIES}
    assert stored == POLICIES
    policies = reporting.compacted(lake.spark, lake.places)
    assert {name: policy for name, policy in policies.items() if name.startswith("comp.")} == {
        name: policy for name, policy in policies.items() if policy != "delete"
    }


def test_aborted_transactions_were_never_sent_and_their_marks_are_no_gap(together: Streamed, lake: Lake) -> None:
    topic = "tx.public.t"
    ids = [json.loads(one["key"])["id"] for one in lake.rows("records", topic, "together")]
    assert ids == [0, 1, 2, 6, 7]
    [offsets] = lake.rows("kafka_offsets", topic, "together")
    assert (offsets["lag_records"], lake.gaps(topic, "together"), together.gaps) == (0, [], [])
    assert offsets["lag_seconds"] == (offsets["looked_at"] - offsets["open_since"]).total_seconds() > 0, "one hangs"


def test_an_older_table_is_given_the_columns_that_it_lacks(lake: Lake, tmp_path: Path) -> None:
    places, at = Places(tmp_path, str(tmp_path / "lakehouse"), ""), datetime.now(UTC)
    older = kafka_offsets.OFFSETS.partition(", cleanup_policy")[0]
    lake.spark.sql(f"create table {table_at(places.table('ops', 'kafka_offsets'))} ({older}) using delta")
    known = {("t", 0): Offsets("t", 0, "a", 5, 9, looked_at=at, cleanup_policy="delete", open_since=at)}

    kafka_offsets.store(lake.spark, places, "older", "cluster", known)
    assert kafka_offsets.stored(lake.spark, places, "older") == (known, "cluster")


def test_over_tls_with_a_password(lake: Lake, broker: Broker, tmp_path: Path) -> None:
    broker.make("tls.public.t")
    broker.produce(changes("tls.public.t", 0, 2))
    trusting = {"TIDEMARK_KAFKA_CA": str(broker.authority)}
    right = {"TIDEMARK_KAFKA_USER": USER, "TIDEMARK_KAFKA_PASSWORD": PASSWORD, **trusting}
    assert lake.land(r"tls\..*", "tls", right, servers=broker.secured).landed.landed == 2

    file = tmp_path / "client.properties"
    file.write_text(properties(broker, PASSWORD))
    assert lake.land(r"tls\..*", "tls", {"TIDEMARK_KAFKA_FILE": str(file)}, servers=broker.secured).landed.read == 0

    wrong = right | {"TIDEMARK_KAFKA_PASSWORD": "planted-secret"}
    with pytest.raises(Fault, match=r"don't accept each other .* TIDEMARK_KAFKA_PASSWORD") as refused:
        lake.land(r"tls\..*", "tls", wrong, servers=broker.secured)
    assert "planted-secret" not in str(refused.value)
    with pytest.raises(Fault, match="a certificate has expired"):
        lake.land(r"tls\..*", "tls", trusting, servers=broker.expired)


def test_a_record_that_can_not_be_read_is_tried_three_times_and_passed_over_when_asked(
    lake: Lake, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, logs, summary = "torn.public.t", Path(lake.places.lakehouse, "logs"), tmp_path / "run.json"
    broker.make(topic)
    broker.produce(changes(topic, 0, 1))
    lake.land(r"torn\..*", "torn")
    for number in range(1, 5):
        broker.produce(changes(topic, number, number + 1))  # a batch of the broker's each
    broker.lose(topic, 2)
    broker.tear(topic, b'"after": {"id": 3}')
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", lake.places.lakehouse)
    arguments = ["--kafka", broker.address, "--topics", r"torn\..*", "--source-label", "torn", "--max-records", "1",
            "--project-dir", str(lake.places.project)]  # fmt: skip
    before = set(logs.glob("*.log"))

    assert main(["run", *arguments, "--summary", str(summary)]) == 3
    said = capsys.readouterr().err
    assert re.search(rf"tidemark: .*{topic}-0 at offset 3 is invalid.* passed over by --starting", said), said
    [logged] = set(logs.glob("*.log")) - before
    assert logged.read_text().count("a batch failed and is tried again") == 2
    assert lake.offsets(topic, "torn") == [(0, 0), (0, 2)], "what is before it is landed"
    run = json.loads(summary.read_text())
    assert (run["status"], run["landed"]["landed"]) == (3, 1), "and so the summary says"
    [gap] = [one for one in run["gaps"] if one["topic"] == topic]
    assert (gap["from_offset"], gap["to_offset"], gap["reason"]) == (1, 2, "retention")
    assert [one["records"] for one in run["lag"] if one["topic"] == topic] == [2]

    assert main(["land", *arguments, "--starting", json.dumps({topic: {"0": 4}})]) == 0
    assert f"{topic}, partition 0: 1 record (offset 3) was skipped" in capsys.readouterr().out
    assert lake.offsets(topic, "torn") == [(0, 0), (0, 2), (0, 4)]


def test_what_can_not_be_landed_is_said(lake: Lake, broker: Broker) -> None:
    with pytest.raises(UsageError, match=r"none of the .* topics"):
        lake.land("no-such-topic")
    with pytest.raises(UsageError, match="no regular expression"):
        lake.land("([")
    with pytest.raises(Fault, match=r"did not answer .*\(--patience 1\)"):
        lake.land(".*", servers="127.0.0.1:1", patience=1)
    with pytest.raises(Fault, match=r"no\.such\.host"):
        lake.land(".*", servers="no.such.host.invalid:9092", patience=3)
    topic = "clock.public.t"
    broker.make(topic, 1, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    broker.produce([{**one, "timestamp": 176 * 10**16} for one in changes(topic, 0, 2)])
    with pytest.raises(Fault, match=r"later than the year 9999; the batch has offsets clock\.public\.t 0: 0 to 1, and"):
        lake.land(r"clock\..*", "clock")


def test_a_landing_that_goes_on_meets_all_of_it(lake: Lake, broker: Broker) -> None:
    topic, later = "on.public.t", "on.public.later"

    def ids(name: str) -> list[int]:
        return sorted(json.loads(one["key"])["id"] for one in lake.rows("records", name, "on"))

    with meanwhile(lake, r"on\..*", "on", every=0.3, patience=PATIENCE) as ended:
        time.sleep(1)
        broker.make(topic)
        broker.produce(changes(topic, 0, 5))
        assert eventually(lambda: ids(topic) == [*range(5)])
        with pytest.raises(Busy, match="Another process lands"):
            lake.land(r"on\..*", "on")

        broker.make(later)
        broker.produce(changes(later, 0, 3))
        assert eventually(lambda: ids(later) == [*range(3)]), "a topic that is made meanwhile"

        broker.stop()
        time.sleep(1)
        broker.start()
        broker.produce(changes(topic, 5, 8))
        assert eventually(lambda: ids(topic) == [*range(8)]), "the broker was away"

        broker.remove(topic)
        broker.make(topic)
        broker.produce(changes(topic, 100, 104))
        assert eventually(lambda: ids(topic) == [*range(8), *range(100, 104)]), "a topic is made anew"
    [streamed] = ended
    assert isinstance(streamed, Streamed), streamed
    assert streamed.is_stopped
    assert len(lake.offsets(topic, "on")) == 12, "each record once"
    assert lake.land(r"on\..*", "on").landed.read == 0
    assert list(Path(lake.places.lakehouse).glob("ops/_kafka/*/*")) == [], "a query's own checkpoint ends with it"


def test_a_broker_that_stays_away_ends_landings_and_the_next_ones_are_right(
    lake: Lake, broker: Broker, tmp_path: Path, sooner: None
) -> None:
    topic = "away.public.t"
    broker.make(topic)
    broker.produce(changes(topic, 0, 60))
    slow, quick = tmp_path / "slow.properties", tmp_path / "quick.properties"
    slow.write_text("default.api.timeout.ms=600000\n")  # which a query that is stopped would wait for
    quick.write_text("request.timeout.ms=2000\ndefault.api.timeout.ms=3000\n")
    of_waits, of_once = ({"TIDEMARK_KAFKA_FILE": str(file)} for file in (slow, quick))
    with meanwhile(lake, r"away\..*", "waits", settings=of_waits, every=0.3, patience=3.0, starting="latest") as waits:
        assert eventually(lambda: lake.rows("kafka_offsets", topic, "waits") != [])
        with meanwhile(lake, r"away\..*", "once", settings=of_once, most=2, patience=3.0) as once:
            assert eventually(lambda: lake.offsets(topic, "once") != [])
            broker.stop()
            try:
                assert eventually(lambda: waits != [] and once != [])
            finally:
                broker.start()
    for [error] in (waits, once):
        assert isinstance(error, Fault), error
        assert (error.status, "(--patience 3)" in str(error)) == (3, True)
    assert len(lake.offsets(topic, "once")) < 60, "it ended in the middle"

    broker.produce(changes(topic, 60, 65))
    for label, first in (("waits", 60), ("once", 0)):
        lake.land(r"away\..*", label)
        assert lake.offsets(topic, label) == [(0, number) for number in range(first, 65)]
        assert lake.gaps(topic, label) == []


def test_what_retention_takes_from_a_landing_that_goes_on_is_a_gap(lake: Lake, broker: Broker, tmp_path: Path) -> None:
    topic = "behind.public.t"
    broker.make(topic)
    for number in range(0, 60, 10):
        broker.produce(changes(topic, number, number + 10))
    file = tmp_path / "client.properties"
    file.write_text("max.partition.fetch.bytes=1\n")  # or the client holds all of them at once
    settings = {"TIDEMARK_KAFKA_FILE": str(file)}
    with meanwhile(lake, r"behind\..*", "behind", settings=settings, every=0.1, most=10) as ended:
        assert eventually(lambda: lake.offsets(topic, "behind") != [])
        broker.lose(topic, 55)
        assert eventually(lambda: (0, 59) in lake.offsets(topic, "behind"))
    [streamed] = ended
    landed = [offset for _, offset in lake.offsets(topic, "behind")]
    lost = sorted({*range(60)} - {*landed})
    assert landed[-5:] == [*range(55, 60)]
    assert lost == [*range(lost[0], 55)] != []
    gaps = lake.gaps(topic, "behind")
    assert [number for begin, end, *_ in gaps for number in range(begin, end)] == lost
    assert gaps == [(begin, end, end - begin, "retention") for begin, end, *_ in gaps]
    assert sorted((one.from_offset, one.to_offset) for one in streamed.gaps) == [one[:2] for one in gaps]


@contextmanager
def process(lake: Lake, broker: Broker, label: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that lands the topics of a label's name, with fifty records in a batch at most; it ends with the block.

    It is killed if it goes on: a continuous landing would outlive a test that fails.
    """
    command = [str(Path(sys.executable).with_name("tidemark")), "land", "--kafka", broker.address, "--topics",
               rf"{label}\..*", "--source-label", label, "--max-records", "50", *arguments, "--project-dir",
               str(lake.places.project)]  # fmt: skip
    environment = os.environ | lake.places.environment()
    with subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.PIPE, text=True) as one:
        try:
            yield one
        finally:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)  # Spark's Java, too, which hears no other


def test_a_process_that_is_told_to_stop_leaves_nothing_undone(lake: Lake, broker: Broker) -> None:
    topic, end = "proc.public.t", 500
    broker.make(topic)
    broker.produce(changes(topic, 0, end))

    def landed() -> int:
        return len(lake.offsets(topic, "proc"))

    with process(lake, broker, "proc", "--continuous", "--every", "100ms") as one:
        assert eventually(lambda: landed() >= 50)
        os.killpg(one.pid, signal.SIGTERM)  # Spark's Java, too
        said, _ = one.communicate(timeout=PATIENCE)
    assert (one.returncode, landed() % 50) == (0, 0), "behind its batch"
    assert f"stopped: {end - landed()} records wait" in said
    assert landed() < end
    lake.land(r"proc\..*", "proc")
    assert lake.offsets(topic, "proc") == [(0, number) for number in range(end)]
    assert lake.gaps(topic, "proc") == []


def test_the_documents_commands_run(
    lake: Lake, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    topics = ["orders_db.public.orders", "__debezium-heartbeat.orders_db"]
    for topic in topics:
        broker.make(topic)
    broker.produce(changes(topics[0], 0, 5))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", lake.places.lakehouse)
    [land], [folder, kcat] = (one.commands for one in blocks() if one.reason.startswith("needs a Kafka cluster"))
    page = (PROJECT / "docs/kafka.md").read_text()
    [ask], [export] = (commands_of(text) for text in re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S))

    def run(command: str) -> str:
        """What one of Tidemark's commands prints."""
        word, *arguments = shlex.split(command)
        assert word.endswith("tidemark")
        assert main([*arguments, "--project-dir", str(lake.places.project)]) == 0
        return capfd.readouterr().out

    theirs = {"TIDEMARK_KAFKA_USER": USER, "TIDEMARK_KAFKA_PASSWORD": PASSWORD, "TIDEMARK_KAFKA_CA": broker.authority}
    words = [one.partition("=")[0] for one in shlex.split(export)]
    assert words == ["export", *theirs]
    for name, value in theirs.items():
        monkeypatch.setenv(name, str(value))
    assert "5 records read: 5 landed" in run(land.replace("broker:9092", broker.secured))
    assert re.search(rf"{topics[0]}\W+0\W+0", run(ask)), "no lag"

    assert program("kcat")
    for command in (folder, kcat.replace("broker:9092", broker.address)):
        subprocess.run(command, shell=True, check=True)  # noqa: S602 - it is the README's own
    assert "5 known already" in run("tidemark land events/")


def test_runs_follow_one_another_and_offsets_are_asked_for_once(
    lake: Lake, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "every.public.t"
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", lake.places.lakehouse)
    # Of the other tests' landings one may become silent meanwhile, which is news.
    monkeypatch.setattr(run_memory, "_LANDING_IS_SILENT", timedelta(days=1))
    places = Places.of(lake.places.project)
    broker.make(topic)
    broker.produce(changes(topic, 0, 5))
    stop, seen, looks = threading.Event(), list[Outcome](), list[int]()

    def tell(outcome: Outcome) -> None:
        seen.append(outcome)
        looks.append(DeltaTable(places.table("ops", "kafka_offsets")).version())
        if len(seen) == 2:
            broker.produce(changes(topic, 5, 7))
        if len(seen) == 3:
            stop.set()

    topics = Topics(broker.address, r"every\..*", Settings.of({}), starting=json.dumps({topic: {"0": 2}}))
    forget_tables(lake.spark)
    assert run_every(Task(places, topics=topics, skips=True, source_label="every"), 0.1, stop, tell) == 0
    forget_tables(lake.spark)
    assert [one.error for one in seen] == [None] * 3
    assert [one.landed.read for one in seen] == [3, 0, 2], "later runs don't go back to the offsets"
    assert [one.skipped for one in seen] == [[], ["build", "check"], []]
    assert [{"build", "check"} <= one.stages.keys() for one in seen] == [True, False, True]
    assert looks[0] < looks[1], "each look is stored, and none is news"
    assert lake.offsets(topic, "every") == [(0, number) for number in range(2, 7)]


def test_crons_line_runs(lake: Lake, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.make("shop.public.cron")
    broker.produce(changes("shop.public.cron", 0, 3))
    table = (EXAMPLES / "crontab").read_text()
    [variable] = re.findall(r"^(\w+)=", table, re.MULTILINE)
    file = tmp_path / "kafka.properties"
    file.write_text(properties(broker, PASSWORD))
    monkeypatch.setenv(variable, str(file))
    # Its upkeep has little to do in a lakehouse of its own.
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", str(tmp_path / "lakehouse"))
    start = r"^\*/5 \* \* \* \* cd /srv/tidemark && \.venv/bin/tidemark "
    [line] = re.findall(rf"{start}(.*) > /dev/null 2>> cron\.log$", table, re.MULTILINE)
    for documented, here in (("broker:9092", broker.secured), ("/usr/bin/mail -s tidemark data@example.org", "false")):
        assert documented in line
        line = line.replace(documented, here)
    monkeypatch.chdir(lake.places.project)

    forget_tables(lake.spark)
    assert main(shlex.split(line)) == 0
    forget_tables(lake.spark)
    said = json.loads(Path("run.json").read_text())
    assert (said["status"], said["landed"]["read"], "land" in said["stages"]) == (0, 3, True)
    assert said["upkeep"] is not None
