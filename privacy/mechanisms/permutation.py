"""Uniformly random permutations from a stream: who ends up where depends on nothing else."""
import numpy as np

from fate_dp.privacy.noise.stream import open_stream


def random_permutation(count, random=None):
    """A permutation of 0 .. count - 1 as an int64 array; exactly uniform, given ideal words.

    Items are sorted by 128 random bits each. Given that no two of these are equal, every order is equally likely; a
    tie, of chance at most count^2 / 2^129, draws all of them anew.

    :param random: a stream; None for the operating system's entropy.
    """
    stream = open_stream(random)
    while True:
        low, high = stream.words(2 * count).reshape(2, count)
        order = np.lexsort((low, high))
        tied = (np.diff(low[order]) == 0) & (np.diff(high[order]) == 0)
        if not tied.any():
            return order.astype(np.int64)
