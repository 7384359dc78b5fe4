"""One lakehouse of bad and good records for all tests of commands, seen through the command line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.cli import main
from tests.jobs.lines import TOPIC, envelope, line
from tests.projects import empty_project, forget_tables

PLANTED = "geheim-4711"


@dataclass(frozen=True)
class Said:
    """What a command said, and its exit status."""

    status: int
    out: str
    err: str


@dataclass
class CommandLine:
    """The command line on a project and a lakehouse of its own."""

    home: Path
    capture: pytest.CaptureFixture[str] | None = None

    @property
    def project(self) -> Path:
        """The project's folder."""
        return self.home / "project"

    @property
    def lakehouse(self) -> Path:
        """The lakehouse's folder."""
        return self.home / "lakehouse"

    def __call__(self, *arguments: str) -> Said:
        """Run a command in this process."""
        assert self.capture is not None
        self.capture.readouterr()
        status = main([*arguments, "--project-dir", str(self.project)])
        said = self.capture.readouterr()
        return Said(status, said.out, said.err)

    def write(self, name: str, *lines: str) -> str:
        """Write a record file; its path."""
        path = self.home / name
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress("\n".join(lines).encode()))
        else:
            path.write_text("\n".join(lines))
        return str(path)


BAD = {
    "line-not-json": line(10, {"id": 10}, envelope({"id": 10, "email": PLANTED}))[:-9],
    "line-without-offset": json.dumps({"topic": TOPIC, "key": None, "value": PLANTED}),
    "line-without-value": json.dumps({"topic": TOPIC, "partition": 0, "offset": 18, "key": None, "body": PLANTED}),
    "value-not-json": line(12, {"id": 12}, f'{{"op": "c", {PLANTED}'),
    "schema-without-payload": line(13, {"id": 13}, {"schema": {"type": "struct", "name": PLANTED}}),
    "unknown-op": line(14, {"id": 14}, envelope({"id": 14, "email": PLANTED}, op="x")),
    "no-after": line(15, {"id": 15}, envelope(None, op="u")),
    "no-envelope": line(16, {"id": 16}, {"id": 16, "email": PLANTED}),
    "key-not-json": line(17, f"{{{PLANTED}", envelope({"id": 17, "email": PLANTED})),
}
GOOD = (
    line(0, {"id": 1}, envelope({"id": 1, "email": "ann@example.org"}, at=1)),
    line(1, {"id": 2}, envelope({"id": 2, "email": PLANTED}, at=2)),
    line(2, {"id": 1}, envelope({"id": 1, "email": PLANTED}, op="u", at=3)),
    # A clock beyond what a timestamp can hold is no reason to lose the record.
    line(3, {"id": 3}, envelope({"id": 3, "email": "eve@example.org"}, at=4), timestamp=9_223_372_036_854_775_807),
)


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """A project and an empty lakehouse, which the shared session's catalog takes for the time of these tests."""
    folder = tmp_path_factory.mktemp("jobs")
    empty_project(folder / "project")
    forget_tables(spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMARK_LAKEHOUSE", str(folder / "lakehouse"))
        yield CommandLine(folder)
    forget_tables(spark)


@pytest.fixture
def tidemark(home: CommandLine, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line, with what it says."""
    home.capture = capsys
    return home


@pytest.fixture(scope="module")
def landed(home: CommandLine) -> int:
    """The exit status of landing good and bad records together."""
    return main(["land", home.write("mixed.jsonl", *GOOD, *BAD.values()), "--project-dir", str(home.project)])
