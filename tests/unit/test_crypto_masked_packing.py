"""Masked packing: exact for the sender at every bound, uniform for the owner of the key."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fate_dp.crypto import paillier
from fate_dp.crypto import slots as masked_packing
from fate_dp.crypto.paillier import EncryptedSum, PublicKey, full_blindings, keypair_of_any_length
from fate_dp.crypto.slots import (
    MASK_BITS,
    PRODUCT_BITS,
    SLOT_BITS,
    decrypt_masked,
    mask_and_pack,
    slots_per_ciphertext,
    unpack_and_unmask,
)
from tests.support.paillier import embed

PUBLIC, PRIVATE = keypair_of_any_length(600)
LARGEST = 2**PRODUCT_BITS - 1
NOTHING = EncryptedSum(1, PUBLIC)
SUMS = st.lists(st.one_of(st.sampled_from([0, LARGEST, -LARGEST]), st.integers(-LARGEST, LARGEST)), max_size=8)


def encrypted(values):
    return [EncryptedSum(embed(PUBLIC, value), PUBLIC).fully_blinded() + NOTHING for value in values]


def slots_of(plaintexts):
    """What the owner of the key sees in every slot of every ciphertext."""
    values = [int.from_bytes(plaintext, "big") for plaintext in plaintexts]
    return [
        value >> (SLOT_BITS * at) & ((1 << SLOT_BITS) - 1)
        for value in values
        for at in range(slots_per_ciphertext(PUBLIC))
    ]


def seen_by_owner(values):
    packed, masks = mask_and_pack(encrypted(values), PUBLIC)
    return slots_of(decrypt_masked(packed, PRIVATE))[: len(values)], masks


def highest_bits(values):
    return [value >> (MASK_BITS - 4) for value in values]


@settings(max_examples=40)
@given(SUMS)
def test_sums_come_back_exactly(values):
    packed, masks = mask_and_pack(encrypted(values), PUBLIC)
    assert unpack_and_unmask(decrypt_masked(packed, PRIVATE), masks, PUBLIC) == values
    assert len(packed) == -(-len(values) // slots_per_ciphertext(PUBLIC))


@pytest.mark.parametrize("mask", [0, 2**MASK_BITS - 1])
@pytest.mark.parametrize("value", [-LARGEST, 0, LARGEST])
def test_slots_never_overflow_under_the_smallest_and_the_largest_mask(monkeypatch, mask, value):
    monkeypatch.setattr(masked_packing.secrets, "randbits", lambda bits: mask)
    values = [value] * (2 * slots_per_ciphertext(PUBLIC) + 1)
    packed, masks = mask_and_pack(encrypted(values), PUBLIC)
    plaintexts = decrypt_masked(packed, PRIVATE)
    assert all(0 < slot <= 2**SLOT_BITS - 1 for slot in slots_of(plaintexts)[: len(values)])
    assert unpack_and_unmask(plaintexts, masks, PUBLIC) == values


def test_the_fullest_plaintext_stays_below_the_smallest_modulus_of_a_key():
    for key_length in (600, 2048, 3072):
        smallest = PublicKey(1 << (key_length - 1))
        slots = slots_per_ciphertext(smallest)
        assert slots >= 1 and (1 << (SLOT_BITS * slots)) <= smallest.n


def test_masks_are_40_bits_wider_than_the_signed_product():
    assert MASK_BITS - (PRODUCT_BITS + 1) == 40


def test_the_owner_sees_no_value_twice_in_two_runs_on_the_same_sums():
    values = [1, -1, LARGEST, 0] * 10
    first, second = (set(seen_by_owner(values)[0]) for _ in range(2))
    assert len(first) == len(second) == 40 and not first & second


def test_high_bits_of_masked_values_are_uniform_and_those_of_unmasked_values_are_not():
    values = [7] * 480
    seen, masks = seen_by_owner(values)
    masked = chisquare(np.bincount(highest_bits(seen), minlength=16)[:16]).pvalue
    unmasked = [slot - mask for slot, mask in zip(seen, masks)]
    assert masked > 1e-9
    assert chisquare(np.bincount(highest_bits(unmasked), minlength=16)).pvalue < 1e-100


def test_masked_values_do_not_correlate_with_the_sums_they_hide():
    values = [LARGEST, -LARGEST] * 200
    seen, _ = seen_by_owner(values)
    correlation = np.corrcoef(np.array(seen, dtype=float), np.sign(np.array(values, dtype=float)))[0, 1]
    assert abs(correlation) < 0.3


def test_what_goes_back_is_blinded_with_a_full_residue(monkeypatch):
    sums, drawn = encrypted([5, 6, 7]), []
    monkeypatch.setattr(paillier, "full_blindings", lambda key, count: drawn.append(key) or full_blindings(key, count))
    monkeypatch.setattr(masked_packing.secrets, "randbits", lambda bits: 0)
    packed = [mask_and_pack(sums, PUBLIC)[0] for _ in range(2)]
    assert len(drawn) == 2 and packed[0] != packed[1]


def test_ciphertexts_have_one_width():
    packed, _ = mask_and_pack(encrypted([1, LARGEST, -3]), PUBLIC)
    assert {len(item) for item in packed} == {PUBLIC.ciphertext_bytes}


def test_tampered_answers_are_refused():
    packed, masks = mask_and_pack(encrypted([1, 2, 3, 4]), PUBLIC)
    answer = decrypt_masked(packed, PRIVATE)
    moved = int.from_bytes(answer[0], "big") ^ (1 << (PRODUCT_BITS + 30))
    tampered = [
        answer[:-1],
        [],
        list(reversed(answer)),
        [moved.to_bytes(len(answer[0]), "big"), *answer[1:]],
        [bytes(len(answer[0])), *answer[1:]],
    ]
    for wrong in tampered:
        with pytest.raises(ValueError, match="does not fit the masks"):
            unpack_and_unmask(wrong, masks, PUBLIC)
    assert unpack_and_unmask(answer, masks, PUBLIC) == [1, 2, 3, 4]


def test_the_key_owner_refuses_what_is_no_ciphertext():
    with pytest.raises(ValueError, match="not made under this key"):
        decrypt_masked([bytes(PUBLIC.ciphertext_bytes)], PRIVATE)


def test_nothing_to_send_needs_no_ciphertext():
    assert mask_and_pack([], PUBLIC) == ([], ())
    assert unpack_and_unmask([], (), PUBLIC) == []
