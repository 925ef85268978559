"""What one party received in one round of a horizontal training: all that an attack may read, beside public knowledge.

A `RoundView` is made by hand, by `plain_view` and `clipped_view` from the gradients that a party of ``dp_homo_nn`` computes,
or by `noised_view` with that component's own client, aggregation and server in one process. No view holds a private
record; an attack that needs more than a view says so in its docstring.

The observer of a noised view is the *informed server* of differential privacy: it knows every record of the round but
the attacked ones, and has subtracted them. No real server knows more, so what an attack finds here bounds what it finds
in a round of thousands of records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.spec import dimension, flat_weights
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.simulation import ArrayRows, Transport
from fate_dp.components.protocols.noisy_rounds.terms import RECORD, SECURE_SUM, RoundTerms
from fate_dp.privacy.validation import InvalidArgument, is_finite, one_of, whole

Array = NDArray[np.float64]

GRADIENT, UPDATE = "gradient", "update"
KINDS = (GRADIENT, UPDATE)
"""The mean gradient of a batch; or old minus new weights after several steps on it."""
SERVER = "server"


@dataclass(frozen=True)
class Defence:
    """What stands between the records and the observer.

    Attributes:
        name: short, as a row of a table has it.
        words: a whole sentence.
        clip: largest norm of one record's gradient, public; None without.
        deviation: standard deviation of the noise on each number that was received.
        epsilon: of the whole training that the round belongs to, in nats, at ``delta``; infinite without a guarantee.
        delta: 0 without a guarantee.
    """

    name: str
    words: str
    clip: float | None = None
    deviation: float = 0.0
    epsilon: float = math.inf
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.clip is not None and not (is_finite(self.clip) and self.clip > 0):
            raise InvalidArgument.of("clip", self.clip, "None or a finite number greater than 0")
        if not (is_finite(self.deviation) and self.deviation >= 0):
            raise InvalidArgument.of("deviation", self.deviation, "a finite number of at least 0")


PLAIN = Defence("plain averaging", "The server sees the mean gradient of one client's batch as it is.")


@dataclass(frozen=True)
class LocalSteps:
    """Steps of plain gradient descent at a client, each on its whole batch, before it sends its weights."""

    steps: int
    rate: float

    def __post_init__(self) -> None:
        whole("steps", self.steps, 1)
        if not (is_finite(self.rate) and self.rate > 0):
            raise InvalidArgument.of("rate", self.rate, "a finite number greater than 0")


@dataclass(frozen=True, eq=False)
class RoundView:
    """What one party received in one round, and what it knows beside that.

    Attributes:
        observer: who received it.
        knows: what the observer knows of the batch, a whole sentence.
        kind: what ``received`` is, one of `KINDS`.
        module: the public model at the round's start weights, in float64; a copy of what it is made with.
        received: float64 (d,), in the order of the module's parameters.
        records: size of the batch, which the observer knows.
        record_shape: of one record, as the module takes it.
        defence: what the records were protected by.
        local: the client's own steps; for an update only.
    """

    observer: str
    knows: str
    kind: str
    module: nn.Module = field(repr=False)
    received: Array = field(repr=False)
    records: int
    record_shape: tuple[int, ...]
    defence: Defence = PLAIN
    local: LocalSteps | None = None

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        whole("records", self.records, 1)
        received = np.array(self.received, dtype=np.float64)
        if received.shape != (dimension(self.module),) or not np.isfinite(received).all():
            raise InvalidArgument(
                f"received has shape {received.shape} but must be {dimension(self.module)} finite numbers, one for each "
                "weight of the module."
            )
        if (self.kind == UPDATE) != (self.local is not None):
            raise InvalidArgument(
                f"The view is of kind {self.kind}, and its local steps are {self.local}: an update has them, a gradient has "
                "none."
            )
        received.flags.writeable = False
        object.__setattr__(self, "received", received)
        object.__setattr__(self, "module", deepcopy(self.module).double().eval())

    @property
    def target(self) -> torch.Tensor:
        """What was received, as a tensor of its own: float64 (d,)."""
        return torch.tensor(self.received)

    def parts(self) -> list[torch.Tensor]:
        """What was received, in the shapes of the module's parameters."""
        parameters = list(self.module.parameters())
        flat = self.target.split([parameter.numel() for parameter in parameters])
        return [part.view(parameter.shape) for part, parameter in zip(flat, parameters)]


def require(view: object, attack: str, kinds: Sequence[str] = KINDS, records: int | None = None) -> RoundView:
    """The view, if the attack can read it; what is wrong with it is one sentence.

    ``records`` is the one size of a batch that the attack can do, None for all sizes.
    """
    if not isinstance(view, RoundView):
        raise InvalidArgument(
            f"{attack} reads a RoundView of a horizontal training but was given a {type(view).__name__}."
        )
    if view.kind not in kinds:
        raise InvalidArgument(
            f"{attack} reads a view of kind {' or '.join(kinds)} but was given one of kind {view.kind}."
        )
    if records is not None and view.records != records:
        raise InvalidArgument(
            f"{attack} reads a view of {records} record but was given one of a batch of {view.records}."
        )
    return view


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
        raise InvalidArgument(
            f"terms are of aggregation {terms.aggregation}, unit {terms.unit} and {len(terms.clips)} clips but must be of "
            "secure_sum and record, with one clip and no scales."
        )
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
