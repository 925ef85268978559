"""What a job says of its model: public, the same at every party, and no name of anything to import."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from fate_dp.privacy.validation import InvalidArgument

from ...common import parameters
from ...common.federation import Document
from ..settings import MAX_CLASSES

MAX_FEATURES = 2**20
# Images that are told by their number of values alone.
KNOWN_SHAPES = {784: (1, 28, 28), 1024: (1, 32, 32), 3072: (3, 32, 32)}


@dataclass(frozen=True)
class ModelSpec:
    """Public description of a model; of its parameters ``seed`` (0 if not given) decides the start weights.

    ``name`` is that of a built-in model, or 'module:<name>' with a name that the operator of every party allows. A
    record has ``features`` values, those of a flattened image included. Two classes share one output, the log-odds.
    """

    name: str
    features: int
    classes: int
    params: Document = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidArgument.of("model", self.name, "a name")
        parameters.number("features", self.features, at_least=1, at_most=MAX_FEATURES, whole=True)
        parameters.number("classes", self.classes, at_least=1, at_most=MAX_CLASSES, whole=True)
        if not isinstance(self.params, dict) or not all(isinstance(key, str) for key in self.params):
            raise InvalidArgument.of("params", self.params, "a mapping of names of parameters to values")
        parameters.number("seed", self.seed, at_least=0, at_most=2**62, whole=True)

    @property
    def outputs(self) -> int:
        return 1 if self.classes <= 2 else self.classes

    @property
    def seed(self) -> int:
        return self.params.get("seed", 0)

    def parameters(self, **defaults: object) -> dict[str, object]:
        """``params`` over ``defaults``, as a dict without the seed; a key that is not among them is refused."""
        unknown = sorted(set(self.params) - set(defaults) - {"seed"})
        if unknown:
            allowed = ", ".join(sorted([*defaults, "seed"]))
            raise InvalidArgument.of(f"a name in params of {self.name}", unknown[0], f"one of {allowed}")
        return {name: self.params.get(name, default) for name, default in defaults.items()}

    def image_shape(self, given: object = None) -> tuple[int, int, int]:
        """(channels, height, width) of a record: as ``given``, or known from the number of features."""
        shape = KNOWN_SHAPES.get(self.features) if given is None else given
        if shape is None:
            known = ", ".join(map(str, KNOWN_SHAPES))
            raise InvalidArgument.of(
                "input_shape", None, f"given for {self.features} features, since only {known} are known"
            )
        if not isinstance(shape, (list, tuple)) or len(shape) != 3:
            raise InvalidArgument.of("input_shape", shape, "channels, height and width")
        channels, height, width = (
            parameters.number("input_shape", size, at_least=1, at_most=MAX_FEATURES, whole=True) for size in shape
        )
        if channels * height * width != self.features:
            raise InvalidArgument.of("input_shape", shape, f"that of the {self.features} features of a record")
        return channels, height, width


def trained(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that are trained: all but those of frozen layers, whose ``requires_grad`` is False."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def dimension(module: nn.Module) -> int:
    """Number d of trained parameters."""
    return sum(parameter.numel() for parameter in trained(module))


def flat_weights(module: nn.Module) -> np.ndarray:
    """All trained parameters as a new float64 array (d,)."""
    parts = [parameter.detach().cpu().numpy().ravel() for parameter in trained(module)]
    return np.concatenate(parts).astype(np.float64)


def load_flat(module: nn.Module, weights: np.ndarray) -> None:
    """Set the trained parameters to ``weights``, real numbers (d,), rounded to the module's own precision."""
    weights = np.asarray(weights)
    if weights.shape != (dimension(module),) or weights.dtype.kind not in "fiu":
        raise InvalidArgument.of("weights", weights, f"{dimension(module)} real numbers")
    if not np.isfinite(weights).all():
        raise InvalidArgument("weights must be finite, got a NaN or an infinity.")
    start = 0
    with torch.no_grad():
        for parameter in trained(module):
            part = weights[start : start + parameter.numel()]
            parameter.copy_(torch.from_numpy(part.astype(np.float64)).view_as(parameter))
            start += parameter.numel()
