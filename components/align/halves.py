"""A share of up to 65 bits as two int64 numbers: share = high 2^33 + low with 0 <= low < 2^33. No FATE in here."""
import numpy as np

from fate_dp.crypto.joined_records import SHARE_BITS

LOW_BITS = 33


def split_shares(shares: np.ndarray) -> np.ndarray:
    """Integers below 2^65 in magnitude, object array (rows, c) -> int64 (rows, 2 c): high and low of each column."""
    if shares.size and max(abs(share) for share in shares.flat) >> SHARE_BITS:
        raise ValueError(f"A share reaches 2^{SHARE_BITS} in magnitude; align makes none so large.")
    high = shares >> LOW_BITS
    pairs = np.stack([high, shares - (high << LOW_BITS)], axis=2)
    return pairs.reshape(len(shares), 2 * shares.shape[1]).astype(np.int64)


def join_shares(halves: np.ndarray) -> np.ndarray:
    """The inverse of `split_shares`."""
    wide = halves.astype(object)
    return (wide[:, ::2] << LOW_BITS) + wide[:, 1::2]
