"""What a client makes of its records in one round, with its noise in it, and what the server makes of all of them."""
from dataclasses import dataclass, field
from typing import Optional

import numpy as np

from .private_clip import share_below


@dataclass(frozen=True, eq=False)
class Contribution:
    """A client's content of one round.

    :param position: of the client among all clients; public.
    :param round_number: from 0.
    :param clip: the round's clip; public.
    :param content: what the trust model's ``encode`` takes: in ``secure_sum`` int64 steps with the noise share, for
        masks only (alone they are under-noised: secret); in ``local`` a noisy float64 vector; in ``shuffle`` float64
        rows of answers.
    """

    position: int
    round_number: int
    clip: float
    content: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class NoisyMean:
    """What the server makes of a round. The account covers it, so it may be published.

    :param gradient: float64 (d,), the direction to descend along, in the unit of the weights.
    :param share_below: noisy share of units whose norm was at most the clip; None without ``clip_quantile``.
    """

    gradient: np.ndarray = field(repr=False)
    share_below: Optional[float] = None


class InvalidMessage(ValueError):
    """A message has the wrong size, or holds what no client sends."""


class RoundLost(RuntimeError):
    """A client was lost after vectors left: the round is spent and gives no step."""


def split_indicator(values, terms, clip):
    """``NoisyMean`` from the released sum (vector_length,), in units of scaled contributions."""
    gradient = values[: terms.dimension] / terms.normaliser
    if terms.scales is not None:
        gradient = gradient * terms.scales_array()
    if terms.clip_quantile is None:
        return NoisyMean(gradient)
    return NoisyMean(gradient, share_below(float(values[-1]), clip, terms.normaliser))
