"""What a dataset may spend in all."""
from dataclasses import dataclass

from fate_dp.privacy.accounting.privacy_parameters import check_delta_or_zero
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon


@dataclass(frozen=True)
class BudgetCap:
    """Largest total ``epsilon`` (nats) at ``delta`` that each observer may learn of one dataset, per unit and relation.

    :raises InvalidEpsilon, InvalidDelta: unless epsilon is finite and greater than 0, and delta from 0 to less than 1.
    """

    epsilon: float
    delta: float

    def __post_init__(self):
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta_or_zero(self.delta))

    def smaller(self, other: "BudgetCap") -> "BudgetCap":
        """What keeps both: the smaller epsilon at the smaller delta."""
        return BudgetCap(min(self.epsilon, other.epsilon), min(self.delta, other.delta))
