"""Who learned how much of which asset: one table, a row for each observer and a column for each kind of asset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fate_dp.components.disclosure.declaration import ASSETS, EVERY, FLIPPED, LABELS, NOTHING, SOME, SUMS
from fate_dp.components.disclosure.verdicts import DEGREES, NAMES, PRIVATE

if TYPE_CHECKING:
    from .job_facts import Learned

STRENGTH = {EVERY: 0, SOME: 1, SUMS: 2, NOTHING: 4}
WITH_NOISE = 3
LEAK = ("fails", "LEAK: every record")
KINDS = {EVERY: "open", SOME: "open", SUMS: "sums", NOTHING: "holds"}
"""How what an observer learns is marked, by the word of its declaration."""


@dataclass(frozen=True)
class Cell:
    """The most that one observer learned of one owner's asset.

    Attributes:
        kind: what chooses its colour.
        degree: how much, in words.
        of: whose asset, and of labels which.
    """

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
        most: dict[tuple[str, str, str], Learned] = {}
        for each in sorted(learned, key=strength):
            most.setdefault((each.observer, each.what, whose(each)), each)
        assets = tuple(asset for asset in ASSETS if any(what == asset for _, what, _ in most))
        observers = dict.fromkeys([*parties, *sorted(observer for observer, _, _ in most)])
        rows = tuple(
            (
                observer,
                tuple(
                    tuple(
                        cell_of(each, of) for (who, what, of), each in most.items() if (who, what) == (observer, asset)
                    )
                    for asset in assets
                ),
            )
            for observer in observers
        )
        return cls(tuple(NAMES.get(asset, asset) for asset in assets), rows)


def strength(each: Learned) -> tuple[bool, int]:
    """Leaks come first, then by how much is learned; aggregates with noise say less than exact ones."""
    return not each.leaks, WITH_NOISE if with_noise(each) else STRENGTH[each.learns]


def with_noise(each: Learned) -> bool:
    return each.learns == SUMS and each.form == PRIVATE


def whose(each: Learned) -> str:
    """Whose asset, and which of its labels."""
    if each.what != LABELS:
        return f"of {each.owner}"
    if each.labels != FLIPPED:
        return f"true ones of {each.owner}"
    return f"flipped ones of {each.owner}" + ("" if each.epsilon is None else f", epsilon {each.epsilon:g}")


def cell_of(each: Learned, of: str) -> Cell:
    kind, degree = badge(each)
    return Cell(kind, degree, of)


def badge(each: Learned) -> tuple[str, str]:
    """What chooses the colour of a statement, and how much was learned in words."""
    if each.leaks:
        return LEAK
    return ("holds", "aggregates with noise") if with_noise(each) else (KINDS[each.learns], DEGREES[each.learns])
