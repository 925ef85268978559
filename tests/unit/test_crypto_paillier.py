"""Paillier against published numbers, against python-paillier, and the properties that short blinding rests on."""

import copy
import pickle
from functools import lru_cache
from itertools import combinations

import gmpy2
import phe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.crypto.paillier import (
    EncryptedSum,
    PrivateKey,
    PublicKey,
    check_key_length,
    full_blindings,
    generate_keypair,
    keypair_of_any_length,
)
from tests.support.paillier import embed, signed
from tests.support.phe_numbers import from_phe, to_phe

PUBLIC, PRIVATE = keypair_of_any_length(256)
GOLDEN = PublicKey(293 * 433)


def raw_encrypt(key, plaintext, r):
    """``Enc(plaintext; r)`` for a given ``r``."""
    return embed(key, plaintext) * gmpy2.powmod(r, key.modulus, key.modulus_squared) % key.modulus_squared


@pytest.fixture(scope="module")
def phe_keys():
    """python-paillier's pair, and the same one loaded here."""
    public, private = phe.generate_paillier_keypair(n_length=512)
    return public, private, from_phe(public), from_phe(private)


@pytest.mark.parametrize("plaintext, r, ciphertext", [(10100, 74384, 935906717), (1, 1, 126870)])
def test_published_ciphertexts_come_out_and_decrypt(plaintext, r, ciphertext):
    assert raw_encrypt(GOLDEN, plaintext, r) == ciphertext
    assert PrivateKey(GOLDEN, 293, 433).decrypt(ciphertext) == plaintext


@given(st.integers(0, PUBLIC.n - 1), st.integers(1, 2**200))
def test_every_plaintext_decrypts_to_itself(plaintext, r):
    assert PRIVATE.decrypt(raw_encrypt(PUBLIC, plaintext, r)) == plaintext


@given(plaintext=st.integers(0, 2**500))
def test_python_paillier_and_we_decrypt_each_other(phe_keys, plaintext):
    public, private, ours, our_private = phe_keys
    assert our_private.decrypt(public.raw_encrypt(plaintext)) == plaintext
    plaintext //= 2
    for ciphertext in (our_private.encryption().encrypt([plaintext])[0], EncryptedSum(1, ours).plus(plaintext)):
        assert private.raw_decrypt(int(ciphertext.value)) == plaintext


@given(plaintext=st.integers(0, 2**511), r=st.integers(1, 2**500))
def test_the_same_randomness_gives_the_ciphertext_of_python_paillier(phe_keys, plaintext, r):
    public, _, ours, _ = phe_keys
    plaintext %= public.n
    assert raw_encrypt(ours, plaintext, r) == public.raw_encrypt(plaintext, r_value=r)


@given(first=st.integers(-(2**200), 2**200), second=st.integers(-(2**200), 2**200), factor=st.integers(-(2**50), 2**50))
def test_sums_and_multiples_are_the_numbers_that_python_paillier_computes(phe_keys, first, second, factor):
    public, private, _, our_private = phe_keys
    theirs = [public.encrypt(value) for value in (first, second)]
    mine = [from_phe(number) for number in theirs]
    assert (mine[0] + mine[1]).value == (theirs[0] + theirs[1]).ciphertext(be_secure=False)
    assert mine[0].times(factor).value == (theirs[0] * factor).ciphertext(be_secure=False)
    assert signed(our_private, mine[0].times(factor) + mine[1]) == first * factor + second
    assert private.decrypt(to_phe(mine[0].times(factor).fully_blinded())) == first * factor


@pytest.mark.parametrize("key_length", [64, 255, 512])
def test_made_keys_have_the_properties_that_short_blinding_needs(key_length):
    for _ in range(5):
        public, private = keypair_of_any_length(key_length)
        p, q = private._primes
        assert p % 4 == 3 and q % 4 == 3 and gmpy2.gcd(p - 1, q - 1) == 2
        assert gmpy2.is_prime(p) and gmpy2.is_prime(q) and p * q == public.n
        assert public.key_length == key_length
        assert private.decrypt(public.blinding_base) == 0
        # The base is the n-th power of a non-square with Jacobi symbol 1: h = -x^2 generates the full group of those.
        assert gmpy2.jacobi(public.blinding_base % public.n, public.n) == 1
        assert gmpy2.jacobi(public.blinding_base % p, p) == -1


def test_a_default_key_has_2048_bits():
    public, private = generate_keypair()
    assert public.key_length == 2048 and public.ciphertext_bytes == 512
    assert private.decrypt(raw_encrypt(public, public.n - 7, 11)) == public.n - 7


@pytest.mark.parametrize("key_length", [1024, 2047, 0, -2048, 2048.0, "2048", True, None])
def test_short_or_odd_key_lengths_are_refused_in_one_sentence(key_length):
    with pytest.raises(ValueError, match="key_length must be a whole number from 2048 to"):
        generate_keypair(key_length)
    with pytest.raises(ValueError):
        check_key_length(key_length)


@pytest.mark.parametrize("key_length", [96, 512])
def test_keys_of_three_primes_encrypt_and_decrypt_as_those_of_two_do(key_length):
    public, private = keypair_of_any_length(key_length, 3)
    primes = private._primes
    assert len(set(primes)) == 3 and all(p % 4 == 3 and gmpy2.is_prime(p) for p in primes)
    assert all(gmpy2.gcd(p - 1, q - 1) == 2 for p, q in combinations(primes, 2))
    assert public.key_length == key_length and private.decrypt(public.blinding_base) == 0
    assert all(gmpy2.jacobi(public.blinding_base % p, p) == 1 for p in primes)
    values = [0, 1, -1, public.n // 2, -(public.n // 2)]
    sent = private.encryption().encrypt(values)
    assert [signed(private, item) for item in sent] == values
    assert [private.decryption().decrypt(item) for item in sent] == [value % public.n for value in values]
    assert private.decrypt(raw_encrypt(public, 5, 7)) == 5
    assert PrivateKey(PublicKey(public.n), *primes).encryption().encrypt([3])[0] != sent[0]


@lru_cache(maxsize=1)
def long_key():
    return generate_keypair(2048)


def test_a_key_from_the_wire_keeps_its_numbers_and_is_checked():
    public, private = long_key()
    wire = private.to_wire()
    assert PublicKey.from_wire(wire) == public
    with pytest.raises(ValueError, match="from 2048 to"):
        PublicKey.from_wire(PRIVATE.to_wire())
    with pytest.raises(ValueError, match="key_length must be a whole number from .* to 8192 bits, got 8200"):
        PublicKey.from_wire({**wire, "n": public.n << 6152})
    for base in (1, public.n - 1, 0, -1, public.n**2, public.n):
        with pytest.raises(ValueError, match="blinding_base must be invertible"):
            PublicKey.from_wire({**wire, "blinding_base": base})
    for wrong in ({}, {"n": "5", "blinding_base": None}, {**wire, "n": True}, {**wire, "blinding_base": 1.5}, [wire]):
        with pytest.raises(ValueError, match="must be whole numbers"):
            PublicKey.from_wire(wrong)


def test_a_wire_key_is_builtins_only_and_its_proof_is_short_and_made_once():
    wire = PRIVATE.to_wire()
    assert {name: type(value) for name, value in wire.items()} == {"n": int, "blinding_base": int, "proof": bytes}
    assert wire["proof"] is PRIVATE.to_wire()["proof"] and len(wire["proof"]) == (8 + 18) * 32 + 2


@pytest.mark.parametrize("leak", [pickle.dumps, copy.deepcopy])
def test_a_private_key_is_never_pickled_nor_printed(leak):
    with pytest.raises(TypeError, match="never pickled"):
        leak(PRIVATE)
    assert str(int(PRIVATE._primes[0])) not in repr(PRIVATE) and repr(PRIVATE) == "PrivateKey(256 bits)"


def test_primes_of_another_key_are_refused():
    with pytest.raises(ValueError, match="product must be n"):
        PrivateKey(GOLDEN, 293, 431)
    with pytest.raises(ValueError, match="product must be n"):
        PrivateKey(PublicKey(49), 7, 7)


@pytest.mark.parametrize("ciphertext", [0, -5, 293, 433 * 5, GOLDEN.n**2, GOLDEN.n**2 + 1])
def test_values_that_no_encryption_gives_are_refused(ciphertext):
    with pytest.raises(ValueError, match="not made under this key"):
        PrivateKey(GOLDEN, 293, 433).decrypt(ciphertext)


def test_a_ciphertext_under_another_key_is_refused_where_the_key_is_known():
    other, other_private = keypair_of_any_length(256)
    foreign = EncryptedSum(embed(other, 5), other).fully_blinded()
    with pytest.raises(ValueError, match="under another public key"):
        PRIVATE.decrypt(foreign)
    assert other_private.decrypt(foreign) == 5


def test_full_blinding_is_a_fresh_nth_residue():
    factors = [full_blindings(PUBLIC, 1)[0].spend() for _ in range(50)]
    assert len(set(factors)) == 50 and all(PRIVATE.decrypt(factor) == 0 for factor in factors)
