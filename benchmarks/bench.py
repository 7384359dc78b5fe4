"""All contenders in turn on the same files, each in a process of its own, every result held against the answer.

`make bench`, or `python -m benchmarks.bench`. What was found is in `bench.json`; `benchmarks.report` makes tables and a
chart of it. Ends with status 1 where an answer of Tidemark's is wrong.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.contenders import ENTRIES
from benchmarks.report import COMPARED, markdown
from benchmarks.score import merged, score
from benchmarks.workload import Sizes, generate

PROJECT: Final = Path(__file__).parents[1]
RIVALS: Final = tuple(name for name, entry in ENTRIES.items() if entry.has_increments)
_WARM_NAME: Final = "warm"
_WARM: Final = Sizes(keys=20_000, batches=4, changes=4_000, kind="clean")


@dataclass(frozen=True, slots=True)
class Trial:
    """One workload, who takes it, and what is timed after its increments."""

    name: str
    sizes: Sizes
    contenders: Sequence[str] = RIVALS
    then: tuple[str, ...] = ()


_FAST: Final = ("tidemark", "merge_careful", "rebuild_spark", "rebuild_duckdb")
SMOKE: Final = (
    *(Trial(kind, Sizes(2_000, 2, 200, kind)) for kind in COMPARED),
    Trial("initial", Sizes(2_000, 0), ("tidemark", "bare_parts")),
    Trial("again", Sizes(2_000, 1, 200), ("tidemark",), ("replay", "idle")),
)
SHORT: Final = (
    Trial("clean", Sizes(50_000, 3, 5_000)),
    Trial("hostile", Sizes(10_000, 4, 2_500, "hostile")),
    Trial("truncate", Sizes(10_000, 2, 5_000, "truncate")),
    Trial("again", Sizes(50_000, 1, 5_000), ("tidemark",), ("replay", "idle")),
)
LONG: Final = (
    *(Trial(kind, Sizes(kind=kind)) for kind in COMPARED),
    Trial("keys_100k", Sizes(100_000, 3), _FAST),
    Trial("keys_1600k", Sizes(1_600_000, 3), _FAST),
    Trial("versions_20", Sizes(100_000, 3, versions=20), ("tidemark",)),
    Trial("initial_2m", Sizes(2_000_000, 0), ("tidemark", "bare_parts")),
    Trial("half_of_one_key", Sizes(batches=3, hot=0.7), ("tidemark",)),
    Trial("100k_versions_of_one_key", Sizes(1_000, 3, 50_000, hot=1.0), ("tidemark",)),
    Trial("500_columns", Sizes(5_000, 3, 1_000, columns=500), ("tidemark",)),
    Trial("1_mb_values", Sizes(200, 3, 100, note_bytes=1_000_000), ("tidemark",)),
    Trial("late", Sizes(kind="late"), ("tidemark",)),
    Trial("replay", Sizes(batches=1), ("tidemark",), ("replay",)),
    Trial("idle_10_tables", Sizes(1_000, 1, 200, tables=10), ("tidemark",), ("idle",)),
    Trial("100_tables", Sizes(200, 2, 200, tables=100), ("tidemark",)),
)
PROFILES: Final[dict[str, tuple[Trial, ...]]] = {"smoke": SMOKE, "short": SHORT, "long": LONG}


@dataclass(slots=True)
class Bench:
    """One run of a profile, in a folder of its own."""

    work: Path
    out: Path

    def run(self, trials: Sequence[Trial], contenders: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Take the trials; what each contender gave in each, as it comes.

        The sets are taken together: a contender is started, and warmed up, once for all of them.
        """
        warm = self.work / "workloads" / _WARM_NAME
        generate(warm, _WARM)
        for _, group in groupby(trials, lambda trial: "sets" if trial.name in COMPARED else trial.name):
            together = list(group)
            folders = {trial.name: self.work / "workloads" / trial.name for trial in together}
            made = {trial.name: generate(folders[trial.name], trial.sizes) for trial in together}
            for name in contenders:
                if name in together[0].contenders:
                    for trial, result in self._contend(name, [warm, *folders.values()], together[0].then).items():
                        scores = _scores(result.pop("histories", {}), folders[trial])
                        yield {**result, "scores": scores, "sizes": made[trial]}
            for folder in folders.values():
                shutil.rmtree(folder, ignore_errors=True)

    def _contend(self, name: str, workloads: Sequence[Path], then: Sequence[str]) -> dict[str, dict[str, Any]]:
        """What a contender's process told of each workload but the first."""
        trials = [folder.name for folder in workloads[1:]]
        python = PROJECT / ENTRIES[name].venv / "bin/python"
        log = self.out / "logs" / f"{trials[0]}-{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        home = self.work / "home"
        shutil.rmtree(home, ignore_errors=True)
        told: dict[str, dict[str, Any]] = {}
        why = f"there is no {ENTRIES[name].venv}"
        if python.exists():
            arguments = [str(python), "-m", "benchmarks.contend", name, str(home), *map(str, workloads)]
            with log.open("w") as said:
                ended = subprocess.run(
                    [*arguments, *(word for what in then for word in ("--then", what))],
                    cwd=PROJECT, stdout=subprocess.PIPE, stderr=said, text=True, check=False,
                )  # fmt: skip
            lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"contender"')]
            told = {line["workload"]: line for line in lines}
            why = told.get(_WARM_NAME, {}).get("error", f"ended with status {ended.returncode}; see {log.name}")
        failed = {"contender": name, "error": why}
        return {trial: told.get(trial, {**failed, "workload": trial}) for trial in trials}


def _scores(histories: Mapping[str, Mapping[str, Sequence[str]]], folder: Path) -> dict[str, Any]:
    """What each moment's histories are worth, all tables together."""
    told = {}
    for moment, tables in histories.items():
        suffix = ".initial" if moment == "initial" else ""
        told[moment] = merged(
            score(map(Path, files), folder / f"answer/{table}{suffix}.parquet", folder / f"keys/{table}.parquet")
            for table, files in tables.items()
        ).plain()
    return told


def _machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": os.cpu_count(), "memory_gib": round(memory / 2**30), "python": platform.python_version()}


def _is_right(result: Mapping[str, Any]) -> bool:
    return "error" not in result and all(one["is_right"] for one in result["scores"].values())


def clear(out: Path) -> None:
    """Make the folder, and take out what an earlier run left there. One that no run has made is refused."""
    found = out / "bench.json"
    if out.exists() and any(out.iterdir()) and not found.exists():
        raise click.UsageError(
            f"{out} has files, but no {found.name} of an earlier run. Name another folder, or empty it."
        )
    shutil.rmtree(out / "logs", ignore_errors=True)
    for file in out.glob("bench.*"):
        file.unlink()
    out.mkdir(parents=True, exist_ok=True)


@click.command()
@click.option("--profile", type=click.Choice(list(PROFILES)), default="short", show_default=True)
@click.option("--only", multiple=True, help="Contenders to run; all of them where none is named.")
@click.option("--trial", "trials", multiple=True, help="Trials to run; all of the profile where none is named.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=PROJECT / "target/bench", show_default=False
)
def main(profile: str, only: tuple[str, ...], trials: tuple[str, ...], out: Path) -> None:
    """Run a profile of the benchmark, and write what was found into a folder (`target/bench`)."""
    if unknown := {*only} - ENTRIES.keys():
        raise click.UsageError(f"There is no contender {', '.join(sorted(unknown))}; there are {', '.join(ENTRIES)}.")
    chosen = [trial for trial in PROFILES[profile] if not trials or trial.name in trials]
    if unknown := {*trials} - {trial.name for trial in chosen}:
        raise click.UsageError(f"Profile {profile} has no trial {', '.join(sorted(unknown))}.")
    contenders = only or tuple(ENTRIES)
    runs = {word for trial in chosen for name in trial.contenders if name in contenders for word in (trial.name, name)}
    if idle := {*only, *trials} - runs:
        takers = "".join(f"\n  {trial.name}: {', '.join(trial.contenders)}" for trial in chosen)
        raise click.UsageError(f"Nothing would run for {', '.join(sorted(idle))}. Trials, and who takes them:{takers}")
    clear(out)
    # Ended from outside, it takes its contender with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results: list[dict[str, Any]] = []
    found: dict[str, Any] = {
        "profile": profile,
        "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}",
        "machine": _machine(),
        "results": results,
    }

    def write() -> None:
        (out / "bench.json").write_text(json.dumps(found, indent=1))
        (out / "bench.md").write_text(markdown(found))

    write()  # before all, so that the folder is known as a run's
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as work:
        for result in Bench(Path(work), out).run(chosen, contenders):
            seconds = [round(sum(parts.values()), 1) for parts in result.get("increments", [])]
            right = {moment: f"{one['percent']:.1f} %" for moment, one in result["scores"].items()}
            said = result.get("error") or f"{seconds}, right {right}"
            click.echo(f"{result['workload']}: {result['contender']}: {said}", err=True)
            results.append(result)
            write()  # after each, so that hours of results outlive whatever ends the run
    click.echo(markdown(found))
    if not all(_is_right(result) for result in results if result["contender"] == "tidemark"):
        sys.exit("bench: an answer of Tidemark's is wrong or missing.")


if __name__ == "__main__":
    main()
