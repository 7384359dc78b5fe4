"""Oracle, SQL Server and Db2, from records to gold with models as scaffolded, and connectors that nobody knows.

The synthetic captures have no database behind them: what they have to come to is their script, told here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs import bronze
from spark_jobs.cli import main
from spark_jobs.declarations import CapturedTable, captured_tables
from spark_jobs.errors import UsageError
from spark_jobs.places import Places
from spark_jobs.quarantine import held_entries, release
from spark_jobs.reporting import described
from spark_jobs.reporting.measures import measure
from tests import oracle
from tests.projects import account_of, empty_project, land, renamed, rows_of, run_models
from tests.tape import lines_of

CAPTURES = Path(__file__).parents[1] / "captures"
SYNTHETIC = ("oracle", "sqlserver", "db2")
Row = dict[str, Any]
Change = tuple[str, Row | None, Row | None, Row]

UNAVAILABLE = "__debezium_unavailable_value"
DECLARED = {
    "cn_cut": {"consistent": True},
    "cn_fork": {"connector": "postgresql"},
    "cn_lob": {"before_is_whole": True},
}
SOURCES = {*(f"cn_{name}" for name in SYNTHETIC), *DECLARED, "cn_quux"}

# A snapshot of two rows, an insert, three changes in one transaction, a delete, a change of key.
SCRIPT = """
    id | name      | price | from | to  | opened_by  | closed_by  | previous | next
    1  | one       | 10.50 | 0    | 20  | snapshot   | update     |          |
    2  | two       | 20.00 | 0    | 30  | snapshot   | delete     |          |
    3  | three     | 30.25 | 10   | 40  | insert     | key_change |          | 33
    1  | one again | 11.50 | 20   |     | update     |            |          |
    4  | four      |       | 20   |     | insert     |            |          |
    33 | three     | 30.25 | 40   |     | key_change |            | 3        |
"""
# Oracle's goes on with a truncate and an insert.
TRUNCATED = """
    id | name           | price | from | to | opened_by  | closed_by  | previous | next
    1  | one            | 10.50 | 0    | 20 | snapshot   | update     |          |
    2  | two            | 20.00 | 0    | 30 | snapshot   | delete     |          |
    3  | three          | 30.25 | 10   | 40 | insert     | key_change |          | 33
    1  | one again      | 11.50 | 20   | 50 | update     | truncate   |          |
    4  | four           |       | 20   | 50 | insert     | truncate   |          |
    33 | three          | 30.25 | 40   | 50 | key_change | truncate   | 3        |
    1  | after truncate | 1.00  | 60   |    | insert     |            |          |
"""
# What END promises of the change of key has not all come: it is held back.
CUT = """
    id | name      | price | from | to  | opened_by  | closed_by  | previous | next
    1  | one       | 10.50 | 0    | 20  | snapshot   | update     |          |
    2  | two       | 20.00 | 0    | 30  | snapshot   | delete     |          |
    3  | three     | 30.25 | 10   |     | insert     |            |          |
    1  | one again | 11.50 | 20   |     | update     |            |          |
    4  | four      |       | 20   |     | insert     |            |          |
"""
SCRIPTS = {"cn_oracle": TRUNCATED, "cn_sqlserver": SCRIPT, "cn_db2": SCRIPT, "cn_cut": CUT}
STARTED = 1_709_287_200.123


def again(lines: list[str]) -> Iterator[str]:
    """The records behind the snapshot once more, under later offsets: what a connector does after a crash."""
    for line in lines[2:]:
        record = json.loads(line)
        yield json.dumps(record | {"offset": record["offset"] + 100}) + "\n"


@dataclass
class Topic:
    """Records of one topic, in the order of offsets."""

    name: str
    lines: str = ""
    count: int = 0

    def add(self, value: Row, key: Row | None = None) -> None:
        """One more record."""
        self.count += 1
        record = {
            "topic": self.name, "partition": 0, "offset": self.count, "timestamp": None, "headers": [],
            "key": key and json.dumps(key), "value": json.dumps(value),
        }  # fmt: skip
        self.lines += json.dumps(record) + "\n"


def events(name: str, connector: str, changes: list[Change]) -> str:
    """Changes of the table `s.t` as (op, before, after, fields of the source block)."""
    topic = Topic(f"{name}.s.t")
    for number, (op, before, after, fields) in enumerate(changes, 1):
        source = {
            "connector": connector, "name": name, "db": "shop", "schema": "s", "table": "t",
            "ts_ms": 1_709_287_200_000 + number * 1000, "snapshot": False, **fields,
        }  # fmt: skip
        image = after or before
        topic.add(
            {"before": before, "after": after, "source": source, "op": op, "ts_ms": source["ts_ms"]},
            {"id": image["id"]} if image else None,
        )
    return topic.lines


def beside(name: str, connector: str) -> str:
    """Topics beside the tables' as the documents print them: schema changes (Db2's without DDL), BEGIN, heartbeats."""
    ddl = None if connector == "db2" else "CREATE TABLE t (id int)"
    changes, boundaries, heartbeats = Topic(name), Topic(f"{name}.transaction"), Topic(f"__debezium-heartbeat.{name}")
    source = {"connector": connector, "name": name, "ts_ms": 0, "snapshot": "true", "db": "SHOP", "schema": "S"}
    changes.add(
        {
            "source": source | {"table": "T", "scn": "1", "commit_lsn": "00000025:00000d98:00a2"}, "ts_ms": 1,
            "databaseName": "SHOP", "schemaName": "S", "ddl": ddl,
            "tableChanges": [{"type": "CREATE", "id": '"SHOP"."S"."T"', "table": {"primaryKeyColumnNames": ["ID"]}}],
        },
        {"databaseName": "SHOP"},
    )  # fmt: skip
    boundaries.add({"status": "BEGIN", "id": "5.6.641", "ts_ms": 1, "event_count": None, "data_collections": None})
    counted = [{"data_collection": "SHOP.S.T", "event_count": 2}]
    boundaries.add({"status": "END", "id": "5.6.641", "ts_ms": 2, "event_count": 2, "data_collections": counted})
    heartbeats.add({"ts_ms": 1}, {"serverName": name})
    return changes.lines + boundaries.lines + heartbeats.lines


def created(name: str, types: Mapping[str, Row]) -> str:
    """The statement that made the table `s.t` of a source of Oracle's, with these types."""
    columns = [{"name": column, **kind} for column, kind in types.items()]
    change = {"type": "CREATE", "id": '"shop"."s"."t"', "table": {"columns": columns}}
    source = {"connector": "oracle", "name": name, "db": "shop", "schema": "s", "table": "t", "scn": "1", "ts_ms": 0}
    topic = Topic(name)
    topic.add({"source": source, "ts_ms": 1, "databaseName": "shop", "tableChanges": [change]})
    return topic.lines


def boundaries_of(name: str, lines: list[str], more_than_came: int) -> str:
    """BEGIN and END of each transaction of SQL Server's capture; the last one's END counts more than came."""
    values = [json.loads(json.loads(line)["value"] or "{}").get("payload", {}) for line in lines]
    counts = Counter(value["transaction"]["id"] for value in values if value.get("transaction"))
    topic, last = Topic(f"{name}.transaction"), max(counts)
    for transaction, count in counts.items():
        promised = count + (more_than_came if transaction == last else 0)
        counted = [{"data_collection": "shop.dbo.shop.products", "event_count": promised}]
        topic.add({"status": "BEGIN", "id": transaction, "ts_ms": 1, "event_count": None, "data_collections": None})
        topic.add(
            {"status": "END", "id": transaction, "ts_ms": 1, "event_count": promised, "data_collections": counted}
        )
    return topic.lines


# A connector of its own kind, a fork of PostgreSQL's, and Oracle with supplemental logging of all columns.
QUUX: list[Change] = [
    ("c", None, {"id": 1, "v": "a"}, {"vector": "7:1"}),
    ("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"}, {"vector": "7:2"}),
    ("u", {"id": 1, "v": "b"}, {"id": 1, "v": "a"}, {"vector": "7:3"}),
    ("t", None, None, {"vector": "7:4"}),
]
FORK: list[Change] = [
    ("c", None, {"id": 1, "v": "a"}, {"lsn": 8, "txId": 1}),
    ("u", None, {"id": 1, "v": "?"}, {"txId": 2}),
    ("u", None, {"id": 1, "v": "b"}, {"lsn": 24, "txId": 3}),
]
LOB: list[Change] = [
    ("c", None, {"id": 1, "v": "long", "n": "a"}, {"scn": "1", "commit_scn": "2"}),
    ("u", {"id": 1, "v": "long", "n": "a"}, {"id": 1, "v": UNAVAILABLE, "n": "b"}, {"scn": "3", "commit_scn": "4"}),
    ("u", {"id": 1, "v": UNAVAILABLE, "n": "b"}, {"id": 1, "v": "new", "n": "b"}, {"scn": "5", "commit_scn": "6"}),
    ("u", {"id": 2, "v": UNAVAILABLE, "n": "b"}, {"id": 2, "v": "new", "n": "b"}, {"scn": "7", "commit_scn": "8"}),
    ("c", None, {"id": 3, "v": None, "n": "c", "w": None}, {"scn": "9", "commit_scn": "10"}),
]
LOB_TYPES = {
    "id": {"typeName": "NUMBER", "length": 38}, "v": {"typeName": "CLOB", "length": 4000},
    "n": {"typeName": "VARCHAR2", "length": 4000}, "w": {"typeName": "VARCHAR2", "length": 32767},
}  # fmt: skip


@dataclass(frozen=True)
class Built:
    """One landing and one build of every source."""

    places: Places
    tables: dict[str, CapturedTable]

    def log(self, source: str) -> list[Row]:
        """A source's changes, in the order of offsets."""
        return sorted(rows_of(self.tables[source].changes.location), key=lambda row: row["offset"])

    def versions(self, source: str) -> list[Row]:
        """A source's history, in order."""
        history = self.tables[source].history
        assert history is not None
        return sorted(rows_of(history.location), key=lambda row: (row["position"], row["offset"]))

    def counted(self, source: str) -> dict[str, int]:
        """A source's accounting: disposition or sign → records."""
        return {row["name"]: row["records"] for row in account_of(self.tables[source])}


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Built:
    home = tmp_path_factory.mktemp("connectors")
    project = empty_project(home / "project")
    declared = yaml.safe_load((project / "dbt_project.yml").read_text())
    declared["vars"]["tidemark"]["sources"] = DECLARED
    (project / "dbt_project.yml").write_text(yaml.safe_dump(declared))
    places = Places.of(project)
    lines = events("cn_quux", "quux", QUUX) + events("cn_fork", "yugabytedb", FORK) + events("cn_lob", "oracle", LOB)
    lines += created("cn_lob", LOB_TYPES)
    for name in SYNTHETIC:
        records = renamed(CAPTURES / f"synthetic-{name}-2.5.4", f"cn_{name}")
        lines += "".join(records) + "".join(again(records)) + beside(f"cn_{name}", name)
    records = renamed(CAPTURES / "synthetic-sqlserver-2.5.4", "cn_cut")
    lines += "".join(records) + boundaries_of("cn_cut", records, more_than_came=1)
    land(spark, places, "connectors", lines, SOURCES)
    wanted = ("cn_quux__s__t_accounting", "cn_lob__s__t_accounting", "cn_cut_transactions")
    run_models(
        places, "--select", "config.materialized:changes", "config.materialized:history", *wanted, accounting=True
    )
    return Built(places, {table.source_name: table for table in captured_tables(places)})


def as_told(version: Row) -> dict[str, str]:
    """A version in the form of a script; its times are microseconds, keys of other rows lists of values."""
    row = {name.lower(): value for name, value in version.items()}
    columns = {
        "id": row["id"], "name": row["name"], "price": row["price"],
        "from": seconds(row["valid_from"]), "to": seconds(row["valid_to"]),
        "opened_by": row["opened_by"], "closed_by": row["closed_by"],
        "previous": row["previous_key"] and row["previous_key"][0], "next": row["next_key"] and row["next_key"][0],
    }  # fmt: skip
    return {name: "" if value is None else str(value) for name, value in columns.items()}


def seconds(moment: int | None) -> int | None:
    """Since the snapshot."""
    return None if moment is None else round(moment / 1_000_000 - STARTED)


def as_plain(version: Row) -> Row:
    """A version of gold with its times and keys as the oracle has them."""
    times = {name: version[name] and int(version[name].timestamp() * 1_000_000) for name in ("valid_from", "valid_to")}
    keys = {name: version[name] and [*json.loads(version[name]).values()] for name in ("previous_key", "next_key")}
    return version | times | keys


@pytest.mark.parametrize("source", SCRIPTS)
def test_gold_is_what_the_script_says(built: Built, source: str) -> None:
    assert [as_told(as_plain(version)) for version in built.versions(source)] == lines_of(SCRIPTS[source])


@pytest.mark.parametrize("name", SYNTHETIC)
def test_the_oracle_says_the_same(name: str) -> None:
    [history] = oracle.build(oracle.read_records(CAPTURES / f"synthetic-{name}-2.5.4" / "records.jsonl.gz")).values()
    versions = [version for of_key in history.versions.values() for version in of_key]
    rows = [asdict(version) | version.state for version in sorted(versions, key=lambda one: (one.position, one.offset))]

    assert [as_told(version) for version in rows] == lines_of(SCRIPTS[f"cn_{name}"])


@pytest.mark.parametrize(
    ("source", "one", "three"),
    [
        ("cn_oracle", "0a000100c8030000", "0a000200c8030000"),
        ("cn_sqlserver", "00000025:00000410:0009", "00000025:00000420:0009"),
        ("cn_db2", "00000025:00000410:0009", "00000025:00000420:0009"),
    ],
)
def test_the_transaction_is_what_the_connector_names(built: Built, source: str, one: str, three: str) -> None:
    assert [row["transaction_id"] for row in built.log(source)][:6] == [None, None, one, three, three, three]


@pytest.mark.parametrize("source", [f"cn_{name}" for name in SYNTHETIC])
def test_what_came_twice_is_there_once(built: Built, source: str) -> None:
    assert max(row["offset"] for row in built.log(source)) < 100


@pytest.mark.parametrize("name", SYNTHETIC)
def test_topics_beside_the_tables_are_counted_as_what_they_are(built: Built, spark: SparkSession, name: str) -> None:
    topics = [f"cn_{name}", f"cn_{name}.transaction", f"__debezium-heartbeat.cn_{name}"]
    records = bronze.read(spark, built.places, "records")
    kinds = Counter(row["kind"] for row in records.where(records["topic"].isin(topics)).select("kind").collect())

    assert kinds == {"schema_change": 1, "transaction": 2, "heartbeat": 1}
    entries = held_entries(spark, built.places, list(built.tables.values()))
    assert entries.where(entries["topic"].isin(topics)).count() == 0


def test_a_connector_that_nobody_knows_is_landed_and_held_aside(built: Built, spark: SparkSession) -> None:
    assert [row["problem"] for row in built.log("cn_quux")] == ["connector_unknown"] * len(QUUX)
    assert built.versions("cn_quux") == []
    assert built.counted("cn_quux") == {"quarantined": len(QUUX)}
    entries = held_entries(spark, built.places, list(built.tables.values())).where("topic = 'cn_quux.s.t'").collect()
    assert {(row["code"], "declare one" in row["reason"]) for row in entries} == {("connector_unknown", True)}
    with pytest.raises(UsageError, match=r"no release mends.*then `tidemark build`"):
        release(spark, built.places, [entries[0]["quarantine_id"]], "released", datetime.now(UTC))


def test_declared_rules_hold_for_a_connector_that_nobody_knows(built: Built) -> None:
    assert [(row["v"], row["opened_by"]) for row in built.versions("cn_fork")] == [("a", "insert"), ("b", "update")]


def test_a_change_that_tells_no_position_is_held_aside_and_not_put_somewhere(built: Built) -> None:
    assert [row["problem"] for row in built.log("cn_fork")] == [None, "position_unknown", None]


def test_a_large_value_that_changed_is_no_part_of_oracles_before(built: Built) -> None:
    """It is a placeholder there, however much is logged: it breaks no chain and is no state that a change found."""
    versions = [(row["id"], row["v"], row["n"], row["opened_by"]) for row in built.versions("cn_lob")]

    assert versions == [
        (1, "long", "a", "insert"), (1, "long", "b", "update"), (1, "new", "b", "update"), (2, "new", "b", "update"),
        (3, None, "c", "insert"),
    ]  # fmt: skip
    assert built.counted("cn_lob") == {"opened": 5, "unknown_updates": 1}


def test_an_insert_without_a_large_value_is_told_where_statements_call_the_column_large(
    spark: SparkSession, built: Built
) -> None:
    """With lob.enabled=false that is how Oracle's connector writes one, whatever the row has."""
    table = built.tables["cn_lob"]
    asked = {table.name: described.fields(spark, built.places, [table])[table.name].asked}

    assert asked[table.name].large == ("v", "w")
    assert measure(spark, built.places, [table], asked)[table.name].inserted_as_null == {"v": 1, "w": 1}


def test_the_log_says_which_user_of_oracle_made_a_change(built: Built) -> None:
    users = [row["source_fields"]["user_name"] for row in built.log("cn_oracle")]

    assert users == [None, None, *["SHOP"] * 9]
    assert {row["source_fields"]["user_name"] for row in built.log("cn_lob")} == {None}
    assert "source_fields" not in built.log("cn_sqlserver")[0]


def order_of(database: str) -> str:
    """A row of the table `dbo.orders` of one of several databases that a connector reads."""
    source = {
        "connector": "sqlserver", "name": "cn_tenants", "db": database, "schema": "dbo", "table": "orders",
        "ts_ms": 1_709_287_200_123, "snapshot": "true", "commit_lsn": "00000025:00000d98:00a2",
    }  # fmt: skip
    value = {"op": "r", "ts_ms": 1_709_287_200_123, "source": source, "before": None, "after": {"id": 1}}
    return json.dumps({
        "topic": f"cn_tenants.{database}.dbo.orders", "partition": 0, "offset": 0, "key": '{"id": 1}',
        "value": json.dumps(value),
    }) + "\n"  # fmt: skip


# A column in statements and in rows, as field.name.adjustment.mode has it: `avro`, and `avro_unicode`.
ADJUSTED = {"2nd-total": "_2nd_total", "größe_": "gr_u00f6_u00dfe_u005f"}


def counters() -> str:
    """A row of MySQL's, and the statements that gave its columns their types; the newest is landed first."""
    types = {
        "id": ("BIGINT", "BIGINT"), "fell": ("BIGINT UNSIGNED", "BIGINT"), "rose": ("BIGINT", "bigint unsigned"),
        "grew": ("INT UNSIGNED", "BIGINT UNSIGNED"), "stayed": ("BIGINT UNSIGNED", "BIGINT UNSIGNED ZEROFILL"),
        "short": ("INTEGER UNSIGNED", "INT UNSIGNED"), "shrank": ("INTEGER UNSIGNED", "INTEGER"),
        "precise": ("BIGINT UNSIGNED", "BIGINT UNSIGNED"),
        **dict.fromkeys(ADJUSTED, ("BIGINT UNSIGNED", "BIGINT UNSIGNED")),
    }  # fmt: skip
    source = {"connector": "mysql", "name": "cn_my", "db": "shop", "server_id": 1, "file": "bin.000001", "pos": 4}
    statements, rows = Topic("cn_my"), Topic("cn_my.shop.counters")
    for number, kind in enumerate(("CREATE", "ALTER")):
        columns = [{"name": name, "typeName": told[number]} for name, told in types.items()]
        change = {
            "type": kind,
            "id": '"shop"."counters"',
            "table": {"primaryKeyColumnNames": ["id"], "columns": columns},
        }
        value = {"source": source, "databaseName": "shop", "ddl": f"{kind} TABLE counters", "tableChanges": [change]}
        statements.add(value | {"ts_ms": 1}, {"databaseName": "shop"})
    row = {ADJUSTED.get(name, name): 1 for name in types}
    of_row = source | {"table": "counters", "row": 0, "ts_ms": 1, "snapshot": "false"}
    rows.add({"before": None, "after": row, "source": of_row, "op": "c", "ts_ms": 1}, {"id": 1})
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "0"}}
    image = {"type": "struct", "field": "after", "fields": [decimal | {"field": "precise"}]}
    payload = {"before": None, "after": {"precise": "AQ=="}, "source": of_row | {"pos": 8}, "op": "c", "ts_ms": 1}
    rows.add({"schema": {"type": "struct", "fields": [image]}, "payload": payload}, {"id": 2})
    return "\n".join(reversed(statements.lines.splitlines())) + "\n" + rows.lines


def beside_tables() -> str:
    """Two topics of an outbox, and a snapshot's notification."""
    lines = ""
    for name in ("cn_paid", "cn_sent"):
        event = {"topic": f"outbox.event.{name}", "partition": 0, "offset": 0, "key": '"1"', "value": '{"total": 1}'}
        lines += json.dumps(event | {"headers": [{"key": "id", "value": "e-1"}]}) + "\n"
    notices = Topic("cn_tenants.tells")
    about = {
        "aggregate_type": "Initial Snapshot",
        "type": "STARTED",
        "additional_data": {"connector_name": "cn_tenants"},
    }
    notices.add({"id": "1", "timestamp": "1709287200123", **about}, {"id": "1"})
    return lines + notices.lines


@pytest.fixture(scope="module")
def scaffolded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """A project of what one landing brought, as `tidemark scaffold` writes it."""
    places = Places.of(empty_project(tmp_path_factory.mktemp("scaffolded") / "project"))
    unkeyed = events("cn_bare", "postgresql", [("c", None, {"id": 1, "v": "a"}, {"lsn": 8})])
    unkeyed = unkeyed.replace(json.dumps('{"id": 1}'), "null")
    gone = events("cn_gone", "postgresql", [("t", None, None, {"lsn": 8})])
    land(spark, places, "first", order_of("tenant1") + counters() + beside_tables() + unkeyed + gone, ())
    scaffold(places)
    return places


def scaffold(places: Places) -> set[str]:
    """What `tidemark scaffold` adds to a project: paths in its folder of models."""

    def there() -> set[str]:
        models = places.project / "models"
        return {str(file.relative_to(models)) for file in models.rglob("*.*")}

    before = there()
    assert main(["scaffold", "--project-dir", str(places.project)]) == 0
    return there() - before


def test_a_column_is_unsigned_as_long_as_all_statements_say_so(spark: SparkSession, scaffolded: Places) -> None:
    """Records don't tell: read as unsigned, -5 would be 18446744073709551611, and as signed 2^64 - 1 would be -1."""

    def disputed() -> tuple[dict[str, str], described.Fields]:
        [table] = [one for one in captured_tables(scaffolded) if one.source_name == "cn_my"]
        encodings = {column["name"]: column["encoding"] for column in table.columns if column["encoding"]}
        return encodings, described.fields(spark, scaffolded, [table])[table.name]

    unsigned, found = disputed()
    short = {"short": "int unsigned"}
    big = (*ADJUSTED.values(), "grew", "precise")
    assert unsigned == dict.fromkeys((*big, "stayed"), "bigint unsigned") | short
    assert (found.unsigned, found.signed) == (("rose",), ())
    model = scaffolded.project / "models/silver/changes/cn_my__shop__counters_changes.sql"
    notes = model.with_suffix(".yml").read_text().splitlines()
    for name, kind in (("fell", "bigint"), ("shrank", "int")):
        [note] = [line for line in notes if f"{name} is {kind} unsigned to" in line]
        assert "no record tells which it is of" in note

    text = model.read_text()
    for name, other in (("precise", "gone"), ("stayed", "undeclared"), ("fell", "stayed"), ("undeclared", "fell")):
        text = text.replace(f"'{name}': ", f"'{other}': ")
    model.write_text(text)
    unsigned, found = disputed()
    assert unsigned == dict.fromkeys(({*big} - {"precise"}) | {"fell", "gone"}, "bigint unsigned") | short
    assert ({*found.unsigned}, found.signed) == ({"rose", "stayed", "precise"}, ("fell",))


def test_tables_of_two_databases_are_scaffolded_as_two_and_what_was_edited_stays(
    spark: SparkSession, scaffolded: Places
) -> None:
    project = scaffolded.project
    listed = project / "models/ops/cn_tenants_transactions.sql"
    [suite] = [*(project / "expectations/suites").glob("cn_tenants__*.py")]
    expected = suite.read_text()
    suite.unlink()

    land(spark, scaffolded, "tenant2", order_of("tenant2"), ())
    scaffold(scaffolded)
    names = {table.feed: table.name for table in captured_tables(scaffolded) if table.source_name == "cn_tenants"}
    assert len(names) == 2
    assert suite.read_text() == expected
    assert all(f"'{name}_changes'" in listed.read_text() for name in names.values())

    [second] = set(names.values()) - {suite.stem}
    fewer = listed.read_text().replace(f"    '{second}_changes',\n", "")
    listed.write_text(fewer)
    assert scaffold(scaffolded) == set()
    assert listed.read_text() == fewer

    moved = project / "models" / listed.name
    listed.rename(moved)
    assert scaffold(scaffolded) == set()

    edited = moved.read_text().replace("cn_tenants__dbo__orders_changes", "orders_changes")
    listed.write_text(edited)
    moved.unlink()
    assert scaffold(scaffolded) == set()
    assert listed.read_text() == edited


def test_what_a_model_reads_is_scaffolded_once_whatever_its_name_and_place(
    scaffolded: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    models = scaffolded.project / "models"
    (models / "ops/cn_my_transactions.yml").rename(models / "ops.yml")
    for kind in ("sql", "yml"):
        (models / f"silver/snapshots/cn_tenants_snapshots.{kind}").unlink()
        (models / f"silver/outbox/outbox__cn_sent_events.{kind}").unlink()
    (models / "silver/snapshots/reads.sql").write_text("{{ snapshots('cn_tenants') }}")
    paid = models / "silver/outbox/outbox__cn_paid_events.sql"
    paid.write_text(
        paid.read_text().replace("'outbox.event.cn_paid'", "'outbox.event.cn_paid', 'outbox.event.cn_sent'")
    )

    assert scaffold(scaffolded) == set()
    assert ": only deletes or truncates yet; it has models once a row has landed" in capsys.readouterr().out
    assert main(["scaffold", "--diff", "--project-dir", str(scaffolded.project)]) == 0
    shown = capsys.readouterr().out
    assert "outbox.event.cn_sent" in shown
    assert "cn_tenants_snapshots" not in shown


def test_a_table_whose_key_is_declared_later_gets_a_history(spark: SparkSession, scaffolded: Places) -> None:
    name = "cn_bare__s__t"
    model = scaffolded.project / f"models/silver/changes/{name}_changes.sql"
    keyed = events("cn_bare", "postgresql", [("c", None, {"id": 2, "v": "b"}, {"lsn": 16})])
    land(spark, scaffolded, "keyed", keyed.replace('"offset": 1', '"offset": 2'), ())
    assert scaffold(scaffolded) == set()
    [table] = [one for one in captured_tables(scaffolded) if one.name == name]
    assert described.fields(spark, scaffolded, [table])[name].own_key == ("id",)

    model.write_text(model.read_text().replace("columns={", "key=['v'],\n        columns={"))
    added = {f"silver/current/{name}_current", f"gold/history/{name}_history", f"ops/{name}_accounting"}
    assert scaffold(scaffolded) == {f"{path}.{kind}" for path in added for kind in ("sql", "yml")}
    assert 'key: ["v"]' in (scaffolded.project / f"models/gold/history/{name}_history.yml").read_text()

    [table] = [one for one in captured_tables(scaffolded) if one.name == name]
    assert table.history is not None
    for path in added:
        (scaffolded.project / f"models/{path}.sql").unlink()
    (scaffolded.project / f"models/gold/history/{name}_history.sql").write_text("{{ config(enabled=false) }} select 1")
    assert scaffold(scaffolded) == set()
