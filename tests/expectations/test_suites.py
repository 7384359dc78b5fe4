"""Every suite passes good data; every planted fault is reported by one expectation alone, with its key."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from expectations.rules import LAYERS
from expectations.suite_files import load_suites
from expectations.validate import validate
from spark_jobs.declarations import CapturedTable
from spark_jobs.errors import UsageError
from spark_jobs.expectation_result import ExpectationResult
from spark_jobs.masking import Mask
from spark_jobs.places import Places
from spark_jobs.reporting.bronze_contents import contents, topics_of
from tests.expectations.lakehouses import write_bronze
from tests.expectations.stories import (
    PRIVATE,
    SCRIPT,
    bad_story,
    good_story,
    needless_story,
    secret_story,
    shown_story,
    wrapped_story,
)

PLAIN = """return suite(TABLE, "gold_history", [
        gxe.ExpectColumnValuesToNotBeNull(column="v", severity="warning"),
        gxe.ExpectColumnValuesToNotMatchRegex(column="id", regex="@", severity="critical"),
        gxe.ExpectColumnDistinctValuesToBeInSet(column="id", value_set=["x"]),
        gxe.ExpectColumnValuesToNotBeNull(column="no_such_column"),
        gxe.UnexpectedRowsExpectation(unexpected_rows_query="select * from {batch} where v is null"),
    ])
"""
WRAPPED = """import great_expectations.expectations as gxe

    return suite(TABLE, "silver_changes", [gxe.ExpectColumnValuesToBeNull(column="after")])
"""


def _id(key: str) -> str:
    return json.dumps({"id": key}, separators=(",", ":"))


def _column(name: str) -> str:
    return json.dumps({"column": name}, separators=(",", ":"))


def _place(offset: int | None) -> str:
    return json.dumps({"topic": "bad.topic", "partition": 0, "offset": offset}, separators=(",", ":"))


UNTOLD = (
    "begins late", "begins late, as the one before ends", "exact value of another", "exact value of no column",
    "exact values unknown of none", "exact values unknown", "found otherwise", "from nowhere",
    "id of another", "key of another", "opened by no read", "position of another",
    "previous key of another", "start unknown", "transaction of another", "value of another",
)  # fmt: skip
UNENDED = (
    "deleted and shown alive", "deleted, then read", "empty gap called update", "ended and open",
    "ended at another time", "ended before", "ended by a change with a problem", "ended by a delete", "ended by a read",
    "ended by no read", "ended by nothing", "from another row than came", "gone and open", "gone to another key",
    "half of a transaction", "insert of a living row", "read begins too late", "read ends too late", "read late",
    "state passed over", "truncated and open", "truncated and shown alive", "update behind a delete",
)  # fmt: skip
# A value that no earlier state tells is one that a change left out.
TOGETHER = {"expect_values_to_be_available", "expect_values_to_be_resolved"}
FAULTS = [
    ("expect_records_to_have_a_place", [_place(None)]),
    ("expect_record_kinds_to_be_known", [_place(1)]),
    ("expect_row_changes_to_name_their_table", [_place(2)]),
    ("expect_deliveries_to_be_there_once", [_place(4)]),
    ("expect_shapes_to_be_there", [_place(9)]),
    ("expect_no_gap_in_offsets", [_place(5)]),
    ("expect_changes_to_have_their_key", [_place(500)]),
    ("expect_changes_to_have_a_position", [_id("no position")]),
    ("expect_change_ops_to_be_known", [_id("odd op")]),
    ("expect_states_after_changes", [_id("no state")]),
    ("expect_changes_to_be_there_once", [_id("twice in the log")]),
    ("expect_change_times_to_be_plausible", [_id("from the future")]),
    ("expect_streamed_changes_to_name_their_transaction", [_id("no transaction")]),
    ("expect_values_to_be_available", [_id(SCRIPT), _id("placeholder")]),
    ("expect_one_row_per_living_key", [_id("twice in current")]),
    (
        "expect_current_to_equal_open_versions",
        [_column("note"), _id("not in current"), _id("not in history"), _id("other value")],
    ),
    ("expect_versions_to_have_key_and_start", [_id("no start")]),
    ("expect_versions_not_to_end_before_they_begin", [_id("ends early")]),
    ("expect_versions_not_to_overlap", [_id("overlaps")]),
    ("expect_one_open_version_at_most", [_id("open and not last")]),
    ("expect_open_versions_to_be_marked_so", [_id("closed and current")]),
    ("expect_no_gap_but_after_a_close", [_id("gap")]),
    ("expect_time_to_agree_with_position", [_id("time runs back")]),
    ("expect_opened_and_closed_by_to_be_known", [_id("closed by what")]),
    ("expect_key_changes_to_name_the_other_key", [_id("no previous key")]),
    ("expect_version_ids_to_be_unique", [_id("same id twice")]),
    ("expect_versions_to_be_traceable", [_id(key) for key in UNTOLD]),
    ("expect_versions_to_end_as_changes_say", [_id(key) for key in UNENDED]),
    ("expect_columns_to_be_there", [_column("lost"), _column("v")]),
    ("expect_values_to_be_resolved", [_id(SCRIPT)]),
    ("expect_values_to_fit_their_types", [_id("infinite")]),
]
WARNINGS = {
    "expect_no_gap_in_offsets", "expect_change_times_to_be_plausible", "expect_values_to_be_available",
    "expect_streamed_changes_to_name_their_transaction", "expect_values_to_be_resolved",
    "expect_values_to_fit_their_types",
}  # fmt: skip


@dataclass(frozen=True)
class Validated:
    """One run over all stories, which every test here looks at."""

    results: list[ExpectationResult]
    folder: Path
    places: Places
    tables: dict[str, CapturedTable]

    def broken(self, table: str) -> list[ExpectationResult]:
        """The expectations on a table that did not pass."""
        return [one for one in self.results if one.table == table and not one.passed]


@pytest.fixture(scope="module")
def validated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Validated:
    home = tmp_path_factory.mktemp("expectations")
    places = Places(home / "project", str(home / "lakehouse"), str(home / "catalog"))
    stories = [good_story(), bad_story(), needless_story(), secret_story(), shown_story(), wrapped_story()]
    write_bronze(spark, places, stories)
    with ThreadPoolExecutor(4) as pool:
        written = pool.map(lambda story: story.write(spark, places), stories)
    tables = {table.name: table for table in written}
    for name in ("secret", "shown"):
        module = places.project / "expectations" / "suites" / f"{name}.py"
        text = module.read_text().replace('return suite(TABLE, "gold_history")', PLAIN)
        head, *layers = ("import great_expectations.expectations as gxe\n" + text).split("\n\n\ndef ")
        kept = [layer for layer in layers if name != "shown" or not layer.startswith("silver_current")]
        module.write_text("\n\n\ndef ".join([head, *kept]))
    module = places.project / "expectations" / "suites" / "wrapped.py"
    module.write_text(module.read_text().replace('return suite(TABLE, "silver_changes")', WRAPPED))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("expectations.validate.SAMPLES", max(len(keys) for _, keys in FAULTS))
        topics = topics_of(contents(spark, places, {}, {}))
        results = validate(spark, places, list(tables.values()), home / "run", topics)
    return Validated(results, home / "run", places, tables)


def test_good_data_passes_every_expectation(validated: Validated) -> None:
    assert validated.broken("good") == []
    assert len([one for one in validated.results if one.table == "good"]) == len(FAULTS)


def test_every_law_has_a_planted_fault() -> None:
    assert {law.expectation_type for layer in LAYERS.values() for law in layer.LAWS} == {name for name, _ in FAULTS}


@pytest.mark.parametrize(("expectation", "keys"), FAULTS)
def test_a_fault_is_reported_by_its_expectation_alone(validated: Validated, expectation: str, keys: list[str]) -> None:
    broken = {one.expectation: one for one in validated.broken("bad")}
    if expectation == "expect_records_to_have_a_place":
        assert [json.loads(key)["offset"] for key in broken[expectation].sample_keys] == [None]
    else:
        assert list(broken[expectation].sample_keys) == keys
    assert broken[expectation].severity == ("warning" if expectation in WARNINGS else "critical")
    assert (broken[expectation].unexpected_count or 0) >= len(keys)
    for other in broken.values():
        alone = other.expectation != expectation and not {other.expectation, expectation} <= TOGETHER
        assert not alone or not set(keys) & set(other.sample_keys)


def test_a_version_like_the_one_before_it_is_reported(validated: Validated) -> None:
    broken = {one.expectation: list(one.sample_keys) for one in validated.broken("needless")}
    assert broken == {"expect_versions_to_end_as_changes_say": [_id("again")]}


def test_what_users_add_sees_the_whole_table_and_names_keys(validated: Validated) -> None:
    broken = {one.expectation: one for one in validated.broken("shown")}
    key = {"id": f"{SCRIPT}@"}
    assert [json.loads(one) for one in broken["expect_column_values_to_not_match_regex"].sample_keys] == [key]
    assert broken["expect_column_values_to_not_match_regex"].unexpected_count == 1
    assert broken["unexpected_rows_expectation"].unexpected_count == 1
    assert broken["unexpected_rows_expectation"].severity == "critical"


def test_what_is_sensitive_is_shown_nowhere(spark: SparkSession, validated: Validated) -> None:
    broken = {one.expectation: one for one in validated.broken("secret")}
    hashed = {"id": Mask.of(spark, validated.places).text(PRIVATE)}
    for name in ("expect_values_to_fit_their_types", "expect_column_values_to_not_match_regex"):
        assert [json.loads(one) for one in broken[name].sample_keys] == [hashed]
    assert "expect_column_values_to_be_null" in {one.expectation for one in validated.broken("wrapped")}
    said = " ".join(str(one) for one in validated.results)
    pages = " ".join(page.read_text() for page in validated.folder.rglob("*.html"))
    assert PRIVATE not in said + pages


def test_an_expectation_that_cannot_be_judged_fails(validated: Validated) -> None:
    [one] = [one for one in validated.broken("shown") if "no_such_column" in one.description]
    assert one.stops
    assert "could not be judged" in one.description


def test_a_layer_that_a_suite_leaves_out_is_named(validated: Validated) -> None:
    [one] = [one for one in validated.broken("shown") if one.expectation == "suite_to_have_layer"]
    assert (one.layer, one.stops) == ("silver_current", False)
    assert "expectations/suites/shown.py has no silver_current" in one.description


def test_a_suite_without_a_layer_is_told_from_none(spark: SparkSession, validated: Validated, tmp_path: Path) -> None:
    places = replace(validated.places, project=tmp_path)
    (tmp_path / "expectations/suites").mkdir(parents=True)
    (tmp_path / "expectations/suites/bad.py").write_text("def history():\n    return 1\n")
    tables = [validated.tables[name] for name in ("bad", "shown")]

    said = [one.description for one in validate(spark, places, tables, tmp_path / "run", {})]

    assert [one.partition(",")[0] for one in said] == [
        "expectations/suites/bad.py has no function of a layer", "There is no expectations/suites/shown.py",
    ]  # fmt: skip


def test_data_docs_escape_what_events_hold(validated: Validated) -> None:
    pages = [page.read_text() for page in validated.folder.rglob("*.html")]
    assert len([page for page in pages if "&lt;script&gt;alert(1)" in page]) >= 2
    assert not any(SCRIPT in page for page in pages)


def test_samples_can_be_switched_off(spark: SparkSession, validated: Validated, tmp_path: Path) -> None:
    topics = topics_of(contents(spark, validated.places, {}, {}))
    results = validate(spark, validated.places, [validated.tables["bad"]], tmp_path, topics, sample_rows=False)
    assert not any(one.sample_keys for one in results)
    assert {one.expectation for one in results if not one.passed} == {name for name, _ in FAULTS}


def test_a_suite_that_cannot_be_loaded_says_so(validated: Validated, tmp_path: Path) -> None:
    places = Places(tmp_path, str(tmp_path), str(tmp_path))
    suites = tmp_path / "expectations" / "suites"
    suites.mkdir(parents=True)
    (suites / "bad.py").write_text("def bronze():\n    return 1\n")
    with pytest.raises(UsageError, match=r"expectations/suites/bad.py: bronze\(\) gave int"):
        load_suites(places, validated.tables["bad"])
    (suites / "bad.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(UsageError, match="can't be loaded: ModuleNotFoundError"):
        load_suites(places, validated.tables["bad"])
    assert load_suites(places, validated.tables["good"]) == {}
