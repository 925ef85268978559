"""Slots: shares of what is packed add up to it, nothing runs over into the next slot, and masks cover the plaintext."""

import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fate_dp.crypto.slots import STATISTICAL_BITS, SlotLayout, draw_mask


@st.composite
def layouts_and_values(draw):
    layout = SlotLayout(draw(st.integers(1, 120)), draw(st.integers(200, 1100)))
    bound = (1 << layout.value_bits) - 1
    value = st.one_of(st.sampled_from([0, -1, 1, bound, -bound]), st.integers(-bound, bound))
    return layout, draw(st.lists(value, max_size=layout.slots))


def least_modulus(layout):
    return (1 << (layout.key_length - 1)) + 1


@settings(max_examples=50)
@given(layouts_and_values())
def test_shares_add_up_to_the_values(case):
    layout, values = case
    n = least_modulus(layout)
    mask = draw_mask(n)
    opened = layout.digits((layout.pack(values) + mask) % n, len(values))
    assert [own - other for own, other in zip(opened, layout.digits(mask, len(values)))] == values
    assert all(0 <= share < 1 << layout.slot_bits for share in opened)


@settings(max_examples=50)
@given(layouts_and_values())
def test_a_plaintext_is_so_small_beside_n_that_it_wraps_with_a_chance_of_2_to_the_minus_41(case):
    layout, values = case
    assert abs(layout.pack(values)) << (STATISTICAL_BITS + 1) < least_modulus(layout)


@pytest.mark.parametrize("sign", [-1, 1])
def test_only_masks_within_a_value_of_an_end_of_the_digits_range_give_a_wrong_share(sign):
    """For the largest value there are 2^value_bits such digits among 2^slot_bits: one in 2^41."""
    layout, value = SlotLayout(70, 2048), sign * (2**70 - 1)
    width = 1 << layout.slot_bits
    edge = {1: width - value, -1: -value - 1}[sign]
    for digit, expected in ((edge - sign, value), (edge, value - sign * width)):
        mask = layout.pack([width // 4, 0, 0]) + (digit << layout.slot_bits)
        opened = layout.digits(layout.pack([0, value, 0]) + mask, 3)
        assert opened[1] - layout.digits(mask, 3)[1] == expected
    assert width >> layout.value_bits == 1 << (STATISTICAL_BITS + 1)


@pytest.mark.parametrize(
    "value_bits, key_length, slots", [(70, 2048, 18), (55, 2048, 21), (86, 3072, 24), (469, 511, 1)]
)
def test_slots_per_plaintext(value_bits, key_length, slots):
    layout = SlotLayout(value_bits, key_length)
    assert layout.slot_bits == value_bits + 1 + STATISTICAL_BITS and layout.slots == slots
    assert [layout.plaintexts(count) for count in (0, 1, slots, slots + 1)] == [0, 1, 1, 2]


def test_a_layout_without_a_slot_is_refused_with_the_largest_that_fits():
    assert SlotLayout(470, 512).slots == 1
    with pytest.raises(ValueError, match="value_bits is 471; .* at most 470 bits fits into .* 512 bits"):
        SlotLayout(471, 512)
    with pytest.raises(ValueError, match="value_bits must be at least 1, got 0"):
        SlotLayout(0, 512)


def test_what_does_not_fit_is_refused():
    layout = SlotLayout(20, 200)
    half = 1 << (layout.slot_bits - 1)
    for value in (half, -half - 1):
        with pytest.raises(ValueError, match="does not fit into a slot of 61 bits"):
            layout.pack([0, value])
    with pytest.raises(ValueError, match="4 values do not fit into a plaintext with 3 slots"):
        layout.pack([0] * 4)


def test_masks_are_uniform_below_the_modulus():
    modulus = 3 << 510
    masks = [draw_mask(modulus) for _ in range(1200)]
    assert max(masks) < modulus and len(set(masks)) == 1200
    for digits, count in (([mask >> 509 for mask in masks], 6), ([mask & 15 for mask in masks], 16)):
        counts = np.bincount(digits, minlength=count)
        assert len(counts) == count and chisquare(counts).pvalue > 1e-9


def test_masks_come_from_the_given_bits():
    drawn = iter([7, 6, 3])
    assert draw_mask(5, lambda bits: next(drawn)) == 3
    assert next(drawn, None) is None
    assert 0 <= draw_mask(1 + secrets.randbits(64)) < 1 << 64
