"""zCDP conversion: goldens, 50-digit minimisation over orders, the Gaussian mechanism as a lower bound."""

import math

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fate_dp.privacy.accounting.gaussian import gaussian_delta, zcdp_delta, zcdp_epsilon, zcdp_rho
from fate_dp.privacy.validation import InvalidArgument

RHOS = st.floats(math.log(1e-6), math.log(50)).map(math.exp)
EPSILONS = st.floats(math.log(1e-3), math.log(100)).map(math.exp)
DELTAS = st.floats(math.log(1e-12), math.log(0.5)).map(math.exp)


def log_delta(rho, epsilon, alpha):
    rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)
    return (alpha - 1) * (alpha * rho - epsilon) - mpmath.log(alpha - 1) + alpha * mpmath.log(1 - 1 / alpha)


def exact_delta(rho, epsilon):
    """The smallest value over orders by ternary search, which shares nothing with the bisection under test."""
    with mpmath.workdps(50):
        low, high = mpmath.mpf(-50), mpmath.mpf(40)
        for _ in range(130):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            if log_delta(rho, epsilon, 1 + mpmath.exp(left)) < log_delta(rho, epsilon, 1 + mpmath.exp(right)):
                high = right
            else:
                low = left
        return mpmath.exp(log_delta(rho, epsilon, 1 + mpmath.exp(low)))


def test_goldens():
    assert zcdp_delta(0.025, 1) == pytest.approx(1.3361319064e-6, rel=1e-9)
    assert zcdp_epsilon(0.025, 1e-6) == pytest.approx(1.0140742547, rel=1e-9)
    assert zcdp_rho(1, 1e-6) == pytest.approx(0.0243559704, rel=2e-9)
    assert zcdp_rho(1, 1e-5) == pytest.approx(0.0305565952, rel=2e-9)
    assert zcdp_epsilon(0.5, 1e-5) == pytest.approx(4.7283869849, rel=1e-10)


@settings(max_examples=25, deadline=None)
@example(math.exp(-7.984375), 1.0)
@given(RHOS, EPSILONS)
def test_delta_is_the_minimum_rounded_up(rho, epsilon):
    exact = min(1, exact_delta(rho, epsilon))
    assert zcdp_delta(rho, epsilon) >= exact
    if exact > 1e-250:
        assert zcdp_delta(rho, epsilon) <= exact * (1 + 1e-8)


@settings(max_examples=25, deadline=None)
@given(RHOS, DELTAS)
def test_epsilon_is_safe_and_smallest(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    assert exact_delta(rho, epsilon) <= delta
    assert epsilon == 0 or exact_delta(rho, epsilon * (1 - 1e-6)) > delta


@settings(max_examples=25, deadline=None)
@given(EPSILONS, DELTAS)
def test_rho_is_safe_and_largest(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert exact_delta(rho, epsilon) <= delta < exact_delta(rho * (1 + 1e-6), epsilon)


@settings(max_examples=100, deadline=None)
@given(RHOS, EPSILONS)
def test_never_below_the_gaussian_mechanism_of_the_same_rho(rho, epsilon):
    assert zcdp_delta(rho, epsilon) >= gaussian_delta(1 / math.sqrt(2 * rho) * (1 + 1e-12), epsilon)


@settings(max_examples=100, deadline=None)
@given(RHOS, EPSILONS, DELTAS, st.floats(1.001, 3))
def test_monotone(rho, epsilon, delta, factor):
    looser = delta ** (1 / factor)
    assert zcdp_delta(rho, epsilon) <= zcdp_delta(rho * factor, epsilon)
    assert zcdp_delta(rho, epsilon * factor) <= zcdp_delta(rho, epsilon)
    assert zcdp_epsilon(rho, delta) <= zcdp_epsilon(rho * factor, delta)
    assert zcdp_epsilon(rho, looser) <= zcdp_epsilon(rho, delta)
    assert zcdp_rho(epsilon, delta) <= zcdp_rho(epsilon * factor, delta)
    assert zcdp_rho(epsilon, delta) <= zcdp_rho(epsilon, looser)


def test_boundaries():
    assert zcdp_epsilon(1e-9, 0.5) == 0.0
    assert zcdp_delta(1e300, 1) == 1.0
    assert zcdp_delta(1e-6, 100) == 5e-324
    assert 0 < zcdp_delta(0.1, 0) < 1


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "1"])
def test_rho_is_checked(value):
    for call in (lambda: zcdp_delta(value, 1), lambda: zcdp_epsilon(value, 1e-5)):
        with pytest.raises(InvalidArgument) as refusal:
            call()
        assert str(refusal.value) == f"rho is {value!r} but must be a finite number greater than 0."


def test_epsilon_and_delta_are_checked():
    with pytest.raises(
        InvalidArgument, match=r"^epsilon is -1 but must be a finite number of at least 0 \(in nats\).$"
    ):
        zcdp_delta(1, -1)
    with pytest.raises(
        InvalidArgument, match=r"^epsilon is 0 but must be a finite number greater than 0 \(in nats\).$"
    ):
        zcdp_rho(0, 1e-5)
    for call in (lambda: zcdp_epsilon(1, 1), lambda: zcdp_rho(1, 1)):
        with pytest.raises(InvalidArgument, match="^delta is 1 but must be a number greater than 0 and less than 1.$"):
            call()
