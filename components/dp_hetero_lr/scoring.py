"""Joint scores z of the guest's rows: its own part plus what each host sends."""
from functools import partial

import numpy as np

from .rounded_scores import decoded_scores
from .rows import scores


def joint_score_blocks(ctx, rows, weights: np.ndarray, step: float):
    """At the guest: table of joint scores z (float64 arrays), each host's part a multiple of ``step``."""
    total = scores(rows, weights)
    for part in ctx.hosts.get("scores"):
        total = total.join(part, partial(_add, step=step))
    return total


def probabilities(joint: np.ndarray) -> np.ndarray:
    """Joint scores z -> P(y = 1)."""
    return 1.0 / (1.0 + np.exp(-joint))


def _add(own, received, step):
    return own + decoded_scores(received, len(own), step)
