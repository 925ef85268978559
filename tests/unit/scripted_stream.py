"""A stream of chosen words, which forces ties and boundaries that no entropy ever reaches."""

import numpy as np

from fate_dp.privacy.noise.stream import Stream


class Script(Stream):
    """Plays the given words in order and fails when they run out; what was not played is in ``left``."""

    def __init__(self, *words):
        self.left = list(words)

    def words(self, count):
        played, self.left = self.left[:count], self.left[count:]
        assert len(played) == count
        return np.array(played, dtype=np.uint64)
