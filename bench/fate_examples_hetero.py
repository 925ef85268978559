"""FATE's example default_credit, split by columns: what the defaults of dp_hetero_lr reach on flipped labels.

    python -m bench.fate_examples_hetero FOLDER

FOLDER has `default_credit_hetero_guest.csv.gz` (id, y, x0 to x12) and `default_credit_hetero_host.csv.gz` (id, x0 to x9)
of FATE's repository, 30,000 records, standardised. Five stratified folds, 24,000 records to train on and 6,000 held out;
AUC on the true labels of these.

Training runs on the plaintext twin, which `tests/protocol/test_training.py` holds to the encrypted run within 1e-6. Flips
are drawn from a numpy generator seeded with the fold: a simulation, which protects nothing. No setting was chosen by these
figures: the defaults are `settings.TrainSettings` and `updates.default_optimizer`, whose epochs are as many as a training
needs to settle. The last line printed is one JSON object.
"""

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fate_dp.components.dp_hetero_lr.model import initial_weights
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.protocols.optimizers import default_optimizer
from fate_dp.privacy.mechanisms.randomized_response import flip_probability
from tests.support.plaintext import TrainingSettings, joint_logits, train_plaintext, with_intercept

FOLDS = 5
EPSILON = 2.0
GUEST_FILE, HOST_FILE = "default_credit_hetero_guest.csv.gz", "default_credit_hetero_host.csv.gz"
# Ten times the default: where that leads, more epochs lead, too.
MANY_EPOCHS = 1000


@dataclass(frozen=True)
class Fold:
    """Features (n, m) of guest and host and true labels (n,), to train on and held out; `number` seeds the flips."""

    number: int
    train_parts: list[np.ndarray]
    train_labels: np.ndarray
    test_parts: list[np.ndarray]
    test_labels: np.ndarray


def load_folds(folder: Path) -> list[Fold]:
    """The five folds, the same at every call."""
    import pandas as pd
    from sklearn.model_selection import StratifiedKFold

    guest, host = (pd.read_csv(folder / name).set_index("id") for name in (GUEST_FILE, HOST_FILE))
    labels = guest.pop("y").to_numpy(dtype=np.float64)
    parts = [guest.to_numpy(), host.loc[guest.index].to_numpy()]
    splits = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(parts[0], labels)
    return [
        Fold(number, [part[train] for part in parts], labels[train], [part[test] for part in parts], labels[test])
        for number, (train, test) in enumerate(splits)
    ]


def flipped_labels(fold: Fold, epsilon: float) -> np.ndarray:
    """Simulated randomised response on the labels to train on; epsilon infinity leaves them."""
    if epsilon == math.inf:
        return fold.train_labels.copy()
    flips = np.random.default_rng([fold.number, 7]).random(len(fold.train_labels)) < flip_probability(epsilon)
    return np.where(flips, 1 - fold.train_labels, fold.train_labels)


def default_auc(fold: Fold, epsilon: float, **changed) -> float:
    """Held-out AUC of a training with the defaults of dp_hetero_lr, but for the settings that are ``changed``."""
    return held_out_auc(fold, default_weights(fold, flipped_labels(fold, epsilon), epsilon, **changed))


def default_weights(fold: Fold, labels: np.ndarray, epsilon: float, **changed) -> list[np.ndarray]:
    """Both parties' weights after such a training on labels that were flipped at epsilon (nats), by the plaintext twin."""
    asked = TrainSettings(**changed)
    rows, features = len(fold.train_labels), sum(part.shape[1] for part in fold.train_parts) + 1
    optimizer = default_optimizer(rows, features, epsilon, asked.family, epochs=asked.epochs)
    settings = TrainingSettings(
        optimizer, epochs=asked.epochs, sigmoid=asked.sigmoid, sigmoid_rounds=asked.sigmoid_rounds
    )
    start = [
        initial_weights(asked.init_param, part.shape[1], b"", fit_intercept=position == 0)
        for position, part in enumerate(fold.train_parts)
    ]
    return train_plaintext(fold.train_parts, labels, settings, start).weights


def held_out_auc(fold: Fold, weights: list[np.ndarray]) -> float:
    return auc(fold.test_labels, joint_logits(with_intercept(fold.test_parts), weights))


def central_auc(fold: Fold) -> float:
    """Held-out AUC of scikit-learn's logistic regression on all columns and the true labels."""
    from sklearn.linear_model import LogisticRegression

    train, test = np.hstack(fold.train_parts), np.hstack(fold.test_parts)
    return auc(
        fold.test_labels, LogisticRegression(max_iter=1000).fit(train, fold.train_labels).decision_function(test)
    )


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, scores))


def figures(folds: list[Fold]) -> dict[str, float]:
    """Means over the folds: the defaults at epsilon 2, ten times their epochs, and scikit-learn on true labels."""
    found = {
        "auc_hetero_eps_2": [default_auc(fold, EPSILON) for fold in folds],
        "auc_hetero_eps_2_converged": [default_auc(fold, EPSILON, epochs=MANY_EPOCHS) for fold in folds],
        "auc_central_true_labels": [central_auc(fold) for fold in folds],
    }
    return {name: round(float(np.mean(values)), 6) for name, values in found.items()}


def main():
    parser = argparse.ArgumentParser(description="AUC of dp_hetero_lr's defaults on FATE's example default_credit.")
    parser.add_argument("folder", type=Path, help="holds the two tables default_credit_hetero_*.csv.gz")
    print(json.dumps({"bench": "fate-examples-hetero", "figures": figures(load_folds(parser.parse_args().folder))}))


if __name__ == "__main__":
    main()
