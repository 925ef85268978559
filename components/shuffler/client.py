"""A party with records: each record answers each request by randomised response, sealed to the server.

Guarantee: against the server, against another client and against whoever gets the statistics, (epsilon, delta) for the
unit record, replace-one, as ``account`` composes it from one `Shuffled` event per request; against shuffler and server
together epsilon0 for each request. Not covered: the number of records, and whether a column exists.
"""
import secrets

from fate_dp.components.common.charges import Charges
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.summary import show_summary
from fate_dp.privacy.noise.stream import KEY_BYTES

from .account import events_of
from .answers import sealed_answers
from .members import party_of
from .preflight import check_promise
from .results import document, summary
from .settings import Settings
from .steps import COUNTS, OPENING, RECORDS, SENDING, SERVER_KEY, STATISTICS, messages_about, session_of

REFUSAL = "The cap that this party's operator set for private steps does not allow these statistics."


def answer(ctx, frame, terms: dict, members) -> dict:
    """Charge, send, wait for the statistics; returns the model document."""
    settings, epsilon0 = Settings.from_json(terms["settings"]), terms["epsilon0"]
    events = events_of(settings.requests, epsilon0, settings.least_messages)
    charges, counting = Charges(ctx, frame, REFUSAL), ctx.sub_ctx(COUNTS)

    def check():
        party_of(counting, members.shuffler).put(RECORDS, frame.shape[0])
        check_promise(terms)
        charges.check([(event, 1) for _, event in events])
        return {}

    agree(counting, check)
    server_key = counting.arbiter.get(SERVER_KEY)
    for purpose, event in events:
        charges.record([(event, 1)], purpose)
    _send(ctx.sub_ctx(SENDING), frame, settings.requests, epsilon0, server_key, members)
    agree(ctx.sub_ctx(SENDING), dict)
    opening = ctx.sub_ctx(OPENING)
    agree(opening, dict)
    result = document(terms, opening.arbiter.get(STATISTICS))
    charges.mark_released()
    show_summary(ctx, summary(result, frame.shape[0]))
    return result


def _send(ctx, frame, requests, epsilon0, server_key, members):
    key, shuffler = secrets.token_bytes(KEY_BYTES), party_of(ctx, members.shuffler)
    for number, request in enumerate(requests):
        sealed = sealed_answers(frame, request, number, epsilon0, server_key, session_of(ctx), key)
        shuffler.put(messages_about(number), b"".join(sealed))
