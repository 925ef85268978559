"""Uniformly random permutations, and Poisson samples as ``PoissonSampledGaussian`` events assume."""

import numpy as np

from ..noise.stream import Integers, Rng, bernoulli, check_probability, check_size, open_stream


def random_permutation(count: int, rng: Rng = None) -> Integers:
    """A permutation of 0 .. count - 1 as an int64 array; exactly uniform, given ideal words.

    Items are sorted by 128 random bits each. Given that no two of these are equal, every order is equally likely; a
    tie, of chance at most count^2 / 2^129, draws all of them anew.
    """
    stream = open_stream(rng)
    while True:
        low, high = stream.words(2 * count).reshape(2, count)
        order: Integers = np.lexsort((low, high))
        tied = (np.diff(low[order]) == 0) & (np.diff(high[order]) == 0)
        if not tied.any():
            return order.astype(np.int64)


COINS_AT_ONCE = 2**22


def poisson_sample(records: int, probability: float, rng: Rng = None) -> Integers:
    """Indices, increasing, of the records of one Poisson batch of ``records``, as an int64 array.

    Memberships are independent, each of exactly the public ``probability`` q, from 0 to 1, that the float stands for:
    there is no error to account for beyond that of the stream. Amplification by sampling holds only if nobody sees the
    indices, so a stream that is not private makes the noise that follows count as unsampled: pass one stream to both. A
    shuffled loader that cuts batches of one size is another, mostly worse, mechanism (L. Chua et al., ICML 2024).
    """
    (records,), stream = check_size(records), open_stream(rng)
    probability = check_probability(probability)
    parts = [
        start + np.flatnonzero(bernoulli(probability, min(COINS_AT_ONCE, records - start), stream))
        for start in range(0, records, COINS_AT_ONCE)
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])
