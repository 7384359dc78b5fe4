"""What Debezium's connectors are told, as docs/connectors.md advises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.broker import Broker
from tests.live.load import CONNECTOR, MariaDbLoad, PostgresLoad
from tests.live.servers import Connect
from tests.servers import DATABASE

PARTITIONS: Final = {"postgres": "3", "mariadb": "2"}
_EVERY: Final = {
    "tasks.max": "1",
    "database.hostname": "127.0.0.1",
    "database.user": CONNECTOR,
    "provide.transaction.metadata": "true",
    "skipped.operations": "none",
    "heartbeat.interval.ms": "1000",
    "incremental.snapshot.chunk.size": "64",
    "notification.enabled.channels": "sink",
    "topic.creation.default.replication.factor": "1",
    # Changes without a key go to any partition; only an order of all of them tells equal rows from redeliveries (R3).
    "topic.creation.groups": "unkeyed",
    "topic.creation.unkeyed.include": r".*\.line",
    "topic.creation.unkeyed.partitions": "1",
    "topic.creation.unkeyed.replication.factor": "1",
}
_OF_POSTGRES: Final = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "database.dbname": DATABASE,
    "publication.name": "tidemark",
    "publication.autocreate.mode": "disabled",
    "slot.name": "tidemark",
    "schema.include.list": "public",
    "signal.data.collection": "public.debezium_signal",
}
_OF_MARIADB: Final = {
    "database.server.id": "184054",
    "database.include.list": DATABASE,
    "signal.data.collection": f"{DATABASE}.debezium_signal",
}
# Before 2.7 there is no connector of MariaDB's own; MySQL's takes it by an adapter, and calls itself `mysql`.
_BY_VERSION: Final = {
    "2.5.4.Final": {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "connector.adapter": "mariadb",
        "database.protocol": "jdbc:mariadb",
        "database.jdbc.driver": "org.mariadb.jdbc.Driver",
        "database.ssl.mode": "disabled",
    },
    "3.5.0.Final": {"connector.class": "io.debezium.connector.mariadb.MariaDbConnector"},
}


def settings_of(load: PostgresLoad | MariaDbLoad, version: str, worker: Connect, broker: Broker) -> Mapping[str, str]:
    """A connector's settings; its name and topic prefix are the database's."""
    name = name_of(load)
    server = {
        "topic.prefix": name,
        "database.port": str(load.server.port),
        "database.password": worker.secret(name, load.password),
        "topic.creation.default.partitions": PARTITIONS[name],
        "notification.sink.topic.name": f"{name}.notifications",
    }
    if isinstance(load, PostgresLoad):
        return _EVERY | _OF_POSTGRES | server
    history = {
        "schema.history.internal.kafka.bootstrap.servers": broker.address,
        "schema.history.internal.kafka.topic": f"schemas-of-{name}",
    }
    if version == "2.5.4.Final":
        # Its way to read that topic again is gone from the clients of Kafka 4, which this worker has.
        history = {
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(worker.folder / f"schemas-of-{name}"),
        }
    return _EVERY | _OF_MARIADB | _BY_VERSION[version] | server | history


def name_of(load: PostgresLoad | MariaDbLoad) -> str:
    """`postgres` or `mariadb`."""
    return "postgres" if isinstance(load, PostgresLoad) else "mariadb"
