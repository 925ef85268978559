"""Composition of pure mechanisms against exact enumeration, at the goldens, and where a grid of losses takes over."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy.accounting import composition
from fate_dp.privacy.accounting.composition import compose_pure, log_binomial
from fate_dp.privacy.validation import InvalidArgument

EPSILONS = st.lists(st.floats(0.01, 4), min_size=1, max_size=6)
DELTAS = st.floats(math.log(1e-12), math.log(0.3)).map(math.exp)


def exact_delta(epsilons, epsilon):
    """Hockey-stick divergence between the two neighbours' outputs of randomised response, output by output."""
    with mpmath.workdps(50):
        keep = [1 / (1 + mpmath.exp(-mpmath.mpf(value))) for value in epsilons]
        total, weight = mpmath.mpf(0), mpmath.exp(mpmath.mpf(epsilon))
        for answers in itertools.product((True, False), repeat=len(epsilons)):
            here = mpmath.fprod(p if answer else 1 - p for p, answer in zip(keep, answers))
            there = mpmath.fprod(1 - p if answer else p for p, answer in zip(keep, answers))
            total += max(mpmath.mpf(0), here - weight * there)
        return total


def exact_delta_of_equals(value, count, epsilon):
    with mpmath.workdps(50):
        value, epsilon = mpmath.mpf(value), mpmath.mpf(epsilon)
        flip = 1 / (1 + mpmath.exp(value))
        return mpmath.fsum(
            mpmath.binomial(count, flips)
            * flip**flips
            * (1 - flip) ** (count - flips)
            * max(0, 1 - mpmath.exp(epsilon - (count - 2 * flips) * value))
            for flips in range(count + 1)
        )


@pytest.fixture
def on_the_grid(monkeypatch):
    monkeypatch.setattr(composition, "EXACT_COMBINATIONS", 1)


def test_goldens():
    assert compose_pure([1.0] * 10, 1e-5) == pytest.approx(9.9997706345, rel=1e-10)
    assert compose_pure([0.5] * 20, 1e-5) == pytest.approx(9.8594110241, rel=1e-10)


def test_one_release_has_a_closed_form():
    keep = math.e / (1 + math.e)
    assert compose_pure([1.0], 1e-5) == pytest.approx(math.log((keep - 1e-5) / (1 - keep)), rel=1e-13)


@settings(max_examples=150, deadline=None)
@given(EPSILONS, DELTAS)
def test_exact_for_unequal_epsilons(epsilons, delta):
    epsilon = compose_pure(epsilons, delta)
    assert exact_delta(epsilons, epsilon) <= delta
    assert epsilon == 0 or exact_delta(epsilons, epsilon - 1e-9) > delta


@pytest.mark.parametrize(
    "value, count, delta", [(0.1, 1000, 1e-5), (0.01, 2000, 1e-10), (1.0, 500, 1e-5), (3.0, 50, 1e-200)]
)
def test_exact_for_many_equal_epsilons(value, count, delta):
    epsilon = compose_pure([value] * count, delta)
    assert exact_delta_of_equals(value, count, epsilon) <= delta
    assert exact_delta_of_equals(value, count, epsilon * (1 - 1e-9)) > delta


@settings(max_examples=50, deadline=None)
@given(EPSILONS, DELTAS)
def test_the_grid_is_safe_and_close(epsilons, delta):
    exact = compose_pure(epsilons, delta)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "EXACT_COMBINATIONS", 1)
        on_grid = compose_pure(epsilons, delta)
    assert exact_delta(epsilons, on_grid) <= delta
    assert on_grid <= exact * (1 + 1e-2) + 1e-3


def exact_delta_of_whole_losses(numerators, denominator, epsilon):
    """Every epsilon is a whole number over ``denominator``, so the sum's distribution is found on whole numbers."""
    probabilities = np.ones(1)
    for numerator in numerators:
        flip = 1 / (1 + math.exp(numerator / denominator))
        longer = np.zeros(len(probabilities) + 2 * numerator)
        longer[2 * numerator :] += (1 - flip) * probabilities
        longer[: len(probabilities)] += flip * probabilities
        probabilities = longer
    losses = np.arange(-sum(numerators), sum(numerators) + 1) / denominator
    return float(probabilities @ np.maximum(0, -np.expm1(np.minimum(0, epsilon - losses))))


def test_many_different_epsilons():
    numerators = range(1, 151)
    epsilon = compose_pure([numerator / 100 for numerator in numerators], 1e-6)
    assert exact_delta_of_whole_losses(numerators, 100, epsilon) <= 1e-6 * (1 + 1e-9)
    assert exact_delta_of_whole_losses(numerators, 100, epsilon * (1 - 2e-4)) > 1e-6


@pytest.mark.parametrize("value, count", [(0.1, 1000), (0.013, 4000), (1.7, 300)])
def test_the_grid_is_shorter_than_the_largest_loss(value, count, on_the_grid):
    epsilon = compose_pure([value] * count, 1e-5)
    assert exact_delta_of_equals(value, count, epsilon) <= 1e-5
    assert exact_delta_of_equals(value, count, epsilon * (1 - 1e-3)) > 1e-5


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([0.3, 0.71, 2.2]), min_size=10, max_size=60), DELTAS)
def test_the_grid_against_the_exact_sum_of_many(epsilons, delta):
    exact = compose_pure(epsilons, delta)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "EXACT_COMBINATIONS", 1)
        on_grid = compose_pure(epsilons, delta)
    assert exact * (1 - 1e-9) <= on_grid <= exact * (1 + 1e-3)


@settings(max_examples=80, deadline=None)
@given(EPSILONS, DELTAS, st.floats(0.01, 4), st.floats(1, 4))
def test_monotone_and_never_above_the_sum(epsilons, delta, more, factor):
    epsilon = compose_pure(epsilons, delta)
    assert epsilon <= compose_pure(epsilons, 0)
    assert epsilon <= compose_pure(epsilons + [more], delta) * (1 + 1e-12) + 1e-12
    assert epsilon <= compose_pure([epsilons[0] * factor] + epsilons[1:], delta) * (1 + 1e-12) + 1e-12
    assert compose_pure(epsilons, delta ** (1 / factor)) <= epsilon * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("count", [1, 2, 10, 100, 1000])
def test_count_costs(count):
    assert compose_pure([0.1] * count, 1e-5) < compose_pure([0.1] * (count + 1), 1e-5)


def test_boundaries():
    assert compose_pure([], 1e-5) == compose_pure([], 0) == 0.0
    assert compose_pure([0.5] * 3, 0) == 1.5
    assert compose_pure([0.1] * 10, 0) == 1.0000000000000002, "ten floats 0.1 are more than 1"
    assert compose_pure([0.7], 0) == 0.7
    assert compose_pure([1e-9], 1e-5) == 0.0
    assert compose_pure([800.0] * 3, 1e-5) == pytest.approx(2400 - 1e-5, rel=1e-12)
    assert compose_pure([1e308] * 3, 1e-5) == math.inf
    assert compose_pure([2.0] * 3, 1e-310) == 6.0
    assert compose_pure((value for value in (1.0, 2.0)), 0) == 3.0


def test_bound_on_the_error_of_binomial_logarithms():
    for trials, probability in ((1, 0.3), (50, 1e-3), (3000, 0.01), (20000, 0.5)):
        logarithms, error = log_binomial(trials, math.log(probability), math.log1p(-probability))
        for successes in range(0, trials + 1, max(1, trials // 40)):
            with mpmath.workdps(40):
                p = mpmath.mpf(probability)
                exact = mpmath.log(mpmath.binomial(trials, successes)) + successes * mpmath.log(p)
                exact += (trials - successes) * mpmath.log(1 - p)
                assert abs(exact - logarithms[successes]) <= error
        assert error < 1e-9


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "1"])
def test_epsilons_are_checked(value):
    with pytest.raises(InvalidArgument) as refusal:
        compose_pure([1.0, value], 1e-5)
    assert str(refusal.value) == f"epsilon must be a finite number greater than 0 (in nats), got {value!r}."


@pytest.mark.parametrize("value", [-1e-9, 1, math.nan, True, "0"])
def test_delta_is_checked(value):
    with pytest.raises(InvalidArgument) as refusal:
        compose_pure([1.0], value)
    assert str(refusal.value) == f"delta must be a number of at least 0 and less than 1, got {value!r}."
