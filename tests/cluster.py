"""A cluster on the loopback, for tests: an S3 server, PostgreSQL, Spark's master, workers and Thrift Server.

Each is a process of its own with its own folder, ended by its id. `make .jars/cluster/ready .jars/s3/ready` fetches
their jars, `make setup-servers` installs PostgreSQL.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.session import FOR_SMALL_TABLES
from tests.servers import PROJECT, SMALL, Postgres, Server, java, program

BUCKET = "lake"
ACCESS, SECRET = "tide", "mark of the tests"
TIDEMARK = [sys.executable, "-m", "spark_jobs.cli"]


class ObjectStore(Server):
    """S3Proxy: the S3 protocol over files of a folder, strongly consistent, its creations conditional."""

    def start(self, *, latency: int = 0) -> None:
        """Start it; with `latency`, every answer takes so many milliseconds longer."""
        (self.folder / "data").mkdir(exist_ok=True)
        slow = [f"s3proxy.latency-blobstore.*.latency={latency}"] if latency else []
        lines = [
            f"s3proxy.endpoint=http://127.0.0.1:{self.port}",
            "s3proxy.authorization=aws-v2-or-v4",
            f"s3proxy.identity={ACCESS}",
            f"s3proxy.credential={SECRET}",
            "jclouds.provider=filesystem-nio2",
            f"jclouds.filesystem.basedir={self.folder}/data",
            *slow,
        ]
        (self.folder / "s3proxy.properties").write_text("\n".join(lines))
        (self.folder / "logback.xml").write_text('<configuration><root level="OFF"/></configuration>')
        self.begin(*java("256m", [PROJECT / ".jars/s3/*"], f"-Dlogback.configurationFile={self.folder}/logback.xml",
                         "org.gaul.s3proxy.Main", "--properties", "s3proxy.properties"))  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """Where it is, and who asks, as every client of S3 takes it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }


class Spark(Server):
    """A daemon of Spark's own: master or worker."""

    def launch(self, command: Sequence[str], *arguments: str) -> None:
        """Start one by its documented command, as small as a test wants it."""
        logs = f"-Dlog4j2.configurationFile={PROJECT}/conf/log4j2.properties"
        self.begin(
            *command, "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0", *arguments,
            environ={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
                     "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": " ".join([*SMALL, logs])},
        )  # fmt: skip

    def tasks(self, application: str) -> int:
        """How many tasks the executors of an application have begun on this worker."""
        logs = self.folder.glob(f"app-*-{application}/*/stderr")
        return sum(log.read_text(errors="replace").count("Running task") for log in logs)


@dataclass
class Cluster:
    """All of it. What `start` starts, `stop` ends."""

    folder: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    servers: list[Server] = field(default_factory=list)
    password: str = field(default_factory=lambda: secrets.token_hex(12))

    def __post_init__(self) -> None:
        """Lay out its servers."""
        self.store = ObjectStore(self.folder / "store")
        # PostgreSQL is another user, who can't enter the folder of a test.
        self.postgres = Postgres(Path(tempfile.mkdtemp(prefix="tidemark-metastore-")))
        self.master = Spark(self.folder / "master")
        self.workers = [Spark(self.folder / f"worker-{number}") for number in (1, 2)]
        self.thrift = Server(self.folder / "thrift")
        self.servers = [self.store, self.postgres, self.master, *self.workers, self.thrift]

    @property
    def documented_environment(self) -> dict[str, str]:
        """What docs/cluster.md has every process told."""
        return {
            "PYSPARK_PYTHON": sys.executable,
            "TIDEMARK_TARGET": "thrift",
            "TIDEMARK_LAKEHOUSE": f"s3a://{BUCKET}/lakehouse",
            "TIDEMARK_MASTER": f"spark://127.0.0.1:{self.master.port}",
            "TIDEMARK_DRIVER_HOST": "127.0.0.1",
            "TIDEMARK_CORES": "2",
            "TIDEMARK_THRIFT_HOST": "127.0.0.1",
            "TIDEMARK_THRIFT_PORT": str(self.thrift.port),
            "TIDEMARK_METASTORE": f"jdbc:postgresql://127.0.0.1:{self.postgres.port}/metastore",
            "TIDEMARK_METASTORE_USER": "hive",
            "TIDEMARK_METASTORE_PASSWORD": self.password,
            **{name: value for name, value in self.store.environment.items() if name != "AWS_ALLOW_HTTP"},
        }

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to work on it, in little memory."""
        return {
            **os.environ,
            **self.store.environment,
            **self.documented_environment,
            "TIDEMARK_JAVA_OPTIONS": FOR_SMALL_TABLES,
            "TIDEMARK_EXECUTOR_JAVA_OPTIONS": " ".join(SMALL[:2]),
            "TIDEMARK_DRIVER_MEMORY": "1g",
            "TIDEMARK_EXECUTOR_MEMORY": "800m",
            "SPARK_LOCAL_IP": "127.0.0.1",
            **self.extra,
        }

    def start(self) -> None:
        """Start everything."""
        self.store.start()
        self.postgres.start()
        self._prepare(documented("create_dir"))
        owner = {"db.example.org": "127.0.0.1", "postgres": "owner"}
        self._prepare(documented("^createuser", **owner), f"{self.password}\n" * 2)
        self._prepare(documented("^createdb", **owner))
        self.master.launch(documented("master.Master"))
        for worker in self.workers:
            self.start_worker(worker)
        self.start_thrift()

    def start_worker(self, worker: Spark) -> None:
        """Start one of the workers, with room for the Thrift Server or for another command."""
        ours = {"8": "2", "16g": "2g", "spark://master:7077": self.documented_environment["TIDEMARK_MASTER"]}
        worker.launch(documented("worker.Worker", **ours), "--work-dir", str(worker.folder))

    def start_thrift(self) -> None:
        """Start the Thrift Server, with the settings that `tidemark settings` prints."""
        printed = self.command(documented("settings --target"))
        assert printed.returncode == 0, printed.stderr
        self.settings.write_text(
            printed.stdout + f"spark.hadoop.hive.server2.thrift.port {self.thrift.port}\n"
            "spark.hadoop.hive.server2.thrift.bind.host 127.0.0.1\n"
            # dbt asks a database that is away three times: each takes a third of what it would.
            "spark.hadoop.hive.hmshandler.retry.attempts 1\n"
        )
        self.thrift.begin(
            *documented("HiveThriftServer2", **{"cluster.conf": str(self.settings)}), environ=self.environment
        )

    def stop(self) -> None:
        """End everything, the last first."""
        for server in reversed(self.servers):
            server.stop()
        shutil.rmtree(self.postgres.folder, ignore_errors=True)

    def tidemark(self, *arguments: str, project: Path = PROJECT, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Tidemark's on it."""
        return self.command([*TIDEMARK, *arguments], project, **environ)

    def command(
        self, words: Sequence[str], project: Path = PROJECT, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command that acts on a project."""
        with self.begun(words, project, **environ) as process:
            said, error = process.communicate()
        return subprocess.CompletedProcess(words, process.returncode, said, error)

    def begun(self, words: Sequence[str], project: Path = PROJECT, **environ: str) -> subprocess.Popen[str]:
        """Begin a command that acts on a project; a signal to its group meets what it started, too."""
        return subprocess.Popen(
            [*words, "--project-dir", str(project)],
            env=self.environment | environ,
            cwd=PROJECT, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def _prepare(self, words: Sequence[str], answers: str = "") -> None:
        """Run a command that sets up a server, and tell it what it asks for."""
        as_owner = {"PGPORT": str(self.postgres.port), "PGPASSWORD": self.postgres.password}
        # Without a terminal, PostgreSQL's commands ask their input for passwords.
        done = subprocess.run(
            words, env=self.environment | as_owner, start_new_session=True, input=answers, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    @property
    def settings(self) -> Path:
        """The file of Spark's settings."""
        return self.folder / "cluster.conf"


def documented(pattern: str, **places: str) -> list[str]:
    """The one command of docs/cluster.md that a pattern finds, as words, with its programs and places being ours."""
    page = (PROJECT / "docs/cluster.md").read_text()
    [line] = [one for one in commands(page) if re.search(pattern, one)]
    words = shlex.split(line.partition(" > ")[0])
    words = [re.sub(r"^\.venv/bin", str(Path(sys.executable).parent), places.get(word, word)) for word in words]
    return [program(words[0]), *words[1:]] if words[0].startswith("create") else words


def commands(text: str) -> list[str]:
    """The lines of a page's blocks of commands."""
    return [line for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]
