"""Prepared steps: shares of products are exact at every bound, and what a party decrypts says nothing."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from shared_training import Parties, prepared_by_dealer, prepared_by_parties, split_quadratic, standardised

from fate_dp.crypto import residues
from fate_dp.crypto.descent_steps import (
    PreparedSteps,
    QuadraticBounds,
    QuadraticShare,
    StepLayout,
    draw_masks,
    encrypt_masks,
    multiply_masks,
    open_answer,
    rounded_quotient,
    share_bits,
)
from fate_dp.crypto.paillier import column_from_bytes, column_to_bytes, keypair_of_any_length
from fate_dp.crypto.residues import (
    ProductLayout,
    ResidueSystem,
    encrypt_vectors,
    multiply_vectors,
    open_products,
    room_for_moduli,
)
from fate_dp.crypto.slots import draw_mask

PUBLIC, PRIVATE = keypair_of_any_length(768)
SECOND_KEYS = keypair_of_any_length(768)
SYSTEM = ResidueSystem.below(70, 5)
PARTIES = Parties((2, 1))


@given(st.lists(st.integers(0, SYSTEM.moduli[-1] - 1), min_size=5, max_size=5), st.integers(-(2**90), 2**90))
def test_a_joined_number_is_multiplied_part_by_part(parts, factor):
    joined = SYSTEM.join(parts)
    assert 0 <= joined < SYSTEM.product and SYSTEM.split(joined) == parts
    assert SYSTEM.split(joined * factor) == [part * factor % modulus for part, modulus in zip(parts, SYSTEM.moduli)]
    assert ResidueSystem(SYSTEM.moduli[1:3]).join(parts[1:3]) == joined % (SYSTEM.moduli[1] * SYSTEM.moduli[2])


def test_moduli_are_coprime_nearly_the_largest_and_a_function_of_their_size():
    system = ResidueSystem.below(120, 24)
    assert all(np.gcd(a, b) == 1 for at, a in enumerate(system.moduli) for b in system.moduli[:at])
    assert all(2**120 - 2**88 < modulus < 2**120 for modulus in system.moduli)
    assert ResidueSystem.below(120, 24) == system and system.moduli[:3] == (2**120 - 1, 2**120 - 3, 2**120 - 5)
    assert 2**120 - 7 not in system.moduli  # divisible by 3, as 2^120 - 1 is


def test_few_moduli_of_few_bits_are_refused():
    with pytest.raises(ValueError, match="no 9 pairwise coprime odd numbers below 2\\^4"):
        ResidueSystem.below(4, 9)
    with pytest.raises(ValueError, match=r"Remainders must be one per modulus, 5, got 2\."):
        SYSTEM.join([1, 2])


def product_layout(terms=3, multiplier_bits=94, key_length=768, bits=155):
    count = room_for_moduli(key_length, multiplier_bits, terms) // bits
    return ProductLayout(ResidueSystem.below(bits, count), terms, multiplier_bits, key_length)


def multiplied(layout, vectors, multipliers):
    encrypted = encrypt_vectors(vectors, layout.system, PRIVATE.encryption(), 10)
    return multiply_vectors(encrypted, multipliers, layout, PUBLIC)


@pytest.mark.parametrize("sign", [-1, 1])
def test_products_are_exact_but_where_a_mask_is_within_the_sum_of_an_end_of_its_range(monkeypatch, sign):
    layout = product_layout()
    # The joined number is the largest one where every remainder is.
    vectors = np.array([[modulus - 1 for modulus in layout.system.moduli]] * 3, dtype=object)
    largest = 2**layout.sum_bits - 1
    expected = [
        [-3 * sign * (2**94 - 1) % modulus for modulus in layout.system.moduli],
        [0] * len(layout.system.moduli),
    ]
    for mask, exact in ((largest, True), (PUBLIC.n - 1 - largest, True), (0 if sign < 0 else PUBLIC.n - 1, False)):
        monkeypatch.setattr(residues, "draw_mask", lambda modulus: mask)
        message, own = multiplied(layout, vectors, [[sign * (2**94 - 1)] * 3, [0, 0, 0]])
        opened = open_products(message, 2, layout, PRIVATE)
        total = ((own + opened) % np.array(layout.system.moduli, dtype=object)).tolist()
        assert (total == expected) == exact
    assert layout.sum_bits + 41 < PUBLIC.key_length


SMALL_PUBLIC, SMALL_PRIVATE = keypair_of_any_length(512)


def view(monkeypatch, multiplier, mask=None):
    """Histogram of the leading bits that the owner sees of 320 equal products, in eighths of [0, n)."""
    layout = product_layout(key_length=512)
    if mask is not None:
        monkeypatch.setattr(residues, "draw_mask", mask)
    vectors = np.array([[modulus - 1 for modulus in layout.system.moduli]] * 3, dtype=object)
    encrypted = encrypt_vectors(vectors, layout.system, SMALL_PRIVATE.encryption(), 10)
    message, _ = multiply_vectors(encrypted, [[multiplier] * 3] * 320, layout, SMALL_PUBLIC)
    seen = [int(SMALL_PRIVATE.decrypt(sealed.value)) for sealed in column_from_bytes(message, SMALL_PUBLIC)]
    return np.bincount([value * 8 // SMALL_PUBLIC.n for value in seen], minlength=8)


@pytest.mark.parametrize("multiplier", [0, 2**94 - 1])
def test_what_the_owner_decrypts_is_uniform_whatever_the_multipliers(monkeypatch, multiplier):
    assert chisquare(view(monkeypatch, multiplier)).pvalue > 1e-9


def test_masks_one_bit_narrower_are_told_apart(monkeypatch):
    assert chisquare(view(monkeypatch, 0, mask=lambda modulus: draw_mask(modulus // 2))).pvalue < 1e-9


def test_an_owner_that_encrypts_numbers_beyond_the_layout_reads_nothing(monkeypatch):
    """It writes 2^470 into the second of three entries, far above all sums, to read what that is multiplied with."""
    layout, read = product_layout(key_length=512), []
    encrypted = column_to_bytes(SMALL_PRIVATE.encryption().encrypt([0, 1 << 470, 0], 3))
    for mask in (draw_mask, lambda modulus: draw_mask(1 << layout.sum_bits + 41)):
        monkeypatch.setattr(residues, "draw_mask", mask)
        message, _ = multiply_vectors(encrypted, [[3, 12345, 7]], layout, SMALL_PUBLIC)
        (sealed,) = column_from_bytes(message, SMALL_PUBLIC)
        read.append(int(SMALL_PRIVATE.decrypt(sealed)) >> 470)
    assert read[0] != 12345 == read[1]  # the second mask is as wide as it was once, when this attack worked


def test_products_of_another_size_are_refused():
    layout = product_layout()
    vectors = np.ones((3, len(layout.system.moduli)), dtype=object)
    message, _ = multiplied(layout, vectors, [[1, 2, 3]])
    with pytest.raises(ValueError, match=r"The message must hold 2 masked sums, got 1\."):
        open_products(message, 2, layout, PRIVATE)
    with pytest.raises(ValueError, match="more than 94 bits"):
        multiplied(layout, vectors, [[1, 2, -(2**94)]])
    with pytest.raises(ValueError, match="3 encrypted entries .* layout has 2 entries"):
        multiplied(replace(layout, terms=2), vectors, [[1, 2, 3]])
    with pytest.raises(ValueError, match="do not fit into a plaintext"):
        ProductLayout(ResidueSystem.below(155, 4), 3, 94 + 10, 768)


@pytest.fixture(scope="module")
def prepared():
    layout = PARTIES.layout(768, 4)
    shares = split_quadratic(PARTIES, *standardised(PARTIES, 1))
    return layout, shares, prepared_by_parties(shares, layout, [(PUBLIC, PRIVATE), SECOND_KEYS])


def test_shares_of_a_step_add_up_to_the_products_of_its_masks(prepared):
    layout, shares, steps = prepared
    hessian = sum(share.matrix for share in shares)
    assert layout.steps == steps[0].left == 4 and layout.losses_together == 2
    for _ in range(layout.steps):
        first, second = (one.take() for one in steps)
        modulus, loss_modulus = first.gradient_modulus, first.loss_modulus
        mask, left, right = first.mask + second.mask, first.left + second.left, first.right + second.right
        assert ((first.product + second.product - hessian @ mask) % modulus == 0).all()
        assert (first.inner + second.inner - left @ right) % loss_modulus == 0
        assert max(first.left) < loss_modulus and max(first.mask) < modulus


def test_a_prepared_step_is_handed_out_once(prepared):
    steps = prepared_by_dealer(prepared[1], prepared[0])[1]
    handed_out = [steps.take() for _ in range(steps.left)]
    assert len({tuple(step.mask) for step in handed_out}) == len(handed_out) and steps.left == 0
    with pytest.raises(ValueError, match="All 4 prepared steps are used"):
        steps.take()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="never pickled or copied"):
            copied(steps)


def test_what_does_not_fit_the_layout_is_refused(prepared):
    layout, shares, _ = prepared
    masks = draw_masks(layout)
    message = encrypt_masks(masks, layout, PRIVATE.encryption(), 10)
    wide = QuadraticShare(shares[1].matrix + 2**layout.matrix_bits, shares[1].linear)
    with pytest.raises(ValueError, match="mean square is larger than the parties agreed on"):
        multiply_masks(wide, masks, message, layout, PUBLIC)
    with pytest.raises(ValueError, match=r"Exchanged shares of products must be 2, got 4\."):
        PreparedSteps(shares[0], masks, [None] * 4, layout)
    answer, _ = multiply_masks(shares[1], masks, message, layout, PUBLIC)
    with pytest.raises(ValueError, match="must hold 3 masked sums, got 2"):
        open_answer({**answer, "weights": answer["inner"]}, layout, PRIVATE)


def test_masks_are_not_printed(prepared):
    layout, _, _ = prepared
    assert "[" not in repr(draw_masks(layout))


def test_sizes_of_a_training_with_keys_of_2048_bits():
    """Fewer steps in a ciphertext, or fewer losses, would make every epoch dearer."""
    parties = Parties((11, 20))
    layout = parties.layout(2048, 30, penalty=0.01)
    assert (layout.gradient_bits, layout.loss_bits, layout.steps, layout.losses_together) == (157, 122, 12, 4)
    assert (layout.at_most(7).steps, layout.at_most(40).steps) == (7, 12)
    assert Parties((11, 10, 10)).layout(2048, 30).carry_bits == 4
    assert Parties((11, 20)).layout(4096, 100).steps > 24


@given(
    st.integers(1, 400),
    st.integers(0, 8),
    st.sampled_from([0.0, 1.0, 1e6]),
    st.integers(2, 16),
    st.sampled_from([768, 2048, 3072]),
    st.integers(80, 110),
    st.integers(1, 40),
)
@settings(max_examples=60)
def test_every_layout_has_room(dimension, mean_square_bits, penalty, parties, key_length, matrix_bits, most_steps):
    bounds = QuadraticBounds(dimension, 1, mean_square_bits, 1.0, penalty)
    layout = StepLayout(bounds, parties, key_length, matrix_bits, most_steps)
    assert layout.losses_together >= 1 and 1 <= layout.steps <= most_steps
    assert len(layout.products.system.moduli) == len(layout.losses.system.moduli) == layout.steps
    assert min(layout.products.system.moduli) > bounds.curvature * 2.0 ** (28 + 84 + 41 + layout.carry_bits)
    assert min(layout.losses.system.moduli) > 2 * (bounds.curvature + penalty) * 2.0 ** (56 + 60)


def test_losses_keep_room_where_the_key_is_short_and_the_penalty_large():
    layout = StepLayout(QuadraticBounds(1, 4, 0, 0.25, 1e6), 2, 732, 80, 9)
    assert (layout.steps, layout.losses_together) == (3, 1)


def test_layouts_without_room_and_noise_without_penalty_are_refused():
    with pytest.raises(ValueError, match="key of 256 bits has room for 0 steps"):
        PARTIES.layout(256)
    with pytest.raises(ValueError, match="parties must be .*, got 1"):
        Parties((3,)).layout()
    with pytest.raises(ValueError, match="noise may have spectral norm 0.5"):
        PARTIES.layout(noise=0.5, penalty=0.1)


def test_scaled_shares_add_up_to_the_quadratic():
    hessian, linear = standardised(PARTIES, 3)
    shares = split_quadratic(PARTIES, hessian, linear)
    total = sum(share.matrix for share in shares).astype(np.float64) / 2.0**44
    assert np.abs(total - hessian).max() < 2.0**-43
    assert np.abs(sum(share.linear for share in shares).astype(np.float64) / 2.0**44 - linear).max() < 2.0**-43


@given(st.integers(-(2**120), 2**120), st.integers(1, 2**80))
def test_quotients_are_rounded_to_the_nearest_integer(number, divisor):
    quotient = int(rounded_quotient(np.array([number], dtype=object), divisor)[0])
    assert -divisor < 2 * (number - quotient * divisor) <= divisor or 2 * (number - quotient * divisor) == -divisor


@given(st.integers(60, 80), st.integers(1, 10**6), st.sampled_from([1, 4]))
def test_no_share_exceeds_share_bits(value_bits, rows, divisor):
    largest = 2 ** (value_bits + 41) - 1 + 2**value_bits
    entry = QuadraticShare.scaled(np.array([[largest]], dtype=object), np.array([0], dtype=object), rows, divisor)
    entry.check(share_bits(value_bits, rows, divisor))
    with pytest.raises(ValueError):
        entry.check(share_bits(value_bits, rows, divisor) - 3)
