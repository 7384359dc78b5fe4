"""What tests share: one Spark session for the whole run, in folders of its own and with the network cut."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.places import Places
from spark_jobs.session import FOR_SMALL_TABLES, build_session
from tests.network import Network
from tests.registry import StandIn, serving
from tests.time_limit import NO_TEST_BEGINS_AFTER, day_of_limit, time_limit

PROJECT = Path(__file__).parents[1]
# Beside the unit tests, these need seconds.
QUICK = ("test_checklist", "test_rules", "test_shared_lists")
# Behind those they begin first, longest first, so that several processes end together.
LONGEST = (
    "test_kills", "test_convergence", "test_parts", "test_tapes", "test_kafka", "test_consistent_cut", "test_captures",
    "test_forms", "test_damage", "test_schedule", "test_mongodb", "test_channels", "test_declarations", "test_types",
    "test_corpus",
)  # fmt: skip
# They begin last: where time is up, the tests before them have said what a table of a cluster's is, too.
LAST = ("test_live", "test_cluster")
_TOLD = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    """The network, cut for the rest of the run."""
    return Network(tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, network: Network) -> Iterator[SparkSession]:
    """The session that every test uses; dbt in this process uses it too."""
    home = tmp_path_factory.mktemp("spark")
    os.environ["TIDEMARK_LAKEHOUSE"] = str(home / "lakehouse")
    os.environ["TIDEMARK_CATALOG"] = str(home / "catalog")
    os.environ["SPARK_SUBMIT_OPTS"] = network.java_options
    # It lives long enough for code to be worth compiling twice; commands that tests start don't.
    once, *others = FOR_SMALL_TABLES.split()
    assert once == "-XX:TieredStopAtLevel=1"
    os.environ["TIDEMARK_JAVA_OPTIONS"] = " ".join(others)
    # `make test` has two such sessions at once, with servers, clusters and runs to kill beside them.
    os.environ.setdefault("TIDEMARK_DRIVER_MEMORY", "6g")
    session = build_session(Places.of(PROJECT), catalog=True)
    os.environ["TIDEMARK_JAVA_OPTIONS"] = FOR_SMALL_TABLES
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """A stand-in that speaks both APIs, and that the environment names."""
    file = tmp_path_factory.mktemp("registry") / "registries.yml"
    with pytest.MonkeyPatch.context() as patched, serving() as one:
        file.write_text(f"[{{url: '{one.url}'}}, {{url: '{one.apicurio}'}}]")
        patched.setenv("TIDEMARK_REGISTRY_FILE", str(file))
        yield one


@pytest.fixture(scope="session")
def told_at_end(request: pytest.FixtureRequest) -> list[str]:
    """Lines that are printed when the whole run ends: what generated tests met."""
    return request.config.stash.setdefault(_TOLD, [])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have what needs seconds begin first, and then the longest files."""
    named = {stem: place for place, stem in enumerate(LONGEST)} | dict.fromkeys(QUICK, -1)
    others = sorted({item.path.stem for item in items if item.path.parent.name != "unit"} - {*named, *LAST})
    # Where time is limited, another of them comes first each day: else it would always be the same that are left out.
    day = day_of_limit() or 0
    places = {stem: len(named) + (place + day) % len(others) for place, stem in enumerate(others)}
    places |= named | dict.fromkeys(LAST, len(named) + len(others))
    items.sort(key=lambda item: -1 if item.path.parent.name == "unit" else places[item.path.stem])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out where the time is up, before its fixtures are made."""
    limit = time_limit()
    if limit is not None and time.time() > limit:
        pytest.skip(f"{item.path.name}: the time for tests was up ({NO_TEST_BEGINS_AFTER})")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have one of several processes hand over what its tests have to tell."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["told"] = session.config.stash.get(_TOLD, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what tests of one of several processes have to tell."""
    node.config.stash.setdefault(_TOLD, []).extend(getattr(node, "workeroutput", {}).get("told", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what tests have to tell."""
    for line in sorted(config.stash.get(_TOLD, [])):
        terminalreporter.write_line(line)
