"""How (epsilon, delta) is divided between contributions and training rounds: one release beside many.

The contributions get a share of epsilon: Laplace noise of that epsilon at one party, or Gaussian noise in a secure sum
that alone would cost it at the whole delta. What is left is not a difference of epsilons: the accountant composes the
release with all rounds, and the rounds' noise is the smallest for which that total meets the target.
"""
import math

from fate_dp.privacy.accounting.analytic_gaussian import gaussian_sigma
from fate_dp.privacy.accounting.calibration import UnreachableTarget
from fate_dp.privacy.accounting.privacy_parameters import check_target
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import clips_moved

CONTRIBUTION_SHARE = 1 / 8
# Relative to the noise: how far above the smallest that is enough the result may lie.
TOLERANCE = 1e-4
# Noise multipliers between which is searched; rounds draw no more noise than the largest.
START, LEAST, LARGEST = 1.0, 2.0**-20, 2.0**14


def contribution_multiplier(epsilon, delta, relation):
    """Noise multiplier of a secure sum of contributions that costs ``epsilon`` at ``delta`` on its own."""
    return gaussian_sigma(*check_target(epsilon, delta), clips_moved(relation))


def noise_beside(released, event_of, rounds, epsilon, delta):
    """Smallest noise, within 1e-4, with which rounds and what was released beside them meet (epsilon, delta) together.

    :param released: (event, count) pairs, for instance the contributions' event once; none is fine.
    :param event_of: makes the event of one round from its noise multiplier; more noise must mean more privacy.
    :param rounds: how many rounds there are.
    :returns: a noise multiplier for which ``total_epsilon`` of everything is at most ``epsilon``.
    :raises UnreachableTarget: when not even 2^14 is enough; it says what would be met.
    """
    epsilon, delta = check_target(epsilon, delta)

    def excess(noise):
        """Above 0 where the noise is too small; nearly linear in the logarithm of the noise."""
        reached = total_epsilon([*released, (event_of(noise), rounds)], delta)
        return math.log(reached / epsilon) if reached > 0 else -math.inf

    if excess(LARGEST) > 0:
        raise UnreachableTarget(
            f"epsilon {epsilon:g} at delta {delta:g} is out of reach over {rounds} rounds: with what is released beside "
            f"them and the most noise there is, epsilon {math.exp(excess(LARGEST)) * epsilon:.3g} would be met."
        )
    return _smallest_enough(excess)


def _smallest_enough(excess):
    low = high = START
    above = below = excess(START)
    while below > 0:
        low, above, high = high, below, min(2 * high, LARGEST)
        below = excess(high)
    while above <= 0 and low > LEAST:
        high, below, low = low, above, low / 2
        above = excess(low)
    while high / low > 1 + TOLERANCE:
        noise = _between(math.log(low), above, math.log(high), below)
        found = excess(noise)
        low, above, high, below = (noise, found, high, below) if found > 0 else (low, above, noise, found)
    return high


def _between(low, above, high, below):
    """Where a line through both ends crosses zero and a little beyond, if they are finite, else the middle."""
    part = above / (above - below) if math.isfinite(above - below) else 0.5
    nudge = TOLERANCE / (4 * (high - low))
    return math.exp(low + (high - low) * min(0.98, max(0.02, part + nudge)))
