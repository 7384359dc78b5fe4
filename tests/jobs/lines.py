"""Lines of record files, with sane defaults: a test shows only what it is about."""

from __future__ import annotations

import json
from typing import Any

TOPIC = "bad.public.people"


def envelope(after: dict[str, Any] | None, *, op: str = "c", at: int = 1_000, **own: Any) -> dict[str, Any]:
    """A value as a PostgreSQL connector writes it with schemas off."""
    source = {
        "connector": "postgresql", "name": "bad", "db": "app", "schema": "public", "table": "people",
        "ts_ms": 1_700_000_000_000 + at, "lsn": at, "txId": at, "sequence": json.dumps([None, str(at)]),
        "snapshot": "false", "version": "2.5.4.Final",
    }  # fmt: skip
    return {"before": None, "after": after, "source": source, "op": op, "ts_ms": 1_700_000_000_500 + at} | own


def line(offset: int, key: Any, value: Any, **own: Any) -> str:
    """A line of a record file; a key or value that is no text is written as JSON."""
    record = {"topic": TOPIC, "partition": 0, "offset": offset, "timestamp": None, "headers": []}
    return json.dumps(record | {"key": text(key), "value": text(value)} | own)


def text(part: Any) -> str | None:
    """A key or value as its record has it."""
    return part if part is None or isinstance(part, str) else json.dumps(part)
