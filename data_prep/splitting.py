"""Training rows and held-out rows: two types, so that nothing meant for the one is ever done to the other.

Over-sampling, dividing and whatever else learns from rows takes `TrainingRows`, and `split_train_test` alone makes
them. SMOTE before the split, which lets a model train on mixtures of its own test rows, therefore cannot be written
down.
"""
from __future__ import annotations

from dataclasses import InitVar, dataclass

import numpy as np
import pandas

from fate_dp.privacy.number_kinds import is_finite

from .seeds import generator

# Whoever holds this object may build rows of a side; it stays in this file.
_PERMIT = object()


class BadSplit(ValueError):
    """Rows or options that cannot be split into training and test rows."""


class NotFromSplit(TypeError):
    """An attempt to make rows of one side of a split without splitting."""


@dataclass(frozen=True, eq=False)
class _SplitRows:
    """Rows of one side of a split: `frame` has the columns `id` and `label` and the features, one row per record."""

    frame: pandas.DataFrame
    label: str
    id: str
    permit: InitVar[object] = None

    def __post_init__(self, permit):
        if permit is not _PERMIT:
            raise NotFromSplit(
                f"{type(self).__name__} come from split_train_test only, so that no row is on both sides of a split."
            )

    def take(self, row_numbers):
        """The same side's rows at the positions `row_numbers`, in that order."""
        return type(self)(self.frame.iloc[row_numbers], self.label, self.id, _PERMIT)

    def __len__(self) -> int:
        return len(self.frame)

    def __reduce__(self):
        raise NotFromSplit(f"{type(self).__name__} cannot be pickled or copied; keep `frame` and split it again.")


class TrainingRows(_SplitRows):
    """Rows that a model may learn from."""


class HeldOutRows(_SplitRows):
    """Rows that a model is judged on; no function here over-samples or divides them."""


def split_train_test(
    frame: pandas.DataFrame, *, label: str, id: str, test_share: float, seed: int
) -> tuple[TrainingRows, HeldOutRows]:
    """Hold `test_share` (between 0 and 1) of each class out, to the nearest row (a half upwards).

    Which records are held out depends on the ids, the labels, `test_share` and `seed`, not on the order of the rows;
    both sides keep the order and the index of `frame`. Raises BadSplit for missing or repeated ids or index values,
    missing labels, and a class that would be absent from one side.
    """
    check_table(frame, label, id)
    check_test_share(test_share)
    held_out = np.zeros(len(frame), dtype=bool)
    for value, rows in rows_by_value(frame[label], frame[id]).items():
        count = held_out_rows(len(rows), test_share)
        if not 0 < count < len(rows):
            raise BadSplit(
                f"label {value} has {len(rows)} rows, too few for both sides of a split with test_share {test_share:g}."
            )
        held_out[generator(seed, "split", value).permutation(rows)[:count]] = True
    return (
        TrainingRows(frame[~held_out], label, id, _PERMIT),
        HeldOutRows(frame[held_out], label, id, _PERMIT),
    )


def held_out_rows(rows: int, test_share: float) -> int:
    """How many of a class's rows are held out: the nearest whole number, a half upwards."""
    return int(np.floor(test_share * rows + 0.5))


def rows_by_value(values: pandas.Series, ids: pandas.Series) -> dict[str, np.ndarray]:
    """For each value as text, in the order of the texts, the positions of its rows, in the order of their ids."""
    texts, codes = np.unique(values.astype(str).to_numpy(dtype=str), return_inverse=True)
    by_id = np.argsort(ids.astype(str).to_numpy(dtype=str), kind="stable")
    in_groups = by_id[np.argsort(codes[by_id], kind="stable")]
    ends = np.cumsum(np.bincount(codes, minlength=len(texts)))
    return dict(zip(texts.tolist(), np.split(in_groups, ends[:-1])))


def check_table(frame: pandas.DataFrame, label: str, id: str) -> None:
    """One row or more, each with an id of its own and a label."""
    if frame.empty:
        raise BadSplit("the table has no rows.")
    for column in (id, label):
        if column not in frame.columns:
            raise BadSplit(f"the table has no column {column!r}.")
        if frame[column].isna().any():
            raise BadSplit(f"{int(frame[column].isna().sum())} rows have no {column}; every row needs one.")
    repeated = frame[id].astype(str).duplicated()
    if repeated.any():
        raise BadSplit(f"id {frame[id][repeated.to_numpy()].iloc[0]} occurs more than once; ids must be unique.")
    if not frame.index.is_unique:
        raise BadSplit("the table's index repeats a value; reset it first.")


def check_test_share(test_share: float) -> None:
    """A number strictly between 0 and 1."""
    if not is_finite(test_share) or not 0 < test_share < 1:
        raise BadSplit(f"test_share is {test_share!r}; it must lie between 0 and 1.")
