"""A source under load, made up: one PostgreSQL table of 20 columns, and the records that Debezium would write of it.

The records are JSON without schemas, in the lines that `tidemark land` takes. The same seed gives the same records.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

TOPIC = "bench.public.accounts"
START_US = 1_735_689_600_000_000  # 2025-01-01
_TIERS = ("basic", "silver", "gold", "platinum")
_CITIES = ("Aachen", "Bergen", "Cádiz", "Dublin", "Évora", "Freiburg", "Gdańsk", "Helsinki")
_OPS = ("c", "u", "d")
_WEIGHTS = (20, 70, 10)
_MOST_IN_TRANSACTION = 5


def row(key: int, version: int, at_us: int) -> dict[str, Any]:
    """A row's state: a function of its key and of how often it was changed."""
    mixed = (key * 2_654_435_761 + version * 40_503) & 0xFFFFFFFF
    return {
        "id": key,
        "account_no": f"DE{key:012d}",
        "name": f"Customer {key}",
        "email": f"customer{key}@example.org",
        "phone": f"+49 151 {key % 10_000_000:07d}",
        "street": f"Long Street {key % 500}",
        "city": _CITIES[key % len(_CITIES)],
        "postcode": f"{key % 100_000:05d}",
        "country": "DE" if key % 3 else "NO",
        "language": "de" if key % 3 else "nb",
        "tier": _TIERS[mixed % len(_TIERS)],
        "status": "active" if mixed % 10 else "blocked",
        "is_verified": mixed % 4 > 0,
        "balance": f"{mixed % 1_000_000 / 100:.2f}",
        "credit_limit": f"{(key % 50) * 100}.00",
        "score": mixed % 1000 / 8,
        "visits": version,
        "note": None if key % 5 else "has asked for paper",
        "created_at": START_US - key * 1_000_000,
        "updated_at": at_us,
    }


@dataclass(slots=True)
class Source:
    """The database: its log's position, its clock and its living rows. Records come in the order of the log.

    Attributes:
        keys: How many rows the snapshot reads.
        seed: What the stream's choices follow.
    """

    keys: int
    seed: int = 1
    _versions: dict[int, int] = field(init=False)
    _living: list[int] = field(init=False)
    _random: random.Random = field(init=False)
    _offset: int = 0
    _lsn: int = 30_000_000
    _transaction: int = 800
    _at_us: int = START_US

    def __post_init__(self) -> None:
        """Fill the table."""
        self._living = list(range(1, self.keys + 1))
        self._versions = dict.fromkeys(self._living, 0)
        self._random = random.Random(self.seed)

    def snapshot(self) -> Iterator[str]:
        """The reads of every row, all at one position."""
        last = self._living[-1]
        for key in self._living:
            where = {"snapshot": "last" if key == last else "true", "sequence": f'[null,"{self._lsn}"]'}
            yield self._record("r", key, where, None)

    def batch(self, changes: int) -> Iterator[str]:
        """The next changes of the stream, in transactions of a few: 20 % inserts, 70 % updates, 10 % deletes."""
        left = changes
        while left:
            size = min(left, self._random.randint(1, _MOST_IN_TRANSACTION))
            left -= size
            committed = self._lsn
            self._transaction += 1
            self._at_us += 2_000
            begun = self._lsn + 56
            for order in range(1, size + 1):
                self._lsn += 56
                where = {"snapshot": "false", "sequence": f'["{committed}","{self._lsn}"]'}
                transaction = {
                    "id": f"{self._transaction}:{begun}", "total_order": order, "data_collection_order": order
                }  # fmt: skip
                op = self._random.choices(_OPS, _WEIGHTS)[0] if self._living else "c"
                yield self._record(op, self._choose(op), where, transaction)

    def _choose(self, op: str) -> int:
        if op == "c":
            key = len(self._versions) + 1
            self._versions[key] = 0
            self._living.append(key)
            return key
        place = self._random.randrange(len(self._living))
        key = self._living[place]
        if op == "u":
            self._versions[key] += 1
        else:
            self._living[place] = self._living[-1]
            self._living.pop()
        return key

    def _record(self, op: str, key: int, where: dict[str, str], transaction: dict[str, Any] | None) -> str:
        offset = self._offset
        self._offset += 1
        seen_us = self._at_us + 80_000
        value = {
            "before": {"id": key} if op == "d" else None,
            "after": None if op == "d" else row(key, self._versions[key], self._at_us),
            "source": {
                "version": "3.5.0.Final", "connector": "postgresql", "name": "bench", "ts_ms": self._at_us // 1000,
                "db": "bench", "ts_us": self._at_us, "ts_ns": self._at_us * 1000, "schema": "public",
                "table": "accounts", "txId": self._transaction, "lsn": self._lsn, "xmin": None, **where,
            },
            "transaction": transaction,
            "op": op,
            "ts_ms": seen_us // 1000,
            "ts_us": seen_us,
            "ts_ns": seen_us * 1000,
        }  # fmt: skip
        return json.dumps({
            "topic": TOPIC, "partition": 0, "offset": offset, "timestamp": seen_us // 1000,
            "key": f'{{"id":{key}}}', "value": json.dumps(value, separators=(",", ":")), "headers": [],
        })  # fmt: skip
