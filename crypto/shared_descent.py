"""Gradient descent on weights that no party knows: one party's share of them, and what it computes in a step.

Weights are the sum of all parties' integer shares, unit 2^-40. A step t, with masks from `step_preparation`:

1. Every party sends its share of w - r to all data parties, modulo m_t (`SharedDescent.hidden_weights`). The sum d is
   uniform whatever the weights, and so is each share of it.
2. H w - b = H d + H r - b modulo m_t: local, since d is known and shares of H r are prepared (`SharedDescent.receive`).
3. These shares, uniform modulo m_t, become integers. Their sum is the gradient plus m_t times the number of times that
   it wrapped, which is 1 for two parties, but for a chance below 2^-41 for each coordinate. With more parties each one
   tells the first the leading bits of its shares (`receive` returns them): uniform bits, within 2^-40 of independent of
   the gradient, which is 2^40 times smaller than what they count. The first party takes the wraps off.
4. The update rule has public coefficients, so every party applies it to its own shares (`SharedDescent.move`), rounding
   shares of the weights to the nearest unit.
5. For the loss at the weights before the step: `hidden_losses`, then `loss_shares`: see `shared_losses`.

Semi-honest parties learn nothing from this but the losses (the guest) and the weights that are revealed in the end.
"""
from typing import Dict, List, Optional, Sequence

import numpy as np

from .shared_losses import UNITS_OF_LOSS_STEP, Factors, added, combine_loss
from .shared_quadratic import HESSIAN_FRACTION_BITS, WEIGHT_FRACTION_BITS, QuadraticShare, rounded_quotient
from .step_layout import StepLayout
from .step_preparation import PreparedStep
from .update_rule import UpdateRule

REVEALED_FRACTION_BITS = 22
"""Revealed weights are rounded to multiples of 2^-22, far above the rounding of shares, so that a repeated training
gives the same ones."""
INITIAL_WEIGHT_LIMIT = 2.0**10


class SharedDescent:
    """One party's state.

    Args:
        own_weights: float array, this party's weights to start from, each below 2^10 in magnitude.
        own_columns: where they stand among the m joint weights.
        layout: public sizes.
        rule: public update rule.
        penalties: m ridge penalties alpha_j >= 0, public; 0 for the intercept.
        first: whether this is the first of the data parties, the guest.
        state: what `state` returned at this party when an earlier training ended.
    """

    def __init__(
        self, own_weights, own_columns: slice, layout: StepLayout, rule: UpdateRule, penalties: Sequence[float],
        first: bool, state: Optional[Dict[str, list]] = None,
    ):  # fmt: skip
        self._layout, self._rule, self._first, self._columns = layout, rule, first, own_columns
        self._penalties = list(map(float, penalties))
        if len(self._penalties) != layout.dimension:
            raise ValueError(f"There are {len(self._penalties)} penalties for {layout.dimension} weights.")
        self._weights = self._placed(_fixed_point(own_weights))
        self._start, self._velocity = self._weights, None
        if state is not None:
            self._start = self._placed(_integers(state["start"]))
            self._velocity = _integers(state["velocity"]) if state["velocity"] else None
        self._residues: Optional[np.ndarray] = None
        self._step: Optional[PreparedStep] = None
        self._linear: Optional[np.ndarray] = None
        self._factors: List[Factors] = []

    def hidden_weights(self, step: PreparedStep) -> List[int]:
        """The message to all other data parties: this party's share of w - r."""
        return ((self._weights - step.mask) % step.gradient_modulus).tolist()

    def receive(
        self, share: QuadraticShare, step: PreparedStep, hidden_of_others: Sequence[Sequence[int]]
    ) -> List[int]:
        """Compute this party's share of the gradient.

        Args:
            share: of the quadratic that the step was prepared for.
            hidden_of_others: the messages of all other data parties.

        Returns:
            Leading bits of the share for the first party's `move`; empty with two parties.
        """
        if len(hidden_of_others) != self._layout.parties - 1:
            others = self._layout.parties - 1
            raise ValueError(f"{len(hidden_of_others)} other parties sent weights; there are {others}.")
        opened = added([self.hidden_weights(step), *hidden_of_others], self._layout.dimension)
        gradient = share.matrix @ opened + step.product - (share.linear << WEIGHT_FRACTION_BITS)
        self._residues, self._step, self._linear = gradient % step.gradient_modulus, step, share.linear
        return self._heads() if self._layout.carry_bits else []

    def move(self, epoch: int, heads_of_others: Sequence[Sequence[int]] = ()) -> None:
        """Update the shares of velocity and weights along the gradient that `receive` made.

        Args:
            epoch: number of the epoch, from 0, for its learning rate.
            heads_of_others: at the first of more than two parties what all others' `receive` returned.
        """
        gradient = self._lifted(heads_of_others)
        self._step, self._residues, linear, step = None, None, self._linear, self._step
        weights = self._weights << HESSIAN_FRACTION_BITS
        gradient = gradient + _times(weights, self._penalties)
        slope = gradient - (linear << WEIGHT_FRACTION_BITS)
        self._factors.append(Factors.of(step, self._weights, slope, self._first))
        if self._rule.weight_decay:
            gradient = gradient + _times(weights - (self._start << HESSIAN_FRACTION_BITS), self._rule.weight_decay)
        moved = _times(self._direction(gradient), self._rule.learning_rates[epoch])
        self._weights = self._weights - rounded_quotient(moved, 1 << HESSIAN_FRACTION_BITS)

    def hidden_losses(self) -> List[List[int]]:
        """The message to all other data parties about the steps since the last `loss_shares`."""
        return [factors.hidden() for factors in self._factors]

    def loss_share(
        self, hidden_of_others: Sequence[Sequence[Sequence[int]]], rows: Sequence[int], rounding: float = 0.0
    ) -> int:
        """The message to the first party: a share of the losses at the weights before these steps, added up.

        Args:
            hidden_of_others: all other parties' `hidden_losses`.
            rows: of the batch of each step: what its loss counts in the sum.
            rounding: in [0, 1), uniform and secret: this party's part of a `LOSS_STEP`, added to the mean loss.
        """
        if any(len(hidden) != len(self._factors) for hidden in hidden_of_others) or len(rows) != len(self._factors):
            raise ValueError(f"Another party sent losses of another number of steps than {len(self._factors)}.")
        of_steps, modulus = zip(*hidden_of_others), self._loss_modulus()
        shares = [factors.loss_share(hidden) for factors, hidden in zip(self._factors, of_steps)]
        self._factors = []
        added_up = sum(count * share for count, share in zip(rows, shares))
        return (added_up + int(rounding * sum(rows) * UNITS_OF_LOSS_STEP)) % modulus

    def loss(self, hidden_of_others, shares_of_others: Sequence[int], rows: Sequence[int]) -> float:
        """At the first party: the mean of F, without its constant and with the penalty, over the rows of these steps."""
        modulus = self._loss_modulus()
        return combine_loss([self.loss_share(hidden_of_others, rows), *shares_of_others], modulus) / sum(rows)

    def _loss_modulus(self) -> int:
        """Steps of different batches of an epoch are of the same number among the prepared ones."""
        moduli = {factors.step.loss_modulus for factors in self._factors}
        if len(moduli) != 1:
            raise ValueError(f"Losses modulo {len(moduli)} different numbers cannot be added up; open them by epoch.")
        return moduli.pop()

    def share_of(self, columns: slice) -> List[int]:
        """The share of some weights, for the party that they belong to and for nobody else."""
        return self._weights[columns].tolist()

    def own_weights(self, shares_of_others: Sequence[Sequence[int]]) -> np.ndarray:
        """float64: this party's own weights from the other parties' `share_of` them, in multiples of 2^-22."""
        own = self.share_of(self._columns)
        total = added([own, *shares_of_others], len(own))
        steps = rounded_quotient(total, 1 << (WEIGHT_FRACTION_BITS - REVEALED_FRACTION_BITS))
        return steps.astype(np.float64) / 2.0**REVEALED_FRACTION_BITS

    def state(self) -> Dict[str, list]:
        """What a later training needs to go on, in lists of decimal numbers; it stays at this party."""
        velocity = [] if self._velocity is None else self._velocity
        return {"start": list(map(str, self._start[self._columns])), "velocity": list(map(str, velocity))}

    def _placed(self, own: np.ndarray) -> np.ndarray:
        joint = np.zeros(self._layout.dimension, dtype=object)
        if len(joint[self._columns]) != len(own):
            raise ValueError(f"{len(own)} own weights for {len(joint[self._columns])} own columns; they must agree.")
        joint[self._columns] = own
        return joint

    def _heads(self) -> List[int]:
        return ((self._residues << self._layout.carry_bits) // self._step.gradient_modulus).tolist()

    def _lifted(self, heads_of_others) -> np.ndarray:
        """Residues as integers; the first party takes off as many moduli as all shares together have too many."""
        if not self._first:
            return self._residues
        bits, parties = self._layout.carry_bits, self._layout.parties
        if len(heads_of_others) != (parties - 1 if bits else 0):
            raise ValueError(f"The first of {parties} parties got leading bits of {len(heads_of_others)} others.")
        if not bits:
            return self._residues - self._step.gradient_modulus
        # Heads fall short of the shares' sum, a multiple of the modulus, by less than a quarter of it.
        heads = added([self._heads(), *heads_of_others], self._layout.dimension)
        wraps = (heads + (1 << (bits - 1))) >> bits
        return self._residues - wraps * self._step.gradient_modulus

    def _direction(self, gradient: np.ndarray) -> np.ndarray:
        rule = self._rule
        if not rule.momentum:
            return gradient
        if self._velocity is None:
            self._velocity = gradient
        else:
            self._velocity = _times(self._velocity, rule.momentum) + _times(gradient, 1 - rule.dampening)
        return gradient + _times(self._velocity, rule.momentum) if rule.nesterov else self._velocity


def _times(numbers: np.ndarray, coefficients) -> np.ndarray:
    """Integers times a public float, or one for each, exactly, then rounded."""
    if isinstance(coefficients, list):
        return np.array([_times(number, value) for number, value in zip(numbers, coefficients)], dtype=object)
    numerator, denominator = float(coefficients).as_integer_ratio()
    return rounded_quotient(numbers * numerator, denominator)


def _fixed_point(weights) -> np.ndarray:
    weights = np.asarray(weights, dtype=np.float64).ravel()
    if not np.all(np.abs(weights) <= INITIAL_WEIGHT_LIMIT):
        raise ValueError(f"An initial weight is not finite or above {INITIAL_WEIGHT_LIMIT:g}; start nearer to 0.")
    return _integers(np.rint(weights * 2.0**WEIGHT_FRACTION_BITS).tolist())


def _integers(numbers) -> np.ndarray:
    return np.array([int(number) for number in numbers], dtype=object)
