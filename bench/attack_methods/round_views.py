"""Views of a round that is simulated in one process, by the client, aggregation and server of ``dp_homo_nn``.

The observer of a noised view is the *informed server* of differential privacy: it knows every record of the round but
the attacked ones, and has subtracted them. No real server knows more, so what an attack finds here bounds what it finds
in a round of thousands of records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import nn

from bench.attack_methods.view import GRADIENT, SERVER, UPDATE, Defence, LocalSteps, RoundView
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.spec import flat_weights
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.protocols.noisy_rounds.terms import RECORD, SECURE_SUM, RoundTerms
from fate_dp.privacy.validation import InvalidArgument
from tests.support.simulated_rounds import ArrayRows, Transport

Array = NDArray[np.float64]


def plain_view(module: nn.Module, features: Array, labels: NDArray[np.int64]) -> RoundView:
    """The mean gradient of a client's batch, neither clipped nor noised; float32 at the client, as it is trained."""
    rows = RecordGradients(module).rows(flat_weights(module), features, labels)
    return RoundView(
        SERVER,
        "It knows the model and the size of the batch.",
        GRADIENT,
        module,
        rows.mean(axis=0, dtype=np.float64),
        len(features),
        features.shape[1:],
    )


def summed_view(module: nn.Module, features: Array, labels: NDArray[np.int64]) -> RoundView:
    """The mean gradient of as many clients as there are records, one each: a secure sum, without clip or noise."""
    view = plain_view(module, features, labels)
    words = f"The server sees the sum of {len(features)} clients with one record each, and no single client's."
    return replace(view, defence=Defence("secure sum", words))


def clipped_view(module: nn.Module, features: Array, labels: NDArray[np.int64], clip: float) -> RoundView:
    """The mean of a batch's gradients, each clipped as ``dp_homo_nn`` clips them, without noise."""
    clipped = RecordGradients(module).clipped_sum(flat_weights(module), features, labels, clip)
    view = plain_view(module, features, labels)
    words = f"Each record's gradient is clipped to norm {clip:g}, and no noise is added."
    mean = clipped.steps * clipped.grid / len(features)
    return replace(view, received=mean, defence=Defence("clipping alone", words, clip))


def updated_view(module: nn.Module, features: Array, labels: NDArray[np.int64], local: LocalSteps) -> RoundView:
    """Old minus new weights of a client after several steps on its whole batch: federated averaging, undefended."""
    rows = ArrayRows(features, labels, RecordGradients(module))
    update = rows.update(flat_weights(module), local.steps, local.rate)
    view = plain_view(module, features, labels)
    words = f"The server sees a client's weights after {local.steps} steps of rate {local.rate:g} on its whole batch."
    return replace(view, kind=UPDATE, received=update, local=local, defence=Defence("federated averaging", words))


def noised_view(
    module: nn.Module, features: Array, labels: NDArray[np.int64], terms: RoundTerms, epsilon: float
) -> RoundView:
    """The round of a private training in which the attacked records were drawn, as the informed server sees it.

    Client, aggregation and server are those of ``dp_homo_nn``, with the system's entropy. The first client holds the
    attacked records, and what the others sent but noise is subtracted: they hold nothing here.

    Args:
        terms: of the whole training, calibrated: ``secure_sum`` of unit record, one clip, no scales.
        epsilon: of the whole training, in nats, at ``terms.delta``.
    """
    if terms.aggregation != SECURE_SUM or terms.unit != RECORD or len(terms.clips) != 1 or terms.scales is not None:
        given = terms.aggregation, terms.unit, len(terms.clips)
        raise InvalidArgument.of("terms", given, "of secure_sum and record, with one clip and no scales")
    count, clip, weights = len(features), terms.clips[0], flat_weights(module)
    # All attacked records were drawn, which their owners' coins decided and the informed server knows.
    drawn = replace(terms, records=count, batch_size=count, client_records=None)
    gradients = RecordGradients(module)
    held = [(features, labels), *[(features[:0], labels[:0])] * (terms.clients - 1)]
    clients = [Client(ArrayRows(*rows, gradients), drawn, position=place) for place, rows in enumerate(held)]
    mean = Transport(drawn).deliver([client.contribution(weights, 0) for client in clients]).gradient
    multiplier = terms.noise_multiplier or 0.0
    shares = terms.clients / (terms.clients - terms.max_dropouts)
    words = (
        f"Each record's gradient is clipped to norm {clip:g}, and the sum has discrete Gaussian noise of {multiplier:.3g} "
        f"times that: epsilon {epsilon:g} at delta {terms.delta:g} for {terms.rounds} rounds that each draw a record with "
        f"probability {terms.sampling_probability:g}."
    )
    return RoundView(
        SERVER,
        "It knows the model, the size of the batch and every other record of the round, and has subtracted these.",
        GRADIENT,
        module,
        mean,
        count,
        features.shape[1:],
        Defence(
            f"epsilon {epsilon:g}", words, clip, multiplier * clip * math.sqrt(shares) / count, epsilon, terms.delta
        ),
    )


def averaged_view(views: Sequence[RoundView]) -> RoundView:
    """Several rounds that drew the same records at the same weights, averaged: their noise adds up less than they do.

    In a training the weights move between rounds, which an observer cannot average over; so this shows no less than the
    rounds together do of a training that has hardly moved.
    """
    first = views[0]
    if any(view.defence != first.defence or view.kind != GRADIENT for view in views):
        raise InvalidArgument("Rounds are averaged where all are gradients under one defence.")
    defence = replace(
        first.defence,
        name=f"{first.defence.name}, {len(views)} rounds",
        words=f"{first.defence.words} The records were drawn in {len(views)} rounds, at weights that stood still.",
        deviation=first.defence.deviation / math.sqrt(len(views)),
    )
    return replace(first, received=np.mean([view.received for view in views], axis=0), defence=defence)
