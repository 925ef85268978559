"""What a whole training of vertical logistic regression costs: dp_hetero_lr beside FATE's CoordinatedLR and plain phe.

    python -m bench.hetero_lr [--quick]

Made rows, n = 10,000, 10 features and the label at the guest, 20 at the host; full batch, 30 epochs, 2048-bit keys;
guest, host and arbiter are processes over FATE's standalone engines, one worker process each. CPU seconds are those of
all three and their workers, also while they wait for a message, from the first message to the written model: keys,
tables of powers and every product are in them, process start, imports and loading of data on no side.

Ours is `dp_hetero_lr` with solver cross_product. It trains its 30 epochs for real, and a single one, three times
each; the medians count. The other sides, solver per_epoch among them, run the few epochs that the table names and are
**scaled linearly** to 30: what does not repeat, plus 30 times an epoch (see `epoch_clock`). Two sides of FATE: as
shipped, where `obfuscate=True` is lost on the way so that no ciphertext is blinded, and with that repaired in this
benchmark's processes. `weights off` is the largest distance from gradient descent in the clear after the epochs that
were run.

Three more tables: what a key costs a party once, which is in the times of ours above (`key_costs`); the engine alone for
growing n (`hetero_lr_growth`), and the primitives (`hetero_lr_primitives`).

The last line printed is one JSON object. Its figures: CPU of each other side over ours; what a later epoch costs
relative to a training of one epoch, (CPU of 30 epochs - CPU of 1 epoch) / 29 / (CPU of 1 epoch); the exponent with
which the engine's CPU grows in n (least squares in logarithms); CPU seconds of a party for a key, once; MB of all messages of
a training of 10,000 rows, counted from their sizes (`dp_hetero_lr.traffic`); wall seconds of our training of 30 epochs, the
median one; the engine's CPU minutes at the largest n; and ``ifma``, 1 if our sides multiplied by the native kernel
(``FATE_DP_KERNEL=off`` is the same run without it).
"""

import argparse
import json
import math
import statistics
from dataclasses import dataclass
from functools import partial

from bench import epoch_fate, epoch_ours, epoch_phe, epoch_task, hetero_lr_growth, hetero_lr_primitives, key_costs
from bench.epoch_sides import Measurement, Side, measure
from bench.hetero_lr_rows import GUEST_FEATURES, HOST_FEATURES, made_tables
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.dp_hetero_lr.traffic import traffic as sent
from fate_dp.crypto.kernel import kernel

EPOCHS = 30
TIMEOUT = 3600
OURS = Side("cross product", None, epoch_ours.train, {"solver": "cross_product"})
# Epochs that are run, of sides that are scaled. What python-paillier does in an epoch it does in the first one, too.
OTHERS = (
    (Side("per epoch", None, epoch_ours.train, {"solver": "per_epoch"}), 2),
    (Side("FATE, blinded", "cpu_ratio_fate_blinded", epoch_fate.train, {"repaired": True}), 2),
    (Side("FATE, shipped", "cpu_ratio_fate_shipped", epoch_fate.train, {"repaired": False}), 2),
    (Side("plain phe", "cpu_ratio_phe", epoch_phe.train, {}), 1),
)


@dataclass(frozen=True)
class Plan:
    """How large a run is: rows of the comparison, rows of the engine alone, and how often our side repeats."""

    rows: int
    growth: tuple
    repeats: int


FULL = Plan(rows=10_000, growth=(10_000, 100_000, 1_000_000), repeats=3)
QUICK = Plan(rows=500, growth=(500, 1_000, 2_000), repeats=1)


@dataclass(frozen=True)
class Comparison:
    """`ours`: trainings of 30 epochs, `ours_once`: of a single one; `others` are scaled to 30 epochs."""

    ours: Measurement
    ours_once: Measurement
    others: list

    @property
    def ours_cpu(self):
        return self.ours.training_cpu(EPOCHS)

    @property
    def sides(self):
        return [self.ours, *self.others]

    def figures(self):
        """CPU of each other side over ours, and the share of a later epoch."""
        ratios = {
            other.side.figure: round(other.training_cpu(EPOCHS) / self.ours_cpu, 1)
            for other in self.others
            if other.side.figure
        }
        share = later_epoch_share(self.ours_cpu, self.ours_once.training_cpu(1), EPOCHS)
        return {**ratios, "later_epoch_share": round(share, 5)}


def later_epoch_share(all_epochs: float, one_epoch: float, epochs: int) -> float:
    """What an epoch after the first costs, in trainings of one epoch."""
    return (all_epochs - one_epoch) / (epochs - 1) / one_epoch


def traffic() -> dict:
    """MB of the messages of a training of 10,000 rows, without flipback and with its default rounds."""
    settings = TrainSettings(epochs=EPOCHS, he_param=epoch_task.HE_PARAM)
    return {
        f"megabytes_10k{suffix}": round(
            sent(FULL.rows, (GUEST_FEATURES, HOST_FEATURES), settings, flipback).bytes / 1e6, 2
        )
        for suffix, flipback in (("", False), ("_flipback", True))
    }


def growth_exponent(rows, seconds) -> float:
    """Least-squares slope of log seconds against log rows: 1 is linear."""
    x, y = [math.log(value) for value in rows], [math.log(value) for value in seconds]
    return statistics.linear_regression(x, y).slope


def main():
    from rich.console import Console

    parser = argparse.ArgumentParser(description="Cost of training vertical logistic regression under encryption.")
    parser.add_argument("--quick", action="store_true", help=f"few rows ({QUICK.rows}), to see whether all of it runs")
    quick, console = parser.parse_args().quick, Console()
    console.print(kernel().sentence)
    plan = QUICK if quick else FULL
    console.print(hetero_lr_primitives.rate_table(console))
    costs = key_costs.key_costs(epoch_task.KEY_LENGTH)
    console.print(key_costs.cost_table(costs, epoch_task.KEY_LENGTH))
    growth = [hetero_lr_growth.measure(rows, EPOCHS, console) for rows in plan.growth]
    console.print(hetero_lr_growth.growth_table(growth, EPOCHS))
    comparison = compare(plan, console)
    console.print(training_table(comparison, plan))
    print_shares(comparison, console)
    figures = {
        **comparison.figures(),
        "growth_exponent": round(growth_exponent(plan.growth, [run.cost.cpu for run in growth]), 3),
        "key_cpu_seconds": round(sum(costs.values()), 3),
        **traffic(),
        "wall_seconds": round(comparison.ours.wall.total, 2),
        "million_rows_cpu_minutes": round(growth[-1].cost.cpu / 60, 2),
        "ifma": int(kernel().library is not None),
    }
    print(json.dumps({"bench": "hetero-lr-quick" if quick else "hetero-lr", "figures": figures}))


def compare(plan, console) -> Comparison:
    """Train every side; ours with one epoch and with all in turn, so that a busy machine slows both."""
    task = epoch_task.Task(partial(made_tables, plan.rows))

    def trained(side, epochs):
        with console.status(f"{side.name}: {plan.rows:,} rows, epochs: {epochs}"):
            found = measure(side, task, epochs, TIMEOUT)
        cpu, wall = found.training_cpu(epochs), found.wall.total
        console.print(f"{side.name}, epochs: {epochs}: {cpu:.2f} CPU s, {wall:.2f} s")
        return found

    rounds = [(trained(OURS, EPOCHS), trained(OURS, 1)) for _ in range(plan.repeats)]
    ours, once = (sorted(runs, key=lambda run: run.training_cpu(run.epochs))[len(runs) // 2] for runs in zip(*rounds))
    return Comparison(ours, once, [trained(*side) for side in OTHERS])


def training_table(comparison, plan):
    """One column per side."""
    from rich.table import Table

    table = Table(title=f"A training of {EPOCHS} epochs, {plan.rows:,} rows, {epoch_task.KEY_LENGTH}-bit keys")
    table.add_column()
    for measurement in comparison.sides:
        table.add_column(measurement.side.name, justify="right")
    lines = {
        "epochs run": lambda one: f"{one.epochs}",
        "CPU s / epoch": lambda one: f"{one.epoch_cpu:.3g}",
        "other CPU s": lambda one: f"{one.setup_cpu:.2f}",
        "CPU s": lambda one: f"{one.training_cpu(EPOCHS):.1f}",
    }
    for role, _ in epoch_task.PARTIES:
        lines[f"  {role}"] = lambda one, role=role: f"{one.costs[role].cpu.scaled_to(EPOCHS):.1f}"
    lines |= {
        "theirs / ours": lambda one: f"{one.training_cpu(EPOCHS) / comparison.ours_cpu:.1f}",
        "wall s": lambda one: f"{one.wall.scaled_to(EPOCHS):.1f}",
        "blinded": lambda one: "yes" if one.blinded else "NO",
        "weights off": lambda one: f"{one.distance:.0e}",
    }
    for name, cell in lines.items():
        table.add_row(name, *map(cell, comparison.sides))
    table.caption = f"Fewer epochs run than {EPOCHS}: scaled linearly."
    return table


def print_shares(comparison, console):
    """What a later epoch costs, by both ways to look at it."""
    once = comparison.ours_once.training_cpu(1)
    console.print(
        f"cross product: {comparison.ours_cpu:.2f} CPU s for {EPOCHS} epochs, {once:.2f} for one. A later epoch costs "
        f"{comparison.figures()['later_epoch_share']:.2%} of a training of one epoch by their difference, "
        f"{comparison.ours.epoch_cpu / once:.2%} between two passes of the loop."
    )


if __name__ == "__main__":
    main()
