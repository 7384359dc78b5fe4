"""Faults planted on purpose: a tape or a story that can't tell a fault from the right code proves nothing.

All faults are in one copy of the macros, each for the models of its own source alone: one run builds them beside each
other and beside the right code.
"""

from __future__ import annotations

import inspect
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.declarations import CapturedTable, captured_tables, run_dbt
from spark_jobs.places import Places
from tests.pipeline.test_tapes import tape_versions
from tests.projects import PROJECT, declare_history, empty_project, land, rows_of
from tests.source import Column, Source, Table
from tests.tape import Tape, tapes

ANY = [Column("id"), Column("name")]
RIGHT = "right"
IS_MUTANT = """
{% macro is_mutant(source_name) -%}
    {{ return((model.name | string).startswith(source_name ~ '__')) }}
{%- endmacro %}
"""


@dataclass(frozen=True)
class Mutant:
    """One fault: `code` in a macro's file or in a module of the job becomes `fault`; in a tag both are expressions.

    One of what a build does where it goes on from stored rows shows in a tape that lands `in_batches`.
    """

    number: int
    rule: str
    about: str
    code: str
    fault: str
    caught_by: str
    file: str = ""
    job: str = ""
    in_tag: bool = False
    in_batches: bool = False

    @property
    def source(self) -> str:
        """The topic prefix of the witness's records for this fault."""
        return f"mutant{self.number}"


@dataclass(frozen=True)
class Story:
    """A few statements on a table of its own, and how its models differ from what the scaffold wrote."""

    table: Table
    has_schemas: bool = False
    edit: tuple[str, str] = ("", "")
    has_history: bool = False
    has_heartbeat: bool = False

    def lines(self, source_name: str) -> str:
        """The records of two transactions, and of a delete where the table has a key."""
        source, table = Source(source_name, has_schemas=self.has_schemas), replace(self.table, rows={})
        for _ in range(2):
            with source.commit():
                source.insert(table, {"id": "1", "name": "1.5"})
                if not table.key:
                    source.insert(table, {"id": "1", "name": "1.5"}, same_place=True)
            if table.key:
                with source.commit():
                    source.delete(table, table.rows[table.key_of({"id": "1"})])
        return source.lines() + (self.heartbeat(source_name) if self.has_heartbeat else "")

    def heartbeat(self, source_name: str) -> str:
        """A heartbeat, of which the topic's name says nothing."""
        record = {"topic": f"{source_name}.public.{self.table.name}", "partition": 0, "offset": 1000, "headers": []}
        record |= {"key": json.dumps({"serverName": source_name}), "value": json.dumps({"ts_ms": 1}), "timestamp": None}
        return json.dumps(record) + "\n"


# What tapes have no words for: types, columns, records that are no change, tables without a key.
STORIES = {
    "equal rows": Story(Table("equal_rows", ANY, ())),
    "a value that its type can't hold": Story(
        Table("inexact", ANY, ("id",)), edit=("'name': 'string'", "'name': 'int'")
    ),
    "a column that no model declares": Story(
        Table("undeclared", ANY, ("id",)), has_schemas=True, edit=("'name': 'string',", "")
    ),
    "each record that is no change": Story(Table("tombstones", ANY, ("id",)), has_heartbeat=True),
    "a history without a key": Story(Table("unkeyed", ANY, ()), has_history=True),
    "a delete whose record has another key": Story(
        Table("rekeyed", ANY, ("id",), is_full=True), edit=("key=['id']", "key=['name']")
    ),
}
TAPES = {tape.name: tape for tape in tapes(Path(__file__).parents[1] / "tapes")}
MUTANTS = [
    Mutant(number, **said)
    for number, said in enumerate(yaml.safe_load(Path(__file__).with_name("mutants.yml").read_text()))
]


def tape_of(name: str, source: str) -> Tape:
    """A tape whose records are a source's; those that the right code tells share their tables."""
    tape = TAPES[name]
    return replace(tape, group=tape.group or ("" if source == RIGHT else f"m{tape.number}"), source=source)


def landings_of(witness: str, source: str, *, in_batches: bool = False) -> list[str]:
    """A witness's records, as a source's, by landing."""
    if witness in STORIES:
        return [STORIES[witness].lines(source)]
    landings = defaultdict[int, str](str)
    for batch, record in tape_of(witness, source).records():
        landings[batch if in_batches else 1] += json.dumps(record) + "\n"
    return [landings[batch] for batch in sorted(landings)]


def planted(text: str, mutants: list[Mutant]) -> str:
    """A macro file's text with its faults, each for the models of its own source alone."""
    by_code = defaultdict(list)
    for mutant in mutants:
        by_code[mutant.code, mutant.in_tag].append(mutant)
    for (code, in_tag), faults in by_code.items():
        assert text.count(code) == 1, code
        chosen = code
        for one in faults:
            chosen = (
                f"({one.fault} if is_mutant('{one.source}') else {chosen})"
                if in_tag
                else f"{{% if is_mutant('{one.source}') %}}{one.fault}{{% else %}}{chosen}{{% endif %}}"
            )
        text = text.replace(code, chosen)
    return text


def plant(project: Path) -> None:
    """Give a project a copy of the macros with every fault."""
    (project / "macros").unlink()
    shutil.copytree(PROJECT / "macros", project / "macros")
    (project / "macros/is_mutant.sql").write_text(IS_MUTANT)
    by_file = defaultdict(list)
    for mutant in MUTANTS:
        if mutant.file:
            by_file[project / "macros" / mutant.file].append(mutant)
    for file, mutants in by_file.items():
        file.write_text(planted(file.read_text(), mutants))


@contextmanager
def faulty(mutant: Mutant) -> Iterator[None]:
    """A module of the job with its fault, for as long as the context lasts."""
    module = import_module(f"spark_jobs.{mutant.job}")
    right, text = dict(vars(module)), inspect.getsource(module)
    assert text.count(mutant.code) == 1, mutant.code
    exec(text.replace(mutant.code, mutant.fault), vars(module))  # noqa: S102 - our own text
    try:
        yield
    finally:
        vars(module).update(right)


def declare(project: Path, witness: str, source: str) -> None:
    """What a witness declares beyond what the scaffold wrote."""
    if witness in STORIES:
        story, name = STORIES[witness], f"{source}__public__{STORIES[witness].table.name}"
        if story.edit[0]:
            changes = project / f"models/silver/changes/{name}_changes.sql"
            assert story.edit[0] in changes.read_text()
            changes.write_text(changes.read_text().replace(*story.edit))
        if story.has_history:
            declare_history(project, name, {})
    else:
        tape = tape_of(witness, source)
        declare_history(project, f"{source}__{tape.schema}__{tape.table}", tape.options)


def tell(places: Places, table: CapturedTable, witness: str, refusals: dict[str, str]) -> Any:
    """A tape's history, what a story's log and topic hold, or that dbt refused."""
    for model in (table.changes, table.history):
        if model is not None and model.name in refusals:
            return f"refused: {'(R18)' in refusals[model.name]}"
    if witness in TAPES:
        return tape_of(witness, table.source_name).as_history(tape_versions(table))
    names = ("offset", "op", "after", "exact_values", "problem")
    log = [tuple(row[name] for name in names) for row in rows_of(table.changes.location)]
    topic = f"{table.source_name}.{table.source_table.replace('__', '.')}"
    records = rows_of(places.table("bronze", "records"))
    return sorted(map(repr, log)), Counter(row["kind"] for row in records if row["topic"] == topic)


def refused(places: Places, *models: str) -> dict[str, str]:
    """Build models; those that dbt refused, with its words."""
    arguments = ["--select", *models, "--exclude", "tag:layer:ops", "*_current"]
    result = run_dbt(places, ["--quiet", "--no-write-json", "run", *arguments])
    assert result.result, result.exception
    return {one.node.name: str(one.message) for one in result.result if one.status == "error"}


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each mutant's witness tells, by the mutant's source, and what the right code tells of each, by its name."""
    places = Places.of(empty_project(tmp_path_factory.mktemp("mutants") / "project"))
    plant(places.project)
    witnesses = {mutant.source: mutant.caught_by for mutant in MUTANTS}
    stories = {f"{RIGHT}{number}": name for number, name in enumerate(STORIES)}
    witnesses |= stories
    on_tapes = {witness for witness in witnesses.values() if witness in TAPES}
    jobs = {mutant.source: mutant for mutant in MUTANTS if mutant.job}
    in_batches = {mutant.source for mutant in MUTANTS if mutant.in_batches}
    landings = {
        source: landings_of(witness, source, in_batches=source in in_batches) for source, witness in witnesses.items()
    }
    right = [landings_of(tape, RIGHT) for tape in on_tapes]
    first = [*right, *(one for source, one in landings.items() if source not in jobs)]
    land(spark, places, RIGHT, "".join(one[0] for one in first), {RIGHT, *witnesses})
    for source, mutant in jobs.items():
        with faulty(mutant):
            land(spark, places, source, landings[source][0], witnesses)
    for source, witness in [*witnesses.items(), *((RIGHT, tape) for tape in on_tapes)]:
        declare(places.project, witness, source)
    refusals = refused(places, "*")
    for number in range(1, max(map(len, landings.values()))):
        later = {source: one[number] for source, one in landings.items() if len(one) > number}
        land(spark, places, f"later-{number}", "".join(later.values()), later)
        refusals |= refused(places, *(f"{source}__*" for source in later))
    tables = captured_tables(places)
    by_name = {table.source_table.partition("__")[2]: table for table in tables if table.source_name == RIGHT}
    return {
        stories.get(table.source_name, table.source_name): tell(places, table, witnesses[table.source_name], refusals)
        for table in tables
        if table.source_name != RIGHT
    } | {tape: tell(places, by_name[tape_of(tape, RIGHT).table], tape, refusals) for tape in on_tapes}


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.rule} {mutant.about}")
def test_a_fault_is_caught(outcomes: dict[str, Any], told_at_end: list[str], mutant: Mutant) -> None:
    right, with_fault = outcomes[mutant.caught_by], outcomes[mutant.source]

    assert mutant.caught_by in STORIES or right == TAPES[mutant.caught_by].history, "what the right code tells"
    assert with_fault != right
    assert not isinstance(with_fault, str), "the fault has to be code that runs"
    told_at_end.append(f"{mutant.rule:4} {mutant.about}: caught by {mutant.caught_by}")


def test_each_rule_has_a_mutant() -> None:
    assert {f"R{number}" for number in range(3, 20)} <= {mutant.rule for mutant in MUTANTS}
