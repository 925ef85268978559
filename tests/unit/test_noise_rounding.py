"""The distance of discrete noise on a grid from rounded continuous noise, against a 30-digit oracle."""

import mpmath
import pytest

from fate_dp.privacy.noise.discrete import gaussian_slack, rounded_gaussian_slack, rounded_laplace_slack

pytestmark = pytest.mark.arithmetic

scales = pytest.mark.parametrize("scale", [0.05, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 20.0])


@scales
def test_the_gaussian_slack_bounds_the_distance(scale):
    """Against the exact distance; the bound is not idle either: within a factor of 3.1 from sigma 1 on."""
    with mpmath.workdps(30):
        reach = range(-int(12 * scale) - 5, int(12 * scale) + 6)
        weights = [mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(scale) ** 2)) for x in reach]
        rounded = [mpmath.ncdf(0.5 - abs(x), 0, scale) - mpmath.ncdf(-0.5 - abs(x), 0, scale) for x in reach]
        total = mpmath.fsum(weights)
        distance = mpmath.fsum(abs(w / total - q) for w, q in zip(weights, rounded)) / 2
    assert distance <= rounded_gaussian_slack(scale)
    assert scale < 1 or rounded_gaussian_slack(scale) < 4 * distance


@scales
def test_the_laplace_slack_bounds_the_distance(scale):
    with mpmath.workdps(30):
        reach = range(-int(60 * scale) - 5, int(60 * scale) + 6)
        weights = [mpmath.exp(-abs(x) / mpmath.mpf(scale)) for x in reach]
        half = mpmath.exp(-1 / (2 * mpmath.mpf(scale)))
        rounded = [1 - half if x == 0 else w * (1 / half - half) / 2 for x, w in zip(reach, weights)]
        total = mpmath.fsum(weights)
        distance = mpmath.fsum(abs(w / total - q) for w, q in zip(weights, rounded)) / 2
    assert distance <= rounded_laplace_slack(scale)
    assert scale < 1 or rounded_laplace_slack(scale) < 2 * distance


def test_slack_of_vectors_adds_up_and_is_negligible_on_a_fine_grid():
    sigma = 1.3 * 2.0**40
    one, million = gaussian_slack(sigma, 1), gaussian_slack(sigma, 10**6)
    assert million == pytest.approx(1e6 * one) and one > 0.0605 * 2.0**-82 and million < 1e-18
    assert gaussian_slack(2.0, 10**9) == 1.0 and gaussian_slack(2.0, 0) == 0
