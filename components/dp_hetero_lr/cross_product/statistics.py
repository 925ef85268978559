"""The statistics that training needs, once: own Gram matrices in clear, cross blocks as shares between two parties.

For every pair of data parties one encrypts its rows under its own key and the other multiplies, masks and returns; which
one does what follows from public numbers alone. What a party learns: ciphertexts, and uniform numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from fate_dp.crypto.cross_product import (
    MEAN_SQUARE_BITS,
    column_square_sums,
    encrypt_rows,
    exact_product,
    merge_sums,
    multiply_rows,
    open_sums,
    seal_sums,
)
from fate_dp.crypto.paillier import OwnerEncryption, PublicKey
from fate_dp.crypto.slots import FEATURE_FRACTION_BITS, SlotLayout, encode_features
from fate_dp.privacy.mechanisms.second_moments import MomentNoise

from ...common.frames import bad_feature
from ...protocols.shared_descent import JointColumns, Keys
from ...protocols.training_terms import TrainingTerms
from ..rows import Block, Table

if TYPE_CHECKING:
    from fate.arch import Context

Batches = Sequence[tuple[int, int]]
Matrix = Callable[[Block], np.ndarray]
Left = Callable[..., np.ndarray]  # of a block and, by name, the bits that it drops
ENCRYPTION_COST, MULTIPLICATION_COST = 37, 1
"""Relative cost of one encryption, and of one multiplication by a column of one ciphertext (`make bench-hetero-lr`)."""


@dataclass(frozen=True)
class SumShares:
    """One party's additive share of X^T X (m, m) and X^T t (m, models) over the rows of a batch: integers, unit 2^-48."""

    matrix: np.ndarray
    linear: np.ndarray

    def with_noise(self, noise: MomentNoise, columns: JointColumns) -> SumShares:
        """The share plus noise, in units of 2^-48: own Gram matrix, and both halves of every cross block.

        The guest's last column is its target: its products go to ``linear``.
        """
        matrix, linear = self.matrix.copy(), self.linear.copy()
        own, width = columns.own_slice, columns.counts[columns.own]
        matrix[own, own] += noise.gram[:width, :width]
        if columns.is_guest:
            linear[own] += noise.gram[:width, width:]
        for position, block in noise.cross.items():
            peer, peer_width = columns.slice_of(position), columns.counts[position]
            matrix[own, peer] += block[:width, :peer_width]
            matrix[peer, own] += block[:width, :peer_width].T
            if columns.is_guest:
                linear[peer] += block[width:, :peer_width].T
            elif position == 0:
                linear[own] += block[:width, peer_width:]
        return SumShares(matrix, linear)


def encrypts(first: int, second: int, counts: Sequence[int], slots: int, changing_target: bool) -> int:
    """Which of two data parties encrypts: the cheaper way; the host, if the guest's target is to change later."""
    if changing_target and 0 in (first, second):
        return max(first, second)
    first_cost, second_cost = (_cost(counts[a], counts[b], slots) for a, b in ((first, second), (second, first)))
    return first if first_cost <= second_cost else second


def _cost(encrypted: int, multiplied: int, slots: int) -> int:
    return -(-encrypted // slots) * (ENCRYPTION_COST + multiplied * MULTIPLICATION_COST)


class Statistics:
    """Makes `SumShares` of every batch with the other data parties, and again for the guest's next targets.

    The targets of all models are columns of the guest's matrix, so that one pass over the rows serves them all. Every
    party calls the same methods in the same order.
    """

    def __init__(self, rows: Table, columns: JointColumns, keys: Keys, terms: TrainingTerms) -> None:
        """
        Args:
            rows: this party's blocks, at the guest with the targets as labels.
            columns: of all data parties.
            keys: of this training.
            terms: public.
        """
        self._rows, self._columns, self._keys, self._terms = rows, columns, keys, terms
        self._dropped, self._models = terms.dropped_bits, terms.models
        self._largest = max(last - first for first, last in terms.batches)
        self._received: dict[int, Table] = {}
        self._widths = [count + self._models * (position == 0) for position, count in enumerate(columns.counts)]

    def gather(self, ctx: Context) -> list[SumShares]:
        """Shares for every batch."""
        peers = self._columns.peers(ctx)
        shares = self._own_sums()
        for_others = [position for position in peers if self._encryptor(position) == self._columns.own]
        if for_others:
            table = encrypted_table(
                self._rows, self._keys.private.encryption(), self._own_layout(), self._terms.rows, self._dropped
            )
            for position in for_others:
                peers[position].put("encrypted_rows", table)
        for position, party in peers.items():
            if position not in for_others:
                self._received[position] = party.get("encrypted_rows")
                sealed, blocks = self._multiply(position, own_matrix)
                party.put("masked_products", sealed)
                for share, block in zip(shares, blocks):
                    self._place(share, position, block)
        for position in for_others:
            for share, block in zip(shares, self._open(peers[position].get("masked_products"))):
                self._place(share, position, block.T)
        return shares

    def next_target(self, ctx: Context, shares: list[SumShares], rows: Table | None = None) -> list[SumShares]:
        """Shares with the products of new targets, whole column by whole column, whatever changed in them.

        ``rows`` are the guest's with the new targets. The guest multiplies the rows that hosts encrypted at the start,
        so that a host sees masked products of one size and nothing of which targets are new.
        """
        shares = [replace(share, linear=np.zeros_like(share.linear)) for share in shares]
        peers = self._columns.peers(ctx)
        if not self._columns.is_guest:
            for share, block in zip(shares, self._open(peers[0].get("masked_products"))):
                share.linear[self._columns.own_slice] = block.T
            return shares
        self._rows = rows
        products = self._exact_sums(own_targets)
        for at, share in enumerate(shares):
            share.linear[self._columns.own_slice] = products[at][:, : -self._models].T
        for position, party in peers.items():
            sealed, blocks = self._multiply(position, own_targets)
            party.put("masked_products", sealed)
            for share, block in zip(shares, blocks):
                share.linear[self._columns.slice_of(position)] = block.T
        return shares

    def _own_sums(self) -> list[SumShares]:
        total, own = self._columns.total, self._columns.own_slice
        products, shares = self._exact_sums(own_matrix), []
        for at in range(len(self._terms.batches)):
            matrix, linear = np.zeros((total, total), dtype=object), np.zeros((total, self._models), dtype=object)
            width = self._columns.counts[self._columns.own]
            matrix[own, own] = products[at][:width, :width]
            if self._columns.is_guest:
                linear[own] = products[at][:width, width:]
            shares.append(SumShares(matrix, linear))
        return shares

    def _encryptor(self, position: int) -> int:
        first, second = sorted((self._columns.own, position))
        return encrypts(first, second, self._widths, self._own_layout().slots, bool(self._terms.score_epochs))

    def _layout(self, key: PublicKey) -> SlotLayout:
        return self._terms.sums_layout(self._largest, key)

    def _own_layout(self) -> SlotLayout:
        return self._layout(self._keys.public)

    def _exact_sums(self, left: Left) -> dict[int, np.ndarray]:
        products = exact_sums(self._rows, left, self._terms.batches, self._dropped)
        return {at: self._in_finest_units(sums) for at, sums in products.items()}

    def _in_finest_units(self, sums: np.ndarray) -> np.ndarray:
        """Integers in units of 2^-48, from those of the products."""
        return sums << 2 * self._dropped

    def _multiply(self, position: int, left: Left) -> tuple[list, list[np.ndarray]]:
        """Multiply the rows that the party at ``position`` encrypted: what goes back, and the own share of each batch."""
        key, width, batches = self._keys.peers[position], self._widths[position], self._terms.batches
        layout = self._layout(key)
        columns_of = partial(left, dropped=self._dropped)
        kernel = partial(_multiply, left=columns_of, columns=width, batches=batches, layout=layout, key=key)
        sums = encrypted_sums(self._rows, self._received[position], kernel, key)
        sealed = [seal_sums(sums[at], width, layout, key) for at in range(len(batches))]
        return [message for message, _ in sealed], [self._in_finest_units(share) for _, share in sealed]

    def _open(self, sealed: list) -> list[np.ndarray]:
        """The shares of what another party made of the rows that this one encrypted, its columns first."""
        width, layout = self._widths[self._columns.own], self._own_layout()
        return [self._in_finest_units(open_sums(message, width, layout, self._keys.private)) for message in sealed]

    def _place(self, share: SumShares, position: int, block: np.ndarray) -> None:
        """Enter the share of (own matrix)^T (matrix of the party at ``position``), targets among their columns."""
        own, peer = self._columns.own_slice, self._columns.slice_of(position)
        own_count, peer_count = self._columns.counts[self._columns.own], self._columns.counts[position]
        share.matrix[own, peer] = block[:own_count, :peer_count]
        share.matrix[peer, own] = block[:own_count, :peer_count].T
        if self._columns.is_guest:
            share.linear[peer] = block[own_count:].T
        elif position == 0:
            share.linear[own] = block[:, peer_count:]


# Products over the rows of block tables, as kernels on one partition: exact ones at a party, encrypted ones of two.
#
# A kernel gathers the rows of a partition batch by batch, since the bucket method pays off the more rows it gets at once.
# The guest's matrix has its targets as the last columns, one for each model; a host's has its features alone.


def own_matrix(block: Block, dropped: int) -> np.ndarray:
    """int64 (rows, columns) in units of 2^(dropped - 24), rounded to the nearest: features, and at the guest the targets."""
    features = _rounded(block.features, dropped)
    if block.labels is None:
        return features
    return np.column_stack([features, own_targets(block, dropped)])


def own_targets(block: Block, dropped: int) -> np.ndarray:
    """int64 (rows, models): the guest's targets alone."""
    return _rounded(encode_features(np.asarray(block.labels)), dropped)


def _rounded(numbers: np.ndarray, dropped: int) -> np.ndarray:
    return (numbers + (1 << dropped >> 1)) >> dropped


def exact_sums(rows: Table, left: Left, batches: Batches, dropped: int) -> dict[int, np.ndarray]:
    """{batch: left^T own_matrix} of one party, exact integers of object type."""
    kernel = partial(_exact, left=left, batches=batches, dropped=dropped)
    return _reduced(rows.mapPartitions(kernel, preserves_partitioning=True), np.add)


def encrypted_table(rows: Table, encryption: OwnerEncryption, layout: SlotLayout, expected: int, dropped: int) -> Table:
    """Table of bytes: this party's matrix, encrypted row by row under its own key."""
    return rows.mapValues(partial(_encrypt, encryption=encryption, layout=layout, expected=expected, dropped=dropped))


def encrypted_sums(rows: Table, received: Table, kernel: Callable, key: PublicKey) -> dict[int, tuple]:
    """{batch: unblinded encrypted sums of left^T (the other party's matrix)}; they stay inside this party."""
    parts = rows.join(received, _pair).mapPartitions(kernel, preserves_partitioning=True)
    return _reduced(parts, partial(merge_sums, public_key=key))


def _pair(block: Block, encrypted: bytes) -> tuple[Block, bytes]:
    return block, encrypted


def _reduced(parts: Table, merge: Callable) -> dict:
    """One dictionary from those of all partitions; a batch may lie in several of them."""
    return reduce(partial(_merged, merge=merge), (part for _, part in parts.collect()), {})


def _merged(first: dict, second: dict, merge: Callable) -> dict:
    return {**first, **{at: merge(first[at], sums) if at in first else sums for at, sums in second.items()}}


def _exact(
    blocks: Iterable[tuple[Any, Block]], left: Left, batches: Batches, dropped: int
) -> Iterator[tuple[Any, dict]]:
    blocks = list(blocks)
    found = {}
    for at, (first, last) in enumerate(batches):
        within = [block.within(first, last) for _, block in blocks]
        if any(len(block.features) for block in within):
            sides = (_stacked(within, partial(columns, dropped=dropped)) for columns in (left, own_matrix))
            found[at] = exact_product(*sides)
    if blocks:
        yield blocks[0][0], found


def _encrypt(block: Block, encryption: OwnerEncryption, layout: SlotLayout, expected: int, dropped: int) -> bytes:
    return encrypt_rows(own_matrix(block, dropped), encryption, layout, expected)


def _multiply(
    pairs: Iterable[tuple[Any, tuple[Block, bytes]]],
    left: Matrix,
    columns: int,
    batches: Batches,
    layout: SlotLayout,
    key: PublicKey,
) -> Iterator[tuple[Any, dict]]:
    pairs = list(pairs)
    found = {}
    for at, (first, last) in enumerate(batches):
        within = [(block.within(first, last), _rows_of(data, block, first, last)) for _, (block, data) in pairs]
        within = [(block, data) for block, data in within if len(block.features)]
        if within:
            matrix = _stacked([block for block, _ in within], left)
            found[at] = multiply_rows(matrix, b"".join(data for _, data in within), columns, layout, key)
    if pairs:
        yield pairs[0][0], found


def _stacked(blocks: Sequence[Block], columns_of: Matrix) -> np.ndarray:
    return np.concatenate([columns_of(block) for block in blocks])


def _rows_of(data: bytes, block: Block, first: int, last: int) -> bytes:
    """The encrypted rows of a block whose global index lies in [first, last)."""
    rows = len(block.features)
    if not rows or len(data) % rows:
        raise ValueError(f"Received {len(data)} bytes of encrypted rows for {rows} rows; rows must agree.")
    width = len(data) // rows
    low, high = (min(max(edge - block.start, 0), rows) for edge in (first, last))
    return data[low * width : high * width]


def mean_square_bits(rows: Table, names: Sequence[str], batches: Batches) -> int:
    """How large a party's columns are: the least k from 0 to 8 for which every mean square over a batch is at most 2^k.

    It is 0 or 1 for standardised features, and all that the other parties learn of their size. The widths of masks and
    the pace of training rest on it.

    Args:
        rows: this party's blocks.
        names: of its features.
        batches: of the training.

    Raises:
        ValueError: a feature is larger; its name stays with its own party.
    """
    totals = rows.mapValues(partial(_square_sums, batches=batches)).reduce(_add)
    largest = 0
    for (first, last), sums in zip(batches, totals):
        for name, total in zip(names, sums):
            bits = _bits(total, last - first)
            if bits > MEAN_SQUARE_BITS:
                raise bad_feature(
                    name,
                    f"has a mean square above {2**MEAN_SQUARE_BITS} in a batch, more than solver cross_product takes; "
                    "standardise it, or set solver to per_epoch",
                )
            largest = max(largest, bits)
    return largest


def _bits(total: int, rows: int) -> int:
    """Least k >= 0 with total <= rows 2^(k + 48)."""
    return max(0, (-(-total // rows) - 1).bit_length() - 2 * FEATURE_FRACTION_BITS)


def _square_sums(block: Block, batches: Batches) -> list[Sequence[int]]:
    return [column_square_sums(block.within(first, last).features) for first, last in batches]


def _add(first: list, second: list) -> list[tuple[int, ...]]:
    return [tuple(a + b for a, b in zip(one, other)) for one, other in zip(first, second)]
