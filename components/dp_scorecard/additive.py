"""The additive model on bins: weights from sums over records, probabilities, and points. No FATE in here.

A record's score is the sum of one weight for each column, that of the bin it lies in. Weights are those of ridge regression
on zeros and ones, with the target +2 for the label 1 and -2 for 0:

    (X^T X + ridge I) w = X^T t.

X^T X and X^T t hold nothing but counts of bins and of pairs of bins, so that whoever has these, with or without noise,
needs no record. A score becomes a probability as in linear discriminant analysis, whose means and variances of the two
classes follow from the same sums.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fate_dp.privacy.mechanisms.contingency_tables import TARGET
from fate_dp.privacy.mechanisms.label_moments import LabelMoments

Vector = np.ndarray
INCREASING, DECREASING = "increasing", "decreasing"
MIN_SHARE = 0.05
"""At least so much of the scores' variance lies within the classes: beyond it noise, not the model, tells them apart."""


def label_moments_of(columns: Sequence[int], noise_multiplier: float) -> LabelMoments:
    """Terms of noise on X^T t alone: every party's row has as many ones as columns, and targets are +2 or -2."""
    return LabelMoments(tuple(map(float, columns)), 2.0 * TARGET, noise_multiplier)


def label_ridge(moments: LabelMoments, bins: int) -> float:
    """Ridge in counts under noise on X^T t alone: a rule, the noise's scale at targets +-1 times the root of all bins."""
    return moments.sigma / TARGET * math.sqrt(bins)


def inverse_of(matrix: np.ndarray, ridge: float) -> np.ndarray:
    """(X^T X + ridge I)^-1 of the noisy X^T X (m, m).

    Noise can leave eigenvalues of X^T X below zero, which no table has; they are raised to zero, so that the system always
    has one solution. That is post-processing.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    inverse: np.ndarray = (vectors / (np.maximum(values, 0.0) + ridge)) @ vectors.T
    return inverse


def solve(matrix: np.ndarray, linear: Vector, ridge: float) -> Vector:
    """Weights from the noisy X^T X (m, m) and X^T t (m,)."""
    return inverse_of(matrix, ridge) @ linear


Variances = tuple[np.ndarray, Vector]
"""Of the noise on X^T X and on X^T t, entry by entry."""


def noise_of_weights(inverse: np.ndarray, weights: Vector, variances: Variances) -> np.ndarray:
    """float64 (m, m): by how much a standard deviation of each sum's noise moves each weight, to first order.

    The error of (X^T X) w is that of every entry times its weight.
    """
    return inverse * np.sqrt(variances[1] + variances[0] @ weights**2)


class Errors(NamedTuple):
    """What w^T X^T t, w^T c and w^T X^T X w are expected to err by, c the counts: w was fitted to the very noise that they have.

    Left in, the variance of all scores comes out too small and the means of the classes too far apart, so that points are
    stretched, by a factor of a hundred at times.
    """

    linear: float = 0.0
    counts: float = 0.0
    square: float = 0.0

    @classmethod
    def of(cls, inverse: np.ndarray, weights: Vector, variances: Variances) -> "Errors":
        """To first order."""
        own, (of_matrix, of_linear) = np.diag(inverse), variances
        squared = float(-2 * own @ (of_matrix @ weights**2))
        return cls(float(own @ of_linear), float(-own @ (np.diag(of_matrix) * weights)), squared)


@dataclass(frozen=True)
class Calibration:
    """log-odds of the label 1 = ``slope`` score + ``intercept``."""

    slope: float
    intercept: float


def calibrate(
    weights: Vector, image: Vector, linear: Vector, counts: Vector, columns: Sequence[slice], errors: Errors = Errors()
) -> Calibration:
    """The log-odds of linear discriminant analysis: normal scores of one variance in both classes.

    ``image`` is X^T X w, ``linear`` is X^T t, noisy where it was released with noise; ``counts`` are the records in each
    bin. The bins of one of the ``columns`` hold every record once. ``errors`` are those of the sums by noise, where known.
    """
    records = float(np.mean([counts[column].sum() for column in columns]))
    balance = float(np.mean([linear[column].sum() for column in columns])) / TARGET
    share = min(max((1 + balance / records) / 2, 1 / records), 1 - 1 / records)
    product, scored = (weights @ linear - errors.linear) / TARGET, weights @ counts - errors.counts
    of_ones = (product + scored) / 2 / (share * records)
    of_zeros = (scored - product) / 2 / ((1 - share) * records)
    mean = share * of_ones + (1 - share) * of_zeros
    between = share * (1 - share) * (of_ones - of_zeros) ** 2
    # Noise can make the variance of all scores smaller than that between the classes, or negative. Were columns independent, it
    # would be that of each column, added up, which only counts of single bins enter; less than half of it is noise.
    independent = sum(_variance(weights[column], np.maximum(counts[column], 0.0)) for column in columns)
    total = max((float(weights @ image) - errors.square) / records - mean**2, independent / 2, between, 1e-12)
    within = max(total - between, MIN_SHARE * total)
    slope = float(max(of_ones - of_zeros, 0.0) / within)
    return Calibration(slope, float(math.log(share / (1 - share)) - slope * (of_ones + of_zeros) / 2))


def _variance(values: Vector, counts: Vector) -> float:
    total = max(float(counts.sum()), 1.0)
    return float(counts @ values**2) / total - (float(counts @ values) / total) ** 2


def monotone(weights: Vector, counts: Vector, direction: str) -> Vector:
    """The closest weights of one column's bins, by their counts, that nowhere fall (or rise) from bin to bin.

    Isotonic regression of what was released, hence post-processing ([Barlow1972]).
    """
    from sklearn.isotonic import isotonic_regression

    fitted = isotonic_regression(weights, sample_weight=np.maximum(counts, 1.0), increasing=direction == INCREASING)
    return np.asarray(fitted, dtype=float)


def constrained(weights: Vector, counts: Vector, columns: Sequence[slice], directions: Mapping[int, str]) -> Vector:
    """Weights with `monotone` bins for the columns, by number, that have a direction."""
    fitted = weights.copy()
    for number, direction in directions.items():
        place = columns[number]
        fitted[place] = monotone(weights[place], counts[place], direction)
    return fitted


def merged(points: Vector, counts: Vector, columns: Sequence[slice], at_most: int) -> Vector:
    """Whole points where neighbouring bins of a column that differ by ``at_most`` or less have got the same ones.

    The closest neighbours are merged first, into their mean by records, until no two are as close. Post-processing.
    """
    found = points.copy()
    for column in columns:
        means, sizes = list(map(float, points[column])), list(map(float, np.maximum(counts[column], 1.0)))
        lengths = [1] * len(means)
        while len(means) > 1:
            gaps = np.abs(np.diff(means))
            at = int(gaps.argmin())
            if gaps[at] > at_most:
                break
            both = sizes[at] + sizes[at + 1]
            means[at : at + 2] = [(means[at] * sizes[at] + means[at + 1] * sizes[at + 1]) / both]
            sizes[at : at + 2], lengths[at : at + 2] = [both], [lengths[at] + lengths[at + 1]]
        found[column] = np.repeat(np.rint(means), lengths).astype(np.int64)
    return found


# Points, as credit scorecards have them: more points, smaller odds of the label 1


@dataclass(frozen=True)
class Scale:
    """The public scale of points: ``base_points`` where the odds of 0 against 1 are ``base_odds``, and ``double`` more
    points where they are twice as large."""

    base_points: int
    base_odds: float
    double: float

    @property
    def factor(self) -> float:
        """Points for one unit of log-odds."""
        return self.double / math.log(2)

    def log_odds(self, points: np.ndarray | int) -> np.ndarray:
        """Log-odds of the label 1 at so many points."""
        return (self.base_points - np.asarray(points, dtype=float)) / self.factor - math.log(self.base_odds)

    def table(
        self, weights: Vector, counts: Vector, columns: Sequence[slice], calibration: Calibration
    ) -> tuple[int, np.ndarray]:
        """(base points, int64 points of every bin): whole numbers, whose sum over a record's bins and base is its points.

        The points of a column's bins average to 0 over the records, but for rounding, so that the base stands for the
        average record.
        """
        total = max(float(np.mean([counts[column].sum() for column in columns])), 1.0)
        means = np.zeros(len(weights))
        for column in columns:
            means[column] = weights[column] @ counts[column] / total
        average = calibration.intercept + calibration.slope * sum(float(means[column.start]) for column in columns)
        base = self.base_points - self.factor * (average + math.log(self.base_odds))
        points = -self.factor * calibration.slope * (weights - means)
        return int(np.rint(base)), np.rint(points).astype(np.int64)

    def noise_of_points(
        self, moved: np.ndarray, counts: Vector, columns: Sequence[slice], calibration: Calibration
    ) -> Vector:
        """Standard deviation of every bin's points by the noise on the tables; ``moved`` is of `noise_of_weights`."""
        centred = moved.copy()
        for column in columns:
            centred[column] -= counts[column] @ moved[column] / max(float(counts[column].sum()), 1.0)
        found: Vector = self.factor * calibration.slope * np.linalg.norm(centred, axis=1)
        return found


def slices(counts: Sequence[int]) -> list[slice]:
    """Where the bins of each column stand, all columns in one row."""
    ends = np.cumsum([0, *counts]).tolist()
    return [slice(first, last) for first, last in zip(ends, ends[1:])]
