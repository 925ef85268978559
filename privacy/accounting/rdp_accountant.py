"""The accountant of Renyi differential privacy: looser than privacy loss distributions, quick, and without a grid.

The Renyi divergences of all releases add up order by order (Mironov, "Renyi differential privacy", CSF 2017,
proposition 1) and the best order is converted to (epsilon, delta) by dp-accounting (Canonne, Kamath and Steinke 2020,
proposition 12). Epsilon is in nats. The orders are those of Opacus and a few higher ones for small epsilon.

Poisson-sampled Gaussian noise: Mironov, Talwar and Zhang 2019, under add-or-remove; from there to replace-one by way of
the data without the record, see ``_poisson_replace_one``. Fixed-size samples: Wang, Balle and Kasiviswanathan,
AISTATS 2019, theorem 27, under replace-one. The rest are closed forms, see the functions.
"""
import logging
import math
from contextlib import contextmanager

import numpy as np

from fate_dp.privacy import events
from fate_dp.privacy.accounting.accountant import Accountant
from fate_dp.privacy.accounting.gaussian_part import split_gaussian, squared_mu

ORDERS = np.array(
    [1 + tenths / 10 for tenths in range(1, 100)] + list(range(12, 64)) + [64, 80, 96]
    + [2**power for power in range(7, 14)]
)
# dp-accounting's sums of up to 16385 terms in log space: relative error, and absolute error in units of the order.
RELATIVE_ROUNDING = 1e-11
ABSOLUTE_ROUNDING = 1e-15
# dp-accounting takes the logarithm of 1 - e^-divergence.
LEAST_DIVERGENCE = 1e-14
# With less noise dp-accounting's terms overflow; no finite divergence is claimed there.
LEAST_NOISE = 1e-3
# With more noise on a sample of fixed size dp-accounting takes the logarithm of 0; less noise never costs less.
MOST_NOISE = 1e6


class RDPAccountant(Accountant):
    """Renyi differential privacy; see the module."""

    kind = "rdp"

    def _reason_against(self, event):
        if squared_mu(event.process, self.relation) is not None or type(event.process) in DIVERGENCES:
            return None
        return f"The rdp accountant knows no bound for {event.mechanism} under {self.relation}."

    def _composed_delta(self, epsilon):
        from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

        return float(compute_delta(ORDERS, self._composition(), epsilon)[0])

    def _composed_epsilon(self, delta):
        from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

        return float(compute_epsilon(ORDERS, self._composition(), delta)[0])

    def _compose(self):
        """The Renyi divergence of everything composed, at each of ``ORDERS``."""
        mu, rest = split_gaussian(self._counts, self.relation)
        total = ORDERS * mu**2 / 2
        for process in sorted(rest, key=repr):
            total = total + rest[process] * DIVERGENCES[type(process)](process, self.relation)
        return np.maximum(total * (1 + RELATIVE_ROUNDING), LEAST_DIVERGENCE)


def _randomized_response(process, _):
    """ln(1 + b (1 - e^((1 - a) epsilon)) (e^(a epsilon) - 1)) / (a - 1) at order a; b = P(a given other class)."""
    epsilon = process.epsilon
    log_other = -epsilon - math.log1p((process.classes - 1) * math.exp(-epsilon))
    rising = ORDERS * epsilon + np.log(-np.expm1(-ORDERS * epsilon))
    excess = log_other + np.log(-np.expm1((1 - ORDERS) * epsilon)) + rising
    return np.logaddexp(0, excess) / (ORDERS - 1)


def _pure(process, relation):
    """Binary randomised response of the same epsilon, which dominates (Kairouz, Oh and Viswanath 2015)."""
    return _randomized_response(events.RandomizedResponse(process.epsilon, 2), relation)


def _shuffled(process, relation):
    """As if nothing had been shuffled: sound, and far from tight."""
    return _pure(events.PureDP(process.epsilon0), relation)


def _exponential_mechanism(process, relation):
    """Bounded range epsilon is (epsilon^2 / 8)-concentrated (Cesar and Rogers, ALT 2021); pure DP for high orders."""
    return np.minimum(ORDERS * process.epsilon**2 / 8, _pure(process, relation))


def _laplace(process, _):
    """Mironov 2017, proposition 6; on vectors one coordinate that moves by the whole sensitivity is worst."""
    from dp_accounting.dp_event import LaplaceDpEvent

    return _library_divergences(LaplaceDpEvent(process.noise_multiplier), "REPLACE_ONE")


def _poisson(process, relation):
    return {events.ADD_OR_REMOVE: _poisson_add_or_remove, events.REPLACE_ONE: _poisson_replace_one}[relation](process)


def _poisson_add_or_remove(process, orders=ORDERS):
    from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent

    if process.noise_multiplier < LEAST_NOISE:
        return np.full(len(orders), math.inf)
    step = PoissonSampledDpEvent(process.sampling_probability, GaussianDpEvent(process.noise_multiplier))
    return _filled(orders, _library_divergences(step, "ADD_OR_REMOVE_ONE", orders))


def _filled(orders, divergences):
    """``divergences`` with those that dp-accounting's series did not find bounded by their neighbours.

    (a - 1) D_a is a convex function of the order a, 0 at 1, so a chord between two orders lies above it.
    """
    found = np.isfinite(divergences)
    if not found.any():
        return divergences
    chord = np.interp(orders, [1, *orders[found]], [0, *((orders - 1) * divergences)[found]], right=math.inf)
    return np.where(found, divergences, chord / (orders - 1))


def _poisson_replace_one(process):
    """Removing the old record, then adding the new one: Mironov 2017, proposition 11 with p = q = 2, at order a

    D_a(P, Q) <= (a - 1/2) / (a - 1) D_2a(P, R) + D_(2a - 1)(R, Q), R being the step without the record. Not tight.
    """
    removed, added = _poisson_add_or_remove(process, 2 * ORDERS), _poisson_add_or_remove(process, 2 * ORDERS - 1)
    return (ORDERS - 0.5) / (ORDERS - 1) * removed + added


def _fixed_size_replace_one(process, _):
    from dp_accounting.dp_event import GaussianDpEvent, SampledWithoutReplacementDpEvent

    if process.noise_multiplier < LEAST_NOISE:
        return np.full(len(ORDERS), math.inf)
    # dp-accounting means sigma over the sensitivity under replace-one here, which is two clips.
    noise = GaussianDpEvent(min(process.noise_multiplier, MOST_NOISE) / events.clips_moved(events.REPLACE_ONE))
    sample = SampledWithoutReplacementDpEvent(process.records, process.batch_size, noise)
    return _library_divergences(sample, "REPLACE_ONE")


def _library_divergences(event, relation, orders=ORDERS):
    """dp-accounting's Renyi divergences of one release at ``orders``, with room for their rounding."""
    from dp_accounting.privacy_accountant import NeighboringRelation
    from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

    with _without_warnings():
        one = RdpAccountant(orders, NeighboringRelation[relation]).compose(event).rdp
    return one + ABSOLUTE_ROUNDING * orders * (1 + orders) / (orders - 1)


@contextmanager
def _without_warnings():
    """dp-accounting warns of every order it leaves out, which is looked after here."""
    logger = logging.getLogger("absl")
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(_):
    return False


DIVERGENCES = {
    events.RandomizedResponse: _randomized_response,
    events.PureDP: _pure,
    events.ExponentialMechanism: _exponential_mechanism,
    events.Laplace: _laplace,
    events.PoissonSampledGaussian: _poisson,
    events.FixedSizeSampledGaussian: _fixed_size_replace_one,
    events.Shuffled: _shuffled,
}
