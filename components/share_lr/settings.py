"""Parameters of share_lr; those that mean the same in dp_hetero_lr are declared there. No FATE in here."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from ..common.parameters import OneOf, choice, flag, mapping, name, parameter, same_as
from ..common.preflight import Refusal
from ..dp_hetero_lr import settings as hetero_lr
from ..dp_hetero_lr.settings import PredictSettings, TrainSettings
from ..protocols.optimizers import default_optimizer

SEES = {"both": ("guest", "host"), "guest": ("guest",), "host": ("host",), "nobody": ()}
"""reveal: the roles that the trained weights are opened to."""
OWN = ("reveal", "train_scores")
"""Parameters that are no settings of the descent on shares."""
START = {"method": "zeros", "fit_intercept": True}
_MAX_MOMENTUM = 0.9
"""Of the default optimiser. Bounds on weights that nobody sees rest on columns with a mean square of 256, and more
momentum soon exceeds them."""


def optimizer(value: object) -> dict[str, object]:
    """FATE's optimizer dictionary: method sgd, penalty l2 or none, alpha, optimizer_params."""
    filled = hetero_lr.optimizer(value)
    choice("optimizer.method", filled["method"], ("sgd",))
    choice("optimizer.penalty", filled["penalty"], ("l2", "none", None))
    return filled


def init_param(value: object) -> dict[str, object]:
    """FATE's initialisation dictionary: method zeros, since nobody may know more of the weights; fit_intercept."""
    filled = mapping("init_param", value, START)
    filled["method"] = name("init_param.method", filled["method"], ("zeros",))
    flag("init_param.fit_intercept", filled["fit_intercept"])
    return filled


@dataclass(frozen=True)
class ShareSettings:
    """The parameters of one training, the same at both parties."""

    epochs: int | None = same_as(TrainSettings, "epochs")
    optimizer: dict[str, Any] | None = parameter(
        "steps of the descent: method sgd, penalty l2 or none, alpha, optimizer_params; None means values made from public "
        "numbers",
        None,
        check=optimizer,
    )
    learning_rate_scheduler: dict[str, Any] = same_as(TrainSettings, "learning_rate_scheduler")
    init_param: dict[str, Any] = parameter("start weights: method zeros, fit_intercept", START, check=init_param)
    tol: float | None = same_as(TrainSettings, "tol")
    early_stop: str = parameter(
        "what must fall below tol for training to end: diff or abs of the loss that the guest sees",
        "diff",
        check=OneOf(("diff", "abs"), any_case=True),
    )
    threshold: float = same_as(TrainSettings, "threshold")
    he_param: dict[str, Any] = same_as(TrainSettings, "he_param")
    family: str = same_as(TrainSettings, "family")
    reveal: str = parameter(
        "whom the trained weights are opened to: both, guest, host or nobody, who predict on shares",
        "both",
        check=OneOf(tuple(SEES)),
    )
    train_scores: bool = parameter(
        "whether the guest gets score and label of every training row in random order; the host's ledger counts it",
        False,
    )

    def __post_init__(self) -> None:
        if self.family == "gaussian" and self.early_stop == "abs":
            allowed = "diff with family gaussian, whose losses are shown without a constant"
            raise Refusal.of("early_stop", self.early_stop, allowed)

    @property
    def training(self) -> TrainSettings:
        """Those that dp_hetero_lr has under the same names; its solver is always cross_product, its weights start from zero."""
        return TrainSettings(**{name: value for name, value in vars(self).items() if name not in OWN})

    def to_json(self) -> dict[str, Any]:
        """Builtins, the same at both parties if they were asked for the same; each setting stands here once."""
        training = {name: value for name, value in asdict(self.training).items() if name not in OWN}
        return {"training": training, **{name: getattr(self, name) for name in OWN}}

    def with_optimizer(self, rows: int, features: int, epsilon: float) -> TrainSettings:
        """The settings of the training, their optimiser filled in from public numbers if none is given.

        The intercept counts as a feature; ``epsilon`` (nats) is infinity for public labels.
        """
        if self.training.optimizer is not None:
            return self.training
        chosen = default_optimizer(rows, features, epsilon, family=self.training.family, epochs=self.training.epochs)
        descent = chosen["optimizer_params"]
        if descent.get("momentum", 0.0) > _MAX_MOMENTUM:
            chosen["optimizer_params"] = {**descent, "momentum": _MAX_MOMENTUM}
        return replace(self.training, optimizer=chosen)


@dataclass(frozen=True)
class Prediction:
    """The parameters of one prediction as a job gives them."""

    he_param: dict[str, Any] = same_as(PredictSettings, "he_param")
    true_labels: bool = same_as(PredictSettings, "true_labels")
