"""The Gaussian mechanism, exactly: delta for (sigma, epsilon), epsilon for (sigma, delta), sigma for (epsilon, delta).

Adding N(0, sigma^2) to every coordinate of a query of l2 sensitivity S is (epsilon, delta)-differentially private if
and only if delta is at least

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu),    mu = S / sigma,

for every epsilon >= 0 (B. Balle and Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy", ICML
2018, theorem 8). Epsilon is in nats; sigma and S share one unit. The relation, the unit and the observer are those for
which S is the sensitivity: this module adds none of its own.

The formula is evaluated with enough digits that the difference keeps more than 80 correct bits, and the result is
rounded to the safe side: a returned delta, epsilon or sigma is never below the exact one. All three hold for noise
drawn from the real-valued normal distribution; what a sampler deviates from it is charged elsewhere, as slack.
"""
import math

from fate_dp.privacy.accounting.privacy_parameters import check_delta, check_epsilon_or_zero, check_scale, check_target
from fate_dp.privacy.accounting.rounding import float_above, high_precision

CORRECT_BITS = 80
# Where epsilon/mu - mu/2 exceeds this, delta < e^(-40^2/2) is below the smallest positive float.
FAR_TAIL = 40.0
# Relative: leaves room for the last bits that are not correct, so that the delta of a result meets the target.
TARGET_MARGIN = 2.0**-70
NEWTON_STEPS = 200


def gaussian_delta(sigma, epsilon, sensitivity=1.0):
    """Smallest delta at which noise ``sigma`` gives ``epsilon``, rounded up to a float; at least 2^-1074, at most 1.

    :param sigma: standard deviation of the noise on each coordinate, in the unit of ``sensitivity``.
    :param epsilon: at least 0, in nats.
    :param sensitivity: l2 sensitivity of the query under the relation that is claimed.
    :raises InvalidScale, InvalidEpsilon: one sentence on what is wrong.
    """
    sigma, sensitivity = check_scale("sigma", sigma), check_scale("sensitivity", sensitivity)
    epsilon = check_epsilon_or_zero(epsilon)
    context = _context(sensitivity / sigma, epsilon)
    mu = context.mpf(sensitivity) / sigma
    if epsilon / mu - mu / 2 > FAR_TAIL:
        return math.nextafter(0.0, 1.0)
    delta, _, _ = _delta_and_slopes(context, mu, context.mpf(epsilon))
    return min(1.0, max(math.nextafter(0.0, 1.0), float_above(delta * (1 + context.mpf(2) ** -CORRECT_BITS))))


def gaussian_epsilon(sigma, delta, sensitivity=1.0):
    """Smallest epsilon (nats) at which noise ``sigma`` meets ``delta``, rounded up.

    0.0 where delta is met at epsilon 0, infinity where the epsilon exceeds the range of floats. Parameters as in
    ``gaussian_delta``.

    :raises InvalidScale, InvalidDelta: one sentence on what is wrong.
    """
    sigma, sensitivity = check_scale("sigma", sigma), check_scale("sensitivity", sensitivity)
    delta = check_delta(delta)
    if gaussian_delta(sigma, 0.0, sensitivity) <= delta:
        return 0.0
    tail = math.sqrt(-2 * math.log(delta))
    enough = sensitivity / sigma * (sensitivity / sigma / 2 + tail)
    if math.isinf(enough):
        return math.inf
    context = _context(sensitivity / sigma, enough)
    mu, target = context.mpf(sensitivity) / sigma, _below(context, delta)
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


def gaussian_sigma(epsilon, delta, sensitivity=1.0):
    """Smallest sigma that gives (``epsilon``, ``delta``), rounded up.

    ``gaussian_delta(sigma, epsilon, sensitivity) <= delta`` holds for it; infinity beyond the range of floats.

    :param epsilon: greater than 0, in nats.
    :param delta: strictly between 0 and 1.
    :param sensitivity: l2 sensitivity of the query under the relation that is claimed; sigma has its unit.
    :raises InvalidEpsilon, InvalidDelta, InvalidScale: one sentence on what is wrong.
    """
    epsilon, delta = check_target(epsilon, delta)
    sensitivity = check_scale("sensitivity", sensitivity)
    # Both are small enough: delta <= e^(-tail^2/2) at the first, delta <= mu / sqrt(2 pi) at the second. ln delta is
    # increasing and concave in mu, so Newton's steps from there go up and never pass the solution.
    tail = math.sqrt(-2 * math.log(delta))
    starts = 2 * epsilon / (tail + math.sqrt(tail * tail + 2 * epsilon)), delta * math.sqrt(2 * math.pi)
    start = max(starts) * (1 - 1e-9)
    context = _context(start, epsilon)
    mu, epsilon, target = context.mpf(start), context.mpf(epsilon), _below(context, delta)
    for _ in range(NEWTON_STEPS):
        reached, slope, _ = _delta_and_slopes(context, mu, epsilon)
        step = context.log(target / reached) * reached / slope
        mu += step
        if step <= mu * TARGET_MARGIN:
            break
    return float_above(sensitivity / mu)


def _context(mu, epsilon):
    """Precision for ``mu`` at least and ``epsilon`` at most: the difference of the tails loses log2(b^3 / mu) bits."""
    mu = min(max(mu, math.ulp(0.0)), 1e300)
    largest = max(1.0, epsilon / mu + mu / 2)
    bits = 3 * math.log2(min(largest, 1e300)) - min(0.0, math.log2(mu))
    return high_precision(2 * CORRECT_BITS + bits)


def _below(context, delta):
    return context.mpf(delta) * (1 - context.mpf(TARGET_MARGIN))


def _delta_and_slopes(context, mu, epsilon):
    """Delta, its derivative in mu, and minus its derivative in epsilon."""
    lower, upper = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    root = context.sqrt(2)
    penalty = context.exp(epsilon) * context.erfc(upper / root) / 2
    density = context.exp(-lower * lower / 2) / context.sqrt(2 * context.pi)
    return context.erfc(lower / root) / 2 - penalty, density, penalty
