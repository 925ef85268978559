"""The plaintext twin of the encrypted protocol: the same arithmetic on plain float64 arrays, all parties in one place.

A test holds the encrypted trainer to this one within 1e-6, so that experiments on accuracy may run here.

With z = sum_p X_p w_p, every loss here is a quadratic in z of one fixed curvature, k z^2 / 2 - t z + constant, whose
gradient for party p is X_p^T (k z - t) / n: affine in weights and target, which is what additively homomorphic
encryption can compute.

- Family binomial, labels y from 0 to 1: k = 1/4. With sigmoid taylor t = y - 1/2, which makes it the Taylor polynomial
  of degree two of the logistic loss; with sigmoid exact t is corrected a few times, see ``majorisation``.
- Family gaussian, labels y any numbers: k = 1, t = y, constant y^2 / 2: half of the squared error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit

from fate_dp.components.dp_hetero_lr.settings import ALL_AT_ONCE, FAMILIES, SIGMOIDS
from fate_dp.components.protocols import optimizers
from fate_dp.components.protocols.optimizers import PartyOptimizer
from fate_dp.privacy.labels.flipback import Flipback
from fate_dp.privacy.validation import InvalidArgument, one_of, whole

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class TrainingSettings:
    """Public settings of a training run, named as in FATE.

    Attributes:
        optimizer: ``{"method", "penalty", "alpha", "optimizer_params"}``, see `default_optimizer`.
        learning_rate_scheduler: ``{"method", "scheduler_params"}``.
        batch_size: rows per batch, None for all; a remainder joins the last batch.
        fit_intercept: whether the guest, the first party, has an intercept.
        sigmoid_rounds: corrections of an exact sigmoid, which is for family binomial, see `correction_epochs`.
        warm_start: whether the initial weights are those of a trained model.
    """

    optimizer: dict
    learning_rate_scheduler: dict = field(default_factory=optimizers.constant_learning_rate)
    epochs: int = ALL_AT_ONCE.epochs
    batch_size: int | None = None
    fit_intercept: bool = True
    family: str = "binomial"
    sigmoid: str = "taylor"
    sigmoid_rounds: int = 3
    warm_start: bool = False

    def __post_init__(self) -> None:
        whole("epochs", self.epochs, 1)
        whole("sigmoid_rounds", self.sigmoid_rounds, 1)
        if self.batch_size is not None:
            whole("batch_size", self.batch_size, 1, allowed="None or at least 1")
        one_of("family", self.family, FAMILIES)
        one_of("sigmoid", self.sigmoid, SIGMOIDS)
        if self.family == "gaussian" and self.sigmoid != "taylor":
            raise InvalidArgument(f"sigmoid must be taylor for family gaussian, got {self.sigmoid!r}.")

    def correction_epochs(self) -> list[int]:
        """Epochs (from 0) that begin with a correction of the sigmoid."""
        if self.sigmoid == "taylor":
            return []
        return optimizers.correction_epochs(self.epochs, self.sigmoid_rounds, self.warm_start)


@dataclass(frozen=True)
class TrainingResult:
    """Weights of every party, the guest's intercept its last, the labels of the last epoch, and the losses.

    These are mean quadratic losses per record with penalty, one per epoch, each batch's taken before its step. With an exact
    sigmoid they are upper bounds on the logistic loss, and equal to it right after a correction.
    """

    weights: list[np.ndarray]
    losses: list[float]
    labels: np.ndarray


@dataclass(frozen=True)
class Quadratic:
    """The quadratic loss k z^2 / 2 - t z + c of every record, t the targets and c the constants."""

    curvature: float
    targets: np.ndarray
    constants: np.ndarray

    def rows(self, first: int, last: int) -> Quadratic:
        """The same for some of the records."""
        return Quadratic(self.curvature, self.targets[first:last], self.constants[first:last])

    def loss(self, logits: np.ndarray) -> float:
        """Mean over the records, without penalty."""
        return np.mean(self.curvature / 2 * logits**2 - self.targets * logits + self.constants)

    def gradients(self, parts: Arrays, weights: Arrays) -> list[np.ndarray]:
        """Gradient without penalty for every party; ``parts`` hold the intercept's column."""
        residual = self.curvature * joint_logits(parts, weights) - self.targets
        return [part.T @ residual / len(residual) for part in parts]


def squared_error(labels: np.ndarray) -> Quadratic:
    """Half of the squared error: linear regression."""
    return Quadratic(1.0, labels, labels**2 / 2)


def logistic_bound(labels: np.ndarray, logits: np.ndarray) -> Quadratic:
    """The quadratic that touches the logistic loss at these logits and lies above it; at 0 it is the Taylor loss."""
    return Quadratic(0.25, optimizers.corrected_target(labels, logits), optimizers.majoriser_constants(logits))


def joint_logits(parts: Arrays, weights: Arrays) -> np.ndarray:
    """z = sum over the parties of X_p w_p."""
    products = [part @ own for part, own in zip(parts, weights, strict=True)]
    return sum(products[1:], products[0])


def train_plaintext(
    parts: Arrays,
    labels: Sequence[float] | np.ndarray,
    settings: TrainingSettings,
    initial_weights: Arrays,
    flipback: Flipback | None = None,
    after_epoch: Callable[[int, list[np.ndarray]], None] | None = None,
    shown: Callable[[Arrays, Arrays], np.ndarray] = joint_logits,
) -> TrainingResult:
    """Train on all parties' columns in the clear, step by step as the encrypted protocol does.

    Args:
        parts: one array (n, m_p) per party, the guest's first, without the intercept's column.
        labels: n labels: from 0 to 1, soft ones allowed, for family binomial; finite numbers for gaussian.
        initial_weights: one vector per party, the guest's with the intercept, see `kaiming_uniform`.
        flipback: a fresh one on these labels, or None; for family binomial.
        after_epoch: called with (epochs done, list of weights) after every epoch, or None.
        shown: joint logits as the guest is shown them where flipback or the sigmoid needs them, of (parts, weights):
            hosts round their part.

    Raises:
        InvalidArgument: row counts or weight counts differ, a label is outside its range, or flipback is asked for
            labels that are not classes.
    """
    parts = with_intercept(parts) if settings.fit_intercept else _as_arrays(parts)
    labels = np.asarray(labels, dtype=np.float64)
    _check_shapes(parts, labels, initial_weights)
    _check_labels(labels, settings.family, flipback)
    parties = [
        PartyOptimizer(
            start, settings.optimizer, settings.learning_rate_scheduler, settings.fit_intercept and position == 0
        )
        for position, start in enumerate(initial_weights)
    ]
    losses, objective = [], _Objective(labels, settings, flipback, shown)
    for epoch in range(settings.epochs):
        objective.begin_epoch(epoch, parts, parties)
        losses.append(_run_epoch(parts, objective.quadratic, parties, settings.batch_size))
        if after_epoch is not None:
            after_epoch(epoch + 1, _weights(parties))
        for party in parties:
            party.next_epoch()
    return TrainingResult(_weights(parties), losses, objective.labels)


def with_intercept(parts: Arrays) -> list[np.ndarray]:
    """The parts with a column of ones behind the guest's features."""
    guest, *hosts = _as_arrays(parts)
    return [np.column_stack([guest, np.ones(len(guest))]), *hosts]


class _Objective:
    """The labels and the quadratic loss of the present epoch; joint scores are taken at the epochs that need them."""

    def __init__(
        self, labels: np.ndarray, settings: TrainingSettings, flipback: Flipback | None, shown: Callable
    ) -> None:
        self.labels, self._family, self._flipback, self._shown = labels, settings.family, flipback, shown
        self._epochs = settings.epochs
        self._corrections = settings.correction_epochs()
        self._touching = np.zeros(len(labels))
        self.quadratic = self._present()

    def begin_epoch(self, epoch: int, parts: Arrays, parties: Sequence[PartyOptimizer]) -> None:
        """Relabel, then correct the sigmoid, if ``epoch`` (from 0) begins with that; both at the same joint scores."""
        flips = self._flipback if epoch > 0 and self._flipback and self._flipback.is_due(epoch, self._epochs) else None
        if flips is None and epoch not in self._corrections:
            return
        logits = self._shown(parts, _weights(parties))
        if flips is not None:
            self.labels = flips.relabel(self.labels, expit(logits))
        # Once the sigmoid has been corrected, scores that flipback needs anyway correct it, too.
        if self._corrections and epoch >= self._corrections[0]:
            self._touching = logits
        self.quadratic = self._present()

    def _present(self) -> Quadratic:
        if self._family == "gaussian":
            return squared_error(self.labels)
        return logistic_bound(self.labels, self._touching)


def _run_epoch(parts: Arrays, quadratic: Quadratic, parties: Sequence[PartyOptimizer], batch_size: int | None) -> float:
    records, total = len(quadratic.targets), 0.0
    for first, last in optimizers.batch_bounds(records, batch_size):
        batch, of_batch = [part[first:last] for part in parts], quadratic.rows(first, last)
        weights = _weights(parties)
        penalty = sum(party.penalty_loss() for party in parties)
        total += (last - first) * (of_batch.loss(joint_logits(batch, weights)) + penalty)
        for party, gradient in zip(parties, of_batch.gradients(batch, weights)):
            party.step(party.regularise(gradient))
    return total / records


def _weights(parties: Sequence[PartyOptimizer]) -> list[np.ndarray]:
    return [party.weights.numpy().ravel().copy() for party in parties]


def _as_arrays(parts: Sequence) -> list[np.ndarray]:
    return [np.asarray(part, dtype=np.float64) for part in parts]


def _check_shapes(parts: Arrays, labels: np.ndarray, initial_weights: Arrays) -> None:
    if any(len(part) != len(labels) for part in parts):
        raise InvalidArgument(
            f"parts must have as many rows as labels, {len(labels)}, got {[len(part) for part in parts]}."
        )
    columns, starts = [part.shape[1] for part in parts], [len(start) for start in initial_weights]
    if columns != starts:
        raise InvalidArgument(
            f"initial_weights must have {columns} weights, one per column and intercept, got {starts}."
        )


def _check_labels(labels: np.ndarray, family: str, flipback: Flipback | None) -> None:
    if family == "gaussian":
        if flipback is not None:
            raise InvalidArgument("flipback is for labels 0 and 1, but family gaussian has numbers: leave it out.")
        if not np.isfinite(labels).all():
            raise InvalidArgument("labels hold a value that is not finite.")
    elif not ((labels >= 0) & (labels <= 1)).all():
        raise InvalidArgument("labels hold a value outside the range from 0 to 1.")
