"""The benchmarks' answer against the oracle, and their scorer against planted errors. No Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from benchmarks import bench
from benchmarks.report import Found, bars, markdown
from benchmarks.score import Score, Share, score
from benchmarks.workload import HAZARDS, SETS, Sizes, columns_of, generate
from tests.oracle import build, read_records

SIZES = Sizes(keys=400, batches=5, changes=400)
WORKLOADS = {
    **{kind: replace(SIZES, kind=kind) for kind in SETS},
    "wide": Sizes(keys=60, batches=4, changes=80, kind="hostile", columns=138),
    "large": Sizes(keys=60, batches=4, changes=80, kind="hostile", note_bytes=20_001),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folders with the workloads, by name."""
    home = tmp_path_factory.mktemp("workloads")
    for name, sizes in WORKLOADS.items():
        generate(home / name, sizes)
    return lambda name: home / name


def rows_of(answer: Path) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in parquet.read_table(answer).to_pylist()), key=repr)


@pytest.mark.parametrize("name", WORKLOADS)
def test_answer_is_what_the_oracle_makes_of_the_records(name: str, made: Callable[[str], Path]) -> None:
    records = [record for file in sorted(made(name).glob("*.jsonl")) for record in read_records(file)]
    [history] = build(records).values()
    columns = columns_of(WORKLOADS[name].columns)
    rows = [
        (*(version.state[column] for column in columns), version.valid_from, version.valid_to)
        for versions in history.versions.values()
        for version in versions
    ]
    assert sorted(rows, key=repr) == rows_of(made(name) / "answer/customers.parquet")
    assert (history.counts["duplicate"] > 0) == (WORKLOADS[name].kind == "hostile")


@pytest.mark.parametrize("name", WORKLOADS)
def test_answer_after_the_initial_load(name: str, made: Callable[[str], Path]) -> None:
    [history] = build(read_records(made(name) / "initial.jsonl")).values()
    rows = [(*version.state.values(), version.valid_from, None) for [version] in history.versions.values()]
    assert sorted(rows, key=repr) == rows_of(made(name) / "answer/customers.initial.parquet")


def test_further_columns_change_with_updates(made: Callable[[str], Path]) -> None:
    rows = parquet.read_table(made("wide") / "answer/customers.parquet").to_pylist()
    further = [name for name in rows[0] if name.startswith("more_")]
    assert len(further) == 118
    assert {type(rows[0][name]) for name in further} == {int, str, float}
    told = defaultdict(set)
    for row in rows:
        told[row["id"]].add(tuple(row[name] for name in further))
    assert max(map(len, told.values())) > 3


def test_notes_are_as_long_as_wanted(made: Callable[[str], Path]) -> None:
    rows = parquet.read_table(made("large") / "answer/customers.parquet").to_pylist()
    notes = [row["note"] for row in rows if row["note"]]
    assert {len(note) for note in notes} == {20_001}
    assert len({*notes}) > 10


def test_same_seed_gives_same_files(tmp_path: Path, made: Callable[[str], Path]) -> None:
    generate(tmp_path, WORKLOADS["hostile"])
    for file in made("hostile").glob("*.jsonl"):
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


def test_mix_and_hazards_are_as_promised(tmp_path: Path) -> None:
    generate(tmp_path / "clean", Sizes(keys=2_000, changes=4_000))
    records = [record for n in range(1, 6) for record in read_records(tmp_path / f"clean/batch_{n}.jsonl")]
    ops = [op for record in records for op in "cud" if f'"op":"{op}"' in (record.value or "")]
    assert len(ops) == 20_000
    assert [round(ops.count(op) / 20_000, 2) for op in "cud"] == [0.2, 0.7, 0.1]
    made = generate(tmp_path / "hostile", Sizes(keys=2_000, changes=4_000, kind="hostile"))
    # 1,500 of 100,000 changes, and here a fifth of them.
    assert {hazard for hazard in HAZARDS if made["hazards"][hazard] >= 300} == set(HAZARDS)


def test_versions_in_the_initial_load(tmp_path: Path) -> None:
    generate(tmp_path, Sizes(keys=50, batches=1, changes=20, versions=4))
    [history] = build(read_records(tmp_path / "initial.jsonl")).values()
    assert {len(versions) for versions in history.versions.values()} == {4}
    assert parquet.read_table(tmp_path / "answer/customers.initial.parquet").num_rows == 200


def test_one_key_can_be_hot(tmp_path: Path) -> None:
    generate(tmp_path, Sizes(keys=50, batches=2, changes=200, hot=0.7))
    records = [record for file in sorted(tmp_path.glob("*.jsonl")) for record in read_records(file)]
    [history] = build(records).values()
    assert sum(map(len, history.versions.values())) == len(rows_of(tmp_path / "answer/customers.parquet"))
    changed = [record.key for record in records if '"op":"u"' in (record.value or "")]
    assert changed.count('{"id":1}') > len(changed) / 2


def test_tables_have_lives_of_their_own(tmp_path: Path) -> None:
    generate(tmp_path, Sizes(keys=30, batches=1, changes=40, tables=3))
    records = [record for file in sorted(tmp_path.glob("*.jsonl")) for record in read_records(file)]
    for table, history in build(records).items():
        answer = rows_of(tmp_path / f"answer/{table.removeprefix('public.')}.parquet")
        assert sum(map(len, history.versions.values())) == len(answer)
    assert len({(tmp_path / f"answer/customers_00{n}.parquet").read_bytes() for n in range(3)}) == 3


# The scorer


def scored(rows: list[dict[str, Any]], made: Path, tmp_path: Path) -> Score:
    table = pyarrow.Table.from_pylist(rows, parquet.read_schema(made / "answer/customers.parquet"))
    parquet.write_table(table, tmp_path / "history.parquet")
    return score([tmp_path / "history.parquet"], made / "answer/customers.parquet", made / "keys/customers.parquet")


@pytest.fixture
def truth(made: Callable[[str], Path]) -> list[dict[str, Any]]:
    """The rows of the hostile set's answer."""
    rows: list[dict[str, Any]] = parquet.read_table(made("hostile") / "answer/customers.parquet").to_pylist()
    return rows


def long_closed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return next(row for row in rows if row["valid_to"] is not None and row["valid_to"] - row["valid_from"] > 1_000)


def test_the_answer_is_right(truth: list[dict[str, Any]], made: Callable[[str], Path], tmp_path: Path) -> None:
    found = scored(truth, made("hostile"), tmp_path)
    assert found.is_right
    assert found.instants.percent == found.versions.percent == 100
    assert found.instants.keys > 500
    assert min(found.hazards[hazard]["all"].keys for hazard in HAZARDS) > 20


def move_start(rows: list[dict[str, Any]]) -> None:
    long_closed(rows)["valid_from"] += 1


def move_end(rows: list[dict[str, Any]]) -> None:
    long_closed(rows)["valid_to"] -= 1


def change_a_value(rows: list[dict[str, Any]]) -> None:
    long_closed(rows)["tier"] = "none"


def lose_a_null(rows: list[dict[str, Any]]) -> None:
    next(row for row in rows if row["email"] is None)["email"] = ""


def lose_a_version(rows: list[dict[str, Any]]) -> None:
    rows.remove(long_closed(rows))


def leave_open(rows: list[dict[str, Any]]) -> None:
    long_closed(rows)["valid_to"] = None


def tell_twice(rows: list[dict[str, Any]]) -> None:
    rows.append(long_closed(rows))


def turn_round(rows: list[dict[str, Any]]) -> None:
    row = long_closed(rows)
    row["valid_from"], row["valid_to"] = row["valid_to"], row["valid_from"]


def invent_a_key(rows: list[dict[str, Any]]) -> None:
    rows.append({**long_closed(rows), "id": 1_000_000})


def invent_a_key_for_no_time(rows: list[dict[str, Any]]) -> None:
    row = long_closed(rows)
    rows.append({**row, "id": 1_000_000, "valid_to": row["valid_from"]})


def tell_of_no_key(rows: list[dict[str, Any]]) -> None:
    rows.append({**long_closed(rows), "id": None})


def tell_twice_without_start(rows: list[dict[str, Any]]) -> None:
    rows.append({**long_closed(rows), "valid_from": None})


@pytest.mark.parametrize(
    "spoil",
    [
        move_start, move_end, change_a_value, lose_a_null, lose_a_version, leave_open, tell_twice, turn_round,
        invent_a_key, invent_a_key_for_no_time, tell_of_no_key, tell_twice_without_start,
    ],
)  # fmt: skip
def test_an_error_makes_one_key_wrong(
    spoil: Callable[[list[dict[str, Any]]], None],
    truth: list[dict[str, Any]],
    made: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    spoil(truth)
    found = scored(truth, made("hostile"), tmp_path)
    assert not found.is_right
    assert found.instants.keys - found.instants.right == 1
    assert found.versions.keys - found.versions.right == 1
    assert (found.overlaps > 0) == (spoil in (leave_open, tell_twice, tell_twice_without_start))
    assert found.backwards == (spoil is turn_round)
    assert found.unknown == (spoil in (invent_a_key, invent_a_key_for_no_time, tell_of_no_key))


@pytest.mark.parametrize(("name", "column"), [("wide", "more_118"), ("large", "note")])
def test_an_error_in_a_further_column_or_a_large_value_is_found(
    name: str, column: str, made: Callable[[str], Path], tmp_path: Path
) -> None:
    rows = parquet.read_table(made(name) / "answer/customers.parquet").to_pylist()
    assert scored(rows, made(name), tmp_path).is_right
    row = long_closed([row for row in rows if row[column]])
    row[column] = row[column][:-1]
    found = scored(rows, made(name), tmp_path)
    assert found.instants.keys - found.instants.right == 1


def test_a_needless_cut_is_right_at_every_instant(
    truth: list[dict[str, Any]], made: Callable[[str], Path], tmp_path: Path
) -> None:
    row = long_closed(truth)
    truth.append({**row, "valid_from": row["valid_from"] + 500})
    row["valid_to"] = row["valid_from"] + 500
    found = scored(truth, made("hostile"), tmp_path)
    assert found.is_right
    assert found.versions.keys - found.versions.right == 1


def test_hazards_are_told_apart(truth: list[dict[str, Any]], made: Callable[[str], Path], tmp_path: Path) -> None:
    hazards = parquet.read_table(made("hostile") / "keys/customers.parquet").to_pylist()
    lost = {key["id"] for key in hazards if {*key["hazards"]} - {"tombstone"} == {"a_b_a"}}
    found = scored([row for row in truth if row["id"] not in lost], made("hostile"), tmp_path)
    assert found.hazards["a_b_a"]["alone"].right == 0
    assert found.hazards["a_b_a"]["alone"].keys == len(lost) > 0
    wrong = {name for name, share in found.hazards.items() if share["all"].right < share["all"].keys}
    assert wrong - {"tombstone"} == {"a_b_a"}


# The tables


def score_of(trial: str, contender: str, seconds: list[float], right: int = 10, **more: Any) -> dict[str, Any]:
    """One result, as a bench has it."""
    found = Score(Share(10, right), Share(10, right), hazards={name: {"alone": Share(10, right)} for name in HAZARDS})
    return {
        "workload": trial, "contender": contender, "start": 1.0, "initial": {"land": 2.0, "run": 4.0},
        "increments": [{"run": one} for one in seconds], "scores": {"increments": found.plain()}, "peak_mb": 100,
        "extras": {}, "sizes": {"tables": 1, "keys": 10, "changes": 5, "hazards": dict.fromkeys(HAZARDS, 7)}, **more,
    }  # fmt: skip


def test_tables_say_what_was_found() -> None:
    found = {
        "profile": "short", "at": "now", "machine": {"cores": 2, "memory_gib": 8},
        "results": [
            score_of("clean", "tidemark", [2.0, 3.0, 9.0]), score_of("clean", "merge_careful", [6.0]),
            score_of("clean", "rebuild_spark", [12.0], initial={"run": 5.0}),
            score_of("hostile", "tidemark", [3.0]), score_of("hostile", "merge_careful", [7.0], right=8),
            {"workload": "clean", "contender": "auto_cdc", "error": "no such | environment\nat all", "scores": {}},
            score_of("late", "tidemark", [7.5]),
            score_of("replay", "tidemark", [4.0], replay={"land": 0.5, "run": 0.5}),
        ],
    }  # fmt: skip
    text = markdown(found)
    [careful] = [line for line in text.splitlines() if line.startswith("| hand MERGE, careful | 1.0")]
    assert "| 6.0 | 6.0 | ×2.00 | 100.0 / 80.0 / –" in careful
    assert "no such / environment |" in text
    held = {bar.what.split(",")[0]: (bar.value, bar.verdict) for bar in bars(Found(found))}
    assert held == {
        "increment": (0.5, "aim"), "initial load": (1.2, "**missed**"), "1 % late": (2.5, "**missed**"),
        "replay of an applied batch": (0.25, "holds"),
    }  # fmt: skip


# The command


def test_a_choice_that_runs_nothing_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = CliRunner().invoke(bench.main, ["--trial", "again", "--only", "rebuild_duckdb", "--out", str(out)])
    assert ended.exit_code == 2
    assert "Nothing would run for again, rebuild_duckdb." in ended.output
    assert "again: tidemark\n" in ended.output
    assert not out.exists()


def test_a_folder_that_no_run_has_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "bench.svg").touch()
    ended = CliRunner().invoke(bench.main, ["--out", str(tmp_path)])
    assert ended.exit_code == 2
    assert "no bench.json of an earlier run" in ended.output
    assert (tmp_path / "bench.svg").exists()


def test_only_what_a_run_has_made_is_taken_out(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("bench.json", "bench.md", "bench.svg", "logs/clean-tidemark.log", "notes.md"):
        (tmp_path / name).touch()
    bench.clear(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.md"]
