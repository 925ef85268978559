"""A statistic that is asked of all parties: a column, and the public grid on which each record answers. No FATE here.

Every record sends one answer per request: an index of the grid, by randomised response. Values outside the declared
range count as its nearer end, a missing value as its middle, and a value that is not listed as ``other``; nothing in
a party's table decides the grid.
"""
from dataclasses import dataclass
from typing import Optional, Tuple

import numpy as np

MEAN, HISTOGRAM, FREQUENCY = "mean", "histogram", "frequency"
KINDS = (MEAN, HISTOGRAM, FREQUENCY)
OTHER = "other"


@dataclass(frozen=True)
class Request:
    """One statistic of one column.

    Attributes:
        kind: ``mean``; ``histogram``, shares of equally wide bins; or ``frequency``, shares of listed values.
        low, high: public range of a mean or a histogram, in the unit of the column.
        bins: of a histogram.
        points: of a mean, the evenly spaced numbers from low to high to one of which a record's value is rounded at
            random; two serve a small epsilon best, and their messages hide most.
        values: of a frequency; all others are counted together.
    """

    column: str
    kind: str
    low: Optional[float] = None
    high: Optional[float] = None
    bins: Optional[int] = None
    points: Optional[int] = None
    values: Tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.kind} of {self.column}"

    @property
    def grid(self) -> np.ndarray:
        """The k numbers (k,) that answers stand for: for shares, the numbers 0 .. k - 1 of the categories."""
        if self.kind == MEAN:
            return np.linspace(self.low, self.high, self.points)
        return np.arange(self.bins if self.kind == HISTOGRAM else len(self.values) + 1, dtype=np.float64)

    @property
    def randomizer(self) -> str:
        """What ``privacy.events.Shuffled`` knows the answers by: with more than two points, any local randomiser."""
        return "randomized_response" if len(self.grid) == 2 else "any"

    @property
    def edges(self) -> np.ndarray:
        """The bins + 1 edges of a histogram; a value on an edge counts above it, on the last one below."""
        return np.linspace(self.low, self.high, self.bins + 1)

    def on_grid(self, values) -> np.ndarray:
        """Where each of the column's values (n,) lies: numbers in the range of the grid, for shares on it."""
        values = np.asarray(values, dtype=np.float64)
        if self.kind == FREQUENCY:
            return self._categories(values)
        values = np.where(np.isnan(values), self.low / 2 + self.high / 2, values).clip(self.low, self.high)
        if self.kind == MEAN:
            return values
        return np.clip(np.searchsorted(self.edges, values, side="right") - 1, 0, self.bins - 1).astype(np.float64)

    def _categories(self, values):
        listed = np.asarray(self.values)
        order = np.argsort(listed)
        places = order[np.searchsorted(listed, values, sorter=order).clip(max=len(listed) - 1)]
        # A missing value equals nothing.
        return np.where(listed[places] == values, places, len(listed)).astype(np.float64)
