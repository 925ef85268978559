"""Discrete Gaussian and Laplace noise on the integers, and what it costs to charge it as continuous noise.

Laws on 0, 1, 2, ... are sampled by inversion of the distribution function, exact to 192 bits. A sample is the number of
thresholds floor(2^192 P(X <= i)) that lie at or below a uniform 192-bit integer. Its first 64 bits nearly always
decide; only where they equal the first 64 bits of a threshold are the other 128 drawn. So the speed is that of 64-bit
inversion, and the error that of 192-bit inversion.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import within
from .stream import WORD_BITS, Floats, Integers, Rng, Size, Stream, check_size, open_stream

TABLE_BITS = 192
EXTRA_BITS = TABLE_BITS - WORD_BITS
# Guard digits: sums of a few thousand weights in this precision are still right to far more than 192 bits.
WORKING_BITS = 320
BUCKET_BITS = 16
LEFT_OUT = 2.0**-140


class InversionTable:
    """Thresholds floor(2^192 P(X <= i)) of a law, ascending below 2^192, for every value i but the last.

    Total-variation distance from the law whose thresholds are not rounded: at most 2^-192 per threshold, since rounding
    one threshold moves at most that much mass from one value to the next.
    """

    def __init__(self, thresholds: list[int]) -> None:
        self._thresholds = thresholds
        # A sample is decided by the first 16 bits in all buckets but those in which a threshold lies.
        self._leading = np.array([threshold >> EXTRA_BITS for threshold in thresholds], dtype=np.uint64)
        buckets = (self._leading >> np.uint64(WORD_BITS - BUCKET_BITS)).astype(np.int64)
        inside = np.bincount(buckets, minlength=2**BUCKET_BITS)
        self._value_of_bucket = np.where(inside, -1, np.cumsum(inside)).astype(np.int32)

    @property
    def values(self) -> int:
        """Number of values that the law can take."""
        return len(self._thresholds) + 1

    def draw(self, count: int, stream: Stream) -> NDArray[np.int32]:
        """``count`` independent samples as an int32 array."""
        words = stream.words(count)
        samples: NDArray[np.int32] = self._value_of_bucket[words >> np.uint64(WORD_BITS - BUCKET_BITS)]
        undecided = np.flatnonzero(samples < 0)
        if len(undecided):
            samples[undecided] = self._search(words[undecided], stream)
        return samples

    def _search(self, words: NDArray[np.uint64], stream: Stream) -> Integers:
        samples = np.searchsorted(self._leading, words, side="right")
        tied = samples > np.searchsorted(self._leading, words, side="left")
        for position in np.flatnonzero(tied):
            uniform = int(words[position]) << EXTRA_BITS | stream.integer(EXTRA_BITS)
            samples[position] = bisect_right(self._thresholds, uniform)
        return samples


def _context() -> Any:
    from mpmath.ctx_mp import MPContext

    context = MPContext()
    context.prec = WORKING_BITS
    return context


def inversion_table(log_weight: Callable[[int, Any], Any]) -> InversionTable:
    """The table of the law on 0, 1, 2, ... with weights exp(log_weight(i)), cut off where less than 2^-140 is left.

    The law must be falling and log-concave: then the ratio of successive weights never grows, so that behind a weight u
    followed by v at most v / (1 - v / u) is left. What is cut off is less than 2^-140 of the first weight, hence of the
    whole; that is the total-variation distance it causes. ``log_weight`` is given i and mpmath's context.
    """
    context = _context()
    first, following = (context.exp(log_weight(i, context)) for i in (0, 1))
    weights = [first]
    while following / (1 - following / weights[-1]) >= LEFT_OUT * first:
        weights.append(following)
        following = context.exp(log_weight(len(weights), context))
    total, below, thresholds = context.fsum(weights), context.mpf(0), []
    for weight in weights[:-1]:
        below += weight
        thresholds.append(int(context.floor(context.ldexp(below / total, TABLE_BITS))))
    return InversionTable(thresholds)


MIN_SCALE, MAX_SCALE = 2.0**-50, 2.0**50
# The sum of what the table, the coin and throwing pairs away cost: proof in docs/proofs-privacy.md.
SLACK = 2.0**-130
# So many candidates at a time that all intermediate arrays stay in the second-level cache.
BLOCK = 2**14
UNDECIDED = 2.0**-40
UNIT = 2.0**-WORD_BITS


class SymmetricLaw(ABC):
    """A symmetric law on the integers with weights exp(-cost(|z|)), falling from 0 and log-concave, at any scale.

    A sample is sign (step x + y): x from a table of the law at every ``step``-th integer, y uniform below ``step``, the
    pair kept by a coin, then a random sign (Canonne, Kamath and Steinke 2020, arXiv 2004.00010, algorithm 2, extended
    to the Gaussian). ``SLACK`` bounds the total-variation distance of one sample from the exact law, given ideal words
    (docs/proofs-privacy.md). How long a draw takes depends on what is drawn: no protection against timing is claimed.
    The table's law has a scale of at most 2^table_bits and at least half of it, unless ``scale`` is less.
    """

    table_bits: int

    def __init__(self, scale: float) -> None:
        self.step_bits = max(0, math.frexp(scale)[1] - self.table_bits)
        self._scale, self._table_scale = scale, scale * 2.0**-self.step_bits
        self.table = self.table_of(self._table_scale)

    @staticmethod
    @abstractmethod
    def table_of(scale: float) -> InversionTable:
        """The table of |z| = 0, step, 2 step, ... at a scale in units of the step."""

    @abstractmethod
    def extra_cost(self, coarse: NDArray[np.int32], part: Floats) -> Floats:
        """cost(step (coarse + part)) - cost(step coarse) in float64, for arrays with 0 <= part < 1."""

    @abstractmethod
    def exact_extra_cost(self, coarse: int, fine: int) -> Fraction:
        """cost(step coarse + fine) - cost(step coarse) as a ``Fraction``, for Python integers."""

    def sample(self, size: Size, rng: Rng) -> Integers:
        """Independent samples as an int64 array of shape ``size``."""
        shape, stream = check_size(size), open_stream(rng)
        samples = np.empty(math.prod(shape), dtype=np.int64)
        filled = 0
        while filled < len(samples):
            missing = len(samples) - filled
            kept = self._candidates(min(BLOCK, missing + missing // 8 + 8), stream)[:missing]
            samples[filled : filled + len(kept)] = kept
            filled += len(kept)
        return samples.reshape(shape)

    def _candidates(self, count: int, stream: Stream) -> Integers:
        """What remains of ``count`` independent candidates."""
        coarse = self.table.draw(count, stream)
        words = stream.words(count)
        negative = (words & np.uint64(1)).astype(bool)
        fine = ((words >> np.uint64(1)) >> np.uint64(WORD_BITS - 1 - self.step_bits)).astype(np.int64)
        magnitude = (coarse.astype(np.int64) << self.step_bits) + fine
        kept = self._coins(coarse, fine, stream) & ~(negative & (magnitude == 0))
        samples: Integers = np.where(negative, -magnitude, magnitude)[kept]
        return samples

    def _coins(self, coarse: NDArray[np.int32], fine: Integers, stream: Stream) -> NDArray[np.bool_]:
        words = stream.words(len(coarse))
        probability = np.exp(-self.extra_cost(coarse, fine * 2.0**-self.step_bits))
        distance = words * UNIT - probability
        kept: NDArray[np.bool_] = distance < 0
        for position in np.flatnonzero(np.abs(distance) < UNDECIDED):
            cost = self.exact_extra_cost(int(coarse[position]), int(fine[position]))
            uniform = int(words[position]) << EXTRA_BITS | stream.integer(EXTRA_BITS)
            kept[position] = uniform < _scaled_exponential(cost)
        return kept


def check_scale(name: str, value: object) -> float:
    """Return ``value`` as a float if it is a number from 2^-50 to 2^50."""
    return within(name, value, MIN_SCALE, MAX_SCALE, "a number from 2^-50 to 2^50 (in steps of the grid)")


def _scaled_exponential(cost: Fraction) -> int:
    """floor(2^192 exp(-cost)) for a ``Fraction`` of at least 0."""
    context = _context()
    probability = context.exp(-context.mpf(cost.numerator) / cost.denominator)
    return int(context.floor(context.ldexp(probability, TABLE_BITS)))


def discrete_gaussian(sigma: float, size: Size, rng: Rng = None) -> Integers:
    """Independent samples of the discrete Gaussian, P(x) proportional to exp(-x^2 / (2 sigma^2)), as an int64 array.

    Added to an integer query it gives the same concentrated differential privacy as the continuous Gaussian of the same
    sigma (Canonne, Kamath and Steinke 2020, theorem 4), and no low bits that betray the input (Mironov, CCS 2012).
    Noise from a stream that is not ``private`` must be recorded as not private.

    Args:
        sigma: scale in steps of the grid, from 2^-50 to 2^50; the law is that of the float64. The standard deviation
            equals sigma to 1e-6 from sigma 1 on, and is below it for smaller sigma.
    """
    return _DiscreteGaussian(check_scale("sigma", sigma)).sample(size, rng)


def discrete_gaussian_slack(sigma: float) -> float:
    """Bound on the total-variation distance of one sample from the exact law: 2^-130, whatever sigma.

    For n samples take n times it; the sum goes into ``Event.slack``.
    """
    check_scale("sigma", sigma)
    return SLACK


class _DiscreteGaussian(SymmetricLaw):
    # The table's law has a sigma from 16 to 32, unless sigma is smaller: wide enough to keep 95 % of all candidates.
    table_bits = 5

    @staticmethod
    @lru_cache(maxsize=128)
    def table_of(scale: float) -> InversionTable:
        return inversion_table(lambda i, context: -(i**2) / (2 * context.mpf(scale) ** 2))

    def extra_cost(self, coarse: NDArray[np.int32], part: Floats) -> Floats:
        return part * (part + 2.0 * coarse) * (0.5 / self._table_scale**2)

    def exact_extra_cost(self, coarse: int, fine: int) -> Fraction:
        return fine * (fine + (coarse << (self.step_bits + 1))) / (2 * Fraction(self._scale) ** 2)


def discrete_laplace(scale: float, size: Size, rng: Rng = None) -> Integers:
    """Independent samples of the discrete Laplace law, P(x) proportional to exp(-|x| / scale), as an int64 array.

    Added to an integer query of l1 sensitivity D (under the relation in which D is stated) it is (D / scale)-DP, delta
    0, epsilon in nats, as the continuous law is (A. Ghosh, T. Roughgarden and M. Sundararajan, STOC 2009), and has no
    low bits that betray the input. The law is that of the float64 ``scale``, in steps of the grid, from 2^-50 to 2^50.
    """
    return _DiscreteLaplace(check_scale("scale", scale)).sample(size, rng)


def discrete_laplace_slack(scale: float) -> float:
    """As ``discrete_gaussian_slack``, for the discrete Laplace law."""
    check_scale("scale", scale)
    return SLACK


class _DiscreteLaplace(SymmetricLaw):
    # The table's law has a scale from 8 to 16, unless the scale is smaller: wide enough to keep 94 % of all candidates.
    table_bits = 4

    @staticmethod
    @lru_cache(maxsize=128)
    def table_of(scale: float) -> InversionTable:
        return inversion_table(lambda i, context: -i / context.mpf(scale))

    def extra_cost(self, coarse: NDArray[np.int32], part: Floats) -> Floats:
        return part / self._table_scale

    def exact_extra_cost(self, coarse: int, fine: int) -> Fraction:
        return fine / Fraction(self._scale)


# Discrete noise on a grid in place of continuous noise to which one rounds afterwards.
#
# The functions bound the total-variation distance between the two, per coordinate; since rounding is post-processing,
# an event of the continuous mechanism may be emitted with these distances as its slack. What rounding the query costs
# in sensitivity is for the mechanism to add.

# One bound of the Gaussian slack's proof: 1 / (4 sqrt(2 pi e)) = 0.06049...
MIDPOINT_CONSTANT = 0.0605
ROUND_UP = 1 + 2.0**-40


def gaussian_slack(sigma: float, dimension: int) -> float:
    """Bound on the distance of ``dimension`` discrete Gaussians from as many rounded N(0, sigma^2); at most 1."""
    return min(1.0, dimension * (discrete_gaussian_slack(sigma) + rounded_gaussian_slack(sigma)))


def rounded_gaussian_slack(sigma: float) -> float:
    """Bound on the total-variation distance of the discrete Gaussian from a rounded N(0, sigma^2), one coordinate.

    The bound is 0.0605 / sigma^2 + r / (1 - r^3) with r = exp(-2 pi^2 sigma^2), at most 1: docs/proofs-privacy.md.
    """
    sigma = check_scale("sigma", sigma)
    midpoint = MIDPOINT_CONSTANT / sigma**2
    if midpoint >= 1:
        return 1.0
    first = math.exp(-2 * math.pi**2 * sigma**2)
    return min(1.0, (midpoint + first / (1 - first**3)) * ROUND_UP)


def rounded_laplace_slack(scale: float) -> float:
    """Bound on the total-variation distance of discrete Laplace noise from rounded Laplace noise, one coordinate.

    The bound is h^2 / 2 with h = 1 / (2 scale), at most 1; proof in docs/proofs-privacy.md. A mechanism on integers
    need not pay this: discrete Laplace noise is by itself (sensitivity / scale)-private.
    """
    return min(1.0, 0.125 / check_scale("scale", scale) ** 2 * ROUND_UP)
