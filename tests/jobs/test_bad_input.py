"""A user's mistake gets one sentence and an exit status, and bad records go aside without taking others along."""

from __future__ import annotations

import bz2
import fcntl
import gzip
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze, steps  # noqa: F401 - an_ordinary_user may not be able to
from spark_jobs.cli import main
from spark_jobs.declarations import run_dbt
from spark_jobs.errors import UsageError
from spark_jobs.lock import LAYOUT
from spark_jobs.places import Places
from spark_jobs.query import as_json, as_table, rows_of
from tests.jobs.conftest import BAD, GOOD, CommandLine, Said
from tests.jobs.lines import TOPIC, envelope, line
from tests.projects import PROJECT
from tests.users import an_ordinary_user


def is_one_sentence(said: Said, status: int, *parts: str) -> None:
    """Assert the exit status, that nothing else was said than progress and a message, and what is in it."""
    words = [one for one in said.err.splitlines() if not one.endswith("…")]
    assert said.status == status, said
    assert "Traceback" not in said.out + said.err
    assert len(words) == 1, words
    for part in parts:
        assert part in words[0]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A project's folder that every user can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    for name in ("dbt_project.yml", "profiles.yml"):
        shutil.copy(PROJECT / name, folder)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_file_that_may_not_be_read(open_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = open_folder / "secret.jsonl"
    file.write_text(GOOD[0])
    file.chmod(0)
    with an_ordinary_user():
        status = main(["land", str(file), "--project-dir", str(open_folder)])

    is_one_sentence(Said(status, *capsys.readouterr()), 2, str(file), "Permission denied", "Nothing was landed")


def test_a_folder_that_may_not_be_looked_into(open_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = open_folder / "records/closed"
    folder.mkdir(parents=True)
    (folder.parent / "records.jsonl").write_text(GOOD[0])
    folder.chmod(0)
    with an_ordinary_user():
        status = main(["land", str(folder.parent), "--project-dir", str(open_folder)])

    is_one_sentence(Said(status, *capsys.readouterr()), 2, str(folder), "Permission denied", "Nothing was landed")


def test_a_lakehouse_that_may_not_be_written(
    open_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", str(open_folder / "lakehouse"))
    file = open_folder / "records.jsonl"
    file.write_text(GOOD[0])
    open_folder.chmod(0o555)
    with an_ordinary_user():
        status = main(["land", str(file), "--project-dir", str(open_folder)])

    is_one_sentence(Said(status, *capsys.readouterr()), 3, "lakehouse", "can't be written", "TIDEMARK_LAKEHOUSE")


def test_a_file_that_is_not_there(tidemark: CommandLine) -> None:
    is_one_sentence(tidemark("land", "nowhere/*.jsonl"), 2, "nowhere/*.jsonl: no such file")
    is_one_sentence(tidemark("land", ""), 2, "An empty name")
    os.mkfifo(pipe := tidemark.home / "pipe")
    is_one_sentence(tidemark("land", str(pipe)), 2, f"{pipe}: a pipe or a device", "Write it to a file")


def test_who_only_reads_makes_no_tables(tidemark: CommandLine) -> None:
    assert tidemark("tables").status == 0
    assert tidemark("quarantine", "list").out == "The quarantine is empty.\n"
    is_one_sentence(tidemark("quarantine", "show", "4711"), 2, "quarantine show 4711: nothing was landed")
    assert not (tidemark.lakehouse / "bronze").exists()


def test_a_damaged_gzip_file_is_named_and_nothing_landed(tidemark: CommandLine) -> None:
    whole = gzip.compress("\n".join([*GOOD] * 500).encode())
    harmed = {"half.jsonl.gz": whole[: len(whole) // 2], "padded.jsonl.gz": whole + whole + bytes(512)}
    for name, content in harmed.items():
        file = tidemark.home / name
        file.write_bytes(content)
        is_one_sentence(
            tidemark("land", tidemark.write("fine.jsonl", GOOD[0]), str(file)), 2, str(file), "not a whole gzip"
        )
    assert tidemark("sql", "select * from records").status == 2, "nothing is there"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("half.jsonl.BZ2", bz2.compress(b"x" * 5000)[:20], "not a whole bzip2 file"),
        ("plain.jsonl.bz2", b"{}", "not a whole bzip2 file (it doesn't begin like one)"),
        ("plain.jsonl.gz", b"{}", "not a whole gzip file (it doesn't begin like one)"),
        ("frame.jsonl.lz4", b"\x04\x22\x4d\x18\x64", "files whose names end with .lz4 aren't unpacked here"),
        ("plain.jsonl.Snappy", b"{}", "files whose names end with .snappy aren't unpacked here"),
        ("2026-11-27T10:00:00.jsonl", b"{}", "a name with a colon"),
        ("_begun.jsonl", b"{}", "names with _ in front are of files that aren't finished"),
    ],
)
def test_a_file_that_spark_would_not_read(tidemark: CommandLine, name: str, content: bytes, says: str) -> None:
    file = tidemark.home / name
    file.write_bytes(content)

    is_one_sentence(tidemark("land", str(file)), 2, str(file), says)


def test_a_file_packed_by_bzip2_is_read(tidemark: CommandLine) -> None:
    file = tidemark.home / "one.jsonl.bz2"
    file.write_bytes(bz2.compress(GOOD[0].encode()))

    assert "1 record read" in tidemark("land", str(file)).out


def test_a_file_that_is_not_records(tidemark: CommandLine) -> None:
    file = tidemark.write("readme.jsonl", "Dear all,", "here are the records.")

    packed = tidemark.home / "records.zip"
    packed.write_bytes(random.Random(1).randbytes(200_000))  # of any bytes a few lines begin with {

    for one in (file, str(packed)):
        is_one_sentence(tidemark("land", one), 2, one, "not a file of records", "kcat -J")


def test_bad_records_go_aside_and_good_ones_land(tidemark: CommandLine, landed: int) -> None:
    assert landed == 0
    entries = [json.loads(one) for one in tidemark("quarantine", "list", "--json").out.splitlines()]

    assert {one["code"] for one in entries} == set(BAD)
    assert sorted(
        json.loads(one)["offset"] for one in tidemark("sql", "--json", "select `offset` from records").out.splitlines()
    ) == [0, 1, 2, 3]


def test_of_what_is_held_a_part_is_listed(tidemark: CommandLine, landed: int) -> None:
    [one] = map(json.loads, tidemark("quarantine", "list", "--json", "--code", "value-not-json").out.splitlines())
    assert one["code"] == "value-not-json"
    assert len(tidemark("quarantine", "list", "--json", "--limit", "2").out.splitlines()) == 2
    assert tidemark("quarantine", "list", "--topic", "nobody").out == "The quarantine has no such entry.\n"
    *_, last = tidemark("quarantine", "list", "--limit", "2").out.splitlines()
    assert last == f"{len(BAD) - 2} more are held: choose with --code and --topic, or raise --limit."


def test_what_is_still_held_is_told_apart_from_what_bronze_has(tidemark: CommandLine, landed: int) -> None:
    said = tidemark("land", tidemark.write("mixed.jsonl", *GOOD, *BAD.values())).out
    assert "13 records read: 0 landed, 4 known already, 9 still held (`tidemark quarantine list`).\n" in said
    assert "Nothing was added: bronze holds these deliveries (R1)" in said

    said = tidemark("land", tidemark.write("held.jsonl", *[BAD["value-not-json"]] * 2)).out
    assert said == "2 records read: 0 landed, 2 still held (`tidemark quarantine list`).\n"


def test_a_line_is_held_until_its_file_has_it_no_more(tidemark: CommandLine, landed: int, spark: SparkSession) -> None:
    name = "grows ü%20?.jsonl"
    whole = [line(offset, {"id": offset}, None, topic="bad.public.grows") for offset in (0, 1, 2)]
    cut = whole[1][: whole[1].index("bad.public") + 5]
    of_no_base64 = line(2, {"id": 2}, None, topic="bad.public.grows", value_base64="%%%")
    commits = tidemark.lakehouse / "bronze/quarantine/_delta_log"

    def land(*lines: str, beside: tuple[str, ...] = ()) -> tuple[str, int]:
        before = len(list(commits.glob("*.json")))
        said = tidemark("land", tidemark.write(name, *lines), *beside)
        assert said.status == 0, said
        return said.out, len(list(commits.glob("*.json"))) - before

    def held() -> dict[str, str]:
        listed = map(json.loads, tidemark("quarantine", "list", "--json").out.splitlines())
        return {one["code"]: one["quarantine_id"] for one in listed if "grows" in one["origin"]}

    # The whole line comes from another file: so it is, too, where a landing was killed behind its records.
    said, written = land(whole[0], cut, of_no_base64, beside=(tidemark.write("other.jsonl", whole[1]),))
    assert ("2 landed, 2 quarantined" in said, written) == (True, 1)
    entries = held()
    assert set(entries) == {"line-not-json", "base64-not-understood"}
    said = tidemark("quarantine", "release", *entries.values()).out
    assert "2 lines of files not tried: mend them or take them out, and land their files again" in said
    refused = tidemark("quarantine", "release", entries["line-not-json"], "4711")
    is_one_sentence(refused, 2, "quarantine release 4711: no entry has that id", "Nothing was released")

    assert land(*whole) == ("3 records read: 1 landed, 2 known already.\n", 1)
    assert held() == {}
    assert land(*whole)[1] == 0, "nothing is left to settle (G3)"

    said, written = land(whole[0], cut, "{}", "{}")
    assert ("4 records read: 0 landed, 1 known already, 3 quarantined" in said, written) == (True, 1)
    assert "Nothing was added" not in said
    assert "released_in: None" in tidemark("quarantine", "show", entries["line-not-json"]).out, "one entry, held again"
    assert (
        "4 records read: 0 landed, 1 known already, 2 still held, 1 quarantined" in land(whole[0], cut, "{}", "[]")[0]
    )
    assert land()[1] == 1, "all of it was taken out"
    assert held() == {}
    entries, records = (
        spark.table(f"delta.`{tidemark.lakehouse}/bronze/{name}`") for name in ("quarantine", "records")
    )
    [newest] = records.agg(F.max("batch_id")).first()
    # A build takes what was released behind the records that it reads for what it has not read yet (R16).
    assert entries.where(F.col("released_in") > newest).count() == 0


def test_a_line_of_which_a_part_can_not_be_read_is_none_of_those_whose_other_parts_are_the_same(
    tidemark: CommandLine, landed: int, spark: SparkSession
) -> None:
    tombstone = line(2, {"id": 2}, None, topic="bad.public.parts")
    bad = [line(2, {"id": 2}, None, topic="bad.public.parts", value_base64=text) for text in ("%%%", "&&&")]

    def held() -> list[str]:
        listed = map(json.loads, tidemark("quarantine", "list", "--json").out.splitlines())
        return sorted(one["quarantine_id"] for one in listed if one["topic"] == "bad.public.parts")

    assert "1 landed" in tidemark("land", tidemark.write("tombstone.jsonl", tombstone)).out
    assert "2 records read: 0 landed, 2 quarantined" in tidemark("land", tidemark.write("parts.jsonl", *bad)).out
    ids = held()
    assert len(ids) == 2
    assert "2 records read: 0 landed, 2 still held" in tidemark("land", tidemark.write("copied.jsonl", *bad)).out

    # Those that an earlier version has held by another name.
    table = f"delta.`{tidemark.lakehouse}/bronze/quarantine`"
    spark.sql(f"update {table} set quarantine_id = 'of before' where quarantine_id = '{ids[0]}'")
    assert (
        "2 records read: 0 landed, 1 still held, 1 quarantined"
        in tidemark("land", str(tidemark.home / "parts.jsonl")).out
    )
    assert held() == ids
    assert tidemark("land", tidemark.write("parts.jsonl", tombstone)).status == 0
    assert held() == []


def test_what_stands_behind_a_record_is_not_passed_over(tidemark: CommandLine, landed: int) -> None:
    one, other = (json.dumps(envelope({"id": number, "email": "x"}, at=number)) for number in (20, 21))
    lines = [line(20, {"id": 20}, one) + line(21, {"id": 21}, other), line(22, {"id": 22}, one + other)]
    lines += [line(23, {"id": 23}, f"{one} and more"), line(24, {"id": 24}, f" {one}\n")]
    for number, between in enumerate((" ", ",", ", ", "\t", "]", "],[", " 1 "), 25):
        lines.append(between.join(line(number + 10 * more, {"id": 0}, one).strip() for more in (0, 1)) + "\n")
        lines.append(line(number + 20, {"id": number}, one + between + other))

    said = tidemark("land", tidemark.write("behind.jsonl", *lines))

    assert "18 records read: 1 landed, 17 quarantined (`tidemark quarantine list`).\n    9 value-not-json: " in said.out
    assert said.out.splitlines()[2] == "    8 line-not-json: the line is not one JSON object."


def test_what_one_landing_has_twice_is_landed_once(tidemark: CommandLine, landed: int) -> None:
    offsets = (0, 1, 32_768, 32_769, 65_536, 2**63 - 1)
    once = [line(offset, {"id": offset}, None, topic="bad.public.twice") for offset in offsets]
    of_other_bytes = line(1, {"id": "one"}, None, topic="bad.public.twice")

    said = tidemark("land", tidemark.write("twice.jsonl", *once, once[3], of_other_bytes, once[-1]))

    assert "9 records read: 7 landed, 2 known" in said.out


def test_of_many_partitions_each_is_compared_with_its_own_range(
    tidemark: CommandLine, landed: int, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines(*places: tuple[int, int]) -> list[str]:
        return [
            line(offset, {"id": offset}, None, topic="bad.public.uneven", partition=part) for part, offset in places
        ]

    stored = [(0, 0), (0, 100), (1, 1000), (1, 1100), (2, 50)]
    tidemark("land", tidemark.write("uneven.jsonl", *lines(*stored)))
    survey = [
        Row(topic="bad.public.uneven", partition=part, low=low, high=high)
        for part, low, high in ((0, 90, 120), (0, 121, 150), (1, 1050, 1200), (3, None, None))
    ]

    for most in (500, 1, 0):
        monkeypatch.setattr(bronze, "_MOST_RANGES", most)
        within = bronze.deliveries_within(spark, Places.of(tidemark.project), survey)
        assert within.columns == list(bronze.DELIVERY)
        found = sorted((one["partition"], one["offset"]) for one in within.collect())
        assert found == [(0, 100), (1, 1100)], most
        again = tidemark("land", tidemark.write("more.jsonl", *lines((0, 100), (1, 1100), (4, most), (2, 50))))
        assert "4 records read: 1 landed, 3 known" in again.out


def test_a_table_that_changes_its_key_is_told_of(tidemark: CommandLine, landed: int) -> None:
    row = envelope({"id": 1, "region": "eu", "email": "x"}, at=9)
    row["source"]["table"] = "places"
    before = line(0, {"id": 1}, row, topic="bad.public.places")
    now = line(1, {"id": 1, "region": "eu"}, row, topic="bad.public.places")
    tidemark("land", tidemark.write("before.jsonl", before))

    said = tidemark("land", tidemark.write("now.jsonl", now))

    assert said.status == 0
    assert "bad.public.places: its key was (id) and is (id, region) now." in said.out

    # A column that is added later has nothing to do with that.
    row["after"]["tip"] = "x"
    later = line(2, {"id": 1, "region": "eu"}, row, topic="bad.public.places")

    assert "its key was" not in tidemark("land", tidemark.write("later.jsonl", later)).out


def test_the_columns_of_a_row_count_where_the_schema_beside_it_is_not_the_envelope_s(
    tidemark: CommandLine, landed: int, spark: SparkSession
) -> None:
    payload = envelope({"id": 1, "email": "x"}, at=9)
    payload["source"]["table"] = "cut"
    of_row = {"type": "struct", "fields": [{"field": "id", "type": "int32"}]}
    value = {"schema": of_row, "payload": payload}

    tidemark("land", tidemark.write("cut.jsonl", line(0, {"id": 1}, value, topic="bad.public.cut")))

    shapes = spark.read.format("delta").load(str(tidemark.lakehouse / "bronze" / "shapes"))
    [(names,)] = shapes.where(F.col("table") == "cut").select("fields.name").collect()
    assert names == ["email", "id"]


def test_a_lakehouse_with_another_writer(tidemark: CommandLine, landed: int) -> None:
    with (tidemark.lakehouse / ".lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(json.dumps({"pid": 4711, "command": "run", "since": "noon"}))
        held.flush()

        is_one_sentence(
            tidemark("land", tidemark.write("more.jsonl", GOOD[0])),
            4,
            "process 4711 (`tidemark run`, since noon)",
            "--wait",
        )


@pytest.mark.parametrize("command", [["land", "FILE"], ["tables"], ["sql", "select 1"], ["quarantine", "list"]])
def test_a_layout_of_another_version(
    tidemark: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "tidemark.json").write_text('{"layout": 99}')
    monkeypatch.setenv("TIDEMARK_LAKEHOUSE", str(tmp_path))
    file = tidemark.write("one.jsonl", GOOD[0])

    said = tidemark(*[file if word == "FILE" else word for word in command])

    is_one_sentence(said, 2, "layout 99", f"knows layout {LAYOUT}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tidemark.json"], "left as it was"


def test_a_folder_that_is_no_project(tidemark: CommandLine, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status = main(["tables", "--project-dir", str(tmp_path)])

    is_one_sentence(Said(status, *capsys.readouterr()), 2, f"--project-dir {tmp_path}: no dbt_project.yml there")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lnad", "x"], "No such command 'lnad'. Did you mean 'land'?"),
        (["quarantine", "lst"], "No such command 'lst'. Did you mean 'list'?"),
        (["land", "--wiat", "1", "x"], "No such option '--wiat'. Did you mean '--wait'?"),
        (["land", "--wait", "nan", "x"], "nan: it takes a time such as 30s"),
        (["land", "--wait", "-1", "x"], "-1: it takes a time such as 30s"),
        (["land", "--source-label", "", "x"], "it takes a name, and this one is empty"),
        (["land"], "land takes FILES, or --kafka HOST:PORT --topics 'REGEX'"),
        (["build", "--slect", "x"], "dbt build: No such option '--slect'"),
        (
            ["build", "-t", "local_dev"],
            "build -t: Tidemark itself passes the target",
        ),
        (
            ["build", "--profile=other"],
            "Put --target NAME or --project-dir DIR before `--`",
        ),
        (["build", "--profiles-dir", "other"], "build --profiles-dir: Tidemark itself passes"),
        (["build", "--", "-xtlocal_dev"], "build -xtlocal_dev: Tidemark itself passes"),
        (["quarantine", "release", ""], "quarantine release '': an empty id"),
        (["sql", " ;"], "tidemark sql takes one statement"),
        (["sql", "--file", os.devnull], "tidemark sql takes one statement"),
        (["sql", "select 1", "--file", os.devnull], "tidemark sql takes one statement"),
    ],
)
def test_what_is_misspelled_is_named(tidemark: CommandLine, arguments: list[str], says: str) -> None:
    said = tidemark(*arguments)

    assert said.status == 2
    assert says in said.out + said.err
    assert (said.out + said.err).count("Did you mean") <= 1
    assert "Traceback" not in said.out + said.err


def test_a_statement_that_can_not_be_run(tidemark: CommandLine, landed: int) -> None:
    is_one_sentence(tidemark("sql", "select nothing from records"), 2, "The statement can't be run", "`nothing`")


def test_a_statement_that_would_write(tidemark: CommandLine, landed: int, spark: SparkSession) -> None:
    records = tidemark.lakehouse / "bronze/records"
    table = f"delta.`{records}`"
    commits = sorted((records / "_delta_log").iterdir())
    is_one_sentence(tidemark("sql", "delete from records"), 2, "tidemark sql only reads", "DeleteCommand", "ask with")
    for statement in (
        "insert into records select * from records",
        f"with one as (select * from {table}) insert into {table} select * from one",
        f"from {table} insert into {table} select * insert into {table} select *",
        f"execute immediate 'update {table} set `offset` = 0'",
        f"vacuum {table}",
        f"create table copied using delta location '{tidemark.home}/copied' as select 1 as one",
    ):
        with pytest.raises(UsageError, match="tidemark sql only reads"):
            rows_of(spark, statement)

    assert sorted((records / "_delta_log").iterdir()) == commits
    looks = ("show views", "describe records", f"describe history {table}", "explain delete from records", "values (1)")
    assert all(rows_of(spark, statement) for statement in looks)


def test_values_that_python_or_json_has_no_type_for(tidemark: CommandLine, landed: int, spark: SparkSession) -> None:
    shown = """
        select timestamp'0001-01-01 00:00:00Z' as first, timestamp'2026-02-03 04:05:06.7+01:00' as later,
            double('NaN') as nan, array(float('-Infinity'), 1.5f) as ends, map(date'2026-02-03', 1.50) as days,
            map(named_struct('x', 1), true) as points, parse_json('{"a": [1.5, "x"], "b": 1e300}') as variant
    """
    [row] = rows_of(spark, shown)

    assert json.loads(as_json(row)) == {
        "first": "0001-01-01 00:00:00", "later": "2026-02-03 03:05:06.700000", "nan": "NaN", "ends": ["-Infinity", 1.5],
        "days": {"2026-02-03": "1.50"}, "points": {'{"x": 1}': True}, "variant": {"a": ["1.5", "x"], "b": 1e300},
    }  # fmt: skip
    assert as_table([row], row.__fields__).splitlines()[-1].split("  ") == [
        "0001-01-01 00:00:00", "2026-02-03 03:05:06.700000", "NaN", '["-Infinity", 1.5]', '{"2026-02-03": "1.50"}',
        '{"{\\"x\\": 1}": true}', '{"a": ["1.5", "x"], "b": 1e+300}',
    ]  # fmt: skip
    for statement in ("select array(timestamp'0001-01-01 00:00:00Z')", "select date'9999-12-31' + 1"):
        with pytest.raises(UsageError, match=r"a value that Python can't hold \(.*\): cast the column to string"):
            rows_of(spark, statement)
    twice = "select 1 as one, timestamp'2026-02-03' as one"
    is_one_sentence(tidemark("sql", "--json", twice), 2, "--json: two columns are named one", "with `as`")
    assert as_table(rows_of(spark, twice), ["one", "one"]).splitlines()[-1] == "1    2026-02-03 00:00:00"


def test_a_statement_in_a_file_that_is_no_text(tidemark: CommandLine) -> None:
    file = tidemark.home / "latin.sql"
    file.write_bytes("select 'ü'".encode("latin-1"))

    is_one_sentence(tidemark("sql", "--file", str(file)), 2, f"--file {file}: it isn't text in UTF-8")


def test_models_that_do_not_compile(tidemark: CommandLine, landed: int) -> None:
    model = tidemark.project / "models/broken_changes.sql"
    model.write_text("{{ changes('bad', 'people', keys=['id'], columns={'id': 'int'}) }}")
    try:
        for command in (["build"], ["tables"]):
            said = tidemark(*command)
            is_one_sentence(said, 2, "models/broken_changes.sql", "changes has no option 'keys'. Did you mean 'key'?")
    finally:
        model.unlink()


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("['idd']", "key names 'idd', and the table has no such column. Did you mean 'id'?"),
        ("['id', 'id']", "key names a column twice: id, id."),
        ("['tags']", "key: tags is map<string,string>, of which Spark compares no two."),
    ],
)
def test_a_key_that_the_table_cannot_have(tidemark: CommandLine, landed: int, key: str, says: str) -> None:
    model = tidemark.project / "models/silver/changes/bad__people_changes.sql"
    model.parent.mkdir(parents=True, exist_ok=True)
    columns = "{'id': 'int', 'tags': 'map<string,string>'}"
    model.write_text(f"{{{{ changes('bad', 'people', key={key}, columns={columns}) }}}}")
    tables = "[{name: people, identifier: records, config: {meta: {feed: bad__people}}}]"
    (tidemark.project / "models/bad.yml").write_text(f"sources: [{{name: bad, schema: bronze, tables: {tables}}}]")
    try:
        said = tidemark("build")
        assert said.status == 2
        assert says in " ".join((said.out + said.err).split())
    finally:
        model.unlink()
        (tidemark.project / "models/bad.yml").unlink()


def test_a_file_of_models_that_is_no_yaml(tidemark: CommandLine, landed: int) -> None:
    file = tidemark.project / "models/broken.yml"
    file.write_text("models: [")
    try:
        for command in ("build", "tables"):
            said = tidemark(command)
            assert said.status == 2
            assert "broken.yml" in said.out + said.err
            assert "Traceback" not in said.out + said.err
    finally:
        file.unlink()


def test_a_source_that_no_model_has(tidemark: CommandLine, landed: int) -> None:
    settings = tidemark.project / "dbt_project.yml"
    usual = settings.read_text()
    model = tidemark.project / "models/probe.sql"
    source = tidemark.project / "models/probe.yml"
    settings.write_text(usual.replace("sources: {}", "sources: {shpo: {placeholder: none}}"))
    model.write_text("{{ config(materialized='view') }} select '{{ source_options('shop').placeholder }}' as text")
    source.write_text("sources: [{name: shop, schema: bronze, tables: [{name: orders, identifier: records}]}]")
    try:
        said = tidemark("build", "--select", "probe")
        assert said.status == 2
        assert "sources: there is no source 'shpo'. Did you mean 'shop'?" in said.out
        assert "Traceback" not in said.out + said.err
    finally:
        settings.write_text(usual)
        model.unlink()
        source.unlink()


SOURCES = """
sources:
  - name: bad
    schema: bronze
    tables:
      - {name: people, identifier: records, config: {meta: {feed: FEED}}}
      - {name: lost, identifier: records, config: {meta: {fed: FEED}}}
"""
PEOPLE = "{{ changes('bad', 'people', key=['id'], columns={'id': 'int', 'email': 'string'}) }}"
REFUSED = {
    "bronze/bad.yml": SOURCES,
    "silver/changes/people_changes.sql": PEOPLE,
    "silver/changes/lost_changes.sql": PEOPLE.replace("people", "lost"),
    "silver/changes/own_changes.sql": "{{ config(schema='own') }}" + PEOPLE,
    "events.sql": "{{ config(materialized='remade') }}{{ outbox(['outbox.event.x']) }}",
    "gold/history/people_history.sql": "{{ history('people_changes', column_names={'valid_from': 'Email'}) }}",
}


@pytest.fixture
def refused(tidemark: CommandLine, landed: int, spark: SparkSession) -> Iterator[Path]:
    """A project with models that a build refuses, and a log that it doesn't; where the sources are declared."""
    shapes = spark.table(f"delta.`{tidemark.lakehouse}/bronze/shapes`").where("`table` = 'people'")
    [feed] = {row["feed"] for row in shapes.collect()}
    models = {tidemark.project / "models" / name: text for name, text in REFUSED.items()}
    for file, text in models.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("FEED", feed))
    yield tidemark.project / "models/bronze/bad.yml"
    for file in models:
        file.unlink()


def test_what_a_build_would_lose_is_refused_in_words(
    tidemark: CommandLine, refused: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = re.findall("feed: (bad_[a-z0-9_]*)", refused.read_text())[0]
    said = tidemark("build")
    words = " ".join(said.out.split())

    assert said.status == 2
    assert "own_changes: its schema is 'own', and tables of its kind are in 'silver'" in words
    assert "events: its schema is 'default', and tables of its kind are in 'silver'" in words
    assert "table bad.lost of the dbt sources has no feed in its `meta`" in words
    assert "Write `config: {meta: {feed: bad__app__public__" in words
    assert "people_history: Tidemark's own column valid_from would be named 'Email', as another column is" in words
    log = f"{tidemark.lakehouse}/silver/people_changes"
    changes = DeltaTable(log).to_pyarrow_table().num_rows
    assert changes

    refused.write_text(refused.read_text().replace(f"{{feed: {feed}}}", "{feed: misspelled}"))
    said = tidemark("build", "--select", "people_changes")
    assert said.status == 2
    assert f"the log is of {feed}" in " ".join(said.out.split())
    assert DeltaTable(log).to_pyarrow_table().num_rows == changes

    monkeypatch.setenv("DBT_SAMPLE", "3 days")
    said = tidemark("build", "--select", "people_changes")
    assert said.status == 2
    assert "--sample was asked for" in said.out


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "UTC"])
def test_times_that_dbt_shows_in_another_zone_than_the_tables_are_said_to_be(
    tidemark: CommandLine, landed: int, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    with monkeypatch.context() as patch, redirect_stdout(io.StringIO()) as said:
        patch.setenv("TZ", zone)
        time.tzset()
        run_dbt(Places.of(tidemark.project), ["show", "--inline", "select timestamp'2026-01-01 00:00:00' as shown"])
    time.tzset()
    assert ("09:00" in said.getvalue(), "Run dbt with TZ=UTC" in said.getvalue()) == (zone != "UTC",) * 2


def test_a_catalog_that_another_process_holds(landed: int, home: CommandLine) -> None:
    """In processes of their own: the lock is one between processes. Who lands or reads takes no catalog."""

    def run(*command: str) -> Said:
        ended = subprocess.run(
            [sys.executable, "-m", "spark_jobs.cli", *command, "--project-dir", str(home.project)],
            cwd=PROJECT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return Said(ended.returncode, ended.stdout, ended.stderr)

    built = run("build")
    with ThreadPoolExecutor() as beside:
        others = [
            ["land", home.write("again.jsonl", *GOOD)],
            ["sql", "select 'no catalog' as told from records limit 1"],
        ]
        landed_again, asked = beside.map(lambda command: run(*command), others)

    assert built.out == ""
    is_one_sentence(built, 4, "held by another process", "Wait for it to end")
    assert (landed_again.status, f"{len(GOOD)} records read" in landed_again.out) == (0, True), landed_again
    assert (asked.status, "no catalog" in asked.out) == (0, True), asked


def test_a_file_with_a_record_among_noise_is_landed(landed: int, tidemark: CommandLine) -> None:
    one_line = GOOD[0].replace(TOPIC, "noise.app.public.people")
    said = tidemark("land", tidemark.write("noise.jsonl", one_line, "% Reached end of topic", "% Auto-committed"))

    assert (said.status, "3 records read: 1 landed" in said.out) == (0, True), said


def test_what_is_held_of_several_clusters_is_listed_by_label(tidemark: CommandLine, landed: int) -> None:
    assert "source_label" not in tidemark("quarantine", "list").out
    assert tidemark("land", tidemark.write("eu.jsonl", BAD["value-not-json"]), "--source-label", "eu").status == 0

    head, _, *entries = tidemark("quarantine", "list").out.splitlines()

    place = head.index("source_label")
    assert {entry[place:].split()[0] for entry in entries} == {"default", "eu"}
