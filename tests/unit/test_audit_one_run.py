"""The one-run audit against a naive sum in 50 digits, the values its paper prints, and the coverage it promises."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy.auditing.bounds import guess_coins, one_run_epsilon
from fate_dp.privacy.validation import InvalidArgument
from tests.support.distinguishing import audit_guesses, one_run_p_value

# (canaries, guesses, correct, delta, epsilon) as printed in arXiv 2305.08846v1, appendix D and section 7.
PRINTED = [(1000, 100, 75, 1e-4, 0.673), (100_000, 1510, 1439, 1e-5, 2.675)]
GRID = [
    (canaries, guesses, int(guesses * share), epsilon, delta)
    for canaries in (10, 100, 1000)
    for guesses in (canaries, canaries // 5)
    for share in (0.5, 0.8, 1)
    for epsilon in (0.0, 1.0, 4.0)
    for delta in (0.0, 1e-5, 1e-2)
]


def naive_p_value(canaries, guesses, correct, epsilon, delta):
    """The binomial sum and the delta term of theorem 5.2, term by term in right guesses."""
    with mpmath.workdps(50):
        right = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))

        def probability(count):
            return math.comb(guesses, count) * right**count * (1 - right) ** (guesses - count)

        tail = sum((probability(count) for count in range(correct, guesses + 1)), mpmath.mpf(0))
        slope = partial = mpmath.mpf(0)
        for step in range(1, correct + 1):
            partial += probability(correct - step)
            slope = max(slope, partial / step)
        return float(min(tail + 2 * canaries * mpmath.mpf(delta) * slope, 1))


@pytest.mark.parametrize("canaries", [10, 100, 1000])
def test_p_value_equals_the_naive_binomial_sum(canaries):
    for case in GRID:
        if case[0] == canaries:
            assert one_run_p_value(*case) == pytest.approx(naive_p_value(*case), rel=1e-9), case


@pytest.mark.parametrize("canaries, guesses, correct, delta, epsilon", PRINTED)
def test_epsilon_is_as_the_paper_prints_it(canaries, guesses, correct, delta, epsilon):
    assert one_run_epsilon(canaries, guesses, correct, delta, 0.95) == pytest.approx(epsilon, abs=1e-3)


@given(data=st.data(), canaries=st.integers(1, 200), delta=st.sampled_from([0.0, 1e-6, 1e-3, 0.1]))
@settings(max_examples=60)
def test_p_value_grows_with_epsilon_delta_and_canaries_and_falls_with_correct_guesses(data, canaries, delta):
    guesses = data.draw(st.integers(1, canaries))
    correct = data.draw(st.integers(1, guesses))
    epsilon = data.draw(st.floats(0, 10))
    value = one_run_p_value(canaries, guesses, correct, epsilon, delta) * (1 - 1e-9)
    assert value <= one_run_p_value(canaries, guesses, correct, epsilon + 0.3, delta)
    assert value <= one_run_p_value(canaries, guesses, correct, epsilon, min(2 * delta, 1))
    assert value <= one_run_p_value(canaries + 50, guesses, correct, epsilon, delta)
    assert value <= one_run_p_value(canaries, guesses, correct - 1, epsilon, delta)


@given(data=st.data(), guesses=st.integers(1, 300), confidence=st.sampled_from([0.5, 0.95, 1 - 1e-6]))
@settings(max_examples=60)
def test_bound_lies_just_under_the_first_epsilon_that_is_not_refuted(data, guesses, confidence):
    correct = data.draw(st.integers(0, guesses))
    bound = one_run_epsilon(guesses, guesses, correct, 1e-7, confidence)
    assert one_run_p_value(guesses, guesses, correct, bound + 1e-6, 1e-7) >= (1 - confidence) * (1 - 1e-9)
    if bound:
        assert one_run_p_value(guesses, guesses, correct, bound, 1e-7) < 1 - confidence


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_bound_exceeds_the_epsilon_of_randomised_response_no_more_often_than_its_confidence_allows(epsilon, confidence):
    """Exactly, summed over all numbers of right guesses, and not needlessly seldom: for this mechanism it is tight."""
    from scipy.stats import binom

    guesses, right = 120, 1 / (1 + math.exp(-epsilon))
    above = [v for v in range(guesses + 1) if one_run_epsilon(guesses, guesses, v, 0.0, confidence) > epsilon]
    wrongly = binom.pmf(above, guesses, right).sum()
    assert (1 - confidence) / 4 < wrongly <= 1 - confidence


@pytest.mark.parametrize("epsilon, delta", [(0.5, 1e-4), (1.0, 1e-3), (2.0, 1e-2)])
def test_p_value_covers_a_mechanism_that_betrays_every_coin_with_probability_delta(epsilon, delta):
    from scipy.stats import binom

    guesses, right = 100, 1 / (1 + math.exp(-epsilon))
    for correct in range(guesses + 1):
        reached = delta + (1 - delta) * binom.sf(correct - 1, guesses, right)
        assert reached <= one_run_p_value(guesses, guesses, correct, epsilon, delta) * (1 + 1e-9)


def test_nothing_guessed_and_pure_chance_refute_nothing_and_certainty_refutes_much():
    assert one_run_epsilon(100, 0, 0) == 0
    assert one_run_epsilon(1000, 1000, 500) == 0
    assert one_run_epsilon(1000, 1000, 1000) == pytest.approx(-math.log(0.05 ** (-1 / 1000) - 1), rel=1e-6)


def test_guesses_follow_the_scores_and_abstain_between():
    assert guess_coins([0.1, 3, -2, 0.5], 1, 2).tolist() == [-1, 1, -1, 0]
    assert guess_coins([1, 2], 0, 0).tolist() == [0, 0]
    assert guess_coins([1, 2], 2, 0).tolist() == [1, 1]


def test_coins_and_guesses_are_counted():
    coins, guesses = np.array([1, 1, -1, -1] * 50), np.array([1, 0, -1, 1] * 50)
    assert audit_guesses(coins, guesses, 1e-6, 0.9) == one_run_epsilon(200, 150, 100, 1e-6, 0.9)


@pytest.mark.parametrize(
    "refused, sentence",
    [
        (lambda: one_run_p_value(0, 0, 0, 1), "canaries must be a whole number from 1 to 1000000000, got 0."),
        (lambda: one_run_p_value(10, 11, 0, 1), "guesses must be a whole number from 0 to 10, got 11."),
        (lambda: one_run_p_value(10, 5, 6, 1), "correct must be a whole number from 0 to 5, got 6."),
        (lambda: one_run_p_value(10, 5, True, 1), "correct must be a whole number from 0 to 5, got True."),
        (lambda: one_run_p_value(10, 5, 5, -1), "epsilon must be a number from 0 to 700.0, got -1."),
        (lambda: one_run_p_value(10, 5, 5, math.nan), "epsilon must be a number from 0 to 700.0, got nan."),
        (lambda: one_run_p_value(10, 5, 5, 1, 1.5), "delta must be a number from 0 to 1, got 1.5."),
        (lambda: one_run_epsilon(10, 5, 5, 0.0, 1), "confidence must be a number strictly between 0 and 1, got 1."),
        (lambda: guess_coins([1, 2, 3], 2, 2), "guessed_tails must be a whole number from 0 to 1, got 2."),
        (
            lambda: guess_coins([1, math.nan], 1, 1),
            "scores must be a list of finite numbers, one per canary, got shape (2,) and type float64.",
        ),
        (
            lambda: audit_guesses([1, -1], [1]),
            "guesses must be one per coin, shape (2,), got shape (1,) and type int64.",
        ),
        (lambda: audit_guesses([1, 0], [1, 1]), "coins must hold -1 and 1 only, guesses -1, 0 and 1."),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(refused, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        refused()
    assert str(refusal.value) == sentence
