"""Blinding factors: random n-th residues modulo n^2, each good for one ciphertext."""
import secrets
from functools import lru_cache
from typing import List, Optional

import gmpy2
from gmpy2 import mpz

from .fixed_base import FixedBasePowers, comb_height
from .modulus_proof import MOST_PRIMES
from .paillier import PublicKey

_HEIGHT = 10
_STATISTICAL_BITS = 40
_BASES = MOST_PRIMES + _STATISTICAL_BITS - 2


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

    What goes back to the owner of the secret key must carry this one, or one of `DrawnBlinding`: the owner can strip a
    ciphertext of its plaintext and look at the randomness, and a power of a base that the owner chose may hide nothing.
    """
    r = 1 + secrets.randbelow(public_key.n - 1)
    return BlindingFactor(gmpy2.powmod(r, public_key.modulus, public_key.modulus_squared), public_key)


class FixedBaseBlinding:
    """Draws blinding factors ``blinding_base^s`` for one public key, ``s`` short and uniform; not for its owner's eyes.

    A key without a blinding base gets a full ``r^n`` each time: correct, but slow.
    """

    def __init__(self, public_key: PublicKey):
        self.public_key = public_key
        self.exponent_bits = public_key.key_length // 2
        self._powers = None
        if public_key.blinding_base is not None:
            base = mpz(public_key.blinding_base)
            self._powers = FixedBasePowers([base], public_key.modulus, self.exponent_bits, _HEIGHT)

    def factors(self, count: int) -> List[BlindingFactor]:
        """``count`` fresh blinding factors, from operating-system entropy."""
        if self._powers is None:
            return [full_blinding(self.public_key) for _ in range(count)]
        return _factors(self._powers, count, self.public_key)


class DrawnBlinding:
    """Draws blinding factors for what goes back to the owner of a key, at a tenth of the price of full ones.

    A factor is the product of powers of 48 bases that are uniform n-th residues, drawn here, with exponents that are
    uniform and 80 bits longer in all than n, and one bit more for each base. But for a chance of 2^-38 the bases
    generate all n-th residues, and then a factor is within 2^-40 of a uniform one, even for an owner that knows the bases and
    chose its primes for this. (A character of order m of the n-th residues is 1 on every base with a chance of m^-48;
    where it is not, the sum over a long exponent all but vanishes. There are fewer than m^k of them for a modulus of k
    primes, and k is at most 10, which its owner proved: with more primes than bases, an owner could tell what came back.)

    Args:
        public_key: the owner's, checked by `PublicKey.from_wire`.
        height: of the comb, see `fixed_base.comb_height`; only the speed depends on it.
    """

    def __init__(self, public_key: PublicKey, height: int = _HEIGHT):
        self.public_key = public_key
        bases = [full_blinding(public_key).spend() for _ in range(_BASES)]
        self.exponent_bits = _BASES * (-(-(public_key.key_length + 2 * _STATISTICAL_BITS) // _BASES) + 1)
        self._powers = FixedBasePowers(bases, public_key.modulus, self.exponent_bits, height)

    def factors(self, count: int) -> List[BlindingFactor]:
        """``count`` fresh blinding factors, from operating-system entropy."""
        return _factors(self._powers, count, self.public_key)


def _factors(powers: FixedBasePowers, count: int, public_key: PublicKey) -> List[BlindingFactor]:
    return [BlindingFactor(power, public_key) for power in powers.powers(powers.random_digits(count))]


@lru_cache(maxsize=4)
def blinding_of(public_key: PublicKey) -> FixedBaseBlinding:
    """The table for a key, made once per process: worker processes see the same key in every epoch."""
    return FixedBaseBlinding(public_key)


@lru_cache(maxsize=4)
def drawn_blinding(public_key: PublicKey, expected: int = 10_000) -> DrawnBlinding:
    """Bases and table for a key, made once per process (at 2048 bits in about half a second).

    Args:
        expected: ciphertexts that this process will blind with it; only the speed depends on it.
    """
    return DrawnBlinding(public_key, comb_height(expected))
