"""``fate-dp prep`` and ``fate-dp upload-prepared``: from a raw loan file to tables of the parties."""
from __future__ import annotations

import argparse
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

DEFAULT_ROWS, DEFAULT_SEED = 20000, 2024


def add_prep(commands) -> None:
    """Add ``prep lending-club``, ``prep lending-club-synthetic`` and ``upload-prepared`` to the command line."""
    text = "prepare a raw data file for training: clean, hold out test rows, divide between parties, over-sample"
    kinds = commands.add_parser("prep", help=text, description=_sentence(text)).add_subparsers(
        title="what to prepare", metavar="WHAT", required=True
    )
    _add_lending_club(kinds)
    _add_synthetic(kinds)
    _add_upload(commands)


def _add_lending_club(kinds) -> None:
    text = "prepare Lending Club's public loan file (74 columns, 2007-2015)"
    command = _command(kinds, "lending-club", text, prepare)
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
    command.add_argument(
        "--most-missing", type=_share, help="columns that miss more than this share are dropped (1/3)")
    command.add_argument("--units", help="raw, or public: clamped, centred and scaled by public constants (raw)")
    command.add_argument("--split", help="horizontal: parties hold loans, or vertical: columns (horizontal)")
    command.add_argument(
        "--columns", type=_list, action="append", metavar="NAME,NAME",
        help="vertical: columns of a party, once per party (application at the guest, credit file at the host)",
    )  # fmt: skip


def _add_synthetic(kinds) -> None:
    text = "invent loans in the raw file's format, so that nothing needs a download"
    command = _command(kinds, "lending-club-synthetic", text, invent)
    command.add_argument("--rows", type=int, default=DEFAULT_ROWS, help=f"number of loans ({DEFAULT_ROWS})")
    command.add_argument("--out", type=Path, required=True, help="file to write; compressed if it ends in .gz")
    command.add_argument("--seed", type=int, default=DEFAULT_SEED, help=f"of the random draws ({DEFAULT_SEED})")
    command.add_argument("--percent-signs", action="store_true", help="write rates with %% signs")
    command.add_argument("--plain-terms", action="store_true", help="write terms as 36, without the word months")
    command.add_argument("--index-column", action="store_true", help="begin with a column of row numbers")
    command.add_argument("--title-line", action="store_true", help="write a line above the header")


def _add_upload(commands) -> None:
    command = _command(
        commands, "upload-prepared", "upload all tables of a prepared folder, once its hashes are checked", upload)
    command.add_argument("folder", type=Path, metavar="DIR", help="what `fate-dp prep` has written")
    command.add_argument("--namespace", default="lending_club", help="of the tables (lending_club)")
    command.add_argument("--flow", metavar="HOST:PORT", help="use a FATE-Flow that already runs")
    command.add_argument("--home", type=Path, default=Path(".fate-dp"), help="folder of the embedded server (.fate-dp)")


def _command(kinds, name: str, text: str, run) -> argparse.ArgumentParser:
    command = kinds.add_parser(name, help=text, description=_sentence(text))
    command.set_defaults(run=run)
    return command


def prepare(options) -> None:
    from fate_dp.data_prep.atomic_folder import check_target
    from fate_dp.data_prep.lending_club.cleaning import CleaningRules, clean
    from fate_dp.data_prep.lending_club.manifest import check_replaceable
    from fate_dp.data_prep.lending_club.options import PrepOptions
    from fate_dp.data_prep.lending_club.preparation import divide
    from fate_dp.data_prep.lending_club.written import write
    from fate_dp.data_prep.shares import Shares

    from .prep_tables import print_preparation

    if options.shares is not None:
        options.shares = Shares.parse(options.shares).values
    chosen = PrepOptions(**_asked(options, PrepOptions))
    check_target(options.out, check_replaceable)
    with _progress() as progress:
        loans = clean(options.csv, CleaningRules(chosen.most_missing), progress.show)
        progress.show("dividing and over-sampling", None)
        division = divide(loans, chosen)
        manifest = write(loans, division, chosen, options.out, progress.show)
    console = _console()
    print_preparation(manifest, console)
    console.print(f"Written: {options.out}", markup=False, highlight=False)


def invent(options) -> None:
    from fate_dp.data_prep.lending_club.synthetic import write_synthetic
    from fate_dp.data_prep.lending_club.synthetic_lines import Edition

    edition = Edition(**{item.name: getattr(options, item.name) for item in fields(Edition)})
    with _progress() as progress:
        write_synthetic(options.out, options.rows, options.seed, edition, progress.show)
    _console().print(f"Written: {options.rows} invented loans in {options.out}", markup=False, highlight=False)


def upload(options) -> None:
    from .flow import resolve_flow
    from .progress import TaskLines
    from .upload_prepared import upload_prepared

    address = resolve_flow(options.flow, options.home)
    home = None if options.flow else options.home
    console = _console()
    with TaskLines(console) as lines:
        names = upload_prepared(address, options.folder, options.namespace, lines.task, home)
    for path, name in names.items():
        console.print(f"{path} is now {options.namespace}/{name}", markup=False, highlight=False)


def _asked(options, kind) -> dict:
    """What was given on the command line, so that the defaults stand in one place."""
    given = {item.name: getattr(options, item.name) for item in fields(kind)}
    return {name: value for name, value in given.items() if value is not None}


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _share(text: str) -> float:
    """A number as people write shares: 0.5 or 2/3."""
    try:
        return float(Fraction(text.replace(" ", "")))
    except (ValueError, ZeroDivisionError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no share, such as 0.5 or 2/3") from error


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _progress():
    from .prep_progress import ShareBar

    return ShareBar(_console())


def _console():
    from .cli import wide_console

    return wide_console()
