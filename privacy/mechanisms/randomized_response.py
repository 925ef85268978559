"""Randomised response on class labels: the probabilities, and what a flipped label says about the true one.

With k classes a label is kept with probability e^epsilon / (e^epsilon + k - 1) and otherwise replaced by one of the
other k - 1 classes, uniformly. Released once, it is epsilon-differentially private (delta 0, epsilon in nats) for the
unit *label* under the *replace-one* relation, whatever else an observer knows about the record.

Reference: S. L. Warner, "Randomized response", JASA 60 (1965); P. Kairouz, S. Oh and P. Viswanath, "Extremal mechanisms
for local differential privacy", JMLR 17 (2016), for k classes.
"""
import math
import sys

import numpy as np

from fate_dp.privacy.number_kinds import is_real, is_whole

# An estimated prior of exactly 0 or 1 would make the posterior ignore every label and erase the rare class for good.
PRIOR_MARGIN = 1e-3


class InvalidEpsilon(ValueError):
    """The privacy parameter is not a finite number greater than 0."""


class InvalidClasses(ValueError):
    """The number of classes is not a whole number of at least 2."""


def check_epsilon(epsilon):
    """Return ``epsilon`` (nats) as a float; raise ``InvalidEpsilon`` unless it is a finite number greater than 0."""
    if not is_real(epsilon) or not 0 < epsilon <= sys.float_info.max:
        raise InvalidEpsilon(f"epsilon is {epsilon!r} but must be a finite number greater than 0 (in nats).")
    return float(epsilon)


def check_classes(classes):
    """Return the number of classes as an int; raise ``InvalidClasses`` unless it is a whole number of at least 2."""
    if not is_whole(classes) or classes < 2:
        raise InvalidClasses(f"classes is {classes!r} but must be a whole number of at least 2.")
    return int(classes)


def keep_probability(epsilon, classes=2):
    """Probability that k-ary randomised response keeps the true label.

    :param epsilon: privacy parameter in nats, unit *label*, replace-one.
    :param classes: number k of classes, at least 2.
    :raises InvalidEpsilon, InvalidClasses: outside those ranges.
    """
    return 1.0 / (1.0 + _odds_of_flip(epsilon, classes))


def flip_probability(epsilon, classes=2):
    """Probability that k-ary randomised response replaces the true label by another one.

    Exact also at large epsilon, where ``1 - keep_probability`` would cancel. Parameters as in ``keep_probability``.
    """
    odds = _odds_of_flip(epsilon, classes)
    return odds / (1.0 + odds)


def label_posterior(flipped, epsilon, prior):
    """P(true label = 1 | flipped label) for two classes, by Bayes' rule; vectorised in ``flipped`` and ``prior``.

    Post-processing of the flipped label: it costs no privacy as long as ``prior`` was not computed from true labels.

    :param flipped: flipped labels, 0 or 1.
    :param epsilon: the epsilon (nats) at which they were flipped.
    :param prior: P(true label = 1) before the flipped label is seen, from 0 to 1; may differ from record to record.
    :raises ValueError: when a flipped label or a prior is outside its range.
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


def estimate_prior(flipped_mean, epsilon):
    """Share of true labels that are 1, estimated without bias from the share of flipped labels, then clipped.

    The result lies in [0.001, 0.999]. Post-processing of the flipped labels: it costs no privacy.

    :param flipped_mean: share of flipped binary labels that are 1, from 0 to 1.
    :param epsilon: the epsilon (nats) at which they were flipped.
    """
    if not 0 <= flipped_mean <= 1:
        raise ValueError(f"flipped_mean is {flipped_mean!r} but must lie between 0 and 1.")
    flip = flip_probability(epsilon)
    keep_minus_flip = math.tanh(check_epsilon(epsilon) / 2)
    return float(np.clip((flipped_mean - flip) / keep_minus_flip, PRIOR_MARGIN, 1 - PRIOR_MARGIN))


def _odds_of_flip(epsilon, classes):
    return (check_classes(classes) - 1) * math.exp(-check_epsilon(epsilon))
