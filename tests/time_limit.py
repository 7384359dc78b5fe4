"""The time that a run of the tests has: CI's is limited, and what it leaves out, or takes in, is other each day."""

from __future__ import annotations

import os

# In seconds since 1970: no test begins later. Who gives a run a limited time sets it; what was left out is counted.
NO_TEST_BEGINS_AFTER = "TIDEMARK_NO_TEST_BEGINS_AFTER"


def time_limit() -> float | None:
    """When the time for tests is up."""
    limit = os.environ.get(NO_TEST_BEGINS_AFTER)
    return float(limit) if limit else None


def day_of_limit() -> int | None:
    """The number of the day on which it is: the same in all processes of a run, whatever day begins meanwhile."""
    limit = time_limit()
    return None if limit is None else int(limit // 86_400)
