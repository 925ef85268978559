"""Arithmetic in which a record's numbers depend on nothing but that record, to the last bit.

On float64 tensors whose first axis numbers the records, with three kinds of operations: one rounding, element by element;
sums of whole numbers of at most 2^53, which are exact in any order; choices. That is why `record_layers` may hand matrix
products to whatever library there is, and why parties on different processors agree. Proofs: docs/proofs-dp_homo_nn.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fate_dp.privacy.mechanisms.clipping import ClippedSum, check_clip, grid_for

from .record_kernel import lies_together, record_kernel

EXACT_BITS = 53
# Of units of short numbers, so that they and their inverses are ordinary numbers; below, all count as zero.
MIN_EXPONENT = {torch.float64: -1000, torch.float32: -100}
MAX_EXPONENT = 1020

# The table of exp(-t) has a step of 2^-10; beyond 40 it is below 2^-57 and taken as if t were 40.
STEPS_OF_ONE = 2**10
MAX_ARGUMENT = 40.0


@dataclass(frozen=True, eq=False)
class Short:
    """Numbers rounded, record by record, to ``integers * unit``; the unit, float64 (n, 1, ...), is a power of two.

    Integers, float64 (n, ...), are whole numbers of at most 2^bits; NaNs or infinities in a record that had some.
    """

    integers: Tensor
    unit: Tensor
    bits: int

    def __len__(self) -> int:
        return len(self.integers)

    @property
    def values(self) -> Tensor:
        """The numbers themselves, float64 (n, ...)."""
        return self.integers * self.unit

    def within(self, bits: int) -> Short:
        return self if self.bits <= bits else shorten(self.values, bits)


class UnsoundArithmetic(RuntimeError):
    """On this machine a record's numbers have other bits in company than alone: no sensitivity would hold."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"On this machine {what} of a record have other last bits beside other records, so one record would move the "
            "sum by more than its sensitivity: set MKL_CBWR=COMPATIBLE before the process starts, and report the "
            "processor and the version of torch if that does not help."
        )


@contextmanager
def one_thread() -> Iterator[None]:
    """A library may divide its work otherwise when it has several threads and is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def bits_for(terms: int) -> int:
    """Bits of short numbers of which ``terms`` products add up to at most 2^53: 26 for one or two, 20 for 4096."""
    return (EXACT_BITS - max(1, math.ceil(math.log2(max(1, terms))))) // 2


def shorten(values: Tensor, bits: int, out: Tensor | None = None) -> Short:
    """``values`` (n, ...) as ``Short``: each record's largest number gets ``bits`` bits, the others no finer step.

    A record with a NaN or an infinity keeps one, and no other record is touched by it. With a float64 tensor ``out`` for
    the whole numbers, ``values`` itself for instance, ``values`` is overwritten.
    """
    axes = tuple(range(1, values.dim()))
    if values.numel():
        largest = np.maximum(values.amax(axes, keepdim=True).numpy(), -values.amin(axes, keepdim=True).numpy())
    else:
        largest = np.zeros((len(values), *(1 for _ in axes)))
    exponents = np.clip(np.frexp(largest)[1], MIN_EXPONENT[values.dtype] + bits, MAX_EXPONENT + bits) - bits
    # A power of two: the product is exact in float32, too, which is faster.
    inverse = torch.from_numpy(np.ldexp(1.0, -exponents)).to(values.dtype)
    integers = (values * inverse if out is None else values.mul_(inverse)).round_()
    if out is not None and out is not values:
        integers = out.copy_(integers)
    return Short(integers.double(), torch.from_numpy(np.ldexp(1.0, exponents)), bits)


def exact_sums(values: Tensor) -> Tensor:
    """Sums over all but the first two axes of (n, m, ...), float64 (n, m), of numbers that ``shorten`` has rounded."""
    terms = max(1, math.prod(values.shape[2:]))
    terms_last = (values.flatten(2) if values.dim() > 2 else values.unsqueeze(2)).double()
    short = shorten(terms_last, EXACT_BITS - math.ceil(math.log2(terms)))
    return short.integers.sum(2) * short.unit.squeeze(2)


def decaying_exponential(arguments: Tensor) -> Tensor:
    """exp(-t) for float64 t >= 0, to 2^-44 relative up to t = 40 and as there beyond; a NaN counts as 40."""
    arguments = torch.where(arguments <= MAX_ARGUMENT, arguments, MAX_ARGUMENT).mul_(STEPS_OF_ONE)
    steps = arguments.floor()
    rest = arguments.sub_(steps).mul_(1 / STEPS_OF_ONE)
    # exp(-r) = 1 - r + r^2 / 2 - r^3 / 6: below r = 2^-10 the next term of the series is less than 2^-44.
    series = (rest * (-1 / 6)).add_(0.5).mul_(rest).sub_(1.0).mul_(rest).add_(1.0)
    return _TABLE[steps.long()].mul_(series)


def tanh(values: Tensor) -> Tensor:
    """Hyperbolic tangent, to 2^-44; a NaN gives 1 or -1, so callers drop such records themselves."""
    kernel = record_kernel()
    if kernel is not None and values.dtype == torch.float64 and lies_together(values):
        return kernel.tanh(values, _TABLE)
    small = decaying_exponential(values.abs() * 2)
    return torch.copysign((1 - small).div_(small.add_(1.0)), values)


def sigmoid(values: Tensor) -> Tensor:
    """1 / (1 + exp(-v)), to 2^-44."""
    small = decaying_exponential(values.abs())
    return torch.where(values >= 0, 1.0, small) / (1 + small)


def softmax(values: Tensor) -> Tensor:
    """exp(v_j) / sum_k exp(v_k) of every row of (n, k); each numerator is rounded to a share of 2^-53 k."""
    bits = EXACT_BITS - math.ceil(math.log2(max(2, values.shape[1])))
    numerators = (decaying_exponential(values.amax(1, keepdim=True) - values) * 2.0**bits).round_()
    return numerators / numerators.sum(1, keepdim=True)


def _table() -> Tensor:
    """exp(-i / 2^10), each rounded correctly, in whole numbers: the C library's last bits depend on the processor."""
    one, step = 2**128, 2**128
    ratio = term = one
    for order in range(1, 16):
        term = -term // (order * STEPS_OF_ONE)
        ratio += term
    entries = [1.0]
    for _ in range(int(MAX_ARGUMENT) * STEPS_OF_ONE):
        step = step * ratio // one
        entries.append(step / one)
    return torch.tensor(entries, dtype=torch.float64)


_TABLE = _table()

MAX_AT_ONCE = 32
FINE_BITS = 12
MAX_BITS = 23
# Entries of at most 2^47 from 2^15 records, and the rest of before, fit an int64.
BLOCKS_AT_ONCE = 2**15 // MAX_AT_ONCE


@dataclass(frozen=True, eq=False)
class Outer:
    """Per-record gradients ``left[i] right[i]^T`` of the parameters from ``start`` on, in row-major order.

    ``left`` is (n, outputs), ``right`` (n, inputs).
    """

    start: int
    left: Short
    right: Short

    @classmethod
    def of(cls, start: int, left: Tensor, right: Tensor) -> Outer:
        return cls(start, _shortened(left), _shortened(right))

    @property
    def count(self) -> int:
        return self.left.integers.shape[1] * self.right.integers.shape[1]

    @property
    def factors(self) -> tuple[Short, Short]:
        """left and right, short enough for sums of squares."""
        return self.left.within(_bits(self.left.integers)), self.right.within(_bits(self.right.integers))

    def norms(self, left: Short, right: Short) -> Tensor:
        """l2 norm per record, (n,), of what the factors hold."""
        return _norm(left) * _norm(right)

    def sums(self, left: Tensor, right: Tensor) -> Tensor:
        """int64 (count,): sums over records of the products of whole numbers float64 (n, ...), of at most 2^53."""
        return (left.mT @ right).flatten().long()

    def ordered(self, values: Tensor) -> Tensor:
        """``values`` (..., count) as they are: they are in the order of the parameters."""
        return values

    def rows(self) -> Tensor:
        """float64 (n, count)."""
        return (self.left.values.unsqueeze(2) * self.right.values.unsqueeze(1)).flatten(1)

    def divided(self, scales: Tensor) -> Part:
        """Divided by ``scales`` (count,): still an outer product if all outputs share their inputs' scales."""
        scales = scales.view(self.left.integers.shape[1], -1)
        if bool((scales == scales[0]).all()):
            return Outer(self.start, self.left, _shortened(self.right.values / scales[0]))
        return GradientRows.of(self.start, self.rows() / scales.flatten())


@dataclass(frozen=True, eq=False)
class GradientRows:
    """Per-record gradients of the parameters from ``start`` on, multiplied out: ``numbers`` (n, count), in their order.

    Those of a convolution have a ``shape`` and its order: (outputs, height, width, inputs), whereas the parameters have
    the inputs before height and width. ``squares`` (n,) are the sums of squares of the whole numbers, where they are
    known; NaN for a record that has a NaN or an infinity. The numbers are float32 then, made and added up by the native
    kernel.
    """

    start: int
    numbers: Short
    shape: tuple[int, int, int, int] | None = None
    squares: Tensor | None = None

    @classmethod
    def of(
        cls, start: int, values: Tensor, shape: tuple[int, int, int, int] | None = None, room: Tensor | None = None
    ) -> GradientRows:
        """From a tensor; ``room`` is a float64 tensor of that shape that may be overwritten, None for ``values``."""
        return cls(start, _shortened(values, values if room is None else room), shape)

    @property
    def count(self) -> int:
        return self.numbers.integers.shape[1]

    @property
    def factors(self) -> tuple[Short, Short]:
        """As in ``Outer``, with a ``left`` of 1."""
        ones = torch.ones(len(self.numbers), 1, dtype=torch.float64)
        return Short(ones, ones, 1), self.numbers.within(_bits(self.numbers.integers))

    def norms(self, left: Short, right: Short) -> Tensor:
        return _norm(right) if self.squares is None else self.squares.sqrt() * right.unit.view(-1)

    def sums(self, left: Tensor, right: Tensor) -> Tensor:
        kernel = None if self.squares is None else record_kernel()
        return (left.mT @ right).flatten().long() if kernel is None else kernel.weighted_sums(right, left)

    def ordered(self, values: Tensor) -> Tensor:
        """``values`` (..., count), computed from ``numbers``, in the order of the parameters."""
        if self.shape is None:
            return values
        return values.unflatten(-1, self.shape).movedim(-1, -3).flatten(-4)

    def rows(self) -> Tensor:
        """float64 (n, count), in the order of the parameters."""
        return self.ordered(self.numbers.values)

    def divided(self, scales: Tensor) -> GradientRows:
        """Divided by ``scales`` (count,), which are in the order of the parameters."""
        if self.shape is not None:
            outputs, height, width, inputs = self.shape
            scales = scales.view(outputs, inputs, height, width).movedim(1, -1).flatten()
        return GradientRows.of(self.start, self.numbers.values / scales, self.shape)


Part = Outer | GradientRows


class PartsSum:
    """Running sum of clipped records of a module with ``dimension`` parameters.

    A record's contribution depends on that record alone and has l2 norm at most the clip; sums are exact. So one record
    moves the total by at most what ``ClippedSum.sensitivity`` says (docs/proofs-dp_homo_nn.md). A record with a NaN or
    an infinity anywhere contributes zero everywhere.
    """

    def __init__(self, dimension: int, clip: float) -> None:
        self._clip = check_clip(clip)
        self._grid = grid_for(self._clip)
        self._margin = 1 + 4 * (dimension + 8) * 2.0**-53
        self._steps = torch.zeros(dimension, dtype=torch.int64)
        self._fine = torch.zeros(dimension, dtype=torch.int64)
        self._blocks = 0

    def add(self, parts: Sequence[Part]) -> None:
        """Add a block of at most ``MAX_AT_ONCE`` records, whose ``parts`` hold every parameter once."""
        if self._blocks == BLOCKS_AT_ONCE:
            self._carry()
        self._blocks += 1
        factors = [part.factors for part in parts]
        if len(factors[0][0]) > MAX_AT_ONCE:
            raise ValueError(f"A block must have at most {MAX_AT_ONCE} records, got {len(factors[0][0])}.")
        norms = _joint_norms([part.norms(*pair) for part, pair in zip(parts, factors, strict=True)]) * self._margin
        usable = torch.isfinite(norms)
        shares = torch.where(norms > self._clip, self._clip / norms, 1.0) / self._grid * 2.0**FINE_BITS
        shares = torch.where(usable, shares, 0.0).unsqueeze(1)
        all_usable = bool(usable.all())
        for part, (left, right) in zip(parts, factors, strict=True):
            ours, theirs = left.integers, right.integers
            if not all_usable:
                # A NaN times zero is a NaN.
                ours, theirs = (torch.where(usable.unsqueeze(1), values, 0.0) for values in (ours, theirs))
            # The units first: their product is at most the norm, which is finite; a share times one of them may not be.
            ours = (ours * (shares * (left.unit * right.unit))).trunc_()
            self._fine[part.start : part.start + part.count] += part.ordered(part.sums(ours, theirs))

    def total(self) -> ClippedSum:
        """``ClippedSum`` of all records that were added."""
        self._carry()
        steps = self._steps.numpy().copy()
        steps.flags.writeable = False
        return ClippedSum(steps, self._grid, self._clip)

    def _carry(self) -> None:
        self._steps += self._fine >> FINE_BITS
        self._fine &= 2**FINE_BITS - 1
        self._blocks = 0


def _shortened(values: Tensor, out: Tensor | None = None) -> Short:
    return shorten(values, _bits(values), out)


def _bits(values: Tensor) -> int:
    return bits_for_squares(values.shape[1])


def bits_for_squares(count: int) -> int:
    """Bits with which the squares of so many numbers of a record add up exactly."""
    return min(MAX_BITS, bits_for(count))


def _norm(factor: Short) -> Tensor:
    """l2 norm per record, (n,): the squares are whole numbers, so is their sum, and only the root is rounded."""
    return torch.linalg.vector_norm(factor.integers, dim=1) * factor.unit.view(-1)


def _joint_norms(norms: Sequence[Tensor]) -> Tensor:
    """Root of the sum of squares of several norms per record, where no square overflows or vanishes."""
    largest = torch.stack(list(norms)).amax(0)
    divisor = torch.where(largest > 0, largest, 1.0)
    total = torch.zeros_like(largest)
    for each in norms:
        share = each / divisor
        total = total + share * share
    return largest * total.sqrt_()
