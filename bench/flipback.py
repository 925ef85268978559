"""What [Xie2023] says of flips and flipback, tried: convergence by epsilon, the share of flipback, 'privacy regularises'.

    python -m bench.flipback

Data, twin, splits and flips are those of `bench.label_dp` (breast cancer, splits 0 to 19); a split counts with the mean of
its five trainings, which share flips and initial weights across settings. Three parts:

1. The source's sweeps over epsilon (at lambda 2) and over lambda (at epsilon 4), at the source's learning rate and at that
   of ``dp_hetero_lr``, 30 epochs, ``resample`` after every fifth: loss on the flipped labels and held-out accuracy per
   epoch. *Epochs to convergence*: the first epoch at which the loss has made 95 % of its way from the first to the last.
2. 'Privacy regularises': every lambda with flips at epsilon 4 and without any. *Gap*: accuracy on the training rows less that
   on the held-out ones, both against true labels. Flips regularise if they raise the held-out accuracy at the same lambda.
3. The share of records that a round of flipback touches, for ``swap`` (three rounds) and the source's ``resample`` (five).

A claim is confirmed or refuted if the 95 % interval (Student's t over splits) of the paired difference that it speaks of
leaves out 0, and undecided otherwise. Splits share records, so that intervals are somewhat too narrow for other records.
Nothing is chosen here; the default share of flipback was chosen on other splits (`bench.label_dp`).

The last line printed is one JSON object; pictures and tables go to out/flipback/report.html.
"""

import json
import math
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from bench.flipback_report import write_report
from bench.label_dp import (
    FEATURES,
    SPLITS,
    accuracy,
    flip_labels,
    held_out_accuracy,
    load_split,
    optimizer_of,
    sigmoid_of,
    train,
)
from examples.credit_risk.models import interval, paired_difference
from fate_dp.privacy.labels.flipback import Flipback, FlipbackSettings
from tests.support.plaintext import joint_logits

REPEATS = 5
REPORT = Path("out/flipback/report.html")
SETTLED_SHARE = 0.95

# The source's settings (its config.json and chapter 3): gradient + lambda * theta / n, flipback at every fifth epoch.
SOURCE_LEARNING_RATE = 0.005
SOURCE_FLIPBACK = FlipbackSettings(mode="resample", every=5, fraction=0.02, max_rounds=5)
SOURCE_EPSILONS = (2.0, 4.0, 8.0, math.inf)
SOURCE_LAMBDAS = (0.1, 0.2, 0.8, 2.0)
LAMBDAS = (*SOURCE_LAMBDAS, 10.0, 50.0)
SWEPT = {(epsilon, 2.0) for epsilon in SOURCE_EPSILONS} | {
    (epsilon, value) for epsilon in (4.0, math.inf) for value in LAMBDAS
}
SHARES = (0.005, 0.01, 0.02, 0.03, 0.04, 0.08)
SHARE_EPSILONS = (0.5, 1.0, 2.0)
SHARE_MODES = {"swap": {"max_rounds": 3}, "resample": {"every": 5, "max_rounds": 5}}
CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "undecided"


@dataclass(frozen=True, eq=False)
class Course:
    """One setting's course, each split with the mean of its repeats.

    Attributes:
        accuracies: held-out accuracy after each epoch of the guest's part, the host's part and both: (splits, epochs, 3).
        losses: mean loss of each epoch on the labels that are trained on, with penalty: (splits, epochs).
        fitted: accuracy on the training rows against true labels after the last epoch: (splits,).
        settled: epochs to convergence: (splits,).
    """

    epsilon: float
    penalty: float
    accuracies: np.ndarray
    losses: np.ndarray
    fitted: np.ndarray
    settled: np.ndarray

    @property
    def held_out(self):
        """Accuracy of the joint model after the last epoch: (splits,)."""
        return self.accuracies[:, -1, 2]


@dataclass(frozen=True)
class Verdict:
    """A claim of the source, what was found, and the paired difference that decides."""

    claim: str
    found: str
    difference: dict


def main():
    from rich.console import Console
    from rich.progress import Progress

    console = Console()
    splits = [load_split(number) for number in SPLITS]
    with Progress(console=console) as progress:
        sweeps = {
            "source": run_sweeps(splits, progress, "learning rate of the source", source_optimizer),
            "default": run_sweeps(splits, progress, "learning rate of dp_hetero_lr", faster_optimizer),
        }
        shares = run_shares(splits, progress)
    verdicts = [verdict for name in sweeps for verdict in verdicts_on(sweeps[name], name)] + share_verdicts(shares)
    for line in verdict_lines(verdicts):
        console.print(line, soft_wrap=True)
    write_report(REPORT, sweeps, shares, verdict_lines(verdicts))
    console.print(f"Tables and pictures: {REPORT}")
    print(json.dumps({"bench": "flipback", "figures": figures(sweeps, shares)}))


def run_sweeps(splits, progress, name, optimizer_by_penalty):
    """All settings of parts 1 and 2: {(epsilon, lambda): Course}."""
    task = progress.add_task(f"sweeps, {name}", total=len(SWEPT) * len(splits))
    found = {}
    for epsilon, penalty in sorted(SWEPT):
        courses = []
        for split in splits:
            optimizer = optimizer_by_penalty(penalty / len(split.train_labels))
            courses.append([course_of(split, epsilon, optimizer, repeat) for repeat in range(REPEATS)])
            progress.advance(task)
        columns = zip(*([np.mean(column, axis=0) for column in zip(*repeats)] for repeats in courses))
        found[epsilon, penalty] = Course(epsilon, penalty, *map(np.array, columns))
    return found


def source_optimizer(alpha):
    return {"method": "sgd", "penalty": "l2", "alpha": alpha, "optimizer_params": {"lr": SOURCE_LEARNING_RATE}}


def faster_optimizer(alpha):
    rate = 1.0 / (FEATURES / 4 + alpha)
    return {"method": "sgd", "penalty": "l2", "alpha": alpha, "optimizer_params": {"lr": rate, "momentum": 0.3}}


def course_of(split, epsilon, optimizer, repeat):
    """One training as the source trains: what `Course` has of it, (epochs, 3), (epochs,) and two numbers."""
    flipped = flip_labels(split, epsilon, repeat)
    flipback = None
    if epsilon != math.inf:
        stream = np.random.default_rng([split.number, repeat, 2])
        flipback = Flipback(SOURCE_FLIPBACK, flipped, epsilon, stream=stream)
    accuracies = []

    def measure(_, weights):
        logits = [part @ own for part, own in zip(split.test_parts, weights)]
        accuracies.append([accuracy(z, split.test_labels) for z in (*logits, sum(logits))])

    result = train(split, flipped, optimizer, repeat, flipback, measure)
    fitted = accuracy(joint_logits(split.train_parts, result.weights), split.train_labels)
    return np.array(accuracies), np.array(result.losses), fitted, epochs_to_convergence(result.losses)


def epochs_to_convergence(losses):
    """The first epoch (from 1) at which the loss has made most of its way from the first to the last."""
    goal = losses[0] + SETTLED_SHARE * (losses[-1] - losses[0])
    return 1 + int(np.argmax(np.asarray(losses) <= goal)) if losses[-1] < losses[0] else len(losses)


def run_shares(splits, progress):
    """Paired gain of flipback over none by mode, epsilon and share: {(mode, epsilon, share): interval over splits}."""
    task = progress.add_task("shares of flipback", total=len(SHARE_EPSILONS) * len(splits))
    gains = {}
    for epsilon in SHARE_EPSILONS:
        for split in splits:
            repeats = [share_gains(split, epsilon, repeat) for repeat in range(REPEATS)]
            for key in repeats[0]:
                gains.setdefault((key[0], epsilon, key[1]), []).append(np.mean([each[key] for each in repeats]))
            progress.advance(task)
    return {key: interval(values) for key, values in gains.items()}


def share_gains(split, epsilon, repeat):
    """{(mode, share): held-out accuracy with flipback less that without}, of one draw of flips."""
    flipped, sigmoid = flip_labels(split, epsilon, repeat), sigmoid_of(epsilon)
    optimizer = optimizer_of(len(flipped), epsilon, sigmoid)
    plain = held_out_accuracy(split, train(split, flipped, optimizer, repeat, sigmoid=sigmoid).weights)
    found = {}
    for (mode, schedule), share in product(SHARE_MODES.items(), SHARES):
        stream = np.random.default_rng([split.number, repeat, 2])
        settings = FlipbackSettings(mode=mode, fraction=share, **schedule)
        flipback = Flipback(settings, flipped, epsilon, stream=stream, sigmoid=sigmoid)
        weights = train(split, flipped, optimizer, repeat, flipback, sigmoid=sigmoid).weights
        found[mode, share] = held_out_accuracy(split, weights) - plain
    return found


def verdicts_on(sweep, name):
    """Parts 1 and 2 at one learning rate ("source" or "default")."""
    of_loss = paired_difference(interval(sweep[2.0, 2.0].settled), interval(sweep[8.0, 2.0].settled))
    slower = paired_difference(interval(sweep[4.0, 2.0].settled), interval(sweep[math.inf, 2.0].settled))
    found = [
        Verdict(
            f"{name} rate: training at epsilon 2 converges in fewer epochs than at 8", decided(of_loss, -1), of_loss
        ),
        Verdict(f"{name} rate: flips at epsilon 4 take more epochs than none", decided(slower, 1), slower),
    ]
    for value in LAMBDAS:
        gain = paired_difference(interval(sweep[4.0, value].held_out), interval(sweep[math.inf, value].held_out))
        claim = f"{name} rate: flips at epsilon 4 regularise (higher held-out accuracy) at lambda {value:g}"
        found.append(Verdict(claim, decided(gain, 1), gain))
    return found


def share_verdicts(shares):
    """Whether flipback helps at the default share of 2 %, and whether one beyond the source's 1 to 4 % does worse."""
    found = []
    for mode, epsilon in product(SHARE_MODES, SHARE_EPSILONS):
        gain = shares[mode, epsilon, 0.02]
        found.append(Verdict(f"{mode} of 2 % raises accuracy at epsilon {epsilon:g}", decided(gain, 1), gain))
        over = paired_difference(shares[mode, epsilon, 0.08], gain)
        found.append(Verdict(f"{mode} of 8 % is worse than of 2 % at epsilon {epsilon:g}", decided(over, -1), over))
    return found


def decided(difference, sign):
    """Whether the difference has the claimed sign."""
    low, high = sorted((sign * difference["low"], sign * difference["high"]))
    return CONFIRMED if low > 0 else REFUTED if high < 0 else UNDECIDED


def verdict_lines(verdicts):
    """One sentence for each verdict."""
    return [
        f"{verdict.claim}: {verdict.found} ({verdict.difference['mean']:+.4f}, {verdict.difference['low']:+.4f} to "
        f"{verdict.difference['high']:+.4f})."
        for verdict in verdicts
    ]


def figures(sweeps, shares):
    """The figures of the last line, rounded to four decimals."""
    named = {}
    for name, sweep in sweeps.items():
        for epsilon in SOURCE_EPSILONS:
            named[f"{name}_epochs_eps_{epsilon:g}"] = float(sweep[epsilon, 2.0].settled.mean())
        for epsilon, value in product((4.0, math.inf), LAMBDAS):
            course = sweep[epsilon, value]
            named[f"{name}_accuracy_eps_{epsilon:g}_lambda_{value:g}"] = float(course.held_out.mean())
            named[f"{name}_gap_eps_{epsilon:g}_lambda_{value:g}"] = float((course.fitted - course.held_out).mean())
    for (mode, epsilon, share), gain in shares.items():
        named[f"{mode}_gain_eps_{epsilon:g}_share_{share:g}"] = gain["mean"]
    return {name: round(value, 4) for name, value in named.items()}


if __name__ == "__main__":
    main()
