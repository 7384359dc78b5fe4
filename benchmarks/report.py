"""What a benchmark found, as tables in Markdown; `benchmarks.chart` draws it.

Seconds are of landing or parsing up to the history, in a warm process. A share is that of the keys that the stream
changed whose history is right at every instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from benchmarks.contenders import ENTRIES
from benchmarks.workload import HAZARDS

# The sets that all contenders take; of the chart, too.
COMPARED: Final = ("clean", "hostile", "truncate")
Result = Mapping[str, Any]


class Found:
    """The results of a run, by trial and contender."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.found = found
        self.results: dict[tuple[str, str], Result] = {
            (result["workload"], result["contender"]): result for result in found["results"]
        }

    def sizes(self, trial: str) -> Mapping[str, Any]:
        """What `workload.json` said of a trial that was taken."""
        sizes: Mapping[str, Any] = next(result["sizes"] for (name, _), result in self.results.items() if name == trial)
        return sizes

    @property
    def contenders(self) -> list[str]:
        """Those that took part in the sets, in the order of the list."""
        took = {contender for trial, contender in self.results if trial in COMPARED}
        return [name for name in ENTRIES if name in took]

    def initial(self, trial: str, contender: str = "tidemark") -> float | None:
        """Seconds of the initial load; None where there are none."""
        result = self.results.get((trial, contender), {})
        return sum(result["initial"].values()) if "initial" in result else None

    def increments(self, trial: str, contender: str = "tidemark") -> list[float]:
        """Seconds of each increment."""
        return [sum(parts.values()) for parts in self.results.get((trial, contender), {}).get("increments", [])]

    def increment(self, trial: str, contender: str = "tidemark") -> float | None:
        """Seconds of an increment: the median."""
        seconds = self.increments(trial, contender)
        return median(seconds) if seconds else None

    def after(self, trial: str, what: str) -> float | None:
        """Seconds of what followed the increments of Tidemark's."""
        parts = self.results.get((trial, "tidemark"), {}).get(what)
        return sum(parts.values()) if parts is not None else None

    def share(self, trial: str, contender: str) -> float | None:
        """Percent of the changed keys that are right at the end."""
        scores = self.results.get((trial, contender), {}).get("scores", {})
        return scores["increments"]["percent"] if "increments" in scores else None

    def overlaps(self, contender: str) -> int:
        """Versions that overlap another, in all sets."""
        scores = (self.results.get((trial, contender), {}).get("scores", {}) for trial in COMPARED)
        return sum(one["overlaps"] for score in scores for one in score.values())


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio of one run, with what it must not pass, if anything, and what it aims at."""

    what: str
    must: float | None
    aim: float
    value: float | None

    @property
    def verdict(self) -> str:
        """What is to be said of it."""
        if self.value is None:
            return "no figures"
        if self.value <= self.aim:
            return "aim"
        return "aim missed" if self.must is None else "holds" if self.value <= self.must else "**missed**"


def bars(found: Found) -> list[Bar]:
    """The bars that the run has figures for."""

    def fastest(of: Callable[[str, str], float | None]) -> float | None:
        seconds = [of("clean", name) for name in ("merge_careful", "rebuild_spark")]
        return min((one for one in seconds if one is not None), default=None)

    def each(seconds: float | None, trial: str) -> float | None:
        return seconds / found.sizes(trial)["tables"] if seconds is not None else None

    applied = next((trial for trial in ("replay", "again") if found.increment(trial) is not None), "")
    listed = [
        Bar("increment, of the faster of careful MERGE and Spark rebuild", 1, 0.5,
            _ratio(found.increment("clean"), fastest(found.increment))),
        Bar("increment, of AUTO CDC's", None, 0.125,
            _ratio(found.increment("clean"), found.increment("clean", "auto_cdc"))),
        Bar("growth of the increment, 100,000 to 1,600,000 keys", 1.5, 1.2,
            _ratio(found.increment("keys_1600k"), found.increment("keys_100k"))),
        Bar("growth of the increment, 1 to 20 stored versions of a key", 1.2, 1.05,
            _ratio(found.increment("versions_20"), found.increment("keys_100k"))),
        Bar("initial load, of Spark rebuild's", 1, 0.6,
            _ratio(found.initial("clean"), found.initial("clean", "rebuild_spark"))),
        Bar("initial load of 2,000,000, of its bare parts", 1.5, 1.1,
            _ratio(found.initial("initial_2m"), found.initial("initial_2m", "bare_parts"))),
        Bar("nothing new, seconds a table of ten", 0.5, 0.1,
            each(found.after("idle_10_tables", "idle"), "idle_10_tables")),
        Bar("100 tables of 200 changes, seconds a table", 3, 1, each(found.increment("100_tables"), "100_tables")),
        Bar("1 % late, of the increment in order", 2, 1.3, _ratio(found.increment("late"), found.increment("clean"))),
        Bar("replay of an applied batch, of applying it", 0.5, 0.1,
            _ratio(found.after(applied, "replay"), found.increment(applied))),
    ]  # fmt: skip
    return [bar for bar in listed if bar.value is not None]


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def markdown(told: Mapping[str, Any]) -> str:
    """Every table of a run."""
    found = Found(told)
    machine = told["machine"]
    parts = [
        f"Profile {told['profile']}, {told['at']}, {machine['cores']} cores, {machine['memory_gib']} GiB.",
        *_sets(found),
        *_hazards(found),
        *_bars(found),
        *_trials(found),
        *_stages(found),
        *_errors(found),
    ]
    return "\n\n".join(parts) + "\n"


def _sets(found: Found) -> Iterable[str]:
    own = found.increment("clean")
    rows = []
    for name in found.contenders:
        result = found.results.get(("clean", name), {})
        seconds = found.increments("clean", name)
        extras = result.get("extras", {})
        rows.append([
            ENTRIES[name].title,
            _number(result.get("start")), _number(found.initial("clean", name)),
            _number(found.increment("clean", name)), _number(min(seconds, default=None)),
            _number(_ratio(found.increment("clean", name), own), "×{:.2f}"),
            " / ".join(_number(found.share(trial, name)) for trial in COMPARED),
            str(found.overlaps(name)),
            _number(extras.get("dbt test")), _number(extras.get("check and report")),
            _number(result.get("peak_mb"), "{:.0f}"),
        ])  # fmt: skip
    head = [
        "contender", "start s", "initial s", "increment s", "best s", "of Tidemark's",
        "right %: clean / hostile / truncate", "overlaps", "dbt test s", "check, report s", "peak MB",
    ]  # fmt: skip
    return [_table(head, rows)] if rows else []


def _hazards(found: Found) -> Iterable[str]:
    rows = []
    for name in found.contenders:
        scores = found.results.get(("hostile", name), {}).get("scores", {})
        if "increments" in scores:
            hazards = scores["increments"]["hazards"]
            rows.append([ENTRIES[name].title, *(_percent(hazards[hazard]["alone"]) for hazard in HAZARDS)])
    if not rows:
        return []
    counts = found.sizes("hostile")["hazards"]
    rows.append(["(how often)", *(str(counts[hazard]) for hazard in HAZARDS)])
    return ["Right in percent of the keys that met one hazard alone:", _table(["contender", *HAZARDS], rows)]


def _percent(share: Mapping[str, int]) -> str:
    return f"{100 * share['right'] / share['keys']:.1f}" if share["keys"] else "–"


def _bars(found: Found) -> Iterable[str]:
    rows = [
        [bar.what, _number(bar.must, "{:g}"), f"{bar.aim:g}", _number(bar.value, "{:.2f}"), bar.verdict]
        for bar in bars(found)
    ]
    return [_table(["bar", "must", "aim", "is", ""], rows)] if rows else []


def _trials(found: Found) -> Iterable[str]:
    """What isn't in the table of the sets: other sizes, and what follows increments."""
    rows = []
    for (trial, name), result in found.results.items():
        if trial in COMPARED or "error" in result:
            continue
        after = ", ".join(f"{what} {sum(result[what].values()):.1f}" for what in ("replay", "idle") if what in result)
        rows.append([
            trial, ENTRIES[name].title, _number(found.initial(trial, name)), _number(found.increment(trial, name)),
            after, "yes" if all(one["is_right"] for one in result["scores"].values()) else "**no**",
            _number(result["peak_mb"], "{:.0f}"),
        ])  # fmt: skip
    head = ["trial", "contender", "initial s", "increment s", "then s", "right", "peak MB"]
    return [_table(head, rows)] if rows else []


def _stages(found: Found) -> Iterable[str]:
    """What Tidemark's seconds are made of."""
    rows = []
    for (trial, name), result in found.results.items():
        if name == "tidemark" and "error" not in result:
            loads = [("initial", [result["initial"]]), ("increment", result["increments"])]
            loads += [(what, [result[what]]) for what in ("replay", "idle") if what in result]
            for load, parts in loads:
                middle = {stage: median([one.get(stage, 0.0) for one in parts]) for stage in ("land", "run") if parts}
                rows.append([trial, load, _number(middle.get("land")), _number(middle.get("run"))])
    return ["Where Tidemark's seconds go:", _table(["trial", "", "land s", "dbt run s"], rows)] if rows else []


def _errors(found: Found) -> Iterable[str]:
    rows = [
        [trial, ENTRIES[name].title, str(result["error"]).splitlines()[0][:300].replace("|", "/")]
        for (trial, name), result in found.results.items()
        if "error" in result
    ]
    return ["Could not be run:", _table(["trial", "contender", "error"], rows)] if rows else []


def _number(value: float | None, form: str = "{:.1f}") -> str:
    return "–" if value is None else form.format(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
