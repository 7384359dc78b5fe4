"""Every rule and guarantee of the contract is named `Owns …` in one place, so that a reader finds it by its number."""

from __future__ import annotations

from collections import Counter

from docs.generate import RULES, owners

# Not built yet, or built and not marked. An entry that has an owner has to go.
WITHOUT_OWNER = {"G4"}


def test_every_rule_has_one_owner() -> None:
    found = Counter(rule for rule, _ in owners())

    assert {rule for rule, places in found.items() if places > 1} == set()
    assert set(RULES) - set(found) == WITHOUT_OWNER
    assert set(found) <= set(RULES), "no such rule"
