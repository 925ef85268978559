"""Paillier as tests look at it: plaintexts with a sign, and plaintexts without blinding."""

from __future__ import annotations

from gmpy2 import mpz

from fate_dp.crypto.paillier import Encrypted, OwnerDecryption, PublicKey


def signed(owner: OwnerDecryption, ciphertext: Encrypted | int) -> int:
    """The plaintext in (-n/2, n/2)."""
    plaintext, n = int(owner.decrypt(ciphertext)), owner.public_key.n
    return plaintext - n if 2 * plaintext > n else plaintext


def embed(key: PublicKey, plaintext: int) -> mpz:
    """``1 + plaintext n mod n^2``: a plaintext without blinding."""
    return (1 + plaintext * key.modulus) % key.modulus_squared
