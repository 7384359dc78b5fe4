"""The same project on a cluster: Spark's master, workers and Thrift Server, a metastore in PostgreSQL, tables on S3.

All are processes on the loopback, started for these tests, which tell one story on one lakehouse: a batch is landed and
built, then another while a worker dies, the store stalls and the metastore goes. What stands there is compared with the
same events in a local lakehouse.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
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
from tests.cluster import ACCESS, BUCKET, SECRET, Cluster, documented
from tests.projects import PROJECT, empty_project, land, rows_of, run_models
from tests.servers import until
from tests.source import Column, Source, Table

NAME = "clus__public__orders"
TABLES = {"history": "gold", "current": "silver"}
KEYS = 30


@dataclass
class Story:
    """One project, its events, and the two lakehouses that they go to."""

    cluster: Cluster
    local: Places
    project: Path
    batches: list[str]

    def landed(self, number: int) -> subprocess.CompletedProcess[str]:
        """Land a batch on the cluster, by spark-submit."""
        file = self.project.parent / f"clus-{number}.jsonl"
        file.write_text(self.batches[number])
        places = {"cluster.conf": str(self.cluster.settings), "events/": str(file)}
        return self.cluster.command(documented("cli.py land", **places), self.project)

    def build(self, **environ: str) -> subprocess.CompletedProcess[str]:
        """Build on the cluster."""
        return self.cluster.command([*documented("tidemark build$"), "--quiet"], self.project, **environ)

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


def events() -> list[str]:
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
    return [source.lines(source.records[:first]), source.lines(source.records[first:])]


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """The first batch, landed and built in both lakehouses by the same project."""
    home = tmp_path_factory.mktemp("clus")
    project = empty_project(home / "project")
    cluster = Cluster(home / "cluster")
    story = Story(cluster, Places.of(project), project, events())
    try:
        cluster.start()
        land(spark, story.local, "clus-0-local", story.batches[0], {"clus"})
        run_models(story.local, accounting=True)
        for done in (story.landed(0), story.build()):
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        yield story
    finally:
        cluster.stop()


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
        "delta-rs": DeltaTable(f"s3://{place}", storage_options=options).to_pyarrow_table().to_pylist(),
        "PyHive": story.through_thrift(f"select * from {TABLES[kind]}.{NAME}_{kind}"),
    }

    expected = story.expected(kind)

    assert len(expected) >= KEYS
    for reader_name, rows in answers.items():
        assert sorted_rows(rows) == expected, reader_name


def test_a_second_writer_waits_and_a_worker_may_die_in_a_write(
    story: Story, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in story.cluster.environment.items():
        monkeypatch.setenv(name, value)
    there = Places.of(story.project)
    order: list[str] = []
    with writing(there, "test", "someone"):
        busy = story.build()
        landing = threading.Thread(target=lambda: order.append(landed_with(story)))
        landing.start()
        time.sleep(5)
        order.append("the first writer ends")
    landing.join()
    monkeypatch.undo()

    assert busy.returncode == 4
    assert "is being written by process" in busy.stderr
    assert order == ["the first writer ends", "0"]

    land(spark, story.local, "clus-1-local", story.batches[1], {"clus"})
    run_models(story.local, accounting=True)
    log = story.project / "logs/dbt.log"
    said = len(log.read_text())
    building = threading.Thread(target=lambda: order.append(str(story.build().returncode)))
    building.start()
    until(lambda: f"into gold.{NAME}_history" in log.read_text()[said:] or not building.is_alive(), log.read_text, 400)
    assert building.is_alive()
    story.cluster.workers[0].stop(signal.SIGKILL)
    building.join()
    # The Thrift Server holds what the other worker has.
    story.cluster.start_worker(story.cluster.workers[0])

    # What the dead worker had to do is done by the other, or by the next run.
    if order[-1] != "0":
        again = story.build()
        assert again.returncode == 0, again.stdout[-3000:]
    for kind in TABLES:
        rows = story.through_thrift(f"select * from {TABLES[kind]}.{NAME}_{kind}")
        assert sorted_rows(rows) == story.expected(kind)


def landed_with(story: Story) -> str:
    done = story.landed(1)
    assert done.returncode == 0, done.stderr[-3000:]
    return str(done.returncode)


def test_an_environment_of_ones_own_reads_bronze_and_never_writes_it(story: Story) -> None:
    log = story.kept / "bronze/records/_delta_log"
    before = sorted(one.name for one in log.iterdir())

    refused = story.tidemark("land", str(story.project), "--target", "thrift_dev")
    places = {"inv__public__customers_changes+": f"{NAME}_changes+"}
    built = story.cluster.command([*documented("thrift_dev", **places), "--quiet"], story.project)

    assert refused.returncode == 2
    assert "reads bronze and never writes it" in refused.stderr
    assert built.returncode == 0, built.stdout[-3000:]
    assert sorted_rows(story.through_thrift(f"select * from dev_gold.{NAME}_history")) == story.expected("history")
    assert sorted(one.name for one in log.iterdir()) == before


def test_a_local_lakehouse_that_moved_to_the_store_is_read_through_the_shared_catalog(story: Story) -> None:
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
    for kind, layer in TABLES.items():
        assert sorted_rows(story.through_thrift(f"select * from {layer}.{NAME}_{kind}")) == story.expected(kind)


def test_a_catalog_that_lost_a_table_or_knows_others_elsewhere_is_filled_by_a_command(story: Story) -> None:
    with hive.connect("127.0.0.1", port=story.cluster.thrift.port, username="reader").cursor() as cursor:
        cursor.execute(f"drop table gold.{NAME}_history")

    filled = story.cluster.command(documented("tidemark catalog$"), story.project)

    assert filled.returncode == 0, filled.stdout + filled.stderr
    for kind, layer in TABLES.items():
        [detail] = story.through_thrift(f"describe detail {layer}.{NAME}_{kind}")
        assert detail["location"] == f"s3a://{story.at(kind)}"
        assert sorted_rows(story.through_thrift(f"select * from {layer}.{NAME}_{kind}")) == story.expected(kind)


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


def test_a_metastore_that_is_away_ends_the_build_and_the_next_is_right(story: Story) -> None:
    story.cluster.postgres.stop(signal.SIGKILL)
    away = story.build()
    story.cluster.postgres.start()
    story.cluster.thrift.stop()  # it keeps connections that are dead
    story.cluster.start_thrift()

    back = story.cluster.command(documented("tidemark run"), story.project)

    assert away.returncode == 3, away.stdout[-3000:] + away.stderr
    assert "see that its database answers" in away.stderr
    assert back.returncode == 0, back.stdout[-3000:] + back.stderr
    assert "report: s3a://lake/lakehouse/reports/" in back.stdout
    said = json.loads((story.kept / "reports/latest/report.json").read_text())
    assert said["status"] == "passed"
    rows = story.through_thrift(f"select * from gold.{NAME}_history")
    assert sorted_rows(rows) == story.expected("history")


def test_a_thrift_server_that_is_away_is_named(story: Story) -> None:
    story.cluster.thrift.stop(signal.SIGKILL)

    away = story.build()

    assert away.returncode == 3
    assert f"The Thrift Server of target thrift doesn't answer at 127.0.0.1:{story.cluster.thrift.port}" in away.stderr


def test_the_page_names_the_environment_that_the_cluster_has(story: Story) -> None:
    page = (PROJECT / "docs/cluster.md").read_text()

    assert sorted(re.findall(r"^export (\w+)=", page, re.M)) == sorted(story.cluster.told)
