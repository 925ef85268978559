"""What many releases cost together, and what an event that is stated under one relation costs under the other.

*From add-or-remove to replace-one* noise counts half as many multiples, and pure epsilons twice (group privacy of two).
*From replace-one to add-or-remove* nothing follows but for a Poisson-sampled clipped sum. Proofs:
docs/proofs-privacy.md. Slack, a distance on the same data, is the same under both.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias

from .. import events
from ..events import REPLACE_ONE, Event, Process
from ..validation import InvalidArgument, check_delta_or_zero, check_epsilon_or_zero, whole
from .accountant import LAST_BITS, Accountant, make_accountant
from .composition import EXACT_COMBINATIONS, compose_pure
from .shuffling import shuffle_composition_epsilon

Charges: TypeAlias = Iterable[tuple[Event, int]]
TOO_LARGE = "an epsilon too large to be doubled"


def under(event: Event, relation: str) -> Event | None:
    """The event as it counts under ``relation``; None where it has no guarantee there."""
    if events.check_relation(relation) == event.relation:
        return event
    if relation != REPLACE_ONE:
        return replace(event, relation=relation) if isinstance(event.process, STATED_UNDER_BOTH) else None
    try:
        process = OF_TWO_STEPS[type(event.process)](event.process)
    except events.InvalidEvent:
        # Twice as much is more than a float can hold.
        process = events.NotPrivate(TOO_LARGE)
    return replace(event, process=process, relation=relation)


def _times(name: str, factor: float) -> Callable[[Any], Process]:
    return lambda process: replace(process, **{name: factor * getattr(process, name)})


STATED_UNDER_BOTH = (events.PoissonSampledGaussian, events.NotPrivate)
# All that can be stated under add-or-remove.
OF_TWO_STEPS: dict[type, Callable[[Any], Process]] = {
    **dict.fromkeys((events.PureDP, events.ExponentialMechanism), _times("epsilon", 2)),
    **dict.fromkeys((events.Laplace, events.Gaussian), _times("noise_multiplier", 0.5)),
    events.GroupedGaussian: lambda old: replace(old, sensitivities=tuple(2 * change for change in old.sensitivities)),
    **dict.fromkeys(STATED_UNDER_BOTH, lambda process: process),
}
MAX_PURE_RELEASES = 10_000
# Below, the tails that the pld accountant cuts off begin to count.
SMALL_DELTA = 1e-9


def total_epsilon(charges: Charges, delta: float) -> float:
    """Upper bound of the epsilon (nats) of all ``charges`` together at ``delta``; infinite where none is known.

    Charges are (event, count) pairs of one unit and relation, in any order; none cost nothing, and whether one observer
    sees them all is the caller's affair. The smallest of several sound answers: every mechanism has a bound in the
    ``pld`` accountant under every relation it can be stated for, so no charge is left out and delta is never split. At
    delta 0 the sum of the epsilons of pure mechanisms, infinite if any is not pure or not exactly sampled.
    """
    delta, counts = check_delta_or_zero(delta), _merge(charges)
    if not counts:
        return 0.0
    answers = [_pure_epsilon(counts, delta)]
    if delta > 0:
        answers += [_shuffled_epsilon(counts, delta), _composed("pld", counts).epsilon(delta)]
        if math.isinf(answers[-1]) or _needs_second_opinion(counts, delta):
            answers += [accountant.epsilon(delta) for accountant in _rdp(counts)]
    return min(answers)


def total_delta(charges: Charges, epsilon: float) -> float:
    """Upper bound of the delta of all ``charges``, as in ``total_epsilon``, together at ``epsilon`` (nats, at least 0)."""
    epsilon, counts = check_epsilon_or_zero(epsilon), _merge(charges)
    if not counts:
        return 0.0
    pure = min(1.0, _slack_cost(counts, epsilon)) if _pure_sum(counts) <= epsilon else 1.0
    answers = [pure, _composed("pld", counts).delta(epsilon)]
    if answers[-1] == 1.0 or _needs_second_opinion(counts, min(answers)):
        answers += [accountant.delta(epsilon) for accountant in _rdp(counts)]
    return min(answers)


def _merge(charges: Charges) -> Counter[Event]:
    """How often each event occurred, once it is sure that they may be added."""
    counts: Counter[Event] = Counter()
    for event, count in charges:
        counts[event] += whole("count", count, 1)
    for name in ("unit", "relation"):
        found = sorted({getattr(event, name) for event in counts})
        if len(found) > 1:
            raise InvalidArgument(
                f"The charges have more than one {name}, {' and '.join(found)}, and cannot be added up."
            )
    return counts


def _composed(kind: str, counts: Counter[Event]) -> Accountant:
    accountant = make_accountant(kind, next(iter(counts)).relation)
    for event, count in counts.items():
        accountant.compose(event, count)
    return accountant


def _needs_second_opinion(counts: Counter[Event], delta: float) -> bool:
    """Where the rdp accountant can be the tighter one: far tails, and bounded range, best composed order by order."""
    bounded_range = any(isinstance(event.process, events.ExponentialMechanism) for event in counts)
    return bounded_range or delta < SMALL_DELTA


def _rdp(counts: Counter[Event]) -> list[Accountant]:
    """The rdp accountant of the charges, if it knows all of them."""
    accountant = make_accountant("rdp", next(iter(counts)).relation)
    return [] if any(map(accountant.reason_against, counts)) else [_composed("rdp", counts)]


def _pure_epsilon(counts: Counter[Event], delta: float) -> float:
    total, cost = _pure_sum(counts), _slack_cost(counts, _pure_sum(counts))
    if cost > delta or math.isinf(total):
        return math.inf
    if cost or delta == 0 or sum(counts.values()) > MAX_PURE_RELEASES:
        return total
    epsilons: Counter[float] = Counter()
    for event, count in counts.items():
        epsilons[_pure_epsilon_of(event.process)] += count
    if math.prod(count + 1 for count in epsilons.values()) > EXACT_COMBINATIONS:
        return total
    return compose_pure(list(epsilons.elements()), delta)


def _shuffled_epsilon(counts: Counter[Event], delta: float) -> float:
    """The bounds made for rounds of one kind of shuffling; infinite where something else was released too."""
    processes = {event.process for event in counts}
    shuffled = next(iter(processes))
    if len(processes) > 1 or not isinstance(shuffled, events.Shuffled) or any(event.slack for event in counts):
        return math.inf
    rounds = sum(counts.values())
    return shuffle_composition_epsilon(shuffled.epsilon0, shuffled.messages, rounds, delta, shuffled.randomizer)


def _pure_sum(counts: Counter[Event]) -> float:
    """Sum of the epsilons, rounded up; infinite when a mechanism is not pure."""
    epsilons = {event: _pure_epsilon_of(event.process) for event in counts}
    if math.inf in epsilons.values():
        return math.inf
    exact = sum(Fraction(epsilons[event]) * count for event, count in counts.items())
    if exact > sys.float_info.max:
        return math.inf
    return float(exact) if Fraction(float(exact)) >= exact else math.nextafter(float(exact), math.inf)


def _pure_epsilon_of(process: Process) -> float:
    match process:
        case events.RandomizedResponse() | events.PureDP() | events.ExponentialMechanism():
            return process.epsilon
        case events.Laplace():
            return math.nextafter(1 / process.noise_multiplier, math.inf)
        case events.Shuffled():
            return process.epsilon0
    return math.inf


def _slack_cost(counts: Counter[Event], epsilon: float) -> float:
    slack = math.fsum(event.slack * count for event, count in counts.items())
    return slack * (1 + math.exp(min(epsilon, 709.0))) * (1 + LAST_BITS) if slack else 0.0
