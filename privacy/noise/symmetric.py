"""Exact sampling of symmetric laws on the integers at any scale, by a table, a uniform offset and a coin.

A law with weights exp(-cost(|z|)) is sampled as z = sign (step x + y): x from a table of the law at every ``step``-th
integer, y uniform below ``step``, the pair kept with probability exp(cost(step x) - cost(step x + y)), then a random
sign, where a negative zero is thrown away. The product of these probabilities is proportional to exp(-cost(|z|)): for
z = 0 only one of two signs remains, for every other z both values do. This is the decomposition of Canonne, Kamath and
Steinke ("The discrete Gaussian for differential privacy", 2020, arXiv 2004.00010, algorithm 2, for the Laplace law);
keeping the pair by a coin extends it to the Gaussian.

**Error.** ``SLACK`` = 2^-130 bounds the total-variation distance of one sample from the exact law. It is the sum of:

1. the table: less than 2^-140 of the law at the multiples of ``step`` is cut off, and each of fewer than 2^11
   thresholds is off by at most 2^-192 from rounding down and 2^-300 from the 320-bit arithmetic: below 2^-139 together;
2. the offset: none, ``step`` is a power of two and y consists of random bits;
3. the coin: a uniform u, of which 64 bits are drawn, is compared with a probability p. Floating point knows u to
   2^-53 and p to 2^-42: the cost difference is below 1 and the result of five roundings, so it is off by less than
   2^-50; the exponential is assumed to be right to 2^-43 (numpy documents 4 units in the last place, 2^-50). So a
   computed difference of u and p of at least 2^-40 has the right sign. Below that, 128 further bits are drawn and the
   192-bit u is compared with floor(2^192 p) from the exact cost: off by at most 2^-191;
4. conditioning on the pair being kept: it multiplies the distance by at most 2 / P(kept), and P(kept) > 0.4, since at
   least one sign of two is kept, and of the pairs the coin keeps exp(-1/16) > 0.9, as 1/16 bounds the mean cost
   difference (Jensen): (1/3 + E x) / (2 sigma^2) with E x <= sigma for a table's sigma of at least 16, and
   1 / (2 scale) for a table's scale of at least 8.

So the distance is below 5 (2^-139 + 2^-190) < 2^-136, and 2^-130 leaves room. Besides, the stream's words are taken for
ideal: that part is a computational assumption (``stream.SystemStream``), no number.

How long a draw takes depends on what is drawn. No protection against timing side channels is claimed.
"""
import math
from abc import ABC, abstractmethod

import numpy as np

from fate_dp.privacy.accounting.privacy_parameters import InvalidScale
from fate_dp.privacy.noise.inversion import EXTRA_BITS, TABLE_BITS, WORKING_BITS
from fate_dp.privacy.noise.stream import WORD_BITS, open_stream
from fate_dp.privacy.noise.uniform import check_size
from fate_dp.privacy.number_kinds import is_real

SMALLEST_SCALE, LARGEST_SCALE = 2.0**-50, 2.0**50
SLACK = 2.0**-130
# So many candidates at a time that all intermediate arrays stay in the second-level cache.
BLOCK = 2**14
UNDECIDED = 2.0**-40
UNIT = 2.0**-WORD_BITS


class SymmetricLaw(ABC):
    """A symmetric law on the integers, falling from 0 and log-concave.

    :param table: ``InversionTable`` of |z| = 0, step, 2 step, ...
    :param step_bits: log2 of the step.
    """

    def __init__(self, table, step_bits):
        self.table = table
        self.step_bits = step_bits

    @abstractmethod
    def extra_cost(self, coarse, part):
        """cost(step (coarse + part)) - cost(step coarse) in float64, for arrays with 0 <= part < 1."""

    @abstractmethod
    def exact_extra_cost(self, coarse, fine):
        """cost(step coarse + fine) - cost(step coarse) as a ``Fraction``, for Python integers."""

    def sample(self, size, random):
        """Independent samples as an int64 array of shape ``size``; see the module for what is guaranteed."""
        shape, stream = check_size(size), open_stream(random)
        samples = np.empty(math.prod(shape), dtype=np.int64)
        filled = 0
        while filled < len(samples):
            missing = len(samples) - filled
            kept = self._candidates(min(BLOCK, missing + missing // 8 + 8), stream)[:missing]
            samples[filled : filled + len(kept)] = kept
            filled += len(kept)
        return samples.reshape(shape)

    def _candidates(self, count, stream):
        """What remains of ``count`` independent candidates."""
        coarse = self.table.draw(count, stream)
        words = stream.words(count)
        negative = (words & np.uint64(1)).astype(bool)
        fine = ((words >> np.uint64(1)) >> np.uint64(WORD_BITS - 1 - self.step_bits)).astype(np.int64)
        magnitude = (coarse.astype(np.int64) << self.step_bits) + fine
        kept = self._coins(coarse, fine, stream) & ~(negative & (magnitude == 0))
        return np.where(negative, -magnitude, magnitude)[kept]

    def _coins(self, coarse, fine, stream):
        words = stream.words(len(coarse))
        probability = np.exp(-self.extra_cost(coarse, fine * 2.0**-self.step_bits))
        distance = words * UNIT - probability
        kept = distance < 0
        for position in np.flatnonzero(np.abs(distance) < UNDECIDED):
            cost = self.exact_extra_cost(int(coarse[position]), int(fine[position]))
            uniform = int(words[position]) << EXTRA_BITS | stream.integer(EXTRA_BITS)
            kept[position] = uniform < _scaled_exponential(cost)
        return kept


def check_scale(name, value):
    """Return ``value`` as a float; raise ``InvalidScale`` unless it is a number from 2^-50 to 2^50."""
    if not is_real(value) or not SMALLEST_SCALE <= value <= LARGEST_SCALE:
        raise InvalidScale(f"{name} is {value!r} but must be a number from 2^-50 to 2^50 (in steps of the grid).")
    return float(value)


def _scaled_exponential(cost):
    """floor(2^192 exp(-cost)) for a ``Fraction`` of at least 0."""
    from mpmath.ctx_mp import MPContext

    context = MPContext()
    context.prec = WORKING_BITS
    probability = context.exp(-context.mpf(cost.numerator) / cost.denominator)
    return int(context.floor(context.ldexp(probability, TABLE_BITS)))
