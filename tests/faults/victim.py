"""A lakehouse whose commands run in processes of their own, so that they can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from spark_jobs.places import Places
from tests.projects import empty_project, rows_of
from tests.source import Column, Source, Table

SOURCE = "kill"
PATIENCE = 300
Point = Callable[[], bool]


@dataclass
class Victim:
    """A project, a lakehouse and a catalog in one folder, and the source whose records it is given.

    `landed` is how many records bronze had when the last command began.
    """

    home: Path
    source: Source = field(default_factory=lambda: Source(SOURCE, has_schemas=False))
    table: Table = field(
        default_factory=lambda: Table("orders", [Column("id"), Column("name"), Column("note", is_large=True)], ("id",))
    )
    files: int = 0
    landed: int = 0

    def __post_init__(self) -> None:
        """Make its project."""
        project = empty_project(self.home / "project")
        self.places = Places(project, str(self.home / "lakehouse"), str(self.home / "catalog"))
        self.inbox.mkdir()

    @property
    def inbox(self) -> Path:
        """The folder of the record files."""
        return self.home / "records"

    def give(self, changes: int = 12) -> None:
        """Write another file: orders inserted, changed, moved, deleted; a column for another; a line that is none."""
        first = len(self.source.records)
        self.table.columns[3:] = [Column(f"extra_{self.files}")]
        for number in range(self.files * changes, (self.files + 1) * changes):
            with self.source.commit():
                self._change(number)
        bad = {
            "topic": self.source.records[-1]["topic"],
            "partition": 0,
            "offset": 1_000_000 + self.files,
            "value": "{",
        }
        lines = self.source.lines([*self.source.records[first:], bad])
        (self.inbox / f"{self.files:03}.jsonl").write_text(lines)
        self.files += 1

    def _change(self, number: int) -> None:
        extra = {self.table.columns[3].name: str(number)}
        rows = [{**row, **dict.fromkeys(extra)} for row in self.table.rows.values()]
        row = rows[number * 7 % len(rows)] if rows else None
        if row is None or number % 3 == 0:
            self.source.insert(
                self.table, {"id": str(number), "name": f"name {number}", "note": f"note {number}"} | extra
            )
        elif number % 7 == 6:
            self.source.delete(self.table, row)
        elif number % 11 == 10:
            self.source.update(self.table, row, {"id": f"{row['id']}'"})
        else:
            self.source.update(self.table, row, {"name": f"changed {number}", **extra})

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """A command of Tidemark's, in a process group of its own."""
        environment = os.environ | self.places.environment()
        with (self.home / "said.txt").open("a") as output:
            return subprocess.Popen(
                [Path(sys.executable).with_name("tidemark"), *command, "--project-dir", str(self.places.project)],
                env=environment, cwd=self.places.project, start_new_session=True, stdout=output, stderr=output,
            )  # fmt: skip

    def run(self, *command: str) -> int:
        """Run a command to its end; its exit status."""
        return self.start(*command).wait(PATIENCE)

    def killed(self, point: Point, *command: str) -> bool:
        """Run a command and kill its process group at a point; whether the point came before the command's end."""
        process = self.start(*command)
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            if point():
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return True
            time.sleep(0.01)
        return False

    def appears(self, pattern: str) -> Point:
        """A point: when the lakehouse has another file of a pattern."""
        folder = Path(self.places.lakehouse)
        known = {path: path.stat().st_mtime_ns for path in folder.glob(pattern)}

        def is_there() -> bool:
            try:
                return any(known.get(path) != path.stat().st_mtime_ns for path in folder.glob(pattern))
            except FileNotFoundError:  # removed between the look at the folder and the look at the file
                return False

        return is_there

    def commits(self) -> int:
        """How many commits its tables have."""
        return sum(1 for _ in Path(self.places.lakehouse).glob("*/*/_delta_log/*.json"))

    def rows(self, layer: str, name: str) -> list[dict[str, Any]]:
        """A table's rows, by a reader that is not Spark; none where there is no table."""
        location = self.places.table(layer, name)
        if not DeltaTable.is_deltatable(location):
            return []
        return rows_of(location)

    def output(self) -> str:
        """The last of what its commands said."""
        return (self.home / "said.txt").read_text(errors="replace")[-3000:]


def later(point: Point, seconds: float) -> Point:
    """A point: so long after another."""
    reached: list[float] = []

    def is_there() -> bool:
        if not reached and point():
            reached.append(time.monotonic())
        return bool(reached) and time.monotonic() >= reached[0] + seconds

    return is_there
