"""Full rebuild in DuckDB: everything from the files to one Parquet file, each time. It stands for the machine's limit.

The same steps as the rebuild in Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.contenders.one_file import OneFile
from benchmarks.workload import COLUMNS

_KINDS = {"bigint": "BIGINT", "string": "VARCHAR", "double": "DOUBLE", "boolean": "BOOLEAN"}
ENVELOPE = json.dumps({
    "before": {"id": "BIGINT"},
    "after": {name: _KINDS[kind] for name, kind in COLUMNS.items()},
    "source": {"ts_us": "BIGINT", "lsn": "BIGINT"},
    "op": "VARCHAR",
})  # fmt: skip
NAMES = [name for name in COLUMNS if name != "id"]
ROW = ", ".join(f"change.after.{name}" for name in NAMES)
# From changes in their places to versions.
VERSIONS = f"""
    told as (
        select * from placed
        window by_position as (partition by id order by lsn)
        qualify if(
            op = 'd', lag(op) over by_position <> 'd', coalesce(lag(op) over by_position, 'd') = 'd'
            or lag(state) over by_position <> state
        )
    ),
    ended as (
        select *, lead(valid_from) over (partition by id order by lsn) as valid_to from told
    )
    select {", ".join(COLUMNS)}, valid_from, valid_to from ended where op <> 'd'
"""
_HISTORY = f"""
    with changes as (
        select from_json(value, '{ENVELOPE}') as change
        from read_json(?, columns = {{value: 'VARCHAR'}}, format = 'newline_delimited')
        where value is not null
    ),
    rows as (
        select coalesce(change.after.id, change.before.id) as id, change.op, change.source.lsn,
            change.source.ts_us as valid_from, {ROW}
        from changes where coalesce(change.after.id, change.before.id) is not null
    ),
    placed as (
        select *, hash({", ".join(NAMES)}) as state from rows
        qualify lsn is distinct from lag(lsn) over (partition by id order by lsn)
    ),
    {VERSIONS}
"""


class RebuildDuckDB(OneFile):
    """One query.

    Attributes:
        query: What makes the history of the files.
    """

    query = _HISTORY

    def __init__(self, home: Path, made: Mapping[str, Any]) -> None:
        super().__init__(home, made)
        self._connection = duckdb.connect()

    def rebuild(self) -> None:
        """Run it."""
        self._connection.execute(f"copy ({self.query}) to '{self.target}' (format parquet)", [self.files])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


open_contender = RebuildDuckDB
