"""How values that people may not see are shown: as short hashes, equal where the values are."""

from __future__ import annotations

import hashlib
import re

from pyspark.sql import Column
from pyspark.sql import functions as F

_DIGITS = 10
_SHOWN = 500
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


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
    """What an engine's error came from, without values: the last cause that it lists, or else its first line."""
    lines = [line for line in message.strip().splitlines() if line] or [""]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return redacted((causes or lines[:1])[-1].removeprefix("Caused by: ")[:_SHOWN]).rstrip(".")
