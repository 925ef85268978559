"""The source's own composition of the Gaussian mechanism over sampled rounds (thesis, theorem 3.5.1, eq. 3.21 to 3.25).

Over T rounds in which a record takes part with probability p each, with sensitivity H and noise sigma,

    delta = sum_{i=1}^{T} B(i, T, p) [Phi(H sqrt(i)/(2 sigma) - epsilon sigma/(H sqrt(i)))
                                      - e^epsilon Phi(-H sqrt(i)/(2 sigma) - epsilon sigma/(H sqrt(i)))]    (eq. 3.23)

where B is the binomial probability. Kept for comparison; accounts use PLD or RDP.

**What is claimed and not proved.** The theorem is printed for any mechanisms that are (epsilon_i, delta_i)-DP. That
does not follow: the formula does not contain their epsilon_i and delta_i, and a mechanism that publishes its input
with probability delta_i has no sigma. Nor does it follow for the Laplace noise that the source adds.

**What is proved.** The formula is a valid upper bound for *Gaussian* noise of standard deviation sigma on the sum, when
each record takes part in each round by a coin of its own, of probability p, independent of data and outputs. Reveal the
coins of the record in question and condition on them: with i participations its neighbours differ in i adaptively
chosen queries of sensitivity at most H, which is no easier to tell apart than one Gaussian query of sensitivity
H sqrt(i) (Dong, Roth and Su, "Gaussian differential privacy", 2022, corollary 3.3). Both neighbours have the same law
of coins, so at every epsilon the smallest delta of the mixture is at most the mean of the conditional ones (the
hockey-stick divergence is jointly convex), and with i = 0 it is 0. Hiding the coins again is post-processing.

The relation decides H: the clip under add-or-remove (an absent record has coins that change nothing), twice the clip
under replace-one (record and replacement share the coins). The unit is the record.

The bound is not tight. It keeps that a record is rarely used, but gives up that nobody knows *when* it was, which is
what PLD and RDP gain: with PLD a factor of 5 to 20 in epsilon in the settings of ``make bench-source-composition``.

Epsilon is in nats; ``noise_multiplier`` is sigma / H. Results are rounded up.
"""
import math

import numpy as np

from fate_dp.privacy.accounting.analytic_gaussian import gaussian_delta, gaussian_epsilon
from fate_dp.privacy.accounting.binomial import log_binomial
from fate_dp.privacy.accounting.privacy_parameters import check_delta, check_epsilon_or_zero, check_scale
from fate_dp.privacy.number_kinds import is_real, is_whole

# Relative: more than the rounding of mu and of the tails' arguments, so that moving mu by it covers both.
ARGUMENT_ROUNDING = 2e-15
MILLS_ROUNDING = 1e-14
# Relative: covers squares of arguments up to 40, beyond which a tail is smaller than every float.
TAIL_ROUNDING = 1e-12
# More than all terms that underflow to 0 together.
UNDERFLOW = 1e-300
BISECTIONS = 60


class InvalidRounds(ValueError):
    """A number of rounds is not a whole number of at least 1."""


class InvalidSamplingProbability(ValueError):
    """A sampling probability is not greater than 0 and at most 1."""


def source_composition_delta(rounds, sampling_probability, noise_multiplier, epsilon):
    """Delta of eq. 3.23 at ``epsilon``, rounded up; at most 1.

    :param rounds: T, at least 1.
    :param sampling_probability: p, greater than 0 and at most 1.
    :param noise_multiplier: sigma over H, where H is the sensitivity under the relation that is claimed.
    :param epsilon: at least 0, in nats.
    :raises InvalidRounds, InvalidSamplingProbability, InvalidScale, InvalidEpsilon: one sentence on what is wrong.
    """
    epsilon = check_epsilon_or_zero(epsilon)
    weights, mus = _participations(rounds, sampling_probability, noise_multiplier)
    return _mean_delta(weights, mus, epsilon)


def source_composition_epsilon(rounds, sampling_probability, noise_multiplier, delta):
    """Smallest epsilon at which eq. 3.23 meets ``delta``, rounded up; 0.0 where it is met at epsilon 0.

    Parameters and errors as in ``source_composition_delta``, and ``InvalidDelta``.
    """
    delta = check_delta(delta)
    weights, mus = _participations(rounds, sampling_probability, noise_multiplier)
    if _mean_delta(weights, mus, 0.0) <= delta:
        return 0.0
    low, high = 0.0, unsampled_source_epsilon(rounds, noise_multiplier, delta)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if _mean_delta(weights, mus, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def unsampled_source_delta(rounds, noise_multiplier, epsilon):
    """Delta of the last line of eq. 3.24: every record in every round, exact for Gaussian noise; rounded up.

    Eq. 3.25 is the same with sigma = alpha H sqrt(T) / sqrt(2 epsilon). Parameters as in ``source_composition_delta``.
    """
    rounds, noise_multiplier = _check_rounds(rounds), check_scale("noise_multiplier", noise_multiplier)
    return gaussian_delta(noise_multiplier, epsilon, _root_above(rounds))


def unsampled_source_epsilon(rounds, noise_multiplier, delta):
    """Smallest epsilon at which the last line of eq. 3.24 meets ``delta``, rounded up."""
    rounds, noise_multiplier = _check_rounds(rounds), check_scale("noise_multiplier", noise_multiplier)
    return gaussian_epsilon(noise_multiplier, delta, _root_above(rounds))


def _participations(rounds, sampling_probability, noise_multiplier):
    """Probabilities, rounded up, of i = 1 .. rounds participations, and mu = sqrt(i) / noise_multiplier, rounded up."""
    rounds, noise_multiplier = _check_rounds(rounds), check_scale("noise_multiplier", noise_multiplier)
    probability = _check_sampling_probability(sampling_probability)
    mus = np.sqrt(np.arange(1, rounds + 1)) / noise_multiplier * (1 + ARGUMENT_ROUNDING)
    if probability == 1:
        return np.ones(1), mus[-1:]
    logarithms, error = log_binomial(rounds, math.log(probability), math.log1p(-probability))
    return np.exp(logarithms[1:] + error), mus


def _mean_delta(weights, mus, epsilon):
    with np.errstate(over="ignore"):
        mean = float(weights @ _delta_above(mus, epsilon))
    return min(1.0, mean * (1 + TAIL_ROUNDING) + UNDERFLOW)


def _delta_above(mus, epsilon):
    """Delta of the Gaussian mechanism for an array of mu, in floats and never below the exact one.

    With a, b = epsilon/mu -+ mu/2, density phi and Mills' ratio M, e^epsilon phi(b) = phi(a), so that delta is
    phi(a) (M(a) - M(b)), where nothing overflows and only the last difference cancels.
    """
    from scipy.special import erfcx, ndtr

    lower, upper = epsilon / mus - mus / 2, epsilon / mus + mus / 2
    density = np.exp(-lower * lower / 2) / math.sqrt(2 * math.pi)
    penalty = _mills(erfcx, upper) * (1 - MILLS_ROUNDING)
    in_tail = density * (_mills(erfcx, np.maximum(lower, 0.0)) * (1 + MILLS_ROUNDING) - penalty)
    in_bulk = ndtr(-lower) * (1 + MILLS_ROUNDING) - density * penalty
    return np.where(lower > 0, in_tail, in_bulk) * (1 + TAIL_ROUNDING)


def _mills(erfcx, argument):
    return math.sqrt(math.pi / 2) * erfcx(argument / math.sqrt(2))


def _root_above(rounds):
    return math.nextafter(math.sqrt(rounds), math.inf)


def _check_rounds(rounds):
    if not is_whole(rounds) or rounds < 1:
        raise InvalidRounds(f"rounds is {rounds!r} but must be a whole number of at least 1.")
    return int(rounds)


def _check_sampling_probability(probability):
    if not (is_real(probability) and 0 < probability <= 1):
        raise InvalidSamplingProbability(
            f"sampling_probability is {probability!r} but must be a number greater than 0 and at most 1."
        )
    return float(probability)
