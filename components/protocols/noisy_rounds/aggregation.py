"""The three trust models: what a client sends in a round, what is passed on, and what the server makes of it.

Every party of a task has an `Aggregation` of its own and plays one role in it; a `Channel` carries its messages, over
FATE's federation (`FateChannel`) or in one process (in tests). Messages are bytes.

- `Local`: each client adds all the noise that its records need, and the server sees every noisy vector. With several
  local steps each of them is a release of its own, and what is sent, the way from the old weights to the new, is
  post-processing. So is leaving out all but the largest coordinates, because they are chosen after the noise.
- `SecureSum`: clipped sums with shares of noise, added modulo 2^64 under masks. A client's noise is a discrete Gaussian on
  the grid of the clip, of the standard deviation that ``noise_share_sigma`` gives n - t shares
  (`privacy.accounting.secure_sum`). Its steps without masks carry only that share: they must reach nobody. Masks between
  every two present clients see to that: anything but the sum of *all* of these is uniform to the server, so it never
  holds a partial sum that it could open.
- `Shuffle`: one pure local-DP answer per record, of which the server sees all but not whose they are, while the shuffler
  sees who sent how many ciphertexts. Vectors may travel in pieces (`protocols.sealed_shuffle`), which is accounted as
  whole vectors.
"""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fate_dp.crypto.pairwise_masks import AgreementKey, PairwiseMasks
from fate_dp.crypto.sealed_box import BoxKey
from fate_dp.privacy.accounting.secure_sum import TooFewArrived, check_arrivals, noise_share_sigma
from fate_dp.privacy.events import ADD_OR_REMOVE, Release
from fate_dp.privacy.mechanisms.clipping import ClippedSum, grid_for
from fate_dp.privacy.mechanisms.gaussian import gaussian_mechanism
from fate_dp.privacy.noise.discrete import discrete_gaussian
from fate_dp.privacy.noise.stream import Stream
from fate_dp.privacy.validation import refusal

from ...common.federation import Context, Federation, PartyId, name_of, own_party, party_of
from ..sealed_shuffle import Analyzer, Encoder, MessageFormat, Piece, Splitting, TooFewMessages, check_enough, shuffle
from ..sealed_shuffle import InvalidMessage as InvalidShuffledMessage
from .account import OBSERVERS, min_messages, noise_of, scheduled_messages, secure_sum_of, senders
from .contribution import Contribution, InvalidMessage, NoisyMean, RoundLost, joint_clip, split_indicator
from .terms import LOCAL, SECURE_SUM, SHUFFLE, RoundTerms

logger = logging.getLogger(__name__)

MESSAGE, SHUFFLED, PUBLIC_KEY, SERVER_KEY = "message", "shuffled", "public_key", "server_key"
LOST = b""
"""In place of a message of a party that failed after it was named as present."""
VALUE, INDEX, WORD = np.dtype("<f8"), np.dtype("<u4"), np.dtype("<u8")


class Channel(Protocol):
    """Messages between one party and the others, in one round or before the first."""

    @property
    def me(self) -> PartyId: ...

    @property
    def session(self) -> str: ...

    def put(self, party: PartyId, name: str, value: object) -> None: ...

    def get(self, party: PartyId, name: str) -> Any: ...


@dataclass(frozen=True)
class FateChannel:
    """`Channel` over FATE's federation, within one of its contexts."""

    ctx: Context

    @property
    def me(self) -> PartyId:
        return own_party(self.ctx)

    @property
    def session(self) -> str:
        return self.ctx.federation.session_id

    def put(self, party: PartyId, name: str, value: object) -> None:
        party_of(self.ctx, party).put(name, value)

    def get(self, party: PartyId, name: str) -> Any:
        return party_of(self.ctx, party).get(name)


class Aggregation(ABC):
    """One party's part of a trust model: of a party with data, a client; of the arbiter, the server; or of the shuffler.

    The server asks `check_ready` *before* anything is encoded, so that of a round that it refuses nothing has left. Of
    the terms only sizes are read, since the source's rule has no noise multiplier.
    """

    def __init__(self, terms: RoundTerms, federation: Federation) -> None:
        self.terms, self.federation = terms, federation
        self.receiver = federation.server

    def offer_keys(self, channel: Channel) -> None:  # noqa: B027
        """Before the first round: send what the others need of this party's keys."""

    def take_keys(self, channel: Channel) -> None:  # noqa: B027
        """After `offer_keys` of all parties: take what this party needs of theirs."""

    @abstractmethod
    def check_ready(self, positions: Sequence[int], round_number: int) -> None:
        """At the server: raises TooFewArrived, or TooFewMessages in `Shuffle`, unless these clients are enough."""

    def send(self, channel: Channel, contribution: Contribution | None, present: Collection[str]) -> None:
        """At a client: the message of a round, in which the clients of the names ``present`` take part, to whoever gets it.

        ``contribution`` is None where this party failed after it was named as present.
        """
        channel.put(self.receiver, MESSAGE, LOST if contribution is None else self.encode(contribution, present))

    @abstractmethod
    def encode(self, contribution: Contribution, present: Collection[str]) -> bytes: ...

    @abstractmethod
    def receive(self, channel: Channel, present: Collection[str], round_number: int, clip: float) -> NoisyMean:
        """At the server: the noisy mean of a round; raises RoundLost where it is spent and gives no step."""


class Local(Aggregation):
    """Noisy vectors go to the server one by one."""

    @staticmethod
    def release(clipped: ClippedSum, terms: RoundTerms, stream: Stream) -> Release:
        """A client's clipped sum with all its noise: float64 (vector_length,), one noised step.

        ``account.round_event`` has an event for either relation, whose slack is at least as large.
        """
        return gaussian_mechanism(
            clipped,
            noise_of(terms),
            relation=ADD_OR_REMOVE,
            observers=OBSERVERS,
            unit=terms.unit,
            sampling_probability=terms.sampling_probability,
            rng=stream,
        )

    @classmethod
    def noised(cls, clipped: ClippedSum, terms: RoundTerms, stream: Stream) -> np.ndarray:
        return np.asarray(cls.release(clipped, terms, stream).value)

    def check_ready(self, positions: Sequence[int], round_number: int) -> None:
        if len(positions) < self.terms.least_arrivals:
            raise TooFewArrived(
                f"{len(positions)} of {self.terms.clients} clients are ready for round {round_number}, which takes at "
                f"least {self.terms.least_arrivals}; it is aborted before anything is sent."
            )

    def receive(self, channel: Channel, present: Collection[str], round_number: int, clip: float) -> NoisyMean:
        return self.decode(self.messages(channel, present), clip)

    def messages(self, channel: Channel, present: Collection[str]) -> list[bytes]:
        """At the server: what arrived of all present clients; raises `RoundLost` as `receive`."""
        arrived = [channel.get(party, MESSAGE) for party in self.federation.named(present)]
        messages = [message for message in arrived if message != LOST]
        if len(messages) < self.terms.least_arrivals:
            raise RoundLost(
                f"Messages of {len(messages)} parties arrived; it takes those of {self.terms.least_arrivals}."
            )
        return messages

    def encode(self, contribution: Contribution, present: Collection[str]) -> bytes:
        """All values, or indices and values of the largest ones; the clip's indicator comes last."""
        terms, values = self.terms, np.asarray(contribution.content, dtype=VALUE)
        if terms.upload_fraction == 1:
            return values.tobytes()
        kept, gradient = self._kept_coordinates, values[: terms.dimension]
        indices = np.sort(np.argpartition(-np.abs(gradient), kept - 1)[:kept])
        sent = np.concatenate([gradient[indices], values[terms.dimension :]])
        return indices.astype(INDEX).tobytes() + sent.astype(VALUE).tobytes()

    def decode(self, messages: Sequence[bytes], clip: float) -> NoisyMean:
        """The server's mean from the messages that arrived; clients that did not arrive count as zero."""
        terms = self.terms
        if len(messages) < terms.least_arrivals:
            wanted = f"at least {terms.least_arrivals} of {terms.clients} clients"
            raise TooFewArrived(refusal("arrived", len(messages), wanted, "The round is aborted."))
        total = np.zeros(terms.vector_length)
        for message in messages:
            total += self._vector(message)
        return NoisyMean(total) if terms.noised_steps > 1 else split_indicator(total, terms, clip)

    @property
    def _kept_coordinates(self) -> int:
        return max(1, math.ceil(self.terms.upload_fraction * self.terms.dimension))

    def _vector(self, message: bytes) -> np.ndarray:
        terms, kept = self.terms, self._kept_coordinates
        extra = terms.vector_length - terms.dimension
        heading = 0 if terms.upload_fraction == 1 else kept * INDEX.itemsize
        _check_size(message, heading + (kept + extra) * VALUE.itemsize)
        values = np.frombuffer(message, dtype=VALUE, offset=heading)
        if not np.isfinite(values).all():
            raise InvalidMessage("A message holds a number that is not finite.")
        if not heading:
            return values
        indices = np.frombuffer(message, dtype=INDEX, count=kept)
        if indices.max() >= terms.dimension or (np.diff(indices.astype(np.int64)) <= 0).any():
            raise InvalidMessage(f"A message's indices must be increasing and below {terms.dimension}.")
        vector = np.zeros(terms.vector_length)
        vector[indices], vector[terms.dimension :] = values[:kept], values[kept:]
        return vector


class SecureSum(Local):
    """Vectors go to the server under masks; every two clients agree on a key, and exchange public keys directly."""

    _key: AgreementKey
    _masks: PairwiseMasks

    def __init__(self, terms: RoundTerms, federation: Federation) -> None:
        super().__init__(terms, federation)
        self._sum = secure_sum_of(terms.with_noise(noise_multiplier=1.0) if terms.noise_multiplier is None else terms)

    @staticmethod
    def noised(clipped: ClippedSum, terms: RoundTerms, stream: Stream) -> np.ndarray:
        """A client's clipped sum plus its share of the noise, int64 (vector_length,); secret until masked."""
        share = noise_share_sigma(noise_of(terms), clipped.clip / clipped.grid, terms.clients, terms.max_dropouts)
        return clipped.steps + discrete_gaussian(share, clipped.steps.shape, stream)

    def offer_keys(self, channel: Channel) -> None:
        if channel.me in self.federation.data:
            self._key = AgreementKey()
            for party in self._others(channel):
                channel.put(party, PUBLIC_KEY, self._key.public_bytes)

    def take_keys(self, channel: Channel) -> None:
        if channel.me in self.federation.data:
            keys = {name_of(party): channel.get(party, PUBLIC_KEY) for party in self._others(channel)}
            keys[name_of(channel.me)] = self._key.public_bytes
            self._masks = PairwiseMasks(name_of(channel.me), self._key, keys, channel.session)

    def messages(self, channel: Channel, present: Collection[str]) -> list[bytes]:
        messages = super().messages(channel, present)
        if len(messages) < len(present):
            raise RoundLost(
                f"{len(present) - len(messages)} of {len(present)} masked vectors got lost, so the masks do not cancel."
            )
        return messages

    def encode(self, contribution: Contribution, present: Collection[str]) -> bytes:
        """The client's steps as 8 bytes each, little-endian, modulo 2^64.

        Refuses (TooFewArrived) a set of clients whose sum would have less noise than was promised.
        """
        check_arrivals(self._sum, len(present))
        masked = self._masks.masked(contribution.content, contribution.round_number, present)
        return masked.astype(WORD).tobytes()

    def decode(self, messages: Sequence[bytes], clip: float) -> NoisyMean:
        """The server's mean from the messages of *all* clients that were named as present; of too few none is added up."""
        terms = self.terms
        check_arrivals(self._sum, len(messages))
        total = np.zeros(terms.vector_length, dtype=np.uint64)
        for message in messages:
            _check_size(message, terms.vector_length * WORD.itemsize)
            total += np.frombuffer(message, dtype=WORD)
        bound = clip if terms.clip_quantile is None else joint_clip(clip)
        return split_indicator(total.view(np.int64) * grid_for(bound), terms, clip)

    def _others(self, channel: Channel) -> list[PartyId]:
        return [party for party in self.federation.data if party != channel.me]


class Shuffle(Aggregation):
    """Answers go to the shuffler, sealed to the server, and in random order to the server.

    The server has the key to them and sees no sender; the shuffler hands on nothing where messages are too few.
    """

    _analyzer: Analyzer
    _server_key: bytes
    _session: str

    def __init__(self, terms: RoundTerms, federation: Federation, message_splitting: str = "none") -> None:
        super().__init__(terms, federation)
        assert federation.shuffler is not None
        self.receiver = federation.shuffler
        self.splitting = Splitting(terms.dimension, message_splitting)
        self.message_bytes = MessageFormat(self.splitting.payload_bytes).ciphertext_bytes
        self._least = min_messages(terms) * self.splitting.positions

    def offer_keys(self, channel: Channel) -> None:
        if channel.me == self.federation.server:
            self._analyzer = Analyzer(BoxKey(), self.splitting.payload_bytes, self._least, channel.session)
            for party in self.federation.data:
                channel.put(party, SERVER_KEY, self._analyzer.public_key)

    def take_keys(self, channel: Channel) -> None:
        if channel.me in self.federation.data:
            self._session = channel.session
            self._server_key = channel.get(self.federation.server, SERVER_KEY)

    def check_ready(self, positions: Sequence[int], round_number: int) -> None:
        messages = sum(len(senders(self.terms, position, round_number)) for position in positions)
        check_enough(messages * self.splitting.positions, self._least)

    def relay(self, channel: Channel, present: Collection[str], round_number: int) -> int:
        """At the shuffler: pass on the messages of a round in a random order; returns how many."""
        arrived = [
            item for party in self.federation.named(present) for item in self._received(channel, party, round_number)
        ]
        try:
            mixed = shuffle(arrived, self._least)
        except (TooFewMessages, InvalidShuffledMessage) as error:
            logger.warning(f"round {round_number} ends here, nothing is passed on: {error}")
            mixed = []
        channel.put(self.federation.server, SHUFFLED, b"".join(mixed))
        return len(mixed)

    def receive(self, channel: Channel, present: Collection[str], round_number: int, clip: float) -> NoisyMean:
        content = channel.get(self.receiver, SHUFFLED)
        if content == LOST:
            raise RoundLost("Too few messages arrived at the shuffler; it passed none on.")
        return self.decode(self._analyzer.open_pieces(self._cut(content), round_number), round_number)

    def encode(self, contribution: Contribution, present: Collection[str]) -> bytes:
        size = self.splitting.payload_bytes
        encoder = Encoder(self._server_key, contribution.round_number, size, self._session)
        return b"".join(encoder.encode_pieces(self.pieces(contribution)))

    def pieces(self, contribution: Contribution) -> list[Piece]:
        """The pieces of a client's answers; private until sealed."""
        return [piece for answer in contribution.content for piece in self.splitting.pieces(answer)]

    def decode(self, pieces: Sequence[Piece], round_number: int) -> NoisyMean:
        """The answers' sum over the number of messages that the schedule says, scaled back."""
        terms = self.terms
        total, vectors = self.splitting.sum_of(pieces)
        if vectors < min_messages(terms):
            raise TooFewMessages(f"{vectors} messages arrived in this round; it takes at least {min_messages(terms)}.")
        return NoisyMean(total / scheduled_messages(terms, round_number) * terms.factors)

    def _received(self, channel: Channel, party: PartyId, round_number: int) -> list[bytes]:
        """A party's messages, none unless they are as many as the schedule says: surplus would hide missing ones."""
        messages = self._cut(channel.get(party, MESSAGE))
        position = self.federation.data.index(party)
        scheduled = len(senders(self.terms, position, round_number)) * self.splitting.positions
        if len(messages) == scheduled:
            return messages
        logger.warning(f"{name_of(party)} sent {len(messages)} messages instead of {scheduled}; they are left out.")
        return []

    def _cut(self, content: bytes) -> list[bytes]:
        size = self.message_bytes
        return [content[at : at + size] for at in range(0, len(content), size)]


KINDS: dict[str, type[Local]] = {LOCAL: Local, SECURE_SUM: SecureSum}
"""Trust models in which a client sends one vector."""


def make_aggregation(terms: RoundTerms, federation: Federation, message_splitting: str = "none") -> Aggregation:
    if terms.aggregation == SHUFFLE:
        return Shuffle(terms, federation, message_splitting)
    return KINDS[terms.aggregation](terms, federation)


def _check_size(message: bytes, size: int) -> None:
    if len(message) != size:
        raise InvalidMessage(f"A message must have {size} bytes, got {len(message)}.")
