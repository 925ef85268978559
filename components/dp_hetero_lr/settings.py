"""Public configuration of dp_hetero_lr, checked. No FATE in here: the client checks with it before submission."""
from dataclasses import asdict, dataclass, field
from math import frexp
from typing import NamedTuple, Optional, Tuple

from fate_dp.components.common import checks
from fate_dp.components.dp_hetero_lr.updates import LARGEST_PENALTY, constant_learning_rate
from fate_dp.privacy.flipback import FlipbackSettings
from fate_dp.privacy.mechanisms.bounded_rows import LARGEST_BOUND, LEAST_RADIUS

OPTIMIZERS = (
    "sgd", "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop",
)  # fmt: skip
SOLVERS = ("cross_product", "per_epoch")
FAMILIES = ("binomial", "gaussian")
SIGMOIDS = ("taylor", "exact")
SCORINGS = ("joint", "encrypted")
NOISES = ("none", "uniform", "adaptive")
INIT_METHODS = ("kaiming", "zeros", "ones", "consts", "random", "random_uniform")
ROWS_PER_FEATURE = 10
ROWS_PER_FEATURE_OF_FEW_VALUES = 40
# Weights that are shared while they are trained have masks for starts up to here.
LARGEST_START = 2**10
# A guarantee that fails for one record in a hundred is none.
LARGEST_DELTA = 0.01

OPTIMIZER_KEYS = {"method": "sgd", "penalty": "l2", "alpha": 1.0, "optimizer_params": {"lr": 0.01}}
DEFAULT_INIT = {"method": "zeros", "fill_val": 0.0, "fit_intercept": True, "random_state": None}
DEFAULT_HE = {"kind": "paillier", "key_length": 2048}
DEFAULT_CV = {"n_splits": 5, "shuffle": False, "random_state": None}


class Pace(NamedTuple):
    """Defaults of how long a training goes on."""

    epochs: int
    tol: float


# All encryption is in the first epoch and the others cost a hundredth of it: as many as convergence needs, all of them,
# so that their number says nothing of the data.
ALL_AT_ONCE = Pace(100, 0.0)
# Every epoch costs as much as the first one, or makes a step for each of several batches.
STEP_BY_STEP = Pace(30, 1e-4)


@dataclass(frozen=True)
class TrainSettings:
    """Parameters of one training, under FATE's names; every party of a job holds the same.

    ``epochs`` and ``tol`` None become those of `ALL_AT_ONCE`, or of `STEP_BY_STEP` with several batches or where the
    settings leave solver per_epoch only; ``tol`` 0 never stops early. ``init_param`` None starts at zero, so that a
    repeated job gives the same model.

    ``optimizer`` None means `updates.default_optimizer`, made from public numbers. ``train_scores`` is whether the guest
    gets the joint scores of the training rows at the end. Hosts round their part of all scores at random to multiples of
    ``score_step``. ``label_source`` is needed only for labels that were not
    flipped: it must be declared public at the guest.

    ``classes`` are the label values that the operator declared, never what occurs in labels; None means those among which
    label_flip flipped, and 0 and 1 for public labels. With more than two, one model is trained for each class against the
    rest, see `classes`.

    ``solver`` None means what `solvers.solver_of` makes of the other settings. ``family`` gaussian is linear regression.
    ``sigmoid`` exact corrects the labels ``sigmoid_rounds`` times, which takes the joint scores at the guest each time.

    ``noise`` uniform or adaptive protects every record's part at the parties that set a ``noise_epsilon``, at
    ``noise_delta``; ``noise_radius`` bounds the l2 norm of a record's features, None means the square root of their
    number. These three are each party's own.
    """

    epochs: Optional[int] = None
    batch_size: Optional[int] = None
    optimizer: Optional[dict] = None
    learning_rate_scheduler: dict = field(default_factory=constant_learning_rate)
    init_param: dict = field(default_factory=DEFAULT_INIT.copy)
    tol: Optional[float] = None
    early_stop: str = "diff"
    threshold: float = 0.5
    he_param: dict = field(default_factory=DEFAULT_HE.copy)
    flipback: FlipbackSettings = FlipbackSettings()
    train_scores: bool = False
    score_step: float = 2.0**-7
    label_source: Optional[str] = None
    classes: Optional[Tuple[float, ...]] = None
    solver: Optional[str] = None
    family: str = "binomial"
    sigmoid: str = "taylor"
    sigmoid_rounds: int = 3
    noise: str = "none"
    noise_epsilon: Optional[float] = None
    noise_delta: float = 1e-5
    noise_radius: Optional[float] = None

    def __post_init__(self):
        steps = self.batch_size is not None or self.solver == "per_epoch" or hindrance_to_cross_product(self)
        for name, default in (STEP_BY_STEP if steps else ALL_AT_ONCE)._asdict().items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)


def hindrance_to_cross_product(settings: TrainSettings) -> str:
    """What of the settings the cross product cannot do, whose update rule must be linear in the weights; "" if nothing."""
    optimizer = settings.optimizer or {"method": "sgd", "penalty": "l2"}
    if optimizer["method"] != "sgd":
        return f"optimizer.method is {optimizer['method']}"
    if optimizer["penalty"] == "l1":
        return "optimizer.penalty is l1"
    if settings.early_stop == "weight_diff":
        return "early_stop is weight_diff"
    return ""


def solver(value) -> str:
    return checks.choice("solver", value, SOLVERS)


def family(value) -> str:
    return checks.choice("family", value, FAMILIES)


def sigmoid(value) -> str:
    return checks.choice("sigmoid", value, SIGMOIDS)


def scoring(value) -> str:
    return checks.choice("scoring", value, SCORINGS)


def sigmoid_rounds(value) -> int:
    return checks.number("sigmoid_rounds", value, at_least=1, whole=True)


def noise(value) -> str:
    return checks.choice("noise", value, NOISES)


def noise_epsilon(value) -> float:
    return checks.number("noise_epsilon", value, above=0)


def noise_delta(value) -> float:
    return checks.number("noise_delta", value, above=0, at_most=LARGEST_DELTA)


def noise_radius(value) -> float:
    return checks.number("noise_radius", value, at_least=LEAST_RADIUS, at_most=LARGEST_BOUND)


def epochs(value) -> int:
    return checks.number("epochs", value, at_least=1, whole=True)


def batch_size(value) -> int:
    return checks.number("batch_size", value, at_least=ROWS_PER_FEATURE, whole=True)


def tolerance(value) -> float:
    return checks.number("tol", value, at_least=0)


def early_stop(value) -> str:
    return checks.name("early_stop", value, ("diff", "abs", "weight_diff"))


def threshold(value) -> float:
    return checks.number("threshold", value, at_least=0, at_most=1)


def train_scores(value) -> bool:
    return checks.flag("train_scores", value)


def true_labels(value) -> bool:
    return checks.flag("true_labels", value)


def score_step(value) -> float:
    """A power of two from 2^-8 to 2^-4: finer ones hide little, coarser ones cost accuracy."""
    step = checks.number("score_step", value, at_least=2.0**-8, at_most=2.0**-4)
    if frexp(step)[0] != 0.5:
        raise ValueError(f"score_step is {value!r}; it must be a power of two, such as {2.0**-7}.")
    return float(step)


def optimizer(value) -> dict:
    """FATE's optimizer dictionary: method and penalty (in any case), alpha, optimizer_params."""
    filled = checks.mapping("optimizer", value, OPTIMIZER_KEYS)
    filled["method"] = checks.name("optimizer.method", filled["method"], OPTIMIZERS)
    filled["penalty"] = checks.name("optimizer.penalty", filled["penalty"], ("l1", "l2", "none", None))
    checks.number("optimizer.alpha", filled["alpha"], at_least=0, at_most=LARGEST_PENALTY)
    _check_numbers("optimizer.optimizer_params", filled["optimizer_params"])
    if "lr" in filled["optimizer_params"]:
        # Without a step the weights stay where they began, and for some methods the guest knows where that is.
        checks.number("optimizer.optimizer_params.lr", filled["optimizer_params"]["lr"], above=0)
    return filled


def learning_rate_scheduler(value) -> dict:
    """FATE's scheduler dictionary: method (constant, linear or step, in any case), scheduler_params."""
    filled = checks.mapping("learning_rate_scheduler", value, constant_learning_rate())
    filled["method"] = checks.name("learning_rate_scheduler.method", filled["method"], ("constant", "linear", "step"))
    scheduler_params = {} if filled["scheduler_params"] is None else filled["scheduler_params"]
    _check_numbers("learning_rate_scheduler.scheduler_params", scheduler_params)
    return {**filled, "scheduler_params": scheduler_params}


def init_param(value) -> dict:
    """FATE's initialisation dictionary, with the method kaiming beside FATE's own, of which zeros is the default."""
    filled = checks.mapping("init_param", value, DEFAULT_INIT)
    filled["method"] = checks.name("init_param.method", filled["method"], INIT_METHODS)
    checks.number("init_param.fill_val", filled["fill_val"], at_least=-LARGEST_START, at_most=LARGEST_START)
    checks.flag("init_param.fit_intercept", filled["fit_intercept"])
    if filled["random_state"] is not None:
        checks.number("init_param.random_state", filled["random_state"], at_least=0, whole=True)
    return filled


def he_param(value) -> dict:
    """FATE's homomorphic encryption dictionary: Paillier with at least 2048 bits."""
    from fate_dp.crypto.paillier import check_key_length

    filled = checks.mapping("he_param", value, DEFAULT_HE)
    filled["kind"] = checks.name("he_param.kind", filled["kind"], ("paillier",))
    check_key_length(filled["key_length"])
    return filled


def flipback(value) -> FlipbackSettings:
    """Flipback dictionary: mode, every, fraction, max_rounds."""
    if isinstance(value, FlipbackSettings):
        return value
    return FlipbackSettings(**checks.mapping("flipback", value, asdict(FlipbackSettings())))


def cv_param(value) -> dict:
    """FATE's cross-validation dictionary: n_splits, shuffle, random_state."""
    filled = checks.mapping("cv_param", value, DEFAULT_CV)
    checks.number("cv_param.n_splits", filled["n_splits"], at_least=2, whole=True)
    checks.flag("cv_param.shuffle", filled["shuffle"])
    if filled["random_state"] is not None:
        checks.number("cv_param.random_state", filled["random_state"], at_least=0, whole=True)
    return filled


def check_few_valued_batches(rows: int, size: Optional[int], features: int) -> None:
    """Refuse batches from whose losses a guest could find a host's column of few values.

    Losses and own weights can determine the products of such a column with each of the guest's, to some 30 bits. Where a
    batch has 40 rows for every feature, these hold fewer bits than the column has values.

    Args:
        features: of all data parties together; the targets of more than two classes count, all but one, since they are
            further columns that the guest knows.
    """
    effective, needed = rows if size is None else min(size, rows), ROWS_PER_FEATURE_OF_FEW_VALUES * features
    if effective < needed:
        raise ValueError(
            f"batch_size is {size if size is not None else f'None (all {rows} rows)'}; it must be at least {needed}, "
            f"{ROWS_PER_FEATURE_OF_FEW_VALUES} times all parties' features, where a host has columns of few values, or "
            "losses could show them; its operator may name the table in few_valued_scores of the policy."
        )


def check_batches(rows: int, size: Optional[int], largest_feature_count: int) -> None:
    """Refuse batches from whose exact gradient a party could solve for every residual as for a real number.

    Labels are bits: on few rows a lattice finds them from less. Only their flip protects them from a host.
    """
    effective = rows if size is None else min(size, rows)
    needed = ROWS_PER_FEATURE * largest_feature_count
    if effective < needed:
        raise ValueError(
            f"batch_size is {size if size is not None else f'None (all {rows} rows)'}; it must be at least {needed}, "
            f"{ROWS_PER_FEATURE} times the largest feature count of a party, or a host could solve for every residual."
        )


def batch_bounds(rows: int, size: Optional[int]) -> list:
    """[(first row, row after the last), ...]: consecutive, the same in every epoch, the remainder in the last one."""
    if size is None or size >= rows:
        return [(0, rows)]
    starts = list(range(0, rows - size + 1, size))
    return list(zip(starts, [*starts[1:], rows]))


def _check_numbers(field: str, params) -> None:
    """Parameters for torch: a mapping to numbers, flags, None, or lists of numbers (Adam's betas)."""
    if not isinstance(params, dict):
        raise ValueError(f"{field} is {params!r}; it must be a mapping.")
    for name, value in params.items():
        if value is not None and not isinstance(value, bool):
            for item in value if isinstance(value, (list, tuple)) else [value]:
                checks.number(f"{field}.{name}", item)
