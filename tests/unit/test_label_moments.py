"""X^T t under a replaced label: it moves by no more than is stated, and noise follows what is stated."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy.accounting.gaussian import gaussian_epsilon
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import REPLACE_ONE, Gaussian, NotPrivate
from fate_dp.privacy.mechanisms import label_moments, second_moments
from fate_dp.privacy.mechanisms.label_moments import LabelMoments
from fate_dp.privacy.mechanisms.second_moments import RowBounds, clip_rows, clip_target, noise_multiplier_for
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic

GUEST, HOST = RowBounds(3, 1.5, intercept=True, target=2.0), RowBounds(2, 2.0)
MOMENTS = LabelMoments.of_rows((GUEST, HOST), 1.0)
ONE_HOT = LabelMoments((4.0, 6.0), 1.0, 3.0)


def rows_of(parties, features, fraction_bits):
    """Whole rows of all parties as Python integers in units of 2^-24, with a column of ones where there is an intercept."""
    columns = []
    for bounds, values in zip(parties, features):
        columns.append(clip_rows(values, np.ones(bounds.features), bounds, fraction_bits))
        if bounds.intercept:
            columns.append(np.full((len(values), 1), 2**24))
    return np.hstack(columns).astype(object)


def moved_square(parties, features, labels, fraction_bits):
    """Exact squared change of X^T t, in units of 2^-96, when one record's target turns from one label into the other."""
    rows = rows_of(parties, features, fraction_bits)
    first, second = (clip_target(np.array([label]), parties[0], fraction_bits).astype(object) for label in labels)
    return int((((second - first) @ rows) ** 2).sum())


def exceeds(parties, features, labels, fraction_bits=21):
    moments = LabelMoments.of_rows(parties, 1.0)
    return moved_square(parties, features, labels, fraction_bits) > Fraction(moments.sensitivity) ** 2 * 2**96


values = st.one_of(st.floats(-4, 4), st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, 1e300]))


@st.composite
def tables(draw):
    parties = tuple(
        RowBounds(draw(st.integers(1, 3)), draw(st.floats(1 / 16, 16)), draw(st.booleans()), 2.0 if place == 0 else 0.0)
        for place in range(draw(st.integers(1, 3)))
    )
    row = [draw(st.lists(values, min_size=each.features, max_size=each.features)) for each in parties]
    return parties, [np.array([part]) for part in row], (draw(values), draw(values))


@settings(max_examples=80)
@given(tables(), st.integers(12, 24))
def test_no_replaced_label_moves_the_sums_further_than_the_sensitivity(table, fraction_bits):
    assert not exceeds(*table, fraction_bits)


def long_rows():
    return [np.array([[100.0, 50.0, -20.0]]), np.array([[30.0, 40.0]])], (1e9, -1e9)


def test_a_row_that_fills_its_clips_reaches_the_sensitivity():
    features, labels = long_rows()
    assert not exceeds((GUEST, HOST), features, labels)
    moved = math.sqrt(moved_square((GUEST, HOST), features, labels, 21)) * 2.0**-48
    assert math.isclose(moved, 4 * math.sqrt(1.5**2 + 1 + 2.0**2), rel_tol=1e-4)
    assert math.isclose(MOMENTS.sensitivity, 4 * math.sqrt(7.25), rel_tol=1e-12)


@settings(max_examples=30)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=6), st.integers(0, 2**20))
def test_a_row_of_one_hot_columns_moves_by_the_root_of_their_number_exactly(bins, seed):
    generator = np.random.default_rng(seed)
    row = np.concatenate([np.eye(size, dtype=int)[generator.integers(size)] for size in bins])
    assert (row**2).sum() == len(bins)
    moments = LabelMoments((float(len(bins)),), 1.0, 1.0)
    assert math.sqrt(len(bins)) <= moments.sensitivity <= math.sqrt(len(bins)) * (1 + 1e-12)


MUTANTS = {
    "clip off": lambda patch: patch.setattr(second_moments, "_shortened", lambda rows, radius: rows),
    "target not clamped": lambda patch: patch.setattr(np, "clip", lambda values, low, high: values),
    "norms added after the root": lambda patch: patch.setattr(math, "fsum", lambda squares: max(squares)),
    "half of the spread": lambda patch: patch.setattr(
        LabelMoments, "of_rows", lambda bounds, multiplier: LabelMoments((3.25, 4.0), 2.0, multiplier)
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_property_notices_mutants(name, monkeypatch):
    features, labels = long_rows()
    if name == "target not clamped":
        labels = (100.0, -100.0)
    MUTANTS[name](monkeypatch)
    assert exceeds((GUEST, HOST), features, labels)


def test_noise_lies_on_the_grid_of_the_sums_and_stays_below_its_bound():
    noise = MOMENTS.draw(6, "host", ReproducibleStream(1)).values
    assert all(isinstance(value, int) and value % 2 ** (48 - 2 * MOMENTS.fraction_bits) == 0 for value in noise)
    assert max(map(abs, noise)) <= MOMENTS.largest_noise * 2**48
    # Some noise is odd on the grid, so that no low bit of a sum stays as it is.
    assert any(value >> 48 - 2 * MOMENTS.fraction_bits & 1 for value in noise)


def test_the_event_is_what_the_multiplier_costs_a_label_and_a_known_stream_costs_everything():
    multiplier = noise_multiplier_for(1.0, 1e-5)
    event = LabelMoments((10.0,), 1.0, multiplier).draw(160, ("host", "model")).event
    assert (event.process, event.unit, event.relation) == (Gaussian(multiplier), "label", REPLACE_ONE)
    assert event.observers == ("host", "model") and 0 < event.slack < 1e-20
    total = total_epsilon([(event, 1)], 1e-5)
    assert gaussian_epsilon(multiplier, 1e-5) <= total <= 1.0 + 1e-3
    assert isinstance(MOMENTS.draw(6, "host", ReproducibleStream(1)).event.process, NotPrivate)


def test_a_release_is_the_sums_plus_noise_of_their_own():
    sums = np.array([3 << 48, -(5 << 48)], dtype=object)
    release = ONE_HOT.release(sums, "host", ReproducibleStream(4))
    noise = ONE_HOT.draw(2, "host", ReproducibleStream(4)).values
    assert (release.value - noise).tolist() == sums.tolist()
    with pytest.raises(InvalidArgument, match="on the grid"):
        ONE_HOT.release(sums + 1, "host")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (((), 1.0, 1.0), "row_squares must be"),
        (((0.0,), 1.0, 1.0), "row_squares must be"),
        (((math.nan,), 1.0, 1.0), "row_squares must be"),
        ((3.0, 1.0, 1.0), "row_squares must be .*, got 3.0"),
        (((1.0,), 0.0, 1.0), "spread must be .*, got 0.0"),
        (((1.0,), 64.0, 1.0), "spread must be .*, got 64.0"),
        (((1.0,), 1.0, 0.0), "noise_multiplier must be .*, got 0.0"),
        (((1.0,), 1.0, 1e12), "noise_multiplier must be .*, got 1000000000000.0"),
    ],
)
def test_terms_out_of_range_are_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        LabelMoments(*arguments)


def test_bounds_must_hold_one_target():
    for bounds in ((HOST,), (GUEST, GUEST)):
        with pytest.raises(InvalidArgument, match="exactly one of them with a target"):
            LabelMoments.of_rows(bounds, 1.0)
    assert label_moments.LabelMoments.of_rows((GUEST,), 1.0).row_squares == (3.25,)
