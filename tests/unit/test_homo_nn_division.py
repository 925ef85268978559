"""How records are divided among parties changes nothing in `secure_sum`: at random, or each party with a class of its own."""

import numpy as np
import pytest

from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.support.simulated_rounds import ArrayRows, Transport, simulate

RECORDS, CLIENTS = 90, 3


def trained(order, sizes, aggregation, seed="noise"):
    """Weights after four rounds with all records, dealt to the parties in this order; noise depends on the party alone."""
    generator = np.random.default_rng(2)
    features = generator.normal(size=(RECORDS, 4)).astype(np.float32)
    labels = (features @ np.array([1.0, -1.0, 0.5, 0.0]) > 0).astype(np.int64)
    module = build_model(ModelSpec("mlp", 4, 2))
    gradients, start = RecordGradients(module), flat_weights(module)
    terms = RoundTerms(
        aggregation=aggregation,
        unit="record",
        clients=CLIENTS,
        max_dropouts=1,
        rounds=4,
        batch_size=RECORDS,
        records=RECORDS,
        clips=(1.0,),
        dimension=len(start),
        delta=1e-5,
    ).with_noise(noise_multiplier=2.0)
    order = np.argsort(labels, kind="stable") if order is None else order
    clients = []
    for position, own in enumerate(np.split(order, np.cumsum(sizes)[:-1])):
        stream = ReproducibleStream(f"{seed} {position}".encode())
        rows = ArrayRows(features[own], labels[own], gradients, ReproducibleStream(b"samples"))
        clients.append(Client(rows, terms, stream, position))
    server = Server(terms, start, {"method": "sgd", "optimizer_params": {"lr": 0.5}})
    return simulate(terms, clients, server, Transport(terms))


@pytest.mark.parametrize("aggregation", ["secure_sum", "local"])
def test_a_division_by_class_or_by_size_gives_the_same_model(aggregation):
    """But for each party's sum being rounded to the noise's grid, a billionth of the noise; other noise moves it much more."""
    even, uneven = (30, 30, 30), (5, 15, 70)
    random = trained(np.random.default_rng(3).permutation(RECORDS), even, aggregation)
    for other in (trained(None, even, aggregation), trained(None, uneven, aggregation)):
        assert np.abs(random - other).max() < 1e-7
    assert np.abs(random - trained(None, even, aggregation, "another noise")).max() > 1e-3
