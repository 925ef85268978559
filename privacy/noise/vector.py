"""Noise on real vectors without floating-point leaks: round to a grid, add integer noise, turn back into floats.

The caller adds ``grid.l2_rounding`` or ``grid.l1_rounding`` to the sensitivity it calibrates against, and puts the
slack of this module into ``Event.slack`` when it emits an event of the continuous mechanism. Noise from a stream that
is not ``private`` must be recorded as not private.
"""
from fate_dp.privacy.noise.discrete_gaussian import discrete_gaussian, discrete_gaussian_slack
from fate_dp.privacy.noise.discrete_laplace import discrete_laplace, discrete_laplace_slack
from fate_dp.privacy.noise.grid import (
    check_dimension,
    check_grid,
    from_grid,
    rounded_gaussian_slack,
    rounded_laplace_slack,
    to_grid,
)


def add_gaussian(values, sigma, grid, random=None):
    """Values rounded to the grid, plus independent discrete Gaussian noise, as float64 multiples of the grid.

    :param values: real numbers, an array of any shape.
    :param sigma: scale of the noise in the unit of the values.
    :param grid: a power of two in the unit of the values, see ``choose_grid``.
    :param random: a stream; None for the operating system's entropy.
    :raises InvalidValues, InvalidGrid, InvalidScale, InvalidRandomness: one sentence on what is wrong.
    """
    steps = to_grid(values, grid)
    return from_grid(steps + discrete_gaussian(sigma / grid, steps.shape, random), grid)


def add_laplace(values, scale, grid, random=None):
    """Values rounded to the grid, plus independent discrete Laplace noise; parameters as in ``add_gaussian``."""
    steps = to_grid(values, grid)
    return from_grid(steps + discrete_laplace(scale / grid, steps.shape, random), grid)


def gaussian_slack(sigma, grid, dimension):
    """Bound on the total-variation distance of one ``add_gaussian`` from adding N(0, sigma^2) before the rounding.

    It is ``dimension`` times the sum of the sampler's and the grid's slack per coordinate, at most 1. Over several
    releases the slacks add up.
    """
    sigma = sigma / check_grid(grid)
    return min(1.0, check_dimension(dimension) * (discrete_gaussian_slack(sigma) + rounded_gaussian_slack(sigma)))


def laplace_slack(scale, grid, dimension):
    """Bound on the total-variation distance of one ``add_laplace`` from adding Laplace noise before the rounding."""
    scale = scale / check_grid(grid)
    return min(1.0, check_dimension(dimension) * (discrete_laplace_slack(scale) + rounded_laplace_slack(scale)))
