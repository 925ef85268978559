"""Randomised response with fresh coins, for messages that are released once.

Labels of a training table are flipped by ``label_flips`` instead, whose coins are the same in every run.
"""
import numpy as np

from fate_dp.privacy.mechanisms.randomized_response import InvalidEpsilon, check_classes, flip_probability
from fate_dp.privacy.noise.stream import open_stream
from fate_dp.privacy.noise.uniform import bernoulli, uniform_below

# Far above the few roundings in flip_probability, far below anything that a use could notice.
ROUNDING = 2.0**-48
# Below this the exponential loses digits; an epsilon of 693 or more is flipped as often as one of 693.
LEAST_FLIP = 2.0**-1000


class InvalidIndices(ValueError):
    """An index is not a whole number of its range, so that keeping it would tell it from all others."""


def flip_indices(indices, epsilon, classes, random=None):
    """Randomised response on an int64 array of indices 0 .. classes - 1, a fresh independent coin for each.

    epsilon-differentially private per index (nats, delta 0 exactly), replace-one: the flip coin has exactly the
    probability of a float that is never below 1 - ``keep_probability``, and the other classes are chosen exactly
    uniformly, so the odds of any answer change by at most e^epsilon. It is the ideal mechanism followed by rare
    further flips, so an accountant may charge ``RandomizedResponse(epsilon, classes)`` without slack.

    :param indices: whole numbers or bools; private, but for lying in their range.
    :raises InvalidIndices, InvalidEpsilon, InvalidClasses, InvalidRandomness: one sentence on what is wrong.
    """
    indices, stream = _checked_indices(indices, check_classes(classes)), open_stream(random)
    flips = bernoulli(safe_flip_probability(epsilon, classes), indices.shape, stream)
    steps = 1 + uniform_below(classes - 1, indices.shape, stream)
    return np.where(flips, (indices + steps) % classes, indices)


def safe_flip_probability(epsilon, classes=2):
    """``flip_probability`` rounded up, so that the coin of exactly this probability never keeps too often.

    :raises InvalidEpsilon: also when epsilon is so small that rounding up would favour the other classes.
    """
    flip = flip_probability(epsilon, classes)
    least = 2 * classes * ROUNDING
    if epsilon <= least:
        raise InvalidEpsilon(f"epsilon is {epsilon!r} but must be above {least} for {classes} classes.")
    return max(LEAST_FLIP, flip * (1 + ROUNDING))


def _checked_indices(indices, classes):
    indices = np.asarray(indices)
    is_whole = indices.dtype.kind in "biu" or not indices.size
    if not is_whole or not ((indices >= 0) & (indices < classes)).all():
        raise InvalidIndices(f"indices must be whole numbers from 0 to {classes - 1} (the number of classes less 1).")
    return indices.astype(np.int64)


def coins(probabilities, random=None):
    """One coin per probability, each to within 2^-53: for choices on which no guarantee depends."""
    probabilities = np.asarray(probabilities, dtype=np.float64)
    words = open_stream(random).words(probabilities.size).reshape(probabilities.shape)
    return (words >> np.uint64(11)) * 2.0**-53 < probabilities
