"""Logs of a run: one file a run, each line with the run's id, as text or JSON. The terminal is for people."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from pathlib import Path

log = logging.getLogger("tidemark")
log.addHandler(logging.NullHandler())
log.propagate = False


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat()
        return json.dumps(
            {
                "at": at,
                "run_id": getattr(record, "run_id", None),
                "level": record.levelname,
                "message": record.getMessage(),
            }
        )


class _Text(logging.Formatter):
    """Lines with times in UTC, whatever zone the process is in: Spark's start puts it into UTC.

    A message of several lines is as many, each with what its first one begins with.
    """

    converter = staticmethod(time.gmtime)
    default_msec_format = "%s.%03dZ"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """What the form says stands before each line of the message."""
        head = super().formatMessage(record)
        return head + record.message.rstrip("\n").replace("\n", f"\n{head}")


class _Named(logging.Filter):
    """Give each line the run's id."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id

    def filter(self, record: logging.LogRecord) -> bool:
        record.run_id = self.run_id
        return True


class _File(logging.FileHandler):
    """A log that ends where its disk is full: what it was told of goes on."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Leave the line out."""


def log_file() -> str | None:
    """Where the run's log is; None where there is none."""
    return next((one.baseFilename for one in log.handlers if isinstance(one, logging.FileHandler)), None)


def start(folder: Path, run_id: str, as_json: bool) -> Path | None:
    """Begin the run's log file in `folder`; None where it can't be written."""
    path = folder / f"{run_id}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handler = _File(path, encoding="utf-8")
    except OSError:
        return None
    text = _Text(f"%(asctime)s {run_id} %(levelname)s ")
    handler.setFormatter(_Json() if as_json else text)
    handler.addFilter(_Named(run_id))
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    return path
