"""One contender in a process of its own: `python -m benchmarks.contend NAME HOME WORKLOAD…`, run by `benchmarks.bench`.

Prints one line of JSON for each workload when it is through: seconds, and where the histories are that the answer is
held against. The first workload warms the process up, and its line is left out.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import click

from benchmarks.contenders import ENTRIES, Contender, open_contender
from benchmarks.workload import files_of


def _timed(action: Callable[[], Mapping[str, float] | None]) -> dict[str, float]:
    before = monotonic()
    parts = action()
    return dict(parts) if parts is not None else {"run": monotonic() - before}


def contend(name: str, home: Path, folder: Path, then: Sequence[str]) -> dict[str, Any]:
    """Run a contender on a workload: the initial load, each increment, and what is to follow them.

    Args:
        name: A name of ENTRIES.
        home: An empty folder.
        folder: The workload's.
        then: Of `replay` (the last batch again) and `idle` (nothing new), what is timed after the increments.
    """
    made = json.loads((folder / "workload.json").read_text())
    initial, increments = files_of(made, folder)
    increments = increments if ENTRIES[name].has_increments else []
    begun = monotonic()
    contender = open_contender(name, home, made)
    result: dict[str, Any] = {"contender": name, "workload": folder.name, "start": monotonic() - begun}

    def exported(moment: str) -> dict[str, list[str]]:
        return {
            table: [str(file) for file in contender.history(table, home / "exported" / moment / table)]
            for table in made["names"]
        }

    result["initial"] = _timed(partial(contender.initial, [initial]))
    result["histories"] = {"initial": exported("initial")}
    result["increments"] = [_timed(partial(contender.increment, [file])) for file in increments]
    if increments:
        result["histories"]["increments"] = exported("increments")
    before = _versions(contender)
    for what in then:
        files = increments[-1:] if what == "replay" else []
        result[what] = _timed(partial(contender.increment, files))
        result["histories"][what] = exported(what)
    result["new_versions"] = _versions(contender) - before
    result["extras"] = dict(contender.extras()) if increments else {}
    contender.close()
    return result


def _versions(contender: Contender) -> int:
    count = getattr(contender, "versions", None)
    return 0 if count is None else int(count())


def _peak_mb() -> int:
    """The most memory that this process has held, and its children (a JVM), in MB."""
    processes = ["self", *Path("/proc/thread-self/children").read_text().split()]
    sizes = re.findall(r"VmHWM:\s+(\d+)", "".join(Path(f"/proc/{process}/status").read_text() for process in processes))
    return sum(map(int, sizes)) // 1024


@click.command()
@click.argument("name")
@click.argument("home", type=click.Path(path_type=Path))
@click.argument("workloads", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--then", multiple=True, type=click.Choice(["replay", "idle"]), help="What is timed after the increments."
)
def main(name: str, home: Path, workloads: tuple[Path, ...], then: tuple[str, ...]) -> None:
    """Run contender NAME in folder HOME on WORKLOADS, the first of which is not timed."""
    start = None
    for number, folder in enumerate(workloads):
        place = home / f"{number}"
        place.mkdir(parents=True)
        try:
            result = contend(name, place, folder, then if number else ())
            start = start or result["start"]
            result["start"] = start
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            result = {"contender": name, "workload": folder.name, "error": f"{type(error).__name__}: {error}"}
        result["peak_mb"] = _peak_mb()
        if number or "error" in result:
            print(f"\n{json.dumps(result)}", flush=True)
        if "error" in result and not number:
            break
        for part in place.iterdir():
            if part.name not in ("exported", "catalog"):  # the session holds the first catalog
                shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink()


if __name__ == "__main__":
    main()
