"""Joint scores z of the guest's rows: its own part plus what each host sends."""
import numpy as np

from .rows import scores


def joint_score_blocks(ctx, rows, weights: np.ndarray):
    """At the guest: table of joint scores z (float64 arrays)."""
    total = scores(rows, weights)
    for part in ctx.hosts.get("scores"):
        total = total.join(part, _add)
    return total


def probabilities(joint: np.ndarray) -> np.ndarray:
    """Joint scores z -> P(y = 1)."""
    return 1.0 / (1.0 + np.exp(-joint))


def _add(first, second):
    return first + second
