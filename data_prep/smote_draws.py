"""What SMOTE draws: the pairs of real rows, how far between them each synthetic row lies, and the neighbour lists.

imbalanced-learn returns synthetic rows without their parents. They are needed twice: to count each row's influence, and
to interpolate in the table's own units while neighbours are searched in others.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from imblearn.over_sampling import SMOTE
from threadpoolctl import threadpool_limits


@dataclass(frozen=True, eq=False)
class Draws:
    """Synthetic row i lies `steps[i]` of the way from real row `firsts[i]` to real row `seconds[i]`.

    `neighbours` (minority rows, k) lists each minority row's nearest others; row numbers count minority rows only.
    """

    firsts: np.ndarray
    seconds: np.ndarray
    steps: np.ndarray
    neighbours: np.ndarray

    def interpolate(self, minority: np.ndarray) -> np.ndarray:
        """The synthetic rows, shape (draws, columns), between the rows of `minority`."""
        start = minority[self.firsts]
        return start + self.steps * (minority[self.seconds] - start)


class RecordedSMOTE(SMOTE):
    """imbalanced-learn's SMOTE that keeps what it drew, at the place where its own variants put their rule."""

    def _generate_samples(self, X, nn_data, nn_num, rows, cols, steps, y_type=None, y=None):
        self.draws_ = Draws(rows, nn_num[rows, cols], steps, nn_num)
        return super()._generate_samples(X, nn_data, nn_num, rows, cols, steps, y_type, y)


def draw(positions: np.ndarray, labels: np.ndarray, neighbours: int, random: np.random.RandomState) -> Draws:
    """Draw until both classes are equal in number; neighbours are near in `positions` (n, d), Euclidean."""
    smote = RecordedSMOTE(k_neighbors=neighbours, random_state=random)
    # Among equally distant rows the search keeps those that a thread met first: more threads would mean other rows.
    with threadpool_limits(limits=1):
        smote.fit_resample(positions, labels)
    return smote.draws_
