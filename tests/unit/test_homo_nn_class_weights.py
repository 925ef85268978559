"""Class weights of dp_homo_nn: before the clip, so that a record moves a sum no further."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import ModelSource, build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.components.dp_homo_nn.settings import TrainSettings
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE
from fate_dp.privacy.mechanisms.clipping import clip_records

pytestmark = pytest.mark.arithmetic

torch.set_num_threads(1)
RECORDS, FEATURES = 13, 6
NEEDED = {"rounds": 40, "batch_size": 600, "records": 3000, "noise_multiplier": 2.0}
# Known layers are differentiated in blocks, other modules one record at a time.
MODULES = {
    "dense, one output": lambda: build_model(ModelSpec("logistic_regression", FEATURES, 2)),
    "dense, three outputs": lambda: build_model(ModelSpec("mlp", FEATURES, 3, {"hidden": [4]})),
    "one by one": lambda: nn.Sequential(nn.Linear(FEATURES, 4), nn.GroupNorm(1, 4), nn.Tanh(), nn.Linear(4, 3)),
}
WEIGHTS = {"dense, one output": (0.625, 2.5), "dense, three outputs": (0.5, 1.0, 7.0), "one by one": (0.5, 1.0, 7.0)}


def problem(name, class_factors):
    torch.manual_seed(3)
    module, draws = MODULES[name](), np.random.default_rng(4)
    start = flat_weights(module) + draws.normal(size=len(flat_weights(module))) / 5
    features = draws.normal(size=(RECORDS, FEATURES)).astype(np.float32)
    labels = draws.integers(0, len(WEIGHTS[name]), RECORDS)
    return RecordGradients(module, class_factors=class_factors), start, features, labels


@pytest.mark.parametrize("name", MODULES)
def test_each_records_gradient_has_the_weight_of_its_own_class(name):
    plain, at, features, labels = problem(name, None)
    weighted = problem(name, WEIGHTS[name])[0]
    expected = plain.rows(at, features, labels) * np.array(WEIGHTS[name])[labels, None]
    np.testing.assert_allclose(weighted.rows(at, features, labels), expected, rtol=1e-4, atol=5e-6)
    total = weighted.clipped_sum(at, features, labels, 0.6)
    assert np.abs(total.value - clip_records(expected, 0.6).value).max() < 1e-5


def test_what_the_clip_leaves_alone_keeps_the_proportions_of_the_classes():
    """The largest factor is 1, so no weight drives a gradient into the clip."""
    factors = TrainSettings(**NEEDED, class_weights={"prior": [0.92, 0.08]}).class_factors
    plain, at, features, labels = problem("dense, one output", None)
    rows = plain.rows(at, features, labels).astype(np.float64)
    clip = 1.01 * np.linalg.norm(rows, axis=1).max()
    total = problem("dense, one output", factors)[0].clipped_sum(at, features, labels, clip)
    assert np.abs(total.value - (rows * np.array([0.08 / 0.92, 1.0])[labels, None]).sum(axis=0)).max() < 1e-4


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("label", [-1, 3, 1.5, np.nan])
def test_a_label_that_is_no_class_contributes_zero(name, label):
    gradients, at, features, labels = problem(name, WEIGHTS[name])
    wrong = labels.astype(np.float64)
    wrong[2] = label
    others = np.delete(np.arange(RECORDS), 2)
    expected = gradients.clipped_sum(at, features[others], labels[others], 1.0).steps
    assert np.array_equal(gradients.clipped_sum(at, features, wrong, 1.0).steps, expected)


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(sorted(MODULES)),
    largest=st.floats(1e-3, 1e6),
    clip=st.sampled_from([1e-3, 0.3, 1.0, 50.0]),
    record=st.lists(st.floats(width=32), min_size=FEATURES, max_size=FEATURES),
    label=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_a_record_with_another_label_and_other_features_moves_the_sum_by_at_most_the_sensitivity(
    name, largest, clip, record, label, seed
):
    shares = np.random.default_rng(seed).uniform(0.01, 1, len(WEIGHTS[name]))
    gradients, at, features, labels = problem(name, tuple(largest * shares / shares.max()))
    other_features, other_labels = features.copy(), labels.copy()
    other_features[5], other_labels[5] = record, label % len(WEIGHTS[name])
    others = np.delete(np.arange(RECORDS), 5)
    whole = gradients.clipped_sum(at, features, labels, clip)
    replaced = gradients.clipped_sum(at, other_features, other_labels, clip)
    without = gradients.clipped_sum(at, features[others], labels[others], clip)
    assert moves_by(whole, replaced) <= Fraction(whole.sensitivity_in_steps(REPLACE_ONE)) ** 2
    assert moves_by(replaced, without) <= Fraction(whole.sensitivity_in_steps(ADD_OR_REMOVE)) ** 2


def moves_by(first, second) -> int:
    """Squared length of the difference, in steps; exact."""
    return sum(int(step) ** 2 for step in first.steps - second.steps)


def test_a_large_weight_reaches_the_sensitivity_and_no_more():
    """Control of the property above: the bound is nearly met, so one that were two thirds of it would fail."""
    gradients, at, features, labels = problem("dense, one output", (1000.0, 1000.0))
    others = np.delete(np.arange(RECORDS), 5)
    whole, without = (
        gradients.clipped_sum(at, features[some], labels[some], 0.3) for some in (np.arange(RECORDS), others)
    )
    share = moves_by(whole, without) / whole.sensitivity_in_steps(ADD_OR_REMOVE) ** 2
    assert 0.99 < share <= 1


def test_the_source_of_a_job_carries_them_to_its_workers():
    spec = ModelSpec("logistic_regression", FEATURES, 2)
    sources = [ModelSource.of(spec, "cross_entropy", {}, weights) for weights in (None, (1.0, 3.0))]
    features, at = np.ones((2, FEATURES)), np.full(FEATURES + 1, 0.1)
    plain, weighted = (source.gradients().rows(at, features, np.array([0, 1])) for source in sources)
    np.testing.assert_allclose(weighted, plain * [[1.0], [3.0]], rtol=1e-6)
