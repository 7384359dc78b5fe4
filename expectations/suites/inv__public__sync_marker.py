"""What the captured table must hold, layer by layer. `tidemark check` runs it; it is yours to edit.

A suite has the laws of its layer, and what you add to them: expectations of Great Expectations, which see every row
of the layer's table, and are `critical` (exit status 1) or `warning`:

    import great_expectations.expectations as gxe

    return suite(TABLE, "gold_history", [gxe.ExpectColumnValuesToNotBeNull(column="token", severity="warning")])
"""

import great_expectations as gx

from expectations.rules import suite

TABLE = "inv__public__sync_marker"


def bronze() -> gx.ExpectationSuite:
    """What arrived: the laws look at the table's topics, what you add at its own records."""
    return suite(TABLE, "bronze")


def silver_changes() -> gx.ExpectationSuite:
    """Every change of the table, once."""
    return suite(TABLE, "silver_changes")


def silver_current() -> gx.ExpectationSuite:
    """Every living row."""
    return suite(TABLE, "silver_current")


def gold_history() -> gx.ExpectationSuite:
    """Every version of every key."""
    return suite(TABLE, "gold_history")
