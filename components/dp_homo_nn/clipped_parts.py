"""Sums of clipped per-record gradients of a module, as integers: what one record can change is bounded exactly.

A record's gradient comes in parts: rows, and outer products that are never multiplied out. Each part holds short whole
numbers times a power of two (`record_arithmetic`); *what is clipped and added is that rounded gradient*. Below, exact
arithmetic is meant unless fl(.) is written, and u = 2^-53.

**A record's contribution depends on that record alone.** Its short numbers do (`record_layers`); the sum of their squares
is a whole number of at most 2^53, exact in any order; everything behind it is done element by element. So its companions
in a block, their number and its place do not matter, nor do processor, library and threads.

**It has l2 norm at most the clip C.** ``norms`` is fl of the root of the sum over parts of |left|^2 |right|^2; a row is
a ``right`` with a ``left`` of 1. The sums of squares are exact; a root, the products with powers of two and with one
another, the division by the largest part, the sum over at most d parts and the root of it err by at most (d + 8) u
relative together. With d parameters |gradient| <= (1 + 2 (d + 8) u) fl(norm). The factor fl(C / norm) and its products
with the entries add at most 4 u; ``margin`` = 1 + 4 (d + 8) u is above all of it together. ``right`` stays the whole
numbers that it is; ``left`` is multiplied by the factor, by both powers of two, and truncated to the fine grid, 2^-12 of
the grid. Truncation makes no entry longer, so the product of the two integer vectors, in units of the fine grid, has norm
at most the clip still. (A factor may lose what is below the fine grid times 2^23 that way, 2^-24 of the clip.)

**Sums are exact**, whatever their order. The entries of a record's contribution are integers of at most 2^47, a block has
at most ``MOST_AT_ONCE`` = 32 records, so every partial sum of its matrix product is an integer of at most 2^52, which
float64 holds exactly. Blocks are added as int64; before that could overflow, the whole steps are moved to a number of
their own and the fine rest stays.

**So replacing, adding or removing a record moves the sum by at most what** ``ClippedSum.sensitivity`` **says.** At the
end the fine rest is dropped: a coordinate goes down by less than a step, in a sum with the record and in one without, so
their difference changes by less than a step. Hence clip + sqrt(d) grid under add-or-remove and 2 clip + sqrt(d) grid
under replace-one, unit record.

A record with a NaN or an infinity anywhere contributes zero everywhere.
"""
from dataclasses import dataclass

import torch

from fate_dp.components.dp_homo_nn.record_arithmetic import Short, bits_for, shorten
from fate_dp.privacy.mechanisms.clipping import ClippedSum, check_clip, grid_for

MOST_AT_ONCE = 32
FINE_BITS = 12
MOST_BITS = 23
# Entries of at most 2^47 from 2^15 records, and the rest of before, fit an int64.
BLOCKS_AT_ONCE = 2**15 // MOST_AT_ONCE


@dataclass(frozen=True, eq=False)
class Outer:
    """Per-record gradients ``left[i] right[i]^T`` of the parameters from ``start`` on, in row-major order.

    :param left: (n, outputs). :param right: (n, inputs).
    """

    start: int
    left: Short
    right: Short

    @classmethod
    def of(cls, start, left, right):
        """From float64 tensors."""
        return cls(start, _shortened(left), _shortened(right))

    @property
    def count(self):
        """Number of parameters."""
        return self.left.integers.shape[1] * self.right.integers.shape[1]

    @property
    def factors(self):
        """left and right, short enough for sums of squares."""
        return self.left.within(_bits(self.left.integers)), self.right.within(_bits(self.right.integers))

    def ordered(self, values):
        """``values`` (..., count) as they are: they are in the order of the parameters."""
        return values

    def rows(self):
        """float64 (n, count)."""
        return (self.left.values.unsqueeze(2) * self.right.values.unsqueeze(1)).flatten(1)

    def divided(self, scales):
        """Divided by ``scales`` (count,): still an outer product if all outputs share their inputs' scales."""
        scales = scales.view(self.left.integers.shape[1], -1)
        if bool((scales == scales[0]).all()):
            return Outer(self.start, self.left, _shortened(self.right.values / scales[0]))
        return Rows.of(self.start, self.rows() / scales.flatten())


@dataclass(frozen=True, eq=False)
class Rows:
    """Per-record gradients of the parameters from ``start`` on, multiplied out.

    :param numbers: (n, count), in the order of the parameters unless ``shape`` is given.
    :param shape: of a convolution's row: (outputs, height, width, inputs), whereas the parameters have the inputs
        before height and width; or None.
    """

    start: int
    numbers: Short
    shape: tuple = None

    @classmethod
    def of(cls, start, values, shape=None, room=None):
        """From a tensor; ``room`` is a float64 tensor of that shape that may be overwritten, None for ``values``."""
        return cls(start, _shortened(values, values if room is None else room), shape)

    @property
    def count(self):
        """Number of parameters."""
        return self.numbers.integers.shape[1]

    @property
    def factors(self):
        """As in ``Outer``, with a ``left`` of 1."""
        ones = torch.ones(len(self.numbers), 1, dtype=torch.float64)
        return Short(ones, ones, 1), self.numbers.within(_bits(self.numbers.integers))

    def ordered(self, values):
        """``values`` (..., count), computed from ``numbers``, in the order of the parameters."""
        if self.shape is None:
            return values
        return values.unflatten(-1, self.shape).movedim(-1, -3).flatten(-4)

    def rows(self):
        """float64 (n, count), in the order of the parameters."""
        return self.ordered(self.numbers.values)

    def divided(self, scales):
        """Divided by ``scales`` (count,), which are in the order of the parameters."""
        if self.shape is not None:
            outputs, height, width, inputs = self.shape
            scales = scales.view(outputs, inputs, height, width).movedim(1, -1).flatten()
        return Rows.of(self.start, self.numbers.values / scales, self.shape)


class PartsSum:
    """Running sum of clipped records of a module with ``dimension`` parameters.

    :param clip: largest l2 norm of one record's contribution; public.
    :raises InvalidClip: one sentence.
    """

    def __init__(self, dimension, clip):
        self._clip = check_clip(clip)
        self._grid = grid_for(self._clip)
        self._margin = 1 + 4 * (dimension + 8) * 2.0**-53
        self._steps = torch.zeros(dimension, dtype=torch.int64)
        self._fine = torch.zeros(dimension, dtype=torch.int64)
        self._blocks = 0

    def add(self, parts):
        """Add a block of records whose ``parts`` hold every parameter once.

        :raises ValueError: more than ``MOST_AT_ONCE`` records, whose sum might not be exact.
        """
        if self._blocks == BLOCKS_AT_ONCE:
            self._carry()
        self._blocks += 1
        factors = [part.factors for part in parts]
        if len(factors[0][0]) > MOST_AT_ONCE:
            raise ValueError(f"A block has {len(factors[0][0])} records but must have at most {MOST_AT_ONCE}.")
        norms = _joint_norms([_norm(left) * _norm(right) for left, right in factors]) * self._margin
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
            self._fine[part.start : part.start + part.count] += part.ordered((ours.mT @ theirs).flatten()).long()

    def total(self):
        """``ClippedSum`` of all records that were added."""
        self._carry()
        steps = self._steps.numpy().copy()
        steps.flags.writeable = False
        return ClippedSum(steps, self._grid, self._clip)

    def _carry(self):
        self._steps += self._fine >> FINE_BITS
        self._fine &= 2**FINE_BITS - 1
        self._blocks = 0


def _shortened(values, out=None):
    return shorten(values, _bits(values), out)


def _bits(values):
    """Bits with which the squares of a record's numbers (n, count) add up exactly."""
    return min(MOST_BITS, bits_for(values.shape[1]))


def _norm(factor):
    """l2 norm per record, (n,): the squares are whole numbers, so is their sum, and only the root is rounded."""
    return torch.linalg.vector_norm(factor.integers, dim=1) * factor.unit.view(-1)


def _joint_norms(norms):
    """Root of the sum of squares of several norms per record, where no square overflows or vanishes."""
    largest = norms[0]
    for other in norms[1:]:
        largest = torch.maximum(largest, other)
    divisor = torch.where(largest > 0, largest, 1.0)
    total = torch.zeros_like(largest)
    for each in norms:
        share = each / divisor
        total = total + share * share
    return largest * total.sqrt_()
