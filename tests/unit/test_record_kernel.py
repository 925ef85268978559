"""The native kernel of private steps against torch: the same bits where they are promised, tight bounds where not."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from fate_dp.components.dp_homo_nn import pooled_convolution, record_arithmetic, record_kernel
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model, fill_uniform
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.components.dp_homo_nn.pooled_convolution import PooledConvolution
from fate_dp.components.dp_homo_nn.record_arithmetic import GradientRows, PartsSum, Short, shorten, tanh

KERNEL = record_kernel.record_kernel()
pytestmark = [
    pytest.mark.arithmetic,
    pytest.mark.skipif(KERNEL is None, reason="the kernel is not built, or this processor cannot run it"),
]
LANES = [lanes for lanes in (8, 16) if KERNEL is not None and lanes <= KERNEL.lanes]


def use(monkeypatch, kernel):
    for module in (pooled_convolution, record_arithmetic):
        monkeypatch.setattr(module, "record_kernel", lambda: kernel)


def two_convolutions(channels, outputs, kernel, stride, padding, window, side):
    first = nn.Conv2d(channels, outputs, kernel, stride=stride, padding=padding, bias=outputs % 2 == 0)
    with torch.no_grad():
        shape = nn.MaxPool2d(window)(first(torch.zeros(1, channels, *side))).shape[1:]
    second = nn.Conv2d(outputs, 5, 2)
    inside = nn.MaxPool2d(2)(torch.zeros(1, 5, shape[1] - 1, shape[2] - 1)).numel()
    layers = [nn.Unflatten(1, (channels, *side)), first, nn.Tanh(), nn.MaxPool2d(window)]
    layers += [second, nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(inside, 3)]
    return fill_uniform(nn.Sequential(*layers), 1)


SHAPES = {
    "one channel": (1, 16, 5, 1, 0, 3, (20, 23)),
    "odd numbers": (3, 7, (2, 3), (1, 2), (1, 2), (2, 3), (17, 40)),
    "many outputs": (2, 67, 3, 1, 1, 2, (9, 16)),
    "long runs": (19, 34, 3, 1, 0, (1, 2), (8, 11)),
}


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_gradients_are_those_of_autograd_in_float64(monkeypatch, shape, lanes):
    use(monkeypatch, dataclasses.replace(KERNEL, lanes=lanes))
    module = two_convolutions(*shape)
    generator = np.random.default_rng(2)
    features = generator.normal(size=(6, shape[0] * shape[-1][0] * shape[-1][1])).astype(np.float32)
    labels = generator.integers(0, 3, 6)
    gradients = RecordGradients(module)
    rows = gradients.rows(flat_weights(module), features, labels)
    kinds = [type(layer) for layer in gradients._layered._layers]
    assert kinds.count(PooledConvolution) == 2
    exact = module.double()
    for row, record, label in zip(rows, torch.from_numpy(features).double(), torch.from_numpy(labels)):
        loss = nn.functional.cross_entropy(exact(record[None]), label[None])
        expected = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(exact.parameters()))])
        assert np.linalg.norm(row - expected.numpy()) <= 1e-5 * expected.norm()


def cnn_and_records(count=9):
    spec = ModelSpec("cnn", 1024, 10)
    module, generator = build_model(spec), np.random.default_rng(3)
    features = generator.random((count, 1024), dtype=np.float32)
    return module, features, generator.integers(0, 10, count)


def test_all_widths_of_registers_give_the_same_bits(monkeypatch):
    module, features, labels = cnn_and_records()
    found = []
    for lanes in LANES:
        use(monkeypatch, dataclasses.replace(KERNEL, lanes=lanes))
        found.append(RecordGradients(module).clipped_sum(flat_weights(module), features, labels, 0.1).steps)
    assert all(np.array_equal(steps, found[0]) for steps in found)


def test_clipped_sums_are_those_without_the_kernel(monkeypatch):
    module, features, labels = cnn_and_records()
    weights, sums = flat_weights(module), []
    for kernel in (KERNEL, None):
        use(monkeypatch, kernel)
        sums.append(RecordGradients(module).clipped_sum(weights, features, labels, 0.1).value)
    assert np.linalg.norm(sums[0] - sums[1]) <= 1e-5 * np.linalg.norm(sums[1])


def test_a_record_moves_the_sum_by_at_most_the_clip_and_by_the_same_steps_in_any_company():
    module, features, labels = cnn_and_records(40)
    gradients, weights, clip = RecordGradients(module), flat_weights(module), 0.1
    # The records of a block, with one that is no number.
    features[5, 7] = np.nan
    total = gradients.clipped_sum(weights, features, labels, clip)
    for place in (0, 5, 39):
        others = np.arange(40) != place
        moved = total.steps - gradients.clipped_sum(weights, features[others], labels[others], clip).steps
        alone = gradients.clipped_sum(weights, features[~others], labels[~others], clip)
        assert np.linalg.norm(moved * total.grid) <= total.sensitivity("add_or_remove")
        # The part below a step is dropped once for a sum.
        assert np.abs(moved - alone.steps).max() <= 1
        assert np.linalg.norm(alone.value) <= (0 if place == 5 else clip)


def test_whole_numbers_their_norms_and_sums_are_those_of_torch(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(32, 5003, generator=generator) * 10 ** (6 * torch.randn(32, 1, generator=generator))
    bits = record_arithmetic.bits_for_squares(5003)
    short = shorten(values, bits)
    whole, squares = short.integers.float(), (short.integers * short.integers).sum(1)
    native = GradientRows(0, Short(whole, short.unit, bits), squares=squares)
    plain = GradientRows(0, short)
    found = []
    for rows in (native, plain):
        total = PartsSum(5003, 1e-3)
        total.add([rows])
        found.append(total.total().steps)
    assert np.array_equal(*found)


@pytest.mark.parametrize("lanes", LANES)
def test_tanh_has_the_bits_of_the_plain_way(monkeypatch, lanes):
    values = torch.randn(4, 1001, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 20
    values[0, :6] = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-300])
    use(monkeypatch, dataclasses.replace(KERNEL, lanes=lanes))
    native = tanh(values)
    use(monkeypatch, None)
    is_number = ~torch.isnan(values)
    assert torch.equal(native[is_number], tanh(values)[is_number])
    assert native[~is_number].abs().max() == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_overflow_within_a_record_spoils_that_record_alone(bad):
    module, features, labels = cnn_and_records(4)
    layer = PooledConvolution.of(module[2], module[4], (1, 32, 32))
    layer.load()
    images = torch.from_numpy(features).view(4, 1, 32, 32).double()
    outputs = layer.forward(images)
    slopes = torch.ones_like(outputs)
    clean = [part.rows() for part in layer.parts(layer.take(slopes), dict(zip(map(id, layer.parameters), (0, 800))))]
    slopes[1, 3, 2, 2] = bad
    parts = list(layer.parts(layer.take(slopes), dict(zip(map(id, layer.parameters), (0, 800)))))
    assert torch.isnan(parts[0].squares).tolist() == [False, True, False, False]
    assert torch.equal(parts[0].rows()[[0, 2, 3]], clean[0][[0, 2, 3]])


def test_tensors_that_the_kernel_would_read_wrongly_are_refused():
    values, table = torch.zeros(4, 6, dtype=torch.float64), record_arithmetic._TABLE
    whole, factors = torch.ones(4, 6), torch.ones(4, dtype=torch.float64)
    assert KERNEL.tanh(values.T, table).shape == (6, 4)
    for call in (
        lambda: KERNEL.tanh(values.float(), table),
        lambda: KERNEL.tanh(values[:, ::2], table),
        lambda: KERNEL.tanh(values[:1].expand(4, 6), table),
        lambda: KERNEL.weighted_sums(whole.T, torch.ones(6, dtype=torch.float64)),
        lambda: KERNEL.weighted_sums(whole.double(), factors),
        lambda: KERNEL.weighted_sums(whole, factors[:3]),
    ):
        with pytest.raises(ValueError, match="must .*, got "):
            call()


def test_slopes_and_records_of_another_shape_than_the_layers_are_refused():
    convolution, pooling = nn.Conv2d(2, 3, 2), nn.MaxPool2d(2)
    layer = PooledConvolution.of(convolution, pooling, (2, 5, 5))
    layer.load()
    slopes = layer.forward(torch.zeros(4, 2, 5, 5))
    for call in (
        lambda: layer.take(slopes[:3]),
        lambda: layer.take(slopes[..., :1]),
        lambda: layer.forward(torch.zeros(4, 1, 5, 5)),
    ):
        with pytest.raises(ValueError, match="must have the shape .*, got "):
            call()


def test_without_the_kernel_one_line_says_so(monkeypatch, caplog):
    monkeypatch.setenv("FATE_DP_KERNEL", "off")
    record_kernel.record_kernel.cache_clear()
    with caplog.at_level("INFO"):
        assert record_kernel.record_kernel() is None
    record_kernel.record_kernel.cache_clear()
    assert "switched off; torch computes instead" in caplog.text
