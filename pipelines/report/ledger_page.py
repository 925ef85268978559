"""The page of what parties spent: one HTML file of their ledgers, for operators and whoever they report to.

It tells what ``fate-dp ledger`` and ``fate-dp cap`` print, and when it was spent: the newest uses one by one, and where there
are more, all of them by month. Everything is read before the file is
written, and nothing is written where a ledger cannot be read: what is not shown might have been spent.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fate_dp.privacy.ledger.database import SCHEMA_VERSION
from fate_dp.privacy.ledger.entries import RECORDERS
from fate_dp.privacy.ledger.history import NotedUse, SpentAt
from fate_dp.privacy.private_files import AnyPath, atomic_write
from fate_dp.privacy.validation import InvalidArgument

from ..jobs.party_ledgers import all_ledgers, has_ledger, home_at, homes_of
from ..jobs.table_caps import CapLine, charged_tables, counted_names, history_of
from ..jobs.text_tables import (
    CAP_COLUMNS,
    INFINITE,
    TextTable,
    budgets_table,
    epsilon_text,
    floor_text,
    named,
    table_of,
    total_notes,
    totals_table,
)
from .page import BLUE, ORANGE, Made, moment, percent, render, svg_drawing

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

SIZE = (4.6, 2.8)
# Room before the first use and after the last one, as a share of what lies between; and where that is nothing, in seconds.
MARGIN, MIN_MARGIN = 0.04, 30.0
ABOVE_CAP = 1.2
MOST_USES = 500
MONTH_COLUMNS = {name: name for name in ("month", "source", "mechanism", "uses", "jobs")}
USE_COLUMNS = {"when (UTC)": "when"} | {
    name: name for name in ("source", "mechanism", "epsilon", "delta", "unit", "relation")
}
READING = (
    "Every epsilon is in nats and an upper bound, rounded up; what is left is rounded down. A use that was not confirmed as "
    "written still counts."
)


@dataclass(frozen=True)
class SpendingCourse:
    """What counted against one cap along time; ``tables`` are all that count together against it."""

    tables: tuple[str, ...]
    line: CapLine
    points: tuple[SpentAt, ...]


@dataclass(frozen=True)
class PartySpending:
    """All that the page tells of one party; ``content`` is the party's part of ``all_ledgers``, ``uses`` are the newest."""

    party: str
    has_ledger: bool
    content: dict[str, Any]
    caps: tuple[CapLine, ...] = ()
    courses: tuple[SpendingCourse, ...] = ()
    uses: tuple[NotedUse, ...] = ()
    months: tuple[dict[str, Any], ...] = ()
    jobs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PartySection:
    """One party's part of the page, as text. Pictures have a title and a caption; ``shares`` are of the caps, ``explanations``
    of the uses."""

    title: str
    nothing: str
    pictures: list[tuple[str, Markup, str]]
    caps: TextTable
    shares: list[float]
    totals: TextTable
    notes: list[str]
    budgets: TextTable
    without: list[str]
    months: TextTable
    uses: TextTable
    explanations: list[str]


def write_ledger_page(folder: Path, delta: float, path: Path) -> None:
    """Write the page of all parties that have a home in ``folder`` to ``path``, whole or not at all; totals at ``delta``.

    Raises:
        InvalidArgument: No party here has a ledger, or the file cannot be written.
        LedgerUnavailable: A ledger cannot be read.
    """
    if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise InvalidArgument(f"{path} is among the keys and ledgers of the parties; name another place for the page.")
    parties = spending(folder, delta)
    if not any(party.has_ledger for party in parties):
        raise InvalidArgument(f"No party has a ledger in {folder}, so no page was written.")
    atomic_write(path, ledger_html(parties, delta, datetime.now(timezone.utc)))


def spending(folder: AnyPath, delta: float) -> list[PartySpending]:
    """What every party with a home in ``folder`` spent, and when."""
    ledgers, homes = all_ledgers(folder, delta, with_jobs=False), homes_of(folder)
    return [
        _spending_of(folder, party, content, delta)
        if has_ledger(homes[party])
        else PartySpending(party, False, content)
        for party, content in zip(homes, ledgers.values(), strict=True)
    ]


def _spending_of(folder: AnyPath, party: str, content: dict[str, Any], delta: float) -> PartySpending:
    ledger = home_at(folder, party).ledger
    caps, courses = [], dict[tuple[Any, ...], SpendingCourse]()
    for table in charged_tables(folder, party, content["totals"]):
        for line, name in counted_names(table).items():
            caps.append(line)
            together = line.kind, line.cap, line.delta, tuple(ledger.related(name))
            if known := courses.get(together):
                courses[together] = SpendingCourse((*known.tables, line.table), line, known.points)
            elif line.spent:
                courses[together] = SpendingCourse((line.table,), line, tuple(history_of(table, line, name)))
    uses, months = tuple(ledger.uses(delta, MOST_USES)), tuple(ledger.months())
    return PartySpending(party, True, content, tuple(caps), tuple(courses.values()), uses, months, ledger.jobs())


def ledger_html(parties: list[PartySpending], delta: float, created: datetime) -> str:
    """The page as one HTML document; the same spending and time give the same text."""
    only = f"Party {parties[0].party}" if len(parties) == 1 else "All parties here"
    return render(
        "ledger_template.html",
        result=Made(f"ledgers of version {SCHEMA_VERSION}"),
        title=f"{only}: what was spent, and what is left",
        of="the privacy ledger",
        created=moment(created.isoformat()),
        summary=summary(parties),
        cards=cards(parties),
        precision_of_figures=READING,
        delta=f"{delta:g}",
        sections=[section(party, number) for number, party in enumerate(parties)],
    )


def summary(parties: list[PartySpending]) -> str:
    """How much the ledgers hold, in one paragraph."""
    lines = released(parties)
    if not lines:
        return "The ledger holds no release: no job has released anything of these parties' data so far."
    jobs, sources = set[str]().union(*(party.jobs for party in parties)), {line["source"] for line in lines}
    first, last = min(line["first_time"][:10] for line in lines), max(line["last_time"][:10] for line in lines)
    when = f"on {first}" if first == last else f"from {first} to {last}"
    return (
        f"{counted(len(jobs), 'job')} released something of {counted(len(sources), 'source')} {when}, in "
        f"{counted(sum(line['uses'] for line in lines), 'use')}. For each party with a home on this machine, this page shows "
        "spending over time, what is left of each cap, what each observer learned in total, and the uses by job and task."
    )


def released(parties: list[PartySpending]) -> list[dict[str, Any]]:
    """All lines but those that note a recorder, which releases nothing."""
    return [line for party in parties for line in party.content["entries"] if line["mechanism"] not in RECORDERS]


def cards(parties: list[PartySpending]) -> list[tuple[str, str, str]]:
    """The key figures at the head of the page: what chooses their colour, the figure, and what it is."""
    caps = [line for party in parties for line in party.caps if line.spent]
    unbounded = sum(line["uses"] for line in released(parties) if line["epsilon"] == INFINITE)
    nearest = max((line for line in caps if math.isfinite(line.spent)), key=share, default=None)
    if nearest is None:
        first = ("epsilon", "none", "of a cap is spent")
    else:
        told = f"of its cap is spent: {nearest.table}, {nearest.kind}, the nearest to its cap"
        first = ("not_private" if share(nearest) > 0.8 else "private", percent(min(1.0, share(nearest))), told)
    return [
        first,
        ("private", str(len(set().union(*(party.jobs for party in parties)))), "jobs that released something"),
        ("private", str(len(caps)), "caps that were drawn on"),
        ("epsilon", str(unbounded), "uses without a guarantee"),
    ]


def section(party: PartySpending, number: int) -> PartySection:
    """All of one party as text and drawings; ``number`` keeps its drawings apart from other parties'."""
    nothing = "" if party.uses else "Nothing was released: the ledger is empty."
    caps = [{**asdict(line), "left": line.left} for line in party.caps]
    months = party.months if sum(month["uses"] for month in party.months) > len(party.uses) else ()
    return PartySection(
        title=f"Party {party.party}",
        nothing=nothing if party.has_ledger else "Nothing was released: the party has no ledger yet.",
        pictures=[picture(party, course, f"spent-{number}-{place}") for place, course in enumerate(party.courses)],
        caps=table_of(caps, CAP_COLUMNS),
        shares=[share(line) for line in party.caps],
        totals=totals_table(party.content),
        notes=total_notes(named(party.content["totals"], "dataset", party.content["tables"])),
        budgets=budgets_table(party.content),
        without=without_guarantee(party.content),
        months=table_of(named(list(months), "source", party.content["tables"]), MONTH_COLUMNS),
        uses=table_of(use_lines(party), USE_COLUMNS),
        explanations=[explanation(use) for use in party.uses],
    )


def picture(party: PartySpending, course: SpendingCourse, name: str) -> tuple[str, Markup, str]:
    """What counted against one cap along time, with the cap as a line, from the party's first use to its last."""
    line, tables = course.line, ", ".join(dict.fromkeys(course.tables))
    at = "" if line.delta is None else f" at delta {line.delta:g}"
    told = f"{epsilon_text(line.spent)} of {line.cap:g} spent{at}, {floor_text(line.left)} left"
    if math.isinf(line.spent):
        told = f"without any bound, and beyond the cap of {line.cap:g}{at}"
    together = " These tables count together." if len(set(course.tables)) > 1 else ""
    title = f"{tables}: {line.kind}"

    def draw(axis: Axes) -> None:
        texts = [line[name] for line in party.content["entries"] for name in ("first_time", "last_time")]
        times = [datetime.fromisoformat(text).timestamp() for text in texts]
        draw_course(axis, course, [*times, *(point.time for point in course.points)])

    return title, svg_drawing(name, f"{title}; {told}", SIZE, draw), f"{told[:1].upper()}{told[1:]}.{together}"


def draw_course(axis: Axes, course: SpendingCourse, times: list[float]) -> None:
    """Steps of what was spent, below the dashed line of the cap; where no bound is known any more, a shaded rest."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    line, margin = course.line, max(MIN_MARGIN, MARGIN * (max(times) - min(times)))
    start, end = min(times) - margin, max(times) + margin
    known = [point for point in course.points if math.isfinite(point.amount)]
    unknown = [point.time for point in course.points if math.isinf(point.amount)]
    until = min(unknown, default=end)
    steps = [SpentAt(start, 0.0), *known, SpentAt(until, known[-1].amount if known else 0.0)]
    moments, amounts = [utc(step.time) for step in steps], [step.amount for step in steps]
    axis.fill_between(moments, amounts, step="post", color=BLUE, alpha=0.15, linewidth=0)  # type: ignore[arg-type]
    axis.step(moments, amounts, where="post", color=BLUE)  # type: ignore[arg-type]
    axis.axhline(line.cap, color=ORANGE, linestyle="--", linewidth=1.6)
    axis.annotate(
        f"cap {line.cap:g}", (0.0, line.cap), (4, 4), xycoords=("axes fraction", "data"), textcoords="offset points"
    )
    if unknown:
        axis.axvspan(utc(until), utc(end), color=ORANGE, alpha=0.25, linewidth=0)  # type: ignore[arg-type]
        axis.annotate(
            "no bound", (1.0, 1.0), (-4, -4), xycoords="axes fraction", textcoords="offset points", ha="right", va="top"
        )
    axis.set_xlim(utc(start), utc(end))  # type: ignore[arg-type]
    axis.set_ylim(0, ABOVE_CAP * max(line.cap, *amounts) or 1.0)
    axis.set_ylabel("number" if line.delta is None else "epsilon")
    axis.yaxis.get_major_locator().set_params(integer=line.delta is None)  # type: ignore[call-arg]
    locator = AutoDateLocator(tz=timezone.utc, minticks=2, maxticks=4)
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=timezone.utc))


def share(line: CapLine) -> float:
    """How much of a cap is spent, from 0; of a cap of nothing all is."""
    return line.spent / line.cap if line.cap else float(line.spent > 0)


def without_guarantee(content: dict[str, Any]) -> list[str]:
    """One sentence for each line of the ledger whose epsilon is infinite."""
    return [
        f"{entry['source']}, {entry['mechanism']}, against {entry['observer']}: {counted(entry['uses'], 'use')}, the last in "
        f"job {entry['last_job']}; {entry['note']}; "
        f"{'counted in the totals' if entry['event'] else 'outside the totals and caps'}."
        for entry in named(content["entries"], "source", content["tables"])
        if entry["epsilon"] == INFINITE
    ]


def use_lines(party: PartySpending) -> list[dict[str, Any]]:
    """What the table of uses shows of each, by the names in ``USE_COLUMNS``."""
    lines = [
        {**vars(use.entry), **vars(use), "when": f"{utc(use.time):%Y-%m-%d %H:%M}", "source": use.entry.subject}
        for use in party.uses
    ]
    return named(lines, "source", party.content["tables"])


def explanation(use: NotedUse) -> str:
    """What has no column of its own."""
    size = [counted(use.rounds, "round")] if use.rounds else []
    size += [counted(use.use.records, "record")] if use.use.records else []
    told = [
        f"Job {use.use.job_id}, task {use.use.task_id}, line {use.entry_id} of the ledger",
        f"against {use.entry.observer}",
        *size,
        *filter(None, (use.entry.purpose, use.use.note)),
        "counted towards a cap" if use.entry.counted else "not counted towards a cap",
        *(["not confirmed as written"] if use.use.state == "pending" else []),
    ]
    return f"{'; '.join(told)}."


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
