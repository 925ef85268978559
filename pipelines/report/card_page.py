"""A scorecard as one HTML page that needs nothing else: for each column the points of its bins, and how far noise may move them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from markupsafe import Markup

from fate_dp.components.common.federation import Document
from fate_dp.components.dp_scorecard.export import GUEST, Binning, Characteristic, characteristics
from fate_dp.components.dp_scorecard.model import COUNTED, POINTS_NOISE, Scorecard, evidence_of
from fate_dp.privacy.private_files import atomic_write

from ..jobs.text_tables import TextTable
from .page import BLUE, ORANGE, Made, moment, render

WIDTH, EDGE = 240, 4
SIGMAS = 2
HEADINGS = ("bin", "", "points", "records", "label 1", "WOE")
NOTHING = "\N{EN DASH}"
"""Where a bin has no more records than noise alone may give."""
MEANING = (
    "Bars are the points of a bin against the mean of its column; more points, smaller odds of the label 1. Whiskers, and what "
    "follows \N{PLUS-MINUS SIGN}, are two standard deviations of the noise that privacy adds, to first order: they say nothing of chance in "
    "the data. A pale bar is not told apart from 0, or has no more records than noise alone may give. Below a dashed line stand bins outside the order."
)


@dataclass(frozen=True)
class CardFacts:
    """What a page tells beside the model.

    Attributes:
        figures: measures on held-out ``rows``, with intervals, as text.
        epsilon: total of each party; 0 where nobody says.
        categories: {party: {column: texts}} of columns whose categories are numbers of texts.
    """

    figures: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    epsilon: float = 0.0
    job_id: str = ""
    categories: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Drawn:
    """One column: its ``ordered`` bins as a table, and those ``apart``: missing, special and rare ones."""

    name: str
    iv: float
    ordered: TextTable
    apart: TextTable


def write_card(path: Path, document: Document, binning: Binning | None = None, facts: CardFacts = CardFacts()) -> None:
    """Write the page of a model of dp_scorecard, whole or not at all; ``binning`` as `export` takes it: a host's model of
    dp_binning names its columns and bins, which are numbers otherwise."""
    card, columns = Scorecard.from_json(document), characteristics(document, binning).values()
    reach = max(abs(points) + noise for each in columns for points, noise in zip(each.points, whiskers(each)))
    figures = [
        ("private", value, f"{name}, 95 % from {interval} on {facts.rows} held-out rows")
        for name, (value, _, interval) in (
            (name, text.rstrip(")").partition(" (")) for name, text in facts.figures.items()
        )
    ]
    total = [("epsilon", f"ε = {facts.epsilon:g}", "of each party's part of a record, in all")] if facts.epsilon else []
    scale = (
        f"points of a record before its bins; {card.scale.base_points} stand for odds of {card.scale.base_odds:g} to 1"
    )
    page = render(
        "card_template.html",
        result=Made(f"job {facts.job_id}"),
        title="Scorecard",
        of="scorecard",
        created=moment(datetime.now(timezone.utc).isoformat()),
        summary=f"{len(columns)} columns; {card.scale.double:g} points more halve the odds of the label 1.",
        cards=[*figures, *total, ("guest_only", str(card.base), scale)],
        precision_of_figures=MEANING,
        columns=sorted((drawn(each, max(reach, 1.0), facts) for each in columns), key=lambda each: -each.iv),
    )
    atomic_write(path, page)


def whiskers(column: Characteristic) -> list[float]:
    """Of every bin; 0 where the model does not tell."""
    return [SIGMAS * each for each in column.told.get(POINTS_NOISE, [0.0] * len(column.points))]


def drawn(column: Characteristic, reach: float, facts: CardFacts) -> Drawn:
    evidence, names = evidence_of(column.told), labels_of(column, facts)
    rows = []
    for at, (points, noise) in enumerate(zip(column.points, whiskers(column))):
        counts = [column.told[key][at] for key in COUNTED] if evidence else []
        counted = counted_cells(counts, float(evidence.woe[at])) if evidence else ()
        pale = abs(points) <= noise or NOTHING in counted
        rows.append((names[at], bar(points, noise, reach, pale), f"{points:+d} ±{noise:.0f}", *counted))
    ordered = column.bins.ordered if column.bins is not None else len(rows)
    headings = HEADINGS if evidence else HEADINGS[:3]
    tables = [TextTable(headings, tuple(part), frozenset(HEADINGS[2:])) for part in (rows[:ordered], rows[ordered:])]
    return Drawn(column.name, evidence.iv if evidence else 0.0, *tables)


def labels_of(column: Characteristic, facts: CardFacts) -> list[str]:
    """Ranges, texts of categories, or numbers of bins."""
    if column.bins is None:
        return [f"bin {number}" for number in range(len(column.points))]
    party = column.name.removesuffix(column.bins.name).removesuffix(": ") or GUEST
    texts = facts.categories.get(party, {}).get(column.bins.name, ())
    named = [texts[int(number)] for number in column.bins.categories or ()] if texts else []
    return [*named, *column.bins.labels()[len(named) :]]


def counted_cells(counted: list[float], woe: float) -> tuple[str, ...]:
    """Records, share of the label 1 and WOE of a bin, with what noise may do to them."""
    records, ones, of_records, of_ones = counted
    one, other = 1 / max(ones, of_ones), 1 / max(records - ones, of_ones)
    # Noise on records is shared by both classes; that on sums of targets adds to one what it takes from the other.
    opposite = max(4 * of_ones**2 - of_records**2, 0.0)
    error = math.sqrt(opposite * (one + other) ** 2 + of_records**2 * (one - other) ** 2) / 2
    told = f"{max(records, 0.0):.0f} ±{SIGMAS * of_records:.0f}"
    if records <= SIGMAS * of_records:
        return told, NOTHING, NOTHING
    return told, f"{100 * min(1.0, max(0.0, ones / records)):.0f} %", f"{woe:+.2f} ±{SIGMAS * error:.2f}"


def bar(points: int, noise: float, reach: float, pale: bool) -> Markup:
    """An SVG of one bar from the middle, with its whisker."""
    zero, end, low, high = (
        round(WIDTH / 2 + value / reach * (WIDTH / 2 - EDGE), 1)
        for value in (0, points, points - noise, points + noise)
    )
    whisker = f'<path d="M{low} 11H{high}M{low} 7v8M{high} 7v8" stroke="currentColor" fill="none"/>' if noise else ""
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} 22" class="bar-of-bin" role="img" aria-label="{points:+d}, noise {noise:.0f}">'
        f'<path d="M{zero} 0V22" stroke="currentColor" stroke-opacity=".3"/>'
        f'<rect x="{min(zero, end)}" y="4" width="{abs(end - zero):.1f}" height="14" fill="{BLUE if points >= 0 else ORANGE}" '
        f'fill-opacity=".{3 if pale else 9}"/>{whisker}</svg>'
    )
