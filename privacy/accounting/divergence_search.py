"""From a privacy profile to epsilon: the smallest epsilon whose delta is small enough, found from the safe side."""
import math

RELATIVE_PRECISION = 1e-12


def smallest_epsilon(divergence, delta, highest):
    """Smallest epsilon (nats) of [0, highest] with ``divergence(epsilon) <= delta``, up to 1e-11 of its value above.

    ``divergence`` is evaluated at what is returned, so the answer is as safe as it is; unless that is ``highest``,
    which the caller vouches for.

    :param divergence: a positive function that does not increase, an upper bound of delta at an epsilon.
    """
    from scipy.optimize import brentq

    if divergence(0.0) <= delta:
        return 0.0
    if divergence(highest) >= delta:
        return highest
    crossing = brentq(
        lambda epsilon: math.log(divergence(epsilon) / delta),
        0.0,
        highest,
        xtol=RELATIVE_PRECISION * highest * 1e-3,
        rtol=RELATIVE_PRECISION,
    )
    margin = RELATIVE_PRECISION
    while divergence(crossing * (1 + margin)) > delta:
        margin *= 2
    return min(highest, crossing * (1 + margin))
