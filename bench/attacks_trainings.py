"""Whole trainings of ``dp_homo_nn`` in one process, with and without privacy, for attacks on what they release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import nn

from bench.attack_methods.view import Defence
from bench.attacks_trials import DELTA, RELATION
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.spec import dimension, flat_weights
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.protocols.noisy_rounds.account import calibrate_terms, events_of
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms
from fate_dp.privacy.accounting.accountant import make_accountant
from tests.support.simulated_rounds import ArrayRows, Transport, simulate

Array = NDArray[np.float64]
Watch = Callable[[int, Array], None]
"""Called after every round with its number, from 0, and the new weights."""
NO_CLIP = 1000.0
"""More than the norm of any record's gradient here; a record's numbers are rounded to some 1e-7 of it."""
PLAIN = Defence("no defence", "All records take part in every round; gradients are neither clipped nor noised.")


@dataclass(frozen=True)
class Setting:
    """Public settings of a training: all records in every round, by secure sum.

    Attributes:
        records: the public number that sums are divided by; how many there really are is nobody's to know.
        clip: of the private training.
        rate: of the server's optimiser, Adam.
    """

    records: int
    clients: int
    rounds: int
    clip: float
    rate: float

    def terms(self, module: nn.Module, epsilon: float) -> RoundTerms:
        """With the noise that ``dp_homo_nn`` calibrates for ``epsilon`` at delta 1e-5 under add-or-remove."""
        return calibrate_terms(self._terms(module), epsilon, DELTA, RELATION)

    def _terms(self, module: nn.Module) -> RoundTerms:
        return RoundTerms(
            aggregation="secure_sum",
            unit="record",
            clients=self.clients,
            max_dropouts=1,
            rounds=self.rounds,
            batch_size=self.records,
            records=self.records,
            clips=(self.clip,),
            dimension=dimension(module),
            delta=DELTA,
        )

    def server(self, module: nn.Module, terms: RoundTerms | None = None) -> Server:
        optimizer = {"method": "adam", "optimizer_params": {"lr": self.rate}}
        return Server(terms or self._terms(module), flat_weights(module), optimizer)


Held = Sequence[tuple[NDArray[np.float32], NDArray[np.int64]]]
"""Features and labels of each client."""


def client_rows(module: nn.Module, held: Held) -> list[ArrayRows]:
    """The clients' records, with gradients of the module."""
    gradients = RecordGradients(module)
    return [ArrayRows(*each, gradients) for each in held]


def train(
    module: nn.Module, rows: Sequence[ArrayRows], setting: Setting, terms: RoundTerms | None, watch: Watch
) -> Array:
    """The released weights; ``terms`` None is a training without privacy, by the same gradients and the same server."""
    server = setting.server(module, terms)
    if terms is None:
        for number in range(setting.rounds):
            server.step(plain_mean(rows, server.weights, setting.records))
            watch(number, server.weights)
        return server.weights
    clients = [Client(each, terms, position=place) for place, each in enumerate(rows)]
    return simulate(terms, clients, server, Transport(terms), lambda number, server: watch(number, server.weights))


def plain_mean(rows: Sequence[ArrayRows], weights: Array, records: int) -> Array:
    """The sum of all records' gradients, neither clipped nor noised, over their public number."""
    total: Array = np.sum([each.gradient_sum(weights, NO_CLIP, 1.0).value for each in rows], axis=0)
    return total / records


def defence_of_terms(terms: RoundTerms | None, epsilon: float) -> Defence:
    """In words."""
    if terms is None:
        return PLAIN
    words = (
        f"Each record's gradient is clipped to norm {terms.clips[0]:g}, and the sum has discrete Gaussian noise of "
        f"{terms.noise_multiplier:.3g} times that: epsilon {epsilon:g} at delta {terms.delta:g} for {terms.rounds} rounds of "
        "all records, under add-or-remove."
    )
    return Defence(f"epsilon {epsilon:g}", words, terms.clips[0], epsilon=epsilon, delta=terms.delta)


def delta_profile(terms: RoundTerms) -> Callable[[float], float]:
    """Delta of the whole training at every epsilon."""
    accountant = make_accountant("pld", RELATION)
    for event, count in events_of(terms, RELATION):
        accountant.compose(event, count)
    return accountant.delta
