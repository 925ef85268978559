"""Losses of a shared descent: an inner product of two shared vectors for each step (Beaver 1991).

With the penalty's part, 2 F(w) = w^T (H w + alpha w - 2 b) + constant. Each party rounds its shares of w and of the
bracket to units of 2^-30, hides them with its masks u and v of the step, modulo that step's modulus, and sends them to
all data parties (`Factors.hidden`). Their sums w - u and h - v are uniform whatever the weights. Every party's
`loss_share` then adds up to the loss alone. Before they are sent to the guest, each party adds up its shares of the batches
of an epoch, and a host adds a uniform number below `LOSS_STEP` to the mean.
"""
from dataclasses import dataclass
from typing import List, Sequence

import numpy as np

from .shared_quadratic import GRADIENT_FRACTION_BITS, WEIGHT_FRACTION_BITS, rounded_quotient
from .step_layout import LOSS_FRACTION_BITS
from .step_preparation import PreparedStep


LOSS_STEP = 2.0**-16
"""What the guest learns of a mean loss is the loss and a uniform part of this much of every host."""
UNITS_OF_LOSS_STEP = int(LOSS_STEP * 2 ** (2 * LOSS_FRACTION_BITS + 1))


@dataclass(frozen=True, repr=False)
class Factors:
    """One party's shares of the two vectors of one step's loss: object (m,) integers each, unit 2^-30.

    Attributes:
        step: whose masks hide them.
        weights: w.
        slope: H w + alpha w - 2 b.
        first: whether this party adds the product of what is opened; one of them does.
    """

    step: PreparedStep
    weights: np.ndarray
    slope: np.ndarray
    first: bool

    @classmethod
    def of(cls, step: PreparedStep, weights: np.ndarray, slope: np.ndarray, first: bool) -> "Factors":
        """From shares in units of 2^-40 (weights) and 2^-84 (slope)."""
        return cls(
            step,
            rounded_quotient(weights, 1 << (WEIGHT_FRACTION_BITS - LOSS_FRACTION_BITS)),
            rounded_quotient(slope, 1 << (GRADIENT_FRACTION_BITS - LOSS_FRACTION_BITS)),
            first,
        )

    def hidden(self) -> List[int]:
        """The message to all data parties: 2 m integers below the step's loss modulus."""
        masked = np.concatenate([self.weights - self.step.left, self.slope - self.step.right])
        return (masked % self.step.loss_modulus).tolist()

    def loss_share(self, hidden_of_others: Sequence[Sequence[int]]) -> int:
        """This party's share of 2 F without its constant, unit 2^-60, modulo the step's loss modulus.

        Args:
            hidden_of_others: the step's messages of all other data parties.
        """
        opened = added([self.hidden(), *hidden_of_others], len(self.weights) * 2)
        weights, slope = opened[: len(self.weights)], opened[len(self.weights) :]
        share = weights @ self.step.right + self.step.left @ slope + self.step.inner
        if self.first:
            share += weights @ slope
        return int(share) % self.step.loss_modulus


def combine_loss(shares: Sequence[int], modulus: int) -> float:
    """All parties' shares of one step -> F(w) without its constant."""
    total = sum(shares) % modulus
    signed = total - modulus if 2 * total > modulus else total
    return signed / 2.0 ** (2 * LOSS_FRACTION_BITS + 1)


def added(messages: Sequence[Sequence[int]], length: int) -> np.ndarray:
    """Entry-wise sum of messages: object (length,)."""
    if any(len(message) != length for message in messages):
        raise ValueError(f"A message does not hold {length} numbers, as all parties' must.")
    return np.array([sum(map(int, entries)) for entries in zip(*messages)], dtype=object)
