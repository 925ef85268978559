"""Accuracy, AUC and KS of a model on true labels, estimated from labels that randomised response flipped at a known rate.

Everything here reads flips and scores only: post-processing, which costs no epsilon. The proofs, with references, stand in
docs/proofs-labels.md; in short, with flip rate q, share pi of true labels 1 and pi' of flips 1:

* the agreement with flips is linear in the accuracy, which is solved for it (Natarajan et al. 2013);
* the AUC's excess over 1/2, and the whole curve TPR - FPR, shrink by one factor, 1 - alpha - beta =
  pi (1 - pi) (1 - 2 q) / (pi' (1 - pi')), so that the maximum in KS stays at its threshold (Menon et al. 2015);
* standard errors are those of an estimate for further rows of the same kind, by the delta method (DeLong et al. 1988);
* of rows that the model was fitted to, the estimate errs upwards, by no more than `most_bias` to first order (Efron 2004).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ..mechanisms.randomized_response import flip_probability, keep_probability

ACCURACY, AUC, KS = "accuracy", "AUC", "KS"
Array = NDArray[Any]
"""One value per row, of shape (n,): flips are whole numbers, scores are float64."""


class NotCorrectable(ValueError):
    """From these flips no figure on true labels can be estimated."""


@dataclass(frozen=True)
class Fit:
    """What is publicly known of a model that was fitted to the flips: the number m of joint ``weights``, the intercept
    among them, and the ``curvature``, the loss's mean second derivative."""

    weights: int
    curvature: float


@dataclass(frozen=True)
class Corrected:
    """One measure ``on_flips`` in place of labels, and its ``estimate`` on true labels, which by chance may lie outside
    0 to 1. The ``standard_error`` is for further rows of this kind; the estimate errs upwards by ``most_bias`` at
    most, to first order; 0 without a `Fit`."""

    on_flips: float
    estimate: float
    standard_error: float
    most_bias: float = 0.0


def corrected_figures(
    flips: Array, scores: Array, epsilon: float, *, threshold: float = 0.0, fit: Fit | None = None
) -> dict[str, Corrected]:
    """Accuracy, AUC and KS of scores of two classes.

    Args:
        flips: Flipped labels, 0 or 1, of shape (n,).
        scores: Logits z of shape (n,); label 1 is predicted above ``threshold``.
        epsilon: Epsilon (nats) at which the labels were flipped.
        fit: The fit that gave the scores, if the model was fitted to these flips.

    Raises:
        NotCorrectable: One class is alone among the flips, or its share is beyond what the flip rate alone gives.
    """
    flips, scores = np.asarray(flips), np.asarray(scores, dtype=float)
    factor = _Factor.of(flips, epsilon)
    flip = flip_probability(epsilon)
    # At most so far does a row's score follow its own flip, in the mean over the rows.
    moved = 0.0 if fit is None else fit.weights / (len(flips) * fit.curvature)
    with_0, with_1 = scores - moved * flips, scores + moved * (1 - flips)

    def covariance(g: Callable[[Array], Array]) -> float:
        """Mean of Cov(y'_i, g(z_i)) over the rows of a fit; 0 without one."""
        return flip * (1 - flip) * float(np.mean(g(with_1).astype(float) - g(with_0)))

    # KS is largest where TPR - FPR is: the share of each class that scores at least the cut.
    cuts = np.append(np.inf, np.unique(scores)[::-1])
    false_positive, true_positive = (
        1 - np.searchsorted(np.sort(scores[flips == label]), cuts) / np.sum(flips == label) for label in (0, 1)
    )
    cut = float(cuts[np.argmax(true_positive - false_positive)])
    ordered = np.sort(scores)
    return {
        ACCURACY: replace(
            corrected_accuracy(flips, scores > threshold, epsilon),
            most_bias=2 * covariance(lambda z: z > threshold) / (1 - 2 * flip),
        ),
        AUC: replace(
            _corrected_auc(flips, scores, factor),
            most_bias=factor.of_bias(covariance(lambda z: np.searchsorted(ordered, z) / len(ordered))),
        ),
        KS: replace(
            _corrected_ks(flips, scores, cut, factor), most_bias=factor.of_bias(covariance(lambda z: z >= cut))
        ),
    }


def corrected_accuracy(flips: Array, predicted: Array, epsilon: float, classes: int = 2) -> Corrected:
    """Accuracy of predicted classes, for any number k of declared ``classes``, in whose terms ``predicted`` is.

    ``flips`` are labels of shape (n,), n at least 1, that were flipped at ``epsilon`` (nats).
    """
    agreement = float(np.mean(np.asarray(flips) == np.asarray(predicted)))
    kept, missed = keep_probability(epsilon, classes), flip_probability(epsilon, classes) / (classes - 1)
    error = math.sqrt(agreement * (1 - agreement) / len(flips))
    return Corrected(agreement, (agreement - missed) / (kept - missed), error / (kept - missed))


@dataclass(frozen=True)
class _Factor:
    """1 - alpha - beta as estimated from the share of flips that are 1, and its relative change with that share."""

    value: float
    share: float
    relative_slope: float

    @classmethod
    def of(cls, flips: Array, epsilon: float) -> "_Factor":
        flip, share = flip_probability(epsilon), float(np.mean(flips))
        if not flip < share < 1 - flip:
            raise NotCorrectable(
                f"Of the flips {share:.4g} are 1, and {flip:.4g} to {1 - flip:.4g} come from two classes at this flip rate: "
                "one class is too rare among these rows."
            )
        value = (share - flip) * (1 - flip - share) / ((1 - 2 * flip) * share * (1 - share))
        slope = 1 / (share - flip) - 1 / (1 - flip - share) - 1 / share + 1 / (1 - share)
        return cls(value, share, slope)

    def corrected(self, difference: float, influences: Array, flips: Array) -> Corrected:
        """``difference`` is D' with the ``influences`` of the rows on it."""
        estimate = difference / self.value
        own = influences / self.value - estimate * self.relative_slope * (flips - self.share)
        return Corrected(difference, estimate, float(np.std(own)) / math.sqrt(len(own)))

    def of_bias(self, covariance: float) -> float:
        """What a mean covariance with the flips adds to D (for the AUC: to the AUC itself)."""
        return covariance / (self.share * (1 - self.share) * self.value)


def _corrected_auc(flips: Array, scores: Array, factor: _Factor) -> Corrected:
    positive = flips == 1
    ranks, placements = rankdata(scores), np.empty(len(scores))
    for own, others in ((positive, ~positive), (~positive, positive)):
        # The share of the other class's scores that are lower, ties half.
        placements[own] = (ranks[own] - rankdata(scores[own])) / others.sum()
    placements[~positive] = 1 - placements[~positive]
    auc = float(placements[positive].mean())
    influences = 2 * (placements - auc) / np.where(positive, factor.share, 1 - factor.share)
    found = factor.corrected(2 * auc - 1, influences, flips)
    return Corrected(auc, (found.estimate + 1) / 2, found.standard_error / 2)


def _corrected_ks(flips: Array, scores: Array, cut: float, factor: _Factor) -> Corrected:
    positive, passed = flips == 1, scores >= cut
    rates = np.where(positive, passed[positive].mean(), passed[~positive].mean())
    influences = np.where(positive, 1, -1) * (passed - rates) / np.where(positive, factor.share, 1 - factor.share)
    difference = float(passed[positive].mean() - passed[~positive].mean())
    return factor.corrected(difference, influences, flips)
