"""Every printed example of the documents, landed: what became of each is what `tests/corpus/expected.yml` says.

One lakehouse, one landing, one build; each example is a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import captured_tables
from spark_jobs.landing.codes import REASONS
from spark_jobs.places import Places
from spark_jobs.scaffolding.tables import seen_events
from spark_jobs.scaffolding.write import files_of_events, write
from tests.projects import empty_project, land, rows_of, run_models

Row: TypeAlias = dict[str, Any]

CORPUS = Path(__file__).parents[1] / "corpus"
EXPECTED: dict[str, Row] = yaml.safe_load((CORPUS / "expected.yml").read_text())
OUTBOX = "outbox.event.corpus_"
# Outcomes that are a kind of bronze's records by their own name.
KINDS = ("transaction", "schema_change", "notification", "message", "signal", "tombstone", "truncate", "change")
HELD = ("quarantine", "refused", "fragment")
STARTED = 1_700_000_000_000
# The key of each signal, as the documents print it (003:19349).
PREFIX = "test_connector"


def printed(name: str) -> Any:
    """An example as it is printed, made valid JSON."""
    return json.loads((CORPUS / f"{name}.json").read_text())


def example_of(name: str) -> str:
    return str(EXPECTED[name].get("completes", name))


def in_order_of_print() -> list[str]:
    """What has a record of its own, in the order of offsets."""
    alone = [name for name, expected in EXPECTED.items() if "key_of" not in expected and "headers_of" not in expected]
    return sorted(alone, key=lambda name: (EXPECTED[example_of(name)]["printed"].split(":")[0],
                                           int(EXPECTED[example_of(name)]["printed"].split(":")[1]), name))  # fmt: skip


OFFSETS = {name: number for number, name in enumerate(in_order_of_print())}


def record_of(name: str) -> Row:
    """The record that an example is landed as."""
    expected = EXPECTED[name]
    given = expected.get("key")
    key = printed(given) if isinstance(given, str) else given
    value = value_of(name, expected)
    if expected["outcome"] == "tombstone":
        key, value = value, None
    elif expected.get("made") == "key and value":
        key, value = value["key"], value["value"]
    elif expected.get("made") == "key of an insert":
        key, value = value, insert_of_a_document(name)
    headers = [{"key": header, "value": json.dumps(said)} for header, said in printed_headers(expected).items()]
    plain_key = PREFIX if expected["outcome"] == "signal" else expected.get("key_text")
    return {
        "topic": topic_of(name, expected), "partition": 0, "offset": OFFSETS[name], "timestamp": STARTED,
        "key": plain_key or (key and json.dumps(key)), "value": None if value is None else json.dumps(value),
        "headers": headers,
    }  # fmt: skip


def printed_headers(expected: Row) -> Row:
    found: Row = printed(expected["headers"]) if "headers" in expected else {}
    return found | ({"id": expected["header_id"]} if "header_id" in expected else {})


def topic_of(name: str, expected: Row) -> str:
    """A topic of its own, named as its kind is where a name tells something."""
    ending = {"transaction": ".transaction", "signal": "-signal"}.get(expected["outcome"], "")
    return str(expected.get("topic", f"corpus.{name}{ending}"))


def value_of(name: str, expected: Row) -> Any:
    value = printed(example_of(name))
    if expected.get("made") == "member value":
        value = value["value"]
    elif expected.get("made") == "signal row":
        value = insert_of_a_signal(name, value)
    completed = expected.get("source", {"name": expected["prefix"]} if "prefix" in expected else {})
    if completed:
        value.get("payload", value)["source"] |= completed
    return value


def insert_of_a_signal(name: str, row: Row) -> Row:
    """A row of the signal table as the connector tells it where it captures that table."""
    connector = name.partition("-")[0].replace("common", "postgresql")
    image = row | ({"data": json.dumps(row["data"])} if "data" in row else {"data": None})
    source = {"connector": connector, "name": f"corpus_{name}", "ts_ms": STARTED, "snapshot": "false", "db": "shop"}
    place = {"collection": "debezium_signal"} if connector == "mongodb" else {"schema": "s", "table": "debezium_signal"}
    after = json.dumps(image) if connector == "mongodb" else image
    return {"before": None, "after": after, "source": source | place, "op": "c", "ts_ms": STARTED}


def insert_of_a_document(name: str) -> Row:
    """An insert into the collection whose events are printed; its document's `_id` is not what counts."""
    number = int(name.rpartition("-")[2])
    source = {
        "connector": "mongodb", "name": "fulfillment", "ts_ms": STARTED + number * 1000, "snapshot": "false",
        "db": "inventory", "rs": "rs0", "collection": "customers", "ord": 1,
    }  # fmt: skip
    return {"after": json.dumps({"_id": 0}), "source": source, "op": "c", "ts_ms": STARTED}


@dataclass(frozen=True)
class Built:
    """What became of the records, by their offsets; a row of a log or of gold has the name of its table."""

    kinds: dict[int, Row]
    quarantined: dict[int, Row]
    log: dict[int, Row]
    gold: dict[int, Row]
    events: dict[int, Row]


def by_offset(rows: Iterable[Row]) -> dict[int, Row]:
    found: dict[int, Row] = {}
    for row in rows:
        assert row["offset"] not in found, f"two of {row['offset']}"
        found[row["offset"]] = row
    return found


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Built:
    home = tmp_path_factory.mktemp("corpus")
    project = empty_project(home / "project")
    places = Places.of(project)
    lines = "".join(json.dumps(record_of(name)) + "\n" for name in OFFSETS)
    wanted = {expected["table"].split("__")[0] for expected in EXPECTED.values() if "table" in expected}
    with pytest.MonkeyPatch.context() as patched:
        for name in ("TIDEMARK_REGISTRY_URL", "TIDEMARK_REGISTRY_FILE"):
            patched.delenv(name, raising=False)
        land(spark, places, "corpus", lines, wanted)
    outbox = [one for one in seen_events(spark, places) if one.topic.startswith(OUTBOX)]
    write(project, files_of_events(outbox))
    kinds = ("changes", "history", "remade")
    run_models(places, "--select", *[f"config.materialized:{kind}" for kind in kinds])
    tables = captured_tables(places)
    is_ours = F.col("topic").startswith("corpus.") | F.col("topic").startswith(OUTBOX)
    records, aside = (bronze.read(spark, places, name).where(is_ours) for name in ("records", "quarantine"))
    return Built(
        kinds=by_offset(row.asDict(recursive=True) for row in records.collect()),
        quarantined=by_offset(row.asDict() for row in aside.select("offset", "code", "reason").collect()),
        log=by_offset(row | {"of": one.name} for one in tables for row in rows_of(one.changes.location)),
        gold=by_offset(
            row | {"of": one.name} for one in tables if one.history for row in rows_of(one.history.location)
        ),
        events=by_offset(row for one in outbox for row in rows_of(places.table("silver", f"{one.name}_events"))),
    )


def moment(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat(sep=" ", timespec="milliseconds")[:23]


def plain(document: Any) -> Any:
    """A document with its numbers as JSON's own."""
    if isinstance(document, dict):
        return int(document["$numberLong"]) if "$numberLong" in document else {k: plain(v) for k, v in document.items()}
    return document


def change_in(row: Row, expected: Row) -> Row:
    """A change of a log, of which of documents the expectation says what it looks at."""
    found = {
        "op": row["op"], "key": None if expected["key"] is None else row["key"], "at": moment(row["changed_at"]),
        "transaction": row["transaction_id"],
    }  # fmt: skip
    if "after" in expected:
        found["after"] = row["after"]
    if "document" in expected:
        found["document"] = plain(json.loads(row["after"]["document"]))
    if row["exact_values"]:
        found["exact"] = dict(row["exact_values"])
    return found


def version_in(row: Row | None, expected: Row) -> Row | str:
    if row is None:
        return "none"
    found = {name: row[name] for name in ("opened_by", "closed_by")}
    found |= {"from": moment(row["valid_from"]), "to": moment(row["valid_to"])}
    if "document" in expected:
        found["document"] = plain(json.loads(row["document"]))
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_becomes_what_the_documents_say(built: Built, name: str) -> None:
    expected = EXPECTED[name]
    offset = OFFSETS[expected.get("key_of") or expected.get("headers_of") or name]
    outcome = expected["outcome"]
    if outcome in HELD:
        entry = built.quarantined[offset]
        assert entry["code"] == expected["code"]
        assert [part for part in expected.get("names", []) if part not in entry["reason"]] == []
        return
    record = built.kinds[offset]
    if outcome in KINDS:
        assert record["kind"] == outcome
        assert offset not in built.log or "key_of" in expected or "headers_of" in expected
    if "key_of" in expected:
        assert json.loads(record["key"]) == printed(name)
    elif "headers_of" in expected:
        assert {header["key"]: json.loads(header["value"]) for header in record["headers"]} == printed(name)
    elif outcome == "row":
        row = built.log[offset]
        version = built.gold.get(offset)
        assert (row["of"], row["problem"]) == (expected["table"], None)
        assert change_in(row, expected["change"]) == expected["change"]
        assert version_in(version, expected["version"]) == expected["version"]
        if version and "after" in expected["change"]:
            assert {column: version[column] for column in expected["change"]["after"]} == expected["change"]["after"]
    elif outcome == "redelivery":
        assert record["kind"] == "change" or "truncate" in name
        assert offset not in built.log
        assert OFFSETS[expected["of"]] in built.log
    elif outcome == "signal row":
        assert record["kind"] == "change"
        assert offset not in built.gold
    elif outcome == "event":
        event = built.events[offset]
        found = {column: event[column] for column in expected["event"] if column != "payload_id"}
        number = json.loads(event["payload"])["id"]
        assert found | {"payload_id": number} == expected["event"]


def test_every_example_has_an_expectation_and_a_reason() -> None:
    examples = {file.stem for file in CORPUS.glob("*.json")}
    expected = {name for name, one in EXPECTED.items() if "completes" not in one}

    assert examples == expected
    assert len(examples) == 235
    assert [name for name, one in EXPECTED.items() if not one["because"]] == []
    assert {one["outcome"] for one in EXPECTED.values()} == {*KINDS, *HELD, "row", "redelivery", "event", "signal row"}
    assert {one["code"] for one in EXPECTED.values() if "code" in one} <= REASONS.keys()


def test_every_example_is_somewhere(built: Built) -> None:
    assert built.kinds.keys() | built.quarantined.keys() == set(OFFSETS.values())
    assert built.kinds.keys().isdisjoint(built.quarantined)


def test_nothing_is_a_change_that_no_example_tells(built: Built) -> None:
    rows = {OFFSETS[name] for name, expected in EXPECTED.items() if expected["outcome"] == "row"}

    assert built.log.keys() == rows
    assert built.gold.keys() == {
        OFFSETS[name] for name, expected in EXPECTED.items() if expected.get("version", "none") != "none"
    }


def test_the_text_of_a_statement_is_in_bronze_alone(built: Built) -> None:
    """`include.query` puts it into the source block, and it can hold what columns hide."""
    statement = "INSERT INTO customers (first_name"
    with_it = [offset for offset, row in built.kinds.items() if statement in str(row["value"])]

    assert with_it == [OFFSETS["mysql-value-create"]]
    assert [row for rows in (built.log, built.gold) for row in rows.values() if statement in str(row)] == []
