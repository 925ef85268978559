"""When training ends, decided by the guest from the loss on flipped labels or from the change of all weights."""
from statistics import fmean
from typing import List, Optional, Sequence

GOES_ON, CONVERGED, EXHAUSTED = "goes on", "converged", "exhausted"
DIVERGED = "diverged"
SETTLED = 1e-4


def refuse_divergence(state: str) -> None:
    """What every party raises where the guest's word is that the loss left all bounds."""
    if state == DIVERGED:
        raise ValueError("The loss left all bounds, so the training diverged; lower the learning rate or alpha.")


def in_words(converged: bool, losses: Sequence[float]) -> str:
    """For a summary: whether training converged, and if not, by how much the loss still changed."""
    if converged:
        return "yes"
    changed = f": the loss still changed by {abs(losses[-2] - losses[-1]):.2g} in the last epoch" if len(losses) > 1 else ""
    return f"no{changed}; more epochs may give another model"


class Convergence:
    """FATE's criteria: ``diff`` (change of the loss below tol), ``abs`` (loss at most tol), ``weight_diff`` (l2 norm of
    the change of all parties' weights in an epoch below tol).

    With tol 0 ``diff`` lets all epochs run; then training converged if the mean loss of their last tenth differs by less
    than `SETTLED` from that of the tenth before.
    """

    def __init__(self, criterion: str, tol: float):
        self._criterion, self._tol = criterion, tol
        self._losses: List[float] = []

    def state(self, epoch: int, epochs: int, loss: float, squared_change: Optional[float]) -> str:
        """One of `GOES_ON`, `CONVERGED`, `EXHAUSTED`; ``squared_change`` is needed for ``weight_diff`` only."""
        self._losses.append(loss)
        last = epoch + 1 == epochs
        if self._reached(squared_change) or last and self._settled():
            return CONVERGED
        return EXHAUSTED if last else GOES_ON

    def _reached(self, squared_change: Optional[float]) -> bool:
        if self._criterion == "abs":
            return self._losses[-1] <= self._tol
        if self._criterion == "weight_diff":
            return squared_change**0.5 < self._tol
        return len(self._losses) > 1 and abs(self._losses[-2] - self._losses[-1]) < self._tol

    def _settled(self) -> bool:
        tenth = max(1, len(self._losses) // 10)
        before, after = self._losses[-2 * tenth : -tenth], self._losses[-tenth:]
        return self._criterion == "diff" and self._tol == 0 and bool(before) and abs(fmean(before) - fmean(after)) < SETTLED
