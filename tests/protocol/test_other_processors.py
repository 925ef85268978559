"""Parties on different processors: their floating point may differ in last bits, what they agree on may not.

The host's process runs with the settings of an old processor. Weights of vertical training agree with the plaintext twin
to 1e-6, as they do between equal processors; a repeated training shows the same scores, so the host's ledger counts them
once. In horizontal training all data parties end with one model, and say the same of its privacy. In `make test`
tests/processes/test_other_processors.py compares what they agree on, bit by bit.
"""

import numpy as np
import pytest

from fate_dp.components.dp_homo_nn.round_terms import ROUNDING
from tests.arithmetic.processors import OLD_PROCESSOR

from . import test_homo_nn, test_training
from .homo_nn_parties import ARBITER, DATA, WITHOUT_SHUFFLER
from .scenarios import GUEST, HOST, Scenario, play, train

pytestmark = pytest.mark.long

TRIO = (GUEST, HOST, ARBITER)
EPOCHS = {**test_training.SMALL, "epochs": 4}
VERTICAL = {
    "cross product": Scenario(train, EPOCHS, TRIO, home="epochs"),
    "cross product again": Scenario(train, EPOCHS, TRIO, home="epochs"),
    "per epoch": Scenario(train, {**EPOCHS, "epochs": 1, "solver": "per_epoch"}, TRIO),
    "exact": Scenario(train, {**EPOCHS, "sigmoid": "exact", "sigmoid_rounds": 1, "score_cap": 2}, TRIO),
}
HORIZONTAL = {name: test_homo_nn.RAN[name] for name in ("three classes", "adaptive")}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    scenarios = {**VERTICAL, **HORIZONTAL}
    outcomes = play(scenarios, tmp_path_factory.mktemp("homes"), WITHOUT_SHUFFLER, environments={HOST: OLD_PROCESSOR})
    assert not [(name, party.error) for name, found in outcomes.items() for party in found.values() if party.error]
    return outcomes


@pytest.mark.parametrize("name", ["cross product", "per epoch", "exact"])
def test_vertical_training_agrees_with_the_twin(runs, name):
    arguments = VERTICAL[name].arguments
    test_training.assert_equal_to_twin(runs[name], arguments, test_training.twin(runs[name], arguments))


def test_a_repeated_training_shows_the_same_scores(runs):
    first, second = (runs[name] for name in ("cross product", "cross product again"))
    for party in (GUEST, HOST):
        assert np.array_equal(*(test_training.weights(outcomes, party) for outcomes in (first, second)))


@pytest.mark.parametrize("name", HORIZONTAL)
def test_horizontal_training_ends_with_one_model_and_one_promise(runs, name):
    models = [runs[name][party].value["model"] for party in DATA]
    assert models[0]["data"] == models[1]["data"] == models[2]["data"]
    # Every party computes the epsilons anew, as its own processor rounds them.
    for other in models[1:]:
        assert_near(models[0]["meta"], other["meta"])


def assert_near(first, second):
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for name in first:
            assert_near(first[name], second[name])
    elif isinstance(first, list):
        for pair in zip(first, second, strict=True):
            assert_near(*pair)
    else:
        assert first == (pytest.approx(second, rel=ROUNDING - 1) if isinstance(first, float) else second)
