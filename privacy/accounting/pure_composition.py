"""Composition of pure-DP mechanisms: what several epsilon_i-DP releases of one unit cost together, at a given delta.

Every epsilon_i-DP mechanism is, between two neighbours, post-processing of binary randomised response with parameter
epsilon_i, whose privacy loss is +epsilon_i with probability e^epsilon_i / (1 + e^epsilon_i) and -epsilon_i otherwise.
With L the sum of these independent losses, any adaptive composition is (epsilon, delta)-DP for

    delta(epsilon) = E[max(0, 1 - e^(epsilon - L))],

and no smaller delta holds for all such mechanisms: binary randomised response attains it. (P. Kairouz, S. Oh and
P. Viswanath, "The composition theorem for differential privacy", ICML 2015, theorem 3.3, for equal epsilons; J. Murtagh
and S. Vadhan, "The complexity of computing the optimal composition of differential privacy", TCC 2016, theorem 1.5, for
unequal ones.) The epsilons are in nats, of one unit and one relation, against one observer.

Equal epsilons form a group, of which only the number of negative losses matters. With at most ``EXACT_COMBINATIONS``
such numbers over all groups, the answer is exact, rounded up by a bound on rounding errors. With more it is an upper
bound: every group's loss is moved to a grid as ``_spread`` describes, which never lowers delta(epsilon).
"""
import math
from collections import Counter

import numpy as np

from fate_dp.privacy.accounting.binomial import log_binomial
from fate_dp.privacy.accounting.privacy_parameters import check_delta_or_zero
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon

EXACT_COMBINATIONS = 2**18
GRID_CELLS = 2**15
# Where losses may go beyond the grid, they do so with a probability of at most delta times e to the minus this.
BEYOND_GRID = 25.0
# More than all probabilities that underflow to 0 together.
UNDERFLOW = 1e-300
ROUNDING = 1e-15
LARGEST_EXPONENT = 690.0


def compose_pure(epsilons, delta):
    """Smallest epsilon (nats) at which the composition of ``epsilons``-DP mechanisms meets ``delta``, rounded up.

    Never above the sum of the epsilons, which is the answer at delta 0; 0.0 for no mechanism. Exact for binary
    randomised response, up to the number of different epsilons that the module's text states.

    :param epsilons: finite numbers greater than 0, one per mechanism.
    :param delta: from 0 to less than 1.
    :raises InvalidEpsilon, InvalidDelta: one sentence on what is wrong.
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


def _exact_losses(groups, total, delta):
    """Values of the summed loss and their probabilities, the probability of an infinite loss, the relative error."""
    losses, logarithms, error = np.zeros(1), np.zeros(1), 0.0
    for epsilon, count in groups:
        group_losses, group_logarithms, group_error = _group_loss(epsilon, count)
        losses = np.add.outer(group_losses, losses).ravel()
        logarithms = np.add.outer(group_logarithms, logarithms).ravel()
        error += group_error
    return losses, np.exp(logarithms), 0.0, error


def _grid_losses(groups, total, delta):
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


def _spread(losses, masses, step, limit):
    """Move each loss to its two neighbours on the grid; returns whole numbers of steps, within +-``limit``, and masses.

    The shares keep the mean of U = e^-loss. delta(epsilon) = E[max(0, 1 - e^epsilon U_1 U_2 ...)] is convex in each of
    the independent U_i, and spreading out one of them around its mean never lowers the mean of a convex function.
    """
    places = np.clip(losses / step, -limit, limit)
    below = np.floor(places)
    above_share = np.expm1(-(places - below) * step) / math.expm1(-step)
    cells = np.concatenate([below, below + 1]).astype(int)
    shares = np.concatenate([masses * (1 - above_share), masses * above_share])
    first = cells.min()
    return first, np.bincount(cells - first, weights=shares)


def _convolve(masses, first, shares):
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


def _group_loss(epsilon, count):
    """Values of the summed loss of ``count`` randomised responses, ln of their probabilities, bound on the error."""
    log_positive = -math.log1p(math.exp(-epsilon))
    logarithms, error = log_binomial(count, log_positive - epsilon, log_positive)
    return (count - 2.0 * np.arange(count + 1)) * epsilon, logarithms, error


def _smallest_epsilon(losses, masses, infinite, error, delta):
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
    neighbour = masses * np.exp(np.minimum(reference - losses, LARGEST_EXPONENT))
    lower = np.cumsum(neighbour) * math.exp(-error)
    with np.errstate(divide="ignore"):
        needed = reference + np.max(np.log(upper[missed] - delta) - np.log(lower[missed]))
    return max(0.0, float(needed) * (1 + ROUNDING) + ROUNDING)


def _sum_above(values):
    try:
        total = math.fsum(values)
    except OverflowError:
        return math.inf
    return total if math.fsum([*values, -total]) <= 0 else math.nextafter(total, math.inf)
