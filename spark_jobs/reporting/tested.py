"""The results of tests, as `ops.test_results` keeps them: of each check its expectations, and each run of dbt once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.delta import append_rows, table_if_made
from spark_jobs.expectation_result import ExpectationResult
from spark_jobs.places import Places
from spark_jobs.reporting.dbt_results import dbt_tests

# `run_id` is the run of an expectation, and dbt's own (`invocation_id`) of its tests; `status` is one of dbt's words.
# `table` is the captured table of an expectation, `layer` which of its tables was judged, `description` what was
# expected; of a test of dbt's `table` is the model that it is of, if it is of one, and the name says the rest.
_STORED = pa.schema([
    ("tested_at", pa.timestamp("us", "UTC")),
    *((name, pa.string()) for name in (
        "run_id", "kind", "table", "layer", "name", "description", "severity", "status",
    )),
    ("failures", pa.int64()),
])  # fmt: skip


def record(
    spark: SparkSession, places: Places, expected: Sequence[ExpectationResult], run_id: str, at: datetime
) -> None:
    """Append the results of a check's expectations and, unless they are there, those of the tests that dbt last ran.

    Args:
        spark: The session.
        places: The project, its target and its lakehouse.
        expected: What became of the expectations.
        run_id: The run that the check ends.
        at: The time of the check, with its zone.
    """
    location = places.table("ops", "test_results")
    rows = [
        {
            "tested_at": at,
            "run_id": run_id,
            "kind": "expectation",
            "table": one.table,
            "layer": one.layer,
            "name": one.expectation,
            "description": one.description,
            "severity": one.severity,
            "status": "pass" if one.passed else "fail" if one.stops else "warn",
            "failures": one.unexpected_count,
        }
        for one in expected
    ]
    stored, ran = table_if_made(spark, location), dbt_tests(places)
    if ran and (stored is None or stored.where(F.col("run_id") == ran.invocation_id).isEmpty()):
        rows += [
            {
                "tested_at": ran.at,
                "run_id": ran.invocation_id,
                "kind": "dbt",
                "table": one.model,
                "name": one.name,
                "severity": one.severity,
                "status": one.status,
                "failures": one.failures,
            }
            for one in ran.tests
        ]
    if rows:
        append_rows(spark, location, rows, _STORED)
