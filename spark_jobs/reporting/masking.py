"""How values that people may not see are shown: as short hashes, equal where the values are."""

from __future__ import annotations

import hashlib
import re

from pyspark.sql import Column
from pyspark.sql import functions as F

_DIGITS = 10
_SHOWN = 500
_THROWN = re.compile(r".*\b((?:\w+\.)+\w*(?:Exception|Error): .+)")
# From a quotation mark that is no apostrophe, or that of a literal (X'00'), to the next that nothing escapes; where
# there is none, to the next cause or to the end.
_QUOTED = re.compile(
    "|".join(
        rf"{begin}{mark}(?:\\.|[^{mark}\\])*?(?:{mark}|(?=\nCaused by: )|\\?\Z)"
        for begin, mark in ((r"(?<!\w)[XNEB]?", "'"), (r"(?<!\w)", '"'), ("", "`"))
    ),
    re.DOTALL,
)


def hashed(value: Column) -> Column:
    """A column's values as short hashes of their text; NULL stays NULL."""
    return F.concat(F.lit("#"), F.substring(F.sha2(value.cast("string"), 256), 1, _DIGITS))


def short_hash(value: str | bytes) -> str:
    """A value as a short hash: `#` and ten hexadecimal digits of its SHA-256."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return "#" + hashlib.sha256(data).hexdigest()[:_DIGITS]


def redacted(message: str) -> str:
    """A message of another tool without the values that it quotes."""
    return _QUOTED.sub("…", message)


def first_cause(message: str) -> str:
    """What an engine's error came from, without values: the last exception that it names, or else its first line."""
    lines = [
        line for line in redacted(message).splitlines() if line.strip() and not line.lstrip().startswith("at ")
    ] or [""]
    thrown = [found[1] for line in lines if (found := _THROWN.match(line))]
    return (thrown or lines[:1])[-1].strip()[:_SHOWN].rstrip(".")
