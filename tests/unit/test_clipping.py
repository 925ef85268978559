"""Clipped sums: what one record can move, whatever it holds, against the sensitivity that the sum reports."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fate_dp.privacy.events import ADD_OR_REMOVE, RELATIONS, REPLACE_ONE, InvalidEvent
from fate_dp.privacy.mechanisms.clipping import clip_records, clip_records_by_group, grid_for
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic

any_float = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
clips = st.floats(1e-6, 1e6) | st.sampled_from([1e-150, 1e150, 1.0, 2.0, 0.1])


def batches(records=st.integers(0, 5), dimension=st.integers(1, 12), elements=any_float):
    return st.tuples(records, dimension).flatmap(lambda shape: arrays(np.float64, shape, elements=elements))


def exact_norm_squared(steps):
    return sum(int(step) ** 2 for step in np.ravel(steps))


def is_within(steps, bound_in_steps):
    return exact_norm_squared(steps) <= Fraction(bound_in_steps) ** 2


@given(batches(), clips)
def test_removing_a_record_moves_the_sum_by_at_most_the_sensitivity(batch, clip):
    whole = clip_records(batch, clip)
    for record in range(len(batch)):
        rest = clip_records(np.delete(batch, record, axis=0), clip)
        assert is_within(whole.steps - rest.steps, whole.sensitivity_in_steps(ADD_OR_REMOVE))


@given(batches(records=st.integers(2, 6)), clips)
def test_replacing_a_record_moves_the_sum_by_at_most_the_sensitivity(batch, clip):
    first, second = clip_records(batch[:-1], clip), clip_records(np.vstack([batch[1:-1], batch[-1:]]), clip)
    assert is_within(first.steps - second.steps, first.sensitivity_in_steps(REPLACE_ONE))


def test_replacing_a_record_by_its_opposite_needs_nearly_all_of_the_sensitivity():
    large = np.full((1, 4), 1e308)
    first, second = clip_records(large, 3.0), clip_records(-large, 3.0)
    moved = np.linalg.norm((first.steps - second.steps) * first.grid)
    assert 6 - 1e-9 < moved <= first.sensitivity(REPLACE_ONE) < 6 + 1e-9
    assert moved > first.sensitivity(ADD_OR_REMOVE)


ADVERSARIAL = [
    [1e308, 1e308, -1e308],
    [1.7976931348623157e308] * 1000,
    [5e-324] * 10,
    [1e308, 5e-324, -1e-320],
    [1e154, 1e154],
    [1e-162, 1e-162],
    [math.nextafter(1.0, 2.0)],
    [math.nextafter(0.6, 1), 0.8],
    [1 / 3] * 9 + [1e-17] * 10_000,
    [1.0] + [1e-9] * 100_000,
]


@pytest.mark.parametrize("row", ADVERSARIAL)
@pytest.mark.parametrize("clip", [1.0, 0.1, 1e-150, 1e150, 7e-3])
def test_the_norm_of_one_record_stays_within_the_clip_and_half_a_step_per_coordinate(row, clip):
    total = clip_records([row], clip)
    steps = exact_norm_squared(total.steps)
    # (|x| + sqrt(d) / 2)^2 with an integer root above sqrt(d), so that the comparison is exact.
    bound = Fraction(clip) / Fraction(total.grid) + Fraction(math.isqrt(len(row)) + 1) / 2
    assert steps <= bound**2
    assert is_within(total.steps, total.sensitivity_in_steps(ADD_OR_REMOVE))


def test_a_record_within_the_clip_is_not_changed_beyond_the_grid():
    batch = np.array([[0.3, -0.4], [0.5, 0.0]])
    total = clip_records(batch, 1.0)
    assert np.abs(total.value - batch.sum(axis=0)).max() <= total.grid


@given(st.floats(1e-300, 1e300), clips)
def test_a_record_keeps_its_direction_and_gets_the_norm_of_the_clip(size, clip):
    value = clip_records([[3 * size / 5, 4 * size / 5]], clip).value
    assert np.allclose(value, np.array([0.6, 0.8]) * min(size, clip), rtol=1e-9, atol=1e-10 * clip)


@given(batches(records=st.integers(1, 6), elements=st.floats(-1e3, 1e3)), st.randoms(use_true_random=False))
def test_the_sum_does_not_depend_on_the_order_of_the_records(batch, shuffler):
    order = list(range(len(batch)))
    shuffler.shuffle(order)
    assert np.array_equal(clip_records(batch, 1.0).steps, clip_records(batch[order], 1.0).steps)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_record_that_is_not_finite_contributes_zero(bad):
    good = np.array([[0.1, 0.2, 0.3], [1.0, 2.0, 3.0]])
    spoilt = np.vstack([good, [0.1, bad, 0.1]])
    assert np.array_equal(clip_records(spoilt, 1.0).steps, clip_records(good, 1.0).steps)
    groups, levels = [[0], [1, 2]], [1.0, 1.0]
    by_group = [clip_records_by_group(batch, groups, levels).value for batch in (spoilt, good)]
    assert np.array_equal(*by_group)


@pytest.mark.parametrize("shape", [(0, 3), (0, 2, 5), (4, 0)])
def test_nothing_to_add_gives_zeros(shape):
    total = clip_records(np.empty(shape), 2.0)
    assert total.value.shape == shape[1:] and not total.value.any()


def test_a_batch_of_zeros_gives_zeros():
    assert not clip_records(np.zeros((3, 2)), 1.0).value.any()


@given(arrays(np.float32, array_shapes(min_dims=2, max_dims=4, max_side=4), elements=st.floats(-100, 100, width=32)))
def test_records_of_any_shape_are_flattened_for_the_norm(batch):
    flat = clip_records(batch.reshape(len(batch), -1), 1.5)
    shaped = clip_records(batch, 1.5)
    assert shaped.value.shape == batch.shape[1:]
    assert np.array_equal(shaped.steps.ravel(), flat.steps)


def test_many_records_are_added_in_parts_without_a_difference(monkeypatch):
    batch = np.random.default_rng(1).normal(size=(50, 7))
    whole = clip_records(batch, 1.0).steps
    monkeypatch.setattr("fate_dp.privacy.mechanisms.clipping.VALUES_AT_ONCE", 20)
    assert np.array_equal(clip_records(batch, 1.0).steps, whole)


@given(clips, st.integers(1, 10_000))
def test_the_sensitivity_is_the_clip_or_twice_it_plus_the_grid(clip, dimension):
    total = clip_records(np.zeros((1, dimension)), clip)
    assert total.grid <= 2**-30 * clip and math.frexp(total.grid)[0] == 0.5
    for relation, moved in ((ADD_OR_REMOVE, 1), (REPLACE_ONE, 2)):
        least = moved * Fraction(clip) + Fraction(math.isqrt(dimension)) * Fraction(total.grid)
        assert least <= Fraction(total.sensitivity(relation))
        assert math.isclose(
            total.sensitivity(relation), moved * clip + math.sqrt(dimension) * total.grid, rel_tol=1e-15
        )


@given(clips)
def test_the_grid_is_the_largest_power_of_two_that_is_allowed(clip):
    assert grid_for(clip) <= clip * 2**-34 < 2 * grid_for(clip)


@given(batches(records=st.integers(1, 4), dimension=st.just(5)), st.tuples(clips, clips))
def test_a_record_moves_each_group_by_at_most_its_sensitivity(batch, levels):
    groups = [slice(0, 4, 2), np.array([4, 1, 3])]
    whole, rest = (clip_records_by_group(rows, groups, levels) for rows in (batch, batch[1:]))
    for first, second in zip(whole.sums, rest.sums):
        assert is_within(first.steps - second.steps, first.sensitivity_in_steps(ADD_OR_REMOVE))


def test_groups_keep_their_places_and_report_one_sensitivity_each():
    total = clip_records_by_group([[[3.0, 0.1], [4.0, 0.2]]], [[0, 2], [1, 3]], [1.0, 10.0])
    assert np.allclose(total.value, [[0.6, 0.1], [0.8, 0.2]], atol=1e-8)
    assert total.clips == (1.0, 10.0) and total.dimension == 4
    assert np.allclose(total.sensitivity(REPLACE_ONE), [2.0, 20.0])
    assert np.allclose(total.sensitivity(ADD_OR_REMOVE), [1.0, 10.0])


def test_secret_sums_do_not_show_in_text_and_do_not_change():
    total = clip_records([[0.123456]], 1.0)
    assert "123" not in repr(total) and str(int(total.steps[0])) not in repr(total)
    with pytest.raises(ValueError):
        total.steps[0] = 0


@pytest.mark.parametrize("clip", [0, -1, math.nan, math.inf, True, "1", None, 1e-151, 1e151, np.True_])
def test_a_clip_out_of_range_is_refused(clip):
    with pytest.raises(InvalidArgument) as refusal:
        clip_records([[1.0]], clip)
    assert str(refusal.value) == f"clip must be a number from 1e-150 to 1e+150, got {clip!r}."


@pytest.mark.parametrize("gradients", [1.0, [1.0], [["a"]], [[None]], [[1j]], [[True]]])
def test_gradients_of_another_kind_are_refused(gradients):
    with pytest.raises(InvalidArgument, match="must be real numbers with one row per record"):
        clip_records(gradients, 1.0)


@pytest.mark.parametrize("groups", [[], [[0, 1]], [[0, 1], [1, 2]], [[0, 1, 2], []], [[0], [1], [2], [2]]])
def test_groups_must_cover_each_coordinate_once(groups):
    with pytest.raises(InvalidArgument) as refusal:
        clip_records_by_group(np.ones((2, 3)), groups, [1.0] * len(groups))
    assert str(refusal.value) == "groups must be non-empty and hold each of the 3 coordinates exactly once."


def test_each_group_needs_a_clip():
    with pytest.raises(InvalidArgument) as refusal:
        clip_records_by_group(np.ones((2, 3)), [[0], [1, 2]], [1.0])
    assert str(refusal.value) == "number of clips must be 2, one per group, got 1."


def test_the_relation_has_no_default_and_must_be_known():
    total = clip_records([[1.0]], 1.0)
    with pytest.raises(TypeError):
        total.sensitivity()
    with pytest.raises(InvalidEvent):
        total.sensitivity("neighbours")
    assert total.sensitivity(RELATIONS[0]) < total.sensitivity(RELATIONS[1])
