"""Trust ``shuffle``: one pure local-DP answer per record, of which the server sees all but not whose they are.

A record's answer is Duchi's sampler on its gradient, clipped to the round's clip: epsilon0-LDP whatever the gradient.
Vectors may travel in pieces (``components.shuffler.splitting``), which is accounted as whole vectors.
"""
import numpy as np

from fate_dp.components.shuffler.messages import TooFewMessages
from fate_dp.components.shuffler.splitting import Splitting
from fate_dp.privacy.mechanisms.duchi import duchi_l2

from .account import OBSERVERS
from .contribution import NoisyMean
from .schedule import least_messages, scheduled_messages


def answers(rows, terms, clip, stream):
    """float64 (b, d): the answer of each record that sends in this round.

    :param rows: float array (b, d), their gradients divided by the scales; private. NaN counts as zero.
    """
    if not len(rows):
        return np.zeros((0, terms.dimension))
    return duchi_l2(rows, clip, terms.epsilon0, observers=OBSERVERS, unit=terms.unit, random=stream).value


def splitting_of(terms, split="none"):
    """How answers travel: as float32, whose rounding is post-processing."""
    return Splitting(terms.dimension, split, number_type="float32")


def encode(contribution, splitting):
    """The pieces of a client's answers, to be sealed by ``components.shuffler.encoder.Encoder.encode_pieces``."""
    return [piece for answer in contribution.content for piece in splitting.pieces(answer)]


def decode(pieces, terms, round_number, splitting):
    """The server's ``NoisyMean``: the answers' sum over the number of messages that the schedule says, scaled back.

    :raises TooFewMessages: fewer than ``least_messages``.
    :raises InvalidMessage: of ``components.shuffler``, one sentence.
    """
    total, vectors = splitting.sum_of(pieces)
    if vectors < least_messages(terms):
        raise TooFewMessages(f"{vectors} messages arrived in this round; it takes at least {least_messages(terms)}.")
    mean = total / scheduled_messages(terms, round_number)
    return NoisyMean(mean if terms.scales is None else mean * terms.scales_array())
