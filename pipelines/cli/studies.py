"""Data and studies: ``fate-dp prep``, ``upload-prepared``, ``run`` (a study with its report) and ``upload-examples``."""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fate_dp.deploy.flow import home_command
from fate_dp.privacy.validation import InvalidArgument

from .console import (
    Commands,
    TaskLines,
    add_command,
    add_flags,
    add_home,
    add_kinds,
    demo_server,
    given,
    parties_folder,
    running_server,
    wide_console,
)
from .tables import TextTable, print_table, print_text, table_of_cells

if TYPE_CHECKING:
    from rich.console import Console

    from ..lending_club.private_study import PrivateStudy
    from ..lending_club.result import Study

DEFAULT_ROWS, DEFAULT_SEED = 20000, 2024
COUNTS = {"loans": "rows", "columns": "columns"}
DEFAULT_OUT, FIRST_SEED, SYNTHETIC_ROWS, QUICK_ROWS = Path("out/lending-club"), 2024, 50_000, 20_000
HOMO_LR, PRIVATE_SEEDS = "homo-lr", 3
PARTS = (HOMO_LR, "rows", "columns", "transfer")
DATA_VARIABLE, LOANS = "FATE_DP_DATA", "lending_club.csv.gz"


def add_prep(commands: Commands) -> None:
    text = "prepare a raw data file for training: clean, hold out test rows, divide between parties, over-sample"
    kinds = add_kinds(commands, "prep", text, "what to prepare")
    text = "prepare Lending Club's public loan file (74 columns, 2007-2015)"
    command = add_command(kinds, "lending-club", text, prepare)
    command.add_argument("--csv", type=Path, required=True, help="the raw file, gzip or not, in any public edition")
    command.add_argument("--out", type=Path, required=True, help="folder to write; an earlier preparation is replaced")
    command.add_argument("--seed", type=int, help="of every random step (2024)")
    command.add_argument("--test-share", type=float, help="part of the loans held out for testing (0.3)")
    command.add_argument("--parties", type=_list, metavar="ID,ID", help="party ids, the guest first (9999,10000,9998)")
    command.add_argument("--shares", metavar="N,N", help="of the training loans per party (25,25,50)")
    command.add_argument("--skew", help="what the parties differ in: none, label or state (none)")
    command.add_argument("--concentration", type=float, help="of the skew; small is very skewed (1)")
    add_flags(command, "over-sampling", "neighbours")
    command.add_argument("--most-missing", type=_share, help="columns that miss more than this share are dropped (1/3)")
    command.add_argument("--units", help="raw, or public: clamped, centred and scaled by public constants (raw)")
    command.add_argument("--split", help="horizontal: parties hold loans, or vertical: columns (horizontal)")
    text = "vertical: columns of a party, once per party (application at the guest, credit file at the host)"
    command.add_argument("--columns", type=_list, action="append", metavar="NAME,NAME", help=text)
    text = "invent loans in the raw file's format, so that nothing needs a download"
    command = add_command(kinds, "lending-club-synthetic", text, invent)
    command.add_argument("--rows", type=int, default=DEFAULT_ROWS, help=f"number of loans ({DEFAULT_ROWS})")
    command.add_argument("--out", type=Path, required=True, help="file to write; compressed if it ends in .gz")
    command.add_argument("--seed", type=int, default=DEFAULT_SEED, help=f"of the random draws ({DEFAULT_SEED})")
    command.add_argument("--percent-signs", action="store_true", help="write rates with %% signs")
    command.add_argument("--plain-terms", action="store_true", help="write terms as 36, without the word months")
    command.add_argument("--index-column", action="store_true", help="begin with a column of row numbers")
    command.add_argument("--title-line", action="store_true", help="write a line above the header")
    text = "upload all tables of a prepared folder, once its hashes are checked"
    command = add_command(commands, "upload-prepared", text, upload)
    command.add_argument("folder", type=Path, metavar="DIR", help="what `fate-dp prep` has written")
    command.add_argument("--namespace", default="lending_club", help="of the tables (lending_club)")
    add_flags(command, "flow")
    add_home(command, "folder of the embedded server")


def prepare(options: argparse.Namespace) -> None:
    from fate_dp.data_prep.atomic_folder import check_target
    from fate_dp.data_prep.division import Shares
    from fate_dp.data_prep.lending_club.cleaning import clean
    from fate_dp.data_prep.lending_club.options import PrepOptions
    from fate_dp.data_prep.lending_club.preparation import divide
    from fate_dp.data_prep.lending_club.written import check_replaceable, write

    if options.shares is not None:
        options.shares = Shares.parse(options.shares).values
    chosen = PrepOptions(**given(options, PrepOptions))
    check_target(options.out, check_replaceable)
    console = wide_console()
    with ShareBar(console) as progress:
        loans = clean(options.csv, chosen.most_missing, progress.show)
        progress.show("dividing and over-sampling", None)
        division = divide(loans, chosen)
        manifest = write(loans, division, chosen, options.out, progress.show)
    print_preparation(manifest, console)
    console.print(f"Written: {options.out}", markup=False, highlight=False)


def invent(options: argparse.Namespace) -> None:
    from fate_dp.data_prep.lending_club.synthetic import Edition, write_synthetic

    edition = Edition(**given(options, Edition))
    with ShareBar(wide_console()) as progress:
        write_synthetic(options.out, options.rows, options.seed, edition, progress.show)
    wide_console().print(f"Written: {options.rows} invented loans in {options.out}", markup=False, highlight=False)


def upload(options: argparse.Namespace) -> None:
    from ..jobs.upload import upload_prepared

    address, home = running_server(options)
    console = wide_console()
    with TaskLines(console) as lines:
        names = upload_prepared(address, options.folder, options.namespace, lines.task, home)
    for path, name in names.items():
        console.print(f"{path} is now {options.namespace}/{name}", markup=False, highlight=False)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _share(text: str) -> float:
    """A number as people write shares: 0.5 or 2/3."""
    try:
        return float(Fraction(text.replace(" ", "")))
    except (ValueError, ZeroDivisionError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no share, such as 0.5 or 2/3") from error


class ShareBar:
    """How far a preparation is: one line with a bar, gone when it ends.

    Use as a context manager; `show(text, share)` is the progress callback, without a share where none is known.
    """

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        text = TextColumn("{task.description}", markup=False)
        columns = (text, BarColumn(), TimeElapsedColumn())
        # In a pipe or a file nothing can be taken back, and even a bar that is disabled ends with an empty line there.
        self._is_shown = console.is_terminal
        self._progress = Progress(*columns, console=console, transient=True, disable=not self._is_shown)
        self._task = self._progress.add_task("starting", total=None)

    def __enter__(self) -> ShareBar:
        if self._is_shown:
            self._progress.start()
        return self

    def __exit__(self, *failure: object) -> None:
        if self._is_shown:
            self._progress.stop()

    def show(self, text: str, share: float | None) -> None:
        """What is done now, and the share of it that is done."""
        if share is None:
            self._progress.reset(self._task, total=None, description=text)
        else:
            self._progress.update(self._task, description=text, total=1.0, completed=share)


def print_preparation(manifest: dict, console: Console) -> None:
    """Print steps, reasons, parties and files of a preparation, and below them what the user should know."""
    first, *others = steps = manifest["steps"]
    cells = [{"step": first["name"], **{name: f"{first[count]:,}" for name, count in COUNTS.items()}}]
    for before, after in zip(steps, others):
        changes = {name: f"{before[count]:,} -> {after[count]:,}" for name, count in COUNTS.items()}
        cells.append({"step": after["name"], **changes})
    print_table(console, f"{manifest['source']['file']}: what each step left", table_of_cells(cells))
    names: dict[str, list[str]] = {}
    for column, reason in manifest["dropped_columns"].items():
        names.setdefault(reason, []).append(column)
    reasons = tuple((reason, str(len(columns)), ", ".join(columns)) for reason, columns in names.items())
    table = TextTable(("reason", "number", "columns"), reasons, frozenset(("number",)))
    print_table(console, "Why columns were dropped", table)
    print_table(console, "Training loans of each party", table_of_cells(_party_cells(manifest)))
    if manifest["options"]["skew"] != "none":
        print_text(console, "Share: what a party gets on average over seeds; under a skew it may be far more or less.")
    if manifest["options"]["over_sampling"] != "none":
        print_text(console, "Influence: the most synthetic loans that any one real loan went into.")
    files = tuple(
        (path, f"{entry['rows']:,}", str(len(entry["columns"])), entry.get("table", "-"))
        for path, entry in manifest["files"].items()
        if "rows" in entry
    )
    table = TextTable(("file", "rows", "columns", "uploaded as"), files, frozenset(("rows", "columns")))
    print_table(console, "Files", table)
    for notice in (*manifest["notices"], manifest["record_privacy"]):
        print_text(console, notice)


def _party_cells(manifest: dict) -> Iterator[dict[str, str]]:
    """Training loans of each party by class, before and after over-sampling."""
    times = {"before": "", "after": ", after"}
    for entry in manifest["files"].values():
        if "share" in entry:
            yield {
                "party": f"{entry['role']} {entry['party_id']}",
                "share": "all" if entry["share"] is None else f"{100 * entry['share']:.4g} %",
                **{
                    f"{name}{when}": f"{entry[at][name]:,}"
                    for at, when in times.items()
                    for name in manifest["label_values"]
                },
                "influence": f"{entry['largest_influence']:,}",
            }


def add_run(commands: Commands) -> None:
    studies = add_kinds(commands, "run", "run a whole study, from a raw file to a report", "studies", "STUDY")
    text = "credit risk on Lending Club's loans: what institutions gain together, and what privacy costs them"
    command = add_command(studies, "lending-club", text, lending_club)
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
    add_flags(command, "over-sampling", "neighbours")
    command.add_argument("--shares", help="of the training rows, one per institution (25,25,50)")
    command.add_argument("--parties", type=_list, help="ids of the institutions, the guest first (9999,10000,9998)")
    command.add_argument("--epochs", type=int, help="rounds of HomoLR; FATE 2.2 cannot stop early (20)")
    command.add_argument("--alpha", type=float, help="strength of HomoLR's l2 penalty (1)")
    text = "send every seed of HomoLR through FATE-Flow, not the first one only"
    command.add_argument("--every-seed-on-flow", action="store_true", help=text)
    add_home(command)
    add_flags(command, "flow", "cold")


def lending_club(options: argparse.Namespace) -> None:
    from ..lending_club.private_result import print_private
    from ..lending_club.result import made_folder, write_credit_study
    from ..lending_club.study import Workplace, run_credit_study
    from ..lending_club.tables import print_credit_result

    study, console = study_of(options), wide_console()
    if options.flow:
        # Asked before minutes of work that would end at a server which is not there.
        running_server(options)
    with made_folder(options.out), TaskLines(console) as lines:
        if study.synthetic:
            generate(study.csv, rows_to_generate(options), options.seed, lines)
        place = Workplace(options.out, lambda: demo_server(options, lines), lines.task)
        result = run_credit_study(study, place)
        write_credit_study(result, options.out)
    if result["private"]:
        print_private(result["private"], console)
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
        "parties": options.parties,
    }
    stray = next((part for part in options.parts if part not in PARTS), None)
    if stray is not None:
        raise InvalidArgument(f"The part {stray!r} of --parts is unknown; allowed are {', '.join(PARTS)}.")
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
    from ..lending_club.private_study import PrivateStudy

    parts = tuple(part for part in options.parts if part != HOMO_LR)
    if not parts:
        return None
    if options.private_seeds is not None and not 1 <= options.private_seeds <= len(seeds):
        raise InvalidArgument(
            f"--private-seeds is {options.private_seeds}; allowed are 1 to {len(seeds)}, the number of seeds."
        )
    epsilons = tuple(map(_epsilon, options.epsilons)) if options.epsilons else (4.0,) if options.quick else None
    number = options.private_seeds or (1 if options.quick else PRIVATE_SEEDS)
    if options.trees is not None and options.trees < 1:
        raise InvalidArgument(f"--trees is {options.trees}; allowed is a whole number of at least 1.")
    trees = options.trees or (2 if options.quick else None)
    changes = {"epsilons": epsilons, "parties": preparation["parties"], "shares": preparation["shares"]}
    return _changed(PrivateStudy(seeds=seeds[:number], parts=parts, trees=trees), changes)


def _epsilon(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InvalidArgument(f"--epsilons has {text!r}; allowed are numbers greater than 0 with commas between.")
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
    from fate_dp.data_prep.lending_club.synthetic import write_synthetic

    begin, task = time.monotonic(), f"generate {rows} loans"
    lines.task("study", task, "running", 0.0)
    write_synthetic(path, rows, seed)
    lines.task("study", task, "success", time.monotonic() - begin)


def add_upload_examples(commands: Commands) -> None:
    text = "make and upload the tables that conf/ and examples/ read; tables of the same names are replaced"
    command = add_command(commands, "upload-examples", text, upload_examples)
    text = (
        "files of conf/ without .yaml, such as private_homo_nn, or folders of examples/pipeline/, such as dp_hetero_lr;"
    )
    command.add_argument("jobs", nargs="*", metavar="JOB", help=f"{text} all unless given")
    text = "where default_credit of FATE's examples lies; made up unless given"
    command.add_argument("--data", type=Path, metavar="FOLDER", help=text)
    add_flags(command, "flow")
    add_home(command, "folder of the embedded server")


def upload_examples(options: argparse.Namespace) -> None:
    from ..jobs.example_tables import Destination, makers_of

    if options.data is not None and not options.data.is_dir():
        raise ValueError(f"--data {options.data} is not a folder.")
    makers = makers_of(options.jobs)
    address, home = running_server(options)
    console = wide_console()
    with TaskLines(console) as lines, tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as threads:
        destination = Destination(address, parties_folder(options), home, lines.task, options.data)
        names = list(threads.map(lambda make: make(destination, Path(folder)), makers))
    console.print(f"Uploaded: {', '.join(sum(names, []))}", markup=False, highlight=False)
