"""Tidemark: landing and `dbt run`, in one session.

Scaffolding and dbt's first parse of the project come before a first run and are not timed; `dbt test`, and check with
report, are timed beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import click

from benchmarks.contenders.lake import export, session
from spark_jobs import steps
from spark_jobs.declarations import run_dbt
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import write
from tests.projects import empty_project, forget_tables, missing


class Tidemark:
    """A project with nothing but Tidemark's macros, and its lakehouse."""

    def __init__(self, home: Path, made: Mapping[str, Any]) -> None:
        self._columns = list(made["columns"])
        project = empty_project(home / "project")
        self.places = Places(project, str(home / "lakehouse"), str(home / "catalog"))
        self.spark = session(home, catalog=True)
        self.run = steps.Run(self.places, "benchmark")
        self.run.begin("text")
        self._parts: dict[str, float] = {}
        self._landings = 0

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        before = monotonic()
        yield
        self._parts[name] = self._parts.get(name, 0) + monotonic() - before

    def _dbt(self, *arguments: str) -> None:
        result = run_dbt(self.places, ["--quiet", *arguments])
        if not result.success:
            failed = [str(one.message) for one in result.result or [] if one.status in ("error", "fail")]
            raise click.ClickException(f"dbt {arguments[0]}: {result.exception or failed}")

    def _land(self, files: Sequence[str]) -> None:
        with self._part("land"):
            self._landings += 1
            steps.land(self.run, self.spark, list(files), "benchmark")

    def _build(self) -> Mapping[str, float]:
        with self._part("run"):
            self._dbt("run")
        parts, self._parts = self._parts, {}
        return parts

    def initial(self, files: Sequence[str]) -> Mapping[str, float]:
        """Land, write the models as a user would, and run them."""
        self._land(files)
        write(self.places.project, missing(self.places.project, seen_tables(self.spark, self.places)))
        self._dbt("parse")
        return self._build()

    def increment(self, files: Sequence[str]) -> Mapping[str, float]:
        """Land and run."""
        if files:
            self._land(files)
        return self._build()

    def history(self, table: str, folder: Path) -> list[Path]:
        """The gold table as Parquet."""
        location = self.places.table("gold", f"bench__public__{table}_history")
        gold = self.spark.read.format("delta").load(location)
        return export(gold.select(*self._columns, "valid_from", "valid_to"), folder)

    def extras(self) -> Mapping[str, float]:
        """The tests of the models; accounting, expectations and the report."""
        with self._part("dbt test"):
            self._dbt("test", "--exclude", "test_type:unit")
        with self._part("check and report"):
            steps.check_and_report(self.run, self.spark)
        parts, self._parts = self._parts, {}
        return parts

    def versions(self) -> int:
        """How many Delta versions the tables of silver and gold have together (G3: nothing new makes none)."""
        lakehouse = Path(self.places.lakehouse)
        logs = (lakehouse / layer for layer in ("silver", "gold"))
        return sum(1 for log in logs for _ in log.glob("*/_delta_log/*.json"))

    def close(self) -> None:
        """Take its tables out of the session's catalog."""
        forget_tables(self.spark)


open_contender = Tidemark
