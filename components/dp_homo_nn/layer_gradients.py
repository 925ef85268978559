"""Per-record gradients of linear and convolution layers from one backward pass, without a loop over records.

The gradient of a layer's weights at one record is a sum over the layer's places p of outer products: the gradient of
the loss at the outputs of p, times the inputs that p reads. A linear layer has one place, so its gradients are kept as
two vectors (`Outer`) and never multiplied out; a convolution has one place per pixel of its output (`Rows`), whose
inputs are cut out as patches (K. Chellapilla et al., "High performance convolutional neural networks", 2006; for
per-record norms I. Goodfellow, arXiv 1510.01799).

Backward needs no gradient of any weight then, which saves a third of it.
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True, eq=False)
class Outer:
    """Per-record gradients ``left[i] right[i]^T`` of the parameters from ``start`` on, in row-major order.

    :param left: float32 (n, outputs). :param right: float32 (n, inputs).
    """

    start: int
    left: torch.Tensor
    right: torch.Tensor

    @property
    def count(self):
        """Number of parameters."""
        return self.left.shape[1] * self.right.shape[1]

    def rows(self):
        """float32 (n, count)."""
        return (self.left.unsqueeze(2) * self.right.unsqueeze(1)).flatten(1)

    def divided(self, scales):
        """Divided by ``scales`` (count,): still an outer product if all outputs share their inputs' scales."""
        scales = scales.view(self.left.shape[1], self.right.shape[1])
        if bool((scales == scales[0]).all()):
            return Outer(self.start, self.left, self.right / scales[0])
        return Rows(self.start, self.rows() / scales.flatten())


@dataclass(frozen=True, eq=False)
class Rows:
    """Per-record gradients of the parameters from ``start`` on, multiplied out.

    :param values: float32 (n, count), in the order of the parameters unless ``shape`` is given.
    :param shape: of a convolution's row: (outputs, height, width, inputs), whereas the parameters have the inputs
        before height and width; or None.
    """

    start: int
    values: torch.Tensor
    shape: tuple = None

    @property
    def count(self):
        """Number of parameters."""
        return self.values.shape[1]

    def ordered(self, values):
        """``values`` (..., count), computed from ``self.values``, in the order of the parameters."""
        if self.shape is None:
            return values
        return values.unflatten(-1, self.shape).movedim(-1, -3).flatten(-4)

    def rows(self):
        """float32 (n, count), in the order of the parameters."""
        return self.ordered(self.values)

    def divided(self, scales):
        """Divided by ``scales`` (count,), which are in the order of the parameters."""
        if self.shape is not None:
            outputs, height, width, inputs = self.shape
            scales = scales.view(outputs, inputs, height, width).movedim(1, -1).flatten()
        return Rows(self.start, self.values / scales, self.shape)


def layers_of(module):
    """The layers of a module that hold its parameters, if this file knows them all; otherwise None."""
    layers = [layer for layer in module.modules() if any(True for _ in layer.parameters(recurse=False))]
    owned = [parameter for layer in layers for parameter in layer.parameters(recurse=False)]
    alone = len(owned) == len({id(parameter) for parameter in owned})
    return layers if alone and all(map(_is_known, layers)) else None


def _is_known(layer):
    if type(layer) is nn.Linear:
        return True
    return (
        type(layer) is nn.Conv2d
        and (layer.groups, layer.dilation, layer.padding_mode) == (1, (1, 1), "zeros")
        and not isinstance(layer.padding, str)
    )


class LayerGradients:
    """Per-record gradients of a module whose parameters are all in linear and convolution layers.

    :param module: the module; :param layers: what ``layers_of`` says of it.
    :param loss: function (outputs, labels) to losses (n,).
    """

    def __init__(self, module, layers, loss):
        self._module, self._layers, self._loss = module, layers, loss
        starts, start = {}, 0
        for parameter in module.parameters():
            starts[id(parameter)] = start
            start += parameter.numel()
        self._starts = [[starts[id(parameter)] for parameter in layer.parameters(recurse=False)] for layer in layers]

    def parts(self, features, labels):
        """List of ``Outer`` and ``Rows`` that together hold every parameter; None if a layer ran not just once."""
        seen = {layer: [] for layer in self._layers}
        handles = [
            layer.register_forward_hook(lambda layer, given, output: seen[layer].append((given[0], output)))
            for layer in self._layers
        ]
        try:
            losses = self._loss(self._module(features.detach().requires_grad_()), labels)
        finally:
            for handle in handles:
                handle.remove()
        if any(len(calls) != 1 for calls in seen.values()):
            return None
        inputs, outputs = zip(*(seen[layer][0] for layer in self._layers))
        slopes = torch.autograd.grad(losses.sum(), outputs)
        with torch.no_grad():
            return [
                part
                for layer, starts, given, slope in zip(self._layers, self._starts, inputs, slopes)
                for part in _parts(layer, starts, given.detach(), slope)
            ]


def _parts(layer, starts, given, slope):
    if isinstance(layer, nn.Conv2d):
        yield _convolution_rows(layer, starts[0], given, slope)
        slope = slope.flatten(2).sum(2)
    elif given.dim() == 2:
        yield Outer(starts[0], slope, given)
    else:
        given, slope = given.flatten(1, -2), slope.flatten(1, -2)
        yield Rows(starts[0], torch.bmm(slope.mT, given).flatten(1))
        slope = slope.sum(1)
    if layer.bias is not None:
        yield Rows(starts[1], slope)


def _convolution_rows(layer, start, given, slope):
    """Gradients with the channel as the last axis: cutting patches out then copies long runs."""
    (high, wide), (down, right) = layer.kernel_size, layer.stride
    above, beside = layer.padding
    image = nn.functional.pad(given.permute(0, 2, 3, 1), (0, 0, beside, beside, above, above))
    patches = image.unfold(1, high, down).unfold(2, wide, right).permute(0, 1, 2, 4, 5, 3)
    count, rows, columns, *_, channels = patches.shape
    patches = patches.reshape(count, rows * columns, high * wide * channels)
    places = slope.permute(0, 2, 3, 1).reshape(count, rows * columns, layer.out_channels)
    values = torch.bmm(places.mT, patches).flatten(1)
    return Rows(start, values, (layer.out_channels, high, wide, channels))
