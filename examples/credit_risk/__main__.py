"""``python -m examples.credit_risk``: what institutions gain together on Lending Club's loans, and what privacy costs them."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from examples.synthetic_loans import write_synthetic
from fate_dp.data_prep.division import Shares
from fate_dp.deploy.flow import home_command
from fate_dp.pipelines.cli.console import TaskLines, add_arguments, demo_server, running_server, wide_console
from fate_dp.pipelines.cli.main import run_command
from fate_dp.privacy.validation import InvalidArgument

from .private_runs import PrivateStudy
from .report import print_result
from .result import write_result
from .study import PREPARATION, Study, Workplace, made_folder, run_credit_study

DEFAULT_OUT, FIRST_SEED, SYNTHETIC_ROWS, QUICK_ROWS = Path("out/lending-club"), 2024, 50_000, 20_000
HOMO_LR, PRIVATE_SEEDS = "homo-lr", 3
PARTS = (HOMO_LR, "rows", "columns", "transfer")
DATA_VARIABLE, LOANS = "FATE_DP_DATA", "lending_club.csv.gz"


def main(arguments: list[str] | None = None) -> int:
    """The exit status; a refusal is one sentence on standard error and status 1."""
    return run_command(parser(), arguments)


def parser() -> argparse.ArgumentParser:
    text = "Credit risk on Lending Club's loans: what institutions gain together, and what privacy costs them."
    command = argparse.ArgumentParser(prog="python -m examples.credit_risk", description=text)
    command.set_defaults(run=run)
    data = command.add_mutually_exclusive_group()
    data.add_argument(
        "--csv", type=Path, metavar="FILE", help=f"Lending Club's raw loan file (${DATA_VARIABLE}/{LOANS})"
    )
    text = (
        f"generate that many raw loans and study them; so it is without any file ({SYNTHETIC_ROWS}, quick {QUICK_ROWS})"
    )
    data.add_argument("--synthetic", type=int, metavar="ROWS", help=text)
    command.add_argument("--out", type=Path, default=DEFAULT_OUT, help=f"where results go ({DEFAULT_OUT})")
    text = f"what is studied, with commas between: {', '.join(PARTS)} (all of them)"
    command.add_argument("--parts", type=_list, default=PARTS, help=text)
    text = "one seed, epsilon 4 alone, and no comparison of ways to balance and of shares: to see that everything runs"
    command.add_argument("--quick", action="store_true", help=text)
    text = "epsilons of the private models, with commas between (8,4,1)"
    command.add_argument("--epsilons", type=_list, metavar="N,N", help=text)
    text = "how many of the seeds train private models, all of them on FATE-Flow (3)"
    command.add_argument("--private-seeds", type=int, help=text)
    text = "trees of FATE's SecureBoost on flips, which take most of the time (40; quick 2)"
    command.add_argument("--trees", type=int, help=text)
    command.add_argument("--seeds", type=int, help="repetitions, each with new splits and samples (10)")
    command.add_argument("--seed", type=int, default=FIRST_SEED, help=f"the first; the others follow ({FIRST_SEED})")
    add_arguments(command, dict.fromkeys(("--over-sampling", "--neighbours")))
    command.add_argument("--shares", help="of the training rows, one per institution (25,25,50)")
    command.add_argument("--parties", type=_list, help="ids of the institutions, the guest first (9999,10000,9998)")
    command.add_argument("--epochs", type=int, help="rounds of HomoLR; FATE 2.2 cannot stop early (20)")
    command.add_argument("--alpha", type=float, help="strength of HomoLR's l2 penalty (1)")
    text = "send every seed of HomoLR through FATE-Flow, not the first one only"
    command.add_argument("--every-seed-on-flow", action="store_true", help=text)
    add_arguments(command, dict.fromkeys(("--home", "--flow", "--cold")))
    return command


def run(options: argparse.Namespace) -> None:
    study, console = study_of(options), wide_console()
    if options.flow:
        # Asked before minutes of work that would end at a server which is not there.
        running_server(options)
    with made_folder(options.out), TaskLines(console) as lines:
        if study.synthetic:
            generate(study.csv, rows_to_generate(options), options.seed, lines)
        result = run_credit_study(study, Workplace(options.out, lambda: demo_server(options, lines), lines.task))
        write_result(result, options.out)
    print_result(result, console)
    console.print(f"Report: {options.out / 'report.html'}   Result: {options.out / 'result.json'}")
    if not options.flow:
        stop = home_command("down", options.home)
        console.print(f"FATE-Flow keeps running so that the next job starts at once; `{stop}` stops it.")


def study_of(options: argparse.Namespace) -> Study:
    """The study that the flags ask for; what was not given keeps the defaults of the library."""
    preparation = {
        "over_sampling": options.over_sampling,
        "neighbours": options.neighbours,
        "shares": None if options.shares is None else Shares.parse(options.shares).values,
        "parties": options.parties,
    }
    stray = next((part for part in options.parts if part not in PARTS), None)
    if stray is not None:
        raise InvalidArgument.of("a part of --parts", stray, f"one of {', '.join(PARTS)}")
    without_privacy, csv = HOMO_LR in options.parts, raw_file(options)
    usual = 1 if options.quick else 10 if without_privacy else options.private_seeds or PRIVATE_SEEDS
    number = usual if options.seeds is None else options.seeds
    seeds = tuple(range(options.seed, options.seed + number))
    return Study(
        csv=csv or options.out / "synthetic.csv.gz",
        synthetic=csv is None,
        preparation=_changed(PREPARATION, preparation),
        settings=_changed(Study.settings, {"epochs": options.epochs, "alpha": options.alpha}),
        seeds=seeds,
        flow_seeds=(seeds if options.every_seed_on_flow else seeds[:1]) if without_privacy else (),
        private=private_study_of(options, seeds, preparation),
        compared=without_privacy and not options.quick,
    )


def private_study_of(options: argparse.Namespace, seeds: tuple[int, ...], preparation: dict) -> PrivateStudy | None:
    """The private study that the flags ask for; None where none of its parts is wanted."""
    parts = tuple(part for part in options.parts if part != HOMO_LR)
    if not parts:
        return None
    if options.private_seeds is not None and not 1 <= options.private_seeds <= len(seeds):
        raise InvalidArgument.of(
            "--private-seeds", options.private_seeds, f"from 1 to {len(seeds)}, the number of seeds"
        )
    epsilons = tuple(map(_epsilon, options.epsilons)) if options.epsilons else (4.0,) if options.quick else None
    number = options.private_seeds or (1 if options.quick else PRIVATE_SEEDS)
    if options.trees is not None and options.trees < 1:
        raise InvalidArgument.of("--trees", options.trees, "a whole number of at least 1")
    trees = options.trees or (2 if options.quick else None)
    changes = {"epsilons": epsilons, "parties": preparation["parties"], "shares": preparation["shares"]}
    return _changed(PrivateStudy(seeds=seeds[:number], parts=parts, trees=trees), changes)


def _epsilon(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InvalidArgument.of("--epsilons", text, "numbers greater than 0 with commas between")
    return value


def raw_file(options: argparse.Namespace) -> Path | None:
    """The loan file to study: the one that was named, else that of the data folder; None where loans are to be generated."""
    if options.csv is not None or options.synthetic is not None:
        return options.csv
    folder = os.environ.get(DATA_VARIABLE)
    path = Path(folder) / LOANS if folder else None
    return path if path is not None and path.is_file() else None


def rows_to_generate(options: argparse.Namespace) -> int:
    return options.synthetic or (QUICK_ROWS if options.quick else SYNTHETIC_ROWS)


def _changed(defaults: Any, given: dict) -> Any:
    return replace(defaults, **{name: value for name, value in given.items() if value is not None})


def generate(path: Path, rows: int, seed: int, lines: TaskLines) -> None:
    """Write the raw file of generated loans that stands in for Lending Club's."""
    begin, task = time.monotonic(), f"generate {rows} loans"
    lines.task("study", task, "running", 0.0)
    write_synthetic(path, rows, seed)
    lines.task("study", task, "success", time.monotonic() - begin)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
