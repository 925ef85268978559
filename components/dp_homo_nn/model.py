"""What a training leaves behind: a summary, the model as JSON, and predictions that each party makes with it."""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.charges import home_of
from ..common.federation import Context, Document
from ..common.frames import TEST_SET, DataFrame, feature_blocks, prediction_frame_of, require_rows, with_details
from ..common.preflight import Refusal
from ..common.units import Units
from ..protocols.noisy_rounds.party_tables import POOLED, in_words, promised_facts
from ..protocols.noisy_rounds.terms import RoundTerms
from ..protocols.noisy_rounds.training import RoundsRun
from .agreement import HomoNNAgreement, check_module
from .models.registry import ModelSource, model_inputs
from .models.spec import ModelSpec
from .round_terms import BY_PARTY, noise_of_mean
from .settings import TrainSettings

TRUSTED = {
    "secure_sum": "the server sees sums of all parties only",
    "local": "the server sees every party's noisy message",
    "shuffle": "the server sees shuffled messages of records, the shuffler who sent them but not what",
}
MECHANISMS = {
    "secure_sum": "clipped sums of Poisson samples, discrete Gaussian shares, pairwise masks",
    "local": "clipped sums of Poisson samples, discrete Gaussian noise at each party",
    "shuffle": "Duchi's l2 sampler on one clipped gradient per record and epoch, shuffled",
}
MOST_NOISE = 0.5
"""Of which models still told classes apart that differ plainly."""


@dataclass
class HomoNNCourse(RoundsRun):
    """How a training went, as everybody is told."""

    contributions: str = "not released"
    problem: str | None = None

    def to_json(self) -> Document:
        return {**super().to_json(), "contributions for adaptive noise": self.contributions}


def summary_of(agreement: HomoNNAgreement, course: HomoNNCourse) -> Document:
    """What FATE-Board draws as a table: public facts, the same at all parties. No loss, which would be another release."""
    settings, terms, promise = agreement.settings, agreement.terms, agreement.promise
    facts = {
        "mechanism": MECHANISMS[terms.aggregation],
        "aggregation": f"{terms.aggregation}: {TRUSTED[terms.aggregation]}",
        "model": f"{settings.model['name']}, {terms.dimension} parameters",
        **promised_facts(promise, terms.rounds),
    }
    for party, epsilons in promise.get(BY_PARTY, {}).items():
        facts[f"epsilon of party {party}"] = ", ".join(
            f"{each:.6g} {in_words(name)}" for name, each in epsilons.items()
        )
    if terms.epsilon0 is None:
        facts["noise over the clip"] = terms.noise_multiplier
    else:
        facts["epsilon0 of one message"] = terms.epsilon0
        facts[POOLED] = promise[POOLED]
    return {
        **facts,
        "noise spread": settings.noise_spread,
        "clip": terms.clips[0] if len(terms.clips) == 1 else f"{terms.clips[0]:g} to {terms.clips[-1]:g}",
        "optimizer": _optimizer(settings.optimizer or {}),
        "part of the rounds whose weights are averaged": settings.averaging,
        "clip follows the quantile": terms.clip_quantile or "no",
        "factors of the classes, before the clip": _listed(settings.class_factors),
        "larger steps for the class weights": settings.step_factor,
        "records of all parties": settings.records,
        "sampling probability": terms.sampling_probability,
        "rounds planned": terms.rounds,
        **course.to_json(),
        "parties with data": terms.clients,
        "drop-outs and colluding parties tolerated": terms.max_dropouts,
        "what outweighs the data": _outweighing(terms, settings),
        "warning": terms.delta_warning() or "none",
    }


def _outweighing(terms: RoundTerms, settings: TrainSettings) -> str:
    """One line from public numbers: whether noise decides more than records do, whose gradients are no longer than the clip."""
    noise = noise_of_mean(terms) * settings.step_factor * math.sqrt(terms.dimension / terms.rounds)
    if noise < MOST_NOISE:
        return "nothing"
    return f"the noise: that of the mean over all rounds is {noise:.2g} clips long, all {terms.dimension} parameters together"


def _optimizer(optimizer: Mapping[str, Any]) -> str:
    params = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in optimizer["optimizer_params"].items()
    )
    return f"{optimizer['method']}: {params}"


def _listed(factors: Sequence[float] | None) -> str:
    return ", ".join(f"{factor:g}" for factor in factors) if factors else "none"


WEIGHT_TYPE = "<f4"


def to_json(
    spec: ModelSpec, weights: np.ndarray, header: list[str], settings: TrainSettings, privacy: Document
) -> Document:
    """The model, the same at every data party; no pickle in it. Weights (d,) are kept as float32, as computed with."""
    estimator = {
        "model": {"name": spec.name, "features": spec.features, "classes": spec.classes, "params": spec.params},
        "param": {
            "weights": base64.b64encode(weights.astype(WEIGHT_TYPE).tobytes()).decode("ascii"),
            "dtype": "float32, little-endian, base64",
            "size": len(weights),
        },
        "header": list(header),
        "units": Units.declared(settings.units, header).to_json(),
        "loss": settings.loss,
    }
    meta = {**settings.to_json(), "labels": list(range(spec.classes)), "privacy": privacy}
    return {"data": {"estimator": estimator}, "meta": meta}


def spec_of(document: Document) -> ModelSpec:
    """The specification of a model; refuses the document of a party that keeps none."""
    estimator = document["data"]["estimator"]
    if estimator is None:
        raise Refusal(f"The {document['meta']['role']} of the training holds no model; predict at guest and hosts.")
    return ModelSpec(**estimator["model"])


def units_of(document: Document) -> Units:
    """Of the columns; a model of an earlier version takes them as they are."""
    estimator = document["data"]["estimator"]
    return Units.from_json(estimator.get("units"), len(estimator["header"]))


def weights_of(document: Document) -> np.ndarray:
    """float64 (d,), in the order of the module's parameters."""
    param = document["data"]["estimator"]["param"]
    weights = np.frombuffer(base64.b64decode(param["weights"]), dtype=WEIGHT_TYPE).astype(np.float64)
    if len(weights) != param["size"]:
        raise ValueError(f"The model holds {len(weights)} weights and says {param['size']}; its file is damaged.")
    return weights


def predict_party(ctx: Context, document: Document, frame: DataFrame) -> DataFrame:
    """The prediction frame of a party's own test table, in FATE's format; no message, no cost."""
    spec = spec_of(document)
    check_module(home_of(ctx).policy, spec.name)
    require_rows(frame)
    if list(frame.schema.columns) != document["data"]["estimator"]["header"]:
        raise Refusal("The table's columns must be those of the model in their order.")
    units_of(document).check(frame)
    return prediction_frame(ctx, frame, document, TEST_SET)


def prediction_frame(ctx: Context, frame: DataFrame, document: Document, dataset_type: str) -> DataFrame:
    """label (if any), predict_score, predict_result, predict_detail, type: as FATE's Evaluation takes them.

    The score is P(label 1) of two classes, and the largest probability of more.
    """
    source = ModelSource.of(spec_of(document), document["data"]["estimator"]["loss"], home_of(ctx).policy.model_modules)
    weights, units = weights_of(document), units_of(document)
    classes, threshold = (document["meta"][name] for name in ("labels", "threshold"))

    def scored(features: np.ndarray) -> tuple[list, list, list]:
        probabilities = source.gradients().scores(weights, model_inputs(source.spec(), units.applied(features)))
        if len(classes) == 2:
            scores, results = probabilities[:, 1], probabilities[:, 1] > threshold
        else:
            scores, results = probabilities.max(axis=1), probabilities.argmax(axis=1)
        return with_details(scores, results.astype(int), classes, probabilities)

    return prediction_frame_of(frame, feature_blocks(frame).mapValues(scored), dataset_type)
