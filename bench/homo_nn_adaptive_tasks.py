"""The tasks on which adaptive noise is compared: rows in memory, a model, and settings of the training."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.hetero_noise_tasks import breast_cancer, lending_club
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec

DATA = Path(os.environ.get("FATE_DP_DATA", "../shared/data"))
GREY_VALUES = 255


@dataclass(frozen=True)
class Settings:
    """Of one training; public, the same for every kind of noise.

    :param warm_up: rounds with uniform noise before contributions are released; their model is what is explained.
    :param batch_size: expected records of a round over all clients.
    :param contribution_sampling: probability with which a record takes part in the contributions' secure sum.
    """

    clients: int
    rounds: int
    warm_up: int
    batch_size: int
    clip: float
    learning_rate: float
    momentum: float = 0.9
    contribution_sampling: float | None = None


@dataclass(frozen=True, eq=False)
class Task:
    """Training and held-out rows, the model, and how it is trained and measured.

    :param splits: (train features, train labels, test features, test labels) of each split of the data.
    :param runs: how often a split is trained with other noise; with one split every run is a value of its own, with
        several every split is, as the mean of its runs.
    :param measure: accuracy or auc, of held-out rows.
    """

    name: str
    spec: ModelSpec
    splits: tuple[tuple[np.ndarray, ...], ...]
    runs: int
    measure: str
    epsilons: tuple[float, ...]
    settings: Settings

    def measured(self, scores, labels):
        """Accuracy or AUC of the classes' probabilities (n, k)."""
        from sklearn.metrics import roc_auc_score

        if self.measure == "auc":
            return float(roc_auc_score(labels, scores[:, 1]))
        return float((scores.argmax(axis=1) == labels).mean())


def mnist(path, runs, epsilons, settings):
    """60,000 digits, grey values from 0 to 1, and the source's network."""
    with np.load(path) as archive:
        parts = [archive[name] for name in ("x_train", "y_train", "x_test", "y_test")]
    parts = [
        part.astype(np.int64) if part.ndim == 1 else part.reshape(len(part), -1).astype(np.float32) / GREY_VALUES
        for part in parts
    ]
    return Task("mnist", ModelSpec("cnn", 784, 10), (tuple(parts),), runs, "accuracy", epsilons, settings)


def loans(path, runs, epsilons, settings):
    """27,273 Lending Club loans for training, both parties' columns together, in the frozen public units."""
    split = _joined(lending_club(path))
    spec = ModelSpec("logistic_regression", split[0].shape[1], 2)
    return Task("lending_club", spec, (split,), runs, "auc", epsilons, settings)


def cancer(splits, runs, epsilons, settings):
    """scikit-learn's breast cancer data in stratified splits, in units of the held-out quarter, taken to be public."""
    found = tuple(_joined(breast_cancer(number)) for number in range(splits))
    spec = ModelSpec("logistic_regression", found[0][0].shape[1], 2)
    return Task("breast_cancer", spec, found, runs, "accuracy", epsilons, settings)


def _joined(task):
    features = (np.hstack(parts).astype(np.float32) for parts in (task.train_parts, task.test_parts))
    train, test = features
    return train, task.train_labels.astype(np.int64), test, task.test_labels.astype(np.int64)
