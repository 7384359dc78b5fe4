"""The README and the pages behind it are so: their commands run, in order, and the example is what they give."""

from __future__ import annotations

import gzip
import json
import re
import runpy
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

from spark_jobs.cli import main
from tests.projects import PROJECT, empty_project, forget_tables

README = (PROJECT / "README.md").read_text()
PAGES = (README, *((PROJECT / "docs" / name).read_text() for name in ("operating.md", "tests.md")))
RECORDS = "examples/records/shop.jsonl.gz"
_BLOCK = re.compile(r"^(?:<!-- not run: (?P<reason>.*?) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A block of commands, and why it is not run; empty where it is."""

    commands: tuple[str, ...]
    reason: str


def blocks() -> list[Block]:
    found = [one for page in PAGES for one in _BLOCK.finditer(page)]
    assert {one["kind"] for one in found} == {"sh"}, "a block that is no commands needs no test, and says so here"
    return [Block(tuple(commands_of(one["text"])), one["reason"] or "") for one in found]


def commands_of(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if command := line.partition(" #")[0].strip():
            yield command


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project without models, and of the example's records those of one table and of what comes beside tables."""
    folder = empty_project(tmp_path_factory.mktemp("readme") / "project")
    records = folder / RECORDS
    records.parent.mkdir(parents=True)
    for name in ("queries", "demo.py"):
        (folder / "examples" / name).symlink_to(PROJECT / "examples" / name)
    with gzip.open(PROJECT / RECORDS, "rt") as lines, gzip.open(records, "wt") as out:
        out.writelines(one for one in lines if not re.match(r'{"topic":"inv\.public\.(?!customers")', one))
    forget_tables(spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("TIDEMARK_LAKEHOUSE")
        yield folder
    forget_tables(spark)


def run(command: str) -> int:
    """Run a command as it stands, those of this project in this process and its session."""
    program, *arguments = shlex.split(command)
    if program == ".venv/bin/tidemark":
        return main(arguments)
    if program == ".venv/bin/dbt":
        # By hand it knows no more than the environment and the folder.
        return 0 if dbtRunner().invoke(arguments).success else 1
    return subprocess.run(command, shell=True, check=False).returncode  # noqa: S602 - it is the README's own


@pytest.fixture(scope="module")
def statuses(place: Path, told_at_end: list[str]) -> dict[str, int]:
    """Command → exit status, of every block that has no reason to be left out."""
    found: dict[str, int] = {}
    for block in blocks():
        if block.reason:
            told_at_end.append(f"not run, since {block.reason}: {'; '.join(block.commands)}")
        else:
            found |= {command: run(command) for command in block.commands}
    return found


def test_every_command_ends_well(statuses: dict[str, int]) -> None:
    assert len(statuses) > 10
    assert {command: status for command, status in statuses.items() if status} == {}


def demo() -> int:
    """What `make demo` runs, in this process and its session: its exit status."""
    with pytest.raises(SystemExit) as ended:
        runpy.run_path("examples/demo.py", run_name="__main__")
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_demo_shows_accounts_a_life_the_report_and_what_is_next(
    statuses: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo() == 0

    told = capsys.readouterr().out
    [(records, became)] = re.findall(r"^inv__public__customers: (\d+) records: (.*)$", told, re.M)
    assert sum(map(int, re.findall(r"\d+", became))) == int(records) == 119
    assert "16 tombstones" in became
    life = [re.split("  +", line)[6:8] for line in told.splitlines() if line.startswith("101  ")]
    assert [" ".join(one) for one in life] == [
        "insert update", "update update", "update update", "update delete", "insert delete", "insert NULL",
    ]  # fmt: skip
    [report] = re.findall(r"^Report of run \S+: (.*)$", told, re.M)
    assert Path(report).is_file()
    [then] = re.findall("^Next: (.*)$", told, re.M)
    assert {*then.split(", ")} <= statuses.keys()


@pytest.mark.usefixtures("statuses")
@pytest.mark.parametrize("failing", ["run", "sql"])
def test_the_demo_ends_as_its_commands_do(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    monkeypatch.setattr("spark_jobs.cli.main", lambda arguments: 3 if arguments[0] == failing else 0)

    assert demo() == 3


def test_values_alone_are_given_an_offset_each(tmp_path: Path) -> None:
    """Whatever stands between and behind them; `land`, which the block ends with, is left out."""
    [text] = [one["text"] for one in _BLOCK.finditer(README) if "input_line_number" in one["text"]]
    (tmp_path / "dump").mkdir()
    for name, lines in {"1": '{"a": 1}\n\n{"a": 2}', "2": 'null\n{"a": 3}\n', "3": '\n{"a": 4}'}.items():
        (tmp_path / f"dump/{name}.json").write_text(lines)
    recipe, is_land, _ = text.partition(".venv/bin/tidemark land")
    subprocess.run(recipe, shell=True, check=True, cwd=tmp_path)  # noqa: S602 - it is the README's own
    made = [json.loads(line) for line in (tmp_path / "dumps/orders.jsonl").read_text().splitlines()]

    assert is_land
    assert [one["value"] for one in made] == ['{"a": 1}', '{"a": 2}', "null", '{"a": 3}', '{"a": 4}']
    assert [one["offset"] for one in made] == [0, 1, 2, 3, 4]


def test_files_of_a_sink_are_given_the_places_that_their_names_tell(tmp_path: Path) -> None:
    """Side files stay out."""
    page = (PROJECT / "docs/connectors.md").read_text()
    [text] = [one["text"] for one in _BLOCK.finditer(page) if "input_line_number" in one["text"]]
    (tmp_path / "sink").mkdir()
    files = {"shop.orders+0+0000000007": '{"a": 1}\n\n{"a": 2}', "shop.orders+12+0000000900": '{"a": "\\\\"}\n'}
    for name, lines in {**files, "shop.orders+0+0000000007.keys": '"k"\n'}.items():
        (tmp_path / f"sink/{name}.json").write_text(lines)
    subprocess.run(text, shell=True, check=True, cwd=tmp_path)  # noqa: S602 - it is the page's own
    made = [json.loads(line) for line in (tmp_path / "dumps/sink.jsonl").read_text().splitlines()]

    assert [(one["topic"], one["partition"], one["offset"], one["value"]) for one in made] == [
        ("shop.orders", 0, 7, '{"a": 1}'),
        ("shop.orders", 0, 8, '{"a": 2}'),
        ("shop.orders", 12, 900, '{"a": "\\\\"}'),
    ]


def rows_under(header: str) -> list[list[str]]:
    table = README.partition(f"{header}\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]


def test_the_first_screen_is_what_they_give(statuses: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    columns = "name, email, tier, valid_from, valid_to, opened_by, closed_by"
    shown = rows_under(f"| {columns.replace(', ', ' | ')} |")
    capsys.readouterr()

    status = main(
        [
            "sql",
            "--json",
            f"select {columns} from inv__public__customers_history where id = 101 order by position limit 4",
        ]
    )

    given = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0
    assert shown == [
        [str(value or "")[11:23] if name in ("valid_from", "valid_to") else value or "" for name, value in row.items()]
        for row in given
    ]


def test_the_first_screen_is_what_arrived() -> None:
    changes = []
    with gzip.open(PROJECT / RECORDS, "rt") as lines:
        for record in map(json.loads, lines):
            is_hers = record["topic"] == "inv.public.customers" and json.loads(record["key"])["payload"]["id"] == 101
            if is_hers and record["value"]:
                changes.append(json.loads(record["value"])["payload"])
    words = {"c": "insert", "u": "update", "d": "delete"}

    assert rows_under("| what arrived | lsn | transaction | name | email | tier |") == [
        [
            words[change["op"]],
            str(change["source"]["lsn"]),
            str(change["source"]["txId"]),
            *[(change["after"] or {}).get(column) or "" for column in ("name", "email", "tier")],
        ]
        for change in changes[:5]
    ]
