"""Randomised response on the values of a public grid: numbers, answered one record at a time.

Every value is rounded to one of the k points of the grid, at random so that its mean is kept, and the index of that
point goes through k-ary randomised response with fresh coins: epsilon-locally differentially private (nats, delta 0),
unit *record* (or whatever one value stands for), replace-one. Whatever is rounded how, the answer protects it: the
guarantee rests on the randomised response of the index alone.

What the answers say is post-processing: ``estimate_histogram`` and ``estimate_mean`` are unbiased for values within the
grid (P. Kairouz, S. Oh and P. Viswanath, JMLR 17 (2016), for the mechanism; the estimate inverts its k x k matrix).
"""
import math

import numpy as np

from fate_dp.privacy.events import REPLACE_ONE, RandomizedResponse
from fate_dp.privacy.mechanisms.fresh_flips import coins, flip_indices
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon
from fate_dp.privacy.mechanisms.release import Release, event_of
from fate_dp.privacy.noise.stream import open_stream


class InvalidValues(ValueError):
    """The values are not a list of real numbers."""


class InvalidPoints(ValueError):
    """The points of a grid are not at least two finite, increasing numbers, or answers are not indices of them."""


def grid_randomized_response(values, points, epsilon, *, observers, unit="record", random=None):
    """Indices of grid points, one answer per value.

    :param values: one-dimensional; private. Values outside the grid count as its nearer end, NaN as its first point.
    :param points: the public grid: at least two finite, strictly increasing numbers.
    :param epsilon: privacy parameter in nats per record.
    :param random: a stream; None for the operating system's entropy.
    :returns: ``Release`` of an int64 array, charged as ``RandomizedResponse`` with one class per point.
    :raises ValueError: one sentence on what is wrong.
    """
    points, stream = check_points(points), open_stream(random)
    process = RandomizedResponse(check_epsilon(epsilon), len(points))
    event = event_of(process, stream, unit=unit, relation=REPLACE_ONE, observers=observers)
    return Release(flip_indices(_rounded(values, points, stream), epsilon, len(points), stream), event)


def estimate_histogram(answers, points, epsilon):
    """Share of values at each grid point, estimated without bias; entries may be negative and add up to 1.

    :param answers: indices from ``grid_randomized_response`` with the same ``points`` and ``epsilon``; at least one.
    """
    points, answers = check_points(points), np.asarray(answers)
    is_index = answers.ndim == 1 and answers.size and answers.dtype.kind in "iu"
    if not is_index or not 0 <= answers.min() <= answers.max() < len(points):
        raise InvalidPoints(f"answers must be one or more whole numbers from 0 to {len(points) - 1}.")
    odds = math.exp(-check_epsilon(epsilon))
    shares = np.bincount(answers, minlength=len(points)) / len(answers)
    # (share - q) / (p - q) with p, q = 1, odds over 1 + (k - 1) odds: p - q does not cancel in expm1.
    return (shares * (1 + (len(points) - 1) * odds) - odds) / -math.expm1(-epsilon)


def estimate_mean(answers, points, epsilon):
    """Mean of the values, estimated without bias from the answers; parameters as in ``estimate_histogram``."""
    return float(estimate_histogram(answers, points, epsilon) @ check_points(points))


def check_points(points):
    """The grid as a float64 array; raise ``InvalidPoints`` unless it is two or more finite, increasing numbers."""
    points = np.asarray(points)
    is_real = points.ndim == 1 and len(points) >= 2 and points.dtype.kind in "fiu"
    if not is_real or not np.isfinite(points).all() or not (np.diff(points.astype(np.float64)) > 0).all():
        raise InvalidPoints("points must be at least two finite, strictly increasing numbers.")
    return points.astype(np.float64)


def _rounded(values, points, stream):
    values = np.asarray(values)
    if values.ndim != 1 or values.dtype.kind not in "fiu":
        raise InvalidValues(f"values have {values.ndim} axes, type {values.dtype}, but must be a list of real numbers.")
    values = np.clip(np.where(np.isnan(values), points[0], values), points[0], points[-1])
    below = np.clip(np.searchsorted(points, values, side="right") - 1, 0, len(points) - 2)
    share = (values - points[below]) / (points[below + 1] - points[below])
    return below + coins(share, stream)
