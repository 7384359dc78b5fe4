"""What tables are, and what they are made by, as a hash: where it is as before, a build finds nothing to do."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from spark_jobs import __version__
from spark_jobs.errors import Fault
from spark_jobs.files import LAST_CHECKPOINT, Files, commit_file
from spark_jobs.places import LAYERS, STAGED, Places

# Of a project, what tables and reports are made by, beside the folders that dbt_project.yml names.
_PROJECT = (
    "expectations", "dbt_project.yml", "profiles.yml", "packages.yml", "dependencies.yml", "package-lock.yml",
)  # fmt: skip
# And those that it doesn't name.
_FOLDERS = {
    "model-paths": "models", "macro-paths": "macros", "test-paths": "tests", "seed-paths": "seeds",
    "snapshot-paths": "snapshots", "packages-install-path": "dbt_packages",
}  # fmt: skip
# Each look at a broker, each build or each check writes them, and no table is made of them.
_NOT_NEWS = ("ops/kafka_offsets", f"ops/{STAGED}", "ops/accounting", "ops/test_results")


def version_of(places: Places, table: str) -> int:
    """The version of a Delta table, by its log; -1 where there is none."""
    files, log = Files.of(places), f"{table}/_delta_log"
    version = _checkpointed(files, log)
    if version is None:
        found = (name.partition(".") for name in files.names(log))
        return max((int(stem) for stem, _, ending in found if ending == "json" and stem.isdigit()), default=-1)
    # Commits have their numbers in a row, without end: they are asked for in strides, and not listed.
    stride = 1
    while files.exists(f"{log}/{commit_file(version + stride)}"):
        version += stride
        stride *= 2
    while stride > 1:
        stride //= 2
        version += stride * files.exists(f"{log}/{commit_file(version + stride)}")
    return version


def _checkpointed(files: Files, log: str) -> int | None:
    """The commit that a Delta log's last checkpoint is of; None where nothing says so, or that commit is not there."""
    try:
        version = json.loads(files.read(f"{log}/{LAST_CHECKPOINT}") or "{}").get("version")
    except (OSError, ValueError, AttributeError):  # it is no more than a hint
        return None
    return version if isinstance(version, int) and files.exists(f"{log}/{commit_file(version)}") else None


def project_hash(places: Places) -> str:
    """A hash of what tables and reports are made by; raises a Fault where a file of it can't be read."""
    digest = hashlib.sha256()
    [*own, packages] = _folders(places.project)
    roots = [places.project / name for name in (*own, *_PROJECT)]
    # A package can be a link to a folder that holds this project: of that, too, dbt reads its folders alone.
    for package in sorted((places.project / packages).glob("*")):
        [*its, _] = _folders(package)
        roots += [package / name for name in (*its, "dbt_project.yml")]
    for root in roots:
        for file in sorted(files_in(root, places)) if root.is_dir() else [root]:
            if "__pycache__" in file.parts or (held := _held(file)) is None:
                continue
            digest.update(f"{os.path.relpath(file, places.project)}\0".encode())
            digest.update(hashlib.sha256(held).digest())
    return digest.hexdigest()


def _held(file: Path) -> bytes | None:
    """What a file holds; None where there is none, as where an editor has just replaced it."""
    try:
        return file.read_bytes() if file.is_file() else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Fault(
            f"{file} can't be read ({error.strerror}), and the project's files tell what is new. Give this user the"
            " right to read it, or move it out of the project."
        ) from error


def files_in(root: Path, places: Places) -> list[Path]:
    """The files in a folder and in those within it, linked ones too; none of the lakehouse."""
    files: list[Path] = []
    # A link can lead back.
    seen = {Path(places.lakehouse).resolve()}
    for path, folders, names in os.walk(root, followlinks=True):
        is_new = (real := Path(path).resolve()) not in seen
        seen.add(real)
        folders[:] = folders if is_new else []
        files += [Path(path) / name for name in names if is_new]
    return files


def _folders(project: Path) -> list[str]:
    """A project's folders, that of packages last; the usual ones where dbt_project.yml can't be read."""
    import yaml

    try:
        declared = yaml.safe_load((project / "dbt_project.yml").read_text())
    except (OSError, ValueError, yaml.YAMLError):
        declared = None
    options = declared if isinstance(declared, dict) else {}
    named = [options.get(name, usual) for name, usual in _FOLDERS.items()]
    return [str(one) for those in named for one in (those if isinstance(those, list) else [those])]


def _bronze(places: Places) -> list[str]:
    """The versions of what landing writes and models read: gaps stand with the ops of its own environment."""
    gaps = "ops/kafka_gaps"
    return _versions(places, ["bronze"]) + [f"{gaps}:{version_of(places, gaps)}"] * places.reads_only


def _versions(places: Places, layers: Sequence[str]) -> list[str]:
    """The tables of some layers with their versions."""
    files = Files.of(places)
    # Those of another environment are no news to this one.
    names = [f"{layer}/{name}" for layer in map(places.schema, layers) for name in files.folders(layer)]
    return [f"{name}:{version_of(places, name)}" for name in names if not name.endswith(_NOT_NEWS)]


def moving_bronze(places: Places) -> list[str] | None:
    """The versions of bronze's tables as they are now, where somebody may land while a run works; None elsewhere.

    What an environment that only reads bronze has not built is news to its next run.
    """
    return _bronze(places) if places.reads_only else None


def fingerprint_of(places: Places, project: str, bronze: list[str] | None = None) -> str:
    """What the tables are, and what they are made by: equal where a build would find nothing to do.

    Args:
        places: Where the tables are.
        project: What `project_hash` gave.
        bronze: What `moving_bronze` gave before the work.
    """
    tables = [*(_bronze(places) if bronze is None else bronze), *_versions(places, LAYERS[1:])]
    catalog = places.catalog if places.is_local else places.target
    return hashlib.sha256("\n".join([__version__, project, catalog, *tables]).encode()).hexdigest()
