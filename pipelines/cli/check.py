"""``fate-dp check``: what a job would show to whom, before it runs."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fate_dp.components.common.job_files import JobPlan
from fate_dp.components.disclosure.tracing import Disclosure, Sight, trace
from fate_dp.components.disclosure.verdicts import DEGREES, FORM_NAMES, LEAK, Change, advice, status, told

from ..report.guarantees import broken_promises
from .console import parties_folder, running_server, wide_console

SAID = {
    0: "No party can compute every true label or feature of another one.",
    1: "This job leaks.",
    3: "Nobody can say all that this job shows.",
}
REFUSED = "This job would be refused, or protect nothing."
LIMITS = (
    "This follows from the catalogue of FATE 2.2.0 and this project's declarations, for parties that keep to the protocol "
    "and do not pool what they see. What other jobs did to these tables before is not considered."
)
HEADINGS = ("task", "observer", "of", "what", "learns", "form", "how")
TABLE_WIDTH = 120
TASKS_NAMED = 3


def check(options: argparse.Namespace) -> int:
    change = Change.parse(options.what_if) if options.what_if is not None else None
    plan = named_plan(options)
    disclosure = trace(plan if change is None else change.apply(plan))
    refused = broken_promises(disclosure)
    history, leaked = with_history(options, disclosure) if options.with_history else ([], False)
    found = LEAK if refused or leaked else status(disclosure)
    if options.json:
        more = {"history": history} if options.with_history else {}
        print(json.dumps({**document(disclosure), "status": found, "refused": refused, **more}, indent=2))
    else:
        show(disclosure, wide_console(), whole=options.all)
        for line in (*(f"REFUSED: {each}" for each in refused), *(f"HISTORY: {each}" for each in history)):
            print(line)
    return found


def with_history(options: argparse.Namespace, disclosure: Disclosure) -> tuple[list[str], bool]:
    """What the ledgers of this home know, and FATE-Flow of their jobs where one answers."""
    from ..jobs.flow import FlowUnavailable
    from ..jobs.job_history import history_of

    try:
        address = running_server(options)[0]
    except FlowUnavailable:
        address = None
    return history_of(disclosure, parties_folder(options), address)


def named_plan(options: argparse.Namespace) -> JobPlan:
    from ..jobs.job_plans import JOB_ID, plan_of_file, plan_of_job

    if JOB_ID.fullmatch(options.job) and not Path(options.job).exists():
        return plan_of_job(running_server(options)[0], options.job)
    return plan_of_file(Path(options.job))


def document(disclosure: Disclosure) -> dict[str, Any]:
    return {
        "status": status(disclosure),
        "leaks": [{"sentence": sentence, "instead": instead} for sentence, instead in leaks_of(disclosure)],
        "unknown": [unknown.task for unknown in disclosure.unknown],
        "reasons": [unknown.why for unknown in disclosure.unknown],
        "sights": [sight_document(sight, disclosure) for sight in disclosure.sights],
    }


def leaks_of(disclosure: Disclosure) -> list[tuple[str, str]]:
    """(who learns what, what to do about it) of every leak, each said once however many messages show it."""
    return list(dict.fromkeys((told(sight), advice(disclosure, sight)) for sight in disclosure.leaks))


def sight_document(sight: Sight, disclosure: Disclosure) -> dict[str, Any]:
    """As in a job's report; sentence and advice stand with the leaks."""
    from ..report.job_facts import Learned

    told = asdict(Learned.of(sight, disclosure))
    del told["sentence"], told["instead"]
    return told | {"labels": told["labels"] or None, "attack": told["attack"] or None}


def show(disclosure: Disclosure, console: Console, whole: bool = False) -> None:
    """Who receives what, equal tasks together, as a table on a wide terminal and as lines elsewhere; then the verdicts."""
    rows = statements(disclosure, whole)
    if console.is_terminal and console.width >= TABLE_WIDTH:
        table = Table(title="Who learns what", show_lines=True)
        for heading in HEADINGS:
            table.add_column(heading, overflow="fold")
        for cells, leaks in rows:
            table.add_row(*map(escape, cells), style="bold red" if leaks else None)
        console.print(table)
    else:
        for (tasks, observer, owner, what, learns, form, how), leaks in rows:
            mark = "LEAKS " if leaks else ""
            console.print(
                f"{tasks}: {mark}{observer} of {owner}: {what}, {learns}, {form}", markup=False, soft_wrap=True
            )
            console.print(f"    {how}", markup=False, soft_wrap=True)
    leaking = [f"LEAK: {sentence}{f'; {instead}' if instead else ''}." for sentence, instead in leaks_of(disclosure)]
    unknown = [f"UNKNOWN: {each.why}." for each in disclosure.unknown]
    for line in (*leaking, *unknown):
        console.print(line, markup=False, style="bold", soft_wrap=True)
    refused = disclosure.joined and not disclosure.leaks
    console.print(REFUSED if refused else SAID[status(disclosure)], markup=False, soft_wrap=True)
    console.print(LIMITS, markup=False, style="dim", soft_wrap=True)


def statements(disclosure: Disclosure, whole: bool) -> list[tuple[tuple[str, ...], bool]]:
    """Cells under `HEADINGS`, and whether they tell of a leak; tasks of which the same is said share them."""
    found: dict[tuple[tuple[str, ...], bool], dict[str, None]] = {}
    for sight in disclosure.sights:
        if whole or sight.shown.learns in ("every", "some"):
            what = f"{sight.labels.state} labels" if sight.shown.what == "labels" else sight.shown.what
            how = (DEGREES[sight.shown.learns], FORM_NAMES[sight.shown.form], sight.shown.computes)
            cells = (str(sight.observer), str(sight.owner), what, *how)
            found.setdefault((cells, sight.leaks), {})[sight.task] = None
    return [((_named(list(tasks)), *cells), leaks) for (cells, leaks), tasks in found.items()]


def _named(tasks: list[str]) -> str:
    more = len(tasks) - TASKS_NAMED
    return ", ".join(tasks[:TASKS_NAMED]) + (f" and {more} more" if more > 0 else "")
