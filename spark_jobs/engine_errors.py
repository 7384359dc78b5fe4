"""Errors of Spark, and of other tools: which they are, and how they are told, without the values that they quote."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

# What Spark raises, and what comes where its Java throws or is gone.
ENGINE_ERRORS = (PySparkException, Py4JError)
_SHOWN = 500
_UNFORESEEN = 300
# What Spark says of a statement that it can't read: it is no SQL, or names a column or a function that is not there.
OF_A_STATEMENT = re.compile("SQLSTATE: (42601|42702|42703|42883|42K09)")
# What a machine says, or a store, that can't give or take a file just now: it tells nothing of the table.
IN_THE_WAY = re.compile(
    "No space left|Disk quota exceeded|File too large|Read-only file system|Permission denied|Access ?Denied|Forbidden"
    "|Too many open files|Cannot allocate memory|OutOfMemoryError|Connection re(fused|set)|[Tt]imed out|UnknownHost"
    "|SlowDown"
)
_THROWN = re.compile(r".*(?<![\w.])((?:\w+\.)+\w*(?:Exception|Error): .+)")
# The lines in which dbt says of what kind an error is, and where it was, in front of it.
_OF_DBT = re.compile(r"\s*\w+ Error( in \w+ .*)?")
# From a quotation mark that is no apostrophe, or that of a literal (X'00'), to the next that nothing escapes; where
# there is none, to the next cause or to the end.
_QUOTED = re.compile(
    "|".join(
        rf"{begin}{mark}(?:\\.|[^{mark}\\])*?(?:{mark}|(?=\nCaused by: )|\\?\Z)"
        for begin, mark in ((r"(?<!\w)[XNEB]?", "'"), (r"(?<!\w)", '"'), ("", "`"))
    ),
    re.DOTALL,
)


# A sentence of Spark's about a value (SQLSTATE's class 22), which says numbers and whole records without quoting them.
_OF_A_VALUE = re.compile(r"(\[[A-Z][\w.]*\])(?:(?!SQLSTATE: ).)*(SQLSTATE: 22\w{3})", re.DOTALL)


def redacted(message: str) -> str:
    """A message of another tool without the values that it quotes, or that Spark writes into it as they are."""
    return _OF_A_VALUE.sub(r"\1 … \2", _QUOTED.sub("…", message))


def unforeseen(error: BaseException) -> str:
    """An error that no one foresaw, in one line and without the values that its message may quote."""
    text = str(error)
    is_java = isinstance(error, ENGINE_ERRORS)
    said = first_cause(text) if is_java else redacted((text.splitlines() or [""])[0])[:_UNFORESEEN]
    return f"{type(error).__name__}: {said}"


def first_cause(message: str) -> str:
    """What an engine's error came from, without values.

    The last exception that it names, before others one of what was in the way; where it names none, its first line.
    """
    lines = [
        line for line in redacted(message).splitlines() if line.strip() and not line.lstrip().startswith("at ")
    ] or [""]
    while len(lines) > 1 and _OF_DBT.fullmatch(lines[0]):
        del lines[0]
    thrown = [found[1] for line in lines if (found := _THROWN.match(line))]
    in_the_way = [one for one in thrown if IN_THE_WAY.search(one)]
    return (in_the_way or thrown or lines[:1])[-1].strip()[:_SHOWN].rstrip(".")
