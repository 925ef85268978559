"""Convolutions with their pooling, weighted sums and tanh of records, on registers of 8 and of 16 numbers, against torch."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from fate_dp.components.dp_homo_nn import pooled_convolution, record_arithmetic
from fate_dp.components.dp_homo_nn.pooled_convolution import PooledConvolution
from fate_dp.components.dp_homo_nn.record_kernel import RecordKernel, record_kernel

from .tally import Tally

# (channels, outputs, kernel, stride, padding, window, height and width): registers full, one short and one over; runs of one
# number; windows of one place and of the most; images that the windows fill to the last number.
SHAPES = (
    (1, 1, (1, 1), (1, 1), (0, 0), (1, 1), (1, 1)),
    (1, 16, (5, 5), (1, 1), (0, 0), (3, 3), (19, 19)),
    (15, 15, (1, 1), (1, 1), (0, 0), (2, 2), (4, 4)),
    (16, 17, (1, 1), (2, 1), (0, 1), (1, 3), (5, 8)),
    (17, 63, (1, 1), (1, 1), (0, 0), (2, 1), (2, 9)),
    (3, 64, (3, 3), (1, 1), (1, 1), (8, 8), (8, 8)),
    (2, 65, (2, 8), (1, 2), (1, 3), (1, 1), (3, 17)),
)


def kernels(kernel: RecordKernel) -> list[RecordKernel]:
    """The kernel on each kind of register that this processor has."""
    return [dataclasses.replace(kernel, lanes=lanes) for lanes in (8, 16) if lanes <= kernel.lanes]


def all_of(tally: Tally, seed: int, drawn: int) -> None:
    """Fixed shapes and as many drawn ones; sums and tanh at the ends of their ranges."""
    found = record_kernel()
    assert found is not None
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    for shape in (*SHAPES, *(_drawn_shape(draw) for _ in range(drawn))):
        count = draw.choice([0, 1, 3])
        results = [_layer_results(tally, each, shape, count, seed) for each in kernels(found)]
        for other in results[1:]:
            tally.holds("records", ("all registers give the same bits", shape, seed), _same_bits(results[0], other))
    for each in kernels(found):
        _without_numbers(tally, each, generator)
        _weighted_sums(tally, each, generator)
        _tanh(tally, each, generator)


def _drawn_shape(draw: random.Random) -> tuple[Any, ...]:
    kernel, stride, padding = ([draw.randint(*ends) for _ in range(2)] for ends in ((1, 5), (1, 3), (0, 2)))
    window = [draw.randint(1, 3) for _ in range(2)]
    # Room for one to three windows, and up to two numbers beyond.
    sides = [
        max(1, k + s * (w * draw.randint(1, 3) - 1) + draw.randint(0, 2) - 2 * p)
        for k, s, p, w in zip(kernel, stride, padding, window)
    ]
    return draw.randint(1, 20), draw.randint(1, 70), *map(tuple, (kernel, stride, padding, window, sides))


def _layer_results(tally: Tally, kernel: RecordKernel, shape: tuple[Any, ...], count: int, seed: int) -> list[Tensor]:
    channels, outputs, size, stride, padding, window, sides = shape
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    convolution, pooling = nn.Conv2d(channels, outputs, size, stride, padding), nn.MaxPool2d(window)
    records = torch.randn(count, channels, *sides, generator=generator).double()
    with mock.patch.object(pooled_convolution, "record_kernel", lambda: kernel):
        layer = PooledConvolution.of(convolution, pooling, (channels, *sides))
    layer.load()
    found = layer.forward(records)
    slopes = torch.randn(found.shape, generator=generator).double()
    taken = layer.take(slopes)
    parts = [part.rows() for part in layer.parts(taken, {id(parameter): 0 for parameter in layer.parameters})]
    results = [found, layer.backward(taken), *parts]
    module = nn.Sequential(convolution, pooling).double()
    for record in range(count):
        asked = records[record].clone().requires_grad_()
        outcome = module(asked)
        exact = [outcome, *torch.autograd.grad(outcome, [asked, *module.parameters()], slopes[record])]
        for name, ours, theirs in zip(("outputs", "inputs", "weights", "biases"), results, exact):
            is_near = (ours[record].flatten() - theirs.detach().flatten()).norm() <= 1e-5 * theirs.norm() + 1e-30
            tally.holds("records", (name, shape, kernel.lanes, seed), bool(is_near))
    return results


def _without_numbers(tally: Tally, kernel: RecordKernel, generator: torch.Generator) -> None:
    """A NaN is the largest of its windows, as in torch, wherever it stands in them; and no other record has another bit."""
    convolution, pooling = nn.Conv2d(1, 17, 1), nn.MaxPool2d(2)
    with mock.patch.object(pooled_convolution, "record_kernel", lambda: kernel):
        layer = PooledConvolution.of(convolution, pooling, (1, 4, 4))
    layer.load()
    records = torch.randn(3, 1, 4, 4, generator=generator).double()
    clean = layer.forward(records)
    for place, value in ((0, math.nan), (5, math.nan), (6, math.inf), (15, -math.inf)):
        records[1].view(-1)[place] = value
        found = layer.forward(records)
        expected = pooling(convolution(records.float())).isnan()
        tally.holds("records", ("NaN", place), bool((found.isnan() == expected).all()))
        tally.holds("records", ("others", place), _same_bits([clean[0], clean[2]], [found[0], found[2]]))


def _weighted_sums(tally: Tally, kernel: RecordKernel, generator: torch.Generator) -> None:
    for count, columns in ((1, 1), (3, 1023), (32, 1024), (2, 1025), (7, 2049), (0, 5)):
        most = 2**53 // max(count, 1)
        # Whole numbers of 23 bits, and factors that take the sum to 2^53 at most; a NaN counts for nothing with the factor 0.
        whole = torch.randint(-(2**23), 2**23 + 1, (count, columns), generator=generator).float()
        factors = torch.randint(-(most >> 23), (most >> 23) + 1, (count,), generator=generator).double()
        whole[:, :1], factors[:1] = 2.0**23, float(most >> 23)
        exact = [sum(int(w) * int(f) for w, f in zip(of_column, factors)) for of_column in whole.T.tolist()]
        if count > 1:
            exact = [value - int(w) * int(factors[1]) for value, w in zip(exact, whole[1].tolist())]
            whole[1, :], factors[1] = float("nan"), 0.0
        tally.same("records", ("weighted sums", columns), kernel.weighted_sums(whole, factors).tolist(), exact)


def _tanh(tally: Tally, kernel: RecordKernel, generator: torch.Generator) -> None:
    ends = [0.0, -0.0, 5e-324, 20.0, 20.0 - 2**-48, 20.0 + 2**-48, 1e308, float("inf"), float("nan"), 2**-11, 0.5]
    values = torch.cat(
        [
            torch.tensor(ends + [-end for end in ends], dtype=torch.float64),
            torch.randn(4075, generator=generator).double() * 20,
        ]
    )
    for count in (0, 1, 15, 16, len(values)):
        found = kernel.tanh(values[:count], record_arithmetic._TABLE)
        with mock.patch.object(record_arithmetic, "record_kernel", lambda: None):
            plain = record_arithmetic.tanh(values[:count])
        tally.holds("records", ("tanh", count, kernel.lanes), _same_bits([found.abs()], [plain.abs()]))


def _same_bits(left: Sequence[Tensor], right: Sequence[Tensor]) -> bool:
    return all(torch.equal(a.nan_to_num(nan=7.0), b.nan_to_num(nan=7.0)) for a, b in zip(left, right, strict=True))
