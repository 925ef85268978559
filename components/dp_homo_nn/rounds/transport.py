"""How the contributions of a round reach the server in one process: the same encode and decode as between parties.

``encrypted`` switches masks and sealed boxes; the path is the same without. A transport refuses a round that too few
clients are ready for *before* it encodes anything, so nothing that a message would show has left.
"""
from fate_dp.components.shuffler.analyzer import Analyzer
from fate_dp.components.shuffler.encoder import Encoder
from fate_dp.components.shuffler.messages import check_enough
from fate_dp.components.shuffler.shuffle import shuffle
from fate_dp.crypto.key_agreement import AgreementKey
from fate_dp.crypto.pairwise_masks import PairwiseMasks
from fate_dp.crypto.sealed_box import BoxKey
from fate_dp.privacy.accounting.secure_sum import TooFewArrived
from fate_dp.privacy.mechanisms.permutation import random_permutation

from . import local, secure_sum, shuffled
from .contribution import RoundLost
from .schedule import least_messages, senders
from .terms import SECURE_SUM, SHUFFLE

SESSION = "simulation"


def make_transport(terms, encrypted=False, split="none"):
    """The transport of the terms' trust model."""
    if terms.trust == SHUFFLE:
        return ShuffleTransport(terms, encrypted, split)
    return SecureSumTransport(terms, encrypted) if terms.trust == SECURE_SUM else LocalTransport(terms)


class LocalTransport:
    """Noisy vectors go to the server one by one."""

    def __init__(self, terms):
        self.terms = terms

    def check_ready(self, positions, round_number):
        """:raises TooFewArrived: fewer clients are ready than ``terms.least_arrivals``."""
        if len(positions) < self.terms.least_arrivals:
            raise TooFewArrived(
                f"{len(positions)} of {self.terms.clients} clients are ready for round {round_number}, which takes at "
                f"least {self.terms.least_arrivals}; it is aborted before anything is sent."
            )

    def deliver(self, contributions, lost=frozenset()):
        """``NoisyMean`` of the contributions of all ready clients, of which the messages of ``lost`` got lost.

        :raises RoundLost: the round is spent without a result.
        """
        messages = [local.encode(each, self.terms) for each in contributions if each.position not in lost]
        try:
            return local.decode(messages, self.terms, contributions[0].clip)
        except TooFewArrived as error:
            raise RoundLost(str(error)) from error


class SecureSumTransport(LocalTransport):
    """Vectors go to the server under masks over the set of ready clients, which it can open all together only."""

    def __init__(self, terms, encrypted=False):
        super().__init__(terms)
        self._masks = _session_masks(terms.clients) if encrypted else None

    def deliver(self, contributions, lost=frozenset()):
        names = [_name_of(each.position) for each in contributions]
        messages = [
            secure_sum.encode(each, self._masks and self._masks[each.position], names)
            for each in contributions
            if each.position not in lost
        ]
        if len(messages) < len(names):
            raise RoundLost(
                f"{len(names) - len(messages)} of {len(names)} masked vectors got lost, so the masks do not cancel: "
                "the round is spent and gives no step."
            )
        return secure_sum.decode(messages, self.terms, contributions[0].clip)


class ShuffleTransport(LocalTransport):
    """Answers go to the shuffler, sealed to the server, and from there in random order to the server."""

    def __init__(self, terms, encrypted=False, split="none"):
        super().__init__(terms)
        self.splitting = shuffled.splitting_of(terms, split)
        self._least = least_messages(terms) * self.splitting.positions
        key = BoxKey() if encrypted else None
        self._analyzer = key and Analyzer(key, self.splitting.payload_bytes, self._least, SESSION)

    def check_ready(self, positions, round_number):
        """:raises TooFewMessages: the ready clients send too few messages in this round."""
        messages = sum(len(senders(self.terms, position, round_number)) for position in positions)
        check_enough(messages * self.splitting.positions, self._least)

    def deliver(self, contributions, lost=frozenset()):
        round_number = contributions[0].round_number
        arrived = [shuffled.encode(each, self.splitting) for each in contributions if each.position not in lost]
        if self._analyzer:
            pieces = self._sealed_and_opened(arrived, round_number)
        else:
            pieces = [piece for part in arrived for piece in part]
            check_enough(len(pieces), self._least)
            pieces = [pieces[at] for at in random_permutation(len(pieces)).tolist()]
        return shuffled.decode(pieces, self.terms, round_number, self.splitting)

    def _sealed_and_opened(self, arrived, round_number):
        encoder = Encoder(self._analyzer.public_key, round_number, self.splitting.payload_bytes, SESSION)
        ciphertexts = [ciphertext for part in arrived for ciphertext in encoder.encode_pieces(part)]
        return self._analyzer.open_pieces(shuffle(ciphertexts, self._least), round_number)


def _session_masks(clients):
    keys = [AgreementKey() for _ in range(clients)]
    public = {_name_of(position): key.public_bytes for position, key in enumerate(keys)}
    return [PairwiseMasks(_name_of(position), key, public, SESSION) for position, key in enumerate(keys)]


def _name_of(position):
    return f"client {position}"
