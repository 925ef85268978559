"""The mean of values clamped to a public range, which knows its own sensitivity.

Under *replace-one*, with the number n of records public, one record moves the mean of values in [a, b] by at most (b
- a) / n (not 1 / n); unit *record*, or whatever one value stands for. Under add-or-remove n itself would change, so
no such statement is made. A NaN or an infinity counts as the middle of the range: a record cannot make a query fail.

Values are rounded to 2^-30 of the range *before* they are added, as integers from 0 to 2^30; so the stated sensitivity
holds exactly for what is released, whatever the order of the sum. The rounding moves the mean by at most 2^-31 (b - a).
"""
from dataclasses import dataclass, field

import numpy as np

from fate_dp.privacy.events import REPLACE_ONE, InvalidEvent, check_relation
from fate_dp.privacy.mechanisms.laplace import laplace_charge, laplace_scale, release_steps
from fate_dp.privacy.mechanisms.release import Release

STEPS_OF_RANGE = 2**30
# Their steps add up to at most 2^60, to which noise of scale 2^50 may still be added in an int64.
MOST_RECORDS = 2**30


class InvalidBounds(ValueError):
    """The ends of a range are not finite numbers, the lower below the upper, or do not fit the values."""


class InvalidRecords(ValueError):
    """There is no record, or there are too many, or values are not real numbers."""


@dataclass(frozen=True, eq=False)
class BoundedMean:
    """A mean of clamped values as integers; secret until noise is added.

    :param steps: int64 array: per coordinate the sum over records of the position in the range, in 2^-30 of it.
    :param count: number n of records; public.
    :param lower: lower end of the range, per coordinate; public.
    :param upper: upper end of the range, per coordinate; public.
    """

    steps: np.ndarray = field(repr=False)
    count: int
    lower: np.ndarray
    upper: np.ndarray

    @property
    def dimension(self):
        """Number of coordinates."""
        return self.steps.size

    @property
    def value(self):
        """The mean without noise: secret."""
        return self.in_units(self.steps)

    def sensitivity(self, relation):
        """l1 sensitivity of the mean in the unit of the values: the sum over coordinates of (b - a) / n.

        :raises InvalidEvent: unless the relation is replace-one.
        """
        self.sensitivity_in_steps(relation)
        return float(np.sum(self.upper - self.lower) / self.count)

    def sensitivity_in_steps(self, relation):
        """l1 sensitivity of ``steps``: 2^30 per coordinate, exactly."""
        if check_relation(relation) != REPLACE_ONE:
            raise InvalidEvent(f"relation is {relation!r} but must be {REPLACE_ONE} for a mean over a public count.")
        return self.dimension * STEPS_OF_RANGE

    def in_units(self, steps):
        """Sums of positions, for instance ``steps`` with noise, as means in the unit of the values."""
        share = np.asarray(steps) / (self.count * STEPS_OF_RANGE)
        return self.lower + share * (self.upper - self.lower)


def bounded_mean(values, lower, upper):
    """Mean of the records' values, each clamped to [lower, upper].

    :param values: array (records,) or (records, ...), at least one record; private.
    :param lower: lower end, public: a number, or an array in the shape of one record.
    :param upper: upper end, public, likewise; above ``lower`` everywhere.
    :returns: ``BoundedMean``.
    :raises InvalidRecords, InvalidBounds: one sentence on what is wrong; never because of NaN or infinity.
    """
    positions, lower, upper = positions_in_range(values, lower, upper, STEPS_OF_RANGE)
    return BoundedMean(np.asarray(positions.sum(axis=0)), len(positions), lower, upper)


def private_mean(values, lower, upper, epsilon, *, observers, unit="record", random=None):
    """The bounded mean plus Laplace noise: epsilon-DP (nats, delta 0) under replace-one with a public count.

    :param values: array (records,) or (records, ...); private. ``lower`` and ``upper`` as in ``bounded_mean``.
    :param random: a stream; None for the operating system's entropy.
    :returns: ``Release`` of a float64 number or array. It is not clamped again, so that it stays unbiased.
    :raises ValueError: one sentence on what is wrong.
    """
    mean = bounded_mean(values, lower, upper)
    scale = laplace_scale(mean.sensitivity_in_steps(REPLACE_ONE), epsilon)
    process, slack = laplace_charge(mean.dimension, epsilon, scale)
    release = release_steps(
        mean.steps, scale, process, slack, relation=REPLACE_ONE, observers=observers, unit=unit, random=random
    )
    return Release(mean.in_units(release.value), release.event)


def positions_in_range(values, lower, upper, steps):
    """Where each value lies in its range, as an int64 from 0 (lower) to ``steps`` (upper), and both ends as arrays.

    Values outside are clamped; a NaN or an infinity is put in the middle. Parameters as in ``bounded_mean``.
    """
    values = np.asarray(values)
    is_real = values.ndim >= 1 and values.dtype.kind in "biuf"
    if not is_real or not values.size or len(values) > MOST_RECORDS:
        raise InvalidRecords(
            f"values have shape {values.shape} and type {values.dtype} but must be real numbers, at least one for each "
            f"of 1 to {MOST_RECORDS} records."
        )
    lower, upper = check_range(lower, upper, values.shape[1:])
    with np.errstate(over="ignore"):
        values = values.astype(np.float64)
    values = np.where(np.isfinite(values), values, lower + (upper - lower) / 2)
    shares = (np.clip(values, lower, upper) - lower) / (upper - lower)
    return np.rint(np.clip(shares, 0, 1) * steps).astype(np.int64), lower, upper


def check_range(lower, upper, shape):
    """Both ends as float64 arrays of that shape; raise ``InvalidBounds`` unless lower < upper, finite, everywhere."""
    try:
        ends = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        lower_end, upper_end = (np.broadcast_to(end, shape) for end in ends)
    except (TypeError, ValueError) as error:
        raise InvalidBounds(f"lower and upper must be numbers or arrays of the shape {shape} of a record.") from error
    with np.errstate(over="ignore", invalid="ignore"):
        if not (np.isfinite(upper_end - lower_end) & (upper_end > lower_end)).all():
            raise InvalidBounds(f"lower is {lower!r} and upper is {upper!r} but must be finite, lower below upper.")
    return lower_end, upper_end
