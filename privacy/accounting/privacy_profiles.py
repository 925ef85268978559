"""Privacy profiles: the smallest delta at every epsilon of one release, from which a PLD accountant composes.

A profile is epsilon -> H(epsilon) = sup over events S of P(S) - e^epsilon Q(S), where (P, Q) is a pair that dominates
the mechanism: no neighbouring inputs are easier to tell apart at any real epsilon (nats, negative ones included).
Composing dominating pairs dominates the adaptive composition (Zhu, Dong and Wang, AISTATS 2022, theorem 10). Where two
pairs are needed (a record added, a record removed) each is composed and the worse answer counts. Proofs:
docs/proofs-privacy.md.

Every function of an array is vectorised over epsilon, and its rounding errors are small beside the sampling rate, not
beside 1. The tails left out by ``lowest`` and ``highest`` weigh less than 1e-22.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import events
from ..events import Process
from ..noise.stream import Floats

# scipy and mpmath are imported where they are used: what only flips labels must not wait for them.
RELATIVE_PRECISION = 1e-12


def smallest_epsilon(divergence: Callable[[float], float], delta: float, highest: float) -> float:
    """Smallest epsilon (nats) of [0, highest] with ``divergence(epsilon) <= delta``, up to 1e-11 of its value above.

    ``divergence`` is positive, does not increase, and bounds delta at an epsilon from above. It is evaluated at what is
    returned, so the answer is as safe as it is; unless that is ``highest``, which the caller vouches for.
    """
    from mpmath import fp

    if divergence(0.0) <= delta:
        return 0.0
    if divergence(highest) >= delta:
        return highest
    excess, tolerance = lambda epsilon: math.log(divergence(epsilon) / delta), RELATIVE_PRECISION * highest * 1e-3
    found = fp.findroot(excess, (0.0, highest), solver="anderson", tol=tolerance, maxsteps=100, verify=False)
    crossing = max(tolerance, float(found))
    margin = RELATIVE_PRECISION
    while divergence(crossing * (1 + margin)) > delta:
        margin *= 2
    return min(highest, crossing * (1 + margin))


# Bernstein: |X - mean| exceeds sqrt(2 L) sigma + 2 L / 3 with probability at most 2 e^-L.
EXPONENT = 80.0
# Of the most probable value. What is smaller is left out too, so that products of two probabilities do not underflow.
NEGLIGIBLE = 1e-150
LEFT_OUT = 3 * math.exp(-EXPONENT)
# Relative error per value of the window: at most four roundings of 2^-53 per step away from the mode.
ERROR_PER_VALUE = 1e-15


def binomial_window(trials: int, odds: float) -> tuple[int, Floats]:
    """(first value, probabilities of it and those that follow) for Binomial(trials, odds / (1 + odds)).

    The values left out have a probability of at most ``LEFT_OUT`` together. The relative error of a probability is at
    most ``ERROR_PER_VALUE`` times the number of values, for finite ``odds`` above 0 rounded to nearest.
    """
    success = odds / (1 + odds)
    mean, variance = trials * success, trials * success / (1 + odds)
    reach = math.sqrt(2 * EXPONENT * variance) + 2 * EXPONENT / 3 + 1
    first, last = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
    mode = min(max(int(mean), first), last)
    up, down = np.arange(mode, last), np.arange(mode, first, -1)
    rising = np.cumprod((trials - up) / (up + 1.0) * odds)
    falling = np.cumprod(down / ((trials - down + 1.0) * odds))
    weights = np.concatenate([falling[::-1], [1.0], rising])
    kept = np.flatnonzero(weights > NEGLIGIBLE)
    weights = weights[kept[0] : kept[-1] + 1]
    return first + int(kept[0]), weights / weights.sum()


def leading_bits(number: int, bits: int) -> int:
    """``number`` with all but its ``bits`` leading binary digits set to 0: at most it, and not decreasing in it."""
    dropped = max(0, int(number).bit_length() - bits)
    return int(number) >> dropped << dropped


# Profiles of mechanisms. The clip is 1, mu the clip over sigma, rate the sampling rate.

TAIL = 10.0
# Losses of more than this squared are beyond every grid; beyond it, squares would overflow.
MAX_MU = 1e100
# A smaller loss, mu, or product of sampling rate and mu is rounded up, which never lowers a delta.
MIN_LOSS = 1e-15
MIN_MU = 1e-12


@dataclass(frozen=True)
class PrivacyProfile:
    """``delta(epsilon array)`` of one dominating pair, and the range outside of which its loss hardly ever lies.

    Delta is asked outside of it, too, where it must be right: 0 above the largest loss.
    """

    delta: Callable[[Floats], Floats]
    lowest: float
    highest: float


Pair: TypeAlias = tuple[PrivacyProfile, ...]
"""One profile where the pair is symmetric, else (remove, add)."""


def gaussian_profile(mu: float) -> PrivacyProfile:
    """Profile of N(mu, 1) against N(0, 1)."""
    from scipy.special import log_ndtr, ndtr

    def delta(epsilon: Floats) -> Floats:
        value: Floats = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
        return value

    reach = mu**2 / 2 + TAIL * mu
    return PrivacyProfile(delta, -reach, reach)


def _randomized_response(process: events.RandomizedResponse, _: str) -> Pair:
    epsilon, others = max(process.epsilon, MIN_LOSS), process.classes - 2
    keep = 1 / (1 + (process.classes - 1) * math.exp(-epsilon))
    third = others * math.exp(-epsilon) * keep

    def delta(loss: Floats) -> Floats:
        value: Floats = keep * -np.expm1(np.minimum(loss - epsilon, 0)) + third * -np.expm1(np.minimum(loss, 0))
        return value

    return (_bounded(epsilon, delta),)


def _exponential_mechanism(process: events.ExponentialMechanism, _: str) -> Pair:
    epsilon = max(process.epsilon, MIN_LOSS)

    def delta(loss: Floats) -> Floats:
        shrunk: Floats = np.expm1(np.minimum(loss - epsilon, 0) / 2)
        return shrunk**2 / -math.expm1(-epsilon)

    return (_bounded(epsilon, delta),)


def _laplace(process: events.Laplace, _: str) -> Pair:
    epsilon = max(1 / process.noise_multiplier, MIN_LOSS)
    return (_bounded(epsilon, lambda loss: -np.expm1(np.minimum(loss - epsilon, 0) / 2)),)


def _bounded(epsilon: float, delta: Callable[[Floats], Floats]) -> PrivacyProfile:
    """Profile of a pure mechanism: ``delta`` on [-epsilon, epsilon], 1 - e^loss below."""
    return PrivacyProfile(
        lambda loss: np.where(loss < -epsilon, -np.expm1(np.minimum(loss, 0)), delta(loss)), -epsilon, epsilon
    )


def _poisson(process: events.PoissonSampledGaussian, relation: str) -> Pair:
    rate, mu = _within_reach(process.sampling_probability, 1 / process.noise_multiplier)
    return _poisson_replace_one(rate, mu) if relation == events.REPLACE_ONE else (_removed(rate, mu), _added(rate, mu))


def _within_reach(rate: float, mu: float) -> tuple[float, float]:
    """``rate`` and ``mu``, of which no product is smaller than ``MIN_LOSS`` and no mu beyond what can be squared."""
    mu = min(max(mu, MIN_MU), MAX_MU)
    return max(rate, MIN_LOSS / mu), mu


def _removed(rate: float, mu: float) -> PrivacyProfile:
    """(1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1)."""
    from scipy.special import log_ndtr, ndtr

    def delta(epsilon: Floats) -> Floats:
        ratio = _log_ratio(epsilon, rate)
        inside = np.isfinite(ratio)
        cut = (np.where(inside, ratio, 0.0) + mu**2 / 2) / mu
        difference = ndtr(mu - cut) - np.exp(ratio + log_ndtr(-cut))
        return np.where(inside, rate * difference, -np.expm1(np.minimum(epsilon, 0)))

    return PrivacyProfile(delta, _sampled_loss(rate, mu, -TAIL), _sampled_loss(rate, mu, mu + TAIL))


def _added(rate: float, mu: float) -> PrivacyProfile:
    """N(0, 1) against (1 - rate) N(0, 1) + rate N(mu, 1)."""
    from scipy.special import log_ndtr, ndtr

    def delta(epsilon: Floats) -> Floats:
        ratio = _log_ratio(-epsilon, rate)
        inside = np.isfinite(ratio)
        cut = (np.where(inside, ratio, 0.0) + mu**2 / 2) / mu
        difference = _excess_over_unsampled(epsilon, rate) * ndtr(cut) - rate * np.exp(epsilon + log_ndtr(cut - mu))
        return np.where(inside, difference, 0.0)

    return PrivacyProfile(delta, -_sampled_loss(rate, mu, mu + TAIL), -_sampled_loss(rate, mu, -TAIL))


def _log_ratio(epsilon: Floats, rate: float) -> Floats:
    """ln((e^epsilon - 1 + rate) / rate), the loss of the sampled part where the mixture's is epsilon; -inf if none."""
    falling = np.minimum(epsilon, 0)
    with np.errstate(divide="ignore"):
        below = np.log(np.maximum(np.expm1(falling) + rate, 0))
    above = epsilon + np.log1p(-(1 - rate) * np.exp(-np.maximum(epsilon, 0)))
    return np.where(epsilon < 0, below, above) - math.log(rate)


def _excess_over_unsampled(epsilon: Floats, rate: float) -> Floats:
    """1 - (1 - rate) e^epsilon, by sums that cancel no more than the result does."""
    falling, rising = np.minimum(epsilon, 0), np.maximum(epsilon, 0)
    above = np.exp(np.minimum(rising, 700.0)) * (np.expm1(-rising) + rate)
    return np.where(epsilon > 0, above, rate * np.exp(falling) - np.expm1(falling))


def _sampled_loss(rate: float, mu: float, place: float) -> float:
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + mu * place - mu**2 / 2))


def _poisson_replace_one(rate: float, mu: float) -> Pair:
    """(1 - rate) N(0, 1) + rate N(-mu, 1) against (1 - rate) N(0, 1) + rate N(mu, 1)."""
    from scipy.special import log_ndtr, ndtr

    log_steepness = math.log1p(-rate) - math.log(rate) + mu**2 / 2

    def delta(epsilon: Floats) -> Floats:
        half = np.maximum(np.abs(epsilon) / 2, 1e-300)
        log_argument = log_steepness + half + np.log(-np.expm1(-2 * half)) - math.log(2)
        # asinh(e^x): of a small number as such, since the logarithmic form cancels there, else free of overflow.
        logarithmic = np.logaddexp(log_argument, np.logaddexp(0, 2 * log_argument) / 2)
        asinh = np.where(log_argument < 0, np.arcsinh(np.exp(np.minimum(log_argument, 0))), logarithmic)
        cut = -(epsilon / 2 + np.sign(epsilon) * asinh) / mu
        sampled: Floats = ndtr(cut + mu) - np.exp(epsilon + log_ndtr(cut - mu))
        above = np.exp(epsilon + log_ndtr(cut)) * -np.expm1(-np.maximum(epsilon, 0))
        unsampled = np.where(epsilon > 0, above, np.expm1(np.minimum(epsilon, 0)) * ndtr(cut))
        return rate * sampled - (1 - rate) * unsampled

    reach = _sampled_loss(rate, mu, mu + TAIL) - _sampled_loss(rate, mu, -mu - TAIL)
    return (PrivacyProfile(delta, -reach, reach),)


def _fixed_size_replace_one(process: events.FixedSizeSampledGaussian, _: str) -> Pair:
    rate, mu = _within_reach(process.batch_size / process.records, 2 / process.noise_multiplier)
    remove, add = _removed(rate, mu), _added(rate, mu)
    lowest, highest = min(remove.lowest, add.lowest), max(remove.highest, add.highest)
    return (PrivacyProfile(lambda epsilon: np.maximum(remove.delta(epsilon), add.delta(epsilon)), lowest, highest),)


# Hiding among the clones: what shuffling one message with n - 1 others does for a pure local randomiser.
#
# V. Feldman, A. McMillan and K. Talwar, FOCS 2021, arXiv 2012.12803. Unit: whoever sends one message per round;
# relation: replace-one; observer: whoever sees the shuffled messages only. With C ~ Bin(n - 1, e^-epsilon0), A ~ Bin(C,
# 1/2) and D ~ Bernoulli(e^epsilon0 / (e^epsilon0 + 1)) the shuffled messages are post-processing of (A + D, C - A + 1 -
# D) or (A + 1 - D, C - A + D). Everything rounds up; the values of C left out are added to delta.

# Of a special function, relative: tests measure up to 1e-12 against 40 digits, and from some 10^8 trials on up to 3e-17
# for each of them.
SPECIAL_FUNCTION_ERROR = 1e-11
ERROR_PER_TRIAL = 1e-16
# Beyond this e^epsilon0 nears the largest float, and no number of messages that exists amplifies anything.
MAX_AMPLIFIED = 300.0
# A profile rounds C down to this many binary digits, which is post-processing backwards: fewer clones hide less.
CLONE_BITS = 13
SINGLE_ROUND_BITS = 20
# How many times the odds 1 / (e^epsilon0 - 1) the odds of being a clone are.
CLONE_ODDS = {"any": 1.0, "randomized_response": 2.0}
# Below an epsilon0 of about 1e-300 they would leave the range of floats; smaller odds hide less.
MAX_ODDS = 1e300
ROUND_UP = 1 + 2.0**-48


def in_amplified_range(epsilon0: float, n: int, delta: float) -> bool:
    """Whether epsilon0 <= ln(n / (16 ln(4 / delta))), the range in which amplification is claimed."""
    enough = n / (16 * math.log(4 / delta))
    return enough > 1 and epsilon0 <= math.log(enough)


def smallest_amplified_delta(epsilon0: float, n: int) -> float:
    """The delta at which ``in_amplified_range`` begins to hold: 4 exp(-n / (16 e^epsilon0)), rounded up, at most 1."""
    return min(1.0, 4 * math.exp(-n * math.exp(-epsilon0) / 16) * (1 + 1e-9))


def shuffle_closed_form(epsilon0: float, n: int, delta: float) -> float:
    """The closed form: ln(1 + (1 - e^-epsilon0) / (1 + e^(-epsilon0 - e')) (a + c)), rounded up; epsilon in nats.

    e' = ln(1 + a + c), a = 8 sqrt(e^epsilon0 ln(4 / delta) / n), c = 8 e^epsilon0 / n; meaningful within
    ``in_amplified_range`` only, which the caller checks. The form of the authors' own program, larger than that of
    theorem 3.1 as printed: docs/proofs-privacy.md.
    """
    spread = 8 * math.sqrt(math.exp(epsilon0) * math.log(4 / delta) / n) + 8 * math.exp(epsilon0) / n
    factor = -math.expm1(-epsilon0) / (1 + math.exp(-epsilon0) / (1 + spread))
    return math.log1p(factor * spread) * ROUND_UP


def clones_epsilon(epsilon0: float, n: int, delta: float, randomizer: str, highest: float) -> float:
    """Smallest epsilon (nats) of the clones pair at ``delta``, rounded up; ``highest`` is a known upper bound of it.

    C is rounded down to ``SINGLE_ROUND_BITS`` binary digits, which hides less: nothing changes below a million clones, and
    above epsilon rises by at most about 1e-6 of its value. The rounding does not depend on ``n``, so that more messages
    still never cost more.
    """
    clones, weights, error = _clones(epsilon0, n, randomizer)
    fewer, weights = _rounded_down(clones, weights, SINGLE_ROUND_BITS)
    return smallest_epsilon(
        lambda epsilon: _clones_delta(epsilon, epsilon0, fewer, weights) * (1 + error) + LEFT_OUT, delta, highest
    )


def shuffled_profile(process: events.Shuffled, _: str) -> Pair:
    """Dominating profile of one round of ``events.Shuffled``, for a PLD accountant.

    For ``any`` the profile is (1 - d) times that of the clones pair plus d times that of unamplified randomised
    response, d = ``smallest_amplified_delta``: as if the shuffler failed with probability d. So a delta far below the
    range is met near epsilon0 only. For ``randomized_response`` it is the blanket's, one pair for all data sets, so
    that rounds may be composed. C is rounded down to ``CLONE_BITS`` binary digits, which raises epsilon by at most
    about 1e-4 of its value.
    """

    epsilon0, n = process.epsilon0, process.messages
    failure = smallest_amplified_delta(epsilon0, n) if process.randomizer == "any" else 0.0
    if failure == 1.0 or epsilon0 > MAX_AMPLIFIED:
        return (PrivacyProfile(lambda epsilon: _unamplified(epsilon, epsilon0), -epsilon0, epsilon0),)
    losses, upper, lower = _outcomes(epsilon0, n, process.randomizer)
    # What lies beyond weighs less than the accountant's own tails.
    reach = epsilon0 if failure > 1e-22 else min(epsilon0, losses[np.searchsorted(-upper, -1e-22) - 1])

    def delta(epsilon: Floats) -> Floats:
        beyond = np.searchsorted(losses, epsilon, side="right")
        amplified: Floats = np.maximum(
            upper[beyond] - np.exp(epsilon) * lower[beyond], -np.expm1(np.minimum(epsilon, 0))
        )
        return (1 - failure) * amplified + failure * _unamplified(epsilon, epsilon0) + 2 * LEFT_OUT

    return (PrivacyProfile(delta, -reach, reach),)


def _clones(epsilon0: float, n: int, randomizer: str) -> tuple[NDArray[np.int64], Floats, float]:
    """Values of C, their probabilities, and a bound on the relative error of these and of sums over them."""
    odds = CLONE_ODDS[randomizer] / max(math.expm1(epsilon0), 1 / MAX_ODDS)
    first, weights = binomial_window(n - 1, odds)
    return first + np.arange(len(weights)), weights, ERROR_PER_VALUE * (len(weights) + 10)


def _rounded_down(clones: NDArray[np.int64], weights: Floats, bits: int) -> tuple[NDArray[np.int64], Floats]:
    """Different values of `leading_bits` of C, ascending, and the probability of each."""
    dropped = np.maximum(np.frexp(clones.astype(float))[1] - bits, 0)
    fewer, group = np.unique(clones >> dropped << dropped, return_inverse=True)
    return fewer, np.bincount(group, weights).astype(np.float64)


def _clones_delta(epsilon: float, epsilon0: float, clones: NDArray[np.int64], weights: Floats) -> float:
    """sup over events of P - e^epsilon Q for the clones pair, 0 <= epsilon <= epsilon0.

    Given C the likelihood ratio grows with the first count, so the best event is a half-line {first count >= t}, with t
    where p b(t-1) + q b(t) = e^epsilon (q b(t-1) + p b(t)), b the law of A. The value there is
    (p - e^epsilon q) b(t-1) - (e^epsilon - 1) P(A >= t): no difference of two nearly equal tails.
    """
    from scipy.special import betainc
    from scipy.stats import binom

    keep = 1 / (1 + math.exp(-epsilon0))
    gain, loss = keep * -math.expm1(epsilon - epsilon0), math.expm1(epsilon)
    # Share of the first count in C + 1 at which the likelihood ratio is e^epsilon, p / q being e^epsilon0:
    # (e^epsilon p - q) / ((p - q) (1 + e^epsilon)).
    share = math.expm1(epsilon + epsilon0) / (math.expm1(epsilon0) * (1 + math.exp(epsilon)))
    threshold = np.minimum(np.ceil((clones + 1) * share), clones + 1)
    at = binom.pmf(threshold - 1, clones, 0.5)
    tail = np.where(threshold > clones, 0.0, betainc(threshold, np.maximum(clones - threshold + 1, 1), 0.5))
    error = special_function_error(clones)
    values = gain * at * (1 + error) - loss * tail * (1 - error)
    return float(np.dot(weights, np.maximum(values, 0)))


def special_function_error(trials: NDArray[np.int64]) -> Floats:
    """What is charged for the relative error of a binomial probability and of a binomial tail, by the number of trials."""
    return np.maximum(SPECIAL_FUNCTION_ERROR, ERROR_PER_TRIAL * trials)


def _outcomes(epsilon0: float, n: int, randomizer: str) -> tuple[Floats, Floats, Floats]:
    """Losses of the clones pair, ascending; the mass that P and that Q have from each on, with a 0 at the end."""
    clones, weights, error = _clones(epsilon0, n, randomizer)
    fewer, weights = _rounded_down(clones, weights, CLONE_BITS)
    rows = [_outcomes_given(count, epsilon0, weight) for count, weight in zip(fewer.tolist(), weights)]
    losses, upper, lower = (np.concatenate(column) for column in zip(*rows))
    order = np.argsort(losses)
    error += ERROR_PER_VALUE * max(len(row[0]) for row in rows) + 1e-15 * math.sqrt(len(losses))
    from_here = [np.append(np.cumsum(mass[order][::-1])[::-1], 0.0) for mass in (upper, lower)]
    return losses[order], from_here[0] * (1 + error), from_here[1] * (1 - error)


def _outcomes_given(clones: int, epsilon0: float, weight: float) -> tuple[Floats, Floats, Floats]:
    keep = 1 / (1 + math.exp(-epsilon0))
    flip = math.exp(-epsilon0) * keep
    first, law = binomial_window(clones, 1.0)
    count = first + np.arange(len(law) + 1.0)
    rest = clones + 1 - count
    losses = np.log(keep * count + flip * rest) - np.log(flip * count + keep * rest)
    with_own, without = np.append(0.0, law), np.append(law, 0.0)
    return losses, weight * (keep * with_own + flip * without), weight * (flip * with_own + keep * without)


def _unamplified(epsilon: Floats, epsilon0: float) -> Floats:
    keep = 1 / (1 + math.exp(-epsilon0))
    inside = keep * -np.expm1(np.minimum(epsilon - epsilon0, 0))
    value: Floats = np.maximum(inside, -np.expm1(np.minimum(epsilon, 0)))
    return value


HAS_PROFILE: dict[type, Callable[..., Pair]] = {
    events.RandomizedResponse: _randomized_response,
    events.PureDP: lambda process, _: _randomized_response(events.RandomizedResponse(process.epsilon, 2), _),
    events.ExponentialMechanism: _exponential_mechanism,
    events.Laplace: _laplace,
    events.PoissonSampledGaussian: _poisson,
    events.FixedSizeSampledGaussian: _fixed_size_replace_one,
    events.Shuffled: shuffled_profile,
}


def profiles(process: Process, relation: str) -> Pair:
    """The profiles of one release of ``process``, one or (remove, add), for those in ``HAS_PROFILE``."""
    return HAS_PROFILE[type(process)](process, relation)
