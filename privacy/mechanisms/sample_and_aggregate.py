"""Sample and aggregate: any estimator made private by running it on disjoint parts and averaging the answers privately.

K. Nissim, S. Raskhodnikova and A. Smith, "Smooth sensitivity and sampling in private data analysis", STOC 2007,
section 4, with the mean or median over a public range as the aggregate. Every record lies in one part, so replacing
one record changes one answer, however the estimator behaves: epsilon-DP (nats, delta 0 plus slack) under
*replace-one* with a public number of records, unit *record* (or whatever one record of ``data`` stands for). Nothing
is assumed about accuracy: the result is as good as the estimator is on n / parts records.

A part on which the estimator raises, or answers with another number of values, a NaN or an infinity, counts as the
middle of the range; neither the exception nor its text leaves this module. How long the estimator takes does: no
protection against timing is claimed.
"""
import warnings

import numpy as np

from fate_dp.privacy.mechanisms.bounded_mean import InvalidBounds, check_range, private_mean
from fate_dp.privacy.mechanisms.bounded_median import private_median
from fate_dp.privacy.mechanisms.permutation import random_permutation
from fate_dp.privacy.noise.stream import open_stream

AGGREGATES = {"mean": private_mean, "median": private_median}


class InvalidAggregation(ValueError):
    """Data are no sequence of records, the parts do not fit their number, or the aggregate is unknown."""


def sample_and_aggregate(
    data, estimator, *, parts, epsilon, lower, upper, observers, aggregate="mean", unit="record", random=None
):
    """A private version of ``estimator(data)``.

    :param data: array whose first axis is the records, or a list or tuple of records; private, but for their number.
    :param estimator: function of some of the records, in the same form, that gives a number, or as many as
        ``lower`` and ``upper`` have. It must be a function of its argument alone; what it leaves in itself, in
        the records or in a random generator must not change what it answers later.
    :param parts: number of disjoint parts, public, from 1 to the number of records. The noise of the mean is
        (upper - lower) / (parts epsilon).
    :param epsilon: privacy parameter in nats, for all coordinates together.
    :param lower: lower end of the range of answers, public: a number or an array; answers are clamped to the range.
    :param upper: upper end, likewise; above ``lower`` everywhere.
    :param observers: who sees the result, see ``fate_dp.privacy.events``.
    :param aggregate: ``mean`` (Laplace noise) or ``median`` (exponential mechanism on 1025 candidates).
    :param random: a stream; None for the operating system's entropy.
    :returns: ``Release`` of a float64 number or array.
    :raises ValueError: one sentence on what is wrong with the public parameters.
    """
    if not isinstance(aggregate, str) or aggregate not in AGGREGATES:
        raise InvalidAggregation(f"aggregate is {aggregate!r} but must be one of {', '.join(AGGREGATES)}.")
    _check_data(data)
    is_whole = isinstance(parts, (int, np.integer)) and not isinstance(parts, bool)
    if not is_whole or not 1 <= parts <= len(data):
        raise InvalidAggregation(f"parts is {parts!r} but must be a whole number from 1 to the {len(data)} records.")
    lower, upper = check_range(lower, upper, _shape_of_answers(lower, upper))
    stream = open_stream(random)
    pieces = np.array_split(random_permutation(len(data), stream), parts)
    middle = lower + (upper - lower) / 2
    answers = np.stack([_answer(estimator, _records(data, piece), middle) for piece in pieces])
    return AGGREGATES[aggregate](answers, lower, upper, epsilon, observers=observers, unit=unit, random=stream)


def _check_data(data):
    # A table that is indexed by columns, or by labels, would hand out something else than single records.
    if not isinstance(data, (np.ndarray, list, tuple)) or isinstance(data, np.ndarray) and data.ndim == 0:
        raise InvalidAggregation(
            f"data is of type {type(data).__name__} but must be an array whose first axis is the records, or a list "
            "of records."
        )


def _shape_of_answers(lower, upper):
    try:
        return np.broadcast_shapes(np.shape(lower), np.shape(upper))
    except ValueError as error:
        raise InvalidBounds("lower and upper must have one shape, that of an answer.") from error


def _records(data, indices):
    if isinstance(data, np.ndarray):
        return data[indices]
    return [data[index] for index in indices.tolist()]


def _answer(estimator, records, middle):
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            # A copy: an estimator may hand out the same buffer each time, and every part would get the last answer.
            answer = np.array(estimator(records), dtype=np.float64)
    except KeyboardInterrupt:
        raise
    # Whatever else went wrong, SystemExit included, went wrong because of private records: saying so would be a
    # release of its own.
    except BaseException:
        return middle
    return answer.reshape(middle.shape) if answer.size == middle.size else middle
