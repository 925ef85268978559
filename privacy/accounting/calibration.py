"""Noise for a target: the smallest noise multiplier whose composition meets (epsilon, delta), never a smaller one.

The search runs on the logarithm of the noise, by interpolation between one value that is known to be too small and one
that an accountant has shown to be enough. The value returned is always one of the latter: the accountant's epsilon for
exactly that value, rounding included, is at most the target.
"""
import itertools
import math

from fate_dp.privacy import events
from fate_dp.privacy.accounting.accountant import check_count, make_accountant
from fate_dp.privacy.accounting.analytic_gaussian import gaussian_sigma
from fate_dp.privacy.accounting.privacy_parameters import check_scale, check_target
from fate_dp.privacy.accounting.subsampled_gaussian import subsampled_gaussian_event

# Relative to the noise: how far above the smallest value that is enough the result may lie.
TOLERANCE = 2e-5
FIRST_STRIDE = 0.05
LEAST_LOG = -math.log(1e12)
LEAST_START = 0.7
# The noise that is enough without sampling is enough with it; how much more a loose accountant may ask for.
ROOM_ABOVE_UNSAMPLED = 10.0


class UnreachableTarget(ValueError):
    """The accountant finds no noise that meets the target."""


def calibrate_noise_multiplier(
    epsilon, delta, sampling_probability, steps, accountant="pld", relation=events.ADD_OR_REMOVE
):
    """Smallest noise multiplier (sigma over the clip) with which ``steps`` sampled steps meet a target.

    At most 2e-5 (relative) above the smallest that the accountant accepts; ``subsampled_gaussian_epsilon`` of the
    result is at most ``epsilon``. Parameters as there.

    :raises UnreachableTarget: where the accountant's own error exceeds delta; ``rdp`` reaches further down.
    :raises InvalidEpsilon, InvalidDelta, InvalidEvent, InvalidCount, InvalidAccountant, UnsupportedEvent: one sentence.
    """
    epsilon, delta = check_target(epsilon, delta)
    steps = check_count("steps", steps)

    def event_of(noise):
        return subsampled_gaussian_event(sampling_probability, noise, relation)

    # Enough without sampling; with it, about this times the sampling probability is needed, if that is not too small.
    unsampled = gaussian_sigma(epsilon, delta, events.clips_moved(relation) * math.sqrt(steps))
    rate = event_of(unsampled).process.sampling_probability
    start, largest = max(unsampled * rate, min(unsampled, LEAST_START)), unsampled * ROOM_ABOVE_UNSAMPLED
    return calibrate(event_of, epsilon, delta, steps, accountant, start, largest)


def calibrate(event_of, epsilon, delta, count=1, accountant="pld", start=1.0, largest=1e12):
    """Smallest parameter x > 0, within 2e-5, for which ``count`` releases of ``event_of(x)`` meet a target.

    :param event_of: makes the event of a parameter; a larger parameter must mean more privacy.
    :param start: where to begin searching; affects the time only.
    :param largest: where to give up searching, from ``start`` to 1e12.
    :raises UnreachableTarget: when no parameter meets the target, for instance because of the event's slack, or
        because delta is below the accountant's own error.
    :raises InvalidEpsilon, InvalidDelta, InvalidCount, InvalidAccountant, UnsupportedEvent: one sentence.
    """
    epsilon, delta = check_target(epsilon, delta)
    count = check_count("count", count)

    def excess(log_parameter):
        """Above 0 where the noise is too small; a smooth function of the logarithm of the noise."""
        event = event_of(math.exp(log_parameter))
        composed = make_accountant(accountant, event.relation)
        composed.compose(event, count)
        reached = composed.epsilon(delta)
        return math.log(reached / epsilon) if reached > 0 else -math.inf

    ends = _bracket(excess, math.log(check_scale("start", start)), math.log(check_scale("largest", largest)))
    if ends is None:
        raise UnreachableTarget(
            f"The {accountant} accountant finds no noise up to {largest:.3g} that meets epsilon {epsilon:g} at delta "
            f"{delta:g} over {count} releases."
        )
    return math.exp(_narrow(excess, *ends))


def _bracket(excess, start, highest):
    """(too small, its excess, enough, its excess), all logarithms, found from ``start`` in growing strides.

    None when nothing up to ``highest`` is enough; twice the smallest when even that is enough.
    """
    place, value = start, excess(start)
    direction = 1 if value > 0 else -1
    stride = FIRST_STRIDE
    while LEAST_LOG <= place + direction * stride <= highest:
        following = place + direction * stride
        reached = excess(following)
        if (reached > 0) != (value > 0):
            ends = ((place, value), (following, reached))
            return ends[0] + ends[1] if direction > 0 else ends[1] + ends[0]
        place, value, stride = following, reached, 2 * stride
    return None if direction > 0 else (place, value, place, value)


def _narrow(excess, small, above, enough, below):
    """The end that is enough, once the ends lie within ``TOLERANCE``.

    Every step aims just past the interpolated solution, on the side of the end that moved less recently.
    """
    side = 1
    for step in itertools.count():
        if enough - small <= TOLERANCE:
            return enough
        middle = (small + enough) / 2
        if step % 4 < 3 and math.isfinite(above) and math.isfinite(below):
            middle = small + (enough - small) * above / (above - below) + side * TOLERANCE / 3
        middle = min(max(middle, small + TOLERANCE / 3), enough - TOLERANCE / 3)
        value = excess(middle)
        if value > 0:
            small, above, side = middle, value, 1
        else:
            enough, below, side = middle, value, -1
