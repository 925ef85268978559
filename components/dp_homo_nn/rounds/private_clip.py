"""A clip that follows a quantile of the norms, in the same noisy release as the gradient.

G. Andrew, O. Thakkar, B. McMahan and S. Ramaswamy, "Differentially private learning with adaptive clipping", NeurIPS
2021, arXiv 1905.03871: next to its clipped gradient g (norm at most C) every unit sends b - 1/2, where b says whether
the norm was at most C, and the clip moves geometrically by the noisy mean of b.

**Account.** Here both are *one* vector (g, w (b - 1/2)) with w = ``WEIGHT`` C. Its norm is at most
sqrt(C^2 + w^2 / 4) = C sqrt(1 + WEIGHT^2 / 4), by 0.2 % more than C. So one Gaussian mechanism releases it: with noise
of sigma = z times that norm on all d + 1 coordinates, the noise multiplier that is charged is z, and there is nothing
else to charge. (The paper writes the same split as z_gradient = (z^-2 - (2 sigma_b)^-2)^(-1/2), in which
sigma_b = z sqrt(1 + WEIGHT^2 / 4) / WEIGHT, about 8 z, is the noise on the count.)

The next clip is a function of released values and public numbers only, so it may be published.
"""
import math

import numpy as np

from fate_dp.privacy.mechanisms.clipping import ClippedSum, clip_records
from fate_dp.privacy.mechanisms.row_norms import row_norms

WEIGHT = 1 / 8
# Of the geometric update; the paper's choice.
LEARNING_RATE = 0.2
# The clip stays within this factor of the first one, so that noise alone never drives it to the ends of floats.
LARGEST_FACTOR = 2.0**20
ROWS_AT_ONCE = 2**22


def joint_clip(clip):
    """Largest norm of a clipped gradient together with its indicator, rounded up."""
    return clip * math.sqrt(1 + WEIGHT**2 / 4) * (1 + 2.0**-40)


def with_indicators(rows, clip):
    """Sum of (clipped row, w (b - 1/2)) over the rows: a ``ClippedSum`` of d + 1 coordinates, of clip ``joint_clip``.

    :param rows: array (n, d), one row per unit; private. A row with a NaN or an infinity contributes zero.
    :param clip: C.
    """
    rows, bound = np.asarray(rows), joint_clip(clip)
    steps = np.zeros(rows.shape[1] + 1, dtype=np.int64)
    portion = max(1, ROWS_AT_ONCE // len(steps))
    for start in range(0, max(1, len(rows)), portion):
        part = clip_records(_joined(rows[start : start + portion], clip), bound)
        steps += part.steps
    steps.flags.writeable = False
    return ClippedSum(steps, part.grid, part.clip)


def share_below(noisy_indicator, clip, normaliser):
    """The noisy mean of b from the released sum of w (b - 1/2), clamped to [0, 1]: post-processing."""
    return min(1.0, max(0.0, noisy_indicator / (WEIGHT * clip * normaliser) + 0.5))


def next_clip(clip, below, quantile, first):
    """The clip after a round: C exp(-rate (share below - quantile)), within a factor 2^20 of the first one."""
    moved = clip * math.exp(-LEARNING_RATE * (below - quantile))
    return min(first * LARGEST_FACTOR, max(first / LARGEST_FACTOR, moved))


def _joined(rows, clip):
    """Rows within the clip, each with its indicator: a function of that row alone. A row that is not finite stays so."""
    rows = rows.astype(np.float64)
    finite = np.isfinite(rows).all(axis=1)
    fractions, exponents = row_norms(np.where(finite[:, None], rows, 0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.ldexp(fractions, exponents)
        # Norms are bounded again by ``clip_records``; this only keeps the gradient's share of the joint norm at C.
        factors = np.minimum(1.0, np.divide(clip, norms, out=np.ones_like(norms), where=norms > 0))
        clipped = rows * factors[:, None]
    return np.concatenate([clipped, WEIGHT * clip * ((norms <= clip) - 0.5)[:, None]], axis=1)
