"""Telling machines what a run came to: a summary, metrics, and a command for runs that fail."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.errors import Busy, Fault, UsageError
from spark_jobs.files import Files
from spark_jobs.logs import log
from spark_jobs.metrics import write_metrics

if TYPE_CHECKING:
    from spark_jobs.run_memory import Memory
    from spark_jobs.schedule import Outcome, Task

_HOOK_SECONDS = 60


def require_command(hook: str | None) -> None:
    """Raise UsageError where a hook is no command."""
    try:
        words = shlex.split(hook or "true")
    except ValueError as error:
        raise UsageError(f"--on-failure {hook}: no command line ({error}).") from None
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--on-failure {hook}: there is no such command, or this user may not run it.")


def tell_machines(task: Task, outcome: Outcome, memory: Memory) -> None:
    """Write the summary and the metrics, and call the hook; what fails of it is said, and changes no exit status."""
    said = outcome.summary(memory, datetime.now(UTC))
    text = json.dumps(said, ensure_ascii=False)
    try:
        if task.summary == "-":
            task.out(text)
        elif task.summary is not None:
            file = Path(task.summary)
            Files(str(file.parent)).write(file.name, text + "\n")
        if task.metrics is not None:
            write_metrics(Path(task.metrics), said)
    except (OSError, Fault) as error:
        _warn(str(error))
    if outcome.status not in (0, Busy.status) and task.hook is not None:
        try:
            subprocess.run(
                shlex.split(task.hook), input=text + "\n", text=True, check=True, timeout=_HOOK_SECONDS,
                stdout=subprocess.DEVNULL if task.summary == "-" else None,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            _warn(f"--on-failure {task.hook}: {type(error).__name__}, status {getattr(error, 'returncode', 'none')}.")


def _warn(words: str) -> None:
    log.warning("%s", words)
    print(f"tidemark: {words}", file=sys.stderr, flush=True)
