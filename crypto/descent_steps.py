"""What a step of shared gradient descent needs: the rule, the shared quadratic, public sizes, prepared masks.

The weights are known to no party; `shared_descent` moves their shares.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import frexp, inf, sqrt
from typing import Any, NoReturn

import numpy as np

from .paillier import OwnerEncryption, PrivateKey, PublicKey
from .powers import ObjectArray
from .residues import (
    STATISTICAL_BITS,
    ProductLayout,
    ResidueSystem,
    encrypt_vectors,
    multiply_vectors,
    open_products,
    room_for_moduli,
)

_IGNORED = {"lr", "foreach", "fused", "differentiable"}
"""Where torch computes, and the rate, which the schedule brings."""
_TAKEN = {"momentum", "dampening", "nesterov", "weight_decay"}


@dataclass(frozen=True)
class UpdateRule:
    """Stochastic gradient descent as torch.optim.SGD does it, in public numbers under its names, with a rate for every epoch.

    Updates are linear in weights and gradients, so that every party applies them to its own shares. Weight decay pulls
    towards the weights where training started, as FATE's optimiser counts from there.
    """

    learning_rates: tuple[float, ...]
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        numbers = [("momentum", self.momentum), ("weight_decay", self.weight_decay)]
        numbers += [("the learning rate", rate) for rate in self.learning_rates]
        for name, value in numbers:
            if not 0 <= value < inf:
                raise ValueError(f"{name} must be finite and not negative, got {value!r}.")
        if self.momentum >= 1:
            raise ValueError(f"momentum must be below 1, or the weights may leave all bounds, got {self.momentum!r}.")
        if not abs(self.dampening) < inf:
            raise ValueError(f"dampening must be finite, got {self.dampening!r}.")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise ValueError("nesterov needs momentum above 0 and dampening 0.")

    @classmethod
    def from_sgd(cls, optimizer_params: dict[str, Any], learning_rates: Sequence[float]) -> UpdateRule:
        """From the parameters of torch.optim.SGD; ValueError where one of them is unknown, or asks to climb the loss."""
        taken = {}
        for name, value in optimizer_params.items():
            if name in _TAKEN:
                taken[name] = value
            elif name not in _IGNORED and (name != "maximize" or value):
                raise ValueError(f"optimizer_params has {name} {value!r}, which shared descent does not take.")
        return cls(tuple(map(float, learning_rates)), **taken)

    @property
    def fastest(self) -> float:
        return max(self.learning_rates)


# The shared quadratic F(w) = w^T H w / 2 - b^T w + constant

SUM_FRACTION_BITS = 48
"""Sums over records of products of two features (unit 2^-24 each) come in units of 2^-48."""
HESSIAN_FRACTION_BITS = 44
WEIGHT_FRACTION_BITS = 40
GRADIENT_FRACTION_BITS = HESSIAN_FRACTION_BITS + WEIGHT_FRACTION_BITS
WEIGHT_BITS = 28
"""While they are trained, all weights together stay below 2^28 in l2 norm: see `steps_allowed`."""


@dataclass(frozen=True)
class QuadraticBounds:
    """Public numbers about H and b, from which all widths of masks and the pace of training follow.

    For n records X with targets t: H = X^T X / (c n) and b = X^T t / n, with ``divisor`` c = 4 for the Taylor loss of
    logistic regression and c = 1 for linear regression. Of the m = ``dimension`` columns of X each has a mean square of
    at most 2^``mean_square_bits``, and t at most ``target_mean_square``, 1/4 for targets +-1/2. A ridge ``penalty``
    alpha >= 0 is no part of H: `SharedDescent` applies it. ``noise`` bounds the spectral norm of noise in H, if any,
    ``linear_noise`` the l2 norm of that in b. ``minimum`` is a lower bound on F; without noise losses are not negative.
    """

    dimension: int
    divisor: int
    mean_square_bits: int
    target_mean_square: float
    penalty: float = 0.0
    noise: float = 0.0
    linear_noise: float = 0.0
    minimum: float = 0.0

    def __post_init__(self) -> None:
        if self.penalty < self.noise:
            raise ValueError(
                f"The penalty alpha is {self.penalty:g} but the noise may have spectral norm {self.noise:g}; training "
                "on noised statistics needs a penalty at least as large, or the loss may have no minimum."
            )

    @property
    def curvature(self) -> float:
        """Bound on the spectral norm of H, noise included and the penalty not.

        H is positive semidefinite, so its largest eigenvalue is at most its trace, and H_jj = mean of x_j^2 / c.
        """
        return self.dimension * 2.0**self.mean_square_bits / self.divisor + self.noise

    @property
    def linear_norm(self) -> float:
        """Bound on |b|_2: |b_j| <= sqrt(mean of x_j^2, times mean of t^2) by Cauchy and Schwarz."""
        return sqrt(self.dimension * 2.0**self.mean_square_bits * self.target_mean_square) + self.linear_noise


@dataclass(frozen=True, repr=False)
class QuadraticShare:
    """One party's additive share of H (object (m, m), symmetric) and b (object (m,)): integers, unit 2^-44.

    Its blocks of cross products are uniform masks or what they hide; the own block is in clear; the rest is zero.
    """

    matrix: ObjectArray
    linear: ObjectArray

    @classmethod
    def scaled(cls, matrix_sums: ObjectArray, linear_sums: ObjectArray, rows: int, divisor: int) -> QuadraticShare:
        """The share of H and b from that of X^T X and X^T t, integers in units of 2^-48 over ``rows`` records.

        Each party rounds its own share, so H and b are exact up to half a unit for each party.
        """
        excess = SUM_FRACTION_BITS - HESSIAN_FRACTION_BITS
        matrix = rounded_quotient(matrix_sums, divisor * rows << excess)
        return cls(matrix, rounded_quotient(linear_sums, rows << excess))

    def check(self, matrix_bits: int) -> None:
        """Refuse a share that masks of the agreed width would not hide."""
        if any(abs(entry) >> matrix_bits for entry in self.matrix.flat):
            raise ValueError(
                f"An entry of this party's share of the Hessian has more than {matrix_bits} bits; a column's mean "
                "square is larger than the parties agreed on."
            )


def share_bits(value_bits: int, rows: int, divisor: int) -> int:
    """``matrix_bits``: every entry of a `QuadraticShare` is below 2^share_bits in magnitude.

    ``value_bits`` are those of the `SlotLayout` of the cross products: shares of its sums, in units of 2^-48, stay below
    2^(value_bits + 42). ``rows`` is the least number of records of a batch.
    """
    shift = (divisor * rows).bit_length() - 1 + SUM_FRACTION_BITS - HESSIAN_FRACTION_BITS
    return value_bits + 42 - shift


def rounded_quotient(numbers: ObjectArray, divisor: int) -> ObjectArray:
    """Exact integers divided and rounded to the nearest integer, halves up."""
    exact: ObjectArray = np.asarray(numbers, dtype=object)
    return (2 * exact + divisor) // (2 * divisor)


# Public sizes, which every party computes alike

LOSS_FRACTION_BITS = 30
"""Weights and slopes enter a loss in units of 2^-30, the loss itself comes in units of 2^-60."""


@dataclass(frozen=True)
class StepLayout:
    """Sizes for preparing steps of so many data parties together, as many as `steps`: at most ``most_steps`` are needed.

    Shares have entries of `share_bits`, the parties' Paillier keys ``key_length`` bits. Losses of ``rows_added`` rows are
    added up, each batch's counted by its rows; 1 for a loss of its own.
    """

    bounds: QuadraticBounds
    parties: int
    key_length: int
    matrix_bits: int
    most_steps: int
    rows_added: int = 1

    def __post_init__(self) -> None:
        if self.parties < 2:
            raise ValueError(f"parties must be at least 2 data parties, got {self.parties}.")
        if self.steps < 1:
            raise ValueError(
                f"most_steps is {self.most_steps} and a key of {self.key_length} bits has room for {self._fitting} "
                "steps; at least one is needed."
            )

    @property
    def dimension(self) -> int:
        return self.bounds.dimension

    @property
    def carry_bits(self) -> int:
        """Bits of each share's head that tell how often shares modulo a modulus wrapped; none with two parties."""
        return 0 if self.parties == 2 else self.parties.bit_length() + 2

    @property
    def gradient_bits(self) -> int:
        """Bits of the moduli that gradients are shared with: 2^(41 + carry_bits) times the largest gradient.

        |H w - b|_2 <= curvature 2^WEIGHT_BITS + |b|_2, in units of 2^-84.
        """
        largest = self.bounds.curvature * 2.0**WEIGHT_BITS + self.bounds.linear_norm
        return frexp(largest)[1] + GRADIENT_FRACTION_BITS + STATISTICAL_BITS + 1 + self.carry_bits

    @property
    def loss_bits(self) -> int:
        """Bits of the moduli that losses are shared with: w^T (H w + alpha w - 2 b) fits with its sign.

        Rounding of the two factors adds at most 2^-30 sqrt(m) parties of their norms, less than the factor 2 left here.
        """
        curvature = self.bounds.curvature + self.bounds.penalty
        largest = curvature * 2.0 ** (2 * WEIGHT_BITS) + 2 * self.bounds.linear_norm * 2.0**WEIGHT_BITS
        return frexp(largest)[1] + 2 * LOSS_FRACTION_BITS + 2 + (self.rows_added - 1).bit_length()

    @property
    def steps(self) -> int:
        """Steps that are prepared together: as many as the joined masks of a coordinate leave room for."""
        return min(self.most_steps, self._fitting)

    @property
    def _fitting(self) -> int:
        for_products = room_for_moduli(self.key_length, self.matrix_bits, self.dimension) // self.gradient_bits
        # One of the joined moduli's multiplier must fit beside all moduli.
        for_losses = room_for_moduli(self.key_length, self.loss_bits, self.dimension) // self.loss_bits
        return min(for_products, for_losses)

    @property
    def losses_together(self) -> int:
        """Steps whose multipliers are joined in one, so that one ciphertext brings the losses of all of them.

        However few steps are left, it is the number for as many as fit.
        """
        room = room_for_moduli(self.key_length, 0, self.dimension) - self._fitting * self.loss_bits
        return room // self.loss_bits

    @cached_property
    def products(self) -> ProductLayout:
        """Products of a matrix share with masks of the weights."""
        system = ResidueSystem.below(self.gradient_bits, self.steps)
        return ProductLayout(system, self.dimension, self.matrix_bits, self.key_length)

    @cached_property
    def losses(self) -> ProductLayout:
        """Inner products of masks of two vectors."""
        system = ResidueSystem.below(self.loss_bits, self.steps)
        return ProductLayout(system, self.dimension, self.losses_together * self.loss_bits, self.key_length)

    def at_most(self, steps: int) -> StepLayout:
        return replace(self, most_steps=min(steps, self.most_steps))


# Prepared steps
#
# For step t the parties draw masks, each its share of three vectors, uniform modulo that step's moduli: r (hides the
# weights), and u, v (hide two vectors whose inner product is the loss). Prepared are additive shares of H r, and of u . v
# (Beaver 1991). H and every vector are sums of the parties' shares, so for each ordered pair of parties (p, q) p
# multiplies its share of H with q's share of r, and its share of v with q's share of u, under q's encryption.

Message = dict[str, bytes]


@dataclass(frozen=True, repr=False)
class StepMasks:
    """One party's shares of the masks of a chunk: object (m, steps), a column for each step. Secrets.

    ``weights`` is r, modulo the gradient moduli; ``left`` and ``right`` are u and v, modulo the loss moduli.
    """

    weights: ObjectArray
    left: ObjectArray
    right: ObjectArray


@dataclass(frozen=True, repr=False)
class StepProducts:
    """Additive shares of H r (object (m, steps)) and of u . v (object (steps,)), modulo the same moduli."""

    weights: ObjectArray
    inner: ObjectArray

    def __add__(self, other: StepProducts) -> StepProducts:
        return StepProducts(self.weights + other.weights, self.inner + other.inner)


@dataclass(frozen=True, repr=False)
class PreparedStep:
    """One party's part of one step: columns of `StepMasks` and `StepProducts`, and the step's moduli."""

    mask: ObjectArray
    product: ObjectArray
    left: ObjectArray
    right: ObjectArray
    inner: int
    gradient_modulus: int
    loss_modulus: int


class PreparedSteps:
    """One party's prepared steps, each handed out once, in order: a mask used twice would show how the weights moved.

    ``exchanged`` are this party's shares from all pairs that it is part of, both ways: what `multiply_masks` and
    `open_answer` gave it, after `encrypt_masks` sent its masks to all others.
    """

    def __init__(
        self, share: QuadraticShare, masks: StepMasks, exchanged: Sequence[StepProducts], layout: StepLayout
    ) -> None:
        expected = 2 * (layout.parties - 1)
        if len(exchanged) != expected:
            raise ValueError(f"Exchanged shares of products must be {expected}, got {len(exchanged)}.")
        own = StepProducts(share.matrix @ masks.weights, (masks.left * masks.right).sum(axis=0))
        self._masks, self._products, self._layout = masks, sum(exchanged, own), layout
        self._next = 0

    @property
    def left(self) -> int:
        return self._layout.steps - self._next

    def take(self) -> PreparedStep:
        at = self._next
        if at == self._layout.steps:
            raise ValueError(f"All {at} prepared steps are used; a mask hides the weights of one step only.")
        self._next += 1
        gradient_modulus = self._layout.products.system.moduli[at]
        loss_modulus = self._layout.losses.system.moduli[at]
        masks, products = self._masks, self._products
        return PreparedStep(
            masks.weights[:, at],
            products.weights[:, at] % gradient_modulus,
            masks.left[:, at],
            masks.right[:, at],
            int(products.inner[at]) % loss_modulus,
            gradient_modulus,
            loss_modulus,
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("Prepared steps are never pickled or copied: a copy could hand out a mask twice.")


def draw_masks(layout: StepLayout) -> StepMasks:
    """Fresh masks of one party for `StepLayout.steps` steps, from operating-system entropy."""
    weights, losses = layout.products.system.moduli, layout.losses.system.moduli
    return StepMasks(*(_uniform(layout.dimension, moduli) for moduli in (weights, losses, losses)))


def encrypt_masks(masks: StepMasks, layout: StepLayout, encryption: OwnerEncryption, expected: int = 1000) -> Message:
    """The message to every other data party: shares of r and u under the own key; ``expected`` as for its `encrypt`."""
    return {
        "weights": encrypt_vectors(masks.weights, layout.products.system, encryption, expected),
        "left": encrypt_vectors(masks.left, layout.losses.system, encryption, expected),
    }


def multiply_masks(
    share: QuadraticShare, masks: StepMasks, received: Message, layout: StepLayout, key: PublicKey
) -> tuple[Message, StepProducts]:
    """The answer to another party's `encrypt_masks` under its key, and this party's share of the products in it.

    Masks are this party's own of the same chunk. Of its share only H is read, so a chunk stays good when b changes.
    """
    share.check(layout.matrix_bits)
    products, own_products = multiply_vectors(received["weights"], share.matrix.tolist(), layout.products, key)
    # One row of multipliers for each group: what it is modulo the moduli of other steps does not matter.
    groups = [(group, ResidueSystem(layout.losses.system.moduli[group])) for group in _groups(layout)]
    joined = [[system.join(row) for row in masks.right[:, steps]] for steps, system in groups]
    inner, own_inner = multiply_vectors(received["left"], joined, layout.losses, key)
    return {"weights": products, "inner": inner}, StepProducts(own_products, _of_each_step(own_inner, layout))


def open_answer(answer: Message, layout: StepLayout, private_key: PrivateKey) -> StepProducts:
    """This party's share of the products that another party made of its masks."""
    products = open_products(answer["weights"], layout.dimension, layout.products, private_key)
    inner = open_products(answer["inner"], len(_groups(layout)), layout.losses, private_key)
    return StepProducts(products, _of_each_step(inner, layout))


def _uniform(count: int, moduli: Sequence[int]) -> ObjectArray:
    return np.array([[secrets.randbelow(modulus) for modulus in moduli] for _ in range(count)], dtype=object)


def _groups(layout: StepLayout) -> list[slice]:
    size = layout.losses_together
    return [slice(first, min(first + size, layout.steps)) for first in range(0, layout.steps, size)]


def _of_each_step(products: ObjectArray, layout: StepLayout) -> ObjectArray:
    """(groups, steps) -> (steps,): each step's remainder of its own group's product."""
    return np.concatenate([products[row, steps] for row, steps in enumerate(_groups(layout))])
