"""The median of values clamped to a public range, chosen by the exponential mechanism.

Values are rounded to 1025 evenly spaced candidates, which are public. A candidate is the worse, the more values
beyond half of them lie strictly below or strictly above it; medians have score 0. Replacing one value moves either
number by at most 1, so twice the excess by at most 2. epsilon-DP (nats, delta 0 plus slack), unit *record* or
whatever one value stands for, *replace-one* with a public number of values. With probability at least 1 - b the
values strictly on either side of the chosen candidate exceed half by at most 2 ln(1025 / b) / epsilon: F. McSherry
and K. Talwar, FOCS 2007.

Several coordinates share epsilon equally; they are charged as ``PureDP(epsilon)`` together (basic composition).
"""
import numpy as np

from fate_dp.privacy.events import REPLACE_ONE, ExponentialMechanism, PureDP
from fate_dp.privacy.mechanisms.bounded_mean import positions_in_range
from fate_dp.privacy.mechanisms.exponential import SLACK_PER_SCORE, exponential_mechanism
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon
from fate_dp.privacy.mechanisms.release import Release, event_of
from fate_dp.privacy.noise.stream import open_stream

STEPS_OF_RANGE = 1024
CANDIDATES = STEPS_OF_RANGE + 1
RANK_SENSITIVITY = 2
# So that equal shares of epsilon never add up to more than epsilon in floating point.
ROUND_UP = 1 + 2.0**-48


def private_median(values, lower, upper, epsilon, *, observers, unit="record", random=None):
    """A candidate near the median of the values, per coordinate.

    :param values: array (records,) or (records, ...), at least one record; private. A NaN or an infinity counts as
        the middle of the range.
    :param lower: lower end of the range, public: a number, or an array in the shape of one record.
    :param upper: upper end, public, likewise; above ``lower`` everywhere.
    :param epsilon: privacy parameter in nats, for all coordinates together.
    :param random: a stream; None for the operating system's entropy.
    :returns: ``Release`` of a float64 number or array, a multiple of 1/1024 of the range.
    :raises ValueError: one sentence on what is wrong.
    """
    positions, lower, upper = positions_in_range(values, lower, upper, STEPS_OF_RANGE)
    columns = positions.reshape(len(positions), -1).T
    epsilon, stream = check_epsilon(epsilon), open_stream(random)
    process = ExponentialMechanism(epsilon) if len(columns) == 1 else PureDP(epsilon)
    slack = len(columns) * CANDIDATES * SLACK_PER_SCORE
    event = event_of(process, stream, unit=unit, relation=REPLACE_ONE, observers=observers, slack=slack)
    share = epsilon / (len(columns) * ROUND_UP)
    chosen = [exponential_mechanism(rank_scores(column), share, RANK_SENSITIVITY, stream) for column in columns]
    shares = np.reshape(chosen, lower.shape) / STEPS_OF_RANGE
    return Release(lower + shares * (upper - lower), event)


def rank_scores(positions):
    """Scores of all candidates: 0 for a median, else minus twice the excess over half on its heavier side."""
    counts = np.bincount(positions, minlength=CANDIDATES)
    at_most = np.cumsum(counts)
    below, above = at_most - counts, len(positions) - at_most
    return -np.maximum(0, 2 * np.maximum(below, above) - len(positions))
