"""Sums of one party's bits over the bins of another party's columns, as additive shares.

The owner of the bits encrypts each of them once, under its own Paillier key. The other party adds the ciphertexts of the
records of each bin up, one product for each record and column, packs the sums side by side, adds a mask that is uniform
modulo n to every plaintext, blinds with a full ``r^n`` and sends them back. What the owner decrypts is uniform whatever the
sums are; its digits are the owner's share, minus the mask's digits the other's. They add up to the sums, but for a chance
below 2^-39 for each (see `SlotLayout`; `contingency.table_layout` of entries up to 1 makes it). The owner adds its noise to its share before that goes out, so that the other party
learns noisy sums and nobody exact ones.

The other party sees ciphertexts only. It is trusted to count each record once in each column: whoever multiplied one
ciphertext by a large number would read that record's bit through the noise.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import numpy as np
from gmpy2 import mpz

from .contingency import add_into_bins
from .cross_product import open_sums, seal_sums
from .paillier import EncryptedSum, OwnerEncryption, PrivateKey, PublicKey, column_from_bytes, column_to_bytes
from .powers import IntArray, ObjectArray
from .slots import SlotLayout, packed_sums


def encrypt_bits(bits: IntArray, encryption: OwnerEncryption, expected: int) -> bytes:
    """One blinded ciphertext for each of the bits (rows,), which are 0 or 1: what a block of rows sends.

    ``expected`` rows are encrypted under the key in all; only the speed depends on it.
    """
    if bits.ndim != 1 or bits.dtype.kind not in "iu" or not np.isin(bits, (0, 1)).all():
        raise ValueError(f"bits must be whole numbers (rows,), each 0 or 1, got {bits.dtype} of shape {bits.shape}.")
    return column_to_bytes(encryption.encrypt(bits.tolist(), expected))


def add_by_bin(places: IntArray, encrypted: bytes, bins: int, public_key: PublicKey) -> tuple[int, ...]:
    """Encrypted sums over the rows of one block, ``bins`` of them, **not blinded**: they stay inside the party.

    Args:
        places: int64 (rows, columns), the bin of each record in each column, numbered through all columns from 0.
        encrypted: of `encrypt_bits` for the same rows.

    Raises:
        ValueError: another number of ciphertexts than rows, one that nobody can have made, or a bin out of range.
    """
    if places.ndim != 2 or (places.size and not 0 <= places.min() <= places.max() < bins):
        raise ValueError(f"places must be bins from 0 to {bins - 1} (rows, columns), got shape {places.shape}.")
    ciphertexts = column_from_bytes(encrypted, public_key)
    if len(ciphertexts) != len(places):
        raise ValueError(f"Ciphertexts must be one for each of {len(places)} rows, got {len(ciphertexts)}.")
    sums = [[mpz(1)] for _ in range(bins)]
    add_into_bins(sums, places, ciphertexts, public_key.modulus_squared)
    return tuple(int(total) for (total,) in sums)


def seal_bin_sums(
    sums: Sequence[int], layout: SlotLayout, public_key: PublicKey, random_bits: Callable[[int], int] = secrets.randbits
) -> tuple[list[bytes], ObjectArray]:
    """Merged sums -> masked and fully blinded ciphertexts for the owner of the key, and this party's share (bins,)."""
    encrypted = [EncryptedSum(mpz(value), public_key) for value in sums]
    chunks = [encrypted[first : first + layout.slots] for first in range(0, len(encrypted), layout.slots)]
    packed = [int(packed_sums(chunk, layout.slot_bits).value) for chunk in chunks]
    sealed, share = seal_sums(packed, len(sums), layout, public_key, random_bits)
    return sealed, share[0]


def open_bin_sums(sealed: Sequence[bytes], bins: int, layout: SlotLayout, private_key: PrivateKey) -> ObjectArray:
    """The owner's share (bins,) from what `seal_bin_sums` sent, Python integers.

    Raises:
        ValueError: another number of ciphertexts than so many bins take, or one that is none under this key.
    """
    if len(sealed) != layout.plaintexts(bins):
        raise ValueError(f"Received {len(sealed)} masked sums; {bins} bins take {layout.plaintexts(bins)}.")
    share: ObjectArray = open_sums(sealed, bins, layout, private_key)[0]
    return share
