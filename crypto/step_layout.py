"""Public sizes of a shared descent: how wide numbers, moduli and messages are. Every party computes the same."""
from dataclasses import dataclass, replace
from functools import cached_property
from math import frexp

from .residue_products import STATISTICAL_BITS, ProductLayout, room_for_moduli
from .residues import ResidueSystem
from .shared_quadratic import GRADIENT_FRACTION_BITS, WEIGHT_BITS, QuadraticBounds

LOSS_FRACTION_BITS = 30
"""Weights and slopes enter a loss in units of 2^-30, the loss itself comes in units of 2^-60."""


@dataclass(frozen=True)
class StepLayout:
    """Sizes for preparing steps together, as many as `steps`.

    Attributes:
        bounds: public numbers of the quadratic.
        parties: number of data parties.
        key_length: bits of the parties' Paillier keys.
        matrix_bits: bound on the shares' entries, see `share_bits`.
        most_steps: no more than this many steps are needed.
        rows_added: losses of so many rows are added up, each batch's counted by its rows; 1 for a loss of its own.
    """

    bounds: QuadraticBounds
    parties: int
    key_length: int
    matrix_bits: int
    most_steps: int
    rows_added: int = 1

    def __post_init__(self):
        if self.parties < 2:
            raise ValueError(f"parties is {self.parties}; weights are shared between at least 2 data parties.")
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

    def at_most(self, steps: int) -> "StepLayout":
        """The layout for preparing no more than ``steps`` steps."""
        return replace(self, most_steps=min(steps, self.most_steps))
