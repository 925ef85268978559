"""How much of the training labels is noise, for the penalty that is set where a job sets none."""
import math

import numpy as np

from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.privacy.mechanisms.piecewise import piecewise_law


def equivalent_epsilon(privacy: LabelPrivacy, labels: np.ndarray) -> float:
    """Epsilon (nats) of flips that leave as much noise per signal as the labels have; `updates.default_optimizer` takes it.

    For flips and public labels it is theirs. Numbers with noise of variance s around labels of variance v, half of which
    features explain as that rule assumes, have residuals of v / 2 + s over a signal of v / 2: the best ridge penalty is
    1 + 2 s / v times that of exact labels, where flips have 1 / tanh^2(epsilon / 2) times it. Both variances follow from the
    noisy labels and the public law, so that this costs no privacy; hosts accept the default penalty of any epsilon.
    """
    flips = privacy.flips
    if flips is None or flips.bounds is None:
        return privacy.epsilon
    law = piecewise_law(flips.epsilon, flips.bounds, flips.classes)
    total = float(np.var(labels))
    noise = float(law.variance(np.clip(np.mean(labels), law.low, law.high)))
    # Where noise is nearly all, the difference is known to about this.
    signal = max(total - noise, total / math.sqrt(len(labels)))
    return 2 * math.atanh(1 / math.sqrt(1 + 2 * noise / signal))
