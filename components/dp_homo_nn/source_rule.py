"""``noise: source_rule``, the thesis' own rule of adaptive noise. IT GUARANTEES NOTHING; it is kept for comparison.

Algorithm 1 and equations 3.8 to 3.13 of the thesis, with section 5.4's division of epsilon into three equal parts:

1. *contributions*: the mean relevance of each of u attributes, plus Lap(GS_c / (epsilon / 3)), GS_c = 2 u / |D| (3.8,
   3.9). They are not normalised per record, so GS_c bounds nothing: a relevance is as large as a logit;
2. *inputs*: with beta_j the share of attribute j in the absolute noisy contributions and epsilon_j = u beta_j epsilon /
   3, x_ij + Lap(GS_l / epsilon_j) / |batch|, GS_l = units of the first layer times u (3.13, 3.18), where beta_j is at
   least the threshold f; else that with probability p, and the *raw value with probability 1 - p* (3.11, 3.12). That
   alone has delta >= 1 - p. Noise that is divided by |batch| suits a mean, not every single value;
3. *loss coefficients* at epsilon / 3: the thesis names them and prints no formula. Taken here, by analogy with 3.9, as
   the numbers by which the label enters the cross-entropy, its one-hot vector of k classes, plus Lap(2 k / (epsilon /
   3)) / |batch|.

Gradients of the perturbed rows are averaged over a client's batch, and only then clipped as a whole (Algorithm 1, line
19: noise first, clip afterwards), so the clip bounds no record's share. Inputs and coefficients are perturbed once,
before training (section 5.6).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from fate_dp.privacy.events import ADD_OR_REMOVE, Event, NotPrivate
from fate_dp.privacy.mechanisms.clipping import grid_for
from fate_dp.privacy.noise.discrete import discrete_laplace
from fate_dp.privacy.noise.stream import KeyedStream, Stream, bernoulli, open_stream
from fate_dp.privacy.validation import positive, whole, within

from ..protocols.noisy_rounds.contribution import Contribution
from ..protocols.noisy_rounds.terms import SECURE_SUM, RoundTerms
from .frame_rows import RECORDS_AT_ONCE, Block, Coins, FrameRows
from .models.registry import ModelSource
from .models.spec import load_flat
from .relevance import layers_of, relevance
from .rounds.client import NotFinite
from .settings import TrainSettings

# Steps of the grid per scale of the noise.
STEPS_PER_SCALE = 2.0**20
REASON = (
    "The source's rule releases raw values of low-contribution attributes with probability 1 - p, scales noise by "
    "contributions whose sensitivity it does not bound, divides the noise on each value by the batch size, and clips "
    "after the noise: delta is at least {raw:g}, and no epsilon holds."
)


@dataclass(frozen=True)
class SourceRule:
    """Settings of the rule, under the source's names; public.

    Attributes:
        epsilon: what the source claims, in nats; a third for each of its three perturbations.
        f: threshold of the contribution's share.
        p: probability that a value below the threshold gets noise.
        batch_size: |D_i^t|, records of a client's batch.
    """

    epsilon: float
    f: float
    p: float
    batch_size: int

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        within("f", self.f, 0, 1)
        within("p", self.p, 0, 1)
        whole("batch_size", self.batch_size, 1)

    @property
    def part(self) -> float:
        """Epsilon of each of the three perturbations, as the source counts it."""
        return self.epsilon / 3

    @property
    def reason(self) -> str:
        return REASON.format(raw=1 - self.p if self.f > 0 else 0.0)

    def event(self, observers: tuple[str, ...], unit: str = "record", relation: str = ADD_OR_REMOVE) -> Event:
        """The ledger's event: ``NotPrivate`` with the reason, whatever f and p, under any relation."""
        return Event(NotPrivate(self.reason), unit, relation, observers)


def noisy_contributions(rule: SourceRule, relevances: np.ndarray, rng: Stream | None = None) -> np.ndarray:
    """Mean of signed relevances (n, u) of a client's records plus the source's Laplace noise (3.8, 3.9); NOT PRIVATE."""
    relevances = np.asarray(relevances, dtype=np.float64)
    records, attributes = relevances.shape
    scale = 2 * attributes / records / rule.part
    return relevances.mean(axis=0) + _laplace(scale, attributes, open_stream(rng))


def shares(contributions: np.ndarray) -> np.ndarray:
    """beta_j: each attribute's part of the absolute contributions; equal parts where all are zero."""
    sizes = np.abs(contributions)
    return sizes / sizes.sum() if sizes.sum() > 0 else np.full(len(sizes), 1 / len(sizes))


def perturbed_inputs(
    rule: SourceRule, features: np.ndarray, contributions: np.ndarray, first_layer_units: int, rng: Stream | None = None
) -> np.ndarray:
    """The inputs (n, u) that the source trains on (3.11 to 3.13), raw values among them; NOT PRIVATE.

    Args:
        contributions: the u noisy contributions.
        first_layer_units: |l_1|; for a convolution the number of its filters.
    """
    values, stream = np.array(features, dtype=np.float64), open_stream(rng)
    records, attributes = values.shape
    for attribute, beta in enumerate(shares(contributions)):
        chosen = np.ones(records, dtype=bool) if beta >= rule.f else bernoulli(rule.p, records, stream)
        if beta > 0 and chosen.any():
            # GS_l / epsilon_j: the number of attributes is a factor of both.
            scale = first_layer_units / (beta * rule.part) / rule.batch_size
            values[chosen, attribute] += _laplace(scale, int(chosen.sum()), stream)
    return values


def perturbed_targets(rule: SourceRule, labels: np.ndarray, classes: int, rng: Stream | None = None) -> np.ndarray:
    """One-hot labels (n, classes) plus Laplace noise of scale 2 k / (epsilon / 3) / |batch|: the loss coefficients;
    NOT PRIVATE.
    """
    targets = np.eye(classes)[np.asarray(labels, dtype=np.int64)]
    scale = 2 * classes / rule.part / rule.batch_size
    return targets + _laplace(scale, targets.shape, open_stream(rng))


def clipped_mean(gradients: np.ndarray, clip: float) -> np.ndarray:
    """A client's mean gradient (d,), clipped as a whole after averaging (Algorithm 1, line 19)."""
    return np.asarray(gradients) / max(1.0, float(np.linalg.norm(gradients)) / clip)


def _laplace(scale: float, size: Any, stream: Stream) -> np.ndarray:
    """Laplace noise on a grid of 2^-20 of its scale."""
    return discrete_laplace(STEPS_PER_SCALE, size, stream) * (scale / STEPS_PER_SCALE)


def rule_of(settings: TrainSettings, terms: RoundTerms) -> SourceRule:
    """The rule with the expected batch of one party; ``epsilon`` is what the source claims."""
    assert settings.epsilon is not None
    own_batch = max(1, int(terms.batch_size / terms.clients))
    return SourceRule(settings.epsilon, settings.adaptive["f"], settings.adaptive["p"], own_batch)


class SourceRuleClient:
    """What a party sends, in place of ``rounds.client.Client``. IT GUARANTEES NOTHING.

    On tables that the operator of each party declared public. The first rounds, as many as precede the release of
    contributions in adaptive noise, train on the true rows, in place of the source's training on public data. Then every
    party perturbs its inputs and loss coefficients once, by contributions to the model of that round. A party's part of a
    round is the clipped mean gradient of its Poisson batch; the server averages. Batches and noise of a block are
    functions of the task's key, so that an engine that computes a block twice finds the same.
    """

    def __init__(self, rows: SourceRuleRows, settings: TrainSettings, terms: RoundTerms, position: int) -> None:
        self._rows, self._terms, self._position = rows, terms, position
        self._rule, self._before = rule_of(settings, terms), settings.rounds_before_contributions

    def contribution(self, weights: np.ndarray, round_number: int, clip: float) -> Contribution:
        """Of a round; the server divides the sum of all by the expected batch. NotFinite where training has diverged."""
        if round_number >= self._before:
            self._rows.perturb(self._rule, weights)
        mean = clipped_mean(self._rows.mean_gradient(weights, self._terms.sampling_probability), clip)
        if not np.isfinite(mean).all():
            raise NotFinite("The gradient holds NaN or an infinity: training has diverged; lower the learning rate.")
        content = mean * (self._terms.batch_size / self._terms.clients)
        if self._terms.aggregation == SECURE_SUM:
            content = np.rint(content / grid_for(clip)).astype(np.int64)
        return Contribution(self._position, round_number, clip, content)


class SourceRuleRows(FrameRows):
    """The rows of one party, true ones until ``perturb``."""

    _perturbed = False

    def perturb(self, rule: SourceRule, weights: np.ndarray) -> None:
        """Inputs and targets with the rule's noise, by the contributions to the model at ``weights``; once."""
        if self._perturbed:
            return
        total = self._blocks.applyPartitions(partial(_relevance_sum, source=self._source, weights=weights))
        mean = total.reduce(operator.add) / self._rows
        # The rule takes the mean of relevances of records, which is that of equal ones, too.
        contributions = noisy_contributions(rule, np.broadcast_to(mean, (self._rows, len(mean))))
        kernel = partial(_perturbed_block, rule=rule, source=self._source, contributions=contributions, key=self._key)
        self._blocks = self._blocks.mapPartitions(partial(_each_block, kernel=kernel), preserves_partitioning=True)
        self._perturbed = True

    def mean_gradient(self, weights: np.ndarray, sampling_probability: float) -> np.ndarray:
        """float64 (d,): mean over a new Poisson batch of all rows; zeros where it is empty."""
        self._uses += 1
        coins = Coins(self._key, f"sum {self._uses}", sampling_probability)
        kernel = partial(_gradient_sum, source=self._source, weights=weights, coins=coins)
        total = self._blocks.applyPartitions(kernel).reduce(operator.add)
        return total[:-1] / max(1.0, total[-1])


def _each_block(blocks: Iterable, kernel: Callable) -> list:
    return [(name, kernel(name, content)) for name, content in blocks]


def _perturbed_block(
    name: Any, block: Block, rule: SourceRule, source: ModelSource, contributions: np.ndarray, key: bytes
) -> Block:
    """(float32 inputs, float64 targets) of a block."""
    stream, units = KeyedStream(key, f"source rule block {name}"), next(source.module().parameters()).shape[0]
    features, labels = block
    inputs = perturbed_inputs(rule, features, contributions, units, stream).astype(np.float32)
    return inputs, perturbed_targets(rule, labels, source.spec().classes, stream)


def _relevance_sum(blocks: Iterable, source: ModelSource, weights: np.ndarray) -> np.ndarray:
    """float64 (u,): relevances of the model's inputs, added over one partition."""
    layers, total = layers_of(_module_at(source, weights)), np.zeros(())
    for _, (features, _) in blocks:
        for start in range(0, len(features), RECORDS_AT_ONCE):
            part = torch.from_numpy(np.asarray(features[start : start + RECORDS_AT_ONCE], dtype=np.float32))
            total = total + relevance(layers, part).numpy().sum(axis=0, dtype=np.float64)
    return total


def _gradient_sum(blocks: Iterable, source: ModelSource, weights: np.ndarray, coins: Coins) -> np.ndarray:
    """float64 (d + 1,) of one partition: the batch's gradients, added, and its number of records."""
    module, classes, total = _module_at(source, weights), source.spec().classes, np.zeros(len(weights) + 1)
    for name, (features, targets) in blocks:
        batch = coins.batch(name, len(targets))
        if targets.ndim == 1:
            targets = np.eye(classes)[targets]
        for start in range(0, len(batch), RECORDS_AT_ONCE):
            part = batch[start : start + RECORDS_AT_ONCE]
            total[:-1] += _summed_gradient(module, features[part], targets[part])
            total[-1] += len(part)
    return total


def _summed_gradient(module: nn.Module, features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Gradient (d,) of the summed cross-entropy with real-valued targets (n, classes)."""
    outputs = module(torch.from_numpy(np.asarray(features, dtype=np.float32)))
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
    loss = -(torch.from_numpy(targets) * torch.log_softmax(outputs, dim=1)).sum()
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    return torch.cat([gradient.flatten() for gradient in gradients]).double().numpy()


def _module_at(source: ModelSource, weights: np.ndarray) -> nn.Module:
    # As in ``models.registry``: a forked worker would wait for threads that it does not have.
    torch.set_num_threads(1)
    module = source.module()
    load_flat(module, weights)
    return module
