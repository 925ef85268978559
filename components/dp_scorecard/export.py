"""What users do with a scorecard outside FATE: score records, see each column's part, draw the shapes. No FATE in here.

A record gives for every column the number of its bin. Whoever has the models of `dp_binning` may pass them as ``binning``,
{party: model} with "guest" or "host 10000" as the party whose columns they cut, and then gives those columns' values instead,
None or NaN for a missing one. Files in other formats: `formats.py`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from fate_dp.privacy.bins import ColumnBins, TableBins

from ..common.federation import Document
from .model import Scorecard

GUEST = "guest"
Binning = Mapping[str, dict]


class Scored(NamedTuple):
    """Points of one record, and the probability of the label 1 that they stand for."""

    points: int
    probability: float


Scorer = Callable[[Mapping[str, Any]], Scored]


@dataclass(frozen=True)
class Characteristic:
    """One column of a scorecard: the points of its bins, how its values are cut, where that is known, and what the model
    tells of the bins (`model.Points`)."""

    name: str
    points: tuple[int, ...]
    bins: ColumnBins | None = None
    told: Document = field(default_factory=dict)

    def points_of(self, given: object) -> int:
        """Of a value, or of the number of its bin where no bins are known; ValueError where the column has no such one."""
        if self.bins is not None:
            missing = given is None
            if not missing and (isinstance(given, bool) or not isinstance(given, int | float)):
                raise ValueError(
                    f"The value of {self.name!r} must be a number, or None where it is missing, got {given!r}."
                )
            return self.points[int(self.bins.codes(np.array([math.nan if missing else given]))[0])]
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < len(self.points):
            raise ValueError(
                f"The bin of {self.name!r} must be a whole number from 0 to {len(self.points) - 1}, got {given!r}."
            )
        return self.points[given]


def characteristics(document: Document, binning: Binning | None = None) -> dict[str, Characteristic]:
    """Every column by its name; a host's is called ``host 10000: x0`` at the guest, or as the host's ``binning`` names it.

    ValueError where ``binning`` names a party without columns here, or cuts other columns than that party has.
    """
    card, known = Scorecard.from_json(document), dict(binning or {})
    found = {}
    for party, part in ((GUEST, card.own), *card.hosts.items()):
        prefix = "" if party == GUEST else f"{party}: "
        cut: list[ColumnBins] | list[None] = [None] * len(part.counts)
        if party in known:
            cut = _bins_of(party, known.pop(party), part.counts)
        for column, bins in zip(part.to_json(), cut):
            name = f"{prefix}{column['column'] if bins is None else bins.name}"
            found[name] = Characteristic(name, tuple(column["points"]), bins, column)
    if known:
        parties = ", ".join([GUEST, *card.hosts])
        raise ValueError(f"binning names {next(iter(known))!r}; the scorecard has columns of {parties}.")
    return found


def _bins_of(party: str, model: Document, counts: tuple[int, ...]) -> list[ColumnBins]:
    try:
        bins = TableBins.from_wire(model["bins"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"binning of {party!r} must be the output_model of dp_binning and holds no bins.") from error
    if bins.counts != counts:
        raise ValueError(
            f"binning of {party!r} has other columns than the scorecard; take the model that it was made with."
        )
    return list(bins.columns)


def with_ridge(document: Document, ridge: float) -> Document:
    """The document of the scorecard under another ridge of its ridge_path; ValueError where the path has no such ridge."""
    path = {each["ridge"]: each["scorecard"] for each in document["data"].get("ridge_path", [])}
    if ridge not in path:
        raise ValueError(
            f"ridge must be of the model's ridge_path, {', '.join(map(repr, path)) or 'none'}, got {ridge!r}."
        )
    return {**document, "data": {"scorecard": path[ridge]}}


def contributions(document: Document, record: Mapping[str, object], binning: Binning | None = None) -> dict[str, int]:
    """The points that each of the columns in ``record`` adds; ValueError for a column or bin that the scorecard has not."""
    return _contributions(characteristics(document, binning), record)


def _contributions(columns: Mapping[str, Characteristic], record: Mapping[str, object]) -> dict[str, int]:
    for name in record:
        if name not in columns:
            raise ValueError(f"The scorecard has no column {name!r}; its columns are {', '.join(columns)}.")
    return {name: columns[name].points_of(given) for name, given in record.items()}


def function_of(document: Document, binning: Binning | None = None) -> Scorer:
    """A function of one record, of all columns, that gives its points and probability."""
    card, columns = Scorecard.from_json(document), characteristics(document, binning)

    def score(record: Mapping[str, object]) -> Scored:
        missing = sorted(set(columns) - set(record))
        if missing:
            raise ValueError(f"The record has no {missing[0]!r}; a score needs all {len(columns)} columns.")
        points = card.base + sum(_contributions(columns, record).values())
        return Scored(points, float(expit(card.scale.log_odds(points))))

    return score


def reasons(document: Document, record: Mapping[str, object], binning: Binning | None = None) -> list[tuple[str, int]]:
    """(column, points below the best of its bins), most first: why a record has no more points than it has."""
    columns = characteristics(document, binning)
    lost = {name: max(columns[name].points) - points for name, points in _contributions(columns, record).items()}
    return sorted(((name, points) for name, points in lost.items() if points), key=lambda each: (-each[1], each[0]))
