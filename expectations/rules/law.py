"""What a law is to Great Expectations.

Every expectation of Great Expectations 1.x is a Spark job of its own. So Spark judges every row of a layer in one pass
and hands over a finding per law: how many rows break it and whose they are. A law asserts on its own finding.
"""

from __future__ import annotations

from typing import Any, ClassVar

from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.render import LegacyDiagnosticRendererType, LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer

WARNING = FailureSeverity.WARNING
_METRIC = "tidemark.findings"


class FindingsOfLaws(TableMetricProvider):
    """The batch of findings as law → (rows that break it, keys of some of them)."""

    metric_name = _METRIC

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(  # Great Expectations calls it on the class
        cls,  # noqa: N805
        execution_engine: Any,
        metric_domain_kwargs: dict[str, Any],
        **_: Any,
    ) -> dict[str, tuple[int, list[str]]]:
        frame, _, _ = execution_engine.get_compute_domain(domain_kwargs=metric_domain_kwargs, domain_type="table")
        return {row["law"]: (int(row["broken"]), list(row["keys"])) for row in frame.to_dict("records")}


class Law(BatchExpectation):
    """A law over the rows of one layer of a captured table; `severity` says whether breaking it stops the run.

    `usual_severity` is what a suite gives it: a default of the field itself gets lost when a suite is stored.
    `broken` is the condition, in SQL over the layer's judged rows, under which a row breaks the law; None where the
    layer's module finds the broken rows by a query of its own.
    """

    usual_severity: ClassVar[FailureSeverity] = FailureSeverity.CRITICAL
    broken: ClassVar[str | None] = None
    metric_dependencies: ClassVar[tuple[str, ...]] = (_METRIC,)

    def _validate(self, metrics: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        broken, keys = metrics[_METRIC].get(self.expectation_type, (0, []))
        return {"success": broken == 0, "result": {"observed_value": broken, "partial_unexpected_list": keys}}

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(cls, **_: Any) -> list[RenderedStringTemplateContent]:
        return [_text(cls.__fields__["description"].default)]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.OBSERVED_VALUE)
    def _diagnostic_observed_value_renderer(cls, result: Any = None, **_: Any) -> str:
        return f"{result.result['observed_value']:,} break it"

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_TABLE)
    def _diagnostic_unexpected_table_renderer(
        cls, result: Any = None, **_: Any
    ) -> list[RenderedStringTemplateContent] | None:
        keys = result.result["partial_unexpected_list"]
        return [_text("$key", key=key) for key in keys] or None


def _text(template: str, **params: str) -> RenderedStringTemplateContent:
    return RenderedStringTemplateContent(
        content_block_type="string_template", string_template={"template": template, "params": params, "tag": "p"}
    )
