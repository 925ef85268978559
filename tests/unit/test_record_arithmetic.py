"""Numbers of a record do not depend on its companions: short numbers, exact sums, exponentials, norms; and that the tests
can fail."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fate_dp.components.dp_homo_nn import record_arithmetic, record_layers
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.features import scattering_features
from fate_dp.components.dp_homo_nn.models.patches import Patches, patch_features
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.components.dp_homo_nn.pooled_convolution import PooledConvolution
from fate_dp.components.dp_homo_nn.record_arithmetic import (
    UnsoundArithmetic,
    bits_for,
    decaying_exponential,
    exact_sums,
    one_thread,
    shorten,
    sigmoid,
    softmax,
    tanh,
)
from fate_dp.components.dp_homo_nn.record_kernel import record_kernel
from fate_dp.components.dp_homo_nn.relevance import group_sums
from fate_dp.components.protocols.noisy_rounds.contribution import with_indicators
from fate_dp.privacy.adaptive_scales import contribution_sums, normalised_sums
from fate_dp.privacy.mechanisms.clipping import clip_records, clip_records_by_group, row_norms
from fate_dp.privacy.mechanisms.second_moments import RowBounds, clip_rows

pytestmark = pytest.mark.arithmetic

any_number = st.floats(allow_nan=False, allow_infinity=False)


def doubles(*shape, seed=0, spread=3.0):
    """Numbers of very different sizes."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=shape) * np.exp(spread * generator.normal(size=shape))


@given(st.lists(any_number, min_size=6, max_size=6), st.integers(12, 26))
def test_short_numbers_are_whole_and_near_the_values(values, bits):
    rows = np.array(values).reshape(2, 3)
    short = shorten(torch.from_numpy(rows), bits)
    integers = short.integers.numpy()
    assert np.array_equal(integers, np.rint(integers)) and np.abs(integers).max() <= 2**bits
    for row, found, unit in zip(rows, integers, short.unit.numpy().ravel()):
        largest = max(map(abs, map(Fraction, row.tolist())))
        for value, whole in zip(row.tolist(), found.tolist()):
            distance = abs(Fraction(value) - Fraction(whole) * Fraction(unit))
            assert distance <= max(largest * Fraction(1, 2**bits), Fraction(1, 2**979))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_record_that_is_not_finite_stays_so_and_touches_no_other(bad):
    rows = torch.from_numpy(doubles(3, 4))
    spoilt = rows.clone()
    spoilt[1, 2] = bad
    found, expected = shorten(spoilt, 20), shorten(rows, 20)
    assert not torch.isfinite(found.values[1]).all()
    assert torch.equal(found.values[[0, 2]], expected.values[[0, 2]])


@pytest.mark.parametrize("terms", [1, 2, 3, 100, 4096, 5000])
def test_products_of_short_numbers_add_up_exactly(terms):
    largest = 2 ** bits_for(terms)
    assert terms * largest**2 <= 2**53
    generator = np.random.default_rng(terms)
    left, right = (generator.integers(-largest, largest + 1, (7, terms)) for _ in range(2))
    left[0], right[0] = largest, largest
    product = torch.from_numpy(left).double() @ torch.from_numpy(right).double().T
    exact = left.astype(object) @ right.astype(object).T
    assert (product.numpy().astype(np.int64).astype(object) == exact).all()


def test_exponentials_are_near_the_true_ones():
    arguments = np.concatenate([np.linspace(0, 45, 4001), 2.0 ** -np.arange(1, 60)])
    found = decaying_exponential(torch.from_numpy(arguments)).numpy()
    exact = np.array([float(mpmath.exp(-min(value, 40.0))) for value in arguments])
    assert np.allclose(found, exact, rtol=2**-44, atol=0)
    values = np.concatenate([-arguments, arguments])
    tensor = torch.from_numpy(values)
    assert np.allclose(tanh(tensor).numpy(), np.tanh(values), atol=2**-44, rtol=0)
    assert np.allclose(sigmoid(tensor).numpy(), 1 / (1 + np.exp(-values)), atol=2**-44, rtol=0)
    logits = doubles(50, 10)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    assert np.allclose(softmax(torch.from_numpy(logits)).numpy(), powers / powers.sum(1, keepdims=True), atol=2**-45)


@given(st.lists(st.lists(any_number, min_size=5, max_size=5), min_size=1, max_size=4))
def test_row_norms_are_above_the_norms_and_hardly(rows):
    fractions, exponents = row_norms(np.array(rows))
    for row, fraction, exponent in zip(rows, fractions.tolist(), exponents.tolist()):
        square = sum(Fraction(value) ** 2 for value in row)
        bound = (Fraction(fraction) * Fraction(2) ** exponent) ** 2
        assert square * (1 + Fraction(1, 2**41)) ** 2 <= bound <= square * (1 + Fraction(1, 2**32)) ** 2


@pytest.mark.parametrize("columns", [1, 30, 4096, 2**17])
def test_row_norms_keep_their_promise_for_many_columns(columns):
    rows = doubles(2, columns, seed=columns)
    fractions, exponents = row_norms(rows)
    for row, fraction, exponent in zip(rows, fractions.tolist(), exponents.tolist()):
        norm = mpmath.sqrt(mpmath.fsum(mpmath.mpf(value) ** 2 for value in row.tolist()))
        excess = mpmath.ldexp(mpmath.mpf(fraction), exponent) / norm - 1
        assert 2.0**-41 <= excess <= (2.0**-32 if columns <= 4096 else 2.0**-20)


def in_other_company(function, rows):
    """The results of each record in blocks of other lengths, orders and layouts in memory, beside those of all together."""
    together, count = function(rows), len(rows)
    generator = np.random.default_rng(1)
    for size in (1, 2, 3, count - 1, count):
        some = generator.permutation(count)[:size]
        yield function(np.asfortranarray(rows[some])), together[some]
        yield function(rows[some]), together[some]
        wide = np.zeros((size, *(2 * side for side in rows.shape[1:])), dtype=rows.dtype)
        inside = wide[(slice(None), *(slice(None, None, 2) for _ in rows.shape[1:]))]
        inside[...] = rows[some]
        yield function(inside), together[some]


def on_tensors(function):
    return lambda rows: function(torch.from_numpy(np.ascontiguousarray(rows))).numpy()


ROW_BOUNDS = RowBounds(21, 2.0)
FUNCTIONS = {
    "exponential": (on_tensors(lambda values: decaying_exponential(values.abs())), (13, 21)),
    "tanh": (on_tensors(tanh), (13, 21)),
    "sigmoid": (on_tensors(sigmoid), (13, 21)),
    "softmax": (on_tensors(softmax), (13, 21)),
    "sums": (on_tensors(exact_sums), (13, 3, 21)),
    "norms": (lambda rows: np.ldexp(*row_norms(rows)), (13, 21)),
    "norms of long rows": (lambda rows: np.ldexp(*row_norms(rows)), (13, 3969)),
    "clipped rows": (lambda rows: clip_rows(rows, np.ones(21), ROW_BOUNDS), (13, 21)),
    "features": (lambda rows: scattering_features(rows.reshape(-1, 1, 16, 16)), (6, 256)),
    "features of patches": (
        lambda rows: patch_features(rows.reshape(-1, 1, 16, 16), Patches((1, 16, 16), filters=5, pictures=20)),
        (6, 256),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_records_numbers_do_not_depend_on_place_company_or_layout(name):
    function, shape = FUNCTIONS[name]
    for found, expected in in_other_company(function, doubles(*shape, spread=1.0)):
        assert np.array_equal(found, expected)


SUMS = {
    "clipped": lambda rows: clip_records(rows, 1.5).steps,
    "clipped by group": lambda rows: np.concatenate(
        [
            part.steps
            for part in clip_records_by_group(rows, [np.arange(0, 21, 2), np.arange(1, 21, 2)], [0.5, 2.0]).sums
        ]
    ),
    "with indicators": lambda rows: with_indicators(rows, 4.0).steps,
    "shares": lambda rows: normalised_sums(np.abs(rows)),
    "contributions": lambda rows: contribution_sums(rows, np.linspace(-1, 2, 21)),
}


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("name", SUMS)
def test_a_record_that_leaves_takes_its_own_part_with_it_and_no_more(name, layout):
    rows = doubles(17, 21, spread=1.0)
    whole = SUMS[name](layout(rows))
    for leaving in (0, 8, 16):
        without = SUMS[name](layout(np.delete(rows, leaving, axis=0)))
        assert np.array_equal(whole - without, SUMS[name](layout(rows[[leaving]])))
    assert np.array_equal(SUMS[name](layout(rows[:1])) + SUMS[name](layout(rows[1:2])), SUMS[name](layout(rows[:2])))


MODELS = {
    "logistic_regression": (lambda: build_model(ModelSpec("logistic_regression", 30, 2)), 30),
    "3969 features": (lambda: build_model(ModelSpec("logistic_regression", 3969, 10)), 3969),
    "mlp": (lambda: build_model(ModelSpec("mlp", 30, 3)), 30),
    "cnn": (lambda: build_model(ModelSpec("cnn", 784, 10)), 784),
    "average pooling": (
        lambda: nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 3, 3, padding=1),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.MaxPool2d(3, stride=1),
            nn.Flatten(),
            nn.Linear(12, 2),
        ),
        64,
    ),
    "one by one": (lambda: nn.Sequential(nn.Linear(30, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)), 30),
}


def problem(name, records=37):
    """(RecordGradients, weights, features, labels); one more record than a block has."""
    make, size = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = make()
    generator = np.random.default_rng(2)
    gradients = RecordGradients(module)
    weights = flat_weights(module) + generator.normal(size=gradients.dimension) / 10
    return (
        gradients,
        weights,
        generator.normal(size=(records, size)).astype(np.float32),
        generator.integers(0, 2, records),
    )


def check_a_records_bits(name):
    gradients, weights, features, labels = problem(name)
    rows = gradients.rows(weights, features, labels)
    whole = gradients.clipped_sum(weights, features, labels, 0.3).steps
    generator = np.random.default_rng(3)
    for count in (37, 33, 32, 5, 1):
        some = generator.permutation(37)[:count]
        assert np.array_equal(gradients.rows(weights, features[some], labels[some]), rows[some])
    order = generator.permutation(37)
    assert np.array_equal(gradients.clipped_sum(weights, features[order], labels[order], 0.3).steps, whole)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_a_records_gradient_does_not_depend_on_its_place_or_company(name, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        check_a_records_bits(name)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def depending_on_place(method):
    """The method of a layer, with other last bits (of float32) in the records that stand further back."""

    def changed(layer, values, *rest):
        found = method(layer, values, *rest)
        places = torch.arange(len(found)).view(-1, *[1] * (found.dim() - 1))
        return found * (1 + places * 2.0**-20)

    return changed


MUTANTS = {
    "3969 features": (record_layers.Dense, "forward"),
    "mlp": (record_layers.Dense, "backward"),
    "cnn": (record_layers.Convolution if record_kernel() is None else PooledConvolution, "forward"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_rows_that_depend_on_their_place_are_seen_on_any_machine(monkeypatch, name):
    layer, method = MUTANTS[name]
    monkeypatch.setattr(layer, method, depending_on_place(getattr(layer, method)))
    gradients, weights, features, labels = problem(name)
    with pytest.raises(UnsoundArithmetic, match="gradients of a record have other last bits"):
        gradients.clipped_sum(weights, features, labels, 1.0)
    # The tests above see it as well, without the check that a training makes of itself.
    monkeypatch.setattr(RecordGradients, "_check_bits", lambda self, features, labels: None)
    with pytest.raises(AssertionError):
        check_a_records_bits(name)


def test_products_that_are_rounded_are_seen_before_they_matter(monkeypatch):
    """A library that works in float32 underneath, say, gives nearly the same gradients."""
    exact = torch.Tensor.__matmul__

    def rounded(left, right):
        return exact(left.float(), right.float()).double() if left.dtype == torch.float64 else exact(left, right)

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    gradients, weights, features, labels = problem("mlp")
    with pytest.raises(UnsoundArithmetic, match="sums of a record"):
        gradients.clipped_sum(weights, features, labels, 1.0)


def test_relevances_that_depend_on_their_place_are_seen_on_any_machine(monkeypatch):
    method = record_layers.InAnyOrder.sums
    monkeypatch.setattr(record_layers.InAnyOrder, "sums", depending_on_place(method))
    with pytest.raises(UnsoundArithmetic, match="relevances of a record have other last bits"):
        group_sums(build_model(ModelSpec("mlp", 30, 3)), np.ones((2, 30)))


def test_a_module_that_remembers_records_is_refused():
    class Remembering(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)
            self.calls = 0

        def forward(self, features):
            self.calls += len(features)
            return self.layer(features) * (1 + 2.0**-20 * self.calls)

    with pytest.raises(UnsoundArithmetic):
        RecordGradients(Remembering()).rows(np.ones(10), np.ones((2, 4)), np.zeros(2))


def test_one_thread_is_given_back():
    before = torch.get_num_threads()
    with pytest.raises(ValueError), one_thread():
        assert torch.get_num_threads() == 1
        raise ValueError
    assert torch.get_num_threads() == before


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.sampled_from([2.0**-1000, 1e-160, 1.0, 1e160, 2.0**1000]))
def test_extreme_records_are_clipped_alone_as_beside_others(seed, size):
    rows = doubles(4, 5, seed=seed)
    rows[1] *= size
    whole = clip_records(rows, 1.0).steps
    assert np.array_equal(whole, sum(clip_records(rows[[place]], 1.0).steps for place in range(4)))


def test_the_table_of_exponentials_is_rounded_correctly_and_so_the_same_on_any_processor():
    with mpmath.workprec(200):
        exact = [mpmath.exp(-mpmath.mpf(step) / record_arithmetic.STEPS_OF_ONE) for step in range(0, 40961, 97)]
    assert record_arithmetic._TABLE[::97].tolist() == list(map(float, exact))
