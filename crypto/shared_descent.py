"""Gradient descent on weights that no party knows: one party's share of them, and what it computes in a step.

Weights are the sum of all parties' integer shares, unit 2^-40. A step t, with masks from `PreparedSteps`:

1. Every party sends its share of w - r to all data parties, modulo m_t (`SharedDescent.hidden_weights`). The sum d is
   uniform whatever the weights, and so is each share of it.
2. H w - b = H d + H r - b modulo m_t: local, since d is known and shares of H r are prepared (`SharedDescent.receive`).
3. These shares, uniform modulo m_t, become integers, whose sum is the gradient plus m_t times the number of times that
   it wrapped. It is 1 for two parties; with more each one tells the first the leading bits of its shares, and that one
   takes the wraps off (docs/proofs-crypto.md).
4. The update rule has public coefficients, so every party applies it to its own shares (`SharedDescent.move`), rounding
   shares of the weights to the nearest unit.
5. For the loss at the weights before the step: `SharedDescent.take_losses`, see `StepLosses`.

Nothing in a step waits for the loss of the one before, so its messages may travel with those of later steps; a party
keeps its shares (`SharedDescent.share`) where it may have to go back to them.

Semi-honest parties learn nothing from this but the losses (the guest) and the weights that are revealed in the end.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from .descent_steps import (
    GRADIENT_FRACTION_BITS,
    HESSIAN_FRACTION_BITS,
    LOSS_FRACTION_BITS,
    WEIGHT_BITS,
    WEIGHT_FRACTION_BITS,
    PreparedStep,
    QuadraticBounds,
    QuadraticShare,
    StepLayout,
    UpdateRule,
    rounded_quotient,
)
from .powers import ObjectArray
from .slots import FloatArray

LOSS_DEVIATION = 2.0**-16
"""What the guest learns of a mean loss is the loss and a part of every host of this standard deviation, fresh each time."""
UNSHOWN_DEVIATION = 4.0
"""That of all hosts' parts together, were they added one to one, where no loss is shown: `passes` still tells."""
_UNIFORM_PARTS = 12
"""Their sum has the deviation that each has as its width. Repeats narrow it by their root; of one uniform part, by their number."""


@dataclass(frozen=True, repr=False)
class Factors:
    """One party's shares of the two vectors of one step's loss (Beaver 1991): object (m,) integers each, unit 2^-30.

    With the penalty's part, 2 F(w) = w^T (H w + alpha w - 2 b) + constant. Each party rounds its shares of w and of the
    bracket, hides them with its masks u and v of the step, modulo that step's modulus, and sends them to all data
    parties. Their sums w - u and h - v are uniform whatever the weights. Every party's `loss_share` then adds up to the
    loss alone. A party adds up its shares of the batches of an epoch before it sends them to the guest, and a host
    adds a `loss_part`.

    The masks are those of ``step``, ``slope`` is the bracket, and the ``first`` party adds the product of what is opened.
    """

    step: PreparedStep
    weights: ObjectArray
    slope: ObjectArray
    first: bool

    def hidden(self) -> list[int]:
        """The message to all data parties: 2 m integers below the step's loss modulus."""
        masked = np.concatenate([self.weights - self.step.left, self.slope - self.step.right])
        return list(masked % self.step.loss_modulus)

    def loss_share(self, peers_masked_losses: Sequence[Sequence[int]]) -> int:
        """This party's share of 2 F without its constant, unit 2^-60, modulo the step's loss modulus."""
        opened = added([self.hidden(), *peers_masked_losses], len(self.weights) * 2)
        weights, slope = opened[: len(self.weights)], opened[len(self.weights) :]
        share = weights @ self.step.right + self.step.left @ slope + self.step.inner
        if self.first:
            share += weights @ slope
        return int(share) % self.step.loss_modulus


@dataclass(frozen=True, repr=False)
class StepLosses:
    """One party's part of the losses of some steps, which are opened as one mean; ``factors`` of every step."""

    factors: tuple[Factors, ...]

    def hidden(self) -> list[list[int]]:
        """The message to all other data parties."""
        return [factors.hidden() for factors in self.factors]

    def share(self, peers_masked_losses: Sequence[Sequence[Sequence[int]]], rows: Sequence[int], part: int = 0) -> int:
        """The message to the first party: a share of the losses at the weights before these steps, added up.

        Each counts by the ``rows`` of its batch. ``part`` is a host's `loss_part`.
        """
        if any(len(hidden) != len(self.factors) for hidden in peers_masked_losses) or len(rows) != len(self.factors):
            raise ValueError(f"Another party sent losses of another number of steps than {len(self.factors)}.")
        of_steps, modulus = zip(*peers_masked_losses), self._modulus()
        shares = [factors.loss_share(hidden) for factors, hidden in zip(self.factors, of_steps)]
        added_up = sum(count * share for count, share in zip(rows, shares))
        return (added_up + part) % modulus

    def open(
        self,
        peers_masked_losses: Sequence[Sequence[Sequence[int]]],
        shares_of_others: Sequence[int],
        rows: Sequence[int],
    ) -> float:
        """At the first party: the mean of F, without its constant and with the penalty, over the rows of these steps."""
        modulus = self._modulus()
        total = sum([self.share(peers_masked_losses, rows), *shares_of_others]) % modulus
        signed = total - modulus if 2 * total > modulus else total
        return signed / 2.0 ** (2 * LOSS_FRACTION_BITS + 1) / sum(rows)

    def _modulus(self) -> int:
        """Steps of different batches of an epoch are of the same number among the prepared ones."""
        moduli = {factors.step.loss_modulus for factors in self.factors}
        if len(moduli) != 1:
            raise ValueError(f"Losses modulo {len(moduli)} different numbers cannot be added up; open them by epoch.")
        return moduli.pop()


def loss_part(deviation: float, rows: int) -> int:
    """A fresh secret number that hides a mean loss of so many rows, in units of a share of their losses.

    A sum of twelve uniform numbers: mean 0, the given standard deviation of the mean loss, never above six times that.
    """
    width = int(deviation * rows * 2 ** (2 * LOSS_FRACTION_BITS + 1))
    return sum(secrets.randbelow(width) for _ in range(_UNIFORM_PARTS)) - _UNIFORM_PARTS * (width - 1) // 2


def added(messages: Sequence[Sequence[int]], length: int) -> ObjectArray:
    """Entry-wise sum of messages: object (length,)."""
    if any(len(message) != length for message in messages):
        raise ValueError(f"A message does not hold {length} numbers, as all parties' must.")
    return np.array([sum(map(int, entries)) for entries in zip(*messages)], dtype=object)


# The descent

REVEALED_FRACTION_BITS = 22
"""Revealed weights are rounded to multiples of 2^-22, far above the rounding of shares, so that a repeated training
gives the same ones."""
INITIAL_WEIGHT_LIMIT = 2.0**10


@dataclass(frozen=True, repr=False)
class DescentShare:
    """One party's share of weights and velocity between two steps; None before the first velocity."""

    weights: ObjectArray
    velocity: ObjectArray | None


class SharedDescent:
    """One party's share of the weights, on their way from step to step; ``first`` at the first of the data parties, the guest.

    ``own_weights`` are what this party's weights start from, each below 2^10 in magnitude, ``own_columns`` where they
    stand among the m joint weights. The m ridge penalties alpha_j >= 0, 0 for the intercept, are public, as are layout
    and rule. ``state`` is what `state` returned at this party when an earlier training ended.
    """

    def __init__(
        self,
        own_weights: npt.ArrayLike,
        own_columns: slice,
        layout: StepLayout,
        rule: UpdateRule,
        penalties: Sequence[float],
        first: bool,
        state: dict[str, list[str]] | None = None,
    ) -> None:
        self._layout, self._rule, self._first, self._columns = layout, rule, first, own_columns
        self._penalties = list(map(float, penalties))
        if len(self._penalties) != layout.dimension:
            raise ValueError(f"There are {len(self._penalties)} penalties for {layout.dimension} weights.")
        self._weights = self._placed(_fixed_point(own_weights))
        self._start = self._weights
        self._velocity: ObjectArray | None = None
        if state is not None:
            self._start = self._placed(_integers(state["start"]))
            self._velocity = _integers(state["velocity"]) if state["velocity"] else None
        # The step, this party's share of its gradient modulo its modulus, and that of b.
        self._received: tuple[PreparedStep, ObjectArray, ObjectArray] | None = None
        self._factors: list[Factors] = []

    def hidden_weights(self, step: PreparedStep) -> list[int]:
        """The message to all other data parties: this party's share of w - r."""
        return list((self._weights - step.mask) % step.gradient_modulus)

    def receive(
        self, share: QuadraticShare, step: PreparedStep, peers_masked_losses: Sequence[Sequence[int]]
    ) -> list[int]:
        """Compute this party's share of the gradient from all `hidden_weights` of the step, prepared for this quadratic.

        Returns the share's leading bits for the first party's `move`; none with two parties.
        """
        others = self._layout.parties - 1
        if len(peers_masked_losses) != others:
            raise ValueError(f"{len(peers_masked_losses)} other parties sent weights; there are {others}.")
        opened = added([self.hidden_weights(step), *peers_masked_losses], self._layout.dimension)
        gradient = share.matrix @ opened + step.product - (share.linear << WEIGHT_FRACTION_BITS)
        residues = gradient % step.gradient_modulus
        self._received = step, residues, share.linear
        return self._heads(step, residues) if self._layout.carry_bits else []

    def move(self, epoch: int, heads_of_others: Sequence[Sequence[int]] = ()) -> None:
        """Update the shares of velocity and weights along the gradient of `receive`, by the rate of this epoch, from 0.

        The first of more than two parties passes what all others' `receive` returned.
        """
        if self._received is None:
            raise ValueError("There is no gradient to move along; each step begins with receive().")
        step, residues, linear = self._received
        weights = self._weights << HESSIAN_FRACTION_BITS
        gradient = self._lifted(step, residues, heads_of_others) + _times(weights, self._penalties)
        self._received = None
        slope = gradient - (linear << WEIGHT_FRACTION_BITS)
        rounded_weights = rounded_quotient(self._weights, 1 << (WEIGHT_FRACTION_BITS - LOSS_FRACTION_BITS))
        rounded_slope = rounded_quotient(slope, 1 << (GRADIENT_FRACTION_BITS - LOSS_FRACTION_BITS))
        self._factors.append(Factors(step, rounded_weights, rounded_slope, self._first))
        if self._rule.weight_decay:
            gradient = gradient + _times(weights - (self._start << HESSIAN_FRACTION_BITS), self._rule.weight_decay)
        moved = _times(self._direction(gradient), self._rule.learning_rates[epoch])
        self._weights = self._weights - rounded_quotient(moved, 1 << HESSIAN_FRACTION_BITS)

    def take_losses(self) -> StepLosses:
        """This party's part of the losses of the steps since the last call."""
        taken, self._factors = tuple(self._factors), []
        return StepLosses(taken)

    @property
    def share(self) -> DescentShare:
        return DescentShare(self._weights, self._velocity)

    def go_back(self, share: DescentShare) -> None:
        """Undo the steps since ``share`` was read; all parties do."""
        self._weights, self._velocity, self._factors = share.weights, share.velocity, []

    def share_of(self, columns: slice) -> list[int]:
        """The share of some weights, for the party that they belong to and for nobody else."""
        return list(self._weights[columns])

    def own_weights(self, shares_of_others: Sequence[Sequence[int]]) -> FloatArray:
        """float64: this party's own weights from the other parties' `share_of` them, in multiples of 2^-22."""
        steps = opened_weights([self.share_of(self._columns), *shares_of_others])
        return steps.astype(np.float64) / 2.0**REVEALED_FRACTION_BITS

    def state(self) -> dict[str, list[str]]:
        """What a later training needs to go on, in lists of decimal numbers; it stays at this party."""
        velocity = () if self._velocity is None else self._velocity
        return {"start": list(map(str, self._start[self._columns])), "velocity": list(map(str, velocity))}

    def _placed(self, own: ObjectArray) -> ObjectArray:
        joint: ObjectArray = np.zeros(self._layout.dimension, dtype=object)
        if len(joint[self._columns]) != len(own):
            raise ValueError(f"Own weights must be one per own column, {len(joint[self._columns])}, got {len(own)}.")
        joint[self._columns] = own
        return joint

    def _heads(self, step: PreparedStep, residues: ObjectArray) -> list[int]:
        return list((residues << self._layout.carry_bits) // step.gradient_modulus)

    def _lifted(
        self, step: PreparedStep, residues: ObjectArray, heads_of_others: Sequence[Sequence[int]]
    ) -> ObjectArray:
        """Residues as integers; the first party takes off as many moduli as all shares together have too many."""
        if not self._first:
            return residues
        bits, parties = self._layout.carry_bits, self._layout.parties
        if len(heads_of_others) != (parties - 1 if bits else 0):
            raise ValueError(f"The first of {parties} parties got leading bits of {len(heads_of_others)} others.")
        if not bits:
            return residues - step.gradient_modulus
        # Heads fall short of the shares' sum, a multiple of the modulus, by less than a quarter of it.
        heads = added([self._heads(step, residues), *heads_of_others], self._layout.dimension)
        wraps: ObjectArray = ((heads + (1 << (bits - 1))) >> bits) * step.gradient_modulus
        return residues - wraps

    def _direction(self, gradient: ObjectArray) -> ObjectArray:
        rule = self._rule
        if not rule.momentum:
            return gradient
        if self._velocity is None:
            self._velocity = gradient
        else:
            self._velocity = _times(self._velocity, rule.momentum) + _times(gradient, 1 - rule.dampening)
        return gradient + _times(self._velocity, rule.momentum) if rule.nesterov else self._velocity


def opened_weights(shares: Sequence[Sequence[int]]) -> ObjectArray:
    """object (d,): weights in units of 2^-22 from all parties' shares in units of 2^-40.

    Raises ValueError where one is beyond what `steps_allowed` lets a training come to: then a share is not of it.
    """
    total = added(shares, len(shares[0]))
    steps: ObjectArray = rounded_quotient(total, 1 << (WEIGHT_FRACTION_BITS - REVEALED_FRACTION_BITS))
    if any(abs(step) >> (WEIGHT_BITS + REVEALED_FRACTION_BITS) for step in steps):
        raise ValueError(f"it gives a coefficient beyond 2^{WEIGHT_BITS}, to which no training comes.")
    return steps


def _times(numbers: ObjectArray, coefficients: float | list[float]) -> ObjectArray:
    """Integers times a public float, or one for each, exactly, then rounded."""
    if isinstance(coefficients, list):
        return np.array([_times(number, value) for number, value in zip(numbers, coefficients)], dtype=object)
    numerator, denominator = float(coefficients).as_integer_ratio()
    return rounded_quotient(numbers * numerator, denominator)


def _fixed_point(weights: npt.ArrayLike) -> ObjectArray:
    numbers: FloatArray = np.asarray(weights, dtype=np.float64).ravel()
    if not np.all(np.abs(numbers) <= INITIAL_WEIGHT_LIMIT):
        raise ValueError(f"An initial weight is not finite or above {INITIAL_WEIGHT_LIMIT:g}; start nearer to 0.")
    return _integers(np.rint(numbers * 2.0**WEIGHT_FRACTION_BITS))


def _integers(numbers: Iterable[float | str]) -> ObjectArray:
    return np.array([int(number) for number in numbers], dtype=object)


# How many steps may pass between two checks of losses

LOSS_LIMIT = 2.0**10
_SLACK = 1 + 2.0**-20
"""Norms grow by less than this factor from the rounding of shares and of this computation."""
_LOSS_SLACK = 64.0
"""More than a loss can be off: by rounding 34 at |w| = 2^28 with 1,000 weights and 17 parties, 1.3 with 100 and 2; by parts of
`UNSHOWN_DEVIATION` 24."""


@dataclass(frozen=True)
class _Norms:
    """Bounds on |w|_2 and |v|_2."""

    weights: float
    velocity: float


def steps_allowed(bounds: QuadraticBounds, rule: UpdateRule, steps: int, together: int = 1) -> int:
    """How many of a training's ``steps`` may run between two checks that all losses are at most LOSS_LIMIT.

    Then |w|_2 < 2^WEIGHT_BITS at every step, whatever the data are, if initial weights are below INITIAL_WEIGHT_LIMIT:
    shares stand for the weights only below that, and nobody sees them while they are trained. The proof is in
    docs/proofs-crypto.md. For statistics with noise the penalty must act on every weight. Where a training goes on from an
    earlier one with its velocity, that one had the same bounds and rule.

    Losses of at most ``together`` batches are checked by their mean; a batch has up to twice the rows of others, so
    that one loss may be so many times the limit, and once more. Raises ValueError where not even one step is allowed.
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
    """After one more step along (H + alpha + decay) w - (b + decay w_0), whatever the loss was."""
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


def _weights_in_direction(rule: UpdateRule) -> tuple[tuple[float, ...], float]:
    """What the gradient can count in a step's direction, the first step's included, and the old velocity at most."""
    if not rule.momentum:
        return (1.0,), 0.0
    if rule.nesterov:
        return (1 + rule.momentum,), rule.momentum**2
    return (1.0, 1 - rule.dampening), rule.momentum
