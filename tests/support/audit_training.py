"""An audit of the rounds of ``dp_homo_nn`` in one process: clients, transport and server of the product, and canaries.

Every canary is a record of a logistic regression with a feature of its own, so large that its gradient lies beyond the
clip along one coordinate; a coin decides whether it takes part. The observer is whom the terms promise to protect from:
with ``local`` the server, who sees the message of the canaries' client; with ``secure_sum`` the last client, who knows
the sum and its own part of it. A canary's score is what all noisy gradients say along its feature. The control are the same rounds with next to no noise.

It audits the code and the account of a training with these terms, not one that ran elsewhere: see `audits` for that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.protocols.noisy_rounds.account import epsilon_of
from fate_dp.components.protocols.noisy_rounds.aggregation import grid_for
from fate_dp.components.protocols.noisy_rounds.contribution import Contribution, NoisyMean
from fate_dp.components.protocols.noisy_rounds.terms import LOCAL, RECORD, SHUFFLE, RoundTerms
from fate_dp.privacy.auditing.certificate import Certificate, Claim
from fate_dp.privacy.auditing.games import fair_coins
from fate_dp.privacy.auditing.one_run import GAUSSIAN, PURE_OR_APPROXIMATE, OneRun
from fate_dp.privacy.events import ADD_OR_REMOVE
from fate_dp.privacy.noise.stream import Rng, Stream, open_stream
from fate_dp.privacy.validation import InvalidArgument
from tests.support.simulated_rounds import ArrayRows, Transport, simulate

FAR = 1000.0
# Steps so short that no label is ever predicted so well that a canary's gradient falls below the clip.
SLOW = {"method": "sgd", "optimizer_params": {"lr": 1e-3}}
NEXT_TO_NO_NOISE = 1e-6


class Watched(Transport):
    """The product's transport, which adds up what the observer sees of every round."""

    def __init__(self, terms: RoundTerms) -> None:
        super().__init__(terms)
        self.seen = np.zeros(terms.dimension)

    def deliver(self, contributions: Sequence[Contribution], lost: Collection[int] = frozenset()) -> NoisyMean:
        mean = super().deliver(contributions, lost)
        if self.terms.aggregation == LOCAL:
            self.seen += np.asarray(contributions[0].content)
        else:
            own = contributions[-1]
            self.seen += mean.gradient * self.terms.batch_size - np.asarray(own.content) * grid_for(own.clip)
        return mean


def audit_training(terms: RoundTerms, canaries: int = 1000, confidence: float = 0.95, rng: Rng = None) -> Certificate:
    """The certificate of all rounds under ``terms``, at their delta and under add-or-remove.

    Noise, rounds, clients, sampling and clips are those of the terms; records, dimension and expected batch size are the
    canaries'. ``rng`` draws coins, samples and noise; None is the operating system's entropy.

    Raises:
        InvalidArgument: The terms have another unit than record, shuffle, clip by a quantile, have scales or several
            local steps, or have no noise yet.
    """
    _check(terms)
    stream = open_stream(rng)
    coins = fair_coins(canaries, stream)
    probability = terms.sampling_probability
    played = replace(
        terms, records=canaries, batch_size=probability * canaries, dimension=canaries + 1, client_records=None
    )
    seen = _scores(played, coins, stream)
    control = _scores(played.with_noise(noise_multiplier=NEXT_TO_NO_NOISE), coins, stream)
    claim = Claim(
        f"{terms.rounds} rounds of dp_homo_nn, {terms.aggregation}, in one process",
        epsilon_of(played, terms.delta, ADD_OR_REMOVE),
        terms.delta,
        RECORD,
        ADD_OR_REMOVE,
        ("server",) if terms.aggregation == LOCAL else ("client",),
        GAUSSIAN if probability == 1 else PURE_OR_APPROXIMATE,
    )
    audited, broken = (OneRun.of_scores(coins, scores).evidence for scores in (seen, control))
    return Certificate(claim, confidence, audited, broken)


def _check(terms: RoundTerms) -> None:
    allowed = {
        "unit": (terms.unit, terms.unit == RECORD, RECORD),
        "aggregation": (terms.aggregation, terms.aggregation != SHUFFLE, "local or secure_sum"),
        "clip_quantile": (terms.clip_quantile, terms.clip_quantile is None, "None"),
        "scales": (terms.scales, terms.scales is None, "None"),
        "local_steps": (terms.local_steps, terms.local_steps == 1, "1"),
        "upload_fraction": (terms.upload_fraction, terms.upload_fraction == 1, "1"),
        "noise_multiplier": (terms.noise_multiplier, terms.noise_multiplier is not None, "a number"),
    }
    for name, (value, fits, wanted) in allowed.items():
        if not fits:
            raise InvalidArgument.of(name, value, f"{wanted} for an audit with canaries in one process")


def _scores(terms: RoundTerms, coins: np.ndarray, stream: Stream) -> np.ndarray:
    """One training; canaries are at the first client, and all other clients have no records."""
    count = len(coins)
    gradients = RecordGradients(build_model(ModelSpec("logistic_regression", count, 2)))
    features = FAR * np.eye(count, dtype=np.float32)[coins > 0]
    nobody = features[:0]
    clients = [
        Client(ArrayRows(rows, np.ones(len(rows), dtype=np.int64), gradients, stream), terms, stream, position=position)
        for position, rows in enumerate([features] + [nobody] * (terms.clients - 1))
    ]
    transport = Watched(terms)
    simulate(terms, clients, Server(terms, np.zeros(terms.dimension), SLOW), transport)
    # The canaries' label is 1, so their gradients point down their features.
    return -transport.seen[:count]
