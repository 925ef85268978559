"""Per-record l2 clipping: sums that know how far one record can move them, whatever the gradients hold.

Each record (one row) is scaled down to l2 norm at most the clip and rounded to an integer grid; then the integers are
added, exactly. The sensitivity of a sum, unit *record* (or whatever one row holds), l2, in the unit of the gradients,
is clip + sqrt(dimension) grid under add-or-remove and 2 clip + sqrt(dimension) grid under replace-one. Proofs:
docs/proofs-privacy.md. Reference: M. Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1.

A library may add up the squares of a row in an order that depends on the processor, on how the array lies in memory and
on how many rows it has. Norms decide by how much a row is clipped and whether it counts as clipped, so one record would
move the contributions of others by their last bits. Here squares are whole numbers whose sum is at most 2^53 and hence
exact in any order, and everything else is done element by element.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..events import check_relation, clips_moved
from ..noise.stream import Floats, Integers
from ..validation import InvalidArgument, within

EXACT_BITS = 53


def row_norms(rows: Floats) -> tuple[Floats, NDArray[np.int32]]:
    """An upper bound of every row's l2 norm, fraction 2^exponent, as a float64 and an int array (n,).

    In two parts because norms may lie outside what a float64 holds; a fraction is 0 or at least 1/2. It exceeds the
    norm by at least 2^-41 of it, room for the roundings of a quotient by it, and by at most 2^-32 for up to 4096
    columns, 2^-20 for up to 2^20.

    Args:
        rows: float64 array (n, d) of finite numbers, d at most 2^27; private.
    """
    columns = max(1, rows.shape[1])
    bits = (EXACT_BITS - 2 - math.ceil(math.log2(columns))) // 2
    exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    scaled = np.ldexp(rows, (bits - exponents)[:, None])
    high = np.rint(scaled)
    low = np.rint(np.ldexp(scaled - high, bits + 1))
    squares = (high * high).sum(axis=1)
    mixed = (high * low).sum(axis=1)
    remainders = (low * low).sum(axis=1)
    total = squares + np.ldexp(mixed, -bits) + np.ldexp(remainders, -2 * bits - 2)
    rest = math.sqrt(columns) * 2.0 ** (-bits - 2)
    norms = np.where(squares > 0, (np.sqrt(np.maximum(total, 0.0)) + rest) * (1 + 2.0**-40), 0.0)
    return np.ldexp(norms, -bits), exponents


# Finer than 2^-30, so that noise on a million coordinates over ten thousand rounds costs a slack of 2e-12 only.
GRID_BITS = 34
MIN_CLIP, MAX_CLIP = 1e-150, 1e150
# Steps of one record are at most 2^35, so the steps of this many fit an int64 with room for noise of scale 2^50.
MAX_RECORDS = 2**27
VALUES_AT_ONCE = 2**21


@dataclass(frozen=True, eq=False)
class ClippedSum:
    """Sum of clipped records as integers; secret until noise is added. ``value`` is ``grid * steps``: int64 ``steps``
    in the shape of one record, and the width of one, a power of two, in the unit of the gradients. ``clip`` is the
    largest l2 norm of one record before it was rounded to the grid."""

    steps: Integers = field(repr=False)
    grid: float
    clip: float

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.steps.size

    @property
    def value(self) -> Floats:
        """The sum without noise, as floats: secret."""
        return self.in_units(self.steps)

    def sensitivity(self, relation: str) -> float:
        """l2 sensitivity, grid included, in the unit of the gradients; rounded up."""
        return self.sensitivity_in_steps(relation) * self.grid

    def sensitivity_in_steps(self, relation: str) -> float:
        """``sensitivity`` in steps of the grid."""
        moved = clips_moved(relation) * (self.clip / self.grid)
        return math.nextafter(moved + math.nextafter(math.sqrt(self.dimension), math.inf), math.inf)

    def in_units(self, steps: Integers) -> Floats:
        """Integers on this grid, for instance ``steps`` with noise, in the unit of the gradients."""
        return np.multiply(steps, self.grid, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ClippedGroups:
    """One ``ClippedSum`` per group of coordinates, each with a clip and a grid of its own; secret.

    ``groups`` holds, for each, the indices of its coordinates in a flattened record of shape ``shape``.
    """

    sums: tuple[ClippedSum, ...] = field(repr=False)
    groups: tuple[Integers, ...] = field(repr=False)
    shape: tuple[int, ...]

    @property
    def clips(self) -> tuple[float, ...]:
        """The clip of each group."""
        return tuple(part.clip for part in self.sums)

    @property
    def dimension(self) -> int:
        """Number of coordinates of all groups together."""
        return sum(part.dimension for part in self.sums)

    @property
    def value(self) -> Floats:
        """The sum without noise, as floats in the shape of one record: secret."""
        return self.in_units([part.steps for part in self.sums])

    def sensitivity(self, relation: str) -> tuple[float, ...]:
        """Tuple of the l2 sensitivity of each group, its grid included; one record may move all of them at once."""
        check_relation(relation)
        return tuple(part.sensitivity(relation) for part in self.sums)

    def in_units(self, steps_of_groups: Sequence[Integers]) -> Floats:
        """One integer array per group, for instance with noise, as one array in the shape and unit of a record."""
        values = np.empty(self.dimension)
        for part, group, steps in zip(self.sums, self.groups, steps_of_groups, strict=True):
            values[group] = part.in_units(steps)
        return values.reshape(self.shape)


def clip_records(gradients: ArrayLike, clip: float) -> ClippedSum:
    """Sum of the records' gradients (records, ...), each row clipped to l2 norm ``clip``, public, from 1e-150 to 1e150.

    A record with a NaN or an infinity contributes zero; an empty batch is a sum of zeros. A public normaliser (an
    expected batch size, never a realised one) is applied to what was released: ``Release.scaled``.
    """
    clip = check_clip(clip)
    rows, usable, shape = _flattened(gradients)
    return _clipped_sum(rows, usable, np.arange(rows.shape[1]), clip, shape)


def clip_records_by_group(
    gradients: ArrayLike, groups: Sequence[slice | Integers], clips: Sequence[float]
) -> ClippedGroups:
    """Sum of the records' gradients, each group of coordinates of each record clipped on its own.

    A record with a NaN or an infinity in any group contributes zero to every group. A group is an index array or a
    slice of the flattened row; together they hold every coordinate exactly once.
    """
    rows, usable, shape = _flattened(gradients)
    indices = tuple(np.arange(rows.shape[1])[group].ravel() for group in groups)
    covered = np.sort(np.concatenate(indices)) if indices else np.empty(0)
    if not all(map(len, indices)) or not np.array_equal(covered, np.arange(rows.shape[1])):
        columns = rows.shape[1]
        raise InvalidArgument(f"groups must be non-empty and hold each of the {columns} coordinates exactly once.")
    clips = tuple(check_clip(clip) for clip in clips)
    if len(clips) != len(indices):
        raise InvalidArgument.of("number of clips", len(clips), f"{len(indices)}, one per group")
    sums = tuple(_clipped_sum(rows, usable, group, clip, (len(group),)) for group, clip in zip(indices, clips))
    return ClippedGroups(sums, indices, shape)


def check_clip(clip: object) -> float:
    """Return ``clip`` as a float if it is a number from 1e-150 to 1e150."""
    return within("clip", clip, MIN_CLIP, MAX_CLIP)


def grid_for(clip: float) -> float:
    """The grid of a clip: the largest power of two of at most 2^-34 of it."""
    return math.ldexp(1.0, math.frexp(clip)[1] - 1 - GRID_BITS)


def _clipped_sum(
    rows: NDArray[Any], usable: Integers, coordinates: Integers, clip: float, shape: tuple[int, ...]
) -> ClippedSum:
    grid = grid_for(clip)
    total = np.zeros(len(coordinates), dtype=np.int64)
    records_at_once = max(1, VALUES_AT_ONCE // max(1, len(coordinates)))
    for start in range(0, len(usable), records_at_once):
        batch = rows[np.ix_(usable[start : start + records_at_once], coordinates)]
        total += _clipped_steps(batch.astype(np.float64), clip, grid).sum(axis=0)
    total.flags.writeable = False
    return ClippedSum(total.reshape(shape), grid, clip)


def _clipped_steps(rows: Floats, clip: float, grid: float) -> Integers:
    """Rows scaled to norm at most ``clip`` and rounded to the grid, as integers, each a function of its row alone.

    ``row_norms`` bounds every norm with room for the roundings of the factor and of the products, so a scaled row is
    never above the clip.
    """
    norms, exponents = (part[:, None] for part in row_norms(rows))
    # A clip far above the row becomes infinite here, which is above every norm; so may rows that will be scaled.
    with np.errstate(over="ignore"):
        room, unscaled = np.ldexp(clip, -exponents), rows / grid
    factors = np.divide(clip / grid, norms, out=np.zeros_like(norms), where=norms > room)
    scaled: Floats = np.where(norms > room, np.ldexp(rows, -exponents) * factors, unscaled)
    return np.rint(scaled).astype(np.int64)


def _flattened(gradients: ArrayLike) -> tuple[NDArray[Any], Integers, tuple[int, ...]]:
    gradients = np.asarray(gradients)
    if gradients.ndim < 2 or gradients.dtype.kind not in "fiu":
        raise InvalidArgument.of("gradients", gradients, "real numbers with one row per record")
    if len(gradients) > MAX_RECORDS:
        raise InvalidArgument.of("records of gradients", len(gradients), f"at most {MAX_RECORDS}")
    shape = gradients.shape[1:]
    rows = gradients.reshape(len(gradients), math.prod(shape))
    # An extended-precision number may be finite and yet infinite as a float64, which is what is added.
    with np.errstate(over="ignore"):
        usable = np.isfinite(rows.astype(np.float64, copy=False)).all(axis=1)
    return rows, np.flatnonzero(usable), shape
