"""What became of an expectation: what checking tells and the report shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """One expectation on one layer of a captured table.

    `unexpected_count` is the number of rows that break it, None where it doesn't count rows; `sample_keys` are keys of
    some of them as JSON text, columns declared sensitive as short hashes.
    """

    table: str
    layer: str
    expectation: str
    description: str
    severity: str
    passed: bool
    unexpected_count: int | None
    sample_keys: tuple[str, ...]

    @property
    def stops(self) -> bool:
        """Whether the run fails by it."""
        return not self.passed and self.severity == "critical"
