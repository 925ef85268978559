"""How the contributions of a round travel over FATE's federation, by trust model: the client's side and the server's.

Messages are bytes. What a party learns: in ``local`` the server every noisy vector; in ``secure_sum`` the sum of all
present parties' vectors, since masks between every two of them hide all else; in ``shuffle`` the shuffled answers, while
the shuffler sees who sent how many ciphertexts.
"""
import logging
from typing import Optional, Sequence

import numpy as np

from fate_dp.components.shuffler.analyzer import Analyzer
from fate_dp.components.shuffler.encoder import Encoder
from fate_dp.components.shuffler.members import party_of
from fate_dp.components.shuffler.messages import InvalidMessage, MessageFormat, TooFewMessages
from fate_dp.components.shuffler.shuffle import shuffle
from fate_dp.crypto.key_agreement import AgreementKey
from fate_dp.crypto.pairwise_masks import PairwiseMasks
from fate_dp.crypto.sealed_box import BoxKey
from fate_dp.privacy.accounting.secure_sum import check_arrivals

from .preflight_checks import Federation, name_of
from .rounds import local, secure_sum, shuffled
from .rounds.account import secure_sum_of
from .rounds.contribution import Contribution, NoisyMean, RoundLost
from .rounds.schedule import least_messages, senders
from .rounds.terms import LOCAL, SECURE_SUM, RoundTerms

logger = logging.getLogger(__name__)
MESSAGE, SHUFFLED, PUBLIC_KEY, SERVER_KEY = "message", "shuffled", "public_key", "server_key"
# In place of a message of a party that failed after it was named as present.
LOST = b""


class ClientSide:
    """At a data party: contributions go to the server as they are.

    :param ctx: of the whole task; keys are exchanged once.
    """

    def __init__(self, ctx, federation: Federation, terms: RoundTerms, split: str = "none"):
        self.federation, self.terms, self.split = federation, terms, split
        self.receiver = federation.server
        self._set_up(ctx)

    def send(self, ctx, contribution: Optional[Contribution], present: Sequence[str]) -> None:
        """The message of a round to whoever gets it; None where this party failed after it was named as present."""
        message = LOST if contribution is None else self._encoded(contribution, present)
        party_of(ctx, self.receiver).put(MESSAGE, message)

    def send_contributions(self, ctx, share: Optional[np.ndarray], present: Sequence[str]) -> None:
        """This party's part of the release that adaptive noise needs, as ``send``."""
        party_of(ctx, self.receiver).put(MESSAGE, LOST if share is None else self._encoded_share(share, present))

    def _encoded_share(self, share, present):
        return share.astype("<f8").tobytes()

    def _set_up(self, ctx):
        """Nothing to agree on."""

    def _encoded(self, contribution, present):
        return local.encode(contribution, self.terms)


class MaskingSide(ClientSide):
    """Vectors go to the server under masks; every two data parties agree on a key, and exchange public keys directly."""

    def _set_up(self, ctx):
        me, key = tuple(ctx.federation.local_party), AgreementKey()
        others = [party for party in self.federation.data if party != me]
        for party in others:
            party_of(ctx, party).put(PUBLIC_KEY, key.public_bytes)
        keys = {name_of(party): party_of(ctx, party).get(PUBLIC_KEY) for party in others}
        self._masks = PairwiseMasks(name_of(me), key, {**keys, name_of(me): key.public_bytes}, ctx.federation.session_id)

    def _encoded(self, contribution, present):
        # The server names who is present; a smaller set would have less noise in its sum than was promised.
        check_arrivals(secure_sum_of(sized(self.terms)), len(present))
        return secure_sum.encode(contribution, self._masks, present)

    def _encoded_share(self, share, present):
        check_arrivals(secure_sum_of(self.terms), len(present))
        # One more round for the masks, after all that are planned.
        return self._masks.masked(share, self.terms.rounds, present).astype("<u8").tobytes()


class SealingSide(ClientSide):
    """Answers go to the shuffler, each sealed to the server."""

    def _set_up(self, ctx):
        self.receiver = self.federation.shuffler
        self._session, self._splitting = ctx.federation.session_id, shuffled.splitting_of(self.terms, self.split)
        self._server_key = party_of(ctx, self.federation.server).get(SERVER_KEY)

    def _encoded(self, contribution, present):
        number, size = contribution.round_number, self._splitting.payload_bytes
        encoder = Encoder(self._server_key, number, size, self._session)
        return b"".join(encoder.encode_pieces(shuffled.encode(contribution, self._splitting)))


class ServerSide:
    """At the arbiter: messages of all present parties, opened and added up."""

    def __init__(self, ctx, federation: Federation, terms: RoundTerms, split: str = "none"):
        self.federation, self.terms, self.split = federation, terms, split
        self._set_up(ctx)

    def receive(self, ctx, present: Sequence[str], round_number: int, clip: float) -> NoisyMean:
        """The noisy mean of a round.

        :raises RoundLost: a party failed after it was named as present; the round is spent and gives no step.
        """
        messages = self.messages(ctx, present)
        return (local if self.terms.trust == LOCAL else secure_sum).decode(messages, sized(self.terms), clip)

    def messages(self, ctx, present: Sequence[str]) -> list:
        """One from each present party; raises RoundLost as ``receive``."""
        arrived = [party_of(ctx, party).get(MESSAGE) for party in self.federation.named(present)]
        messages = [message for message in arrived if message != LOST]
        if self.terms.trust == SECURE_SUM and len(messages) < len(arrived):
            raise RoundLost(
                f"{len(arrived) - len(messages)} of {len(arrived)} masked vectors got lost, so the masks do not cancel."
            )
        if len(messages) < self.terms.least_arrivals:
            raise RoundLost(f"Messages of {len(messages)} parties arrived; it takes those of {self.terms.least_arrivals}.")
        return messages

    def _set_up(self, ctx):
        """Nothing to agree on."""


class OpeningSide(ServerSide):
    """Shuffled answers come from the shuffler; this side has the key to them and sees no sender."""

    def receive(self, ctx, present, round_number, clip):
        content = party_of(ctx, self.federation.shuffler).get(SHUFFLED)
        if content == LOST:
            raise RoundLost("Too few messages arrived at the shuffler; it passed none on.")
        ciphertexts = cut(content, self._analyzer.format.ciphertext_bytes)
        pieces = self._analyzer.open_pieces(ciphertexts, round_number)
        return shuffled.decode(pieces, self.terms, round_number, self._splitting)

    def _set_up(self, ctx):
        self._splitting = shuffled.splitting_of(self.terms, self.split)
        least = least_messages(self.terms) * self._splitting.positions
        self._analyzer = Analyzer(BoxKey(), self._splitting.payload_bytes, least, ctx.federation.session_id)
        for party in self.federation.data:
            party_of(ctx, party).put(SERVER_KEY, self._analyzer.public_key)


class Relay:
    """At the shuffler: ciphertexts of all present parties in a random order, or nothing where they are too few."""

    def __init__(self, federation: Federation, terms: RoundTerms, split: str):
        self.federation, self._terms, self._splitting = federation, terms, shuffled.splitting_of(terms, split)
        self._least = least_messages(terms) * self._splitting.positions
        self._size = MessageFormat(self._splitting.payload_bytes).ciphertext_bytes
        self.passed_on = 0

    def relay(self, ctx, present: Sequence[str], round_number: int) -> None:
        arrived = [item for party in self.federation.named(present) for item in self._received(ctx, party, round_number)]
        try:
            mixed = shuffle(arrived, self._least)
        except (TooFewMessages, InvalidMessage) as error:
            logger.warning(f"round {round_number} ends here, nothing is passed on: {error}")
            mixed = []
        self.passed_on += len(mixed)
        party_of(ctx, self.federation.server).put(SHUFFLED, b"".join(mixed))

    def _received(self, ctx, party, round_number) -> list:
        """A party's ciphertexts, none unless they are as many as the schedule says: surplus would hide missing ones."""
        ciphertexts = cut(party_of(ctx, party).get(MESSAGE), self._size)
        position = self.federation.data.index(party)
        scheduled = len(senders(self._terms, position, round_number)) * self._splitting.positions
        if len(ciphertexts) == scheduled:
            return ciphertexts
        logger.warning(f"{name_of(party)} sent {len(ciphertexts)} messages instead of {scheduled}; they are left out.")
        return []


def sized(terms: RoundTerms) -> RoundTerms:
    """Terms for counting and adding up, which read sizes only: the source's rule has no noise multiplier."""
    return terms.with_noise(noise_multiplier=1.0) if terms.noise_multiplier is None else terms


def cut(content: bytes, size: int) -> list:
    """Ciphertexts of one size that were joined."""
    return [content[at : at + size] for at in range(0, len(content), size)]


def client_side(ctx, federation: Federation, terms: RoundTerms, split: str) -> ClientSide:
    kinds = {LOCAL: ClientSide, SECURE_SUM: MaskingSide}
    return kinds.get(terms.trust, SealingSide)(ctx, federation, terms, split)


def server_side(ctx, federation: Federation, terms: RoundTerms, split: str) -> ServerSide:
    kinds = {LOCAL: ServerSide, SECURE_SUM: ServerSide}
    return kinds.get(terms.trust, OpeningSide)(ctx, federation, terms, split)
