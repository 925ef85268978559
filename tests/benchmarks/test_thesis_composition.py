"""The source's composition statement: the formula as printed, and that it bounds what really happens."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from bench.thesis.composition import (
    source_composition_delta,
    source_composition_epsilon,
    unsampled_source_delta,
    unsampled_source_epsilon,
)
from fate_dp.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon
from fate_dp.privacy.validation import InvalidArgument

ROUNDS = st.integers(1, 60)
PROBABILITIES = st.floats(0.001, 0.999)
NOISE = st.floats(0.3, 20)
EPSILONS = st.floats(0, 15)
DELTAS = st.floats(math.log(1e-12), math.log(0.1)).map(math.exp)


def as_printed(rounds, probability, noise_multiplier, epsilon):
    """Eq. 3.23 with H = 1, in 60 digits."""
    with mpmath.workdps(60):
        p, sigma, epsilon = map(mpmath.mpf, (probability, noise_multiplier, epsilon))
        total = mpmath.mpf(0)
        for i in range(1, rounds + 1):
            root = mpmath.sqrt(i)
            first = mpmath.ncdf(root / (2 * sigma) - epsilon * sigma / root)
            second = mpmath.exp(epsilon) * mpmath.ncdf(-root / (2 * sigma) - epsilon * sigma / root)
            total += mpmath.binomial(rounds, i) * p**i * (1 - p) ** (rounds - i) * (first - second)
        return total


@settings(max_examples=60, deadline=None)
@given(ROUNDS, PROBABILITIES, NOISE, EPSILONS)
def test_delta_is_the_printed_formula_rounded_up(rounds, probability, noise, epsilon):
    exact = as_printed(rounds, probability, noise, epsilon)
    assert exact <= source_composition_delta(rounds, probability, noise, epsilon) <= exact * (1 + 1e-10) + 2e-300


@settings(max_examples=25, deadline=None)
@given(ROUNDS, PROBABILITIES, NOISE, DELTAS)
def test_epsilon_is_safe_and_smallest(rounds, probability, noise, delta):
    epsilon = source_composition_epsilon(rounds, probability, noise, delta)
    assert as_printed(rounds, probability, noise, epsilon) <= delta
    assert epsilon == 0 or as_printed(rounds, probability, noise, epsilon * (1 - 1e-8)) > delta


@settings(max_examples=40, deadline=None)
@given(ROUNDS, PROBABILITIES, NOISE, EPSILONS, DELTAS, st.floats(1.001, 3))
def test_monotone(rounds, probability, noise, epsilon, delta, factor):
    room = 1 + 1e-10
    base = source_composition_delta(rounds, probability, noise, epsilon)
    assert base <= source_composition_delta(rounds + 1, probability, noise, epsilon) * room
    assert base <= source_composition_delta(rounds, min(1.0, probability * factor), noise, epsilon) * room
    assert source_composition_delta(rounds, probability, noise * factor, epsilon) <= base * room
    assert source_composition_delta(rounds, probability, noise, epsilon * factor) <= base * room
    assert base <= unsampled_source_delta(rounds, noise, epsilon) * room + 1e-299
    needed = source_composition_epsilon(rounds, probability, noise, delta)
    assert source_composition_epsilon(rounds, probability, noise, delta ** (1 / factor)) <= needed * room
    assert source_composition_epsilon(rounds, probability, noise * factor, delta) <= needed * room
    assert needed <= source_composition_epsilon(rounds + 1, probability, noise, delta) * room
    assert needed <= unsampled_source_epsilon(rounds, noise, delta) * room


@settings(max_examples=60, deadline=None)
@given(PROBABILITIES, NOISE, st.floats(0.01, 10))
def test_one_round_bounds_the_sampled_gaussian_and_is_not_tight(probability, noise, epsilon):
    """The exact divergence of one round from the mixture to N(0, sigma^2): the likelihood ratio is monotone."""
    threshold = noise**2 * math.log1p(math.expm1(epsilon) / probability) + 0.5
    above = probability * norm.sf(threshold, 1, noise) + (1 - probability) * norm.sf(threshold, 0, noise)
    exact = above - math.exp(epsilon) * norm.sf(threshold, 0, noise)
    claimed = source_composition_delta(1, probability, noise, epsilon)
    assert exact <= claimed * (1 + 1e-9) + 1e-15
    assert claimed <= probability * gaussian_delta(noise, epsilon) * (1 + 1e-9) + 2e-300


@pytest.mark.parametrize("probability, noise, rounds", [(0.04, 1.5, 2250), (0.01, 4.0, 500)])
def test_lies_between_pld_and_no_sampling(probability, noise, rounds):
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(PoissonSampledDpEvent(probability, GaussianDpEvent(noise)), rounds)
    source = source_composition_epsilon(rounds, probability, noise, 1e-5)
    assert 4 * accountant.get_epsilon(1e-5) < source < unsampled_source_epsilon(rounds, noise, 1e-5) / 4


def test_every_record_in_every_round():
    assert source_composition_delta(25, 1, 10, 1) == pytest.approx(gaussian_delta(2, 1), rel=1e-10)
    assert source_composition_epsilon(25, 1, 10, 1e-5) == pytest.approx(gaussian_epsilon(2, 1e-5), rel=1e-10)
    assert unsampled_source_epsilon(25, 10, 1e-5) == pytest.approx(gaussian_epsilon(2, 1e-5), rel=1e-14)
    assert unsampled_source_delta(25, 10, 1) == pytest.approx(gaussian_delta(2, 1), rel=1e-13)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_equation_3_25_is_3_24_in_other_variables(alpha):
    rounds, epsilon = 100, 2.0
    sigma = alpha * math.sqrt(rounds) / math.sqrt(2 * epsilon)
    printed = norm.cdf(math.sqrt(epsilon / 2) * (1 / alpha - alpha)) - math.exp(epsilon) * norm.cdf(
        -math.sqrt(epsilon / 2) * (1 / alpha + alpha)
    )
    assert unsampled_source_delta(rounds, sigma, epsilon) == pytest.approx(printed, rel=1e-9)


def test_boundaries():
    assert source_composition_epsilon(100, 0.001, 20, 0.05) == 0.0
    assert source_composition_delta(1000, 0.5, 1e-6, 1) == 1.0
    assert 0 < source_composition_delta(10, 0.01, 1e6, 50) <= 1e-299
    assert source_composition_delta(1, 1e-300, 1, 0) <= 1e-298


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "3", math.nan])
def test_rounds_are_checked(value):
    for call in (lambda: source_composition_delta(value, 0.1, 1, 1), lambda: unsampled_source_epsilon(value, 1, 1e-5)):
        with pytest.raises(InvalidArgument) as refusal:
            call()
        assert str(refusal.value) == f"rounds must be a whole number of at least 1, got {value!r}."


@pytest.mark.parametrize("value", [0, -0.1, 1.1, True, "0.5", math.nan])
def test_sampling_probability_is_checked(value):
    with pytest.raises(InvalidArgument) as refusal:
        source_composition_delta(1, value, 1, 1)
    assert str(refusal.value) == f"sampling_probability must be a number greater than 0 and at most 1, got {value!r}."


def test_noise_epsilon_and_delta_are_checked():
    with pytest.raises(InvalidArgument, match="^noise_multiplier must be a finite number greater than 0, got 0.$"):
        source_composition_delta(1, 0.1, 0, 1)
    with pytest.raises(InvalidArgument, match=r"^epsilon must be a finite number of at least 0 \(in nats\), got -1.$"):
        source_composition_delta(1, 0.1, 1, -1)
    with pytest.raises(InvalidArgument, match="^delta must be a number greater than 0 and less than 1, got 0.$"):
        source_composition_epsilon(1, 0.1, 1, 0)
