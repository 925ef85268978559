"""What one record pays for its messages, and the epsilon0 of a message that a total allows. No FATE in here.

Unit: record; relation: replace-one; epsilon in nats. Every record sends one message per request, and each request is a
round of its own: messages of two requests are shuffled apart, so that nothing links a record's answers.

Observers: the server, who sees every request's shuffled answers; whoever gets the statistics, which are computed from
them; and another data party, who besides knows its own answers. For the latter only messages of the others hide a
record, hence ``least_messages`` counts those. The shuffler sees ciphertexts alone. Shuffler and server together see who
sent what: against both, a record pays epsilon0 for each request.
"""
import math

from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import REPLACE_ONE, Event, Shuffled

OBSERVERS = ("server", "client", "model")
LARGEST_EPSILON0 = 20.0
# Relative: how far below the largest epsilon0 that is allowed the result may lie.
TOLERANCE = 1e-3


def events_of(requests, epsilon0, least_messages) -> list:
    """[(purpose, event)], one per request."""
    return [(f"shuffler: {request.name}", _event(request, epsilon0, least_messages)) for request in requests]


def epsilon_of(requests, epsilon0, least_messages, delta) -> float:
    """Epsilon (nats) at ``delta`` of one record over all requests, an upper bound; privacy.accounting.total."""
    return total_epsilon([(event, 1) for _, event in events_of(requests, epsilon0, least_messages)], delta)


def calibrated_epsilon0(requests, epsilon, delta, least_messages) -> float:
    """Largest epsilon0 (nats), within 0.1 %, for which `epsilon_of` is at most ``epsilon``."""

    def fits(epsilon0):
        return epsilon_of(requests, epsilon0, least_messages, delta) <= epsilon

    # Without any amplification the epsilons add up, so this much fits always.
    enough, too_much = epsilon / len(requests) * (1 - 2**-40), max(LARGEST_EPSILON0, epsilon)
    if fits(too_much):
        return too_much
    while too_much > enough * (1 + TOLERANCE):
        middle = math.sqrt(enough * too_much)
        enough, too_much = (middle, too_much) if fits(middle) else (enough, middle)
    return enough


def pooled_epsilon(requests, epsilon0) -> float:
    """Epsilon (nats, delta 0) of one record against shuffler and server who pool what they see."""
    return len(requests) * epsilon0


def _event(request, epsilon0, least_messages):
    return Event(Shuffled(epsilon0, least_messages, request.randomizer), "record", REPLACE_ONE, OBSERVERS)
