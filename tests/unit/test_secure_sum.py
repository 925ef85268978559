"""Secure sum: shares of noise, what happens when clients are missing, and what summing discrete Gaussians costs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.privacy import events
from fate_dp.privacy.accounting.secure_sum import (
    SecureSum,
    TooFewArrived,
    check_arrivals,
    effective_noise_multiplier,
    noise_share_sigma,
    secure_sum_event,
    summed_discrete_gaussian_slack,
)
from fate_dp.privacy.noise.discrete import rounded_gaussian_slack
from fate_dp.privacy.validation import InvalidArgument

FINE = 2.0**40


def law(sigma, reach):
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2))
    return weights / weights.sum()


def distance_of_sum(sigma, shares):
    reach = math.ceil(12 * sigma * math.sqrt(shares)) + 12
    single = law(sigma, reach)
    summed = single
    for _ in range(shares - 1):
        summed = np.convolve(summed, single, mode="same")
    return 0.5 * float(np.abs(summed - law(sigma * math.sqrt(shares), reach)).sum())


@pytest.mark.parametrize("shares", [2, 3, 5, 12])
@pytest.mark.parametrize("sigma", [0.5, 0.6, 0.75, 1.0])
def test_slack_bounds_the_distance_of_a_sum_from_one_discrete_gaussian(sigma, shares):
    exact = distance_of_sum(sigma, shares)
    assert exact > 1e-10, "the comparison must not drown in rounding errors"
    assert exact <= summed_discrete_gaussian_slack(sigma, shares, 1)


@pytest.mark.parametrize("sigma", [0.5, 0.75, 1.0])
def test_slack_of_two_shares_is_of_the_right_size(sigma):
    assert distance_of_sum(sigma, 2) >= summed_discrete_gaussian_slack(sigma, 2, 1) / 10


def test_slack_is_a_quarter_of_tau_per_coordinate():
    tau = 10 * sum(math.exp(-2 * math.pi**2 * 0.81 * k / (k + 1)) for k in range(1, 7))
    assert summed_discrete_gaussian_slack(0.9, 7, 30) == pytest.approx(30 * tau / 4, rel=1e-12)
    assert summed_discrete_gaussian_slack(0.9, 7, 10**9) == 1.0
    assert summed_discrete_gaussian_slack(0.9, 1, 30) == 0.0


def test_slack_of_fine_grids_is_positive_and_tiny():
    assert 0 < summed_discrete_gaussian_slack(FINE, 10, 10**6) < 1e-290


@given(multiplier=st.floats(1e-3, 1e3), clip=st.floats(1e-3, 1e3), clients=st.integers(2, 10**6), data=st.data())
def test_unknown_shares_have_the_target_variance_and_hardly_more(multiplier, clip, clients, data):
    max_dropouts = data.draw(st.integers(1, clients - 1))
    share = Fraction(noise_share_sigma(multiplier, clip, clients, max_dropouts))
    target = (Fraction(multiplier) * Fraction(clip)) ** 2
    assert target <= (clients - max_dropouts) * share**2 <= target * Fraction(1 + 1e-12)


def test_three_clients_of_which_one_is_tolerated():
    assert noise_share_sigma(2.0, 3.0, 3, 1) == pytest.approx(6 / math.sqrt(2), rel=1e-12)


@pytest.mark.parametrize("relation, moved", [("add_or_remove", 1), ("replace_one", 2)])
def test_event_of_a_full_round_is_gaussian_in_units_of_the_sensitivity(relation, moved):
    configuration = SecureSum(4.0, 10, 1, 100, FINE)
    event = secure_sum_event(configuration, "client", relation)
    assert event.process.noise_multiplier == pytest.approx(4.0 / moved, rel=1e-9)
    assert event.process.noise_multiplier < 4.0 / moved
    assert event.observers == ("client", "server") and event.unit == "client"
    assert 100 * rounded_gaussian_slack(3 * FINE) <= event.slack < 1e-20


@pytest.mark.parametrize("relation", events.RELATIONS)
def test_event_of_a_sampled_round_is_in_units_of_the_clip_under_both_relations(relation):
    event = secure_sum_event(SecureSum(4.0, 10, 1, 100, FINE), "record", relation, 0.05, ("client", "model", "server"))
    assert isinstance(event.process, events.PoissonSampledGaussian)
    assert event.process.noise_multiplier == pytest.approx(4.0, rel=1e-9)
    assert event.process.sampling_probability == 0.05 and event.observers == ("client", "model", "server")


def test_rounding_to_a_coarse_grid_lowers_the_multiplier_and_is_charged():
    # Nine shares of 10 steps are 30 steps of noise, so the clip is 15 steps and rounding adds 4.
    configuration = SecureSum(2.0, 10, 1, 16, 10.0)
    assert effective_noise_multiplier(configuration) == pytest.approx(30 / 19, rel=1e-12)
    assert effective_noise_multiplier(configuration) <= 30 / 19
    slack = secure_sum_event(configuration, "client", "add_or_remove").slack
    assert slack == pytest.approx(16 * rounded_gaussian_slack(30.0), rel=1e-9)


def test_slack_counts_both_distances_and_never_exceeds_1():
    configuration = SecureSum(2.0, 6, 1, 3, 0.8)
    both = summed_discrete_gaussian_slack(0.8, 5, 3) + 3 * rounded_gaussian_slack(0.8 * math.sqrt(5))
    assert both <= secure_sum_event(configuration, "client", "replace_one").slack <= both * (1 + 1e-9)
    assert secure_sum_event(SecureSum(2.0, 6, 1, 10**6, 0.8), "client", "replace_one").slack == 1.0


def test_more_tolerated_clients_never_help():
    shares = [noise_share_sigma(1.0, 1.0, 20, max_dropouts) for max_dropouts in range(1, 20)]
    assert shares == sorted(shares) and shares[-1] >= 1.0 > shares[-2]


@pytest.mark.parametrize("max_dropouts, colluding, least", [(1, 1, 10), (3, 1, 8), (3, 2, 9), (3, 3, 10)])
def test_a_round_with_too_few_arrivals_is_refused(max_dropouts, colluding, least):
    configuration = SecureSum(1.0, 10, max_dropouts, 5, FINE, colluding)
    assert check_arrivals(configuration, least) == least
    with pytest.raises(TooFewArrived) as refusal:
        check_arrivals(configuration, least - 1)
    assert str(refusal.value) == (
        f"arrived must be at least {least} of 10 clients, got {least - 1}. "
        "The round is aborted, since its sum would carry less noise than was promised."
    )


def test_what_arrives_leaves_a_colluding_client_the_promised_noise():
    configuration = SecureSum(1.5, 12, 4, 5, FINE, colluding=2)
    unknown = configuration.least_arrivals - configuration.colluding
    assert math.sqrt(unknown) * noise_share_sigma(1.5, 1.0, 12, 4) >= 1.5


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"max_dropouts": 0}, "max_dropouts must be a whole number of at least 1, got 0."),
        ({"max_dropouts": True}, "max_dropouts must be a whole number of at least 1, got True."),
        ({"max_dropouts": 10}, "max_dropouts must be less than the number of clients, 10, got 10."),
        ({"clients": 1}, "clients must be a whole number of at least 2, got 1."),
        ({"clients": 2.5}, "clients must be a whole number of at least 2, got 2.5."),
        ({"noise_multiplier": 0}, "noise_multiplier must be a finite number greater than 0, got 0."),
        ({"noise_multiplier": math.nan}, "noise_multiplier must be a finite number greater than 0, got nan."),
        ({"dimension": 0}, "dimension must be a whole number of at least 1, got 0."),
        ({"share_sigma_in_steps": 0.4}, "share_sigma_in_steps must be at least 0.5, got 0.4."),
        ({"colluding": 0}, "colluding must be a whole number of at least 1, got 0."),
        ({"colluding": 3}, "colluding must be at most max_dropouts, 2, got 3."),
    ],
)
def test_configurations_that_are_refused(change, sentence):
    good = {"noise_multiplier": 1.0, "clients": 10, "max_dropouts": 2, "dimension": 5, "share_sigma_in_steps": 100.0}
    with pytest.raises(InvalidArgument) as refusal:
        SecureSum(**{**good, **change})
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ((1.0, 0.0, 3, 1), "clip must be a finite number greater than 0, got 0.0."),
        ((1.0, 1.0, 3, 0), "max_dropouts must be a whole number of at least 1, got 0."),
        ((1.0, 1.0, 3, 3), "max_dropouts must be less than the number of clients, 3, got 3."),
    ],
)
def test_shares_that_are_refused(arguments, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        noise_share_sigma(*arguments)
    assert str(refusal.value) == sentence


def test_more_arrivals_than_clients_are_refused():
    with pytest.raises(InvalidArgument, match="^arrived must be at most the number of clients, 10, got 11.$"):
        check_arrivals(SecureSum(1.0, 10, 2, 5, FINE), 11)
