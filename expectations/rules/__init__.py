"""The laws of the contract, layer by layer, and the one call by which a suite takes them."""

from __future__ import annotations

from collections.abc import Sequence

import great_expectations as gx
from great_expectations.expectations.expectation import Expectation

from expectations.rules import bronze, changes, current, history
from expectations.rules.law import Law

BRONZE = "bronze"
LAYERS = {BRONZE: bronze, "silver_changes": changes, "silver_current": current, "gold_history": history}


def suite(table: str, layer: str, more: Sequence[Expectation] = ()) -> gx.ExpectationSuite:
    """The suite of one layer of a captured table: the laws of the layer, and what the table's owner adds.

    Args:
        table: The table's name, `<source>__<table>`.
        layer: A name of `LAYERS`.
        more: Expectations of Great Expectations, which see every row of the layer's table. A law given here stands in
            the place of the layer's own one, so that its severity can be another.
    """
    own = {type(expectation) for expectation in more}
    laws: list[type[Law]] = [law for law in LAYERS[layer].LAWS if law not in own]
    usual = [law(severity=law.usual_severity) for law in laws]
    return gx.ExpectationSuite(name=f"{table}.{layer}", expectations=[*usual, *more])
