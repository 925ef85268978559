"""All parties of a training in one process, with their own code: for experiments and tests, not for real data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from fate_dp.components.common.federation import Federation, PartyId, name_of
from fate_dp.components.dp_homo_nn.rounds.client import Client, Scales, SecretOrders
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.protocols.noisy_rounds.aggregation import (
    Aggregation,
    Channel,
    Local,
    SecureSum,
    Shuffle,
    make_aggregation,
)
from fate_dp.components.protocols.noisy_rounds.contribution import Contribution, NoisyMean, RoundLost, with_indicators
from fate_dp.components.protocols.noisy_rounds.terms import SECURE_SUM, SHUFFLE, RoundTerms
from fate_dp.components.protocols.sealed_shuffle import MessageFormat, TooFewMessages
from fate_dp.privacy.accounting.secure_sum import TooFewArrived
from fate_dp.privacy.mechanisms.clipping import ClippedSum
from fate_dp.privacy.mechanisms.sampling import poisson_sample
from fate_dp.privacy.noise.stream import Stream, open_stream

RECORDS_AT_ONCE = 256


class ArrayRows:
    """Features, float32 (n, m), and labels (n,) of one client; everything it returns is private."""

    def __init__(self, features: np.ndarray, labels: np.ndarray, gradients: Any, rng: Stream | None = None) -> None:
        self.features, self.labels, self.gradients = features, labels, gradients
        self._stream = open_stream(rng)
        self._orders = SecretOrders(len(features), self._stream)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def private(self) -> bool:
        """Whether nobody else can repeat the samples."""
        return self._stream.private

    def gradient_sum(
        self, weights: np.ndarray, clip: float, probability: float, scales: Scales = None, indicators: bool = False
    ) -> ClippedSum:
        """``ClippedSum`` over a fresh Poisson sample."""
        batch = poisson_sample(len(self), probability, self._stream)
        if indicators:
            return with_indicators(self._scaled_rows(weights, batch, scales), clip)
        return self.gradients.clipped_sum(weights, self.features[batch], self.labels[batch], clip, scales)

    def gradient_rows(self, weights: np.ndarray, places: np.ndarray, epoch: int, scales: Scales = None) -> np.ndarray:
        """(b, d): gradients of the records at these places of the epoch's secret order."""
        return self._scaled_rows(weights, self._orders.of_epoch(epoch)[places], scales)

    def update(self, weights: np.ndarray, steps: int, rate: float, batch_size: int | None = None) -> np.ndarray:
        """(d,): old minus new weights after steps of plain gradient descent on this client's own records."""
        current, size = np.array(weights, dtype=np.float64), min(batch_size or len(self), len(self))
        for step in range(steps):
            batch, total = self._orders.batch(step, size), np.zeros(len(weights))
            for start in range(0, len(batch), RECORDS_AT_ONCE):
                rows = self._scaled_rows(current, batch[start : start + RECORDS_AT_ONCE], None)
                total += rows.sum(axis=0, dtype=np.float64)
            current -= rate * (total / max(1, len(batch)))
        return weights - current

    def _scaled_rows(self, weights: np.ndarray, batch: np.ndarray, scales: Scales) -> np.ndarray:
        rows = self.gradients.rows(weights, self.features[batch], self.labels[batch])
        return rows if scales is None else rows / scales


@dataclass
class InProcess:
    """`Channel` of one party to others in the same process; ``letters`` are those of all."""

    me: PartyId
    letters: dict[tuple[PartyId, PartyId, str], Any]
    session: str = "simulation"

    def put(self, party: PartyId, name: str, value: Any) -> None:
        self.letters[self.me, party, name] = value

    def get(self, party: PartyId, name: str) -> Any:
        return self.letters.pop((party, self.me, name))


SERVER, SHUFFLER = ("server", ""), ("shuffler", "")


class OpenSum(SecureSum):
    """Without keys and masks, where whoever adds the vectors is trusted."""

    def offer_keys(self, channel: Channel) -> None:
        self._masks = SimpleNamespace(masked=lambda steps, round_number, present: steps.view(np.uint64))

    def take_keys(self, channel: Channel) -> None:
        pass


class OpenShuffle(Shuffle):
    """Without keys and seals."""

    def offer_keys(self, channel: Channel) -> None:
        self._format = MessageFormat(self.splitting.payload_bytes)
        self.message_bytes = self._format.content_bytes
        self._analyzer = SimpleNamespace(open_pieces=lambda messages, round_number: self._format.pieces(messages))

    def take_keys(self, channel: Channel) -> None:
        pass

    def encode(self, contribution: Contribution, present: Collection[str]) -> bytes:
        return b"".join(self._format.contents(self.pieces(contribution)))


def make_open(terms: RoundTerms, federation: Federation, message_splitting: str) -> Aggregation:
    """As `make_aggregation`, without keys."""
    if terms.aggregation == SHUFFLE:
        return OpenShuffle(terms, federation, message_splitting)
    return OpenSum(terms, federation) if terms.aggregation == SECURE_SUM else Local(terms, federation)


class Transport:
    """The way of a round's contributions to the server's mean, through the aggregations of all parties.

    Masks and sealed boxes are on if ``encrypted``; the way is the same without.
    """

    def __init__(self, terms: RoundTerms, encrypted: bool = False, message_splitting: str = "none") -> None:
        clients = [("client", str(position)) for position in range(terms.clients)]
        self.terms = terms
        letters: dict = {}
        self.federation = Federation(clients[0], tuple(clients[1:]), SERVER, SHUFFLER)
        parties = (*clients, SERVER, SHUFFLER)
        make = partial(make_aggregation if encrypted else make_open, terms, self.federation, message_splitting)
        # Without keys one party's part is like any other's.
        shared = None if encrypted else make()
        self.parties = {party: (shared or make(), InProcess(party, letters)) for party in parties}
        for aggregation, channel in self.parties.values():
            aggregation.offer_keys(channel)
        for aggregation, channel in self.parties.values():
            aggregation.take_keys(channel)

    def check_ready(self, positions: Sequence[int], round_number: int) -> None:
        """Raises `TooFewArrived` or `TooFewMessages` unless the clients at these positions are enough for a round."""
        self.parties[SERVER][0].check_ready(positions, round_number)

    def deliver(self, contributions: Sequence[Contribution], lost: Collection[int] = frozenset()) -> NoisyMean:
        """The mean of the contributions of all ready clients, of which the messages of positions ``lost`` got lost."""
        first, clients = contributions[0], [self.federation.data[each.position] for each in contributions]
        present = frozenset(map(name_of, clients))
        for client, contribution in zip(clients, contributions):
            aggregation, channel = self.parties[client]
            aggregation.send(channel, None if contribution.position in lost else contribution, present)
        aggregation, channel = self.parties[SHUFFLER]
        if isinstance(aggregation, Shuffle):
            aggregation.relay(channel, present, first.round_number)
        aggregation, channel = self.parties[SERVER]
        return aggregation.receive(channel, present, first.round_number, first.clip)


BEFORE, AFTER = "before", "after"


Failure = Callable[[int, int], str | None]
"""Of (position, round number): when a client fails in a round, `BEFORE` it is ready, `AFTER` it said so, or None."""


def simulate(
    terms: RoundTerms,
    clients: Sequence[Client],
    server: Server,
    transport: Transport,
    progress: Callable[[int, Server], None] | None = None,
    failure: Failure | None = None,
) -> np.ndarray:
    """Run all rounds and return the server's final weights, float64 (d,).

    ``server.rounds_run`` lists the rounds in which messages left, each of which is to be charged whether or not it gave
    a step; ``server.rounds_aborted`` those that ended before. ``progress`` is called with (round number, server) after
    every round.
    """
    for round_number in range(terms.rounds):
        mean = _round(clients, server, transport, round_number, failure or (lambda position, number: None))
        if mean is not None:
            server.step(mean)
        if progress is not None:
            progress(round_number, server)
    return server.final_weights


def _round(
    clients: Sequence[Client], server: Server, transport: Transport, round_number: int, failure: Failure
) -> NoisyMean | None:
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
