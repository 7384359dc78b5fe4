"""Faults planted on purpose: a tape or a story that can't tell a fault from the right code proves nothing."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import missing, write
from tests.pipeline.test_tapes import told as told_by_tape
from tests.projects import PROJECT, empty_project, land, run_models
from tests.source import Column, Source, Table
from tests.tape import tapes

SOURCE = "mutant"
MUTANTS = yaml.safe_load(Path(__file__).with_name("mutants.yml").read_text())
WITNESSES = sorted({mutant["caught_by"] for mutant in MUTANTS})
PLACES = ("silver/changes", "gold/history")
ANY = [Column("id"), Column("name")]


@dataclass(frozen=True)
class Story:
    """A few statements on a table of its own, and what the tables tell of them."""

    table: str
    lines: str
    edit: tuple[str, str] = ("", "")


def stories() -> dict[str, Story]:
    """What tapes have no words for: types, columns, records that are no change, tables without a key."""
    made = {}
    for name, table, edit in (
        ("equal rows", Table("equal_rows", ANY, ()), ("", "")),
        ("a value that its type can't hold", Table("inexact", ANY, ("id",)), ("'name': 'string'", "'name': 'int'")),
        ("a column that no model declares", Table("undeclared", ANY, ("id",)), ("'name': 'string',", "")),
        ("each record that is no change", Table("tombstones", ANY, ("id",)), ("", "")),
        ("a history without a key", Table("unkeyed", ANY, ()), ("", "")),
    ):
        source = Source(SOURCE, has_schemas=name.startswith("a column"))
        for _ in range(2):
            with source.commit():
                source.insert(table, {"id": "1", "name": "1.5"})
                if not table.key:
                    source.insert(table, {"id": "1", "name": "1.5"}, same_place=True)
            if table.key:
                with source.commit():
                    source.delete(table, table.rows[table.key_of({"id": "1"})])
        made[name] = Story(table.name, source.lines(), edit)
    return made


STORIES = stories()
TAPES = {
    tape.name: replace(tape, group=tape.group or f"m{tape.number}", source=SOURCE)
    for tape in tapes(Path(__file__).parents[1] / "tapes")
}


def table_of(witness: str) -> str:
    """The table that a tape or a story is about."""
    return TAPES[witness].table if witness in TAPES else STORIES[witness].table


@pytest.fixture(scope="module")
def landed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for projects, with the records of every witness in bronze."""
    home = tmp_path_factory.mktemp("mutants")
    lines = [
        json.dumps(record) + "\n"
        for name, tape in TAPES.items()
        if name in WITNESSES
        for _, record in tape.records()
    ]  # fmt: skip
    lines += [STORIES[name].lines for name in WITNESSES if name in STORIES]
    land(spark, Places.of(empty_project(home / "landing")), "mutants", "".join(lines), {})
    return home


def told(spark: SparkSession, project: Path, *witnesses: str) -> dict[str, Any]:
    """Witness → what a project's tables tell of it: a tape's history, what a story's log holds, or that dbt refuses."""
    places = Places.of(project)
    tables = {one.feed: one for one in seen_tables(spark, places) if one.source == SOURCE}
    for witness in witnesses:
        [seen] = [one for one in tables.values() if one.name.endswith(f"__{table_of(witness)}")]
        write(project, missing(project, [seen]))
        declare(project, seen.name, witness)
    try:
        run_models(places, "--full-refresh", "--exclude", "tag:layer:ops", "*_current")
    except AssertionError as error:
        return dict.fromkeys(witnesses, f"refused: {'(R18)' in str(error)}")
    found = {table.name.rpartition("__")[2]: table for table in captured_tables(places)}
    return {witness: tell(found[table_of(witness)], witness) for witness in witnesses}


def declare(project: Path, name: str, witness: str) -> None:
    """What a witness declares beyond what the scaffold wrote."""
    changes, history = (project / f"models/{place}/{name}_{place.rpartition('/')[2]}.sql" for place in PLACES)
    options = TAPES[witness].options if witness in TAPES else {}
    if options or witness == "a history without a key":
        history.parent.mkdir(parents=True, exist_ok=True)
        words = "".join(f", {option}={value!r}" for option, value in options.items())
        history.write_text(f"{{{{ history('{name}_changes'{words}) }}}}\n")
    if witness in STORIES and STORIES[witness].edit[0]:
        assert STORIES[witness].edit[0] in changes.read_text()
        changes.write_text(changes.read_text().replace(*STORIES[witness].edit))


def tell(table: CapturedTable, witness: str) -> Any:
    """A tape's history, or what a story's log holds."""
    if witness in TAPES:
        return TAPES[witness].told(told_by_tape(table))
    rows = DeltaTable(table.changes.location).to_pyarrow_table().to_pylist()
    return sorted(repr((row["offset"], row["op"], row["after"], row["exact_values"])) for row in rows)


@pytest.fixture(scope="module")
def right(spark: SparkSession, landed: Path) -> dict[str, Any]:
    """Witness → what the right code tells."""
    refused = "a history without a key"
    built = [name for name in WITNESSES if name in STORIES and name != refused]
    found = told(spark, empty_project(landed / "right"), *built)
    found |= told(spark, empty_project(landed / "refused"), refused)
    return found | {name: TAPES[name].history for name in WITNESSES if name in TAPES}  # as test_tapes.py proves


@pytest.mark.parametrize("number", range(len(MUTANTS)), ids=lambda number: f"{MUTANTS[number]['rule']} {number}")
def test_a_fault_is_caught(spark: SparkSession, landed: Path, right: dict[str, Any], number: int) -> None:
    mutant = MUTANTS[number]
    project = empty_project(landed / f"mutant-{number}")
    (project / "macros").unlink()
    shutil.copytree(PROJECT / "macros", project / "macros")
    macro = project / "macros" / mutant["file"]
    code = macro.read_text()
    assert code.count(mutant["code"]) == 1
    macro.write_text(code.replace(mutant["code"], mutant["fault"]))

    found = told(spark, project, mutant["caught_by"])[mutant["caught_by"]]

    assert found != right[mutant["caught_by"]]
    assert found != "refused: False", "the fault has to be code that runs"
    print(f"{mutant['rule']:4} {mutant['about']}: caught by {mutant['caught_by']}")
