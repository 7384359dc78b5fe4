"""The report as a page: one file, no network, everything from events escaped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from spark_jobs.texts import quantity, visible

_TEMPLATE = "report.html.j2"


def page(document: Mapping[str, Any]) -> str:
    """The page of a report's data."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(visible=visible, duration=duration, compact=compact, quantity=quantity)
    return environment.get_template(_TEMPLATE).render(r=document)


def compact(number: int) -> str:
    """A number in three digits, with a letter for its thousands, where it has more than four."""
    if abs(number) < 10_000:
        return f"{number:,}"
    for size, letter in ((1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G")):
        said = f"{number / size:.3g}"
        if abs(float(said)) < 1_000:
            return f"{said} {letter}"
    return f"{number / 1_000_000_000:,.0f} G"


def duration(milliseconds: float) -> str:
    """Milliseconds in the unit that people would say."""
    for limit, size, unit in (
        (1_000, 1, "ms"),
        (60_000, 1_000, "s"),
        (3_600_000, 60_000, "min"),
        (172_800_000, 3_600_000, "h"),
    ):
        said = f"{milliseconds / size:.3g}"
        if abs(float(said)) * size < limit:
            return f"{said} {unit}"
    return f"{milliseconds / 86_400_000:,.0f} d"
