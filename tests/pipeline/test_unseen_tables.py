"""Tables that this repository has never seen need no code: names, types and keys are drawn at random.

Each run draws anew; TIDEMARK_SEED repeats a run that failed.
"""

from __future__ import annotations

import base64
import os
import random
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.declarations import captured_tables, run_dbt
from spark_jobs.listing import listed
from spark_jobs.places import Places
from spark_jobs.scaffolding.write import LAWS
from tests import oracle
from tests.gold import expected_versions, versions_of
from tests.projects import empty_project, land, run_models
from tests.source import Column, Source, Table

pytestmark = pytest.mark.long

SEED = int(os.environ.get("TIDEMARK_SEED") or secrets.randbits(32))
DRAW = random.Random(SEED)

NAMES = [
    "Odd Name", "select", "a.b", "ü", "UPPER", "back`tick", 'quo"te', "it's", "日本", "x{y}", "per%cent", "semi;colon",
    "n" * 60, "_", "1st", "offset", "valid_from", "key", "before", "op", "dash-ed", "two  spaces", "{{ curly }}",
    "change_id", "state", "row", "stored", "#tag", "topic", "server", "valid_to", "closed_by", "next_from", "partition",
]  # fmt: skip
DEBEZIUM, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."


def unscaled(draw: random.Random) -> str:
    number = draw.choice([0, 1, -1, 127, 128, -128, -129, draw.randint(-(10**11), 10**11)])
    return base64.b64encode(number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)).decode()


TEXTS = [
    "",
    " ",
    "a",
    "A",
    "null",
    "it's",
    'say "so"',
    "back\\slash",
    "line\nbreak",
    "ü",
    "日本",
    "😀",
    "0",
    "-",
    "{}",
    "1e5",
]
KINDS: list[tuple[dict[str, Any], Callable[[random.Random], Any]]] = [
    ({"type": "string"}, lambda draw: draw.choice(TEXTS)),
    ({"type": "boolean"}, lambda draw: draw.random() < 0.5),
    ({"type": "int16"}, lambda draw: draw.choice([0, -(2**15), 2**15 - 1])),
    ({"type": "int32"}, lambda draw: draw.randint(-3, 3)),
    ({"type": "int64"}, lambda draw: draw.choice([0, 2**63 - 1, -(2**63), 2**53 + 1])),
    ({"type": "float"}, lambda draw: draw.choice([0.0, -1.5, 0.25])),
    ({"type": "double"}, lambda draw: draw.choice([0.0, 0.1, -1e300, 1e-5])),
    ({"type": "bytes"}, lambda draw: base64.b64encode(draw.randbytes(draw.randint(0, 3))).decode()),
    (
        {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "3", "connect.decimal.precision": "20"}},
        unscaled,
    ),
    ({"type": "int32", "name": DEBEZIUM + "Date"}, lambda draw: draw.choice([0, -1, 20_000, -700_000])),
    ({"type": "int64", "name": DEBEZIUM + "MicroTime"}, lambda draw: draw.choice([0, 86_399_999_999, 3_600_000_001])),
    ({"type": "int64", "name": DEBEZIUM + "Timestamp"}, lambda draw: draw.choice([0, -1, 1_700_000_000_123])),
    ({"type": "int64", "name": DEBEZIUM + "MicroTimestamp"}, lambda draw: draw.choice([0, -1, 1_700_000_000_123_456])),
    (
        {"type": "string", "name": DEBEZIUM + "ZonedTimestamp"},
        lambda draw: draw.choice(["2024-01-01T00:00:00.000000Z", "1969-12-31T23:59:59.999999Z"]),
    ),
    (
        {"type": "string", "name": "io.debezium.data.Uuid"},
        lambda draw: f"00000000-0000-0000-0000-{draw.randint(0, 3):012}",
    ),
    ({"type": "string", "name": "io.debezium.data.Json"}, lambda draw: draw.choice(['{"a":1}', "[]", "null", '"x"'])),
]  # fmt: skip
KEY_KINDS = [0, 2, 3, 4, 7, 8, 9, 12, 14]


class Drawn:
    """A table drawn at random, and statements on it."""

    def __init__(self, source: Source, name: str, draw: random.Random) -> None:
        self.source, self.draw = source, draw
        # `action` has been a name of ours, in a query that sources' columns went through.
        names = [*draw.sample(NAMES, draw.randint(2, 7)), "action"] + ["Twin", "twin"] * (draw.random() < 0.5)
        key_size = draw.randint(1, min(3, len(names) - 1))
        chosen = [draw.choice(KEY_KINDS) if i < key_size else draw.randrange(len(KINDS)) for i in range(len(names))]
        columns = [
            Column(column, KINDS[kind][0], is_large=kind == 0 and i >= key_size)
            for i, (column, kind) in enumerate(zip(names, chosen, strict=True))
        ]
        self.values = {column.name: KINDS[kind][1] for column, kind in zip(columns, chosen, strict=True)}
        key = tuple(names[:key_size])
        draw.shuffle(columns)
        self.table = Table(name, columns, key, is_full=draw.random() < 0.5)

    def row(self) -> dict[str, Any]:
        """A row with values drawn anew."""
        key = self.table.key
        return {
            column.name: None
            if column.name not in key and self.draw.random() < 0.2
            else self.values[column.name](self.draw)
            for column in self.table.columns
        }

    def statement(self) -> None:
        """One statement, whatever the table's rows allow."""
        rows = list(self.table.rows.values())
        fresh = self.row()
        is_new = self.table.key_of(fresh) not in self.table.rows
        chosen = self.draw.random()
        if not rows or (chosen < 0.3 and is_new):
            if is_new:
                self.source.insert(self.table, fresh)
        elif chosen < 0.7:
            old = self.draw.choice(rows)
            column = self.draw.choice(
                [column.name for column in self.table.columns if column.name not in self.table.key]
            )
            self.source.update(self.table, old, {column: fresh[column]})
        elif chosen < 0.8 and is_new:
            self.source.update(self.table, self.draw.choice(rows), {name: fresh[name] for name in self.table.key})
        elif chosen < 0.97:
            self.source.delete(self.table, self.draw.choice(rows))
        elif chosen < 0.985:
            self.source.truncate(self.table)
        else:
            self.source.snapshot(self.table)


def drawn_source(prefix: str, draw: random.Random) -> Source:
    source = Source(prefix, has_tombstones=draw.random() < 0.5)
    tables = [Drawn(source, name, draw) for name in [*draw.sample(NAMES, 2), "Case", "case"]]
    for _ in range(80):
        with source.commit():
            for _ in range(draw.randint(1, 4)):
                draw.choice(tables).statement()
        if draw.random() < 0.05:
            source.tick(-3_000_000)
        if draw.random() < 0.08:
            source.redeliver(draw.randint(1, 10))
    return source


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Places, Source]:
    home = tmp_path_factory.mktemp("unseen")
    places = Places.of(empty_project(home / "project"))
    source = drawn_source(f"s{SEED}", DRAW)
    print(f"TIDEMARK_SEED={SEED}")
    half = len(source.records) // 2
    for number, records in enumerate([source.records[:half], source.records[half:]]):
        land(spark, places, f"unseen-{number}", source.lines(records), {source.prefix}, tested=True)
        run_models(places, accounting=True)
    return places, source


def test_a_table_never_seen_before_has_the_oracles_history(
    spark: SparkSession, built: tuple[Places, Source], tmp_path: Path
) -> None:
    places, source = built
    file = tmp_path / "records.jsonl"
    file.write_text(source.lines())
    names = {one["changes"]["relation"]: one["source"]["table"] for one in listed(spark, places)}
    tables = {names[table.changes.relation]: table for table in captured_tables(places)}
    expected = oracle.build(oracle.read_records(file))
    assert set(tables) == {name.partition(".")[2] for name in expected}, f"TIDEMARK_SEED={SEED}"

    for name, history in expected.items():
        table = tables[name.partition(".")[2]]
        key = [column["field"] for column in table.columns if column["name"] in table.key]
        held, wanted = versions_of(table), expected_versions(history, key)
        assert held.keys() == wanted.keys(), f"TIDEMARK_SEED={SEED}, table {name!r}"
        for row, versions in wanted.items():
            where = f"TIDEMARK_SEED={SEED}, table {name!r}, key {row!r}"
            assert held[row] == versions, (
                f"{where}: {[pair for pair in zip(held[row], versions, strict=False) if pair[0] != pair[1]][:1]}"
            )


def test_the_laws_of_a_table_never_seen_before_can_be_asked(built: tuple[Places, Source]) -> None:
    places, _ = built
    result = run_dbt(places, ["--quiet", "test", "--exclude", "test_type:unit"])
    broken = [(one.node.name, one.message) for one in result.result or [] if one.status not in ("pass", "success")]
    assert (result.success, broken) == (True, []), f"TIDEMARK_SEED={SEED}"
    of_models = [one.node for one in result.result if one.node.attached_node]
    asked = {(node.test_metadata.name, node.attached_node.rpartition(".")[2]) for node in of_models}
    histories = [table.history.name for table in captured_tables(places) if table.history is not None]
    assert {(law, history) for law in LAWS for history in histories} - asked == set() != asked
