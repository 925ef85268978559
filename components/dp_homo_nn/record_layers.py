"""Layers of a module, forward and backward over a block of records, in which no record feels its companions.

Neither their number nor their values nor its place among them changes a bit of a record's outputs and slopes:

- *Dense layers* (`Dense`) round what they multiply to short whole numbers (`record_arithmetic`). Their matrix products
  over a block are then exact, in whatever order a library adds. What is rounded away is below 2^-16 of a record's largest
  number, 2^-20 in layers of up to 4096 terms.
- *Convolutions* (`Convolution`) multiply each record by a call of its own, in float32: all calls have the same shapes,
  in memory of the same alignment, by one thread, and none sees two records. That such a call gives the same bits for the
  same bytes is the one thing that is assumed of a library, and what that of the processor's maker promises.
- *Everything else* is done element by element, or only moves numbers.

A layer computes ``forward`` first and then, for the same block, ``backward``: the slopes of its inputs from those of its
outputs. Layers with parameters also give the ``parts`` of each record's gradient (`record_arithmetic`): the gradient of a
layer's weights at one record is a sum over the layer's places p of outer products, the slopes at the outputs of p times
the inputs that p reads. A dense layer has one place, so its gradients are kept as two vectors and never multiplied out; a
convolution has one place per pixel of its output, whose inputs are cut out as patches (K. Chellapilla et al., "High
performance convolutional neural networks", 2006; for per-record norms I. Goodfellow, arXiv 1510.01799).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn

from .record_arithmetic import (
    EXACT_BITS,
    MAX_BITS,
    GradientRows,
    Outer,
    Part,
    Short,
    bits_for,
    one_thread,
    shorten,
    tanh,
)

RESHAPED = (nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout, nn.Dropout2d)
ACTIVATIONS = (nn.Tanh, nn.ReLU)
# No more than 2^13 windows of a pooling hold the same number: their kernel would have as many.
MAX_WINDOWS_BITS = 13


def record_layer(layer: Any, shape: Sequence[int]) -> "Layer | None":
    """The counterpart of a torch layer for records of a shape in which none feels its companions; None without any."""
    kind = type(layer)
    if layer._forward_hooks or layer._forward_pre_hooks or getattr(layer, "return_indices", False):
        return None
    if kind is nn.Linear:
        return Dense(layer, shape)
    if kind is nn.Conv2d:
        return Convolution(layer, shape) if is_plain(layer) else None
    if kind is nn.AvgPool2d or kind is nn.AdaptiveAvgPool2d:
        return Averaged.of(layer, shape)
    others: dict[type, Callable[[Any], Layer]] = {nn.MaxPool2d: LargestOnly, nn.ZeroPad2d: Padded}
    others |= dict.fromkeys(RESHAPED, Reshaped) | dict.fromkeys(ACTIVATIONS, Activation)
    return others[kind](layer) if kind in others else None


def layers_in_order(module: nn.Module) -> list[nn.Module]:
    """The layers of a module one after the other, Sequentials within it unfolded; a module of another kind is one layer."""
    if type(module) is nn.Sequential and not (module._forward_hooks or module._forward_pre_hooks):
        return [layer for part in module for layer in layers_in_order(part)]
    return [module]


class Room:
    """Memory that the next block uses again. Each record's piece begins at a multiple of 64 bytes, as torch's memory does."""

    def __init__(self, dtype: torch.dtype, *shape: int) -> None:
        self._shape, self._size = shape, math.prod(shape)
        numbers = 64 // dtype.itemsize
        self._memory = torch.empty(0, -(-self._size // numbers) * numbers, dtype=dtype)

    def of(self, records: int) -> Tensor:
        """(records, ...) of the stated shape, holding anything."""
        if len(self._memory) < records:
            self._memory = self._memory.new_empty(records, self._memory.shape[1])
        return self._memory[:records, : self._size].unflatten(1, self._shape)


Taken = TypeVar("Taken", Tensor, Short)
"""Slopes as a layer takes them."""


class Layer(ABC, Generic[Taken]):
    """What all layers share: no parameters, and slopes that are taken as they come."""

    parameters: tuple[nn.Parameter, ...] = ()
    #: Numbers per record that the layer makes beside its outputs.
    width = 0

    def load(self) -> None:  # noqa: B027 - a layer without parameters has nothing to take on
        """Take on the weights that the torch layer has now."""

    def is_exact(self, records: int) -> bool:
        """Whether sums in blocks of so many records are exact on this machine, where the layer rests on that."""
        return True

    @abstractmethod
    def forward(self, inputs: Tensor) -> Tensor:
        """The layer's outputs, float64 (n, ...)."""

    @abstractmethod
    def backward(self, slopes: Taken) -> Tensor:
        """Slopes of the inputs of the last `forward`."""

    def take(self, slopes: Tensor) -> Taken:
        """Slopes of the outputs in the form that ``parts`` and ``backward`` want; they may be overwritten."""
        return cast(Taken, slopes)

    def parts(self, slopes: Taken, starts: Mapping[int, int]) -> Iterable[Part]:
        """Parts of the gradients of the layer's parameters; ``starts`` says where each stands among all."""
        return []


class Dense(Layer[Short]):
    """``nn.Linear`` on records (inputs,) or (places, ..., inputs): short inputs, weights and slopes."""

    def __init__(self, layer: nn.Linear, shape: Sequence[int]) -> None:
        self._layer, self._places = layer, math.prod(shape[:-1])
        self._bits = min(MAX_BITS, bits_for(max(layer.in_features, layer.out_features, self._places)))
        self.parameters = tuple(layer.parameters())

    def load(self) -> None:
        weight = self._layer.weight.detach().double()
        short = shorten(weight.reshape(1, -1), self._bits)
        self._weight, self._unit = short.integers.view_as(weight), short.unit.item()

    def is_exact(self, records: int) -> bool:
        generator = torch.Generator().manual_seed(0)
        weight, given, slopes = (
            torch.randint(-(2**self._bits), 2**self._bits + 1, shape, generator=generator).double()
            for shape in (self._weight.shape, (records, self._weight.shape[1]), (records, len(self._weight)))
        )
        forward = torch.equal(given @ weight.mT, given.flip(1) @ weight.flip(1).mT)
        return forward and torch.equal(slopes @ weight, slopes.flip(1) @ weight.flip(0))

    def forward(self, inputs: Tensor) -> Tensor:
        self._inputs = shorten(inputs.double(), self._bits)
        found = (self._inputs.integers @ self._weight.mT).mul_(self._inputs.unit * self._unit)
        return found if self._layer.bias is None else found.add_(self._layer.bias.detach().double())

    def take(self, slopes: Tensor) -> Short:
        return shorten(slopes, self._bits)

    def backward(self, slopes: Short) -> Tensor:
        return (slopes.integers @ self._weight).mul_(slopes.unit * self._unit)

    def parts(self, slopes: Short, starts: Mapping[int, int]) -> Iterable[Part]:
        at, bias = starts[id(self._layer.weight)], self._layer.bias
        if slopes.integers.dim() == 2:
            yield Outer(at, slopes, self._inputs)
            if bias is not None:
                yield GradientRows(starts[id(bias)], slopes)
            return
        ours, theirs = (short.integers.reshape(len(short), self._places, -1) for short in (slopes, self._inputs))
        units = slopes.unit.view(-1, 1), self._inputs.unit.view(-1, 1)
        yield GradientRows.of(at, torch.bmm(ours.mT, theirs).flatten(1) * units[0] * units[1])
        if bias is not None:
            yield GradientRows.of(starts[id(bias)], ours.sum(1) * units[0])


class Convolution(Layer[Tensor]):
    """``nn.Conv2d`` of one group, without dilation, padded by zeros; the channel is the last axis in memory."""

    def __init__(self, layer: Any, shape: Sequence[int]) -> None:
        channels, height, width = shape
        (self._high, self._wide), (self._down, self._right) = layer.kernel_size, layer.stride
        (self._above, self._beside), self._channels = layer.padding, channels
        self._height, self._breadth = height + 2 * self._above, width + 2 * self._beside
        self._rows = (self._height - self._high) // self._down + 1
        self._columns = (self._breadth - self._wide) // self._right + 1
        self._layer, self.parameters = layer, tuple(layer.parameters())
        outputs, places, inside = layer.out_channels, self._rows * self._columns, self._high * self._wide * channels
        self.width = max(places, outputs) * inside
        self._patches_room, self._places_room = (Room(torch.float32, places, inside) for _ in range(2))
        self._sums_room, self._slopes_room = (Room(torch.float32, places, outputs) for _ in range(2))
        self._rows_room, self._short_room = (Room(kind, outputs * inside) for kind in (torch.float32, torch.float64))
        self._ones = torch.ones(1, places)

    def load(self) -> None:
        weight = self._layer.weight.detach()
        self._weight = weight.permute(0, 2, 3, 1).reshape(len(weight), -1).contiguous()

    def forward(self, inputs: Tensor) -> Tensor:
        image = inputs.float().permute(0, 2, 3, 1)
        if self._above or self._beside:
            image = nn.functional.pad(image, (0, 0, self._beside, self._beside, self._above, self._above))
        # Copies long runs, since the channel comes last.
        patches = image.unfold(1, self._high, self._down).unfold(2, self._wide, self._right).permute(0, 1, 2, 4, 5, 3)
        self._patches, found = (room.of(len(inputs)) for room in (self._patches_room, self._sums_room))
        self._patches.view(patches.shape).copy_(patches)
        with one_thread():
            for patches_of_one, found_of_one in zip(self._patches, found):
                torch.mm(patches_of_one, self._weight.mT, out=found_of_one)
        if self._layer.bias is not None:
            found.add_(self._layer.bias.detach())
        return found.unflatten(1, (self._rows, self._columns)).permute(0, 3, 1, 2)

    def take(self, slopes: Tensor) -> Tensor:
        return self._slopes_room.of(len(slopes)).copy_(slopes.permute(0, 2, 3, 1).flatten(1, 2))

    def backward(self, slopes: Tensor) -> Tensor:
        """What several patches read is added up in one order: along rows, then along columns."""
        places = self._places_room.of(len(slopes))
        with one_thread():
            for slopes_of_one, places_of_one in zip(slopes, places):
                torch.mm(slopes_of_one, self._weight, out=places_of_one)
        places = places.view(len(slopes), self._rows, self._columns, self._high, self._wide, self._channels)
        strips = places.new_zeros(len(slopes), self._height, self._columns, self._wide, self._channels)
        for row in range(self._high):
            strips[:, row : row + self._down * self._rows : self._down] += places[:, :, :, row]
        image = places.new_zeros(len(slopes), self._height, self._breadth, self._channels)
        for column in range(self._wide):
            image[:, :, column : column + self._right * self._columns : self._right] += strips[:, :, :, column]
        inside = image[:, self._above : self._height - self._above, self._beside : self._breadth - self._beside]
        return inside.permute(0, 3, 1, 2)

    def parts(self, slopes: Tensor, starts: Mapping[int, int]) -> Iterable[Part]:
        outputs, inside = self._weight.shape
        rows = self._rows_room.of(len(slopes))
        with one_thread():
            for slopes_of_one, patches_of_one, row in zip(slopes, self._patches, rows.unflatten(1, (outputs, inside))):
                torch.mm(slopes_of_one.mT, patches_of_one, out=row)
            sums = torch.cat([torch.mm(self._ones, slopes_of_one) for slopes_of_one in slopes])
        shape = (outputs, self._high, self._wide, self._channels)
        yield GradientRows.of(starts[id(self._layer.weight)], rows, shape, self._short_room.of(len(slopes)))
        if self._layer.bias is not None:
            yield GradientRows.of(starts[id(self._layer.bias)], sums.double())


class InAnyOrder(Layer[Tensor]):
    """A linear layer of any kind that torch computes on whole numbers; no gradients of weights.

    Inputs, weights and slopes are taken as the sum of two short numbers each, so their products are four exact ones; what
    is rounded away is below 2^-32 for up to 2^21 weights.
    """

    def __init__(self, layer: Any) -> None:
        self._layer, self._bits = layer, bits_for(layer.weight.numel())

    def load(self) -> None:
        weight = self._layer.weight.detach().double()
        self._weights = [(part.integers[0], part.unit.view(-1)) for part in _halves(weight.unsqueeze(0), self._bits)]

    def sums(self, inputs: Tensor) -> Tensor:
        """The layer without its bias."""
        self._shape = inputs.shape
        return self._added(inputs, self._apply)

    def forward(self, inputs: Tensor) -> Tensor:
        found, bias = self.sums(inputs), self._layer.bias
        if bias is None:
            return found
        return found + bias.detach().double().view(
            -1, *[1] * (found.dim() - 2 if isinstance(self._layer, nn.Conv2d) else 0)
        )

    def backward(self, slopes: Tensor) -> Tensor:
        """By ``torch.autograd``, for which it does not matter what the inputs were: the layer is linear."""

        def transposed(integers: Tensor, weight: Tensor) -> Tensor:
            inputs = torch.zeros(self._shape, dtype=torch.float64, requires_grad=True)
            with torch.enable_grad():
                return torch.autograd.grad(self._apply(inputs, weight), inputs, integers)[0]

        return self._added(slopes, transposed)

    def _added(self, values: Tensor, product: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        found = torch.zeros((), dtype=torch.float64)
        for part in _halves(values.double(), self._bits):
            for weight, unit in self._weights:
                product_of_parts = product(part.integers, weight)
                found = found + product_of_parts * (part.unit.view(-1, *[1] * (product_of_parts.dim() - 1)) * unit)
        return found

    def _apply(self, integers: Tensor, weight: Tensor) -> Tensor:
        if isinstance(self._layer, nn.Linear):
            return nn.functional.linear(integers, weight)
        return self._layer._conv_forward(integers, weight, None)


class Averaged(InAnyOrder):
    """Average pooling: the sum over a window, which is exact, over its size."""

    def __init__(self, layer: Any, terms: int) -> None:
        self._layer, self._bits = layer, bits_for(terms)
        self._weights: list[tuple[Any, Tensor]] = [(None, torch.ones(1, dtype=torch.float64))]

    def load(self) -> None:
        """There are no weights."""

    @classmethod
    def of(cls, layer: Any, shape: Sequence[int]) -> "Averaged | None":
        """None where windows of an adaptive pooling have several sizes."""
        if isinstance(layer, nn.AdaptiveAvgPool2d):
            wanted = [side if given is None else given for side, given in zip(shape[1:], pair_of(layer.output_size))]
            if any(side % given for side, given in zip(shape[1:], wanted)):
                return None
            high, wide = (side // given for side, given in zip(shape[1:], wanted))
            layer = nn.AvgPool2d((high, wide))
        return cls(layer, math.prod(pair_of(layer.kernel_size)))

    def sums(self, inputs: Tensor) -> Tensor:
        ones = torch.ones_like(inputs[:1], dtype=torch.float64)
        # The number of ones in a window over their mean is what the layer divides by.
        self._sizes = self._pooled(ones, 1) / self._pooled(ones, self._layer.divisor_override)
        return super().sums(inputs) / self._sizes

    def forward(self, inputs: Tensor) -> Tensor:
        return self.sums(inputs)

    def backward(self, slopes: Tensor) -> Tensor:
        return super().backward(slopes / self._sizes)

    def _apply(self, integers: Tensor, weight: Tensor) -> Tensor:
        return self._pooled(integers, 1)

    def _pooled(self, values: Tensor, divisor: int | None) -> Tensor:
        layer = self._layer
        return nn.functional.avg_pool2d(
            values, layer.kernel_size, layer.stride, layer.padding, layer.ceil_mode, layer.count_include_pad, divisor
        )


class Reshaped(Layer[Tensor]):
    """A layer that leaves numbers in their order; dropout, as in prediction, drops none."""

    def __init__(self, layer: Any) -> None:
        self._layer = nn.Identity() if isinstance(layer, (nn.Dropout, nn.Dropout2d)) else layer

    def forward(self, inputs: Tensor) -> Tensor:
        self._shape = inputs.shape
        return self._layer(inputs)

    def backward(self, slopes: Tensor) -> Tensor:
        return slopes.reshape(self._shape)


class Padded(Layer[Tensor]):
    """A border of zeros."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def forward(self, inputs: Tensor) -> Tensor:
        return self._layer(inputs)

    def backward(self, slopes: Tensor) -> Tensor:
        return nn.functional.pad(slopes, [-side for side in self._layer.padding])


class LargestOnly(Layer[Tensor]):
    """Maximum pooling: slopes go to the number that was chosen; those of several windows add up as whole numbers."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._room: Room | None = None
        sides = zip(pair_of(layer.kernel_size), pair_of(layer.stride), pair_of(layer.dilation))
        self._apart = all(kernel <= stride and dilation == 1 for kernel, stride, dilation in sides)

    def forward(self, inputs: Tensor) -> Tensor:
        layer, self._shape = self._layer, inputs.shape
        found, self._chosen = nn.functional.max_pool2d(
            inputs, layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode, return_indices=True
        )
        return found

    def backward(self, slopes: Tensor) -> Tensor:
        count, channels, height, width = self._shape
        # The channel is the last axis in memory, as in ``Convolution``.
        self._room = self._room or Room(torch.float64, height * width, channels)
        spread, chosen = self._room.of(count).zero_(), self._chosen.flatten(2).mT
        if self._apart:
            # No number is in two windows: nothing is added up.
            spread.scatter_(1, chosen, slopes.double().flatten(2).mT)
        else:
            short = shorten(slopes.double(), EXACT_BITS - MAX_WINDOWS_BITS)
            spread.scatter_add_(1, chosen, short.integers.flatten(2).mT).mul_(short.unit.view(-1, 1, 1))
        return spread.unflatten(1, (height, width)).permute(0, 3, 1, 2)


class Activation(Layer[Tensor]):
    """tanh or ReLU, element by element."""

    def __init__(self, layer: Any) -> None:
        self._is_tanh = type(layer) is nn.Tanh

    def forward(self, inputs: Tensor) -> Tensor:
        self._outputs = tanh(inputs.double()) if self._is_tanh else torch.relu(inputs.double())
        return self._outputs

    def backward(self, slopes: Tensor) -> Tensor:
        if self._is_tanh:
            return slopes * (1 - self._outputs * self._outputs)
        return torch.where(self._outputs > 0, slopes, 0.0)


def is_plain(layer: nn.Conv2d) -> bool:
    return (layer.groups, layer.dilation, layer.padding_mode) == (1, (1, 1), "zeros") and not isinstance(
        layer.padding, str
    )


def _halves(values: Tensor, bits: int) -> tuple[Short, Short]:
    """Two ``Short`` that add up to the values, but for what is below 2^-2 bits of a record's largest."""
    high = shorten(values, bits)
    return high, shorten(values - high.values, bits)


def pair_of(size: Any) -> Any:
    return size if isinstance(size, (tuple, list)) else (size, size)
