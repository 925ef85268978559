"""The convolution network of R. Shokri and V. Shmatikov, "Privacy-preserving deep learning", CCS 2015.

Two convolutions of 5 x 5 with 32 and 64 channels, each with tanh and max pooling (3 x 3, then 2 x 2), then 200 units
with tanh and the classes: 105,506 parameters for ten classes and 32 x 32 grey values.
"""
from torch import nn

from fate_dp.components.common import checks
from fate_dp.components.dp_homo_nn.models.mlp import ACTIVATIONS
from fate_dp.components.dp_homo_nn.models.spec import InvalidModel
from fate_dp.components.dp_homo_nn.models.start_weights import convolution, fill_uniform, linear

KERNEL, FIRST_POOL, SECOND_POOL = 5, 3, 2
FIRST_CHANNELS, SECOND_CHANNELS, UNITS = 32, 64, 200
# 28 x 28 images get a border of two zeros, as is usual for this network.
PADDINGS = {28: 2}
# Smaller images leave nothing behind the second pooling.
LEAST_SIDE = 22


def cnn(spec):
    """Module from float32 (n, features) to (n, outputs).

    Parameters: ``input_shape`` (channels, height, width), known for 28 x 28, 32 x 32 and 3 x 32 x 32; ``activation``,
    tanh (the source's) or relu.
    """
    parameters = spec.parameters(input_shape=None, activation="tanh")
    activation = ACTIVATIONS[checks.choice("activation", parameters["activation"], tuple(ACTIVATIONS))]
    channels, height, width = shape = spec.image_shape(parameters["input_shape"])
    rows, columns = (side + 2 * PADDINGS.get(side, 0) for side in (height, width))
    if min(rows, columns) < LEAST_SIDE:
        raise InvalidModel(f"input_shape is {shape} but the cnn needs at least {LEAST_SIDE} rows and columns.")
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


def _left(side):
    """Rows (or columns) behind the second pooling."""
    first = (side - KERNEL + 1) // FIRST_POOL
    return (first - KERNEL + 1) // SECOND_POOL
