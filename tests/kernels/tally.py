"""What was compared, and what differed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """Counts of compared numbers by kind, and one line for each comparison that failed."""

    counts: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)

    def same(self, kind: str, what: object, found: Sequence[Any], expected: Sequence[Any]) -> None:
        """``what`` says in a disagreement's line how to make it again."""
        self.counts[kind] += len(expected)
        if list(found) != list(expected):
            wrong = [at for at, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]]
            self.disagreements.append(
                f"{kind}, {what}: {len(wrong) or 'number'} of {len(expected)} differ, first {wrong[:1]}"
            )

    def holds(self, kind: str, what: object, is_so: bool) -> None:
        self.same(kind, what, [is_so], [True])
