"""Adaptive against uniform noise at equal total epsilon, with the source's own rule beside them.

    python -m bench.homo_nn_adaptive [--data ../shared/data] [--only mnist|lending_club|breast_cancer ...]
                                             [--clip-factor F] [--rate-factor F]

Record level, delta 1e-5, add-or-remove (replace-one is printed beside it), PLD accountant, ``secure_sum`` with real
Poisson sampling, 10 clients of which 1 is tolerated, masks off. *Uniform*: every coordinate gets the same noise.
*Adaptive*: the first tenth of the rounds with uniform noise; then the mean contributions of input features, or of the
filters of a convolution, to what this model predicts are released by one secure sum that alone would cost an eighth of
epsilon; then scales that fall with them. *Opposite*: scales that rise with them. In all three the accountant's total of
everything that is released is the stated epsilon, so the adaptive ones train with a little more noise. Two published rules that have
a proof stand beside them: *quantile*, a clip that follows the median norm by noisy counts [Andrew2021], and *delayed*, phases of plain
steps whose mean noisy gradient preconditions the next phase's [Li2023], which is post-processing. *source_rule* is
the thesis' own rule with f 0.15 and p 0.85 at what it calls that epsilon: NOT PRIVATE, epsilon infinity.

Data: MNIST and the source's convolution network of 105,506 parameters, accuracy on the 10,000 test digits; 27,273
Lending Club loans and logistic regression, AUC on the held-out loans; scikit-learn's breast cancer and logistic
regression, accuracy on the held-out quarters of stratified splits. Differences are paired by run (same split, start
weights and samples of the warm-up) or by split, intervals 95 %, Student's t; with one split they say nothing of other
records. MNIST is trained for few rounds of small batches, to fit into minutes of two cores: its accuracies are below
those of ``bench-homo-nn``, and what is compared is the noise.

Settings are one set per task for all kinds of noise, near the best for uniform noise of a small grid of clips and
learning rates on these data; ``--clip-factor`` and ``--rate-factor`` show others. Scales change how many records are
clipped and thereby the length of steps: where a smaller or larger step helps, a difference is not the noise's alone.

The last line printed is one JSON object: per data set and epsilon the difference and half the width of its interval.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.homo_nn_adaptive_tasks import DATA, Settings, cancer, loans, mnist
from bench.homo_nn_adaptive_training import Run, plans_of
from bench.thesis.source_training import source_rule
from examples.credit_risk.models import interval, paired_difference

WIDTH = 160
COMPARED = ("adaptive", "opposite", "quantile", "delayed")
KINDS = ("uniform", *COMPARED, "source_rule")
TASKS = {
    "mnist": lambda data, change: mnist(
        data / "mnist.npz",
        3,
        (1.0, 4.0),
        change(Settings(10, 40, 4, 300, clip=1.0, learning_rate=0.8, contribution_sampling=0.1)),
    ),
    "lending_club": lambda data, change: loans(
        data / "lending_club.csv.gz", 8, (0.1, 1.0, 4.0), change(Settings(10, 50, 5, 682, clip=1.0, learning_rate=0.4))
    ),
    "breast_cancer": lambda data, change: cancer(
        10, 2, (0.5, 1.0, 4.0), change(Settings(10, 40, 4, 106, clip=1.0, learning_rate=0.2))
    ),
}


def main():
    import torch
    from rich.console import Console
    from rich.progress import Progress

    # Clients' batches are so small that further threads would mostly wait for each other.
    torch.set_num_threads(1)
    options, console, results = parse_options(), Console(width=WIDTH), {}

    def change(settings):
        clip, rate = settings.clip * options.clip_factor, settings.learning_rate * options.rate_factor
        return replace(settings, clip=clip, learning_rate=rate)

    with Progress(console=console, transient=True) as progress:
        for name in options.only:
            try:
                task = TASKS[name](options.data, change)
            except FileNotFoundError as error:
                console.print(f"{name} is left out: there is no file {error.filename}; name its folder with --data.")
                continue
            results[name] = study(task, progress)
            console.print(table(task, results[name]))
    for name, found in results.items():
        console.print(sentence(name, found))
    print(json.dumps({"bench": "homo-nn-adaptive", "figures": figures(results)}))


def parse_options():
    parser = argparse.ArgumentParser(description="Adaptive against uniform noise at equal total epsilon.")
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder of the data files ({DATA})")
    parser.add_argument("--only", nargs="+", choices=tuple(TASKS), default=tuple(TASKS), help="data sets (all)")
    parser.add_argument("--clip-factor", type=float, default=1.0, help="times the clip (1)")
    parser.add_argument("--rate-factor", type=float, default=1.0, help="times the learning rate (1)")
    return parser.parse_args()


def study(task, progress):
    """{epsilon: {kind of noise: interval, "plans": plans}} of one task."""
    trainings = len(task.epsilons) * len(task.splits) * task.runs
    bar = progress.add_task(task.name, total=trainings * 5 * task.settings.rounds)
    found = {}
    for epsilon in task.epsilons:
        plans, values = plans_of(task, epsilon), {kind: [] for kind in KINDS}
        for number, split in enumerate(task.splits):
            runs = [
                Run(task, split, plans, f"{task.name} {number} {run}", lambda *_: progress.advance(bar))
                for run in range(task.runs)
            ]
            measured = [all_kinds(run, epsilon) for run in runs]
            for kind in KINDS:
                own = [by_kind[kind] for by_kind in measured]
                # One split: every run is a value. Several: every split is one, with the mean of its runs.
                values[kind].extend(own if len(task.splits) == 1 else [float(np.mean(own))])
        found[epsilon] = {"plans": plans, **{kind: interval(values[kind]) for kind in KINDS}}
    return found


def all_kinds(run, epsilon):
    """{kind of noise: accuracy or AUC} of one run."""
    published = {"quantile": run.quantile(), "delayed": run.delayed()}
    return {"uniform": run.uniform(), **run.adaptive(), **published, "source_rule": source_rule(run, epsilon)}


def table(task, found):
    """One row per epsilon."""
    from rich.table import Table

    settings = task.settings
    title = (
        f"{titled(task.name)}: held-out {task.measure} ± 95 %, {settings.rounds} rounds of {settings.batch_size} "
        f"expected records, clip {settings.clip:g}, learning rate {settings.learning_rate:g}"
    )
    rendered = Table(title=title)
    differences = [f"{kind} - uniform" for kind in COMPARED]
    for heading in ("epsilon", "replace-one", "noise", "uniform", *differences, "source_rule*"):
        rendered.add_column(heading, justify="right")
    for epsilon, row in found.items():
        uniform, adaptive = row["plans"]["uniform"], row["plans"]["adaptive"]
        rendered.add_row(
            f"{epsilon:g}",
            f"{uniform.epsilons[1]:.2f} / {adaptive.epsilons[1]:.2f}",
            f"{uniform.terms.noise_multiplier:.3f} / {adaptive.terms.noise_multiplier:.3f}",
            text(row["uniform"]),
            *(text(paired_difference(row[kind], row["uniform"]), "+") for kind in COMPARED),
            f"{row['source_rule']['mean']:.4f}",
        )
    rendered.caption = "replace-one, noise: uniform / adaptive, PLD at delta 1e-5. * NOT PRIVATE: epsilon is infinite."
    return rendered


def text(result, sign=""):
    return f"{result['mean']:{sign}.4f} ±{result['high'] - result['mean']:.4f}"


def titled(name):
    return name.replace("_", " ")


def sentence(name, found):
    """What the measured differences say of the thesis' claim that adaptive noise is more accurate at equal epsilon."""
    verdicts = []
    for epsilon, row in found.items():
        difference = paired_difference(row["adaptive"], row["uniform"])
        verdict = "confirmed" if difference["low"] > 0 else "refuted" if difference["high"] < 0 else "not confirmed"
        verdicts.append(f"{verdict} at epsilon {epsilon:g} ({text(difference, '+')})")
    return f"{titled(name)}: that adaptive noise is more accurate than uniform noise is {', '.join(verdicts)}."


def figures(results):
    """The figures of the last line, rounded to six decimals."""
    named = {}
    for name, found in results.items():
        for epsilon, row in found.items():
            for kind in COMPARED:
                difference = paired_difference(row[kind], row["uniform"])
                key = f"{name}_{kind}_minus_uniform_eps_{epsilon:g}"
                named[key], named[f"{key}_half_width"] = difference["mean"], difference["high"] - difference["mean"]
            for kind in ("uniform", "source_rule"):
                named[f"{name}_{kind}_eps_{epsilon:g}"] = row[kind]["mean"]
    return {key: round(value, 6) for key, value in named.items()}


if __name__ == "__main__":
    main()
