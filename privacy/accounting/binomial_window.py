"""Binomial probabilities over the values that matter, each with a small relative error also far out in the tails.

Used where tail sums become a delta: logarithms of factorials would lose nine digits at a million trials, while products
of the ratios of neighbouring probabilities lose four roundings per step.
"""
import math

import numpy as np

# Bernstein: |X - mean| exceeds sqrt(2 L) sigma + 2 L / 3 with probability at most 2 e^-L.
EXPONENT = 80.0
# Of the most probable value. What is smaller is left out too, so that products of two probabilities do not underflow.
NEGLIGIBLE = 1e-150
LEFT_OUT = 3 * math.exp(-EXPONENT)
# Relative error per value of the window: at most four roundings of 2^-53 per step away from the mode.
ERROR_PER_VALUE = 1e-15


def binomial_window(trials, odds):
    """(first value, probabilities of it and those that follow) for Binomial(trials, odds / (1 + odds)).

    The values left out have a probability of at most ``LEFT_OUT`` together. The relative error of a probability is at
    most ``ERROR_PER_VALUE`` times the number of values, for an ``odds`` that is itself rounded to the nearest float.

    :param trials: whole number of at least 0.
    :param odds: odds of success of one trial, finite and greater than 0.
    """
    success = odds / (1 + odds)
    mean, variance = trials * success, trials * success / (1 + odds)
    reach = math.sqrt(2 * EXPONENT * variance) + 2 * EXPONENT / 3 + 1
    first, last = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
    mode = min(max(int(mean), first), last)
    up, down = np.arange(mode, last), np.arange(mode, first, -1)
    rising = np.cumprod((trials - up) / (up + 1.0) * odds)
    falling = np.cumprod(down / ((trials - down + 1.0) * odds))
    weights = np.concatenate([falling[::-1], [1.0], rising])
    kept = np.flatnonzero(weights > NEGLIGIBLE)
    weights = weights[kept[0] : kept[-1] + 1]
    return first + int(kept[0]), weights / weights.sum()


def leading_bits(number, bits):
    """``number`` with all but its ``bits`` leading binary digits set to 0: at most it, and not decreasing in it."""
    dropped = max(0, int(number).bit_length() - bits)
    return int(number) >> dropped << dropped
