"""One task of the shuffle model, in one order at every party.

1. Terms: requests, epsilon0, tables. 2. Numbers of records, and each client's cap. 3. Messages to the shuffler, charged
before they leave. 4. Shuffled messages to the server, which opens them. Whatever is refused at a step ends the task at
every party with the reason, and nothing of the next step is sent. 5. The statistics go to the clients.

The shuffler sees who sent how many ciphertexts of one size; the server sees payloads in random order. What the payloads
themselves protect (a pure local randomiser each) and what shuffling adds to it is the business of `privacy`; transport
(`protocols.sealed_shuffle`) knows no epsilon. A shuffler that colludes with the server undoes the shuffling, never the
randomisers.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fate_dp.crypto.sealed_box import BoxKey
from fate_dp.privacy.mechanisms.randomized_response import grid_randomized_response
from fate_dp.privacy.noise.stream import KEY_BYTES, KeyedStream

from ..common.charges import Charges
from ..common.federation import (
    Context,
    Document,
    Federation,
    PartyId,
    name_of,
    own_party,
    party_name,
    party_of,
    require,
)
from ..common.frames import DataFrame, block_of, feature_blocks, refuse_weights, require_distinct_ids
from ..common.preflight import Preflight, Refusal, Together, about_settings, show_summary
from ..protocols.sealed_shuffle import Analyzer, Encoder, InvalidMessage, MessageFormat, TooFewMessages, shuffle
from .settings import Request, Settings
from .statistics import OBSERVERS, calibrated_epsilon0, document, epsilon_of, events_of, statistic, summary

# Names of the steps' contexts and messages.
COUNTS, SENDING, OPENING = "counts", "sending", "opening"
RECORDS, SERVER_KEY, STATISTICS = "records", "server_key", "statistics"
ANSWER_BYTES = 2
MESSAGE_BYTES = MessageFormat(ANSWER_BYTES).ciphertext_bytes
REFUSAL = "The cap that this party's operator set for private steps does not allow these statistics."
LAST_BITS = 1e-9
"""Relative: two machines may round differently."""


def run(ctx: Context, settings: Settings, frame: DataFrame | None) -> Document:
    """This party's part; returns the model document. The shuffler and the arbiter have no table."""
    check_federation(ctx.federation.parties)
    terms = ShuffleTerms(ctx, settings, frame).agree()
    federation = federation_of(ctx.federation.parties, terms["settings"]["shuffler"])
    kinds: dict[PartyId | None, type[Role]] = {federation.arbiter: Server, federation.shuffler: Shuffler}
    return kinds.get(own_party(ctx), Client)(ctx, settings, terms, federation, frame).run()


def check_federation(parties: Sequence[PartyId]) -> None:
    for role in ("guest", "arbiter"):
        require(parties, role, "shuffler needs exactly one.", at_most=1)
    require(parties, "host", "shuffler needs a host without data that shuffles, and one with data.")


def federation_of(parties: Sequence[PartyId], shuffler: str) -> Federation:
    """Who plays what: guest and hosts with data answer, one host without data shuffles, the arbiter is the server."""
    federation = Federation.of(parties, shuffler)
    if federation.shuffler is None:
        hosts = ", ".join(number for role, number in parties if role == "host")
        raise Refusal.of("shuffler", shuffler, f"the party id of a host, one of {hosts}")
    if not federation.hosts:
        raise Refusal("The job names no host beside the shuffler; records of one party hide among those of others.")
    return federation


@dataclass(frozen=True)
class Sealing:
    """What all answers of a party are made with in one task: epsilon0 (nats) of a message, and 32 secret bytes."""

    epsilon0: float
    server_key: bytes
    session: str
    key: bytes = field(repr=False)


def sealed_answers(frame: DataFrame, request: Request, number: int, sealing: Sealing) -> list[bytes]:
    """The party's ciphertexts for request ``number``: one of ``MESSAGE_BYTES`` per record, on the driver.

    An engine such as Spark may compute a block twice. The coins of a block are therefore a function of a key that the
    party draws once per task, of the request and of the block: a record never answers one request in two ways.
    """
    kernel = partial(_sealed_block, request=request, number=number, sealing=sealing)
    blocks = feature_blocks(frame[[request.column]]).map(kernel).collect()
    return [ciphertext for _, block in sorted(blocks) for ciphertext in block]


def payloads_of(answers: np.ndarray) -> list:
    """Indices (n,) of a grid as bytes of one size."""
    return [int(answer).to_bytes(ANSWER_BYTES, "big") for answer in answers]


def answers_of(payloads: Sequence[bytes], request: Request) -> np.ndarray:
    """Indices (n,) from what the server opened; refuses a payload that is no answer to the request."""
    if any(len(payload) != ANSWER_BYTES for payload in payloads):
        raise ValueError(f"A message about the {request.name} does not hold {ANSWER_BYTES} bytes.")
    answers = np.frombuffer(b"".join(payloads), dtype=f">u{ANSWER_BYTES}").astype(np.int64)
    if (answers >= len(request.grid)).any():
        raise ValueError(f"A message about the {request.name} is no point of its grid.")
    return answers


def _sealed_block(
    block: int, values: np.ndarray, request: Request, number: int, sealing: Sealing
) -> tuple[int, list[bytes]]:
    answers = randomized_block(block, values[:, 0], request, number, sealing.epsilon0, sealing.key)
    encoder = Encoder(sealing.server_key, number, ANSWER_BYTES, sealing.session)
    return block, encoder.encode(payloads_of(answers))


def randomized_block(
    block: int, values: np.ndarray, request: Request, number: int, epsilon0: float, key: bytes
) -> np.ndarray:
    """Indices of the request's grid, one per value of the block; the same call gives the same ones."""
    stream = KeyedStream(key, f"shuffler request {number} block {block}")
    return grid_randomized_response(
        request.on_grid(values), request.grid, epsilon0, observers=OBSERVERS, rng=stream
    ).value


@dataclass
class ShuffleTerms(Preflight):
    """{settings, epsilon0, epsilon}, in builtins, the same at every party."""

    settings: Settings
    frame: DataFrame | None

    def check(self) -> Document:
        federation = federation_of(self.ctx.federation.parties, self.settings.shuffler)
        if own_party(self.ctx) == federation.shuffler:
            # Its own messages would be among those that it shuffles, and hide nobody from it.
            if self.frame is not None:
                raise Refusal(
                    "The shuffler was given a table; name a host that brings no data, and keep its reader out."
                )
        elif not self.ctx.is_on_arbiter:
            check_table(self.frame, self.settings.requests)
        return {"asked": self.settings.to_json()}

    @about_settings()
    def commit(self, hosts: dict[str, Document]) -> Document:
        own = self.settings.to_json()
        for name, theirs in ((name, facts["asked"]) for name, facts in hosts.items()):
            differing = next((field for field in own if theirs.get(field) != own[field]), None)
            if differing is not None:
                allowed = f"{own[differing]!r}, as at the guest"
                why = "Ask for the same at all parties, since only messages of one kind hide each other."
                raise Refusal.of(f"{differing} at {name}", theirs.get(differing), allowed, why)
        requests, epsilon0, least = self.settings.requests, self.settings.epsilon0, self.settings.min_messages
        if epsilon0 is None:
            assert self.settings.epsilon is not None, "One of the two is given."
            epsilon0 = calibrated_epsilon0(requests, self.settings.epsilon, self.settings.delta, least)
        epsilon = epsilon_of(requests, epsilon0, least, self.settings.delta)
        return {"settings": own, "epsilon0": epsilon0, "epsilon": epsilon}


def check_table(frame: DataFrame | None, requests: Sequence[Request]) -> None:
    """Rows with ids of their own, and a numeric column for every request. Values are not looked at: those outside the
    declared range are clamped, so that no record decides whether the job goes on."""
    if frame is None or frame.shape[0] == 0:
        raise Refusal("The party has no rows; every party but the shuffler and the arbiter answers for its records.")
    refuse_weights(frame)
    columns = frame.schema.columns.to_list()
    for name in dict.fromkeys(request.column for request in requests):
        if name not in columns:
            raise ValueError(f"requests has the column {name!r}, which is not among the table's feature columns.")
        if not block_of(frame, name).is_numeric():
            raise ValueError(f"requests has the column {name!r}, which is not numeric.")
    require_distinct_ids(frame)


def check_promise(terms: Document, settings: Settings) -> None:
    """The guest's terms must be those of this party's own job, with the epsilon that its epsilon0 costs."""
    own, epsilon0 = settings.to_json(), terms["epsilon0"]
    differing = next((name for name, value in own.items() if terms["settings"].get(name) != value), None)
    if differing is not None:
        raise Refusal(f"{differing} must be {own[differing]!r}, as in the job, got another one from the guest.")
    if settings.epsilon0 is not None and epsilon0 != settings.epsilon0:
        raise Refusal(f"The guest sets epsilon0 to {epsilon0!r}; the job says {settings.epsilon0!r}.")
    reached = epsilon_of(settings.requests, epsilon0, settings.min_messages, settings.delta)
    allowed = terms["epsilon"] if settings.epsilon is None else min(settings.epsilon, terms["epsilon"])
    if reached > allowed * (1 + LAST_BITS) or terms["epsilon"] > reached * (1 + LAST_BITS):
        raise Refusal(f"The guest sets epsilon0 to {epsilon0!r}, which costs epsilon {reached:g}, not {allowed:g}.")


@dataclass
class Role(ABC):
    """What the three have in common. What all do together at a stage ends the task at all of them where it fails at one."""

    ctx: Context
    settings: Settings
    terms: Document
    federation: Federation
    frame: DataFrame | None

    @abstractmethod
    def run(self) -> Document:
        """This party's part of the task; what it writes as its model."""

    def all_do(self, stage: str, work: Callable[[], object] = dict) -> Any:
        """This party's work at a stage, or nothing where only others have some."""
        return Together(self.ctx)(stage, work)

    def party(self, stage: str, party: PartyId | None) -> Any:
        assert party is not None
        return party_of(self.ctx.sub_ctx(stage), party)


class Client(Role):
    """A party with records: each record answers each request by randomised response, sealed to the server.

    Guarantee: against the server, against another client and against whoever gets the statistics, (epsilon, delta) for
    the unit record, replace-one, as `statistics` composes it from one `Shuffled` event per request; against shuffler and
    server together epsilon0 for each request. Not covered: the number of records, and whether a column exists.
    """

    def run(self) -> Document:
        assert self.frame is not None, "Its check has passed."
        settings, epsilon0, records = self.settings, self.terms["epsilon0"], self.frame.shape[0]
        events = events_of(settings.requests, epsilon0, settings.min_messages)

        def promise() -> Charges:
            self.party(COUNTS, self.federation.shuffler).put(RECORDS, records)
            check_promise(self.terms, settings)
            charges = Charges(self.ctx, self.frame, REFUSAL)
            charges.check([(event, 1) for _, event in events])
            return charges

        charges = self.all_do(COUNTS, promise)
        server_key = self.party(COUNTS, self.federation.server).get(SERVER_KEY)
        for purpose, event in events:
            charges.record([(event, 1)], purpose)
        sealing = Sealing(epsilon0, server_key, self.ctx.federation.session_id, secrets.token_bytes(KEY_BYTES))
        for number, request in enumerate(settings.requests):
            sealed = sealed_answers(self.frame, request, number, sealing)
            self.party(SENDING, self.federation.shuffler).put(messages_about(number), b"".join(sealed))
        self.all_do(SENDING)
        self.all_do(OPENING)
        result = document(self.terms, self.party(OPENING, self.federation.server).get(STATISTICS))
        charges.mark_released()
        show_summary(self.ctx, summary(result, records))
        return result


class Shuffler(Role):
    """A host without data, which sees who sends how many ciphertexts and hands them on in a random order.

    All ciphertexts of one request are in this process at once, about 100 bytes a record: what is shuffled in parts hides
    a record among its part only. They come as one message of bytes, of which nothing is unpickled (`common.wire`). Too
    few records, or messages that are not what was announced, end the task before anything is passed on.
    """

    def run(self) -> Document:
        requests = self.settings.requests
        records = self.all_do(COUNTS, self._counted)
        mixed = self.all_do(SENDING, lambda: [self._shuffled(number, records) for number in range(len(requests))])
        for number, messages in enumerate(mixed):
            self.party(OPENING, self.federation.server).put(messages_about(number), b"".join(messages))
        self.all_do(OPENING)
        facts = {"rounds": len(requests), "messages of a round": sum(records.values())}
        show_summary(self.ctx, {"role": f"shuffler, {party_name(self.ctx)}", **facts})
        return document(self.terms, statistics=None)

    def _counted(self) -> dict[PartyId, int]:
        check_promise(self.terms, self.settings)
        records = {member: self.party(COUNTS, member).get(RECORDS) for member in self.federation.data}
        check_records(records, self.settings.min_messages)
        return records

    def _shuffled(self, number: int, records: Mapping[PartyId, int]) -> list[bytes]:
        arrived: list[bytes] = []
        for member, count in records.items():
            content = self.party(SENDING, member).get(messages_about(number))
            if len(content) != count * MESSAGE_BYTES:
                raise InvalidMessage(
                    f"{name_of(member)} announced {count} records and sent {len(content)} bytes, not {MESSAGE_BYTES} each."
                )
            arrived += pieces_of(content)
        return shuffle(arrived, self.settings.min_messages, presumed_dishonest=max(records.values()))


class Server(Role):
    """FATE's arbiter: it opens the shuffled answers, sees no sender, and computes the statistics."""

    def run(self) -> Document:
        session = self.ctx.federation.session_id
        analyzer = Analyzer(BoxKey(), ANSWER_BYTES, self.settings.min_messages, session)
        self.all_do(COUNTS, lambda: check_promise(self.terms, self.settings))
        for member in self.federation.data:
            self.party(COUNTS, member).put(SERVER_KEY, analyzer.public_key)
        self.all_do(SENDING)
        found = self.all_do(OPENING, lambda: self._statistics(analyzer))
        for member in self.federation.data:
            self.party(OPENING, member).put(STATISTICS, found)
        return document(self.terms, found)

    def _statistics(self, analyzer: Analyzer) -> list[Document]:
        requests, shuffler = self.settings.requests, self.party(OPENING, self.federation.shuffler)
        received = [shuffler.get(messages_about(number)) for number in range(len(requests))]
        return [
            statistic(request, answers_of(analyzer.open(pieces_of(content), number), request), self.terms["epsilon0"])
            for number, (request, content) in enumerate(zip(requests, received))
        ]


def check_records(records: Mapping[PartyId, int], min_messages: int) -> None:
    """Any one party knows its own messages, the largest one most: those of the others must be enough."""
    others = sum(records.values()) - max(records.values())
    if others < min_messages:
        raise TooFewMessages(
            f"Beside the largest party the others bring {others} records, fewer than min_messages, {min_messages}; "
            "nothing was sent. Fewer min_messages need a larger epsilon."
        )


def messages_about(number: int) -> str:
    return f"messages_{number}"


def pieces_of(content: bytes) -> list:
    return [content[at : at + MESSAGE_BYTES] for at in range(0, len(content), MESSAGE_BYTES)]
