"""How a result of Great Expectations is read as ours: failing keys named, hidden values hidden, all texts escaped."""

from __future__ import annotations

import html
import json
import re
from typing import Any

from great_expectations.core import ExpectationValidationResult
from great_expectations.expectations import UnexpectedRowsExpectation
from great_expectations.expectations.expectation import Expectation

from expectations.rules.law import Law
from spark_jobs.declarations import CapturedTable
from spark_jobs.expectation_result import ExpectationResult
from spark_jobs.masking import Mask

# The layers whose rows are named by places, and have whole rows of the source in columns of Tidemark's own.
OF_RECORDS = ("bronze", "silver_changes")
# What a result may hold of a column whose values people may not see.
_COUNTS = ("element_count", "missing_count", "unexpected_count", "missing_percent", "unexpected_percent")
_COLUMNS = ("column", "column_A", "column_B", "column_list", "column_set")
_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")


def read(
    table: CapturedTable,
    layer: str,
    expectation: Expectation,
    result: ExpectationValidationResult,
    samples: int,
    mask: Mask,
) -> ExpectationResult:
    """A result as people see it, with `result` itself made fit for Data Docs: nothing hidden in it, all escaped.

    Args:
        table: The captured table.
        layer: The layer that was judged.
        expectation: What was expected.
        result: What was found.
        samples: How many rows may be named; where none may, values aren't shown either.
        mask: What hides sensitive values of keys.
    """
    values: dict[str, Any] = dict(result.result or {})
    error = _error(result.exception_info or {})
    if isinstance(expectation, Law):
        broken, keys = values.get("observed_value"), tuple(values.get("partial_unexpected_list") or ())
        description = expectation.description or ""
    else:
        counted = "observed_value" if isinstance(expectation, UnexpectedRowsExpectation) else "unexpected_count"
        broken, keys = values.get(counted), _keys(table, values, mask) if samples else ()
        description = expectation.description or _said(expectation)
        if not (samples and _is_shown(table, layer, expectation)):
            values = {name: values[name] for name in _COUNTS if name in values}
        values.pop("unexpected_index_query", None)
        values["partial_unexpected_index_list"] = []
    if error:
        description = f"{description} It could not be judged: {error}."
    # Data Docs escape what a law's own text takes in, and write other values into their tables as they are.
    result.result = values if isinstance(expectation, Law) else _escaped(values)
    result.exception_info = {"raised_exception": False, "exception_message": None, "exception_traceback": None}
    return ExpectationResult(
        table=table.name,
        layer=layer,
        expectation=expectation.expectation_type,
        description=description,
        severity=str(expectation.severity.value),
        passed=bool(result.success) and error is None,
        unexpected_count=broken,
        sample_keys=keys,
    )


def _keys(table: CapturedTable, values: dict[str, Any], mask: Mask) -> tuple[str, ...]:
    wanted = values.get("unexpected_index_column_names") or []
    rows = values.get("partial_unexpected_index_list") or []
    keys = [{name: mask.value(table, name, row.get(name)) for name in wanted} for row in rows]
    return tuple(dict.fromkeys(json.dumps(key, ensure_ascii=False, default=str) for key in keys))


def _is_shown(table: CapturedTable, layer: str, expectation: Expectation) -> bool:
    """Whether the values that an expectation is about may be seen: all of its columns are declared, none sensitive."""
    # There `value` or `after` is another column than one that is declared so, and has what nobody declares.
    if layer in OF_RECORDS:
        return False
    declared = {spec["name"] for spec in table.columns} - table.sensitive
    about: set[str] = set()
    for field in _COLUMNS:
        given = getattr(expectation, field, None) or []
        about |= {given} if isinstance(given, str) else set(given)
    return bool(about) and about <= declared


def _said(expectation: Expectation) -> str:
    given = expectation.configuration.kwargs
    return f"{expectation.expectation_type}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def _error(info: dict[str, Any]) -> str | None:
    """Why an expectation could not be judged; the error's class alone, since messages quote values."""
    found = [info] if "raised_exception" in info else [part for part in info.values() if isinstance(part, dict)]
    raised = next((part for part in found if part.get("raised_exception")), None)
    if raised is None:
        return None
    message = str(raised.get("exception_message") or "")
    named = _ERROR_CLASS.search(message)
    return named[1] if named else "Great Expectations raised an error (has the table such a column?)"


def _escaped(value: Any) -> Any:
    """Values made safe to be written into a page as they are."""
    if isinstance(value, dict):
        return {_escaped(name): _escaped(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(part) for part in value]
    if isinstance(value, str):
        return html.escape(value)
    return value if isinstance(value, int | float | bool) or value is None else html.escape(str(value))
