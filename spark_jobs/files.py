"""Files of a lakehouse without Spark: in a folder, or on an object store (S3, Azure, Google)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from spark_jobs.errors import Fault
from spark_jobs.places import Places

# A store that is away or refuses is asked again for so long: a landing would not get further either.
PATIENCE = 30.0
# In a Delta log, what names its last checkpoint.
LAST_CHECKPOINT = "_last_checkpoint"


def commit_file(version: int) -> str:
    """The name that a commit has in a Delta log."""
    return f"{version:020}.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file: its name below a folder, its bytes, and when it was last written, in seconds since 1970."""

    name: str
    size: int
    modified: float


class Files:
    """Files below a folder, by their names there, such as `ops/progress/_delta_log/00000000000000000000.json`.

    Args:
        root: The folder, or a URL of an object store.
        patience: For how many seconds a store is asked again before it counts as away.

    Raises:
        Fault: An object store can't be reached, or refuses. Of folders the errors are the system's own.
    """

    def __init__(self, root: str, patience: float = PATIENCE) -> None:
        self.root = root
        self._store = _store_of(root, patience) if "://" in root else None

    @classmethod
    def of(cls, places: Places) -> Files:
        """The files of a lakehouse."""
        return cls(places.lakehouse)

    def read(self, name: str) -> str | None:
        """A file's text; None where there is none."""
        if self._store is None:
            try:
                return (Path(self.root) / name).read_text(encoding="utf-8")
            except (FileNotFoundError, NotADirectoryError):
                return None
        with self._store_faults():
            try:
                return bytes(self._store.get(name).bytes()).decode()
            except FileNotFoundError:
                return None

    def write(self, name: str, text: str) -> None:
        """Write a file, in one step for those who read it."""
        if self._store is None:
            file = Path(self.root) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            aside = file.with_name(f".{file.name}.{os.getpid()}")
            try:
                aside.write_text(text, encoding="utf-8")
                aside.rename(file)
            except OSError:
                with suppress(OSError):
                    aside.unlink(missing_ok=True)
                raise
            return
        with self._store_faults():
            self._store.put(name, text.encode())

    def create(self, name: str, text: str) -> bool:
        """Write a file that must not be there yet; whether it was not, as the system or the store itself says."""
        if self._store is None:
            file = Path(self.root) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=".", encoding="utf-8") as aside:
                aside.write(text)
                aside.flush()
                try:
                    os.link(aside.name, file)
                except FileExistsError:
                    return False
            return True
        from obstore.exceptions import AlreadyExistsError

        with self._store_faults():
            try:
                self._store.put(name, text.encode(), mode="create")
            except AlreadyExistsError:
                return False
        return True

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self._store is None:
            (Path(self.root) / name).unlink(missing_ok=True)
            return
        with self._store_faults():
            self._store.delete(name)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        if self._store is None:
            return (Path(self.root) / name).is_file()
        with self._store_faults():
            try:
                self._store.head(name)
            except FileNotFoundError:
                return False
        return True

    def folders(self, name: str = "") -> list[str]:
        """The names of the folders in a folder, in their order."""
        if self._store is None:
            folder = Path(self.root) / name
            return sorted(one.name for one in folder.iterdir() if one.is_dir()) if folder.is_dir() else []
        with self._store_faults():
            found = self._store.list_with_delimiter(name or None)["common_prefixes"]
        return sorted(one.rstrip("/").rpartition("/")[2] for one in found)

    def names(self, name: str) -> list[str]:
        """The names of the files in a folder, in their order."""
        if self._store is None:
            try:
                # A Delta log has tens of thousands: the folder itself tells which of them are files.
                with os.scandir(Path(self.root) / name) as found:
                    return sorted(one.name for one in found if one.is_file())
            except (FileNotFoundError, NotADirectoryError):
                return []
        with self._store_faults():
            found = self._store.list_with_delimiter(name)["objects"]
        return sorted(one["path"].rpartition("/")[2] for one in found)

    def below(self, name: str, ending: str) -> Iterator[str]:
        """The files of a folder and the folders in it, by their names from there."""
        return (one.name for one in self.entries(name) if one.name.endswith(ending))

    def entries(self, name: str) -> Iterator[Entry]:
        """The files of a folder and the folders in it, with what upkeep asks of them."""
        if self._store is None:
            folder = Path(self.root) / name
            for path, _, files in os.walk(folder):
                for file in files:
                    found = Path(path) / file
                    with suppress(FileNotFoundError):  # removed meanwhile
                        stat = found.stat()
                        yield Entry(str(found.relative_to(folder)), stat.st_size, stat.st_mtime)
            return
        start = f"{name}/" if name else ""
        with self._store_faults():
            for chunk in self._store.list(name or None):
                # What stands for the folder itself is no file in it.
                for one in (one for one in chunk if one["path"].startswith(start)):
                    yield Entry(one["path"].removeprefix(start), one["size"], one["last_modified"].timestamp())

    @contextmanager
    def _store_faults(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            raise Fault(f"The object store has no {self.root}: {_beginning(error)}. Make the bucket first.") from error
        except BaseError as error:
            raise Fault(
                f"The object store of {self.root} could not be reached, or refused:"
                f" {_beginning(error)}. See that AWS_ENDPOINT_URL and AWS_REGION name it and that"
                " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY may read and write there, and run again."
            ) from error


def no_room(what: str, error: OSError) -> Fault:
    """The Fault where something can't be done for want of a temporary folder, or of room in it."""
    return Fault(
        f"{what} in {tempfile.tempdir or 'a temporary folder'} ({error.strerror or error}): make room there, or set"
        " TMPDIR to a folder that this user may write. Nothing in the tables was changed."
    )


def may_write(path: Path) -> bool:
    """Whether this process may write a file or a folder, or make it where it isn't there yet."""
    there = next(one for one in (path, *path.parents) if one.exists())
    return os.access(there, os.W_OK, effective_ids=True)


def write_named(file: Path, text: str) -> None:
    """Write a file that a user has named, in one step for those who read it.

    A link stays one. What is no plain file (a FIFO, a device) is written into, never replaced.

    Raises:
        OSError: It can't be written; a FIFO that nobody reads, too.
    """
    if file.exists() and not file.is_file():
        descriptor = os.open(file, os.O_WRONLY | os.O_NONBLOCK)  # else a FIFO's reader would be waited for
        os.set_blocking(descriptor, True)
        with open(descriptor, "w", encoding="utf-8") as into:  # noqa: PTH123 - it has no path
            into.write(text)
        return
    real = file.resolve()
    Files(str(real.parent)).write(real.name, text)


def _store_of(root: str, patience: float) -> Any:
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    options: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=min(5, patience)),
        "timeout": timedelta(seconds=patience / 2),
        "allow_http": endpoint.startswith("http://"),
    }
    asking: Callable[..., Any] = from_url
    try:
        return asking(
            root,
            client_options=options,
            retry_config={"max_retries": 10, "retry_timeout": timedelta(seconds=patience)},
        )
    except (BaseError, ValueError) as error:
        raise Fault(f"TIDEMARK_LAKEHOUSE={root}: {_beginning(error)}") from error


def _beginning(error: Exception) -> str:
    """What an error says in its first line: further ones hold requests whole."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300].rstrip(".")
