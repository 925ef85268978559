"""The plaintext twin of boosted trees, and the figures that are made of its trainings."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from bench.trees import Trial, calibration_error, loss, mean_of
from bench.trees_twin import BoostedTrees, TreeSettings


def rows(count=2000, seed=3):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, 3))
    labels = (generator.random(count) < expit(2 * features[:, 0] - 3 * (features[:, 1] > 0.5))).astype(float)
    return features, labels


def test_one_split_and_its_leaves_are_newton_steps():
    features, labels = np.array([[0.0], [0.0], [1.0], [1.0]] * 10), np.array([0.0, 0.0, 0.0, 1.0] * 10)
    settings = TreeSettings(num_trees=1, max_depth=1, learning_rate=1.0, l2=0.5)
    model = BoostedTrees.train(features, labels, settings)
    # Gradients of 1/2 less the label over hessians of 1/4, twenty rows a leaf.
    np.testing.assert_allclose(model.probabilities(np.array([[0.0], [1.0]])), expit([-10 / (5 + 0.5), 0.0]))


def test_trees_learn_steps_that_no_line_does():
    features, labels = rows()
    found = BoostedTrees.train(features[:1000], labels[:1000], TreeSettings()).probabilities(features[1000:])
    best = expit(2 * features[1000:, 0] - 3 * (features[1000:, 1] > 0.5))
    assert roc_auc_score(labels[1000:], found) > roc_auc_score(labels[1000:], best) - 0.02


def test_without_a_split_that_is_heavy_enough_all_rows_share_a_leaf():
    features, labels = rows(200)
    model = BoostedTrees.train(features, labels, TreeSettings(min_child_weight=100.0))
    assert np.ptp(model.probabilities(features)) == 0


@pytest.mark.parametrize("shift", [0.0, 0.2])
def test_the_calibration_error_is_the_distance_of_what_is_said_from_what_is(shift):
    generator = np.random.default_rng(5)
    said = generator.uniform(0.2, 0.8, size=100_000)
    labels = (generator.random(len(said)) < said - shift).astype(float)
    assert calibration_error(said, labels) == pytest.approx(shift, abs=0.01)


def test_losses_are_paired_within_a_fold():
    trials = {
        fold: [Trial(None, auc, 0, 0), Trial(1.0, auc - 0.01, 0, 0), Trial(1.0, auc - 0.03, 0, 0)]
        for fold, auc in enumerate((0.7, 0.9))
    }
    assert mean_of(trials, 1.0, loss) == (pytest.approx(0.02), pytest.approx(0.0, abs=1e-12))
