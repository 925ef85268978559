"""What a training on shares opens: weights to the parties that `reveal` names, and scores of shared rows to the guest.

Scores are shares of X w at both parties, whoever knows the weights. Weights that both know are multiplied by each party's
share of X alone. Where one of them knows the weights, or both hold shares, that party's weights meet the other's rows
encrypted: the owner of the rows encrypts them, several rows side by side, column by column; the other multiplies and
sends masked sums back. Everything adds up over the integers, in units of 2^-42. The host then sends the leading bits of
its share of every score modulo 2^b, where b has room for the largest score: a number that, beside the guest's own share,
says the score to 12 fraction bits and nothing else. All 42 would tell values of columns that have few of them apart from
a single model's scores.
"""

import secrets
from collections.abc import Iterable, Iterator
from functools import partial
from operator import itemgetter

import numpy as np

from fate_dp.crypto import cross_product
from fate_dp.crypto.descent_steps import WEIGHT_BITS, WEIGHT_FRACTION_BITS, rounded_quotient
from fate_dp.crypto.joined_records import FRACTION_BITS, VALUE_BITS
from fate_dp.crypto.paillier import PublicKey
from fate_dp.crypto.shared_descent import REVEALED_FRACTION_BITS, opened_weights
from fate_dp.crypto.slots import SlotLayout
from fate_dp.privacy.noise.stream import KEY_BYTES, KeyedStream

from ..common.federation import Context
from ..common.frames import Table
from ..common.preflight import about_message
from .settings import SEES
from .training import Side

UNITS_OF_WEIGHTS = REVEALED_FRACTION_BITS
"""Weights of a model are integers in units of 2^-22."""
KEPT_BITS = WEIGHT_BITS + UNITS_OF_WEIGHTS
"""And below 2^50 in magnitude; shares of them below 2^92."""
_DROPPED = WEIGHT_FRACTION_BITS - UNITS_OF_WEIGHTS
SCORE_FRACTION_BITS = 12
"""Of an opened score, which is off by at most one unit."""
_DROPPED_BITS_OF_SCORES = FRACTION_BITS + UNITS_OF_WEIGHTS - SCORE_FRACTION_BITS
_LIMB_BITS = KEPT_BITS
"""Shares of weights are below 2^92 in magnitude: two limbs, each far below the 2^65 of a factor."""


def open_weights(ctx: Context, share: list[int], reveal: str) -> np.ndarray | None:
    """object (d,): the weights in units of 2^-22, of shares in units of 2^-40; None at a party that ``reveal`` does not name."""
    (peer,) = [party for party in ctx.parties if party.rank != ctx.rank]
    if peer.role in SEES[reveal]:
        peer.put("weight_shares", share)
    if ctx.local.role not in SEES[reveal]:
        return None
    received = peer.get("weight_shares")
    with about_message("weight_shares", [peer]):
        return opened_weights([share, received])


def kept_share(share: list[int], first: bool) -> np.ndarray:
    """object (d,): the share of the weights in units of 2^-22, to predict with; off by at most one unit. The guest is first."""
    return cross_product.narrow_shares(rounded_quotient(np.array(share, dtype=object), 1 << _DROPPED), KEPT_BITS, first)


def score_shares(side: Side, blocks: Table, columns: int, weights: np.ndarray | None, reveal: str) -> Table:
    """Table of this party's shares of X w: object arrays (rows,) in units of 2^-42.

    ``blocks`` are shares of X, object arrays (rows, columns) in units of 2^-20; ``weights`` and ``reveal`` those of this
    party's `JoinedModel`. The keys of ``side`` are used only where not both know the weights.
    """
    scores = blocks.mapValues(lambda block: np.zeros(len(block), dtype=object) if weights is None else block @ weights)
    if reveal == "both":
        return scores
    own, other = ("guest", "host") if side.guest else ("host", "guest")
    multipliers = SEES[reveal] or ("guest", "host")
    own_layout = cross_product.wide_layout(columns, side.private.public_key)
    if other in multipliers:
        encryption = side.private.encryption()
        encrypted = blocks.mapValues(
            lambda block: cross_product.encrypt_shares(block.T, encryption, own_layout, block.shape[1])
        )
        side.party.put("encrypted_columns", encrypted)

    def multiplied() -> Table | None:
        return None if weights is None or own not in multipliers else _multiplied(side, blocks, columns, weights)

    def opened() -> Table | None:
        if other not in multipliers:
            return None
        private = side.private.decryption()

        def open_block(block: np.ndarray, sealed: list) -> np.ndarray:
            return _without_limbs(cross_product.open_sums(sealed, len(block), own_layout, private))

        return blocks.join(side.party.get("masked_scores"), open_block)

    kept = side.together("encrypted columns", multiplied)
    if kept is not None:
        side.party.put("masked_scores", kept.mapValues(itemgetter(0)))
        scores = scores.join(kept.mapValues(itemgetter(1)), np.add)
    of_own_rows = side.together("masked scores", opened)
    return scores if of_own_rows is None else scores.join(of_own_rows, np.add)


def score_modulus(weights: int) -> int:
    """2^b above twice the magnitude of every opened score of so many weights, in units of 2^-12."""
    return 1 << VALUE_BITS + KEPT_BITS + weights.bit_length() + 2 - _DROPPED_BITS_OF_SCORES


def leading_bits(shares: np.ndarray, modulus: int) -> np.ndarray:
    """What the host sends of its shares, and the guest adds of its own."""
    return (shares >> _DROPPED_BITS_OF_SCORES) % modulus


def limbs_of(weights: np.ndarray) -> np.ndarray:
    """object (d, 2): weights = high 2^50 + low with 0 <= low < 2^50."""
    high = weights >> _LIMB_BITS
    return np.stack([high, weights - (high << _LIMB_BITS)], axis=1)


def opened_scores(own: np.ndarray, received: np.ndarray, modulus: int) -> np.ndarray:
    """float64 (rows,): scores from the guest's shares and the `leading_bits` of the host's."""
    # Both parts are rounded down: with a unit more for the two the sum is off by one at most, either way.
    total = (leading_bits(own, modulus) + 1 + received) % modulus
    return np.where(2 * total > modulus, total - modulus, total).astype(np.float64) * 2.0**-SCORE_FRACTION_BITS


def _multiplied(side: Side, blocks: Table, columns: int, weights: np.ndarray) -> Table:
    """Table of (masked scores for the other party, this party's share: minus the masks)."""
    pairs = blocks.join(side.party.get("encrypted_columns"), lambda block, encrypted: (len(block), encrypted))
    # Masks that are kept must be those that were sent, also where a worker makes a block twice: they are keyed.
    seal = partial(
        _sealed,
        limbs=limbs_of(weights),
        layout=cross_product.wide_layout(columns, side.public),
        public=side.public,
        mask_key=secrets.token_bytes(KEY_BYTES),
    )
    return pairs.mapPartitions(seal, preserves_partitioning=True)


def _sealed(
    pairs: Iterable[tuple[object, tuple[int, bytes]]],
    limbs: np.ndarray,
    layout: SlotLayout,
    public: PublicKey,
    mask_key: bytes,
) -> Iterator[tuple[object, tuple]]:
    """(ciphertexts for the owner of the rows, this party's share (rows,)) of every block."""
    for key, (rows, encrypted) in pairs:
        stream = KeyedStream(mask_key, f"masks of scores of block {key}")
        sums = cross_product.multiply_shares(limbs, encrypted, rows, layout, public)
        sealed, share = cross_product.seal_sums(sums, rows, layout, public, stream.integer)
        yield key, (sealed, _without_limbs(share))


def _without_limbs(sums: np.ndarray) -> np.ndarray:
    return (sums[0] << _LIMB_BITS) + sums[1]
