"""The end of training: opens the weights to the parties that `reveal` names, or leaves every party its share."""
from typing import List, Optional

import numpy as np

from fate_dp.crypto.shared_descent import REVEALED_FRACTION_BITS
from fate_dp.crypto.shared_quadratic import WEIGHT_BITS, WEIGHT_FRACTION_BITS, rounded_quotient
from fate_dp.crypto.wide_cross_product import narrow_shares

from .settings import SEES

UNITS_OF_WEIGHTS = REVEALED_FRACTION_BITS
"""Weights of a model are integers in units of 2^-22."""
KEPT_BITS = WEIGHT_BITS + UNITS_OF_WEIGHTS
"""And below 2^50 in magnitude; shares of them below 2^92."""
_DROPPED = WEIGHT_FRACTION_BITS - UNITS_OF_WEIGHTS


def open_weights(ctx, share: List[int], reveal: str) -> Optional[np.ndarray]:
    """object (d,): the weights in units of 2^-22, None at a party that ``reveal`` does not name.

    Args:
        share: this party's share, unit 2^-40.
    """
    (peer,) = [party for party in ctx.parties if party.rank != ctx.rank]
    if peer.role in SEES[reveal]:
        peer.put("weight_shares", share)
    if ctx.local.role not in SEES[reveal]:
        return None
    received = peer.get("weight_shares")
    if len(received) != len(share):
        raise ValueError(f"{peer.role} sent shares of {len(received)} weights; the model has {len(share)}.")
    total = [own + int(other) for own, other in zip(share, received)]
    return rounded_quotient(np.array(total, dtype=object), 1 << _DROPPED)


def kept_share(share: List[int], first: bool) -> np.ndarray:
    """object (d,): this party's share of the weights in units of 2^-22, to predict with; off by at most one unit.

    Args:
        first: whether this is the guest.
    """
    return narrow_shares(rounded_quotient(np.array(share, dtype=object), 1 << _DROPPED), KEPT_BITS, first)
