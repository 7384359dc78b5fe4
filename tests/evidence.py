"""What a check found out, made up: what tests of the report and of what is in it start from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from spark_jobs.declarations import CapturedTable, Model
from spark_jobs.expectation_result import ExpectationResult
from spark_jobs.reporting.accounting import Account
from spark_jobs.reporting.cuts import Cut
from spark_jobs.reporting.evidence import Evidence
from spark_jobs.reporting.kafka import TopicGap, TopicLag
from spark_jobs.reporting.measures import Lag, Measures
from spark_jobs.reporting.signs import Sign

AT = datetime(2024, 5, 1, 12, tzinfo=UTC)


def captured(name: str = "src__t", key: tuple[str, ...] = ("id",), **own: Any) -> CapturedTable:
    columns = tuple({"name": one, "type": "string", "field": one, "sensitive": False} for one in (*key, "v"))
    changes = Model(f"{name}_changes", f"silver.{name}_changes", "nowhere")
    usual: dict[str, Any] = {"name": name, "source_name": "src", "source_table": "t", "feed": name, "key": key,
                             "columns": columns, "column_names": {}, "changes": changes, "current": None,
                             "history": None, "accounting": None, "transactions": None}  # fmt: skip
    return CapturedTable(**(usual | own))


def evidence(**own: Any) -> Evidence:
    usual: dict[str, Any] = {
        "tables": [captured()],
        "accounts": [Account("table", "src__t", 10, {"opened": 7, "tombstones": 3}, {"opened": 7})],
        "expectations": [ExpectationResult("src__t", "bronze", "expect_it", "It is so.", "critical", True, 0, ())],
        "measures": {"src__t": Measures(10, 5, 7, lag=Lag(80, 250, 90_000))},
        "signs": {
            "src__t": {"missed_changes": Sign("src__t", "missed_changes", "reads that differ", 2, ('{"id":1}',))}
        },
        "quarantine": [],
        "settings": [],
        "cuts": [
            Cut(
                "src",
                {"571": {"src__t_changes": 3}, "572": {}, "573": None, "574": {"src__t_changes": 2**63 - 9}},
                16,
                4,
                17,
            )
        ],
        "lags": [
            TopicLag("default", "src.public.t", 5, 61.5, "2026-11-21 08:00:00.5", is_gone=False),
            TopicLag("default", "src.public.u", 0, None, "2026-11-21 08:00:00", is_gone=True),
        ],
        "gaps": [TopicGap("default", "src.public.t", 0, 5, 9, 4, "retention", "2026-11-21 08:00:00")],
        "dbt": None,
    }
    return Evidence(**(usual | own))
