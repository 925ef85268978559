"""Blinding factors that are prepared while nobody waits for them."""
import os
import weakref
from collections import deque

from .blinding import BlindingFactor, full_blinding
from .paillier import PublicKey

_POOLS = weakref.WeakSet()


class BlindingPool:
    """Prepared full blinding factors ``r^n`` for what is sent to the owner of one key.

    Every factor is given out once. A pool is not pickled, and a forked process starts with an empty one: a copy would
    give out the same factors again. Threads may share a pool.
    """

    def __init__(self, public_key: PublicKey):
        self.public_key = public_key
        self._prepared: deque = deque()
        _POOLS.add(self)

    def prepare(self, count: int) -> None:
        """Adds ``count`` factors (at 2048 bits about 9 ms and 0.6 kB each)."""
        for _ in range(count):
            self._prepared.append(full_blinding(self.public_key))

    def take(self) -> BlindingFactor:
        """A factor that nobody else gets; made on the spot when none is left."""
        try:
            return self._prepared.popleft()
        except IndexError:
            return full_blinding(self.public_key)

    def __len__(self) -> int:
        return len(self._prepared)

    def __reduce__(self):
        raise TypeError("A pool of blinding factors is never pickled or copied: a copy would give them out twice.")


def _empty_all() -> None:
    for pool in _POOLS:
        pool._prepared.clear()


os.register_at_fork(after_in_child=_empty_all)
