"""Slots: what is packed comes back, nothing runs over into the next slot, and masks are as wide as they must be."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fate_dp.crypto.slots import STATISTICAL_BITS, SlotLayout


class WithoutOffset(SlotLayout):
    """A mutant: reads the digits of a plaintext as if none of them could be negative."""

    def unpack(self, plaintext):
        return [plaintext >> (self.slot_bits * slot) & ((1 << self.slot_bits) - 1) for slot in range(self.slots)]


@st.composite
def layouts_and_values(draw):
    layout = SlotLayout(draw(st.integers(1, 120)), draw(st.integers(200, 1100)))
    half = 1 << (layout.slot_bits - 1)
    value = st.one_of(st.sampled_from([0, -1, 1, half - 1, -half]), st.integers(-half, half - 1))
    return layout, draw(st.lists(value, max_size=layout.slots))


@settings(max_examples=50)
@given(layouts_and_values())
def test_values_come_back_in_their_order_with_zeros_behind_them(case):
    layout, values = case
    assert layout.unpack(layout.pack(values)) == values + [0] * (layout.slots - len(values))


@settings(max_examples=50)
@given(layouts_and_values())
def test_every_plaintext_lies_within_half_of_the_smallest_modulus_of_its_length(case):
    layout, values = case
    assert abs(layout.pack(values)) < 1 << (layout.key_length - 2)


@pytest.mark.parametrize("mask", ["smallest", "largest"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_values_under_the_smallest_and_largest_masks_stay_in_their_slots(mask, sign):
    layout = SlotLayout(70, 2048)
    value, mask = sign * (2**70 - 1), 0 if mask == "smallest" else 2**layout.mask_bits - 1
    masked = layout.pack([value] * layout.slots) + layout.pack([mask] * layout.slots)
    assert layout.unpack_masked(masked, layout.slots) == [value + mask] * layout.slots


def test_a_reader_without_an_offset_fails_on_negative_values():
    mutant = WithoutOffset(70, 2048)
    assert mutant.unpack(mutant.pack([1, 2, 3]))[:3] == [1, 2, 3]
    assert mutant.unpack(mutant.pack([1, -2, 3]))[:3] != [1, -2, 3]


@pytest.mark.parametrize(
    "value_bits, key_length, slots", [(70, 2048, 18), (76, 2048, 17), (86, 3072, 23), (469, 514, 1)]
)
def test_slots_per_plaintext(value_bits, key_length, slots):
    layout = SlotLayout(value_bits, key_length)
    assert (layout.mask_bits, layout.slot_bits) == (value_bits + 1 + STATISTICAL_BITS, value_bits + 43)
    assert layout.slots == slots
    assert [layout.plaintexts(count) for count in (0, 1, slots, slots + 1)] == [0, 1, 1, 2]


def test_a_layout_without_a_slot_is_refused_with_the_largest_that_fits():
    assert SlotLayout(467, 512).slots == 1
    with pytest.raises(ValueError, match="value_bits is 468; .* at most 467 bits fits into .* 512 bits"):
        SlotLayout(468, 512)
    with pytest.raises(ValueError, match="value_bits is 0; .* at least 1 bit"):
        SlotLayout(0, 512)


def test_what_does_not_fit_is_refused():
    layout = SlotLayout(20, 200)
    half = 1 << (layout.slot_bits - 1)
    for value in (half, -half - 1):
        with pytest.raises(ValueError, match="does not fit into a slot of 63 bits"):
            layout.pack([0, value])
    with pytest.raises(ValueError, match="4 values do not fit into a plaintext with 3 slots"):
        layout.pack([0] * 4)
    for too_far in (layout.pack([half - 1] * 3) + 1, layout.pack([-half] * 3) - 1):
        with pytest.raises(ValueError, match="does not fit its 3 slots"):
            layout.unpack(too_far)


def test_only_masked_values_are_read_as_such():
    layout = SlotLayout(20, 200)
    bound, highest = 1 << 20, (1 << layout.mask_bits) + (1 << 20)
    assert layout.unpack_masked(layout.pack([1 - bound, highest - 1]), 2) == [1 - bound, highest - 1]
    for wrong in ([-bound, 0], [0, highest], [0, 0, 1]):
        with pytest.raises(ValueError, match="does not hold 2 masked values"):
            layout.unpack_masked(layout.pack(wrong), 2)


def test_masks_are_uniform_over_their_whole_range():
    layout = SlotLayout(70, 2048)
    masks = layout.draw_masks(800)
    for digits in ([mask >> (layout.mask_bits - 4) for mask in masks], [mask & 15 for mask in masks]):
        counts = np.bincount(digits, minlength=16)
        assert len(counts) == 16 and chisquare(counts).pvalue > 1e-6
    assert len(set(masks)) == 800
