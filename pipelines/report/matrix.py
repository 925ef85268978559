"""Who learned how much of which asset: one table, a row for each observer and a column for each kind of asset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fate_dp.components.disclosure.declaration import ASSETS, EVERY, FLIPPED, LABELS, NOTHING, PRIVATE, SOME, SUMS
from fate_dp.components.disclosure.verdicts import DEGREES, NAMES

if TYPE_CHECKING:
    from .job_facts import Learned

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
    """How a statement is marked, one of `BADGES`."""
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
