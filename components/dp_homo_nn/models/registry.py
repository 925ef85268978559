"""Models by name. A job names one of a fixed list, or a module that the operator of each party allowed by name."""
import importlib

import torch

from fate_dp.components.dp_homo_nn.models.cnn import cnn
from fate_dp.components.dp_homo_nn.models.logistic_regression import logistic_regression
from fate_dp.components.dp_homo_nn.models.mlp import mlp
from fate_dp.components.dp_homo_nn.models.scattering_linear import scattering_linear
from fate_dp.components.dp_homo_nn.models.spec import InvalidModel

MODELS = {"logistic_regression": logistic_regression, "mlp": mlp, "cnn": cnn, "scattering_linear": scattering_linear}
MODULE = "module:"


def build_model(spec, allowed=None):
    """The module that ``spec`` describes, float32, with start weights that its public seed decides.

    :param spec: ``ModelSpec``. Of the built-in models 'scattering_linear' takes what ``model_inputs`` makes of a
        record; the others take the record's features.
    :param allowed: the operator's mapping from a name to 'package.module:function', for models 'module:<name>'. The
        function is called as ``function(features, outputs, **params)`` and returns a ``torch.nn.Module``. A job names
        an entry of the mapping, never what is imported.
    :returns: ``torch.nn.Module`` from float32 (n, inputs) to (n, ``spec.outputs``).
    :raises ValueError: one sentence on what is wrong with the specification.
    """
    if spec.name.startswith(MODULE):
        return _allowed_module(spec, allowed or {})
    if spec.name not in MODELS:
        raise InvalidModel(f"model is {spec.name!r} but must be one of {', '.join(MODELS)}, or {MODULE}<name>.")
    return MODELS[spec.name](spec)


def _allowed_module(spec, allowed):
    name = spec.name.removeprefix(MODULE)
    if name not in allowed:
        names = ", ".join(sorted(allowed)) or "none"
        raise InvalidModel(f"model is {spec.name!r} but the operator of this party allows these modules: {names}.")
    function = _function(name, allowed[name])
    params = {key: value for key, value in spec.params.items() if key != "seed"}
    # Layers of torch draw their start weights from the global generator: borrowed here, and put back as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        module = function(spec.features, spec.outputs, **params)
    if not isinstance(module, torch.nn.Module):
        raise InvalidModel(f"The operator's module {name!r} made a {type(module).__name__}, not a torch.nn.Module.")
    return module.float()


def _function(name, entry):
    package, separator, attribute = str(entry).partition(":")
    if not separator:
        raise InvalidModel(f"The operator's module {name!r} is {entry!r} but must be 'package.module:function'.")
    try:
        return getattr(importlib.import_module(package), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidModel(f"The operator's module {name!r} is {entry!r}, which cannot be imported: {error}.") from None
