"""What a trace says of changes and of versions."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row

from spark_jobs.masking import Mask
from spark_jobs.trace import Trace
from tests.evidence import captured


@pytest.mark.parametrize(
    ("options", "differs", "words"),
    [
        ({}, [], "equals the version before it (R12)"),
        ({"ignore": ["seen"]}, ["seen"], "differs in ignored columns alone, whose newest value the version has (R12)"),
        ({"track": ["v"]}, ["seen"], "differs in ignored columns alone, whose newest value the version has (R12)"),
        # A read of a rounded value.
        ({"ignore": ["seen"]}, ["v"], "equals the version before it (R12)"),
    ],
)
def test_a_change_without_a_version_is_told_with_what_it_differs_in(
    options: dict[str, Any], differs: list[str], words: str
) -> None:
    row = Row(became="no_op", is_end=False, columns=[Row(name=name, value="1") for name in differs])

    assert Trace(captured(history_options=options), [], Mask(""), "")._became(row) == words


def test_a_trace_says_where_gold_says_otherwise() -> None:
    def row(**own: Any) -> Row:
        usual = dict.fromkeys(("transaction_id", "valid_to", "closed_by", "previous_key", "next_key", "otherwise"))
        usual |= {"key": '{"id":"a"}', "changed_at": "2024-05-01 12:00:00", "op": "c", "topic": "t", "partition": 0}
        usual |= {"offset": 7, "columns": [], "signs": [], "is_end": False, "valid_from": "2024-05-01 12:00:00"}
        usual |= {"opened_by": "insert", "unresolved_columns": [], "became": "opened", "version_id": "v"}
        return Row(**usual | own)

    rows = [
        row(change_id="1", is_stored=False),
        row(change_id="2", is_stored=True, otherwise=["v", "valid_to"]),
        row(change_id="3", is_stored=True, otherwise=[]),
        row(change_id="4", is_stored=None, became="waiting", version_id=None),
        row(change_id=None, is_stored=True, became=None, opened_by="update"),
    ]
    lines = list(Trace(captured(), rows, Mask(""), " --target other").lines)
    mend = "`tidemark rebuild --target other src__t` makes it anew"

    assert lines[0] == 'src__t {"id": "a"}: 4 changes, 3 versions'
    assert [line for line in lines if "gold" in line] == [
        f"    gold has no such version: {mend}",
        f"    gold says otherwise of v, valid_to: {mend}",
        f"    gold has a version from 2024-05-01 12:00:00 (update), is current, and no change opened it: {mend}",
    ]
    assert lines.index(f"    gold has no such version: {mend}") == 3
