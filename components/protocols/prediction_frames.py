"""Scored tables in FATE's prediction format, what may stand in them as true labels, and what a summary says of them.

Labels that a training may read are flips, and every measure on them, FATE's Evaluation's too, looks worse than the model is.
The flip rate is known, so accuracy, AUC and KS on true labels are estimated (`privacy.labels.noisy_metrics`). They are
functions of flips and scores, both of which the guest has, and stay at the guest. Labels that flipback revised depend on the
scores, so nothing undoes their errors: figures on them are shown as what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit

from fate_dp.privacy.labels.noisy_metrics import Corrected, Fit, NotCorrectable, corrected_figures
from fate_dp.privacy.mechanisms.randomized_response import flip_probability

from ..common import frames
from ..common.federation import Context, Document
from ..common.frames import DataFrame, Table
from ..common.preflight import Refusal, show_summary
from ..common.provenance import LabelPrivacy
from .training_terms import TrainingTerms

if TYPE_CHECKING:
    import torch
    from fate.arch.tensor import DTensor

TRAINING_ROWS, VALIDATION_ROWS, PREDICTED_ROWS = "training rows", "validation rows", "predicted rows"
FOLD_ROWS = "held-out rows"

NO_FLIPS = 100.0
"""An epsilon at which no label is flipped, as far as a float can tell: the figures then are those on the labels."""
_NO_LABELS = "none: the table has no labels"
_UNKNOWN = (
    "none: the guest's ledger knows the labels neither as flips nor as public; true_labels shows the figures on true labels "
    "of held-out rows"
)
_REVISED = "none: flipback revised the labels, or they rest on several releases, and no known rate undoes that"
_ONE_CLASS = "none: one class is too rare among these rows"
_MORE_CLASSES = "none: they are for two classes; FATE's Evaluation shows those on the labels as they are"


def require_table(frame: DataFrame | None, scoring: str) -> None:
    """FATE takes test_data as optional, since with this ``scoring`` the hosts need none."""
    if frame is None:
        raise Refusal(f"The task has no test_data at this party; only with scoring {scoring}, a host needs none.")


def prediction_frame(frame: DataFrame, joint_scores: list[Table], document: Document, dataset_type: str) -> DataFrame:
    """FATE's prediction format: label (if any), predict_score, predict_result, predict_detail, type.

    Family binomial scores by P(y = 1); a soft label appears as its more probable class, since FATE's Evaluation takes
    classes only. Family gaussian scores by z itself. Of more than two classes, ``predict_detail`` holds each one's
    probability against the rest, which need not add up to 1, ``predict_result`` the most probable one, and
    ``predict_score`` its probability. ``joint_scores`` are a table of z for every model, ``document`` the model as stored.
    """
    if len(joint_scores) > 1:
        classes = document["meta"]["labels"]

        def scored(of_models: np.ndarray) -> tuple[list, list, list]:
            of_classes = probabilities(of_models)
            most_probable = np.array(classes)[of_classes.argmax(axis=1)]
            return frames.with_details(of_classes.max(axis=1), most_probable, classes, of_classes)

        return frames.prediction_frame_of(frame, reduce(_joined, joint_scores).mapValues(scored), dataset_type)
    (only,) = joint_scores
    from fate.components.components.utils.tools import add_dataset_type
    from fate.ml.utils import predict_tools

    binomial = document["meta"].get("family", "binomial") == "binomial"
    has_label = frame.schema.label_name is not None
    classified = has_label and binomial
    labelled = frames.replace_labels(frame, frames.label_blocks(frame).mapValues(_harder)) if classified else frame
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
        raise Refusal("true_labels is true, but the guest's table has no label column; leave it out.")
    if true_labels and known is not None and known.private:
        raise Refusal(
            "true_labels is true, but the labels of the guest's table are flips that were released; it is for rows held "
            "out of training whose labels were never flipped."
        )


def show_scored(
    ctx: Context, scored: DataFrame, document: Document, labels: LabelPrivacy | None, true_labels: bool
) -> None:
    facts = figures(PREDICTED_ROWS, scored, document, labels, true_labels=true_labels)
    show_summary(ctx, {"rows": scored.shape[0], **facts})


def _joined(first: Table, second: Table) -> Table:
    return first.join(second, lambda left, right: np.column_stack([left, right]))


def _harder(labels: np.ndarray) -> np.ndarray:
    return np.where((labels > 0) & (labels < 1), labels > 0.5, labels)


def _tensor(numbers: np.ndarray) -> torch.Tensor:
    import torch

    return torch.as_tensor(numbers).reshape(-1, 1)


def on_labels(rows: str, name: str, which: str) -> str:
    """The line of a measure on the labels as they are; ``which`` are flips, true labels or revised labels."""
    return f"{rows}: {name} on {which}"


def estimated(rows: str, name: str) -> str:
    return f"{rows}: {name} on true labels, estimated"


def standard_error(rows: str, name: str) -> str:
    return f"{rows}: {name}, standard error"


def bias(rows: str, name: str) -> str:
    return f"{rows}: {name}, bias"


@dataclass(frozen=True)
class FittedTo:
    """What is known of the fit, of ``weights`` of all parties with the intercept, to the rows that were scored.

    ``bounded`` is whether the scores follow the flips no further than those of one full-batch fit do; with flipback, with
    noise, with mini-batches and after a start from another model nobody knows how far.
    """

    weights: int
    exact_sigmoid: bool
    bounded: bool

    def fit(self, probabilities: np.ndarray) -> Fit | None:
        if not self.bounded:
            return None
        curvature = float(np.mean(probabilities * (1 - probabilities))) if self.exact_sigmoid else 0.25
        return Fit(self.weights, curvature)


def fitted_to(terms: TrainingTerms, flipback_mode: str, warm_start: Document | None) -> FittedTo:
    """Of a training with these terms; ``flipback_mode`` is the one that ran, ``warm_start`` the model it began with."""
    plain = flipback_mode == "none" and not terms.noise and warm_start is None
    bounded = plain and len(terms.batches) == 1
    return FittedTo(sum(terms.features), terms.descent.sigmoid == "exact", bounded)


def figures(
    rows: str,
    scored: DataFrame,
    document: Document,
    privacy: LabelPrivacy | None,
    *,
    fitted: FittedTo | None = None,
    true_labels: bool = False,
) -> dict[str, object]:
    """Lines of a summary about one table of scores in FATE's prediction format; ``rows`` says of which rows, in words.

    ``privacy`` is what the ledger knows of the labels, None for nothing; ``true_labels`` whether those were said to be
    true ones. ``fitted`` is of the fit, where the model was fitted to these rows.
    """
    meta, told = document["meta"], f"{rows}: figures on true labels"
    if meta.get("family", "binomial") != "binomial":
        return {}
    if len(meta["labels"]) > 2:
        return {told: _MORE_CLASSES}
    if scored.schema.label_name is None:
        return {told: _NO_LABELS}
    if privacy is None and not true_labels:
        return {told: _UNKNOWN}
    labels = frames.collect_column(frames.label_blocks(scored))
    if not np.isin(labels, (0.0, 1.0)).all():
        return {told: "none: a label is neither 0 nor 1"}
    # Scores are compared and shifted on the scale that is linear in the weights; one of 1 would be infinite there.
    probabilities = frames.collect_column(frames.feature_blocks(scored[["predict_score"]]).mapValues(np.ravel))
    logits, threshold = _logits(probabilities), float(_logits(np.array(meta["threshold"])))
    if privacy is None or not privacy.private:
        source = "which true_labels says are true" if privacy is None else "declared public"
        found = _measured(labels, logits, NO_FLIPS, threshold)
        if not found:
            return {told: _ONE_CLASS}
        return {told: f"of the labels, {source}", **_lines(rows, found, "true labels", errors=True)}
    if privacy.flips is None or privacy.flips.classes != 2:
        return {told: _REVISED, **_lines(rows, _measured(labels, logits, NO_FLIPS, threshold), "revised labels")}
    fit = None if fitted is None else fitted.fit(probabilities)
    found = _measured(labels, logits, privacy.epsilon, threshold, fit)
    if not found:
        return {told: _ONE_CLASS}
    rate = f"estimated from flips at rate {flip_probability(privacy.epsilon):.4g}"
    known = "by 'bias' at most, to first order" if fit is not None else "nobody knows how far"
    upwards = f"the model was fitted to these very flips, so the estimates err upwards, {known}"
    told_of = {told: f"{rate}; {upwards if fitted else 'unbiased for rows that the model was not fitted to'}"}
    return {**told_of, **_lines(rows, found, "flips"), **_estimates(rows, found, fit)}


def _measured(
    labels: np.ndarray, logits: np.ndarray, epsilon: float, threshold: float, fit: Fit | None = None
) -> dict[str, Corrected]:
    try:
        return corrected_figures(labels, logits, epsilon, threshold=threshold, fit=fit)
    except NotCorrectable:
        return {}


def _lines(rows: str, found: dict[str, Corrected], which: str, errors: bool = False) -> dict[str, float]:
    lines = {}
    for name, figure in found.items():
        lines[on_labels(rows, name, which)] = figure.on_flips
        if errors:
            lines[standard_error(rows, name)] = figure.standard_error
    return lines


def _estimates(rows: str, found: dict[str, Corrected], fit: Fit | None) -> dict[str, float]:
    lines = {}
    for name, figure in found.items():
        # By chance, or by its bias, an estimate may lie where no measure can.
        lines[estimated(rows, name)] = min(1.0, max(0.0, figure.estimate))
        lines[standard_error(rows, name)] = figure.standard_error
        if fit is not None:
            lines[bias(rows, name)] = figure.most_bias
    return lines


def _logits(probabilities: np.ndarray) -> np.ndarray:
    return logit(np.clip(probabilities, np.finfo(float).tiny, 1 - np.finfo(float).epsneg))
