"""The twins that `make bench-fate-examples` compares, on made-up records: they train what they say they train."""

import numpy as np
import pytest

from bench import fate_examples, fate_examples_homo
from bench.fate_examples_hetero import Fold, default_auc, flipped_labels
from fate_dp.pipelines.jobs.ready import Parties


@pytest.fixture(scope="module")
def fold():
    draws = np.random.default_rng(3)
    parts = [draws.normal(size=(900, columns)) for columns in (3, 2)]
    labels = (draws.random(900) < 1 / (1 + np.exp(-2 * parts[0][:, 0] + parts[1][:, 1]))).astype(float)
    return Fold(0, [part[:600] for part in parts], labels[:600], [part[600:] for part in parts], labels[600:])


def test_the_twin_of_coordinated_lr_is_gradient_descent_on_the_taylor_loss(fold):
    rows = np.hstack([*fold.train_parts, np.ones((600, 1))])
    weights = np.zeros(6)
    for _ in range(4):
        weights -= 0.15 * rows.T @ (rows @ weights / 4 - fold.train_labels + 0.5) / 600
    guest, host = fate_examples.fate_weights(fold, 4)
    assert np.concatenate([guest[:3], host, guest[3:]]) == pytest.approx(weights)


def test_the_defaults_of_both_components_learn(fold):
    flips = flipped_labels(fold, fate_examples.EPSILON)
    assert 0 < np.sum(flips != fold.train_labels) < 200
    weights = fate_examples.default_weights(fold, flips, fate_examples.EPSILON)
    assert fate_examples.held_out_auc(fold, weights) == pytest.approx(default_auc(fold, fate_examples.EPSILON))
    assert fate_examples.held_out_auc(fold, weights) > 0.8
    # Noise is from the operating system's entropy: 0.85 without, and this is far below what it does to 600 records.
    assert fate_examples_homo.default_auc(fold, 8.0) > 0.7


def test_each_job_has_the_tasks_that_its_cost_is_compared_by():
    makers = [fate_examples._flip, fate_examples._ours]
    pipelines = [fate_examples._pipeline(makers[:count]) for count in range(3)] + [
        fate_examples._pipeline([fate_examples._fate(2)])
    ]
    names = [list(pipeline.tasks) for pipeline in pipelines]
    assert names == [
        ["reader_0", "psi_0"],
        ["reader_0", "psi_0", "label_flip_0"],
        ["reader_0", "psi_0", "label_flip_0", "dp_hetero_lr_0"],
        ["reader_0", "psi_0", "coordinated_lr_0"],
    ]
    assert Parties() == fate_examples.PARTIES
