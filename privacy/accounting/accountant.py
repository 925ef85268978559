"""Accountants: from (event, count) pairs to epsilon for a delta, and to delta for an epsilon.

An accountant composes releases that protect one unit under one neighbouring relation, in any order, chosen adaptively;
who observes them is the caller's choice. It keeps how often each process ran, so ``compose(event, n)`` *is* n times
``compose(event, 1)``, and every answer is computed anew from those counts. Epsilon is in nats. All answers are upper
bounds. ``kind`` is ``pld`` (privacy loss distributions, tight) or ``rdp`` (Renyi, looser, quick); both stand on
Google's dp-accounting, whose own ``compose`` ignores the count of some events and reads a noise multiplier differently
from accountant to accountant under replace-one. Here it means what ``fate_dp.privacy.events`` says.

**Slack.** If every release is within total variation S_i of the mechanism that is accounted, all of them together are
within S = sum count_i S_i, and delta(epsilon) = composed delta(epsilon) + (1 + e^epsilon) S.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from .. import events
from ..events import ADD_OR_REMOVE, REPLACE_ONE, Event, Process
from ..noise.stream import Floats
from ..validation import InvalidArgument, check_delta, check_epsilon_or_zero, one_of, whole
from .gaussian import gaussian_delta, gaussian_epsilon
from .losses import composed
from .privacy_profiles import HAS_PROFILE, MAX_MU, gaussian_profile, profiles

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of delta at an epsilon, and of epsilon at a delta, infinite where none is known.

    ``quick_delta`` is a looser bound of delta that takes hardly any time.
    """

    delta: Callable[[float], float]
    epsilon: Callable[[float], float]
    quick_delta: Callable[[float], float] = lambda epsilon: 1.0


NO_BOUND = Bounds(lambda epsilon: 1.0, lambda delta: math.inf)
NOTHING = Bounds(lambda epsilon: 0.0, lambda delta: 0.0)
CLIMBING_STEPS = 40
# Relative: more than the rounding of the few operations that turn one epsilon into a delta.
LAST_BITS = 1e-12
MAX_EXPONENT = 709.0


class UnsupportedEvent(ValueError):
    """An accountant has no proved bound for a mechanism under a relation."""


class Accountant(ABC):
    """Counts, refusals and slack; ``bounded`` are the processes, besides unsampled noise, that have a ``bound``."""

    kind: str
    bound: str
    bounded: Container[type]

    def __init__(self, relation: str) -> None:
        self.relation = events.check_relation(relation)
        self._unit: str | None = None
        self._counts: Counter[Process] = Counter()
        self._slacks: Counter[float] = Counter()
        self._cached: Bounds | None = None

    def reason_against(self, event: Event) -> str | None:
        """Why the event cannot be composed here, as one sentence; None if it can."""
        if event.relation != self.relation:
            return f"The event holds under {event.relation} but the accountant adds up events under {self.relation}."
        if isinstance(event.process, events.NotPrivate) or type(event.process) in self.bounded:
            return None
        if squared_mu(event.process, self.relation) is not None:
            return None
        return f"The {self.kind} accountant knows no {self.bound} for {event.mechanism} under {self.relation}."

    def compose(self, event: Event, count: int = 1) -> None:
        """Charge ``count`` releases of ``event``; nothing has changed when this raises. UnsupportedEvent where no bound
        is known here for the mechanism under the relation, InvalidArgument where the event protects another unit or
        holds under another relation."""
        count = whole("count", count, 1)
        reason = self.reason_against(event)
        if event.relation != self.relation:
            raise InvalidArgument(reason)
        if self._unit not in (None, event.unit):
            raise InvalidArgument(
                f"The event protects one {event.unit} but the events before it protect one {self._unit}."
            )
        if reason is not None:
            raise UnsupportedEvent(reason)
        self._unit, self._cached = event.unit, None
        self._counts[event.process] += count
        self._slacks[event.slack] += count

    def delta(self, epsilon: float) -> float:
        """Upper bound of the smallest delta at ``epsilon`` (nats, at least 0) for all that was composed."""
        epsilon = check_epsilon_or_zero(epsilon)
        if self._is_not_private():
            return 1.0
        return min(1.0, self._composition().delta(epsilon) + self._cost_of_slack(epsilon))

    def epsilon(self, delta: float) -> float:
        """Upper bound of the smallest epsilon (nats) at ``delta`` (between 0 and 1); infinite where none is known.

        ``accountant.delta(accountant.epsilon(delta)) <= delta`` holds whenever the result is finite.
        """
        delta = check_delta(delta)
        if self._is_not_private():
            return math.inf
        # What slack leaves of delta falls as epsilon grows, so the epsilon that the rest needs grows: climbing from 0
        # ends at the smallest epsilon that is consistent. The growing margin makes the last step a true bound.
        epsilon, margin = 0.0, LAST_BITS
        for step in range(CLIMBING_STEPS):
            remaining = delta - self._cost_of_slack(epsilon)
            needed = self._composition().epsilon(remaining) if remaining > 0 else math.inf
            if math.isinf(needed):
                return math.inf
            if needed or step:
                epsilon = max(epsilon, needed) * (1 + margin) + margin
            if self.delta(epsilon) <= delta:
                return epsilon
            margin *= 2
        return math.inf

    def _is_not_private(self) -> bool:
        return any(isinstance(process, events.NotPrivate) for process in self._counts)

    def _cost_of_slack(self, epsilon: float) -> float:
        slack = math.fsum(count * each for each, count in self._slacks.items()) * (1 + LAST_BITS)
        return slack * (1 + math.exp(min(epsilon, MAX_EXPONENT)))

    def _composition(self) -> Bounds:
        if self._cached is None:
            self._cached = self._compose() if self._counts else NOTHING
        return self._cached

    @abstractmethod
    def _compose(self) -> Bounds:
        """Bounds of everything composed, slack apart."""


# The part of a composition that is one Gaussian mechanism: releases of mu_i add up exactly to mu = sqrt(sum mu_i^2)
# (Dong, Roth and Su, "Gaussian differential privacy", JRSS B 2022, corollary 3.3).

# Relative: more than the rounding of a sum of a few hundred squares, and of its root.
LAST_BITS_OF_MU = 1e-13
# Squares of smaller numbers would be lost to underflow.
MIN_MU = 1e-140


def squared_mu(process: Process, relation: str) -> float | None:
    """mu^2 of one release if it is an unsampled Gaussian mechanism under ``relation``, else None.

    A sampled sum in which every unit always takes part is unsampled: it moves by one clip, or two under replace-one.
    """
    match process:
        case events.Gaussian():
            mus = [1 / process.noise_multiplier]
        case events.GroupedGaussian():
            mus = [change / sigma for change, sigma in zip(process.sensitivities, process.sigmas)]
        case events.PoissonSampledGaussian(sampling_probability=1):
            mus = [events.clips_moved(relation) / process.noise_multiplier]
        case events.FixedSizeSampledGaussian() if process.records == process.batch_size:
            mus = [events.clips_moved(relation) / process.noise_multiplier]
        case _:
            return None
    return sum(mu * mu for mu in mus)


def split_gaussian(counts: Mapping[Process, int], relation: str) -> tuple[float, dict[Process, int]]:
    """(mu, rest): mu of all Gaussian releases in ``counts`` together, rounded up (0.0 if none), the other counts."""
    squares = {process: squared_mu(process, relation) for process in counts}
    rest = {process: counts[process] for process, square in squares.items() if square is None}
    if len(rest) == len(counts):
        return 0.0, rest
    total = sum(counts[process] * square for process, square in squares.items() if square is not None)
    return max(math.sqrt(total) * (1 + LAST_BITS_OF_MU), MIN_MU), rest


# Beyond, the grid is too coarse for one release. Unsampled Gaussian releases do not count.
MAX_RELEASES = 2_000_000


class PLDAccountant(Accountant):
    """Privacy loss distributions: tight, for every mechanism with a proved dominating pair.

    Each release becomes a distribution of losses on a grid, and all are convolved, with a proved bound of what rounding
    does (`losses`, docs/proofs-privacy.md). Unsampled Gaussian releases are added up first and, on their own, answered
    exactly. More than ``MAX_RELEASES`` others have no finite epsilon.
    """

    kind, bound, bounded = "pld", "dominating pair", HAS_PROFILE

    def _compose(self) -> Bounds:
        sampled = all(isinstance(process, events.PoissonSampledGaussian) for process in self._counts)
        # To replace a record by one that contributes nothing is to remove it: no figure may lie below that of add-or-remove.
        also = [ADD_OR_REMOVE] if self.relation == REPLACE_ONE and sampled else []
        return _worst([bounds for relation in (self.relation, *also) for bounds in self._bounds_under(relation)])

    def _bounds_under(self, relation: str) -> list[Bounds]:
        """Of which the worst counts."""
        mu, rest = split_gaussian(self._counts, relation)
        if mu > MAX_MU or sum(rest.values()) > MAX_RELEASES:
            return [NO_BOUND]
        if not rest:
            return [Bounds(partial(gaussian_delta, 1 / mu), partial(gaussian_epsilon, 1 / mu))]
        parts = [(profiles(process, relation), rest[process]) for process in sorted(rest, key=repr)]
        if mu:
            parts.append(((gaussian_profile(mu),), 1))
        return [Bounds(each.delta, each.epsilon, each.quick_delta) for each in composed(parts)] or [NO_BOUND]


def _worst(bounds: Sequence[Bounds]) -> Bounds:
    def delta(epsilon: float) -> float:
        found = 0.0
        for each in bounds:
            if not found or each.quick_delta(epsilon) > found:
                found = max(found, each.delta(epsilon))
        return found

    def epsilon(delta: float) -> float:
        found = 0.0
        for each in bounds:
            # A delta takes a fraction of the time that an epsilon takes.
            if not found or (each.quick_delta(found) > delta and each.delta(found) > delta):
                found = max(found, each.epsilon(delta))
        return found

    return Bounds(delta, epsilon)


ORDERS: Floats = np.array(
    [1 + tenths / 10 for tenths in range(1, 100)]
    + list(range(12, 64))
    + [64, 80, 96]
    + [2**power for power in range(7, 14)]
)
# dp-accounting's sums of up to 16385 terms in log space: relative error, and absolute error in units of the order.
RELATIVE_ROUNDING = 1e-11
ABSOLUTE_ROUNDING = 1e-15
# dp-accounting takes the logarithm of 1 - e^-divergence.
MIN_DIVERGENCE = 1e-14
# With less noise dp-accounting's terms overflow; no finite divergence is claimed there.
MIN_NOISE = 1e-3
# With more noise on a sample of fixed size dp-accounting takes the logarithm of 0; less noise never costs less.
MAX_NOISE = 1e6


def _randomized_response(process: events.RandomizedResponse, _: str) -> Floats:
    """ln(1 + b (1 - e^((1 - a) epsilon)) (e^(a epsilon) - 1)) / (a - 1) at order a; b = P(a given other class)."""
    epsilon = process.epsilon
    log_other = -epsilon - math.log1p((process.classes - 1) * math.exp(-epsilon))
    rising = ORDERS * epsilon + np.log(-np.expm1(-ORDERS * epsilon))
    excess = log_other + np.log(-np.expm1((1 - ORDERS) * epsilon)) + rising
    divergences: Floats = np.logaddexp(0, excess) / (ORDERS - 1)
    return divergences


def _pure(process: events.PureDP | events.ExponentialMechanism, relation: str) -> Floats:
    """Binary randomised response of the same epsilon, which dominates (Kairouz, Oh and Viswanath 2015)."""
    return _randomized_response(events.RandomizedResponse(process.epsilon, 2), relation)


def _exponential_mechanism(process: events.ExponentialMechanism, relation: str) -> Floats:
    """Bounded range epsilon is (epsilon^2 / 8)-concentrated (Cesar and Rogers, ALT 2021); pure DP for high orders."""
    return np.asarray(np.minimum(ORDERS * process.epsilon**2 / 8, _pure(process, relation)))


def _laplace(process: events.Laplace, _: str) -> Floats:
    """Mironov 2017, proposition 6; on vectors one coordinate that moves by the whole sensitivity is worst."""
    from dp_accounting.dp_event import LaplaceDpEvent

    return _library_divergences(LaplaceDpEvent(process.noise_multiplier), "REPLACE_ONE")


def _poisson_add_or_remove(process: events.PoissonSampledGaussian, orders: Floats) -> Floats:
    from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent

    if process.noise_multiplier < MIN_NOISE:
        return np.full(len(orders), math.inf)
    step = PoissonSampledDpEvent(process.sampling_probability, GaussianDpEvent(process.noise_multiplier))
    divergences = _library_divergences(step, "ADD_OR_REMOVE_ONE", orders)
    found = np.isfinite(divergences)
    if not found.any():
        return divergences
    # Where dp-accounting's series found none: (a - 1) D_a is a convex function of the order a, 0 at 1, so a chord
    # between two orders lies above it.
    chord = np.interp(orders, [1, *orders[found]], [0, *((orders - 1) * divergences)[found]], right=math.inf)
    return np.where(found, divergences, chord / (orders - 1))


def _poisson(process: events.PoissonSampledGaussian, relation: str) -> Floats:
    """Under replace-one by removing the old record, then adding the new one; not tight.

    Mironov 2017, proposition 11 with p = q = 2: at order a, R being the step without the record,
    D_a(P, Q) <= (a - 1/2) / (a - 1) D_2a(P, R) + D_(2a - 1)(R, Q).
    """
    if relation == events.ADD_OR_REMOVE:
        return _poisson_add_or_remove(process, ORDERS)
    removed, added = _poisson_add_or_remove(process, 2 * ORDERS), _poisson_add_or_remove(process, 2 * ORDERS - 1)
    return (ORDERS - 0.5) / (ORDERS - 1) * removed + added


def _fixed_size_replace_one(process: events.FixedSizeSampledGaussian, _: str) -> Floats:
    from dp_accounting.dp_event import GaussianDpEvent, SampledWithoutReplacementDpEvent

    if process.noise_multiplier < MIN_NOISE:
        return np.full(len(ORDERS), math.inf)
    # dp-accounting means sigma over the sensitivity under replace-one here, which is two clips.
    noise = GaussianDpEvent(min(process.noise_multiplier, MAX_NOISE) / events.clips_moved(events.REPLACE_ONE))
    sample = SampledWithoutReplacementDpEvent(process.records, process.batch_size, noise)
    return _library_divergences(sample, "REPLACE_ONE")


def _library_divergences(event: DpEvent, relation: str, orders: Floats = ORDERS) -> Floats:
    """dp-accounting's Renyi divergences of one release at ``orders``, with room for their rounding."""
    from dp_accounting.privacy_accountant import NeighboringRelation
    from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

    # dp-accounting warns of every order it leaves out, which is looked after here.
    logger, nothing = logging.getLogger("absl"), lambda record: False
    logger.addFilter(nothing)
    try:
        one: Floats = RdpAccountant(orders, NeighboringRelation[relation]).compose(event).rdp
    finally:
        logger.removeFilter(nothing)
    rounding: Floats = ABSOLUTE_ROUNDING * orders * (1 + orders) / (orders - 1)
    return one + rounding


# A shuffled round is taken as if nothing had been shuffled: sound, and far from tight.
DIVERGENCES: dict[type, Callable[..., Floats]] = {
    events.RandomizedResponse: _randomized_response,
    events.PureDP: _pure,
    events.ExponentialMechanism: _exponential_mechanism,
    events.Laplace: _laplace,
    events.PoissonSampledGaussian: _poisson,
    events.FixedSizeSampledGaussian: _fixed_size_replace_one,
    events.Shuffled: lambda process, relation: _pure(events.PureDP(process.epsilon0), relation),
}


@lru_cache(maxsize=256)
def _divergences(process: Process, relation: str) -> Floats:
    """Of one release at all orders; dp-accounting's series take up to a second, and accounts ask for the same ones again."""
    found = DIVERGENCES[type(process)](process, relation)
    found.flags.writeable = False
    return found


class RDPAccountant(Accountant):
    """Renyi differential privacy: looser than privacy loss distributions, quick, and without a grid.

    The divergences of all releases add up order by order (Mironov, CSF 2017, proposition 1), and dp-accounting converts
    the best order (Canonne, Kamath and Steinke 2020, proposition 12). Whence each divergence: docs/proofs-privacy.md.
    """

    kind, bound, bounded = "rdp", "bound", DIVERGENCES

    def _compose(self) -> Bounds:
        from dp_accounting.rdp.rdp_privacy_accountant import compute_delta, compute_epsilon

        mu, rest = split_gaussian(self._counts, self.relation)
        total: Floats = ORDERS * mu**2 / 2
        for process in sorted(rest, key=repr):
            total = total + rest[process] * _divergences(process, self.relation)
        total = np.maximum(total * (1 + RELATIVE_ROUNDING), MIN_DIVERGENCE)
        return Bounds(
            lambda epsilon: float(compute_delta(ORDERS, total, epsilon)[0]),
            lambda delta: float(compute_epsilon(ORDERS, total, delta)[0]),
        )


KINDS: dict[str, type[Accountant]] = {"pld": PLDAccountant, "rdp": RDPAccountant}


def make_accountant(kind: str, relation: str) -> Accountant:
    """An empty accountant of a kind, ``pld`` or ``rdp``, under a relation, which has no default."""
    return KINDS[one_of("accountant", kind, KINDS)](relation)
