"""Two pages are held to what they say, docs/checklist.md and docs/jdbc-sink.md: every row and every test is there."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
import yaml

from spark_jobs.landing.codes import REASONS

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
# The rows of the documents' own tables, section by section.
WANTED = TESTS / "project/checklist.csv"
STATUSES = ("works", "no row change", "nothing arrives")
NEEDS_A_TEST = ("works", "no row change", "refused")
AGREES = ("a database", "synthetic records", "documents")
# The peer's list, in the documents' order.
FEATURES = (
    "Input", "Delivery", "Idempotence", "`insert.mode`", "`primary.key.mode`", "`delete.enabled`", "`truncate.enabled`",
    "Values", "`schema.evolution`", "New field", "Types", "Names", "Time zone", "Batching, tasks", "Field filter",
    "Order guard", "History, before image, transactions",
)  # fmt: skip
SINK_STATUSES = ("works", "refused", "no sense here")


def rows(name: str, first: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a page's tables whose first column is named so, with the heading above each."""
    section, header = "", None
    for line in (DOCS / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            header = None
        elif header is None:
            header = cells
        elif header[0] == first and set(line) - set("|-"):
            yield section, dict(zip(header, cells, strict=True))


CHECKLIST = list(rows("checklist.md", "What"))
SINK = [row for _, row in rows("jdbc-sink.md", "Feature")]


class Collection:
    """The tests that pytest collects, each with its case and without, as the pages name them."""

    def __init__(self) -> None:
        self.tests: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        """Called with all of them."""
        names = {(item.path.name, name) for item in items for name in (item.name, item.originalname)}
        self.tests = {f"`{file}::{name}`" for file, name in names}


@cache
def collected() -> set[str]:
    """The tests in the files that the pages name. In this process most of them have been read before."""
    rows = (*(row for _, row in CHECKLIST), *SINK)
    named = {file for row in rows for file in re.findall(r"`(test_\w+\.py)::", row["Shown by"])}
    files = [str(file) for file in TESTS.rglob("test_*.py") if file.name in named]
    found = Collection()
    # Cases of long tests are collected as well, and nothing is printed, nor written down for the next run.
    quietly = ["--collect-only", "-o", "addopts=", "-p", "no:terminal", "-p", "no:cacheprovider"]
    assert pytest.main([*quietly, *files], plugins=[found]) == pytest.ExitCode.OK
    return found.tests


@cache
def tapes() -> set[str]:
    return {
        tape["tape"] for file in (TESTS / "tapes").glob("*.yml") for tape in yaml.safe_load(file.read_text("utf-8"))
    }


@cache
def examples() -> list[str]:
    return [*yaml.safe_load((TESTS / "corpus/expected.yml").read_text("utf-8"))]


@cache
def lines_of_types() -> set[str]:
    lines = [line for file in (TESTS / "types").glob("*.txt") for line in file.read_text("utf-8").splitlines()]
    return {number for line in lines for number in re.findall(r"[0-9]+", line.partition("|")[0])}


def is_there(shown: str) -> bool:
    """Whether a test, a story, printed examples or a line of the tables of types is there."""
    kind, _, name = shown.partition(": ")
    if kind == "tape":
        return name in tapes()
    if kind == "corpus":
        return any(fnmatch(one, name) for one in examples())
    if kind == "types":
        return name in lines_of_types()
    return shown in collected()


def proofs(row: dict[str, str]) -> list[str]:
    return [one for one in row["Shown by"].split("<br>") if one]


def test_every_row_of_the_documents_is_there() -> None:
    with WANTED.open(encoding="utf-8", newline="") as file:
        wanted = [(row["section"], row["name"]) for row in csv.DictReader(file)]

    assert [(section, row["What"]) for section, row in CHECKLIST] == wanted


@pytest.mark.parametrize("number", range(len(CHECKLIST)), ids=lambda number: CHECKLIST[number][1]["What"][:40])
def test_a_row_has_a_status_and_what_shows_it(number: int) -> None:
    _, row = CHECKLIST[number]
    status, _, code = row["Status"].partition(": ")

    assert status == "refused" or row["Status"] in STATUSES
    assert not code or code.strip("`") in REASONS
    assert (row["Agrees with"] in AGREES) == (status != "nothing arrives")
    assert row["What becomes of it"]
    assert proofs(row) or status not in NEEDS_A_TEST
    assert [one for one in proofs(row) if not is_there(one)] == []


def test_the_sink_s_features_are_all_there() -> None:
    assert [row["Feature"] for row in SINK if row["Feature"] in FEATURES] == list(FEATURES)


@pytest.mark.parametrize("row", SINK, ids=lambda row: row["Feature"])
def test_a_feature_has_a_status_and_what_shows_it(row: dict[str, str]) -> None:
    assert row["Status"] in SINK_STATUSES
    assert row["Tidemark"]
    assert proofs(row) or row["Status"] != "works"
    assert [one for one in proofs(row) if not is_there(one)] == []


def test_a_test_that_is_not_there_is_seen() -> None:
    assert not is_there("`test_forms.py::test_that_nobody_wrote`")
    assert not is_there("`test_forms.py::test_the_same_history_comes_out_of_each_form[fm_nothing]`")
    assert not is_there("`test_forms.py::test_the_same_history_comes_out_of_each_form[fm_plain]`"), "a word of the file"
    assert not is_there("tape: A story that nobody told")
    assert not is_there("corpus: no-such-*")
    assert not is_there("types: 9999")
