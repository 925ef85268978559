"""Quantiles of one private column on a public grid, by the exponential mechanism on halves of halves.

The middle quantile is chosen first, then one on either side of it, and so on: k quantiles take L = bit_length(k) levels
[Kaplan2022]. Every choice is an exponential mechanism over the grid's points [Smith2011] whose score is how far the
number of values up to a point is from the wanted one, so that a level costs what one choice does, not what all do.

*Guarantee.* Unit record, replace-one; a missing value is in no count, and how many there are is private. In a node with n
values, C(t) of them up to point t, the score of the a-th of b - 1 quantiles is -|b C(t) - a n|, a whole number. One value
more or less moves b C(t) - a n by a or b - a, whichever point it is, so at most by D = max(a, b - a). The node's choice, an
exponential mechanism with epsilon e and sensitivity D, is then e-bounded-range under add-or-remove [Durfee2019].

A replaced record is in one node of a level or in two. In two nodes, one loses a value and one gains a value: the ranges of
the independent choices add up to 2 e. In one node n stays and C(t) moves by one in one direction, so the score by b <= 2 D,
and the range of the choice by 2 e again. So every level is 2 e-bounded-range, given the levels before it, which decide its
nodes, and is charged as one ``ExponentialMechanism(2 e)``. All of them together are (2 e L)-differentially private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bins import MAX_BINS, check_range
from ..events import REPLACE_ONE, Event, ExponentialMechanism, View, event_of
from ..noise.stream import Floats, Integers, Rng, Stream, open_stream
from ..validation import InvalidArgument, check_epsilon, whole
from .exponential import SLACK_PER_SCORE, exponential_mechanism

if TYPE_CHECKING:
    from typing_extensions import Unpack

GRID_CELLS = 1 << 12
LEAST_POWER, LARGEST_POWER = -3, 9
"""Of ten: numbers of these magnitudes a grid without a range tells apart."""


def grid_points(name: str, low: object, high: object) -> Floats:
    """The ``GRID_CELLS`` - 1 points that divide the public range of column ``name`` evenly; see ``equal_width_bins``."""
    first, last = check_range(name, low, high)
    shares = np.arange(1, GRID_CELLS) / GRID_CELLS
    points: Floats = first * (1 - shares) + last * shares
    return points


def magnitude_points() -> Floats:
    """``GRID_CELLS`` - 1 points for a column of which no range is known: 0, and of either sign numbers of three digits that
    grow by 1.4 in a hundred from 1e-3 to 1e9. They read no value, so that they are public."""
    powers = np.linspace(LEAST_POWER, LARGEST_POWER, GRID_CELLS // 2 - 1)
    above = np.array([float(f"{value:.2e}") for value in 10.0**powers])
    return np.concatenate([-above[::-1], [0.0], above])


def cell_counts(values: ArrayLike, points: Floats) -> Integers:
    """int64 (points + 1,): how many values lie up to each point and above the one before; private.

    Values beyond the range are in the outer cells, and missing ones (NaN) in none. Counts of blocks of rows add up.
    """
    numbers = np.asarray(values, dtype=np.float64)
    cells = np.searchsorted(points, numbers[~np.isnan(numbers)], side="left")
    return np.bincount(cells, minlength=len(points) + 1).astype(np.int64)


def quantile_levels(quantiles: int) -> int:
    """How many levels so many quantiles take: what is charged ``quantile_levels`` times is ``quantile_event``."""
    return whole("quantiles", quantiles, 1, MAX_BINS - 2).bit_length()


def quantile_event(epsilon: float, quantiles: int, *, rng: Rng = None, **view: Unpack[View]) -> Event:
    """The event of one level of ``private_quantiles``, which is charged `quantile_levels` times."""
    process = ExponentialMechanism(check_epsilon(epsilon) / quantile_levels(quantiles))
    # No level has more scores than the grid has cells.
    slack = GRID_CELLS * SLACK_PER_SCORE
    return event_of(process, open_stream(rng), relation=REPLACE_ONE, slack=slack, **view)


def private_quantiles(counts: ArrayLike, quantiles: int, epsilon: float, rng: Rng = None) -> NDArray[np.int64]:
    """Which points divide the values into ``quantiles`` + 1 parts of nearly one size; see above.

    Charge ``quantile_event`` before the result is shown to anybody, or used. ``counts`` are of ``cell_counts``,
    private; ``epsilon`` in nats is for all quantiles together, unit record, replace-one. Returns int64 (quantiles,),
    ascending, equal ones possible: point t lies between the cells t and t + 1.
    """
    given = np.asarray(counts)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not 2 <= given.size <= GRID_CELLS or (given < 0).any():
        raise InvalidArgument.of("counts", given, f"2 to {GRID_CELLS} whole numbers of at least 0")
    share = check_epsilon(epsilon) / (2 * quantile_levels(quantiles))
    chosen = np.empty(quantiles, dtype=np.int64)
    _choose(chosen, 0, given.astype(np.int64), share, open_stream(rng))
    return chosen


def _choose(chosen: NDArray[np.int64], first: int, counts: Integers, epsilon: float, stream: Stream) -> None:
    """Fill ``chosen`` with points of the node that begins at cell ``first`` and has so many values in its cells."""
    if not len(chosen):
        return
    # The last cell ends at no point inside the node. A node of one cell has nothing to choose from.
    candidates = len(counts) - 1
    if candidates < 1:
        chosen[:] = first - 1 if first else 0
        return
    middle = len(chosen) // 2
    scores = middle_scores(counts, middle + 1, len(chosen) + 1)
    best = exponential_mechanism(scores, epsilon, max(middle + 1, len(chosen) - middle), stream)
    chosen[middle] = first + best
    _choose(chosen[:middle], first, counts[: best + 1], epsilon, stream)
    _choose(chosen[middle + 1 :], first + best + 1, counts[best + 1 :], epsilon, stream)


def middle_scores(counts: Integers, part: int, parts: int) -> Integers:
    """-|parts C(t) - part n| of every point t between two cells: 0 where C(t) is ``part`` of ``parts`` of all n values."""
    cumulated = np.cumsum(counts)
    scores: Integers = -np.abs(parts * cumulated[:-1] - part * cumulated[-1])
    return scores
