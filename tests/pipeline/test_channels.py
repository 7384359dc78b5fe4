"""What arrives beside changes has tables of its own: messages, schema versions, snapshots (R17).

One lakehouse, two landings. `ch_a` comes whole and in order; `ch_b` is the same, cut in two and turned around, with
everything delivered once more behind it. Its tables have to be equal.
"""

from __future__ import annotations

import base64
import copy
import gzip
import io
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import fastavro
import pytest
from pyspark.sql import SparkSession

from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable, Declared, captured_tables, declared_tables, run_dbt
from spark_jobs.landing.land import Landing, land_files
from spark_jobs.macro_queries import written
from spark_jobs.places import Places
from spark_jobs.quarantine import held_entries
from spark_jobs.reporting.accounting import built_through
from spark_jobs.reporting.bronze_contents import Content, contents
from spark_jobs.reporting.kafka import TopicLag
from spark_jobs.reporting.liveness import CHANGING, DEAD, NOTHING_NEW, pulses
from spark_jobs.reporting.measures import measure
from spark_jobs.reporting.quarantine import Held
from spark_jobs.reporting.schema_changes import SchemaChange, because, because_of_key, schema_changes
from spark_jobs.scaffolding.tables import seen_channels, seen_tables
from spark_jobs.scaffolding.write import files_of, files_of_channels, write
from tests.forms import wire
from tests.jobs.lines import text
from tests.projects import account_of, declare_history, empty_project, rows_of
from tests.registry import StandIn

Record: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]

CAPTURES = Path(__file__).parents[1] / "captures"
CORPUS = Path(__file__).parents[1] / "corpus"
# What differs between two prefixes by what they are, and not by how their records came.
OWN = ("batch_id", "landed_at", "snapshot_id")
STARTED = 1_795_000_000_000
LANDED = datetime.fromtimestamp(STARTED / 1000, UTC) + timedelta(days=1)


def record(topic: str, offset: int, key: Any, value: Any, timestamp: int | None = None) -> Record:
    return {
        "topic": topic, "partition": 0, "offset": offset, "timestamp": timestamp, "key": text(key),
        "value": text(value), "headers": [],
    }  # fmt: skip


def captured(capture: str, topic: str, prefix: str) -> list[Record]:
    """A topic of a capture, `inv` being another prefix."""
    with gzip.open(CAPTURES / capture / "records.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [
        one
        | {
            "topic": topic.replace("inv", prefix),
            "value": one["value"] and one["value"].replace('"name":"inv"', f'"name":"{prefix}"'),
        }
        for one in records
        if one["topic"] == topic
    ]


def example(name: str) -> Any:
    """An example as the documents print it."""
    return json.loads((CORPUS / f"{name}.json").read_text(encoding="utf-8"))


def notice(prefix: str, offset: int, kind: str, what: str, **data: str) -> Record:
    """A notification, a second behind the one before."""
    value = {
        "id": data.pop("id", "ff81ba59"), "aggregate_type": f"{kind} Snapshot", "type": what,
        "additional_data": {"connector_name": prefix, **data}, "timestamp": str(STARTED + offset * 1000),
    }  # fmt: skip
    return record(f"{prefix}.tells", offset, {"id": value["id"]}, value)


DONE = {"scanned_collection": "public.a", "total_rows_scanned": "9", "status": "SUCCEEDED"}
EMPTY = {"scanned_collection": "public.b", "total_rows_scanned": "0", "status": "SUCCEEDED"}
AT_WORK = {"current_collection_in_progress": "public.a", "maximum_key": "99", "last_processed_key": "50"}
NOTICES: list[tuple[str, str, Row]] = [
    ("Initial", "STARTED", {}), ("Initial", "IN_PROGRESS", AT_WORK), ("Initial", "TABLE_SCAN_COMPLETED", DONE),
    ("Initial", "TABLE_SCAN_COMPLETED", EMPTY), ("Initial", "COMPLETED", {}),
    ("Initial", "STARTED", {}), ("Initial", "ABORTED", {}), ("Initial", "SKIPPED", {}),
    ("Incremental", "STARTED", {}), ("Incremental", "IN_PROGRESS", AT_WORK), ("Incremental", "PAUSED", {}),
    ("Incremental", "RESUMED", {}), ("Incremental", "IN_PROGRESS", AT_WORK),
    ("Incremental", "TABLE_SCAN_COMPLETED", DONE),
]  # fmt: skip


def stopped_in_parts() -> Iterator[tuple[str, Row]]:
    """An incremental snapshot that a second signal adds a table to, and of which others stop tables; one behind it."""
    first, second = {"id": "ad-hoc-2"}, {"id": "ad-hoc-3"}
    yield "STARTED", {**first, "data_collections": "public.p,public.q,public.r"}
    yield "IN_PROGRESS", {
        **second, "data_collections": "public.p,public.q,public.r,public.s",
        "current_collection_in_progress": "public.p",
    }  # fmt: skip
    yield "ABORTED", {**second, "data_collections": "public.p"}
    yield "ABORTED", {**second, "data_collections": ""}
    of_q = {"scanned_collection": "public.q", "total_rows_scanned": "0", "status": "EMPTY"}
    yield "TABLE_SCAN_COMPLETED", {**second, **of_q, "data_collections": "public.q,public.r,public.s"}
    # Where the last tables are stopped, the queue is empty before it is said what was stopped, and the id is forgotten.
    yield "COMPLETED", second
    yield "ABORTED", {"id": "0a6f", "data_collections": "public.s,public.r"}
    # Its STARTED was lost, and that of the one before it was not.
    yield "IN_PROGRESS", {
        "id": "ad-hoc-4", "data_collections": "public.p", "current_collection_in_progress": "public.p",
    }  # fmt: skip


def notices(prefix: str) -> list[Record]:
    """An initial snapshot of two tables, one that was aborted, one that was skipped, an incremental one that rested."""
    notices = []
    for offset, (kind, what, more) in enumerate(NOTICES):
        about = {} if kind == "Initial" and not more else {"data_collections": "public.a, public.b"}
        of_signal = {"id": "ad-hoc-1"} if kind == "Incremental" else {}
        notices.append(notice(prefix, offset, kind, what, **about, **of_signal, **more))
    stopped = (
        notice(prefix, len(NOTICES) + number, "Incremental", what, **more)
        for number, (what, more) in enumerate(stopped_in_parts())
    )
    return [*notices, *stopped]


def signals(prefix: str) -> list[Record]:
    """Signals by Kafka, and by a table, which has the rows of windows too."""
    asked = {"type": "execute-snapshot", "data": {"data-collections": ["public.c"], "type": "INCREMENTAL"}}
    kafka = [
        record(f"{prefix}-signal", 0, prefix, asked, STARTED),
        record(f"{prefix}-signal", 1, prefix, {"type": "stop-snapshot", "data": {"type": "INCREMENTAL"}}, STARTED),
        record(f"{prefix}-signal", 2, prefix, {"type": "execute-snapshot", "data": {"type": "BLOCKING"}}, STARTED),
        record(f"{prefix}-signal", 3, prefix, {"id": "ad-hoc-2", "type": "execute-snapshot", "data": {
            "data-collections": ["public.[p-r]"], "additional-conditions": [
                {"data-collection": "public.q", "filter": "true"}
            ],
        }}, STARTED),
        record(f"{prefix}-signal", 4, prefix, {"id": "ad-hoc-3", "type": "execute-snapshot", "data": {
            "data-collections": ["public.s"],
        }}, STARTED),
    ]  # fmt: skip
    rows: list[Row] = [
        {"id": "ad-hoc-1", "type": "execute-snapshot", "data": json.dumps({
            "data-collections": ["public.a", "public.b"], "type": "incremental",
            "additional-conditions": [{"data-collection": r"public\.a", "filter": "color='blue'"}],
        })},
        {"id": "1-open", "type": "snapshot-window-open", "data": None},
        {"id": "1-close", "type": "snapshot-window-close", "data": None},
    ]  # fmt: skip
    table = []
    for offset, row in enumerate(rows):
        source = {
            "connector": "postgresql", "name": prefix, "ts_ms": STARTED - 1000 + offset, "snapshot": "false",
            "db": "shop", "schema": "public", "table": "debezium_signal", "txId": 1, "lsn": 10 + offset,
            "sequence": f'["9","{10 + offset}"]',
        }  # fmt: skip
        value = {"before": None, "after": row, "source": source, "op": "c", "ts_ms": STARTED, "transaction": None}
        table.append(record(f"{prefix}.public.debezium_signal", offset, {"id": row["id"]}, value))
    return kafka + table


def statement(
    prefix: str, offset: int, ddl: str, *changes: Row, schema: str = "dbo", told_of: tuple[str, str] = ("dbo", "t")
) -> Record:
    """A schema-change event of SQL Server's; `told_of` is the schema and the table that its source block has."""
    lsn = f"00000027:{offset:08x}:0001"
    source = {
        "connector": "sqlserver", "name": prefix, "ts_ms": STARTED + offset, "snapshot": "false", "db": "shop",
        "schema": told_of[0], "table": told_of[1], "commit_lsn": lsn, "change_lsn": lsn, "event_serial_no": None,
    }  # fmt: skip
    value = {
        "source": source, "ts_ms": STARTED + offset, "databaseName": "shop", "schemaName": schema, "ddl": ddl,
        "tableChanges": list(changes),
    }  # fmt: skip
    return record(f"{prefix}.ddl", offset, {"databaseName": "shop"}, value)


def column(
    name: str, kind: str, length: int | None = None, scale: int | None = None, values: list[str] | None = None
) -> Row:
    return {
        "name": name, "jdbcType": 12, "nativeType": None, "typeName": kind, "typeExpression": kind, "charsetName": None,
        "length": length, "scale": scale, "position": 1, "optional": True, "autoIncremented": False, "generated": False,
        "enumValues": values,
    }  # fmt: skip


def statements(prefix: str) -> list[Record]:
    """A table's life: made, widened, its key changed, renamed, dropped."""

    def table(kind: str, key: list[str], *columns: Row, name: str = '"shop"."dbo"."t"') -> Row:
        return {"type": kind, "id": name, "table": {"primaryKeyColumnNames": key, "columns": list(columns)}}

    renamed = '"shop"."dbo"."t","shop"."dbo"."u"'
    first = [
        column("id", "int"), column("price", "decimal", 8, 2), column("old", "text"),
        column("size", "enum", 1, values=["'s'", "'m'"]),
    ]  # fmt: skip
    second = [
        column("id", "int"), column("price", "decimal", 12, 2), column("new", "text"),
        column("size", "enum", 1, values=["'s'", "'m'", "'l'"]),
    ]  # fmt: skip
    return [
        statement(prefix, 0, "create table t", table("CREATE", ["id"], *first)),
        statement(prefix, 1, "alter table t alter column price decimal(12, 2)", table("ALTER", ["id"], *second)),
        statement(prefix, 2, "alter table t add primary key (id, new)", table("ALTER", ["id", "new"], *second)),
        statement(prefix, 3, "rename t to u", table("ALTER", ["id", "new"], *second, name=renamed)),
        statement(prefix, 4, "drop table u", {"type": "DROP", "id": '"shop"."dbo"."u"', "table": None}),
    ]  # fmt: skip


def altered_beside(prefix: str) -> list[Record]:
    """A table of two schemas, of which one is altered behind a row of the other, as SQL Server streams it."""

    def table(kind: str, schema: str, *columns: Row) -> Row:
        of_table = {"primaryKeyColumnNames": ["id"], "columns": [column("id", "int"), *columns]}
        return {"type": kind, "id": f'"shop"."{schema}"."orders"', "table": of_table}

    # What the source block has is the last row's; before the first it has no table at all.
    streamed: list[tuple[str, str, Row]] = [
        ("", "tenant.1", table("CREATE", "tenant.1", column("paid", "int"))),
        ("tenant.1", "tenant.2", table("CREATE", "tenant.2", column("note", "text"))),
        ("tenant.1", "tenant.2", table("ALTER", "tenant.2", column("note", "text"), column("more", "text"))),
    ]
    told = [
        statement(prefix, offset, "N/A", change, told_of=(of_row, "orders" if of_row else ""), schema=schema)
        for offset, (of_row, schema, change) in enumerate(streamed)
    ]
    return told + [row_under(prefix, schema, "orders") for schema in ("tenant.1", "tenant.2")]


def renames(prefix: str, connector: str) -> list[Record]:
    """What real connectors tell of tables that are renamed: the new name alone, and the old one elsewhere."""
    is_oracle = connector == "oracle"
    first = [column("id", "int"), column("price", "int"), column("old", "int")]
    steps: list[tuple[str, str, str, list[Row]]] = [
        ("CREATE", "create table orders (...)", "orders", first),
        ("ALTER", "RENAME TABLE orders TO `orders of 2025`", "orders of 2025", first),
        ("ALTER", "ALTER TABLE shop.`orders of 2025` DROP COLUMN `old`, RENAME archive", "archive", first[:2]),
        ("ALTER", "ALTER TABLE archive RENAME COLUMN price TO cost", "archive", [first[0], column("cost", "int")]),
    ]  # fmt: skip
    found, before = [], None
    for offset, (kind, ddl, name, columns) in enumerate(steps):
        tables = f"{before},{name}" if is_oracle and before not in (None, name) else name
        source = {
            "connector": connector, "name": prefix, "ts_ms": STARTED + offset, "snapshot": "false", "db": "shop",
            "schema": "S" if is_oracle else None, "table": tables, "server_id": 1, "file": "bin.000001", "pos": offset,
            "row": 0, "scn": str(100 + offset), "commit_scn": str(100 + offset),
        }  # fmt: skip
        of_table = {"primaryKeyColumnNames": ["id"], "columns": columns}
        identity = f'"shop"."S"."{name}"' if is_oracle else f'"shop"."{name}"'
        value = {
            "source": source, "ts_ms": STARTED + offset, "databaseName": "shop", "schemaName": source["schema"],
            "ddl": "" if is_oracle else ddl, "tableChanges": [{"type": kind, "id": identity, "table": of_table}],
        }  # fmt: skip
        found.append(record(f"{prefix}.ddl", offset, {"databaseName": "shop"}, value))
        before = name
    return found


def row_under(prefix: str, schema: str, name: str) -> Record:
    """A row of a table of SQL Server's."""
    source = {
        "connector": "sqlserver", "name": prefix, "ts_ms": STARTED, "snapshot": "true", "db": "shop", "schema": schema,
        "table": name, "commit_lsn": "00000027:00000001:0001",
    }  # fmt: skip
    return record(f"{prefix}.shop.{schema}.{name}", 0, {"id": 1}, {
        "before": None, "after": {"id": 1}, "source": source, "op": "r", "ts_ms": STARTED,
    })  # fmt: skip


def life(prefix: str) -> list[Record]:
    """Everything that has a table of its own."""
    return [
        *captured("postgres-2.5.4-core-default", "inv.message", prefix), *notices(prefix), *signals(prefix),
        *statements(prefix),
    ]  # fmt: skip


def read_at(prefix: str, offset: int, key: int, lsn: int, at: int, snapshot: str = "true") -> Record:
    """A row as a snapshot reads it; `at` is the second of the connector's clock."""
    source = {
        "connector": "postgresql", "name": prefix, "ts_ms": STARTED + at * 1000, "snapshot": snapshot, "db": "shop",
        "schema": "public", "table": "t", "txId": None, "lsn": lsn, "sequence": f'[null,"{lsn}"]',
    }  # fmt: skip
    value = {
        "before": None, "after": {"id": key}, "source": source, "op": "r", "ts_ms": STARTED + at * 1000 + 5,
        "transaction": None,
    }  # fmt: skip
    return record(f"{prefix}.public.t", offset, {"id": key}, value)


def reads(prefix: str) -> list[Record]:
    """Three snapshots of a table, the later two without a mark of their last read: the third reads more than comes."""
    places = [
        (1, 100, 10, "true"), (2, 100, 10, "true"), (3, 100, 11, "last"), (1, 500, 20, "true"), (3, 500, 21, "true"),
        (1, 900, 30, "true"),
    ]  # fmt: skip
    return [read_at(prefix, offset, key, lsn, at, snapshot) for offset, (key, lsn, at, snapshot) in enumerate(places)]


def scans(prefix: str) -> list[Record]:
    """What notifications tell of the later two, and heartbeats behind them, of a renamed topic."""
    tables = {"data_collections": "public.t", "scanned_collection": "public.t", "status": "SUCCEEDED"}
    return [
        notice(prefix, 19, "Initial", "STARTED"),
        notice(prefix, 22, "Initial", "TABLE_SCAN_COMPLETED", total_rows_scanned="2", **tables),
        notice(prefix, 23, "Initial", "COMPLETED"),
        notice(prefix, 29, "Initial", "STARTED"),
        notice(prefix, 32, "Initial", "TABLE_SCAN_COMPLETED", total_rows_scanned="2", **tables),
        record(f"alive.{prefix}", 0, {"serverName": prefix}, {"ts_ms": STARTED + 40_000}),
        record(f"alive.{prefix}", 1, {"serverName": prefix}, {"ts_ms": STARTED + 100_000}),
    ]


def in_avro(registry: StandIn, topic: str, schema: Row, value: Row, key: Row | None = None) -> Record:
    """A record by a converter to Avro; a key is one of texts."""

    def packed(described: Row, row: Row) -> str:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(described)), row)
        return base64.b64encode(wire(registry.register(described), out.getvalue())).decode()

    made = record(topic, 0, None, None)
    del made["value"]
    made["value_base64"] = packed(schema, value)
    if key is not None:
        del made["key"]
        made["key_base64"] = packed(struct_of("some.Key", dict.fromkeys(key, "string")), key)
    return made


def struct_of(name: str, fields: dict[str, Any]) -> Row:
    space, _, last = name.rpartition(".")
    avro_fields = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": last, "namespace": space, "connect.name": name, "fields": avro_fields}


def avro_channels(registry: StandIn, prefix: str) -> list[Record]:
    """One of each kind in Avro."""
    block = {"connector": "string", "name": "string", "ts_ms": "long", "db": "string"}
    source = {"connector": "postgresql", "name": prefix, "ts_ms": STARTED, "db": "shop"}
    message = struct_of("io.debezium.connector.postgresql.MessageValue", {
        "op": "string", "ts_ms": "long", "source": struct_of("pg.Source", block | {"lsn": "long"}),
        "message": struct_of("pg.Message", {"prefix": "string", "content": "bytes"}),
    })  # fmt: skip
    column_of = struct_of("ddl.Column", {"name": "string", "typeName": "string"})
    table = struct_of("ddl.Table", {"columns": {"type": "array", "items": column_of}})
    change = struct_of("ddl.Change", {"type": "string", "id": "string", "table": table})
    statement_of = struct_of("io.debezium.connector.oracle.SchemaChangeValue", {
        "source": struct_of("ora.Source", block | {"scn": "string"}), "ts_ms": "long", "databaseName": "string",
        "schemaName": "string", "ddl": "string", "tableChanges": {"type": "array", "items": change},
    })  # fmt: skip
    notice_of = struct_of("io.debezium.connector.common.Notification", {
        "id": "string", "aggregate_type": "string", "type": "string", "timestamp": "long",
        "additional_data": {"type": "map", "values": "string"},
    })  # fmt: skip
    heartbeat = struct_of("io.debezium.connector.common.Heartbeat", {"ts_ms": "long"})
    changes = [{"type": "CREATE", "id": '"SHOP"."S"."T"', "table": {"columns": [{"name": "ID", "typeName": "NUMBER"}]}}]
    statement = {"source": source | {"connector": "oracle", "scn": "17"}, "ts_ms": STARTED, "databaseName": "SHOP",
            "schemaName": "S", "ddl": "create table T", "tableChanges": changes}  # fmt: skip
    return [
        in_avro(registry, f"{prefix}.said", message, {
            "op": "m", "ts_ms": STARTED, "source": source | {"lsn": 77},
            "message": {"prefix": "p", "content": b"\x00\xff"},
        }),
        in_avro(registry, f"{prefix}.ddl", statement_of, statement),
        in_avro(registry, f"{prefix}.tells", notice_of, {
            "id": "x", "aggregate_type": "Initial Snapshot", "type": "SKIPPED", "timestamp": STARTED,
            "additional_data": {"connector_name": prefix},
        }),
        in_avro(registry, f"{prefix}.alive", heartbeat, {"ts_ms": STARTED}, {"serverName": prefix}),
    ]  # fmt: skip


# Examples as the documents print them, and what has to become of each: a kind, or a code of the quarantine.
PRINTED = {
    "common-notification-initial-snapshot-started": "notification",
    "common-notification-initial-snapshot-in-progress": "notification",
    "common-notification-initial-snapshot-completed-1": "notification",
    "common-notification-incremental-snapshot-aborted": "notification",
    "common-notification-incremental-snapshot-table-scan-completed": "notification",
    "common-signal-kafka-blocking-snapshot": "signal",
    "common-signal-kafka-execute-snapshot-1": "signal",
    "common-signal-kafka-execute-snapshot-2": "signal",
    "db2-schema-change-value": "schema_change",
    "mysql-schema-change-value": "schema_change",
    "oracle-schema-change-value": "schema_change",
    # Cut short in print: nothing of it but its source.
    "sqlserver-schema-change-value": "no-envelope",
    "postgresql-value-message-transactional-1": "message",
    "postgresql-value-message-nontransactional-1": "message",
}


def printed() -> list[Record]:
    """Each example as the only record of its topic."""
    return [record(f"ch_printed.{name}", 0, "dbserver" if "kafka" in name else None, example(name)) for name in PRINTED]


def odd() -> list[Record]:
    """What is like them, and none of them."""
    source = {"connector": "mysql", "name": "x"}
    values: list[tuple[str, Any, Row]] = [
        ("no-envelope", {"id": 1}, {"id": "1", "type": "t", "data": {}}),
        ("no-envelope", "prefix", {"id": "1", "type": "t", "data": {}, "more": 1}),
        ("no-envelope", {"id": 1}, {"ts_ms": 1}),
        ("no-envelope", "e1", {"id": "e1", "type": "OrderCreated", "data": {"total": 3}}),
        ("no-envelope", {"id": 7}, {"id": 7, "aggregate_type": "order", "type": "OrderPaid", "payload": "{}"}),
        ("no-envelope", {"id": 8}, {"id": "8", "status": "BEGIN", "game": "chess"}),
        ("no-source", None, {"ddl": "drop table t", "tableChanges": [], "source": {"connector": "mysql"}}),
        ("no-source", None, {
            "source": {"server": "shop"}, "position": {"file": "binlog.000001", "pos": 4}, "ts_ms": 1,
            "databaseName": "shop", "ddl": "drop table t", "tableChanges": [],
        }),
        ("no-source", None, {"op": "m", "source": {"connector": "mysql"}, "message": {"prefix": "p"}}),
        ("no-message", None, {"op": "m", "source": source}),
        ("bad-number", None, {"op": "m", "source": source | {"lsn": "0/16"}, "message": {"prefix": "p"}}),
        ("bad-number", None, {"ddl": "drop table t", "source": source, "ts_ms": 10**18}),
    ]  # fmt: skip
    return [record(f"ch_odd.{code}", offset, key, value) for offset, (code, key, value) in enumerate(values)]


def wild() -> list[Record]:
    """Times that there can't be, of records that tell something all the same."""
    notice_of_far_time = {"id": "1", "aggregate_type": "Initial Snapshot", "type": "STARTED", "timestamp": str(10**18)}
    return [
        record("ch_v.wild", 0, None, notice_of_far_time | {"additional_data": {"connector_name": "ch_v"}}),
        record("ch_v.wild.alive", 0, {"serverName": "ch_r"}, {"ts_ms": 10**18}),
        record("ch_w.wild.alive", 0, {"serverName": "ch_w"}, {"ts_ms": 253_402_300_799_999}),
    ]


def later(records: list[Record]) -> list[Record]:
    """The same, delivered once more behind them."""
    return [one | {"offset": one["offset"] + 1000} for one in records]


@dataclass(frozen=True)
class Built:
    """The lakehouse after two landings.

    `again` is what a third build did, which had no news, `before` what tables held before they were made anew.
    """

    places: Places
    declared: Declared
    again: dict[str, str]
    before: dict[str, list[Row]]

    def rows(self, name: str, layer: str = "silver") -> list[Row]:
        """A table's rows, by a reader that is not Spark."""
        return rows_of(self.places.table(layer, name))


def land(spark: SparkSession, places: Places, name: str, records: list[Record]) -> None:
    file = places.project.parent / f"{name}.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in records))
    land_files(spark, places, [str(file)], Landing(name, LANDED))


def run(places: Places, *arguments: str) -> dict[str, str]:
    """What dbt did with each model."""
    result = run_dbt(
        places, ["--quiet", "--no-write-json", *(arguments or ("run", "--exclude", "config.materialized:current"))]
    )
    assert result.success, [
        one.message[:700] for one in result.result or [] if one.status == "error"
    ] or result.exception
    return {one.node.name: str(one.message) for one in result.result if one.node.resource_type == "model"}


TABLES = ("ch_r__public__t", "ch_s__public__t", "ch_my__shop__products")
CHANNELS = ("ch_a_messages", "ch_a_schema_versions", "ch_a_snapshots")


def scaffolded(spark: SparkSession, places: Places) -> None:
    """Models of what the test looks at: two histories that close what snapshots lack, and a log."""
    channels = [one for one in seen_channels(spark, places) if one.source.startswith("ch_")]
    write(places.project, files_of_channels([one for one in channels if one.source != "ch_printed"]))
    for table in seen_tables(spark, places):
        if table.name in TABLES:
            kept = ("_changes", "_history", "_accounting") if table.name != TABLES[2] else ("_changes",)
            files = files_of(table)
            write(
                places.project,
                {
                    path: text
                    for path, text in files.items()
                    if any(f"{table.name}{one}." in path for one in kept) or "bronze" in path
                },
            )
    for name in TABLES[:2]:
        declare_history(places.project, name, {"snapshot_deletes": "close"})


@pytest.fixture(scope="module")
def built(spark: SparkSession, registry: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Built:
    home = tmp_path_factory.mktemp("channels")
    places = Places.of(empty_project(home / "project"))
    settings = places.project / "dbt_project.yml"
    of_source = "{snapshot_notifications: true, silent_after_minutes: 5}"
    settings.write_text(
        settings.read_text().replace("sources: {}", f"sources: {{ch_r: {of_source}, ch_s: {of_source}}}")
    )
    halves = life("ch_b")
    random.Random(5).shuffle(halves)
    again = later(life("ch_b"))
    random.Random(6).shuffle(again)
    maria = [
        record for topic in ("inv", "inv.shop.products") for record in captured("mariadb-2.5.4-schema", topic, "ch_my")
    ]
    land(spark, places, "first", [
        *life("ch_a"), row_under("ch_a", "dbo", "t"), row_under("ch_a", "dbo", "u"), *altered_beside("ch_q"),
        *halves[: len(halves) // 2], *again[: len(again) // 2], *maria,
        *renames("ch_n", "mysql"), *renames("ch_o", "oracle"), *avro_channels(registry, "ch_v"), *printed(),
        *odd(), *wild(), *reads("ch_r"), notice("ch_r", 0, "Initial", "STARTED"), *reads("ch_s"), *scans("ch_s"),
        notice("ch_s", 0, "Initial", "STARTED"),
    ])  # fmt: skip
    scaffolded(spark, places)
    run(places)
    land(spark, places, "second", again[len(again) // 2 :] + halves[len(halves) // 2 :] + scans("ch_r"))
    without_news = [f"ch_{name}_*" for name in ("a", "s", "v", "my", "n", "o", "q")]
    run(places, "run", "--exclude", "config.materialized:current", *without_news)
    idle = run(places, "run", "--select", *CHANNELS, "ch_b_messages", "ch_r_snapshots", "ch_r__public__t_history")
    before = {name: rows_of(places.table("silver", name)) for name in CHANNELS}
    run(places, "build", "--full-refresh", "--select", *CHANNELS)
    return Built(places, declared_tables(places), idle, before)


def table_rows(built: Built, prefix: str, kind: str) -> list[Row]:
    """A table's rows in an order of their own, without what another prefix has otherwise by its nature."""
    rows = [{name: value for name, value in row.items() if name not in OWN} for row in built.rows(f"{prefix}_{kind}")]
    return sorted(
        [row | ({"topic": row["topic"].replace(prefix, "")} if "topic" in row else {}) for row in rows], key=str
    )


def tables_of(built: Built, spark: SparkSession, prefix: str) -> list[CapturedTable]:
    """The tables of SQL Server's that bronze has of a prefix, named by schema and table."""
    shapes = bronze.read(spark, built.places, "shapes").where(f"source_name = '{prefix}' and connector = 'sqlserver'")
    names = {f"{row['schema']}.{row['table']}": row["feed"] for row in shapes.collect()}
    return [replace(built.declared.tables[0], name=name, feed=feed) for name, feed in names.items()]


def seconds(moment: datetime | None) -> float | None:
    """Seconds of the connector's clock."""
    return None if moment is None else (moment - datetime.fromtimestamp(STARTED / 1000, UTC)) / timedelta(seconds=1)


@pytest.mark.parametrize("kind", ["messages", "schema_versions", "snapshots"])
def test_tables_depend_on_what_came_and_not_on_how(built: Built, kind: str) -> None:
    assert table_rows(built, "ch_a", kind)
    assert table_rows(built, "ch_b", kind) == table_rows(built, "ch_a", kind)


def test_nothing_new_writes_nothing_and_a_refresh_gives_the_same(built: Built) -> None:
    assert set(built.again.values()) == {"nothing new"}
    for name in CHANNELS:
        assert sorted(built.rows(name), key=str) == sorted(built.before[name], key=str)


def test_what_is_of_no_table_is_found_without_a_look_at_the_files_of_tables(built: Built, spark: SparkSession) -> None:
    alone, records = (
        written("macros/channels/channels.sql", "is_of_no_table"),
        bronze.read(spark, built.places, "records"),
    )
    kinds = "kind in ('message', 'schema_change', 'notification', 'signal', 'outbox', 'transaction')"
    assert records.where(kinds).count() == records.where(f"{alone} and {kinds}").count() > 0
    files = records.select("feed", "_metadata.file_path").distinct()
    looked_for = records.where(f"{alone} and {kinds} and batch_id > 0")
    looked_for.collect()
    [scan] = [looked_for._jdf.queryExecution().executedPlan().collectLeaves().head()]
    assert scan.metrics().apply("numFiles").value() == files.where(alone).count() < files.count()


def test_a_message_is_one_row(built: Built) -> None:
    """Observed 8: messages in no transaction overtake it and survive its rollback."""
    messages = sorted(built.rows("ch_a_messages"), key=lambda one: one["position"])

    assert [(one["prefix"], one["content"], one["is_transactional"], one["offset"]) for one in messages] == [
        ("order-closed", b'{"order":1}', True, 0), ("ping", b"not transactional", False, 1),
        ("audit", b"inside", True, 3), ("ping", b"overtakes its transaction", False, 2),
        ("ping", b"survives rollback", False, 4),
    ]  # fmt: skip
    assert [one["transaction_id"] for one in messages] == ["793", None, "794", None, None]
    assert {one["db"] for one in messages} == {"shop"}
    assert all(one["processed_at"] > one["sent_at"] for one in messages)
    assert all(not one["exact_values"] for one in messages)


def test_channels_in_avro(built: Built, spark: SparkSession) -> None:
    [message] = built.rows("ch_v_messages")
    [version] = built.rows("ch_v_schema_versions")
    [snapshot] = [one for one in built.rows("ch_v_snapshots") if one["state"] != "started"]
    beats = bronze.read(spark, built.places, "records").where("kind = 'heartbeat' and source_name = 'ch_v'")

    assert (message["prefix"], message["content"]) == ("p", b"\x00\xff")
    assert [version[name] for name in ("db", "schema", "table", "kind", "ddl")] == [
        "shop", "S", "T", "CREATE", "create table T",
    ]  # fmt: skip
    assert [(one["name"], one["type"]) for one in version["columns"]] == [("ID", "NUMBER")]
    assert (snapshot["kind"], snapshot["state"]) == ("initial", "skipped")
    assert beats.count() == 1


def test_versions_of_a_table_tell_what_each_statement_changed(built: Built) -> None:
    versions = sorted(built.rows("ch_a_schema_versions"), key=lambda one: one["position"])

    names = ("kind", "table", "previous_table", "key", "is_key_changed")
    assert [tuple(one[name] for name in names) for one in versions] == [
        ("CREATE", "t", None, ["id"], False), ("ALTER", "t", None, ["id"], False),
        ("ALTER", "t", None, ["id", "new"], True), ("ALTER", "u", "t", ["id", "new"], False),
        ("DROP", "u", None, None, False),
    ]  # fmt: skip
    assert versions[1]["ddl"] == "alter table t alter column price decimal(12, 2)"
    assert [tuple(one.values()) for one in versions[1]["changes"]] == [
        ("price", "decimal(8,2)", "decimal(12,2)"), ("new", None, "text"),
        ("size", "enum('s','m')", "enum('s','m','l')"), ("old", "text", None),
    ]  # fmt: skip
    assert [one["changes"] for one in (versions[0], *versions[2:])] == [[]] * 4
    assert versions[4]["columns"] is None


@pytest.mark.parametrize("source", ["ch_n", "ch_o"])
def test_a_renamed_table_is_known_where_its_id_has_the_new_name_alone(built: Built, source: str) -> None:
    versions = sorted(built.rows(f"{source}_schema_versions"), key=lambda one: one["position"])

    assert [
        (one["table"], one["previous_table"], [tuple(changed.values()) for changed in one["changes"]])
        for one in versions
    ] == [
        ("orders", None, []), ("orders of 2025", "orders", []),
        ("archive", "orders of 2025", [("old", "int", None)]),
        ("archive", None, [("cost", None, "int"), ("price", "int", None)]),
    ]  # fmt: skip
    assert not any(one["is_key_changed"] for one in versions)


def test_a_statement_is_of_the_table_that_it_names_and_not_of_the_row_before_it(
    built: Built, spark: SparkSession
) -> None:
    versions = sorted(built.rows("ch_q_schema_versions"), key=lambda one: one["position"])
    tables = tables_of(built, spark, "ch_q")
    changed = schema_changes(spark, built.places, replace(built.declared, tables=tables), (), sample_rows=True)

    assert [
        (one["db"], one["schema"], one["table"], one["kind"], [tuple(change.values()) for change in one["changes"]])
        for one in versions
    ] == [
        ("shop", "tenant.1", "orders", "CREATE", []), ("shop", "tenant.2", "orders", "CREATE", []),
        ("shop", "tenant.2", "orders", "ALTER", [("more", None, "text")]),
    ]  # fmt: skip
    assert {one["ddl"] for one in versions} == {None}, "N/A is what the connector has in place of a statement"
    assert {name: because(changes).partition(" (2026-")[0] for name, changes in changed.items()} == {
        "tenant.2.orders": " Its schema was changed by: more added (text)"
    }


def test_a_real_database_s_statements(built: Built, spark: SparkSession) -> None:
    versions = sorted(built.rows("ch_my_schema_versions"), key=lambda one: (one["position"], one["offset"]))
    products = [one for one in versions if one["table"] == "products"]
    changed = schema_changes(spark, built.places, built.declared, (), sample_rows=True)["ch_my__shop__products"]

    assert {one["table"] for one in versions} == {"products", "sync_marker", "later"}
    assert [(one["kind"], one["is_snapshot"]) for one in products[:3]] == [
        ("DROP", True), ("CREATE", True), ("ALTER", False),
    ]  # fmt: skip
    assert products[2]["ddl"] == "ALTER TABLE products ADD COLUMN colour varchar(20) AFTER name"
    assert [tuple(one.values()) for one in products[2]["changes"]] == [("colour", None, "VARCHAR(20)")]
    assert [one["ddl"] for one in products if one["is_key_changed"]] == [
        "ALTER TABLE products DROP PRIMARY KEY, ADD PRIMARY KEY (id, region)"
    ]
    assert [one.statement for one in changed][-1] == "ALTER TABLE products DROP COLUMN active"
    assert changed[-1].columns == ("active dropped",)
    assert because(changed, ["active"]).startswith(
        " Its schema was changed by: ALTER TABLE products DROP COLUMN active (2026-"
    )
    assert because(changed, ["id"]) == ""


def test_a_table_that_was_renamed_or_dropped_is_told(built: Built, spark: SparkSession) -> None:
    tables = tables_of(built, spark, "ch_a")
    changed = schema_changes(spark, built.places, replace(built.declared, tables=tables), (), sample_rows=True)
    first = ("price: decimal(8,2) → decimal(12,2)", "new added (text)",
             "size: enum('s','m') → enum('s','m','l')", "old dropped")  # fmt: skip

    assert {name: [one.columns for one in changes] for name, changes in changed.items()} == {
        "dbo.t": [first, (), ("table t renamed to u",)], "dbo.u": [("table t renamed to u",), ("table dropped",)],
    }  # fmt: skip
    assert because(changed["dbo.u"], ["id"]) == ""
    assert "; drop table u (" in because(changed["dbo.u"])


def test_statements_with_values_are_not_shown_where_rows_are_not(built: Built, spark: SparkSession) -> None:
    feeds = [one.feed for one in built.declared.tables]
    for hidden, sample_rows in (((), False), (feeds, True)):
        changed = schema_changes(spark, built.places, built.declared, hidden, sample_rows=sample_rows)
        products = changed["ch_my__shop__products"]
        assert {one.statement for one in products} == {None}
        assert products[-1].line.startswith("active dropped (2026-")


def test_the_statement_that_changed_a_key_explains_its_shapes() -> None:
    made = SchemaChange("t", None, "alter table t add primary key (id, new)", (), (), is_key_changed=True)

    assert because_of_key([made]) == " Its key was changed by: alter table t add primary key (id, new)."
    assert because([made]) == ""


def test_snapshots_by_table(built: Built) -> None:
    snapshots = built.rows("ch_a_snapshots")
    names = ("kind", "collection", "state", "is_filtered", "chunks", "scan_status", "rows_scanned")

    assert sorted([tuple(one[name] for name in names) for one in snapshots], key=str) == sorted([
        ("initial", "public.a", "completed", False, 1, "SUCCEEDED", 9),
        ("initial", "public.b", "completed", False, 0, "SUCCEEDED", 0),
        ("initial", None, "aborted", False, 0, None, None),
        ("initial", None, "skipped", False, 0, None, None),
        ("incremental", "public.a", "scanned", True, 2, "SUCCEEDED", 9),
        ("incremental", "public.b", "started", False, 0, None, None),
        ("incremental", "public.c", "asked", False, 0, None, None),
        ("incremental", "public.p", "aborted", False, 1, None, None),
        ("incremental", "public.q", "completed", True, 0, "EMPTY", 0),
        ("incremental", "public.r", "aborted", False, 0, None, None),
        ("incremental", "public.s", "aborted", False, 0, None, None),
        ("incremental", "public.p", "in_progress", False, 1, None, None),
        ("blocking", None, "asked", False, 0, None, None),
    ], key=str)  # fmt: skip
    signals_of = {(one["collection"], one["state"]): one["signal_id"] for one in snapshots}
    assert signals_of["public.p", "aborted"] == signals_of["public.q", "completed"] == "ad-hoc-2"
    assert signals_of["public.s", "aborted"] == "ad-hoc-3"
    [rested] = [one for one in snapshots if one["state"] == "scanned"]
    times = ("asked_at", "started_at", "paused_at", "resumed_at", "scanned_at", "completed_at", "aborted_at")
    assert rested["signal_id"] == "ad-hoc-1"
    assert [seconds(rested[name]) for name in times] == [-1, 8, 10, 11, 13, None, None]
    asked = [one for one in snapshots if one["state"] == "asked"]
    assert [[seconds(one[name]) for name in times] for one in asked] == [[0, None, None, None, None, None, None]] * 2


@pytest.mark.parametrize("prefix", ["ch_r", "ch_s"])
def test_a_notification_tells_that_a_snapshot_was_complete(built: Built, prefix: str) -> None:
    """R16: late (`ch_r`) or not, and not where fewer reads are here than the scan read."""
    versions = sorted(built.rows(f"{prefix}__public__t_history", "gold"), key=lambda one: one["id"])
    [table] = [one for one in captured_tables(built.places) if one.name == f"{prefix}__public__t"]
    signs = {one["name"]: one["sample_keys"] for one in account_of(table)}

    assert [(one["id"], one["closed_by"], seconds(one["valid_to"])) for one in versions] == [
        (1, None, None), (2, "snapshot", 21), (3, None, None),
    ]  # fmt: skip
    assert signs["missed_deletes"] == ['{"id":2}']


def test_a_quiet_source_and_a_dead_connector(built: Built, spark: SparkSession) -> None:
    tables = built.declared.tables
    measured = measure(spark, built.places, tables, {})
    through = built_through(spark, built.places, tables, measured)
    landed, unbuilt = (contents(spark, built.places, of, {}) for of in (through, {}))

    def state(minutes: float, landed: Sequence[Content] = landed, **own: Any) -> dict[str, str]:
        at = datetime.fromtimestamp(STARTED / 1000, UTC) + timedelta(minutes=minutes)
        known = {"lags": [], "quarantined": []} | own
        return {one.source: one.state for one in pulses(spark, built.places, tables, landed, measured, at, **known)}

    def lagging(topic: str, *, is_gone: bool = False) -> str:
        an_hour_in = str(datetime.fromtimestamp(STARTED / 1000, UTC).replace(tzinfo=None) + timedelta(hours=1))
        return state(60, lags=[TopicLag("default", topic, 5, None, an_hour_in, is_gone)])["ch_r"]

    assert {name: state(2)[name] for name in ("ch_r", "ch_v", "ch_my")} == {
        "ch_r": NOTHING_NEW, "ch_v": NOTHING_NEW, "ch_my": CHANGING,
    }  # fmt: skip
    assert state(60)["ch_r"] == DEAD
    assert state(60)["ch_v"] == NOTHING_NEW, "no limit is declared"
    assert state(60, unbuilt)["ch_r"] != DEAD, "what no table has yet was landed since"
    assert DEAD not in map(lagging, ("ch_r.public.t", "ch_r.public.new", "ch_r", "__debezium-heartbeat.ch_r"))
    assert {lagging("ch_rest.public.t"), lagging("ch_r.public.t", is_gone=True)} == {DEAD}
    entries = f"delta.`{built.places.table('bronze', 'quarantine')}`"
    spark.sql(
        f"insert into {entries} (quarantine_id, topic, timestamp, landed_at) values"
        f" ('of ch_r', 'ch_r.public.t', timestamp_millis({STARTED + 58 * 60_000}), timestamp'{LANDED}')"
    )
    assert state(60, quarantined=[Held("registry-unknown", "", "ch_r.public.t", 1)])["ch_r"] != DEAD
    spark.sql(f"delete from {entries} where quarantine_id = 'of ch_r'")
    [ahead] = [one for one in pulses(spark, built.places, [], landed, {}, LANDED, [], []) if one.source == "ch_w"]
    assert ahead.last_heartbeat == LANDED, "no later than it was landed"


def test_each_printed_example_is_known_for_what_it_is(built: Built, spark: SparkSession) -> None:
    records = bronze.read(spark, built.places, "records").where("topic like 'ch\\_printed.%'").collect()
    entries = held_entries(spark, built.places, []).where("topic like 'ch\\_printed.%'").collect()
    became = {row["topic"]: row["kind"] for row in records} | {row["topic"]: row["code"] for row in entries}

    assert became == {f"ch_printed.{name}": kind for name, kind in PRINTED.items()}
    assert {row["source_name"] for row in records if row["kind"] == "notification"} == {"my-connector", "myConnector"}


def test_what_is_like_them_is_held_with_a_code(built: Built, spark: SparkSession) -> None:
    entries = held_entries(spark, built.places, []).where("topic like 'ch\\_odd.%'").collect()

    assert len(entries) == len(odd())
    assert [row["topic"] for row in entries if row["topic"] != f"ch_odd.{row['code']}"] == []
    assert [one["started_at"] for one in built.rows("ch_v_snapshots") if one["state"] == "started"] == [None]


def test_a_log_whose_name_does_not_begin_with_its_source_s_believes_no_notifications(built: Built) -> None:
    models = built.places.project / "models"
    log = next(models.rglob("ch_s__public__t_changes.sql"))
    added = {models / "log_of_t.sql": log.read_text(), models / "versions_of_t.sql": "{{ history('log_of_t') }}"}
    for file, said in added.items():
        file.write_text(said)
    try:
        result = run_dbt(built.places, ["--quiet", "--no-write-json", "compile", "--select", "versions_of_t"])
    finally:
        for file in added:
            file.unlink()

    said = str(result.exception)
    assert "versions_of_t: log_of_t is of the source 'ch_s', and by its name of none." in said
    assert "declared `snapshot_notifications`" in said
