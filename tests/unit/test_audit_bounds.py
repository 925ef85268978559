"""Bounds from one run: never above what laws known exactly allow, close to them, and refused where the input is no run."""

import math
from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, nct, norm

from fate_dp.privacy.accounting.gaussian import gaussian_epsilon, gaussian_sigma
from fate_dp.privacy.auditing.bounds import one_run_epsilon
from fate_dp.privacy.auditing.one_run import (
    GAUSSIAN,
    GAUSSIAN_SUM,
    GUESSES,
    GUESSES_F_DP,
    GuessEvidence,
    OneRun,
    SumStatistic,
    best_bound,
    epsilon_of_mu,
    f_dp_epsilon,
    f_dp_mu,
    gaussian_sum_mu,
    least_noncentrality,
)
from fate_dp.privacy.validation import InvalidArgument


def gaussian_scores(rng, canaries, mu, deviation=3.0, mean=-7.0):
    """Coins and scores of a sum in which a canary's part is ``mu`` deviations of the noise."""
    coins = np.where(rng.random(canaries) < 0.5, 1, -1)
    return coins, mean + deviation * (mu * (coins == 1) + rng.normal(size=canaries))


def first_above(claim, guesses, bound):
    """The least count of right guesses whose bound exceeds the claim; bounds grow with the count."""
    return bisect_left(range(guesses + 1), True, key=lambda correct: bound(correct) > claim)


@pytest.mark.parametrize("guesses", [7, 100])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_a_count_that_refutes_an_epsilon_is_rare_under_randomised_response_of_it(guesses, epsilon):
    """Whose guesses are right with e^epsilon / (1 + e^epsilon), independently: a mechanism that really is private."""
    right = 1 / (1 + math.exp(-epsilon))
    for confidence in (0.9, 0.999):
        least = first_above(epsilon, guesses, lambda c: f_dp_epsilon(guesses, guesses, c, 0.0, confidence))
        assert binom.sf(least - 1, guesses, right) <= 1 - confidence


@pytest.mark.parametrize("guesses", [7, 100])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_a_count_that_refutes_a_mu_is_rare_under_the_best_guesses_on_gaussian_noise_of_it(guesses, mu):
    for confidence in (0.9, 0.999):
        least = first_above(mu, guesses, lambda c: f_dp_mu(guesses, guesses, c, confidence))
        assert binom.sf(least - 1, guesses, norm.cdf(mu / 2)) <= 1 - confidence


@pytest.mark.parametrize("guesses", [1, 2, 6])
@pytest.mark.parametrize("mu", [0.5, 1.5])
def test_no_law_of_counts_that_the_trade_off_curve_allows_reaches_what_is_called_too_rare(guesses, mu):
    """The largest tail under the same constraints, by linear programming on tangents of the curve."""
    from scipy.optimize import linprog

    canaries, confidence = guesses + 3, 0.9
    for correct in range(1, guesses + 1):
        rows, limits = [], []
        for count in range(1, correct + 1):
            right = np.array([i / canaries if i >= count else 0.0 for i in range(guesses + 1)])
            wrong = np.array([(guesses - i) / canaries if i >= count - 1 else 0.0 for i in range(guesses + 1)])
            for at in norm.cdf(np.linspace(-4, 4, 81)):
                quantile = norm.ppf(at)
                slope = norm.pdf(quantile + mu) / norm.pdf(quantile)
                rows.append(right - slope * wrong)
                limits.append(norm.cdf(quantile + mu) - slope * at)
        tail = np.array([-1.0 if i >= correct else 0.0 for i in range(guesses + 1)])
        found = linprog(tail, A_ub=rows, b_ub=limits, A_eq=np.ones((1, guesses + 1)), b_eq=[1.0], bounds=(0, 1))
        assert found.status == 0
        if f_dp_mu(canaries, guesses, correct, confidence) > mu:
            assert -found.fun <= 1 - confidence + 1e-3
        if -found.fun < 0.97 * (1 - confidence) and correct < guesses:
            assert f_dp_mu(canaries, guesses, correct, confidence) > mu * 0.97


@given(data=st.data(), canaries=st.integers(2, 200), delta=st.sampled_from([0.0, 1e-6, 1e-3]))
@settings(max_examples=40, deadline=None)
def test_bounds_under_a_curve_grow_with_right_guesses_and_fall_with_delta_and_confidence(data, canaries, delta):
    guesses = data.draw(st.integers(1, canaries))
    correct = data.draw(st.integers(1, guesses))
    bound = f_dp_epsilon(canaries, guesses, correct, delta, 0.9) + 1e-9
    assert f_dp_epsilon(canaries, guesses, correct - 1, delta, 0.9) <= bound
    assert f_dp_epsilon(canaries, guesses, correct, delta, 0.99) <= bound
    assert f_dp_epsilon(canaries, guesses, correct, min(2 * delta, 1), 0.9) <= bound
    assert f_dp_mu(canaries, guesses, correct - 1, 0.9) <= f_dp_mu(canaries, guesses, correct, 0.9) + 1e-9


@pytest.mark.statistical
def test_guesses_of_the_surest_canaries_alone_cover_the_mu_of_gaussian_noise_and_refute_half_of_it():
    rng, mu = np.random.default_rng(17), 2.0

    def bounds(runs):
        runs = (OneRun.of_scores(*gaussian_scores(rng, 400, mu), 0.2).evidence for _ in range(runs))
        return np.array([f_dp_mu(run.canaries, run.guessed, run.correct, 0.9) for run in runs])

    found = bounds(100)
    assert (found > mu).sum() <= binom.ppf(1 - 1e-5, 100, 0.1)
    assert (found > mu / 2).mean() > 0.8 and (found > mu * 3 / 2).sum() == 0


def test_the_curve_of_gaussian_noise_proves_more_than_the_binomial_with_its_term_for_delta():
    assert epsilon_of_mu(f_dp_mu(1000, 200, 150, 0.95), 1e-5) > 1.2 * one_run_epsilon(1000, 200, 150, 1e-5, 0.95)
    assert f_dp_epsilon(1000, 200, 100, 1e-5, 0.95) == 0
    assert f_dp_mu(1000, 0, 0, 0.95) == 0


@pytest.mark.parametrize("freedom, statistic", [(2, 4.0), (10, 3.0), (98, 6.0), (998, 15.0)])
@pytest.mark.parametrize("error", [0.05, 1e-3])
def test_the_noncentrality_is_that_of_the_noncentral_t_law_and_never_above_it(freedom, statistic, error):
    found = least_noncentrality(statistic, freedom, error)
    exact_tail = nct.sf(statistic, freedom, found) if found else error
    assert 0.97 * error <= exact_tail <= error * (1 + 1e-6)


@pytest.mark.statistical
def test_the_bound_of_a_gaussian_sum_covers_its_mu_as_often_as_it_says_and_no_more_often():
    rng, mu, runs = np.random.default_rng(7), 1.3, 300
    above = sum(gaussian_sum_mu(SumStatistic.of(*gaussian_scores(rng, 60, mu)), 0.9) > mu for _ in range(runs))
    low, high = binom.ppf([1e-5, 1 - 1e-5], runs, 0.1)
    assert low <= above <= high
    smaller = sum(gaussian_sum_mu(SumStatistic.of(*gaussian_scores(rng, 60, mu)), 0.9) > mu * 2 / 3 for _ in range(100))
    larger = sum(gaussian_sum_mu(SumStatistic.of(*gaussian_scores(rng, 60, mu)), 0.9) > mu * 3 / 2 for _ in range(100))
    assert smaller > 50 and larger < 5


def test_the_best_bound_of_a_gaussian_sum_is_more_than_half_of_a_tight_claim_and_below_it():
    rng, mu = np.random.default_rng(3), 1 / gaussian_sigma(4.0, 1e-5)
    evidence = OneRun.of_scores(*gaussian_scores(rng, 1000, mu)).evidence
    found = best_bound(evidence, 1e-5, 0.95, GAUSSIAN)
    assert found.method == GAUSSIAN_SUM and 2.0 < found.epsilon < 4.0
    assert 0 < found.bounds[GUESSES] < found.bounds[GUESSES_F_DP] < found.bounds[GAUSSIAN_SUM]
    assert set(best_bound(evidence, 1e-5).bounds) == {GUESSES, GUESSES_F_DP}


def test_several_bounds_share_the_error_of_one():
    assert best_bound(GuessEvidence(50, 50, 50), 0.0, 0.9).bounds[GUESSES] == one_run_epsilon(50, 50, 50, 0.0, 0.95)


def test_scores_without_any_noise_prove_as_much_as_is_counted():
    coins = np.array([1, -1] * 20)
    assert gaussian_sum_mu(SumStatistic.of(coins, coins * 1.0)) == math.inf
    assert best_bound(OneRun.of_scores(coins, coins * 1.0).evidence, 1e-5, 0.95, GAUSSIAN).epsilon == 700.0
    assert all(gaussian_sum_mu(SumStatistic.of(coins, scores)) == 0 for scores in (-coins * 1.0, np.zeros(40)))


def test_epsilon_of_a_mu_is_that_of_the_gaussian_mechanism():
    assert epsilon_of_mu(0.5, 1e-5) == pytest.approx(gaussian_epsilon(2.0, 1e-5), rel=1e-12)
    assert epsilon_of_mu(0.0, 1e-5) == 0


@pytest.mark.parametrize(
    "call, sentence",
    [
        (
            lambda: OneRun(np.ones(3), np.ones(2)),
            "guesses must be one per coin, shape \\(3,\\), of at least one, got shape \\(2,\\)",
        ),
        (lambda: OneRun(np.zeros(3), np.ones(3)), "coins must hold -1 and 1 only"),
        (
            lambda: OneRun(np.ones(3), np.ones(3), np.ones(2)),
            "shape of scores must be \\(3,\\), one score per coin, got \\(2,\\)",
        ),
        (lambda: OneRun.of_scores([1, -1], [0.0, math.nan]), "scores must be a list of finite numbers"),
        (lambda: SumStatistic.of([1, 1, -1], [0.0, 1.0, 2.0]), "coins at least two of either side"),
        (lambda: best_bound(GuessEvidence(1, 1, 1), 1.0), "delta must be a number of at least 0.*, got 1.0"),
        (lambda: best_bound(GuessEvidence(1, 1, 1), 0.0, claim="maybe"), "claim must be one of.*, got 'maybe'"),
        (
            lambda: best_bound(GuessEvidence(1, 1, 1), 0.0, 1.0),
            "confidence must be a number strictly between.*, got 1.0",
        ),
        (
            lambda: GuessEvidence(4, 2, 2, SumStatistic(2, 3, 1.0, 1.0)),
            "canaries must be the number of scores, 5.*, got 4",
        ),
        (
            lambda: SumStatistic(2, 2, math.nan, 1.0),
            "shift and deviation must be finite, the deviation not negative, got \\(nan, 1.0\\)",
        ),
        (lambda: f_dp_epsilon(3, 4, 1), "guesses must be a whole number from 0 to 3.*, got 4"),
    ],
)
def test_what_is_no_run_is_refused_in_one_sentence(call, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        call()
