"""Trains one task in one of several ways, all parties as processes, and gathers what it cost them.

Every side trains in a thread of its party's process. FATE's profiler asks Python's inspect for the call stack at each
operation on a table, and at the bottom of that of a process that multiprocessing has spawned lies a frame of no file, for
which inspect searches all modules: ten milliseconds an operation that no task of FATE-Flow, which is started as a file, pays.
"""

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from bench import epoch_task
from fate_dp.privacy.private_files import HOME_VARIABLE
from tests.support.local_parties import run_parties


@dataclass(frozen=True)
class Side:
    """One way to train: ``train(ctx, task, epochs, **arguments)`` gives a party's `PartyCost`.

    ``figure`` names its ratio in the benchmark's last line, None for what the others are compared with.
    """

    name: str
    figure: str | None
    train: Callable
    arguments: dict


@dataclass(frozen=True)
class Measurement:
    """`PartyCost` by role, and how far the weights are from gradient descent in the clear."""

    side: Side
    costs: dict
    distance: float

    @property
    def epoch_cpu(self):
        return sum(cost.cpu.epoch for cost in self.costs.values())

    @property
    def setup_cpu(self):
        return sum(cost.cpu.setup for cost in self.costs.values())

    @property
    def epochs(self):
        """Epochs that were run."""
        return self.costs["guest"].cpu.epochs

    @property
    def wall(self):
        """`Seconds` of wall time, by the guest's clock."""
        return self.costs["guest"].wall

    @property
    def blinded(self):
        """Whether two encryptions of one value differed at guest and host."""
        return self.costs["guest"].blinded and self.costs["host"].blinded

    def training_cpu(self, epochs):
        """CPU seconds of all parties for a training of ``epochs`` epochs, scaled linearly where it had fewer."""
        return sum(cost.cpu.scaled_to(epochs) for cost in self.costs.values())


def in_a_thread(ctx, train, **arguments):
    """One party's `PartyCost`."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(train, ctx, **arguments).result()


def measure(side, task, epochs, timeout) -> Measurement:
    """Train all parties of one side; raises RuntimeError with the error of a party that failed."""
    with tempfile.TemporaryDirectory() as home:
        environment = {HOME_VARIABLE: home, "OMP_NUM_THREADS": "1"}
        results = run_parties(
            in_a_thread,
            epoch_task.PARTIES,
            environment,
            timeout,
            record=False,
            train=side.train,
            task=task,
            epochs=epochs,
            **side.arguments,
        )
    for (role, _), result in results.items():
        if result.error:
            raise RuntimeError(f"{side.name} failed at the {role}: {result.error}")
    costs = {role: result.value for (role, _), result in results.items()}
    weights = np.concatenate([costs["guest"].weights, costs["host"].weights])
    return Measurement(side, costs, float(np.abs(weights - task.plaintext_weights(epochs)).max()))
