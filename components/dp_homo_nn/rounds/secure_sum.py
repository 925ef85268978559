"""Trust ``secure_sum``: clipped sums with shares of noise, added modulo 2^64 under masks; the server opens the sum.

Each client's noise is a discrete Gaussian on the grid of the clip, of the standard deviation that
``noise_share_sigma`` gives n - t shares (``privacy.accounting.secure_sum``). A client's steps without masks carry only
that share: they must reach nobody. Masks over the set of present clients see to that: anything but the sum of *all* of
these is uniform to the server, so it never holds a partial sum that it could open. Without masks (simulation) whoever
adds the vectors is trusted.
"""
import numpy as np

from fate_dp.privacy.accounting.secure_sum import check_arrivals, noise_share_sigma
from fate_dp.privacy.mechanisms.clipping import grid_for
from fate_dp.privacy.noise.discrete_gaussian import discrete_gaussian

from .account import secure_sum_of
from .contribution import InvalidMessage, split_indicator
from .private_clip import joint_clip

WORD = np.dtype("<u8")


def noised_steps(clipped, terms, stream):
    """A client's clipped sum plus its share of the noise, int64 (vector_length,); secret until masked.

    :param clipped: ``ClippedSum`` of the records in the client's Poisson sample; secret.
    """
    share = noise_share_sigma(terms.noise_multiplier, clipped.clip / clipped.grid, terms.clients, terms.tolerated)
    return clipped.steps + discrete_gaussian(share, clipped.steps.shape, stream)


def encode(contribution, masks=None, names=()):
    """The client's message: its steps as 8 bytes each, little-endian, modulo 2^64.

    :param masks: the client's ``crypto.pairwise_masks.PairwiseMasks``; None only where nobody but a trusted adder
        (simulation) sees the message.
    :param names: of the clients present in the round, this one among them.
    """
    steps = contribution.content
    words = steps.view(np.uint64) if masks is None else masks.masked(steps, contribution.round_number, names)
    return words.astype(WORD).tobytes()


def decode(messages, terms, clip):
    """The server's ``NoisyMean`` from the messages of *all* clients that were named as present.

    :raises TooFewArrived: fewer than ``terms.least_arrivals`` messages; nothing is added up.
    :raises InvalidMessage: a message has another size.
    """
    check_arrivals(secure_sum_of(terms), len(messages))
    size = terms.vector_length * WORD.itemsize
    total = np.zeros(terms.vector_length, dtype=np.uint64)
    for message in messages:
        if len(message) != size:
            raise InvalidMessage(f"A message has {len(message)} bytes but must have {size}.")
        total += np.frombuffer(message, dtype=WORD)
    bound = clip if terms.clip_quantile is None else joint_clip(clip)
    return split_indicator(total.view(np.int64) * grid_for(bound), terms, clip)
