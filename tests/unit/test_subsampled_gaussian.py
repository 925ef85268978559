"""Epsilon of Poisson-sampled Gaussian steps: golden values under both relations, exactness, monotony, refusals."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy.accounting.calibration import subsampled_gaussian_epsilon
from fate_dp.privacy.accounting.gaussian import gaussian_epsilon
from fate_dp.privacy.events import InvalidEvent
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic


@pytest.mark.parametrize(
    "arguments, expected, tolerance",
    [
        ((0.04, 1.5, 2250, 1e-5), 6.7688, 1e-5),
        ((0.04, 1.5, 2250, 1e-5, "rdp"), 7.3291, 1e-4),
        ((150 / 60000, 1.3, 15 * 400, 1e-5, "rdp", "add_or_remove"), 0.7242234026, 1e-8),
        ((4096 / 60000, 3.937, 219, 1e-5, "pld", "add_or_remove"), 1.00, 5e-3),
        ((4096 / 60000, 3.937, 219, 1e-5, "pld", "replace_one"), 2.05, 2.5e-3),
        ((1.0, 5.0, 10, 1e-5), 2.59438338, 1e-8),
        ((1.0, 5.0, 10, 1e-5, "rdp"), 2.81365325, 1e-8),
    ],
)
def test_golden_values(arguments, expected, tolerance):
    assert subsampled_gaussian_epsilon(*arguments) == pytest.approx(expected, rel=tolerance)


def test_the_prv_accountant_lies_above():
    assert subsampled_gaussian_epsilon(0.04, 1.5, 2250, 1e-5) < 6.7774


@pytest.mark.parametrize("relation, clips", [("add_or_remove", 1), ("replace_one", 2)])
def test_without_sampling_the_answer_is_exact(relation, clips):
    reported = subsampled_gaussian_epsilon(1, 8.0, 4, 1e-9, relation=relation)
    exact = gaussian_epsilon(4.0, 1e-9, clips)
    assert exact <= reported <= exact * (1 + 1e-10)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_epsilon_grows_with_rate_steps_and_less_noise(accountant):
    def epsilon(rate=0.02, noise=1.5, steps=100, delta=1e-6):
        return subsampled_gaussian_epsilon(rate, noise, steps, delta, accountant)

    assert epsilon() < epsilon(rate=0.021)
    assert epsilon() < epsilon(noise=1.49)
    assert epsilon() < epsilon(steps=102)
    assert epsilon() < epsilon(delta=9e-7)


CASES = [("pld", "add_or_remove"), ("pld", "replace_one"), ("rdp", "add_or_remove"), ("rdp", "replace_one")]


@pytest.mark.parametrize("accountant, relation", CASES)
@settings(max_examples=2, deadline=None)
@given(
    rate=st.floats(1e-4, 0.5),
    noise=st.floats(0.6, 20),
    steps=st.integers(1, 2000),
    factor=st.floats(1.01, 2),
    log_delta=st.floats(-20, -3),
)
def test_epsilon_never_falls_with_rate_steps_and_less_noise(
    accountant, relation, rate, noise, steps, factor, log_delta
):
    def epsilon(rate=rate, noise=noise, steps=steps, delta=math.exp(log_delta)):
        return subsampled_gaussian_epsilon(rate, noise, steps, delta, accountant, relation)

    # The grid of losses follows its own width, so that two answers differ by its step; dp-accounting's series at
    # fractional orders lies above the divergence by amounts that jump.
    enough = epsilon() * (1 - {"pld": 1e-4, "rdp": 1e-2}[accountant]) - 1e-6
    assert epsilon(rate=rate * factor) >= enough
    assert epsilon(noise=noise / factor) >= enough
    assert epsilon(steps=math.ceil(steps * factor)) >= enough
    assert epsilon(delta=math.exp(log_delta) / factor) >= enough


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_renyi_replaces_by_way_of_removing_and_adding(delta):
    for rate, noise, steps, looseness in [(0.01, 0.8, 300, 4.0), (0.3, 4.0, 60, 1.4), (1 - 1e-9, 3.0, 5, 1.15)]:
        tight = subsampled_gaussian_epsilon(rate, noise, steps, delta, "pld", "replace_one")
        assert tight <= subsampled_gaussian_epsilon(rate, noise, steps, delta, "rdp", "replace_one") < looseness * tight


def test_orders_that_the_series_does_not_reach_are_bounded_by_their_neighbours():
    # At this rate dp-accounting finds no divergence at most orders below 3, without which epsilon would jump.
    below, at, above = (subsampled_gaussian_epsilon(rate, 2.0, 10, 1e-5, "rdp") for rate in (0.49, 0.5, 0.51))
    assert below < at < above and at - below == pytest.approx(above - at, rel=0.05)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_replacing_costs_more_than_removing_and_less_than_removing_and_adding(delta):
    removed = subsampled_gaussian_epsilon(0.1, 2.0, 50, delta)
    replaced = subsampled_gaussian_epsilon(0.1, 2.0, 50, delta, relation="replace_one")
    # Removing and adding is a path of length two: (2 e, (1 + e^e) d) from two times (e, d).
    assert removed < replaced
    halved = subsampled_gaussian_epsilon(0.1, 2.0, 50, delta / (1 + 2.72 ** (removed * 1.5)))
    assert replaced < 2 * halved


def test_bad_input_is_refused_in_one_sentence():
    with pytest.raises(InvalidArgument, match="^steps must be a whole number of at least 1, got 0.$"):
        subsampled_gaussian_epsilon(0.1, 1.0, 0, 1e-5)
    with pytest.raises(InvalidEvent, match="^sampling_probability must be greater than 0 and at most 1, got 1.5.$"):
        subsampled_gaussian_epsilon(1.5, 1.0, 10, 1e-5)
    with pytest.raises(InvalidEvent, match="^noise_multiplier must be a finite number greater than 0, got 0.$"):
        subsampled_gaussian_epsilon(0.1, 0, 10, 1e-5)
    with pytest.raises(InvalidArgument, match="^delta must be a number greater than 0 and less than 1, got 1.$"):
        subsampled_gaussian_epsilon(0.1, 1.0, 10, 1)
    with pytest.raises(InvalidArgument, match="^accountant must be one of pld, rdp, got 'PLD'.$"):
        subsampled_gaussian_epsilon(0.1, 1.0, 10, 1e-5, "PLD")
