"""What trainings in rounds have in common, whatever is trained: agreed terms, one round at each party, and the end.

The server tells all data parties what a round is about; they say whether they are ready; it names the parties of the round
to everybody, or none where too few are ready; their messages go the way of `aggregation`. Whoever failed in a round may take
part in the next one.

A data party's line in its ledger comes before the message that it is for: `send_charged` is the one place that sees to it.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

from fate_dp.privacy import BudgetExceeded
from fate_dp.privacy.accounting.secure_sum import TooFewArrived
from fate_dp.privacy.events import Event

from ...common.charges import Charges
from ...common.federation import Context, Document, Federation, PartyId, name_of, party_name, party_of, require
from ..sealed_shuffle import TooFewMessages
from .aggregation import Aggregation, FateChannel, make_aggregation
from .contribution import Contribution, NoisyMean, RoundLost
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


def tell(ctx: Context, federation: Federation, name: str, everybody: Any, data_parties: Document | None = None) -> None:
    """At the server: one message to all others; what is for data parties only goes into theirs."""
    for party in federation.data:
        party_of(ctx, party).put(name, everybody if data_parties is None else {**everybody, **data_parties})
    if federation.shuffler is not None:
        party_of(ctx, federation.shuffler).put(name, everybody)


Settings = TypeVar("Settings")


@dataclass(frozen=True)
class AgreedTraining(Generic[Settings]):
    """The public terms of a task; the guest computed the promise, and every data party computed it anew."""

    settings: Settings
    federation: Federation
    terms: RoundTerms
    promise: Document


@dataclass
class RoundsRun:
    """How the rounds of a training went, by their numbers; subclasses have a ``problem``, why it failed or None."""

    run: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)

    def to_json(self) -> Document:
        return {"rounds run": len(self.run), "rounds aborted": len(self.aborted), "rounds lost": len(self.lost)}


def training_federation(parties: Iterable[PartyId], component: str, shuffler: str | None = None) -> Federation:
    """Roles of a task's parties: one guest, hosts with data, one arbiter and, where one is named, a shuffler."""
    parties = list(parties)
    require(parties, "guest", f"{component} needs exactly one.", at_most=1)
    require(parties, "arbiter", f"{component} needs exactly one, which is the server.", at_most=1)
    return Federation.of(parties, shuffler)


def charge(charges: Charges, events: Sequence[tuple[Event, int]], purpose: str) -> bool:
    """Whether this party's ledger holds these events now; not where the cap does not allow them any more."""
    try:
        charges.record(list(events), purpose)
        return True
    except BudgetExceeded:
        logger.exception("this party sends nothing: another job took what was left of the cap")
        return False


def unless_it_fails(make: Callable[[], Contribution], what: str) -> Contribution | None:
    """This party's part of ``what``, or None where it fails: the others go on, this party's log says why."""
    try:
        return make()
    except Exception:
        logger.exception(f"{what} failed at this party, which is left out of it")
        return None


def send_charged(
    ctx: Context, aggregation: Aggregation, share: Contribution | None, charges: Charges, charged: Callable[[], bool]
) -> None:
    """This party's message of a round, if it is ready and the server names it; ``charged`` writes to the ledger before."""
    server = party_of(ctx, aggregation.federation.server)
    server.put(READY, share is not None)
    present = server.get(PRESENT)
    if party_name(ctx) in present:
        is_charged = charged()
        aggregation.send(FateChannel(ctx), share if is_charged else None, present)
        if is_charged:
            charges.mark_released()


def call_parties(ctx: Context, aggregation: Aggregation, number: int) -> list[str]:
    """At the server: names of the ready data parties, none where they are too few, as all are told."""
    federation = aggregation.federation
    positions = [at for at, party in enumerate(federation.data) if party_of(ctx, party).get(READY)]
    try:
        aggregation.check_ready(positions, number)
    except (TooFewArrived, TooFewMessages) as error:
        logger.warning(f"round {number} is aborted before anything is sent: {error}")
        positions = []
    present = [name_of(federation.data[at]) for at in positions]
    tell(ctx, federation, PRESENT, present)
    return present


def mean_of_round(
    ctx: Context, aggregation: Aggregation, number: int, clip: float, course: RoundsRun
) -> tuple[NoisyMean | None, int]:
    """At the server: the mean of a round and of how many parties it is; None where the round was aborted or lost."""
    present = call_parties(ctx, aggregation, number)
    if not present:
        course.aborted.append(number)
        return None, 0
    course.run.append(number)
    try:
        return aggregation.receive(FateChannel(ctx), present, number, clip), len(present)
    except (RoundLost, TooFewMessages) as error:
        logger.warning(f"round {number} is spent and gives no step: {error}")
        course.lost.append(number)
        return None, 0


def without_model(role: str, privacy: Document) -> Document:
    """What a party without records writes: it keeps no model."""
    return {"data": {"estimator": None}, "meta": {"role": role, "privacy": privacy}}


def end_rounds(ctx: Context, federation: Federation, course: Any, results: Document) -> None:
    """At the server: how it went to everybody, and ``results`` to the data parties; raises where it failed, as all do."""
    if not course.problem and len(course.run) == len(course.lost):
        course.problem = NOT_ONE_ROUND
    tell(ctx.sub_ctx(OUTCOME), federation, OUTCOME, asdict(course), results)
    if course.problem:
        raise ValueError(course.problem)
