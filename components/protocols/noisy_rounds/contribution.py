"""A round's content and result, and a clip that follows a quantile of the norms, in the same noisy release.

Next to its clipped gradient g (norm at most C) every unit sends w (b - 1/2) with w = ``WEIGHT`` C, where b says whether
the norm was at most C; one Gaussian mechanism releases both, and there is nothing else to charge
(docs/proofs-dp_homo_nn.md; G. Andrew et al., NeurIPS 2021, arXiv 1905.03871). The next clip is a function of released
values and public numbers only, so it may be published.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from fate_dp.privacy.mechanisms.clipping import ClippedSum, clip_records, row_norms

from .terms import RoundTerms

WEIGHT = 1 / 8
# Of the geometric update; the paper's choice.
LEARNING_RATE = 0.2
# The clip stays within this factor of the first one, so that noise alone never drives it to the ends of floats.
MAX_FACTOR = 2.0**20
ROWS_AT_ONCE = 2**22


def joint_clip(clip: float) -> float:
    """Largest norm of a clipped gradient together with its indicator, rounded up."""
    return clip * math.sqrt(1 + WEIGHT**2 / 4) * (1 + 2.0**-40)


def with_indicators(rows: np.ndarray, clip: float) -> ClippedSum:
    """Sum over rows (n, d), one per unit, of (clipped row, w (b - 1/2)): d + 1 coordinates, of clip ``joint_clip``.

    A row with a NaN or an infinity contributes zero.
    """
    rows, bound = np.asarray(rows), joint_clip(clip)
    steps = np.zeros(rows.shape[1] + 1, dtype=np.int64)
    portion = max(1, ROWS_AT_ONCE // len(steps))
    for start in range(0, max(1, len(rows)), portion):
        part = clip_records(_joined(rows[start : start + portion], clip), bound)
        steps += part.steps
    steps.flags.writeable = False
    return ClippedSum(steps, part.grid, part.clip)


def share_below(noisy_indicator: float, clip: float, normaliser: float) -> float:
    """The noisy mean of b from the released sum of w (b - 1/2), clamped to [0, 1]: post-processing."""
    return min(1.0, max(0.0, noisy_indicator / (WEIGHT * clip * normaliser) + 0.5))


def next_clip(clip: float, below: float, quantile: float, first: float) -> float:
    """The clip after a round: C exp(-rate (share below - quantile)), within a factor 2^20 of the first one."""
    moved = clip * math.exp(-LEARNING_RATE * (below - quantile))
    return min(first * MAX_FACTOR, max(first / MAX_FACTOR, moved))


def _joined(rows: np.ndarray, clip: float) -> np.ndarray:
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


@dataclass(frozen=True, eq=False)
class Contribution:
    """What the client at ``position`` has for one round: what the trust model's ``encode`` takes.

    In ``secure_sum`` int64 steps with the noise share, for masks only (alone they are under-noised: secret); in ``local`` a
    noisy float64 vector; in ``shuffle`` float64 rows of answers.
    """

    position: int
    round_number: int
    clip: float
    content: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class NoisyMean:
    """What the server makes of a round: a direction (d,) to descend along. The account covers it: it may be published.

    ``share_below`` is the noisy share of units whose norm was at most the clip; None without ``clip_quantile``.
    """

    gradient: np.ndarray = field(repr=False)
    share_below: float | None = None


class InvalidMessage(ValueError):
    """A message has the wrong size, or holds what no client sends."""


class RoundLost(RuntimeError):
    """A client was lost after vectors left: the round is spent and gives no step."""


def split_indicator(values: np.ndarray, terms: RoundTerms, clip: float) -> NoisyMean:
    """``NoisyMean`` from the released sum (vector_length,), in units of scaled contributions."""
    gradient = values[: terms.dimension] / terms.expected_units * terms.factors
    if terms.clip_quantile is None:
        return NoisyMean(gradient)
    return NoisyMean(gradient, share_below(float(values[-1]), clip, terms.batch_size))
