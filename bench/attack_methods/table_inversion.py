"""Rows of a table from the gradient that they gave: numbers and categories, cell by cell.

Rows are encoded as a model takes them: numeric columns in public units first, then one column of 0 and 1 for each category.
A *cell* is a number, or a category that several columns encode. It counts as recovered where the category is right, or the
number is within `TOLERANCE` standard deviations of its column.

The threat model is that of `gradient_inversion`; what is public besides is how rows are encoded and the limits of numbers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from bench.attack_methods.results import Cost
from bench.attack_methods.view import RoundView, require
from fate_dp.privacy.validation import InvalidArgument

from .gradient_inversion import Labels, Objective, Reconstruction, SearchOptions, nearest_of, squared_distance

Array = NDArray[np.float64]
TOLERANCE = 0.319
"""Of M. Vero et al.: within it, a guess drawn from the column's own distribution is right for about one number in five."""


@dataclass(frozen=True, eq=False)
class TableColumns:
    """How rows are encoded, which is public.

    Attributes:
        numeric: names of the numeric columns, which come first.
        categories: how many categories each further column has, by its name.
        low: of the numeric columns, in the units of the encoding.
        high: as ``low``.
        spread: standard deviation of each numeric column, in the same units.
    """

    numeric: tuple[str, ...]
    categories: tuple[tuple[str, int], ...]
    low: Array = field(repr=False)
    high: Array = field(repr=False)
    spread: Array = field(repr=False)

    @property
    def width(self) -> int:
        """Encoded columns."""
        return len(self.numeric) + sum(count for _, count in self.categories)

    @property
    def cells(self) -> tuple[str, ...]:
        """Names of the cells of a row."""
        return (*self.numeric, *(name for name, _ in self.categories))

    @property
    def groups(self) -> list[slice]:
        """The encoded columns of each column of categories."""
        ends = np.cumsum([len(self.numeric), *(count for _, count in self.categories)]).tolist()
        return [slice(start, end) for start, end in zip(ends, ends[1:])]

    def decided(self, rows: Array) -> Array:
        """(n, cells): each number, and the number of the largest category; of rows (n, width)."""
        chosen = [rows[:, group].argmax(axis=1) for group in self.groups]
        return np.column_stack([rows[:, : len(self.numeric)], *chosen]).astype(np.float64)

    def right(self, cells: Array, other: Array) -> NDArray[np.bool_]:
        """(n, cells): which of the cells agree, as `decided` gives them."""
        count = len(self.numeric)
        near = np.abs(cells[:, :count] - other[:, :count]) <= TOLERANCE * self.spread
        return np.column_stack([near, cells[:, count:] == other[:, count:]])


def recovered_cells(originals: Array, cells: Array, columns: TableColumns) -> NDArray[np.bool_]:
    """(n, cells): which cells of encoded rows were found, the found rows in the order that makes most of them right."""
    truth = columns.decided(originals)
    count = len(truth)
    agreeing = np.array([[columns.right(one[None], other[None]).sum() for other in cells] for one in truth])
    _, order = linear_sum_assignment(-agreeing.reshape(count, count))
    return columns.right(truth, cells[order])


def likely_cells(weights: Array, public: Array, columns: TableColumns) -> Array:
    """(1, cells): in every cell the value that is right with the largest probability; of public rows (n, width).

    With equal weights it is what one guesses without any view, and with those of `prior_inversion.posterior`
    the best that a noised view allows. Numbers are chosen among those that public rows have.
    """
    cells = columns.decided(public)
    found = [_likeliest(cells[:, place], weights, TOLERANCE * spread) for place, spread in enumerate(columns.spread)]
    for place in range(len(columns.numeric), cells.shape[1]):
        shares = np.bincount(cells[:, place].astype(np.int64), weights=weights)
        found.append(float(shares.argmax()))
    return np.array([found])


def _likeliest(values: Array, weights: Array, tolerance: float) -> float:
    """The value around which most weight lies."""
    order = np.argsort(values, kind="stable")
    ordered, summed = values[order], np.concatenate([[0.0], np.cumsum(weights[order])])
    first = np.searchsorted(ordered, ordered - tolerance, side="left")
    last = np.searchsorted(ordered, ordered + tolerance, side="right")
    return float(ordered[int((summed[last] - summed[first]).argmax())])


class TableObjective(Objective):
    """The distance of candidates whose categories are relaxed: any numbers, made shares by a softmax in each group."""

    def __init__(self, view: RoundView, labels: Labels, columns: TableColumns) -> None:
        super().__init__(view, labels, squared_distance)
        self.columns = columns
        self._low, self._range = torch.from_numpy(columns.low), torch.from_numpy(columns.high - columns.low)

    def rows(self, free: Tensor) -> Tensor:
        """Encoded rows (n, width) within the limits, of any numbers of that shape."""
        count = len(self.columns.numeric)
        numbers = self._low + self._range * torch.sigmoid(free[:, :count])
        return torch.cat([numbers, *(torch.softmax(free[:, group], dim=1) for group in self.columns.groups)], dim=1)

    def distance(self, records: Tensor) -> Tensor:
        return super().distance(self.rows(records))


def invert_rows(view: RoundView, labels: Labels, columns: TableColumns, options: SearchOptions) -> Reconstruction:
    """Encoded rows whose gradient is nearest to what was received, pooled over ``options.restarts`` starts.

    *Paper:* M. Vero, M. Balunovic, D. I. Dimitrov, M. Vechev, "TabLeak: tabular data leakage in federated learning", ICML
    2023. From it come the softmax for categories, the pool of starts, whose rows are matched with those of the start that
    came nearest before they are averaged, and the measure. Other than there, the search is L-BFGS on the squared distance,
    since the model is smooth; numbers are kept within public limits; only the nearer half of the starts is pooled, with
    the median of numbers and the mean of shares.

    *Threat model:* any view of a model on encoded rows, whose labels are known or recovered. *Cost:* about 1.25 gradients
    and their derivatives for each step of each start.

    *What it cannot do:* tell which cells are right (the paper reads it from the entropy of the pool), nor which row belongs
    to which label but by the gradient. Rows of large batches of one label are mixed up. Under noise it explains the noise.
    """
    view = require(view, "Inversion of rows")
    if view.record_shape != (columns.width,):
        raise InvalidArgument(
            f"The view is of records of shape {view.record_shape} but the columns encode rows of {columns.width} numbers."
        )
    started = time.perf_counter()
    objective = TableObjective(view, labels, columns)
    found = []
    for start in range(options.restarts):
        one = nearest_of(objective, replace(options, restarts=1, seed=options.seed + start))
        found.append((one.distance, objective.rows(torch.from_numpy(one.records)).numpy()))
    found.sort(key=lambda pair: pair[0])
    nearer = [rows for _, rows in found[: (len(found) + 1) // 2]]
    cost = Cost(time.perf_counter() - started, objective.asked)
    return Reconstruction(_pooled(nearer, columns), labels, found[0][0], cost)


def _pooled(starts: Sequence[Array], columns: TableColumns) -> Array:
    """Rows that the starts agree on, in the order of the first."""
    first, count = starts[0], len(columns.numeric)
    scale = np.concatenate([columns.spread, np.ones(columns.width - count)])
    aligned = [first]
    for rows in starts[1:]:
        distances = np.abs((first[:, None, :] - rows[None, :, :]) / scale).sum(axis=2)
        _, order = linear_sum_assignment(distances)
        aligned.append(rows[order])
    stack = np.stack(aligned)
    return np.concatenate([np.median(stack[:, :, :count], axis=0), stack[:, :, count:].mean(axis=0)], axis=1)
