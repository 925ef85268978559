"""Flips or noise on sums: what label privacy costs one vertical model, by epsilon, on two credit tasks.

    python -m bench.label_noise [--adult]

Held-out AUC of `dp_hetero_lr` (Taylor) at equal epsilon, delta 1e-5 for noise and 0 for flips, labels private and features
not: on flips (label_flip, then training without noise), with noise on X^T t (privacy label), and on true labels. Columns are
raw (standardised) or one-hot, 16 quantile bins each and categories as they are. Statistics and quantiles are of the training
rows: features are constants of either guarantee, so they cost no epsilon.

Data: FATE's default of credit cards (30,000 records, 13 + 10 columns), Lending Club (the project's vertical split), five
stratified folds, each with four draws of flips and noise; a fold counts with their mean. Streams are seeded, so nothing here
is private.

Training is the plaintext twin: gradient descent of 100 epochs on the moments of rows, which are clipped for noise alone. The
optimiser is `default_optimizer`, for all three with the rows' squared norm as number of columns, which it is for standardised
ones; a training on flips takes the number of columns, and on one-hot columns is slower for it, unless a job says otherwise. `tests/protocol/test_label_noise.py` holds it to the encrypted training on the same noise.

How the settings were fixed: the ridge of noise is `LabelMoments.ridge`; the weights' norm in it was chosen among 1/4, 1/2, 1, 2
and 4 times the spread on Adult (--adult). Radii are those of a typical row, for one-hot columns the exact norm. To be complete:
one fold of default of credit cards was seen before the optimiser took the rows' norm in place of the number of columns.
The last line is one JSON object.
"""

import argparse
import gzip
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bench.data_files import with_files
from fate_dp.components.protocols.optimizers import default_optimizer
from fate_dp.components.protocols.training_terms import (
    LABEL,
    NOISE_CURVATURE,
    NOISE_TARGET,
    TRAINING,
    NoiseTerms,
    PartyNoise,
)
from fate_dp.privacy.mechanisms.randomized_response import flip_probability
from fate_dp.privacy.mechanisms.second_moments import UNIT_BITS, clip_rows, clip_target, noise_multiplier_for
from fate_dp.privacy.noise.stream import ReproducibleStream

DATA = Path(os.environ.get("FATE_DP_DATA", "../shared/data"))
EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5
FOLDS, DRAWS, EPOCHS, BINS = 5, 4, 100, 16
UNIT = 2.0**-UNIT_BITS
DESIGNS = RAW, BINNED = ("raw", "bins")
METHODS = FLIPS, NOISE = ("flips", "noise")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of guest and host: numbers, then one-hot groups, whose number counts for the norm of a row."""

    numbers: tuple[np.ndarray, ...]
    groups: tuple[np.ndarray, ...]
    group_counts: tuple[int, ...]
    labels: np.ndarray


def default_credit():
    tables = [pd.read_csv(DATA / f"default_credit_hetero_{role}.csv.gz") for role in ("guest", "host")]
    columns = [table.drop(columns=["id", "y"], errors="ignore").to_numpy(float) for table in tables]
    none = tuple(np.zeros((len(part), 0)) for part in columns)
    return Table(tuple(columns), none, (0, 0), tables[0]["y"].to_numpy(float))


def lending_club():
    """All loans of the project's vertical split, training and held-out ones together."""
    from bench.hetero_noise_tasks import lending_club as split
    from fate_dp.data_prep.lending_club.columns import NUMERIC

    task = split(DATA / "lending_club.csv.gz")
    parts = [np.vstack(both) for both in zip(task.train_parts, task.test_parts)]
    # Whatever takes more than two values is a number; groups are columns of zeros and ones.
    numeric = [np.array([len(np.unique(column)) > 2 for column in part.T]) for part in parts]
    counts = tuple(square - int(own.sum()) for square, own in zip(task.typical_squares, numeric))
    assert sum(own.sum() for own in numeric) <= len(NUMERIC), "a one-hot column was taken for a number"
    numbers, groups = (tuple(part[:, own == kind] for part, own in zip(parts, numeric)) for kind in (True, False))
    return Table(numbers, groups, counts, np.concatenate([task.train_labels, task.test_labels]))


def adult():
    """Where settings were fixed: half of the columns, in their order, at each party."""
    with gzip.open(DATA / "adult.csv.gz", "rt") as file:
        table = pd.read_csv(file, skipinitialspace=True)
    labels, table = table.iloc[:, -1].str.contains(">50K").to_numpy(float), table.iloc[:, :-1]
    halves = (table.iloc[:, : table.shape[1] // 2], table.iloc[:, table.shape[1] // 2 :])
    numbers = tuple(half.select_dtypes("number").to_numpy(float) for half in halves)
    texts = [half.select_dtypes(exclude="number") for half in halves]
    groups = tuple(pd.get_dummies(half, dtype=float).to_numpy() for half in texts)
    return Table(numbers, groups, tuple(half.shape[1] for half in texts), labels)


TASKS = {"default_credit": default_credit, "lending_club": lending_club}


@dataclass(frozen=True, eq=False)
class Split:
    """Training and held-out rows per party, and the largest norm of each party's rows, a public number."""

    train: tuple[np.ndarray, ...]
    train_labels: np.ndarray
    test: tuple[np.ndarray, ...]
    test_labels: np.ndarray
    radii: tuple[float, ...]


def split_of(table, rows, held_out, design):
    """One fold in one design."""
    train, test, radii = [], [], []
    for numbers, groups, count in zip(table.numbers, table.groups, table.group_counts):
        encode = binned if design == BINNED else standardised
        encoded = encode(numbers[rows], numbers[held_out])
        for part, own, rest in zip((train, test), encoded, (groups[rows], groups[held_out])):
            part.append(np.hstack([own, rest]))
        radii.append(math.sqrt(numbers.shape[1] + count))
    return Split(tuple(train), table.labels[rows], tuple(test), table.labels[held_out], tuple(radii))


def standardised(train, test):
    centre, spread = train.mean(axis=0), train.std(axis=0)
    return (train - centre) / spread, (test - centre) / spread


def binned(train, test):
    """One-hot columns of quantile bins, fewer where quantiles agree."""
    found = ([], [])
    for column in range(train.shape[1]):
        cuts = np.unique(np.quantile(train[:, column], np.arange(1, BINS) / BINS))
        for rows, part in zip((train, test), found):
            part.append(np.eye(len(cuts) + 1)[np.searchsorted(cuts, rows[:, column], side="right")])
    return tuple(map(np.hstack, found))


def noise_terms(features, radii, epsilon, fit_intercept=True):
    """What the parties agree on; the guest comes first and has the intercept and the target."""
    guest = {"intercept": fit_intercept, "target": NOISE_TARGET}
    multiplier = noise_multiplier_for(epsilon, DELTA)
    parties = [
        PartyNoise(
            LABEL,
            count,
            radius,
            **(guest if place == 0 else {"intercept": False, "target": 0.0}),
            multipliers={TRAINING: multiplier if place == 0 else 0.0},
        )
        for place, (count, radius) in enumerate(zip(features, radii))
    ]
    return NoiseTerms(LABEL, TRAINING, tuple(parties))


def clipped_rows(parts, labels, terms):
    """Joint rows and targets as floats, exactly the integers that would be encrypted."""
    rows, bits = [], terms.fraction_bits
    for part, party in zip(parts, terms.parties):
        rows.append(clip_rows(part, np.ones(party.features), party.bounds, bits) * UNIT)
        if party.intercept:
            rows.append(np.ones((len(part), 1)))
    return np.hstack(rows), clip_target(NOISE_CURVATURE * (labels - 0.5), terms.parties[0].bounds, bits) * UNIT


def descend(hessian, linear, optimizer, bare=None, start=None, epochs=EPOCHS):
    """Gradient descent with momentum on w^T H w / 2 - b^T w and the ridge; ``bare`` is the weight without one."""
    ridge = np.full(len(linear), optimizer["alpha"])
    if bare is not None:
        ridge[bare] = 0.0
    momentum = optimizer["optimizer_params"].get("momentum", 0.0)
    weights = np.zeros(len(linear)) if start is None else start.copy()
    velocity = np.zeros(len(linear))
    for _ in range(epochs):
        velocity = momentum * velocity + hessian @ weights + ridge * weights - linear
        weights = weights - optimizer["optimizer_params"]["lr"] * velocity
    return weights


def noisy_weights(moments, terms, rows, noise, optimizer=None, start=None, epochs=EPOCHS):
    """Weights of a training with privacy label.

    :param moments: X^T X and X^T t of clipped rows and targets.
    :param noise: values of `LabelNoise`, of all columns.
    """
    gram, sums = moments
    scale = NOISE_CURVATURE * rows
    linear = (sums + np.asarray(noise).astype(float) * UNIT**2) / scale
    chosen = optimizer or terms.optimizer(
        None, default_optimizer(rows, terms.size, math.inf, epochs=EPOCHS)["alpha"], rows
    )
    return descend(gram / scale, linear, chosen, start=start, epochs=epochs)


def fold_figures(split, epsilons=EPSILONS, seed=0):
    """{(method, epsilon): mean AUC}, with epsilon infinity for true labels."""
    joint, held_out = (np.hstack([part[0], np.ones((len(part[0]), 1)), part[1]]) for part in (split.train, split.test))
    features = [part.shape[1] for part in split.train]
    rows, bare, generator = len(joint), features[0], np.random.default_rng(seed)
    hessian, found = joint.T @ joint / (NOISE_CURVATURE * rows), {}
    size = round(1 + sum(radius**2 for radius in split.radii))

    def fitted(labels, epsilon):
        optimizer = default_optimizer(rows, size, epsilon, epochs=EPOCHS)
        return descend(hessian, joint.T @ (labels - 0.5) / rows, optimizer, bare)

    found["none", math.inf] = auc(split.test_labels, held_out @ fitted(split.train_labels, math.inf))
    for epsilon in epsilons:
        of_flips, of_noise = [], []
        terms = noise_terms(features, split.radii, epsilon)
        clipped, targets = clipped_rows(split.train, split.train_labels, terms)
        moments = clipped.T @ clipped, clipped.T @ targets
        for draw in range(DRAWS):
            flipped = np.abs(split.train_labels - (generator.random(rows) < flip_probability(epsilon)))
            of_flips.append(auc(split.test_labels, held_out @ fitted(flipped, epsilon)))
            stream = ReproducibleStream(1000 * seed + draw + round(100 * epsilon))
            noise = terms.on_labels.draw(clipped.shape[1], "host", stream).values
            of_noise.append(auc(split.test_labels, held_out @ noisy_weights(moments, terms, rows, noise)))
        found[FLIPS, epsilon], found[NOISE, epsilon] = float(np.mean(of_flips)), float(np.mean(of_noise))
    return found


def auc(labels, scores):
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, scores))


def study(table, design):
    """{(method, epsilon): AUC of every fold}."""
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(table.labels, table.labels)
    found = {}
    for number, (rows, held_out) in enumerate(folds):
        for key, value in fold_figures(split_of(table, rows, held_out, design), seed=number).items():
            found.setdefault(key, []).append(value)
    return found


def main():
    from rich.console import Console
    from rich.table import Table as Lines

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--adult", action="store_true", help="the task on which settings were fixed, alone")
    tasks = {"adult": adult} if parser.parse_args().adult else TASKS
    console, figures = Console(), {}
    for task, load in tasks.items():
        table = load()
        for design in DESIGNS:
            found = study(table, design)
            lines = Lines(
                "epsilon", *METHODS, title=f"AUC on {task}, {design}, true labels {told(found['none', math.inf])}"
            )
            for epsilon in EPSILONS:
                lines.add_row(f"{epsilon:g}", *(told(found[method, epsilon]) for method in METHODS))
            console.print(lines)
            for (method, epsilon), values in found.items():
                name = f"auc_{task}_{design}_{method}" + ("" if math.isinf(epsilon) else f"_eps_{epsilon:g}")
                figures[name] = round(float(np.mean(values)), 4)
    print(json.dumps({"bench": "label-noise", "figures": figures}))


def told(values):
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1) / math.sqrt(len(values)):.4f}"


if __name__ == "__main__":
    with_files(main)
