"""Per-record gradients against torch.autograd one record at a time, and what one record can move of a clipped sum."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fate_dp.components.dp_homo_nn import record_arithmetic
from fate_dp.components.dp_homo_nn.gradients import LOSSES, RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights, load_flat
from fate_dp.components.dp_homo_nn.record_arithmetic import MAX_AT_ONCE, GradientRows, Outer, PartsSum
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE
from fate_dp.privacy.mechanisms.clipping import clip_records
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic

torch.set_num_threads(1)


class UsedTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.last = nn.Linear(6, 3)

    def forward(self, features):
        return self.last(torch.tanh(self.layer(torch.tanh(self.layer(features)))))


MODULES = {
    "logistic_regression": lambda: build_model(ModelSpec("logistic_regression", 6, 3)),
    "two classes": lambda: build_model(ModelSpec("logistic_regression", 6, 2)),
    "mlp": lambda: build_model(ModelSpec("mlp", 6, 3, {"hidden": [5]})),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 6, 7)),
        nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 2), bias=False),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(3),
    ),
    "places": lambda: nn.Sequential(nn.Unflatten(1, (3, 2)), nn.Linear(2, 4), nn.Flatten(), nn.Linear(12, 3)),
    "overwritten": lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(inplace=True), nn.Linear(4, 3)),
    "group norm": lambda: nn.Sequential(nn.Linear(6, 4), nn.GroupNorm(1, 4), nn.Tanh(), nn.Linear(4, 3)),
    "dilated": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 1, 6)), nn.Conv2d(1, 2, (1, 2), dilation=2), nn.Flatten(), nn.Linear(8, 3)
    ),
    "used twice": UsedTwice,
}
FEATURES = {"convolution": 84}


def problem(name, records=21, seed=0):
    """(RecordGradients, weights, features, labels) with weights away from zero."""
    torch.manual_seed(seed)
    module, size = MODULES[name](), FEATURES.get(name, 6)
    module(torch.zeros(1, size))
    generator = np.random.default_rng(seed)
    gradients = RecordGradients(module)
    weights = flat_weights(module) + generator.normal(size=gradients.dimension) / 5
    features = generator.normal(size=(records, size)).astype(np.float32)
    labels = generator.integers(0, 2 if name == "two classes" else 3, records)
    return gradients, weights, features, labels, module


def one_by_one(module, loss, weights, features, labels):
    load_flat(module, weights)
    rows = []
    for record, label in zip(torch.from_numpy(features), torch.from_numpy(labels)):
        module.zero_grad()
        LOSSES[loss](module(record[None]), label[None]).sum().backward()
        rows.append(torch.cat([parameter.grad.flatten() for parameter in module.parameters()]).numpy())
    return np.array(rows)


@pytest.mark.parametrize("name", MODULES)
def test_rows_are_the_gradients_of_single_records(name):
    gradients, weights, features, labels, module = problem(name)
    expected = one_by_one(module, "cross_entropy", weights, features, labels)
    rows = gradients.rows(weights, features, labels)
    assert rows.dtype == np.float32
    assert np.allclose(rows, expected, atol=2e-6, rtol=1e-4)


def test_rows_of_the_cnn_are_the_gradients_of_single_records():
    module = build_model(ModelSpec("cnn", 784, 10))
    generator = np.random.default_rng(1)
    features, labels = generator.random((3, 784), dtype=np.float32), np.array([3, 0, 9])
    expected = one_by_one(module, "cross_entropy", flat_weights(module), features, labels)
    gradients = RecordGradients(module)
    assert np.allclose(gradients.rows(flat_weights(module), features, labels), expected, atol=1e-6, rtol=1e-4)
    total = gradients.clipped_sum(flat_weights(module), features, labels, 0.5)
    assert np.allclose(total.value, clip_records(expected, 0.5).value, atol=1e-6)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("scaled", ["", "by input", "by weight"])
def test_the_sum_is_that_of_rows_divided_then_clipped(name, scaled):
    gradients, weights, features, labels, _ = problem(name)
    rows = gradients.rows(weights, features, labels).astype(np.float64)
    scales = None
    if scaled:
        scales = np.random.default_rng(3).uniform(0.2, 5, gradients.dimension)
        if scaled == "by input" and name == "two classes":
            scales[:6] = np.arange(1, 7)
    clip = np.median(np.linalg.norm(rows / (1 if scales is None else scales), axis=1))
    expected = clip_records(rows / (1 if scales is None else scales), clip).value
    total = gradients.clipped_sum(weights, features, labels, clip, scales)
    assert np.abs(total.value - expected).max() < 1e-5 * clip


def test_scales_shared_by_the_outputs_keep_outer_products_and_give_the_same_sum():
    gradients, weights, features, labels, _ = problem("logistic_regression")
    per_input = np.array([0.5, 1, 2, 4, 3, 0.1])
    scales = np.concatenate([np.tile(per_input, 3), np.ones(3)])
    rows = gradients.rows(weights, features, labels) / scales
    total = gradients.clipped_sum(weights, features, labels, 1.0, scales)
    assert np.abs(total.value - clip_records(rows, 1.0).value).max() < 1e-5


# Blocks have one shape, so that a record's bits cannot depend on how many others were sampled, or on their order.
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("spec", [ModelSpec("cnn", 784, 10), ModelSpec("logistic_regression", 3969, 10)], ids=str)
def test_a_records_bits_depend_neither_on_its_place_nor_on_its_companions(spec, threads):
    generator = np.random.default_rng(4)
    features = generator.normal(size=(21, spec.features)).astype(np.float32)
    labels = generator.integers(0, 10, 21)
    gradients = RecordGradients(build_model(spec))
    weights = generator.normal(size=gradients.dimension) / 20
    torch.set_num_threads(threads)
    try:
        rows = gradients.rows(weights, features, labels)
        for count in (21, 16, 5, 1):
            some = generator.permutation(21)[:count]
            assert np.array_equal(gradients.rows(weights, features[some], labels[some]), rows[some])
    finally:
        torch.set_num_threads(1)


def exact_norm_squared(steps):
    return sum(int(step) ** 2 for step in np.ravel(steps))


def is_within(steps, bound_in_steps):
    return exact_norm_squared(steps) <= Fraction(bound_in_steps) ** 2


def summed(outer, rows, clip):
    """Steps of the sum over records of one outer product (left, right) and one part of rows."""
    left, right = outer
    total = PartsSum(left.shape[1] * right.shape[1] + rows.shape[1], clip)
    for start in range(0, len(rows), MAX_AT_ONCE):
        block = [torch.from_numpy(values[start : start + MAX_AT_ONCE]).double() for values in (left, right, rows)]
        total.add([Outer.of(0, *block[:2]), GradientRows.of(left.shape[1] * right.shape[1], block[2])])
    return total.total()


any_float32 = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True)
clips = st.floats(1e-6, 1e6) | st.sampled_from([1e-150, 1e150, 1.0, 2.0, 0.1])
SIZES = (2, 3, 2)


@st.composite
def batches(draw, least=1):
    records = draw(st.integers(least, 5))
    values = draw(st.lists(any_float32, min_size=records * sum(SIZES), max_size=records * sum(SIZES)))
    left, right, rows = np.split(np.array(values, np.float32).reshape(records, -1), np.cumsum(SIZES)[:-1], axis=1)
    return left, right, rows


def only(batch, records):
    left, right, rows = (values[records] for values in batch)
    return (left, right), rows


@settings(deadline=None)
@given(batches(), clips)
def test_removing_a_record_moves_the_sum_by_at_most_the_sensitivity(batch, clip):
    records = np.arange(len(batch[0]))
    whole = summed(*only(batch, records), clip)
    for record in records:
        moved = whole.steps - summed(*only(batch, np.delete(records, record)), clip).steps
        assert is_within(moved, whole.sensitivity_in_steps(ADD_OR_REMOVE))


@settings(deadline=None)
@given(batches(least=2), clips)
def test_replacing_a_record_moves_the_sum_by_at_most_the_sensitivity(batch, clip):
    records = np.arange(len(batch[0]))
    first, second = (summed(*only(batch, some), clip) for some in (records[:-1], records[1:]))
    assert is_within(first.steps - second.steps, first.sensitivity_in_steps(REPLACE_ONE))


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["mlp", "two classes", "overwritten"]), st.lists(any_float32, min_size=12, max_size=12), clips)
def test_replacing_a_record_of_a_module_moves_the_sum_by_at_most_the_sensitivity(name, values, clip):
    gradients, weights, features, labels, _ = PROBLEMS[name]
    sums = []
    for record in np.array(values, np.float32).reshape(2, 6):
        changed = features.copy()
        changed[7] = record
        sums.append(gradients.clipped_sum(weights, changed, labels, clip))
    others = np.delete(np.arange(21), 7)
    without = gradients.clipped_sum(weights, features[others], labels[others], clip)
    assert is_within(sums[0].steps - sums[1].steps, sums[0].sensitivity_in_steps(REPLACE_ONE))
    assert is_within(sums[0].steps - without.steps, sums[0].sensitivity_in_steps(ADD_OR_REMOVE))


PROBLEMS = {name: problem(name) for name in ("mlp", "two classes", "overwritten")}

ADVERSARIAL = [
    ([3.4e38] * 2, [3.4e38] * 3, [3.4e38] * 2),
    ([1e-45] * 2, [1e-45] * 3, [0.0] * 2),
    ([3.4e38, 1e-45], [1e-45, 1e-45, 3.4e38], [1.0, 1e-45]),
    ([1.0, 0.0], [1.0, 1e-8, 1e-8], [0.0, 0.0]),
    ([2.0**60, 1.0], [1 - 2.0**-24] * 3, [1 / 3, 2 / 3]),
]


@pytest.mark.parametrize("record", ADVERSARIAL)
@pytest.mark.parametrize("clip", [1.0, 0.1, 1e-150, 1e150, 7e-3])
def test_one_record_alone_stays_within_the_sensitivity_and_its_opposite_within_twice_the_clip(record, clip):
    left, right, rows = (np.array([values], np.float32) for values in record)
    first, second = summed((left, right), rows, clip), summed((-left, right), -rows, clip)
    assert is_within(first.steps, first.sensitivity_in_steps(ADD_OR_REMOVE))
    assert is_within(first.steps - second.steps, first.sensitivity_in_steps(REPLACE_ONE))


@given(st.floats(2.0**-100, 2.0**100), st.floats(2.0**-100, 2.0**100))
def test_a_clipped_record_keeps_its_direction_and_nearly_all_of_the_clip(left, right):
    left, right = np.array([[left * 0.6, left * 0.8]], np.float32), np.array([[right, -right, right / 2]], np.float32)
    value = summed((left, right), np.zeros((1, 2), np.float32), 2.0**-300).value
    exact = np.outer(left.astype(np.float64), right.astype(np.float64)).ravel()
    assert np.allclose(value[:6] / 2.0**-300, exact / np.linalg.norm(exact), atol=2**-20)


def test_blocks_beyond_what_an_integer_holds_are_carried_without_a_difference(monkeypatch):
    generator = np.random.default_rng(6)
    left, right, rows = (generator.normal(size=(70, size)).astype(np.float32) for size in SIZES)
    steps = summed((left, right), rows, 0.3).steps
    monkeypatch.setattr(record_arithmetic, "BLOCKS_AT_ONCE", 1)
    assert np.array_equal(summed((left, right), rows, 0.3).steps, steps)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("name", ["logistic_regression", "mlp", "convolution", "group norm"])
def test_a_record_that_is_not_finite_contributes_zero_in_company_and_alone(name, bad):
    gradients, weights, features, labels, _ = problem(name)
    spoilt = features.astype(np.float64)
    spoilt[[3, 17], 1] = bad
    good = np.delete(np.arange(21), [3, 17])
    total = gradients.clipped_sum(weights, spoilt, labels, 0.5)
    assert np.array_equal(total.steps, gradients.clipped_sum(weights, features[good], labels[good], 0.5).steps)
    alone = gradients.clipped_sum(weights, spoilt[3:4], labels[3:4], 0.5)
    assert not alone.steps.any()


@pytest.mark.parametrize("label", [-1, 3, 10**9, 1.5, np.nan])
def test_a_label_that_is_no_class_contributes_zero(label):
    gradients, weights, features, labels, _ = problem("mlp")
    wrong = labels.astype(np.float64)
    wrong[2] = label
    others = np.delete(np.arange(21), 2)
    expected = gradients.clipped_sum(weights, features[others], labels[others], 1.0).steps
    assert np.array_equal(gradients.clipped_sum(weights, features, wrong, 1.0).steps, expected)
    assert np.isnan(gradients.losses(weights, features, wrong)[2])


@pytest.mark.parametrize("name", MODULES)
def test_no_records_give_zeros(name):
    gradients, weights, features, labels, _ = problem(name)
    total = gradients.clipped_sum(weights, features[:0], labels[:0], 1.0)
    assert total.steps.shape == (gradients.dimension,) and not total.steps.any()
    assert gradients.rows(weights, features[:0], labels[:0]).shape == (0, gradients.dimension)
    assert gradients.losses(weights, features[:0], labels[:0]).shape == (0,)


def test_the_sum_does_not_depend_on_the_order_of_records_and_adds_up_in_parts():
    gradients, weights, features, labels, _ = problem("mlp", records=40)
    whole = gradients.clipped_sum(weights, features, labels, 0.4)
    order = np.random.default_rng(7).permutation(40)
    assert np.array_equal(gradients.clipped_sum(weights, features[order], labels[order], 0.4).steps, whole.steps)


def test_the_callers_module_is_not_changed():
    gradients, weights, features, labels, module = problem("mlp")
    before = flat_weights(module)
    gradients.clipped_sum(weights, features, labels, 1.0)
    assert np.array_equal(flat_weights(module), before)
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_scores_are_probabilities():
    for name, classes in (("mlp", 3), ("two classes", 2)):
        gradients, weights, features, labels, _ = problem(name)
        scores = gradients.scores(weights, features)
        assert scores.shape == (21, classes) and np.allclose(scores.sum(1), 1)
        losses = gradients.losses(weights, features, labels)
        assert np.allclose(losses, -np.log(scores[np.arange(21), labels]), atol=1e-5)


@pytest.mark.parametrize(
    "change, error, sentence",
    [
        ({"clip": 0}, InvalidArgument, "clip must be .*, got 0"),
        ({"labels": np.zeros(3)}, InvalidArgument, "labels must be one for each"),
        ({"features": np.zeros(6)}, InvalidArgument, "with one row per record, got 1 axes"),
        ({"features": np.array([["a"] * 6])}, InvalidArgument, "of type <U1"),
        ({"scales": np.zeros(53)}, InvalidArgument, "scales must be 53 finite numbers greater than 0"),
        ({"scales": np.ones(3)}, InvalidArgument, "scales must be 53"),
        ({"weights": np.full(53, np.nan)}, ValueError, "weights must be finite, got a NaN"),
    ],
)
def test_what_is_wrong_with_a_call_is_said_in_one_sentence(change, error, sentence):
    gradients, weights, features, labels, _ = problem("mlp")
    arguments = {"weights": weights, "features": features, "labels": labels, "clip": 1.0, **change}
    with pytest.raises(error, match=sentence):
        gradients.clipped_sum(**arguments)


def test_an_unknown_loss_is_refused():
    with pytest.raises(ValueError, match="loss must be one of cross_entropy, got 'hinge'."):
        RecordGradients(build_model(ModelSpec("logistic_regression", 3, 2)), "hinge")


@pytest.mark.parametrize("left, right", [(2.0**476, 2.0**-975), (2.0**-975, 2.0**476), (2.0**600, 2.0**-600)])
@pytest.mark.parametrize("clip", [1e-150, 1.0, 1e150])
def test_factors_of_extreme_sizes_give_a_clipped_product(left, right, clip):
    total = PartsSum(1, clip)
    total.add([Outer.of(0, *(torch.tensor([[value]], dtype=torch.float64) for value in (left, right)))])
    expected = min(left * right, clip)
    assert total.total().value[0] == pytest.approx(expected, rel=1e-6, abs=clip * 2**-30)


class WithSpare(nn.Module):
    """A frozen layer, one that is trained, and one that no output depends on."""

    def __init__(self):
        super().__init__()
        self.frozen, self.last, self.spare = nn.Linear(6, 4), nn.Linear(4, 3), nn.Linear(6, 2)
        self.frozen.requires_grad_(False)

    def forward(self, features):
        return self.last(torch.tanh(self.frozen(features)))


def test_a_frozen_layer_is_not_trained_and_an_unused_one_has_gradients_of_zero():
    module = WithSpare()
    gradients, weights = RecordGradients(module), flat_weights(module)
    assert gradients.dimension == len(weights) == 15 + 14
    features = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    rows = gradients.rows(weights, features, np.arange(5) % 3)
    assert np.abs(rows[:, :15]).max() > 0 and np.all(rows[:, 15:] == 0)
    before = module.frozen.weight.clone()
    load_flat(module, np.zeros(29))
    assert torch.equal(module.frozen.weight, before) and not module.last.weight.any()


def test_a_module_of_frozen_layers_alone_has_nothing_to_train():
    with pytest.raises(InvalidArgument, match="no parameters that require a gradient"):
        RecordGradients(nn.Sequential(nn.Linear(6, 2)).requires_grad_(False))
