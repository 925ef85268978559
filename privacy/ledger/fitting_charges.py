"""Charges that were found to fit under a cap, so that a task with many rounds composes them once.

Composition is monotone: whoever sees some of several releases learns no more than who sees all of them. So a bound of
charges holds for every part of them, whatever the order in which they are recorded.
"""
from collections import defaultdict


class FittingCharges:
    """What was composed in this process and fits; arithmetic, which no write to any ledger can make untrue."""

    def __init__(self):
        self._found = defaultdict(tuple)

    def cover(self, seen, cap):
        """Whether every alternative in ``seen`` is part of charges that fit under ``cap``.

        :param seen: tuples of (event, count), as of ``totals.seen_by``.
        """
        found = self._found[cap]
        return all(any(_is_part(dict(charged), other) for other in found) for charged in seen)

    def add(self, seen, cap):
        """Remember alternatives that fit under ``cap``, and forget what is part of them."""
        for charged in map(dict, seen):
            kept = tuple(other for other in self._found[cap] if not _is_part(other, charged))
            self._found[cap] = (*kept, charged)


def _is_part(charged, of):
    return all(of.get(event, 0) >= count for event, count in charged.items())
