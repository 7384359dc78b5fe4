"""Captures of two restarted servers, their topics landed at different speeds: no half transaction shows. Owns G7."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs import steps
from spark_jobs.damage import damages
from spark_jobs.declarations import CapturedTable, captured_tables, run_dbt
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.rebuild import rebuild
from spark_jobs.reporting.cuts import cuts
from spark_jobs.scaffolding.tables import seen_tables
from spark_jobs.scaffolding.write import write
from tests.generated.lakehouse import current_is_open
from tests.gold import untold
from tests.projects import (
    account_of,
    accounts_of,
    empty_project,
    forget_tables,
    land,
    missing,
    renamed,
    rows_of,
    run_models,
    without_tests,
)
from tests.source import Column, Source, Table

CAPTURES = Path(__file__).parents[1] / "captures"
SOURCES = {"cut1": "postgres-2.5.4-restart", "cut2": "mariadb-2.5.4-restart"}
# How much of a table's topic has come with the first batch, where it isn't what the others have: the second brings the
# rest. Of `accounts` the last that has come is the half of a change of key that ends a version.
FIRST = {"accounts": 0.45, "sync_marker": 0.5, "transaction": 0.4}
OTHERS = 0.35
LAST = 2
# Of each source, one table's current state is looked at, and the accounts of those that people write.
WITH_CURRENT = "__accounts"
WITHOUT = ("*__moves_current", "*__sync_marker_current", "*__sync_marker_accounting")


@dataclass
class Landing:
    """By source, the transactions that began versions and that ended some, and those that had come in part.

    Of the torn ones a delete had come.
    """

    shown: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ended: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    incomplete: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    torn: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    held_back: Counter[str] = field(default_factory=Counter)


def payload(text: str | None) -> dict[str, Any]:
    value = json.loads(text or "{}")
    found: dict[str, Any] = value.get("payload", value) or {}
    return found


def with_message(line: str) -> str:
    """A record of PostgreSQL's; an END with a logical message, too, which 3.5.0 counts as of a table that is none."""
    record = json.loads(line)
    value = json.loads(record["value"] or "{}")
    boundary = value.get("payload", value)
    if boundary.get("status") == "END":
        boundary["event_count"] += 1
        message = {"data_collection": "io.debezium.connector.postgresql.LogicalDecodingMessageMonitor$"
                   "LogicalDecodingMessageId@70ea182c", "event_count": 1}  # fmt: skip
        boundary["data_collections"] = [message, *(boundary["data_collections"] or ())]
        line = json.dumps(record | {"value": json.dumps(value)}) + "\n"
    return line


def transaction(record: dict[str, Any]) -> tuple[str, tuple[Any, ...]] | None:
    """The transaction of a streamed change, and what tells the change from others of it."""
    value = payload(record["value"])
    source = value.get("source", {})
    if value.get("op") not in ("c", "u", "d", "t"):
        return None
    named = source.get("gtid") or source.get("txId")
    places = tuple(source.get(name) for name in ("lsn", "file", "pos", "row"))
    return str(named), (record["topic"], record["key"], value["op"], *places)


def incomplete(records: list[dict[str, Any]], landed: list[dict[str, Any]]) -> set[str]:
    """The transactions of a capture of which some change has not been landed."""
    there = {one for record in landed if (one := transaction(record))}
    return {one[0] for record in records if (one := transaction(record)) and one not in there}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    project = empty_project(tmp_path_factory.mktemp("cut") / "project")
    declare_consistent(project, *SOURCES)
    return Places.of(project)


def declare_consistent(project: Path, *sources: str, given_up: Sequence[str] = ()) -> None:
    declared = yaml.safe_load((project / "dbt_project.yml").read_text())
    declared["vars"]["tidemark"]["sources"] = {
        name: {"consistent": True, "given_up": list(given_up)} for name in sources
    }
    (project / "dbt_project.yml").write_text(yaml.safe_dump(declared))


@pytest.fixture(scope="module")
def landings(spark: SparkSession, places: Places) -> list[Landing]:
    """The lakehouse after each batch, and after one more run without any."""
    topics: dict[str, dict[str, list[str]]] = {name: defaultdict(list) for name in SOURCES}
    for name, capture in SOURCES.items():
        for line in renamed(CAPTURES / capture, name):
            topics[name][json.loads(line)["topic"]].append(with_message(line) if name == "cut1" else line)
    landed: dict[str, list[str]] = {name: [] for name in SOURCES}
    found = []
    for batch in range(LAST + 1):
        if batch < LAST:
            new = []
            for name, by_topic in topics.items():
                for topic, lines in by_topic.items():
                    first = int(len(lines) * FIRST.get(topic.rpartition(".")[2], OTHERS))
                    part = lines[first:] if batch else lines[:first]
                    landed[name] += part
                    new += part
            land(spark, places, f"cut-{batch}", "".join(new), SOURCES)
        run_models(places, "--exclude", *WITHOUT, accounting=True)
        tables = captured_tables(places)
        if batch in (0, LAST):
            assert untold(spark, places, tables) == []
        one = Landing()
        for name, by_topic in topics.items():
            whole = [json.loads(line) for lines in by_topic.values() for line in lines]
            there = list(map(json.loads, landed[name]))
            one.incomplete[name] = incomplete(whole, there)
            deletes = (told for record in there if (told := transaction(record)) and told[1][2] == "d")
            one.torn[name] = one.incomplete[name] & {told[0] for told in deletes}
        for table in tables:
            if table.history is not None and table.source_name in SOURCES:
                assert not table.name.endswith(WITH_CURRENT) or current_is_open(table)
                rows = rows_of(table.history.location)
                one.shown[table.source_name] |= {row["transaction_id"] for row in rows} - {None}
                one.ended[table.source_name] |= ended(table, rows)
                one.held_back[table.source_name] += held_back(table)
        found.append(one)
    return found


def ended(table: CapturedTable, rows: list[dict[str, Any]]) -> set[str]:
    """The transactions that ended versions and began none of their keys: each of a key's next delete in the log."""
    deletes: dict[tuple[Any, ...], list[tuple[str, str]]] = defaultdict(list)
    for change in rows_of(table.changes.location, "key", "op", "position", "transaction_id"):
        if change["op"] == "d":
            deletes[tuple(change["key"].values())].append((change["position"], change["transaction_id"]))
    gone = [row for row in rows if row["closed_by"] in ("delete", "key_change")]
    keys = ((tuple(row[name] for name in table.key), row["position"]) for row in gone)
    return {min(one for one in deletes[key] if one[0] > position)[1] for key, position in keys}


def held_back(table: CapturedTable) -> int:
    return sum(row["records"] for row in account_of(table) if row["name"] == "held_back")


# Observed 1, 6, 9
@pytest.mark.parametrize("batch", range(LAST + 1))
@pytest.mark.parametrize("source", SOURCES)
def test_gold_shows_no_half_transaction(landings: list[Landing], source: str, batch: int) -> None:
    assert landings[batch].shown[source] & landings[batch].incomplete[source] == set()
    assert landings[batch].ended[source] & landings[batch].incomplete[source] == set()


# Observed 8
@pytest.mark.parametrize("source", SOURCES)
def test_what_was_held_back_comes_with_a_later_run(landings: list[Landing], source: str) -> None:
    first, last = landings[0], landings[-1]

    assert 0 < len(first.shown[source]) < len(last.shown[source])
    assert 0 < len(first.ended[source]) < len(last.ended[source])
    assert first.torn[source] & last.ended[source]
    assert [landing.held_back[source] > 0 for landing in landings] == [True, True, False]


def test_at_the_end_gold_is_what_it_is_without_a_cut(landings: list[Landing], places: Places) -> None:
    tables = [table for table in captured_tables(places) if table.history is not None]
    grown = accounts_of(tables)
    in_cuts = {table.name: sorted(map(repr, rows_of(table.history.location))) for table in tables if table.history}

    without = ["--full-refresh", "--select", "config.materialized:history", "--vars", "{sources: {}}"]
    run_models(places, *without, accounting=True)

    assert grown == accounts_of(tables)
    assert in_cuts == {
        table.name: sorted(map(repr, rows_of(table.history.location))) for table in tables if table.history
    }


def test_records_that_make_no_cut_are_told_of(spark: SparkSession, places: Places, landings: list[Landing]) -> None:
    lines = [
        line
        for line in renamed(CAPTURES / SOURCES["cut1"], "cut3")
        if line.startswith('{"topic":"cut3.public.sync_marker"')
    ]
    land(spark, places, "cut-without", "".join(lines), {"cut3"})
    declare_consistent(places.project, *SOURCES, "cut3")

    result = run_dbt(places, ["--quiet", "run", "--select", "cut3_*"])

    assert not result.success
    said = " ".join(one.message for one in result.result if one.status == "error")
    assert "no record of topic cut3.transaction" in said
    assert "provide.transaction.metadata" in said

    begins = [
        {"topic": "cut3.transaction", "partition": number, "offset": 0, "timestamp": None, "key": None, "headers": []}
        | {"value": json.dumps({"status": "BEGIN", "id": str(number), "ts_ms": 1_700_000_000_000})}
        for number in range(2)
    ]
    land(spark, places, "cut-two-partitions", "".join(json.dumps(one) + "\n" for one in begins), {"cut3"})

    result = run_dbt(places, ["--quiet", "run", "--select", "cut3_*"])

    assert not result.success
    said = " ".join(one.message for one in result.result if one.status == "error")
    assert "topic cut3.transaction has records in 2 partitions" in said


def test_transactions_that_were_built_before_their_logs_are_looked_at_again(
    spark: SparkSession, places: Places, landings: list[Landing]
) -> None:
    records = map(json.loads, renamed(CAPTURES / SOURCES["cut1"], "cut1"))
    last = max(
        (one for one in records if transaction(one)), key=lambda one: int(payload(one["value"])["source"]["lsn"])
    )
    value = json.loads(last["value"])
    image = value.get("payload", value)
    place = image["source"]["lsn"] + 10**9
    image["source"] |= {"lsn": place, "txId": 10**6, "sequence": json.dumps([str(place), str(place)])}
    image["transaction"] |= {"id": f"{10**6}:{place}"}
    image["after"] |= {"token": "half"}
    last |= {"offset": last["offset"] + 10**6, "value": json.dumps(value)}
    land(spark, places, "cut-half", json.dumps(last) + "\n", {"cut1"})

    run_models(places, "--select", "cut1_transactions", accounting=True)
    run_models(places, "--select", "cut1_*_changes", accounting=True)
    run_models(places, "--select", "cut1_*", accounting=True)

    shown = {
        row["transaction_id"]
        for table in captured_tables(places)
        if table.history is not None and table.source_name == "cut1"
        for row in rows_of(table.history.location)
    }
    assert landings[-1].shown["cut1"] <= shown
    assert str(10**6) not in shown

    # Who gives it up sees what there is of it, as long as they do.
    [history] = [
        table.history
        for table in captured_tables(places)
        if table.history is not None and table.name == last["topic"].replace(".", "__")
    ]
    for given_up in ([str(10**6)], []):
        declare_consistent(places.project, *SOURCES, given_up=given_up)
        run_models(places, "--select", "cut1_transactions", history.name, accounting=True)
        assert (str(10**6) in {row["transaction_id"] for row in rows_of(history.location)}) == bool(given_up)


@pytest.fixture(scope="module")
def of_db2(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """A lakehouse of Db2's, the last that is built: of its transactions the second lacks changes of a table to the end.

    The connector begins again in the middle of that one, and its second END counts what came behind that.
    """
    forget_tables(spark)
    places = Places.of(empty_project(tmp_path_factory.mktemp("db2") / "project"))
    source = Source("cut4", connector="db2")
    tables = [Table(name, [Column("id", {"type": "int32"})], ("id",)) for name in ("one", "two")]

    def commit(id_: int, *inserted: Table) -> None:
        with source.commit():
            for table in inserted:
                source.insert(table, {"id": id_})

    commit(1, *tables)
    source.tell(one=1, two=1)
    commit(2, *tables)
    source.records.pop()
    source.tell(one=1, two=3)
    source.tell(one=1, two=2)
    commit(3, tables[0])
    source.tell(one=1)
    land(spark, places, "cut-db2-0", source.lines(), {"cut4"})
    declare_consistent(places.project, "cut4")
    run_models(places, "--exclude", "*_current", "*_accounting", accounting=True)
    landed = len(source.records)
    commit(4, tables[0])
    source.tell(one=1)
    land(spark, places, "cut-db2-1", source.lines(source.records[landed:]), {"cut4"})
    run_models(places, "--exclude", "*_current", "*_accounting", accounting=True)
    return places


def test_a_transaction_of_db2_waits_for_tables_that_its_end_names_without_their_database(of_db2: Places) -> None:
    shown = {
        table.name: [row["id"] for row in rows_of(table.history.location)]
        for table in captured_tables(of_db2)
        if table.history is not None
    }
    assert shown == {"cut4__db__one": [1], "cut4__db__two": [1]}
    [first, *_] = sorted(rows_of(of_db2.table("ops", "cut4_transactions")), key=lambda row: row["began_at_offset"])
    assert first["lacking"] == [("cut4__db__two_changes", 3)], "of two ENDs the one that counts most"


def test_a_transaction_that_holds_nothing_back_is_not_told(spark: SparkSession, of_db2: Places) -> None:
    [cut] = cuts(spark, captured_tables(of_db2))
    held = rows_of(of_db2.table("ops", "cut4_transactions"), "changes")

    assert (cut.changes, cut.transactions) == (sum(row["changes"] for row in held), len(held))
    spark.sql(f"update {table_at(of_db2.table('ops', 'cut4_transactions'))} set changes = 0")
    assert cuts(spark, captured_tables(of_db2)) == []


def test_a_damaged_list_of_transactions_is_made_anew(spark: SparkSession, of_db2: Places) -> None:
    location = of_db2.table("ops", "cut4_transactions")
    shutil.rmtree(f"{location}/_delta_log")
    [damage] = damages(spark, of_db2, beside_bronze=[location])

    rebuild(steps.Run(of_db2, "rebuild"), spark, [damage.name])

    assert "tidemark rebuild cut4_transactions" in damage.line(of_db2)
    assert damages(spark, of_db2, beside_bronze=[location]) == []


@dataclass(frozen=True, slots=True)
class Shown:
    """The rows of two histories after a landing, the versions of these tables, and the open rows of other tables."""

    rows: tuple[list[int], list[int]]
    versions: tuple[int, int]
    is_open: dict[str, list[int]]


def without_begin() -> list[list[dict[str, Any]]]:
    """Four landings of MySQL, whose connector tells neither BEGIN nor END of TRUNCATE and of XA."""
    source = Source("cut6", connector="mysql", has_schemas=False, has_tombstones=False)
    one, two = (Table(name, [Column("id", {"type": "int32"})], ("id",)) for name in ("one", "two"))

    def commit(id_: int) -> None:
        with source.commit():
            source.insert(one, {"id": id_})
            source.insert(two, {"id": id_})
        source.tell(one=1, two=1)

    def truncate(table: Table) -> None:
        with source.commit():
            source.truncate(table)

    landings = []
    commit(1)
    landings.append(source.written())
    commit(2)
    truncate(one)
    commit(3)
    landings.append(source.written())
    with source.commit():
        source.insert(one, {"id": 4})
    commit(5)
    landings.append(source.written())
    commit(6)
    truncate(two)
    landings.append(source.written())
    return landings


def with_ids_that_begin_anew() -> list[list[dict[str, Any]]]:
    """Four landings of PostgreSQL, whose transaction ids wrap: each transaction has the id of the first."""
    source = Source("cut7", has_schemas=False, has_tombstones=False)
    tables = [Table(name, [Column("id", {"type": "int32"})], ("id",)) for name in ("one", "two")]

    def commit(id_: int) -> None:
        source.transaction = 500
        with source.commit():
            for table in tables:
                source.insert(table, {"id": id_})
        source.tell(one=1, two=1)

    commit(1)
    whole = source.written()
    commit(2)
    first, late, *told = source.written()
    commit(3)
    of_third, late_too, *told_late = source.written()
    return [whole, [first, *told], [late, of_third], [late_too, *told_late]]


@pytest.fixture(scope="module")
def on_the_way(spark: SparkSession, of_db2: Places) -> list[Shown]:
    """What four landings of another source beside that one show, whose tables are modelled before all have come.

    With them come those of two more sources.
    """
    source = Source("cut5", connector="db2", has_schemas=False, has_tombstones=False)
    beside = {"cut6": without_begin(), "cut7": with_ids_that_begin_anew()}
    one, two = (Table(name, [Column("id", {"type": "int32"})], ("id",)) for name in ("one", "two"))
    two.rows[two.key_of({"id": 9})] = {"id": 9}
    shown: list[Shown] = []

    def build(*records: dict[str, Any]) -> None:
        others = [record for landings in beside.values() for record in landings[len(shown)]]
        land(spark, of_db2, f"cut-on-the-way-{len(shown)}", source.lines([*records, *others]), beside)
        if not shown:
            [seen] = [table for table in seen_tables(spark, of_db2) if table.source == "cut5"]
            feeds = {row["feed"] for row in rows_of(of_db2.table("bronze", "records"), "feed")}
            [feed] = [one for one in feeds if one.startswith("cut5__db__db__two")]
            other = replace(seen, name="cut5__db__two", source_table="db__two", full_name="cut5.db.two", feed=feed)
            write(of_db2.project, without_tests(missing(of_db2.project, [seen, other])))
            declare_consistent(of_db2.project, "cut4", "cut5", *beside)
        built = [f"{name}_*" for name in ("cut5", *beside)]
        run_models(of_db2, "--select", *built, "--exclude", "*_current", "*_accounting", accounting=True)
        places = [of_db2.table("gold", f"cut5__db__{table.name}_history") for table in (one, two)]
        first, second = (sorted(row["id"] for row in rows_of(place)) for place in places)
        versions = [DeltaTable(place).version() for place in places]
        is_open = {
            table.name: sorted(row["id"] for row in rows_of(table.history.location) if row["valid_to"] is None)
            for table in captured_tables(of_db2)
            if table.history is not None and table.source_name in beside
        }
        shown.append(Shown((first, second), (versions[0], versions[1]), is_open))

    # Retention has removed the rows of the first transaction, but not its BEGIN and END.
    with source.commit():
        source.insert(one, {"id": 1})
        source.insert(two, {"id": 1})
    source.written()
    source.tell(one=1, two=1)
    with source.commit():
        source.insert(one, {"id": 2})
    source.tell(one=1)
    # Of the third, one table's row is late; all that has come of the other table is a delete.
    with source.commit():
        source.delete(two, {"id": 9})
        source.insert(one, {"id": 3})
    source.tell(one=1, two=1)
    [late] = [record for record in source.records if '"after": {"id": 3}' in record["value"]]
    build(*(record for record in source.written() if record != late))

    source.lsn = 2000
    with source.commit():
        source.insert(one, {"id": 4})
    source.tell(one=1)
    build(late, *source.written())

    # A server that is restored to an older state goes on with one of the tables.
    source.lsn = 1500
    with source.commit():
        source.insert(one, {"id": 5})
    source.tell(one=1)
    build(*source.records)

    # The connector repeats all of that, and only one table's row of the next transaction has come.
    known = len(source.records)
    source.redeliver(known)
    with source.commit():
        source.insert(two, {"id": 6})
        source.insert(one, {"id": 6})
    build(*source.records[known:-1])
    return shown


def test_a_transaction_from_before_what_there_is_of_a_table_is_not_waited_for(on_the_way: list[Shown]) -> None:
    assert on_the_way[0].rows[0] == [2]


def test_a_table_of_which_only_deletes_have_come_shows_no_half_transaction(on_the_way: list[Shown]) -> None:
    assert [landing.rows[1] for landing in on_the_way[:2]] == [[], [9]]


def test_a_table_that_has_nothing_of_a_new_log_yet_shows_no_half_transaction(on_the_way: list[Shown]) -> None:
    assert [landing.rows[1] for landing in on_the_way[2:]] == [[9], [9]]


def test_a_transaction_that_is_told_again_as_the_last_stays_shown(on_the_way: list[Shown]) -> None:
    assert [landing.rows[0] for landing in on_the_way[2:]] == [[2, 3, 4, 5]] * 2
    assert on_the_way[3].versions == on_the_way[2].versions


@pytest.mark.parametrize("landing", [0, 1])
def test_a_truncate_that_no_boundary_tells_of_waits_for_nothing(on_the_way: list[Shown], landing: int) -> None:
    rows = ([1], [1]), ([3], [1, 2, 3])
    assert rows_of_source(on_the_way[landing], "cut6") == rows[landing]


def test_what_stands_behind_a_transaction_that_has_no_begin_waits_with_it_in_every_table(
    on_the_way: list[Shown],
) -> None:
    assert rows_of_source(on_the_way[2], "cut6") == rows_of_source(on_the_way[1], "cut6")
    assert rows_of_source(on_the_way[3], "cut6") == ([3, 4, 5, 6], [])


@pytest.mark.parametrize("landing", range(4))
def test_a_transaction_that_has_the_id_of_an_old_one_is_counted_by_itself(
    on_the_way: list[Shown], landing: int
) -> None:
    rows = [1], [1], [1, 2], [1, 2, 3]
    assert rows_of_source(on_the_way[landing], "cut7") == (rows[landing], rows[landing])


def rows_of_source(shown: Shown, source: str) -> tuple[list[int], ...]:
    """The open rows of a source's tables, one and two."""
    return tuple(rows for table, rows in sorted(shown.is_open.items()) if table.startswith(source))
