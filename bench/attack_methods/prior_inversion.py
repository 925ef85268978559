"""Pictures from noised gradients, by somebody who has pictures of the same kind: the best that noise leaves.

The other attacks look for records that explain what was received to the last digit, which under noise is the noise. Here
the noise is told for what it is: its deviation is public, and so are, in each real setting, records like the attacked
ones. Whoever has both asks what a record is expected to be, given what was received.

*Threat model* of all: one view of the gradient of one record, and public records with labels, drawn like the attacked one.
*Cost:* one gradient of each public record and one spectrum of a matrix of their number squared, once for all views of a model.

*What they cannot do:* see anything that no public record has; `expected_record` moreover answers with a mixture of the
public records, and so never with what is right to the last digit. Both take one round. Of several rounds that draw the
same record an observer has several views, whose errors would average out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import nn

from bench.attack_methods.results import Cost
from bench.attack_methods.view import GRADIENT, RoundView, require
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.spec import flat_weights
from fate_dp.privacy.validation import InvalidArgument

from .gradient_inversion import Labels, Reconstruction

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PublicRecords:
    """Records of the same kind as the attacked ones, with the gradients that they give at a model's weights.

    Attributes:
        records: float64 (n, ...).
        labels: (n,).
        gradients: float64 (n, d), each clipped to ``clip`` if that is given.
        products: float64 (n, n), of all gradients with one another.
        clip: the public one of the views that are attacked with them.
    """

    records: Array = field(repr=False)
    labels: Labels = field(repr=False)
    gradients: Array = field(repr=False)
    products: Array = field(repr=False)
    clip: float | None

    @classmethod
    def at(cls, module: nn.Module, records: NDArray[np.floating], labels: Labels, clip: float | None) -> PublicRecords:
        """What an observer computes before it has seen anything."""
        rows = RecordGradients(module).rows(flat_weights(module), records, labels).astype(np.float64)
        if clip is not None:
            norms = np.linalg.norm(rows, axis=1, keepdims=True)
            rows *= np.minimum(1.0, np.divide(clip, norms, out=np.ones_like(norms), where=norms > 0))
        return cls(records.astype(np.float64), labels, rows, rows @ rows.T, clip)

    @cached_property
    def centre(self) -> Array:
        """(d,): the mean gradient."""
        return np.asarray(self.gradients.mean(axis=0))

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """(n,) and (n, n): eigenvalues and vectors of the products of centred gradients, once for all views."""
        means = self.products.mean(axis=0)
        values, vectors = np.linalg.eigh(self.products - means[:, None] - means[None, :] + means.mean())
        return np.maximum(values, 0.0), vectors

    def check(self, view: RoundView, attack: str) -> None:
        """Refuse a view that these gradients do not fit, in one sentence."""
        require(view, attack, kinds=(GRADIENT,), records=1)
        if view.defence.clip != self.clip or len(view.received) != self.gradients.shape[1]:
            raise InvalidArgument(
                f"{attack} was given {self.gradients.shape[1]} numbers of each public record, at clip {self.clip}, but the "
                f"view has {len(view.received)}, at clip {view.defence.clip}."
            )


def expected_record(view: RoundView, public: PublicRecords) -> Reconstruction:
    """The mean of the record given what was received, were the attacked record one of the public ones.

    Bayes' rule for Gaussian noise: no function of the view has a smaller mean squared error under that prior. As the
    noise vanishes, this is the public record of the nearest gradient, and as it grows, the public mean.
    """
    started = time.perf_counter()
    weights = posterior(view, public)
    found = np.tensordot(weights, public.records, axes=1)[None]
    shares = np.bincount(public.labels, weights=weights)
    cost = Cost(time.perf_counter() - started, 0)
    distance = float(np.sum((weights @ public.gradients - view.received) ** 2))
    return Reconstruction(found, np.array([int(shares.argmax())]), distance, cost)


def posterior(view: RoundView, public: PublicRecords) -> Array:
    """(n,): the probability of each public record to be the attacked one, were it one of them and all alike before."""
    public.check(view, "The expected record")
    distances = public.products.diagonal() - 2 * (public.gradients @ view.received)
    logs = -distances / (2 * max(view.defence.deviation, SMALLEST) ** 2)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


# Of float32: what a gradient without noise is known to.
SMALLEST = 1e-6


def linear_estimate(view: RoundView, public: PublicRecords) -> Reconstruction:
    """The linear function of what was received that has the least mean squared error on public records with such noise.

    Ridge regression from gradients to records, in its dual form, whose penalty is the noise's variance. Unlike the expected
    record it can answer with what no public record is.
    """
    public.check(view, "The linear estimate")
    started = time.perf_counter()
    count = len(public.records)
    records = public.records.reshape(count, -1)
    centre, middle = public.centre, records.mean(axis=0)
    rest = view.received - centre
    towards = public.gradients @ rest - centre @ rest
    values, vectors = public.spectrum
    penalty = count * max(view.defence.deviation, SMALLEST) ** 2
    weights = vectors @ ((towards @ vectors) / (values + penalty))
    found = middle + weights @ (records - middle)
    label = int(public.labels[int(towards.argmax())])
    distance = float(np.sum((rest - weights @ public.gradients + weights.sum() * centre) ** 2))
    cost = Cost(time.perf_counter() - started, 0)
    return Reconstruction(found.reshape(1, *view.record_shape), np.array([label]), distance, cost)
