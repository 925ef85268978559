"""Binary randomised response, shuffled: the exact epsilon of the number of ones, over all neighbouring data sets.

n messages, each a bit kept with probability p = e^epsilon0 / (e^epsilon0 + 1), q = 1 - p; shuffled, they show their
number of ones and nothing else. Relation: replace-one; unit: whoever sends one message; epsilon in nats.

**One data set.** Let k of the other n - 1 hold 1 and m hold 0, and N ~ Bin(k, p) + Bin(m, q) count their ones.
Neighbours compare P = N + Bernoulli(p) with Q = N + Bernoulli(q); the opposite direction is the same with k and m
exchanged. N is log-concave, so the likelihood ratio grows and the best event is a half-line: delta(epsilon) is the
largest over t of (p - e^epsilon q) P(N = t - 1) - (e^epsilon - 1) P(N >= t).

**The worst data set.** Most often it is k = n - 1 (all others hold what the unit holds), but not always: how the counts
fall between whole numbers decides among nearly equal k, as at n = 100, epsilon0 = 0.3, delta = 1e-6, where k = 97 is
worst (found by trying all k, as the tests do). So all k are searched, by branch and bound. The bound: dropping some
of the others leaves less to hide among (the larger count is the smaller one plus independent bits), so
delta_{k,m} <= delta_{k',m'} whenever k' <= k and m' <= m. The data sets with fewer than ``EXACT`` zeros are taken as
they are. Elsewhere k and m are first rounded down to ``BITS`` binary digits, which is again this bound: the result is
exact for n <= 1024, or when the worst m is below 1024, and else at most about 0.1 % above the exact one. The rounding
does not depend on n, so that the result never increases in n, nor decreases in epsilon0.
"""
import math

import numpy as np

from fate_dp.privacy.accounting.binomial_window import ERROR_PER_VALUE, LEFT_OUT, binomial_window, leading_bits
from fate_dp.privacy.accounting.divergence_search import smallest_epsilon

EXACT = 1024
BITS = 10


def randomized_response_epsilon(epsilon0, n, delta, highest):
    """Smallest epsilon (nats) at ``delta`` over all data sets, rounded up as the module says.

    :param highest: an upper bound that is known to hold; the result is never above it.
    """
    others = n - 1
    worst = min(highest, _epsilon_of(epsilon0, others, 0, delta))
    boundary = max(0, others - EXACT + 1)
    pending = [(0, boundary - 1, _coarse)] if boundary else []
    pending.append((boundary, others, _fine))
    while pending and worst < highest:
        first, last, rounding = pending.pop()
        ones, zeros = rounding(first), rounding(others - last)
        if OtherMessages(epsilon0, ones, zeros).delta(worst) <= delta:
            continue
        if ones == rounding(last) and zeros == rounding(others - first):
            worst = min(highest, max(worst, _epsilon_of(epsilon0, ones, zeros, delta)))
            continue
        middle = (first + last) // 2
        pending += [(first, middle, rounding), (middle + 1, last, rounding)]
    return worst


class OtherMessages:
    """The ones among the messages of ``ones`` units that hold 1 and ``zeros`` that hold 0, and what they hide."""

    def __init__(self, epsilon0, ones, zeros):
        self.epsilon0 = epsilon0
        windows = [binomial_window(ones, math.exp(epsilon0)), binomial_window(zeros, math.exp(-epsilon0))]
        (short_first, short), (long_first, long) = sorted(windows, key=lambda window: len(window[1]))
        padding = np.zeros(len(short))
        self._reversed = short[::-1].copy()
        self._law = np.concatenate([padding, long, padding])
        self._tail = np.cumsum(self._law[::-1])[::-1]
        self._least = short_first + long_first
        self._values = len(short) + len(long) - 1
        self._error = ERROR_PER_VALUE * (len(self._law) + 10)

    def delta(self, epsilon):
        """Upper bound of delta at 0 <= epsilon <= epsilon0, for the unit's bit 1 against its bit 0."""
        gain = -math.expm1(epsilon - self.epsilon0) / (1 + math.exp(-self.epsilon0))
        ratio = _threshold_ratio(epsilon, self.epsilon0)
        below, above = 0, self._values
        while above - below > 1:
            middle = (below + above) // 2
            if self._sum(self._law, middle - 1) >= ratio * self._sum(self._law, middle):
                above = middle
            else:
                below = middle
        at, tail = self._sum(self._law, above - 1), self._sum(self._tail, above)
        value = gain * at * (1 + self._error) - math.expm1(epsilon) * tail * (1 - self._error)
        return max(value, 0.0) + LEFT_OUT * 2

    def _sum(self, padded, place):
        """Sum over j of short[j] padded[place - j], counted from the least values of both."""
        return float(np.dot(self._reversed, padded[place + 1 : place + 1 + len(self._reversed)]))


def _epsilon_of(epsilon0, ones, zeros, delta):
    # Searched from the same ends for every n, so that a data set that decides for several n gives them the same bits.
    return smallest_epsilon(OtherMessages(epsilon0, ones, zeros).delta, delta, epsilon0)


def _threshold_ratio(epsilon, epsilon0):
    """P(N = t - 1) / P(N = t) at which the likelihood ratio is e^epsilon."""
    # (e^epsilon p - q) / (p - e^epsilon q)
    return math.expm1(epsilon + epsilon0) * math.exp(-epsilon0) / max(-math.expm1(epsilon - epsilon0), 1e-300)


def _coarse(number):
    return leading_bits(number, BITS)


def _fine(number):
    return number
