"""Real servers on the loopback, for tests: what they have in common, and PostgreSQL, which two of them need.

Each has its own folder and ports, is started by its test and ended by its process id. Debian's packages have the
databases (`make setup-servers`); what is written in Java comes as jars, which `make test` fetches.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import pg8000.native
import pyspark

PROJECT: Final = Path(__file__).parents[1]
SPARK: Final = Path(pyspark.__file__).parent
PATIENCE: Final = 120
DATABASE: Final = "shop"
# How small a server of tests is: its compiler is fast, its memory has one collector.
SMALL: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.timezone=UTC")
_POSTGRES: Final = Path("/usr/lib/postgresql/15/bin")


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def program(name: str) -> str:
    """A program of a database's, where Debian's packages put it."""
    found = shutil.which(name, path=f"{_POSTGRES}:/usr/sbin:/usr/bin:{os.environ.get('PATH', '')}")
    assert found is not None, f"{name} is missing: run `make setup-servers` as root"
    return found


def java(memory: str, jars: Iterable[Path | str], *arguments: Path | str) -> list[str]:
    """A command that runs a class in a small process, by the Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin/java") if home else "java"
    return [command, f"-Xmx{memory}", *SMALL, "-cp", ":".join(map(str, jars)), *map(str, arguments)]


def of_spark(names: Iterable[str]) -> list[Path]:
    """Those of Spark's own jars whose names begin so."""
    return [jar for name in names for jar in sorted((SPARK / "jars").glob(f"{name}*.jar"))]


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
    """A process with a folder of its own; `begin` and `stop` may take turns, what it keeps stays.

    `user` is who it runs as where this process is root, since databases refuse root. `ERRORS` are what a client meets
    that asks before the server answers.
    """

    folder: Path
    user: str | None = None
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    password: str = field(default_factory=lambda: secrets.token_hex(12))

    ERRORS: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        [self.port] = free_ports(1)
        self.user = self.user if os.geteuid() == 0 else None
        self.own(self.folder)

    def own(self, path: Path) -> None:
        """Give a file or folder to who the server runs as."""
        if self.user is not None:
            shutil.chown(path, self.user, pwd.getpwnam(self.user).pw_gid)

    @property
    def output(self) -> str:
        """The end of what it said."""
        return (self.folder / "said.txt").read_text(errors="replace")[-4000:]

    def run(self, *command: str | Path) -> None:
        """Run a command of the server's to its end."""
        assert self._popen(command).wait(PATIENCE) == 0, self.output

    def begin(
        self,
        *command: str | Path,
        answers: Callable[[], Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Start the server, and wait until it answers: at least a connection to its port."""
        process = self.process = self._popen(command, environ)

        def is_there() -> bool:
            assert process.poll() is None, self.output
            with suppress(*self.ERRORS):
                return bool((answers or self._listens)())
            return False

        until(is_there, lambda: self.output)

    def stop(self, by: signal.Signals = signal.SIGKILL) -> None:
        """End it and what it started; by default at once, as a power cut would."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, by)
            self.process.wait(PATIENCE)
            self.process = None

    def _listens(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def _popen(
        self, command: Sequence[str | Path], environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        group = None if self.user is None else pwd.getpwnam(self.user).pw_gid
        with (self.folder / "said.txt").open("a") as log:
            return subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                user=self.user, group=group, extra_groups=None if self.user is None else [], env=environ,
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
    """PostgreSQL with logical decoding, and a database `shop`; its folder has to be one that any user may enter."""

    user: str | None = "postgres"

    ERRORS: ClassVar = (pg8000.native.InterfaceError, pg8000.native.DatabaseError, OSError)

    def start(self) -> None:
        """Start it; the first time, make its data folder."""
        data, password = self.folder / "data", self.folder / "password"
        is_new = not data.exists()
        if is_new:
            password.write_text(self.password)
            self.own(password)
            self.run(program("initdb"), "-D", data, "-U", "owner", "-A", "scram-sha-256", f"--pwfile={password}",
                     "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")  # fmt: skip
        settings = [part for name, value in _POSTGRES_SETTINGS.items() for part in ("-c", f"{name}={value}")]
        self.begin(program("postgres"), "-D", data, "-p", str(self.port), *settings,
                   answers=lambda: self.connect("postgres"))  # fmt: skip
        if is_new:
            self.connect("postgres").run(f"create database {DATABASE}")

    def connect(self, database: str = DATABASE) -> pg8000.native.Connection:
        """A connection of the owner's."""
        return pg8000.native.Connection(
            "owner", host="127.0.0.1", port=self.port, database=database, password=self.password
        )

    def stop(self, by: signal.Signals = signal.SIGINT) -> None:
        """End it, its sessions too."""
        super().stop(by)
