"""``fate-dp try``: a first model of two files in one command; ``fate-dp plan scorecard`` and ``binning``, which print as it does."""

from __future__ import annotations

import argparse
import runpy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from .console import TaskLines, given, table_facts, wide_console

if TYPE_CHECKING:
    from rich.console import Console

    from ..jobs.scorecard_plan import CardPlan

TOLD = (
    "Noise is a standard deviation in records, in one bin. Errors are standard errors in a bin of average size, of which "
    "{:.0%} have the label 1, by noise alone and before a ridge draws weights to 0; clear from is the number of records from "
    "which the error of a WOE is below 0.1."
)


def try_model(options: argparse.Namespace) -> None:
    """Check, plan, print; then write the job, and run it unless it is only asked for."""
    from fate_dp.privacy.private_files import atomic_write

    from ..jobs.first_model import SCORECARD, FirstModel

    model, (guest_id, _, host_id) = options.called, options.id.partition("=")
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


def plan_card(options: argparse.Namespace) -> CardPlan:
    from ..jobs.scorecard_plan import CardRequest, plan_binning, plan_scorecard

    request = CardRequest(**given(options, CardRequest))
    if hasattr(options, "noise"):
        return plan_binning(request, options.noise, options.privacy)
    if options.quantiles:
        guest, host = ((request.bins,) * count for count in (request.guest_columns, request.host_columns))
        request = replace(request, guest_quantiles=guest, host_quantiles=host)
    return plan_scorecard(request)
