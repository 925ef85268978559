"""Whitening of features by a fixed map that no data decided, and rows of one norm.

A linear model on the raw features of images needs hundreds of steps, since half of all their energy is one common mean and a
few directions hold most of the rest, and every private step costs noise. So the mean of *made-up* pictures' features
(`made_up_pictures`) is taken away, and the coordinates along their principal directions are divided by the root of (variance +
ridge). Every row is scaled to l2 norm 10, so that the bias, whose input is 1, adds little to a gradient's norm.

The map is a public constant: no training data, no label, nothing to charge. Parties compute it from the same public seed;
between processors features differ by some 1e-4 of the largest, since small directions are stretched. A row depends on one
record's features only: each product has one row, computed as in `features`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..record_arithmetic import UnsoundArithmetic, one_thread

NORM = 10.0
Rows = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Whitening:
    """From features to whitened ones; public: ``mean`` (K,) is of made-up pictures' features.

    ``directions`` (r, K) are orthonormal rows, the one of the largest variance first; ``stretches`` (r,) what the
    coordinate along a direction is multiplied by, relative to all other directions.
    """

    mean: Tensor = field(repr=False)
    directions: Tensor = field(repr=False)
    stretches: Tensor = field(repr=False)

    def __call__(self, features: Rows) -> Rows:
        """float32 (n, K), rows of norm 10, of features (n, K)."""
        return row_by_row(features, len(self.mean), self._row)

    def coordinates(self, features: Rows, count: int) -> Rows:
        """Only the first ``count`` whitened coordinates along the directions, float32 (n, count), rows of norm 10."""
        directions, stretches = self.directions[:count], self.stretches[:count]
        return row_by_row(features, count, lambda row: _of_one_norm(directions @ (row - self.mean) * stretches))

    def _row(self, row: Tensor) -> Tensor:
        centred = row - self.mean
        return _of_one_norm(centred + (self.directions @ centred * (self.stretches - 1)) @ self.directions)


def fit_whitening(features: Rows, directions: int, ridge: float) -> Whitening:
    """The whitening of made-up pictures' features (n, K), of at most n - 1 and K directions.

    The ridge is added to every direction's variance, which is counted per feature. A machine on which a row depends on
    what was computed before is refused (UnsoundArithmetic).
    """
    count, width = features.shape
    mean = features.mean(axis=0)
    centred = features - mean
    variances, vectors = np.linalg.eigh((centred @ centred.T).astype(np.float64) / centred.size)
    largest = np.argsort(variances)[::-1][: min(directions, count - 1, width)]
    found = vectors[:, largest].T.astype(np.float32) @ centred
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    stretches = np.sqrt(ridge / (np.maximum(variances[largest], 0) + ridge))
    whitening = Whitening(*map(tensor, (mean, found, stretches)))
    alone, after = whitening(features[:1]), whitening(features[[1, 0]])
    if not np.array_equal(alone[0], after[1]):
        raise UnsoundArithmetic("whitened features")
    return whitening


def tensor(values: np.ndarray) -> Tensor:
    """float32, in torch's own memory, at an address that its kernels like; numpy's may lie anywhere."""
    return torch.tensor(np.ascontiguousarray(values, dtype=np.float32))


def row_by_row(records: np.ndarray, width: int, function: Callable[[Tensor], Tensor]) -> Rows:
    """float32 (n, width): the function of each record (n, ...) by itself, by one thread."""
    found = np.empty((len(records), width), dtype=np.float32)
    with torch.no_grad(), one_thread():
        for place, row in enumerate(records):
            found[place] = function(tensor(row)).numpy()
    return found


def _of_one_norm(row: Tensor) -> Tensor:
    norm = float(row.norm())
    return row * (NORM / norm) if norm > 0 else row
