"""The order of one task, the same at every party.

1. Terms: requests, epsilon0, tables. 2. Numbers of records, and each client's cap. 3. Messages to the shuffler, charged
before they leave. 4. Shuffled messages to the server, which opens them. Whatever is refused at a step ends the task at
every party with the reason, and nothing of the next step is sent. 5. The statistics go to the clients.
"""
from . import client, relay, server
from .members import Members, is_me
from .preflight import agree_on_terms
from .settings import Settings


def run(ctx, settings: Settings, frame) -> dict:
    """This party's part; returns the model document.

    Args:
        frame: the party's table; None at the shuffler and the arbiter.

    Raises:
        ValueError: one sentence, at every party.
    """
    terms = agree_on_terms(ctx, settings, frame)
    members = Members.of(ctx, terms["settings"]["shuffler"])
    if is_me(ctx, members.server):
        return server.analyse(ctx, terms, members)
    if is_me(ctx, members.shuffler):
        return relay.relay(ctx, terms, members)
    return client.answer(ctx, frame, terms, members)
