"""The accountant of privacy loss distributions: tight, for every mechanism with a proved dominating pair.

Each release is turned into a distribution of losses on a grid by connecting the dots of its privacy profile
(``privacy_profiles``; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, PETS 2022, algorithm 1), which never lowers a
delta, and the distributions are convolved by dp-accounting with tails moved to infinite loss. Unsampled Gaussian
releases are added up first and, on their own, answered exactly, without a grid. Epsilon is in nats.

The grid has about ``GRID_POINTS`` points over the composed loss, and at most ``SINGLE_POINTS`` over one release.

Floating point: the Fourier transform's rounding is met by an allowance of ``ROUNDING`` per release, added to delta. It
is larger than every error that was seen, not a proved bound: ``tests/unit/test_accountant.py`` compares with exact
answers from both sides down to delta 1e-12. Deltas below about 1e-15, or below the allowance, have no finite epsilon.
More than ``MOST_RELEASES`` have none either: ``total_epsilon`` asks the rdp accountant then.
"""
import math
from functools import partial, reduce

import numpy as np

from fate_dp.privacy.accounting.accountant import Accountant
from fate_dp.privacy.accounting.analytic_gaussian import gaussian_delta, gaussian_epsilon
from fate_dp.privacy.accounting.gaussian_part import split_gaussian, squared_mu
from fate_dp.privacy.accounting.privacy_profiles import HAS_PROFILE, LARGEST_MU, gaussian_profile, profiles

GRID_POINTS = 2**17
SINGLE_POINTS = 2**15
COARSE_POINTS = 2**11
# The composed loss is taken to spread over this many standard deviations; beyond, dp-accounting's bounds take over.
DEVIATIONS = 24
ROUNDING = 2.0**-53
# Beyond, dp-accounting's convolutions outgrow the memory, and the grid is too coarse for one release. Unsampled
# Gaussian releases do not count.
MOST_RELEASES = 2_000_000
# In nats, per release: on a finer grid the rounding of deltas near 1 would make the masses of all releases together
# exceed 1 by far, up to what no float can hold.
LEAST_INTERVAL = 1e-14
# In nats; losses that would need a wider grid get no finite epsilon.
WIDEST_INTERVAL = 1.0


class PLDAccountant(Accountant):
    """Privacy loss distributions; see the module."""

    kind = "pld"

    def _reason_against(self, event):
        if squared_mu(event.process, self.relation) is not None or type(event.process) in HAS_PROFILE:
            return None
        return f"The pld accountant knows no dominating pair for {event.mechanism} under {self.relation}."

    def _composed_delta(self, epsilon):
        delta_at, _ = self._composition()
        return delta_at(epsilon)

    def _composed_epsilon(self, delta):
        _, epsilon_at = self._composition()
        return epsilon_at(delta)

    def _compose(self):
        """(delta at an epsilon, epsilon at a delta) of everything composed."""
        mu, rest = split_gaussian(self._counts, self.relation)
        if not rest and mu <= LARGEST_MU:
            return partial(gaussian_delta, 1 / mu), partial(gaussian_epsilon, 1 / mu)
        within_reach = mu <= LARGEST_MU and sum(rest.values()) <= MOST_RELEASES
        distribution = _composed_distribution(mu, rest, self.relation) if within_reach else None
        if distribution is None or not math.isfinite(distribution.get_delta_for_epsilon(0.0)):
            return lambda epsilon: 1.0, lambda delta: math.inf
        rounding = ROUNDING * sum(rest.values())

        def epsilon_at(delta):
            return distribution.get_epsilon_for_delta(delta - rounding) if delta > rounding else math.inf

        def delta_at(epsilon):
            # Rounding in the Fourier transform leaves negative probabilities, of which far tails may consist.
            return max(0.0, float(distribution.get_delta_for_epsilon(epsilon))) + rounding

        return delta_at, epsilon_at


def _composed_distribution(mu, rest, relation):
    """dp-accounting's distribution of a Gaussian mechanism and the releases counted in ``rest``, whatever their order.

    None where the losses are too wide for a grid: more than ``WIDEST_INTERVAL`` nats from one point to the next.
    """
    parts = [(profiles(process, relation), rest[process]) for process in sorted(rest, key=repr)]
    if mu:
        parts.append(((gaussian_profile(mu),), 1))
    interval = _grid_interval(parts)
    if not interval <= WIDEST_INTERVAL:
        return None
    return reduce(
        lambda composed, part: composed.compose(part),
        (_distribution(pair, interval).self_compose(count) for pair, count in parts),
    )


def _grid_interval(parts):
    """Width of the loss grid: fine, but coarser where the composed loss is wide or many different releases meet."""
    widest = max(profile.highest - profile.lowest for pair, _ in parts for profile in pair)
    if not widest <= WIDEST_INTERVAL * SINGLE_POINTS:
        return math.inf
    largest = sum(count * max(profile.highest - profile.lowest for profile in pair) for pair, count in parts)
    variance = sum(count * max(map(_loss_variance, pair)) for pair, count in parts)
    spread = min(largest, DEVIATIONS * math.sqrt(variance))
    interval = max(spread / GRID_POINTS, widest / SINGLE_POINTS) * math.sqrt(len(parts))
    least = LEAST_INTERVAL * sum(count for _, count in parts)
    if interval <= least:
        return least
    # Randomised response loses nothing to the grid when its two losses lie on it.
    largest_loss = parts[0][0][0].highest
    return largest_loss / math.ceil(largest_loss / interval)


def _loss_variance(profile):
    interval = (profile.highest - profile.lowest) / COARSE_POINTS
    losses = profile.lowest + np.arange(-1, COARSE_POINTS + 2) * interval
    falls = np.diff(profile.delta(losses))
    masses = np.maximum((falls[1:] - math.exp(interval) * falls[:-1]) / math.expm1(interval), 0)
    return np.dot(masses, losses[1:-1] ** 2)


def _distribution(pair, interval):
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    return PrivacyLossDistribution(*(_connect_dots(profile, interval) for profile in pair))


def _connect_dots(profile, interval):
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap

    first, last = math.floor(profile.lowest / interval), math.ceil(profile.highest / interval)
    deltas = np.clip(profile.delta(np.arange(first, last + 1) * interval), 0, 1)
    # A profile never grows; where rounding says otherwise the larger value is the safe one.
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]
    return create_pmf_pessimistic_connect_dots_fixed_gap(interval, first, last, deltas)
