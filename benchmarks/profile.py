"""Where time goes: `make profile`, or `python -m benchmarks.profile --keys N --changes M`.

A snapshot of `--keys` rows is landed and built from nothing, then `--changes` changes of it (see `workload`), then
nothing new. All is one process, one Spark session and one captured table, in a folder that is removed afterwards.

Measured is wall-clock time of each stage, and the processor time of this process and its JVM, which says more where the
machine has other work; making the records and writing the models is not part of any. Below a build
stand its models and tests with the seconds that dbt gives them: where they run side by side, they add up to more than
their build, and dbt's own work is in none of them. The first stage of each kind also pays for what a JVM does once
(loading classes, compiling), as a nightly run does.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import click
from pyspark.sql import SparkSession

from benchmarks.workload import Sizes, files_of, generate
from spark_jobs import steps
from spark_jobs.declarations import run_dbt
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import write
from tests.projects import empty_project, missing


class Profile:
    """Seconds per stage, with what each was made of, printed as they come."""

    def __init__(self) -> None:
        self._parts: dict[str, float] = {}
        self._jvm = 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; what is added within stands below it."""
        self._parts.clear()
        before, busy = monotonic(), self._busy()
        yield
        self._line(name, monotonic() - before, self._busy() - busy)
        for part, seconds in self._parts.items():
            self._line(f"  {part}", seconds)

    def built(self, results: Iterable[Any]) -> None:
        """Add what dbt says of a build's nodes: models each, tests together."""
        for result in results:
            kind = result.node.resource_type
            name = result.node.name if kind == "model" else f"{kind}s"
            if kind != "operation":
                self._parts[name] = self._parts.get(name, 0) + result.execution_time

    def watch(self, spark: SparkSession) -> None:
        """Count the processor time of a session's JVM, too."""
        self._jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())

    def _busy(self) -> float:
        """Seconds of processor time so far."""
        seconds = process_time()
        if self._jvm:
            fields = Path(f"/proc/{self._jvm}/stat").read_text().rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return seconds

    @staticmethod
    def _line(name: str, seconds: float, busy: float | None = None) -> None:
        click.echo(f"{name:<44}{seconds:>8.1f}{'' if busy is None else f'{busy:>8.1f}'}")


@click.command()
@click.option("--keys", default=200_000, show_default=True, help="Rows of the snapshot.")
@click.option("--changes", default=20_000, show_default=True, help="Changes of the increment.")
def main(keys: int, changes: int) -> None:
    """Measure the pipeline's stages on a made-up table of 20 columns."""
    profile = Profile()
    with tempfile.TemporaryDirectory(prefix="tidemark-profile-") as folder:
        home = Path(folder)
        project = empty_project(home / "project")
        run = steps.Run(Places(project, str(home / "lakehouse"), str(home / "catalog")), "profile")
        run.begin("text")
        initial, [increment] = files_of(generate(home / "workload", Sizes(keys, 1, changes)), home / "workload")
        click.echo(f"{f'{changes} changes into {keys} keys':<44}{'seconds':>8}{'cpu':>8}")

        def build(name: str) -> None:
            with profile.stage(name):
                result = run_dbt(run.places, ["--quiet", "build"])
                if not result.success:
                    raise click.ClickException(f"{name} failed: {result.exception or 'see above'}")
                profile.built(result.result.results)

        with profile.stage("start"):
            spark = run.session(catalog=True)
        profile.watch(spark)
        with profile.stage("land initial"):
            steps.land(run, spark, [initial], "profile")
        write(project, missing(project, seen_tables(spark, run.places)))
        build("build initial")
        with profile.stage("land increment"):
            steps.land(run, spark, [increment], "profile")
        build("build increment")
        build("build, nothing new")
        with profile.stage("check"):
            steps.check_and_report(run, spark)
        spark.stop()


if __name__ == "__main__":
    main()
