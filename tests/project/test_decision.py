"""What a materialization is told by the first line of a compiled model, and what is said where a model has none."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.macro_queries import returned


class Refused(Exception):
    """What dbt raises where a macro refuses a model."""


def refuse(words: str) -> None:
    raise Refused(words)


def decided(sql: str) -> Any:
    model = SimpleNamespace(name="shop__orders_history", config=SimpleNamespace(materialized="history"))
    return returned(
        "macros/project/scope.sql", "decided", sql, model=model, modules=SimpleNamespace(re=re), fromjson=json.loads,
        exceptions=SimpleNamespace(raise_compiler_error=refuse),
    )  # fmt: skip


def test_the_first_line_tells_the_decision() -> None:
    assert decided('-- tidemark: {"case": "full"}\nselect 1') == {"case": "full"}


def test_a_model_without_a_decision_is_named() -> None:
    with pytest.raises(Refused, match="shop__orders_history: its SQL has no line '-- tidemark: …'"):
        decided("select 1")
