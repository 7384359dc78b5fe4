"""What a build that failed says of a statement that Spark can't read: whose it is, and what to do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.errors import Fault, TidemarkError, UsageError
from spark_jobs.failed_builds import failed
from spark_jobs.places import Places

PROJECT = Path(__file__).parents[2]
UNREAD = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column can't be resolved. SQLSTATE: 42703"


def model(name: str, meta: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(name=name, config=SimpleNamespace(meta=meta))


def law(name: str) -> SimpleNamespace:
    node = model(f"{name}_of_orders", {})
    return SimpleNamespace(
        **vars(node), test_metadata=SimpleNamespace(name=name), attached_node="model.tidemark.orders_history"
    )


@pytest.mark.parametrize(
    ("node", "error", "says"),
    [
        (model("mine", {}), UsageError, "mend it"),
        (law("a_law_of_their_own"), UsageError, "mend it"),
        (
            model("orders_history", {"tidemark": {"changes": "orders_changes"}}),
            Fault,
            "`tidemark rebuild orders_history`",
        ),
        (law("versions_do_not_overlap"), Fault, "`tidemark rebuild orders_history`"),
    ],
    ids=["a user's model", "a user's test", "a model of Tidemark's", "a law"],
)
def test_a_statement_that_can_not_be_read_is_told_of_by_who_wrote_it(
    node: SimpleNamespace, error: type[TidemarkError], says: str
) -> None:
    places = Places(PROJECT, str(PROJECT / "lakehouse"), "")

    said = failed(places, [SimpleNamespace(node=node, status="error", message=UNREAD)])

    assert type(said) is error
    assert says in str(said)
