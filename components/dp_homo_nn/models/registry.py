"""Models by name. A job names one of a fixed list, or a module that the operator of each party allowed by name."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import nn

from fate_dp.privacy.validation import InvalidArgument

from ..gradients import RecordGradients
from ..settings import TrainSettings, module_name
from .builtin import cnn, logistic_regression, mlp, scattering_linear
from .spec import ModelSpec

MODELS = {"logistic_regression": logistic_regression, "mlp": mlp, "cnn": cnn, "scattering_linear": scattering_linear}
MODULE = "module:"


def build_model(spec: ModelSpec, allowed: Mapping[str, str] | None = None) -> nn.Module:
    """The module that ``spec`` describes, float32, with start weights that its public seed decides.

    Args:
        spec: ``ModelSpec``. Of the built-in models 'scattering_linear' takes what ``model_inputs`` makes of a record;
            the others take the record's features.
        allowed: the operator's mapping from a name to 'package.module:function', for models 'module:<name>'. The
            function is called as ``function(features, outputs, **params)`` and returns a ``torch.nn.Module``. A job
            names an entry of the mapping, never what is imported.

    Returns:
        ``torch.nn.Module`` from float32 (n, inputs) to (n, ``spec.outputs``).

    Raises:
        ValueError: one sentence on what is wrong with the specification.
    """
    if spec.name.startswith(MODULE):
        return _allowed_module(spec, allowed or {})
    if spec.name not in MODELS:
        raise InvalidArgument(f"model is {spec.name!r} but must be one of {', '.join(MODELS)}, or {MODULE}<name>.")
    return MODELS[spec.name](spec)


def _allowed_module(spec: ModelSpec, allowed: Mapping[str, str]) -> nn.Module:
    name = spec.name.removeprefix(MODULE)
    if name not in allowed:
        names = ", ".join(sorted(allowed)) or "none"
        raise InvalidArgument(f"model is {spec.name!r} but the operator of this party allows these modules: {names}.")
    function = _function(name, allowed[name])
    params = {key: value for key, value in spec.params.items() if key != "seed"}
    # Layers of torch draw their start weights from the global generator: borrowed here, and put back as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        module = function(spec.features, spec.outputs, **params)
    if not isinstance(module, torch.nn.Module):
        raise InvalidArgument(f"The operator's module {name!r} made a {type(module).__name__}, not a torch.nn.Module.")
    return module.float()


def _function(name: str, entry: str) -> Callable[..., Any]:
    package, separator, attribute = str(entry).partition(":")
    if not separator:
        raise InvalidArgument(f"The operator's module {name!r} is {entry!r} but must be 'package.module:function'.")
    try:
        return getattr(importlib.import_module(package), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidArgument(
            f"The operator's module {name!r} is {entry!r}, which cannot be imported: {error}."
        ) from None


# The model of a job at a data party, and what its workers need to build it.


class ModelSource(NamedTuple):
    """What a worker process needs to build the model: text only, so that a process builds it once.

    Attributes:
        text: the specification as JSON.
        import_from: what the operator of this party allows under the model's name, for a model ``module:NAME``.
        class_factors: ``TrainSettings.class_factors``.
    """

    text: str
    loss: str
    import_from: str | None = None
    class_factors: tuple[float, ...] | None = None

    @classmethod
    def of(
        cls, spec: ModelSpec, loss: str, allowed: Mapping[str, str], class_factors: tuple[float, ...] | None = None
    ) -> ModelSource:
        text = json.dumps([spec.name, spec.features, spec.classes, spec.params], sort_keys=True)
        return cls(text, loss, allowed.get(module_name(spec.name) or ""), class_factors)

    def spec(self) -> ModelSpec:
        return ModelSpec(*json.loads(self.text))

    def gradients(self) -> RecordGradients:
        """``RecordGradients`` of the model.

        Raises:
            ValueError: the specification is wrong, or the module is not allowed or cannot be imported.
        """
        return _gradients(self)

    def module(self) -> nn.Module:
        """The torch module, with start weights from the public seed."""
        spec = self.spec()
        name = module_name(spec.name)
        return build_model(spec, {} if name is None or self.import_from is None else {name: self.import_from})


def spec_of_job(settings: TrainSettings, features: int) -> ModelSpec:
    """The specification that all parties agree on; ``init_param`` decides the start weights."""
    params = {"seed": settings.init_param["random_state"], **settings.model["params"]}
    return ModelSpec(settings.model["name"], features, settings.classes, params)


@lru_cache(maxsize=2)
def _gradients(source: ModelSource) -> RecordGradients:
    # A worker is forked from a process whose threads it does not have; waiting for them, it would wait forever.
    torch.set_num_threads(1)
    return RecordGradients(source.module(), source.loss, source.class_factors)
