"""A scorecard as one HTML page that needs nothing else: for each column the points of its bins, and how far noise may move them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from fate_dp.components.common.federation import Document
from fate_dp.components.dp_scorecard.export import GUEST, Binning, Characteristic, characteristics
from fate_dp.components.dp_scorecard.model import COUNTED, POINTS_NOISE, Scorecard, evidence_of
from fate_dp.privacy.private_files import atomic_write

from .page import BLUE, ORANGE, Made, moment, render

SIGMAS = 2
"""Of the noise: what whiskers, and numbers behind a plus-minus sign, show."""
MEANING = (
    "Bars are the points of a bin against the mean of its column; more points mean smaller odds of the label 1. Whiskers, "
    "and what follows \N{PLUS-MINUS SIGN}, are two standard deviations of the noise that privacy adds, to first order: they "
    "say nothing about chance in the data. A pale bar cannot be told apart from 0, or has no more records than noise alone "
    "may give. Bins below a dashed line are outside the order."
)


@dataclass(frozen=True)
class CardFacts:
    """What a page tells beside the model: ``figures``, measures on held-out ``rows``, with intervals, as text; the
    total ``epsilon`` of each party, 0 where nobody says; ``categories``, {party: {column: texts}} of numbers that
    stand for texts."""

    figures: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    epsilon: float = 0.0
    job_id: str = ""
    categories: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Bin:
    """A row of the page; ``cells`` are records, share of the label 1 and WOE, none where counts are not told."""

    label: str
    points: int
    noise: float
    cells: tuple[str, ...]
    is_seen: bool


@dataclass(frozen=True)
class Column:
    """Its ``ordered`` bins, and those ``apart``: missing, special and rare ones."""

    name: str
    iv: float
    ordered: list[Bin]
    apart: list[Bin]

    @classmethod
    def of(cls, column: Characteristic, facts: CardFacts) -> "Column":
        evidence, bins = evidence_of(column.told), []
        noise = column.told.get(POINTS_NOISE, [0.0] * len(column.points))
        for at, label in enumerate(labels_of(column, facts)):
            counts = [column.told[key][at] for key in COUNTED] if evidence else [1.0, 0.0, 0.0, 0.0]
            seen = counts[0] > SIGMAS * counts[2]
            cells = counted_cells(counts, float(evidence.woe[at]), seen) if evidence else ()
            bins.append(Bin(label, column.points[at], SIGMAS * noise[at], cells, seen))
        ordered = column.bins.ordered if column.bins is not None else len(bins)
        return cls(column.name, evidence.iv if evidence else 0.0, bins[:ordered], bins[ordered:])


def write_card(path: Path, document: Document, binning: Binning | None = None, facts: CardFacts = CardFacts()) -> None:
    """Write the page of a model of dp_scorecard, whole or not at all; ``binning`` as `export` takes it: a host's model of
    dp_binning names its columns and bins, which are numbers otherwise."""
    card, columns = Scorecard.from_json(document), characteristics(document, binning).values()
    drawn = sorted((Column.of(each, facts) for each in columns), key=lambda each: -each.iv)
    reach = max(abs(each.points) + each.noise for column in drawn for each in column.ordered + column.apart)
    parts = [(name, *text.rstrip(")").partition(" (")) for name, text in facts.figures.items()]
    figures = [
        ("private", value, f"{name}, 95 % from {ends} on {facts.rows} held-out rows") for name, value, _, ends in parts
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
        columns=drawn,
        reach=max(reach, 1.0),
        colours=(ORANGE, BLUE),
    )
    atomic_write(path, page)


def labels_of(column: Characteristic, facts: CardFacts) -> list[str]:
    """Ranges, texts of categories, or numbers of bins."""
    if column.bins is None:
        return [f"bin {number}" for number in range(len(column.points))]
    party = column.name.removesuffix(column.bins.name).removesuffix(": ") or GUEST
    texts: dict[float, str] = dict(enumerate(facts.categories.get(party, {}).get(column.bins.name, ())))
    labels = column.bins.labels()
    named = [texts.get(number, label) for number, label in zip(column.bins.categories or (), labels)]
    return [*named, *labels[len(named) :]]


def counted_cells(counts: list[float], woe: float, seen: bool) -> tuple[str, ...]:
    """Records, share of the label 1 and WOE of a bin, with what noise may do to them; dashes for a bin of noise alone."""
    records, ones, of_records, of_ones = counts
    one, other = 1 / max(ones, of_ones), 1 / max(records - ones, of_ones)
    # Noise on records is shared by both classes; that on sums of targets adds to one what it takes from the other.
    opposite = max(4 * of_ones**2 - of_records**2, 0.0)
    error = math.sqrt(opposite * (one + other) ** 2 + of_records**2 * (one - other) ** 2) / 2
    told = f"{max(records, 0.0):.0f} ±{SIGMAS * of_records:.0f}"
    if not seen:
        return told, "\N{EN DASH}", "\N{EN DASH}"
    return told, f"{100 * min(1.0, max(0.0, ones / records)):.0f} %", f"{woe:+.2f} ±{SIGMAS * error:.2f}"
