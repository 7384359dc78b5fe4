"""Queries of macros that are asked beside dbt, too, so that each is written once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2

_MACROS = Path(__file__).parents[1] / "macros"
# What these ask of other macros; what those ask of dbt is asked only where they are called.
_FILES = (
    "project/quoting.sql", "changes/borders.sql", "changes/conditions.sql", "changes/keys.sql", "changes/scope.sql",
    "history/compare.sql", "history/version_rows.sql", "history/place.sql", "history/key_changes.sql",
    "history/scope.sql", "history/stays.sql", "laws/versions.sql", "laws/neighbours.sql",
)  # fmt: skip


def query(name: str, *given: Any) -> str:
    """What a macro of those files writes."""
    return str(getattr(_macros(), name)(*given))


@cache
def _macros() -> Any:
    environment = jinja2.Environment(extensions=["jinja2.ext.do"], undefined=jinja2.StrictUndefined)  # noqa: S701 - SQL
    return environment.from_string("".join((_MACROS / name).read_text(encoding="utf-8") for name in _FILES)).module
