"""The guest's prediction frame in FATE's format, made of joint scores, and what may stand in it as true labels."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.frames import label_blocks, prediction_frame_of, replace_labels
from ..common.provenance import LabelPrivacy
from .label_figures import PREDICTED_ROWS, figures
from .preflight import show_summary

if TYPE_CHECKING:
    import torch
    from fate.arch import Context
    from fate.arch.dataframe import DataFrame
    from fate.arch.tensor import DTensor

Table = Any  # FATE's distributed table {key: value}; its type says nothing of the values


def prediction_frame(frame: DataFrame, joint_scores: list[Table], document: dict, dataset_type: str) -> DataFrame:
    """FATE's prediction format: label (if any), predict_score, predict_result, predict_detail, type.

    Family binomial scores by P(y = 1); a soft label appears as its more probable class, since FATE's Evaluation takes
    classes only. Family gaussian scores by z itself. Of more than two classes, ``predict_detail`` holds each one's
    probability against the rest, which need not add up to 1, ``predict_result`` the most probable one, and
    ``predict_score`` its probability.

    Args:
        joint_scores: a table of joint scores z for every model.
        document: the model, as stored.
    """
    if len(joint_scores) > 1:
        score = partial(_scored_classes, classes=document["meta"]["labels"])
        of_all = reduce(_joined, joint_scores).mapValues(score)
        return prediction_frame_of(frame, of_all, dataset_type)
    (only,) = joint_scores
    from fate.components.components.utils.tools import add_dataset_type
    from fate.ml.utils import predict_tools

    binomial = document["meta"].get("family", "binomial") == "binomial"
    has_label = frame.schema.label_name is not None
    classified = has_label and binomial
    labelled = replace_labels(frame, label_blocks(frame).mapValues(_harder)) if classified else frame
    result = labelled.create_frame(with_label=has_label, with_weight=False)
    result[predict_tools.PREDICT_SCORE] = column_of(only.mapValues(probabilities) if binomial else only)
    task = predict_tools.BINARY if binomial else predict_tools.REGRESSION
    details = predict_tools.compute_predict_details(
        result, task, classes=document["meta"]["labels"], threshold=document["meta"]["threshold"]
    )
    return add_dataset_type(details, dataset_type)


def column_of(blocks: Table) -> DTensor:
    """A column for a FATE DataFrame from a table of arrays (rows,)."""
    from fate.arch.tensor import DTensor

    tensors = blocks.mapValues(_tensor)
    shapes = [shape for _, shape in sorted(tensors.mapValues(np.shape).collect())]
    return DTensor.from_sharding_table(tensors, shapes=shapes)


def probabilities(joint: np.ndarray) -> np.ndarray:
    """Joint scores z -> P(y = 1)."""
    return 1.0 / (1.0 + np.exp(-joint))


def check_true_labels(true_labels: bool, labelled: bool, known: LabelPrivacy | None) -> None:
    """Whether the labels of rows to predict can be the true ones that the job says they are."""
    if true_labels and not labelled:
        raise ValueError("true_labels is true, but the guest's table has no label column; leave it out.")
    if true_labels and known is not None and known.private:
        raise ValueError(
            "true_labels is true, but the labels of the guest's table are flips that were released; it is for rows held "
            "out of training whose labels were never flipped."
        )


def show_scored(
    ctx: Context, scored: DataFrame, document: dict, labels: LabelPrivacy | None, true_labels: bool
) -> None:
    """At the guest: the summary of a prediction."""
    facts = figures(PREDICTED_ROWS, scored, document, labels, true_labels=true_labels)
    show_summary(ctx, {"rows": scored.shape[0], **facts})


def _joined(first: Table, second: Table) -> Table:
    """Joint scores (rows,), or (rows, models), with those of another model in a further column."""
    return first.join(second, lambda left, right: np.column_stack([left, right]))


def _scored_classes(joint_scores: np.ndarray, classes: list) -> tuple[list, list, list]:
    """Scores, results and details of a block. FATE's results are classes' numbers; these are the classes."""
    from fate.ml.utils.predict_tools import predict_detail_dict_to_str

    of_classes = probabilities(joint_scores)
    details = [predict_detail_dict_to_str(dict(zip(classes, row))) for row in of_classes.tolist()]
    return of_classes.max(axis=1).tolist(), [classes[at] for at in of_classes.argmax(axis=1)], details


def _harder(labels: np.ndarray) -> np.ndarray:
    return np.where((labels > 0) & (labels < 1), labels > 0.5, labels)


def _tensor(numbers: np.ndarray) -> torch.Tensor:
    import torch

    return torch.as_tensor(numbers).reshape(-1, 1)
