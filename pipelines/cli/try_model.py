"""``fate-dp try``: a first model of two files in one command; ``fate-dp plan scorecard`` and ``binning``, which print as it does."""

from __future__ import annotations

import argparse
import runpy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .console import Commands, TaskLines, add_command, add_flags, add_home, add_kinds, given, table_facts, wide_console

if TYPE_CHECKING:
    from rich.console import Console

    from ..jobs.scorecard_plan import CardPlan

MODELS = {
    "scorecard": "a private scorecard: bins, points, PMML, a page, and what it is worth on held-out rows",
    "lr": "logistic regression on flipped labels",
    "trees": "FATE's SecureBoost on flipped labels",
}
EXAMPLE = "Example: fate-dp try scorecard bank.csv shop.csv --id customer=客户号 --label default --epsilon 1"
TOLD = (
    "Noise is a standard deviation in records, in one bin. Errors are standard errors in a bin of average size, of which "
    "{:.0%} have the label 1, by noise alone and before a ridge draws weights to 0; clear from is the number of records from "
    "which the error of a WOE is below 0.1."
)


def add_try(commands: Commands) -> None:
    kinds = add_kinds(
        commands, "try", "a first private model of two CSV files in one command", "what to train", "MODEL"
    )
    for name, text in MODELS.items():
        command = add_command(kinds, name, text, partial(try_model, name), epilog=EXAMPLE)
        command.add_argument("guest", metavar="GUEST.csv", type=Path, help="the file with the label")
        command.add_argument("host", metavar="HOST.csv", type=Path, help="the other party's file")
        command.add_argument("--id", required=True, metavar="A=B", help="their id columns; A if both have this name")
        command.add_argument("--label", required=True, help="column of GUEST.csv: 1 for the event, else 0")
        command.add_argument("--epsilon", type=float, required=True, help="in nats, for everything together")
        if name == "scorecard":
            text = "YAML of rules, {guest: {column: rule}, host: ...}; private quantiles unless given"
            command.add_argument("--bins", type=Path, help=text)
            command.add_argument("--delta", type=float, help="delta of the noise (1e-06)")
            command.add_argument(
                "--folds", dest="most_folds", type=int, help="most folds; 0 holds out a fifth of the rows (5)"
            )
            command.add_argument("--hide-host-names", action="store_true", help="call the host's columns x0, x1, ...")
        add_flags(command, "missing", "categories", "special", "range")
        command.add_argument("--out", type=Path, default=Path("out/try"), help="where results go (out/try)")
        command.add_argument("--dry-run", action="store_true", help="print cost and noise, and do nothing")
        command.add_argument("--write", metavar="JOB.py", type=Path, help="write the job, to edit, and do not run it")
        add_home(command)


def try_model(model: str, options: argparse.Namespace) -> None:
    """Check, plan, print; then write the job, and run it unless it is only asked for."""
    from fate_dp.privacy.private_files import atomic_write

    from ..jobs.first_model import SCORECARD, FirstModel

    guest_id, _, host_id = options.id.partition("=")
    asked = {
        **given(options, FirstModel),
        "files": (options.guest, options.host),
        "ids": (guest_id, host_id or guest_id),
    }
    named = not getattr(options, "hide_host_names", False)
    first = FirstModel(model, **{**asked, "facts": table_facts(options), "names": named})
    print(*first.check(), sep="\n")
    if model == SCORECARD:
        print_card_plan(first.plan, wide_console())
    if options.dry_run:
        return
    path = options.write or options.out / "job.py"
    atomic_write(path, first.source())
    if options.write:
        print(f"Wrote {path}; `python {path}` runs it.")
        return
    with TaskLines(wide_console()) as lines:
        runpy.run_path(str(path))["main"](partial(lines.task, model), lines.sentence)
    print(f"Results: {options.out}")


def print_card_plan(plan: CardPlan, console: Console) -> None:
    from ..jobs.text_tables import print_table, print_text, rounded_up, table_of_cells

    asked = plan.request
    noise = {"noise on records": "records", "noise on label 1": "events"}
    rows = (
        {
            "party": row.party,
            "epsilon of bins": f"{row.bins_epsilon:g}",
            "of each training": f"{row.epsilon:g}",
            **{heading: rounded_up(getattr(row, f"noise_of_{of}")) for heading, of in noise.items()},
            **{f"error of {of}": rounded_up(getattr(row, f"error_of_{of.lower()}")) for of in ("WOE", "points")},
            "clear from": f"{row.clear_from:,}",
        }
        for row in plan.rows
    )
    size = f"{asked.records:,} records, {asked.guest_columns} and {asked.host_columns} columns of {asked.bins} bins"
    title = f"Noise at epsilon {asked.epsilon:g}, delta {asked.delta:g}: {size}, {asked.folds} folds"
    print_table(console, title, table_of_cells(rows))
    print_text(console, TOLD.format(asked.event_share))


def add_card_flags(command: argparse.ArgumentParser, kind: str) -> None:
    for whose in ("records", "guest-columns", "host-columns"):
        command.add_argument(f"--{whose}", type=int, required=True, help=f"how many {whose.replace('-', ' ')}")
    command.add_argument("--epsilon", type=float, required=True, help="total in nats for each party's part of a record")
    command.add_argument("--delta", type=float, help="delta of the noise (1e-06)")
    command.add_argument("--bins", type=int, help="bins of a column, on average (6)")
    command.add_argument("--event-share", type=float, help="public guess of the share of the label 1 (0.2)")
    if kind == "scorecard":
        command.add_argument("--folds", type=int, help="folds of a cross-validation beside the card (0)")
        command.add_argument("--quantiles", action="store_true", help="cut all columns at private quantiles")
    else:
        command.add_argument("--noise", choices=("gaussian", "laplace"), default="gaussian", help="its law (gaussian)")
        command.add_argument(
            "--privacy", choices=("record", "label"), default="record", help="what it protects (record)"
        )


def plan_card(options: argparse.Namespace) -> CardPlan:
    from ..jobs.scorecard_plan import CardRequest, plan_binning, plan_scorecard

    request = CardRequest(**given(options, CardRequest))
    if hasattr(options, "noise"):
        return plan_binning(request, options.noise, options.privacy)
    if options.quantiles:
        guest, host = ((request.bins,) * count for count in (request.guest_columns, request.host_columns))
        request = replace(request, guest_quantiles=guest, host_quantiles=host)
    return plan_scorecard(request)
