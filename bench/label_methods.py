"""Flips, flipback, noise on label sums and DP-SGD at equal epsilon: held-out AUC and cost of one vertical model.

    python -m bench.label_methods [--adult] [--only default_credit | lending_club | breast_cancer ...]

[Xie2023] claims that flips beat DP-SGD in accuracy and cost. Here all stand in one table, on plaintext twins:

- *flips*: label_flip, then ``dp_hetero_lr`` (Taylor, 100 epochs); epsilon of labels, delta 0. With *auto*, *swap*,
  *posterior* and the source's *resample* as modes of flipback.
- *noise*: ``privacy: label`` of ``dp_hetero_lr``, noise on X^T t drawn once; epsilon of labels, delta 1e-5.
- *sgd label*: logistic regression by gradient descent with Gaussian noise in every step, as much as hides one label:
  rows are clipped to the norm R of a typical row, and a changed label moves the sum of gradients by at most R.
- *sgd record*: the same with each record's gradient clipped, as much noise as hides a whole replaced record: a **stronger**
  promise than the others', at the same epsilon.

Every step of DP-SGD takes all records: smaller batches would need more noise in a step. Its noise is calibrated for all steps
together, exactly (they are one Gaussian mechanism). Steps, rate and clip were chosen on Adult (--adult, which prints the grid):
the highest mean AUC over epsilons, on folds of Adult alone, for each kind. A quarter of that rate stands beside, since the
rate at the grid's end may be too high for tables with fewer rows; nothing was chosen on the data below.

Data: FATE's default_credit, Lending Club (the project's vertical split) and scikit-learn's breast cancer; five stratified folds
(four divisions of breast cancer), four draws each; a fold counts with their mean. Columns are standardised with statistics of
the training rows: features are constants of a guarantee on labels. For *sgd record* these statistics are taken as public, which
favours it. *cpu*: processor seconds of one training in one process, mean over all; noise trains on moments, the others pass
over all rows in every epoch. *without*: the same training on true labels and without noise. Streams are seeded, so nothing here is private. The last line is one JSON object.
"""

import argparse
import json
import math
import time
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import expit

from bench.data_files import with_files
from bench.flipback import Verdict, decided, verdict_lines
from bench.label_noise import (
    DELTA,
    DRAWS,
    EPOCHS,
    EPSILONS,
    FOLDS,
    RAW,
    Table,
    adult,
    auc,
    clipped_rows,
    default_credit,
    lending_club,
    noise_terms,
    noisy_weights,
    split_of,
    told,
)
from examples.credit_risk.models import interval, paired_difference
from fate_dp.components.protocols.optimizers import default_optimizer
from fate_dp.privacy.accounting.gaussian import gaussian_sigma
from fate_dp.privacy.labels.flipback import Flipback, FlipbackSettings
from fate_dp.privacy.mechanisms.randomized_response import flip_probability
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.support.plaintext import TrainingSettings, joint_logits, train_plaintext, with_intercept

FLIPBACKS = {
    "flips": FlipbackSettings(mode="none"),
    "auto": FlipbackSettings(),
    "swap": FlipbackSettings(mode="swap"),
    "posterior": FlipbackSettings(mode="posterior"),
    "resample": FlipbackSettings(mode="resample", every=5, max_rounds=5),
}


@dataclass(frozen=True)
class Steps:
    """Settings of DP-SGD: steps, learning rate in units of 4 / R^2, clip of a record's gradient in units of R."""

    steps: int
    rate: float
    clip: float


# By method: whether it hides whole records, and settings. Those of rate 16 have the highest mean AUC on Adult of `GRID`.
SGD = {
    "sgd label": (False, Steps(100, 16.0, 1.0)),
    "sgd label, rate 4": (False, Steps(100, 4.0, 1.0)),
    "sgd record": (True, Steps(100, 16.0, 0.5)),
    "sgd record, rate 4": (True, Steps(100, 4.0, 0.5)),
}
GRID = [Steps(*values) for values in product((10, 30, 100), (1.0, 4.0, 16.0), (0.25, 0.5, 1.0))]
# Each kind of training on true labels and without noise: what a method loses to privacy is its distance to that.
WITHOUT = ("flips", "noise", *SGD)
METHODS = (*FLIPBACKS, "noise", *SGD)


def breast_cancer():
    """Features 0-9 at the guest, 10-29 at the host."""
    from sklearn.datasets import load_breast_cancer

    features, labels = load_breast_cancer(return_X_y=True)
    none = np.zeros((len(labels), 0))
    return Table((features[:, :10], features[:, 10:]), (none, none), (0, 0), labels.astype(float))


# By name: how a table is read, and how often it is divided into folds.
TASKS = {"default_credit": (default_credit, 1), "lending_club": (lending_club, 1), "breast_cancer": (breast_cancer, 4)}


@dataclass(frozen=True, eq=False)
class Trained:
    """Held-out AUC and processor seconds of one training."""

    auc: float
    seconds: float


class Trials:
    """All trainings of one fold; the same draws of flips serve every mode of flipback."""

    def __init__(self, split, seed):
        self._split, self._seed = split, seed
        self._rows = len(split.train_labels)
        self._squared_norm = 1 + sum(radius**2 for radius in split.radii)
        self._test = with_intercept(split.test)

    def run(self, method, epsilon, draw):
        """One training by the named method."""
        if method in FLIPBACKS:
            generator = np.random.default_rng([self._seed, draw, seed_of(epsilon)])
            flips = generator.random(self._rows) < (flip_probability(epsilon) if math.isfinite(epsilon) else 0.0)
            flipped = np.abs(self._split.train_labels - flips)
            flipback = Flipback(FLIPBACKS[method], flipped, epsilon, stream=generator)
            return self._measured(lambda: self._descended(flipped, epsilon, flipback))
        if method == "noise":
            return self._measured(lambda: self._noised(epsilon, draw))
        return self.by_steps(*SGD[method], epsilon, draw)

    def by_steps(self, record, steps, epsilon, draw):
        """DP-SGD with these settings, for whole records or for labels alone."""
        generator = np.random.default_rng([self._seed, draw, seed_of(epsilon), 1])
        return self._measured(lambda: self._stepped(steps, record, epsilon, generator))

    def _measured(self, train):
        start = time.process_time()
        weights = train()
        seconds = time.process_time() - start
        return Trained(auc(self._split.test_labels, joint_logits(self._test, weights)), seconds)

    def _descended(self, labels, epsilon, flipback):
        optimizer = default_optimizer(self._rows, round(self._squared_norm), epsilon, epochs=EPOCHS)
        start = [np.zeros(part.shape[1]) for part in self._test]
        settings = TrainingSettings(optimizer, epochs=EPOCHS)
        return train_plaintext(self._split.train, labels, settings, start, flipback).weights

    def _noised(self, epsilon, draw):
        split = self._split
        private = math.isfinite(epsilon)
        # Without noise the terms serve to clip rows alone.
        terms = noise_terms([part.shape[1] for part in split.train], split.radii, epsilon if private else 1.0)
        rows, targets = clipped_rows(split.train, split.train_labels, terms)
        moments = rows.T @ rows, rows.T @ targets
        if not private:
            optimizer = default_optimizer(self._rows, round(self._squared_norm), epsilon, epochs=EPOCHS)
            return self._per_party(noisy_weights(moments, terms, self._rows, np.zeros(rows.shape[1]), optimizer))
        stream = ReproducibleStream(1000 * self._seed + draw + round(100 * epsilon))
        noise = terms.on_labels.draw(rows.shape[1], "host", stream).values
        return self._per_party(noisy_weights(moments, terms, self._rows, noise))

    def _stepped(self, steps, record, epsilon, generator):
        radius = math.sqrt(self._squared_norm)
        rows = np.hstack(with_intercept(self._split.train))
        rows = rows * np.minimum(1, radius / np.linalg.norm(rows, axis=1))[:, None]
        norms = np.linalg.norm(rows, axis=1)
        clip = steps.clip * radius
        sensitivity = 2 * clip if record else radius
        private = math.isfinite(epsilon)
        sigma = gaussian_sigma(epsilon, DELTA, sensitivity * math.sqrt(steps.steps)) if private else 0.0
        weights = np.zeros(rows.shape[1])
        for _ in range(steps.steps):
            residual = expit(rows @ weights) - self._split.train_labels
            if record:
                residual *= np.minimum(1, clip / np.maximum(np.abs(residual) * norms, 1e-12))
            noisy = rows.T @ residual + generator.normal(scale=sigma, size=len(weights))
            weights -= steps.rate * 4 / self._squared_norm * noisy / self._rows
        return self._per_party(weights)

    def _per_party(self, weights):
        return np.split(weights, np.cumsum([part.shape[1] for part in self._test])[:-1])


def seed_of(epsilon):
    """A whole number for each epsilon, infinity among them."""
    return round(100 * epsilon) if math.isfinite(epsilon) else 0


def folds_of(table, divisions):
    """`Trials` of every fold."""
    from sklearn.model_selection import StratifiedKFold

    for division in range(divisions):
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=division)
        for number, (rows, held_out) in enumerate(folds.split(table.labels, table.labels)):
            yield Trials(split_of(table, rows, held_out, RAW), division * FOLDS + number)


def study(table, divisions):
    """{(method, epsilon): AUC of every fold}, {method: mean processor seconds}."""
    found, seconds = {}, {}
    for trials in folds_of(table, divisions):
        for method in WITHOUT:
            found.setdefault((method, math.inf), []).append(trials.run(method, math.inf, 0).auc)
        for method, epsilon in product(METHODS, EPSILONS):
            trained = [trials.run(method, epsilon, draw) for draw in range(DRAWS)]
            found.setdefault((method, epsilon), []).append(float(np.mean([each.auc for each in trained])))
            seconds.setdefault(method, []).extend(each.seconds for each in trained)
    return found, {method: float(np.mean(values)) for method, values in seconds.items()}


def choose_steps(console):
    """Print the mean AUC on Adult of every setting of DP-SGD, best first."""
    folds = list(folds_of(adult(), 1))
    for record in (False, True):
        ranked = []
        for steps in GRID if record else [each for each in GRID if each.clip == 1.0]:
            aucs = [trials.by_steps(record, steps, epsilon, 0).auc for trials, epsilon in product(folds, EPSILONS)]
            ranked.append((float(np.mean(aucs)), steps))
        for mean, steps in sorted(ranked, key=lambda each: -each[0])[:6]:
            console.print(f"{'records' if record else 'labels'}: {mean:.4f} {steps}")


def verdicts_on(task, found):
    """The source's claim by epsilon, of flips with the flipback that ``auto`` chooses: a higher AUC, and a smaller loss."""
    verdicts = []
    for epsilon, other in product(EPSILONS, ("sgd label", "sgd record", "noise")):
        ours, theirs = interval(found["auto", epsilon]), interval(found[other, epsilon])
        gain = paired_difference(ours, theirs)
        verdicts.append(Verdict(f"{task}, epsilon {epsilon:g}: flips beat {other}", decided(gain, 1), gain))
        losses = [
            paired_difference(interval(found[method, math.inf]), result)
            for method, result in (("flips", ours), (other, theirs))
        ]
        more = paired_difference(*losses)
        verdicts.append(Verdict(f"... and lose less to privacy than {other}", decided(more, -1), more))
    return verdicts


def key_of(method):
    """A method's name in the figures."""
    return method.replace(",", "").replace(" ", "_")


def main():
    from rich.console import Console
    from rich.table import Table as Lines

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--adult", action="store_true", help="the grid from which DP-SGD's settings were chosen, alone")
    parser.add_argument("--only", nargs="*", choices=TASKS, default=list(TASKS), help="tasks (all)")
    options = parser.parse_args()
    console, figures = Console(width=140), {}
    if options.adult:
        choose_steps(console)
        return
    for task in options.only:
        load, divisions = TASKS[task]
        found, seconds = study(load(), divisions)
        headings = ("method", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS), "without", "cpu s")
        lines = Lines(*headings, title=f"Held-out AUC on {task}")
        for method in METHODS:
            without = told(found[method if method in WITHOUT else "flips", math.inf])
            cells = (told(found[method, epsilon]) for epsilon in EPSILONS)
            lines.add_row(method, *cells, without, f"{seconds[method]:.3f}")
            figures[f"cpu_{task}_{key_of(method)}"] = round(seconds[method], 4)
        console.print(lines)
        for line in verdict_lines(verdicts_on(task, found)):
            console.print(line, soft_wrap=True)
        for (method, epsilon), values in found.items():
            name = f"auc_{task}_{key_of(method)}_eps_{epsilon:g}"
            figures[name] = round(float(np.mean(values)), 4)
    print(json.dumps({"bench": "label-methods", "figures": figures}))


if __name__ == "__main__":
    with_files(main)
