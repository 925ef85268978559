"""Secure contingency tables: exact additive shares of how many records lie in each pair of two parties' bins.

The tables are the cross product of rows of zeros and ones, and `cross_product` would compute them. But a row of the party
that does not encrypt has a single one for each of its columns, so that its powers are not needed: it *adds* every received
row into the accumulators of its own bins, one modular product for each column and ciphertext instead of several for each
bin. Encryption, masks, blinding and the opening are those of `cross_product`, and so is what the parties see: ciphertexts,
and uniform numbers. No message depends on which bins a record lies in but by the contents of ciphertexts.

The owner of the key may append small integers to its rows, such as a target: their sums over each of the other party's
bins come out beside the tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from .cross_product import spans
from .paillier import Ciphertext, PublicKey, column_from_bytes
from .powers import IntArray, products_by_bin
from .slots import ROW_BITS, SlotLayout

_ROWS_AT_ONCE = 1 << 12


def table_layout(rows: int, largest: int, public_key: PublicKey) -> SlotLayout:
    """The slots that hold sums over ``rows`` rows whose entries are at most ``largest`` in magnitude, 1 for bins alone.

    Raises:
        ValueError: rows outside [1, 2^ROW_BITS], ``largest`` below 1, or a key too short for one slot.
    """
    if not 1 <= rows <= 1 << ROW_BITS:
        raise ValueError(f"rows must be from 1 to 2^{ROW_BITS}, got {rows}.")
    if largest < 1:
        raise ValueError(f"largest must be a whole number of at least 1, got {largest}.")
    return SlotLayout(int(rows * largest).bit_length(), public_key.key_length)


def one_hot(places: IntArray, bins: int) -> IntArray:
    """int64 (rows, bins) of zeros and ones from int64 (rows, columns): the place of each row's bin of each column.

    Raises:
        ValueError: a place outside [0, bins).
    """
    _check_places(places, bins)
    rows = np.zeros((len(places), bins), dtype=np.int64)
    rows[np.arange(len(places))[:, None], places] = 1
    return rows


def add_rows(
    places: IntArray, bins: int, encrypted: bytes, columns: int, layout: SlotLayout, public_key: PublicKey
) -> tuple[int, ...]:
    """Encrypted sums of the owner's rows in each of this party's bins, over the rows of one kernel.

    Args:
        places: int64 (rows, d) below ``bins``: in which of this party's bins each record lies.
        encrypted: what `encrypt_rows` made of the owner's rows, of ``columns`` entries each.

    Returns:
        bins x ``layout.plaintexts(columns)`` ciphertexts, bin by bin, **not blinded**: they stay inside the party, are merged
        with `merge_sums`, and leave it through `seal_sums` only.

    Raises:
        ValueError: a place outside [0, bins), bytes that are no such rows, or a value that no honest encryption gives.
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
        add_into_bins(sums, places[first:last], received, modulus)
    return tuple(int(value) for of_bin in sums for value in of_bin)


def add_into_bins(sums: list[list[mpz]], places: IntArray, received: Sequence[Ciphertext], modulus: mpz) -> None:
    """Multiply the ciphertexts of each row, as many as ``sums`` has for a bin, into those of the row's bins, in place."""
    values, per_row = [ciphertext.value for ciphertext in received], len(sums[0])
    for slot in range(per_row):
        products = products_by_bin(values[slot::per_row], places, len(sums), modulus)
        for of_bin, product in zip(sums, products):
            of_bin[slot] = of_bin[slot] * product % modulus


def _check_places(places: npt.NDArray[np.int64], bins: int) -> None:
    if places.dtype != np.int64 or places.ndim != 2:
        raise ValueError(f"places must be int64 with two dimensions, got {places.dtype} of shape {places.shape}.")
    if places.size and not 0 <= int(places.min()) <= int(places.max()) < bins:
        raise ValueError(f"A place lies outside the {bins} bins; places are numbered from 0.")
