"""Secure sum: each client adds a share of the noise, and the sum is all that server and clients see.

Of n clients up to t are *tolerated*: those that drop out, and those whose shares an observer knows. t is at least 1,
since every client sees the sum and knows its own share. Each adds variance sigma^2 C^2 / (n - t) (C the clip, sigma the
noise multiplier), so the shares that an observer does not know have the target's variance together as long as n - t of
those arrive (``least_arrivals`` counts the known ones too). Every guarantee is stated at n - t; when all arrive, the
sum carries n / (n - t) times that variance.

**Grid.** Clients round to a grid, in units of which (*steps*) noise is a whole number, and add modulo a large number,
which is post-processing. Rounding adds at most sqrt(d) steps to the l2 norm of what a unit contributes in d
coordinates.

**A sum of discrete Gaussians is not one.** P. Kairouz, Z. Liu and T. Steinke, "The distributed discrete Gaussian
mechanism for federated learning with secure aggregation", ICML 2021, arXiv 2102.06387, measure the difference for m
shares of s steps each by tau = 10 sum_{k=1}^{m-1} exp(-2 pi^2 s^2 k / (k + 1)): the log-ratio of the two laws is at
most tau / 2 in one coordinate (from their bound 5 exp(-2 pi^2 / (1 / s^2 + 1 / r^2)) on adding one of scale s to one of
scale r). Two laws with a log-ratio within x have total-variation distance at most tanh(x / 2) <= x / 2: here tau / 4.
An independent proof of tau / 4, for s >= 1/2: with r^2 = k s^2 and v^2 = s^2 k / (k + 1), P(X + Y = z) is
proportional to exp(-z^2 / (2 (s^2 + r^2))) times the sum over whole x of exp(-(x - z s^2 / (s^2 + r^2))^2 / (2 v^2)),
which by Poisson's summation formula is within 1 +- theta of a constant, theta = 2 sum_{j >= 1} exp(-2 pi^2 v^2 j^2).
So the law has a density within [1 - theta, 1 + theta], up to a constant, with respect to the discrete Gaussian of
variance s^2 + r^2, hence a distance of at most theta / (2 (1 - theta)); as v^2 >= 1/8 that is below 2.5 exp(-2 pi^2
v^2). Adding the shares one by one adds these distances up.
"""
import math
from dataclasses import dataclass
from typing import Optional

from fate_dp.privacy import events
from fate_dp.privacy.number_kinds import is_finite, is_whole

LEAST_STEPS = 0.5
# More than the rounding of the few operations behind a number.
ROUND_UP, ROUND_DOWN = 1 + 2.0**-46, 1 - 2.0**-46
# More than every term that underflows to 0.
UNDERFLOW = 1e-300


class InvalidSecureSum(ValueError):
    """The configuration of a secure sum is outside its range."""


class TooFewArrived(ValueError):
    """Fewer clients arrived than the noise was planned for: the round must be aborted before the sum is opened."""


@dataclass(frozen=True)
class SecureSum:
    """Public configuration of the rounds of a secure sum.

    :param noise_multiplier: sigma over the clip that the shares of ``clients - tolerated`` clients have together.
    :param clients: n, the clients that are asked for a share.
    :param tolerated: t, drop-outs and clients whose shares one observer knows, together; from 1 to n - 1.
    :param dimension: d, the number of coordinates of the sum.
    :param share_sigma_in_steps: standard deviation of one client's share in steps of the grid, at least 1/2.
    :param colluding: how many of the tolerated are clients whose shares an observer knows; an observing client counts
        itself, so at least 1. The rest, ``tolerated - colluding``, may drop out.
    """

    noise_multiplier: float
    clients: int
    tolerated: int
    dimension: int
    share_sigma_in_steps: float
    colluding: int = 1

    def __post_init__(self):
        _check_positive("noise_multiplier", self.noise_multiplier)
        _check_clients(self.clients, self.tolerated)
        _check_whole("dimension", self.dimension, 1)
        _check_positive("share_sigma_in_steps", self.share_sigma_in_steps)
        if self.share_sigma_in_steps < LEAST_STEPS:
            raise InvalidSecureSum(
                f"share_sigma_in_steps is {self.share_sigma_in_steps!r} but must be at least {LEAST_STEPS}."
            )
        _check_whole("colluding", self.colluding, 1)
        if self.colluding > self.tolerated:
            raise InvalidSecureSum(f"colluding is {self.colluding} but must be at most tolerated, {self.tolerated}.")

    @property
    def unknown_shares(self):
        """n - t, the shares on which the guarantee stands."""
        return self.clients - self.tolerated

    @property
    def least_arrivals(self):
        """n - t + the number of colluding clients: with fewer, less noise than planned is unknown to them."""
        return self.unknown_shares + self.colluding

    @property
    def sum_sigma_in_steps(self):
        """Standard deviation, in steps, of the noise on which the guarantee stands."""
        return math.sqrt(self.unknown_shares) * self.share_sigma_in_steps


def noise_share_sigma(noise_multiplier, clip, clients, tolerated):
    """Standard deviation of the noise that each client adds: noise_multiplier clip / sqrt(n - t), rounded up.

    In the unit of ``clip``, the largest l2 norm of one unit's contribution.

    :raises InvalidSecureSum: unless noise_multiplier and clip are positive and 1 <= tolerated < clients.
    """
    target = _check_positive("noise_multiplier", noise_multiplier) * _check_positive("clip", clip)
    return target / math.sqrt(_check_clients(clients, tolerated)) * ROUND_UP


def check_arrivals(configuration, arrived):
    """Return ``arrived``, the number of clients whose shares are in the sum, if the sum may be opened.

    :raises TooFewArrived: when it is below ``configuration.least_arrivals``.
    """
    _check_whole("arrived", arrived, 0)
    if arrived > configuration.clients:
        raise InvalidSecureSum(
            f"arrived is {arrived} but must be at most the number of clients, {configuration.clients}."
        )
    if arrived < configuration.least_arrivals:
        raise TooFewArrived(
            f"arrived is {arrived} but must be at least {configuration.least_arrivals} of {configuration.clients} "
            "clients: the round is aborted, since its sum would carry less noise than was promised."
        )
    return arrived


def summed_discrete_gaussian_slack(share_sigma_in_steps, shares, dimension):
    """Bound, for ``Event.slack``, on the total-variation distance of a sum of discrete Gaussians from a single one.

    ``dimension`` times tau / 4, at most 1, with tau of the module's text; the single one has variance ``shares`` times
    ``share_sigma_in_steps`` squared.
    """
    variance = _check_positive("share_sigma_in_steps", share_sigma_in_steps) ** 2
    if variance < LEAST_STEPS**2:
        raise InvalidSecureSum(f"share_sigma_in_steps is {share_sigma_in_steps!r} but must be at least {LEAST_STEPS}.")
    added = _check_whole("shares", shares, 1) - 1
    if added == 0:
        return 0.0
    return min(1.0, _check_whole("dimension", dimension, 1) * (_tau(variance, added) / 4 + UNDERFLOW) * ROUND_UP)


def effective_noise_multiplier(configuration):
    """Sigma over the clip when a unit's contribution is up to sqrt(d) steps longer than the clip; rounded down.

    The mechanism need not have included the grid in its clip; where it has, this counts it twice, harmlessly.
    """
    sigma = configuration.sum_sigma_in_steps
    clip = sigma / configuration.noise_multiplier
    return sigma / (clip + math.sqrt(configuration.dimension)) * ROUND_DOWN


def secure_sum_event(
    configuration, unit, relation, sampling_probability: Optional[float] = None, observers=("client", "server")
):
    """What one round of a secure sum costs, against the server and every client, as an event with slack.

    The guarantee holds when ``check_arrivals`` passed. The noise is charged as continuous: the slack holds, for every
    coordinate, the distance of the sum of shares from one discrete Gaussian and that of this from a rounded one. The
    error of the sampler of the shares is not included; add it where it is not 0.

    :param unit: whose whole contribution is clipped: ``client`` or ``record``.
    :param sampling_probability: of each unit, by a coin of its own that stays secret; None when all take part.
    :param observers: who sees the sum; add ``model`` where what was computed from it is published.
    """
    from fate_dp.privacy.noise.rounded_noise import rounded_gaussian_slack

    shares, dimension = configuration.unknown_shares, configuration.dimension
    multiplier = effective_noise_multiplier(configuration)
    slack = summed_discrete_gaussian_slack(configuration.share_sigma_in_steps, shares, dimension)
    slack += dimension * rounded_gaussian_slack(configuration.sum_sigma_in_steps * ROUND_DOWN)
    if sampling_probability is None:
        process = events.Gaussian(multiplier / events.clips_moved(relation))
    else:
        process = events.PoissonSampledGaussian(sampling_probability, multiplier)
    return events.Event(process, unit, relation, observers, slack=min(1.0, slack * ROUND_UP))


def _tau(variance, added):
    """10 sum over k = 1 .. added of exp(-2 pi^2 variance k / (k + 1)), each of the terms rounded up."""
    import numpy as np

    exponents = 2 * math.pi**2 * variance * np.arange(1, added + 1) / np.arange(2, added + 2)
    # An exponent's rounding error grows with it, and with it the relative error of its term.
    return 10 * float(np.exp(-exponents * (1 - 1e-15)).sum()) * (1 + 1e-15 * added)


def _check_clients(clients, tolerated):
    _check_whole("clients", clients, 2)
    _check_whole("tolerated", tolerated, 1)
    if tolerated >= clients:
        raise InvalidSecureSum(f"tolerated is {tolerated} but must be less than the number of clients, {clients}.")
    return clients - tolerated


def _check_whole(name, value, least):
    if not is_whole(value) or value < least:
        raise InvalidSecureSum(f"{name} is {value!r} but must be a whole number of at least {least}.")
    return int(value)


def _check_positive(name, value):
    if not is_finite(value) or value <= 0:
        raise InvalidSecureSum(f"{name} is {value!r} but must be a finite number greater than 0.")
    return float(value)
