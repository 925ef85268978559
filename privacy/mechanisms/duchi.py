"""Duchi's sampler: vectors of an l2 ball, each answered by a pure epsilon-LDP vector whose mean is the truth.

A vector x of norm at most r becomes the direction V = x / |x|, turned round with probability 1/2 - |x| / (2 r). A
direction U is drawn without looking at x; with probability e^epsilon / (e^epsilon + 1) the answer is the end of the
line through U that lies on V's side, otherwise the other one, at length

    B = r (e^epsilon + 1) / (e^epsilon - 1) sqrt(pi) Gamma((d + 1) / 2) / Gamma(d / 2).

J. Duchi, M. Jordan and M. Wainwright, "Minimax optimal procedures for locally private estimation", JASA 113 (2018),
section 4.2.3, the sampler for l2 balls.

**Guarantee**: epsilon-LDP (nats), delta 0, replace-one; unit *client* or whatever one vector stands for. Proof, in
floating point: x enters the answer only through one bit, on which side of U it lies; this bit goes through binary
randomised response (``flip_indices``, exact), and the line U is independent of x. The answer is a function of U and
the randomised bit. So how V, its side or any norm is rounded may cost accuracy, never privacy, and the odds of any
answer change by at most e^epsilon. A NaN or an infinity makes a vector count as zero.

**Accuracy**: U is a vector of discrete Gaussians of sigma 2^20, normalised: symmetric under rotations but for
rounding to 2^-20 of sigma. Answers are unbiased up to that and to 2^-53 in the coin of V; what this bias is exactly
is not proved here. The error of one answer is about B, which grows with sqrt(d).
"""
import math

import numpy as np

from fate_dp.privacy.events import REPLACE_ONE, PureDP
from fate_dp.privacy.mechanisms.fresh_flips import coins, flip_indices
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon
from fate_dp.privacy.mechanisms.release import Release, event_of
from fate_dp.privacy.mechanisms.sensitivity import check_sensitivity
from fate_dp.privacy.noise.discrete_gaussian import discrete_gaussian
from fate_dp.privacy.noise.stream import open_stream

DIRECTION_SIGMA = 2.0**20


class InvalidVectors(ValueError):
    """The input is neither a non-empty vector of real numbers nor rows of such vectors."""


def duchi_l2(vectors, radius, epsilon, *, observers, unit="client", random=None):
    """Answers, one per vector, each epsilon-LDP by itself.

    :param vectors: one vector (d,), or one per row (n, d); private. Longer ones are scaled down to ``radius``.
    :param radius: largest norm r, public, from 1e-150 to 1e150.
    :param epsilon: privacy parameter in nats per vector.
    :param random: a stream; None for the operating system's entropy.
    :returns: ``Release`` of a float64 array in the shape of ``vectors``; every row has norm ``duchi_norm``.
    :raises ValueError: one sentence on what is wrong.
    """
    vectors, stream = _checked_vectors(vectors), open_stream(random)
    radius, epsilon = check_sensitivity(radius), check_epsilon(epsilon)
    event = event_of(PureDP(epsilon), stream, unit=unit, relation=REPLACE_ONE, observers=observers)
    rows = np.atleast_2d(vectors)
    lines = _random_directions(rows.shape, stream)
    sides = np.einsum("ij,ij->i", lines, _signed_directions(rows, radius, stream)) >= 0
    ends = 2 * flip_indices(sides, epsilon, 2, stream) - 1
    answers = lines * (ends * duchi_norm(rows.shape[1], radius, epsilon))[:, None]
    return Release(answers.reshape(vectors.shape), event)


def duchi_norm(dimension, radius, epsilon):
    """The norm B of every answer, which makes its mean the clipped vector."""
    gammas = math.exp(math.lgamma((dimension + 1) / 2) - math.lgamma(dimension / 2))
    return radius / math.tanh(check_epsilon(epsilon) / 2) * math.sqrt(math.pi) * gammas


def _signed_directions(rows, radius, stream):
    """x / |x|, or its opposite with probability 1/2 - |x| / (2 radius); a fixed direction where x is 0."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    # Divided by their largest entry, rows have norms from 1 to sqrt(d), so that no square overflows.
    scaled = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    scaled[largest[:, 0] == 0, 0] = 1.0
    norms = np.linalg.norm(scaled, axis=1)
    with np.errstate(over="ignore"):
        share = np.minimum(1.0, norms * (largest[:, 0] / radius))
    return scaled / norms[:, None] * np.where(coins((1 + share) / 2, stream), 1, -1)[:, None]


def _random_directions(shape, stream):
    directions = discrete_gaussian(DIRECTION_SIGMA, shape, stream).astype(np.float64)
    for row in np.flatnonzero(~directions.any(axis=1)):
        directions[row, 0] = 1.0
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def _checked_vectors(vectors):
    vectors = np.asarray(vectors)
    if vectors.ndim not in (1, 2) or not vectors.shape[-1] or vectors.dtype.kind not in "fiu":
        raise InvalidVectors(
            f"vectors have shape {vectors.shape} and type {vectors.dtype} but must be one real vector or one per row."
        )
    with np.errstate(over="ignore"):
        return vectors.astype(np.float64)
