"""Products of integer matrices, exact, at the speed of floating-point matrix multiplication.

An entry below 2^40 in magnitude is ``high 2^20 + low`` with ``|high| <= 2^20`` and ``0 <= low < 2^20``. A sum of 2^13
products of such limbs is at most 2^53 in magnitude, and so is every partial sum: float64 holds them all exactly, in
whatever order they are added. The blocks of 2^13 rows are added up as integers.
"""
from typing import Iterator, Tuple

import numpy as np

ENTRY_BITS = 40
_LIMB_BITS = 20
_BLOCK_ROWS = 1 << 13
_BLOCKS_PER_SUM = 1 << 9


def exact_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``left^T right`` of int64 arrays (rows, a) and (rows, c) -> object array (a, c) of Python integers.

    Raises:
        ValueError: not int64 matrices of equally many rows, or an entry of 2^40 or more in magnitude.
    """
    check_entries(left, "left", ENTRY_BITS)
    check_entries(right, "right", ENTRY_BITS)
    if len(left) != len(right):
        raise ValueError(f"left has {len(left)} rows and right has {len(right)}; they must agree.")
    total = np.zeros((2 * left.shape[1], 2 * right.shape[1]), dtype=object)
    for first, last in spans(len(left), _BLOCK_ROWS * _BLOCKS_PER_SUM):
        total += _limb_products(left[first:last], right[first:last])
    (high_high, high_low), (low_high, low_low) = (np.hsplit(half, 2) for half in np.vsplit(total, 2))
    return (high_high << 2 * _LIMB_BITS) + ((high_low + low_high) << _LIMB_BITS) + low_low


def column_square_sums(matrix: np.ndarray) -> Tuple[int, ...]:
    """Sum of squares of every column of an int64 array (rows, m), exact.

    Raises:
        ValueError: as in `exact_product`.
    """
    check_entries(matrix, "matrix", ENTRY_BITS)
    sums = np.zeros((3, matrix.shape[1]), dtype=object)
    for first, last in spans(len(matrix), _BLOCK_ROWS):
        high, low = _limbs(matrix[first:last])
        # 2^13 products of at most 40 bits: int64 has room to spare.
        sums += np.stack([(high * high).sum(axis=0), (high * low).sum(axis=0), (low * low).sum(axis=0)])
    return tuple((sums[0] << 2 * _LIMB_BITS) + (sums[1] << _LIMB_BITS + 1) + sums[2])


def check_entries(matrix: np.ndarray, name: str, bits: int) -> None:
    """Refuse what is no int64 matrix with entries below 2^bits in magnitude."""
    if matrix.dtype != np.int64 or matrix.ndim != 2:
        raise ValueError(f"{name} is {matrix.dtype} of shape {matrix.shape}; it must be int64 with two dimensions.")
    if matrix.size and not -(1 << bits) < int(matrix.min()) <= int(matrix.max()) < 1 << bits:
        raise ValueError(f"{name} has an entry of 2^{bits} or more in magnitude; standardise the columns.")


def spans(rows: int, at_most: int) -> Iterator[Tuple[int, int]]:
    """Consecutive ranges [first, last) of nearly equal length, each of ``at_most`` rows or fewer."""
    count = -(-rows // at_most)
    for index in range(count):
        yield rows * index // count, rows * (index + 1) // count


def _limb_products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """int64 (2a, 2c): products of the columns' high limbs, then low limbs, with those of the other side."""
    total = np.zeros((2 * left.shape[1], 2 * right.shape[1]), dtype=np.int64)
    for first, last in spans(len(left), _BLOCK_ROWS):
        ours, theirs = (np.hstack(_limbs(side[first:last])).astype(np.float64) for side in (left, right))
        total += (ours.T @ theirs).astype(np.int64)
    return total


def _limbs(matrix: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    high = matrix >> _LIMB_BITS
    return high, matrix - (high << _LIMB_BITS)
