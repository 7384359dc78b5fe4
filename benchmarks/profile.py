"""Where time goes: `make profile`, or `python -m benchmarks.profile --keys N --changes M`.

A snapshot of `--keys` rows is landed and built from nothing, then `--changes` changes of it (see `workload`), then
nothing new. All is one process, one Spark session and one captured table, in a folder that is removed afterwards.

Measured is wall-clock time of each stage; making the records and writing the models is not part of any. Below a build
stand its models and tests with the seconds that dbt gives them: where they run side by side, they add up to more than
their build, and dbt's own work is in none of them. The first stage of each kind also pays for what a JVM does once
(loading classes, compiling), as a nightly run does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import click

from benchmarks.workload import Sizes, files_of, generate
from spark_jobs import steps
from spark_jobs.declarations import run_dbt
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import missing, write
from tests.projects import empty_project


class Profile:
    """Seconds per stage, with what each was made of, printed as they come."""

    def __init__(self) -> None:
        self._parts: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; what is added within stands below it."""
        self._parts.clear()
        before = monotonic()
        yield
        self._line(name, monotonic() - before)
        for part, seconds in self._parts.items():
            self._line(f"  {part}", seconds)

    def built(self, results: Iterable[Any]) -> None:
        """Add what dbt says of a build's nodes: models each, tests together."""
        for result in results:
            kind = result.node.resource_type
            name = result.node.name if kind == "model" else f"{kind}s"
            if kind != "operation":
                self._parts[name] = self._parts.get(name, 0) + result.execution_time

    @staticmethod
    def _line(name: str, seconds: float) -> None:
        click.echo(f"{name:<44}{seconds:>8.1f}")


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
        click.echo(f"{f'{changes} changes into {keys} keys':<44}{'seconds':>8}")

        def build(name: str) -> None:
            with profile.stage(name):
                result = run_dbt(run.places, ["--quiet", "build"])
                if not result.success:
                    raise click.ClickException(f"{name} failed: {result.exception or 'see above'}")
                profile.built(result.result.results)

        with profile.stage("start"):
            spark = run.session(catalog=True)
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
