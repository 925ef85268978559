"""The statistics that training needs, once: own Gram matrices in clear, cross blocks as shares between two parties.

For every pair of data parties one encrypts its rows under its own key and the other multiplies, masks and returns; which
one does what follows from public numbers alone. What a party learns: ciphertexts, and uniform numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fate_dp.crypto import cross_product
from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS, ROWS_MULTIPLIED_AT_ONCE, open_sums, seal_sums
from fate_dp.crypto.paillier import PublicKey
from fate_dp.crypto.slots import FEATURE_FRACTION_BITS, SlotLayout, encode_features
from fate_dp.privacy.mechanisms.second_moments import MomentNoise

from ...common.federation import Context
from ...common.frames import Table, bad_feature
from ...protocols.shared_descent import JointColumns, Keys
from ...protocols.training_terms import TrainingTerms
from ..rows import Block

Batches = Sequence[tuple[int, int]]
Matrix = Callable[..., np.ndarray]  # of a block and, by name, the bits that it drops
ENCRYPTION_COST, MULTIPLICATION_COST = 37, 1
"""Relative cost of one encryption, and of one multiplication by a column of one ciphertext (`make bench-hetero-lr`)."""


@dataclass(frozen=True)
class SumShares:
    """One party's additive share of X^T X (m, m) and X^T t (m, models) over the rows of a batch: integers, unit 2^-48."""

    matrix: np.ndarray
    linear: np.ndarray

    @classmethod
    def zeros(cls, columns: JointColumns, models: int) -> "SumShares":
        size = columns.total
        return cls(np.zeros((size, size), dtype=object), np.zeros((size, models), dtype=object))

    def add_own(self, columns: JointColumns, block: np.ndarray) -> None:
        """Add to the own block (own matrix)^T (own matrix); the guest's targets are its last columns."""
        own, width = columns.own_slice, columns.counts[columns.own]
        self.matrix[own, own] += block[:width, :width]
        if columns.is_guest:
            self.linear[own] += block[:width, width:]

    def add_cross(self, columns: JointColumns, position: int, block: np.ndarray) -> None:
        """Add to (own matrix)^T (matrix of the party at ``position``), the guest's targets its last columns."""
        own, width = columns.own_slice, columns.counts[columns.own]
        peer, peer_width = columns.slice_of(position), columns.counts[position]
        self.matrix[own, peer] += block[:width, :peer_width]
        self.matrix[peer, own] += block[:width, :peer_width].T
        if columns.is_guest:
            self.linear[peer] += block[width:, :peer_width].T
        elif position == 0:
            self.linear[own] += block[:width, peer_width:]

    def with_noise(self, noise: MomentNoise, columns: JointColumns) -> "SumShares":
        """The share plus noise, in units of 2^-48: own Gram matrix, and both halves of every cross block."""
        noisy = SumShares(self.matrix.copy(), self.linear.copy())
        noisy.add_own(columns, noise.gram)
        for position, block in noise.cross.items():
            noisy.add_cross(columns, position, block)
        return noisy


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
        """``rows`` are this party's blocks, at the guest with the targets as labels."""
        self._rows, self._columns, self._keys, self._terms = rows, columns, keys, terms
        self._dropped, self._models = terms.dropped_bits, terms.models
        largest = max(last - first for first, last in terms.batches)
        self._layout = partial(terms.sums_layout, largest)
        self._received: dict[int, Table] = {}
        self._widths = [count + self._models * (position == 0) for position, count in enumerate(columns.counts)]

    def gather(self, ctx: Context) -> list[SumShares]:
        """Shares for every batch."""
        peers = self._columns.peers(ctx)
        shares = [SumShares.zeros(self._columns, self._models) for _ in self._terms.batches]
        for at, products in self._exact_sums(own_matrix).items():
            shares[at].add_own(self._columns, products)
        for_others = [position for position in peers if self._encryptor(position) == self._columns.own]
        if for_others:
            encryption, layout = self._keys.private.encryption(), self._layout(self._keys.public)
            rows, dropped = self._terms.rows, self._dropped
            table = self._rows.mapValues(
                lambda block: cross_product.encrypt_rows(own_matrix(block, dropped), encryption, layout, rows)
            )
            for position in for_others:
                peers[position].put("encrypted_rows", table)
        for position, party in peers.items():
            if position not in for_others:
                self._received[position] = party.get("encrypted_rows")
                sealed, blocks = self._multiply(position, own_matrix)
                party.put("masked_products", sealed)
                for share, block in zip(shares, blocks):
                    share.add_cross(self._columns, position, block)
        for position in for_others:
            for share, block in zip(shares, self._open(peers[position].get("masked_products"))):
                share.add_cross(self._columns, position, block.T)
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

    def _encryptor(self, position: int) -> int:
        first, second = sorted((self._columns.own, position))
        slots = self._layout(self._keys.public).slots
        return encrypts(first, second, self._widths, slots, bool(self._terms.score_epochs))

    def _exact_sums(self, left: Matrix) -> dict[int, np.ndarray]:
        """{batch: left^T own_matrix} of this party, integers in units of 2^-48."""
        alone = self._rows.mapValues(lambda block: (block, b""))
        products = self._summed(alone, partial(_exact, left=left, dropped=self._dropped), np.add)
        return {at: sums << 2 * self._dropped for at, sums in products.items()}

    def _multiply(self, position: int, left: Matrix) -> tuple[list, list[np.ndarray]]:
        """Multiply the rows that the party at ``position`` encrypted: what goes back, and the own share of each batch.

        The unblinded encrypted sums of left^T (the other party's matrix) stay inside this party.
        """
        key, width = self._keys.peers[position], self._widths[position]
        layout, matrix = self._layout(key), partial(left, dropped=self._dropped)
        pairs = self._rows.join(self._received[position], lambda block, encrypted: (block, encrypted))
        product = partial(_encrypted, matrix=matrix, columns=width, layout=layout, key=key)
        sums = self._summed(pairs, product, partial(cross_product.merge_sums, public_key=key))
        sealed = [seal_sums(sums[at], width, layout, key) for at in range(len(self._terms.batches))]
        return [message for message, _ in sealed], [share << 2 * self._dropped for _, share in sealed]

    def _summed(self, pairs: Table, product: Callable, merge: Callable) -> dict[int, Any]:
        """{batch: the merged products of its rows}; a batch may lie in several partitions."""
        kernel = partial(_summed, batches=self._terms.batches, product=product, merge=merge)
        found: dict[int, Any] = {}
        for _, part in pairs.mapPartitions(kernel, preserves_partitioning=True).collect():
            found.update({at: merge(found[at], sums) if at in found else sums for at, sums in part.items()})
        return found

    def _open(self, sealed: list) -> list[np.ndarray]:
        """The shares of what another party made of the rows that this one encrypted, its columns first."""
        width, layout = self._widths[self._columns.own], self._layout(self._keys.public)
        return [open_sums(message, width, layout, self._keys.private) << 2 * self._dropped for message in sealed]


# Products over the rows of block tables, as kernels on one partition: exact ones at a party, encrypted ones of two.
#
# A kernel gathers rows batch by batch, since the bucket method pays off the more rows it gets at once, but no whole partition.
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


def _summed(
    items: Iterable[tuple[Any, tuple[Block, bytes]]], batches: Batches, product: Callable, merge: Callable
) -> Iterator[tuple[object, dict[int, Any]]]:
    """Of one partition {batch: the merged products of its rows}; items are blocks, with what another party sent of them."""
    found: dict[int, Any] = {}
    key_of_all = None
    for group in _gathered(items):
        key_of_all = group[0][0]
        for at, (first, last) in enumerate(batches):
            within = [(block.within(first, last), _rows_of(data, block, first, last)) for _, (block, data) in group]
            if within := [(block, data) for block, data in within if len(block.features)]:
                sums = product(*zip(*within))
                found[at] = merge(found[at], sums) if at in found else sums
    if key_of_all is not None:
        yield key_of_all, found


def _exact(blocks: Sequence[Block], _: Sequence[bytes], left: Matrix, dropped: int) -> np.ndarray:
    sides = (np.concatenate([side(block, dropped=dropped) for block in blocks]) for side in (left, own_matrix))
    return cross_product.exact_product(*sides)


def _encrypted(
    blocks: Sequence[Block], received: Sequence[bytes], matrix: Matrix, columns: int, layout: SlotLayout, key: PublicKey
) -> Any:
    rows = np.concatenate(list(map(matrix, blocks)))
    return cross_product.multiply_rows(rows, b"".join(received), columns, layout, key)


def _gathered(items: Iterable[tuple[Any, tuple[Block, bytes]]]) -> Iterator[list]:
    """The items of a partition in groups of as many rows as are worth multiplying at once, so that no partition is too large."""
    group: list[tuple[Any, tuple[Block, bytes]]] = []
    rows = 0
    for item in items:
        of_item = len(item[1][0].features)
        if group and rows + of_item > ROWS_MULTIPLIED_AT_ONCE:
            yield group
            group, rows = [], 0
        group.append(item)
        rows += of_item
    if group:
        yield group


def _rows_of(data: bytes, block: Block, first: int, last: int) -> bytes:
    """The encrypted rows of a block whose global index lies in [first, last)."""
    rows = len(block.features)
    if not rows or len(data) % rows:
        raise ValueError(f"Encrypted rows must be {rows} rows of equal length, got {len(data)} bytes.")
    width = len(data) // rows
    low, high = (min(max(edge - block.start, 0), rows) for edge in (first, last))
    return data[low * width : high * width]


def mean_square_bits(rows: Table, names: Sequence[str], batches: Batches) -> int:
    """How large a party's columns are: the least k from 0 to 8 for which every mean square over a batch is at most 2^k.

    It is 0 or 1 for standardised features, and all that the other parties learn of their size. The widths of masks and
    the pace of training rest on it. ValueError for a larger feature, whose name stays with its own party.
    """

    def squares(block: Block) -> np.ndarray:
        """object (batches, columns): they exceed int64."""
        sums = [cross_product.column_square_sums(block.within(*bounds).features) for bounds in batches]
        return np.array(sums, dtype=object)

    totals = rows.mapValues(squares).reduce(np.add)
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
