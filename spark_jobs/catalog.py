"""The embedded catalog, which one process at a time can hold: whether it is free, taking it, and letting go of it."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from spark_jobs.engine_errors import ENGINE_ERRORS
from spark_jobs.errors import CatalogBusy, Fault
from spark_jobs.files import may_write
from spark_jobs.lock import pause
from spark_jobs.places import Places

# How long Java may take to end behind a process that did not wait for it.
_MOMENT_SECONDS = 2
# Derby's code for a database that another process has open.
_HELD = "XSDB6"


def require_free_catalog(places: Places, until: float | None = None, stop: threading.Event | None = None) -> None:
    """Raise CatalogBusy where another process holds the embedded metastore, by the lock that Derby has on a file of it.

    Asked before Spark starts: afterwards the lock can be our own, and Hive hides Derby's answer behind its retries.

    A Fault is raised where the catalog can't be written.

    Args:
        places: Where the catalog is.
        until: The time of the monotonic clock until which it is waited for, and for a moment at least, since dbt's Java
            ends behind dbt; it is not waited for where nothing is said.
        stop: Set to end the waiting, with Stopped.
    """
    metastore = _metastore(places)
    lock = metastore / "dbex.lck"
    # Of a folder that can't be written Derby says only that a driver could not be made.
    if not all(map(may_write, (metastore, lock))):
        raise _unwritable(places, os.strerror(errno.EACCES))
    if not lock.exists():
        return
    until = None if until is None else max(until, time.monotonic() + _MOMENT_SECONDS)
    try:
        while not _is_free(lock):
            if until is None or time.monotonic() >= until:
                raise _held(places)
            pause(0.1, stop)
    except OSError as error:
        raise _unwritable(places, error.strerror or str(error)) from error


def take_catalog(spark: SparkSession, places: Places) -> None:
    """Have a Spark that has started open the catalog; raises a Fault where it is broken."""
    try:
        spark.sql("show databases").collect()
    except ENGINE_ERRORS as error:
        raise Fault(
            f"The catalog {places.catalog} can't be opened: {str(error).splitlines()[0][:300]} Where no other process"
            " uses it, move its folder `metastore` away: the next build makes it anew. It says where tables are and"
            " holds none; those that others than Tidemark made have to be made known again, and those of your own"
            f" models, in {places.lakehouse}/warehouse, be put aside with it."
        ) from error


def hold_catalog(session: SparkSession, places: Places) -> None:
    """Have a running Spark hold the embedded metastore again that it may have let go; raises CatalogBusy."""
    try:
        _derby(session, "create=true").close()
    except Py4JJavaError as error:
        if _HELD in str(error):
            raise _held(places) from error
        # What else is wrong with it the statement says that needs it.


def let_catalog_go(places: Places) -> None:
    """Have a running Spark let go of the embedded metastore, for other processes, until `hold_catalog`."""
    session = SparkSession.getActiveSession()
    if session is not None and places.is_local:
        with suppress(Py4JError):  # so Derby says that it is done, or had nothing to do
            _derby(session, "shutdown=true")


def _derby(session: SparkSession, what: str) -> Any:
    """A connection to the embedded metastore, by the address that Hive has of it."""
    url = session.conf.get("spark.hadoop.javax.jdo.option.ConnectionURL")
    return session._jvm.java.sql.DriverManager.getConnection(str(url).replace("create=true", what))


def _held(places: Places) -> CatalogBusy:
    return CatalogBusy(
        f"The catalog {places.catalog} is held by another process (dbt, `tidemark build`, or a run of `tidemark run"
        " --every`), and an embedded one admits one at a time. Wait for it to end, or give --wait TIME."
    )


def _unwritable(places: Places, why: str) -> Fault:
    return Fault(
        f"The catalog {places.catalog} can't be written ({why}). Give this user the right to write there, or set"
        " TIDEMARK_CATALOG to another folder."
    )


def _is_free(lock: Path) -> bool:
    with lock.open("r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def lacks_catalog(places: Places) -> bool:
    """Whether a session that takes the catalog would find none and make an empty one. A running session has its own."""
    return places.is_local and SparkSession.getActiveSession() is None and not _metastore(places).is_dir()


def _metastore(places: Places) -> Path:
    """The folder of the embedded metastore, as profiles.yml names it."""
    return Path(places.catalog) / "metastore"
