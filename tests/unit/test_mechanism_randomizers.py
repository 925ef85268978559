"""Local randomisers: fresh flips, randomised response on a grid, Duchi's sampler."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.privacy.events import REPLACE_ONE, NotPrivate, PureDP, RandomizedResponse
from fate_dp.privacy.mechanisms import local_numbers
from fate_dp.privacy.mechanisms.local_numbers import duchi_l2, duchi_norm
from fate_dp.privacy.mechanisms.randomized_response import (
    estimate_histogram,
    estimate_mean,
    flip_indices,
    flip_probability,
    grid_randomized_response,
    safe_flip_probability,
)
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic

POINTS = [0.0, 1.0, 2.5, 10.0]
any_float = st.floats(allow_nan=True, allow_infinity=True)


@given(st.floats(1e-6, 1e4), st.integers(2, 1000))
def test_the_exact_odds_of_two_true_values_never_exceed_e_to_the_epsilon(epsilon, classes):
    """The coin has exactly the probability of its float, and the other classes are exactly equally likely."""
    flip = Fraction(safe_flip_probability(epsilon, classes))
    keep, other = 1 - flip, flip / (classes - 1)
    with mpmath.workdps(60):
        odds = max(keep / other, other / keep)
        assert mpmath.mpf(odds.numerator) / odds.denominator <= mpmath.exp(mpmath.mpf(epsilon))


@given(st.floats(1e-6, 600), st.integers(2, 1000))
def test_flips_are_hardly_more_frequent_than_ideal(epsilon, classes):
    assert math.isclose(safe_flip_probability(epsilon, classes), flip_probability(epsilon, classes), rel_tol=1e-14)


def test_flip_probability_without_rounding_up_would_break_the_bound():
    broken = 0
    with mpmath.workdps(60):
        for epsilon in np.linspace(0.1, 10, 200).tolist():
            flip = Fraction(flip_probability(epsilon))
            broken += mpmath.mpf((1 - flip).numerator) / flip.numerator > mpmath.exp(mpmath.mpf(epsilon))
    assert broken > 20


def test_an_epsilon_that_floats_cannot_tell_from_zero_is_refused():
    with pytest.raises(InvalidArgument) as refusal:
        safe_flip_probability(1e-15, 3)
    assert str(refusal.value) == f"epsilon must be above {6 * 2.0**-48} for 3 classes, got 1e-15."
    with pytest.raises(InvalidArgument):
        safe_flip_probability(1.0, 1)


@given(st.lists(st.integers(0, 4), max_size=20), st.floats(0.1, 10))
def test_flipped_indices_stay_classes(indices, epsilon):
    flipped = flip_indices(indices, epsilon, 5)
    assert flipped.shape == (len(indices),) and ((flipped >= 0) & (flipped < 5)).all()
    assert flip_indices(indices, 1000.0, 5).tolist() == indices


@given(st.lists(any_float, max_size=20))
def test_any_values_are_answered_by_points(values):
    release = grid_randomized_response(values, POINTS, 1.0, observers="server")
    assert release.value.shape == (len(values),) and np.isin(release.value, range(4)).all()
    assert release.event.process == RandomizedResponse(1.0, 4) and release.event.slack == 0
    assert release.event.relation == REPLACE_ONE and release.event.unit == "record"


def test_at_an_epsilon_without_flips_every_value_becomes_its_neighbouring_point():
    values = [-5.0, 0.0, 1.0, 2.5, 10.0, 1e9, math.inf, -math.inf, math.nan]
    release = grid_randomized_response(values, POINTS, 1000.0, observers="server")
    assert release.value.tolist() == [0, 0, 1, 2, 3, 3, 3, 0, 0]
    between = grid_randomized_response([7.0] * 200, POINTS, 1000.0, observers="server", rng=ReproducibleStream(5))
    assert set(between.value.tolist()) == {2, 3}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=50), st.floats(0.01, 20))
def test_the_estimate_inverts_the_expected_answers(counts, epsilon):
    """Applied to the expected shares of answers, the estimator must give back the true shares."""
    true = np.bincount(counts, minlength=4) / len(counts)
    flip = flip_probability(epsilon, 4)
    expected = sum(
        true[value] * ((1 - flip) if answer == value else flip / 3) * estimate_histogram([answer], POINTS, epsilon)
        for value in range(4)
        for answer in range(4)
    )
    assert np.allclose(expected, true, atol=1e-9) and math.isclose(expected.sum(), 1, rel_tol=1e-9)


def test_the_mean_is_that_of_the_histogram():
    answers = [0, 1, 1, 3, 2]
    assert math.isclose(estimate_mean(answers, POINTS, 50.0), np.mean([POINTS[answer] for answer in answers]))


BAD_POINTS = [[], [1.0], [1.0, 1.0], [2.0, 1.0], [0.0, math.nan], [0, math.inf], "ab", [[0, 1]], [True, False]]


@pytest.mark.parametrize("points", BAD_POINTS)
def test_a_grid_must_increase(points):
    with pytest.raises(InvalidArgument) as refusal:
        grid_randomized_response([1.0], points, 1.0, observers="server")
    assert str(refusal.value).startswith("points must be at least two finite, strictly increasing numbers, got shape (")


@pytest.mark.parametrize("values", [1.0, [[1.0]], ["a"], [None], [True]])
def test_values_on_a_grid_must_be_a_list_of_numbers(values):
    with pytest.raises(InvalidArgument, match="must be a list of real numbers, got"):
        grid_randomized_response(values, POINTS, 1.0, observers="server")


@pytest.mark.parametrize("answers", [[], [4], [-1], [0.5], [[0]]])
def test_answers_must_be_indices_of_points(answers):
    with pytest.raises(InvalidArgument) as refusal:
        estimate_histogram(answers, POINTS, 1.0)
    assert str(refusal.value).startswith("answers must be one or more whole numbers from 0 to 3, got shape")


@pytest.mark.parametrize("dimension, epsilon", [(1, 1.0), (2, 0.5), (3, 4.0), (1000, 1.0), (10**6, 2.0)])
def test_the_norm_of_an_answer_is_the_published_one(dimension, epsilon):
    with mpmath.workdps(40):
        odds = mpmath.exp(epsilon)
        halves = mpmath.mpf(dimension - 1) / 2 + 1, mpmath.mpf(dimension) / 2 + 1
        published = (odds + 1) / (odds - 1) * mpmath.sqrt(mpmath.pi) / 2 * dimension
        published *= mpmath.exp(mpmath.loggamma(halves[0]) - mpmath.loggamma(halves[1]))
    assert math.isclose(duchi_norm(dimension, 3.0, epsilon), 3 * published, rel_tol=1e-8)


@given(st.lists(st.lists(any_float, min_size=3, max_size=3), min_size=1, max_size=5))
def test_any_vectors_get_answers_of_one_norm(rows):
    release = duchi_l2(np.array(rows), 2.0, 1.0, observers="server")
    assert release.value.shape == (len(rows), 3)
    assert np.allclose(np.linalg.norm(release.value, axis=1), duchi_norm(3, 2.0, 1.0))
    assert release.event.process == PureDP(1.0) and release.event.unit == "client"


def test_one_vector_keeps_its_shape():
    assert duchi_l2([1.0, 0.0], 1.0, 1.0, observers="server").value.shape == (2,)
    assert abs(duchi_l2([1.0], 1.0, 1.0, observers="server").value[0]) == duchi_norm(1, 1.0, 1.0)


@given(st.lists(any_float, min_size=4, max_size=4), st.integers(0, 2**32))
def test_a_vector_decides_nothing_but_one_bit(vector, seed):
    """With the same stream, whatever the vector, the answer is one of two opposite ends of one line."""
    options = [{"observers": "server", "rng": ReproducibleStream(seed)} for _ in range(2)]
    vectors = vector, [1, 0, 0, 0]
    answers = [duchi_l2(x, 1.0, 1.0, **given_to_one).value for x, given_to_one in zip(vectors, options)]
    assert np.array_equal(answers[0], answers[1]) or np.array_equal(answers[0], -answers[1])


def test_that_bit_goes_through_randomised_response_at_the_stated_epsilon(monkeypatch):
    given_to = []

    def recorded(indices, epsilon, classes, rng):
        given_to.append((indices.copy(), epsilon, classes))
        return indices.astype(np.int64)

    monkeypatch.setattr(local_numbers, "flip_indices", recorded)
    vectors = np.eye(5)
    release = duchi_l2(vectors, 1.0, 0.7, observers="server")
    ((sides, epsilon, classes),) = given_to
    assert sides.dtype == bool and (epsilon, classes) == (0.7, 2)
    # Full-length vectors are never turned round: without flips every answer lies on the vector's own side.
    assert (np.einsum("ij,ij->i", release.value, vectors) >= 0).all()


def test_randomisers_on_a_repeatable_stream_are_not_private():
    stream = ReproducibleStream(3)
    assert isinstance(duchi_l2([1.0], 1.0, 1.0, observers="server", rng=stream).event.process, NotPrivate)
    release = grid_randomized_response([1.0], POINTS, 1.0, observers="server", rng=stream)
    assert isinstance(release.event.process, NotPrivate)


@pytest.mark.parametrize("vectors", [1.0, [], [[]], [[[1.0]]], ["a"], [None], [True], [1j]])
def test_other_things_than_vectors_are_refused(vectors):
    with pytest.raises(InvalidArgument, match="must be one real vector or one per row"):
        duchi_l2(vectors, 1.0, 1.0, observers="server")


def test_a_radius_or_epsilon_out_of_range_is_refused():
    for radius in (0, -1, math.nan, math.inf, None, True):
        with pytest.raises(InvalidArgument):
            duchi_l2([1.0], radius, 1.0, observers="server")
    for epsilon in (0, -1, math.nan, math.inf, None, True):
        with pytest.raises(InvalidArgument):
            duchi_l2([1.0], 1.0, epsilon, observers="server")
        with pytest.raises(InvalidArgument):
            grid_randomized_response([1.0], POINTS, epsilon, observers="server")


@pytest.mark.parametrize("indices", [[0, 2], [-1], [0.0, 1.0], [2**64 - 1], ["0"]])
def test_an_index_that_only_one_input_can_answer_is_refused(indices):
    with pytest.raises(InvalidArgument) as refusal:
        flip_indices(indices, 1.0, 2)
    assert str(refusal.value).startswith(
        "indices must be whole numbers from 0 to 1, the number of classes less 1, got shape"
    )
    assert flip_indices([], 1.0, 2).tolist() == [] and flip_indices([True, False], 700.0, 2).tolist() == [1, 0]
