"""Every rule and guarantee of the contract is named `Owns …` in one place, so that a reader finds it by its number."""

from __future__ import annotations

from collections import Counter

from docs.generate import RULES, owners

# Not built yet, or built and not marked. An entry that has an owner has to go.
WITHOUT_OWNER = {
    "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15", "R16", "R18", "R19",
    "G1", "G2", "G3", "G4", "G5", "G7", "G8",
}  # fmt: skip


def test_every_rule_has_one_owner() -> None:
    found = Counter(rule for rule, _ in owners())

    assert {rule for rule, places in found.items() if places > 1} == set()
    assert set(RULES) - set(found) == WITHOUT_OWNER
    assert set(found) <= set(RULES), "no such rule"
