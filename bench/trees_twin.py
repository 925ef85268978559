"""A plaintext twin of FATE 2.2's HeteroSecureBoost for two classes: the trees that guest and hosts grow together.

What is encrypted there is added up here: encryption changes which party sees what, not which split is best. Written from the
algorithm: quantile bins, Newton steps of the logistic loss that begin at 0, levels of nodes, the best split by gain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TreeSettings:
    """HeteroSecureBoost's parameters under its names; the defaults are FATE's, but for the number of trees (3 there)."""

    num_trees: int = 20
    max_depth: int = 3
    learning_rate: float = 0.3
    max_bin: int = 32
    l2: float = 0.1
    min_child_weight: float = 1.0
    min_impurity_split: float = 0.01


@dataclass(frozen=True)
class Tree:
    """A full binary tree in an array: node i has the children 2 i + 1 and 2 i + 2; ``column`` is -1 where it ends."""

    column: NDArray[np.int64]
    cut: NDArray[np.int64]
    weight: Array

    def scores(self, codes: NDArray[np.int64]) -> Array:
        """Weights of the leaves of all rows (rows,)."""
        node = np.zeros(len(codes), dtype=np.int64)
        for _ in range(int(np.log2(len(self.column) + 1)) - 1):
            column = self.column[node]
            right = codes[np.arange(len(codes)), column] > self.cut[node]
            node = np.where(column < 0, node, 2 * node + 1 + right)
        return self.weight[node]


@dataclass(frozen=True)
class BoostedTrees:
    """A trained model."""

    settings: TreeSettings
    cuts: tuple[Array, ...]
    trees: tuple[Tree, ...]

    @classmethod
    def train(cls, features: Array, labels: Array, settings: TreeSettings) -> BoostedTrees:
        """Of features (rows, columns) and labels 0 and 1 (rows,)."""
        shares = np.linspace(0, 1, settings.max_bin + 1)[1:-1]
        cuts = tuple(np.unique(np.quantile(column, shares, method="inverted_cdf")) for column in features.T)
        codes, joint, trees = _codes(features, cuts), np.zeros(len(labels)), []
        for _ in range(settings.num_trees):
            probability = expit(joint)
            tree = _grow(codes, probability - labels, probability * (1 - probability), settings)
            joint += settings.learning_rate * tree.scores(codes)
            trees.append(tree)
        return cls(settings, cuts, tuple(trees))

    def probabilities(self, features: Array) -> Array:
        """P(label = 1) of every row (rows,), of the labels that it was trained on."""
        codes = _codes(features, self.cuts)
        return expit(self.settings.learning_rate * np.sum([tree.scores(codes) for tree in self.trees], axis=0))


def _codes(features: Array, cuts: tuple[Array, ...]) -> NDArray[np.int64]:
    return np.column_stack([np.searchsorted(cut, column, side="left") for cut, column in zip(cuts, features.T)])


def _grow(codes: NDArray[np.int64], gradients: Array, hessians: Array, settings: TreeSettings) -> Tree:
    size = 2 ** (settings.max_depth + 1) - 1
    column, cut = np.full(size, -1), np.zeros(size, dtype=np.int64)
    node = np.zeros(len(codes), dtype=np.int64)
    for depth in range(settings.max_depth):
        first, count = 2**depth - 1, 2**depth
        # Rows whose node has ended stay in it, and count in no histogram of this level.
        rows = np.flatnonzero(node >= first)
        found = _best_splits(codes[rows], node[rows] - first, gradients[rows], hessians[rows], count, settings)
        column[first : first + count], cut[first : first + count] = found
        split = rows[column[node[rows]] >= 0]
        right = codes[split, column[node[split]]] > cut[node[split]]
        node[split] = 2 * node[split] + 1 + right
    sums = [np.bincount(node, weights=each, minlength=size) for each in (gradients, hessians)]
    return Tree(column, cut, -sums[0] / (sums[1] + settings.l2))


def _best_splits(
    codes: NDArray[np.int64],
    node: NDArray[np.int64],
    gradients: Array,
    hessians: Array,
    nodes: int,
    settings: TreeSettings,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every node of a level the column and the last bin on the left of its best split; column -1 for none."""
    bins = settings.max_bin + 1
    best, column, cut = np.full(nodes, -np.inf), np.full(nodes, -1), np.zeros(nodes, dtype=np.int64)
    for at in range(codes.shape[1]):
        cells = node * bins + codes[:, at]
        g, h = (
            np.cumsum(np.bincount(cells, weights=each, minlength=nodes * bins).reshape(nodes, bins), axis=1)
            for each in (gradients, hessians)
        )
        other_g, other_h = g[:, -1:] - g, h[:, -1:] - h
        gain = (
            g**2 / (h + settings.l2) + other_g**2 / (other_h + settings.l2) - g[:, -1:] ** 2 / (h[:, -1:] + settings.l2)
        )
        light = np.minimum(h, other_h) < settings.min_child_weight
        gain[light | (gain < settings.min_impurity_split)] = -np.inf
        place = gain.argmax(axis=1)
        better = gain[np.arange(nodes), place] > best
        best[better], column[better], cut[better] = gain[better, place[better]], at, place[better]
    return column, cut
