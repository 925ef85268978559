"""The exponential mechanism: choose an index with probability proportional to exp(epsilon score / (2 sensitivity)).

epsilon-differentially private (nats, delta 0, plus a slack of 2^-190 per score, proved in docs/proofs-privacy.md: no
weight is rounded in floating point), and epsilon-bounded-range, under the relation under which ``sensitivity`` bounds
the change of every single score when one unit changes. The scores are private; their number and ``sensitivity`` are
public. No protection against timing is claimed.

References: F. McSherry and K. Talwar, "Mechanism design via differential privacy", FOCS 2007, Theorem 6; D. Durfee and
R. Rogers, NeurIPS 2019, for the bounded range.
"""

from __future__ import annotations

from bisect import bisect_right
from decimal import Context, Decimal, localcontext
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..events import Event, ExponentialMechanism, PureDP, Release, Statement, event_of
from ..noise.stream import Rng, open_stream, uniform_integer_below
from ..validation import InvalidArgument, check_epsilon, check_sensitivity
from .sampling import random_permutation

if TYPE_CHECKING:
    from typing_extensions import Unpack

WEIGHT_BITS = 192
DECIMAL_DIGITS = 60
NEGLIGIBLE_EXPONENT = -134
SLACK_PER_SCORE = 2.0**-190


def exponential_mechanism(scores: ArrayLike, epsilon: float, sensitivity: float, rng: Rng = None) -> int:
    """Index of one of the private, finite ``scores``, the higher the likelier; see above.

    Charge ``exponential_event`` before showing the index to anybody.
    """
    stream = open_stream(rng)
    bounds = list(accumulate(exponential_weights(scores, epsilon, sensitivity)))
    return bisect_right(bounds, uniform_integer_below(bounds[-1], stream))


def exponential_event(epsilon: float, size: int, *, rng: Rng = None, **statement: Unpack[Statement]) -> Event:
    """The event of one ``exponential_mechanism`` over ``size`` scores that is given ``rng``."""
    process = ExponentialMechanism(check_epsilon(epsilon))
    return event_of(process, open_stream(rng), slack=size * SLACK_PER_SCORE, **statement)


def exponential_weights(scores: ArrayLike, epsilon: float, sensitivity: float) -> list[int]:
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


def check_scores(scores: ArrayLike) -> list[float]:
    """Scores as a list of Python numbers of the same values; raise ``InvalidArgument`` unless all are finite."""
    given: Any = scores
    scores = np.asarray(scores)
    # Wider floats and big integers would have to be rounded, which may move a score by more than the sensitivity.
    if scores.ndim != 1 or not scores.size or scores.dtype.kind not in "fiu" or scores.dtype.itemsize > 8:
        raise InvalidArgument.of("scores", scores, "a non-empty list of numbers of at most 64 bits")
    if not np.isfinite(scores).all():
        raise InvalidArgument("scores must be finite, got a NaN or an infinity.")
    # In an array, a list that mixes floats with whole numbers has lost digits of the latter.
    return scores.tolist() if given is scores else [np.asarray(score).item() for score in given]


def report_noisy_max(
    scores: ArrayLike, epsilon: float, sensitivity: float, *, rng: Rng = None, **statement: Unpack[Statement]
) -> Release:
    """Index (int) of a high score, as a ``Release``: permute-and-flip, never worse than exponential in expectation.

    In random order every index is offered with probability exp(epsilon (score - best) / (2 sensitivity)), and the first
    one that is accepted is returned: R. McKenna and D. Sheldon, NeurIPS 2020, Theorems 1 and 2. epsilon-DP (nats, delta
    0 plus a slack of 2^-190 per score). Parameters as in ``exponential_mechanism``.
    """
    stream = open_stream(rng)
    weights = exponential_weights(scores, epsilon, sensitivity)
    slack = len(weights) * SLACK_PER_SCORE
    event = event_of(PureDP(check_epsilon(epsilon)), stream, slack=slack, **statement)
    order = random_permutation(len(weights), stream).tolist()
    return Release(next(index for index in order if stream.integer(WEIGHT_BITS) < weights[index]), event)
