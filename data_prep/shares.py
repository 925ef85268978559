"""How much each party gets: fractions that add to 1, or percentages that add to 100."""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fate_dp.privacy.number_kinds import is_finite

# What the sums of decimal fractions such as 0.1 + 0.2 + 0.7 and 33.3 + 33.3 + 33.4 may be off by.
TOLERANCES = {1: 1e-9, 100: 1e-7}


class BadShares(ValueError):
    """Shares that do not divide a whole."""


@dataclass(frozen=True)
class Shares:
    """One share per party, each greater than 0; fractions add to 1 within 1e-9, percentages to 100 within 1e-7."""

    values: tuple[float, ...]

    def __post_init__(self):
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise BadShares("shares are empty; there must be one for each party.")
        for value in self.values:
            if not is_finite(value) or not value > 0:
                raise BadShares(f"a share is {value!r}; each must be a number greater than 0.")
        self._whole()

    @classmethod
    def parse(cls, text: str) -> Shares:
        """Shares from a text such as `25,25,50`."""
        try:
            return cls(tuple(float(part) for part in text.split(",")))
        except BadShares:
            raise
        except ValueError:
            raise BadShares(f"shares are {text!r}; they must be numbers with commas between, like 25,25,50.") from None

    @property
    def fractions(self) -> np.ndarray:
        """The shares as fractions of 1, shape (parties,)."""
        return np.array(self.values, dtype=float) / self._whole()

    def sizes(self, rows: int) -> np.ndarray:
        """Whole rows per party, shape (parties,): they add to `rows`, each is less than one row off its share.

        The largest remainders are rounded up, the earlier party first where remainders are equal.
        """
        exact = self.fractions * rows
        sizes = np.floor(exact).astype(int)
        order = np.argsort(sizes - exact, kind="stable")
        sizes[order[: rows - sizes.sum()]] += 1
        return sizes

    def _whole(self) -> int:
        total = math.fsum(self.values)
        for whole, tolerance in TOLERANCES.items():
            if abs(total - whole) <= tolerance:
                return whole
        raise BadShares(f"shares are {self}, which add to {total:.10g}; they must add to 1 or to 100.")

    def __str__(self) -> str:
        return "/".join(f"{value:.10g}" for value in self.values)
