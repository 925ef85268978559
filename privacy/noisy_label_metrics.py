"""Accuracy, AUC and KS of a model on true labels, estimated from labels that randomised response flipped at a known rate.

Everything here reads flips and scores only: post-processing, which costs no epsilon.

**Accuracy.** A prediction that is right agrees with the flip with probability p = `keep_probability`, one that is wrong
with probability r = (1 - p) / (k - 1). So E[agreement] = r + (p - r) accuracy, which is solved for the accuracy: this is
the unbiased loss of Natarajan et al. (2013), section 3, for the 0-1 loss and equal flip rates.

**AUC and KS**, two classes. Let q be the flip rate, pi the share of true labels 1, pi' = q + (1 - 2 q) pi that of flips,
and D(F, G) any difference of the scores' laws that is linear in each: for KS at a threshold it is TPR - FPR, for the AUC
2 AUC - 1 = P(s > s') - P(s < s'), s a score of class 1 and s' one of class 0. Flips do not depend on the scores given the
true label, so a row with flip 1 has a true label 0 with probability alpha = (1 - pi) q / pi', one with flip 0 a true
label 1 with probability beta = pi q / (1 - pi'). The laws of the scores by flip are the mixtures
F' = (1 - alpha) F + alpha G and G' = beta F + (1 - beta) G, and D is antisymmetric, D(F, F) = 0, hence

    D(F', G') = ((1 - alpha) (1 - beta) - alpha beta) D(F, G) = (1 - alpha - beta) D(F, G).

So AUC' - 1/2 = (1 - alpha - beta) (AUC - 1/2) (Menon et al. 2015), and the whole curve TPR - FPR shrinks by
the same factor: its maximum stays at the same threshold, and KS' = (1 - alpha - beta) KS. Inserting alpha and beta,

    1 - alpha - beta = pi (1 - pi) (1 - 2 q) / (pi' (1 - pi')),

where pi' is estimated by the share of flips that are 1.

**Standard errors** are those of an estimate for further rows of the same kind, by the delta method: the influence of
every row on D' (for the AUC its placements, DeLong et al. 1988) and on the estimated factor are added up row by row.
They are larger than the error for these very rows, whose true labels are fixed. The maximum in KS overshoots by a part of
its standard error, as every KS does.

**Rows that the model was fitted to.** The model follows their flips a little, so that estimates err upwards. Let z_i be
a row's score and z_i(b) the score it would have if its flip were b and the others' were as they are. For any g,

    Cov(y'_i, g(z_i) | true labels) = q (1 - q) E[g(z_i(1)) - g(z_i(0))],

since y'_i is one of two values with variance q (1 - q) either way. With g the share of lower scores, summed over the rows,
this is the bias of the AUC; with g whether the score passes a threshold, that of accuracy and of KS at this threshold.
A fit of m weights that minimises a sum of n losses of curvature k_i (1/4 for the Taylor loss, p (1 - p) for the
logistic loss, 1 for the squared error) has z_i(1) - z_i(0) = h_i, with sum_i k_i h_i its effective degrees of freedom: at
most m, whatever the columns are and whatever ridge penalty it has. `Fit.leverage` is the mean of h_i that follows. The bias
at that leverage, the same for all rows, is first order in h_i: a bound to that order where h_i does not grow with the
density of scores, and it does not: rows of large leverage lie in the tails. A penalty makes it smaller, by how much depends
on the columns, which are private.

References: N. Natarajan, I. S. Dhillon, P. Ravikumar, A. Tewari, "Learning with noisy labels", NIPS 2013; A. K. Menon,
B. van Rooyen, C. S. Ong, R. C. Williamson, "Learning from corrupted binary labels via class-probability estimation", ICML
2015; E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, "Comparing the areas under two or more correlated receiver
operating characteristic curves", Biometrics 44 (1988); B. Efron, "The estimation of prediction error: covariance
penalties and cross-validation", JASA 99 (2004), for the covariance as the bias of a figure on fitted rows.
"""
import math
from dataclasses import dataclass, replace
from typing import Callable, Dict, Optional

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import roc_curve

from fate_dp.privacy.mechanisms.randomized_response import flip_probability, keep_probability

ACCURACY, AUC, KS = "accuracy", "AUC", "KS"


class NotCorrectable(ValueError):
    """From these flips no figure on true labels can be estimated."""


@dataclass(frozen=True)
class Fit:
    """What is publicly known of a model that was fitted to the flips.

    :param weights: number m of the joint weights, the intercept among them.
    :param curvature: mean of the second derivatives k_i of the loss in the score.
    """

    weights: int
    curvature: float

    def leverage(self, rows: int) -> float:
        """Largest mean, over the rows, of how far a row's score follows its own flip."""
        return self.weights / (rows * self.curvature)


@dataclass(frozen=True)
class Corrected:
    """One measure, against the flips and as estimated for true labels.

    :param on_flips: the measure with the flips in place of labels.
    :param estimate: the measure on true labels, estimated; by chance it may lie outside 0 to 1.
    :param standard_error: of the estimate, for further rows of this kind.
    :param most_bias: by how much the estimate errs upwards at most, to first order; 0 without a `Fit`.
    """

    on_flips: float
    estimate: float
    standard_error: float
    most_bias: float = 0.0


def corrected_figures(
    flips: np.ndarray, scores: np.ndarray, epsilon: float, *, threshold: float = 0.0, fit: Optional[Fit] = None
) -> Dict[str, Corrected]:
    """Accuracy, AUC and KS of scores of two classes.

    :param flips: flipped labels, 0 or 1, of shape (n,).
    :param scores: logits z of shape (n,); label 1 is predicted above ``threshold``.
    :param epsilon: epsilon (nats) at which the labels were flipped.
    :param fit: the fit that gave the scores, if the model was fitted to these flips.
    :raises NotCorrectable: one class alone among the flips, or a share of it beyond what the flip rate alone gives.
    """
    flips, scores = np.asarray(flips), np.asarray(scores, dtype=float)
    factor = _Factor.of(flips, epsilon)
    bias = _Bias(flips, scores, epsilon, fit)
    cut = _ks_threshold(flips, scores)
    share_below = _share_below(scores)
    return {
        ACCURACY: replace(
            corrected_accuracy(flips, scores > threshold, epsilon),
            most_bias=2 * bias.covariance(lambda z: z > threshold) / (1 - 2 * flip_probability(epsilon)),
        ),
        AUC: replace(_corrected_auc(flips, scores, factor), most_bias=factor.of_bias(bias.covariance(share_below))),
        KS: replace(
            _corrected_ks(flips, scores, cut, factor), most_bias=factor.of_bias(bias.covariance(lambda z: z >= cut))
        ),
    }


def corrected_accuracy(flips: np.ndarray, predicted: np.ndarray, epsilon: float, classes: int = 2) -> Corrected:
    """Accuracy of predicted classes, for any number of them.

    :param flips: flipped labels of shape (n,), n at least 1.
    :param predicted: predictions in the same terms.
    :param classes: number k of declared classes.
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
    def of(cls, flips: np.ndarray, epsilon: float) -> "_Factor":
        flip, share = flip_probability(epsilon), float(np.mean(flips))
        if not flip < share < 1 - flip:
            raise NotCorrectable(
                f"Of the flips {share:.4g} are 1, and {flip:.4g} to {1 - flip:.4g} come from two classes at this flip rate: "
                "one class is too rare among these rows."
            )
        value = (share - flip) * (1 - flip - share) / ((1 - 2 * flip) * share * (1 - share))
        slope = 1 / (share - flip) - 1 / (1 - flip - share) - 1 / share + 1 / (1 - share)
        return cls(value, share, slope)

    def corrected(self, difference: float, influences: np.ndarray, flips: np.ndarray) -> Corrected:
        """``difference`` is D' with the ``influences`` of the rows on it."""
        estimate = difference / self.value
        own = influences / self.value - estimate * self.relative_slope * (flips - self.share)
        return Corrected(difference, estimate, float(np.std(own)) / math.sqrt(len(own)))

    def of_bias(self, covariance: float) -> float:
        """What a mean covariance with the flips adds to D (for the AUC: to the AUC itself)."""
        return covariance / (self.share * (1 - self.share) * self.value)


class _Bias:
    """Mean of Cov(y'_i, g(z_i)) over the rows of a fit; 0 without one."""

    def __init__(self, flips: np.ndarray, scores: np.ndarray, epsilon: float, fit: Optional[Fit]):
        moved = 0.0 if fit is None else fit.leverage(len(flips))
        flip = flip_probability(epsilon)
        self._variance, self._with_0, self._with_1 = flip * (1 - flip), scores - moved * flips, scores + moved * (1 - flips)

    def covariance(self, g: Callable[[np.ndarray], np.ndarray]) -> float:
        return self._variance * float(np.mean(g(self._with_1).astype(float) - g(self._with_0)))


def _corrected_auc(flips: np.ndarray, scores: np.ndarray, factor: _Factor) -> Corrected:
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


def _corrected_ks(flips: np.ndarray, scores: np.ndarray, cut: float, factor: _Factor) -> Corrected:
    positive, passed = flips == 1, scores >= cut
    rates = np.where(positive, passed[positive].mean(), passed[~positive].mean())
    influences = np.where(positive, 1, -1) * (passed - rates) / np.where(positive, factor.share, 1 - factor.share)
    difference = float(passed[positive].mean() - passed[~positive].mean())
    return factor.corrected(difference, influences, flips)


def _ks_threshold(flips: np.ndarray, scores: np.ndarray) -> float:
    """Where TPR - FPR is largest."""
    false_positive, true_positive, thresholds = roc_curve(flips, scores)
    return float(thresholds[np.argmax(true_positive - false_positive)])


def _share_below(scores: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    ordered = np.sort(scores)
    return lambda z: np.searchsorted(ordered, z) / len(ordered)

