"""The end of a process: by which signals, and at once, its Spark first, so that nothing writes once another may."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from spark_jobs.errors import INTERRUPTED, TERMINATED

# The signals that end a process: what people call them, and its exit status.
ENDING = {
    int(signal.SIGTERM): ("SIGTERM", TERMINATED),
    int(signal.SIGINT): ("Ctrl-C", INTERRUPTED),
    int(signal.SIGHUP): ("the end of its terminal", TERMINATED),
}


@contextlib.contextmanager
def listening(handler: Callable[[int, Any], object]) -> Iterator[None]:
    """Have a handler hear what ends a process meanwhile, where this is the main thread: no other may listen.

    Those that this process was told to ignore stay ignored: a shell does so to Ctrl-C for what runs behind `&`, and
    nohup to the end of a terminal.
    """
    is_main = threading.current_thread() is threading.main_thread()
    heard = [one for one in ENDING if is_main and signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, handler) for one in heard}
    try:
        yield
    finally:
        for one, handler_before in before.items():
            signal.signal(one, handler_before)


def end_at_once(status: int) -> NoReturn:
    """End this process's Spark and then the process, whatever its threads do. A signal's handler may call it."""
    try:
        # Other threads meet the end of Java in the middle of their calls, and would tell it in frames.
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for output in (1, 2):
                os.dup2(nowhere, output)
        # Looked up: who has not imported it has no Spark, and needs a second to. Besides, it imports the lock.
        getattr(sys.modules.get("spark_jobs.session"), "end_java", lambda: None)()
    finally:
        os._exit(status)
