"""Unbiased noise on bounded numbers and on vectors of a ball, one answer per record.

**Piecewise mechanism.** A value within public bounds [low, high] is rounded to one of N grid points, at random so that
its mean is kept, and the index i of that point is answered by a whole number o from 0 to M - 1, M = N - 1 + w. The w
answers i .. i + w - 1, the *window*, have probability e^epsilon t each, the N - 1 others t, with t = 1 / (w e^epsilon +
N - 1). So any answer is at most e^epsilon times as probable from one value as from another: epsilon-LDP (nats, delta
0), unit one value, replace-one, however the value was rounded. Answers are unbiased, and N and w are those of the
smallest mean squared error for evenly spread values (docs/proofs-privacy.md).

References: N. Wang et al., ICDE 2019, section III-B; J. C. Duchi, M. I. Jordan and M. J. Wainwright, JASA 113 (2018);
A. Badanidiyuru et al., NeurIPS 2023, for why labels shall be unbiased; B. Ghazi et al., ICLR 2023.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..events import REPLACE_ONE, PureDP, Release, View, event_of
from ..noise.discrete import discrete_gaussian
from ..noise.stream import Floats, Integers, Rng, Stream, bernoulli, open_stream, uniform_below
from ..validation import InvalidArgument, check_epsilon, check_sensitivity, is_finite, whole
from .randomized_response import ROUNDING, coins, flip_indices

if TYPE_CHECKING:
    from typing_extensions import Unpack

POINTS_TRIED = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)
MAX_POINTS = 4096
MAX_BOUND = 1e100
MIN_EPSILON = 1e-3
# Above this, e^epsilon times the points is more than what a coin of 64 bits can tell from certainty.
MAX_EPSILON = 30.0
DIGITS = Context(prec=50)


@dataclass(frozen=True)
class PiecewiseLaw:
    """The public law of the answers for values from ``low`` to ``high``; make one with `piecewise_law`. ``points`` is
    the number N of grid points, both bounds among them; ``window`` answers, w, are e^epsilon times as probable as
    the others."""

    epsilon: float
    low: float
    high: float
    points: int
    window: int

    @property
    def answers(self) -> int:
        """Number M of different answers."""
        return self.points - 1 + self.window

    def inside(self) -> Decimal:
        """Probability, to 50 digits, that an answer lies in the window."""
        with localcontext(DIGITS):
            weight = self.window * Decimal(self.epsilon).exp()
            return weight / (weight + self.points - 1)

    def inside_coin(self) -> int:
        """That probability as a number of 64 bits, rounded down: never more than the law has it."""
        with localcontext(DIGITS):
            return int(self.inside() * 2**64)

    def values(self) -> Floats:
        """The number that each answer stands for, float64 (M,), increasing."""
        with localcontext(DIGITS):
            low, high = Decimal(self.low), Decimal(self.high)
            step, middle = (high - low) / (self.points - 1), (high + low) / 2
            slope = _slope(Decimal(self.epsilon).exp(), self.points, self.window)
            centre = Decimal(self.answers - 1) / 2
            return np.array([float(middle + step * (answer - centre) / slope) for answer in range(self.answers)])

    def variance(self, values: ArrayLike) -> Floats:
        """Of the answer for each of the values, in their unit squared, the random rounding included."""
        step = (self.high - self.low) / (self.points - 1)
        at: Floats = (np.asarray(values, dtype=float) - self.low) / step
        part = at - np.floor(at)
        centred = (at - (self.points - 1) / 2) ** 2
        with localcontext(DIGITS):
            odds = Decimal(self.epsilon).exp()
            fixed, slope = _second_moment(odds, self.points, self.window), _slope(odds, self.points, self.window)
            shift, factor = float(fixed / slope**2), float(1 / slope)
        variances: Floats = step**2 * (shift + factor * (centred + part * (1 - part)) - centred)
        return variances

    def rounding(self, values: ArrayLike) -> tuple[Integers, Floats]:
        """Index of the grid point below each value, and the probability of taking the one above."""
        numbers = np.asarray(values, dtype=np.float64)
        if not ((numbers >= self.low) & (numbers <= self.high)).all():
            raise InvalidArgument(f"A value lies outside the declared bounds [{self.low:g}, {self.high:g}].")
        at = (numbers - self.low) / ((self.high - self.low) / (self.points - 1))
        below = np.clip(np.floor(at), 0, self.points - 2).astype(np.int64)
        return below, np.clip(at - below, 0.0, 1.0)

    def answered(self, index: Integers | int, inside: NDArray[np.bool_] | bool, place: Integers | int) -> Integers:
        """The answer: place ``place`` within the window of grid point ``index``, or among the N - 1 other answers."""
        return np.where(inside, index + place, place + self.window * (place >= index))


def piecewise_law(epsilon: float, bounds: tuple[float, float], bins: int | None = None) -> PiecewiseLaw:
    """The law for values within ``bounds``, on ``bins`` grid points or as many as suit epsilon (0.001 to 30)."""
    epsilon, (low, high) = check_epsilon(epsilon), check_bounds(bounds)
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        allowed = f"from {MIN_EPSILON:g} to {MAX_EPSILON:g} for bounded numbers"
        raise InvalidArgument.of("epsilon", epsilon, allowed)
    return PiecewiseLaw(epsilon, low, high, *_best(epsilon, POINTS_TRIED if bins is None else (check_bins(bins),)))


def check_bounds(bounds: object) -> tuple[float, float]:
    """Two finite numbers, the smaller one first."""
    pair = tuple(bounds) if isinstance(bounds, (list, tuple)) else ()
    if len(pair) != 2 or not all(map(is_finite, pair)) or not -MAX_BOUND <= pair[0] < pair[1] <= MAX_BOUND:
        allowed = "two finite numbers, the lower bound first, such as [-3, 3]"
        raise InvalidArgument.of("bounds", bounds, allowed)
    low, high = float(pair[0]), float(pair[1])
    # A grid of the most points needs steps that a float64 can tell apart.
    if not high - low > max(abs(low), abs(high)) * MAX_POINTS * sys.float_info.epsilon:
        raise InvalidArgument.of("bounds", bounds, "farther apart")
    return low, high


def check_bins(bins: object) -> int:
    """Return the number of grid points as an int if it is a whole number from 2 to 4096."""
    return whole("bins", bins, 2, MAX_POINTS)


def piecewise_mechanism(
    values: ArrayLike,
    bounds: tuple[float, float],
    epsilon: float,
    *,
    bins: int | None = None,
    rng: Rng = None,
    **view: Unpack[View],
) -> Release:
    """Unbiased noisy numbers, one fresh answer per value: a ``Release`` of a float64 array, charged as ``PureDP``.

    ``values`` are one-dimensional, within ``bounds``; private, but for lying there.
    """
    law, stream = piecewise_law(epsilon, bounds, bins), open_stream(rng)
    below, above = law.rounding(values)
    index: Integers = below + coins(above, stream)
    # Rounded down, so that the window is never more probable than the law has it.
    inside = bernoulli(float(law.inside()) * (1 - ROUNDING), index.shape, stream)
    places = [uniform_below(size, index.shape, stream) for size in (law.window, law.points - 1)]
    answers = law.answered(index, inside, np.where(inside, places[0], places[1]))
    event = event_of(PureDP(law.epsilon), stream, relation=REPLACE_ONE, **view)
    return Release(law.values()[answers], event)


@lru_cache(maxsize=64)
def _best(epsilon: float, candidates: tuple[int, ...]) -> tuple[int, int]:
    """Points and window of the smallest mean squared error for evenly spread values; the same on every machine."""
    with localcontext(DIGITS):
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


DIRECTION_SIGMA = 2.0**20


def duchi_l2(
    vectors: ArrayLike,
    radius: float,
    epsilon: float,
    *,
    observers: Sequence[str],
    unit: str = "client",
    rng: Rng = None,
) -> Release:
    """Answers, one per vector, each epsilon-LDP by itself (nats, delta 0, replace-one), whose mean is the vector.

    A random line is drawn without looking at the vector, which enters only through one bit, the end of the line on its
    side; this bit goes through binary randomised response. So roundings may cost accuracy, never privacy, and a NaN or
    an infinity makes a vector count as zero. The error of one answer is about its norm, which grows with sqrt(d). J.
    Duchi, M. Jordan and M. Wainwright, JASA 113 (2018), section 4.2.3; proofs in docs/proofs-privacy.md. Private
    ``vectors`` (d,) or (n, d) are scaled down to the public ``radius`` r, from 1e-150 to 1e150, where they are longer;
    every row of the ``Release``, float64 in their shape, has norm ``duchi_norm``.
    """
    given = np.asarray(vectors)
    if given.ndim not in (1, 2) or not given.shape[-1] or given.dtype.kind not in "fiu":
        raise InvalidArgument.of("vectors", given, "one real vector or one per row")
    with np.errstate(over="ignore"):
        rows = np.atleast_2d(given.astype(np.float64))
    radius, epsilon, stream = check_sensitivity(radius), check_epsilon(epsilon), open_stream(rng)
    event = event_of(PureDP(epsilon), stream, unit=unit, relation=REPLACE_ONE, observers=observers)
    lines = _random_directions(rows.shape, stream)
    sides = np.einsum("ij,ij->i", lines, _signed_directions(rows, radius, stream)) >= 0
    ends = 2 * flip_indices(sides, epsilon, 2, stream) - 1
    answers = lines * (ends * duchi_norm(rows.shape[1], radius, epsilon))[:, None]
    return Release(answers.reshape(given.shape), event)


def duchi_norm(dimension: int, radius: float, epsilon: float) -> float:
    """The norm B of every answer, which makes its mean the clipped vector."""
    gammas = math.exp(math.lgamma((dimension + 1) / 2) - math.lgamma(dimension / 2))
    return radius / math.tanh(check_epsilon(epsilon) / 2) * math.sqrt(math.pi) * gammas


def _signed_directions(rows: Floats, radius: float, stream: Stream) -> Floats:
    """x / |x|, or its opposite with probability 1/2 - |x| / (2 radius); a fixed direction where x is 0."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    # Divided by their largest entry, rows have norms from 1 to sqrt(d), so that no square overflows.
    scaled = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    scaled[largest[:, 0] == 0, 0] = 1.0
    norms = np.linalg.norm(scaled, axis=1)
    with np.errstate(over="ignore"):
        share = np.minimum(1.0, norms * (largest[:, 0] / radius))
    directions: Floats = scaled / norms[:, None] * np.where(coins((1 + share) / 2, stream), 1, -1)[:, None]
    return directions


def _random_directions(shape: tuple[int, ...], stream: Stream) -> Floats:
    directions = discrete_gaussian(DIRECTION_SIGMA, shape, stream).astype(np.float64)
    for row in np.flatnonzero(~directions.any(axis=1)):
        directions[row, 0] = 1.0
    lengths: Floats = np.linalg.norm(directions, axis=1, keepdims=True)
    return directions / lengths
