"""Real servers on the loopback, for tests: PostgreSQL, MariaDB and Kafka Connect, each with its own folder and port.

Debian's packages have the databases (`make setup-servers`); Kafka Connect and Debezium are the jars of `*.jars.txt`,
fetched by `make test` and `make live`. Each is started by its test and ended by its process id.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pg8000.native
import pymysql
import pyspark
import requests

from spark_jobs.fetch_jars import wanted
from tests.broker import PROJECT, free_ports

PATIENCE: Final = 120
VERSIONS: Final = ("2.5.4.Final", "3.5.0.Final")
DATABASE: Final = "shop"
_POSTGRES: Final = Path("/usr/lib/postgresql/15/bin")
_MARIADB: Final = ("mariadbd", "mariadb-install-db")
_OF_SPARK: Final = ("lz4-java", "snappy-java", "zstd-jni", "slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2")
_OF_BROKER: Final = ("kafka-clients", "jose4j", "jackson-datatype-jdk8")


def require_servers() -> None:
    """Fail with what to do where the databases are not installed."""
    found = {"postgres": (_POSTGRES / "postgres").exists()} | {name: _found(name) is not None for name in _MARIADB}
    missing = [name for name, is_there in found.items() if not is_there]
    assert not missing, f"PostgreSQL 15 and MariaDB are needed ({', '.join(missing)} not found): make setup-servers"


def _found(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")


def until(is_so: Callable[[], Any], otherwise: Callable[[], str], patience: float = PATIENCE) -> Any:
    """Wait until something is so, and give it; `otherwise` says what is wrong where it never comes to be so."""
    deadline = time.monotonic() + patience
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.05)


@dataclass
class Server:
    """A process with a folder of its own; what it says is in `said.txt` there.

    `user` is who it runs as where this process is root, since both databases refuse root.
    """

    folder: Path
    user: str | None = None
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    password: str = field(default_factory=lambda: secrets.token_hex(12))

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        [self.port] = free_ports(1)
        self.user = self.user if os.geteuid() == 0 else None
        self.own(self.folder)

    def own(self, path: Path) -> None:
        """Give a file or folder to who the server runs as."""
        if self.user is not None:
            shutil.chown(path, self.user, pwd.getpwnam(self.user).pw_gid)

    @property
    def said(self) -> str:
        """The end of what it said."""
        return (self.folder / "said.txt").read_text(errors="replace")[-4000:]

    def run(self, *command: str | Path) -> None:
        """Run a command of the server's to its end."""
        assert self._popen(command).wait(PATIENCE) == 0, self.said

    def begin(self, *command: str | Path, answers: Callable[[], Any]) -> None:
        """Start the server, and wait until it answers."""
        self.process = self._popen(command)
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(pg8000.native.InterfaceError, pg8000.native.DatabaseError, pymysql.Error, OSError):
                if answers():
                    return
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.05)

    def stop(self, by: signal.Signals = signal.SIGKILL) -> None:
        """End it by a signal."""
        if self.process is not None:
            self.process.send_signal(by)
            self.process.wait(PATIENCE)
            self.process = None

    def _popen(self, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        group = None if self.user is None else pwd.getpwnam(self.user).pw_gid
        with (self.folder / "said.txt").open("a") as said:
            return subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
                user=self.user, group=group, extra_groups=None if self.user is None else [], env=env,
            )  # fmt: skip


_POSTGRES_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "8",
    "max_replication_slots": "8",
    "track_commit_timestamp": "on",  # the judge asks when a transaction was committed
    "fsync": "off",
    "shared_buffers": "64MB",
    "timezone": "UTC",
}


@dataclass
class Postgres(Server):
    """PostgreSQL with logical decoding, and a database `shop`."""

    user: str | None = "postgres"

    def start(self) -> None:
        """Make its data folder, and start it."""
        data, password = self.folder / "data", self.folder / "password"
        password.write_text(self.password)
        self.own(password)
        self.run(_POSTGRES / "initdb", "-D", data, "-U", "owner", "-A", "scram-sha-256", f"--pwfile={password}",
                 "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")  # fmt: skip
        settings = [part for name, value in _POSTGRES_SETTINGS.items() for part in ("-c", f"{name}={value}")]
        self.begin(_POSTGRES / "postgres", "-D", data, "-p", str(self.port), *settings,
                   answers=lambda: self.connect("postgres"))  # fmt: skip
        self.connect("postgres").run(f"create database {DATABASE}")

    def connect(self, database: str = DATABASE) -> pg8000.native.Connection:
        """A connection of the owner's."""
        return pg8000.native.Connection(
            "owner", host="127.0.0.1", port=self.port, database=database, password=self.password
        )

    def stop(self, by: signal.Signals = signal.SIGINT) -> None:
        """End it, its sessions too."""
        super().stop(by)


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

    def start(self) -> None:
        """Make its data folder, and start it."""
        data = self.folder / "data"
        self.run(str(_found("mariadb-install-db")), "--no-defaults", f"--datadir={data}", f"--tmpdir={self.folder}",
                 "--auth-root-authentication-method=normal", "--skip-test-db")  # fmt: skip
        first = self.folder / "first.sql"
        first.write_text(
            f"alter user root@localhost identified by '{self.password}';\n"
            f"create user owner@'127.0.0.1' identified by '{self.password}';\n"
            f"grant all on *.* to owner@'127.0.0.1' with grant option;\ncreate database {DATABASE};\n"
        )
        self.own(first)
        settings = [f"--{name}={value}" for name, value in _MARIADB_SETTINGS.items()]
        self.begin(str(_found("mariadbd")), "--no-defaults", f"--datadir={data}", f"--tmpdir={self.folder}",
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


_WORKER = """
bootstrap.servers={broker}
group.id=connect
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.replace.null.with.default=false
value.converter.replace.null.with.default=false
config.storage.topic=connect.configs
offset.storage.topic=connect.offsets
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
        told = _WORKER.format(broker=self.broker, port=self.port, plugins=self.folder / "plugins")
        (self.folder / "worker.properties").write_text(told)
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
        home = os.environ.get("JAVA_HOME")
        spark, broker = Path(pyspark.__file__).parent / "jars", PROJECT / ".jars/broker"
        jars = [*_jars("connect"), *(jar for name in _OF_BROKER for jar in broker.glob(f"{name}-*.jar"))]
        jars += [jar for name in _OF_SPARK for jar in spark.glob(f"{name}*.jar")]
        self.begin(
            str(Path(home) / "bin/java") if home else "java", "-Xmx512m", "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC", "-cp", ":".join(map(str, jars)),
            f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties",
            "org.apache.kafka.connect.cli.ConnectDistributed", self.folder / "worker.properties",
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
