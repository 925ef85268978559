"""What training costs a party: processor and wall time, read whenever a pass of the epoch loop begins or ends."""

import time
from dataclasses import dataclass

import numpy as np

from tests.support.local_parties import cpu_seconds


@dataclass(frozen=True)
class Seconds:
    """One clock's reading of a training: all of it, one epoch, and how many epochs it had."""

    total: float
    epoch: float
    epochs: int

    @property
    def setup(self) -> float:
        """All that does not repeat: messages before the first epoch, key generation, tables of powers, the surplus of
        the first epoch, writing the model."""
        return self.total - self.epochs * self.epoch

    def scaled_to(self, epochs: int) -> float:
        """What a training of ``epochs`` epochs would take, had every further one the cost of the measured ones."""
        return self.setup + epochs * self.epoch


@dataclass(frozen=True)
class PartyCost:
    """Seconds of one party and what it trained; ``blinded`` is None where a party encrypts nothing.

    Starting the process, imports and loading of data are not in it. ``sent_bytes`` and ``delays`` are counted over a
    `wan_link` alone.
    """

    cpu: Seconds
    wall: Seconds
    weights: np.ndarray | None = None
    blinded: bool | None = None
    sent_bytes: int = 0
    delays: int = 0


class EpochClock:
    """Reads the clocks at every pass of a loop over ``ctx.on_iterations.ctxs_range`` in this process from now on.

    The first epoch makes what later ones find ready, so an epoch is counted as (all epochs - first epoch) / (their
    number - 1). That is the difference between training for one epoch and for several, in one run, under one key. An
    only epoch stands for itself.
    """

    def __init__(self):
        # Torch imports this with the first optimiser; some sides would import it before this line, others after.
        import torch._dynamo  # noqa: F401
        from fate.arch.context import Context

        self._passes = []
        Context.ctxs_range = self._watched(Context.ctxs_range)
        self._start = _reading()

    def cost(self, weights=None, blinded=None) -> PartyCost:
        """Seconds since the clock was made."""
        total = _reading() - self._start
        epochs, first = len(self._passes) - 1, min(1, len(self._passes) - 2)
        epoch = (self._passes[-1] - self._passes[first]) / (epochs - first)
        cpu, wall = (Seconds(float(all_of_it), float(one), epochs) for all_of_it, one in zip(total, epoch))
        return PartyCost(cpu, wall, weights, blinded)

    def _watched(self, contexts_of):
        def watched(ctx, *bounds):
            try:
                for item in contexts_of(ctx, *bounds):
                    self._passes.append(_reading())
                    yield item
            finally:
                # A loop that breaks closes the generator here as well.
                self._passes.append(_reading())

        return watched


def _reading():
    return np.array([cpu_seconds(), time.monotonic()])
