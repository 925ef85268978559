"""Class weights of dp_homo_nn find rare classes at the same noise."""

import numpy as np
import pytest
import torch
from sklearn.metrics import recall_score

from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.dp_homo_nn.settings import TrainSettings
from fate_dp.components.protocols.noisy_rounds.terms import SECURE_SUM, RoundTerms
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.support.simulated_rounds import ArrayRows, Transport, simulate

pytestmark = [pytest.mark.statistical, pytest.mark.arithmetic]

torch.set_num_threads(1)
FEATURES = 6
NEEDED = {"rounds": 40, "batch_size": 600, "records": 3000, "noise_multiplier": 2.0}
PRIOR = (0.92, 0.08)


def imbalanced(rows, seed):
    """Records of whom 8 % are of class 1, which overlaps with the other."""
    draws = np.random.default_rng(seed)
    labels = (draws.random(rows) < PRIOR[1]).astype(int)
    features = draws.normal(size=(rows, FEATURES)) + 0.8 * labels[:, None] * np.array([1, -1, 1, 0, 0, 0])
    return (features / 4).astype(np.float32), labels


def trained(seed, **asked):
    """A private training of three parties at noise multiplier 2, and the recall of both classes on fresh records."""
    settings, (features, labels) = TrainSettings(**NEEDED, **asked), imbalanced(3000, 1)
    terms = RoundTerms(
        aggregation=SECURE_SUM,
        unit="record",
        clients=3,
        max_dropouts=1,
        rounds=40,
        batch_size=600.0,
        records=3000,
        clips=(1.0,),
        dimension=FEATURES + 1,
        delta=1e-5,
        noise_multiplier=2.0,
    )
    gradients = RecordGradients(
        build_model(ModelSpec("logistic_regression", FEATURES, 2)), class_factors=settings.class_factors
    )
    stream = ReproducibleStream(seed)
    parts = zip(np.split(features, 3), np.split(labels, 3))
    clients = [
        Client(ArrayRows(*part, gradients, stream), terms, stream, position) for position, part in enumerate(parts)
    ]
    descent = {"method": "sgd", "optimizer_params": {"lr": 2.0}}
    server = Server(terms, np.zeros(FEATURES + 1), descent, step_factor=settings.step_factor)
    weights = simulate(terms, clients, server, Transport(terms, False))
    test, truth = imbalanced(4000, 2)
    return recall_score(truth, gradients.scores(weights, test)[:, 1] > 0.5, average=None)


def test_a_rare_class_is_found_at_the_same_noise():
    for seed in range(2):
        plain, weighted = trained(seed), trained(seed, class_weights={"prior": PRIOR})
        assert plain[1] < 0.2 and weighted[1] > 0.6 and weighted[0] > 0.6
