"""Public configuration of dp_homo_nn, checked. No FATE in here: the client checks with it before submission."""
from dataclasses import asdict, dataclass, field
from typing import Mapping, Optional, Tuple, Union

from fate_dp.components.common import checks
from fate_dp.data_prep.class_weights import check_prior, weights_of_classes
from fate_dp.data_prep.lending_club.options import PARTY_ID
from fate_dp.privacy.events import ADD_OR_REMOVE, RELATIONS, REPLACE_ONE
from fate_dp.privacy.policy import MODULE_NAME

MODELS = ("logistic_regression", "mlp", "cnn", "scattering_linear")
MODULE_PREFIX = "module:"
TRUSTS = ("secure_sum", "local", "shuffle")
UNITS = ("record", "client")
ADAPTIVE, SOURCE_RULE = "adaptive", "source_rule"
NOISES = ("uniform", ADAPTIVE, SOURCE_RULE)
SPLITS = ("none", "block", "coordinate")
MOST_ROUNDS = 10**5
LARGEST_COUNT = 10**12
MOST_CLASSES = 2**12
# A guarantee that fails for one record in a hundred is none.
LARGEST_DELTA = 0.01
# Of a job that names none; see `step_sizes.settled`.
ROUNDS = 50

OPTIMIZER_KEYS = {"method": "sgd", "penalty": "l2", "alpha": 0.0, "optimizer_params": {"lr": 0.1}}
SCHEDULER_KEYS = {"method": "constant", "scheduler_params": {}}
DEFAULTS = {"learning_rate_scheduler": SCHEDULER_KEYS}
ADAPTIVE_KEYS = {"contribution_share": 0.125, "power": -0.5, "after_rounds": None, "f": 0.15, "p": 0.85}
INIT_KEYS = {"random_state": 0}
CLASS_WEIGHT_KEYS = {"prior": None, "maximum": 10.0}


@dataclass(frozen=True)
class TrainSettings:
    """Parameters of one training, under FATE's names where FATE has them; every party of a job holds the same.

    ``rounds`` noisy updates; ``batch_size`` is the expected number of records (clients, for ``unit`` client) in a round
    over all parties and ``records`` the public number of all of them, so that every record joins a round with
    probability batch_size / records. Labels are 0 .. ``classes`` - 1. None means 50 rounds, of all records; trust shuffle
    needs both. ``optimizer`` and ``clip`` None are settled once the noise is known, see `step_sizes.settled`.

    Exactly one of ``epsilon`` (a target in nats, at ``delta`` under ``relation``) and ``noise_multiplier`` (sigma over the
    clip; in ``trust`` shuffle ``epsilon0`` of one message takes its place). ``relation`` None means add-or-remove, or
    replace-one for shuffle, which knows no other. ``clip`` is one l2 norm, one for each round, or a quantile of the
    norms that it follows privately from a start. ``class_weights`` weight each record's loss by what a
    public prior of the classes and a public maximum say (`class_factors`, `step_factor`). ``tolerated`` parties may drop
    out or collude, at least 1, since every party knows its own noise.
    """

    records: int
    rounds: Optional[int] = None
    batch_size: Optional[float] = None
    model: Mapping = field(default_factory=lambda: {"name": "logistic_regression", "params": {}})
    loss: str = "cross_entropy"
    optimizer: Optional[Mapping] = None
    learning_rate_scheduler: Mapping = field(default_factory=SCHEDULER_KEYS.copy)
    init_param: Mapping = field(default_factory=INIT_KEYS.copy)
    classes: int = 2
    class_weights: Optional[Mapping] = None
    epsilon: Optional[float] = None
    noise_multiplier: Optional[float] = None
    epsilon0: Optional[float] = None
    delta: float = 1e-5
    relation: Optional[str] = None
    clip: Optional[Union[float, Tuple[float, ...], Mapping]] = None
    trust: str = "secure_sum"
    unit: str = "record"
    tolerated: int = 1
    local_steps: int = 1
    local_learning_rate: Optional[float] = None
    local_batch_size: Optional[int] = None
    client_weights: Optional[Mapping] = None
    upload_fraction: float = 1.0
    noise: str = "uniform"
    adaptive: Mapping = field(default_factory=ADAPTIVE_KEYS.copy)
    shuffler: Optional[str] = None
    split: str = "none"
    threshold: float = 0.5

    def __post_init__(self):
        for name, check in CHECKS.items():
            # A default needs no check, and the schedule's would load torch.
            if getattr(self, name) is not None and getattr(self, name) != DEFAULTS.get(name):
                object.__setattr__(self, name, check(getattr(self, name)))
        for name, default in (("rounds", ROUNDS), ("batch_size", self.records)):
            if getattr(self, name) is None:
                _require_rounds(self, name)
                object.__setattr__(self, name, default)
        _check_together(self)

    @property
    def stated_relation(self) -> str:
        """The relation that the guarantee is calibrated, charged and capped under."""
        return self.relation or (REPLACE_ONE if self.trust == "shuffle" else ADD_OR_REMOVE)

    @property
    def rounds_before_contributions(self) -> int:
        """How many rounds come before attributes' contributions are computed, with noise adaptive and source_rule."""
        given = self.adaptive["after_rounds"]
        return max(1, self.rounds // 4) if given is None else given

    @property
    def class_factors(self) -> Optional[Tuple[float, ...]]:
        """What a record's gradient is multiplied by before it is clipped, for each class; None for 1 everywhere.

        With ``unit`` record the class weights over the largest of them, so that no factor exceeds 1: a gradient that the
        clip left alone without class weights is left alone with them, and classes keep their proportions. What one
        record moves stays within the clip, and `step_factor` gives the step its size again, and the noise in it: the
        weights cost up to ``class_weights.maximum`` times the noise. With ``unit`` client the weights themselves, since
        what is clipped there is the update as a whole.
        """
        weights = self._weights_of_classes()
        if weights is None or self.unit == "client":
            return weights
        return tuple(weight / max(weights) for weight in weights)

    @property
    def step_factor(self) -> float:
        """What the server multiplies a noisy mean gradient by: the largest class weight, which `class_factors` took out."""
        weights = self._weights_of_classes()
        return 1.0 if weights is None or self.unit == "client" else max(weights)

    def _weights_of_classes(self) -> Optional[Tuple[float, ...]]:
        if self.class_weights is None:
            return None
        return weights_of_classes(self.class_weights["prior"], self.class_weights["maximum"])

    def to_json(self) -> dict:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def model(value) -> dict:
    """name (logistic_regression, mlp, cnn, scattering_linear, or module:NAME that each operator allowed) and params."""
    filled = checks.mapping("model", value, {"name": "logistic_regression", "params": {}})
    name = filled["name"]
    if not (isinstance(name, str) and (name in MODELS or _is_module(name))):
        raise ValueError(
            f"model.name is {name!r}; it must be one of {', '.join(MODELS)}, or {MODULE_PREFIX}NAME for a model that each "
            "party's operator allowed under that name."
        )
    if not isinstance(filled["params"], dict):
        raise ValueError(f"model.params is {filled['params']!r}; it must be a mapping.")
    return filled


def loss(value) -> str:
    return checks.choice("loss", value, ("cross_entropy",))


def optimizer(value) -> dict:
    """FATE's optimizer dictionary: method, penalty, alpha, optimizer_params."""
    filled = checks.mapping("optimizer", value, OPTIMIZER_KEYS)
    checks.number("optimizer.alpha", filled["alpha"], at_least=0)
    filled |= {name: filled[name].lower() for name in ("method", "penalty") if isinstance(filled[name], str)}
    _torch_optimizer(filled)
    return filled


def learning_rate_scheduler(value) -> dict:
    """FATE's scheduler dictionary: method, scheduler_params."""
    from .rounds.optimizers import make_scheduler

    filled = checks.mapping("learning_rate_scheduler", value, SCHEDULER_KEYS)
    if isinstance(filled["method"], str):
        filled["method"] = filled["method"].lower()
    make_scheduler(_torch_optimizer(OPTIMIZER_KEYS), filled)
    return filled


def init_param(value) -> dict:
    """random_state: the public seed of the start weights, the same at every party."""
    filled = checks.mapping("init_param", value, INIT_KEYS)
    checks.number("init_param.random_state", filled["random_state"], at_least=0, at_most=2**63 - 1, whole=True)
    return filled


def rounds(value) -> int:
    return checks.number("rounds", value, at_least=1, at_most=MOST_ROUNDS, whole=True)


def batch_size(value) -> float:
    """Expected number of records (or clients) in a round, over all parties; the realised number stays secret."""
    return checks.number("batch_size", value, above=0, at_most=LARGEST_COUNT)


def records(value) -> int:
    """Public number of the records (or clients) of all parties together."""
    return checks.number("records", value, at_least=1, at_most=LARGEST_COUNT, whole=True)


def classes(value) -> int:
    """Number of classes; labels are the whole numbers below it."""
    return checks.number("classes", value, at_least=2, at_most=MOST_CLASSES, whole=True)


def class_weights(value) -> dict:
    """prior: public probability of each class, in order, never counted from the parties' labels; maximum: of a weight."""
    filled = checks.mapping("class_weights", value, CLASS_WEIGHT_KEYS)
    if not isinstance(filled["prior"], (list, tuple)):
        raise ValueError(
            f"class_weights.prior is {filled['prior']!r}; it must list the public probability of each class, in order."
        )
    try:
        check_prior(dict(enumerate(filled["prior"])), filled["maximum"])
    except ValueError as error:
        raise ValueError(f"class_weights is {value!r}, but {error}") from error
    return {"prior": [float(share) for share in filled["prior"]], "maximum": float(filled["maximum"])}


def epsilon(value) -> float:
    return checks.number("epsilon", value, above=0)


def noise_multiplier(value) -> float:
    return checks.number("noise_multiplier", value, above=0)


def epsilon0(value) -> float:
    return checks.number("epsilon0", value, above=0)


def delta(value) -> float:
    return checks.number("delta", value, above=0, at_most=LARGEST_DELTA)


def relation(value) -> str:
    return checks.choice("relation", value, RELATIONS)


def clip(value):
    """A largest l2 norm, one for each round, or quantile (of the norms, followed privately) and start."""
    if isinstance(value, dict):
        filled = checks.mapping("clip", value, {"quantile": 0.5, "start": 1.0})
        checks.number("clip.start", filled["start"], above=0)
        if checks.number("clip.quantile", filled["quantile"], above=0) >= 1:
            raise ValueError(f"clip.quantile is {filled['quantile']!r}; it must be a number above 0 and below 1.")
        return filled
    if isinstance(value, (list, tuple)) and value:
        return tuple(checks.number("clip", item, above=0) for item in value)
    return checks.number("clip", value, above=0)


def trust(value) -> str:
    return checks.choice("trust", value, TRUSTS)


def unit(value) -> str:
    return checks.choice("unit", value, UNITS)


def tolerated(value) -> int:
    return checks.number("tolerated", value, at_least=1, whole=True)


def local_steps(value) -> int:
    return checks.number("local_steps", value, at_least=1, whole=True)


def local_learning_rate(value) -> float:
    return checks.number("local_learning_rate", value, above=0)


def local_batch_size(value) -> int:
    return checks.number("local_batch_size", value, at_least=1, whole=True)


def client_weights(value) -> dict:
    """Public weight of each data party's update by party id, adding up to 1; never shares of private numbers of rows."""
    if not isinstance(value, dict) or not value:
        raise ValueError(f"client_weights is {value!r}; it must map party ids to numbers that add up to 1.")
    return {str(party): checks.number(f"client_weights.{party}", weight, above=0) for party, weight in value.items()}


def upload_fraction(value) -> float:
    return checks.number("upload_fraction", value, above=0, at_most=1)


def noise(value) -> str:
    return checks.choice("noise", value, NOISES)


def adaptive(value) -> dict:
    """contribution_share (of epsilon), power (of the contributions in the scales) and after_rounds (a quarter of them);
    for source_rule after_rounds, and f and p, the source's thresholds.
    """
    filled = checks.mapping("adaptive", value, ADAPTIVE_KEYS)
    checks.number("adaptive.contribution_share", filled["contribution_share"], above=0, at_most=0.9)
    checks.number("adaptive.power", filled["power"], at_least=-4, at_most=4)
    for name in ("f", "p"):
        checks.number(f"adaptive.{name}", filled[name], at_least=0, at_most=1)
    if filled["after_rounds"] is not None:
        checks.number("adaptive.after_rounds", filled["after_rounds"], at_least=0, whole=True)
    return filled


def shuffler(value) -> str:
    """Party id of the host that shuffles and holds no data."""
    if not isinstance(value, str) or not PARTY_ID.fullmatch(value):
        raise ValueError(f"shuffler is {value!r}; it must be the party id of a host that holds no data, as text.")
    return value


def split(value) -> str:
    return checks.choice("split", value, SPLITS)


def threshold(value) -> float:
    return checks.number("threshold", value, at_least=0, at_most=1)


CHECKS = {
    "model": model, "loss": loss, "optimizer": optimizer, "learning_rate_scheduler": learning_rate_scheduler,
    "init_param": init_param, "rounds": rounds, "batch_size": batch_size, "records": records, "classes": classes,
    "class_weights": class_weights,
    "epsilon": epsilon, "noise_multiplier": noise_multiplier, "epsilon0": epsilon0, "delta": delta, "relation": relation,
    "clip": clip, "trust": trust, "unit": unit, "tolerated": tolerated, "local_steps": local_steps,
    "local_learning_rate": local_learning_rate, "local_batch_size": local_batch_size, "client_weights": client_weights,
    "upload_fraction": upload_fraction, "noise": noise, "adaptive": adaptive, "shuffler": shuffler, "split": split,
    "threshold": threshold,
}  # fmt: skip


def given_settings(given: Mapping) -> TrainSettings:
    """Settings from parameters; FATE gives None for one that was not set, which means the default of the dataclass."""
    known = {name: value for name, value in given.items() if value is not None}
    if "records" not in known:
        raise ValueError("records is not set; dp_homo_nn needs it: the public number of the records of all parties.")
    return TrainSettings(**known)


def module_name(name: str) -> Optional[str]:
    """NAME of a model module:NAME; None for a model of the fixed list."""
    return name[len(MODULE_PREFIX):] if _is_module(name) else None


def _torch_optimizer(filled: dict):
    """torch says best what its optimisers take; it is loaded for those who set one."""
    import torch

    from .rounds.optimizers import make_optimizer

    return make_optimizer(torch.nn.Parameter(torch.zeros(1)), filled)


def _is_module(name: str) -> bool:
    return name.startswith(MODULE_PREFIX) and MODULE_NAME.fullmatch(name[len(MODULE_PREFIX):]) is not None


def _require_rounds(settings, name) -> None:
    if settings.trust == "shuffle":
        raise ValueError(
            f"{name} is not set; trust shuffle needs it: every record sends a message each records / batch_size rounds."
        )


def _check_together(settings: TrainSettings) -> None:
    """What no single parameter can say; what the trust models allow together is for their own terms to refuse."""
    if settings.batch_size > settings.records:
        raise ValueError(
            f"batch_size is {settings.batch_size:g}; it must be at most records, {settings.records}, of which it is the "
            "expected number in a round."
        )
    shuffled = settings.trust == "shuffle"
    size = "epsilon0" if shuffled else "noise_multiplier"
    if (settings.epsilon is None) == (getattr(settings, size) is None):
        raise ValueError(
            f"epsilon is {settings.epsilon} and {size} is {getattr(settings, size)}; with trust {settings.trust} exactly "
            "one of the two must be set."
        )
    if settings.class_weights is not None and len(settings.class_weights["prior"]) != settings.classes:
        raise ValueError(
            f"class_weights.prior has {len(settings.class_weights['prior'])} probabilities; it must have one for each of "
            f"the {settings.classes} classes."
        )
    unused = "noise_multiplier" if shuffled else "epsilon0"
    if getattr(settings, unused) is not None:
        raise ValueError(
            f"{unused} is {getattr(settings, unused):g}; with trust {settings.trust} it must not be set, use {size}."
        )
    if shuffled and settings.shuffler is None:
        raise ValueError("trust is shuffle; shuffler must name the host that shuffles and holds no data.")
    if not shuffled and settings.shuffler is not None:
        raise ValueError(
            f"shuffler is {settings.shuffler!r}; with trust {settings.trust} nothing is shuffled, leave it out."
        )
    if not shuffled and settings.split != "none":
        raise ValueError(f"split is {settings.split}; messages are split with trust shuffle only.")
    if settings.noise != "uniform" and settings.rounds_before_contributions >= settings.rounds:
        raise ValueError(
            f"adaptive.after_rounds is {settings.rounds_before_contributions}; it must be less than rounds, "
            f"{settings.rounds}."
        )
    hindrance = _source_rule_hindrance(settings) if settings.noise == SOURCE_RULE else ""
    if hindrance:
        raise ValueError(f"noise is source_rule, but {hindrance}.")
    if isinstance(settings.clip, tuple) and len(settings.clip) != settings.rounds:
        raise ValueError(f"clip has {len(settings.clip)} values; it must have one for each of the {settings.rounds} rounds.")


def _source_rule_hindrance(settings: TrainSettings) -> str:
    if settings.epsilon is None:
        return "epsilon is not set, which the source divides between its perturbations; set it in place of the noise"
    if settings.trust == "shuffle":
        return "trust is shuffle, and the rule has no answers of single records; use secure_sum or local"
    if settings.unit != "record":
        return f"unit is {settings.unit}, and the rule perturbs records; use unit record"
    if settings.local_steps > 1 or settings.upload_fraction < 1:
        return "the rule sends one whole gradient a round; use local_steps 1 and upload_fraction 1"
    if settings.class_weights is not None:
        return "class_weights are set, which the rule does not know; leave them out"
    if isinstance(settings.clip, dict):
        return "clip follows a quantile of the norms of records, which the rule does not clip; use a fixed clip"
    return ""
