"""Public configuration of share_lr, checked. No FATE in here: the client checks with it before submission."""
from dataclasses import asdict, dataclass, field, replace

from fate_dp.components.common import checks
from fate_dp.components.dp_hetero_lr import settings as hetero_lr
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.dp_hetero_lr.updates import default_optimizer

SEES = {"both": ("guest", "host"), "guest": ("guest",), "host": ("host",), "nobody": ()}
"""reveal: the roles that the trained weights are opened to."""
START = {"method": "zeros", "fit_intercept": True}
_MOST_MOMENTUM = 0.9
"""Of the default optimiser. Bounds on weights that nobody sees rest on columns with a mean square of 256, and more
momentum soon exceeds them."""


@dataclass(frozen=True)
class ShareSettings:
    """Parameters of one training, the same at both parties.

    Attributes:
        training: those that dp_hetero_lr has under the same names; its solver is always cross_product, its weights
            start from zero.
        reveal: whom the trained weights are opened to: both, guest, host or nobody.
        train_scores: whether the guest gets the score and the label of every training row, in the random order of
            align.
    """

    training: TrainSettings = field(default_factory=lambda: TrainSettings(init_param=dict(START)))
    reveal: str = "both"
    train_scores: bool = False

    def __post_init__(self):
        if self.training.family == "gaussian" and self.training.early_stop == "abs":
            raise ValueError(
                "early_stop is abs with family gaussian, whose losses are shown without a constant; it must be diff."
            )

    @classmethod
    def of(cls, **given) -> "ShareSettings":
        """From parameters; None means the default."""
        given = {name: value for name, value in given.items() if value is not None}
        own = {name: given.pop(name) for name in ("reveal", "train_scores") if name in given}
        return cls(TrainSettings(**{"init_param": dict(START), **given}), **own)

    def to_json(self) -> dict:
        """Builtins, the same at both parties if they were asked for the same."""
        return asdict(self)

    def with_optimizer(self, rows: int, features: int, epsilon: float) -> TrainSettings:
        """The settings of the training, their optimiser filled in from public numbers if none is given.

        Args:
            rows: joined rows.
            features: features of both parties, and one for the intercept.
            epsilon: of the labels, in nats; infinity for public ones.
        """
        if self.training.optimizer is not None:
            return self.training
        chosen = default_optimizer(rows, features, epsilon, family=self.training.family, epochs=self.training.epochs)
        descent = chosen["optimizer_params"]
        if descent.get("momentum", 0.0) > _MOST_MOMENTUM:
            chosen["optimizer_params"] = {**descent, "momentum": _MOST_MOMENTUM}
        return replace(self.training, optimizer=chosen)


def optimizer(value) -> dict:
    """FATE's optimizer dictionary: method sgd, penalty l2 or none, alpha, optimizer_params."""
    filled = hetero_lr.optimizer(value)
    checks.choice("optimizer.method", filled["method"], ("sgd",))
    checks.choice("optimizer.penalty", filled["penalty"], ("l2", "none", None))
    return filled


def init_param(value) -> dict:
    """FATE's initialisation dictionary: method zeros, since nobody may know more of the weights; fit_intercept."""
    filled = checks.mapping("init_param", value, START)
    filled["method"] = checks.name("init_param.method", filled["method"], ("zeros",))
    checks.flag("init_param.fit_intercept", filled["fit_intercept"])
    return filled


def early_stop(value) -> str:
    return checks.name("early_stop", value, ("diff", "abs"))


def reveal(value) -> str:
    return checks.choice("reveal", value, tuple(SEES))


CHECKS = {
    "epochs": hetero_lr.epochs,
    "optimizer": optimizer,
    "learning_rate_scheduler": hetero_lr.learning_rate_scheduler,
    "init_param": init_param,
    "tol": hetero_lr.tolerance,
    "early_stop": early_stop,
    "threshold": hetero_lr.threshold,
    "he_param": hetero_lr.he_param,
    "family": hetero_lr.family,
    "reveal": reveal,
    "train_scores": hetero_lr.train_scores,
}
