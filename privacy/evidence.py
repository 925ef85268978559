"""Weight of evidence (WOE) and information value (IV) of a column's bins, from exact or noisy counts.

In bin b of B, let e_b and o_b be the counts of records with the event (label 1) and of others, E and O their sums over the
column's bins, and m > 0 the smoothing. With the shares p_b = e_b / E + m / (E + O) and q_b = o_b / O + m / (E + O),

    WOE_b = ln(p_b / q_b),    IV = sum_b (p_b - q_b) WOE_b / (1 + B m / (E + O)),

the sign being FATE's: a positive WOE stands for more events. The smoothing adds m records to every bin, with events among
them as in the whole column. So a bin without records has WOE 0, no logarithm is of 0, and every summand of the IV is at
least 0 [Siddiqi2006]. Counts that noise or a correction made negative count as 0. If there are no events left, or no others,
nothing can be told apart, and all WOE are 0.

All of it is post-processing of the counts, at no further cost. Noise biases the IV upwards: a column that says nothing gets
an IV above 0, the more so the more bins it has.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .noise.stream import Floats
from .validation import InvalidArgument, check_epsilon, positive


@dataclass(frozen=True, eq=False)
class BinTable:
    """Counts of one column's bins: records with the event and others, float64 (bins,) each, noisy or not."""

    events: Floats
    others: Floats

    def __post_init__(self) -> None:
        for name in ("events", "others"):
            numbers = np.asarray(getattr(self, name), dtype=np.float64)
            if numbers.ndim != 1 or not numbers.size or not np.isfinite(numbers).all():
                raise InvalidArgument.of(name, numbers, "a finite number for each of at least one bin")
            object.__setattr__(self, name, numbers)
        if self.events.shape != self.others.shape:
            raise InvalidArgument.of("number of others", self.others.size, f"{self.events.size}, one for each bin")

    @property
    def totals(self) -> Floats:
        """Records of each bin."""
        return self.events + self.others

    def with_flips_reverted(self, epsilon: float) -> "BinTable":
        """Unbiased estimates of the true counts, of counts by labels that were flipped at ``epsilon`` (nats), two classes.

        With the flip rate q = 1 / (1 + e^epsilon) a bin of n records has in expectation (1 - 2 q) e + q n flipped events.
        """
        rate = 1 / (1 + math.exp(min(check_epsilon(epsilon), 700.0)))
        events = (self.events - rate * self.totals) / (1 - 2 * rate)
        return BinTable(events, self.totals - events)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the bins of one column tell of the event: ``woe`` float64 (bins,), ``iv`` at least 0."""

    woe: Floats
    iv: float


def weight_of_evidence(table: BinTable, smoothing: float) -> Evidence:
    """WOE of each bin and IV of the column, see above; ``smoothing`` is in records for each bin, greater than 0."""
    added = positive("smoothing", smoothing)
    events, others = np.maximum(table.events, 0.0), np.maximum(table.others, 0.0)
    all_events, all_others = events.sum(), others.sum()
    if not (all_events > 0 and all_others > 0):
        return Evidence(np.zeros(events.shape), 0.0)
    extra = added / (all_events + all_others)
    event_shares, other_shares = events / all_events + extra, others / all_others + extra
    woe: Floats = np.log(event_shares / other_shares)
    iv = float(np.sum((event_shares - other_shares) * woe)) / (1 + events.size * extra)
    return Evidence(woe, max(iv, 0.0))


def ones_and_others(ones: ArrayLike, totals: ArrayLike) -> BinTable:
    """The table of bins of which records with the event are counted, perhaps noisily, and all records."""
    events = np.asarray(ones, dtype=np.float64)
    return BinTable(events, np.asarray(totals, dtype=np.float64) - events)
