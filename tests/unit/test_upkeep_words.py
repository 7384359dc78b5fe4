"""What upkeep says, and which times to keep it takes."""

from __future__ import annotations

import pytest

from spark_jobs.cli import main
from spark_jobs.upkeep import Upkept, in_sum, size

JOINED = Upkept("gold.orders_history", files_before=40, files_after=3, removed=120, freed=5_200_000)
REMOVED = Upkept("ops.progress", removed=9, freed=900)


def test_it_says_what_became_of_a_table() -> None:
    assert JOINED.line == "gold.orders_history: 40 files are 3 now; 120 old files removed, 5.2 MB freed."
    assert REMOVED.line == "ops.progress: 9 old files removed, 900 bytes freed."


def test_it_says_what_it_came_to() -> None:
    assert in_sum([JOINED, REMOVED]) == "upkeep: 1 table joined, 40 files to 3; 129 old files removed, 5.2 MB freed."
    assert in_sum([REMOVED]) == "upkeep: 9 old files removed, 900 bytes freed."
    assert in_sum([]) == "upkeep: nothing to join or to remove."
    assert size(3_400_000_000_000) == "3.4 TB"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--keep", "2h"], "--keep 2h: a reader"),
        (["--keep", "0"], "--keep 0h: a reader"),
        (["--keep", "a week"], "it takes a time such as 30s, 5m, 1h or 7d"),
        (["--keep-reports", "0"], "it takes a time such as"),
        (["--few", "1"], "--few"),
    ],
)
def test_it_refuses_what_it_does_not_take(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upkeep", *given]) == 2
    assert said in capsys.readouterr().err
