"""Several integers in one, by their remainders: one sum or product of such numbers is a sum or product of all parts.

A number below ``m_1 m_2 ... m_s`` with pairwise coprime moduli is known by its remainders (Chinese remainder theorem;
Garner 1959 for arithmetic on them). Under Paillier, where only whole integers are added and multiplied, that does ``s``
products modulo ``m_1, ..., m_s`` for the price of one, and no part can run over into the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, prod

import numpy as np

from . import paillier
from .paillier import EncryptedSum, OwnerEncryption, PrivateKey, PublicKey
from .powers import ObjectArray, few_bases_products, units
from .slots import draw_mask


@dataclass(frozen=True)
class ResidueSystem:
    """Pairwise coprime moduli."""

    moduli: tuple[int, ...]

    @classmethod
    @lru_cache(maxsize=32)
    def below(cls, bits: int, count: int) -> "ResidueSystem":
        """The largest ``count`` odd numbers below 2^bits that are pairwise coprime: public, and the same at every party.

        For 64 bits and more each exceeds 2^bits (1 - 2^-32).
        """
        moduli: list[int] = []
        candidate = (1 << bits) - 1
        while len(moduli) < count:
            if candidate < 3:
                raise ValueError(
                    f"There are no {count} pairwise coprime odd numbers below 2^{bits}; take fewer or wider."
                )
            if all(gcd(candidate, modulus) == 1 for modulus in moduli):
                moduli.append(candidate)
            candidate -= 2
        return cls(tuple(moduli))

    @cached_property
    def product(self) -> int:
        return prod(self.moduli)

    @cached_property
    def _units(self) -> tuple[int, ...]:
        """Numbers that leave remainder 1 for one modulus and 0 for all others."""
        return tuple(map(int, units(self.moduli)))

    def join(self, remainders: Sequence[int]) -> int:
        """The number in [0, product) with these remainders, one for each modulus."""
        if len(remainders) != len(self.moduli):
            raise ValueError(f"Remainders must be one per modulus, {len(self.moduli)}, got {len(remainders)}.")
        return sum(int(remainder) * unit for remainder, unit in zip(remainders, self._units)) % self.product

    def split(self, number: int) -> list[int]:
        return [int(number) % modulus for modulus in self.moduli]


# Products of one party's secret integers with another party's secret vectors, for several vectors at once

STATISTICAL_BITS = 40
EXPECTED_ANSWERS = 100
"""Of one training, some; only the speed depends on it."""
_SPARE_BITS = STATISTICAL_BITS + 2
"""n is so much longer than any sum."""


@dataclass(frozen=True)
class ProductLayout:
    """Public sizes of the products of party p's multipliers a with party q's vectors r_1, ..., r_s.

    q joins the i-th entries of its vectors, which count modulo m_1, ..., m_s, into one integer x_i and encrypts them
    under its own key (`encrypt_vectors`). p makes an encryption of ``sum_i a_i x_i + mask`` (`multiply_vectors`), which q
    decrypts (`open_products`). Modulo m_t the sum is ``sum_i a_i r_t[i]``: so q's decryption and the negative mask, each
    modulo m_t, are additive shares of it.

    p sees ciphertexts, and q uniform ciphertexts of integers that are uniform below n, whatever the multipliers, and
    whatever q encrypted. Where the sum runs over an end of [0, n), with a chance below 2^-41, the shares are wrong;
    nothing leaks.

    Vectors have n = ``terms`` entries, and every multiplier satisfies |a| < 2^multiplier_bits.
    """

    system: ResidueSystem
    terms: int
    multiplier_bits: int
    key_length: int

    def __post_init__(self) -> None:
        if self.sum_bits + _SPARE_BITS >= self.key_length:
            raise ValueError(
                f"A sum of {self.sum_bits} bits and {_SPARE_BITS} spare ones do not fit into a plaintext of a key with "
                f"{self.key_length} bits; take fewer or narrower moduli."
            )

    @property
    def sum_bits(self) -> int:
        """Every sum ``v = sum_i a_i x_i`` satisfies |v| < 2^sum_bits."""
        return self.system.product.bit_length() + self.multiplier_bits + self.terms.bit_length()


def room_for_moduli(key_length: int, multiplier_bits: int, terms: int) -> int:
    """Bits that the moduli may have together: the largest ones for which `ProductLayout` has room."""
    return key_length - 1 - _SPARE_BITS - multiplier_bits - terms.bit_length()


def encrypt_vectors(vectors: ObjectArray, system: ResidueSystem, encryption: OwnerEncryption, expected: int) -> bytes:
    """The owner's secrets, object (n, s), one column for each modulus, as the column of one ciphertext for each entry."""
    return paillier.column_to_bytes(encryption.encrypt([system.join(row) for row in vectors], expected))


def multiply_vectors(
    encrypted: bytes, multipliers: Sequence[Sequence[int]], layout: ProductLayout, key: PublicKey
) -> tuple[bytes, ObjectArray]:
    """Products of the vectors that the owner of ``key`` encrypted with this party's secret multipliers, masked.

    Multipliers are k rows of n signed integers. Returned are the message for the owner, and this party's share (k, s) of
    the products, modulo the moduli.
    """
    bases = paillier.column_from_bytes(encrypted, key)
    if len(bases) != layout.terms or layout.key_length != key.key_length:
        raise ValueError(
            f"{len(bases)} encrypted entries under a key of {key.key_length} bits; the layout has {layout.terms} "
            f"entries and {layout.key_length} bits."
        )
    if any(abs(int(multiplier)) >> layout.multiplier_bits for row in multipliers for multiplier in row):
        raise ValueError(f"A multiplier has more than {layout.multiplier_bits} bits, which the masks would not hide.")
    sums = few_bases_products([base.value for base in bases], multipliers, key.modulus_squared)
    masks = [draw_mask(key.n) for _ in sums]
    masked = [EncryptedSum(value, key).plus(mask) for value, mask in zip(sums, masks)]
    sealed = paillier.blinded_for_owner(masked, paillier.drawn_blinding(key, EXPECTED_ANSWERS))
    return paillier.column_to_bytes(sealed), _remainders([-mask for mask in masks], layout.system)


def open_products(message: bytes, outputs: int, layout: ProductLayout, private_key: PrivateKey) -> ObjectArray:
    """The owner's share (k, s) of k = ``outputs`` products; ValueError unless k ciphertexts under this key came."""
    sealed = paillier.column_from_bytes(message, private_key.public_key)
    if len(sealed) != outputs:
        raise ValueError(f"The message must hold {outputs} masked sums, got {len(sealed)}.")
    return _remainders(list(map(int, private_key.decrypt_all(sealed))), layout.system)


def _remainders(numbers: list[int], system: ResidueSystem) -> ObjectArray:
    remainders = np.array([system.split(number) for number in numbers], dtype=object)
    return remainders.reshape(len(numbers), len(system.moduli))
