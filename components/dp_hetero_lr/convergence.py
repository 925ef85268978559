"""When training ends, decided by the guest from the loss on flipped labels or from the change of all weights."""
from typing import Optional

GOES_ON, CONVERGED, EXHAUSTED = "goes on", "converged", "exhausted"
DIVERGED = "diverged"


def refuse_divergence(state: str) -> None:
    """What every party raises where the guest's word is that the loss left all bounds."""
    if state == DIVERGED:
        raise ValueError("The loss left all bounds, so the training diverged; lower the learning rate or alpha.")


class Convergence:
    """FATE's criteria: ``diff`` (change of the loss below tol), ``abs`` (loss at most tol), ``weight_diff`` (l2 norm of
    the change of all parties' weights in an epoch below tol)."""

    def __init__(self, criterion: str, tol: float):
        self._criterion, self._tol = criterion, tol
        self._previous_loss: Optional[float] = None

    def state(self, epoch: int, epochs: int, loss: float, squared_change: Optional[float]) -> str:
        """One of `GOES_ON`, `CONVERGED`, `EXHAUSTED`; ``squared_change`` is needed for ``weight_diff`` only."""
        if self._reached(loss, squared_change):
            return CONVERGED
        return EXHAUSTED if epoch + 1 == epochs else GOES_ON

    def _reached(self, loss: float, squared_change: Optional[float]) -> bool:
        previous, self._previous_loss = self._previous_loss, loss
        if self._criterion == "abs":
            return loss <= self._tol
        if self._criterion == "weight_diff":
            return squared_change**0.5 < self._tol
        return previous is not None and abs(previous - loss) < self._tol
