"""A column of Paillier ciphertexts as bytes: how one block of encrypted scores travels between parties.

A column is always blinded: the only ways to make one are `encrypt_column` (a fresh blinding factor for each row) and
`add_columns` of columns that are.
"""
from typing import List, Sequence

import numpy as np
from gmpy2 import mpz

from .blinding import blinding_of
from .paillier import PublicKey


def encrypt_column(values: np.ndarray, public_key: PublicKey) -> bytes:
    """int64 array (n,) -> n ciphertexts of fixed width; negative v is encrypted as n - |v|."""
    blinding, modulus = blinding_of(public_key), public_key.modulus_squared
    ciphertexts = [public_key.embed(int(value)) * blinding.factor() % modulus for value in values]
    return pack_ciphertexts(ciphertexts, public_key)


def pack_ciphertexts(ciphertexts: Sequence[mpz], public_key: PublicKey) -> bytes:
    """Ciphertexts -> bytes, each of `PublicKey.ciphertext_bytes`, big endian."""
    width = public_key.ciphertext_bytes
    return b"".join(int(ciphertext).to_bytes(width, "big") for ciphertext in ciphertexts)


def unpack_ciphertexts(column: bytes, public_key: PublicKey) -> List[mpz]:
    """Bytes -> ciphertexts; refuses a length or a value that does not fit the key."""
    width = public_key.ciphertext_bytes
    if len(column) % width:
        raise ValueError(f"An encrypted column has {len(column)} bytes; it must be a multiple of {width}.")
    ciphertexts = [mpz(int.from_bytes(column[at : at + width], "big")) for at in range(0, len(column), width)]
    if any(not 0 < ciphertext < public_key.modulus_squared for ciphertext in ciphertexts):
        raise ValueError("An encrypted column holds a value outside (0, n^2); it was not made under this key.")
    return ciphertexts


def add_columns(first: bytes, second: bytes, public_key: PublicKey) -> bytes:
    """Row-wise encrypted sum of two columns of equal length."""
    if len(first) != len(second):
        raise ValueError(f"Encrypted columns of {len(first)} and {len(second)} bytes cannot be added; lengths must agree.")
    pairs = zip(unpack_ciphertexts(first, public_key), unpack_ciphertexts(second, public_key))
    return pack_ciphertexts([a * b % public_key.modulus_squared for a, b in pairs], public_key)
