"""Labels of a batch from the gradient of a model's last layer, without a search."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fate_dp.privacy.validation import InvalidArgument

from .view import RoundView, require

Labels = NDArray[np.int64]
PROBES = 64


def recovered_labels(view: RoundView) -> Labels:
    """The labels of a batch, from the gradient of the last layer's weights and bias; sorted, for no order is seen.

    *Paper:* B. Zhao, K. R. Mopuri, H. Bilen, "iDLG: improved deep leakage from gradients", arXiv 2001.02610 (2020): of one
    record the gradient of the last layer's weights is a multiple of its input for every class, and only the label's
    multiple is negative; the gradient of the bias is that multiple itself. Of several records it is the mean probability
    of a class minus its share of the labels; the first is estimated on noise, and counts follow by rounding.

    *Threat model:* any view of a model that ends in a fully connected layer. *Cost:* one forward pass at most.

    *What it cannot do:* of a batch it only estimates counts, wrongly where the model is sure of itself or where gradients
    are clipped. It needs a bias. Under noise it guesses.
    """
    view = require(view, "Label recovery")
    last = _last_linear(view)
    _, bias = gradients_of(view, last)
    if last.out_features == 1:
        return _binary_labels(view, bias)
    if view.records == 1:
        return np.array([int(bias.argmin())])
    expected = torch.softmax(_outputs_on_noise(view), dim=1).mean(dim=0)
    left = view.records * (expected - bias)
    found = []
    for _ in range(view.records):
        found.append(int(left.argmax()))
        left[found[-1]] -= 1
    return np.array(sorted(found))


def _binary_labels(view: RoundView, bias: Tensor) -> Labels:
    expected = float(torch.sigmoid(_outputs_on_noise(view)).mean())
    ones = round(view.records * (expected - float(bias)))
    ones = min(view.records, max(0, ones))
    return np.repeat([0, 1], [view.records - ones, ones])


def _outputs_on_noise(view: RoundView) -> Tensor:
    noise = torch.rand(PROBES, *view.record_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        outputs: Tensor = view.module(noise)
    return outputs


def _last_linear(view: RoundView) -> nn.Linear:
    layers = [layer for layer in view.module.modules() if not list(layer.children())]
    if not layers or not isinstance(layers[-1], nn.Linear) or layers[-1].bias is None:
        raise InvalidArgument("Label recovery needs a model that ends in a fully connected layer with a bias.")
    return layers[-1]


def gradients_of(view: RoundView, layer: nn.Linear) -> tuple[Tensor, Tensor]:
    """What was received for a layer's weight and bias, by one step."""
    parts = {
        id(parameter): part / (view.local.steps * view.local.rate if view.local else 1.0)
        for parameter, part in zip(view.module.parameters(), view.parts())
    }
    return parts[id(layer.weight)], parts[id(layer.bias)]
