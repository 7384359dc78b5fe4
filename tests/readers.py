"""Readers that read again and again while something else goes on beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

Read = Callable[[], set[str]]


@contextmanager
def reading(*reads: Read) -> Iterator[list[Future[list[set[str]]]]]:
    """Read again and again beside what is done inside; each reader's answers."""
    stop = Event()

    def answers(read: Read) -> list[set[str]]:
        found = [read()]
        while not stop.wait(0.5):
            found.append(read())
        return [*found, read()]

    with ThreadPoolExecutor(len(reads)) as pool:
        readers = [pool.submit(answers, read) for read in reads]
        try:
            yield readers
        finally:
            stop.set()
