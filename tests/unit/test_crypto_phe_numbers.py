"""Keys and numbers of python-paillier go both ways, and what cannot be told apart there is refused here."""

import doctest

import phe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.crypto.paillier import EncryptedSum, PrivateKey, PublicKey, keypair_of_any_length
from tests.support import phe_numbers
from tests.support.paillier import signed
from tests.support.phe_numbers import from_phe, to_phe

SMALL = PublicKey(293 * 433)
PUBLIC, PRIVATE = keypair_of_any_length(512)
THEIR_PUBLIC, THEIR_PRIVATE = to_phe(PUBLIC), to_phe(PRIVATE)


def received(number, fraction_bits):
    return signed(PRIVATE, from_phe(number, fraction_bits)) / 2**fraction_bits


def sent(plaintext, fraction_bits=0):
    (ciphertext,) = PRIVATE.encryption().encrypt([plaintext])
    return THEIR_PRIVATE.decrypt(to_phe(ciphertext, fraction_bits))


def test_a_published_ciphertext_goes_both_ways():
    theirs = phe.PaillierPrivateKey(phe.PaillierPublicKey(SMALL.n), 293, 433)
    number = phe.EncryptedNumber(theirs.public_key, 935906717)
    ours = from_phe(theirs)
    assert from_phe(theirs.public_key) == SMALL and ours.public_key == SMALL
    assert ours.decrypt(from_phe(number)) == 10100
    assert ours.decrypt(from_phe(number, fraction_bits=1)) == 20200
    assert theirs.raw_decrypt(to_phe(EncryptedSum(935906717, SMALL).fully_blinded()).ciphertext(False)) == 10100


def test_keys_go_both_ways():
    public, private = phe.generate_paillier_keypair(n_length=256)
    assert to_phe(from_phe(public)) == public and to_phe(from_phe(private)) == private
    assert from_phe(THEIR_PUBLIC) == PublicKey(PUBLIC.n)
    assert isinstance(from_phe(THEIR_PRIVATE), PrivateKey)


@pytest.mark.parametrize("value", [0, 1, -1, 2.5, -2.5, 0.1, -1e-9, 1e12, -(2**70)])
def test_numbers_of_phe_keep_sign_and_fraction(value):
    assert received(THEIR_PUBLIC.encrypt(value), 120) == value


@pytest.mark.parametrize(
    "plaintext, fraction_bits, value", [(-5, 4, -0.3125), (3, 0, 3), (-7, -4, -112), (1, 64, 2.0**-64)]
)
def test_our_numbers_have_one_exponent_for_all(plaintext, fraction_bits, value):
    assert sent(plaintext, fraction_bits) == value
    (ciphertext,) = PRIVATE.encryption().encrypt([plaintext])
    assert to_phe(ciphertext, fraction_bits).exponent == -fraction_bits // 4


@given(st.floats(-1e30, 1e30, allow_subnormal=False).filter(lambda value: value == 0 or abs(value) > 1e-30))
def test_every_number_comes_back(value):
    ours = from_phe(THEIR_PUBLIC.encrypt(value), fraction_bits=160)
    assert THEIR_PRIVATE.decrypt(to_phe(ours.fully_blinded(), fraction_bits=160)) == value


@given(st.integers(-(2**400), 2**400), st.integers(-(2**40), 2**40))
def test_sums_and_products_of_phe_are_those_of_here(first, second):
    product = THEIR_PUBLIC.encrypt(first) * second + THEIR_PUBLIC.encrypt(second)
    assert signed(PRIVATE, from_phe(product)) == first * second + second


def test_exponents_of_phe_tell_magnitudes_unless_the_sender_fixes_them():
    free, fixed = ([THEIR_PUBLIC.encrypt(value, **how) for value in (0.1, 1e-9)] for how in ({}, {"precision": 2**-40}))
    assert [number.exponent for number in free] == [-14, -21]
    assert len({number.exponent for number in fixed}) == 1


@pytest.mark.parametrize("exponent, fraction_bits", [(-14, 55), (-1, 0), (128, 0), (10**12, 0), (0, -1)])
def test_a_unit_that_does_not_fit_is_refused_before_anything_is_computed(exponent, fraction_bits):
    number = phe.EncryptedNumber(THEIR_PUBLIC, THEIR_PUBLIC.raw_encrypt(1), exponent)
    with pytest.raises(ValueError, match=f"exponent {exponent}, which fraction_bits {fraction_bits} does not fit"):
        from_phe(number, fraction_bits)


@pytest.mark.parametrize(
    "value", [0, -1, PUBLIC.n, PUBLIC.n**2], ids=["zero", "negative", "a multiple of n", "too large"]
)
def test_what_is_no_ciphertext_is_refused(value):
    with pytest.raises(ValueError, match="not made under its key"):
        from_phe(phe.EncryptedNumber(THEIR_PUBLIC, value))


def test_what_phe_cannot_tell_is_refused():
    (ciphertext,) = PRIVATE.encryption().encrypt([1])
    with pytest.raises(ValueError, match="multiple of 4"):
        to_phe(ciphertext, fraction_bits=22)
    with pytest.raises(ValueError, match="3 primes"):
        to_phe(keypair_of_any_length(96, 3)[1])


@pytest.mark.parametrize("item", [EncryptedSum(1, PUBLIC), 5, None])
def test_a_sum_without_blinding_does_not_become_a_number_of_phe(item):
    with pytest.raises(TypeError, match="neither a key nor a Ciphertext; blind sums"):
        to_phe(item)


def test_other_things_are_no_numbers_of_phe():
    with pytest.raises(TypeError, match="A PublicKey is neither a key nor an encrypted number of phe"):
        from_phe(PUBLIC)


def test_the_examples_hold():
    failed, tried = doctest.testmod(phe_numbers)
    assert tried and not failed
