"""The bounds that audits rest on: Clopper and Pearson's, and that of guesses of many canaries' coins in one run.

Lower bounds on epsilon, in nats, wrong with probability at most 1 - confidence (Steinke et al. 2023); their laws and
references stand in docs/proofs-audits.md. The relation is that in which the caller's inputs are neighbours.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, binom

from ..validation import InvalidArgument, strictly_within, whole, within

MAX_EPSILON = 700.0
BISECTIONS = 60

Array = NDArray[np.float64]


def clopper_pearson(successes: ArrayLike, trials: int, error: float) -> tuple[Array, Array]:
    """Lower and upper bound on a probability, each wrong with probability at most ``error``; vectorised in successes.

    Reference: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits", Biometrika 26 (1934).
    """
    successes = np.asarray(successes)
    with np.errstate(invalid="ignore"):
        lower = np.where(successes > 0, beta.ppf(error, successes, trials - successes + 1), 0.0)
        upper = np.where(successes < trials, beta.isf(error, successes + 1, trials - successes), 1.0)
    return lower, upper


def one_run_epsilon(canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Lower bound on epsilon, in nats: below it ``_p_value`` is under 1 - confidence. 0 when nothing is refuted.

    ``confidence`` is the probability, over coins and mechanism, with which the bound, rounded down, holds.
    """
    check_counts(canaries, guesses, correct)
    delta = within("delta", delta, 0, 1)
    error = 1 - strictly_within("confidence", confidence, 0, 1)
    return largest(lambda epsilon: _p_value(canaries, guesses, correct, epsilon, delta) < error, MAX_EPSILON)


def largest(holds: Callable[[float], bool], most: float) -> float:
    """The largest number up to ``most`` of those below which a statement holds; 0 where it holds nowhere."""
    if not holds(0.0):
        return 0.0
    low, high = 0.0, most
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def guess_coins(scores: ArrayLike, guessed_heads: int, guessed_tails: int) -> NDArray[np.int64]:
    """The guesses of algorithm 1: +1 for the highest scores, -1 for the lowest, 0 (abstain) between.

    ``scores`` holds a finite number per canary, the higher the likelier its coin showed heads (present); how many to
    guess as +1 and as -1 is fixed before the run.
    """
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise InvalidArgument.of("scores", scores, "a list of finite numbers, one per canary")
    heads = whole("guessed_heads", guessed_heads, 0, len(scores))
    tails = whole("guessed_tails", guessed_tails, 0, len(scores) - heads)
    order = np.argsort(scores, kind="stable")
    guesses = np.zeros(len(scores), dtype=np.int64)
    guesses[order[:tails]] = -1
    guesses[order[len(order) - heads :]] = 1
    return guesses


def check_counts(canaries: int, guesses: int, correct: int) -> None:
    whole("canaries", canaries, 1, 10**9)
    whole("guesses", guesses, 0, canaries)
    whole("correct", correct, 0, guesses)


def _p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Bound on the probability of ``correct`` or more correct guesses under every (epsilon, delta)-private mechanism.

    With W ~ Binomial(guesses, 1 / (e^epsilon + 1)) wrong guesses and w = guesses - correct, it is P[W <= w] + 2 delta
    canaries max_i P[w < W <= w + i] / i, at most 1. ``canaries`` are all coins that were tossed.
    """
    # In wrong guesses rather than right ones: their probability keeps its digits at large epsilon, where 1 - it is 1.
    wrong, rate = guesses - correct, 1 / (1 + math.exp(epsilon))
    tail = float(binom.cdf(wrong, guesses, rate))
    if delta == 0 or correct == 0:
        return min(tail, 1.0)
    further = np.cumsum(binom.pmf(np.arange(wrong + 1, guesses + 1), guesses, rate))
    steepest = float(np.max(further / np.arange(1, correct + 1)))
    return min(tail + 2 * delta * canaries * steepest, 1.0)
