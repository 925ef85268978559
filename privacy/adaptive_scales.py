"""Scales of features from their contributions to a first, private model: less noise where a model looks.

Noise on second moments is proportional to a feature's scale, in the feature's own unit. Here a party's scales fall with
the *contribution* of its features: the mean over its records of |w_j x_ij|, divided by the record's sum over the
party's features, which is the layer-wise relevance of a linear model's inputs (S. Bach et al., PLOS ONE 10 (2015)). It
is released with Laplace noise: unit *record*, *replace-one* with a public number n of records, epsilon-DP. The weights
come from a first fit on moments that were noised already; a party needs its own only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .events import REPLACE_ONE, Event, PureDP, Release, clips_moved, event_of
from .mechanisms.clipping import EXACT_BITS
from .mechanisms.laplace import geometric_mechanism, laplace_scale
from .mechanisms.second_moments import noise_multiplier_for
from .noise.discrete import discrete_laplace_slack
from .noise.stream import Floats, Integers, Rng, open_stream
from .validation import InvalidArgument, check_target, strictly_within, whole

# A record's contributions add up to at most this many steps.
STEPS_OF_RECORD = 2**30
MAX_RECORDS = 2**30
FIRST_FIT_SHARE_OF_MU = 1 / 4


@dataclass(frozen=True)
class AdaptiveBudget:
    """How a party's (epsilon, delta), in nats, is divided between contributions, first fit and training; public.

    The ``contribution_share`` of epsilon, strictly between 0 and 1, goes to the contributions, the rest to two Gaussian
    releases with the whole delta, which are one of multiplier 1 / sqrt(1/s^2 + 1/t^2) (J. Dong, A. Roth and W. J. Su,
    JRSS B 84 (2022), corollary 3.3): it is calibrated once and its mu = 1 / multiplier divided by squares. The first
    fit gets a quarter of mu, about what a quarter of epsilon would give it, and leaves 0.97 of mu to the training.
    """

    epsilon: float
    delta: float
    contribution_share: float = 1 / 8

    def __post_init__(self) -> None:
        check_target(self.epsilon, self.delta)
        strictly_within("contribution_share", self.contribution_share, 0, 1, "strictly between 0 and 1")

    @property
    def contribution_epsilon(self) -> float:
        """Epsilon of the contributions, delta 0."""
        return self.epsilon * self.contribution_share

    @property
    def first_fit_multiplier(self) -> float:
        """Noise multiplier of the moments of the first fit."""
        return self._joint_multiplier() / FIRST_FIT_SHARE_OF_MU

    @property
    def training_multiplier(self) -> float:
        """Noise multiplier of the moments that the model is trained on."""
        return self._joint_multiplier() / math.sqrt(1 - FIRST_FIT_SHARE_OF_MU**2)

    def _joint_multiplier(self) -> float:
        return noise_multiplier_for(self.epsilon - self.contribution_epsilon, self.delta)


def contribution_sums(features: ArrayLike, weights: ArrayLike) -> Integers:
    """Sum over a block's records of their contributions, to be added up over blocks; secret int64 (m,), in 2^-30.

    Each record's absolute contributions |w_j x_ij| are divided by their sum and rounded down to 2^-30 of it; one whose
    contributions are all zero, or not finite, is left out. So replacing one record moves the sums by at most 2 (2^31
    steps) in l1, exactly. The private ``features`` (n, m) of one party are in the unit in which the ``weights`` (m,) of
    the first fit were fitted.
    """
    features, weights = np.asarray(features, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if features.ndim != 2 or weights.shape != features.shape[1:]:
        raise InvalidArgument.of("weights", weights, f"one per column of {features.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        return normalised_sums(np.abs(features * weights))


def normalised_sums(parts: Floats) -> Integers:
    """Sum over records of their parts, each record's divided by their total and rounded down to 2^-30 of it; secret.

    So a record contributes at most 1 (2^30 steps) in l1, exactly, and its contribution depends on nothing else; nothing
    where a part is not finite or all are zero. Private float64 (n, m), none below zero, becomes int64 (m,).
    """
    largest = parts.max(axis=1, initial=0.0)
    usable = np.isfinite(largest) & (largest > 0)
    # Short whole numbers, whose sum is exact in any order: a record's part must not depend on how rows lie in memory.
    bits = EXACT_BITS - math.ceil(math.log2(max(2, parts.shape[1])))
    integers = np.floor(np.ldexp(parts[usable], bits - np.frexp(largest[usable])[1][:, None]))
    totals = integers.sum(axis=1, keepdims=True)
    # The quotients' roundings add up to less than one step, so a record's whole steps never exceed 2^30.
    sums: Integers = np.floor(integers / totals * STEPS_OF_RECORD).astype(np.int64).sum(axis=0)
    return sums


def release_contributions(
    sums: Integers,
    records: int,
    epsilon: float,
    *,
    observers: Sequence[str],
    relation: str = REPLACE_ONE,
    rng: Rng = None,
) -> Release:
    """Mean contributions plus Laplace noise: epsilon-DP, delta 0 plus slack, unit record.

    The noise has scale 2 / (n epsilon) under replace-one, 1 / (n epsilon) under add-or-remove. ``records`` n is public:
    their number, or under add-or-remove a constant near it by which ``contribution_sums`` over all records are divided.
    """
    whole("records", records, 1, MAX_RECORDS, "a whole number from 1 to 2^30")
    release = geometric_mechanism(
        sums, clips_moved(relation) * STEPS_OF_RECORD, epsilon, relation=relation, observers=observers, rng=rng
    )
    return release.scaled(1 / (records * STEPS_OF_RECORD))


def contributions_event(
    features: int, epsilon: float, *, observers: Sequence[str], relation: str = REPLACE_ONE, rng: Rng = None
) -> Event:
    """The event of `release_contributions` of so many features, for a ledger that is asked before there are sums."""
    scale = laplace_scale(clips_moved(relation) * STEPS_OF_RECORD, epsilon)
    slack = features * discrete_laplace_slack(scale)
    return event_of(PureDP(epsilon), open_stream(rng), relation=relation, observers=observers, slack=slack)


def adaptive_scales(contributions: ArrayLike, power: float = -0.5) -> Floats:
    """Scales from released contributions: max(beta_j, 1 / (4 m))^power, divided by their geometric mean.

    Post-processing of the m released means beta. One that noise moved outside the range from 1 / (4 m) to 1 is clamped
    to it. At ``power`` -1/2 scales fall with the contribution; a benchmark runs the opposite direction, too.
    """
    means = np.asarray(contributions, dtype=np.float64)
    if means.ndim != 1 or not means.size or not np.isfinite(means).all():
        raise InvalidArgument.of("contributions", means, "finite numbers, one per feature")
    logarithms = power * np.log(np.clip(means, 1 / (4 * means.size), 1.0))
    scales: Floats = np.exp(logarithms - logarithms.mean())
    return scales
