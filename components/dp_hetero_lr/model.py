"""One party's part of the model: weights, optimiser and progress, and their form in FATE's JSON model."""
import copy
import hmac
import secrets
from typing import List, Optional, Sequence

import numpy as np

from .settings import TrainSettings
from .updates import PartyOptimizer, kaiming_uniform


class PartyModel:
    """Weights of one party (the guest's intercept last) while they are trained: of one model, or of one for each class."""

    def __init__(
        self, settings: TrainSettings, header: List[str], columns: Sequence[np.ndarray], optimizer: dict, fit_intercept: bool
    ):
        """
        Args:
            columns: weights (m,) of every model to start from.
        """
        self.settings, self.header, self.fit_intercept = settings, list(header), fit_intercept
        self._optimizer_param = optimizer
        self._updates = [
            PartyOptimizer(weights, optimizer, settings.learning_rate_scheduler, fit_intercept) for weights in columns
        ]
        self._at_epoch_start = self.columns
        self.losses: List[float] = []
        self.converged, self.epochs_run = False, 0
        # Whether this is the model of one fold of a cross-validation.
        self.of_fold = False
        # What a training on shares leaves at this party for a warm start of every model; says nothing without the other
        # parties' parts.
        self.shared_states: List[Optional[dict]] = [None] * len(self._updates)
        # What noise on second moments promises this party's records.
        self.noise: dict = {"kind": "none"}
        # Of all data parties' keys, for people to compare; "none" in solver per_epoch.
        self.keys_fingerprint = "none"
        # Whether this party's table has columns of few values, which scores would show.
        self.few_valued = False

    @property
    def columns(self) -> List[np.ndarray]:
        """float64 arrays (m,): the weights of every model."""
        return [updates.weights.numpy().ravel().copy() for updates in self._updates]

    @columns.setter
    def columns(self, opened: Sequence[np.ndarray]) -> None:
        """Weights that were trained as shares and opened to this party."""
        for updates, weights in zip(self._updates, opened, strict=True):
            updates.place(weights)

    @property
    def weights(self) -> np.ndarray:
        """float64 array (m,), where there is one model."""
        (only,) = self.columns
        return only

    @weights.setter
    def weights(self, opened: np.ndarray) -> None:
        self.columns = [opened]

    @property
    def features(self) -> int:
        """Of this party, the intercept among them."""
        return len(self.header) + int(self.fit_intercept)

    def learning_rates(self) -> List[float]:
        """The step size of every epoch to come, as the schedule has it from here on, for every model alike."""
        return self._updates[0].learning_rates(self.settings.epochs)

    def start_epoch(self, epoch: int) -> None:
        self._at_epoch_start, self.epochs_run = self.columns, epoch + 1

    def update(self, gradient: np.ndarray) -> None:
        """One step of the one model along the mean gradient (m, 1) of a batch, penalty added here."""
        (updates,) = self._updates
        updates.step(updates.regularise(gradient))

    def end_epoch(self) -> None:
        for updates in self._updates:
            updates.next_epoch()

    def epoch_change(self) -> float:
        """Squared l2 norm of the change of this party's weights since the epoch began."""
        return sum(float(np.sum((now - before) ** 2)) for now, before in zip(self.columns, self._at_epoch_start))

    def penalty_loss(self) -> float:
        (updates,) = self._updates
        return updates.penalty_loss()

    def to_json(self, labels: list, privacy: dict) -> dict:
        """FATE's model format (that of CoordinatedLR), and what is known of the labels' privacy under ``privacy``.

        Models of one class each against the rest stand under the number of the class among ``labels``, as FATE has them.
        """
        settings, estimators = self.settings, [self._estimator(at) for at in range(len(self._updates))]
        meta = {
            "epochs": settings.epochs, "batch_size": settings.batch_size, "init_param": settings.init_param,
            "learning_rate_param": settings.learning_rate_scheduler, "optimizer_param": self._optimizer_param,
            "family": settings.family, "labels": labels, "ovr": len(estimators) > 1, "threshold": settings.threshold,
            "privacy": privacy, "noise": self.noise, "few_valued": self.few_valued,
        }  # fmt: skip
        by_class = {str(at): estimator for at, estimator in enumerate(estimators)}
        return {"data": {"estimator": by_class if meta["ovr"] else estimators[0]}, "meta": meta}

    def _estimator(self, at: int) -> dict:
        state = self._updates[at].state()
        weights = self.columns[at][:, None].tolist()
        intercept = weights.pop() if self.fit_intercept else None
        return {
            "param": {"coef_": weights, "intercept_": intercept, "dtype": "float64"},
            "optimizer": state["optimizer"],
            "lr_scheduler": state["lr_scheduler"],
            "iters": state["iters"],
            "end_epoch": self.epochs_run,
            "is_converged": self.converged,
            "fit_intercept": self.fit_intercept,
            "header": self.header,
            "losses": self.losses,
            "shared_state": self.shared_states[at],
        }

    @classmethod
    def from_json(cls, document: dict, settings: TrainSettings) -> "PartyModel":
        """A model to go on training: weights, optimiser and schedule continue, ``settings`` bring the new epochs."""
        estimators, columns = estimators_of(document), columns_of(document)
        optimizer = document["meta"]["optimizer_param"]
        model = cls(settings, header_of(document), columns, optimizer, has_intercept(document))
        for updates, weights, estimator in zip(model._updates, columns, estimators):
            optimizer = copy.deepcopy(estimator["optimizer"])
            # JSON turns the parameter indices, which are numbers for the optimiser, into text.
            buffers = optimizer["optimizer"]["state"]
            optimizer["optimizer"]["state"] = {int(index): values for index, values in buffers.items()}
            updates.restore(
                {"weights": weights.tolist(), "iters": estimator["iters"], "optimizer": optimizer,
                 "lr_scheduler": estimator["lr_scheduler"]}
            )  # fmt: skip
        model.shared_states = [estimator.get("shared_state") for estimator in estimators]
        return model


def estimators_of(document: dict) -> List[dict]:
    """What a JSON model stores of every model in it: one, or one for each of more than two classes."""
    stored = document["data"]["estimator"]
    return [stored[str(at)] for at in range(len(document["meta"]["labels"]))] if document["meta"].get("ovr") else [stored]


def header_of(document: dict) -> List[str]:
    """The columns that the party's weights multiply."""
    return estimators_of(document)[0]["header"]


def has_intercept(document: dict) -> bool:
    return estimators_of(document)[0]["fit_intercept"]


def columns_of(document: dict) -> List[np.ndarray]:
    """Weights (m,) of every model in a JSON model, the intercept last where there is one."""
    return [_weights(estimator) for estimator in estimators_of(document)]


def weights_of(document: dict) -> np.ndarray:
    """As `columns_of`, where there is one model."""
    (only,) = columns_of(document)
    return only


def _weights(estimator: dict) -> np.ndarray:
    param = estimator["param"]
    column = param["coef_"] + ([param["intercept_"]] if estimator["fit_intercept"] else [])
    return np.asarray(column, dtype=np.float64).ravel()


def check_header(header: List[str], columns: List[str]) -> None:
    """Refuse a model that was trained on other columns."""
    if list(header) != list(columns):
        raise ValueError("The model was trained on other columns than this table has; names and order must agree.")


def initial_weights(init_param: dict, features: int, key: bytes, fit_intercept: bool, model: int = 0) -> np.ndarray:
    """Start weights of one party and model; a random_state repeats them at this party, and tells no other party what they are.

    The methods zeros (the default), ones and consts are known to everybody, which protects no less: no promise rests on a
    secret start, see docs/cryptography.md. The stream of the others is keyed with the party's secret all the same.
    """
    method, state = init_param["method"], init_param["random_state"]
    if state is None:
        seed = secrets.randbits(128)
    else:
        of_model = f" of model {model}" if model else ""
        seed = int.from_bytes(hmac.digest(key, f"initial weights {state}{of_model}".encode(), "sha256")[:16], "big")
    generator = np.random.default_rng(seed)
    if method == "kaiming":
        return kaiming_uniform(features, generator, fit_intercept)
    size = features + int(fit_intercept)
    draws = {
        "zeros": lambda: np.zeros(size),
        "ones": lambda: np.ones(size),
        "consts": lambda: np.full(size, float(init_param["fill_val"])),
        "random": lambda: generator.standard_normal(size),
        "random_uniform": lambda: generator.random(size),
    }
    return draws[method]()
