"""Who was in the training? Membership inference on a released model, at false-positive rates that an accuser can afford.

What all attacks here share is the *threat model*: the observer has the released model (`ReleasedModel`), a candidate's
features and label, and records of the same kind, on which it trains *reference models* as the training did. It asks the model
for its confidence on the candidate, and knows no other record of the training. An attack gives every candidate a score: the
higher, the likelier it was a member. What a score is worth is the share of members that it finds while it accuses one
non-member in a hundred, or in a thousand, wrongly (`found_at`): an attack that is right about half of all records, and no
better about any, tells nobody's secret.

- `likelihood_ratio`, `likelihood_ratio_offline`: LiRA.
- `relative`, `relative_offline`: RMIA, for few reference models.
- `above_quantile`: no reference model at all, but public records that were no members.

The score of a model that knows nothing but the record is its confidence itself ([Yeom2018]): easy records score high,
members or not. Beside every rate stands what epsilon allows: `allowed_by`, and `allowed_by_profile`, which is tighter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logsumexp, ndtr
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor

from fate_dp.privacy.validation import InvalidArgument, is_finite, within

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class References:
    """What the observer's own models say of the candidates.

    Attributes:
        confidences: log-odds of the candidates' labels, float64 (models, n).
        members: whether the observer trained a model on a candidate, bool (models, n).
    """

    confidences: Array = field(repr=False)
    members: Flags = field(repr=False)

    def __post_init__(self) -> None:
        shape = self.confidences.shape
        if len(shape) != 2 or shape[0] < 1 or self.members.shape != shape or self.members.dtype != np.bool_:
            raise InvalidArgument(
                f"References have confidences of shape {shape} and members of shape {self.members.shape} and type "
                f"{self.members.dtype} but need one row for each of at least 1 model, and members as booleans."
            )
        if not np.isfinite(self.confidences).all():
            raise InvalidArgument("Confidences of references must be finite, got NaN or infinite ones.")

    def of(self, candidates: Array) -> Array:
        """The target's confidences (n,), checked against these."""
        candidates = np.asarray(candidates, dtype=np.float64)
        if candidates.shape != self.confidences.shape[1:] or not np.isfinite(candidates).all():
            allowed = f"{self.confidences.shape[1]} finite numbers, one for each candidate of the references"
            raise InvalidArgument.of("The target's confidences", candidates, allowed)
        return candidates


# Below so few models with (or without) each candidate its own variance is worse than that of all, as the paper finds.
MODELS_FOR_OWN_VARIANCE = 32
MIN_DEVIATION = 1e-6


def likelihood_ratio(target: Array, references: References) -> Array:
    """LiRA, online: how much likelier a candidate's confidence is among reference models that had it than among others.

    *Paper:* N. Carlini et al., "Membership inference attacks from first principles", IEEE S&P 2022 [Carlini2022], algorithm 1:
    both laws are taken to be normal; with few models all candidates share one variance for each.

    *Threat model:* that of this module, and reference models are trained *after* the candidates are known, with them and
    without. *Cost:* as many trainings as there are reference models, for all candidates together.

    *What it cannot do:* without models as the target's it measures another training. A candidate that is in all of them, or
    in none, gets score 0. The paper also asks for shifted and mirrored copies, which is left out.

    Args:
        target: the released model's confidences, float64 (n,).

    Returns: log likelihood ratios in nats, float64 (n,).
    """
    target, inside = references.of(target), references.members
    with_it = _law(references.confidences, inside)
    without = _law(references.confidences, ~inside)
    score = _log_normal(target, *with_it) - _log_normal(target, *without)
    return np.where(inside.any(axis=0) & ~inside.all(axis=0), score, 0.0)


def likelihood_ratio_offline(target: Array, references: References) -> Array:
    """LiRA, offline: how far a candidate's confidence lies above those of reference models that did not have it.

    *Paper:* [Carlini2022], section VI C. *Threat model:* as `likelihood_ratio`, but the models may be trained before any
    candidate is known; those that had a candidate are not looked at. *Cost:* the same trainings, once and for all.

    *What it cannot do:* it does not know how far training on a candidate would have moved it, so it takes records that move
    much and those that hardly move for alike; with few models it is weaker than the online attack.

    Returns: probabilities that a model without the candidate is less confident, float64 (n,); 1/2 for a candidate that all
    reference models had.
    """
    target, outside = references.of(target), ~references.members
    mean, deviation = _law(references.confidences, outside)
    return np.where(outside.any(axis=0), ndtr((target - mean) / deviation), 0.5)


def _law(confidences: Array, chosen: Flags) -> tuple[Array, Array]:
    """Mean and standard deviation of the chosen confidences of each candidate, float64 (n,)."""
    counts = chosen.sum(axis=0)
    means = np.where(chosen, confidences, 0.0).sum(axis=0) / np.maximum(counts, 1)
    squares = np.where(chosen, (confidences - means) ** 2, 0.0).sum(axis=0)
    freedom = np.maximum(counts - 1, 0)
    pooled = math.sqrt(squares.sum() / max(1, freedom.sum()))
    own = np.sqrt(squares / np.maximum(freedom, 1))
    deviation = np.where(counts >= MODELS_FOR_OWN_VARIANCE, own, pooled)
    return means, np.maximum(deviation, MIN_DEVIATION)


def _log_normal(values: Array, mean: Array, deviation: Array) -> Array:
    found: Array = -0.5 * ((values - mean) / deviation) ** 2 - np.log(deviation)
    return found


@dataclass(frozen=True, eq=False)
class PublicConfidences:
    """Log-odds of public records that were no members of the target: ``target`` (m,), and (models, m) of ``references``."""

    target: Array = field(repr=False)
    references: Array = field(repr=False)

    def __post_init__(self) -> None:
        if self.references.ndim != 2 or self.references.shape[1:] != self.target.shape or not len(self.target):
            shapes = self.target.shape, self.references.shape
            allowed = "of the same records, at least 1, by the target and by each reference model"
            raise InvalidArgument.of("shapes of public confidences", shapes, allowed)


GAMMA = 2.0
OFFLINE_SCALE = 0.3


def relative(target: Array, references: References, public: PublicConfidences, gamma: float = GAMMA) -> Array:
    """RMIA, online: over which share of public records the target prefers the candidate more than reference models do.

    *Paper:* S. Zarifzadeh, P. Liu, R. Shokri, "Low-cost high-power membership inference attacks", ICML 2024 [Zarifzadeh2024]:
    a candidate x dominates a public record z if (P(x | target) / P(x)) / (P(z | target) / P(z)) is at least gamma, where P
    is a model's probability of the true label, and P without a model the mean over reference models.

    *Threat model:* as `likelihood_ratio`, with public records that were no members. *Cost:* very few reference models do, since
    only a mean is taken of them.

    *What it cannot do:* one set of public records makes the score a monotone function of P(x | target) / P(x), in as many
    steps as there are public records: lower false-positive rates than one in so many are not told apart.

    Args:
        gamma: at least 1; 2 in the paper.

    Returns: shares, float64 (n,).
    """
    own = _log_mean(references.confidences, np.ones_like(references.members))
    return _dominated(references.of(target), own, public, gamma)


def relative_offline(
    target: Array, references: References, public: PublicConfidences, gamma: float = GAMMA, scale: float = OFFLINE_SCALE
) -> Array:
    """RMIA, offline: as `relative`, from reference models that did not have the candidate.

    *Paper:* [Zarifzadeh2024]: the mean over models that had it is taken to be ``scale`` q + 1 - ``scale``, q the mean over
    those that had not, so P(x) = ((1 + scale) q + 1 - scale) / 2; 0.3 is a value that the paper uses for pictures. *Threat
    model:* that of `likelihood_ratio_offline`. *Cost:* one reference model does.

    *What it cannot do:* a candidate that all reference models had gets their mean. ``scale`` would be searched for on
    models of one's own; here it is not.
    """
    if not is_finite(scale) or not 0 <= scale <= 1:
        raise InvalidArgument.of("scale", scale, "a number from 0 to 1")
    outside = ~references.members
    outside[:, ~outside.any(axis=0)] = True
    without = np.exp(_log_mean(references.confidences, outside))
    own = np.log(((1 + scale) * without + 1 - scale) / 2)
    return _dominated(references.of(target), own, public, gamma)


def _log_mean(confidences: Array, chosen: Flags) -> Array:
    """ln of the mean probability over the chosen models, float64 (n,)."""
    logs = np.where(chosen, log_expit(confidences), -np.inf)
    mean: Array = logsumexp(logs, axis=0) - np.log(chosen.sum(axis=0))
    return mean


def _dominated(target: Array, own: Array, public: PublicConfidences, gamma: float) -> Array:
    if not is_finite(gamma) or gamma < 1:
        raise InvalidArgument.of("gamma", gamma, "a finite number of at least 1")
    everything = np.ones(public.references.shape, dtype=np.bool_)
    ratios = np.sort(log_expit(public.target) - _log_mean(public.references, everything))
    places = np.searchsorted(ratios, log_expit(target) - own - math.log(gamma), side="right")
    shares: Array = places / len(ratios)
    return shares


COMPONENTS = 40
ITERATIONS = 60


@dataclass(frozen=True, eq=False)
class Asked:
    """Records with what the target said of them: features float32 (n, m), labels int64 (n,), confidences float64 (n,)."""

    features: NDArray[np.float32] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    confidences: Array = field(repr=False)


def above_quantile(candidates: Asked, public: Asked, quantile: float = 0.99, seed: int = 0) -> Array:
    """How far a candidate's confidence lies above the quantile that non-members like it have.

    *Paper:* M. Bertran et al., "Scalable membership inference attacks via quantile regression", NeurIPS 2023 [Bertran2023].
    The regression here is of boosted trees on 40 principal components of the public features and on the label; the
    paper's is a neural network on pictures.

    *Threat model:* that of this module without reference models, nor knowledge of how the model was trained: public records
    that were no members, and answers on them. *Cost:* one regression for each target.

    *What it cannot do:* it only knows what records that look alike have in common. What makes a single record hard it
    takes for membership, or the lack of it.

    Args:
        quantile: of the non-members' confidences, 1 minus the false-positive rate that is aimed at.
        seed: public, of the principal components.

    Returns: differences of log-odds, float64 (n,).
    """
    if not is_finite(quantile) or not 0 < quantile < 1:
        raise InvalidArgument.of("quantile", quantile, "a number strictly between 0 and 1")
    components = PCA(min(COMPONENTS, *public.features.shape), svd_solver="randomized", random_state=seed)
    components.fit(public.features)
    classes = int(max(candidates.labels.max(), public.labels.max())) + 1

    def inputs(asked: Asked) -> Array:
        return np.hstack([components.transform(asked.features), np.eye(classes)[asked.labels]])

    trees = HistGradientBoostingRegressor(loss="quantile", quantile=quantile, max_iter=ITERATIONS, random_state=seed)
    trees.fit(inputs(public), public.confidences)
    above: Array = candidates.confidences - trees.predict(inputs(candidates))
    return above


def found_at(scores: Array, members: Flags, rate: float) -> float:
    """The share of members whose score is above all but a share ``rate`` of the non-members'.

    The threshold is the lowest that accuses at most ``rate`` of the non-members; it is set on these very non-members, as in the
    papers, which no observer could. Ties with it count as not found. Scores without any meaning give ``rate``.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if not is_finite(rate) or not 0 < rate < 1:
        raise InvalidArgument.of("rate", rate, "a number strictly between 0 and 1")
    if scores.shape != members.shape or not np.isfinite(scores).all():
        raise InvalidArgument("scores must be a finite number for each candidate.")
    outside, inside = scores[~members], scores[members]
    accused = int(rate * len(outside) + 1e-9)
    if accused < 1 or not len(inside):
        raise InvalidArgument(
            f"A false-positive rate of {rate:g} is told from 0 with at least {math.ceil(1 / rate)} non-members and 1 "
            f"member, but there are {len(outside)} and {len(inside)}."
        )
    threshold = np.sort(outside)[-accused - 1] if accused < len(outside) else -np.inf
    return float((inside > threshold).mean())


def allowed_by(rate: float, epsilon: float, delta: float) -> float:
    """The largest share of members that any attack finds at a false-positive rate, under (epsilon, delta), nats.

    For a record that is in the training or not by a fair coin of its own, under add-or-remove, on average: no more than
    e^epsilon rate + delta, and no more than 1 - e^-epsilon (1 - delta - rate) (P. Kairouz, S. Oh, P. Viswanath, ICML 2015,
    theorem 2.1).
    """
    rate, delta = within("rate", rate, 0, 1), within("delta", delta, 0, 1)
    above = math.exp(min(epsilon, 700.0)) * rate + delta
    below = 1 - math.exp(-epsilon) * (1 - delta - rate)
    return min(1.0, above, below)


STEPS = 400


def allowed_by_profile(rate: float, delta_of: Callable[[float], float], largest: float) -> float:
    """The least `allowed_by` over all epsilons from 0 to ``largest`` at once, each with its own delta.

    A training has a delta for every epsilon, ``Accountant.delta`` for instance, and all of them hold together (J. Dong, A.
    Roth, W. J. Su, "Gaussian differential privacy", 2022, proposition 2.12). The bound is concave in ``rate``, so it also
    holds of the mean over candidates who share one threshold.
    """
    epsilons = np.linspace(0.0, largest, STEPS)
    return min(allowed_by(rate, float(epsilon), delta_of(float(epsilon))) for epsilon in epsilons)
