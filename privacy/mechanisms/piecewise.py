"""Unbiased noise on a bounded number, one answer per record: the piecewise mechanism on a public grid.

A value within public bounds [low, high] is rounded to one of N grid points, at random so that its mean is kept, and the
index i of that point is answered by a whole number o from 0 to M - 1, M = N - 1 + w. The w answers i .. i + w - 1, the
*window*, have probability e^epsilon t each, the N - 1 others t, with t = 1 / (w e^epsilon + N - 1). Any answer is at most
e^epsilon times as probable from one value as from another: epsilon-locally differentially private (nats, delta 0), unit
one value, replace-one, whatever the value was and however it was rounded.

**Unbiased.** Counted from the middle, u = o - (M - 1) / 2 and c = i - (N - 1) / 2, the mean of u is
g c with g = w (e^epsilon - 1) t, since the window moves with i and all else is symmetric. So u / g steps of the grid, from the
middle of the bounds, is an answer whose mean is the value: what least squares needs, whose weights are linear in the
targets. Where answers are clipped to the bounds, or taken from a prior as in optimal randomised response on bins (Ghazi et al.
2023), means are pulled together and weights with them.

**Noise.** With S_n = n (n^2 - 1) / 12, E[u^2] = t S_M + (e^epsilon - 1) t (S_w + w c^2). N and w are those of the smallest
mean squared error for values spread evenly over the bounds, from public numbers alone. With N = 2 and w = 1 the mechanism is
binary randomised response between two far points (Duchi et al. 2018), which is best for epsilon below about 0.9; with many
points it is the piecewise mechanism (Wang et al. 2019) of the best window. Nothing unbiased is much better: within 8 % of
the smallest possible mean squared error, found by a linear program, for epsilon from 0.5 to 4 (the tests repeat it).

References: N. Wang et al., "Collecting and analyzing multidimensional data with local differential privacy", ICDE 2019,
section III-B; J. C. Duchi, M. I. Jordan, M. J. Wainwright, "Minimax optimal procedures for locally private estimation", JASA
113 (2018); A. Badanidiyuru et al., "Optimal unbiased randomizers for regression with label differential privacy", NeurIPS
2023, for why labels shall be unbiased; B. Ghazi et al., "Regression with label differential privacy", ICLR 2023.
"""
import sys
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Optional, Tuple

import numpy as np

from fate_dp.privacy.events import REPLACE_ONE, PureDP
from fate_dp.privacy.mechanisms.fresh_flips import ROUNDING, coins
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon
from fate_dp.privacy.mechanisms.release import Release, event_of
from fate_dp.privacy.noise.stream import open_stream
from fate_dp.privacy.noise.uniform import bernoulli, uniform_below
from fate_dp.privacy.number_kinds import is_finite, is_whole

POINTS_TRIED = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)
MOST_POINTS = 4096
LARGEST_BOUND = 1e100
LEAST_EPSILON = 1e-3
# Above this, e^epsilon times the points is more than what a coin of 64 bits can tell from certainty.
LARGEST_EPSILON = 30.0
_DIGITS = 50


class InvalidBounds(ValueError):
    """Bounds or bins of a bounded number are not those of a grid."""


class OutOfBounds(ValueError):
    """A value is no number within the bounds."""


@dataclass(frozen=True)
class PiecewiseLaw:
    """The public law of the answers; make one with `piecewise_law`.

    :param epsilon: nats, per value.
    :param low, high: bounds of the values.
    :param points: number N of grid points, ``low`` and ``high`` among them.
    :param window: number w of answers that are e^epsilon times as probable as the others.
    """

    epsilon: float
    low: float
    high: float
    points: int
    window: int

    @property
    def answers(self) -> int:
        """Number M of different answers."""
        return self.points - 1 + self.window

    @property
    def sensitivity(self) -> float:
        """Largest change of a value, under replace-one: it may be any other within the bounds."""
        return self.high - self.low

    def inside(self) -> Decimal:
        """Probability, to 50 digits, that an answer lies in the window."""
        with localcontext() as context:
            context.prec = _DIGITS
            weight = self.window * Decimal(self.epsilon).exp()
            return weight / (weight + self.points - 1)

    def inside_coin(self) -> int:
        """That probability as a number of 64 bits, rounded down: never more than the law has it."""
        with localcontext() as context:
            context.prec = _DIGITS
            return int(self.inside() * 2**64)

    def values(self) -> np.ndarray:
        """The number that each answer stands for, float64 (M,), increasing."""
        with localcontext() as context:
            context.prec = _DIGITS
            low, high = Decimal(self.low), Decimal(self.high)
            step, middle = (high - low) / (self.points - 1), (high + low) / 2
            slope = _slope(Decimal(self.epsilon).exp(), self.points, self.window)
            centre = Decimal(self.answers - 1) / 2
            return np.array([float(middle + step * (answer - centre) / slope) for answer in range(self.answers)])

    def variance(self, values: np.ndarray) -> np.ndarray:
        """Of the answer for each of the values, in their unit squared, the random rounding included."""
        step = (self.high - self.low) / (self.points - 1)
        at = (np.asarray(values, dtype=float) - self.low) / step
        part = at - np.floor(at)
        centred = (at - (self.points - 1) / 2) ** 2
        with localcontext() as context:
            context.prec = _DIGITS
            odds = Decimal(self.epsilon).exp()
            fixed, slope = _second_moment(odds, self.points, self.window), _slope(odds, self.points, self.window)
            shift, factor = float(fixed / slope**2), float(1 / slope)
        return step**2 * (shift + factor * (centred + part * (1 - part)) - centred)

    def rounding(self, values: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """Index of the grid point below each value, and the probability of taking the one above.

        :raises OutOfBounds: a value is no number within the bounds.
        """
        values = np.asarray(values, dtype=np.float64)
        if not ((values >= self.low) & (values <= self.high)).all():
            raise OutOfBounds(f"A value lies outside the declared bounds [{self.low:g}, {self.high:g}].")
        at = (values - self.low) / ((self.high - self.low) / (self.points - 1))
        below = np.clip(np.floor(at), 0, self.points - 2).astype(np.int64)
        return below, np.clip(at - below, 0.0, 1.0)

    def answered(self, index, inside, place):
        """The answer: place ``place`` within the window of grid point ``index``, or among the N - 1 other answers."""
        return np.where(inside, index + place, place + self.window * (place >= index))


def piecewise_law(epsilon: float, bounds: Tuple[float, float], bins: Optional[int] = None) -> PiecewiseLaw:
    """The law for values within ``bounds``, on ``bins`` grid points or on as many as suit epsilon best.

    :param epsilon: nats, from 0.001 to 30.
    :raises InvalidEpsilon, InvalidBounds: one sentence on what is wrong.
    """
    epsilon, (low, high) = check_epsilon(epsilon), check_bounds(bounds)
    if not LEAST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise InvalidBounds(
            f"epsilon is {epsilon!r} but must lie between {LEAST_EPSILON:g} and {LARGEST_EPSILON:g} for bounded numbers."
        )
    return PiecewiseLaw(epsilon, low, high, *_best(epsilon, POINTS_TRIED if bins is None else (check_bins(bins),)))


def check_bounds(bounds) -> Tuple[float, float]:
    """Two finite numbers, the smaller one first."""
    pair = tuple(bounds) if isinstance(bounds, (list, tuple)) else ()
    if len(pair) != 2 or not all(map(is_finite, pair)) or not -LARGEST_BOUND <= pair[0] < pair[1] <= LARGEST_BOUND:
        raise InvalidBounds(f"bounds is {bounds!r}; it must list two finite numbers, the lower bound first, like [-3, 3].")
    low, high = float(pair[0]), float(pair[1])
    # A grid of the most points needs steps that a float64 can tell apart.
    if not high - low > max(abs(low), abs(high)) * MOST_POINTS * sys.float_info.epsilon:
        raise InvalidBounds(f"bounds is {bounds!r}; the bounds are too near to each other.")
    return low, high


def check_bins(bins) -> int:
    if not is_whole(bins) or not 2 <= bins <= MOST_POINTS:
        raise InvalidBounds(f"bins is {bins!r}; it must be a whole number from 2 to {MOST_POINTS}.")
    return int(bins)


def piecewise_mechanism(values, bounds, epsilon, *, observers, unit="record", bins=None, random=None) -> Release:
    """Unbiased noisy numbers, one fresh answer per value.

    :param values: one-dimensional, within ``bounds``; private, but for lying there.
    :param unit: whose data one value is.
    :param random: a stream; None for the operating system's entropy.
    :returns: ``Release`` of a float64 array, charged as ``PureDP``.
    :raises ValueError: one sentence on what is wrong.
    """
    law, stream = piecewise_law(epsilon, bounds, bins), open_stream(random)
    below, above = law.rounding(values)
    index = below + coins(above, stream)
    # Rounded down, so that the window is never more probable than the law has it.
    inside = bernoulli(float(law.inside()) * (1 - ROUNDING), index.shape, stream)
    places = [uniform_below(size, index.shape, stream) for size in (law.window, law.points - 1)]
    answers = law.answered(index, inside, np.where(inside, *places))
    event = event_of(PureDP(law.epsilon), stream, unit=unit, relation=REPLACE_ONE, observers=observers)
    return Release(law.values()[answers], event)


@lru_cache(maxsize=64)
def _best(epsilon: float, candidates: Tuple[int, ...]) -> Tuple[int, int]:
    """Points and window of the smallest mean squared error for evenly spread values; the same on every machine."""
    with localcontext() as context:
        context.prec = _DIGITS
        odds = Decimal(epsilon).exp()
        return min(
            ((points, window) for points in candidates for window in range(1, points + 1)),
            key=lambda pair: _mean_error(odds, *pair),
        )


def _mean_error(odds: Decimal, points: int, window: int) -> Decimal:
    """Mean squared error of evenly spread values, in units of the square of the bounds' distance."""
    steps = points - 1
    spread = Decimal(steps**2) / 12
    # Random rounding adds a sixth of a squared step on average.
    slope = _slope(odds, points, window)
    error = _second_moment(odds, points, window) / slope**2 + (spread + Decimal(1) / 6) / slope - spread
    return error / steps**2


def _slope(odds: Decimal, points: int, window: int) -> Decimal:
    """g: how far the mean answer moves with one step of the grid."""
    return window * (odds - 1) / (window * odds + points - 1)


def _second_moment(odds: Decimal, points: int, window: int) -> Decimal:
    """The part of E[u^2] that does not depend on the value."""
    return (_squares(points - 1 + window) + (odds - 1) * _squares(window)) / (window * odds + points - 1)


def _squares(count: int) -> Decimal:
    """Sum of the squares of ``count`` consecutive numbers around 0."""
    return Decimal(count * (count**2 - 1)) / 12
