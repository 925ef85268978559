"""How sure a figure of an attack is."""

from __future__ import annotations

from dataclasses import dataclass

from fate_dp.privacy.auditing.bounds import clopper_pearson
from fate_dp.privacy.validation import InvalidArgument

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A confidence interval, and how it was made."""

    low: float
    high: float
    method: str
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise InvalidArgument(f"The interval from {self.low:g} to {self.high:g} has its ends in the wrong order.")


def share_interval(successes: int, trials: int) -> Interval:
    """Clopper and Pearson's interval of a share of independent trials."""
    low, high = clopper_pearson([successes], trials, (1 - CONFIDENCE) / 2)
    return Interval(float(low[0]), float(high[0]), f"Clopper-Pearson over {trials} trials")
