"""Over-sampling of the smaller class with synthetic rows between real ones, on training rows only.

"smotenc" (Chawla et al. 2002, section 6.1) treats each one-hot group as one category: a synthetic row takes the
category most frequent among its first parent's neighbours, so that every synthetic row is a valid one-hot.
"smotenc_parents" takes the category of one of the two parents, so that frequent categories do not crowd out the rest,
which costs a model without a strong penalty much accuracy (the credit study's report compares them). "smote"
interpolates all columns alike, which turns one-hots into fractions: rows that no real record can be, there to compare
with work that did so. Both make counts and other whole numbers fractional.

No privacy comes from any of it: synthetic rows are mixtures of real records, and after it the privacy loss of a record
is infinite. The private answer to imbalance is `class_weights` of dp_homo_nn.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas

from fate_dp.privacy.number_kinds import is_whole

from .one_hot import check_groups
from .seeds import seed_sequence
from .smote_methods import METHODS
from .splitting import NotFromSplit, TrainingRows

SYNTHETIC_PREFIX = "synthetic-"
# Squares of differences between larger values overflow, and with them the distances.
LARGEST_VALUE = 1e150


class CannotOverSample(ValueError):
    """Rows or options that over-sampling cannot work with."""


@dataclass(frozen=True)
class OverSampling:
    """Which method, and how many nearest rows of the smaller class may become a row's partner."""

    method: str = "smotenc"
    neighbours: int = 5

    def __post_init__(self):
        if self.method not in tuple(METHODS):
            raise CannotOverSample(f"over-sampling method is {self.method!r}; it must be one of {', '.join(METHODS)}.")
        if not is_whole(self.neighbours) or self.neighbours < 1:
            raise CannotOverSample(f"neighbours is {self.neighbours!r}; it must be a whole number of at least 1.")


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """`features` (k, m) and `labels` (k,) of the synthetic rows alone, and the most that one real row went into."""

    features: np.ndarray
    labels: np.ndarray
    largest_influence: int


@dataclass(frozen=True, eq=False)
class OverSampled:
    """`frame`: the real rows unchanged, then the synthetic ones, features float64 unless all rows are real.

    `rows_before` and `rows_after` count rows per label; for `largest_influence` see `influence`.
    """

    frame: pandas.DataFrame
    rows_before: dict
    rows_after: dict
    largest_influence: int


def over_sample(
    training: TrainingRows,
    over_sampling: OverSampling,
    *,
    groups: Sequence[Sequence[str]],
    seed: int,
    tag: str,
) -> OverSampled:
    """Add synthetic rows until both classes are equal in number.

    `groups` names the one-hot groups among the features, which are all columns but the id and the label. `tag`, such as
    a party's id, gives a party its own draws and its own ids `synthetic-<tag>-<number>`, because rows of several
    parties may meet in one model. Raises NotFromSplit for anything but TrainingRows, otherwise CannotOverSample,
    NotOneHot or NotForThisMethod.
    """
    if type(training) is not TrainingRows:
        raise NotFromSplit(
            f"only TrainingRows from split_train_test are over-sampled, not {type(training).__name__}: "
            "synthetic rows made from test rows would carry them into the training."
        )
    frame, label, id = training.frame, training.label, training.id
    check_real(frame[id])
    names = [column for column in frame.columns if column not in (id, label)]
    positions = tuple(tuple(position_of(name, names) for name in group) for group in groups)
    features, labels = numbers(frame[names]), frame[label].to_numpy()
    synthetic = over_sample_arrays(features, labels, over_sampling, groups=positions, seed=seed, tag=tag)
    added = pandas.DataFrame(synthetic.features, columns=names)
    added = added.assign(**{label: synthetic.labels, id: synthetic_ids(len(added), tag)})[list(frame.columns)]
    # An empty table would still change the types of the columns that it is put under.
    enlarged = pandas.concat([frame, added], ignore_index=True) if len(added) else frame.reset_index(drop=True)
    return OverSampled(
        enlarged, rows_per_label(frame[label]), rows_per_label(enlarged[label]), synthetic.largest_influence
    )


def over_sample_arrays(
    features: np.ndarray,
    labels: np.ndarray,
    over_sampling: OverSampling,
    *,
    groups: Sequence[Sequence[int]],
    seed: int,
    tag: str = "",
) -> SyntheticRows:
    """The synthetic rows that make both classes of `labels` (n,) equal in number; `groups` are positions of columns.

    `features` (n, m) are finite numbers. Neighbours are the nearest in units of each column's standard deviation over
    all n rows. The draws follow from `seed`, `tag` and the rows in their order. Raises CannotOverSample, NotOneHot or
    NotForThisMethod.
    """
    features, labels = np.asarray(features, dtype=np.float64), np.asarray(labels)
    check_features(features, labels)
    groups = tuple(list(group) for group in groups)
    check_groups(features, groups)
    smaller, missing = rows_to_add(labels, over_sampling.neighbours)
    if not missing:
        return SyntheticRows(features[:0], labels[:0], 0)
    random = np.random.RandomState(np.random.MT19937(seed_sequence(seed, "over-sampling", tag)))
    method = METHODS[over_sampling.method]
    made, influence = method(features, labels == smaller, groups, over_sampling.neighbours, random)
    return SyntheticRows(made, np.full(missing, smaller, dtype=labels.dtype), int(influence.max()))


def rows_to_add(labels: np.ndarray, neighbours: int) -> tuple:
    """The label of the smaller class, and how many rows it lacks; refuses what has no two classes or too few rows."""
    values, counts = np.unique(labels, return_counts=True)
    if len(values) != 2:
        found = ", ".join(f"{count} with label {value}" for value, count in zip(values, counts))
        raise CannotOverSample(f"over-sampling needs rows of two classes; here are {found or 'no rows'}.")
    smaller = int(np.argmin(counts))
    missing = int(counts.max() - counts.min())
    if missing and counts[smaller] < neighbours + 1:
        raise CannotOverSample(
            f"only {counts[smaller]} rows have label {values[smaller]}, and {neighbours} neighbours need at least "
            f"{neighbours + 1}; lower neighbours to {counts[smaller] - 1}."
            if counts[smaller] > 1
            else f"only 1 row has label {values[smaller]}, and over-sampling needs at least 2."
        )
    return values[smaller], missing


def check_features(features: np.ndarray, labels: np.ndarray) -> None:
    """A table of finite numbers with one label per row."""
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        shapes = f"{features.shape} and {labels.shape}"
        raise CannotOverSample(f"features and labels have the shapes {shapes}; they must be (n, m) and (n,).")
    unfit = ~(np.abs(features) <= LARGEST_VALUE).all(axis=1)
    if unfit.any():
        count = int(unfit.sum())
        raise CannotOverSample(
            f"{count} rows have a value that is missing or beyond {LARGEST_VALUE:g}; over-sampling needs all values."
        )
    if pandas.isna(labels).any():
        raise CannotOverSample(f"{int(pandas.isna(labels).sum())} rows have no label; over-sampling needs all labels.")


def check_real(ids: pandas.Series) -> None:
    """No id may look synthetic already: the marks of two over-samplings could not be told apart."""
    marked = int(ids.astype(str).str.startswith(SYNTHETIC_PREFIX).sum())
    if marked:
        raise CannotOverSample(f"{marked} ids begin with {SYNTHETIC_PREFIX!r}: these rows are already over-sampled.")


def numbers(features: pandas.DataFrame) -> np.ndarray:
    """The values as float64, shape (n, m)."""
    for name, column in features.items():
        if not pandas.api.types.is_numeric_dtype(column):
            raise CannotOverSample(f"column {name!r} does not hold numbers; over-sampling needs numbers.")
    return features.to_numpy(dtype=np.float64)


def position_of(name: str, names: list[str]) -> int:
    """Where a column of a one-hot group stands among the features."""
    if name not in names:
        raise CannotOverSample(f"a one-hot group names {name!r}, which is no feature column.")
    return names.index(name)


def synthetic_ids(count: int, tag: str) -> list[str]:
    """`synthetic-<tag>-<number>`, numbers from 1."""
    return [f"{SYNTHETIC_PREFIX}{tag}-{number}" for number in range(1, count + 1)]


def rows_per_label(labels: pandas.Series) -> dict:
    """Label value -> rows, in the order of the values."""
    return labels.value_counts().sort_index().to_dict()
