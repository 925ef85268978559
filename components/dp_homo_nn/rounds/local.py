"""Trust ``local``: each client adds all the noise that its records need, and the server sees every noisy vector.

With several local steps each of them is a release of its own, and what is sent, the way from the old weights to the
new, is post-processing. So is leaving out all but the largest coordinates, because they are chosen after the noise.
"""
import math

import numpy as np

from fate_dp.privacy.accounting.secure_sum import TooFewArrived
from fate_dp.privacy.events import ADD_OR_REMOVE
from fate_dp.privacy.mechanisms.gaussian import gaussian_mechanism

from .account import OBSERVERS
from .contribution import InvalidMessage, NoisyMean, split_indicator

VALUE, INDEX = np.dtype("<f8"), np.dtype("<u4")


def noised(clipped, terms, stream):
    """``Release`` of a client's clipped sum: float64 (vector_length,), one noised step.

    Its event is stated under add-or-remove; ``account.round_event`` has the one for either relation, whose slack is
    at least as large.
    """
    return gaussian_mechanism(
        clipped,
        terms.noise_multiplier,
        relation=ADD_OR_REMOVE,
        observers=OBSERVERS,
        unit=terms.unit,
        sampling_probability=terms.sampling_probability,
        random=stream,
    )


def kept_coordinates(terms):
    """How many of the d coordinates a client sends."""
    return max(1, math.ceil(terms.upload_fraction * terms.dimension))


def encode(contribution, terms):
    """The client's message: all values, or indices and values of the largest ones; the clip's indicator comes last."""
    values = np.asarray(contribution.content, dtype=VALUE)
    if terms.upload_fraction == 1:
        return values.tobytes()
    kept, gradient = kept_coordinates(terms), values[: terms.dimension]
    indices = np.sort(np.argpartition(-np.abs(gradient), kept - 1)[:kept])
    sent = np.concatenate([gradient[indices], values[terms.dimension :]])
    return indices.astype(INDEX).tobytes() + sent.astype(VALUE).tobytes()


def decode(messages, terms, clip):
    """The server's ``NoisyMean`` from the messages that arrived; clients that did not arrive count as zero.

    :raises TooFewArrived: fewer than ``terms.least_arrivals`` messages.
    :raises InvalidMessage: a message has another size, or an index or number that no client sends.
    """
    if len(messages) < terms.least_arrivals:
        raise TooFewArrived(
            f"arrived is {len(messages)} but must be at least {terms.least_arrivals} of {terms.clients} clients: the "
            "round is aborted."
        )
    total = np.zeros(terms.vector_length)
    for message in messages:
        total += _vector(message, terms)
    return NoisyMean(total) if terms.noised_steps > 1 else split_indicator(total, terms, clip)


def _vector(message, terms):
    extra = terms.vector_length - terms.dimension
    kept = terms.dimension if terms.upload_fraction == 1 else kept_coordinates(terms)
    heading = 0 if terms.upload_fraction == 1 else kept * INDEX.itemsize
    if len(message) != heading + (kept + extra) * VALUE.itemsize:
        raise InvalidMessage(
            f"A message has {len(message)} bytes but must have {heading + (kept + extra) * VALUE.itemsize}."
        )
    values = np.frombuffer(message, dtype=VALUE, offset=heading)
    if not np.isfinite(values).all():
        raise InvalidMessage("A message holds a number that is not finite.")
    if not heading:
        return values
    indices = np.frombuffer(message, dtype=INDEX, count=kept)
    if indices.max() >= terms.dimension or (np.diff(indices.astype(np.int64)) <= 0).any():
        raise InvalidMessage(f"A message's indices must be increasing and below {terms.dimension}.")
    vector = np.zeros(terms.vector_length)
    vector[indices], vector[terms.dimension :] = values[:kept], values[kept:]
    return vector
