"""Composition by formula of pure mechanisms, exactly.

Why the formulas hold: docs/proofs-privacy.md. Epsilons are in nats, of one unit
and one relation, against one observer; results are rounded up.
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from ..noise.stream import Floats
from ..validation import check_delta_or_zero, check_epsilon

# Different epsilons with how many mechanisms have each; and values of a summed loss, their probabilities, the
# probability of an infinite loss, the relative error of the probabilities.
Groups: TypeAlias = list[tuple[float, int]]
Losses: TypeAlias = tuple[Floats, Floats, float, float]
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
GRID_CELLS = 2**15
# Where losses may go beyond the grid, they do so with a probability of at most delta times e to the minus this.
BEYOND_GRID = 25.0
# More than all probabilities that underflow to 0 together.
UNDERFLOW = 1e-300
ROUNDING = 1e-15
MAX_EXPONENT = 690.0


def compose_pure(epsilons: Iterable[float], delta: float) -> float:
    """Smallest epsilon (nats) at which the composition of ``epsilons``-DP mechanisms meets ``delta``, rounded up.

    With L the sum of the losses of independent binary randomised responses of these epsilons, which dominate,
    delta(epsilon) = E[max(0, 1 - e^(epsilon - L))] (P. Kairouz, S. Oh and P. Viswanath, ICML 2015, theorem 3.3; J.
    Murtagh and S. Vadhan, TCC 2016, theorem 1.5). Exact, rounded up, with at most ``EXACT_COMBINATIONS`` numbers of
    negative losses over all groups of equal epsilons, else an upper bound on a grid. Never above the sum of the
    epsilons, which is the answer at delta 0; 0.0 for no mechanism.
    """
    epsilons, delta = [check_epsilon(epsilon) for epsilon in epsilons], check_delta_or_zero(delta)
    total = _sum_above(epsilons)
    if delta == 0 or not epsilons or math.isinf(total):
        return total
    groups = sorted(Counter(epsilons).items())
    combinations = math.prod(count + 1 for _, count in groups)
    losses_of = _exact_losses if combinations <= EXACT_COMBINATIONS else _grid_losses
    losses, masses, infinite, error = losses_of(groups, total, delta)
    return min(total, _smallest_epsilon(losses, masses, infinite, error + ROUNDING * total, delta))


def _exact_losses(groups: Groups, total: float, delta: float) -> Losses:
    losses, logarithms, error = np.zeros(1), np.zeros(1), 0.0
    for epsilon, count in groups:
        group_losses, group_logarithms, group_error = _group_loss(epsilon, count)
        losses = np.add.outer(group_losses, losses).ravel()
        logarithms = np.add.outer(group_logarithms, logarithms).ravel()
        error += group_error
    return losses, np.exp(logarithms), 0.0, error


def _grid_losses(groups: Groups, total: float, delta: float) -> Losses:
    """As ``_exact_losses``, with every group's loss spread over a grid of ``GRID_CELLS`` steps around 0.

    Randomised response is epsilon^2/2-zCDP, so the sum of losses, rho of zCDP, exceeds rho + 2 sqrt(rho x) at any time
    with probability at most e^-x (Bun and Steinke 2016, and Doob's inequality). Such sums count as infinite from then
    on, which is counted, not neglected; sums below the grid count as its lowest value, which is more.
    """
    rho = sum(count * epsilon * epsilon / 2 for epsilon, count in groups)
    reach = min(total, rho + 2 * math.sqrt(rho * (BEYOND_GRID - math.log(delta))))
    half = GRID_CELLS // 2
    # Every group can end one step higher than its loss, and the largest sum should still be on the grid.
    step = reach / max(half - len(groups), half // 2)
    masses, infinite, error = np.zeros(2 * half + 1), 0.0, 0.0
    masses[half] = 1.0
    for epsilon, count in groups:
        losses, logarithms, group_error = _group_loss(epsilon, count)
        masses, overflow = _convolve(masses, *_spread(losses, np.exp(logarithms), step, len(masses)))
        infinite += overflow
        error += group_error + ROUNDING * (count + 1) * (1 + epsilon)
    return step * np.arange(-half, half + 1), masses, infinite, error


def _spread(losses: Floats, masses: Floats, step: float, limit: int) -> tuple[int, Floats]:
    """Move each loss to its two neighbours on the grid; returns whole numbers of steps, within +-``limit``, and masses.

    The shares keep the mean of U = e^-loss. delta(epsilon) = E[max(0, 1 - e^epsilon U_1 U_2 ...)] is convex in each of
    the independent U_i, and spreading out one of them around its mean never lowers the mean of a convex function.
    """
    places = np.clip(losses / step, -limit, limit)
    below = np.floor(places)
    above_share = np.expm1(-(places - below) * step) / math.expm1(-step)
    cells = np.concatenate([below, below + 1]).astype(int)
    shares = np.concatenate([masses * (1 - above_share), masses * above_share])
    first = int(cells.min())
    return first, np.bincount(cells - first, weights=shares).astype(np.float64, copy=False)


def _convolve(masses: Floats, first: int, shares: Floats) -> tuple[Floats, float]:
    """Distribution of the sum on the grid, and the mass above it; what falls below goes to the lowest cell."""
    cells = len(masses)
    summed, overflow = np.zeros(cells), 0.0
    for offset in np.flatnonzero(shares):
        shift, moved = first + offset, masses * shares[offset]
        if shift >= 0:
            stay = max(cells - shift, 0)
            summed[cells - stay :] += moved[:stay]
            overflow += float(moved[stay:].sum())
        else:
            fall = min(-shift, cells)
            summed[: cells - fall] += moved[fall:]
            summed[0] += float(moved[:fall].sum())
    return summed, overflow


def _group_loss(epsilon: float, count: int) -> tuple[Floats, Floats, float]:
    """Values of the summed loss of ``count`` randomised responses, ln of their probabilities, bound on the error."""
    log_positive = -math.log1p(math.exp(-epsilon))
    logarithms, error = log_binomial(count, log_positive - epsilon, log_positive)
    return (count - 2.0 * np.arange(count + 1)) * epsilon, logarithms, error


def _smallest_epsilon(losses: Floats, masses: Floats, infinite: float, error: float, delta: float) -> float:
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
    upper = np.cumsum(masses) * math.exp(error) + infinite * math.exp(error) + UNDERFLOW
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
