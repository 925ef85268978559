"""The analytic Gaussian mechanism against 60-digit arithmetic that shares no code with it."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_sigma
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic

EPSILONS = st.floats(math.log(0.01), math.log(50)).map(math.exp)
DELTAS = st.floats(math.log(1e-12), math.log(0.1)).map(math.exp)
SIGMAS = st.floats(math.log(0.05), math.log(1000)).map(math.exp)


def exact_delta(sigma, epsilon, sensitivity=1):
    """Balle and Wang's formula as it is printed, with digits enough for any cancellation below."""
    with mpmath.workdps(120):
        mu = mpmath.mpf(sensitivity) / mpmath.mpf(sigma)
        epsilon = mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(
    "epsilon, delta, sigma", [(0.1, 1e-5, 30.7495661319774), (0.5, 1e-5, 7.03182667558249), (1, 1e-5, 3.73063163481594)]
)
def test_golden_sigma(epsilon, delta, sigma):
    assert gaussian_sigma(epsilon, delta) == pytest.approx(sigma, rel=1e-13)


def test_golden_delta_and_sensitivity():
    assert gaussian_delta(1, 1) == pytest.approx(0.126936737507, rel=1e-11)
    assert gaussian_sigma(1, 0.78760074) == pytest.approx(1 / 3, rel=1e-8)
    assert gaussian_sigma(1, 0.78760074, sensitivity=6 * math.sqrt(25)) == pytest.approx(10, rel=1e-8)


@settings(max_examples=200, deadline=None)
@given(EPSILONS, DELTAS)
def test_sigma_is_safe_and_smallest(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_delta(sigma, epsilon) <= delta
    assert exact_delta(sigma, epsilon) <= delta < exact_delta(sigma * (1 - 1e-13), epsilon)


@settings(max_examples=120, deadline=None)
@given(SIGMAS, EPSILONS)
def test_delta_is_the_exact_one_rounded_up(sigma, epsilon):
    delta, exact = gaussian_delta(sigma, epsilon), exact_delta(sigma, epsilon)
    assert delta >= exact
    assert delta == 5e-324 or math.nextafter(delta, 0) <= exact


@settings(max_examples=120, deadline=None)
@given(SIGMAS, DELTAS)
def test_epsilon_is_safe_and_smallest(sigma, delta):
    epsilon = gaussian_epsilon(sigma, delta)
    assert exact_delta(sigma, epsilon) <= delta
    assert epsilon == 0 or delta < exact_delta(sigma, epsilon * (1 - 1e-13))


@settings(max_examples=60, deadline=None)
@given(SIGMAS, SIGMAS, EPSILONS, EPSILONS, DELTAS, DELTAS)
def test_monotone(sigma, other_sigma, epsilon, other_epsilon, delta, other_delta):
    less_noise, more_noise = sorted((sigma, other_sigma))
    low, high = sorted((epsilon, other_epsilon))
    strict, loose = sorted((delta, other_delta))
    assert gaussian_delta(more_noise, low) <= gaussian_delta(less_noise, low)
    assert gaussian_delta(sigma, high) <= gaussian_delta(sigma, low)
    assert gaussian_epsilon(more_noise, delta) <= gaussian_epsilon(less_noise, delta)
    assert gaussian_epsilon(sigma, loose) <= gaussian_epsilon(sigma, strict)
    assert gaussian_sigma(high, delta) <= gaussian_sigma(low, delta)
    assert gaussian_sigma(epsilon, loose) <= gaussian_sigma(epsilon, strict)


@pytest.mark.parametrize("epsilon", [1e-9, 0.01, 1, 50, 1e5])
@pytest.mark.parametrize("delta", [1e-300, 1e-10, 0.5, 1 - 2**-53])
def test_extremes_stay_safe(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_delta(sigma, epsilon) <= delta
    assert exact_delta(sigma, gaussian_epsilon(sigma, delta)) <= delta


@pytest.mark.parametrize("epsilon", [1, 8, 10, 50])
def test_the_classic_formula_is_not_used(epsilon):
    classic = math.sqrt(2 * math.log(1.25e5)) / epsilon
    analytic = gaussian_sigma(epsilon, 1e-5)
    assert (classic < analytic) == (epsilon >= 10)
    assert (exact_delta(classic, epsilon) > 1e-5) == (epsilon >= 10)


def test_sensitivity_is_the_unit_of_sigma():
    assert gaussian_sigma(1, 1e-5, 7) == pytest.approx(7 * gaussian_sigma(1, 1e-5), rel=1e-15)
    assert gaussian_epsilon(14, 1e-5, 7) == pytest.approx(gaussian_epsilon(2, 1e-5), rel=1e-15)
    assert gaussian_delta(14, 1, 7) == pytest.approx(gaussian_delta(2, 1), rel=1e-15)


def test_boundaries():
    assert gaussian_epsilon(10, 0.5) == 0.0
    assert gaussian_delta(2, 0) == pytest.approx(math.erf(0.25 / math.sqrt(2)), rel=1e-14)
    assert gaussian_delta(1e-9, 1) == 1.0
    assert gaussian_delta(1e300, 1) == 5e-324
    assert gaussian_epsilon(1e-300, 0.5, 1e300) == math.inf
    assert gaussian_sigma(np.float32(1), np.float64(1e-5)) == gaussian_sigma(1, 1e-5)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "1", None, 10**400])
def test_scales_and_epsilon_are_checked(value):
    for call in (lambda: gaussian_delta(value, 1), lambda: gaussian_epsilon(value, 1e-5)):
        with pytest.raises(InvalidArgument) as refusal:
            call()
        assert str(refusal.value) == f"sigma must be a finite number greater than 0, got {value!r}."
    for call in (
        lambda: gaussian_delta(1, 1, value),
        lambda: gaussian_epsilon(1, 1e-5, value),
        lambda: gaussian_sigma(1, 1e-5, value),
    ):
        with pytest.raises(InvalidArgument) as refusal:
            call()
        assert str(refusal.value) == f"sensitivity must be a finite number greater than 0, got {value!r}."
    with pytest.raises(InvalidArgument) as refusal:
        gaussian_sigma(value, 1e-5)
    assert str(refusal.value) == f"epsilon must be a finite number greater than 0 (in nats), got {value!r}."


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, True, "1", None, 10**400])
def test_epsilon_of_a_delta_is_checked(value):
    with pytest.raises(InvalidArgument) as refusal:
        gaussian_delta(1, value)
    assert str(refusal.value) == f"epsilon must be a finite number of at least 0 (in nats), got {value!r}."


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, math.nan, True, "0.1", None])
def test_delta_is_checked(value):
    for call in (lambda: gaussian_epsilon(1, value), lambda: gaussian_sigma(1, value)):
        with pytest.raises(InvalidArgument) as refusal:
            call()
        assert str(refusal.value) == f"delta must be a number greater than 0 and less than 1, got {value!r}."
