"""One history, whatever form its records came in; and what can't be read of a form is held aside with a code.

One lakehouse: the same life of a table under many topic prefixes, each written in another form.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.errors import Fault
from spark_jobs.landing.forms import exact_field
from spark_jobs.landing.land import Landed, Landing, land_files
from spark_jobs.outcomes import say_landed
from spark_jobs.places import Places
from spark_jobs.quarantine import Released, held_entries, release
from spark_jobs.reporting.described import fields
from spark_jobs.scaffolding.tables import seen_events, seen_tables
from spark_jobs.scaffolding.write import files_of, files_of_events, write
from tests.forms import (
    Record,
    avro,
    cloud_event,
    decimal,
    flattened,
    json_schema,
    numeric,
    parts_of,
    schema_id,
    to_bytes,
    wire,
)
from tests.projects import empty_project, renamed, rows_of, run_models
from tests.registry import StandIn
from tests.source import UNAVAILABLE, Column, Source, Table

Row: TypeAlias = dict[str, Any]

DECIMAL = {
    "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "10"},
}  # fmt: skip
STRUCT = {
    "type": "struct", "name": "fm.Place",
    "fields": [
        {"field": "x", "type": "int32", "optional": True}, {"field": "label", "type": "string", "optional": True},
    ],
}  # fmt: skip
COLUMNS = [
    Column("id", {"type": "int32"}),
    Column("name"),
    Column("price", DECIMAL),
    Column("made_at", {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}),
    Column("is_new", {"type": "boolean"}),
    Column("doc", is_large=True),
    Column("amount", {**DECIMAL, "parameters": {"scale": "2", "connect.decimal.precision": "20"}}),
    Column("tags", {"type": "array", "items": {"type": "string", "optional": True}}),
    Column("marks", {"type": "map", "keys": {"type": "string"}, "values": {"type": "string", "optional": True}}),
    Column("place", STRUCT),
]
AMOUNT = "12345678901234567.89"  # more digits than a double has
# Without a schema records don't say how they encode the price and the time.
DECLARED = """
    'id': 'int', 'name': 'string', 'is_new': 'boolean', 'doc': 'string',
    'price': {'type': 'decimal(10,2)', 'encoding': 'org.apache.kafka.connect.data.Decimal:2'},
    'made_at': {'type': 'timestamp_ntz', 'encoding': 'io.debezium.time.MicroTimestamp'},
    'amount': {'type': 'decimal(20,2)', 'encoding': 'org.apache.kafka.connect.data.Decimal:2'},
    'tags': 'array<string>', 'marks': 'map<string,string>', 'place': 'string',
"""
CAPTURES = Path(__file__).parents[1] / "captures"
RELATIONAL = ("mariadb", "oracle", "sqlserver", "db2")
HISTORY_OF = (
    "id", "name", "price", "made_at", "is_new", "doc", "valid_from", "valid_to", "is_current", "opened_by", "closed_by",
    "amount", "tags", "marks", "place", "note",
    "previous_key", "next_key", "is_start_known", "unresolved_columns", "exact_values", "position", "transaction_id",
    "offset",
)  # fmt: skip
LOG_OF = (
    "op", "key", "before", "after", "position", "log_number", "server", "transaction_id", "changed_at", "is_read",
    "snapshot", "offset", "previous_key", "next_key", "unavailable_columns", "absent_columns", "exact_values",
    "is_before_whole", "problem",
)  # fmt: skip


def has_history(prefix: str) -> bool:
    """Whether a prefix's history is built; of the others the logs are compared, as equal ones have one history."""
    is_plain = prefix in ("fm_plain", *(f"fm_{one}" for one in RELATIONAL))
    return is_plain or "_flat" in prefix or prefix in ("fm_changing", "fm_rerouted")


def field_of_note(connector: str) -> str:
    """The field of the column `note`: one that records other than rows have too."""
    return "op" if connector == "postgresql" else "ddl"


def base64_of(cents: int) -> str:
    return base64.b64encode(to_bytes(cents)).decode()


def plain_row(number: int, name: str | None, cents: int | None) -> Row:
    price = None if cents is None else base64_of(cents)
    return {
        "id": number, "name": name, "price": price, "made_at": 1_700_000_000_000_000 + number,
        "is_new": number % 2 == 0, "doc": "long" * number, "amount": decimal(AMOUNT), "tags": ["a", None, "b"],
        "marks": {"colour": "red", "none": None}, "place": {"x": number, "label": "here"},
    }  # fmt: skip


def life(prefix: str, connector: str = "postgresql") -> list[Record]:
    """A snapshot, updates, two changes in one transaction, a delete, the row again, and a change of key."""
    field = field_of_note(connector)
    source, table = Source(prefix, connector=connector), Table("items", [*COLUMNS, Column(field)], ("id",))

    def row(number: int, name: str | None, cents: int | None) -> Row:
        return {**plain_row(number, name, cents), field: "x"}

    for number, name, cents in ((1, "one", 1050), (2, 'zwei "2" \\ ü 𝄞', None)):
        table.rows[table.key_of({"id": number})] = row(number, name, cents)
    source.snapshot(table)
    with source.commit():
        source.insert(table, row(3, None, -99))
    with source.commit():
        source.update(table, table.rows["1",], {"name": "one again"})
        source.update(table, table.rows["1",], {"price": base64_of(99_999_999)})
    with source.commit():
        source.delete(table, table.rows["2",])
    with source.commit():
        source.insert(table, row(2, "two", 0))
    with source.commit():
        source.update(table, table.rows["3",], {**row(3, "three", 7), "id": 33})
    return source.records


def rerouted(record: Record) -> Record:
    """ByLogicalTableRouter, PartitionRouting, HeaderToValue and ExtractChangedRecordState, one after another."""
    schema, value = parts_of(record["value"])
    key_schema, key = parts_of(record["key"])
    assert key_schema is not None
    key_schema["fields"].append({"field": "__dbz__physicalTableIdentifier", "type": "string", "optional": False})
    key["__dbz__physicalTableIdentifier"] = record["topic"]
    headers = record["headers"] + [{"key": "Changed", "value": '["name"]'}, {"key": "Unchanged", "value": "[]"}]
    if value is not None:
        value["source"]["id"], value["event_timestamp"] = 100, 1_626_102_708_861
        value["after"] = value["after"] and value["after"] | {"partition_hint": None}
    return record | {
        "topic": f"{record['topic'].partition('.')[0]}.all_shards",
        "partition": record["offset"] % 3,
        "key": json.dumps({"schema": key_schema, "payload": key}),
        "value": value and json.dumps({"schema": schema, "payload": value}),
        "headers": headers,
    }


def without_metadata(record: Record) -> Record:
    """A record of a connector without `provide.transaction.metadata`: its source alone names the transaction."""
    schema, value = parts_of(record["value"])
    return record | {"value": value and json.dumps({"schema": schema, "payload": value | {"transaction": None}})}


def changing(registry: StandIn) -> Callable[[Record], Record | None]:
    """Another form with every record, as a topic has whose converter was changed in the middle."""
    forms: list[Callable[[Record], Record | None]] = [
        lambda one: one, lambda one: avro(one, registry), cloud_event, flattened,
        lambda one: avro(one, registry, "apicurio"), lambda one: flattened(one, with_schema=False),
    ]  # fmt: skip
    return lambda one: forms[one["offset"] % len(forms)](one)


def forms_of(registry: StandIn) -> dict[str, Callable[[Record], Record | None]]:
    """Topic prefix → what its records are made by."""
    return {
        "fm_plain": lambda one: one,
        "fm_hex": lambda one: one,
        "fm_confluent": lambda one: avro(one, registry),
        "fm_apicurio": lambda one: avro(one, registry, "apicurio"),
        "fm_headers": lambda one: avro(one, registry, "headers"),
        "fm_schema_id": lambda one: schema_id(one, registry),
        "fm_compact": lambda one: schema_id(one, registry, is_compact=True),
        "fm_json_schema": lambda one: json_schema(one, registry),
        "fm_event": cloud_event,
        "fm_event_schema": lambda one: cloud_event(without_metadata(one), with_schema=True),
        "fm_event_avro": lambda one: cloud_event(one, registry=registry),
        "fm_flat": flattened,
        "fm_flat_both": lambda one: flattened(one, deletes="rewrite-with-tombstone"),
        "fm_flat_bare": lambda one: flattened(one, with_schema=False),
        "fm_flat_short": lambda one: flattened(one, is_qualified=False),
        "fm_flat_headers": lambda one: flattened(one, deletes="tombstone"),
        "fm_flat_null": lambda one: flattened(one, deletes="tombstone", with_schema=False),
        "fm_flat_only_headers": lambda one: flattened(one, deletes="headers"),
        "fm_rerouted": rerouted,
        "fm_changing": changing(registry),
    }


def forms_of_connectors(registry: StandIn) -> dict[str, Callable[[Record], Record | None]]:
    """Topic prefix → what the records of connectors other than PostgreSQL's are made by."""
    return {
        "fm_flat": flattened,
        "fm_event": cloud_event,
        "fm_confluent": lambda one: avro(one, registry),
    }


def documents() -> list[Record]:
    """The changes that a collection of MongoDB's sent; of reads a CloudEvent tells no time."""
    records = [json.loads(line) for line in renamed(CAPTURES / "synthetic-mongodb-2.5.4", "fm_mongo")]
    return [one for one in records if one["value"] and parts_of(one["value"])[1]["op"] != "r"]


def topic(name: str, *records: Row) -> list[Record]:
    """Records of a topic as its lines have them; of each what is said, and nothing else."""
    nothing = {"topic": name, "partition": 0, "timestamp": 1_700_000_000_000, "key": None, "value": None, "headers": []}
    return [{**nothing, "offset": number, **record} for number, record in enumerate(records)]


def packed(data: bytes) -> Row:
    return {"value_base64": base64.b64encode(data).decode()}


def without(*names: str) -> Row:
    """The value of a flattened row that lacks fields."""
    made = flattened(life("fm_lacking")[3], without=names)
    assert made is not None
    return {"value": made["value"], "key": made["key"]}


def with_op_in_a_header() -> Row:
    """A flattened row whose deletes would be tombstones with no more than `__op` beside them."""
    made = flattened(life("fm_lacking")[3], deletes="tombstone")
    assert made is not None
    return {"value": made["value"], "key": made["key"], "headers": [{"key": "__op", "value": "u"}]}


def payload_first() -> Row:
    """A flattened row whose schema stands behind it."""
    schema, payload = parts_of(without()["value"])
    return {"value": json.dumps({"payload": payload, "schema": schema})}


def read_of_a_document(at: str) -> Row:
    """A CloudEvent of a snapshot's read, which has no time in MongoDB's log; `at` is the event's own."""
    source = {"connector": "mongodb", "name": "fm_mongo", "rs": "rs0", "db": "shop", "collection": "notes"}
    attributes = {f"iodebezium{name}": text for name, text in {**source, "tsms": "0", "snapshot": "true"}.items()}
    event = {"specversion": "1.0", "time": at, "iodebeziumop": "r", **attributes, "data": {"after": '{"_id": 1}'}}
    return {"value": json.dumps(event), "key": '{"id": "1"}'}


def not_understood(registry: StandIn) -> dict[str, tuple[list[Record], str, str]]:
    """Topic → its records, the code that each is held with, and what its reason says."""
    plain = life("fm_bad")[2]
    number = registry.register({"type": "record", "name": "Odd", "fields": [{"name": "a", "type": ["int", "string"]}]})
    several = registry.register({"oneOf": [{"type": "string"}, {"type": "object"}]}, "JSON")
    endless_json = registry.register({"type": "object", "properties": {"next": {"$ref": "#"}}}, "JSON")
    protobuf = registry.register("syntax = 'proto3';", "PROTOBUF")
    union = json.loads(plain["value"])["payload"] | {"ts_ms": {"long": 1_700_000_000_000}}
    within_itself = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    endless = registry.register(within_itself)
    good = base64.b64decode(avro(plain, registry)["value_base64"])
    no_attributes = json.loads(cloud_event(plain)["value"])
    no_attributes = {name: value for name, value in no_attributes.items() if not name.startswith("iodebezium")}
    flat_event = json.loads(cloud_event(plain)["value"]) | {"data": {"id": 1}}
    document = {"_id": 1, "a": None, "__op": "u", "__rs": "rs0", "__collection": "c"}
    lone_document = {"_id": 1, "a": None, "__op": "u", "__deleted": "false"}
    return {
        "fm_bad.unknown": (topic("fm_bad.unknown", packed(wire(4711, b"\2"))), "schema-unknown", "knows no schema"),
        "fm_bad.huge_id": (topic("fm_bad.huge_id", packed(b"\0\0\0\0\0" + b"\xff" * 8)), "schema-unknown", "knows no"),
        "fm_bad.union": (topic("fm_bad.union", packed(wire(number, b"\0\2"))), "schema-not-read", "none of Avro"),
        "fm_bad.endless": (topic("fm_bad.endless", packed(wire(endless, b"\0"))), "schema-not-read", "none of Avro"),
        "fm_bad.several": (topic("fm_bad.several", packed(wire(several, b"{}"))), "schema-not-read", "none of Avro"),
        "fm_bad.next": (topic("fm_bad.next", packed(wire(endless_json, b"{}"))), "schema-not-read", "none of Avro"),
        "fm_bad.protobuf": (
            topic("fm_bad.protobuf", packed(wire(protobuf, b"\0\1"))), "schema-protobuf", "Protobuf isn't read: set",
        ),
        "fm_bad.glue": (
            topic("fm_bad.glue", packed(b"\3\0" + b"\x8b" * 16 + b"\2a")), "schema-of-glue", "AWS Glue's converter",
        ),
        "fm_bad.as_text": (
            topic("fm_bad.as_text", {"value": json.dumps(union)}), "avro-as-text", "land the topic from Kafka",
        ),
        "fm_bad.short": (topic("fm_bad.short", packed(good[:-1])), "avro-not-decoded", "no value of their schema"),
        "fm_bad.long": (topic("fm_bad.long", packed(good + b"\0")), "avro-not-decoded", "no value of their schema"),
        "fm_bad.magic": (topic("fm_bad.magic", packed(b"\0\1")), "value-not-json", "not one JSON object"),
        "fm_bad.base64": (topic("fm_bad.base64", {"value_base64": "%%%"}), "base64-not-understood", "base64"),
        "outbox.event.Odd": (
            topic("outbox.event.Odd", {"value_base64": "%%%", "headers": [{"key": "id", "value": "e-1"}]}),
            "base64-not-understood", "base64",
        ),
        "fm_bad.attributes": (
            topic("fm_bad.attributes", {"value": json.dumps(no_attributes)}),
            "event-without-attributes", "extension.attributes.enable=true",
        ),
        "fm_bad.payload": (topic("fm_bad.payload", payload_first()), "payload-not-last", "digit by digit"),
        "fm_bad.images": (
            topic("fm_bad.images", {"value": json.dumps(flat_event)}),
            "event-without-images", "take ExtractNewRecordState out",
        ),
        "fm_bad.guid": (
            topic("fm_bad.guid", packed(good[5:]) | {
                "headers": [{"key": "__value_schema_id", "value_base64": base64.b64encode(b"\1" * 17).decode()}]
            }),
            "schema-by-guid", "PrefixSchemaIdSerializer",
        ),
        "fm_bad.time": (
            topic("fm_bad.time", read_of_a_document("1970-01-01T00:00:00Z")), "event-without-time", "MongoDB's reads",
        ),
        "fm_bad.document": (
            topic("fm_bad.document", {"value": json.dumps(document)}), "flattened-document", "ExtractNewDocumentState",
        ),
        "fm_bad.lone_document": (
            topic("fm_bad.lone_document", {"key": '{"id": "1"}', "value": json.dumps(lone_document)}),
            "flattened-document", "ExtractNewDocumentState",
        ),
        "fm_bad.lacking": (
            topic("fm_bad.lacking", without("__source_lsn", "__source_ts_ms", "__source_ts_us", "__source_ts_ns")),
            "flattened-without-fields", "lacks __source_ts_ms, __source_lsn: have ExtractNewRecordState add them",
        ),
        "fm_bad.deletes": (
            topic("fm_bad.deletes", {"value": json.dumps({"id": 1, "__op": "c", "__table": "t"})}),
            "flattened-without-fields",
            "lacks __source_connector, __source_name, __source_db, __source_ts_ms, __deleted",
        ),
        "fm_bad.header": (
            topic("fm_bad.header", with_op_in_a_header()), "flattened-without-fields", "lacks __deleted: have",
        ),
        "fm_bad.bare": (topic("fm_bad.bare", {"value": '{"field1": "newvalue1"}'}), "no-envelope", "add.fields"),
    }  # fmt: skip


OUTBOX = {"id": 1, "customerId": 123, "total": 39.98, "topic": "the router's own name"}
EVENTS = [
    {
        "key": "1", "value": json.dumps(OUTBOX),
        "headers": [{"key": "id", "value": "e-1"}, {"key": "type", "value": "made"}],
    },
    {"key": '"2"', "value": json.dumps(json.dumps(OUTBOX | {"id": 2})), "headers": [{"key": "id", "value": '"e-2"'}]},
    {"key": "1", "value": json.dumps(OUTBOX), "headers": [{"key": "id", "value": "e-1"}]},
    {"key": "3", "value": "no JSON at all", "headers": [{"key": "id", "value": "e-3"}]},
    {"key": "4", **packed(b"\xff\xfe"), "headers": [{"key": "id", "value": "e-4"}]},
    {
        "key": "5", "headers": [{"key": "id", "value": "e-5"}],
        # An envelope as a payload is a payload all the same.
        "value": json.dumps({"schema": None, "payload": {"op": "c", "id": 5, "source": {"name": "x", "table": "t"}}}),
    },
    {
        "key": "6", "headers": [{"key": "id", "value": "e-6"}],
        "value": f'{{"schema": null, "payload": {{"id": 6, "price": {AMOUNT}}}}}',
    },
    {"key": "7", "headers": [{"key": "id", "value": "e-7"}], "value": '{"schema": null, "payload": null}'},
    # Events without an id are no deliveries of one another.
    {"key": "8", "headers": [{"key": "id", "value": None}], "value": "the same"},
    {"key": "8", "headers": [{"key": "id", "value": None}], "value": "the same"},
    # The table was emptied, and counts from one.
    {"key": "9", "headers": [{"key": "id", "value": "e-1"}], "value": '"Smith","John",42'},
    {
        "key": '{"schema": {"type": "string", "optional": false}, "payload": "10000"}',
        "headers": [{"key": "id", "value": "e-10"}], "value": '{"total (EUR)": 7}',
    },
    {"key": "11", "headers": [{"key": "id", "value": "e-11"}], "value": '[{"sku": "a"}, {"sku": "b"}]'},
    {"key": "12", "headers": [{"key": "id", "value": "e-12"}], "value": json.dumps('[{"sku": "c"}]')},
    # CloudEventsConverter behind the router, and an application's own CloudEvent.
    {
        "key": "13", "headers": [{"key": "id", "value": "e-13"}],
        "value": f'{{"id": "x", "specversion": "1.0", "iodebeziumop": "c", "data": {{"id": 13, "price": {AMOUNT}}}}}',
    },
    {
        "key": "14", "headers": [{"key": "id", "value": "e-14"}],
        "value": json.dumps({"specversion": "1.0", "iodebeziumop": "c", "data": base64.b64encode(b'"text"').decode()}),
    },
    {"key": "15", "headers": [{"key": "id", "value": "e-15"}], "value": '{"specversion": "1.0", "data": {"id": 15}}'},
]  # fmt: skip


@dataclass(frozen=True)
class Built:
    """One landing and one build of every form."""

    places: Places
    tables: dict[str, CapturedTable]
    registry: StandIn
    requests: list[str]
    landed: Landed
    held: dict[str, list[Any]]

    def versions(self, prefix: str) -> list[Row]:
        """A prefix's history in order, without what its name or its routing decides."""
        history = self.tables[prefix].history
        assert history is not None
        versions = sorted(rows_of(history.location), key=lambda one: (one["position"], one["offset"]))
        return [{name: version[name] for name in HISTORY_OF} for version in versions]

    def log(self, prefix: str) -> list[Row]:
        """A prefix's changes in order, without what its name decides."""
        log = rows_of(self.tables[prefix].changes.location)
        changes = sorted(log, key=lambda one: (one["position"], one["offset"]))
        return [{name: change[name] for name in LOG_OF} for change in changes]

    def tell(self, prefix: str, plain: str) -> tuple[list[Row], list[Row]]:
        """What is to be alike of a prefix and of the one whose records nothing has formed."""
        one = self.versions if has_history(prefix) else self.log
        return one(prefix), one(plain)


def landed(spark: SparkSession, places: Places, name: str, records: Iterable[Record]) -> Landed:
    file = places.project.parent / f"{name}.jsonl"
    spelled = [record | {"value": numeric(record["value"])} if record.get("value") else record for record in records]
    file.write_text("".join(json.dumps(record) + "\n" for record in spelled))
    return land_files(spark, places, [str(file)], Landing(name, datetime.now(UTC)))


@pytest.fixture(scope="module")
def built(spark: SparkSession, registry: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Built:
    home = tmp_path_factory.mktemp("forms")
    project = empty_project(home / "project")
    places = Places.of(project)
    records: list[Record] = []
    forms = forms_of(registry)
    for prefix, form in forms.items():
        records += [made for one in life(prefix) if (made := form(one)) is not None]
    of_connectors = {
        f"{prefix}_{connector}": (form, connector)
        for connector in RELATIONAL
        for prefix, form in {"fm": forms["fm_plain"], **forms_of_connectors(registry)}.items()
    }
    for prefix, (form, connector) in of_connectors.items():
        records += [made for one in life(prefix, connector) if (made := form(one)) is not None]
    records += [cloud_event(one) for one in documents()]
    records += topic("fm_mongo.read", read_of_a_document("2020-01-13T13:55:39.738Z"))
    records += [record for bad, _, _ in not_understood(registry).values() for record in bad]
    records += topic("outbox.event.Order", *EVENTS)
    registry.requests.clear()
    outcome = landed(spark, places, "forms", records)
    requests = list(registry.requests)
    connectors = dict.fromkeys(forms, "postgresql") | {prefix: name for prefix, (_, name) in of_connectors.items()}
    for table in seen_tables(spark, places):
        if table.source in connectors:
            source, history = f"models/bronze/{table.name}.yml", f"models/gold/history/{table.name}_history.sql"
            wanted = (source, history) if has_history(table.source) else (source,)
            write(project, {path: text for path, text in files_of(table).items() if path in wanted})
            note = f"'note': {{'type': 'string', 'field': '{field_of_note(connectors[table.source])}'}}"
            arguments = f"'{table.source}', '{table.source_table}', key=['id'], columns={{{DECLARED} {note}}}"
            model = f"models/silver/changes/{table.name}_changes.sql"
            write(project, {model: f"{{{{ changes({arguments}) }}}}\n"})
    write(project, files_of_events(seen_events(spark, places)))
    settings = project / "dbt_project.yml"
    placeholder = "hex:" + UNAVAILABLE.encode().hex()
    settings.write_text(
        settings.read_text().replace("sources: {}", f"sources: {{fm_hex: {{placeholder: '{placeholder}'}}}}")
    )
    run_models(
        places, "--select", "config.materialized:changes", "config.materialized:history", "config.materialized:remade"
    )
    held: dict[str, list[Any]] = {}
    for entry in held_entries(spark, places, []).where("topic like 'fm\\_%' or topic like 'outbox.%'").collect():
        held.setdefault(entry["topic"], []).append(entry)
    tables = {table.source_name: table for table in captured_tables(places)}
    return Built(places, tables, registry, requests, outcome, held)


# An object, and its field `payload` as it stands there
SPELLED = [
    ('{"schema":{"field":"payload"},"payload":{"a":12345678901234567.89}}', '{"a":12345678901234567.89}'),
    (' { "schema" : null , "payload" : {"a": 1.50 } }\n', '{"a": 1.50 }'),
    ('{"schema":{"payload":{"x":1},"b":2},"payload":{"a":0.10}}', '{"a":0.10}'),
    ('{"schema":"\\"payload\\":","payload":{"payload":0.10}}', '{"payload":0.10}'),
    ('{"payload":{"a":1},"schema":null}', '{"a":1}'),
    ('{"payload":{"a":0.10},"schema":null}', None),
    ('{"schema":null,"payload":"{\\"a\\":0.10}"}', '{"a":0.10}'),
    ('{"schema":null,"payload":null}', None),
    ('{"schema":null}', None),
]  # fmt: skip


def test_a_field_is_taken_as_it_is_spelled_or_not_at_all(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(text,) for text, _ in SPELLED], "text string")
    field = exact_field(F.col("text"), "payload", F.from_json("text", "payload string")["payload"])

    assert dict(rows.select("text", field).collect()) == dict(SPELLED)


def test_the_life_is_what_it_was(built: Built) -> None:
    lives = [
        (one["id"], one["name"], str(one["price"]), one["opened_by"], one["closed_by"])
        for one in built.versions("fm_plain")
    ]

    assert sorted(lives) == [
        (1, "one", "10.50", "snapshot", "update"), (1, "one again", "999999.99", "update", None),
        (2, "two", "0.00", "insert", None), (2, "zwei \"2\" \\ ü 𝄞", "None", "snapshot", "delete"),
        (3, None, "-0.99", "insert", "key_change"), (33, "three", "0.07", "key_change", None),
    ]  # fmt: skip


@pytest.mark.parametrize("form", [name for name in forms_of(StandIn()) if name != "fm_plain"])
def test_the_same_history_comes_out_of_each_form(built: Built, form: str) -> None:
    found, plain = built.tell(form, "fm_plain")

    assert found == plain != []


@pytest.mark.parametrize("connector", RELATIONAL)
@pytest.mark.parametrize("form", forms_of_connectors(StandIn()))
def test_each_form_tells_the_history_of_each_connector(built: Built, form: str, connector: str) -> None:
    assert len(built.versions(f"fm_{connector}")) == 6
    found, plain = built.tell(f"{form}_{connector}", f"fm_{connector}")
    assert found == plain != []


def test_the_report_knows_rows_that_a_transform_flattened(built: Built, spark: SparkSession) -> None:
    described = fields(spark, built.places, list(built.tables.values()))
    flattened = {table.source_name for table in built.tables.values() if described[table.name].is_flattened}
    of_connectors = {f"fm_flat_{connector}" for connector in RELATIONAL}

    assert flattened - {"fm_changing"} == {one for one in forms_of(StandIn()) if "_flat" in one} | of_connectors


def test_values_of_every_kind_are_what_they_were(built: Built) -> None:
    version = built.versions("fm_plain")[0]

    assert {str(one["amount"]) for one in built.versions("fm_plain")} == {AMOUNT}
    assert (version["tags"], dict(version["marks"])) == (["a", None, "b"], {"colour": "red", "none": None})
    assert (json.loads(version["place"]), version["note"]) == ({"x": version["id"], "label": "here"}, "x")


def test_documents_come_out_of_cloud_events_as_they_were(built: Built, spark: SparkSession) -> None:
    stored = bronze.read(spark, built.places, "records").where("topic like 'fm\\_mongo.%' and plain_value is not null")
    plain = {(one["topic"], one["offset"]): json.loads(one["plain_value"]) for one in stored.collect()}
    [read] = [plain.pop(place) for place in list(plain) if place[0] == "fm_mongo.read"]
    sent = {(one["topic"], one["offset"]): parts_of(one["value"])[1] for one in documents()}

    assert (read["ts_ms"], read["after"]) == ("1578923739738", '{"_id": 1}')
    assert plain.keys() == sent.keys()
    for place, was in sent.items():
        now = plain[place]
        before = {name: str(value) for name, value in was["source"].items() if value is not None}
        assert {name: now["source"].get(name) for name in before} == before
        for name in ("op", "before", "after", "updateDescription"):
            assert now.get(name) == was.get(name)


def test_bronze_keeps_what_came_and_the_plain_form_beside_it(built: Built, spark: SparkSession) -> None:
    records = bronze.read(spark, built.places, "records").where("topic = 'fm_confluent.public.items' and offset = 2")
    [stored] = records.collect()
    sent = avro(life("fm_confluent")[2], built.registry)
    plain = json.loads(stored["plain_value"])

    assert base64.b64encode(stored["value"]).decode() == sent["value_base64"]
    assert base64.b64encode(stored["key"]).decode() == sent["key_base64"]
    assert stored["plain_key"] == '{"id":3}'
    assert plain["after"] == plain_row(3, None, -99) | {"op": "x", "amount": base64_of(int(AMOUNT.replace(".", "")))}
    assert plain["before"] is None
    untouched = bronze.read(spark, built.places, "records").where("topic = 'fm_plain.public.items'")
    assert untouched.where("plain_key is not null or plain_value is not null").count() == 0


def inserted(prefix: str, name: str, row: Row) -> Record:
    """The record of a row of texts, with a number as its key."""
    source = Source(prefix)
    table = Table(name, [Column("id", {"type": "int32"}), *[Column(column) for column in row]], ("id",))
    with source.commit():
        source.insert(table, {"id": 1, **row})
    return source.records[0]


def test_names_that_spark_would_not_read_come_out_of_avro(built: Built, spark: SparkSession) -> None:
    # A namespace with a hyphen is what a prefix with one makes where schema.name.adjustment.mode is none.
    row = {"Name": "upper", "name": "lower", "order-id": "no name of Avro's"}
    result = landed(spark, built.places, "odd", [avro(inserted("fm-odd", "people", row), built.registry)])
    [stored] = bronze.read(spark, built.places, "records").where("topic = 'fm-odd.public.people'").collect()

    assert (result.landed, result.quarantined) == (1, 0)
    assert json.loads(stored["plain_key"]) == {"id": 1}
    assert json.loads(stored["plain_value"])["after"] == {"id": 1, **row}


def test_a_flattened_row_is_one_whatever_its_columns_are_called_and_wherever_its_op_is(
    built: Built, spark: SparkSession
) -> None:
    made = flattened(
        inserted("fm_headers_op", "events", {"aggregate_type": "order", "type": "made"}), with_schema=False
    )
    assert made is not None
    row = json.loads(made["value"])
    op = {"key": "__op", "value": row.pop("__op")}
    result = landed(spark, built.places, "headers", [made | {"value": json.dumps(row), "headers": [op]}])
    [stored] = bronze.read(spark, built.places, "records").where("topic = 'fm_headers_op.public.events'").collect()

    assert (result.landed, result.quarantined) == (1, 0)
    assert (stored["kind"], stored["op"], stored["table"]) == ("change", "c", "events")


def test_columns_that_are_called_as_what_a_transform_adds_are_the_table_s_own(
    built: Built, spark: SparkSession
) -> None:
    row = {"__version": "1", "__name": "own", "__table": None, "__row": "2", "__collection": "stamps", "__lsn": "none",
           "__origin": "shop", "specversion": "1", "data": "d"}  # fmt: skip
    made = {
        prefix: flattened(inserted(prefix, "odd", row), with_schema=with_schema, is_qualified=is_qualified)
        for prefix, with_schema, is_qualified in (
            ("fm_own", True, True),
            ("fm_own_bare", False, True),
            ("fm_own_short", True, False),
        )
    }
    result = landed(spark, built.places, "own", [one for one in made.values() if one])
    stored = bronze.read(spark, built.places, "records").where("source_name like 'fm\\_own%'")
    columns = {table.source: {column.name for column in table.columns} for table in seen_tables(spark, built.places)}

    assert (result.landed, result.quarantined) == (3, 0)
    assert {(one["op"], one["table"]) for one in stored.collect()} == {("c", "odd")}
    assert columns["fm_own"] == columns["fm_own_bare"] == {"id", *row}
    # Nothing tells these from the transform's.
    assert columns["fm_own_short"] == {"id", "specversion", "data"}


def test_any_field_of_a_source_may_stand_beside_a_row(built: Built, spark: SparkSession) -> None:
    beside = {"__id": "745:26550408", "__total_order": "2", "__query": "insert …", "__source_redo_sql": "insert …",
              "__source_row_id": "AAA", "__start_scn": "5", "__origin_lsn": "7"}  # fmt: skip
    made = {
        prefix: flattened(inserted(prefix, "odd", beside), is_qualified=is_qualified)
        for prefix, is_qualified in (("fm_beside", True), ("fm_beside_short", False))
    }
    result = landed(spark, built.places, "beside", [one for one in made.values() if one])
    stored = bronze.read(spark, built.places, "records").where("source_name like 'fm\\_beside%'").collect()
    columns = {table.source: {column.name for column in table.columns} for table in seen_tables(spark, built.places)}
    plain = {one["source_name"]: json.loads(one["plain_value"]) for one in stored}

    assert (result.landed, result.quarantined) == (2, 0)
    assert (columns["fm_beside"], columns["fm_beside_short"]) == ({"id", "__id", "__total_order"}, {"id"})
    assert plain["fm_beside"]["transaction"] is None
    assert plain["fm_beside_short"]["transaction"] == {"id": "745:26550408", "total_order": "2"}
    for one in plain.values():
        told = {name: one["source"].get(name) for name in ("row_id", "start_scn", "origin_lsn", "query", "redo_sql")}
        assert told == {"row_id": "AAA", "start_scn": "5", "origin_lsn": "7", "query": None, "redo_sql": None}


def test_types_come_out_of_avro_as_out_of_json(built: Built, spark: SparkSession) -> None:
    tables = {table.source: table for table in seen_tables(spark, built.places)}
    plain = {(column.name, column.type) for column in tables["fm_plain"].columns}

    assert ("price", "decimal(10,2)") in plain
    for form in ("fm_confluent", "fm_schema_id", "fm_event_schema", "fm_event_avro", "fm_flat"):
        assert {(column.name, column.type) for column in tables[form].columns} == plain


def test_each_schema_is_asked_for_once(built: Built) -> None:
    assert built.requests
    assert [path for path, count in Counter(built.requests).items() if count > 1] == []


@pytest.mark.parametrize("name", list(not_understood(StandIn())))
def test_what_can_not_be_read_is_held_with_a_code(built: Built, name: str) -> None:
    records, code, words = not_understood(built.registry)[name]

    assert [entry["code"] for entry in built.held[name]] == [code] * len(records)
    assert all(words in entry["reason"] for entry in built.held[name])


def test_nothing_else_is_held(built: Built) -> None:
    assert set(built.held) == set(not_understood(StandIn()))
    assert built.landed.read == built.landed.landed + built.landed.quarantined


def test_the_same_records_again_add_nothing(built: Built, spark: SparkSession) -> None:
    again = land_files(
        spark, built.places, [str(built.places.project.parent / "forms.jsonl")], Landing("again", datetime.now(UTC))
    )

    assert (again.read, again.landed, again.quarantined) == (built.landed.read, 0, 0)


def test_outbox_events_have_a_typed_table(built: Built) -> None:
    events = sorted(rows_of(built.places.table("silver", "outbox__order_events")), key=lambda one: one["offset"])

    assert [(one["event_id"], one["aggregate_type"], one["aggregate_id"], one["event_type"]) for one in events] == [
        ("e-1", "Order", "1", "made"), ("e-2", "Order", "2", None), ("e-3", "Order", "3", None),
        ("e-4", "Order", "4", None), ("e-5", "Order", "5", None), ("e-6", "Order", "6", None),
        ("e-7", "Order", "7", None), (None, "Order", "8", None), (None, "Order", "8", None),
        ("e-1", "Order", "9", None), ("e-10", "Order", "10000", None), ("e-11", "Order", "11", None),
        ("e-12", "Order", "12", None), ("e-13", "Order", "13", None), ("e-14", "Order", "14", None),
        ("e-15", "Order", "15", None),
    ]  # fmt: skip
    assert [(one["id"], one["customerId"], one["total"]) for one in events[:2]] == [
        (1, 123, Decimal("39.98")),
        (2, 123, Decimal("39.98")),
    ]
    assert [one["payload"] for one in events[2:4]] == ["no JSON at all", None]
    assert (events[0]["topic"], events[0]["offset"]) == ("outbox.event.Order", 0)
    assert events[4]["id"] == 5
    assert (events[5]["payload"], events[5]["price"]) == (f'{{"id": 6, "price": {AMOUNT}}}', Decimal(AMOUNT))
    assert events[6]["payload"] is None
    assert events[9]["payload"] == '"Smith","John",42'
    assert events[10]["total (EUR)"] == 7
    assert [one["payload"] for one in events[11:13]] == ['[{"sku": "a"}, {"sku": "b"}]', '[{"sku": "c"}]']
    assert "sku" not in events[0]
    assert [one["payload"] for one in events[13:]] == [
        f'{{"id": 13, "price": {AMOUNT}}}', "text", '{"specversion": "1.0", "data": {"id": 15}}',
    ]  # fmt: skip
    assert (events[13]["id"], events[13]["price"]) == (13, Decimal(AMOUNT))


def waiting(
    spark: SparkSession, built: Built, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> tuple[list[dict[str, Any]], DataFrame]:
    """Records that were landed while nobody named the registry, and their entries; it is named again."""
    records = [avro(one, built.registry) for one in life(prefix)]
    with monkeypatch.context() as without:
        without.delenv("TIDEMARK_REGISTRY_FILE")
        result = landed(spark, built.places, f"{prefix}-waiting", records)
    assert (result.landed, result.quarantined) == (0, len(records))
    return records, held_entries(spark, built.places, []).where(f"topic = '{prefix}.public.items'")


def test_records_wait_for_a_registry_and_are_released(
    spark: SparkSession, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, entries = waiting(spark, built, monkeypatch, "fm_late")

    assert {one["code"] for one in entries.collect()} == {"registry-unknown"}
    ids = [one["quarantine_id"] for one in entries.collect()]
    assert release(spark, built.places, ids, "release", datetime.now(UTC)) == Released(len(records), len(records), 0)
    assert entries.count() == 0


def test_what_bronze_has_is_held_no_longer_whichever_way_it_came(
    spark: SparkSession, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, entries = waiting(spark, built, monkeypatch, "fm_twice")
    ids = [one["quarantine_id"] for one in entries.collect()]

    assert landed(spark, built.places, "again", records).landed == len(records)
    assert release(spark, built.places, ids, "release", datetime.now(UTC)).released == len(records)
    assert entries.count() == 0
    assert release(spark, built.places, ids, "release", datetime.now(UTC)) == Released(0, 0, 0)

    more = [avro(one, built.registry) for one in life("fm_thrice")]
    assert landed(spark, built.places, "understood", more).landed == len(more)
    monkeypatch.delenv("TIDEMARK_REGISTRY_FILE")
    assert landed(spark, built.places, "not understood", more).quarantined == 0


def test_a_line_that_can_not_be_read_is_kept_whole_and_not_released(built: Built, spark: SparkSession) -> None:
    [entry] = held_entries(spark, built.places, []).where("topic = 'fm_bad.base64'").collect()
    released = release(spark, built.places, [entry["quarantine_id"]], "release", datetime.now(UTC))

    assert '"value_base64": "%%%"' in entry["line"]
    assert released == Released(0, 0, 1)
    assert bronze.read(spark, built.places, "records").where("topic = 'fm_bad.base64'").count() == 0


def test_a_line_has_the_names_of_kcat_and_of_files(built: Built, spark: SparkSession) -> None:
    sent = life("fm_mixed")[2]
    header = {"key": "h", "value": "1"}
    record = {**sent, "ts": 1_700_000_000_001, "tstype": "create", "timestamp": None, "headers": [header]}
    landed(spark, built.places, "mixed", [record])
    [stored] = bronze.read(spark, built.places, "records").where("topic = 'fm_mixed.public.items'").collect()

    assert (stored["kind"], stored["value"].decode()) == ("change", numeric(sent["value"]))
    assert stored["timestamp"].microsecond == 1_000
    assert [(one["key"], bytes(one["value"])) for one in stored["headers"]] == [("h", b"1")]


def test_a_line_may_tell_numbers_and_times_as_texts(built: Built, spark: SparkSession) -> None:
    sent = life("fm_texts")[2]
    times = ["2023-11-14T22:13:20.001Z", "2023-11-14 23:13:20.001+01:00", "1700000000001", 1_700_000_000_001]
    spelled = [{"partition": "0", "offset": str(place), "timestamp": time} for place, time in enumerate(times, 7)]
    landed(spark, built.places, "texts", [{**sent, **one} for one in spelled])
    stored = bronze.read(spark, built.places, "records").where("topic = 'fm_texts.public.items'").collect()

    assert sorted((row["partition"], row["offset"]) for row in stored) == [(0, 7), (0, 8), (0, 9), (0, 10)]
    assert {row["timestamp"].isoformat()[:23] for row in stored} == {"2023-11-14T22:13:20.001"}
    assert {(row["kind"], row["value"].decode()) for row in stored} == {("change", numeric(sent["value"]))}


def test_offsets_that_come_with_several_contents_are_said(
    built: Built, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = life("fm_doubled")[:3]
    lines = [first, second, {**third, "offset": second["offset"]}, {**first}]
    outcome = landed(spark, built.places, "doubled", lines)
    say_landed(outcome)

    assert [(one.topic, one.offsets, one.first_offset) for one in outcome.doubled] == [
        ("fm_doubled.public.items", 1, second["offset"])
    ]
    assert f"1 offset has several contents, the first {second['offset']} (" in capsys.readouterr().out
    assert landed(spark, built.places, "said_twice", [third, {**third}]).doubled == []
    later = landed(spark, built.places, "doubled_later", [third, {**third, "offset": first["offset"]}])
    assert [(one.offsets, one.first_offset) for one in later.doubled] == [(1, first["offset"])]
    outcome.add(later)
    assert [(one.offsets, one.first_offset) for one in outcome.doubled] == [(2, second["offset"])]


def test_a_line_without_a_value_is_a_tombstone_unless_another_field_may_be_it(
    built: Built, spark: SparkSession
) -> None:
    common = {"topic": "fm_valueless", "partition": 0, "key": '{"id": 1}'}
    parts: list[Row] = [
        {"offset": 0},
        {"offset": 1, "broker": 1},
        {"offset": 2, "value": None, "size": 0},
        {"offset": 3, "body": "{}"},
        {"offset": 4, "value": "null"},
        {"offset": 5, "value": '{"schema": {"type": "struct", "optional": true}, "payload": null}'},
        {"offset": 6, "payload": None, "payload_error": "Invalid CP1 magic byte 123, expected 0"},
    ]
    landed(spark, built.places, "valueless", [{**common, **one} for one in parts])
    kinds = (
        bronze.read(spark, built.places, "records").where("topic = 'fm_valueless'").select("offset", "kind").collect()
    )
    entries = held_entries(spark, built.places, []).where("topic = 'fm_valueless'").collect()

    assert {row["offset"]: row["kind"] for row in kinds} == dict.fromkeys((0, 1, 2, 4, 5), "tombstone")
    assert {entry["offset"]: entry["code"] for entry in entries} == {3: "line-without-value", 6: "line-not-decoded"}


def test_a_registry_that_is_down_lands_nothing_and_loses_nothing(
    spark: SparkSession, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bronze.last_batch(spark, built.places)
    monkeypatch.setattr(built.registry, "status", 503)
    built.registry.requests.clear()
    records = [avro(one, built.registry) for one in life("fm_down")]
    with pytest.raises(Fault, match=r"The schema registry at .* answered with status 503. Nothing more was landed"):
        landed(spark, built.places, "down", records)

    assert bronze.last_batch(spark, built.places) == before
    assert len(built.registry.requests) == 3
    monkeypatch.setattr(built.registry, "status", None)
    assert landed(spark, built.places, "down", records).landed == len(records)


def test_random_ids_ask_the_registry_a_bounded_number_of_times(
    spark: SparkSession, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.landing.avro.MOST_SCHEMAS", 40)
    built.registry.requests.clear()
    records = topic("fm_random", *[packed(wire(10_000 + number, b"\2")) for number in range(90)])
    outcome = landed(spark, built.places, "random", records)
    codes = Counter(one["code"] for one in held_entries(spark, built.places, []).where("topic = 'fm_random'").collect())

    assert outcome.quarantined == len(records)
    assert len(built.registry.requests) == 40
    assert codes == {"schema-unknown": 40, "schema-not-asked": 50}
