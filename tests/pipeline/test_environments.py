"""An environment of one's own beside the one that counts, a lakehouse that moves, and what other readers see of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import polars
import pytest
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

from spark_jobs import steps
from spark_jobs.cli import main
from spark_jobs.declarations import captured_tables, run_dbt
from spark_jobs.errors import UsageError
from spark_jobs.places import Places
from spark_jobs.run_memory import Memory
from spark_jobs.scaffolding.tables import seen_channels, seen_tables
from spark_jobs.scaffolding.write import files_of_channels, write
from spark_jobs.schedule import Task, run_once
from spark_jobs.session import settings
from tests.projects import empty_project, forget_tables, land, rows_of, run_models, write_tests
from tests.source import Column, Source, Table

NAME = "envs__public__orders"


def lines_of(keys: range) -> str:
    """The records of some orders, each made and sent."""
    source, table = Source("envs"), Table("orders", [Column("id"), Column("state")], ("id",))
    for key in range(keys.stop):
        with source.commit():
            source.insert(table, {"id": str(key), "state": "new"})
        with source.commit():
            source.update(table, table.rows[table.key_of({"id": str(key)})], {"state": "sent"})
    return source.lines(source.records[2 * keys.start :])


def message() -> str:
    """A logical decoding message of the same source, which has a table of its own."""
    source = {"connector": "postgresql", "name": "envs", "ts_ms": 1_704_067_200_000, "lsn": 7, "snapshot": "false"}
    value = {"op": "m", "ts_ms": 1_704_067_200_000, "source": source, "message": {"prefix": "p", "content": "aGk="}}
    record = {"topic": "envs.message", "partition": 0, "offset": 0, "key": None, "value": json.dumps(value)}
    return json.dumps(record) + "\n"


@pytest.fixture(scope="module")
def project(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose table is built in a lakehouse of its own."""
    home = tmp_path_factory.mktemp("envs")
    folder = empty_project(home / "project")
    forget_tables(spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMARK_LAKEHOUSE", str(home / "lakehouse"))
        land(spark, Places.of(folder), "envs-0", lines_of(range(5)) + message(), {"envs"})
        write(folder, files_of_channels(seen_channels(spark, Places.of(folder))))
        run_models(Places.of(folder), accounting=True)
        yield folder
    for schema in ("dev_silver", "dev_gold", "dev_ops"):
        spark.sql(f"drop schema if exists {schema} cascade")
    forget_tables(spark)


def files_of(places: Places) -> dict[Path, int]:
    """When each file of a lakehouse was written, those of an environment of one's own left out."""
    lakehouse = Path(places.lakehouse)
    files = (path for path in lakehouse.rglob("*") if path.is_file())
    return {path: path.stat().st_mtime_ns for path in files if not str(path.relative_to(lakehouse)).startswith("dev_")}


def history(places: Places) -> list[dict[str, Any]]:
    return sorted(rows_of(places.table("gold", f"{NAME}_history")), key=lambda row: row["version_id"])


def test_dev_reads_bronze_and_writes_beside(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prod = Places.of(project)
    before = files_of(prod)
    monkeypatch.setenv("TIDEMARK_TARGET", "local_dev")
    dev = Places.of(project)
    refused = [main(["land", str(project), "--project-dir", str(project)]),
               main(["quarantine", "release", "--project-dir", str(project)])]  # fmt: skip

    assert run_dbt(dev, ["--quiet", "run", "--exclude", "tag:layer:ops"]).success

    assert dev.table("gold", "x") == f"{dev.lakehouse}/dev_gold/x"
    assert dev.table("bronze", "records") == prod.table("bronze", "records")
    assert dev.table("ops", "kafka_offsets") == prod.table("ops", "kafka_offsets")
    assert (prod.bronze_option, dev.bronze_option) == ("", " --target local")
    assert json.loads((project / "target/run_results.json").read_text())["args"]["target"] == "local_dev"
    assert settings(dev)["spark.sql.warehouse.dir"] == f"{dev.lakehouse}/warehouse", "users' tables, and no catalog's"
    assert history(dev) == history(prod)
    assert len(history(dev)) == 10
    assert [rows_of(one.table("silver", "envs_messages"), "content") for one in (prod, dev)] == [
        [{"content": b"hi"}]
    ] * 2
    assert refused == [2, 2]
    assert "reads bronze and never writes it" in capsys.readouterr().err
    assert files_of(prod) == before


def test_dev_of_a_lakehouse_without_bronze_makes_none(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", str(tmp_path / "nowhere"))

    status = main(["build", "--target", "local_dev", "--project-dir", str(project)])
    capsys.readouterr()
    listed = main(["tables", "--project-dir", str(project)])

    assert status != 0
    assert not (tmp_path / "nowhere/bronze").exists()
    assert (listed, capsys.readouterr().out.splitlines()[0]) == (0, "envs.public__orders")


def test_a_target_that_is_not_there_is_named(project: Path) -> None:
    with pytest.raises(UsageError, match=r"profiles\.yml has local, local_dev, thrift, thrift_dev"):
        Places.of(project, {"TIDEMARK_TARGET": "prod"})


def test_a_lakehouse_that_moved_is_found_again_by_the_catalog(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Places.of(project)
    there = Path(before.lakehouse).with_name("moved")
    shutil.copytree(before.lakehouse, there)
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", str(there))
    after = Places.of(project)

    assert main(["catalog", "--project-dir", str(project)]) == 0

    assert "tables are in the catalog of target local" in capsys.readouterr().out
    found = spark.sql(f"describe detail gold.{NAME}_history").head()
    assert found is not None
    assert found["location"] == f"file:{there}/gold/{NAME}_history"
    run_models(after)
    assert history(after) == history(before)

    assert main(["build", "--target", "local_dev", "--project-dir", str(project)]) == 2, "dev's are elsewhere"
    said = capsys.readouterr()
    assert "`tidemark catalog --target local_dev` tells the catalog" in " ".join((said.out + said.err).split())


def test_duckdb_polars_and_delta_rs_agree(project: Path) -> None:
    [table] = captured_tables(Places.of(project))
    assert table.history is not None
    place = table.history.location
    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))
    with duckdb.connect() as reader:
        reader.load_extension(str(extension))
        reader.execute("set timezone = 'UTC'")
        by_duckdb = reader.sql(
            f"select id, state, valid_from, valid_to, is_current from delta_scan('{place}')"
        ).fetchall()

    names = ["id", "state", "valid_from", "valid_to", "is_current"]
    by_polars = polars.read_delta(place).select(names).rows()
    by_delta_rs = [tuple(row[name] for name in names) for row in rows_of(place)]

    assert len(by_delta_rs) == 10
    assert sorted(by_duckdb, key=repr) == sorted(by_polars, key=repr) == sorted(by_delta_rs, key=repr)


def test_a_memory_of_another_environment_is_not_its_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (Path(Places.of(project).lakehouse) / "run.json").write_text(json.dumps({"failed_runs": 3}))
    monkeypatch.setenv("TIDEMARK_TARGET", "local_dev")

    assert Memory.of(Places.of(project)).failed_runs == 0


def test_what_is_landed_while_an_environment_builds_is_news_to_its_next_run(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prod = Places.of(project)
    assert main(["catalog", "--project-dir", str(project)]) == 0, "another test has moved it"
    monkeypatch.setenv("TIDEMARK_TARGET", "local_dev")
    task = Task(Places.of(project), skips=True)

    build = steps.build

    def build_beside_a_landing(run: steps.Run, arguments: Sequence[str], **options: bool) -> None:
        build(run, arguments, **options)
        land(spark, prod, "envs-1", lines_of(range(5, 6)), {"envs"})

    with monkeypatch.context() as beside:
        beside.setattr(steps, "build", build_beside_a_landing)
        first = run_once(task)
    second = run_once(task)

    assert (first.status, first.skipped) == (0, ["land"])
    assert (second.status, second.skipped) == (0, ["land"])
    assert len(history(task.places)) == 12


@pytest.mark.parametrize("spelled", ["{}/", "../lakehouse"])
def test_dbt_by_hand_finds_the_lakehouse_as_tidemark_does(
    project: Path, spelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", spelled.format(Places.of(project).lakehouse))
    places = ["--project-dir", str(project), "--profiles-dir", str(project)]

    assert dbtRunner().invoke(["--quiet", "run", "--select", f"{NAME}_current", *places]).success


def test_layers_can_be_built_one_by_one(spark: SparkSession, project: Path) -> None:
    places = Places.of(project)
    land(spark, places, "envs-2", lines_of(range(6, 7)), {"envs"})
    write_tests(project, seen_tables(spark, places))

    for layer in ("silver", "gold", "ops"):
        built = run_dbt(places, ["--quiet", "build", "--select", f"tag:layer:{layer}"])
        assert built.success, (layer, [one.node.name for one in built.result or [] if one.status != "success"])
    run_models(places, "--select", "tag:layer:silver")

    current = rows_of(places.table("silver", f"{NAME}_current"), "id", "version_id")
    assert [row["version_id"] for row in current if row["id"] == "6"] == [
        row["version_id"] for row in history(places) if row["id"] == "6" and row["is_current"]
    ]
    assert "6" in {row["id"] for row in current}
