"""The discrete Laplace law: integers x with P(x) proportional to exp(-|x| / scale).

Added to an integer query of l1 sensitivity D (under the relation in which D is stated) it is (D / scale)-differentially
private, delta 0, epsilon in nats, exactly as the continuous law, and has no low bits that betray the input (A. Ghosh,
T. Roughgarden and M. Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009; I. Mironov, CCS
2012). How samples are drawn, and the proof of ``discrete_laplace_slack``, stand in ``fate_dp.privacy.noise.symmetric``.
"""
import math
from fractions import Fraction
from functools import lru_cache

from fate_dp.privacy.noise.inversion import inversion_table
from fate_dp.privacy.noise.symmetric import SLACK, SymmetricLaw, check_scale

# The table's law has a scale from 8 to 16, unless the scale is smaller: wide enough to keep 94 % of all candidates.
TABLE_SCALE_BITS = 4


def discrete_laplace(scale, size, random=None):
    """Independent samples of the discrete Laplace law as an int64 array.

    :param scale: scale in steps of the grid, from 2^-50 to 2^50; the law is that of the float64.
    :param size: length, or tuple of lengths, of the array.
    :param random: a stream; None for the operating system's entropy. Noise from a stream that is not ``private`` must
        be recorded as not private.
    :raises InvalidScale, InvalidSize, InvalidRandomness: one sentence on what is wrong.
    """
    return _DiscreteLaplace(check_scale("scale", scale)).sample(size, random)


def discrete_laplace_slack(scale):
    """Bound on the total-variation distance of one sample from the exact law: 2^-130, whatever the scale.

    For n samples take n times it; the sum goes into ``Event.slack``.
    """
    check_scale("scale", scale)
    return SLACK


class _DiscreteLaplace(SymmetricLaw):
    def __init__(self, scale):
        step_bits = max(0, math.frexp(scale)[1] - TABLE_SCALE_BITS)
        self._scale = scale
        self._table_scale = scale * 2.0**-step_bits
        super().__init__(_half_table(self._table_scale), step_bits)

    def extra_cost(self, coarse, part):
        return part / self._table_scale

    def exact_extra_cost(self, coarse, fine):
        return fine / Fraction(self._scale)


@lru_cache(maxsize=16)
def _half_table(scale):
    return inversion_table(lambda i, context: -i / context.mpf(scale))
