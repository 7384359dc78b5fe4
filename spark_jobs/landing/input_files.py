"""The files that a landing is given: which they are, whether Spark can read them, and what is said where it can't."""

from __future__ import annotations

import bz2
import glob
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from itertools import takewhile
from math import ceil
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import Row, SparkSession

from spark_jobs.errors import UsageError
from spark_jobs.session import with_settings

# How the names of files and folders begin that writers put there for a while, Spark's own among them.
_ASIDE = (".", "_")
# How Hadoop's `put` ends the name of a file until all of it is there. Spark passes over these, too.
_COPYING = "._COPYING_"
# How files are packed, by the ending of their names: a name for it, what unpacks it here, and how it begins.
_PACKED: dict[str, tuple[str, Callable[[str], gzip.GzipFile | bz2.BZ2File], bytes]] = {
    ".gz": ("gzip", gzip.GzipFile, b"\x1f\x8b"),
    ".bz2": ("bzip2", bz2.BZ2File, b"BZh"),
}
# Of what others pack, Hadoop's readers take some for empty, and need libraries for the rest.
_NOT_UNPACKED = (".deflate", ".lz4", ".snappy", ".zst")


def files_named(arguments: Sequence[str], *, may_be_gone: bool = False) -> list[str]:
    """The files that files, folders and globs name; raises UsageError for one that names none.

    With `may_be_gone`, a folder without files, or where a glob begins, is right as long as it is there.
    """
    files: list[Path] = []
    for argument in arguments:
        if not argument:
            raise UsageError("An empty name, as of a variable that isn't set. Name files, folders or patterns.")
        try:
            wanted = _files_of(argument)
            for file in wanted:
                # Spark is given what a link leads to, and goes by the name of that.
                real = file.resolve()
                _require_unpacked_by_hadoop(file, real)
                _require_named_for_hadoop(file, real)
        except OSError as error:
            raise UsageError(
                f"{error.filename}: can't be read ({error.strerror}). Nothing was landed; give this user the right to"
                " read it, or leave it out."
            ) from error
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{os.fsencode(error.object)!r}: a name that is no UTF-8, which Spark can't open. Nothing was landed;"
                " give the file another name."
            ) from error
        if not wanted and not (may_be_gone and _is_place(argument)):
            raise UsageError(_not_taken(argument))
        files += wanted
    return list(dict.fromkeys(str(file.resolve()) for file in files))


def _not_taken(argument: str) -> str:
    """Why an argument names no file that is landed."""
    named = Path(argument)
    if not named.exists() or named.is_dir():
        return f"{argument}: no such file, and no folder or pattern with files in it."
    if named.is_file():
        return f"{argument}: {_unfinished(named.name)}. Rename it once it is."
    return f"{argument}: a pipe or a device, and files are read more than once. Write it to a file, and land that."


def _unfinished(name: str) -> str:
    """What the name of a file says that isn't finished."""
    where = f"{name[0]} in front" if name.startswith(_ASIDE) else f"{_COPYING} at the end"
    return f"names with {where} are of files that aren't finished"


def _is_unfinished(name: str) -> bool:
    """Whether a file is one that isn't finished, by its name."""
    return name.startswith(_ASIDE) or name.endswith(_COPYING)


def _shown(file: Path, real: Path) -> str:
    """A file by the name that was given, and by its own where that is another."""
    return f"{file} (a link to {real})" if file.name != real.name else str(file)


def _require_named_for_hadoop(file: Path, real: Path) -> None:
    """Raise UsageError for a name that Hadoop's readers can't open, and UnicodeEncodeError for one that is no text."""
    os.fspath(file).encode()
    os.fspath(real).encode()
    # Which they take for the end of a URL's scheme.
    if ":" in real.name:
        raise UsageError(
            f"{_shown(file, real)}: a name with a colon, which Spark can't open. Nothing was landed; give the file"
            " another name."
        )
    if _is_unfinished(real.name):
        raise UsageError(
            f"{_shown(file, real)}: {_unfinished(real.name)}, and Spark passes over it. Nothing was landed; rename it"
            " once it is, or leave it out."
        )


def _require_unpacked_by_hadoop(file: Path, real: Path) -> None:
    """Raise UsageError for a file that Hadoop's readers would take for empty, and OSError where it can't be read.

    They unpack by the ending of a file's name, in whichever letters.
    """
    with file.open("rb") as content:
        begins = content.read(4)
    ending = real.suffix.lower()
    if begins and ending in _NOT_UNPACKED:
        raise UsageError(
            f"{_shown(file, real)}: files whose names end with {ending} aren't unpacked here. Nothing was landed; give"
            " it plain, packed by gzip (.gz) or by bzip2 (.bz2), or leave it out."
        )
    if begins and ending in _PACKED:
        name, _, beginning = _PACKED[ending]
        if not begins.startswith(beginning):
            raise UsageError(
                f"{_shown(file, real)}: not a whole {name} file (it doesn't begin like one). Nothing was landed; give"
                " it the name of what it is, or leave it out."
            )
    elif (end := file.suffix.lower()) in _PACKED and begins.startswith(_PACKED[end][2]):
        raise UsageError(
            f"{_shown(file, real)}: packed by {_PACKED[end][0]}, and its own name doesn't end with {end}, by which"
            " Spark unpacks. Nothing was landed; rename what the link leads to, or put a copy in the link's place."
        )


def _is_place(argument: str) -> bool:
    """Whether a folder, or that in which a glob looks, is there."""
    return Path(*takewhile(lambda part: not glob.has_magic(part), Path(argument).parts)).is_dir()


def _files_of(argument: str) -> list[Path]:
    paths = [named := Path(argument)]
    if not named.exists():
        _require_open_folders(named)
        paths = _matched(argument, named)
    inside = [file for path in paths for file in (_inside(path) if path.is_dir() else [path])]
    finished = [file for file in inside if not _is_unfinished(file.name)]
    for file in finished:
        if file.is_symlink() and not file.exists():
            raise UsageError(
                f"{file}: a link to {file.readlink()}, which isn't there. Nothing was landed; put it there, or remove"
                " the link."
            )
    return [file for file in finished if file.is_file()]


def _matched(pattern: str, named: Path) -> list[Path]:
    """What a pattern matches; the parts of `named` are meant, whatever their names are."""
    found = map(Path, glob.glob(pattern, recursive=True))  # noqa: PTH207 - absolute patterns too
    return [path for path in found if not any(_is_aside(part, named.parts) for part in path.parts)]


def _require_open_folders(named: Path) -> None:
    """Raise OSError for a folder in which a pattern looks and that can't be looked into: to glob it is an empty one."""
    for number, part in enumerate(named.parts):
        before = named.parts[:number]
        if not glob.has_magic("/".join((*before, part))):
            continue
        folders = _matched(f"{Path(*before)}/", named) if glob.has_magic("/".join(before)) else [Path(*before)]
        for folder in folders:
            with suppress(FileNotFoundError, NotADirectoryError):
                if glob.has_magic(part):
                    os.scandir(folder).close()
                # What is in it is found by name only where it may be entered.
                os.stat(f"{folder}/.")  # noqa: PTH116 - a Path has no dot at its end


def _is_aside(folder: str, named: Sequence[str] = ()) -> bool:
    """Whether a folder is one for what isn't finished, by its name; those that a pattern's parts `named` are meant."""
    return folder.startswith(_ASIDE) and not any(one[0] == folder[0] and fnmatch(folder, one) for one in named)


def _inside(folder: Path) -> list[Path]:
    """The files in a folder and in those within it, linked ones too; raises OSError where one can't be looked into."""

    def refuse(error: OSError) -> None:
        raise error

    files: list[Path] = []
    # A link can lead back.
    seen = set(folder.resolve().parents)
    for path, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        is_new = (real := Path(path).resolve()) not in seen
        seen.add(real)
        folders[:] = [name for name in folders if is_new and not _is_aside(name)]
        files += [Path(path) / name for name in names if is_new]
    return sorted(files)


@contextmanager
def in_even_parts(spark: SparkSession, files: Sequence[str]) -> Iterator[None]:
    """Have files read in parts of one size that all cores take in whole rounds.

    Spark cuts them into parts of the largest size and a rest, for which one core works while others wait: here, and in
    every later reading of what the parts were written as.
    """
    largest = spark._jsparkSession.sessionState().conf().filesMaxPartitionBytes()
    cores = spark.sparkContext.defaultParallelism
    size = sum(Path(file).stat().st_size for file in files)
    rounds = ceil(size / (largest * cores))
    if rounds < 2:
        # Of less than that for each core, Spark's parts are even.
        yield
        return
    with with_settings(spark, {"spark.sql.files.maxPartitionBytes": str(ceil(size / (rounds * cores)))}):
        yield


def refuse_damaged(files: Sequence[str]) -> None:
    """Raise UsageError for a file whose content can't be unpacked; looked for only after Spark has failed to read.

    What keeps a file from being read, such as that it was taken away, is Spark's to tell.
    """
    for file in files:
        if (ending := Path(file).suffix.lower()) in _PACKED:
            name, unpack, _ = _PACKED[ending]
            try:
                with unpack(file) as content:
                    while content.read(1 << 20):
                        pass
                _require_nothing_behind(file, ending)
            except (OSError, EOFError, zlib.error) as error:
                if getattr(error, "errno", None) is not None:
                    continue
                raise UsageError(
                    f"{file}: not a whole {name} file ({str(error).split(' (')[0]}). Nothing was landed; copy or pack"
                    " it again, or leave it out."
                ) from error


def _require_nothing_behind(file: str, ending: str) -> None:
    """Raise OSError where zeros stand behind the end of a gzip file: Python's reader takes them, Hadoop's doesn't."""
    if ending != ".gz":
        return
    with Path(file).open("rb") as content:
        member, rest = zlib.decompressobj(wbits=31), b""
        while rest := rest or content.read(1 << 16):
            if member.eof:
                if rest.startswith(b"\0"):
                    raise OSError("zeros stand behind its end")
                member = zlib.decompressobj(wbits=31)
            member.decompress(rest)
            rest = member.unused_data


def refuse_others(survey: Sequence[Row]) -> None:
    """Raise UsageError for a file that has no record, and few lines that even begin like one: those of any zip do."""
    lines, begun = Counter[str](), Counter[str]()
    for part in survey:
        lines[part["origin"]] += part["lines"]
        begun[part["origin"]] += part["begun"]
    records = {part["origin"] for part in survey if part["topic"] is not None}
    strangers = sorted(origin for origin in {*lines} - records if 2 * begun[origin] < lines[origin])
    if strangers:
        raise UsageError(
            f"{path_of(strangers[0])}: not a file of records. Expected JSON lines with topic, partition,"
            " offset, key and value (or what `kcat -J` prints), and most lines of it don't begin with {. Nothing was"
            " landed."
        )


def path_of(origin: str) -> str:
    """The path of a file, by what Spark calls it: a URL."""
    return unquote(urlsplit(origin).path)
