"""A linear model on scattering features of images, which a party computes once from its own records."""
import numpy as np

from fate_dp.components.common import checks
from fate_dp.components.dp_homo_nn.models.features import scattering_channels, scattering_features
from fate_dp.components.dp_homo_nn.models.spec import InvalidModel
from fate_dp.components.dp_homo_nn.models.start_weights import fill_zeros, linear

NAME = "scattering_linear"
GROUPS = 27


def scattering_linear(spec):
    """Module from float32 (n, scattering features) to (n, outputs); starts at zero.

    Parameters: ``input_shape`` (channels, height, width), ``scales`` (J, 2 if not given), ``angles`` (L, 8) and
    ``groups`` of channels to normalise within (27; 0 for none).
    """
    return fill_zeros(linear(input_count(spec), spec.outputs))


def input_count(spec):
    """Number of inputs of the model: for all models but this one the features of a record."""
    if spec.name != NAME:
        return spec.features
    shape, parameters = _parameters(spec)
    channels, height, width = shape
    side = 2 ** parameters["scales"]
    kept = channels * scattering_channels(parameters["scales"], parameters["angles"])
    return kept * (height // side) * (width // side)


def model_inputs(spec, features, progress=None):
    """What the model takes of records: float32 (n, ``input_count(spec)``).

    :param features: array (n, ``spec.features``), real numbers.
    :param progress: called with the number of records done, if given and there is something to do.
    """
    features = np.asarray(features, dtype=np.float32)
    if spec.name != NAME:
        return features
    shape, parameters = _parameters(spec)
    return scattering_features(features.reshape(len(features), *shape), **parameters, progress=progress)


def _parameters(spec):
    given = spec.parameters(input_shape=None, scales=2, angles=8, groups=GROUPS)
    shape = spec.image_shape(given.pop("input_shape"))
    scales = checks.number("scales", given["scales"], at_least=1, at_most=5, whole=True)
    angles = checks.number("angles", given["angles"], at_least=1, at_most=32, whole=True)
    groups = checks.number("groups", given["groups"], at_least=0, whole=True)
    kept = shape[0] * scattering_channels(scales, angles)
    if groups and kept % groups:
        raise InvalidModel(f"groups is {groups} but must divide the {kept} channels of coefficients, or be 0.")
    if min(shape[1:]) < 2**scales:
        raise InvalidModel(f"scales is {scales} but images must be at least {2**scales} pixels wide and high for it.")
    return shape, {"scales": scales, "angles": angles, "groups": groups}
