"""Epsilon of training with Gaussian noise on Poisson-sampled batches: the figure that DP-SGD papers report.

Each step, every unit takes part by an independent coin of ``sampling_probability``, contributes a vector clipped to
norm C, and N(0, (noise_multiplier C)^2) is added to the sum. Batches cut by a shuffled loader are *not* this mechanism.
"""

import math
from collections.abc import Callable
from functools import partial

from .. import events
from ..events import Event
from ..validation import check_target, positive, whole
from .accountant import make_accountant
from .gaussian import gaussian_sigma


def subsampled_gaussian_epsilon(
    sampling_probability: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    accountant: str = "pld",
    relation: str = events.ADD_OR_REMOVE,
) -> float:
    """Upper bound of epsilon (nats) after ``steps`` steps at ``delta``; infinite where none is known.

    With ``sampling_probability`` 1 nothing is sampled, and the ``pld`` accountant answers exactly.

    Args:
        noise_multiplier: sigma over the *clip*, whatever the relation.
        accountant: ``pld`` (tight) or ``rdp``.
        relation: ``add_or_remove`` with a public normaliser, or ``replace_one`` (about twice as much; ``rdp`` is loose
            there).
    """
    composed = make_accountant(accountant, relation)
    composed.compose(_step(sampling_probability, noise_multiplier, relation), whole("steps", steps, 1))
    return composed.epsilon(delta)


def _step(sampling_probability: float, noise_multiplier: float, relation: str) -> Event:
    """One step; its epsilon depends on neither unit nor observers."""
    return Event(events.PoissonSampledGaussian(sampling_probability, noise_multiplier), "record", relation, "model")


# Noise for a target. The search runs on the logarithm of the noise, by interpolation between one value that is known to
# be too small and one that an accountant has shown to be enough. The value returned is always one of the latter: the
# accountant's epsilon for exactly that value, rounding included, is at most the target.


# Relative to the noise: how far above the smallest value that is enough the result may lie.
TOLERANCE = 2e-5
FIRST_STRIDE = 0.05
MIN_LOG = -math.log(1e12)
MIN_START = 0.7
# The noise that is enough without sampling is enough with it; how much more a loose accountant may ask for.
ROOM_ABOVE_UNSAMPLED = 10.0


class UnreachableTarget(ValueError):
    """The accountant finds no noise that meets the target."""


def calibrate_noise_multiplier(
    epsilon: float,
    delta: float,
    sampling_probability: float,
    steps: int,
    accountant: str = "pld",
    relation: str = events.ADD_OR_REMOVE,
) -> float:
    """Smallest noise multiplier (sigma over the clip) with which ``steps`` sampled steps meet a target.

    At most 2e-5 (relative) above the smallest that the accountant accepts; ``subsampled_gaussian_epsilon``, whose
    parameters it has, is at most ``epsilon`` for it. `UnreachableTarget` where the accountant's own error exceeds
    delta; ``rdp`` reaches further down.
    """
    epsilon, delta = check_target(epsilon, delta)
    steps = whole("steps", steps, 1)
    # Enough without sampling; with it, about this times the sampling probability is needed, if that is not too small.
    unsampled = gaussian_sigma(epsilon, delta, events.clips_moved(relation) * math.sqrt(steps))
    rate = events.PoissonSampledGaussian(sampling_probability, unsampled).sampling_probability
    start, largest = max(unsampled * rate, min(unsampled, MIN_START)), unsampled * ROOM_ABOVE_UNSAMPLED
    event_of = partial(_step, sampling_probability, relation=relation)
    return calibrate(event_of, epsilon, delta, steps, accountant, (start, largest))


def calibrate(
    event_of: Callable[[float], Event],
    epsilon: float,
    delta: float,
    count: int = 1,
    accountant: str = "pld",
    search: tuple[float, float] = (1.0, 1e12),
) -> float:
    """Smallest parameter x > 0, within 2e-5, for which ``count`` releases of ``event_of(x)`` meet a target.

    A larger parameter must mean more privacy. ``search`` says where to begin, which affects the time only, and where to
    give up, at most 1e12. `UnreachableTarget` when no parameter meets the target, for instance because of the event's
    slack, or because delta is below the accountant's own error.
    """
    epsilon, delta = check_target(epsilon, delta)
    count = whole("count", count, 1)

    def excess(log_parameter: float) -> float:
        """Above 0 where the noise is too small; a smooth function of the logarithm of the noise."""
        event = event_of(math.exp(log_parameter))
        composed = make_accountant(accountant, event.relation)
        composed.compose(event, count)
        reached = composed.epsilon(delta)
        return math.log(reached / epsilon) if reached > 0 else -math.inf

    start, largest = positive("start", search[0]), positive("largest", search[1])
    found = least_enough(excess, start, largest)
    if found is None:
        raise UnreachableTarget(
            f"The {accountant} accountant finds no noise up to {largest:.3g} that meets epsilon {epsilon:g} at delta "
            f"{delta:g} over {count} releases."
        )
    return found


def least_enough(
    excess: Callable[[float], float], start: float, largest: float, tolerance: float = TOLERANCE
) -> float | None:
    """The smallest x > 0, within ``tolerance`` of it, at whose logarithm ``excess``, which falls, is at most 0.

    The search begins at ``start``; what it returns was tried. None where nothing up to ``largest`` is enough.
    """
    ends = _bracket(excess, math.log(start), math.log(largest))
    return None if ends is None else math.exp(_narrow(excess, *ends, tolerance))


def _bracket(
    excess: Callable[[float], float], start: float, highest: float
) -> tuple[float, float, float, float] | None:
    """(too small, its excess, enough, its excess), all logarithms, found from ``start`` in growing strides.

    None when nothing up to ``highest`` is enough; twice the smallest when even that is enough.
    """
    place, value = start, excess(start)
    direction = 1 if value > 0 else -1
    stride = FIRST_STRIDE
    while MIN_LOG <= place + direction * stride <= highest:
        following = place + direction * stride
        reached = excess(following)
        if (reached > 0) != (value > 0):
            ends = ((place, value), (following, reached))
            return ends[0] + ends[1] if direction > 0 else ends[1] + ends[0]
        place, value, stride = following, reached, 2 * stride
    return None if direction > 0 else (place, value, place, value)


def _narrow(
    excess: Callable[[float], float], small: float, above: float, enough: float, below: float, tolerance: float
) -> float:
    """The end that is enough, once the ends lie within ``tolerance``.

    Every step aims just past the interpolated solution, on the side of the end that moved less recently.
    """
    side, step = 1, -1
    while True:
        step += 1
        if enough - small <= tolerance:
            return enough
        middle = (small + enough) / 2
        if step % 4 < 3 and math.isfinite(above) and math.isfinite(below):
            middle = small + (enough - small) * above / (above - below) + side * tolerance / 3
        middle = min(max(middle, small + tolerance / 3), enough - tolerance / 3)
        value = excess(middle)
        if value > 0:
            small, above, side = middle, value, 1
        else:
            enough, below, side = middle, value, -1
