"""Rows of one party with an l2 norm that is bounded by public numbers, as integers on a grid.

A party of vertical training holds a part of every record: its features, and at the guest an intercept (a column of
ones) and a target. Features are divided by public scales and clipped to the radius, the target to its own bound, and
both are rounded *towards zero* to the grid. Rounding that way never makes a row longer, so the bounds hold exactly for
the integers, and no sensitivity has a term for the grid.

Unit of all integers: 2^-24, that of ``dp_hetero_lr``'s tables. The grid may be coarser, see ``SecondMoments``.
"""
import math
from dataclasses import dataclass

import numpy as np

from fate_dp.privacy.mechanisms.row_norms import row_norms
from fate_dp.privacy.number_kinds import is_finite, is_whole

UNIT_BITS = 24
# Below the largest, no column's mean square can exceed 2^8, which the encrypted product needs: so it never refuses
# because of the data. Above the smallest, rows keep 20 bits.
LEAST_RADIUS, LARGEST_BOUND = 1 / 16, 16.0
MOST_FEATURES = 2**20
# Above the few roundings of sums, products and roots of floats.
ROUND_UP = 1 + 2.0**-48


class InvalidRowBounds(ValueError):
    """A public bound of rows is outside its range: one sentence."""


class InvalidRows(ValueError):
    """Features, scales or targets are no numbers of the shape that the bounds state: one sentence."""


@dataclass(frozen=True)
class RowBounds:
    """Public bounds of one party's rows. The columns are its features, then the intercept, then the target.

    :param features: number of features, at least 1.
    :param radius: largest l2 norm of the features of one row, after division by the scales; from 1/16 to 16.
    :param intercept: whether a column of ones follows, which is the same for every record.
    :param target: largest magnitude of the target, at most 16; 0 at a party without one.
    :raises InvalidRowBounds: one sentence naming the field, its value and what is allowed.
    """

    features: int
    radius: float
    intercept: bool = False
    target: float = 0.0

    def __post_init__(self):
        if not is_whole(self.features) or not 1 <= self.features <= MOST_FEATURES:
            raise InvalidRowBounds(
                f"features is {self.features!r} but must be a whole number from 1 to {MOST_FEATURES}."
            )
        if not is_finite(self.radius) or not LEAST_RADIUS <= self.radius <= LARGEST_BOUND:
            raise InvalidRowBounds(
                f"radius is {self.radius!r} but must be from {LEAST_RADIUS:g} to {LARGEST_BOUND:g}; "
                "give the features larger units if their rows are longer."
            )
        if not isinstance(self.intercept, bool):
            raise InvalidRowBounds(f"intercept is {self.intercept!r} but must be True or False.")
        if not is_finite(self.target) or not 0 <= self.target <= LARGEST_BOUND:
            raise InvalidRowBounds(f"target is {self.target!r} but must be from 0 to {LARGEST_BOUND:g}.")

    @property
    def weights(self):
        """Number of weights of the party: one per feature, and one of the intercept."""
        return self.features + self.intercept

    @property
    def columns(self):
        """Number of columns, the target included."""
        return self.weights + (self.target > 0)

    @property
    def moving(self):
        """Positions of the columns that replacing a record can change: all but the intercept's."""
        return np.delete(np.arange(self.columns), self.features if self.intercept else [])

    @property
    def moving_square(self):
        """Bound of the squared norm of what a record decides: features and target; rounded up."""
        return (self.radius**2 + self.target**2) * ROUND_UP

    @property
    def whole_square(self):
        """Bound of the squared norm of a whole row, the intercept's 1 included; rounded up."""
        return (self.radius**2 + self.target**2 + self.intercept) * ROUND_UP


def clip_rows(features, scales, bounds, fraction_bits=UNIT_BITS):
    """Features divided by their scales, each row clipped to the radius, as integers on the grid.

    A kernel for one block of rows: a row's result depends on that row and on public numbers only.

    :param features: array (n, m) of real numbers; private. A row with a NaN or an infinity becomes zero.
    :param scales: m positive numbers, public (or released); ones for no scaling.
    :param bounds: ``RowBounds``.
    :param fraction_bits: the grid is 2^-fraction_bits, at most 24 bits; ``SecondMoments.fraction_bits``.
    :returns: int64 array (n, m), unit 2^-24, multiples of 2^(24 - fraction_bits); every row's exact l2 norm is at most
        the radius.
    :raises InvalidRows: one sentence; never because of NaN or infinity.
    """
    features = np.asarray(features)
    if features.ndim != 2 or features.shape[1] != bounds.features or features.dtype.kind not in "fiu":
        raise InvalidRows(
            f"features have shape {features.shape} and type {features.dtype} but must be real numbers in "
            f"{bounds.features} columns."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        rows = features.astype(np.float64) / check_scales(scales, bounds)
    rows[~np.isfinite(rows).all(axis=1)] = 0.0
    return _on_grid(_shortened(rows, bounds.radius), fraction_bits)


def clip_target(values, bounds, fraction_bits=UNIT_BITS):
    """Targets clamped to magnitude ``bounds.target``, as integers on the grid; NaN and infinity become zero.

    For labels y from 0 to 1 the target is c (y - 1/2) with the curvature c = 4 of the Taylor loss, hence at most 2 in
    magnitude; see docs/second_moments.md.

    :param values: array (n,) of real numbers; private.
    :returns: int64 array (n,), unit 2^-24.
    :raises InvalidRows: when there is no target at this party, or the values are no such array.
    """
    values = np.asarray(values)
    if not bounds.target:
        raise InvalidRows("The bounds state no target for this party, so no values may be given.")
    if values.ndim != 1 or values.dtype.kind not in "fiu":
        raise InvalidRows(f"targets have shape {values.shape} and type {values.dtype} but must be one number per row.")
    values = np.where(np.isfinite(values), values, 0.0).astype(np.float64)
    return _on_grid(np.clip(values, -bounds.target, bounds.target), fraction_bits)


def check_scales(scales, bounds):
    """Scales as a float64 array; raise ``InvalidRows`` unless there is a positive finite one for every feature."""
    scales = np.asarray(scales, dtype=np.float64)
    if scales.shape != (bounds.features,) or not (np.isfinite(scales) & (scales > 0)).all():
        raise InvalidRows(f"scales must be {bounds.features} finite numbers greater than 0, one per feature.")
    return scales


def _shortened(rows, radius):
    """Rows of norm at most the radius, also in floating point, each a function of its row alone.

    ``row_norms`` bounds every norm with room for the roundings behind it.
    """
    norms, exponents = (part[:, None] for part in row_norms(rows))
    with np.errstate(over="ignore"):
        is_long = norms > np.ldexp(radius, -exponents)
    factors = np.divide(radius, norms, out=np.zeros_like(norms), where=is_long)
    return np.where(is_long, np.ldexp(rows, -exponents) * factors, rows)


def _on_grid(values, fraction_bits):
    """Rounded towards zero to multiples of 2^-fraction_bits, as integers in units of 2^-24."""
    steps = np.trunc(np.ldexp(values, fraction_bits)).astype(np.int64)
    return steps << (UNIT_BITS - fraction_bits)


def unit_scales(bounds):
    """Scales of one for every feature: ``noise: uniform``."""
    return np.ones(bounds.features)


def typical_radius(features):
    """sqrt(features), at most 16: the norm of a row of features whose public units are their typical spreads."""
    return min(math.sqrt(features), LARGEST_BOUND)
