"""Randomised response on class labels: the probabilities, and what a flipped label says about the true one.

With k classes a label is kept with probability e^epsilon / (e^epsilon + k - 1) and otherwise replaced by one of the
other k - 1 classes, uniformly. Released once, it is epsilon-differentially private (delta 0, epsilon in nats) for the
unit *label* under the *replace-one* relation, whatever else an observer knows about the record.

Reference: S. L. Warner, "Randomized response", JASA 60 (1965); P. Kairouz, S. Oh and P. Viswanath, "Extremal mechanisms
for local differential privacy", JMLR 17 (2016), for k classes.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..events import REPLACE_ONE, RandomizedResponse, Release, event_of
from ..noise.stream import Floats, Integers, Rng, Stream, bernoulli, open_stream, uniform_below
from ..validation import InvalidArgument, check_classes, check_epsilon

# An estimated prior of exactly 0 or 1 would make the posterior ignore every label and erase the rare class for good.
PRIOR_MARGIN = 1e-3


def keep_probability(epsilon: float, classes: int = 2) -> float:
    """Probability that k-ary randomised response at ``epsilon`` (nats) keeps the true one of at least 2 ``classes``."""
    return 1.0 / (1.0 + _odds_of_flip(epsilon, classes))


def flip_probability(epsilon: float, classes: int = 2) -> float:
    """As ``1 - keep_probability``, exact also at large epsilon, where that would cancel."""
    odds = _odds_of_flip(epsilon, classes)
    return odds / (1.0 + odds)


def label_posterior(flipped: ArrayLike, epsilon: float, prior: ArrayLike) -> float | Floats:
    """P(true label = 1 | flipped label 0 or 1), by Bayes' rule; vectorised in ``flipped`` and ``prior``.

    Post-processing of the flipped label: it costs no privacy as long as ``prior``, P(true label = 1) before the flipped
    label is seen, was not computed from true labels. It may differ from record to record.
    """
    flipped, prior = np.broadcast_arrays(np.asarray(flipped), np.asarray(prior, dtype=float))
    if not np.isin(flipped, (0, 1)).all():
        raise ValueError("flipped holds a value other than the labels 0 and 1.")
    if not ((prior >= 0) & (prior <= 1)).all():
        raise ValueError("prior holds a value outside the range from 0 to 1.")
    odds = _odds_of_flip(epsilon, 2)
    for_one = prior * np.where(flipped == 1, 1.0, odds)
    for_zero = (1.0 - prior) * np.where(flipped == 1, odds, 1.0)
    total = for_one + for_zero
    # The total is 0 only where a certain prior contradicts a label that is as good as certain: the prior stands.
    posterior = np.divide(for_one, total, out=prior.copy(), where=total > 0)
    return posterior if posterior.ndim else float(posterior)


def estimate_prior(flipped_mean: float, epsilon: float) -> float:
    """Share of true labels that are 1, estimated without bias from that of flipped ones, clipped to 0.001 to 0.999.

    Post-processing of the flipped labels: it costs no privacy.
    """
    if not 0 <= flipped_mean <= 1:
        raise InvalidArgument.of("flipped_mean", flipped_mean, "from 0 to 1")
    flip = flip_probability(epsilon)
    keep_minus_flip = math.tanh(check_epsilon(epsilon) / 2)
    return float(np.clip((flipped_mean - flip) / keep_minus_flip, PRIOR_MARGIN, 1 - PRIOR_MARGIN))


def true_probability(flipped: ArrayLike, epsilon: float) -> Floats:
    """P(true label = 1) from ``flipped`` = P(flipped label = 1), for instance the score of a model of flips.

    P(flipped = 1) = q + (1 - 2 q) P(true = 1) is solved for it, q the flip probability [Natarajan2013]. What no probability
    of a true label gives, below q or above 1 - q, becomes 0 or 1. Post-processing: it costs no privacy. Epsilon in nats,
    two classes; float64 in the shape of ``flipped``, whose values lie between 0 and 1.
    """
    given = np.asarray(flipped, dtype=np.float64)
    if not ((given >= 0) & (given <= 1)).all():
        raise InvalidArgument("flipped holds a value outside the range from 0 to 1.")
    keep_minus_flip = math.tanh(check_epsilon(epsilon) / 2)
    solved: Floats = np.clip((given - flip_probability(epsilon)) / keep_minus_flip, 0.0, 1.0)
    return solved


def _odds_of_flip(epsilon: float, classes: int) -> float:
    return (check_classes(classes) - 1) * math.exp(-check_epsilon(epsilon))


# Randomised response with fresh coins, for messages that are released once. Labels of a training table are flipped by
# ``labels.flips`` instead, whose coins are the same in every run.

# Far above the few roundings in flip_probability, far below anything that a use could notice.
ROUNDING = 2.0**-48
# Below this the exponential loses digits; an epsilon of 693 or more is flipped as often as one of 693.
MIN_FLIP = 2.0**-1000


def flip_indices(indices: ArrayLike, epsilon: float, classes: int, rng: Rng = None) -> Integers:
    """Randomised response on an int64 array of indices 0 .. classes - 1, a fresh independent coin for each.

    epsilon-differentially private per index (nats, delta 0 exactly), replace-one: the flip coin has exactly the
    probability of a float that is never below 1 - ``keep_probability``, and the other classes are chosen exactly
    uniformly, so the odds of any answer change by at most e^epsilon. It is the ideal mechanism followed by rare further
    flips, so an accountant may charge ``RandomizedResponse(epsilon, classes)`` without slack.
    """
    given, classes, stream = np.asarray(indices), check_classes(classes), open_stream(rng)
    is_whole = given.dtype.kind in "biu" or not given.size
    if not is_whole or not ((given >= 0) & (given < classes)).all():
        raise InvalidArgument.of(
            "indices", given, f"whole numbers from 0 to {classes - 1}, the number of classes less 1"
        )
    true = given.astype(np.int64)
    flips = bernoulli(safe_flip_probability(epsilon, classes), true.shape, stream)
    steps = 1 + uniform_below(classes - 1, true.shape, stream)
    return np.where(flips, (true + steps) % classes, true)


def safe_flip_probability(epsilon: float, classes: int = 2) -> float:
    """``flip_probability`` rounded up, so that the coin of exactly this probability never keeps too often.

    Refused where epsilon is so small that rounding up would favour the other classes.
    """
    flip = flip_probability(epsilon, classes)
    least = 2 * classes * ROUNDING
    if epsilon <= least:
        raise InvalidArgument.of("epsilon", epsilon, f"above {least} for {classes} classes")
    return max(MIN_FLIP, flip * (1 + ROUNDING))


def coins(probabilities: ArrayLike, rng: Rng = None) -> NDArray[np.bool_]:
    """One coin per probability, each to within 2^-53: for choices on which no guarantee depends."""
    probabilities = np.asarray(probabilities, dtype=np.float64)
    words = open_stream(rng).words(probabilities.size).reshape(probabilities.shape)
    return (words >> np.uint64(11)) * 2.0**-53 < probabilities


# Randomised response on the values of a public grid: numbers, answered one record at a time.


def grid_randomized_response(
    values: ArrayLike,
    points: ArrayLike,
    epsilon: float,
    *,
    observers: Sequence[str],
    unit: str = "record",
    rng: Rng = None,
) -> Release:
    """Indices of grid points, one answer per value: epsilon-LDP (nats, delta 0), replace-one, by fresh coins.

    A value is rounded to a point at random so that its mean is kept; the guarantee rests on the randomised response of
    its index alone. ``estimate_histogram`` and ``estimate_mean`` are unbiased for values within the grid. Private
    ``values`` (n,) outside the grid count as its nearer end, NaN as its first point. The public ``points``, at least
    two finite, strictly increasing numbers, are the classes of the ``RandomizedResponse`` that is charged.
    """
    points, stream = check_points(points), open_stream(rng)
    process = RandomizedResponse(check_epsilon(epsilon), len(points))
    event = event_of(process, stream, unit=unit, relation=REPLACE_ONE, observers=observers)
    return Release(flip_indices(_rounded(values, points, stream), epsilon, len(points), stream), event)


def estimate_histogram(answers: ArrayLike, points: ArrayLike, epsilon: float) -> Floats:
    """Share of values at each grid point, estimated without bias; entries may be negative and add up to 1.

    ``answers`` are indices, at least one, from ``grid_randomized_response`` with the same ``points`` and ``epsilon``.
    """
    points, answers = check_points(points), np.asarray(answers)
    is_index = answers.ndim == 1 and answers.size and answers.dtype.kind in "iu"
    if not is_index or not 0 <= answers.min() <= answers.max() < len(points):
        raise InvalidArgument.of("answers", answers, f"one or more whole numbers from 0 to {len(points) - 1}")
    odds = math.exp(-check_epsilon(epsilon))
    shares = np.bincount(answers, minlength=len(points)) / len(answers)
    # (share - q) / (p - q) with p, q = 1, odds over 1 + (k - 1) odds: p - q does not cancel in expm1.
    return (shares * (1 + (len(points) - 1) * odds) - odds) / -math.expm1(-epsilon)


def estimate_mean(answers: ArrayLike, points: ArrayLike, epsilon: float) -> float:
    """Mean of the values, estimated without bias from the answers; parameters as in ``estimate_histogram``."""
    return float(estimate_histogram(answers, points, epsilon) @ check_points(points))


def check_points(points: ArrayLike) -> Floats:
    """The grid as a float64 array; raise ``InvalidArgument`` unless it is two or more finite, increasing numbers."""
    points = np.asarray(points)
    is_real = points.ndim == 1 and len(points) >= 2 and points.dtype.kind in "fiu"
    if not is_real or not np.isfinite(points).all() or not (np.diff(points.astype(np.float64)) > 0).all():
        raise InvalidArgument.of("points", points, "at least two finite, strictly increasing numbers")
    return points.astype(np.float64)


def _rounded(values: ArrayLike, points: Floats, stream: Stream) -> Integers:
    values = np.asarray(values)
    if values.ndim != 1 or values.dtype.kind not in "fiu":
        raise InvalidArgument.of("values", values, "a list of real numbers")
    values = np.clip(np.where(np.isnan(values), points[0], values), points[0], points[-1])
    below = np.clip(np.searchsorted(points, values, side="right") - 1, 0, len(points) - 2)
    share = (values - points[below]) / (points[below + 1] - points[below])
    return (below + coins(share, stream)).astype(np.int64, copy=False)
