"""What a record pays for its messages, the answers themselves, and what the server computes from them."""

import numpy as np
import pytest

from fate_dp.components.shuffler import run as answering
from fate_dp.components.shuffler.settings import Request
from fate_dp.components.shuffler.statistics import QUANTILE, calibrated_epsilon0, epsilon_of, events_of, statistic
from fate_dp.privacy.accounting.shuffling import shuffle_composition_epsilon, shuffle_epsilon
from fate_dp.privacy.mechanisms.randomized_response import keep_probability

MEAN = Request("income", "mean", 0.0, 100.0, points=2)
HISTOGRAM = Request("age", "histogram", 20.0, 80.0, bins=3)
FREQUENCY = Request("own", "frequency", values=(0.0, 1.0))
KEY = bytes(range(32))


def test_one_request_costs_one_round_of_shuffling():
    assert epsilon_of([MEAN], 1.0, 1000, 1e-6) == pytest.approx(
        shuffle_epsilon(1.0, 1000, 1e-6, "randomized_response"), rel=1e-12
    )
    assert epsilon_of([HISTOGRAM], 1.0, 1000, 1e-6) == pytest.approx(shuffle_epsilon(1.0, 1000, 1e-6, "any"), rel=1e-12)


def test_requests_compose_as_rounds():
    assert epsilon_of([HISTOGRAM, FREQUENCY], 1.0, 1000, 1e-6) <= shuffle_composition_epsilon(1.0, 1000, 2, 1e-6, "any")
    assert epsilon_of([HISTOGRAM, FREQUENCY], 1.0, 1000, 1e-6) > shuffle_epsilon(1.0, 1000, 1e-6, "any")


def test_events_say_whom_they_protect_from_whom():
    (purpose, event), (_, other) = events_of([MEAN, HISTOGRAM], 0.5, 77)
    assert purpose == "shuffler: mean of income"
    assert (event.unit, event.relation, event.observers) == ("record", "replace_one", ("client", "model", "server"))
    assert event.parameters == {"epsilon0": 0.5, "messages": 77, "randomizer": "randomized_response"}
    assert other.parameters["randomizer"] == "any"


@pytest.mark.parametrize(
    "asked, epsilon, messages", [((MEAN, HISTOGRAM), 0.5, 500), ((MEAN,), 3.0, 20), ((HISTOGRAM,), 1.0, 5)]
)
def test_the_calibrated_epsilon0_keeps_the_total_and_hardly_a_larger_one_would(asked, epsilon, messages):
    epsilon0 = calibrated_epsilon0(asked, epsilon, 1e-6, messages)
    assert epsilon_of(asked, epsilon0, messages, 1e-6) <= epsilon < epsilon_of(asked, epsilon0 * 1.002, messages, 1e-6)


def test_a_block_that_is_computed_twice_gives_the_same_answers_and_another_block_others():
    values = np.linspace(-10, 110, 500)
    first = answering.randomized_block(3, values, MEAN, 0, 1.0, KEY)
    np.testing.assert_array_equal(first, answering.randomized_block(3, values, MEAN, 0, 1.0, KEY))
    for block, number, key in ((4, 0, KEY), (3, 1, KEY), (3, 0, bytes(32))):
        assert (first != answering.randomized_block(block, values, MEAN, number, 1.0, key)).mean() > 0.1


@pytest.mark.parametrize("request_, value, place", [(MEAN, 100.0, 1), (HISTOGRAM, 30.0, 0), (FREQUENCY, 7.0, 2)])
def test_answers_are_kept_at_the_rate_of_epsilon0(request_, value, place):
    """40,000 records of one value: the standard deviation of a share is below 0.0025; 2/3 and 3/2 of epsilon0 move it by 0.05."""
    answers = answering.randomized_block(0, np.full(40_000, value), request_, 0, 1.0, KEY)
    shares = np.bincount(answers, minlength=len(request_.grid)) / 40_000
    keep = keep_probability(1.0, len(request_.grid))
    assert abs(shares[place] - keep) < 0.0125
    for wrong in (2 / 3, 3 / 2):
        assert abs(shares[place] - keep_probability(wrong, len(request_.grid))) > 0.025
    others = np.delete(shares, place)
    np.testing.assert_allclose(others, (1 - keep) / len(others), atol=0.0125)


def test_payloads_come_back_as_answers():
    answers = np.array([0, 2, 1, 2])
    np.testing.assert_array_equal(answering.answers_of(answering.payloads_of(answers), HISTOGRAM), answers)


@pytest.mark.parametrize(
    "payloads, sentence",
    [
        ([b"\0\3"], "is no point of its grid"),
        ([b"\0"], "does not hold 2 bytes"),
        ([b"\0\1", b"\0\0\0"], "does not hold 2 bytes"),
    ],
)
def test_what_is_no_answer_is_refused(payloads, sentence):
    with pytest.raises(ValueError, match=f"A message about the histogram of age {sentence}"):
        answering.answers_of(payloads, HISTOGRAM)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """400 runs on the same 300 records: 95 % intervals miss about 20 times; 60 or none would be out of 8 standard deviations."""
    values = np.random.default_rng(5).uniform(0, 100, 300)
    misses = shares_missed = 0
    for run in range(400):
        found = statistic(MEAN, answering.randomized_block(run, values, MEAN, 0, 2.0, KEY), 2.0)
        low, high = found["interval"]
        misses += not low <= values.mean() <= high
        ages = statistic(HISTOGRAM, answering.randomized_block(run, values, HISTOGRAM, 1, 2.0, KEY), 2.0)
        low, high = ages["shares"][1]["interval"]
        shares_missed += not low <= ((values >= 40) & (values < 60)).mean() <= high
    # The error is that of a sample of records, above that of the answers alone, so that misses are rarer than 5 %.
    assert 1 <= misses <= 40 and 1 <= shares_missed <= 40


def test_estimates_are_unbiased_and_spread_by_no_more_than_their_error():
    values = np.repeat([10.0, 90.0, 45.0], [100, 60, 40])
    found = [statistic(MEAN, answering.randomized_block(run, values, MEAN, 0, 1.0, KEY), 1.0) for run in range(400)]
    estimates = np.array([item["estimate"] for item in found])
    error = np.mean([item["standard_error"] for item in found])
    assert abs(estimates.mean() - values.mean()) < 5 * estimates.std() / 20
    assert 0.7 * error < estimates.std() < 1.1 * error


def test_shares_add_up_and_an_unseen_category_is_not_certain():
    answers = np.zeros(50, dtype=int)
    found = statistic(FREQUENCY, answers, 3.0)
    assert sum(share["estimate"] for share in found["shares"]) == pytest.approx(1)
    assert [share["value"] for share in found["shares"]] == [0.0, 1.0, "other"]
    for share in found["shares"]:
        assert share["standard_error"] > 0.02
        half = (share["interval"][1] - share["interval"][0]) / 2
        assert half == pytest.approx(QUANTILE * share["standard_error"])
