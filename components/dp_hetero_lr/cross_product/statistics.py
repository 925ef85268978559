"""The statistics that training needs, once: own Gram matrices in clear, cross blocks as shares between two parties.

For every pair of data parties one encrypts its rows under its own key and the other multiplies, masks and returns; which
one does what follows from public numbers alone. What a party learns: ciphertexts, and uniform numbers.
"""
from dataclasses import dataclass, replace
from typing import Dict, List, Tuple

import numpy as np

from fate_dp.crypto.cross_product import open_sums, seal_sums

from ..classes import models_of
from ..settings import TrainSettings
from .joint_columns import JointColumns
from .keys import Keys
from .products import encrypted_sums, encrypted_table, exact_sums, own_matrix, own_targets
from .public_sizes import dropped_bits, sums_layout

ENCRYPTION_COST, MULTIPLICATION_COST = 37, 1
"""Relative cost of one encryption, and of one multiplication by a column of one ciphertext (`make bench-hetero-lr`)."""


@dataclass(frozen=True)
class SumShares:
    """One party's additive share of X^T X (m, m) and X^T t (m, models) over the rows of a batch: integers, unit 2^-48."""

    matrix: np.ndarray
    linear: np.ndarray


def encrypts(first: int, second: int, counts, slots: int, changing_target: bool) -> int:
    """Which of two data parties encrypts: the cheaper way; the host, if the guest's target is to change later."""
    if changing_target and 0 in (first, second):
        return max(first, second)
    first_cost, second_cost = (_cost(counts[a], counts[b], slots) for a, b in ((first, second), (second, first)))
    return first if first_cost <= second_cost else second


def _cost(encrypted: int, multiplied: int, slots: int) -> int:
    return -(-encrypted // slots) * (ENCRYPTION_COST + multiplied * MULTIPLICATION_COST)


class Statistics:
    """Makes `SumShares` of every batch with the other data parties, and again for the guest's next targets.

    The targets of all models are columns of the guest's matrix, so that one pass over the rows serves them all.

    Every party calls the same methods in the same order.
    """

    def __init__(self, rows, columns: JointColumns, keys: Keys, settings: TrainSettings, terms: dict):
        self._rows, self._columns, self._keys = rows, columns, keys
        self._settings, self._terms, self._dropped = settings, terms, dropped_bits(terms)
        self._batches = [tuple(bounds) for bounds in terms["batches"]]
        self._largest = max(last - first for first, last in self._batches)
        self._changing_target = bool(terms["score_epochs"])
        self._total_rows = terms["rows"]
        self._received: Dict[int, object] = {}
        self._models = models_of(terms["classes"])
        self._widths = [count + self._models * (position == 0) for position, count in enumerate(columns.counts)]

    def gather(self, ctx) -> List[SumShares]:
        """Shares for every batch."""
        peers = self._columns.peers(ctx)
        shares = self._own_sums()
        for_others = [position for position in peers if self._encryptor(position) == self._columns.own]
        if for_others:
            table = encrypted_table(self._rows, self._keys.private.encryption(), self._own_layout(), self._total_rows,
                                    self._dropped)  # fmt: skip
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

    def next_target(self, ctx, shares: List[SumShares], rows=None) -> List[SumShares]:
        """Shares with the products of new targets, whole column by whole column, whatever changed in them.

        ``rows`` are the guest's with the new targets. The guest multiplies the rows that hosts encrypted at the start,
        so that a host sees masked products of one size and nothing of which targets are new.
        """
        shares = [replace(share, linear=np.zeros_like(share.linear)) for share in shares]
        peers = self._columns.peers(ctx)
        if self._columns.own != 0:
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

    def _own_sums(self) -> List[SumShares]:
        total, own, guest = self._columns.total, self._columns.own_slice, self._columns.own == 0
        products, shares = self._exact_sums(own_matrix), []
        for at in range(len(self._batches)):
            matrix, linear = np.zeros((total, total), dtype=object), np.zeros((total, self._models), dtype=object)
            width = self._columns.counts[self._columns.own]
            matrix[own, own] = products[at][:width, :width]
            if guest:
                linear[own] = products[at][:width, width:]
            shares.append(SumShares(matrix, linear))
        return shares

    def _encryptor(self, position: int) -> int:
        pair = sorted((self._columns.own, position))
        return encrypts(*pair, self._widths, self._own_layout().slots, self._changing_target)

    def _own_layout(self):
        return sums_layout(self._settings, self._terms, self._largest, self._keys.public)

    def _exact_sums(self, left) -> Dict[int, np.ndarray]:
        products = exact_sums(self._rows, left, self._batches, self._dropped)
        return {at: self._in_finest_units(sums) for at, sums in products.items()}

    def _in_finest_units(self, sums: np.ndarray) -> np.ndarray:
        """Integers in units of 2^-48, from those of the products."""
        return sums << 2 * self._dropped

    def _multiply(self, position: int, left) -> Tuple[list, list]:
        """Multiply the rows that the party at ``position`` encrypted: what goes back, and the own share of each batch."""
        key, width = self._keys.peers[position], self._widths[position]
        layout = sums_layout(self._settings, self._terms, self._largest, key)
        received = self._received[position]
        sums = encrypted_sums(self._rows, received, left, width, self._batches, layout, key, self._dropped)
        sealed = [seal_sums(sums[at], width, layout, key) for at in range(len(self._batches))]
        return [message for message, _ in sealed], [self._in_finest_units(share) for _, share in sealed]

    def _open(self, sealed: list) -> list:
        """The shares of what another party made of the rows that this one encrypted, its columns first."""
        width, layout = self._widths[self._columns.own], self._own_layout()
        return [self._in_finest_units(open_sums(message, width, layout, self._keys.private)) for message in sealed]

    def _place(self, share: SumShares, position: int, block: np.ndarray) -> None:
        """Enter the share of (own matrix)^T (matrix of the party at ``position``), targets among their columns."""
        own, peer = self._columns.own_slice, self._columns.slice_of(position)
        own_count, peer_count = self._columns.counts[self._columns.own], self._columns.counts[position]
        share.matrix[own, peer] = block[:own_count, :peer_count]
        share.matrix[peer, own] = block[:own_count, :peer_count].T
        if self._columns.own == 0:
            share.linear[peer] = block[own_count:].T
        elif position == 0:
            share.linear[own] = block[:, peer_count:]
