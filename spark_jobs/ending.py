"""The end of a process at once: its Spark first, so that nothing of it writes once another may."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn


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
