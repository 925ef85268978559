"""Secure sum: each client adds a share of the noise, and the sum is all that server and clients see.

Of n clients up to t are *tolerated*: those that drop out, and those whose shares an observer knows. t is at least 1,
since every client sees the sum and knows its own share. Each adds variance sigma^2 C^2 / (n - t) (C the clip, sigma the
noise multiplier), so the shares that an observer does not know have the target's variance together as long as n - t of
those arrive. Every guarantee is stated at n - t; when all arrive, the sum carries n / (n - t) times that variance.

Clients round to a grid, in units of which (*steps*) noise is a whole number, and add modulo a large number, which is
post-processing. Rounding adds at most sqrt(d) steps to the l2 norm of a contribution in d coordinates. A sum of m
discrete Gaussians of s steps each is within total variation tau / 4 of one, tau = 10 sum_{k=1}^{m-1} exp(-2 pi^2 s^2 k
/ (k + 1)) (P. Kairouz, Z. Liu and T. Steinke, ICML 2021, arXiv 2102.06387; docs/proofs-privacy.md has the step to total
variation, and a proof of its own).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import events
from ..noise.discrete import rounded_gaussian_slack
from ..validation import InvalidArgument, positive, refusal, whole

MIN_STEPS = 0.5
# More than the rounding of the few operations behind a number.
ROUND_UP, ROUND_DOWN = 1 + 2.0**-46, 1 - 2.0**-46
# More than every term that underflows to 0.
UNDERFLOW = 1e-300


class TooFewArrived(ValueError):
    """Fewer clients arrived than the noise was planned for: the round must be aborted before the sum is opened."""


@dataclass(frozen=True)
class SecureSum:
    """Public configuration of the rounds of a secure sum.

    Args:
        noise_multiplier: sigma over the clip that the shares of ``clients - max_dropouts`` clients have together.
        clients: n, the clients that are asked for a share.
        max_dropouts: t, drop-outs and clients whose shares one observer knows, together; from 1 to n - 1.
        dimension: d, the number of coordinates of the sum.
        share_sigma_in_steps: standard deviation of one client's share in steps of the grid, at least 1/2.
        colluding: how many of the tolerated are clients whose shares an observer knows; an observing client counts
            itself, so at least 1. The rest, ``max_dropouts - colluding``, may drop out.
    """

    noise_multiplier: float
    clients: int
    max_dropouts: int
    dimension: int
    share_sigma_in_steps: float
    colluding: int = 1

    def __post_init__(self) -> None:
        positive("noise_multiplier", self.noise_multiplier)
        _check_clients(self.clients, self.max_dropouts)
        whole("dimension", self.dimension, 1)
        _check_steps(self.share_sigma_in_steps)
        whole("colluding", self.colluding, 1)
        if self.colluding > self.max_dropouts:
            raise InvalidArgument.of("colluding", self.colluding, f"at most max_dropouts, {self.max_dropouts}")

    @property
    def unknown_shares(self) -> int:
        """n - t, the shares on which the guarantee stands."""
        return self.clients - self.max_dropouts

    @property
    def least_arrivals(self) -> int:
        """n - t + the number of colluding clients: with fewer, less noise than planned is unknown to them."""
        return self.unknown_shares + self.colluding

    @property
    def sum_sigma_in_steps(self) -> float:
        """Standard deviation, in steps, of the noise on which the guarantee stands."""
        return math.sqrt(self.unknown_shares) * self.share_sigma_in_steps


def noise_share_sigma(noise_multiplier: float, clip: float, clients: int, max_dropouts: int) -> float:
    """Standard deviation of the noise that each client adds: noise_multiplier clip / sqrt(n - t), rounded up.

    In the unit of ``clip``, the largest l2 norm of one unit's contribution.
    """
    target = positive("noise_multiplier", noise_multiplier) * positive("clip", clip)
    return target / math.sqrt(_check_clients(clients, max_dropouts)) * ROUND_UP


def check_arrivals(configuration: SecureSum, arrived: int) -> int:
    """Return how many clients' shares are in the sum, if it may be opened; TooFewArrived below
    ``configuration.least_arrivals``."""
    clients = configuration.clients
    if whole("arrived", arrived, 0) > clients:
        raise InvalidArgument.of("arrived", arrived, f"at most the number of clients, {clients}")
    if arrived < configuration.least_arrivals:
        wanted = f"at least {configuration.least_arrivals} of {configuration.clients} clients"
        aborted = "The round is aborted, since its sum would carry less noise than was promised."
        raise TooFewArrived(refusal("arrived", arrived, wanted, aborted))
    return arrived


def summed_discrete_gaussian_slack(share_sigma_in_steps: float, shares: int, dimension: int) -> float:
    """Bound, for ``Event.slack``, on the total-variation distance of a sum of discrete Gaussians from a single one.

    ``dimension`` times tau / 4, at most 1, with tau of the module's text; its variance is ``shares`` times that of a
    share.
    """
    variance = _check_steps(share_sigma_in_steps) ** 2
    added = whole("shares", shares, 1) - 1
    if added == 0:
        return 0.0
    exponents = 2 * math.pi**2 * variance * np.arange(1, added + 1) / np.arange(2, added + 2)
    # An exponent's rounding error grows with it, and with it the relative error of its term.
    tau = 10 * float(np.exp(-exponents * (1 - 1e-15)).sum()) * (1 + 1e-15 * added)
    return min(1.0, whole("dimension", dimension, 1) * (tau / 4 + UNDERFLOW) * ROUND_UP)


def effective_noise_multiplier(configuration: SecureSum) -> float:
    """Sigma over the clip when a unit's contribution is up to sqrt(d) steps longer than the clip; rounded down.

    The mechanism need not have included the grid in its clip; where it has, this counts it twice, harmlessly.
    """
    sigma = configuration.sum_sigma_in_steps
    clip = sigma / configuration.noise_multiplier
    return sigma / (clip + math.sqrt(configuration.dimension)) * ROUND_DOWN


def secure_sum_event(
    configuration: SecureSum,
    unit: str,
    relation: str,
    sampling_probability: float | None = None,
    observers: Sequence[str] = ("client", "server"),
) -> events.Event:
    """What one round of a secure sum costs, against the server and every client, as an event with slack.

    The guarantee holds when ``check_arrivals`` passed. The noise is charged as continuous: the slack holds, for every
    coordinate, the distance of the sum of shares from one discrete Gaussian and that of this from a rounded one; add
    the error of the sampler of the shares where it is not 0. The whole contribution of a ``unit``, ``client`` or
    ``record``, is clipped. ``sampling_probability`` is of each unit, by a coin of its own that stays secret; None when
    all take part. Add ``model`` to the ``observers`` where what was computed from the sum is published.
    """
    shares, dimension = configuration.unknown_shares, configuration.dimension
    multiplier = effective_noise_multiplier(configuration)
    slack = summed_discrete_gaussian_slack(configuration.share_sigma_in_steps, shares, dimension)
    slack += dimension * rounded_gaussian_slack(configuration.sum_sigma_in_steps * ROUND_DOWN)
    process: events.Process
    if sampling_probability is None:
        process = events.Gaussian(multiplier / events.clips_moved(relation))
    else:
        process = events.PoissonSampledGaussian(sampling_probability, multiplier)
    return events.Event(process, unit, relation, observers, slack=min(1.0, slack * ROUND_UP))


def _check_clients(clients: object, max_dropouts: object) -> int:
    """Return n - t if 1 <= t < n."""
    asked, missing = whole("clients", clients, 2), whole("max_dropouts", max_dropouts, 1)
    if missing >= asked:
        raise InvalidArgument.of("max_dropouts", missing, f"less than the number of clients, {asked}")
    return asked - missing


def _check_steps(share_sigma_in_steps: object) -> float:
    steps = positive("share_sigma_in_steps", share_sigma_in_steps)
    if steps < MIN_STEPS:
        raise InvalidArgument.of("share_sigma_in_steps", share_sigma_in_steps, f"at least {MIN_STEPS}")
    return steps
