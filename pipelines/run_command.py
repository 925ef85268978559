"""The ``fate-dp run`` command: its flags, and from them to a study, its report and its tables."""
from __future__ import annotations

import argparse
from pathlib import Path

from fate_dp.deploy.home_command import home_command

DEFAULT_OUT, FIRST_SEED, SYNTHETIC_ROWS = Path("out/lending-club"), 2024, 50_000


def add_run(commands) -> None:
    """Add ``run lending-club-homo-lr`` to the command line."""
    text = "run a whole study, from a raw file to a report"
    studies = commands.add_parser("run", help=text, description=text[0].upper() + text[1:] + ".").add_subparsers(
        title="studies", metavar="STUDY", required=True
    )
    text = "credit risk on Lending Club's loans: one model of three institutions, against central and each alone"
    command = studies.add_parser("lending-club-homo-lr", help=text, description=text[0].upper() + text[1:] + ".")
    command.set_defaults(run=lending_club_homo_lr)
    _add_data(command)
    _add_settings(command)
    _add_places(command)


def _add_data(command: argparse.ArgumentParser) -> None:
    data = command.add_mutually_exclusive_group()
    data.add_argument("--csv", type=Path, metavar="FILE", help="Lending Club's raw loan file, gzip or not")
    data.add_argument(
        "--synthetic", type=int, metavar="ROWS", default=SYNTHETIC_ROWS,
        help=f"without --csv: generate that many raw loans and study them ({SYNTHETIC_ROWS})",
    )  # fmt: skip
    command.add_argument("--out", type=Path, default=DEFAULT_OUT, help=f"where results go ({DEFAULT_OUT})")


def _add_settings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seeds", type=int, default=10, help="repetitions, each with new splits and samples (10)")
    command.add_argument("--seed", type=int, default=FIRST_SEED, help=f"the first; the others follow ({FIRST_SEED})")
    command.add_argument("--over-sampling", help="smotenc, smotenc_parents, smote or none (smotenc)")
    command.add_argument("--neighbours", type=int, help="nearest loans that a synthetic one may be drawn towards (5)")
    command.add_argument("--shares", help="of the training rows, one per institution (25,25,50)")
    command.add_argument("--parties", help="ids of the institutions, the guest first (9999,10000,9998)")
    command.add_argument("--epochs", type=int, help="rounds of HomoLR; FATE 2.2 cannot stop early (20)")
    command.add_argument("--alpha", type=float, help="strength of HomoLR's l2 penalty (1)")


def _add_places(command: argparse.ArgumentParser) -> None:
    from .cli import add_cold

    command.add_argument(
        "--every-seed-on-flow", action="store_true", help="send every seed through FATE-Flow, not the first one only"
    )
    command.add_argument(
        "--home", type=Path, default=Path(".fate-dp"), help="folder of the embedded server and the parties (.fate-dp)"
    )
    command.add_argument("--flow", metavar="HOST:PORT", help="use a FATE-Flow that already runs")
    add_cold(command)


def lending_club_homo_lr(options) -> None:
    from .cli import demo_server, wide_console
    from .credit_result import made_folder, write_credit_study
    from .credit_study import Workplace, run_credit_study
    from .credit_tables import print_credit_result
    from .flow import resolve_flow
    from .progress import TaskLines

    study, console = study_of(options), wide_console()
    if options.flow:
        # Asked before minutes of work that would end at a server which is not there.
        resolve_flow(options.flow, options.home)
    with made_folder(options.out), TaskLines(console) as lines:
        if options.csv is None:
            generate(study.csv, options, lines)
        place = Workplace(options.out, lambda: demo_server(options, lines), lines.task)
        result = run_credit_study(study, place)
        write_credit_study(result, options.out)
    print_credit_result(result, console)
    console.print(f"Report: {options.out / 'report.html'}   Result: {options.out / 'result.json'}")
    if not options.flow:
        stop = home_command("down", options.home)
        console.print(f"FATE-Flow still runs, so that the next job starts at once; `{stop}` stops it.")


def study_of(options):
    """The study that the flags ask for; what was not given keeps the defaults of the library."""
    from fate_dp.data_prep.shares import Shares

    from .credit_study import PREPARATION, Study

    preparation = {
        "over_sampling": options.over_sampling,
        "neighbours": options.neighbours,
        "shares": None if options.shares is None else Shares.parse(options.shares).values,
        "parties": None if options.parties is None else tuple(party.strip() for party in options.parties.split(",")),
    }
    seeds = tuple(range(options.seed, options.seed + options.seeds))
    return Study(
        csv=options.csv or options.out / "synthetic.csv.gz",
        synthetic=options.csv is None,
        preparation=_changed(PREPARATION, preparation),
        settings=_changed(Study.settings, {"epochs": options.epochs, "alpha": options.alpha}),
        seeds=seeds,
        flow_seeds=seeds if options.every_seed_on_flow else seeds[:1],
    )


def _changed(defaults, given: dict):
    from dataclasses import replace

    return replace(defaults, **{name: value for name, value in given.items() if value is not None})


def generate(path: Path, options, lines) -> None:
    """Write the raw file of generated loans that stands in for Lending Club's."""
    import time

    from fate_dp.data_prep.lending_club.synthetic import write_synthetic

    begin, task = time.monotonic(), f"generate {options.synthetic} loans"
    lines.task("study", task, "running", 0.0)
    write_synthetic(path, options.synthetic, options.seed)
    lines.task("study", task, "success", time.monotonic() - begin)
