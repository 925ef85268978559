"""Secure contingency tables: exact additive shares of how many records lie in each pair of two parties' bins.

The tables are the cross product of rows of zeros and ones, and `cross_product` would compute them. But a row of the party
that does not encrypt has a single one for each of its columns, so that its powers are not needed: it *adds* every received
row into the accumulators of its own bins, one modular product for each column and ciphertext instead of several for each
bin. Encryption, masks, blinding and the opening are those of `cross_product`, and so is what the parties see: ciphertexts,
and uniform numbers. No message depends on which bins a record lies in but by the contents of ciphertexts.

The owner of the key may append small integers to its rows, such as a target: their sums over each of the other party's
bins come out beside the tables.
"""

import secrets
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from .cross_product import open_sums, seal_sums, spans
from .paillier import EncryptedSum, OwnerEncryption, PrivateKey, PublicKey, column_from_bytes, column_to_bytes
from .powers import IntArray, ObjectArray, products_by_bin
from .slots import ROW_BITS, SlotLayout, packed_sums

_ROWS_AT_ONCE = 1 << 12


def table_layout(rows: int, largest: int, public_key: PublicKey) -> SlotLayout:
    """The slots that hold sums over ``rows`` rows whose entries are at most ``largest`` in magnitude, 1 for bins alone.

    ValueError for rows outside [1, 2^ROW_BITS], ``largest`` below 1, or a key too short for one slot.
    """
    if not 1 <= rows <= 1 << ROW_BITS:
        raise ValueError(f"rows must be from 1 to 2^{ROW_BITS}, got {rows}.")
    if largest < 1:
        raise ValueError(f"largest must be a whole number of at least 1, got {largest}.")
    return SlotLayout(int(rows * largest).bit_length(), public_key.key_length)


def one_hot(places: IntArray, bins: int) -> IntArray:
    """int64 (rows, bins) of zeros and ones, from each row's bin of each column; ValueError for one outside [0, bins)."""
    _check_places(places, bins)
    rows = np.zeros((len(places), bins), dtype=np.int64)
    rows[np.arange(len(places))[:, None], places] = 1
    return rows


def add_rows(
    places: IntArray, bins: int, encrypted: bytes, columns: int, layout: SlotLayout, public_key: PublicKey
) -> tuple[int, ...]:
    """Encrypted sums of the owner's rows in each of this party's bins, over the rows of one kernel.

    ``places``, int64 (rows, d) below ``bins``, tell in which of this party's bins each record lies; ``encrypted`` is what
    `encrypt_rows` made of the owner's rows, of ``columns`` entries each. Returns bins x ``layout.plaintexts(columns)``
    ciphertexts, bin by bin, **not blinded**; see `multiply_rows`. Raises ValueError for a place outside [0, bins), bytes
    that are no such rows, or a value that no honest encryption gives.
    """
    _check_places(places, bins)
    per_row, width = layout.plaintexts(columns), public_key.ciphertext_bytes
    if len(encrypted) != len(places) * per_row * width:
        raise ValueError(
            f"Encrypted rows must be {len(places)} of {per_row * width} bytes each, got {len(encrypted)} bytes."
        )
    modulus = public_key.modulus_squared
    sums = [[mpz(1)] * per_row for _ in range(bins)]
    for first, last in spans(len(places), _ROWS_AT_ONCE):
        received = column_from_bytes(encrypted[first * per_row * width : last * per_row * width], public_key)
        values = [ciphertext.value for ciphertext in received]
        for slot in range(per_row):
            products = products_by_bin(values[slot::per_row], places[first:last], bins, modulus)
            for of_bin, product in zip(sums, products):
                of_bin[slot] = of_bin[slot] * product % modulus
    return tuple(int(value) for of_bin in sums for value in of_bin)


def _check_places(places: npt.NDArray[np.int64], bins: int) -> None:
    if places.dtype != np.int64 or places.ndim != 2:
        raise ValueError(f"places must be int64 with two dimensions, got {places.dtype} of shape {places.shape}.")
    if places.size and not 0 <= int(places.min()) <= int(places.max()) < bins:
        raise ValueError(f"A place lies outside the {bins} bins; places are numbered from 0.")


# Sums of one party's bits over the bins of another party's columns, as additive shares.
#
# The owner of the bits encrypts each of them once, under its own Paillier key. The other party adds the ciphertexts of the
# records of each bin up, one product for each record and column, packs the sums side by side, adds a mask that is uniform
# modulo n to every plaintext, blinds with a full ``r^n`` and sends them back. What the owner decrypts is uniform whatever the
# sums are; its digits are the owner's share, minus the mask's digits the other's. They add up to the sums, but for a chance
# below 2^-39 for each (see `SlotLayout`; `table_layout` of entries up to 1 makes it). The owner adds its noise to its share
# before that goes out, so that the other party learns noisy sums and nobody exact ones.
#
# The other party sees ciphertexts only. It is trusted to count each record once in each column: whoever multiplied one
# ciphertext by a large number would read that record's bit through the noise.


def encrypt_bits(bits: IntArray, encryption: OwnerEncryption, expected: int) -> bytes:
    """One blinded ciphertext for each of the bits (rows,), which are 0 or 1: what a block of rows sends.

    ``expected`` rows are encrypted under the key in all; only the speed depends on it.
    """
    if bits.ndim != 1 or bits.dtype.kind not in "iu" or not np.isin(bits, (0, 1)).all():
        raise ValueError(f"bits must be whole numbers (rows,), each 0 or 1, got {bits.dtype} of shape {bits.shape}.")
    return column_to_bytes(encryption.encrypt(bits.tolist(), expected))


def add_by_bin(places: IntArray, encrypted: bytes, bins: int, public_key: PublicKey) -> tuple[int, ...]:
    """As `add_rows`, of what `encrypt_bits` made of the same rows: one sum for each bin, numbered through all columns."""
    return add_rows(places, bins, encrypted, 1, table_layout(1, 1, public_key), public_key)


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
    """The owner's share (bins,), Python integers, of what `seal_bin_sums` sent; ValueError for what it cannot have sent."""
    if len(sealed) != layout.plaintexts(bins):
        raise ValueError(f"Received {len(sealed)} masked sums; {bins} bins take {layout.plaintexts(bins)}.")
    share: ObjectArray = open_sums(sealed, bins, layout, private_key)[0]
    return share
