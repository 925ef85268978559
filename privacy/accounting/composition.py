"""Composition of pure mechanisms, exactly where that is feasible.

Why the formulas hold: docs/proofs-privacy.md. Epsilons are in nats, of one unit
and one relation, against one observer; results are rounded up.
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from ..events import REPLACE_ONE, Event, PureDP
from ..noise.stream import Floats
from ..validation import check_delta_or_zero, check_epsilon
from .accountant import PLDAccountant

# Different epsilons with how many mechanisms have each.
Groups: TypeAlias = list[tuple[float, int]]
# In units of the size of the terms: four roundings of 2^-53 each and the library's log-gamma, with room to spare.
RELATIVE_ERROR = 1e-15


def log_binomial(trials: int, log_success: float, log_failure: float) -> tuple[Floats, float]:
    """ln P(k successes) for k = 0 .. ``trials``, and an upper bound on the absolute error of every one of them.

    ``log_success`` and ``log_failure`` are ln of the probability of success and failure of one trial, both finite.
    """
    from scipy.special import gammaln

    successes = np.arange(trials + 1, dtype=float)
    failures = trials - successes
    log_ways = gammaln(trials + 1.0) - gammaln(successes + 1.0) - gammaln(failures + 1.0)
    logarithms = log_ways + successes * log_success + failures * log_failure
    size = 1.0 + 3 * gammaln(trials + 1.0) + trials * (abs(log_success) + abs(log_failure))
    return logarithms, RELATIVE_ERROR * float(size)


EXACT_COMBINATIONS = 2**18
# More than all probabilities that underflow to 0 together.
UNDERFLOW = 1e-300
ROUNDING = 1e-15
MAX_EXPONENT = 690.0


def compose_pure(epsilons: Iterable[float], delta: float) -> float:
    """Smallest epsilon (nats) at which the composition of ``epsilons``-DP mechanisms meets ``delta``, rounded up.

    With L the sum of the losses of independent binary randomised responses of these epsilons, which dominate,
    delta(epsilon) = E[max(0, 1 - e^(epsilon - L))] (P. Kairouz, S. Oh and P. Viswanath, ICML 2015, theorem 3.3; J.
    Murtagh and S. Vadhan, TCC 2016, theorem 1.5). Exact, rounded up, with at most ``EXACT_COMBINATIONS`` numbers of
    negative losses over all groups of equal epsilons, else an upper bound by privacy loss distributions. Never above the
    sum of the epsilons, which is the answer at delta 0; 0.0 for no mechanism.
    """
    epsilons, delta = [check_epsilon(epsilon) for epsilon in epsilons], check_delta_or_zero(delta)
    total = _sum_above(epsilons)
    if delta == 0 or not epsilons or math.isinf(total):
        return total
    groups = sorted(Counter(epsilons).items())
    if math.prod(count + 1 for _, count in groups) > EXACT_COMBINATIONS:
        accountant = PLDAccountant(REPLACE_ONE)
        for epsilon, count in groups:
            accountant.compose(Event(PureDP(epsilon), "record", REPLACE_ONE, ("model",)), count)
        return min(total, accountant.epsilon(delta))
    losses, masses, error = _summed_losses(groups)
    return min(total, _smallest_epsilon(losses, masses, error + ROUNDING * total, delta))


def _summed_losses(groups: Groups) -> tuple[Floats, Floats, float]:
    """Values of the sum of all losses, their probabilities, and the relative error of these."""
    losses, logarithms, error = np.zeros(1), np.zeros(1), 0.0
    for epsilon, count in groups:
        group_losses, group_logarithms, group_error = _group_loss(epsilon, count)
        losses = np.add.outer(group_losses, losses).ravel()
        logarithms = np.add.outer(group_logarithms, logarithms).ravel()
        error += group_error
    return losses, np.exp(logarithms), error


def _group_loss(epsilon: float, count: int) -> tuple[Floats, Floats, float]:
    """Values of the summed loss of ``count`` randomised responses, ln of their probabilities, bound on the error."""
    log_positive = -math.log1p(math.exp(-epsilon))
    logarithms, error = log_binomial(count, log_positive - epsilon, log_positive)
    return (count - 2.0 * np.arange(count + 1)) * epsilon, logarithms, error


def _smallest_epsilon(losses: Floats, masses: Floats, error: float, delta: float) -> float:
    """Smallest epsilon with delta(epsilon) <= delta, when masses and e^-losses have at most the relative ``error``.

    delta(epsilon) is the largest, over j, of P_j - e^epsilon Q_j, where P_j is the mass of the j largest losses and Q_j
    that of the same outputs under the neighbour. So epsilon is the largest ln((P_j - delta) / Q_j), and P_j rounded up
    with Q_j rounded down keeps it above the exact one.
    """
    order = np.argsort(-losses)[: np.count_nonzero(losses > 0)]
    losses, masses = losses[order], masses[order]
    if not error < 1:
        return math.inf
    error += ROUNDING * (len(losses) + 10)
    upper = np.cumsum(masses) * math.exp(error) + UNDERFLOW
    missed = upper > delta
    if not missed.any():
        return 0.0
    reference = losses[missed.argmax()]
    neighbour = masses * np.exp(np.minimum(reference - losses, MAX_EXPONENT))
    lower = np.cumsum(neighbour) * math.exp(-error)
    with np.errstate(divide="ignore"):
        needed = reference + np.max(np.log(upper[missed] - delta) - np.log(lower[missed]))
    return max(0.0, float(needed) * (1 + ROUNDING) + ROUNDING)


def _sum_above(values: list[float]) -> float:
    try:
        total = math.fsum(values)
    except OverflowError:
        return math.inf
    return total if math.fsum([*values, -total]) <= 0 else math.nextafter(total, math.inf)
