"""How values that people may not see are shown: as short hashes, equal where the values are."""

from __future__ import annotations

import hashlib

from pyspark.sql import Column
from pyspark.sql import functions as F

_DIGITS = 10


def hashed(value: Column) -> Column:
    """A column's values as short hashes of their text; NULL stays NULL."""
    return F.concat(F.lit("#"), F.substring(F.sha2(value.cast("string"), 256), 1, _DIGITS))


def short_hash(value: str | bytes) -> str:
    """A value as a short hash: `#` and ten hexadecimal digits of its SHA-256."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return "#" + hashlib.sha256(data).hexdigest()[:_DIGITS]
