"""The error family: each error knows its exit status and says what was asked, what was found and what to do."""

from __future__ import annotations

# The exit status that a shell gives a process which SIGTERM ended.
TERMINATED = 143
# And of one that Ctrl-C ended.
INTERRUPTED = 130


class Stopped(Exception):
    """The process was told to stop while it waited or before it began: no error, and nothing has to be undone."""


class TidemarkError(Exception):
    """Base of every error that Tidemark raises on purpose; `status` is the exit status of the command."""

    status = 3


class DataError(TidemarkError):
    """The data failed a check of severity critical, a dbt test or the accounting (G6)."""

    status = 1


class UsageError(TidemarkError):
    """The command, an option or an input was not what the command takes."""

    status = 2


class Fault(TidemarkError):
    """Something outside the data is broken: Java, a file system, a damaged table, the catalog."""

    status = 3


class Busy(TidemarkError):
    """Another writer holds the lakehouse (G8)."""

    status = 4


class CatalogBusy(Busy):
    """Another process holds the embedded catalog."""
