"""A secret number of dummies that hides a count: a discrete Laplace law cut off at both ends and shifted.

An observer of a count m sees m + d in place of it, where d dummies were added: d is a whole number from 0 to a public
pool K = 2 h, since no fewer than none and no more than the pool can be added. Its law is the discrete Laplace law of
scale 1 / epsilon around h, given that it lies there:

    P(d) = q^|d - h| / (1 + 2 (q + ... + q^h)),    q = exp(-epsilon).

The count must change by at most 1 between neighbours. The size of an intersection does when one record of one party is
added, removed (one id), or replaced (at most one match lost and one won), hence the same noise serves both relations.
Proofs of both deltas, the exact one and the one that is charged: docs/proofs-privacy.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..events import Event, PureDP, Statement, event_of
from ..noise.discrete import discrete_laplace, discrete_laplace_slack
from ..noise.stream import Rng, open_stream
from ..validation import InvalidArgument, check_delta, is_whole
from .laplace import laplace_scale

if TYPE_CHECKING:
    from typing_extensions import Unpack

SENSITIVITY = 1
MAX_POOL = 2**20
# Above the roundings of the few operations that a mass is computed with, here and in an accountant.
ROUND_UP = 1 + 2.0**-36


def pool_size(epsilon: float, delta: float) -> int:
    """The smallest pool whose charged delta is at most ``delta``; `InvalidArgument` also beyond 2^20 dummies."""
    scale, delta = laplace_scale(SENSITIVITY, epsilon), check_delta(delta)
    half = max(1, math.ceil(math.log(2 / delta) * scale))
    while 2 * half <= MAX_POOL and charged_delta(epsilon, 2 * half) > delta:
        half += 1
    if 2 * half > MAX_POOL:
        raise InvalidArgument(
            f"epsilon {epsilon!r} with delta {delta!r} needs a pool of more than 2^20 dummies; allow a larger epsilon."
        )
    return 2 * half


def check_pool(pool: object) -> int:
    """Return ``pool`` as an int if it is an even number from 2 to 2^20."""
    if not is_whole(pool) or not 2 <= pool <= MAX_POOL or pool % 2:
        raise InvalidArgument.of("pool", pool, "an even number from 2 to 2^20")
    return int(pool)


def exact_delta(epsilon: float, pool: int) -> float:
    """The smallest delta at which m + d is (epsilon, delta)-DP: the mass of one end."""
    scale, half = laplace_scale(SENSITIVITY, epsilon), check_pool(pool) // 2
    masses = [math.exp(-step / scale) for step in range(half + 1)]
    return masses[-1] / math.fsum([*masses, *masses[1:]])


def charged_delta(epsilon: float, pool: int) -> float:
    """What an accountant adds to delta for `dummy_count_event`, when nothing else is charged."""
    return min(1.0, _slack(epsilon, pool) * (1 + math.exp(min(epsilon, 709.0))) * ROUND_UP)


def dummy_count_event(epsilon: float, pool: int, *, rng: Rng = None, **statement: Unpack[Statement]) -> Event:
    """The event of a count that is seen with `draw_dummy_count` dummies, of a public, even ``pool`` K, only."""
    return event_of(PureDP(epsilon), open_stream(rng), slack=_slack(epsilon, pool), **statement)


def draw_dummy_count(epsilon: float, pool: int, rng: Rng = None) -> int:
    """A number d from 0 to ``pool``: secret, also afterwards.

    It is drawn until it lies in the range, so the time it takes says how often it did not; that is independent of d.
    """
    scale, half, stream = laplace_scale(SENSITIVITY, epsilon), check_pool(pool) // 2, open_stream(rng)
    while True:
        drawn = int(discrete_laplace(scale, 1, stream)[0])
        if abs(drawn) <= half:
            return half + drawn


def _slack(epsilon: float, pool: int) -> float:
    """Total variation between the law that is drawn from and the whole discrete Laplace law, rounded up.

    The sampler's own slack counts twice over the mass inside, since a draw is thrown away if it lies outside.
    """
    scale, half = laplace_scale(SENSITIVITY, epsilon), check_pool(pool) // 2
    ratio = math.exp(-1 / scale)
    outside = 2 * math.exp(-(half + 1) / scale) / (1 + ratio)
    if outside >= 1:
        return 1.0
    return min(1.0, outside * (1 + 2.0**-40) + 2 * discrete_laplace_slack(scale) / (1 - outside))
