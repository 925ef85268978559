"""Lower bounds on epsilon from the coins of one run, each by the law that its claim allows, and the best of them.

Every canary is a unit of its own whose part in the run a fair coin decides. Three bounds read what the auditor made of it:

- ``guesses``: of the coins, under (epsilon, delta)-differential privacy [Steinke2023], in `privacy.auditing.bounds`;
- ``guesses_f_dp``: the same guesses under a trade-off curve [Mahloujifar2025], here that of (epsilon, delta) or of
  mu-Gaussian differential privacy;
- ``gaussian_sum``: of the scores themselves, where canaries have directions of their own in a sum with Gaussian noise.
  The idea to read scores instead of guesses is that of [Agrawal2026]; the bound is another one, exact at any number of
  canaries.

The first two hold for every mechanism of the claimed kind. The third holds for a released sum with Gaussian noise of
any scale, and for nothing else. Proofs and assumptions: docs/proofs-audits.md. Epsilons in nats.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtr, ndtr, ndtri

from ..accounting.gaussian import gaussian_epsilon
from ..validation import InvalidArgument, check_delta, check_delta_or_zero, is_finite, one_of, strictly_within, whole
from .bounds import MAX_EPSILON, check_counts, guess_coins, largest, one_run_epsilon

Array = NDArray[np.float64]
Preimage = Callable[[float], float]
"""Of a probability that an event has under one input: the least that it may have under the neighbour."""

GUESSES, GUESSES_F_DP, GAUSSIAN_SUM = "guesses", "guesses_f_dp", "gaussian_sum"
PURE_OR_APPROXIMATE, GAUSSIAN = "epsilon_delta", "gaussian"
CLAIMS = (PURE_OR_APPROXIMATE, GAUSSIAN)
"""What the mechanism is claimed to be; the mu of a ``gaussian`` one is unknown."""
GUESSED_SHARE = 0.1
"""Of all canaries on either side, guessed where an auditor has scores; fixed before any run."""
MAX_MU = 200.0
# Relative: above the roundings of some ten thousand additions of probabilities.
ROOM = 1e-9
# Of the chi distribution: how many deviations are summed in how many steps, each on its safe side.
DEVIATIONS, STEPS = 12.0, 4000


@dataclass(frozen=True, eq=False)
class OneRun:
    """What an auditor holds after one run: ``coins``, int64 (m,), +1 or -1 per canary, tossed before it; ``guesses``,
    int64 (m,), +1, -1 or 0 (abstain), so many of each as was fixed before; ``scores``, float64 (m,), the higher the
    likelier +1, None where there are guesses only."""

    coins: NDArray[np.int64]
    guesses: NDArray[np.int64]
    scores: Array | None = None

    def __post_init__(self) -> None:
        coins, guesses = np.asarray(self.coins), np.asarray(self.guesses)
        if coins.ndim != 1 or coins.shape != guesses.shape or len(coins) < 1:
            raise InvalidArgument.of("guesses", guesses, f"one per coin, shape {coins.shape}, of at least one")
        if not np.isin(coins, (-1, 1)).all() or not np.isin(guesses, (-1, 0, 1)).all():
            raise InvalidArgument("coins must hold -1 and 1 only, guesses -1, 0 and 1.")
        if self.scores is not None and np.shape(self.scores) != coins.shape:
            raise InvalidArgument.of("shape of scores", np.shape(self.scores), f"{coins.shape}, one score per coin")

    @classmethod
    def of_scores(cls, coins: ArrayLike, scores: ArrayLike, share: float = GUESSED_SHARE) -> "OneRun":
        """With guesses of the highest and the lowest ``share`` of the scores, at least one each."""
        values, tossed = np.asarray(scores, dtype=float), np.asarray(coins)
        number = max(1, int(len(values) * share))
        return cls(tossed, guess_coins(values, number, number), values)

    @property
    def evidence(self) -> "GuessEvidence":
        seen = None if self.scores is None else SumStatistic.of(self.coins, self.scores)
        guessed, correct = (self.guesses != 0).sum(), (self.guesses == self.coins).sum()
        return GuessEvidence(len(self.coins), int(guessed), int(correct), seen)


@dataclass(frozen=True)
class SumStatistic:
    """What the t statistic of two groups of scores needs: their sizes, difference of means, and pooled deviation."""

    present: int
    absent: int
    shift: float
    deviation: float

    def __post_init__(self) -> None:
        whole("present", self.present, 2)
        whole("absent", self.absent, 2)
        if not is_finite(self.shift) or not is_finite(self.deviation) or self.deviation < 0:
            given = self.shift, self.deviation
            raise InvalidArgument.of("shift and deviation", given, "finite, the deviation not negative")

    @classmethod
    def of(cls, coins: ArrayLike, scores: ArrayLike) -> "SumStatistic":
        """Of +1 or -1 per canary, at least two of each, and a finite score of each."""
        tossed, values = np.asarray(coins), np.asarray(scores, dtype=float)
        groups = [values[tossed == side] for side in (1, -1)]
        if tossed.shape != values.shape or min(map(len, groups)) < 2 or not np.isfinite(values).all():
            raise InvalidArgument("scores must hold a finite number per coin, and coins at least two of either side.")
        squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
        pooled = math.sqrt(squares / (len(values) - 2))
        # Below this the deviations are the roundings of the mean.
        pooled = pooled if pooled > 1e-12 * float(np.abs(values).max()) else 0.0
        return cls(len(groups[0]), len(groups[1]), float(groups[0].mean() - groups[1].mean()), pooled)


@dataclass(frozen=True)
class GuessEvidence:
    """The counts of one run from which anybody computes its bounds; they name no canary.

    Of ``canaries``, as many coins, so many were ``guessed``, and of these so many rightly.
    """

    canaries: int
    guessed: int
    correct: int
    scores: SumStatistic | None = None

    def __post_init__(self) -> None:
        whole("canaries", self.canaries, 1, 10**9)
        whole("guessed", self.guessed, 0, self.canaries)
        whole("correct", self.correct, 0, self.guessed)
        if self.scores is not None and self.scores.present + self.scores.absent != self.canaries:
            scored = self.scores.present + self.scores.absent
            raise InvalidArgument.of("canaries", self.canaries, f"the number of scores, {scored}")


@dataclass(frozen=True)
class BestBound:
    """The largest of several lower bounds on epsilon, in nats; ``bounds`` holds each by its method."""

    epsilon: float
    method: str
    bounds: dict[str, float]


def best_bound(
    evidence: GuessEvidence, delta: float, confidence: float = 0.95, claim: str = PURE_OR_APPROXIMATE
) -> BestBound:
    """The best lower bound on epsilon at ``delta``, which holds with probability ``confidence``.

    The error 1 - confidence is divided evenly among the bounds that are asked, so that all of them hold together. The
    ``claim`` is ``gaussian`` for one release of a sum with Gaussian noise, or several without sampling, whose mu is
    estimated and needs a delta above 0; ``epsilon_delta`` assumes nothing.
    """
    delta, error = check_delta_or_zero(delta), 1 - strictly_within("confidence", confidence, 0, 1)
    gaussian = one_of("claim", claim, CLAIMS) == GAUSSIAN
    seen = evidence.scores if gaussian else None
    each = 1 - error / (2 if seen is None else 3)
    counts = evidence.canaries, evidence.guessed, evidence.correct
    bounds = {GUESSES: one_run_epsilon(*counts, delta, each)}
    bounds[GUESSES_F_DP] = (
        epsilon_of_mu(f_dp_mu(*counts, each), delta) if gaussian else f_dp_epsilon(*counts, delta, each)
    )
    if seen is not None:
        bounds[GAUSSIAN_SUM] = epsilon_of_mu(gaussian_sum_mu(seen, each), delta)
    best = max(bounds, key=bounds.__getitem__)
    return BestBound(bounds[best], best, bounds)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The epsilon of exact mu-Gaussian differential privacy at ``delta``, rounded down; at most ``MAX_EPSILON``."""
    check_delta(delta)
    if mu <= 0:
        return 0.0
    return min(MAX_EPSILON, max(0.0, math.nextafter(gaussian_epsilon(1 / min(mu, MAX_MU), delta), 0.0)))


def gaussian_sum_mu(seen: SumStatistic, confidence: float = 0.95) -> float:
    """Lower bound on mu = shift / deviation of scores that a canary's coin shifts.

    Given the coins the scores are independent and Gaussian, of one mean and deviation that nobody knows. So the groups'
    difference is a t statistic, and the bound is the noncentrality up to which it is rarer than 1 - confidence. Infinite
    where scores of a group do not differ at all, but groups do.
    """
    if seen.shift <= 0:
        return 0.0
    if seen.deviation == 0:
        return math.inf
    weight = math.sqrt(1 / seen.present + 1 / seen.absent)
    freedom = seen.present + seen.absent - 2
    return least_noncentrality(seen.shift / (seen.deviation * weight), freedom, 1 - confidence) * weight


def least_noncentrality(statistic: float, freedom: int, error: float) -> float:
    """The largest noncentrality under which a t statistic of at least this size is rarer than ``error``; 0 if none.

    A t statistic is (Z + noncentrality) / U with Z standard normal, U^2 chi-square over its degrees of freedom, so its
    tail is the mean of Phi(noncentrality - statistic U) over U: a falling function of U, summed from above.
    """
    spread = DEVIATIONS / math.sqrt(2 * freedom)
    edges = np.linspace(max(0.0, 1 - spread), 1 + 2 * spread, STEPS + 1)
    below = np.asarray(chdtr(freedom, freedom * edges**2))
    masses, first, last = np.diff(below), float(below[0]), float(1 - below[-1])

    def tail(noncentrality: float) -> float:
        inside = float(masses @ ndtr(noncentrality - statistic * edges[:-1]))
        return first + inside + last * float(ndtr(noncentrality - statistic * edges[-1]))

    return largest(lambda noncentrality: tail(noncentrality) < error, max(statistic, 0.0) + 50)


def f_dp_mu(canaries: int, guesses: int, correct: int, confidence: float = 0.95) -> float:
    """Lower bound on mu of a mechanism that is mu-Gaussian differentially private for some mu."""

    def preimage(mu: float) -> Preimage:
        return lambda probability: float(ndtr(ndtri(probability) - mu))

    return _f_dp(canaries, guesses, correct, confidence, preimage, MAX_MU)


def f_dp_epsilon(canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Lower bound on epsilon at ``delta`` of any mechanism, from the trade-off curve of (epsilon, delta)."""
    delta = check_delta_or_zero(delta)

    def preimage(epsilon: float) -> Preimage:
        factor = math.exp(epsilon)
        return lambda probability: max(0.0, (probability - delta) / factor, 1 - delta - factor * (1 - probability))

    return _f_dp(canaries, guesses, correct, confidence, preimage, MAX_EPSILON)


def _f_dp(
    canaries: int, guesses: int, correct: int, confidence: float, preimage: Callable[[float], Preimage], most: float
) -> float:
    check_counts(canaries, guesses, correct)
    error = 1 - confidence
    return largest(lambda strength: is_too_rare(canaries, guesses, correct, preimage(strength), error), most)


def is_too_rare(canaries: int, guesses: int, correct: int, preimage: Preimage, error: float) -> bool:
    """Whether ``correct`` or more right guesses have a probability below ``error`` under every mechanism of a curve.

    Supposes that they had ``error``, and adds up from there how much probability the smaller counts must have. More than
    1 in all refutes it. Notation and proof are in docs/proofs-audits.md, "Guesses under a trade-off curve".
    """
    if correct == 0 or guesses == 0:
        return False
    wrong = max(guesses - correct, 0)
    right_mass, wrong_mass = error * correct / canaries, error * wrong / canaries
    total = guesses / canaries * (1 + ROOM)
    # The first step may go below where it begins: what lies above ``correct`` may have fewer wrong guesses.
    for count in range(correct - 1, -1, -1):
        least = preimage(right_mass)
        if count < correct - 1:
            least = max(least, wrong_mass)
        right_mass += count / (guesses - count) * (least - wrong_mass)
        wrong_mass = least
        if right_mass + wrong_mass > total:
            return True
    return False
