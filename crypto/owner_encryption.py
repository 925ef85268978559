"""Encryption by the owner of the key: modulo the squares of its primes, where numbers are half as wide."""
import secrets
from functools import lru_cache
from typing import List, Sequence, Tuple

import gmpy2
from gmpy2 import mpz

from .blinding import BlindingFactor
from .ciphertext import Ciphertext, encrypt_with
from .fixed_base import FixedBasePowers, comb_height
from .paillier import PublicKey, check_primes


class OwnerEncryption:
    """Encrypts under a key whose primes are known. Holds them: a secret that travels to this party's own workers only.

    Ciphertexts are the same as anybody's: ``(1 + m n) h^(n s)`` with ``s`` uniform below 2^(key_length / 2), or with
    a uniform n-th residue for a key without a blinding base.
    """

    def __init__(self, public_key: PublicKey, *primes: int):
        check_primes(public_key, primes)
        self.public_key = public_key
        self._primes = tuple(sorted(map(mpz, primes)))

    def encrypt(self, plaintexts: Sequence[int], expected: int = 10_000) -> List[Ciphertext]:
        """Signed plaintexts ``|m| < n / 2``, each with a fresh blinding factor.

        Args:
            plaintexts: what to encrypt.
            expected: encryptions under this key that this process will make in all; sets the size of the table that
                the first call lays down.
        """
        if any(2 * abs(plaintext) >= self.public_key.n for plaintext in plaintexts):
            raise ValueError("A plaintext does not fit the key; its magnitude must be below n / 2.")
        return encrypt_with(self._factors(len(plaintexts), expected), plaintexts, self.public_key)

    def _factors(self, count: int, expected: int) -> List[BlindingFactor]:
        if self.public_key.blinding_base is None:
            parts = [[_random_residue(prime) for _ in range(count)] for prime in self._primes]
        else:
            tables = _tables(self, comb_height(expected))
            digits = tables[0].random_digits(count)
            parts = [table.powers(digits) for table in tables]
        modulus, units = self.public_key.modulus_squared, _units(self)
        values = (sum(part * unit for part, unit in zip(of_one, units)) % modulus for of_one in zip(*parts))
        return [BlindingFactor(value, self.public_key) for value in values]

    def __eq__(self, other) -> bool:
        return isinstance(other, OwnerEncryption) and self.public_key == other.public_key

    def __hash__(self) -> int:
        return hash(self.public_key)

    def __repr__(self) -> str:
        return f"OwnerEncryption({self.public_key.key_length} bits)"


@lru_cache(maxsize=2)
def _tables(encryption: OwnerEncryption, height: int) -> Tuple[FixedBasePowers, ...]:
    public_key = encryption.public_key
    base, bits = mpz(public_key.blinding_base), public_key.key_length // 2
    return tuple(FixedBasePowers([base % prime**2], prime, bits, height) for prime in encryption._primes)


@lru_cache(maxsize=2)
def _units(encryption: OwnerEncryption) -> Tuple[mpz, ...]:
    """For each prime p the number modulo n^2 that is 1 modulo p^2 and 0 modulo the squares of the others."""
    cofactors = [(encryption.public_key.modulus // prime) ** 2 for prime in encryption._primes]
    return tuple(cofactor * gmpy2.invert(cofactor, prime**2) for cofactor, prime in zip(cofactors, encryption._primes))


def _random_residue(prime: mpz) -> mpz:
    """A uniform n-th residue modulo prime^2: those are the prime-th powers, one for each residue class modulo prime."""
    return gmpy2.powmod(1 + secrets.randbelow(int(prime) - 1), prime, prime**2)
