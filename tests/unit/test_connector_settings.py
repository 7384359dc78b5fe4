"""What docs/connectors.md advises is what `make live` runs, but for what follows from the place."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from tests.broker import Broker
from tests.live.connectors import settings_of
from tests.live.load import Load, MariaDbLoad, PostgresLoad
from tests.live.servers import VERSIONS, Connect
from tests.servers import DATABASE, PROJECT, Server

PAGE = (PROJECT / "docs/connectors.md").read_text().split("\n## Configurations that a test runs\n")[1].split("\n## ")[0]
OLD, NEW = VERSIONS
# Of one machine on the loopback, and of a test that is over in minutes: there, and not on the page.
_WORKERS_OWN = re.compile(
    r"bootstrap\.servers|group\.id|(config|offset|status)\.storage\..*|offset\.flush\.interval\.ms|listeners|"
    r"plugin\.path|scheduled\.rebalance\.max\.delay\.ms|session\.timeout\.ms|heartbeat\.interval\.ms"
)
_CONNECTORS_OWN = re.compile(
    r"tasks\.max|database\.(hostname|port|user|password|dbname|ssl\.mode)|incremental\.snapshot\.chunk\.size"
)
# On the page with another value than there.
_OTHER_VALUES = {
    "heartbeat.interval.ms": "10000",
    "topic.creation.default.partitions": "3",
    "topic.creation.default.replication.factor": "3",
    "topic.creation.unkeyed.include": r"shop\.public\.(line|log)",
    "topic.creation.unkeyed.replication.factor": "3",
}
# The page tells these in words; where a schema history is depends on the version.
_HISTORY = {
    NEW: ("schema.history.internal.kafka.bootstrap.servers", "schema.history.internal.kafka.topic"),
    OLD: ("schema.history.internal", "schema.history.internal.file.filename"),
}
_IN_WORDS = ("topic.prefix", "database.server.id", "database.include.list", *_HISTORY[NEW], *_HISTORY[OLD])
_AS_ABOVE = ("provide.transaction.metadata", "skipped.operations", "heartbeat.interval.ms", "signal.data.collection",
             "notification.enabled.channels", "notification.sink.topic.name")  # fmt: skip


def shown(language: str) -> list[str]:
    """The page's blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def properties(text: str) -> dict[str, str]:
    """The settings of a properties file."""
    lines = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in lines}


def documents(text: str) -> list[dict[str, str]]:
    """JSON documents, one behind the other."""
    found, place = [], 0
    while place < len(text.rstrip()):
        one, place = json.JSONDecoder().raw_decode(text, place)
        found.append(one)
        place += len(text[place:]) - len(text[place:].lstrip())
    return found


def used(kind: type[Load], version: str, folder: Path) -> dict[str, str]:
    """The settings that `make live` gives a connector, with the page's name of the topic prefix. Nothing is started."""
    one: Any = object.__new__(kind)
    one.server, one.password = Server(folder / "database"), "secret"
    broker = object.__new__(Broker)
    broker.port = 9092
    found = dict(settings_of(one, version, Connect(folder / "worker"), broker))
    name = found["topic.prefix"]
    return found | {
        setting: re.sub(rf"^{name}\b", DATABASE, found[setting])
        for setting in ("topic.prefix", "notification.sink.topic.name")
    }


def without(settings: Mapping[str, str], own: re.Pattern[str]) -> dict[str, str]:
    """Settings but for those that only a test has."""
    return {name: value for name, value in settings.items() if not own.fullmatch(name)}


class Recorder:
    """A server, its connection and its cursor in one, that runs nothing and keeps each statement as the page would."""

    def __init__(self, password: str) -> None:
        self.password = password
        self.ran: list[str] = []

    def connect(self) -> Recorder:
        """A connection."""
        return self

    def cursor(self) -> AbstractContextManager[Recorder]:
        """A cursor."""
        return nullcontext(self)

    def run(self, statement: str, *_: object) -> int:
        """Keep a statement: one host is for all there."""
        self.ran.append(statement.replace("'127.0.0.1'", "'%'"))
        return 0

    execute = run

    def fetchall(self) -> list[tuple[Any, ...]]:
        """No rows."""
        return []

    def fetchone(self) -> tuple[Any, ...]:
        """A row of what isn't there."""
        return (None, None)

    def commit(self) -> None:
        """Nothing to do."""


def test_the_workers_settings(tmp_path: Path) -> None:
    [text] = shown("properties")
    folder = tmp_path / "worker"
    secret = Connect(folder).secret("shop", "secret")

    assert properties(text) == without(properties((folder / "worker.properties").read_text()), _WORKERS_OWN)
    [password] = re.findall(r'# .*"database.password": "(.*)"', text)
    assert password == secret.replace(str(folder), "/etc/connect")


def test_the_connectors_settings(tmp_path: Path) -> None:
    [postgres], mariadb, [topics] = map(documents, shown("json"))

    def expected(kind: type[Load], version: str) -> dict[str, str]:
        settings = used(kind, version, tmp_path / kind.__name__ / version)
        assert settings.keys() > _OTHER_VALUES.keys()
        return without(settings, _CONNECTORS_OWN) | _OTHER_VALUES

    assert postgres | topics == expected(PostgresLoad, NEW)
    for version, settings in zip((NEW, OLD), mariadb, strict=True):
        there = expected(MariaDbLoad, version)
        assert settings == {
            name: value for name, value in there.items() if name not in (*_IN_WORDS, *_AS_ABOVE, *topics)
        }
        assert {name: there[name] for name in _AS_ABOVE} == {name: postgres[name] for name in _AS_ABOVE} | {
            "signal.data.collection": f"{DATABASE}.debezium_signal"
        }
        assert set(_IN_WORDS) & there.keys() == {*_IN_WORDS[:3], *_HISTORY[version]}
    words = PAGE.split("and for both ")[1].split("\n\n")[0]
    assert set(re.findall(r"`([a-z.]+)`", words)) == set(_IN_WORDS)


def test_the_databases_statements() -> None:
    kinds: list[Any] = [PostgresLoad, MariaDbLoad]
    for kind, text in zip(kinds, shown("sql"), strict=True):
        recorder = Recorder("…")
        kind(recorder, 0)
        statements = [one.strip() for one in text.split(";\n") if one.strip()]

        assert statements
        assert [one for one in recorder.ran if one in statements] == statements
