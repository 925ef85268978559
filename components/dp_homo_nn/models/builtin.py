"""Start weights from a public seed, the same at every party, and layers that are made without any generator."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from fate_dp.privacy.validation import InvalidArgument

from ...common import parameters as checks
from .features import scattering_channels, scattering_features
from .spec import ModelSpec


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer, not yet filled: its maker would read torch's global generator."""
    return nn.utils.skip_init(nn.Linear, inputs, outputs)


def convolution(inputs: int, outputs: int, kernel_size: int, **options: Any) -> nn.Conv2d:
    """A convolution layer, not yet filled."""
    return nn.utils.skip_init(nn.Conv2d, inputs, outputs, kernel_size, **options)


def fill_uniform(module: nn.Module, seed: int) -> nn.Module:
    """Fill every layer uniformly within 1 / sqrt(inputs of a unit), which is torch's rule, from ``seed``; return it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in module.modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d)):
                bound = 1 / math.sqrt(layer.weight[0].numel())
                for parameter in layer.parameters():
                    # Not ``uniform_`` with these ends: whether that fuses product and sum depends on the processor.
                    parameter.copy_(torch.rand(parameter.shape, generator=generator) * (2 * bound) - bound)
    return module


def fill_zeros(module: nn.Module) -> nn.Module:
    """Fill every parameter with zeros, from which a convex problem starts best; return the module."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    return module


# A linear model: logistic regression, softmax regression, or linear regression when there is one class.


def logistic_regression(spec: ModelSpec) -> nn.Module:
    """Module from float32 (n, features) to (n, outputs); starts at zero."""
    spec.parameters()
    return fill_zeros(nn.Sequential(linear(spec.features, spec.outputs)))


# A multi-layer perceptron.


ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}
MAX_LAYERS, MAX_UNITS = 16, 2**14


def mlp(spec: ModelSpec) -> nn.Module:
    """Module from float32 (n, features) to (n, outputs).

    Parameters: ``hidden``, the units of each hidden layer, [64] if not given; ``activation``, tanh or relu.
    """
    parameters = spec.parameters(hidden=[64], activation="tanh")
    activation = ACTIVATIONS[checks.choice("activation", parameters["activation"], tuple(ACTIVATIONS))]
    hidden = parameters["hidden"]
    if not isinstance(hidden, (list, tuple)) or not 1 <= len(hidden) <= MAX_LAYERS:
        raise InvalidArgument(f"hidden is {hidden!r} but must list the units of 1 to {MAX_LAYERS} hidden layers.")
    units = [checks.number("hidden", count, at_least=1, at_most=MAX_UNITS, whole=True) for count in hidden]
    layers = []
    for inputs, outputs in pairwise([spec.features, *units]):
        layers += [linear(inputs, outputs), activation()]
    return fill_uniform(nn.Sequential(*layers, linear(units[-1], spec.outputs)), spec.seed)


# The convolution network of R. Shokri and V. Shmatikov, "Privacy-preserving deep learning", CCS 2015.
#
# Two convolutions of 5 x 5 with 32 and 64 channels, each with tanh and max pooling (3 x 3, then 2 x 2), then 200 units
# with tanh and the classes: 105,506 parameters for ten classes and 32 x 32 grey values.


KERNEL, FIRST_POOL, SECOND_POOL = 5, 3, 2
FIRST_CHANNELS, SECOND_CHANNELS, UNITS = 32, 64, 200
# 28 x 28 images get a border of two zeros, as is usual for this network.
PADDINGS = {28: 2}
# Smaller images leave nothing behind the second pooling.
MIN_SIDE = 22


def cnn(spec: ModelSpec) -> nn.Module:
    """Module from float32 (n, features) to (n, outputs).

    Parameters: ``input_shape`` (channels, height, width), known for 28 x 28, 32 x 32 and 3 x 32 x 32; ``activation``,
    tanh (the source's) or relu.
    """
    parameters = spec.parameters(input_shape=None, activation="tanh")
    activation = ACTIVATIONS[checks.choice("activation", parameters["activation"], tuple(ACTIVATIONS))]
    channels, height, width = shape = spec.image_shape(parameters["input_shape"])
    rows, columns = (side + 2 * PADDINGS.get(side, 0) for side in (height, width))
    if min(rows, columns) < MIN_SIDE:
        raise InvalidArgument(f"input_shape is {shape} but the cnn needs at least {MIN_SIDE} rows and columns.")
    layers = [
        nn.Unflatten(1, shape),
        nn.ZeroPad2d((PADDINGS.get(width, 0),) * 2 + (PADDINGS.get(height, 0),) * 2),
        convolution(channels, FIRST_CHANNELS, KERNEL),
        activation(),
        nn.MaxPool2d(FIRST_POOL),
        convolution(FIRST_CHANNELS, SECOND_CHANNELS, KERNEL),
        activation(),
        nn.MaxPool2d(SECOND_POOL),
        nn.Flatten(),
        linear(SECOND_CHANNELS * _left(rows) * _left(columns), UNITS),
        activation(),
        linear(UNITS, spec.outputs),
    ]
    return fill_uniform(nn.Sequential(*layers), spec.seed)


def _left(side: int) -> int:
    """Rows (or columns) behind the second pooling."""
    first = (side - KERNEL + 1) // FIRST_POOL
    return (first - KERNEL + 1) // SECOND_POOL


# A linear model on scattering features of images, which a party computes once from its own records.


NAME = "scattering_linear"
GROUPS = 27


def scattering_linear(spec: ModelSpec) -> nn.Module:
    """Module from float32 (n, scattering features) to (n, outputs); starts at zero.

    Parameters: ``input_shape`` (channels, height, width), ``scales`` (J, 2 if not given), ``angles`` (L, 8) and
    ``groups`` of channels to normalise within (27; 0 for none).
    """
    return fill_zeros(linear(input_count(spec), spec.outputs))


def input_count(spec: ModelSpec) -> int:
    """Number of inputs of the model: for all models but this one the features of a record."""
    if spec.name != NAME:
        return spec.features
    shape, parameters = _parameters(spec)
    channels, height, width = shape
    side = 2 ** parameters["scales"]
    kept = channels * scattering_channels(parameters["scales"], parameters["angles"])
    return kept * (height // side) * (width // side)


def model_inputs(spec: ModelSpec, features: np.ndarray, progress: Callable[[int], None] | None = None) -> np.ndarray:
    """What the model takes of records: float32 (n, ``input_count(spec)``).

    Args:
        features: array (n, ``spec.features``), real numbers.
        progress: called with the number of records done, if given and there is something to do.
    """
    features = np.asarray(features, dtype=np.float32)
    if spec.name != NAME:
        return features
    shape, parameters = _parameters(spec)
    return scattering_features(features.reshape(len(features), *shape), **parameters, progress=progress)


def _parameters(spec: ModelSpec) -> tuple[tuple[int, int, int], dict[str, int]]:
    given = spec.parameters(input_shape=None, scales=2, angles=8, groups=GROUPS)
    shape = spec.image_shape(given.pop("input_shape"))
    scales = checks.number("scales", given["scales"], at_least=1, at_most=5, whole=True)
    angles = checks.number("angles", given["angles"], at_least=1, at_most=32, whole=True)
    groups = checks.number("groups", given["groups"], at_least=0, whole=True)
    kept = shape[0] * scattering_channels(scales, angles)
    if groups and kept % groups:
        raise InvalidArgument(f"groups is {groups} but must divide the {kept} channels of coefficients, or be 0.")
    if min(shape[1:]) < 2**scales:
        raise InvalidArgument(
            f"scales is {scales} but images must be at least {2**scales} pixels wide and high for it."
        )
    return shape, {"scales": scales, "angles": angles, "groups": groups}
