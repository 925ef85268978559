"""What the guest's summary says of a model's accuracy, AUC and KS: on the labels that a scored table shows, and on true ones.

Labels that a training may read are flips, and every measure on them, FATE's Evaluation's too, looks worse than the model is.
The flip rate is known, so the figures on true labels are estimated (`privacy.noisy_label_metrics`). They are functions of
flips and scores, both of which the guest has, and stay at the guest.

Labels that flipback revised depend on the scores, so nothing undoes their errors: figures on them are shown as what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit

from fate_dp.components.common.frames import collect_column, feature_blocks, label_blocks
from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.privacy.mechanisms.randomized_response import flip_probability
from fate_dp.privacy.noisy_label_metrics import Corrected, Fit, NotCorrectable, corrected_figures

from .training_terms import TrainingTerms

if TYPE_CHECKING:
    from fate.arch.dataframe import DataFrame

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


def on_labels(rows: str, name: str, which: str) -> str:
    """The line of a measure on the labels as they are; ``which`` are flips, true labels or revised labels."""
    return f"{rows}: {name} on {which}"


def estimated(rows: str, name: str) -> str:
    """The line of a measure that is estimated for true labels."""
    return f"{rows}: {name} on true labels, estimated"


def standard_error(rows: str, name: str) -> str:
    return f"{rows}: {name}, standard error"


def bias(rows: str, name: str) -> str:
    """The line of how far the estimate errs upwards at most."""
    return f"{rows}: {name}, bias"


@dataclass(frozen=True)
class FittedTo:
    """What is known of the fit to the rows that were scored.

    Attributes:
        weights: of all parties, intercept included.
        exact_sigmoid: whether the loss was the logistic one, not Taylor's.
        bounded: whether the scores follow the flips no further than those of one full-batch fit do; with flipback, with
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


def fitted_to(terms: TrainingTerms, flipback_mode: str, warm_start: dict | None) -> FittedTo:
    """Of a training with these terms; ``flipback_mode`` is the one that ran, ``warm_start`` the model it began with."""
    plain = flipback_mode == "none" and not terms.noise and warm_start is None
    bounded = plain and len(terms.batches) == 1
    return FittedTo(sum(terms.features), terms.descent.sigmoid == "exact", bounded)


def figures(
    rows: str,
    scored: DataFrame,
    document: dict,
    privacy: LabelPrivacy | None,
    *,
    fitted: FittedTo | None = None,
    true_labels: bool = False,
) -> dict[str, object]:
    """Lines of a summary about one table of scores in FATE's prediction format.

    Args:
        rows: which rows they are, in words.
        privacy: what the ledger knows of the labels, None for nothing.
        fitted: of the fit, where the model was fitted to these rows.
        true_labels: whether labels that the ledger does not know were said to be true ones.
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
    labels = collect_column(label_blocks(scored))
    if not np.isin(labels, (0.0, 1.0)).all():
        return {told: "none: a label is neither 0 nor 1"}
    # Scores are compared and shifted on the scale that is linear in the weights; one of 1 would be infinite there.
    probabilities = collect_column(feature_blocks(scored[["predict_score"]]).mapValues(np.ravel))
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
        lines[estimated(rows, name)] = figure.estimate
        lines[standard_error(rows, name)] = figure.standard_error
        if fit is not None:
            lines[bias(rows, name)] = figure.most_bias
    return lines


def _logits(probabilities: np.ndarray) -> np.ndarray:
    return logit(np.clip(probabilities, np.finfo(float).tiny, 1 - np.finfo(float).epsneg))
