"""Measures of a binary classifier on held-out records."""
from __future__ import annotations

ROC_POINTS = 200


def measure(labels, scores, threshold: float = 0.5) -> dict:
    """Metrics and ROC curve in the form of the result schema; label 1 is the positive class."""
    import numpy
    from sklearn import metrics

    labels, scores = numpy.asarray(labels, dtype=float), numpy.asarray(scores, dtype=float)
    predicted = scores > threshold
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        labels, predicted, average="binary", zero_division=0
    )
    false_positive, true_positive, _ = metrics.roc_curve(labels, scores)
    kept = numpy.unique(numpy.linspace(0, len(false_positive) - 1, ROC_POINTS).astype(int))
    return {
        "metrics": {
            "accuracy": float(metrics.accuracy_score(labels, predicted)),
            "auc": float(metrics.roc_auc_score(labels, scores)),
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
            "rows": len(labels),
        },
        "roc": {"fpr": false_positive[kept].tolist(), "tpr": true_positive[kept].tolist()},
    }
