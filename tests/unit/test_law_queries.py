"""Queries of laws that dbt's tests have too can be written without dbt: every macro that they call is at hand."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.columns import OWN_COLUMNS
from spark_jobs.macro_queries import query

NAMES = {one: one for one in OWN_COLUMNS}
COLUMNS = [{"name": "id", "type": "string"}, {"name": "name", "type": "string"},
           {"name": "labels", "type": "map<string,string>"}]  # fmt: skip
TABLE = {"source": "src.t", "key": ["id"], "documents": False}
DECLARED = {"snapshot_deletes": "close", "ignore": ["name"], "reselected": ["name"]}


@pytest.mark.parametrize(
    ("declared", "says", "says_not"),
    [
        ({}, ("cast(array() as array<string>)", "versions.row.`name`"), ("'name', 'name'",)),
        (DECLARED, ("array('name', 'name')",), ("versions.row.`name`",)),
    ],
)
def test_versions_are_compared_in_what_their_history_tracks(
    declared: dict[str, Any], says: tuple[str, ...], says_not: tuple[str, ...]
) -> None:
    text = query("unexplained_versions", "gold.history", "silver.changes", COLUMNS, NAMES, TABLE, declared)

    # A map is compared by its entries.
    for one in (*says, "from gold.history", "map_entries(versions.row.`labels`)"):
        assert one in text
    assert [one for one in says_not if one in text] == []


def test_exact_values_are_compared_and_of_documents_what_is_told_whole() -> None:
    columns = [*COLUMNS, {"name": "n", "type": "decimal(9,2)"}]
    rows, documents = (
        query("unexplained_versions", "h", "c", columns, NAMES, TABLE | {"documents": has_any}, {})
        for has_any in (False, True)
    )
    assert "regexp_replace(versions.exact_values[name]" in rows
    is_whole = "changes.op not in ('c', 'r') or ("
    assert (is_whole in documents, documents.replace(is_whole, "(")) == (True, rows)


@pytest.mark.parametrize(("declared", "closes"), [({}, False), (DECLARED, True)])
@pytest.mark.parametrize(
    ("shown", "is_shown"),
    [
        (None, "changed_at, false as is_shown"),
        ({"batch_id": 1, "cut": None}, "changed_at, batch_id <= 1 as is_shown"),
        ({"batch_id": 1, "cut": "1"}, "changed_at, (batch_id <= 1 and coalesce(position < '1', false)) as is_shown"),
    ],
)
def test_ends_are_asked_of_what_a_history_shows(
    declared: dict[str, Any], closes: bool, shown: dict[str, Any] | None, is_shown: str
) -> None:
    text = query("unexplained_ends", "gold.history", "silver.changes", COLUMNS, NAMES, TABLE, declared, shown)

    assert "from gold.history" in text
    assert is_shown in text
    assert ("snapshot != 'incremental' and position is not null" in text) == closes
    assert ("'update', 'snapshot'" in text) != closes


@pytest.mark.parametrize(("declared", "is_compared"), [({}, True), (DECLARED, False)])
def test_what_a_first_change_found_is_compared_with_its_image_before(
    declared: dict[str, Any], *, is_compared: bool
) -> None:
    shown = {"batch_id": 1, "cut": None}
    texts = [
        query("unexplained_found", "gold.history", "silver.changes", COLUMNS, NAMES, one, declared, shown)
        for one in (TABLE, TABLE | {"documents": True})
    ]

    assert [("versions.row.`name`\n    <=> met.before.`name`" in text) == is_compared for text in texts] == [True] * 2
    # Of a document's image before a change no column is asked.
    assert ["and false" in text for text in texts] == [False, True]
