"""The exponential mechanism: choose an index with probability proportional to exp(epsilon score / (2 sensitivity)).

epsilon-differentially private (nats, delta 0, plus the slack below), and epsilon-bounded-range, under the relation
under which ``sensitivity`` bounds the change of every single score when one unit changes. The scores are private;
their number and ``sensitivity`` are public.

**No floating-point leaks.** Scores are taken as the exact numbers they are. Relative to the best score, weights are
integers floor(2^192 exp(-g)), with g = epsilon (best - score) / (2 sensitivity) to 60 decimal digits, 0 where g >
134; an exactly uniform integer below their sum chooses. *Slack.* g errs by less than 1.5e-59 g, so exp(-g) by less
than 1.5e-59 (g e^-g <= 1/e), and the floor and the cut-off add at most 2^-192 each; so every weight, over 2^192, is
within d = 2^-190 of exp(-g). The best has weight exactly 1, so ideal weights w with sum W >= 1 and ours, v with sum
V, have total-variation distance at most (sum |w - v| / W + |V - W| / W) / 2 <= n d for n scores.

References: F. McSherry and K. Talwar, "Mechanism design via differential privacy", FOCS 2007, Theorem 6; D. Durfee and
R. Rogers, NeurIPS 2019, for the bounded range. Running time depends on the scores; no protection against timing is
claimed.
"""
from bisect import bisect_right
from decimal import Context, Decimal, localcontext
from itertools import accumulate

import numpy as np

from fate_dp.privacy.events import ExponentialMechanism
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon
from fate_dp.privacy.mechanisms.release import event_of
from fate_dp.privacy.mechanisms.sensitivity import check_sensitivity
from fate_dp.privacy.noise.stream import open_stream
from fate_dp.privacy.noise.uniform import uniform_integer_below

WEIGHT_BITS = 192
DECIMAL_DIGITS = 60
NEGLIGIBLE_EXPONENT = -134
SLACK_PER_SCORE = 2.0**-190


class InvalidScores(ValueError):
    """The scores are not a non-empty list of finite numbers."""


def exponential_mechanism(scores, epsilon, sensitivity, random=None):
    """Index of a score, drawn with probability proportional to exp(epsilon score / (2 sensitivity)).

    Charge ``exponential_event`` before showing the index to anybody.

    :param scores: one-dimensional, finite; private. Higher is better.
    :param epsilon: privacy parameter in nats.
    :param sensitivity: largest change of any one score between neighbours.
    :param random: a stream; None for the operating system's entropy.
    :returns: int.
    :raises InvalidScores, InvalidEpsilon, InvalidSensitivity, InvalidRandomness: one sentence on what is wrong.
    """
    stream = open_stream(random)
    bounds = list(accumulate(exponential_weights(scores, epsilon, sensitivity)))
    return bisect_right(bounds, uniform_integer_below(bounds[-1], stream))


def exponential_event(epsilon, size, *, relation, observers, unit="record", random=None):
    """The event of one ``exponential_mechanism`` over ``size`` scores.

    :param relation: the one under which the sensitivity holds.
    :param random: what the mechanism is given; a reproducible stream makes the event ``NotPrivate``.
    """
    return event_of(
        ExponentialMechanism(check_epsilon(epsilon)),
        open_stream(random),
        unit=unit,
        relation=relation,
        observers=observers,
        slack=size * SLACK_PER_SCORE,
    )


def exponential_weights(scores, epsilon, sensitivity):
    """Weights of the scores as integers, 2^192 for the best: within 4 units of 2^192 exp(-g), see above."""
    scores = check_scores(scores)
    with localcontext(Context(prec=DECIMAL_DIGITS)):
        factor = Decimal(check_epsilon(epsilon)) / (2 * Decimal(check_sensitivity(sensitivity)))
        best, one = Decimal(max(scores)), Decimal(2**WEIGHT_BITS)
        exponents = {score: (Decimal(score) - best) * factor for score in set(scores)}
        weight_of = {
            score: int(exponent.exp() * one) if exponent > NEGLIGIBLE_EXPONENT else 0
            for score, exponent in exponents.items()
        }
    return [weight_of[score] for score in scores]


def check_scores(scores):
    """Scores as a list of Python numbers of the same values; raise ``InvalidScores`` unless all are finite."""
    given, scores = scores, np.asarray(scores)
    # Wider floats and big integers would have to be rounded, which may move a score by more than the sensitivity.
    if scores.ndim != 1 or not scores.size or scores.dtype.kind not in "fiu" or scores.dtype.itemsize > 8:
        raise InvalidScores(
            f"scores have {scores.size} values of type {scores.dtype} along {scores.ndim} axes but must be a non-empty "
            "list of numbers of at most 64 bits."
        )
    if not np.isfinite(scores).all():
        raise InvalidScores("scores hold a NaN or an infinity but must be finite.")
    # In an array, a list that mixes floats with whole numbers has lost digits of the latter.
    return scores.tolist() if given is scores else [np.asarray(score).item() for score in given]
