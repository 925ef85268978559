"""The plaintext twin of the encrypted protocol: the same arithmetic on plain float64 arrays, all parties in one place.

A test holds the encrypted trainer to this one within 1e-6, so that experiments on accuracy may run here. Nothing here
protects anything: it is for tests and benchmarks.

With z = sum_p X_p w_p and labels y from 0 to 1, the logistic loss is replaced by its Taylor polynomial of degree two,
log 2 - (y - 1/2) z + z^2 / 8, whose gradient for party p is X_p^T (z / 4 - (y - 1/2)) / n: affine in weights and
labels, which is what additively homomorphic encryption can compute.
"""
import math
from dataclasses import dataclass, field
from typing import Optional

import numpy as np
from scipy.special import expit

from fate_dp.components.dp_hetero_lr.settings import batch_bounds
from fate_dp.components.dp_hetero_lr.updates import PartyOptimizer, constant_learning_rate


class InvalidTraining(ValueError):
    """Parts, labels or settings do not fit together."""


@dataclass(frozen=True)
class TrainingSettings:
    """Public settings of a training run, named as in FATE.

    :param optimizer: ``{"method", "penalty", "alpha", "optimizer_params"}``, see ``updates.default_optimizer``.
    :param learning_rate_scheduler: ``{"method", "scheduler_params"}``.
    :param epochs: passes over the data, at least 1.
    :param batch_size: rows per batch, None for all; a remainder joins the last batch.
    :param fit_intercept: whether the guest, the first party, has an intercept.
    """

    optimizer: dict
    learning_rate_scheduler: dict = field(default_factory=constant_learning_rate)
    epochs: int = 30
    batch_size: Optional[int] = None
    fit_intercept: bool = True

    def __post_init__(self):
        if self.epochs < 1:
            raise InvalidTraining(f"epochs is {self.epochs!r} but must be at least 1.")
        if self.batch_size is not None and self.batch_size < 1:
            raise InvalidTraining(f"batch_size is {self.batch_size!r} but must be None or at least 1.")


@dataclass(frozen=True)
class TrainingResult:
    """What training produced.

    :param weights: one vector per party; the guest's intercept is the last of its weights.
    :param losses: mean Taylor loss per record with penalty, one per epoch, each batch's taken before its step.
    :param labels: the labels of the last epoch, after flipback.
    """

    weights: list
    losses: list
    labels: np.ndarray


def train_plaintext(parts, labels, settings, initial_weights, flipback=None, after_epoch=None):
    """Train on all parties' columns in the clear, step by step as the encrypted protocol does.

    :param parts: one array (n, m_p) per party, the guest's first, without the intercept's column.
    :param labels: n labels from 0 to 1, soft ones allowed.
    :param settings: ``TrainingSettings``.
    :param initial_weights: one vector per party, the guest's with the intercept, see ``updates.kaiming_uniform``.
    :param flipback: a fresh ``fate_dp.privacy.flipback.Flipback`` on these labels, or None.
    :param after_epoch: called with (epochs done, list of weights) after every epoch, or None.
    :returns: ``TrainingResult``.
    :raises InvalidTraining: when row counts or weight counts differ or a label is outside 0 to 1.
    """
    parts = with_intercept(parts) if settings.fit_intercept else _as_arrays(parts)
    labels = np.asarray(labels, dtype=np.float64)
    _check_shapes(parts, labels, initial_weights)
    parties = [
        PartyOptimizer(
            start, settings.optimizer, settings.learning_rate_scheduler, settings.fit_intercept and position == 0
        )
        for position, start in enumerate(initial_weights)
    ]
    losses = []
    for epoch in range(1, settings.epochs + 1):
        losses.append(_run_epoch(parts, labels, parties, settings.batch_size))
        if after_epoch is not None:
            after_epoch(epoch, _weights(parties))
        if epoch == settings.epochs:
            break
        if flipback is not None and flipback.is_due(epoch):
            labels = flipback.relabel(labels, joint_scores(parts, _weights(parties)))
        for party in parties:
            party.next_epoch()
    return TrainingResult(_weights(parties), losses, labels)


def taylor_gradients(parts, labels, weights):
    """Gradient of the Taylor loss, without penalty, for every party; ``parts`` hold the intercept's column."""
    residual = 0.25 * joint_logits(parts, weights) - (labels - 0.5)
    return [part.T @ residual / len(labels) for part in parts]


def taylor_loss(logits, labels):
    """Mean over the records of log 2 - (y - 1/2) z + z^2 / 8, without penalty."""
    return math.log(2) - np.mean((labels - 0.5) * logits) + np.mean(logits**2) / 8


def joint_logits(parts, weights):
    """z = sum over the parties of X_p w_p."""
    return sum(part @ own for part, own in zip(parts, weights, strict=True))


def joint_scores(parts, weights):
    """sigmoid(z): the modelled probability of label 1."""
    return expit(joint_logits(parts, weights))


def with_intercept(parts):
    """The parts with a column of ones behind the guest's features."""
    guest, *hosts = _as_arrays(parts)
    return [np.column_stack([guest, np.ones(len(guest))]), *hosts]


def _run_epoch(parts, labels, parties, batch_size):
    total = 0.0
    for first, last in batch_bounds(len(labels), batch_size):
        batch, batch_labels = [part[first:last] for part in parts], labels[first:last]
        weights = _weights(parties)
        penalty = sum(party.penalty_loss() for party in parties)
        total += len(batch_labels) * (taylor_loss(joint_logits(batch, weights), batch_labels) + penalty)
        for party, gradient in zip(parties, taylor_gradients(batch, batch_labels, weights)):
            party.step(party.regularise(gradient))
    return total / len(labels)


def _weights(parties):
    return [party.weights.numpy().ravel().copy() for party in parties]


def _as_arrays(parts):
    return [np.asarray(part, dtype=np.float64) for part in parts]


def _check_shapes(parts, labels, initial_weights):
    if any(len(part) != len(labels) for part in parts):
        raise InvalidTraining(
            f"parts have {[len(part) for part in parts]} rows but must have as many as the {len(labels)} labels."
        )
    columns, starts = [part.shape[1] for part in parts], [len(start) for start in initial_weights]
    if columns != starts:
        raise InvalidTraining(
            f"initial_weights have lengths {starts} but must have {columns}, one weight per column and intercept."
        )
    if not ((labels >= 0) & (labels <= 1)).all():
        raise InvalidTraining("labels hold a value outside the range from 0 to 1.")
