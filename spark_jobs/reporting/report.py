"""Write a run's report into the lakehouse: a folder per run, and `latest`."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.delta import files_at
from spark_jobs.engine_errors import first_cause
from spark_jobs.errors import Fault
from spark_jobs.files import Files
from spark_jobs.places import LATEST, Places
from spark_jobs.reporting.document import SCHEMA_FILE, document
from spark_jobs.reporting.evidence import Evidence, RunSummary
from spark_jobs.reporting.page import page

_DATA_DOCS = "data_docs/index.html"


def write_report(
    spark: SparkSession, places: Places, run: RunSummary, evidence: Evidence, folder: Path, finished_at: datetime
) -> str:
    """Write `report.html`, `report.json` and its schema, and publish them with all that is in `folder`.

    Args:
        spark: The session, for lakehouses that aren't folders.
        places: Where the lakehouse is.
        run: The run.
        evidence: What was found out about it.
        folder: A local folder of the run; what is in it (Data Docs) is published too.
        finished_at: When the check ended, with its zone.

    Returns:
        Where the page is, in the run's own folder.

    Raises:
        Fault: The lakehouse can't be written.
    """
    data_docs = _DATA_DOCS if (folder / _DATA_DOCS).is_file() else None
    said = document(run, evidence, finished_at, last_report(reports_of(places)), data_docs)
    (folder / "report.json").write_text(json.dumps(said, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (folder / "report.html").write_text(page(said), encoding="utf-8")
    shutil.copy(Path(__file__).with_name(SCHEMA_FILE), folder / SCHEMA_FILE)
    for name in (run.run_id, LATEST):
        _publish(spark, places, folder, _reports(places, name))
    return f"{_reports(places, run.run_id)}/report.html"


def _reports(places: Places, name: str) -> str:
    return places.table("reports", name)


def _publish(spark: SparkSession, places: Places, folder: Path, target: str) -> None:
    """Put a copy of a folder in the place of what is at the target."""
    try:
        if places.is_folder:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=Path(target).parent, prefix=".") as aside:
                shutil.copytree(folder, Path(aside) / "new")
                if Path(target).exists():
                    Path(target).rename(Path(aside) / "old")
                (Path(aside) / "new").rename(target)
        else:
            files, path = files_at(spark, target)
            files.delete(path, True)
            # S3A finds a folder's files only under a name with a scheme.
            files.copyFromLocalFile(files_at(spark, folder.resolve().as_uri())[1], path)
    except Exception as error:
        raise Fault(
            f"The report can't be written to {target}: {_why(error)}. The check itself ran to its end."
        ) from error


def _why(error: Exception) -> str:
    if isinstance(error, shutil.Error):  # of each file that it could not copy
        [(_, _, said), *_] = error.args[0]
        return str(said).partition(": '")[0]
    return first_cause(str(error))


def reports_of(places: Places) -> Files:
    """The folders of reports of a lakehouse."""
    return Files(f"{places.lakehouse}/{places.schema('reports')}")


def last_report(reports: Files) -> Mapping[str, Any] | None:
    """The last report's data; None where there is none that can be read."""
    with suppress(OSError, ValueError, TypeError):
        for name in _newest_first(reports):
            text = reports.read(f"{name}/report.json")
            if text is not None:
                return dict(json.loads(text))
    return None


def _newest_first(reports: Files) -> Iterator[str]:
    """The folders of reports: `latest`, and where a kill came while it was put there, the runs' own."""
    yield LATEST
    yield from (name for name in reversed(reports.folders()) if name != LATEST and not name.startswith("."))
