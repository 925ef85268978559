"""A linear model: logistic regression, softmax regression, or linear regression when there is one class."""
from torch import nn

from fate_dp.components.dp_homo_nn.models.start_weights import fill_zeros, linear


def logistic_regression(spec):
    """Module from float32 (n, features) to (n, outputs); starts at zero."""
    spec.parameters()
    return fill_zeros(nn.Sequential(linear(spec.features, spec.outputs)))
