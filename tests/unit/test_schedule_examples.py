"""The examples of schedules, and the commands that documents show: units that systemd takes, options that there are."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from spark_jobs.cli import tidemark
from tests.cluster import commands as shown
from tests.servers import program

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "examples/schedule"
UNITS = sorted([*EXAMPLES.glob("*.service"), *EXAMPLES.glob("*.timer")])
_KNOWN = {
    "Unit": {"Description", "After", "Wants"},
    "Service": {"Type", "User", "WorkingDirectory", "EnvironmentFile", "ExecStart", "KillMode", "TimeoutStopSec",
                "TimeoutStartSec", "SuccessExitStatus", "Restart", "RestartPreventExitStatus", "RestartSec"},
    "Timer": {"OnBootSec", "OnUnitInactiveSec"},
    "Install": {"WantedBy"},
}  # fmt: skip


def settings(unit: Path) -> dict[str, dict[str, str]]:
    """A unit's settings by section."""
    found: dict[str, dict[str, str]] = {}
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and line[0] not in "#;":
            name, _, value = line.partition("=")
            section[name] = value
    return found


def commands() -> Iterator[str]:
    """Every command of Tidemark's that the examples would run."""
    for unit in UNITS:
        if command := settings(unit).get("Service", {}).get("ExecStart"):
            yield command.replace("\\\\", "\\")
    for line in (EXAMPLES / "crontab").read_text().splitlines():
        if line.startswith("*"):
            yield re.split(r"\s+>", line.partition("&& ")[2])[0]
    tree = ast.parse((EXAMPLES / "airflow_dag.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "bash_command":
            yield str(ast.literal_eval(node.value))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_has_settings_that_there_are(unit: Path, tmp_path: Path) -> None:
    found = settings(unit)
    assert {name: set(values) - _KNOWN[name] for name, values in found.items()} == {name: set() for name in found}
    for one in UNITS:
        text = one.read_text().replace("/srv/tidemark/.venv/bin/tidemark", "/bin/true").replace("/srv/tidemark", "/")
        (tmp_path / one.name).write_text(text)
    verify = [program("systemd-analyze"), "verify", str(tmp_path / unit.name)]
    said = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert [line for line in (said.stdout + said.stderr).splitlines() if unit.name in line] == []


def test_every_example_runs_a_command_that_there_is() -> None:
    found = [shlex.split(command) for command in commands()]

    assert len(found) == 4
    for place, name, *arguments in found:
        assert place.endswith(".venv/bin/tidemark")
        command = tidemark.commands[name]
        assert isinstance(command, click.Command)
        with command.make_context(name, list(arguments)) as context:
            assert not context.args
            assert context.params["topics"] in (None, r"(__debezium-heartbeat\.)?shop(\..*)?"), (
                "quoted as its reader unquotes it"
            )


def test_the_page_on_kafka_shows_every_option_of_a_landing() -> None:
    [usage] = re.findall(r"^```\n(tidemark land .*?)^```$", (PROJECT / "docs/kafka.md").read_text(), re.M | re.S)
    options = {name for one in tidemark.commands["land"].params for name in one.opts if name.startswith("--")}

    assert set(re.findall(r"--[a-z-]+", usage)) == options - {"--project-dir", "--log-format", "--target"}


def test_readme_shows_commands_of_the_page_on_clusters_whose_test_runs_them() -> None:
    section = (PROJECT / "README.md").read_text().partition("\n## On a cluster\n")[2].partition("\n## ")[0]

    assert shown(section)
    assert set(shown(section)) <= set(shown((PROJECT / "docs/cluster.md").read_text()))
