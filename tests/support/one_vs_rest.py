"""The plaintext twin of a training with more than two classes."""

from collections.abc import Sequence

import numpy as np

from fate_dp.components.dp_hetero_lr.labels import one_vs_rest
from fate_dp.privacy.validation import InvalidArgument
from tests.support.plaintext import TrainingResult, TrainingSettings, train_plaintext


def train_one_vs_rest(
    parts: Sequence[np.ndarray],
    labels: np.ndarray,
    classes: Sequence[float],
    settings: TrainingSettings,
    initial_weights: Sequence[Sequence[np.ndarray]],
) -> list[TrainingResult]:
    """Train a model for each class against the rest; the encrypted protocol shows the mean of their losses."""
    labels = np.asarray(labels, dtype=np.float64)
    if not np.isin(labels, classes).all():
        raise InvalidArgument(f"labels hold a value that is none of the classes {list(classes)}.")
    targets = one_vs_rest(labels, classes).T
    return [
        train_plaintext(parts, target, settings, start) for target, start in zip(targets, initial_weights, strict=True)
    ]
