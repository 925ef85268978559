"""How many of a host's binary columns the attack on joint scores finds."""

import numpy as np

from bench.attack_methods.label_scores import column_steps
from bench.attack_methods.label_views import JointScoreView

UNIT = 2.0**-46
"""Of exact scores: features are multiples of 2^-24 and weights of 2^-22."""


def steps_found(scores, features, weights) -> int:
    """How many of eight columns' steps the attack finds; all of them give the values of all rows."""
    steps = np.array(column_steps(JointScoreView(scores=scores, step=UNIT)) or [0])
    true = np.abs(weights) * np.ptp(features, axis=0)
    return sum(bool((np.abs(steps - step) < step * 1e-5).any()) for step in true)
