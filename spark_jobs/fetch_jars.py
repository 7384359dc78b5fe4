"""Fetch the jars of lists (`conf/jars.txt`) into a folder, once, each held to its SHA-256. Run by `make setup`."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.errors import Fault, TidemarkError
from spark_jobs.session import java


def wanted(listing: Path) -> dict[str, tuple[str, str]]:
    """File name of each jar → its Maven coordinate and SHA-256."""
    lines = (line.split() for line in listing.read_text().splitlines() if line and not line.startswith("#"))
    return {"-".join(coordinate.split(":")[1:]) + ".jar": (coordinate, digest) for coordinate, digest in lines}


def fetch(*listings: Path, folder: Path) -> list[str]:
    """Bring what is missing, through Spark's own resolver; the names of the jars brought."""
    folder.mkdir(exist_ok=True)
    listed = {name: jar for listing in listings for name, jar in wanted(listing).items()}
    missing = {name: jar for name, jar in listed.items() if not _holds(folder / name, jar[1])}
    if not missing:
        return []
    java()
    with tempfile.TemporaryDirectory() as cache:
        spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.jars.ivy", cache)
            .getOrCreate()
        )
        for name, (coordinate, digest) in missing.items():
            spark.sql(f"add jar ivy://{coordinate}?transitive=false")
            found = next(Path(cache).glob(f"jars/*_{name}"), None)
            if found is None or not _holds(found, digest):
                raise Fault(f"{coordinate}: what was fetched is not the jar with SHA-256 {digest}.")
            shutil.copy(found, folder / name)
        spark.stop()
    return list(missing)


def _holds(jar: Path, digest: str) -> bool:
    return jar.is_file() and hashlib.sha256(jar.read_bytes()).hexdigest() == digest


if __name__ == "__main__":
    try:
        *listings, folder = map(Path, sys.argv[1:])
        for jar in fetch(*listings, folder=folder):
            print(f"fetched {jar}")
    except TidemarkError as error:
        sys.exit(f"setup: {error}")
