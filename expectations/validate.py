"""Run every suite: one pass of Spark over each table for its laws, then checkpoints, then Data Docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import great_expectations as gx
from pyspark.sql import SparkSession

from expectations.checkpoint import new_context, run_checkpoint, write_docs
from expectations.judge import Judged, judge
from expectations.rules import LAYERS
from expectations.rules.findings import SAMPLES
from expectations.rules.law import Law
from expectations.suite_files import file_of, load_suites
from spark_jobs.declarations import CapturedTable
from spark_jobs.expectation_result import ExpectationResult
from spark_jobs.masking import Mask
from spark_jobs.places import Places


def validate(
    spark: SparkSession,
    places: Places,
    tables: Sequence[CapturedTable],
    run_folder: Path,
    topics: Mapping[str, Sequence[str]],
    *,
    sample_rows: bool = True,
) -> list[ExpectationResult]:
    """Run the suites of all tables, and write Data Docs into `run_folder`/data_docs.

    Args:
        spark: The session.
        places: Whose project has the suites.
        tables: The captured tables; layers that were never built are left out.
        run_folder: A local folder.
        topics: Feed → the topics that its records came by.
        sample_rows: Whether results name keys.

    Returns:
        A result per expectation, in the order of tables, layers and suites.

    Raises:
        UsageError: A suite can't be loaded, or is no suite.
    """
    suites = {table.name: load_suites(places, table) for table in tables}
    samples, mask = SAMPLES if sample_rows else 0, Mask.of(spark, places)
    judged = judge(spark, places, [table for table in tables if suites[table.name]], topics, samples, mask)
    context = new_context(run_folder)
    results: list[ExpectationResult] = []
    for table in tables:
        if table.name in judged:
            results += _check(context, judged[table.name], suites[table.name], samples, mask)
        else:
            results.append(_unchecked(places, table))
    if judged:
        write_docs(context, run_folder)
    return results


def _check(
    context: Any, judged: Judged, suites: dict[str, gx.ExpectationSuite], samples: int, mask: Mask
) -> list[ExpectationResult]:
    results: list[ExpectationResult] = []
    for layer, suite in suites.items():
        if layer not in judged.frames:
            continue
        laws = [one for one in suite.expectations if isinstance(one, Law)]
        others = [one for one in suite.expectations if not isinstance(one, Law)]
        results += run_checkpoint(context, judged.table, layer, laws, judged.findings, samples, mask)
        results += run_checkpoint(context, judged.table, layer, others, judged.frames[layer], samples, mask)
    return results + [_unexpected(judged.table, layer) for layer in judged.frames if layer not in suites]


def _unexpected(table: CapturedTable, layer: str) -> ExpectationResult:
    """Said of a layer that the suite leaves out, as that of a table which had no key when it was written (R18)."""
    said = (
        f"expectations/suites/{table.name}.py has no {layer}, so nothing was expected of it. Add"
        f' `def {layer}(): return suite(TABLE, "{layer}")`.'
    )
    return ExpectationResult(table.name, layer, "suite_to_have_layer", said, "warning", False, None, ())


def _unchecked(places: Places, table: CapturedTable) -> ExpectationResult:
    file = file_of(places, table)
    if file.is_file():
        said = (
            f"{file.relative_to(places.project)} has no function of a layer, so nothing was expected. Add one of"
            f' {", ".join(LAYERS)}: `def gold_history(): return suite(TABLE, "gold_history")`.'
        )
        return ExpectationResult(table.name, "all", "suite_to_have_layer", said, "warning", False, None, ())
    said = f"There is no {file.relative_to(places.project)}, so nothing was expected. `tidemark scaffold` writes it."
    return ExpectationResult(table.name, "all", "suite_to_be_there", said, "warning", False, None, ())
