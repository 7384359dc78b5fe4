"""Macros that are asked outside dbt, too: queries that are written once, and lists that others have to agree with."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

_PROJECT = Path(__file__).parents[1]
# What these ask of other macros; what those ask of dbt is asked only where they are called.
_FILES = (
    "project/quoting.sql", "changes/borders.sql", "changes/conditions.sql", "changes/keys.sql", "changes/columns.sql",
    "history/compare.sql", "history/version_rows.sql", "history/place.sql", "history/key_changes.sql",
    "history/linked.sql", "history/stays.sql", "laws/versions.sql", "laws/neighbours.sql",
)  # fmt: skip


def query(name: str, *given: Any) -> str:
    """What a macro of those files writes."""
    return str(getattr(_macros(), name)(*given))


@cache
def _macros() -> Any:
    return _module("".join((_PROJECT / "macros" / name).read_text(encoding="utf-8") for name in _FILES))


def returned(file: str, macro: str, *arguments: str, **others: Any) -> Any:
    """What a macro returns to dbt, where it calls no other of its file that returns.

    `others` stand for the macros of other files that it calls.
    """
    values: list[Any] = []
    _called(file, macro, *arguments, **others, **{"return": values.append})
    return values[0]


def written(file: str, macro: str) -> str:
    """The text that a macro writes."""
    return str(_called(file, macro)).strip()


def _called(file: str, macro: str, *arguments: str, **names: Any) -> Any:
    # dbt's own block is none that Jinja knows.
    text = re.sub(r"(?s){% materialization.*?endmaterialization %}", "", (_PROJECT / file).read_text(encoding="utf-8"))
    return getattr(_module(text, **names), macro)(*arguments)


def _module(text: str, **names: Any) -> Any:
    environment = jinja2.Environment(extensions=["jinja2.ext.do"], undefined=jinja2.StrictUndefined)  # noqa: S701 - SQL
    return environment.from_string(text, globals=names).module
