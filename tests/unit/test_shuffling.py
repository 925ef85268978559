"""Amplification by shuffling: goldens, exact oracles at small n, monotonicity, ranges, refusals, several rounds."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy import events
from fate_dp.privacy.accounting.composition import compose_pure
from fate_dp.privacy.accounting.privacy_profiles import (
    LEFT_OUT,
    binomial_window,
    clones_epsilon,
    in_amplified_range,
    leading_bits,
    shuffle_closed_form,
    shuffled_profile,
    smallest_amplified_delta,
    special_function_error,
)
from fate_dp.privacy.accounting.shuffling import OtherMessages, shuffle_composition_epsilon, shuffle_epsilon
from fate_dp.privacy.validation import InvalidArgument

RANDOMIZERS = ("any", "randomized_response")
# Two searches of relative precision 1e-12 may differ by this in the wrong direction.
SEARCH = 1 + 1e-10


def binomial_law(trials, success):
    return [math.comb(trials, k) * success**k * (1 - success) ** (trials - k) for k in range(trials + 1)]


def convolve(left, right):
    product = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            product[i + j] += a * b
    return product


def ones_pair(epsilon0, ones, zeros):
    """Laws of the number of ones for the unit's bit 1 and 0, by plain convolution of exact fractions of one float p."""
    keep = Fraction(1 / (1 + math.exp(-epsilon0)))
    others = convolve(binomial_law(ones, keep), binomial_law(zeros, 1 - keep))
    return convolve(others, [1 - keep, keep]), convolve(others, [keep, 1 - keep])


def clones_pair(epsilon0, n, clone):
    """Laws of (A + D, C - A + 1 - D) and its mirror image, enumerated."""
    keep = 1 / (1 + mpmath.exp(-epsilon0))
    first, second = {}, {}
    for clones, weight in enumerate(binomial_law(n - 1, mpmath.mpf(clone))):
        for hidden, mass in enumerate(binomial_law(clones, mpmath.mpf(1) / 2)):
            for own, chance in ((1, keep), (0, 1 - keep)):
                one, other = hidden + own, clones - hidden + 1 - own
                first[one, other] = first.get((one, other), 0) + weight * mass * chance
                second[other, one] = second.get((other, one), 0) + weight * mass * chance
    return [first[outcome] for outcome in first], [second[outcome] for outcome in first]


def hockey_stick(pair, epsilon):
    factor = Fraction(math.exp(epsilon)) if isinstance(pair[0][0], Fraction) else mpmath.exp(epsilon)
    return float(sum(max(p - factor * q, 0) for p, q in zip(*pair)))


@pytest.mark.parametrize("n, epsilon0, golden", [(1000, 1, 0.649537552), (10000, 2, 0.523550977)])
def test_golden_closed_form(n, epsilon0, golden):
    assert shuffle_closed_form(epsilon0, n, 1e-6) == pytest.approx(golden, rel=1e-8)


@pytest.mark.parametrize("n, epsilon0, printed", [(1000, 1, 0.5662015), (10000, 2, 0.5009201)])
def test_the_closed_form_lies_above_the_theorem_as_printed(n, epsilon0, printed):
    spread = 8 * math.sqrt(math.exp(epsilon0) * math.log(4e6) / n) + 8 * math.exp(epsilon0) / n
    assert math.log1p(math.tanh(epsilon0 / 2) * spread) == pytest.approx(printed, abs=1e-7)
    assert shuffle_closed_form(epsilon0, n, 1e-6) > printed


@pytest.mark.parametrize("n, epsilon0, least, most", [(1000, 1, 0.182, 0.190), (10000, 2, 0.155, 0.161)])
def test_golden_numeric_bound(n, epsilon0, least, most):
    assert least <= shuffle_epsilon(epsilon0, n, 1e-6) <= most
    assert shuffle_epsilon(epsilon0, n, 1e-6) < shuffle_closed_form(epsilon0, n, 1e-6)


def test_golden_randomized_response():
    assert shuffle_epsilon(1, 1000, 1e-6, "randomized_response") == pytest.approx(0.126614481, rel=1e-8)


def test_second_golden_of_randomized_response_is_that_of_two_zeros_and_three_are_worse():
    # The golden names one data set, and a valid bound lies above it: at its epsilon, three zeros exceed delta.
    golden = 0.087019244
    assert OtherMessages(2.0, 9997, 2).delta(golden) == pytest.approx(1e-6, rel=1e-7)
    assert exact_delta_of_few_zeros(10000, 3, 2, golden) > 1.00007e-6
    epsilon = shuffle_epsilon(2, 10000, 1e-6, "randomized_response")
    assert golden < epsilon < golden * (1 + 6e-6)
    assert 1e-6 * (1 - 1e-9) < exact_delta_of_few_zeros(10000, 3, 2, epsilon) <= 1e-6


def exact_delta_of_few_zeros(n, zeros, epsilon0, epsilon):
    """40-digit delta of shuffled randomised response when all but ``zeros`` of the others hold the unit's bit 1."""
    with mpmath.workdps(40):
        keep = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon0)))
        law, weight = [], (1 - keep) ** (n - 1 - zeros)
        for ones in range(n - zeros):
            law.append(weight)
            weight *= keep / (1 - keep) * (n - 1 - zeros - ones) / (ones + 1)
        for _ in range(zeros):
            law = [keep * a + (1 - keep) * b for a, b in zip([*law, 0], [0, *law])]
        factor = mpmath.exp(mpmath.mpf(epsilon))
        gain, loss = keep - factor * (1 - keep), factor * keep - (1 - keep)
        return float(sum(max(gain * a - loss * b, 0) for a, b in zip([0, *law], [*law, 0])))


@pytest.mark.parametrize(
    "n, epsilon0, delta", [(2, 0.5, 0.01), (5, 1.0, 0.01), (12, 2.0, 1e-3), (25, 0.3, 1e-4), (30, 3.0, 1e-5)]
)
def test_randomized_response_is_the_exact_worst_of_all_data_sets(n, epsilon0, delta):
    epsilon = shuffle_epsilon(epsilon0, n, delta, "randomized_response")
    pairs = [ones_pair(epsilon0, ones, n - 1 - ones) for ones in range(n)]
    both = pairs + [(second, first) for first, second in pairs]
    assert max(hockey_stick(pair, epsilon) for pair in both) <= delta * (1 + 1e-12)
    assert max(hockey_stick(pair, epsilon * (1 - 1e-8)) for pair in both) > delta


def test_the_worst_data_set_is_not_always_the_extreme_one():
    epsilon = shuffle_epsilon(0.3, 100, 1e-6, "randomized_response")
    assert OtherMessages(0.3, 99, 0).delta(epsilon) < 0.99e-6
    assert OtherMessages(0.3, 97, 2).delta(epsilon) == pytest.approx(1e-6, rel=1e-9)


@given(ones=st.integers(0, 20), zeros=st.integers(0, 20), epsilon0=st.floats(0.01, 6), share=st.floats(0, 0.99))
@settings(max_examples=40, deadline=None)
def test_delta_of_one_data_set_is_the_enumerated_one(ones, zeros, epsilon0, share):
    exact = hockey_stick(ones_pair(epsilon0, ones, zeros), share * epsilon0)
    computed = OtherMessages(epsilon0, ones, zeros).delta(share * epsilon0)
    assert exact * (1 - 1e-12) <= computed <= exact * (1 + 1e-9) + 10 * LEFT_OUT + 1e-15


@given(ones=st.integers(0, 60), zeros=st.integers(0, 60), epsilon0=st.floats(0.01, 6), share=st.floats(0, 0.99))
@settings(max_examples=40, deadline=None)
def test_fewer_other_messages_hide_less(ones, zeros, epsilon0, share):
    # What branch and bound stands on.
    delta = OtherMessages(epsilon0, ones, zeros).delta(share * epsilon0)
    for more in ((ones + 1, zeros), (ones, zeros + 1)):
        assert OtherMessages(epsilon0, *more).delta(share * epsilon0) <= delta * SEARCH


@pytest.mark.parametrize("n, epsilon0, delta", [(2, 0.5, 0.05), (7, 1.0, 0.01), (15, 2.0, 1e-3), (20, 0.2, 1e-3)])
@pytest.mark.parametrize("randomizer", RANDOMIZERS)
def test_numeric_bound_is_the_enumerated_hockey_stick_of_the_clones_pair(n, epsilon0, delta, randomizer):
    clone = {"any": math.exp(-epsilon0), "randomized_response": 2 / (1 + math.exp(epsilon0))}[randomizer]
    epsilon = clones_epsilon(epsilon0, n, delta, randomizer, epsilon0)
    pair = clones_pair(epsilon0, n, clone)
    assert hockey_stick(pair, epsilon) <= delta * (1 + 1e-12)
    assert hockey_stick(pair, epsilon * (1 - 1e-8)) > delta
    assert hockey_stick(pair[::-1], epsilon) == pytest.approx(hockey_stick(pair, epsilon), rel=1e-12)


@pytest.mark.parametrize("clones", [100, 3000, 368_000, 9_000_000, 600_000_000])
@pytest.mark.parametrize("deviations", [0, 2, 5, 8])
def test_special_functions_are_as_exact_as_charged(clones, deviations):
    from scipy.special import betainc
    from scipy.stats import binom

    at = math.ceil(clones / 2 + deviations * math.sqrt(clones) / 2)
    # In whole numbers, units of 2^-160 of the first term: as exact as forty digits, and many times as fast.
    tail, term, value = 0, 1 << 160, at
    while term > (1 << 160) // 10**20:
        tail, term, value = tail + term, term * (clones - value) // (value + 1), value + 1
    with mpmath.workdps(40):
        terms = [mpmath.loggamma(count + 1) for count in (clones, at, clones - at)]
        mass = mpmath.exp(terms[0] - terms[1] - terms[2] - clones * mpmath.log(2))
        tail = mass * tail / mpmath.mpf(2) ** 160
    charged = special_function_error(clones)
    assert abs(binom.pmf(at, clones, 0.5) / mass - 1) < charged / 2
    assert abs(betainc(at, clones - at + 1, 0.5) / tail - 1) < charged / 2


@pytest.mark.parametrize("clones", [10**10, 10**12])
def test_special_functions_of_more_trials_than_there_are_people_are_as_exact_as_charged(clones):
    from scipy.stats import binom

    at = math.ceil(clones / 2 + 3 * math.sqrt(clones) / 2)
    with mpmath.workdps(60):
        terms = [mpmath.loggamma(count + 1) for count in (clones, at, clones - at)]
        mass = mpmath.exp(terms[0] - terms[1] - terms[2] - clones * mpmath.log(2))
        assert abs(binom.pmf(at, clones, 0.5) / mass - 1) < special_function_error(clones) / 2


@pytest.mark.parametrize("epsilon0, exact", [(0.5, 7.036617496e-05), (4.0, 0.0019178907485)])
def test_a_thousand_million_messages_cost_hardly_more_than_with_every_number_of_clones(epsilon0, exact):
    # What the sum over all numbers of clones gave, which took up to 22 s.
    assert exact <= shuffle_epsilon(epsilon0, 10**9, 1e-9) <= exact * (1 + 2e-6)
    # The rounding of clones does not undo what one more message hides, at either side of a power of two.
    found = [shuffle_epsilon(epsilon0, n, 1e-9) for n in (2**22 - 1, 2**22, 2**22 + 1, 2**23, 10**9)]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("trials, odds", [(0, 1.0), (1, 0.3), (40, 1e-3), (40, 1.0), (300, 7.0), (5, 1e100)])
def test_binomial_window_is_exact_far_into_the_tails(trials, odds):
    first, law = binomial_window(trials, odds)
    success = Fraction(odds) / (1 + Fraction(odds))
    exact = binomial_law(trials, success)[first : first + len(law)]
    assert [float(p / q) for p, q in zip(map(Fraction, law), exact)] == pytest.approx([1] * len(law), rel=1e-12)
    assert 1 - float(sum(exact)) <= LEFT_OUT + 1e-16


@given(number=st.integers(0, 10**9), bits=st.integers(1, 20))
def test_leading_bits_round_down_monotonically(number, bits):
    rounded = leading_bits(number, bits)
    assert number * (1 - 2.0 ** (1 - bits)) <= rounded <= number and rounded <= leading_bits(number + 1, bits)


@given(
    epsilon0=st.floats(1e-4, 20),
    n=st.integers(1, 3000),
    exponent=st.floats(-12, -0.1),
    factor=st.floats(1, 50),
    randomizer=st.sampled_from(RANDOMIZERS),
)
@settings(max_examples=12, deadline=None)
def test_monotone_in_everything_and_never_above_the_local_guarantee(epsilon0, n, exponent, factor, randomizer):
    delta = 10**exponent
    epsilon = shuffle_epsilon(epsilon0, n, delta, randomizer)
    assert 0 <= epsilon <= epsilon0
    assert shuffle_epsilon(epsilon0, math.ceil(n * factor), delta, randomizer) <= epsilon * SEARCH
    assert shuffle_epsilon(epsilon0, n + 1, delta, randomizer) <= epsilon * SEARCH
    assert shuffle_epsilon(epsilon0 * factor, n, delta, randomizer) >= epsilon / SEARCH
    assert shuffle_epsilon(epsilon0, n, delta / factor, randomizer) >= epsilon / SEARCH
    assert shuffle_epsilon(epsilon0, n, delta, "randomized_response") <= shuffle_epsilon(epsilon0, n, delta, "any")


@pytest.mark.parametrize("n", [1025, 2048, 4097])
@pytest.mark.parametrize("epsilon0", [0.01, 0.3])
def test_rounding_of_data_sets_keeps_the_order_in_n(n, epsilon0):
    epsilons = [shuffle_epsilon(epsilon0, m, 1e-5, "randomized_response") for m in (n - 1, n, n + 1)]
    assert epsilons == sorted(epsilons, reverse=True)
    others = n - 1
    exact = max(OtherMessages(epsilon0, ones, others - ones).delta(epsilons[1]) for ones in range(0, n, 97))
    assert exact <= 1e-5


@pytest.mark.parametrize("randomizer", RANDOMIZERS)
@pytest.mark.parametrize("epsilon0", [1e-3, 1.0, 7, 500.0, 1e6])
def test_one_message_is_not_amplified(epsilon0, randomizer):
    assert shuffle_epsilon(epsilon0, 1, 0.3, randomizer) == epsilon0


def test_amplification_begins_exactly_at_the_range():
    n, delta = 1000, 1e-6
    largest = math.log(n / (16 * math.log(4 / delta)))
    assert in_amplified_range(largest, n, delta) and not in_amplified_range(largest * (1 + 1e-12), n, delta)
    assert shuffle_epsilon(largest, n, delta) < 0.5 * largest
    assert shuffle_epsilon(largest * (1 + 1e-12), n, delta) == largest * (1 + 1e-12)
    assert shuffle_epsilon(0.1, 16, 0.9) == 0.1


@given(epsilon0=st.floats(1e-3, 8), n=st.integers(2, 10**6))
def test_smallest_amplified_delta_is_where_the_range_begins(epsilon0, n):
    least = smallest_amplified_delta(epsilon0, n)
    if 1e-300 < least < 0.9:
        assert in_amplified_range(epsilon0, n, least) and not in_amplified_range(epsilon0, n, least * (1 - 1e-6))


@pytest.mark.parametrize(
    "epsilon0, n, delta", [(1e-12, 10**5, 1e-15), (290.0, 100, 0.5), (40.0, 10**5, 1e-9), (1.0, 50, 1e-300)]
)
def test_extreme_parameters_give_a_number_between_0_and_the_local_guarantee(epsilon0, n, delta):
    for randomizer in RANDOMIZERS:
        assert 0 <= shuffle_epsilon(epsilon0, n, delta, randomizer) <= epsilon0


def test_a_million_messages():
    tight, clones = (shuffle_epsilon(1, 10**6, 1e-6, randomizer) for randomizer in reversed(RANDOMIZERS))
    # Scales as 1 / sqrt(n); the extreme data set alone is a lower bound.
    assert OtherMessages(1.0, 10**6 - 1, 0).delta(tight * (1 - 1e-3)) > 1e-6
    assert tight < clones < 0.182413 / math.sqrt(1000)


@pytest.mark.parametrize("epsilon0, n, delta", [(1.0, 1000, 1e-6), (0.7, 90, 0.01), (2.0, 5000, 1e-8)])
def test_profile_is_not_below_the_single_round_and_close_to_it(epsilon0, n, delta):
    for randomizer in RANDOMIZERS:
        (profile,) = shuffled_profile(events.Shuffled(epsilon0, n, randomizer), "replace_one")
        epsilon = clones_epsilon(epsilon0, n, delta, randomizer, epsilon0)
        failure = smallest_amplified_delta(epsilon0, n) if randomizer == "any" else 0.0
        at, before = profile.delta(np.array([epsilon, -0.3 * epsilon0]))
        assert delta * (1 - 1e-9) <= at <= 1.002 * delta + failure
        # H(-x) = 1 - e^-x (1 - H(x)) for a pair that is its own mirror image.
        (mirrored,) = profile.delta(np.array([0.3 * epsilon0]))
        assert before == pytest.approx(1 - math.exp(-0.3 * epsilon0) * (1 - mirrored), rel=1e-9)


@pytest.mark.parametrize(
    "randomizer, epsilon0, n", [("any", 5.0, 100), ("any", 900.0, 100), ("randomized_response", 900.0, 9)]
)
def test_profile_without_amplification_is_that_of_randomised_response(randomizer, epsilon0, n):
    (profile,) = shuffled_profile(events.Shuffled(epsilon0, n, randomizer), "replace_one")
    losses = np.array([-epsilon0, 0.0, 0.4 * epsilon0, epsilon0])
    keep = 1 / (1 + math.exp(-epsilon0))
    expected = [1 - math.exp(-epsilon0), 2 * keep - 1, keep * (1 - math.exp(-0.6 * epsilon0)), 0]
    assert profile.delta(losses) == pytest.approx(expected, rel=1e-12)


def test_profile_does_not_claim_amplification_far_below_the_range():
    (profile,) = shuffled_profile(events.Shuffled(1.0, 200), "replace_one")
    least = smallest_amplified_delta(1.0, 200)
    assert profile.delta(np.array([0.98]))[0] > least / 100


@pytest.mark.parametrize("randomizer", RANDOMIZERS)
def test_rounds_cost_more_than_one_and_less_than_their_sum(randomizer):
    one = shuffle_epsilon(1, 1000, 1e-6, randomizer)
    costs = [shuffle_composition_epsilon(1, 1000, rounds, 1e-6, randomizer) for rounds in (1, 2, 10, 100)]
    assert costs[0] == one and costs == sorted(costs)
    # Sum of rounds and delta shared: the plain way.
    assert costs[2] < 0.5 * 10 * shuffle_epsilon(1, 1000, 1e-7, randomizer)
    assert costs[3] < compose_pure([1.0] * 100, 1e-6)


def test_two_rounds_are_not_below_the_enumerated_composition():
    epsilon0, n, delta = 0.5, 9, 0.02
    clone = 2 / (1 + math.exp(epsilon0))
    first, second = (np.array([float(mass) for mass in law]) for law in clones_pair(epsilon0, n, clone))
    epsilon = shuffle_composition_epsilon(epsilon0, n, 2, delta, "randomized_response")
    ones = [np.array([float(mass) for mass in law]) for law in ones_pair(epsilon0, 5, 3)]
    for upper, lower in ((first, second), ones):
        twice = np.outer(upper, upper) - math.exp(epsilon) * np.outer(lower, lower)
        assert np.maximum(twice, 0).sum() <= delta
    assert np.maximum(np.outer(first, first) - math.exp(0.98 * epsilon) * np.outer(second, second), 0).sum() > delta


def test_rounds_outside_the_range_are_composed_unamplified():
    assert shuffle_composition_epsilon(1.0, 20, 10, 1e-6) == compose_pure([1.0] * 10, 1e-6)
    assert shuffle_composition_epsilon(0.1, 20, 3, 0.5) >= shuffle_epsilon(0.1, 20, 0.5) == 0.1


GAUSSIAN = (
    "randomizer must be pure local DP, got 'gaussian'. Account Gaussian messages as local, or as secure_sum where only "
    "their sum is seen."
)


@pytest.mark.parametrize(
    "arguments, kind, sentence",
    [
        ((1, 100, 1e-6, "gaussian"), InvalidArgument, GAUSSIAN),
        ((1, 9, 1e-6, "x"), InvalidArgument, "randomizer must be one of any, randomized_response, got 'x'."),
        ((1, 9, 1e-6, [1]), InvalidArgument, "randomizer must be one of any, randomized_response, got [1]."),
        ((0, 100, 1e-6), InvalidArgument, "epsilon must be a finite number greater than 0 (in nats), got 0."),
        ((1, 0, 1e-6), InvalidArgument, "n must be a whole number of at least 1, got 0."),
        ((1, 2.0, 1e-6), InvalidArgument, "n must be a whole number of at least 1, got 2.0."),
        ((1, True, 1e-6), InvalidArgument, "n must be a whole number of at least 1, got True."),
        ((1, 100, 0), InvalidArgument, "delta must be a number greater than 0 and less than 1, got 0."),
        ((1, 100, 1), InvalidArgument, "delta must be a number greater than 0 and less than 1, got 1."),
    ],
)
def test_refusals(arguments, kind, sentence):
    with pytest.raises(kind) as refusal:
        shuffle_epsilon(*arguments)
    assert str(refusal.value) == sentence


def test_rounds_are_a_whole_number():
    with pytest.raises(InvalidArgument, match="^rounds must be a whole number of at least 1, got 0.$"):
        shuffle_composition_epsilon(1, 100, 0, 1e-6)
    with pytest.raises(InvalidArgument):
        shuffle_composition_epsilon(1, 100, 5, 1e-6, "gaussian")


@pytest.mark.parametrize("randomizer", RANDOMIZERS)
@pytest.mark.parametrize("epsilon0", [5e-324, 1e-310, 1e-300])
def test_an_epsilon_near_the_least_float_is_answered(randomizer, epsilon0):
    assert 0 <= shuffle_epsilon(epsilon0, 1000, 1e-6, randomizer) <= epsilon0


def test_shuffled_randomised_response_with_more_classes_needs_the_bound_for_any():
    """The count of one class among three, exactly: more than binary randomised response, less than ``any``."""
    epsilon0, n, delta = 1.0, 400, 1e-2
    total = math.exp(epsilon0) + 2
    keep, other = math.exp(epsilon0) / total, 1 / total
    # Everybody else holds the third class, so that the first two counts are those of independent throws.
    others = np.zeros((n + 1, n + 1))
    others[0, 0] = 1.0
    for _ in range(n - 1):
        others = add_message(others, other, other)
    first, second = add_message(others, keep, other), add_message(others, other, keep)

    def exact_delta(epsilon):
        return np.maximum(first - math.exp(epsilon) * second, 0).sum()

    assert exact_delta(shuffle_epsilon(epsilon0, n, delta, "randomized_response")) > 1.05 * delta
    assert exact_delta(shuffle_epsilon(epsilon0, n, delta, "any")) < delta


def add_message(law, first, second):
    """The law of the counts of the first and the second class, with one message more."""
    added = law * (1 - first - second)
    added[1:] += law[:-1] * first
    added[:, 1:] += law[:, :-1] * second
    return added
