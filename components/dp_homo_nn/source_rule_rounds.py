"""``noise: source_rule`` between parties: rounds of the thesis' own rule. THEY GUARANTEE NOTHING.

For comparison, on tables that the operator of each party declared public. The first rounds, as many as precede the
release of contributions in adaptive noise, train on the true rows, in place of the source's training on public data.
Then every party perturbs its inputs and loss coefficients once, by contributions to the model of that round, and goes
on with these. A party's part of a round is the clipped mean gradient of its Poisson batch; the server averages.

The rows stay in their blocks. Batches and noise of a block are functions of a key that the party drew for the task, so
that an engine that computes a block twice finds the same.
"""
import operator
from functools import partial

import numpy as np

from fate_dp.privacy.mechanisms.clipping import grid_for
from fate_dp.privacy.mechanisms.poisson_sampling import poisson_sample
from fate_dp.privacy.noise.stream import KeyedStream

from .frame_rows import RECORDS_AT_ONCE, FrameRows
from .relevance.source_rule import (
    SourceRule, clipped_mean, noisy_contributions, perturbed_inputs, perturbed_targets,
)  # fmt: skip
from .rounds.client import NotFinite
from .rounds.contribution import Contribution
from .rounds.terms import SECURE_SUM, RoundTerms
from .settings import TrainSettings
from .source_rule_terms import rule_of


class SourceRuleClient:
    """What a party sends, in place of ``rounds.client.Client``."""

    def __init__(self, rows: "SourceRuleRows", settings: TrainSettings, terms: RoundTerms, position: int):
        self._rows, self._terms, self._position = rows, terms, position
        self._rule, self._before = rule_of(settings, terms), settings.rounds_before_contributions

    def contribution(self, weights, round_number, clip) -> Contribution:
        """The ``Contribution`` of a round, of which the server divides the sum by the expected batch of all.

        :raises NotFinite: training has diverged.
        """
        if round_number >= self._before:
            self._rows.perturb(self._rule, weights)
        mean = clipped_mean(self._rows.mean_gradient(weights, self._terms.sampling_probability), clip)
        if not np.isfinite(mean).all():
            raise NotFinite("The gradient holds NaN or an infinity: training has diverged; lower the learning rate.")
        content = mean * (self._terms.normaliser / self._terms.clients)
        if self._terms.trust == SECURE_SUM:
            content = np.rint(content / grid_for(clip)).astype(np.int64)
        return Contribution(self._position, round_number, clip, content)


class SourceRuleRows(FrameRows):
    """The rows of one party, true ones until ``perturb``."""

    _perturbed = False

    def perturb(self, rule: SourceRule, weights) -> None:
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

    def mean_gradient(self, weights, sampling_probability) -> np.ndarray:
        """float64 (d,): mean over a new Poisson batch of all rows; zeros where it is empty."""
        self._uses += 1
        kernel = partial(
            _gradient_sum, source=self._source, weights=weights, probability=sampling_probability, key=self._key,
            label=f"sum {self._uses}",
        )  # fmt: skip
        total = self._blocks.applyPartitions(kernel).reduce(operator.add)
        return total[:-1] / max(1.0, total[-1])


def _each_block(blocks, kernel):
    return [(name, kernel(name, *content)) for name, content in blocks]


def _perturbed_block(name, features, labels, rule, source, contributions, key):
    """(float32 inputs, float64 targets) of a block."""
    stream, units = KeyedStream(key, f"source rule block {name}"), next(source.module().parameters()).shape[0]
    inputs = perturbed_inputs(rule, features, contributions, units, stream).astype(np.float32)
    return inputs, perturbed_targets(rule, labels, source.spec().classes, stream)


def _relevance_sum(blocks, source, weights):
    """float64 (u,): relevances of the model's inputs, added over one partition."""
    import torch

    from .relevance.propagation import layers_of, relevance

    layers, total = layers_of(_module_at(source, weights)), 0.0
    for _, (features, _) in blocks:
        for start in range(0, len(features), RECORDS_AT_ONCE):
            part = torch.from_numpy(np.asarray(features[start : start + RECORDS_AT_ONCE], dtype=np.float32))
            total = total + relevance(layers, part).numpy().sum(axis=0, dtype=np.float64)
    return total


def _gradient_sum(blocks, source, weights, probability, key, label):
    """float64 (d + 1,) of one partition: the batch's gradients, added, and its number of records."""
    module, classes, total = _module_at(source, weights), source.spec().classes, np.zeros(len(weights) + 1)
    for name, (features, targets) in blocks:
        batch = poisson_sample(len(targets), probability, KeyedStream(key, f"{label} block {name}"))
        if targets.ndim == 1:
            targets = np.eye(classes)[targets]
        for start in range(0, len(batch), RECORDS_AT_ONCE):
            part = batch[start : start + RECORDS_AT_ONCE]
            total[:-1] += _summed_gradient(module, features[part], targets[part])
            total[-1] += len(part)
    return total


def _summed_gradient(module, features, targets):
    """Gradient (d,) of the summed cross-entropy with real-valued targets (n, classes)."""
    import torch

    outputs = module(torch.from_numpy(np.asarray(features, dtype=np.float32)))
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
    loss = -(torch.from_numpy(targets) * torch.log_softmax(outputs, dim=1)).sum()
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    return torch.cat([gradient.flatten() for gradient in gradients]).double().numpy()


def _module_at(source, weights):
    import torch

    from .models.weights import load_flat

    # As in ``job_model``: a forked worker would wait for threads that it does not have.
    torch.set_num_threads(1)
    module = source.module()
    load_flat(module, weights)
    return module
