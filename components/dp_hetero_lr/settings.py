"""Parameters of dp_hetero_lr, and which of them go together: solver, privacy and classes. No FATE in here."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import frexp
from typing import Any, NamedTuple

from fate_dp.privacy.labels.flipback import FlipbackSettings
from fate_dp.privacy.mechanisms.second_moments import MAX_BOUND, MIN_RADIUS

from ..common.federation import Document
from ..common.parameters import OneOf, classes, flag, label_source, mapping, name, number, parameter, same_as
from ..common.preflight import Refusal
from ..common.vocabulary import LABEL, NONE, RECORD, UNIFORM, delta_parameter, he_parameter, spread_parameter
from ..protocols.optimizers import MAX_PENALTY, ROWS_PER_FEATURE, constant_learning_rate
from ..protocols.training_terms import BINARY, Descent, class_names

OPTIMIZERS = ("sgd", "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop")
SOLVERS = CROSS_PRODUCT, PER_EPOCH = "cross_product", "per_epoch"
FAMILIES = ("binomial", "gaussian")
SIGMOIDS = ("taylor", "exact")
SCORINGS = ("joint", "encrypted")
LEVELS = (NONE, RECORD, LABEL)
INIT_METHODS = ("kaiming", "zeros", "ones", "consts", "random", "random_uniform")
# Weights that are shared while they are trained have masks for starts up to here.
MAX_START = 2**10

OPTIMIZER_KEYS = {"method": "sgd", "penalty": "l2", "alpha": 1.0, "optimizer_params": {"lr": 0.01}}
DEFAULT_INIT = {"method": "zeros", "fill_val": 0.0, "fit_intercept": True, "random_state": None}
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


def score_step(value: object) -> float:
    """A power of two from 2^-8 to 2^-4: finer ones hide little, coarser ones cost accuracy."""
    step = number("score_step", value, at_least=2.0**-8, at_most=2.0**-4)
    if frexp(step)[0] != 0.5:
        raise Refusal.of("score_step", value, f"a power of two, such as {2.0**-7}")
    return float(step)


def optimizer(value: object) -> dict[str, Any]:
    """FATE's optimizer dictionary: method and penalty (in any case), alpha, optimizer_params."""
    filled = mapping("optimizer", value, OPTIMIZER_KEYS)
    filled["method"] = name("optimizer.method", filled["method"], OPTIMIZERS)
    filled["penalty"] = name("optimizer.penalty", filled["penalty"], ("l1", "l2", "none", None))
    number("optimizer.alpha", filled["alpha"], at_least=0, at_most=MAX_PENALTY)
    _check_numbers("optimizer.optimizer_params", filled["optimizer_params"])
    if "lr" in filled["optimizer_params"]:
        # Without a step the weights stay where they began, and for some methods the guest knows where that is.
        number("optimizer.optimizer_params.lr", filled["optimizer_params"]["lr"], above=0)
    return filled


def learning_rate_scheduler(value: object) -> dict[str, Any]:
    """FATE's scheduler dictionary: method (constant, linear or step, in any case), scheduler_params."""
    filled = mapping("learning_rate_scheduler", value, constant_learning_rate())
    filled["method"] = name("learning_rate_scheduler.method", filled["method"], ("constant", "linear", "step"))
    scheduler_params = {} if filled["scheduler_params"] is None else filled["scheduler_params"]
    _check_numbers("learning_rate_scheduler.scheduler_params", scheduler_params)
    return {**filled, "scheduler_params": scheduler_params}


def init_param(value: object) -> dict[str, Any]:
    """FATE's initialisation dictionary, with the method kaiming beside FATE's own, of which zeros is the default."""
    filled = mapping("init_param", value, DEFAULT_INIT)
    filled["method"] = name("init_param.method", filled["method"], INIT_METHODS)
    number("init_param.fill_val", filled["fill_val"], at_least=-MAX_START, at_most=MAX_START)
    flag("init_param.fit_intercept", filled["fit_intercept"])
    _check_seed("init_param", filled)
    return filled


def flipback(value: object) -> FlipbackSettings:
    """Flipback dictionary: mode, every, fraction, max_rounds."""
    if isinstance(value, FlipbackSettings):
        return value
    return FlipbackSettings(**mapping("flipback", value, asdict(FlipbackSettings())))


def cv_param(value: object) -> dict[str, Any]:
    """FATE's cross-validation dictionary: n_splits, shuffle, random_state."""
    filled = mapping("cv_param", value, DEFAULT_CV)
    number("cv_param.n_splits", filled["n_splits"], at_least=2, whole=True)
    flag("cv_param.shuffle", filled["shuffle"])
    _check_seed("cv_param", filled)
    return filled


def _check_seed(field: str, filled: dict[str, object]) -> None:
    if filled["random_state"] is not None:
        number(f"{field}.random_state", filled["random_state"], at_least=0, whole=True)


def _check_numbers(field: str, params: object) -> None:
    """Parameters for torch: a mapping to numbers, flags, None, or lists of numbers (Adam's betas)."""
    if not isinstance(params, dict):
        raise Refusal.of(field, params, "a mapping")
    for key, value in params.items():
        if value is not None and not isinstance(value, bool):
            for item in value if isinstance(value, (list, tuple)) else [value]:
                number(f"{field}.{key}", item)


_OF_MORE = (
    "more than two are trained with solver cross_product, sigmoid taylor, flipback.mode auto or none, and privacy none"
)


@dataclass(frozen=True)
class TrainSettings:
    """Parameters of one training, under FATE's names; every party of a job holds the same.

    ``solver`` None means what `resolved_solver` makes of the other settings, ``optimizer`` None
    `optimizers.default_optimizer`. ``classes`` are the label values that the operator declared, never what occurs in
    labels. ``epsilon``, ``delta`` and ``clip`` are each party's own, but for privacy label, where the first two are the
    guest's and hosts do not read theirs.
    """

    epochs: int = parameter(
        f"most epochs; None means {ALL_AT_ONCE.epochs}, or {STEP_BY_STEP.epochs} with solver per_epoch or several batches",
        None,
        at_least=1,
    )
    batch_size: int | None = parameter(
        "rows per batch, the same batches in every epoch; None means all rows", None, at_least=ROWS_PER_FEATURE
    )
    optimizer: dict[str, Any] | None = parameter(
        "steps of the descent: method, penalty, alpha, optimizer_params; None means values made from public numbers",
        None,
        check=optimizer,
    )
    learning_rate_scheduler: dict[str, Any] = parameter(
        "how the learning rate changes: method (constant, linear, step), scheduler_params",
        constant_learning_rate(),
        check=learning_rate_scheduler,
    )
    init_param: dict[str, Any] = parameter(
        "start weights: method (zeros by default, so that a repeated job gives the same model), fit_intercept, fill_val, "
        "random_state",
        DEFAULT_INIT,
        check=init_param,
    )
    tol: float = parameter(
        f"tolerance of early_stop, {ALL_AT_ONCE.tol:g} for all epochs; None means {ALL_AT_ONCE.tol:g}, or "
        f"{STEP_BY_STEP.tol:g} with solver per_epoch or several batches",
        None,
        at_least=0,
        title="Tolerance",
    )
    early_stop: str = parameter(
        "what must fall below tol for training to end: diff or abs of the loss, or weight_diff",
        "diff",
        check=OneOf(("diff", "abs", "weight_diff"), any_case=True),
    )
    threshold: float = parameter("scores above it predict label 1", 0.5, at_least=0, at_most=1)
    he_param: dict[str, Any] = he_parameter()
    flipback: FlipbackSettings = parameter(
        "better labels between epochs: mode, every, fraction, max_rounds", FlipbackSettings(), check=flipback
    )
    train_scores: bool = parameter(
        "whether the guest gets the joint scores of the training rows, which the component flipback needs; each host's "
        "ledger counts it",
        False,
    )
    score_step: float = parameter(
        "hosts round their part of joint scores at random to multiples of it: a power of two from 2^-8 to 2^-4",
        2.0**-7,
        check=score_step,
    )
    label_source: str | None = parameter(
        "namespace/name/column, needed for labels that are not flipped: they must be declared public at the guest",
        None,
        check=label_source,
    )
    classes: tuple[float, ...] | None = parameter(
        "all label values that may occur; None means those that label_flip was given, and [0, 1] for labels declared public; "
        "with more than two, a model for each against the rest",
        None,
        check=classes,
    )
    solver: str | None = parameter(
        "how training is encrypted: cross_product (all of it in the first epoch) or per_epoch; None means cross_product "
        "where it can",
        None,
        check=OneOf(SOLVERS),
    )
    family: str = parameter(
        "what labels are: binomial (0 and 1) or gaussian (numbers)", "binomial", check=OneOf(FAMILIES)
    )
    sigmoid: str = parameter(
        "sigmoid of the gradient: taylor, or exact, which shows the guest joint scores in every round; each host's ledger "
        "counts them",
        "taylor",
        check=OneOf(SIGMOIDS),
    )
    sigmoid_rounds: int = parameter("most corrections of the sigmoid", 3, at_least=1)
    privacy: str = parameter(
        "what noise on second moments protects: record (each party's features), label (true labels alone, without flips), or "
        "none, where labels are flips of label_flip or public; all parties must set the same",
        NONE,
        check=OneOf(LEVELS),
    )
    epsilon: float | None = parameter(
        "epsilon (nats) of this party's part of a record, against all others; None means no noise here and no promise; with "
        "privacy label it is that of the guest's labels",
        None,
        above=0,
    )
    delta: float = delta_parameter("this party's epsilon")
    noise_spread: str = spread_parameter(
        " to what features contribute, with privacy record; all parties must set the same"
    )
    clip: float | None = parameter(
        "rows of this party's features are clipped to this l2 norm, a public number; None means the square root of the "
        "number of features, at most 16",
        None,
        at_least=MIN_RADIUS,
        at_most=MAX_BOUND,
    )

    def __post_init__(self) -> None:
        steps = self.batch_size is not None or self.solver == "per_epoch" or self.cross_product_blocker()
        for pace, default in (STEP_BY_STEP if steps else ALL_AT_ONCE)._asdict().items():
            if getattr(self, pace) is None:
                object.__setattr__(self, pace, default)

    # What goes together; the client asks the same. Each check raises ValueError with one sentence, or says nothing.

    def cross_product_blocker(self) -> str:
        """What of the settings the cross product cannot do, whose update rule must be linear in the weights; "" if nothing."""
        optimizer = self.optimizer or {"method": "sgd", "penalty": "l2"}
        if optimizer["method"] != "sgd":
            return f"optimizer.method is {optimizer['method']}"
        if optimizer["penalty"] == "l1":
            return "optimizer.penalty is l1"
        if self.early_stop == "weight_diff":
            return "early_stop is weight_diff"
        return ""

    def resolved_solver(self) -> str:
        """`CROSS_PRODUCT` or `PER_EPOCH`: what was asked for, or the cross product wherever its arithmetic allows.

        The cross product keeps the weights shared between the parties, so that its update rule must be linear in them.
        """
        blocker = self.cross_product_blocker()
        needed = "sigmoid exact" if self.sigmoid == "exact" else ""
        if self.family == "gaussian":
            needed = "family gaussian"
        if self.solver == PER_EPOCH and needed:
            raise Refusal(f"solver is per_epoch, but {needed} needs solver cross_product.")
        if blocker and (needed or self.solver == CROSS_PRODUCT):
            reason = needed or "solver cross_product"
            raise Refusal(
                f"{blocker}, which {reason} cannot have: its weights stay shared, and only sgd is linear in them."
            )
        return self.solver or (PER_EPOCH if blocker else CROSS_PRODUCT)

    def resolved(self) -> dict[str, str]:
        return {"solver": self.resolved_solver()}

    def descent(self) -> Descent:
        """What every party reads of these settings, the solver that they choose among it."""
        return Descent.of(self, shared=self.resolved_solver() == CROSS_PRODUCT)

    def check_noise(self, warm_start: Document | None = None) -> None:
        """Refuse settings under which noise would not protect what it promises to: only what never reads a row again."""
        if self.noise_spread != UNIFORM and self.privacy != RECORD:
            raise Refusal(
                f"noise_spread is {self.noise_spread}, but privacy is {self.privacy}; it goes with privacy record only."
            )
        if self.privacy == NONE:
            if self.epsilon is not None:
                raise Refusal(
                    f"epsilon is {self.epsilon:g}, but privacy is none, which protects no record; set privacy to record, or "
                    "to label for labels alone, at all parties; the epsilon of flips is a parameter of label_flip."
                )
            return
        blocker = self._noise_blocker(warm_start)
        if blocker:
            raise Refusal(f"With privacy {self.privacy}, {blocker}.")

    @property
    def noise_kind(self) -> str:
        """As `training_terms.NoiseTerms` has it: none, uniform, adaptive or label."""
        return self.noise_spread if self.privacy == RECORD else self.privacy

    def refuse_folds(self) -> None:
        """Cross-validation trains on every record several times and scores it: no single release of second moments."""
        if self.privacy != NONE:
            raise Refusal(
                f"privacy is {self.privacy}, but cross-validation reads the rows again in every fold; set privacy to none, "
                "or train with noise on one split."
            )

    def _noise_blocker(self, warm_start: Document | None) -> str:
        if self.family != "binomial":
            return "family must be binomial, got 'gaussian', whose loss would need noise on the squared targets, too"
        if self.sigmoid != "taylor":
            return "sigmoid must be taylor, got 'exact', which reads the rows again for joint scores"
        if self.resolved_solver() == PER_EPOCH:
            return (
                "these settings need solver per_epoch, which reads the rows in every epoch and would need the square root "
                "of their number times more noise; use solver cross_product, optimizer.method sgd and early_stop diff or abs"
            )
        if self.flipback.mode not in ("none", "auto"):
            return (
                f"flipback.mode must be none, got {self.flipback.mode!r}, which reads the rows again for joint scores"
            )
        if self.train_scores:
            return "train_scores must be false, got True, which reads the training rows again"
        if self.batch_size is not None:
            return f"batch_size must be None, got {self.batch_size}, since noise goes once to the sums over all rows"
        if warm_start is not None:
            return "warm_start_model is given, whose training may have read the same rows; start anew"
        return ""

    def check_classes(self, classes: Sequence[float] | None = None) -> None:
        """Refuse classes (of the flips, or as agreed on; None for the parameter alone) that these settings do not train."""
        if self.classes is not None:
            _check_parameter(self.family, self.classes, classes)
        told = self.classes if classes is None else classes
        if told is None or len(told) == 2 or self.family != "binomial":
            return
        if not all(float(value).is_integer() and abs(value) < 2**31 for value in told):
            raise Refusal.of("classes", class_names(told), "whole numbers below 2^31 where there are more than two")
        blocker = self._classes_blocker()
        if blocker:
            raise Refusal(f"There are {len(told)} classes, {class_names(told)}, but {blocker}; {_OF_MORE}.")

    def accept_classes(self, classes: Sequence[float]) -> None:
        """At a host: the agreed classes must be ones that the job's parameters train."""
        self.check_classes(None if self.family != "binomial" else classes)
        if self.family != "binomial" and tuple(classes) != BINARY:
            raise Refusal(f"The guest plans {len(classes)} classes, but family {self.family} has none.")

    def _classes_blocker(self) -> str:
        if self.privacy != NONE:
            return f"privacy is {self.privacy}"
        if self.sigmoid != "taylor":
            return f"sigmoid is {self.sigmoid}"
        if self.flipback.mode not in ("auto", "none"):
            return f"flipback.mode is {self.flipback.mode}"
        if self.resolved_solver() == PER_EPOCH:
            return self.cross_product_blocker() or "solver is per_epoch"
        return ""


@dataclass(frozen=True)
class PredictSettings:
    """Parameters of one prediction."""

    scoring: str = parameter(
        "whose rows are predicted: joint (every party has its columns of them) or encrypted (the guest alone has them, "
        "with all columns); each host's ledger counts what it shows",
        "joint",
        check=OneOf(SCORINGS),
    )
    score_step: float = same_as(TrainSettings, "score_step")
    he_param: dict[str, Any] = same_as(TrainSettings, "he_param")
    true_labels: bool = parameter(
        "whether the guest's labels of the rows to predict are true ones of records held out of training; its summary "
        "then shows the figures on them",
        False,
    )


@dataclass(frozen=True)
class FoldSettings:
    """Parameters of cross-validation beside those of its trainings."""

    cv_param: dict[str, Any] = parameter(
        "folds of cross-validation: n_splits, shuffle, random_state", DEFAULT_CV, check=cv_param, title="CVParam"
    )


def _check_parameter(family: str, own: Sequence[float], classes: Sequence[float] | None) -> None:
    given = class_names(own)
    if family != "binomial":
        raise Refusal.of("classes", given, f"left out with family {family}, which fits numbers")
    if len(given) == 2 and own != BINARY:
        raise Refusal.of("classes", given, "0 and 1 where there are two")
    if classes is not None and own != tuple(classes):
        raise Refusal.of("classes", given, f"those of the training, {class_names(classes)}")
