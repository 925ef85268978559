"""Ciphertexts leave blinded or not at all: what the types allow, and what comes in."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.crypto import paillier as module
from fate_dp.crypto.paillier import (
    BlindingFactor,
    Ciphertext,
    EncryptedSum,
    blinded_for_owner,
    column_from_bytes,
    column_to_bytes,
    drawn_blinding,
    full_blindings,
    keypair_of_any_length,
)
from tests.support.paillier import embed, signed

PUBLIC, PRIVATE = keypair_of_any_length(256)
OTHER, _ = keypair_of_any_length(256)
SIGNED = st.integers(-(2**100), 2**100)
ENCRYPTION = PRIVATE.encryption()


def bare(plaintext, key=PUBLIC):
    return EncryptedSum(embed(key, plaintext), key)


@given(SIGNED, SIGNED, st.integers(-(2**20), 2**20))
def test_sums_and_multiples_decrypt_to_those_of_the_plaintexts(first, second, factor):
    a, b = ENCRYPTION.encrypt([first, second])
    for total in ((a + b).plus(factor), (b.plus(factor) + a).fully_blinded()):
        assert signed(PRIVATE, total) == first + second + factor
    assert signed(PRIVATE, a.times(factor) + b) == first * factor + second


@pytest.mark.parametrize("leak", [pickle.dumps, copy.deepcopy, copy.copy])
@pytest.mark.parametrize("held", [bare(5), ENCRYPTION.encrypt([5])[0].plus(1), full_blindings(PUBLIC, 1)[0]])
def test_sums_and_factors_have_no_byte_form(leak, held):
    with pytest.raises(TypeError, match="never pickled"):
        leak(held)
    assert not hasattr(held, "to_bytes")


def test_a_sum_is_refused_where_bytes_are_made_of_ciphertexts():
    with pytest.raises(TypeError, match="Only blinded ciphertexts may leave"):
        column_to_bytes([bare(5).fully_blinded(), bare(5)])
    with pytest.raises(AttributeError):
        Ciphertext.to_bytes(object())


def test_every_ciphertext_spends_a_factor_of_its_own():
    factor = full_blindings(PUBLIC, 1)[0]
    Ciphertext(bare(5), factor)
    with pytest.raises(ValueError, match="is spent"):
        Ciphertext(bare(5), factor)
    with pytest.raises(TypeError):
        Ciphertext(bare(5))


def test_factors_of_another_key_are_refused():
    with pytest.raises(ValueError, match="public key, got another's"):
        Ciphertext(bare(5), full_blindings(OTHER, 1)[0])
    with pytest.raises(ValueError, match="public key, got another's"):
        blinded_for_owner([bare(5)], drawn_blinding(OTHER, 10))
    with pytest.raises(ValueError, match="under one public key to be added, got different ones"):
        bare(5) + bare(5, OTHER)


@pytest.mark.parametrize("blind", [EncryptedSum.fully_blinded, lambda total: blinded_for_owner([total], DRAWN)[0]])
def test_a_blinded_sum_differs_each_time_and_keeps_its_plaintext(blind):
    sent = [blind(bare(7)) for _ in range(20)]
    assert len(set(sent)) == 20 and all(signed(PRIVATE, item) == 7 for item in sent)
    assert all(item.value % PUBLIC.n != 1 for item in sent)


DRAWN = drawn_blinding(PUBLIC, 10)


def test_fully_blinded_draws_a_full_residue(monkeypatch):
    drawn = []
    monkeypatch.setattr(module, "full_blindings", lambda key, count: drawn.append(key) or [BlindingFactor(4, key)])
    assert bare(7).fully_blinded().value == embed(PUBLIC, 7) * 4 % PUBLIC.modulus_squared and drawn == [PUBLIC]


@given(st.lists(SIGNED, max_size=5))
def test_columns_travel_as_bytes_of_one_width(values):
    sent = ENCRYPTION.encrypt(values)
    data = column_to_bytes(sent)
    assert len(data) == len(values) * PUBLIC.ciphertext_bytes and column_from_bytes(data, PUBLIC) == sent
    assert [Ciphertext.from_bytes(item.to_bytes(), PUBLIC) for item in sent] == sent


@pytest.mark.parametrize(
    "value, why",
    [
        (0, "outside"),
        (PUBLIC.n**2, "outside"),
        (PUBLIC.n**2 + 5, "outside"),
        (PUBLIC.n, "not invertible"),
        (PRIVATE._primes[0] * 12, "not invertible"),
        (1, "without blinding"),
        (embed(PUBLIC, 1), "without blinding"),
        (embed(PUBLIC, -(2**60)), "without blinding"),
    ],
    ids=["0", "n^2", "n^2 + 5", "n", "12 p", "1", "1 + n", "1 - 2^60 n"],
)
def test_numbers_that_no_honest_encryption_gives_are_refused(value, why):
    data = [ENCRYPTION.encrypt([5])[0].to_bytes(), int(value).to_bytes(PUBLIC.ciphertext_bytes, "big")]
    with pytest.raises(ValueError, match=why):
        column_from_bytes(b"".join(data), PUBLIC)
    with pytest.raises(ValueError, match=why):
        Ciphertext.from_bytes(data[1], PUBLIC)


def test_data_of_wrong_length_is_refused():
    data = column_to_bytes(ENCRYPTION.encrypt([5, 6]))
    with pytest.raises(ValueError, match="multiple of"):
        column_from_bytes(data[:-1], PUBLIC)
    for wrong in (data, data[:63], b""):
        with pytest.raises(ValueError, match="must have 64"):
            Ciphertext.from_bytes(wrong, PUBLIC)


def test_ciphertexts_are_equal_by_number_and_key_and_show_neither():
    first, second = ENCRYPTION.encrypt([5, 5])
    assert first == Ciphertext.from_bytes(first.to_bytes(), PUBLIC) != second
    assert EncryptedSum(first.value, PUBLIC) != first != EncryptedSum(first.value, OTHER)
    assert repr(first) == "Ciphertext(256 bits)" and repr(bare(5)) == "EncryptedSum(256 bits)"
