"""Contingency tables of all data parties as shares, and what each party adds to them.

Every pair of parties makes the tables of its bins once: the one that comes first encrypts its rows under its own key, the
other adds them into its own bins, masks and returns (`fate_dp.crypto.contingency`). What a party learns: ciphertexts, and
uniform numbers. Afterwards every host sends the guest its own tables and its shares, with its own noise on both. What the
guest adds up carries the noise of each party that has a part in it; no exact sum over a host's records is opened.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from fate_dp.crypto import contingency, cross_product
from fate_dp.crypto.paillier import PublicKey
from fate_dp.crypto.slots import SlotLayout
from fate_dp.privacy.mechanisms.contingency_tables import FRACTION_BITS, TARGET, BinnedRows, TableNoise

from ..common.federation import Context
from ..common.frames import DataFrame, Table, bad_feature, feature_blocks, label_blocks
from ..protocols.shared_descent import JointColumns, Keys

NOT_NUMERIC = "columns hold the numbers of bins"
UNIT = 2.0**-FRACTION_BITS


class Binned(NamedTuple):
    """Records of one block: int64 places (rows, d) among all bins of the party, and at the guest targets +2 and -2."""

    places: np.ndarray
    targets: np.ndarray | None = None


def binned_rows(frame: DataFrame, sizes: BinnedRows) -> Table:
    """Table of `Binned` blocks; the frame's columns hold the numbers of bins, and at the guest the labels 0 and 1."""
    names, counts = frame.schema.columns.to_list(), np.array(sizes.counts)

    def strange(values: np.ndarray) -> np.ndarray:
        """Which columns hold anything but whole numbers from 0 to their count - 1; NaN is none."""
        return ~((values >= 0) & (values < counts) & (values == np.floor(values))).all(axis=0)

    wrong = feature_blocks(frame).mapValues(strange).reduce(np.logical_or)
    for name, count, found in zip(names, counts, wrong):
        if found:
            raise bad_feature(
                name, f"contains a value that is not a bin number (0 to {count - 1}); run dp_binning first"
            )
    starts = np.array([0, *accumulate(sizes.counts)][:-1])
    places = feature_blocks(frame).mapValues(lambda values: Binned(values.astype(np.int64) + starts))
    if not sizes.labelled:
        return places
    labels = label_blocks(frame)
    if not labels.mapValues(lambda block: bool(np.isin(block, (0.0, 1.0)).all())).reduce(lambda a, b: a and b):
        raise ValueError("A label is neither 0 nor 1; dp_scorecard tells these two classes apart.")
    return places.join(labels, lambda block, own: block._replace(targets=(TARGET * (2 * own - 1)).astype(np.int64)))


def rows_of(block: Binned, bins: int) -> np.ndarray:
    """int64 (rows, width): zeros and ones, and at the guest the target."""
    rows = contingency.one_hot(block.places, bins)
    return rows if block.targets is None else np.column_stack([rows, block.targets])


@dataclass(frozen=True)
class TableShares:
    """What one party knows of all tables: ``own`` are exact (width, width) of its own rows.

    ``columns`` tell whose entries are where in a joint row, the guest's target the last of its entries; ``cross`` is
    for every other party, by position, its additive share (width, width of the other).
    """

    columns: JointColumns
    own: np.ndarray
    cross: dict[int, np.ndarray]

    def noisy(self, noise: TableNoise) -> dict[str, object]:
        """Its own tables and shares, both with its own noise, as integers in units of 2^-36: a host's message."""
        return {
            "own": (self.own.astype(object) << FRACTION_BITS) + noise.own.astype(object),
            "cross": {
                position: (share << FRACTION_BITS) + noise.cross[position].astype(object)
                for position, share in self.cross.items()
            },
        }


def added_up(columns: JointColumns, parts: dict[int, dict[str, Any]], largest: np.ndarray) -> np.ndarray:
    """float64 (all entries, all entries): the joint tables from every party's `TableShares.noisy`, by position.

    ValueError where an entry exceeds ``largest``: then a share is not of these rows.
    """
    total: np.ndarray = np.zeros((columns.total, columns.total), dtype=object)
    for position, part in parts.items():
        mine = columns.slice_of(position)
        total[mine, mine] += _shaped(part["own"], (columns.counts[position],) * 2)
        if set(part["cross"]) != set(range(len(columns.counts))) - {position}:
            raise ValueError(f"{' '.join(columns.names[position])} sent shares of tables with other parties than all.")
        for other, share in part["cross"].items():
            theirs = columns.slice_of(other)
            share = _shaped(share, (columns.counts[position], columns.counts[other]))
            total[mine, theirs] += share
            total[theirs, mine] += share.T
    tables: np.ndarray = total.astype(np.float64) * UNIT
    if (np.abs(tables) > largest).any():
        raise ValueError(
            "The shares of the tables add up to more than all rows and their noise come to: a party sent those of another "
            "job or step. Start the job again."
        )
    return tables


def _shaped(part: object, shape: tuple[int, int]) -> np.ndarray:
    if not isinstance(part, np.ndarray) or part.shape != shape:
        raise ValueError(f"A party sent tables of another shape than {shape}, which its bins give.")
    return part.astype(object)


def gather(
    ctx: Context, rows: Table, columns: JointColumns, keys: Keys, records: int, sizes: BinnedRows
) -> TableShares:
    """Make all tables with the other parties; every data party calls it."""
    own = rows.mapValues(partial(_exact, bins=sizes.bins)).reduce(np.add)
    shares, peers = TableShares(columns, own, {}), columns.peers(ctx)
    later = {position: party for position, party in peers.items() if position > columns.own}
    if later:
        own_layout, encryption = contingency.table_layout(records, TARGET, keys.public), keys.private.encryption()
        encrypted = rows.mapValues(
            lambda block: cross_product.encrypt_rows(rows_of(block, sizes.bins), encryption, own_layout, records)
        )
        for party in later.values():
            party.put("encrypted_rows", encrypted)
    for position in sorted(set(peers) - set(later)):
        key, width = keys.peers[position], columns.counts[position]
        layout = contingency.table_layout(records, TARGET, key)
        kernel = partial(_add, bins=sizes.bins, columns=width, layout=layout, key=key)
        pairs = rows.join(peers[position].get("encrypted_rows"), lambda block, data: (block, data))
        sums = _merged(pairs.mapPartitions(kernel, preserves_partitioning=True), key)
        sealed, share = cross_product.seal_sums(sums, width, layout, key)
        peers[position].put("masked_products", sealed)
        shares.cross[position] = share
    for position, party in later.items():
        width = columns.counts[columns.own]
        share = cross_product.open_sums(party.get("masked_products"), width, own_layout, keys.private)
        shares.cross[position] = share.T
    return shares


def _exact(block: Binned, bins: int) -> np.ndarray:
    """int64 X^T X of one block: sums of products below 2^53, which floats hold exactly."""
    rows = rows_of(block, bins).astype(np.float64)
    return np.rint(rows.T @ rows).astype(np.int64)


def _add(
    pairs: Iterable[tuple[object, tuple[Binned, bytes]]], bins: int, columns: int, layout: SlotLayout, key: PublicKey
) -> Iterator[tuple[object, tuple[int, ...]]]:
    """The sums of one partition, merged: they are as many whatever the number of blocks."""
    found: tuple[int, ...] | None = None
    first = None
    for name, (block, data) in pairs:
        sums = contingency.add_rows(block.places, bins, data, columns, layout, key)
        found = sums if found is None else cross_product.merge_sums(found, sums, key)
        first = name if first is None else first
    if found is not None:
        yield first, found


def _merged(parts: Table, key: PublicKey) -> tuple[int, ...]:
    total: tuple[int, ...] | None = None
    for _, sums in parts.collect():
        total = sums if total is None else cross_product.merge_sums(total, sums, key)
    assert total is not None, "A table that passed its checks has rows."
    return total
