"""A convolution and the maximum pooling behind it as one layer, by the native kernel.

Two things make it cheaper than a convolution by itself, and than ghost norms. Only one place of each window has a slope, so
that a gradient is a sum over W windows, not P places: for windows of a by b, a b times less work for the weights and for the
inputs. And patches are read where they lie and never copied.

What a record's gradient costs, in multiply-adds, for O outputs and I inputs of a place:

- multiplied out: W O I, and O I numbers to round and to add up;
- ghost norms ([Goodfellow2015]): P^2 (O + I) for the norm, and then P O I once more for the weighted sum, which has to be
  exact, in float64, twice as dear. That is less only where P^2 (O + I) + 2 P O I is below W O I + c O I, with c taken as 4 for
  rounding and adding; for P = 1, a dense layer, always, so `record_layers.Dense` never multiplies out; for the second
  convolution of the source's CNN (P = 25, W = 4, O = 64, I = 800) it would be 3.1 million against 0.4 million.

So there is no choice to be made at run time: one place is kept as two vectors, several are multiplied out.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from .record_arithmetic import GradientRows, Part, Short, bits_for_squares
from .record_kernel import SLACK, RecordKernel, Shape, record_kernel
from .record_layers import Layer, is_plain, pair_of

MAX_WINDOW = 64
"""Places in a window that the kernel takes; larger ones would not gain."""


class PooledConvolution(Layer[Tensor]):
    """``nn.Conv2d`` of one group, without dilation, padded by zeros, and an ``nn.MaxPool2d`` whose windows lie side by side."""

    @classmethod
    def of(cls, convolution: object, pooling: object, shape: Sequence[int]) -> "PooledConvolution | None":
        """For records (channels, height, width); None without the kernel, and for layers of other kinds."""
        kernel = record_kernel()
        if kernel is None or type(convolution) is not nn.Conv2d or type(pooling) is not nn.MaxPool2d:
            return None
        if any(layer._forward_hooks or layer._forward_pre_hooks for layer in (convolution, pooling)):
            return None
        window, others = pair_of(pooling.kernel_size), (pooling.padding, pooling.dilation, pooling.ceil_mode)
        apart = pair_of(pooling.stride) == window and (pair_of(others[0]), pair_of(others[1])) == ((0, 0), (1, 1))
        if not is_plain(convolution) or not apart or others[2] or pooling.return_indices:
            return None
        return cls(kernel, convolution, window, shape) if window[0] * window[1] <= MAX_WINDOW else None

    def __init__(self, kernel: RecordKernel, layer: nn.Conv2d, window: Sequence[int], shape: Sequence[int]) -> None:
        self._kernel, self._layer, self.parameters = kernel, layer, tuple(layer.parameters())
        self._inputs = channels, height, width = tuple(shape)
        (self._high, self._wide), (down, right) = pair_of(layer.kernel_size), pair_of(layer.stride)
        self._above, self._beside = pair_of(layer.padding)
        self._size = (height + 2 * self._above, width + 2 * self._beside, channels)
        self._windows = (
            ((self._size[0] - self._high) // down + 1) // window[0],
            ((self._size[1] - self._wide) // right + 1) // window[1],
        )
        row, step = self._size[1] * channels, right * channels
        place = torch.arange(window[0]).unsqueeze(1) * (down * row) + torch.arange(window[1]) * step
        start = torch.arange(self._windows[0]).unsqueeze(1) * (window[0] * down * row)
        start = start + torch.arange(self._windows[1]) * (window[1] * step)
        # Held, since the structure knows their memory alone.
        self._places, self._starts = place.flatten().contiguous(), start.flatten().contiguous()
        outputs, run = layer.out_channels, self._wide * channels
        padded = -(-outputs // 16) * 16
        sizes = (self._size[0] * row, row, self._high, run, down * row, step, outputs, padded, *window, *self._windows)
        self._shape = Shape(*sizes, self._starts.data_ptr(), self._places.data_ptr())
        self._inside, self._padded = self._high * run, padded
        self.bits = bits_for_squares(outputs * self._inside)
        self.width = max(outputs * self._inside // 2, self._shape.image)
        terms = max(start.numel(), outputs + 1)
        self._terms = torch.empty(terms), torch.empty(terms, dtype=torch.int64)
        self._gradient = torch.empty(outputs * self._inside)
        self._strip = torch.empty(window[0] * self._windows[1] * window[1] * padded)

    def load(self) -> None:
        weight = self._layer.weight.detach().permute(0, 2, 3, 1).reshape(self._shape.outputs, -1)
        self._by_output = nn.functional.pad(weight.flatten(), (0, SLACK))
        self._by_place = nn.functional.pad(weight, (0, 0, 0, self._padded - len(weight))).mT.contiguous()
        bias = self._layer.bias
        self._bias = torch.zeros(self._padded)
        if bias is not None:
            self._bias[: len(weight)] = bias.detach()

    def forward(self, inputs: Tensor) -> Tensor:
        count, outputs = len(inputs), self._shape.outputs
        if tuple(inputs.shape[1:]) != self._inputs:
            raise ValueError(f"A record must have the shape {self._inputs}, got {tuple(inputs.shape[1:])}.")
        self._images = torch.zeros(count * self._shape.image + SLACK)
        self._inner(self._images, count).copy_(inputs)
        found = torch.empty(count, *self._windows, outputs, dtype=torch.float64)
        self._chosen = torch.empty(count, *self._windows, self._padded, dtype=torch.int32)
        arguments = (found, self._chosen, self._images, self._by_place, self._bias, self._strip)
        self._kernel.call("pooled", self._shape, *arguments, count)
        return found.permute(0, 3, 1, 2)

    def take(self, slopes: Tensor) -> Tensor:
        expected = (len(self._chosen), self._shape.outputs, *self._windows)
        if tuple(slopes.shape) != expected:
            raise ValueError(f"Slopes of the block must have the shape {expected}, got {tuple(slopes.shape)}.")
        return slopes.permute(0, 2, 3, 1).to(torch.float32, memory_format=torch.contiguous_format)

    def backward(self, slopes: Tensor) -> Tensor:
        images = torch.empty(len(slopes) * self._shape.image)
        self._kernel.call(
            "inputs", self._shape, images, slopes, self._chosen, self._by_output, *self._terms, len(slopes)
        )
        return self._inner(images, len(slopes))

    def parts(self, slopes: Tensor, starts: Mapping[int, int]) -> Iterable[Part]:
        count, outputs = len(slopes), self._shape.outputs
        whole = torch.empty(count, outputs * self._inside)
        units, squares, biases = (torch.empty(count, size, dtype=torch.float64) for size in (1, 1, outputs))
        of_record = (whole, units, squares, biases, self._images, slopes, self._chosen)
        self._kernel.call("weights", self._shape, *of_record, self.bits, self._gradient, *self._terms, count)
        shape = (outputs, self._high, self._wide, self._size[2])
        yield GradientRows(starts[id(self._layer.weight)], Short(whole, units, self.bits), shape, squares.view(-1))
        if self._layer.bias is not None:
            yield GradientRows.of(starts[id(self._layer.bias)], biases)

    def _inner(self, images: Tensor, count: int) -> Tensor:
        """The images without their border, as (count, channels, height, width); the channel is the last axis in memory."""
        framed = images[: count * self._shape.image].view(count, *self._size)
        rows, columns = (slice(side, size - side) for side, size in zip((self._above, self._beside), self._size))
        return framed[:, rows, columns].permute(0, 3, 1, 2)
