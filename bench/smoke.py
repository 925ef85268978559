"""Every benchmark at its smallest setting: that it runs to its last line, never what it measures.

    python -m bench.smoke [NAME ...]

Each runs in a process of its own, with constants of its modules made small (`SMALLEST`) and with tables that are made up here,
so that no file has to be fetched. The last line printed is one JSON object: how many ran, failed and were left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PATIENCE_SECONDS = 900
FEW_ROWS = 220
RAN, FAILED, LEFT_OUT = "ran", "FAILED", "left out"
PLAYED = "FATE_DP_BENCH_PLAYED"
"""Names the benchmark to the processes that it spawns: they import all modules anew, with large constants."""
MISSING = "ModuleNotFoundError"
"""What a benchmark ends with where a package of the extra ``bench`` is not installed."""


@dataclass(frozen=True)
class Smallest:
    """How a benchmark is made small.

    Attributes:
        module: the one that ``make`` runs, below `bench`.
        arguments: of its command line; DATA stands for the folder of made-up tables, OUT for one that is thrown away.
        constants: {name in the module, or "module:name": value}; a function makes the value of what stands there.
    """

    module: str
    arguments: tuple[str, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)


def first(count: int) -> Callable[[Any], Any]:
    """The first few of a sequence or of a mapping."""
    return lambda given: dict(list(given.items())[:count]) if isinstance(given, Mapping) else given[:count]


def few_rounds(settings: Any) -> Any:
    """Settings of trainings with two rounds each."""
    return tuple(dataclasses.replace(each, rounds=2, clients=10) for each in settings)


def few_rows(task: Any) -> Any:
    """A training on made-up rows, hardly more than dp_hetero_lr takes of so many columns."""
    from bench.hetero_lr_rows import made_tables

    return dataclasses.replace(task, tables=partial(made_tables, FEW_ROWS))


def few_trainings(name: str) -> Callable[[Any], Any]:
    """Of the tasks of adaptive noise one, with few rounds, at most two splits and one epsilon."""

    def only(tasks: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        def make(data: Path, change: Callable[[Any], Any]) -> Any:
            made = tasks[name](data, lambda given: change(dataclasses.replace(given, rounds=4, warm_up=2)))
            return dataclasses.replace(made, splits=made.splits[:2], runs=1, epsilons=(1.0,))

        return {name: make}

    return only


SHUFFLING = {
    "COORDINATES": first(1),
    "thesis.shuffling_report:THESIS": first(1),
    "CLIENT_NUMBERS": (10,),
    "ROUND_NUMBERS": (5,),
    "SHARES": (0.25,),
}
THESIS = {"homo_nn_adaptive:TASKS": few_trainings("mnist"), "EPSILONS": (8.0,), "PAIRS": first(1), "TIMES": 1}


SMALLEST: dict[str, Smallest] = {
    "align": Smallest("align", ("200",), {"GROWTH": (100,), "SOURCE_SECONDS": {250: 11.07}, "REPEATS": 1}),
    "align-redundancy": Smallest("align_redundancy", (), {"REDUNDANCY": (0, 50), "EPOCHS": 2}),
    "attacks": Smallest(
        "attacks",
        ("--quick", "--data", "DATA", "--out", "OUT"),
        {
            "QUICK": lambda given: dataclasses.replace(
                given,
                pictures=3,
                few=2,
                clipped=2,
                public=100,
                steps=20,
                noised_steps=10,
                sign_steps=10,
                batches=4,
                rows=4,
            ),
            "attacks_labels:QUICK": lambda given: dataclasses.replace(
                given, fitted=200, network=400, learnable=300, batches=1, blinded=20
            ),
            "attacks_labels:COINS": 400,
            "attacks_labels:ENOUGH": 200,
            "attacks_labels:EPSILONS": (1.0,),
            "attacks_labels:SCORE_ROWS": 200,
            "attacks_generative:JUDGED": 1000,
            "attacks_generative:SETTING": lambda given: dataclasses.replace(given, rounds=3),
            "attacks_membership:QUICK": lambda given: dataclasses.replace(given, models=4),
            "attacks_membership:FASHION": lambda given: dataclasses.replace(
                given, setting=dataclasses.replace(given.setting, rounds=5)
            ),
        },
    ),
    "audit": Smallest("audit_certificate", ("--quick",)),
    "check": Smallest("check"),
    "credit-study": Smallest(
        "credit_study",
        ("--seeds", "2", "--csv", "DATA/none", "--out", "OUT"),
        {"GENERATED_ROWS": 12_000, "credit_study_models:EPOCHS": 2, "credit_study_transfer:STRENGTHS": (3.0,)},
    ),
    "defaults": Smallest("defaults", (), {"TABLES": first(1), "PENALTIES": (1.0,), "RATES": (0.3,), "REPEATS": 1}),
    "epoch": Smallest("epoch", (), {"EPOCHS": 2, "TASK": few_rows, "SIDES": lambda sides: (*sides[:2], sides[3])}),
    "fate-examples": Smallest(
        "fate_examples",
        ("DATA",),
        {"fate_examples_hetero:FOLDS": 2, "fate_examples_hetero:MANY_EPOCHS": 20, "FATE_EPOCHS": 2},
    ),
    "flipback": Smallest("flipback", (), {"SPLITS": range(2), "REPEATS": 1, "label_dp:EPOCHS": 2}),
    "hetero-lr": Smallest(
        "hetero_lr",
        ("--quick",),
        {
            "EPOCHS": 2,
            "QUICK": lambda given: dataclasses.replace(given, rows=FEW_ROWS, growth=(FEW_ROWS, 2 * FEW_ROWS)),
            "hetero_lr_primitives:RUNS": 1,
        },
    ),
    "hetero-noise": Smallest(
        "hetero_noise", ("--csv", "DATA/none"), {"SPLITS": range(2), "DRAWS_PER_SPLIT": 1, "EPSILONS": (0.5, 1.0)}
    ),
    "homo-nn": Smallest(
        "homo_nn",
        ("--data", "DATA"),
        {"SETTINGS": lambda given: few_rounds(given[:2]), "SEEDS": (0,), "homo_nn_features:MODELS": first(1)},
    ),
    "homo-nn-adaptive": Smallest(
        "homo_nn_adaptive", ("--only", "breast_cancer"), {"TASKS": few_trainings("breast_cancer")}
    ),
    "homo-nn-sweeps": Smallest(
        "homo_nn_sweeps",
        ("--data", "DATA"),
        {"SWEEPS": lambda given: {name: points[:1] for name, points in given.items()}, "RECORDS_PER_CLIENT": (10,)},
    ),
    "job": Smallest("job", ("--pairs", "1", "--demo-pairs", "1")),
    "label-dp": Smallest("label_dp", (), {"SPLITS": range(2), "REPEATS": 1}),
    "label-firewall": Smallest("label_firewall", ("--only", "linr_share_read_two_hosts_5")),
    "label-methods": Smallest("label_methods", ("--only", "breast_cancer"), {"label_noise:DRAWS": 1}),
    "label-noise": Smallest("label_noise", (), {"DRAWS": 1, "FOLDS": 2, "EPSILONS": (1.0,)}),
    "noise": Smallest("noise", (), {"SCALES": (1.0,), "DRAWS": 1}),
    "prep": Smallest("prep", ("--rows", "20000"), {"REPEATS": 1}),
    "privacy-core": Smallest("privacy_core", (), {"ROUNDS": 100, "MESSAGES": 10**6, "RELEASES": 1000}),
    # Of fewer than 32 records torch's expanded weights take no gradients in channels_last memory.
    "private-step": Smallest("private_step", ("--repeats", "1"), {"BATCH": 32, "shuffler_throughput:MESSAGES": 200}),
    "scale": Smallest(
        "scale", ("--rows", "1000", "2000", "--scorecard", "1000", "--align", "200", "--folder", "OUT"), {"EPOCHS": 2}
    ),
    "scorecard": Smallest(
        "scorecard",
        ("--data", "DATA", "--lending", "DATA/none", "--draws", "1"),
        {"RECORD_EPSILONS": (0.5, 1.0), "LABEL_EPSILONS": (0.5,), "ROWS": 300},
    ),
    "source-composition": Smallest(
        "thesis.composition_table", (), {"NOISE_MULTIPLIERS": (1.0,), "ROUNDS_AND_SAMPLING": ((100, 0.01),)}
    ),
    "split-network": Smallest(
        "split_network", ("--data", "DATA", "--draws", "1"), {"EPSILONS": (1.0,), "DIVISIONS": 1, "FOLDS": 2}
    ),
    "thesis-clients": Smallest("thesis.shuffling", ("--only", "clients", "--data", "DATA"), SHUFFLING),
    "thesis-contributions": Smallest("thesis.figures", ("--only", "contributions", "--data", "DATA"), THESIS),
    "thesis-messages": Smallest("thesis.figures", ("--only", "messages", "--data", "DATA"), THESIS),
    "thesis-methods": Smallest("thesis.shuffling", ("--only", "methods", "--data", "DATA"), SHUFFLING),
    "thesis-overheads": Smallest("thesis.figures", ("--only", "overheads", "--data", "DATA"), THESIS),
    "thesis-rounds": Smallest("thesis.shuffling", ("--only", "rounds", "--data", "DATA"), SHUFFLING),
    "trees": Smallest(
        "trees",
        ("--data", "DATA"),
        {
            "FOLDS": 2,
            "DRAWS": 1,
            "HELD_ROWS": 300,
            "HELD_TREES": 1,
            "SETTINGS": lambda given: dataclasses.replace(given, num_trees=2, min_child_weight=1.0),
            "trees_private:TIMED_ROWS": 600,
        },
    ),
    "wan": Smallest("wan", ("--quick", "--delay", "0.001"), {"EPOCHS": 2, "QUICK_ROWS": FEW_ROWS}),
    "wire": Smallest("wire", (), {"MIB": 1 << 14, "REPEATS": 1}),
}


def make_data(folder: Path) -> None:
    """Tables and pictures in the form of those of docs/data.md, of random numbers."""
    draws = np.random.default_rng(7)
    rows = 800
    ids, labels = np.arange(rows), draws.integers(0, 2, rows)
    for role, columns in (("guest", 13), ("host", 10)):
        table = pd.DataFrame(draws.normal(size=(rows, columns)), columns=[f"x{at}" for at in range(columns)])
        table.insert(0, "id", ids)
        if role == "guest":
            table.insert(1, "y", labels)
        table.to_csv(folder / f"default_credit_hetero_{role}.csv.gz", index=False)
    _write_adult(folder / "adult.csv.gz", rows, draws)
    for name in ("mnist", "fashion_mnist"):
        parts: dict[str, np.ndarray] = {}
        for part, count in (("train", 8000), ("test", 2000)):
            parts[f"x_{part}"] = draws.integers(0, 256, (count, 28, 28), dtype=np.uint8)
            parts[f"y_{part}"] = np.resize(np.arange(10, dtype=np.uint8), count)
        np.savez(folder / f"{name}.npz", **parts)
    from examples.synthetic_loans import write_synthetic

    write_synthetic(folder / "lending_club.csv.gz", 3000, 2024)


ADULT = {
    "age": (),
    "workclass": ("Private", "State-gov"),
    "fnlwgt": (),
    "education": ("Bachelors", "HS-grad"),
    "education-num": (),
    "marital-status": ("Divorced", "Never-married"),
    "occupation": ("Craft-repair", "Sales"),
    "relationship": ("Husband", "Wife"),
    "race": ("Black", "White"),
    "sex": ("Female", "Male"),
    "capital-gain": (),
    "capital-loss": (),
    "hours-per-week": (),
    "native-country": ("Cuba", "United-States"),
    "Salary": ("<=50K", ">50K"),
}
"""UCI's columns: words, or none for a whole number."""


def _write_adult(path: Path, rows: int, draws: np.random.Generator) -> None:
    columns = {name: draws.choice(words or range(1, 17), rows) for name, words in ADULT.items()}
    with gzip.open(path, "wt") as file:
        pd.DataFrame(columns).to_csv(file, index=False)


def made_small(smallest: Smallest) -> Any:
    """The benchmark's module, with its constants made small wherever a module of `bench` has them."""
    module = import_module(f"bench.{smallest.module}")
    for place, value in smallest.constants.items():
        *where, name = place.split(":")
        owner = import_module(f"bench.{where[0]}") if where else module
        before = getattr(owner, name)
        small = value(before) if callable(value) else value
        for other in [each for key, each in sys.modules.items() if key.startswith("bench.")]:
            if getattr(other, name, None) is before:
                setattr(other, name, small)
    return module


def run_here(name: str, data: str) -> None:
    """Run one benchmark in this process."""
    os.environ[PLAYED] = name
    smallest, out = SMALLEST[name], tempfile.mkdtemp()
    arguments = [each.replace("DATA", data).replace("OUT", out) for each in smallest.arguments]
    module = made_small(smallest)
    sys.argv = [smallest.module, *arguments]
    module.main()


def run(name: str, data: Path, folder: Path) -> tuple[str, str]:
    """How one benchmark ends in a process of its own, in `folder`, and what there is to say of it."""
    root = str(Path(__file__).parents[1])
    environment = {**os.environ, "FATE_DP_DATA": str(data), "OMP_NUM_THREADS": "1", "PYTHONPATH": root}
    command = [sys.executable, "-m", "bench.smoke", "--here", name, "--data", str(data)]
    try:
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return FAILED, f"not at its end after {PATIENCE_SECONDS} s"
    lines = ended.stdout.strip().splitlines()
    if ended.returncode:
        said = (ended.stderr.strip() or ended.stdout.strip() or "nothing").splitlines()
        missing = next((line for line in said if line.startswith(MISSING)), None)
        return (LEFT_OUT, f"{missing}; make bench-{name} installs it") if missing else (FAILED, "\n".join(said[-15:]))
    return RAN, lines[-1][:100] if lines else ""


def main() -> int:
    """Run all, or those that are named; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="benchmarks, as make names them behind bench- (all)")
    parser.add_argument("--here", choices=sorted(SMALLEST), help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        run_here(options.here, options.data)
        return 0
    if unknown := set(options.names) - set(SMALLEST):
        parser.error(f"NAME must be one of {', '.join(SMALLEST)}, got {', '.join(sorted(unknown))}")
    ends = dict.fromkeys((RAN, FAILED, LEFT_OUT), 0)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        data.mkdir()
        make_data(data)
        for name in options.names or SMALLEST:
            begun = time.perf_counter()
            end, told = run(name, data, Path(folder))
            ends[end] += 1
            print(f"{name}: {end}, {time.perf_counter() - begun:.0f} s. {told}", flush=True)
    print(
        json.dumps({"bench": "smoke", "figures": {key.lower().replace(" ", "_"): each for key, each in ends.items()}})
    )
    return 1 if ends[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
elif __name__ == "__mp_main__" and PLAYED in os.environ:
    made_small(SMALLEST[os.environ[PLAYED]])
