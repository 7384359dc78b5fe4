"""What Great Expectations is asked to do: a context for a run, a checkpoint per suite, Data Docs of the results."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.expectations.expectation import Expectation

from expectations import docs_view
from expectations.results import OF_RECORDS, read
from spark_jobs.bronze import LINEAGE
from spark_jobs.declarations import CapturedTable
from spark_jobs.expectation_result import ExpectationResult
from spark_jobs.masking import Mask

DATA_DOCS = "data_docs"


def new_context(run_folder: Path) -> Any:
    """A context that lives as long as the run, calls nobody, and leaves nothing but its pages."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "great_expectations":
            logging.getLogger(name).setLevel(logging.WARNING)
    pages = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(run_folder / DATA_DOCS)}
    results, index, contents = (
        {"module_name": docs_view.__name__, "class_name": one.__name__}
        for one in (docs_view.ResultsPage, docs_view.IndexPage, docs_view.IndexContents)
    )
    site = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": pages,
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder", "renderer": contents, "view": index},
        "site_section_builders": {"expectations": "None", "validations": {"view": results}},
    }
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        data_docs_sites={DATA_DOCS: site},
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def write_docs(context: Any, run_folder: Path) -> None:
    """Write Data Docs of every result so far into `run_folder`/data_docs."""
    context.build_data_docs()
    # Pictures, fonts and styles of no page of ours.
    shutil.rmtree(run_folder / DATA_DOCS / "static", ignore_errors=True)


def run_checkpoint(
    context: Any,
    table: CapturedTable,
    layer: str,
    expectations: list[Expectation],
    frame: Any,
    samples: int,
    mask: Mask,
) -> list[ExpectationResult]:
    """Run expectations on a frame of pandas (findings) or Spark (a layer's table) in a checkpoint of their own."""
    if not expectations:
        return []
    is_findings = isinstance(frame, pd.DataFrame)
    name = f"{table.name}.{layer}" + ("" if is_findings else ".own")
    sources = context.data_sources
    source = sources.add_pandas(name) if is_findings else sources.add_spark(name)
    batch = source.add_dataframe_asset(layer).add_batch_definition_whole_dataframe(layer)
    suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=expectations))
    definition = context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=suite))
    checkpoint = context.checkpoints.add(
        gx.Checkpoint(
            name=name, validation_definitions=[definition], result_format=_result_format(table, layer, samples)
        )
    )
    ran = checkpoint.run(batch_parameters={"dataframe": frame})
    by_id = {one.id: one for one in suite.expectations}
    results = []
    for identifier, outcome in ran.run_results.items():
        results += [read(table, layer, by_id[one.expectation_config.id], one, samples, mask) for one in outcome.results]
        context.validation_results_store.set(identifier, outcome)
    return results


def _result_format(table: CapturedTable, layer: str, samples: int) -> dict[str, Any]:
    keys = list(LINEAGE if layer in OF_RECORDS else table.key)
    return {
        "result_format": "SUMMARY",
        "partial_unexpected_count": samples,
        "return_unexpected_index_query": False,
        "unexpected_index_column_names": keys,
    }
