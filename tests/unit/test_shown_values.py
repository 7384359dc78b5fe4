"""Values that people may not see are shown alike wherever they stand, and others with all their digits."""

from __future__ import annotations

import json
from dataclasses import replace

import great_expectations.expectations as gxe
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from expectations.results import OF_RECORDS, _is_shown
from spark_jobs.engine_errors import first_cause, redacted
from spark_jobs.masking import Mask
from spark_jobs.names import exact_json
from spark_jobs.reporting.signs import shown_key
from spark_jobs.trace import _has_values
from tests.evidence import captured


def test_values_are_masked_alike_wherever_they_stand() -> None:
    one, other = Mask("one"), Mask("other")
    assert one.text("ada") == one.text(b"ada")
    assert len({one.text("ada"), one.text("bob"), other.text("ada")}) == 3
    assert redacted("Cast of 'ada' to \"int\" failed") == "Cast of … to … failed"
    assert redacted("The value 'O\\'Brien, 12 Elm St' can't be cast") == "The value … can't be cast"
    assert redacted("It ends in 'the middle") == "It ends in …"
    assert redacted("It ends in 'the middle\\") == "It ends in …"
    assert redacted("Of X'73656372' and CAN'T") == "Of … and CAN'T"
    overflow = '[CAST_OVERFLOW] The value 123456789 of the type "INT" can\'t be cast.\nUse more. SQLSTATE: 22003'
    range_ = "[NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION] The 123456.78 rounded half up. SQLSTATE: 22003"
    no_column = "[NO_COLUMN] No such. SQLSTATE: 42703"
    assert redacted(f"{no_column}\n{overflow} == it") == f"{no_column}\n[CAST_OVERFLOW] … SQLSTATE: 22003 == it"
    assert redacted(range_) == "[NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION] … SQLSTATE: 22003"
    assert first_cause(f"a.SparkError: {overflow}") == "a.SparkError: [CAST_OVERFLOW] … SQLSTATE: 22003"
    assert (
        first_cause("Job: 'Project ['id)\nCaused by: java.IOException: No space left")
        == "java.IOException: No space left"
    )
    # As dbt nests them; what came behind a full disk is not what it came from.
    nested = "Runtime Error in model m (m.sql)\n  Runtime Error\n    "
    full = "  Caused by: a.FSError: java.io.IOException: No space left on device\n"
    assert first_cause(f"{nested}[NO_COLUMN] No such. SQLSTATE: 42703") == "[NO_COLUMN] No such. SQLSTATE: 42703"
    assert (
        first_cause(f"{nested}: a.B.WriteException: [FAILED]\n{full}  Caused by: a.B.WriteException: [FAILED]")
        == "java.io.IOException: No space left on device"
    )
    assert first_cause(f"The value 'one\ntwo' and '{'x' * 600}'\n at x") == "The value … and …"


@pytest.mark.parametrize(
    "key",
    [
        '{"id": 9007199254740993.000000000000000000, "v": 0E-18}',
        '{"id": -1, "v": {"a": [true, null, 12345678901234567890, "ü"]}}',
    ],
)
def test_keys_are_shown_with_all_their_digits(key: str) -> None:
    table = captured(key=("id", "v"))
    compact = key.replace(", ", ",").replace(": ", ":")
    assert [shown_key(table, one, Mask("")) for one in (key, compact)] == [key, key]


def test_trace_finds_a_key_as_it_is_shown(spark: SparkSession) -> None:
    log = spark.sql("select struct(X'ff00' as id, cast('9007199254740993' as decimal(38, 18)) as v) as key")
    table = captured(key=("id", "v"))
    [[key]] = log.select(exact_json(F.col("key"))).collect()
    shown = json.loads(shown_key(table, key, Mask("")), parse_float=str)
    pairs = [f"{name}={value}" for name, value in shown.items()]
    assert pairs == ["id=/wA=", "v=9007199254740993.000000000000000000"]
    assert log.where(_has_values(spark, log, table, pairs)).count() == 1


@pytest.mark.parametrize(("layer", "is_shown"), [("gold_history", True), *((layer, False) for layer in OF_RECORDS)])
def test_a_column_of_records_is_not_the_source_s_that_has_its_name(layer: str, is_shown: bool) -> None:
    columns = ({"name": "value", "type": "string", "field": "value", "sensitive": False},)

    assert (
        _is_shown(captured(columns=columns, key=("value",)), layer, gxe.ExpectColumnValuesToBeNull(column="value"))
        == is_shown
    )


@pytest.mark.parametrize(("is_sensitive", "hidden"), [(True, {"v", "document"}), (False, set())])
def test_a_document_is_as_sensitive_as_its_fields(is_sensitive: bool, hidden: set[str]) -> None:
    fields = {"id": "id", "v": "v", "document": "$"}
    columns = tuple(
        {"name": name, "type": "string", "field": one, "sensitive": is_sensitive and name == "v"}
        for name, one in fields.items()
    )

    assert captured(columns=columns).sensitive == hidden


def test_a_column_of_the_key_that_no_model_declares_is_hidden() -> None:
    declared = captured()
    table, mask = replace(declared, key=("id", "region")), Mask("salt")

    assert json.loads(shown_key(table, '{"id": "a", "region": "eu"}', mask)) == {"id": "a", "region": mask.text("eu")}
    assert table.sensitive - declared.sensitive == {"region"}


def test_a_sensitive_value_has_one_hash_wherever_it_stands(spark: SparkSession) -> None:
    values = {
        "text": """'say "ü"'""", "number": "9007199254740993", "flag": "true", "nothing": "cast(null as int)",
        "exact": "cast(0 as decimal(38, 18))", "precise": "cast('9007199254740993.1' as decimal(38, 18))",
        "day": "date'2024-05-01'", "moment": "timestamp'2024-05-01 12:00:00.5'", "bytes": "X'ff00'", "real": "1e10D",
    }  # fmt: skip
    columns = tuple({"name": one, "type": "string", "field": one, "sensitive": True} for one in values)
    table, mask = captured(key=tuple(values), columns=columns), Mask("salt")
    row = spark.range(1).select(*[F.expr(value).alias(name) for name, value in values.items()])
    [hashed] = row.select(*[mask.column(F.col(name)).alias(name) for name in values]).collect()
    [key] = row.select(exact_json(F.struct(*values))).collect()
    assert json.loads(shown_key(table, key[0], mask)) == hashed.asDict()
    assert (hashed["text"], hashed["nothing"]) == (mask.text('say "ü"'), None)
    assert [mask.value(table, "flag", one) for one in (True, None)] == [hashed["flag"], None]
