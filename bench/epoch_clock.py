"""What one epoch costs a party: processor and wall time, read whenever a pass of the epoch loop begins or ends."""
import time
from dataclasses import dataclass
from typing import Optional

import numpy as np

from fate_dp.bench.local_parties import cpu_seconds


@dataclass(frozen=True)
class PartyCost:
    """Seconds of one party and what it trained; ``blinded`` is None where a party encrypts nothing.

    ``setup_cpu`` is all that does not repeat: messages before the first epoch, key generation, tables of powers, the
    surplus of the first epoch, writing the model. Starting the process, imports and loading of data are not in it.
    """

    setup_cpu: float
    epoch_cpu: float
    epoch_wall: float
    weights: Optional[np.ndarray] = None
    blinded: Optional[bool] = None


class EpochClock:
    """Reads the clocks at every pass of a loop over ``ctx.on_iterations.ctxs_range`` in this process from now on.

    The first epoch makes what later ones find ready, so an epoch is counted as (all epochs - first epoch) / (their
    number - 1). That is the difference between training for one epoch and for several, in one run, under one key.
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
        end, passes = _reading(), np.array(self._passes)
        cpu, wall = (passes[-1] - passes[1]) / (len(passes) - 2)
        setup = end[0] - self._start[0] - cpu * (len(passes) - 1)
        return PartyCost(float(setup), float(cpu), float(wall), weights, blinded)

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
    return cpu_seconds(), time.monotonic()
