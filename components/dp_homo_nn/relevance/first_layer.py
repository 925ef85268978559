"""The groups of a model's first layer with weights: what contributions are counted for, and which weights belong to it.

Dense first layer: group g is input g of the layer, its coordinates are column g of the weights. Convolution: group g is
output channel g, its coordinates are the weights of that filter. Biases and all later layers belong to no group.
"""
from dataclasses import dataclass
from typing import Tuple

import numpy as np
from torch import nn

from fate_dp.components.dp_homo_nn.record_arithmetic import exact_sums
from fate_dp.components.dp_homo_nn.relevance.propagation import NotExplained, layers_of


@dataclass(frozen=True)
class FirstLayer:
    """Where the first layer with weights stands, and how its weights are grouped; public.

    :param at: the layer whose inputs' relevance is counted: for a convolution that behind it.
    :param groups: number of groups G.
    :param axis: axis of the weights along which groups are numbered.
    :param shape: shape of the weights.
    :param dimension: d, number of all parameters of the model, of which the weights come first.
    """

    at: int
    groups: int
    axis: int
    shape: Tuple[int, ...]
    dimension: int

    def parts(self, relevances):
        """Absolute contributions of each record's groups: float64 array (n, G); relevance is summed over units first.

        :param relevances: tensor (n, ...) of the inputs of layer ``at``: (n, G), or (n, G, height, width).
        """
        return exact_sums(relevances).abs().numpy()

    def expanded(self, values):
        """One value per group, put on its coordinates, and 1 on all others: float64 array (d,)."""
        along = [1] * len(self.shape)
        along[self.axis] = self.groups
        weights = np.broadcast_to(np.reshape(values, along), self.shape)
        return np.concatenate([weights.ravel(), np.ones(self.dimension - weights.size)])


def first_layer(module):
    """The ``FirstLayer`` of a module.

    :raises NotExplained: when it has none, or a layer that no rule of propagation covers.
    """
    dimension = sum(parameter.numel() for parameter in module.parameters())
    for position, layer in enumerate(layers_of(module)):
        shape = tuple(getattr(layer, "weight", np.empty(0)).shape)
        if isinstance(layer, nn.Linear):
            return FirstLayer(position, layer.in_features, 1, shape, dimension)
        if isinstance(layer, nn.Conv2d):
            return FirstLayer(position + 1, layer.out_channels, 0, shape, dimension)
    raise NotExplained("The model has neither a linear nor a convolution layer, so that no weights could be scaled.")
