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
import math
from abc import ABC, abstractmethod
from collections import Counter

from fate_dp.privacy import events
from fate_dp.privacy.accounting.privacy_parameters import check_delta, check_epsilon_or_zero
from fate_dp.privacy.number_kinds import is_whole

CLIMBING_STEPS = 40
# Relative: more than the rounding of the few operations that turn one epsilon into a delta.
LAST_BITS = 1e-12
LARGEST_EXPONENT = 709.0


class UnsupportedEvent(ValueError):
    """An accountant has no proved bound for a mechanism under a relation."""


class MixedProtection(ValueError):
    """Events that protect different units, or hold under different relations, were to be added up."""


class InvalidCount(ValueError):
    """A number of releases is not a whole number of at least 1."""


class InvalidAccountant(ValueError):
    """An accountant is asked for by a name that does not exist."""


def make_accountant(kind, relation):
    """An empty accountant.

    :param kind: ``pld`` or ``rdp``.
    :param relation: ``add_or_remove`` or ``replace_one``; has no default.
    :raises InvalidAccountant, InvalidEvent: one sentence on what is wrong.
    """
    from fate_dp.privacy.accounting.pld_accountant import PLDAccountant
    from fate_dp.privacy.accounting.rdp_accountant import RDPAccountant

    kinds = {"pld": PLDAccountant, "rdp": RDPAccountant}
    if kind not in kinds:
        raise InvalidAccountant(f"accountant is {kind!r} but must be one of {', '.join(kinds)}.")
    return kinds[kind](relation)


def check_count(name, count):
    """Return ``count`` as an int; raise ``InvalidCount``, naming the field, unless it is a whole number >= 1."""
    if not is_whole(count) or count < 1:
        raise InvalidCount(f"{name} is {count!r} but must be a whole number of at least 1.")
    return int(count)


class Accountant(ABC):
    """What both kinds share: counts, refusals, slack. Subclasses bound the composed processes."""

    kind = ""

    def __init__(self, relation):
        self.relation = events.check_relation(relation)
        self._unit = None
        self._counts = Counter()
        self._slacks = Counter()
        self._cached = None

    def supports(self, event):
        """Whether ``compose`` would accept the event's mechanism and relation."""
        return self.reason_against(event) is None

    def reason_against(self, event):
        """Why the event cannot be composed here, as one sentence; None if it can."""
        if event.relation != self.relation:
            return f"The event holds under {event.relation} but the accountant adds up events under {self.relation}."
        if isinstance(event.process, events.NotPrivate):
            return None
        return self._reason_against(event)

    def compose(self, event, count=1):
        """Charge ``count`` releases of ``event``; nothing has changed when this raises.

        :raises UnsupportedEvent: naming accountant, mechanism and relation, when no bound is known here.
        :raises MixedProtection: when the event protects another unit or holds under another relation.
        :raises InvalidCount: unless ``count`` is a whole number of at least 1.
        """
        count = check_count("count", count)
        if event.relation != self.relation:
            raise MixedProtection(self.reason_against(event))
        if self._unit not in (None, event.unit):
            raise MixedProtection(
                f"The event protects one {event.unit} but the events before it protect one {self._unit}."
            )
        reason = self.reason_against(event)
        if reason is not None:
            raise UnsupportedEvent(reason)
        self._unit = event.unit
        self._cached = None
        self._counts[event.process] += count
        self._slacks[event.slack] += count

    def delta(self, epsilon):
        """Upper bound of the smallest delta at ``epsilon`` (nats, at least 0) for all that was composed."""
        epsilon = check_epsilon_or_zero(epsilon)
        if self._is_not_private():
            return 1.0
        composed = self._composed_delta(epsilon) if self._counts else 0.0
        return min(1.0, composed + self._cost_of_slack(epsilon))

    def epsilon(self, delta):
        """Upper bound of the smallest epsilon (nats) at ``delta`` (between 0 and 1); infinite where none is known.

        ``accountant.delta(accountant.epsilon(delta)) <= delta`` holds whenever the result is finite.
        """
        delta = check_delta(delta)
        if self._is_not_private():
            return math.inf
        # What slack leaves of delta falls as epsilon grows, so the epsilon that the rest needs grows: climbing from 0
        # ends at the smallest epsilon that is consistent. The growing margin makes the last step a true bound.
        epsilon, margin = 0.0, LAST_BITS
        for _ in range(CLIMBING_STEPS):
            if self.delta(epsilon) <= delta:
                return epsilon
            remaining = delta - self._cost_of_slack(epsilon)
            needed = self._composed_epsilon(remaining) if remaining > 0 else math.inf
            if math.isinf(needed):
                return math.inf
            epsilon = max(epsilon, needed) * (1 + margin) + margin
            margin *= 2
        return math.inf

    def _is_not_private(self):
        return any(isinstance(process, events.NotPrivate) for process in self._counts)

    def _cost_of_slack(self, epsilon):
        slack = math.fsum(count * each for each, count in self._slacks.items()) * (1 + LAST_BITS)
        return slack * (1 + math.exp(min(epsilon, LARGEST_EXPONENT)))

    def _composition(self):
        """What ``_compose`` makes of the counts, made once per state."""
        if self._cached is None:
            self._cached = self._compose()
        return self._cached

    @abstractmethod
    def _reason_against(self, event):
        """Why no bound is known for the event's mechanism, as one sentence; None if one is."""

    @abstractmethod
    def _compose(self):
        """What both answers below are read off, made of the counts."""

    @abstractmethod
    def _composed_delta(self, epsilon):
        """Upper bound of delta, slack apart."""

    @abstractmethod
    def _composed_epsilon(self, delta):
        """Upper bound of epsilon, slack apart; infinite where none is known."""
