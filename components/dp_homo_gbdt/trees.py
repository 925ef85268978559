"""Batches of trees whose splits read no record: where a record falls, and what it adds to the sums by leaf.

All trees of a batch have the same depth and are full: node i has the children 2 i + 1 and 2 i + 2. A node asks for the bin
of one column (`fate_dp.privacy.bins`), and some bins go right. Which column and which bins is drawn by `growth` from a public
seed and from what was released before, so that splits cost nothing.

Every record adds (g, w h) to the sums of its leaf in every tree, with g = y - p and h = p (1 - p) of the loss at its score,
p = 1 / (1 + e^-score). It is in exactly one leaf of each of the B trees, so that it moves the vector of all sums by sqrt(B)
times the norm of (g, w h), which is at most 1 for w = ``CURVATURE_WEIGHT``: with q = |g|, q^2 + w^2 q^2 (1 - q)^2 <= 1 for all
q if w^2 <= min (1 + q) / (q^2 (1 - q)) = 11.0901.., at q = (sqrt 5 - 1) / 2. So sums of h come for nothing beside those of g,
with noise that is smaller by w. Before the first batch all scores are 0 and (g, w h) = (+-1/2, w / 4), whose norm is smaller:
noise of that batch is, too.

Rounding each number to the grid of the clip moves a record's 2 B numbers by half a step each, for which `ClippedSum` has
room. Sums of whole numbers are exact in any order; all else is done element by element, so that no record feels another.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fate_dp.privacy.mechanisms.clipping import ClippedSum, grid_for

CURVATURE_WEIGHT = 3.33
# Of the first batch, in which the sums of h hold nothing but the number of records.
FIRST_CURVATURE_WEIGHT = 1.0
FIRST_BOUND = math.nextafter(math.hypot(0.5, FIRST_CURVATURE_WEIGHT / 4), 1)
BOUND = 1.0
# Room for the roundings of a norm and of a quotient by it.
ROUND_DOWN = 1 - 2.0**-40
# Steps of a record are at most 2^35, and sums of floats exact up to 2^53.
ROWS_AT_ONCE = 2**17

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """The splits of trees that are grown together; public.

    ``columns``, int64 (trees, nodes), are what each node asks for; ``right``, bool (trees, nodes, bins), which bins go
    right.
    """

    columns: Integers
    right: NDArray[np.bool_]

    @property
    def depth(self) -> int:
        return (self.columns.shape[1] + 1).bit_length() - 1

    @property
    def trees(self) -> int:
        return len(self.columns)

    @property
    def leaves(self) -> int:
        return self.columns.shape[1] + 1

    def leaf_of(self, codes: Integers, tree: int) -> Integers:
        """The leaf of each row (rows,), from 0, of bins (rows, columns)."""
        node, rows = np.zeros(len(codes), dtype=np.int64), np.arange(len(codes))
        columns, right = self.columns[tree], self.right[tree]
        for _ in range(self.depth):
            node = 2 * node + 1 + right[node, codes[rows, columns[node]]]
        return node - (self.leaves - 1)

    def step_of(self, codes: Integers, values: Floats) -> Floats:
        """What the trees with these values of leaves (trees, leaves) add to each row's score (rows,)."""
        total = np.zeros(len(codes))
        # One tree after the other: numpy's own sums take another order for a single row.
        for tree in range(self.trees):
            total += values[tree][self.leaf_of(codes, tree)]
        return total


def curvature_weight(round_number: int) -> float:
    """w, of the sums of h in a round (from 0)."""
    return CURVATURE_WEIGHT if round_number else FIRST_CURVATURE_WEIGHT


def clips_of(rounds: int, trees: int) -> tuple[float, ...]:
    """The largest norm of what one record adds to all sums of each round, of batches of so many trees."""
    return tuple(clip_of_trees(trees, number) for number in range(rounds))


def clip_of_trees(trees: int, round_number: int) -> float:
    """The largest norm of what one record adds to the sums of so many trees of a round (from 0)."""
    return (BOUND if round_number else FIRST_BOUND) * math.sqrt(trees)


def record_steps(scores: Floats, labels: Floats, weight: float, bound: float, grid: float) -> Integers:
    """int64 (rows, 2): each row's (g, w h) at norm at most ``bound``, in steps of the grid.

    A row whose score is not finite adds nothing.
    """
    probability = expit(scores)
    gradient, curvature = labels - probability, weight * (probability * (1 - probability))
    norms = np.sqrt(gradient * gradient + curvature * curvature)
    factors = np.minimum(1.0, np.divide(bound * ROUND_DOWN, norms, out=np.ones_like(norms), where=norms > 0)) / grid
    parts = np.stack([gradient * factors, curvature * factors], axis=1)
    return np.rint(np.where(np.isfinite(parts), parts, 0.0)).astype(np.int64)


def leaf_steps(batch: Batch, codes: Integers, labels: Floats, scores: Floats, clip: float, weight: float) -> Integers:
    """int64 (2 trees leaves,): sums of g by leaf of all trees, then those of w h; private until noise is added.

    ``clip`` is of a record's part of all sums; each tree's share of it is clip / sqrt(trees). ``weight`` is w.
    """
    total = np.zeros((2, batch.trees, batch.leaves), dtype=np.int64)
    grid, bound = grid_for(clip), clip / math.sqrt(batch.trees)
    for start in range(0, len(codes), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        steps = record_steps(scores[part], labels[part], weight, bound, grid)
        for tree in range(batch.trees):
            leaves = batch.leaf_of(codes[part], tree)
            for kind in range(2):
                found = np.bincount(leaves, weights=steps[:, kind], minlength=batch.leaves)
                total[kind, tree] += found.astype(np.int64)
    return total.ravel()


def leaf_sums(batch: Batch, codes: Integers, labels: Floats, scores: Floats, clip: float, weight: float) -> ClippedSum:
    """The same with the sensitivity that it reports of itself."""
    return ClippedSum(leaf_steps(batch, codes, labels, scores, clip, weight), grid_for(clip), clip)
