"""Poisson sampling: every record joins a batch by a coin of its own, as ``PoissonSampledGaussian`` events assume.

Batch sizes vary (mean n q, variance n q (1 - q)), a batch may be empty, and who is in it stays secret. A shuffled
loader that cuts the records into batches of one size is another mechanism with other, mostly worse, guarantees:
L. Chua et al., "How private are DP-SGD implementations?", ICML 2024.
"""
import numpy as np

from fate_dp.privacy.noise.stream import open_stream
from fate_dp.privacy.noise.uniform import bernoulli, check_probability, check_size

COINS_AT_ONCE = 2**22


def poisson_sample(records, probability, random=None):
    """Indices, increasing, of the records of one Poisson batch.

    Memberships are independent, each of exactly the probability that the float stands for: there is no error to
    account for beyond that of the stream. Amplification by sampling holds only if nobody sees the indices, so a stream
    that is not private makes the noise that follows count as unsampled: pass one stream to both.

    :param records: number of records n, at least 0.
    :param probability: sampling probability q, from 0 to 1; a public constant.
    :param random: a stream; None for the operating system's entropy.
    :returns: int64 array, empty for an empty batch.
    :raises InvalidProbability, InvalidSize, InvalidRandomness: one sentence on what is wrong.
    """
    (records,), stream = check_size(records), open_stream(random)
    probability = check_probability(probability)
    parts = [
        start + np.flatnonzero(bernoulli(probability, min(COINS_AT_ONCE, records - start), stream))
        for start in range(0, records, COINS_AT_ONCE)
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])
