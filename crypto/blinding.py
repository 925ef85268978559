"""Blinding factors from a fixed base: ``blinding_base^s mod n^2`` with ``s`` of half the key length."""
import secrets
from functools import lru_cache
from typing import List

from gmpy2 import mpz

from .paillier import PublicKey

_WINDOW_BITS = 8


class FixedBaseBlinding:
    """Draws blinding factors for one public key.

    The powers ``base^(d 2^(8 k))`` are laid down once (about 0.15 s and 17 MB at 2048 bits); a factor then costs one
    multiplication per exponent byte. A key without a blinding base gets a full ``r^n`` each time: correct, but slow.
    """

    def __init__(self, public_key: PublicKey):
        self._public_key = public_key
        self._modulus = public_key.modulus_squared
        self._exponent_bytes = (public_key.key_length // 2 + 7) // 8
        self._table: List[List[mpz]] = [] if public_key.blinding_base is None else self._powers()

    def _powers(self) -> List[List[mpz]]:
        table, base = [], mpz(self._public_key.blinding_base)
        for _ in range(self._exponent_bytes):
            row = [mpz(1)]
            for _ in range((1 << _WINDOW_BITS) - 1):
                row.append(row[-1] * base % self._modulus)
            table.append(row)
            base = row[-1] * base % self._modulus
        return table

    def factor(self) -> mpz:
        """A fresh blinding factor from operating-system entropy."""
        if not self._table:
            return self._public_key.full_blinding()
        product, modulus = mpz(1), self._modulus
        for row, digit in zip(self._table, secrets.token_bytes(self._exponent_bytes)):
            if digit:
                product = product * row[digit] % modulus
        return product


@lru_cache(maxsize=4)
def blinding_of(public_key: PublicKey) -> FixedBaseBlinding:
    """The table for a key, made once per process: worker processes see the same key in every epoch."""
    return FixedBaseBlinding(public_key)
