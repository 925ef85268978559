"""Scales of features from their contributions to a first, private model: less noise where a model looks.

Noise on second moments is the same for every feature after each was divided by its scale, so in the feature's own unit
it is proportional to the scale. Here a party's scales fall with the *contribution* of its features: the mean over its
records of |w_j x_ij|, divided by the record's sum over the party's features. That is the relevance which layer-wise
relevance propagation gives the inputs of a linear model. It is computed from private rows, hence released, with Laplace
noise: unit *record*, *replace-one* with a public number n of records, epsilon-DP. The weights come from a first fit on
moments that were noised already; a party needs its own only.

**Budget** of a party, (epsilon, delta) in all: a share of epsilon for the contributions, and the rest for two Gaussian
releases with the whole delta. Two Gaussian mechanisms of multipliers s and t are one of multiplier
1 / sqrt(1/s^2 + 1/t^2), so the rest is calibrated once and its mu = 1 / multiplier divided by squares. The first fit
gets a quarter of mu, about what a quarter of epsilon would give it, and leaves 0.97 of mu to the training.

References: S. Bach et al., "On pixel-wise explanations for non-linear classifier decisions by layer-wise relevance
propagation", PLOS ONE 10 (2015); J. Dong, A. Roth and W. J. Su, "Gaussian differential privacy", JRSS B 84 (2022),
corollary 3.3, for the composition of Gaussian mechanisms.
"""
import math
from dataclasses import dataclass

import numpy as np

from fate_dp.privacy.accounting.privacy_parameters import check_target
from fate_dp.privacy.events import REPLACE_ONE, clips_moved
from fate_dp.privacy.mechanisms.laplace import geometric_mechanism
from fate_dp.privacy.mechanisms.row_norms import EXACT_BITS
from fate_dp.privacy.mechanisms.second_moments import noise_multiplier_for
from fate_dp.privacy.number_kinds import is_finite, is_whole

# A record's contributions add up to at most this many steps.
STEPS_OF_RECORD = 2**30
MOST_RECORDS = 2**30
FIRST_FIT_SHARE_OF_MU = 1 / 4


class InvalidScales(ValueError):
    """A setting or an input of adaptive scales is outside its range: one sentence."""


@dataclass(frozen=True)
class AdaptiveBudget:
    """How a party's (epsilon, delta) is divided between contributions, first fit and training; public.

    :param epsilon: of everything together, in nats.
    :param delta: strictly between 0 and 1.
    :param contribution_share: part of epsilon that the contributions get, strictly between 0 and 1.
    """

    epsilon: float
    delta: float
    contribution_share: float = 1 / 8

    def __post_init__(self):
        check_target(self.epsilon, self.delta)
        if not is_finite(self.contribution_share) or not 0 < self.contribution_share < 1:
            raise InvalidScales(
                f"contribution_share is {self.contribution_share!r} but must be strictly between 0 and 1."
            )

    @property
    def contribution_epsilon(self):
        """Epsilon of the contributions, delta 0."""
        return self.epsilon * self.contribution_share

    @property
    def first_fit_multiplier(self):
        """Noise multiplier of the moments of the first fit."""
        return self._joint_multiplier() / FIRST_FIT_SHARE_OF_MU

    @property
    def training_multiplier(self):
        """Noise multiplier of the moments that the model is trained on."""
        return self._joint_multiplier() / math.sqrt(1 - FIRST_FIT_SHARE_OF_MU**2)

    def _joint_multiplier(self):
        return noise_multiplier_for(self.epsilon - self.contribution_epsilon, self.delta)


def contribution_sums(features, weights):
    """Sum over a block's records of their contributions, to be added up over blocks; secret.

    Each record's absolute contributions |w_j x_ij| are divided by their sum and rounded down to 2^-30 of it; a record
    whose contributions are all zero, or not finite, contributes zero. So replacing one record moves the sums by at most
    2 (2^31 steps) in l1, exactly.

    :param features: array (n, m), one party's; private. Its unit is that in which the weights were fitted.
    :param weights: the m weights of the first fit that belong to the features.
    :returns: int64 array (m,), in steps of 2^-30.
    :raises InvalidScales: when shapes differ.
    """
    features, weights = np.asarray(features, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if features.ndim != 2 or weights.shape != features.shape[1:]:
        raise InvalidScales(f"weights have shape {weights.shape} but must be one per column of {features.shape}.")
    with np.errstate(over="ignore", invalid="ignore"):
        return normalised_sums(np.abs(features * weights))


def normalised_sums(parts):
    """Sum over records of their parts, each record's divided by their total and rounded down to 2^-30 of it; secret.

    So a record contributes at most 1 (2^30 steps) in l1, exactly, and its contribution depends on nothing else; nothing
    where a part is not finite or all are zero.

    :param parts: float64 array (n, m), none below zero; private.
    :returns: int64 array (m,), in steps of 2^-30.
    """
    largest = parts.max(axis=1, initial=0.0)
    usable = np.isfinite(largest) & (largest > 0)
    # Short whole numbers, whose sum is exact in any order: a record's part must not depend on how rows lie in memory.
    bits = EXACT_BITS - math.ceil(math.log2(max(2, parts.shape[1])))
    integers = np.floor(np.ldexp(parts[usable], bits - np.frexp(largest[usable])[1][:, None]))
    totals = integers.sum(axis=1, keepdims=True)
    # The quotients' roundings add up to less than one step, so a record's whole steps never exceed 2^30.
    return np.floor(integers / totals * STEPS_OF_RECORD).astype(np.int64).sum(axis=0)


def release_contributions(sums, records, epsilon, *, observers, relation=REPLACE_ONE, random=None):
    """Mean contributions plus Laplace noise: epsilon-DP, delta 0 plus slack, unit record.

    The noise has scale 2 / (n epsilon) under replace-one, 1 / (n epsilon) under add-or-remove with n a public constant.

    :param sums: int64 array (m,), from ``contribution_sums`` over all records.
    :param records: n, public: their number, or under add-or-remove a number near it by which sums are divided.
    :param random: a stream; None for the operating system's entropy.
    :returns: ``Release`` of a float64 array (m,).
    :raises ValueError: one sentence on what is wrong.
    """
    if not is_whole(records) or not 1 <= records <= MOST_RECORDS:
        raise InvalidScales(f"records is {records!r} but must be a whole number from 1 to 2^30.")
    release = geometric_mechanism(
        sums, clips_moved(relation) * STEPS_OF_RECORD, epsilon, relation=relation, observers=observers, random=random
    )
    return release.scaled(1 / (records * STEPS_OF_RECORD))


def adaptive_scales(contributions, power=-0.5):
    """Scales from released contributions: max(beta_j, 1 / (4 m))^power, divided by their geometric mean.

    Post-processing. A contribution that noise moved outside the range from 1 / (4 m) to 1 is clamped to it.

    :param contributions: the m released means beta.
    :param power: -1/2, so that scales fall with the contribution; a benchmark runs the opposite direction, too.
    :returns: float64 array (m,) of positive scales whose geometric mean is 1.
    :raises InvalidScales: unless the contributions are finite numbers, at least one.
    """
    contributions = np.asarray(contributions, dtype=np.float64)
    if contributions.ndim != 1 or not contributions.size or not np.isfinite(contributions).all():
        raise InvalidScales("contributions must be finite numbers, one per feature.")
    logarithms = power * np.log(np.clip(contributions, 1 / (4 * contributions.size), 1.0))
    return np.exp(logarithms - logarithms.mean())
