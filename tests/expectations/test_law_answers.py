"""What queries of laws answer to rows that a test writes down, where a history that has them is hard to come by."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_jobs.columns import OWN_COLUMNS
from spark_jobs.macro_queries import query

HISTORY = """
    select
        col1 as opened_by, '1' as position, 't' as topic, 0 as `partition`, 7L as `offset`,
        col2 as unresolved_columns, col3 as exact_values
    from values
        ('before', array(), map()),
        ('before', array(), map()),
        ('update', array('note'), map('n', 'NaN'))
"""


def test_what_a_change_found_hides_nothing_of_the_version_that_it_opened(spark: SparkSession) -> None:
    asked = query("changes_of_versions", f"({HISTORY}) as history", {one: one for one in OWN_COLUMNS})

    [counted] = spark.sql(asked).collect()

    assert counted.asDict() == {
        "opened": 1, "found_versions": 2, "unresolved_versions": 1, "inexact_versions": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "one", "other", "are_one"),
    [
        ("array<int>", "array(1, null)", "array(null, 1)", False),
        ("array<string>", "array()", "array(null)", False),
        ("array<string>", "array('a')", "array('a', null)", False),
        ("array<array<int>>", "array(array(1), array())", "array(array(), array(1))", False),
        ("map<string,string>", "map('a', 'b')", "map('a', null, 'b', null)", False),
        ("map<string,string>", "map('a', 'b', 'c', null)", "map('c', null, 'a', 'b')", True),
        ("struct<a: int, b: int>", "named_struct('a', 1, 'b', null)", "named_struct('a', null, 'b', 1)", False),
        ("array<double>", "array(0.0D, 1.5D)", "array(-0.0D, 1.5D)", True),
        ("string", "''", "null", False),
    ],
)
def test_states_are_one_to_the_laws_where_a_fold_makes_no_version(
    spark: SparkSession, kind: str, one: str, other: str, are_one: bool
) -> None:
    state = query("hash_of_state", "row", [{"name": "v", "type": kind}])
    rows = " union all ".join(f"select named_struct('v', cast({value} as {kind})) as row" for value in (one, other))

    [(states,)] = spark.sql(f"select count(distinct {state}) from ({rows}) as rows").collect()

    assert states == (1 if are_one else 2)
