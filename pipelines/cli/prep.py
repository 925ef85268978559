"""``fate-dp prep`` and ``fate-dp upload-prepared``: from a raw loan file to tables of the parties."""

from __future__ import annotations

import argparse
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from .console import Commands, add_command, add_flow, add_home, add_kinds, given
from .tables import TextTable, print_table, print_text

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_ROWS, DEFAULT_SEED = 20000, 2024
COUNTS = ("rows", "columns")


def add_prep(commands: Commands) -> None:
    """Add ``prep lending-club``, ``prep lending-club-synthetic`` and ``upload-prepared`` to the command line."""
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
    command.add_argument("--over-sampling", help="smotenc, smotenc_parents, smote or none (smotenc)")
    command.add_argument("--neighbours", type=int, help="nearest loans that a synthetic one may be drawn towards (5)")
    command.add_argument("--most-missing", type=_share, help="columns that miss more than this share are dropped (1/3)")
    command.add_argument("--units", help="raw, or public: clamped, centred and scaled by public constants (raw)")
    command.add_argument("--split", help="horizontal: parties hold loans, or vertical: columns (horizontal)")
    command.add_argument(
        "--columns",
        type=_list,
        action="append",
        metavar="NAME,NAME",
        help="vertical: columns of a party, once per party (application at the guest, credit file at the host)",
    )
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
    add_flow(command)
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
    with ShareBar(_console()) as progress:
        loans = clean(options.csv, chosen.most_missing, progress.show)
        progress.show("dividing and over-sampling", None)
        division = divide(loans, chosen)
        manifest = write(loans, division, chosen, options.out, progress.show)
    console = _console()
    print_preparation(manifest, console)
    console.print(f"Written: {options.out}", markup=False, highlight=False)


def invent(options: argparse.Namespace) -> None:
    from fate_dp.data_prep.lending_club.synthetic import Edition, write_synthetic

    edition = Edition(**{item.name: getattr(options, item.name) for item in fields(Edition)})
    with ShareBar(_console()) as progress:
        write_synthetic(options.out, options.rows, options.seed, edition, progress.show)
    _console().print(f"Written: {options.rows} invented loans in {options.out}", markup=False, highlight=False)


def upload(options: argparse.Namespace) -> None:
    from ..jobs.flow import resolve_flow
    from ..jobs.upload import upload_prepared
    from .console import TaskLines

    address = resolve_flow(options.flow, options.home)
    home = None if options.flow else options.home
    console = _console()
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


def _console() -> Console:
    from .console import wide_console

    return wide_console()


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


# What a preparation did, as tables in a terminal, from its manifest.


def step_table(manifest: dict) -> TextTable:
    """Loans and columns before and after each step."""
    steps = manifest["steps"]
    rows = [(steps[0]["name"], *(f"{steps[0][count]:,}" for count in COUNTS))]
    for before, after in zip(steps, steps[1:]):
        rows.append((after["name"], *(f"{before[count]:,} -> {after[count]:,}" for count in COUNTS)))
    return TextTable(("step", "loans", "columns"), tuple(rows), frozenset(("loans", "columns")))


def reason_table(manifest: dict) -> TextTable:
    """Dropped columns by reason."""
    names: dict[str, list[str]] = {}
    for column, reason in manifest["dropped_columns"].items():
        names.setdefault(reason, []).append(column)
    rows = tuple((reason, str(len(columns)), ", ".join(columns)) for reason, columns in names.items())
    return TextTable(("reason", "number", "columns"), rows, frozenset(("number",)))


def party_table(manifest: dict) -> TextTable:
    """Training loans of each party by class, before and after over-sampling."""
    classes = list(manifest["label_values"])
    headings = ("party", "share", *(f"{name}{when}" for when in ("", ", after") for name in classes), "influence")
    rows = tuple(
        (
            f"{entry['role']} {entry['party_id']}",
            "all" if entry["share"] is None else f"{100 * entry['share']:.4g} %",
            *(f"{entry[when][name]:,}" for when in ("before", "after") for name in classes),
            f"{entry['largest_influence']:,}",
        )
        for entry in manifest["files"].values()
        if "share" in entry
    )
    return TextTable(headings, rows, frozenset(headings[1:]))


def file_table(manifest: dict) -> TextTable:
    """The written tables."""
    rows = tuple(
        (path, f"{entry['rows']:,}", str(len(entry["columns"])), entry.get("table", "-"))
        for path, entry in manifest["files"].items()
        if "rows" in entry
    )
    return TextTable(("file", "rows", "columns", "uploaded as"), rows, frozenset(("rows", "columns")))


def print_preparation(manifest: dict, console: Console) -> None:
    """Print steps, reasons, parties and files, and below them what the user should know."""
    print_table(console, f"{manifest['source']['file']}: what each step left", step_table(manifest))
    print_table(console, "Why columns were dropped", reason_table(manifest))
    print_table(console, "Training loans of each party", party_table(manifest))
    if manifest["options"]["skew"] != "none":
        print_text(console, "Share: what a party gets on average over seeds; under a skew it may be far more or less.")
    if manifest["options"]["over_sampling"] != "none":
        print_text(console, "Influence: the most synthetic loans that any one real loan went into.")
    print_table(console, "Files", file_table(manifest))
    for notice in (*manifest["notices"], manifest["record_privacy"]):
        print_text(console, notice)
