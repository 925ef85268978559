"""A network split between guest and host on flipped labels, against the private scorecard: is it worth a component?

    python -m bench.split_network [--data FOLDER] [--draws N] [--adult]

The trial is in the clear, in torch: a bottom network at each party, a top network at the guest, trained together by Adam as
split learning does, on labels flipped by randomised response. The loss is that of the flipped label under the model's
probability passed through the flips (forward correction, [Natarajan2013]): its minimum is the model of the true labels.
Epsilon is of labels, delta 0. The scorecard is the twin of ``dp_scorecard`` with noise on X^T t (labels at the same epsilon,
delta 1e-5, twelve bins at quantiles of the training rows), without the hosts' noise on its tables, since a split network has none
either: it shows the guest the host's outputs of every row.

The rule was set before the trial: the network becomes a component if its held-out AUC on FATE's default_credit is above
the scorecard's by more than 0.003 at any of the four epsilons. Four divisions into five
stratified folds, two draws each, paired by fold; divisions share records, so that intervals are somewhat too narrow. To be
complete: a first run had one division, with three draws, and its best difference was +0.0035 (-0.0003 to +0.0074), of the
network on columns at epsilon 4, above the bar. Since its interval decided nothing, divisions were added, and nothing else was
changed; +0.0029 (+0.0014 to +0.0044) came out, just below the bar, which it cannot be told from.

How the settings were fixed: on Adult alone (--adult prints the grid): the highest mean AUC over epsilons 1 and 4, two folds,
one draw, among widths, weight decays and epochs, for each of two kinds of inputs: standardised columns, and places of the
scorecard's bins, one-hot. No other setting was tried on default_credit. Draws and start weights are seeded: a simulation, which protects nothing.

The last line printed is one JSON object: ``auc_columns_eps_E`` and ``auc_bins_eps_E`` of the two networks,
``auc_scorecard_eps_E``, and the paired differences.
"""

import argparse
import json
import math
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from bench.data_files import with_files
from bench.hetero_noise_tasks import LENDING_CLUB
from bench.scorecard_tasks import adult, default_credit, own_quantile_bins
from bench.scorecard_twin import fit_labels, rows_of
from examples.credit_risk.models import interval, paired_difference
from fate_dp.crypto.contingency import one_hot
from fate_dp.privacy.mechanisms.randomized_response import flip_probability
from fate_dp.privacy.noise.stream import ReproducibleStream

EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5
DIVISIONS, FOLDS = 4, 5
BATCH, RATE = 512, 1e-3
WORTH = 0.003
BINS_OF_A_COLUMN = 12
COLUMNS, BINS, SCORECARD = "columns", "bins", "scorecard"


@dataclass(frozen=True)
class Settings:
    """Of the network: its inputs, the width of every layer, Adam's decoupled weight decay and the epochs."""

    inputs: str
    width: int
    decay: float
    epochs: int


GRID = [Settings(*values) for values in product((COLUMNS, BINS), (16, 64), (1e-2, 1.0), (5, 20))]
# For each kind of inputs the highest mean AUC on Adult.
CHOSEN = {COLUMNS: Settings(COLUMNS, 64, 1.0, 20), BINS: Settings(BINS, 64, 1.0, 5)}


class SplitNetwork(torch.nn.Module):
    """A bottom network for each party, whose outputs the guest's top network joins to one logit a row."""

    def __init__(self, widths, width):
        super().__init__()
        self.bottoms = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.Linear(inputs, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU()
            )
            for inputs in widths
        )
        self.top = torch.nn.Sequential(
            torch.nn.Linear(len(widths) * width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
        )

    def forward(self, parts):
        """Logits (rows,) of true labels."""
        return self.top(torch.hstack([bottom(part) for bottom, part in zip(self.bottoms, parts)])).squeeze(1)


def corrected_loss(logits, flipped, flip):
    """Mean negative log likelihood of flipped labels when every true label is flipped with probability ``flip``."""
    probability = flip + (1 - 2 * flip) * torch.sigmoid(logits)
    return torch.nn.functional.binary_cross_entropy(probability, flipped)


def fit(parts, flipped, flip, settings, seed):
    """A trained network; ``parts`` are float32 tensors."""
    torch.manual_seed(seed)
    network = SplitNetwork([part.shape[1] for part in parts], settings.width)
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=settings.decay)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(settings.epochs):
        for rows in torch.randperm(len(flipped), generator=generator).split(BATCH):
            optimizer.zero_grad()
            corrected_loss(network([part[rows] for part in parts]), flipped[rows], flip).backward()
            optimizer.step()
    return network


def inputs_of(settings, train, test):
    """Inputs of training and held-out rows per party, by statistics or quantiles of the training rows."""
    found = ([], [])
    for own, held_out in zip(train, test):
        if settings.inputs == BINS:
            bins = own_quantile_bins(own, BINS_OF_A_COLUMN)
            encode = partial(_places, bins)
        else:
            encode = partial(_standardised, own.mean(axis=0), own.std(axis=0))
        for rows, part in zip((own, held_out), found):
            part.append(torch.as_tensor(encode(rows), dtype=torch.float32))
    return found


def _places(bins, rows):
    return one_hot(bins.places(bins.codes(rows)), bins.total)


def _standardised(centre, spread, rows):
    return (rows - centre) / spread


def network_auc(task, fold, settings, epsilon, draw):
    """Held-out AUC of one training on one draw of flips; without flips for epsilon infinity."""
    rows, held_out = fold
    train, test = inputs_of(settings, [part[rows] for part in task.parts], [part[held_out] for part in task.parts])
    flip = 0.0 if math.isinf(epsilon) else flip_probability(epsilon)
    generator = np.random.default_rng([draw, int(held_out[0]), round(100 * min(epsilon, 100))])
    labels = task.labels[rows]
    flipped = np.abs(labels - (generator.random(len(labels)) < flip))
    network = fit(train, torch.as_tensor(flipped, dtype=torch.float32), flip, settings, draw)
    with torch.no_grad():
        return float(roc_auc_score(task.labels[held_out], network(test).numpy()))


def scorecard_auc(task, fold, epsilon, draw):
    """Held-out AUC of the scorecard's twin on one draw of noise."""
    rows, held_out = fold
    parts = [part[rows] for part in task.parts]
    bins = [own_quantile_bins(part, BINS_OF_A_COLUMN) for part in parts]
    stream = ReproducibleStream(f"{held_out[0]} {epsilon} {draw}".encode())
    weights = fit_labels(bins, parts, task.labels[rows], epsilon, DELTA, stream)
    scores = rows_of(bins, [part[held_out] for part in task.parts]) @ weights
    return float(roc_auc_score(task.labels[held_out], scores))


def choose(console, task):
    """Print the mean AUC of every setting on Adult, best first."""
    folds = task.folds()[:2]
    ranked = []
    for settings in GRID:
        aucs = [network_auc(task, fold, settings, epsilon, 0) for fold, epsilon in product(folds, (1.0, 4.0))]
        ranked.append((float(np.mean(aucs)), settings))
    for mean, settings in sorted(ranked, key=lambda each: -each[0]):
        console.print(f"{mean:.4f} {settings}", soft_wrap=True)


def main():
    from rich.console import Console

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=LENDING_CLUB.parent, help="folder of the public tables")
    parser.add_argument("--draws", type=int, default=2, help="of flips and noise, in each fold (2)")
    parser.add_argument("--adult", action="store_true", help="the grid from which the settings were chosen, alone")
    options = parser.parse_args()
    console = Console(width=140)
    if options.adult:
        choose(console, adult(options.data / "adult.csv.gz"))
        return
    task = default_credit(options.data)
    found = study(task, options.draws)
    gains = {
        (inputs, epsilon): paired_difference(found[inputs, epsilon], found[SCORECARD, epsilon])
        for inputs, epsilon in product(CHOSEN, EPSILONS)
    }
    console.print(table_of(found, gains))
    console.print(verdict(gains), soft_wrap=True)
    figures = {f"auc_{name}_eps_{epsilon:g}": result["mean"] for (name, epsilon), result in found.items()}
    figures |= {f"{inputs}_minus_scorecard_eps_{epsilon:g}": gain["mean"] for (inputs, epsilon), gain in gains.items()}
    print(json.dumps({"bench": "split-network", "figures": {name: round(value, 4) for name, value in figures.items()}}))


def study(task, draws):
    """{(kind of inputs or scorecard, epsilon): interval over folds}, each fold with the mean of its draws."""
    found = {}
    for inputs, epsilon in product(CHOSEN, (*EPSILONS, math.inf)):
        one = partial(network_auc, task, settings=CHOSEN[inputs], epsilon=epsilon)
        found[inputs, epsilon] = over_folds(task, draws if math.isfinite(epsilon) else 1, one)
    for epsilon in EPSILONS:
        found[SCORECARD, epsilon] = over_folds(task, draws, partial(scorecard_auc, task, epsilon=epsilon))
    return found


def over_folds(task, draws, one):
    """The interval over folds, each with the mean of draws 0, 1, ..."""
    return interval([np.mean([one(fold=fold, draw=draw) for draw in range(draws)]) for fold in folds_of(task)])


def folds_of(task):
    """(training rows, held-out rows) of every fold of every division."""
    for division in range(DIVISIONS):
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=division)
        yield from folds.split(task.parts[0], task.labels)


def table_of(found, gains):
    from rich.table import Table

    without = ", ".join(f"{inputs} {found[inputs, math.inf]['mean']:.4f}" for inputs in CHOSEN)
    table = Table(title=f"Held-out AUC on default_credit; networks on true labels: {without}")
    headings = [f"network on {inputs}" for inputs in CHOSEN] + [f"{inputs} - scorecard, 95 %" for inputs in CHOSEN]
    for heading in ("epsilon", "scorecard", *headings):
        table.add_column(heading)
    for epsilon in EPSILONS:
        aucs = [f"{found[name, epsilon]['mean']:.4f}" for name in (SCORECARD, *CHOSEN)]
        told = [
            f"{gain['mean']:+.4f} ({gain['low']:+.4f} to {gain['high']:+.4f})"
            for gain in (gains[inputs, epsilon] for inputs in CHOSEN)
        ]
        table.add_row(f"{epsilon:g}", *aucs, *told)
    return table


def verdict(gains):
    """One sentence by the rule that was set before the trial, on the difference whose interval reaches highest."""
    inputs, epsilon = best = max(gains, key=lambda key: gains[key]["high"])
    gain = gains[best]
    if gain["low"] > WORTH:
        decision = f"beats the scorecard by more than {WORTH}"
    elif gain["high"] < WORTH:
        decision = f"does not beat the scorecard by more than {WORTH} at any epsilon"
    else:
        decision = f"may or may not beat the scorecard by more than {WORTH}: undecided"
    return (
        f"The split network {decision}; its best difference is {gain['mean']:+.4f} ({gain['low']:+.4f} to "
        f"{gain['high']:+.4f}), on {inputs} at epsilon {epsilon:g}."
    )


if __name__ == "__main__":
    with_files(main)
