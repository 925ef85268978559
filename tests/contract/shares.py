"""Shares of the joined rows of guest and host, as align leaves them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fate_dp.components.protocols.joined_tables import Alignment, feature_names, write_shares
from fate_dp.crypto.joined_records import FRACTION_BITS, SHARE_BITS, split_shares

from .cases import GUEST, HOST, Tables
from .labels import EPSILON, SOURCE

SESSION, BLOCK_ROWS, LARGEST = "session", 25, 15.5
"""align refuses values of 16 and above, and missing ones."""
OF_FLIPS = {"source": SOURCE, "epsilon": EPSILON, "unit": "label", "relation": "replace_one"}


def features_of(table: Any) -> list[str]:
    return [name for name in table if name not in ("sample_id", "id", "y")]


def joined(tables: Tables, dummies: int = 0) -> np.ndarray:
    """float64 (rows, c): the guest's features, the host's, the label, the membership; ``dummies`` are rows of zeros."""
    parts = [tables[party][features_of(tables[party])] for party in (GUEST, HOST)]
    columns = np.column_stack([*parts, tables[GUEST]["y"], np.ones(len(tables[GUEST]))])
    sound = np.clip(np.nan_to_num(columns), -LARGEST, LARGEST)
    return np.vstack([np.rint(sound * 2**FRACTION_BITS) / 2**FRACTION_BITS, np.zeros((dummies, sound.shape[1]))])


def shared(ctx: Any, tables: Tables, hide_size: dict | None = None, dummies: int = 0) -> tuple[Any, dict]:
    """This party's table of shares, and its alignment's document."""
    me = tuple(ctx.federation.local_party)[:2]
    values = (joined(tables, dummies) * 2**FRACTION_BITS).astype(np.int64).astype(object)
    masks = np.random.default_rng(1).integers(0, 1 << 62, values.shape).astype(object) << SHARE_BITS - 63
    shares = masks if me == GUEST else values - masks
    starts = dict(enumerate(range(0, len(shares), BLOCK_ROWS)))
    blocks = [(at, split_shares(shares[start : start + BLOCK_ROWS])) for at, start in starts.items()]
    alignment = Alignment(
        SESSION,
        len(shares),
        feature_names("guest", len(features_of(tables[GUEST]))),
        feature_names("host", len(features_of(tables[HOST]))),
        labelled=True,
        hide_size=hide_size,
        own=tuple(features_of(tables[me])),
        label_privacy=OF_FLIPS if me == GUEST else None,
    )
    table = ctx.computing.parallelize(blocks, include_key=True, partition=2)
    return write_shares(ctx, table, alignment.names, starts, SESSION), alignment.to_json()
