"""Projects for pipeline tests: this one without its models, in a folder of the test's own."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable, captured_tables, run_dbt
from spark_jobs.landing.land import Landing, land_files
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import SeenTable, seen_tables
from spark_jobs.scaffolding.write import files_of, files_of_sources, not_there, write

PROJECT = Path(__file__).parents[1]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHARED = ("macros", "conf", "tests/dbt", "profiles.yml", ".jars")
# What dbt has read of a project, to read it again in less time.
_READ = "target/partial_parse.msgpack"
# Project → the topics of which records were landed.
_TOPICS: dict[Path, set[str]] = {}


def empty_project(folder: Path) -> Path:
    """A project with Tidemark's macros and no models but the shared column texts, which dbt has read before."""
    _make_empty(folder)
    (folder / "target").mkdir()
    (folder / _READ).write_bytes(_what_dbt_read())
    return folder


def _make_empty(folder: Path) -> None:
    folder.mkdir(parents=True)
    share(folder, _SHARED)
    shutil.copytree(PROJECT / "models/docs", folder / "models/docs")
    (folder / "expectations/suites").mkdir(parents=True)


@cache
def _what_dbt_read() -> bytes:
    """What dbt writes down of all macros, which take it five seconds to read."""
    with TemporaryDirectory() as home:
        folder = Path(home) / "project"
        _make_empty(folder)
        result = run_dbt(Places.of(folder), ["--quiet", "--no-write-json", "parse"])
        assert result.success, result.exception
        return (folder / _READ).read_bytes()


def share(folder: Path, names: Iterable[str]) -> None:
    """Put links to files and folders of this project into a folder, and a copy of its dbt_project.yml."""
    for name in names:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(PROJECT / name)
    shutil.copy(PROJECT / "dbt_project.yml", folder)


def forget_tables(spark: SparkSession) -> None:
    """Take every table out of the session's catalog, so that another lakehouse can have tables of the same names."""
    for layer in ("bronze", "silver", "gold", "ops"):
        spark.sql(f"drop schema if exists {layer} cascade")
        spark.sql(f"create schema {layer}")


def land(
    spark: SparkSession, places: Places, name: str, lines: str, sources: Container[str], *, tested: bool = False
) -> None:
    """Land lines of records as one batch, and write the models of the sources' tables whose topics are new in it.

    With `tested` their data tests and suites are written, too.
    """
    file = places.project.parent / f"{name}.jsonl"
    file.write_text(lines)
    land_files(spark, places, [str(file)], Landing(name, datetime.now(UTC)))
    known, told = _TOPICS.setdefault(places.project, set()), set(re.findall(r'"topic": ?"((?:[^"\\]|\\.)*)"', lines))
    if sources and not told <= known:
        known |= told
        seen = [table for table in seen_tables(spark, places) if table.source in sources]
        files = missing(places.project, seen)
        write(places.project, files if tested else without_tests(files))


def missing(project: Path, tables: Sequence[SeenTable]) -> dict[str, str]:
    """The files of tables, and of their sources, that are not there yet."""
    files = {path: text for table in tables for path, text in files_of(table).items()}
    return not_there(project, files_of_sources(tables) | files)


def without_tests(files: Mapping[str, str]) -> dict[str, str]:
    """Of the files that scaffolding writes the models, and what declares sources: neither data tests nor suites."""
    return {
        path: text
        for path, text in files.items()
        if path.endswith((".sql", "_transactions.yml")) or path.startswith("models/bronze/")
    }


def write_tests(project: Path, tables: Iterable[SeenTable]) -> None:
    """What `without_tests` left out of tables that are there: data tests and suites."""
    files = {path: text for table in tables for path, text in files_of(table).items()}
    write(project, {path: text for path, text in files.items() if not (project / path).exists()})


def declare_history(project: Path, name: str, options: Mapping[str, Any]) -> None:
    """Write a table's history model with options; `name` is the table's, as its models have it."""
    arguments = "".join(f", {option}={value!r}" for option, value in options.items())
    history = project / f"models/gold/history/{name}_history.sql"
    history.parent.mkdir(parents=True, exist_ok=True)
    history.write_text(f"{{{{ history('{name}_changes'{arguments}) }}}}\n")


def declare_more(model: Path, options: Mapping[str, Any]) -> None:
    """Give a model that was written for a table options more; those that it has stay."""
    call, end = model.read_text().rstrip().removesuffix("}}").rstrip().removesuffix(")").rstrip(",\n "), ")\n}}\n"
    more = "".join(f",\n    {option}={value!r}" for option, value in options.items() if f" {option}=" not in call)
    model.write_text(call + more + "\n" + end)


def run_models(places: Places, *arguments: str, accounting: bool = False) -> None:
    """Build changes, current and history, and their accounting where asked for, and expect that it ends well."""
    selected = [] if accounting else ["--exclude", "tag:layer:ops"]
    result = run_dbt(places, ["--quiet", "--no-write-json", "run", *selected, *arguments])
    failed = [one.message[:700] for one in result.result or [] if one.status == "error"]
    assert result.success, result.exception or failed


def decided_by(places: Places, model: str) -> dict[str, Any]:
    """What the last build of a model decided to read."""
    [compiled] = (places.project / "target/compiled").rglob(f"{model}.sql")
    [said] = re.findall("-- tidemark: (.*)", compiled.read_text())
    return dict(json.loads(said))


def rows_of(
    location: str, *columns: str, options: dict[str, str] | None = None, version: int | None = None
) -> list[dict[str, Any]]:
    """A table's rows, with all columns or these, by a reader that is not Spark; `options` say who asks a store.

    `version` is the table's, the last one where none is given.
    """
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns) or "*"
    query = (
        QueryBuilder()
        .register("gold", DeltaTable(location, version, storage_options=options))
        .execute(f"select {names} from gold")
    )
    rows: list[dict[str, Any]] = pyarrow.table(query.read_all()).to_pylist()
    return rows


def account_of(table: CapturedTable) -> list[dict[str, Any]]:
    """What builds have counted of a table's changes (G6): (kind, name, records, sample_keys); nothing if none has."""
    if table.history is None or table.accounting is None:
        return []
    progress = rows_of(f"{table.accounting.location.rpartition('/')[0]}/progress", "model", "account")
    [account] = [row["account"] for row in progress if row["model"].rpartition(".")[2] == table.history.name] or [None]
    return account or []


def tables_of(places: Places) -> list[CapturedTable]:
    """The captured tables, for which dbt reads the project again only where something of it has changed."""
    models = places.project / "models"
    files = [places.project / "dbt_project.yml", models, *models.rglob("*")]
    return _tables_of(places, max(file.stat().st_mtime_ns for file in files))


@cache
def _tables_of(places: Places, _: int) -> list[CapturedTable]:
    return captured_tables(places)


def accounts_of(tables: Iterable[CapturedTable]) -> dict[str, list[tuple[str, str, int]]]:
    """Table → its dispositions and signs, each with how many records."""
    accounts = {table.name: account_of(table) for table in tables}
    return {
        name: sorted((row["kind"], row["name"], row["records"]) for row in account)
        for name, account in accounts.items()
        if account
    }


def microseconds(moment: datetime | None) -> int | None:
    """Microseconds since 1970."""
    return None if moment is None else (moment - EPOCH) // timedelta(microseconds=1)


def renamed(capture: Path, prefix: str) -> list[str]:
    """A capture's records under another topic prefix, so that several share one lakehouse."""
    with gzip.open(capture / "records.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [
            line.replace('"topic":"inv.', f'"topic":"{prefix}.')
            .replace('"topic": "inv.', f'"topic": "{prefix}.')
            .replace('\\"name\\":\\"inv\\"', f'\\"name\\":\\"{prefix}\\"')
            for line in lines
        ]


def cut(lines: list[str], parts: int, part: int) -> str:
    """One of the parts that records are cut into, in their order."""
    size = -(-len(lines) // parts)
    return "".join(lines[part * size : (part + 1) * size])
