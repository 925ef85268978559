"""Secure cross product: exact additive shares of A^T B, with A at one party and B at another, and no helper.

The owner of B encrypts each of its rows once, the columns side by side in one plaintext, under its own Paillier key.
The other party raises these ciphertexts to its A (`multiply_rows`, one kernel for each block of rows), adds a fresh
mask to every plaintext of sums, blinds with a full ``r^n`` and sends them back. The digits of what the owner decrypts
are its share; the other party's is minus the digits of the masks. Both shares add up to A^T B over the integers, but for
a chance below 2^-39 for each sum (see `slots`).

What each side learns: the other party sees ciphertexts only. The owner sees uniform ciphertexts of uniform numbers below
n, whatever it encrypted, if its n passed the checks of `paillier.PublicKey.from_wire`; so an owner that does not keep to
the protocol learns no more.

Sums cannot overflow. Entries are fixed-point numbers of unit 2^-24 (or coarser: `DROPPED_BITS`), and every column's mean
square over the batch is at most 2^MEAN_SQUARE_BITS, or what the parties agree on: a party checks its own columns, exactly,
with `exact_product.column_square_sums`. By Cauchy and Schwarz a sum over n rows is at most n 2^(48 + MEAN_SQUARE_BITS) in
units of 2^-48, which is less than 2^value_bits of `product_layout`. Apart from that, both sides check every entry that they
encrypt or multiply by: even if a party forgot its columns' mean squares, a slot has room for the sums of 2^31 rows.
"""
import secrets
from typing import Callable, List, Sequence, Tuple, Union

import numpy as np
from gmpy2 import mpz

from .ciphertext import Ciphertext, EncryptedSum, column_from_bytes, column_to_bytes
from .exact_product import ENTRY_BITS, check_entries, spans
from .fixed_point import FEATURE_FRACTION_BITS, ROW_BITS
from .multi_exponentiation import powers_product
from .owner_encryption import OwnerEncryption
from .owner_decryption import OwnerDecryption
from .paillier import PrivateKey, PublicKey
from .slots import SlotLayout, draw_mask

MEAN_SQUARE_BITS = 8
"""Every column's mean square is at most 2^8: standardised columns have mean square 1."""

DROPPED_BITS = 4
"""Of features, before they are multiplied: units of 2^-20 instead of 2^-24 make slots 8 bits narrower."""
_TARGET_BITS = MEAN_SQUARE_BITS // 2
_ROWS_MULTIPLIED_AT_ONCE = 1 << 16
"""Rows that are multiplied together share buckets: 60,000 at once cost 15 % less than in spans of 15,000, and take up
160 MB instead of 35 at 2048 bits, measured. More rows than this would gain little and fill the memory."""
_ROWS_ENCRYPTED_AT_ONCE = 1 << 12
"""Encryption gains nothing from many rows."""


def product_layout(
    rows: int, public_key: PublicKey, square_bits: int = MEAN_SQUARE_BITS, dropped: int = 0
) -> SlotLayout:
    """The slots that hold the sums of a batch of ``rows`` rows under the owner's key.

    Args:
        square_bits: the mean product of any two columns is at most 2^square_bits.
        dropped: entries come in units of 2^(dropped - 24).

    Raises:
        ValueError: rows outside [1, 2^ROW_BITS], or a key too short for one slot.
    """
    if not 1 <= rows <= 1 << ROW_BITS:
        raise ValueError(f"rows is {rows}; a cross product is summed over 1 to 2^{ROW_BITS} rows.")
    value_bits = 2 * (FEATURE_FRACTION_BITS - dropped) + square_bits + int(rows).bit_length()
    return SlotLayout(value_bits, public_key.key_length)


def encrypt_rows(matrix: np.ndarray, encryption: OwnerEncryption, layout: SlotLayout, expected: int) -> bytes:
    """The owner's rows, packed and encrypted: what one kernel sends to the other party.

    Args:
        matrix: int64 (rows, c), units of 2^-24.
        encryption: of the owner's own key.
        layout: from `product_layout` for the whole batch.
        expected: rows that this process will encrypt under the key in all; only the speed depends on it.

    Returns:
        ``layout.plaintexts(c)`` ciphertexts for each row, row by row.
    """
    _check_factor(matrix, "matrix", layout, encryption.public_key)
    expected *= layout.plaintexts(matrix.shape[1])
    parts = []
    for first, last in spans(len(matrix), _ROWS_ENCRYPTED_AT_ONCE):
        plaintexts = _packed_rows(matrix[first:last].tolist(), layout)
        parts.append(column_to_bytes(encryption.encrypt(plaintexts, expected)))
    return b"".join(parts)


def multiply_rows(
    left: np.ndarray, encrypted: bytes, columns: int, layout: SlotLayout, public_key: PublicKey
) -> Tuple[int, ...]:
    """Encrypted sums over the rows of one kernel, at the party that owns ``left``.

    Args:
        left: int64 (rows, a), units of 2^-24.
        encrypted: what `encrypt_rows` made of the owner's c ``columns`` for the same rows.

    Returns:
        a x ``layout.plaintexts(columns)`` ciphertexts, row by row, **not blinded**: they stay inside the party, are
        merged with `merge_sums`, and leave it through `seal_sums` only.
    """
    _check_factor(left, "left", layout, public_key)
    per_row, width = len(_slots_used(columns, layout)), public_key.ciphertext_bytes
    if len(encrypted) != len(left) * per_row * width:
        raise ValueError(f"Received {len(encrypted)} bytes for {len(left)} rows of {per_row * width} bytes each.")
    received = np.frombuffer(encrypted, dtype=np.uint8).reshape(len(left), per_row, width)
    sums = (1,) * (left.shape[1] * per_row)
    for first, last in spans(len(left), _ROWS_MULTIPLIED_AT_ONCE):
        # One ciphertext of each row at a time: only these are in memory as numbers.
        parts = [_products(left[first:last], received[first:last, at], public_key) for at in range(per_row)]
        sums = merge_sums(sums, [product for of_left_column in zip(*parts) for product in of_left_column], public_key)
    return sums


def merge_sums(first: Sequence[int], second: Sequence[int], public_key: PublicKey) -> Tuple[int, ...]:
    """Encrypted sums over the rows of both kernels."""
    if len(first) != len(second):
        raise ValueError(f"Kernels with {len(first)} and {len(second)} sums cannot be merged; numbers must agree.")
    return tuple(int(mpz(a) * b % public_key.modulus_squared) for a, b in zip(first, second))


def seal_sums(
    sums: Sequence[int], columns: int, layout: SlotLayout, public_key: PublicKey,
    random_bits: Callable[[int], int] = secrets.randbits,
) -> Tuple[List[bytes], np.ndarray]:  # fmt: skip
    """Merged sums -> masked and fully blinded ciphertexts for the owner of the key, and this party's share.

    Args:
        random_bits: where masks come from, see `slots.draw_mask`.

    Returns:
        ciphertexts, and an object array (a, columns) of integers in units of 2^-48: minus the digits of the masks.
    """
    _check_key(layout, public_key)
    lengths = _slots_used(columns, layout)
    sealed, share = [], []
    for value, count in zip(sums, lengths * _left_columns(sums, lengths)):
        mask = draw_mask(public_key.n, random_bits)
        sealed.append(EncryptedSum(mpz(value), public_key).plus(mask).fully_blinded().to_bytes())
        share.extend(-digit for digit in layout.digits(mask, count))
    return sealed, _as_matrix(share, columns)


def open_sums(
    sealed: Sequence[bytes], columns: int, layout: SlotLayout, private_key: Union[PrivateKey, OwnerDecryption]
) -> np.ndarray:
    """The owner's share from what `seal_sums` sent: object array (a, columns) of integers in units of 2^-48.

    Raises:
        ValueError: a value that is no ciphertext under this key. What was altered on its way, or made for another
            layout, gives other numbers: every plaintext below n is a masked one.
    """
    _check_key(layout, private_key.public_key)
    lengths = _slots_used(columns, layout)
    share = []
    for data, count in zip(sealed, lengths * _left_columns(sealed, lengths)):
        plaintext = private_key.decrypt(Ciphertext.from_bytes(data, private_key.public_key))
        share.extend(layout.digits(plaintext, count))
    return _as_matrix(share, columns)


def _packed_rows(rows: Sequence[List[int]], layout: SlotLayout) -> List[int]:
    slots = layout.slots
    return [layout.pack(row[first : first + slots]) for row in rows for first in range(0, len(row), slots)]


def _products(left: np.ndarray, column: np.ndarray, public_key: PublicKey) -> List[mpz]:
    """One encrypted sum for each column of ``left``, given one ciphertext, as a row of bytes, for each of its rows."""
    ciphertexts = [ciphertext.value for ciphertext in column_from_bytes(column.tobytes(), public_key)]
    return powers_product(ciphertexts, left, public_key.modulus_squared)


def _slots_used(columns: int, layout: SlotLayout) -> List[int]:
    """Slots in use in each of the ciphertexts of one row."""
    if columns < 1:
        raise ValueError(f"columns is {columns}; the owner of the key must have at least one.")
    return [min(layout.slots, columns - first) for first in range(0, columns, layout.slots)]


def _left_columns(ciphertexts: Sequence, lengths: Sequence[int]) -> int:
    if len(ciphertexts) % len(lengths):
        raise ValueError(f"{len(ciphertexts)} encrypted sums are no whole number of columns of {len(lengths)} each.")
    return len(ciphertexts) // len(lengths)


def _as_matrix(values: Sequence[int], columns: int) -> np.ndarray:
    matrix = np.empty(len(values), dtype=object)
    matrix[:] = values
    return matrix.reshape(-1, columns)


def _check_factor(matrix: np.ndarray, name: str, layout: SlotLayout, public_key: PublicKey) -> None:
    """Refuse entries whose squares alone would break the layout's bound.

    A product of two entries below 2^(ceil(value_bits / 2) + 4) is below 2^(value_bits + 9); there is room for 2^31 of
    them in a slot, more than rows. The 4 bits are for targets, which may be larger than the features are. Sums of
    squares are not checked here: the owner encrypts rows of several batches at once, and the bound holds for each batch.
    """
    _check_key(layout, public_key)
    check_entries(matrix, name, min(ENTRY_BITS, (layout.value_bits + 1) // 2 + _TARGET_BITS))


def _check_key(layout: SlotLayout, public_key: PublicKey) -> None:
    if layout.key_length != public_key.key_length:
        raise ValueError(
            f"The layout is for keys of {layout.key_length} bits, the key has {public_key.key_length}; they must agree."
        )
