"""Laplace mechanisms and bounded means: scale, sensitivity with its rounding, low bits, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE, InvalidEvent, Laplace, NotPrivate, PureDP
from fate_dp.privacy.mechanisms import laplace
from fate_dp.privacy.mechanisms.aggregates import STEPS_OF_RANGE, bounded_mean, private_mean
from fate_dp.privacy.mechanisms.laplace import geometric_mechanism, laplace_mechanism
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

WHOM = {"relation": REPLACE_ONE, "observers": "model"}
epsilons = st.floats(1e-3, 100)
any_float = st.floats(allow_nan=True, allow_infinity=True)
finite = st.floats(-1e12, 1e12)


def noise_free(patch):
    """Replace the sampler by zeros; returns the list of scales that it is asked for."""
    scales = []

    def zeros(scale, size, rng):
        scales.append(scale)
        return np.zeros(size, dtype=np.int64)

    patch.setattr(laplace, "discrete_laplace", zeros)
    return scales


def released_steps(values, sensitivity, epsilon):
    with pytest.MonkeyPatch.context() as patch:
        scales = noise_free(patch)
        released = laplace_mechanism(values, sensitivity, epsilon, **WHOM).value
    grid = math.ldexp(1.0, math.frexp(sensitivity)[1] - 31)
    return np.ravel(released) / grid, scales[0], grid


@given(st.lists(st.tuples(finite, st.floats(-1, 1)), min_size=1, max_size=6), st.floats(1e-3, 1e3), epsilons)
def test_odds_change_by_at_most_e_to_the_epsilon_rounding_included(pairs, sensitivity, epsilon):
    """Discrete Laplace noise of scale t changes the odds of integers that lie m steps apart by exp(m / t) at most."""
    values = np.array([value for value, _ in pairs])
    weights = np.array([weight for _, weight in pairs])
    neighbour = values + sensitivity * weights / max(1.0, np.abs(weights).sum())
    (first, scale, grid), (second, _, _) = (released_steps(v, sensitivity, epsilon) for v in (values, neighbour))
    truly_moved = sum(abs(Fraction(a) - Fraction(b)) for a, b in zip(values.tolist(), neighbour.tolist()))
    moved = sum(abs(Fraction(a) - Fraction(b)) for a, b in zip(first.tolist(), second.tolist()))
    allowed = max(truly_moved / Fraction(sensitivity), Fraction(1)) * Fraction(epsilon)
    assert moved / Fraction(scale) <= allowed


@given(st.floats(1e-100, 1e100), epsilons, st.integers(1, 5))
def test_the_scale_is_the_sensitivity_over_epsilon_rounded_up(sensitivity, epsilon, size):
    _, scale, grid = released_steps(np.zeros(size), sensitivity, epsilon)
    needed = (Fraction(sensitivity) / Fraction(grid) + size) / Fraction(epsilon)
    assert needed <= Fraction(scale) <= needed * (1 + Fraction(1, 10**12))
    assert grid <= sensitivity * 2**-30 < 2 * grid


@settings(max_examples=20)
@given(st.floats(1e-3, 100))
def test_one_number_is_charged_as_laplace_and_several_as_pure(epsilon):
    one, two, count = (
        laplace_mechanism(1.5, 1.0, epsilon, **WHOM),
        laplace_mechanism([1.5, 2.5], 1.0, epsilon, **WHOM),
        geometric_mechanism(3, 1, epsilon, **WHOM),
    )
    assert one.event.process == Laplace(1 / epsilon) and 0 < one.event.slack < 1e-12
    assert two.event.process == count.event.process == PureDP(epsilon)
    assert two.event.slack < 1e-35 and count.event.slack < 1e-35
    assert np.ndim(one.value) == np.ndim(count.value) == 0 and two.value.shape == (2,)


def low_bit_share(values):
    """Share of numbers that are no multiples of 2^-53: near 1 no float64 has such bits, near 0 nearly every one."""
    return np.mean(np.asarray(values) * 2.0**53 % 1 != 0)


def test_low_bits_say_nothing_about_the_query_while_those_of_numpy_do():
    generator, queries = np.random.default_rng(1), (0.0, 1.0)
    ours = [[laplace_mechanism(query, 1e-3, 1.0, **WHOM).value for _ in range(200)] for query in queries]
    theirs = [query + generator.laplace(scale=1e-3, size=200) for query in queries]
    assert low_bit_share(ours[0]) == low_bit_share(ours[1])
    assert low_bit_share(theirs[0]) > 0.9 and low_bit_share(theirs[1]) < 0.1


@given(st.integers(1, 2**40), st.floats(1e-2, 100))
def test_counts_get_noise_of_sensitivity_over_epsilon(sensitivity, epsilon):
    with pytest.MonkeyPatch.context() as patch:
        scales = noise_free(patch)
        release = geometric_mechanism(np.array([5, -7]), sensitivity, epsilon, **WHOM)
    needed = Fraction(sensitivity) / Fraction(epsilon)
    assert needed <= Fraction(scales[0]) <= needed * (1 + Fraction(1, 10**12))
    assert release.value.tolist() == [5, -7] and release.value.dtype == np.int64


def test_counts_stay_whole_and_huge_ones_are_clamped():
    assert isinstance(geometric_mechanism(10, 1, 1.0, **WHOM).value, np.int64)
    noisy = geometric_mechanism(np.array([2**63 - 1, -(2**63)]), 1, 1.0, **WHOM).value
    assert np.abs(np.abs(noisy) - 2**60).max() < 200
    assert abs(geometric_mechanism(np.uint64(2**64 - 1), 1, 1.0, **WHOM).value - 2**60) < 200


def test_huge_values_are_clamped_without_an_overflow():
    for value in (1.7e308, -1.7e308):
        assert math.isclose(laplace_mechanism(value, 1.0, 1.0, **WHOM).value, math.copysign(2**30, value), rel_tol=1e-6)


@pytest.mark.parametrize("mechanism, value", [(laplace_mechanism, 1.5), (geometric_mechanism, 2)])
def test_noise_that_can_be_repeated_is_not_private(mechanism, value):
    release = mechanism(value, 1, 1.0, rng=ReproducibleStream(1), **WHOM)
    assert isinstance(release.event.process, NotPrivate)
    assert mechanism(value, 1, 1.0, rng=ReproducibleStream(1), **WHOM).value == release.value


@pytest.mark.parametrize("value", [math.nan, math.inf, [1.0, -math.inf], "1", [None], True, 1j, np.longdouble(1)])
def test_values_that_are_not_finite_numbers_are_refused(value):
    with pytest.raises(InvalidArgument) as refusal:
        laplace_mechanism(value, 1.0, 1.0, **WHOM)
    assert str(refusal.value).startswith(
        "value of the query must be finite real numbers of at most 64 bits, without NaN or infinity, got shape"
    )


@pytest.mark.parametrize("value", [1.0, [1.5], True, "1", 2**70])
def test_counts_that_are_not_whole_are_refused(value):
    with pytest.raises(InvalidArgument, match="value of the query must be whole numbers of at most 64 bits"):
        geometric_mechanism(value, 1, 1.0, **WHOM)


@pytest.mark.parametrize("sensitivity", [0, -1, math.nan, math.inf, True, "1", None, 1e-160])
def test_a_sensitivity_out_of_range_is_refused(sensitivity):
    with pytest.raises(InvalidArgument) as refusal:
        laplace_mechanism(1.0, sensitivity, 1.0, **WHOM)
    assert str(refusal.value) == f"sensitivity must be a number from 1e-150 to 1e+150, got {sensitivity!r}."
    with pytest.raises(InvalidArgument) as refusal:
        geometric_mechanism(1, sensitivity, 1.0, **WHOM)
    assert str(refusal.value) == f"sensitivity must be a whole number from 1 to 2^60, got {sensitivity!r}."


def test_other_refusals():
    with pytest.raises(InvalidArgument):
        laplace_mechanism(1.0, 1.0, 0, **WHOM)
    with pytest.raises(InvalidArgument):
        geometric_mechanism(1, 1, math.nan, **WHOM)
    with pytest.raises(InvalidArgument):
        laplace_mechanism(1.0, 1.0, 1.0, rng=np.random.default_rng(1), **WHOM)
    with pytest.raises(TypeError):
        laplace_mechanism(1.0, 1.0, 1.0, observers="model")


@given(arrays(np.float64, st.integers(1, 6), elements=any_float), any_float, st.integers(0, 5))
def test_replacing_a_record_moves_a_bounded_mean_by_at_most_its_sensitivity(values, other, position):
    changed = values.copy()
    changed[position % len(values)] = other
    first, second = (bounded_mean(v, -2.0, 6.0) for v in (values, changed))
    assert abs(int(first.steps) - int(second.steps)) <= first.sensitivity_in_steps(REPLACE_ONE) == STEPS_OF_RANGE
    assert first.sensitivity(REPLACE_ONE) == 8.0 / len(values)


def test_the_whole_sensitivity_of_a_mean_can_be_needed():
    first, second = bounded_mean([10.0, 1.0], 1.0, 4.0), bounded_mean([-math.inf, 1.0], 1.0, 4.0)
    assert math.isclose(first.value - second.value, 0.75)
    extreme = bounded_mean([1e308, 1.0], 1.0, 4.0).value - bounded_mean([-1e308, 1.0], 1.0, 4.0).value
    assert math.isclose(extreme, first.sensitivity(REPLACE_ONE)) and math.isclose(extreme, 1.5)


def test_vectors_add_up_their_sensitivities():
    mean = bounded_mean(np.ones((10, 2)), [0.0, 0.0], [1.0, 5.0])
    assert mean.dimension == 2 and math.isclose(mean.sensitivity(REPLACE_ONE), 0.6)
    assert mean.sensitivity_in_steps(REPLACE_ONE) == 2 * STEPS_OF_RANGE
    assert np.allclose(mean.value, [1.0, 1.0])


def test_a_mean_over_a_public_count_has_no_sensitivity_under_add_or_remove():
    with pytest.raises(InvalidEvent) as refusal:
        bounded_mean([1.0], 0.0, 1.0).sensitivity(ADD_OR_REMOVE)
    assert str(refusal.value) == ("relation must be replace_one for a mean over a public count, got 'add_or_remove'.")


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=50), epsilons)
def test_a_private_mean_gets_noise_of_one_range_over_n_epsilon(values, epsilon):
    with pytest.MonkeyPatch.context() as patch:
        scales = noise_free(patch)
        release = private_mean(values, -1, 1, epsilon, observers="model")
    assert Fraction(scales[0]) >= STEPS_OF_RANGE / Fraction(epsilon)
    assert math.isclose(scales[0], STEPS_OF_RANGE / epsilon, rel_tol=1e-12)
    assert math.isclose(release.value, np.mean(values), abs_tol=1e-8)
    assert release.event.process == Laplace(1 / epsilon) and release.event.relation == REPLACE_ONE


def test_a_private_mean_of_vectors_is_charged_as_pure():
    release = private_mean(np.ones((10, 3)), 0, 2, 1.0, observers="model", unit="client")
    assert release.event.process == PureDP(1.0) and release.value.shape == (3,) and release.event.unit == "client"


@pytest.mark.parametrize("lower, upper", [(1, 1), (2, 1), (math.nan, 1), (0, math.inf), (-1e308, 1e308)])
def test_a_range_must_be_finite_and_in_order(lower, upper):
    with pytest.raises(InvalidArgument) as refusal:
        bounded_mean([1.0], lower, upper)
    assert str(refusal.value) == f"lower and upper must be finite, lower below upper, got {(lower, upper)!r}."


def test_ranges_and_records_of_another_kind_are_refused():
    for lower in ([0, 0], "a", None):
        with pytest.raises(InvalidArgument):
            bounded_mean([1.0, 2.0], lower, 1)
    for values in ([], 1.0, ["a"], [None], [1j]):
        with pytest.raises(ValueError):
            bounded_mean(values, 0, 1)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.int8, np.uint8, np.int16, np.int64])
@pytest.mark.parametrize("sensitivity", [1.0, 1e-40])
def test_narrow_types_are_released_as_what_they_hold(monkeypatch, kind, sensitivity):
    """A quotient by the grid in the array's own type would be infinite, and 0 / 0 where the grid is 0 in it."""
    noise_free(monkeypatch)
    values = np.array([0, 1, 3]).astype(kind)
    released = laplace_mechanism(values * kind(sensitivity >= 1), sensitivity, 1.0, **WHOM).value
    assert released.tolist() == ([0.0, 1.0, 3.0] if sensitivity >= 1 else [0.0, 0.0, 0.0])


def test_neighbouring_whole_numbers_beyond_2_to_the_53_stay_within_their_sensitivity(monkeypatch):
    noise_free(monkeypatch)
    before = 2**61 + 2**8
    first, second = (laplace_mechanism(np.int64(before + k), 2.0**32, 1.0, **WHOM).value for k in (0, 1))
    assert abs(second - first) <= 4


@pytest.mark.parametrize("values", [np.ones((3, 0)), np.ones((0, 2))])
def test_records_without_a_value_are_refused(values):
    with pytest.raises(ValueError) as refusal:
        bounded_mean(values, 0, 1)
    assert str(refusal.value) == (
        f"values must be real numbers, at least one for each of 1 to 1073741824 records, got shape {values.shape} and type "
        "float64."
    )


def test_an_epsilon_too_small_for_the_grid_is_refused_by_its_name():
    with pytest.raises(InvalidArgument) as refusal:
        laplace_mechanism(0.0, 1.0, 1e-7, **WHOM)
    assert str(refusal.value) == (
        "epsilon must be at least 9.5e-07, since noise is drawn up to 2^50 steps of the grid, got 1e-07."
    )


def test_the_mean_of_yes_and_no_is_a_share():
    mean = bounded_mean([True, False, False, True], 0, 1)
    assert mean.value == 0.5 and mean.sensitivity(REPLACE_ONE) == pytest.approx(1 / 4, rel=1e-6)
