"""Secure cross products: exact additive shares of A^T B, with A at one party and B at another, and no helper.

The owner of B encrypts each of its rows once, the columns side by side in one plaintext, under its own Paillier key.
The other party raises these ciphertexts to its A, one kernel for each block of rows, adds a fresh mask to every plaintext
of sums, blinds with a full ``r^n`` and sends them back. The digits of what the owner decrypts are its share; the other's
are minus the digits of the masks. They add up to A^T B, but for a chance below 2^-39 for each sum (see `SlotLayout`).

The other party sees ciphertexts only. The owner sees uniform ciphertexts of uniform numbers below n, whatever it
encrypted, if its n passed the checks of `PublicKey.from_wire`; so an owner that does not keep to the protocol learns no
more. Why sums cannot overflow: docs/proofs-crypto.md.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from . import paillier
from .joined_records import LOW_BITS, SHARE_BITS, split_shares
from .paillier import Ciphertext, EncryptedSum, OwnerDecryption, OwnerEncryption, PrivateKey, PublicKey
from .powers import IntArray, ObjectArray, powers_product
from .slots import FEATURE_FRACTION_BITS, ROW_BITS, STATISTICAL_BITS, SlotLayout, draw_mask

ENTRY_BITS = 40
_LIMB_BITS = 20
_BLOCK_ROWS = 1 << 13
_BLOCKS_PER_SUM = 1 << 9
_Item = TypeVar("_Item")


# Exact products of integer matrices, at the speed of floating-point matrix multiplication


def exact_product(left: IntArray, right: IntArray) -> ObjectArray:
    """``left^T right`` of int64 arrays (rows, a) and (rows, c) -> object array (a, c) of Python integers.

    An entry is ``high 2^20 + low`` with ``|high| <= 2^20`` and ``0 <= low < 2^20``. A sum of 2^13 products of such limbs
    is at most 2^53 in magnitude, and so is every partial sum: float64 holds them all exactly, in whatever order they are
    added. The blocks of 2^13 rows are added up as integers. Raises ValueError for an entry of 2^40 or more in magnitude.
    """
    check_entries(left, "left", ENTRY_BITS)
    check_entries(right, "right", ENTRY_BITS)
    if len(left) != len(right):
        raise ValueError(f"right must have as many rows as left, {len(left)}, got {len(right)}.")
    total: ObjectArray = np.zeros((2 * left.shape[1], 2 * right.shape[1]), dtype=object)
    for first, last in spans(len(left), _BLOCK_ROWS * _BLOCKS_PER_SUM):
        total += _limb_products(left[first:last], right[first:last])
    (high_high, high_low), (low_high, low_low) = (np.hsplit(half, 2) for half in np.vsplit(total, 2))
    product: ObjectArray = (high_high << 2 * _LIMB_BITS) + ((high_low + low_high) << _LIMB_BITS) + low_low
    return product


def column_square_sums(matrix: IntArray) -> tuple[int, ...]:
    """Sum of squares of every column of an int64 array (rows, m), exact; ValueError as in `exact_product`."""
    check_entries(matrix, "matrix", ENTRY_BITS)
    sums = np.zeros((3, matrix.shape[1]), dtype=object)
    for first, last in spans(len(matrix), _BLOCK_ROWS):
        high, low = _limbs(matrix[first:last])
        # 2^13 products of at most 40 bits: int64 has room to spare.
        sums += np.stack([(high * high).sum(axis=0), (high * low).sum(axis=0), (low * low).sum(axis=0)])
    return tuple((sums[0] << 2 * _LIMB_BITS) + (sums[1] << _LIMB_BITS + 1) + sums[2])


def check_entries(matrix: IntArray, name: str, bits: int) -> None:
    """Refuse what is no int64 matrix with entries below 2^bits in magnitude."""
    if matrix.dtype != np.int64 or matrix.ndim != 2:
        raise ValueError(f"{name} must be int64 with two dimensions, got {matrix.dtype} of shape {matrix.shape}.")
    if matrix.size and not -(1 << bits) < int(matrix.min()) <= int(matrix.max()) < 1 << bits:
        raise ValueError(f"{name} has an entry of 2^{bits} or more in magnitude; standardise the columns.")


def spans(rows: int, at_most: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges [first, last) of nearly equal length, each of ``at_most`` rows or fewer."""
    count = -(-rows // at_most)
    for index in range(count):
        yield rows * index // count, rows * (index + 1) // count


def _limb_products(left: IntArray, right: IntArray) -> IntArray:
    """int64 (2a, 2c): products of the columns' high limbs, then low limbs, with those of the other side."""
    total = np.zeros((2 * left.shape[1], 2 * right.shape[1]), dtype=np.int64)
    for first, last in spans(len(left), _BLOCK_ROWS):
        ours, theirs = (np.hstack(_limbs(side[first:last])).astype(np.float64) for side in (left, right))
        total += (ours.T @ theirs).astype(np.int64)
    return total


def _limbs(matrix: IntArray) -> tuple[IntArray, IntArray]:
    high = matrix >> _LIMB_BITS
    return high, matrix - (high << _LIMB_BITS)


# Cross products of features

MEAN_SQUARE_BITS = 8
"""Every column's mean square is at most 2^8, or what the parties agree on: standardised columns have mean square 1. A
party checks its own columns, exactly, with `column_square_sums`."""

DROPPED_BITS = 4
"""Of features, before they are multiplied: units of 2^-20 instead of 2^-24 make slots 8 bits narrower."""
_TARGET_BITS = MEAN_SQUARE_BITS // 2
ROWS_MULTIPLIED_AT_ONCE = 1 << 16
"""Rows that are multiplied together share buckets: 60,000 at once cost 15 % less than in spans of 15,000, and take up
160 MB instead of 35 at 2048 bits, measured."""
_ROWS_ENCRYPTED_AT_ONCE = 1 << 12
"""Encryption gains nothing from many rows."""


def product_layout(
    rows: int, public_key: PublicKey, square_bits: int = MEAN_SQUARE_BITS, dropped: int = 0
) -> SlotLayout:
    """The slots that hold the sums of a batch of ``rows`` rows under the owner's key.

    The mean product of any two columns is at most 2^square_bits; entries come in units of 2^(dropped - 24). ValueError for
    rows outside [1, 2^ROW_BITS], or a key too short for one slot.
    """
    if not 1 <= rows <= 1 << ROW_BITS:
        raise ValueError(f"rows must be from 1 to 2^{ROW_BITS}, got {rows}.")
    value_bits = 2 * (FEATURE_FRACTION_BITS - dropped) + square_bits + int(rows).bit_length()
    return SlotLayout(value_bits, public_key.key_length)


def encrypt_rows(matrix: IntArray, encryption: OwnerEncryption, layout: SlotLayout, expected: int) -> bytes:
    """The owner's rows, int64 (rows, c) in units of 2^-24, packed and encrypted: what one kernel sends to the other party.

    The layout is `product_layout` for the whole batch; a row becomes ``layout.plaintexts(c)`` ciphertexts. This process
    will encrypt ``expected`` rows under the key in all; only the speed depends on it.
    """
    _check_factor(matrix, "matrix", layout, encryption.public_key)
    expected *= layout.plaintexts(matrix.shape[1])
    parts = []
    for first, last in spans(len(matrix), _ROWS_ENCRYPTED_AT_ONCE):
        plaintexts = layout.pack_rows(matrix[first:last].tolist())
        parts.append(paillier.column_to_bytes(encryption.encrypt(plaintexts, expected)))
    return b"".join(parts)


def multiply_rows(
    left: IntArray, encrypted: bytes, columns: int, layout: SlotLayout, public_key: PublicKey
) -> tuple[int, ...]:
    """Encrypted sums over the rows of one kernel, at the party that owns ``left``, int64 (rows, a) in units of 2^-24.

    ``encrypted`` is what `encrypt_rows` made of the owner's rows, of ``columns`` columns, for the same layout. Returns
    a x ``layout.plaintexts(columns)`` ciphertexts, row by row, **not blinded**: they stay inside the party, are merged
    with `merge_sums`, and leave it through `seal_sums` only.
    """
    _check_factor(left, "left", layout, public_key)
    received = _received(encrypted, len(left), len(_slots_used(columns, layout)), public_key)
    sums: tuple[int, ...] = (1,) * (left.shape[1] * received.shape[1])
    for first, last in spans(len(left), ROWS_MULTIPLIED_AT_ONCE):
        # One ciphertext of each row at a time: only these are in memory as numbers.
        parts = [_products([left[first:last]], column, public_key)[0] for column in received[first:last].swapaxes(0, 1)]
        sums = merge_sums(sums, [product for of_left_column in zip(*parts) for product in of_left_column], public_key)
    return sums


def merge_sums(first: Sequence[int], second: Sequence[int], public_key: PublicKey) -> tuple[int, ...]:
    """Encrypted sums over the rows of both kernels."""
    if len(first) != len(second):
        raise ValueError(f"Kernels must have as many sums to be merged, got {len(first)} and {len(second)}.")
    return tuple(int(mpz(a) * b % public_key.modulus_squared) for a, b in zip(first, second))


def seal_sums(
    sums: Sequence[int],
    columns: int,
    layout: SlotLayout,
    public_key: PublicKey,
    random_bits: Callable[[int], int] = secrets.randbits,
) -> tuple[list[bytes], ObjectArray]:
    """Merged sums -> masked and fully blinded ciphertexts for the owner of the key, and this party's share.

    Masks come from ``random_bits``, see `slots.draw_mask`. The share is an object array (a, columns) of integers in units
    of 2^-48: minus the digits of the masks.
    """
    _check_key(layout, public_key)
    masked: list[EncryptedSum] = []
    share: list[int] = []
    for value, count in _with_slots(sums, columns, layout):
        mask = draw_mask(public_key.n, random_bits)
        masked.append(EncryptedSum(mpz(value), public_key).plus(mask))
        share.extend(-digit for digit in layout.digits(mask, count))
    sealed = [ciphertext.to_bytes() for ciphertext in paillier.fully_blinded(masked)]
    return sealed, np.array(share, dtype=object).reshape(-1, columns)


def open_sums(
    sealed: Sequence[bytes], columns: int, layout: SlotLayout, private_key: PrivateKey | OwnerDecryption
) -> ObjectArray:
    """The owner's share from what `seal_sums` sent: object array (a, columns) of integers in units of 2^-48.

    Raises ValueError for a value that is no ciphertext under this key. What was altered on its way, or made for another
    layout, gives other numbers: every plaintext below n is a masked one.
    """
    _check_key(layout, private_key.public_key)
    share: list[int] = []
    received = [Ciphertext.from_bytes(data, private_key.public_key) for data in sealed]
    for plaintext, count in _with_slots(private_key.decrypt_all(received), columns, layout):
        share.extend(layout.digits(plaintext, count))
    return np.array(share, dtype=object).reshape(-1, columns)


def _received(encrypted: bytes, rows: int, per_row: int, public_key: PublicKey) -> npt.NDArray[np.uint8]:
    """The bytes of the other party's ciphertexts: (rows, per_row, bytes of one)."""
    width = public_key.ciphertext_bytes
    if len(encrypted) != rows * per_row * width:
        raise ValueError(f"Received {len(encrypted)} bytes for {rows} rows of {per_row * width} bytes each.")
    return np.frombuffer(encrypted, dtype=np.uint8).reshape(rows, per_row, width)


def _products(lefts: Iterable[IntArray], column: npt.NDArray[np.uint8], public_key: PublicKey) -> list[list[mpz]]:
    """For each of ``lefts`` one encrypted sum a column, given one ciphertext, as a row of bytes, for each of the rows."""
    ciphertexts = [ciphertext.value for ciphertext in paillier.column_from_bytes(column.tobytes(), public_key)]
    return [powers_product(ciphertexts, left, public_key.modulus_squared) for left in lefts]


def _slots_used(columns: int, layout: SlotLayout) -> list[int]:
    if columns < 1:
        raise ValueError(f"columns of the key's owner must be at least 1, got {columns}.")
    return layout.slots_used(columns)


def _with_slots(items: Sequence[_Item], columns: int, layout: SlotLayout) -> Iterator[tuple[_Item, int]]:
    """Each of the encrypted sums of whole columns with the slots in use in it."""
    lengths = _slots_used(columns, layout)
    if len(items) % len(lengths):
        raise ValueError(f"{len(items)} encrypted sums are no whole number of columns of {len(lengths)} each.")
    return zip(items, cycle(lengths))


def _check_factor(matrix: IntArray, name: str, layout: SlotLayout, public_key: PublicKey) -> None:
    """Refuse entries whose squares alone would break the layout's bound.

    Sums of squares are not checked here: the owner encrypts rows of several batches at once, and the bound holds for
    each batch. That products still fit: docs/proofs-crypto.md.
    """
    _check_key(layout, public_key)
    check_entries(matrix, name, min(ENTRY_BITS, (layout.value_bits + 1) // 2 + _TARGET_BITS))


def _check_key(layout: SlotLayout, public_key: PublicKey) -> None:
    if layout.key_length != public_key.key_length:
        raise ValueError(
            f"The key must have {layout.key_length} bits, those of the layout, got {public_key.key_length}."
        )


# Cross products of shares, whose entries are as wide as those of `joined_records`. A share is multiplied in two halves, so
# that the kernels of `powers` serve unchanged.

MAX_ROWS = 1 << 30


def wide_layout(rows: int, public_key: PublicKey) -> SlotLayout:
    """The slots that hold sums over ``rows`` rows of products of two shares; ValueError for rows outside [1, 2^30]."""
    if not 1 <= rows <= MAX_ROWS:
        raise ValueError(f"rows must be from 1 to {MAX_ROWS}, got {rows}.")
    return SlotLayout(2 * SHARE_BITS + int(rows).bit_length(), public_key.key_length)


def encrypt_shares(matrix: ObjectArray, encryption: OwnerEncryption, layout: SlotLayout, expected: int) -> bytes:
    """As `encrypt_rows`, of integers (rows, c) below 2^65 in magnitude, by `wide_layout` for all rows of the sum."""
    check_shares(matrix)
    return paillier.column_to_bytes(
        encryption.encrypt(layout.pack_rows(matrix.tolist()), expected * layout.plaintexts(matrix.shape[1]))
    )


def multiply_shares(
    left: ObjectArray, encrypted: bytes, columns: int, layout: SlotLayout, public_key: PublicKey
) -> tuple[int, ...]:
    """As `multiply_rows`, at the party that owns ``left``: integers (rows, a) below 2^65 in magnitude."""
    check_shares(left)
    received, halves = _received(encrypted, len(left), layout.plaintexts(columns), public_key), split_shares(left)
    parts = [_wide_products(halves, column, public_key) for column in received.swapaxes(0, 1)]
    return tuple(int(product) for of_left_column in zip(*parts) for product in of_left_column)


def narrow_shares(share: ObjectArray, bits: int, first: bool) -> ObjectArray:
    """Shares of sums that are below 2^bits in magnitude, made narrow: both parties call it, one of them as ``first``.

    Shares are wide, but the sums that they make in the end, (A + B)^T (A + B), are small. Reducing them modulo
    2^(bits + 42), which they stay below in magnitude, tells nobody anything; an entry is off by that modulus, far outside
    its bound, with a chance below 2^-39 (docs/proofs-crypto.md).
    """
    modulus = 1 << (bits + STATISTICAL_BITS + 2)
    residues = np.asarray(share, dtype=object) % modulus
    return residues - modulus if first else residues


def check_shares(matrix: ObjectArray) -> None:
    """Refuse what is no matrix of integers below 2^65 in magnitude, and such without columns."""
    if matrix.dtype != object or matrix.ndim != 2 or not matrix.shape[1]:
        raise ValueError(f"Shares must be an object array (rows, c), got {matrix.dtype} of shape {matrix.shape}.")
    if any(abs(entry) >> SHARE_BITS for entry in matrix.flat):
        raise ValueError(f"A share reaches 2^{SHARE_BITS} in magnitude; it was not made by align.")


def _wide_products(halves: IntArray, column: npt.NDArray[np.uint8], public_key: PublicKey) -> list[mpz]:
    """One encrypted sum for each left column: both halves' products, put together again."""
    products = _products([halves[:, ::2], halves[:, 1::2]], column, public_key)
    high, low = ([EncryptedSum(value, public_key) for value in half] for half in products)
    return [(upper.times(1 << LOW_BITS) + lower).value for upper, lower in zip(high, low)]
