"""Start weights from a public seed, the same at every party, and layers that are made without any generator."""
import math

import torch
from torch import nn


def linear(inputs, outputs):
    """A linear layer, not yet filled: its maker would read torch's global generator."""
    return nn.utils.skip_init(nn.Linear, inputs, outputs)


def convolution(inputs, outputs, kernel_size, **options):
    """A convolution layer, not yet filled."""
    return nn.utils.skip_init(nn.Conv2d, inputs, outputs, kernel_size, **options)


def fill_uniform(module, seed):
    """Fill every layer uniformly within 1 / sqrt(inputs of a unit), which is torch's rule, from ``seed``; return it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in module.modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d)):
                bound = 1 / math.sqrt(layer.weight[0].numel())
                for parameter in (layer.weight, layer.bias):
                    # Not ``uniform_`` with these ends: whether that fuses product and sum depends on the processor.
                    parameter.copy_(torch.rand(parameter.shape, generator=generator) * (2 * bound) - bound)
    return module


def fill_zeros(module):
    """Fill every parameter with zeros, from which a convex problem starts best; return the module."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    return module
