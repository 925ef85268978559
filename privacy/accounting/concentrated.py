"""Zero-concentrated differential privacy (rho-zCDP) to (epsilon, delta) and back.

rho-zCDP bounds the Renyi divergence of neighbours' outputs by rho alpha at every order alpha > 1. By C. Canonne,
G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, proposition 7 with the Renyi
divergence rho alpha, it gives (epsilon, delta)-DP for

    delta = min over alpha > 1 of  e^((alpha - 1) (alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1).

Any order gives a valid statement; the best is found by bisection, so the numbers are the best of this conversion, but
not the smallest for a given mechanism (for the Gaussian one ``analytic_gaussian`` is exact). Epsilon is in nats. The
relation and the unit are those of rho; rho of several mechanisms of one relation and unit add up.

Results lie on the safe side of the formula by the relative margin ``MARGIN`` or more, far above float rounding.
"""
import math

from fate_dp.privacy.accounting.privacy_parameters import check_delta, check_epsilon_or_zero, check_scale, check_target

MARGIN = 1e-13
# Natural logarithms of alpha - 1 between which the order is searched.
LOG_ORDERS = (-40.0, 700.0)
BISECTIONS = 80


def zcdp_delta(rho, epsilon):
    """Delta that rho-zCDP gives at ``epsilon`` (at least 0, nats), rounded up; at most 1.

    :raises InvalidScale, InvalidEpsilon: one sentence on what is wrong.
    """
    rho, epsilon = check_scale("rho", rho), check_epsilon_or_zero(epsilon)
    excess = _best_order(rho_at=lambda excess: rho, epsilon_at=lambda excess: epsilon)
    exponent = excess * ((1 + excess) * rho - epsilon) - math.log(excess) - (1 + excess) * math.log1p(1 / excess)
    rounding = MARGIN * (1 + excess * ((1 + excess) * rho + epsilon) + abs(math.log(excess)))
    # The next float up: the margin covers roundings relative to the result, not those of subnormal numbers.
    return min(1.0, math.nextafter(math.exp(min(0.0, exponent + rounding)), math.inf))


def zcdp_epsilon(rho, delta):
    """Epsilon (nats) that rho-zCDP gives at ``delta``, rounded up; 0.0 where delta is met at epsilon 0.

    :raises InvalidScale, InvalidDelta: one sentence on what is wrong.
    """
    rho, delta = check_scale("rho", rho), check_delta(delta)

    def epsilon_at(excess):
        return (1 + excess) * rho + _conversion_cost(excess, delta)

    excess = _best_order(rho_at=lambda excess: rho, epsilon_at=epsilon_at)
    rounding = MARGIN * ((1 + excess) * rho + _conversion_size(excess, delta))
    return max(0.0, epsilon_at(excess) + rounding)


def zcdp_rho(epsilon, delta):
    """Largest rho for which rho-zCDP gives (``epsilon``, ``delta``), rounded down; 0.0 where that is no positive float.

    :raises InvalidEpsilon, InvalidDelta: one sentence on what is wrong.
    """
    epsilon, delta = check_target(epsilon, delta)

    def rho_at(excess):
        return (epsilon - _conversion_cost(excess, delta)) / (1 + excess)

    excess = _best_order(rho_at=rho_at, epsilon_at=lambda excess: epsilon)
    return max(0.0, rho_at(excess) - MARGIN * (epsilon + _conversion_size(excess, delta)) / (1 + excess))


def _conversion_cost(excess, delta):
    """Epsilon minus the Renyi divergence of order 1 + ``excess``, at ``delta``."""
    return (-math.log(delta) - math.log1p(excess)) / excess - math.log1p(1 / excess)


def _conversion_size(excess, delta):
    """Sum of the absolute values of the terms of ``_conversion_cost``."""
    return (-math.log(delta) + math.log1p(excess)) / excess + math.log1p(1 / excess)


def _best_order(rho_at, epsilon_at):
    """alpha - 1 at which the conversion is best.

    At fixed rho and epsilon ln delta is convex in alpha: its derivative (2 alpha - 1) rho - epsilon + ln(1 - 1/alpha)
    increases. So the orders that meet a given delta form an interval, and along rho(alpha) or epsilon(alpha) at that
    delta the sign of the same derivative tells on which side of the best order alpha lies.
    """
    low, high = LOG_ORDERS
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        excess = math.exp(middle)
        if (1 + 2 * excess) * rho_at(excess) - epsilon_at(excess) - math.log1p(1 / excess) < 0:
            low = middle
        else:
            high = middle
    return math.exp(low)
