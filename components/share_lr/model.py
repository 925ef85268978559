"""One party's model: the weights where they are opened, a share of them where nobody may know them, else neither."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..common.federation import Document
from ..common.provenance import LabelPrivacy
from ..protocols.joined_tables import MEMBERSHIP, Alignment, feature_names
from ..protocols.optimizers import in_words
from ..protocols.score_counts import NOT_SHOWN
from .scoring import KEPT_BITS, UNITS_OF_WEIGHTS
from .settings import SEES, ShareSettings
from .training import Progress

LABELS = [0, 1]


@dataclass(frozen=True)
class JoinedModel:
    """What a party holds of a model: the joint features in their public order, and this party's own names of its own.

    ``run`` is a random name of the training, the same at both parties; ``origin`` one that this party alone chose and
    knows. ``weights`` are object (d,), integers in units of 2^-22: the weights, or this party's share of them with
    reveal nobody; None at a party that the weights are not opened to. The last one is an intercept with
    ``fit_intercept``, which the membership column multiplies.
    """

    header: tuple[str, ...]
    own_columns: tuple[str, ...]
    family: str
    fit_intercept: bool
    reveal: str
    run: str
    origin: str
    weights: np.ndarray | None

    @property
    def factors(self) -> list:
        return [*self.header, *([MEMBERSHIP] if self.fit_intercept else [])]

    def to_json(
        self, settings: ShareSettings, optimizer: Document, progress: Progress, privacy: Document | None
    ) -> Document:
        """FATE's model format (that of CoordinatedLR), and what is known of the labels' privacy under ``privacy``."""
        training, weights, shared = settings.training, self.weights, self.reveal == "nobody"
        estimator = {
            "param": None if shared or weights is None else self._param(weights),
            "fit_intercept": self.fit_intercept,
            "header": self._names("host" if privacy is None else "guest"),
            "public_header": list(self.header),
            "own_columns": list(self.own_columns),
            "end_epoch": progress.epochs_run,
            "is_converged": progress.converged,
            "losses": progress.losses,
            "weight_shares": [str(share) for share in weights] if shared and weights is not None else None,
            "run": self.run,
            "origin": self.origin,
        }
        meta = {
            "epochs": training.epochs,
            "init_param": training.init_param,
            "optimizer_param": optimizer,
            "learning_rate_param": training.learning_rate_scheduler,
            "family": training.family,
            "labels": LABELS,
            "ovr": False,
            "threshold": training.threshold,
            "reveal": self.reveal,
            "privacy": privacy,
        }
        return {"data": {"estimator": estimator}, "meta": meta}

    @classmethod
    def from_json(cls, document: Document) -> "JoinedModel":
        """Raises ValueError for what `to_json` did not write."""
        try:
            estimator = document["data"]["estimator"]
            reveal, family = document["meta"]["reveal"], document["meta"]["family"]
            named = ("header", "own_columns", "fit_intercept", "run", "origin")
            header, own_columns, fit_intercept, run, origin = (estimator[name] for name in named)
            # An earlier version knew all columns by number.
            header = estimator.get("public_header", header)
            weights: np.ndarray | None
            if reveal == "nobody":
                weights = np.array([int(share) for share in estimator["weight_shares"]], dtype=object)
            else:
                weights = _in_units(estimator["param"], fit_intercept)
        except (KeyError, TypeError) as error:
            raise ValueError("input_model is no model that share_lr trained.") from error
        if reveal not in SEES or weights is not None and len(weights) != len(header) + int(fit_intercept):
            raise ValueError("input_model does not have one weight for each of its columns; share_lr did not write it.")
        return cls(tuple(header), tuple(own_columns), family, fit_intercept, reveal, run, origin, weights)

    def _names(self, role: str) -> list[str]:
        """The columns as a reader at this party knows them: its own by their names, the other party's by number."""
        own = dict(zip(feature_names(role, len(self.own_columns)), self.own_columns))
        return [own.get(name, name) for name in self.header]

    def _param(self, weights: np.ndarray) -> Document:
        # Below 2^50 in magnitude: float64 holds them exactly.
        column = [[float(weight) / 2.0**UNITS_OF_WEIGHTS] for weight in weights]
        intercept = column.pop() if self.fit_intercept else None
        return {"coef_": column, "intercept_": intercept, "dtype": "float64"}


def _in_units(param: Document | None, fit_intercept: bool) -> np.ndarray | None:
    if param is None:
        return None
    column = np.ravel([*param["coef_"], *([param["intercept_"]] if fit_intercept else [])]).astype(np.float64)
    if not np.all(np.abs(column) < 2.0 ** (KEPT_BITS - UNITS_OF_WEIGHTS)):
        raise ValueError("input_model has a weight that is not finite or too large; share_lr did not write it.")
    return np.array([int(weight) for weight in np.rint(column * 2.0**UNITS_OF_WEIGHTS)], dtype=object)


# The one-record summaries that FATE-Board draws as a table.


def guest_summary(
    settings: ShareSettings, alignment: Alignment, model: JoinedModel, progress: Progress, privacy: LabelPrivacy
) -> Document:
    return {
        "mechanism": "training on additive shares of rows, with labels that were flipped or declared public",
        **host_summary(alignment, model, progress),
        "label source": privacy.source,
        "labels": privacy.in_words,
        "epsilon of the labels (nats, unit label, replace-one)": privacy.epsilon if privacy.private else "infinity",
        "family": settings.training.family,
        "converged": in_words(progress.converged, progress.losses),
        **_last_loss(settings.training.family, progress.losses),
    }


def _last_loss(family: str, losses: Sequence[float]) -> Document:
    """Of numbers it is half the mean squared error less that of weights 0, which would tell of the labels that matched."""
    if family == "binomial":
        return {"last loss": losses[-1] if losses else NOT_SHOWN}
    return {"half the mean squared error that the model explains": -losses[-1] if losses else NOT_SHOWN}


def host_summary(alignment: Alignment, model: JoinedModel, progress: Progress) -> Document:
    hidden = "hidden by align; whoever sees the losses or the weights can tell it"
    return {
        "joined rows": alignment.rows,
        "number of matches": "known to both parties" if alignment.hide_size is None else hidden,
        "joint weights": len(model.factors),
        "opened to": model.reveal,
        "epochs run": progress.epochs_run,
        "features have differential privacy": "no",
    }
