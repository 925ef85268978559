"""Measures of a credit-risk model: for each class, and over all thresholds; label 1 is Fully Paid, 0 is Charged Off."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import numpy

from examples.credit_risk.homo_lr import HomoLRSettings
from fate_dp.data_prep.lending_club.columns import FEATURES, GROUPS, LABEL
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import Division, PartyRows, class_counts, to_public_units
from fate_dp.data_prep.over_sampling import OverSampling, over_sample
from fate_dp.privacy.validation import InvalidArgument, is_finite

if TYPE_CHECKING:
    import pandas
    from numpy.typing import ArrayLike


CLASS_MEASURES = tuple(
    f"{name}_{measure}" for name in ("charged_off", "fully_paid") for measure in ("precision", "recall", "f1")
)
MEASURES = ("auc", "ks", "specificity", "accuracy", *CLASS_MEASURES)


def class_measures(labels: ArrayLike, scores: ArrayLike, threshold: float = 0.5) -> dict[str, float]:
    """Every one of MEASURES, for labels 0 or 1 and scores of class 1, both of shape (n,).

    A score above ``threshold`` counts as Fully Paid. Specificity is the share of the Charged Off that are recognised.
    A precision without any row predicted to be of that class is 0. Raises InvalidArgument unless both classes occur.
    """
    from sklearn.metrics import precision_recall_fscore_support, roc_auc_score, roc_curve

    labels, scores = _checked(labels, scores, threshold)
    predicted = (scores > threshold).astype(int)
    per_class = precision_recall_fscore_support(labels, predicted, labels=[0, 1], zero_division=0)[:3]
    false_positive, true_positive, _ = roc_curve(labels, scores)
    charged_off, fully_paid = zip(*per_class)
    found = {
        "auc": roc_auc_score(labels, scores),
        "ks": abs(true_positive - false_positive).max(),
        "specificity": charged_off[1],
        "accuracy": (predicted == labels).mean(),
        **dict(zip(CLASS_MEASURES, (*charged_off, *fully_paid))),
    }
    return {name: float(value) for name, value in found.items()}


def _checked(labels: ArrayLike, scores: ArrayLike, threshold: float) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Labels as whole numbers and scores as floats, after every refusal."""
    labels, scores = numpy.asarray(labels), numpy.asarray(scores, dtype=float)
    if labels.ndim != 1 or labels.shape != scores.shape:
        raise InvalidArgument.of("shapes of labels and scores", (labels.shape, scores.shape), "(n,) for both")
    if not is_finite(threshold):
        raise InvalidArgument.of("The threshold", threshold, "a number")
    if labels.dtype.kind not in "biuf":
        raise InvalidArgument(f"The labels are of type {labels.dtype}; the numbers 0 and 1 are allowed.")
    if set(numpy.unique(labels)) != {0, 1}:
        shown = ", ".join(str(value) for value in numpy.unique(labels)[:5]) or "none"
        raise InvalidArgument(f"The labels are {shown}; both 0 and 1 must occur, and nothing else.")
    if not numpy.isfinite(scores).all():
        raise InvalidArgument(f"Row {int(numpy.isfinite(scores).argmin())} has a score that is no finite number.")
    return labels.astype(int), scores


# Means over repeated runs with Student-t confidence intervals.


def interval(values: Iterable[float], confidence: float = 0.95) -> dict:
    """``mean``, the ends ``low`` and ``high`` of its confidence interval, and the ``values`` themselves.

    The ends are mean -+ t * s / sqrt(n), with the quantile of Student's t at n - 1 degrees of freedom. A single value
    says nothing about spread: both ends are None. The interval has its confidence for independent, normal values;
    repeated splits of the same rows share most of them, so that theirs is somewhat too narrow for new rows.
    """
    from scipy.stats import t

    values = list(values)
    for value in values:
        if not is_finite(value):
            raise InvalidArgument(f"The value {value!r} is among those of an interval; finite numbers are allowed.")
    if not is_finite(confidence) or not 0 < confidence < 1:
        raise InvalidArgument.of("The confidence", confidence, "a number between 0 and 1")
    if not values:
        raise InvalidArgument("An interval needs at least one value; there is none.")
    values = [float(value) for value in values]
    mean, count = fmean(values), len(values)
    if count == 1:
        return {"mean": mean, "low": None, "high": None, "values": values}
    reach = float(t.ppf((1 + confidence) / 2, count - 1)) * stdev(values) / math.sqrt(count)
    return {"mean": mean, "low": mean - reach, "high": mean + reach, "values": values}


def paired_difference(first: dict, second: dict, confidence: float = 0.95) -> dict:
    """The interval of ``first`` minus ``second``, two results of `interval` whose values belong together one by one."""
    if len(first["values"]) != len(second["values"]):
        raise InvalidArgument(
            f"A paired difference needs as many values on both sides; there are {len(first['values'])} "
            f"and {len(second['values'])}."
        )
    return interval([one - other for one, other in zip(first["values"], second["values"])], confidence)


def above(difference: dict, threshold: float) -> bool | None:
    """Whether a difference exceeds a threshold: None where its interval does not tell."""
    if difference["low"] is None or difference["low"] <= threshold < difference["high"]:
        return None
    return difference["low"] > threshold


def inside(difference: dict, reach: float) -> bool | None:
    """Whether a difference lies within -reach and reach: None where its interval does not tell."""
    if difference["low"] is None:
        return None
    if -reach <= difference["low"] and difference["high"] <= reach:
        return True
    return False if difference["low"] > reach or difference["high"] < -reach else None


# The arithmetic of FATE 2.2's HomoLR in one process: the same model without servers, for repeats over many seeds.
#
# In every epoch each party takes one optimiser step on the gradient of its own mean loss over all its rows, with an
# optimiser state of its own, and the parameters are then averaged with the parties' numbers of rows as weights. Synthetic
# rows count like others there: over-sampling gives a party whose classes are less balanced more weight than its real rows
# would. Two facts about FATE are part of it: gradients are clipped to an l2 norm of 1 (the default of the trainer below
# HomoLR), and the penalty goes through the optimiser as weight decay, so that it reaches the bias, too, and is not in the
# loss. Parameters and gradients are 32-bit, averages 64-bit. One party alone gives the model of that party, or of pooled
# rows.

MAX_GRADIENT = 1.0
ORDERS = 4


@dataclass(frozen=True)
class Trained:
    """``weights`` (m,), ``bias`` and ``losses``: the mean cross-entropy over all rows before each step."""

    weights: numpy.ndarray
    bias: float
    losses: tuple[float, ...]

    def scores(self, features: ArrayLike) -> numpy.ndarray:
        """Probabilities (n,) of label 1 for features (n, m)."""
        from scipy.special import expit

        return expit(numpy.asarray(features, dtype=float) @ self.weights + self.bias)


def train(parties: Sequence[tuple], settings: HomoLRSettings = HomoLRSettings()) -> Trained:
    """Train over ``parties``, a list of (features (n, m), labels (n,) of 0 and 1); raises InvalidArgument."""
    clients = [_Client(features, labels, settings) for features, labels in _checked_features(parties, settings)]
    rows = numpy.array([client.rows for client in clients])
    shares, losses = rows / rows.sum(), []
    with one_thread():
        for _ in range(settings.epochs):
            losses.append(float(shares @ [client.step() for client in clients]))
            average = shares @ [client.parameters() for client in clients]
            for client in clients:
                client.accept(average)
    # What every party holds is the average at the clients' precision.
    *weights, bias = clients[0].parameters()
    return Trained(numpy.array(weights), float(bias), tuple(losses))


def spread_by_order(parties: Sequence[tuple], settings: HomoLRSettings, test: numpy.ndarray) -> float:
    """The largest range of a test row's score over trainings on the same rows in ORDERS orders; raises InvalidArgument.

    FATE shuffles rows. Where classes are balanced the bias' first gradient is nothing but the rounding of a sum, which
    depends on their order, and RMSprop makes a step of it, which only later epochs take back.
    """
    scores = []
    for number in range(ORDERS):
        generator = numpy.random.default_rng(number)
        orders = [generator.permutation(len(labels)) for _, labels in parties]
        shuffled = [(features[order], labels[order]) for (features, labels), order in zip(parties, orders)]
        scores.append(train(shuffled, settings).scores(test))
    return float(numpy.ptp(scores, axis=0).max())


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order on every machine; and 37 columns give several threads little to do but wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Client:
    """One party: its rows, its copy of the parameters (the bias last), and its optimiser with a state of its own."""

    def __init__(self, features: numpy.ndarray, labels: numpy.ndarray, settings: HomoLRSettings) -> None:
        import torch

        self.rows = len(labels)
        self._features = torch.tensor(features, dtype=torch.float32)
        self._labels = torch.tensor(labels, dtype=torch.float32)
        self._parameters = torch.zeros(features.shape[1] + 1, requires_grad=True)
        optimizers = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD}
        self._optimizer = optimizers[settings.optimizer](
            [self._parameters], lr=settings.learning_rate, weight_decay=settings.alpha
        )

    def step(self) -> float:
        """One step on all rows; returns the mean loss before it."""
        import torch

        self._optimizer.zero_grad()
        predicted = torch.sigmoid(self._features @ self._parameters[:-1] + self._parameters[-1])
        loss = torch.nn.functional.binary_cross_entropy(predicted, self._labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([self._parameters], MAX_GRADIENT)
        self._optimizer.step()
        return loss.item()

    def parameters(self) -> numpy.ndarray:
        """Weights and then the bias, (m + 1,)."""
        return self._parameters.detach().numpy().astype(float)

    def accept(self, average: numpy.ndarray) -> None:
        """Go on from the average of all parties."""
        import torch

        with torch.no_grad():
            self._parameters.copy_(torch.from_numpy(average))


def _checked_features(parties: Sequence[tuple], settings: HomoLRSettings) -> list:
    """The parties' rows as arrays, after every refusal."""
    arrays = [(numpy.asarray(features, dtype=float), numpy.asarray(labels)) for features, labels in parties]
    if not arrays:
        raise InvalidArgument("Training needs at least one party; there is none.")
    columns = arrays[0][0].shape[1:]
    for number, (features, labels) in enumerate(arrays, start=1):
        if features.ndim != 2 or labels.shape != features.shape[:1] or not labels.size:
            shapes = features.shape, labels.shape
            allowed = "(n, m) and (n,) with n of at least 1"
            raise InvalidArgument.of(f"shapes of features and labels of party {number}", shapes, allowed)
        if features.shape[1:] != columns or columns[0] < 1:
            allowed = f"{columns[0]}, as at party 1, and at least 1"
            raise InvalidArgument.of(f"number of features of party {number}", features.shape[1], allowed)
        if len(labels) > settings.batch_size:
            raise InvalidArgument(
                f"Party {number} has {len(labels)} rows, more than the batch_size of {settings.batch_size}; "
                "here every step is on all rows."
            )
        if not (abs(features) <= numpy.finfo(numpy.float32).max).all():
            raise InvalidArgument(f"Party {number} has a feature value that is no finite 32-bit number.")
        if not numpy.isin(labels, (0, 1)).all():
            raise InvalidArgument(f"Party {number} has a label other than 0 and 1.")
    return arrays


# The models of one split of the loans, all judged on the same held-out rows in their natural balance of classes.

CENTRAL_SCIKIT, CENTRAL_WEIGHTED, CENTRAL = "central_scikit", "central_weighted", "central"
FEDERATED, ALONE = "federated", "alone"


@dataclass(frozen=True, eq=False)
class SplitModels:
    """``scores`` (n,) of the test rows by model name and their ``labels`` (n,); what was ``trained`` by HomoLR's
    arithmetic; and the rows per class of the pooled training rows after over-sampling."""

    labels: numpy.ndarray
    scores: dict[str, numpy.ndarray]
    trained: dict[str, Trained]
    pooled_after: dict[str, int]


def fit_models(division: Division, options: PrepOptions, settings: HomoLRSettings) -> SplitModels:
    """Train centrally (by scikit-learn and by HomoLR's arithmetic), every party alone, and all together.

    One central model has class weights and no synthetic rows: it shows what over-sampling itself costs or gains.
    """
    test, labels = numbers(division.test)
    pooled, parties = pooled_rows(division, options), party_rows(division)
    plain = to_public_units(division.training.frame)
    trained = {
        CENTRAL: train([numbers(pooled)], settings),
        **{name: train([rows], settings) for name, rows in parties.items()},
        FEDERATED: train(list(parties.values()), settings),
    }
    scores = {
        CENTRAL_SCIKIT: scikit_scores(numbers(pooled), test),
        CENTRAL_WEIGHTED: scikit_scores(numbers(plain), test, class_weight="balanced"),
        **{name: model.scores(test) for name, model in trained.items()},
    }
    return SplitModels(labels, scores, trained, class_counts(pooled[LABEL]))


def party_rows(division: Division) -> dict[str, tuple]:
    """What each party trains on, by the name of the model that it would train alone."""
    return {alone_name(party): numbers(party.training) for party in division.parties}


def alone_name(party: PartyRows) -> str:
    """The name of the model of one party alone."""
    return f"{ALONE}_{party.role}_{party.party_id}"


def pooled_rows(division: Division, options: PrepOptions) -> pandas.DataFrame:
    """All training rows in one place, over-sampled there, in public units."""
    frame = division.training.frame
    if options.over_sampling is not None and options.over_sampling != "none":
        method = OverSampling(options.over_sampling, options.neighbours)
        frame, _ = over_sample(division.training, method, groups=GROUPS, seed=options.seed, tag="pooled")
    return to_public_units(frame)


def numbers(frame: pandas.DataFrame) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Features (n, 37) in the order of the study, and labels (n,)."""
    return frame[list(FEATURES)].to_numpy(dtype=float), frame[LABEL].to_numpy(dtype=int)


def scikit_scores(
    training: tuple[numpy.ndarray, numpy.ndarray], test: numpy.ndarray, **options: object
) -> numpy.ndarray:
    """Scores (k,) of ``test`` under scikit-learn's logistic regression, its own defaults besides ``options``."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    # With 37 columns several threads mostly wait for each other.
    with threadpool_limits(1):
        return LogisticRegression(max_iter=1000, **options).fit(*training).predict_proba(test)[:, 1]
