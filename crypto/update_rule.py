"""Stochastic gradient descent as torch.optim.SGD does it, in public coefficients: linear in weights and gradients."""
from dataclasses import dataclass
from math import inf
from typing import Sequence, Tuple

_IGNORED = {"lr", "foreach", "fused", "differentiable"}
"""Where torch computes, and the rate, which the schedule brings."""
_TAKEN = {"momentum", "dampening", "nesterov", "weight_decay"}


@dataclass(frozen=True)
class UpdateRule:
    """Public numbers under torch's names.

    Attributes:
        learning_rates: step size of every epoch.
        momentum: what is left of the velocity at each step.
        dampening: 1 - dampening is the gradient's weight in the velocity, except in the first one.
        nesterov: whether a step looks ahead along the velocity.
        weight_decay: pulls towards the weights where training started, as FATE's optimiser counts from there.
    """

    learning_rates: Tuple[float, ...]
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self):
        numbers = {name: getattr(self, name) for name in ("momentum", "weight_decay")}
        numbers |= {"the learning rate": rate for rate in self.learning_rates}
        for name, value in numbers.items():
            if not 0 <= value < inf:
                raise ValueError(f"{name} is {value!r}; it must be finite and not negative.")
        if self.momentum >= 1:
            raise ValueError(f"momentum is {self.momentum!r}; it must be below 1, or the weights may leave all bounds.")
        if not abs(self.dampening) < inf:
            raise ValueError(f"dampening is {self.dampening!r}; it must be finite.")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise ValueError("nesterov needs momentum above 0 and dampening 0.")

    @classmethod
    def from_sgd(cls, optimizer_params: dict, learning_rates: Sequence[float]) -> "UpdateRule":
        """From the parameters of torch.optim.SGD.

        Raises:
            ValueError: one of them is unknown, or asks to climb the loss.
        """
        for name, value in optimizer_params.items():
            if name not in _TAKEN | _IGNORED and (name != "maximize" or value):
                raise ValueError(f"optimizer_params has {name} {value!r}, which shared descent does not take.")
        taken = {name: value for name, value in optimizer_params.items() if name in _TAKEN}
        return cls(tuple(map(float, learning_rates)), **taken)

    @property
    def fastest(self) -> float:
        """The largest learning rate."""
        return max(self.learning_rates)
