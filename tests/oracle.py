"""The reference history builder: the history contract as one sequential program.

It shares no code with the product and takes no batches: it sorts all records of a table, walks them once and
emits the versions. Rules (R3 to R19) are those of the history contract; MySQL stands for MariaDB too.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, TextIO, cast

type State = dict[str, Any]
type Key = tuple[Any, ...]
type Position = tuple[int, ...]
type Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Record:
    """One Kafka record as delivered."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...] = ()
