"""Labels of a vertical training: every attack on labels against stock FATE and against flips, beside the bound of epsilon.

    python -m bench.attacks_labels [--quick]

Coins are labels that no column tells anything of, so that the flip alone sets the bound e^epsilon / (1 + e^epsilon); flips are
those of ``label_flip``, of a key drawn anew. Labels of a logistic law of all columns are for the attacks that infer from models;
their bound is that of an attacker who knows this law. The views are those of `attacks_label_views`: what a stock component
shows of the labels, or flips, that it was given. Boosted trees and the split network are plain twins.

The last line printed is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from bench.attack_methods.label_ciphertexts import share_signs
from bench.attack_methods.label_gradients import labels_by_direction, labels_by_lattice, labels_by_norm
from bench.attack_methods.label_models import labels_by_completion, labels_by_leaves, labels_by_shared_leaves
from bench.attack_methods.label_scores import column_values, columns_by_releases, labels_from_losses
from bench.attack_methods.results import AttackResult, Cost, Yardstick
from bench.attack_methods.table_inversion import TOLERANCE
from bench.attacks_label_views import (
    LabelTask,
    Stock,
    bottom_view,
    leaf_view,
    loss_view,
    network_view,
    raw_view,
    releases_view,
    score_view,
    sum_view,
)
from bench.attacks_trials import HEADINGS, Figure, Line, Progress, row
from fate_dp.attacks.label_ciphertexts import LabelDefence, fitted_residuals, opened_labels, residual_signs
from fate_dp.attacks.of_views import Interval, share_interval
from fate_dp.privacy.labels.flips import flip_labels

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

EPSILONS = (4.0, 2.0, 1.0, 0.5)
COINS = 40_000
"""Labels of the attacks that read all records; fewer leave the share at an epsilon uncertain by more than the figure allows."""
ENOUGH = 20_000
RARE = 0.1
FEW = 24
"""Records of a lattice."""
KNOWN, FEW_KNOWN = 100, 20
"""Labels that an attack is told: to learn from, or only to know which side is which; few for model completion."""
DRAWS = 3
"""Tasks of labels that follow from columns."""
SOURCE = "bench/attacks/labels"
SCORE_ROWS, SCORE_COLUMNS, SCORE_STEP = 1000, 8, 2.0**-7
BINNING, SIGNS, FIT, SHARES = (
    "binning: opened ciphertexts",
    "CoordinatedLR from zero: signs of residuals",
    "CoordinatedLR: residuals of 20 epochs",
    "SSHE-LR from zero: shares of residuals",
)
NO_FLIPS = LabelDefence("no flips", "Labels go into stock FATE's component as they are.")
BLINDED = LabelDefence("epsilon infinity", "Ours without flips: the same numbers under blinded ciphertexts.")
ALL_READ = Yardstick(1.0, "a control: every label.")


@dataclass(frozen=True)
class LabelPlan:
    """How much is tried.

    Attributes:
        fitted: records whose residuals of 20 epochs are read.
        network: records of a split network.
        learnable: records of the attacks on models.
        batches: of few records, for lattices.
        blinded: records under blinded ciphertexts.
    """

    fitted: int
    network: int
    learnable: int
    batches: int
    blinded: int


FULL, QUICK = LabelPlan(40_000, 40_100, 10_000, 20, 2000), LabelPlan(2000, 20_100, 3000, 4, 200)
Attack = Callable[[LabelTask, Labels, LabelDefence], Array]


@dataclass(frozen=True, eq=False)
class Trial:
    """One attack on tasks of one kind.

    Attributes:
        name: of the attack.
        of: the labels, in words.
        tasks: of different records.
        attack: makes the view of a task on what it was given, and reads it.
        yardstick: for the line without flips.
        known: how many of the first records' labels it is told, which do not count.
        baseline: share that is named rightly without a view; None for that of the commoner label.
    """

    name: str
    of: str
    tasks: list[LabelTask] = field(repr=False)
    attack: Attack
    yardstick: Yardstick
    known: int = 0
    baseline: float | None = None


class LabelBench:
    """Lines of attacks on labels; ``lines`` grows with each."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.lines: list[Line] = []
        self.key = secrets.token_bytes(32)

    def given(self, task: LabelTask, place: int, defence: LabelDefence) -> Labels:
        """What goes into the component: the labels, or their flips; of the task at a ``place``, whose records are its own."""
        if math.isinf(defence.epsilon):
            return task.labels
        ids = [f"{len(task.labels)}-{place}-{record}" for record in range(len(task.labels))]
        return flip_labels(ids, task.labels, defence.epsilon, 2, self.key, SOURCE)

    def compare(self, trial: Trial) -> None:
        """One line for each defence by flips, and one without."""
        for defence in (NO_FLIPS, *map(flips, EPSILONS)):
            self.add(trial, defence)

    def add(self, trial: Trial, defence: LabelDefence) -> None:
        started = time.perf_counter()
        given = [self.given(task, place, defence) for place, task in enumerate(trial.tasks)]
        found = [trial.attack(task, labels, defence) for task, labels in zip(trial.tasks, given)]
        seconds = (time.perf_counter() - started) / len(given)
        judged = slice(trial.known, None)
        right = np.concatenate([(each == task.labels)[judged] for each, task in zip(found, trial.tasks)])
        priors = np.concatenate([task.priors[judged] for task in trial.tasks])
        ones = float(priors.mean())
        baseline = max(ones, 1 - ones) if trial.baseline is None else trial.baseline
        yardstick, bound = trial.yardstick if defence is NO_FLIPS else None, defence.bound(priors)
        line = share_line((trial.name, trial.of), defence, right, baseline, yardstick, seconds=seconds, bound=bound)
        self.lines.append(line)
        self.progress(
            f"Labels, {trial.name}, {defence.name}: {line.result.value:.4f} of {len(right):,} (bound {bound:.4f}), "
            f"{seconds:.1f} s each."
        )

    def add_cells(
        self, name: str, defence: LabelDefence, right: NDArray[np.bool_], baseline: float, seconds: float
    ) -> None:
        """A line of the share of cells of a host's columns that are right; no epsilon of labels bounds it."""
        line = share_line((name, "a host's columns"), defence, right, baseline, None, seconds=seconds, bound=None)
        self.lines.append(line)
        self.progress(f"Cells, {name}, {defence.name}: {line.result.value:.4f} (public {baseline:.4f}).")


def flips(epsilon: float) -> LabelDefence:
    words = (
        f"Each label passes label_flip at epsilon {epsilon:g} before the component, which then shows its flip in full."
    )
    return LabelDefence(f"epsilon {epsilon:g}", words, epsilon)


def share_line(
    titles: tuple[str, str],
    defence: LabelDefence,
    right: NDArray[np.bool_],
    baseline: float,
    yardstick: Yardstick | None,
    *,
    seconds: float,
    bound: float | None,
) -> Line:
    """A line of the share of records, or cells, that an attack names rightly.

    Args:
        titles: the attack, and what it attacks.
        seconds: of one target.
        bound: None where no epsilon bounds the share.
    """
    attack, of = titles
    interval = share_interval(int(right.sum()), len(right))
    share, cost = float(right.mean()), Cost(seconds, 0)
    result = AttackResult(
        "labels", attack, defence.name, share, "share", interval, baseline, yardstick, len(right), cost
    )
    values = right.astype(np.float64)
    return Line(of, result, defence.words, values, np.full(len(right), baseline), bound=bound)


def attack_labels(quick: bool, progress: Progress) -> list[Line]:
    """All lines."""
    plan, bench = QUICK if quick else FULL, LabelBench(progress)
    of_ciphertexts(bench, plan)
    of_gradients(bench, plan)
    of_models(bench, plan)
    of_scores(bench)
    return bench.lines


def of_ciphertexts(bench: LabelBench, plan: LabelPlan) -> None:
    stock, coins = Stock(), [LabelTask.coins(COINS)]

    def binning(task: LabelTask, given: Labels, defence: LabelDefence) -> Array:
        return opened_labels(stock.binning(given, defence, blinded=defence is BLINDED))

    def signs(task: LabelTask, given: Labels, defence: LabelDefence) -> Array:
        return residual_signs(stock.regression(task, given, defence, epochs=1, blinded=defence is BLINDED))

    def fit(task: LabelTask, given: Labels, defence: LabelDefence) -> Array:
        return fitted_residuals(stock.regression(task, given, defence))

    def shares(task: LabelTask, given: Labels, defence: LabelDefence) -> Array:
        return share_signs(stock.shares(given, defence))

    trials = [
        Trial(name, "coins", coins, attack, ALL_READ)
        for name, attack in ((BINNING, binning), (SIGNS, signs), (SHARES, shares))
    ]
    for trial in (*trials, Trial(FIT, "coins", [LabelTask.coins(plan.fitted)], fit, ALL_READ)):
        bench.compare(trial)
    for trial in trials[:2]:
        bench.add(replace(trial, tasks=[LabelTask.coins(plan.blinded)]), BLINDED)


def of_gradients(bench: LabelBench, plan: LabelPlan) -> None:
    known = np.arange(KNOWN)

    def direction(task: LabelTask, given: Labels, defence: LabelDefence) -> Array:
        return labels_by_direction(network_view(task, given, defence, known))

    def norm(task: LabelTask, given: Labels, defence: LabelDefence) -> Array:
        return labels_by_norm(network_view(task, given, defence), RARE)

    def lattice(task: LabelTask, given: Labels, defence: LabelDefence) -> Array:
        return labels_by_lattice(sum_view(task, given, defence))

    def losses(task: LabelTask, given: Labels, defence: LabelDefence) -> Array:
        return labels_from_losses(loss_view(given, defence))

    control = Yardstick(0.95, "a control: 95 % of the labels; [Li2022] state areas under the curve, of other networks.")
    coins, rare = [LabelTask.coins(plan.network)], [LabelTask.coins(plan.network, RARE)]
    batches, each = [LabelTask.coins(FEW, seed=seed) for seed in range(plan.batches)], f"{FEW} coins each"
    for trial in (
        Trial("split network: direction", "coins", coins, direction, control, KNOWN),
        Trial("split network: norm", "coins, one in ten is 1", rare, norm, control),
        Trial("first step of LR: lattice", each, batches, lattice, ALL_READ),
        Trial("4 exact losses: lattice", each, batches, losses, ALL_READ),
    ):
        bench.compare(trial)


def of_models(bench: LabelBench, plan: LabelPlan) -> None:
    tasks = [LabelTask.learnable(plan.learnable, seed) for seed in range(DRAWS)]

    def leaves(task: LabelTask, given: Labels, defence: LabelDefence) -> Array:
        return labels_by_leaves(leaf_view(task, given, defence, np.arange(KNOWN)))

    def shared(task: LabelTask, given: Labels, defence: LabelDefence) -> Array:
        return labels_by_shared_leaves(leaf_view(task, given, defence, np.arange(KNOWN)))

    def completion(task: LabelTask, given: Labels, defence: LabelDefence) -> Array:
        return labels_by_completion(bottom_view(task, given, defence, np.arange(FEW_KNOWN)))

    for name, attack, known in (
        ("SecureBoost's leaves", leaves, KNOWN),
        ("SecureBoost's leaves, clusters", shared, KNOWN),
        ("LR's part at the host, completion", completion, FEW_KNOWN),
    ):
        raw = untrained(tasks, known)
        control = Yardstick(raw, "a control: the same known labels with the host's own columns.")
        bench.compare(Trial(f"{name}; {known} known", "labels of a logistic law", tasks, attack, control, known, raw))


def untrained(tasks: list[LabelTask], known: int) -> float:
    """The share of labels named rightly from the host's raw columns and as many known labels."""
    places = np.arange(known)
    found = [labels_by_completion(raw_view(task, NO_FLIPS, places)) == task.labels for task in tasks]
    return float(np.mean([right[known:].mean() for right in found]))


def of_scores(bench: LabelBench) -> None:
    """A host's columns from its part of joint scores: no label is in it, and no epsilon of labels bounds it."""
    draws = np.random.default_rng(3)
    values = draws.integers(0, 2, (SCORE_ROWS, SCORE_COLUMNS)).astype(np.float64)
    weights = np.rint(draws.normal(size=SCORE_COLUMNS) * 0.4 * 2.0**22) / 2.0**22
    public = float(np.maximum(values.mean(axis=0), 1 - values.mean(axis=0)).mean())
    exact = LabelDefence("exact scores", "The host's part of the scores as it is.")
    rounded = LabelDefence("rounded scores", f"The host rounds its part at random to multiples of {SCORE_STEP:g}.")
    for defence, seed in ((exact, None), (rounded, 0)):
        started = time.perf_counter()
        right = cells_right(values, column_values(score_view(values, weights, SCORE_STEP, seed)))
        bench.add_cells("joint scores: 8 binary columns", defence, right, public, time.perf_counter() - started)
    columns = draws.normal(size=(SCORE_ROWS, SCORE_COLUMNS))
    # What is named rightly without a view: within the tolerance of the mean.
    middle = float((np.abs(columns) <= TOLERANCE).mean())
    for releases in (SCORE_COLUMNS, SCORE_COLUMNS // 4):
        started = time.perf_counter()
        view = releases_view(columns, releases, SCORE_STEP, np.arange(KNOWN))
        right = (np.abs(columns_by_releases(view) - columns) <= TOLERANCE)[KNOWN:].ravel()
        words = f"{releases} releases of rounded scores with different weights; hosts allow a quarter of their columns."
        defence = LabelDefence(f"rounded scores, {releases} releases", words)
        name = f"joint scores: 8 columns, {KNOWN} records known"
        bench.add_cells(name, defence, right, middle, time.perf_counter() - started)


def cells_right(values: Array, found: Array) -> NDArray[np.bool_]:
    """Which cells are right, (rows x columns,): each column beside the found one, or its opposite, that agrees most."""
    agreeing = np.concatenate([found, 1 - found], axis=1)[:, :, None] == values[:, None, :]
    best = agreeing.mean(axis=0).argmax(axis=0)
    return np.concatenate([agreeing[:, at, column] for column, at in enumerate(best)])


def label_figures(lines: list[Line]) -> list[Figure]:
    """The figures of labels that the project states."""
    stock = {line.result.attack: line for line in lines if line.result.defence == NO_FLIPS.name}
    flipped = [
        line for line in lines if line.model == "coins" and line.result.targets >= ENOUGH and (line.bound or 1.0) < 1.0
    ]
    worst = max(flipped, key=_excess)
    interval, bound = worst.result.interval, worst.bound or 0.0
    read = "share of labels that a host of stock FATE reads"
    return [
        _share("labels_stock_lr", stock[FIT], f"{read}, CoordinatedLR"),
        _share("labels_stock_binning", stock[BINNING], f"{read}, binning"),
        Figure(
            "labels_ours_excess",
            _excess(worst),
            Interval(interval.low - bound, interval.high - bound, interval.method),
            f"largest share of labels read behind flips, less e^epsilon / (1 + e^epsilon); {worst.result.defence}",
        ),
    ]


def _excess(line: Line) -> float:
    return line.result.value - (line.bound or 0.0)


def _share(name: str, line: Line, words: str) -> Figure:
    return Figure(name, line.result.value, line.result.interval, words)


def main() -> None:
    parser = argparse.ArgumentParser(description="What parties of a vertical training read of labels.")
    parser.add_argument("--quick", action="store_true", help="fewer records, in a minute")
    console, started = Console(width=200), time.perf_counter()
    torch.set_num_threads(1)
    lines = attack_labels(parser.parse_args().quick, console.print)
    table = Table(*HEADINGS, title="labels")
    for line in lines:
        table.add_row(*row(line))
    console.print(table)
    console.print(f"All took {time.perf_counter() - started:.0f} s, of which {time.process_time():.0f} s on a core.")
    figures = {figure.name: round(figure.value, 4) for figure in label_figures(lines)}
    print(json.dumps({"bench": "attacks-labels", "figures": figures}))


if __name__ == "__main__":
    main()
