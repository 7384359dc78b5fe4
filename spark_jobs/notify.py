"""Telling machines what a run came to: a summary, metrics, and a command for runs that fail."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.engine_errors import unforeseen
from spark_jobs.errors import Busy, UsageError
from spark_jobs.files import write_named
from spark_jobs.logs import log, log_file
from spark_jobs.metrics import write_metrics
from spark_jobs.texts import on_one_line

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


def require_files(summary: str | None, metrics: str | None) -> None:
    """Raise UsageError where what a run came to can't be written to files that are called so."""
    for option, name in (("--summary", summary), ("--metrics", metrics)):
        if name is None:
            continue
        if not name.strip():
            raise UsageError(f"{option} '': it takes the name of a file, and this one is empty. Is a variable not set?")
        if name.endswith("/") or Path(name).is_dir():
            raise UsageError(f"{option} {name}: that is a folder. Name a file in it.")


def tell_machines(task: Task, outcome: Outcome, memory: Memory) -> None:
    """Write the summary and the metrics, and call the hook; what fails of it is said, and changes no exit status."""
    content = outcome.summary(memory, datetime.now(UTC))
    text = on_one_line(json.dumps(content, ensure_ascii=False))  # a name that is no UTF-8 could not be written
    if (summary := task.summary) == "-":
        _attempt("--summary -", lambda: task.out(text))
    elif summary is not None:
        _attempt(f"--summary {summary}", lambda: write_named(Path(summary), text + "\n"))
    if (metrics := task.metrics) is not None:
        _attempt(f"--metrics {metrics}", lambda: write_metrics(Path(metrics), content))
    if outcome.status not in (0, Busy.status) and task.hook is not None:
        try:
            _start(shlex.split(task.hook), text + "\n", is_silent=task.summary == "-")
        except (OSError, subprocess.SubprocessError) as error:
            warn(f"--on-failure {task.hook}: {type(error).__name__}, status {getattr(error, 'returncode', 'none')}.")


def _start(command: list[str], text: str, *, is_silent: bool) -> None:
    """Start a command with something on its standard input; when its time is over, end all that it has started."""
    out = subprocess.DEVNULL if is_silent else None
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, encoding="utf-8", start_new_session=True) as one:
        try:
            one.communicate(text, _HOOK_SECONDS)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            raise
    if one.returncode:
        raise subprocess.CalledProcessError(one.returncode, command)


def _attempt(what: str, do: Callable[[], object]) -> None:
    """Do it, whatever fails of it: neither the others, nor the error that a run ends with, may be lost by that."""
    try:
        do()
    except Exception as error:
        why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        warn(f"{what}: can't be written ({why}). The run itself went on; mend that, or name another file.")


def warn(words: str) -> None:
    """Say something to people, and to the run's log."""
    log.warning("%s", words)
    print(f"tidemark: {words}", file=sys.stderr, flush=True)


def say_unforeseen(error: Exception, then: str = "") -> None:
    """Say in one line what no one foresaw; the frames go to the log, without the values that a message may quote.

    Args:
        error: What it was.
        then: A sentence on what follows.
    """
    said = unforeseen(error)
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.critical("%s\n%s", said, frames)
    where = log_file()
    words = (on_one_line(said), then, f"The log has more: {where}" if where else frames)
    print(f"tidemark: unforeseen: {' '.join(filter(None, words))}", file=sys.stderr, flush=True)
