"""Every rule and guarantee of the contract is named `Owns …` in one place, so that a reader finds it by its number."""

from __future__ import annotations

from collections import Counter

from docs.generate import OBSERVED, RULES, observations, owners


def test_every_rule_has_one_owner() -> None:
    found = Counter(rule for rule, _ in owners())

    assert {rule for rule, places in found.items() if places > 1} == set()
    assert set(found) == set(RULES)


def test_every_observation_has_a_test() -> None:
    found = list(observations())

    assert {point for point, _, _ in found} == set(OBSERVED)
    assert [(path, point) for point, path, subject in found if not subject] == []
