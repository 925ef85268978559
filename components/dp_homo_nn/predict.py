"""Prediction: each data party scores its own rows with the model that all of them hold; no message, no cost."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import numpy as np

from ..common.charges import home_of
from ..common.frames import DataFrame, check_features, feature_blocks, prediction_frame_of, require_rows
from ..protocols.federation import Context
from .agreement import check_module
from .model import spec_of, weights_of
from .models.builtin import model_inputs
from .models.registry import ModelSource

logger = logging.getLogger(__name__)


def predict_party(ctx: Context, document: dict, frame: DataFrame) -> DataFrame:
    """The prediction frame of a test table, in FATE's format."""
    from fate.ml.utils.predict_tools import TEST_SET

    spec = spec_of(document)
    check_module(home_of(ctx).policy, spec.name)
    require_rows(frame)
    if list(frame.schema.columns) != document["data"]["estimator"]["header"]:
        raise ValueError("The model was trained on other columns than this table has; names and order must agree.")
    check_features(frame)
    return prediction_frame(ctx, frame, document, TEST_SET)


def prediction_frame(ctx: Context, frame: DataFrame, document: dict, dataset_type: str) -> DataFrame:
    """label (if any), predict_score, predict_result, predict_detail, type: as FATE's Evaluation takes them.

    The score is P(label 1) of two classes, and the largest probability of more.
    """
    source = ModelSource.of(spec_of(document), document["data"]["estimator"]["loss"], home_of(ctx).policy.model_modules)
    score = partial(
        _scored,
        source=source,
        weights=weights_of(document),
        classes=document["meta"]["labels"],
        threshold=document["meta"]["threshold"],
    )
    scored = prediction_frame_of(frame, feature_blocks(frame).mapValues(score), dataset_type)
    logger.info("%d rows scored", frame.shape[0])
    return scored


def _scored(
    features: np.ndarray, source: ModelSource, weights: np.ndarray, classes: Sequence[int], threshold: float
) -> tuple[list, list, list]:
    """Scores, results and details of a block: three lists."""
    from fate.ml.utils.predict_tools import predict_detail_dict_to_str

    probabilities = source.gradients().scores(weights, model_inputs(source.spec(), features))
    if len(classes) == 2:
        scores, results = probabilities[:, 1], probabilities[:, 1] > threshold
    else:
        scores, results = probabilities.max(axis=1), probabilities.argmax(axis=1)
    details = [predict_detail_dict_to_str(dict(zip(classes, row))) for row in probabilities.tolist()]
    return scores.tolist(), results.astype(int).tolist(), details
