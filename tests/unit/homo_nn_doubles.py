"""Rows whose gradients are known: what rounds are tested with, without a model."""

import numpy as np

from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms
from fate_dp.privacy.mechanisms.clipping import clip_records
from tests.support.simulated_rounds import ArrayRows

DIMENSION = 4
# So little noise that a sum can be compared, and none that a test could mistake for privacy.
HARDLY = 1e-9
GIVEN = {
    "unit": "record",
    "clients": 3,
    "max_dropouts": 1,
    "rounds": 4,
    "batch_size": 30.0,
    "records": 30,
    "clips": 1.0,
    "dimension": DIMENSION,
    "delta": 1e-5,
}


class RowsAsGradients:
    """The gradient of a record is its row of features, or features minus weights with ``pull``."""

    def __init__(self, pull=False):
        self.pull = pull

    def rows(self, weights, features, labels):
        return features - weights if self.pull else np.asarray(features)

    def clipped_sum(self, weights, features, labels, clip, scales=None):
        rows = self.rows(weights, features, labels)
        return clip_records(rows if scales is None else rows / scales, clip)


def make_terms(aggregation="secure_sum", **changed):
    noise = {"epsilon0": 50.0} if aggregation == "shuffle" else {"noise_multiplier": HARDLY}
    return RoundTerms(**{**GIVEN, "aggregation": aggregation, **noise, **changed})


def make_clients(terms, features, pull=False, rng=None):
    """One client per third (or n-th) of the rows."""
    parts = np.array_split(np.asarray(features), terms.clients)
    return [
        Client(ArrayRows(part, np.zeros(len(part)), RowsAsGradients(pull), rng), terms, rng, position)
        for position, part in enumerate(parts)
    ]


def short_rows(count=30, seed=1):
    """Rows (count, DIMENSION) of norms below 1."""
    rows = np.random.default_rng(seed).normal(size=(count, DIMENSION))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * np.random.default_rng(seed).uniform(0, 0.9, (count, 1))
