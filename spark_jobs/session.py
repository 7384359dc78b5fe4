"""The one place that builds a Spark session: its settings are `profiles.yml`'s, as for dbt alone."""

from __future__ import annotations

import atexit
import locale
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from spark_jobs.delta import files_at
from spark_jobs.engine_errors import ENGINE_ERRORS, first_cause
from spark_jobs.errors import Fault, UsageError
from spark_jobs.files import no_room
from spark_jobs.places import Places, profile

JAVA = 17
# How long Java may take to end.
_ENDING_SECONDS = 10
_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
# The one setting that a password could stand in, and how one does in an address of JDBC.
_METASTORE = "spark.hadoop.javax.jdo.option.ConnectionURL"
_WITH_PASSWORD = re.compile(r"[?&;]password=|//[^/?]*@", re.IGNORECASE)
# The folders of temporary files of this process's Spark: one for each that was started.
_folders: list[str] = []
# Set while the JVM is launched.
_java_starts = threading.Event()
# For TIDEMARK_JAVA_OPTIONS where tables are small: compiled queries, and code compiled twice, cost more than they give.
FOR_SMALL_TABLES = (
    "-XX:TieredStopAtLevel=1 -Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
)


def java() -> str:
    """The Java that Spark would start; raises a Fault unless it is of at least version 17."""
    home = os.environ.get("JAVA_HOME")
    binary = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    install = f"Install it with `apt-get install openjdk-{JAVA}-jre-headless`, or point JAVA_HOME at it."
    if binary is None or not Path(binary).exists():
        raise Fault(f"Spark needs Java {JAVA}; {'JAVA_HOME holds none' if home else 'none was found'}. {install}")
    said = subprocess.run([binary, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < JAVA:
        answer = said.splitlines()[0] if said else "no answer"
        raise Fault(f"Spark needs Java {JAVA}; {binary} says: {answer}. {install}")
    return binary


def settings(places: Places) -> dict[str, str]:
    """Spark's settings of the places' target in `profiles.yml`, with the places of this project filled in.

    Raises UsageError where the profile can't be read, or one would hold a password.
    """
    environ = os.environ | places.environment() | places.files(os.environ)
    said = profile(places.project, environ)
    options = said["outputs"]["local"]["server_side_parameters"]
    if not places.is_local:
        options = options | said["cluster"]
        if _WITH_PASSWORD.search(str(options.get(_METASTORE, ""))):
            raise UsageError(
                "The metastore's address holds credentials, which settings would show. Set them apart:"
                " TIDEMARK_METASTORE without them, TIDEMARK_METASTORE_USER and TIDEMARK_METASTORE_PASSWORD."
            )
    # What is empty is left to Spark.
    return {name: str(value) for name, value in options.items() if value != ""}


def build_session(places: Places, *, catalog: bool) -> SparkSession:
    """The process's Spark session. Only with `catalog` may it open the metastore: dbt takes it, nothing else does."""
    # Spark hands times to Python in the process's zone.
    os.environ["TZ"] = "UTC"
    time.tzset()
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    java()
    options = settings(places)
    jars = options["spark.jars"].split(",") if places.is_local else options["spark.driver.extraClassPath"].split(":")
    if places.is_local and re.search(r"[][{}*?]", options["spark.jars"]):
        raise Fault(
            f"Spark's jar {jars[0]}: Spark takes brackets, * and ? in its path for a pattern. Move the folder of the"
            " jars to a path without them, and set TIDEMARK_JARS to it."
        )
    missing = [jar for jar in jars if not any(Path(jar).parent.glob(Path(jar).name))]
    if missing:
        raise Fault(
            f"Spark's jar {missing[0]} is missing. Run `make {'setup' if places.is_local else 'setup-cluster'}`, which"
            " fetches it."
        )
    os.environ.update(places.environment())
    # Another Spark of this machine is none of ours.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    if places.is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        usual = options["spark.driver.extraJavaOptions"]
        options["spark.driver.extraJavaOptions"] = f'-Djava.io.tmpdir="{_private_folder()}" {usual}'
    # In the locale C Python takes names of files for UTF-8, and Java, by itself, for ASCII.
    if sys.getfilesystemencoding() == "utf-8" != locale.getencoding().lower():
        os.environ["LC_ALL"] = "C.UTF-8"
    builder: Any = SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.catalogImplementation", "hive" if catalog else "in-memory")
    listening = signal.getsignal(signal.SIGINT)
    with _java_noise_aside(), _java_deaf():
        session: SparkSession = builder.getOrCreate()
    if catalog:
        atexit.register(let_java_end, _ENDING_SECONDS)
    for folder in _folders:
        session._jvm.java.io.File(folder).deleteOnExit()  # behind a process that is killed
    _forget_files_of_settings(session)
    # Spark takes Ctrl-C for itself, from those, too, who listen to it already.
    if listening is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, listening)
    # PySpark prints each failed statement with its plan and values, beside the exception that its caller gets.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    if places.is_local and not places.is_folder:
        _require_file_system(session, places)
    return session


def _private_folder() -> str:
    """A folder of this user's alone for the temporary files of this process's Spark: they hold what records do.

    Where SPARK_LOCAL_DIRS is set, Spark takes that for what is large. The folder is removed when the process ends.
    """
    try:
        folder = tempfile.mkdtemp(prefix="tidemark-")
    except OSError as error:
        raise no_room("Spark can't be started", error) from error
    if not _folders:
        atexit.register(_remove_folders)
    _folders.append(folder)
    return folder


def _remove_folders() -> None:
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings, for a while: a session does other work behind this."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def _require_file_system(session: SparkSession, places: Places) -> None:
    """Raise a Fault where a local Spark has no classes for the object store that the lakehouse is on."""
    try:
        files_at(session, places.lakehouse)
    except ENGINE_ERRORS as error:
        raise Fault(
            f"Target {places.target} can't open {places.lakehouse} ({first_cause(str(error))}). Use the target thrift"
            " or thrift_dev for a lakehouse on an object store (docs/cluster.md), or a folder."
        ) from error


def _forget_files_of_settings(session: SparkSession) -> None:
    """Have Hadoop forget which file each of its thousand settings is from, which nobody asks.

    Spark sends them with every scan and every write of a table, and Hadoop compresses each name of a file by itself for
    that: of a build of small tables this took a tenth of the processor time.
    """
    settings = session.sparkContext._jsc.hadoopConfiguration()
    with suppress(Py4JError):  # it costs time alone where another Hadoop keeps them elsewhere
        files = settings.getClass().getDeclaredField("updatingResource")
        files.setAccessible(True)
        files.get(settings).clear()


def let_java_end(seconds: float | None = None) -> None:
    """Have this process's Spark end by itself, and wait for it, at most so long: until then it holds the catalog."""
    gateway = SparkContext._gateway
    if gateway.proc is None:
        return  # spark-submit started it, and this process behind it
    # A thread of PySpark's reads from Java for as long as it lives, and would tell its end in frames.
    server = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None
    gateway.shutdown()
    gateway.proc.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        gateway.proc.wait(seconds)


def end_java() -> None:
    """End this process's Spark at once, and wait until it is gone. A signal's handler may call it within itself."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()
        with suppress(ChildProcessError):  # it was gone already
            os.waitpid(process.pid, 0)  # `process.wait` would wait for a lock that who was interrupted holds
    _remove_folders()


def require_thrift_server(places: Places) -> None:
    """Raise a Fault where dbt would ask a Thrift Server that doesn't answer."""
    if places.is_local:
        return
    said = profile(places.project, os.environ)["outputs"][places.target]
    try:
        socket.create_connection((said["host"], int(said["port"])), timeout=10).close()
    except OSError as error:
        raise Fault(
            f"The Thrift Server of target {places.target} doesn't answer at {said['host']}:{said['port']} ({error})."
            " Start it as docs/cluster.md says, or set TIDEMARK_THRIFT_HOST and TIDEMARK_THRIFT_PORT."
        ) from error


@contextmanager
def _java_noise_aside() -> Iterator[None]:
    """Keep the launching JVM's own words (incubator modules, native libraries) off the terminal.

    The JVM inherits the descriptor, so it stays silent; what it says is shown if it dies while starting.
    """
    sys.stderr.flush()
    try:
        temporary = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed below
    except OSError as error:
        raise no_room("Spark can't be started", error) from error
    with temporary as aside:
        terminal = os.dup(2)
        os.dup2(aside.fileno(), 2)
        try:
            yield
        except Exception as error:
            aside.seek(0)
            raise Fault(f"Spark did not start: {_cause(aside.read().decode(errors='replace')) or error}") from error
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


@contextmanager
def _java_deaf() -> Iterator[None]:
    """Have the JVM that is launched meanwhile ignore the signals that this process ends by: it ends Java itself.

    A terminal that is closed, and whoever ends a process group, tell both, and Java would end in the middle of a step.
    This process hears them all the time. PySpark has the JVM ignore Ctrl-C in the same way.
    """
    _java_starts.set()
    try:
        yield
    finally:
        _java_starts.clear()


def _ignore_ends() -> None:
    if _java_starts.is_set():
        for one in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN)


# What a process ignores so does the program that it is replaced by.
os.register_at_fork(after_in_child=_ignore_ends)


def _cause(output: str) -> str:
    """Why a JVM died, of what it wrote: its last line that is no part of a call stack."""
    lines = [line.strip() for line in output.splitlines() if not _FRAME.match(line)]
    return next((line for line in reversed(lines) if line), "")
