"""Blocks under the source's rule: perturbed once, the same when computed again, gradients of real-valued targets."""

import numpy as np
import pytest

from fate_dp.components.dp_homo_nn import source_rule
from fate_dp.components.dp_homo_nn.frame_rows import Coins
from fate_dp.components.dp_homo_nn.models.registry import ModelSource
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec
from fate_dp.components.dp_homo_nn.rounds.client import NotFinite
from fate_dp.components.dp_homo_nn.settings import given_settings
from fate_dp.components.dp_homo_nn.source_rule import SourceRule
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms

RULE = SourceRule(epsilon=3.0, f=0.4, p=0.85, batch_size=10)
KEY = bytes(range(32))
CONTRIBUTIONS = np.array([0.2, 0.5, 0.3])
SOURCES = [
    (ModelSource.of(ModelSpec("logistic_regression", 3, 2, {}), "cross_entropy", {}), 4),
    (ModelSource.of(ModelSpec("mlp", 3, 4, {"hidden": [2]}), "cross_entropy", {}), 2 * 4 + 4 * 3),
]


def rows(classes=2, size=40, seed=1):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(size, 3)).astype(np.float32), generator.integers(0, classes, size)


def perturbed(name, source=SOURCES[0][0], key=KEY):
    return source_rule._perturbed_block(name, rows(), RULE, source, CONTRIBUTIONS, key)


def test_a_block_that_is_computed_again_has_the_same_noise_and_another_block_another_one():
    others = perturbed(0), perturbed(1), perturbed(0, key=bytes(32))
    for first, again, of_another_block, under_another_key in zip(perturbed(0), *others):
        np.testing.assert_array_equal(first, again)
        assert (first != of_another_block).any() and (first != under_another_key).any()
    inputs, targets = perturbed(0)
    assert inputs.dtype == np.float32 and targets.shape == (40, 2) and (targets != np.round(targets)).all()


@pytest.mark.parametrize("source, dimension", SOURCES)
def test_with_true_labels_the_sum_is_that_of_the_records_gradients(source, dimension):
    weights = np.linspace(-1, 1, dimension)
    features, labels = rows(source.spec().classes, size=300)
    partition = [(0, (features[:20], labels[:20])), (1, (features[20:], labels[20:])), (2, (features[:0], labels[:0]))]
    total = source_rule._gradient_sum(partition, source, weights, Coins(KEY, "sum 1", 1.0))
    expected = source.gradients().rows(weights, features, labels).sum(axis=0)
    np.testing.assert_allclose(total[:-1], expected, rtol=1e-4, atol=1e-4)
    assert total[-1] == 300


def test_a_batch_is_a_poisson_sample_that_a_key_repeats():
    source, dimension = SOURCES[0]
    partition = [(0, rows(size=4000))]
    counts = [
        source_rule._gradient_sum(partition, source, np.zeros(dimension), Coins(KEY, label, 0.3))[-1]
        for label in ("sum 1", "sum 1", "sum 2")
    ]
    # Five standard deviations of a binomial law.
    assert counts[0] == counts[1] != counts[2] and abs(counts[0] - 1200) < 5 * np.sqrt(4000 * 0.3 * 0.7)


class Rows:
    """In place of a table: remembers before which gradients it was perturbed."""

    def __init__(self, gradient):
        self.gradient, self.calls = np.array(gradient), []

    def perturb(self, rule, weights):
        self.calls.append("perturbed")

    def mean_gradient(self, weights, probability):
        self.calls.append(probability)
        return self.gradient


def client(trust, gradient):
    given = {
        "rounds": 8,
        "batch_size": 60,
        "records": 600,
        "noise": "source_rule",
        "epsilon": 8.0,
        "aggregation": trust,
    }
    terms = RoundTerms(
        aggregation=trust,
        unit="record",
        clients=3,
        max_dropouts=1,
        rounds=8,
        batch_size=60,
        records=600,
        clips=2.0,
        dimension=2,
        delta=1e-5,
    )
    return source_rule.SourceRuleClient(Rows(gradient), given_settings(given), terms, 1)


def test_a_third_of_the_batch_times_the_clipped_mean_is_sent_and_rows_are_true_before_the_contributions():
    local, summed = client("local", [3.0, 4.0]), client("secure_sum", [3.0, 4.0])
    contributions = [local.contribution(np.zeros(2), number, 2.0) for number in (0, 1, 2)]
    assert local._rows.calls == [0.1, 0.1, "perturbed", 0.1]
    for contribution in contributions:
        np.testing.assert_allclose(contribution.content, [20 * 1.2, 20 * 1.6])
    steps = summed.contribution(np.zeros(2), 0, 2.0).content
    assert steps.dtype == np.int64 and np.allclose(steps * source_rule.grid_for(2.0), [24.0, 32.0])


def test_a_gradient_that_is_not_finite_is_not_sent():
    with pytest.raises(NotFinite, match="training has diverged"):
        client("secure_sum", [np.nan, 0.0]).contribution(np.zeros(2), 0, 2.0)
