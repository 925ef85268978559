"""Models by name. A job names one of a fixed list, or a module that the operator of each party allowed by name.

Start weights come from a public seed, the same at every party, and layers are made without any generator.
"""

import importlib
import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from fate_dp.privacy.validation import InvalidArgument

from ...common import parameters as checks
from ..gradients import RecordGradients
from ..settings import MODULE_PREFIX, TrainSettings, module_name
from .features import scattering_channels, scattering_features, scattering_whitening
from .made_up_pictures import CHANNELS
from .patches import Patches, patch_features
from .spec import ModelSpec


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer, not yet filled: its maker would read torch's global generator."""
    return nn.utils.skip_init(nn.Linear, inputs, outputs)


def convolution(inputs: int, outputs: int, kernel_size: int, **options: object) -> nn.Conv2d:
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


def logistic_regression(spec: ModelSpec) -> nn.Module:
    """A linear layer, which starts at zero; has no parameters."""
    spec.parameters()
    return fill_zeros(nn.Sequential(linear(spec.features, spec.outputs)))


ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}
MAX_LAYERS, MAX_UNITS = 16, 2**14


def mlp(spec: ModelSpec) -> nn.Module:
    """A perceptron: ``hidden`` are the units of each hidden layer, [64] if not given; ``activation`` is tanh or relu."""
    parameters = spec.parameters(hidden=[64], activation="tanh")
    activation = ACTIVATIONS[checks.choice("activation", parameters["activation"], tuple(ACTIVATIONS))]
    hidden = parameters["hidden"]
    if not isinstance(hidden, (list, tuple)) or not 1 <= len(hidden) <= MAX_LAYERS:
        raise InvalidArgument.of("hidden", hidden, f"a list of the units of 1 to {MAX_LAYERS} hidden layers")
    units = [checks.number("hidden", count, at_least=1, at_most=MAX_UNITS, whole=True) for count in hidden]
    layers = []
    for inputs, outputs in pairwise([spec.features, *units]):
        layers += [linear(inputs, outputs), activation()]
    return fill_uniform(nn.Sequential(*layers, linear(units[-1], spec.outputs)), spec.seed)


KERNEL, FIRST_POOL, SECOND_POOL = 5, 3, 2
FIRST_CHANNELS, SECOND_CHANNELS, UNITS = 32, 64, 200
# 28 x 28 images get a border of two zeros, as is usual for this network.
PADDINGS = {28: 2}
# Smaller images leave nothing behind the second pooling.
MIN_SIDE = 22


def cnn(spec: ModelSpec) -> nn.Module:
    """The convolution network of R. Shokri and V. Shmatikov, "Privacy-preserving deep learning", CCS 2015.

    Two convolutions, each with tanh and max pooling, then 200 units with tanh and the classes: 105,506 parameters for ten
    classes and 32 x 32 grey values. Parameters: ``input_shape`` (channels, height, width), known for 28 x 28, 32 x 32 and
    3 x 32 x 32; ``activation``, tanh (the source's) or relu.
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
    first = (side - KERNEL + 1) // FIRST_POOL
    return (first - KERNEL + 1) // SECOND_POOL


SCATTERING, PATCHES = "scattering_linear", "patch_linear"
GROUPS = 27
MAX_FILTERS, MAX_THRESHOLD, MAX_RIDGE, MAX_PICTURES = 4096, 10, 1000, 10_000


def linear_from_zero(spec: ModelSpec) -> nn.Module:
    """A linear layer, which starts at zero, on features of images, which a party computes once from its own.

    Parameters of scattering_linear: ``input_shape`` (channels, height, width), ``scales`` (J, 2 if not given), ``angles``
    (L, 8), ``groups`` of channels to normalise within (27; 0 for none), and whether they are ``whitened`` by a map from
    made-up ``pictures`` (false; 2,000). Of patch_linear: ``input_shape``, and ``size``,
    ``filters``, ``threshold``, ``pools``, ``ridge`` and ``pictures`` as in `patches.Patches`; it takes values from 0 to 1.
    """
    return fill_zeros(linear(input_count(spec), spec.outputs))


def input_count(spec: ModelSpec) -> int:
    """Number of inputs of a model: the features of a record, for all but those that make features of images."""
    if spec.name == PATCHES:
        return _patches(spec).count
    if spec.name != SCATTERING:
        return spec.features
    (channels, height, width), parameters, _ = _scattering(spec)
    side = 2 ** parameters["scales"]
    kept = channels * scattering_channels(parameters["scales"], parameters["angles"])
    return kept * (height // side) * (width // side)


def model_inputs(spec: ModelSpec, features: np.ndarray) -> np.ndarray:
    """What the model takes of records (n, ``spec.features``): float32 (n, ``input_count(spec)``)."""
    features = np.asarray(features, dtype=np.float32)
    if spec.name == PATCHES:
        patches = _patches(spec)
        return patch_features(features.reshape(len(features), *patches.shape), patches)
    if spec.name != SCATTERING:
        return features
    shape, parameters, made_up = _scattering(spec)
    found = scattering_features(features.reshape(len(features), *shape), **parameters)
    return scattering_whitening(shape, **parameters, pictures=made_up)(found) if made_up else found


def _patches(spec: ModelSpec) -> Patches:
    given = spec.parameters(input_shape=None, size=6, filters=400, threshold=0.25, pools=2, ridge=1e-5, pictures=1000)
    shape = spec.image_shape(given["input_shape"])
    if shape[0] not in CHANNELS:
        raise InvalidArgument(f"input_shape is {shape} but {PATCHES} takes images of 1 or 3 channels.")
    most = min(shape[1:])
    size = checks.number("size", given["size"], at_least=2, at_most=most, whole=True)
    filters = checks.number("filters", given["filters"], at_least=1, at_most=MAX_FILTERS, whole=True)
    threshold = checks.number("threshold", given["threshold"], at_least=0, at_most=MAX_THRESHOLD)
    pools = checks.number("pools", given["pools"], at_least=1, at_most=most - size + 1, whole=True)
    ridge = checks.number("ridge", given["ridge"], above=0, at_most=MAX_RIDGE)
    return Patches(shape, size, filters, threshold, pools, ridge, _pictures(given["pictures"]))


def _scattering(spec: ModelSpec) -> tuple[tuple[int, int, int], dict[str, int], int]:
    """(shape, parameters of the coefficients, made-up pictures for their whitening or 0)."""
    given = spec.parameters(input_shape=None, scales=2, angles=8, groups=GROUPS, whitened=False, pictures=2000)
    shape = spec.image_shape(given.pop("input_shape"))
    scales = checks.number("scales", given["scales"], at_least=1, at_most=5, whole=True)
    angles = checks.number("angles", given["angles"], at_least=1, at_most=32, whole=True)
    groups = checks.number("groups", given["groups"], at_least=0, whole=True)
    kept = shape[0] * scattering_channels(scales, angles)
    if groups and kept % groups:
        raise InvalidArgument.of("groups", groups, f"0 or a divisor of the {kept} channels of coefficients")
    if min(shape[1:]) < 2**scales:
        allowed = f"at least {2**scales} pixels wide and high for scales {scales}"
        raise InvalidArgument.of("images", shape[1:], allowed)
    whitened, made_up = checks.flag("whitened", given["whitened"]), _pictures(given["pictures"])
    if whitened and shape[0] not in CHANNELS:
        raise InvalidArgument(f"input_shape is {shape} but whitened features are of images of 1 or 3 channels.")
    return shape, {"scales": scales, "angles": angles, "groups": groups}, made_up if whitened else 0


def _pictures(given: object) -> int:
    return checks.number("pictures", given, at_least=2, at_most=MAX_PICTURES, whole=True)


MODELS = {
    "logistic_regression": logistic_regression,
    "mlp": mlp,
    "cnn": cnn,
    SCATTERING: linear_from_zero,
    PATCHES: linear_from_zero,
}


def build_model(spec: ModelSpec, allowed: Mapping[str, str] | None = None) -> nn.Module:
    """The module from float32 (n, inputs) to (n, ``spec.outputs``), with start weights that its public seed decides.

    Of the built-in models 'scattering_linear' and 'patch_linear' take what ``model_inputs`` makes of a record; the
    others take the record's features. ``allowed`` maps a name to 'package.module:function' for models 'module:<name>':
    a job names an entry of this party's mapping, never what is imported. The function is called as ``function(features,
    outputs, **params)`` and returns a ``torch.nn.Module``.
    """
    if spec.name.startswith(MODULE_PREFIX):
        return _allowed_module(spec, allowed or {})
    if spec.name not in MODELS:
        raise InvalidArgument.of("model", spec.name, f"one of {', '.join(MODELS)}, or {MODULE_PREFIX}<name>")
    return MODELS[spec.name](spec)


def _allowed_module(spec: ModelSpec, allowed: Mapping[str, str]) -> nn.Module:
    name = spec.name.removeprefix(MODULE_PREFIX)
    if name not in allowed:
        names = ", ".join(sorted(allowed)) or "none"
        raise InvalidArgument.of("model", spec.name, f"a module that this party's operator allows ({names})")
    function = _function(name, allowed[name])
    params = {key: value for key, value in spec.params.items() if key != "seed"}
    # Layers of torch draw their start weights from the global generator: borrowed here, and put back as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        module = function(spec.features, spec.outputs, **params)
    if not isinstance(module, torch.nn.Module):
        raise InvalidArgument(f"The operator's module {name!r} made a {type(module).__name__}, not a torch.nn.Module.")
    return module.float()


def _function(name: str, entry: str) -> Callable[..., object]:
    package, separator, attribute = str(entry).partition(":")
    if not separator:
        raise InvalidArgument.of(f"operator's module {name!r}", entry, "package.module:function")
    try:
        return getattr(importlib.import_module(package), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidArgument(
            f"The operator's module {name!r} is {entry!r}, which cannot be imported: {error}."
        ) from None


class ModelSource(NamedTuple):
    """What a worker process needs to build the model: its specification as JSON, so that a process builds it once.

    ``import_from`` is what the operator of this party allows under the model's name, for a model ``module:NAME``.
    """

    text: str
    loss: str
    import_from: str | None = None
    class_factors: tuple[float, ...] | None = None

    @classmethod
    def of(
        cls, spec: ModelSpec, loss: str, allowed: Mapping[str, str], class_factors: tuple[float, ...] | None = None
    ) -> "ModelSource":
        text = json.dumps([spec.name, spec.features, spec.classes, spec.params], sort_keys=True)
        return cls(text, loss, allowed.get(module_name(spec.name) or ""), class_factors)

    def spec(self) -> ModelSpec:
        return ModelSpec(*json.loads(self.text))

    def gradients(self) -> RecordGradients:
        """Raises ValueError where the specification is wrong, or the module is not allowed or cannot be imported."""
        return _gradients(self)

    def module(self) -> nn.Module:
        spec = self.spec()
        return build_model(spec, {} if self.import_from is None else {module_name(spec.name) or "": self.import_from})


def spec_of_job(settings: TrainSettings, features: int) -> ModelSpec:
    """The specification that all parties agree on; ``init_param`` decides the start weights."""
    params = {"seed": settings.init_param["random_state"], **settings.model["params"]}
    return ModelSpec(settings.model["name"], features, settings.classes, params)


@lru_cache(maxsize=2)
def _gradients(source: ModelSource) -> RecordGradients:
    # A worker is forked from a process whose threads it does not have; waiting for them, it would wait forever.
    torch.set_num_threads(1)
    return RecordGradients(source.module(), source.loss, source.class_factors)
