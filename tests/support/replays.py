"""Replays: what really moved before the noise, when one record of a call changed, against what was claimed.

A sum that reports a sensitivity of its own cannot be caught by reading its output, if noise was scaled to a number that
is too small. So a call is repeated on neighbouring inputs, and the change of the result, noise aside, is held to the
sensitivity that the result reports. A larger change refutes the claim without any doubt; smaller ones prove nothing, since
the worst neighbour may not have been tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fate_dp.privacy.events import ADD_OR_REMOVE, RELATIONS, REPLACE_ONE
from fate_dp.privacy.mechanisms.aggregates import BoundedMean
from fate_dp.privacy.mechanisms.clipping import ClippedGroups, ClippedSum
from fate_dp.privacy.validation import InvalidArgument, one_of, positive, whole

SUMS = (ClippedSum, ClippedGroups, BoundedMean)
FAR = 1e6
"""What a record is multiplied by, so that it lies beyond every clip and range."""
RECORDS = 4
"""Of a call, tried as the one that changes: the largest ones, which move most."""
# Relative: the roundings of a norm of whole numbers.
ROOM = 1e-12


@dataclass(frozen=True)
class Call:
    """A query of private records before its noise; what stands at the places ``private`` of its arguments has a row per record."""

    query: Callable[..., Any]
    private: tuple[int, ...]
    arguments: tuple[Any, ...]

    @property
    def records(self) -> tuple[Any, ...]:
        return tuple(self.arguments[place] for place in self.private)

    @cached_property
    def result(self) -> Any:
        return self.query(*self.arguments)

    def repeated(self, records: Sequence[Any]) -> Any:
        """The result on other records; all else is as it was."""
        arguments = list(self.arguments)
        for place, given in zip(self.private, records, strict=True):
            arguments[place] = given
        return self.query(*arguments)


@dataclass(frozen=True)
class Moved:
    """How far the replays of one call moved at most.

    Attributes:
        query: name of the function.
        relation: under which the inputs were neighbours.
        claimed: the sensitivity that the result reports, in steps of its grid.
        moved: the largest change, in the same unit and norm.
        replays: how many neighbouring inputs were tried.
    """

    query: str
    relation: str
    claimed: float
    moved: float
    replays: int

    def __post_init__(self) -> None:
        one_of("relation", self.relation, RELATIONS)
        positive("claimed", self.claimed)
        if not self.moved >= 0:
            raise InvalidArgument.of("moved", self.moved, "a number of at least 0")
        whole("replays", self.replays, 1)

    @property
    def refutes(self) -> bool:
        """Whether one record moved more than is claimed."""
        return self.moved > self.claimed * (1 + ROOM)

    @property
    def sentence(self) -> str:
        """What was found."""
        return (
            f"One record moved {self.query} by {self.moved / self.claimed:.4g} times the sensitivity that it reports under "
            f"{self.relation}."
        )


def replay(call: Call, relation: str) -> Moved:
    """Repeat a call on neighbours of its input; raises `InvalidArgument` where the query cannot be replayed."""
    name, records = call.query.__name__, tuple(map(np.asarray, call.records))
    if not all(rows.ndim and rows.dtype.kind in "fiub" for rows in records) or not isinstance(call.result, SUMS):
        raise InvalidArgument(f"{name} is no query of records that can be replayed.")
    if isinstance(call.result, BoundedMean) and relation != REPLACE_ONE:
        raise InvalidArgument(f"relation must be {REPLACE_ONE} for {name}, got {relation!r}.")
    replays = 0
    changes: list[tuple[float, float]] = []
    for other in neighbours(records, relation):
        replays += 1
        changes += _changes(call.result, call.repeated(other), relation)
    moved, claimed = max(changes, key=lambda change: change[0] / change[1])
    return Moved(name, relation, claimed, moved, replays)


def neighbours(records: tuple[NDArray[Any], ...], relation: str) -> Iterator[tuple[NDArray[Any], ...]]:
    """Tables that differ in one of the largest records, or by one further record, whose first part lies far out.

    ``records`` holds an array for each part of a record, such as features and label; only the first is changed.
    """
    values = records[0]
    sizes = np.nan_to_num(np.abs(values).reshape(len(values), -1).astype(np.float64), nan=0.0, posinf=0.0)
    largest = np.argsort(-sizes.max(axis=1, initial=0.0), kind="stable")[:RECORDS].tolist()
    if one_of("relation", relation, RELATIONS) == ADD_OR_REMOVE:
        for place in largest:
            further = np.full((1, *values.shape[1:]), FAR, dtype=values.dtype)
            yield tuple(np.concatenate([rows, further if rows is values else rows[[place]]]) for rows in records)
            yield tuple(np.delete(rows, place, axis=0) for rows in records)
        return
    for place in largest:
        for record in (-FAR * values[place], FAR, -FAR):
            other = values.copy()
            other[place] = record
            yield (other, *records[1:])


def _changes(before: Any, after: Any, relation: str) -> Iterator[tuple[float, float]]:
    """(what moved, what is claimed) in steps of the grid: in l1 for means, in l2 for clipped sums, of each group."""
    if isinstance(before, ClippedGroups):
        for first, second in zip(before.sums, after.sums, strict=True):
            yield from _changes(first, second, relation)
        return
    order = 1 if isinstance(before, BoundedMean) else 2
    difference = np.asarray(after.steps, dtype=np.float64) - np.asarray(before.steps, dtype=np.float64)
    yield float(np.linalg.norm(difference.ravel(), ord=order)), float(before.sensitivity_in_steps(relation))
