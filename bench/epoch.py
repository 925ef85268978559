"""What an epoch of vertical logistic regression costs if each one encrypts: ours beside FATE's and python-paillier.

    python -m bench.epoch

Data: the 426 training rows of scikit-learn's breast cancer, 10 features and the label at the guest, 20 at the host.
Full batch, 2048-bit keys, three processes (guest, host, arbiter) over FATE's standalone engines, one worker process
each. CPU seconds are those of all three and their workers, also while they wait for a message. Two sides of FATE: as
shipped, where `obfuscate=True` is lost on the way so that no ciphertext is blinded, and with that repaired in this
benchmark's processes. `weights off by` is the largest distance from gradient descent in the clear.

Process start, imports, loading and key generation are not part of an epoch: see `epoch_clock`. The last line printed is
one JSON object with the ratios, theirs over ours.
"""

import json

from bench import epoch_fate, epoch_ours, epoch_phe, epoch_task
from bench.epoch_sides import Side, measure

TASK = epoch_task.Task(epoch_task.breast_cancer_tables)
EPOCHS = 4
TIMEOUT = 600
SIDES = (
    Side("dp_hetero_lr", None, epoch_ours.train, {"solver": "per_epoch"}),
    Side("FATE, blinded", "cpu_ratio_fate_blinded", epoch_fate.train, {"repaired": True}),
    Side("FATE, shipped", "cpu_ratio_fate_shipped", epoch_fate.train, {"repaired": False}),
    Side("plain phe", "cpu_ratio_phe", epoch_phe.train, {}),
)


def main():
    from rich.console import Console

    console, measurements = Console(), []
    for side in SIDES:
        with console.status(f"{side.name}: {EPOCHS} epochs"):
            measurements.append(measure(side, TASK, EPOCHS, TIMEOUT))
        differ = "differ" if measurements[-1].blinded else "are EQUAL: no blinding"
        console.print(f"{side.name}: two encryptions of one value {differ}.")
    console.print(cost_table(measurements))
    print(json.dumps({"bench": "epoch", "figures": figures(measurements)}))


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
        lines[f"  {role}"] = lambda one, role=role: f"{one.costs[role].cpu.epoch:.2f}"
    lines |= {
        "theirs / ours": lambda one: f"{one.epoch_cpu / ours:.2f}",
        "wall s / epoch": lambda one: f"{one.wall.epoch:.2f}",
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
