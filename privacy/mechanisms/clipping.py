"""Per-record l2 clipping: sums that know how far one record can move them, whatever the gradients hold.

Each record (one row) is scaled down to l2 norm at most the clip and rounded to an integer grid; then the integers are
added, exactly. So the sensitivity of a sum depends neither on the order of the records nor on rounding inside a sum
of floats, which is not bounded by one record's share; and what a row becomes depends on that row alone (`row_norms`).

Sensitivity of a sum, unit *record* (or whatever one row holds), l2, in the unit of the gradients:
clip + sqrt(dimension) grid under add-or-remove, 2 clip + sqrt(dimension) grid under replace-one. Proof: a clipped row
has norm at most the clip also in floating point (``_clipped_steps``); rounding to the nearest multiple of the grid
moves it by at most sqrt(dimension) grid / 2; adding or removing moves the sum by one such row, replacing by two. The
grid is the largest power of two of at most 2^-34 of the clip.

A record with a NaN or an infinity contributes zero, in all its groups. An empty batch is a sum of zeros. A public
normaliser (an expected batch size, never a realised one) is applied to what was released: ``Release.scaled``.

Reference: M. Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, for clipping per record.
"""
import math
from dataclasses import dataclass, field
from typing import Tuple

import numpy as np

from fate_dp.privacy.events import check_relation, clips_moved
from fate_dp.privacy.mechanisms.row_norms import row_norms
from fate_dp.privacy.number_kinds import is_real

# Finer than 2^-30, so that noise on a million coordinates over ten thousand rounds costs a slack of 2e-12 only.
GRID_BITS = 34
LEAST_CLIP, LARGEST_CLIP = 1e-150, 1e150
# Steps of one record are at most 2^35, so the steps of this many fit an int64 with room for noise of scale 2^50.
MOST_RECORDS = 2**27
VALUES_AT_ONCE = 2**21


class InvalidClip(ValueError):
    """A clip, or the number of clips, is outside its range."""


class InvalidGradients(ValueError):
    """Gradients are not a numeric batch with one row per record, or groups do not cover each coordinate once."""


@dataclass(frozen=True, eq=False)
class ClippedSum:
    """Sum of clipped records as integers; secret until noise is added. ``value`` is ``grid * steps``.

    :param steps: int64 array in the shape of one record.
    :param grid: width of one step, a power of two, in the unit of the gradients.
    :param clip: largest l2 norm of one record before it was rounded to the grid.
    """

    steps: np.ndarray = field(repr=False)
    grid: float
    clip: float

    @property
    def dimension(self):
        """Number of coordinates."""
        return self.steps.size

    @property
    def value(self):
        """The sum without noise, as floats: secret."""
        return self.in_units(self.steps)

    def sensitivity(self, relation):
        """l2 sensitivity, grid included, in the unit of the gradients; rounded up."""
        return self.sensitivity_in_steps(relation) * self.grid

    def sensitivity_in_steps(self, relation):
        """``sensitivity`` in steps of the grid."""
        moved = clips_moved(relation) * (self.clip / self.grid)
        return math.nextafter(moved + math.nextafter(math.sqrt(self.dimension), math.inf), math.inf)

    def in_units(self, steps):
        """Integers on this grid, for instance ``steps`` with noise, in the unit of the gradients."""
        return np.multiply(steps, self.grid, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ClippedGroups:
    """One ``ClippedSum`` per group of coordinates, each with a clip and a grid of its own; secret.

    :param sums: a ``ClippedSum`` per group.
    :param groups: for each group the indices of its coordinates in a flattened record.
    :param shape: shape of one record.
    """

    sums: Tuple[ClippedSum, ...] = field(repr=False)
    groups: Tuple[np.ndarray, ...] = field(repr=False)
    shape: Tuple[int, ...]

    @property
    def clips(self):
        """The clip of each group."""
        return tuple(part.clip for part in self.sums)

    @property
    def dimension(self):
        """Number of coordinates of all groups together."""
        return sum(part.dimension for part in self.sums)

    @property
    def value(self):
        """The sum without noise, as floats in the shape of one record: secret."""
        return self.in_units([part.steps for part in self.sums])

    def sensitivity(self, relation):
        """Tuple of the l2 sensitivity of each group, its grid included; one record may move all of them at once."""
        check_relation(relation)
        return tuple(part.sensitivity(relation) for part in self.sums)

    def in_units(self, steps_of_groups):
        """One integer array per group, for instance with noise, as one array in the shape and unit of a record."""
        values = np.empty(self.dimension)
        for part, group, steps in zip(self.sums, self.groups, steps_of_groups, strict=True):
            values[group] = part.in_units(steps)
        return values.reshape(self.shape)


def clip_records(gradients, clip):
    """Sum of the records' gradients, each clipped to l2 norm ``clip``.

    :param gradients: array (records, ...), one row per record; rows are flattened for the norm.
    :param clip: largest norm of one record's contribution, from 1e-150 to 1e150; a public constant.
    :returns: ``ClippedSum``.
    :raises InvalidClip, InvalidGradients: one sentence on what is wrong; never because of NaN, infinity or no record.
    """
    clip = check_clip(clip)
    rows, usable, shape = _flattened(gradients)
    return _clipped_sum(rows, usable, np.arange(rows.shape[1]), clip, shape)


def clip_records_by_group(gradients, groups, clips):
    """Sum of the records' gradients, each group of coordinates of each record clipped on its own.

    :param gradients: array (records, ...), one row per record; coordinates are those of the flattened row.
    :param groups: per group an index array or a slice; together they hold every coordinate exactly once.
    :param clips: one public clip per group.
    :returns: ``ClippedGroups``. A record with a NaN or an infinity in any group contributes zero to every group.
    """
    rows, usable, shape = _flattened(gradients)
    groups = _checked_groups(groups, rows.shape[1])
    clips = tuple(check_clip(clip) for clip in clips)
    if len(clips) != len(groups):
        raise InvalidClip(f"clips has {len(clips)} values but must have one per group, {len(groups)}.")
    sums = tuple(_clipped_sum(rows, usable, group, clip, (len(group),)) for group, clip in zip(groups, clips))
    return ClippedGroups(sums, groups, shape)


def check_clip(clip):
    """Return ``clip`` as a float; raise ``InvalidClip`` unless it is a number from 1e-150 to 1e150."""
    if not is_real(clip) or not LEAST_CLIP <= clip <= LARGEST_CLIP:
        raise InvalidClip(f"clip is {clip!r} but must be a number from {LEAST_CLIP} to {LARGEST_CLIP}.")
    return float(clip)


def grid_for(clip):
    """The grid of a clip: the largest power of two of at most 2^-34 of it."""
    return math.ldexp(1.0, math.frexp(clip)[1] - 1 - GRID_BITS)


def _clipped_sum(rows, usable, coordinates, clip, shape):
    grid = grid_for(clip)
    total = np.zeros(len(coordinates), dtype=np.int64)
    records_at_once = max(1, VALUES_AT_ONCE // max(1, len(coordinates)))
    for start in range(0, len(usable), records_at_once):
        batch = rows[np.ix_(usable[start : start + records_at_once], coordinates)]
        total += _clipped_steps(batch.astype(np.float64), clip, grid).sum(axis=0)
    total.flags.writeable = False
    return ClippedSum(total.reshape(shape), grid, clip)


def _clipped_steps(rows, clip, grid):
    """Rows scaled to norm at most ``clip`` and rounded to the grid, as integers, each a function of its row alone.

    ``row_norms`` bounds every norm with room for the roundings of the factor and of the products, so a scaled row's true
    norm stays at or below the clip.
    """
    norms, exponents = (part[:, None] for part in row_norms(rows))
    # A clip far above the row becomes infinite here, which is above every norm; so may rows that will be scaled.
    with np.errstate(over="ignore"):
        room, unscaled = np.ldexp(clip, -exponents), rows / grid
    factors = np.divide(clip / grid, norms, out=np.zeros_like(norms), where=norms > room)
    return np.rint(np.where(norms > room, np.ldexp(rows, -exponents) * factors, unscaled)).astype(np.int64)


def _flattened(gradients):
    gradients = np.asarray(gradients)
    if gradients.ndim < 2 or gradients.dtype.kind not in "fiu":
        raise InvalidGradients(
            f"gradients have {gradients.ndim} axes of type {gradients.dtype} but must be real numbers with one row "
            "per record."
        )
    if len(gradients) > MOST_RECORDS:
        raise InvalidGradients(f"gradients have {len(gradients)} records but must have at most {MOST_RECORDS}.")
    shape = gradients.shape[1:]
    rows = gradients.reshape(len(gradients), math.prod(shape))
    return rows, np.flatnonzero(_is_finite(rows)), shape


def _is_finite(rows):
    # An extended-precision number may be finite and yet infinite as a float64, which is what is added.
    with np.errstate(over="ignore"):
        return np.isfinite(rows.astype(np.float64, copy=False)).all(axis=1)


def _checked_groups(groups, dimension):
    groups = tuple(np.arange(dimension)[group].ravel() for group in groups)
    covered = np.sort(np.concatenate(groups)) if groups else np.empty(0)
    if not all(map(len, groups)) or not np.array_equal(covered, np.arange(dimension)):
        raise InvalidGradients(f"groups must be non-empty and hold each of the {dimension} coordinates exactly once.")
    return groups
