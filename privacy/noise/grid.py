"""The grid on which noise is added to real numbers: rounding to it, and what the rounding costs.

Floating-point noise betrays its input in the low bits (Mironov, CCS 2012). So a vector is first rounded to whole
multiples of ``grid``, a power of two; integer noise is added; and the sum is turned back into floats, which is
post-processing. Two costs arise, and both are charged:

- **sensitivity**: rounding moves every coordinate by up to grid / 2, so two neighbouring sums, rounded, differ by up to
  sqrt(d) grid more in l2 norm and d grid more in l1 norm. This covers the rounding to the grid only: that the float sum
  itself depends on the order and number of its terms is not covered. Rounding every record's clipped contribution to
  the grid and adding integers avoids that question;
- **slack**: discrete noise is not continuous noise. ``rounded_gaussian_slack`` and ``rounded_laplace_slack`` bound the
  total-variation distance, per coordinate, to continuous noise that is added before one rounds to the grid. Since
  rounding is post-processing, an event of the continuous mechanism may be emitted with the slacks added.
"""
import math
from numbers import Integral, Real

import numpy as np

from fate_dp.privacy.noise.symmetric import LARGEST_SCALE, check_scale

CLIP_BITS = 30
SCALE_BITS = 40
# Noise stays below 2^61 steps, so that the sum with a rounded value fits into int64.
LARGEST_STEPS = 2.0**62
SMALLEST_GRID, LARGEST_GRID = 2.0**-900, 2.0**900
# One bound of the Gaussian slack's proof: 1 / (4 sqrt(2 pi e)) = 0.06049...
MIDPOINT_CONSTANT = 0.0605
ROUND_UP = 1 + 2.0**-40


class InvalidGrid(ValueError):
    """The spacing of a grid is no power of two, or none fits the scale of noise and the clip."""


class InvalidValues(ValueError):
    """Values cannot be rounded to the grid."""


def choose_grid(scale, clip):
    """A power of two, at most 2^-30 of the clip and at most 2^-40 of the noise's scale, from these public numbers.

    :param scale: sigma of Gaussian or scale of Laplace noise, in the unit of the values.
    :param clip: largest norm of one contribution, in the unit of the values.
    :raises InvalidGrid: when a number is not positive, or the scale is more than about 2^19 times the clip.
    """
    for name, value in (("scale", scale), ("clip", clip)):
        if not _is_real(value) or not SMALLEST_GRID <= value <= LARGEST_GRID:
            raise InvalidGrid(f"{name} is {value!r} but must be a number from 2^-900 to 2^900.")
    exponent = min(math.frexp(clip)[1] - 1 - CLIP_BITS, math.frexp(scale)[1] - 1 - SCALE_BITS)
    grid = check_grid(math.ldexp(1.0, exponent))
    if scale / grid > LARGEST_SCALE:
        raise InvalidGrid(f"scale is {scale!r} but must be at most {LARGEST_SCALE * grid!r} for the clip {clip!r}.")
    return grid


def check_grid(grid):
    """Return ``grid`` as a float; raise ``InvalidGrid`` unless it is a power of two from 2^-900 to 2^900."""
    if not _is_real(grid) or not SMALLEST_GRID <= grid <= LARGEST_GRID or math.frexp(grid)[0] != 0.5:
        raise InvalidGrid(f"grid is {grid!r} but must be a power of two from 2^-900 to 2^900.")
    return float(grid)


def to_grid(values, grid):
    """The nearest whole multiples of ``grid`` as an int64 array: values / grid, rounded; a tie goes to the even one.

    :raises InvalidGrid: when ``grid`` is no power of two.
    :raises InvalidValues: when a value is not finite or is more than 2^62 steps from 0.
    """
    values, grid = np.asarray(values), check_grid(grid)
    if values.dtype.kind not in "fiu":
        raise InvalidValues(f"values is of type {values.dtype} but must be an array of real numbers.")
    with np.errstate(over="ignore"):
        steps = np.rint(values.astype(np.float64) / grid)
    # NaN fails this comparison too.
    if not (np.abs(steps) <= LARGEST_STEPS).all():
        largest = LARGEST_STEPS * grid
        raise InvalidValues(f"values holds a number that is not finite or is above {largest:g}, 2^62 steps.")
    return steps.astype(np.int64)


def from_grid(steps, grid):
    """Multiples of ``grid`` as float64: exact up to 2^53 steps, beyond rounded, which is post-processing."""
    return np.asarray(steps) * check_grid(grid)


def l2_rounding(dimension, grid):
    """What rounding to the grid adds to the l2 sensitivity of a sum of ``dimension`` coordinates: sqrt(d) grid."""
    return math.sqrt(check_dimension(dimension)) * check_grid(grid) * ROUND_UP


def l1_rounding(dimension, grid):
    """What rounding to the grid adds to the l1 sensitivity of a sum of ``dimension`` coordinates: d grid."""
    return check_dimension(dimension) * check_grid(grid) * ROUND_UP


def rounded_gaussian_slack(sigma):
    """Bound on the total-variation distance of the discrete Gaussian from a rounded N(0, sigma^2), one coordinate.

    The bound is 0.0605 / sigma^2 + r / (1 - r^3) with r = exp(-2 pi^2 sigma^2), at most 1; ``sigma`` in steps. Proof.
    Let f be the density of N(0, sigma^2), q(x) its integral over [x - 1/2, x + 1/2], and S the sum of f over the
    integers, so that the discrete Gaussian is f(x) / S. Then:

    - by Poisson's summation formula S = 1 + eta with eta = 2 sum_m exp(-2 pi^2 sigma^2 m^2) over m >= 1, and as
      m^2 >= 1 + 3 (m - 1), eta <= 2 r / (1 - r^3). The sum of |f(x) / S - f(x)| is (1 - 1 / S) S = eta;
    - by Taylor's formula q(x) - f(x) is the integral of K(u) f''(x + u) over |u| <= 1/2 with
      K(u) = (1/2 - |u|)^2 / 2 <= 1/8. So the sum of |q(x) - f(x)| is at most 1/8 of the integral of |f''|, which is
      4 |f'(sigma)| = 4 / (sigma^2 sqrt(2 pi e)) < 0.9680 / sigma^2.

    The distance is half the sum of |q(x) - f(x) / S|.

    :raises InvalidScale: unless sigma is a number from 2^-50 to 2^50.
    """
    sigma = check_scale("sigma", sigma)
    midpoint = MIDPOINT_CONSTANT / sigma**2
    if midpoint >= 1:
        return 1.0
    first = math.exp(-2 * math.pi**2 * sigma**2)
    return min(1.0, (midpoint + first / (1 - first**3)) * ROUND_UP)


def rounded_laplace_slack(scale):
    """Bound on the total-variation distance of discrete Laplace noise from rounded Laplace noise, one coordinate.

    The bound is h^2 / 2 with h = 1 / (2 scale), at most 1; ``scale`` in steps. Proof. The discrete law is
    tanh(h) exp(-2 h |x|). The rounded law is 1 - exp(-h) at 0 and sinh(h) exp(-2 h |x|) elsewhere, larger than the
    discrete one by the factor cosh(h) at every x but 0. So the distance is the difference at 0, which is
    tanh(h) + exp(-h) - 1 <= h + (1 - h + h^2 / 2) - 1.

    A mechanism on integers need not pay this: discrete Laplace noise is by itself (sensitivity / scale)-private.

    :raises InvalidScale: unless the scale is a number from 2^-50 to 2^50.
    """
    return min(1.0, 0.125 / check_scale("scale", scale) ** 2 * ROUND_UP)


def check_dimension(dimension):
    if not isinstance(dimension, Integral) or isinstance(dimension, bool) or dimension < 0:
        raise InvalidGrid(f"dimension is {dimension!r} but must be a whole number of at least 0.")
    return int(dimension)


def _is_real(value):
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
