"""All parties of a training in one process, with their own code: for experiments and tests, not for real data."""
from fate_dp.components.shuffler.messages import TooFewMessages
from fate_dp.privacy.accounting.secure_sum import TooFewArrived

from .contribution import RoundLost

BEFORE, AFTER = "before", "after"


def simulate(terms, clients, server, transport, progress=None, failure=None):
    """Run all rounds and return the server's weights, float64 (d,).

    ``server.rounds_run`` lists the rounds in which messages left, each of which is to be charged whether or not it gave
    a step; ``server.rounds_aborted`` those that ended before.

    :param clients: ``Client`` objects, one per position.
    :param transport: from ``make_transport``.
    :param progress: None, or called with (round number, server) after every round.
    :param failure: None, or a function of (position, round number) that says when a client fails in a round:
        ``before`` it is ready, ``after`` it said so, or None.
    :raises NotFinite: training has diverged.
    """
    for round_number in range(terms.rounds):
        mean = _round(clients, server, transport, round_number, failure or (lambda position, number: None))
        if mean is not None:
            server.step(mean)
        if progress is not None:
            progress(round_number, server)
    return server.weights


def _round(clients, server, transport, round_number, failure):
    failures = {client.position: failure(client.position, round_number) for client in clients}
    ready = [client for client in clients if failures[client.position] != BEFORE]
    try:
        transport.check_ready([client.position for client in ready], round_number)
    except (TooFewArrived, TooFewMessages):
        server.rounds_aborted.append(round_number)
        return None
    weights, clip = server.weights, server.clip(round_number)
    contributions = [client.contribution(weights, round_number, clip) for client in ready]
    server.rounds_run.append(round_number)
    try:
        return transport.deliver(contributions, {position for position, when in failures.items() if when == AFTER})
    except (RoundLost, TooFewMessages):
        return None
