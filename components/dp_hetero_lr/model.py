"""One party's part of the model: weights, optimiser and progress, and their form in FATE's JSON model."""

import copy
import hmac
import logging
import math
import secrets
from collections.abc import Sequence

import numpy as np

from fate_dp.privacy.mechanisms.randomized_response import flip_probability

from ..common.federation import Context, Document
from ..common.preflight import Refusal
from ..common.provenance import LabelPrivacy
from ..protocols.optimizers import CONVERGED, GOES_ON, PartyOptimizer, in_words, kaiming_uniform
from ..protocols.score_counts import NOT_SHOWN, CountedScores
from ..protocols.training_terms import TrainingTerms, class_names
from .rows import Units
from .settings import CROSS_PRODUCT, PER_EPOCH, TrainSettings

logger = logging.getLogger(__name__)


class PartyModel:
    """Weights of one party (the guest's intercept last) while they are trained: of one model, or of one for each class."""

    def __init__(
        self,
        settings: TrainSettings,
        terms: TrainingTerms,
        header: Sequence[str],
        columns: Sequence[np.ndarray],
        fit_intercept: bool,
    ) -> None:
        """``terms`` are of the training or of one of its fits; ``columns`` are the weights (m,) that every model starts from."""
        self.settings, self.terms, self.header, self.fit_intercept = settings, terms, list(header), fit_intercept
        # Of the columns that the weights multiply.
        self.units = Units.as_they_are(len(self.header))
        scheduler = terms.descent.scheduler
        self._updates = [PartyOptimizer(weights, terms.optimizer, scheduler, fit_intercept) for weights in columns]
        self._at_epoch_start = self.columns
        self.losses: list[float] = []
        # Whether the guest sees them; where a host's cap is spent it does not.
        self.shows_losses = True
        self.converged, self.epochs_run = False, 0
        # Whether this is the model of one fold of a cross-validation.
        self.of_fold = False
        # What a training on shares leaves at this party for a warm start of every model; says nothing without the other
        # parties' parts.
        self.shared_states: list[Document | None] = [None] * len(self._updates)
        # What noise on second moments promises this party's records.
        self.noise: Document = {"kind": "none"}
        # Of all data parties' keys, for people to compare; "none" in solver per_epoch.
        self.keys_fingerprint = "none"
        # Whether this party's table has columns of few values, which scores would show.
        self.few_valued = False

    @property
    def columns(self) -> list[np.ndarray]:
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
        return len(self.header) + int(self.fit_intercept)

    def learning_rates(self) -> list[float]:
        """The step size of every epoch to come, as the schedule has it from here on, for every model alike."""
        return self._updates[0].learning_rates(self.terms.descent.epochs)

    def start_epoch(self, epoch: int) -> None:
        self._at_epoch_start, self.epochs_run = self.columns, epoch + 1

    def update(self, gradient: np.ndarray) -> None:
        """One step of the one model along the mean gradient (m, 1) of a batch, penalty added here."""
        (updates,) = self._updates
        updates.step(updates.regularise(gradient))

    def ends(self, state: str) -> bool:
        """Take the guest's word after an epoch; returns whether training ends with it."""
        self.converged = state == CONVERGED
        if state == GOES_ON:
            for updates in self._updates:
                updates.next_epoch()
        return state != GOES_ON

    def epoch_change(self) -> float:
        """Squared l2 norm of the change of this party's weights since the epoch began."""
        return sum(float(np.sum((now - before) ** 2)) for now, before in zip(self.columns, self._at_epoch_start))

    def penalty_loss(self) -> float:
        (updates,) = self._updates
        return updates.penalty_loss()

    def to_json(self, privacy: Document | None = None) -> Document:
        """FATE's model format (that of CoordinatedLR), and what is known of the labels' privacy under ``privacy``.

        Weights are for the columns as they are, and what their centres add to every score is an intercept, also of a host.
        Models of one class each against the rest stand under the number of the class among the labels, as FATE has them.
        """
        estimators = [self._estimator(at) for at in range(len(self._updates))]
        meta = {
            "epochs": self.settings.epochs,
            "batch_size": self.settings.batch_size,
            "init_param": self.settings.init_param,
            "learning_rate_param": self.settings.learning_rate_scheduler,
            "optimizer_param": self.terms.optimizer,
            "family": self.settings.family,
            "labels": class_names(self.terms.classes),
            "ovr": len(estimators) > 1,
            "threshold": self.settings.threshold,
            "privacy": privacy or {},
            "noise": self.noise,
            "few_valued": self.few_valued,
        }
        by_class = {str(at): estimator for at, estimator in enumerate(estimators)}
        return {"data": {"estimator": by_class if meta["ovr"] else estimators[0]}, "meta": meta}

    def _estimator(self, at: int) -> Document:
        state = self._updates[at].state()
        trained, centre = self.columns[at], self.units.centre
        weights = trained[: len(self.header)] / self.units.scale
        has_constant = self.fit_intercept or bool(np.any(centre))
        constant = float(sum(trained[len(self.header) :]) - weights @ centre)
        return {
            "param": {
                "coef_": weights[:, None].tolist(),
                "intercept_": [constant] if has_constant else None,
                "dtype": "float64",
            },
            **{name: state[name] for name in ("optimizer", "lr_scheduler", "iters")},
            "end_epoch": self.epochs_run,
            "is_converged": self.converged,
            "fit_intercept": self.fit_intercept,
            "header": self.header,
            "units": self.units.to_json(),
            "losses": self.losses,
            "shared_state": self.shared_states[at],
        }

    @classmethod
    def from_json(cls, document: Document, settings: TrainSettings, terms: TrainingTerms) -> "PartyModel":
        """A model to go on training: weights, optimiser and schedule continue, ``settings`` bring the new epochs."""
        estimators, columns = estimators_of(document), columns_of(document)
        model = cls(settings, terms, header_of(document), columns, has_intercept(document))
        model.units = units_of(document)
        for updates, weights, estimator in zip(model._updates, columns, estimators):
            optimizer = copy.deepcopy(estimator["optimizer"])
            # JSON turns the parameter indices, which are numbers for the optimiser, into text.
            buffers = optimizer["optimizer"]["state"]
            optimizer["optimizer"]["state"] = {int(index): values for index, values in buffers.items()}
            kept = {name: estimator[name] for name in ("iters", "lr_scheduler")}
            updates.restore({"weights": weights.tolist(), "optimizer": optimizer, **kept})
        model.shared_states = [estimator.get("shared_state") for estimator in estimators]
        return model


def estimators_of(document: Document) -> list[Document]:
    """What a JSON model stores of every model in it: one, or one for each of more than two classes."""
    stored = document["data"]["estimator"]
    if not document["meta"].get("ovr"):
        return [stored]
    return [stored[str(at)] for at in range(len(document["meta"]["labels"]))]


def header_of(document: Document) -> list[str]:
    return estimators_of(document)[0]["header"]


def has_intercept(document: Document) -> bool:
    return estimators_of(document)[0]["fit_intercept"]


def units_of(document: Document) -> Units:
    """What the columns that the party's weights multiply are counted in."""
    first = estimators_of(document)[0]
    return Units.from_json(first.get("units"), len(first["header"]))


def columns_of(document: Document) -> list[np.ndarray]:
    """float64 weights (m,) of every model in a JSON model, in its units, the intercept last where there is one."""
    units, found = units_of(document), []
    for each in estimators_of(document):
        weights = np.ravel(each["param"]["coef_"]).astype(float)
        constant = np.ravel(each["param"]["intercept_"] if each["fit_intercept"] else []).astype(float)
        found.append(np.append(weights * units.scale, constant + weights @ units.centre))
    return found


def check_header(header: Sequence[str], columns: Sequence[str]) -> None:
    if list(header) != list(columns):
        raise Refusal("The table's columns must be those of the model in their order.")


def initial_weights(init_param: Document, features: int, key: bytes, fit_intercept: bool, model: int = 0) -> np.ndarray:
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


def note_loss(ctx: Context, model: PartyModel, epoch: int, loss: float) -> None:
    """At the guest: the loss of the epoch of ``ctx``, into the model and the log and, but for folds, on FATE-Board, which
    draws one series for a task.
    """
    model.losses.append(loss)
    logger.info("epoch %d of at most %d: loss %.6f", epoch + 1, model.terms.descent.epochs, loss)
    if not model.of_fold:
        ctx.metrics.log_loss("loss", loss)


def guest_summary(model: PartyModel, privacy: LabelPrivacy, flipback_mode: str) -> Document:
    binomial = model.settings.family == "binomial"
    return {
        "mechanism": _mechanism(privacy),
        "label source": privacy.source,
        "epsilon of the labels (nats, unit label, replace-one)": privacy.epsilon if privacy.private else "infinity",
        "delta of the labels": privacy.delta,
        "flip probability": _flip_probability(privacy),
        "observers": "host, arbiter, whoever gets the model",
        "rows": model.terms.rows,
        "solver": CROSS_PRODUCT if model.terms.descent.shared else PER_EPOCH,
        "family": model.settings.family,
        "classes": class_names(model.terms.classes) if binomial else "none",
        "sigmoid": model.settings.sigmoid if binomial else "none",
        "flipback mode": flipback_mode,
        "privacy": model.settings.privacy,
        "labels": privacy.in_words,
        "features and labels have differential privacy (unit record)": _promise(model.noise),
        "fingerprint of all data parties' keys": model.keys_fingerprint,
        "epochs run": model.epochs_run,
        "converged": in_words(model.converged, model.losses),
        "last loss": model.losses[-1] if model.losses else NOT_SHOWN,
        "what outweighs the data": _outweighing(model),
        "guest features with intercept": model.features,
    }


def _outweighing(model: PartyModel) -> str:
    """One line from public numbers and losses: whether the penalty, the noise or the rounding of scores decides more than data."""
    terms, losses, columns = model.terms, model.losses, sum(model.terms.features)
    alpha, divisor = terms.optimizer["alpha"] if terms.optimizer["penalty"] == "l2" else 0.0, terms.curvature
    if alpha > 1 / divisor:
        return f"the penalty: alpha {alpha:.2g} is above {1 / divisor:g}, what the loss curves by along a column of mean square 1"
    if len(losses) < 2 or divisor == 1:
        return "nothing as far as is known" if len(losses) < 2 else "nothing"
    # The loss of an intercept alone is log 2 - 2 mean(t)^2, and labels without any signal explain m of n parts of their variance.
    gained, variance = losses[0] - losses[-1], 0.25 - max(0.0, (math.log(2) - losses[0]) / 2)
    if gained < 2 * variance * columns / terms.rows:
        return f"the noise: the loss fell by {gained:.2g}, no more than it would with labels drawn by lot"
    # At its minimum the loss is lower by the mean of z^2 / 8.
    spread = math.sqrt(2 * divisor * gained)
    if spread < model.settings.score_step:
        return (
            f"the rounding: joint scores differ by some {spread:.2g}, and score_step is {model.settings.score_step:g}"
        )
    return "nothing"


def _mechanism(privacy: LabelPrivacy) -> str:
    if privacy.delta:
        return "training on encrypted shares of sums, with noise on those that hold true labels"
    return "training on encrypted shares of labels that were flipped or declared public"


def _flip_probability(privacy: LabelPrivacy) -> float | str:
    """Of one draw; a model of several, or of labels that flipback revised, has none of its own."""
    if not privacy.private:
        return 0.0
    if privacy.delta:
        return "none: noise on sums"
    flips = privacy.flips
    if flips is not None and flips.bounds is not None:
        return "none: unbiased noise on numbers"
    return "several releases or revised labels" if flips is None else flip_probability(flips.epsilon, flips.classes)


def host_summary(model: PartyModel, release: CountedScores) -> Document:
    return {
        "features": model.features,
        "fingerprint of all data parties' keys": model.keys_fingerprint,
        "epochs run": model.epochs_run,
        "joint scores shown to the guest (different models, all jobs)": release.released(),
        "cap on them": release.cap,
        "privacy": model.settings.privacy,
        "features have differential privacy (unit record)": _promise(model.noise),
    }


def _promise(noise: Document) -> str:
    """Of the model alone: predictions read rows again, without noise."""
    if noise.get("epsilon", "infinity") == "infinity" or noise["unit"] == "label":
        return "no"
    observers = ", ".join(noise["observers"])
    return f"epsilon {noise['epsilon']:g} (nats, replace-one), delta {noise['delta']:g}, of this training, against {observers}"
