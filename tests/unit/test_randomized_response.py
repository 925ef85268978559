"""Probabilities of randomised response against the golden values, and their properties."""

import math
from math import comb, exp, isclose, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.privacy import flip_probability, keep_probability, label_posterior
from fate_dp.privacy.mechanisms.randomized_response import PRIOR_MARGIN, estimate_prior
from fate_dp.privacy.validation import InvalidArgument, check_epsilon

KEEP = [
    (0.1, 2, 0.52497918747894),
    (0.5, 2, 0.62245933120185),
    (1, 2, 0.73105857863000),
    (2, 2, 0.88079707797788),
    (3, 2, 0.95257412682243),
    (4, 2, 0.98201379003791),
    (8, 2, 0.99966464986953),
    (1, 10, 0.23196931668407),
    (2, 10, 0.45085306037928),
    (4, 10, 0.85848644975821),
    (log(3), 2, 0.75),
    (log(9), 4, 0.75),
]
FLIP = [(1, 0.2689), (2, 0.1192), (4, 0.0180), (8, 0.00034)]
POSTERIOR = [
    (1, 0.2, 1, 0.404609675192),
    (1, 0.2, 0, 0.084223808401),
    (3, 0.2, 1, 0.833925230201),
    (3, 0.2, 0, 0.012293749653),
]
FRESH_FLIPS = [(1.0, 10, 9.9997706345), (0.5, 20, 9.8594110241)]

epsilons = st.floats(1e-6, 1000)
class_counts = st.integers(2, 1000)


@pytest.mark.parametrize("epsilon, classes, expected", KEEP)
def test_keep_probability_is_golden(epsilon, classes, expected):
    assert isclose(keep_probability(epsilon, classes), expected, rel_tol=1e-12)


@pytest.mark.parametrize("epsilon, expected", FLIP)
def test_binary_flip_rate_is_as_printed(epsilon, expected):
    assert isclose(flip_probability(epsilon), expected, rel_tol=0.015)
    assert isclose(flip_probability(epsilon), 1 / (1 + exp(epsilon)), rel_tol=1e-14)


@pytest.mark.parametrize("epsilon, prior, flipped, expected", POSTERIOR)
def test_posterior_is_golden(epsilon, prior, flipped, expected):
    assert isclose(label_posterior(flipped, epsilon, prior), expected, rel_tol=1e-10)


def test_posterior_is_vectorised_in_both_arguments():
    flipped, prior = np.array([1, 0, 1]), np.array([0.2, 0.2, 0.9])
    expected = [label_posterior(z, 1, pi) for z, pi in zip(flipped, prior)]
    assert np.array_equal(label_posterior(flipped, 1, prior), expected)
    assert np.array_equal(label_posterior(flipped, 1, 0.2)[:2], expected[:2])
    assert label_posterior(flipped, 1, 0.2).shape == (3,)


@pytest.mark.parametrize("epsilon", [1, 50, 800, 1e6])
@pytest.mark.parametrize("prior", [0.0, 1.0])
@pytest.mark.parametrize("flipped", [0, 1])
def test_a_certain_prior_stands(epsilon, prior, flipped):
    assert label_posterior(flipped, epsilon, prior) == prior


def test_posterior_keeps_the_rare_class_alive():
    """Pitfall 15: the hard decision erases the positive class at epsilon 1 and prior 0.2; the soft one does not."""
    hard = max(label_posterior(1, 1, 0.2), label_posterior(0, 1, 0.2)) > 0.5
    flip = flip_probability(1)
    share = 0.2 * (1 - flip) + 0.8 * flip
    mean = share * label_posterior(1, 1, 0.2) + (1 - share) * label_posterior(0, 1, 0.2)
    assert not hard and isclose(mean, 0.2, rel_tol=1e-12)


@pytest.mark.parametrize("flipped, prior", [(2, 0.5), (0.5, 0.5), (1, -0.1), (1, 1.1), (1, float("nan"))])
def test_posterior_refuses_values_out_of_range(flipped, prior):
    with pytest.raises(ValueError, match="outside the range|other than"):
        label_posterior(flipped, 1, prior)


@given(epsilons, st.floats(0.01, 0.99))
def test_estimated_prior_inverts_the_flips(epsilon, prior):
    flip = flip_probability(epsilon)
    estimate = estimate_prior(prior * (1 - flip) + (1 - prior) * flip, epsilon)
    # The subtraction costs digits in proportion to 1 / epsilon.
    assert isclose(estimate, prior, abs_tol=1e-12 * max(1, 1 / epsilon))


@pytest.mark.parametrize("mean, expected", [(0.0, PRIOR_MARGIN), (1.0, 1 - PRIOR_MARGIN)])
def test_estimated_prior_stays_inside_the_open_interval(mean, expected):
    assert estimate_prior(mean, 0.1) == expected


@pytest.mark.parametrize("mean", [-0.1, 1.1, float("nan")])
def test_estimated_prior_refuses_an_impossible_share(mean):
    with pytest.raises(ValueError, match="flipped_mean"):
        estimate_prior(mean, 1)


@given(epsilons, epsilons, class_counts)
def test_keep_probability_grows_with_epsilon(first, second, classes):
    low, high = sorted((first, second))
    assert keep_probability(low, classes) <= keep_probability(high, classes)
    assert flip_probability(low, classes) >= flip_probability(high, classes)


@given(epsilons, class_counts)
def test_probabilities_add_up_and_beat_guessing(epsilon, classes):
    keep, flip = keep_probability(epsilon, classes), flip_probability(epsilon, classes)
    assert isclose(keep + flip, 1, rel_tol=1e-12)
    assert 1 / classes * (1 - 1e-12) <= keep <= 1


@given(st.floats(0.01, 600), class_counts)
def test_likelihood_ratio_is_exactly_e_to_the_epsilon(epsilon, classes):
    each_other = flip_probability(epsilon, classes) / (classes - 1)
    assert isclose(log(keep_probability(epsilon, classes)) - log(each_other), epsilon, rel_tol=1e-9)


def test_flip_probability_does_not_cancel_at_large_epsilon():
    assert isclose(flip_probability(100), exp(-100), rel_tol=1e-12)
    assert keep_probability(1e6) == 1.0 and flip_probability(1e6) == 0.0


@pytest.mark.parametrize(
    "epsilon", [0, 0.0, -1, -0.5, float("nan"), float("inf"), -math.inf, True, np.True_, "2", None, 1j, [1]]
)
def test_bad_epsilon_is_refused_in_one_sentence(epsilon):
    with pytest.raises(InvalidArgument, match=r"^epsilon must be a finite number greater than 0.*, got .*"):
        keep_probability(epsilon)


@pytest.mark.parametrize("epsilon", [2, 2.0, np.float64(2), np.int64(2), np.float32(2)])
def test_numbers_of_any_kind_are_accepted(epsilon):
    assert check_epsilon(epsilon) == 2.0 and type(check_epsilon(epsilon)) is float


@pytest.mark.parametrize("classes", [1, 0, -2, 2.0, "2", True, None])
def test_bad_classes_are_refused(classes):
    with pytest.raises(InvalidArgument, match="classes must be"):
        keep_probability(1, classes)


@pytest.mark.parametrize("epsilon, times, expected", FRESH_FLIPS)
def test_fresh_flips_would_cost_the_golden_table(epsilon, times, expected):
    """Pitfall 1: what T independent flips of one label cost at delta 1e-5, next to the single epsilon of a memo."""
    assert isclose(_epsilon_of_fresh_flips(epsilon, times, 1e-5), expected, rel_tol=1e-9)
    assert expected > 9 * epsilon


def _epsilon_of_fresh_flips(epsilon, times, delta):
    keep, flip = keep_probability(epsilon), flip_probability(epsilon)
    pairs = [
        (comb(times, j) * keep ** (times - j) * flip**j, comb(times, j) * keep**j * flip ** (times - j))
        for j in range(times + 1)
    ]
    low, high = 0.0, times * epsilon
    for _ in range(200):
        middle = (low + high) / 2
        exceeds = sum(max(0.0, p - exp(middle) * q) for p, q in pairs) > delta
        low, high = (middle, high) if exceeds else (low, middle)
    return high
