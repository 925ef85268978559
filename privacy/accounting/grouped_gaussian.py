"""Gaussian noise of its own scale per coordinate group: one Gaussian mechanism after a linear change of variables.

Group g of a query has l2 sensitivity C_g under the relation that is claimed, and each of its coordinates gets
N(0, sigma_g^2). Divide group g by sigma_g: an invertible public map, so nothing is gained or lost, after which the
noise has standard deviation 1 everywhere and two neighbours differ by at most mu = sqrt(sum_g (C_g / sigma_g)^2) in l2
norm. So the mechanism is (epsilon, delta)-DP exactly as the Gaussian mechanism of noise multiplier 1 / mu (Balle and
Wang 2018, theorem 8). The bound is tight when one neighbour can move every group by its C_g at once.

For clipped sums C_g is the group's clip under add-or-remove and twice the clip under replace-one. Groups are disjoint
and fixed from public facts; scales that depend on the data need an account of their own.
"""
from fate_dp.privacy.accounting.analytic_gaussian import gaussian_epsilon
from fate_dp.privacy.accounting.privacy_parameters import InvalidScale, check_scale
from fate_dp.privacy.accounting.rounding import float_below, high_precision

PRECISION_BITS = 200
# Relative: covers the last bits of a sum of any number of groups that fits in memory.
MARGIN_EXPONENT = -100


def grouped_gaussian_epsilon(clips, sigmas, delta):
    """Smallest epsilon (nats) of the grouped Gaussian mechanism at ``delta``, rounded up.

    :param clips: l2 sensitivity C_g of each group under the relation that is claimed.
    :param sigmas: standard deviation of the noise on each coordinate of the group, in the unit of its C_g.
    :param delta: strictly between 0 and 1.
    :raises InvalidScale, InvalidDelta: one sentence on what is wrong.
    """
    return gaussian_epsilon(grouped_noise_multiplier(clips, sigmas), delta)


def grouped_noise_multiplier(clips, sigmas):
    """1 / mu, rounded down: sigma over sensitivity of the one Gaussian mechanism with the same guarantee.

    Parameters as in ``grouped_gaussian_epsilon``.

    :raises InvalidScale: when a value is not finite and greater than 0, or their numbers differ or are 0.
    """
    clips = [check_scale("clips", clip) for clip in clips]
    sigmas = [check_scale("sigmas", sigma) for sigma in sigmas]
    if not clips:
        raise InvalidScale("clips is empty but must have one value per group, at least one.")
    if len(clips) != len(sigmas):
        raise InvalidScale(f"sigmas has {len(sigmas)} values but must have one per group, {len(clips)}.")
    context = high_precision(PRECISION_BITS)
    squared_mu = context.fsum((context.mpf(clip) / sigma) ** 2 for clip, sigma in zip(clips, sigmas))
    return float_below((1 - context.mpf(2) ** MARGIN_EXPONENT) / context.sqrt(squared_mu))
