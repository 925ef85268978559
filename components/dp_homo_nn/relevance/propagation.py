"""Layer-wise relevance propagation: how much each unit of a layer contributed to what the model predicts of a record.

**Relevance of what.** Of the logit of the class that the model itself predicts (its only logit, where it has one); the
label is never read. That logit is the relevance of the output layer (eq. 3.3, 3.6), all other outputs have none.

**Rules**, from a layer's outputs j back to its inputs a_i:

- linear, convolution and average pooling: R_i = sum_j a_i w_ij / (z_j +- stabiliser) R_j with z_j = sum_i a_i w_ij,
  *without* the bias (eq. 3.7), and nothing through a unit with z_j = 0, where the source puts a number "infinitely
  close to zero". So a layer's relevances add up to those of the next layer (eq. 3.2, 3.4) but for the part
  stabiliser / (|z_j| + stabiliser) of each R_j, and for units with z_j = 0. The bias gets no share;
- maximum pooling: all of it to the largest input; padding, flattening, dropout: to where the number came from;
- tanh and ReLU: unchanged.

In a linear model with one output R_j is proportional to w_j x_ij.

A quotient by a z_j near zero makes much of its last bits, so every layer is one of `record_layers`, with exact products:
a record's relevances do not depend on its companions in any bit.

References: S. Bach et al., "On pixel-wise explanations for non-linear classifier decisions by layer-wise relevance
propagation", PLOS ONE 10 (2015), eq. 56 and 58; the thesis, section 3.3.1, whose equations are cited by number.
"""
import numpy as np
import torch
from torch import nn

from fate_dp.components.dp_homo_nn.record_layers import InAnyOrder, layers_in_order, record_layer

STABILISER = 1e-6

LINEAR = (nn.Linear, nn.Conv2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)
ROUTED = (nn.MaxPool2d, nn.Flatten, nn.Unflatten, nn.ZeroPad2d, nn.Identity, nn.Dropout, nn.Dropout2d)
UNCHANGED = (nn.Tanh, nn.ReLU)
EXPLAINED = "linear, convolution, pooling, padding, flatten, dropout, tanh and ReLU layers in a Sequential"


class NotExplained(ValueError):
    """A module holds a layer for which no rule of propagation is known: one sentence."""


def layers_of(module):
    """The layers of a module in order, Sequentials within it unfolded.

    :param module: an ``nn.Sequential``, or a single layer.
    :raises NotExplained: names the first layer that no rule covers.
    """
    layers = layers_in_order(module)
    for layer in layers:
        if type(layer) not in LINEAR + ROUTED + UNCHANGED:
            raise NotExplained(
                f"The model holds a layer of type {type(layer).__name__}, but relevance is propagated through "
                f"{EXPLAINED} only: choose noise uniform for this model."
            )
    return layers


def relevance(layers, inputs, at=0, stabiliser=STABILISER):
    """Relevances of the inputs of layer ``at`` for the predicted logit, record by record.

    :param layers: from ``layers_of``; dropout is taken as in prediction, it drops nothing.
    :param inputs: tensor (n, ...) of finite numbers that the first layer takes; private.
    :param at: from 0, the model's inputs, to the number of layers, the outputs themselves.
    :param stabiliser: added to |z_j|, in the unit of a layer's outputs.
    :returns: float64 tensor (n, ...) in the shape of those inputs; private.
    """
    activations, ours = [inputs], []
    with torch.no_grad():
        for layer in layers:
            ours.append(counterpart(layer, activations[-1]))
            activations.append(ours[-1].forward(activations[-1]))
        found = predicted_logits(activations[-1])
        for position in range(len(layers) - 1, at - 1, -1):
            found = _propagated(layers[position], ours[position], activations[position], found, stabiliser)
    return found


def predicted_logits(outputs):
    """The relevance of the outputs (n, k): each record's largest one where it stands, the first of equals, else zero."""
    largest = torch.from_numpy(np.argmax(outputs.numpy(), axis=1)).unsqueeze(1)
    return torch.zeros_like(outputs).scatter(1, largest, outputs.gather(1, largest))


def propagated(layer, inputs, relevances, stabiliser=STABILISER):
    """Relevances of one layer's inputs from those of its outputs, by the rule of its kind."""
    with torch.no_grad():
        ours = counterpart(layer, inputs)
        ours.forward(inputs)
        return _propagated(layer, ours, inputs, relevances, stabiliser)


def counterpart(layer, inputs):
    """What stands for a torch layer here, for records like ``inputs``.

    :raises NotExplained: there is nothing.
    """
    exact = type(layer) in (nn.Linear, nn.Conv2d)
    ours = InAnyOrder(layer) if exact else record_layer(layer, inputs.shape[1:])
    if ours is None:
        raise NotExplained(
            f"The model holds a {type(layer).__name__} that gives records no relevance here: it has hooks, other outputs "
            "than one tensor, or windows of several sizes; choose noise uniform for this model."
        )
    ours.load()
    return ours


def _propagated(layer, ours, inputs, relevances, stabiliser):
    if isinstance(layer, UNCHANGED):
        return relevances
    if not isinstance(layer, LINEAR):
        return ours.backward(relevances.double())
    return inputs * ours.backward(_shares(ours.sums(inputs), relevances.double(), stabiliser))


def _shares(sums, relevances, stabiliser):
    """R_j / (z_j +- stabiliser), and 0 where z_j is 0."""
    stabilised = sums + torch.copysign(torch.full_like(sums, stabiliser), sums)
    return torch.where(sums == 0, torch.zeros_like(sums), relevances / stabilised)
