"""``fate-dp check``: what a job would show to whom, before it runs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import Commands, add_command, add_flags, add_home, running_server, wide_console

if TYPE_CHECKING:
    from rich.console import Console

    from fate_dp.components.common.job_files import JobPlan
    from fate_dp.components.disclosure.tracing import Disclosure, Sight

SAID = {
    0: "No party can compute every true label or feature of another one.",
    1: "This job leaks.",
    3: "This job has a component that nobody knows; what it shows cannot be told.",
}
LIMITS = (
    "Followed from the catalogue of FATE 2.2.0 and this project's declarations, for parties that keep to the protocol and do not "
    "pool what they see; what other jobs did to these tables before is not seen."
)


def add_check(commands: Commands) -> None:
    text = "say which party could learn what in a job, before it runs; nothing is run"
    epilog = "Exit status: 0 no leak, 1 a leak, a promise that would not hold or no job to check, 3 a component that nobody knows."
    command = add_command(commands, "check", text, check, epilog=epilog)
    command.add_argument("job", metavar="JOB", help="a file with the job's DAG (pipeline.get_dag()), or a job's id")
    text = "the verdict with label_flip behind a task: label_flip@TASK or label_flip@TASK:epsilon=NUMBER"
    command.add_argument("--what-if", metavar="CHANGE", help=text)
    command.add_argument("--all", action="store_true", help="also aggregates, and what cannot be computed from")
    add_home(command)
    add_flags(command, "flow", "json")


def check(options: argparse.Namespace) -> int:
    from fate_dp.components.disclosure.tracing import Walk, trace
    from fate_dp.components.disclosure.verdicts import LEAK, Change, status

    from ..report.guarantees import broken_promises

    change = Change.parse(options.what_if) if options.what_if is not None else None
    plan = named_plan(options)
    disclosure = trace(plan if change is None else change.apply(plan))
    refused = broken_promises(Walk(disclosure.plan))
    found = LEAK if refused else status(disclosure)
    if options.json:
        print(json.dumps({**document(disclosure), "status": found, "refused": refused}, indent=2))
    else:
        show(disclosure, wide_console(), whole=options.all)
        for sentence in refused:
            print(f"REFUSED: {sentence}")
    return found


def named_plan(options: argparse.Namespace) -> JobPlan:
    """Of the file or the job that the command names."""
    from ..jobs.job_plans import JOB_ID, plan_of_file, plan_of_job

    if JOB_ID.fullmatch(options.job) and not Path(options.job).exists():
        return plan_of_job(running_server(options)[0], options.job)
    return plan_of_file(Path(options.job))


def document(disclosure: Disclosure) -> dict[str, Any]:
    """All sights, leaks and unknown tasks, for JSON."""
    from fate_dp.components.disclosure.verdicts import advice, status, told

    return {
        "status": status(disclosure),
        "leaks": [{"sentence": told(sight), "instead": advice(disclosure, sight)} for sight in disclosure.leaks],
        "unknown": [unknown.task for unknown in disclosure.unknown],
        "sights": [sight_document(sight) for sight in disclosure.sights],
    }


def sight_document(sight: Sight) -> dict[str, Any]:
    shown, labels = sight.shown, sight.labels
    return {
        "task": sight.task,
        "component": sight.component,
        "observer": str(sight.observer),
        "owner": str(sight.owner),
        "what": shown.what,
        "labels": labels.state if shown.what == "labels" else None,
        "epsilon": labels.epsilon,
        "form": shown.form,
        "learns": shown.learns,
        "message": shown.message,
        "computes": shown.computes,
        "evidence": list(shown.evidence),
        "attack": shown.attack or None,
        "leaks": sight.leaks,
    }


def show(disclosure: Disclosure, console: Console, whole: bool = False) -> None:
    """A table of who receives what, then the verdicts."""
    from rich.markup import escape
    from rich.table import Table

    from fate_dp.components.disclosure.verdicts import DEGREES, FORM_NAMES, advice, status, told

    shown = [sight for sight in disclosure.sights if whole or sight.shown.learns in ("every", "some")]
    table = Table(title="Who learns what", show_lines=True)
    for heading in ("task", "observer", "of", "what", "learns", "form", "how"):
        table.add_column(heading, overflow="fold")
    for sight in shown:
        flips = "" if sight.shown.what != "labels" else f"{sight.labels.state} "
        cells = (sight.task, str(sight.observer), str(sight.owner), f"{flips}{sight.shown.what}")
        more = (DEGREES[sight.shown.learns], FORM_NAMES[sight.shown.form], sight.shown.computes)
        table.add_row(*map(escape, (*cells, *more)), style="bold red" if sight.leaks else None)
    if shown:
        console.print(table)
    for sight in disclosure.leaks:
        console.print(f"LEAK: {told(sight)}; {advice(disclosure, sight)}.", markup=False, style="bold")
    for unknown in disclosure.unknown:
        told_unknown = f"UNKNOWN: nobody knows what {unknown.component}, the component of {unknown.task}, shows."
        console.print(told_unknown, markup=False, style="bold")
    console.print(SAID[status(disclosure)], markup=False)
    console.print(LIMITS, markup=False, style="dim")
