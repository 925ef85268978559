"""Sampling a law on 0, 1, 2, ... by inversion of its distribution function, exact to 192 bits.

A sample is the number of thresholds floor(2^192 P(X <= i)) that lie at or below a uniform 192-bit integer. Its first 64
bits nearly always decide; only where they equal the first 64 bits of a threshold are the other 128 drawn. So the speed
is that of 64-bit inversion, and the error that of 192-bit inversion.
"""
from bisect import bisect_right

import numpy as np

from fate_dp.privacy.noise.stream import WORD_BITS

TABLE_BITS = 192
EXTRA_BITS = TABLE_BITS - WORD_BITS
# Guard digits: sums of a few thousand weights in this precision are still right to far more than 192 bits.
WORKING_BITS = 320
BUCKET_BITS = 16
LEFT_OUT = 2.0**-140


class InversionTable:
    """Thresholds of a law, and the buckets of first 16 bits in which no threshold lies.

    Total-variation distance from the law whose thresholds are not rounded: at most 2^-192 per threshold, since rounding
    one threshold moves at most that much mass from one value to the next.
    """

    def __init__(self, thresholds):
        """:param thresholds: floor(2^192 P(X <= i)) for every value i but the last, ascending, below 2^192."""
        self._thresholds = thresholds
        self._leading = np.array([threshold >> EXTRA_BITS for threshold in thresholds], dtype=np.uint64)
        buckets = (self._leading >> np.uint64(WORD_BITS - BUCKET_BITS)).astype(np.int64)
        inside = np.bincount(buckets, minlength=2**BUCKET_BITS)
        self._value_of_bucket = np.where(inside, -1, np.cumsum(inside)).astype(np.int32)

    @property
    def values(self):
        """Number of values that the law can take."""
        return len(self._thresholds) + 1

    def draw(self, count, stream):
        """``count`` independent samples as an int32 array."""
        words = stream.words(count)
        samples = self._value_of_bucket[words >> np.uint64(WORD_BITS - BUCKET_BITS)]
        undecided = np.flatnonzero(samples < 0)
        if len(undecided):
            samples[undecided] = self._search(words[undecided], stream)
        return samples

    def _search(self, words, stream):
        samples = np.searchsorted(self._leading, words, side="right")
        tied = samples > np.searchsorted(self._leading, words, side="left")
        for position in np.flatnonzero(tied):
            uniform = int(words[position]) << EXTRA_BITS | stream.integer(EXTRA_BITS)
            samples[position] = bisect_right(self._thresholds, uniform)
        return samples


def inversion_table(log_weight):
    """The table of the law on 0, 1, 2, ... with weights exp(log_weight(i)), cut off where less than 2^-140 is left.

    The law must be falling and log-concave: then the ratio of successive weights never grows, so that behind a weight u
    followed by v at most v / (1 - v / u) is left. What is cut off is less than 2^-140 of the first weight, hence of the
    whole; that is the total-variation distance it causes.

    :param log_weight: function of i and of mpmath's context, giving the logarithm as a number of that context.
    """
    from mpmath.ctx_mp import MPContext

    context = MPContext()
    context.prec = WORKING_BITS
    first, following = (context.exp(log_weight(i, context)) for i in (0, 1))
    weights = [first]
    while following / (1 - following / weights[-1]) >= LEFT_OUT * first:
        weights.append(following)
        following = context.exp(log_weight(len(weights), context))
    return InversionTable(_thresholds(weights, context))


def _thresholds(weights, context):
    total, below, thresholds = context.fsum(weights), context.mpf(0), []
    for weight in weights[:-1]:
        below += weight
        thresholds.append(int(context.floor(context.ldexp(below / total, TABLE_BITS))))
    return thresholds
