"""Joint scores z of the guest's rows: its own part plus what each host sends."""
from functools import partial, reduce

import numpy as np

from .rounded_scores import decoded_scores
from .rows import scores


def joint_score_blocks(ctx, rows, weights: np.ndarray, step: float):
    """At the guest: table of joint scores z (float64 arrays), each host's part a multiple of ``step``."""
    total = scores(rows, weights)
    for part in ctx.hosts.get("scores"):
        total = total.join(part, partial(_add, step=step))
    return total


def contexts_of_models(ctx, models: int) -> list:
    """A context for the scores of each model; this one where there is one model."""
    return [ctx] if models == 1 else [class_ctx for _, class_ctx in ctx.sub_ctx("class").ctxs_range(models)]


def side_by_side(tables: list):
    """Table of float64 arrays (rows, models) from one of arrays (rows,) for each model."""
    return reduce(_joined, (table.mapValues(_as_column) for table in tables))


def probabilities(joint: np.ndarray) -> np.ndarray:
    """Joint scores z -> P(y = 1)."""
    return 1.0 / (1.0 + np.exp(-joint))


def _joined(first, second):
    return first.join(second, _beside)


def _beside(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.hstack([first, second])


def _as_column(numbers: np.ndarray) -> np.ndarray:
    return numbers[:, None]


def _add(own, received, step):
    return own + decoded_scores(received, len(own), step)
