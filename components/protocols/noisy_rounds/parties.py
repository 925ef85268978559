"""What guest, hosts and arbiter do in every round of a training, whatever is trained: who is ready, who takes part, how it ended.

The server tells all data parties what a round is about; they say whether they are ready; it names the parties of the round
to everybody, or none where too few are ready; their messages go the way of `aggregation`. Whoever failed in a round may take
part in the next one.
"""

from __future__ import annotations

import logging
from typing import Any

from fate_dp.privacy.accounting.secure_sum import TooFewArrived

from ...common.federation import Context, Document, Federation, PartyId, name_of, party_of
from ..sealed_shuffle import TooFewMessages
from .aggregation import Aggregation, FateChannel, make_aggregation
from .terms import RoundTerms

logger = logging.getLogger(__name__)

# Names of the messages, and of the contexts that they are sent in.
KEYS, OUTCOME = "keys", "outcome"
ROUND, READY, PRESENT = "round", "ready", "present"
NOT_ONE_ROUND = "No round ran to its end: too few parties were ready, or messages got lost; see their logs."


def keyed_aggregation(
    ctx: Context, terms: RoundTerms, federation: Federation, message_splitting: str = "none"
) -> Aggregation:
    """This party's part of the trust model, with the keys that it needs of others."""
    made = make_aggregation(terms, federation, message_splitting)
    channel = FateChannel(ctx.sub_ctx(KEYS))
    made.offer_keys(channel)
    made.take_keys(channel)
    return made


def outcome_of(ctx: Context, server: PartyId) -> Document:
    """How a training went, as the server tells all; raises its sentence, the same at all parties, where it failed."""
    outcome = party_of(ctx.sub_ctx(OUTCOME), server).get(OUTCOME)
    if outcome["problem"]:
        raise ValueError(outcome["problem"])
    return outcome


def present_parties(ctx: Context, federation: Federation, aggregation: Aggregation, round_number: int) -> list[str]:
    """At the server: names of the ready data parties, none where they are too few."""
    positions = [at for at, party in enumerate(federation.data) if party_of(ctx, party).get(READY)]
    try:
        aggregation.check_ready(positions, round_number)
    except (TooFewArrived, TooFewMessages) as error:
        logger.warning(f"round {round_number} is aborted before anything is sent: {error}")
        return []
    return [name_of(federation.data[at]) for at in positions]


def tell(ctx: Context, federation: Federation, name: str, everybody: Any, data_parties: Document | None = None) -> None:
    """At the server: one message to all others; what is for data parties only goes into theirs."""
    for party in federation.data:
        party_of(ctx, party).put(name, everybody if data_parties is None else {**everybody, **data_parties})
    if federation.shuffler is not None:
        party_of(ctx, federation.shuffler).put(name, everybody)
