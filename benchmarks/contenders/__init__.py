"""The contenders: Tidemark and what a user would pick instead, each a script of its own behind one small protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol


class Contender(Protocol):
    """What builds histories of captured tables.

    `initial` and `increment` read files of records and bring the history up to date. They return the seconds of their
    parts where only these count, else None: then all of the call does.
    """

    def initial(self, files: Sequence[str]) -> Mapping[str, float] | None:
        """Build the history from nothing."""

    def increment(self, files: Sequence[str]) -> Mapping[str, float] | None:
        """Bring the history up to date with more records; no file means that there is nothing new."""

    def history(self, table: str, folder: Path) -> list[Path]:
        """Write a table's history as Parquet into a folder, as `benchmarks.score` reads it, and name the files."""

    def extras(self) -> Mapping[str, float]:
        """Seconds of what else belongs to a run, and is no part of building histories."""

    def close(self) -> None:
        """Leave nothing in this process that another contender of this kind would meet."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A contender as the benchmark lists it.

    Attributes:
        title: What the table calls it.
        venv: The virtual environment that it runs in.
        has_increments: Whether it takes more than an initial load; what a workload has behind that is left out else.
    """

    title: str
    venv: str = ".venv"
    has_increments: bool = True


ENTRIES: Final = {
    "tidemark": Entry("Tidemark"),
    "merge_taught": Entry("hand MERGE as taught"),
    "merge_careful": Entry("hand MERGE, careful"),
    "rebuild_spark": Entry("full rebuild, Spark + Delta"),
    "dbt_snapshot": Entry("dbt snapshot over a merged current table"),
    "auto_cdc": Entry("Spark 4.3 AUTO CDC on Iceberg", ".venv-bench-autocdc"),
    "rebuild_duckdb": Entry("full rebuild, DuckDB to Parquet", ".venv-bench"),
    "rebuild_duckdb_rules": Entry("full rebuild, DuckDB, with this workload's rules", ".venv-bench"),
    "rebuild_polars": Entry("full rebuild, Polars to Parquet", ".venv-bench"),
    "bare_parts": Entry("bare parts in Spark: parse, raw append, an append per layer", has_increments=False),
}


def open_contender(name: str, home: Path, made: Mapping[str, Any]) -> Contender:
    """A contender with nothing stored yet.

    Args:
        name: A name of ENTRIES.
        home: An empty folder of its own.
        made: What `workload.json` says of the workload.
    """
    contender: Contender = import_module(f"benchmarks.contenders.{name}").open_contender(home, made)
    return contender
