"""Records from the gradients that they gave: gradient inversion.

What all attacks here share is the *threat model*: the observer keeps to the protocol, and sees one round's gradient or
update of a batch (`RoundView`) of a model whose layers and weights it knows. It looks for records that would have given
what it received, and it knows no private record. The optimising attacks are told the public clip and the client's local
steps, and apply both to their candidates, so that clipping alone hides nothing from them.

- `layer_input`: the input of a fully connected layer, by one division.
- `deep_leakage`: the squared distance of gradients, by L-BFGS.
- `inverted_gradients`: the cosine distance with total variation, by Adam on signs.

Attacks that know pictures of the same kind are in `prior_inversion`, those on tables in `table_inversion`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn import functional

from bench.attack_methods.gradient_labels import gradients_of, recovered_labels
from bench.attack_methods.results import Cost
from bench.attack_methods.view import GRADIENT, RoundView, require
from fate_dp.components.dp_homo_nn.gradients import cross_entropy
from fate_dp.privacy.validation import InvalidArgument

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What an attack makes of a view.

    ``distance`` is between what was received and what the reconstruction would have given, in the attack's own measure:
    the observer knows it, and chooses among restarts by it.
    """

    records: Array = field(repr=False)
    labels: Labels
    distance: float
    cost: Cost


def explained(view: RoundView, records: Tensor, labels: Tensor) -> Tensor:
    """float64 (d,): what the observer would have received of these records, differentiable by them."""
    if view.local is not None:
        return _update(view, records, labels, view.local.steps, view.local.rate)
    parameters = list(view.module.parameters())
    if view.defence.clip is None:
        return _gradient(cross_entropy(view.module(records), labels).mean(), parameters)
    losses = cross_entropy(view.module(records), labels)
    rows = [_clipped(_gradient(loss, parameters), view.defence.clip) for loss in losses]
    return torch.stack(rows).mean(dim=0)


def _gradient(loss: Tensor, parameters: list[nn.Parameter]) -> Tensor:
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters, create_graph=True)])


def _clipped(gradient: Tensor, clip: float) -> Tensor:
    factor: Tensor = (clip / gradient.norm()).clamp(max=1.0)
    return gradient * factor


def _update(view: RoundView, records: Tensor, labels: Tensor, steps: int, rate: float) -> Tensor:
    """Old minus new weights; the graph of all steps is kept, so memory grows with their number."""
    start = {name: parameter.detach().requires_grad_() for name, parameter in view.module.named_parameters()}
    current: dict[str, Tensor] = dict(start)
    for _ in range(steps):
        outputs = torch.func.functional_call(view.module, current, (records,))
        loss = cross_entropy(outputs, labels).mean()
        slopes = torch.autograd.grad(loss, list(current.values()), create_graph=True)
        current = {name: value - rate * slope for (name, value), slope in zip(current.items(), slopes)}
    return torch.cat([(start[name] - value).flatten() for name, value in current.items()])


def layer_input(view: RoundView) -> Reconstruction:
    """The input of a model's first layer, where that is fully connected: without a search, and exact without noise.

    *Paper:* J. Geiping et al., "Inverting gradients", NeurIPS 2020, proposition 3.1; after L. T. Phong et al., IEEE
    Transactions on Information Forensics and Security 13 (2018). The gradient of a unit's weights is the layer's input
    times the gradient of its bias; here all units are used at once, by least squares.

    *Threat model:* the gradient of one record, clipped or not. *Cost:* one division.

    *What it cannot do:* of a batch it would give a mixture of the records, so it refuses one; under noise it divides one
    noisy number by another. Layers before the first fully connected one stay.
    """
    view = require(view, "Analytic reconstruction", kinds=(GRADIENT,), records=1)
    started = time.perf_counter()
    layers = [layer for layer in view.module.modules() if list(layer.parameters(recurse=False))]
    first = layers[0]
    if not isinstance(first, nn.Linear) or first.bias is None:
        raise InvalidArgument(
            f"Analytic reconstruction needs a model that starts with a fully connected layer with a bias; this one starts "
            f"with {type(first).__name__}."
        )
    weight, bias = gradients_of(view, first)
    energy = float(bias @ bias)
    found = (bias @ weight / energy if energy else torch.zeros(first.in_features)).view(1, *view.record_shape)
    return Reconstruction(found.numpy(), recovered_labels(view), 0.0, Cost(time.perf_counter() - started, 0))


@dataclass(frozen=True)
class SearchOptions:
    """How an attack searches: steps of the optimiser from each of at most so many starts, which a public seed decides.

    A distance below ``enough`` is taken for the right place, and no further start is tried.
    """

    steps: int
    restarts: int = 1
    seed: int = 0
    enough: float = 1e-6
    variation: float = 0.0


class Objective:
    """How far candidates are from what was received, in one measure; counts how often it was asked."""

    def __init__(self, view: RoundView, labels: Labels, measure: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.view, self.labels, self.measure = view, torch.from_numpy(labels), measure
        self.target = view.target
        self.asked = 0

    def distance(self, records: Tensor) -> Tensor:
        """Of one batch of candidates; differentiable by them."""
        self.asked += 1
        return self.measure(explained(self.view, records, self.labels), self.target)


def squared_distance(found: Tensor, target: Tensor) -> Tensor:
    """Relative to the squared norm of the target, so that what is near enough is the same for all models."""
    difference = found - target
    distance: Tensor = difference @ difference / (target @ target).clamp(min=1e-300)
    return distance


def cosine_distance(found: Tensor, target: Tensor) -> Tensor:
    """One minus the cosine: the lengths of both do not count, so that neither a clip nor a rate hides anything."""
    distance: Tensor = 1 - functional.cosine_similarity(found, target, dim=0)
    return distance


def total_variation(pictures: Tensor) -> Tensor:
    """Mean absolute difference of neighbouring pixels of pictures (n, channels, height, width)."""
    rows, columns = pictures.diff(dim=-2).abs().mean(), pictures.diff(dim=-1).abs().mean()
    return rows + columns


HISTORY = 50
EVALUATIONS_OF_STEP = 25


def deep_leakage(view: RoundView, labels: Labels, options: SearchOptions) -> Reconstruction:
    """Records whose gradient is nearest to what was received, in the squared distance, by L-BFGS.

    *Paper:* L. Zhu, Z. Liu, S. Han, "Deep leakage from gradients", NeurIPS 2019. The labels are not searched for, but
    recovered first, as in iDLG; of several starts the one that came nearest is kept.

    *Threat model:* any view. *Cost:* about 1.25 gradients and their derivatives for each step.

    *What it cannot do:* it needs smooth activations (with ReLU second derivatives vanish or jump) and a start near enough;
    the paper reports batches of up to 8, whose search takes far longer. It has no prior: noise moves its goal to records
    that look like nothing.
    """
    view = require(view, "Deep leakage")
    return nearest_of(Objective(view, labels, squared_distance), options)


def inverted_gradients(view: RoundView, labels: Labels, options: SearchOptions) -> Reconstruction:
    """Pictures whose gradient has the direction of what was received, and that vary little, by Adam on signs.

    *Paper:* J. Geiping et al., "Inverting gradients: how easy is it to break privacy in federated learning?", NeurIPS 2020:
    the cosine distance plus ``options.variation`` times the total variation, values kept from 0 to 1, and a rate that
    falls three times to a tenth.

    *Threat model:* any view of pictures (channels, height, width), and the prior that pictures are smooth. *Cost:* one
    gradient and its derivative for each step; the paper takes up to 24,000 steps.

    *What it cannot do:* it comes less near than L-BFGS on small smooth models. Pictures of one label in one batch are mixed
    up, as is their order.
    """
    view = require(view, "Inversion of gradients")
    return nearest_of(Objective(view, labels, cosine_distance), options, descend_by_signs)


def descend_by_curvature(start: Tensor, objective: Objective, options: SearchOptions) -> Tensor:
    """Where L-BFGS ends."""
    records = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [records],
        max_iter=options.steps,
        max_eval=EVALUATIONS_OF_STEP * options.steps,
        history_size=HISTORY,
        tolerance_grad=1e-14,
        tolerance_change=1e-18,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        distance = objective.distance(records)
        (records.grad,) = torch.autograd.grad(distance, [records])
        return distance

    optimizer.step(closure)
    # A line search that left the numbers that floats hold found nothing.
    return torch.nan_to_num(records.detach())


RATE = 0.1
# Where the rate falls to a tenth, as shares of all steps.
FALLS = (3 / 8, 5 / 8, 7 / 8)


def descend_by_signs(start: Tensor, objective: Objective, options: SearchOptions) -> Tensor:
    """Where Adam on signs ends, with values kept from 0 to 1."""
    pictures = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([pictures], lr=RATE)
    milestones = [int(share * options.steps) for share in FALLS]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma=0.1)
    for _ in range(options.steps):
        value = objective.distance(pictures) + options.variation * total_variation(pictures)
        (slope,) = torch.autograd.grad(value, [pictures])
        pictures.grad = slope.sign()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            pictures.clamp_(0.0, 1.0)
    return pictures.detach()


Descent = Callable[[Tensor, Objective, SearchOptions], Tensor]


def nearest_of(objective: Objective, options: SearchOptions, descend: Descent = descend_by_curvature) -> Reconstruction:
    """Where the search ended nearest to what was received, of several starts."""
    started = time.perf_counter()
    generator = torch.Generator().manual_seed(options.seed)
    shape = (objective.view.records, *objective.view.record_shape)
    best, least = torch.zeros(shape, dtype=torch.float64), float("inf")
    for _ in range(options.restarts):
        start = torch.randn(shape, generator=generator, dtype=torch.float64)
        found = descend(start, objective, options)
        distance = float(objective.distance(found).detach())
        if distance < least:
            best, least = found, distance
        if least < options.enough:
            break
    cost = Cost(time.perf_counter() - started, objective.asked)
    return Reconstruction(best.numpy(), objective.labels.numpy(), least, cost)


def matched(originals: Array, reconstruction: Array) -> Array:
    """The reconstructed records in the order of the originals that they are nearest to, all in all: no view shows one.

    For measuring only: an observer does not have the originals, and does not need their order.
    """
    count = len(originals)
    distances = [[float(np.sum((one - other) ** 2)) for other in reconstruction] for one in originals]
    _, order = linear_sum_assignment(np.array(distances).reshape(count, count))
    found: Array = reconstruction[order]
    return found
