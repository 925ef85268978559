"""What a training leaves behind: a summary, the model as JSON, and predictions that each party makes with it."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from fate_dp.privacy.bins import TableBins

from ..common import frames
from ..common.federation import Context
from ..common.frames import TEST_SET, DataFrame
from ..common.preflight import Refusal
from ..protocols.noisy_rounds.party_tables import promised_facts
from .agreement import NOT_NUMERIC, TreesAgreement
from .boosting import GrownBatch, scores_of
from .trees import Batch

TRUSTED = {
    "secure_sum": "the server sees sums of all parties only",
    "local": "the server sees every party's noisy sums",
}
MECHANISMS = {
    "secure_sum": "sums of gradients and curvatures by leaf, discrete Gaussian shares, pairwise masks",
    "local": "sums of gradients and curvatures by leaf, discrete Gaussian noise at each party",
}


def summary_of(agreement: TreesAgreement, course: dict) -> dict:
    """What FATE-Board draws as a table: public facts, the same at all parties. No loss, which would be another release."""
    settings, terms, promise = agreement.settings, agreement.terms, agreement.promise
    return {
        "mechanism": MECHANISMS[terms.aggregation],
        "aggregation": f"{terms.aggregation}: {TRUSTED[terms.aggregation]}",
        **promised_facts(promise, terms.rounds),
        "noise over what one record moves": terms.noise_multiplier,
        "trees": settings.trees,
        "depth": settings.depth,
        "learning rate": settings.learning_rate,
        "columns": len(agreement.bins.columns),
        "records of all parties": settings.records,
        "rounds planned": terms.rounds,
        **course,
        "parties with data": terms.clients,
        "drop-outs and colluding parties tolerated": terms.max_dropouts,
        "warning": terms.delta_warning() or "none",
    }


def to_json(agreement: TreesAgreement, batches: Sequence[GrownBatch], importance: list[float], privacy: dict) -> dict:
    """The model, the same at every data party; no pickle in it."""
    bins, settings = agreement.bins, agreement.settings
    estimator = {
        "bins": bins.to_wire(),
        "batches": [_batch_to_json(batch) for batch in batches],
        "importance": dict(zip(bins.names, importance)),
        "header": list(bins.names),
    }
    return {"data": {"estimator": estimator}, "meta": {**settings.to_json(), "labels": [0, 1], "privacy": privacy}}


def _batch_to_json(batch: GrownBatch) -> dict[str, object]:
    right = batch.splits.right
    return {
        "columns": batch.splits.columns.tolist(),
        "right": base64.b64encode(np.packbits(right).tobytes()).decode("ascii"),
        "bins": right.shape[-1],
        "values": batch.values.tolist(),
    }


def _batch_from_json(written: dict[str, Any]) -> GrownBatch:
    columns = np.array(written["columns"], dtype=np.int64)
    shape = (*columns.shape, written["bins"])
    bits = np.unpackbits(np.frombuffer(base64.b64decode(written["right"]), dtype=np.uint8), count=int(np.prod(shape)))
    return GrownBatch(Batch(columns, bits.astype(bool).reshape(shape)), np.array(written["values"], dtype=np.float64))


def model_of(document: dict) -> tuple[TableBins, list[GrownBatch]]:
    """Bins and batches of a model; refuses the document of a party that keeps none."""
    estimator = document["data"]["estimator"]
    if estimator is None:
        raise Refusal("The arbiter of the training holds no model; predict at guest and hosts.")
    return TableBins.from_wire(estimator["bins"]), [_batch_from_json(each) for each in estimator["batches"]]


def predict_party(ctx: Context, document: dict, frame: DataFrame) -> DataFrame:
    """The prediction frame of a party's own test table, in FATE's format; no message, no cost."""
    bins, _ = model_of(document)
    frames.require_rows(frame)
    if tuple(frame.schema.columns) != bins.names:
        raise Refusal("The table's columns must be those of the model in their order.")
    frames.require_numeric(frame, NOT_NUMERIC)
    return prediction_frame(frame, document, TEST_SET)


def prediction_frame(frame: DataFrame, document: dict, dataset_type: str) -> DataFrame:
    """label (if any), predict_score, predict_result, predict_detail, type: as FATE's Evaluation takes them."""
    (bins, batches), threshold = model_of(document), document["meta"]["threshold"]

    def scored(features: np.ndarray) -> tuple[list, list, list]:
        return frames.scored_by_one(expit(scores_of(batches, bins.codes(features))), threshold)

    return frames.prediction_frame_of(frame, frames.feature_blocks(frame).mapValues(scored), dataset_type)
