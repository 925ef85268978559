"""Hiding among the clones: what shuffling one message with n - 1 others does for a pure local randomiser.

V. Feldman, A. McMillan and K. Talwar, "Hiding among the clones", FOCS 2021, arXiv 2012.12803. Unit: whoever sends one
message per round; relation: replace-one; observer: whoever sees the shuffled messages only; epsilon in nats.

**The pair.** For an epsilon0-LDP randomiser R, and x, x' the two values of the unit that differs, any other message
obeys R(y) >= e^-epsilon0 (R(x) + R(x')) / 2. So with probability e^-epsilon0 it is a *clone*: a fair draw of one of
R(x) and R(x'). These two are in turn binary randomised response of two fixed laws (Kairouz, Oh and Viswanath 2015).
Hence the shuffled messages are post-processing of (theorem 3.2 and section 3 there)

    (A + D, C - A + 1 - D)   or   (A + 1 - D, C - A + D),
    C ~ Bin(n - 1, e^-epsilon0), A ~ Bin(C, 1/2), D ~ Bernoulli(e^epsilon0 / (e^epsilon0 + 1)).

For binary randomised response a message is a fair bit with probability 2 / (e^epsilon0 + 1) and else the true bit,
whatever the bit; giving away which messages are true leaves the same pair with that, larger, probability (the privacy
blanket: Balle, Bell, Gascon and Nissim, CRYPTO 2019). Swapping the two counts swaps the pair, so both directions agree.

**Range.** The pair holds for every n and epsilon0. The theorem's closed form is stated for
epsilon0 <= ln(n / (16 ln(4 / delta))) only, and this project claims no amplification by either outside it.

**Floating point.** Every function rounds up: special functions are charged with ``SPECIAL_FUNCTION_ERROR`` (1e-12 is
what ``tests/unit/test_shuffling.py`` measures against 40 digits), and the values of C left out are added to delta.
"""
import math

import numpy as np

from fate_dp.privacy.accounting.binomial_window import ERROR_PER_VALUE, LEFT_OUT, binomial_window, leading_bits
from fate_dp.privacy.accounting.divergence_search import smallest_epsilon

SPECIAL_FUNCTION_ERROR = 1e-11
# Beyond this e^epsilon0 nears the largest float, and no number of messages that exists amplifies anything.
LARGEST_AMPLIFIED = 300.0
# A profile rounds C down to this many binary digits, which is post-processing backwards: fewer clones hide less.
CLONE_BITS = 13
# How many times the odds 1 / (e^epsilon0 - 1) the odds of being a clone are.
CLONE_ODDS = {"any": 1.0, "randomized_response": 2.0}
# Below an epsilon0 of about 1e-300 they would leave the range of floats; smaller odds hide less.
LARGEST_ODDS = 1e300
ROUND_UP = 1 + 2.0**-48


def in_amplified_range(epsilon0, n, delta):
    """Whether epsilon0 <= ln(n / (16 ln(4 / delta))), the range in which amplification is claimed."""
    enough = n / (16 * math.log(4 / delta))
    return enough > 1 and epsilon0 <= math.log(enough)


def smallest_amplified_delta(epsilon0, n):
    """The delta at which ``in_amplified_range`` begins to hold: 4 exp(-n / (16 e^epsilon0)), rounded up, at most 1."""
    return min(1.0, 4 * math.exp(-n * math.exp(-epsilon0) / 16) * (1 + 1e-9))


def shuffle_closed_form(epsilon0, n, delta):
    """The closed form: ln(1 + (1 - e^-epsilon0) / (1 + e^(-epsilon0 - e')) (a + c)), rounded up; epsilon in nats.

    e' = ln(1 + a + c), a = 8 sqrt(e^epsilon0 ln(4 / delta) / n), c = 8 e^epsilon0 / n. Meaningful within
    ``in_amplified_range`` only, which the caller checks.

    This form, used in the authors' own program, is larger than that of theorem 3.1 as printed,
    ln(1 + (e^epsilon0 - 1) / (e^epsilon0 + 1) (a + c)): its factor is (e^epsilon0 - 1) / (e^epsilon0 + e^-e'). The
    printed one follows from R(x) and R(x') being (e', delta)-indistinguishable among the clones by advanced joint
    convexity, and proves this one too. It is kept as the larger, and changes no result: the numeric bound lies below
    both.
    """
    spread = 8 * math.sqrt(math.exp(epsilon0) * math.log(4 / delta) / n) + 8 * math.exp(epsilon0) / n
    factor = -math.expm1(-epsilon0) / (1 + math.exp(-epsilon0) / (1 + spread))
    return math.log1p(factor * spread) * ROUND_UP


def clones_epsilon(epsilon0, n, delta, randomizer, highest):
    """Smallest epsilon (nats) of the clones pair at ``delta``, rounded up; ``highest`` is a known upper bound of it."""
    trials, weights, error = _clones(epsilon0, n, randomizer)
    return smallest_epsilon(
        lambda epsilon: _clones_delta(epsilon, epsilon0, trials, weights) * (1 + error) + LEFT_OUT, delta, highest
    )


def shuffled_profile(process, relation):
    """Dominating profile of one round of ``events.Shuffled``: a tuple of one ``PrivacyProfile`` for a PLD accountant.

    For ``any`` the profile is (1 - d) times that of the clones pair plus d times that of unamplified randomised
    response, d = ``smallest_amplified_delta``: as if the shuffler failed with probability d. So a delta far below the
    range is met near epsilon0 only. What the profile gives there is proved, but ``shuffle_epsilon`` claims no less
    than epsilon0. For ``randomized_response`` it is the blanket's, one pair for all data sets, so that rounds may be
    composed; for a single round the exact count of ``shuffled_randomized_response`` is smaller.

    C is rounded down to ``CLONE_BITS`` binary digits, which raises epsilon by at most about 1e-4 of its value.
    """
    from fate_dp.privacy.accounting.privacy_profiles import PrivacyProfile

    epsilon0, n = process.epsilon0, process.messages
    failure = smallest_amplified_delta(epsilon0, n) if process.randomizer == "any" else 0.0
    if failure == 1.0 or epsilon0 > LARGEST_AMPLIFIED:
        return (PrivacyProfile(lambda epsilon: _unamplified(epsilon, epsilon0), -epsilon0, epsilon0),)
    losses, upper, lower = _outcomes(epsilon0, n, process.randomizer)
    # What lies beyond weighs less than the accountant's own tails.
    reach = epsilon0 if failure > 1e-22 else min(epsilon0, losses[np.searchsorted(-upper, -1e-22) - 1])

    def delta(epsilon):
        beyond = np.searchsorted(losses, epsilon, side="right")
        amplified = np.maximum(upper[beyond] - np.exp(epsilon) * lower[beyond], -np.expm1(np.minimum(epsilon, 0)))
        return (1 - failure) * amplified + failure * _unamplified(epsilon, epsilon0) + 2 * LEFT_OUT

    return (PrivacyProfile(delta, -reach, reach),)


def _clones(epsilon0, n, randomizer):
    """Values of C, their probabilities, and a bound on the relative error of these and of sums over them."""
    odds = CLONE_ODDS[randomizer] / max(math.expm1(epsilon0), 1 / LARGEST_ODDS)
    first, weights = binomial_window(n - 1, odds)
    return first + np.arange(len(weights)), weights, ERROR_PER_VALUE * (len(weights) + 10)


def _clones_delta(epsilon, epsilon0, clones, weights):
    """sup over events of P - e^epsilon Q for the clones pair, 0 <= epsilon <= epsilon0.

    Given C the likelihood ratio grows with the first count, so the best event is a half-line {first count >= t}, with t
    where p b(t-1) + q b(t) = e^epsilon (q b(t-1) + p b(t)), b the law of A. The value there is
    (p - e^epsilon q) b(t-1) - (e^epsilon - 1) P(A >= t): no difference of two nearly equal tails.
    """
    from scipy.special import betainc
    from scipy.stats import binom

    keep = 1 / (1 + math.exp(-epsilon0))
    gain, loss = keep * -math.expm1(epsilon - epsilon0), math.expm1(epsilon)
    share = _threshold_share(epsilon, epsilon0)
    threshold = np.minimum(np.ceil((clones + 1) * share), clones + 1)
    at = binom.pmf(threshold - 1, clones, 0.5)
    tail = np.where(threshold > clones, 0.0, betainc(threshold, np.maximum(clones - threshold + 1, 1), 0.5))
    values = gain * at * (1 + SPECIAL_FUNCTION_ERROR) - loss * tail * (1 - SPECIAL_FUNCTION_ERROR)
    return float(np.dot(weights, np.maximum(values, 0)))


def _threshold_share(epsilon, epsilon0):
    """Share of the first count in C + 1 at which the likelihood ratio is e^epsilon."""
    # (e^epsilon p - q) / ((p - q) (1 + e^epsilon)) with p / q = e^epsilon0.
    return math.expm1(epsilon + epsilon0) / (math.expm1(epsilon0) * (1 + math.exp(epsilon)))


def _outcomes(epsilon0, n, randomizer):
    """Losses of the clones pair, ascending; the mass that P and that Q have from each on, with a 0 at the end."""
    clones, weights, error = _clones(epsilon0, n, randomizer)
    fewer, group = np.unique([leading_bits(count, CLONE_BITS) for count in clones], return_inverse=True)
    rows = [
        _outcomes_given(count, epsilon0, weight) for count, weight in zip(fewer.tolist(), np.bincount(group, weights))
    ]
    losses, upper, lower = (np.concatenate(column) for column in zip(*rows))
    order = np.argsort(losses)
    error += ERROR_PER_VALUE * max(len(row[0]) for row in rows) + 1e-15 * math.sqrt(len(losses))
    from_here = [np.append(np.cumsum(mass[order][::-1])[::-1], 0.0) for mass in (upper, lower)]
    return losses[order], from_here[0] * (1 + error), from_here[1] * (1 - error)


def _outcomes_given(clones, epsilon0, weight):
    keep = 1 / (1 + math.exp(-epsilon0))
    flip = math.exp(-epsilon0) * keep
    first, law = binomial_window(clones, 1.0)
    count = first + np.arange(len(law) + 1.0)
    rest = clones + 1 - count
    losses = np.log(keep * count + flip * rest) - np.log(flip * count + keep * rest)
    with_own, without = np.append(0.0, law), np.append(law, 0.0)
    return losses, weight * (keep * with_own + flip * without), weight * (flip * with_own + keep * without)


def _unamplified(epsilon, epsilon0):
    keep = 1 / (1 + math.exp(-epsilon0))
    inside = keep * -np.expm1(np.minimum(epsilon - epsilon0, 0))
    return np.maximum(inside, -np.expm1(np.minimum(epsilon, 0)))
