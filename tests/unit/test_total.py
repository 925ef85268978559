"""Totals of mixed charges: the smallest sound answer, exact where it can be, refusals."""

import math
import time

import pytest

from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.accounting.shuffling import shuffle_epsilon
from fate_dp.privacy.accounting.total import total_delta, total_epsilon
from fate_dp.privacy.events import (
    ADD_OR_REMOVE,
    REPLACE_ONE,
    Event,
    ExponentialMechanism,
    FixedSizeSampledGaussian,
    Gaussian,
    GroupedGaussian,
    Laplace,
    NotPrivate,
    PoissonSampledGaussian,
    PureDP,
    RandomizedResponse,
    Shuffled,
)
from fate_dp.privacy.validation import InvalidArgument

MIXTURE = (
    RandomizedResponse(0.5),
    RandomizedResponse(1.0, 10),
    PureDP(0.3),
    ExponentialMechanism(1.0),
    Laplace(3.0),
    Gaussian(4.0),
    GroupedGaussian((1.0, 1.0), (4.0, 5.0)),
    PoissonSampledGaussian(0.01, 1.0),
    FixedSizeSampledGaussian(1000, 10, 2.0),
    Shuffled(1.0, 10_000),
    Shuffled(2.0, 10_000, "randomized_response"),
)


def event(process, relation=REPLACE_ONE, unit="record", slack=0.0, observers="model"):
    return Event(process, unit, relation, observers, slack)


def test_nothing_was_spent():
    assert total_epsilon([], 0) == 0.0 and total_delta([], 0.0) == 0.0


def test_one_release_of_randomised_response_costs_its_epsilon():
    assert total_epsilon([(event(RandomizedResponse(2.0), unit="label"), 1)], 0) == 2.0
    assert total_delta([(event(RandomizedResponse(2.0), unit="label"), 1)], 2.0) == 0.0


def test_pure_epsilons_add_up_at_delta_zero_and_less_above():
    charges = [(event(RandomizedResponse(1.0)), 2), (event(PureDP(0.5)), 3), (event(Laplace(4.0)), 4)]
    assert total_epsilon(charges, 0) == pytest.approx(4.5, rel=1e-15) and total_epsilon(charges, 0) >= 4.5
    assert total_epsilon(charges, 1e-6) < 4.5
    assert total_epsilon([(event(PureDP(1e-3)), 10**5)], 0) == pytest.approx(100, rel=1e-12)
    assert total_epsilon([(event(PureDP(1e-3)), 10**5)], 1e-6) < 1.4


@pytest.mark.parametrize("epsilon, count, expected", [(1.0, 10, 9.9997706345), (0.5, 20, 9.8594110241)])
def test_fresh_flips_cost_what_the_golden_table_says(epsilon, count, expected):
    reported = total_epsilon([(event(RandomizedResponse(epsilon)), count)], 1e-5)
    assert expected * (1 - 1e-10) <= reported <= expected * (1 + 1e-9)


def test_noise_that_is_not_pure_has_no_epsilon_at_delta_zero():
    assert total_epsilon([(event(Gaussian(5.0)), 1)], 0) == math.inf
    assert total_epsilon([(event(RandomizedResponse(1.0), slack=1e-15), 1)], 0) == math.inf


def test_a_release_without_guarantee_makes_the_total_infinite():
    charges = [(event(RandomizedResponse(1.0)), 1), (event(NotPrivate("noise from a test stream")), 1)]
    assert total_epsilon(charges, 1e-5) == total_epsilon(charges, 0) == math.inf
    assert total_delta(charges, 100.0) == 1.0


@pytest.mark.parametrize("process", MIXTURE)
def test_the_total_is_never_above_any_accountant(process):
    charges = [(event(process), 3)]
    total = total_epsilon(charges, 1e-6)
    assert 0 < total < math.inf
    for kind in ("pld", "rdp"):
        accountant = make_accountant(kind, REPLACE_ONE)
        if accountant.reason_against(event(process)) is None:
            accountant.compose(event(process), 3)
            assert total <= accountant.epsilon(1e-6) + 1e-3 * (kind == "rdp")


def test_a_mixture_costs_more_than_its_parts_and_less_than_their_sum():
    charges = [(event(process), 2) for process in MIXTURE]
    alone = [total_epsilon([charge], 1e-7) for charge in charges]
    total = total_epsilon(charges, 1e-6)
    assert max(alone) < total < 0.8 * sum(alone)
    assert total == total_epsilon(charges[::-1], 1e-6)
    assert total_delta(charges, total) <= 1e-6


def test_counts_of_equal_events_add_up_whoever_observed_them():
    process = PoissonSampledGaussian(0.02, 1.1)
    at_once = total_epsilon([(event(process), 500)], 1e-5)
    in_parts = [(event(process), 200), (event(process, observers="server"), 100), (event(process), 200)]
    assert total_epsilon(in_parts, 1e-5) == at_once
    assert total_epsilon([(event(process), 250)], 1e-5) < 0.85 * at_once


def test_a_dozen_different_trainings_are_quick():
    trainings = [PoissonSampledGaussian(0.01 + number / 1000, 1 + number / 10) for number in range(12)]
    charges = [(event(training, ADD_OR_REMOVE), 1000) for training in trainings]
    total_epsilon(charges[:1], 1e-6)
    # Time of this process, not of the machine; 0.2 s on an idle core, and several times as much on a slow and busy one.
    began = time.process_time()
    total = total_epsilon(charges, 1e-6)
    assert time.process_time() - began < 10
    assert total == pytest.approx(6.4315, rel=1e-3)


def test_tiny_deltas_have_a_finite_answer():
    charges = [(event(PoissonSampledGaussian(0.01, 1.0), ADD_OR_REMOVE), 10_000)]
    epsilons = [total_epsilon(charges, delta) for delta in (1e-5, 1e-8, 1e-11, 1e-14, 1e-20)]
    assert epsilons == sorted(epsilons) and epsilons[-1] < 20


def test_one_shuffled_round_costs_what_the_shuffling_bound_says():
    charges = [(event(Shuffled(2.0, 10_000, "randomized_response"), unit="client"), 1)]
    assert total_epsilon(charges, 1e-6) == shuffle_epsilon(2.0, 10_000, 1e-6, "randomized_response")
    assert total_epsilon([(event(Shuffled(2.0, 10, "any")), 3)], 0) == 6.0


@pytest.mark.parametrize("randomizer", ["any", "randomized_response"])
def test_shuffled_rounds_and_their_slack_count(randomizer):
    process = Shuffled(1.0, 10_000, randomizer)
    once, often = (total_epsilon([(event(process), count)], 1e-6) for count in (1, 16))
    assert 2 * once < often
    assert total_epsilon([(event(process, slack=1e-8), 16)], 1e-6) > often * (1 + 1e-6)


def test_slack_raises_the_total():
    def total(slack, delta):
        return total_epsilon([(event(RandomizedResponse(1.0), slack=slack), 3)], delta)

    assert total(1e-12, 1e-6) > total(0.0, 1e-6)
    assert total(0.0, 1e-9) < total(1e-12, 1e-9) <= 3.0
    assert total(1e-8, 1e-9) == math.inf


def test_what_cannot_be_added_is_refused_in_one_sentence():
    with pytest.raises(InvalidArgument) as refused:
        total_epsilon([(event(Gaussian(1.0)), 1), (event(Gaussian(1.0), ADD_OR_REMOVE), 1)], 1e-5)
    assert str(refused.value) == (
        "The charges have more than one relation, add_or_remove and replace_one, and cannot be added up."
    )
    with pytest.raises(InvalidArgument) as refused:
        total_delta([(event(PureDP(1.0)), 1), (event(PureDP(1.0), unit="label"), 1)], 1.0)
    assert str(refused.value) == "The charges have more than one unit, label and record, and cannot be added up."
    with pytest.raises(InvalidArgument, match="^count must be a whole number of at least 1, got 0.$"):
        total_epsilon([(event(PureDP(1.0)), 0)], 0)
    with pytest.raises(InvalidArgument, match="^delta must be a number of at least 0 and less than 1, got 1.0.$"):
        total_epsilon([], 1.0)
