"""Products over the rows of block tables, as kernels on one partition: exact ones at a party, encrypted ones of two.

A kernel gathers the rows of a partition batch by batch, since the bucket method pays off the more rows it gets at once.
The guest's matrix has its targets as the last columns, one for each model; a host's has its features alone.
"""
from functools import partial, reduce
from typing import Callable, Dict, List, Tuple

import numpy as np

from fate_dp.crypto.cross_product import encrypt_rows, merge_sums, multiply_rows
from fate_dp.crypto.exact_product import exact_product
from fate_dp.crypto.fixed_point import encode_features
from fate_dp.crypto.owner_encryption import OwnerEncryption
from fate_dp.crypto.paillier import PublicKey
from fate_dp.crypto.slots import SlotLayout

Batches = List[Tuple[int, int]]


def own_matrix(block, dropped: int) -> np.ndarray:
    """int64 (rows, columns) in units of 2^(dropped - 24), rounded to the nearest: features, and at the guest the targets."""
    features = _rounded(block.features, dropped)
    if block.labels is None:
        return features
    return np.column_stack([features, own_targets(block, dropped)])


def own_targets(block, dropped: int) -> np.ndarray:
    """int64 (rows, models): the guest's targets alone."""
    return _rounded(encode_features(block.labels), dropped)


def _rounded(numbers: np.ndarray, dropped: int) -> np.ndarray:
    return (numbers + (1 << dropped >> 1)) >> dropped


def exact_sums(rows, left: Callable, batches: Batches, dropped: int) -> Dict[int, np.ndarray]:
    """{batch: left^T own_matrix} of one party, exact integers of object type."""
    kernel = partial(_exact, left=left, batches=batches, dropped=dropped)
    return _reduced(rows.mapPartitions(kernel, preserves_partitioning=True), np.add)


def encrypted_table(rows, encryption: OwnerEncryption, layout: SlotLayout, expected: int, dropped: int):
    """Table of bytes: this party's matrix, encrypted row by row under its own key."""
    return rows.mapValues(partial(_encrypt, encryption=encryption, layout=layout, expected=expected, dropped=dropped))


def encrypted_sums(
    rows, received, left: Callable, columns: int, batches: Batches, layout: SlotLayout, key: PublicKey, dropped: int
):
    """{batch: unblinded encrypted sums of left^T (the other party's matrix)}; they stay inside this party."""
    kernel = partial(_multiply, left=partial(left, dropped=dropped), columns=columns, batches=batches, layout=layout, key=key)
    parts = rows.join(received, _pair).mapPartitions(kernel, preserves_partitioning=True)
    return _reduced(parts, partial(merge_sums, public_key=key))


def _pair(block, encrypted):
    return block, encrypted


def _reduced(parts, merge) -> dict:
    """One dictionary from those of all partitions; a batch may lie in several of them."""
    return reduce(partial(_merged, merge=merge), (part for _, part in parts.collect()), {})


def _merged(first: dict, second: dict, merge) -> dict:
    return {**first, **{at: merge(first[at], sums) if at in first else sums for at, sums in second.items()}}


def _exact(blocks, left, batches, dropped):
    blocks = list(blocks)
    found = {}
    for at, (first, last) in enumerate(batches):
        within = [block.within(first, last) for _, block in blocks]
        if any(len(block.features) for block in within):
            sides = (_stacked(within, partial(columns, dropped=dropped)) for columns in (left, own_matrix))
            found[at] = exact_product(*sides)
    if blocks:
        yield blocks[0][0], found


def _encrypt(block, encryption, layout, expected, dropped):
    return encrypt_rows(own_matrix(block, dropped), encryption, layout, expected)


def _multiply(pairs, left, columns, batches, layout, key):
    pairs = list(pairs)
    found = {}
    for at, (first, last) in enumerate(batches):
        within = [(block.within(first, last), _rows_of(data, block, first, last)) for _, (block, data) in pairs]
        within = [(block, data) for block, data in within if len(block.features)]
        if within:
            matrix, encrypted = _stacked([block for block, _ in within], left), b"".join(data for _, data in within)
            found[at] = multiply_rows(matrix, encrypted, columns, layout, key)
    if pairs:
        yield pairs[0][0], found


def _stacked(blocks, columns_of) -> np.ndarray:
    return np.concatenate([columns_of(block) for block in blocks])


def _rows_of(data: bytes, block, first: int, last: int) -> bytes:
    """The encrypted rows of a block whose global index lies in [first, last)."""
    rows = len(block.features)
    if not rows or len(data) % rows:
        raise ValueError(f"Received {len(data)} bytes of encrypted rows for {rows} rows; rows must agree.")
    width = len(data) // rows
    low, high = (min(max(edge - block.start, 0), rows) for edge in (first, last))
    return data[low * width : high * width]
