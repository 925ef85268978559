"""Gaussian noise on clipped sums, calibrated against the sensitivity that the sum reports of itself.

The noise is discrete Gaussian on the grid of the clipped sum, so no low bits betray the sum (I. Mironov, CCS 2012).
It is charged as continuous Gaussian noise, to which one rounds afterwards; the total-variation distance between the
two, per coordinate ``gaussian_slack``, becomes the event's slack. Epsilons and deltas are the accountant's affair:
for a single release the analytic Gaussian mechanism (B. Balle and Y.-X. Wang, ICML 2018, Theorem 8), for many the
composition.

**Unit of noise multipliers**, as in ``fate_dp.privacy.events``: without sampling sigma over the sensitivity *under the
relation*, with Poisson sampling sigma over the *clip* whatever the relation. The grid's share belongs to both, so
sigma is larger than the product with the bare clip by the factor 1 + sqrt(dimension) 2^-33 at most, and the event says
the multiplier that was asked for.

Sampling is a fact of the caller: pass ``sampling_probability`` if, and only if, the records were drawn by
``poisson_sample`` with it and the batch stays secret.
"""
import math

import numpy as np

from fate_dp.privacy.events import ADD_OR_REMOVE, Gaussian, GroupedGaussian, PoissonSampledGaussian
from fate_dp.privacy.mechanisms.release import Release, event_of
from fate_dp.privacy.noise.discrete_gaussian import discrete_gaussian
from fate_dp.privacy.noise.rounded_noise import gaussian_slack
from fate_dp.privacy.noise.stream import open_stream
from fate_dp.privacy.noise.symmetric import LARGEST_SCALE
from fate_dp.privacy.number_kinds import is_real

# Above the few roundings of products and roots of floats.
ROUND_UP = 1 + 2.0**-48


class InvalidNoise(ValueError):
    """A noise multiplier or a sigma is not a finite number greater than 0, or there is not one for each group."""


def gaussian_mechanism(
    clipped, noise_multiplier, *, relation, observers, unit="record", sampling_probability=None, random=None
):
    """A clipped sum plus Gaussian noise of sigma = noise multiplier times what the sum reports.

    :param clipped: ``ClippedSum``; secret.
    :param noise_multiplier: sigma over the sensitivity under ``relation``; with sampling, over the clip.
    :param sampling_probability: None for a sum over all records; q if the records are a Poisson sample.
    :param random: a stream; None for the operating system's entropy.
    :returns: ``Release`` of a float64 array in the shape of one record, charged as ``Gaussian`` or
        ``PoissonSampledGaussian``. Multiply by a public 1 / (expected batch size) with ``Release.scaled``.
    :raises ValueError: one sentence on what is wrong.
    """
    multiplier = check_noise("noise_multiplier", noise_multiplier)
    if sampling_probability is None:
        process, moved = Gaussian(multiplier), clipped.sensitivity_in_steps(relation)
    else:
        process = PoissonSampledGaussian(sampling_probability, multiplier)
        moved = clipped.sensitivity_in_steps(ADD_OR_REMOVE)
    sigma, stream = _in_range("noise_multiplier", multiplier, moved * ROUND_UP), open_stream(random)
    slack = gaussian_slack(sigma, clipped.dimension)
    event = event_of(process, stream, unit=unit, relation=relation, observers=observers, slack=slack)
    noise = discrete_gaussian(sigma, clipped.steps.shape, stream)
    return Release(clipped.in_units(clipped.steps + noise), event)


def grouped_gaussian_mechanism(
    clipped, sigmas, *, relation, observers, unit="record", sampling_probability=None, random=None
):
    """A sum clipped per group plus Gaussian noise with a sigma of its own per group.

    One record may move every group at once, so the groups are one query, not several that compose: a linear change of
    variables makes it one Gaussian mechanism of multiplier 1 / mu, mu = sqrt(sum over groups of (C_g / sigma_g)^2).

    :param clipped: ``ClippedGroups``; secret.
    :param sigmas: one sigma per group, in the unit of the gradients; public.
    :param sampling_probability: None for a sum over all records; q if the records are a Poisson sample.
    :param random: a stream; None for the operating system's entropy.
    :returns: ``Release`` of a float64 array in the shape of one record, charged as ``GroupedGaussian`` with the
        sensitivities that the sum reports, or as ``PoissonSampledGaussian`` of multiplier 1 / mu.
    :raises ValueError: one sentence on what is wrong.
    """
    sigmas = tuple(check_noise("sigma", sigma) for sigma in sigmas)
    if len(sigmas) != len(clipped.sums):
        raise InvalidNoise(f"sigmas has {len(sigmas)} values but must have one per group, {len(clipped.sums)}.")
    if sampling_probability is None:
        process = GroupedGaussian(clipped.sensitivity(relation), sigmas)
    else:
        contributions = np.array(clipped.sensitivity(ADD_OR_REMOVE))
        process = PoissonSampledGaussian(sampling_probability, _joint_multiplier(contributions, sigmas))
    stream = open_stream(random)
    parts = [(part, _in_range("sigma", sigma, 1 / part.grid)) for part, sigma in zip(clipped.sums, sigmas)]
    slack = sum(gaussian_slack(sigma_in_steps, part.dimension) for part, sigma_in_steps in parts)
    event = event_of(process, stream, unit=unit, relation=relation, observers=observers, slack=slack)
    noisy = [part.steps + discrete_gaussian(sigma, part.steps.shape, stream) for part, sigma in parts]
    return Release(clipped.in_units(noisy), event)


def check_noise(name, value):
    """Return ``value`` as a float; raise ``InvalidNoise`` unless it is a finite number greater than 0."""
    if not is_real(value) or not 0 < value <= np.finfo(float).max:
        raise InvalidNoise(f"{name} is {value!r} but must be a finite number greater than 0.")
    return float(value)


def _in_range(name, value, steps):
    """``value`` times ``steps``: a sigma in steps of the grid; refused by its name when noise of it does not fit."""
    if value * steps > LARGEST_SCALE:
        raise InvalidNoise(
            f"{name} is {value!r} but must be at most {LARGEST_SCALE / steps:.2g} here, since noise is drawn up to a "
            "scale of 2^50 steps of the grid."
        )
    return value * steps


def _joint_multiplier(contributions, sigmas):
    mu = math.hypot(*(contributions / np.array(sigmas)))
    return 1 / (mu * ROUND_UP)
