"""Shares of M^T M where both parties hold shares of M: own products in clear, products of the two shares encrypted.

(A + B)^T (A + B) = A^T A + B^T B + A^T B + (A^T B)^T. A party computes its first two factors alone. For the product of
its share and the other's, the host encrypts the first half of every block's rows and the guest multiplies them, and
the other way round with the second half: both work at once, and each sees ciphertexts, or numbers within 2^-40 of
uniform. What comes out is narrow: shares of a sum are 42 bits wider than the sum can be.

How large a column is nobody knows. Values are below 2^4 in magnitude, as align encoded them, so that a mean square is
at most 2^8; all widths rest on this public bound.
"""
from functools import partial, reduce
from typing import Tuple

import numpy as np

from fate_dp.crypto.cross_product import merge_sums, open_sums, seal_sums
from fate_dp.crypto.exact_product import exact_product
from fate_dp.crypto.joined_records import FRACTION_BITS, VALUE_BITS
from fate_dp.crypto.shared_quadratic import SUM_FRACTION_BITS
from fate_dp.crypto.wide_cross_product import encrypt_shares, multiply_shares, narrow_shares, wide_layout

from .side import Side

_HALF_BITS = 33
_ROWS_AT_ONCE = 1 << 15
"""Rows that are multiplied together share buckets; more would gain little and fill the memory."""


def gram_share(side: Side, blocks, rows: int, columns: int) -> np.ndarray:
    """This party's share of M^T M: object (columns, columns), integers in units of 2^-48.

    Args:
        blocks: table of this party's shares of M, object arrays (rows, columns) in units of 2^-20.
        rows: rows of all blocks together.
    """
    total = own_products(blocks, columns)
    for product in _cross_products(side, blocks, rows, columns):
        total = total + product + product.T
    narrow = narrow_shares(total, 2 * VALUE_BITS + int(rows).bit_length(), side.guest)
    return narrow << SUM_FRACTION_BITS - 2 * FRACTION_BITS


def own_products(blocks, columns: int) -> np.ndarray:
    """A^T A of one party's share, exact."""
    parts = blocks.mapPartitions(_exact_squares, preserves_partitioning=True)
    return reduce(np.add, (part for _, part in parts.collect()), np.zeros((columns, columns), dtype=object))


def exact_square(matrix: np.ndarray) -> np.ndarray:
    """``matrix^T matrix`` of an object array (rows, c) of integers below 2^72 in magnitude."""
    high = matrix >> _HALF_BITS
    halves = np.hstack([high, matrix - (high << _HALF_BITS)]).astype(np.int64)
    products = exact_product(halves, halves)
    (high_high, high_low), (low_high, low_low) = (np.hsplit(half, 2) for half in np.vsplit(products, 2))
    return (high_high << 2 * _HALF_BITS) + ((high_low + low_high) << _HALF_BITS) + low_low


def half_of(block: np.ndarray, front: bool) -> np.ndarray:
    """The first half of a block's rows, which the host encrypts, or the other rows, which the guest does."""
    middle = len(block) // 2
    return block[:middle] if front else block[middle:]


def _cross_products(side: Side, blocks, rows: int, columns: int) -> Tuple[np.ndarray, np.ndarray]:
    """Shares of the products over both halves of the rows; each may be of the transposed product."""
    own_layout, layout = wide_layout(rows, side.private.public_key), wide_layout(rows, side.public)
    encrypt = partial(
        _encrypted, front=not side.guest, encryption=side.private.encryption(), layout=own_layout, expected=rows // 2
    )
    side.party.put("encrypted_rows", blocks.mapValues(encrypt))
    multiply = partial(_multiplied, front=side.guest, columns=columns, layout=layout, key=side.public)

    def encrypted_sums():
        pairs = blocks.join(side.party.get("encrypted_rows"), _pair)
        parts = pairs.mapPartitions(multiply, preserves_partitioning=True).collect()
        nothing = (1,) * (columns * layout.plaintexts(columns))
        return reduce(partial(merge_sums, public_key=side.public), (part for _, part in parts), nothing)

    sealed, multiplied = seal_sums(side.together("encrypted rows", encrypted_sums), columns, layout, side.public)
    side.party.put("masked_products", sealed)
    received = side.party.get("masked_products")
    opened = side.together("products", partial(open_sums, received, columns, own_layout, side.private))
    return multiplied, opened


def _exact_squares(blocks):
    """One sum for a partition: only what has the size of the columns reaches the driver."""
    total, last = 0, None
    for last, block in blocks:
        total = total + exact_square(block)
    if last is not None:
        yield last, total


def _encrypted(block, front, encryption, layout, expected):
    return encrypt_shares(half_of(block, front), encryption, layout, expected)


def _pair(block, encrypted):
    return block, encrypted


def _multiplied(pairs, front, columns, layout, key):
    """One tuple of sums for a partition; the more of its rows are multiplied at once, the better."""
    total, last = None, None
    for last, matrix, encrypted in _row_groups(pairs, front):
        sums = multiply_shares(matrix, encrypted, columns, layout, key)
        total = sums if total is None else merge_sums(total, sums, key)
    if total is not None:
        yield last, total


def _row_groups(pairs, front):
    """(a key, half rows of some blocks, the other party's encryptions of the same rows), some `_ROWS_AT_ONCE` each."""
    halves, encrypted, rows = [], [], 0
    for key, (block, data) in pairs:
        halves.append(half_of(block, front))
        encrypted.append(data)
        rows += len(halves[-1])
        if rows >= _ROWS_AT_ONCE:
            yield key, np.concatenate(halves), b"".join(encrypted)
            halves, encrypted, rows = [], [], 0
    if rows:
        yield key, np.concatenate(halves), b"".join(encrypted)
