"""FATE's example default_credit, split by records: what the defaults of dp_homo_nn reach.

    python -m bench.fate_examples_homo FOLDER

FOLDER as in `fate_examples_hetero`; the columns of both tables together, 23 features. Five stratified folds, 24,000 records
to train on, 8,000 at each of three parties, 6,000 held out; AUC on these. Aggregation secure_sum, max_dropouts 1, delta 1e-5,
add-or-remove: clients, server and transport are those of a job, with noise from the operating system's entropy, all in one
process. No setting was chosen by these figures: the job names records and epsilon only, and the rest is
`settings.TrainSettings` and `round_terms.settled`. The last line printed is one JSON object.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from bench.fate_examples_hetero import EPSILON, Fold, auc, central_auc, load_folds
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.components.dp_homo_nn.round_terms import calibrated, round_terms, settled
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.dp_homo_nn.rounds.simulation import ArrayRows, Transport, simulate
from fate_dp.components.dp_homo_nn.settings import TrainSettings

PARTIES = ("9999", "10000", "9998")


def default_auc(fold: Fold, epsilon: float) -> float:
    """Held-out AUC of a training whose job names ``records`` and ``epsilon`` (nats) only."""
    features, labels = np.hstack(fold.train_parts).astype(np.float32), fold.train_labels
    module = build_model(ModelSpec("logistic_regression", features.shape[1], classes=2))
    gradients, start = RecordGradients(module), flat_weights(module)
    settings = TrainSettings(records=len(labels), epsilon=epsilon)
    settings, terms = settled(settings, calibrated(settings, round_terms(settings, PARTIES, len(start))))
    clients = [
        Client(ArrayRows(features[places], labels[places], gradients), terms, position=position)
        for position, places in enumerate(divided(fold, len(PARTIES)))
    ]
    server = Server(terms, start, settings.optimizer or {}, settings.learning_rate_scheduler, settings.step_factor)
    weights = simulate(terms, clients, server, Transport(terms))
    return auc(fold.test_labels, gradients.scores(weights, np.hstack(fold.test_parts).astype(np.float32))[:, -1])


def divided(fold: Fold, parties: int) -> list[np.ndarray]:
    """Places of each party's records among those to train on, the same at every call.

    A division of public data that takes the place of parties: nothing that protects anything.
    """
    return np.array_split(np.random.default_rng([fold.number, 3]).permutation(len(fold.train_labels)), parties)


def figures(folds: list[Fold]) -> dict[str, float]:
    """Means over the folds: the defaults at epsilon 2, and scikit-learn on all records without noise."""
    found = {
        "auc_homo_eps_2": [default_auc(fold, EPSILON) for fold in folds],
        "auc_central": [central_auc(fold) for fold in folds],
    }
    return {name: round(float(np.mean(values)), 6) for name, values in found.items()}


def main():
    parser = argparse.ArgumentParser(description="AUC of dp_homo_nn's defaults on FATE's example default_credit.")
    parser.add_argument("folder", type=Path, help="holds the two tables default_credit_hetero_*.csv.gz")
    print(json.dumps({"bench": "fate-examples-homo", "figures": figures(load_folds(parser.parse_args().folder))}))


if __name__ == "__main__":
    main()
