"""Decryption for workers: what the private key decrypts, after a pickle, and nothing shown."""

import pickle

import pytest

from fate_dp.crypto.paillier import OwnerDecryption, encrypt_with, full_blindings, keypair_of_any_length
from tests.support.paillier import signed

PUBLIC, PRIVATE = keypair_of_any_length(512)


def encrypted(plaintext):
    return encrypt_with([full_blindings(PUBLIC, 1)[0]], [plaintext])[0]


@pytest.mark.parametrize("plaintext", [0, 1, -1, 2**60 - 1, 1 - 2**60])
def test_a_pickled_copy_decrypts_as_the_private_key_does(plaintext):
    decryption = pickle.loads(pickle.dumps(PRIVATE.decryption()))
    assert decryption == PRIVATE.decryption() and hash(decryption) == hash(PRIVATE.decryption())
    assert signed(decryption, encrypted(plaintext)) == plaintext


def test_primes_of_another_key_are_refused_and_none_are_shown():
    with pytest.raises(
        ValueError, match=r"The primes must differ, and their product must be n of this public key, which it is not\."
    ):
        OwnerDecryption(PUBLIC, 3, 5)
    assert repr(PRIVATE.decryption()) == "OwnerDecryption(512 bits)"
