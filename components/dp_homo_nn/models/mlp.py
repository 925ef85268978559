"""A multi-layer perceptron."""
from itertools import pairwise

from torch import nn

from fate_dp.components.common import checks
from fate_dp.components.dp_homo_nn.models.spec import InvalidModel
from fate_dp.components.dp_homo_nn.models.start_weights import fill_uniform, linear

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}
MOST_LAYERS, MOST_UNITS = 16, 2**14


def mlp(spec):
    """Module from float32 (n, features) to (n, outputs).

    Parameters: ``hidden``, the units of each hidden layer, [64] if not given; ``activation``, tanh or relu.
    """
    parameters = spec.parameters(hidden=[64], activation="tanh")
    activation = ACTIVATIONS[checks.choice("activation", parameters["activation"], tuple(ACTIVATIONS))]
    hidden = parameters["hidden"]
    if not isinstance(hidden, (list, tuple)) or not 1 <= len(hidden) <= MOST_LAYERS:
        raise InvalidModel(f"hidden is {hidden!r} but must list the units of 1 to {MOST_LAYERS} hidden layers.")
    units = [checks.number("hidden", count, at_least=1, at_most=MOST_UNITS, whole=True) for count in hidden]
    layers = []
    for inputs, outputs in pairwise([spec.features, *units]):
        layers += [linear(inputs, outputs), activation()]
    return fill_uniform(nn.Sequential(*layers, linear(units[-1], spec.outputs)), spec.seed)
