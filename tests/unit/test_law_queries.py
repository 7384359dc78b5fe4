"""Queries of laws that dbt's tests have too can be written without dbt: every macro that they call is at hand."""

from __future__ import annotations

import pytest

from expectations.rules.shared import query
from spark_jobs.scaffolding.tables import OWN_COLUMNS


@pytest.mark.parametrize(("name", "more"), [("untold_versions", ()), ("untold_ends", (None,))])
def test_a_law_finds_its_macros(name: str, more: tuple[None, ...]) -> None:
    columns = [{"name": one, "type": "string"} for one in ("id", "name")]
    table = {"source": "src.t", "key": ["id"], "documents": False}
    text = query(name, "history", "changes", columns, {one: one for one in OWN_COLUMNS}, table, {}, *more)
    assert "history" in text
