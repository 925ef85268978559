"""One party's part of the model: weights, optimiser and progress, and their form in FATE's JSON model."""
import copy
import hmac
import secrets
from typing import List, Optional

import numpy as np

from .settings import TrainSettings
from .updates import PartyOptimizer, kaiming_uniform


class PartyModel:
    """Weights of one party (the guest's intercept last) while they are trained."""

    def __init__(self, settings: TrainSettings, header: List[str], weights, optimizer: dict, fit_intercept: bool):
        self.settings, self.header, self.fit_intercept = settings, list(header), fit_intercept
        self._optimizer_param = optimizer
        self._updates = PartyOptimizer(weights, optimizer, settings.learning_rate_scheduler, fit_intercept)
        self._at_epoch_start = self.weights
        self.losses: List[float] = []
        self.converged, self.epochs_run = False, 0
        # Whether this is the model of one fold of a cross-validation.
        self.of_fold = False
        # What a training on shares leaves at this party for a warm start; says nothing without the other parties' parts.
        self.shared_state: Optional[dict] = None
        # What noise on second moments promises this party's records.
        self.noise: dict = {"kind": "none"}
        # Of all data parties' keys, for people to compare; "none" in solver per_epoch.
        self.keys_fingerprint = "none"
        # Whether this party's table has columns of few values, which scores would show.
        self.few_valued = False

    @property
    def weights(self) -> np.ndarray:
        """float64 array (m,)."""
        return self._updates.weights.numpy().ravel().copy()

    @weights.setter
    def weights(self, opened: np.ndarray) -> None:
        """Weights that were trained as shares and opened to this party."""
        self._updates.place(opened)

    def learning_rates(self) -> List[float]:
        """The step size of every epoch to come, as the schedule has it from here on."""
        return self._updates.learning_rates(self.settings.epochs)

    def start_epoch(self, epoch: int) -> None:
        self._at_epoch_start, self.epochs_run = self.weights, epoch + 1

    def update(self, gradient: np.ndarray) -> None:
        """One step along the mean gradient (m, 1) of a batch, penalty added here."""
        self._updates.step(self._updates.regularise(gradient))

    def end_epoch(self) -> None:
        self._updates.next_epoch()

    def epoch_change(self) -> float:
        """Squared l2 norm of the change of this party's weights since the epoch began."""
        return float(np.sum((self.weights - self._at_epoch_start) ** 2))

    def penalty_loss(self) -> float:
        return self._updates.penalty_loss()

    def to_json(self, labels: list, privacy: dict) -> dict:
        """FATE's model format (that of CoordinatedLR), and what is known of the labels' privacy under ``privacy``."""
        state, weights, settings = self._updates.state(), self.weights[:, None].tolist(), self.settings
        intercept = weights.pop() if self.fit_intercept else None
        estimator = {
            "param": {"coef_": weights, "intercept_": intercept, "dtype": "float64"},
            "optimizer": state["optimizer"],
            "lr_scheduler": state["lr_scheduler"],
            "iters": state["iters"],
            "end_epoch": self.epochs_run,
            "is_converged": self.converged,
            "fit_intercept": self.fit_intercept,
            "header": self.header,
            "losses": self.losses,
            "shared_state": self.shared_state,
        }
        meta = {
            "epochs": settings.epochs, "batch_size": settings.batch_size, "init_param": settings.init_param,
            "learning_rate_param": settings.learning_rate_scheduler, "optimizer_param": self._optimizer_param,
            "family": settings.family, "labels": labels, "ovr": False, "threshold": settings.threshold, "privacy": privacy,
            "noise": self.noise, "few_valued": self.few_valued,
        }  # fmt: skip
        return {"data": {"estimator": estimator}, "meta": meta}

    @classmethod
    def from_json(cls, document: dict, settings: TrainSettings) -> "PartyModel":
        """A model to go on training: weights, optimiser and schedule continue, ``settings`` bring the new epochs."""
        estimator, meta = document["data"]["estimator"], document["meta"]
        weights = weights_of(document)
        model = cls(settings, estimator["header"], weights, meta["optimizer_param"], estimator["fit_intercept"])
        optimizer = copy.deepcopy(estimator["optimizer"])
        # JSON turns the parameter indices, which are numbers for the optimiser, into text.
        buffers = optimizer["optimizer"]["state"]
        optimizer["optimizer"]["state"] = {int(index): values for index, values in buffers.items()}
        model._updates.restore(
            {"weights": weights.tolist(), "iters": estimator["iters"], "optimizer": optimizer,
             "lr_scheduler": estimator["lr_scheduler"]}
        )  # fmt: skip
        model.shared_state = estimator.get("shared_state")
        return model


def weights_of(document: dict) -> np.ndarray:
    """Weights (m,) of a JSON model, the intercept last where there is one."""
    param = document["data"]["estimator"]["param"]
    column = param["coef_"] + ([param["intercept_"]] if document["data"]["estimator"]["fit_intercept"] else [])
    return np.asarray(column, dtype=np.float64).ravel()


def check_header(header: List[str], columns: List[str]) -> None:
    """Refuse a model that was trained on other columns."""
    if list(header) != list(columns):
        raise ValueError("The model was trained on other columns than this table has; names and order must agree.")


def initial_weights(init_param: dict, features: int, key: bytes, fit_intercept: bool) -> np.ndarray:
    """Start weights of one party; a random_state repeats them at this party, and tells no other party what they are.

    The methods zeros (the default), ones and consts are known to everybody, which protects no less: no promise rests on a
    secret start, see docs/cryptography.md. The stream of the others is keyed with the party's secret all the same.
    """
    method, state = init_param["method"], init_param["random_state"]
    if state is None:
        seed = secrets.randbits(128)
    else:
        seed = int.from_bytes(hmac.digest(key, f"initial weights {state}".encode(), "sha256")[:16], "big")
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
