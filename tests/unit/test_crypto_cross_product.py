"""The secure cross product: exact shares, masks that hide, ciphertexts that never repeat, bounds that are checked."""

import secrets
from functools import partial, reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2_contingency, chisquare

from fate_dp.crypto import cross_product
from fate_dp.crypto.cross_product import (
    column_square_sums,
    encrypt_rows,
    merge_sums,
    multiply_rows,
    open_sums,
    product_layout,
    seal_sums,
    spans,
)
from fate_dp.crypto.paillier import OwnerEncryption, PublicKey, column_to_bytes, keypair_of_any_length
from fate_dp.crypto.slots import SlotLayout

pytestmark = pytest.mark.usefixtures("arithmetic")

PUBLIC, PRIVATE = keypair_of_any_length(512)
OWN = PRIVATE.encryption()
UNIT = 2**24
BOUND = 2**28
"""The largest entry of a column whose entries are all alike: its mean square is 2^8 at unit 2^-24."""
ENTRIES = st.one_of(st.sampled_from([0, 1, -1, BOUND, -BOUND]), st.integers(-BOUND, BOUND))
UNLIKELY = 1e-9


@st.composite
def factors(draw):
    """A, B with 1 to 6 rows; a row of B takes up one to three ciphertexts of 5 slots."""
    rows = draw(st.integers(1, 6))
    shapes = [(rows, draw(st.integers(1, 3))), (rows, draw(st.sampled_from([1, 5, 6, 11])))]
    return tuple(draw(arrays(np.int64, shape, elements=ENTRIES)) for shape in shapes)


def sums_of(left, right, layout, kernels=1):
    """The merged encrypted sums at the owner of ``left``."""
    multiply = partial(multiply_rows, columns=right.shape[1], layout=layout, public_key=PUBLIC)
    parts = [
        multiply(left[first:last], encrypt_rows(right[first:last], OWN, layout, len(right)))
        for first, last in spans(len(left), -(-len(left) // kernels))
    ]
    return reduce(partial(merge_sums, public_key=PUBLIC), parts)


def shares_of(left, right, kernels=1):
    """Shares of the owner of ``left``, who masks, and of the owner of ``right``, who has the key."""
    layout, columns = product_layout(len(left), PUBLIC), right.shape[1]
    sealed, ours = seal_sums(sums_of(left, right, layout, kernels), columns, layout, PUBLIC)
    return ours, open_sums(sealed, columns, layout, PRIVATE)


def plain(left, right):
    return left.astype(object).T @ right.astype(object)


def random_factors(rows, left, right, scale=UNIT, seed=1):
    generator = np.random.default_rng(seed)
    return tuple(np.rint(generator.normal(size=(rows, c)) * scale).astype(np.int64) for c in (left, right))


@settings(max_examples=30)
@given(factors(), st.integers(1, 3))
def test_both_shares_add_up_to_the_exact_product(pair, kernels):
    ours, theirs = shares_of(*pair, kernels)
    assert (ours + theirs == plain(*pair)).all()
    assert ours.shape == theirs.shape == (pair[0].shape[1], pair[1].shape[1])
    assert all(type(value) is int for share in (ours, theirs) for value in share.flat)


@pytest.mark.parametrize("rows", [1, 7, 8])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_that_the_bound_allows_are_exact(rows, sign):
    left, right = np.full((rows, 2), BOUND), np.full((rows, 7), sign * BOUND)
    assert max(column_square_sums(left)) == rows << 56
    ours, theirs = shares_of(left, right)
    assert (ours + theirs == sign * rows * 2**56).all()
    assert rows * 2**56 < 2 ** product_layout(rows, PUBLIC).value_bits


def test_one_row_may_carry_the_mean_square_of_all():
    left, right = np.zeros((16, 1), dtype=np.int64), np.zeros((16, 2), dtype=np.int64)
    left[3], right[3] = 2**30, [-(2**30), 2**30]
    ours, theirs = shares_of(left, right, kernels=4)
    assert (ours + theirs).tolist() == [[-(2**60), 2**60]]


def test_entries_within_their_bound_cannot_make_a_slot_run_over():
    """2^39 products of the largest entries, as if no mean square had been checked."""
    layout = product_layout(1, PUBLIC)
    entry = 2**29 - 1
    matrix = np.full((1, 4), entry)
    sums = multiply_rows(matrix, encrypt_rows(matrix, OWN, layout, 1), 4, layout, PUBLIC)
    for _ in range(39):
        sums = merge_sums(sums, sums, PUBLIC)
    for value in sums:
        assert layout.digits(PRIVATE.decrypt(value), 4) == [2**39 * entry**2] * 4
    assert 2**39 * entry**2 < 1 << layout.slot_bits


def test_the_owner_may_encrypt_the_rows_of_several_batches_at_once():
    left, right = np.full((64, 1), BOUND), np.full((64, 7), BOUND)
    layout, per_row = product_layout(1, PUBLIC), 2 * PUBLIC.ciphertext_bytes
    encrypted = encrypt_rows(right, OWN, layout, 64)
    sums = multiply_rows(left[:1], encrypted[:per_row], 7, layout, PUBLIC)
    sealed, ours = seal_sums(sums, 7, layout, PUBLIC)
    assert (ours + open_sums(sealed, 7, layout, PRIVATE) == BOUND**2).all()


def test_kernels_merge_to_the_same_sums_in_any_order_and_grouping():
    left, right = random_factors(8, 2, 7)
    layout = product_layout(8, PUBLIC)
    parts = [
        multiply_rows(left[at : at + 2], encrypt_rows(right[at : at + 2], OWN, layout, 8), 7, layout, PUBLIC)
        for at in range(0, 8, 2)
    ]
    merge = partial(merge_sums, public_key=PUBLIC)
    one_by_one = reduce(merge, parts)
    assert reduce(merge, reversed(parts)) == one_by_one
    assert merge(merge(parts[2], parts[0]), merge(parts[3], parts[1])) == one_by_one
    assert all(type(value) is int for value in one_by_one)


def test_a_kernel_of_many_rows_works_in_spans(monkeypatch):
    left, right = random_factors(7, 2, 7)
    layout = product_layout(7, PUBLIC)
    encrypted = encrypt_rows(right, OWN, layout, 7)
    at_once = multiply_rows(left, encrypted, 7, layout, PUBLIC)
    monkeypatch.setattr(cross_product, "ROWS_MULTIPLIED_AT_ONCE", 3)
    monkeypatch.setattr(cross_product, "_ROWS_ENCRYPTED_AT_ONCE", 2)
    assert multiply_rows(left, encrypted, 7, layout, PUBLIC) == at_once
    ours, theirs = shares_of(left, right)
    assert (ours + theirs == plain(left, right)).all()


def test_tables_are_laid_down_for_all_ciphertexts_of_the_expected_rows(monkeypatch):
    asked, encrypt = [], OwnerEncryption.encrypt
    monkeypatch.setattr(
        OwnerEncryption, "encrypt", lambda own, rows, expected: asked.append(expected) or encrypt(own, rows, expected)
    )
    encrypt_rows(np.ones((2, 7), dtype=np.int64), OWN, product_layout(2, PUBLIC), 500)
    assert asked == [1000]


def test_an_empty_kernel_adds_nothing():
    left, right = random_factors(3, 2, 7)
    layout = product_layout(3, PUBLIC)
    sums, empty = sums_of(left, right, layout), multiply_rows(left[:0], b"", 7, layout, PUBLIC)
    assert encrypt_rows(right[:0], OWN, layout, 3) == b""
    assert merge_sums(sums, empty, PUBLIC) == sums


def ciphertexts_of(column):
    width = PUBLIC.ciphertext_bytes
    return [column[at : at + width] for at in range(0, len(column), width)]


def test_no_ciphertext_is_sent_twice(monkeypatch):
    left, right = np.ones((20, 3), dtype=np.int64), np.ones((20, 7), dtype=np.int64)
    layout = product_layout(20, PUBLIC)
    rows = [ciphertexts_of(encrypt_rows(right, OWN, layout, 20)) for _ in range(2)]
    assert len({*rows[0], *rows[1]}) == 2 * 20 * 2
    sums = sums_of(left, right, layout)
    # Even under masks that are all alike, the randomness of what goes back differs each time.
    monkeypatch.setattr(cross_product, "draw_mask", lambda modulus, random_bits: 5)
    sealed = [seal_sums(sums, 7, layout, PUBLIC)[0] for _ in range(2)]
    assert len({*sealed[0], *sealed[1]}) == 2 * 3 * 2
    assert {len(item) for item in rows[0] + sealed[0]} == {PUBLIC.ciphertext_bytes}


def test_what_goes_back_carries_a_full_blinding_for_each_ciphertext(monkeypatch):
    left, right = random_factors(3, 2, 7)
    layout, blinded, fully_blinded = product_layout(3, PUBLIC), [], cross_product.paillier.fully_blinded
    sums = sums_of(left, right, layout)
    monkeypatch.setattr(
        cross_product.paillier, "fully_blinded", lambda all: blinded.extend(fully_blinded(all)) or blinded
    )
    sealed, _ = seal_sums(sums, 7, layout, PUBLIC)
    assert sealed == [ciphertext.to_bytes() for ciphertext in blinded] and len(sealed) == 4


def histogram(numbers):
    """Sixteenths of [0, n), and the lowest digits of each slot."""
    slots = zip(*(product_layout(1, PUBLIC).digits(number, 4) for number in numbers))
    lowest = [[digit % 16 for digit in slot] for slot in slots]
    highest = [number * 16 // PUBLIC.n for number in numbers]
    return [np.bincount(digits, minlength=16) for digits in (highest, *lowest)]


def hides(*opened):
    """Whether what was decrypted for several data sets looks uniform below n, and all alike."""
    for counts in zip(*map(histogram, opened)):
        alike = chi2_contingency(np.array(counts) + 1).pvalue
        if min(alike, *(chisquare(of_one).pvalue for of_one in counts)) < UNLIKELY:
            return False
    return True


BEYOND = 2**450


def decrypted():
    """What the owner of the key decrypts of all zeros, of the largest sums, and of numbers far beyond its slots."""
    layout, found = product_layout(1, PUBLIC), []
    largest = encrypt_rows(np.full((1, 4), BOUND), OWN, layout, 1)
    beyond = column_to_bytes(OWN.encrypt([BEYOND], 1))
    for entry, encrypted in ((0, largest), (BOUND, largest), (1, beyond)):
        sums = multiply_rows(np.full((1, 400), entry), encrypted, 4, layout, PUBLIC)
        sealed, _ = seal_sums(sums, 4, layout, PUBLIC)
        found.append([int(PRIVATE.decrypt(int.from_bytes(data, "big"))) for data in sealed])
    return found


def test_what_the_owner_decrypts_is_uniform_whatever_was_multiplied_and_whatever_it_encrypted():
    found = decrypted()
    assert hides(*found) and len({value for of_one in found for value in of_one}) == 1200


NARROWER = {
    "no mask": lambda modulus, random_bits: 0,
    "a mask half as wide": lambda modulus, random_bits: secrets.randbits(256),
    "a mask of the slots alone": lambda modulus, random_bits: secrets.randbits(4 * product_layout(1, PUBLIC).slot_bits),
    "a mask one bit too narrow": lambda modulus, random_bits: secrets.randbits(modulus.bit_length() - 2),
    "one mask for all": lambda modulus, random_bits: SHARED_MASK,
    "a mask of even numbers": lambda modulus, random_bits: secrets.randbelow(modulus) & ~1,
}
SHARED_MASK = secrets.randbelow(PUBLIC.n)


@pytest.mark.parametrize("mutant", NARROWER.values(), ids=NARROWER.keys())
def test_masks_that_hide_less_are_told_apart(monkeypatch, mutant):
    monkeypatch.setattr(cross_product, "draw_mask", mutant)
    assert not hides(*decrypted())


def rows_read(sealed, layout, bits, fitting):
    """The multiplier's column, as an owner reads it that wrote a power of two for each row above its slots."""
    n, found = PUBLIC.n, []
    plaintext = int(PRIVATE.decrypt(int.from_bytes(sealed, "big")))
    plaintext = (plaintext - n if 2 * plaintext > n else plaintext) + (1 << layout.slot_bits - 1) >> layout.slot_bits
    for _ in range(fitting):
        digit = plaintext & (1 << bits) - 1
        digit -= digit >> bits - 1 << bits
        found.append(digit)
        plaintext = plaintext - digit >> bits
    return found


@pytest.mark.parametrize("one_mask", [True, False])
def test_an_owner_that_writes_beyond_its_slots_reads_no_row(monkeypatch, one_mask):
    """It encrypts row i as 2^(slot + 30 i). Masks in the used slot alone, as they were once, show it a row for each."""
    left, _ = random_factors(40, 3, 1)
    layout, bits = product_layout(40, PUBLIC), 30
    fitting = (PUBLIC.key_length - 2 - layout.slot_bits) // bits
    plaintexts = [1 << layout.slot_bits + bits * at if at < fitting else 0 for at in range(40)]
    if not one_mask:
        monkeypatch.setattr(
            cross_product, "draw_mask", lambda modulus, random_bits: secrets.randbits(layout.slot_bits - 2)
        )
    sums = multiply_rows(left, column_to_bytes(OWN.encrypt(plaintexts, 40)), 1, layout, PUBLIC)
    sealed, _ = seal_sums(sums, 1, layout, PUBLIC)
    read = [rows_read(data, layout, bits, fitting) for data in sealed]
    right = [values == left[:fitting, at].tolist() for at, values in enumerate(read)]
    assert fitting > 10 and right == [not one_mask] * 3


def test_bounds_of_sums_follow_from_the_number_of_rows():
    for rows, bits in ((1, 57), (10_000, 70), (10**6, 76), (2**30, 87)):
        layout = product_layout(rows, PublicKey(1 << 2047))
        assert layout.value_bits == bits and rows * 2**56 < 2**bits
    for rows in (0, 2**30 + 1):
        with pytest.raises(ValueError, match=f"rows must be from 1 to 2\\^30, got {rows}"):
            product_layout(rows, PUBLIC)


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        (np.ones((1, 1)), "must be int64 with two dimensions, got float64"),
        (np.ones(1, dtype=np.int64), "must be int64 with two dimensions"),
        (np.array([[1, -(2**33)]]), "has an entry of 2\\^33 or more"),
    ],
)
def test_factors_that_could_overflow_are_refused_on_both_sides(wrong, sentence):
    layout = product_layout(1, PUBLIC)
    encrypted = encrypt_rows(np.array([[1]]), OWN, layout, 1)
    with pytest.raises(ValueError, match=f"matrix .*{sentence}|matrix {sentence}"):
        encrypt_rows(wrong, OWN, layout, 1)
    with pytest.raises(ValueError, match=f"left .*{sentence}|left {sentence}"):
        multiply_rows(wrong, encrypted, 1, layout, PUBLIC)


def test_entries_never_exceed_what_exact_products_take():
    layout = product_layout(2**30, PUBLIC)
    with pytest.raises(ValueError, match="matrix has an entry of 2\\^40 or more"):
        encrypt_rows(np.array([[2**40]]), OWN, layout, 1)


def test_a_layout_for_keys_of_another_length_is_refused_everywhere():
    left, right = random_factors(2, 1, 1)
    fits, other = product_layout(2, PUBLIC), SlotLayout(58, 2048)
    encrypted = encrypt_rows(right, OWN, fits, 2)
    sums = multiply_rows(left, encrypted, 1, fits, PUBLIC)
    sealed, _ = seal_sums(sums, 1, fits, PUBLIC)
    for call in (
        lambda: encrypt_rows(right, OWN, other, 2),
        lambda: multiply_rows(left, encrypted, 1, other, PUBLIC),
        lambda: seal_sums(sums, 1, other, PUBLIC),
        lambda: open_sums(sealed, 1, other, PRIVATE),
    ):
        with pytest.raises(ValueError, match="The key must have 2048 bits, those of the layout, got 512"):
            call()


def test_messages_and_kernels_of_wrong_length_are_refused():
    left, right = random_factors(3, 2, 7)
    layout = product_layout(3, PUBLIC)
    encrypted = encrypt_rows(right, OWN, layout, 3)
    for wrong in (encrypted[:-1], encrypted + encrypted, b""):
        with pytest.raises(ValueError, match="for 3 rows of 256 bytes each"):
            multiply_rows(left, wrong, 7, layout, PUBLIC)
    sums = multiply_rows(left, encrypted, 7, layout, PUBLIC)
    with pytest.raises(ValueError, match=r"Kernels must have as many sums to be merged, got 4 and 3\."):
        merge_sums(sums, sums[:-1], PUBLIC)
    with pytest.raises(ValueError, match="3 encrypted sums are no whole number of columns of 2"):
        seal_sums(sums[:-1], 7, layout, PUBLIC)
    sealed, _ = seal_sums(sums, 7, layout, PUBLIC)
    with pytest.raises(ValueError, match="3 encrypted sums are no whole number of columns of 2"):
        open_sums(sealed[:-1], 7, layout, PRIVATE)
    with pytest.raises(ValueError, match="columns of the key's owner must be at least 1, got 0"):
        multiply_rows(left, b"", 0, layout, PUBLIC)


def test_what_is_no_ciphertext_is_refused():
    left, right = random_factors(3, 1, 2)
    layout = product_layout(3, PUBLIC)
    (sealed,), _ = seal_sums(sums_of(left, right, layout), 2, layout, PUBLIC)
    for foreign in (bytes(len(sealed)), b"\xff" * len(sealed)):
        with pytest.raises(ValueError, match="made under this key"):
            open_sums([foreign], 2, layout, PRIVATE)
