"""Errors of Spark, and of other tools: which they are, and how they are told, without the values that they quote."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

# What Spark raises, and what comes where its Java throws or is gone.
ENGINE_ERRORS = (PySparkException, Py4JError)
_SHOWN = 500
_THROWN = re.compile(r".*\b((?:\w+\.)+\w*(?:Exception|Error): .+)")
# The line in which dbt says where an error was, in front of it.
_OF_DBT = re.compile(r"\s*\w+ Error in \w+ ")
# From a quotation mark that is no apostrophe, or that of a literal (X'00'), to the next that nothing escapes; where
# there is none, to the next cause or to the end.
_QUOTED = re.compile(
    "|".join(
        rf"{begin}{mark}(?:\\.|[^{mark}\\])*?(?:{mark}|(?=\nCaused by: )|\\?\Z)"
        for begin, mark in ((r"(?<!\w)[XNEB]?", "'"), (r"(?<!\w)", '"'), ("", "`"))
    ),
    re.DOTALL,
)


def redacted(message: str) -> str:
    """A message of another tool without the values that it quotes."""
    return _QUOTED.sub("…", message)


def first_cause(message: str) -> str:
    """What an engine's error came from, without values: the last exception that it names, or else its first line."""
    lines = [
        line for line in redacted(message).splitlines() if line.strip() and not line.lstrip().startswith("at ")
    ] or [""]
    if len(lines) > 1 and _OF_DBT.match(lines[0]):
        del lines[0]
    thrown = [found[1] for line in lines if (found := _THROWN.match(line))]
    return (thrown or lines[:1])[-1].strip()[:_SHOWN].rstrip(".")
