"""The thesis' composition of noise over sampled rounds (theorem 3.5.1, eq. 3.21 to 3.25), kept for comparison (README.md)."""

from __future__ import annotations

import math

import numpy as np

from fate_dp.privacy.accounting.composition import UNDERFLOW, log_binomial
from fate_dp.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon
from fate_dp.privacy.noise.stream import Floats
from fate_dp.privacy.validation import as_share, check_delta, check_epsilon_or_zero, positive, whole

# Relative: more than the rounding of mu and of the tails' arguments, so that moving mu by it covers both.
ARGUMENT_ROUNDING = 2e-15
MILLS_ROUNDING = 1e-14
# Relative: covers squares of arguments up to 40, beyond which a tail is smaller than every float.
TAIL_ROUNDING = 1e-12
BISECTIONS = 60


def source_composition_delta(
    rounds: int, sampling_probability: float, noise_multiplier: float, epsilon: float
) -> float:
    """Delta of eq. 3.23 at ``epsilon``, after T ``rounds``, each record sampled with probability p; rounded up.

    ``noise_multiplier`` is sigma over H, where H is the sensitivity under the relation that is claimed.
    """
    epsilon = check_epsilon_or_zero(epsilon)
    weights, mus = _participations(rounds, sampling_probability, noise_multiplier)
    return _mean_delta(weights, mus, epsilon)


def source_composition_epsilon(
    rounds: int, sampling_probability: float, noise_multiplier: float, delta: float
) -> float:
    """Smallest epsilon at which ``source_composition_delta`` is ``delta``, rounded up; 0.0 where met at epsilon 0."""
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


def unsampled_source_delta(rounds: int, noise_multiplier: float, epsilon: float) -> float:
    """Delta of the last line of eq. 3.24: every record in every round, exact for Gaussian noise; rounded up.

    Eq. 3.25 is the same with sigma = alpha H sqrt(T) / sqrt(2 epsilon). Parameters as in ``source_composition_delta``.
    """
    root = math.nextafter(math.sqrt(whole("rounds", rounds, 1)), math.inf)
    return gaussian_delta(positive("noise_multiplier", noise_multiplier), epsilon, root)


def unsampled_source_epsilon(rounds: int, noise_multiplier: float, delta: float) -> float:
    """Smallest epsilon at which the last line of eq. 3.24 meets ``delta``, rounded up."""
    root = math.nextafter(math.sqrt(whole("rounds", rounds, 1)), math.inf)
    return gaussian_epsilon(positive("noise_multiplier", noise_multiplier), delta, root)


def _participations(rounds: int, sampling_probability: float, noise_multiplier: float) -> tuple[Floats, Floats]:
    """Probabilities, rounded up, of i = 1 .. rounds participations, and mu = sqrt(i) / noise_multiplier, rounded up."""
    rounds, noise_multiplier = whole("rounds", rounds, 1), positive("noise_multiplier", noise_multiplier)
    probability = as_share("sampling_probability", sampling_probability, "a number greater than 0 and at most 1")
    mus = np.sqrt(np.arange(1, rounds + 1)) / noise_multiplier * (1 + ARGUMENT_ROUNDING)
    if probability == 1:
        return np.ones(1), mus[-1:]
    logarithms, error = log_binomial(rounds, math.log(probability), math.log1p(-probability))
    return np.exp(logarithms[1:] + error), mus


def _mean_delta(weights: Floats, mus: Floats, epsilon: float) -> float:
    with np.errstate(over="ignore"):
        mean = float(weights @ _delta_above(mus, epsilon))
    return min(1.0, mean * (1 + TAIL_ROUNDING) + UNDERFLOW)


def _delta_above(mus: Floats, epsilon: float) -> Floats:
    """Delta of the Gaussian mechanism for an array of mu, in floats and never below the exact one.

    With a, b = epsilon/mu -+ mu/2, density phi and Mills' ratio M, e^epsilon phi(b) = phi(a), so that delta is
    phi(a) (M(a) - M(b)), where nothing overflows and only the last difference cancels.
    """
    from scipy.special import erfcx, ndtr

    lower, upper = epsilon / mus - mus / 2, epsilon / mus + mus / 2
    density = np.exp(-lower * lower / 2) / math.sqrt(2 * math.pi)
    of_lower, of_upper = (
        math.sqrt(math.pi / 2) * erfcx(argument / math.sqrt(2)) for argument in (np.maximum(lower, 0.0), upper)
    )
    penalty = of_upper * (1 - MILLS_ROUNDING)
    in_tail = density * (of_lower * (1 + MILLS_ROUNDING) - penalty)
    in_bulk = ndtr(-lower) * (1 + MILLS_ROUNDING) - density * penalty
    return np.where(lower > 0, in_tail, in_bulk) * (1 + TAIL_ROUNDING)
