"""The owner's encryption: the same ciphertexts as anybody's, by arithmetic modulo the primes."""

import os
import pickle

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.crypto import powers
from fate_dp.crypto.paillier import OwnerEncryption, PrivateKey, PublicKey, comb_height, keypair_of_any_length
from fate_dp.crypto.powers import FixedBasePowers
from tests.support.paillier import signed

pytestmark = pytest.mark.usefixtures("arithmetic")

PUBLIC, PRIVATE = keypair_of_any_length(256)
ENCRYPTION = PRIVATE.encryption()
LARGEST = PUBLIC.n // 2


@pytest.mark.parametrize("expected", [1, 2000])
@settings(max_examples=50)
@given(values=st.lists(st.one_of(st.sampled_from([0, LARGEST, -LARGEST]), st.integers(-LARGEST, LARGEST)), max_size=4))
def test_signed_plaintexts_come_back(expected, values):
    assert [signed(PRIVATE, item) for item in ENCRYPTION.encrypt(values, expected)] == values


@pytest.mark.parametrize("value", [LARGEST + 1, -LARGEST - 1, PUBLIC.n], ids=["too large", "too small", "n"])
def test_plaintexts_that_do_not_fit_are_refused(value):
    with pytest.raises(ValueError, match="below n / 2"):
        ENCRYPTION.encrypt([0, value])


@pytest.mark.parametrize("key", [PUBLIC, PublicKey(PUBLIC.n)])
def test_two_encryptions_of_one_value_always_differ(key):
    encryption = PrivateKey(key, *PRIVATE._primes).encryption()
    sent = encryption.encrypt([3] * 100) + encryption.encrypt([3] * 100)
    # Modulo n an encryption shows its blinding alone: r^n mod n, whatever the plaintext.
    assert len({item.value % PUBLIC.n for item in sent}) == 200
    assert all(PRIVATE.decrypt(item) == 3 for item in sent)


def test_the_blinding_is_the_keys_base_to_an_exponent_of_half_the_key_length(monkeypatch):
    for drawn, exponent in ((b"\xff", 2**128 - 1), (b"\0", 0)):
        monkeypatch.setattr(powers.secrets, "token_bytes", lambda count: drawn * count)
        (sent,) = ENCRYPTION.encrypt([0], expected=2000)
        assert sent.value == pow(PUBLIC.blinding_base, exponent, PUBLIC.n**2)


def exponent_of(digits, columns, bits):
    """The exponent whose bit i columns + k is bit i of digit k; what lies beyond its length is cut off."""
    return sum(
        (digit >> row & 1) << row * columns + column
        for column, digit in enumerate(digits)
        for row in range(len(range(column, bits, columns)))
    )


def test_one_exponent_serves_both_primes(monkeypatch):
    drawn = []
    monkeypatch.setattr(powers.secrets, "token_bytes", lambda count: drawn.append(os.urandom(count)) or drawn[-1])
    (sent,) = ENCRYPTION.encrypt([0], expected=2000)
    columns = -(-128 // comb_height(2000))
    exponent = exponent_of(np.frombuffer(drawn[0], dtype=np.uint16).tolist(), columns, 128)
    assert sent.value == pow(PUBLIC.blinding_base, exponent, PUBLIC.n**2) and len(drawn) == 1


def test_without_a_base_the_blinding_takes_every_residue_class():
    golden = PublicKey(293 * 433)
    encryption = PrivateKey(golden, 293, 433).encryption()
    seen = {int(item.value) for item in encryption.encrypt([0] * 2000)}
    assert len({value % 293 for value in seen}) > 285 and len({value % 433 for value in seen}) > 400
    assert all(pow(value, 292 * 432, golden.n**2) == 1 for value in seen)


@settings(max_examples=20)
@given(st.integers(2, 10**8), st.integers(1, 70), st.integers(1, 9), st.integers(1, 5))
def test_fixed_base_powers_are_the_powers_with_the_drawn_exponents(base, bits, height, count):
    root = mpz(10007)
    base = base if base % root else base + 1
    table = FixedBasePowers([mpz(base)], root, bits, height)
    digits = table.random_digits(count)
    columns = -(-bits // height)
    exponents = [exponent_of(row.tolist(), columns, bits) for row in digits]
    assert digits.shape == (count, columns) and max(exponents) < 2**bits
    assert table.powers(digits) == [pow(base, exponent, 10007**2) for exponent in exponents]


@settings(max_examples=20)
@given(st.integers(2, 6), st.integers(9, 40), st.integers(1, 9))
def test_powers_of_several_bases_have_an_exponent_of_their_own_each(bases, bits, height):
    """With all bits set, each base has the exponent 2^k - 1, and all k add up to the bits of all exponents."""
    root, total = mpz(10007), bases * bits
    table = FixedBasePowers([mpz(2 + at) for at in range(bases)], root, total, height)
    ones = np.array([[(1 << width) - 1 for width in table._widths]], dtype=np.uint16)
    columns = len(table._widths)
    starts = sorted(
        {
            first + row * columns
            for first in range(0, columns, 8)
            for row in range(height)
            if first + row * columns < total
        }
    )
    edges = [next(start for start in starts if start // bits == at) for at in range(bases)]
    expected = 1
    for at, (first, last) in enumerate(zip(edges, [*edges[1:], total])):
        expected = expected * pow(2 + at, 2 ** (last - first) - 1, 10007**2) % 10007**2
    assert table.powers(ones) == [expected] and edges[0] == 0


def test_random_digits_fill_their_range_and_no_more():
    digits = FixedBasePowers([mpz(3)], mpz(10007), 10, 4).random_digits(30_000)
    counts = [np.bincount(column, minlength=16).tolist() for column in digits.T]
    assert all(len(row) == 16 for row in counts)
    # Ten bits in rows of three: the first column has four of them, the others have three.
    assert min(counts[0]) > 1500 and all(min(row[:8]) > 3300 and sum(row[:8]) == 30_000 for row in counts[1:])


def test_long_columns_walk_through_the_table_in_parts(monkeypatch):
    monkeypatch.setattr(powers, "_AT_ONCE", 3)
    values = list(range(-4, 4))
    assert [signed(PRIVATE, item) for item in ENCRYPTION.encrypt(values)] == values
    assert ENCRYPTION.encrypt([]) == []


def test_higher_combs_pay_for_more_encryptions():
    heights = [comb_height(10**power) for power in range(8)]
    assert heights == sorted(heights) and heights[0] == 4
    assert heights[-1] == (11 if powers.kernel().library is None else 13) and comb_height(10**7, 9) == 9


def test_it_travels_to_workers_and_shows_no_prime():
    copied = pickle.loads(pickle.dumps(ENCRYPTION))
    assert copied == ENCRYPTION and hash(copied) == hash(ENCRYPTION)
    assert copied != keypair_of_any_length(64)[1].encryption()
    assert PRIVATE.decrypt(copied.encrypt([9])[0]) == 9
    assert repr(ENCRYPTION) == "OwnerEncryption(256 bits)"


def test_primes_in_either_order_share_one_table_and_others_are_refused():
    swapped = OwnerEncryption(PUBLIC, *reversed(PRIVATE._primes))
    for encryption in (swapped, ENCRYPTION):
        assert PRIVATE.decrypt(encryption.encrypt([9], expected=1)[0]) == 9
    with pytest.raises(ValueError, match="product must be n"):
        OwnerEncryption(PUBLIC, 293, 433)
