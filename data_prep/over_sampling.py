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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
from imblearn.over_sampling import SMOTE
from threadpoolctl import threadpool_limits

from fate_dp.privacy.validation import InvalidArgument, one_of, whole

from . import SYNTHETIC_PREFIX
from .division import TrainingRows, seed_sequence


@dataclass(frozen=True, eq=False)
class Draws:
    """Synthetic row i lies `steps[i]` of the way from real row `firsts[i]` to real row `seconds[i]`.

    imbalanced-learn returns synthetic rows without their parents. They are needed twice: to count each row's influence,
    and to interpolate in the table's own units while neighbours are searched in others.
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

    def _generate_samples(self, *drawn: Any, **types: Any) -> np.ndarray:
        _, _, nn_num, rows, cols, steps, *_ = drawn
        self.draws_ = Draws(rows, nn_num[rows, cols], steps, nn_num)
        return super()._generate_samples(*drawn, **types)


def draw(positions: np.ndarray, labels: np.ndarray, neighbours: int, rng: np.random.RandomState) -> Draws:
    """Draw until both classes are equal in number; neighbours are near in `positions` (n, d), Euclidean."""
    smote = RecordedSMOTE(k_neighbors=neighbours, random_state=rng)
    # Among equally distant rows the search keeps those that a thread met first: more threads would mean other rows.
    with threadpool_limits(limits=1):
        smote.fit_resample(positions, labels)
    return smote.draws_


# How many synthetic rows one real row went into: a diagnostic that bounds no privacy loss, since replacing one record also
# changes other rows' neighbours, the units in which they are searched and every later draw.


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


# All rules search neighbours in units of each column's standard deviation over all rows of the table, and give back the
# synthetic rows in the table's own units with the influence of every real row of the smaller class.

Groups = Sequence[Sequence[int]]
"""Positions of the columns of each one-hot group."""


@dataclass(frozen=True, eq=False)
class Table:
    """What a rule works on: `features` (n, m), which of them are the smaller class, columns of each one-hot group, k."""

    features: np.ndarray
    minority: np.ndarray
    groups: Groups
    neighbours: int
    rng: np.random.RandomState

    @property
    def real(self) -> np.ndarray:
        """The rows of the smaller class."""
        return self.features[self.minority]

    @property
    def one_hot(self) -> list[int]:
        """The positions of the columns of all groups."""
        return [column for group in self.groups for column in group]

    @property
    def numeric(self) -> np.ndarray:
        """The positions of the columns that are in no group."""
        return np.setdiff1d(np.arange(self.features.shape[1]), self.one_hot)


def smote(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Interpolate every column alike, one-hot too, whatever the groups."""
    drawn = draw(in_own_units(table.features), table.minority, table.neighbours, table.rng)
    return drawn.interpolate(table.real), influence_of_parents(drawn.firsts, drawn.seconds, len(table.real))


def smotenc(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Interpolate numbers; each one-hot group takes its most frequent category among the first parent's neighbours.

    Equal votes are decided by chance. Frequent categories become more frequent in the smaller class than they are.
    """
    drawn, made = between_categories(table, voted)
    return made, influence_of_voters(drawn.firsts, drawn.neighbours)


def smotenc_parents(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """As smotenc, but each one-hot group takes the category of one parent, the likelier the nearer the row lies to it,
    so that a category becomes no more frequent than among the parents (Torgo 2010, chapter 4, draws a parent for
    each nominal attribute, too)."""
    drawn, made = between_categories(table, inherited)
    return made, influence_of_parents(drawn.firsts, drawn.seconds, len(table.real))


Rule = Callable[[np.ndarray, Draws, np.random.RandomState], np.ndarray]


def between_categories(table: Table, rule: Rule) -> tuple[Draws, np.ndarray]:
    """Rows between pairs that are near in numbers and categories; `rule` makes a group's one-hots from the real ones.

    Two different categories lie as far apart as the median of the smaller class's standard deviations, as Chawla et al.
    have it: each one-hot column is worth that median over the square root of 2.
    """
    real, numeric = table.real, table.numeric
    if not table.one_hot or not len(numeric):
        raise InvalidArgument(
            f"{' and '.join(KEEP_CATEGORIES)} need number columns and one-hot groups, got {len(numeric)} and "
            f"{len(table.groups)}; smote does not."
        )
    positions = np.hstack([in_own_units(table.features[:, numeric]), table.features[:, table.one_hot]])
    positions[:, len(numeric) :] *= np.median(positions[table.minority, : len(numeric)].std(axis=0)) / np.sqrt(2)
    drawn = draw(positions, table.minority, table.neighbours, table.rng)
    made = np.zeros((len(drawn.firsts), real.shape[1]))
    made[:, numeric] = drawn.interpolate(real[:, numeric])
    for group in table.groups:
        made[:, group] = rule(real[:, group], drawn, table.rng)
    return drawn, made


def voted(categories: np.ndarray, drawn: Draws, rng: np.random.RandomState) -> np.ndarray:
    """One-hot rows (draws, categories) of the most frequent category among the first parent's neighbours."""
    votes = categories[drawn.neighbours].sum(axis=1)[drawn.firsts]
    # Votes are whole numbers: less than one half decides between equal ones and overturns nothing.
    winners = np.argmax(votes + rng.uniform(0, 0.5, size=votes.shape), axis=1)
    return np.eye(categories.shape[1])[winners]


def inherited(categories: np.ndarray, drawn: Draws, rng: np.random.RandomState) -> np.ndarray:
    """One-hot rows (draws, categories) of the second parent with probability `steps`, else of the first."""
    second = rng.uniform(size=len(drawn.firsts)) < drawn.steps.ravel()
    return categories[np.where(second, drawn.seconds, drawn.firsts)]


def in_own_units(features: np.ndarray) -> np.ndarray:
    """Each column less its mean, over its standard deviation; a constant column stays constant."""
    deviation = features.std(axis=0)
    # Not in constant columns alone: the squares of tiny differences vanish too.
    deviation[deviation == 0] = 1.0
    return (features - features.mean(axis=0)) / deviation


KEEP_CATEGORIES = ("smotenc", "smotenc_parents")
METHODS = {"smotenc": smotenc, "smotenc_parents": smotenc_parents, "smote": smote}


def check_groups(features: np.ndarray, groups: Groups) -> None:
    """Groups are disjoint, not empty, inside the table, and one-hot in every row of `features` (n, m)."""
    columns = [column for group in groups for column in group]
    if len(columns) != len(set(columns)) or not all(groups):
        raise InvalidArgument("one-hot groups must have columns, and no column may be in two of them.")
    if columns and not 0 <= min(columns) <= max(columns) < features.shape[1]:
        raise InvalidArgument(f"one-hot groups name columns outside the {features.shape[1]} features.")
    for number, group in enumerate(groups, start=1):
        block = features[:, group]
        wrong = ~((block == 0) | (block == 1)).all(axis=1) | (block.sum(axis=1) != 1)
        if wrong.any():
            raise InvalidArgument(
                f"one-hot group {number} has {int(wrong.sum())} rows that are not one 1 and otherwise 0 in its {len(group)} "
                "columns."
            )


# Squares of differences between larger values overflow, and with them the distances.
MAX_VALUE = 1e150


@dataclass(frozen=True)
class OverSampling:
    """Which method, and how many nearest rows of the smaller class may become a row's partner."""

    method: str = "smotenc"
    neighbours: int = 5

    def __post_init__(self) -> None:
        one_of("over-sampling method", self.method, METHODS)
        whole("neighbours", self.neighbours, 1)


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """`features` (k, m) and `labels` (k,) of the synthetic rows alone, and the most that one real row went into."""

    features: np.ndarray
    labels: np.ndarray
    largest_influence: int


def over_sample(
    training: TrainingRows, over_sampling: OverSampling, *, groups: Sequence[Sequence[str]], seed: int, tag: str
) -> tuple[pandas.DataFrame, int]:
    """Add synthetic rows until both classes are equal in number.

    Features are all columns but the id and the label, ``groups`` the one-hot groups among them. ``seed`` is of the
    whole preparation; ``tag``, such as a party's id, gives a party its own draws and ids `synthetic-<tag>-<number>`,
    because rows of several parties may meet in one model. Returns the real rows unchanged, then the synthetic ones,
    features float64 unless all rows are real; and the largest influence of `SyntheticRows`. InvalidArgument where the
    rows cannot be over-sampled so.
    """
    if type(training) is not TrainingRows:
        raise TypeError(
            f"only TrainingRows from split_train_test are over-sampled, not {type(training).__name__}: "
            "synthetic rows made from test rows would carry them into the training."
        )
    frame, label, id = training.frame, training.label, training.id
    # The marks of two over-samplings could not be told apart.
    marked = int(frame[id].astype(str).str.startswith(SYNTHETIC_PREFIX).sum())
    if marked:
        raise InvalidArgument(f"{marked} ids begin with {SYNTHETIC_PREFIX!r}: these rows are already over-sampled.")
    names = [column for column in frame.columns if column not in (id, label)]
    for name in (name for group in groups for name in group):
        if name not in names:
            raise InvalidArgument(f"a one-hot group names {name!r}, which is not a feature column.")
    positions = tuple(tuple(map(names.index, group)) for group in groups)
    features, labels = numbers(frame[names]), frame[label].to_numpy()
    synthetic = over_sample_arrays(features, labels, over_sampling, groups=positions, seed=seed, tag=tag)
    added = pandas.DataFrame(synthetic.features, columns=names)
    added = added.assign(**{label: synthetic.labels, id: synthetic_ids(len(added), tag)})[list(frame.columns)]
    # An empty table would still change the types of the columns that it is put under.
    enlarged = pandas.concat([frame, added], ignore_index=True) if len(added) else frame.reset_index(drop=True)
    return enlarged, synthetic.largest_influence


def over_sample_arrays(
    features: np.ndarray, labels: np.ndarray, over_sampling: OverSampling, *, groups: Groups, seed: int, tag: str = ""
) -> SyntheticRows:
    """The synthetic rows that make both classes equal in number; the draws follow from `seed`, `tag` and the rows'
    order.

    `features` (n, m) are finite numbers, `labels` (n,) have two values, `groups` hold positions of columns;
    InvalidArgument where the rows cannot be over-sampled so.
    """
    features, labels = np.asarray(features, dtype=np.float64), np.asarray(labels)
    check_features(features, labels)
    groups = tuple(map(list, groups))
    check_groups(features, groups)
    smaller, missing = rows_to_add(labels, over_sampling.neighbours)
    if not missing:
        return SyntheticRows(features[:0], labels[:0], 0)
    rng = np.random.RandomState(np.random.MT19937(seed_sequence(seed, "over-sampling", tag)))
    table = Table(features, labels == smaller, groups, over_sampling.neighbours, rng)
    made, influence = METHODS[over_sampling.method](table)
    return SyntheticRows(made, np.full(missing, smaller, dtype=labels.dtype), int(influence.max()))


def rows_to_add(labels: np.ndarray, neighbours: int) -> tuple:
    """The label of the smaller class, and how many rows it lacks; refuses what has no two classes or too few rows."""
    values, counts = np.unique(labels, return_counts=True)
    if len(values) != 2:
        found = ", ".join(f"{count} with label {value}" for value, count in zip(values, counts))
        raise InvalidArgument(f"over-sampling needs rows of two classes, got {found or 'no rows'}.")
    smaller, missing = int(np.argmin(counts)), int(counts.max() - counts.min())
    if missing and counts[smaller] < neighbours + 1:
        raise InvalidArgument(
            f"only {counts[smaller]} rows have label {values[smaller]}, and {neighbours} neighbours need at least "
            f"{neighbours + 1}; lower neighbours to {counts[smaller] - 1}."
            if counts[smaller] > 1
            else f"only 1 row has label {values[smaller]}, and over-sampling needs at least 2."
        )
    return values[smaller], missing


def check_features(features: np.ndarray, labels: np.ndarray) -> None:
    """A table of finite numbers with one label per row."""
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        shapes = features.shape, labels.shape
        raise InvalidArgument.of("shapes of features and labels", shapes, "(n, m) and (n,)")
    unfit = ~(np.abs(features) <= MAX_VALUE).all(axis=1)
    if unfit.any():
        count = int(unfit.sum())
        raise InvalidArgument(
            f"{count} rows have a value that is missing or beyond {MAX_VALUE:g}; over-sampling needs all values."
        )
    if pandas.isna(labels).any():
        raise InvalidArgument(f"{int(pandas.isna(labels).sum())} rows have no label; over-sampling needs all labels.")


def numbers(features: pandas.DataFrame) -> np.ndarray:
    """The values as float64, shape (n, m)."""
    for name, column in features.items():
        if not pandas.api.types.is_numeric_dtype(column):
            raise InvalidArgument(f"column {name!r} does not hold numbers; over-sampling needs numbers.")
    return features.to_numpy(dtype=np.float64)


def synthetic_ids(count: int, tag: str) -> list[str]:
    """`synthetic-<tag>-<number>`, numbers from 1."""
    return [f"{SYNTHETIC_PREFIX}{tag}-{number}" for number in range(1, count + 1)]
