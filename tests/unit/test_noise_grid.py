"""Rounding to the grid, its costs against 30-digit oracles, and noise on vectors."""
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.privacy.noise.discrete_gaussian import discrete_gaussian
from fate_dp.privacy.noise.discrete_laplace import discrete_laplace
from fate_dp.privacy.noise.grid import (
    InvalidGrid,
    InvalidValues,
    choose_grid,
    from_grid,
    l1_rounding,
    l2_rounding,
    rounded_gaussian_slack,
    rounded_laplace_slack,
    to_grid,
)
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.noise.symmetric import InvalidScale
from fate_dp.privacy.noise.vector import add_gaussian, add_laplace, gaussian_slack, laplace_slack

grids = st.integers(-60, 20).map(lambda exponent: 2.0**exponent)
scales = pytest.mark.parametrize("scale", [0.05, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 20.0])


@given(st.floats(1e-12, 1e12), st.floats(1e-4, 1e5))
def test_the_grid_is_fine_enough_for_clip_and_noise_and_a_power_of_two(clip, multiplier):
    scale = clip * multiplier
    grid = choose_grid(scale, clip)
    assert math.frexp(grid)[0] == 0.5
    assert grid <= clip * 2.0**-30 and grid <= scale * 2.0**-40
    assert 2 * grid > min(clip * 2.0**-30, scale * 2.0**-40) and scale / grid <= 2.0**50


def test_the_grid_of_round_numbers():
    assert choose_grid(1.0, 1.0) == 2.0**-40 and choose_grid(1.99, 1.0) == 2.0**-40
    assert choose_grid(2.0**15, 1.0) == 2.0**-30 and choose_grid(2.0**20, 1.0) == 2.0**-30


@given(st.lists(st.floats(-1e9, 1e9), max_size=5), st.integers(-30, 20).map(lambda exponent: 2.0**exponent))
def test_rounding_goes_to_the_nearest_multiple(values, grid):
    steps = to_grid(values if values else np.empty(0), grid)
    assert steps.dtype == np.int64
    for value, step in zip(values, steps.tolist()):
        assert abs(Fraction(value) / Fraction(grid) - step) <= Fraction(1, 2)


@given(grids, st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=5))
def test_there_and_back_is_exact(grid, steps):
    values = from_grid(np.array(steps), grid)
    assert values.dtype == np.float64 and to_grid(values, grid).tolist() == steps


@given(grids, st.integers(1, 40), st.integers(0, 2**32))
def test_rounding_moves_two_neighbours_apart_by_no_more_than_it_reports(grid, dimension, seed):
    """Exact, in fractions; half a step on each side is the worst case and is reached by the second pair."""
    first, second = np.random.default_rng(seed).normal(size=(2, dimension)) * grid * 3
    worst = np.full(dimension, 0.5 * grid), np.full(dimension, math.nextafter(0.5, 1.0) * grid)
    for left, right in ((first, second), worst):
        rounded = [Fraction(int(d)) * Fraction(grid) for d in to_grid(left, grid) - to_grid(right, grid)]
        moved = [Fraction(a) - Fraction(b) for a, b in zip(left.tolist(), right.tolist())]
        added = [abs(after - before) for after, before in zip(rounded, moved)]
        assert sum(added) <= Fraction(l1_rounding(dimension, grid))
        assert sum(part**2 for part in added) <= Fraction(l2_rounding(dimension, grid)) ** 2
    assert sum(added) > Fraction(l1_rounding(dimension, grid)) * Fraction(999, 1000)


def test_the_cost_of_rounding_is_at_least_the_formula():
    assert l2_rounding(9, 0.25) == pytest.approx(0.75) and l2_rounding(9, 0.25) >= 0.75
    assert l1_rounding(9, 0.25) == pytest.approx(2.25) and l1_rounding(9, 0.25) >= 2.25
    assert l1_rounding(0, 0.25) == l2_rounding(0, 0.25) == 0


@scales
def test_the_gaussian_slack_bounds_the_distance(scale):
    """Against the exact distance; the bound is not idle either: within a factor of 3.1 from sigma 1 on."""
    with mpmath.workdps(30):
        reach = range(-int(12 * scale) - 5, int(12 * scale) + 6)
        weights = [mpmath.exp(-mpmath.mpf(x) ** 2 / (2 * mpmath.mpf(scale) ** 2)) for x in reach]
        rounded = [mpmath.ncdf(0.5 - abs(x), 0, scale) - mpmath.ncdf(-0.5 - abs(x), 0, scale) for x in reach]
        total = mpmath.fsum(weights)
        distance = mpmath.fsum(abs(w / total - q) for w, q in zip(weights, rounded)) / 2
    assert distance <= rounded_gaussian_slack(scale)
    assert scale < 1 or rounded_gaussian_slack(scale) < 4 * distance


@scales
def test_the_laplace_slack_bounds_the_distance(scale):
    with mpmath.workdps(30):
        reach = range(-int(60 * scale) - 5, int(60 * scale) + 6)
        weights = [mpmath.exp(-abs(x) / mpmath.mpf(scale)) for x in reach]
        half = mpmath.exp(-1 / (2 * mpmath.mpf(scale)))
        rounded = [1 - half if x == 0 else w * (1 / half - half) / 2 for x, w in zip(reach, weights)]
        total = mpmath.fsum(weights)
        distance = mpmath.fsum(abs(w / total - q) for w, q in zip(weights, rounded)) / 2
    assert distance <= rounded_laplace_slack(scale)
    assert scale < 1 or rounded_laplace_slack(scale) < 2 * distance


def test_slack_of_vectors_adds_up_and_is_negligible_on_the_chosen_grid():
    grid = choose_grid(1.3, 1.0)
    one, million = gaussian_slack(1.3, grid, 1), gaussian_slack(1.3, grid, 10**6)
    assert million == pytest.approx(1e6 * one) and 0.0605 * 2.0**-82 < one and million < 1e-18
    assert laplace_slack(1.3, grid, 10**6) < 1e-18
    assert gaussian_slack(1.0, 0.5, 10**9) == laplace_slack(1.0, 0.5, 10**9) == 1.0
    assert gaussian_slack(1.3, grid, 0) == 0


@pytest.mark.parametrize("add, draw", [(add_gaussian, discrete_gaussian), (add_laplace, discrete_laplace)])
def test_noise_on_a_vector_is_the_rounded_vector_plus_integer_noise(add, draw):
    grid, values = 2.0**-20, np.array([[0.1, -2.0, 3.0], [1e-9, 5.0, 7.0]], dtype=np.float32)
    noisy = add(values, 3.0, grid, ReproducibleStream(1))
    steps = np.rint(values.astype(float) * 2**20) + draw(3.0 * 2**20, (2, 3), ReproducibleStream(1))
    assert noisy.dtype == np.float64 and (noisy == steps / 2**20).all()
    assert not (add(values, 3.0, grid) == add(values, 3.0, grid)).any()
    assert add(np.array([2.0**62]), 2.0**50, 1.0).shape == (1,)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -(2.0**62) * 1.001])
def test_values_without_a_step_are_refused(value):
    with pytest.raises(InvalidValues) as error:
        to_grid([0.0, value], 1.0)
    assert str(error.value) == "values holds a number that is not finite or is above 4.61169e+18, 2^62 steps."


@pytest.mark.parametrize("values", [["1"], [None], [True], [1j]])
def test_values_that_are_no_real_numbers_are_refused(values):
    with pytest.raises(InvalidValues) as error:
        to_grid(values, 1.0)
    assert str(error.value) == (
        f"values is of type {np.asarray(values).dtype} but must be an array of real numbers."
    )


@pytest.mark.parametrize("grid", [0.3, 0, -1.0, 3, True, 2.0**-901, 2.0**901, math.inf, math.nan, "1"])
def test_a_grid_that_is_no_power_of_two_is_refused(grid):
    for call in (to_grid, from_grid, lambda _, grid: l2_rounding(1, grid), lambda _, grid: gaussian_slack(1, grid, 1)):
        with pytest.raises(InvalidGrid) as error:
            call(np.array([1]), grid)
        assert str(error.value) == f"grid is {grid!r} but must be a power of two from 2^-900 to 2^900."


@pytest.mark.parametrize("name, scale, clip", [("scale", 0, 1.0), ("scale", math.nan, 1.0), ("clip", 1.0, -1.0)])
def test_a_scale_or_clip_that_is_not_positive_is_refused(name, scale, clip):
    with pytest.raises(InvalidGrid) as error:
        choose_grid(scale, clip)
    value = {"scale": scale, "clip": clip}[name]
    assert str(error.value) == f"{name} is {value!r} but must be a number from 2^-900 to 2^900."


def test_noise_too_wide_for_the_clip_is_refused():
    with pytest.raises(InvalidGrid) as error:
        choose_grid(2.0**21, 1.0)
    assert str(error.value) == "scale is 2097152.0 but must be at most 1048576.0 for the clip 1.0."
    with pytest.raises(InvalidScale):
        add_gaussian([0.0], 1.0, 2.0**-60)


@pytest.mark.parametrize("dimension", [-1, 1.0, True])
def test_a_dimension_that_is_no_count_is_refused(dimension):
    with pytest.raises(InvalidGrid) as error:
        l2_rounding(dimension, 1.0)
    assert str(error.value) == f"dimension is {dimension!r} but must be a whole number of at least 0."
