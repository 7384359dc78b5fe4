"""The chart of a benchmark: seconds and correctness beside each other. Runs in .venv-bench."""

from __future__ import annotations

import json
from pathlib import Path

import click
import matplotlib as mpl
from matplotlib import pyplot

from benchmarks.contenders import ENTRIES
from benchmarks.report import COMPARED, Found

_OWN, _OTHER = "#0b6e99", "#b8c4cc"
_SETS = dict(zip(COMPARED, ("#7fbf7b", "#e0a030", "#8c6bb1"), strict=True))


def draw(found: Found, path: Path) -> None:
    """Bars of an increment's seconds on the left, shares of right keys on the right; one row a contender."""
    taken = {name: found.increment("clean", name) for name in found.contenders}
    increments = {name: one for name, one in taken.items() if one is not None}
    if not increments:
        raise click.ClickException("No contender has an increment of the clean set: there is nothing to draw.")
    names = sorted(increments, key=lambda name: -increments[name])
    # The same figures give the same file, with its words as text.
    mpl.rcParams.update({"svg.hashsalt": "tidemark", "svg.fonttype": "none"})
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(11, 0.9 + 0.55 * len(names)), sharey=True, layout="constrained"
    )
    seconds = [increments[name] for name in names]
    left.barh(range(len(names)), seconds, color=[_OWN if name == "tidemark" else _OTHER for name in names])
    own = increments.get("tidemark")
    for number, one in enumerate(seconds):
        ratio = f"  (×{one / own:.1f})" if own else ""
        left.text(one, number, f" {one:.1f} s{ratio}", va="center", fontsize=9)
    left.set_yticks(range(len(names)), [ENTRIES[name].title for name in names])
    left.set_xlim(0, max(seconds) * 1.3)
    sizes = found.sizes("clean")
    left.set_title(f"seconds for {sizes['changes']:,} changes into {sizes['keys']:,} keys (median)", fontsize=10)
    for number, (trial, color) in enumerate(_SETS.items()):
        # What could not be run has neither bar nor number.
        shares = {
            place + (1 - number) * 0.27: share
            for place, name in enumerate(names)
            if (share := found.share(trial, name)) is not None
        }
        right.barh(list(shares), list(shares.values()), height=0.25, color=color, label=trial)
        for place, share in shares.items():
            right.text(share, place, f" {share:.1f}", va="center", fontsize=7)
    right.set_xlim(0, 125)
    right.set_title("right at every instant, % of the keys that changed", fontsize=10)
    figure.legend(loc="outside lower right", ncols=3, fontsize=8, frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.set_xticks([])
    figure.savefig(path, metadata={"Date": None})


@click.command()
@click.argument("found", type=click.Path(path_type=Path, exists=True))
@click.argument("chart", type=click.Path(path_type=Path))
def main(found: Path, chart: Path) -> None:
    """Draw what the file FOUND holds, `bench.json`, into the file CHART."""
    draw(Found(json.loads(found.read_text())), chart)


if __name__ == "__main__":
    main()
