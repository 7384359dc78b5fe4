"""What a user is told where Java or Spark's jars are missing: one line, exit status 3, no stack trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
INSTALL = "Install it with `apt-get install openjdk-17-jre-headless`, or point JAVA_HOME at it."
OLD = {"11": 'openjdk version "11.0.2" 2019-01-15', "8": 'java version "1.8.0_402"', "strange": "what?"}

# One process for all cases, as importing takes seconds; none of them comes so far as to start Spark.
COMMANDS = """
import io, json, os, sys
from contextlib import redirect_stderr
from spark_jobs.cli import main
results = {}
for case, environ in json.load(sys.stdin).items():
    os.environ.pop("JAVA_HOME", None)
    os.environ.update(environ)
    with redirect_stderr(io.StringIO()) as said:
        status = main(["tables"])
    results[case] = [status, said.getvalue().removeprefix("start Spark …\\n")]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def answers(home: Path) -> dict[str, list[object]]:
    """Exit status and words of `tidemark tables`, by case."""
    cases = {"none": {"PATH": str(home)}, "empty JAVA_HOME": {"JAVA_HOME": str(home)}}
    for version, words in {**OLD, "17": 'openjdk version "17.0.15" 2025-04-15'}.items():
        java = home / version / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\necho '{words}' >&2\n")
        java.chmod(0o755)
        cases[version] = {"JAVA_HOME": str(home / version), "TIDEMARK_JARS": str(home)}
    cases["brackets"] = cases["17"] | {"TIDEMARK_JARS": f"{home}/[1]"}
    ran = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps(cases), cwd=PROJECT, capture_output=True, text=True, check=True,
        env=os.environ | {"TIDEMARK_LAKEHOUSE": str(home / "lakehouse"), "TIDEMARK_CATALOG": str(home / "catalog")},
    )  # fmt: skip
    results: dict[str, list[object]] = json.loads(ran.stdout)
    return results


def test_no_java(answers: dict[str, list[object]]) -> None:
    assert answers["none"] == [3, f"tidemark: Spark needs Java 17; none was found. {INSTALL}\n"]


def test_a_java_home_without_java(answers: dict[str, list[object]]) -> None:
    assert answers["empty JAVA_HOME"] == [3, f"tidemark: Spark needs Java 17; JAVA_HOME holds none. {INSTALL}\n"]


@pytest.mark.parametrize("version", OLD)
def test_another_java(answers: dict[str, list[object]], home: Path, version: str) -> None:
    words = f"{home}/{version}/bin/java says: {OLD[version]}"

    assert answers[version] == [3, f"tidemark: Spark needs Java 17; {words}. {INSTALL}\n"]


def test_missing_jars(answers: dict[str, list[object]], home: Path) -> None:
    status, words = answers["17"]

    assert status == 3
    assert str(words).startswith(f"tidemark: Spark's jar {home}/delta-spark_")
    assert str(words).endswith(".jar is missing. Run `make setup`, which fetches it.\n")


def test_jars_in_a_path_that_spark_takes_for_a_pattern(answers: dict[str, list[object]], home: Path) -> None:
    status, words = answers["brackets"]

    assert status == 3
    assert str(words).startswith(f"tidemark: Spark's jar {home}/[1]/delta-spark_")
    assert str(words).endswith(" set TIDEMARK_JARS to it.\n")


def test_setup_says_it_too(answers: dict[str, list[object]], home: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "spark_jobs.class_archive", str(home / "classes.jsa")],
        cwd=PROJECT, capture_output=True, text=True, check=False, env=os.environ | {"JAVA_HOME": str(home / "11")},
    )  # fmt: skip

    assert ran.returncode == 1
    assert ran.stderr == f"setup: Spark needs Java 17; {home}/11/bin/java says: {OLD['11']}. {INSTALL}\n"


def test_commands_are_read_without_the_engine() -> None:
    """Importing it takes as long as most commands that need none of it."""
    said = "import sys, spark_jobs.cli; print([name for name in ('pyspark', 'dbt') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", said], cwd=PROJECT, capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"
