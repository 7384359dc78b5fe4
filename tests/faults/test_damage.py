"""Tables, files and a catalog that something else has broken: named, refused or made anew, and never worse for it."""

from __future__ import annotations

import random
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs import bronze, steps
from spark_jobs.cli import main
from spark_jobs.damage import blamed, damages, explained, forget_progress, move_aside
from spark_jobs.delta import is_table
from spark_jobs.errors import Busy, Fault, UsageError
from spark_jobs.lock import writing
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.rebuild import rebuild
from tests.projects import account_of, empty_project, forget_tables, land, run_models, tables_of
from tests.readers import reading
from tests.source import Column, Source, Table

NAME = "harm__public__orders"
# Beyond what the catalog's files need.
LARGEST = 12_000_000
# Spark hides files that begin so.
ALIAS = "_orders_versions"
PROPERTIES = {"acme.owner": "sales"}
MODELS = [f"silver/{NAME}_changes", f"gold/{ALIAS}", f"silver/{NAME}_current"]


class Harmed:
    """A small lakehouse of its own, built once, that each test harms in a copy."""

    def __init__(self, spark: SparkSession, home: Path, origin: Harmed | None = None) -> None:
        self.spark = spark
        self.home = home
        self.places = Places(home / "project", str(home / "lakehouse"), "")
        if origin is None:
            empty_project(home / "project")
        else:
            shutil.copytree(origin.home, home, symlinks=True, dirs_exist_ok=True)
            forget_tables(spark)
        self.run = steps.Run(self.places, "test", datetime.now(UTC))

    def folder(self, table: str) -> Path:
        """Where a table is."""
        return Path(self.places.lakehouse) / table

    def rows_of_models(self) -> dict[str, list[str]]:
        """The rows of every model, and of the account."""
        rows = {table: DeltaTable(str(self.folder(table))).to_pyarrow_table().to_pylist() for table in MODELS}
        [rows["account"]] = [account_of(table) for table in tables_of(self.places)]
        return {table: sorted(map(repr, of_table)) for table, of_table in rows.items()}


def is_right_with_another(harmed: Harmed, right: dict[str, list[str]]) -> bool:
    """Whether every model has the rows that it had, and one more, which the account counts, too."""
    now = harmed.rows_of_models()
    [table] = tables_of(harmed.places)
    records = {row["name"]: row["records"] for row in account_of(table)}
    are_there = all({*right[model]} < {*now[model]} and len(now[model]) == 10 for model in MODELS)
    return are_there and records["opened"] == 10


def lines(first: int, count: int, padding: str = "") -> str:
    source = Source("harm", has_schemas=False)
    table = Table("orders", [Column("id"), Column("name")], ("id",))
    for number in range(first + count):
        with source.commit():
            source.insert(table, {"id": str(number), "name": f"name {number}{padding}"})
    return source.lines(source.records[first:])


@pytest.fixture(scope="module")
def origin(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Harmed:
    forget_tables(spark)
    made = Harmed(spark, tmp_path_factory.mktemp("harm"))
    land(spark, made.places, "first", lines(0, 6), {"harm"})
    history = made.places.project / f"models/gold/history/{NAME}_history.sql"
    history.write_text(f"{{{{ config(alias='{ALIAS}', tblproperties={PROPERTIES}) }}}}{history.read_text()}")
    run_models(made.places, accounting=True)
    land(spark, made.places, "second", lines(6, 3), {"harm"})
    run_models(made.places, accounting=True)
    return made


@pytest.fixture
def harmed(spark: SparkSession, origin: Harmed, tmp_path: Path) -> Harmed:
    return Harmed(spark, tmp_path / "copy", origin)


def test_a_table_has_the_properties_that_its_model_declares(origin: Harmed) -> None:
    assert PROPERTIES.items() <= DeltaTable(str(origin.folder(f"gold/{ALIAS}"))).metadata().configuration.items()


def files_lost(folder: Path) -> None:
    for path in folder.rglob("*.parquet"):
        if "_delta_log" not in path.parts:
            path.unlink()


def file_torn(folder: Path) -> None:
    for path in folder.rglob("*.parquet"):
        if "_delta_log" not in path.parts:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def commit_torn(folder: Path) -> None:
    last = sorted((folder / "_delta_log").glob("*.json"))[-1]
    last.write_text(last.read_text()[: len(last.read_text()) // 2])
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    for path in (folder / "_delta_log").glob("*.crc"):
        path.unlink()


def commit_emptied(folder: Path) -> None:
    last = sorted((folder / "_delta_log").glob("*.json"))[-1]
    last.write_text("")
    for path in (folder / "_delta_log").glob(".*.crc"):
        path.unlink()


def log_lost(folder: Path) -> None:
    shutil.rmtree(folder / "_delta_log")


def unable(*_: object) -> None:
    raise Fault("the build has no room")


def test_damaged_tables_are_named_and_made_anew(
    harmed: Harmed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = harmed.rows_of_models()
    for table, harm in zip(MODELS, (files_lost, commit_torn, log_lost), strict=True):
        harm(harmed.folder(table))

    named = {f"{one.layer}/{one.name}" for one in damages(harmed.spark, harmed.places)}
    with monkeypatch.context() as patch:
        patch.setattr("spark_jobs.rebuild.build", unable)
        with pytest.raises(Fault, match="the build"):
            rebuild(harmed.run, harmed.spark, [NAME])
    aside = re.findall("moved aside: (.*); remove it", capsys.readouterr().out)
    rebuild(harmed.run, harmed.spark, [NAME])

    assert named == set(MODELS)
    assert [Path(place).name for place in aside] == [table.replace("/", ".") for table in sorted(MODELS[1:3])[::-1]]
    assert all(Path(place).is_dir() for place in aside)
    assert harmed.rows_of_models() == right


def test_tables_in_a_path_with_letters_of_patterns_and_urls_are_built_and_undamaged(
    spark: SparkSession, origin: Harmed, tmp_path: Path
) -> None:
    harmed = Harmed(spark, tmp_path / "a%2Fb [c] {d,e}", origin)
    land(spark, harmed.places, "third", lines(9, 1), {"harm"})
    steps.build(harmed.run, ["--quiet"])

    assert spark.table(table_at(str(harmed.folder(MODELS[2])))).count() == 10
    assert damages(spark, harmed.places) == []


@pytest.mark.parametrize("table", MODELS)
def test_a_table_whose_rebuild_was_killed_is_made_anew_by_the_next_run(harmed: Harmed, table: str) -> None:
    right = harmed.rows_of_models()
    log_lost(harmed.folder(table))
    [damage] = damages(harmed.spark, harmed.places)

    # What a rebuild does before it builds.
    forget_progress(harmed.spark, harmed.places, [damage.name.replace(ALIAS, f"{NAME}_history")])
    move_aside(harmed.spark, harmed.places, harmed.run.run_id, damage)
    run_models(harmed.places, accounting=True)

    assert harmed.rows_of_models() == right


def test_a_torn_file_fails_build_and_check_with_the_table_s_name_and_the_command(harmed: Harmed) -> None:
    def ids_of(table: str) -> Callable[[], set[str]]:
        return lambda: set(DeltaTable(str(harmed.folder(table))).to_pyarrow_table(columns=["id"])["id"].to_pylist())

    right = harmed.rows_of_models()
    land(harmed.spark, harmed.places, "third", lines(9, 1), {"harm"})
    file_torn(harmed.folder(MODELS[0]))

    message = rf"silver.{NAME}_changes is damaged.*tidemark rebuild {NAME}"
    with pytest.raises(Fault, match=message):
        steps.build(harmed.run, ["--quiet"])
    with pytest.raises(Fault, match=message):
        steps.check_and_report(harmed.run, harmed.spark)
    with reading(*map(ids_of, MODELS[1:])) as readers:
        rebuild(harmed.run, harmed.spark, [NAME])

    assert is_right_with_another(harmed, right)
    assert damages(harmed.spark, harmed.places) == []
    before, after = ({str(number) for number in range(count)} for count in (9, 10))
    for reader in readers:
        seen = reader.result()
        assert (seen[0], seen[-1]) == (before, after)
        assert [ids for ids in seen if ids not in (before, after)] == []


@pytest.mark.parametrize("is_known", [True, False], ids=["that the catalog knows", "of a new catalog"])
def test_tables_that_are_gone_are_named_by_the_build_that_misses_them(harmed: Harmed, is_known: bool) -> None:
    right = harmed.rows_of_models()
    if is_known:
        run_models(harmed.places, accounting=True)
    shutil.rmtree(harmed.folder(MODELS[1]))
    land(harmed.spark, harmed.places, "third", lines(9, 1), {"harm"})

    with pytest.raises(Fault, match=rf"gold.{ALIAS} is damaged: it is gone. .*`tidemark rebuild {NAME}`"):
        steps.build(harmed.run, ["--quiet"])
    rebuild(harmed.run, harmed.spark, [NAME])

    assert is_right_with_another(harmed, right)


def test_tables_that_are_gone_are_named_by_the_check_that_would_miss_them(harmed: Harmed) -> None:
    log_lost(harmed.folder(MODELS[1]))
    shutil.rmtree(harmed.folder(MODELS[2]))

    lost = rf"gold.{ALIAS} is damaged: it has files and no log\. .*`tidemark rebuild {NAME}`"
    gone = rf"silver.{NAME}_current is damaged: it is gone\. .*`tidemark rebuild {NAME}`"
    with pytest.raises(Fault, match=f"{lost}.* {gone}"):
        steps.check_and_report(harmed.run, harmed.spark)


def test_a_part_is_built_with_a_catalog_that_knows_no_table(harmed: Harmed) -> None:
    right = harmed.rows_of_models()

    run_models(harmed.places, "--select", f"{NAME}_accounting", accounting=True)
    run_models(harmed.places, "--select", f"{NAME}_current")

    assert harmed.rows_of_models() == right


def test_an_emptied_commit_is_found_where_damage_is_looked_for(harmed: Harmed) -> None:
    commit_emptied(harmed.folder(MODELS[1]))

    [damage] = damages(harmed.spark, harmed.places)

    assert damage.name == ALIAS
    assert damage.what.endswith(".json, is empty")


def test_a_project_that_was_renamed_is_built_anew_and_accounted_for_once(harmed: Harmed) -> None:
    settings = harmed.places.project / "dbt_project.yml"
    text = settings.read_text()
    settings.unlink()
    text = text.replace("name: tidemark", "name: acme")
    settings.write_text(re.sub(r"(models|data_tests):\n  tidemark:", r"\1:\n  acme:", text))
    run_models(harmed.places, accounting=True)
    land(harmed.spark, harmed.places, "third", lines(9, 1), {"harm"})
    run_models(harmed.places, accounting=True)

    outcome = steps.check_and_report(harmed.run, harmed.spark)

    assert [sentence for sentence in outcome.failures if "accounted" in sentence] == []


def test_of_several_errors_each_tells_of_its_own_table(harmed: Harmed) -> None:
    locked, torn = (f"{harmed.places.lakehouse}/{table}/part-0.parquet" for table in MODELS[:2])
    said = [f"{torn} is not a Parquet file", f"java.io.FileNotFoundException: {locked} (Permission denied)"]

    found = damages(harmed.spark, harmed.places, *said)
    fault = explained(harmed.spark, harmed.places, *said)
    log_lost(harmed.folder(MODELS[2]))

    assert [(f"{one.layer}/{one.name}", one.what) for one in found] == [(MODELS[1], said[0])]
    assert f"gold.{ALIAS} is damaged" in str(fault)
    assert str(fault).endswith(f"`tidemark rebuild {NAME}`."), "no folder, but what rebuild knows"
    assert explained(harmed.spark, harmed.places, said[1], "[DELTA_TABLE_NOT_FOUND]") is None, (
        "it says itself what it was"
    )


@pytest.mark.parametrize(
    ("table", "harm"),
    [
        ("records", files_lost),
        ("records", commit_torn),
        ("records", commit_emptied),
        ("records", log_lost),
        ("shapes", shutil.rmtree),
        ("quarantine", shutil.rmtree),
    ],
)
def test_damaged_bronze_is_named_and_never_written(
    harmed: Harmed,
    table: str,
    harm: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    harm(harmed.folder(f"bronze/{table}"))
    before = sorted((path, path.stat().st_mtime_ns) for path in harmed.folder("bronze").rglob("*"))
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", harmed.places.lakehouse)
    (harmed.home / "again.jsonl").write_text(lines(0, 6))

    again = str(harmed.home / "again.jsonl")
    for command in (["rebuild", NAME], ["land", again], ["run", again], ["check"]):
        assert main([*command, "--project-dir", str(harmed.places.project)]) == Fault.status
        said = capsys.readouterr().err
        assert f"bronze.{table} is damaged" in said
        assert "restore" in said

    assert sorted((path, path.stat().st_mtime_ns) for path in harmed.folder("bronze").rglob("*")) == before


def test_lost_progress_and_a_lost_catalog_cost_time_alone(harmed: Harmed) -> None:
    right = harmed.rows_of_models()
    shutil.rmtree(harmed.folder("ops/progress"))
    forget_tables(harmed.spark)

    run_models(harmed.places, accounting=True)

    assert harmed.rows_of_models() == right


def test_a_user_s_own_table_whose_catalog_was_lost_is_told_of_with_what_to_do(harmed: Harmed) -> None:
    (harmed.places.project / "models/mine.sql").write_text("{{ config(materialized='table') }} select 1 as one")
    run_models(harmed.places, "--select", "mine")
    [location] = harmed.spark.sql("describe extended default.mine").where("col_name = 'Location'").collect()
    folder = Path(location["data_type"].removeprefix("file:"))
    shutil.copytree(folder, harmed.home / "kept")
    harmed.spark.sql("drop table default.mine")
    (harmed.home / "kept").rename(folder)

    with pytest.raises(Fault, match=r"mine could not be built.*lakehouse/warehouse.*Put its folder there aside"):
        steps.build(harmed.run, ["--quiet", "--select", "mine"])
    shutil.rmtree(folder)


def test_a_statement_that_can_not_be_read_is_the_user_s_and_no_damage_is_looked_for(harmed: Harmed) -> None:
    log_lost(harmed.folder(MODELS[2]))
    for name in ("mine", "another"):
        (harmed.places.project / f"models/{name}.sql").write_text("select there_is_none from (select 1 as one)")

    with pytest.raises(UsageError, match=r"(?s)mine.*: \[UNRESOLVED_COLUMN.*mend it") as refused:
        steps.build(harmed.run, ["--quiet", "--select", "mine", "another"])
    assert "another" in str(refused.value)


def first_writing_killed(folder: Path) -> None:
    log = folder / "_delta_log"
    shutil.rmtree(log, ignore_errors=True)
    (log / "_staged_commits").mkdir(parents=True)
    (log / ".00000000000000000000.json.0.tmp").touch()


def test_what_a_first_writing_left_that_was_killed_is_no_table_yet(
    harmed: Harmed, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_writing_killed(harmed.folder(MODELS[2]))
    harmed.spark.sql(f"delete from delta.`{harmed.folder('ops/progress')}` where model like '%.{NAME}_current'")
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", harmed.places.lakehouse)
    directory = ["--project-dir", str(harmed.places.project)]

    assert [main([command, *directory]) for command in ("check", "upkeep")] == [0, 0]


@pytest.mark.parametrize("name", bronze.TABLES)
def test_bronze_whose_making_was_killed_is_made(spark: SparkSession, tmp_path: Path, name: str) -> None:
    places = Places(tmp_path, str(tmp_path / "lakehouse"), "")
    first_writing_killed(Path(places.table("bronze", name)))
    first_writing_killed(Path(places.table("ops", "progress")))

    bronze.ensure(spark, places)

    assert all(is_table(spark, places.table("bronze", one)) for one in bronze.TABLES)
    assert not Path(places.table("ops", "progress")).exists()


def test_a_lakehouse_of_the_layout_before_is_upgraded(
    harmed: Harmed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Layout 2: an account was a table of its own, and progress had no column of it."""
    right = harmed.rows_of_models()
    progress, account = harmed.folder("ops/progress"), harmed.folder(f"ops/{NAME}_accounting")
    harmed.spark.sql(f"drop view if exists ops.{NAME}_accounting")
    harmed.spark.sql(
        f"create table ops.{NAME}_accounting using delta location '{account}'"
        " tblproperties ('tidemark.counts' = 'all') as select 'disposition' as kind"
    )
    harmed.spark.sql(f"alter table delta.`{progress}` set tblproperties ('delta.columnMapping.mode' = 'name')")
    harmed.spark.sql(f"alter table delta.`{progress}` drop column account")
    harmed.spark.sql(f"""update delta.`{progress}` set state = replace(state, '"account"', '"of later"')""")
    harmed.folder("tidemark.json").write_text('{"layout": 2}')
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", harmed.places.lakehouse)
    directory = ["--project-dir", str(harmed.places.project)]

    refused = main(["check", *directory])
    # Whoever writes an environment that shares the lakehouse is waited for.
    harmed.folder("dev_ops").mkdir()
    for prefix, target in (("", "local_dev"), ("dev_", "local")):
        with writing(replace(harmed.places, prefix=prefix), "other", "build", oldest=2):
            assert main(["upgrade", "--target", target, *directory]) == Busy.status
    upgraded = main(["upgrade", *directory])
    again = main(["upgrade", *directory])
    said = capsys.readouterr()

    assert (refused, upgraded, again) == (UsageError.status, 0, 0), said
    assert "`tidemark upgrade` brings it there" in said.err
    assert "had layout 2 and has 3 now" in said.out
    assert "nothing to do" in said.out
    assert not account.exists()
    run_models(harmed.places, accounting=True)
    assert harmed.rows_of_models() == right


def test_a_catalog_of_another_lakehouse_is_refused(harmed: Harmed, spark: SparkSession) -> None:
    forget_tables(spark)
    spark.sql("create schema if not exists bronze")
    spark.sql(f"create table bronze.records using delta location '{harmed.home}/lakehouse/bronze/quarantine'")

    with pytest.raises(UsageError, match="TIDEMARK_CATALOG"):
        steps.build(harmed.run, ["--quiet"])


def test_a_folder_that_can_not_be_written_is_told_and_the_next_run_is_right(harmed: Harmed) -> None:
    land(harmed.spark, harmed.places, "third", lines(9, 2), {"harm"})
    log = harmed.folder(MODELS[0]) / "_delta_log"
    log.rename(log.with_name("away"))
    log.write_text("in the way of the log")

    with pytest.raises(Fault, match=f"{NAME}_changes is damaged: it has files and no log"):
        steps.build(harmed.run, ["--quiet"])
    log.unlink()
    log.with_name("away").rename(log)
    run_models(harmed.places, accounting=True)

    ids = {row["id"] for row in DeltaTable(str(harmed.folder(MODELS[1]))).to_pyarrow_table().to_pylist()}
    assert ids == {str(number) for number in range(11)}


@contextmanager
def full_disk(spark: SparkSession) -> Iterator[None]:
    """A disk that has no room for a file of more than LARGEST bytes, as Spark's process sees it."""
    assert spark._jvm is not None
    process = spark._jvm.java.lang.ProcessHandle.current().pid()
    before = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (LARGEST, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, before)


def test_a_full_disk_ends_landing_and_building_in_a_line_and_the_next_run_is_right(harmed: Harmed) -> None:
    # No two letters repeat each other: what a file is compressed to has to be larger than the disk.
    third = lines(9, 1, random.Random(4).randbytes(LARGEST).hex())

    with full_disk(harmed.spark), pytest.raises(Fault, match=r"could not land the records: .*File too large"):
        land(harmed.spark, harmed.places, "third", third, {"harm"})
    assert [damage.name for damage in damages(harmed.spark, harmed.places)] == []
    land(harmed.spark, harmed.places, "third again", third, {"harm"})
    with full_disk(harmed.spark), pytest.raises(Fault, match=r"could not be built: .*File too large"):
        steps.build(harmed.run, ["--quiet"])
    steps.build(harmed.run, ["--quiet"])

    for table in MODELS[1:3]:
        rows = DeltaTable(str(harmed.folder(table))).to_pyarrow_table(columns=["id"]).to_pylist()
        assert sorted(row["id"] for row in rows) == [str(number) for number in range(10)]


@pytest.mark.parametrize(
    ("what", "is_damage"),
    [
        ("is not a Parquet file. Expected magic number at tail", True),
        ("(Input/output error)", True),
        ("(Permission denied)", False),
        ("(Too many open files)", False),
        ("(No space left on device)", False),
        ("Connect to store.example:9000 failed: Connection refused", False),
    ],
)
def test_a_file_that_something_was_in_the_way_of_damages_no_table(tmp_path: Path, what: str, is_damage: bool) -> None:
    places = Places(tmp_path, f"{tmp_path}/lakehouse", "")
    file = f"{places.table('gold', NAME)}/is_current=true/part-0.parquet"

    found = blamed(places, f"java.io.FileNotFoundException: {file} {what}")

    assert found == ({("gold", NAME)} if is_damage else set())


def test_a_table_is_blamed_by_a_url_of_its_file_and_by_its_path(tmp_path: Path) -> None:
    places = Places(tmp_path, f"{tmp_path}/a%2Fb c", "")
    file = Path(places.table("gold", NAME)) / "part-0.parquet"

    found = [blamed(places, f"{said} is not a Parquet file") for said in (file, file.as_uri())]

    assert found == [{("gold", NAME)}] * 2


def test_books_that_can_be_read_are_left_as_they_are(harmed: Harmed) -> None:
    with pytest.raises(UsageError, match=r"rebuild ops.progress: it is not damaged, so nothing was done"):
        rebuild(harmed.run, harmed.spark, ["ops.progress"])


def test_what_dbt_never_makes_anew_is_not_rebuilt(harmed: Harmed) -> None:
    history = harmed.places.project / f"models/gold/history/{NAME}_history.sql"
    history.write_text("{{ config(full_refresh=false) }}" + history.read_text())

    with pytest.raises(UsageError, match=rf"rebuild {NAME}: {NAME}_history has `full_refresh: false`"):
        rebuild(harmed.run, harmed.spark, [NAME])


def test_an_unknown_table_is_answered_with_the_nearest(harmed: Harmed) -> None:
    with pytest.raises(UsageError, match=f"Did you mean {NAME}"):
        rebuild(harmed.run, harmed.spark, [NAME.replace("orders", "ordres")])
