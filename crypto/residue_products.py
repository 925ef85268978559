"""Products of one party's secret integers with another party's secret vectors, for several vectors at once.

Party q holds vectors r_1, ..., r_s, each with n entries that count modulo m_1, ..., m_s. It joins the i-th entries of
all vectors into one integer x_i (see `residues`) and encrypts x_1, ..., x_n under its own Paillier key
(`encrypt_vectors`). Party p raises these to its multipliers a_i and adds a mask: an encryption of ``sum_i a_i x_i +
mask``, which q decrypts. Modulo m_t the sum is ``sum_i a_i r_t[i]``. So q's decryption and the negative mask, each
modulo m_t, are additive shares of it (`multiply_vectors`, `open_products`).

What each side learns: p sees ciphertexts; q sees uniform ciphertexts of integers that are uniform below n, whatever p's
multipliers, and whatever q encrypted. Where the sum runs over an end of [0, n), with a chance below 2^-41, the shares are
wrong; nothing leaks.
"""
from dataclasses import dataclass
from typing import List, Sequence, Tuple

import numpy as np

from .blinding import drawn_blinding
from .ciphertext import EncryptedSum, blinded_for_owner, column_from_bytes, column_to_bytes
from .multi_exponentiation import few_bases_products
from .owner_encryption import OwnerEncryption
from .paillier import PrivateKey, PublicKey
from .residues import ResidueSystem
from .slots import draw_mask

STATISTICAL_BITS = 40
EXPECTED_ANSWERS = 100
"""Of one training, some; only the speed depends on it."""
_SPARE_BITS = STATISTICAL_BITS + 2
"""n is so much longer than any sum."""


@dataclass(frozen=True)
class ProductLayout:
    """Public sizes of the products.

    Attributes:
        system: moduli m_1, ..., m_s of the encrypted vectors.
        terms: entries n of a vector.
        multiplier_bits: every multiplier a satisfies |a| < 2^multiplier_bits.
        key_length: bits of the key that the vectors are encrypted under.
    """

    system: ResidueSystem
    terms: int
    multiplier_bits: int
    key_length: int

    def __post_init__(self):
        if self.sum_bits + _SPARE_BITS >= self.key_length:
            raise ValueError(
                f"A sum of {self.sum_bits} bits and {_SPARE_BITS} spare ones do not fit into a plaintext of a key with "
                f"{self.key_length} bits; take fewer or narrower moduli."
            )

    @property
    def scale_bits(self) -> int:
        """log2 of a bound on ``sum_i |a_i|``."""
        return self.multiplier_bits + self.terms.bit_length()

    @property
    def sum_bits(self) -> int:
        """Every sum ``v = sum_i a_i x_i`` satisfies |v| < 2^sum_bits."""
        return self.system.product.bit_length() + self.scale_bits


def room_for_moduli(key_length: int, multiplier_bits: int, terms: int) -> int:
    """Bits that the moduli may have together: the largest ones for which `ProductLayout` has room."""
    return key_length - 1 - _SPARE_BITS - multiplier_bits - terms.bit_length()


def encrypt_vectors(vectors: np.ndarray, system: ResidueSystem, encryption: OwnerEncryption, expected: int) -> bytes:
    """The column of one ciphertext for each entry.

    Args:
        vectors: object (n, s), one column for each modulus: the owner's secrets.
        expected: see `OwnerEncryption.encrypt`.
    """
    return column_to_bytes(encryption.encrypt([system.join(row) for row in vectors], expected))


def multiply_vectors(
    encrypted: bytes, multipliers: Sequence[Sequence[int]], layout: ProductLayout, key: PublicKey
) -> Tuple[bytes, np.ndarray]:
    """Products of the other party's vectors with this party's multipliers, masked.

    Args:
        encrypted: what `encrypt_vectors` made at the owner of ``key``.
        multipliers: k rows of n signed integers: this party's secrets.

    Returns:
        The message for the owner, and this party's share (k, s) of the products, modulo the moduli.
    """
    bases = column_from_bytes(encrypted, key)
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
    sealed = blinded_for_owner(masked, drawn_blinding(key, EXPECTED_ANSWERS))
    return column_to_bytes(sealed), _remainders([-mask for mask in masks], layout.system)


def open_products(message: bytes, outputs: int, layout: ProductLayout, private_key: PrivateKey) -> np.ndarray:
    """The owner's share (k, s) of k = ``outputs`` products.

    Raises:
        ValueError: the message does not hold k ciphertexts under this key.
    """
    sealed = column_from_bytes(message, private_key.public_key)
    if len(sealed) != outputs:
        raise ValueError(f"The message holds {len(sealed)} masked sums; there must be {outputs}.")
    return _remainders([int(private_key.decrypt(ciphertext)) for ciphertext in sealed], layout.system)


def _remainders(numbers: List[int], system: ResidueSystem) -> np.ndarray:
    return np.array([system.split(number) for number in numbers], dtype=object).reshape(len(numbers), system.count)
