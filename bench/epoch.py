"""What one epoch of vertical logistic regression costs: ours beside FATE's CoordinatedLR and plain python-paillier.

    python -m fate_dp.bench.epoch

Data: the 426 training rows of scikit-learn's breast cancer, 10 features and the label at the guest, 20 at the host.
Full batch, 2048-bit keys, three processes (guest, host, arbiter) over FATE's standalone engines, one worker process
each. CPU seconds are those of all three and their workers, also while they wait for a message. Two sides of FATE: as
shipped, where `obfuscate=True` is lost on the way so that no ciphertext is blinded, and with that repaired in this
benchmark's processes. `weights off by` is the largest distance from gradient descent in the clear.

Process start, imports, loading and key generation are not part of an epoch: see `epoch_clock`. The last line printed is
one JSON object with the ratios, theirs over ours.
"""
import json
import tempfile
from dataclasses import dataclass
from typing import Callable

import numpy as np

from fate_dp.bench import epoch_fate, epoch_ours, epoch_phe, epoch_task
from fate_dp.bench.local_parties import run_parties
from fate_dp.privacy.party_files import HOME_VARIABLE

EPOCHS = 4
TIMEOUT = 600


@dataclass(frozen=True)
class Side:
    """One way to train; ``figure`` names its ratio in the last line, None for ours."""

    name: str
    figure: str
    train: Callable
    arguments: dict


SIDES = (
    Side("dp_hetero_lr", None, epoch_ours.train, {}),
    Side("FATE, blinded", "cpu_ratio_fate_blinded", epoch_fate.train, {"repaired": True}),
    Side("FATE, shipped", "cpu_ratio_fate_shipped", epoch_fate.train, {"repaired": False}),
    Side("plain phe", "cpu_ratio_phe", epoch_phe.train, {}),
)


@dataclass(frozen=True)
class Measurement:
    """`PartyCost` by role, and how far the weights are from gradient descent in the clear."""

    side: Side
    costs: dict
    distance: float

    @property
    def epoch_cpu(self):
        return sum(cost.epoch_cpu for cost in self.costs.values())

    @property
    def setup_cpu(self):
        return sum(cost.setup_cpu for cost in self.costs.values())

    @property
    def epoch_wall(self):
        return self.costs["guest"].epoch_wall

    @property
    def blinded(self):
        """Whether two encryptions of one value differed at guest and host."""
        return self.costs["guest"].blinded and self.costs["host"].blinded


def main():
    from rich.console import Console

    console, measurements = Console(), []
    for side in SIDES:
        with console.status(f"{side.name}: {EPOCHS} epochs"):
            measurements.append(measure(side))
        differ = "differ" if measurements[-1].blinded else "are EQUAL: no blinding"
        console.print(f"{side.name}: two encryptions of one value {differ}.")
    console.print(cost_table(measurements))
    print(json.dumps({"bench": "epoch", "figures": figures(measurements)}))


def measure(side) -> Measurement:
    """Train all parties of one side; raises RuntimeError with the error of a party that failed."""
    with tempfile.TemporaryDirectory() as home:
        environment = {HOME_VARIABLE: home, "OMP_NUM_THREADS": "1"}
        results = run_parties(
            side.train, epoch_task.PARTIES, environment, TIMEOUT, record=False, epochs=EPOCHS, **side.arguments
        )
    for (role, _), result in results.items():
        if result.error:
            raise RuntimeError(f"{side.name} failed at the {role}: {result.error}")
    costs = {role: result.value for (role, _), result in results.items()}
    weights = np.concatenate([costs["guest"].weights, costs["host"].weights])
    return Measurement(side, costs, float(np.abs(weights - epoch_task.plaintext_weights(EPOCHS)).max()))


def cost_table(measurements):
    """One column per side."""
    from rich.table import Table

    title = f"One full-batch epoch, 426 rows, {epoch_task.KEY_LENGTH}-bit keys, mean of {EPOCHS - 1} epochs"
    table = Table(title=title)
    table.add_column()
    for measurement in measurements:
        table.add_column(measurement.side.name, justify="right")
    ours = measurements[0].epoch_cpu
    lines = {"CPU s / epoch": lambda one: f"{one.epoch_cpu:.2f}"}
    for role, _ in epoch_task.PARTIES:
        lines[f"  {role}"] = lambda one, role=role: f"{one.costs[role].epoch_cpu:.2f}"
    lines |= {
        "theirs / ours": lambda one: f"{one.epoch_cpu / ours:.2f}",
        "wall s / epoch": lambda one: f"{one.epoch_wall:.2f}",
        "setup CPU s": lambda one: f"{one.setup_cpu:.2f}",
        "blinded": lambda one: "yes" if one.blinded else "NO",
        "weights off by": lambda one: f"{one.distance:.0e}",
    }
    for name, cell in lines.items():
        table.add_row(name, *map(cell, measurements))
    return table


def figures(measurements):
    """The figures of the last line: CPU seconds of each other side over ours."""
    ours, *others = measurements
    return {other.side.figure: round(other.epoch_cpu / ours.epoch_cpu, 3) for other in others}


if __name__ == "__main__":
    main()
