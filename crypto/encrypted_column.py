"""A column of Paillier ciphertexts as bytes: how one block of encrypted scores travels between parties."""
from typing import List

import numpy as np
from gmpy2 import mpz

from .blinding import blinding_of
from .ciphertext import column_from_bytes, column_to_bytes, encrypt_with
from .paillier import PublicKey


def encrypt_column(values: np.ndarray, public_key: PublicKey) -> bytes:
    """int64 array (n,) -> n ciphertexts of fixed width; negative v is encrypted as n - |v|."""
    factors = blinding_of(public_key).factors(len(values))
    return column_to_bytes(encrypt_with(factors, values.tolist(), public_key))


def sum_of_columns(columns: List[bytes], public_key: PublicKey) -> List[mpz]:
    """Row-wise sums of columns that other parties sent, for a kernel of this party: they are not blinded anew."""
    if len({len(column) for column in columns}) != 1:
        lengths = " and ".join(str(len(column)) for column in columns)
        raise ValueError(f"Encrypted columns of {lengths} bytes cannot be added; lengths must agree.")
    first, *others = ([c.value for c in column_from_bytes(column, public_key)] for column in columns)
    for other in others:
        first = [a * b % public_key.modulus_squared for a, b in zip(first, other)]
    return first
