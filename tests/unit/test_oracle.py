"""The oracle against the databases' own accounts, and against small cases of each rule."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.judge import PlainVersion, disagreements, keyed_tables, load_exceptions
from tests.oracle import PLACEHOLDER, History, Record, TableOptions, Version, build, read_records

CAPTURES = Path(__file__).parents[1] / "captures"
# Those that have a database's account, or whose database has one. The oracle knows the rules of histories, not of
# types: tests/pipeline/test_types.py judges those captures.
NAMES = sorted(
    path.parent.name
    for path in CAPTURES.glob("*/records.jsonl.gz")
    if not ("-types-" in path.parent.name or path.parent.name.startswith("synthetic-"))
)
FACTS = [fact for fact in load_exceptions(CAPTURES / "exceptions.csv") if "-types-" not in fact.capture]
BALANCES = TableOptions(types={"balance": "org.apache.kafka.connect.data.Decimal(2)"})
OPTIONS = {f"{schema}.{table}": BALANCES for schema in ("public", "shop") for table in ("account", "doc", "customers")}


@cache
def history_of(name: str) -> dict[str, History]:
    return build(read_records(CAPTURES / name / "records.jsonl.gz"), options_of(name))


def options_of(name: str) -> dict[str, TableOptions]:
    """The captures that have bare decimals without a schema."""
    return OPTIONS if "random" in name or "plain" in name else {}


def plain(history: History) -> list[PlainVersion]:
    return [
        PlainVersion(version.key, version.state, version.valid_from, version.valid_to, version.closed_by)
        for versions in history.versions.values()
        for version in versions
    ]


def judged(name: str, versions_by_table: dict[str, list[PlainVersion]]) -> list[Any]:
    keys = {table: history.key_columns for table, history in history_of(name).items() if history.key_columns}
    return disagreements(CAPTURES / name, versions_by_table, keys)


# Against the databases


@pytest.mark.parametrize("name", NAMES)
def test_database_agrees_but_for_known_facts(name: str) -> None:
    found = judged(name, {table: plain(history) for table, history in history_of(name).items()})
    assert {table for table, history in history_of(name).items() if history.key_columns} == keyed_tables(
        CAPTURES / name
    )
    assert [one for one in found if not any(fact.covers(name, one) for fact in FACTS)] == []
    assert [fact for fact in FACTS if fact.capture == name and not any(fact.covers(name, one) for one in found)] == []


def test_every_exception_names_a_capture() -> None:
    assert {fact.capture for fact in FACTS} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_record_is_counted_once(name: str) -> None:
    records = read_records(CAPTURES / name / "records.jsonl.gz")
    histories = history_of(name).values()
    assert sum(sum(history.counts.values()) for history in histories) == len(records)
    assert sum(history.counts["quarantined"] for history in histories) == 0


@pytest.mark.parametrize("name", NAMES)
def test_order_of_arrival_and_repetition_change_nothing(name: str) -> None:
    records = read_records(CAPTURES / name / "records.jsonl.gz")
    shuffled = records + records[::3]
    random.Random(7).shuffle(shuffled)
    assert build(shuffled, options_of(name)) == history_of(name)


@pytest.mark.parametrize(
    ("name", "table"), [("postgres-2.5.4-random-1", "public.line"), ("mariadb-2.5.4-random-4", "shop.line")]
)
def test_r3_equal_rows_of_an_unkeyed_table_are_not_redeliveries(name: str, table: str) -> None:
    lines = read_records(CAPTURES / name / "records.jsonl.gz")
    streamed = [record for record in lines if record.topic == f"inv.{table}" and '"op":"r"' not in (record.value or "")]
    recorded = {"public.line": 780, "shop.line": 578}
    assert build(streamed)[table].counts["unkeyed"] == recorded[table]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda version: replace(version, state={**version.state, "tier": "other"}),
        lambda version: replace(version, valid_to=version.valid_to + 1_000),
        lambda version: replace(version, valid_from=version.valid_from - 1_000),
        lambda version: replace(version, valid_to=None),
        lambda version: replace(version, closed_by="delete"),
    ],
)
def test_judge_sees_a_spoiled_version(spoil: Any) -> None:
    table, name = "public.customers", "postgres-2.5.4-core-full"
    versions = plain(history_of(name)[table])
    at = next(
        index for index, one in enumerate(versions) if one.closed_by == "update" and versions[index - 1].key == one.key
    )
    versions[at] = spoil(versions[at])
    tables = {other: plain(history) for other, history in history_of(name).items()}
    assert judged(name, {**tables, table: versions})


def test_judge_sees_a_version_that_is_missing() -> None:
    table, name = "public.customers", "postgres-2.5.4-core-full"
    tables = {other: plain(history) for other, history in history_of(name).items()}
    assert judged(name, {**tables, table: tables[table][1:]})


def test_judge_sees_a_spoiled_version_behind_a_first_one_that_is_lost() -> None:
    table, name = "public.parts", "postgres-2.5.4-incremental"
    tables = {other: plain(history) for other, history in history_of(name).items()}
    [last] = [one for one in tables[table] if one.key == (1, 1) and one.valid_to is None]
    tables[table] = [replace(one, valid_to=one.valid_from) if one is last else one for one in tables[table]]
    assert [one.key for one in judged(name, tables) if not any(fact.covers(name, one) for fact in FACTS)]


# Small cases


class Stream:
    """Records of one table, written by hand."""

    def __init__(self, connector: str = "postgresql", table: str = "t", has_key: bool = True) -> None:
        self.connector = connector
        self.table = table
        self.has_key = has_key
        self.records: list[Record] = []

    def add(self, op: str, at: int, row: dict[str, Any] | None = None, **extra: Any) -> Stream:
        """Append a change of `row` at position `at`, by default in transaction `at` and at second `at`."""
        source: dict[str, Any] = {"connector": self.connector, "db": "s", "schema": None, "table": self.table}
        source |= {"ts_ms": extra.get("second", at) * 1000, "snapshot": extra.get("snapshot", "false")}
        transaction = extra.get("transaction", at)
        if self.connector == "postgresql":
            commit = extra.get("commit", transaction)
            source |= {
                "schema": "s",
                "lsn": at,
                "txId": transaction,
                "sequence": json.dumps([commit and str(commit), str(at)]),
            }
        else:
            source |= {
                "server_id": extra.get("server", 1),
                "file": extra.get("file", "bin.000001"),
                "pos": at,
                "row": 0,
            }
            source |= {"gtid": str(transaction)}
        value = {
            "op": op,
            "before": extra.get("before"),
            "after": None if op in "dt" else row,
            "source": source,
            "ts_ms": 1,
        }
        value["transaction"] = extra.get("metadata")
        key = {"id": row["id"]} if row and self.has_key else None
        headers = tuple(
            (f"__debezium.{name}", json.dumps({"id": extra[name]})) for name in ("oldkey", "newkey") if name in extra
        )
        return self.put(json.dumps(key) if key else None, json.dumps(value), headers)

    def put(self, key: str | None, value: str | None, headers: Iterable[tuple[str, str]] = ()) -> Stream:
        """Append any record."""
        self.records.append(Record(f"p.s.{self.table}", 0, len(self.records), None, key, value, tuple(headers)))
        return self

    def history(self, **options: Any) -> History:
        """The table's history under these options."""
        name = f"s.{self.table}"
        return build(self.records, {name: TableOptions(**options)})[name]

    def versions(self, *key: Any, **options: Any) -> list[Version]:
        """The versions of one key, `1` by default."""
        return self.history(**options).versions.get(key or (1,), [])


def row(number: int = 1, **columns: Any) -> dict[str, Any]:
    return {"id": number, **columns}


def spans(versions: list[Version]) -> list[tuple[Any, ...]]:
    """What the `v` was, from and to which second, opened and closed by what."""
    return [
        (
            one.state.get("v"),
            one.valid_from // 10**6,
            one.valid_to and one.valid_to // 10**6,
            one.opened_by,
            one.closed_by,
        )
        for one in versions
    ]


@pytest.mark.parametrize(
    "value",
    ["{", "[1]", '{"before": null}', '{"op": "x", "source": {"connector": "postgresql", "db": "s", "table": "t"}}'],
)
def test_r2_what_is_not_understood_stops_nothing(value: str) -> None:
    history = Stream().add("c", 10, row(v="a")).put('{"id": 1}', value).add("u", 20, row(v="b")).history()
    assert history.counts["quarantined"] == 1
    assert len(history.versions[(1,)]) == 2


def test_r3_a_redelivery_counts_once_and_the_first_offset_stays() -> None:
    stream = (
        Stream().add("c", 10, row(v="a")).add("u", 20, row(v="b")).add("c", 10, row(v="a")).add("u", 20, row(v="b"))
    )
    assert stream.history().counts["duplicate"] == 2
    assert [version.offset for version in stream.versions()] == [0, 1]


def test_r3_equal_reads_of_two_snapshots_are_two_reads() -> None:
    stream = Stream().add("r", 10, row(v="a"), transaction=5).add("r", 10, row(v="a"), transaction=6)
    assert stream.history().counts["duplicate"] == 0
    assert stream.add("r", 10, row(v="a"), transaction=6).history().counts["duplicate"] == 1


def test_r3_equal_rows_of_one_run_are_different_changes() -> None:
    stream = Stream(has_key=False)
    for total_order in (1, 2, 1, 2):
        stream.add("c", 10, row(v="a"), metadata={"id": "10:10", "total_order": total_order})
    assert stream.history().counts["unkeyed"] == 2
    assert stream.history().counts["duplicate"] == 2


def test_r4_commits_order_interleaved_transactions() -> None:
    late = (
        Stream()
        .add("c", 10, row(v="a"), commit=5)
        .add("u", 30, row(v="b"), commit=40)
        .add("u", 20, row(v="c"), commit=50)
    )
    assert [version.state["v"] for version in late.versions()] == ["a", "b", "c"]


def test_r4_a_first_transaction_older_than_the_snapshot_comes_after_it() -> None:
    stream = Stream().add("r", 50, row(v="a"), snapshot="last", commit=None)
    stream.add("u", 40, row(v="b"), commit=None, second=60)
    assert spans(stream.versions()) == [("a", 50, 60, "snapshot", "update"), ("b", 60, None, "update", None)]
    assert [version.position for version in stream.versions()] == [(0, 50, 0), (0, 50, 40)]


def test_r4_numbers_of_binlog_files_are_numbers() -> None:
    stream = (
        Stream("mysql")
        .add("u", 9, row(v="b"), file="bin.10", second=20)
        .add("c", 99, row(v="a"), file="bin.9", second=10)
    )
    stream.records = [replace(record, offset=1 - record.offset) for record in stream.records]
    assert [version.state["v"] for version in stream.versions()] == ["a", "b"]


@pytest.mark.parametrize(
    "later",
    [
        {"at": 10, "second": 1, "server": 2},
        {"at": 10, "second": 1, "file": "other.000001"},
        {"at": 10, "second": 2},
    ],
)
def test_r5_a_fall_back_begins_a_new_log_where_server_file_name_or_time_say_so(later: dict[str, Any]) -> None:
    stream = Stream("mysql").add("c", 90, row(v="a"), second=1).add("u", row=row(v="b"), **later)
    assert [version.position[0] for version in stream.versions()] == [0, 1]


def test_r5_a_late_change_is_older_and_no_border() -> None:
    stream = Stream("mysql").add("u", 90, row(v="b"), second=2).add("c", 10, row=row(v="a"), second=1)
    assert [(version.state["v"], version.position[0]) for version in stream.versions()] == [("a", 0), ("b", 0)]


@pytest.mark.parametrize("name", NAMES)
def test_r5_no_capture_has_a_border(name: str) -> None:
    versions = (
        version for history in history_of(name).values() for one in history.versions.values() for version in one
    )
    assert {version.position[0] for version in versions} == {0}


def test_r5_server_0_is_a_snapshot_and_no_border() -> None:
    stream = Stream("mysql").add("r", 5, row(v="a"), server=0, snapshot="last").add("u", 10, row(v="b"))
    assert [version.position[0] for version in stream.versions()] == [0, 0]


@pytest.mark.parametrize(
    "spelled",
    [
        PLACEHOLDER,
        "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
        [PLACEHOLDER],
        ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="],
        ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
        list(PLACEHOLDER.encode()),
        {PLACEHOLDER: PLACEHOLDER},
        f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}',
    ],
)
def test_r7_unavailable_is_the_value_before(spelled: Any) -> None:
    versions = Stream().add("c", 10, row(v="a", long="x")).add("u", 20, row(v="b", long=spelled)).versions()
    assert versions[1].state == row(v="b", long="x")
    assert versions[1].unresolved_columns == ()


def test_r7_without_a_value_before_the_column_is_unresolved() -> None:
    history = (
        Stream().add("u", 20, row(v=PLACEHOLDER)).add("u", 30, row(v=PLACEHOLDER)).add("u", 40, row(v="a")).history()
    )
    first, second = history.versions[(1,)]
    assert (first.state["v"], first.unresolved_columns, first.valid_to) == (None, ("v",), 40_000_000)
    assert (second.state["v"], history.unresolved) == ("a", 1)


def test_r7_a_changed_key_takes_the_old_keys_value() -> None:
    stream = (
        Stream().add("c", 10, row(v="a")).add("d", 20, row(), newkey=2).add("c", 20, row(2, v=PLACEHOLDER), oldkey=1)
    )
    assert stream.versions(2)[0].state["v"] == "a"


def test_r7_a_placeholder_that_came_before_another_was_set_is_none_the_less_one() -> None:
    stream = Stream().add("c", 10, row(v="a")).add("u", 20, row(v=PLACEHOLDER)).add("u", 30, row(v="gone"))
    [version] = stream.versions(placeholder="gone")
    assert version.state["v"] == "a"


def test_r7_null_is_unchanged_where_declared_unless_before_had_a_value() -> None:
    stream = Stream().add("c", 10, row(v="a")).add("u", 20, row(v=None)).add("u", 30, row(v=None), before=row(v="a"))
    versions = stream.versions(null_is_unchanged=("v",))
    assert spans(versions) == [("a", 10, 30, "insert", "update"), (None, 30, None, "update", None)]


def test_r12_a_read_of_a_number_that_its_source_rounds_is_compared_by_what_it_has() -> None:
    stream = Stream("mysql").add("c", 10, row(v=99999.99)).add("r", 20, row(v=100000.0), server=0)
    stream.add("u", 30, row(v=100000.0), before=row(v=99999.99)).add("r", 40, row(v=99999.9), server=0)
    history = stream.history(types={"v": "float"})
    assert spans(history.versions[(1,)]) == [
        (99999.99, 10, 30, "insert", "update"), (100000.0, 30, 40, "update", "snapshot"),
        (99999.9, 40, None, "snapshot", None),
    ]  # fmt: skip
    assert (history.missed_changes, history.broken_chains) == (1, 0)


def test_r9_insert_of_a_living_key_is_an_update_and_update_of_an_unknown_one_opens() -> None:
    stream = Stream().add("c", 10, row(v="a")).add("c", 20, row(v="b")).add("u", 30, row(2, v="c"))
    assert spans(stream.versions()) == [("a", 10, 20, "insert", "update"), ("b", 20, None, "update", None)]
    assert stream.versions(2)[0].opened_by == "update"


def test_r9_delete_of_an_unknown_key_does_nothing() -> None:
    history = Stream().add("d", 10, row()).history()
    assert (history.versions, history.unknown_deletes, history.counts["no_op"]) == ({}, 1, 1)


def test_r10_boundaries_never_run_backwards() -> None:
    history = Stream().add("c", 10, row(v="a")).add("u", 20, row(v="b"), second=5).history()
    assert spans(history.versions[(1,)]) == [("a", 10, 10, "insert", "update"), ("b", 10, None, "update", None)]
    assert history.clamped == 1


def test_r10_a_change_that_made_no_boundary_holds_no_time_back() -> None:
    stream = Stream().add("c", 10, row(v="a")).add("u", 20, row(v="a"), second=40).add("u", 30, row(v="b"))
    assert [span[1] for span in spans(stream.versions())] == [10, 30]


def test_r10_a_reads_boundary_gives_way_for_both_versions() -> None:
    stream = Stream().add("c", 10, row(v="a")).add("r", 20, row(v="b"), snapshot="incremental", second=50)
    stream.add("u", 30, row(v="c"), second=40)
    assert [span[1:3] for span in spans(stream.versions())] == [(10, 40), (40, 40), (40, None)]


def test_r10_a_change_that_alters_nothing_moves_a_reads_boundary_too() -> None:
    stream = Stream().add("c", 10, row(v="a")).add("r", 20, row(v="b"), snapshot="incremental", second=50)
    stream.add("u", 30, row(v="b"), second=40)
    assert [span[1:3] for span in spans(stream.versions())] == [(10, 40), (40, None)]


def test_r10_a_reads_boundary_does_not_move_past_the_one_before() -> None:
    closed = Stream().add("c", 10, row(v="a")).add("r", 20, row(v="b"), snapshot="incremental", second=50)
    gone = (
        Stream()
        .add("c", 10, row(v="a"))
        .add("d", 15, row())
        .add("r", 20, row(v="b"), snapshot="incremental", second=50)
    )
    for stream, spanned in ((closed, [(10, 10), (10, 10), (10, None)]), (gone, [(10, 15), (15, 15), (15, None)])):
        stream.add("u", 30, row(v="c"), second=5)
        assert [span[1:3] for span in spans(stream.versions())] == spanned
        assert stream.history().clamped == 1


def test_r10_a_missed_delete_gives_way_too() -> None:
    stream = (
        Stream()
        .add("c", 10, row(v="a"))
        .add("r", 20, row(2, v="a"), snapshot="last", second=50)
        .add("c", 30, row(v="b"))
    )
    assert [span[1:3] for span in spans(stream.versions(snapshot_deletes="close"))] == [(10, 30), (30, None)]


def test_r10_zero_is_no_time() -> None:
    assert Stream().add("c", 10, row(v="a"), second=0).versions()[0].valid_from == 1_000


def test_r11_the_last_state_of_a_transaction_is_the_version() -> None:
    stream = Stream().add("c", 10, row(v="a"), transaction=7).add("u", 11, row(v="b"), transaction=7)
    assert spans(stream.versions()) == [("b", 11, None, "insert", None)]
    assert stream.history().counts["collapsed"] == 1
    assert len(stream.versions(granularity="event")) == 2


def test_r11_delete_and_insert_in_one_transaction() -> None:
    same, other = Stream().add("c", 10, row(v="a")), Stream().add("c", 10, row(v="a"))
    same.add("d", 20, row(), transaction=7).add("c", 21, row(v="a"), transaction=7)
    other.add("d", 20, row(), transaction=7).add("c", 21, row(v="b"), transaction=7)
    assert len(same.versions()) == 1
    assert spans(other.versions()) == [("a", 10, 21, "insert", "update"), ("b", 21, None, "insert", None)]
    other.add("u", 22, row(v="c"), transaction=7)
    assert spans(other.versions()) == [("a", 10, 22, "insert", "update"), ("c", 22, None, "insert", None)]


def test_r11_a_key_that_lived_inside_one_transaction_has_no_version() -> None:
    stream = Stream().add("c", 10, row(v="a"), transaction=7).add("d", 11, row(), transaction=7)
    assert stream.history().versions == {}


def test_r11_two_transactions_of_one_instant_both_stay() -> None:
    stream = Stream().add("c", 10, row(v="a"), second=5).add("u", 20, row(v="b"), second=5)
    assert [span[1:3] for span in spans(stream.versions())] == [(5, 5), (5, None)]


def test_r11_transaction_metadata_stands_in_for_a_missing_id() -> None:
    stream = Stream("mysql")
    for at, value in ((10, "a"), (11, "b")):
        stream.add("c", at, row(v=value), metadata={"id": "file=bin.1,pos=4"})
    stream.records = [
        replace(one, value=(one.value or "").replace('"gtid": "1', '"nothing": "1')) for one in stream.records
    ]
    assert [version.state["v"] for version in stream.versions()] == ["b"]


def test_r12_equal_by_logical_value_is_no_change() -> None:
    stream = Stream().put('{"id": 1}', Stream().add("c", 10, row(v=1.5)).records[0].value)
    stream.put('{"id": 1}', (Stream().add("u", 20, row(v=1.25)).records[0].value or "").replace("1.25", "1.50"))
    assert [version.state["v"] for version in stream.versions()] == [Decimal("1.5")]


def test_r12_a_column_that_one_lacks() -> None:
    stream = (
        Stream()
        .add("r", 10, row(v="a", generated=1), snapshot="last")
        .add("u", 20, row(v="a"))
        .add("u", 30, row(v="a", new=None))
    )
    assert len(stream.versions()) == 1
    assert len(stream.add("u", 40, row(v="a", new=1)).versions()) == 2


def test_r12_an_ignored_column_takes_its_newest_value() -> None:
    stream = Stream().add("c", 10, row(v="a", seen=1)).add("u", 20, row(v="a", seen=2))
    for options in ({"ignore": ("seen",)}, {"track": ("v",)}):
        assert [version.state["seen"] for version in stream.versions(**options)] == [2]


def test_r13_a_gap_may_be_empty() -> None:
    stream = Stream().add("c", 10, row(v="a")).add("d", 20, row()).add("c", 30, row(v="a"), second=20)
    assert spans(stream.versions()) == [("a", 10, 20, "insert", "delete"), ("a", 20, None, "insert", None)]


def test_r14_a_key_change_links_both_lives() -> None:
    stream = Stream().add("c", 10, row(v="a")).add("d", 20, row(), newkey=2).add("c", 20, row(2, v="a"), oldkey=1)
    (old,), (new,) = stream.versions(1), stream.versions(2)
    assert (old.closed_by, old.next_key) == ("key_change", (2,))
    assert (new.opened_by, new.previous_key, new.is_start_known) == ("key_change", (1,), True)


@pytest.mark.parametrize("granularity", ["transaction", "event"])
def test_r14_a_change_within_one_declared_key_is_an_update(granularity: str) -> None:
    stream = (
        Stream()
        .add("c", 10, row(v="a", part=1))
        .add("d", 20, row(part=1), newkey=1)
        .add("c", 20, row(v="b", part=2), oldkey=1)
    )
    versions = stream.versions(granularity=granularity)
    assert spans(versions) == [("a", 10, 20, "insert", "update"), ("b", 20, None, "update", None)]


def test_r14_a_whole_before_tells_the_old_business_key() -> None:
    stream = Stream("mysql").add("u", 10, row(v="b"), before=row(v="a"))
    (old,), (new,) = (stream.versions(name, key=("v",)) for name in "ab")
    assert (old.opened_by, old.closed_by, old.next_key) == ("before", "key_change", ("b",))
    assert (new.opened_by, new.previous_key) == ("key_change", ("a",))


def test_r15_truncate_closes_what_lives_at_its_position() -> None:
    stream = Stream().add("c", 10, row(v="a")).add("c", 11, row(2, v="a")).add("t", 20).add("c", 30, row(v="b"))
    assert [version.closed_by for version in stream.versions()] == ["truncate", None]
    assert [version.closed_by for version in stream.versions(2)] == ["truncate"]
    assert stream.history().counts["closed_only"] == 1


def test_r15_a_key_inserted_again_in_the_transaction() -> None:
    stream = Stream().add("c", 10, row(v="a")).add("t", 20, transaction=7).add("c", 21, row(v="b"), transaction=7)
    assert spans(stream.versions()) == [("a", 10, 21, "insert", "update"), ("b", 21, None, "insert", None)]


def test_r16_reads_agree_or_reveal_missed_changes() -> None:
    stream = (
        Stream()
        .add("c", 10, row(v="a"))
        .add("r", 20, row(v="a"), snapshot="last")
        .add("r", 30, row(v="b"), snapshot="last")
    )
    assert spans(stream.versions()) == [("a", 10, 30, "insert", "snapshot"), ("b", 30, None, "snapshot", None)]
    assert [version.is_start_known for version in stream.versions()] == [True, False]
    assert (stream.history().missed_changes, stream.history().counts["no_op"]) == (1, 1)


@pytest.mark.parametrize(("snapshot", "missed"), [("last", 1), ("true", 0), ("incremental", 0)])
def test_r16_living_keys_absent_from_a_complete_snapshot(snapshot: str, missed: int) -> None:
    stream = (
        Stream().add("c", 10, row(v="a")).add("c", 11, row(2, v="a")).add("r", 20, row(2, v="a"), snapshot=snapshot)
    )
    assert stream.history().missed_deletes == missed
    assert stream.versions()[0].closed_by is None
    assert stream.versions(snapshot_deletes="close")[0].closed_by == ("snapshot" if missed else None)


def test_r17_other_kinds_and_tombstones_are_counted() -> None:
    stream = Stream().add("c", 10, row(v="a")).put('{"id": 1}', None).put(None, '{"ts_ms": 1}')
    stream.put(None, '{"status": "BEGIN", "id": "1"}').put(None, '{"ddl": "DROP"}').put(
        None, '{"op": "m", "source": {}}'
    )
    assert {name: count for name, count in stream.history().counts.items() if count} == {
        "opened": 1,
        "tombstone": 1,
        "other": 4,
    }


def test_r18_an_unkeyed_table_has_a_history_under_a_declared_key() -> None:
    stream = Stream(has_key=False).add("c", 10, row(v="a"))
    assert stream.history().counts["unkeyed"] == 1
    assert len(stream.versions(key=("id",))) == 1


def test_r19_the_state_that_a_first_change_found() -> None:
    stream = Stream("mysql").add("u", 20, row(v="b"), before=row(v="a"))
    assert spans(stream.versions()) == [("a", 20, 20, "before", "update"), ("b", 20, None, "update", None)]
    stream.add("c", 10, row(v="a"))
    stream.records = [replace(record, offset=1 - record.offset) for record in stream.records]
    assert spans(stream.versions()) == [("a", 10, 20, "insert", "update"), ("b", 20, None, "update", None)]


def test_r19_a_first_change_that_altered_nothing_or_deleted() -> None:
    stream = Stream("mysql").add("u", 20, row(v="a"), before=row(v="a")).add("d", 30, row(2), before=row(2, v="a"))
    assert spans(stream.versions()) == [("a", 20, None, "before", None)]
    assert spans(stream.versions(2)) == [("a", 30, 30, "before", "delete")]
    assert stream.history().unknown_deletes == 0


def test_r19_before_is_whole_only_where_declared() -> None:
    stream = Stream().add("u", 20, row(v="b"), before=row(v="a"))
    assert [version.opened_by for version in stream.versions()] == ["update"]
    assert [version.opened_by for version in stream.versions(before_is_whole=True)] == ["before", "update"]


def test_r19_a_before_that_differs_is_a_broken_chain() -> None:
    stream = Stream("mysql").add("c", 10, row(v="a")).add("u", 20, row(v="c"), before=row(v="b"))
    assert stream.history().broken_chains == 1
    assert [version.state["v"] for version in stream.versions()] == ["a", "c"]
