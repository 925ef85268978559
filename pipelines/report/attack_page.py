"""The page of ``fate-dp attack``: what was read in recorded views, with a picture of what each attack decided by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from fate_dp.attacks.of_views import Finding
from fate_dp.attacks.recorded_view import VERSION, RecordedView
from fate_dp.privacy.private_files import atomic_write

from ..jobs.text_tables import TextTable, epsilon_text
from .page import BLUE, GREY, ORANGE, Made, moment, render, svg_drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (6.4, 2.6)
BINS = 40
BOUNDS = (
    "Bounds assume labels that are fair coins to the attacker, and hold for the expected share; by chance a share may exceed "
    "its bound."
)
SUMMARY = (
    "This page shows what attacks read from the messages that a party received in a job, as its recorder kept them. Compare "
    "each share with that of always naming the commoner label, and with the largest expected share at the job's epsilon."
)


@dataclass(frozen=True)
class Attacked:
    """One view with what was found in it; ``unread`` says why no attack reads views of this kind, ``refused`` in whole
    sentences why attacks on such views could not read this one."""

    path: Path
    view: RecordedView
    findings: tuple[Finding, ...] = ()
    unread: str = ""
    refused: tuple[str, ...] = ()


def write_attack_page(path: Path, found: list[Attacked]) -> None:
    """Write the page to ``path``, whole or not at all; raises InvalidArgument where that cannot be."""
    findings = [(each, finding) for each in found for finding in each.findings]
    page = render(
        "attack_template.html",
        result=Made(f"views of version {VERSION}"),
        title="What an attacker reads in recorded views",
        of="attacks on recorded views",
        created=moment(datetime.now(timezone.utc).isoformat()),
        summary=SUMMARY,
        cards=[card(each, finding) for each, finding in findings if finding.value is not None],
        precision_of_figures=BOUNDS,
        views=view_table(found),
        findings=finding_table(findings),
        sentences=[f"{finding.attack}, {each.view.task.name}: {finding.says}" for each, finding in findings],
        pictures=[
            picture(each, finding, f"p{number}") for number, (each, finding) in enumerate(findings) if finding.evidence
        ],
    )
    atomic_write(path, page)


def card(attacked: Attacked, finding: Finding) -> tuple[str, str, str]:
    """What chooses its colour, the figure, and what it is."""
    assert finding.value is not None
    kind = "private" if finding.bound < 1 else "not_private"
    return (
        kind,
        f"{finding.value:.3f}",
        f"{finding.attack}, {attacked.view.task.name}; expected at most {finding.bound:.3f}",
    )


def picture(attacked: Attacked, finding: Finding, name: str) -> tuple[Markup, str]:
    """How the numbers lie by which an attack decides, apart for both true labels where these are known."""
    evidence = finding.evidence
    assert evidence is not None
    numbers = evidence.numbers[~np.isnan(evidence.numbers)]
    edges = np.histogram_bin_edges(numbers, BINS).tolist()

    def draw(axis: Axes) -> None:
        if evidence.labels is None:
            axis.hist(numbers, edges, color=GREY, label="all records")
        else:
            parts = [evidence.numbers[evidence.labels == label] for label in (0, 1)]
            axis.hist(parts, edges, color=[BLUE, ORANGE], label=["true label 0", "true label 1"], stacked=True)
        axis.set_xlabel(evidence.meaning)
        axis.set_ylabel("records")
        axis.figure.legend(loc="outside upper left", ncols=2)

    title = f"{finding.attack}, {attacked.view.task.name} of job {attacked.view.task.job}"
    return svg_drawing(name, title, SIZE, draw), f"{title}."


def counted(view: RecordedView) -> tuple[int, int]:
    """How many messages were received, and of how many it is kept what they said."""
    return len(view.messages), sum(not message.left_out for message in view.messages)


def view_table(found: list[Attacked]) -> TextTable:
    headings = ("job", "task", "component", "party", "messages", "kept", "ended")
    rows = []
    for each in found:
        task, (messages, kept) = each.view.task, counted(each.view)
        ended = "well" if each.view.finished else "with an error"
        rows.append((task.job, task.name, task.component, f"{task.role} {task.party}", str(messages), str(kept), ended))
    return TextTable(headings, tuple(rows), frozenset(("messages", "kept")))


def finding_table(findings: list[tuple[Attacked, Finding]]) -> TextTable:
    headings = ("task", "attack", "records", "right", "interval", "without view", "epsilon", "bound")
    rows = []
    for each, finding in findings:
        interval = "-" if finding.interval is None else f"{finding.interval.low:.3f} to {finding.interval.high:.3f}"
        shares = ("-" if share is None else f"{share:.3f}" for share in (finding.value, finding.baseline))
        right, baseline = shares
        bound = (epsilon_text(finding.epsilon), f"{finding.bound:.3f}")
        rows.append((each.view.task.name, finding.attack, str(finding.rows), right, interval, baseline, *bound))
    return TextTable(headings, tuple(rows), frozenset(headings[2:]))
