"""A host's part of the scores as it leaves the host: rounded at random to multiples of a public step.

Exact scores of columns with few values show these columns: equal patterns give equal scores, and differences recur to
the last bit. A rounded score is the multiple below or above, with the probabilities that make its expectation the score
itself. The draw is a keyed function of the weights and the row: whoever asks again, in whatever table, gets the same number,
and cannot average the rounding away. Asked at several steps, one draw gives several roundings, which together are closer than
that at the finest step alone, by less than a fifth.
"""
import hashlib
import hmac
from functools import partial

import numpy as np

from .rows import Block

_SMALL = np.iinfo(np.int16).max
_HASH_BITS = 64
_FRACTION_BITS = 53
"""Of a draw: a float64 holds so many."""


def rounded_scores(rows, weights: np.ndarray, key: bytes, step: float):
    """Table of integer arrays: this party's part of every record's score, in units of ``step``.

    Args:
        rows: what `rows.prepare_rows` made.
        key: the host's secret.
        step: public, a power of two.
    """
    own = hmac.digest(key, b"rounding of scores" + np.ascontiguousarray(weights, dtype="<f8").tobytes(), "sha256")
    return rows.mapValues(partial(_rounded, weights=weights, key=own, step=step))


def decoded_scores(received, rows: int, step: float) -> np.ndarray:
    """float64 (rows,) from what a host sent of one block.

    Raises:
        ValueError: something else than so many integers.
    """
    if not isinstance(received, np.ndarray) or received.dtype.kind != "i" or received.shape != (rows,):
        raise ValueError(f"A host sent something else than {rows} rounded scores for a block of {rows} rows.")
    return received * step


def _rounded(block: Block, weights: np.ndarray, key: bytes, step: float) -> np.ndarray:
    multiples = np.floor(block.scores(weights) / step + _draws(block.features, key))
    if not np.all(np.abs(multiples) < 2.0**53):
        raise ValueError("A score is too large to be rounded, so the training diverged; lower the learning rate or alpha.")
    # The guest sees the scores anyway: their size may say how many bytes they need.
    return multiples.astype(np.int16 if np.all(np.abs(multiples) <= _SMALL) else np.int64)


def _draws(features: np.ndarray, key: bytes) -> np.ndarray:
    """Uniform numbers in [0, 1), one for each row, a keyed function of its features."""
    rows = np.ascontiguousarray(features, dtype="<i8")
    hashes = b"".join(hashlib.blake2b(row, key=key, digest_size=_HASH_BITS // 8).digest() for row in rows)
    return (np.frombuffer(hashes, dtype="<u8") >> _HASH_BITS - _FRACTION_BITS) * 2.0**-_FRACTION_BITS
