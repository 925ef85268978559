"""Flips or noise on sums: which of the two shows X^T t with the smaller variance at equal epsilon, from public numbers.

Least squares learns labels from v = X^T y alone, n rows, m columns, labels 0 and 1. Write s for the mean squared norm of a
row and r^2 for its bound.

*Flips*, made unbiased, add to each label an error of mean 0 and variance e^epsilon / (e^epsilon - 1)^2 =: f, independent of the
others'. Their part of v has the total variance (the trace of its covariance) n f s. One draw serves any number of models.

*Noise* of the multiplier g at (epsilon, delta) has the total variance m g^2 r^2. K models are K draws, which together keep
(epsilon, delta) at the multiplier g sqrt(K) each ([Dong2022], corollary 3.3): K m g^2 r^2.

With s = r^2, so for one-hot rows exactly, and about so for standardised columns clipped at a typical row's norm, noise has the
smaller variance for K m < n f / g^2. The sampling error of the labels themselves is the same for both and is left out, and
so is delta, which flips do not need.
"""

import math

from ..accounting.gaussian import gaussian_sigma
from ..validation import check_epsilon, check_target, whole

MIN_EPSILON, MAX_EPSILON = 2.0**-10, 2.0**5
HALVINGS = 60


def variance_of_flips(epsilon: float) -> float:
    """f: variance that the flip of a label, made unbiased, adds to it; epsilon in nats."""
    return (0.5 / math.sinh(min(check_epsilon(epsilon), 1400.0) / 2)) ** 2  # Beyond 1400 less than any float.


def variance_of_noise(epsilon: float, delta: float) -> float:
    """g^2: variance of the noise on one column of X^T y, in units of the rows' largest squared norm, for one model."""
    return gaussian_sigma(*check_target(epsilon, delta)) ** 2


def largest_size(records: int, epsilon: float, delta: float) -> int:
    """How many columns times models noise may have at most so that its variance is not above that of flips."""
    flips = whole("records", records, 1) * variance_of_flips(epsilon)
    return math.floor(flips / variance_of_noise(epsilon, delta))


def noise_over_flips(records: int, columns: int, models: int, epsilon: float, delta: float) -> float:
    """The total variance of noise over that of flips; below 1 noise is better."""
    size = whole("columns", columns, 1) * whole("models", models, 1)
    return size * variance_of_noise(epsilon, delta) / (whole("records", records, 1) * variance_of_flips(epsilon))


def crossover(records: int, columns: int, models: int, delta: float) -> float | None:
    """The epsilon (nats) below which noise has the smaller variance; None where it is not between 2^-10 and 32."""
    low, high = MIN_EPSILON, MAX_EPSILON
    if not noise_over_flips(records, columns, models, low, delta) < 1:
        return None
    if noise_over_flips(records, columns, models, high, delta) < 1:
        return None
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        better = noise_over_flips(records, columns, models, middle, delta) < 1
        low, high = (middle, high) if better else (low, middle)
    return low
