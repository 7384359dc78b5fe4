"""One writer at a time (G8): a lock on the lakehouse that frees itself when its holder dies, however it dies.

In a folder it is the system's lock on a file. On an object store it is a lease. Each holder makes an object under the
next number, which the store lets one process alone do, and writes it again and again; one that is not written for as
long as it says itself is dead, and another takes the next number. Nobody's clock is compared with another's. A holder
that could not write its own for two thirds of that time ends its Spark and its process at once, since another may write
by then.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spark_jobs.ending import end_at_once
from spark_jobs.errors import Busy, Fault, Stopped, UsageError
from spark_jobs.files import Files
from spark_jobs.logs import log
from spark_jobs.places import Places

LAYOUT = 3
# The oldest that `tidemark upgrade` takes on.
OLDEST = 2
MARKER = "tidemark.json"


def open_lakehouse(places: Places, oldest: int = LAYOUT) -> Path:
    """Make the lakehouse, or check that its layout is one that this version knows; the folder of its logs.

    Logs of a lakehouse on an object store, which can't append, are in the project's `logs/tidemark`.

    Args:
        places: Where the lakehouse is.
        oldest: The oldest layout that will do.

    Raises:
        UsageError: The lakehouse has a layout of another version.
        Fault: The folder can't be made or written.
    """
    check_layout(places, oldest)
    files = Files.of(places)
    try:
        if files.read(MARKER) is None:
            files.write(MARKER, json.dumps({"layout": LAYOUT}) + "\n")
    except OSError as error:
        raise Fault(
            f"The lakehouse {places.lakehouse} can't be written ({error.strerror}). Give this user the right to write"
            " there, or set TIDEMARK_LAKEHOUSE to another folder."
        ) from error
    return Path(places.lakehouse) / "logs" if places.is_folder else places.project / "logs" / "tidemark"


def check_layout(places: Places, oldest: int) -> None:
    """Refuse a lakehouse with a layout that this version doesn't know; one that isn't there yet has none.

    Raises:
        UsageError: The layout is of another version.
        Fault: The marker can't be read.
    """
    layout = layout_of(places)
    if layout is None or oldest <= layout <= LAYOUT:
        return
    raise UsageError(
        f"The lakehouse {places.lakehouse} has layout {layout}; this version of Tidemark knows layout {LAYOUT}."
        + (
            " `tidemark upgrade` brings it there."
            if OLDEST <= layout < LAYOUT
            else " Use the version that made it, or land into another folder."
        )
    )


def layout_of(places: Places) -> int | None:
    """The layout of a lakehouse; None where there is none yet.

    Raises:
        Fault: The marker can't be read.
    """
    marker = f"{places.lakehouse}/{MARKER}"
    try:
        text = Files.of(places).read(MARKER)
        return None if text is None else int(json.loads(text)["layout"])
    except OSError as error:
        raise Fault(f"{marker} can't be read ({error.strerror}). Give this user the right to read it.") from error
    except (ValueError, LookupError, TypeError) as error:
        raise Fault(
            f'{marker} is damaged: it should say {{"layout": N}}. Put it back from a copy or, if this version made the'
            f" lakehouse, write that with {LAYOUT} into it."
        ) from error


@contextmanager
def writing(
    places: Places,
    run_id: str,
    command: str,
    wait: float = 0,
    oldest: int = LAYOUT,
    stop: threading.Event | None = None,
) -> Iterator[None]:
    """Hold the lakehouse as its one writer.

    An environment that only reads bronze has a lock of its own.

    Args:
        places: Where the lakehouse is.
        run_id: The run, for those who are kept waiting.
        command: What it does.
        wait: Seconds to wait for another writer.
        oldest: The oldest layout that will do.
        stop: Set to end the waiting.

    Raises:
        UsageError: The lakehouse has a layout of another version.
        Busy: Another writes, still.
        Stopped: `stop` was set meanwhile.
    """
    name = f"{places.prefix}writer"
    since = datetime.now(UTC).isoformat(timespec="seconds")
    writer = _this_process() | {"run_id": run_id, "command": command, "since": since}

    def busy(holder: dict[str, Any]) -> Busy:
        where = f" on {holder['host']}" if holder.get("host") not in (None, writer["host"]) else ""
        return Busy(
            f"The lakehouse {places.lakehouse} is being written by process {holder.get('pid', '?')}{where}"
            f" (`tidemark {holder.get('command', '?')}`, since {holder.get('since', '?')})."
            " Wait for it to end, or give --wait TIME."
        )

    if not places.is_folder:
        open_lakehouse(places, oldest)
        with leased(places.lakehouse, name, writer, wait, busy, stop):
            check_layout(places, oldest)  # who was waited for may have brought another
            yield
        return
    descriptor = _lock_file(places, f".{places.prefix}lock", oldest)
    deadline = time.monotonic() + wait
    try:
        while not _taken(descriptor):
            # Who only looks at the lock holds it for that moment: then no one writes.
            if time.monotonic() >= deadline and (holder := holder_of(places)) is not None:
                raise busy(holder)
            pause(0.2, stop)
        with suppress(OSError):  # on a full disk nobody learns who holds it, and it is held
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(writer).encode(), 0)
        check_layout(places, oldest)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@contextmanager
def alone(places: Places, name: str, what: str) -> Iterator[None]:
    """Do something that one process at a time may do, writing or not; raises Busy where another does it."""
    busy = Busy(f"Another process lands {what} in {places.lakehouse}. Wait for it to end, or stop it.")
    if not places.is_folder:
        open_lakehouse(places)
        with leased(places.lakehouse, name, _this_process(), 0, lambda _: busy):
            yield
        return
    descriptor = _lock_file(places, f".{name}.lock")
    try:
        if not _taken(descriptor):
            raise busy
        yield
    finally:
        os.close(descriptor)


def pause(seconds: float, stop: threading.Event | None) -> None:
    """Sleep while waiting for another process; raises Stopped where `stop` is set or gets set meanwhile."""
    if stop is None:
        time.sleep(seconds)
    elif stop.wait(seconds):
        raise Stopped


def holder_of(places: Places) -> dict[str, Any] | None:
    """Who writes the lakehouse now; None where no one does."""
    if not places.is_folder:
        lease = _Lease(Files.of(places), f"{places.prefix}writer")
        return lease.holder(lease.last())
    path = Path(places.lakehouse) / f".{places.prefix}lock"
    if not path.exists():
        return None
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = file.read()
            return dict(json.loads(text)) if text else {}
    return None


def _lock_file(places: Places, name: str, oldest: int = LAYOUT) -> int:
    open_lakehouse(places, oldest)
    try:
        return os.open(Path(places.lakehouse) / name, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise Fault(
            f"The lakehouse {places.lakehouse} can't be written ({error.strerror}). Give this user the right to write"
            " there."
        ) from error


def _this_process() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": socket.gethostname()}


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _seconds() -> float:
    """How long a holder's silence lasts before it counts as dead."""
    text = os.environ.get("TIDEMARK_LEASE_SECONDS", "60")
    if not text.isdigit() or int(text) < 3:
        raise UsageError(f"TIDEMARK_LEASE_SECONDS={text}: it takes whole seconds, 3 or more.")
    return int(text)


def _now() -> float:
    """The seconds of a clock that goes on while the machine is suspended, where there is one: others go on then."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class _Lease:
    """The holders of one lock, numbered; the last number counts.

    Lower numbers are removed by later holders, never the last: so no number is taken twice while it could count.
    """

    def __init__(self, files: Files, name: str) -> None:
        self.files = files
        self.folder = f"_locks/{name}"

    def last(self) -> int:
        """The last number; 0 where there was no holder yet."""
        return max((int(one) for one in self.files.names(self.folder) if one.isdigit()), default=0)

    def claim(self, number: int) -> dict[str, Any]:
        """What a holder says: `beat`, how often it said so; `seconds`, how long its word counts; `holder`, or None."""
        text = self.files.read(self._name(number)) if number else None
        return dict(json.loads(text)) if text else {"beat": 0, "seconds": 0, "holder": None}

    def holder(self, number: int) -> dict[str, Any] | None:
        """Who holds it; None where it was let go."""
        return self.claim(number)["holder"]

    def take(self, number: int, claim: dict[str, Any]) -> bool:
        """Take a number; whether it is ours, and the last."""
        if not self.files.create(self._name(number), json.dumps(claim)):
            return False
        if self.last() != number:
            # Whoever took this number before has been followed by others already, who removed it.
            self.files.remove(self._name(number))
            return False
        for one in self.files.names(self.folder):
            if one.isdigit() and int(one) < number:
                self.files.remove(self._name(int(one)))
        return True

    def say(self, number: int, claim: dict[str, Any]) -> None:
        """Write a holder's own number again."""
        self.files.write(self._name(number), json.dumps(claim))

    def _name(self, number: int) -> str:
        return f"{self.folder}/{number:012d}"


@contextmanager
def leased(
    place: str,
    name: str,
    holder: dict[str, Any],
    wait: float,
    busy: Callable[[dict[str, Any]], Busy],
    stop: threading.Event | None = None,
) -> Iterator[None]:
    """Hold a lock as a lease, on an object store or, as nothing but tests want it, in a folder.

    Args:
        place: The lakehouse.
        name: The lock's.
        holder: What to say of this process.
        wait: Seconds to wait for another.
        busy: What is raised then, by what the other says of itself; it comes once that one has shown that it lives.
        stop: Set to end the waiting, with Stopped.
    """
    seconds = _seconds()
    # Asked for so short a time that a holder learns of a store that is away before others may take the lock.
    lease, claim = _Lease(Files(place, seconds / 8), name), {"beat": 0, "seconds": seconds, "holder": holder}
    deadline = _now() + wait
    seen: tuple[int, int] | None = None
    while True:
        asked_at = _now()
        number = lease.last()
        other = lease.claim(number)
        if seen is None or (number, other["beat"]) != seen:
            is_alive, seen, since = seen is not None, (number, other["beat"]), _now()
        if other["holder"] is None or asked_at - since >= other["seconds"]:
            if lease.take(number + 1, claim):
                break
            continue
        if is_alive and asked_at >= deadline:
            raise busy(other["holder"])
        pause(min(1, other["seconds"] / 20), stop)
    held = _Held(until=asked_at + seconds * 2 / 3)
    beating = threading.Thread(target=_beat, args=(lease, number + 1, claim, held), daemon=True)
    threading.Thread(target=_watch, args=(held,), daemon=True).start()
    beating.start()
    try:
        yield
    finally:
        held.ended.set()
        beating.join()
        with suppress(Fault):  # then it frees itself
            lease.say(number + 1, claim | {"holder": None})


@dataclass
class _Held:
    """A lease that is held: until when this process may believe so, and what kept it from saying that it lives."""

    until: float
    why: str = "the store did not answer, or the machine stood still."
    ended: threading.Event = field(default_factory=threading.Event)


def _beat(lease: _Lease, number: int, claim: dict[str, Any], held: _Held) -> None:
    """Say again and again that the holder lives."""
    while not held.ended.wait(claim["seconds"] / 6):
        began = _now()
        claim["beat"] += 1
        try:
            lease.say(number, claim)
            if lease.last() != number:
                held.why, held.until = "another process took it.", began
                return
        except Fault as error:
            held.why = str(error)
        else:
            held.until = began + claim["seconds"] * 2 / 3


def _watch(held: _Held) -> None:
    """End the process where the lock is lost, whatever a beat is waiting for."""
    while not held.ended.wait(0.1):
        if _now() >= held.until:
            _end(f"The lock on the lakehouse is lost, so this process ends at once: {held.why} The next run goes on.")


def _end(why: str) -> None:
    try:
        log.critical("%s", why)
        print(f"tidemark: {why}", file=sys.stderr, flush=True)
    finally:  # a terminal that is closed takes no words
        end_at_once(Fault.status)
