"""Blinding factors: random n-th residues modulo n^2, each good for one ciphertext."""
import secrets
from functools import lru_cache
from typing import List, Optional

import gmpy2
from gmpy2 import mpz

from .fixed_base import FixedBasePowers
from .paillier import PublicKey

_HEIGHT = 10


class BlindingFactor:
    """One blinding factor; spent by the ciphertext that it blinds, and never copied or pickled."""

    __slots__ = ("_value", "public_key")

    def __init__(self, value: mpz, public_key: PublicKey):
        self._value: Optional[mpz] = value
        self.public_key = public_key

    def spend(self) -> mpz:
        """The factor, once. Two ciphertexts with one factor would tell the difference of their plaintexts."""
        value, self._value = self._value, None
        if value is None:
            raise ValueError("This blinding factor is spent; every ciphertext needs a fresh one.")
        return value

    def __repr__(self) -> str:
        return f"BlindingFactor({'spent' if self._value is None else 'fresh'})"

    def __reduce__(self):
        raise TypeError("A blinding factor is never pickled or copied: a copy could be spent twice.")


def full_blinding(public_key: PublicKey) -> BlindingFactor:
    """``r^n mod n^2`` with ``r`` uniform in Z_n*.

    What goes back to the owner of the secret key must carry this one (or be flooded, see `EncryptedSum.flooded`): the
    owner can strip a ciphertext of its plaintext and look at the randomness, and a short exponent would not hide a
    combination of earlier ones.
    """
    r = 1 + secrets.randbelow(public_key.n - 1)
    return BlindingFactor(gmpy2.powmod(r, public_key.modulus, public_key.modulus_squared), public_key)


class FixedBaseBlinding:
    """Draws blinding factors ``blinding_base^s`` for one public key, ``s`` short and uniform.

    A key without a blinding base gets a full ``r^n`` each time: correct, but slow.

    Args:
        public_key: the key to blind under.
        extra_bits: exponents are this much longer than half the key length; see `EncryptedSum.flooded`.
        height: of the comb, see `fixed_base.comb_height`; only the speed depends on it.
    """

    def __init__(self, public_key: PublicKey, extra_bits: int = 0, height: int = _HEIGHT):
        self.public_key = public_key
        self.exponent_bits = public_key.key_length // 2 + extra_bits
        self._powers = None
        if public_key.blinding_base is not None:
            base = mpz(public_key.blinding_base)
            self._powers = FixedBasePowers(base, public_key.modulus, self.exponent_bits, height)

    def factors(self, count: int) -> List[BlindingFactor]:
        """``count`` fresh blinding factors, from operating-system entropy."""
        if self._powers is None:
            return [full_blinding(self.public_key) for _ in range(count)]
        powers = self._powers.powers(self._powers.random_digits(count))
        return [BlindingFactor(power, self.public_key) for power in powers]


@lru_cache(maxsize=4)
def blinding_of(public_key: PublicKey, extra_bits: int = 0, height: int = _HEIGHT) -> FixedBaseBlinding:
    """The table for a key, made once per process: worker processes see the same key in every epoch."""
    return FixedBaseBlinding(public_key, extra_bits, height)
