"""Sums of clipped per-record gradients of a module, as integers: what one record can change is bounded exactly.

A record's gradient comes in parts (`layer_gradients`): rows, and outer products that are never multiplied out. All of
them are float32; below, exact arithmetic is meant unless fl(.) is written, and u = 2^-53.

**A record's contribution has l2 norm at most the clip C before it is rounded to the grid.** ``norms`` is fl of the root
of the sum over parts of |row|^2, or |left|^2 |right|^2. Squares of float32 numbers are exact in float64 and neither
overflow nor vanish, nor do products of two of them (from 2^-596 to 2^552 for a million entries). A sum of m terms errs
by at most m u relative in any order of adding; a root halves the error below it, a square doubles it, a product of two
adds both up, and each adds u. So with d parameters |gradient| <= (1 + 2 (d + 8) u) fl(norm). The factor fl(C / norm)
and its products with the entries add at most 4 u; ``margin`` = 1 + 4 (d + 8) u is above all of it together.
 - Rows: factor x row.
 - Outer products: ``right`` is multiplied by the power of two that brings its largest entry into [2^22, 2^23), which is
   exact, and truncated to an integer; ``left`` is multiplied by the factor, by the inverse power, and truncated to the
   fine grid, 2^-12 of the grid. Truncation makes no entry longer, so the product of the two integer vectors, in units
   of the fine grid, has norm at most the clip still.

**Sums are exact**, whatever their order. Rows are rounded to the grid and are then integers of at most 2^35; the sum of
a block is one below 2^53, and blocks are added as int64. An outer product's entries are integers of at most 2^47, a
block has ``RECORDS_AT_ONCE`` = 16 records, so every partial sum of its matrix product is an integer of less than 2^52,
which float64 holds exactly. Blocks are added as int64; before that could overflow, the whole steps are moved to a
number of their own and the fine rest stays.

**So replacing, adding or removing a record moves the sum by at most what** ``ClippedSum.sensitivity`` **says.** At the
end the fine rest of the outer products is dropped: a coordinate goes down by less than a step, in a sum with the record
and in one without, so their difference changes by less than a step. A coordinate of rows changes by at most half a step
per record. Hence clip + sqrt(d) grid under add-or-remove and 2 clip + sqrt(d) grid under replace-one, unit record.

A record with a NaN or an infinity anywhere contributes zero everywhere.

What is *not* proved: that a record's parts do not depend on its companions in the block. Blocks have one shape, also
the last, so a record goes through the same operations wherever it stands; that MKL and oneDNN then give the same bits
in every place is what a test of this module checks, not a promise of theirs.
"""
import numpy as np
import torch

from fate_dp.components.dp_homo_nn.layer_gradients import Outer
from fate_dp.privacy.mechanisms.clipping import ClippedSum, check_clip, grid_for

RECORDS_AT_ONCE = 16
FINE_BITS = 12
FACTOR_BITS = 23
# Entries of at most 2^47 from 2^15 records, and the rest of before, fit an int64.
BLOCKS_AT_ONCE = 2**15 // RECORDS_AT_ONCE


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
        self._scratch = {}

    def add(self, parts, count):
        """Add the first ``count`` records of a block whose ``parts`` hold every parameter once."""
        if self._blocks == BLOCKS_AT_ONCE:
            self._carry()
        self._blocks += 1
        parts = [(part, self._doubled(part)) for part in parts]
        norms = torch.stack([_squares(doubled) for _, doubled in parts]).sum(0).sqrt_() * self._margin
        usable = torch.isfinite(norms)
        usable[count:] = False
        factors = torch.where(norms > self._clip, self._clip / norms, 1.0) / self._grid
        factors = torch.where(usable, factors, 0.0).unsqueeze(1)
        all_usable = bool(usable.all())
        for part, doubled in parts:
            if not all_usable:
                # A NaN times zero is a NaN.
                doubled = [torch.where(usable.unsqueeze(1), values, 0.0) for values in doubled]
            place = slice(part.start, part.start + part.count)
            if isinstance(part, Outer):
                self._fine[place] += _outer_sum(*doubled, factors)
            else:
                self._steps[place] += part.ordered(doubled[0].mul_(factors).round_().sum(0)).long()

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

    def _doubled(self, part):
        """Float64 copies of what makes up a part; rows, which are large, go where those of the last block were."""
        if isinstance(part, Outer):
            return [part.left.double(), part.right.double()]
        if part.start not in self._scratch:
            self._scratch[part.start] = torch.empty(part.values.shape, dtype=torch.float64)
        return [self._scratch[part.start].copy_(part.values)]


def _squares(factors):
    """Square of the l2 norm per record of the product of ``factors``."""
    return torch.stack([torch.linalg.vector_norm(values, dim=1).square_() for values in factors]).prod(0)


def _outer_sum(left, right, factors):
    """Sum of the outer products times their factors, in units of the fine grid: int64, flat."""
    shifts = FACTOR_BITS - torch.frexp(torch.linalg.vector_norm(right, torch.inf, 1, keepdim=True)).exponent
    right = (right * _powers(shifts)).trunc_()
    left = (left * factors * _powers(FINE_BITS - shifts)).trunc_()
    return (left.mT @ right).flatten().long()


def _powers(exponents):
    """2^exponents, exactly: ``torch.ldexp`` goes through a power in float32."""
    return torch.from_numpy(np.ldexp(1.0, exponents.numpy()))
