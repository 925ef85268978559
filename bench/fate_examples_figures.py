"""How far corrected figures are from the true ones, on FATE's default_credit tables: plaintext twin, training rows.

python -m bench.fate_examples_figures FOLDER     # where the two default_credit_hetero_*.csv.gz lie
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, roc_auc_score, roc_curve
from sklearn.model_selection import StratifiedKFold

from fate_dp.components.protocols.optimizers import default_optimizer
from fate_dp.privacy.label_flips import flip_labels
from fate_dp.privacy.noisy_label_metrics import ACCURACY, AUC, KS, Corrected, Fit, corrected_figures
from tests.support.plaintext import TrainingSettings, joint_logits, train_plaintext, with_intercept

EPSILON, FOLDS, EPOCHS = 2.0, 5, 300
# A coin of the benchmark's own, so that its figures can be repeated; another key gives other flips.
KEY, SOURCE = b"benchmark of corrected figures".ljust(32), "fate/default_credit/y"


@dataclass(frozen=True)
class CreditTables:
    """default_credit as two parties hold it: standardised columns of guest and host, and the guest's labels."""

    ids: list[str]
    labels: np.ndarray
    parts: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class FoldFigures:
    """One measure of one fold's model on the rows that it was trained on."""

    fold: int
    measure: str
    true: float
    found: Corrected

    @property
    def error(self) -> float:
        """Corrected figure minus the true one, absolute."""
        return abs(self.found.estimate - self.true)


def read_tables(folder: Path) -> CreditTables:
    guest, host = (
        pd.read_csv(folder / f"default_credit_hetero_{role}.csv.gz", dtype={"id": str}).set_index("id")
        for role in ("guest", "host")
    )
    host = host.loc[guest.index]
    return CreditTables(
        guest.index.tolist(), guest["y"].to_numpy(), (guest.drop(columns="y").to_numpy(), host.to_numpy())
    )


def fold_figures(tables: CreditTables, epsilon: float = EPSILON, key: bytes = KEY) -> Iterator[FoldFigures]:
    """Of every fold: accuracy, AUC and KS on training rows, true and corrected. The last step of the training is small."""
    flips = flip_labels(tables.ids, tables.labels, epsilon, 2, key, SOURCE)
    splits = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(tables.labels, tables.labels)
    for fold, (rows, _) in enumerate(splits):
        parts, labels = [part[rows] for part in tables.parts], tables.labels[rows]
        scores, fit = train(parts, flips[rows], epsilon)
        found, true = corrected_figures(flips[rows], scores, epsilon, fit=fit), true_figures(labels, scores)
        yield from (FoldFigures(fold, name, true[name], found[name]) for name in found)


def train(parts: list[np.ndarray], flips: np.ndarray, epsilon: float) -> tuple[np.ndarray, Fit]:
    """Joint scores z of the training rows under the converged model, and what is known of the fit."""
    weights = sum(part.shape[1] for part in parts) + 1
    optimizer = default_optimizer(len(flips), weights, epsilon, epochs=EPOCHS)
    starts = [np.zeros(part.shape[1] + (place == 0)) for place, part in enumerate(parts)]
    result = train_plaintext(parts, flips, TrainingSettings(optimizer=optimizer, epochs=EPOCHS), starts)
    return joint_logits(with_intercept(parts), result.weights), Fit(weights, 0.25)


def true_figures(labels: np.ndarray, scores: np.ndarray) -> dict:
    false_positive, true_positive, _ = roc_curve(labels, scores)
    return {
        ACCURACY: accuracy_score(labels, scores > 0),
        AUC: roc_auc_score(labels, scores),
        KS: float(np.max(true_positive - false_positive)),
    }


def report(figures: list[FoldFigures]) -> dict:
    """Means over the folds; ``corrected_auc_error`` is the mean absolute error of the corrected AUC."""
    lines: dict[str, float] = {}
    for name in (ACCURACY, AUC, KS):
        own = [figure for figure in figures if figure.measure == name]
        mean = {
            "true": [figure.true for figure in own],
            "on_flips": [figure.found.on_flips for figure in own],
            "corrected": [figure.found.estimate for figure in own],
            "error": [figure.error for figure in own],
            "standard_error": [figure.found.standard_error for figure in own],
            "most_bias": [figure.found.most_bias for figure in own],
        }
        lines |= {f"{name.lower()}_{what}": round(float(np.mean(values)), 5) for what, values in mean.items()}
    return {"corrected_auc_error": lines["auc_error"], "epsilon": EPSILON, "epochs": EPOCHS, "folds": FOLDS, **lines}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    print(json.dumps(report(list(fold_figures(read_tables(parser.parse_args().folder))))))
