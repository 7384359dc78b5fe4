"""A cluster on the loopback, for tests: an S3 server, PostgreSQL, Spark's master, workers and Thrift Server.

Each is a process of its own with its own folder, ended by its id. `make setup-cluster` fetches their jars and
`make setup-servers` installs PostgreSQL.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.session import FOR_SMALL_TABLES
from tests.servers import DATABASE, PROJECT, SMALL, SPARK, Postgres, Server, java

BUCKET = "lake"
ACCESS, SECRET = "tide", "mark of the tests"
TIDEMARK = [sys.executable, "-m", "spark_jobs.cli"]


class ObjectStore(Server):
    """S3Proxy: the S3 protocol over files of a folder, strongly consistent, its creations conditional."""

    def start(self, *, latency: int = 0) -> None:
        """Start it; with `latency`, every answer takes so many milliseconds longer."""
        (self.folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
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
    """A daemon of Spark's own: master, worker or Thrift Server, from pyspark's jars."""

    def launch(self, main: str, *arguments: str) -> None:
        """Start a class of Spark's that stays."""
        self.begin(
            *java("256m", [SPARK / "jars/*"], f"-Dlog4j2.configurationFile={PROJECT}/conf/log4j2.properties", main,
                  "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0", *arguments),
            environ={**os.environ, "SPARK_HOME": str(SPARK), "SPARK_SCALA_VERSION": "2.13",
                     "SPARK_LOCAL_IP": "127.0.0.1"},
        )  # fmt: skip


@dataclass
class Cluster:
    """All of it. What `start` starts, `stop` ends."""

    folder: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    servers: list[Server] = field(default_factory=list)

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
    def environment(self) -> dict[str, str]:
        """What a command needs to work on it."""
        return {
            **os.environ,
            **self.store.environment,
            "TIDEMARK_METASTORE": f"jdbc:postgresql://127.0.0.1:{self.postgres.port}/{DATABASE}",
            "TIDEMARK_METASTORE_USER": "owner",
            "TIDEMARK_METASTORE_PASSWORD": self.postgres.password,
            "TIDEMARK_TARGET": "thrift",
            "TIDEMARK_LAKEHOUSE": f"s3a://{BUCKET}/lakehouse",
            "TIDEMARK_MASTER": f"spark://127.0.0.1:{self.master.port}",
            "TIDEMARK_THRIFT_PORT": str(self.thrift.port),
            "TIDEMARK_CORES": "2",
            "TIDEMARK_JAVA_OPTIONS": FOR_SMALL_TABLES,
            "TIDEMARK_EXECUTOR_JAVA_OPTIONS": " ".join(SMALL[:2]),
            "TIDEMARK_DRIVER_MEMORY": "1g",
            "TIDEMARK_EXECUTOR_MEMORY": "800m",
            "TIDEMARK_DRIVER_HOST": "127.0.0.1",
            "SPARK_LOCAL_IP": "127.0.0.1",
            **self.extra,
        }

    def start(self) -> None:
        """Start everything."""
        self.store.start()
        self.postgres.start()
        self.master.launch("org.apache.spark.deploy.master.Master")
        for worker in self.workers:
            self.start_worker(worker)
        self.start_thrift()

    def start_worker(self, worker: Spark) -> None:
        """Start one of the workers, with room for the Thrift Server or for another command."""
        worker.launch(
            "org.apache.spark.deploy.worker.Worker", "--cores", "2", "--memory", "2g", "--work-dir",
            str(worker.folder), f"spark://127.0.0.1:{self.master.port}",
        )  # fmt: skip

    def start_thrift(self) -> None:
        """Start the Thrift Server, with the settings that `tidemark settings` prints."""
        told = self.command(documented("settings --target"))
        assert told.returncode == 0, told.stderr
        self.settings.write_text(
            told.stdout + f"spark.hadoop.hive.server2.thrift.port {self.thrift.port}\n"
            "spark.hadoop.hive.server2.thrift.bind.host 127.0.0.1\n"
        )
        self.thrift.begin(
            *documented("HiveThriftServer2", **{"cluster.conf": str(self.settings)}),
            environ=self.environment | {"SPARK_HOME": str(SPARK)},
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
        return subprocess.run(
            [*words, "--project-dir", str(project)],
            env=self.environment | {"PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable} | environ,
            cwd=PROJECT, capture_output=True, text=True, check=False,
        )  # fmt: skip

    @property
    def settings(self) -> Path:
        """The file of Spark's settings."""
        return self.folder / "cluster.conf"


def documented(pattern: str, **places: str) -> list[str]:
    """The one command of docs/cluster.md that a pattern finds, as words, with its programs and places being ours."""
    text = (PROJECT / "docs/cluster.md").read_text()
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]
    [line] = [one for one in lines if re.search(pattern, one)]
    ours = {"spark-submit": [str(SPARK / "bin/spark-submit")], ".venv/bin/tidemark": TIDEMARK}
    words = shlex.split(line.partition(" > ")[0])
    return [new for word in words for new in ours.get(word, [places.get(word, word)])]
