"""The oracle tells each tape's history: what the SQL is judged by is itself judged by readable cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import oracle
from tests.tape import Tape, tapes

TAPES = tapes(Path(__file__).parents[1] / "tapes")


@pytest.mark.parametrize("tape", TAPES, ids=lambda tape: tape.name)
def test_the_oracle_tells_the_tape(tape: Tape) -> None:
    records = [
        oracle.Record(**{**line, "headers": tuple((header["key"], header["value"]) for header in line["headers"])})
        for _, line in tape.records()
    ]
    table = f"{tape.schema}.{tape.table}"
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in tape.options.items()
        if name not in ("rewritten_rows", "sorted_changes")  # how rows are made and written changes none
    }
    options = oracle.TableOptions(key=("id",), **given)
    history = oracle.build(records, {table: options})[table]

    versions = [
        {
            **version.state,
            "valid_from": version.valid_from, "valid_to": version.valid_to, "opened_by": version.opened_by,
            "closed_by": version.closed_by, "offset": version.offset, "is_start_known": version.is_start_known,
            "previous_key": version.previous_key, "next_key": version.next_key,
            "unresolved_columns": version.unresolved_columns,
        }
        for version in sorted(
            (version for versions in history.versions.values() for version in versions),
            key=lambda version: (version.position, version.offset, version.opened_by != "before"),
        )
    ]  # fmt: skip
    assert tape.as_history(versions) == tape.history
