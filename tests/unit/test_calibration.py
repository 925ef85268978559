"""Calibration: golden values, never overshooting, never much more noise than needed."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.accounting.calibration import (
    UnreachableTarget,
    calibrate,
    calibrate_noise_multiplier,
    subsampled_gaussian_epsilon,
)
from fate_dp.privacy.accounting.gaussian import gaussian_sigma
from fate_dp.privacy.events import Event, Gaussian, InvalidEvent, Laplace, PureDP
from fate_dp.privacy.validation import InvalidArgument


def test_golden_values():
    assert calibrate_noise_multiplier(8, 1e-5, 0.04, 2250, accountant="rdp") == pytest.approx(1.416, abs=5e-4)
    tight = calibrate_noise_multiplier(8, 1e-5, 0.04, 2250)
    # The PRV accountant's 1.3477 is itself an upper bound.
    assert 1.3477 * 0.998 < tight <= 1.3477
    assert 7.999 < subsampled_gaussian_epsilon(0.04, tight, 2250, 1e-5) <= 8


@settings(max_examples=12, deadline=None)
@given(
    log_epsilon=st.floats(math.log(0.01), math.log(50)),
    log_delta=st.floats(math.log(1e-12), math.log(0.1)),
    steps=st.integers(1, 10**6),
    relation=st.sampled_from(["add_or_remove", "replace_one"]),
    accountant=st.sampled_from(["pld", "rdp"]),
)
def test_unsampled_noise_never_overshoots(log_epsilon, log_delta, steps, relation, accountant):
    epsilon, delta = math.exp(log_epsilon), math.exp(log_delta)
    noise = calibrate_noise_multiplier(epsilon, delta, 1, steps, accountant, relation)
    assert subsampled_gaussian_epsilon(1, noise, steps, delta, accountant, relation) <= epsilon
    clips = {"add_or_remove": 1, "replace_one": 2}[relation]
    exact = gaussian_sigma(epsilon, delta, clips * math.sqrt(steps))
    assert noise >= exact * (1 - 1e-12)
    assert accountant == "rdp" or noise <= exact * (1 + 1e-4)


@settings(max_examples=2, deadline=None)
@given(epsilon=st.floats(0.5, 8), rate=st.floats(0.005, 0.2), steps=st.integers(20, 500))
def test_sampled_noise_never_overshoots_and_is_barely_enough(epsilon, rate, steps):
    noise = calibrate_noise_multiplier(epsilon, 1e-6, rate, steps, "pld", "replace_one")
    assert subsampled_gaussian_epsilon(rate, noise, steps, 1e-6, "pld", "replace_one") <= epsilon
    assert subsampled_gaussian_epsilon(rate, noise * (1 - 1e-4), steps, 1e-6, "pld", "replace_one") > epsilon


@pytest.mark.parametrize("epsilon, delta", [(0.01, 1e-12), (50, 1e-12), (50, 0.1)])
def test_sampled_noise_at_the_corners(epsilon, delta):
    noise = calibrate_noise_multiplier(epsilon, delta, 0.3, 3)
    assert subsampled_gaussian_epsilon(0.3, noise, 3, delta) <= epsilon


def test_any_event_of_one_parameter_can_be_calibrated():
    def laplace(scale):
        return Event(Laplace(scale), "client", "replace_one", "server")

    scale = calibrate(laplace, 1.0, 1e-6, 10)
    accountant = make_accountant("pld", "replace_one")
    accountant.compose(laplace(scale), 10)
    assert 0.999 < accountant.epsilon(1e-6) <= 1.0
    weak = calibrate(lambda weakness: Event(PureDP(1 / weakness), "record", "replace_one", "model"), 2.0, 1e-9)
    assert 1 / weak == pytest.approx(2.0, rel=1e-3)


def test_a_target_that_needs_no_noise_gets_next_to_none():
    # A unit takes part with probability 1e-6 in all, less than delta.
    assert calibrate_noise_multiplier(1.0, 1e-5, 1e-7, 10, "rdp") < 0.4


def test_a_target_below_the_slack_is_refused():
    def sloppy(noise):
        return Event(Gaussian(noise), "record", "add_or_remove", "model", slack=1e-6)

    with pytest.raises(UnreachableTarget) as refused:
        calibrate(sloppy, 1.0, 1e-6, 10)
    assert str(refused.value) == (
        "The pld accountant finds no noise up to 1e+12 that meets epsilon 1 at delta 1e-06 over 10 releases."
    )


@pytest.mark.parametrize("epsilon, delta, steps", [(50, 1e-12, 100_000), (1, 1e-15, 100)])
def test_a_tiny_delta_is_met_with_less_noise_than_renyi_asks_for(epsilon, delta, steps):
    noise, more = (calibrate_noise_multiplier(epsilon, delta, 0.9, steps, kind) for kind in ("pld", "rdp"))
    assert noise < more
    assert subsampled_gaussian_epsilon(0.9, noise, steps, delta) <= epsilon


def test_a_delta_below_the_tails_of_the_grid_is_left_to_renyi():
    with pytest.raises(UnreachableTarget, match="^The pld accountant finds no noise up to"):
        calibrate_noise_multiplier(1, 1e-25, 0.9, 100)
    noise = calibrate_noise_multiplier(1, 1e-25, 0.9, 100, "rdp")
    assert subsampled_gaussian_epsilon(0.9, noise, 100, 1e-25, "rdp") <= 1


def test_bad_input_is_refused_in_one_sentence():
    with pytest.raises(InvalidArgument):
        calibrate_noise_multiplier(0, 1e-5, 0.1, 10)
    with pytest.raises(InvalidArgument):
        calibrate_noise_multiplier(1, 0, 0.1, 10)
    with pytest.raises(InvalidEvent):
        calibrate_noise_multiplier(1, 1e-5, 0, 10)
    with pytest.raises(InvalidArgument, match="^steps must be a whole number of at least 1, got 2.5.$"):
        calibrate_noise_multiplier(1, 1e-5, 0.1, 2.5)
