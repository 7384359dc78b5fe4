"""MongoDB, from change streams to gold: documents, described updates, keys of every type, and how each mode is told.

What gold has to come to is written by hand beside each life, or is what `Collection`, a database in a few lines, held.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from expectations.rules.history import _arguments
from spark_jobs.declarations import CapturedTable, captured_tables, run_dbt
from spark_jobs.macro_queries import query
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.quarantine import held_entries
from spark_jobs.scaffolding.tables import SeenColumn, SeenTable, as_declared
from tests.expectations.lakehouses import Story
from tests.projects import PROJECT, account_of, empty_project, land, microseconds, renamed, rows_of, run_models

CAPTURES = Path(__file__).parents[1] / "captures"
Row = dict[str, Any]
Document = dict[str, Any]

MODES = {
    "change_streams": (False, False),
    "change_streams_update_full": (True, False),
    "change_streams_with_pre_image": (False, True),
    "change_streams_update_full_with_pre_image": (True, True),
}
STARTED = 1_700_000_000
LSID = '{"id": {"$binary": "ERERESIiMzNERFVVVVVVVQ==", "$type": "04"}}'
# A session of the server's own for what one of a client's writes needs: its transactions are numbered from 0, too.
INTERNAL = (
    '{"id": {"$binary": "ERERESIiMzNERFVVVVVVVQ==", "$type": "04"}, "uid": {"$binary": "47DEQpj8HBSa", "$type": "00"},'
    ' "txnNumber": {"$numberLong": "%d"}, "txnUUID": {"$binary": "AAAAAAAAQACAAAAAAAAA%dA==", "$type": "04"}}'
)
# As extended JSON, and as the key of a record.
IDS: dict[str, Any] = {
    "1": 1,
    "9007199254740993": {"$numberLong": "9007199254740993"},
    "12.5": 12.5,
    '"1"': "1",
    '"a \\"b\\" \u00e9"': 'a "b" \u00e9',
    '{"$oid": "596e275826f08b2730779e1f"}': {"$oid": "596e275826f08b2730779e1f"},
    '{"$binary": {"base64": "a2Fma2E=", "subType": "00"}}': {"$binary": "a2Fma2E=", "$type": "00"},
    '{"$date": "2024-03-01T10:00:00Z"}': {"$date": 1709287200000},
    '{"hi": "kafka", "nums": [10.0, 100.0, 1000.0]}': {"hi": "kafka", "nums": [10.0, 100.0, 1000.0]},
    "true": True,
}
DECLARED_COLUMNS = {
    "id": "string", "status": "string", "qty": "int", "tags": "array<string>", "whole": ("string", "$"),
}  # fmt: skip


def record(topic: str, offset: int, key: str, value: Row | None) -> str:
    """One line of a record file."""
    record = {"topic": topic, "partition": 0, "offset": offset, "timestamp": None, "headers": []}
    return json.dumps(record | {"key": json.dumps({"id": key}), "value": value and json.dumps(value)}) + "\n"


def event(name: str, second: int, op: str, **fields: Any) -> Row:
    """A value as the connector writes it with schemas off; documents are texts."""
    source = {
        "version": "2.5.4.Final", "connector": "mongodb", "name": name, "ts_ms": (STARTED + second) * 1000,
        "snapshot": "false", "db": "shop", "rs": "rs0", "collection": "t", "ord": 1, "lsid": None, "txnNumber": None,
    }  # fmt: skip
    source |= fields.pop("source", {})
    value = {
        "before": None, "after": None, "updateDescription": None, "source": source, "op": op,
        "ts_ms": (STARTED + second) * 1000 + 250, "transaction": None,
    }  # fmt: skip
    for part in ("before", "after"):
        if fields.get(part) is not None:
            fields[part] = json.dumps(fields[part])
    return value | fields


def described(
    updated: Document | None = None, removed: list[str] | None = None, cut: Mapping[str, int] | None = None
) -> Row:
    """An `updateDescription`."""
    return {
        "updatedFields": None if updated is None else json.dumps(updated),
        "removedFields": removed,
        "truncatedArrays": [{"field": path, "size": size} for path, size in (cut or {}).items()] or None,
    }


@dataclass
class Collection:
    """A database of one collection: it holds documents, tells of what is done to them, and remembers what they were."""

    name: str
    lines: list[str] = field(default_factory=list)
    truth: dict[str, list[tuple[int, str, Document | None]]] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    waiting: list[tuple[str, Row]] = field(default_factory=list)
    second: int = 0

    def tell(self, key: str, op: str, document: Document | None, **fields: Any) -> None:
        """One operation: its event waits for the lookups of its burst."""
        self.second += 1
        if document is None:
            del self.documents[key]
        else:
            self.documents[key] = document
        self.truth.setdefault(key, []).append((self.second, op, copy.deepcopy(document)))
        self.waiting.append((key, event(self.name, self.second, op, **fields)))

    def put(self, key: str, document: Document, mode: str) -> None:
        """An insert, or a replace where there is one."""
        before = self.documents.get(key)
        has_before = before is not None and MODES[mode][1]
        self.tell(key, "u" if before else "c", document, after=document, before=before if has_before else None)

    def delete(self, key: str, mode: str) -> None:
        """A delete, whose event may hold the document."""
        self.tell(key, "d", None, before=self.documents[key] if MODES[mode][1] else None)

    def update(self, key: str, mode: str, updated: Document, removed: list[str], cut: dict[str, int]) -> None:
        """An update by paths."""
        before, after = self.documents[key], copy.deepcopy(self.documents[key])
        for path, size in cut.items():
            place, name = within(after, path)
            place[name] = place[name][:size]
        for path in removed:
            place, name = within(after, path)
            del place[name]
        for path, value in updated.items():
            place, name = within(after, path)
            if isinstance(place, list):
                place += [None] * (name + 1 - len(place))
            place[name] = value
        update = described(updated or None, removed or None, cut)
        lookup = {"lookup": True} if MODES[mode][0] else {}
        self.tell(key, "u", after, before=before if MODES[mode][1] else None, updateDescription=update, **lookup)

    def flush(self) -> None:
        """Events leave now: what is looked up is what is there now, or nothing."""
        for key, value in self.waiting:
            if value.pop("lookup", False):
                value["after"] = json.dumps(self.documents[key]) if key in self.documents else None
            self.lines.append(record(f"{self.name}.shop.t", len(self.lines), key, value))
        self.waiting.clear()


def within(document: Any, path: str) -> tuple[Any, Any]:
    """What holds the end of a path, and its name or index there."""
    *steps, last = path.split(".")
    for step in steps:
        document = document[int(step) if isinstance(document, list) else step]
    return document, int(last) if isinstance(document, list) else last


def some_value(draw: random.Random) -> Any:
    return draw.choice([
        draw.randint(-5, 5), draw.random(), "", 'quotes " and \\ and é', None, True, [], {}, [1, [2, {"x": 3}]],
        {"$numberDecimal": "10.50"}, {"$date": 1709287200123}, {"b": {"c": [1, 2, 3]}, "d": draw.randint(0, 9)},
    ])  # fmt: skip


def paths(document: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Each path of a document and what is there, wrappers of extended JSON as values."""
    items = enumerate(document) if isinstance(document, list) else document.items()
    found = []
    for name, value in items:
        found.append((f"{prefix}{name}", value))
        if isinstance(value, list | dict) and not any(str(one).startswith("$") for one in value):
            found += paths(value, f"{prefix}{name}.")
    return found


def random_update(draw: random.Random, document: Document) -> tuple[Document, list[str], dict[str, int]]:
    """An update of paths that don't meet."""
    known = [(path, value) for path, value in paths(document) if not path.startswith("_id")]
    draw.shuffle(known)
    updated: Document = {}
    removed: list[str] = []
    cut: dict[str, int] = {}
    met: list[str] = []
    for path, value in known[:3]:
        if any(f"{one}.".startswith(f"{path}.") or f"{path}.".startswith(f"{one}.") for one in met):
            continue
        met.append(path)
        in_array = isinstance(within(document, path)[0], list)
        deed = draw.choice(["set", "remove", "cut", "append", "add"])
        if deed == "cut" and isinstance(value, list) and value:
            cut[path] = draw.randrange(len(value))
        elif deed == "append" and isinstance(value, list):
            updated |= {f"{path}.{len(value) + more}": some_value(draw) for more in range(draw.choice([1, 2, 12]))}
        elif deed == "add" and isinstance(value, dict) and not any(name.startswith("$") for name in value):
            updated[f"{path}.new field"] = some_value(draw)
        elif deed == "remove" and not in_array:
            removed.append(path)
        else:
            updated[path] = some_value(draw)
    free = [name for name in ("n", "Näme", 'q"uote', "0") if not any(f"{one}.".startswith(f"{name}.") for one in met)]
    if free and (not met or draw.random() < 0.2):
        updated[draw.choice(free)] = some_value(draw)
    return updated, removed, cut


def lives(name: str, seed: int) -> Collection:
    """Documents of every key, each in every mode, in random lives."""
    draw, collection = random.Random(seed), Collection(name)
    homes = [(key, "change_streams", _id) for key, _id in IDS.items()]
    homes += [(f'"{mode} {number}"', mode, f"{mode} {number}") for mode in MODES for number in range(8)]
    for _ in range(14):
        for key, mode, _id in homes:
            there = collection.documents.get(key)
            deed = draw.random()
            if there is None:
                if deed < 0.8:
                    new = {
                        "_id": _id,
                        "a": {"b": {"c": [1, 2, 3]}, "d": 1},
                        "list": [{"x": 1}, {"x": 2}],
                        "n": some_value(draw),
                    }
                    collection.put(key, new, mode)
            elif deed < 0.08:
                collection.delete(key, mode)
            elif deed < 0.16:
                collection.put(key, {"_id": _id, "n": some_value(draw)}, mode)
            else:
                collection.update(key, mode, *random_update(draw, there))
            if draw.random() < 0.1:
                collection.flush()
    collection.flush()
    return collection


def plain(document: Any) -> str:
    """A document as text that is equal where MongoDB finds it equal, whatever the order of its fields."""
    return json.dumps(json.loads(json.dumps(document), parse_int=float), sort_keys=True)


def versions_of_truth(collection: Collection) -> dict[str, list[Row]]:
    """What a collection held, from when to when: a state that equals the one before makes no version."""
    found: dict[str, list[Row]] = {}
    for key, states in collection.truth.items():
        versions = found.setdefault(key, [])
        is_open = False
        for second, op, document in states:
            state = None if document is None else plain(document)
            if is_open and state == versions[-1]["document"]:
                continue
            if is_open:
                versions[-1] |= {"to": second, "closed_by": "delete" if state is None else "update"}
            if state is not None:
                opened_by = "update" if is_open else {"c": "insert", "u": "update"}[op]
                versions.append(
                    {"document": state, "from": second, "to": None, "opened_by": opened_by, "closed_by": None}
                )
            is_open = state is not None
    return found


def seconds(moment: Any) -> float | None:
    found = microseconds(moment)
    return None if found is None else found / 1_000_000 - STARTED


def told_twice(collection: Collection) -> list[str]:
    """The last third of its records once more, as after a restart: what was looked up then is another document."""
    found = []
    for line in collection.lines[-len(collection.lines) // 3 :]:
        record = json.loads(line)
        value = json.loads(record["value"])
        if value["updateDescription"] and value["after"]:
            value["after"] = json.dumps({"_id": "?", "looked up": "later"})
        value["ts_ms"] += 60_000
        found.append(json.dumps(record | {"offset": record["offset"] + 100_000, "value": json.dumps(value)}) + "\n")
    return found


# Lives told by hand: key, second, op, what the event has. Their seconds are their order, not that of the records.
BY_HAND: list[tuple[str, int, str, Row]] = [
    # No state before, and no document: what an update tells is all that there is, until a replace.
    ("bare", 10, "u", {"updateDescription": described({"status": "a", "note": 1})}),
    ("bare", 11, "u", {"updateDescription": described(None, ["qty"])}),
    ("bare", 12, "u", {"updateDescription": described({"tags.1": "x"})}),
    ("bare", 13, "u", {"after": {"_id": "bare", "status": "b", "qty": 3, "tags": ["t"]}}),
    # The same where the document is looked up: that fills, and stays in doubt; what an update told stays.
    ("looked", 20, "u", {"updateDescription": described({"status": "a"}),
                         "after": {"_id": "looked", "status": "later", "qty": 5, "tags": ["x", "y"]}}),
    ("looked", 21, "u", {"updateDescription": described({"qty": 6}),
                         "after": {"_id": "looked", "status": "later", "qty": 7, "tags": []}}),
    ("looked", 22, "u", {"updateDescription": described({"tags": ["z"]}), "after": None}),
    # A pre-image tells the state before.
    ("image", 30, "u", {"updateDescription": described({"status": "b"}, ["tags"]),
                        "before": {"_id": "image", "status": "a", "qty": 1, "tags": ["x"]}}),
    ("image", 31, "d", {"before": {"_id": "image", "status": "b", "qty": 1}}),
    # A looked-up document says nothing where the state is known, even what it says of the update.
    ("known", 40, "c", {"after": {"_id": "known", "status": "a", "qty": 1, "tags": ["x"]}}),
    ("known", 41, "u", {"updateDescription": described({"status": "b"}),
                        "after": {"_id": "known", "status": "z", "qty": 9}}),
    ("known", 42, "u", {"updateDescription": described({"status": "z", "qty": 9}, ["tags"]),
                        "after": {"_id": "known", "status": "z", "qty": 9}}),
    # A transaction is one change, and a document that lives in it alone is none.
    ("known", 43, "u", {"updateDescription": described({"qty": 10}), "source": {"lsid": LSID, "txnNumber": 7}}),
    ("known", 43, "u", {"updateDescription": described({"qty": 11}), "source": {"lsid": LSID, "txnNumber": 7}}),
    ("brief", 43, "c", {"after": {"_id": "brief"}, "source": {"lsid": LSID, "txnNumber": 7}}),
    ("brief", 43, "d", {"source": {"lsid": LSID, "txnNumber": 7}}),
    # Two of a session's writes, each with a transaction of the server's own, are two.
    ("twice", 44, "c", {"after": {"_id": "twice", "status": "a"},
                        "source": {"lsid": INTERNAL % (1, 1), "txnNumber": 0}}),
    ("twice", 44, "u", {"after": {"_id": "twice", "status": "b"},
                        "source": {"lsid": INTERNAL % (2, 2), "txnNumber": 0}}),
    # A value that its column can't hold, inside an array as well.
    ("odd", 50, "c", {"after": {"_id": "odd", "status": "a", "qty": {"$numberLong": "9007199254740993"},
                                "tags": "no"}}),
    ("odd", 51, "u", {"updateDescription": described({"qty": 1.5})}),
    ("odd", 52, "u", {"updateDescription": described({"qty": 2.0, "tags": ["x", {"$oid": "6b61666b61"}]})}),
    # After a delete nothing is known of what was before it.
    ("again", 60, "c", {"after": {"_id": "again", "status": "a", "qty": 1, "tags": []}}),
    ("again", 61, "d", {}),
    ("again", 62, "u", {"updateDescription": described({"qty": 2})}),
    ("again", 63, "d", {}),
    ("again", 64, "c", {"after": {"_id": "again", "qty": 3}}),
    # What can't be read is held aside. The next update knows nothing of what it did, but what its own pre-image tells.
    ("torn", 70, "c", {"after": {"_id": "torn", "status": "a", "qty": 1, "tags": []}}),
    ("torn", 71, "u", {"updateDescription": described(None) | {"updatedFields": "{"}}),
    ("torn", 72, "u", {"updateDescription": described({"qty": 2})}),
    ("rent", 73, "c", {"after": {"_id": "rent", "status": "a", "qty": 1, "tags": []}}),
    ("rent", 74, "u", {"after": {"_id": "rent", "status": "a", "qty": math.nan, "tags": ["x"]}}),
    ("rent", 75, "u", {"updateDescription": described({"status": "b"}),
                       "before": {"_id": "rent", "status": "a", "qty": 5, "tags": ["x"]}}),
    ("rent", 76, "u", {"updateDescription": described({"status": "c"})}),
    # What is deeper than a variant can be stays text.
    ("deep", 80, "c", {"after": {"_id": "deep", "status": "a", "qty": 1, "tags": []}}),
    ("deep", 81, "u", {"updateDescription": described({"note" + ".x" * 1100: 1, "qty" + ".x" * 1100: 1})}),
    ("deep", 82, "u", {"updateDescription": described({"qty": 2})}),
    # Of a field that is known to be gone all is known that is set within it.
    ("gone", 90, "u", {"updateDescription": described(None, ["status"])}),
    ("gone", 91, "u", {"updateDescription": described({"status.a": 1})}),
    # Names can have dots: of a path, the longest that is there is met.
    ("dots", 92, "c", {"after": {"_id": "dots", "status": {"v1.0": 5, "v1": {"1": 1}}, "a.b": {"c": [{"x.y": 1}]}}}),
    ("dots", 93, "u", {"updateDescription": described({"status.v1.0": 6, "status.v1.1": 2, "a.b.c.0.x.y": 2})}),
    ("dots", 94, "u", {"updateDescription": described({"a.b.c.0.z": 3}, ["status.v1.0", "a.b.c.0.x.y"])}),
    # From 3.4 on a read tells another clock than changes do: it follows those before it by offset, of its replica set.
    ("clock", 95, "c", {"after": {"_id": "clock", "status": "a"}, "source": {"ts_ms": (STARTED + 95) * 1000 + 400}}),
    ("clock", 95, "u", {"updateDescription": described({"status": "b"}),
                        "source": {"ts_ms": (STARTED + 95) * 1000 + 700}}),
    ("clock", 95, "r", {"after": {"_id": "clock", "status": "b"},
                        "source": {"version": "3.10.0.Final", "snapshot": "incremental", "ord": 9}}),
    ("shard", 96, "r", {"after": {"_id": "shard", "status": "a"},
                        "source": {"snapshot": "true", "rs": "rs1", "ts_ms": 0}, "ts_ms": (STARTED + 4) * 1000}),
    ("shard", 5, "u", {"after": {"_id": "shard", "status": "b"}, "source": {"rs": "rs1"}}),
    # A value of another type has one text in both spellings, which the whole document keeps.
    ("plain", 97, "c", {"after": {"_id": "plain", "status": {"$date": 1709287200120}}}),
    ("plain", 98, "u", {"updateDescription": described({"status": {"$date": "2024-03-01T10:00:00.12Z"}})}),
    # Of reads that tell no place a later one is another, and one that is sent again the same.
    ("reread", 99, "r", {"after": {"_id": "reread", "status": "a"}, "source": {"snapshot": "true", "ts_ms": 0}}),
    ("reread", 100, "u", {"updateDescription": described({"status": "b"})}),
    ("reread", 99, "r", {"after": {"_id": "reread", "status": "a"}, "source": {"snapshot": "true", "ts_ms": 0}}),
    ("reread", 101, "r", {"after": {"_id": "reread", "status": "a"}, "source": {"snapshot": "true", "ts_ms": 0}}),
]  # fmt: skip
DEEP = '{"x":' * 1100 + "1" + "}" * 1100
# key | from | opened_by | closed_by | status | qty | tags | unresolved | exact
BY_HAND_VERSIONS = f"""
    bare   | 10 | update | update | "a"  | null | null          | qty, tags, whole         |
    bare   | 11 | update | update | "a"  | null | null          | tags, whole              |
    bare   | 13 | update |        | "b"  | 3    | ["t"]         |                          |
    dots   | 92 | insert | update | "{{\\"v1\\":{{\\"1\\":1}},\\"v1.0\\":5}}" | null | null | |
    dots   | 93 | update | update | "{{\\"v1\\":{{\\"1\\":2}},\\"v1.0\\":6}}" | null | null | |
    dots   | 94 | update |        | "{{\\"v1\\":{{\\"1\\":2}}}}" | null | null | |
    gone   | 90 | update | update | null | null | null          | qty, tags, whole         |
    gone   | 91 | update |        | "{{\\"a\\":1}}" | null | null | qty, tags, whole         |
    looked | 20 | update | update | "a"  | 5    | ["x","y"]     | qty, tags, whole         |
    looked | 21 | update | update | "a"  | 6    | []            | tags, whole              |
    looked | 22 | update |        | "a"  | 6    | ["z"]         | whole                    |
    image  | 30 | update | delete | "b"  | 1    | null          |                          |
    known  | 40 | insert | update | "a"  | 1    | ["x"]         |                          |
    known  | 41 | update | update | "b"  | 1    | ["x"]         |                          |
    known  | 42 | update | update | "z"  | 9    | null          |                          |
    known  | 43 | update |        | "z"  | 11   | null          |                          |
    twice  | 44 | insert | update | "a"  | null | null          |                          |
    twice  | 44 | update |        | "b"  | null | null          |                          |
    odd    | 50 | insert | update | "a"  | null | null          |                       | qty=9007199254740993 tags=no
    odd    | 51 | update | update | "a"  | null | null          |                          | qty=1.5 tags=no
    odd    | 52 | update |        | "a"  | 2    | ["x","6b61666b61"] |       |
    again  | 60 | insert | delete | "a"  | 1    | []            |                          |
    again  | 62 | update | delete | null | 2    | null          | status, tags, whole      |
    again  | 64 | insert |        | null | 3    | null          |                          |
    torn   | 70 | insert | update | "a"  | 1    | []            |                          |
    torn   | 72 | update |        | null | 2    | null          | status, tags, whole      |
    rent   | 73 | insert | update | "a"  | 1    | []            |                          |
    rent   | 75 | update | update | "b"  | 5    | ["x"]         |                          |
    rent   | 76 | update |        | "c"  | 5    | ["x"]         |                          |
    clock  | 95 | insert | update | "a"  | null | null          |                          |
    clock  | 96 | update |        | "b"  | null | null          |                          |
    shard  | 4  | snapshot | update | "a" | null | null         |                          |
    shard  | 5  | update |        | "b"  | null | null          |                          |
    plain  | 97 | insert | update | "2024-03-01T10:00:00.120000Z" | null | null | |
    plain  | 98 | update |        | "2024-03-01T10:00:00.120000Z" | null | null | |
    reread | 99 | snapshot | update | "a" | null | null        |                          |
    reread | 100 | update | snapshot | "b" | null | null       |                          |
    reread | 101 | snapshot |      | "a"  | null | null          |                          |
    deep   | 80 | insert | update | "a"  | 1    | []            |                          |
    deep   | 81 | update | update | "a"  | null | []            |                          | qty={DEEP}
    deep   | 82 | update |        | "a"  | 2    | []            |                          |
"""

# Spark type | extended JSON in its spellings | value; and of what a type can't hold, its text.
TYPES = (PROJECT / "tests/types/documents.txt").read_text()
INEXACT = (PROJECT / "tests/types/documents_inexact.txt").read_text()


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def spelled(values: str) -> list[Any]:
    """Values of JSON with commas between them."""
    return list(json.loads(f"[{values}]"))


def typed_columns() -> dict[str, tuple[str, Any]]:
    """Column → its type and its value, of one document with all of them."""
    found: dict[str, tuple[str, Any]] = {}
    for kind, values, _ in [*cells(TYPES), *cells(INEXACT)]:
        for value in spelled(values):
            found[f"c{len(found)}"] = (kind, value)
    return found


def whole_document() -> tuple[str, str]:
    """Type and field of a column that is the whole document, with some of its fields."""
    fields = {kind: name for name, (kind, _) in reversed(typed_columns().items())}
    return f"struct<{', '.join(f'{fields[kind]}:{kind}' for kind in ('bigint', 'timestamp'))}>", "$"


def declare(project: Path, name: str, columns: Mapping[str, Any]) -> None:
    """Write a collection's changes model with typed columns."""
    columns = {
        column: {"type": one[0], "field": one[1]} if isinstance(one, tuple) else one for column, one in columns.items()
    }
    source, _, table = name.partition("__")
    (project / f"models/silver/changes/{name}_changes.sql").write_text(
        f"{{{{ changes('{source}', '{table}', key=['id'], columns={columns!r}, documents=true) }}}}\n"
    )


@dataclass(frozen=True)
class Built:
    """Two landings with a build each, what they came to, and what a rebuild came to."""

    places: Places
    tables: dict[str, CapturedTable]
    collection: Collection
    grown: dict[str, list[Row]]
    rebuilt: dict[str, list[Row]]

    def versions(self, source: str) -> list[Row]:
        """A source's history, in order."""
        return self.rebuilt[source]

    def log(self, source: str) -> list[Row]:
        """A source's changes, in the order of offsets."""
        return sorted(rows_of(self.tables[source].changes.location), key=lambda row: row["offset"])


def histories(places: Places) -> dict[str, list[Row]]:
    found = {}
    for table in captured_tables(places):
        rows = rows_of(table.history.location) if table.history else []
        found[table.source_name] = sorted(rows, key=lambda row: (row["id"], row["position"], row["offset"]))
    return found


def by_hand() -> list[str]:
    lines = []
    for offset, (key, second, op, fields) in enumerate(BY_HAND):
        lines.append(record("mg_hand.shop.t", offset, json.dumps(key), event("mg_hand", second, op, **fields)))
    return lines


class Spelled(str):
    """An id as the key of a record has it."""


def read_at(second: int, replica_set: str | None) -> Row:
    """What a read has beside its document: it tells no place in the log."""
    source = {"snapshot": "true", "ts_ms": 0, "rs": replica_set}
    return {"source": source, "ts_ms": (STARTED + second) * 1000}


def in_transaction(number: int, ordinal: int) -> Row:
    """What the source block has of a change in a transaction of the client's."""
    return {"lsid": LSID, "txnNumber": number, "ord": ordinal}


WHOLE: list[tuple[str, int, str, Row]] = [
    ("a", 10, "u", {"updateDescription": described({"n": 2}), "before": {"_id": "a", "n": 1}}),
    ("a", 11, "u", {"updateDescription": described({"n": 4}), "before": {"_id": "a", "n": 3}}),
    ("a", 12, "u", {"after": {"_id": "a", "n": 5}, "before": {"_id": "a", "n": 4}}),
    ("a", 13, "d", {"before": {"_id": "a", "n": 6}}),
    ("b", 14, "d", {"before": {"_id": "b", "n": 9}}),
    # A post-image is the state, whatever the update did to one that was missed.
    ("c", 15, "c", {"after": {"_id": "c", "n": 1}}),
    ("c", 16, "u", {"updateDescription": described({"m": 1}), "after": {"_id": "c", "n": 7, "m": 1}}),
    # A pre-image tells what an update that was missed did, though a document is known.
    ("d", 17, "c", {"after": {"_id": "d", "n": 1, "m": 1}}),
    ("d", 18, "u", {"updateDescription": described({"n": 2})}),
    ("d", 19, "u", {"updateDescription": described({"n": 4}), "before": {"_id": "d", "n": 2, "m": 5}}),
    # A connector that reads through the whole cluster names that, or nothing, and no replica set: its reads follow all.
    ("e", 20, "c", {"after": {"_id": "e", "n": 1}}),
    ("e", 21, "u", {"updateDescription": described({"n": 2})}),
    ("e", 22, "r", {"after": {"_id": "e", "n": 3}, **read_at(22, "cluster")}),
    ("f", 23, "c", {"after": {"_id": "f", "n": 1}}),
    ("f", 24, "r", {"after": {"_id": "f", "n": 2}, **read_at(24, None)}),
    # A replica set is read while others stream: its log is its own, and no read begins a new one.
    ("g", 26, "r", {"after": {"_id": "g", "n": 1}, **read_at(26, "rs1")}),
    ("g", 23, "u", {"updateDescription": described({"n": 2}), "source": {"rs": "rs1"}}),
    # But a document can have come from another.
    ("h", 25, "c", {"after": {"_id": "h", "n": 1}}),
    ("h", 27, "r", {"after": {"_id": "h", "n": 2}, **read_at(27, "rs1")}),
    # A new value of the shard key takes a document to another shard, in one transaction, whose log can be ahead.
    ("i", 28, "c", {"after": {"_id": "i", "n": 1}}),
    ("i", 29, "c", {"after": {"_id": "i", "n": 2}, "source": in_transaction(8, 5)}),
    ("i", 29, "d", {"before": {"_id": "i", "n": 1}, "source": in_transaction(8, 8)}),
    ("j", 30, "c", {"after": {"_id": "j", "n": 1}}),
    ("j", 31, "c", {"after": {"_id": "j", "n": 2}, "source": in_transaction(9, 5)}),
    ("j", 31, "u", {"updateDescription": described({"n": 3}), "source": {"ord": 6}}),
    ("j", 31, "d", {"before": {"_id": "j", "n": 1}, "source": in_transaction(9, 8)}),
    # Known limit: one that is deleted, inserted and deleted again at one ordinal lives: both deletes are one change.
    ("k", 32, "c", {"after": {"_id": "k", "n": 1}}),
    ("k", 33, "d", {"before": {"_id": "k", "n": 1}, "source": in_transaction(10, 1)}),
    ("k", 33, "c", {"after": {"_id": "k", "n": 2}, "source": in_transaction(10, 1)}),
    ("k", 33, "d", {"before": {"_id": "k", "n": 2}, "source": in_transaction(10, 1)}),
    # Keys of streamed changes that begin with the fields of a shard key, cut off at their eighth letter.
    ("l", 34, "r", {"after": {"_id": "l", "n": 1}, **read_at(34, "rs0")}),
    (Spelled('": "EU", "_id": "l"'), 35, "u", {"updateDescription": described({"n": 2})}),
    (Spelled('"l", "region": "EU"'), 36, "u", {"updateDescription": described({"n": 3})}),
    # A document can go to another shard twice in a row, and one that was new there and went again at once was alive.
    ("m", 37, "c", {"after": {"_id": "m", "n": 1}}),
    ("m", 38, "c", {"after": {"_id": "m", "n": 2}, "source": in_transaction(11, 1)}),
    ("m", 38, "d", {"before": {"_id": "m", "n": 1}, "source": in_transaction(11, 2)}),
    ("m", 39, "c", {"after": {"_id": "m", "n": 3}, "source": in_transaction(12, 1)}),
    ("m", 39, "d", {"before": {"_id": "m", "n": 2}, "source": in_transaction(12, 2)}),
    # What is inserted and deleted in one transaction is not, nor what comes behind it.
    ("n", 40, "c", {"after": {"_id": "n", "n": 1}, "source": in_transaction(13, 1)}),
    ("n", 40, "d", {"before": {"_id": "n", "n": 1}, "source": in_transaction(13, 2)}),
    ("n", 41, "c", {"after": {"_id": "n", "n": 2}, "source": in_transaction(14, 1)}),
    ("n", 41, "d", {"before": {"_id": "n", "n": 2}, "source": in_transaction(14, 2)}),
]


def whole() -> list[str]:
    return [
        record(
            "mg_whole.shop.t", offset, key if isinstance(key, Spelled) else json.dumps(key),
            event("mg_whole", second, op, **fields),
        )
        for offset, (key, second, op, fields) in enumerate(WHOLE)
    ]  # fmt: skip


def of_two_clocks() -> list[str]:
    """Shards whose clocks differ, as changes tell from Debezium 3.4 on: one's is ahead while another's is read."""
    lives = [
        ("o", 10, "c", {"after": {"_id": "o", "n": 1}}),
        ("p", 20, "c", {"after": {"_id": "p", "n": 1}}),
        ("o", 11, "r", {"after": {"_id": "o", "n": 2}}),
        ("q", 12, "r", {"after": {"_id": "q", "n": 1}}),
        ("o", 13, "u", {"updateDescription": described({"n": 3})}),
        ("q", 14, "u", {"updateDescription": described({"n": 2})}),
    ]
    lines = []
    for offset, (key, second, op, fields) in enumerate(lives):
        source = {"version": "3.4.0.Final", "rs": None, "snapshot": "incremental" if op == "r" else "false"}
        lines.append(
            record("mg_clocks.shop.t", offset, json.dumps(key), event("mg_clocks", second, op, source=source, **fields))
        )
    return lines


def cut_short() -> list[str]:
    """Transactions of two inserts each, of which two have not come whole; END names the replica set too.

    The session's id is spelled as connectors do, and as a UUID. Of the third, each of two shards counts its own insert,
    as up to 2.4 (`connection.mode=replica_set`), the second one twice.
    """
    session = "11111111-2222-3333-4444-555555555555"
    own, others = INTERNAL % (1, 1), INTERNAL % (2, 2)
    transactions = [(LSID, LSID, 1, "ab"), (own, own, 0, "de"), (others, others, 0, "f"), (LSID, session, 2, "c")]
    lines, offset = [], 0
    for second, (lsid, spelled, number, keys) in enumerate(transactions, 1):
        for key in keys:
            block = {"id": f"{lsid}:{number}", "total_order": 1, "data_collection_order": 1}
            source = {"lsid": lsid, "txnNumber": number}
            change = event("mg_cut", second, "c", after={"_id": key}, source=source, transaction=block)
            lines.append(record("mg_cut.shop.t", offset, json.dumps(key), change))
            offset += 1
        counts = (("rs0", 1), ("rs1", 1), ("rs1", 1)) if spelled == others else (("rs0", 2),)
        halves: list[Row] = []
        for shard, count in counts:
            counted = {"data_collection": f"{shard}.shop.t", "event_count": count}
            halves += {"status": "BEGIN"}, {"status": "END", "event_count": count, "data_collections": [counted]}
        for half, boundary_end in enumerate(halves):
            boundary = {"id": f"{spelled}:{number}", "ts_ms": (STARTED + second) * 1000, "event_count": None}
            lines.append(record("mg_cut.transaction", 10 * second + half, session, boundary | boundary_end))
    return lines


def without_transactions() -> list[str]:
    """Documents written one by one: the connector names no transaction, and tells no BEGIN."""
    return [
        record("mg_lone.shop.t", number, f'"{key}"', event("mg_lone", number, "c", after={"_id": key}))
        for number, key in enumerate("ab")
    ]


# Whole from the first landing on: a cut goes forward with what has come.
AT_ONCE = ("mg_cut.shop.t", "mg_cut.transaction", "mg_lone.shop.t")
SOURCES = {"mg_cap", "mg_lives", "mg_hand", "mg_whole", "mg_types", "mg_cut", "mg_lone", "mg_clocks"}
MODELS = (
    "--select", "config.materialized:changes", "config.materialized:history", "mg_whole__shop__t_accounting",
    "mg_cut_transactions", "mg_lone_transactions",
)  # fmt: skip


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Built:
    home = tmp_path_factory.mktemp("mongodb")
    project = empty_project(home / "project")
    settings = yaml.safe_load((project / "dbt_project.yml").read_text())
    settings["vars"]["tidemark"]["sources"] = {
        "mg_whole": {"before_is_whole": True, "full_updates": "post_image"}, "mg_cut": {"consistent": True},
        "mg_lone": {"consistent": True},
    }  # fmt: skip
    (project / "dbt_project.yml").write_text(yaml.safe_dump(settings))
    places = Places.of(project)
    collection = lives("mg_lives", 7)
    types = {"_id": "one"} | {name: value for name, (_, value) in typed_columns().items()}
    lines = renamed(CAPTURES / "synthetic-mongodb-2.5.4", "mg_cap") + by_hand() + collection.lines
    lines += whole() + cut_short() + without_transactions()
    lines += [record("mg_types.shop.t", 0, '"one"', event("mg_types", 1, "c", after=types))]
    draw = random.Random(3)
    batches: list[list[str]] = [[], []]
    seen: set[str] = set()
    for line in lines:
        topic = json.loads(line)["topic"]
        # Every table is there from the first landing on; the rest comes in any order.
        batches[draw.randrange(2) if topic in seen and topic not in AT_ONCE else 0].append(line)
        seen.add(topic)
    # A read is landed before what follows it.
    batches[0] += of_two_clocks()[:4]
    batches[1] += of_two_clocks()[4:]
    # What comes twice is there before what it repeats, or behind it.
    batches[0] += told_twice(collection)[::2]
    batches[1] += told_twice(collection)
    for number, batch in enumerate(batches):
        draw.shuffle(batch)
        land(spark, places, f"batch{number}", "".join(batch), SOURCES)
        if number == 0:
            declare(project, "mg_hand__shop__t", DECLARED_COLUMNS)
            declare(
                project,
                "mg_types__shop__t",
                {"id": "string", "whole": whole_document()}
                | {name: kind for name, (kind, _) in typed_columns().items()},
            )
        run_models(places, *MODELS, accounting=True)
    grown = histories(places)
    # The first build of a table all of whose records had come was one of all of it.
    grew = {json.loads(line)["topic"].partition(".")[0] for line in batches[1]}
    assert grew == {"mg_cap", "mg_lives", "mg_hand", "mg_whole", "mg_clocks"}
    others = [f"{name}_*" for name in SOURCES - grew]
    run_models(places, "--full-refresh", *MODELS, "--exclude", *others, accounting=True)
    tables = {table.source_name: table for table in captured_tables(places)}
    return Built(places, tables, collection, grown, histories(places))


def test_a_rebuild_comes_to_what_grew_in_any_order(built: Built) -> None:
    assert built.grown == built.rebuilt


def test_every_version_says_what_a_change_told_that_is_whole(built: Built, spark: SparkSession) -> None:
    def untold(table: CapturedTable, history: str) -> int:
        assert table.history is not None
        stored, log = (spark.table(table_at(model.location)) for model in (table.history, table.changes))
        _, *arguments = _arguments(table, table.history, stored, log)
        return spark.sql(query("unexplained_versions", history, *arguments)).count()

    places = {name: table_at(table.history.location) for name, table in built.tables.items() if table.history}
    assert {name: untold(built.tables[name], place) for name, place in places.items()} == dict.fromkeys(places, 0)
    other = f"(select * except (document), 'another' as document from {places['mg_lives']})"
    told = [row for row in built.versions("mg_lives") if row["opened_by"] in ("insert", "snapshot")]
    assert untold(built.tables["mg_lives"], other) == len(told) > 0


def test_every_version_ends_as_changes_say(built: Built, spark: SparkSession) -> None:
    for table in built.tables.values():
        assert table.history is not None
        stored, log = (spark.table(table_at(model.location)) for model in (table.history, table.changes))
        arguments = _arguments(table, table.history, stored, log)
        ended = spark.sql(query("unexplained_ends", *arguments, {"batch_id": 9, "cut": None})).collect()
        assert ended == [], table.name


def test_gold_holds_what_every_document_was_in_every_mode(built: Built) -> None:
    found: dict[str, list[Row]] = {}
    for row in built.versions("mg_lives"):
        assert row["unresolved_columns"] == []
        found.setdefault(row["id"], []).append(
            {"document": plain(json.loads(row["document"])), "from": seconds(row["valid_from"]),
             "to": seconds(row["valid_to"]), "opened_by": row["opened_by"], "closed_by": row["closed_by"]}
        )  # fmt: skip
    expected = versions_of_truth(built.collection)

    assert found == expected
    assert sum(map(len, found.values())) > 300
    assert set(IDS) <= found.keys()


def test_a_redelivered_update_is_known_by_what_it_did_and_not_by_what_was_looked_up(built: Built) -> None:
    assert max(row["offset"] for row in built.log("mg_lives")) < 100_000


def test_lives_told_by_hand(built: Built) -> None:
    found = [
        [
            json.loads(row["id"]), str(round(seconds(row["valid_from"]) or 0)), row["opened_by"],
            row["closed_by"] or "",
            json.dumps(row["status"]), json.dumps(row["qty"]), json.dumps(row["tags"], separators=(",", ":")),
            ", ".join(row["unresolved_columns"]),
            " ".join(f"{name}={text}" for name, text in sorted(row["exact_values"])),
        ]
        for row in built.versions("mg_hand")
    ]  # fmt: skip

    assert sorted(found) == sorted(cells(BY_HAND_VERSIONS))


def test_a_document_in_doubt_shows_what_is_known_of_it(built: Built) -> None:
    found = [json.loads(row["whole"]) for row in built.versions("mg_hand") if row["id"] in ('"bare"', '"looked"')]

    assert found == [
        {"status": "a", "note": 1}, {"status": "a", "note": 1}, {"_id": "bare", "status": "b", "qty": 3, "tags": ["t"]},
        {"_id": "looked", "status": "a", "qty": 5, "tags": ["x", "y"]},
        {"_id": "looked", "status": "a", "qty": 6, "tags": []},
        {"_id": "looked", "status": "a", "qty": 6, "tags": ["z"]},
    ]  # fmt: skip


def test_a_path_meets_names_that_have_dots(built: Built) -> None:
    found = [json.loads(row["whole"]) for row in built.versions("mg_hand") if row["id"] == '"dots"']

    assert [document["a.b"] for document in found] == [{"c": [{"x.y": 1}]}, {"c": [{"x.y": 2}]}, {"c": [{"z": 3}]}]


def test_an_update_that_cant_be_read_is_held_aside(built: Built, spark: SparkSession) -> None:
    assert [row["problem"] for row in built.log("mg_hand") if row["problem"]] == ["document_not_read"] * 2
    entries = held_entries(spark, built.places, [built.tables["mg_hand"]]).where("topic = 'mg_hand.shop.t'").collect()
    assert [(row["code"], "no JSON object" in row["reason"]) for row in entries] == [("document_not_read", True)] * 2


def test_a_pre_image_is_a_state_where_the_source_says_so(built: Built) -> None:
    found = [
        (row["id"], json.loads(row["document"])["n"], row["opened_by"], row["closed_by"])
        for row in built.versions("mg_whole") if row["id"] < '"d'
    ]  # fmt: skip

    assert found == [
        ('"a"', 1, "before", "update"), ('"a"', 2, "update", "update"), ('"a"', 4, "update", "update"),
        ('"a"', 5, "update", "delete"), ('"b"', 9, "before", "delete"), ('"c"', 1, "insert", "update"),
        ('"c"', 7, "update", None),
    ]  # fmt: skip


def whole_lives(built: Built, keys: str, source: str = "mg_whole") -> list[tuple[str, Document, str, str | None]]:
    return [
        (json.loads(row["id"]), json.loads(row["document"]), row["opened_by"], row["closed_by"])
        for row in built.versions(source)
        if json.loads(row["id"]) in keys
    ]


def test_a_pre_image_tells_what_an_update_found_though_a_document_is_known(built: Built) -> None:
    assert whole_lives(built, "d") == [
        ("d", {"_id": "d", "n": 1, "m": 1}, "insert", "update"),
        ("d", {"_id": "d", "n": 2, "m": 1}, "update", "update"),
        ("d", {"_id": "d", "n": 4, "m": 5}, "update", None),
    ]


def test_a_read_without_a_place_follows_what_its_cluster_or_its_document_had(built: Built) -> None:
    assert [(key, document["n"], *ends) for key, document, *ends in whole_lives(built, "efgh")] == [
        ("e", 1, "insert", "update"), ("e", 2, "update", "snapshot"), ("e", 3, "snapshot", None),
        ("f", 1, "insert", "snapshot"), ("f", 2, "snapshot", None), ("g", 1, "snapshot", "update"),
        ("g", 2, "update", None), ("h", 1, "insert", "snapshot"), ("h", 2, "snapshot", None),
    ]  # fmt: skip
    assert {row["log_number"] for row in built.log("mg_whole")} == {0}


def test_a_document_that_went_to_another_shard_lives(built: Built) -> None:
    assert [(key, document["n"], *ends) for key, document, *ends in whole_lives(built, "ijkmn")] == [
        ("i", 1, "insert", "update"), ("i", 2, "insert", None), ("j", 1, "insert", "update"),
        ("j", 2, "insert", "update"), ("j", 3, "update", None), ("k", 1, "insert", "update"),
        ("k", 2, "insert", None), ("m", 1, "insert", "update"), ("m", 2, "insert", "update"), ("m", 3, "insert", None),
    ]  # fmt: skip


def test_a_read_without_a_place_is_before_what_follows_it_though_another_shards_clock_is_ahead(built: Built) -> None:
    assert [(key, document["n"], *ends) for key, document, *ends in whole_lives(built, "opq", "mg_clocks")] == [
        ("o", 1, "insert", "snapshot"), ("o", 2, "snapshot", "update"), ("o", 3, "update", None),
        ("p", 1, "insert", None), ("q", 1, "snapshot", "update"), ("q", 2, "update", None),
    ]  # fmt: skip


def test_the_key_of_a_sharded_document_is_its_id(built: Built) -> None:
    assert [(key, document["n"], *ends) for key, document, *ends in whole_lives(built, "l")] == [
        ("l", 1, "snapshot", "update"), ("l", 2, "update", None),
    ]  # fmt: skip
    assert [row["problem"] for row in built.log("mg_whole") if row["problem"]] == ["key_not_decoded"]


def test_signs_of_documents_are_counted(built: Built) -> None:
    signs = {row["name"]: row["records"] for row in account_of(built.tables["mg_whole"]) if row["kind"] == "sign"}
    assert (signs["broken_chains"], signs["missed_changes"]) == (1, 3)
    assert signs.keys().isdisjoint(["new_logs", "unknown_deletes"])


def test_a_field_has_its_exact_value_in_every_spelling(built: Built) -> None:
    [row] = built.versions("mg_types")
    expected: dict[str, str] = {}
    for kind, values, value in cells(TYPES):
        for _ in spelled(values):
            expected[f"c{len(expected)}"] = f"{kind} {value}"
    columns = {name: (kind, row[name]) for name, (kind, _) in typed_columns().items() if name in expected}

    assert {name: f"{kind} {in_short(value)}" for name, (kind, value) in columns.items()} == expected
    assert row["whole"] == {name: row[name] for name in row["whole"]}


def in_short(value: Any) -> str:
    return str(value).replace("zoneinfo.ZoneInfo(key='UTC')", "<UTC>")


def test_what_a_type_cant_hold_keeps_its_text(built: Built) -> None:
    [row] = built.versions("mg_types")
    first = len(typed_columns()) - len(cells(INEXACT))
    expected = {f"c{first + number}": text for number, (_, _, text) in enumerate(cells(INEXACT))}

    assert dict(row["exact_values"]) == expected
    assert [row[name] for name in expected] == [None] * len(expected)


COMMON: Document = {"changed": {"$date": 1709287200123}, "tags": ["x", {"y": None}]}
ONE, TWO, THREE = ({"_id": name, "name": f"name of {name}"} | COMMON for name in ("one", "two", "three"))
# id, seconds from and to, opened_by, closed_by, document
SCRIPT = [
    ('"one"', 1.25, 20, "snapshot", "update", ONE | {"price": {"$numberDecimal": "10.50"}}),
    ('"one"', 20, 30, "update", "update", ONE | {"price": 11.5}),
    ('"one"', 30, 40, "update", "update", {"_id": "one", "price": 12.5, "tag": {"a": 1}} | COMMON),
    ('"one"', 40, 50, "update", "delete", ONE | {"price": 12.5}),
    ('"three"', 10, None, "insert", None, THREE | {"price": {"$numberLong": "9007199254740993"}}),
    ('"two"', 1.25, 50, "snapshot", "delete", TWO | {"price": 20}),
]


def test_the_capture_is_what_its_script_says(built: Built) -> None:
    def since(moment: Any) -> float | None:
        found = microseconds(moment)
        return None if found is None else found / 1_000_000 - 1_709_287_200

    found = [
        (
            row["id"], since(row["valid_from"]), since(row["valid_to"]), row["opened_by"], row["closed_by"],
            json.loads(row["document"]),
        )
        for row in built.versions("mg_cap")
    ]  # fmt: skip
    assert found == SCRIPT
    session = "11111111-2222-3333-4444-555555555555"
    assert [row["transaction_id"] for row in built.log("mg_cap")] == [
        None, None, f"{session}:1", f"{session}:1", f"{session}:2", f"{session}:2", f"{session}:3", f"{session}:4",
        f"{session}:5",
    ]  # fmt: skip


def test_scaffolding_again_names_the_whole_document_as_it_did() -> None:
    columns = (SeenColumn("id", "id", "string"), SeenColumn("document", "$", "string"))
    seen = SeenTable("t", "s", "t", "t", "mongodb", "t", ("id",), columns, documents=True)

    def names(value: str) -> tuple[str, ...]:
        return as_declared(seen, Story("t", value=value).table(Places(PROJECT, "", ""))).row

    assert names("status") == ("id", "document")
    assert names("document")[1].startswith("document_"), "a field has the name"


def test_snapshots_of_documents_are_asked_to_close_nothing(built: Built) -> None:
    places = built.places
    history = places.project / "models/gold/history/mg_cut__shop__t_history.sql"
    right = history.read_text()
    history.write_text(right.replace("_changes'", "_changes', snapshot_deletes='close'"))
    result = run_dbt(places, ["--quiet", "compile", "--select", "mg_cut__shop__t_history"])
    history.write_text(right)

    assert not result.success
    assert "snapshot_deletes='close' was asked for a history of documents" in str(
        [one.message for one in result.result or []] or result.exception
    )


def test_a_cut_knows_a_collection_by_its_replica_set(built: Built) -> None:
    assert [json.loads(row["id"]) for row in built.versions("mg_cut")] == ["a", "b", "d", "e"]


def test_documents_that_no_transaction_wrote_wait_for_none(built: Built) -> None:
    assert [row["id"] for row in built.versions("mg_lone")] == ['"a"', '"b"']
