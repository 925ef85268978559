"""Sums of bits over bins: exact for any rows, nothing but blinded ciphertexts leaves, and what is refused."""

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.crypto.contingency import add_by_bin, encrypt_bits, open_bin_sums, seal_bin_sums, table_layout
from fate_dp.crypto.cross_product import merge_sums
from fate_dp.crypto.paillier import column_from_bytes, keypair_of_any_length

pytestmark = pytest.mark.usefixtures("arithmetic")

PUBLIC, PRIVATE = keypair_of_any_length(512)
BINS = 23


def shares(bits, places, blocks=2, random_bits=None):
    """What the owner and the other party hold in the end, and what went from each to the other."""
    layout, encryption = table_layout(len(bits), 1, PUBLIC), PRIVATE.encryption()
    sums, sent = (1,) * BINS, []
    for rows in np.array_split(np.arange(len(bits)), blocks):
        sent.append(encrypt_bits(bits[rows], encryption, len(bits)))
        sums = merge_sums(sums, add_by_bin(places[rows], sent[-1], BINS, PUBLIC), PUBLIC)
    sealed, other = seal_bin_sums(sums, layout, PUBLIC, *([random_bits] if random_bits else []))
    return open_bin_sums(sealed, BINS, layout, PRIVATE), other, sent, sealed


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(10, BINS - 1)), min_size=1, max_size=30))
def test_the_shares_add_up_to_the_sums_of_bits_by_bin(rows):
    table = np.array(rows, dtype=np.int64)
    owner, other, _, _ = shares(table[:, 0], table[:, 1:])
    expected = np.zeros(BINS, dtype=np.int64)
    for bit, *places in rows:
        expected[places] += bit
    assert (owner + other).tolist() == expected.tolist()


def test_the_owners_share_is_its_mask_s_and_says_nothing_of_the_sums():
    bits, places = np.ones(20, dtype=np.int64), np.zeros((20, 1), dtype=np.int64)
    masks = iter(range(1, 100))
    constant = shares(bits, places, random_bits=lambda count: 0)
    masked = shares(bits, places, random_bits=lambda count: 2 ** (PUBLIC.n.bit_length() - 2) + next(masks))
    # Without a mask the owner reads the sum: this is what the mask is for.
    assert constant[0][0] == 20 and masked[0][0] == 21 and (masked[0] + masked[1])[0] == 20
    first, second = (shares(bits, places)[0] for _ in range(2))
    assert not set(first.tolist()) & set(second.tolist())


def test_only_blinded_ciphertexts_leave_and_none_is_sent_twice():
    bits, places = np.tile([0, 1], 10), np.zeros((20, 1), dtype=np.int64)
    _, _, sent, sealed = shares(bits, places)
    values = [item.value for block in sent for item in column_from_bytes(block, PUBLIC)]
    assert len(set(values)) == 20 and all(value % PUBLIC.n != 1 for value in values)
    assert all(mpz(int.from_bytes(item, "big")) % PUBLIC.n != 1 for item in sealed)


@pytest.mark.parametrize(
    "work, sentence",
    [
        (lambda: encrypt_bits(np.array([0, 2]), PRIVATE.encryption(), 2), "each 0 or 1"),
        (lambda: encrypt_bits(np.array([0.0]), PRIVATE.encryption(), 2), "each 0 or 1"),
        (lambda: add_by_bin(np.array([[3]]), b"", 3, PUBLIC), "outside the 3 bins"),
        (lambda: add_by_bin(np.array([[-1]]), b"", 3, PUBLIC), "outside the 3 bins"),
        (lambda: add_by_bin(np.array([[0]]), b"", 3, PUBLIC), "Encrypted rows must be 1 of"),
        (lambda: open_bin_sums([], 3, table_layout(4, 1, PUBLIC), PRIVATE), "Received 0 masked sums"),
        (lambda: table_layout(0, 1, PUBLIC), "rows must be .*, got 0"),
    ],
)
def test_what_does_not_fit_is_refused(work, sentence):
    with pytest.raises(ValueError, match=sentence):
        work()
