"""The last line of a run of CI says what that run did not prove."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.time_limit import NO_TEST_BEGINS_AFTER

PROJECT = Path(__file__).parents[2]
ALL = ["check", "mutants", "tapes", "kills"]
FEWER = "instead of 2,000, {} kills instead of 40, broken records for 20 seconds instead of 60"


def ran(folder: Path, seconds: int, test: str = "true") -> tuple[list[str], str]:
    """What was made behind the tests, where those end so many seconds after the begin, and the last line."""
    make = folder / "make"
    make.write_text(f'#!/bin/sh\nif [ "$1" = test ]; then {test}; else echo "made $*"; fi\n')
    make.chmod(0o755)
    others = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEMARK_", "PYTEST_"))}
    said = subprocess.run(
        [PROJECT / ".ci/run"], capture_output=True, text=True, check=True,
        env=others | {"PATH": f"{folder}:{os.environ['PATH']}", "SECONDS": str(seconds)},
    ).stdout  # fmt: skip
    made = [target for line in re.findall("^made (.*)", said, re.M) for target in line.split()]
    return [target for target in made if target != "setup-servers"], said.splitlines()[-1]


@pytest.mark.parametrize(
    ("seconds", "made", "unproven"),
    [
        (1000, ALL, "nothing"),
        (3100, ALL, f"200 tapes {FEWER.format(11)}"),
        (4100, ALL[2:], f"no check, no mutants, 50 tapes {FEWER.format(4)}"),
        (4600, [], "no check, no mutants, no tapes, no kills"),
    ],
)
def test_what_runs_behind_the_tests_is_as_much_as_the_time_allows(
    tmp_path: Path, seconds: int, made: list[str], unproven: str
) -> None:
    assert ran(tmp_path, seconds) == (made, f"Not proven in this run: {unproven}.")


def test_tests_that_were_left_out_are_counted(tmp_path: Path) -> None:
    limited = f"{NO_TEST_BEGINS_AFTER}=1 {sys.executable} -m pytest -p no:cacheprovider {Path(__file__)}::{{}}"
    chosen = limited.format(test_what_runs_behind_the_tests_is_as_much_as_the_time_allows.__name__)

    _, last = ran(tmp_path, 1000, f"cd {PROJECT} && {chosen}")

    assert last == "Not proven in this run: tests left out: 4."


def test_a_run_whose_tests_fail_fails_and_ends_with_their_names(tmp_path: Path) -> None:
    failing = tmp_path / "test_failing.py"
    failing.write_text("def test_that_says_much():\n    assert list(range(100)) == []\n")
    tests = f"cd {PROJECT} && CI=true {sys.executable} -m pytest -p no:cacheprovider --rootdir {tmp_path} {failing}"

    with pytest.raises(subprocess.CalledProcessError) as ended:
        ran(tmp_path, 1000, tests)

    last = ended.value.stdout.splitlines()[-1]
    assert last.startswith("FAILED ")
    assert "::test_that_says_much - " in last
