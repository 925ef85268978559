"""One party's model: the weights where they are opened, a share of them where nobody may know them, else neither."""
from dataclasses import dataclass
from typing import Optional, Tuple

import numpy as np

from fate_dp.components.align.alignment import MEMBERSHIP

from .epochs import Progress
from .reveal import KEPT_BITS, UNITS_OF_WEIGHTS
from .settings import SEES, ShareSettings

LABELS = [0, 1]


@dataclass(frozen=True)
class JoinedModel:
    """What a party holds of a model.

    Attributes:
        header: joint feature columns, in their public order.
        own_columns: this party's own names of its features among them.
        family: binomial or gaussian.
        fit_intercept: whether the last weight is an intercept, which the membership column multiplies.
        reveal: whom the weights are opened to.
        run: random name of the training, the same at both parties.
        origin: random name of the training that this party alone chose and knows.
        weights: object (d,), integers in units of 2^-22: the weights, or this party's share of them with reveal nobody;
            None at a party that the weights are not opened to.
    """

    header: Tuple[str, ...]
    own_columns: Tuple[str, ...]
    family: str
    fit_intercept: bool
    reveal: str
    run: str
    origin: str
    weights: Optional[np.ndarray]

    @property
    def factors(self) -> list:
        """The columns that the weights multiply, in their order."""
        return [*self.header, *([MEMBERSHIP] if self.fit_intercept else [])]

    def to_json(self, settings: ShareSettings, optimizer: dict, progress: Progress, privacy: Optional[dict]) -> dict:
        """FATE's model format (that of CoordinatedLR), and what is known of the labels' privacy under ``privacy``."""
        training = settings.training
        estimator = {
            "param": self._param(), "fit_intercept": self.fit_intercept, "header": list(self.header),
            "own_columns": list(self.own_columns), "end_epoch": progress.epochs_run, "is_converged": progress.converged,
            "losses": progress.losses,
            "weight_shares": [str(share) for share in self.weights] if self._is_shared else None, "run": self.run,
            "origin": self.origin,
        }  # fmt: skip
        meta = {
            "epochs": training.epochs, "init_param": training.init_param, "optimizer_param": optimizer,
            "learning_rate_param": training.learning_rate_scheduler, "family": training.family, "labels": LABELS,
            "ovr": False, "threshold": training.threshold, "reveal": self.reveal, "privacy": privacy,
        }  # fmt: skip
        return {"data": {"estimator": estimator}, "meta": meta}

    @classmethod
    def from_json(cls, document: dict) -> "JoinedModel":
        """Raises ValueError for what `to_json` did not write."""
        try:
            estimator = document["data"]["estimator"]
            reveal, family = document["meta"]["reveal"], document["meta"]["family"]
            header, own_columns, fit_intercept, run, origin = (
                estimator[name] for name in ("header", "own_columns", "fit_intercept", "run", "origin")
            )
            if reveal == "nobody":
                weights = np.array([int(share) for share in estimator["weight_shares"]], dtype=object)
            else:
                weights = _in_units(estimator["param"], fit_intercept)
        except (KeyError, TypeError) as error:
            raise ValueError("input_model is no model that share_lr trained.") from error
        if reveal not in SEES or weights is not None and len(weights) != len(header) + int(fit_intercept):
            raise ValueError("input_model does not have one weight for each of its columns; share_lr did not write it.")
        return cls(tuple(header), tuple(own_columns), family, fit_intercept, reveal, run, origin, weights)

    @property
    def _is_shared(self) -> bool:
        return self.reveal == "nobody"

    def _param(self) -> Optional[dict]:
        if self._is_shared or self.weights is None:
            return None
        # Below 2^50 in magnitude: float64 holds them exactly.
        column = [[float(weight) / 2.0**UNITS_OF_WEIGHTS] for weight in self.weights]
        intercept = column.pop() if self.fit_intercept else None
        return {"coef_": column, "intercept_": intercept, "dtype": "float64"}


def _in_units(param: Optional[dict], fit_intercept: bool) -> Optional[np.ndarray]:
    if param is None:
        return None
    column = np.ravel([*param["coef_"], *([param["intercept_"]] if fit_intercept else [])]).astype(np.float64)
    if not np.all(np.abs(column) < 2.0 ** (KEPT_BITS - UNITS_OF_WEIGHTS)):
        raise ValueError("input_model has a weight that is not finite or too large; share_lr did not write it.")
    return np.array([int(weight) for weight in np.rint(column * 2.0**UNITS_OF_WEIGHTS)], dtype=object)
