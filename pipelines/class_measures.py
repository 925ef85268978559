"""Measures of a credit-risk model: for each class, and over all thresholds; label 1 is Fully Paid, 0 is Charged Off."""
from __future__ import annotations

from fate_dp.privacy.number_kinds import is_finite

CLASS_MEASURES = tuple(
    f"{name}_{measure}" for name in ("charged_off", "fully_paid") for measure in ("precision", "recall", "f1"))
MEASURES = ("auc", "ks", "specificity", "accuracy", *CLASS_MEASURES)


class NotMeasurable(ValueError):
    """Labels and scores from which no measure follows."""


def class_measures(labels, scores, threshold: float = 0.5) -> dict[str, float]:
    """Every one of MEASURES, for labels 0 or 1 and scores of class 1, both of shape (n,).

    A score above ``threshold`` counts as Fully Paid. Specificity is the share of the Charged Off that are recognised.
    A precision without any row predicted to be of that class is 0. Raises NotMeasurable unless both classes occur.
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


def _checked(labels, scores, threshold):
    """Labels as whole numbers and scores as floats, after every refusal."""
    import numpy

    labels, scores = numpy.asarray(labels), numpy.asarray(scores, dtype=float)
    if labels.ndim != 1 or labels.shape != scores.shape:
        raise NotMeasurable(f"Labels have the shape {labels.shape} and scores {scores.shape}; both must be (n,).")
    if not is_finite(threshold):
        raise NotMeasurable(f"The threshold is {threshold!r}; it must be a number.")
    if labels.dtype.kind not in "biuf":
        raise NotMeasurable(f"The labels are of type {labels.dtype}; the numbers 0 and 1 are allowed.")
    if set(numpy.unique(labels)) != {0, 1}:
        shown = ", ".join(str(value) for value in numpy.unique(labels)[:5]) or "none"
        raise NotMeasurable(f"The labels are {shown}; both 0 and 1 must occur, and nothing else.")
    if not numpy.isfinite(scores).all():
        raise NotMeasurable(f"Row {int(numpy.isfinite(scores).argmin())} has a score that is no finite number.")
    return labels.astype(int), scores
