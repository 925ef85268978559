"""The discrete Gaussian: integers x with P(x) proportional to exp(-x^2 / (2 sigma^2)).

Added to an integer query it gives the same guarantee of concentrated differential privacy as the continuous Gaussian of
the same sigma, and no low bits that betray the input (I. Mironov, "On significance of the least significant bits for
differential privacy", CCS 2012; C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy",
2020, arXiv 2004.00010, theorem 4). How samples are drawn, and the proof of ``discrete_gaussian_slack``, stand in
``fate_dp.privacy.noise.symmetric``.
"""
import math
from fractions import Fraction
from functools import lru_cache

from fate_dp.privacy.noise.inversion import inversion_table
from fate_dp.privacy.noise.symmetric import SLACK, SymmetricLaw, check_scale

# The table's law has a sigma from 16 to 32, unless sigma is smaller: wide enough to keep 95 % of all candidates.
TABLE_SIGMA_BITS = 5


def discrete_gaussian(sigma, size, random=None):
    """Independent samples of the discrete Gaussian as an int64 array.

    :param sigma: scale in steps of the grid, from 2^-50 to 2^50; the law is that of the float64. The
        standard deviation equals sigma to 1e-6 from sigma 1 on, and is below it for smaller sigma.
    :param size: length, or tuple of lengths, of the array.
    :param random: a stream; None for the operating system's entropy. Noise from a stream that is not ``private`` must
        be recorded as not private.
    :raises InvalidScale, InvalidSize, InvalidRandomness: one sentence on what is wrong.
    """
    return _DiscreteGaussian(check_scale("sigma", sigma)).sample(size, random)


def discrete_gaussian_slack(sigma):
    """Bound on the total-variation distance of one sample from the exact law: 2^-130, whatever sigma.

    For n samples take n times it; the sum goes into ``Event.slack``.
    """
    check_scale("sigma", sigma)
    return SLACK


class _DiscreteGaussian(SymmetricLaw):
    def __init__(self, sigma):
        step_bits = max(0, math.frexp(sigma)[1] - TABLE_SIGMA_BITS)
        self._sigma = sigma
        self._table_sigma = sigma * 2.0**-step_bits
        super().__init__(_half_table(self._table_sigma), step_bits)

    def extra_cost(self, coarse, part):
        return part * (part + 2.0 * coarse) * (0.5 / self._table_sigma**2)

    def exact_extra_cost(self, coarse, fine):
        return fine * (fine + (coarse << (self.step_bits + 1))) / (2 * Fraction(self._sigma) ** 2)


@lru_cache(maxsize=16)
def _half_table(sigma):
    return inversion_table(lambda i, context: -(i**2) / (2 * context.mpf(sigma) ** 2))
