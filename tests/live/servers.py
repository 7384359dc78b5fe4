"""MariaDB and Kafka Connect with Debezium, whose jars `*.jars.txt` list and `make live` fetches."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import pymysql
import requests

from spark_jobs.fetch_jars import wanted
from tests.servers import DATABASE, PATIENCE, PROJECT, Server, java, of_spark, program

VERSIONS: Final = ("2.5.4.Final", "3.5.0.Final")
_OF_SPARK: Final = ("lz4-java", "snappy-java", "zstd-jni", "slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2")
_OF_BROKER: Final = ("kafka-clients", "jose4j", "jackson-datatype-jdk8")


_MARIADB_SETTINGS = {
    "bind-address": "127.0.0.1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "server-id": "7",
    "binlog-ignore-db": "audit",  # else each row's note by a trigger parts the rows of a statement
    "innodb-buffer-pool-size": "64M",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-lock-wait-timeout": "3",
    "character-set-server": "utf8mb4",
    "default-time-zone": "+00:00",
    "max-allowed-packet": "64M",
    "plugin-dir": "/usr/lib/mysql/plugin",
}


@dataclass
class MariaDb(Server):
    """MariaDB with a binary log of whole rows, and a database `shop`."""

    user: str | None = "nobody"

    ERRORS: ClassVar = (pymysql.Error, OSError)

    def start(self) -> None:
        """Make its data folder, and start it."""
        data = self.folder / "data"
        self.run(program("mariadb-install-db"), "--no-defaults", f"--datadir={data}", f"--tmpdir={self.folder}",
                 "--auth-root-authentication-method=normal", "--skip-test-db")  # fmt: skip
        first = self.folder / "first.sql"
        first.write_text(
            f"alter user root@localhost identified by '{self.password}';\n"
            f"create user owner@'127.0.0.1' identified by '{self.password}';\n"
            f"grant all on *.* to owner@'127.0.0.1' with grant option;\ncreate database {DATABASE};\n"
        )
        self.own(first)
        settings = [f"--{name}={value}" for name, value in _MARIADB_SETTINGS.items()]
        self.begin(program("mariadbd"), "--no-defaults", f"--datadir={data}", f"--tmpdir={self.folder}",
                   f"--port={self.port}", f"--socket={self.folder}/socket", f"--init-file={first}", *settings,
                   answers=self.connect)  # fmt: skip

    def connect(self, database: str = DATABASE) -> pymysql.Connection[Any]:
        """A connection of the owner's."""
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="owner", password=self.password, database=database,
            charset="utf8mb4", local_infile=True,
        )  # fmt: skip

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        super().stop(by)


# The topic in which connectors keep how far they came.
OFFSETS = "connect.offsets"
_WORKER = """
bootstrap.servers={broker}
group.id=connect
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.replace.null.with.default=false
value.converter.replace.null.with.default=false
config.storage.topic=connect.configs
offset.storage.topic={offsets}
status.storage.topic=connect.status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=1
status.storage.partitions=1
offset.flush.interval.ms=5000
listeners=http://127.0.0.1:{port}
plugin.path={plugins}
config.providers=file
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
scheduled.rebalance.max.delay.ms=0
session.timeout.ms=6000
heartbeat.interval.ms=1000
"""


@dataclass
class Connect(Server):
    """A worker of Kafka Connect, distributed, with the Debezium connectors of `plugins` (names of `*.jars.txt`).

    What connectors are told and how far they came is in the broker's topics: a worker started again goes on.
    """

    broker: str = ""
    plugins: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.plugins:
            (self.folder / "plugins" / name).mkdir(parents=True)
            for jar in _jars(name):
                (self.folder / "plugins" / name / jar.name).symlink_to(jar)
        properties = _WORKER.format(
            broker=self.broker, offsets=OFFSETS, port=self.port, plugins=self.folder / "plugins"
        )
        (self.folder / "worker.properties").write_text(properties)
        (self.folder / "log4j2.properties").write_text(
            "status=off\nappender.file.type=Console\nappender.file.name=said\nappender.file.layout.type=PatternLayout\n"
            "appender.file.layout.pattern=%d %p %c{1}: %m%n%ex{6}\n"
            "rootLogger.level=warn\nrootLogger.appenderRef.said.ref=said\n"
        )

    def secret(self, name: str, password: str) -> str:
        """A setting that has its value in a file: it is in no topic and no answer of the worker's."""
        file = self.folder / f"{name}.secret"
        file.write_text(f"password={password}\n")
        file.chmod(0o600)
        return f"${{file:{file}:password}}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        jars = [*_jars("connect"), *of_spark(_OF_SPARK)]
        jars += [jar for name in _OF_BROKER for jar in (PROJECT / ".jars/broker").glob(f"{name}-*.jar")]
        self.begin(
            *java("512m", jars, f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties",
                  "org.apache.kafka.connect.cli.ConnectDistributed", self.folder / "worker.properties"),
            answers=lambda: requests.get(f"{self.address}/connectors", timeout=5).ok,
        )  # fmt: skip

    @property
    def address(self) -> str:
        """Its REST interface."""
        return f"http://127.0.0.1:{self.port}"

    def put(self, name: str, settings: Mapping[str, str]) -> None:
        """Add a connector, or change its settings."""
        answer = requests.put(f"{self.address}/connectors/{name}/config", json=dict(settings), timeout=PATIENCE)
        assert answer.ok, answer.text

    def state(self, name: str) -> str:
        """The state of a connector's task: RUNNING, FAILED with its trace, or another."""
        answer = requests.get(f"{self.address}/connectors/{name}/status", timeout=30)
        if not answer.ok or not answer.json()["tasks"]:
            return "none"
        [task] = answer.json()["tasks"]
        return f"{task['state']} {task.get('trace', '')[:2000]}".strip()


def _jars(name: str) -> list[Path]:
    """The jars of a list, where `make` put them."""
    found = [PROJECT / ".jars/live" / jar for jar in wanted(Path(__file__).with_name(f"{name}.jars.txt"))]
    missing = [jar.name for jar in found if not jar.exists()]
    assert not missing, f"{', '.join(missing)} not found: make .jars/live/ready"
    return found
