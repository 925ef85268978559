"""The commands ``fate-dp run``, a study with its report and its tables, and ``fate-dp upload-examples``."""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fate_dp.deploy.flow import home_command

from .console import Commands, TaskLines, add_cold, add_command, add_flow, add_home, add_kinds

if TYPE_CHECKING:
    from ..lending_club.result import Study

DEFAULT_OUT, FIRST_SEED, SYNTHETIC_ROWS = Path("out/lending-club"), 2024, 50_000


def add_run(commands: Commands) -> None:
    """Add ``run lending-club-homo-lr`` to the command line."""
    studies = add_kinds(commands, "run", "run a whole study, from a raw file to a report", "studies", "STUDY")
    text = "credit risk on Lending Club's loans: one model of three institutions, against central and each alone"
    command = add_command(studies, "lending-club-homo-lr", text, lending_club_homo_lr)
    data = command.add_mutually_exclusive_group()
    data.add_argument("--csv", type=Path, metavar="FILE", help="Lending Club's raw loan file, gzip or not")
    data.add_argument(
        "--synthetic",
        type=int,
        metavar="ROWS",
        default=SYNTHETIC_ROWS,
        help=f"without --csv: generate that many raw loans and study them ({SYNTHETIC_ROWS})",
    )
    command.add_argument("--out", type=Path, default=DEFAULT_OUT, help=f"where results go ({DEFAULT_OUT})")
    command.add_argument("--seeds", type=int, default=10, help="repetitions, each with new splits and samples (10)")
    command.add_argument("--seed", type=int, default=FIRST_SEED, help=f"the first; the others follow ({FIRST_SEED})")
    command.add_argument("--over-sampling", help="smotenc, smotenc_parents, smote or none (smotenc)")
    command.add_argument("--neighbours", type=int, help="nearest loans that a synthetic one may be drawn towards (5)")
    command.add_argument("--shares", help="of the training rows, one per institution (25,25,50)")
    command.add_argument("--parties", help="ids of the institutions, the guest first (9999,10000,9998)")
    command.add_argument("--epochs", type=int, help="rounds of HomoLR; FATE 2.2 cannot stop early (20)")
    command.add_argument("--alpha", type=float, help="strength of HomoLR's l2 penalty (1)")
    command.add_argument(
        "--every-seed-on-flow", action="store_true", help="send every seed through FATE-Flow, not the first one only"
    )
    add_home(command, "folder of the embedded server and the parties")
    add_flow(command)
    add_cold(command)


def lending_club_homo_lr(options: argparse.Namespace) -> None:
    from ..jobs.flow import resolve_flow
    from ..lending_club.result import made_folder, write_credit_study
    from ..lending_club.study import Workplace, run_credit_study
    from ..lending_club.tables import print_credit_result
    from .console import demo_server, wide_console

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


def study_of(options: argparse.Namespace) -> Study:
    """The study that the flags ask for; what was not given keeps the defaults of the library."""
    from fate_dp.data_prep.division import Shares

    from ..lending_club.result import PREPARATION, Study

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


def _changed(defaults: Any, given: dict) -> Any:
    return replace(defaults, **{name: value for name, value in given.items() if value is not None})


def generate(path: Path, options: argparse.Namespace, lines: TaskLines) -> None:
    """Write the raw file of generated loans that stands in for Lending Club's."""
    from fate_dp.data_prep.lending_club.synthetic import write_synthetic

    begin, task = time.monotonic(), f"generate {options.synthetic} loans"
    lines.task("study", task, "running", 0.0)
    write_synthetic(path, options.synthetic, options.seed)
    lines.task("study", task, "success", time.monotonic() - begin)


def add_upload_examples(commands: Commands) -> None:
    """Add ``upload-examples`` to the command line: the tables that the jobs in conf/ and the scripts in examples/ read."""
    text = "make and upload the tables that conf/ and examples/ read; tables of the same names are replaced"
    command = add_command(commands, "upload-examples", text, upload_examples)
    command.add_argument(
        "jobs",
        nargs="*",
        metavar="JOB",
        help="files of conf/ without .yaml, such as private_homo_nn, or folders of examples/pipeline/, such as dp_hetero_lr; "
        "all unless given",
    )
    command.add_argument(
        "--data", type=Path, metavar="FOLDER", help="where default_credit of FATE's examples lies; made up unless given"
    )
    add_flow(command)
    add_home(command, "folder of the embedded server")


def upload_examples(options: argparse.Namespace) -> None:
    """Make the tables in a folder for the time being, upload them, and say what they are called."""
    from fate_dp.deploy.flow.home import open_home
    from fate_dp.privacy import private_files

    from ..jobs.example_tables import Destination, makers_of
    from ..jobs.flow import resolve_flow
    from .console import wide_console

    if options.data is not None and not options.data.is_dir():
        raise ValueError(f"--data {options.data} is not a folder.")
    makers = makers_of(options.jobs)
    address = resolve_flow(options.flow, options.home)
    home = None if options.flow else options.home
    parties = private_files.parties_folder() if options.flow else open_home(options.home).parties
    console = wide_console()
    with TaskLines(console) as lines, tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as threads:
        destination = Destination(address, parties, home, lines.task, options.data)
        names = list(threads.map(lambda make: make(destination, Path(folder)), makers))
    console.print(f"Uploaded: {', '.join(sum(names, []))}", markup=False, highlight=False)
