"""The shuffler: a host without data, which sees who sends how many ciphertexts and hands them on in a random order.

All ciphertexts of one request are in this process at once, about 100 bytes a record: what is shuffled in parts hides a
record among its part only. They come as one message of bytes, of which nothing is unpickled (`components.common.wire`).
"""
from fate_dp.components.common.parties import party_name
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.summary import show_summary

from .answers import MESSAGE_BYTES
from .members import party_of
from .messages import InvalidMessage, TooFewMessages
from .results import document
from .settings import Settings
from .shuffle import shuffle
from .steps import COUNTS, OPENING, RECORDS, SENDING, messages_about


def relay(ctx, terms: dict, members) -> dict:
    """Wait for all messages, shuffle each request's, pass them on; returns a document without statistics.

    Too few records, or messages that are not what was announced, end the task before anything is passed on.
    """
    settings, known = Settings.from_json(terms["settings"]), {}
    counting, sending = ctx.sub_ctx(COUNTS), ctx.sub_ctx(SENDING)

    def count():
        known["records"] = {member: party_of(counting, member).get(RECORDS) for member in members.clients}
        check_records(known["records"], settings.least_messages)
        return {}

    def shuffle_all():
        known["shuffled"] = [
            _shuffled(sending, number, known["records"], settings.least_messages)
            for number in range(len(settings.requests))
        ]
        return {}

    agree(counting, count)
    agree(sending, shuffle_all)
    opening = ctx.sub_ctx(OPENING)
    for number, shuffled in enumerate(known["shuffled"]):
        opening.arbiter.put(messages_about(number), b"".join(shuffled))
    agree(opening, dict)
    messages = sum(known["records"].values())
    show_summary(
        ctx, {"role": f"shuffler, {party_name(ctx)}", "rounds": len(settings.requests), "messages of a round": messages}
    )
    return document(terms, statistics=None)


def check_records(records: dict, least_messages: int) -> None:
    """Any one party knows its own messages, the largest one most: those of the others must be enough."""
    others = sum(records.values()) - max(records.values())
    if others < least_messages:
        raise TooFewMessages(
            f"Beside the largest party the others bring {others} records, fewer than least_messages, {least_messages}; "
            "nothing was sent. Fewer least_messages need a larger epsilon."
        )


def _shuffled(ctx, number, records, least_messages):
    """Ciphertexts of one request from all clients, in a random order."""
    arrived = []
    for member, count in records.items():
        content = party_of(ctx, member).get(messages_about(number))
        if len(content) != count * MESSAGE_BYTES:
            raise InvalidMessage(
                f"{' '.join(member)} announced {count} records and sent {len(content)} bytes, not {MESSAGE_BYTES} each."
            )
        arrived += pieces_of(content)
    return shuffle(arrived, least_messages, presumed_dishonest=max(records.values()))


def pieces_of(content: bytes) -> list:
    """Messages that were joined."""
    return [content[at : at + MESSAGE_BYTES] for at in range(0, len(content), MESSAGE_BYTES)]
