"""The text of a table's suite, as `tidemark scaffold` writes it. Imports no Great Expectations: that takes seconds."""

from __future__ import annotations

from typing import Protocol

from spark_jobs.texts import literal

_HEAD = '''"""What the captured table must hold, layer by layer. `tidemark check` runs it; it is yours to edit.

A suite has the laws of its layer, and what you add to them: expectations of Great Expectations, which see every row
of the layer's table, and are `critical` (exit status 1) or `warning`:

    import great_expectations.expectations as gxe

    return suite(TABLE, {layer}, [gxe.ExpectColumnValuesToNotBeNull(column={column}, severity="warning")])
"""

import great_expectations as gx

from expectations.rules import suite

TABLE = {table}
'''

_SUITE = '''

def {layer}() -> gx.ExpectationSuite:
    """{what}"""
    return suite(TABLE, "{layer}")
'''

_KEYED = {
    "bronze": "What arrived: the laws look at the table's topics, what you add at its own records.",
    "silver_changes": "Every change of the table, once.",
    "silver_current": "Every living row.",
    "gold_history": "Every version of every key.",
}
_UNKEYED = ("bronze", "silver_changes")


class Described(Protocol):
    """A captured table as far as its suite names it: declared already, or only seen in bronze."""

    @property
    def name(self) -> str:
        """Name of the table's models, without their kind."""

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key."""

    @property
    def row(self) -> tuple[str, ...]:
        """The names of all columns."""


def suite_source(table: Described) -> str:
    """The module `expectations/suites/<name>.py` of a captured table; one without a key has no history (R18)."""
    layers = _KEYED if table.key else _UNKEYED
    columns = [name for name in table.row if name not in table.key]
    layer, column = ("gold_history", [*columns, *table.key][0]) if table.key else ("silver_changes", "changed_at")
    head = _HEAD.format(table=literal(table.name), column=literal(column), layer=literal(layer))
    return head + "".join(_SUITE.format(layer=name, what=_KEYED[name]) for name in layers)
