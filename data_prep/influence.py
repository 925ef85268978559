"""How many synthetic rows one real row went into: a measured diagnostic of over-sampling.

It counts direct parts only: a parent of the interpolation, and a neighbour whose categories voted. It is no sensitivity
and bounds no privacy loss: replacing one record also changes other rows' neighbour lists, the units in which neighbours
are searched and every later draw. After SMOTE the privacy loss of a record is infinite, whatever is counted here.
"""
from __future__ import annotations

import numpy as np


def influence_of_parents(firsts: np.ndarray, seconds: np.ndarray, rows: int) -> np.ndarray:
    """For each of `rows` real rows the number of synthetic rows it was a parent of; being both parents counts once."""
    others = seconds[seconds != firsts]
    return np.bincount(firsts, minlength=rows) + np.bincount(others, minlength=rows)


def influence_of_voters(firsts: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """For each real row the synthetic rows whose first parent it was or had it among its voting neighbours.

    `neighbours` (rows, k) lists the neighbours of every real row, all different; the second parent is one of them.
    """
    rows, k = neighbours.shape
    drawn = np.bincount(firsts, minlength=rows)
    others = neighbours != np.arange(rows)[:, None]
    votes = np.bincount(neighbours[others], weights=np.repeat(drawn, k).reshape(rows, k)[others], minlength=rows)
    return drawn + votes.astype(int)
