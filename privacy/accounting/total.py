"""What many releases cost together: the smallest of several sound answers, for ledgers and plans.

Charges are (event, count) pairs that protect one unit under one relation; whether one observer sees them all is for the
caller to decide. Epsilon is in nats. Every mechanism of ``events`` has a bound in the ``pld`` accountant under every
relation it can be stated for, so no charge is ever left out and delta is never split.
"""
import math
import sys
from collections import Counter
from fractions import Fraction

from fate_dp.privacy import events
from fate_dp.privacy.accounting.accountant import LAST_BITS, MixedProtection, check_count, make_accountant
from fate_dp.privacy.accounting.privacy_parameters import check_delta_or_zero, check_epsilon_or_zero
from fate_dp.privacy.accounting.pure_composition import EXACT_COMBINATIONS, compose_pure

MOST_PURE_RELEASES = 10_000
# Below, the tails that the pld accountant cuts off begin to count.
SMALL_DELTA = 1e-9


def total_epsilon(charges, delta):
    """Upper bound of the epsilon (nats) of all ``charges`` together at ``delta``; infinite where none is known.

    At delta 0 the sum of the epsilons of pure mechanisms, infinite if any is not pure or not exactly sampled.

    :param charges: (event, count) pairs of one unit and relation, in any order; none cost nothing.
    :param delta: from 0 to less than 1.
    :raises MixedProtection, InvalidCount, InvalidDelta: one sentence on what is wrong.
    """
    delta, counts = check_delta_or_zero(delta), _merge(charges)
    if not counts:
        return 0.0
    answers = [_pure_epsilon(counts, delta)]
    if delta > 0:
        answers.extend([_shuffled_epsilon(counts, delta), _composed("pld", counts).epsilon(delta)])
        if math.isinf(answers[-1]) or _needs_second_opinion(counts, delta):
            answers.extend(_from_rdp(counts, lambda accountant: accountant.epsilon(delta)))
    return min(answers)


def total_delta(charges, epsilon):
    """Upper bound of the delta of all ``charges`` together at ``epsilon`` (nats, at least 0).

    Parameters and errors as in ``total_epsilon``.
    """
    epsilon, counts = check_epsilon_or_zero(epsilon), _merge(charges)
    if not counts:
        return 0.0
    answers = [_pure_delta(counts, epsilon), _composed("pld", counts).delta(epsilon)]
    if answers[-1] == 1.0 or _needs_second_opinion(counts, min(answers)):
        answers.extend(_from_rdp(counts, lambda accountant: accountant.delta(epsilon)))
    return min(answers)


def _merge(charges):
    """How often each event occurred, once it is sure that they may be added."""
    counts = Counter()
    for event, count in charges:
        counts[event] += check_count("count", count)
    for name in ("unit", "relation"):
        found = sorted({getattr(event, name) for event in counts})
        if len(found) > 1:
            raise MixedProtection(
                f"The charges have more than one {name}, {' and '.join(found)}, and cannot be added up."
            )
    return counts


def _composed(kind, counts):
    accountant = make_accountant(kind, next(iter(counts)).relation)
    for event, count in counts.items():
        accountant.compose(event, count)
    return accountant


def _needs_second_opinion(counts, delta):
    """Where the rdp accountant can be the tighter one: far tails, and bounded range, best composed order by order."""
    bounded_range = any(isinstance(event.process, events.ExponentialMechanism) for event in counts)
    return bounded_range or delta < SMALL_DELTA


def _from_rdp(counts, question):
    accountant = make_accountant("rdp", next(iter(counts)).relation)
    if not all(map(accountant.supports, counts)):
        return []
    return [question(_composed("rdp", counts))]


def _pure_epsilon(counts, delta):
    total, cost = _pure_sum(counts), _slack_cost(counts, _pure_sum(counts))
    if cost > delta or math.isinf(total):
        return math.inf
    if cost or delta == 0 or sum(counts.values()) > MOST_PURE_RELEASES:
        return total
    epsilons = Counter()
    for event, count in counts.items():
        epsilons[_pure_epsilon_of(event.process)] += count
    if math.prod(count + 1 for count in epsilons.values()) > EXACT_COMBINATIONS:
        return total
    return compose_pure(list(epsilons.elements()), delta)


def _shuffled_epsilon(counts, delta):
    """The bounds made for rounds of one kind of shuffling; infinite where something else was released too."""
    from fate_dp.privacy.accounting.shuffling import shuffle_composition_epsilon

    processes = {event.process for event in counts}
    shuffled = next(iter(processes))
    if len(processes) > 1 or not isinstance(shuffled, events.Shuffled) or any(event.slack for event in counts):
        return math.inf
    rounds = sum(counts.values())
    return shuffle_composition_epsilon(shuffled.epsilon0, shuffled.messages, rounds, delta, shuffled.randomizer)


def _pure_delta(counts, epsilon):
    return min(1.0, _slack_cost(counts, epsilon)) if _pure_sum(counts) <= epsilon else 1.0


def _pure_sum(counts):
    """Sum of the epsilons, rounded up; infinite when a mechanism is not pure."""
    epsilons = {event: _pure_epsilon_of(event.process) for event in counts}
    if math.inf in epsilons.values():
        return math.inf
    exact = sum(Fraction(epsilons[event]) * count for event, count in counts.items())
    if exact > sys.float_info.max:
        return math.inf
    return float(exact) if Fraction(float(exact)) >= exact else math.nextafter(float(exact), math.inf)


def _pure_epsilon_of(process):
    return PURE_EPSILON.get(type(process), lambda _: math.inf)(process)


def _slack_cost(counts, epsilon):
    slack = math.fsum(event.slack * count for event, count in counts.items())
    return slack * (1 + math.exp(min(epsilon, 709.0))) * (1 + LAST_BITS) if slack else 0.0


PURE_EPSILON = {
    events.RandomizedResponse: lambda process: process.epsilon,
    events.PureDP: lambda process: process.epsilon,
    events.ExponentialMechanism: lambda process: process.epsilon,
    events.Laplace: lambda process: math.nextafter(1 / process.noise_multiplier, math.inf),
    events.Shuffled: lambda process: process.epsilon0,
}
