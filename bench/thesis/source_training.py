"""Training by the source's own rule of adaptive noise, NOT PRIVATE, as generous to it as its text allows.

Its Algorithm 1 over the same clients, rounds, expected batch sizes and clip: every client perturbs its inputs and loss
coefficients once, then sends its clipped mean gradient over a batch, drawn as everywhere; the server averages. The
source explains a model that its server trained on public data; in its place stands one trained for the warm-up rounds
on the true rows without noise. A client's contributions are those of its first 512 records at most, and only records
that a round draws are perturbed; neither changes what the rule does with them.
"""

import numpy as np
import torch

from bench.thesis.source_rule import SourceRule, clipped_mean, noisy_contributions, perturbed_inputs, perturbed_targets
from fate_dp.components.dp_homo_nn.models.spec import load_flat
from fate_dp.components.dp_homo_nn.relevance import layers_of, relevance
from fate_dp.privacy.mechanisms.sampling import poisson_sample

# The pair for which the source reports its best accuracy.
THRESHOLD, PROBABILITY = 0.15, 0.85
MAX_EXPLAINED = 512


def source_rule(run, epsilon, threshold=THRESHOLD, probability=PROBABILITY):
    """Held-out accuracy or AUC of a ``Run``'s split, trained with what the source calls ``epsilon``."""
    settings, classes = run.task.settings, run.task.spec.classes
    rule = SourceRule(epsilon, threshold, probability, max(1, settings.batch_size // settings.clients))
    batches = [_batches(run, position) for position in range(settings.clients)]
    plain = [(features, np.eye(classes)[labels]) for features, labels in run.owned]
    load_flat(run.module, _descended(run, plain, batches, settings.warm_up))
    perturbed = []
    for position, (features, labels) in enumerate(run.owned):
        stream, drawn = run.stream("source", position), np.unique(np.concatenate(batches[position]))
        contributions = _contributions(rule, run.module, features, stream)
        inputs, targets = features.copy(), plain[position][1]
        inputs[drawn] = perturbed_inputs(rule, features[drawn], contributions, _first_units(run.module), stream)
        targets[drawn] = perturbed_targets(rule, labels[drawn], classes, stream)
        perturbed.append((inputs, targets))
    return run.measured(_descended(run, perturbed, batches, settings.rounds))


def without_noise(run):
    """Held-out accuracy or AUC of the same rounds, clip and batches on the true rows, without any noise."""
    classes = run.task.spec.classes
    plain = [(features, np.eye(classes)[labels]) for features, labels in run.owned]
    batches = [_batches(run, position) for position in range(run.task.settings.clients)]
    return run.measured(_descended(run, plain, batches, run.task.settings.rounds))


def _batches(run, position):
    """A client's Poisson batches, one per round."""
    settings, stream = run.task.settings, run.stream("source batches", position)
    probability = settings.batch_size / sum(len(features) for features, _ in run.owned)
    return [poisson_sample(len(run.owned[position][0]), probability, stream) for _ in range(settings.rounds)]


def _contributions(rule, module, features, stream):
    relevances = relevance(layers_of(module), torch.from_numpy(features[:MAX_EXPLAINED]))
    return noisy_contributions(rule, relevances.numpy(), stream)


def _first_units(module):
    """Units of the first layer with weights; of a convolution its filters."""
    return next(module.parameters()).shape[0]


def _descended(run, owned, batches, rounds):
    """Weights after rounds of descent with momentum along the average of the clients' clipped mean gradients."""
    settings, weights, velocity = run.task.settings, run.start.copy(), np.zeros(len(run.start))
    for round_number in range(rounds):
        load_flat(run.module, weights)
        total = np.zeros(len(weights))
        for (features, targets), drawn in zip(owned, batches):
            batch = drawn[round_number]
            if len(batch):
                total += clipped_mean(_mean_gradient(run.module, features[batch], targets[batch]), settings.clip)
        velocity = settings.momentum * velocity + total / len(owned)
        weights -= settings.learning_rate * velocity
    return weights


def _mean_gradient(module, features, targets):
    """Gradient of the mean cross-entropy with real-valued targets (n, classes)."""
    outputs = module(torch.from_numpy(features))
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
    loss = -(torch.from_numpy(targets) * torch.log_softmax(outputs, dim=1)).sum(dim=1).mean()
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    return torch.cat([gradient.flatten() for gradient in gradients]).double().numpy()
