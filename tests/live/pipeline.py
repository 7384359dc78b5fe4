"""Databases under load, Debezium in Kafka Connect, a broker and a continuous landing: started, killed, ended."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from deltalake import DeltaTable

from spark_jobs.places import Places
from tests.broker import Broker
from tests.live.connectors import name_of, settings_of
from tests.live.load import TABLES, MariaDbLoad, PostgresLoad
from tests.live.servers import OFFSETS, Connect, MariaDb
from tests.projects import empty_project
from tests.servers import PATIENCE, Postgres, until

TOPICS = r"(__debezium-heartbeat\.)?(postgres|mariadb)(\..*)?"
WRITERS = 3
_SNAPSHOT = "in-the-middle"


@dataclass
class Pipeline:
    """All that runs. `kills` counts what was killed, by what it was."""

    home: Path
    broker: Broker
    worker: Connect
    loads: list[PostgresLoad | MariaDbLoad]
    versions: Mapping[str, str]
    places: Places
    pause: float
    every: str
    servers: Sequence[Postgres | MariaDb | Broker | Connect]
    kills: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _writers: list[threading.Thread] = field(default_factory=list)
    _landing: subprocess.Popen[bytes] | None = None
    _begun_before: int = 0

    def begin(self) -> None:
        """Start connectors and writers: PostgreSQL's before its snapshot, MariaDB's behind it (Observed 28)."""
        postgres, mariadb = self.loads
        self._write(postgres)
        mariadb.note_start()
        mariadb.mark(1, "first")
        for load in self.loads:
            self.worker.put(name_of(load), settings_of(load, self.versions[name_of(load)], self.worker, self.broker))
        postgres.note_start()
        postgres.mark(1, "first")
        until(
            lambda: all(self.has_come(load, "first") for load in self.loads),
            lambda: f"{self.states} {self.worker.output}",
        )
        self._write(mariadb)
        # A connector that is killed before begins anew: it takes a snapshot again, and misses what was between.
        until(lambda: all(map(self._keeps_its_place, self.versions)), lambda: f"{self.states} {self.worker.output}")
        self._let_truncate()

    def _let_truncate(self) -> None:
        for load in self.loads:
            load.may_truncate.set()

    def _write(self, load: PostgresLoad | MariaDbLoad) -> None:
        for number in range(WRITERS):
            writer = threading.Thread(target=load.write, args=(number, self._stop, self.pause))
            writer.start()
            self._writers.append(writer)

    def has_come(self, load: PostgresLoad | MariaDbLoad, word: str) -> bool:
        """Whether a mark's row is in its topic."""
        return any(word.encode() in one for one in self._sent(f"{name_of(load)}.{load.in_source('marker')}"))

    def _keeps_its_place(self, name: str) -> bool:
        """Whether a connector has written down how far it came in its database's log, behind its first snapshot."""
        kept = (one for one in self._records(OFFSETS) if f'"{name}"'.encode() in (one.key() or b""))
        return any("snapshot" not in json.loads(one.value()) for one in kept if one.value())

    def _sent(self, topic: str) -> list[bytes]:
        """The values of a topic's records, as `_records` has them."""
        return [one.value() or b"" for one in self._records(topic)]

    def _records(self, topic: str) -> list[Any]:
        """A topic's records; none where it is not there, or so new that nobody leads it."""
        if topic not in self.broker.admin.list_topics(timeout=30).topics:
            return []
        try:
            return self.broker.consumed(topic)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE):
                raise
            return []

    def go_on(self, changes: int) -> None:
        """Let the writers commit so many changes more on each database."""
        wanted = [(load, load.changes + changes) for load in self.loads]
        until(lambda: any(load.failures for load, _ in wanted) or all(load.changes >= so for load, so in wanted),
              lambda: f"{[load.changes for load in self.loads]} changes", PATIENCE * 5)  # fmt: skip
        self._check_writers()

    def _check_writers(self) -> None:
        assert [load.failures for load in self.loads] == [[], []]

    def start_landing(self) -> None:
        """Land topics for as long as it is let."""
        self._begun_before = self._begun()
        program = str(Path(sys.executable).with_name("tidemark"))
        with (self.home / "landing.txt").open("a") as output:
            self._landing = subprocess.Popen(
                [program, "land", "--kafka", self.broker.address, "--topics", TOPICS, "--continuous",
                 "--every", self.every, "--project-dir", str(self.places.project)],
                env=os.environ | self.places.environment() | {"TIDEMARK_DRIVER_MEMORY": "1g"},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    def lands(self) -> None:
        """Wait until the landing has written something since now."""
        known, landing = self._landed(), self._landing
        assert landing is not None
        until(lambda: self._landed() > known or landing.poll() is not None, lambda: f"nothing landed: {self.output}")
        assert landing.poll() is None, self.output

    @property
    def output(self) -> str:
        """What the landings said, on the terminal and in their logs."""
        logs = sorted(Path(self.places.lakehouse).glob("logs/*"))
        return "\n".join(one.read_text()[-3000:] for one in [self.home / "landing.txt", *logs])

    def _begun(self) -> int:
        """How many landings have begun: until then SIGTERM ends one as it ends every command."""
        return sum(log.read_text().count("INFO land begins") for log in Path(self.places.lakehouse).glob("logs/*"))

    def _landed(self) -> int:
        location = self.places.table("bronze", "records")
        return DeltaTable(location).version() if DeltaTable.is_deltatable(location) else -1

    def kill_landing(self) -> None:
        """Kill the landing, and start another."""
        self.end_landing(signal.SIGKILL)
        self.kills.append("landing")
        self.start_landing()

    def end_landing(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End the landing, its JVM too."""
        if self._landing is not None:
            if by == signal.SIGKILL:
                os.killpg(self._landing.pid, by)
            else:
                until(lambda: self._begun() > self._begun_before, lambda: f"no landing has begun: {self.output}")
                self._landing.send_signal(by)
            status = self._landing.wait(PATIENCE * 5)  # behind a batch, which after a build is of minutes
            assert status == (0 if by == signal.SIGTERM else -by), self.output
            self._landing = None

    def kill_connectors(self) -> None:
        """Kill Kafka Connect, and start it again."""
        self.worker.stop()
        self.kills.append("connectors")
        self.worker.start()

    def kill_broker(self, seconds: float) -> None:
        """Kill the broker, and start it again after a while."""
        self.broker.stop()
        self.kills.append("broker")
        time.sleep(seconds)
        self.broker.start()

    def grow(self) -> None:
        """Alter a table of each database, under its writers."""
        for load in self.loads:
            load.grow()

    def snapshot(self) -> None:
        """Ask both connectors for incremental snapshots of every table that has a key."""
        for load in self.loads:
            load.may_truncate.clear()
            load.signal(_SNAPSHOT, [name for name in TABLES if name not in ("line", "marker")])

    def snapshotted(self) -> None:
        """Wait until those have read all."""
        until(lambda: all(map(self._is_snapshotted, self.versions)), lambda: f"no end of a snapshot: {self.states}",
              PATIENCE * 5)  # fmt: skip
        self._let_truncate()

    def end_load(self) -> None:
        """End the writers, and wait until the connectors have sent all that there is."""
        for load in self.loads:
            load.write_each()
        self._stop.set()
        for writer in self._writers:
            writer.join()
        self._check_writers()
        for load in self.loads:
            load.mark(2, "last")
        until(
            lambda: all(self.has_come(load, "last") for load in self.loads),
            lambda: f"{self.states} {self.worker.output}",
        )
        self.worker.stop()  # heartbeats would go on

    def sent(self) -> Counter[tuple[str, int, int]]:
        """Where each record is that the broker has: topic, partition, offset."""
        topics = [name for name in self.broker.admin.list_topics(timeout=30).topics if re.fullmatch(TOPICS, name)]
        return Counter((name, one.partition(), one.offset()) for name in topics for one in self.broker.consumed(name))

    def account(self) -> tuple[dict[str, str], Path]:
        """Write what the databases say of themselves, and end every server; name → folder, and where those are."""
        folder = self.home / "accounts"
        names = {name: f"{name}-{version}-live" for name, version in self.versions.items()}
        for load in self.loads:
            (folder / names[name_of(load)]).mkdir(parents=True)
            load.account(folder / names[name_of(load)])
        for server in self.servers:
            server.stop()
        return names, folder

    @property
    def states(self) -> dict[str, str]:
        """The connectors' states."""
        return {name: self.worker.state(name) for name in self.versions}

    def _is_snapshotted(self, name: str) -> bool:
        notifications = [json.loads(one)["payload"] for one in self._sent(f"{name}.notifications")]
        return any(
            (one["aggregate_type"], one["type"]) == ("Incremental Snapshot", "COMPLETED") for one in notifications
        )

    def stop(self) -> None:
        """End what runs, whatever has happened."""
        self._stop.set()
        for writer in self._writers:
            writer.join(60)
        self.end_landing(signal.SIGKILL)


@contextmanager
def running(versions: Mapping[str, str], seed: int, pause: float, every: str) -> Iterator[Pipeline]:
    """Start servers in a folder of their own, and end them by their process ids, however it ends.

    The folder is no test's: those are closed to the users that the databases run as. Where something failed it stays.
    """
    home = Path(tempfile.mkdtemp(prefix="tidemark-live-"))
    home.chmod(0o755)
    with ExitStack() as ends:
        postgres, mariadb = Postgres(home / "postgres"), MariaDb(home / "mariadb")
        broker = Broker(home / "broker")
        plugins = [f"{name}-{version}" for name, version in versions.items()]
        worker = Connect(home / "connect", broker=broker.address, plugins=plugins)
        servers = (postgres, mariadb, broker, worker)
        for server in servers:
            ends.callback(server.stop)
            server.start()
        places = Places(empty_project(home / "project"), str(home / "lakehouse"), str(home / "catalog"))
        of_both: list[PostgresLoad | MariaDbLoad] = [PostgresLoad(postgres, seed), MariaDbLoad(mariadb, seed)]
        pipeline = Pipeline(home, broker, worker, of_both, versions, places, pause, every, servers)
        ends.callback(pipeline.stop)
        yield pipeline
    shutil.rmtree(home, ignore_errors=True)
