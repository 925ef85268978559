"""Student-t intervals over repeated runs."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.credit_risk.models import interval, paired_difference
from fate_dp.privacy.validation import InvalidArgument

NUMBERS = st.lists(st.floats(-100, 100), min_size=2, max_size=12)


def test_against_a_printed_table():
    # Student's t at 4 degrees of freedom, two-sided 95 %: 2.776; the deviation of 1..5 is sqrt(2.5).
    found = interval([1, 2, 3, 4, 5])
    assert found["mean"] == 3.0 and found["values"] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert found["high"] - 3 == pytest.approx(2.776 * (2.5 / 5) ** 0.5, rel=1e-3)
    assert 3 - found["low"] == pytest.approx(found["high"] - 3)
    assert interval([1, 2], 0.9)["high"] - 1.5 == pytest.approx(6.314 * 0.5, rel=1e-3)


def test_one_value_has_no_ends():
    assert interval([0.7]) == {"mean": 0.7, "low": None, "high": None, "values": [0.7]}


@settings(max_examples=40, deadline=None)
@given(NUMBERS, st.floats(-5, 5), st.floats(0.1, 5))
def test_an_interval_moves_and_grows_with_its_values(values, shift, factor):
    found, moved = interval(values), interval([shift + factor * value for value in values])
    for end in ("mean", "low", "high"):
        assert moved[end] == pytest.approx(shift + factor * found[end], abs=1e-6)


def test_covers_the_true_mean_at_its_rate():
    generator = numpy.random.default_rng(20)
    found = [interval(generator.normal(size=4)) for _ in range(2000)]
    covered = sum(one["low"] <= 0 <= one["high"] for one in found)
    # Four deviations of a binomial count; the quantile of the normal law would cover 85 %.
    assert abs(covered - 1900) < 4 * (2000 * 0.95 * 0.05) ** 0.5


def test_pairs_remove_what_both_sides_share():
    first, second = interval([1.0, 5.0, 9.0]), interval([0.9, 4.9, 8.9])
    found = paired_difference(first, second)
    assert found["low"] == pytest.approx(0.1) and found["high"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "values, confidence, sentence",
    [
        ([], 0.95, "An interval needs at least one value; there is none."),
        ([1.0, float("nan")], 0.95, "The value nan is among those of an interval; finite numbers are allowed."),
        ([1.0, True], 0.95, "The value True is among those of an interval; finite numbers are allowed."),
        ([1.0], 1, "The confidence must be a number between 0 and 1, got 1."),
        ([1.0], 0, "The confidence must be a number between 0 and 1, got 0."),
        ([1.0], True, "The confidence must be a number between 0 and 1, got True."),
    ],
)
def test_refusals(values, confidence, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        interval(values, confidence)
    assert str(refusal.value) == sentence


def test_pairs_need_the_same_number():
    with pytest.raises(InvalidArgument) as refusal:
        paired_difference(interval([1, 2]), interval([1]))
    assert str(refusal.value) == "A paired difference needs as many values on both sides; there are 2 and 1."
