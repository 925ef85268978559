"""Exponential mechanism and permute-and-flip: exact odds on neighbouring scores, exact laws, refusals."""

import math
from decimal import FloatOperation, Inexact, localcontext
from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.privacy.events import REPLACE_ONE, ExponentialMechanism, NotPrivate, PureDP
from fate_dp.privacy.mechanisms.exponential import (
    SLACK_PER_SCORE,
    WEIGHT_BITS,
    exponential_event,
    exponential_mechanism,
    exponential_weights,
    report_noisy_max,
)
from fate_dp.privacy.mechanisms.sampling import random_permutation
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

ONE = 2**WEIGHT_BITS
WHOM = {"relation": REPLACE_ONE, "observers": "model"}
epsilons = st.floats(1e-3, 20)
neighbours = st.lists(st.tuples(st.integers(-20, 20), st.integers(-1, 1)), min_size=1, max_size=8)


def law(scores, epsilon, sensitivity):
    weights = exponential_weights(scores, epsilon, sensitivity)
    return [Fraction(weight, sum(weights)) for weight in weights]


def permute_and_flip_law(scores, epsilon, sensitivity):
    """The law of the first accepted index, averaged over all orders."""
    accept = [Fraction(weight, ONE) for weight in exponential_weights(scores, epsilon, sensitivity)]
    chances = [Fraction(0)] * len(scores)
    orders = list(permutations(range(len(scores))))
    for order in orders:
        left = Fraction(1, len(orders))
        for index in order:
            chances[index] += left * accept[index]
            left *= 1 - accept[index]
    return chances


def exceeds(first, second, epsilon):
    """Whether an index is likelier than e^epsilon times its chance on the neighbour, plus what the slack costs."""
    odds = Fraction(mpmath.nstr(mpmath.exp(mpmath.mpf(epsilon)), 50)) * (1 + Fraction(1, 10**45))
    charged = (1 + odds) * len(first) * Fraction(SLACK_PER_SCORE)
    return any(a > odds * b + charged for a, b in zip(first, second))


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(60):
        yield


@given(neighbours, epsilons)
def test_neighbouring_scores_change_the_odds_by_at_most_e_to_the_epsilon(pairs, epsilon):
    first, second = [score for score, _ in pairs], [score + change for score, change in pairs]
    laws = law(first, epsilon, 1), law(second, epsilon, 1)
    assert not exceeds(*laws, epsilon) and not exceeds(*reversed(laws), epsilon)


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(-1, 1)), min_size=1, max_size=4), epsilons)
def test_permute_and_flip_changes_the_odds_by_at_most_e_to_the_epsilon(pairs, epsilon):
    first, second = [score for score, _ in pairs], [score + change for score, change in pairs]
    laws = [permute_and_flip_law(scores, epsilon, 1) for scores in (first, second)]
    assert not exceeds(*laws, epsilon) and not exceeds(*reversed(laws), epsilon)


def test_the_odds_come_close_to_e_to_the_epsilon_so_that_the_bound_is_a_bound_on_this():
    scores = [0] + [0] * 500
    neighbour = [1] + [-1] * 500
    laws = law(neighbour, 1.0, 1), law(scores, 1.0, 1)
    assert exceeds(*laws, 0.99) and not exceeds(*laws, 1.0)


@given(neighbours, epsilons)
def test_permute_and_flip_is_never_worse(pairs, epsilon):
    scores = [score for score, _ in pairs][:4]
    means = [
        sum(chance * score for chance, score in zip(chances(scores, epsilon, 1), scores))
        for chances in (law, permute_and_flip_law)
    ]
    assert means[1] >= means[0] - Fraction(1, 2**100)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6), st.floats(1e-3, 50), st.floats(1e-3, 1e3))
def test_weights_agree_with_sixty_digit_arithmetic(scores, epsilon, sensitivity):
    best = max(scores)
    for score, weight in zip(scores, exponential_weights(scores, epsilon, sensitivity)):
        exponent = mpmath.mpf(epsilon) * (mpmath.mpf(best) - mpmath.mpf(score)) / (2 * mpmath.mpf(sensitivity))
        assert abs(mpmath.mpf(weight) / ONE - mpmath.exp(-exponent)) < mpmath.mpf(2) ** -190


def test_scores_that_are_close_but_huge_are_told_apart():
    scores = np.array([2**62, 2**62 + 1])
    weights = exponential_weights(scores, 2.0, 1)
    assert weights[1] == ONE and math.isclose(weights[0] / ONE, math.exp(-1), rel_tol=1e-14)
    assert exponential_weights([1e308, -1e308, 5e-324], 1.0, 1.0) == [ONE, 0, 0]
    assert exponential_weights([7.5], 1.0, 1.0) == [ONE]


def test_a_hundred_thousand_scores_are_fine():
    scores = np.zeros(100_000)
    scores[54_321] = 1000.0
    assert exponential_mechanism(scores, 1.0, 1.0) == 54_321
    assert type(exponential_mechanism(scores, 1.0, 1.0)) is int


def test_the_hopeless_are_never_and_the_best_is_always_chosen():
    for _ in range(50):
        assert exponential_mechanism([0.0, 1e6, 0.0], 1.0, 1.0) == 1
        assert report_noisy_max([0.0, 1e6, 0.0], 1.0, 1.0, **WHOM).value == 1


def test_events():
    event = exponential_event(2.0, 1000, unit="client", **WHOM)
    assert event.process == ExponentialMechanism(2.0) and event.unit == "client"
    assert event.slack == 1000 * 2.0**-190
    release = report_noisy_max([1, 2, 3], 2.0, 1, **WHOM)
    assert release.event.process == PureDP(2.0) and release.event.slack == 3 * 2.0**-190
    stream = ReproducibleStream(1)
    assert isinstance(exponential_event(2.0, 10, rng=stream, **WHOM).process, NotPrivate)
    assert isinstance(report_noisy_max([1, 2], 2.0, 1, rng=stream, **WHOM).event.process, NotPrivate)


@pytest.mark.parametrize("scores", [[math.nan], [1.0, math.inf], [0.0, -math.inf]])
def test_scores_that_are_not_finite_are_refused(scores):
    for choose in (exponential_mechanism, lambda *given: report_noisy_max(*given, **WHOM)):
        with pytest.raises(InvalidArgument) as refusal:
            choose(scores, 1.0, 1.0)
        assert str(refusal.value) == "scores must be finite, got a NaN or an infinity."


@pytest.mark.parametrize("scores", [[], 1.0, [[1.0]], ["a"], [None], [True], [2**70], np.ones(2, dtype=np.longdouble)])
def test_scores_of_another_kind_are_refused(scores):
    with pytest.raises(InvalidArgument, match="must be a non-empty list of numbers of at most 64 bits"):
        exponential_mechanism(scores, 1.0, 1.0)


def test_other_refusals():
    for epsilon in (0, -1, math.nan, math.inf, True, None):
        with pytest.raises(InvalidArgument):
            exponential_mechanism([1.0], epsilon, 1.0)
    for sensitivity in (0, -1, math.nan, math.inf, True, None):
        with pytest.raises(InvalidArgument):
            exponential_mechanism([1.0], 1.0, sensitivity)
    with pytest.raises(InvalidArgument):
        exponential_mechanism([1.0], 1.0, 1.0, rng=7)


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_a_permutation_holds_every_index_once(count):
    assert sorted(random_permutation(count)) == list(range(count))


def test_tied_keys_are_drawn_anew():
    class Repeating(ReproducibleStream):
        calls = 0

        def words(self, count):
            self.calls += 1
            return np.zeros(count, dtype=np.uint64) if self.calls == 1 else super().words(count)

    stream = Repeating(1)
    assert sorted(random_permutation(5, stream)) == list(range(5)) and stream.calls == 2


def test_whole_numbers_keep_their_digits_in_a_list_with_floats():
    """As one float64 array the first two would differ by 2, and an exchange would cost twice epsilon."""
    first, second, _ = exponential_weights([2**53 + 1, 2**53 + 2, 0.5], 1.0, 1.0)
    assert math.isclose(math.log(second / first), 0.5) and second == ONE
    assert exponential_weights([2**63, 2**63 - 2, -1], 1.0, 1.0)[1] < ONE


def test_the_callers_decimal_context_changes_nothing():
    expected = exponential_weights([0.1, 3.0], 1.0, 1.0)
    with localcontext() as context:
        context.traps[FloatOperation] = context.traps[Inexact] = True
        assert exponential_weights([0.1, 3.0], 1.0, 1.0) == expected
