"""Laplace noise on an integer grid: pure epsilon-differential privacy (nats, delta 0) without low bits that betray.

The sensitivity is l1, under the stated relation. For real values it is the caller's claim; ``bounded_mean`` derives its
own. What is released is an integer number of steps: the query rounded to the grid, plus discrete Laplace noise of scale
(l1 sensitivity in steps, rounding included) / epsilon, rounded up. That is epsilon-DP exactly (A. Ghosh, T. Roughgarden
and M. Sundararajan, STOC 2009), but for the sampler's slack.

*Events.* One real number is charged as ``Laplace(1 / epsilon)``, which composes better than ``PureDP``, with
``rounded_laplace_slack`` for the step from discrete to continuous noise. That several numbers with one l1 sensitivity
never lose more than one number does is not proved here, so vectors are charged as ``PureDP``; so are counts, too coarse
for that slack.

References: C. Dwork, F. McSherry, K. Nissim and A. Smith, TCC 2006, Proposition 1; I. Mironov, CCS 2012, for low bits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..events import Laplace, Process, PureDP, Release, Statement, event_of
from ..noise.discrete import MAX_SCALE, discrete_laplace, discrete_laplace_slack, rounded_laplace_slack
from ..noise.stream import Integers, Rng, open_stream
from ..validation import InvalidArgument, check_epsilon, check_sensitivity, whole

if TYPE_CHECKING:
    from typing_extensions import Unpack

GRID_BITS = 30
# With noise of scale up to 2^50 on top, the sum still fits an int64.
MAX_STEPS = 2**60
# Up to here a whole number is a float64; beyond, two neighbours' numbers could be rounded further apart than they are.
MAX_EXACT = 2**53
# Above the few roundings of a quotient of floats.
ROUND_UP = 1 + 2.0**-48


def laplace_mechanism(
    value: ArrayLike, sensitivity: float, epsilon: float, *, rng: Rng = None, **statement: Unpack[Statement]
) -> Release:
    """A real number or array plus Laplace noise of scale sensitivity / epsilon on a grid.

    The grid is the largest power of two of at most 2^-30 of the sensitivity. Rounding the query to it adds one step per
    coordinate to the sensitivity, which the noise covers. The private, finite ``value`` is clamped beyond 2^29
    sensitivities, which adds nothing to the sensitivity, and so are whole numbers of an integer type beyond 2^53.
    ``sensitivity``, from 1e-150 to 1e150, is the largest l1 change of ``value``, as an array, between neighbours under
    ``relation``. The ``Release`` of a float64 number or array is charged as ``Laplace`` for one number, else as
    ``PureDP``.
    """
    values = _checked_values(value, "fiu", "finite real numbers")
    grid = math.ldexp(1.0, math.frexp(check_sensitivity(sensitivity))[1] - 1 - GRID_BITS)
    # As float64, exactly the same numbers: in a narrower type the quotient by the grid would overflow.
    floats = (values if values.dtype.kind == "f" else _clamped(values, MAX_EXACT)).astype(np.float64)
    with np.errstate(over="ignore"):
        steps = np.rint(np.clip(floats / grid, -MAX_STEPS, MAX_STEPS)).astype(np.int64)
    scale = laplace_scale(sensitivity / grid + values.size, epsilon)
    process, slack = laplace_charge(values.size, epsilon, scale)
    return release_steps(steps, scale, process, slack, rng, **statement).scaled(grid)


def geometric_mechanism(
    counts: ArrayLike, sensitivity: int, epsilon: float, *, rng: Rng = None, **statement: Unpack[Statement]
) -> Release:
    """A whole number or array of counts, private, plus discrete Laplace noise of scale sensitivity / epsilon.

    Counts are clamped to magnitude 2^60; ``sensitivity``, a whole number, is their largest l1 change between neighbours
    under ``relation``. The ``Release`` of an int64 number or array is charged as ``PureDP``.
    """
    whole_counts = _checked_values(counts, "iu", "whole numbers")
    whole("sensitivity", sensitivity, 1, MAX_STEPS, "a whole number from 1 to 2^60")
    steps = _clamped(whole_counts, MAX_STEPS).astype(np.int64)
    scale = laplace_scale(int(sensitivity), epsilon)
    return release_steps(steps, scale, PureDP(epsilon), 0.0, rng, **statement)


def laplace_scale(sensitivity: float, epsilon: float) -> float:
    """Scale of the noise in steps of the grid, like the l1 ``sensitivity``; rounded up, and refused beyond 2^50."""
    scale = sensitivity / check_epsilon(epsilon) * ROUND_UP
    if scale > MAX_SCALE:
        least = f"at least {sensitivity / MAX_SCALE * ROUND_UP:.2g}, since noise is drawn up to 2^50 steps of the grid"
        raise InvalidArgument.of("epsilon", epsilon, least)
    return scale


def laplace_charge(size: int, epsilon: float, scale: float) -> tuple[Process, float]:
    """The process that ``size`` real numbers of one l1 sensitivity are charged as, and the slack of each for the grid.

    ``scale`` is what ``laplace_scale`` gave for the sensitivity in steps; the room in it covers rounding 1 / epsilon.
    """
    if size == 1:
        return Laplace(1 / epsilon), rounded_laplace_slack(scale)
    return PureDP(epsilon), 0.0


def release_steps(
    steps: Integers, scale: float, process: Process, slack: float, rng: Rng, **statement: Unpack[Statement]
) -> Release:
    """``Release`` of integers plus discrete Laplace noise of that scale, charged as ``process``.

    ``slack`` is what each number adds to the sampler's own.
    """
    stream = open_stream(rng)
    slack = steps.size * (slack + discrete_laplace_slack(scale))
    event = event_of(process, stream, slack=slack, **statement)
    return Release(steps + discrete_laplace(scale, steps.shape, stream), event)


def _clamped(integers: NDArray[Any], most: int) -> NDArray[Any]:
    return np.clip(integers, -most if integers.dtype.kind == "i" else 0, most)


def _checked_values(values: ArrayLike, kinds: str, allowed: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in kinds or array.dtype.itemsize > 8 or not np.isfinite(array).all():
        raise InvalidArgument.of("value of the query", array, f"{allowed} of at most 64 bits, without NaN or infinity")
    return array
