"""A host of FATE's binning reads every label of 64 from what it receives, and behind label_flip every flip instead."""

from functools import cache

import numpy as np
import pytest

from bench.label_firewall import tables
from bench.label_firewall_cases import Data
from bench.label_firewall_parties import HOST, Read, Task, play
from bench.label_firewall_reading import compare_with_guesses
from fate_dp.attacks.label_ciphertexts import two_valued

ROWS = 64
EPSILON = 0.5


@pytest.fixture(scope="module")
def binning(tmp_path_factory):
    @cache
    def played(epsilon: float | None) -> Read:
        task, home = Task("hetero_feature_binning", epsilon=epsilon), str(tmp_path_factory.mktemp("home"))
        return play(task, tables(Data(ROWS)), home, [(HOST, compare_with_guesses)])[0]

    return played


def test_the_host_of_a_binning_reads_every_label(binning):
    read = binning(None)
    assert len(read.found) == ROWS and set(read.true) == {0.0, 1.0}
    assert (read.found == read.true).all()


def test_behind_label_flip_it_reads_every_flip_and_no_label_beside(binning):
    read = binning(EPSILON)
    assert (read.found == read.given).all()
    # A key that is drawn anew keeps 64 labels at epsilon 0.5 with probability 0.62 ^ 64.
    assert (read.given != read.true).any()


def test_nothing_else_that_the_host_receives_of_a_binning_differs(binning):
    assert binning(None).messages == {"pk": 1, "evaluator": 1, "coder": 1, "enc_y": 1}
    assert binning(EPSILON).messages == binning(None).messages


@pytest.mark.parametrize("step", [1.0, 0.01])
def test_two_values_are_found_under_features_that_move(step):
    draws = np.random.default_rng(0)
    features, labels = draws.normal(size=(500, 6)), draws.integers(2, size=500)
    weights = 0.4 * step * draws.normal(size=(9, 6))
    residuals = weights @ features.T - step * labels
    assert np.array_equal(two_valued(residuals, np.ones((500, 1)), step, rounding=1e-9 * step), labels)


def test_residuals_without_labels_tell_none():
    draws = np.random.default_rng(1)
    labels, residuals = draws.integers(2, size=500), draws.normal(size=(9, 500))
    assert abs(np.mean(two_valued(residuals, np.ones((500, 1)), 1.0, rounding=1e-9) == labels) - 0.5) < 0.1
