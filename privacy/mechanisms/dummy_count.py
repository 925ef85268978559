"""A secret number of dummies that hides a count: a discrete Laplace law cut off at both ends and shifted.

An observer of a count m sees m + d in place of it, where d dummies were added: d is a whole number from 0 to a public
pool K = 2 h, since no fewer than none and no more than the pool can be added. Its law is the discrete Laplace law of
scale 1 / epsilon around h, given that it lies there:

    P(d) = q^|d - h| / (1 + 2 (q + ... + q^h)),    q = exp(-epsilon).

The count must change by at most 1 between neighbours. The size of an intersection does when one record of one party is
added, removed (one id), or replaced (at most one match lost and one won), hence the same noise serves both relations.

**Exactly.** Let the count move from m to m + 1. The odds of every value that both laws can take change by at most
e^epsilon, and one end of the range, of mass P(0), is out of the other's reach. So the smallest delta at epsilon is
P(0) = q^h / (1 + 2 (q + ... + q^h)), which is `exact_delta`.

**As charged.** Without the ends cut off the release is epsilon-DP (A. Ghosh, T. Roughgarden and M. Sundararajan, STOC
2009). A law and the same law given that a range is hit differ, in total variation, by the mass outside that range:
slack = 2 q^(h + 1) / (1 + q), whatever the count. Hence the event is ``PureDP(epsilon)`` with that slack, to which an
accountant adds delta = (1 + e^epsilon) slack = 2 q^h. This is more than the exact delta, by the factor
2 (1 + q) / (1 - q) and less, and composes with whatever else is charged. Epsilon is in nats.
"""
import math

from fate_dp.privacy.accounting.privacy_parameters import check_delta
from fate_dp.privacy.events import PureDP
from fate_dp.privacy.mechanisms.laplace import laplace_scale
from fate_dp.privacy.mechanisms.release import event_of
from fate_dp.privacy.noise.discrete_laplace import discrete_laplace, discrete_laplace_slack
from fate_dp.privacy.noise.stream import open_stream
from fate_dp.privacy.number_kinds import is_whole

SENSITIVITY = 1
LARGEST_POOL = 2**20
# Above the roundings of the few operations that a mass is computed with, here and in an accountant.
ROUND_UP = 1 + 2.0**-36


class InvalidPool(ValueError):
    """The size of a pool of dummies is no even number in its range, or what is asked for needs a larger one."""


def pool_size(epsilon, delta):
    """The smallest pool whose charged delta is at most ``delta``.

    :raises InvalidEpsilon, InvalidDelta, InvalidPool: one sentence; the pool would be larger than 2^20.
    """
    scale, delta = laplace_scale(SENSITIVITY, epsilon), check_delta(delta)
    half = max(1, math.ceil(math.log(2 / delta) * scale))
    while 2 * half <= LARGEST_POOL and charged_delta(epsilon, 2 * half) > delta:
        half += 1
    if 2 * half > LARGEST_POOL:
        raise InvalidPool(
            f"epsilon {epsilon!r} with delta {delta!r} needs a pool of more than 2^20 dummies; allow a larger epsilon."
        )
    return 2 * half


def check_pool(pool):
    """Return ``pool`` as an int; raise ``InvalidPool`` unless it is an even number from 2 to 2^20."""
    if not is_whole(pool) or not 2 <= pool <= LARGEST_POOL or pool % 2:
        raise InvalidPool(f"pool is {pool!r} but must be an even number from 2 to 2^20.")
    return int(pool)


def exact_delta(epsilon, pool):
    """The smallest delta at which m + d is (epsilon, delta)-DP: the mass of one end."""
    scale, half = laplace_scale(SENSITIVITY, epsilon), check_pool(pool) // 2
    masses = [math.exp(-step / scale) for step in range(half + 1)]
    return masses[-1] / math.fsum([*masses, *masses[1:]])


def charged_delta(epsilon, pool):
    """What an accountant adds to delta for `dummy_count_event`, when nothing else is charged."""
    return min(1.0, _slack(epsilon, pool) * (1 + math.exp(min(epsilon, 709.0))) * ROUND_UP)


def dummy_count_event(epsilon, pool, *, relation, observers, unit="record", random=None):
    """The event of a count that is seen with `draw_dummy_count` dummies only.

    :param epsilon: in nats.
    :param pool: K, even; public.
    :param random: the stream that the number will be drawn from.
    """
    slack = _slack(epsilon, pool)
    return event_of(
        PureDP(epsilon), open_stream(random), unit=unit, relation=relation, observers=observers, slack=slack
    )


def draw_dummy_count(epsilon, pool, random=None):
    """A number d from 0 to ``pool``: secret, also afterwards.

    It is drawn until it lies in the range, so the time it takes says how often it did not; that is independent of d.

    :param random: a stream; None for the operating system's entropy.
    """
    scale, half, stream = laplace_scale(SENSITIVITY, epsilon), check_pool(pool) // 2, open_stream(random)
    while True:
        drawn = int(discrete_laplace(scale, 1, stream)[0])
        if abs(drawn) <= half:
            return half + drawn


def _slack(epsilon, pool):
    """Total variation between the law that is drawn from and the whole discrete Laplace law, rounded up.

    The sampler's own slack counts twice over the mass inside, since a draw is thrown away if it lies outside.
    """
    scale, half = laplace_scale(SENSITIVITY, epsilon), check_pool(pool) // 2
    ratio = math.exp(-1 / scale)
    outside = 2 * math.exp(-(half + 1) / scale) / (1 + ratio)
    if outside >= 1:
        return 1.0
    return min(1.0, outside * (1 + 2.0**-40) + 2 * discrete_laplace_slack(scale) / (1 - outside))
