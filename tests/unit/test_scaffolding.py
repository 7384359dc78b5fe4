"""What scaffolding says of columns, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from pyspark.sql import Row

from spark_jobs.scaffolding.tables import SeenColumn, SeenTable, _column
from spark_jobs.scaffolding.write import _described, files_of, suites_of, with_key, write
from tests.evidence import captured


def described(encoding: str | None, default: str | None = None, *, is_optional: bool = True) -> str:
    field = Row(name="v", encoding=encoding, spark_type="string", is_optional=is_optional, default_value=default)
    return _described(_column([field], "v", None, None))


@pytest.mark.parametrize(
    ("encoding", "default", "said"),
    [
        ("string", "basic", ", default basic"),
        ("int32", "7", ", default 7"),
        ("boolean", "true", ", default true"),
        # What connectors tell in place of what a function gives.
        ("string", "", ""),
        ("int64", "0", ""),
        ("boolean", "false", ""),
        ("io.debezium.time.ZonedTimestamp", "1970-01-01T00:00:00.000000Z", ""),
        # As records encode it, and not as the source has it.
        ("org.apache.kafka.connect.data.Decimal:2", "AMg=", ""),
        ("io.debezium.time.Date", "19723", ""),
        ("float64", "0.0", ""),
        ("string", None, ""),
    ],
)
def test_a_default_is_told_where_the_source_has_it_so(encoding: str, default: str | None, said: str) -> None:
    assert described(encoding, default) == f"`v` as the source has it, may be NULL{said}."


def test_whether_a_column_may_be_null_is_told_by_schemas_alone() -> None:
    assert described("string", is_optional=False) == "`v` as the source has it, never NULL in the source."
    assert described(None).startswith("`v` as the source has it. Type guessed from the values")


def test_a_description_begins_no_html_in_dbt_s_documentation() -> None:
    name = "<img src=x onerror=alert(1)>"
    columns = (SeenColumn("id", "id", "int"), SeenColumn(name, name, "string", note=name, default=name))
    table = SeenTable(name="src__t", source="src", connector="postgresql", source_table=name, feed=name, full_name=name,
                      columns=columns, key=("id",))  # fmt: skip
    files = [yaml.safe_load(text) for path, text in files_of(table).items() if path.endswith(".yml")]

    def descriptions(part: object) -> list[str]:
        if isinstance(part, dict):
            own = [part["description"]] if "description" in part else []
            return own + [one for value in part.values() for one in descriptions(value)]
        return [one for value in part for one in descriptions(value)] if isinstance(part, list) else []

    said = [one for file in files for one in descriptions(file)]
    assert any("‹img src=x" in one for one in said)
    assert [one for one in said if "<" in one] == []


@pytest.mark.parametrize("column", ["name", "a.b", "select", "Odd Name", "ü", 'quo"te', "back\\slash", '"""', "\u202e"])
@pytest.mark.parametrize("key", [("id",), ()])
def test_a_suite_is_python_whatever_the_names_are(column: str, key: tuple[str, ...]) -> None:
    columns = tuple({"name": one, "type": "string", "field": one, "sensitive": False} for one in (*key, column))
    [source] = suites_of([captured(key=key, columns=columns)]).values()
    names = compile(source, "suite", "exec").co_names
    assert ("gold_history" in names) == bool(key)
    assert 'TABLE = "src__t"' in source


def test_files_that_nobody_has_edited_are_given_a_key_that_is_declared_later(tmp_path: Path) -> None:
    columns = (SeenColumn("id", "id", "int"), SeenColumn("name", "name", "string"))
    keyless = SeenTable(name="src__t", source="src", connector="mysql", source_table="t", feed="t", full_name="t",
                        columns=columns, key=())  # fmt: skip
    keyed = replace(keyless, key=("id",))
    changes, suite = "models/silver/changes/src__t_changes.yml", "expectations/suites/src__t.py"
    write(tmp_path, files_of(keyless))

    assert with_key(tmp_path, keyed) == {path: files_of(keyed)[path] for path in (
        changes, "models/silver/changes/src__t_changes.sql", suite,
    )}  # fmt: skip

    moved = tmp_path / "models/mine/src__t_changes.yml"
    moved.parent.mkdir()
    (tmp_path / changes).rename(moved)
    (tmp_path / suite).write_text("# mine")
    (tmp_path / "models/silver/changes/src__t_changes.sql").write_text("{{ changes(key=['id']) }}")
    assert with_key(tmp_path, keyed) == {"models/mine/src__t_changes.yml": files_of(keyed)[changes]}
    assert "struct<`id`: int>" in files_of(keyed)[changes]
    assert "def gold_history" in files_of(keyed)[suite]
