"""dbt snapshot over a current table: the newest change of each key is merged, then dbt compares by time.

Hard deletes are invalidated, as dbt's documentation advises; it stamps them with the time of its own run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.contenders.lake import PROJECT, ROW, changes, export, session
from benchmarks.workload import COLUMNS
from spark_jobs.declarations import run_dbt
from spark_jobs.places import Places

_DBT_PROJECT = """\
name: contender
version: "1.0"
profile: tidemark
flags:
  send_anonymous_usage_stats: false
"""
_SNAPSHOT = """\
version: 2
sources:
  - name: contender
    schema: contender
    tables:
      - name: customers
snapshots:
  - name: customers_history
    relation: source('contender', 'customers')
    config:
      schema: contender
      alias: customers_history
      file_format: delta
      unique_key: id
      strategy: timestamp
      updated_at: changed_at
      hard_deletes: invalidate
"""
_SCHEMA_NAME = "{% macro generate_schema_name(name, node) %}{{ name or target.schema }}{% endmacro %}\n"
_MERGE = f"""
    merge into contender.customers as customers
    using newest_changes as newest on customers.id = newest.id
    when matched and newest.lsn > customers.lsn and newest.op = 'd' then delete
    when matched and newest.lsn > customers.lsn then update set
        {", ".join(f"{name} = newest.{name}" for name in [*ROW, "changed_at", "lsn"])}
    when not matched and newest.op <> 'd' then insert ({", ".join([*COLUMNS, "changed_at", "lsn"])})
        values ({", ".join(f"newest.{name}" for name in [*COLUMNS, "changed_at", "lsn"])})
"""


class DbtSnapshot:
    """A dbt project of one snapshot, and the table that it looks at."""

    def __init__(self, home: Path, made: Mapping[str, Any]) -> None:
        del made
        self.home = home
        self.spark = session(home, catalog=True)
        project = home / "project"
        for name, text in {
            "dbt_project.yml": _DBT_PROJECT,
            "snapshots/customers.yml": _SNAPSHOT,
            "macros/generate_schema_name.sql": _SCHEMA_NAME,
        }.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)
        for name in ("profiles.yml", ".jars", "conf"):
            (project / name).symlink_to(PROJECT / name)
        self.places = Places(project, str(home / "lakehouse"), str(home / "catalog"))
        self.spark.sql(f"create database contender location '{home}/contender'")
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        self.spark.sql(f"create table contender.customers ({columns}, changed_at timestamp, lsn bigint) using delta")
        self._dbt("parse")

    def _dbt(self, command: str) -> None:
        result = run_dbt(self.places, ["--quiet", command])
        if not result.success:
            failed = [str(one.message) for one in result.result or [] if one.status == "error"]
            raise click.ClickException(f"dbt {command}: {result.exception or failed}")

    def initial(self, files: Sequence[str]) -> None:
        """The same as ever."""
        self.increment(files)

    def increment(self, files: Sequence[str]) -> None:
        """MERGE, then snapshot."""
        if files:
            newest = self.spark.sql(
                "with numbered as ("
                " select *, row_number() over (partition by id order by lsn desc) as number from {changes}"
                ") select * from numbered where number = 1",
                changes=changes(self.spark, files),
            )
            newest.createOrReplaceTempView("newest_changes")
            self.spark.sql(_MERGE)
        self._dbt("snapshot")

    def history(self, table: str, folder: Path) -> list[Path]:
        """The snapshot as Parquet."""
        del table
        snapshot = self.spark.table("contender.customers_history")
        times = {"dbt_valid_from": "valid_from", "dbt_valid_to": "valid_to"}
        return export(snapshot.withColumnsRenamed(times).select(*COLUMNS, *times.values()), folder)

    def extras(self) -> Mapping[str, float]:
        """Nothing else belongs to it."""
        return {}

    def close(self) -> None:
        """Take its tables out of the session's catalog."""
        self.spark.sql("drop database contender cascade")


open_contender = DbtSnapshot
