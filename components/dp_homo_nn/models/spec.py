"""What a job says of its model: public, the same at every party, and no name of anything to import."""
from dataclasses import dataclass, field

from fate_dp.components.common import checks

MOST_FEATURES = 2**20
MOST_CLASSES = 2**12
# Images that are told by their number of values alone.
KNOWN_SHAPES = {784: (1, 28, 28), 1024: (1, 32, 32), 3072: (3, 32, 32)}


class InvalidModel(ValueError):
    """A model is unknown, not allowed, or its parameters are outside their range: one sentence."""


@dataclass(frozen=True)
class ModelSpec:
    """Public description of a model.

    :param name: 'logistic_regression', 'mlp', 'cnn', 'scattering_linear', or 'module:<name>' with a name that the
        operator of every party allows.
    :param features: number of values of a record, those of a flattened image included.
    :param classes: number of classes, at least 2; 1 for regression. Two classes share one output, the log-odds.
    :param params: parameters of the model; ``seed`` (public, 0 if not given) decides the start weights.
    :raises ValueError: one sentence naming the field, its value and what is allowed.
    """

    name: str
    features: int
    classes: int
    params: dict = field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.name, str):
            raise InvalidModel(f"model is {self.name!r} but must be a name.")
        checks.number("features", self.features, at_least=1, at_most=MOST_FEATURES, whole=True)
        checks.number("classes", self.classes, at_least=1, at_most=MOST_CLASSES, whole=True)
        if not isinstance(self.params, dict) or not all(isinstance(key, str) for key in self.params):
            raise InvalidModel(f"params is {self.params!r} but must map names of parameters to values.")
        checks.number("seed", self.seed, at_least=0, at_most=2**62, whole=True)

    @property
    def outputs(self):
        """Number of values that the model puts out for a record: logits, or the prediction of a regression."""
        return 1 if self.classes <= 2 else self.classes

    @property
    def seed(self):
        """The public seed of the start weights."""
        return self.params.get("seed", 0)

    def parameters(self, **defaults):
        """``params`` over ``defaults``, as a dict without the seed; a key that is not among them is refused."""
        unknown = sorted(set(self.params) - set(defaults) - {"seed"})
        if unknown:
            allowed = ", ".join(sorted([*defaults, "seed"]))
            raise InvalidModel(f"params of {self.name} has {unknown[0]!r} but may have {allowed} only.")
        return {name: self.params.get(name, default) for name, default in defaults.items()}

    def image_shape(self, given=None):
        """(channels, height, width) of a record: as ``given``, or known from the number of features."""
        shape = KNOWN_SHAPES.get(self.features) if given is None else given
        if shape is None:
            known = ", ".join(map(str, KNOWN_SHAPES))
            raise InvalidModel(
                f"input_shape is not given but must be for {self.features} features; only {known} are known."
            )
        if not isinstance(shape, (list, tuple)) or len(shape) != 3:
            raise InvalidModel(f"input_shape is {shape!r} but must be channels, height and width.")
        channels, height, width = (
            checks.number("input_shape", size, at_least=1, at_most=MOST_FEATURES, whole=True) for size in shape
        )
        if channels * height * width != self.features:
            raise InvalidModel(f"input_shape is {shape!r} but must hold the {self.features} features of a record.")
        return channels, height, width
