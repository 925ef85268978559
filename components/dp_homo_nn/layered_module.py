"""A module as the layers of `record_layers`, one after the other, forward and backward over a block of records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from .pooled_convolution import PooledConvolution
from .record_arithmetic import Part
from .record_layers import ACTIVATIONS, Layer, layers_in_order, record_layer

# Numbers of the widest layer that are in memory at once.
BLOCK_VALUES = 820_000
MIN_BLOCK = 4


class LayeredModule:
    """A Sequential's layers in the order in which they run, with parts of gradients for every parameter.

    ``block`` records are computed at once; the results do not depend on it.
    """

    def __init__(self, module: nn.Module, layers: Sequence[Layer], block: int) -> None:
        self._layers, self.block = layers, block
        lengths = [parameter.numel() for parameter in module.parameters()]
        self._starts = dict(zip(map(id, module.parameters()), accumulate(lengths, initial=0)))
        self._first = next(place for place, layer in enumerate(layers) if layer.parameters)
        self.load()

    @classmethod
    def of(cls, module: nn.Module, shape: Sequence[int], most_records: int) -> LayeredModule | None:
        """The counterpart of a module for records of a shape; None where it has none, or holds parameters in another way."""
        found, layers, widest = torch.zeros(2, *shape), list[Layer](), 1
        ahead = _pooled_first(layers_in_order(module))
        while ahead:
            pair = PooledConvolution.of(ahead[0], ahead[1], found.shape[1:]) if len(ahead) > 1 else None
            ours, taken = (record_layer(ahead[0], found.shape[1:]), 1) if pair is None else (pair, 2)
            if ours is None:
                return None
            with torch.no_grad():
                found = nn.Sequential(*ahead[:taken])(found)
            del ahead[:taken]
            if len(found) != 2:
                return None
            layers.append(ours)
            widest = max(widest, ours.width, found[0].numel())
        parameters = [id(parameter) for ours in layers for parameter in ours.parameters]
        if sorted(parameters) != sorted(map(id, module.parameters())):
            return None
        return cls(module, layers, min(most_records, max(MIN_BLOCK, BLOCK_VALUES // widest)))

    def load(self) -> None:
        """Take on the weights that the module has now."""
        for layer in self._layers:
            layer.load()

    def is_exact(self) -> bool:
        """Whether products of the layers' own shapes are the same in another order, as exact ones are."""
        return all(layer.is_exact(self.block) for layer in self._layers)

    def outputs(self, features: Tensor) -> Tensor:
        """float64 (n, outputs) of records float64 (n, ...)."""
        for layer in self._layers:
            features = layer.forward(features)
        return features

    def parts(self, slopes: Tensor) -> list[Part]:
        """List of ``Outer`` and ``Rows`` that together hold every parameter, from the slopes (n, outputs) of the loss.

        They are good until the next block: large ones lie in memory that is used again.
        """
        found: list[Part] = []
        for place in range(len(self._layers) - 1, self._first - 1, -1):
            layer = self._layers[place]
            slopes = layer.take(slopes)
            found += layer.parts(slopes, self._starts)
            if place > self._first:
                slopes = layer.backward(slopes)
        return found


def _pooled_first(layers: Sequence[nn.Module]) -> list[nn.Module]:
    """The same function with less work: tanh and ReLU never fall, so the largest may be chosen before they are applied."""
    layers = list(layers)
    for place in range(len(layers) - 1):
        if type(layers[place]) in ACTIVATIONS and type(layers[place + 1]) is nn.MaxPool2d:
            layers[place : place + 2] = reversed(layers[place : place + 2])
    return layers
