"""What is asked of the file system alone: which files are landed, where a lakehouse is, and what a full disk leaves."""

from __future__ import annotations

import gzip
import os
import re
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze, damage, declarations, logs
from spark_jobs.damage import Damage, move_aside
from spark_jobs.declarations import captured_tables
from spark_jobs.errors import Fault, UsageError
from spark_jobs.landing import land
from spark_jobs.landing.input_files import files_named, in_even_parts, refuse_damaged
from spark_jobs.landing.land import Landing, land_files
from spark_jobs.lock import layout_of, open_lakehouse, writing
from spark_jobs.names import feed
from spark_jobs.places import Places, profile
from spark_jobs.scaffolding.write import write
from tests.projects import PROJECT, empty_project
from tests.users import an_ordinary_user


@contextmanager
def full_disk() -> Iterator[None]:
    """A disk without room for a byte, as this process sees it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path, str(tmp_path / "lakehouse"), str(tmp_path / "catalog"))


def test_a_lakehouse_that_a_full_disk_kept_from_being_made_is_made_when_there_is_room(places: Places) -> None:
    with full_disk(), pytest.raises(Fault, match="can't be written"):
        open_lakehouse(places)
    assert list(Path(places.lakehouse).iterdir()) == []

    open_lakehouse(places)
    assert layout_of(places) is not None


def test_a_full_disk_keeps_nobody_from_the_lock_and_says_nothing_in_logs(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = open_lakehouse(places)
    logs.start(folder, "run", False)
    with full_disk(), writing(places, "run", "land"):
        logs.log.info("a line that has no room")
    assert capsys.readouterr().err == ""


def test_models_are_written_all_or_none(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/other").write_text("no folder")

    with pytest.raises(Fault, match="models can't be written"):
        write(tmp_path, {"models/one.sql": "select 1", "models/other/two.sql": "select 2"})
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["models", "other"]


def touch(folder: Path, *names: str) -> list[str]:
    """Make empty files in a folder and those within it; their paths."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return [str(folder / name) for name in names]


def test_a_pattern_names_files_at_any_depth(tmp_path: Path) -> None:
    wanted = touch(tmp_path, "a.jsonl", "x/b.jsonl", "x/y/c.jsonl")
    [unfinished, *_] = touch(tmp_path, "x/_temporary/0/d.jsonl", "x/_d.jsonl", "x/e.txt")

    assert files_named([f"{tmp_path}/**/*.jsonl"]) == wanted
    assert files_named([f"{tmp_path}/x/_t*/**/*.jsonl"]) == [unfinished]


def test_a_folder_has_the_files_of_linked_ones_once_and_none_that_are_not_finished(tmp_path: Path) -> None:
    named, beside = tmp_path / "_in", tmp_path / "beside"
    wanted = touch(named, "a.jsonl", "x/b.jsonl") + touch(beside, "c.jsonl")
    touch(named, "_temporary/0/d.jsonl", "x/.staging/e.jsonl")
    touch(tmp_path, "f.jsonl")
    for link, target in (("there", beside), ("x/again", beside), ("x/round", named), ("up", tmp_path)):
        (named / link).symlink_to(target)
    (named / "x/a.jsonl").symlink_to(named / "a.jsonl")

    assert sorted(files_named([str(named)])) == wanted


@pytest.mark.parametrize(
    ("target", "link", "content", "says"),
    [
        (".current.jsonl.17", "current.jsonl", b"{}", "names with . in front are of files that aren't finished"),
        ("_x.jsonl", "x.jsonl", b"{}", "names with _ in front are of files that aren't finished"),
        ("x._COPYING_", "x.jsonl", b"{}", "names with ._COPYING_ at the end are of files that aren't finished"),
        ("export.jsonl.lz4", "latest", b"\x04\x22\x4d\x18\x64", "files whose names end with .lz4 aren't unpacked"),
        (
            "store.ab12cd",
            "orders.jsonl.gz",
            b"\x1f\x8b\x08\x00",
            "packed by gzip, and its own name doesn't end with .gz",
        ),
        ("store.ab12cd", "orders.jsonl.bz2", b"BZh91AY", "packed by bzip2, and its own name doesn't end with .bz2"),
        ("orders.jsonl.gz", "orders.jsonl", b"{}", "not a whole gzip file"),
    ],
)
def test_a_link_to_what_spark_would_not_read_is_named_with_where_it_leads(
    tmp_path: Path, target: str, link: str, content: bytes, says: str
) -> None:
    (tmp_path / "store").mkdir()
    (real := tmp_path / "store" / target).write_bytes(content)
    (named := tmp_path / "in" / link).parent.mkdir()
    named.symlink_to(real)

    for argument in (named, named.parent, f"{tmp_path}/i*/*"):
        with pytest.raises(
            UsageError, match=f"^{re.escape(f'{named} (a link to {real}): {says}')}.*Nothing was landed"
        ):
            files_named([str(argument)])


def test_a_link_to_what_spark_reads_is_its_target(tmp_path: Path) -> None:
    [packed] = touch(tmp_path, "..data/orders.jsonl.gz")
    Path(packed).write_bytes(b"\x1f\x8b\x08\x00")
    (link := tmp_path / "latest").symlink_to(packed)

    assert files_named([str(link)]) == [packed]


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    touch(tmp_path, "in/a.jsonl")
    (link := tmp_path / "in/b.jsonl").symlink_to("gone.jsonl")
    (tmp_path / "in/.#a.jsonl").symlink_to("ann@host.1")  # as editors lock a file

    for argument in (link, link.parent, f"{tmp_path}/in/*", f"{tmp_path}/**/*.jsonl"):
        with pytest.raises(
            UsageError, match=rf"^{link}: a link to gone\.jsonl, which isn't there\. Nothing was landed"
        ):
            files_named([str(argument)])
    link.unlink()
    assert files_named([f"{tmp_path}/in"]) == [f"{tmp_path}/in/a.jsonl"]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Encountered error while reading file file:///in/a%20b.gz. EOFException", ["/in/a b.gz"]),
        ("EOFException: Unexpected end of input stream", ["/in/a b.gz", "/in/c.gz"]),
        ("java.io.IOException: No space left on device", None),
    ],
)
def test_files_are_unpacked_to_find_a_damaged_one_only_where_reading_them_failed(
    monkeypatch: pytest.MonkeyPatch, said: str, asked: list[str] | None
) -> None:
    def fails(*_: object) -> None:
        raise PySparkException(said)

    nothing: Any = None
    rows: Any = SimpleNamespace(columns=[], unpersist=lambda: None, withColumns=lambda _: None)
    rows.transform = rows.persist = lambda _: rows
    seen: list[list[str]] = []
    monkeypatch.setattr(land, "refuse_damaged", seen.append)
    monkeypatch.setattr(land, "_survey", fails)
    monkeypatch.setattr(F, "lit", lambda _: SimpleNamespace(cast=lambda _: None))
    landing, files = Landing("run", datetime.now(UTC)), ["/in/a b.gz", "/in/c.gz"]
    wanted = [] if asked is None else [asked]

    with pytest.raises(Fault, match="could not land the records"):
        land.land_rows(nothing, nothing, rows, landing, files=files)
    assert seen == wanted

    monkeypatch.setattr(land, "_survey", lambda _: [{"suspects": 0}])
    monkeypatch.setattr(bronze, "ensure", fails)
    with pytest.raises(Fault, match="could not land the records"):
        land.land_rows(nothing, nothing, rows, landing, files=files)
    assert seen == wanted, "bronze was in the way"


def test_a_file_that_can_not_be_read_is_no_damaged_one(tmp_path: Path) -> None:
    (half := tmp_path / "half.jsonl.gz").write_bytes(gzip.compress(os.urandom(5000))[:2000])
    refuse_damaged([str(tmp_path / "taken away.jsonl.gz")])
    with pytest.raises(UsageError, match=f"^{half}: not a whole gzip file"):
        refuse_damaged([str(tmp_path / "taken away.jsonl.gz"), str(half)])


def test_a_table_that_a_store_does_not_move_aside_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing: Any = None
    files = SimpleNamespace(mkdirs=lambda _: True, rename=lambda *_: False)
    monkeypatch.setattr(damage, "files_at", lambda *_: (files, SimpleNamespace(getParent=lambda: None)))
    store = Places(tmp_path, "s3a://bucket/lake", "")
    harmed = Damage("gold", "orders", store.table("gold", "orders"), "its log is gone", has_log=False)

    with pytest.raises(
        Fault, match=r"s3a://bucket/lake/gold/orders could not be moved to .*/_damaged/run/gold\.orders"
    ):
        move_aside(nothing, store, "run", harmed)


def test_damage_is_told_by_the_environment_that_it_is_of() -> None:
    dev = Places.of(PROJECT, {"TIDEMARK_TARGET": "local_dev"})
    gone = Damage("gold", "orders", dev.table("gold", "orders"), "it is gone", has_log=False)

    assert gone.line(dev) == (
        "dev_gold.orders is damaged: it is gone. It can be made anew: `tidemark rebuild --target local_dev orders`."
    )


def test_who_only_reads_bronze_leaves_alone_what_landing_knows_of_topics(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared = list[str]()
    monkeypatch.setattr(bronze, "clear", lambda _, location: cleared.append(Path(location).name))
    monkeypatch.setattr(bronze, "_made", lambda *_: [*bronze.TABLES])
    for prefix in ("dev_", ""):
        bronze.ensure(SparkSession.__new__(SparkSession), replace(places, prefix=prefix))
    assert cleared == ["progress", "accounting", "test_results", *bronze.UNMODELLED]


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that an ordinary user can't look into, in one that every user can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    touch(folder, "in/us/a.jsonl", "in/eu/b.jsonl", "in/_temporary/c.jsonl", "in/eu/deep/d.jsonl")
    monkeypatch.chdir(folder)
    (folder / "in/_temporary").chmod(0)
    (folder / "in/eu").chmod(0)
    yield folder / "in/eu"
    (folder / "in/eu").chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "pattern", ["in/*/*.jsonl", "in/*/a.jsonl", "in/**/*.jsonl", "in/*/*/*.jsonl", "in/*", "**", "in/[e]u/*", "in/eu/*"]
)
def test_a_folder_that_a_pattern_can_not_look_into_is_named(closed: Path, pattern: str) -> None:
    for argument in (pattern, f"{closed.parents[1]}/{pattern}"):
        with pytest.raises(UsageError, match=r"in/eu(/\S+)?: can't be read \(Permission denied"), an_ordinary_user():
            files_named([argument])


def test_a_folder_that_no_pattern_looks_into_may_be_closed(closed: Path) -> None:
    wanted = [str(closed.parent / "us/a.jsonl")]
    with an_ordinary_user():
        found = [files_named([one]) for one in ("in/us/*", "in/u*/*.jsonl", "*/us/*.jsonl", "in/[!_e]*/*.jsonl")]
    assert found == [wanted] * 4


def test_a_copy_that_is_not_finished_is_left_aside(tmp_path: Path) -> None:
    [unfinished, whole] = touch(tmp_path, "a.jsonl._COPYING_", "b.jsonl")

    assert files_named([str(tmp_path), f"{tmp_path}/*"]) == [whole]
    with pytest.raises(UsageError, match=r"names with \._COPYING_ at the end are of files that aren't finished"):
        files_named([unfinished])


def test_a_file_whose_name_spark_can_not_open_is_named(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl")).touch()

    with pytest.raises(UsageError, match=r"caf\\xe9.jsonl.*no UTF-8"):
        files_named([str(tmp_path)])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("dbt_project.yml", "profiles.yml"):
        shutil.copy(PROJECT / name, tmp_path)
    return tmp_path


def test_a_place_that_is_said_to_be_nowhere_is_where_it_is_by_default(project: Path) -> None:
    empty = {"TIDEMARK_LAKEHOUSE": "", "TIDEMARK_CATALOG": ""}
    assert Places.of(project, empty) == Places.of(project, {})


def test_a_place_has_one_spelling(project: Path) -> None:
    places = Places.of(project, {"TIDEMARK_LAKEHOUSE": "//a/./lake/", "TIDEMARK_CATALOG": "//b"})
    assert (places.lakehouse, places.catalog) == ("/a/lake", "/b")


def test_a_catalog_whose_path_ends_derbys_url_is_refused(project: Path) -> None:
    with pytest.raises(UsageError, match=r"/a;b: its path has a semicolon.*TIDEMARK_CATALOG"):
        Places.of(project, {"TIDEMARK_CATALOG": "a;b"})
    assert Places.of(project, {"TIDEMARK_CATALOG": "a;b", "TIDEMARK_TARGET": "thrift"}).catalog.endswith("a;b")


def test_a_project_that_can_not_be_written_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = empty_project(tmp_path / "project")
    shutil.rmtree(folder / "logs", ignore_errors=True)
    shutil.rmtree(folder / "target", ignore_errors=True)
    monkeypatch.setattr(declarations, "may_write", lambda _: False)

    assert captured_tables(Places.of(folder)) == []
    assert not (folder / "logs").exists()
    assert not (folder / "target").exists()


@pytest.mark.parametrize(
    ("text", "environ", "said"),
    [
        ("tidemark: [", {}, "can't be read"),
        ("other: {}", {}, "'tidemark'"),
        ("tidemark: {target: '{{ target.name }}'}", {}, "'target' is undefined"),
        ("tidemark: {target: local, outputs: {local: {method: session}}}", {}, "target local doesn't say its schema"),
        ("tidemark: {target: local, outputs: [local]}", {}, "can't be read"),
        (None, {"TIDEMARK_THRIFT_PORT": "abc"}, "'abc'"),
    ],
)
def test_a_profile_that_can_not_be_read_is_told_in_a_sentence(
    project: Path, text: str | None, environ: dict[str, str], said: str
) -> None:
    if text is not None:
        (project / "profiles.yml").write_text(text)

    with pytest.raises(UsageError, match=r"profiles\.yml") as refused:
        Places.of(project, environ)
    assert said in str(refused.value)


def test_what_a_variable_holds_is_no_part_of_a_profile(project: Path) -> None:
    """`make setup` hands Java options with quoted paths; a folder may be called as YAML or Jinja spells things."""
    said = {
        "TIDEMARK_JAVA_OPTIONS": r'-Done="a b" -Dtwo=C:\temp',
        "TIDEMARK_LOG4J": "a: b # {{ no }}",
        "TIDEMARK_JARS": "[]",
    }

    read = profile(project, said)["outputs"]["local"]["server_side_parameters"]

    options = read["spark.driver.extraJavaOptions"]
    assert options.endswith(said["TIDEMARK_JAVA_OPTIONS"])
    assert f'-Dlog4j2.configurationFile="{said["TIDEMARK_LOG4J"]}"' in options
    assert read["spark.jars"].startswith("[]/")


def test_a_file_that_is_taken_away_while_it_is_landed_is_told_in_a_sentence(
    spark: SparkSession, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(land, "files_named", list)

    with pytest.raises(Fault, match=r"could not read the files: .*gone\.jsonl.* Nothing was landed"):
        land_files(spark, places, [f"{places.project}/gone.jsonl"], Landing("run", datetime.now(UTC)))


def test_all_cores_have_as_many_parts_of_a_large_file_as_any_other(spark: SparkSession, tmp_path: Path) -> None:
    name, largest, cores = "spark.sql.files.maxPartitionBytes", 1000, spark.sparkContext.defaultParallelism
    file = tmp_path / "records.jsonl"
    file.write_text("a line of 24 characters\n" * (largest * cores * 5 // 2 // 24))
    before = spark.conf.get(name)
    spark.conf.set(name, largest)
    try:
        with in_even_parts(spark, [str(file)]):
            assert spark.read.text(str(file))._jdf.rdd().getNumPartitions() == 3 * cores
        assert spark.conf.get(name) == str(largest)
    finally:
        spark.conf.set(name, before)


def test_a_feed_has_one_name_in_every_locale(spark: SparkSession) -> None:
    names = ["Orders", "ÜRETIM", "SİPARİŞ", "KIŞ", "4\u212a", "ΟΔΟΣ"]
    feeds = spark.createDataFrame([(name,) for name in names], "name string").select(feed(F.lit("inv"), F.col("name")))
    locale = spark._jvm.java.util.Locale
    usual = locale.getDefault()
    assert usual.toString() == "en_US"

    found = []
    for tag in ("en-US", "tr-TR"):
        locale.setDefault(locale.forLanguageTag(tag))
        try:
            found.append([row[0][:-9] for row in feeds.collect()])
        finally:
            locale.setDefault(usual)

    assert found[0] == found[1]
    assert found[0] == ["inv__orders", "inv___retim", "inv__si_pari__", "inv__ki_", "inv__4k", "inv______"]
