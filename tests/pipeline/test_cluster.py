"""The same project on a cluster: Spark's master, workers and Thrift Server, a metastore in PostgreSQL, tables on S3.

All are processes on the loopback, started for these tests, which tell one story on one lakehouse: a batch is landed and
built, then more from Kafka while a landing is killed, a worker dies, the store stops, and the metastore goes. What
stands there is compared with the same events in a local lakehouse. `make cluster` runs the long ones of them, too.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import duckdb_extension_httpfs
import polars
import pytest
from deltalake import DeltaTable
from pyarrow.fs import S3FileSystem, copy_files
from pyhive import hive
from pyspark.sql import SparkSession

from spark_jobs.damage import delta_tables
from spark_jobs.declarations import captured_tables
from spark_jobs.lock import writing
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import write
from tests.broker import Broker
from tests.captured import CAPTURES, Lakehouse, declared, judged, name_of
from tests.cluster import ACCESS, BUCKET, SECRET, Cluster, documented
from tests.projects import PROJECT, declare_history, empty_project, land, renamed, rows_of, run_models
from tests.servers import until
from tests.source import Column, Source, Table

NAME = "clus__public__orders"
TABLES = {"history": "gold", "current": "silver"}
KEYS = 30
# The data tests of the tables, which take most of a build's time here, are for `tidemark run` alone.
WITHOUT_TESTS = ("--exclude-resource-type", "test")
# Of a real capture of each database one table.
CAPTURED = {
    "clus_pg": ("postgres-2.5.4-core-full", "customers"),
    "clus_maria": ("mariadb-2.5.4-schema", "products"),
}


@dataclass
class Story:
    """One project, its events, and the two lakehouses that they go to."""

    cluster: Cluster
    local: Places
    project: Path
    source: Source
    batches: list[str]
    names: dict[str, str] = field(default_factory=dict)

    def landed(self, lines: str) -> subprocess.CompletedProcess[str]:
        """Land a file of records on the cluster, by spark-submit."""
        file = self.project.parent / "clus.jsonl"
        file.write_text(lines)
        places = {"cluster.conf": str(self.cluster.settings), "events/": str(file)}
        return self.cluster.command(documented("cli.py land events", **places), self.project)

    def landing(self, broker: Broker, **environ: str) -> subprocess.Popen[str]:
        """Begin to land the topic on the cluster, by spark-submit, in batches that end within the second part."""
        places = {"cluster.conf": str(self.cluster.settings), "broker:9092": broker.address, r"shop\..*": r"clus\..*"}
        words = documented("cli.py land --kafka", **places)
        return self.cluster.begun([*words, "--max-records", str(2 * KEYS)], self.project, **environ)

    def building(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        """Begin to build on the cluster."""
        return self.cluster.begun([*documented("tidemark build$"), "--quiet", *arguments], self.project, **environ)

    def build(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Build on the cluster."""
        return self.cluster.command([*documented("tidemark build$"), "--quiet", *arguments], self.project, **environ)

    def commits(self) -> int:
        """How often the history was written."""
        return len(list((self.kept / f"gold/{NAME}_history/_delta_log").glob("*.json")))

    def tidemark(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the cluster, in this project."""
        return self.cluster.tidemark(*arguments, project=self.project, **environ)

    def at(self, kind: str) -> str:
        """Where a table is on the store."""
        return f"{BUCKET}/lakehouse/{TABLES[kind]}/{NAME}_{kind}"

    @property
    def kept(self) -> Path:
        """Where the store keeps what it holds of the lakehouse."""
        return self.cluster.store.folder / "data" / BUCKET / "lakehouse"

    @property
    def stored(self) -> Places:
        """The lakehouse on the store, as a folder, which its server keeps it in."""
        return replace(self.local, lakehouse=str(self.kept))

    def expected(self, kind: str) -> list[dict[str, Any]]:
        """The rows of the local lakehouse."""
        [table] = [one for one in captured_tables(self.local) if one.name == NAME]
        return sorted_rows(rows_of(getattr(table, kind).location))

    def through_thrift(self, statement: str) -> list[dict[str, Any]]:
        """The rows that PyHive gets from the Thrift Server."""
        with hive.connect("127.0.0.1", port=self.cluster.thrift.port, username="reader").cursor() as cursor:
            cursor.execute(statement)
            names = [one[0].rpartition(".")[2] for one in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def events() -> tuple[Source, list[str]]:
    """Two batches: lives of orders with every kind of value that readers see otherwise."""
    source = Source("clus")
    table = Table(
        "orders",
        [
            Column("id", {"type": "int32"}),
            Column("state"),
            Column("is_paid", {"type": "boolean"}),
            Column("placed_at", {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}),
            Column("price", {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
                             "parameters": {"scale": "2", "connect.decimal.precision": "10"}}),
        ],
        ("id",),
    )  # fmt: skip
    for key in range(KEYS):
        with source.commit():
            source.insert(table, {"id": key, "state": "new", "is_paid": None, "placed_at": 10**15 + key,
                                  "price": "MDk="})  # fmt: skip
    first = len(source.records)
    for key in range(KEYS):
        with source.commit():
            row = table.rows[table.key_of({"id": key})]
            if key % 3 == 0:
                source.delete(table, row)
            elif key % 3 == 1:
                source.update(table, row, {"state": "päid 💶", "is_paid": True})
            else:
                source.update(table, row, {"id": key + 1000})
    return source, [source.lines(source.records[:first]), source.lines(source.records[first:])]


def declare_captured(spark: SparkSession, story: Story) -> None:
    """Write the models of the captures' tables: what a history takes, and no tests of it."""
    for table in seen_tables(spark, story.local):
        capture, name = CAPTURED.get(table.source, ("", ""))
        if name_of(table) == name:
            story.names[table.name] = table.full_name
            files = declared(table, capture)
            wanted = re.compile(r"models/bronze/|_(changes|history|accounting)\.sql$")
            write(story.project, {path: text for path, text in files.items() if wanted.search(path)})


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """The first batch and the captures, landed and built in both lakehouses by the same project."""
    home = tmp_path_factory.mktemp("clus")
    project = empty_project(home / "project")
    cluster = Cluster(home / "cluster")
    story = Story(cluster, Places.of(project), project, *events())
    real = "".join(line for prefix, (name, _) in CAPTURED.items() for line in renamed(CAPTURES / name, prefix))
    try:
        cluster.start()
        land(spark, story.local, "clus-0-local", story.batches[0] + real, {"clus"}, tested=True)
        # So few are merged, as those of a large table are.
        declare_history(project, NAME, {"rewritten_rows": 1})
        declare_captured(spark, story)
        run_models(story.local, accounting=True)
        for done in (story.landed(story.batches[0] + real), story.build(*WITHOUT_TESTS)):
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        yield story
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def broker(story: Story) -> Iterator[Broker]:
    """A broker that has all records of the story's own table."""
    one = Broker(story.project.parent / "broker")
    one.start()
    one.make(f"clus.public.{NAME.rpartition('__')[2]}")
    one.produce(
        {
            "topic": record["topic"],
            "timestamp": record["timestamp"],
            "key": record["key"].encode(),
            "value": None if record["value"] is None else record["value"].encode(),
            "headers": [(header["key"], header["value"].encode()) for header in record["headers"]],
        }
        for record in story.source.records
    )
    yield one
    one.stop()


def sorted_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as any reader gives them, alike: times in UTC, structures as such, in the order of their ids."""
    alike = ({name: plain(name, value) for name, value in row.items()} for row in rows)
    return sorted(alike, key=lambda row: row["version_id"])


def plain(name: str, value: Any) -> Any:
    """A value, whatever reader gave it."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    if isinstance(value, str) and value[:1] in ("[", "{"):
        value = json.loads(value)  # PyHive gives structures as JSON
    return dict(value) if name == "exact_values" else value


def deliveries(places: Places) -> list[tuple[Any, ...]]:
    """What bronze holds of the story, by place and content; a local one holds what other tests landed, too."""
    rows = rows_of(places.table("bronze", "records"), "topic", "partition", "offset", "content_hash")
    return sorted(tuple(row.values()) for row in rows if row["topic"].split(".")[0] in {"clus", *CAPTURED})


def lock(story: Story, name: str) -> dict[str, Any]:
    """What the last holder of a lock says of itself."""
    held = sorted((story.kept / "_locks").glob(f"{name}/[0-9]*"))
    return dict(json.loads(held[-1].read_text())) if held else {}


def test_a_second_writer_waits_and_a_landing_may_be_killed(
    story: Story, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(deliveries(story.stored))
    for name, value in story.cluster.environment.items():
        monkeypatch.setenv(name, value)
    with writing(Places.of(story.project), "test", "someone"):
        busy = story.build()
        landing = story.landing(broker, TIDEMARK_LEASE_SECONDS="15")
        until(lambda: lock(story, "kafka-*") or landing.poll() is not None, lambda: "no landing", 400)
        time.sleep(3)
        assert landing.poll() is None, landing.communicate()
        assert len(deliveries(story.stored)) == before, "the first writer has not ended"
    monkeypatch.undo()
    assert busy.returncode == 4
    assert "is being written by process" in busy.stderr

    until(lambda: len(deliveries(story.stored)) > before or landing.poll() is not None, lambda: "nothing landed", 400)
    os.killpg(landing.pid, signal.SIGKILL)

    ended = landing.communicate()
    assert landing.returncode == -signal.SIGKILL, ended
    assert lock(story, "writer")["holder"]["pid"] != os.getpid(), "it was killed in the middle of writing"
    assert len(deliveries(story.stored)) == before + KEYS, "of two batches one"


def test_behind_it_a_worker_may_die_in_a_merge_and_the_store_stop_in_another(story: Story) -> None:
    cluster, log = story.cluster, story.project / "logs/dbt.log"
    said = len(log.read_text())
    building = story.building("--wait", "120", TIDEMARK_LEASE_SECONDS="15")

    def merges(table: str) -> None:
        until(
            lambda: f"merge into {table}" in log.read_text()[said:] or building.poll() is not None, log.read_text, 400
        )
        assert building.poll() is None, building.communicate()

    merges(f"gold.{NAME}_history")
    commits, begun = story.commits(), [worker.tasks("0000") for worker in cluster.workers]
    [busy, *_] = until(
        lambda: [worker for worker, known in zip(cluster.workers, begun, strict=True) if worker.tasks("0000") > known],
        lambda: "no executor of the Thrift Server has work",
    )
    busy.stop(signal.SIGKILL)
    assert story.commits() == commits, "the merge was not over"

    merges(f"silver.{NAME}_current")
    assert story.commits() == commits + 1, "what the dead worker had to do is done by the other"
    store = cluster.store.process
    assert store is not None
    store.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        _, error = building.communicate()
        took = time.monotonic() - began
    finally:
        store.send_signal(signal.SIGCONT)
        # The Thrift Server holds what the other worker has.
        cluster.start_worker(busy)
    assert building.returncode == 3, error
    assert "The lock on the lakehouse is lost, so this process ends at once" in error
    assert took < 15


def test_the_next_run_is_right(story: Story, broker: Broker, spark: SparkSession) -> None:
    land(spark, story.local, "clus-1-local", story.batches[1], {"clus"})
    run_models(story.local, accounting=True)

    topics = ["--kafka", broker.address, "--topics", r"clus\..*", "--wait", "120"]
    done = story.cluster.command([*documented("tidemark run"), *topics], story.project)
    broker.stop()

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert f"records read: {KEYS} landed" in done.stdout
    assert deliveries(story.stored) == deliveries(story.local)
    assert "report: s3a://lake/lakehouse/reports/" in done.stdout
    assert json.loads((story.kept / "reports/latest/report.json").read_text())["status"] == "passed"
    for kind in TABLES:
        rows = story.through_thrift(f"select * from {TABLES[kind]}.{NAME}_{kind}")
        assert sorted_rows(rows) == story.expected(kind)


@pytest.mark.parametrize("kind", TABLES)
def test_every_reader_gives_what_the_local_lakehouse_has(story: Story, kind: str) -> None:
    place, store = story.at(kind), story.cluster.store
    with duckdb.connect() as reader:
        for extension, folder in (("httpfs", duckdb_extension_httpfs), ("delta", duckdb_extension_delta)):
            reader.load_extension(str(next(Path(folder.__file__).parent.rglob(f"{extension}.duckdb_extension"))))
        reader.execute(
            f"create secret (type s3, key_id '{ACCESS}', secret '{SECRET}', endpoint '127.0.0.1:{store.port}',"
            " url_style 'path', use_ssl false, region 'us-east-1')"
        )
        reader.execute("set timezone = 'UTC'")
        by_duckdb = reader.sql(f"from delta_scan('s3://{place}')").to_arrow_table().to_pylist()
    options = store.environment
    answers = {
        "DuckDB": by_duckdb,
        "Polars": polars.read_delta(f"s3://{place}", storage_options=options).to_dicts(),
        "delta-rs": rows_of(f"s3://{place}", options=options),
        "PyHive": story.through_thrift(f"select * from {TABLES[kind]}.{NAME}_{kind}"),
    }

    expected = story.expected(kind)

    assert len(expected) >= KEYS / 2
    logs = (story.kept / f"gold/{NAME}_history/_delta_log").glob("*.json")
    assert any('"deletionVector":{' in log.read_text() for log in logs), "marks of rows are what readers differ in"
    for reader_name, rows in answers.items():
        assert sorted_rows(rows) == expected, reader_name


def test_real_captures_have_the_gold_that_the_local_lakehouse_has(story: Story, spark: SparkSession) -> None:
    both = zip(captured_tables(story.local), captured_tables(story.stored), strict=True)
    pairs = [(one, other) for one, other in both if one.source_name in CAPTURED]
    assert len(pairs) == len(CAPTURED)
    for one, other in pairs:
        assert one.history is not None
        assert other.history is not None
        rows = rows_of(other.history.location)
        assert len(rows) > 20
        assert sorted_rows(rows) == sorted_rows(rows_of(one.history.location)), one.name

    captures = {prefix: name for prefix, (name, _) in CAPTURED.items()}
    lakehouse = Lakehouse(spark, story.stored, captures, CAPTURES, story.names)
    assert {prefix: judged(lakehouse, prefix) for prefix in captures} == {one: [] for one in captures}


def test_a_slow_store_gives_right_answers(story: Story) -> None:
    store = story.cluster.store
    store.stop()
    store.start(latency=300)
    try:
        began = time.monotonic()
        rows = story.through_thrift(f"select * from gold.{NAME}_history")
        took = time.monotonic() - began
        by_delta_rs = rows_of(f"s3://{story.at('current')}", options=store.environment)
    finally:
        store.stop()
        store.start()

    assert took > 0.3
    assert sorted_rows(rows) == story.expected("history")
    assert sorted_rows(by_delta_rs) == story.expected("current")


def test_an_environment_of_ones_own_reads_bronze_and_never_writes_it(story: Story) -> None:
    log = story.kept / "bronze/records/_delta_log"
    before = sorted(one.name for one in log.iterdir())

    refused = story.tidemark("land", str(story.project), "--target", "thrift_dev")
    places = {"inv__public__customers_changes+": f"{NAME}_changes+"}
    built = story.cluster.command([*documented("thrift_dev", **places), "--quiet", *WITHOUT_TESTS], story.project)

    assert refused.returncode == 2
    assert "reads bronze and never writes it" in refused.stderr
    assert built.returncode == 0, built.stdout[-3000:]
    assert sorted_rows(story.through_thrift(f"select * from dev_gold.{NAME}_history")) == story.expected("history")
    assert sorted(one.name for one in log.iterdir()) == before


@pytest.mark.long
def test_a_local_lakehouse_that_moved_to_the_store_is_read_and_built_through_the_shared_catalog(story: Story) -> None:
    store = story.cluster.store.environment["AWS_ENDPOINT_URL"]
    files = S3FileSystem(access_key=ACCESS, secret_key=SECRET, endpoint_override=store, region="us-east-1")
    copy_files(story.local.lakehouse, f"{BUCKET}/moved", destination_filesystem=files)

    filled = story.cluster.command(
        documented("tidemark catalog$"), story.project, TIDEMARK_LAKEHOUSE=f"s3a://{BUCKET}/moved"
    )

    assert filled.returncode == 0, filled.stdout + filled.stderr
    tables = delta_tables(story.local)
    assert {layer for layer, _ in tables} == {"bronze", "silver", "gold", "ops"}
    assert f"{len(tables)} tables are in the catalog of target thrift" in filled.stdout
    counts = [
        f"select '{layer}' as layer, '{name}' as name,"
        f" count_if(_metadata.file_path like 's3a://{BUCKET}/moved/%') as there from {layer}.{name}"
        for layer, name in tables
    ]
    assert {(one["layer"], one["name"]): one["there"] for one in story.through_thrift(" union all ".join(counts))} == {
        (layer, name): len(rows_of(story.local.table(layer, name))) for layer, name in tables
    }

    moved = replace(story.local, lakehouse=str(story.kept.with_name("moved")))
    before = {one: DeltaTable(moved.table(*one)).version() for one in tables}
    built = story.build(*WITHOUT_TESTS, TIDEMARK_LAKEHOUSE=f"s3a://{BUCKET}/moved")

    assert built.returncode == 0, built
    assert {one: DeltaTable(moved.table(*one)).version() for one in tables} == before
    for kind, layer in TABLES.items():
        assert sorted_rows(story.through_thrift(f"select * from {layer}.{NAME}_{kind}")) == story.expected(kind)


def test_a_catalog_that_lost_a_table_or_knows_others_elsewhere_is_filled_by_a_command(story: Story) -> None:
    with hive.connect("127.0.0.1", port=story.cluster.thrift.port, username="reader").cursor() as cursor:
        for table in (f"gold.{NAME}_history", f"silver.{NAME}_current"):
            cursor.execute(f"drop table {table}")
        elsewhere = f"s3a://{BUCKET}/lakehouse/silver/{NAME}_changes"
        cursor.execute(f"create table silver.{NAME}_current using delta location '{elsewhere}'")

    filled = story.cluster.command(documented("tidemark catalog$"), story.project)

    assert filled.returncode == 0, filled.stdout + filled.stderr
    for kind, layer in TABLES.items():
        [detail] = story.through_thrift(f"describe detail {layer}.{NAME}_{kind}")
        assert detail["location"] == f"s3a://{story.at(kind)}"
        assert sorted_rows(story.through_thrift(f"select * from {layer}.{NAME}_{kind}")) == story.expected(kind)


@pytest.mark.long
def test_a_store_that_refuses_or_stalls_ends_the_run_and_says_why(story: Story) -> None:
    wrong = {"AWS_SECRET_ACCESS_KEY": "wrong, and told to nobody"}
    refused = story.tidemark("tables", **wrong)
    store = story.cluster.store.process
    assert store is not None
    store.send_signal(signal.SIGSTOP)
    try:
        stalled = story.build()
    finally:
        store.send_signal(signal.SIGCONT)

    for ended in (refused, stalled):
        assert ended.returncode == 3
        assert "The object store of s3a://lake/lakehouse could not be reached, or refused" in ended.stderr
        assert "wrong, and" not in ended.stdout + ended.stderr


@pytest.mark.long
def test_a_metastore_that_is_away_ends_the_build_and_the_next_is_right(story: Story) -> None:
    story.cluster.postgres.stop(signal.SIGKILL)
    away = story.build()
    story.cluster.postgres.start()
    story.cluster.thrift.stop()  # it keeps connections that are dead
    story.cluster.start_thrift()

    back = story.build("--select", f"{NAME}_changes+", *WITHOUT_TESTS)

    assert away.returncode == 3, away.stdout[-3000:] + away.stderr
    assert "see that its database answers" in away.stderr
    assert back.returncode == 0, back.stdout[-3000:] + back.stderr
    rows = story.through_thrift(f"select * from gold.{NAME}_history")
    assert sorted_rows(rows) == story.expected("history")


def test_a_thrift_server_that_is_away_is_named(story: Story) -> None:
    story.cluster.thrift.stop(signal.SIGKILL)

    away = story.build()

    assert away.returncode == 3
    assert f"The Thrift Server of target thrift doesn't answer at 127.0.0.1:{story.cluster.thrift.port}" in away.stderr


def test_the_page_names_the_environment_that_the_cluster_has(story: Story) -> None:
    page = (PROJECT / "docs/cluster.md").read_text()

    assert sorted(re.findall(r"^export (\w+)=", page, re.M)) == sorted(story.cluster.documented_environment)
