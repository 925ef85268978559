"""What it costs to charge discrete noise on a grid as continuous noise to which one rounds afterwards.

Floating-point noise betrays its input in the low bits (Mironov, CCS 2012), so mechanisms round the query to whole steps
of a grid and add integer noise. Discrete noise is not continuous noise. The functions here bound the total-variation
distance between the two, per coordinate; since rounding is post-processing, an event of the continuous mechanism may be
emitted with these distances as its slack. What rounding the query costs in sensitivity is for the mechanism to add.
"""
import math

from fate_dp.privacy.noise.discrete_gaussian import discrete_gaussian_slack
from fate_dp.privacy.noise.symmetric import check_scale

# One bound of the Gaussian slack's proof: 1 / (4 sqrt(2 pi e)) = 0.06049...
MIDPOINT_CONSTANT = 0.0605
ROUND_UP = 1 + 2.0**-40


def gaussian_slack(sigma, dimension):
    """Bound on the distance of ``dimension`` discrete Gaussians from as many rounded N(0, sigma^2); at most 1.

    :param sigma: in steps of the grid, from 2^-50 to 2^50.
    """
    return min(1.0, dimension * (discrete_gaussian_slack(sigma) + rounded_gaussian_slack(sigma)))


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
