"""Gaussian noise on clipped sums, calibrated against the sensitivity that the sum reports of itself.

The noise is discrete Gaussian on the grid of the clipped sum, so no low bits betray the sum (I. Mironov, CCS 2012). It
is charged as continuous Gaussian noise, to which one rounds afterwards, with the distance between the two as slack.
Noise multipliers are in the unit of ``fate_dp.privacy.events``: without sampling sigma over the sensitivity *under the
relation*, with Poisson sampling sigma over the *clip*. The grid's share belongs to both, so sigma is larger than the
product with the bare clip by the factor 1 + sqrt(dimension) 2^-33 at most. Pass ``sampling_probability`` if, and only
if, the records were drawn by ``poisson_sample`` with it and the batch stays secret.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import events
from ..events import ADD_OR_REMOVE, Event, PoissonSampledGaussian, Process, Release, Statement, View, event_of
from ..noise.discrete import MAX_SCALE, discrete_gaussian, gaussian_slack
from ..noise.stream import Integers, Rng, open_stream
from ..validation import InvalidArgument, positive
from .clipping import ClippedGroups, ClippedSum

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Above the few roundings of products and roots of floats.
ROUND_UP = 1 + 2.0**-48


def gaussian_mechanism(
    clipped: ClippedSum,
    noise_multiplier: float,
    *,
    relation: str,
    sampling_probability: float | None = None,
    rng: Rng = None,
    **view: Unpack[View],
) -> Release:
    """A clipped sum plus Gaussian noise of sigma = noise multiplier times what the sum reports.

    ``noise_multiplier`` is sigma over the sensitivity under ``relation``; with ``sampling_probability`` q, for records
    that are a Poisson sample, over the clip. The ``Release`` of a float64 array in the shape of one record is charged
    as ``Gaussian`` or ``PoissonSampledGaussian``; multiply it by a public 1 / (expected batch size) with
    ``Release.scaled``.
    """
    multiplier = positive("noise_multiplier", noise_multiplier)
    process: Process
    if sampling_probability is None:
        process, moved = events.Gaussian(multiplier), clipped.sensitivity_in_steps(relation)
    else:
        process = PoissonSampledGaussian(sampling_probability, multiplier)
        moved = clipped.sensitivity_in_steps(ADD_OR_REMOVE)
    sigma = _in_range("noise_multiplier", multiplier, moved * ROUND_UP)
    (noisy,), event = _noisy([(clipped, sigma)], process, rng, relation=relation, **view)
    return Release(clipped.in_units(noisy), event)


def grouped_gaussian_mechanism(
    clipped: ClippedGroups,
    sigmas: Sequence[float],
    *,
    relation: str,
    sampling_probability: float | None = None,
    rng: Rng = None,
    **view: Unpack[View],
) -> Release:
    """A sum clipped per group plus Gaussian noise with a sigma of its own per group, public, in their unit.

    One record may move every group at once, so the groups are one query, not several that compose: a linear change of
    variables makes it one Gaussian mechanism of multiplier 1 / mu, mu = sqrt(sum over groups of (C_g / sigma_g)^2). The
    ``Release`` is as of ``gaussian_mechanism``, charged as ``GroupedGaussian`` with the sensitivities that the sum
    reports, or as ``PoissonSampledGaussian`` of multiplier 1 / mu.
    """
    scales = tuple(positive("sigma", sigma) for sigma in sigmas)
    if len(scales) != len(clipped.sums):
        raise InvalidArgument.of("number of sigmas", len(scales), f"{len(clipped.sums)}, one per group")
    process: Process
    if sampling_probability is None:
        process = events.GroupedGaussian(clipped.sensitivity(relation), scales)
    else:
        mu = math.hypot(*(np.array(clipped.sensitivity(ADD_OR_REMOVE)) / np.array(scales)))
        process = PoissonSampledGaussian(sampling_probability, 1 / (mu * ROUND_UP))
    parts = [(part, _in_range("sigma", sigma, 1 / part.grid)) for part, sigma in zip(clipped.sums, scales)]
    noisy, event = _noisy(parts, process, rng, relation=relation, **view)
    return Release(clipped.in_units(noisy), event)


def _noisy(
    parts: list[tuple[ClippedSum, float]], process: Process, rng: Rng, **statement: Unpack[Statement]
) -> tuple[list[Integers], Event]:
    """The steps of each part plus noise of its sigma in steps, and the event of all of them together."""
    stream = open_stream(rng)
    slack = sum(gaussian_slack(sigma, part.dimension) for part, sigma in parts)
    event = event_of(process, stream, slack=slack, **statement)
    return [part.steps + discrete_gaussian(sigma, part.steps.shape, stream) for part, sigma in parts], event


def _in_range(name: str, value: float, steps: float) -> float:
    """``value`` times ``steps``: a sigma in steps of the grid; refused by its name when noise of it does not fit."""
    if value * steps > MAX_SCALE:
        raise InvalidArgument.of(
            name, value, f"at most {MAX_SCALE / steps:.2g}, since noise is drawn up to 2^50 steps of the grid"
        )
    return value * steps
