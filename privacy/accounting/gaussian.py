"""The Gaussian mechanism, exactly: delta, epsilon or sigma from the other two; groups of coordinates.

Adding N(0, sigma^2) to every coordinate of a query of l2 sensitivity S is (epsilon, delta)-DP if and only if

    delta >= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu),    mu = S / sigma

(B. Balle and Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, theorem 8). Epsilon is
in nats; relation, unit and observer are those for which S is the sensitivity. The formula is evaluated in many digits
and rounded to the safe side. All holds for noise from the real-valued normal distribution; what a sampler deviates from
it is charged elsewhere, as slack. More in docs/proofs-privacy.md.
"""

import math
import threading
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ..validation import InvalidArgument, check_delta, check_epsilon_or_zero, check_target, positive


def high_precision(bits: float) -> Any:
    """This thread's mpmath context with ``bits`` bits of precision: no thread can change another's."""
    return _context_of(int(bits), threading.get_ident())


@lru_cache(maxsize=64)
def _context_of(bits: int, thread: int) -> Any:
    import mpmath

    context = mpmath.MPContext()
    context.prec = bits
    return context


def float_above(value: Any) -> float:
    """The smallest float that is not less than the mpmath number ``value``; infinity beyond the range of floats."""
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


CORRECT_BITS = 80
# Where epsilon/mu - mu/2 exceeds this, delta < e^(-40^2/2) is below the smallest positive float.
FAR_TAIL = 40.0
# Relative: leaves room for the last bits that are not correct, so that the delta of a result meets the target.
TARGET_MARGIN = 2.0**-70
NEWTON_STEPS = 200


def gaussian_delta(sigma: float, epsilon: float, sensitivity: float = 1.0) -> float:
    """Smallest delta at which noise ``sigma`` gives ``epsilon``, rounded up to a float; at least 2^-1074, at most 1.

    ``sigma`` is the standard deviation of the noise on each coordinate, in the unit of ``sensitivity``, the l2
    sensitivity of the query under the relation that is claimed.
    """
    sigma, sensitivity = positive("sigma", sigma), positive("sensitivity", sensitivity)
    epsilon = check_epsilon_or_zero(epsilon)
    context = _context(sensitivity / sigma, epsilon)
    mu = context.mpf(sensitivity) / sigma
    if epsilon / mu - mu / 2 > FAR_TAIL:
        return math.nextafter(0.0, 1.0)
    delta, _, _ = _delta_and_slopes(context, mu, context.mpf(epsilon))
    return min(1.0, max(math.nextafter(0.0, 1.0), float_above(delta * (1 + context.mpf(2) ** -CORRECT_BITS))))


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float = 1.0) -> float:
    """Smallest epsilon (nats) at which noise ``sigma`` meets ``delta``, rounded up; see ``gaussian_delta``.

    0.0 where delta is met at epsilon 0, infinity where the epsilon exceeds the range of floats.
    """
    sigma, sensitivity = positive("sigma", sigma), positive("sensitivity", sensitivity)
    delta = check_delta(delta)
    if gaussian_delta(sigma, 0.0, sensitivity) <= delta:
        return 0.0
    tail = math.sqrt(-2 * math.log(delta))
    enough = sensitivity / sigma * (sensitivity / sigma / 2 + tail)
    if math.isinf(enough):
        return math.inf
    context = _context(sensitivity / sigma, enough)
    mu, target = context.mpf(sensitivity) / sigma, context.mpf(delta) * (1 - context.mpf(TARGET_MARGIN))
    # delta(epsilon) <= Q(epsilon/mu - mu/2) <= e^(-tail^2/2), so this epsilon is enough. ln delta is decreasing and
    # concave in epsilon, so Newton's steps from there go down and never pass the solution.
    epsilon = mu * (mu / 2 + tail)
    for _ in range(NEWTON_STEPS):
        reached, _, slope = _delta_and_slopes(context, mu, epsilon)
        step = context.log(target / reached) * reached / slope
        epsilon -= step
        if step <= epsilon * TARGET_MARGIN:
            break
    return float_above(epsilon)


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Smallest sigma, in the unit of the l2 ``sensitivity``, that gives (``epsilon``, ``delta``), rounded up.

    ``gaussian_delta(sigma, epsilon, sensitivity) <= delta`` holds for it; infinity beyond the range of floats.

    >>> round(gaussian_sigma(1.0, 1e-5), 4)
    3.7306
    """
    epsilon, delta = check_target(epsilon, delta)
    sensitivity = positive("sensitivity", sensitivity)
    # Both are small enough: delta <= e^(-tail^2/2) at the first, delta <= mu / sqrt(2 pi) at the second. ln delta is
    # increasing and concave in mu, so Newton's steps from there go up and never pass the solution.
    tail = math.sqrt(-2 * math.log(delta))
    starts = 2 * epsilon / (tail + math.sqrt(tail * tail + 2 * epsilon)), delta * math.sqrt(2 * math.pi)
    start = max(starts) * (1 - 1e-9)
    context = _context(start, epsilon)
    mu, epsilon, target = map(context.mpf, (start, epsilon, delta))
    target *= 1 - context.mpf(TARGET_MARGIN)
    for _ in range(NEWTON_STEPS):
        reached, slope, _ = _delta_and_slopes(context, mu, epsilon)
        step = context.log(target / reached) * reached / slope
        mu += step
        if step <= mu * TARGET_MARGIN:
            break
    return float_above(sensitivity / mu)


def _context(mu: float, epsilon: float) -> Any:
    """Precision for ``mu`` at least and ``epsilon`` at most: the difference of the tails loses log2(b^3 / mu) bits."""
    mu = min(max(mu, math.ulp(0.0)), 1e300)
    largest = max(1.0, epsilon / mu + mu / 2)
    bits = 3 * math.log2(min(largest, 1e300)) - min(0.0, math.log2(mu))
    return high_precision(2 * CORRECT_BITS + bits)


def _delta_and_slopes(context: Any, mu: Any, epsilon: Any) -> tuple[Any, Any, Any]:
    """Delta, its derivative in mu, and minus its derivative in epsilon."""
    lower, upper = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    root = context.sqrt(2)
    penalty = context.exp(epsilon) * context.erfc(upper / root) / 2
    density = context.exp(-lower * lower / 2) / context.sqrt(2 * context.pi)
    return context.erfc(lower / root) / 2 - penalty, density, penalty


PRECISION_BITS = 200
# Relative: covers the last bits of a sum of any number of groups that fits in memory.
MARGIN_EXPONENT = -100


def grouped_gaussian_epsilon(clips: Iterable[float], sigmas: Iterable[float], delta: float) -> float:
    """Smallest epsilon (nats) of Gaussian noise of its own scale per coordinate group at ``delta``, rounded up.

    One Gaussian mechanism of mu = sqrt(sum_g (C_g / sigma_g)^2), after every group was divided by its sigma. ``clips``
    are the l2 sensitivities C_g under the relation that is claimed: for clipped sums the clip under add-or-remove,
    twice the clip under replace-one. ``sigmas`` are of the noise on each coordinate, in the unit of C_g. Both come from
    public facts; scales that depend on the data need an account of their own.
    """
    return gaussian_epsilon(grouped_noise_multiplier(clips, sigmas), delta)


def grouped_noise_multiplier(clips: Iterable[float], sigmas: Iterable[float]) -> float:
    """1 / mu, rounded down: sigma over sensitivity of the one Gaussian mechanism of ``grouped_gaussian_epsilon``."""
    moved, scales = [positive("clips", clip) for clip in clips], [positive("sigmas", sigma) for sigma in sigmas]
    if not moved:
        raise InvalidArgument.of("clips", clips, "one value for each of at least one group")
    if len(moved) != len(scales):
        raise InvalidArgument.of("number of sigmas", len(scales), f"{len(moved)}, one per group")
    context = high_precision(PRECISION_BITS)
    squared_mu = context.fsum((context.mpf(clip) / sigma) ** 2 for clip, sigma in zip(moved, scales))
    return -float_above((context.mpf(2) ** MARGIN_EXPONENT - 1) / context.sqrt(squared_mu))
