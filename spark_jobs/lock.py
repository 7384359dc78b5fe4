"""One writer at a time (G8): a lock on the lakehouse that the system lets go when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.errors import Busy, Fault, UsageError
from spark_jobs.places import Places

LAYOUT = 2
MARKER = "tidemark.json"


def open_lakehouse(places: Places) -> Path:
    """Make the lakehouse's folder, or check that its layout is one that this version knows; the folder.

    Raises:
        UsageError: The lakehouse has a layout of another version.
        Fault: The folder can't be made or written.
    """
    if "://" in places.lakehouse:
        raise UsageError(f"TIDEMARK_LAKEHOUSE={places.lakehouse}: this version keeps lakehouses in folders only.")
    folder = Path(places.lakehouse)
    check_layout(places)
    marker = folder / MARKER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not marker.exists():
            marker.write_text(json.dumps({"layout": LAYOUT}) + "\n")
    except OSError as error:
        raise Fault(
            f"The lakehouse {folder} can't be written ({error.strerror}). Give this user the right to write there,"
            " or set TIDEMARK_LAKEHOUSE to another folder."
        ) from error
    return folder


def check_layout(places: Places) -> None:
    """Refuse a lakehouse with a layout that this version doesn't know; one that isn't there yet has none.

    Raises:
        UsageError: The layout is of another version.
        Fault: The marker can't be read.
    """
    marker = Path(places.lakehouse) / MARKER
    try:
        layout = json.loads(marker.read_text())["layout"]
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise Fault(f"{marker} can't be read ({error.strerror}). Give this user the right to.") from error
    except (ValueError, LookupError, TypeError) as error:
        raise Fault(f'{marker} is damaged: it should say {{"layout": {LAYOUT}}}.') from error
    if layout != LAYOUT:
        raise UsageError(
            f"The lakehouse {places.lakehouse} has layout {layout}; this version of Tidemark knows layout {LAYOUT}."
            " Use the version that made it, or land into another folder."
        )


@contextmanager
def writing(places: Places, run_id: str, command: str, wait: float = 0) -> Iterator[None]:
    """Hold the lakehouse as its one writer; waits up to `wait` seconds, then raises Busy."""
    descriptor = _lock_file(places, ".lock")
    deadline = time.monotonic() + wait
    try:
        while not _taken(descriptor):
            if time.monotonic() >= deadline:
                holder = holder_of(places) or {}
                raise Busy(
                    f"The lakehouse {places.lakehouse} is being written by process {holder.get('pid', '?')}"
                    f" (`tidemark {holder.get('command', '?')}`, since {holder.get('since', '?')})."
                    " Wait for it to end, or give --wait SECONDS."
                )
            time.sleep(0.2)
        os.ftruncate(descriptor, 0)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        words = {"pid": os.getpid(), "run_id": run_id, "command": command, "since": since}
        os.pwrite(descriptor, json.dumps(words).encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@contextmanager
def alone(places: Places, name: str, what: str) -> Iterator[None]:
    """Do something that one process at a time may do, writing or not; raises Busy where another does it."""
    descriptor = _lock_file(places, f".{name}.lock")
    try:
        if not _taken(descriptor):
            raise Busy(f"Another process lands {what} in {places.lakehouse}. Wait for it to end, or stop it.")
        yield
    finally:
        os.close(descriptor)


def holder_of(places: Places) -> dict[str, str] | None:
    """Who writes the lakehouse now; None where no one does."""
    path = Path(places.lakehouse) / ".lock"
    if not path.exists():
        return None
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = file.read()
            return dict(json.loads(text)) if text else {}
    return None


def _lock_file(places: Places, name: str) -> int:
    try:
        return os.open(open_lakehouse(places) / name, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise Fault(f"The lakehouse {places.lakehouse} can't be written ({error.strerror}).") from error


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
