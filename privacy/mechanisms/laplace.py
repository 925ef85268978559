"""Laplace noise on an integer grid: pure epsilon-differential privacy (nats, delta 0) without low bits that betray.

The sensitivity is l1, under the stated relation. For real values it is the caller's claim; ``bounded_mean`` derives its
own. What is released is an integer number of steps: the query rounded to the grid, plus discrete Laplace noise of scale
(l1 sensitivity in steps, rounding included) / epsilon, rounded up. That is epsilon-DP exactly (A. Ghosh, T. Roughgarden
and M. Sundararajan, STOC 2009), but for the sampler's slack.

*Events.* One real number is charged as ``Laplace(1 / epsilon)``, which composes better than ``PureDP``, with
``rounded_laplace_slack`` for the step from discrete to continuous noise. That several numbers with one l1 sensitivity
never lose more than one number does is not proved here, so vectors are charged as ``PureDP``; so are counts, whose
steps are too coarse for that slack.

References: C. Dwork, F. McSherry, K. Nissim and A. Smith, TCC 2006, Proposition 1; I. Mironov, CCS 2012, for the low
bits.
"""
import math

import numpy as np

from fate_dp.privacy.events import Laplace, PureDP
from fate_dp.privacy.mechanisms.randomized_response import InvalidEpsilon, check_epsilon
from fate_dp.privacy.mechanisms.release import Release, event_of
from fate_dp.privacy.mechanisms.sensitivity import InvalidSensitivity, check_sensitivity
from fate_dp.privacy.noise.discrete_laplace import discrete_laplace, discrete_laplace_slack
from fate_dp.privacy.noise.rounded_noise import rounded_laplace_slack
from fate_dp.privacy.noise.stream import open_stream
from fate_dp.privacy.noise.symmetric import LARGEST_SCALE
from fate_dp.privacy.number_kinds import is_whole

GRID_BITS = 30
# With noise of scale up to 2^50 on top, the sum still fits an int64.
MOST_STEPS = 2**60
# Up to here a whole number is a float64; beyond, two neighbours' numbers could be rounded further apart than they are.
LARGEST_EXACT = 2**53
# Above the few roundings of a quotient of floats.
ROUND_UP = 1 + 2.0**-48


class InvalidQuery(ValueError):
    """The value of a query is not made of finite numbers of the required kind."""


def laplace_mechanism(value, sensitivity, epsilon, *, relation, observers, unit="record", random=None):
    """A real number or array plus Laplace noise of scale sensitivity / epsilon on a grid.

    The grid is the largest power of two of at most 2^-30 of the sensitivity. Rounding the query to it adds one step per
    coordinate to the sensitivity, which the noise covers.

    :param value: finite; private. Beyond 2^29 sensitivities it is clamped, which adds nothing to the sensitivity, and
        so are whole numbers of an integer type beyond 2^53. The sensitivity is that of the numbers as an array.
    :param sensitivity: largest l1 change of ``value`` between neighbours under ``relation``, from 1e-150 to 1e150.
    :param epsilon: privacy parameter in nats.
    :param random: a stream; None for the operating system's entropy.
    :returns: ``Release`` of a float64 number or array, charged as ``Laplace`` for one number, else as ``PureDP``.
    :raises ValueError: one sentence on what is wrong.
    """
    values = _checked_values(value, "fiu", "finite real numbers")
    grid = math.ldexp(1.0, math.frexp(check_sensitivity(sensitivity))[1] - 1 - GRID_BITS)
    with np.errstate(over="ignore"):
        steps = np.rint(np.clip(_as_floats(values) / grid, -MOST_STEPS, MOST_STEPS)).astype(np.int64)
    scale = laplace_scale(sensitivity / grid + values.size, epsilon)
    process, slack = laplace_charge(values.size, epsilon, scale)
    release = release_steps(
        steps, scale, process, slack, relation=relation, observers=observers, unit=unit, random=random
    )
    return release.scaled(grid)


def geometric_mechanism(counts, sensitivity, epsilon, *, relation, observers, unit="record", random=None):
    """A whole number or array of counts plus discrete Laplace noise of scale sensitivity / epsilon.

    :param counts: whole numbers; private. Clamped to magnitude 2^60.
    :param sensitivity: largest l1 change of ``counts`` between neighbours under ``relation``, a whole number.
    :param epsilon: privacy parameter in nats.
    :param random: a stream; None for the operating system's entropy.
    :returns: ``Release`` of an int64 number or array, charged as ``PureDP``.
    :raises ValueError: one sentence on what is wrong.
    """
    counts = _checked_values(counts, "iu", "whole numbers")
    if not is_whole(sensitivity) or not 1 <= sensitivity <= MOST_STEPS:
        raise InvalidSensitivity(f"sensitivity is {sensitivity!r} but must be a whole number from 1 to 2^60.")
    steps = _clamped(counts, MOST_STEPS).astype(np.int64)
    scale = laplace_scale(int(sensitivity), epsilon)
    return release_steps(
        steps, scale, PureDP(epsilon), 0.0, relation=relation, observers=observers, unit=unit, random=random
    )


def laplace_scale(sensitivity, epsilon):
    """Scale of the noise in steps of the grid, rounded up.

    :param sensitivity: l1, in steps.
    :raises InvalidEpsilon: also when epsilon is too small for the noise to fit the grid.
    """
    scale = sensitivity / check_epsilon(epsilon) * ROUND_UP
    if scale > LARGEST_SCALE:
        raise InvalidEpsilon(
            f"epsilon is {epsilon!r} but must be at least {sensitivity / LARGEST_SCALE * ROUND_UP:.2g} here, since "
            "noise is drawn up to a scale of 2^50 steps of the grid."
        )
    return scale


def laplace_charge(size, epsilon, scale):
    """The process that real numbers with Laplace noise are charged as, and the slack of each for the grid.

    :param size: how many numbers share the l1 sensitivity.
    :param scale: what ``laplace_scale`` gave for the sensitivity in steps; the room in it covers rounding 1 / epsilon.
    """
    if size == 1:
        return Laplace(1 / epsilon), rounded_laplace_slack(scale)
    return PureDP(epsilon), 0.0


def release_steps(steps, scale, process, slack, *, relation, observers, unit, random):
    """``Release`` of integers plus discrete Laplace noise of that scale, charged as ``process``.

    :param slack: what each number adds to the sampler's own slack.
    """
    stream = open_stream(random)
    slack = steps.size * (slack + discrete_laplace_slack(scale))
    event = event_of(process, stream, unit=unit, relation=relation, observers=observers, slack=slack)
    return Release(steps + discrete_laplace(scale, steps.shape, stream), event)


def _as_floats(values):
    """Exactly the same numbers as float64: in a narrower type the quotient by the grid would overflow."""
    values = values if values.dtype.kind == "f" else _clamped(values, LARGEST_EXACT)
    return values.astype(np.float64)


def _clamped(integers, most):
    return np.clip(integers, -most if integers.dtype.kind == "i" else 0, most)


def _checked_values(values, kinds, allowed):
    array = np.asarray(values)
    if array.dtype.kind not in kinds or array.dtype.itemsize > 8 or not np.isfinite(array).all():
        raise InvalidQuery(f"The value of the query must hold {allowed} of at most 64 bits, without NaN or infinity.")
    return array
