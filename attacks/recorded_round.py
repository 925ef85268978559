"""One round of a horizontal training from what its server received, as its recorder kept it, and two attacks on that.

The view of the arbiter of ``dp_homo_nn`` holds the terms that all agreed on, the start weights, and what each party sent in
the first round, which adds up to a mean gradient. Later rounds start from weights
that the server computes, and are not read here; nor is a round whose messages were shuffled, or for which records were drawn.

*Threat model:* the server keeps to the protocol. `ones_in_round` knows the model and how many records there are; the
*informed server* of differential privacy (`informed_labels`) moreover knows every record, and of one of them all but its
label. No real server knows more, so that what it finds bounds what any finds.

*What they cannot do:* both need a model with one output that ends in a fully connected layer; the count believes that
nothing was clipped.
"""

import math
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from torch import nn

from fate_dp.components.common.federation import Federation
from fate_dp.components.common.vocabulary import with_new_names
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import ModelSource, spec_of_job
from fate_dp.components.dp_homo_nn.models.spec import dimension, flat_weights, load_flat
from fate_dp.components.dp_homo_nn.round_terms import round_terms, settled
from fate_dp.components.dp_homo_nn.settings import ADAPTIVE_KEYS, TrainSettings, given_settings
from fate_dp.components.protocols.noisy_rounds.account import noise_of
from fate_dp.components.protocols.noisy_rounds.aggregation import Local, SecureSum
from fate_dp.components.protocols.noisy_rounds.terms import LOCAL, RECORD, SECURE_SUM, RoundTerms
from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.validation import InvalidArgument

from .recorded_view import RecordedView

Array = NDArray[np.float64]
AGREED, START_WEIGHTS, READY, MESSAGE = "verdict", "start_weights", "ready", "message"
MAX_EXPONENT = 700.0
"""Of exp in floating point, about."""
PROBES = 64
"""Records of noise on which the mean output of a model is estimated."""
TWO_SIDED = 1.959964
"""Standard deviations of a normal law within which 95 % of it lies."""


@dataclass(frozen=True, eq=False)
class RecordedRound:
    """The first round of a training, as its server knows it.

    Attributes:
        module: the public model at the round's start weights, in float64; ``features`` are those of one record.
        received: mean gradient of the round, float64 (d,), in the order of the module's parameters.
        epsilon: that all rounds promise whoever's label is changed: replace-one, in nats at ``delta``.
    """

    module: nn.Module = field(repr=False)
    received: Array = field(repr=False)
    features: int
    terms: RoundTerms
    epsilon: float
    delta: float

    @property
    def records(self) -> int:
        """Size of the batch, which the server knows."""
        return round(self.terms.batch_size)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on each number that was received."""
        terms = self.terms
        senders = terms.clients - terms.max_dropouts if terms.aggregation == SECURE_SUM else 1
        return noise_of(terms) * terms.clips[0] * math.sqrt(terms.clients / senders) / terms.batch_size

    @property
    def gradients(self) -> RecordGradients:
        """Of single records at the round's start weights, in float32 as the parties compute them."""
        return RecordGradients(deepcopy(self.module).float())

    @property
    def start(self) -> Array:
        """The weights that the round started from, float64 (d,)."""
        return flat_weights(self.module)

    @property
    def bound(self) -> float:
        """The largest probability with which anybody who sees the training names one record's label, both being as likely.

        Whoever names it right with probability p of either label is wrong with 1 - p of the other one, so that
        p <= exp(epsilon) (1 - p) + delta: p is at most (exp(epsilon) + delta) / (1 + exp(epsilon)).
        """
        odds = math.exp(-min(self.epsilon, MAX_EXPONENT))
        return min(1.0, (1 + self.delta * odds) / (1 + odds))


def recorded_round(view: RecordedView) -> RecordedRound:
    """The round in a view of an arbiter of ``dp_homo_nn``; raises InvalidArgument where none can be read, and why."""
    agreed = next((each["terms"] for each in view.named(AGREED) if "parameters" in (each["terms"] or {})), None)
    starts, sent = view.named(START_WEIGHTS), [each for each in view.messages if each.name == MESSAGE]
    if agreed is None or not starts or not sent:
        raise InvalidArgument(
            f"The view of {view.task.name} holds no whole round: no terms, start weights or messages."
        )
    settings = _settings_of(agreed["parameters"])
    if settings.aggregation not in (SECURE_SUM, LOCAL) or settings.privacy != RECORD or settings.local_steps > 1:
        raise InvalidArgument(
            f"The training of {view.task.name} is of aggregation {settings.aggregation}, privacy {settings.privacy} and "
            f"{settings.local_steps} local steps; rounds of secure_sum or local, privacy record and one step are read."
        )
    if settings.batch_size < settings.records:
        raise InvalidArgument(
            f"Rounds of {view.task.name} draw some {settings.batch_size:g} of {settings.records} records by coins; rounds of all "
            "records are read."
        )
    first = [each for each in sent if each.tag == sent[0].tag]
    ready = {each.sender for each in view.messages if each.name == READY}
    if len(first) < len(ready):
        raise InvalidArgument(f"{len(first)} of {len(ready)} parties sent in the first round; rounds of all are read.")
    lost = next((each.left_out for each in first if each.left_out), None)
    if lost is not None:
        raise InvalidArgument(f"The first round of {view.task.name} was not kept: {lost}.")
    clients = [each.sender for each in first]
    terms = round_terms(settings, clients, agreed["dimension"]).with_noise(agreed["noise_multiplier"])
    settings, terms = settled(settings, terms)
    mean = _mean_of([each.content for each in first], terms)
    features = _features_of(settings, terms.dimension)
    module = _module(settings, features).double().eval()
    load_flat(module, starts[0])
    return RecordedRound(module, mean, features, terms, *_promised(agreed["promise"]))


def _settings_of(parameters: dict[str, Any]) -> TrainSettings:
    """Views that were recorded by earlier releases have further keys of ``adaptive``, and other names."""
    known = {name: value for name, value in parameters["adaptive"].items() if name in ADAPTIVE_KEYS}
    return given_settings(with_new_names("dp_homo_nn", {**parameters, "adaptive": known}))


def _promised(promise: dict[str, Any]) -> tuple[float, float]:
    """(epsilon, delta) under replace-one; of add-or-remove alone, one record out and another one in."""
    epsilons, delta = promise["epsilon"], float(promise["delta"])
    if REPLACE_ONE in epsilons:
        return float(epsilons[REPLACE_ONE]), delta
    epsilon = float(epsilons[promise["relation"]])
    return 2 * epsilon, min(1.0, (1 + math.exp(min(epsilon, MAX_EXPONENT))) * delta)


def _mean_of(messages: list[bytes], terms: RoundTerms) -> Array:
    """As the server adds up what arrived."""
    parties = [("client", str(place)) for place in range(terms.clients)]
    federation = Federation(parties[0], tuple(parties[1:]), ("server", ""), None)
    kind = SecureSum if terms.aggregation == SECURE_SUM else Local
    return np.asarray(kind(terms, federation).decode(messages, terms.clips[0]).gradient)


def _module(settings: TrainSettings, features: int) -> nn.Module:
    return ModelSource.of(spec_of_job(settings, features), settings.loss, {}, settings.class_factors).module()


def _features_of(settings: TrainSettings, size: int) -> int:
    """How many features a model of so many weights has; the server is not told, but weights grow with them evenly."""
    name = settings.model["name"]
    if name not in ("logistic_regression", "mlp"):
        raise InvalidArgument.of("model", name, "logistic_regression or mlp, whose rounds are read")
    one, two = (dimension(_module(settings, features)) for features in (1, 2))
    features, rest = divmod(size - one, two - one)
    if rest:
        raise InvalidArgument(f"No {name} of these settings has {size} weights.")
    return features + 1


@dataclass(frozen=True)
class Count:
    """How many records of the round have label 1, as the server estimates it, with its 95 % interval."""

    ones: float
    low: float
    high: float
    records: int


def ones_in_round(found: RecordedRound) -> Count:
    """The number of labels 1 from the gradient of the last layer's bias, the last number received.

    That is the mean probability of label 1 less its share of the labels; the first is estimated on noise.

    *Paper:* B. Zhao, K. R. Mopuri, H. Bilen, "iDLG: improved deep leakage from gradients", arXiv 2001.02610 (2020).
    """
    probes = torch.rand(PROBES, found.features, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        expected = float(expit(found.module(probes).numpy()).mean())
    records, spread = found.records, TWO_SIDED * found.deviation * found.records
    ones = float(min(records, max(0, round(records * (expected - float(found.received[-1]))))))
    return Count(ones, max(0.0, ones - spread), min(float(records), ones + spread), records)


@dataclass(frozen=True, eq=False)
class InformedLabels:
    """What the informed server names for each record, asked one at a time: ``labels`` (n,), 0 or 1.

    ``odds`` (n,) are natural logarithms of how much likelier what was received is for label 1 than for 0. By the law of
    the noise the ``expected_share`` of right labels is the mean over records of the normal law at half the distance of
    a record's two gradients, in standard deviations.
    """

    labels: NDArray[np.int64]
    odds: Array = field(repr=False)
    expected_share: float


def informed_labels(found: RecordedRound, features: Array, labels: NDArray[np.int64]) -> InformedLabels:
    """Each record's label, by a server that knows all features and all other labels, and what it received.

    Of the two gradients that the record can have given it takes the nearer one; where noise is Gaussian and both labels
    are as likely, nobody names it right more often. ``features``, float64 (n, m), and true ``labels`` (n,) are of all
    records of the round; each guess uses all labels but its own.
    """
    count, expected = len(labels), (found.records, found.features)
    if features.shape != expected:
        raise InvalidArgument(f"The truth has records of shape {features.shape} but the round has {expected}.")
    gradients = found.gradients
    rows = [
        _clipped(gradients.rows(found.start, features.astype(np.float32), np.full(count, label)), found.terms.clips[0])
        for label in (0, 1)
    ]
    given = np.where(labels[:, None] == 1, rows[1], rows[0])
    own = found.received * found.records - (given.sum(axis=0) - given)
    # Of a whole sum, where the round has a mean.
    deviation = found.deviation * found.records
    odds = (np.sum((own - rows[0]) ** 2, axis=1) - np.sum((own - rows[1]) ** 2, axis=1)) / (2 * deviation**2)
    apart = np.linalg.norm(rows[1] - rows[0], axis=1) / (2 * deviation)
    return InformedLabels((odds > 0).astype(np.int64), odds, float(ndtr(apart).mean()))


def _clipped(rows: Array, clip: float) -> Array:
    norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    clipped: Array = rows * np.minimum(1.0, clip / np.maximum(norms, np.finfo(np.float64).tiny))
    return clipped
