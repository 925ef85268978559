"""Scales of coordinates from released contributions of groups: less noise where the model looks.

A record's gradient g is divided by the scales s, clipped to ||g / s||_2 <= C, summed, and noise of N(0, sigma^2 C^2) on
every coordinate of the sum is multiplied by s again: coordinate j carries N(0, (sigma C s_j)^2).

**Same guarantee as uniform noise.** The scales are computed from released numbers and public ones, before the rounds
that use them, so within a round they are constants. The map g -> g / s is then a fixed, invertible linear change of
variables: what is released is diag(s) times the Gaussian mechanism on the sum of vectors of norm at most C, and
multiplying by a constant is post-processing, which can be undone. So the event of a round, ``PoissonSampledGaussian``
of multiplier sigma or that of a secure sum, is that of uniform noise, whatever the scales; only the release of the
contributions comes on top.

Scales have geometric mean 1 over the first layer's weights (all groups have equally many) and are 1 elsewhere, so they
do not change the product of all standard deviations, the volume of the noise.
"""
import numpy as np

from fate_dp.components.dp_homo_nn.relevance.first_layer import first_layer
from fate_dp.privacy.adaptive_scales import InvalidScales, adaptive_scales

FALLING, RISING = -0.5, 0.5


def coordinate_scales(module, contributions, power=FALLING):
    """Scales of all coordinates: max(beta_g, 1 / (4 G))^power over its geometric mean on group g, 1 elsewhere.

    Post-processing of the released contributions.

    :param module: the model; only its shapes are read.
    :param contributions: the G released mean contributions beta, in the order of ``first_layer``.
    :param power: -1/2 falls with the contribution, 1/2 is the opposite direction.
    :returns: float64 array (d,), positive, in the order of the flat weights.
    :raises InvalidScales: unless there is one finite contribution per group.
    """
    groups = first_layer(module)
    if np.shape(contributions) != (groups.groups,):
        raise InvalidScales(
            f"contributions have shape {np.shape(contributions)} but must be one per group, {groups.groups}."
        )
    return groups.expanded(adaptive_scales(contributions, power))
