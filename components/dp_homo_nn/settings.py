"""Parameters of dp_homo_nn, each by itself and together. No FATE in here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fate_dp.data_prep.class_weights import check_prior, weights_of_classes
from fate_dp.privacy.events import ADD_OR_REMOVE, RELATIONS, REPLACE_ONE
from fate_dp.privacy.ledger.policy import MODULE_NAME
from fate_dp.privacy.validation import PARTY_ID, refusal

from ..common.parameters import OneOf, mapping, number, parameter, parameters_of, settings_of
from ..common.preflight import Refusal
from ..common.vocabulary import CLIENT, RECORD, UNIFORM, delta_parameter, spread_parameter

MODELS = ("logistic_regression", "mlp", "cnn", "scattering_linear", "patch_linear")
MODULE_PREFIX = "module:"
AGGREGATIONS = ("secure_sum", "local", "shuffle")
LEVELS = (RECORD, CLIENT)
SPLITS = ("none", "block", "coordinate")
MAX_ROUNDS = 10**5
MAX_COUNT = 10**12
MAX_CLASSES = 2**12
# Of a job that names none; see `round_terms.settled`.
ROUNDS = 50

MODEL_KEYS = {"name": "logistic_regression", "params": {}}
OPTIMIZER_KEYS = {"method": "sgd", "penalty": "l2", "alpha": 0.0, "optimizer_params": {"lr": 0.1}}
SCHEDULER_KEYS = {"method": "constant", "scheduler_params": {}}
ADAPTIVE_KEYS = {"contribution_share": 0.125, "power": -0.5, "after_rounds": None}
INIT_KEYS = {"random_state": 0}
CLASS_WEIGHT_KEYS = {"prior": None, "maximum": 10.0}


def model(value: object) -> dict[str, Any]:
    """name (logistic_regression, mlp, cnn, scattering_linear, patch_linear, or module:NAME that each operator allowed) and params."""
    filled = mapping("model", value, MODEL_KEYS)
    name = filled["name"]
    if not (isinstance(name, str) and (name in MODELS or module_name(name) is not None)):
        allowed = f"one of {', '.join(MODELS)}, or {MODULE_PREFIX}NAME for a model that each party's operator allowed"
        raise Refusal.of("model.name", name, allowed)
    if not isinstance(filled["params"], dict):
        raise Refusal.of("model.params", filled["params"], "a mapping")
    return filled


def optimizer(value: object) -> dict[str, Any]:
    """FATE's optimizer dictionary: method, penalty, alpha, optimizer_params."""
    filled = mapping("optimizer", value, OPTIMIZER_KEYS)
    number("optimizer.alpha", filled["alpha"], at_least=0)
    filled |= {name: filled[name].lower() for name in ("method", "penalty") if isinstance(filled[name], str)}
    _torch_optimizer(filled)
    return filled


def learning_rate_scheduler(value: object) -> dict[str, Any]:
    """FATE's scheduler dictionary: method, scheduler_params."""
    from .rounds.server import make_scheduler

    filled = mapping("learning_rate_scheduler", value, SCHEDULER_KEYS)
    if isinstance(filled["method"], str):
        filled["method"] = filled["method"].lower()
    make_scheduler(_torch_optimizer(OPTIMIZER_KEYS), filled)
    return filled


def init_param(value: object) -> dict[str, Any]:
    """random_state: the public seed of the start weights, the same at every party."""
    filled = mapping("init_param", value, INIT_KEYS)
    number("init_param.random_state", filled["random_state"], at_least=0, at_most=2**63 - 1, whole=True)
    return filled


def class_weights(value: object) -> dict[str, Any]:
    """prior: public probability of each class, in order, never counted from the parties' labels; maximum: of a weight."""
    filled = mapping("class_weights", value, CLASS_WEIGHT_KEYS)
    if not isinstance(filled["prior"], (list, tuple)):
        allowed = "a list of the public probability of each class, in order"
        raise Refusal.of("class_weights.prior", filled["prior"], allowed)
    try:
        check_prior(dict(enumerate(filled["prior"])), filled["maximum"])
    except ValueError as error:
        raise Refusal(f"In class_weights, {error}") from error
    return {"prior": [float(share) for share in filled["prior"]], "maximum": float(filled["maximum"])}


def clip(value: object) -> float | tuple[float, ...] | dict[str, Any]:
    """A largest l2 norm, one for each round, or quantile (of the norms, followed privately) and start."""
    if isinstance(value, dict):
        filled = mapping("clip", value, {"quantile": 0.5, "start": 1.0})
        number("clip.start", filled["start"], above=0)
        if number("clip.quantile", filled["quantile"], above=0) >= 1:
            raise Refusal.of("clip.quantile", filled["quantile"], "a number above 0 and below 1")
        return filled
    if isinstance(value, (list, tuple)) and value:
        return tuple(number("clip", item, above=0) for item in value)
    return number("clip", value, above=0)


def client_weights(value: object) -> dict[str, Any]:
    """Public weight of each data party's update by party id, adding up to 1; never shares of private numbers of rows."""
    if not isinstance(value, dict) or not value:
        raise Refusal.of("client_weights", value, "a mapping of party ids to numbers that add up to 1")
    return {str(party): number(f"client_weights.{party}", weight, above=0) for party, weight in value.items()}


def units(value: object) -> dict[str, list[float]]:
    """Public units of columns by name: the usual value and the usual deviation from it, never figures of private records."""
    if not isinstance(value, dict) or not value or not all(isinstance(pair, (list, tuple)) for pair in value.values()):
        raise Refusal.of("units", value, "a mapping of columns to [usual value, usual deviation]")
    found = {str(name): [number(f"units.{name}", each) for each in pair] for name, pair in value.items()}
    wrong = next((name for name, pair in found.items() if len(pair) != 2 or not 2.0**-100 <= pair[1] <= 2.0**100), None)
    if wrong is not None:
        raise Refusal.of(f"units.{wrong}", found[wrong], "the usual value and the usual deviation, above 0")
    return found


def party_epsilons(value: object) -> dict[str, float]:
    """Epsilon of single data parties by party id, public as all parameters, so never chosen by what their records are."""
    return _by_party("party_epsilons", value, "numbers above 0")


def party_clips(value: object) -> dict[str, float]:
    """Clip of single data parties by party id, with aggregation local."""
    return _by_party("party_clips", value, "numbers above 0")


def _by_party(name: str, value: object, allowed: str) -> dict[str, float]:
    if not isinstance(value, dict) or not value:
        raise Refusal.of(name, value, f"a mapping of party ids to {allowed}")
    return {str(party): number(f"{name}.{party}", given, above=0) for party, given in value.items()}


def adaptive(value: object) -> dict[str, Any]:
    """contribution_share (of epsilon), power (of the contributions in the scales) and after_rounds (a quarter of them)."""
    filled = mapping("adaptive", value, ADAPTIVE_KEYS)
    number("adaptive.contribution_share", filled["contribution_share"], above=0, at_most=0.9)
    number("adaptive.power", filled["power"], at_least=-4, at_most=4)
    if filled["after_rounds"] is not None:
        number("adaptive.after_rounds", filled["after_rounds"], at_least=0, whole=True)
    return filled


def shuffler(value: object) -> str:
    """Party id of the host that shuffles and holds no data."""
    if not isinstance(value, str) or not PARTY_ID.fullmatch(value):
        raise Refusal.of("shuffler", value, "the party id of a host that holds no data, as text")
    return value


def module_name(name: str) -> str | None:
    """NAME of a model module:NAME; None for a model of the fixed list."""
    rest = name.removeprefix(MODULE_PREFIX)
    return rest if rest != name and MODULE_NAME.fullmatch(rest) else None


def _torch_optimizer(filled: dict[str, object]) -> Any:
    """torch says best what its optimisers take; it is loaded for those who set one."""
    import torch

    from .rounds.server import make_optimizer

    return make_optimizer(torch.nn.Parameter(torch.zeros(1)), filled)


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Parameters of one training, under FATE's names where FATE has them; every party of a job holds the same.

    ``rounds`` noisy updates; ``batch_size`` is the expected number of records (clients, for ``privacy`` client) in a round
    over all parties and ``records`` the public number of all of them, so that every record joins a round with
    probability batch_size / records. Labels are 0 .. ``classes`` - 1. None means 50 rounds, of all records; aggregation shuffle
    needs both. ``optimizer`` and ``clip`` None are settled once the noise is known, see `round_terms.settled`.

    Exactly one of ``epsilon`` (a target in nats, at ``delta`` under ``relation``) and ``noise_multiplier`` (sigma over the
    clip; in ``aggregation`` shuffle ``epsilon0`` of one message takes its place). ``relation`` None means add-or-remove, or
    replace-one for shuffle, which knows no other. ``class_weights`` weight each record's loss (`class_factors`,
    `step_factor`). ``max_dropouts`` is at least 1, since every party knows its own noise.
    """

    model: Mapping[str, Any] = parameter(
        "what is trained: name (logistic_regression, mlp, cnn, scattering_linear, patch_linear or module:NAME) and params",
        MODEL_KEYS,
        check=model,
    )
    loss: str = parameter("loss of a record: cross_entropy", "cross_entropy", check=OneOf(("cross_entropy",)))
    optimizer: Mapping[str, Any] | None = parameter(
        "steps of the server: method, penalty, alpha, optimizer_params; None means by features", None, check=optimizer
    )
    learning_rate_scheduler: Mapping[str, Any] = parameter(
        "how the learning rate changes: method, scheduler_params", SCHEDULER_KEYS, check=learning_rate_scheduler
    )
    init_param: Mapping[str, Any] = parameter(
        "start weights: random_state, their public seed", INIT_KEYS, check=init_param
    )
    rounds: int = parameter(f"noisy updates; None means {ROUNDS}", None, at_least=1, at_most=MAX_ROUNDS)
    batch_size: float = parameter(
        "expected records (or clients) of a round over all parties; None means all",
        None,
        above=0,
        at_most=MAX_COUNT,
        note="Expected number of records (or clients) in a round, over all parties; the realised number stays secret.",
    )
    records: int = parameter(
        "public number of the records (or clients) of all parties together",
        at_least=1,
        at_most=MAX_COUNT,
        note="Public number of the records (or clients) of all parties together.",
    )
    classes: int = parameter(
        "number of classes; labels are 0, 1, ... below it",
        2,
        at_least=2,
        at_most=MAX_CLASSES,
        note="Number of classes; labels are the whole numbers below it.",
    )
    units: Mapping[str, Sequence[float]] | None = parameter(
        "public units of columns by name, [usual value, usual deviation]: the model is trained on (x - value) / deviation; "
        "None means columns as they are, which should be of size 1",
        None,
        check=units,
    )
    class_weights: Mapping[str, Any] | None = parameter(
        "weights of rare classes: prior (public probability of each class) and maximum of a weight, which is what noise may "
        "grow by",
        None,
        check=class_weights,
    )
    epsilon: float | None = parameter("target in nats; this or noise_multiplier (epsilon0 for shuffle)", None, above=0)
    noise_multiplier: float | None = parameter(
        "standard deviation of the noise over the clip, in place of epsilon", None, above=0
    )
    epsilon0: float | None = parameter(
        "epsilon of one message before it is shuffled, with aggregation shuffle", None, above=0
    )
    delta: float = delta_parameter("the guarantee")
    relation: str | None = parameter(
        "how neighbours differ: add_or_remove or replace_one; None means add_or_remove, for shuffle replace_one",
        None,
        check=OneOf(RELATIONS),
    )
    clip: float | tuple[float, ...] | Mapping[str, Any] | None = parameter(
        "largest l2 norm of one contribution: a number, one for each round, or quantile and start; "
        "None means by features and noise",
        None,
        check=clip,
    )
    aggregation: str = parameter(
        "who must be trusted: secure_sum, local or shuffle", "secure_sum", check=OneOf(AGGREGATIONS)
    )
    privacy: str = parameter(
        "what is protected: a record or a client, that is all data of a party", RECORD, check=OneOf(LEVELS)
    )
    max_dropouts: int = parameter("parties that may drop out or collude, at least 1", 1, at_least=1)
    local_steps: int = parameter("steps of a party in a round", 1, at_least=1)
    local_learning_rate: float | None = parameter("learning rate of a party's own steps", None, above=0)
    local_batch_size: int | None = parameter(
        "records in each own step with privacy client; None means all of a party", None, at_least=1
    )
    client_weights: Mapping[str, float] | None = parameter(
        "public weights by party id; None means equal ones", None, check=client_weights
    )
    party_epsilons: Mapping[str, float] | None = parameter(
        "targets of single parties by party id, in place of epsilon; None means epsilon for all",
        None,
        check=party_epsilons,
    )
    party_clips: Mapping[str, float] | None = parameter(
        "clips of single parties by party id, with aggregation local; None means clip for all", None, check=party_clips
    )
    averaging: float = parameter(
        "part of the rounds, the last ones, whose weights the model is the mean of; 0 means the last weights alone",
        0.0,
        at_least=0,
        at_most=1,
    )
    upload_fraction: float = parameter(
        "part of the coordinates that is sent, selected after noise", 1.0, above=0, at_most=1
    )
    noise_spread: str = spread_parameter()
    adaptive: Mapping[str, Any] = parameter(
        "noise_spread adaptive: contribution_share, power, after_rounds", ADAPTIVE_KEYS, check=adaptive
    )
    shuffler: str | None = parameter("party id of the host that shuffles and holds no data", None, check=shuffler)
    message_splitting: str = parameter(
        "how updates are split into messages of aggregation shuffle: none, block or coordinate",
        "none",
        check=OneOf(SPLITS),
    )
    threshold: float = parameter("with two classes, scores above it predict the second", 0.5, at_least=0, at_most=1)

    def __post_init__(self) -> None:
        for name, declared in parameters_of(TrainSettings).items():
            value = getattr(self, name)
            # Of the schedule's default nothing is to be checked, and that would load torch.
            if value is not None and (name != "learning_rate_scheduler" or value != SCHEDULER_KEYS):
                object.__setattr__(self, name, declared.check(value))
        for name, default in (("rounds", ROUNDS), ("batch_size", self.records)):
            if getattr(self, name) is None:
                if self.aggregation == "shuffle":
                    raise Refusal(
                        f"{name} is not set; aggregation shuffle needs it: every record sends a message each records / "
                        "batch_size rounds."
                    )
                object.__setattr__(self, name, default)
        problem = next(_problems(self), None)
        if problem:
            raise Refusal(problem)

    @property
    def stated_relation(self) -> str:
        """The relation that the guarantee is calibrated, charged and capped under."""
        return self.relation or (REPLACE_ONE if self.aggregation == "shuffle" else ADD_OR_REMOVE)

    @property
    def rounds_before_contributions(self) -> int:
        """How many rounds come before attributes' contributions are computed, with noise_spread adaptive."""
        given = self.adaptive["after_rounds"]
        return max(1, self.rounds // 4) if given is None else given

    @property
    def class_factors(self) -> tuple[float, ...] | None:
        """What a record's gradient is multiplied by before it is clipped, for each class; None for 1 everywhere.

        With ``privacy`` record the class weights over the largest of them: no factor exceeds 1, so that what one record
        moves stays within the clip, and classes keep their proportions. `step_factor` gives the step its size again,
        and the noise in it: the weights cost up to ``class_weights.maximum`` times the noise. With ``privacy`` client
        the weights themselves, since what is clipped there is the update as a whole.
        """
        weights = self._weights_of_classes()
        if weights is None or self.privacy == CLIENT:
            return weights
        return tuple(weight / max(weights) for weight in weights)

    @property
    def step_factor(self) -> float:
        """What the server multiplies a noisy mean gradient by: the largest class weight, which `class_factors` took out."""
        weights = self._weights_of_classes()
        return 1.0 if weights is None or self.privacy == CLIENT else max(weights)

    def _weights_of_classes(self) -> tuple[float, ...] | None:
        if self.class_weights is None:
            return None
        return weights_of_classes(self.class_weights["prior"], self.class_weights["maximum"])

    def to_json(self) -> dict[str, Any]:
        """Builtins, in the order in which parties compare them: the public size of the training first."""
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {name: given[name] for name in ("records", "rounds", "batch_size")} | given


def given_settings(given: Mapping[str, object]) -> TrainSettings:
    """Settings from parameters; FATE gives None for one that was not set, which means the default of the dataclass."""
    if given.get("records") is None:
        raise Refusal("records is not set; dp_homo_nn needs it: the public number of the records of all parties.")
    return settings_of(TrainSettings, given)


def _problems(settings: TrainSettings) -> Iterator[str]:
    """What no single parameter can say; what the trust models allow together is for their own terms to refuse."""
    aggregation, shuffled = settings.aggregation, settings.aggregation == "shuffle"
    size, unused = ("epsilon0", "noise_multiplier") if shuffled else ("noise_multiplier", "epsilon0")
    if settings.batch_size > settings.records:
        allowed = f"at most records, {settings.records}, of which it is the expected number in a round"
        yield refusal("batch_size", settings.batch_size, allowed)
    if (settings.epsilon is None) == (getattr(settings, size) is None):
        given = settings.epsilon, getattr(settings, size)
        yield refusal(f"epsilon and {size}", given, f"given one without the other with aggregation {aggregation}")
    if settings.class_weights is not None and len(settings.class_weights["prior"]) != settings.classes:
        allowed = f"{settings.classes}, one probability for each class"
        yield refusal("length of class_weights.prior", len(settings.class_weights["prior"]), allowed)
    yield from _personal_problems(settings)
    if getattr(settings, unused) is not None:
        yield refusal(unused, getattr(settings, unused), f"left out with aggregation {aggregation}", f"Use {size}.")
    if shuffled and settings.shuffler is None:
        yield refusal("shuffler", None, "the host that shuffles and holds no data, with aggregation shuffle")
    if not shuffled and settings.shuffler is not None:
        yield refusal("shuffler", settings.shuffler, f"left out with aggregation {aggregation}, which shuffles nothing")
    if not shuffled and settings.message_splitting != "none":
        yield refusal("message_splitting", settings.message_splitting, "none but with aggregation shuffle")
    if settings.noise_spread != UNIFORM and settings.rounds_before_contributions >= settings.rounds:
        allowed = f"less than rounds, {settings.rounds}"
        yield refusal("adaptive.after_rounds", settings.rounds_before_contributions, allowed)
    if isinstance(settings.clip, tuple) and len(settings.clip) != settings.rounds:
        yield refusal("length of clip", len(settings.clip), f"{settings.rounds}, one value for each round")


def _personal_problems(settings: TrainSettings) -> Iterator[str]:
    own = [name for name in ("party_epsilons", "party_clips") if getattr(settings, name) is not None]
    if not own:
        return
    if settings.aggregation == "shuffle" or (settings.party_clips is not None and settings.aggregation != "local"):
        allowed = "local" if "party_clips" in own else "local or secure_sum"
        yield f"aggregation is {settings.aggregation}; {own[-1]} needs {allowed}."
    if settings.party_epsilons is not None and settings.epsilon is None:
        yield "epsilon is not set, but party_epsilons is; set epsilon for the parties that it does not name."
    if settings.noise_spread != UNIFORM:
        yield f"noise_spread is {settings.noise_spread}; {own[0]} goes with noise_spread uniform only."
    if isinstance(settings.clip, dict):
        yield f"clip follows a quantile of the norms of all parties; {own[0]} needs a fixed clip."
