"""What users do with a scorecard outside FATE: score records, see each column's part, draw the shapes. No FATE in here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .model import Scorecard


class Scored(NamedTuple):
    """Points of one record, and the probability of the label 1 that they stand for."""

    points: int
    probability: float


Scorer = Callable[[Mapping[str, int]], Scored]


def parts_of(document: dict) -> dict[str, list[int]]:
    """The points of every column's bins, by column; a host's is called ``host 10000: x0`` at the guest."""
    card = Scorecard.from_json(document)
    named = [("", card.own), *((f"{name}: ", points) for name, points in card.hosts.items())]
    return {f"{prefix}{column['column']}": column["points"] for prefix, part in named for column in part.to_json()}


def contributions(document: dict, record: Mapping[str, int]) -> dict[str, int]:
    """The points that each of the columns in ``record``, {column: number of the bin}, adds.

    Raises:
        ValueError: the scorecard has no such column, or the column no such bin.
    """
    parts, found = parts_of(document), {}
    for column, number in record.items():
        if column not in parts:
            raise ValueError(f"The scorecard has no column {column!r}; its columns are {', '.join(parts)}.")
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(parts[column]):
            raise ValueError(
                f"The bin of {column!r} is {number!r}; it must be a whole number from 0 to {len(parts[column]) - 1}."
            )
        found[column] = parts[column][number]
    return found


def function_of(document: dict) -> Scorer:
    """A function of one record, {column: number of the bin} for all columns, that gives its points and probability."""
    card, columns = Scorecard.from_json(document), set(parts_of(document))

    def score(record: Mapping[str, int]) -> Scored:
        missing = sorted(columns - set(record))
        if missing:
            raise ValueError(f"The record has no bin of {missing[0]!r}; a score needs all {len(columns)} columns.")
        points = card.base + sum(contributions(document, record).values())
        return Scored(points, 1.0 / (1.0 + math.exp(-float(card.scale.log_odds(points)))))

    return score


def picture(document: dict, path: str | Path) -> None:
    """A PNG with one panel for each column: the points of its bins, which is the shape of its part in the score."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    parts = parts_of(document)
    across = min(4, len(parts))
    down = -(-len(parts) // across)
    figure = Figure(figsize=(3.2 * across, 2.2 * down), layout="constrained")
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(down, across, squeeze=False, sharey=True)
    for panel, (column, points) in zip(panels.flat, parts.items()):
        panel.step(range(len(points)), points, where="mid")
        panel.axhline(0, linewidth=0.5)
        panel.set_title(column, fontsize=8)
        panel.set_xlabel("bin", fontsize=7)
    for panel in list(panels.flat)[len(parts) :]:
        panel.set_visible(False)
    panels[0][0].set_ylabel("points", fontsize=7)
    figure.savefig(path, dpi=120)
