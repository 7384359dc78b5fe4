"""What the contenders share that make one file of all files, each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class OneFile:
    """A contender that keeps the record files, and one Parquet file, `self.target`."""

    def __init__(self, home: Path, made: Mapping[str, Any]) -> None:
        del made
        self.files: list[str] = []
        self.target = home / "history.parquet"

    def initial(self, files: Sequence[str]) -> None:
        """The same as ever."""
        self.increment(files)

    def increment(self, files: Sequence[str]) -> None:
        """Everything anew."""
        self.files += files
        self.rebuild()

    def rebuild(self) -> None:
        """Make the history of all files."""
        raise NotImplementedError

    def history(self, table: str, folder: Path) -> list[Path]:
        """A copy, as the next increment replaces the file."""
        del table
        folder.mkdir(parents=True)
        copy = folder / "history.parquet"
        copy.write_bytes(self.target.read_bytes())
        return [copy]

    def extras(self) -> Mapping[str, float]:
        """Nothing else belongs to it."""
        return {}

    def close(self) -> None:
        """All of it is in its home."""
