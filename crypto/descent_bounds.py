"""How many steps may pass between two checks of losses, from public numbers alone: how far weights can have moved.

Nobody sees the weights while they are trained, and their shares stand for them only below 2^WEIGHT_BITS in l2 norm.
What the guest does see is the loss of every step, after a while. So training stops unless every loss is at most
LOSS_LIMIT, and the next steps run only once the last ones passed. Two facts bound the weights.

*After steps that passed.* A convex quadratic whose curvature is at most L has |gradient|^2 <= 2 L (F - min F): a step
along the gradient of length 1/L would lower F by |gradient|^2 / (2 L). So every gradient that passed has l2 norm at
most G = sqrt(2 L (LOSS_LIMIT - minimum)), and the weights are within the sum of all steps of that length.

*In steps that are not checked yet*, the gradient is H w + alpha w - b itself: |w| and the velocity |v| grow by at most
a known linear recurrence from one step to the next.

Batches have different H and b, which the bounds cover alike: the loss that is checked is that of the step's batch.
"""
from dataclasses import dataclass
from math import sqrt
from typing import Tuple

from .shared_descent import INITIAL_WEIGHT_LIMIT
from .shared_quadratic import WEIGHT_BITS, QuadraticBounds
from .update_rule import UpdateRule

LOSS_LIMIT = 2.0**10
_SLACK = 1 + 2.0**-20
"""Norms grow by less than this factor from the rounding of shares and of this computation."""
_LOSS_SLACK = 64.0
"""More than a loss can be off by rounding: 34 at |w| = 2^28 with 1,000 weights and 17 parties, 1.3 with 100 and 2."""


@dataclass(frozen=True)
class _Norms:
    """Bounds on |w|_2 and |v|_2."""

    weights: float
    velocity: float


def steps_allowed(bounds: QuadraticBounds, rule: UpdateRule, steps: int, together: int = 1) -> int:
    """How many steps may run between two checks that all losses are at most LOSS_LIMIT.

    Then |w|_2 < 2^WEIGHT_BITS at every step, whatever the data are, if initial weights are below INITIAL_WEIGHT_LIMIT.

    Args:
        bounds: public numbers of the quadratic. For statistics with noise the penalty must act on every weight.
        rule: update rule; its largest learning rate counts. Where a training goes on from an earlier one with its
            velocity, that one had the same bounds and rule.
        steps: number of steps of the whole training, all batches of all epochs.
        together: losses of at most so many batches are checked by their mean; a batch has up to twice the rows of others,
            so one loss may be so many times the limit, and once more.

    Raises:
        ValueError: not even one step.
    """
    norms, allowed = _after_checked_steps(bounds, rule, steps, together), 0
    while allowed < steps and norms.weights < 2.0**WEIGHT_BITS:
        norms, allowed = _after_unchecked_step(norms, bounds, rule), allowed + 1
    if not allowed:
        raise ValueError(
            f"A learning rate of {rule.fastest:g} with a penalty alpha of {bounds.penalty:g} could take the weights "
            f"beyond 2^{WEIGHT_BITS} in {steps} steps; lower the learning rate, alpha, momentum or epochs."
        )
    return allowed


def passes(loss: float, bounds: QuadraticBounds) -> bool:
    """Whether a loss, or the mean of several, its constant included, lies where `steps_allowed` needs it.

    One far below the minimum comes from shares that do not fit together, or a gradient that wrapped: then the bound on
    the weights does not hold either.
    """
    return bounds.minimum - _LOSS_SLACK <= loss <= LOSS_LIMIT


def _initial_norm(bounds: QuadraticBounds) -> float:
    return INITIAL_WEIGHT_LIMIT * sqrt(bounds.dimension)


def _curvature(bounds: QuadraticBounds) -> float:
    """Bound on the largest eigenvalue of H + alpha; the smallest one is not negative."""
    return bounds.curvature + bounds.penalty


def _after_checked_steps(bounds: QuadraticBounds, rule: UpdateRule, steps: int, together: int) -> _Norms:
    """After up to ``steps`` steps that all passed.

    The velocity starts from its limit under gradients of norm G, which is what an earlier training can leave.
    """
    limit = LOSS_LIMIT + _LOSS_SLACK - bounds.minimum
    largest = sqrt(2 * _curvature(bounds) * limit * (together + 1 if together > 1 else 1)) * _SLACK
    # A training that goes on from an earlier one does not begin where weight decay pulls to.
    moved = 2 * _initial_norm(bounds) if rule.weight_decay else 0.0
    velocity = _gain(rule) * (largest + rule.weight_decay * moved) / (1 - rule.momentum)
    for _ in range(steps):
        gradient = largest + rule.weight_decay * moved
        velocity = rule.momentum * velocity + _gain(rule) * gradient
        moved += rule.fastest * _direction(rule, gradient, velocity)
        if moved >= 2.0**WEIGHT_BITS:
            break
    return _Norms(_initial_norm(bounds) + moved * _SLACK, velocity * _SLACK)


def _after_unchecked_step(norms: _Norms, bounds: QuadraticBounds, rule: UpdateRule) -> _Norms:
    """After one more step along (H + alpha + decay) w - (b + decay w_0), whatever the loss was.

    The new weights are (1 - rate c (H + alpha + decay)) w + rate (c (b + decay w_0) - e v), where c and e are the
    weights of the gradient and of the old velocity in the step's direction. The matrix in front of w is symmetric, so
    its norm is that of its largest eigenvalue in magnitude, at one end of the range.
    """
    curvature = _curvature(bounds) + rule.weight_decay
    constant = bounds.linear_norm + rule.weight_decay * _initial_norm(bounds)
    of_gradient, of_velocity = _weights_in_direction(rule)
    growth = max(1.0, *(abs(1 - rule.fastest * weight * curvature) for weight in of_gradient))
    pushed = max(map(abs, of_gradient)) * constant + of_velocity * norms.velocity
    velocity = rule.momentum * norms.velocity + _gain(rule) * (curvature * norms.weights + constant)
    return _Norms((growth * norms.weights + rule.fastest * pushed) * _SLACK, velocity * _SLACK)


def _gain(rule: UpdateRule) -> float:
    """The gradient's largest weight in the velocity: 1 in the first step, 1 - dampening afterwards."""
    return max(1.0, abs(1 - rule.dampening))


def _direction(rule: UpdateRule, gradient: float, velocity: float) -> float:
    """Bound on the norm of a step's direction; ``velocity`` is the new one."""
    if not rule.momentum:
        return gradient
    return gradient + rule.momentum * velocity if rule.nesterov else velocity


def _weights_in_direction(rule: UpdateRule) -> Tuple[Tuple[float, ...], float]:
    """What the gradient can count in a step's direction, the first step's included, and the old velocity at most."""
    if not rule.momentum:
        return (1.0,), 0.0
    if rule.nesterov:
        return (1 + rule.momentum,), rule.momentum**2
    return (1.0, 1 - rule.dampening), rule.momentum
