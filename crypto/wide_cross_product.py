"""Secure cross product of shares: A^T B where the entries of A and B are as wide as the shares of `joined_records`.

As `cross_product`, whose masks and slots it uses, but for the width: entries are Python integers below 2^65 in
magnitude. The party that multiplies splits its entries into two halves, raises the ciphertexts to each, and puts the
encrypted sums together again, so that the kernels of `multi_exponentiation` serve unchanged.

Both shares add up to A^T B over the integers, but for a chance below 2^-39 for each sum. What each side learns is what
it learns in `cross_product`: ciphertexts, or uniform numbers.

Shares are wide, but the sums that they make in the end, (A + B)^T (A + B), are small; `narrow_shares` makes them narrow.
"""
from typing import List, Sequence, Tuple

import numpy as np
from gmpy2 import mpz

from .ciphertext import EncryptedSum, column_from_bytes, column_to_bytes
from .joined_records import SHARE_BITS
from .multi_exponentiation import powers_product
from .owner_encryption import OwnerEncryption
from .paillier import PublicKey
from .slots import STATISTICAL_BITS, SlotLayout

_HALF_BITS = 33
MOST_ROWS = 1 << 30


def wide_layout(rows: int, public_key: PublicKey) -> SlotLayout:
    """The slots that hold sums over ``rows`` rows of products of two shares.

    Raises:
        ValueError: rows outside [1, 2^30].
    """
    if not 1 <= rows <= MOST_ROWS:
        raise ValueError(f"rows is {rows}; a cross product is summed over 1 to {MOST_ROWS} rows.")
    return SlotLayout(2 * SHARE_BITS + int(rows).bit_length(), public_key.key_length)


def encrypt_shares(matrix: np.ndarray, encryption: OwnerEncryption, layout: SlotLayout, expected: int) -> bytes:
    """The owner's rows (object array (rows, c) of integers), packed and encrypted, for the other party.

    Args:
        layout: from `wide_layout` for all rows of the sum.
        expected: rows that this process will encrypt under the key in all; only the speed depends on it.
    """
    check_shares(matrix)
    starts = range(0, matrix.shape[1], layout.slots)
    plaintexts = [layout.pack(row[at : at + layout.slots]) for row in matrix.tolist() for at in starts]
    return column_to_bytes(encryption.encrypt(plaintexts, expected * len(starts)))


def multiply_shares(
    left: np.ndarray, encrypted: bytes, columns: int, layout: SlotLayout, public_key: PublicKey
) -> Tuple[int, ...]:
    """Encrypted sums over the rows of one kernel, at the party that owns ``left`` (object array (rows, a)).

    Returns:
        a x ``layout.plaintexts(columns)`` ciphertexts, **not blinded**: they stay inside the party, are merged with
        `cross_product.merge_sums`, and leave it through `cross_product.seal_sums` only.
    """
    check_shares(left)
    per_row, width = layout.plaintexts(columns), public_key.ciphertext_bytes
    if len(encrypted) != len(left) * per_row * width:
        raise ValueError(f"Received {len(encrypted)} bytes for {len(left)} rows of {per_row * width} bytes each.")
    received = np.frombuffer(encrypted, dtype=np.uint8).reshape(len(left), per_row, width)
    halves = _halves(left)
    parts = [_products(halves, received[:, at], public_key) for at in range(per_row)]
    return tuple(int(product) for of_left_column in zip(*parts) for product in of_left_column)


def narrow_shares(share: np.ndarray, bits: int, first: bool) -> np.ndarray:
    """Shares of sums that are below 2^bits in magnitude, made narrow: both parties call it, one of them as ``first``.

    Both reduce theirs modulo M = 2^(bits + 42), which tells nobody anything. The residues add up to the sum plus 0, M
    or 2 M. One of them is within 2^-40 of uniform over all residues, or, where a product and its transpose were added up on
    the diagonal, over those of one parity. So it is the sum plus M but for a chance below 2^-39 for each entry, and the
    first party takes M off. Where the chance occurs an entry is off by M, far outside its bound; nothing leaks.

    Args:
        share: object array of integers of any size.

    Returns:
        an object array of integers below 2^(bits + 42) in magnitude.
    """
    modulus = 1 << (bits + STATISTICAL_BITS + 2)
    residues = np.asarray(share, dtype=object) % modulus
    return residues - modulus if first else residues


def check_shares(matrix: np.ndarray) -> None:
    """Refuse what is no matrix of integers below 2^65 in magnitude, and such without columns."""
    if matrix.dtype != object or matrix.ndim != 2 or not matrix.shape[1]:
        raise ValueError(f"Shares are {matrix.dtype} of shape {matrix.shape}; they must be an object array (rows, c).")
    if any(abs(entry) >> SHARE_BITS for entry in matrix.flat):
        raise ValueError(f"A share reaches 2^{SHARE_BITS} in magnitude; it was not made by align.")


def _halves(matrix: np.ndarray) -> np.ndarray:
    """int64 (2, rows, a): entry = high 2^33 + low with 0 <= low < 2^33."""
    high = matrix >> _HALF_BITS
    return np.stack([high.astype(np.int64), (matrix - (high << _HALF_BITS)).astype(np.int64)])


def _products(halves: np.ndarray, column: np.ndarray, public_key: PublicKey) -> List[mpz]:
    """One encrypted sum for each left column, given one ciphertext, as a row of bytes, for each row."""
    ciphertexts = [ciphertext.value for ciphertext in column_from_bytes(column.tobytes(), public_key)]
    high, low = (powers_product(ciphertexts, half, public_key.modulus_squared) for half in halves)
    return [_put_together(pair, public_key) for pair in zip(high, low)]


def _put_together(pair: Sequence[mpz], public_key: PublicKey) -> mpz:
    high, low = (EncryptedSum(value, public_key) for value in pair)
    return (high.times(1 << _HALF_BITS) + low).value
