"""A job's report as one HTML page that needs nothing else: who learned what, at what epsilon, and whether the noise acts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fate_dp.components.disclosure.declaration import (
    ASSETS,
    EVERY,
    FEATURES,
    FLIPPED,
    LABELS,
    NOTHING,
    PRIVATE,
    SOME,
    SUMS,
    TRUE,
)
from fate_dp.components.disclosure.verdicts import DEGREES, FORM_NAMES, NAMES, capitalized
from fate_dp.components.protocols.prediction_frames import TRAINING_ROWS
from fate_dp.privacy.ledger.entries import RANDOMIZED_RESPONSE
from fate_dp.privacy.private_files import atomic_write
from fate_dp.privacy.validation import InvalidArgument

from ..jobs.text_tables import CAP_COLUMNS, ESTIMATED, TextTable, epsilon_text, estimate_text, table_of, total_notes
from .dag_picture import Box, dag_svg
from .job_documents import document_text
from .job_facts import NEVER_RAN, DagTask, Figure, JobReport, Learned, PartyPart, TaskRun
from .job_ledger import Cap, Told
from .job_noise import noise_picture
from .page import SERIES, draw_losses, moment, render, svg_drawing

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

LEAKS = "leaks: every true label or feature of another party"
LINE_STYLES = ("-", "--", ":", "-.")
NO_NUMBER = "\N{EN DASH}"
PRIVACY = (
    "Epsilon is an upper bound in nats, composed from the events in the ledger of the party whose records or labels it protects. "
    "The numbers of another party's ledger are not in a party's own report."
)
LIMITS_OF_ONE = "It belongs to {party}: it holds what this party may know, and should stay with it."
FOR_AUDITORS = (
    "It joins the reports of {parties} for an auditor whom all of them trust: it holds everyone's ledger and figures, and "
    "must not go back to any of them."
)


@dataclass(frozen=True)
class Item:
    """One thing that an observer learned: ``instead`` would have avoided it, ``ways`` are how it did, each with its evidence."""

    kind: str
    badge: str
    sentence: str
    instead: str
    ways: tuple[str, ...]


def write_report(report: JobReport, folder: Path, name: str) -> tuple[Path, Path]:
    """Write ``name``.html and ``name``.json, each whole or not at all; returns both paths. Both are made before any is written."""
    texts = {"html": report_html(report), "json": document_text(report)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidArgument(f"{folder} is not a folder and cannot become one; name another with --out.") from error
    page, document = (folder / f"{name}.{kind}" for kind in texts)
    for path, text in zip((page, document), texts.values()):
        atomic_write(path, text)
    return page, document


def report_html(report: JobReport) -> str:
    """The report as one HTML document; the same report gives the same text."""
    return render(
        "job_template.html",
        result=report,
        report=report,
        title=f"Job {report.job_id}: who learned what",
        of="report of several parties" if len(report.parts) > 1 else f"report of {names_of(report.parts[0].parties)}",
        created=moment(report.created),
        summary=summary(report),
        cards=cards(report),
        precision_of_figures=PRIVACY,
        picture=picture(report),
        refusals=list(refusals(report)),
        matrix=Matrix.of(report.learned, report.parties),
        learned=learned_by_observer(report),
        tasks_of=tasks_table(report),
        epsilon_table=epsilon_table,
        notes_of=notes_of,
        line_table=line_table,
        cap_table=cap_table,
        noise_picture=noise_picture,
        has_observers=any(part.ledger and part.ledger.by_this_job for part in report.parts),
        has_flips=any(each.mechanism == RANDOMIZED_RESPONSE for part in report.parts for each in part.noise),
        figure_table=figure_table(report),
        has_flipped_figures=any(each.on == "flips" for part in report.parts for each in part.figures),
        has_estimates=has_estimates(report),
        loss_figure=loss_figure(report),
        settings_table=settings_table(report),
        summaries=list(summaries(report)),
        versions_table=versions_table(report),
        names_of=names_of,
        capitalized=capitalized,
    )


def names_of(parties: Iterable[str]) -> str:
    *first, last = parties
    return f"{', '.join(first)} and {last}" if first else last


def summary(report: JobReport) -> str:
    statuses = {part.status for part in report.parts}
    ended = next(iter(statuses)) if len(statuses) == 1 else names_of(sorted(statuses))
    longest = max((part.seconds or 0.0 for part in report.parts), default=0.0)
    ran = f"The job of {names_of(report.parties)} ended as {ended} after {longest:.0f} seconds."
    leaks = leaks_of(report)
    if leaks:
        more = len(leaks) - 1
        rest = f", and there are {more} more leaks" if more > 1 else ", and there is one more leak" if more else ""
        found = f"It leaked: {leaks[0]}{rest}."
    elif report.unknown:
        found = f"What it showed is not known: nobody has declared the components of {names_of(report.unknown)}."
    else:
        found = f"As far as this report knows, no party could compute every true label or feature of another one.{near_leaks(report)}"
    whose = (
        FOR_AUDITORS.format(parties=names_of(party for part in report.parts for party in part.parties))
        if len(report.parts) > 1
        else LIMITS_OF_ONE.format(party=names_of(report.parts[0].parties))
    )
    return f"{ran} {found} {whose}"


def leaks_of(report: JobReport) -> list[str]:
    """The sentences of all leaks; one that has come true in several ways is one leak."""
    return list(dict.fromkeys(each.sentence for each in report.leaks))


def near_leaks(report: JobReport) -> str:
    """Where something about single labels or features showed without a guarantee, as a sentence; empty where nothing did."""
    single = [each for each in report.learned if each.learns == SOME and each.form != PRIVATE]
    tasks = dict.fromkeys(
        each.task for each in single if each.what == FEATURES or (each.what, each.labels) == (LABELS, TRUE)
    )
    return f" Something about single labels or features showed in {names_of(tasks)}." if tasks else ""


def cards(report: JobReport) -> list[tuple[str, str, str]]:
    """The key figures at the head of the page: what chooses their colour, the figure, and what it is."""
    statuses = sorted({part.status for part in report.parts})
    told = [line for part in report.parts if part.ledger for line in part.ledger.by_this_job]
    largest = max((float(line.epsilon) for line in told if line.relation == "replace_one"), default=None)
    deltas = ", ".join(f"{delta:g}" for delta in sorted({line.delta for line in told}))
    leaks = len(leaks_of(report))
    seconds = max((part.seconds or 0.0 for part in report.parts), default=0.0)
    not_told = f"; unknown components: {len(report.unknown)}" if report.unknown else ""
    nothing = "no ledger that this report knows has a line of this job"
    return [
        ("guest_only" if statuses == ["success"] else "not_private", "/".join(statuses), "how the job ended"),
        ("not_private" if leaks or report.unknown else "guest_only", str(leaks), LEAKS + not_told),
        (
            "epsilon",
            NO_NUMBER if largest is None else f"ε = {epsilon_text(largest)}",
            nothing if largest is None else f"largest against one observer, by this job, at delta {deltas}",
        ),
        ("private", f"{seconds:.0f} s", f"for {len(report.tasks)} tasks"),
    ]


def picture(report: JobReport) -> Markup:
    runs: dict[str, list[TaskRun]] = {}
    for part in report.parts:
        for run in part.tasks:
            runs.setdefault(run.task, []).append(run)
    leaking = {each.task for each in report.leaks}
    boxes = [box_of(task, runs.get(task.name, []), task.name in leaking) for task in report.tasks]
    reads = {task.name: task.reads for task in report.tasks}
    return dag_svg(boxes, reads, f"The {len(boxes)} tasks of the job and which of them read whose outputs")


def box_of(task: DagTask, runs: list[TaskRun], leaks: bool) -> Box:
    status = next((run.status for run in runs if run.status != "success"), "success" if runs else "")
    longest = max((run.seconds for run in runs if run.seconds is not None), default=None)
    spent = f"{longest:.1f} s" if longest is not None else ""
    ended = {"success": spent, "": "at other parties only"}.get(status, f"{ended_as(status)} {spent}".strip())
    unseen = not runs or status in NEVER_RAN
    kind = "leak" if leaks else "elsewhere" if unseen else "" if status == "success" else "failed"
    roles = names_of(dict.fromkeys(party.partition(" ")[0] for party in task.parties)) if task.parties else "no party"
    told = f"{task.name}: {task.component}, stage {task.stage}, at {', '.join(task.parties)}; {ended}"
    shown = f"LEAK \N{MIDDLE DOT} {ended}" if leaks else ended
    return Box(task.name, kind, (task.component, shown or roles), told + ("; it leaks" if leaks else ""))


def ended_as(status: str) -> str:
    return "never begun" if status in NEVER_RAN else status


def refusals(report: JobReport) -> Iterator[tuple[str, str]]:
    """(whose task, the sentence) of every task that did not end well."""
    for part in report.parts:
        for run in part.tasks:
            if run.refusal:
                yield f"{run.task} of {run.role} {part.party_id}", run.refusal
            elif run.status in ("failed", "timeout", "canceled"):
                told = "It gave no reason here; the report of another party may say why."
                yield f"{run.task} of {run.role} {part.party_id}", told


def learned_by_observer(report: JobReport) -> list[tuple[str, list[Item]]]:
    """What each observer learned, leaks first, then by how much; parties in their order, whoever gets the model last."""
    found: dict[str, list[Learned]] = {}
    for each in sorted(report.learned, key=strength):
        found.setdefault(each.observer, []).append(each)
    places = {party: place for place, party in enumerate(report.parties)}
    return [
        (observer, items_of(found[observer]))
        for observer in sorted(found, key=lambda observer: places.get(observer, len(places)))
    ]


def items_of(learned: list[Learned]) -> list[Item]:
    """One item for each thing that was learned, in all tasks; owners of whom the same was learned in the same ways share one."""
    things: dict[tuple[str, str], list[Learned]] = {}
    for each in learned:
        things.setdefault((each.owner, each.sentence.removesuffix(f" in {each.task}")), []).append(each)
    alike: dict[tuple[str, str, tuple[str, ...]], list[list[Learned]]] = {}
    for (owner, sentence), same in things.items():
        before, _, after = sentence.rpartition(f" of {owner}")
        alike.setdefault((before, after if before else sentence, ways_of(same)), []).append(same)
    return [item_of(before, after, ways, found) for (before, after, ways), found in alike.items()]


def item_of(before: str, after: str, ways: tuple[str, ...], found: list[list[Learned]]) -> Item:
    tasks = names_of(dict.fromkeys(each.task for each in found[0]))
    instead = "; ".join(dict.fromkeys(each.instead for each in found[0] if each.instead))
    sentence = f"{before} of {names_of(same[0].owner for same in found)}{after}" if before else after
    return Item(*badge(found[0][0]), f"{capitalized(sentence)} in {tasks}.", instead, ways)


def ways_of(learned: list[Learned]) -> tuple[str, ...]:
    tasks: dict[str, dict[str, None]] = {}
    for each in learned:
        evidence = ", ".join((*each.evidence, each.attack) if each.attack else each.evidence)
        way = f"{capitalized(each.message)} ({FORM_NAMES.get(each.form, each.form)}): {each.computes}. Evidence: {evidence}."
        tasks.setdefault(way, {})[each.task] = None
    return tuple(f"{names_of(named)}. {way}" for way, named in tasks.items())


def tasks_table(report: JobReport) -> TextTable:
    ended: dict[str, list[str]] = {}
    for part in report.parts:
        for run in part.tasks:
            spent = "" if run.seconds is None or run.status in NEVER_RAN else f" in {run.seconds:.1f} s"
            ended.setdefault(run.task, []).append(f"{ended_as(run.status)}{spent} at {run.role} {part.party_id}")
    rows = [
        (
            task.name,
            task.component,
            task.stage,
            ", ".join(task.parties),
            ", ".join(ended.get(task.name, ["not in this report"])),
        )
        for task in report.tasks
    ]
    return TextTable(("task", "component", "stage", "parties", "ended as"), tuple(rows))


def epsilon_table(part: PartyPart) -> TextTable:
    """What each observer was told by this job and by all jobs so far; observers who were told the same share a row."""
    if part.ledger is None:
        return TextTable((), ())
    by_all = {key_of(line): line for line in part.ledger.by_all_jobs}
    rows: dict[tuple[str, ...], list[str]] = {}
    for line in part.ledger.by_this_job:
        in_all = by_all.get(key_of(line))
        numbers = (epsilon_text(line.epsilon), NO_NUMBER if in_all is None else epsilon_text(in_all.epsilon))
        cells = (line.dataset, line.unit, line.relation.replace("_", "-"), *numbers, f"{line.delta:g}")
        rows.setdefault(cells, []).append(line.observer)
    headings = ("of", "unit", "relation", "observers", "this job", "all jobs so far", "delta")
    shown = tuple((*cells[:3], ", ".join(observers), *cells[3:]) for cells, observers in rows.items())
    return TextTable(headings, shown, frozenset(headings[4:]))


def key_of(line: Told) -> tuple[str, str, str, str]:
    return line.dataset, line.unit, line.relation, line.observer


def notes_of(part: PartyPart) -> list[str]:
    """What the epsilons of this job and of all jobs leave open, each once."""
    if part.ledger is None:
        return []
    told = {key_of(line): line.note for line in part.ledger.by_this_job}
    of_all = [
        replace(line, note=f"over all jobs so far, {line.note}")
        for line in part.ledger.by_all_jobs
        if line.note and told.get(key_of(line), line.note) != line.note
    ]
    noted = (*part.ledger.by_this_job, *of_all)
    return total_notes([asdict(line) | {"relation": line.relation.replace("_", "-")} for line in noted])


def line_table(part: PartyPart) -> TextTable:
    """The ledger's lines of this job; records that only the tasks tell are among them."""
    names = ("source", "mechanism", "epsilon", "delta", "unit", "observer", "rounds", "records", "uses", "acts")
    noise = {each.entry_id: {"acts": each.acts, "found": each.records} for each in part.noise}
    lines = (
        [{"acts": "", **asdict(line), **noise.get(line.entry_id, {})} for line in part.ledger.lines]
        if part.ledger
        else []
    )
    for line in lines:
        # As people read it: of randomized_response or PoissonSampledGaussian its words.
        line["mechanism"] = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", line["mechanism"].replace("_", " "))
        line["records"] = line["records"] or int(line.get("found") or 0)
    return table_of(lines, {"no.": "entry_id", **dict(zip(names, names))})


def cap_table(caps: Iterable[Cap]) -> TextTable:
    return table_of(map(asdict, caps), CAP_COLUMNS)


def has_estimates(report: JobReport) -> bool:
    return any(figure.estimate is not None for part in report.parts for figure in part.figures)


def figure_table(report: JobReport) -> TextTable:
    """Measures of models; on flips and corrected, where any of them could be."""
    party = ("party",) if len(report.parts) > 1 else ()
    corrected = (ESTIMATED,) if has_estimates(report) else ()
    headings = (*party, "task", "rows", "measure", "measured on", "value", *corrected)
    rows = tuple(
        (*((part.party_id,) if party else ()), *figure_cells(figure))[: len(headings)]
        for part in report.parts
        for figure in part.figures
    )
    return TextTable(headings, rows, frozenset(("value", *corrected)))


def figure_cells(figure: Figure) -> tuple[str, ...]:
    estimate = NO_NUMBER
    if figure.estimate is not None:
        bias = figure.most_bias if figure.rows == TRAINING_ROWS else 0.0
        estimate = estimate_text(figure.estimate, figure.standard_error or 0.0, bias)
    return figure.task, figure.rows, figure.measure, figure.on, f"{figure.value:.3f}", estimate


def loss_figure(report: JobReport) -> Markup | None:
    """The curves of all losses that were logged; None where there is none."""
    curves = [
        (f"{run.task} at {run.role} {part.party_id}", run.losses)
        for part in report.parts
        for run in part.tasks
        if run.losses
    ]
    if not curves:
        return None

    def draw(axis: Axes) -> None:
        for number, (name, losses) in enumerate(curves):
            style = {"color": SERIES[number % len(SERIES)], "linestyle": LINE_STYLES[number % len(LINE_STYLES)]}
            draw_losses(axis, losses, label=name, marker="o" if len(losses) == 1 else "", **style)
        axis.legend(loc="best")

    return svg_drawing("loss", "Loss in each epoch", (9.6, 3.2), draw)


def settings_table(report: JobReport) -> TextTable:
    rows = [(task.name, "all", shown_settings(task.settings)) for task in report.tasks if task.settings]
    rows += [
        (run.task, f"{run.role} {part.party_id}", shown_settings(run.settings))
        for part in report.parts
        for run in part.tasks
        if run.settings
    ]
    return TextTable(("task", "of", "settings"), tuple(rows))


def shown_settings(settings: Mapping[str, Any]) -> str:
    return "; ".join(f"{name}: {shown_value(value)}" for name, value in settings.items())


def shown_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def summaries(report: JobReport) -> Iterator[tuple[str, TextTable]]:
    for part in report.parts:
        for run in part.tasks:
            if run.summary:
                rows = tuple((name, shown_value(value)) for name, value in run.summary.items())
                yield f"{run.task} of {run.role} {part.party_id}", TextTable(("fact", "value"), rows)


def versions_table(report: JobReport) -> TextTable:
    rows = []
    for part in report.parts:
        providers = sorted({run.provider for run in part.tasks if run.provider})
        told = [f"{name} {number}" for name, number in part.versions.items()]
        rows.append((names_of(part.parties), ", ".join(told), ", ".join(providers) or NO_NUMBER))
    return TextTable(("party", "report written with", "provider of the tasks"), tuple(rows))


# Who learned how much of which asset: a row for each observer and a column for each kind of asset.

LEAK, WITH_NOISE = ("fails", "LEAK: every record"), ("holds", "aggregates with noise")
KINDS = {EVERY: "open", SOME: "open", SUMS: "sums", NOTHING: "nothing"}
BADGES = [LEAK, *((kind, DEGREES[learns]) for learns, kind in KINDS.items())]
BADGES.insert(-1, WITH_NOISE)
"""How what an observer learns is marked: what chooses the colour, and how much in words; the most comes first."""


@dataclass(frozen=True)
class Cell:
    """The most that one observer learned of one owner's asset: what chooses its colour, how much, and of what."""

    kind: str
    degree: str
    of: str


@dataclass(frozen=True)
class Matrix:
    """``assets`` head the columns; ``rows`` are observers, each with its cells for each asset, none where it received nothing."""

    assets: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[Cell, ...], ...]], ...]

    @classmethod
    def of(cls, learned: Iterable[Learned], parties: Iterable[str]) -> Matrix:
        """Of all statements about what was learned; ``parties`` have a row even where they learned nothing."""
        most: dict[tuple[str, str, str], Cell] = {}
        for each in sorted(learned, key=strength):
            most.setdefault((each.observer, each.what, whose(each)), Cell(*badge(each), whose(each)))
        assets = [asset for asset in ASSETS if any(what == asset for _, what, _ in most)]

        def cells(observer: str, asset: str) -> tuple[Cell, ...]:
            return tuple(cell for (who, what, _), cell in most.items() if (who, what) == (observer, asset))

        observers = dict.fromkeys([*parties, *sorted(observer for observer, _, _ in most)])
        rows = ((observer, tuple(cells(observer, asset) for asset in assets)) for observer in observers)
        return cls(tuple(NAMES.get(asset, asset) for asset in assets), tuple(rows))


def strength(each: Learned) -> int:
    """Leaks come first, then by how much is learned; aggregates with noise say less than exact ones."""
    return BADGES.index(badge(each))


def badge(each: Learned) -> tuple[str, str]:
    if each.leaks:
        return LEAK
    return WITH_NOISE if each.learns == SUMS and each.form == PRIVATE else (KINDS[each.learns], DEGREES[each.learns])


def whose(each: Learned) -> str:
    """Whose asset, and which of its labels."""
    if each.what != LABELS:
        return f"of {each.owner}"
    if each.labels != FLIPPED:
        return f"true ones of {each.owner}"
    return f"flipped ones of {each.owner}" + ("" if each.epsilon is None else f", epsilon {each.epsilon:g}")
