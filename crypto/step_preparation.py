"""What steps of a shared descent need and does not depend on the weights: prepared for many steps at once.

For step t the parties draw masks, each its share of three vectors, uniform modulo that step's moduli: r (hides the
weights), and u, v (hide two vectors whose inner product is the loss). Prepared are additive shares of H r, and of u . v
(Beaver 1991). H and every vector are sums of the parties' shares, so for each ordered pair of parties (p, q) p
multiplies its share of H with q's share of r, and its share of v with q's share of u, under q's encryption: see
`residue_products`.

One exchange of messages prepares a chunk: every party sends `encrypt_masks` to all others, answers what it receives
with `multiply_masks`, and opens the answers with `open_answer`. A prepared step is used once: a mask used twice would
show how the weights moved.
"""
import secrets
from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

import numpy as np

from .owner_encryption import OwnerEncryption
from .paillier import PrivateKey, PublicKey
from .residue_products import encrypt_vectors, multiply_vectors, open_products
from .shared_quadratic import QuadraticShare
from .step_layout import StepLayout

Message = Dict[str, bytes]


@dataclass(frozen=True, repr=False)
class StepMasks:
    """One party's shares of the masks of a chunk: object (m, steps), a column for each step. Secrets.

    Attributes:
        weights: r, modulo the gradient moduli.
        left, right: u and v, modulo the loss moduli.
    """

    weights: np.ndarray
    left: np.ndarray
    right: np.ndarray


@dataclass(frozen=True, repr=False)
class StepProducts:
    """Additive shares of H r (object (m, steps)) and of u . v (object (steps,)), modulo the same moduli."""

    weights: np.ndarray
    inner: np.ndarray

    def __add__(self, other: "StepProducts") -> "StepProducts":
        return StepProducts(self.weights + other.weights, self.inner + other.inner)


@dataclass(frozen=True, repr=False)
class PreparedStep:
    """One party's part of one step: columns of `StepMasks` and `StepProducts`, and the step's moduli."""

    mask: np.ndarray
    product: np.ndarray
    left: np.ndarray
    right: np.ndarray
    inner: int
    gradient_modulus: int
    loss_modulus: int


class PreparedSteps:
    """One party's prepared steps, each handed out once, in order."""

    def __init__(self, share: QuadraticShare, masks: StepMasks, exchanged: Sequence[StepProducts], layout: StepLayout):
        """
        Args:
            exchanged: this party's shares from all pairs that it is part of, both ways: what `multiply_masks` and
                `open_answer` gave it.
        """
        expected = 2 * (layout.parties - 1)
        if len(exchanged) != expected:
            raise ValueError(f"{len(exchanged)} shares of products were exchanged; there must be {expected}.")
        own = StepProducts(share.matrix @ masks.weights, (masks.left * masks.right).sum(axis=0))
        self._masks, self._products, self._layout = masks, sum(exchanged, own), layout
        self._next = 0

    @property
    def left(self) -> int:
        """Steps that are not handed out yet."""
        return self._layout.steps - self._next

    def take(self) -> PreparedStep:
        """The next step."""
        at = self._next
        if at == self._layout.steps:
            raise ValueError(f"All {at} prepared steps are used; a mask hides the weights of one step only.")
        self._next += 1
        gradient_modulus, loss_modulus = (
            products.system.moduli[at] for products in (self._layout.products, self._layout.losses)
        )
        masks, products = self._masks, self._products
        return PreparedStep(
            masks.weights[:, at], products.weights[:, at] % gradient_modulus, masks.left[:, at], masks.right[:, at],
            int(products.inner[at]) % loss_modulus, gradient_modulus, loss_modulus,
        )  # fmt: skip

    def __reduce__(self):
        raise TypeError("Prepared steps are never pickled or copied: a copy could hand out a mask twice.")


def draw_masks(layout: StepLayout) -> StepMasks:
    """Fresh masks of one party for `StepLayout.steps` steps, from operating-system entropy."""
    weights, losses = layout.products.system.moduli, layout.losses.system.moduli
    return StepMasks(*(_uniform(layout.dimension, moduli) for moduli in (weights, losses, losses)))


def encrypt_masks(masks: StepMasks, layout: StepLayout, encryption: OwnerEncryption, expected: int = 1000) -> Message:
    """The message to every other data party: shares of r and u under the own key.

    Args:
        expected: encryptions under this key that this process makes in all, see `OwnerEncryption.encrypt`.
    """
    return {
        "weights": encrypt_vectors(masks.weights, layout.products.system, encryption, expected),
        "left": encrypt_vectors(masks.left, layout.losses.system, encryption, expected),
    }


def multiply_masks(
    share: QuadraticShare, masks: StepMasks, received: Message, layout: StepLayout, key: PublicKey
) -> Tuple[Message, StepProducts]:
    """The answer to another party's `encrypt_masks`, and this party's share of the products in it.

    Args:
        share: this party's share of H and b; only H is read, so a chunk stays good when b changes.
        masks: this party's own masks of the same chunk.
        received: the other party's message.
        key: the other party's key.
    """
    share.check(layout.matrix_bits)
    products, own_products = multiply_vectors(
        received["weights"], share.matrix.tolist(), layout.products, key
    )
    inner, own_inner = multiply_vectors(
        received["left"], _joined_right(masks, layout), layout.losses, key
    )
    return {"weights": products, "inner": inner}, StepProducts(own_products, _of_each_step(own_inner, layout))


def open_answer(answer: Message, layout: StepLayout, private_key: PrivateKey) -> StepProducts:
    """This party's share of the products that another party made of its masks."""
    products = open_products(answer["weights"], layout.dimension, layout.products, private_key)
    inner = open_products(answer["inner"], len(_groups(layout)), layout.losses, private_key)
    return StepProducts(products, _of_each_step(inner, layout))


def _uniform(count: int, moduli: Sequence[int]) -> np.ndarray:
    return np.array([[secrets.randbelow(modulus) for modulus in moduli] for _ in range(count)], dtype=object)


def _groups(layout: StepLayout) -> List[Tuple[int, int]]:
    """Steps whose multipliers are joined: [(first, after the last), ...]."""
    size = layout.losses_together
    return [(first, min(first + size, layout.steps)) for first in range(0, layout.steps, size)]


def _joined_right(masks: StepMasks, layout: StepLayout) -> List[List[int]]:
    """One row of multipliers for each group: what it is modulo the moduli of other steps does not matter."""
    system = layout.losses.system
    return [
        [system.part(first, last).join(row) for row in masks.right[:, first:last]] for first, last in _groups(layout)
    ]


def _of_each_step(products: np.ndarray, layout: StepLayout) -> np.ndarray:
    """(groups, steps) -> (steps,): each step's remainder of its own group's product."""
    return np.concatenate([products[row, first:last] for row, (first, last) in enumerate(_groups(layout))])
