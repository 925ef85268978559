"""What the tasks of a job logged of themselves: summaries, losses and measures of models.

A measure on flips looks worse than the model is, so it stands beside what it is estimated to be on true labels, where the
task estimated that. FATE's Evaluation knows nothing of flips; what the label column held is followed through the DAG.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fate_dp.components.disclosure.declaration import FLIPPED, NO_LABELS
from fate_dp.components.disclosure.tracing import Labels
from fate_dp.components.protocols import prediction_frames as lines
from fate_dp.privacy.labels.noisy_metrics import ACCURACY, AUC, KS
from fate_dp.privacy.validation import is_finite

ROWS = (lines.TRAINING_ROWS, lines.VALIDATION_ROWS, lines.PREDICTED_ROWS, lines.FOLD_ROWS)
LABELS_OF_SUMMARIES = ("flips", "true labels", "revised labels")
SUMMARY, EVALUATION, LOSS = "summary", "evaluation", "loss"


@dataclass(frozen=True)
class Figure:
    """One measure of one model on some rows.

    Attributes:
        on: which labels ``value`` was measured on.
        estimate: of the measure on true labels, from the known rate of flips; None where there is none.
        most_bias: how far the estimate errs upwards at most; None where nobody knows, or where it does not.
    """

    task: str
    rows: str
    measure: str
    on: str
    value: float
    estimate: float | None = None
    standard_error: float | None = None
    most_bias: float | None = None


def summary_of(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """The facts that a task told in its summaries, by name; a cross-validation has one for each fold, the last one counts."""
    found: dict[str, Any] = {}
    for record in metrics:
        if record.get("name") == SUMMARY and isinstance(record.get("data"), dict):
            found.update(record["data"])
    return found


def losses_of(metrics: list[dict[str, Any]]) -> tuple[float, ...]:
    logged = [record.get("data") for record in metrics if LOSS in (record.get("type") or "")]
    points = [point for data in logged for point in (data if isinstance(data, list) else [data])]
    values = [point.get("metric") if isinstance(point, dict) else point for point in points]
    return tuple(float(value) for value in values if is_finite(value))


def figures_of(task: str, metrics: list[dict[str, Any]], labels: Labels) -> list[Figure]:
    """All measures that a task logged.

    Args:
        labels: what the label column held that the task was given, as the DAG tells.
    """
    return [*_told_in_summary(task, summary_of(metrics)), *_evaluated(task, metrics, labels)]


def _told_in_summary(task: str, summary: Mapping[str, Any]) -> Iterator[Figure]:
    for rows in ROWS:
        for measure in (ACCURACY, AUC, KS):
            error, bias = (number_of(summary, of(rows, measure)) for of in (lines.standard_error, lines.bias))
            for which in LABELS_OF_SUMMARIES:
                value = number_of(summary, lines.on_labels(rows, measure, which))
                if value is None:
                    continue
                estimate = number_of(summary, lines.estimated(rows, measure)) if which == "flips" else None
                yield Figure(task, rows, measure, which, value, estimate, error, bias)


def number_of(summary: Mapping[str, Any], name: str) -> float | None:
    """A fact as a number; numbers that are too small for the board were logged as text."""
    try:
        found = float(summary[name])
    except (KeyError, TypeError, ValueError):
        return None
    return found if is_finite(found) else None


def _evaluated(task: str, metrics: list[dict[str, Any]], labels: Labels) -> Iterator[Figure]:
    """What FATE's Evaluation logged: numbers within lists within lists, by model and data set."""
    on = "flips" if labels.state == FLIPPED else "no labels" if labels.state == NO_LABELS else "labels as they were"
    for record in metrics:
        if record.get("name") != EVALUATION or not isinstance(record.get("data"), dict):
            continue
        for model, sets in record["data"].items():
            for name, content in sets.items() if isinstance(sets, dict) else ():
                for measure, value in _measures(content):
                    yield Figure(task, f"{model}, {name}", measure, on, value)


def _measures(content: Any) -> Iterator[tuple[str, float]]:
    if isinstance(content, list):
        for item in content:
            yield from _measures(item)
    elif isinstance(content, dict) and isinstance(content.get("metric"), str) and is_finite(content.get("val")):
        yield content["metric"], float(content["val"])
