"""One-hot column groups: each row has exactly one 1 in each group, and zeros besides."""
from __future__ import annotations

import numpy as np


class NotOneHot(ValueError):
    """Columns that were named as a one-hot group and are none."""


def check_groups(features: np.ndarray, groups: tuple[tuple[int, ...], ...]) -> None:
    """Groups are disjoint, not empty, inside the table, and one-hot in every row of `features` (n, m)."""
    columns = [column for group in groups for column in group]
    if len(columns) != len(set(columns)) or not all(groups):
        raise NotOneHot("one-hot groups must have columns, and no column may be in two of them.")
    if columns and not 0 <= min(columns) <= max(columns) < features.shape[1]:
        raise NotOneHot(f"one-hot groups name columns outside the {features.shape[1]} features.")
    for number, group in enumerate(groups, start=1):
        block = features[:, list(group)]
        wrong = ~((block == 0) | (block == 1)).all(axis=1) | (block.sum(axis=1) != 1)
        if wrong.any():
            raise NotOneHot(
                f"one-hot group {number} has {int(wrong.sum())} rows that are not one 1 and else 0 in its {len(group)} "
                "columns."
            )
