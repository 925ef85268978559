"""Amplification by shuffling: the epsilon of n pure local messages of which only the shuffled set is seen.

Unit: whoever sends *one* message per round (a record or a client; the caller's event names it). Relation: replace-one.
Observer: whoever sees the shuffled messages but not who sent which; the shuffler, or whoever collaborates with it, gets
the local epsilon0 only. ``n`` counts honest messages that really arrived: drop-outs and colluders reduce it. Epsilon is
in nats, and every result is an upper bound, also in floating point. The messages must be *pure* epsilon0-LDP, all of
one randomiser with the same public parameters. Proofs: docs/proofs-privacy.md.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .. import events
from ..validation import InvalidArgument, check_delta, check_epsilon, one_of, whole
from . import privacy_profiles as profiles
from .accountant import make_accountant
from .composition import compose_pure
from .privacy_profiles import ERROR_PER_VALUE, LEFT_OUT, MAX_AMPLIFIED, binomial_window, leading_bits, smallest_epsilon

# Binary randomised response: shuffled, n bits show their number of ones and nothing else. All neighbouring data sets
# are searched, by branch and bound: those with fewer than EXACT zeros as they are, elsewhere both counts rounded down
# to BITS binary digits, which hides less. So the result is exact for n <= 1024, and else at most about 0.1 % too large.

EXACT = 1024
BITS = 10


def randomized_response_epsilon(epsilon0: float, n: int, delta: float, highest: float) -> float:
    """Smallest epsilon (nats) at ``delta`` over all data sets of n bits, each kept with e^epsilon0 / (e^epsilon0 + 1).

    It is never above ``highest``, an upper bound that is known to hold.
    """
    others = n - 1
    worst = min(highest, _epsilon_of(epsilon0, others, 0, delta))
    boundary = max(0, others - EXACT + 1)
    coarse: Callable[[int], int] = partial(leading_bits, bits=BITS)
    pending = [(0, boundary - 1, coarse)] if boundary else []
    pending.append((boundary, others, int))
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

    def __init__(self, epsilon0: float, ones: int, zeros: int) -> None:
        self.epsilon0 = epsilon0
        windows = [binomial_window(ones, math.exp(epsilon0)), binomial_window(zeros, math.exp(-epsilon0))]
        short, long = sorted((law for _, law in windows), key=len)
        padding = np.zeros(len(short))
        self._reversed = short[::-1].copy()
        self._law = np.concatenate([padding, long, padding])
        self._tail = np.cumsum(self._law[::-1])[::-1]
        self._values = len(short) + len(long) - 1
        self._error = ERROR_PER_VALUE * (len(self._law) + 10)

    def delta(self, epsilon: float) -> float:
        """Upper bound of delta at 0 <= epsilon <= epsilon0, for the unit's bit 1 against its bit 0."""
        gain = -math.expm1(epsilon - self.epsilon0) / (1 + math.exp(-self.epsilon0))
        # P(N = t - 1) / P(N = t) at which the likelihood ratio is e^epsilon: (e^epsilon p - q) / (p - e^epsilon q).
        ratio = math.expm1(epsilon + self.epsilon0) * math.exp(-self.epsilon0)
        ratio /= max(-math.expm1(epsilon - self.epsilon0), 1e-300)
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

    def _sum(self, padded: NDArray[np.float64], place: int) -> float:
        """Sum over j of short[j] padded[place - j], counted from the least values of both."""
        return float(np.dot(self._reversed, padded[place + 1 : place + 1 + len(self._reversed)]))


def _epsilon_of(epsilon0: float, ones: int, zeros: int, delta: float) -> float:
    # Searched from the same ends for every n, so that a data set that decides for several n gives them the same bits.
    return smallest_epsilon(OtherMessages(epsilon0, ones, zeros).delta, delta, epsilon0)


def shuffle_epsilon(epsilon0: float, n: int, delta: float, randomizer: str = "any") -> float:
    """Epsilon (nats) at ``delta`` of one round of ``n`` shuffled ``epsilon0``-LDP messages; replace-one.

    Non-increasing in ``n``, non-decreasing in ``epsilon0`` and 1 / ``delta``, never above ``epsilon0``, and
    ``epsilon0`` for n = 1, where nothing is shuffled.

    Args:
        randomizer: ``any`` pure local randomiser: the smaller of the numeric bound of hiding among the clones and its
            closed form where epsilon0 <= ln(n / (16 ln(4 / delta))), and unamplified outside. ``randomized_response``:
            *binary* randomised response, over the worst data set (exact for n <= 1024), without a range. With more
            classes take ``any``: their messages hide less. `InvalidArgument` for any other, Gaussian noise above all.
    """
    epsilon0, n, delta = check_epsilon(epsilon0), whole("n", n, 1), check_delta(delta)
    if randomizer == "gaussian":
        cure = "Account Gaussian messages as local, or as secure_sum where only their sum is seen."
        raise InvalidArgument.of("randomizer", randomizer, "pure local DP", cure)
    one_of("randomizer", randomizer, events.RANDOMIZERS)
    if n == 1 or epsilon0 > MAX_AMPLIFIED:
        return epsilon0
    if randomizer == "randomized_response":
        # The blanket's bound lies below the one for any randomiser, and so does what is searched below it.
        blanket = profiles.clones_epsilon(epsilon0, n, delta, randomizer, epsilon0)
        return randomized_response_epsilon(epsilon0, n, delta, blanket)
    if not profiles.in_amplified_range(epsilon0, n, delta):
        return epsilon0
    # The search ends at the closed form, so that the smaller of the two is returned.
    return profiles.clones_epsilon(
        epsilon0, n, delta, randomizer, min(epsilon0, profiles.shuffle_closed_form(epsilon0, n, delta))
    )


def shuffle_composition_epsilon(epsilon0: float, n: int, rounds: int, delta: float, randomizer: str = "any") -> float:
    """Epsilon (nats) at ``delta`` of ``rounds`` rounds, each as in ``shuffle_epsilon``, chosen adaptively; replace-one.

    ``n`` is the least number of honest messages in any of the rounds. The smallest of: privacy loss distributions
    (``privacy_profiles.shuffled_profile`` says which pair is composed); the sum of the rounds at delta / rounds each;
    half of delta shared by the rounds and half spent on composing them as pure mechanisms; and that of the unamplified
    rounds.
    """
    rounds, single = whole("rounds", rounds, 1), shuffle_epsilon(epsilon0, n, delta, randomizer)
    if rounds == 1:
        return single
    epsilon0, n, delta = float(epsilon0), int(n), float(delta)
    shared = shuffle_epsilon(epsilon0, n, delta / rounds, randomizer)
    halved = shuffle_epsilon(epsilon0, n, delta / 2 / rounds, randomizer)
    candidates = [
        rounds * shared,
        compose_pure([halved] * rounds, delta / 2) if halved else 0.0,
        compose_pure([epsilon0] * rounds, delta),
    ]
    if single < epsilon0:
        accountant, round_of = make_accountant("pld", events.REPLACE_ONE), events.Shuffled(epsilon0, n, randomizer)
        accountant.compose(events.Event(round_of, "record", events.REPLACE_ONE, "server"), rounds)
        candidates.append(accountant.epsilon(delta))
    # At a large delta the pure mechanisms compose to less than one round claims outside the amplified range.
    return max(single, min(candidates))
